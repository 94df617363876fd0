/* Sparse tensors: construction of compressed tensors from parts. */
#include "whole/sparse_impl.h"
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

/* The product of n sizes.  Steps fail when it does not fit int64. */
static int64_t product_of(cr_steps *s, int n, const int64_t *size)
{
    int64_t product = 1;

    for (int i = 0; i < n; i++)
        if (CR_MUL_OVERFLOW(product, size[i], &product) && !s->st)
            cr_step_fail(s, cr_fail(CR_RUNTIME, "numel: integer multiplication overflow"));
    return product;
}

/* A part, whose first n dims are those of the batch, with one dim for them. */
static cr_tensor *batch_lined(cr_steps *s, cr_tensor *part, int n)
{
    int64_t size[CR_MAX_DIMS];

    size[0] = product_of(s, n, part->size);
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
