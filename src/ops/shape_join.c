/* Shape rules of operators that repeat and replace parts of tensors. */
#include "ops/shape.h"
#include "space/shape.h"
#include <string.h>

typedef long long ll; /* for printf */

/* Repeating. */

static cr_status too_many_repeats(void)
{
    return cr_fail(CR_RUNTIME, "repeat_interleave: the repeats are more than a size may be");
}

/* The sum of the counts; refuses negative counts. */
static cr_status sum_counts(int64_t *out, const cr_view *repeats)
{
    int64_t n = cr_numel(repeats->ndim, repeats->size);
    int64_t step = repeats->ndim ? repeats->stride[0] : 0;

    if (!cr_is_index_type(repeats))
        return cr_not_for_type("repeat_interleave_cpu", repeats);
    if (!repeats->data && n)
        return cr_fail(CR_RUNTIME,
                       "repeat_interleave: the size of the result depends on the values");
    cr_sizes_of_values = true;
    *out = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = repeats->dtype == CR_I32 ? ((const int32_t *)repeats->data)[i * step]
                                             : ((const int64_t *)repeats->data)[i * step];
        if (k < 0)
            return cr_fail(CR_RUNTIME, "repeats can not be negative");
        if (CR_ADD_OVERFLOW(*out, k, out))
            return too_many_repeats();
    }
    return CR_OK;
}

/* A given size of a result that has `n` elements where each is repeated once: without elements
 * none is read. */
static cr_status check_output_size_sign(const cr_value *given, int64_t n)
{
    if (!n || given->tag == CR_NONE || given->i >= 0)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "Trying to create tensor with negative dimension %lld: [%lld]",
                   (ll)given->i, (ll)given->i);
}

static cr_status check_output_size(const cr_value *given, int64_t n, int64_t size)
{
    if (!n || given->tag == CR_NONE || given->i == size)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "allocated size does not match required size");
}

cr_status cr_shape_repeat_indices(const cr_value *arg, cr_shape *out)
{
    int64_t total;

    if (arg[0].view->ndim != 1)
        return cr_fail(CR_RUNTIME, "repeat_interleave only accept 1D vector as repeat");
    CR_TRY(check_output_size_sign(&arg[1], arg[0].view->size[0]));
    CR_TRY(sum_counts(&total, arg[0].view));
    CR_TRY(check_output_size(&arg[1], arg[0].view->size[0], total));
    out->ndim = 1;
    out->size[0] = total;
    return CR_OK;
}

cr_status cr_shape_repeat_interleave_each(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view, *repeats = arg[1].view;
    int64_t dim, size, n = cr_numel(repeats->ndim, repeats->size), total;

    CR_TRY(cr_wrap_dim(&dim, arg[2].i, self->ndim));
    size = cr_dim_size(self, dim);
    if (repeats->ndim > 1)
        return cr_fail(CR_RUNTIME, "repeats must be 0-dim or 1-dim tensor");
    if (n != size && n != 1)
        return cr_fail(
            CR_RUNTIME,
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            "%lld and input.size(%lld) = %lld",
            (ll)n, (ll)dim, (ll)size);
    CR_TRY(check_output_size_sign(&arg[3], size));
    CR_TRY(sum_counts(&total, repeats));
    if (n == 1 && CR_MUL_OVERFLOW(total, size, &total))
        return too_many_repeats();
    CR_TRY(check_output_size(&arg[3], size, total));
    cr_shape_like(out, self);
    out->ndim = out->ndim ? out->ndim : 1;
    out->size[dim] = total;
    return CR_OK;
}

/* Parts. */

static cr_status check_part(const cr_view *src, const cr_shape *slice)
{
    if (src->ndim == slice->ndim &&
        !memcmp(src->size, slice->size, src->ndim * sizeof *src->size))
        return CR_OK;
    return cr_fail(
        CR_RUNTIME,
        "expected src to have a size equal to the slice of self. src size = %s, slice size "
        "= %s",
        cr_view_text(src), cr_shape_text(slice->ndim, slice->size));
}

cr_status cr_shape_as_strided_scatter(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view;
    int64_t offset = arg[4].tag == CR_NONE ? 0 : arg[4].i, last = offset;
    size_t item = cr_dtype_size((cr_dtype)self->dtype);
    int64_t have = cr_numel(self->ndim, self->size);
    cr_shape slice = {.ndim = (int)arg[2].len};

    if (arg[2].len != arg[3].len)
        return cr_fail(CR_RUNTIME, "mismatch in length of strides and shape");
    if (arg[2].len > CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME,
                       "as_strided_scatter: a slice has at most %d dimensions, not %u",
                       CR_MAX_DIMS, (unsigned)arg[2].len);
    for (int d = 0; d < slice.ndim; d++) {
        int64_t reach;
        slice.size[d] = arg[2].ints[d];
        if (arg[3].ints[d] < 0)
            return cr_fail(
                CR_RUNTIME,
                "as_strided: Negative strides are not supported at the moment, got strides: %s",
                cr_shape_text((int)arg[3].len, arg[3].ints));
        if (slice.size[d] < 0 || CR_MUL_OVERFLOW(slice.size[d] - 1, arg[3].ints[d], &reach) ||
            CR_ADD_OVERFLOW(last, reach, &last))
            return cr_fail(CR_RUNTIME,
                           "Storage size calculation overflowed with sizes=%s and strides=%s",
                           cr_shape_text(slice.ndim, arg[2].ints),
                           cr_shape_text((int)arg[3].len, arg[3].ints));
    }
    CR_TRY(check_part(arg[1].view, &slice));
    if (cr_numel(slice.ndim, slice.size) && (last >= have || offset < 0))
        return cr_fail(
            CR_RUNTIME,
            "setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %zu "
            "requiring a storage size of %lld are out of bounds for storage of size %lld",
            cr_shape_text(slice.ndim, slice.size), cr_shape_text((int)arg[3].len, arg[3].ints),
            (ll)offset, item, (ll)CR_WRAP_MUL(CR_WRAP_ADD(last, 1), item),
            (ll)CR_WRAP_MUL(have, item));
    cr_shape_like(out, self);
    return CR_OK;
}
