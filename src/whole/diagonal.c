/* Filling diagonals. */
#include "whole/whole_impl.h"

static cr_status check_diagonal(const cr_tensor *t)
{
    if (t->ndim < 2)
        return cr_fail(CR_RUNTIME, "dimensions must larger than 1");
    for (int i = 1; t->ndim > 2 && i < t->ndim; i++)
        if (t->size[i] != t->size[0])
            return cr_fail(CR_RUNTIME, "all dimensions of input must be of equal length");
    return CR_OK;
}

/* Fills the diagonal that starts at row `first`. */
static cr_status fill_run(cr_tensor *t, int64_t first, cr_scalar value)
{
    int64_t size = t->size[0] - first, stride = 0;
    cr_view v = cr_view_of(t);

    for (int i = 0; i < t->ndim; i++) {
        stride = CR_WRAP_ADD(stride, t->stride[i]);
        if (i > 0 && t->size[i] < size)
            size = t->size[i];
    }
    v.data = cr_moved(v.data, CR_WRAP_MUL(first, t->stride[0]), cr_dtype_size(t->dtype));
    v.ndim = 1;
    v.size = &size;
    v.stride = &stride;
    return cr_fill_elements(&v, value);
}

static cr_status fill_diagonal(cr_tensor *t, cr_scalar value, bool wrap)
{
    CR_TRY(check_diagonal(t));
    CR_TRY(cr_check_fits(value, t->dtype));
    if (!t->address || !t->numel)
        return CR_OK;
    for (int64_t row = 0; row < t->size[0]; row += t->size[1] + 1) {
        CR_TRY(fill_run(t, row, value));
        if (!wrap || t->ndim > 2)
            break;
    }
    return CR_OK;
}

cr_status cr_do_fill_diagonal(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t;

    CR_TRY(fill_diagonal(t, arg[1].number, arg[2].i));
    return cr_give_changed(result, t);
}

cr_status cr_do_filled_diagonal(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    cr_tensor *made;

    CR_TRY(cr_copy_as(&made, t, t->dtype, t->device, CR_FORMAT_PRESERVE));
    cr_status st = fill_diagonal(made, arg[1].number, arg[2].i);
    if (st)
        cr_drop(made);
    else
        *result = cr_of_tensor(made);
    return st;
}
