/* Sparse tensors: construction from parts, and what writes or merges them. */
#include "whole/sparse_impl.h"
#include <string.h>

/* --- construction of COO tensors --- */

/* CR_RUNTIME in torch's words unless `t` is a COO tensor. */
static cr_status expect_coo(const char *name, const cr_tensor *t)
{
    if (cr_is_coo(t))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "%s expected sparse coordinate tensor layout but got %s", name,
                   cr_layout_text(t->layout));
}

cr_status cr_expect_value_sizes(const cr_tensor *values, int dims, const int64_t *size)
{
    int64_t expected[CR_MAX_DIMS + 1] = {values->size[0]};

    memcpy(expected + 1, size, (size_t)dims * sizeof *size);
    if (cr_has_sizes(values, dims + 1, expected))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "values has incorrect size, expected %s, got %s",
                   cr_shape_text(dims + 1, expected), cr_view_text(values));
}

/* Row r of the indices. */
static cr_tensor *row_of(cr_steps *s, cr_tensor *indices, int64_t r)
{
    return CR_STEP(s, select_int, T(indices), I(0), I(r));
}

cr_status cr_steps_give_sparse(cr_steps *s, cr_value *result, int layout, int ndim,
                               const int64_t *size, const cr_sparse *parts)
{
    cr_tensor *made = NULL;

    if (!s->st)
        cr_step_fail(s, cr_sparse_new(&made, (cr_layout_kind)layout, ndim, size, parts));
    return cr_steps_give(s, result, s->st ? NULL : cr_step_own(s, made));
}

static cr_status refuse_nnz(int64_t n, int64_t values)
{
    return cr_fail(CR_RUNTIME,
                   "indices and values must have same nnz, but got nnz from indices: %lld, nnz "
                   "from values: %lld",
                   (long long)n, (long long)values);
}

static cr_status check_parts(const cr_tensor *indices, const cr_tensor *values, int64_t ndim)
{
    int64_t sparse = indices->ndim ? indices->size[0] : 0, dense = values->ndim - 1;
    if (ndim >= 0 && ndim != sparse + dense)
        return cr_fail(CR_RUNTIME,
                       "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
                       "%lld, sparse_dim = %lld, dense_dim = %lld",
                       (long long)ndim, (long long)sparse, (long long)dense);
    if (indices->ndim != 2)
        return cr_fail(CR_RUNTIME, "indices must be sparse_dim x nnz, but got: %s",
                       cr_view_text(indices));
    if (indices->size[1] != values->size[0])
        return refuse_nnz(indices->size[1], values->size[0]);
    if (sparse + dense > CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions, not %lld", CR_MAX_DIMS,
                       (long long)(sparse + dense));
    if (!cr_same_device(indices->device, values->device))
        return cr_fail(CR_RUNTIME, "indices and values must be on same device");
    return CR_OK;
}

/* The least and the largest index of a dim; false for a tensor without values or bytes. */
static bool index_range(cr_steps *s, cr_tensor *row, int64_t *low, int64_t *high)
{
    cr_scalar a, b;

    if (s->st || !row->numel || !cr_has_bytes(row->device))
        return false;
    cr_tensor *least = CR_STEP(s, amin, T(row)), *most = CR_STEP(s, amax, T(row));
    if (s->st)
        return false;
    cr_step_fail(s, cr_tensor_item(&a, least));
    cr_step_fail(s, cr_tensor_item(&b, most));
    if (s->st)
        return false;
    *low = a.i;
    *high = b.i;
    return true;
}

static cr_status refuse_negative(int64_t index, int64_t dim)
{
    return cr_fail(CR_RUNTIME, "found negative index %lld for dim %lld", (long long)index,
                   (long long)dim);
}

/* The smallest sizes that have all indices, then those of the values. */
static void infer_sizes(cr_steps *s, cr_tensor *indices, const cr_tensor *values, int64_t *size)
{
    int64_t low, high;

    for (int64_t d = 0; d < indices->size[0]; d++) {
        size[d] = 0;
        if (!index_range(s, row_of(s, indices, d), &low, &high))
            continue;
        if (low < 0)
            cr_step_fail(s, refuse_negative(low, d));
        if (CR_ADD_OVERFLOW(high, 1, &size[d]))
            cr_step_fail(s,
                         cr_fail(CR_RUNTIME, "found index %lld for dim %lld, which no size has",
                                 (long long)high, (long long)d));
    }
    for (int i = 1; i < values->ndim; i++)
        size[indices->size[0] + i - 1] = values->size[i];
}

static void check_indices(cr_steps *s, cr_tensor *indices, const int64_t *size)
{
    int64_t low, high;

    for (int64_t d = 0; !s->st && d < indices->size[0]; d++) {
        if (!index_range(s, row_of(s, indices, d), &low, &high))
            continue;
        if (low < 0)
            cr_step_fail(s, refuse_negative(low, d));
        else if (high >= size[d])
            cr_step_fail(s, cr_fail(CR_RUNTIME,
                                    "size is inconsistent with indices: for dim %lld, size is "
                                    "%lld but found index %lld",
                                    (long long)d, (long long)size[d], (long long)high));
    }
}

static void check_sizes(cr_steps *s, int ndim, const int64_t *size)
{
    for (int i = 0; i < ndim; i++)
        if (size[i] < 0 && !s->st)
            cr_step_fail(s, cr_fail(CR_RUNTIME, "numel: integer multiplication overflow"));
}

static void check_coalesced(cr_steps *s, cr_tensor *indices, const int64_t *size)
{
    cr_tensor *flat =
        CR_STEP(s, _sparse_flat, T(indices), cr_of_ints(size, (size_t)indices->size[0]));
    cr_value increases = cr_of_bool(true);

    if (!s->st && cr_has_bytes(flat->device))
        cr_step_fail(
            s, cr_call_given(&increases, cr_entry._sparse_increases, (cr_value[]){T(flat)}, 1));
    if (!s->st && !increases.i)
        cr_step_fail(s, cr_fail(CR_RUNTIME, "cannot set is_coalesced to true if indices "
                                            "correspond to uncoalesced COO tensor"));
}

static cr_status check_dense(const char *name, const cr_tensor *part)
{
    if (!cr_is_sparse(part))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "expected %s to be a dense tensor, but got %s of layout %s",
                   name, name, cr_layout_text(part->layout));
}

/* A value without dims is a tensor of one value. */
static cr_tensor *listed_values(cr_steps *s, cr_tensor *values)
{
    return values->ndim ? values : CR_STEP(s, unsqueeze, T(values), I(0));
}

/* indices, values, size, is_coalesced, check */
cr_status cr_do_sparse_coo(const cr_value *arg, cr_value *result)
{
    cr_steps s = {0};
    cr_tensor *values, *indices = arg[0].t;
    int64_t inferred[CR_MAX_DIMS];
    const int64_t *size = arg[2].tag == CR_NONE ? inferred : arg[2].ints;
    bool coalesced = cr_int_or(&arg[3], 0);

    CR_TRY(check_dense("indices", arg[0].t));
    CR_TRY(check_dense("values", arg[1].t));
    values = listed_values(&s, arg[1].t);
    if (!s.st)
        cr_step_fail(
            &s, check_parts(indices, values, arg[2].tag == CR_NONE ? -1 : (int64_t)arg[2].len));
    indices = CR_STEP(&s, to_dtype, T(indices), cr_of_dtype(CR_I64));
    if (!s.st && size == inferred)
        infer_sizes(&s, indices, values, inferred);
    if (!s.st)
        check_sizes(&s, (int)indices->size[0] + values->ndim - 1, size);
    if (!s.st && arg[4].i)
        check_indices(&s, indices, size);
    if (!s.st)
        cr_step_fail(&s,
                     cr_expect_value_sizes(values, values->ndim - 1, size + indices->size[0]));
    if (!s.st && arg[4].i && coalesced)
        check_coalesced(&s, indices, size);
    if (s.st)
        return cr_steps_end(&s, &values, NULL);
    cr_sparse parts = {.indices = indices, .values = values, .coalesced = coalesced};
    return cr_steps_give_sparse(&s, result, CR_LAYOUT_COO,
                                (int)indices->size[0] + values->ndim - 1, size, &parts);
}

cr_status cr_do_set_coalesced(const cr_value *arg, cr_value *result)
{
    CR_TRY(expect_coo("_coalesced_", arg[0].t));
    cr_sparse_of(arg[0].t)->coalesced = arg[1].i;
    return cr_give_changed(result, arg[0].t);
}

/* --- writes --- */

/* self, src: src is the result of an operation on self. */
cr_status cr_do_sparse_become(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t, *src = arg[1].t, *dense = NULL;
    cr_value copied;
    cr_status st;

    if (!cr_can_cast((cr_dtype)src->dtype, (cr_dtype)self->dtype))
        return cr_fail(CR_RUNTIME, "result type %s can't be cast to the desired output type %s",
                       cr_dtype_infos[src->dtype].legacy, cr_dtype_infos[self->dtype].legacy);
    if (cr_is_sparse(self) && self->layout == src->layout) {
        CR_TRY(cr_call_given(&copied, cr_entry._sparse_to_dtype,
                             (cr_value[]){arg[1], cr_of_dtype((cr_dtype)self->dtype)}, 2));
        st = cr_sparse_assign(self, copied.t);
        cr_drop_values(&copied, 1);
        return st ? st : cr_give(result, self);
    }
    CR_TRY(cr_call_tensor(&dense, cr_entry.to_dense, &arg[1], 1));
    st = cr_call_given(result, cr_entry.copy_, (cr_value[]){arg[0], T(dense)}, 2);
    cr_drop(dense);
    return st;
}

/* --- sums --- */

/* For the merge of two sequences of positions: the place of each item in the result, and for
 * each place the first item that it gets.  Items with one position at the heads of both go to
 * one place, so sorted sequences give a sorted result. */
static int64_t merge_places(const int64_t *a, int64_t n, const int64_t *b, int64_t m,
                            int64_t *place, int64_t *first)
{
    int64_t i = 0, k = 0, count = 0;

    while (i < n || k < m) {
        bool from_a = k == m || (i < n && a[i] <= b[k]);
        bool from_b = i == n || (k < m && b[k] <= a[i]);
        first[count] = from_a ? i : n + k;
        if (from_a)
            place[i++] = count;
        if (from_b)
            place[n + k++] = count;
        count++;
    }
    return count;
}

/* self, other */
cr_status cr_do_sparse_merge(const cr_value *arg, cr_value *result)
{
    cr_tensor *a = arg[0].t, *b = arg[1].t, *all[2];
    int64_t n = a->numel, m = b->numel, size = n + m;
    cr_steps s = {0};

    a = CR_STEP(&s, contiguous, T(a));
    b = CR_STEP(&s, contiguous, T(b));
    for (int k = 0; k < 2; k++) {
        if (!s.st)
            cr_step_fail(&s, cr_tensor_new(&all[k], CR_I64, CR_HOST, 1, &size));
        all[k] = s.st ? NULL : cr_step_own(&s, all[k]);
    }
    if (s.st)
        return cr_steps_give_all(&s, result, all, 2);
    int64_t count = merge_places(
        (const int64_t *)(void *)a->address, n, (const int64_t *)(void *)b->address, m,
        (int64_t *)(void *)all[0]->address, (int64_t *)(void *)all[1]->address);
    all[1] = CR_STEP(&s, narrow, T(all[1]), I(0), I(0), I(count));
    return cr_steps_give_all(&s, result, all, 2);
}
