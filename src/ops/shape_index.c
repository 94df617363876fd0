/* Shape rules of the indexing operators. */
#include "ops/shape.h"
#include "space/picked.h"
#include "space/shape.h"
#include "space/space.h"
#include <stdio.h>
#include <string.h>

CR_THREAD bool cr_sizes_of_values;

typedef long long ll; /* for printf */

/* Lists of indices and masks. */

static bool has_mask(const cr_value *indices)
{
    for (uint32_t i = 0; i < indices->len; i++)
        if (indices->list[i].tag != CR_NONE && cr_is_mask(indices->list[i].view))
            return true;
    return false;
}

cr_status cr_shape_index(const cr_value *arg, cr_shape *out)
{
    cr_index_plan p;

    CR_TRY(cr_index_plan_make(&p, arg[0].view, &arg[1]));
    cr_sizes_of_values = cr_sizes_of_values || has_mask(&arg[1]);
    *out = p.result;
    return CR_OK;
}

/* torch calls masked_fill_ when the only index is a mask and there is one value. */
static cr_status check_byte_mask(const cr_value *indices, const cr_view *values,
                                 bool accumulate)
{
    const cr_view *mask = NULL;

    for (uint32_t i = 0; i < indices->len; i++) {
        if (indices->list[i].tag != CR_VIEW)
            continue;
        if (mask || indices->list[i].view->dtype != CR_U8)
            return CR_OK;
        mask = indices->list[i].view;
    }
    if (!mask || accumulate || cr_numel(values->ndim, values->size) != 1)
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "masked_fill_ only supports boolean masks, but got mask with dtype %s",
                   cr_dtype_cpp_name(CR_U8));
}

cr_status cr_shape_index_put(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view, *values = arg[2].view;
    cr_index_plan p;

    if (self->dtype != values->dtype)
        return cr_fail(
            CR_RUNTIME,
            "Index put requires the source and destination dtypes match, got %s for the "
            "destination and %s for the source.",
            cr_legacy_name(self), cr_legacy_name(values));
    CR_TRY(check_byte_mask(&arg[1], values, arg[3].i != 0));
    if (arg[3].i && cr_dtype_is_stored((cr_dtype)self->dtype)) /* has no kernel that adds */
        return cr_fail(CR_NOT_IMPLEMENTED, "\"index_put\" not implemented for '%s'",
                       cr_legacy_name(self));
    CR_TRY(cr_index_plan_check(&p, self, &arg[1]));
    if (!p.uncounted) /* else the kernel does */
        CR_TRY(cr_index_plan_takes(&p, values));
    cr_shape_like(out, self);
    return CR_OK;
}

/* Results whose size is the number of true elements. */

static cr_status need_data(const cr_view *v, const char *what)
{
    cr_sizes_of_values = true;
    if (v->data || !cr_numel(v->ndim, v->size))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "%s: the size of the result depends on the values", what);
}

cr_status cr_shape_nonzero(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view;

    CR_TRY(need_data(self, "nonzero"));
    out->ndim = 2;
    out->size[0] = cr_count_trues(self);
    out->size[1] = self->ndim;
    return CR_OK;
}

/* Broadcasts self and mask against each other. */
static cr_status broadcast_pair(cr_shape *out, const cr_view *a, const cr_view *b)
{
    cr_shape_like(out, a);
    if (cr_shape_broadcast(out, b->ndim, b->size))
        return CR_OK;
    for (int i = 1; i <= a->ndim && i <= b->ndim; i++) {
        int64_t x = a->size[a->ndim - i], y = b->size[b->ndim - i];
        int dim = (a->ndim > b->ndim ? a->ndim : b->ndim) - i;
        if (x != y && x != 1 && y != 1)
            return cr_fail(
                CR_RUNTIME,
                "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                "non-singleton dimension %d",
                (ll)x, (ll)y, dim);
    }
    return cr_fail(CR_RUNTIME, "the tensors do not broadcast");
}

cr_status cr_shape_masked_select(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view, *mask = arg[1].view;
    cr_shape wide;

    if (mask->dtype != CR_BOOL)
        return cr_fail(CR_RUNTIME, "masked_select: expected BoolTensor for mask");
    CR_TRY(need_data(mask, "masked_select"));
    CR_TRY(broadcast_pair(&wide, mask, self));
    out->ndim = 1;
    out->size[0] = 0;
    if (cr_numel(wide.ndim, wide.size))
        out->size[0] = cr_count_trues(mask) *
                       (cr_numel(wide.ndim, wide.size) / cr_numel(mask->ndim, mask->size));
    return CR_OK;
}

cr_status cr_shape_masked_scatter(const cr_value *arg, cr_shape *out)
{
    return broadcast_pair(out, arg[1].view, arg[0].view);
}

/* Classes. */

static void largest_in_row(void *best, char *const *at, const int64_t *step, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t x = *(const int64_t *)(const void *)(*at + i * *step);
        *(int64_t *)best = x > *(int64_t *)best ? x : *(int64_t *)best;
    }
}

static int64_t largest(const cr_view *v)
{
    int64_t best = INT64_MIN;
    cr_space s;

    cr_space_of_view(&s, v);
    cr_space_walk(&s, s.ndim, &v->data, 0, cr_space_count(&s, s.ndim), largest_in_row, &best);
    return best;
}

/* (self, num_classes): -1 means the largest number plus one. */
cr_status cr_shape_one_hot(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view;
    int64_t classes = arg[1].i;

    if (classes == -1) {
        CR_TRY(need_data(self, "one_hot"));
        classes = largest(self);
        if (classes < 0)
            return cr_fail(CR_RUNTIME, "Class values must be non-negative.");
        classes = CR_WRAP_ADD(classes, 1);
    } else if (classes < 1) {
        return cr_fail(CR_RUNTIME, "num_classes should be positive");
    }
    cr_shape_like(out, self);
    out->size[out->ndim++] = classes;
    if (classes < 0)
        return cr_fail(CR_RUNTIME, "Trying to create tensor with negative dimension %lld: %s",
                       (long long)classes, cr_shape_text(out->ndim, out->size));
    return CR_OK;
}

/* Counting. */

cr_status cr_shape_bincount(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view;
    int64_t most = -1, step;

    if (arg[2].i < 0)
        return cr_fail(CR_RUNTIME, "minlength should be >= 0");
    if (cr_dtype_category((cr_dtype)self->dtype) != CR_CAT_INT)
        return cr_not_for_type("bincount_cpu", self);
    if (self->ndim != 1)
        return cr_fail(CR_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
    if (arg[1].tag != CR_NONE &&
        (arg[1].view->ndim != 1 || arg[1].view->size[0] != self->size[0]))
        return cr_fail(CR_RUNTIME, "weights should be 1-d and have the same length as input");
    CR_TRY(need_data(self, "bincount"));
    /* a single element's stride is any number */
    step = CR_WRAP_MUL(self->stride[0], cr_dtype_size((cr_dtype)self->dtype));
    for (int64_t i = 0; i < self->size[0]; i++) {
        int64_t x = cr_integer_at(self, self->data + i * step);
        if (x < 0)
            return cr_fail(CR_RUNTIME,
                           "bincount only supports 1-d non-negative integral inputs.");
        most = x > most ? x : most;
    }
    if (most == INT64_MAX)
        return cr_fail(CR_RUNTIME,
                       "maximum value of input overflowed, it should be < %lld but got %lld",
                       (ll)INT64_MAX, (ll)most);
    out->ndim = 1;
    out->size[0] = most + 1 > arg[2].i ? most + 1 : arg[2].i;
    return CR_OK;
}
