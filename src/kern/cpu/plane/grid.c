/* Sampling of images at points: dispatch by element type, division among threads, and the
 * entries. */
#include "kern/cpu/plane/grid.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/plane/spread.h"
#include "kern/cpu/walk.h"
#include <math.h>
#include <string.h>

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/plane/grid_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/plane/grid_loops.inc"

static int64_t grain(const cr_grid *g) { return 4096 / (g->channels + 8) + 1; }

/* y = the values of x at the points. */
static cr_status grid_sample(grid_job *w, cr_dtype t, const cr_dense *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_GRID, grid_job, sample);

    w->parts = cr_is_host(out->device) || w->g.channels < GRID_CHANNELS
                   ? 1
                   : (w->g.channels + GRID_CHANNELS - 1) / GRID_CHANNELS;
    return cr_loops_run(out->device, &loops, t, w->g.batch * w->parts * w->g.points,
                        grain(&w->g), w);
}

/* Adds what `units` points from point w->list.from on send to the elements of their images. */
static cr_status grid_spread_part(grid_job *w, cr_dtype t, cr_device d, int64_t units)
{
    static const cr_loops list = CR_LOOPS(CR_LOOPS_GRID, grid_job, list);
    static const cr_loops mark = CR_LOOPS(CR_LOOPS_GRID, grid_job, mark);
    static const cr_loops gather = CR_LOOPS(CR_LOOPS_GRID, grid_job, gather);
    int64_t last = (w->list.from + units - 1) / w->g.points;
    int64_t groups = (w->g.channels + SPREAD_CHANNELS - 1) / SPREAD_CHANNELS;
    cr_spread memory;
    cr_status st;

    w->image = w->list.from / w->g.points;
    CR_GO(cr_spread_take(&memory, &w->list, d, t, units << w->tap_bits,
                         (last - w->image + 1) * w->plane));
    CR_GO(cr_loops_run(d, &list, t, units, 1, w));
    CR_GO(cr_spread_sort(&w->list, d));
    CR_GO(cr_loops_run(d, &mark, t, w->list.n, 1, w));
    CR_GO(cr_loops_run(d, &gather, t, w->list.places * groups, 1, w));
done:
    cr_spread_drop(&memory);
    return st;
}

static cr_status grid_spread_there(grid_job *w, cr_dtype t, cr_device d)
{
    int64_t all = w->g.batch * w->g.points, each;

    w->tap_bits = w->g.mode == CR_GRID_NEAREST  ? 0
                  : w->g.mode == CR_GRID_LINEAR ? w->g.dims
                                                : 2 * w->g.dims;
    each = CR_SPREAD_MOST >> w->tap_bits;
    for (w->list.from = 0; w->list.from < all; w->list.from += each)
        CR_TRY(
            grid_spread_part(w, t, d, all - w->list.from < each ? all - w->list.from : each));
    return CR_OK;
}

/* The derivative in x: writes all of it. */
static cr_status grid_spread(grid_job *w, cr_dtype t, const cr_dense *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_GRID, grid_job, spread);
    int64_t n = w->g.batch * w->g.channels * w->plane;

    if (!n)
        return CR_OK;
    CR_TRY(cr_dense_clear(out, (size_t)n * cr_dtype_size(t)));
    if (!cr_is_host(out->device))
        return grid_spread_there(w, t, out->device);
    return cr_loops_run(out->device, &loops, t, w->g.batch, 1, w);
}

/* The derivative in the coordinates of the points. */
static cr_status grid_slope(grid_job *w, cr_dtype t, const cr_dense *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_GRID, grid_job, slope);

    return cr_loops_run(out->device, &loops, t, w->g.batch * w->g.points, grain(&w->g), w);
}

/* --- entries --- */

/* mode, padding, align_corners */
static cr_grid grid_describe(const cr_view *x, const cr_view *grid, const cr_value *arg)
{
    cr_grid g = {.dims = x->ndim - 2,
                 .batch = x->size[0],
                 .channels = x->size[1],
                 .points = 1,
                 .mode = (cr_grid_mode)arg[0].i,
                 .padding = (cr_grid_padding)arg[1].i,
                 .align_corners = arg[2].i};

    for (int d = 0; d < g.dims; d++) {
        g.size[d] = x->size[d + 2];
        g.points *= grid->size[d + 1];
    }
    return g;
}

static cr_dtype grid_compute_type(const cr_view *v)
{
    return v->dtype == CR_F64 ? CR_F64 : CR_F32;
}

/* The views of a call; NULL where it has none. */
typedef struct {
    const cr_view *x, *gy, *grid, *along;
    cr_view *out;
} grid_views;

static cr_status grid_load(cr_dense *d, const cr_view *v, cr_dtype t)
{
    return v ? cr_dense_in(d, v, t) : CR_OK;
}

/* Runs a loop on dense copies of the views. */
static cr_status grid_call(const cr_grid *g, const grid_views *v,
                           cr_status (*run)(grid_job *, cr_dtype, const cr_dense *))
{
    cr_dense x = {0}, gy = {0}, grid = {0}, along = {0}, out = {0};
    cr_dtype t = grid_compute_type(v->x ? v->x : v->gy);
    cr_status st;

    CR_GO(grid_load(&x, v->x, t));
    CR_GO(grid_load(&gy, v->gy, t));
    CR_GO(grid_load(&grid, v->grid, t));
    CR_GO(grid_load(&along, v->along, t));
    CR_GO(cr_dense_out(&out, v->out, t));
    grid_job w = {.g = *g,
                  .x = x.data,
                  .gy = gy.data,
                  .grid = grid.data,
                  .along = v->along ? along.data : NULL,
                  .out = out.data,
                  .plane = g->size[0] * g->size[1] * (g->dims == 3 ? g->size[2] : 1)};
    CR_GO(run(&w, t, &out));
    CR_GO(cr_dense_store(&out, v->out, t));
done:
    cr_dense_drop(&x);
    cr_dense_drop(&gy);
    cr_dense_drop(&grid);
    cr_dense_drop(&along);
    cr_dense_drop(&out);
    return st;
}

/* (input, grid, mode, padding, align_corners) */
cr_status cr_kern_grid_sampler(const cr_value *arg, cr_view *out)
{
    grid_views v = {.x = arg[0].view, .grid = arg[1].view, .out = out};
    cr_grid g = grid_describe(v.x, v.grid, arg + 2);

    return grid_call(&g, &v, grid_sample);
}

/* (grad_output, grid, input_size, mode, padding, align_corners) */
cr_status cr_kern_grid_sampler_input_grad(const cr_value *arg, cr_view *out)
{
    grid_views v = {.gy = arg[0].view, .grid = arg[1].view, .out = out};
    cr_grid g = grid_describe(out, v.grid, arg + 3);

    return grid_call(&g, &v, grid_spread);
}

/* (grad_output, input, grid, mode, padding, align_corners) */
cr_status cr_kern_grid_sampler_grid_grad(const cr_value *arg, cr_view *out)
{
    grid_views v = {.gy = arg[0].view, .x = arg[1].view, .grid = arg[2].view, .out = out};
    cr_grid g = grid_describe(v.x, v.grid, arg + 3);

    return grid_call(&g, &v, grid_slope);
}

/* (input, grid, direction, mode, padding, align_corners) */
cr_status cr_kern_grid_sampler_along(const cr_value *arg, cr_view *out)
{
    grid_views v = {.x = arg[0].view, .grid = arg[1].view, .along = arg[2].view, .out = out};
    cr_grid g = grid_describe(v.x, v.grid, arg + 3);

    return grid_call(&g, &v, grid_sample);
}

/* (grad_output, grid, direction, input_size, mode, padding, align_corners) */
cr_status cr_kern_grid_sampler_along_input_grad(const cr_value *arg, cr_view *out)
{
    grid_views v = {.gy = arg[0].view, .grid = arg[1].view, .along = arg[2].view, .out = out};
    cr_grid g = grid_describe(out, v.grid, arg + 4);

    return grid_call(&g, &v, grid_spread);
}

/* (grad_output, input, grid, direction, mode, padding, align_corners) */
cr_status cr_kern_grid_sampler_along_grid_grad(const cr_value *arg, cr_view *out)
{
    grid_views v = {.gy = arg[0].view,
                    .x = arg[1].view,
                    .grid = arg[2].view,
                    .along = arg[3].view,
                    .out = out};
    cr_grid g = grid_describe(v.x, v.grid, arg + 4);

    return grid_call(&g, &v, grid_slope);
}
