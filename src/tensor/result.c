/* Sizes and strides of elementwise results. */
#include "tensor/internal.h"
#include <string.h>

static cr_status join_sizes(cr_shape *out, int ndim, const int64_t *size)
{
    int shift = out->ndim - ndim;

    if (shift < 0) { /* the new one has more dims: make room in front */
        memmove(out->size - shift, out->size, (size_t)out->ndim * sizeof *out->size);
        for (int d = 0; d < -shift; d++)
            out->size[d] = 1;
        out->ndim = ndim;
        shift = 0;
    }
    for (int d = ndim - 1; d >= 0; d--) {
        int64_t *have = &out->size[d + shift];
        if (*have == size[d] || size[d] == 1)
            continue;
        if (*have != 1)
            return cr_fail(CR_RUNTIME,
                           "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                           "non-singleton dimension %d",
                           (long long)*have, (long long)size[d], d + shift);
        *have = size[d];
    }
    return CR_OK;
}

cr_status cr_broadcast(cr_shape *out, const cr_value *v, int n)
{
    out->ndim = 0;
    for (int i = 0; i < n; i++)
        if (v[i].tag == CR_TENSOR)
            CR_TRY(join_sizes(out, v[i].t->ndim, v[i].t->size));
        else if (v[i].tag == CR_TENSORS)
            for (uint32_t k = 0; k < v[i].len; k++)
                if (v[i].list[k].tag == CR_TENSOR)
                    CR_TRY(join_sizes(out, v[i].list[k].t->ndim, v[i].list[k].t->size));
    return CR_OK;
}

static bool same_sizes(const cr_tensor *t, const cr_shape *shape)
{
    return t->ndim == shape->ndim &&
           !memcmp(t->size, shape->size, (size_t)shape->ndim * sizeof *shape->size);
}

/* All operands of the full size share one dense layout: the result takes it over. */
static const cr_tensor *common_layout(const cr_shape *shape, const cr_value *v, int n)
{
    const cr_tensor *first = NULL;

    for (int i = 0; i < n; i++) {
        if (v[i].tag != CR_TENSOR)
            continue;
        const cr_tensor *t = v[i].t;
        if (!same_sizes(t, shape))
            return NULL;
        if (!first && !cr_is_dense(t))
            return NULL;
        if (first && memcmp(first->stride, t->stride, t->ndim * sizeof *t->stride))
            return NULL;
        first = first ? first : t;
    }
    return first;
}

/* Which of two dims is slower in the operands: 1 the first, -1 the second, 0 undecided. */
static int slower(const cr_shape *shape, const cr_value *v, int n, int a, int b)
{
    for (int i = 0; i < n; i++) {
        if (v[i].tag != CR_TENSOR)
            continue;
        const cr_tensor *t = v[i].t;
        int lead = shape->ndim - t->ndim;
        int64_t sa = a < lead || t->size[a - lead] == 1 ? 0 : t->stride[a - lead];
        int64_t sb = b < lead || t->size[b - lead] == 1 ? 0 : t->stride[b - lead];
        if (sa == 0 || sb == 0)
            continue;
        if (sa != sb)
            return sa > sb ? 1 : -1;
        if (shape->size[a] != shape->size[b])
            return shape->size[a] < shape->size[b] ? 1 : -1;
    }
    return 0;
}

/* Dims from slowest to fastest as the operands have them; undecided pairs keep their order. */
static void order_dims(int *order, const cr_shape *shape, const cr_value *v, int n)
{
    for (int d = 0; d < shape->ndim; d++)
        order[d] = d;
    for (int i = 1; i < shape->ndim; i++)
        for (int j = i; j > 0 && slower(shape, v, n, order[j - 1], order[j]) < 0; j--) {
            int t = order[j];
            order[j] = order[j - 1];
            order[j - 1] = t;
        }
}

cr_status cr_result_like(cr_tensor **out, cr_dtype dtype, cr_device_kind device,
                         const cr_shape *shape, const cr_value *v, int n)
{
    int64_t stride[CR_MAX_DIMS], step = 1;
    int order[CR_MAX_DIMS];
    const cr_tensor *like = common_layout(shape, v, n);

    if (like && like->contiguous)
        return cr_tensor_new(out, dtype, device, shape->ndim, shape->size);
    if (like)
        return cr_tensor_new_strided(out, dtype, device, shape->ndim, shape->size, like->stride);
    order_dims(order, shape, v, n);
    for (int i = shape->ndim - 1; i >= 0; i--) {
        stride[order[i]] = step;
        step *= shape->size[order[i]] > 1 ? shape->size[order[i]] : 1;
    }
    return cr_tensor_new_strided(out, dtype, device, shape->ndim, shape->size, stride);
}
