/* Pooling of planes: windows, dispatch by element type, and division among threads. */
#include "kern/pool.h"
#include "base/parallel.h"
#include "kern/cpu/plane/window.h"
#include <math.h>
#include <string.h>

enum { SHARES = 128, GRAIN_ELEMENTS = 16384 };

typedef struct {
    const cr_pool *p;
    const void *x;
    void *y;
    int64_t *index;
    int64_t in, out; /* elements of a plane */
} pool_job;

typedef enum { SCATTER, PUT } places_kind;

typedef struct {
    const cr_pool_places *p;
    places_kind what;
    const void *from;
    void *to;
    const int64_t *index;
} places_job;

static inline cr_window last_window(const cr_pool *p)
{
    return (cr_window){p->in[2], p->out[2], p->stride[2], p->pad[2], p->dilation[2]};
}

static inline int64_t extent(const cr_pool *p, int d, int64_t i)
{
    int64_t from = i * p->stride[d] - p->pad[d], to = from + p->kernel[d];

    if (to > p->in[d] + p->pad[d])
        to = p->in[d] + p->pad[d];
    if (p->count_pad)
        return to - from;
    return (to < p->in[d] ? to : p->in[d]) - (from > 0 ? from : 0);
}

/* The divisor of the sum of a window; never zero. */
static inline int64_t window_count(const cr_pool *p, int64_t i0, int64_t i1, int64_t i2)
{
    int64_t n;

    if (p->divisor)
        return p->divisor;
    n = extent(p, 0, i0) * extent(p, 1, i1) * extent(p, 2, i2);
    return n ? n : 1;
}

/* The first and the end position of the window of output o in each dimension. */
static inline void adaptive_range(const cr_pool *p, const int64_t *o, int64_t *r)
{
    for (int d = 0; d < 3; d++) {
        /* callers ask for output 0 even when there is none */
        int64_t n = p->out[d] ? p->out[d] : 1;
        r[2 * d] = o[d] * p->in[d] / n;
        r[2 * d + 1] = ((o[d] + 1) * p->in[d] + n - 1) / n;
    }
}

/* True when the windows are adjacent squares of 2 x 2 inside the input. */
static bool has_squares(const cr_pool *p)
{
    for (int d = 1; d < 3; d++)
        if (p->kernel[d] != 2 || p->stride[d] != 2 || p->pad[d] || p->dilation[d] != 1 ||
            2 * p->out[d] > p->in[d])
            return false;
    return p->kernel[0] == 1 && p->out[0] == 1 && p->in[0] == 1 && !p->pad[0];
}

/* Bounds of the kernel positions of dimension d that are inside the input for some output: a
 * kernel may be much larger than the input.  Positions between the bounds are checked again. */
static inline int64_t first_position(const cr_pool *p, int d)
{
    int64_t outside = p->pad[d] - (p->out[d] - 1) * p->stride[d];

    return outside > 0 ? outside / p->dilation[d] : 0;
}
static inline int64_t end_position(const cr_pool *p, int d)
{
    int64_t inside = p->in[d] + p->pad[d];

    return p->kernel[d] < inside ? p->kernel[d] : inside;
}

/* Makes the call for every kernel position and for the outputs [b, e) of row (i0, i1) whose
 * windows contain that position; `at` is the input position of output b. */
#define EACH_SHIFT(p, i0, i1, CALL)                                                            \
    for (int64_t k0 = first_position(p, 0); k0 < end_position(p, 0); k0++)                     \
        for (int64_t k1 = first_position(p, 1); k1 < end_position(p, 1); k1++) {               \
            int64_t y0 = (i0) * (p)->stride[0] + k0 * (p)->dilation[0] - (p)->pad[0];          \
            int64_t y1 = (i1) * (p)->stride[1] + k1 * (p)->dilation[1] - (p)->pad[1];          \
            if (y0 < 0 || y0 >= (p)->in[0] || y1 < 0 || y1 >= (p)->in[1])                      \
                continue;                                                                      \
            for (int64_t k2 = first_position(p, 2); k2 < end_position(p, 2); k2++) {           \
                cr_window w2 = last_window(p);                                                 \
                int64_t b, e, at;                                                              \
                cr_window_range(&w2, k2, &b, &e, &at);                                         \
                at += (y0 * (p)->in[1] + y1) * (p)->in[2];                                     \
                CALL;                                                                          \
            }                                                                                  \
        }

/* Integers wrap around, as torch's do. */
static inline int64_t wrapped_sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t wrapped_quotient(int64_t a, int64_t b)
{
    return b == -1 ? (int64_t)(0 - (uint64_t)a)
                   : a / b; /* the negative of INT64_MIN overflows */
}

#define T          float
#define NAME(x)    f32_##x
#define LOWEST     (-INFINITY)
#define IS_NAN(v)  ((v) != (v))
#define PLUS(a, b) ((a) + (b))
#define OVER(a, b) ((a) / (b))
#include "kern/cpu/plane/pool_loops.inc"
#define T          double
#define NAME(x)    f64_##x
#define LOWEST     ((double)-INFINITY)
#define IS_NAN(v)  ((v) != (v))
#define PLUS(a, b) ((a) + (b))
#define OVER(a, b) ((a) / (b))
#include "kern/cpu/plane/pool_loops.inc"
#define T          int64_t
#define NAME(x)    i64_##x
#define LOWEST     INT64_MIN
#define IS_NAN(v)  ((void)(v), false)
#define PLUS(a, b) wrapped_sum(a, b)
#define OVER(a, b) wrapped_quotient(a, b)
#include "kern/cpu/plane/pool_loops.inc"

/* --- interleaved planes --- */

typedef struct {
    const cr_pool *p;
    int64_t block;
    const float *x;
    float *y;
} blocked_job;

/* Like take_max_value, for n outputs of `block` values each. */
CR_WIDE static void take_max_blocks(float *restrict m, const float *restrict x, int64_t n,
                                    int64_t s, int64_t block)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t c = 0; c < block; c++) {
            float v = x[j * s * block + c], old = m[j * block + c];
            m[j * block + c] = v > old || v != v ? v : old;
        }
}

static void max_blocked_plane(const cr_pool *p, int64_t block, const float *x, float *y)
{
    int64_t row = p->out[2] * block;

    for (int64_t i0 = 0; i0 < p->out[0]; i0++)
        for (int64_t i1 = 0; i1 < p->out[1]; i1++, y += row) {
            for (int64_t j = 0; j < row; j++)
                y[j] = -INFINITY;
            EACH_SHIFT(
                p, i0, i1,
                take_max_blocks(y + b * block, x + at * block, e - b, p->stride[2], block))
        }
}

static int64_t volume(const int64_t *size) { return size[0] * size[1] * size[2]; }

static void pool_run(const pool_job *w, cr_range_fn fn)
{
    int64_t window = w->p->adaptive ? w->in : w->out;

    for (int d = 0; d < 3 && !w->p->adaptive; d++)
        window *= end_position(w->p, d) - first_position(w->p, d);
    if (w->in + w->out > 0)
        cr_parallel_for(w->p->planes, GRAIN_ELEMENTS / (window + 1) + 1, fn, (void *)w);
}

static pool_job job_of(const cr_pool *p, const void *x, void *y, int64_t *index)
{
    return (pool_job){p, x, y, index, volume(p->in), volume(p->out)};
}

static cr_range_fn pick(cr_dtype t, cr_range_fn f32, cr_range_fn f64, cr_range_fn i64)
{
    return t == CR_F32 ? f32 : t == CR_F64 ? f64 : i64;
}

void cr_pool_max(const cr_pool *p, cr_dtype t, const void *x, void *y, int64_t *index)
{
    pool_job w = job_of(p, x, y, index);

    pool_run(&w, pick(t, f32_max_range, f64_max_range, i64_max_range));
}

static void max_blocked_range(void *context, int64_t begin, int64_t end)
{
    const blocked_job *w = context;

    for (int64_t i = begin; i < end; i++)
        max_blocked_plane(w->p, w->block, w->x + i * volume(w->p->in) * w->block,
                          w->y + i * volume(w->p->out) * w->block);
}

void cr_pool_max_blocked(const cr_pool *p, int64_t block, const float *x, float *y)
{
    blocked_job w = {p, block, x, y};

    cr_parallel_for(p->planes,
                    GRAIN_ELEMENTS / (volume(p->out) * volume(p->kernel) * block + 1) + 1,
                    max_blocked_range, &w);
}

void cr_pool_average(const cr_pool *p, cr_dtype t, const void *x, void *y)
{
    pool_job w = job_of(p, x, y, NULL);

    pool_run(&w, pick(t, f32_average_range, f64_average_range, i64_average_range));
}

void cr_pool_spread(const cr_pool *p, cr_dtype t, const void *y, void *x)
{
    pool_job w = job_of(p, y, x, NULL);

    pool_run(&w, pick(t, f32_spread_range, f64_spread_range, i64_spread_range));
}

static void pool_places(const cr_pool_places *p, cr_dtype t, places_kind what, const void *from,
                        const int64_t *index, void *to)
{
    places_job w = {p, what, from, to, index};

    cr_parallel_for(p->planes, GRAIN_ELEMENTS / (p->n + p->m + 1) + 1,
                    pick(t, f32_places_range, f64_places_range, i64_places_range), &w);
}

void cr_pool_scatter(const cr_pool_places *p, cr_dtype t, const void *y, const int64_t *index,
                     void *x)
{
    pool_places(p, t, SCATTER, y, index, x);
}

void cr_pool_put(const cr_pool_places *p, cr_dtype t, const void *y, const int64_t *index,
                 void *x)
{
    pool_places(p, t, PUT, y, index, x);
}

int64_t cr_pool_bad_index(const int64_t *index, int64_t n, int64_t m, bool *found)
{
    for (int64_t i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= m) {
            *found = true;
            return index[i];
        }
    *found = false;
    return -1;
}
