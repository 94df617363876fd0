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

/* For large x: the sum of the terms with alternating signs. */
static double airy_far(double x)
{
    double z = 2.0 / 3 * x * sqrt(x), term = 1, sum = 1;

    for (int k = 1; k < 30; k++) {
        double next = -term * airy_ratio(k) / z;
        if (fabs(next) > fabs(term))
            break;
        term = next;
        sum += term;
    }
    return 0.5 * exp(-z) * sum / sqrt(sqrt(x) * 3.14159265358979323846);
}

static double airy_polynomial(const double *c, int n, double z)
{
    double r = 0;

    for (int i = 0; i < n; i++)
        r = r * z + c[i];
    return r;
}

/* Ai below -2.09: rational F and G in 1 / z^2, z = -2/3 (-x)^(3/2), with the coefficients of
 * Cephes (airy.c).  As torch does, the denominators omit Cephes' implied leading coefficient 1,
 * so the error near -2.09 is 3e-6. */
static double airy_wave(double x)
{
    static const double f[] = {
        -1.31696323418331795333e-1, -6.26456544431912369773e-1, -6.93158036036933542233e-1,
        -2.79779981545119124951e-1, -4.91900132609500318020e-2, -4.06265923594885404393e-3,
        -1.59276496239262096340e-4, -2.77649108155232920844e-6, -1.67787698489114633780e-8};
    static const double under_f[] = {
        1.33560420706553243746e1,  3.26825032795224613948e1,  2.67367040941499554804e1,
        9.18707402907259625840,    1.47529146771666414581,    1.15687173795188044134e-1,
        4.40291641615211203805e-3, 7.54720348287414296618e-5, 4.51850092970580378464e-7};
    static const double g[] = {
        1.97339932091685679179e-2, 3.91103029615688277255e-1, 1.06579897599595591108,
        9.39169229816650230044e-1, 3.51465656105547619242e-1, 6.33888919628925490927e-2,
        5.85804113048388458567e-3, 2.82851600836737019778e-4, 6.98793669997260967291e-6,
        8.11789239554389293311e-8, 3.41551784765923618484e-10};
    static const double under_g[] = {9.30892908077441974853,    1.98352928718312140417e1,
                                     1.55646628932864612953e1,  5.47686069422975497931,
                                     9.54293611618961883998e-1, 8.64580826352392193095e-2,
                                     4.12656523824222607191e-3, 1.01259085116509135510e-4,
                                     1.17166733214413521882e-6, 4.91834570062930015649e-9};
    double root = sqrt(-x), angle = -2 * x * root / 3, z = 1 / angle;
    double even = 1 + z * z * airy_polynomial(f, 9, z * z) / airy_polynomial(under_f, 9, z * z);
    double odd = z * airy_polynomial(g, 11, z * z) / airy_polynomial(under_g, 10, z * z);

    angle += 0.78539816339744830962;
    return 0.564189583547756286948 / sqrt(root) * (sin(angle) * even - cos(angle) * odd);
}

/* NaN at infinities, as in torch. */
static double airy_ai(double x)
{
    if (isinf(x))
        return (double)NAN;
    if (x < -2.09)
        return airy_wave(x);
    return x < 6 ? airy_series(x) : x == x ? airy_far(x) : x;
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
