/* Backward.
 *
 * A heap holds the nodes whose cotangents are complete, newest first; a leaf's node comes
 * before all others.  The state of a run is in its task, so a hook may call backward again.
 * The engine runs in the calling thread.  It takes the Python lock only around kinds and hooks
 * that need it. */
#include "autograd/again.h"
#include "autograd/forward.h"
#include "autograd/task.h"
#include "entry.h"
#include "tensor/defer.h"
#include "tensor/profile.h"
#include <string.h>

void *(*cr_anomaly_record)(void);
void (*cr_anomaly_report)(void *record, const char *node_name);
void (*cr_anomaly_free)(void *record);

_Atomic bool cr_anomaly_flag;
static _Atomic bool anomaly_nan;

void cr_anomaly_set(bool on, bool check_nan)
{
    atomic_store(&cr_anomaly_flag, on);
    atomic_store(&anomaly_nan, on && check_nan);
}

bool cr_anomaly_on(void) { return cr_anomaly(); }
bool cr_anomaly_checks_nan(void)
{
    return atomic_load_explicit(&anomaly_nan, memory_order_relaxed);
}

/* The node that is being applied, for cr_edge_wanted. */
typedef struct {
    cr_task *task;
    const cr_node *node;
    cr_tensor *const *tangents; /* forward mode: edges without one are not wanted */
} applying;
static CR_THREAD const applying *current; /* on the stack of who applies it, or NULL */

bool cr_edge_wanted(const cr_node *n, uint32_t i)
{
    if (!current || current->node != n)
        return true;
    if (current->tangents)
        return current->tangents[i] != NULL;
    if (!current->task->pruned || !n->edges[i].node)
        return true;
    const cr_task_item *to = cr_task_find(current->task, n->edges[i].node);
    return to && cr_task_wants(to);
}

/* --- anomaly mode --- */
static cr_status check_nan(cr_node *n, cr_tensor *const *out)
{
    bool was = cr_thread.no_grad;
    cr_status st = CR_OK;

    cr_thread.no_grad = true;
    for (uint32_t i = 0; i < n->edge_count && !st; i++) {
        cr_tensor *is = NULL, *any = NULL;
        cr_scalar s = cr_scalar_int(0);
        cr_tensor *t = out[i];
        if (!t)
            continue;
        while (t->batch)
            t = t->batch;
        st = cr_call_unary(&is, cr_entry.isnan, t);
        if (!st)
            st = cr_call_unary(&any, cr_entry.any, is);
        if (!st && cr_has_elements(any))
            st = cr_tensor_item(&s, any);
        if (!st && cr_scalar_as_int(s))
            st = cr_fail(CR_RUNTIME, "Function '%s' returned nan values in its %uth output.",
                         cr_node_name(n), i);
        cr_drop(is);
        cr_drop(any);
    }
    cr_thread.no_grad = was;
    return st;
}

static void engine_report(cr_node *n)
{
    if (cr_anomaly_on() && cr_anomaly_report && n->extra && n->extra->made_at)
        cr_anomaly_report(n->extra->made_at, cr_node_name(n));
}

/* --- one node --- */
static cr_status call_kind(cr_task *t, cr_node *n, cr_tensor *const *in, cr_tensor **out)
{
    const applying now = {t, n, NULL}, *was = current;
    bool python = n->kind->python;

    int32_t event = -1;

    if (CR_UNLIKELY(cr_profiling()))
        event = cr_profile_enter(CR_PROFILE_APPLY, cr_node_name(n), (int64_t)n->sequence);
    current = &now;
    cr_lock(python);
    cr_status st = n->kind->apply(n, in, out);
    cr_unlock(python);
    if (CR_UNLIKELY(event >= 0))
        cr_profile_leave(event);
    current = was;
    return st;
}

cr_status cr_node_apply_for(cr_node *n, cr_tensor *const *tangents, cr_tensor *const *grads,
                            cr_tensor **out)
{
    const applying now = {NULL, n, tangents}, *was = current;

    current = &now;
    cr_status st = n->kind->apply(n, grads, out);
    current = was;
    return st;
}

/* Converts gradients to the shapes and dtypes of their destinations.  Drops unneeded ones. */
static cr_status bring_all(const cr_task *t, cr_node *n, cr_tensor **out)
{
    for (uint32_t i = 0; i < n->edge_count; i++) {
        cr_target to;
        if (!out[i])
            continue;
        cr_task_item *item = n->edges[i].node ? cr_task_find(t, n->edges[i].node) : NULL;
        if (!item || !cr_task_wants(item)) {
            cr_drop(out[i]);
            out[i] = NULL;
        } else if (cr_target_of(&to, &n->edges[i])) {
            CR_TRY(cr_bring(&out[i], &to, n, i));
        }
    }
    return CR_OK;
}

static cr_status engine_apply(cr_task *t, cr_node *n, cr_tensor **in, cr_tensor **out)
{
    CR_TRY(cr_run_before(n, in));
    CR_TRY(call_kind(t, n, in, out));
    CR_TRY(bring_all(t, n, out));
    if (CR_UNLIKELY(cr_anomaly_checks_nan()))
        CR_TRY(check_nan(n, out));
    CR_TRY(cr_run_after(n, out, in));
    if (!t->call->retain_graph && n->kind->release) {
        cr_lock(n->kind->python);
        n->kind->release(n);
        cr_unlock(n->kind->python);
    }
    return CR_OK;
}

/* Gives the gradients to the next nodes.  A missing gradient also counts as arrived; `reaches`:
 * and its node is applied even if no other one arrives.  out may be NULL: all are missing. */
static cr_status distribute(cr_task *t, const cr_node *n, cr_tensor **out, bool reaches)
{
    for (uint32_t i = 0; i < n->edge_count; i++) {
        if (!n->edges[i].node)
            continue;
        cr_task_item *item = cr_task_find(t, n->edges[i].node);
        item->reached = item->reached || reaches;
        if (out && out[i]) {
            cr_tensor *g = out[i];
            out[i] = NULL;
            CR_TRY(cr_task_give(item, n->edges[i].input, g));
        }
        if (--item->dependencies == 0 && cr_task_wants(item))
            CR_TRY(cr_task_push(t, (uint32_t)(item - t->items.at)));
    }
    return CR_OK;
}

static void engine_drop_tensors(cr_tensor **t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        cr_drop(t[i]);
}

static cr_status apply_and_distribute(cr_task *t, cr_node *n, cr_tensor **in)
{
    cr_tensor *few[8] = {0}, **out = few;
    cr_status st;

    if (n->edge_count > CR_LEN(few)) {
        out = cr_alloc_zero(n->edge_count * sizeof *out);
        CR_NEED(out);
    }
    st = engine_apply(t, n, in, out);
    if (st)
        engine_report(n);
    else
        st = distribute(t, n, out, !n->kind->joined);
    engine_drop_tensors(out, n->edge_count);
    if (out != few)
        cr_free(out);
    return st;
}

static void keep_captured(cr_task *t, int32_t first, cr_tensor *const *in)
{
    for (int32_t k = first; k >= 0; k = t->next_capture[k])
        t->results[k] = cr_keep(in[t->capture_input[k]]);
}

/* When a node is applied, its captured gradients are those before its hooks run, as in
 * torch. */
static cr_status engine_evaluate(cr_task *t, cr_node *n, cr_tensor **in, bool needed,
                                 int32_t first)
{
    if (needed)
        keep_captured(t, first, in);
    CR_TRY(cr_run_tensor_hooks(n, in));
    if (!needed) {
        keep_captured(t, first, in);
        return CR_OK;
    }
    return apply_and_distribute(t, n, in);
}

/* engine_evaluate with two events, as torch has them: the node with its hooks, and its function
 * (call_kind). */
static cr_status engine_evaluate_profiled(cr_task *t, cr_node *n, cr_tensor **in, bool needed,
                                          int32_t first)
{
    cr_text name = {0};

    cr_text_printf(&name, "autograd::engine::evaluate_function: %s", cr_node_name(n));
    int32_t event = cr_profile_enter(CR_PROFILE_NODE, cr_text_str(&name), (int64_t)n->sequence);
    cr_text_drop(&name);
    cr_status st = engine_evaluate(t, n, in, needed, first);
    cr_profile_leave(event);
    return st;
}

static cr_status run_item(cr_task *t, uint32_t i)
{
    cr_task_item item = t->items.at[i];
    uint32_t results = item.node->result_count;
    cr_tensor **in = results == 1 ? &item.one : item.many;
    cr_status st;

    if (!item.reached)
        return item.needed ? distribute(t, item.node, NULL, false) : CR_OK;
    t->items.at[i].one = NULL;
    t->items.at[i].many = NULL;
    if (t->call->create_graph)
        cr_again_ran(item.node->sequence);
    if (!in) {
        in = cr_alloc_zero(results * sizeof *in + 1);
        CR_NEED(in);
    }
    st = CR_UNLIKELY(cr_profiling())
             ? engine_evaluate_profiled(t, item.node, in, item.needed, item.capture)
             : engine_evaluate(t, item.node, in, item.needed, item.capture);
    engine_drop_tensors(in, results);
    if (in != &item.one)
        cr_free(in);
    return st;
}

/* --- gradients before the end of their node --- */
static bool takes_early(const cr_task *t, const cr_node *n, uint32_t i, const cr_tensor *grad)
{
    const cr_node *to = n->edges[i].node;
    const cr_task_item *item = to ? cr_task_find(t, to) : NULL;
    cr_tensor *leaf = item ? cr_node_variable(to) : NULL;
    cr_target target;

    return leaf && item->needed && item->capture < 0 && item->dependencies == 1 && !item->one &&
           !item->many && !cr_grad_of(leaf) && cr_hooks_are_early(to) &&
           !(n->extra && n->extra->after) && !t->call->create_graph &&
           !cr_anomaly_checks_nan() && cr_target_of(&target, &n->edges[i]) &&
           grad->dtype == target.dtype && cr_has_sizes(grad, target.ndim, target.size);
}

cr_status cr_backward_give_early(const cr_node *n, uint32_t i, cr_tensor **grad)
{
    cr_task *t = current && current->node == n ? current->task : NULL;
    const applying *was = current;

    if (!t || !*grad || !takes_early(t, n, i, *grad))
        return CR_OK;
    cr_task_item *item = cr_task_find(t, n->edges[i].node);
    cr_tensor *g = *grad;
    *grad = NULL;
    CR_TRY(cr_task_give(item, n->edges[i].input, g));
    item->dependencies = UINT32_MAX; /* the end of n's apply must not run it again */
    cr_status st = run_item(t, (uint32_t)(item - t->items.at));
    current = was;
    return st;
}

/* --- roots --- */
static cr_status mismatch(int i, const cr_tensor *grad, const cr_tensor *root)
{
    return cr_fail(
        CR_RUNTIME,
        "Mismatch in shape: grad_output[%d] has a shape of torch.Size(%s) and output[%d] has "
        "a shape of torch.Size(%s).",
        i, cr_view_text(grad), i, cr_view_text(root));
}

static cr_status engine_check_given(int i, const cr_tensor *grad, const cr_tensor *root)
{
    if (!cr_has_sizes(grad, root->ndim, root->size))
        return mismatch(i, grad, root);
    if (cr_dtype_is_complex((cr_dtype)grad->dtype) !=
        cr_dtype_is_complex((cr_dtype)root->dtype))
        return cr_fail(
            CR_RUNTIME,
            "For complex Tensors, both grad_output and output are required to have the "
            "same dtype. Mismatch in dtype: grad_output[%d] has a dtype of torch.%s "
            "and output[%d] has a dtype of torch.%s.",
            i, cr_dtype_name((cr_dtype)grad->dtype), i, cr_dtype_name((cr_dtype)root->dtype));
    return CR_OK;
}

static cr_status check_implicit(const cr_tensor *root)
{
    if (root->numel != 1)
        return cr_fail(CR_RUNTIME, "grad can be implicitly created only for scalar outputs");
    if (!cr_dtype_is_float((cr_dtype)root->dtype))
        return cr_fail(CR_RUNTIME,
                       "grad can be implicitly created only for real scalar outputs but got "
                       "torch.%s",
                       cr_dtype_name((cr_dtype)root->dtype));
    return CR_OK;
}

static cr_tensor *given_grad(const cr_backward_call *c, int i)
{
    return c->grads ? c->grads[i] : NULL;
}

static cr_status engine_check_roots(const cr_backward_call *c)
{
    for (int i = 0; i < c->root_count; i++) {
        const cr_tensor *root = c->roots[i], *grad = given_grad(c, i);
        if (grad)
            CR_TRY(engine_check_given(i, grad, root));
        else if (cr_requires_grad(root))
            CR_TRY(check_implicit(root));
    }
    return CR_OK;
}

static cr_status engine_find_roots(cr_task *t)
{
    const cr_backward_call *c = t->call;

    t->root = cr_alloc_zero((size_t)c->root_count * sizeof *t->root + 1);
    CR_NEED(t->root);
    for (int i = 0; i < c->root_count; i++) {
        CR_TRY(cr_edge_of(&t->root[i], c->roots[i]));
        if (!t->root[i].node)
            return cr_fail(CR_RUNTIME,
                           "element %d of tensors does not require grad and does not have a "
                           "grad_fn",
                           i);
    }
    return CR_OK;
}

/* By a call, which __torch_dispatch__ sees. */
static cr_status engine_call_ones(cr_tensor **out, cr_tensor *root)
{
    cr_value arg[] = {cr_of_tensor(root), cr_of_none(),
                      cr_of_none(),       cr_of_none(),
                      cr_of_bool(false),  {.tag = CR_FORMAT_VAL, .i = CR_FORMAT_PRESERVE}};

    return cr_call_tensor(out, cr_entry.ones_like, arg, CR_LEN(arg));
}

static cr_status engine_ones(cr_tensor **out, cr_tensor *root)
{
    if (CR_UNLIKELY(cr_goes_to_python(root)))
        return engine_call_ones(out, root);
    return cr_filled_tensor(out, (cr_dtype)root->dtype, root->device, root->ndim, root->size,
                            cr_scalar_int(1));
}

static cr_status start_root(cr_task *t, int i)
{
    cr_tensor *grad = cr_keep(given_grad(t->call, i));
    cr_task_item *item = cr_task_find(t, t->root[i].node);
    cr_target to;
    cr_status st = CR_OK;

    if (!cr_task_wants(item)) {
        cr_drop(grad);
        return CR_OK;
    }
    if (!grad)
        CR_TRY(engine_ones(&grad, t->call->roots[i]));
    if (cr_target_of(&to, &t->root[i]))
        st = cr_bring(&grad, &to, NULL, (uint32_t)i);
    if (st) {
        cr_drop(grad);
        return st;
    }
    return cr_task_give(item, t->root[i].input, grad);
}

static cr_status engine_start(cr_task *t)
{
    for (int i = 0; i < t->call->root_count; i++)
        CR_TRY(start_root(t, i));
    for (int i = 0; i < t->call->root_count; i++) {
        cr_task_item *item = cr_task_find(t, t->root[i].node);
        if (item->dependencies || !cr_task_wants(item))
            continue;
        /* pushed once, even when several roots are its results */
        item->dependencies = UINT32_MAX;
        CR_TRY(cr_task_push(t, (uint32_t)(item - t->items.at)));
    }
    return CR_OK;
}

/* --- the run --- */
static cr_status check_unused(const cr_task *t)
{
    const cr_backward_call *c = t->call;

    if (!c->inputs || c->accumulate_inputs || c->allow_unused)
        return CR_OK;
    for (int k = 0; k < c->input_count; k++)
        if (!t->results[k])
            return cr_fail(
                CR_RUNTIME,
                "The differentiated Tensor at index %d appears to not have been used "
                "in the graph. Set allow_unused=True if this is the desired behavior.",
                k);
    return CR_OK;
}

static cr_status engine_run(cr_task *t)
{
    CR_TRY(engine_check_roots(t->call));
    CR_TRY(engine_find_roots(t));
    CR_TRY(cr_task_plan(t));
    CR_TRY(engine_start(t));
    while (t->ready.len)
        CR_TRY(run_item(t, cr_task_pop(t)));
    CR_TRY(check_unused(t));
    for (size_t i = 0; i < t->ends.len; i++) /* functions may add further ones */
        CR_TRY(t->ends.at[i].fn(t->ends.at[i].context));
    return CR_OK;
}

static CR_THREAD cr_task *running; /* the innermost run */

cr_status cr_backward_at_end(cr_status (*fn)(void *context), void *context)
{
    cr_task *t = running;

    if (!t)
        return cr_fail(CR_RUNTIME,
                       "Final callbacks can only be installed during backward pass.");
    while (t->outer)
        t = t->outer;
    CR_TRY(cr_vec_reserve(&t->ends, 1));
    cr_vec_put(&t->ends, ((cr_task_end){fn, context}));
    return CR_OK;
}

bool cr_backward_retains(void) { return running && running->call->retain_graph; }

int64_t cr_backward_number(void) { return running ? running->number : -1; }

bool cr_backward_reaches(const cr_node *n)
{
    const cr_task_item *item = running ? cr_task_find(running, n) : NULL;

    return item && (cr_task_wants(item) || item->counted);
}

bool cr_backward_accumulates(void) { return !running || !running->call->inputs; }

/* The pass is deferred if a region has made its graph; it continues a forward pass that waits,
 * and runs both at the end. */
static cr_status engine_run_deferred(cr_task *t, const cr_task *outer)
{
    bool wanted = cr_defer_backward || cr_defer_pending();

    cr_defer_backward = false;
    if (!wanted || cr_defer_in_region())
        return engine_run(t);
    CR_TRY(cr_defer_begin());
    cr_status st = engine_run(t);
    cr_defer_end();
    if (!st && !outer)
        st = cr_defer_flush("the end of a backward pass");
    return st;
}

static cr_status engine_backward(const cr_backward_call *call, cr_tensor **results, bool new)
{
    static _Atomic int64_t last;
    cr_task t = {.call = call, .results = results, .number = last++, .inputs_are_new = new};
    cr_task *outer = running;
    bool was = cr_thread.no_grad;

    if (!call)
        return cr_fail(CR_TYPE, "cr_backward(): the call is NULL");
    for (int k = 0; k < call->root_count; k++)
        if (!call->roots || !call->roots[k])
            return cr_fail(CR_TYPE,
                           "expected Tensor as element %d in argument 0, but got NoneType", k);
    for (int k = 0; call->inputs && k < call->input_count; k++)
        if (!call->inputs[k])
            return cr_fail(CR_TYPE,
                           "expected Tensor as element %d in argument 5, but got NoneType", k);
    if (call->inputs && !call->input_count && call->accumulate_inputs)
        return cr_fail(CR_RUNTIME, "`inputs` argument to `backward()` cannot be empty.");
    for (int k = 0; results && k < call->input_count; k++)
        results[k] = NULL;
    cr_thread.no_grad = !call->create_graph;
    t.outer = outer;
    running = &t;
    cr_defer_clock_start();
    cr_status st = engine_run_deferred(&t, outer);
    cr_defer_clock_stop();
    running = outer;
    cr_thread.no_grad = was;
    cr_task_drop(&t);
    for (int k = 0; st && results && k < call->input_count; k++) {
        cr_drop(results[k]);
        results[k] = NULL;
    }
    return st;
}

cr_status cr_backward(const cr_backward_call *call, cr_tensor **results)
{
    return engine_backward(call, results, false);
}

cr_status cr_backward_by_new(const cr_backward_call *call, cr_tensor **results)
{
    return engine_backward(call, results, true);
}
