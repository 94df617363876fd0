/* Greatest elements of windows of interleaved planes (kern/pool.h), and values added up at
 * positions in planes. */
#include "kern/pool.h"
#include "base/parallel.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/move/gather.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/plane/slide.h"
#include "kern/cpu/walk.h"
#include <math.h>
#include <string.h>

enum { GRAIN_ELEMENTS = 16384 };

static int64_t volume(const int64_t *size) { return size[0] * size[1] * size[2]; }

/* --- interleaved planes --- */

cr_pool cr_pool_max_windows(const cr_view *in, const cr_view *out, const cr_value *arg)
{
    cr_pool p = {.planes = 1,
                 .in = {1, 1, 1},
                 .out = {1, 1, 1},
                 .kernel = {1, 1, 1},
                 .stride = {1, 1, 1},
                 .dilation = {1, 1, 1}};
    int dims = (int)arg[6].i, lead = in->ndim - dims;

    for (int d = 0; d < lead; d++)
        p.planes *= in->size[d];
    for (int d = 0, at = 3 - dims; d < dims; d++, at++) {
        p.in[at] = in->size[lead + d];
        p.out[at] = out->size[lead + d];
        p.kernel[at] = cr_value_item(&arg[1], d);
        p.stride[at] = arg[2].len ? cr_value_item(&arg[2], d) : p.kernel[at];
        p.pad[at] = cr_value_item(&arg[3], d);
        p.dilation[at] = cr_value_item(&arg[4], d);
    }
    return p;
}

typedef struct {
    const cr_pool *p;
    int64_t block;
    const float *x;
    float *y;
} blocked_job;

/* Takes the greater of m and x in n outputs of `block` values each.  A NaN that is there stays,
 * a NaN that comes is taken. */
CR_WIDE static void take_max_blocks(float *restrict m, const float *restrict x, int64_t n,
                                    int64_t s, int64_t block)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t c = 0; c < block; c++) {
            float v = x[j * s * block + c], old = m[j * block + c];
            m[j * block + c] = v > old || v != v ? v : old;
        }
}

/* Takes the elements of one row of the input, for all outputs of a row. */
static void max_blocked_row(const cr_pool *p, int64_t block, const float *x, float *y)
{
    cr_slide w = {p->in[2], p->out[2], p->stride[2], p->pad[2], p->dilation[2]};

    for (int64_t k = 0; k < p->kernel[2]; k++) {
        int64_t begin, end, at;
        cr_slide_range(&w, k, &begin, &end, &at);
        take_max_blocks(y + begin * block, x + at * block, end - begin, p->stride[2], block);
    }
}

/* Row (o0, o1) of the outputs. */
static void max_blocked_rows(const cr_pool *p, int64_t block, int64_t o0, int64_t o1,
                             const float *x, float *y)
{
    for (int64_t j = 0; j < p->out[2] * block; j++)
        y[j] = -INFINITY;
    for (int64_t k0 = 0; k0 < p->kernel[0]; k0++)
        for (int64_t k1 = 0; k1 < p->kernel[1]; k1++) {
            int64_t y0 = o0 * p->stride[0] + k0 * p->dilation[0] - p->pad[0];
            int64_t y1 = o1 * p->stride[1] + k1 * p->dilation[1] - p->pad[1];
            if (y0 >= 0 && y0 < p->in[0] && y1 >= 0 && y1 < p->in[1])
                max_blocked_row(p, block, x + (y0 * p->in[1] + y1) * p->in[2] * block, y);
        }
}

static void max_blocked_plane(const cr_pool *p, int64_t block, const float *x, float *y)
{
    for (int64_t o0 = 0; o0 < p->out[0]; o0++)
        for (int64_t o1 = 0; o1 < p->out[1]; o1++, y += p->out[2] * block)
            max_blocked_rows(p, block, o0, o1, x, y);
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

/* --- values added up at positions in planes --- */

/* Planes of n values, and planes of m positions. */
typedef struct {
    int64_t planes, n, m;
    const void *from;
    void *to;
    const int64_t *index;
} scatter_job;

/* Integers wrap around, as torch's do. */
#define WRAPPED(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define SUM(a, b)     ((a) + (b))

#define SCATTER(name, type, plus)                                                              \
    static void name(void *context, int64_t begin, int64_t end)                                \
    {                                                                                          \
        const scatter_job *w = context;                                                        \
        for (int64_t i = begin; i < end; i++) {                                                \
            const type *from = (const type *)w->from + i * w->n;                               \
            const int64_t *index = w->index + i * w->n;                                        \
            type *to = (type *)w->to + i * w->m;                                               \
            memset(to, 0, (size_t)w->m * sizeof *to);                                          \
            for (int64_t k = 0; k < w->n; k++)                                                 \
                to[index[k]] = plus(to[index[k]], from[k]);                                    \
        }                                                                                      \
    }
SCATTER(scatter_f32, float, SUM)
SCATTER(scatter_f64, double, SUM)
SCATTER(scatter_i64, int64_t, WRAPPED)

/* The last `dims` dims of `small` and of `big` are planes. */
static scatter_job planes_of(const cr_view *small, const cr_view *big, int64_t dims)
{
    scatter_job w = {.planes = 1, .n = 1, .m = 1};

    for (int64_t d = 0; d < small->ndim; d++) {
        if (d < small->ndim - dims)
            w.planes *= small->size[d];
        else
            w.n *= small->size[d], w.m *= big->size[d];
    }
    return w;
}

static cr_status check_positions(const cr_view *index, const cr_view *big, int64_t dims,
                                 int64_t m)
{
    const int64_t *size = big->size + big->ndim - dims;
    int64_t wrong;

    if (cr_indices_within(index, 0, m, &wrong))
        return CR_OK;
    if (dims == 3)
        return cr_fail(
            CR_RUNTIME,
            "Found an invalid max index: %lld (output volumes are of size %lldx%lldx%lld)",
            (long long)wrong, (long long)size[0], (long long)size[1], (long long)size[2]);
    return cr_fail(CR_RUNTIME,
                   "Found an invalid max index: %lld (output volumes are of size %lldx%lld)",
                   (long long)wrong, (long long)size[0], (long long)(dims > 1 ? size[1] : 1));
}

static void scatter_run(scatter_job *w, cr_dtype t)
{
    cr_parallel_for(w->planes, GRAIN_ELEMENTS / (w->n + w->m + 1) + 1,
                    t == CR_F32   ? scatter_f32
                    : t == CR_F64 ? scatter_f64
                                  : scatter_i64,
                    w);
}

/* (self, indices, size, dims) */
cr_status cr_kern_pool_scatter(const cr_value *arg, cr_view *out)
{
    const cr_view *from = arg[0].view;
    scatter_job w = planes_of(arg[1].view, out, arg[3].i);
    cr_dtype t = !cr_dtype_is_float((cr_dtype)from->dtype) ? CR_I64
                 : from->dtype == CR_F64                   ? CR_F64
                                                           : CR_F32;
    cr_dense x = {0}, y = {0}, i = {0};
    cr_status st;

    CR_GO(check_positions(arg[1].view, out, arg[3].i, w.m));
    CR_GO(cr_dense_in(&i, arg[1].view, CR_I64));
    CR_GO(cr_dense_in(&x, from, t));
    CR_GO(cr_dense_out(&y, out, t));
    w.from = x.data;
    w.to = y.data;
    w.index = (const int64_t *)(void *)i.data;
    scatter_run(&w, t);
    cr_dense_store(&y, out, t);
done:
    cr_dense_drop(&i);
    cr_dense_drop(&x);
    cr_dense_drop(&y);
    return st;
}
