/* Converts gradients to the shape and dtype of their tensors: sums over broadcast dims, casts,
 * and takes the real part for a real tensor. */
#include "autograd/autograd_impl.h"
#include "entry.h"
#include "whole/whole.h"
#include <stdio.h>

/* Makes the tensor by a call, which is recorded. */
static cr_status call_full(cr_tensor **out, cr_dtype dtype, cr_device device, int ndim,
                           const int64_t *size, cr_scalar number)
{
    cr_value arg[] = {cr_of_ints(size, (size_t)ndim),
                      cr_of_number(number),
                      cr_of_dtype(dtype),
                      cr_of_none(),
                      {.tag = CR_DEVICE_VAL, .i = cr_packed_device(device)}};

    return cr_call_tensor(out, cr_entry.full, arg, CR_LEN(arg));
}

cr_status cr_filled_tensor(cr_tensor **out, cr_dtype dtype, cr_device device, int ndim,
                           const int64_t *size, cr_scalar number)
{
    cr_tensor *t;

    if (cr_thread.include & ~cr_thread.exclude & (CR_STAGE_BIT(CAPTURE) | CR_STAGE_BIT(PYTHON)))
        return call_full(out, dtype, device, ndim, size, number);
    CR_TRY(cr_tensor_new(&t, dtype, device, ndim, size));
    cr_view v;
    cr_status st = cr_reach_view(&v, t);
    if (!st && v.data)
        st = cr_fill_elements(&v, number);
    CR_GIVE(st, out, t, cr_drop);
}

bool cr_target_of(cr_target *out, const cr_edge *edge)
{
    const cr_tensor *leaf = cr_node_variable(edge->node);

    if (leaf) {
        *out = (cr_target){leaf->size, leaf->ndim, leaf->dtype, cr_device_beside(leaf)};
        return true;
    }
    const cr_node_result *r = &edge->node->results[edge->input];
    *out = (cr_target){r->size, r->ndim, r->dtype, r->device};
    return r->known;
}

static void who(char *out, size_t size, cr_node *from, uint32_t index)
{
    if (from)
        snprintf(out, size, "Function %s returned an invalid gradient at index %u",
                 cr_node_name(from), index);
    else
        snprintf(out, size, "invalid gradient at index %u", index);
}

static cr_status bad_shape(const cr_tensor *t, const cr_target *to, cr_node *from,
                           uint32_t index)
{
    char start[160];

    who(start, sizeof start, from, index);
    return cr_fail(CR_RUNTIME, "%s - got %s but expected shape compatible with %s", start,
                   cr_view_text(t), cr_view_text(to));
}

static cr_status bring_bad_device(const cr_tensor *t, const cr_target *to, cr_node *from,
                                  uint32_t index)
{
    char start[160];

    who(start, sizeof start, from, index);
    return cr_fail(CR_RUNTIME, "%s - expected device %s but got %s", start,
                   cr_device_print(to->device).text, cr_device_print(t->device).text);
}

/* As in torch, one number comes to its tensor's device: a gradient of a number on the host that
 * was combined with tensors of another device. */
cr_status cr_bring_to_device(cr_tensor **grad, const cr_target *to)
{
    cr_value arg[] = {cr_of_tensor(*grad),
                      cr_of_none(),
                      cr_of_none(),
                      {.tag = CR_DEVICE_VAL, .i = cr_packed_device(to->device)}};
    cr_tensor *made;

    CR_TRY(cr_call_tensor(&made, cr_entry._to_copy, arg, CR_LEN(arg)));
    cr_drop(*grad);
    *grad = made;
    return CR_OK;
}

cr_status cr_bring(cr_tensor **grad, const cr_target *to, cr_node *from, uint32_t index)
{
    cr_tensor *t = *grad, *made;

    if (CR_UNLIKELY(!cr_has_sizes(t, to->ndim, to->size))) {
        if (!cr_expands(to->ndim, to->size, t->ndim, t->size))
            return bad_shape(t, to, from, index);
        CR_TRY(cr_reduce_to_size(&made, t, to->ndim, to->size));
        cr_drop(t);
        *grad = t = made;
    }
    if (CR_UNLIKELY(t->dtype != to->dtype)) {
        CR_TRY(cr_call_cast(&made, t, (cr_dtype)to->dtype));
        cr_drop(t);
        *grad = t = made;
    }
    if (CR_LIKELY(cr_same_device(t->device, to->device)))
        return CR_OK;
    return t->ndim ? bring_bad_device(t, to, from, index) : cr_bring_to_device(grad, to);
}
