/* The autograd slots of tensors: history, edges, flags, .grad, retain_grad, detach. */
#include "autograd/autograd_impl.h"
#include "entry.h"
#include "whole/collective.h"
#include <pthread.h>
#include <string.h>

/* Protects the creation of slots that several threads may see, and the entries of
 * retain_grad. */
static pthread_mutex_t slots = PTHREAD_MUTEX_INITIALIZER;

static cr_grad_meta *meta_new(void)
{
    cr_grad_meta *m = cr_grad_pool_get(sizeof *m);

    if (CR_LIKELY(m != NULL))
        memset(m, 0, sizeof *m);
    return m;
}

cr_status cr_meta_of(cr_grad_meta **out, cr_tensor *t)
{
    if (CR_LIKELY(!t->grad)) {
        cr_grad_meta *m = meta_new();
        CR_NEED(m);
        if (CR_LIKELY(atomic_load_explicit(&t->count, memory_order_relaxed) == 1)) {
            *out = t->grad = m;
            return CR_OK;
        }
        pthread_mutex_lock(&slots);
        bool first = !t->grad;
        if (first)
            t->grad = m;
        pthread_mutex_unlock(&slots);
        if (!first)
            cr_grad_pool_put(m, sizeof *m);
    }
    *out = t->grad;
    return CR_OK;
}

/* --- retain_grad --- */
static cr_retain **find_retain(cr_node *n, const cr_grad_meta *m)
{
    cr_retain **p = n->extra ? &n->extra->retains : NULL;

    while (p && *p && (*p)->meta != m)
        p = &(*p)->next;
    return p && *p ? p : NULL;
}

static cr_retain *take_retain(cr_node *n, const cr_grad_meta *m)
{
    cr_retain *r = NULL;

    pthread_mutex_lock(&slots);
    cr_retain **p = find_retain(n, m);
    if (p) {
        r = *p;
        *p = r->next;
    }
    pthread_mutex_unlock(&slots);
    return r;
}

static cr_status put_retain(cr_node *n, cr_retain *r, uint32_t output)
{
    struct cr_node_extra *extra;

    CR_TRY(cr_node_extra_of(&extra, n));
    r->output = output;
    pthread_mutex_lock(&slots);
    r->next = extra->retains;
    extra->retains = r;
    pthread_mutex_unlock(&slots);
    return CR_OK;
}

static bool keep_living(cr_tensor *t)
{
    int32_t n = atomic_load_explicit(&t->count, memory_order_relaxed);

    while (n > 0)
        if (atomic_compare_exchange_weak(&t->count, &n, n + 1))
            return true;
    return false;
}

/* The k-th tensor that retains a gradient at `n` (owned), or NULL. */
static cr_tensor *retaining(cr_node *n, int k, uint32_t *output)
{
    cr_tensor *t = NULL;

    pthread_mutex_lock(&slots);
    cr_retain *r = n->extra->retains;
    while (r && k-- > 0)
        r = r->next;
    if (r && keep_living(r->tensor)) {
        t = r->tensor;
        *output = r->output;
    }
    pthread_mutex_unlock(&slots);
    return t;
}

static cr_status add_to_grad(cr_tensor *t, cr_tensor *grad)
{
    cr_tensor *old = t->grad->grad, *sum = NULL;

    if (old)
        CR_TRY(cr_call_add(&sum, old, grad));
    else
        CR_TRY(cr_clone_like(&sum, grad, grad));
    t->grad->grad = sum;
    cr_drop(old);
    return CR_OK;
}

cr_status cr_run_retains(cr_node *n, cr_tensor *const *grads)
{
    cr_tensor *t;
    uint32_t output;

    if (!n->extra)
        return CR_OK;
    for (int k = 0; (t = retaining(n, k, &output)); k++) {
        cr_status st = grads[output] ? add_to_grad(t, grads[output]) : CR_OK;
        cr_drop(t);
        CR_TRY(st);
    }
    return CR_OK;
}

/* C programs may pass NULL. */
static cr_status meta_need(const cr_tensor *t, const char *function)
{
    return t ? CR_OK
             : cr_fail(CR_TYPE, "%s(): argument 'self' must be Tensor, not NoneType", function);
}

cr_status cr_retain_grad(cr_tensor *t)
{
    cr_node *n;

    CR_TRY(meta_need(t, "retain_grad"));
    if (!cr_requires_grad(t))
        return cr_fail(CR_RUNTIME, "can't retain_grad on Tensor that has requires_grad=False");
    CR_TRY(cr_grad_fn(&n, t));
    if (!n || t->grad->retains_grad)
        return CR_OK;
    cr_retain *r = cr_alloc(sizeof *r);
    CR_NEED(r);
    r->tensor = t;
    r->meta = t->grad;
    if (put_retain(n, r, t->grad->output)) {
        cr_free(r);
        return CR_MEMORY;
    }
    t->grad->retains_grad = true;
    return CR_OK;
}

/* --- history --- */
void (*cr_history_changed)(cr_tensor *t);
void (*cr_hook_runs)(void);

static void meta_drop(cr_grad_meta *m)
{
    if (m->retains_grad && m->grad_fn)
        cr_free(take_retain(m->grad_fn, m));
    cr_node_drop(m->grad_fn);
    cr_drop(m->grad);
    cr_drop(m->base);
    if (m->accumulate)
        cr_node_destroy(m->accumulate);
    cr_grad_pool_put(m, sizeof *m);
}

/* Replaces grad_fn (counted) and moves the hooks that retain_grad registered. */
static cr_status meta_set_grad_fn(cr_tensor *t, cr_node *node, uint32_t output)
{
    cr_grad_meta *m = t->grad;
    cr_node *old = m->grad_fn;
    cr_retain *r = m->retains_grad && old ? take_retain(old, m) : NULL;

    cr_status st = r && node ? put_retain(node, r, output) : CR_OK;

    m->retains_grad = r && node && !st;
    if (!m->retains_grad)
        cr_free(r);
    if (st)
        return st;
    m->grad_fn = cr_node_keep(node);
    m->output = output;
    cr_node_drop(old);
    if (t->peer && cr_history_changed)
        cr_history_changed(t);
    return CR_OK;
}

cr_status cr_set_history(cr_tensor *t, cr_node *node, uint32_t output)
{
    cr_grad_meta *m;

    CR_TRY(cr_meta_of(&m, t));
    CR_TRY(cr_node_result_set(&node->results[output], t));
    CR_TRY(meta_set_grad_fn(t, node, output));
    m->view_version = t->storage ? t->storage->version : 0;
    t->requires_grad = true;
    t->stages |= CR_AUTOGRAD_BIT;
    return CR_OK;
}

cr_status cr_set_history_take(cr_tensor *t, cr_node *node, uint32_t output)
{
    cr_grad_meta *m;

    CR_TRY(cr_node_result_set(&node->results[output], t));
    CR_TRY(cr_meta_of(&m, t));
    CR_ASSERT(!m->grad_fn);
    m->grad_fn = node;
    m->output = output;
    m->view_version = t->storage ? t->storage->version : 0;
    t->requires_grad = true;
    t->stages |= CR_AUTOGRAD_BIT;
    return CR_OK;
}

cr_status cr_accumulate_of(cr_node **out, cr_tensor *t)
{
    cr_grad_meta *m;
    cr_node *n = NULL;

    CR_TRY(cr_meta_of(&m, t));
    if (!m->accumulate) {
        CR_TRY(cr_node_new(&n, sizeof(cr_accumulate), &cr_accumulate_kind, 0, 1));
        n->sequence = UINT64_MAX; /* runs as soon as its gradient is complete */
        ((cr_accumulate *)n)->variable = t;
        pthread_mutex_lock(&slots);
        if (!m->accumulate) {
            m->accumulate = n;
            n = NULL;
        }
        pthread_mutex_unlock(&slots);
        if (n)
            cr_node_destroy(n);
    }
    *out = m->accumulate;
    return CR_OK;
}

cr_status cr_grad_fn(cr_node **out, cr_tensor *t)
{
    if (t->grad && t->grad->base)
        CR_TRY(cr_refresh_view(t));
    *out = t->grad ? t->grad->grad_fn : NULL;
    return CR_OK;
}

cr_status cr_edge_of(cr_edge *out, cr_tensor *t)
{
    cr_grad_meta *m = t->grad;
    cr_node *n;

    *out = (cr_edge){0};
    if (!cr_requires_grad(t))
        return CR_OK;
    if (CR_LIKELY(m && !m->base)) {
        n = m->grad_fn ? m->grad_fn : m->accumulate;
        if (CR_LIKELY(n != NULL)) {
            *out = (cr_edge){cr_node_keep(n), m->grad_fn ? m->output : 0};
            return CR_OK;
        }
    }
    CR_TRY(cr_grad_fn(&n, t));
    if (!n)
        CR_TRY(cr_accumulate_of(&n, t));
    else
        out->input = t->grad->output;
    out->node = cr_node_keep(n);
    return CR_OK;
}

cr_status cr_edge_tensor(cr_tensor **out, const cr_edge *edge)
{
    const int64_t zero[CR_MAX_DIMS] = {0};
    cr_target to;
    cr_storage *s;
    cr_tensor *leaf = cr_node_variable(edge->node), *t = NULL;
    cr_status st;

    if (leaf) {
        *out = cr_keep(leaf);
        return CR_OK;
    }
    if (edge->input >= edge->node->result_count)
        return cr_fail(CR_RUNTIME, "the node %s has %u results, none of index %u",
                       cr_node_name(edge->node), edge->node->result_count, edge->input);
    if (!cr_target_of(&to, edge))
        return cr_fail(CR_RUNTIME, "the sizes of result %u of %s are not known", edge->input,
                       cr_node_name(edge->node));
    CR_TRY(cr_storage_new(&s, to.device, 0));
    st = cr_tensor_over(&t, s, (cr_dtype)to.dtype, to.ndim, to.size, zero, 0);
    if (st) {
        cr_storage_drop(s);
        return st;
    }
    st = cr_set_history(t, edge->node, edge->input);
    CR_GIVE(st, out, t, cr_drop);
}

bool cr_is_leaf(cr_tensor *t)
{
    cr_node *n;

    if (!t || cr_grad_fn(&n, t))
        return true;
    return !n;
}

/* --- flags --- */
static void set_flag(cr_tensor *t, bool on)
{
    t->requires_grad = on;
    if (on)
        t->stages |= CR_AUTOGRAD_BIT;
    else if (!cr_base_of(t) && !t->inference && !cr_is_dispatched(t))
        t->stages &= ~CR_AUTOGRAD_BIT;
}

cr_status cr_set_requires_grad(cr_tensor *t, bool on)
{
    CR_TRY(meta_need(t, "requires_grad_"));
    if (on && !cr_dtype_is_inexact(t->dtype))
        return cr_fail(CR_RUNTIME, "only Tensors of floating point and complex dtype can "
                                   "require gradients");
    if (on && t->inference && !cr_thread.inference)
        return cr_fail(CR_RUNTIME, "Setting requires_grad=True on inference tensor outside "
                                   "InferenceMode is not allowed.");
    if (!cr_is_leaf(t)) {
        if (on)
            return CR_OK;
        return cr_fail(CR_RUNTIME,
                       "you can only change requires_grad flags of leaf variables. If you want "
                       "to use a computed variable in a subgraph that doesn't require "
                       "differentiation use var_no_grad = var.detach().");
    }
    /* Makes the leaf's node now, so that threads that share the leaf only read the slot. */
    cr_node *n;
    if (on)
        CR_TRY(cr_accumulate_of(&n, t));
    set_flag(t, on);
    return CR_OK;
}

cr_status cr_version(uint32_t *out, const cr_tensor *t)
{
    if (t->inference)
        return cr_fail(CR_RUNTIME, "Inference tensors do not track version counter.");
    *out = t->storage ? t->storage->version : 0;
    return CR_OK;
}

/* --- .grad --- */
static cr_status check_grad_size(const cr_tensor *t, const cr_tensor *grad)
{
    if (cr_has_sizes(grad, t->ndim, t->size))
        return CR_OK;
    return cr_fail(
        CR_RUNTIME,
        "attempting to assign a gradient of size '%s' to a tensor of size '%s'. Please "
        "ensure that the gradient and the tensor are the same size",
        cr_view_text(grad), cr_view_text(t));
}

static cr_status check_grad(const cr_tensor *t, const cr_tensor *grad)
{
    if (grad == t)
        return cr_fail(CR_RUNTIME, "can't assign Variable as its own grad");
    if (t->layout && grad->layout != t->layout)
        return cr_fail(CR_RUNTIME,
                       "attempting to assign a gradient to a tensor that has data of a "
                       "different type");
    if (grad->dtype != t->dtype)
        return cr_fail(CR_RUNTIME,
                       "attempting to assign a gradient with dtype '%s' to a tensor with "
                       "grad_dtype '%s'. The gradient must match the tensor's grad_dtype "
                       "(defaults to the tensor's dtype). You can set the tensor's grad_dtype "
                       "attribute with a specific dtype, or None to allow any dtype. Set "
                       "grad_dtype with caution. Diverging the dtypes of a tensor and its "
                       "gradient may break downstream systems that assume they match.",
                       cr_dtype_cpp_name(grad->dtype), cr_dtype_infos[t->dtype].legacy);
    if (!cr_same_device(grad->device, t->device))
        return cr_fail(
            CR_RUNTIME,
            "attempting to assign a gradient with device type '%s' to a tensor with "
            "device type '%s'. Please ensure that the gradient and the tensor are on "
            "the same device",
            cr_device_print(grad->device).text, cr_device_print(t->device).text);
    return check_grad_size(t, grad);
}

cr_tensor *cr_exchange_grad(cr_grad_meta *m, cr_tensor *t)
{
    pthread_mutex_lock(&slots);
    cr_tensor *was = m->grad;
    m->grad = t;
    pthread_mutex_unlock(&slots);
    return was;
}

cr_status cr_set_grad(cr_tensor *t, cr_tensor *grad)
{
    cr_grad_meta *m;

    CR_TRY(meta_need(t, "grad"));
    if (!grad && !t->grad)
        return CR_OK;
    if (grad)
        CR_TRY(check_grad(t, grad));
    CR_TRY(cr_meta_of(&m, t));
    cr_drop(cr_exchange_grad(m, cr_keep(grad)));
    return CR_OK;
}

/* --- detach --- */
bool cr_goes_to_python(cr_tensor *t)
{
    return ((t->stages | cr_thread.include) & ~cr_thread.exclude & CR_STAGE_BIT(PYTHON)) != 0;
}

cr_status cr_detached(cr_tensor **out, cr_tensor *t)
{
    cr_value arg = cr_of_tensor(t), result;

    if (CR_LIKELY(!cr_goes_to_python(t)))
        return cr_tensor_alias(out, t);
    CR_TRY(cr_call_below(CR_STAGE_AUTOGRAD, cr_entry.detach, &arg, &result));
    *out = result.t;
    return CR_OK;
}

cr_status cr_detach_inplace(cr_tensor *t)
{
    if (cr_base_of(t))
        return cr_fail(
            CR_RUNTIME,
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
            "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
            "these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
            "function in torch/optim/optimizer.py as the solution.");
    if (t->grad)
        CR_TRY(meta_set_grad_fn(t, NULL, 0));
    set_flag(t, false);
    return CR_OK;
}

cr_status cr_autograd_start(void)
{
    if (cr_stage_fns[CR_STAGE_AUTOGRAD])
        return CR_OK;
    cr_grad_meta_drop = meta_drop;
    cr_autocast_start();
    cr_collective_install();
    CR_TRY(cr_grad_pool_start());
    CR_TRY(cr_formula_start());
    return cr_record_start();
}
