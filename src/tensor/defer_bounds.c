/* Bounds of index tensors: a call whose indices are in bounds does not raise, and is deferred.
 *
 * The bounds are those of the clauses `index` and `within`.  Indices are read when the call is
 * made, so that an error is raised at its line.  Those of a derivative are not read. */
#include "kern/move.h"
#include "tensor/geometry.h"
#include "tensor/trace.h"

bool cr_defer_has_bounds(const cr_op *op) { return op->defer.within || op->loop.index_count; }

uint32_t cr_defer_bounded(const cr_op *op)
{
    uint32_t params = op->defer.within ? 1u << op->defer.within->param : 0;

    for (int i = 0; i < op->loop.index_count; i++)
        params |= 1u << op->loop.index[i].param;
    return params;
}

static bool rule_as_int(cr_frame *f, const cr_rule *rule, int64_t *out)
{
    cr_value v;

    *out = 0;
    if (!rule)
        return true;
    if (cr_frame_eval(f, rule, &v))
        return false;
    *out = v.tag == CR_INT ? v.i : cr_scalar_as_int(v.number);
    return v.tag == CR_INT || (v.tag == CR_NUMBER && v.number.category == CR_CAT_INT);
}

static bool elements_within(const cr_value *v, int64_t low, int64_t high)
{
    int64_t bad;

    if (v->tag != CR_TENSOR || (v->t->dtype != CR_I64 && v->t->dtype != CR_I32))
        return false;
    if (cr_thread.derives)
        return true;
    cr_view view = cr_view_of(v->t);
    return cr_move_within(&view, low, high, &bad);
}

/* The same, but elements may also be `spared`. */
static bool elements_within_or(const cr_value *v, int64_t low, int64_t high, int64_t spared)
{
    if (elements_within(v, low, high))
        return true;
    if (v->tag != CR_TENSOR || v->t->dtype != CR_I64 || !v->t->contiguous)
        return false;
    const int64_t *at = (const int64_t *)(const void *)v->t->address;
    for (int64_t i = 0; i < v->t->numel; i++)
        if ((at[i] < low || at[i] >= high) && at[i] != spared)
            return false;
    return true;
}

/* Whether item k of the list has indices of dim k of `self`. */
static bool each_within(const cr_value *list, const cr_value *self)
{
    if (list->tag != CR_TENSORS || self->tag != CR_TENSOR || list->len > self->t->ndim)
        return false;
    for (uint32_t k = 0; k < list->len; k++) {
        int64_t n = self->t->size[k];
        if (list->list[k].tag != CR_NONE && !elements_within(&list->list[k], -n, n))
            return false;
    }
    return true;
}

static bool holds_within(const cr_within *w, const cr_value *arg, cr_frame *f)
{
    int64_t low, high;

    if (w->each >= 0)
        return each_within(&arg[w->param], &arg[w->each]);
    if (!rule_as_int(f, w->low, &low) || !rule_as_int(f, w->high, &high))
        return false;
    return w->spared < 0 ? elements_within(&arg[w->param], low, high)
                         : elements_within_or(&arg[w->param], low, high, arg[w->spared].i);
}

bool cr_defer_within(const cr_op *op, const cr_value *arg)
{
    int64_t low, high;
    cr_frame f;
    bool yes = true;

    cr_frame_init(&f, op, arg);
    if (op->defer.within)
        yes = holds_within(op->defer.within, arg, &f);
    for (int i = 0; i < op->loop.index_count && yes; i++) {
        const cr_loop_index *c = &op->loop.index[i];
        yes = rule_as_int(&f, c->low, &low) && rule_as_int(&f, c->high, &high) &&
              elements_within(&arg[c->param], low, high);
    }
    cr_frame_drop(&f);
    return yes;
}
