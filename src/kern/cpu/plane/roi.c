/* roi_align and ps_roi_align: bins of regions as averages of interpolated samples.
 *
 * A sample's weights are products of a row's and a column's, so a region has two lists of taps
 * for each row and column of bins.  Samples outside of the plane have no taps: their value is
 * zero. */
#include "kern/cpu/plane/roi.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/walk.h"
#include <math.h>
#include <string.h>

typedef struct {
    const cr_roi *r;
    const void *x, *regions; /* x: the input, or the cotangent of the result */
    void *out, *taps;
    int64_t *image, *first;
} roi_job;

enum { ROI_CHANNELS = 8 };

/* The channels of the result that one unit of work computes. */
static int64_t roi_range(const cr_roi *r) { return r->sensitive ? 1 : ROI_CHANNELS; }

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/plane/roi_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/plane/roi_loops.inc"

cr_status cr_roi_images(int64_t **out, const cr_roi *r, const cr_view *regions)
{
    int64_t *image = cr_alloc((size_t)r->regions * sizeof *image + 1);

    if (!image)
        return CR_MEMORY;
    for (int64_t k = 0; k < r->regions; k++) {
        const char *at =
            regions->data + k * regions->stride[0] * (int64_t)cr_view_item(regions);
        double v = cr_scalar_as_double(cr_scalar_load((cr_dtype)regions->dtype, at));
        if (!(v > -1 && v < (double)r->images && r->images)) { /* -0.5 is image 0 */
            cr_free(image);
            return cr_fail(CR_INDEX,
                           "%s: region %lld is of image %g, the input has %lld images", r->name,
                           (long long)k, v, (long long)r->images);
        }
        image[k] = (int64_t)v;
    }
    *out = image;
    return CR_OK;
}

void cr_roi_mapping(const cr_roi *r, int32_t *out)
{
    int64_t n = cr_roi_results(r) * cr_roi_bins(r);

    for (int64_t i = 0; i < r->regions * n; i++)
        out[i] = (int32_t)(i % n);
}

static cr_status roi_prepare(roi_job *w, const cr_view *regions, cr_dtype t)
{
    size_t lists = (size_t)w->r->regions * (size_t)(w->r->height + w->r->width);

    w->first = cr_alloc((lists + 1) * sizeof *w->first);
    if (!w->first)
        return CR_MEMORY;
    CR_TRY(cr_roi_images(&w->image, w->r, regions));
    return t == CR_F32 ? f32_make_taps(w) : f64_make_taps(w);
}

/* The values of bins, or with `back` the derivative in the input, of which `out` has the
 * sizes. */
static cr_status roi_run(const cr_roi *r, const cr_view *x, const cr_view *regions,
                         const cr_view *out, bool back)
{
    cr_dtype t = x->dtype == CR_F64 ? CR_F64 : CR_F32;
    cr_dense in = {0}, boxes = {0}, to = {0};
    roi_job w = {.r = r};
    cr_status st;

    if (!cr_view_numel(out))
        return CR_OK;
    CR_GO(cr_dense_in(&in, x, t));
    CR_GO(cr_dense_in(&boxes, regions, t));
    CR_GO(cr_dense_out(&to, out, t));
    w.x = in.data, w.regions = boxes.data, w.out = to.data;
    CR_GO(roi_prepare(&w, regions, t));
    if (back) {
        memset(to.data, 0, (size_t)cr_view_numel(out) * cr_dtype_size(t));
        cr_parallel_for(r->channels, 1, t == CR_F32 ? f32_spread : f64_spread, &w);
    } else {
        int64_t ranges = (cr_roi_results(r) + roi_range(r) - 1) / roi_range(r);
        cr_parallel_for(r->regions * ranges, 4, t == CR_F32 ? f32_average : f64_average, &w);
    }
    cr_dense_store(&to, out, t);
done:
    cr_free(w.image);
    cr_free(w.first);
    cr_free(w.taps);
    cr_dense_drop(&in);
    cr_dense_drop(&boxes);
    cr_dense_drop(&to);
    return st;
}

cr_roi cr_roi_of(const char *name, const cr_view *x, const cr_view *regions,
                 const cr_value *scale, const cr_value *pooled)
{
    return (cr_roi){.images = x->size[0],
                    .channels = x->size[1],
                    .rows = x->size[2],
                    .columns = x->size[3],
                    .regions = regions->size[0],
                    .height = pooled[0].i,
                    .width = pooled[1].i,
                    .scale = scale->d,
                    .name = name};
}

/* (input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned) */
cr_status cr_kern_roi_align(const cr_value *arg, cr_view *out)
{
    cr_roi r = cr_roi_of("roi_align", arg[0].view, arg[1].view, arg + 2, arg + 3);

    r.samples = arg[5].i;
    r.aligned = arg[6].i;
    return roi_run(&r, arg[0].view, arg[1].view, out, false);
}

/* (grad, rois, spatial_scale, pooled_height, pooled_width, batch_size, channels, height, width,
 * sampling_ratio, aligned) */
cr_status cr_kern_roi_align_backward(const cr_value *arg, cr_view *out)
{
    cr_roi r = cr_roi_of("roi_align", out, arg[1].view, arg + 2, arg + 3);

    r.samples = arg[9].i;
    r.aligned = arg[10].i;
    return roi_run(&r, arg[0].view, arg[1].view, out, true);
}

/* (input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio) */
cr_status cr_kern_ps_roi_align(const cr_value *arg, cr_view *out)
{
    cr_roi r = cr_roi_of("ps_roi_align", arg[0].view, arg[1].view, arg + 2, arg + 3);

    r.samples = arg[5].i;
    r.aligned = r.sensitive = true;
    CR_TRY(roi_run(&r, arg[0].view, arg[1].view, &out[0], false));
    cr_roi_mapping(&r, (int32_t *)(void *)out[1].data);
    return CR_OK;
}

/* (grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, sampling_ratio,
 * sizes...) */
cr_status cr_kern_ps_roi_align_backward(const cr_value *arg, cr_view *out)
{
    cr_roi r = cr_roi_of("ps_roi_align", out, arg[1].view, arg + 3, arg + 4);

    r.samples = arg[6].i;
    r.aligned = r.sensitive = true;
    return roi_run(&r, arg[0].view, arg[1].view, out, true);
}
