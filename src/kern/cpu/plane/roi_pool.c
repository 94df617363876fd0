/* roi_pool and ps_roi_pool: bins of whole elements.  Every bin is a window of rows and one of
 * columns, rounded in the element type. */
#include "base/memory.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/plane/roi.h"
#include "kern/cpu/walk.h"
#include <float.h>
#include <math.h>
#include <stdio.h>

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/plane/roi_pool_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/plane/roi_pool_loops.inc"

/* The windows of all bins, for the host. */
static cr_status roi_pool_windows(roi_job *w, cr_dtype t)
{
    int64_t n = w->r.regions * (w->r.height + w->r.width);
    roi_window *made = cr_alloc((size_t)n * sizeof *made + 1);

    CR_NEED(made);
    for (int64_t i = 0; i < n; i++)
        made[i] = t == CR_F32 ? f32_window_at(w, i) : f64_window_at(w, i);
    w->window = made;
    return CR_OK;
}

/* Elements outside of the plane are an error; -1 marks an empty bin. */
static cr_status roi_check_argmax(roi_job *w, cr_device device)
{
    int64_t n = w->r.regions * w->r.channels * cr_roi_bins(&w->r), plane = cr_roi_plane(&w->r);
    char text[120];

    if (!w->argmax)
        return CR_OK;
    snprintf(text, sizeof text, "argmax \1 is out of range of planes with %lld elements",
             (long long)plane);
    for (int64_t i = 0; cr_is_host(device) && i < n; i++)
        if (w->argmax[i] < -1 || w->argmax[i] >= plane)
            return cr_fail(CR_INDEX, "argmax %d is out of range of planes with %lld elements",
                           (int)w->argmax[i], (long long)plane);
    return cr_loops_error_begin(&w->wrong_argmax, device, CR_INDEX, text);
}

static cr_status roi_pool_compute(cr_roi_call *c, const cr_view *out, bool back)
{
    static const cr_loops pool = CR_LOOPS(CR_LOOPS_ROI_POOL, roi_job, pool);
    static const cr_loops unpool = CR_LOOPS(CR_LOOPS_ROI_POOL, roi_job, unpool);
    roi_job *w = &c->job;

    if (!back)
        return cr_loops_run(c->device, &pool, c->t, cr_view_numel(out), 16 * cr_roi_bins(&w->r),
                            w);
    CR_TRY(roi_check_argmax(w, c->device));
    CR_TRY(cr_dense_clear(&c->out, (size_t)cr_view_numel(out) * cr_dtype_size(c->t)));
    return cr_loops_run(c->device, &unpool, c->t, w->r.images * w->r.channels, 1, w);
}

/* `argmax` is roi_pool's second result, or its argument in the derivative; else NULL. */
static cr_status roi_pool_run(const char *name, const cr_roi *r, const cr_view *x,
                              const cr_view *regions, int32_t *argmax, const cr_view *out,
                              bool back)
{
    cr_roi_call c;

    if (!cr_view_numel(out))
        return CR_OK;
    cr_status st = cr_roi_begin(&c, name, r, x, regions, out);
    c.job.argmax = argmax;
    if (!st && cr_is_host(c.device))
        st = roi_pool_windows(&c.job, c.t);
    if (!st)
        st = roi_pool_compute(&c, out, back);
    cr_free((void *)(uintptr_t)c.job.window);
    return cr_roi_end(&c, out, st);
}

static cr_roi roi_pool_of(const cr_view *x, const cr_view *regions, const cr_value *scale,
                          bool sensitive)
{
    cr_roi r = cr_roi_of(x, regions, scale, scale + 1);

    r.sensitive = sensitive;
    return r;
}

/* (input, rois, spatial_scale, pooled_height, pooled_width) */
cr_status cr_kern_roi_pool(const cr_value *arg, cr_view *out)
{
    cr_roi r = roi_pool_of(arg[0].view, arg[1].view, arg + 2, false);

    if (cr_roi_plane(&r) > INT32_MAX)
        return cr_fail(CR_RUNTIME, "roi_pool: planes with %lld elements are too large",
                       (long long)cr_roi_plane(&r));
    return roi_pool_run("roi_pool", &r, arg[0].view, arg[1].view,
                        (int32_t *)(void *)out[1].data, &out[0], false);
}

/* (grad, rois, argmax, spatial_scale, pooled_height, pooled_width, sizes...) */
cr_status cr_kern_roi_pool_backward(const cr_value *arg, cr_view *out)
{
    cr_roi r = roi_pool_of(out, arg[1].view, arg + 3, false);
    cr_dense argmax;

    cr_status st = cr_dense_in(&argmax, arg[2].view, CR_I32);
    if (!st)
        st = roi_pool_run("roi_pool", &r, arg[0].view, arg[1].view,
                          (int32_t *)(void *)argmax.data, out, true);
    cr_dense_drop(&argmax);
    return st;
}

/* (input, rois, spatial_scale, pooled_height, pooled_width) */
cr_status cr_kern_ps_roi_pool(const cr_value *arg, cr_view *out)
{
    cr_roi r = roi_pool_of(arg[0].view, arg[1].view, arg + 2, true);

    CR_TRY(roi_pool_run("ps_roi_pool", &r, arg[0].view, arg[1].view, NULL, &out[0], false));
    return cr_roi_mapping(&r, &out[1]);
}

/* (grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, sizes...) */
cr_status cr_kern_ps_roi_pool_backward(const cr_value *arg, cr_view *out)
{
    cr_roi r = roi_pool_of(out, arg[1].view, arg + 3, true);

    return roi_pool_run("ps_roi_pool", &r, arg[0].view, arg[1].view, NULL, out, true);
}
