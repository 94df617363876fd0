/* Scans: sweeps in phases over blocks of columns, or over the rows of a strip of columns.
 *
 * In each phase a loop over the block's columns computes the operands of the next scans and
 * stores them in arrays b<id>, which the functions of scan.h scan in place; b<id> then has the
 * values.  i<id> has indices.  An operand that is only read from memory, and a value that is
 * only stored, need no array.  The state of a scan is s<id>. */
#include "emit/dialect.h"
#include <string.h>

static cr_dtype scan_memory(cr_dtype t) { return t == CR_BOOL ? CR_U8 : t; }

static const char *scan_type(const cr_expr *e)
{
    return cr_spell_dtype(scan_memory((cr_dtype)e->dtype));
}

static bool scan_keeps_index(const cr_expr *e) { return cr_fn_keeps_index((cr_fn)e->fn); }

/* --- definitions --- */

static void scan_define_line(cr_printer *p, const cr_expr *e)
{
    const char *fn = cr_fn_infos[e->fn].name, *t = scan_type(e);
    cr_dtype wide = cr_scan_running((cr_fn)e->fn, (cr_dtype)e->dtype);

    if (scan_keeps_index(e))
        cr_text_printf(p->out, "CK_DEFINE_LINE_INDEX(%s, %s, CK_TAKE_%s)\n\n", fn, t,
                       cr_dtype_is_float((cr_dtype)e->dtype) ? "RARE" : "OFTEN");
    else /* integers wrap */
        cr_text_printf(p->out, "CK_DEFINE_LINE(%s, %s, %s)\n\n", fn, t,
                       cr_dtype_category(wide) >= CR_CAT_FLOAT ? cr_spell_dtype(wide)
                       : wide == CR_I64                        ? "u64"
                                                               : "u32");
}

static void scan_define_down(cr_printer *p, const cr_expr *e)
{
    const char *fn = cr_fn_infos[e->fn].name, *t = scan_type(e);
    cr_dtype wide = cr_scan_running((cr_fn)e->fn, (cr_dtype)e->dtype);
    int bits = 8 * (int)cr_dtype_size((cr_dtype)e->dtype);

    if (scan_keeps_index(e))
        cr_text_printf(p->out, "CK_DEFINE_DOWN_INDEX(%s, %s, m%d, %d, %s)\n\n", fn, t, bits,
                       bits,
                       cr_dtype_is_float((cr_dtype)e->dtype) ? fn
                       : e->fn == CR_FN_above                ? "gt"
                                                             : "lt");
    else
        cr_text_printf(p->out, "CK_DEFINE_DOWN(%s, %s, %s)\n\n", fn, t, cr_spell_dtype(wide));
}

void cr_define_scans(cr_printer *p)
{
    for (int i = 0; i < p->n->scans.count; i++) {
        const cr_expr *e = p->n->scans.at[i];
        uint32_t *defined = &p->u->scans[p->n->scans_rows][e->fn];
        cr_dtype t = scan_memory((cr_dtype)e->dtype);
        if (*defined >> t & 1)
            continue;
        *defined |= 1u << t;
        p->u->scan = true;
        if (p->n->scans_rows)
            scan_define_down(p, e);
        else
            scan_define_line(p, e);
    }
}

/* --- operands and values that need no array --- */

/* The values of the sweep that read `e`, and its stores. */
static int scan_readers(const cr_printer *p, const cr_expr *e)
{
    cr_expr_set seen = cr_expr_set_new(p->n->loop);
    int n = 0;

    for (size_t i = 0; i < p->n->loop->defs.len; i++)
        n += cr_expr_readers(&seen, p->n->loop->defs.at[i]->value, e) +
             (p->n->loop->defs.at[i]->value == e);
    return n;
}

/* The operand that is stored in `e` alone, or NULL.  Outputs that keep values are in use. */
static const cr_buffer *scan_target(const cr_printer *p, const cr_expr *e)
{
    const cr_sweep *sweep = &p->n->sweep[p->at.sweep];

    for (int i = 0; i < sweep->stores && !p->n->keeps; i++)
        if (sweep->store[i].value == e && sweep->store[i].buffer->dtype == e->dtype &&
            scan_readers(p, e) == 1)
            return sweep->store[i].buffer;
    return NULL;
}

/* True for a scan's value or index that the function of scan.h stores in the operand. */
static bool scan_is_stored(const cr_printer *p, const cr_expr *e)
{
    return (e->kind == CR_EXPR_SCAN || cr_expr_is_scan_index(e)) && scan_target(p, e);
}

static bool scan_reads_memory(const cr_printer *p, const cr_expr *x)
{
    return x->kind == CR_EXPR_LOAD && !x->count && !cr_nest_kept(p->n, x, p->at.sweep) &&
           cr_nest_scope(p->n, x) == CR_SCOPE_COLUMN;
}

/* --- arrays --- */

static const char *scan_array(cr_printer *p, const cr_expr *e)
{
    return e->kind == CR_EXPR_SCAN ? cr_session_printf(p->s, "b%u", e->id)
                                   : cr_session_printf(p->s, "i%u", e->args[0]->id);
}

/* The operand in which the indices of scan `e` are stored alone, or NULL. */
static const cr_buffer *scan_index_target(const cr_printer *p, const cr_expr *e)
{
    const cr_sweep *sweep = &p->n->sweep[p->at.sweep];

    for (int i = 0; i < sweep->stores; i++)
        if (cr_expr_is_scan_index(sweep->store[i].value) && sweep->store[i].value->args[0] == e)
            return scan_target(p, sweep->store[i].value);
    return NULL;
}

static void scan_declare(cr_printer *p)
{
    const char *way = p->n->scans_rows ? "down" : "line";
    const char *size = p->n->scans_rows ? "CK_SCAN_STRIP" : "CR_SCAN_BLOCK";

    for (int i = 0; i < p->n->scans.count; i++) {
        const cr_expr *e = p->n->scans.at[i];
        cr_print_line(p, "ck_%s_%s_%s s%u;", way, cr_fn_infos[e->fn].name, scan_type(e), e->id);
        if (!p->n->scans_rows)
            cr_print_line(p, "s%u.started = 0;", e->id);
        if (!scan_is_stored(p, e) || !scan_reads_memory(p, e->args[0]))
            cr_print_line(p, "cv_s_%s b%u[%s];", scan_type(e), e->id, size);
        if (scan_keeps_index(e) && !scan_index_target(p, e))
            cr_print_line(p, "cv_s_i64 i%u[%s];", e->id, size);
    }
}

/* Declares v<id>, the vector of a scan's values or indices. */
void cr_print_scanned(cr_printer *p, const cr_expr *e)
{
    cr_buffer array = {.dtype = e->dtype, .ndim = 2};

    p->at.base = cr_session_printf(p->s, "(const char *)%s", scan_array(p, e));
    p->at.from_first = true;
    for (p->lanes.part = 0; p->lanes.part < cr_spell_parts(p, (cr_dtype)e->dtype);
         p->lanes.part++)
        cr_print_value(p, e, p->dialect->load(p, &array));
    p->lanes.part = 0;
    p->at.base = NULL;
    p->at.from_first = false;
}

static void scan_store_operand(cr_printer *p, const cr_expr *e)
{
    cr_buffer array = {.dtype = e->dtype, .ndim = 2};

    p->at.base = cr_session_printf(p->s, "(char *)b%u", e->id);
    p->at.from_first = true;
    p->dialect->store(p, &(cr_store){&array, e->args[0]});
    p->at.base = NULL;
    p->at.from_first = false;
}

/* --- phases --- */

/* True when a loop must store the operand of a scan in its array. */
static bool scan_needs_loop(const cr_printer *p, const cr_expr *e)
{
    return p->n->phase[e->args[0]->id] == p->at.phase && e->args[0]->kind != CR_EXPR_SCAN &&
           !scan_reads_memory(p, e->args[0]);
}

/* The body of the loop of phase p->phase. */
void cr_print_phase(cr_printer *p)
{
    const cr_sweep *sweep = &p->n->sweep[p->at.sweep];
    bool last = p->at.phase == p->n->phases - 1;

    for (int i = 0; i < p->n->scans.count; i++)
        if (scan_needs_loop(p, p->n->scans.at[i]))
            cr_print_column(p, p->n->scans.at[i]->args[0]);
    for (int i = 0; i < sweep->stores && last; i++)
        if (!scan_is_stored(p, sweep->store[i].value))
            cr_print_column(p, sweep->store[i].value);
    for (int i = 0; i < p->n->scans.count; i++)
        if (scan_needs_loop(p, p->n->scans.at[i]))
            scan_store_operand(p, p->n->scans.at[i]);
    for (int i = 0; i < sweep->stores && last; i++)
        if (!scan_is_stored(p, sweep->store[i].value))
            p->dialect->store(p, &sweep->store[i]);
}

static bool scan_has_loop(const cr_printer *p)
{
    const cr_sweep *sweep = &p->n->sweep[p->at.sweep];
    bool any = false;

    for (int i = 0; i < p->n->scans.count; i++)
        any = any || scan_needs_loop(p, p->n->scans.at[i]);
    for (int i = 0; i < sweep->stores && p->at.phase == p->n->phases - 1; i++)
        any = any || !scan_is_stored(p, sweep->store[i].value);
    return any;
}

/* True when a scan takes the last element of a block first. */
static bool scan_starts_last(const cr_printer *p)
{
    return !p->n->scans_rows && p->n->scans.at[0]->back;
}

/* The address of the first element that a scan takes, or that it stores. */
static const char *scan_operand(cr_printer *p, const cr_buffer *b)
{
    int k = cr_operand_number(p, b);
    const char *t =
        cr_session_printf(p->s, "(%scv_s_%s *)", b->role == CR_BUFFER_INPUT ? "const " : "",
                          cr_spell_dtype(scan_memory((cr_dtype)b->dtype)));

    if (p->n->scans_rows)
        return cr_session_printf(p->s, "%sp%d + first", t, k);
    return cr_session_printf(p->s, "%s(p%d + %s * stride[%d])", t, k,
                             scan_starts_last(p) ? "(end - 1)" : "first", 2 * k + 1);
}

static const char *scan_in_array(cr_printer *p, char letter, const cr_expr *e)
{
    return cr_session_printf(p->s, "%c%u%s", letter, e->id,
                             scan_starts_last(p) ? " + (end - first - 1)" : "");
}

/* Elements from one to the next that a scan takes. */
static const char *scan_step(cr_printer *p, const cr_buffer *b)
{
    const char *sign = scan_starts_last(p) ? "-" : "";

    if (!b)
        return cr_session_printf(p->s, "%s1", sign);
    return cr_session_printf(p->s, "%sstride[%d] / %d", sign, 2 * cr_operand_number(p, b) + 1,
                             (int)cr_dtype_size((cr_dtype)b->dtype));
}

/* A place of elements, and their step. */
typedef struct {
    const char *at, *step;
} scan_place;

static scan_place scan_place_of(cr_printer *p, const cr_buffer *b, char letter,
                                const cr_expr *e)
{
    return (scan_place){b ? scan_operand(p, b) : scan_in_array(p, letter, e), scan_step(p, b)};
}

/* Where a scan reads its operand: in memory, in an earlier scan's values, or in its array. */
static scan_place scan_source(cr_printer *p, const cr_expr *e)
{
    const cr_expr *x = e->args[0];

    if (x->kind == CR_EXPR_SCAN)
        return scan_place_of(p, scan_target(p, x), 'b', x);
    return scan_place_of(p, scan_reads_memory(p, x) ? x->buffer : NULL, 'b', e);
}

/* Calls the function of scan.h for row r of the strip. */
static void scan_call_row(cr_printer *p, const cr_expr *e)
{
    scan_place to = scan_place_of(p, scan_target(p, e), 'b', e), from = scan_source(p, e);
    scan_place index = scan_place_of(p, scan_index_target(p, e), 'i', e);
    const char *name =
        cr_session_printf(p->s, "ck_row_%s_%s", cr_fn_infos[e->fn].name, scan_type(e));

    if (scan_keeps_index(e))
        cr_print_line(p, "%s(&s%u, %s, %s, %s, end - first, r, !i);", name, e->id, to.at,
                      index.at, from.at);
    else
        cr_print_line(p, "%s(&s%u, %s, %s, end - first, i);", name, e->id, to.at, from.at);
}

/* Calls the function of scan.h for the block. */
static void scan_call_block(cr_printer *p, const cr_expr *e)
{
    scan_place to = scan_place_of(p, scan_target(p, e), 'b', e), from = scan_source(p, e);
    scan_place index = scan_place_of(p, scan_index_target(p, e), 'i', e);
    const char *name =
        cr_session_printf(p->s, "ck_take_%s_%s", cr_fn_infos[e->fn].name, scan_type(e));

    if (scan_keeps_index(e))
        cr_print_line(p, "%s(&s%u, %s, %s, %s, end - first, %s, %s, %s, %s);", name, e->id,
                      to.at, index.at, from.at, to.step, index.step, from.step,
                      scan_starts_last(p) ? "end - 1, -1" : "first, 1");
    else
        cr_print_line(p, "%s(&s%u, %s, %s, end - first, %s, %s);", name, e->id, to.at, from.at,
                      to.step, from.step);
}

static void scan_call(cr_printer *p, const cr_expr *e)
{
    if (p->n->scans_rows)
        scan_call_row(p, e);
    else
        scan_call_block(p, e);
}

static void scan_phases(cr_printer *p)
{
    p->at.phased = true;
    for (p->at.phase = 0; p->at.phase < p->n->phases; p->at.phase++) {
        if (scan_has_loop(p)) {
            cr_print_line(p, "{");
            p->at.indent++;
            p->dialect->some_columns(p, "first", "end");
            cr_print_shut(p);
        }
        for (int i = 0; i < p->n->scans.count; i++)
            if (p->n->phase[p->n->scans.at[i]->args[0]->id] == p->at.phase)
                scan_call(p, p->n->scans.at[i]);
    }
    p->at.phase = 0;
    p->at.phased = false;
}

/* --- sweeps --- */

void cr_print_scan_row(cr_printer *p)
{
    scan_declare(p);
    cr_print_open(p, "for (cv_s_i64 done = 0; done < columns; done += CR_SCAN_BLOCK)");
    if (p->n->scans.at[0]->back) {
        cr_print_line(p, "const cv_s_i64 end = columns - done;");
        cr_print_line(p, "const cv_s_i64 first = ck_most(0, end - CR_SCAN_BLOCK);");
    } else {
        cr_print_line(p, "const cv_s_i64 first = done;");
        cr_print_line(p, "const cv_s_i64 end = ck_least(columns, first + CR_SCAN_BLOCK);");
    }
    scan_phases(p);
    cr_print_shut(p);
}

void cr_print_scan_columns(cr_printer *p)
{
    const cr_sweep *sweep = &p->n->sweep[0];

    p->at.sweep = 0;
    cr_print_open(p, "for (cv_s_i64 first = 0; first < columns; first += CK_SCAN_STRIP)");
    cr_print_line(p, "const cv_s_i64 end = ck_least(columns, first + CK_SCAN_STRIP);");
    scan_declare(p);
    cr_print_open(p, "for (cv_s_i64 i = 0; i < rows; i++)");
    cr_print_line(p, "const cv_s_i64 r = %s;", p->n->scans.at[0]->back ? "rows - 1 - i" : "i");
    cr_print_pointers(p, true);
    cr_print_sweep_values(p, sweep);
    scan_phases(p);
    cr_print_shut(p);
    cr_print_shut(p);
}
