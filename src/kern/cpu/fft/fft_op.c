/* The entries of Fourier transforms: transforms along dims of dense arrays.
 *
 * A dim is transformed several lines at a time.  A real transform combines two real lines into
 * one complex line, one as its real and one as its imaginary part, and separates the spectra by
 * their symmetry. */
#include "base/parallel.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/fft/fft.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/walk.h"
#include <math.h>
#include <string.h>

/* One dim of a row-major array of complex numbers. */
typedef struct {
    cr_fft_plan *plan;
    cr_dtype t;
    char *data;
    int64_t n, inner, lines, lanes; /* inner: elements between neighbours along the dim */
    double scale;
    _Atomic bool no_memory;
} dim_job;

/* The lines that are transformed together. */
static int64_t most_lanes(const cr_fft_plan *p, int64_t n)
{
    int64_t lanes = cr_fft_long(p) ? 1 : 32768 / n;

    return lanes < 1 ? 1 : lanes > 16 ? 16 : lanes;
}

/* The least number of groups of lines for one thread: all where there are fewer than threads
 * and threads share each line. */
static int64_t group_grain(const cr_fft_plan *p, int64_t groups, int64_t numbers)
{
    if (cr_fft_long(p) && groups < cr_threads())
        return groups;
    return 16384 / numbers + 1;
}

/* Transforms groups [begin, end) of lines.  A group has lines of one outer index only. */
static void dim_range(void *context, int64_t begin, int64_t end)
{
    dim_job *w = context;
    int64_t item = (int64_t)cr_dtype_size(w->t);
    int64_t in_row = w->inner > 1 ? w->inner : w->lines,
            per = (in_row + w->lanes - 1) / w->lanes;
    void *scratch = cr_aligned_alloc(cr_fft_scratch(w->plan, w->lanes));

    if (!scratch)
        w->no_memory = true;
    for (int64_t g = begin; g < end && scratch; g++) {
        int64_t outer = g / per, first = g % per * w->lanes;
        int64_t count = in_row - first < w->lanes ? in_row - first : w->lanes;
        cr_status st;
        if (w->inner > 1)
            st = cr_fft_lines(w->plan, w->data + (outer * w->n * w->inner + first) * item,
                              w->inner, 1, count, w->scale, scratch);
        else
            st = cr_fft_lines(w->plan, w->data + first * w->n * item, 1, w->n, count, w->scale,
                              scratch);
        if (st)
            w->no_memory = true;
    }
    cr_aligned_free(scratch);
}

static cr_status fft_no_memory(void)
{
    return cr_fail(CR_MEMORY, "not enough memory for a Fourier transform");
}

/* Transforms one dim in place. */
static cr_status one_dim(char *data, cr_dtype t, int ndim, const int64_t *size, int64_t dim,
                         bool forward, double scale)
{
    dim_job w = {.t = t, .data = data, .n = size[dim], .inner = 1, .lines = 1, .scale = scale};
    int64_t in_row, groups;
    cr_fft_plan *plan;

    for (int d = 0; d < ndim; d++)
        if (d != dim)
            w.lines *= size[d];
    for (int d = (int)dim + 1; d < ndim; d++)
        w.inner *= size[d];
    if (!w.lines || !w.n)
        return CR_OK;
    CR_TRY(cr_fft_plan_get(&plan, t, w.n, forward));
    w.plan = plan;
    w.lanes = most_lanes(plan, w.n);
    in_row = w.inner > 1 ? w.inner : w.lines;
    groups = w.lines / in_row * ((in_row + w.lanes - 1) / w.lanes);
    cr_parallel_for(groups, group_grain(plan, groups, w.n * w.lanes), dim_range, &w);
    cr_fft_plan_release(plan);
    return w.no_memory ? fft_no_memory() : CR_OK;
}

static double norm_scale(int64_t mode, double n)
{
    return mode == 0 ? 1 : mode == 1 ? 1 / sqrt(n) : 1 / n;
}

static int64_t wrapped(const cr_view *v, int64_t dim) { return dim < 0 ? dim + v->ndim : dim; }

/* Product of the sizes of the dims. */
static double signal_size(const cr_view *v, const cr_value *dims)
{
    double n = 1;

    for (uint32_t i = 0; i < dims->len; i++)
        n *= (double)v->size[wrapped(v, dims->ints[i])];
    return n;
}

/* Transforms dims [0, count) of the list, in place.  The first transform applies the scale. */
static cr_status many_dims(char *data, const cr_view *v, const cr_value *dims, uint32_t count,
                           bool forward, double scale)
{
    for (uint32_t i = 0; i < count; i++)
        CR_TRY(one_dim(data, (cr_dtype)v->dtype, v->ndim, v->size, wrapped(v, dims->ints[i]),
                       forward, i ? 1 : scale));
    return CR_OK;
}

/* (self, dim, normalization, forward) */
cr_status cr_kern_fft_c2c(const cr_value *arg, cr_view *out)
{
    cr_pack(out->data, (cr_dtype)out->dtype, arg[0].view);
    return many_dims(out->data, out, &arg[1], arg[1].len, arg[3].i,
                     norm_scale(arg[2].i, signal_size(out, &arg[1])));
}

/* --- real transforms along one dim --- */

typedef struct {
    cr_fft_plan *plan;
    cr_dtype t; /* complex */
    const char *from;
    char *to;
    int64_t n, inner, lines, lanes; /* lanes: pairs of lines that are transformed together */
    int64_t from_n, to_n;           /* elements along the dim in input and output */
    double scale;
    _Atomic bool no_memory;
} real_job;

#define REAL_LOOPS(T, C, NAME)                                                                 \
    /* Two real lines become one complex one. */                                               \
    static void NAME##_join(const T *a, const T *b, int64_t step, int64_t n, C *z)             \
    {                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                        \
            z[i] = (C){a[i * step], b ? b[i * step] : 0};                                      \
    }                                                                                          \
    /* Spectra of the two lines from that of the joined one; `count` elements of each. */      \
    static void NAME##_part(const C *z, int64_t n, C *a, C *b, int64_t step, int64_t count)    \
    {                                                                                          \
        for (int64_t k = 0; k < count; k++) {                                                  \
            C p = z[k], q = z[k ? n - k : 0];                                                  \
            a[k * step] = b ? (C){(p.re + q.re) / 2, (p.im - q.im) / 2} : p;                   \
            if (b)                                                                             \
                b[k * step] = (C){(p.im + q.im) / 2, (q.re - p.re) / 2};                       \
        }                                                                                      \
    }                                                                                          \
    /* Two halves of symmetric spectra become one whole spectrum, a + i b. */                  \
    static void NAME##_mirror(const C *a, const C *b, int64_t step, int64_t n, C *z)           \
    {                                                                                          \
        C none = {0, 0};                                                                       \
        for (int64_t k = 0; k <= n / 2; k++) {                                                 \
            C p = a[k * step], q = b ? b[k * step] : none;                                     \
            bool own = k == 0 || 2 * k == n;                                                   \
            T pi = own ? 0 : p.im, qi = own ? 0 : q.im;                                        \
            z[k] = (C){p.re - qi, pi + q.re};                                                  \
            if (!own)                                                                          \
                z[n - k] = (C){p.re + qi, q.re - pi};                                          \
        }                                                                                      \
    }                                                                                          \
    static void NAME##_split(const C *z, int64_t n, T *a, T *b, int64_t step)                  \
    {                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                      \
            a[i * step] = z[i].re;                                                             \
            if (b)                                                                             \
                b[i * step] = z[i].im;                                                         \
        }                                                                                      \
    }                                                                                          \
    /* Elements k and h - k of the spectrum of 2h real numbers, k in [begin, end), in place,   \
     * from the spectrum of the numbers as h complex ones. */                                  \
    static void NAME##_turn(C *y, int64_t h, const C *turn, int64_t begin, int64_t end)        \
    {                                                                                          \
        for (int64_t k = begin; k < end; k++) {                                                \
            C p = y[k], q = y[k ? h - k : 0], w = turn[k];                                     \
            T er = (p.re + q.re) / 2, ei = (p.im - q.im) / 2;                                  \
            T dr = (p.im + q.im) / 2, di = (q.re - p.re) / 2;                                  \
            T tr = dr * w.re - di * w.im, ti = dr * w.im + di * w.re;                          \
            y[k] = (C){er + tr, ei + ti};                                                      \
            y[h - k] = (C){er - tr, ti - ei};                                                  \
        }                                                                                      \
    }                                                                                          \
    /* The inverse, times two. */                                                              \
    static void NAME##_turn_back(const C *x, C *z, int64_t h, const C *turn, int64_t begin,    \
                                 int64_t end)                                                  \
    {                                                                                          \
        for (int64_t k = begin; k < end; k++) {                                                \
            C p = x[k], q = x[h - k], w = turn[k];                                             \
            T pi = k ? p.im : 0, qi = k ? q.im : 0;                                            \
            T er = p.re + q.re, ei = pi - qi, dr = p.re - q.re, di = pi + qi;                  \
            T tr = dr * w.re - di * w.im, ti = dr * w.im + di * w.re;                          \
            z[k] = (C){er - ti, ei + tr};                                                      \
            if (k)                                                                             \
                z[h - k] = (C){er + ti, tr - ei};                                              \
        }                                                                                      \
    }                                                                                          \
    /* Elements from n / 2 + 1 on mirror the others. */                                        \
    static void NAME##_complete(C *y, int64_t n)                                               \
    {                                                                                          \
        for (int64_t k = n / 2 + 1; k < n; k++)                                                \
            y[k] = (C){y[n - k].re, -y[n - k].im};                                             \
    }                                                                                          \
    /* The part of a symmetric spectrum whose transform has the same real parts. */            \
    static void NAME##_double(const C *x, int64_t n, C *z)                                     \
    {                                                                                          \
        z[0] = (C){x[0].re, 0};                                                                \
        for (int64_t k = 1; k <= n / 2; k++)                                                   \
            z[k] = (C){2 * x[k].re, 2 * x[k].im};                                              \
    }
REAL_LOOPS(float, cr_complex_float, f32)
REAL_LOOPS(double, cr_complex, f64)

/* The first element of line i in an array with n elements along the dim. */
static int64_t line_at(const real_job *w, int64_t i, int64_t n)
{
    return i / w->inner * n * w->inner + i % w->inner;
}

/* Two lines, from the i-th on, become one complex line; or one, when there is no other. */
static void join_pair(const real_job *w, int64_t i, bool to_real, void *z)
{
    bool pair = i + 1 < w->lines;
    int64_t f0 = line_at(w, i, w->from_n), f1 = line_at(w, i + pair, w->from_n);
    const void *from = w->from;

    if (w->t == CR_C64 && to_real) {
        const cr_complex_float *x = from;
        f32_mirror(x + f0, pair ? x + f1 : NULL, w->inner, w->n, z);
    } else if (w->t == CR_C64) {
        const float *x = from;
        f32_join(x + f0, pair ? x + f1 : NULL, w->inner, w->n, z);
    } else if (to_real) {
        const cr_complex *x = from;
        f64_mirror(x + f0, pair ? x + f1 : NULL, w->inner, w->n, z);
    } else {
        const double *x = from;
        f64_join(x + f0, pair ? x + f1 : NULL, w->inner, w->n, z);
    }
}

static void part_pair(const real_job *w, int64_t i, bool to_real, const void *z)
{
    bool pair = i + 1 < w->lines;
    int64_t t0 = line_at(w, i, w->to_n), t1 = line_at(w, i + pair, w->to_n);
    void *to = w->to;

    if (w->t == CR_C64 && to_real) {
        float *y = to;
        f32_split(z, w->n, y + t0, pair ? y + t1 : NULL, w->inner);
    } else if (w->t == CR_C64) {
        cr_complex_float *y = to;
        f32_part(z, w->n, y + t0, pair ? y + t1 : NULL, w->inner, w->to_n);
    } else if (to_real) {
        double *y = to;
        f64_split(z, w->n, y + t0, pair ? y + t1 : NULL, w->inner);
    } else {
        cr_complex *y = to;
        f64_part(z, w->n, y + t0, pair ? y + t1 : NULL, w->inner, w->to_n);
    }
}

/* Transforms groups [begin, end) of pairs of lines. */
static void pairs(real_job *w, int64_t begin, int64_t end, bool to_real)
{
    size_t line = (size_t)w->n * cr_dtype_size(w->t);
    char *z = cr_aligned_alloc((size_t)w->lanes * line);
    void *scratch = cr_aligned_alloc(cr_fft_scratch(w->plan, w->lanes));

    if (!z || !scratch)
        w->no_memory = true;
    for (int64_t g = begin; g < end && !w->no_memory; g++) {
        int64_t first = 2 * g * w->lanes, left = (w->lines - first + 1) / 2;
        int64_t count = left < w->lanes ? left : w->lanes;
        for (int64_t k = 0; k < count; k++)
            join_pair(w, first + 2 * k, to_real, z + (size_t)k * line);
        if (cr_fft_lines(w->plan, z, 1, w->n, count, w->scale, scratch))
            w->no_memory = true;
        for (int64_t k = 0; k < count; k++)
            part_pair(w, first + 2 * k, to_real, z + (size_t)k * line);
    }
    cr_aligned_free(z);
    cr_aligned_free(scratch);
}

static void pairs_to_complex(void *context, int64_t begin, int64_t end)
{
    pairs(context, begin, end, false);
}

static void pairs_to_real(void *context, int64_t begin, int64_t end)
{
    pairs(context, begin, end, true);
}

static cr_status run_pairs(real_job *w, bool to_real)
{
    int64_t count = (w->lines + 1) / 2, groups;
    cr_fft_plan *plan;

    CR_TRY(cr_fft_plan_get(&plan, w->t, w->n, !to_real));
    w->plan = plan;
    w->lanes = most_lanes(plan, w->n);
    groups = (count + w->lanes - 1) / w->lanes;
    cr_parallel_for(groups, group_grain(plan, groups, w->n * w->lanes),
                    to_real ? pairs_to_real : pairs_to_complex, w);
    cr_fft_plan_release(plan);
    return w->no_memory ? fft_no_memory() : CR_OK;
}

/* --- one real line --- */

typedef struct {
    const real_job *w;
    int64_t half;
    const void *turn;
} turn_job;

static void turn_range(void *context, int64_t begin, int64_t end)
{
    const turn_job *j = context;

    if (j->w->t == CR_C64)
        f32_turn((void *)j->w->to, j->half, j->turn, begin, end);
    else
        f64_turn((void *)j->w->to, j->half, j->turn, begin, end);
}

static void turn_back_range(void *context, int64_t begin, int64_t end)
{
    const turn_job *j = context;

    if (j->w->t == CR_C64)
        f32_turn_back((const void *)j->w->from, (void *)j->w->to, j->half, j->turn, begin, end);
    else
        f64_turn_back((const void *)j->w->from, (void *)j->w->to, j->half, j->turn, begin, end);
}

/* An even number of reals as half as many complex numbers, in the place of the results. */
static cr_status half_line(const real_job *w, bool to_real, cr_fft_plan *half, const void *turn)
{
    turn_job j = {w, w->n / 2, turn};
    void *scratch = cr_aligned_alloc(cr_fft_scratch(half, 1));
    cr_status st;

    CR_NEED(scratch);
    if (to_real)
        cr_parallel_for(j.half / 2 + 1, 8192, turn_back_range, &j);
    else
        memcpy(w->to, w->from, (size_t)j.half * cr_dtype_size(w->t));
    st = cr_fft_lines(half, w->to, 1, j.half, 1, w->scale, scratch);
    if (!st && !to_real)
        cr_parallel_for(j.half / 2 + 1, 8192, turn_range, &j);
    cr_aligned_free(scratch);
    return st;
}

/* An odd number of reals. */
static cr_status odd_line(real_job *w, bool to_real)
{
    void *z = cr_aligned_alloc((size_t)w->n * cr_dtype_size(w->t));
    void *scratch = cr_aligned_alloc(cr_fft_scratch(w->plan, 1));
    int64_t given = w->to_n;
    cr_status st = CR_MEMORY;

    if (!z || !scratch)
        goto done;
    if (!to_real)
        join_pair(w, 0, false, z);
    else if (w->t == CR_C64)
        f32_double((const void *)w->from, w->n, z);
    else
        f64_double((const void *)w->from, w->n, z);
    st = cr_fft_lines(w->plan, z, 1, w->n, 1, w->scale, scratch);
    if (!to_real)
        w->to_n = w->n / 2 + 1;
    part_pair(w, 0, to_real, z);
    w->to_n = given;
done:
    cr_aligned_free(z);
    cr_aligned_free(scratch);
    return st;
}

static cr_status run_line(real_job *w, bool to_real)
{
    cr_fft_plan *plan, *half;
    const void *turn;
    cr_status st;

    CR_TRY(cr_fft_real_get(&plan, w->t, w->n, !to_real));
    w->plan = plan;
    half = cr_fft_half(plan, &turn);
    st = half ? half_line(w, to_real, half, turn) : odd_line(w, to_real);
    if (!to_real && w->to_n == w->n && w->t == CR_C64)
        f32_complete((void *)w->to, w->n);
    else if (!to_real && w->to_n == w->n)
        f64_complete((void *)w->to, w->n);
    cr_fft_plan_release(plan);
    return st ? fft_no_memory() : CR_OK;
}

static cr_status run_real(real_job *w, const cr_view *v, int64_t dim, bool to_real)
{
    w->inner = w->lines = 1;
    for (int d = 0; d < v->ndim; d++) {
        w->lines *= d == dim ? 1 : v->size[d];
        w->inner *= d > dim ? v->size[d] : 1;
    }
    if (!w->lines || !w->n)
        return CR_OK;
    return w->lines == 1 ? run_line(w, to_real) : run_pairs(w, to_real);
}

/* (self, dim, normalization, onesided) */
cr_status cr_kern_fft_r2c(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    const cr_value *dims = &arg[1];
    int64_t last = wrapped(self, dims->ints[dims->len - 1]);
    real_job w = {.t = (cr_dtype)out->dtype,
                  .to = out->data,
                  .n = self->size[last],
                  .from_n = self->size[last],
                  .to_n = out->size[last],
                  .scale = norm_scale(arg[2].i, signal_size(self, dims))};
    cr_dense x = {0};
    cr_status st;

    CR_GO(cr_dense_in(&x, self, cr_dtype_real(w.t)));
    w.from = x.data;
    CR_GO(run_real(&w, self, last, false));
    CR_GO(many_dims(out->data, out, dims, dims->len - 1, true, 1));
done:
    cr_dense_drop(&x);
    return st;
}

/* (self, dim, normalization, last_dim_size) */
cr_status cr_kern_fft_c2r(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    const cr_value *dims = &arg[1];
    int64_t last = wrapped(self, dims->ints[dims->len - 1]);
    real_job w = {.t = (cr_dtype)self->dtype,
                  .to = out->data,
                  .n = out->size[last],
                  .from_n = self->size[last],
                  .to_n = out->size[last],
                  .scale = norm_scale(arg[2].i, signal_size(out, dims))};
    char *copy = cr_aligned_alloc((size_t)cr_view_numel(self) * cr_dtype_size(w.t));
    cr_status st = copy ? CR_OK : CR_MEMORY;

    CR_GO(st);
    cr_pack(copy, w.t, self);
    w.from = copy;
    CR_GO(many_dims(copy, self, dims, dims->len - 1, false, 1));
    CR_GO(run_real(&w, self, last, true));
done:
    cr_aligned_free(copy);
    return st;
}
