/* Copies and conversions without stages. */
#include "tensor/plain.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include <string.h>

cr_status cr_new_like(cr_tensor **out, const cr_tensor *like, cr_dtype dtype, cr_device device,
                      int64_t format)
{
    int64_t stride[CR_MAX_DIMS];

    if (format == CR_FORMAT_CONTIGUOUS ||
        (format == CR_FORMAT_PRESERVE && cr_is_row_major(like->ndim, like->size, like->stride)))
        return cr_tensor_new(out, dtype, device, like->ndim, like->size);
    if (format == CR_FORMAT_PRESERVE)
        cr_like_strides(like->ndim, like->size, like->stride, stride);
    else
        CR_TRY(cr_format_strides(format, like->ndim, like->size, stride));
    return cr_tensor_new_strided(out, dtype, device, like->ndim, like->size, stride);
}

cr_status cr_check_copy(const cr_tensor *to, const cr_tensor *from)
{
    if (!cr_has_bytes(from->device) && cr_has_bytes(to->device))
        return cr_fail(CR_NOT_IMPLEMENTED, "Cannot copy out of meta tensor; no data!");
    return CR_OK;
}

cr_status cr_copy_as(cr_tensor **out, const cr_tensor *t, cr_dtype dtype, cr_device device,
                     int64_t format)
{
    cr_tensor *made = NULL;
    cr_status st;

    CR_GO(cr_new_like(&made, t, dtype, device, format));
    CR_GO(cr_check_copy(made, t));
    CR_GO(cr_copy_tensor(made, t));
    *out = made;
    made = NULL;
done:
    cr_drop(made);
    return st;
}

cr_status cr_copy_plain(cr_tensor **out, const cr_tensor *t)
{
    return cr_copy_as(out, t, (cr_dtype)t->dtype, t->device, CR_FORMAT_CONTIGUOUS);
}

cr_status cr_contiguous_plain(cr_tensor **out, cr_tensor *t)
{
    if (!t->contiguous || cr_is_lazy(t))
        return cr_copy_plain(out, t);
    *out = cr_keep(t);
    return CR_OK;
}

cr_status cr_cast_plain(cr_tensor **out, cr_tensor *t, cr_dtype dtype)
{
    cr_tensor *made = NULL;
    cr_status st;

    if (t->dtype == dtype && !cr_is_lazy(t)) {
        *out = cr_keep(t);
        return CR_OK;
    }
    cr_shape shape = {.ndim = t->ndim};
    memcpy(shape.size, t->size, t->ndim * sizeof *t->size);
    cr_value v = cr_of_tensor(t);
    CR_TRY(cr_result_like(&made, dtype, t->device, &shape, NULL, &v));
    st = cr_copy_tensor(made, t);
    if (st) {
        cr_drop(made);
        return st;
    }
    made->number = t->number;
    *out = made;
    return CR_OK;
}

cr_status cr_as_tensor(cr_tensor **out, const cr_value *v)
{
    if (v->tag == CR_TENSOR) {
        *out = cr_keep(v->t);
        return CR_OK;
    }
    return cr_tensor_scalar(out, v->number, cr_value_dtype(v), true);
}

cr_status cr_tensor_on_host(cr_tensor **out, cr_tensor *t)
{
    CR_TRY(cr_defer_settle(t));
    if (CR_UNLIKELY(t->address && (!cr_is_host(t->device) || cr_is_lazy(t))))
        return cr_copy_as(out, t, (cr_dtype)t->dtype, CR_HOST, CR_FORMAT_CONTIGUOUS);
    *out = cr_keep(t);
    return CR_OK;
}
