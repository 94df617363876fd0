/* Sizes and strides: formats, density, extents. */
#include "tensor/geometry.h"
#include "space/space.h"
#include <string.h>

bool cr_is_row_major(int ndim, const int64_t *size, const int64_t *stride)
{
    int64_t step = 1;

    for (int d = ndim - 1; d >= 0; d--) {
        if (stride[d] != step)
            return false;
        step = cr_step_over(step, size[d]);
    }
    return true;
}

/* -1 when dim a is inside dim b, 1 when it is outside, 0 when strides do not decide (a zero
 * stride). */
static int compare_dims(const int64_t *size, const int64_t *stride, int a, int b)
{
    if (stride[a] == 0 || stride[b] == 0)
        return 0;
    if (stride[a] != stride[b])
        return stride[a] < stride[b] ? -1 : 1;
    return size[a] > size[b] ? 1 : 0;
}

/* Sorts dims from the innermost to the outermost.  When strides do not decide, the last dim is
 * the inner one. */
static void order_dims_by_stride(int ndim, const int64_t *size, const int64_t *stride,
                                 int *order)
{
    for (int i = 0; i < ndim; i++)
        order[i] = ndim - 1 - i;
    for (int i = 1; i < ndim; i++) {
        int moving = i;
        for (int j = i - 1; j >= 0; j--) {
            int c = compare_dims(size, stride, order[j], order[moving]);
            if (c < 0)
                break;
            if (c > 0) {
                int other = order[j];
                order[j] = order[moving];
                order[moving] = other;
                moving = j;
            }
        }
    }
}

static void strides_in_order(int ndim, const int64_t *size, const int *order, int64_t *stride)
{
    int64_t step = 1;

    for (int i = 0; i < ndim; i++) {
        stride[order[i]] = step;
        step = cr_step_over(step, size[order[i]]);
    }
}

void cr_like_strides(int ndim, const int64_t *size, const int64_t *stride, int64_t *out)
{
    int order[CR_MAX_DIMS];

    if (cr_is_dense_view(ndim, size, stride)) {
        memmove(out, stride, (size_t)ndim * sizeof *out);
        return;
    }
    order_dims_by_stride(ndim, size, stride, order);
    strides_in_order(ndim, size, order, out);
}

void cr_memory_order(int ndim, const int64_t *size, const int64_t *stride, int64_t *out_size,
                     int64_t *out_stride)
{
    int order[CR_MAX_DIMS];

    order_dims_by_stride(ndim, size, stride, order);
    for (int i = 0; i < ndim; i++) {
        out_size[ndim - 1 - i] = size[order[i]];
        out_stride[ndim - 1 - i] = stride[order[i]];
    }
}

static const int channels_last_order[] = {1, 3, 2, 0},
                 channels_last_3d_order[] = {1, 4, 3, 2, 0};

cr_status cr_format_strides(int64_t format, int ndim, const int64_t *size, int64_t *stride)
{
    if (format == CR_FORMAT_CHANNELS_LAST) {
        if (ndim != 4)
            return cr_fail(CR_RUNTIME, "required rank 4 tensor to use channels_last format");
        strides_in_order(4, size, channels_last_order, stride);
    } else if (format == CR_FORMAT_CHANNELS_LAST_3D) {
        if (ndim != 5)
            return cr_fail(CR_RUNTIME, "required rank 5 tensor to use channels_last_3d format");
        strides_in_order(5, size, channels_last_3d_order, stride);
    } else {
        cr_row_major_strides(stride, ndim, size);
    }
    return CR_OK;
}

static bool lies_in_order(int ndim, const int64_t *size, const int64_t *stride,
                          const int *order)
{
    int64_t step = 1;

    for (int i = 0; i < ndim; i++) {
        if (size[order[i]] != 1 && stride[order[i]] != step)
            return false;
        step = CR_WRAP_MUL(step, size[order[i]]);
    }
    return true;
}

/* True if strides increase in this order of dims, channels first, over any gaps.  Sizes that
 * any order fits have no format, as in torch. */
static bool ascends_in_order(const cr_tensor *t, const int *order)
{
    int64_t least = 0;

    for (int i = 0; i < t->ndim; i++) {
        int d = order[i];
        if (!t->size[d] || t->stride[d] < least || (!i && !t->stride[d]) ||
            (!d && least == t->stride[1]))
            return false;
        least = t->size[d] > 1 ? CR_WRAP_MUL(t->stride[d], t->size[d]) : t->stride[d];
    }
    return true;
}

int64_t cr_suggested_format(const cr_tensor *t)
{
    if (t->ndim < 4 || (t->stride[t->ndim - 1] == 1 && t->stride[1] > 1))
        return CR_FORMAT_CONTIGUOUS; /* the channels are not the densest dim */
    if (t->ndim == 4 && ascends_in_order(t, channels_last_order))
        return CR_FORMAT_CHANNELS_LAST;
    if (t->ndim == 5 && ascends_in_order(t, channels_last_3d_order))
        return CR_FORMAT_CHANNELS_LAST_3D;
    return CR_FORMAT_CONTIGUOUS;
}

bool cr_has_format(int64_t format, int ndim, const int64_t *size, const int64_t *stride)
{
    switch (format) {
    case CR_FORMAT_CHANNELS_LAST:
        return ndim == 4 && lies_in_order(4, size, stride, channels_last_order);
    case CR_FORMAT_CHANNELS_LAST_3D:
        return ndim == 5 && lies_in_order(5, size, stride, channels_last_3d_order);
    default: return cr_is_contiguous(ndim, size, stride);
    }
}

bool cr_is_channels_last(const cr_tensor *t)
{
    return cr_has_format(CR_FORMAT_CHANNELS_LAST, t->ndim, t->size, t->stride);
}

/* Sorts the dims of more than one element by stride, the smallest first. */
static int sort_long_dims(int ndim, const int64_t *size, const int64_t *stride, int *order)
{
    int n = 0;

    for (int i = 0; i < ndim; i++) {
        int at = n;
        if (size[i] == 1)
            continue;
        for (; at > 0 && stride[order[at - 1]] > stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
        n++;
    }
    return n;
}

bool cr_is_dense_view(int ndim, const int64_t *size, const int64_t *stride)
{
    int order[CR_MAX_DIMS];
    int64_t step = 1;

    for (int i = 0; i < ndim; i++)
        if (size[i] == 0)
            return true;
    int n = sort_long_dims(ndim, size, stride, order);
    for (int i = 0; i < n; i++) {
        if (stride[order[i]] != step)
            return false;
        step = CR_WRAP_MUL(step, size[order[i]]);
    }
    return true;
}

bool cr_is_dense(const cr_tensor *t)
{
    return t->contiguous || cr_is_dense_view(t->ndim, t->size, t->stride);
}

bool cr_has_internal_overlap(const cr_tensor *t)
{
    if (t->contiguous)
        return false;
    for (int i = 0; i < t->ndim; i++)
        if (t->stride[i] == 0 && t->size[i] > 1)
            return true;
    return false;
}

void cr_print_sizes(cr_text *out, int ndim, const int64_t *size)
{
    cr_text_char(out, '[');
    for (int i = 0; i < ndim; i++)
        cr_text_printf(out, "%s%lld", i ? ", " : "", (long long)size[i]);
    cr_text_char(out, ']');
}

/* --- the bytes of a view --- */
static cr_status refuse_extent(int ndim, const int64_t *size, const int64_t *stride)
{
    return cr_fail(CR_RUNTIME,
                   "Storage size calculation overflowed with sizes=%s and strides=%s",
                   cr_shape_text(ndim, size), cr_shape_text(ndim, stride));
}

static cr_status check_numel(cr_dtype dtype, int ndim, const int64_t *size, bool *empty)
{
    int64_t bytes = (int64_t)cr_dtype_size(dtype);
    bool overflow = false;

    *empty = false;
    for (int i = 0; i < ndim; i++) {
        *empty |= size[i] == 0;
        overflow |= size[i] < 0 || CR_MUL_OVERFLOW(bytes, size[i] ? size[i] : 1, &bytes);
    }
    return overflow ? cr_fail(CR_RUNTIME, "numel: integer multiplication overflow") : CR_OK;
}

cr_status cr_view_bytes(uint64_t *out, cr_dtype dtype, int64_t offset, int ndim,
                        const int64_t *size, const int64_t *stride)
{
    int64_t last = offset, step;
    bool empty, overflow = false;

    if (offset < 0)
        return cr_fail(CR_RUNTIME, "Tensor: invalid storage offset %lld", (long long)offset);
    CR_TRY(check_numel(dtype, ndim, size, &empty));
    for (int i = 0; i < ndim; i++) {
        int64_t steps = size[i] ? size[i] - 1 : 0;
        overflow |= stride[i] < 0 || (!empty && (CR_MUL_OVERFLOW(steps, stride[i], &step) ||
                                                 CR_ADD_OVERFLOW(last, step, &last)));
    }
    if (overflow || CR_ADD_OVERFLOW(last, 1, &last) ||
        CR_MUL_OVERFLOW(last, (int64_t)cr_dtype_size(dtype), &last))
        return refuse_extent(ndim, size, stride);
    *out = empty ? 0 : (uint64_t)last;
    return CR_OK;
}
