/* The autograd stage: runs an operation below and records its node.
 *
 * An entry with derivatives is one node.  `is` and `whole` entries without derivatives record
 * the operators that they call.  Results of other entries do not require a gradient.  Views are
 * tracked even if no tensor requires a gradient, because a later in-place change may make the
 * base require one. */
#include "autograd/autograd_impl.h"
#include "entry.h"
#include <string.h>

static bool value_requires(const cr_value *v)
{
    if (CR_LIKELY(v->tag == CR_TENSOR))
        return cr_requires_grad(v->t);
    if (v->tag == CR_TENSORS)
        for (uint32_t i = 0; i < v->len; i++)
            if (value_requires(&v->list[i]))
                return true;
    return false;
}

static uint32_t wanted_of(const cr_derivative_plan *p, const cr_value *arg)
{
    uint32_t wanted = 0;

    for (int d = 0; d < p->count; d++)
        if (value_requires(&arg[p->need[d].param]))
            wanted |= 1u << d;
    return wanted;
}

static bool any_requires(const cr_op *op, const cr_value *arg)
{
    for (uint32_t m = op->tensor_params; m; m &= m - 1)
        if (value_requires(&arg[CR_CTZ(m)]))
            return true;
    return false;
}

/* The index of the parameter that is changed in place; -1 for none. */
static inline int record_written_param(const cr_op *op, const cr_derivative_plan *p)
{
    return op->does == CR_DOES_INPLACE ? 0 : p->written;
}

/* --- views --- */
static cr_tensor *record_viewed(const cr_op *op, int k, const cr_value *arg)
{
    for (int i = 0; i < op->param_count; i++)
        if (arg[i].tag == CR_TENSOR && op->param[i].alias &&
            op->param[i].alias == op->result[k].alias)
            return arg[i].t;
    return op->does == CR_DOES_MAP && arg[0].tag == CR_TENSOR ? arg[0].t : NULL;
}

/* A handler of __torch_dispatch__ may return a new tensor for a view.  If neither has bytes, it
 * gets the storage of its base, so that they have one version. */
static void share_wrapped(cr_tensor *view, cr_tensor *base)
{
    cr_storage *old = view->storage;

    if (!cr_is_dispatched(view) || !cr_is_dispatched(base) || cr_has_elements(view) ||
        cr_has_elements(base))
        return;
    view->storage = cr_storage_keep(base->storage);
    cr_storage_drop(old);
}

/* A view with an integer dtype (view.dtype) carries no gradient and is not tracked. */
static cr_status track(cr_value *v, cr_tensor *of, cr_view_kind kind)
{
    if (v->tag == CR_TENSOR && !cr_is_inexact(v->t) && cr_is_inexact(of))
        return CR_OK;
    if (v->tag == CR_TENSOR && v->t != of && CR_UNLIKELY(v->t->storage != of->storage))
        share_wrapped(v->t, of);
    if (v->tag == CR_TENSOR && v->t != of && v->t->storage == of->storage)
        return cr_track_view(v->t, of, kind);
    return CR_OK;
}

static cr_status track_views(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_view_kind kind = cr_thread.inference ? CR_VIEW_INFERENCE
                        : cr_thread.no_grad ? CR_VIEW_NO_GRAD
                                            : CR_VIEW_NORMAL;

    for (int k = 0; k < op->result_count; k++) {
        cr_tensor *of = record_viewed(op, k, arg);
        if (!of || of->inference)
            continue;
        if (result[k].tag == CR_TENSOR)
            CR_TRY(track(&result[k], of, kind));
        for (uint32_t i = 0; result[k].tag == CR_TENSORS && i < result[k].len; i++)
            CR_TRY(track((cr_value *)&result[k].list[i], of,
                         kind == CR_VIEW_NORMAL ? CR_VIEW_MULTIPLE : kind));
    }
    return CR_OK;
}

/* Replaces the kernel stage of entries that return views, so that views are tracked even when
 * no stage handles the tensors. */
static cr_status tracking_kernel(const cr_op *op, const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_derivative_plan_of(op)->kernel_stage(op, arg, result));
    if (cr_thread.exclude & CR_AUTOGRAD_BIT)
        return CR_OK;
    cr_status st = track_views(op, arg, result);
    if (st)
        cr_drop_values(result, op->result_count);
    return st;
}

/* --- without a node --- */
static bool calls_others(const cr_op *op)
{
    return !op->differentiable && (op->does == CR_DOES_IS || op->does == CR_DOES_WHOLE);
}

/* A call whose arguments have bits or may have moved, or which __torch_dispatch__ may see. */
static bool pass_goes_on(const cr_op *op, const cr_value *arg)
{
    uint32_t stages = CR_STAGE_BIT(CONJ) | CR_STAGE_BIT(PYTHON) | CR_STAGE_BIT(DEFER);

    if (CR_UNLIKELY(atomic_load_explicit(&cr_storages_moved, memory_order_relaxed)))
        stages |= CR_STAGE_BIT(KERNEL);
    return cr_call_stages(op, arg) & stages;
}

static cr_status pass(const cr_op *op, const cr_derivative_plan *p, const cr_value *arg,
                      cr_value *result)
{
    int w = record_written_param(op, p);

    if (CR_UNLIKELY(w >= 0 && arg[w].tag == CR_TENSOR))
        CR_TRY(cr_check_inplace(arg[w].t, false));
    if (w < 0 && calls_others(op))
        return CR_UNLIKELY(pass_goes_on(op, arg))
                   ? cr_call_past(CR_STAGE_AUTOGRAD, op, arg, result)
                   : op->kernel_stage(op, arg, result);
    CR_TRY(cr_call_below(CR_STAGE_AUTOGRAD, op, arg, result));
    if (CR_LIKELY(!p->views || w >= 0))
        return CR_OK;
    cr_status st = track_views(op, arg, result);
    if (st)
        cr_drop_values(result, op->result_count);
    return st;
}

/* --- with a node --- */
static bool is_argument(const cr_op *op, const cr_value *arg, const cr_tensor *t)
{
    for (uint32_t m = op->tensor_params; m; m &= m - 1)
        if (arg[CR_CTZ(m)].tag == CR_TENSOR && arg[CR_CTZ(m)].t == t)
            return true;
    return false;
}

/* False for an argument that is returned as a result. */
static bool takes_history(const cr_op *op, const cr_value *arg, const cr_value *v)
{
    return v->tag == CR_TENSOR && cr_is_inexact(v->t) &&
           !(op->does == CR_DOES_WHOLE && is_argument(op, arg, v->t));
}

static cr_status attach_list(const cr_op *op, cr_node *n, const cr_value *arg, cr_value *list)
{
    CR_TRY(cr_node_set_results(n, list->len));
    for (uint32_t i = 0; i < list->len; i++)
        if (takes_history(op, arg, &list->list[i]))
            CR_TRY(cr_set_history(list->list[i].t, n, i));
    return CR_OK;
}

static cr_status attach(const cr_op *op, cr_node *n, const cr_value *arg, cr_value *result)
{
    for (int k = 0; k < op->result_count; k++) {
        if (result[k].tag == CR_TENSORS)
            CR_TRY(attach_list(op, n, arg, &result[k]));
        else if (!op->result[k].constant && takes_history(op, arg, &result[k]))
            CR_TRY(cr_set_history(result[k].t, n, (uint32_t)k));
        else if (result[k].tag == CR_TENSOR)
            CR_TRY(cr_node_result_set(&n->results[k], result[k].t));
        CR_TRY(cr_formula_save_result(n, k, &result[k]));
    }
    return CR_OK;
}

/* The common case: one new tensor, which takes ownership of the node. */
static inline bool record_is_plain(const cr_op *op, const cr_value *result)
{
    return op->result_count == 1 && result->tag == CR_TENSOR && op->does != CR_DOES_WHOLE &&
           cr_is_inexact(result->t) && !(result->t->grad && result->t->grad->grad_fn);
}

static cr_status attach_plain(cr_node *n, cr_value *result)
{
    cr_status st = cr_set_history_take(result->t, n, 0);

    if (CR_UNLIKELY(st)) {
        cr_node_drop(n);
        return st;
    }
    return cr_formula_save_result(n, 0, result);
}

static cr_status record_operation(const cr_op *op, const cr_derivative_plan *p,
                                  const cr_value *arg, cr_value *result, uint32_t wanted)
{
    cr_node *n;
    cr_status st;

    CR_TRY(cr_formula_new(&n, p, arg, wanted));
    st = cr_call_below(CR_STAGE_AUTOGRAD, op, arg, result);
    if (CR_UNLIKELY(st)) {
        cr_node_drop(n);
        return st;
    }
    if (CR_UNLIKELY(p->views))
        st = track_views(op, arg, result);
    if (CR_LIKELY(!st && record_is_plain(op, result))) {
        st = attach_plain(n, result);
    } else {
        st = st ? st : attach(op, n, arg, result);
        cr_node_drop(n);
    }
    if (CR_UNLIKELY(st))
        cr_drop_values(result, op->result_count);
    return st;
}

cr_status cr_continue_history(cr_tensor *t, cr_tensor *of)
{
    cr_value arg = cr_of_tensor(of);
    cr_node *n;

    CR_TRY(cr_formula_new(&n, cr_derivative_plan_of(cr_entry.alias), &arg, 1));
    cr_status st = cr_set_history(t, n, 0);
    cr_node_drop(n);
    return st;
}

/* For a view whose entry states no derivative: its derivative is scatter. */
static cr_status record_map(const cr_op *op, const cr_derivative_plan *p, const cr_value *arg,
                            cr_value *result)
{
    cr_node *n = NULL;
    cr_status st;

    CR_TRY(cr_call_below(CR_STAGE_AUTOGRAD, op, arg, result));
    CR_GO(track_views(op, arg, result));
    CR_GO(cr_layout_node(&n, arg[0].t, result[0].t, p->name));
    CR_GO(cr_set_history(result[0].t, n, 0));
done:
    cr_node_drop(n);
    if (st)
        cr_drop_values(result, op->result_count);
    return st;
}

/* --- in place --- */
/* Copies the arguments and clones the tensor that is about to be overwritten when a formula
 * reads it. */
static cr_status spare_self(cr_value *out, cr_tensor **copy, const cr_op *op,
                            const cr_derivative_plan *p, const cr_value *arg, uint32_t wanted,
                            int w)
{
    uint64_t values = cr_derivative_plan_reads(p, wanted).values;

    *copy = NULL;
    memcpy(out, arg, op->param_count * sizeof *out);
    for (int i = 0; i < op->param_count; i++) {
        if (!(values >> i & 1) || arg[i].tag != CR_TENSOR || arg[i].t != arg[w].t)
            continue;
        if (!*copy)
            CR_TRY(cr_call_unary(copy, cr_entry.clone, arg[w].t));
        out[i].t = *copy;
    }
    return CR_OK;
}

/* Replaces edges to such a clone by edges to the original's history. */
static cr_status own_edges(cr_node *n, const cr_derivative_plan *p, const cr_value *arg,
                           const cr_value *spared)
{
    for (int d = 0; d < p->count && !p->lists; d++) {
        int i = p->need[d].param;
        if (arg[i].tag != CR_TENSOR || arg[i].t == spared[i].t)
            continue;
        cr_edge edge;
        CR_TRY(cr_edge_of(&edge, arg[i].t));
        cr_node_drop(n->edges[d].node);
        n->edges[d] = edge;
    }
    return CR_OK;
}

/* False after transpose_ and similar operators, which change geometry rather than memory. */
static bool record_same_geometry(const cr_tensor *t, const cr_layout *was)
{
    if (t->offset != was->offset || !cr_has_sizes(t, was->ndim, was->size))
        return false;
    for (int i = 0; i < t->ndim; i++)
        if (t->stride[i] != was->stride[i])
            return false;
    return true;
}

static cr_status attach_inplace(cr_node *n, cr_tensor *t, cr_value *result,
                                const cr_layout *was)
{
    if (record_same_geometry(t, was))
        CR_TRY(cr_rebase_history(t, n, 0));
    else
        CR_TRY(cr_set_history(t, n, 0));
    return cr_formula_save_result(n, 0, result);
}

static cr_status record_inplace(const cr_op *op, const cr_derivative_plan *p,
                                const cr_value *arg, cr_value *result, uint32_t wanted, int w)
{
    cr_value spared[CR_MAX_ARGS];
    cr_tensor *copy = NULL;
    cr_layout was = {0};
    cr_node *n = NULL;
    cr_status st;

    CR_GO(cr_layout_of(&was, arg[w].t));
    CR_GO(spare_self(spared, &copy, op, p, arg, wanted, w));
    CR_GO(cr_formula_new(&n, p, spared, wanted));
    CR_GO(own_edges(n, p, arg, spared));
    CR_GO(cr_call_below(CR_STAGE_AUTOGRAD, op, arg, result));
    st = attach_inplace(n, arg[w].t, &result[0], &was);
    if (st)
        cr_drop_values(result, op->result_count);
done:
    cr_node_drop(n);
    cr_drop(copy);
    cr_layout_drop(&was);
    return st;
}

/* True for a call that makes a tensor another view of its storage, by an entry without a
 * derivative of its own. */
static bool record_moves(const cr_op *op, const cr_derivative_plan *p)
{
    const cr_rule *f = op->functional;

    return !p->count && op->words & CR_WORD_RESETS && f && f->kind == CR_RULE_CALL &&
           f->op->does == CR_DOES_MAP;
}

/* The derivative is that of the view. */
static cr_status record_moved(const cr_op *op, const cr_value *arg, cr_value *result, int w)
{
    cr_layout was = {0}, now = {0};
    cr_edge edge = {0};
    cr_node *n = NULL;
    cr_status st;

    CR_GO(cr_layout_of(&was, arg[w].t));
    CR_GO(cr_edge_of(&edge, arg[w].t));
    CR_GO(cr_call_below(CR_STAGE_AUTOGRAD, op, arg, result));
    st = cr_layout_of(&now, arg[w].t);
    if (!st)
        st = cr_layout_node_of(&n, edge, &was, &now);
    if (!st)
        st = cr_set_history(arg[w].t, n, 0);
    if (st)
        cr_drop_values(result, op->result_count);
done:
    cr_node_drop(n);
    cr_node_drop(edge.node);
    cr_layout_drop(&was);
    cr_layout_drop(&now);
    return st;
}

static cr_status check_fits(const cr_tensor *from, const cr_tensor *self)
{
    if (!cr_can_cast((cr_dtype)from->dtype, (cr_dtype)self->dtype))
        return cr_fail(CR_RUNTIME, "result type %s can't be cast to the desired output type %s",
                       cr_dtype_infos[from->dtype].legacy, cr_dtype_infos[self->dtype].legacy);
    if (cr_has_sizes(from, self->ndim, self->size))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                   cr_view_text(self), cr_view_text(from));
}

static cr_status record_copy_below(cr_tensor *self, cr_tensor *from)
{
    cr_value arg[] = {cr_of_tensor(self), cr_of_tensor(from), cr_of_bool(false)}, result;

    CR_TRY(cr_call_below(CR_STAGE_AUTOGRAD, cr_entry.copy_, arg, &result));
    cr_drop(result.t);
    return CR_OK;
}

/* Copies `from`, computed from a clone of `self`, to `self` and gives `self` its history. */
static cr_status record_become(cr_tensor *self, cr_tensor *from)
{
    cr_tensor *cast = NULL;
    cr_node *n;
    cr_status st;

    CR_TRY(check_fits(from, self));
    CR_GO(cr_call_cast(&cast, from, (cr_dtype)self->dtype));
    if (cr_has_elements(self) && cr_has_elements(cast))
        CR_GO(cr_copy_tensor(self, cast));
    else if (cr_goes_to_python(self))
        CR_GO(record_copy_below(self, cast));
    self->storage->version++;
    CR_GO(cr_grad_fn(&n, cast));
    if (n)
        CR_GO(cr_rebase_history(self, n, cast->grad->output));
done:
    cr_drop(cast);
    return st;
}

/* In-place form of a composition: the composition is recorded on a clone of self.  If it
 * returns its argument, self does not change. */
static cr_status record_composition(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_value spared[CR_MAX_ARGS], made[CR_MAX_RESULTS];
    cr_tensor *copy = NULL, *self = arg[0].t;
    cr_status st;

    memcpy(spared, arg, op->param_count * sizeof *spared);
    CR_TRY(cr_call_unary(&copy, cr_entry.clone, self));
    for (int i = 0; i < op->param_count; i++)
        if (spared[i].tag == CR_TENSOR && spared[i].t == self)
            spared[i].t = copy;
    CR_GO(cr_call(op->inplace_of, spared, made));
    if (made[0].t != copy)
        st = cr_check_inplace(self, true);
    if (!st && made[0].t != copy)
        st = record_become(self, made[0].t);
    cr_drop_values(made, op->result_count);
    if (!st)
        result[0] = cr_of_tensor(cr_keep(self));
done:
    cr_drop(copy);
    return st;
}

static cr_status stage_inplace(const cr_op *op, const cr_derivative_plan *p,
                               const cr_value *arg, cr_value *result, uint32_t wanted, int w)
{
    if (arg[w].tag != CR_TENSOR || !any_requires(op, arg))
        return pass(op, p, arg, result);
    if (CR_UNLIKELY(p->no_history && cr_requires_grad(arg[w].t)))
        return cr_fail(CR_RUNTIME, "cannot resize variables that require grad");
    if (op->inplace_of && op->inplace_of->does == CR_DOES_IS && !op->differentiable)
        return record_composition(op, arg, result);
    CR_TRY(cr_check_inplace(arg[w].t, true));
    if (!wanted && !cr_requires_grad(arg[w].t))
        return cr_call_below(CR_STAGE_AUTOGRAD, op, arg, result);
    if (record_moves(op, p))
        return record_moved(op, arg, result, w);
    return record_inplace(op, p, arg, result, wanted, w);
}

static CR_NOINLINE cr_status record_refuse(const cr_op *op, uint32_t refused,
                                           const cr_value *arg)
{
    for (; refused; refused &= refused - 1) {
        int i = (int)CR_CTZ(refused);
        if (value_requires(&arg[i]))
            return cr_fail(CR_RUNTIME,
                           "The function '%s' is not differentiable with respect to argument "
                           "'%s'. This input cannot have requires_grad True.",
                           op->name, op->param[i].name);
    }
    return CR_OK;
}

static cr_status record_stage(const cr_op *op, const cr_value *arg, cr_value *result)
{
    const cr_derivative_plan *p = cr_derivative_plan_of(op);

    if (!cr_recording())
        return pass(op, p, arg, result);
    if (CR_UNLIKELY(p->refused))
        CR_TRY(record_refuse(op, p->refused, arg));
    uint32_t wanted = wanted_of(p, arg);
    int w = record_written_param(op, p);
    if (CR_UNLIKELY(w >= 0))
        return stage_inplace(op, p, arg, result, wanted, w);
    if (CR_LIKELY(wanted))
        return record_operation(op, p, arg, result, wanted);
    if (op->does == CR_DOES_MAP && !op->differentiable && !op->result[0].constant &&
        value_requires(&arg[0]) && cr_is_inexact(arg[0].t))
        return record_map(op, p, arg, result);
    return pass(op, p, arg, result);
}

cr_status cr_record_start(void)
{
    for (int i = 0; i < cr_ops_table_count(); i++) {
        cr_op *op = cr_ops_at(i);
        if (!cr_derivative_plans[i]->views || op->kernel_stage == tracking_kernel)
            continue;
        cr_derivative_plans[i]->kernel_stage = op->kernel_stage;
        op->kernel_stage = tracking_kernel;
    }
    cr_stage_fns[CR_STAGE_AUTOGRAD] = record_stage;
    return CR_OK;
}
