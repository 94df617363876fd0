/* The node of a leaf: adds gradients to .grad.
 *
 * The first gradient becomes .grad itself when it has no other owner and has the leaf's layout;
 * otherwise it is copied to that layout.  If it is a view of all elements of such a tensor,
 * .grad is a tensor over the same bytes.  Later gradients are added in place, unless the
 * addition must be recorded for another derivative. */
#include "autograd/autograd_impl.h"
#include "entry.h"
#include "tensor/defer.h"
#include <string.h>

/* True if the caller has the only reference on `t`, and `tensors` tensors own the storage. */
static bool accumulate_owns(const cr_tensor *t, int tensors)
{
    return atomic_load_explicit(&t->count, memory_order_acquire) == 1 && !t->peer &&
           t->storage &&
           atomic_load_explicit(&t->storage->count, memory_order_acquire) ==
               tensors + cr_defer_references(t->storage) &&
           !t->storage->release;
}

bool cr_is_sole(const cr_tensor *t) { return accumulate_owns(t, 1); }

/* A view that alone refers to its base, and has as many elements: a sum to the sizes of a bias
 * is such a view. */
static bool is_sole_view(const cr_tensor *t)
{
    const cr_tensor *base = cr_base_of(t);

    return base && base->storage == t->storage && base->numel == t->numel &&
           accumulate_owns(base, 2) && accumulate_owns(t, 2);
}

/* The strides that .grad of `t` must have. */
static const int64_t *wanted_strides(const cr_tensor *t, int64_t *room)
{
    int64_t step = 1;

    if (cr_is_dense(t))
        return t->stride;
    for (int i = t->ndim - 1; i >= 0; i--) {
        room[i] = step;
        step *= t->size[i] > 1 ? t->size[i] : 1;
    }
    return room;
}

static bool accumulate_same_strides(const cr_tensor *t, const int64_t *stride)
{
    for (int i = 0; i < t->ndim; i++)
        if (t->size[i] > 1 && t->stride[i] != stride[i])
            return false;
    return true;
}

/* A derivative may return a value of the forward pass, with its history. */
static bool may_adopt(const cr_tensor *grad, const cr_tensor *leaf)
{
    int64_t room[CR_MAX_DIMS];

    return !cr_recording() && grad->storage && !cr_is_lazy(grad) && !cr_requires_grad(grad) &&
           accumulate_same_strides(grad, wanted_strides(leaf, room));
}

/* The same for a tensor of a class whose calls Python answers: its bytes are not seen here. */
static bool may_detach(const cr_tensor *grad, const cr_tensor *leaf)
{
    int64_t room[CR_MAX_DIMS];

    return !cr_recording() && grad->ndim == leaf->ndim &&
           atomic_load_explicit(&grad->count, memory_order_acquire) == 1 &&
           accumulate_same_strides(grad, wanted_strides(leaf, room));
}

static cr_status permuted(cr_tensor **out, cr_tensor *t, const int64_t *order)
{
    cr_value arg[] = {cr_of_tensor(t), cr_of_ints(order, t->ndim)};

    return cr_call_tensor(out, cr_entry.permute, arg, 2);
}

/* A copy with these strides, which have no gaps, by calls. */
static cr_status clone_called(cr_tensor **out, cr_tensor *t, const int64_t *stride)
{
    int64_t order[CR_MAX_DIMS], back[CR_MAX_DIMS];
    cr_tensor *sorted = NULL, *copy = NULL, *view = NULL;
    cr_status st;

    if (accumulate_same_strides(t, stride))
        return cr_call_unary(out, cr_entry.clone, t);
    for (int d = 0; d < t->ndim; d++) {
        int at = d;
        for (; at && stride[order[at - 1]] < stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    for (int i = 0; i < t->ndim; i++)
        back[order[i]] = i;
    CR_GO(permuted(&sorted, t, order));
    cr_value arg[] = {cr_of_tensor(sorted), {.tag = CR_FORMAT_VAL, .i = CR_FORMAT_CONTIGUOUS}};
    CR_GO(cr_call_tensor(&copy, cr_entry.clone, arg, CR_LEN(arg)));
    CR_GO(permuted(&view, copy, back));
    CR_GO(cr_call_unary(out, cr_entry.detach, view)); /* a gradient has no base */
done:
    cr_drop(view);
    cr_drop(copy);
    cr_drop(sorted);
    return st;
}

cr_status cr_clone_like(cr_tensor **out, cr_tensor *t, const cr_tensor *like)
{
    int64_t room[CR_MAX_DIMS];

    /* A copy that must be recorded or captured is an operator call. */
    if ((cr_recording() && cr_requires_grad(t)) || cr_is_dispatched(t) || t->layout)
        return cr_call_unary(out, cr_entry.clone, t);
    const int64_t *stride = wanted_strides(like, room);
    if (cr_thread.include & (CR_STAGE_BIT(CAPTURE) | CR_STAGE_BIT(PYTHON)))
        return clone_called(out, t, stride);
    cr_tensor *copy;
    CR_TRY(cr_tensor_new_strided(&copy, t->dtype, t->device, t->ndim, t->size, stride));
    cr_status st = cr_copy_tensor(copy, t);
    CR_GIVE(st, out, copy, cr_drop);
}

static cr_status first_grad(cr_tensor **out, cr_tensor *leaf, cr_tensor *grad)
{
    if (CR_UNLIKELY(cr_goes_to_python(grad)))
        return may_detach(grad, leaf) ? cr_detached(out, grad)
                                      : cr_call_unary(out, cr_entry.clone, grad);
    bool adopts = may_adopt(grad, leaf);
    if (adopts && is_sole_view(grad))
        return cr_tensor_alias(out, grad);
    if (!adopts || !cr_is_sole(grad))
        return cr_clone_like(out, grad, leaf);
    *out = cr_keep(grad);
    return CR_OK;
}

/* *sum += grad.  On failure *sum is unchanged. */
static cr_status add_grad(cr_tensor **sum, cr_tensor *grad)
{
    cr_tensor *made;

    if (!cr_recording() && (!(*sum)->layout || grad->layout))
        return cr_call_add_inplace(*sum, grad);
    CR_TRY(cr_call_add(&made, *sum, grad));
    cr_drop(*sum);
    *sum = made;
    return CR_OK;
}

/* Stores the sum in .grad.  Other threads may add to the same leaf, and no lock is held while
 * adding.  The gradient is therefore taken out of .grad first; a gradient that another thread
 * has stored meanwhile is added when the sum is put back. */
static cr_status publish(cr_grad_meta *m, cr_tensor *sum)
{
    cr_status st = CR_OK;

    for (;;) {
        cr_tensor *other = cr_exchange_grad(m, sum);
        if (!other)
            return st;
        sum = cr_exchange_grad(m, NULL);
        if (!sum) {
            sum = other;
            continue;
        }
        cr_status one = add_grad(&sum, other);
        st = st ? st : one;
        cr_drop(other);
    }
}

static cr_status accumulate_grad(cr_node *n, cr_tensor *const *grads, cr_tensor **grads_out)
{
    cr_tensor *leaf = ((cr_accumulate *)n)->variable, *sum;
    cr_status st, end = CR_OK;

    (void)grads_out;
    if (!grads[0] || !leaf->requires_grad)
        return CR_OK;
    sum = cr_exchange_grad(leaf->grad, NULL);
    st = sum ? add_grad(&sum, grads[0]) : first_grad(&sum, leaf, grads[0]);
    if (sum)
        end = publish(leaf->grad, sum);
    CR_TRY(st);
    CR_TRY(end);
    return cr_run_accumulated(n, leaf);
}

const cr_node_kind cr_accumulate_kind = {.name = "AccumulateGrad", .apply = accumulate_grad};
