/* Fills new tensors with sequences.
 *
 * Programs compare elements of ranges for equality, so ranges of floats have the bits of
 * torch's AVX2 kernels on one thread.  Every element depends on its index and the length alone,
 * so the result does not depend on how the range is divided. */
#include "kern/cpu/value/factory.h"
#include "kern/cpu/element.h"
#include "kern/cpu/walk.h"

typedef struct sequence sequence;
typedef void (*put_fn)(const sequence *s, char *to, int64_t i);
typedef void (*fill_fn)(void *context, int64_t begin, int64_t end);
typedef double (*steps_fn)(double from, double by, double n);

struct sequence {
    put_fn put;
    steps_fn steps; /* of linspace and of complex exponents */
    char *data;
    int64_t step; /* bytes */
    int64_t n, int_start, int_step;
    cr_complex start, end, by;
    double base, start_unrounded;
    cr_dtype dtype;
};

static void fill_range(void *context, int64_t begin, int64_t end)
{
    const sequence *s = context;

    for (int64_t i = begin; i < end; i++)
        s->put(s, s->data + i * s->step, i);
}

static sequence sequence_over(const cr_view *out)
{
    return (sequence){.data = out->data,
                      .step = out->ndim ? cr_view_step(out, 0) : 0,
                      .n = cr_view_numel(out),
                      .dtype = (cr_dtype)out->dtype};
}

static bool is_integral(cr_dtype t) { return cr_dtype_category(t) <= CR_CAT_INT; }

static void put_number(const sequence *s, char *to, cr_complex c)
{
    cr_scalar x = cr_dtype_is_complex(s->dtype)
                      ? (cr_scalar){.category = CR_CAT_COMPLEX, .c = c}
                      : cr_scalar_float(c.re);

    cr_scalar_store(x, s->dtype, to);
}

/* A part of a number of dtype t, as t holds it; integers are computed in double. */
static double round_to(cr_dtype t, double x)
{
    item_f16 half;

    switch (t) {
    case CR_F16: store_f16(&half, (float)x); return (double)load_f16(&half);
    case CR_BF16: store_bf16(&half, (float)x); return (double)load_bf16(&half);
    case CR_F32:
    case CR_C64: return (double)(float)x;
    default: return x;
    }
}

/* arange. */

static void put_int(const sequence *s, char *to, int64_t i)
{
    cr_scalar_store(cr_scalar_int(cr_wrap_add(s->int_start, cr_wrap_mul(i, s->int_step))),
                    s->dtype, to);
}

/* Floats of arange have groups of 32 bytes: element k of a group is the group's first element
 * plus k steps, both rounded to the dtype.  Groups come in pairs; elements behind the last pair
 * have no group.  A unit is a group, or an element without one. */
#define ARANGE(suffix, wide, fused, group)                                                     \
    CR_WIDE_FMA static void arange_##suffix(void *context, int64_t begin, int64_t end)         \
    {                                                                                          \
        const sequence *s = context;                                                           \
        wide start = (wide)s->start.re, by = (wide)s->by.re;                                   \
        int64_t groups = s->n / (2 * group) * 2, step = s->step;                               \
        item_##suffix x[group];                                                                \
        for (int64_t u = begin; u < end && u < groups; u++) {                                  \
            put_##suffix(&x[0], fused(by, (wide)(u * group), start));                          \
            wide first = (wide)load_##suffix(&x[0]);                                           \
            CR_SIMD                                                                            \
            for (int k = 0; k < group; k++)                                                    \
                put_##suffix(&x[k], fused(by, (wide)k, first));                                \
            if (step == sizeof x[0])                                                           \
                memcpy(s->data + u * group * step, x, sizeof x);                               \
            for (int k = 0; k < group && step != sizeof x[0]; k++)                             \
                memcpy(s->data + (u * group + k) * step, &x[k], sizeof x[k]);                  \
        }                                                                                      \
        for (int64_t u = begin < groups ? groups : begin; u < end; u++) {                      \
            int64_t i = groups * group + (u - groups);                                         \
            put_##suffix(s->data + i * step, fused(by, (wide)i, start));                       \
        }                                                                                      \
    }
#define put_f16(to, x)  store_f16(to, x)
#define put_bf16(to, x) store_bf16(to, x)
#define put_f32(to, x)  store_f32(to, (float)(x))
#define put_f64(to, x)  store_f64(to, x)
ARANGE(f16, float, fmaf, 16)
ARANGE(bf16, float, fmaf, 16)
ARANGE(f32, double, fma, 8)
ARANGE(f64, double, fma, 4)

static int64_t units_of(int64_t n, int64_t group)
{
    return n / (2 * group) * 2 + n % (2 * group);
}

/* The common types without a call per element. */
#define FILL(name, type, value)                                                                \
    static void name(void *context, int64_t begin, int64_t end)                                \
    {                                                                                          \
        const sequence *s = context;                                                           \
        for (int64_t i = begin; i < end; i++)                                                  \
            *(type *)(void *)(s->data + i * s->step) = (type)(value);                          \
    }
FILL(fill_i64, int64_t, cr_wrap_add(s->int_start, cr_wrap_mul(i, s->int_step)))
FILL(fill_i32, int32_t, cr_wrap_add(s->int_start, cr_wrap_mul(i, s->int_step)))

static void fill_floats(const sequence *s)
{
    static const struct {
        fill_fn fill;
        int group;
    } of[CR_DTYPE_COUNT] = {[CR_F16] = {arange_f16, 16},
                            [CR_BF16] = {arange_bf16, 16},
                            [CR_F32] = {arange_f32, 8},
                            [CR_F64] = {arange_f64, 4}};
    int group = of[s->dtype].group;

    cr_parallel_for(units_of(s->n, group), CR_WALK_GRAIN / group, of[s->dtype].fill,
                    (void *)(uintptr_t)s);
}

void cr_fill_arange(const cr_view *out, cr_scalar start, cr_scalar step)
{
    sequence s = sequence_over(out);

    if (!is_integral(s.dtype)) {
        s.start = cr_scalar_as_complex(start);
        s.by = cr_scalar_as_complex(step);
        fill_floats(&s);
        return;
    }
    s.int_start = cr_scalar_as_int(start);
    s.int_step = cr_scalar_as_int(step);
    s.put = put_int;
    cr_parallel_for(s.n, CR_WALK_GRAIN,
                    s.dtype == CR_I64   ? fill_i64
                    : s.dtype == CR_I32 ? fill_i32
                                        : fill_range,
                    &s);
}

/* range: one product and one sum for each element, in float for halves. */
static void put_range(const sequence *s, char *to, int64_t i)
{
    bool half = s->dtype == CR_F16 || s->dtype == CR_BF16;
    float from = (float)s->start.re, by = (float)s->by.re;
    cr_complex near = {(double)(from + (float)i * by), 0};
    cr_complex x = {s->start.re + (double)i * s->by.re, s->start.im + (double)i * s->by.im};

    put_number(s, to, half ? near : x);
}

void cr_fill_range(const cr_view *out, cr_scalar start, cr_scalar step)
{
    sequence s = sequence_over(out);

    if (is_integral(s.dtype)) {
        cr_fill_arange(out, start, step);
        return;
    }
    s.start = cr_scalar_as_complex(start);
    s.by = cr_scalar_as_complex(step);
    s.put = put_range;
    cr_parallel_for(s.n, CR_WALK_GRAIN, fill_range, &s);
}

/* linspace and logspace: each half is computed from the nearer end, so both ends are exact. */

/* n steps from a point.  Halves round the product and the sum, others round once. */
#define STEPS_HALF(suffix)                                                                     \
    static double steps_##suffix(double from, double by, double n)                             \
    {                                                                                          \
        return round_to(CR_##suffix,                                                           \
                        from + round_to(CR_##suffix, by * round_to(CR_##suffix, n)));          \
    }
STEPS_HALF(F16)
STEPS_HALF(BF16)

CR_WIDE_FMA static double steps_float(double from, double by, double n)
{
    return (double)fmaf((float)by, (float)n, (float)from);
}

CR_WIDE_FMA static double steps_double(double from, double by, double n)
{
    return fma(by, n, from);
}

static double steps_float_apart(double from, double by, double n)
{
    return (double)((float)from + (float)by * (float)n);
}

static double steps_apart(double from, double by, double n) { return from + by * n; }

static cr_complex spaced(const sequence *s, int64_t i)
{
    bool first = i < s->n / 2;
    cr_complex from = first ? s->start : s->end;
    double n = first ? (double)i : -(double)(s->n - 1 - i);

    return (cr_complex){s->steps(from.re, s->by.re, n), s->steps(from.im, s->by.im, n)};
}

static void put_spaced(const sequence *s, char *to, int64_t i)
{
    put_number(s, to, spaced(s, i));
}

/* The common floats without a call per element. */
#define LINSPACE(suffix, type, fused)                                                          \
    CR_WIDE_FMA static void linspace_##suffix(void *context, int64_t begin, int64_t end)       \
    {                                                                                          \
        const sequence *s = context;                                                           \
        type from = (type)s->start.re, to = (type)s->end.re, by = (type)s->by.re;              \
        int64_t i = begin, half = s->n / 2, last = s->n - 1;                                   \
        for (; i < end && i < half; i++)                                                       \
            *(type *)(void *)(s->data + i * s->step) = fused(by, (type)i, from);               \
        for (; i < end; i++)                                                                   \
            *(type *)(void *)(s->data + i * s->step) = fused(-by, (type)(last - i), to);       \
    }
LINSPACE(f32, float, fmaf)
LINSPACE(f64, double, fma)

/* The powers of real numbers are computed in double precision for every dtype. */
static double real_power(const sequence *s, int64_t i)
{
    bool first = i < s->n / 2;

    return pow(s->base, first ? s->start.re + s->by.re * (double)i
                              : s->end.re - s->by.re * (double)(s->n - 1 - i));
}

static void put_power(const sequence *s, char *to, int64_t i)
{
    put_number(s, to, (cr_complex){real_power(s, i), 0});
}

FILL(logspace_f32, float, real_power(s, i))
FILL(logspace_f64, double, real_power(s, i))

static void put_complex_power(const sequence *s, char *to, int64_t i)
{
    cr_complex x = spaced(s, i);

    if (s->dtype == CR_C64) {
        float _Complex z = cpowf((float)s->base, (float _Complex)cr_join_complex(x.re, x.im));
        *(cr_complex_float *)(void *)to = (cr_complex_float){crealf(z), cimagf(z)};
    } else {
        double _Complex z = cpow(s->base, cr_join_complex(x.re, x.im));
        *(cr_complex *)(void *)to = (cr_complex){creal(z), cimag(z)};
    }
}

/* A single power is computed from the number that was given, not from its rounded value. */
static void put_single_power(const sequence *s, char *to, int64_t i)
{
    (void)i;
    put_number(s, to, (cr_complex){pow(s->base, s->start_unrounded), 0});
}

/* A number as the dtype holds it. */
static cr_complex as_dtype(cr_dtype t, cr_scalar x)
{
    cr_complex room;

    cr_scalar_store(x, t, &room);
    return cr_scalar_as_complex(cr_scalar_load(t, &room));
}

static double step_part(cr_dtype t, double distance, double n, bool exponents)
{
    distance = round_to(t, distance);
    if (cr_dtype_is_complex(t) && exponents)
        return round_to(t, distance * round_to(t, 1 / round_to(t, n)));
    return exponents ? distance / n : round_to(t, distance / round_to(t, n));
}

/* The step has the dtype's precision.  The exponents of logspace have double precision; a
 * complex step there is a product with the reciprocal. */
static sequence spaced_over(const cr_view *out, cr_scalar start, cr_scalar end, bool exponents)
{
    sequence s = sequence_over(out);
    double n = s.n > 1 ? (double)(s.n - 1) : 1;

    s.start = as_dtype(s.dtype, start);
    s.end = s.n == 1 ? s.start : as_dtype(s.dtype, end);
    s.by = (cr_complex){step_part(s.dtype, s.end.re - s.start.re, n, exponents),
                        step_part(s.dtype, s.end.im - s.start.im, n, exponents)};
    return s;
}

void cr_fill_linspace(const cr_view *out, cr_scalar start, cr_scalar end)
{
    static const steps_fn steps[CR_DTYPE_COUNT] = {[CR_F16] = steps_F16,
                                                   [CR_BF16] = steps_BF16,
                                                   [CR_F32] = steps_float,
                                                   [CR_C64] = steps_float};
    sequence s = spaced_over(out, start, end, false);

    s.steps = steps[s.dtype] ? steps[s.dtype] : steps_double;
    s.put = put_spaced;
    cr_parallel_for(s.n, CR_WALK_GRAIN,
                    s.dtype == CR_F32   ? linspace_f32
                    : s.dtype == CR_F64 ? linspace_f64
                                        : fill_range,
                    &s);
}

static put_fn power_of(const sequence *s, cr_scalar start)
{
    if (s->n == 1 && start.category != CR_CAT_COMPLEX)
        return put_single_power;
    return cr_dtype_is_complex(s->dtype) ? put_complex_power : put_power;
}

void cr_fill_logspace(const cr_view *out, cr_scalar start, cr_scalar end, double base)
{
    sequence s = spaced_over(out, start, end, true);
    fill_fn fill = s.dtype == CR_F32   ? logspace_f32
                   : s.dtype == CR_F64 ? logspace_f64
                                       : fill_range;

    s.steps = s.dtype == CR_C64 ? steps_float_apart : steps_apart;
    s.put = power_of(&s, start);
    s.base = base;
    s.start_unrounded = cr_scalar_as_double(start);
    cr_parallel_for(s.n, CR_WALK_GRAIN / 16, s.n == 1 ? fill_range : fill, &s);
}

/* Matrices. */

/* Columns [*first, *last) of row i belong to the triangle. */
static void row_span(int64_t i, int64_t columns, int64_t offset, bool upper, int64_t *first,
                     int64_t *last)
{
    int64_t cut = upper ? i + offset : i + offset + 1;

    cut = cut < 0 ? 0 : cut > columns ? columns : cut;
    *first = upper ? cut : 0;
    *last = upper ? columns : cut;
}

void cr_fill_triangle_indices(const cr_view *out, int64_t rows, int64_t columns, int64_t offset,
                              bool upper)
{
    char *row = out->data, *column = out->data + cr_view_step(out, 0);
    int64_t step = cr_view_step(out, 1), first, last;
    cr_dtype t = (cr_dtype)out->dtype;

    if (!out->size[1])
        return;
    offset = offset < -rows ? -rows : offset > columns ? columns : offset;
    int64_t end = upper && columns - offset < rows ? columns - offset : rows;
    for (int64_t i = upper || offset > 0 ? 0 : -offset; i < end; i++) {
        row_span(i, columns, offset, upper, &first, &last);
        for (int64_t j = first; j < last; j++, row += step, column += step) {
            cr_scalar_store(cr_scalar_int(i), t, row);
            cr_scalar_store(cr_scalar_int(j), t, column);
        }
    }
}
