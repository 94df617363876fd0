/* Tangents of the results of an entry by its derivatives (forward.h). */
#include "autograd/formula.h"
#include "autograd/forward.h"
#include "entry.h"
#include <string.h>

/* A node to which tangents come. */
typedef struct {
    cr_formula *f;
    const cr_derivative_plan *plan;
    cr_push_plan *push;
    cr_tensor *const *tangents; /* by edge */
    cr_tensor **out;            /* by result */
    cr_formula_frame e;
    uint64_t values, shapes; /* slots whose value, or only shape, the node has */
    uint32_t with;           /* bits of derivatives whose operand has a tangent */
    uint32_t left;           /* those of them that are still to be done */
} pushed;

cr_reads cr_formula_further_reads(const cr_derivative_plan *plan)
{
    cr_push_plan *push = cr_push_plan_of(plan);
    cr_reads r = {0};
    bool any = false;

    for (int d = 0; push && d < plan->count; d++)
        any |= push->need[d].how == CR_PUSH_APPLIED;
    if (!any)
        return r;
    r.values = push->further;
    for (int d = 0; d < plan->count; d++)
        r.shapes |= (uint64_t)1 << plan->need[d].param;
    return r;
}

static bool is_shapes(const cr_value *v)
{
    return v->tag == CR_VIEW || (v->tag == CR_TENSORS && v->len && v->list[0].tag == CR_VIEW);
}

static void find_held(pushed *p)
{
    for (int i = 0; i < p->f->held_count; i++) {
        int slot = p->f->held[i].slot;
        if (slot >= p->plan->op->param_count)
            continue;
        if (is_shapes(&p->e.arg[slot]))
            p->shapes |= (uint64_t)1 << slot;
        else
            p->values |= (uint64_t)1 << slot;
    }
    for (int d = 0; d < p->plan->count; d++) {
        uint32_t from, to;
        cr_formula_edges(p->f, d, &from, &to);
        for (uint32_t i = from; i < to; i++)
            if (p->tangents[i] && p->f->wanted >> d & 1)
                p->with |= 1u << d;
    }
    p->left = p->with;
}

/* --- element by element --- */
static cr_status tangent_conj(cr_tensor **out, cr_tensor *t)
{
    if (cr_dtype_is_complex((cr_dtype)t->dtype))
        return cr_call_unary(out, cr_entry.conj, t);
    *out = cr_keep(t);
    return CR_OK;
}

/* The conjugate of the rule's value for the conjugate of the tangent.  Of real numbers both are
 * what they are. */
static cr_status push_diagonal(pushed *p, int d)
{
    const cr_need *need = &p->plan->need[d];
    const cr_push_need *how = &p->push->need[d];
    int slot = p->plan->op->slots.grad + how->result;
    cr_tensor *t, *made;
    cr_value v;
    uint32_t from, to;

    cr_formula_edges(p->f, d, &from, &to);
    CR_TRY(tangent_conj(&t, p->tangents[from]));
    CR_TRY(cr_formula_own(&p->e, t));
    p->e.frame.known &= ~(p->push->lets | (uint64_t)1 << slot);
    cr_frame_set(&p->e.frame, slot, cr_of_tensor(t));
    CR_TRY(cr_frame_eval(&p->e.frame, need->rule, &v));
    p->e.frame.known &= ~(p->push->lets | (uint64_t)1 << slot);
    p->left &= ~(1u << d);
    if (v.tag != CR_TENSOR)
        return CR_OK;
    CR_TRY(tangent_conj(&made, v.t));
    return cr_tangent_add(&p->out[how->result], &p->f->node, how->result, made);
}

static bool any_complex(const pushed *p, int d)
{
    uint32_t from, to;

    cr_formula_edges(p->f, d, &from, &to);
    for (uint32_t i = from; i < to; i++)
        if (p->tangents[i] && cr_dtype_is_complex((cr_dtype)p->tangents[i]->dtype))
            return true;
    for (uint32_t k = 0; k < p->f->node.result_count; k++)
        if (p->f->node.results[k].known &&
            cr_dtype_is_complex((cr_dtype)p->f->node.results[k].dtype))
            return true;
    return false;
}

/* --- affine --- */
static cr_status zero_of(pushed *p, const cr_value *shape, cr_value *out)
{
    cr_view v = shape->tag == CR_TENSOR ? cr_shape_view(shape->t) : (cr_view){0};
    cr_tensor *made;

    *out = cr_of_none();
    if (shape->tag != CR_TENSOR && shape->tag != CR_VIEW)
        return CR_OK;
    if (shape->tag == CR_VIEW)
        v = *shape->view;
    CR_TRY(
        cr_filled_tensor(&made, (cr_dtype)v.dtype, v.device, v.ndim, v.size, cr_scalar_int(0)));
    *out = cr_of_tensor(made);
    return cr_formula_own(&p->e, made);
}

static cr_status zeros_of(pushed *p, const cr_value *shape, cr_value *out)
{
    if (shape->tag != CR_TENSORS)
        return zero_of(p, shape, out);
    cr_value *list = cr_arena_get(&p->e.lists, (shape->len + 1) * sizeof *list);
    CR_NEED(list);
    for (uint32_t i = 0; i < shape->len; i++)
        CR_TRY(zero_of(p, &shape->list[i], &list[i]));
    *out = (cr_value){.tag = CR_TENSORS, .len = shape->len, .list = list};
    return CR_OK;
}

/* The tangents of an operand; zeros for items of a list that have none. */
static cr_status operand_tangent(pushed *p, int d, cr_value *out)
{
    const cr_value *was = &p->e.arg[p->plan->need[d].param];
    uint32_t from, to;

    cr_formula_edges(p->f, d, &from, &to);
    if (was->tag != CR_TENSORS) {
        *out = cr_of_tensor(p->tangents[from]);
        return CR_OK;
    }
    cr_value *list = cr_arena_get(&p->e.lists, (was->len + 1) * sizeof *list);
    CR_NEED(list);
    for (uint32_t i = 0; i < was->len; i++)
        if (p->tangents[from + i])
            list[i] = cr_of_tensor(p->tangents[from + i]);
        else
            CR_TRY(zero_of(p, &was->list[i], &list[i]));
    *out = (cr_value){.tag = CR_TENSORS, .len = was->len, .list = list};
    return CR_OK;
}

static int derivative_of(const cr_derivative_plan *plan, int param)
{
    for (int d = 0; d < plan->count; d++)
        if (plan->need[d].param == param)
            return d;
    return -1;
}

/* The arguments of the call for the operand of derivative `d`.  Operands that nothing
 * multiplies get their tangents in the same call; *done has their bits.  Another operand is
 * given as itself where it multiplies this one, and as zeros where it does not.  *can becomes
 * false if the call needs a value that the node did not save. */
static cr_status applied_arguments(pushed *p, int d, cr_value *arg, uint32_t *done, bool *can)
{
    const cr_op *op = p->plan->op;
    const cr_push_need *need = p->push->need;

    *done = 1u << d;
    *can = true;
    for (int i = 0; i < op->param_count; i++) {
        int k = derivative_of(p->plan, i);
        uint64_t bit = (uint64_t)1 << i;
        bool has = k < 0 || (need[d].beside >> k & 1) ? p->values & bit
                                                      : (p->values | p->shapes) & bit;
        arg[i] = p->e.arg[i];
        if (k < 0 && p->push->zeroed >> i & 1) {
            arg[i] = cr_of_number(cr_scalar_int(0));
        } else if (!has) {
            *can = false;
            return CR_OK;
        } else if (k == d || (k >= 0 && p->left >> k & 1 && !need[k].beside &&
                              need[k].how == CR_PUSH_APPLIED)) {
            *done |= 1u << k;
            CR_TRY(operand_tangent(p, k, &arg[i]));
        } else if (k >= 0 && !(need[d].beside >> k & 1)) {
            CR_TRY(zeros_of(p, &p->e.arg[i], &arg[i]));
        }
    }
    return CR_OK;
}

static cr_status give_result(pushed *p, uint32_t k, const cr_value *v)
{
    if (v->tag != CR_TENSOR || k >= p->f->node.result_count || !cr_is_inexact(v->t))
        return CR_OK;
    return cr_tangent_add(&p->out[k], &p->f->node, k, cr_keep(v->t));
}

static cr_status give_results(pushed *p, const cr_value *result, int n)
{
    for (int k = 0; k < n; k++) {
        if (result[k].tag != CR_TENSORS) {
            CR_TRY(give_result(p, (uint32_t)k, &result[k]));
            continue;
        }
        for (uint32_t i = 0; i < result[k].len; i++)
            CR_TRY(give_result(p, i, &result[k].list[i]));
    }
    return CR_OK;
}

static cr_status call_functional(pushed *p, const cr_value *arg)
{
    const cr_op *op = p->plan->op;
    cr_frame f;
    cr_value v;

    cr_frame_init(&f, op, arg);
    cr_status st = cr_frame_eval(&f, op->functional, &v);
    if (!st)
        st = give_results(p, &v, 1);
    cr_frame_drop(&f);
    return st;
}

/* A view that is possible for the operand may be impossible for a tangent with other strides.
 * The call is then made with a row-major copy of the tangent. */
static cr_status call_on_tangent(pushed *p, int param, cr_value *arg, cr_value *result)
{
    const cr_op *op = p->plan->op;
    cr_value given[] = {arg[param], {.tag = CR_FORMAT_VAL, .i = CR_FORMAT_CONTIGUOUS}};
    cr_tensor *dense;
    cr_status st = cr_call(op, arg, result);

    if (CR_LIKELY(!st) || !cr_op_may_view(op) || arg[param].tag != CR_TENSOR)
        return st;
    CR_TRY(cr_call_tensor(&dense, cr_entry.clone, given, CR_LEN(given)));
    CR_TRY(cr_formula_own(&p->e, dense));
    arg[param] = cr_of_tensor(dense);
    return cr_call(op, arg, result);
}

static cr_status push_applied(pushed *p, int d)
{
    const cr_op *op = p->plan->op;
    cr_value arg[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    uint32_t done;
    bool can;

    CR_TRY(applied_arguments(p, d, arg, &done, &can));
    if (!can)
        return CR_OK;
    p->left &= ~done;
    if (op->functional)
        return call_functional(p, arg);
    CR_TRY(call_on_tangent(p, p->plan->need[d].param, arg, result));
    cr_status st = give_results(p, result, op->result_count);
    cr_drop_values(result, op->result_count);
    return st;
}

/* --- by the derivative of a derivative --- */
/* Binds the call of a rule; the cotangent is given as its shape.  *param is its parameter. */
static cr_status bind_rule(pushed *p, const cr_rule *call, int at, uint32_t k, const cr_op **op,
                           int *param, cr_value *arg)
{
    const cr_node_result *r = &p->f->node.results[k];
    cr_value v[CR_MAX_ARGS];

    p->e.result_shape[k] =
        (cr_view){.size = r->size, .ndim = r->ndim, .dtype = r->dtype, .device = r->device};
    for (int i = 0; i < call->count; i++)
        if (i != at)
            CR_TRY(cr_frame_eval(&p->e.frame, call->args[i], &v[i]));
    v[at] = (cr_value){.tag = CR_VIEW, .view = &p->e.result_shape[k]};
    CR_TRY(cr_frame_bind(&p->e.frame, call, v, op, arg));
    for (*param = 0; *param < (*op)->param_count; ++*param)
        if (arg[*param].tag == CR_VIEW && arg[*param].view == v[at].view)
            break;
    return CR_OK;
}

static cr_status call_transpose(pushed *p, const cr_op *op, const cr_need *need,
                                const cr_value *arg, uint32_t k, cr_tensor *t)
{
    cr_frame f;
    cr_value v;

    cr_frame_init(&f, op, arg);
    cr_frame_set(&f, op->slots.grad, cr_of_tensor(t));
    cr_status st = cr_frame_eval(&f, need->rule, &v);
    if (!st && v.tag == CR_TENSOR)
        st = cr_tangent_add(&p->out[k], &p->f->node, k, cr_keep(v.t));
    cr_frame_drop(&f);
    return st;
}

/* The derivative is linear, so its own derivative by the cotangent is its transpose. */
static cr_status push_transposed(pushed *p, int d)
{
    const cr_op *own = p->plan->op, *op;
    const cr_rule *r = p->plan->need[d].rule;
    uint32_t k = p->push->need[d].result, from, to;
    cr_value arg[CR_MAX_ARGS], v;
    int param;

    while (r->kind != CR_RULE_CALL) {
        if (r->kind == CR_RULE_NAME) {
            r = own->lets[r->slot - own->slots.let].rule;
            continue;
        }
        CR_TRY(cr_frame_eval(&p->e.frame, r->args[0], &v));
        r = r->args[cr_value_is_true(&v) ? 1 : 2];
    }
    int at = cr_cotangent_argument(own, r, own->slots.grad + (int)k);
    if (!p->f->node.results[k].known || at < 0)
        return CR_OK;
    CR_TRY(bind_rule(p, r, at, k, &op, &param, arg));
    const cr_need *need = param < op->param_count ? cr_transpose_of(op, param) : NULL;
    if (!need)
        return CR_OK;
    p->left &= ~(1u << d);
    cr_formula_edges(p->f, d, &from, &to);
    return call_transpose(p, op, need, arg, k, p->tangents[from]);
}

/* --- the rest --- */
/* Pulls the operands that are left. */
static cr_status push_rest(pushed *p)
{
    uint32_t n = p->f->node.edge_count;
    cr_tensor **some = cr_alloc_zero((n + 1) * sizeof *some);

    CR_NEED(some);
    for (int d = 0; d < p->plan->count; d++) {
        uint32_t from, to;
        cr_formula_edges(p->f, d, &from, &to);
        for (uint32_t i = from; i < to && p->left >> d & 1; i++)
            some[i] = p->tangents[i];
    }
    atomic_fetch_add_explicit(&p->push->pulled, 1, memory_order_relaxed);
    cr_status st = cr_node_pull(&p->f->node, some, p->out);
    cr_free(some);
    return st;
}

static cr_status push_operands(pushed *p)
{
    for (int d = 0; d < p->plan->count; d++) {
        const cr_push_need *need = &p->push->need[d];
        if (!(p->left >> d & 1))
            continue;
        if (need->how == CR_PUSH_NONE)
            p->left &= ~(1u << d);
        else if (need->how == CR_PUSH_DIAGONAL && (need->analytic || !any_complex(p, d)))
            CR_TRY(push_diagonal(p, d));
        else if (need->how == CR_PUSH_APPLIED)
            CR_TRY(push_applied(p, d));
        else if (need->how == CR_PUSH_TRANSPOSED)
            CR_TRY(push_transposed(p, d));
    }
    return CR_OK;
}

cr_status cr_formula_push(cr_node *n, cr_tensor *const *tangents, cr_tensor **out)
{
    cr_formula *f = (cr_formula *)n;
    const cr_derivative_plan *plan = cr_formula_plan(n);
    pushed p = {.f = f, .plan = plan, .tangents = tangents, .out = out};
    bool derives = cr_thread.derives;

    if (f->released)
        return cr_fail_released();
    p.push = cr_push_plan_of(plan);
    CR_NEED(p.push);
    cr_formula_begin(&p.e, plan->op);
    cr_thread.derives = true;
    cr_status st = cr_formula_unpack(&p.e, f);
    if (!st) {
        find_held(&p);
        st = push_operands(&p);
    }
    cr_thread.derives = derives;
    cr_formula_end(&p.e);
    if (!st && p.left)
        st = push_rest(&p);
    return st;
}
