/* Sparse tensors: matrix products. */
#include "whole/sparse_impl.h"

/* The dtypes that the product is computed in: halves as float. */
static cr_dtype wide(cr_dtype t) { return t == CR_F16 || t == CR_BF16 ? CR_F32 : t; }

/* Sparse matrix times dense matrix. */
static cr_tensor *times_dense(cr_steps *s, cr_tensor *sparse, cr_tensor *dense)
{
    bool csr = !s->st && sparse->layout == CR_LAYOUT_CSR;
    cr_tensor *coo = csr ? sparse : cr_step_indexed(s, sparse);

    if (s->st)
        return NULL;
    cr_value dtype = cr_of_dtype(wide((cr_dtype)dense->dtype)), index = cr_of_dtype(CR_I64);
    const cr_sparse *p = cr_sparse_of(coo);
    cr_tensor *values = CR_STEP(s, contiguous, T(CR_STEP(s, to_dtype, T(p->values), dtype)));
    cr_tensor *other = CR_STEP(s, contiguous, T(CR_STEP(s, to_dtype, T(dense), dtype)));
    cr_tensor *rows = csr ? p->compressed : cr_step_row(s, p->indices, 0);
    cr_tensor *columns = csr ? p->indices : cr_step_row(s, p->indices, 1);
    rows = CR_STEP(s, contiguous, T(CR_STEP(s, to_dtype, T(rows), index)));
    columns = CR_STEP(s, contiguous, T(CR_STEP(s, to_dtype, T(columns), index)));
    cr_tensor *made = CR_STEP(s, _sparse_product, T(values), T(rows), T(columns), T(other),
                              I(sparse->size[0]), cr_of_bool(csr));
    return CR_STEP(s, to_dtype, T(made), cr_of_dtype((cr_dtype)dense->dtype));
}

static cr_tensor *transposed(cr_steps *s, cr_tensor *t)
{
    return CR_STEP(s, transpose_int, T(t), I(0), I(1));
}

/* The start of each row of a coalesced matrix among its items. */
static cr_tensor *row_starts(cr_steps *s, cr_tensor *t)
{
    cr_tensor *rows = CR_STEP(s, contiguous, T(cr_step_row(s, cr_sparse_of(t)->indices, 0)));

    return CR_STEP(s, searchsorted_Tensor, T(rows),
                   T(cr_step_arange(s, cr_step_starts(s, t->size[0]), t)));
}

/* The product of two COO matrices: each item of `a` meets the items of a row of `b`. */
static cr_tensor *times_sparse(cr_steps *s, cr_tensor *a, cr_tensor *b)
{
    int64_t size[2] = {a->size[0], b->size[1]};

    b = cr_step_coalesced(s, b);
    if (s->st)
        return NULL;
    const cr_sparse *p = cr_sparse_of(a), *q = cr_sparse_of(b);
    cr_tensor *starts = row_starts(s, b), *row = cr_step_row(s, p->indices, 1);
    cr_tensor *low = CR_STEP(s, index_select, T(starts), I(0), T(row));
    cr_tensor *next = CR_STEP(s, add, T(row), cr_of_number(cr_scalar_int(1)));
    cr_tensor *high = CR_STEP(s, index_select, T(starts), I(0), T(next));
    cr_tensor *counts = CR_STEP(s, sub, T(high), T(low));
    cr_tensor *left = cr_step_repeat(s, counts, cr_sparse_count(a) ? cr_sparse_count(b) : 0);
    if (s->st)
        return NULL;
    cr_tensor *ends = CR_STEP(s, cumsum, T(counts), I(0));
    cr_tensor *shift = CR_STEP(s, sub, T(high), T(ends));
    shift = CR_STEP(s, index_select, T(shift), I(0), T(left));
    cr_tensor *right = CR_STEP(s, add, T(cr_step_arange(s, left->size[0], a)), T(shift));
    cr_tensor *x = CR_STEP(s, index_select, T(p->values), I(0), T(left));
    cr_tensor *y = CR_STEP(s, index_select, T(q->values), I(0), T(right));
    cr_value rows[] = {
        T(CR_STEP(s, index_select, T(cr_step_row(s, p->indices, 0)), I(0), T(left))),
        T(CR_STEP(s, index_select, T(cr_step_row(s, q->indices, 1)), I(0), T(right)))};
    cr_value list = {.tag = CR_TENSORS, .len = 2, .list = rows};
    cr_tensor *indices = CR_STEP(s, stack, list);
    cr_tensor *made = cr_step_coo(s, 2, size, indices, CR_STEP(s, mul, T(x), T(y)), false);
    return s->st ? NULL : cr_step_coalesced(s, made);
}

/* torch computes dense times sparse as the transpose of a product. */
static cr_status refuse_argument(const cr_tensor *a, const cr_tensor *b)
{
    bool swapped = !cr_is_sparse(a);

    return cr_fail(CR_RUNTIME, "addmm: Argument #3 (%s): Expected dim 0 size %lld, got %lld",
                   cr_is_sparse(a) && cr_is_sparse(b) ? "sparse" : "dense",
                   (long long)(swapped ? b->size[0] : a->size[1]),
                   (long long)(swapped ? a->size[1] : b->size[0]));
}

static cr_status check_product(const cr_tensor *a, const cr_tensor *b)
{
    for (int i = 0; i < 2; i++) {
        const cr_tensor *t = i ? b : a;
        if (cr_is_sparse(t) && cr_sparse_dims(t) != 2)
            return cr_fail(CR_RUNTIME, "addmm: matrices expected, got %dD tensor",
                           cr_sparse_dims(t));
        if (cr_is_sparse(t) && t->ndim != 2)
            return cr_fail(CR_RUNTIME, "addmm: scalar values expected, got %dD values",
                           t->ndim - 1);
        if (t->ndim != 2)
            return cr_fail(CR_RUNTIME, "addmm: matrices expected, got %dD tensor", t->ndim);
    }
    if (a->size[1] != b->size[0])
        return refuse_argument(a, b);
    if (a->dtype != b->dtype)
        return cr_fail(CR_RUNTIME, "expected scalar type %s but found %s",
                       cr_dtype_infos[a->dtype].legacy, cr_dtype_infos[b->dtype].legacy);
    return CR_OK;
}

/* self, mat2 */
cr_status cr_do_sparse_mm(const cr_value *arg, cr_value *result)
{
    cr_tensor *a = arg[0].t, *b = arg[1].t, *made;
    cr_steps s = {0};

    if (!cr_is_sparse(a))
        CR_TRY(cr_expect_sparse("mm", b));
    CR_TRY(check_product(a, b));
    if (!cr_is_sparse(b)) {
        made = times_dense(&s, a, b);
    } else if (!cr_is_sparse(a)) {
        made = times_dense(&s, transposed(&s, b), transposed(&s, a));
        made = transposed(&s, made);
    } else {
        bool csr = cr_is_compressed(a) && cr_is_compressed(b);
        cr_tensor *right = cr_step_as_coo(&s, b);
        made = cr_step_as_coo(&s, a);
        made = s.st ? NULL : times_sparse(&s, made, right);
        made = csr ? cr_step_as_layout(&s, made, a) : made;
    }
    return cr_steps_give(&s, result, made);
}

/* self, mat2: batches of matrices, self sparse */
cr_status cr_do_sparse_bmm(const cr_value *arg, cr_value *result)
{
    cr_tensor *a = arg[0].t, *b = arg[1].t;
    cr_steps s = {0};

    if (!cr_is_coo(a) || cr_is_sparse(b))
        return cr_sparse_refuse(cr_entry.bmm, arg);
    if (cr_sparse_dims(a) != 3)
        return cr_fail(CR_RUNTIME,
                       "bmm_sparse: Tensor 'self' must have 3 sparse dims, but has %d",
                       cr_sparse_dims(a));
    if (a->ndim != 3 || b->ndim != 3)
        return cr_fail(CR_RUNTIME, "bmm_sparse: Tensor '%s' must have 3 dims",
                       a->ndim == 3 ? "mat2" : "self");
    if (a->size[0] != b->size[0])
        return cr_fail(CR_RUNTIME, "bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match");
    if (a->size[2] != b->size[1])
        return cr_fail(CR_RUNTIME, "bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match");
    if (a->dtype != b->dtype)
        return cr_fail(CR_RUNTIME, "expected scalar type %s but found %s",
                       cr_dtype_infos[a->dtype].legacy, cr_dtype_infos[b->dtype].legacy);
    /* one product: the matrices of a batch are the blocks of a diagonal */
    int64_t rows = a->size[0] * a->size[1], columns = a->size[0] * a->size[2];
    int64_t size[2] = {rows, columns}, lines[2] = {columns, b->size[2]};
    int64_t final[3] = {a->size[0], a->size[1], b->size[2]};
    const cr_sparse *p = cr_sparse_of(a);
    cr_tensor *batch = cr_step_row(&s, p->indices, 0);
    cr_value part[2];
    for (int i = 0; i < 2; i++) {
        cr_tensor *first =
            CR_STEP(&s, mul, T(batch), cr_of_number(cr_scalar_int(a->size[i + 1])));
        part[i] = T(CR_STEP(&s, add, T(first), T(cr_step_row(&s, p->indices, i + 1))));
    }
    cr_value list = {.tag = CR_TENSORS, .len = 2, .list = part};
    cr_tensor *diagonal = cr_step_coo(&s, 2, size, CR_STEP(&s, stack, list), p->values, false);
    cr_tensor *flat = CR_STEP(&s, reshape, T(b), cr_of_ints(lines, 2));
    cr_tensor *made = s.st ? NULL : times_dense(&s, diagonal, flat);
    return cr_steps_give(&s, result, CR_STEP(&s, view, T(made), cr_of_ints(final, 3)));
}

/* mat1, mat2, mask: the elements of the product of two dense matrices at the indices of mask */
cr_status cr_do_sparse_sampled(const cr_value *arg, cr_value *result)
{
    cr_tensor *mask = arg[2].t;
    const int64_t last = -1;
    cr_steps s = {0};

    if (!cr_is_sparse(mask))
        return cr_sparse_refuse(cr_entry._sparse_sampled, arg);
    cr_tensor *coo = cr_step_indexed(&s, mask);
    if (s.st)
        return cr_steps_give(&s, result, NULL);
    const cr_sparse *p = cr_sparse_of(coo);
    cr_tensor *x = CR_STEP(&s, index_select, arg[0], I(0), T(cr_step_row(&s, p->indices, 0)));
    cr_tensor *y = CR_STEP(&s, index_select, arg[1], I(1), T(cr_step_row(&s, p->indices, 1)));
    cr_tensor *product = CR_STEP(&s, mul, T(x), T(CR_STEP(&s, t, T(y))));
    cr_tensor *values = CR_STEP(&s, sum, T(product), cr_of_ints(&last, 1));
    return cr_steps_give(&s, result, CR_STEP(&s, _sparse_with_values, T(mask), T(values)));
}

/* A COO tensor of all elements of a strided tensor. */
cr_status cr_do_sparse_full(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t;
    cr_steps s = {0};
    int64_t n = self->numel;

    cr_tensor *indices =
        cr_step_unflat(&s, cr_step_arange(&s, n, self), self->ndim, self->size);
    cr_tensor *values = CR_STEP(&s, reshape, T(self), cr_of_ints(&n, 1));
    return cr_steps_give(&s, result, cr_step_coo_like(&s, self, indices, values, true));
}
