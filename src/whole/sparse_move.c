/* Sparse tensors: dims in another order, selected, and joined. */
#include "whole/sparse_impl.h"
#include <string.h>

static cr_status refuse_dims(const cr_tensor *t, int64_t a, int64_t b)
{
    return cr_fail(CR_RUNTIME,
                   "sparse transpose: transposed dimensions must be sparse Got sparse_dim: %d, "
                   "d0: %lld, d1: %lld",
                   cr_sparse_dims(t), (long long)a, (long long)b);
}

/* The rows of the indices in another order. */
static cr_tensor *rows_ordered(cr_steps *s, const cr_tensor *t, const int64_t *order)
{
    cr_value row[CR_MAX_DIMS];
    int n = cr_sparse_dims(t);

    for (int d = 0; d < n; d++)
        row[d] = T(cr_step_row(s, cr_sparse_of(t)->indices, order[d]));
    cr_value list = {.tag = CR_TENSORS, .len = (uint32_t)n, .list = row};
    return n ? CR_STEP(s, stack, list) : cr_sparse_of(t)->indices;
}

/* The transpose of a compressed matrix: the same parts, each block transposed, in the other
 * layout. */
static cr_status give_swapped(cr_value *result, const cr_tensor *t)
{
    static const uint8_t other[] = {[CR_LAYOUT_CSR] = CR_LAYOUT_CSC,
                                    [CR_LAYOUT_CSC] = CR_LAYOUT_CSR,
                                    [CR_LAYOUT_BSR] = CR_LAYOUT_BSC,
                                    [CR_LAYOUT_BSC] = CR_LAYOUT_BSR};
    int64_t size[CR_MAX_DIMS];
    cr_sparse parts = *cr_sparse_of(t);
    cr_steps s = {0};

    memcpy(size, t->size, (size_t)t->ndim * sizeof *size);
    size[0] = t->size[1];
    size[1] = t->size[0];
    if (cr_is_blocked(t))
        parts.values = CR_STEP(&s, transpose_int, T(parts.values), I(1), I(2));
    return cr_steps_give_sparse(&s, result, other[t->layout], t->ndim, size, &parts);
}

/* self, dim0, dim1 */
cr_status cr_do_sparse_transpose(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_sparse("transpose", arg[0].t));
    cr_tensor *self = arg[0].t;
    int64_t a, b, order[CR_MAX_DIMS], size[CR_MAX_DIMS];
    cr_steps s = {0};

    CR_TRY(cr_wrap_dim(&a, arg[1].i, self->ndim));
    CR_TRY(cr_wrap_dim(&b, arg[2].i, self->ndim));
    if (a == b)
        return cr_do_sparse_alias(arg, result);
    if (a >= cr_sparse_dims(self) || b >= cr_sparse_dims(self))
        return refuse_dims(self, a, b);
    if (!cr_is_coo(self))
        return give_swapped(result, self);
    for (int d = 0; d < self->ndim; d++)
        order[d] = d == a ? b : d == b ? a : d;
    for (int d = 0; d < self->ndim; d++)
        size[d] = self->size[order[d]];
    cr_tensor *indices = rows_ordered(&s, self, order);
    return cr_steps_give(
        &s, result,
        cr_step_coo(&s, self->ndim, size, indices, cr_sparse_of(self)->values, false));
}

cr_status cr_do_sparse_t(const cr_value *arg, cr_value *result)
{
    cr_value call[] = {arg[0], I(0), I(arg[0].t->ndim < 2 ? 0 : 1)};

    CR_TRY(cr_expect_sparse("t", arg[0].t));
    if (arg[0].t->ndim > 2 || arg[0].t->ndim > cr_sparse_dims(arg[0].t))
        return cr_fail(
            CR_RUNTIME,
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got %d "
            "sparse and %d dense dimensions",
            cr_sparse_dims(arg[0].t), arg[0].t->ndim - cr_sparse_dims(arg[0].t));
    return arg[0].t->ndim ? cr_do_sparse_transpose(call, result)
                          : cr_do_sparse_alias(arg, result);
}

static cr_status permute_order(int64_t *order, const cr_tensor *t, const cr_value *dims)
{
    CR_TRY(cr_take_order(order, dims, t->ndim, "permute(sparse_coo)"));
    for (int i = 0; i < cr_sparse_dims(t); i++)
        if (order[i] >= cr_sparse_dims(t))
            return cr_fail(CR_RUNTIME, "permute(sparse_coo): transpositions between sparse and "
                                       "dense dimensions are not allowed.Only transpositions "
                                       "within sparse and dense dimensions are supported.");
    return CR_OK;
}

/* self, dims */
cr_status cr_do_sparse_permute(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_sparse("permute", arg[0].t));
    cr_tensor *self = arg[0].t, *values = cr_sparse_of(arg[0].t)->values;
    int64_t order[CR_MAX_DIMS], size[CR_MAX_DIMS], dense[CR_MAX_DIMS] = {0};
    int sparse = cr_sparse_dims(self);
    bool same = true;
    cr_steps s = {0};

    CR_TRY(permute_order(order, self, &arg[1]));
    if (!cr_is_coo(self)) {
        if (self->ndim != 2)
            return cr_sparse_refuse(cr_entry.permute, arg);
        return order[0] ? give_swapped(result, self) : cr_do_sparse_alias(arg, result);
    }
    for (int d = 0; d < self->ndim; d++) {
        size[d] = self->size[order[d]];
        if (d >= sparse)
            dense[d - sparse + 1] = order[d] - sparse + 1;
        else
            same &= order[d] == d;
    }
    if (self->ndim > sparse)
        values = CR_STEP(&s, permute, T(values),
                         cr_of_ints(dense, (size_t)(self->ndim - sparse + 1)));
    cr_tensor *indices = rows_ordered(&s, self, order);
    bool coalesced = same && cr_sparse_of(self)->coalesced;
    return cr_steps_give(&s, result,
                         cr_step_coo(&s, self->ndim, size, indices, values, coalesced));
}

/* grad, dims */
cr_status cr_do_sparse_permute_back(const cr_value *arg, cr_value *result)
{
    int64_t order[CR_MAX_DIMS] = {0}, dim;

    if ((int)arg[1].len != arg[0].t->ndim)
        return cr_fail(CR_RUNTIME, "the gradient has %d dims, not %u", arg[0].t->ndim,
                       arg[1].len);
    for (uint32_t i = 0; i < arg[1].len; i++) {
        CR_TRY(cr_wrap_dim(&dim, arg[1].ints[i], arg[1].len));
        order[dim] = i;
    }
    return cr_call_given(result, cr_entry.permute,
                         (cr_value[]){arg[0], cr_of_ints(order, arg[1].len)}, 2);
}

/* self, dim */
cr_status cr_do_sparse_unsqueeze(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t, *indices, *values;
    int64_t dim, size[CR_MAX_DIMS];
    cr_steps s = {0};

    CR_TRY(cr_expect_coo("unsqueeze", self));
    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim + 1));
    if (self->ndim + 1 > CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions, not %d", CR_MAX_DIMS,
                       self->ndim + 1);
    const cr_sparse *p = cr_sparse_of(self);
    int sparse = cr_sparse_dims(self);
    memcpy(size, self->size, (size_t)dim * sizeof *size);
    size[dim] = 1;
    memcpy(size + dim + 1, self->size + dim, (size_t)(self->ndim - dim) * sizeof *size);
    indices = p->indices;
    values = p->values;
    if (dim <= sparse) {
        int64_t row[2] = {1, cr_sparse_count(self)};
        cr_value part[3] = {T(CR_STEP(&s, narrow, T(indices), I(0), I(0), I(dim))),
                            T(CR_STEP(&s, new_zeros, T(indices), cr_of_ints(row, 2))),
                            T(CR_STEP(&s, narrow, T(indices), I(0), I(dim), I(sparse - dim)))};
        indices = cr_step_cat(&s, part, 3, 0);
    } else {
        values = CR_STEP(&s, unsqueeze, T(values), I(dim - sparse + 1));
    }
    return cr_steps_give(&s, result,
                         cr_step_coo(&s, self->ndim + 1, size, indices, values, p->coalesced));
}

/* --- selection --- */

static cr_status refuse_index(const cr_tensor *t, int64_t index, int64_t dim)
{
    return cr_fail(CR_INDEX,
                   "select(): index %lld out of range for tensor of size %s at dimension %lld",
                   (long long)index, cr_view_text(t), (long long)dim);
}

/* The indices without row `dim`. */
static cr_tensor *rows_without(cr_steps *s, cr_tensor *indices, int64_t dim)
{
    if (s->st)
        return NULL;
    cr_value part[2] = {
        T(CR_STEP(s, narrow, T(indices), I(0), I(0), I(dim))),
        T(CR_STEP(s, narrow, T(indices), I(0), I(dim + 1), I(indices->size[0] - dim - 1)))};
    return cr_step_cat(s, part, 2, 0);
}

/* self, dim, index */
cr_status cr_do_sparse_select(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_sparse("select", arg[0].t));
    int64_t dim, index = arg[2].i, size[CR_MAX_DIMS], first = 0;
    cr_steps s = {0};

    if (!arg[0].t->ndim)
        return cr_fail(CR_INDEX, "select() cannot be applied to a 0-dim tensor.");
    CR_TRY(cr_wrap_dim(&dim, arg[1].i, arg[0].t->ndim));
    if (index < -arg[0].t->size[dim] || index >= arg[0].t->size[dim])
        return refuse_index(arg[0].t, index, dim);
    index += index < 0 ? arg[0].t->size[dim] : 0;
    cr_tensor *self = cr_step_as_coo(&s, arg[0].t);
    if (s.st)
        return cr_steps_give(&s, result, NULL);
    const cr_sparse *p = cr_sparse_of(self);
    int sparse = cr_sparse_dims(self);
    memcpy(size, self->size, (size_t)dim * sizeof *size);
    memcpy(size + dim, self->size + dim + 1, (size_t)(self->ndim - dim - 1) * sizeof *size);
    if (dim >= sparse) {
        cr_tensor *values =
            CR_STEP(&s, select_int, T(p->values), I(dim - sparse + 1), I(index));
        return cr_steps_give(
            &s, result,
            cr_step_coo(&s, self->ndim - 1, size, p->indices, values, p->coalesced));
    }
    cr_value wanted = cr_of_number(cr_scalar_int(index));
    cr_tensor *holds = CR_STEP(&s, eq, T(cr_step_row(&s, p->indices, dim)), wanted);
    cr_tensor *kept = cr_step_places(&s, holds);
    cr_tensor *values = CR_STEP(&s, index_select, T(p->values), I(0), T(kept));
    if (sparse == 1) /* no index is left: the result is strided */
        return cr_steps_give(&s, result,
                             CR_STEP(&s, sum, T(values), cr_of_ints(&first, 1),
                                     cr_of_bool(false), cr_of_dtype((cr_dtype)self->dtype)));
    cr_tensor *indices = CR_STEP(&s, index_select, T(p->indices), I(1), T(kept));
    indices = rows_without(&s, indices, dim);
    return cr_steps_give(&s, result,
                         cr_step_coo(&s, self->ndim - 1, size, indices, values, p->coalesced));
}

/* self, dim, index */
cr_status cr_do_sparse_unbind(const cr_value *arg, cr_value *result)
{
    int64_t dim, n;
    cr_status st = CR_OK;

    CR_TRY(cr_wrap_dim(&dim, arg[1].i, arg[0].t->ndim));
    if (!arg[0].t->ndim)
        return cr_fail(CR_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                       (long long)arg[1].i);
    n = arg[0].t->size[dim];
    cr_value *list = cr_list_new(n);
    CR_NEED(list);
    for (int64_t i = 0; i < n && !st; i++)
        st =
            cr_call_given(&list[i], cr_entry.select_int, (cr_value[]){arg[0], I(dim), I(i)}, 3);
    if (st)
        cr_list_drop(list, (uint32_t)n);
    else
        *result = cr_of_list(list, (uint32_t)n);
    return st;
}

static cr_status check_positions(cr_steps *s, const cr_tensor *t, int64_t dim, cr_tensor *index)
{
    cr_scalar low, high;

    if (index->ndim > 1)
        return cr_fail(CR_INDEX,
                       "index_select(): Index is supposed to be a vector, but got dim: "
                       "%d with type: %s",
                       index->ndim, cr_dtype_infos[index->dtype].legacy);
    if (!index->numel || !index->address)
        return CR_OK;
    cr_tensor *least = CR_STEP(s, amin, T(index)), *most = CR_STEP(s, amax, T(index));
    CR_TRY(s->st);
    CR_TRY(cr_tensor_item(&low, least));
    CR_TRY(cr_tensor_item(&high, most));
    if (low.i >= -t->size[dim] && high.i < t->size[dim])
        return CR_OK;
    return cr_fail(
        CR_INDEX,
        "index_select(): index contains %lld that is out of range for tensor of size %s at "
        "dimension %lld",
        (long long)(high.i < t->size[dim] ? low.i : high.i), cr_view_text(t), (long long)dim);
}

/* All items of `t` for each of the positions along a sparse dim: an item is repeated for each
 * position that names it, and gets the number of the position as its index. */
static cr_tensor *select_positions(cr_steps *s, cr_tensor *t, int64_t dim, cr_tensor *index,
                                   const int64_t *size)
{
    const cr_sparse *p = cr_sparse_of(t);
    cr_tensor *row = CR_STEP(s, contiguous, T(cr_step_row(s, p->indices, dim)));
    cr_value sorted[2];

    if (s->st)
        return NULL;
    cr_step_fail(s, cr_call_given(sorted, cr_entry.sort_stable,
                                  (cr_value[]){T(row), cr_of_bool(true), I(0)}, 3));
    if (s->st)
        return NULL;
    cr_tensor *have = cr_step_own(s, sorted[0].t), *order = cr_step_own(s, sorted[1].t);
    cr_tensor *low = CR_STEP(s, searchsorted_Tensor, T(have), T(index));
    cr_tensor *high =
        CR_STEP(s, searchsorted_Tensor, T(have), T(index), cr_of_bool(false), cr_of_bool(true));
    cr_tensor *counts = CR_STEP(s, sub, T(high), T(low));
    cr_tensor *which = cr_step_repeat(s, counts, cr_sparse_count(t));
    if (s->st)
        return NULL;
    cr_tensor *ends = CR_STEP(s, cumsum, T(counts), I(0));
    cr_tensor *shift = CR_STEP(s, sub, T(CR_STEP(s, sub, T(low), T(ends))), T(counts),
                               cr_of_number(cr_scalar_int(-1)));
    cr_tensor *place = cr_step_arange(s, which->size[0], t);
    shift = CR_STEP(s, index_select, T(shift), I(0), T(which));
    place = CR_STEP(s, index_select, T(order), I(0), T(CR_STEP(s, add, T(place), T(shift))));
    cr_tensor *values = CR_STEP(s, index_select, T(p->values), I(0), T(place));
    cr_tensor *indices = CR_STEP(s, index_select, T(p->indices), I(1), T(place));
    if (s->st)
        return NULL;
    cr_value part[3] = {
        T(CR_STEP(s, narrow, T(indices), I(0), I(0), I(dim))),
        T(CR_STEP(s, unsqueeze, T(which), I(0))),
        T(CR_STEP(s, narrow, T(indices), I(0), I(dim + 1), I(indices->size[0] - dim - 1)))};
    return cr_step_coo(s, t->ndim, size, cr_step_cat(s, part, 3, 0), values,
                       dim == 0 && p->coalesced);
}

/* self, dim, index */
cr_status cr_do_sparse_index_select(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t, *index = arg[2].t, *made;
    int64_t dim, size[CR_MAX_DIMS];
    cr_steps s = {0};

    CR_TRY(cr_expect_coo("index_select", self));
    if (cr_is_sparse(index))
        return cr_sparse_refuse(cr_entry.index_select, arg);
    if (!self->ndim)
        return cr_fail(CR_INDEX, "index_select() cannot be applied to a 0-dim tensor.");
    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    cr_status st = check_positions(&s, self, dim, index);
    if (st) {
        cr_step_fail(&s, st);
        return cr_steps_end(&s, &made, NULL);
    }
    index = CR_STEP(&s, reshape, T(index), cr_of_ints((int64_t[]){-1}, 1));
    index = CR_STEP(&s, remainder, T(CR_STEP(&s, to_dtype, T(index), cr_of_dtype(CR_I64))),
                    cr_of_number(cr_scalar_int(self->size[dim] ? self->size[dim] : 1)));
    memcpy(size, self->size, (size_t)self->ndim * sizeof *size);
    if (s.st)
        return cr_steps_end(&s, &made, NULL);
    size[dim] = index->size[0];
    const cr_sparse *p = cr_sparse_of(self);
    int sparse = cr_sparse_dims(self);
    if (dim >= sparse) {
        cr_tensor *values =
            CR_STEP(&s, index_select, T(p->values), I(dim - sparse + 1), T(index));
        made = cr_step_coo(&s, self->ndim, size, p->indices, values, p->coalesced);
    } else {
        made = select_positions(&s, self, dim, index, size);
    }
    return cr_steps_give(&s, result, made);
}

/* self, dim, start, length */
cr_status cr_do_sparse_narrow(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t, *made;
    int64_t dim, start = arg[2].i, n = arg[3].i, size[CR_MAX_DIMS];
    cr_steps s = {0};

    CR_TRY(cr_expect_coo("narrow_copy", self));
    if (!self->ndim)
        return cr_fail(CR_RUNTIME, "narrow() cannot be applied to a 0-dim tensor.");
    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    start += start < 0 ? self->size[dim] : 0;
    if (n < 0 || start < 0 || n > self->size[dim] || start > self->size[dim] - n)
        return cr_fail(
            CR_RUNTIME,
            "Invalid range to narrow. range(start, start+length) must be a subset of "
            "range(0, %lld).",
            (long long)self->size[dim]);
    memcpy(size, self->size, (size_t)self->ndim * sizeof *size);
    size[dim] = n;
    const cr_sparse *p = cr_sparse_of(self);
    int sparse = cr_sparse_dims(self);
    if (dim >= sparse) {
        cr_tensor *values =
            CR_STEP(&s, narrow_copy, T(p->values), I(dim - sparse + 1), I(start), I(n));
        made = cr_step_coo(&s, self->ndim, size, p->indices, values, p->coalesced);
        return cr_steps_give(&s, result, made);
    }
    cr_tensor *row = cr_step_row(&s, p->indices, dim);
    cr_tensor *from = CR_STEP(&s, ge, T(row), cr_of_number(cr_scalar_int(start)));
    cr_tensor *to = CR_STEP(&s, lt, T(row), cr_of_number(cr_scalar_int(start + n)));
    cr_tensor *kept = cr_step_places(&s, CR_STEP(&s, logical_and, T(from), T(to)));
    cr_tensor *values = CR_STEP(&s, index_select, T(p->values), I(0), T(kept));
    cr_tensor *indices = CR_STEP(&s, index_select, T(p->indices), I(1), T(kept));
    int64_t column[2] = {sparse, 1};
    cr_tensor *shift = CR_STEP(&s, new_zeros, T(indices), cr_of_ints(column, 2));
    if (!s.st && shift->address) {
        cr_value at = cr_of_number(cr_scalar_int(start)), place = I(dim), filled;
        cr_tensor *cell = CR_STEP(&s, select_int, T(shift), I(0), place);
        if (!s.st)
            cr_step_fail(&s, cr_call_given(&filled, cr_entry.fill__Scalar,
                                           (cr_value[]){T(cell), at}, 2));
        if (!s.st)
            cr_drop_values(&filled, 1);
    }
    indices = CR_STEP(&s, sub, T(indices), T(shift));
    made = cr_step_coo(&s, self->ndim, size, indices, values, p->coalesced);
    return cr_steps_give(&s, result, made);
}

/* --- joins --- */

static cr_status check_join(const cr_value *list, uint32_t n, int64_t dim)
{
    const cr_tensor *first = list[0].t;

    for (uint32_t i = 0; i < n; i++) {
        const cr_tensor *t = list[i].t;
        if (!cr_is_sparse(t))
            return cr_fail(CR_RUNTIME,
                           "Concatenating sparse tensors, but a dense tensor was found "
                           "at position %u.",
                           i);
        CR_TRY(cr_expect_coo("cat", t));
        if (cr_sparse_dims(t) != cr_sparse_dims(first) || t->ndim != first->ndim)
            return cr_fail(
                CR_RUNTIME,
                "All tensors must have the same shape: %d sparse dims and %d dims, but "
                "tensor at position %u has %d and %d.",
                cr_sparse_dims(first), first->ndim, i, cr_sparse_dims(t), t->ndim);
        for (int d = 0; d < t->ndim; d++)
            if (d != dim && t->size[d] != first->size[d])
                return cr_fail(CR_RUNTIME,
                               "All tensors must have the same shape, except in the "
                               "concatenating dimension");
    }
    return CR_OK;
}

/* The indices of an item of the list, moved along a sparse dim by `start`. */
static cr_tensor *moved_indices(cr_steps *s, cr_tensor *t, int64_t dim, int64_t start)
{
    cr_tensor *indices = cr_sparse_of(t)->indices;

    if (!start || s->st)
        return s->st ? NULL : indices;
    cr_tensor *row = CR_STEP(s, unsqueeze, T(cr_step_row(s, indices, dim)), I(0));
    cr_tensor *moved = CR_STEP(s, add, T(row), cr_of_number(cr_scalar_int(start)));
    cr_value part[3] = {
        T(CR_STEP(s, narrow, T(indices), I(0), I(0), I(dim))), T(moved),
        T(CR_STEP(s, narrow, T(indices), I(0), I(dim + 1), I(indices->size[0] - dim - 1)))};
    return cr_step_cat(s, part, 3, 0);
}

/* The values of an item of the list between zeros along a dense dim. */
static cr_tensor *padded_values(cr_steps *s, cr_tensor *t, int64_t along, int64_t start,
                                int64_t total)
{
    cr_tensor *values = cr_sparse_of(t)->values;
    int64_t pad[2 * CR_MAX_DIMS] = {0}, last = 2 * (values->ndim - 1 - along);

    pad[last] = start;
    pad[last + 1] = total - start - values->size[along];
    return CR_STEP(s, constant_pad_nd, T(values), cr_of_ints(pad, (size_t)last + 2));
}

/* tensors, dim */
cr_status cr_do_sparse_cat(const cr_value *arg, cr_value *result)
{
    uint32_t n = arg[0].len;
    const cr_value *list = arg[0].list;
    int64_t dim, size[CR_MAX_DIMS], start = 0;
    cr_steps s = {0};

    if (!n)
        return cr_fail(CR_VALUE, "torch.cat(): expected a non-empty list of Tensors");
    const cr_tensor *first = list[0].t;
    if (!first->ndim) /* torch's text for every dim */
        return cr_fail(CR_INDEX, "Dimension out of range (expected to be in range of [-1, 0], "
                                 "but got 1)");
    CR_TRY(cr_wrap_dim(&dim, arg[1].i, first->ndim));
    CR_TRY(check_join(list, n, dim));
    memcpy(size, first->size, (size_t)first->ndim * sizeof *size);
    for (uint32_t i = 1; i < n; i++)
        size[dim] += list[i].t->size[dim];
    cr_value *part = cr_alloc(2 * n * sizeof *part);
    CR_NEED(part);
    int sparse = cr_is_sparse(first) ? cr_sparse_dims(first) : 0;
    for (uint32_t i = 0; i < n; i++) {
        cr_tensor *t = list[i].t;
        bool dense = dim >= sparse;
        part[i] = T(dense ? cr_sparse_of(t)->indices : moved_indices(&s, t, dim, start));
        part[n + i] = T(dense ? padded_values(&s, t, dim - sparse + 1, start, size[dim])
                              : cr_sparse_of(t)->values);
        start += t->size[dim];
    }
    cr_tensor *indices = cr_step_cat(&s, part, n, 1);
    cr_tensor *values = cr_step_cat(&s, part + n, n, 0);
    cr_free(part);
    return cr_steps_give(&s, result,
                         cr_step_coo(&s, first->ndim, size, indices, values, false));
}

/* tensors, dim */
cr_status cr_do_sparse_stack(const cr_value *arg, cr_value *result)
{
    cr_value *list = cr_list_new(arg[0].len);
    cr_status st = list ? CR_OK : CR_MEMORY;

    for (uint32_t i = 0; !st && i < arg[0].len; i++)
        st = cr_call_given(&list[i], cr_entry.unsqueeze, (cr_value[]){arg[0].list[i], arg[1]},
                           2);
    if (!st)
        st = cr_call_given(result, cr_entry.cat,
                           (cr_value[]){cr_of_list(list, arg[0].len), arg[1]}, 2);
    if (list)
        cr_list_drop(list, arg[0].len);
    return st;
}
