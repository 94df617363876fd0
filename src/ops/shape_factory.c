/* Shape rules of sequences and patterns. */
#include "ops/shape.h"
#include "space/shape.h"
#include <math.h>

typedef long long ll; /* for printf */

/* Bounds in messages print as integers if they are integers. */
static cr_status unsupported(cr_scalar start, cr_scalar end)
{
    return cr_fail(CR_RUNTIME, "unsupported range: %g -> %g", cr_scalar_as_double(start),
                   cr_scalar_as_double(end));
}

static bool integral(cr_scalar s) { return s.category <= CR_CAT_INT; }

/* The number of steps is exact for integers less than 2^52 apart. */
static double steps_between(cr_scalar start, cr_scalar end, cr_scalar step)
{
    double a = cr_scalar_as_double(start), b = cr_scalar_as_double(end);
    double by = cr_scalar_as_double(step), n = (b - a) / by;

    if (integral(start) && integral(end) && integral(step) && fabs(b - a) < 0x1p52)
        n = (double)((end.i - start.i) / step.i) + ((end.i - start.i) % step.i != 0);
    return n;
}

static cr_status arange_check_bounds(cr_scalar start, cr_scalar end, cr_scalar step)
{
    double a, b, by;

    if (start.category == CR_CAT_COMPLEX || end.category == CR_CAT_COMPLEX ||
        step.category == CR_CAT_COMPLEX)
        return cr_fail(CR_RUNTIME, "value cannot be converted to type double without overflow");
    a = cr_scalar_as_double(start);
    b = cr_scalar_as_double(end);
    by = cr_scalar_as_double(step);
    if (by == 0 || by != by)
        return cr_fail(CR_RUNTIME, "step must be nonzero");
    if (!isfinite(a) || !isfinite(b))
        return unsupported(start, end);
    if (by > 0 ? b < a : b > a)
        return cr_fail(CR_RUNTIME, "upper bound and lower bound inconsistent with step sign");
    return CR_OK;
}

static cr_status vector_of(cr_shape *out, double n)
{
    if (!(n >= 0 && n < (double)INT64_MAX))
        return cr_fail(CR_RUNTIME, "invalid size, possible overflow?");
    out->ndim = 1;
    out->size[0] = (int64_t)n;
    return CR_OK;
}

/* (start, end, step, *, dtype, ...) */
cr_status cr_shape_arange(const cr_value *arg, cr_shape *out)
{
    cr_scalar start = arg[0].number, end = arg[1].number, step = arg[2].number;

    CR_TRY(arange_check_bounds(start, end, step));
    /* int64 cuts the bounds first.  Shorter integers cut the elements only, as in torch. */
    if (arg[3].tag != CR_NONE && (cr_dtype)arg[3].i == CR_I64) {
        start = cr_scalar_int(cr_scalar_as_int(start));
        end = cr_scalar_int(cr_scalar_as_int(end));
        step = cr_scalar_int(cr_scalar_as_int(step));
        CR_TRY(arange_check_bounds(start, end, step));
    }
    return vector_of(out, ceil(steps_between(start, end, step)));
}

/* Like arange, with the end included. */
cr_status cr_shape_range(const cr_value *arg, cr_shape *out)
{
    cr_scalar start = arg[0].number, end = arg[1].number, step = arg[2].number;
    double a, b;

    CR_TRY(arange_check_bounds(start, end, step));
    a = cr_scalar_as_double(start);
    b = cr_scalar_as_double(end);
    return vector_of(out, floor((b - a) / cr_scalar_as_double(step)) + 1);
}

/* The binomial coefficient of n and r, one factor at a time; every division is exact. */
static cr_status choices(int64_t *out, int64_t n, int64_t r)
{
    int64_t c = 1;

    r = r < n - r ? r : n - r; /* the same number, after at most 64 factors */
    for (int64_t k = 1; k <= r && c; k++) {
        if (n - r + k <= 0) {
            c = 0;
            break;
        }
        if (CR_MUL_OVERFLOW(c, n - r + k, &c))
            return cr_fail(CR_RUNTIME, "combinations: too many");
        c /= k;
    }
    *out = c;
    return CR_OK;
}

/* (n, r, with_replacement) */
cr_status cr_shape_combinations(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view;
    int64_t n = cr_numel(self->ndim, self->size), r = arg[1].i;

    if (n < 0 || r < 0 || r > INT64_MAX - n)
        return cr_fail(CR_RUNTIME, "combinations: there are no %lld of %lld", (ll)r, (ll)n);
    out->ndim = 2;
    out->size[1] = r;
    if (arg[2].i)
        n = n ? n + r - 1 : 0;
    if (r > n)
        out->size[0] = 0;
    else
        CR_TRY(choices(&out->size[0], n, r));
    return CR_OK;
}
