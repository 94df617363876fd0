/* Special functions that are computed element by element, in double precision: orthogonal
 * polynomials, modified Bessel functions of the second kind, the Airy function. */
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/walk.h"

static const double PI = 3.14159265358979323846, EULER = 0.57721566490153286061;

typedef double (*polynomial_fn)(double x, int64_t n);

static double sign_of(bool plus) { return plus ? 1 : -1; }

/* The four kinds of Chebyshev polynomials share the recurrence p' = 2 x p - p''.  At 1 and -1
 * they have closed forms, and between them trigonometric ones, which are used from some degree
 * on. */

static double chebyshev(double x, int64_t n, double first)
{
    double before = 1, p = first;

    if (n <= 0)
        return n == 0;
    for (int64_t k = 2; k <= n && !isnan(p); k++) {
        double next = 2 * x * p - before;
        before = p;
        p = next;
    }
    return p;
}

static double chebyshev_t(double x, int64_t n)
{
    if (n >= 0 && fabs(x) == 1)
        return sign_of(x > 0 || n % 2 == 0);
    return n > 6 && fabs(x) < 1 ? cos((double)n * acos(x)) : chebyshev(x, n, x);
}

static double chebyshev_u(double x, int64_t n)
{
    double angle = acos(x);

    if (n >= 0 && fabs(x) == 1)
        return sign_of(x > 0 || n % 2 == 0) * (double)(n + 1);
    return n > 8 && fabs(x) < 1 ? sin((double)(n + 1) * angle) / sin(angle)
                                : chebyshev(x, n, 2 * x);
}

static double chebyshev_v(double x, int64_t n)
{
    double angle = acos(x);

    if (n >= 0 && fabs(x) == 1)
        return x > 0 ? 1 : sign_of(n % 2 == 0) * (double)(2 * n + 1);
    return n > 8 && fabs(x) < 1 ? cos(((double)n + 0.5) * angle) / cos(angle / 2)
                                : chebyshev(x, n, 2 * x - 1);
}

static double chebyshev_w(double x, int64_t n)
{
    double angle = acos(x);

    if (n >= 0 && fabs(x) == 1)
        return x > 0 ? (double)(2 * n + 1) : sign_of(n % 2 == 0);
    return n > 8 && fabs(x) < 1 ? sin(((double)n + 0.5) * angle) / sin(angle / 2)
                                : chebyshev(x, n, 2 * x + 1);
}

static double shifted_chebyshev_t(double x, int64_t n) { return chebyshev_t(2 * x - 1, n); }
static double shifted_chebyshev_u(double x, int64_t n) { return chebyshev_u(2 * x - 1, n); }
static double shifted_chebyshev_v(double x, int64_t n) { return chebyshev_v(2 * x - 1, n); }
static double shifted_chebyshev_w(double x, int64_t n) { return chebyshev_w(2 * x - 1, n); }

/* torch gives NaN for degrees that would take long. */
enum { HERMITE_DEGREES_FLOAT = 128, HERMITE_DEGREES_DOUBLE = 512 };

static double hermite(double x, int64_t n, double factor)
{
    double before = 1, p = factor * x;

    if (n <= 0)
        return n == 0;
    for (int64_t k = 1; k < n; k++) {
        double next = factor * (x * p - (double)k * before);
        before = p;
        p = next;
    }
    return p;
}

static double hermite_h(double x, int64_t n) { return hermite(x, n, 2); }
static double hermite_he(double x, int64_t n) { return hermite(x, n, 1); }

static double laguerre_l(double x, int64_t n)
{
    double before = 1, p = 1 - x;

    if (n <= 0 || x == 0)
        return n >= 0;
    for (int64_t k = 1; k < n && !isnan(p); k++) {
        double next = (((double)(2 * k + 1) - x) * p - (double)k * before) / (double)(k + 1);
        before = p;
        p = next;
    }
    return p;
}

static double legendre_p(double x, int64_t n)
{
    double before = 1, p = x;

    if (n <= 0)
        return n == 0;
    if (fabs(x) == 1)
        return sign_of(x > 0 || n % 2 == 0);
    for (int64_t k = 1; k < n && !isnan(p); k++) {
        double next = ((double)(2 * k + 1) * x * p - (double)k * before) / (double)(k + 1);
        before = p;
        p = next;
    }
    return p;
}

typedef struct {
    polynomial_fn fn;
    cr_dtype dtype;
    int64_t most; /* larger degrees give NaN */
} polynomial;

/* A degree is cut to an integer; one that is no number is negative. */
static int64_t degree_of(double n)
{
    if (isnan(n))
        return -1;
    return n >= 0x1p62 ? INT64_MAX / 4 : n <= -0x1p62 ? -1 : (int64_t)n;
}

static void polynomial_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const polynomial *p = context;

    for (int64_t i = 0; i < n; i++) {
        double x = cr_scalar_as_double(cr_scalar_load(p->dtype, at[1] + i * step[1]));
        int64_t degree =
            degree_of(cr_scalar_as_double(cr_scalar_load(p->dtype, at[2] + i * step[2])));
        double y = degree > p->most ? (double)NAN : p->fn(x, degree);
        cr_scalar_store(cr_scalar_float(y), p->dtype, at[0] + i * step[0]);
    }
}

static void add_operand(cr_walk *w, const cr_view *v, const cr_view *out)
{
    int64_t stride[CR_MAX_DIMS];

    cr_broadcast_strides(stride, v, out->ndim, out->size);
    cr_walk_add_strides(w, v->data, stride, cr_view_item(v));
}

static cr_status run_polynomial(const cr_value *arg, cr_view *out, polynomial_fn fn,
                                int64_t most)
{
    polynomial p = {fn, (cr_dtype)out->dtype, most};
    cr_walk w;

    cr_walk_start(&w, out->ndim, out->size, -1);
    cr_walk_add(&w, out);
    add_operand(&w, arg[0].view, out);
    add_operand(&w, arg[1].view, out);
    cr_walk_merge(&w);
    cr_walk_run(&w, CR_WALK_GRAIN / 64, polynomial_row, &p);
    return CR_OK;
}

/* (x, n) */
#define POLYNOMIAL(name)                                                                       \
    cr_status cr_kern_##name(const cr_value *arg, cr_view *out)                                \
    {                                                                                          \
        return run_polynomial(arg, out, name, INT64_MAX);                                      \
    }
POLYNOMIAL(chebyshev_t)
POLYNOMIAL(chebyshev_u)
POLYNOMIAL(chebyshev_v)
POLYNOMIAL(chebyshev_w)
POLYNOMIAL(shifted_chebyshev_t)
POLYNOMIAL(shifted_chebyshev_u)
POLYNOMIAL(shifted_chebyshev_v)
POLYNOMIAL(shifted_chebyshev_w)
POLYNOMIAL(laguerre_l)
POLYNOMIAL(legendre_p)

static int64_t most_hermite(const cr_view *out)
{
    return out->dtype == CR_F64 ? HERMITE_DEGREES_DOUBLE : HERMITE_DEGREES_FLOAT;
}

cr_status cr_kern_hermite_h(const cr_value *arg, cr_view *out)
{
    return run_polynomial(arg, out, hermite_h, most_hermite(out));
}

cr_status cr_kern_hermite_he(const cr_value *arg, cr_view *out)
{
    return run_polynomial(arg, out, hermite_he, most_hermite(out));
}

/* Modified Bessel functions of the second kind.  Up to 2 their power series (Abramowitz and
 * Stegun, 9.6.11), above e^x K(x) = the integral of exp(-x (cosh t - 1)) cosh(order t), for
 * which the trapezoidal rule converges exponentially. */

static double bessel_k_series(double x, int order)
{
    double square = x * x / 4, term = 1, i = 0, sum = 0, psi = -EULER;

    for (int k = 0; term > 1e-18; k++) {
        double next = psi + 1.0 / (k + 1);
        i += order ? term / (k + 1) : term;
        sum += order ? term / (k + 1) * (psi + next) : term * psi;
        term *= square / ((double)(k + 1) * (k + 1));
        psi = next;
    }
    if (order)
        return 1 / x + log(x / 2) * (x / 2) * i - x / 4 * sum;
    return -log(x / 2) * i + sum;
}

/* Multiplied by e^x. */
static double bessel_k_integral(double x, int order)
{
    const double step = 0.0625 / sqrt(x > 4 ? x / 4 : 1);
    double sum = 0.5;

    for (int k = 1;; k++) {
        double t = k * step, half = sinh(t / 2), decay = 2 * x * half * half;
        if (decay > 50)
            return sum * step;
        sum += exp(-decay) * (order ? cosh(t) : 1);
    }
}

static double bessel_k_scaled(double x, int order)
{
    if (x == 0)
        return (double)INFINITY;
    if (x < 0 || isnan(x))
        return (double)NAN;
    if (isinf(x))
        return 0;
    return x <= 2 ? bessel_k_series(x, order) * exp(x) : bessel_k_integral(x, order);
}

static double bessel_k(double x, int order)
{
    if (x > 0 && x <= 2)
        return bessel_k_series(x, order);
    return bessel_k_scaled(x, order) * (x > 2 ? exp(-x) : 1);
}

static double bessel_k0(double x) { return bessel_k(x, 0); }
static double bessel_k1(double x) { return bessel_k(x, 1); }
static double scaled_bessel_k0(double x) { return bessel_k_scaled(x, 0); }
static double scaled_bessel_k1(double x) { return bessel_k_scaled(x, 1); }

/* The Airy function Ai, with the rational functions of Cephes (S. Moshier) for large arguments
 * and the power series between them. */

static double horner(double x, const double *c, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum = sum * x + c[i];
    return sum;
}

static double airy_oscillating(double x)
{
    static const double fn[] = {
        -1.31696323418331795333e-1, -6.26456544431912369773e-1, -6.93158036036933542233e-1,
        -2.79779981545119124951e-1, -4.91900132609500318020e-2, -4.06265923594885404393e-3,
        -1.59276496239262096340e-4, -2.77649108155232920844e-6, -1.67787698489114633780e-8};
    static const double fd[] = {
        1.33560420706553243746e1,  3.26825032795224613948e1,  2.67367040941499554804e1,
        9.18707402907259625840e0,  1.47529146771666414581e0,  1.15687173795188044134e-1,
        4.40291641615211203805e-3, 7.54720348287414296618e-5, 4.51850092970580378464e-7};
    static const double gn[] = {
        1.97339932091685679179e-2, 3.91103029615688277255e-1, 1.06579897599595591108e0,
        9.39169229816650230044e-1, 3.51465656105547619242e-1, 6.33888919628925490927e-2,
        5.85804113048388458567e-3, 2.82851600836737019778e-4, 6.98793669997260967291e-6,
        8.11789239554389293311e-8, 3.41551784765923618484e-10};
    static const double gd[] = {9.30892908077441974853e0,  1.98352928718312140417e1,
                                1.55646628932864612953e1,  5.47686069422975497931e0,
                                9.54293611618961883998e-1, 8.64580826352392193095e-2,
                                4.12656523824222607191e-3, 1.01259085116509135510e-4,
                                1.17166733214413521882e-6, 4.91834570062930015649e-9};
    double root = sqrt(-x), zeta = -2 * x * root / 3, z = 1 / zeta, zz = z * z;
    double f = 1 + zz * horner(zz, fn, 9) / horner(zz, fd, 9);
    double g = z * horner(zz, gn, 11) / horner(zz, gd, 10), t = zeta + PI / 4;

    return 1 / sqrt(PI) / sqrt(root) * (sin(t) * f - cos(t) * g);
}

static double airy_decaying(double x)
{
    static const double n[] = {3.46538101525629032477e-1, 1.20075952739645805542e1,
                               7.62796053615234516538e1,  1.68089224934630576269e2,
                               1.59756391350164413639e2,  7.05360906840444183113e1,
                               1.40264691163389668864e1,  9.99999999999999995305e-1};
    static const double d[] = {5.67594532638770212846e-1, 1.47562562584847203173e1,
                               8.45138970141474626562e1,  1.77318088145400459522e2,
                               1.64234692871529701831e2,  7.14778400825575695274e1,
                               1.40959135607834029598e1,  1.00000000000000000470e0};
    double root = sqrt(x), zeta = 2 * x * root / 3, z = 1 / zeta;

    return 1 / sqrt(PI) * (horner(z, n, 8) / horner(z, d, 8)) / (2 * sqrt(root) * exp(zeta));
}

static double airy_series(double x)
{
    double f = 1, g = x, m = 1, n = x, cube = x * x * x;

    for (double k = 1; fabs(m) > 1e-17 * fabs(f); k += 3) {
        m *= cube / ((k + 1) * (k + 2));
        n *= cube / ((k + 2) * (k + 3));
        f += m;
        g += n;
    }
    return 0.355028053887817239260 * f - 0.258819403792806798405 * g;
}

static double airy_ai(double x)
{
    if (isinf(x) || isnan(x))
        return (double)NAN;
    if (x < -2.09)
        return airy_oscillating(x);
    if (x >= 2.09)
        return x > 103.892 ? 0 : airy_decaying(x);
    return airy_series(x);
}

typedef struct {
    double (*fn)(double x);
    cr_dtype dtype;
} unary;

static void unary_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const unary *u = context;

    for (int64_t i = 0; i < n; i++) {
        double x = cr_scalar_as_double(cr_scalar_load(u->dtype, at[1] + i * step[1]));
        cr_scalar_store(cr_scalar_float(u->fn(x)), u->dtype, at[0] + i * step[0]);
    }
}

static cr_status run_unary(const cr_value *arg, cr_view *out, double (*fn)(double x))
{
    unary u = {fn, (cr_dtype)out->dtype};
    cr_walk w;

    cr_walk_start(&w, out->ndim, out->size, -1);
    cr_walk_add(&w, out);
    cr_walk_add(&w, arg[0].view);
    cr_walk_merge(&w);
    cr_walk_run(&w, CR_WALK_GRAIN / 64, unary_row, &u);
    return CR_OK;
}

/* (self) */
#define UNARY(name)                                                                            \
    cr_status cr_kern_##name(const cr_value *arg, cr_view *out)                                \
    {                                                                                          \
        return run_unary(arg, out, name);                                                      \
    }
UNARY(bessel_k0)
UNARY(bessel_k1)
UNARY(scaled_bessel_k0)
UNARY(scaled_bessel_k1)
UNARY(airy_ai)
