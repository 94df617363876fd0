/* Sparse tensors: conversions between layouts, coalescing, and masks. */
#include "whole/sparse_impl.h"
#include <stdio.h>
#include <string.h>

/* --- construction of compressed tensors --- */

static bool layout_blocked(int64_t layout)
{
    return layout == CR_LAYOUT_BSR || layout == CR_LAYOUT_BSC;
}

static const char *compressed_name(bool csr) { return csr ? "crow_indices" : "ccol_indices"; }
static const char *plain_name(bool csr) { return csr ? "col_indices" : "row_indices"; }

static void require(cr_steps *s, bool holds, const char *format, const char *name)
{
    if (!s->st && !holds)
        cr_step_fail(s, cr_fail(CR_RUNTIME, format, name));
}

/* The element of a comparison or a number, read. */
static int64_t read_int(cr_steps *s, cr_tensor *t)
{
    cr_scalar n = {0};

    if (!s->st)
        cr_step_fail(s, cr_tensor_item(&n, t));
    return n.i;
}

static bool all_within(cr_steps *s, cr_tensor *t, int64_t low, int64_t last)
{
    if (s->st || !t->numel)
        return true;
    int64_t least = read_int(s, CR_STEP(s, amin, T(t)));
    return least >= low && read_int(s, CR_STEP(s, amax, T(t))) <= last;
}

static cr_status check_divisible(const int64_t *size, const int64_t *block)
{
    for (int d = 0; d < 2; d++)
        if (size[d] % block[d])
            return cr_fail(CR_RUNTIME,
                           "tensor shape[%d] (=%lld) must be divisible with blocksize[%d] "
                           "(=%lld) as defined by values shape",
                           d, (long long)size[d], d, (long long)block[d]);
    return CR_OK;
}

/* The conditions that need no element, which later calls rely on.  `block` has the sizes of a
 * block, 1 and 1 where values are elements. */
static cr_status check_sizes(const cr_tensor *compressed, const cr_tensor *values, bool csr,
                             int ndim, const int64_t *size, const int64_t *block)
{
    int64_t lines = size[!csr] / block[!csr], blocked[CR_MAX_DIMS + 2] = {block[0], block[1]};

    CR_TRY(check_divisible(size, block));

    if (compressed->size[0] - 1 != lines)
        return cr_fail(CR_RUNTIME,
                       "%s.shape[-1] must be equal to the number of %s + 1 (=%lld), but got "
                       "%lld",
                       compressed_name(csr), csr ? "rows" : "columns",
                       (long long)CR_WRAP_ADD(lines, 1), (long long)compressed->size[0]);
    if (values->ndim != ndim + 1)
        return cr_expect_value_sizes(values, ndim - 2, size + 2);
    memcpy(blocked + 2, size + 2, (size_t)(ndim - 2) * sizeof *size);
    return cr_expect_value_sizes(values, ndim, blocked);
}

/* The conditions that torch.sparse.check_sparse_tensor_invariants checks. */
static void check_compressed(cr_steps *s, cr_tensor *compressed, cr_tensor *plain, bool csr,
                             int64_t others)
{
    const char *name = compressed_name(csr);
    int64_t n = plain->size[0];

    if (s->st)
        return;
    cr_tensor *first = CR_STEP(s, select_int, T(compressed), I(0), I(0));
    cr_tensor *last = CR_STEP(s, select_int, T(compressed), I(0), I(-1));
    require(s, read_int(s, first) == 0, "`%s[..., 0] == 0` is not satisfied.", name);
    require(s, read_int(s, last) == n, "`%s[..., -1] == nnz` is not satisfied.", name);
    cr_tensor *counts = CR_STEP(s, diff, T(compressed));
    if (!s->st && !all_within(s, counts, 0, others))
        cr_step_fail(s, cr_fail(CR_RUNTIME,
                                "`0 <= %s[..., 1:] - %s[..., :-1] <= %s` is not satisfied.",
                                name, name, csr ? "ncols" : "nrows"));
    if (!s->st && !all_within(s, plain, 0, others > 0 ? others - 1 : -1))
        cr_step_fail(s, cr_fail(CR_RUNTIME, "`0 <= %s < %s` is not satisfied.", plain_name(csr),
                                csr ? "ncols" : "nrows"));
}

static cr_status check_strided(const char *name, const cr_tensor *part)
{
    if (!cr_is_sparse(part))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "expected %s to be a strided tensor but got %s tensor", name,
                   cr_layout_text(part->layout));
}

static cr_status check_ranks(const cr_tensor *compressed, const cr_tensor *plain, bool csr)
{
    if (plain->ndim == compressed->ndim)
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "%s and %s dimensionalities must be equal but got %d and %d, respectively",
                   compressed_name(csr), plain_name(csr), compressed->ndim, plain->ndim);
}

static cr_status check_shapes(const cr_tensor *compressed, const cr_tensor *plain,
                              const cr_tensor *values, bool csr)
{
    CR_TRY(check_strided(compressed_name(csr), compressed));
    CR_TRY(check_strided(plain_name(csr), plain));
    CR_TRY(check_strided("values", values));
    if (!compressed->ndim || !plain->ndim || !values->ndim)
        return cr_fail(CR_RUNTIME,
                       "%s, %s and values must have dimensionality of at least one, but got "
                       "%d, %d and %d",
                       compressed_name(csr), plain_name(csr), compressed->ndim, plain->ndim,
                       values->ndim);
    CR_TRY(check_ranks(compressed, plain, csr));
    if (!compressed->size[0])
        return cr_fail(CR_RUNTIME, "%s must have at least one element", compressed_name(csr));
    if (plain->size[0] != values->size[0])
        return cr_fail(CR_RUNTIME,
                       "%s.shape[-1] must be equal to nnz (=%lld) as defined by "
                       "values.shape[0], but got %lld",
                       plain_name(csr), (long long)values->size[0], (long long)plain->size[0]);
    if (compressed->dtype != plain->dtype || (plain->dtype != CR_I64 && plain->dtype != CR_I32))
        return cr_fail(
            CR_RUNTIME, "%s and %s must be an int32 or int64 type, but got: %s and %s",
            compressed_name(csr), plain_name(csr), cr_dtype_infos[compressed->dtype].legacy,
            cr_dtype_infos[plain->dtype].legacy);
    if (!cr_same_device(compressed->device, values->device) ||
        !cr_same_device(plain->device, values->device))
        return cr_fail(CR_RUNTIME, "device of %s and %s must match device of values",
                       compressed_name(csr), plain_name(csr));
    return CR_OK;
}

/* The sizes of the blocks that values of a layout have; 1 and 1 of one without blocks. */
static cr_status block_of_values(int64_t *block, const cr_tensor *values, int64_t layout)
{
    block[0] = block[1] = 1;
    if (!layout_blocked(layout))
        return CR_OK;
    if (values->ndim < 3)
        return cr_fail(CR_RUNTIME,
                       "values must have dimensionality > sum of batch and block "
                       "dimensionalities (=0 + 2), but got %d",
                       values->ndim);
    memcpy(block, values->size + 1, 2 * sizeof *block);
    if (block[0] > 0 && block[1] > 0)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "blocksize needs to be positive, but got [%lld, %lld]",
                   (long long)block[0], (long long)block[1]);
}

/* --- batches of matrices --- */

/* A part, whose first n dims are those of the batch, with one dim for them. */
static cr_tensor *batch_lined(cr_steps *s, cr_tensor *part, int n)
{
    int64_t size[CR_MAX_DIMS];

    size[0] = cr_step_product(s, n, part->size);
    memcpy(size + 1, part->size + n, (size_t)(part->ndim - n) * sizeof *size);
    return CR_STEP(s, reshape, T(part), cr_of_ints(size, (size_t)(part->ndim - n + 1)));
}

static cr_status check_batch(const cr_tensor *compressed, const cr_tensor *plain,
                             const cr_tensor *values, const cr_value *size, bool csr)
{
    int n = compressed->ndim - 1;
    size_t bytes = (size_t)n * sizeof *compressed->size;

    CR_TRY(check_ranks(compressed, plain, csr));
    if (values->ndim <= n)
        return cr_fail(CR_RUNTIME,
                       "values must have dimensionality > sum of batch and block "
                       "dimensionalities (=%d + 0) but got %d",
                       n, values->ndim);
    if (memcmp(plain->size, compressed->size, bytes) ||
        memcmp(values->size, compressed->size, bytes) ||
        (size->tag != CR_NONE &&
         (size->len < (uint32_t)n || memcmp(size->ints, compressed->size, bytes))))
        return cr_fail(CR_RUNTIME,
                       "all batch dimensions of %s (=%s), %s (=%s), and values (=%s) must be "
                       "equal, and those of the size",
                       compressed_name(csr), cr_shape_text(n, compressed->size),
                       plain_name(csr), cr_shape_text(n, plain->size),
                       cr_shape_text(n, values->size));
    for (int d = 0; d < n; d++)
        if (!compressed->size[d])
            return cr_sparse_refuse_batch();
    return CR_OK;
}

/* The parts of a batch: those of each matrix are checked as those of a matrix, and without
 * sizes, the matrices have the greatest sizes that one of them needs. */
static cr_status give_batch(cr_value *result, const cr_value *arg)
{
    cr_tensor *part[] = {arg[0].t, arg[1].t, arg[2].t}, *line[3];
    int n = part[0]->ndim - 1, ndim = 0;
    bool csr = cr_by_rows((int)arg[4].i), given = arg[3].tag != CR_NONE;
    int64_t size[2 * CR_MAX_DIMS];
    cr_steps s = {0};

    CR_TRY(check_batch(part[0], part[1], part[2], &arg[3], csr));
    cr_value inner = given ? cr_of_ints(arg[3].ints + n, arg[3].len - (size_t)n) : arg[3];
    memcpy(size, part[0]->size, (size_t)n * sizeof *size);
    for (int k = 0; k < 3; k++)
        line[k] = batch_lined(&s, part[k], n);
    for (int64_t b = 0; !s.st && b < line[0]->size[0]; b++) {
        cr_value one[3];
        for (int k = 0; k < 3; k++)
            one[k] = T(CR_STEP(&s, select_int, T(line[k]), I(0), I(b)));
        cr_tensor *made =
            CR_STEP(&s, _sparse_compressed, one[0], one[1], one[2], inner, arg[4], arg[5]);
        for (int d = 0; made && d < made->ndim; d++)
            size[n + d] = b && size[n + d] > made->size[d] ? size[n + d] : made->size[d];
        ndim = made ? n + made->ndim : 0;
    }
    if (!s.st && ndim > CR_MAX_DIMS)
        cr_step_fail(&s, cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions, not %d",
                                 CR_MAX_DIMS, ndim));
    cr_sparse parts = {.compressed = part[0], .indices = part[1], .values = part[2]};
    return cr_steps_give_sparse(&s, result, (int)arg[4].i, ndim, size, &parts);
}

/* A batch as a strided tensor. */
static cr_tensor *dense_batch(cr_steps *s, const cr_tensor *t)
{
    const cr_sparse *p = cr_sparse_of(t);
    cr_tensor *part[] = {p->compressed, p->indices, p->values}, *line[3];
    int n = cr_sparse_batch(t);
    cr_value layout = {.tag = CR_LAYOUT_VAL, .i = t->layout};
    cr_value size = cr_of_ints(t->size + n, (size_t)(t->ndim - n));

    for (int k = 0; k < 3; k++)
        line[k] = batch_lined(s, part[k], n);
    int64_t count = s->st ? 0 : line[0]->size[0];
    cr_tensor **made = cr_step_room(s, count);
    for (int64_t b = 0; !s->st && b < count; b++) {
        cr_value one[3];
        for (int k = 0; k < 3; k++)
            one[k] = T(CR_STEP(s, select_int, T(line[k]), I(0), I(b)));
        made[b] = CR_STEP(s, _sparse_compressed, one[0], one[1], one[2], size, layout,
                          cr_of_bool(false));
        made[b] = CR_STEP(s, to_dense, T(made[b]));
    }
    cr_tensor *all = cr_step_join(s, cr_entry.stack, made, count, 0);
    cr_free(made);
    return CR_STEP(s, view, T(all), cr_of_ints(t->size, t->ndim));
}

/* --- construction --- */

/* compressed_indices, plain_indices, values, size, layout, check */
cr_status cr_do_sparse_compressed(const cr_value *arg, cr_value *result)
{
    cr_tensor *compressed = arg[0].t, *plain = arg[1].t, *values = arg[2].t;
    bool csr = cr_by_rows((int)arg[4].i), blocked = layout_blocked(arg[4].i);
    int64_t size[CR_MAX_DIMS], ndim = values->ndim + (blocked ? -1 : 1), block[2];
    cr_steps s = {0};

    if (!csr && arg[4].i != CR_LAYOUT_CSC && !blocked)
        return cr_fail(CR_NOT_IMPLEMENTED, "tensors of the layout %s are not implemented",
                       cr_layout_text((int)arg[4].i));
    if (compressed->ndim > 1) {
        CR_TRY(check_strided(compressed_name(csr), compressed));
        CR_TRY(check_strided(plain_name(csr), plain));
        CR_TRY(check_strided("values", values));
        return give_batch(result, arg);
    }
    CR_TRY(check_shapes(compressed, plain, values, csr));
    CR_TRY(block_of_values(block, values, arg[4].i));
    if (ndim > CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions, not %lld", CR_MAX_DIMS,
                       (long long)ndim);
    if (arg[3].tag != CR_NONE) {
        if ((int64_t)arg[3].len != ndim)
            return cr_fail(CR_RUNTIME,
                           "tensor dimensionality must be sum of batch, base, and dense "
                           "dimensionalities (=0 + 2 + %lld) but got %u",
                           (long long)ndim - 2, arg[3].len);
        memcpy(size, arg[3].ints, arg[3].len * sizeof *size);
    } else {
        int64_t most =
            plain->numel && plain->address ? read_int(&s, CR_STEP(&s, amax, T(plain))) : -1;
        size[!csr] = compressed->size[0] - 1;
        size[csr] = CR_WRAP_ADD(most, 1);
        for (int d = 0; d < 2; d++)
            if (CR_MUL_OVERFLOW(size[d], block[d], &size[d]) && !s.st)
                cr_step_fail(&s, cr_fail(CR_RUNTIME, "numel: integer multiplication overflow"));
        memcpy(size + 2, values->size + values->ndim - (ndim - 2),
               (size_t)(ndim - 2) * sizeof *size);
    }
    if (!s.st)
        cr_step_fail(&s, check_sizes(compressed, values, csr, (int)ndim, size, block));
    if (arg[5].i)
        check_compressed(&s, compressed, plain, csr, size[csr] / block[csr]);
    cr_sparse parts = {.compressed = compressed, .indices = plain, .values = values};
    return cr_steps_give_sparse(&s, result, (int)arg[4].i, (int)ndim, size, &parts);
}

/* --- coalescing --- */

cr_status cr_do_coalesce_coo(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_coo("coalesce", arg[0].t));
    cr_steps s = {0};

    return cr_steps_give(&s, result, cr_step_coalesced(&s, arg[0].t));
}

cr_status cr_do_coalesce(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_coo("coalesce", arg[0].t));
    if (cr_sparse_of(arg[0].t)->coalesced)
        return cr_give(result, arg[0].t);
    return cr_call_given(result, cr_entry._coalesce, arg, 1);
}

/* --- strided to sparse --- */

/* The coordinates, [n, dims], of the elements that are not zero, or slices with such. */
static cr_tensor *nonzero_places(cr_steps *s, cr_tensor *t, int dims)
{
    int64_t rest[CR_MAX_DIMS];
    cr_tensor *mask = CR_STEP(s, ne, T(t), cr_of_number(cr_scalar_int(0)));

    for (int i = dims; i < t->ndim; i++)
        rest[i - dims] = i;
    if (dims < t->ndim)
        mask = CR_STEP(s, any, T(mask), cr_of_ints(rest, (size_t)(t->ndim - dims)));
    return CR_STEP(s, nonzero, T(mask));
}

static cr_tensor *strided_to_coo(cr_steps *s, cr_tensor *t, int dims)
{
    if (!s->st && !cr_has_bytes(t->device)) /* no element says how many items there are */
        return cr_step_empty_coo(s, (cr_dtype)t->dtype, t->device, t->ndim, t->size, dims);
    cr_tensor *places = nonzero_places(s, t, dims);
    cr_tensor *indices = CR_STEP(s, contiguous, T(CR_STEP(s, t, T(places)))), *values;

    if (s->st)
        return NULL;
    if (!dims) {
        values = CR_STEP(s, unsqueeze, T(t), I(0));
        values = CR_STEP(s, narrow_copy, T(values), I(0), I(0), I(places->size[0]));
        return cr_step_coo_like(s, t, indices, values, true);
    }
    cr_tensor *place = cr_step_coo_like(s, t, indices, t, true);
    return cr_step_coo_like(s, t, indices, s->st ? NULL : cr_step_at(s, t, place), true);
}

/* --- blocks --- */

/* The sizes [rows of blocks, columns of blocks, height, width, dense dims...]. */
static void grid_sizes(int64_t *grid, const cr_tensor *t, const int64_t *block)
{
    for (int d = 0; d < 2; d++) {
        grid[d] = t->size[d] / block[d];
        grid[2 + d] = block[d];
    }
    memcpy(grid + 4, t->size + 2, (size_t)(t->ndim - 2) * sizeof *grid);
}

/* A strided matrix as a grid of blocks. */
static cr_tensor *strided_to_grid(cr_steps *s, cr_tensor *t, const int64_t *block)
{
    int64_t grid[CR_MAX_DIMS + 2], order[CR_MAX_DIMS + 2] = {0, 2, 1, 3};
    size_t n = (size_t)t->ndim + 2;

    grid_sizes(grid, t, block);
    int64_t split = grid[1];
    grid[1] = grid[2];
    grid[2] = split;
    for (size_t d = 4; d < n; d++)
        order[d] = (int64_t)d;
    t = CR_STEP(s, reshape, T(t), cr_of_ints(grid, n));
    return CR_STEP(s, permute, T(t), cr_of_ints(order, n));
}

/* The elements of a COO matrix as a COO grid of blocks. */
static cr_tensor *coo_to_grid(cr_steps *s, cr_tensor *coo, const int64_t *block)
{
    int64_t grid[CR_MAX_DIMS + 2], size[CR_MAX_DIMS + 1];
    cr_tensor *line[2], *within[2], *place, *kept;

    if (s->st)
        return NULL;
    const cr_sparse *p = cr_sparse_of(coo);
    grid_sizes(grid, coo, block);
    for (int d = 0; d < 2; d++) {
        cr_value row = T(cr_step_row(s, p->indices, d));
        cr_value number = cr_of_number(cr_scalar_int(block[d]));
        line[d] = CR_STEP(s, floor_divide, row, number);
        within[d] = CR_STEP(s, remainder, row, number);
    }
    kept = CR_STEP(s, mul, T(line[0]), cr_of_number(cr_scalar_int(grid[1])));
    kept = cr_step_distinct(s, CR_STEP(s, add, T(kept), T(line[1])), &place);
    if (s->st)
        return NULL;
    size[0] = kept->size[0];
    memcpy(size + 1, grid + 2, (size_t)coo->ndim * sizeof *size);
    for (int d = 0; d < 2; d++) {
        place = CR_STEP(s, mul, T(place), cr_of_number(cr_scalar_int(block[d])));
        place = CR_STEP(s, add, T(place), T(within[d]));
    }
    cr_tensor *values = cr_step_add_rows(s, p->values, place, cr_step_product(s, 3, size));
    values = CR_STEP(s, view, T(values), cr_of_ints(size, (size_t)coo->ndim + 1));
    cr_tensor *indices = cr_step_unflat(s, kept, 2, grid);
    return cr_step_coo(s, coo->ndim + 2, grid, indices, values, true);
}

/* --- COO to compressed --- */

static const char *layout_word(int layout)
{
    static const char *const word[] = {[CR_LAYOUT_CSR] = "csr",
                                       [CR_LAYOUT_CSC] = "csc",
                                       [CR_LAYOUT_BSR] = "bsr",
                                       [CR_LAYOUT_BSC] = "bsc"};

    return word[layout];
}

static void expect_matrix(cr_steps *s, const cr_tensor *coo, int layout)
{
    if (!s->st && cr_sparse_dims(coo) != 2)
        cr_step_fail(s,
                     cr_fail(CR_RUNTIME,
                             "coo_to_sparse_%s: conversion from Sparse to %s for input tensors "
                             "with sparse_dim()!=2 is not supported",
                             layout_word(layout), cr_layout_text(layout)));
}

static cr_tensor *compress(cr_steps *s, cr_tensor *coo, cr_layout_kind layout)
{
    bool csr = layout == CR_LAYOUT_CSR;
    cr_tensor *made;

    expect_matrix(s, coo, layout);
    if (s->st)
        return NULL;
    const cr_sparse *p = cr_sparse_of(coo);
    if (!csr) { /* sorted by columns: the transpose, coalesced */
        int64_t size[CR_MAX_DIMS] = {coo->size[1], coo->size[0]}, zero = 0;
        memcpy(size + 2, coo->size + 2, (size_t)(coo->ndim - 2) * sizeof *size);
        cr_tensor *swapped = CR_STEP(s, flip, T(p->indices), cr_of_ints(&zero, 1));
        coo = cr_step_coo(s, coo->ndim, size, swapped, p->values, false);
    }
    coo = s->st ? NULL : cr_step_coalesced(s, coo);
    if (s->st)
        return NULL;
    p = cr_sparse_of(coo);
    cr_tensor *lines = cr_step_row(s, p->indices, 0);
    cr_tensor *starts = cr_step_arange(s, cr_step_starts(s, coo->size[0]), coo);
    int64_t size[CR_MAX_DIMS];
    memcpy(size, coo->size, (size_t)coo->ndim * sizeof *size);
    size[0] = coo->size[!csr];
    size[1] = coo->size[csr];
    cr_sparse parts = {.values = p->values};
    lines = CR_STEP(s, contiguous, T(lines));
    parts.compressed = CR_STEP(s, searchsorted_Tensor, T(lines), T(starts));
    parts.indices = CR_STEP(s, clone, T(cr_step_row(s, p->indices, 1)));
    if (!s->st)
        cr_step_fail(s, cr_sparse_new(&made, layout, coo->ndim, size, &parts));
    return s->st ? NULL : cr_step_own(s, made);
}

/* A tensor of blocks: its parts are those of the compressed grid of blocks. */
static cr_tensor *to_blocks(cr_steps *s, cr_tensor *t, int layout, const int64_t *block)
{
    cr_tensor *made, *grid;

    if (t->ndim + 2 > CR_MAX_DIMS)
        cr_step_fail(s, cr_fail(CR_RUNTIME, "a tensor of %d dims has no layout %s", t->ndim,
                                cr_layout_text(layout)));
    if (s->st)
        return NULL;
    if (cr_is_sparse(t)) {
        t = cr_step_as_coo(s, t);
        expect_matrix(s, t, layout);
        grid = coo_to_grid(s, t, block);
    } else {
        grid = strided_to_grid(s, t, block);
        grid = s->st ? NULL : strided_to_coo(s, grid, 2);
    }
    grid = compress(s, grid, cr_by_rows(layout) ? CR_LAYOUT_CSR : CR_LAYOUT_CSC);
    if (s->st)
        return NULL;
    cr_step_fail(
        s, cr_sparse_new(&made, (cr_layout_kind)layout, t->ndim, t->size, cr_sparse_of(grid)));
    return s->st ? NULL : cr_step_own(s, made);
}

/* --- conversions between layouts --- */

/* A conversion that a call asks for. */
typedef struct conversion {
    cr_tensor *t;
    int64_t layout;
    const char *suffix;            /* of the entry's name: "" or "_csr" */
    const cr_value *block, *dense; /* CR_NONE where the call does not give them */
} conversion;

static const char *conversion_prefix(const conversion *c)
{
    if (c->t->layout == c->layout)
        return "";
    if (!cr_is_sparse(c->t))
        return "dense_";
    if (!cr_is_coo(c->t))
        return "sparse_compressed_";
    return *c->suffix ? "coo_" : "sparse_coo_";
}

static cr_status refuse_conversion(const conversion *c, const char *why)
{
    return cr_fail(CR_RUNTIME, "%sto_sparse%s: conversion from %s to %s %s is not supported",
                   conversion_prefix(c), c->suffix, cr_layout_text(c->t->layout),
                   cr_layout_text((int)c->layout), why);
}

static cr_status check_block_kept(const conversion *c, const int64_t *block)
{
    const int64_t *own = cr_sparse_of(c->t)->values->size + 1;
    char why[160];

    if (own[0] == block[0] && own[1] == block[1])
        return CR_OK;
    snprintf(why, sizeof why, "with blocksize changed from [%lld, %lld] to [%lld, %lld]",
             (long long)own[0], (long long)own[1], (long long)block[0], (long long)block[1]);
    return refuse_conversion(c, why);
}

/* The number of dense dims that the conversion gives to the result. */
static int64_t conversion_dense(const conversion *c)
{
    return cr_is_sparse(c->t) ? c->t->ndim - cr_sparse_dims(c->t) : cr_int_or(c->dense, 0);
}

static cr_status check_block_divides(const conversion *c, const int64_t *block)
{
    int64_t dim[2], dense = conversion_dense(c), size[2];

    for (int d = 0; d < 2; d++) {
        dim[d] = CR_WRAP_SUB(d - 2, dense);
        if (!c->t->ndim)
            return cr_fail(CR_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                           (long long)dim[d]);
        CR_TRY(cr_wrap_dim(&dim[d], dim[d], c->t->ndim));
        size[d] = c->t->size[dim[d]];
    }
    if (size[0] % block[0] == 0 && size[1] % block[1] == 0)
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "%sto_sparse%s: tensor sparse size (%lld,%lld) must be divisible by given "
                   "blocksize (%lld,%lld)",
                   conversion_prefix(c), c->suffix, (long long)size[0], (long long)size[1],
                   (long long)block[0], (long long)block[1]);
}

static cr_status check_block(const conversion *c)
{
    const int64_t *block = c->block->ints;

    if (c->block->tag == CR_NONE)
        return layout_blocked(c->layout)
                   ? refuse_conversion(c, "without blocksize argument given")
                   : CR_OK;
    if (c->block->len != 2)
        return cr_fail(CR_RUNTIME,
                       "%sto_sparse%s: blocksize needs to be a tuple of size 2, but got %u",
                       conversion_prefix(c), c->suffix, c->block->len);
    if (block[0] <= 0 || block[1] <= 0)
        return cr_fail(
            CR_RUNTIME, "%sto_sparse%s: blocksize needs to be positive, but got [%lld, %lld]",
            conversion_prefix(c), c->suffix, (long long)block[0], (long long)block[1]);
    if (!layout_blocked(c->layout))
        return refuse_conversion(c, "with blocksize argument given");
    return cr_is_blocked(c->t) ? check_block_kept(c, block) : check_block_divides(c, block);
}

static cr_status check_dense(const conversion *c)
{
    int most = c->t->ndim - (c->layout == CR_LAYOUT_COO ? 0 : 2);

    if (c->dense->tag == CR_NONE)
        return CR_OK;
    if (cr_is_sparse(c->t))
        return refuse_conversion(c, "with dense_dim argument given");
    if (c->dense->i < 0 || c->dense->i > most)
        return cr_fail(CR_RUNTIME,
                       "%sto_sparse%s: dense_dim argument must be in [0,%d] range, but %lld is "
                       "given",
                       conversion_prefix(c), c->suffix, most, (long long)c->dense->i);
    if (c->t->ndim && c->dense->i == c->t->ndim)
        return cr_fail(CR_RUNTIME,
                       "%sto_sparse%s: dense_dim argument must be !=self.dim() when "
                       "self.dim()>0",
                       conversion_prefix(c), c->suffix);
    return CR_OK;
}

/* The conditions in the order in which torch states them. */
static cr_status check_conversion(const conversion *c)
{
    int64_t one = 1;

    if (cr_is_coo(c->t) && c->layout != CR_LAYOUT_COO && cr_sparse_dims(c->t) != 2)
        return refuse_conversion(c, "for input tensors with sparse_dim()!=2");
    CR_TRY(check_block(c));
    CR_TRY(check_dense(c));
    if (c->layout == CR_LAYOUT_STRIDED || c->layout == CR_LAYOUT_COO)
        return CR_OK;
    if (cr_is_blocked(c->t) && !layout_blocked(c->layout))
        return cr_fail(CR_RUNTIME,
                       "sparse_compressed_to_sparse_%s: expected SparseCsr or SparseCsc layout "
                       "but got %s",
                       layout_word((int)c->layout), cr_layout_text(c->t->layout));
    return c->t->ndim < 2 ? cr_wrap_dim(&one, one, c->t->ndim) : CR_OK;
}

static cr_status give_conversion(cr_value *result, const conversion *c)
{
    CR_TRY(check_conversion(c));
    if (c->t->layout == c->layout)
        return cr_give(result, c->t);
    if (c->layout == CR_LAYOUT_STRIDED)
        return cr_call_given(result, cr_entry.to_dense, (cr_value[]){T(c->t)}, 1);
    return cr_call_given(
        result, cr_entry._to_sparse,
        (cr_value[]){
            T(c->t), {.tag = CR_LAYOUT_VAL, .i = c->layout}, *c->block, I(conversion_dense(c))},
        4);
}

/* self, layout, blocksize, dense_dim: self has another layout */
cr_status cr_do_to_sparse_layout(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t;
    int64_t layout = cr_int_or(&arg[1], CR_LAYOUT_COO), dense = cr_int_or(&arg[3], 0);
    bool matrix = layout != CR_LAYOUT_COO && !cr_is_sparse(t);
    cr_steps s = {0};

    if (layout < CR_LAYOUT_COO || layout > CR_LAYOUT_BSC || dense < 0 || dense > t->ndim)
        return cr_fail(CR_RUNTIME, "_to_sparse: no such layout or number of dense dims");
    CR_TRY(check_block(&(conversion){t, layout, "", &arg[2], &arg[3]}));
    if (matrix && dense != t->ndim - 2)
        return cr_sparse_refuse_batch();
    if (layout_blocked(layout))
        return cr_steps_give(&s, result, to_blocks(&s, t, (int)layout, arg[2].ints));
    t = cr_is_blocked(t)  ? cr_step_indexed(&s, t)
        : cr_is_sparse(t) ? cr_step_as_coo(&s, t)
                          : strided_to_coo(&s, t, t->ndim - (int)dense);
    if (layout != CR_LAYOUT_COO)
        t = compress(&s, t, (cr_layout_kind)layout);
    return cr_steps_give(&s, result, t);
}

/* self, layout, blocksize, dense_dim */
cr_status cr_do_to_sparse(const cr_value *arg, cr_value *result)
{
    int64_t layout = cr_int_or(&arg[1], CR_LAYOUT_COO);

    return give_conversion(result, &(conversion){arg[0].t, layout, "", &arg[2], &arg[3]});
}

/* self, dense_dim */
cr_status cr_do_to_sparse_csr(const cr_value *arg, cr_value *result)
{
    cr_value none = cr_of_none();

    return give_conversion(result,
                           &(conversion){arg[0].t, CR_LAYOUT_CSR, "_csr", &none, &arg[1]});
}

cr_status cr_do_to_sparse_csc(const cr_value *arg, cr_value *result)
{
    cr_value none = cr_of_none();

    return give_conversion(result,
                           &(conversion){arg[0].t, CR_LAYOUT_CSC, "_csc", &none, &arg[1]});
}

/* self, blocksize, dense_dim */
cr_status cr_do_to_sparse_bsr(const cr_value *arg, cr_value *result)
{
    return give_conversion(result,
                           &(conversion){arg[0].t, CR_LAYOUT_BSR, "_bsr", &arg[1], &arg[2]});
}

cr_status cr_do_to_sparse_bsc(const cr_value *arg, cr_value *result)
{
    return give_conversion(result,
                           &(conversion){arg[0].t, CR_LAYOUT_BSC, "_bsc", &arg[1], &arg[2]});
}

/* self, sparse_dim */
cr_status cr_do_to_sparse_dim(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t;
    int64_t dims = arg[1].i;
    cr_steps s = {0};

    if (cr_is_sparse(t)) {
        if (cr_is_coo(t) && cr_sparse_dims(t) == dims)
            return cr_give(result, t);
        return cr_fail(CR_RUNTIME,
                       "to_sparse: conversion from %s to Sparse with sparse_dim argument "
                       "!=self.sparse_dim() is not supported",
                       cr_layout_text(t->layout));
    }
    if (!dims && t->ndim)
        return cr_fail(CR_RUNTIME,
                       "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0");
    if (dims < 0 || dims > t->ndim)
        return cr_fail(
            CR_RUNTIME,
            "dense_to_sparse: sparse_dim argument must be in [0,%d] range, but %lld is "
            "given",
            t->ndim, (long long)dims);
    return cr_steps_give(&s, result, strided_to_coo(&s, t, (int)dims));
}

cr_status cr_do_sparse_to_dense(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_sparse("_to_dense", arg[0].t));
    cr_steps s = {0};
    if (cr_sparse_batch(arg[0].t))
        return cr_steps_give(&s, result, dense_batch(&s, arg[0].t));
    cr_tensor *t = arg[0].t, *coo = cr_step_as_coo(&s, t);
    int dims = cr_sparse_dims(t);
    int64_t rows = cr_step_product(&s, dims, t->size);

    if (s.st)
        return cr_steps_end(&s, &t, NULL);
    const cr_sparse *p = cr_sparse_of(coo);
    cr_tensor *flat = cr_step_flat(&s, p->indices, dims, t->size);
    cr_tensor *dense = cr_step_add_rows(&s, p->values, flat, rows);
    dense = CR_STEP(&s, view, T(dense), cr_of_ints(t->size, t->ndim));
    return cr_steps_give(&s, result, dense);
}

/* self, dtype, masked_grad */
cr_status cr_do_to_dense(const cr_value *arg, cr_value *result)
{
    if (!cr_is_sparse(arg[0].t))
        return arg[1].tag == CR_NONE ? cr_give(result, arg[0].t)
                                     : cr_call_given(result, cr_entry.to_dtype, arg, 2);
    if (arg[1].tag != CR_NONE)
        return cr_fail(CR_RUNTIME, "dtype argument is not supported by sparse_to_dense");
    return cr_call_given(result, cr_entry._to_dense, arg, 1);
}

/* --- masks --- */

/* The values of a coalesced tensor at the positions `flat`; zeros where it has none. */
static cr_tensor *values_at(cr_steps *s, cr_tensor *coo, cr_tensor *flat)
{
    cr_tensor *found;
    cr_tensor *place = cr_step_find(s, coo, flat, &found);

    if (s->st)
        return NULL;
    const cr_sparse *p = cr_sparse_of(coo);
    int64_t size[CR_MAX_DIMS];
    memcpy(size, p->values->size, (size_t)p->values->ndim * sizeof *size);
    size[0] = flat->size[0];
    if (!cr_sparse_count(coo))
        return CR_STEP(s, new_zeros, T(p->values), cr_of_ints(size, p->values->ndim));
    cr_tensor *values = CR_STEP(s, index_select, T(p->values), I(0), T(place));
    for (int i = 1; i < p->values->ndim; i++)
        found = CR_STEP(s, unsqueeze, T(found), I(-1));
    found = CR_STEP(s, logical_not, T(found));
    return CR_STEP(s, masked_fill_Scalar, T(values), T(found), cr_of_number(cr_scalar_int(0)));
}

/* self, mask */
cr_status cr_do_sparse_values_like(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_sparse("sparse_mask", arg[1].t));
    cr_tensor *self = arg[0].t, *mask = arg[1].t, *values;
    const cr_tensor *stored = cr_sparse_of(mask)->values;
    cr_steps s = {0};

    if (cr_is_sparse(self) && cr_same_indices(self, mask))
        return cr_do_sparse_values(arg, result);
    mask = cr_step_indexed(&s, mask);
    if (!s.st && cr_is_sparse(self)) {
        self = cr_step_coalesced(&s, cr_step_as_coo(&s, self));
        cr_tensor *flat = s.st ? NULL
                               : cr_step_flat(&s, cr_sparse_of(mask)->indices,
                                              cr_sparse_dims(mask), mask->size);
        values = values_at(&s, self, flat);
    } else {
        values = s.st ? NULL : cr_step_at(&s, self, mask);
    }
    if (cr_is_blocked(arg[1].t))
        values = CR_STEP(&s, reshape, T(values), cr_of_ints(stored->size, stored->ndim));
    return cr_steps_give(&s, result, values);
}

/* self, mask */
cr_status cr_do_sparse_mask(const cr_value *arg, cr_value *result)
{
    const cr_tensor *self = arg[0].t, *mask = arg[1].t;
    cr_tensor *values, *made;

    if (!cr_is_sparse(mask))
        return cr_sparse_refuse(cr_entry.sparse_mask, arg);
    if (!cr_has_sizes(self, mask->ndim, mask->size))
        return cr_fail(CR_RUNTIME,
                       "sparse_mask(): operands have incompatible sizes; self has size %s but "
                       "mask has size %s",
                       cr_view_text(self), cr_view_text(mask));
    CR_TRY(cr_call_tensor(&values, cr_entry._sparse_values_like, arg, 2));
    cr_status st =
        cr_call_tensor(&made, cr_entry._sparse_with_values, (cr_value[]){arg[1], T(values)}, 2);
    cr_drop(values);
    CR_TRY(st);
    if (cr_is_coo(made))
        cr_sparse_of(made)->coalesced = cr_sparse_of(mask)->coalesced;
    *result = T(made);
    return CR_OK;
}

/* self */
cr_status cr_do_sparse_distinct(const cr_value *arg, cr_value *result)
{
    if (!cr_is_coo(arg[0].t) || cr_sparse_of(arg[0].t)->coalesced)
        return cr_give(result, arg[0].t);
    return cr_call_given(result, cr_entry.coalesce, arg, 1);
}

/* grad, like */
cr_status cr_do_sparse_grad(const cr_value *arg, cr_value *result)
{
    cr_value like;

    if (!cr_is_sparse(arg[1].t))
        return cr_call_given(result, cr_entry.to_dense, arg, 1);
    if (cr_is_sparse(arg[0].t))
        return cr_give(result, arg[0].t);
    CR_TRY(cr_do_sparse_distinct(&arg[1], &like));
    cr_status st = cr_call_given(result, cr_entry.sparse_mask, (cr_value[]){arg[0], like}, 2);
    cr_drop(like.t);
    return st;
}

/* --- gradients of selections --- */

/* grad, indices, num_weights, padding_idx, scale_grad_by_freq */
cr_status cr_do_embedding_sparse_backward(const cr_value *arg, cr_value *result)
{
    cr_tensor *grad = arg[0].t, *kept;
    const int64_t all = -1;
    int64_t size[2] = {arg[2].i, grad->ndim ? grad->size[grad->ndim - 1] : 1};
    int64_t rows[2] = {arg[1].t->numel, size[1]};
    cr_steps s = {0};

    cr_tensor *index = CR_STEP(&s, reshape, arg[1], cr_of_ints(&all, 1));
    cr_tensor *values = CR_STEP(&s, reshape, T(grad), cr_of_ints(rows, 2));
    index = CR_STEP(&s, to_dtype, T(index), cr_of_dtype(CR_I64));
    if (arg[3].i >= 0) {
        kept = CR_STEP(&s, ne, T(index), cr_of_number(cr_scalar_int(arg[3].i)));
        kept = cr_step_places(&s, kept);
        index = CR_STEP(&s, index_select, T(index), I(0), T(kept));
        values = CR_STEP(&s, index_select, T(values), I(0), T(kept));
    }
    index = CR_STEP(&s, unsqueeze, T(index), I(0));
    return cr_steps_give(&s, result, cr_step_coo(&s, 2, size, index, values, false));
}

/* grad, size, dim, index */
cr_status cr_do_gather_sparse_backward(const cr_value *arg, cr_value *result)
{
    cr_tensor *index = arg[3].t;
    int ndim = (int)arg[1].len;
    int64_t dim, n = index->numel;
    cr_steps s = {0};

    CR_TRY(cr_wrap_dim(&dim, arg[2].i, ndim));
    if (index->ndim != ndim || arg[0].t->numel != n)
        return cr_fail(CR_RUNTIME, "gather: the gradient, the index and the sizes do not fit");
    cr_tensor *values = CR_STEP(&s, reshape, arg[0], cr_of_ints(&n, 1));
    cr_tensor *flat = CR_STEP(&s, reshape, T(index), cr_of_ints(&n, 1));
    if (!ndim) {
        int64_t none[2] = {0, n};
        flat = CR_STEP(&s, new_zeros, T(flat), cr_of_ints(none, 2));
        return cr_steps_give(&s, result, cr_step_coo(&s, 0, NULL, flat, values, false));
    }
    cr_tensor *place =
        cr_step_unflat(&s, cr_step_arange(&s, n, index), index->ndim, index->size);
    cr_value part[3] = {T(CR_STEP(&s, narrow, T(place), I(0), I(0), I(dim))),
                        T(CR_STEP(&s, unsqueeze, T(flat), I(0))),
                        T(CR_STEP(&s, narrow, T(place), I(0), I(dim + 1), I(ndim - dim - 1)))};
    place = cr_step_cat(&s, part, 3, 0);
    return cr_steps_give(&s, result, cr_step_coo(&s, ndim, arg[1].ints, place, values, false));
}
