/* Loads at computed indices.
 *
 * An index is scalar code for one column, whatever its type: int64 indices go with lanes of any
 * width.  Where the indices have one value a row, the address is computed once a row, and the
 * columns from there are a vector; else each lane is loaded from its own address.
 *
 * A nest that only moves elements needs no vocabulary: it is printed for the size of an item,
 * whatever the dtype.
 *
 * Indices are within the dim: reads in vectors are clamped, and moves are called with indices
 * that were checked. */
#include "emit/dialect.h"

/* --- computed dims of operands --- */

static void indexed_find(cr_printer *p, cr_expr_set *seen, const cr_expr *e)
{
    if (!cr_expr_set_add(seen, e))
        return;
    for (int k = 0; cr_expr_is_indexed(e) && k < e->buffer->ndim; k++)
        if (cr_load_computed(e, k))
            p->computed[cr_operand_number(p, e->buffer)] |= 1u << k;
    for (int i = 0; i < e->count; i++)
        indexed_find(p, seen, e->args[i]);
}

int cr_computed_dims(const cr_printer *p)
{
    int n = 0;

    for (int k = 0; k < p->operands; k++)
        n += (int)CR_POPCOUNT64(p->computed[k]);
    return n;
}

void cr_find_computed(cr_printer *p)
{
    cr_expr_set seen = cr_expr_set_new(p->n->loop);

    for (size_t i = 0; i < p->n->loop->defs.len; i++)
        indexed_find(p, &seen, p->n->loop->defs.at[i]->value);
}

/* The number of a computed dim among those of all operands. */
static int computed_number(const cr_printer *p, const cr_buffer *b, int dim)
{
    int operand = cr_operand_number(p, b), n = 0;

    for (int k = 0; k < operand; k++)
        n += (int)CR_POPCOUNT64(p->computed[k]);
    return n + (int)CR_POPCOUNT64(p->computed[operand] & ((1u << dim) - 1));
}

/* --- scalar code --- */

static const char *scalar_value(cr_printer *p, const cr_expr *e, const char *column);

/* The address of a load's element in one column; NULL: in the row's first.  `clamped`: an index
 * outside reads element 0. */
static const char *scalar_address(cr_printer *p, const cr_expr *e, const char *column,
                                  bool clamped)
{
    int operand = cr_operand_number(p, e->buffer);
    const char *text = cr_session_printf(p->s, "p%d", operand);

    for (int k = 0; k < e->buffer->ndim; k++) {
        const cr_expr *at = cr_load_computed(e, k);
        if (at) {
            int n = computed_number(p, e->buffer, k);
            const char *index = scalar_value(p, at, column);
            if (clamped)
                index = cr_session_printf(p->s, "ck_within(%s, size[%d])", index, 3 + n);
            text = cr_session_printf(p->s,
                                     p->at.stepping ? "%s + %s * e%d" : "%s + %s * stride[%d]",
                                     text, index, p->at.stepping ? n : 2 * p->operands + n);
        } else if (column && e->index[k] == p->n->column.index) {
            text = cr_session_printf(p->s,
                                     p->at.stepping ? "%s + %s * d%d" : "%s + %s * stride[%d]",
                                     text, column, p->at.stepping ? operand : 2 * operand + 1);
        }
    }
    return text;
}

static const char *scalar_load(cr_printer *p, const cr_expr *e, const char *column)
{
    const char *type = e->dtype == CR_BOOL ? "u8" : cr_spell_dtype((cr_dtype)e->dtype);

    return cr_session_printf(p->s, "*(const cv_s_%s *)(%s)", type,
                             scalar_address(p, e, column, true));
}

/* The C operator or function of a loop function of integers and truth values. */
static const char *scalar_operator(cr_fn fn, bool *infix)
{
    static const struct {
        cr_fn fn;
        const char *text;
    } all[] = {
        {CR_FN_add, "+"},
        {CR_FN_sub, "-"},
        {CR_FN_mul, "*"},
        {CR_FN_eq, "=="},
        {CR_FN_ne, "!="},
        {CR_FN_lt, "<"},
        {CR_FN_le, "<="},
        {CR_FN_gt, ">"},
        {CR_FN_ge, ">="},
        {CR_FN_and, "&"},
        {CR_FN_or, "|"},
        {CR_FN_maximum, "ck_most"},
        {CR_FN_minimum, "ck_least"},
        {CR_FN_floordiv, "ck_floordiv"},
        {CR_FN_remainder, "ck_remainder"},
    };

    for (size_t i = 0; i < CR_LEN(all); i++)
        if (all[i].fn == fn) {
            *infix = *all[i].text != 'c';
            return all[i].text;
        }
    return NULL;
}

static const char *scalar_call(cr_printer *p, const cr_expr *e, const char *column)
{
    const char *v[3] = {"", "", ""}, *name;
    bool infix = false;

    for (int i = 0; i < e->count; i++)
        v[i] = scalar_value(p, e->args[i], column);
    if (e->fn == CR_FN_where)
        return cr_session_printf(p->s, "(%s ? %s : %s)", v[0], v[1], v[2]);
    if (e->fn == CR_FN_neg)
        return cr_session_printf(p->s, "(-%s)", v[0]);
    if (e->fn == CR_FN_not && e->dtype == CR_BOOL)
        return cr_session_printf(p->s, "!%s", v[0]);
    if (e->fn == CR_FN_cast)
        return cr_session_printf(p->s, "(cv_s_%s)%s", cr_spell_dtype((cr_dtype)e->dtype), v[0]);
    name = scalar_operator((cr_fn)e->fn, &infix);
    if (!name)
        cr_bail(p->s, CR_TYPE, "an index is computed by %s", cr_fn_infos[e->fn].name);
    return infix ? cr_session_printf(p->s, "(%s %s %s)", v[0], name, v[1])
                 : cr_session_printf(p->s, "%s(%s, %s)", name, v[0], v[1]);
}

/* The value of an index, or of a part of it, in one column. */
static const char *scalar_value(cr_printer *p, const cr_expr *e, const char *column)
{
    switch ((cr_expr_kind)e->kind) {
    case CR_EXPR_LOAD: return scalar_load(p, e, column);
    case CR_EXPR_CALL: return scalar_call(p, e, column);
    case CR_EXPR_REDUCE: return cr_session_printf(p->s, "s%u", e->id);
    case CR_EXPR_INDEX_OF: return cr_session_printf(p->s, "k%u", e->args[0]->id);
    case CR_EXPR_SCAN: cr_bail(p->s, CR_TYPE, "an index is computed by a scan");
    case CR_EXPR_CONST:
    case CR_EXPR_PARAM:
    case CR_EXPR_INTEGER: break;
    }
    return cr_spell_scalar(p, e, column ? column : "0");
}

/* --- values --- */

/* True when a row's columns are neighbours in memory, from an address that a row has once. */
static bool indexed_is_row(const cr_printer *p, const cr_expr *e)
{
    bool along = false;

    for (int k = 0; k < e->buffer->ndim; k++) {
        const cr_expr *at = cr_load_computed(e, k);
        if (at && cr_nest_scope(p->n, at) == CR_SCOPE_COLUMN)
            return false;
        along = along || e->index[k] == p->n->column.index;
    }
    return along && p->dialect->any_address;
}

void cr_print_indexed_row(cr_printer *p, const cr_expr *e)
{
    if (indexed_is_row(p, e) && !cr_nest_is_move(p->n))
        cr_print_line(p, "const char *const q%u = %s;", e->id,
                      scalar_address(p, e, NULL, true));
}

static const char *indexed_lanes(cr_printer *p, const cr_expr *e)
{
    const char *letter, *name = cr_spell_memory(p, (cr_dtype)e->dtype, &letter);
    const char *type = e->dtype == CR_BOOL ? "u8" : name;
    const char *lanes = cr_session_printf(p->s, "CV_LANES_%s", cr_spell_dtype(p->lanes.lane));

    cr_print_line(p, "cv_s_%s t%u[%s];", type, e->id, lanes);
    cr_print_line(p, "CV_UNROLL(16)");
    cr_print_open(p, cr_session_printf(p->s, "for (int l = 0; l < %s; l++)", lanes));
    cr_print_line(p, "const cv_s_i64 c = %s;",
                  p->at.how == CR_ACCESS_WHOLE ? "at + l" : "ck_least(at + l, columns - 1)");
    cr_print_line(p, "t%u[l] = *(const cv_s_%s *)(%s);", e->id, type,
                  scalar_address(p, e, "c", true));
    cr_print_shut(p);
    return cr_session_printf(p->s, "cv_load%s_%s(t%u)", letter, name, e->id);
}

void cr_print_indexed(cr_printer *p, const cr_expr *e)
{
    if (p->lanes.mixed && e->dtype != CR_BOOL && cr_dtype_size((cr_dtype)e->dtype) != 4)
        cr_bail(p->s, CR_TYPE, "values of several widths, and %s at computed indices",
                cr_spell_dtype((cr_dtype)e->dtype));
    if (cr_nest_scope(p->n, e) != CR_SCOPE_COLUMN) {
        cr_print_value(p, e, cr_spell_set1(p, (cr_dtype)e->dtype, scalar_load(p, e, NULL)));
        return;
    }
    if (!indexed_is_row(p, e)) {
        cr_print_value(p, e, indexed_lanes(p, e));
        return;
    }
    p->at.base = cr_session_printf(p->s, "q%u", e->id);
    cr_print_value(p, e, p->dialect->load(p, e->buffer));
    p->at.base = NULL;
}

/* --- moves --- */

bool cr_nest_is_move(const cr_nest *n)
{
    const cr_sweep *s = &n->sweep[0];

    return n->kind == CR_NEST_ROWS && n->sweeps == 1 && !n->row_stores && !s->reduces.count &&
           s->stores == 1 && cr_expr_is_indexed(s->store[0].value) &&
           cr_nest_scope(n, s->store[0].value) == CR_SCOPE_COLUMN;
}

/* A test that no index of the load moves along a row: "stride[5] == 0". */
static const char *move_still(cr_printer *p, cr_expr_set *seen, const cr_expr *e,
                              const char *test)
{
    if (!cr_expr_set_add(seen, e))
        return test;
    if (e->kind == CR_EXPR_LOAD && e->index[e->buffer->ndim - 1] == p->n->column.index)
        test = cr_session_printf(p->s, "%s%sd%d == 0", test, *test ? " && " : "",
                                 cr_operand_number(p, e->buffer));
    for (int i = 0; i < e->count; i++)
        test = move_still(p, seen, e->args[i], test);
    return test;
}

/* The loop over a row's columns, in which all strides are variables of the function. */
static void move_columns(cr_printer *p, const char *to, const char *from, int item)
{
    cr_print_line(p, "for (cv_s_i64 c = 0; c < columns; c++)");
    cr_print_line(p, "    *(ck_item%d *)(%s) = *(const ck_item%d *)(%s);", item, to, item,
                  from);
}

/* A row whose indices do not move is a copy.  Operands have the numbers `k` and `from`. */
static void move_row(cr_printer *p, const cr_expr *e, int k, int from, int item)
{
    cr_print_line(p, "const char *const q = %s;", scalar_address(p, e, NULL, false));
    cr_print_open(p,
                  cr_session_printf(p->s, "if (d%d == %d && d%d == %d)", k, item, from, item));
    cr_print_line(p, "ck_copy(p%d, q, columns * %d);", k, item);
    cr_print_line(p, "continue;");
    cr_print_shut(p);
    move_columns(p, cr_session_printf(p->s, "p%d + c * d%d", k, k),
                 cr_session_printf(p->s, "q + c * d%d", from), item);
}

/* A row of the result, with an index that moves along it in a table that does not. */
static void move_picked(cr_printer *p, const cr_expr *e, int k, int from, int item)
{
    const cr_expr *at = e->args[0];
    int index = at->kind == CR_EXPR_LOAD ? cr_operand_number(p, at->buffer) : -1;
    int size = (int)cr_dtype_size((cr_dtype)at->dtype);

    if (e->count > 1 || index < 0)
        return;
    cr_print_open(p,
                  cr_session_printf(p->s, "if (d%d == %d && d%d == %d && d%d == 0 && e0 == %d)",
                                    k, item, index, size, from, item));
    cr_print_line(p, "for (cv_s_i64 c = 0; c < columns; c++)");
    cr_print_line(
        p, "    ((ck_item%d *)p%d)[c] = ((const ck_item%d *)p%d)[((const ck_int%d *)p%d)[c]];",
        item, k, item, from, size, index);
    cr_print_line(p, "continue;");
    cr_print_shut(p);
}

void cr_print_move(cr_printer *p)
{
    const cr_store *st = &p->n->sweep[0].store[0];
    const cr_expr *e = st->value;
    int item = (int)cr_dtype_size((cr_dtype)e->dtype), k = cr_operand_number(p, st->buffer),
        from = cr_operand_number(p, e->buffer);
    cr_expr_set seen = cr_expr_set_new(p->n->loop);
    const char *test = "";

    for (int i = 0; i < p->operands; i++)
        cr_print_line(p, "const cv_s_i64 d%d = stride[%d];", i, 2 * i + 1);
    for (int i = 0; i < cr_computed_dims(p); i++)
        cr_print_line(p, "const cv_s_i64 e%d = stride[%d];", i, 2 * p->operands + i);
    p->at.stepping = true;
    for (int i = 0; i < e->count; i++)
        test = move_still(p, &seen, e->args[i], test);
    if (*test)
        cr_print_open(p, cr_session_printf(p->s, "if (%s)", test));
    move_row(p, e, k, from, item);
    if (*test) {
        cr_print_line(p, "continue;");
        cr_print_shut(p);
        move_picked(p, e, k, from, item);
        move_columns(p, cr_session_printf(p->s, "p%d + c * d%d", k, k),
                     scalar_address(p, e, "c", false), item);
    }
    p->at.stepping = false;
}
