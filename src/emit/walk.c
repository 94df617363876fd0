/* The walk over a nest.
 *
 * A value is declared once, in the outermost scope where it is constant: the kernel, a row, or
 * a column.  Values of a row are no longer declared after the row. */
#include "emit/dialect.h"
#include <string.h>

/* --- values at the start of their scopes --- */

void cr_print_value(cr_printer *p, const cr_expr *e, const char *text)
{
    cr_print_line(p, "const cv_%s %s = %s;", cr_spell_vector(p, (cr_dtype)e->dtype),
                  cr_spell_name(p, e), text);
}

static void walk_parts(cr_printer *p, const cr_expr *e)
{
    for (int q = 0; q < cr_spell_parts(p, (cr_dtype)e->dtype); q++) {
        p->lanes.part = q;
        cr_print_value(p, e, cr_spell_value(p, e));
    }
    p->lanes.part = 0;
}

static void walk_load(cr_printer *p, const cr_expr *e, const cr_buffer *b)
{
    for (int q = 0; q < cr_spell_parts(p, (cr_dtype)e->dtype); q++) {
        p->lanes.part = q;
        cr_print_value(p, e, p->dialect->load(p, b));
    }
    p->lanes.part = 0;
}

static void walk_declare(cr_printer *p, const cr_expr *e)
{
    if (cr_expr_is_indexed(e))
        cr_print_indexed(p, e);
    else
        walk_parts(p, e);
}

/* True when the arguments are scalar code inside the value's text. */
static bool walk_skips_args(const cr_expr *e)
{
    return cr_expr_takes_scalars(e) || cr_expr_is_indexed(e);
}

/* Declares the kernel's values under `e`, once. */
static void walk_kernel_values(cr_printer *p, cr_expr_set *seen, const cr_expr *e)
{
    if (!cr_expr_set_add(seen, e))
        return;
    if (!walk_skips_args(e))
        for (int i = 0; i < e->count; i++)
            walk_kernel_values(p, seen, e->args[i]);
    if (cr_nest_scope(p->n, e) == CR_SCOPE_KERNEL) {
        cr_expr_set_add(&p->hoisted, e);
        walk_declare(p, e);
    }
}

/* Declares the values of a row that sweep `p->sweep` needs; later sweeps are not visited. */
static void walk_row_values(cr_printer *p, cr_expr_set *seen, const cr_expr *e)
{
    if (!cr_expr_set_add(seen, e) || cr_nest_kept(p->n, e, p->at.sweep))
        return;
    if (cr_nest_scope(p->n, e) <= CR_SCOPE_ROW) {
        if (e->kind != CR_EXPR_REDUCE)
            for (int i = 0; i < e->count && !walk_skips_args(e); i++)
                walk_row_values(p, seen, e->args[i]);
        if (e->kind != CR_EXPR_REDUCE && cr_expr_set_add(&p->hoisted, e))
            walk_declare(p, e);
        return;
    }
    if (cr_expr_is_indexed(e) && cr_expr_set_add(&p->hoisted, e))
        cr_print_indexed_row(p, e);
    for (int i = 0; i < e->count && !walk_skips_args(e); i++)
        walk_row_values(p, seen, e->args[i]);
}

/* Declares the per-column values under `e`. */
static void walk_column_values(cr_printer *p, const cr_expr *e)
{
    const cr_buffer *kept = cr_nest_kept(p->n, e, p->at.sweep);

    if (cr_nest_scope(p->n, e) != CR_SCOPE_COLUMN || !cr_expr_set_add(&p->inner, e))
        return;
    if (e->kind == CR_EXPR_SCAN || cr_expr_is_scan_index(e)) {
        cr_print_scanned(p, e);
        return;
    }
    if (kept) {
        walk_load(p, e, kept);
        return;
    }
    if (!walk_skips_args(e))
        for (int i = 0; i < e->count; i++)
            walk_column_values(p, e->args[i]);
    walk_declare(p, e);
}

void cr_print_sweep_values(cr_printer *p, const cr_sweep *sweep)
{
    cr_expr_set seen = cr_expr_set_new(p->n->loop);

    for (int i = 0; i < sweep->reduces.count; i++)
        walk_row_values(p, &seen, sweep->reduces.at[i]->args[0]);
    for (int i = 0; i < sweep->stores; i++)
        walk_row_values(p, &seen, sweep->store[i].value);
}

/* --- bodies of loops over columns --- */

void cr_print_column(cr_printer *p, const cr_expr *e) { walk_column_values(p, e); }

void cr_print_column_value(cr_printer *p, const cr_expr *e)
{
    p->inner = cr_expr_set_new(p->n->loop);
    walk_column_values(p, e);
}

/* Combines the operand into a<id>[k]; lanes beyond the row are the identity. */
static void walk_accumulate(cr_printer *p, const cr_expr *e, const char *target)
{
    const cr_expr *x = e->args[0];
    const char *t = cr_spell_vector(p, (cr_dtype)e->dtype), *v = cr_spell_name(p, x);

    if (p->at.how != CR_ACCESS_WHOLE && !p->dialect->lanes_are_rows) {
        bool two = cr_spell_parts(p, (cr_dtype)e->dtype) == 2;
        const char *full = cr_session_printf(p->s, "cv_select_%s(cv_firstn_%d(%s), %s, z%u)", t,
                                             two ? 64 : p->lanes.width,
                                             cr_spell_rest(p, (cr_dtype)e->dtype), v, e->id);
        if (p->at.how == CR_ACCESS_EITHER)
            full = cr_session_printf(p->s, "m == CV_LANES_%s ? %s : %s",
                                     cr_spell_dtype(p->lanes.lane), v, full);
        v = cr_session_printf(p->s, "x%s", cr_spell_name(p, e) + 1);
        cr_print_line(p, "const cv_%s %s = %s;", t, v, full);
    }
    cr_print_line(p, "%s = %s;", target, cr_spell_combine(p, e, target, v));
}

void cr_print_body(cr_printer *p, const char *index)
{
    const cr_sweep *sweep = &p->n->sweep[p->at.sweep];

    p->inner = cr_expr_set_new(p->n->loop);
    if (p->at.phased) {
        cr_print_phase(p);
        return;
    }
    for (int i = 0; i < sweep->reduces.count; i++)
        walk_column_values(p, sweep->reduces.at[i]->args[0]);
    for (int i = 0; i < sweep->stores; i++)
        walk_column_values(p, sweep->store[i].value);
    for (int i = 0; i < sweep->stores; i++)
        p->dialect->store(p, &sweep->store[i]);
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        const char *at = p->dialect->lanes_are_rows && !cr_expr_has_order(e) ? "0" : index;
        int parts = cr_spell_parts(p, (cr_dtype)e->dtype);
        if (cr_expr_keeps_index(e) && p->dialect->keep_index) {
            p->dialect->keep_index(p, e);
            continue;
        }
        for (p->lanes.part = 0; p->lanes.part < parts; p->lanes.part++)
            walk_accumulate(p, e,
                            parts == 1 ? cr_session_printf(p->s, "a%u[%s]", e->id, at)
                                       : cr_session_printf(p->s, "a%u[2 * %s + %d]", e->id, at,
                                                           p->lanes.part));
        p->lanes.part = 0;
    }
}

/* --- rows --- */

static const char *walk_result(cr_printer *p, const cr_expr *e)
{
    return p->dialect->lanes_are_rows
               ? cr_session_printf(p->s, "a%u[%d]", e->id, p->lanes.part)
               : cr_spell_set1(p, (cr_dtype)e->dtype, cr_session_printf(p->s, "s%u", e->id));
}

/* Declares the results of a sweep's reductions, values of the row. */
static void walk_results(cr_printer *p, const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        p->dialect->end_fold(p, e);
        cr_expr_set_add(&p->hoisted, e);
        for (int q = 0; q < cr_spell_parts(p, (cr_dtype)e->dtype); q++) {
            p->lanes.part = q;
            cr_print_value(p, e, cr_spell_without_order(p, e, walk_result(p, e)));
        }
        p->lanes.part = 0;
    }
}

/* Variables of a sweep's loop are in a separate block; its results are declared outside. */
static void walk_sweep(cr_printer *p, int k)
{
    const cr_sweep *sweep = &p->n->sweep[k];

    p->at.sweep = k;
    cr_print_sweep_values(p, sweep);
    if (p->n->scans.count && k == p->n->sweeps - 1) {
        cr_print_scan_row(p);
        return;
    }
    if (p->n->sweeps == 1 && !sweep->reduces.count) {
        p->dialect->pointwise(p);
        return;
    }
    if (!sweep->reduces.count && sweep->stores) {
        cr_print_line(p, "{");
        p->at.indent++;
        p->dialect->columns_loop(p);
        cr_print_shut(p);
    }
    if (sweep->reduces.count) {
        p->dialect->begin_folds(p, sweep);
        p->dialect->fold_row(p, sweep);
        walk_results(p, sweep);
    }
}

/* True when a row's index is one number k<id>, which the store writes directly. */
static bool walk_stores_number(const cr_printer *p, const cr_expr *e)
{
    return e->kind == CR_EXPR_INDEX_OF && !p->dialect->lanes_are_rows;
}

static void walk_row_stores(cr_printer *p)
{
    for (int i = 0; i < p->n->row_stores; i++) {
        const cr_store *st = &p->n->row_store[i];
        cr_expr_set seen = cr_expr_set_new(p->n->loop);
        if (!walk_stores_number(p, st->value))
            walk_row_values(p, &seen, st->value);
        p->dialect->store_row(p, &p->n->row_store[i]);
    }
}

void cr_print_pointers(cr_printer *p, bool outputs_too)
{
    for (int k = 0; k < p->operands; k++) {
        bool out = p->operand[k]->role == CR_BUFFER_OUTPUT;
        if (out && !outputs_too)
            continue;
        const char *held = out ? "" : "const ",
                   *fixed = p->operand[k]->flexible ? "" : "const ";
        if (p->choice.outer && p->n->kind == CR_NEST_ROWS)
            cr_print_line(p, "%schar *%sp%d = ck_at(call, place, %d);", held, fixed, k, k);
        else
            cr_print_line(p, "%schar *%sp%d = (%schar *)ptr[%d] + r * stride[%d];", held, fixed,
                          k, held, k, 2 * k);
    }
}

/* Declares results of the sweeps before sweep `k`, or stores those of sweep `k`. */
static void walk_kept_results(cr_printer *p, int k, bool store)
{
    for (int q = store ? k : 0; q < k + store; q++)
        for (int i = 0; i < p->n->sweep[q].reduces.count; i++) {
            const cr_expr *e = p->n->sweep[q].reduces.at[i];
            cr_expr_set_add(&p->hoisted, e);
            for (p->lanes.part = 0; p->lanes.part < cr_spell_parts(p, (cr_dtype)e->dtype);
                 p->lanes.part++) {
                const char *name = cr_spell_name(p, e);
                const char *kept = cr_session_printf(p->s, "w%s[r - from_row]", name + 1);
                if (store)
                    cr_print_line(p, "%s = %s;", kept, name);
                else
                    cr_print_value(p, e, kept);
            }
            p->lanes.part = 0;
        }
}

/* Values of a row are declared again in the next row. */
static void walk_forget_row(cr_printer *p, const cr_expr_set *outside)
{
    p->hoisted = *outside;
    p->hoisted.bits =
        cr_session_copy(p->s, outside->bits, outside->words * sizeof *outside->bits);
}

/* Several rows go through a sweep before the next sweep begins.  A sweep needs results of the
 * one before; so a processor has other rows to compute while it waits for them. */
static void walk_rows_together(cr_printer *p)
{
    cr_expr_set outside = p->hoisted;

    p->dialect->open_rows(p);
    for (int k = 0; k + 1 < p->n->sweeps; k++)
        for (int i = 0; i < p->n->sweep[k].reduces.count; i++) {
            const cr_expr *e = p->n->sweep[k].reduces.at[i];
            for (p->lanes.part = 0; p->lanes.part < cr_spell_parts(p, (cr_dtype)e->dtype);
                 p->lanes.part++)
                cr_print_line(p, "cv_%s w%s[CK_ROWS_TOGETHER];",
                              cr_spell_vector(p, (cr_dtype)e->dtype), cr_spell_name(p, e) + 1);
            p->lanes.part = 0;
        }
    for (int k = 0; k < p->n->sweeps; k++) {
        p->dialect->open_row(p);
        walk_forget_row(p, &outside);
        walk_kept_results(p, k, false);
        walk_sweep(p, k);
        if (k + 1 < p->n->sweeps)
            walk_kept_results(p, k, true);
        else
            walk_row_stores(p);
        cr_print_shut(p);
    }
    cr_print_shut(p);
    p->hoisted = outside;
}

static void walk_rows(cr_printer *p)
{
    cr_expr_set outside = p->hoisted;

    if (p->together) {
        walk_rows_together(p);
        return;
    }
    p->dialect->open_row(p);
    walk_forget_row(p, &outside);
    for (int k = 0; k < p->n->sweeps; k++)
        walk_sweep(p, k);
    walk_row_stores(p);
    cr_print_shut(p);
    p->hoisted = outside;
}

/* --- the function --- */

static int walk_width(cr_dtype t) { return 8 * (int)cr_dtype_size(cr_dtype_real(t)); }

/* The widths of a kernel's values, as a sum of powers of two: 8 + 32. */
static void walk_note_type(cr_printer *p, cr_dtype t)
{
    p->u->dtypes |= 1u << t;
    p->lanes.complex = p->lanes.complex || cr_dtype_is_complex(t);
    p->u->complex = p->u->complex || p->lanes.complex;
    if (t == CR_BOOL)
        return;
    p->lanes.width |= walk_width(t);
    if (p->lanes.lane == CR_BOOL || cr_dtype_is_complex(t))
        p->lanes.lane = t;
}

/* Beside wider lanes, bytes are only loaded, stored, converted, and compared for an extreme. */
static bool walk_computes_bytes(const cr_expr *e)
{
    if (e->kind == CR_EXPR_CALL && cr_fn_infos[e->fn].kind == CR_FN_CAST)
        return false;
    if (cr_expr_keeps_index(e) || e->kind == CR_EXPR_INDEX_OF || e->kind == CR_EXPR_SCAN)
        return false;
    for (int i = 0; i < e->count; i++)
        if (e->args[i]->dtype == CR_U8)
            return true;
    return e->dtype == CR_U8 && e->kind != CR_EXPR_LOAD;
}

static void walk_note_types(cr_printer *p, cr_expr_set *seen, const cr_expr *e, bool *bytes)
{
    if (!cr_expr_set_add(seen, e))
        return;
    walk_note_type(p, (cr_dtype)e->dtype);
    *bytes = *bytes || walk_computes_bytes(e);
    if (cr_expr_takes_scalars(e)) {
        p->u->random = true;
        return;
    }
    if (cr_expr_is_indexed(e))
        return;
    if (e->kind == CR_EXPR_CALL && cr_fn_infos[e->fn].cost >= 60)
        p->u->special = true;
    for (int i = 0; i < e->count; i++)
        walk_note_types(p, seen, e->args[i], bytes);
}

/* Values of several widths: lanes have 32 bits. */
static void walk_mix(cr_printer *p, bool bytes)
{
    bool refused = p->n->kind != CR_NEST_ROWS && !cr_nest_keeps_index(p->n);

    if (!p->dialect->mixes || p->lanes.complex || refused || ((p->lanes.width & 8) && bytes))
        cr_bail(p->s, CR_TYPE, "values of %d and %d bits in one kernel",
                p->lanes.width & -p->lanes.width,
                p->lanes.width & ~(p->lanes.width & -p->lanes.width));
    p->lanes.mixed = p->u->mixed = true;
    p->u->dtypes |= 1u << CR_I32;
    p->lanes.width = 32;
    p->lanes.lane = CR_F32;
}

bool cr_nest_keeps_index(const cr_nest *n)
{
    for (int k = 0; k < n->sweeps; k++)
        for (int i = 0; i < n->sweep[k].reduces.count; i++)
            if (cr_expr_keeps_index(n->sweep[k].reduces.at[i]))
                return true;
    return false;
}

/* True when `d` is stored once for each row, or once for each column of a column reduction. */
static bool walk_stores_once(const cr_nest *n, const cr_def *d)
{
    for (int i = 0; i < n->row_stores; i++)
        if (n->row_store[i].buffer == d->target)
            return true;
    return false;
}

/* Notes that lanes hold an index, an int64; beside narrower values walk_mix() chooses lanes of
 * 32 bits. */
static void walk_note_counters(cr_printer *p)
{
    bool lanes = p->n->kind == CR_NEST_COLUMNS || p->dialect->lanes_are_rows;

    if (!cr_nest_keeps_index(p->n) || !lanes || !p->dialect->mixes)
        return;
    p->lanes.width |= p->lanes.width ? 64 : 32 | 64;
    p->u->dtypes |= 1u << CR_I64;
}

static void walk_find_types(cr_printer *p)
{
    cr_expr_set seen = cr_expr_set_new(p->n->loop);
    bool bytes = false;

    for (size_t i = 0; i < p->n->loop->defs.len; i++) {
        const cr_def *d = p->n->loop->defs.at[i];
        const cr_expr *e = d->value;
        if (e->kind == CR_EXPR_INDEX_OF && walk_stores_once(p->n, d))
            e = e->args[0];
        walk_note_types(p, &seen, e, &bytes);
    }
    walk_note_counters(p);
    if (p->lanes.width & (p->lanes.width - 1))
        walk_mix(p, bytes);
    if (!p->lanes.width)
        p->lanes.width = 8;
    if (p->lanes.lane == CR_BOOL)
        p->lanes.lane = CR_U8;
}

/* Declares the kernel's values and the identities of reductions. */
static void walk_kernel(cr_printer *p)
{
    cr_expr_set seen = cr_expr_set_new(p->n->loop);

    for (size_t i = 0; i < p->n->loop->defs.len; i++)
        walk_kernel_values(p, &seen, p->n->loop->defs.at[i]->value);
    for (int k = 0; k < p->n->sweeps; k++)
        for (int i = 0; i < p->n->sweep[k].reduces.count; i++) {
            const cr_expr *e = p->n->sweep[k].reduces.at[i];
            const char *start = e->dtype == CR_BOOL
                                    ? (cr_fn_identity((cr_fn)e->fn, CR_BOOL).i ? "1" : "0")
                                    : cr_spell_identity(p, e);
            cr_print_line(p, "const cv_%s z%u = %s;", cr_spell_vector(p, (cr_dtype)e->dtype),
                          e->id, cr_spell_set1(p, (cr_dtype)e->dtype, start));
        }
}

static void walk_function(cr_printer *p, const char *symbol)
{
    if (p->n->scans.count && !p->dialect->some_columns)
        cr_bail(p->s, CR_TYPE, "the dialect '%s' has no scans", p->dialect->name);
    cr_define_scans(p);
    p->dialect->define_folds(p);
    cr_print_line(p, "/* %s */", p->n->loop->origin);
    p->dialect->open_kernel(p, symbol);
    cr_print_line(p, "const cv_s_i64 rows = size[0], columns = size[1];");
    cr_print_line(p, "(void)param;");
    if (p->n->counts_rows)
        cr_print_line(p, "const cv_s_i64 row0 = size[2];");
    walk_kernel(p);
    if (p->n->scans_rows)
        cr_print_scan_columns(p);
    else if (p->n->kind == CR_NEST_ROWS)
        walk_rows(p);
    else
        p->dialect->fold_columns(p);
    p->dialect->end_kernel(p);
    cr_print_shut(p);
    cr_print_line(p, "%s", "");
}

/* Halves are beside lanes of 32 bits. */
static void walk_check_stored(cr_printer *p)
{
    for (int k = 0; p->choice.stored && k < p->operands; k++) {
        if (!p->choice.stored[k])
            continue;
        if (p->operand[k]->dtype != CR_F32 || p->lanes.mixed || p->computed[k])
            cr_bail(p->s, CR_TYPE, "operand %d of this kernel cannot be stored as halves", k);
        p->u->halves = true;
    }
}

void cr_emit(cr_unit *u, const cr_dialect *d, const cr_nest *n, const char *symbol,
             const cr_emit_choice *choice)
{
    cr_printer p = {.dialect = d,
                    .u = u,
                    .out = &u->body,
                    .n = n,
                    .s = n->loop->session,
                    .lanes.lane = CR_BOOL,
                    .choice = choice ? *choice : (cr_emit_choice){.unroll = 0}};

    p.operands = cr_loop_operands(n->loop, p.operand, CR_EMIT_OPERANDS);
    walk_find_types(&p);
    cr_find_computed(&p);
    walk_check_stored(&p);
    p.lanes.vector = d->vector ? d->vector(&p) : 0;
    p.hoisted = cr_expr_set_new(n->loop);
    p.together = d->open_rows && n->kind == CR_NEST_ROWS && n->sweeps > 1 && !n->scans.count &&
                 !cr_nest_keeps_index(n);
    walk_function(&p, symbol);
    cr_session_check(p.s, cr_text_status(p.out));
}

void cr_emit_includes(cr_text *out, const cr_dialect *d, const cr_unit *u)
{
    unsigned ints = 1u << CR_I32 | 1u << CR_I64 | 1u << CR_U8;

    if (d->first_header)
        cr_text_printf(out, "#include \"%s\"\n", d->first_header);
    cr_text_put(out, "#include \"emit/vec.h\"\n");
    cr_text_put(out, "#include \"emit/vec_f32.h\"\n#include \"emit/vec_f64.h\"\n");
    if (u->dtypes & ints || u->mixed)
        cr_text_put(out, "#include \"emit/vec_int.h\"\n");
    if (u->mixed)
        cr_text_put(out, "#include \"emit/vec_mixed.h\"\n");
    if (u->complex)
        cr_text_put(out, "#include \"emit/vec_complex.h\"\n");
    if (u->special)
        cr_text_put(out, "#include \"emit/vec_special.h\"\n");
    if (u->random)
        cr_text_put(out, "#include \"emit/vec_random.h\"\n");
    if (u->halves)
        cr_text_put(out, "#include \"emit/half.cuh\"\n");
    cr_text_printf(out, "#include \"%s\"\n%s\n", d->last_header,
                   u->scan ? "#include \"emit/scan.h\"\n" : "");
}

const cr_dialect *cr_dialect_named(const char *name)
{
    static const cr_dialect *const all[] = {&cr_dialect_c, &cr_dialect_across, &cr_dialect_cuda,
                                            &cr_dialect_cuda_rows};

    for (size_t i = 0; i < CR_LEN(all); i++)
        if (!strcmp(name, all[i]->name))
            return all[i];
    return NULL;
}

void cr_unit_drop(cr_unit *u) { cr_text_drop(&u->body); }
