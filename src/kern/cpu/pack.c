/* Dense copies of views.
 *
 * A view is copied row by row: a row function converts the `n` elements of the last dimension,
 * which has a stride; loops run over the outer dimensions.  Threads share the rows.  Every
 * element is written once, so any division is allowed. */
#include "kern/cpu/pack.h"
#include "device/cpu/cpu.h"
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

/* Both sides of a copy.  The side that is read may be broadcast (stride 0). */
typedef struct {
    cr_convert_fn row;
    char *to;
    const char *from;
    size_t to_bytes, from_bytes;
    int ndim; /* outer dimensions */
    int64_t size[CR_MAX_DIMS], to_stride[CR_MAX_DIMS], from_stride[CR_MAX_DIMS];
    int64_t n, to_inner, from_inner;
} walk;

static void pack_rows(void *context, int64_t begin, int64_t end)
{
    const walk *w = context;

    for (int64_t r = begin; r < end; r++) {
        int64_t rest = r, to = 0, from = 0;

        for (int d = w->ndim - 1; d >= 0; d--) {
            int64_t i = rest % w->size[d];

            rest /= w->size[d];
            to += i * w->to_stride[d];
            from += i * w->from_stride[d];
        }
        w->row(w->to + to * (int64_t)w->to_bytes, w->to_inner * (int64_t)w->to_bytes,
               w->from + from * (int64_t)w->from_bytes, w->from_inner * (int64_t)w->from_bytes,
               w->n);
    }
}

/* Adds an outermost dimension, joined with the present outermost one when both sides have even
 * steps over the two. */
static void pack_add_dim(walk *w, int64_t size, int64_t to, int64_t from)
{
    int last = w->ndim - 1;

    if (size == 1)
        return;
    if (last >= 0 && to == CR_WRAP_MUL(w->to_stride[last], w->size[last]) &&
        from == CR_WRAP_MUL(w->from_stride[last], w->size[last])) {
        w->size[last] *= size;
        return;
    }
    w->size[w->ndim] = size;
    w->to_stride[w->ndim] = to;
    w->from_stride[w->ndim++] = from;
}

/* Dims were added innermost first: takes the innermost as the row and reverses the others. */
static void finish_dims(walk *w)
{
    w->n = w->ndim ? w->size[0] : 1;
    w->to_inner = w->ndim ? w->to_stride[0] : 1;
    w->from_inner = w->ndim ? w->from_stride[0] : 1;
    for (int i = 1, j = w->ndim - 1; i < j; i++, j--) {
        int64_t s = w->size[i], t = w->to_stride[i], f = w->from_stride[i];

        w->size[i] = w->size[j], w->to_stride[i] = w->to_stride[j];
        w->from_stride[i] = w->from_stride[j];
        w->size[j] = s, w->to_stride[j] = t, w->from_stride[j] = f;
    }
    if (w->ndim) {
        w->ndim--;
        memmove(w->size, w->size + 1, (size_t)w->ndim * sizeof *w->size);
        memmove(w->to_stride, w->to_stride + 1, (size_t)w->ndim * sizeof *w->size);
        memmove(w->from_stride, w->from_stride + 1, (size_t)w->ndim * sizeof *w->size);
    }
}

enum { GRAIN_ELEMENTS = 32768 };

static void pack_run(walk *w)
{
    int64_t rows = 1, grain;

    finish_dims(w);
    for (int d = 0; d < w->ndim; d++)
        rows *= w->size[d];
    grain = GRAIN_ELEMENTS / (w->n ? w->n : 1) + 1;
    if (w->n)
        cr_parallel_for(rows, grain, pack_rows, w);
}

static void pack_start(walk *w, char *to, cr_dtype to_type, const char *from,
                       cr_dtype from_type)
{
    w->row = cr_convert_row(to_type, from_type);
    w->to = to;
    w->from = from;
    w->to_bytes = cr_dtype_size(to_type);
    w->from_bytes = cr_dtype_size(from_type);
    w->ndim = 0;
}

void cr_pack(void *dst, cr_dtype to, const cr_view *v)
{
    walk w;
    int64_t dense = 1;

    pack_start(&w, dst, to, v->data, (cr_dtype)v->dtype);
    for (int d = v->ndim - 1; d >= 0; d--) {
        pack_add_dim(&w, v->size[d], dense, v->stride[d]);
        dense *= v->size[d];
    }
    if (dense)
        pack_run(&w);
}

void cr_unpack(const cr_view *v, const void *src, cr_dtype from)
{
    walk w;
    int64_t dense = 1;

    pack_start(&w, v->data, (cr_dtype)v->dtype, src, from);
    for (int d = v->ndim - 1; d >= 0; d--) {
        pack_add_dim(&w, v->size[d], v->stride[d], dense);
        dense *= v->size[d];
    }
    if (dense)
        pack_run(&w);
}

void cr_broadcast_copy(const cr_view *to, const cr_view *from)
{
    walk w;
    int lead = to->ndim - from->ndim;

    if (!cr_view_numel(to))
        return;
    pack_start(&w, to->data, (cr_dtype)to->dtype, from->data, (cr_dtype)from->dtype);
    for (int d = to->ndim - 1; d >= 0; d--) {
        bool absent = d < lead || from->size[d - lead] == 1;
        pack_add_dim(&w, to->size[d], to->stride[d], absent ? 0 : from->stride[d - lead]);
    }
    pack_run(&w);
}

cr_status cr_dense_in(cr_dense *d, const cr_view *v, cr_dtype to)
{
    *d = (cr_dense){.data = v->data};
    if (v->dtype == to && cr_view_is_contiguous(v))
        return CR_OK;
    d->owned = cr_aligned_alloc((size_t)cr_view_numel(v) * cr_dtype_size(to));
    if (!d->owned)
        return CR_MEMORY;
    d->data = d->owned;
    cr_pack(d->data, to, v);
    return CR_OK;
}

cr_status cr_dense_out(cr_dense *d, const cr_view *v, cr_dtype from)
{
    *d = (cr_dense){.data = v->data};
    if (v->dtype == from && cr_view_is_contiguous(v))
        return CR_OK;
    d->owned = cr_aligned_alloc((size_t)cr_view_numel(v) * cr_dtype_size(from));
    d->data = d->owned;
    return d->owned ? CR_OK : CR_MEMORY;
}

void cr_dense_store(const cr_dense *d, const cr_view *v, cr_dtype from)
{
    if (d->owned)
        cr_unpack(v, d->data, from);
}

void cr_dense_drop(cr_dense *d)
{
    cr_aligned_free(d->owned);
    d->owned = NULL;
}
