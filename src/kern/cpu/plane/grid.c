/* Sampling of images at points: dispatch by element type, division among threads, and the
 * entries. */
#include "kern/cpu/plane/grid.h"
#include "base/parallel.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/walk.h"
#include <math.h>
#include <string.h>

typedef struct {
    const cr_grid *g;
    const void *x, *gy, *grid;
    void *out;
    int64_t plane; /* elements of a channel */
} grid_job;

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/plane/grid_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/plane/grid_loops.inc"

static void grid_run(grid_job *w, int64_t units, int64_t grain, cr_range_fn fn)
{
    w->plane = w->g->size[0] * w->g->size[1] * (w->g->dims == 3 ? w->g->size[2] : 1);
    cr_parallel_for(units, grain, fn, w);
}

static int64_t grain(const cr_grid *g) { return 4096 / (g->channels + 8) + 1; }

/* y = the values of x at the points. */
static void grid_sample(const cr_grid *g, cr_dtype t, const void *x, const void *grid, void *y)
{
    grid_job w = {.g = g, .x = x, .grid = grid, .out = y};

    grid_run(&w, g->batch * g->points, grain(g), t == CR_F32 ? f32_sample : f64_sample);
}

/* The derivative in x: writes all of gx. */
static void grid_spread(const cr_grid *g, cr_dtype t, const void *gy, const void *grid,
                        void *gx)
{
    grid_job w = {.g = g, .gy = gy, .grid = grid, .out = gx};

    grid_run(&w, g->batch, 1, t == CR_F32 ? f32_spread : f64_spread);
}

/* The derivative in the coordinates of the points. */
static void grid_slope(const cr_grid *g, cr_dtype t, const void *gy, const void *x,
                       const void *grid, void *gg)
{
    grid_job w = {.g = g, .gy = gy, .x = x, .grid = grid, .out = gg};

    grid_run(&w, g->batch * g->points, grain(g), t == CR_F32 ? f32_slope : f64_slope);
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

typedef struct {
    cr_dense x, gy, grid, out;
} arrays;

static cr_status array_load(cr_dense *d, const cr_view *v, cr_dtype t)
{
    return v ? cr_dense_in(d, v, t) : CR_OK;
}

static cr_status arrays_load(arrays *a, const cr_view *x, const cr_view *gy,
                             const cr_view *grid, const cr_view *out, cr_dtype t)
{
    CR_TRY(array_load(&a->x, x, t));
    CR_TRY(array_load(&a->gy, gy, t));
    CR_TRY(array_load(&a->grid, grid, t));
    return cr_dense_out(&a->out, out, t);
}

static void arrays_store(arrays *a, const cr_view *out, cr_dtype t, cr_status st)
{
    if (!st)
        cr_dense_store(&a->out, out, t);
    cr_dense_drop(&a->x);
    cr_dense_drop(&a->gy);
    cr_dense_drop(&a->grid);
    cr_dense_drop(&a->out);
}

static cr_dtype grid_compute_type(const cr_view *v)
{
    return v->dtype == CR_F64 ? CR_F64 : CR_F32;
}

/* (input, grid, mode, padding, align_corners) */
cr_status cr_kern_grid_sampler(const cr_value *arg, cr_view *out)
{
    const cr_view *x = arg[0].view, *grid = arg[1].view;
    cr_grid g = grid_describe(x, grid, arg + 2);
    cr_dtype t = grid_compute_type(x);
    arrays a = {{0}, {0}, {0}, {0}};
    cr_status st = arrays_load(&a, x, NULL, grid, out, t);

    if (!st)
        grid_sample(&g, t, a.x.data, a.grid.data, a.out.data);
    arrays_store(&a, out, t, st);
    return st;
}

/* (grad_output, grid, input_size, mode, padding, align_corners) */
cr_status cr_kern_grid_sampler_input_grad(const cr_value *arg, cr_view *out)
{
    const cr_view *gy = arg[0].view, *grid = arg[1].view;
    cr_grid g = grid_describe(out, grid, arg + 3);
    cr_dtype t = grid_compute_type(gy);
    arrays a = {{0}, {0}, {0}, {0}};
    cr_status st = arrays_load(&a, NULL, gy, grid, out, t);

    if (!st)
        grid_spread(&g, t, a.gy.data, a.grid.data, a.out.data);
    arrays_store(&a, out, t, st);
    return st;
}

/* (grad_output, input, grid, mode, padding, align_corners) */
cr_status cr_kern_grid_sampler_grid_grad(const cr_value *arg, cr_view *out)
{
    const cr_view *gy = arg[0].view, *x = arg[1].view, *grid = arg[2].view;
    cr_grid g = grid_describe(x, grid, arg + 3);
    cr_dtype t = grid_compute_type(gy);
    arrays a = {{0}, {0}, {0}, {0}};
    cr_status st = arrays_load(&a, x, gy, grid, out, t);

    if (!st)
        grid_slope(&g, t, a.gy.data, a.x.data, a.grid.data, a.out.data);
    arrays_store(&a, out, t, st);
    return st;
}
