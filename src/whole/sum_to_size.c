/* Sums that undo a broadcast. */
#include "whole/whole_impl.h"

static cr_status refuse_reduction(const cr_tensor *t, int ndim, const int64_t *size)
{
    return cr_fail(CR_RUNTIME, "size {%s} is not expandable to size {%s}.",
                   cr_shape_text(ndim, size), cr_view_text(t));
}

/* The dims to sum over; -1 when `size` does not broadcast to t's. */
static int dims_to_sum(const cr_tensor *t, int ndim, const int64_t *size, int64_t *dims)
{
    int shift = t->ndim - ndim, n = 0;

    if (!cr_expands(ndim, size, t->ndim, t->size))
        return -1;
    for (int i = 0; i < t->ndim; i++)
        if (i < shift || (size[i - shift] == 1 && t->size[i] != 1))
            dims[n++] = i;
    return n;
}

cr_status cr_reduce_to_size(cr_tensor **out, cr_tensor *t, int ndim, const int64_t *size)
{
    int64_t dims[CR_MAX_DIMS];
    int n = dims_to_sum(t, ndim, size, dims);
    cr_tensor *summed = NULL;

    if (n < 0)
        return refuse_reduction(t, ndim, size);
    if (n == 0) {
        *out = cr_keep(t);
        return CR_OK;
    }
    cr_value arg[4] = {cr_of_tensor(t), cr_of_ints(dims, (size_t)n), cr_of_bool(true),
                       cr_of_dtype((cr_dtype)t->dtype)};
    CR_TRY(cr_call_tensor(&summed, cr_entry.sum, arg, 4));
    if (summed->ndim == ndim) {
        *out = summed;
        return CR_OK;
    }
    cr_status st =
        cr_call_tensor(out, cr_entry.reshape,
                       (cr_value[]){cr_of_tensor(summed), cr_of_ints(size, (size_t)ndim)}, 2);
    cr_drop(summed);
    return st;
}
