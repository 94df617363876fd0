/* Operators that return several tensors: pieces of a dim. */
#include "ops/shape.h"
#include "whole/whole_impl.h"
#include <string.h>

cr_value *cr_list_new(int64_t n)
{
    cr_value *list = NULL;

    if (n > INT32_MAX)
        cr_fail(CR_MEMORY, "not enough memory for %lld tensors", (long long)n);
    else
        list = cr_alloc((size_t)(n ? n : 1) * sizeof *list);
    for (int64_t i = 0; list && i < n; i++)
        list[i] = cr_of_none();
    return list;
}

void cr_list_drop(cr_value *list, uint32_t n)
{
    cr_value v = cr_of_list(list, n);

    if (list)
        cr_drop_values(&v, 1);
}

/* --- pieces --- */

/* A piece of `t` along dim; without the dim when `length` is negative. */
static cr_status piece(cr_value *out, const cr_tensor *t, int64_t dim, int64_t start,
                       int64_t length)
{
    cr_geometry g = {.ndim = 0};
    cr_tensor *made;

    g.offset = CR_WRAP_MUL(start, t->stride[dim]);
    for (int i = 0; i < t->ndim; i++) {
        if (i == dim && length < 0)
            continue;
        g.size[g.ndim] = i == dim ? length : t->size[i];
        g.stride[g.ndim++] = t->stride[i];
    }
    CR_TRY(cr_tensor_view(&made, t, &g));
    *out = cr_of_tensor(made);
    return CR_OK;
}

cr_status cr_do_unbind(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    int64_t dim;

    CR_TRY(cr_wrap_dim(&dim, arg[1].i, t->ndim));
    if (t->ndim == 0)
        return cr_fail(CR_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                       (long long)arg[1].i);
    int64_t n = t->size[dim];
    cr_value *list = cr_list_new(n);
    cr_status st = list ? CR_OK : CR_MEMORY;
    for (int64_t i = 0; !st && i < n; i++)
        st = piece(&list[i], t, dim, i, -1);
    if (st)
        cr_list_drop(list, (uint32_t)n);
    else
        *result = cr_of_list(list, (uint32_t)n);
    return st;
}

/* n pieces: of length[i], or of `step` with a shorter last one. */
static cr_status pieces(cr_value *result, const cr_tensor *t, int64_t dim, int64_t n,
                        const int64_t *length, int64_t step)
{
    cr_value *list = cr_list_new(n);
    cr_status st = list ? CR_OK : CR_MEMORY;
    int64_t start = 0;

    for (int64_t i = 0; !st && i < n; i++) {
        int64_t left = t->size[dim] - start, one = length        ? length[i]
                                                   : step < left ? step
                                                                 : left;
        st = piece(&list[i], t, dim, start, one);
        start += one;
    }
    if (st)
        cr_list_drop(list, (uint32_t)n);
    else
        *result = cr_of_list(list, (uint32_t)n);
    return st;
}

cr_status cr_do_split(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    int64_t dim, step = arg[1].i;

    if (t->ndim == 0)
        return cr_fail(CR_RUNTIME, "split expects at least a 1-dimensional tensor");
    if (step < 0)
        return cr_fail(CR_RUNTIME,
                       "split expects split_size be non-negative, but got "
                       "split_size=%lld",
                       (long long)step);
    CR_TRY(cr_wrap_dim(&dim, arg[2].i, t->ndim));
    if (step == 0 && t->size[dim])
        return cr_fail(CR_RUNTIME,
                       "split_size can only be 0 if dimension size is 0, but got "
                       "dimension size of %lld",
                       (long long)t->size[dim]);
    int64_t n = t->size[dim] ? (t->size[dim] - 1) / step + 1 : 1;
    return pieces(result, t, dim, n, NULL, step);
}

static cr_status refuse_split_negative(const cr_value *sizes)
{
    return cr_fail(CR_RUNTIME,
                   "split_with_sizes expects split_sizes have only non-negative entries, but "
                   "got split_sizes=%s",
                   cr_shape_text(sizes->len, sizes->ints));
}

static cr_status refuse_split_sum(const cr_value *sizes, int64_t size, int64_t dim)
{
    return cr_fail(CR_RUNTIME,
                   "split_with_sizes expects split_sizes to sum exactly to %lld (input "
                   "tensor's size at dimension %lld), but got split_sizes=%s",
                   (long long)size, (long long)dim, cr_shape_text(sizes->len, sizes->ints));
}

cr_status cr_do_split_sizes(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    const cr_value *sizes = &arg[1];
    int64_t dim, sum = 0;
    bool overflow = false;

    if (t->ndim == 0)
        return cr_fail(CR_RUNTIME, "split expects at least a 1-dimensional tensor");
    CR_TRY(cr_wrap_dim(&dim, arg[2].i, t->ndim));
    for (uint32_t i = 0; i < sizes->len; i++) {
        if (sizes->ints[i] < 0)
            return refuse_split_negative(sizes);
        overflow |= CR_ADD_OVERFLOW(sum, sizes->ints[i], &sum);
    }
    if (overflow || sum != t->size[dim])
        return refuse_split_sum(sizes, t->size[dim], dim);
    return pieces(result, t, dim, sizes->len, sizes->ints, 0);
}

/* --- pieces with versions of their own --- */

/* Replaces *piece by a tensor with another storage over the same bytes. */
static cr_status separate(cr_tensor **piece)
{
    cr_tensor *t = *piece, *made;
    cr_storage *own;

    CR_TRY(cr_storage_alias(&own, t->storage));
    cr_status st =
        cr_tensor_over(&made, own, (cr_dtype)t->dtype, t->ndim, t->size, t->stride, t->offset);
    if (st) {
        cr_storage_drop(own);
        return st;
    }
    cr_tensor_set_inference(made, t->inference);
    cr_tensor_set_bits(made, t->conj, t->neg);
    *piece = made;
    cr_drop(t);
    return CR_OK;
}

static cr_status separate_all(cr_status st, cr_value *result)
{
    for (uint32_t i = 0; !st && i < result->len; i++) {
        st = separate(&((cr_value *)result->list)[i].t);
        if (st)
            cr_drop_values(result, 1);
    }
    return st;
}

cr_status cr_do_unsafe_split(const cr_value *arg, cr_value *result)
{
    return separate_all(cr_do_split(arg, result), result);
}

cr_status cr_do_unsafe_split_sizes(const cr_value *arg, cr_value *result)
{
    return separate_all(cr_do_split_sizes(arg, result), result);
}

/* The operators below call the operators above through all stages, so that autograd records
 * these. */

/* n pieces whose lengths differ by at most one, the longer ones first. */
static cr_status split_evenly(const cr_op *by_lengths, cr_value *result, const cr_value *self,
                              int64_t dim, int64_t n, int64_t size)
{
    int64_t *length;

    if (n > INT64_MAX / (int64_t)sizeof *length)
        return cr_fail(CR_RUNTIME, "cannot create std::vector larger than max_size()");
    if (n > INT32_MAX)
        return cr_fail(CR_MEMORY, "not enough memory for %lld tensors", (long long)n);
    length = cr_alloc((size_t)n * sizeof *length);
    CR_NEED(length);
    for (int64_t i = 0; i < n; i++)
        length[i] = size / n + (i < size % n);
    cr_value arg[3] = {*self, cr_of_ints(length, (size_t)n), cr_of_int(dim)};
    cr_status st = cr_call_given(result, by_lengths, arg, 3);
    cr_free(length);
    return st;
}

/* Pieces by an entry that takes their lengths, and one that takes the length of all. */
static cr_status chunk_by(const cr_op *by_lengths, const cr_op *by_one, const cr_value *arg,
                          cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    int64_t n = arg[1].i, dim;

    if (t->ndim == 0)
        return cr_fail(CR_RUNTIME, "chunk expects at least a 1-dimensional tensor");
    if (n <= 0)
        return cr_fail(CR_RUNTIME, "chunk expects `chunks` to be greater than 0, got: %lld",
                       (long long)n);
    CR_TRY(cr_wrap_dim(&dim, arg[2].i, t->ndim));
    if (t->size[dim] == 0)
        return split_evenly(by_lengths, result, &arg[0], dim, n, 0);
    cr_value step = cr_of_int((t->size[dim] - 1) / n + 1);
    return cr_call_given(result, by_one, (cr_value[]){arg[0], step, cr_of_int(dim)}, 3);
}

cr_status cr_do_chunk(const cr_value *arg, cr_value *result)
{
    return chunk_by(cr_entry.split_with_sizes, cr_entry.split_Tensor, arg, result);
}

cr_status cr_do_unsafe_chunk(const cr_value *arg, cr_value *result)
{
    return chunk_by(cr_entry.unsafe_split_with_sizes, cr_entry.unsafe_split_Tensor, arg,
                    result);
}
