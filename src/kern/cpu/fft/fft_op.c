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
    const cr_fft_plan *plan;
    cr_dtype t;
    char *data;
    int64_t n, inner, lines, lanes; /* inner: elements between neighbours along the dim */
    double scale;
    _Atomic bool no_memory;
} dim_job;

static int64_t most_lanes(int64_t n)
{
    int64_t lanes = 32768 / n;

    return lanes < 1 ? 1 : lanes > 16 ? 16 : lanes;
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
        if (w->inner > 1)
            cr_fft_lines(w->plan, w->data + (outer * w->n * w->inner + first) * item, w->inner,
                         1, count, w->scale, scratch);
        else
            cr_fft_lines(w->plan, w->data + first * w->n * item, 1, w->n, count, w->scale,
                         scratch);
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
    w.lanes = most_lanes(w.n);
    in_row = w.inner > 1 ? w.inner : w.lines;
    groups = w.lines / in_row * ((in_row + w.lanes - 1) / w.lanes);
    cr_parallel_for(groups, 16384 / (w.n * w.lanes) + 1, dim_range, &w);
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
    const cr_fft_plan *plan;
    cr_dtype t; /* complex */
    const char *from;
    char *to;
    int64_t n, inner, lines;
    int64_t from_n, to_n; /* elements along the dim in input and output */
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
    }
REAL_LOOPS(float, cr_complex_float, f32)
REAL_LOOPS(double, cr_complex, f64)

/* The first element of line i in an array with n elements along the dim. */
static int64_t line_at(const real_job *w, int64_t i, int64_t n)
{
    return i / w->inner * n * w->inner + i % w->inner;
}

static void real_to_complex(const real_job *w, int64_t i, bool pair, void *z, void *scratch)
{
    int64_t f0 = line_at(w, i, w->n), f1 = line_at(w, i + pair, w->n);
    int64_t t0 = line_at(w, i, w->to_n), t1 = line_at(w, i + pair, w->to_n);

    if (w->t == CR_C64) {
        const float *x = (const float *)(const void *)w->from;
        cr_complex_float *y = (cr_complex_float *)(void *)w->to;
        f32_join(x + f0, pair ? x + f1 : NULL, w->inner, w->n, z);
        cr_fft_lines(w->plan, z, 1, w->n, 1, w->scale, scratch);
        f32_part(z, w->n, y + t0, pair ? y + t1 : NULL, w->inner, w->to_n);
    } else {
        const double *x = (const double *)(const void *)w->from;
        cr_complex *y = (cr_complex *)(void *)w->to;
        f64_join(x + f0, pair ? x + f1 : NULL, w->inner, w->n, z);
        cr_fft_lines(w->plan, z, 1, w->n, 1, w->scale, scratch);
        f64_part(z, w->n, y + t0, pair ? y + t1 : NULL, w->inner, w->to_n);
    }
}

static void complex_to_real(const real_job *w, int64_t i, bool pair, void *z, void *scratch)
{
    int64_t f0 = line_at(w, i, w->from_n), f1 = line_at(w, i + pair, w->from_n);
    int64_t t0 = line_at(w, i, w->n), t1 = line_at(w, i + pair, w->n);

    if (w->t == CR_C64) {
        const cr_complex_float *x = (const cr_complex_float *)(const void *)w->from;
        float *y = (float *)(void *)w->to;
        f32_mirror(x + f0, pair ? x + f1 : NULL, w->inner, w->n, z);
        cr_fft_lines(w->plan, z, 1, w->n, 1, w->scale, scratch);
        f32_split(z, w->n, y + t0, pair ? y + t1 : NULL, w->inner);
    } else {
        const cr_complex *x = (const cr_complex *)(const void *)w->from;
        double *y = (double *)(void *)w->to;
        f64_mirror(x + f0, pair ? x + f1 : NULL, w->inner, w->n, z);
        cr_fft_lines(w->plan, z, 1, w->n, 1, w->scale, scratch);
        f64_split(z, w->n, y + t0, pair ? y + t1 : NULL, w->inner);
    }
}

/* Transforms pairs of lines [begin, end). */
static void pairs(real_job *w, int64_t begin, int64_t end, bool to_real)
{
    void *z = cr_aligned_alloc((size_t)w->n * cr_dtype_size(w->t));
    void *scratch = cr_aligned_alloc(cr_fft_scratch(w->plan, 1));

    if (!z || !scratch)
        w->no_memory = true;
    for (int64_t i = 2 * begin; i < 2 * end && i < w->lines && z && scratch; i += 2) {
        bool pair = i + 1 < w->lines;
        if (to_real)
            complex_to_real(w, i, pair, z, scratch);
        else
            real_to_complex(w, i, pair, z, scratch);
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

static cr_status run_real(real_job *w, const cr_view *v, int64_t dim, bool to_real)
{
    cr_fft_plan *plan;

    w->inner = w->lines = 1;
    for (int d = 0; d < v->ndim; d++) {
        w->lines *= d == dim ? 1 : v->size[d];
        w->inner *= d > dim ? v->size[d] : 1;
    }
    if (!w->lines || !w->n)
        return CR_OK;
    CR_TRY(cr_fft_plan_get(&plan, w->t, w->n, !to_real));
    w->plan = plan;
    cr_parallel_for((w->lines + 1) / 2, 8192 / w->n + 1,
                    to_real ? pairs_to_real : pairs_to_complex, w);
    cr_fft_plan_release(plan);
    return w->no_memory ? fft_no_memory() : CR_OK;
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
