/* slopes.h - derivatives of gamma and Dirichlet numbers with respect to their parameters, for
 * the numbers that were drawn.
 *
 * A number x with cumulative probability F(x; a) moves with its parameter by -(dF/da) / (dF/dx)
 * when F is held fixed (implicit reparameterization).  Small x have a Taylor series, large
 * parameters a saddle point expansion (S. O. Rice), and the rest fitted rational functions of
 * the logarithms; errors are about 1e-3 in the worst places.  The series, expansions and
 * coefficients are torch's, so that training steps agree. */
#ifndef CR_KERN_RANDOM_SLOPES_H
#define CR_KERN_RANDOM_SLOPES_H

#include "kern/cpu/each_job.h"
#include <math.h>

/* Recurrence up to 10, then the asymptotic series. */
static double psi(double x)
{
    static const double a[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132};
    double sum = 0, square, series = 0;

    if (x <= 0 && x == floor(x))
        return (double)INFINITY;
    if (x < 0)
        return psi(1 - x) - 3.14159265358979323846 / tan(3.14159265358979323846 * x);
    for (; x < 10; x++)
        sum -= 1 / x;
    square = 1 / (x * x);
    for (int i = CR_LEN(a); i-- > 0;)
        series = (series + a[i]) * square;
    return sum + log(x) - 0.5 / x - series;
}

static double zero_if_nan(double x) { return x != x ? 0 : x; }

/* F = x^a e^-x-free series: sums of (-x)^i / i! / (a + i), and of the same over (a + i)^2. */
static double gamma_small(double alpha, double x)
{
    double term = 1, sum = 1 / alpha, slope = 1 / (alpha * alpha), power = pow(x, alpha);

    for (int i = 1; i <= 5; i++) {
        double at = alpha + i;
        term *= -x / i;
        sum += term / at;
        slope += term / (at * at);
    }
    slope = (log(x) - psi(alpha)) * (power * sum) - power * slope;
    return zero_if_nan(-slope / (pow(x, alpha - 1) * exp(-x)));
}

/* alpha is above 8.  Near x = alpha the expansion itself is singular and has a polynomial. */
static double gamma_large(double alpha, double x)
{
    double root, far, near, sum, stirling, gap = alpha - x, ratio = log(x / alpha);

    if (0.9 * alpha <= x && x <= 1.1 * alpha) {
        double a2 = alpha * alpha, one = 1 + 24 * alpha * (1 + 12 * alpha);
        double two =
            1440 * a2 + 6 * x * (53 - 120 * x) - 65 * x * x / alpha + alpha * (107 + 3600 * x);
        return one * two / (1244160 * a2 * a2);
    }
    root = sqrt(8 * alpha);
    far = root / gap;
    near = pow(x - alpha - alpha * ratio, -1.5);
    sum = ratio * (x < alpha ? far - near : far + near) -
          sqrt(2 / alpha) * (alpha + x) / (gap * gap);
    stirling = 1 + 1 / (12 * alpha) * (1 + 1 / (24 * alpha));
    return -stirling * x * sum / root;
}

/* Cubic polynomials in log(alpha), numerator and denominator, whose coefficients are quadratic
 * in log(x / alpha). */
static double gamma_fitted(double alpha, double x)
{
    static const double fit[3][8] = {{0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1,
                                      0.32668115, 0.10406089, 0.0014179084},
                                     {0.53487893, 0.1298071, 0.065735949, -0.0015649758,
                                      0.16639465, 0.020070113, -0.0035938915, -0.00058392623},
                                     {0.040121004, -0.0065914022, -0.0026286047, -0.0013441777,
                                      0.017050642, -0.0021309326, 0.00085092367,
                                      -1.5247877e-07}};
    double u = log(x / alpha), v = log(alpha), c[8];

    for (int i = 0; i < 8; i++)
        c[i] = fit[0][i] + u * (fit[1][i] + u * fit[2][i]);
    return exp((c[0] + v * (c[1] + v * (c[2] + v * c[3]))) /
               (c[4] + v * (c[5] + v * (c[6] + v * c[7]))));
}

static double gamma_slope(double alpha, double x)
{
    if (x < (double)0.8f)
        return gamma_small(alpha, x);
    return alpha > 8 ? gamma_large(alpha, x) : gamma_fitted(alpha, x);
}

/* Beta numbers: the slopes are also divided by 1 - x, as the Dirichlet formula needs them. */

/* With respect to alpha, for x near 0. */
static double beta_alpha_small(double x, double alpha, double beta)
{
    double factor = psi(alpha) - psi(alpha + beta) - log(x), term = 1;
    double sum = 1 / alpha * (factor + 1 / alpha);

    for (int i = 1; i <= 10; i++) {
        term *= (i - beta) * x / i;
        sum += term / (alpha + i) * (factor + 1 / (alpha + i));
    }
    return zero_if_nan(x * pow(1 - x, -beta) * sum);
}

/* With respect to beta, for x near 0. */
static double beta_beta_small(double x, double alpha, double beta)
{
    double factor = psi(alpha + beta) - psi(beta), term = 1, product = 1, slope = 0;
    double sum = factor / alpha;

    for (int i = 1; i <= 8; i++) {
        term *= -x / i;
        slope = slope * (beta - i) + product;
        product *= beta - i;
        sum += term / (alpha + i) * (slope + factor * product);
    }
    return zero_if_nan(-pow(1 - x, 1 - beta) * sum);
}

/* The polynomial that replaces the expansion near the mean. */
static double beta_near_mean(double x, double a, double b)
{
    double total = a + b, b2 = b * b, y = 1 - x;
    double poly = 8 * y * (135 * b - 11);

    poly = (453 + 1620 * b * y - 455 * x) * b + a * poly;
    poly = 3 * (59 + 180 * b - 90 * x) * b2 + a * poly;
    poly = (43 + 20 * (16 + 27 * b) * x) * b2 * b + a * poly;
    poly = 47 * x * b2 * b2 + a * poly;
    return (1 + 12 * a) * (1 + 12 * b) / (total * total) / y * poly /
           (12960 * a * a * a * b * b * (1 + 12 * total));
}

static double stirling_factor(double x) { return 1 + 1 / (12 * x) + 1 / (288 * x * x); }

/* alpha and beta are above 6. */
static double beta_alpha_large(double x, double a, double b)
{
    double total = a + b, mean = a / total, std = sqrt(a * b / (total + 1)) / total;
    double gap = b * x - a * (1 - x), first, second, third, fourth, depth;

    if (mean - 0.1 * std <= x && x <= mean + 0.1 * std)
        return beta_near_mean(x, a, b);
    first = (2 * a * a * (x - 1) + a * b * (x - 1) - x * b * b) /
            (sqrt(2 * a / b) * pow(total, 1.5) * gap * gap);
    second = 0.5 * log(a / (total * x));
    third = sqrt(8 * a * b / total) / gap;
    depth = b * log(b / (total * (1 - x))) + a * log(a / (total * x));
    fourth = pow(depth, -1.5);
    return stirling_factor(a) * stirling_factor(b) / stirling_factor(total) *
           (-x / sqrt(2 * a * b / total)) *
           (first + second * (third + (x < mean ? fourth : -fourth)));
}

/* A rational correction of x (psi(total) - psi(alpha)) / beta, in powers of the logarithms. */
static double beta_fitted(double x, double alpha, double total)
{
    static const double fit[2][3][3][4] = {
        {{{1.003668233, -0.01061107488, -0.0657888334, 0.01201642863},
          {0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033},
          {-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013}},
         {{0.221950385, -0.3187676331, 0.01799915743, 0.01074823814},
          {-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057},
          {0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05}},
         {{-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565},
          {0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181},
          {0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05}}},
        {{{1, -0.02924021934, -0.04438342661, 0.007285809825},
          {0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521},
          {-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149}},
         {{0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273},
          {0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956},
          {-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05}},
         {{0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05},
          {0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05},
          {-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06}}}};
    double u = log(x), a = log(alpha) - u, b = log(total) - a, sum[2] = {0};
    double power_u[] = {1, u, u * u}, power_a[] = {1, a, a * a};

    for (int i = 0; i < 9; i++) {
        double ua = power_u[i / 3] * power_a[i % 3];
        for (int k = 0; k < 2; k++) {
            const double *c = fit[k][i / 3][i % 3];
            sum[k] += ua * (c[0] + b * (c[1] + b * (c[2] + b * c[3])));
        }
    }
    return sum[0] / sum[1] * x * (psi(total) - psi(alpha)) / (total - alpha);
}

static double dirichlet_slope(double x, double alpha, double total)
{
    double beta = total - alpha, edge = total * x * (1 - x);

    if (x <= 0.5 && edge < 2.5)
        return beta_alpha_small(x, alpha, beta);
    if (x >= 0.5 && edge < 0.75)
        return -beta_beta_small(1 - x, beta, alpha);
    if (alpha > 6 && beta > 6)
        return beta_alpha_large(x, alpha, beta);
    return beta_fitted(x, alpha, total);
}

#endif
