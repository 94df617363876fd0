/* Deformable convolution: every tap of the kernel is moved by an offset that depends on the
 * place of the result, and reads the input there by linear interpolation.
 *
 * The columns [images, channels * taps, places] times the weight are the result.  Channels of
 * an offset group share offsets, so the stencils of a block of places serve a range of
 * channels. */
#include "base/memory.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/plane/deform_job.h"
#include "kern/cpu/plane/spread.h"
#include "kern/cpu/walk.h"
#include <math.h>
#include <string.h>

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/plane/deform_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/plane/deform_loops.inc"

/* arg: input, weight, offset, mask, shifts, groups, offset_groups, use_mask */
static deform deform_of(const cr_value *arg)
{
    const cr_view *x = arg[0].view, *weight = arg[1].view, *offset = arg[2].view;
    deform d = {.images = x->size[0], .channels = x->size[1], .offset_groups = arg[6].i};

    for (int k = 0; k < 2; k++) {
        d.size[k] = x->size[2 + k];
        d.kernel[k] = weight->size[2 + k];
        d.places[k] = offset->size[2 + k];
        d.stride[k] = arg[4].ints[k];
        d.pad[k] = arg[4].ints[2 + k];
        d.dilation[k] = arg[4].ints[4 + k];
    }
    return d;
}

typedef enum { DEFORM_COLUMNS, DEFORM_INPUT, DEFORM_OFFSET, DEFORM_MASK } deform_what;

/* Adds what `units` columns from column w->list.from on send to the elements of their
 * images. */
static cr_status deform_spread_part(deform_job *w, cr_dtype t, cr_device device, int64_t units)
{
    static const cr_loops list = CR_LOOPS(CR_LOOPS_DEFORM, deform_job, list);
    static const cr_loops mark = CR_LOOPS(CR_LOOPS_DEFORM, deform_job, mark);
    static const cr_loops gather = CR_LOOPS(CR_LOOPS_DEFORM, deform_job, gather);
    int64_t columns = deform_columns(&w->d), last = (w->list.from + units - 1) / columns;
    cr_spread memory;
    cr_status st;

    w->group = w->list.from / columns;
    w->each = SPREAD_CHANNELS;
    CR_GO(cr_spread_take(&memory, &w->list, device, t, 4 * units,
                         (last - w->group + 1) * deform_plane(&w->d)));
    CR_GO(cr_loops_run(device, &list, t, units, 1, w));
    CR_GO(cr_spread_sort(&w->list, device));
    CR_GO(cr_loops_run(device, &mark, t, w->list.n, 1, w));
    CR_GO(cr_loops_run(device, &gather, t, w->list.places * deform_ranges(w), 1, w));
done:
    cr_spread_drop(&memory);
    return st;
}

static cr_status deform_channels_there(deform_job *w, deform_what what, cr_dtype t,
                                       cr_device device)
{
    static const cr_loops columns = CR_LOOPS(CR_LOOPS_DEFORM, deform_job, columns);
    int64_t all = w->d.images * w->d.offset_groups * deform_columns(&w->d);
    int64_t each = CR_SPREAD_MOST / 4;

    w->each = DEFORM_CHANNELS;
    if (what == DEFORM_COLUMNS)
        return cr_loops_run(device, &columns, t, all * deform_ranges(w), 1, w);
    for (w->list.from = 0; w->list.from < all; w->list.from += each)
        CR_TRY(deform_spread_part(w, t, device,
                                  all - w->list.from < each ? all - w->list.from : each));
    return CR_OK;
}

static cr_status deform_compute(deform_job *w, deform_what what, cr_dtype t, cr_device device)
{
    static const cr_loops channels = CR_LOOPS(CR_LOOPS_DEFORM, deform_job, channels);
    static const cr_loops slopes = CR_LOOPS(CR_LOOPS_DEFORM, deform_job, slopes);
    const deform *d = &w->d;
    int64_t groups = d->images * d->offset_groups, places = d->places[0] * d->places[1];

    w->of_mask = what == DEFORM_MASK;
    w->each = DEFORM_CHANNELS;
    if (what != DEFORM_COLUMNS && what != DEFORM_INPUT)
        return cr_loops_run(device, &slopes, t, groups * d->kernel[0] * d->kernel[1] * places,
                            places, w);
    if (cr_is_host(device))
        return cr_loops_run(device, &channels, t, groups * deform_ranges(w), 1, w);
    return deform_channels_there(w, what, t, device);
}

/* `grad` is the cotangent of the columns; NULL when the columns are computed. */
static cr_status deform_run(const cr_view *grad, const cr_value *arg, const cr_view *out,
                            deform_what what)
{
    cr_dtype t = arg[0].view->dtype == CR_F64 ? CR_F64 : CR_F32;
    cr_dense x = {0}, offset = {0}, mask = {0}, g = {0}, to = {0};
    deform_job w = {.d = deform_of(arg)};
    cr_status st;

    CR_GO(cr_dense_in(&x, arg[0].view, t));
    CR_GO(cr_dense_in(&offset, arg[2].view, t));
    CR_GO(arg[7].i ? cr_dense_in(&mask, arg[3].view, t) : CR_OK);
    CR_GO(grad ? cr_dense_in(&g, grad, t) : CR_OK);
    CR_GO(cr_dense_out(&to, out, t));
    w.x = x.data, w.offset = offset.data, w.g = g.data, w.out = to.data;
    w.mask = arg[7].i ? mask.data : NULL;
    if (what == DEFORM_INPUT)
        CR_GO(cr_dense_clear(&to, (size_t)cr_view_numel(out) * cr_dtype_size(t)));
    CR_GO(deform_compute(&w, what, t, out->device));
    CR_GO(cr_dense_store(&to, out, t));
done:
    cr_dense_drop(&x);
    cr_dense_drop(&offset);
    cr_dense_drop(&mask);
    cr_dense_drop(&g);
    cr_dense_drop(&to);
    return st;
}

cr_status cr_kern_deform_columns(const cr_value *arg, cr_view *out)
{
    return cr_view_numel(out) ? deform_run(NULL, arg, out, DEFORM_COLUMNS) : CR_OK;
}

/* The derivatives: (grad, arguments...) */
cr_status cr_kern_deform_input_grad(const cr_value *arg, cr_view *out)
{
    return cr_view_numel(out) ? deform_run(arg[0].view, arg + 1, out, DEFORM_INPUT) : CR_OK;
}

cr_status cr_kern_deform_offset_grad(const cr_value *arg, cr_view *out)
{
    return cr_view_numel(out) ? deform_run(arg[0].view, arg + 1, out, DEFORM_OFFSET) : CR_OK;
}

cr_status cr_kern_deform_mask_grad(const cr_value *arg, cr_view *out)
{
    if (!cr_view_numel(out))
        return CR_OK;
    if (arg[8].i)
        return deform_run(arg[0].view, arg + 1, out, DEFORM_MASK);
    cr_dense zero = {.data = out->data, .device = out->device};
    return cr_dense_clear(&zero, (size_t)cr_view_numel(out) * cr_view_item(out));
}
