/* Dense copies of views. */
#include "kern/cpu/pack.h"
#include "device/cpu/cpu.h"
#include "device/device.h"
#include "kern/cpu/walk.h"
#include "kern/move.h"
#include <string.h>

enum { ALIGNMENT = 64 };

/* the block's size class is stored in the 64 bytes before the memory */
void *cr_aligned_alloc(size_t size)
{
    uint32_t size_class;
    char *block = cr_cpu_get_scratch(size + ALIGNMENT, &size_class);

    if (!block)
        return NULL;
    memcpy(block, &size_class, sizeof size_class);
    return block + ALIGNMENT;
}

void cr_aligned_free(void *p)
{
    uint32_t size_class;

    if (!p)
        return;
    memcpy(&size_class, (char *)p - ALIGNMENT, sizeof size_class);
    cr_cpu_release((char *)p - ALIGNMENT, size_class);
}

/* --- dense copies --- */

static cr_view row_major(void *data, cr_dtype t, const cr_view *like, int64_t *stride)
{
    cr_view v = *like;

    cr_dense_strides(stride, like->ndim, like->size);
    v.data = data;
    v.dtype = (uint8_t)t;
    v.stride = stride;
    return v;
}

void cr_pack(void *dst, cr_dtype to, const cr_view *v)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view dense = row_major(dst, to, v, stride);

    cr_copy_view(&dense, v);
}

void cr_unpack(const cr_view *v, const void *src, cr_dtype from)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view dense = row_major((void *)(uintptr_t)src, from, v, stride);

    cr_copy_view(v, &dense);
}

/* --- dense arrays, on the host or on the view's device --- */

cr_status cr_dense_take(cr_dense *d, cr_device device, size_t bytes)
{
    *d = (cr_dense){.device = device};
    if (cr_is_host(device)) {
        d->owned = cr_aligned_alloc(bytes);
        return (d->data = d->owned) ? CR_OK : CR_MEMORY;
    }
    d->owned =
        cr_device_of((cr_device_kind)device.kind)->get(device.index, bytes + !bytes, &d->block);
    return (d->data = d->owned) ? CR_OK : cr_device_no_memory(device, bytes);
}

static cr_status dense_room(cr_dense *d, const cr_view *v, cr_dtype t)
{
    return cr_dense_take(d, v->device, (size_t)cr_view_numel(v) * cr_dtype_size(t));
}

/* Copies between the view and the row-major elements of dtype t at `data`, on its device. */
static cr_status dense_move(const cr_view *v, char *data, cr_dtype t, bool to_view)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view dense = row_major(data, t, v, stride);
    cr_array a = cr_array_of(v), b = cr_array_of(&dense);

    if (cr_is_host(v->device)) {
        cr_host_move(0, to_view ? &a : &b, to_view ? &b : &a);
        return CR_OK;
    }
    return cr_device_status(cr_device_of((cr_device_kind)v->device.kind)
                                ->move(v->device.index, to_view ? &a : &b, to_view ? &b : &a));
}

cr_status cr_dense_in(cr_dense *d, const cr_view *v, cr_dtype to)
{
    *d = (cr_dense){.data = v->data, .device = v->device};
    if (v->dtype == to && cr_view_is_contiguous(v))
        return CR_OK;
    CR_TRY(dense_room(d, v, to));
    return dense_move(v, d->data, to, false);
}

cr_status cr_dense_out(cr_dense *d, const cr_view *v, cr_dtype from)
{
    *d = (cr_dense){.data = v->data, .device = v->device};
    return v->dtype == from && cr_view_is_contiguous(v) ? CR_OK : dense_room(d, v, from);
}

cr_status cr_dense_store(const cr_dense *d, const cr_view *v, cr_dtype from)
{
    return d->owned ? dense_move(v, d->data, from, true) : CR_OK;
}

cr_status cr_dense_clear(const cr_dense *d, size_t bytes)
{
    int64_t n = (int64_t)bytes, one = 1;
    const uint8_t zero = 0;
    cr_array a = {d->data, CR_U8, 1, &n, &one};

    if (!cr_is_host(d->device))
        return cr_device_status(
            cr_device_of((cr_device_kind)d->device.kind)->fill(d->device.index, &a, &zero));
    memset(d->data, 0, bytes);
    return CR_OK;
}

void cr_dense_drop(cr_dense *d)
{
    if (d->owned && !cr_is_host(d->device))
        cr_device_of((cr_device_kind)d->device.kind)
            ->release(d->device.index, d->owned, d->block);
    else
        cr_aligned_free(d->owned);
    d->owned = NULL;
}
