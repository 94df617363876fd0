/* roi_pool and ps_roi_pool: bins of whole elements.  Every bin is a window of rows and one of
 * columns, rounded in the element type. */
#include "base/memory.h"
#include "base/parallel.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/plane/roi.h"
#include "kern/cpu/walk.h"
#include <float.h>
#include <math.h>
#include <string.h>

typedef struct {
    int64_t from, to;
} roi_window;

typedef struct {
    roi_window y, x;
} roi_bin;

typedef struct {
    const cr_roi *r;
    const void *x, *regions; /* x: the input, or the cotangent of the result */
    void *out;
    int32_t *argmax;
    int64_t *image;
    roi_window *window; /* of every region: those of rows of bins, then those of columns */
} roi_pool_job;

/* The number of elements in a bin. */
static int64_t roi_bin_size(const roi_bin *b)
{
    bool empty = b->y.to <= b->y.from || b->x.to <= b->x.from;

    return empty ? 0 : (b->y.to - b->y.from) * (b->x.to - b->x.from);
}

static roi_bin roi_bin_of(const roi_pool_job *w, int64_t k, int64_t bin)
{
    const cr_roi *r = w->r;
    const roi_window *first = w->window + k * (r->height + r->width);

    return (roi_bin){first[bin / r->width], first[r->height + bin % r->width]};
}

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/plane/roi_pool_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/plane/roi_pool_loops.inc"

static cr_status roi_pool_prepare(roi_pool_job *w, const cr_view *regions, cr_dtype t)
{
    size_t lists = (size_t)w->r->regions * (size_t)(w->r->height + w->r->width);

    w->window = cr_alloc(lists * sizeof *w->window + 1);
    if (!w->window)
        return CR_MEMORY;
    CR_TRY(cr_roi_images(&w->image, w->r, regions));
    if (t == CR_F32)
        f32_make_windows(w);
    else
        f64_make_windows(w);
    return CR_OK;
}

/* Elements outside of the plane are an error; -1 marks an empty bin. */
static cr_status roi_check_argmax(const roi_pool_job *w)
{
    int64_t n = w->r->regions * w->r->channels * cr_roi_bins(w->r);

    for (int64_t i = 0; w->argmax && i < n; i++)
        if (w->argmax[i] < -1 || w->argmax[i] >= cr_roi_plane(w->r))
            return cr_fail(CR_INDEX, "argmax %d is out of range of planes with %lld elements",
                           (int)w->argmax[i], (long long)cr_roi_plane(w->r));
    return CR_OK;
}

static void roi_pool_compute(roi_pool_job *w, cr_dtype t, bool back)
{
    const cr_roi *r = w->r;
    cr_range_fn unpool = r->sensitive  ? t == CR_F32 ? f32_ps_unpool : f64_ps_unpool
                         : t == CR_F32 ? f32_unpool
                                       : f64_unpool;

    if (back)
        cr_parallel_for(r->channels, 1, unpool, w);
    else
        cr_parallel_for(r->regions * cr_roi_results(r), 16, t == CR_F32 ? f32_pool : f64_pool,
                        w);
}

/* `argmax` is roi_pool's second result, or its argument in the derivative; else NULL. */
static cr_status roi_pool_run(const cr_roi *r, const cr_view *x, const cr_view *regions,
                              int32_t *argmax, const cr_view *out, bool back)
{
    cr_dtype t = x->dtype == CR_F64 ? CR_F64 : CR_F32;
    cr_dense in = {0}, boxes = {0}, to = {0};
    roi_pool_job w = {.r = r, .argmax = argmax};
    cr_status st;

    if (!cr_view_numel(out))
        return CR_OK;
    CR_GO(cr_dense_in(&in, x, t));
    CR_GO(cr_dense_in(&boxes, regions, t));
    CR_GO(cr_dense_out(&to, out, t));
    w.x = in.data, w.regions = boxes.data, w.out = to.data;
    CR_GO(roi_pool_prepare(&w, regions, t));
    if (back) {
        CR_GO(roi_check_argmax(&w));
        memset(to.data, 0, (size_t)cr_view_numel(out) * cr_dtype_size(t));
    }
    roi_pool_compute(&w, t, back);
    cr_dense_store(&to, out, t);
done:
    cr_free(w.image);
    cr_free(w.window);
    cr_dense_drop(&in);
    cr_dense_drop(&boxes);
    cr_dense_drop(&to);
    return st;
}

static cr_roi roi_pool_of(const char *name, const cr_view *x, const cr_view *regions,
                          const cr_value *scale, bool sensitive)
{
    cr_roi r = cr_roi_of(name, x, regions, scale, scale + 1);

    r.sensitive = sensitive;
    return r;
}

/* (input, rois, spatial_scale, pooled_height, pooled_width) */
cr_status cr_kern_roi_pool(const cr_value *arg, cr_view *out)
{
    cr_roi r = roi_pool_of("roi_pool", arg[0].view, arg[1].view, arg + 2, false);

    if (cr_roi_plane(&r) > INT32_MAX)
        return cr_fail(CR_RUNTIME, "roi_pool: planes with %lld elements are too large",
                       (long long)cr_roi_plane(&r));
    return roi_pool_run(&r, arg[0].view, arg[1].view, (int32_t *)(void *)out[1].data, &out[0],
                        false);
}

/* (grad, rois, argmax, spatial_scale, pooled_height, pooled_width, sizes...) */
cr_status cr_kern_roi_pool_backward(const cr_value *arg, cr_view *out)
{
    cr_roi r = roi_pool_of("roi_pool", out, arg[1].view, arg + 3, false);
    cr_dense argmax;

    CR_TRY(cr_dense_in(&argmax, arg[2].view, CR_I32));
    cr_status st =
        roi_pool_run(&r, arg[0].view, arg[1].view, (int32_t *)(void *)argmax.data, out, true);
    cr_dense_drop(&argmax);
    return st;
}

/* (input, rois, spatial_scale, pooled_height, pooled_width) */
cr_status cr_kern_ps_roi_pool(const cr_value *arg, cr_view *out)
{
    cr_roi r = roi_pool_of("ps_roi_pool", arg[0].view, arg[1].view, arg + 2, true);

    CR_TRY(roi_pool_run(&r, arg[0].view, arg[1].view, NULL, &out[0], false));
    cr_roi_mapping(&r, (int32_t *)(void *)out[1].data);
    return CR_OK;
}

/* (grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, sizes...) */
cr_status cr_kern_ps_roi_pool_backward(const cr_value *arg, cr_view *out)
{
    cr_roi r = roi_pool_of("ps_roi_pool", out, arg[1].view, arg + 3, true);

    return roi_pool_run(&r, arg[0].view, arg[1].view, NULL, out, true);
}
