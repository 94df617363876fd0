/* Modified Bessel functions of the second kind, and Airy's function.
 *
 * K of order v is the integral over t > 0 of exp(-x cosh t) cosh(v t): the sum of the
 * trapezoidal rule converges faster than any power of its step, for every x. */
#include "base/parallel.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/walk.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { MOST_TERMS = 4000 };

/* exp(x) K(x) of order 0 or 1. */
static double bessel_scaled_k(int order, double x)
{
    /* the integrand falls like exp(-x t^2 / 2) */
    const double step = fmin(1.0 / 16, 0.5 / sqrt(x));
    double sum = 0.5;

    if (x == 0)
        return (double)INFINITY;
    if (!(x > 0))
        return (double)NAN;
    if (x < 1e-9) /* the series' first terms; the sum would need t beyond its range */
        return (order ? 1 / x : -log(x / 2) - 0.57721566490153286061) * (1 + x);
    for (int i = 1; i < MOST_TERMS; i++) {
        double t = i * step, s = sinh(t / 2), fall = x * 2 * s * s; /* x (cosh t - 1) */
        double term = exp(-fall) * (order ? cosh(t) : 1);
        sum += term;
        if (term < sum * 1e-18 && fall > 1)
            break;
    }
    return sum * step;
}

static double bessel_k(int order, double x) { return bessel_scaled_k(order, x) * exp(-x); }

/* The power series: Ai(0) f(x) + Ai'(0) g(x). */
static double airy_series(double x)
{
    const long double long_x = (long double)x, cube = long_x * long_x * long_x;
    long double f = 1, g = long_x, a = 1, b = long_x;

    for (int k = 1; k < 200; k++) {
        a *= cube / ((3.0L * k - 1) * (3.0L * k));
        b *= cube / ((3.0L * k) * (3.0L * k + 1));
        f += a;
        g += b;
        if (fabsl(a) + fabsl(b) < 1e-22L * (fabsl(f) + fabsl(g)))
            break;
    }
    return (double)(0.355028053887817239260063186004L * f -
                    0.258819403792806798405183560189L * g);
}

/* The asymptotic series' coefficient k over that of k - 1, times z. */
static double airy_ratio(int k)
{
    return (6.0 * k - 5) * (6.0 * k - 3) * (6.0 * k - 1) / (216.0 * k * (2 * k - 1));
}

/* For large |x|: `even` and `odd` are the sums of the terms of even and odd number, with
 * alternating signs when x is negative. */
static double airy_far(double x)
{
    double size = fabs(x), z = 2.0 / 3 * size * sqrt(size), term = 1, even = 1, odd = 0;
    double root = sqrt(sqrt(size) * 3.14159265358979323846);

    for (int k = 1; k < 30; k++) {
        double next = term * airy_ratio(k) / z;
        if (fabs(next) > fabs(term))
            break;
        term = next;
        double sign = x < 0 && (k / 2) % 2 ? -1 : 1;
        *(k % 2 ? &odd : &even) += sign * term;
    }
    if (x > 0)
        return 0.5 * exp(-z) * (even - odd) / root;
    return (sin(z + 0.78539816339744830962) * even - cos(z + 0.78539816339744830962) * odd) /
           root;
}

static double airy_ai(double x)
{
    if (isinf(x))
        return 0;
    return x > -9 && x < 6 ? airy_series(x) : x == x ? airy_far(x) : x;
}

static double k0(double x) { return bessel_k(0, x); }
static double k1(double x) { return bessel_k(1, x); }
static double scaled_k0(double x) { return bessel_scaled_k(0, x); }
static double scaled_k1(double x) { return bessel_scaled_k(1, x); }

typedef struct {
    double (*f)(double x);
    cr_dtype dtype;
    const char *x;
    char *out;
} bessel_call;

static void bessel_span(void *context, int64_t begin, int64_t end)
{
    const bessel_call *c = context;

    for (int64_t i = begin; i < end; i++)
        if (c->dtype == CR_F32)
            ((float *)(void *)c->out)[i] =
                (float)c->f((double)((const float *)(const void *)c->x)[i]);
        else
            ((double *)(void *)c->out)[i] = c->f(((const double *)(const void *)c->x)[i]);
}

static cr_status bessel_run(double (*f)(double), const cr_view *self, cr_view *out)
{
    cr_dtype t = (cr_dtype)out->dtype;
    cr_dense x = {0}, to = {0};
    cr_status st;

    CR_GO(cr_dense_in(&x, self, t));
    CR_GO(cr_dense_out(&to, out, t));
    cr_parallel_for(cr_view_numel(out), 256, bessel_span,
                    &(bessel_call){f, t, x.data, to.data});
    cr_dense_store(&to, out, t);
done:
    cr_dense_drop(&x);
    cr_dense_drop(&to);
    return st;
}

/* (self, name) */
cr_status cr_kern_bessel(const cr_value *arg, cr_view *out)
{
    static const struct {
        const char *name;
        double (*f)(double x);
    } functions[] = {{"k0", k0},
                     {"k1", k1},
                     {"scaled_k0", scaled_k0},
                     {"scaled_k1", scaled_k1},
                     {"airy_ai", airy_ai}};

    for (size_t i = 0; i < CR_LEN(functions); i++)
        if (strlen(functions[i].name) == arg[1].len &&
            !memcmp(functions[i].name, arg[1].s, arg[1].len))
            return bessel_run(functions[i].f, arg[0].view, out);
    return cr_fail(CR_VALUE, "no function is called '%.*s'", (int)arg[1].len, arg[1].s);
}
