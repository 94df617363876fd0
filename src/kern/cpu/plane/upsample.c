/* Resampling of planes.
 *
 * Source positions are computed in the element type, those of nearest modes in float, so that
 * they are on the same side of a boundary as torch's. */
#include "kern/cpu/plane/upsample.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "kern/cpu/pack.h"
#include <math.h>
#include <string.h>

typedef struct {
    int64_t in, out, taps;
    double scale;
    int64_t *index; /* [out, taps] */
    void *weight;   /* [out, taps] */
} axis;

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

static int64_t tap_count(const cr_upsample *u, int d)
{
    double scale = u->scale[d] > 0 ? 1.0 / u->scale[d] : (double)u->in[d] / (double)u->out[d];

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
static cr_status axis_init(axis *a, const cr_upsample *u, int d, cr_dtype t)
{
    bool plain = u->in[d] == 1 && u->out[d] == 1;
    cr_upsample_mode mode = plain ? CR_UPSAMPLE_NEAREST : u->mode;

    *a = (axis){.in = u->in[d], .out = u->out[d], .scale = plain ? 0 : u->scale[d]};
    a->taps = plain ? 1 : tap_count(u, d);
    a->index = cr_alloc((size_t)(a->out * a->taps) * sizeof *a->index);
    a->weight = cr_alloc((size_t)(a->out * a->taps) * cr_dtype_size(t));
    if (!a->index || !a->weight)
        return CR_MEMORY;
    if (t == CR_F32)
        f32_taps(a, mode, u->align_corners);
    else
        f64_taps(a, mode, u->align_corners);
    return CR_OK;
}

static void range(void *context, int64_t begin, int64_t end)
{
    upsample_job *w = context;
    const cr_upsample *u = w->u;
    int64_t scratch = u->in[0] * u->in[1] * u->out[2] + u->in[0] * u->out[1] * u->out[2];
    void *p = cr_aligned_alloc((size_t)scratch * cr_dtype_size(w->t));

    if (!p)
        w->no_memory = true;
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
        st = axis_init(&w.axis[d], u, d, t);
    if (!st)
        cr_parallel_for(u->planes, 16384 / (w.in + w.out + 1) + 1, range, &w);
    for (int d = 0; d < 3; d++) {
        cr_free(w.axis[d].index);
        cr_free(w.axis[d].weight);
    }
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
