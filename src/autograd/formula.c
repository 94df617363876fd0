/* Nodes that evaluate derivatives of the table.
 *
 * One node serves all inputs of an operation.  It saves the values that the formulas of the
 * inputs with gradients name (plan.c).  Backward evaluates these formulas in a frame that
 * contains the saved values and the cotangents. */
#include "autograd/formula.h"
#include <string.h>

/* --- sizes --- */
static size_t round8(size_t n) { return (n + 7) & ~(size_t)7; }

static size_t list_bytes(const cr_value *v, bool shape)
{
    size_t n = 0;

    if (!shape)
        return v->len * sizeof(cr_saved);
    for (uint32_t i = 0; i < v->len; i++)
        if (v->list[i].tag == CR_TENSOR)
            n += v->list[i].t->ndim * sizeof(int64_t);
    return n + v->len * (sizeof(cr_value) + sizeof(cr_view));
}

static size_t tail_bytes(const cr_value *v, bool shape)
{
    switch (v->tag) {
    case CR_TENSOR: return shape ? v->t->ndim * sizeof(int64_t) : 0;
    case CR_TENSORS: return list_bytes(v, shape);
    case CR_INTS:
    case CR_TRUTHS: return v->len * sizeof(int64_t);
    case CR_FLOATS: return v->len * sizeof(double);
    case CR_NUMBERS: return v->len * sizeof(cr_value);
    case CR_STRING: return round8(v->len + 1);
    default: return 0;
    }
}

/* --- saving --- */
static void *take_tail(cr_formula *f, const void *from, size_t n)
{
    void *p = f->tail;

    f->tail += round8(n);
    return from && n ? memcpy(p, from, n) : p;
}

static cr_view formula_shape_of(cr_formula *f, const cr_tensor *t)
{
    return (cr_view){.size = take_tail(f, t->size, t->ndim * sizeof *t->size),
                     .ndim = t->ndim,
                     .dtype = t->dtype,
                     .device = t->device,
                     .number = t->number};
}

static cr_value formula_copied(cr_formula *f, const cr_value *v)
{
    cr_value c = *v;

    switch (v->tag) {
    case CR_INTS:
    case CR_TRUTHS: c.ints = take_tail(f, v->ints, v->len * sizeof *v->ints); break;
    case CR_FLOATS: c.floats = take_tail(f, v->floats, v->len * sizeof *v->floats); break;
    case CR_NUMBERS: c.list = take_tail(f, v->list, v->len * sizeof *v->list); break;
    case CR_STRING:
        c.s = take_tail(f, NULL, v->len + 1);
        memcpy((char *)c.s, v->s, v->len);
        break;
    default: break;
    }
    return c;
}

static cr_value shapes_of(cr_formula *f, const cr_value *v)
{
    cr_value *list = take_tail(f, NULL, v->len * sizeof *list);
    cr_view *views = take_tail(f, NULL, v->len * sizeof *views);

    for (uint32_t i = 0; i < v->len; i++) {
        list[i] = cr_of_none();
        if (v->list[i].tag != CR_TENSOR)
            continue;
        views[i] = formula_shape_of(f, v->list[i].t);
        list[i] = (cr_value){.tag = CR_VIEW, .view = &views[i]};
    }
    return (cr_value){.tag = CR_TENSORS, .len = v->len, .list = list};
}

static cr_status hold_list(cr_formula *f, cr_held *h, const cr_value *v)
{
    h->as = CR_HELD_LIST;
    h->list.len = 0;
    h->list.items = take_tail(f, NULL, v->len * sizeof(cr_saved));
    f->has_tensors = true;
    for (uint32_t i = 0; i < v->len; i++) {
        CR_TRY(cr_save(&h->list.items[i], v->list[i].tag == CR_TENSOR ? v->list[i].t : NULL,
                       false));
        h->list.len = i + 1;
    }
    return CR_OK;
}

static cr_status formula_hold(cr_formula *f, int slot, const cr_value *v, bool shape)
{
    cr_held *h = &f->held[f->held_count++];

    h->slot = (uint8_t)slot;
    if (v->tag == CR_TENSOR && shape) {
        h->as = CR_HELD_SHAPE;
        h->shape = formula_shape_of(f, v->t);
    } else if (v->tag == CR_TENSOR) {
        h->as = CR_HELD_TENSOR;
        f->has_tensors = true;
        return cr_save(&h->saved, v->t, false);
    } else if (v->tag == CR_TENSORS && !shape) {
        return hold_list(f, h, v);
    } else {
        h->as = CR_HELD_VALUE;
        h->value = v->tag == CR_TENSORS ? shapes_of(f, v) : formula_copied(f, v);
    }
    return CR_OK;
}

static uint32_t formula_count_edges(const cr_derivative_plan *plan, const cr_value *arg)
{
    uint32_t n = 0;

    if (CR_LIKELY(!plan->lists))
        return plan->count;
    for (int d = 0; d < plan->count; d++) {
        const cr_value *v = &arg[plan->need[d].param];
        n += v->tag == CR_TENSORS ? v->len : 1;
    }
    return n;
}

/* Bytes in the tail for the saved arguments. */
static size_t formula_measure(const cr_op *op, const cr_reads *r, const cr_value *arg)
{
    size_t n = 0;

    for (uint64_t m = r->values | r->shapes; m; m &= m - 1) {
        int slot = (int)CR_CTZ64(m);
        if (slot < op->param_count)
            n += round8(tail_bytes(&arg[slot], r->shapes >> slot & 1));
    }
    return n;
}

static cr_status edge_of_value(cr_edge *out, const cr_value *v)
{
    return v->tag == CR_TENSOR ? cr_edge_of(out, v->t) : CR_OK;
}

static cr_status fill_edges(cr_formula *f, const cr_derivative_plan *plan, const cr_value *arg)
{
    uint32_t e = 0;

    for (int d = 0; d < plan->count; d++) {
        const cr_value *v = &arg[plan->need[d].param];
        if (CR_UNLIKELY(f->first_edge != NULL))
            f->first_edge[d] = e;
        if (v->tag != CR_TENSORS) {
            CR_TRY(edge_of_value(&f->node.edges[e++], v));
            continue;
        }
        for (uint32_t i = 0; i < v->len; i++)
            CR_TRY(edge_of_value(&f->node.edges[e++], &v->list[i]));
    }
    if (f->first_edge)
        f->first_edge[plan->count] = e;
    return CR_OK;
}

static cr_status save_arguments(cr_formula *f, const cr_op *op, const cr_value *arg,
                                const cr_reads *r)
{
    for (uint64_t m = r->values | r->shapes; m; m &= m - 1) {
        int slot = (int)CR_CTZ64(m);
        if (slot < op->param_count)
            CR_TRY(formula_hold(f, slot, &arg[slot], r->shapes >> slot & 1));
    }
    return CR_OK;
}

static cr_reads formula_reads(const cr_derivative_plan *plan, uint32_t wanted)
{
    cr_reads r = cr_derivative_plan_reads(plan, wanted);

    if (CR_LIKELY(!atomic_load_explicit(&cr_forward_mode, memory_order_relaxed)))
        return r;
    cr_reads further = cr_formula_further_reads(plan);
    r.values |= further.values;
    r.shapes = (r.shapes | further.shapes) & ~r.values;
    r.count = CR_POPCOUNT64(r.values | r.shapes);
    return r;
}

cr_status cr_formula_new(cr_node **out, const cr_derivative_plan *plan, const cr_value *arg,
                         uint32_t wanted)
{
    const cr_op *op = plan->op;
    cr_reads r = formula_reads(plan, wanted);
    uint64_t slots = r.values | r.shapes;
    size_t fixed = sizeof(cr_formula) + r.count * sizeof(cr_held);
    size_t firsts = plan->lists ? round8((plan->count + 1u) * sizeof(uint32_t)) : 0;
    size_t tail = slots ? formula_measure(op, &r, arg) : 0;
    cr_node *n;
    cr_status st;

    CR_TRY(cr_node_make(&n, fixed + firsts + tail, &plan->kind, formula_count_edges(plan, arg),
                        plan->list_result ? 0 : op->result_count));
    cr_formula *f = (cr_formula *)n;
    f->wanted = wanted;
    f->held_count = 0;
    f->has_tensors = f->released = false;
    f->reads_results = slots >> op->param_count != 0;
    f->tail = (char *)f + fixed + firsts;
    f->first_edge = plan->lists ? (uint32_t *)(void *)((char *)f + fixed) : NULL;
    CR_GO(fill_edges(f, plan, arg));
    CR_GO(save_arguments(f, op, arg, &r));
    *out = n;
    return CR_OK;
done:
    cr_node_drop(n);
    return st;
}

cr_status cr_formula_save_result(cr_node *n, int k, const cr_value *result)
{
    cr_formula *f = (cr_formula *)n;
    int slot = cr_formula_plan(n)->op->slots.result + k;

    if (CR_LIKELY(!f->reads_results))
        return CR_OK;
    cr_reads r = cr_derivative_plan_reads(cr_formula_plan(n), f->wanted);
    if (!((r.values | r.shapes) >> slot & 1))
        return CR_OK;
    cr_held *h = &f->held[f->held_count++];
    h->slot = (uint8_t)slot;
    h->as = CR_HELD_RESULT_SHAPE;
    if (!(r.values >> slot & 1))
        return CR_OK;
    h->as = CR_HELD_TENSOR;
    f->has_tensors = true;
    return cr_save(&h->saved, result->tag == CR_TENSOR ? result->t : NULL, true);
}

static void formula_release(cr_node *n)
{
    cr_formula *f = (cr_formula *)n;

    if (!f->has_tensors || f->released)
        return;
    f->released = true;
    for (int i = 0; i < f->held_count; i++) {
        cr_held *h = &f->held[i];
        if (h->as == CR_HELD_TENSOR)
            cr_saved_drop(&h->saved);
        for (uint32_t k = 0; h->as == CR_HELD_LIST && k < h->list.len; k++)
            cr_saved_drop(&h->list.items[k]);
    }
}

/* --- evaluation --- */
cr_status cr_formula_own(cr_formula_frame *e, cr_tensor *t)
{
    if (CR_LIKELY(e->few_count < (int)CR_LEN(e->few))) {
        e->few[e->few_count++] = t;
        return CR_OK;
    }
    if (cr_vec_reserve(&e->mine, 1)) {
        cr_drop(t);
        return CR_MEMORY;
    }
    cr_vec_put(&e->mine, t);
    return CR_OK;
}

static void set_slot(cr_formula_frame *e, const cr_op *op, int slot, cr_value v)
{
    if (slot < op->param_count)
        e->arg[slot] = v;
    else
        cr_frame_set(&e->frame, slot, v);
}

static cr_status unpack_one(cr_formula_frame *e, const cr_saved *s, cr_node *n, cr_value *out)
{
    cr_tensor *t;

    CR_TRY(cr_saved_get(&t, s, n));
    *out = cr_of_tensor(t);
    return t ? cr_formula_own(e, t) : CR_OK;
}

static cr_status unpack_list(cr_formula_frame *e, const cr_held *h, cr_node *n, cr_value *out)
{
    cr_value *list = cr_arena_get(&e->lists, (h->list.len + 1) * sizeof *list);

    CR_NEED(list);
    for (uint32_t i = 0; i < h->list.len; i++)
        CR_TRY(unpack_one(e, &h->list.items[i], n, &list[i]));
    *out = (cr_value){.tag = CR_TENSORS, .len = h->list.len, .list = list};
    return CR_OK;
}

static cr_value result_shape(cr_formula_frame *e, const cr_formula *f, int k)
{
    const cr_node_result *r = &f->node.results[k];

    e->result_shape[k] =
        (cr_view){.size = r->size, .ndim = r->ndim, .dtype = r->dtype, .device = r->device};
    return (cr_value){.tag = CR_VIEW, .view = &e->result_shape[k]};
}

cr_status cr_formula_unpack(cr_formula_frame *e, cr_formula *f)
{
    const cr_op *op = cr_formula_plan(&f->node)->op;

    for (int i = 0; i < f->held_count; i++) {
        const cr_held *h = &f->held[i];
        cr_value v = cr_of_none();
        switch (h->as) {
        case CR_HELD_VALUE: v = h->value; break;
        case CR_HELD_SHAPE: v = (cr_value){.tag = CR_VIEW, .view = &h->shape}; break;
        case CR_HELD_RESULT_SHAPE: v = result_shape(e, f, h->slot - op->slots.result); break;
        case CR_HELD_TENSOR: CR_TRY(unpack_one(e, &h->saved, &f->node, &v)); break;
        default: CR_TRY(unpack_list(e, h, &f->node, &v)); break;
        }
        set_slot(e, op, h->slot, v);
    }
    return CR_OK;
}

/* As unpack, for evaluating a node's name.  It sets only shapes of tensors and skips lists.  An
 * argument that was not saved is set to an empty view when it receives a gradient. */
static void formula_outline(cr_formula_frame *e, cr_formula *f)
{
    static const cr_view released;
    const cr_derivative_plan *plan = cr_formula_plan(&f->node);
    cr_view *seen = (cr_view *)(e + 1);

    for (int d = 0; d < plan->count && !f->first_edge; d++)
        if (f->node.edges[d].node)
            e->arg[plan->need[d].param] = (cr_value){.tag = CR_VIEW, .view = &released};
    for (int i = 0; i < f->held_count; i++) {
        const cr_held *h = &f->held[i];
        const cr_tensor *t = h->as == CR_HELD_TENSOR ? h->saved.tensor : NULL;
        cr_value v = {.tag = CR_VIEW, .view = h->as == CR_HELD_SHAPE ? &h->shape : &released};
        if (h->slot >= plan->op->param_count || h->as == CR_HELD_LIST)
            continue;
        if (t) {
            seen[i] = cr_shape_view(t);
            v.view = &seen[i];
        }
        e->arg[h->slot] = h->as == CR_HELD_VALUE ? h->value : v;
    }
    for (int k = 0; k < plan->op->result_count && !plan->list_result; k++)
        cr_frame_set(&e->frame, plan->op->slots.result + k, result_shape(e, f, k));
}

const char *cr_formula_name(cr_node *n)
{
    const cr_derivative_plan *plan = cr_formula_plan(n);
    cr_formula_frame *e =
        cr_alloc_zero(sizeof *e + ((cr_formula *)n)->held_count * sizeof(cr_view));
    const char *name = plan->name;
    cr_value v;

    if (!e)
        return name;
    cr_frame_init(&e->frame, plan->op, e->arg);
    formula_outline(e, (cr_formula *)n);
    if (!cr_frame_eval(&e->frame, plan->op->node, &v) && v.tag == CR_STRING)
        name = v.s;
    cr_frame_drop(&e->frame);
    cr_free(e);
    return name;
}

static cr_status formula_cotangent(cr_formula_frame *e, const cr_formula *f,
                                   cr_tensor *const *grads, uint32_t k, cr_value *out)
{
    cr_tensor *zeros;

    *out = cr_of_tensor(grads[k]);
    if (grads[k])
        return CR_OK;
    CR_TRY(cr_node_zeros(&zeros, &f->node, k));
    *out = cr_of_tensor(zeros);
    return cr_formula_own(e, zeros);
}

static cr_status list_cotangent(cr_formula_frame *e, const cr_formula *f,
                                cr_tensor *const *grads, cr_value *out)
{
    uint32_t n = f->node.result_count;
    cr_value *list = cr_arena_get(&e->lists, (n + 1) * sizeof *list);

    CR_NEED(list);
    for (uint32_t i = 0; i < n; i++)
        CR_TRY(formula_cotangent(e, f, grads, i, &list[i]));
    *out = (cr_value){.tag = CR_TENSORS, .len = n, .list = list};
    return CR_OK;
}

/* Sets the cotangents that a formula reads.  *any is false when all of them are NULL. */
static cr_status set_cotangents(cr_formula_frame *e, const cr_formula *f, const cr_need *need,
                                cr_tensor *const *grads, bool *any)
{
    const cr_derivative_plan *plan = cr_formula_plan(&f->node);
    cr_value v;

    *any = plan->list_result || !need->cotangents;
    for (uint32_t m = need->cotangents; m && !*any; m &= m - 1)
        *any = grads[CR_CTZ(m)] != NULL;
    for (uint32_t m = need->cotangents; m && *any; m &= m - 1) {
        uint32_t k = CR_CTZ(m);
        int slot = plan->op->slots.grad + (int)k;
        if (e->frame.known >> slot & 1)
            continue;
        if (plan->list_result)
            CR_TRY(list_cotangent(e, f, grads, &v));
        else
            CR_TRY(formula_cotangent(e, f, grads, k, &v));
        cr_frame_set(&e->frame, slot, v);
    }
    return CR_OK;
}

/* A gradient that is a number: a tensor filled with it. */
static cr_status formula_filled(cr_tensor **out, const cr_edge *edge, const cr_value *v)
{
    cr_target to;
    cr_scalar s = v->tag == CR_NUMBER  ? v->number
                  : v->tag == CR_FLOAT ? cr_scalar_float(v->d)
                                       : cr_scalar_int(v->i);

    if (!cr_target_of(&to, edge))
        return cr_fail(CR_RUNTIME, "a number is no gradient of a tensor of unknown shape");
    return cr_filled_tensor(out, (cr_dtype)to.dtype, to.device, to.ndim, to.size, s);
}

static cr_status formula_put(cr_tensor **out, const cr_edge *edge, const cr_value *v)
{
    if (!edge->node || v->tag == CR_NONE)
        return CR_OK;
    if (v->tag != CR_TENSOR)
        return formula_filled(out, edge, v);
    *out = cr_keep(v->t);
    return CR_OK;
}

static bool formula_any_wanted(const cr_formula *f, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (f->node.edges[i].node && cr_edge_wanted(&f->node, i))
            return true;
    return false;
}

static cr_status derive(cr_formula_frame *e, cr_formula *f, int d, cr_tensor *const *grads,
                        cr_tensor **out)
{
    const cr_need *need = &cr_formula_plan(&f->node)->need[d];
    uint32_t from, to;
    cr_value v;
    bool any;

    cr_formula_edges(f, d, &from, &to);
    if (!formula_any_wanted(f, from, to))
        return CR_OK;
    CR_TRY(set_cotangents(e, f, need, grads, &any));
    if (!any)
        return CR_OK;
    bool derives = cr_thread.derives;
    cr_thread.derives = true;
    cr_status st = cr_frame_eval(&e->frame, need->rule, &v);
    cr_thread.derives = derives;
    CR_TRY(st);
    if (v.tag != CR_TENSORS)
        return formula_put(&out[from], &f->node.edges[from], &v);
    for (uint32_t i = from; i < to && i - from < v.len; i++)
        CR_TRY(formula_put(&out[i], &f->node.edges[i], &v.list[i - from]));
    return CR_OK;
}

void cr_formula_begin(cr_formula_frame *e, const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        e->arg[i] = cr_of_none();
    cr_frame_init(&e->frame, op, e->arg);
    e->mine.at = NULL;
    e->mine.len = e->mine.cap = 0;
    e->few_count = 0;
    e->lists = (cr_arena){0};
}

void cr_formula_end(cr_formula_frame *e)
{
    cr_frame_drop(&e->frame);
    for (int i = 0; i < e->few_count; i++)
        cr_drop(e->few[i]);
    for (size_t i = 0; i < e->mine.len; i++)
        cr_drop(e->mine.at[i]);
    cr_vec_drop(&e->mine);
    cr_arena_drop(&e->lists);
}

static bool all_absent(const cr_node *n, cr_tensor *const *grads)
{
    for (uint32_t i = 0; i < n->result_count; i++)
        if (grads[i])
            return false;
    return true;
}

static cr_status formula_apply(cr_node *n, cr_tensor *const *grads, cr_tensor **out)
{
    cr_formula *f = (cr_formula *)n;
    const cr_derivative_plan *plan = cr_formula_plan(n);
    cr_formula_frame e;
    cr_status st;

    if (f->released)
        return cr_fail_released();
    if (all_absent(n, grads))
        return CR_OK;
    cr_formula_begin(&e, plan->op);
    st = cr_formula_unpack(&e, f);
    for (int d = 0; d < plan->count && !st; d++)
        if (f->wanted >> d & 1)
            st = derive(&e, f, d, grads, out);
    cr_formula_end(&e);
    return st;
}

bool cr_formula_is_released(const cr_node *n)
{
    return n->kind->apply == formula_apply && ((const cr_formula *)n)->released;
}

/* --- `_saved_NAME` --- */
static const char *slot_name(const cr_op *op, int slot)
{
    if (slot < op->param_count)
        return op->param[slot].name;
    const char *name = op->result[slot - op->slots.result].name;
    return *name ? name : "result";
}

cr_status cr_node_saved(const char **name, cr_value *out, cr_node *n, int i)
{
    cr_formula *f = (cr_formula *)n;
    cr_tensor *t;
    int at = 0;

    *name = NULL;
    if (n->kind->apply != formula_apply)
        return CR_OK;
    for (int k = 0; k < f->held_count; k++) {
        const cr_held *h = &f->held[k];
        if ((h->as != CR_HELD_VALUE && h->as != CR_HELD_TENSOR) || at++ != i)
            continue;
        *name = slot_name(cr_formula_plan(n)->op, h->slot);
        if (h->as == CR_HELD_VALUE) {
            *out = h->value;
            return CR_OK;
        }
        if (f->released)
            return cr_fail_released();
        CR_TRY(cr_saved_get(&t, &h->saved, n));
        *out = cr_of_tensor(t);
        return CR_OK;
    }
    return CR_OK;
}

int cr_node_results_over(const cr_node *n, const cr_storage *s)
{
    const cr_formula *f = (const cr_formula *)n;
    int count = 0;

    if (n->kind->apply != formula_apply || f->released)
        return 0;
    for (int k = 0; k < f->held_count; k++) {
        const cr_saved *one = &f->held[k].saved;
        count += f->held[k].as == CR_HELD_TENSOR && one->is_result && one->tensor &&
                 one->tensor->storage == s;
    }
    return count;
}

cr_status cr_formula_start(void)
{
    return cr_derivative_plans_start(&(cr_node_kind){
        .apply = formula_apply, .push = cr_formula_push, .release = formula_release});
}
