/* Nests of short rows as C with vector extensions: the lanes of a vector are rows.
 *
 * The loop over columns is scalar code, so that rows of a few elements fill vectors.  Adjacent
 * rows of an operand are adjacent in memory, columns have any stride; run.c copies operands to
 * such tiles.  A row has at most CR_FOLD_LANES columns: each column is its own lane of the
 * order, and the lanes combine as in order.h. */
#include "emit/dialect.h"

static bool across_is_row(const cr_printer *p, const cr_buffer *b)
{
    return b->ndim == 1 && b->size[0] == p->n->row.extent;
}

static void across_define_folds(cr_printer *p)
{
    if (p->n->counts_columns || p->n->counts_rows || p->u->random)
        cr_bail(p->s, CR_VALUE, "numbers of rows and columns are not emitted for short rows");
    if (cr_computed_dims(p))
        cr_bail(p->s, CR_VALUE, "loads at computed indices are not emitted for short rows");
    for (int k = 0; k < p->operands; k++)
        if (p->operand[k]->ndim < 2 && !across_is_row(p, p->operand[k]))
            cr_bail(p->s, CR_VALUE, "'%s' has no value for each row", p->operand[k]->name);
}

static void across_open_kernel(cr_printer *p, const char *symbol)
{
    cr_dialect_c.open_kernel(p, symbol);
}

static void across_end_kernel(cr_printer *p) { (void)p; }

static const char *across_load(cr_printer *p, const cr_buffer *b)
{
    p->at.how = CR_ACCESS_EITHER;
    return cr_dialect_c.load(p, b);
}

static void across_store(cr_printer *p, const cr_store *st)
{
    p->at.how = CR_ACCESS_EITHER;
    cr_dialect_c.store(p, st);
}

static void across_open_row(cr_printer *p)
{
    const char *lane = cr_spell_dtype(p->lanes.lane);

    cr_print_open(
        p, cr_session_printf(p->s, "for (cv_s_i64 r = 0; r < rows; r += CV_LANES_%s)", lane));
    cr_print_line(p, "const cv_s_i64 m = ck_least(rows - r, CV_LANES_%s);", lane);
    cr_print_pointers(p, true);
}

static void across_refuse(cr_printer *p)
{
    cr_bail(p->s, CR_VALUE, "short rows without a reduction need no kernel of this kind");
}

static void across_columns(cr_printer *p)
{
    cr_print_open(p, "for (cv_s_i64 j = 0; j < columns; j++)");
    cr_print_body(p, "j");
    cr_print_shut(p);
}

/* The type of lanes that hold a column's number. */
static const char *across_counter(const cr_printer *p)
{
    return p->lanes.mixed ? "i32" : "i64";
}

/* Column j has the accumulator j where the order counts; else there is one accumulator.  Each
 * is as many vectors as its value. */
static void across_begin(cr_printer *p, const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        const char *t = cr_spell_vector(p, (cr_dtype)e->dtype);
        int parts = cr_spell_parts(p, (cr_dtype)e->dtype);
        bool order = cr_expr_has_order(e);
        cr_print_line(p, "cv_%s a%u[%d%s];", t, e->id, parts, order ? " * CR_FOLD_LANES" : "");
        cr_print_line(p, "for (cv_s_i64 k = 0; k < %d%s; k++)", parts,
                      order ? " * columns" : "");
        cr_print_line(p, "    a%u[k] = z%u;", e->id, e->id);
        if (cr_expr_keeps_index(e))
            cr_print_line(p, "cv_%s k%u = {0};", across_counter(p), e->id);
    }
}

/* Lanes in which the operand is beyond the accumulator take the operand and the column. */
static void across_keep_index(cr_printer *p, const cr_expr *e)
{
    const char *t = cr_spell_vector(p, (cr_dtype)e->dtype), *n = across_counter(p);
    int parts = cr_spell_parts(p, (cr_dtype)e->dtype);
    const char *mask = parts == 2 ? "m64" : cr_spell_vector(p, CR_BOOL);

    for (p->lanes.part = 0; p->lanes.part < parts; p->lanes.part++) {
        const char *v = cr_spell_name(p, e->args[0]);
        const char *a = cr_session_printf(p->s, "a%u[%d]", e->id, p->lanes.part);
        cr_print_line(p, "const cv_%s t%u_%d = cv_%s_%s(%s, %s);", mask, e->id, p->lanes.part,
                      cr_fn_infos[e->fn].name, t, v, a);
        cr_print_line(p, "%s = cv_select_%s(t%u_%d, %s, %s);", a, t, e->id, p->lanes.part, v,
                      a);
    }
    p->lanes.part = 0;
    const char *take = cr_session_printf(
        p->s, parts == 2 ? "cv_join_m32(t%u_0, t%u_1)" : "t%u_0", e->id, e->id);
    cr_print_line(p, "k%u = cv_select_%s(%s, cv_set1_%s((cv_s_%s)j), k%u);", e->id, n, take, n,
                  n, e->id);
}

static void across_fold(cr_printer *p, const cr_sweep *sweep)
{
    (void)sweep;
    across_columns(p);
}

static void across_end(cr_printer *p, const cr_expr *e)
{
    int parts = cr_spell_parts(p, (cr_dtype)e->dtype);
    const char *left = cr_session_printf(p->s, "a%u[k]", e->id),
               *right = cr_session_printf(p->s, "a%u[k + half]", e->id);

    if (!cr_expr_has_order(e))
        return;
    cr_print_line(p,
                  "for (cv_s_i64 half = %d * CR_FOLD_LANES / 2, n = %d * columns; half >= %d;",
                  parts, parts, parts);
    cr_print_line(p, "     n = ck_least(n, half), half /= 2)");
    cr_print_line(p, "    for (cv_s_i64 k = 0; k + half < n; k++)");
    cr_print_line(p, "        %s = %s;", left, cr_spell_combine(p, e, left, right));
}

static void across_fold_columns(cr_printer *p) { across_refuse(p); }

const cr_dialect cr_dialect_across = {
    .name = "across",
    .last_header = "emit/kernel.h",
    .mixes = true,
    .lanes_are_rows = true,
    .keep_index = across_keep_index,
    .define_folds = across_define_folds,
    .open_kernel = across_open_kernel,
    .end_kernel = across_end_kernel,
    .load = across_load,
    .store = across_store,
    .store_row = across_store,
    .open_row = across_open_row,
    .pointwise = across_refuse,
    .columns_loop = across_columns,
    .begin_folds = across_begin,
    .fold_row = across_fold,
    .end_fold = across_end,
    .fold_columns = across_fold_columns,
};
