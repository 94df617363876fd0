/* Scheduling: from a fused program to sweeps over rows and columns.
 *
 * Levels order the sweeps: a load is at level 0, a reduction's result is one level above its
 * operand, and any other value has the highest level of its arguments.  Sweep k accumulates the
 * reductions whose operands are at level k and stores the outputs at level k.
 *
 * Scans are in the last sweep, so that no sweep accumulates reductions beside them.
 *
 * Invariant: a kept value is in an output's row from the sweep that computes it to the next
 * sweep that stores in this row, which stores the output itself or another kept value.  No
 * later sweep reads the first value. */
#include "loop/nest.h"
#include <string.h>

typedef CR_VEC(const cr_expr *) expr_list;

typedef struct {
    cr_nest *n;
    cr_loop *l;
    cr_session *s;
    uint8_t *scope, *level, *phase;
    int scan_level; /* the sweep of scans */
    expr_list scans;
} work;

/* --- the axes --- */

static bool last_index_is(const cr_expr *e, const cr_sym *index)
{
    if (e->kind == CR_EXPR_LOAD)
        return e->buffer->ndim && e->index[e->buffer->ndim - 1] == index;
    for (int i = 0; i < e->count; i++)
        if (last_index_is(e->args[i], index))
            return true;
    return false;
}

static const cr_expr *first_reduce(const cr_expr *e)
{
    const cr_expr *r = e->kind == CR_EXPR_REDUCE ? e : NULL;

    for (int i = 0; i < e->count && !r; i++)
        r = first_reduce(e->args[i]);
    return r;
}

/* The value of the reduction, or its index. */
static bool is_result_of(const cr_expr *e, const cr_expr *reduce)
{
    return e == reduce || (e->kind == CR_EXPR_INDEX_OF && e->args[0] == reduce);
}

static void set_single(work *w, const cr_def *d)
{
    const cr_expr *r = first_reduce(d->value);
    const cr_sym *one = cr_sym_int(w->l->syms, 1);

    if (!r) {
        w->n->row = (cr_axis){cr_sym_int(w->l->syms, 0), one};
        w->n->column = d->axis[0];
        w->n->one_row = true;
        return;
    }
    if (last_index_is(r->args[0], r->axis.index)) {
        w->n->row = d->axis[0];
        w->n->column = r->axis;
        return;
    }
    for (size_t i = 0; i < w->l->defs.len; i++)
        if (!is_result_of(w->l->defs.at[i]->value, r))
            cr_bail(w->s, CR_VALUE, "a column reduction stands alone in its kernel");
    w->n->kind = CR_NEST_COLUMNS;
    w->n->row = r->axis;
    w->n->column = d->axis[0];
}

/* The axes are those of the first definition with two axes, or else follow from one with one
 * axis, preferably with a reduction. */
static void find_axes(work *w)
{
    for (size_t i = 0; i < w->l->defs.len; i++) {
        const cr_def *d = w->l->defs.at[i];
        if (d->axes != 2)
            continue;
        w->n->row = d->axis[0];
        w->n->column = d->axis[1];
        return;
    }
    if (!w->l->defs.len || w->l->defs.at[0]->axes != 1)
        cr_bail(w->s, CR_VALUE, "a kernel has one or two axes");
    for (size_t i = 0; i < w->l->defs.len; i++)
        if (w->l->defs.at[i]->axes == 1 && first_reduce(w->l->defs.at[i]->value)) {
            set_single(w, w->l->defs.at[i]);
            return;
        }
    set_single(w, w->l->defs.at[0]);
}

/* --- scopes and levels --- */

static cr_scope scope_of_index(work *w, const cr_sym *const *index, int n)
{
    cr_scope scope = CR_SCOPE_KERNEL;

    for (int i = 0; i < n; i++) {
        if (cr_sym_uses(index[i], w->n->column.index))
            return CR_SCOPE_COLUMN;
        if (cr_sym_uses(index[i], w->n->row.index))
            scope = CR_SCOPE_ROW;
    }
    return scope;
}

/* True when every index of an indexed load is computed or one of the two axes. */
static bool reads_axes_once(work *w, const cr_expr *e)
{
    int rows = 0, columns = 0, computed = 0;

    for (int k = 0; k < e->buffer->ndim; k++) {
        computed += cr_load_computed(e, k) != NULL;
        rows += e->index[k] == w->n->row.index;
        columns += e->index[k] == w->n->column.index;
    }
    return rows <= 1 && columns <= 1 && rows + columns + computed == e->buffer->ndim;
}

static bool reads_in_order(work *w, const cr_expr *e)
{
    const cr_sym *i = w->n->row.index, *j = w->n->column.index;

    if (e->count)
        return reads_axes_once(w, e);
    if (e->buffer->ndim == 2)
        return e->index[0] == i && e->index[1] == j;
    return e->buffer->ndim == 1 && (e->index[0] == i || e->index[0] == j);
}

static void visit_load(work *w, const cr_expr *e)
{
    cr_scope scope = scope_of_index(w, e->index, e->buffer->ndim);

    if (e->buffer->role != CR_BUFFER_INPUT)
        cr_bail(w->s, CR_VALUE, "'%s' is made by the program that reads it: fuse it first",
                e->buffer->name);
    if (!reads_in_order(w, e))
        cr_bail(w->s, CR_VALUE, "'%s' is not read row by row", e->buffer->name);
    if (scope > w->scope[e->id])
        w->scope[e->id] = (uint8_t)scope;
}

static void visit_reduce(work *w, const cr_expr *e)
{
    const cr_sym *over = w->n->kind == CR_NEST_COLUMNS ? w->n->row.index : w->n->column.index;

    if (w->phase[e->args[0]->id])
        cr_bail(w->s, CR_VALUE, "a reduction of a scan");
    if (e->axis.index != over)
        cr_bail(w->s, CR_VALUE, "a reduction runs over '%s', not along the rows",
                e->axis.index->name);
    w->scope[e->id] = CR_SCOPE_ROW;
    w->level[e->id] = (uint8_t)(w->level[e->args[0]->id] + 1);
}

static void visit_scan(work *w, const cr_expr *e)
{
    bool rows = e->axis.index == w->n->row.index;

    if (w->n->kind == CR_NEST_COLUMNS || (!rows && e->axis.index != w->n->column.index))
        cr_bail(w->s, CR_VALUE, "a scan runs along '%s', an axis of no loop",
                e->axis.index->name);
    if (w->n->scans.count && (rows != w->n->scans_rows || e->back != w->n->scans.at[0]->back))
        cr_bail(w->s, CR_VALUE, "scans along several axes or in several directions");
    w->n->scans_rows = rows;
    w->scope[e->id] = CR_SCOPE_COLUMN;
    w->level[e->id] = (uint8_t)w->scan_level;
    w->phase[e->id] = (uint8_t)(w->phase[e->args[0]->id] + 1);
    if (w->n->phases <= w->phase[e->id])
        w->n->phases = w->phase[e->id] + 1;
    CR_PUSH(w->s, &w->scans, e);
    w->n->scans = (cr_exprs){w->scans.at, (int)w->scans.len};
}

static void visit_integer(work *w, const cr_expr *e)
{
    w->scope[e->id] = (uint8_t)scope_of_index(w, e->index, 1);
    w->n->counts_columns = w->n->counts_columns || w->scope[e->id] == CR_SCOPE_COLUMN;
    w->n->counts_rows = w->n->counts_rows || cr_sym_uses(e->index[0], w->n->row.index);
}

static void visit(work *w, cr_expr_set *seen, const cr_expr *e)
{
    if (!cr_expr_set_add(seen, e))
        return;
    for (int i = 0; i < e->count; i++) {
        const cr_expr *a = e->args[i];
        visit(w, seen, a);
        if (w->scope[a->id] > w->scope[e->id])
            w->scope[e->id] = w->scope[a->id];
        if (w->level[a->id] > w->level[e->id])
            w->level[e->id] = w->level[a->id];
        if (w->phase[a->id] > w->phase[e->id])
            w->phase[e->id] = w->phase[a->id];
    }
    if (w->level[e->id] > 200 || w->phase[e->id] > 200)
        cr_bail(w->s, CR_VALUE, "more than 200 reductions depend on each other");
    if (e->kind == CR_EXPR_LOAD)
        visit_load(w, e);
    else if (e->kind == CR_EXPR_INTEGER)
        visit_integer(w, e);
    else if (e->kind == CR_EXPR_REDUCE)
        visit_reduce(w, e);
    else if (e->kind == CR_EXPR_SCAN)
        visit_scan(w, e);
}

static void visit_all(work *w)
{
    cr_expr_set seen = cr_expr_set_new(w->l);

    w->scope = CR_NEW_N(w->s, uint8_t, w->l->nodes);
    w->level = CR_NEW_N(w->s, uint8_t, w->l->nodes);
    w->phase = CR_NEW_N(w->s, uint8_t, w->l->nodes);
    w->scans = (expr_list){0};
    w->n->scans = (cr_exprs){0};
    w->n->phases = 1;
    for (size_t i = 0; i < w->l->defs.len; i++)
        visit(w, &seen, w->l->defs.at[i]->value);
}

/* Scans, and the values that need them, are visited again with the level of the last sweep. */
static void level_scans(work *w)
{
    for (size_t i = 0; i < w->l->nodes && w->n->scans.count; i++)
        if (w->level[i] > w->scan_level)
            w->scan_level = w->level[i];
    if (w->scan_level && w->n->scans_rows)
        cr_bail(w->s, CR_VALUE, "a scan down the rows beside a reduction");
    if (w->scan_level)
        visit_all(w);
}

static void find_scopes(work *w)
{
    visit_all(w);
    level_scans(w);
    w->n->scope = w->scope;
    w->n->level = w->level;
    w->n->phase = w->phase;
}

/* --- sweeps --- */

static bool is_full(work *w, const cr_def *d)
{
    return d->axes == 2 || (d->axes == 1 && d->axis[0].index == w->n->column.index);
}

static int count_sweeps(work *w)
{
    int most = 0;

    for (size_t i = 0; i < w->l->defs.len; i++) {
        const cr_def *d = w->l->defs.at[i];
        int level = w->level[d->value->id];
        /* A row value at level k is known after sweep k - 1. */
        int need = is_full(w, d) || !level ? level + 1 : level;
        most = need > most ? need : most;
    }
    return most;
}

static void gather_reduces(work *w, cr_expr_set *seen, const cr_expr *e, int level,
                           expr_list *out)
{
    if (!cr_expr_set_add(seen, e))
        return;
    for (int i = 0; i < e->count; i++)
        gather_reduces(w, seen, e->args[i], level, out);
    if (e->kind == CR_EXPR_REDUCE && w->level[e->args[0]->id] == level)
        CR_PUSH(w->s, out, e);
}

static void set_reduces(work *w, int k)
{
    cr_expr_set seen = cr_expr_set_new(w->l);
    expr_list list = {0};

    for (size_t i = 0; i < w->l->defs.len; i++)
        gather_reduces(w, &seen, w->l->defs.at[i]->value, k, &list);
    w->n->sweep[k].reduces = (cr_exprs){list.at, (int)list.len};
}

static void set_stores(work *w)
{
    cr_nest *n = w->n;

    n->row_store = CR_NEW_N(w->s, cr_store, w->l->defs.len);
    for (int k = 0; k < n->sweeps; k++)
        n->sweep[k].store = CR_NEW_N(w->s, cr_store, 2 * w->l->defs.len);
    for (size_t i = 0; i < w->l->defs.len; i++) {
        const cr_def *d = w->l->defs.at[i];
        cr_store one = {d->target, d->value};
        cr_sweep *sweep = &n->sweep[w->level[d->value->id]];
        if (n->kind == CR_NEST_COLUMNS)
            n->row_store[n->row_stores++] = one;
        else if (is_full(w, d))
            sweep->store[sweep->stores++] = one;
        else if (w->scope[d->value->id] < CR_SCOPE_COLUMN)
            n->row_store[n->row_stores++] = one;
        else
            cr_bail(w->s, CR_VALUE, "'%s' has one value a row but is given many",
                    d->target->name);
    }
}

/* --- keeping --- */

static int expr_cost(work *w, cr_expr_set *seen, const cr_expr *e)
{
    int cost = 0;

    if (w->scope[e->id] != CR_SCOPE_COLUMN || !cr_expr_set_add(seen, e))
        return 0;
    for (int i = 0; i < e->count; i++)
        cost += expr_cost(w, seen, e->args[i]);
    if (e->kind == CR_EXPR_LOAD)
        return 1 + (e->count ? CR_COST_INDEXED : 0);
    return cost + (e->kind == CR_EXPR_CALL ? cr_fn_infos[e->fn].cost : 1);
}

/* Marks the values that sweep k computes per column. */
static void mark_computed(work *w, cr_expr_set *seen, const cr_expr *e)
{
    if (w->scope[e->id] != CR_SCOPE_COLUMN || !cr_expr_set_add(seen, e))
        return;
    for (int i = 0; i < e->count; i++)
        mark_computed(w, seen, e->args[i]);
}

static cr_expr_set computed_in(work *w, int k)
{
    cr_expr_set seen = cr_expr_set_new(w->l);
    const cr_sweep *sweep = &w->n->sweep[k];

    for (int i = 0; i < sweep->reduces.count; i++)
        mark_computed(w, &seen, sweep->reduces.at[i]->args[0]);
    for (int i = 0; i < sweep->stores; i++)
        mark_computed(w, &seen, sweep->store[i].value);
    return seen;
}

/* True when computing `e` needs `what`, and does not need it only for `instead`. */
static bool comes_from(work *w, cr_expr_set *seen, const cr_expr *e, const cr_expr *what,
                       const cr_expr *instead)
{
    if (e == what)
        return true;
    if (e == instead || w->scope[e->id] != CR_SCOPE_COLUMN || !cr_expr_set_add(seen, e))
        return false;
    for (int i = 0; i < e->count; i++)
        if (comes_from(w, seen, e->args[i], what, instead))
            return true;
    return false;
}

/* True when a sweep after that of `e` needs `what`, even if `e` is kept. */
static bool needed_later(work *w, const cr_expr *what, const cr_expr *e)
{
    cr_expr_set seen = cr_expr_set_new(w->l);

    for (int k = w->level[e->id] + 1; k < w->n->sweeps; k++) {
        const cr_sweep *sweep = &w->n->sweep[k];
        for (int i = 0; i < sweep->reduces.count; i++)
            if (comes_from(w, &seen, sweep->reduces.at[i]->args[0], what, e))
                return true;
        for (int i = 0; i < sweep->stores; i++)
            if (comes_from(w, &seen, sweep->store[i].value, what, e))
                return true;
    }
    return false;
}

/* True when `e` may replace the kept value `q` in its buffer. */
static bool makes_room(work *w, const cr_store *q, const cr_expr *e)
{
    return w->level[q->value->id] < w->level[e->id] && !needed_later(w, q->value, e);
}

/* An output whose row can keep `e`, or NULL: it has e's dtype, a sweep after `k` and not before
 * `until` stores it, and it keeps no value that is needed. */
static const cr_buffer *room_for(work *w, const cr_expr *e, int k, int until)
{
    cr_nest *n = w->n;

    for (int later = until; later < n->sweeps; later++)
        for (int i = 0; i < n->sweep[later].stores; i++) {
            const cr_buffer *b = n->sweep[later].store[i].buffer;
            bool taken = b->dtype != e->dtype || later <= k || b->ndim != 2;
            for (int q = 0; q < n->keeps; q++)
                taken = taken || (n->keep[q].buffer == b && !makes_room(w, &n->keep[q], e));
            if (!taken)
                return b;
        }
    return NULL;
}

static void keep_column(work *w, const cr_expr *e, int made, int needed)
{
    cr_nest *n = w->n;
    const cr_buffer *b = room_for(w, e, made, needed);
    cr_store *list, *stores;

    if (!b)
        return;
    list = CR_NEW_N(w->s, cr_store, n->keeps + 1);
    if (n->keeps)
        memcpy(list, n->keep, sizeof *list * (size_t)n->keeps);
    list[n->keeps++] = (cr_store){b, e};
    n->keep = list;
    stores = CR_NEW_N(w->s, cr_store, n->sweep[made].stores + 1);
    if (n->sweep[made].stores)
        memcpy(stores, n->sweep[made].store, sizeof *stores * (size_t)n->sweep[made].stores);
    stores[n->sweep[made].stores++] = (cr_store){b, e};
    n->sweep[made].store = stores;
}

/* Keeps costly values under `e` that sweep `at` needs and an earlier sweep computes. */
static void keep_under(work *w, cr_expr_set *seen, const cr_expr *e, int at,
                       const cr_expr_set *made)
{
    int level = w->level[e->id];
    cr_expr_set fresh;

    if (w->scope[e->id] != CR_SCOPE_COLUMN || !cr_expr_set_add(seen, e))
        return;
    fresh = cr_expr_set_new(w->l);
    if (level < at && cr_expr_set_has(&made[level], e) && e->kind != CR_EXPR_LOAD &&
        !cr_nest_kept(w->n, e, at) && expr_cost(w, &fresh, e) >= CR_COST_KEEP) {
        keep_column(w, e, level, at);
        return;
    }
    for (int i = 0; i < e->count; i++)
        keep_under(w, seen, e->args[i], at, made);
}

static void choose_kept(work *w)
{
    cr_nest *n = w->n;
    cr_expr_set *made = CR_NEW_N(w->s, cr_expr_set, n->sweeps);

    for (int k = 0; k < n->sweeps; k++) {
        cr_expr_set seen = cr_expr_set_new(w->l);
        made[k] = computed_in(w, k);
        for (int i = 0; i < n->sweep[k].reduces.count; i++)
            keep_under(w, &seen, n->sweep[k].reduces.at[i]->args[0], k, made);
        for (int i = 0; i < n->sweep[k].stores; i++)
            keep_under(w, &seen, n->sweep[k].store[i].value, k, made);
    }
}

/* The last sweep that can read the kept value: the next one that stores something else in its
 * buffer, or the last of all. */
static int stored_at(const cr_nest *n, const cr_store *kept)
{
    for (int k = n->level[kept->value->id] + 1; k < n->sweeps; k++)
        for (int i = 0; i < n->sweep[k].stores; i++)
            if (n->sweep[k].store[i].buffer == kept->buffer &&
                n->sweep[k].store[i].value != kept->value)
                return k;
    return n->sweeps - 1;
}

const cr_buffer *cr_nest_kept(const cr_nest *n, const cr_expr *e, int at)
{
    for (int q = 0; q < n->keeps; q++)
        if (n->keep[q].value == e && n->level[e->id] < at && at <= stored_at(n, &n->keep[q]))
            return n->keep[q].buffer;
    return NULL;
}

static int cost_without_kept(work *w, cr_expr_set *seen, const cr_expr *e, int at)
{
    int cost = 0;

    if (w->scope[e->id] != CR_SCOPE_COLUMN || !cr_expr_set_add(seen, e))
        return 0;
    if (e->kind == CR_EXPR_LOAD || cr_nest_kept(w->n, e, at))
        return 1 + (cr_expr_is_indexed(e) ? CR_COST_INDEXED : 0);
    for (int i = 0; i < e->count; i++)
        cost += cost_without_kept(w, seen, e->args[i], at);
    return cost + (e->kind == CR_EXPR_CALL ? cr_fn_infos[e->fn].cost : 1);
}

static void set_costs(work *w)
{
    for (int k = 0; k < w->n->sweeps; k++) {
        cr_sweep *sweep = &w->n->sweep[k];
        cr_expr_set seen = cr_expr_set_new(w->l);
        for (int i = 0; i < sweep->reduces.count; i++)
            sweep->cost += 1 + cost_without_kept(w, &seen, sweep->reduces.at[i]->args[0], k);
        for (int i = 0; i < sweep->stores; i++)
            sweep->cost += 1 + cost_without_kept(w, &seen, sweep->store[i].value, k);
    }
}

cr_nest *cr_nest_schedule(cr_loop *l)
{
    work w = {.n = CR_NEW(l->session, cr_nest), .l = l, .s = l->session};

    w.n->loop = l;
    find_axes(&w);
    find_scopes(&w);
    w.n->sweeps = w.n->kind == CR_NEST_COLUMNS ? 1 : count_sweeps(&w);
    w.n->sweep = CR_NEW_N(w.s, cr_sweep, w.n->sweeps);
    for (int k = 0; k < w.n->sweeps; k++)
        set_reduces(&w, k);
    set_stores(&w);
    if (w.n->kind == CR_NEST_ROWS)
        choose_kept(&w);
    set_costs(&w);
    return w.n;
}
