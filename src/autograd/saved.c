/* Tensors saved for backward.
 *
 * An input is saved as it is.  A result is saved without its history, because its history is
 * the node that saves it.  The history is set again when the tensor is read with grad mode on.
 * Saved-tensor hooks replace the tensor by an object. */
#include "autograd/autograd_impl.h"
#include <stdio.h>

enum { EMPTY, KEPT, PACKED };

typedef struct {
    void *object;
    cr_edge edge; /* the tensor's history, set again on unpacking */
    const cr_saved_hooks *hooks;
} packed;

static CR_THREAD cr_saved_hooks *hooks;

void cr_saved_hooks_push(cr_saved_hooks *h)
{
    h->outer = hooks;
    hooks = h;
}

bool cr_saved_hooks_active(void) { return hooks != NULL; }

void cr_saved_hooks_pop(void)
{
    if (hooks)
        hooks = hooks->outer;
}

static uint32_t version_of(const cr_tensor *t) { return t->storage ? t->storage->version : 0; }

/* While a hook runs, hooks and gradients are off: what it computes is neither packed nor
 * recorded, and it may read the tensor as an array. */
static cr_status saved_pack(cr_saved *out, cr_tensor *t, bool is_result)
{
    cr_saved_hooks *h = hooks;
    packed *p = cr_alloc_zero(sizeof *p);
    cr_tensor *seen = NULL;
    cr_status st;

    CR_NEED(p);
    st = is_result ? cr_detached(&seen, t) : (seen = cr_keep(t), CR_OK);
    if (!st && !is_result)
        st = cr_edge_of(&p->edge, t);
    if (!st) {
        bool no_grad = cr_thread.no_grad;

        hooks = NULL;
        cr_thread.no_grad = true;
        st = h->pack(h->context, seen, &p->object);
        cr_thread.no_grad = no_grad;
        hooks = h;
    }
    cr_drop(seen);
    if (st) {
        cr_node_drop(p->edge.node);
        cr_free(p);
        return st;
    }
    p->hooks = h;
    out->packed = p;
    out->state = PACKED;
    return CR_OK;
}

cr_status cr_save(cr_saved *out, cr_tensor *t, bool is_result)
{
    *out = (cr_saved){0};
    if (!t)
        return CR_OK;
    if (CR_UNLIKELY(t->inference))
        return cr_fail(CR_RUNTIME,
                       "Inference tensors cannot be saved for backward. Please do not use "
                       "Tensors created in inference mode in computation tracked by autograd. "
                       "To work around this, you can make a clone to get a normal tensor and "
                       "use it in autograd, or use `torch.no_grad()` instead of "
                       "`torch.inference_mode()`.");
    is_result = is_result && t->grad && t->grad->grad_fn;
    out->is_result = is_result;
    out->output = is_result ? t->grad->output : 0;
    out->version = version_of(t);
    if (CR_UNLIKELY(hooks != NULL) && !t->number)
        return saved_pack(out, t, is_result);
    if (is_result)
        CR_TRY(cr_detached(&out->tensor, t));
    else
        out->tensor = cr_keep(t);
    out->state = KEPT;
    return CR_OK;
}

static cr_status modified(const cr_saved *s, cr_node *owner)
{
    cr_node *n = s->is_result ? owner : NULL;
    char of[160] = "", name[96];
    uint32_t output = s->output;

    if (!n && !cr_grad_fn(&n, s->tensor) && n)
        output = s->tensor->grad->output;
    if (n) {
        if (cr_changes_view(n))
            snprintf(name, sizeof name, "AsStrided");
        else
            cr_node_short_name(name, sizeof name, n);
        snprintf(of, sizeof of, ", which is output %u of %s,", output, name);
    }
    return cr_fail(
        CR_RUNTIME,
        "one of the variables needed for gradient computation has been modified by an "
        "inplace operation: [%s %s]%s is at version %u; expected version %u instead. %s",
        cr_tensor_type_name(s->tensor), cr_view_text(s->tensor), of, version_of(s->tensor),
        s->version,
        cr_anomaly_on()
            ? "Hint: the backtrace further above shows the operation that failed to compute "
              "its gradient. The variable in question was changed in there or anywhere "
              "later. Good luck!"
            : "Hint: enable anomaly detection to find the operation that failed to compute "
              "its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).");
}

/* Gives `plain` (ownership taken) the history of result `output` of `node`. */
static cr_status with_history(cr_tensor **out, cr_tensor *plain, cr_node *node, uint32_t output)
{
    cr_tensor *t = NULL;
    cr_status st = cr_detached(&t, plain);

    cr_drop(plain);
    if (!st)
        st = cr_set_result_history(t, node, output);
    CR_GIVE(st, out, t, cr_drop);
}

static cr_status saved_unpack(cr_tensor **out, const cr_saved *s, cr_node *node)
{
    const packed *p = s->packed;
    cr_tensor *t = NULL;

    CR_TRY(p->hooks->unpack(p->object, &t));
    if (s->is_result)
        return with_history(out, t, node, s->output);
    if (p->edge.node && !t->grad) /* for a leaf too, so that its node receives the gradients */
        return with_history(out, t, p->edge.node, p->edge.input);
    *out = t;
    return CR_OK;
}

cr_status cr_saved_get(cr_tensor **out, const cr_saved *s, cr_node *node)
{
    *out = NULL;
    if (s->state == EMPTY)
        return CR_OK;
    if (CR_UNLIKELY(s->state == PACKED))
        return saved_unpack(out, s, node);
    if (CR_UNLIKELY(version_of(s->tensor) != s->version))
        return modified(s, node);
    cr_follow_storage(s->tensor);
    if (s->is_result && cr_goes_to_python(s->tensor) && !cr_recording())
        return cr_detached(out, s->tensor);
    if (s->is_result && cr_recording())
        return with_history(out, cr_keep(s->tensor), node, s->output);
    *out = cr_keep(s->tensor);
    return CR_OK;
}

void cr_saved_drop(cr_saved *s)
{
    if (s->state == PACKED) {
        packed *p = s->packed;
        p->hooks->drop(p->object);
        cr_node_drop(p->edge.node);
        cr_free(p);
    }
    cr_drop(s->tensor);
    *s = (cr_saved){0};
}

cr_status cr_fail_released(void)
{
    return cr_fail(
        CR_RUNTIME,
        "Trying to backward through the graph a second time (or directly access saved "
        "tensors after they have already been freed). Saved intermediate values of "
        "the graph are freed when you call .backward() or autograd.grad(). Specify "
        "retain_graph=True if you need to backward through the graph a second time "
        "or if you need to access saved tensors after calling backward.");
}
