/* Resampling of planes.
 *
 * Source positions are computed in the element type, those of nearest modes in float, so that
 * they are on the same side of a boundary as torch's.  As in torch, bytes are multiplied by
 * weights of 16 bits; the largest weight of a dimension determines the number of fraction bits,
 * and the results of every dimension are rounded to bytes. */
#include "kern/cpu/plane/upsample.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "kern/cpu/pack.h"
#include <math.h>
#include <string.h>

typedef cr_upsample_axis axis;

typedef struct {
    const cr_upsample *u;
    cr_dtype t;
    axis axis[3];
    bool back;
    const void *from;
    void *to;
    int64_t in, out; /* elements of a plane */
    _Atomic bool no_memory;
} upsample_job;

static int64_t nearest_index(const axis *a, int64_t o, float scale, bool exact)
{
    int64_t i;

    if (!exact && a->out == a->in)
        return o;
    if (!exact && a->out == 2 * a->in)
        return o >> 1;
    i = (int64_t)floorf(((float)o + (exact ? 0.5f : 0.0f)) * scale);
    return i < 0 || i >= a->in ? a->in - 1 : i; /* a number too large for i is negative */
}

static void nearest_taps(const axis *a, bool exact)
{
    float scale = a->scale > 0 ? (float)(1.0 / a->scale) : (float)a->in / (float)a->out;

    for (int64_t o = 0; o < a->out; o++)
        a->index[o] = nearest_index(a, o, scale, exact);
}

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/plane/upsample_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/plane/upsample_loops.inc"

/* --- bytes --- */

enum { BYTES_AT_ONCE = 64 };

/* Adds the weights of equal neighbouring taps, as at a border, to the first of them. */
static void bytes_merge(const axis *a, double *weight)
{
    for (int64_t o = 0; o < a->out; o++) {
        int64_t *index = a->index + o * a->taps, first = 0;
        double *w = weight + o * a->taps;
        for (int64_t t = 1; t < a->taps; t++) {
            first = index[t] == index[first] ? first : t;
            if (first != t) {
                w[first] += w[t];
                w[t] = 0;
            }
        }
    }
}

/* The greatest number of fraction bits with which all weights fit 16 bits. */
static int bytes_fraction(const axis *a, const double *weight)
{
    double most = 0;
    int bits = 0;

    for (int64_t i = 0; i < a->out * a->taps; i++)
        most = weight[i] > most ? weight[i] : most;
    while (bits < 22 && 0.5 + most * (double)(1 << (bits + 1)) < (double)(1 << 15))
        bits++;
    return bits;
}

static void bytes_taps(axis *a)
{
    double *weight = a->weight;
    int16_t *small = a->weight; /* an integer is stored where its weight has been read */

    bytes_merge(a, weight);
    a->fraction = bytes_fraction(a, weight);
    for (int64_t i = 0; i < a->out * a->taps; i++) {
        double w = weight[i] * (double)(1 << a->fraction);
        int16_t rounded = (int16_t)(w < 0 ? w - 0.5 : w + 0.5);
        memcpy(&small[i], &rounded, sizeof rounded);
    }
}

static uint8_t bytes_round(int32_t sum, int fraction)
{
    int32_t v = sum >> fraction;

    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* A line of outputs of the last dimension. */
static void bytes_line(const axis *a, const uint8_t *x, uint8_t *y)
{
    const int16_t *weight = a->weight;
    const int64_t *index = a->index;

    for (int64_t o = 0; o < a->out; o++, weight += a->taps, index += a->taps) {
        int32_t sum = a->fraction ? 1 << (a->fraction - 1) : 0;
        for (int64_t t = 0; t < a->taps; t++)
            sum += (int32_t)weight[t] * x[index[t]];
        y[o] = bytes_round(sum, a->fraction);
    }
}

/* Writes `n` neighbouring bytes of output o; n is at most BYTES_AT_ONCE. */
CR_WIDE static void bytes_sums(const axis *a, int64_t o, int64_t inner, int64_t n,
                               const uint8_t *x, uint8_t *y)
{
    const int16_t *weight = (const int16_t *)a->weight + o * a->taps;
    const int64_t *index = a->index + o * a->taps;
    int32_t sum[BYTES_AT_ONCE];

    for (int64_t j = 0; j < n; j++)
        sum[j] = a->fraction ? 1 << (a->fraction - 1) : 0;
    for (int64_t t = 0; t < a->taps; t++)
        for (int64_t j = 0; j < n; j++)
            sum[j] += (int32_t)weight[t] * x[index[t] * inner + j];
    for (int64_t j = 0; j < n; j++)
        y[j] = bytes_round(sum[j], a->fraction);
}

static void bytes_rows(const axis *a, int64_t inner, const uint8_t *x, uint8_t *y)
{
    for (int64_t o = 0; o < a->out; o++)
        for (int64_t j = 0; j < inner; j += BYTES_AT_ONCE) {
            int64_t n = inner - j < BYTES_AT_ONCE ? inner - j : BYTES_AT_ONCE;
            bytes_sums(a, o, inner, n, x + j, y + o * inner + j);
        }
}

/* y[outer, out, inner] from x[outer, in, inner]; a copy if the sizes are equal. */
static void bytes_stretch(const axis *a, int64_t outer, int64_t inner, const uint8_t *x,
                          uint8_t *y)
{
    if (a->in == a->out && a->taps > 1) {
        memcpy(y, x, (size_t)(outer * a->in * inner));
        return;
    }
    for (int64_t i = 0; i < outer; i++, x += a->in * inner, y += a->out * inner)
        if (inner == 1)
            bytes_line(a, x, y);
        else
            bytes_rows(a, inner, x, y);
}

static void bytes_range(const upsample_job *w, int64_t begin, int64_t end, uint8_t *scratch)
{
    const cr_upsample *u = w->u;
    uint8_t *one = scratch, *two = one + u->in[0] * u->in[1] * u->out[2];

    for (int64_t i = begin; i < end; i++) {
        const uint8_t *x = (const uint8_t *)w->from + i * w->in;
        bytes_stretch(&w->axis[2], u->in[0] * u->in[1], 1, x, one);
        bytes_stretch(&w->axis[1], u->in[0], u->out[2], one, two);
        bytes_stretch(&w->axis[0], 1, u->out[1] * u->out[2], two,
                      (uint8_t *)w->to + i * w->out);
    }
}

/* --- all dtypes --- */

/* Positions of the source from one of the result to the next, as scale_of() of the loops. */
static double axis_step(const cr_upsample *u, int d)
{
    if (u->align_corners)
        return u->out[d] > 1 ? (double)(u->in[d] - 1) / (double)(u->out[d] - 1) : 0;
    return u->scale[d] > 0 ? 1.0 / u->scale[d] : (double)u->in[d] / (double)u->out[d];
}

static int64_t tap_count(const cr_upsample *u, int d)
{
    double scale = axis_step(u, d);

    switch (u->mode) {
    case CR_UPSAMPLE_LINEAR: return 2;
    case CR_UPSAMPLE_CUBIC: return 4;
    case CR_UPSAMPLE_LINEAR_AA:
        return (int64_t)fmin(ceil(fmax(scale, 1)) * 2 + 1, (double)u->in[d]);
    case CR_UPSAMPLE_CUBIC_AA:
        return (int64_t)fmin(ceil(2 * fmax(scale, 1)) * 2 + 1, (double)u->in[d]);
    default: return 1;
    }
}

/* A leading dimension of size 1 is not resampled, in any mode. */
cr_status cr_upsample_axis_make(cr_upsample_axis *a, const cr_upsample *u, int d, cr_dtype t)
{
    bool plain = u->in[d] == 1 && u->out[d] == 1;
    cr_upsample_mode mode = plain ? CR_UPSAMPLE_NEAREST : u->mode;

    *a = (axis){.in = u->in[d], .out = u->out[d], .scale = plain ? 0 : u->scale[d]};
    a->taps = plain ? 1 : tap_count(u, d);
    a->index = cr_alloc((size_t)(a->out * a->taps) * sizeof *a->index);
    a->weight = cr_alloc((size_t)(a->out * a->taps) * sizeof(double));
    CR_NEED(a->index && a->weight);
    if (t == CR_F32)
        f32_taps(a, mode, u->align_corners);
    else
        f64_taps(a, mode, u->align_corners);
    if (t == CR_U8)
        bytes_taps(a);
    return CR_OK;
}

void cr_upsample_axis_drop(cr_upsample_axis *a)
{
    cr_free(a->index);
    cr_free(a->weight);
}

static void range(void *context, int64_t begin, int64_t end)
{
    upsample_job *w = context;
    const cr_upsample *u = w->u;
    int64_t scratch = u->in[0] * u->in[1] * u->out[2] + u->in[0] * u->out[1] * u->out[2];
    void *p = cr_aligned_alloc((size_t)scratch * cr_dtype_size(w->t));

    if (!p)
        w->no_memory = true;
    else if (w->t == CR_U8)
        bytes_range(w, begin, end, p);
    else if (w->t == CR_F32)
        f32_range(w, begin, end, p);
    else
        f64_range(w, begin, end, p);
    cr_aligned_free(p);
}

static cr_status upsample_run(const cr_upsample *u, cr_dtype t, const void *from, void *to,
                              bool back)
{
    upsample_job w = {.u = u, .t = t, .back = back, .from = from, .to = to};
    cr_status st = CR_OK;

    w.in = u->in[0] * u->in[1] * u->in[2];
    w.out = u->out[0] * u->out[1] * u->out[2];
    for (int d = 0; d < 3 && !st; d++)
        st = cr_upsample_axis_make(&w.axis[d], u, d, t);
    if (!st)
        cr_parallel_for(u->planes, 16384 / (w.in + w.out + 1) + 1, range, &w);
    for (int d = 0; d < 3; d++)
        cr_upsample_axis_drop(&w.axis[d]);
    return w.no_memory ? cr_fail(CR_MEMORY, "not enough memory for resampling") : st;
}

cr_status cr_upsample_run(const cr_upsample *u, cr_dtype t, const void *x, void *y)
{
    return upsample_run(u, t, x, y, false);
}

cr_status cr_upsample_back(const cr_upsample *u, cr_dtype t, const void *y, void *x)
{
    return upsample_run(u, t, y, x, true);
}
