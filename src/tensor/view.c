/* Views as maps from geometry to geometry. */
#include "base/integer.h"
#include "space/space.h"
#include "tensor/entries.h"
#include "tensor/geometry.h"
#include <string.h>

static void copy_geometry(const cr_view *self, cr_geometry *out)
{
    out->ndim = self->ndim;
    out->offset = 0;
    for (int i = 0; i < self->ndim; i++) {
        out->size[i] = self->size[i];
        out->stride[i] = self->stride[i];
    }
}

static void append_dim(cr_geometry *out, int64_t size, int64_t stride)
{
    out->size[out->ndim] = size;
    out->stride[out->ndim++] = stride;
}

static cr_status check_list_rank(const cr_value *list)
{
    if (list->len <= CR_MAX_DIMS)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions, not %u", CR_MAX_DIMS,
                   list->len);
}

cr_status cr_map_alias(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    (void)arg;
    copy_geometry(self, out);
    return CR_OK;
}

/* --- other sizes for the same elements --- */

static cr_status refuse_shape(const cr_value *list, int64_t numel)
{
    return cr_fail(CR_RUNTIME, "shape '%s' is invalid for input of size %lld",
                   cr_shape_text(list->len, list->ints), (long long)numel);
}

static cr_status refuse_negative_size(const cr_value *list, uint32_t at)
{
    return cr_fail(CR_RUNTIME, "invalid shape dimension %lld at index %u of shape %s",
                   (long long)list->ints[at], at, cr_shape_text(list->len, list->ints));
}

cr_status cr_infer_sizes(int64_t *out, const cr_value *list, int64_t numel)
{
    int64_t known = 1;
    int open = -1;
    bool overflow = false;

    CR_TRY(check_list_rank(list));
    for (uint32_t i = 0; i < list->len; i++) {
        out[i] = list->ints[i];
        if (out[i] == -1 && open >= 0)
            return cr_fail(CR_RUNTIME, "only one dimension can be inferred");
        if (out[i] < -1)
            return refuse_negative_size(list, i);
        if (out[i] == -1)
            open = (int)i;
        else
            overflow |= CR_MUL_OVERFLOW(known, out[i], &known);
    }
    if (open >= 0 && known == 0 && numel == 0)
        return cr_fail(CR_RUNTIME,
                       "cannot reshape tensor of 0 elements into shape %s because the "
                       "unspecified dimension size -1 can be any value and is ambiguous",
                       cr_shape_text(list->len, list->ints));
    if (overflow || (open < 0 ? known != numel : known <= 0 || numel % known))
        return refuse_shape(list, numel);
    if (open >= 0)
        out[open] = numel / known;
    return CR_OK;
}

static bool view_of_nothing(const cr_view *v, int ndim, const int64_t *size, int64_t *stride)
{
    if (ndim == v->ndim && !memcmp(size, v->size, (size_t)ndim * sizeof *size))
        memcpy(stride, v->stride, (size_t)ndim * sizeof *stride);
    else
        cr_row_major_strides(stride, ndim, size);
    return true;
}

bool cr_view_strides(const cr_view *v, int ndim, const int64_t *size, int64_t *stride)
{
    return cr_numel(v->ndim, v->size)
               ? cr_strides_for_sizes(stride, ndim, size, v->ndim, v->size, v->stride)
               : view_of_nothing(v, ndim, size, stride);
}

static cr_status view_as(const cr_view *self, cr_geometry *out)
{
    out->offset = 0;
    if (cr_view_strides(self, out->ndim, out->size, out->stride))
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "view size is not compatible with input tensor's size and stride "
                   "(at least one dimension spans across two contiguous subspaces). Use "
                   ".reshape(...) instead.");
}

cr_status cr_map_view(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    CR_TRY(cr_infer_sizes(out->size, &arg[1], arg[0].t->numel));
    out->ndim = (int)arg[1].len;
    return view_as(self, out);
}

static cr_status refuse_unflatten(const cr_value *list, int64_t dim, int64_t size)
{
    return cr_fail(CR_RUNTIME,
                   "unflatten: Provided sizes %s don't multiply up to the size of dim %lld "
                   "(%lld) in the input tensor",
                   cr_shape_text(list->len, list->ints), (long long)dim, (long long)size);
}

static cr_status infer_unflatten(int64_t *out, const cr_value *list, int64_t dim, int64_t size)
{
    int64_t known = 1;
    int open = -1;

    for (uint32_t i = 0; i < list->len; i++) {
        out[i] = list->ints[i];
        if (out[i] == -1 && open >= 0)
            return cr_fail(CR_RUNTIME, "unflatten got an unexpected error:\n"
                                       "only one dimension can be inferred");
        if (out[i] < -1)
            return refuse_negative_size(list, i);
        if (out[i] == -1)
            open = (int)i;
        else if (CR_MUL_OVERFLOW(known, out[i], &known))
            return refuse_unflatten(list, dim, size);
    }
    if (open < 0 ? known != size : known == 0 || size % known)
        return refuse_unflatten(list, dim, size);
    if (open >= 0)
        out[open] = size / known;
    return CR_OK;
}

cr_status cr_map_unflatten(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    const cr_value *list = &arg[2];
    int64_t dim, inner;

    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    if (list->len == 0)
        return cr_fail(CR_RUNTIME, "unflatten: sizes must be non-empty");
    if (self->ndim + list->len > CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions", CR_MAX_DIMS);
    if (self->ndim == 0)
        return cr_fail(CR_RUNTIME, "unflatten() cannot be applied to a 0-dim tensor.");
    copy_geometry(self, out);
    CR_TRY(infer_unflatten(out->size + dim, list, dim, self->size[dim]));
    inner = self->stride[dim];
    for (int64_t i = dim + list->len - 1; i >= dim; i--) {
        out->stride[i] = inner;
        inner = CR_WRAP_MUL(inner, out->size[i] > 1 ? out->size[i] : 1);
    }
    out->ndim = self->ndim + (int)list->len - 1;
    for (int64_t i = dim + 1; i < self->ndim; i++) {
        out->size[i + list->len - 1] = self->size[i];
        out->stride[i + list->len - 1] = self->stride[i];
    }
    return CR_OK;
}

/* --- repeated dims --- */

static cr_status refuse_expand(const cr_value *list, const cr_view *self, int dim)
{
    return cr_fail(CR_RUNTIME,
                   "The expanded size of the tensor (%lld) must match the existing size (%lld) "
                   "at non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
                   (long long)list->ints[dim],
                   (long long)self->size[dim - ((int)list->len - self->ndim)], dim,
                   cr_shape_text(list->len, list->ints), cr_view_text(self));
}

static cr_status refuse_fewer(const cr_value *arg, const cr_view *self)
{
    return cr_fail(CR_RUNTIME,
                   "expand(%s{%s}, size=%s): the number of sizes provided (%u) must be greater "
                   "or equal to the number of dimensions in the tensor (%d)",
                   cr_tensor_type_name(arg[0].t), cr_view_text(self),
                   cr_shape_text(arg[1].len, arg[1].ints), arg[1].len, self->ndim);
}

/* torch's stride of a new leading dim: the stride of the next dim times its size. */
static cr_status expand_new(const cr_value *list, int dim, cr_geometry *out)
{
    if (list->ints[dim] < 0)
        return cr_fail(CR_RUNTIME,
                       "The expanded size of the tensor (%lld) isn't allowed in a "
                       "leading, non-existing dimension %d",
                       (long long)list->ints[dim], dim);
    out->size[dim] = list->ints[dim];
    out->stride[dim] = 0;
    if (list->ints[dim] == 1)
        out->stride[dim] =
            dim == out->ndim - 1 ? 1 : CR_WRAP_MUL(out->size[dim + 1], out->stride[dim + 1]);
    return CR_OK;
}

cr_status cr_map_expand(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    const cr_value *list = &arg[1];
    int new = (int)list->len - self->ndim;

    CR_TRY(check_list_rank(list));
    if (new < 0)
        return refuse_fewer(arg, self);
    out->ndim = (int)list->len;
    out->offset = 0;
    for (int i = out->ndim - 1; i >= new; i--) {
        int64_t size = self->size[i - new], want = list->ints[i];
        bool keep = want == -1 || want == size;
        if (!keep && size != 1)
            return refuse_expand(list, self, i);
        if (!keep && want < 0)
            return refuse_expand(list, self, i);
        out->size[i] = keep ? size : want;
        out->stride[i] = keep ? self->stride[i - new] : 0;
    }
    for (int i = new - 1; i >= 0; i--)
        CR_TRY(expand_new(list, i, out));
    return CR_OK;
}

/* --- as_strided --- */

static cr_status refuse_bounds(const cr_value *arg, int64_t offset, int64_t need)
{
    const cr_tensor *t = arg[0].t;

    return cr_fail(
        CR_RUNTIME,
        "setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %zu requiring a "
        "storage size of %lld are out of bounds for storage of size %zu",
        cr_shape_text(arg[1].len, arg[1].ints), cr_shape_text(arg[2].len, arg[2].ints),
        (long long)offset, cr_dtype_size(t->dtype), (long long)need, t->storage->size);
}

static cr_status refuse_strided(const cr_value *arg)
{
    return cr_fail(
        CR_RUNTIME, "Storage size calculation overflowed with sizes=%s and strides=%s",
        cr_shape_text(arg[1].len, arg[1].ints), cr_shape_text(arg[2].len, arg[2].ints));
}

static cr_status check_strides(const cr_value *arg, int64_t offset)
{
    for (uint32_t i = 0; i < arg[2].len; i++)
        if (arg[2].ints[i] < 0)
            return cr_fail(
                CR_RUNTIME,
                "as_strided: Negative strides are not supported at the moment, got strides: %s",
                cr_shape_text(arg[2].len, arg[2].ints));
    for (uint32_t i = 0; i < arg[1].len; i++)
        if (arg[1].ints[i] < 0)
            return refuse_strided(arg);
    if (offset < 0)
        return cr_fail(CR_RUNTIME, "Tensor: invalid storage offset %lld", (long long)offset);
    return CR_OK;
}

static cr_status check_storage_bounds(const cr_value *arg, int64_t offset)
{
    int64_t last = offset, reach, need;

    for (uint32_t i = 0; i < arg[1].len; i++)
        if (arg[1].ints[i] == 0)
            return CR_OK;
    for (uint32_t i = 0; i < arg[1].len; i++) {
        if (CR_MUL_OVERFLOW(arg[1].ints[i] - 1, arg[2].ints[i], &reach) ||
            CR_ADD_OVERFLOW(last, reach, &last))
            return refuse_strided(arg);
    }
    if (CR_ADD_OVERFLOW(last, 1, &last) ||
        CR_MUL_OVERFLOW(last, (int64_t)cr_dtype_size(arg[0].t->dtype), &need))
        return refuse_strided(arg);
    return need > (int64_t)arg[0].t->storage->size ? refuse_bounds(arg, offset, need) : CR_OK;
}

cr_status cr_map_as_strided(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    int64_t here = arg[0].t->offset, offset = arg[3].tag == CR_NONE ? here : arg[3].i;

    (void)self;
    CR_TRY(check_list_rank(&arg[1]));
    if (arg[1].len != arg[2].len)
        return cr_fail(CR_RUNTIME, "mismatch in length of strides and shape");
    CR_TRY(check_strides(arg, offset));
    CR_TRY(check_storage_bounds(arg, offset));
    out->ndim = 0;
    out->offset = offset - here;
    for (uint32_t i = 0; i < arg[1].len; i++)
        append_dim(out, arg[1].ints[i], arg[2].ints[i]);
    return CR_OK;
}

/* --- the order of dims --- */

static void exchange(cr_geometry *g, int64_t a, int64_t b)
{
    int64_t size = g->size[a], stride = g->stride[a];

    g->size[a] = g->size[b];
    g->stride[a] = g->stride[b];
    g->size[b] = size;
    g->stride[b] = stride;
}

cr_status cr_map_transpose(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    int64_t a, b;

    CR_TRY(cr_wrap_dim(&a, arg[1].i, self->ndim));
    CR_TRY(cr_wrap_dim(&b, arg[2].i, self->ndim));
    copy_geometry(self, out);
    if (self->ndim)
        exchange(out, a, b);
    return CR_OK;
}

cr_status cr_map_t(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    (void)arg;
    if (self->ndim > 2)
        return cr_fail(CR_RUNTIME, "t() expects a tensor with <= 2 dimensions, but self is %dD",
                       self->ndim);
    copy_geometry(self, out);
    if (self->ndim == 2)
        exchange(out, 0, 1);
    return CR_OK;
}

cr_status cr_map_reverse(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    (void)arg;
    copy_geometry(self, out);
    for (int i = 0; i < self->ndim / 2; i++)
        exchange(out, i, self->ndim - 1 - i);
    return CR_OK;
}

cr_status cr_map_mT(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    (void)arg;
    if (self->ndim == 1)
        return cr_fail(CR_RUNTIME, "tensor.mT is only supported on matrices or batches of "
                                   "matrices. Got 1-D tensor.");
    copy_geometry(self, out);
    if (self->ndim)
        exchange(out, self->ndim - 2, self->ndim - 1);
    return CR_OK;
}

/* Wraps and checks a permutation of `ndim` dims. */
static cr_status take_order(int64_t *order, const cr_value *dims, int ndim)
{
    uint64_t seen = 0;

    if ((int)dims->len != ndim)
        return cr_fail(CR_RUNTIME,
                       "permute(sparse_coo): number of dimensions in the tensor input "
                       "does not match the length of the desired ordering of dimensions i.e. "
                       "input.dim() = %d is not equal to len(dims) = %u",
                       ndim, dims->len);
    for (uint32_t i = 0; i < dims->len; i++) {
        CR_TRY(cr_wrap_dim(&order[i], dims->ints[i], ndim));
        if (seen >> order[i] & 1)
            return cr_fail(CR_RUNTIME, "permute(): duplicate dims are not allowed.");
        seen |= (uint64_t)1 << order[i];
    }
    return CR_OK;
}

static void permute_geometry(const cr_view *self, const int64_t *order, cr_geometry *out)
{
    out->ndim = 0;
    out->offset = 0;
    for (int i = 0; i < self->ndim; i++)
        append_dim(out, self->size[order[i]], self->stride[order[i]]);
}

cr_status cr_map_permute(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    int64_t order[CR_MAX_DIMS];

    CR_TRY(take_order(order, &arg[1], self->ndim));
    permute_geometry(self, order, out);
    return CR_OK;
}

cr_status cr_map_permute_back(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    int64_t order[CR_MAX_DIMS], back[CR_MAX_DIMS];

    CR_TRY(take_order(order, &arg[1], self->ndim));
    for (int i = 0; i < self->ndim; i++)
        back[order[i]] = i;
    permute_geometry(self, back, out);
    return CR_OK;
}

/* An int as a list of one. */
static cr_value as_list(const cr_value *v)
{
    return v->tag == CR_INTS ? *v : cr_of_ints(&v->i, 1);
}

static cr_status refuse_move(const cr_value *source, const cr_value *destination)
{
    return cr_fail(
        CR_RUNTIME,
        "movedim: Invalid source or destination dims: source (%s dims) should contain the same "
        "number of dims as destination (%s dims)",
        cr_shape_text(source->len, source->ints),
        cr_shape_text(destination->len, destination->ints));
}

static cr_status take_moved(int64_t *out, uint64_t *seen, const cr_value *list, int ndim,
                            const char *name)
{
    *seen = 0;
    for (uint32_t i = 0; i < list->len; i++) {
        CR_TRY(cr_wrap_dim(&out[i], list->ints[i], ndim));
        if (*seen >> out[i] & 1)
            return cr_fail(CR_RUNTIME, "movedim: repeated dim in `%s` (%s)", name,
                           cr_shape_text(list->len, list->ints));
        *seen |= (uint64_t)1 << out[i];
    }
    return CR_OK;
}

cr_status cr_map_movedim(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    cr_value source = as_list(&arg[1]), destination = as_list(&arg[2]);
    int64_t from[CR_MAX_DIMS], to[CR_MAX_DIMS], order[CR_MAX_DIMS];
    uint64_t taken, placed;

    if (source.len != destination.len)
        return refuse_move(&source, &destination);
    if (source.len > CR_MAX_DIMS)
        return check_list_rank(&source);
    CR_TRY(take_moved(from, &taken, &source, self->ndim, "source"));
    CR_TRY(take_moved(to, &placed, &destination, self->ndim, "destination"));
    for (uint32_t i = 0; i < source.len; i++)
        order[to[i]] = from[i];
    for (int place = 0, dim = 0; place < self->ndim; place++) {
        if (placed >> place & 1)
            continue;
        while (taken >> dim & 1)
            dim++;
        order[place] = dim++;
    }
    permute_geometry(self, order, out);
    return CR_OK;
}

/* --- parts of a dim --- */

static CR_NOINLINE cr_status refuse_index(int64_t index, const cr_view *self, int64_t dim)
{
    return cr_fail(CR_INDEX,
                   "select(): index %lld out of range for tensor of size %s at dimension %lld",
                   (long long)index, cr_view_text(self), (long long)dim);
}

cr_status cr_map_select(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    int64_t dim, index = arg[2].i;

    if (CR_UNLIKELY(self->ndim == 0))
        return cr_fail(CR_INDEX, "select() cannot be applied to a 0-dim tensor.");
    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    if (CR_UNLIKELY(index < -self->size[dim] || index >= self->size[dim]))
        return refuse_index(index, self, dim);
    out->ndim = 0;
    out->offset = CR_WRAP_MUL(index < 0 ? index + self->size[dim] : index, self->stride[dim]);
    for (int i = 0; i < self->ndim; i++)
        if (i != dim)
            append_dim(out, self->size[i], self->stride[i]);
    return CR_OK;
}

static int64_t clamp_index(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

cr_status cr_map_slice(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    int64_t dim, step = arg[4].i, size;

    if (CR_UNLIKELY(self->ndim == 0))
        return cr_fail(CR_INDEX, "slice() cannot be applied to a 0-dim tensor.");
    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    if (CR_UNLIKELY(step <= 0))
        return cr_fail(CR_RUNTIME, "slice step must be positive");
    size = self->size[dim];
    int64_t start = arg[2].tag == CR_NONE ? 0 : arg[2].i;
    int64_t end = arg[3].tag == CR_NONE ? size : arg[3].i;
    start = clamp_index(start < 0 ? start + size : start, 0, size);
    end = clamp_index(end < 0 ? end + size : end, start, size);
    copy_geometry(self, out);
    out->size[dim] = (end - start) / step + ((end - start) % step != 0);
    out->stride[dim] = CR_WRAP_MUL(out->stride[dim], step);
    out->offset = CR_WRAP_MUL(start, self->stride[dim]);
    return CR_OK;
}

cr_status cr_map_narrow(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    int64_t dim, start = arg[2].i, length = arg[3].i, size;

    if (self->ndim == 0)
        return cr_fail(CR_RUNTIME, "narrow() cannot be applied to a 0-dim tensor.");
    if (length < 0)
        return cr_fail(CR_RUNTIME, "narrow(): length must be non-negative.");
    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    size = self->size[dim];
    if (start < -size || start > size)
        return cr_fail(CR_INDEX,
                       "start out of range (expected to be in range of [%lld, %lld], but "
                       "got %lld)",
                       (long long)-size, (long long)size, (long long)start);
    start = start < 0 ? start + size : start;
    if (start > size - length)
        return cr_fail(CR_RUNTIME,
                       "start (%lld) + length (%lld) exceeds dimension size (%lld).",
                       (long long)start, (long long)length, (long long)size);
    copy_geometry(self, out);
    out->size[dim] = length;
    out->offset = CR_WRAP_MUL(start, self->stride[dim]);
    return CR_OK;
}

/* --- dims of size 1 --- */

cr_status cr_map_unsqueeze(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    int64_t dim;

    if (self->ndim == CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions", CR_MAX_DIMS);
    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim + 1));
    out->ndim = 0;
    out->offset = 0;
    for (int i = 0; i < dim; i++)
        append_dim(out, self->size[i], self->stride[i]);
    append_dim(out, 1, dim < self->ndim ? CR_WRAP_MUL(self->size[dim], self->stride[dim]) : 1);
    for (int64_t i = dim; i < self->ndim; i++)
        append_dim(out, self->size[i], self->stride[i]);
    return CR_OK;
}

static void squeeze(const cr_view *self, uint64_t dims, cr_geometry *out)
{
    out->ndim = 0;
    out->offset = 0;
    for (int i = 0; i < self->ndim; i++)
        if (self->size[i] != 1 || !(dims >> i & 1))
            append_dim(out, self->size[i], self->stride[i]);
}

cr_status cr_map_squeeze(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    (void)arg;
    squeeze(self, ~(uint64_t)0, out);
    return CR_OK;
}

cr_status cr_map_squeeze_dims(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    cr_value list = as_list(&arg[1]);
    uint64_t dims = 0;

    for (uint32_t i = 0; i < list.len; i++) {
        int64_t dim;
        CR_TRY(cr_wrap_dim(&dim, list.ints[i], self->ndim));
        if (dims >> dim & 1)
            return cr_fail(CR_RUNTIME, "dim %lld appears multiple times in the list of dims",
                           (long long)dim);
        dims |= (uint64_t)1 << dim;
    }
    squeeze(self, dims, out);
    return CR_OK;
}

/* --- diagonals and windows --- */

cr_status cr_map_diagonal(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    int64_t offset = arg[1].i, a, b, length;

    CR_TRY(cr_wrap_dim(&a, arg[2].i, self->ndim));
    CR_TRY(cr_wrap_dim(&b, arg[3].i, self->ndim));
    if (a == b)
        return cr_fail(CR_RUNTIME, "diagonal dimensions cannot be identical %lld, %lld",
                       (long long)arg[2].i, (long long)arg[3].i);
    length = offset >= 0 ? cr_least(self->size[a], self->size[b] - offset)
                         : cr_least(self->size[a] + offset, self->size[b]);
    out->ndim = 0;
    out->offset = 0;
    if (length <= 0)
        length = 0;
    else
        out->offset = offset >= 0 ? CR_WRAP_MUL(offset, self->stride[b])
                                  : CR_WRAP_MUL(-offset, self->stride[a]);
    for (int i = 0; i < self->ndim; i++)
        if (i != a && i != b)
            append_dim(out, self->size[i], self->stride[i]);
    append_dim(out, length, (int64_t)((uint64_t)self->stride[a] + (uint64_t)self->stride[b]));
    return CR_OK;
}

cr_status cr_map_unfold(const cr_value *arg, const cr_view *self, cr_geometry *out)
{
    int64_t dim, size = arg[2].i, step = arg[3].i, most;

    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    most = self->ndim ? self->size[dim] : 1;
    if (size < 0)
        return cr_fail(CR_RUNTIME, "size is %lld but must be >= 0", (long long)size);
    if (size > most)
        return cr_fail(CR_RUNTIME,
                       "maximum size for tensor at dimension %lld is %lld but size is "
                       "%lld",
                       (long long)dim, (long long)most, (long long)size);
    if (step <= 0)
        return cr_fail(CR_RUNTIME, "step is %lld but must be > 0", (long long)step);
    if (self->ndim == CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions", CR_MAX_DIMS);
    copy_geometry(self, out);
    if (self->ndim) {
        out->size[dim] = (most - size) / step + 1;
        out->stride[dim] = CR_WRAP_MUL(out->stride[dim], step);
    }
    append_dim(out, size, self->ndim ? self->stride[dim] : 1);
    return CR_OK;
}
