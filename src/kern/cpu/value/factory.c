/* Fills new tensors with sequences.
 *
 * Every function computes element i from i alone, in double (int64 for integral types), so the
 * result does not depend on how the range is divided. */
#include "kern/cpu/value/factory.h"
#include "kern/cpu/element.h"
#include "kern/cpu/walk.h"

typedef struct sequence sequence;
typedef void (*put_fn)(const sequence *s, char *to, int64_t i);
typedef void (*fill_fn)(void *context, int64_t begin, int64_t end);

struct sequence {
    put_fn put;
    char *data;
    int64_t step; /* bytes */
    int64_t n, int_start, int_step;
    cr_complex start, end, by;
    double base;
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

/* arange. */

static void put_int(const sequence *s, char *to, int64_t i)
{
    cr_scalar_store(cr_scalar_int(cr_wrap_add(s->int_start, cr_wrap_mul(i, s->int_step))),
                    s->dtype, to);
}

static void put_float(const sequence *s, char *to, int64_t i)
{
    put_number(
        s, to,
        (cr_complex){s->start.re + (double)i * s->by.re, s->start.im + (double)i * s->by.im});
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
FILL(fill_f32, float, s->start.re + (double)i * s->by.re)
FILL(fill_f64, double, s->start.re + (double)i * s->by.re)

void cr_fill_arange(const cr_view *out, cr_scalar start, cr_scalar step)
{
    static const fill_fn fills[CR_DTYPE_COUNT] = {
        [CR_I64] = fill_i64, [CR_I32] = fill_i32, [CR_F32] = fill_f32, [CR_F64] = fill_f64};
    sequence s = sequence_over(out);

    s.int_start = is_integral(s.dtype) ? cr_scalar_as_int(start) : 0;
    s.int_step = is_integral(s.dtype) ? cr_scalar_as_int(step) : 0;
    s.start = cr_scalar_as_complex(start);
    s.by = cr_scalar_as_complex(step);
    s.put = is_integral(s.dtype) ? put_int : put_float;
    cr_parallel_for(s.n, CR_WALK_GRAIN, fills[s.dtype] ? fills[s.dtype] : fill_range, &s);
}

/* linspace and logspace. */

/* Each half is computed from the nearer end, so both ends are exact. */
static cr_complex spaced(const sequence *s, int64_t i)
{
    bool first = i < s->n / 2 || s->n == 1;
    double k = (double)(first ? i : s->n - 1 - i);

    if (first)
        return (cr_complex){s->start.re + s->by.re * k, s->start.im + s->by.im * k};
    return (cr_complex){s->end.re - s->by.re * k, s->end.im - s->by.im * k};
}

static void put_spaced(const sequence *s, char *to, int64_t i)
{
    put_number(s, to, spaced(s, i));
}

static void put_power(const sequence *s, char *to, int64_t i)
{
    cr_complex x = spaced(s, i), p = {0, 0};

    if (cr_dtype_is_complex(s->dtype)) {
        double _Complex z = cpow(s->base, cr_join_complex(x.re, x.im));
        p = (cr_complex){creal(z), cimag(z)};
    } else {
        p.re = pow(s->base, x.re);
    }
    put_number(s, to, p);
}

static sequence spaced_over(const cr_view *out, cr_scalar start, cr_scalar end)
{
    sequence s = sequence_over(out);
    double n = s.n > 1 ? (double)(s.n - 1) : 1;

    s.start = cr_scalar_as_complex(start);
    s.end = cr_scalar_as_complex(end);
    if (is_integral(s.dtype)) {
        s.start.re = (double)cr_scalar_as_int(start);
        s.end.re = (double)cr_scalar_as_int(end);
    }
    s.by = (cr_complex){(s.end.re - s.start.re) / n, (s.end.im - s.start.im) / n};
    return s;
}

void cr_fill_linspace(const cr_view *out, cr_scalar start, cr_scalar end)
{
    sequence s = spaced_over(out, start, end);

    s.put = put_spaced;
    cr_parallel_for(s.n, CR_WALK_GRAIN, fill_range, &s);
}

void cr_fill_logspace(const cr_view *out, cr_scalar start, cr_scalar end, double base)
{
    sequence s = spaced_over(out, start, end);

    s.put = put_power;
    s.base = base;
    cr_parallel_for(s.n, CR_WALK_GRAIN / 16, fill_range, &s);
}

/* Matrices. */

void cr_fill_eye(const cr_view *out)
{
    int64_t n = out->size[0] < out->size[1] ? out->size[0] : out->size[1];
    int64_t stride = n ? out->stride[0] + out->stride[1] : 0;
    cr_view diagonal = *out;
    cr_complex one;

    cr_zero_view(out);
    cr_scalar_store(cr_scalar_int(1), (cr_dtype)out->dtype, &one);
    diagonal.ndim = 1;
    diagonal.size = &n;
    diagonal.stride = &stride;
    cr_fill_view(&diagonal, &one);
}

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
