/* roi_align and ps_roi_align: bins of regions as averages of interpolated samples.
 *
 * A sample's weights are products of a row's and a column's, so a region has two lists of taps
 * for each row and column of bins, which the host makes once.  Samples outside of the plane
 * have no taps: their value is zero. */
#include "kern/cpu/plane/roi.h"
#include "base/memory.h"
#include "kern/cpu/entries.h"
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

enum { ROI_PART = 1 << 21 };

static cr_status roi_make_taps(roi_job *w, int64_t **first, cr_dtype t)
{
    int64_t lists = w->r.regions * (w->r.height + w->r.width);

    w->first = *first = cr_alloc((size_t)(lists + 1) * sizeof **first);
    CR_NEED(*first);
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

/* Adds what the regions of a part send to elements. */
static cr_status roi_gather_part(cr_roi_call *c)
{
    static const cr_loops near = CR_LOOPS(CR_LOOPS_ROI, roi_job, near);
    static const cr_loops mask = CR_LOOPS(CR_LOOPS_ROI, roi_job, mask);
    static const cr_loops gather = CR_LOOPS(CR_LOOPS_ROI, roi_job, gather);
    roi_job *w = &c->job;
    const cr_roi *r = &w->r;
    int64_t lines = r->rows + r->columns;
    int64_t words = cr_roi_words(w) * (r->images * r->rows + r->columns);
    cr_dense of_lines = {0}, masks = {0};
    cr_status st;

    CR_GO(cr_dense_take(&of_lines, c->device, (size_t)(w->some * lines) * sizeof *w->near));
    CR_GO(cr_dense_take(&masks, c->device, (size_t)words * sizeof *w->mask));
    w->near = (roi_near *)(void *)of_lines.data;
    w->mask = (uint32_t *)(void *)masks.data;
    CR_GO(cr_loops_run(c->device, &near, c->t, w->some * lines, 1, w));
    CR_GO(cr_loops_run(c->device, &mask, c->t, words, 1, w));
    CR_GO(cr_loops_run(c->device, &gather, c->t, r->images * cr_roi_groups(w) * cr_roi_plane(r),
                       1, w));
done:
    cr_dense_drop(&of_lines);
    cr_dense_drop(&masks);
    return st;
}

/* The derivative, of as many regions at once as ROI_PART rows and columns of the plane have. */
static cr_status roi_gather(cr_roi_call *c)
{
    roi_job *w = &c->job;
    const cr_roi *r = &w->r;
    int64_t each = ROI_PART / (r->rows + r->columns);

    CR_TRY(cr_dense_clear(&c->out, (size_t)(r->images * r->channels * cr_roi_plane(r)) *
                                       cr_dtype_size(c->t)));
    each = each > 32 ? each : 32;
    for (w->region = 0; w->region < r->regions; w->region += w->some) {
        w->some = r->regions - w->region < each ? r->regions - w->region : each;
        CR_TRY(roi_gather_part(c));
    }
    return CR_OK;
}

/* A thread has a bin, or an element of the input, of several channels. */
static cr_status roi_compute_there(cr_roi_call *c, bool back)
{
    static const cr_loops measure = CR_LOOPS(CR_LOOPS_ROI, roi_job, measure);
    static const cr_loops average = CR_LOOPS(CR_LOOPS_ROI, roi_job, average);
    roi_job *w = &c->job;
    size_t bytes = c->t == CR_F32 ? sizeof(f32_measured) : sizeof(f64_measured);
    cr_dense measured = {0};
    cr_status st;

    CR_GO(cr_dense_take(&measured, c->device, (size_t)w->r.regions * bytes + 1));
    w->measured = measured.data;
    w->each = w->r.sensitive ? 1 : ROI_CHANNELS;
    w->by_bin = true;
    CR_GO(cr_loops_run(c->device, &measure, c->t, w->r.regions, 1, w));
    if (back)
        CR_GO(roi_gather(c));
    else
        CR_GO(cr_loops_run(c->device, &average, c->t,
                           w->r.regions * cr_roi_ranges(w) * cr_roi_bins(&w->r), 1, w));
done:
    cr_dense_drop(&measured);
    return st;
}

/* [n, c, h, w] as [n, h, w, c] */
typedef struct {
    cr_view view;
    int64_t size[4], stride[4];
} roi_view;

static const cr_view *roi_channels_last(roi_view *to, const cr_view *v)
{
    static const int from[4] = {0, 2, 3, 1};

    to->view = *v;
    for (int d = 0; d < 4; d++) {
        to->size[d] = v->size[from[d]];
        to->stride[d] = v->stride[from[d]];
    }
    to->view.size = to->size;
    to->view.stride = to->stride;
    return &to->view;
}

/* The values of bins, or with `back` the derivative in the input, of which `out` has the
 * sizes. */
static cr_status roi_run(const char *name, const cr_roi *r, const cr_view *x,
                         const cr_view *regions, const cr_view *out, bool back)
{
    int64_t *first = NULL;
    roi_view x_last, out_last;
    cr_roi_call c;

    if (!cr_view_numel(out))
        return CR_OK;
    if (back && !cr_is_host(out->device)) {
        x = r->sensitive ? x : roi_channels_last(&x_last, x);
        out = roi_channels_last(&out_last, out);
    }
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
