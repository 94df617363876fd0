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
    cr_shape wide;

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
    CR_TRY(cr_index_plan_make(&p, self, &arg[1]));
    wide = p.result;
    if (!cr_shape_broadcast(&wide, values->ndim, values->size) || wide.ndim != p.result.ndim ||
        memcmp(wide.size, p.result.size, (size_t)wide.ndim * sizeof *wide.size))
        return cr_fail(
            CR_RUNTIME,
            "shape mismatch: value tensor of shape %s cannot be broadcast to indexing "
            "result of shape %s",
            cr_view_text(values), cr_shape_text(p.result.ndim, p.result.size));
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

/* Gather and scatter. */

static cr_status check_index_dtype(const char *what, const cr_view *index)
{
    if (cr_is_index_type(index) || !cr_numel(index->ndim, index->size))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "%s(): Expected dtype int32/int64 for index", what);
}

static int dims_or_one(const cr_view *v) { return v->ndim ? v->ndim : 1; }

/* A scalar counts as a vector with one element. */
static int64_t size_or_one(const cr_view *v, int d) { return v->ndim ? v->size[d] : 1; }

cr_status cr_shape_gather(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view, *index = arg[2].view;
    int64_t dim;

    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    CR_TRY(check_index_dtype("gather", index));
    cr_shape_like(out, index);
    if (!cr_numel(index->ndim, index->size))
        return CR_OK;
    if (dims_or_one(self) != dims_or_one(index))
        return cr_fail(CR_RUNTIME,
                       "Index tensor must have the same number of dimensions as input tensor");
    for (int d = 0; d < dims_or_one(self); d++)
        if (d != dim && size_or_one(index, d) > size_or_one(self, d))
            return cr_fail(
                CR_RUNTIME,
                "Size does not match at dimension %d expected index %s to be no larger "
                "than self %s apart from dimension %lld",
                d, cr_view_text(index), cr_view_text(self), (ll)dim);
    return CR_OK;
}

/* src is NULL when the source is a number. */
static cr_status check_scatter_sizes(const cr_view *self, const cr_view *index,
                                     const cr_view *src, int64_t dim)
{
    bool bad = false;

    if (dims_or_one(self) != dims_or_one(index))
        return cr_fail(CR_RUNTIME,
                       "Index tensor must have the same number of dimensions as self tensor");
    if (src && dims_or_one(src) != dims_or_one(index))
        return cr_fail(CR_RUNTIME,
                       "Index tensor must have the same number of dimensions as src tensor");
    for (int d = 0; d < dims_or_one(self); d++) {
        bad |= d != dim && size_or_one(index, d) > size_or_one(self, d);
        bad |= src && size_or_one(index, d) > size_or_one(src, d);
    }
    if (bad && src)
        return cr_fail(
            CR_RUNTIME,
            "Expected index %s to be no larger than self %s apart from dimension %lld and "
            "to be no larger size than src %s",
            cr_view_text(index), cr_view_text(self), (ll)dim, cr_view_text(src));
    if (bad)
        return cr_fail(
            CR_RUNTIME,
            "Expected index %s to be no larger than self %s apart from dimension %lld",
            cr_view_text(index), cr_view_text(self), (ll)dim);
    return CR_OK;
}

static cr_status scatter_shape(const cr_value *arg, const cr_view *src, cr_shape *out)
{
    const cr_view *self = arg[0].view, *index = arg[2].view;
    int64_t dim;

    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    CR_TRY(check_index_dtype("scatter", index));
    if (src && src->dtype != self->dtype)
        return cr_fail(CR_RUNTIME, "scatter(): Expected self.dtype to be equal to src.dtype");
    if (cr_numel(index->ndim, index->size))
        CR_TRY(check_scatter_sizes(self, index, src, dim));
    cr_shape_like(out, self);
    return CR_OK;
}

static bool is_text(const cr_value *v, const char *text)
{
    return v->len == strlen(text) && !memcmp(v->s, text, v->len);
}

static cr_status check_old_reduction(const cr_value *reduce)
{
    if (is_text(reduce, "add") || is_text(reduce, "multiply"))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "reduce argument must be either add or multiply.");
}

cr_status cr_shape_scatter(const cr_value *arg, cr_shape *out)
{
    return scatter_shape(arg, arg[3].view, out);
}

cr_status cr_shape_scatter_value(const cr_value *arg, cr_shape *out)
{
    return scatter_shape(arg, NULL, out);
}

cr_status cr_shape_scatter_with(const cr_value *arg, cr_shape *out)
{
    CR_TRY(check_old_reduction(&arg[4]));
    return scatter_shape(arg, arg[3].view, out);
}

cr_status cr_shape_scatter_value_with(const cr_value *arg, cr_shape *out)
{
    CR_TRY(check_old_reduction(&arg[4]));
    return scatter_shape(arg, NULL, out);
}

cr_status cr_shape_scatter_reduce(const cr_value *arg, cr_shape *out)
{
    const cr_value *r = &arg[4];
    bool ordered = is_text(r, "amax") || is_text(r, "amin");
    char name[64] = "scatter_gather_tensor_cpu_reduce_";

    if (!ordered && !is_text(r, "sum") && !is_text(r, "prod") && !is_text(r, "mean"))
        return cr_fail(CR_RUNTIME,
                       "reduce argument must be either sum, prod, mean, amax or amin, got %.*s",
                       (int)r->len, r->s);
    if (ordered && cr_dtype_is_complex((cr_dtype)arg[0].view->dtype)) {
        strncat(name, r->s, r->len);
        return cr_not_for_type(name, arg[0].view);
    }
    return scatter_shape(arg, arg[3].view, out);
}

/* One vector of indices. */

cr_status cr_shape_index_select(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view, *index = arg[2].view;
    int64_t dim;

    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    if (index->ndim > 1)
        return cr_fail(CR_INDEX, "index_select(): Index is supposed to be a vector");
    if (!cr_is_index_type(index))
        return cr_fail(CR_RUNTIME, "index_select(): Expected dtype int32 or int64 for index");
    if (!self->ndim && size_or_one(index, 0) != 1)
        return cr_fail(
            CR_INDEX,
            "index_select(): Index to scalar can have only 1 value, got %lld value(s)",
            (ll)size_or_one(index, 0));
    cr_shape_like(out, self);
    if (self->ndim)
        out->size[dim] = size_or_one(index, 0);
    return CR_OK;
}

/* Checks that the slices of source and self have equal sizes. */
static cr_status check_slices(const cr_view *self, const cr_view *source, int64_t dim)
{
    bool good = self->ndim == source->ndim;

    for (int d = 0; good && d < self->ndim; d++)
        good = d == dim || self->size[d] == source->size[d];
    if (good)
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "source tensor shape must match self tensor shape, excluding the specified "
                   "dimension. Got self.shape = %s source.shape = %s",
                   cr_view_text(self), cr_view_text(source));
}

static cr_status index_accumulate_shape(const char *what, const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view, *index = arg[2].view, *source = arg[3].view;
    int64_t dim, n = cr_numel(index->ndim, index->size);

    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    if (index->ndim > 1)
        return cr_fail(
            CR_INDEX,
            "%s(): Index is supposed to be a vector, but got dim: %d with type: %s and "
            "size: %s",
            what, index->ndim, cr_legacy_name(index), cr_view_text(index));
    if (!cr_is_index_type(index))
        return cr_fail(CR_RUNTIME, "%s(): Expected dtype int32/int64 for index but got: %s",
                       what, cr_legacy_name(index));
    if (self->dtype != source->dtype)
        return cr_fail(CR_RUNTIME,
                       "%s(): self (%s) and source (%s) must have the same scalar type", what,
                       cr_legacy_name(self), cr_legacy_name(source));
    if (dim && dim >= source->ndim)
        return cr_fail(CR_RUNTIME,
                       "%s(): Indexing dim %lld is out of bounds of the source tensor with "
                       "dim %d",
                       what, (ll)dim, source->ndim);
    if (!source->ndim && n > 1)
        return cr_fail(CR_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                       (ll)dim);
    if (n != size_or_one(source, (int)dim))
        return cr_fail(
            CR_RUNTIME,
            "%s(): Number of indices (%lld) should be equal to source.size(dim): (%lld), "
            "for dim: %lld",
            what, (ll)n, (ll)size_or_one(source, (int)dim), (ll)dim);
    CR_TRY(check_slices(self, source, dim));
    cr_shape_like(out, self);
    return CR_OK;
}

cr_status cr_shape_index_add(const cr_value *arg, cr_shape *out)
{
    return index_accumulate_shape("index_add_", arg, out);
}

cr_status cr_shape_index_reduce(const cr_value *arg, cr_shape *out)
{
    const cr_value *r = &arg[4];
    bool ordered = is_text(r, "amax") || is_text(r, "amin");

    if (!ordered && !is_text(r, "prod") && !is_text(r, "mean"))
        return cr_fail(
            CR_RUNTIME,
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            "%.*s.",
            (int)r->len, r->s);
    if (ordered && cr_dtype_is_complex((cr_dtype)arg[0].view->dtype))
        return cr_not_for_type("index_reduce", arg[0].view);
    return index_accumulate_shape("index_reduce_", arg, out);
}

/* Checks that the sizes without dim are equal. */
static cr_status check_copied_slices(const cr_view *self, const cr_view *source, int64_t dim)
{
    int64_t a[CR_MAX_DIMS], b[CR_MAX_DIMS];
    int n = 0, m = 0;

    for (int d = 0; d < self->ndim; d++)
        if (d != dim)
            a[n++] = self->size[d];
    for (int d = 0; d < source->ndim; d++)
        if (d != dim)
            b[m++] = source->size[d];
    if (n == m && !memcmp(a, b, (size_t)n * sizeof *a))
        return CR_OK;
    {
        char left[256];
        strncpy(left, cr_shape_text(n, a) + 1, sizeof left - 1);
        left[strlen(left) - 1] = 0;
        return cr_fail(
            CR_RUNTIME,
            "index_copy_(): Source/destination tensor must have same slice shapes. "
            "Destination slice shape: %s at dimension %lld and source slice shape: %.*s at "
            "dimension 0.",
            left, (ll)dim, (int)strlen(cr_shape_text(m, b)) - 2, cr_shape_text(m, b) + 1);
    }
}

static cr_status check_copy_dims(const cr_view *self, const cr_view *index,
                                 const cr_view *source)
{
    int64_t n = cr_numel(index->ndim, index->size);

    if (index->ndim > 1)
        return cr_fail(CR_INDEX, "index_copy_(): Index should have dimension 1 or 0 (got %d)",
                       index->ndim);
    if (!source->ndim && n != 1)
        return cr_fail(
            CR_INDEX,
            "index_copy_(): When source is scalar, index should have one element (got %lld)",
            (ll)n);
    if (source->ndim != self->ndim && source->ndim && self->ndim)
        return cr_fail(CR_INDEX,
                       "index_copy_(): When source and destination are not scalars, their "
                       "dimensionality must match. Source dimensionality (%d), destination "
                       "dimensionality (%d)",
                       source->ndim, self->ndim);
    return CR_OK;
}

cr_status cr_shape_index_copy(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view, *index = arg[2].view, *source = arg[3].view;
    int64_t dim, n = cr_numel(index->ndim, index->size);

    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    CR_TRY(check_copy_dims(self, index, source));
    if (index->dtype != CR_I64)
        return cr_fail(CR_RUNTIME,
                       "index_copy_(): Expected a long tensor for index, but got %s",
                       cr_legacy_name(index));
    if (self->dtype != source->dtype)
        return cr_fail(
            CR_RUNTIME,
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            "%s and (source) %s",
            cr_legacy_name(self), cr_legacy_name(source));
    CR_TRY(check_copied_slices(self, source, dim));
    if (source->ndim && n != source->size[dim])
        return cr_fail(
            CR_INDEX,
            "index_copy_(): Number of indices (%lld) should be equal to source.size(dim) "
            "(%lld)",
            (ll)n, (ll)source->size[dim]);
    cr_shape_like(out, self);
    return CR_OK;
}

/* Embedding. */

cr_status cr_shape_embedding(const cr_value *arg, cr_shape *out)
{
    const cr_view *weight = arg[0].view, *indices = arg[1].view;

    if (weight->ndim != 2)
        return cr_fail(CR_RUNTIME, "'weight' must be 2-D");
    if (!cr_is_index_type(indices))
        return cr_fail(
            CR_RUNTIME,
            "Expected tensor for argument #1 'indices' to have one of the following scalar "
            "types: Long, Int; but got torch.%sTensor instead (while checking arguments for "
            "embedding)",
            cr_legacy_name(indices));
    cr_shape_like(out, indices);
    out->size[out->ndim++] = weight->size[1];
    return CR_OK;
}

cr_status cr_shape_embedding_backward(const cr_value *arg, cr_shape *out)
{
    const cr_view *grad = arg[0].view, *indices = arg[1].view;

    if (!cr_is_index_type(indices))
        return cr_fail(
            CR_RUNTIME,
            "Expected tensor for argument #2 'indices' to have one of the following scalar "
            "types: Long, Int; but got torch.%sTensor instead (while checking arguments for "
            "embedding_backward)",
            cr_legacy_name(indices));
    if (!cr_dtype_is_inexact((cr_dtype)grad->dtype))
        return cr_not_for_type("embedding_backward", grad);
    if (!grad->ndim ||
        cr_numel(grad->ndim - 1, grad->size) != cr_numel(indices->ndim, indices->size))
        return cr_fail(CR_RUNTIME,
                       "grad_output has sizes %s, expected a row for each index in %s",
                       cr_view_text(grad), cr_view_text(indices));
    out->ndim = 2;
    out->size[0] = arg[2].i;
    out->size[1] = grad->size[grad->ndim - 1];
    return CR_OK;
}

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

static cr_status check_sample_weights(const cr_view *weight, const cr_view *indices,
                                      const cr_view *samples)
{
    if (samples->dtype != weight->dtype)
        return cr_fail(CR_RUNTIME,
                       "Expected tensor for argument #1 'weight' to have the same type as "
                       "tensor for argument #1 "
                       "'per_sample_weights'; but type torch.%sTensor does not equal "
                       "torch.%sTensor (while checking "
                       "arguments for embedding_bag)",
                       cr_legacy_name(weight), cr_legacy_name(samples));
    if (samples->ndim != 1)
        return cr_fail(
            CR_RUNTIME,
            "Expected 1-dimensional tensor, but got %d-dimensional tensor for argument #1 "
            "'per_sample_weights' (while checking arguments for embedding_bag)",
            samples->ndim);
    if (samples->size[0] != cr_numel(indices->ndim, indices->size))
        return cr_fail(CR_RUNTIME, "Expected per_sample_weights.value().numel() == "
                                   "indices.numel() to be true, but got false.  "
                                   "(Could this error message be improved?  If so, please "
                                   "report an enhancement request to "
                                   "PyTorch.)");
    return CR_OK;
}

/* The first result.  The sizes of the others depend on the bags. */
cr_status cr_shape_embedding_bag(const cr_value *arg, cr_shape *out)
{
    const cr_view *weight = arg[0].view, *indices = arg[1].view, *offsets = arg[2].view;
    int64_t bags = offsets->size[0] - (arg[7].i ? 1 : 0);

    if (weight->ndim != 2 || indices->ndim != 1 || offsets->ndim != 1)
        return cr_fail(CR_VALUE,
                       "input has to be a 1D or 2D Tensor, but got Tensor of dimension %d",
                       indices->ndim);
    if (!cr_is_index_type(indices))
        return cr_fail(
            CR_RUNTIME,
            "Expected tensor for argument #1 'indices' to have one of the following scalar "
            "types: Long, Int; but got torch.%sTensor instead (while checking arguments for "
            "embedding_bag)",
            cr_legacy_name(indices));
    if (!cr_is_index_type(offsets))
        return cr_fail(
            CR_RUNTIME,
            "Expected tensor for argument #1 'offsets' to have one of the following scalar "
            "types: Long, Int; but got torch.%sTensor instead (while checking arguments for "
            "embedding_bag)",
            cr_legacy_name(offsets));
    if (arg[7].i && offsets->size[0] < 1)
        return cr_fail(CR_RUNTIME,
                       "include_last_offset: number of offset should be at least 1");
    if (arg[6].tag != CR_NONE && arg[4].i != 0)
        return cr_fail(
            CR_RUNTIME,
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only "
            "supported for mode='sum' (got mode='%s'). Please open a feature request on "
            "GitHub.",
            arg[4].i == 1 ? "mean" : "max");
    if (arg[6].tag != CR_NONE)
        CR_TRY(check_sample_weights(weight, indices, arg[6].view));
    out[0] = (cr_shape){.ndim = 2, .size = {bags, weight->size[1]}};
    out[1] = (cr_shape){.ndim = 1, .size = {indices->size[0]}};
    out[2] = (cr_shape){.ndim = 1, .size = {bags}};
    out[3] = (cr_shape){.ndim = 2, .size = {bags, weight->size[1]}};
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
