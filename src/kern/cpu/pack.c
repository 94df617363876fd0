/* Dense copies of views.
 *
 * A view is copied row by row: a row function converts the `n` elements of the last dimension,
 * which has a stride; loops run over the outer dimensions.  Threads share the rows.  Every
 * element is written once, so any division is allowed. */
#include "kern/cpu/pack.h"
#include "device/cpu/cpu.h"
#include "device/device.h"
#include "kern/cpu/walk.h"
#include "num/convert.h"
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

/* --- iteration --- */

enum { TO, FROM, GRAIN_ELEMENTS = 32768 };

typedef struct {
    cr_convert_fn row;
    char *at[2];
    const cr_space_dim *column; /* the row's elements */
    int rows;                   /* the number of other dims */
    cr_space space;             /* steps in bytes */
} packing;

static void pack_line(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const packing *p = context;

    for (int64_t i = 0; i < n; i++)
        p->row(at[TO] + i * step[TO], p->column->step[TO], at[FROM] + i * step[FROM],
               p->column->step[FROM], p->column->size);
}

static void pack_rows(void *context, int64_t begin, int64_t end)
{
    const packing *p = context;

    cr_space_walk(&p->space, p->rows, p->at, begin, end, pack_line, context);
}

static void pack_set_dims(packing *p, const cr_view *to, const cr_view *from)
{
    int64_t item[2] = {(int64_t)cr_view_item(to), (int64_t)cr_view_item(from)};

    cr_space_start(&p->space, 2);
    for (int d = 0; d < to->ndim; d++) {
        int64_t *step = cr_space_add(&p->space, to->size[d], d);
        int64_t along = cr_broadcast_step(from->ndim, from->size, from->stride, to->ndim, d);
        step[TO] = CR_WRAP_MUL(to->stride[d], item[TO]);
        step[FROM] = CR_WRAP_MUL(along, item[FROM]);
    }
    cr_space_merge(&p->space, 0);
    p->column = cr_space_last(&p->space, 0);
    p->rows = p->space.ndim ? p->space.ndim - 1 : 0;
}

/* Copies elements; `from` is broadcast to the sizes of `to`. */
static void pack_views(const cr_view *to, const cr_view *from)
{
    packing p; /* not initialized: a space is long */

    if (!cr_view_numel(to))
        return;
    p.row = cr_convert_row((cr_dtype)to->dtype, (cr_dtype)from->dtype);
    p.at[TO] = to->data;
    p.at[FROM] = from->data;
    pack_set_dims(&p, to, from);
    cr_parallel_for(cr_space_count(&p.space, p.rows), GRAIN_ELEMENTS / p.column->size + 1,
                    pack_rows, &p);
}

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

    pack_views(&dense, v);
}

void cr_unpack(const cr_view *v, const void *src, cr_dtype from)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view dense = row_major((void *)(uintptr_t)src, from, v, stride);

    pack_views(v, &dense);
}

void cr_broadcast_copy(const cr_view *to, const cr_view *from) { pack_views(to, from); }

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

    return cr_device_status(cr_device_of((cr_device_kind)v->device.kind)
                                ->move(v->device.index, to_view ? &a : &b, to_view ? &b : &a));
}

cr_status cr_dense_in(cr_dense *d, const cr_view *v, cr_dtype to)
{
    *d = (cr_dense){.data = v->data, .device = v->device};
    if (v->dtype == to && cr_view_is_contiguous(v))
        return CR_OK;
    CR_TRY(dense_room(d, v, to));
    if (!cr_is_host(v->device))
        return dense_move(v, d->data, to, false);
    cr_pack(d->data, to, v);
    return CR_OK;
}

cr_status cr_dense_out(cr_dense *d, const cr_view *v, cr_dtype from)
{
    *d = (cr_dense){.data = v->data, .device = v->device};
    return v->dtype == from && cr_view_is_contiguous(v) ? CR_OK : dense_room(d, v, from);
}

cr_status cr_dense_store(const cr_dense *d, const cr_view *v, cr_dtype from)
{
    if (d->owned && !cr_is_host(d->device))
        return dense_move(v, d->data, from, true);
    if (d->owned)
        cr_unpack(v, d->data, from);
    return CR_OK;
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
