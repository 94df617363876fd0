/* Folds of windows (kern/window.h) on the host, in float32, float64, int64 and complex128;
 * other dtypes are converted.  Threads share the planes.  A row of the result is folded by
 * segments: for each position of the window, a loop over the places that have it, which the
 * compiler vectorizes. Where segments would be short, places are folded one after the other. */
#include "kern/window.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "device/device.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/walk.h"
#include "kern/move.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { CHUNK = 512, GROUP = 3, OUTER = 64, FEW = 8, GRAIN_ELEMENTS = 16384 };
/* Places of three segments that are worth one loop. */
enum { GROUP_PLACES = 40 };

typedef struct {
    const cr_window *w;
    const void *x;
    void *y;
    int64_t *index;
    _Atomic bool no_memory;
} window_job;

/* A row of the result. */
typedef struct {
    const cr_window *w;
    const cr_window_run *outer[2];
    int64_t offset; /* of the row's first position */
    /* Without the last dim's factor; of integers, `whole`. */
    double divisor;
    int64_t whole;
    bool pairs;
} window_row;

/* The run of place t of dim k; *offset is added the place's shift. */
static const cr_window_run *window_place(const cr_window_dim *d, int64_t t, int64_t *offset)
{
    const cr_window_run *r = &d->run.at[d->run_of[t]];

    *offset += (r->step == 1 ? t - r->at : (t - r->at) / r->step) * r->shift;
    return r;
}

static int64_t window_positions(const cr_window_dim *d, const cr_window_run *r)
{
    int64_t n = 0;

    for (int64_t i = 0; i < r->ranges; i++)
        n += d->range.at[r->range + i].n;
    return n;
}

/* Makes the call for all positions of the first two dims; `at` is their offset. */
#define EACH_OUTER(row, at, CALL)                                                              \
    for (int64_t i0 = 0; i0 < (row)->outer[0]->ranges; i0++)                                   \
        for (int64_t i1 = 0; i1 < (row)->outer[1]->ranges; i1++) {                             \
            const cr_window_range *r0 =                                                        \
                &(row)->w->dim[0].range.at[(row)->outer[0]->range + i0];                       \
            const cr_window_range *r1 =                                                        \
                &(row)->w->dim[1].range.at[(row)->outer[1]->range + i1];                       \
            for (int64_t k0 = 0; k0 < r0->n; k0++)                                             \
                for (int64_t k1 = 0; k1 < r1->n; k1++) {                                       \
                    int64_t at = (row)->offset + r0->offset + k0 * r0->step + r1->offset +     \
                                 k1 * r1->step;                                                \
                    CALL;                                                                      \
                }                                                                              \
        }

/* The offset of the first position of the first two dims; -1 if there is none. */
static int64_t window_first(const window_row *row)
{
    EACH_OUTER(row, at, return at)
    return -1;
}

/* True if places have two neighbours each, one after the other. */
static bool window_has_pairs(const cr_window_dim *d)
{
    const cr_window_segment *s = d->segment.at;

    return d->segment.len == 2 && d->shift == 2 && d->period == 1 && s[0].n == d->size &&
           s[1].n == d->size && s[1].offset == s[0].offset + 1;
}

/* True if the windows of a row, whose places have pairs, are squares of 2 x 2. */
static bool window_has_squares(const window_row *row)
{
    const cr_window_dim *d = row->w->dim;

    return row->outer[1]->ranges == 1 && d[1].range.at[row->outer[1]->range].n == 2 &&
           row->outer[0]->ranges == 1 && d[0].range.at[row->outer[0]->range].n == 1;
}

/* The places of a segment in [*from, *to). */
static inline void window_clip(const cr_window_segment *s, int64_t *from, int64_t *to)
{
    *from = *from > s->place ? *from : s->place;
    *to = *to < s->place + s->n ? *to : s->place + s->n;
}

static double factor_of(const double *list, int64_t i) { return list ? list[i] : 1; }

/* Integers wrap around, as torch's do. */
static inline int64_t wrapped_sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
/* The negative of INT64_MIN overflows; a divisor is 0 only if a product wrapped around. */
static inline int64_t wrapped_quotient(int64_t a, int64_t b)
{
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : b ? a / b : 0;
}

/* The positions of extremes are 32 bits wide beside float32. */
#define T           float
#define W           int32_t
#define NAME(x)     f32_##x
#define LOWEST      (-INFINITY)
#define IS_NAN(v)   ((v) != (v))
#define PLUS(a, b)  ((a) + (b))
#define OVER(a, b)  ((a) / (b))
#define DIVISOR     double
#define OF_ROW      divisor
#define TIMES(a, b) ((a) * (b))
#include "kern/cpu/plane/window_loops.inc"
#define T           double
#define W           int64_t
#define NAME(x)     f64_##x
#define LOWEST      ((double)-INFINITY)
#define IS_NAN(v)   ((v) != (v))
#define PLUS(a, b)  ((a) + (b))
#define OVER(a, b)  ((a) / (b))
#define DIVISOR     double
#define OF_ROW      divisor
#define TIMES(a, b) ((a) * (b))
#include "kern/cpu/plane/window_loops.inc"
#define T           int64_t
#define W           int64_t
#define NAME(x)     i64_##x
#define LOWEST      INT64_MIN
#define IS_NAN(v)   ((void)(v), false)
#define PLUS(a, b)  wrapped_sum(a, b)
#define OVER(a, b)  wrapped_quotient(a, b)
#define DIVISOR     int64_t
#define OF_ROW      whole
#define TIMES(a, b) CR_WRAP_MUL(a, b)
#include "kern/cpu/plane/window_loops.inc"

#define T           double _Complex
#define NAME(x)     c128_##x
#define PLUS(a, b)  ((a) + (b))
#define OVER(a, b)  ((a) / (b))
#define DIVISOR     double
#define OF_ROW      divisor
#define TIMES(a, b) ((a) * (b))
#include "kern/cpu/plane/window_loops.inc"

/* The dtype in which planes are computed: float64, if positions need more than 32 bits. */
static cr_dtype window_type(const cr_window *w, const cr_view *v)
{
    bool wide = w->extreme && w->in > INT32_MAX / 2;

    if (cr_dtype_is_float((cr_dtype)v->dtype))
        return v->dtype == CR_F64 || wide ? CR_F64 : CR_F32;
    return cr_dtype_is_complex((cr_dtype)v->dtype) ? CR_C128 : CR_I64;
}

/* The positions of a window in the middle. */
static int64_t window_work(const cr_window *w)
{
    int64_t n = 1;

    for (int k = 0; k < CR_WINDOW_DIMS; k++)
        n *= 1 + window_positions(&w->dim[k], &w->dim[k].run.at[w->dim[k].run.len / 2]);
    return w->in + n * w->out;
}

static cr_status window_planes(const cr_window *w, cr_dtype t, const void *x, void *y,
                               int64_t *index)
{
    window_job job = {w, x, y, index, false};

    cr_parallel_for(w->planes, GRAIN_ELEMENTS / (window_work(w) + 1) + 1,
                    t == CR_F32    ? f32_planes
                    : t == CR_F64  ? f64_planes
                    : t == CR_C128 ? c128_planes
                                   : i64_planes,
                    &job);
    return atomic_load(&job.no_memory) ? cr_fail(CR_MEMORY, "not enough memory for windows")
                                       : CR_OK;
}

static cr_status window_run(const cr_window *w, const cr_view *from, cr_view *out)
{
    cr_dtype t = window_type(w, from);
    int64_t *index = w->extreme ? (int64_t *)(void *)out[1].data : NULL;
    cr_dense x = {0}, y = {0};
    cr_status st;

    if (!cr_view_numel(from)) /* its other sizes may be huge */
        cr_zero_view(out);
    if (!cr_view_numel(from) || !cr_view_numel(out))
        return CR_OK;
    CR_GO(cr_dense_in(&x, from, t));
    CR_GO(cr_dense_out(&y, out, t));
    CR_GO(window_planes(w, t, x.data, y.data, index));
    cr_dense_store(&y, out, t);
done:
    cr_dense_drop(&x);
    cr_dense_drop(&y);
    return st;
}

/* --- windows from lists --- */

static cr_status window_axis(cr_window_dim *d, const cr_window_axis *a)
{
    d->size = a->size;
    d->in = a->in;
    d->period = 1;
    d->count = (double *)(uintptr_t)a->count;
    d->share = (double *)(uintptr_t)a->share;
    d->run_of = cr_alloc((size_t)(a->size + 1) * sizeof *d->run_of);
    CR_NEED(d->run_of);
    CR_TRY(cr_vec_reserve(&d->run, (size_t)a->size));
    CR_TRY(cr_vec_reserve(&d->range, (size_t)a->start[a->size]));
    for (int64_t p = 0; p < a->size; p++) {
        cr_vec_put(&d->run, ((cr_window_run){.at = p,
                                             .n = 1,
                                             .step = 1,
                                             .range = a->start[p],
                                             .ranges = a->start[p + 1] - a->start[p]}));
        d->run_of[p] = p;
    }
    for (int64_t i = 0; i < a->start[a->size]; i++)
        cr_vec_put(&d->range, ((cr_window_range){.offset = a->range[3 * i],
                                                 .step = a->range[3 * i + 1],
                                                 .n = a->range[3 * i + 2]}));
    return CR_OK;
}

static cr_status window_run_lists(const cr_windows *c, const cr_view *from, cr_view *out)
{
    cr_window w = {.extreme = c->extreme,
                   .planes = c->planes,
                   .in = c->in,
                   .out = c->out,
                   .divisor = c->divisor,
                   .divides = c->divides,
                   .shares = c->shares};
    cr_status st = CR_OK;

    for (int k = 0; !st && k < CR_WINDOW_DIMS; k++)
        st = window_axis(&w.dim[k], &c->dim[k]);
    if (!st)
        st = window_run(&w, from, out);
    for (int k = 0; k < CR_WINDOW_DIMS; k++) {
        cr_vec_drop(&w.dim[k].run);
        cr_vec_drop(&w.dim[k].range);
        cr_free(w.dim[k].run_of);
    }
    return st;
}

const char *cr_host_windows(int index, const cr_windows *c)
{
    cr_view from = cr_host_view(&c->from);
    cr_view out[2] = {cr_host_view(&c->result), cr_host_view(&c->which)};
    cr_status st;

    (void)index;
    st = c->prepared ? window_run(c->prepared, &from, out) : window_run_lists(c, &from, out);
    return st ? cr_error_message() : NULL;
}
