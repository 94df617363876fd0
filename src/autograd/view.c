/* Views and in-place changes.
 *
 * A view refers to its base, which is never a view itself.  Changing a view in place changes
 * the base's history: the base becomes the result of a CopySlices node.  CopySlices sends the
 * cotangent of the changed part through the operation's node and the rest to the base's earlier
 * history.  Other views of the base see the changed version and refresh grad_fn when it is next
 * read. */
#include "autograd/forward.h"
#include "entry.h"
#include <stdio.h>

cr_status cr_track_view(cr_tensor *view, cr_tensor *of, cr_view_kind kind)
{
    cr_grad_meta *m;

    CR_TRY(cr_meta_of(&m, view));
    if (m->base)
        return CR_OK;
    cr_tensor *base = cr_base_of(of);
    m->base = cr_keep(base ? base : of);
    m->view_kind = (uint8_t)(kind == CR_VIEW_NORMAL && base ? of->grad->view_kind : kind);
    m->view_version = view->storage->version;
    view->stages |= CR_AUTOGRAD_BIT;
    return CR_OK;
}

/* --- checks before a change --- */
/* The beginning of torch's message.  `direct`: the view itself is changed, not its base. */
static void describe_view(char *out, size_t size, const cr_tensor *t, bool direct)
{
    const cr_grad_meta *m = t->grad;
    const char *what = direct
                           ? "is being modified inplace"
                           : "its base or another view of its base has been modified inplace";
    char name[96] = "", from[160] = "A view was";

    if (m->grad_fn)
        cr_node_short_name(name, sizeof name, m->grad_fn);
    if (m->grad_fn && m->view_kind != CR_VIEW_NO_GRAD && m->view_kind != CR_VIEW_INFERENCE) {
        snprintf(out, size, "Output %u of %s is a view and %s.", m->output, name, what);
        return;
    }
    if (m->grad_fn)
        snprintf(from, sizeof from, "Output %u of %s is a view of a view which was", m->output,
                 name);
    if (m->view_kind == CR_VIEW_INFERENCE)
        snprintf(out, size, "%s created in inference mode and %s in normal mode.", from, what);
    else
        snprintf(out, size, "%s created in no_grad mode and %s with grad mode enabled.", from,
                 what);
}

static cr_status refuse_view(const cr_tensor *t, bool direct)
{
    static const char *const reason[] = {
        [CR_VIEW_NO_GRAD] =
            "Given that this use case is ambiguous and error-prone, it is forbidden. You can "
            "clarify your code by moving both the view and the inplace either both inside the "
            "no_grad block (if you don't want the inplace to be tracked) or both outside (if "
            "you "
            "want the inplace to be tracked).",
        [CR_VIEW_INFERENCE] =
            "Given that this use case is ambiguous and error-prone, it is forbidden. You can "
            "clarify your code by moving both the view and the inplace either both inside the "
            "inference_mode block (if you don't want the inplace to be tracked) or both "
            "outside "
            "(if you want the inplace to be tracked).",
        [CR_VIEW_MULTIPLE] =
            "This view is the output of a function that returns multiple views. Such functions "
            "do "
            "not allow the output views to be modified inplace. You should replace the inplace "
            "operation by an out-of-place one.",
        [CR_VIEW_FUNCTION] =
            "This view was created inside a custom Function (or because an input was returned "
            "as-is) and the autograd logic to handle view+inplace would override the custom "
            "backward associated with the custom Function, leading to incorrect gradients. "
            "This "
            "behavior is forbidden. You can fix this by cloning the output of the custom "
            "Function.",
    };
    char start[384];

    describe_view(start, sizeof start, t, direct);
    return cr_fail(CR_RUNTIME, "%s %s", start, reason[t->grad->view_kind]);
}

cr_status cr_refresh_view(cr_tensor *t)
{
    cr_grad_meta *m = t->grad;
    cr_node *n;

    if (CR_LIKELY(m->view_version == t->storage->version))
        return CR_OK;
    if (!m->grad_fn && !m->base->requires_grad)
        return CR_OK;
    if (CR_UNLIKELY(m->view_kind != CR_VIEW_NORMAL))
        return refuse_view(t, false);
    CR_TRY(cr_layout_node(&n, m->base, t, NULL));
    cr_status st = cr_set_history(t, n, 0);
    cr_node_drop(n);
    return st;
}

static cr_status check_recorded(cr_tensor *t)
{
    cr_tensor *base = cr_base_of(t);

    if (base) {
        if (t->grad->view_kind != CR_VIEW_NORMAL)
            return refuse_view(t, true);
        if (cr_requires_grad(t) && cr_is_leaf(base))
            return cr_fail(CR_RUNTIME, "a view of a leaf Variable that requires grad is being "
                                       "used in an in-place operation.");
    }
    if (cr_requires_grad(t) && cr_is_leaf(t))
        return cr_fail(CR_RUNTIME, "a leaf Variable that requires grad is being used in an "
                                   "in-place operation.");
    return CR_OK;
}

cr_status cr_check_inplace(cr_tensor *t, bool recorded)
{
    if (recorded)
        CR_TRY(check_recorded(t));
    if (t->inference && !cr_thread.inference)
        return cr_fail(
            CR_RUNTIME,
            "Inplace update to inference tensor outside InferenceMode is not "
            "allowed.You can make a clone to get a normal tensor before doing inplace "
            "update.See https://github.com/pytorch/rfcs/pull/17 for more details.");
    return CR_OK;
}

/* --- CopySlices --- */
typedef struct {
    cr_node node;
    cr_layout base, view;
    cr_node *fn; /* the operation on the view; this node shares its edges */
    /* the edge to the base's earlier history, which replaces the edge to the view's; -1:
     * none */
    int self_edge;
} copy_slices;

static void slices_release(cr_node *n)
{
    cr_node *fn = ((copy_slices *)n)->fn;

    if (!fn || !fn->kind->release)
        return;
    cr_lock(fn->kind->python);
    fn->kind->release(fn);
    cr_unlock(fn->kind->python);
}

static void slices_free(cr_node *n)
{
    copy_slices *c = (copy_slices *)n;

    cr_layout_drop(&c->base);
    cr_layout_drop(&c->view);
    cr_node_drop(c->fn);
}

/* The CopySlices node whose operation is being applied. */
static CR_THREAD copy_slices *around;

static cr_status apply_inner(copy_slices *c, cr_tensor *slice, cr_tensor **out)
{
    cr_tensor *grads[1] = {slice};
    copy_slices *was = around;
    cr_node *fn = c->fn;

    around = c;
    cr_lock(fn->kind->python);
    cr_status st = fn->kind->apply(fn, grads, out);
    cr_unlock(fn->kind->python);
    around = was;
    return st;
}

bool cr_changes_view(const cr_node *node) { return around && around->fn == node; }

cr_status cr_set_result_history(cr_tensor *t, cr_node *node, uint32_t output)
{
    cr_node *n;

    if (!cr_changes_view(node))
        return cr_set_history(t, node, output);
    CR_TRY(cr_layout_node_of(&n, (cr_edge){&around->node, 0}, &around->base, &around->view));
    cr_status st = cr_set_history(t, n, 0);
    cr_node_drop(n);
    return st;
}

/* The gradient of the changed part from the operation, in the view's shape; zeros when the
 * operation gives none. */
static cr_status changed_part(cr_tensor **out, const copy_slices *c, cr_tensor **inner,
                              cr_device device)
{
    cr_target to = {c->view.size, c->view.ndim, c->view.dtype, c->view.device};

    if (c->self_edge < (int)c->fn->edge_count && *inner) {
        *out = *inner;
        *inner = NULL;
        return cr_bring(out, &to, c->fn, (uint32_t)c->self_edge);
    }
    return cr_filled_tensor(out, (cr_dtype)to.dtype, device, to.ndim, to.size,
                            cr_scalar_int(0));
}

/* A boolean mask over the base: true at the view's elements. */
static cr_status mask_of(cr_tensor **out, const copy_slices *c, cr_device device)
{
    cr_layout base = c->base, view = c->view;
    cr_tensor *ones = NULL, *places = NULL;
    cr_view v;
    cr_status st;

    base.device = view.device = device;
    CR_GO(cr_tensor_new(&ones, (cr_dtype)view.dtype, device, view.ndim, view.size));
    CR_GO(cr_reach_view(&v, ones));
    if (v.data)
        CR_GO(cr_fill_elements(&v, cr_scalar_int(1)));
    CR_GO(cr_layout_scatter(&places, ones, &base, &view));
    CR_GO(cr_call_cast(out, places, CR_BOOL));
done:
    cr_drop(places);
    cr_drop(ones);
    return st;
}

/* `grad` with the changed part replaced by `part`.  Copies in place unless recorded. */
static cr_status view_replaced(cr_tensor **out, const copy_slices *c, cr_tensor *grad,
                               cr_tensor *part)
{
    cr_tensor *view;

    CR_TRY(cr_layout_spread(out, &view, grad, &c->base, &c->view));
    cr_status st = cr_has_elements(view) ? cr_copy_tensor(view, part) : CR_OK;
    cr_drop(view);
    if (st) {
        cr_drop(*out);
        *out = NULL;
    }
    return st;
}

/* The recorded form for views with the base's dtype. */
static cr_status chosen(cr_tensor **out, const copy_slices *c, cr_tensor *grad,
                        cr_tensor *spread)
{
    cr_tensor *mask = NULL;

    CR_TRY(mask_of(&mask, c, cr_device_beside(cr_only_wraps(grad) ? grad : spread)));
    cr_status st = cr_call_where(out, mask, spread, grad);
    cr_drop(mask);
    return st;
}

/* The recorded form for views of the real or imaginary part: grad - spread(slice) +
 * spread(part). */
static cr_status exchanged(cr_tensor **out, const copy_slices *c, cr_tensor *grad,
                           cr_tensor *slice, cr_tensor *spread)
{
    cr_tensor *old = NULL, *minus = NULL, *rest = NULL;
    cr_status st;

    CR_GO(cr_layout_scatter_recorded(&old, slice, &c->base, &c->view));
    CR_GO(cr_call_unary(&minus, cr_entry.neg, old));
    CR_GO(cr_call_add(&rest, grad, minus));
    CR_GO(cr_call_add(out, rest, spread));
done:
    cr_drop(rest);
    cr_drop(minus);
    cr_drop(old);
    return st;
}

static cr_status base_gradient(cr_tensor **out, const copy_slices *c, cr_tensor *grad,
                               cr_tensor *slice, cr_tensor *part)
{
    cr_tensor *spread = NULL;

    if (!cr_recording() && !cr_layout_wants_calls(grad) &&
        !cr_layout_needs_calls(grad, &c->base) && !cr_layout_needs_calls(part, &c->base))
        return view_replaced(out, c, grad, part);
    CR_TRY(cr_layout_scatter_recorded(&spread, part, &c->base, &c->view));
    cr_status st = c->base.dtype == c->view.dtype ? chosen(out, c, grad, spread)
                                                  : exchanged(out, c, grad, slice, spread);
    cr_drop(spread);
    return st;
}

static bool elements_meet(const cr_layout *l)
{
    for (int i = 0; i < l->ndim; i++)
        if (l->stride[i] == 0 && l->size[i] > 1)
            return true;
    return false;
}

static cr_status slices_apply(cr_node *n, cr_tensor *const *grads, cr_tensor **out)
{
    copy_slices *c = (copy_slices *)n;
    cr_tensor *slice = NULL, *part = NULL, *none = NULL;
    cr_status st;

    if (!grads[0])
        return CR_OK;
    if (elements_meet(&c->view))
        return cr_refuse_internal_overlap();
    CR_GO(cr_layout_gather_recorded(&slice, grads[0], &c->base, &c->view));
    CR_GO(apply_inner(c, slice, out));
    if (c->self_edge >= 0) {
        bool own = c->self_edge < (int)c->fn->edge_count;
        CR_GO(
            changed_part(&part, c, own ? &out[c->self_edge] : &none, cr_device_beside(slice)));
        CR_GO(base_gradient(&out[c->self_edge], c, grads[0], slice, part));
    }
done:
    cr_drop(part);
    cr_drop(slice);
    return st;
}

/* The tangents of the operation's edges: that of the view comes from the base. */
static cr_status push_inner(copy_slices *c, cr_tensor *slice, cr_tensor *const *tangents,
                            cr_tensor **out)
{
    cr_node *fn = c->fn;
    cr_tensor **in = cr_alloc_zero((fn->edge_count + 1) * sizeof *in);
    copy_slices *was = around;
    bool any = false;

    CR_NEED(in);
    for (uint32_t i = 0; i < fn->edge_count; i++) {
        in[i] = (int)i == c->self_edge ? slice : tangents[i];
        any |= in[i] != NULL;
    }
    around = c;
    cr_lock(fn->kind->python);
    cr_status st = !any             ? CR_OK
                   : fn->kind->push ? fn->kind->push(fn, in, out)
                                    : cr_node_pull(fn, in, out);
    cr_unlock(fn->kind->python);
    around = was;
    cr_free(in);
    return st;
}

/* The base's tangent, in which that of the changed part is replaced. */
static cr_status slices_push(cr_node *n, cr_tensor *const *tangents, cr_tensor **out)
{
    copy_slices *c = (copy_slices *)n;
    cr_tensor *base = NULL, *slice = NULL, *part = NULL, *made = NULL;
    cr_status st = CR_OK;

    if (elements_meet(&c->view))
        return cr_refuse_internal_overlap();
    if (c->self_edge >= 0)
        base = cr_keep(tangents[c->self_edge]);
    if (!base)
        CR_GO(cr_filled_tensor(&base, (cr_dtype)c->base.dtype, c->base.device, c->base.ndim,
                               c->base.size, cr_scalar_int(0)));
    CR_GO(cr_layout_gather_recorded(&slice, base, &c->base, &c->view));
    CR_GO(push_inner(c, c->self_edge >= 0 && tangents[c->self_edge] ? slice : NULL, tangents,
                     &part));
    if (!part)
        CR_GO(cr_filled_tensor(&part, (cr_dtype)c->view.dtype, c->view.device, c->view.ndim,
                               c->view.size, cr_scalar_int(0)));
    CR_GO(base_gradient(&made, c, base, slice, part));
    CR_GO(cr_tangent_add(&out[0], n, 0, cr_keep(made)));
done:
    cr_drop(made);
    cr_drop(part);
    cr_drop(slice);
    cr_drop(base);
    return st;
}

static const cr_node_kind copy_slices_kind = {.name = "CopySlices",
                                              .apply = slices_apply,
                                              .push = slices_push,
                                              .release = slices_release,
                                              .free = slices_free};

/* The index of the edge of `fn` that equals `was`; -1 for none. */
static int edge_index(const cr_node *fn, const cr_edge *was)
{
    for (uint32_t i = 0; i < fn->edge_count && was->node; i++)
        if (fn->edges[i].node == was->node && fn->edges[i].input == was->input)
            return (int)i;
    return -1;
}

static cr_status slices_new(cr_node **out, cr_tensor *base, cr_tensor *view, cr_node *fn,
                            int self_edge)
{
    bool extra = self_edge < 0 && base->requires_grad;
    cr_node *n;
    cr_status st;

    CR_TRY(cr_node_new(&n, sizeof(copy_slices), &copy_slices_kind, fn->edge_count + extra, 1));
    copy_slices *c = (copy_slices *)n;
    c->fn = cr_node_keep(fn);
    c->self_edge = extra ? (int)fn->edge_count : self_edge;
    CR_GO(cr_layout_of(&c->base, base));
    CR_GO(cr_layout_of(&c->view, view));
    for (uint32_t i = 0; i < fn->edge_count; i++)
        if ((int)i != c->self_edge)
            n->edges[i] = (cr_edge){cr_node_keep(fn->edges[i].node), fn->edges[i].input};
    if (c->self_edge >= 0)
        CR_GO(cr_edge_of(&n->edges[c->self_edge], base));
    *out = n;
    return CR_OK;
done:
    cr_node_drop(n);
    return st;
}

/* The edge to the view's history before the change.  It must not be refreshed, because the
 * version has already increased. */
static cr_edge old_edge(const cr_tensor *t)
{
    const cr_grad_meta *m = t->grad;

    if (m->grad_fn)
        return (cr_edge){m->grad_fn, m->output};
    return (cr_edge){m->accumulate, 0};
}

static cr_status rebase_view(cr_tensor *t, cr_node *fn)
{
    cr_tensor *base = cr_base_of(t);
    cr_edge was = old_edge(t);
    cr_node *n;

    if (fn->result_count != 1)
        return cr_fail(CR_RUNTIME,
                       "Functions which modify views in-place must return a single Variable");
    CR_TRY(cr_node_result_set(&fn->results[0], t));
    CR_TRY(slices_new(&n, base, t, fn, edge_index(fn, &was)));
    cr_status st = cr_set_history(base, n, 0);
    cr_node_drop(n);
    CR_TRY(st);
    return cr_refresh_view(t);
}

cr_status cr_rebase_history(cr_tensor *t, cr_node *node, uint32_t output)
{
    if (!cr_base_of(t))
        return cr_set_history(t, node, output);
    CR_ASSERT(output == 0 || node->result_count != 1);
    return rebase_view(t, node);
}
