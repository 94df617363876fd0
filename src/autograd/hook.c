/* Hooks.  A handle is an entry, with a refcount, in a node's list.  Removing a hook empties its
 * entry, which stays in the list until the node is freed.  A hook may therefore be removed at
 * any time, also by itself. */
#include "autograd/autograd_impl.h"

static void drop_context(cr_hook *h)
{
    cr_hook_call call = h->call;

    h->call = (cr_hook_call){0};
    if (!call.drop)
        return;
    cr_lock(call.python);
    call.drop(call.context);
    cr_unlock(call.python);
}

void cr_hook_remove(cr_hook *h) { drop_context(h); }

void cr_hook_drop(cr_hook *h)
{
    if (h && atomic_fetch_sub(&h->count, 1) == 1)
        cr_free(h);
}

void cr_hooks_drop(cr_hook *list)
{
    while (list) {
        cr_hook *h = list;
        list = h->next;
        drop_context(h);
        cr_hook_drop(h);
    }
}

static cr_status hook_append(cr_hook **out, cr_hook **list, const cr_hook_call *call,
                             uint32_t output)
{
    cr_hook *h = cr_alloc(sizeof *h);

    CR_NEED(h);
    *h = (cr_hook){.count = out ? 2 : 1, .call = *call, .output = output};
    while (*list)
        list = &(*list)->next;
    *list = h;
    if (out)
        *out = h;
    return CR_OK;
}

cr_status cr_hook_tensor(cr_hook **out, cr_tensor *t, const cr_hook_call *call)
{
    cr_edge edge;
    struct cr_node_extra *extra;

    if (!cr_requires_grad(t))
        return cr_fail(CR_RUNTIME,
                       "cannot register a hook on a tensor that doesn't require gradient");
    CR_TRY(cr_edge_of(&edge, t));
    cr_status st = cr_node_extra_of(&extra, edge.node);
    if (!st)
        st = hook_append(out, &extra->tensor_hooks, call, edge.input);
    cr_node_drop(edge.node);
    return st;
}

cr_status cr_hook_accumulated(cr_hook **out, cr_tensor *t, const cr_hook_call *call)
{
    struct cr_node_extra *extra;
    cr_node *n;

    if (!cr_requires_grad(t))
        return cr_fail(CR_RUNTIME,
                       "cannot register a hook on a tensor that doesn't require gradient");
    if (!cr_is_leaf(t))
        return cr_fail(CR_RUNTIME,
                       "post accumulate grad hooks cannot be registered on non-leaf tensors");
    CR_TRY(cr_accumulate_of(&n, t));
    CR_TRY(cr_node_extra_of(&extra, n));
    return hook_append(out, &extra->accumulated, call, 0);
}

cr_status cr_hook_before(cr_hook **out, cr_node *n, const cr_hook_call *call)
{
    struct cr_node_extra *extra;

    CR_TRY(cr_node_extra_of(&extra, n));
    return hook_append(out, &extra->before, call, 0);
}

cr_status cr_hook_after(cr_hook **out, cr_node *n, const cr_hook_call *call)
{
    struct cr_node_extra *extra;

    CR_TRY(cr_node_extra_of(&extra, n));
    return hook_append(out, &extra->after, call, 0);
}

static bool hooks_live(const cr_hook *h)
{
    while (h && !h->call.fn)
        h = h->next;
    return h;
}

bool cr_leaf_has_hooks(const cr_tensor *t)
{
    const cr_node *n = t->grad ? t->grad->accumulate : NULL;
    const struct cr_node_extra *e = n ? n->extra : NULL;

    return e && (hooks_live(e->tensor_hooks) || hooks_live(e->before) || hooks_live(e->after) ||
                 hooks_live(e->accumulated));
}

bool cr_hooks_are_early(const cr_node *n)
{
    const struct cr_node_extra *e = n->extra;

    if (!e || e->tensor_hooks || e->before || e->after || e->retains || !e->accumulated)
        return false;
    for (const cr_hook *h = e->accumulated; h; h = h->next)
        if (h->call.fn && (!h->call.early || !h->call.early(h->call.context)))
            return false;
    return true;
}

void *cr_hook_find(const cr_node *n, bool after, cr_grad_hook fn)
{
    cr_hook *h = !n->extra ? NULL : after ? n->extra->after : n->extra->before;

    while (h && h->call.fn != fn)
        h = h->next;
    return h ? h->call.context : NULL;
}

/* Holds a reference on the entry while its function runs, because the function may drop the
 * node's list. */
static cr_status hook_run(cr_hook *h, cr_tensor **grads, int n, cr_tensor *const *given,
                          int given_n)
{
    cr_hook_call call = h->call;

    if (!call.fn)
        return CR_OK;
    if (cr_hook_runs)
        cr_hook_runs();
    atomic_fetch_add(&h->count, 1);
    cr_lock(call.python);
    cr_status st = call.fn(call.context, grads, n, given, given_n);
    cr_unlock(call.python);
    cr_hook_drop(h);
    return st;
}

cr_status cr_run_tensor_hooks(cr_node *n, cr_tensor **grads)
{
    if (!n->extra)
        return CR_OK;
    for (cr_hook *h = n->extra->tensor_hooks; h; h = h->next)
        if (grads[h->output] || h->call.python) /* Python's hooks get None */
            CR_TRY(hook_run(h, &grads[h->output], 1, NULL, 0));
    return cr_run_retains(n, grads);
}

/* The number of results that hooks see: integer results at the end, as the indices of max, have
 * no cotangent. */
static int hook_results(const cr_node *n)
{
    uint32_t count = n->result_count;

    while (count > 1 && !cr_dtype_is_inexact((cr_dtype)n->results[count - 1].dtype))
        count--;
    return (int)count;
}

cr_status cr_run_before(cr_node *n, cr_tensor **grads)
{
    if (!n->extra)
        return CR_OK;
    for (cr_hook *h = n->extra->before; h; h = h->next)
        CR_TRY(hook_run(h, grads, hook_results(n), NULL, 0));
    return CR_OK;
}

cr_status cr_run_after(cr_node *n, cr_tensor **out, cr_tensor *const *given)
{
    if (!n->extra)
        return CR_OK;
    for (cr_hook *h = n->extra->after; h; h = h->next)
        CR_TRY(hook_run(h, out, (int)n->edge_count, given, hook_results(n)));
    return CR_OK;
}

cr_status cr_run_accumulated(cr_node *n, cr_tensor *leaf)
{
    if (!n->extra)
        return CR_OK;
    for (cr_hook *h = n->extra->accumulated; h; h = h->next)
        CR_TRY(hook_run(h, &leaf, 1, NULL, 0));
    return CR_OK;
}
