/* Axes of loops.
 *
 * A dim of a tensor that is indexed by an axis alone is a dim of this axis, also where an
 * expression has the axis's value at all its places (a flip along other dims).  An axis that
 * takes part in any other expression is whole: its parts would have other indices.
 *
 * A dim that is indexed by an element of another operand has an axis of its own: a part of the
 * call looks up the places of its part, and sets the other elements of the result to zero, if
 * the value is linear in the elements that are looked up.  Results are the sums of the
 * parts'. */
#include "dist/axes.h"
#include "ops/ops.h"
#include "tensor/stated_dims.h"
#include <string.h>

typedef struct {
    cr_axes_maker *m;
    cr_axes *a;
    int width[CR_LOOP_AXES];            /* the number of axes of a pack, or 1 */
    int id[CR_LOOP_AXES][CR_AXES_DIMS]; /* axes of the call */
    uint32_t stay[CR_LOOP_AXES];        /* by name: its axes that the rule at hand leaves */
    bool failed;
} loop_axes;

static int axis_of_slot(const loop_axes *l, int slot)
{
    const cr_op *op = l->a->op;

    for (int k = 0; k < op->loop.axis_count; k++)
        if (op->loop.axis[k].slot == slot)
            return k;
    return -1;
}

static const cr_rule *let_of_slot(const loop_axes *l, int slot)
{
    const cr_op *op = l->a->op;

    for (int i = 0; i < op->let_count; i++)
        if (op->lets[i].slot == slot)
            return op->lets[i].rule;
    return NULL;
}

static bool is_bare_axis(const loop_axes *l, const cr_rule *r)
{
    return r->kind == CR_RULE_NAME && axis_of_slot(l, r->slot) >= 0;
}

/* The pack by whose axes an index runs: it stands for as many indices.  -1: one index. */
static int pack_of(const loop_axes *l, const cr_rule *r)
{
    int k = r->kind == CR_RULE_NAME ? axis_of_slot(l, r->slot) : -1;
    const cr_rule *let = r->kind == CR_RULE_NAME ? let_of_slot(l, r->slot) : NULL;

    if (k >= 0)
        return l->a->op->loop.axis[k].pack ? k : -1;
    if (let)
        return pack_of(l, let);
    if ((r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_total) || r->kind == CR_RULE_INDEX)
        return -1;
    for (unsigned i = 0; i < r->count; i++)
        if ((k = pack_of(l, r->args[i])) >= 0)
            return k;
    return -1;
}

static void walk(loop_axes *l, const cr_rule *r);

/* Walks an index or a guard, in which the axes of bits `stay` of name k are as good as
 * alone. */
static void walk_staying(loop_axes *l, const cr_rule *r, int k, uint32_t stay)
{
    uint32_t was = k < 0 ? 0 : l->stay[k];

    if (k >= 0)
        l->stay[k] |= stay;
    walk(l, r);
    if (k >= 0)
        l->stay[k] = was;
}

/* The operand whose element an index is, where its own indices are axes alone; or -1. */
static int places_of(const loop_axes *l, const cr_rule *index)
{
    const cr_rule *let = index->kind == CR_RULE_NAME ? let_of_slot(l, index->slot) : NULL;
    int of;

    if (let)
        return places_of(l, let);
    if (index->kind != CR_RULE_INDEX || index->args[0]->kind != CR_RULE_NAME)
        return -1;
    of = cr_axes_operand(l->a, index->args[0]->slot);
    for (unsigned i = 1; i < index->count && of >= 0; i++)
        if (!is_bare_axis(l, index->args[i]))
            of = -1;
    return of >= 0 && l->a->op->param[l->a->operand[of].param].type == CR_T_TENSOR ? of : -1;
}

/* How often an expression names a parameter. */
static int count_names(const loop_axes *l, const cr_rule *r, int slot)
{
    const cr_rule *let = r->kind == CR_RULE_NAME ? let_of_slot(l, r->slot) : NULL;
    int n = r->kind == CR_RULE_NAME && r->slot == slot;

    if (let)
        return count_names(l, let, slot);
    for (unsigned i = 0; i < r->count; i++)
        n += count_names(l, r->args[i], slot);
    return n;
}

/* The axis of a dim of t that is looked up by an index. */
static void put_looked(loop_axes *l, cr_axes_tensor *t, const cr_rule *index, int at)
{
    const cr_op *op = l->a->op;
    int of = places_of(l, index), slot = t->param, k;
    bool operand = t >= l->a->operand && t < l->a->operand + l->a->operands;

    if (of < 0 || !operand || op->loop.start || op->loop.window || op->loop.combine ||
        l->a->results != 1 || op->param[slot].type != CR_T_TENSOR ||
        count_names(l, op->loop.value, slot) != 1 ||
        cr_axes_degree(l->a, op->loop.value, (uint32_t)1 << (t - l->a->operand)) != 1)
        return;
    k = cr_axes_add(l->m, l->a, CR_AXIS_SUM);
    l->a->axis[k].looked = (uint8_t)(of + 1);
    cr_axes_put(l->a, t, at, k);
}

/* One index, for `wide` dims of t from `at` on. */
static void put_index(loop_axes *l, cr_axes_tensor *t, const cr_rule *index, int at, int wide)
{
    bool bare = is_bare_axis(l, index);
    int k = bare ? axis_of_slot(l, index->slot) : pack_of(l, index);
    uint32_t stay = bare ? UINT32_MAX : 0;

    for (int j = 0; j < wide && k >= 0; j++) {
        cr_loop_along along = {index, false, l->width, k, j, t->t->size[at + j]};
        if (bare || cr_loop_stays(l->a->op, l->a->arg, &along)) {
            stay |= (uint32_t)1 << j;
            cr_axes_put(l->a, t, at + j, l->id[k][j]);
        }
    }
    if (!bare && wide == 1)
        put_looked(l, t, index, at);
    if (!bare)
        walk_staying(l, index, k, stay);
}

/* Gives the dims of a tensor the axes of its indices. */
static void put_indices(loop_axes *l, cr_axes_tensor *t, cr_rule *const *index, unsigned n)
{
    int at = 0;

    for (unsigned i = 0; i < n; i++) {
        int pack = pack_of(l, index[i]), wide = pack < 0 ? 1 : l->width[pack];
        if (at + wide > t->t->ndim) {
            l->failed = true;
            return;
        }
        put_index(l, t, index[i], at, wide);
        at += wide;
    }
    l->failed |= at != t->t->ndim;
}

/* A condition that holds along an axis does not depend on it. */
static void walk_guard(loop_axes *l, const cr_rule *r)
{
    const cr_axes_tensor *y = &l->a->result[0];
    uint32_t stay = 0;
    int k = pack_of(l, r);

    for (int j = 0; k >= 0 && j < l->width[k]; j++)
        for (int d = 0; d < y->t->ndim; d++) {
            cr_loop_along along = {r, true, l->width, k, j, y->t->size[d]};
            if (y->axis[d] == l->id[k][j] && cr_loop_stays(l->a->op, l->a->arg, &along))
                stay |= (uint32_t)1 << j;
        }
    walk_staying(l, r, k, stay);
}

/* An element of a tensor, of each tensor of a list, or an item of a list of numbers. */
static void put_element(loop_axes *l, const cr_rule *r)
{
    const cr_rule *of = r->args[0];
    bool listed = of->kind == CR_RULE_INDEX;
    int slot = listed ? of->args[0]->slot : of->slot, found = 0;

    if (of->kind != CR_RULE_NAME && !listed) {
        walk(l, of);
        l->failed = true;
        return;
    }
    for (int i = 0; i < l->a->operands; i++)
        if (l->a->operand[i].param == slot) {
            put_indices(l, &l->a->operand[i], r->args + 1, r->count - 1);
            found++;
        }
    if (!found)
        for (unsigned i = 1; i < r->count; i++)
            walk(l, r->args[i]);
    if (listed)
        walk(l, of->args[1]);
}

/* Axes that take part in an expression are whole, but for those that stay; elements in it have
 * axes of their own. */
static void walk(loop_axes *l, const cr_rule *r)
{
    int k = r->kind == CR_RULE_NAME ? axis_of_slot(l, r->slot) : -1;
    const cr_rule *let = r->kind == CR_RULE_NAME ? let_of_slot(l, r->slot) : NULL;

    if (k >= 0)
        for (int j = 0; j < l->width[k]; j++)
            l->a->axis[l->id[k][j]].whole |= !(l->stay[k] >> j & 1);
    else if (let)
        walk(l, let);
    else if (r->kind == CR_RULE_INDEX)
        put_element(l, r);
    else
        for (unsigned i = 0; i < r->count; i++)
            if (r->kind == CR_RULE_CHOOSE && i == 0)
                walk_guard(l, r->args[i]);
            else
                walk(l, r->args[i]);
}

/* --- the number of axes --- */

static bool count_axes(loop_axes *l)
{
    const cr_op *op = l->a->op;
    cr_frame f;
    cr_value n;
    int open = -1, known = 0;
    bool good = true;

    cr_frame_init(&f, op, l->a->arg);
    for (int k = 0; k < op->loop.axis_count; k++) {
        const cr_loop_axis *x = &op->loop.axis[k];
        l->width[k] = 1;
        if (x->pack && x->count && !(op->loop.window && k == op->loop.axis_count - 1)) {
            good = good && !cr_frame_eval(&f, x->count, &n) && n.tag == CR_INT;
            l->width[k] = good ? (int)n.i : 0;
            l->width[k] += l->width[k] < 0 ? l->a->result[0].t->ndim : 0;
        } else if (x->pack && x->count) {
            l->width[k] = 0;
        } else if (x->pack) {
            open = k;
            l->width[k] = 0;
        }
    }
    cr_frame_drop(&f);
    /* The open pack has the dims of the target that the other indices leave. */
    for (unsigned i = 1; i < op->loop.target->count; i++) {
        int pack = pack_of(l, op->loop.target->args[i]);
        known += pack < 0 ? 1 : l->width[pack];
    }
    if (open >= 0)
        l->width[open] = l->a->result[0].t->ndim - known;
    for (int k = 0; k < op->loop.axis_count; k++)
        good = good && l->width[k] >= 0 && l->width[k] <= CR_AXES_DIMS;
    return good;
}

static bool has_axis(const cr_axes_tensor *t, int k)
{
    for (int d = 0; d < t->t->ndim; d++)
        if (t->axis[d] == k)
            return true;
    return false;
}

/* Of a loop that writes: axes that the result lacks are added up, where it adds to zeros, or to
 * a tensor that is added in parts. */
static void lacking_axes(loop_axes *l)
{
    const cr_op *op = l->a->op;
    const cr_rule *start = op->loop.start;
    bool sums = op->loop.adds && (start->kind == CR_RULE_NAME || !start->integer);
    int from = start->kind == CR_RULE_NAME ? cr_axes_operand(l->a, start->slot) : -1;
    bool any = false;

    for (int k = 0; k < op->loop.axis_count; k++)
        for (int j = 0; j < l->width[k]; j++) {
            cr_axis *x = &l->a->axis[l->id[k][j]];
            if (has_axis(&l->a->result[0], l->id[k][j]))
                continue;
            x->whole |= !sums;
            x->how = CR_AXIS_SUM;
            any = true;
        }
    if (from >= 0) {
        memcpy(l->a->operand[from].axis, l->a->result[0].axis, sizeof l->a->operand[from].axis);
        l->a->operand[from].added = sums && any;
    }
}

void cr_axes_by_loop(cr_axes_maker *m, cr_axes *a)
{
    const cr_op *op = a->op;
    loop_axes *l = CR_NEW(m->session, loop_axes);

    l->m = m;
    l->a = a;
    if (!count_axes(l))
        return;
    for (int k = 0; k < op->loop.axis_count; k++)
        for (int j = 0; j < l->width[k]; j++)
            l->id[k][j] = cr_axes_add(m, a, CR_AXIS_ALONG);
    put_indices(l, &a->result[0], op->loop.target->args + 1, op->loop.target->count - 1);
    for (int k = 1; k < a->results; k++)
        memcpy(a->result[k].axis, a->result[0].axis, sizeof a->result[0].axis);
    walk(l, op->loop.value);
    if (op->loop.window) {
        const cr_loop_window *w = op->loop.window;
        if (w->inside)
            walk(l, w->inside);
        if (w->divisor)
            walk(l, w->divisor);
    }
    if (op->loop.start)
        lacking_axes(l);
    a->rule = l->failed ? NULL : "loop";
}
