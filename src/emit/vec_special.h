/* vec_special.h - rarely used functions, lane by lane in double precision.
 *
 * float32 lanes are computed as doubles and rounded at the end.  The functions use published
 * series, continued fractions and iterations; they are not optimized for speed. digamma, i0,
 * i0e, i1 and i1e take exp, log and tan from vec_f64.h; the others call libm. */
#ifndef CR_EMIT_VEC_SPECIAL_H
#define CR_EMIT_VEC_SPECIAL_H

#include "emit/vec_f32.h"
#include "emit/vec_f64.h"

#ifndef __CUDACC_RTC__
CV_LIBM double lgamma_r(double, int *), j0(double), j1(double), y0(double), y1(double);
#endif

#define CV_PI 3.14159265358979323846

/* Functions of vec_f64.h on one number. */
#define CV_ONE1(name)                                                                          \
    CV_SLOW double cv_d_##name(double x) { return cv_##name##_f64(cv_set1_f64(x))[0]; }
CV_ONE1(exp)
CV_ONE1(log)
CV_ONE1(tan)

/* Bernoulli numbers B_2, B_4, ... */
#define CV_BERNOULLI                                                                           \
    {                                                                                          \
        1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6,             \
            -3617.0 / 510, 43867.0 / 798, -174611.0 / 330                                      \
    }
enum { CV_BERNOULLIS = 10 };

CV_SLOW double cv_d_lgamma(double x)
{
#ifdef __CUDACC_RTC__
    return lgamma(x);
#else
    int sign;
    return lgamma_r(x, &sign);
#endif
}

/* Up to 10 by the recurrence, then the asymptotic series. */
CV_SLOW double cv_d_digamma(double x)
{
    static const double bernoulli[] = CV_BERNOULLI;
    double r = 0, power = 1;

    if (x == 0)
        return __builtin_copysign(__builtin_inf(), -x);
    if (x < 0) {
        double whole = __builtin_floor(x), part = x - whole;
        if (part == 0 || x - x != 0)
            return __builtin_nan("");
        return cv_d_digamma(1 - x) - CV_PI / cv_d_tan(CV_PI * part);
    }
    for (; x < 10; x++)
        r -= 1 / x;
    for (int k = 0; k < CV_BERNOULLIS; k++) {
        power /= x * x;
        r -= bernoulli[k] * power / (2 * k + 2);
    }
    return r + cv_d_log(x) - 0.5 / x;
}

/* The Hurwitz zeta function by Euler and Maclaurin's formula from the first q + k above 12. */
CV_SLOW double cv_d_zeta(double s, double q)
{
    static const double bernoulli[] = CV_BERNOULLI;
    double sum = 0;

    if (s == 1)
        return __builtin_inf();
    if (!(s > 1) || q != q)
        return __builtin_nan("");
    if (q <= 0 && q == __builtin_floor(q))
        return __builtin_inf();
    if (q <= 0 && s != __builtin_floor(s))
        return __builtin_nan("");
    if (q == __builtin_inf())
        return 0;
    for (; q < 12; q++) {
        double term = __builtin_pow(q, -s);
        sum += term;
        if (q > 0 && __builtin_fabs(term) < 1e-18 * __builtin_fabs(sum))
            return sum;
    }
    double last = __builtin_pow(q, -s), factor = s * last / q / 2;
    sum += q * last / (s - 1) + last / 2;
    for (int k = 0; k < CV_BERNOULLIS; k++) {
        double term = bernoulli[k] * factor;
        sum += term;
        if (__builtin_fabs(term) < 1e-18 * __builtin_fabs(sum))
            break;
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / (q * q) / ((2 * k + 3) * (2 * k + 4));
    }
    return sum;
}

CV_SLOW double cv_d_trigamma(double x)
{
    if (x <= 0 && x == __builtin_floor(x))
        return __builtin_inf();
    if (x < 0.5) {
        double s = __builtin_sin(CV_PI * (x - __builtin_floor(x)));
        return CV_PI * CV_PI / (s * s) - cv_d_zeta(2, 1 - x);
    }
    return cv_d_zeta(2, x);
}

CV_SLOW double cv_d_polygamma(double n, double x)
{
    if (n == 0)
        return cv_d_digamma(x);
    if (n == 1)
        return cv_d_trigamma(x);
    double r = cv_d_zeta(n + 1, x);
    for (double k = 2; k <= n && k < 172; k++) /* from 171! on it is infinite */
        r *= k;
    return n == 2 * __builtin_floor(n / 2) ? -r : r;
}

/* e^-x times the sum of (x/2)^(2k + order) / (k! (k + order)!), all terms positive; from 30
 * on the asymptotic series, whose least term is then below the precision. */
CV_SLOW double cv_d_besseli(int order, double x)
{
    double a = __builtin_fabs(x), sum = 1, term = 1;

    if (a != a)
        return x;
    if (a < 30) {
        for (int k = 1; term > sum * 1e-18; k++) {
            term *= a * a / 4 / k / (k + order);
            sum += term;
        }
        sum *= cv_d_exp(-a) * (order ? a / 2 : 1);
    } else {
        for (int k = 1; k < 40 && __builtin_fabs(term) > 1e-18; k++) {
            double odd = 2 * k - 1;
            term *= (odd * odd - 4 * order) / (8 * a * k);
            sum += term;
        }
        sum /= __builtin_sqrt(2 * CV_PI * a);
    }
    return order && x < 0 ? -sum : sum;
}

/* e^x times the function scaled by e^-x, without overflow unless the result overflows. */
CV_SLOW double cv_d_unscaled(double x, double scaled)
{
    double half = cv_d_exp(__builtin_fabs(x) / 2);
    return x - x == 0 ? scaled * half * half : x * x == x * x ? __builtin_fabs(x) : x;
}

CV_SLOW double cv_d_i0e(double x) { return cv_d_besseli(0, x); }
CV_SLOW double cv_d_i1e(double x) { return cv_d_besseli(1, x); }
CV_SLOW double cv_d_i0(double x) { return cv_d_unscaled(x, cv_d_besseli(0, x)); }
CV_SLOW double cv_d_i1(double x)
{
    return __builtin_isinf(x) ? x : cv_d_unscaled(x, cv_d_besseli(1, x));
}

/* e^(x^2) erfc x: directly where that is accurate, else by its continued fraction. */
CV_SLOW double cv_d_erfcx(double x)
{
    if (x < 2)
        return __builtin_exp(x * x) * __builtin_erfc(x);
    double r = 0;
    for (int k = 70; k > 0; k--)
        r = k * 0.5 / (x + r);
    return 1 / ((x + r) * __builtin_sqrt(CV_PI));
}

/* y > 0 with erfc y = c for 0 < c <= 1: Winitzki's estimate, then Newton's iteration on the
 * logarithm, which is nearly a parabola. */
CV_SLOW double cv_d_erfcinv(double c)
{
    double l = __builtin_log(c * (2 - c)), a = 0.147, m = 2 / (CV_PI * a) + l / 2;
    double y = __builtin_sqrt(__builtin_sqrt(m * m - l / a) - m);

    for (int i = 0; i < 4; i++) {
        double slope = 2 / __builtin_sqrt(CV_PI) / cv_d_erfcx(y);
        double error = __builtin_log(__builtin_erfc(y) / c);
        y += error / slope;
    }
    return y;
}

/* Halley's iteration; near -1 and 1 it uses the complement, which has more digits. */
CV_SLOW double cv_d_erfinv(double x)
{
    double a = __builtin_fabs(x), y = a;

    if (!(a < 1))
        return a == 1 ? __builtin_copysign(__builtin_inf(), x) : __builtin_nan("");
    if (a > 0.5)
        return __builtin_copysign(cv_d_erfcinv(1 - a), x);
    for (int i = 0; i < 4; i++) {
        double error = __builtin_erf(y) - a;
        double slope = 2 / __builtin_sqrt(CV_PI) * __builtin_exp(-y * y);
        y -= error / (slope + y * error);
    }
    return __builtin_copysign(a < 1e-9 ? a * (__builtin_sqrt(CV_PI) / 2) : y, x);
}

CV_SLOW double cv_d_ndtri(double p)
{
    if (p <= 0 || p >= 1 || p != p)
        return p == 0 ? -__builtin_inf() : p == 1 ? __builtin_inf() : __builtin_nan("");
    if (p > 0.25 && p < 0.75)
        return __builtin_sqrt(2) * cv_d_erfinv((p - 0.5) * 2);
    return p < 0.5 ? -__builtin_sqrt(2) * cv_d_erfcinv(2 * p)
                   : __builtin_sqrt(2) * cv_d_erfcinv(2 * (1 - p));
}

CV_SLOW double cv_d_ndtr(double x) { return 0.5 * __builtin_erfc(-x * __builtin_sqrt(0.5)); }

CV_SLOW double cv_d_log_ndtr(double x)
{
    double t = x * __builtin_sqrt(0.5);

    if (x < -1)
        return __builtin_log(cv_d_erfcx(-t) / 2) - t * t;
    return __builtin_log1p(-__builtin_erfc(t) / 2);
}

/* The series of the lower incomplete gamma function, for x < a + 1. */
CV_SLOW double cv_d_igammaseries(double a, double x)
{
    double term = 1 / a, sum = term;

    for (double n = 1; n < 1e5 && term > sum * 1e-17; n++) {
        term *= x / (a + n);
        sum += term;
    }
    return sum * __builtin_exp(a * __builtin_log(x) - x - cv_d_lgamma(a));
}

/* The continued fraction of the upper one, by Lentz's method, for x >= a + 1. */
CV_SLOW double cv_d_igammafraction(double a, double x)
{
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;

    for (double n = 1; n < 1e5; n++) {
        double an = -n * (n - a);
        b += 2;
        d = an * d + b;
        c = b + an / c;
        d = 1 / (d == 0 ? 1e-300 : d);
        c = c == 0 ? 1e-300 : c;
        h *= d * c;
        if (__builtin_fabs(d * c - 1) < 1e-16)
            break;
    }
    return h * __builtin_exp(a * __builtin_log(x) - x - cv_d_lgamma(a));
}

CV_SLOW double cv_d_igamma(double a, double x)
{
    if (!(x >= 0) || !(a >= 0) || (a == 0 && x == 0))
        return __builtin_nan("");
    if (a == 0 || x == 0 || __builtin_isinf(a) || __builtin_isinf(x)) {
        if (__builtin_isinf(a) && __builtin_isinf(x))
            return __builtin_nan("");
        return a == 0 || __builtin_isinf(x) ? 1 : 0;
    }
    return x < a + 1 ? cv_d_igammaseries(a, x) : 1 - cv_d_igammafraction(a, x);
}

CV_SLOW double cv_d_igammac(double a, double x)
{
    if (!(x >= 0) || !(a >= 0) || (a == 0 && x == 0))
        return __builtin_nan("");
    if (a == 0 || x == 0 || __builtin_isinf(a) || __builtin_isinf(x))
        return 1 - cv_d_igamma(a, x);
    return x < a + 1 ? 1 - cv_d_igammaseries(a, x) : cv_d_igammafraction(a, x);
}

#define CV_SPECIAL1(name, scalar)                                                              \
    CV_SLOW float cv_s_##name##_f32(float x) { return (float)scalar((double)x); }              \
    CV_LANEWISE1(f32, name, cv_s_##name##_f32)                                                 \
    CV_LANEWISE1(f64, name, scalar)
#define CV_SPECIAL2(name, scalar)                                                              \
    CV_SLOW float cv_s_##name##_f32(float x, float y)                                          \
    {                                                                                          \
        return (float)scalar((double)x, (double)y);                                            \
    }                                                                                          \
    CV_LANEWISE2(f32, name, cv_s_##name##_f32)                                                 \
    CV_LANEWISE2(f64, name, scalar)

CV_SPECIAL1(lgamma, cv_d_lgamma)
CV_SPECIAL1(digamma, cv_d_digamma)
CV_SPECIAL1(trigamma, cv_d_trigamma)
CV_SPECIAL2(polygamma, cv_d_polygamma)
CV_SPECIAL2(zeta, cv_d_zeta)
CV_SPECIAL2(igamma, cv_d_igamma)
CV_SPECIAL2(igammac, cv_d_igammac)
CV_SPECIAL1(i0, cv_d_i0)
CV_SPECIAL1(i0e, cv_d_i0e)
CV_SPECIAL1(i1, cv_d_i1)
CV_SPECIAL1(i1e, cv_d_i1e)
CV_SPECIAL1(bessel_j0, j0)
CV_SPECIAL1(bessel_j1, j1)
CV_SPECIAL1(bessel_y0, y0)
CV_SPECIAL1(bessel_y1, y1)
CV_SPECIAL1(erfinv, cv_d_erfinv)
CV_SPECIAL1(erfcx, cv_d_erfcx)
CV_SPECIAL1(ndtri, cv_d_ndtri)
CV_SPECIAL1(ndtr, cv_d_ndtr)
CV_SPECIAL1(log_ndtr, cv_d_log_ndtr)

#endif
