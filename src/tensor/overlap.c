/* Overlap of two views. */
#include "tensor/geometry.h"

void cr_view_extent(const cr_view *v, const char **begin, const char **end)
{
    int64_t item = (int64_t)cr_dtype_size(v->dtype), low = 0, high = 1;

    for (int i = 0; i < v->ndim; i++) {
        if (v->size[i] == 0) {
            *begin = *end = v->data;
            return;
        }
        /* an empty dim may follow, where strides may be any numbers */
        int64_t reach = CR_WRAP_MUL(v->size[i] - 1, v->stride[i]);
        if (reach < 0)
            low = CR_WRAP_ADD(low, reach);
        else
            high = CR_WRAP_ADD(high, reach);
    }
    *begin = v->data + low * item;
    *end = v->data + high * item;
}

static bool same_places(const cr_view *a, const cr_view *b)
{
    if (a->data != b->data || a->ndim != b->ndim ||
        cr_dtype_size(a->dtype) != cr_dtype_size(b->dtype))
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->size[i] != b->size[i] || (a->size[i] != 1 && a->stride[i] != b->stride[i]))
            return false;
    return true;
}

cr_overlap cr_overlap_of(const cr_view *a, const cr_view *b)
{
    const char *a0, *a1, *b0, *b1;

    if (!a->data || !b->data)
        return CR_APART;
    if (same_places(a, b))
        return CR_SAME;
    cr_view_extent(a, &a0, &a1);
    cr_view_extent(b, &b0, &b1);
    if (a0 == a1 || b0 == b1 || a0 >= b1 || b0 >= a1)
        return CR_APART;
    if (!cr_is_dense_view(a->ndim, a->size, a->stride) ||
        !cr_is_dense_view(b->ndim, b->size, b->stride))
        return CR_UNSURE;
    return CR_PARTLY;
}
