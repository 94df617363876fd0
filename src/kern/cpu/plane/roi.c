/* roi_align and ps_roi_align: bins of regions as averages of interpolated samples.
 *
 * A sample's weights are products of a row's and a column's, so a region has two lists of taps
 * for each row and column of bins, which the host makes once.  Samples outside of the plane
 * have no taps: their value is zero. */
#include "kern/cpu/plane/roi.h"
#include "base/memory.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/plane/spread.h"
#include "kern/cpu/walk.h"
#include <math.h>
#include <stdio.h>

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/plane/roi_loops.inc"
#include "kern/cpu/plane/roi_taps.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/plane/roi_loops.inc"
#include "kern/cpu/plane/roi_taps.inc"

/* --- regions --- */

static cr_status roi_check_images(const char *name, const cr_roi_call *c)
{
    for (int64_t k = 0; k < c->job.r.regions; k++) {
        double v = c->t == CR_F32 ? (double)((const float *)c->job.regions)[5 * k]
                                  : ((const double *)c->job.regions)[5 * k];
        if (!cr_roi_has_image(&c->job.r, v))
            return cr_fail(CR_INDEX,
                           "%s: region %lld is of image %g, the input has %lld images", name,
                           (long long)k, v, (long long)c->job.r.images);
    }
    return CR_OK;
}

cr_status cr_roi_begin(cr_roi_call *c, const char *name, const cr_roi *r, const cr_view *x,
                       const cr_view *regions, const cr_view *out)
{
    char text[160];

    *c = (cr_roi_call){.job = {.r = *r, .each = 1},
                       .t = x->dtype == CR_F64 ? CR_F64 : CR_F32,
                       .device = out->device};
    CR_TRY(cr_dense_in(&c->x, x, c->t));
    CR_TRY(cr_dense_in(&c->regions, regions, c->t));
    CR_TRY(cr_dense_out(&c->out, out, c->t));
    c->job.x = c->x.data, c->job.regions = c->regions.data, c->job.out = c->out.data;
    if (cr_is_host(c->device))
        return roi_check_images(name, c);
    snprintf(text, sizeof text,
             "%s: region \1 is of an image that does not exist, the input has %lld images",
             name, (long long)r->images);
    return cr_loops_error_begin(&c->job.error, c->device, CR_INDEX, text);
}

cr_status cr_roi_end(cr_roi_call *c, const cr_view *out, cr_status st)
{
    if (!st)
        st = cr_dense_store(&c->out, out, c->t);
    cr_dense_drop(&c->x);
    cr_dense_drop(&c->regions);
    cr_dense_drop(&c->out);
    return st;
}

cr_status cr_roi_mapping(const cr_roi *r, const cr_view *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_ROI, roi_job, mapping);
    roi_job w = {.r = *r, .out = out->data};

    return cr_loops_run(out->device, &loops, CR_F32, cr_view_numel(out), 16384, &w);
}

/* --- averages --- */

static cr_status roi_make_taps(roi_job *w, int64_t **first, cr_dtype t)
{
    int64_t lists = w->r.regions * (w->r.height + w->r.width);

    w->first = *first = cr_alloc((size_t)(lists + 1) * sizeof **first);
    if (!*first)
        return CR_MEMORY;
    return t == CR_F32 ? f32_make_taps(w, *first) : f64_make_taps(w, *first);
}

static cr_status roi_compute(cr_roi_call *c, const cr_view *out, bool back)
{
    static const cr_loops average = CR_LOOPS(CR_LOOPS_ROI, roi_job, average);
    static const cr_loops spread = CR_LOOPS(CR_LOOPS_ROI, roi_job, spread);
    roi_job *w = &c->job;

    if (!back) {
        w->each = w->r.sensitive ? 1 : ROI_CHANNELS;
        return cr_loops_run(c->device, &average, c->t, w->r.regions * cr_roi_ranges(w), 4, w);
    }
    CR_TRY(cr_dense_clear(&c->out, (size_t)cr_view_numel(out) * cr_dtype_size(c->t)));
    return cr_loops_run(c->device, &spread, c->t, w->r.images * w->r.channels, 1, w);
}

/* Adds what `units` bins from bin w->list.from on send to the elements of their images. */
static cr_status roi_spread_part(cr_roi_call *c, int64_t units)
{
    static const cr_loops list = CR_LOOPS(CR_LOOPS_ROI, roi_job, list);
    static const cr_loops mark = CR_LOOPS(CR_LOOPS_ROI, roi_job, mark);
    static const cr_loops gather = CR_LOOPS(CR_LOOPS_ROI, roi_job, gather_list);
    roi_job *w = &c->job;
    int64_t groups = (w->r.channels + SPREAD_CHANNELS - 1) / SPREAD_CHANNELS;
    cr_spread memory;
    cr_status st;

    CR_GO(cr_spread_take(&memory, &w->list, c->device, c->t, units * cr_roi_sent(&w->r),
                         w->r.images * cr_roi_plane(&w->r)));
    CR_GO(cr_loops_run(c->device, &list, c->t, units, 1, w));
    CR_GO(cr_spread_sort(&w->list, c->device));
    CR_GO(cr_loops_run(c->device, &mark, c->t, w->list.n, 1, w));
    CR_GO(cr_loops_run(c->device, &gather, c->t, w->list.places * groups, 1, w));
done:
    cr_spread_drop(&memory);
    return st;
}

/* The derivative of bins that have the same number of samples. */
static cr_status roi_spread_there(cr_roi_call *c, size_t bytes)
{
    roi_job *w = &c->job;
    int64_t all = w->r.regions * cr_roi_bins(&w->r), each = CR_SPREAD_MOST / cr_roi_sent(&w->r);

    CR_TRY(cr_dense_clear(&c->out, bytes));
    for (w->list.from = 0; w->list.from < all; w->list.from += each)
        CR_TRY(roi_spread_part(c, all - w->list.from < each ? all - w->list.from : each));
    return CR_OK;
}

/* Whether a bin has few samples, as many as any other, and is of every channel. */
static bool roi_lists(const cr_roi *r)
{
    return !r->sensitive && r->samples > 0 && r->samples <= ROI_SAMPLES;
}

/* A thread has a bin, or an element of the input, of several channels. */
static cr_status roi_compute_there(cr_roi_call *c, bool back)
{
    static const cr_loops measure = CR_LOOPS(CR_LOOPS_ROI, roi_job, measure);
    static const cr_loops average = CR_LOOPS(CR_LOOPS_ROI, roi_job, average);
    static const cr_loops gather = CR_LOOPS(CR_LOOPS_ROI, roi_job, gather);
    roi_job *w = &c->job;
    size_t bytes = c->t == CR_F32 ? sizeof(f32_measured) : sizeof(f64_measured);
    cr_dense measured = {0};
    cr_status st;

    CR_GO(cr_dense_take(&measured, c->device, (size_t)w->r.regions * bytes + 1));
    w->measured = measured.data;
    w->each = w->r.sensitive ? 1 : ROI_CHANNELS;
    w->by_bin = true;
    CR_GO(cr_loops_run(c->device, &measure, c->t, w->r.regions, 1, w));
    if (back && roi_lists(&w->r))
        CR_GO(roi_spread_there(c, (size_t)(w->r.images * w->r.channels * cr_roi_plane(&w->r)) *
                                      cr_dtype_size(c->t)));
    else if (back)
        CR_GO(cr_loops_run(c->device, &gather, c->t,
                           w->r.images * cr_roi_groups(w) * cr_roi_plane(&w->r), 1, w));
    else
        CR_GO(cr_loops_run(c->device, &average, c->t,
                           w->r.regions * cr_roi_ranges(w) * cr_roi_bins(&w->r), 1, w));
done:
    cr_dense_drop(&measured);
    return st;
}

/* The values of bins, or with `back` the derivative in the input, of which `out` has the
 * sizes. */
static cr_status roi_run(const char *name, const cr_roi *r, const cr_view *x,
                         const cr_view *regions, const cr_view *out, bool back)
{
    int64_t *first = NULL;
    cr_roi_call c;

    if (!cr_view_numel(out))
        return CR_OK;
    cr_status st = cr_roi_begin(&c, name, r, x, regions, out);
    if (!st && cr_is_host(c.device))
        st = roi_make_taps(&c.job, &first, c.t);
    if (!st)
        st = cr_is_host(c.device) ? roi_compute(&c, out, back) : roi_compute_there(&c, back);
    cr_free(first);
    cr_free((void *)(uintptr_t)c.job.taps);
    return cr_roi_end(&c, out, st);
}

cr_roi cr_roi_of(const cr_view *x, const cr_view *regions, const cr_value *scale,
                 const cr_value *pooled)
{
    return (cr_roi){.images = x->size[0],
                    .channels = x->size[1],
                    .rows = x->size[2],
                    .columns = x->size[3],
                    .regions = regions->size[0],
                    .height = pooled[0].i,
                    .width = pooled[1].i,
                    .scale = scale->d};
}

/* (input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned) */
cr_status cr_kern_roi_align(const cr_value *arg, cr_view *out)
{
    cr_roi r = cr_roi_of(arg[0].view, arg[1].view, arg + 2, arg + 3);

    r.samples = arg[5].i;
    r.aligned = arg[6].i;
    return roi_run("roi_align", &r, arg[0].view, arg[1].view, out, false);
}

/* (grad, rois, spatial_scale, pooled_height, pooled_width, batch_size, channels, height, width,
 * sampling_ratio, aligned) */
cr_status cr_kern_roi_align_backward(const cr_value *arg, cr_view *out)
{
    cr_roi r = cr_roi_of(out, arg[1].view, arg + 2, arg + 3);

    r.samples = arg[9].i;
    r.aligned = arg[10].i;
    return roi_run("roi_align", &r, arg[0].view, arg[1].view, out, true);
}

/* (input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio) */
cr_status cr_kern_ps_roi_align(const cr_value *arg, cr_view *out)
{
    cr_roi r = cr_roi_of(arg[0].view, arg[1].view, arg + 2, arg + 3);

    r.samples = arg[5].i;
    r.aligned = r.sensitive = true;
    CR_TRY(roi_run("ps_roi_align", &r, arg[0].view, arg[1].view, &out[0], false));
    return cr_roi_mapping(&r, &out[1]);
}

/* (grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, sampling_ratio,
 * sizes...) */
cr_status cr_kern_ps_roi_align_backward(const cr_value *arg, cr_view *out)
{
    cr_roi r = cr_roi_of(out, arg[1].view, arg + 3, arg + 4);

    r.samples = arg[6].i;
    r.aligned = r.sensitive = true;
    return roi_run("ps_roi_align", &r, arg[0].view, arg[1].view, out, true);
}
