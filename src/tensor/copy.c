/* Copies and fills of elements on any device.  The host's are commands of its table. */
#include "device/cpu/cpu.h"
#include "kern/move.h"
#include "num/convert.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include "tensor/remote.h"
#include <string.h>

/* Elements up to which a copy has one memmove. */
enum { COPY_SHORT = 32768 };

static void copy_host(const cr_view *to, const cr_view *from)
{
    cr_array a = cr_array_of(to), b = cr_array_of(from);

    (void)cr_host_move(0, &a, &b); /* cannot fail */
}

/* Copies overlapping views through a temporary copy of the source. */
static cr_status copy_apart(const cr_view *to, const cr_view *from)
{
    int64_t stride[CR_MAX_DIMS];
    uint32_t class;
    cr_view between = *from;

    cr_row_major_strides(stride, from->ndim, from->size);
    between.stride = stride;
    between.data = cr_cpu_get(
        (size_t)cr_numel(from->ndim, from->size) * cr_dtype_size(from->dtype), &class);
    CR_NEED(between.data);
    copy_host(&between, from);
    copy_host(to, &between);
    cr_cpu_release(between.data, class);
    return CR_OK;
}

static bool same_layout(const cr_view *a, const cr_view *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           !memcmp(a->size, b->size, a->ndim * sizeof *a->size) &&
           cr_is_contiguous(a->ndim, a->size, a->stride) &&
           cr_is_contiguous(b->ndim, b->size, b->stride);
}

cr_status cr_copy_elements(const cr_view *to, const cr_view *from)
{
    int64_t n = cr_numel(to->ndim, to->size);

    if (n == 0 || !to->data || !from->data)
        return CR_OK;
    if (CR_UNLIKELY(!cr_is_host(to->device) || !cr_is_host(from->device)))
        return cr_remote_copy(to, from);
    if (n <= COPY_SHORT && same_layout(to, from)) {
        memmove(to->data, from->data, (size_t)n * cr_dtype_size(to->dtype));
        return CR_OK;
    }
    cr_overlap overlap = cr_overlap_of(to, from);
    if (overlap != CR_APART)
        return overlap == CR_SAME && to->dtype == from->dtype ? CR_OK : copy_apart(to, from);
    copy_host(to, from);
    return CR_OK;
}

cr_status cr_copy_few(const cr_view *to, const cr_view *from, int64_t few)
{
    cr_dtype t = (cr_dtype)to->dtype, f = (cr_dtype)from->dtype;
    int64_t n = cr_numel(from->ndim, from->size);

    if (n > few || !cr_is_host(to->device) ||
        !cr_is_contiguous(to->ndim, to->size, to->stride) ||
        !cr_is_contiguous(from->ndim, from->size, from->stride))
        return cr_copy_elements(to, from);
    cr_convert_row(t, f)(to->data, (int64_t)cr_dtype_size(t), from->data,
                         (int64_t)cr_dtype_size(f), n);
    return CR_OK;
}

cr_status cr_fill_elements(const cr_view *to, cr_scalar value)
{
    _Alignas(16) char element[sizeof(cr_complex)] = {0};
    cr_array a = cr_array_of(to);

    if (!cr_numel(to->ndim, to->size) || !to->data)
        return CR_OK;
    cr_scalar_store(value, to->dtype, element);
    if (CR_UNLIKELY(!cr_is_host(to->device)))
        return cr_remote_fill(to, element);
    return cr_device_status(cr_host_fill(0, &a, element));
}
