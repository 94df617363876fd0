/* Sums of sparse tensors: every rank gets the indices and values of all, one after the
 * other. */
#include "dist/sparse_sum.h"
#include "base/memory.h"
#include "tensor/sparse.h"
#include <string.h>

/* What one average needs: counts by rank, and the indices as rows [values, sparse dims]. */
typedef struct {
    cr_comm *comm;
    const cr_tensor *grad;
    const char *where;
    double factor;
    int dims, size;
    int64_t *count, total;
    int64_t *rows, *all_rows;
    cr_tensor *own, *values, *indices;
} averaging;

static void averaging_drop(averaging *a)
{
    cr_drop(a->own);
    cr_drop(a->values);
    cr_drop(a->indices);
    cr_free(a->rows);
    cr_free(a->all_rows);
    cr_free(a->count);
}

/* Collects `per` elements for each value of each rank. */
static cr_status average_gather(const averaging *a, cr_dtype dtype, void *own, void *all,
                                int64_t per)
{
    cr_buffer *out = cr_alloc((size_t)a->size * sizeof *out);
    cr_buffer in = {own, a->count[cr_comm_rank(a->comm)] * per};
    cr_call_args call = {.kind = CR_CALL_ALL_GATHER,
                         .dtype = dtype,
                         .root = -1,
                         .ins = 1,
                         .in = &in,
                         .outs = a->size,
                         .out = out};
    char *at = all;

    CR_NEED(out);
    for (int r = 0; r < a->size; r++) {
        out[r] = (cr_buffer){at, a->count[r] * per};
        at += (size_t)out[r].count * cr_dtype_size(dtype);
    }
    cr_status st = cr_comm_run(a->comm, &call, a->where);
    cr_free(out);
    return st;
}

static cr_status average_counts(averaging *a)
{
    int64_t own = cr_sparse_count(a->grad);

    a->count = cr_alloc((size_t)a->size * sizeof *a->count);
    CR_NEED(a->count);
    for (int r = 0; r < a->size; r++)
        a->count[r] = 1;
    CR_TRY(average_gather(a, CR_I64, &own, a->count, 1));
    for (int r = 0; r < a->size; r++)
        a->total += a->count[r];
    return CR_OK;
}

/* This rank's indices as rows. */
static cr_status average_rows(averaging *a)
{
    const cr_tensor *t = cr_sparse_of(a->grad)->indices;
    char *at;

    CR_TRY(cr_reach(&at, t));
    for (int64_t i = 0; i < t->size[1]; i++)
        for (int d = 0; d < a->dims; d++)
            a->rows[i * a->dims + d] =
                ((const int64_t *)(const void *)at)[d * t->stride[0] + i * t->stride[1]];
    return CR_OK;
}

static cr_status average_indices(averaging *a)
{
    int64_t size[2] = {a->dims, a->total};
    size_t row = (size_t)a->dims * sizeof(int64_t);

    a->rows = cr_alloc((size_t)cr_sparse_count(a->grad) * row + 1);
    a->all_rows = cr_alloc((size_t)a->total * row + 1);
    CR_NEED(a->rows && a->all_rows);
    CR_TRY(average_rows(a));
    CR_TRY(average_gather(a, CR_I64, a->rows, a->all_rows, a->dims));
    CR_TRY(cr_tensor_new(&a->indices, CR_I64, a->grad->device, 2, size));
    char *bytes;
    CR_TRY(cr_reach(&bytes, a->indices));
    int64_t *to = (int64_t *)(void *)bytes;
    for (int64_t i = 0; i < a->total; i++)
        for (int d = 0; d < a->dims; d++)
            to[d * a->total + i] = a->all_rows[i * a->dims + d];
    return CR_OK;
}

static cr_status average_values(averaging *a)
{
    const cr_tensor *own = cr_sparse_of(a->grad)->values;
    cr_dtype dtype = (cr_dtype)own->dtype;
    int64_t size[CR_MAX_DIMS], per = 1;

    memcpy(size, own->size, sizeof size);
    for (int d = 1; d < own->ndim; d++)
        per *= size[d];
    CR_TRY(cr_tensor_new(&a->own, dtype, own->device, own->ndim, size));
    CR_TRY(cr_copy_tensor(a->own, own));
    size[0] = a->total;
    CR_TRY(cr_tensor_new(&a->values, dtype, own->device, own->ndim, size));
    char *from, *to;
    CR_TRY(cr_reach(&from, a->own));
    CR_TRY(cr_reach(&to, a->values));
    CR_TRY(average_gather(a, dtype, from, to, per));
    if (a->factor != 1)
        cr_reduce_scale(dtype, to, a->values->numel, a->factor);
    return CR_OK;
}

cr_status cr_sparse_sum(cr_tensor **out, cr_comm *comm, const cr_tensor *grad, double factor,
                        const char *where)
{
    averaging a = {.comm = comm,
                   .grad = grad,
                   .where = where,
                   .factor = factor,
                   .dims = cr_sparse_dims(grad),
                   .size = cr_comm_size(comm)};
    cr_status st = CR_OK;

    CR_GO(average_counts(&a));
    CR_GO(average_indices(&a));
    CR_GO(average_values(&a));
    cr_sparse parts = {.indices = a.indices, .values = a.values};
    CR_GO(cr_sparse_new(out, CR_LAYOUT_COO, grad->ndim, grad->size, &parts));
done:
    averaging_drop(&a);
    return st;
}

cr_status cr_sparse_zeros(cr_tensor **out, const cr_tensor *like)
{
    int64_t none[2] = {1, 0}, size[CR_MAX_DIMS];
    cr_sparse parts = {.coalesced = true};
    cr_status st = CR_OK;

    memcpy(size, like->size, sizeof size);
    size[0] = 0;
    CR_GO(cr_tensor_new(&parts.indices, CR_I64, like->device, 2, none));
    CR_GO(cr_tensor_new(&parts.values, (cr_dtype)like->dtype, like->device, like->ndim, size));
    CR_GO(cr_sparse_new(out, CR_LAYOUT_COO, like->ndim, like->size, &parts));
done:
    cr_drop(parts.indices);
    cr_drop(parts.values);
    return st;
}
