/* Sparse tensors: construction from parts, the parts, and copies. */
#include "whole/sparse_impl.h"
#include <string.h>

/* --- construction of COO tensors --- */

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
        if (!index_range(s, cr_step_row(s, indices, d), &low, &high))
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
        if (!index_range(s, cr_step_row(s, indices, d), &low, &high))
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
    cr_tensor *flat = cr_step_flat(s, indices, (int)indices->size[0], size);

    if (!s->st && cr_has_bytes(flat->device) && !cr_step_increases(s, flat))
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
    int ndim = (int)indices->size[0] + values->ndim - 1;
    return cr_steps_give(&s, result, cr_step_coo(&s, ndim, size, indices, values, coalesced));
}

/* indices, values, size, is_coalesced, check_pinning */
cr_status cr_do_validate_coo(const cr_value *arg, cr_value *result)
{
    cr_value made, given[] = {arg[0], arg[1], arg[2], arg[3], cr_of_bool(true)};

    CR_TRY(cr_do_sparse_coo(given, &made));
    cr_drop_values(&made, 1);
    *result = cr_of_bool(true);
    return CR_OK;
}

static cr_tensor *new_part(cr_steps *s, cr_dtype dtype, cr_device device, int ndim,
                           const int64_t *size)
{
    cr_tensor *t;
    cr_view v;

    if (s->st)
        return NULL;
    cr_step_fail(s, cr_tensor_new(&t, dtype, device, ndim, size));
    if (s->st)
        return NULL;
    v = cr_view_of(cr_step_own(s, t));
    if (t->address)
        cr_step_fail(s, cr_fill_elements(&v, cr_scalar_int(0)));
    return t;
}

/* A tensor without values whose first `sparse` dims are addressed by indices. */
cr_tensor *cr_step_empty_coo(cr_steps *s, cr_dtype dtype, cr_device device, int ndim,
                             const int64_t *size, int sparse)
{
    int64_t indices[2] = {sparse, 0}, values[CR_MAX_DIMS + 1] = {0};

    memcpy(values + 1, size + sparse, (size_t)(ndim - sparse) * sizeof *size);
    return cr_step_coo(s, ndim, size, new_part(s, CR_I64, device, 2, indices),
                       new_part(s, dtype, device, ndim - sparse + 1, values), true);
}

int64_t cr_step_starts(cr_steps *s, int64_t rows)
{
    if (rows < INT64_MAX)
        return rows + 1;
    cr_step_fail(s, cr_fail(CR_RUNTIME,
                            "a sparse tensor of %lld rows has more row starts than a size "
                            "can tell",
                            (long long)rows));
    return 0;
}

static cr_tensor *empty_compressed(cr_steps *s, cr_dtype dtype, cr_device device,
                                   cr_layout_kind layout, int ndim, const int64_t *size)
{
    int64_t none = 0, lines;
    cr_tensor *t;

    if (ndim != 2 && !s->st)
        cr_step_fail(s,
                     cr_fail(CR_RUNTIME,
                             "torch.empty: Only batched sparse compressed (non-block) tensors "
                             "are supported, but got size of %d dimensions",
                             ndim));
    if (s->st)
        return NULL;
    lines = cr_step_starts(s, size[!cr_by_rows(layout)]);
    cr_sparse parts = {.compressed = new_part(s, CR_I64, device, 1, &lines),
                       .indices = new_part(s, CR_I64, device, 1, &none),
                       .values = new_part(s, dtype, device, 1, &none)};
    if (!s->st)
        cr_step_fail(s, cr_sparse_new(&t, layout, ndim, size, &parts));
    return s->st ? NULL : cr_step_own(s, t);
}

static cr_status give_empty(cr_value *result, cr_dtype dtype, cr_device device, int64_t layout,
                            int ndim, const int64_t *size, int sparse)
{
    cr_steps s = {0};

    if (ndim > CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions, not %d", CR_MAX_DIMS,
                       ndim);
    if (layout != CR_LAYOUT_COO && layout != CR_LAYOUT_CSR && layout != CR_LAYOUT_CSC)
        return cr_fail(CR_RUNTIME,
                       "empty_sparse_compressed expected sparse compressed (non-block) tensor "
                       "layout but got %s",
                       cr_layout_text((int)layout));
    for (int i = 0; i < ndim; i++)
        if (size[i] < 0)
            return cr_fail(CR_RUNTIME, "Trying to create tensor with negative dimension %lld",
                           (long long)size[i]);
    return cr_steps_give(
        &s, result,
        layout == CR_LAYOUT_COO
            ? cr_step_empty_coo(&s, dtype, device, ndim, size, sparse)
            : empty_compressed(&s, dtype, device, (cr_layout_kind)layout, ndim, size));
}

/* size, dtype, layout, device */
cr_status cr_do_sparse_empty(const cr_value *arg, cr_value *result)
{
    cr_device device = cr_thread.device;

    if (arg[3].tag != CR_NONE)
        CR_TRY(cr_device_named(&device, arg[3].i));
    return give_empty(result, (cr_dtype)arg[1].i, device, arg[2].i, (int)arg[0].len,
                      arg[0].ints, (int)arg[0].len);
}

/* --- parts --- */

cr_status cr_do_sparse_dim(const cr_value *arg, cr_value *result)
{
    *result = cr_of_int(cr_is_sparse(arg[0].t) ? cr_sparse_dims(arg[0].t) : 0);
    return CR_OK;
}

cr_status cr_do_dense_dim(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;

    *result =
        cr_of_int(cr_is_sparse(t) ? t->ndim - cr_sparse_batch(t) - cr_sparse_dims(t) : t->ndim);
    return CR_OK;
}

cr_status cr_do_sparse_nnz(const cr_value *arg, cr_value *result)
{
    if (!cr_is_sparse(arg[0].t))
        return cr_sparse_refuse(cr_entry._nnz, arg);
    *result = cr_of_int(cr_sparse_count(arg[0].t));
    return CR_OK;
}

cr_status cr_do_is_coalesced(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_coo("is_coalesced", arg[0].t));
    *result = cr_of_bool(cr_sparse_of(arg[0].t)->coalesced);
    return CR_OK;
}

cr_status cr_do_set_coalesced(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_coo("_coalesced_", arg[0].t));
    cr_sparse_of(arg[0].t)->coalesced = arg[1].i;
    return cr_give_changed(result, arg[0].t);
}

/* An alias of a part: in-place changes of it change the sparse tensor. */
static cr_status give_part(cr_value *result, const cr_tensor *part)
{
    cr_tensor *made;

    CR_TRY(cr_tensor_alias(&made, part));
    *result = cr_of_tensor(made);
    return CR_OK;
}

cr_status cr_do_sparse_indices(const cr_value *arg, cr_value *result)
{
    if (!cr_is_coo(arg[0].t))
        return cr_sparse_refuse(cr_entry._indices, arg);
    return give_part(result, cr_sparse_of(arg[0].t)->indices);
}

cr_status cr_do_sparse_values(const cr_value *arg, cr_value *result)
{
    if (!cr_is_sparse(arg[0].t))
        return cr_sparse_refuse(cr_entry._values, arg);
    return give_part(result, cr_sparse_of(arg[0].t)->values);
}

static cr_status check_readable(const char *what, const cr_tensor *t)
{
    if (cr_sparse_of(t)->coalesced)
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "Cannot get %s on an uncoalesced tensor, please call .coalesce() first",
                   what);
}

cr_status cr_do_coalesced_indices(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_coo("indices", arg[0].t));
    CR_TRY(check_readable("indices", arg[0].t));
    return give_part(result, cr_sparse_of(arg[0].t)->indices);
}

cr_status cr_do_coalesced_values(const cr_value *arg, cr_value *result)
{
    if (!cr_is_sparse(arg[0].t))
        return cr_fail(CR_RUNTIME, "values expected sparse tensor layout but got Strided");
    if (cr_is_coo(arg[0].t))
        CR_TRY(check_readable("values", arg[0].t));
    return give_part(result, cr_sparse_of(arg[0].t)->values);
}

static cr_status give_compressed(cr_value *result, cr_tensor *t, bool rows, const char *name,
                                 bool compressed)
{
    if (!cr_is_sparse(t) || cr_is_coo(t) || cr_by_rows(t->layout) != rows)
        return cr_fail(CR_RUNTIME, "%s expected sparse %s compressed tensor layout but got %s",
                       name, rows ? "row" : "column", cr_layout_text(t->layout));
    return give_part(result,
                     compressed ? cr_sparse_of(t)->compressed : cr_sparse_of(t)->indices);
}

cr_status cr_do_crow_indices(const cr_value *arg, cr_value *result)
{
    return give_compressed(result, arg[0].t, true, "crow_indices", true);
}

cr_status cr_do_col_indices(const cr_value *arg, cr_value *result)
{
    return give_compressed(result, arg[0].t, true, "col_indices", false);
}

cr_status cr_do_ccol_indices(const cr_value *arg, cr_value *result)
{
    return give_compressed(result, arg[0].t, false, "ccol_indices", true);
}

cr_status cr_do_row_indices(const cr_value *arg, cr_value *result)
{
    return give_compressed(result, arg[0].t, false, "row_indices", false);
}

/* --- copies --- */

cr_status cr_steps_give_sparse(cr_steps *s, cr_value *result, int layout, int ndim,
                               const int64_t *size, const cr_sparse *parts)
{
    cr_tensor *made = NULL;

    if (!s->st)
        cr_step_fail(s, cr_sparse_new(&made, (cr_layout_kind)layout, ndim, size, parts));
    return cr_steps_give(s, result, s->st ? NULL : cr_step_own(s, made));
}

/* A tensor with the indices of `t` and other values. */
static cr_status with_values(cr_value *result, const cr_tensor *t, cr_tensor *values)
{
    cr_sparse parts = *cr_sparse_of(t);
    cr_tensor *made;

    parts.values = values;
    CR_TRY(cr_sparse_new(&made, (cr_layout_kind)t->layout, t->ndim, t->size, &parts));
    *result = cr_of_tensor(made);
    return CR_OK;
}

/* Whether the batch and each value have the sizes of those of `t`. */
static bool fits_values(const cr_tensor *t, const cr_tensor *values)
{
    const cr_tensor *own = cr_sparse_of(t)->values;

    for (int d = 0; values->ndim == own->ndim && d < own->ndim; d++)
        if (d != cr_sparse_batch(t) && values->size[d] != own->size[d])
            return false;
    return values->ndim == own->ndim;
}

cr_status cr_do_sparse_with_values(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t, *values = arg[1].t;

    CR_TRY(cr_expect_sparse("_sparse_with_values", t));
    CR_TRY(check_dense("values", values));
    if (!fits_values(t, values))
        return cr_fail(CR_RUNTIME, "values do not have the sizes of the dense dims");
    int64_t n = values->size[cr_sparse_batch(t)];
    if (n != cr_sparse_count(t))
        return refuse_nnz(cr_sparse_count(t), n);
    return with_values(result, t, values);
}

/* The tensor with all parts replaced by results of a call on each. */
static cr_status with_parts(cr_value *result, const cr_tensor *t, const cr_op *op, int n,
                            cr_value *arg)
{
    cr_sparse parts = *cr_sparse_of(t);
    cr_steps s = {0};

    arg[0] = T(parts.indices);
    parts.indices = cr_step(&s, op, n, arg);
    if (parts.compressed) {
        arg[0] = T(parts.compressed);
        parts.compressed = cr_step(&s, op, n, arg);
    }
    arg[0] = T(parts.values);
    parts.values = cr_step(&s, op, n, arg);
    return cr_steps_give_sparse(&s, result, t->layout, t->ndim, t->size, &parts);
}

cr_status cr_do_sparse_clone(const cr_value *arg, cr_value *result)
{
    cr_value call[1];

    CR_TRY(cr_expect_sparse("clone", arg[0].t));
    if (cr_int_or(&arg[1], CR_FORMAT_PRESERVE) != CR_FORMAT_PRESERVE)
        return cr_fail(CR_RUNTIME, "unsupported memory format option %s",
                       arg[1].i == CR_FORMAT_CONTIGUOUS ? "Contiguous" : "ChannelsLast");
    return with_parts(result, arg[0].t, cr_entry.clone, 1, call);
}

cr_status cr_do_sparse_alias(const cr_value *arg, cr_value *result)
{
    return give_part(result, arg[0].t);
}

cr_status cr_do_sparse_to_dtype(const cr_value *arg, cr_value *result)
{
    cr_tensor *values;

    CR_TRY(cr_expect_sparse("to_dtype", arg[0].t));
    if (arg[0].t->dtype == arg[1].i)
        return cr_give(result, arg[0].t);
    CR_TRY(cr_call_tensor(&values, cr_entry.to_dtype,
                          (cr_value[]){T(cr_sparse_of(arg[0].t)->values), arg[1]}, 2));
    cr_status st = with_values(result, arg[0].t, values);
    cr_drop(values);
    return st;
}

/* `t`, whose parts have no bytes, without items: calls on such a tensor cannot find how many
 * items their results have, so they have none. */
static cr_status give_without_items(cr_value *result, const cr_tensor *t)
{
    cr_sparse parts = *cr_sparse_of(t);
    int dim = cr_sparse_batch(t);
    cr_steps s = {0};

    parts.indices =
        CR_STEP(&s, narrow, T(parts.indices), I(cr_is_coo(t) ? 1 : dim), I(0), I(0));
    parts.values = CR_STEP(&s, narrow, T(parts.values), I(dim), I(0), I(0));
    parts.coalesced = cr_is_coo(t);
    return cr_steps_give_sparse(&s, result, t->layout, t->ndim, t->size, &parts);
}

/* self, dtype, layout, device, pin_memory, non_blocking, memory_format */
cr_status cr_do_sparse_to_copy(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t;
    cr_value moved, call[4] = {cr_of_none(), cr_of_none(), cr_of_none(), arg[3]};

    CR_TRY(cr_expect_sparse("_to_copy", arg[0].t));
    if (cr_int_or(&arg[2], t->layout) != t->layout)
        return cr_fail(CR_RUNTIME,
                       "to(options) doesn't support converting to a different layout, "
                       "but got self.layout being %s and options.layout set as %s",
                       cr_layout_text(t->layout), cr_layout_text((int)arg[2].i));
    CR_TRY(with_parts(&moved, t, cr_entry._to_copy, 4, call));
    if (!cr_has_bytes(moved.t->device) && cr_sparse_count(moved.t)) {
        cr_value whole = moved;
        cr_status st = give_without_items(&moved, whole.t);
        cr_drop_values(&whole, 1);
        CR_TRY(st);
    }
    cr_value cast[] = {moved, cr_of_dtype((cr_dtype)cr_int_or(&arg[1], t->dtype))};
    cr_status st = cr_do_sparse_to_dtype(cast, result);
    cr_drop_values(&moved, 1);
    return st;
}

/* self, src, non_blocking */
cr_status cr_do_sparse_copy(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t, *src = arg[1].t;
    cr_value cast, clone, no_format[2];

    if (cr_is_sparse(self) != cr_is_sparse(src)) {
        cr_text to = {0};
        cr_text_printf(&to, "%s", cr_tensor_type_name(self));
        cr_fail(
            CR_RUNTIME,
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            "%s and src type = %s",
            cr_text_str(&to), cr_tensor_type_name(src));
        cr_text_drop(&to);
        return CR_RUNTIME;
    }
    if (!cr_is_sparse(self) || self->layout != src->layout ||
        !cr_has_sizes(self, src->ndim, src->size))
        return cr_fail(CR_RUNTIME, "torch.copy_: only sparse tensors with the same layout and "
                                   "size can be copied");
    CR_TRY(
        cr_do_sparse_to_dtype((cr_value[]){arg[1], cr_of_dtype((cr_dtype)self->dtype)}, &cast));
    no_format[0] = cast;
    no_format[1] = cr_of_none();
    cr_status st = cr_do_sparse_clone(no_format, &clone);
    cr_drop_values(&cast, 1);
    CR_TRY(st);
    st = cr_sparse_assign(self, clone.t);
    cr_drop_values(&clone, 1);
    return st ? st : cr_give(result, self);
}

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
        CR_TRY(cr_do_sparse_to_dtype((cr_value[]){arg[1], cr_of_dtype((cr_dtype)self->dtype)},
                                     &copied));
        st = cr_sparse_assign(self, copied.t);
        cr_drop_values(&copied, 1);
        return st ? st : cr_give(result, self);
    }
    CR_TRY(cr_call_tensor(&dense, cr_entry.to_dense, &arg[1], 1));
    st = cr_call_given(result, cr_entry.copy_, (cr_value[]){arg[0], T(dense)}, 2);
    cr_drop(dense);
    return st;
}

/* A tensor with the blocks' sizes of `t` and no block. */
static cr_status give_no_blocks(cr_value *result, cr_tensor *t, cr_dtype dtype)
{
    const cr_sparse *p = cr_sparse_of(t);
    cr_steps s = {0};
    cr_sparse parts = {.compressed = CR_STEP(&s, zeros_like, T(p->compressed)),
                       .indices = CR_STEP(&s, narrow, T(p->indices), I(0), I(0), I(0)),
                       .values = CR_STEP(&s, narrow, T(p->values), I(0), I(0), I(0))};

    parts.indices = CR_STEP(&s, clone, T(parts.indices));
    parts.values = CR_STEP(&s, _to_copy, T(parts.values), cr_of_dtype(dtype));
    return cr_steps_give_sparse(&s, result, t->layout, t->ndim, t->size, &parts);
}

static cr_status become_empty(cr_value *result, cr_tensor *self, int ndim, const int64_t *size,
                              int sparse)
{
    cr_value made;

    CR_TRY(cr_is_blocked(self) ? give_no_blocks(&made, self, (cr_dtype)self->dtype)
                               : give_empty(&made, (cr_dtype)self->dtype, self->device,
                                            self->layout, ndim, size, sparse));
    cr_status st = cr_sparse_assign(self, made.t);
    cr_drop_values(&made, 1);
    return st ? st : cr_give(result, self);
}

cr_status cr_do_sparse_zero(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t;

    CR_TRY(cr_expect_sparse("zero_", arg[0].t));
    return become_empty(result, t, t->ndim, t->size, cr_sparse_dims(t));
}

/* self, dtype, layout, device, pin_memory, memory_format */
cr_status cr_do_sparse_zeros_like(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t;
    cr_device device = t->device;
    int64_t layout = cr_int_or(&arg[2], t->layout);

    if (arg[3].tag != CR_NONE)
        CR_TRY(cr_device_named(&device, arg[3].i));
    if (layout == CR_LAYOUT_STRIDED)
        return cr_call_given(result, cr_entry.zeros,
                             (cr_value[]){cr_of_ints(t->size, t->ndim),
                                          cr_of_dtype((cr_dtype)cr_int_or(&arg[1], t->dtype)),
                                          cr_of_none(), arg[3]},
                             4);
    if (cr_is_blocked(t) && layout == t->layout && arg[3].tag == CR_NONE)
        return give_no_blocks(result, t, (cr_dtype)cr_int_or(&arg[1], t->dtype));
    return give_empty(result, (cr_dtype)cr_int_or(&arg[1], t->dtype), device, layout, t->ndim,
                      t->size, cr_is_coo(t) ? cr_sparse_dims(t) : t->ndim);
}

/* self, size, dtype, layout, device, pin_memory */
cr_status cr_do_sparse_new_zeros(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t;

    CR_TRY(cr_expect_sparse("new_zeros", arg[0].t));
    return give_empty(result, (cr_dtype)cr_int_or(&arg[2], t->dtype), t->device, t->layout,
                      (int)arg[1].len, arg[1].ints, (int)arg[1].len);
}

/* --- other sizes --- */

static cr_status refuse_shrink(const char *which, const cr_tensor *t, int begin, int n,
                               const int64_t *size)
{
    return cr_fail(
        CR_RUNTIME,
        "shrinking the size of %s dimensions (from %s to %s) on a non-empty sparse tensor is "
        "not supported.\nYou could try the following options:\n1. If you need an empty sparse "
        "tensor of this size, call `x = torch.sparse_coo_tensor(size)`.\n2. If you need to "
        "resize this tensor, you have the following options:\n    1. For both sparse and "
        "dense dimensions, keep the number of them constant and the size of them "
        "non-shrinking, and then try the same call again.\n    2. Or, create a new sparse "
        "tensor with the correct indices and values from this sparse tensor.",
        which, cr_shape_text(n, t->size + begin), cr_shape_text(n, size + begin));
}

static bool shrinks(const cr_tensor *t, int begin, int n, const int64_t *size)
{
    for (int i = begin; i < begin + n; i++)
        if (size[i] < t->size[i])
            return true;
    return false;
}

static cr_status check_resize(const cr_tensor *t, const cr_value *size, int64_t sparse,
                              int64_t dense)
{
    if (sparse < 0 || dense < 0 || CR_WRAP_ADD(sparse, dense) != size->len)
        return cr_fail(
            CR_RUNTIME,
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = %u, "
            "sparse_dim = %lld, dense_dim = %lld",
            size->len, (long long)sparse, (long long)dense);
    if (!cr_sparse_count(t))
        return CR_OK;
    if (sparse != cr_sparse_dims(t))
        return cr_fail(
            CR_RUNTIME,
            "changing the number of sparse dimensions (from %d to %lld) on a non-empty "
            "sparse tensor is not supported.",
            cr_sparse_dims(t), (long long)sparse);
    if (dense != t->ndim - sparse)
        return cr_fail(CR_RUNTIME,
                       "changing the number of dense dimensions (from %lld to %lld) on a "
                       "non-empty sparse tensor is not supported.",
                       (long long)(t->ndim - sparse), (long long)dense);
    if (shrinks(t, 0, (int)sparse, size->ints))
        return refuse_shrink("sparse", t, 0, (int)sparse, size->ints);
    if (shrinks(t, (int)sparse, (int)dense, size->ints))
        return refuse_shrink("dense", t, (int)sparse, (int)dense, size->ints);
    return CR_OK;
}

/* Values with zeros appended along dense dims, up to the new sizes. */
static cr_tensor *grown_values(cr_steps *s, const cr_tensor *t, int sparse, const int64_t *size)
{
    cr_tensor *values = cr_sparse_of(t)->values;
    int64_t pad[2 * CR_MAX_DIMS] = {0};
    int n = t->ndim - sparse;

    for (int i = 0; i < n; i++)
        pad[2 * (n - 1 - i) + 1] = size[sparse + i] - t->size[sparse + i];
    return n ? CR_STEP(s, constant_pad_nd, T(values), cr_of_ints(pad, (size_t)(2 * n)))
             : values;
}

/* self, size, sparse_dim, dense_dim */
cr_status cr_do_sparse_resize(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t, *made;
    int64_t size[CR_MAX_DIMS];
    cr_steps s = {0};

    CR_TRY(cr_expect_coo("sparse_resize_", self));
    CR_TRY(check_resize(self, &arg[1], arg[2].i, arg[3].i));
    if (!cr_sparse_count(self))
        return become_empty(result, self, (int)arg[1].len, arg[1].ints, (int)arg[2].i);
    memcpy(size, arg[1].ints, arg[1].len * sizeof *size);
    const cr_sparse *p = cr_sparse_of(self);
    cr_tensor *values = grown_values(&s, self, (int)arg[2].i, size);
    made = cr_step_coo(&s, (int)arg[1].len, size, p->indices, values, p->coalesced);
    if (!s.st)
        cr_step_fail(&s, cr_sparse_assign(self, made));
    return cr_steps_give(&s, result, self);
}

cr_status cr_do_sparse_resize_and_clear(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_coo("sparse_resize_and_clear_", arg[0].t));
    if (arg[2].i < 0 || arg[3].i < 0 || CR_WRAP_ADD(arg[2].i, arg[3].i) != arg[1].len)
        return cr_fail(
            CR_RUNTIME,
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = %u, "
            "sparse_dim = %lld, dense_dim = %lld",
            arg[1].len, (long long)arg[2].i, (long long)arg[3].i);
    return become_empty(result, arg[0].t, (int)arg[1].len, arg[1].ints, (int)arg[2].i);
}

cr_status cr_do_resize_as_sparse(const cr_value *arg, cr_value *result)
{
    cr_tensor *like = arg[1].t;

    CR_TRY(cr_expect_coo("resize_as_sparse_", like));
    cr_value call[] = {arg[0], cr_of_ints(like->size, like->ndim), I(cr_sparse_dims(like)),
                       I(like->ndim - cr_sparse_dims(like))};
    return cr_do_sparse_resize(call, result);
}
