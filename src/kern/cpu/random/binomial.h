/* binomial.h - binomial numbers, in torch's order and roundings; C and CUDA C++.
 *
 * Few expected successes: the lengths of runs of failures are drawn until they exceed the
 * count. Many: Hoermann's transformed rejection ("The generation of binomial random variates",
 * 1993). Probabilities above one half count the failures instead. */
#ifndef CR_KERN_RANDOM_BINOMIAL_H
#define CR_KERN_RANDOM_BINOMIAL_H

#include "kern/cpu/random/draw.h"
#include <math.h>

typedef struct {
    cr_draw *g;
    bool single; /* arithmetic of count and probability is rounded to float */
    int dtype;
} binomial_context;

static double fit(const binomial_context *c, double x)
{
    return c->single ? (double)(float)x : x;
}

static double binomial_by_runs(const binomial_context *c, double count, double p)
{
    double logarithm = c->single ? (double)log1pf(-(float)p) : log1p(-p);
    double length = 0, runs = 0;

    for (;; runs++) {
        length += ceil(log(cr_draw_double(c->g)) / logarithm);
        if (!(length <= count))
            return runs;
    }
}

/* log(k!) less Stirling's formula. */
static double stirling_tail(double k)
{
    static const double small[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983,
                                   0.02079067210376509, 0.0166446911898211, 0.0138761288230707,
                                   0.0118967099458917,  0.0104112652619720, 0.00925546218271273,
                                   0.00833056343336287};
    double square = (k + 1) * (k + 1);

    if (k >= 0 && k < (double)CR_LEN(small))
        return small[(size_t)k];
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

/* The logarithm of the probability of k relative to that of the mode m. */
static double log_ratio(const binomial_context *c, double count, double k, double m,
                        double odds)
{
    double above_m = count - m + 1, above_k = fit(c, fit(c, count - k) + 1);

    return (m + 0.5) * log((m + 1) / (odds * above_m)) +
           fit(c, count + 1) * log(above_m / above_k) +
           (k + 0.5) * log(odds * above_k / fit(c, k + 1)) + stirling_tail(m) +
           stirling_tail(count - m) - stirling_tail(k) - stirling_tail(fit(c, count - k));
}

static double binomial_by_rejection(const binomial_context *c, double count, double p)
{
    double mean = fit(c, count * p), failing = fit(c, 1 - p);
    double std = fit(c, sqrt(fit(c, mean * failing)));
    double b = 1.15 + 2.53 * std, a = -0.0873 + 0.0248 * b + 0.01 * p;
    double quick = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * std;
    double m = floor(fit(c, fit(c, count + 1) * p)), odds = fit(c, p / failing);

    for (;;) {
        double u = cr_draw_double(c->g) - 0.5, v = cr_draw_double(c->g);
        double us = 0.5 - fabs(u), k = fit(c, floor((2 * a / us + b) * u + (mean + 0.5)));
        if (k < 0 || k > count)
            continue;
        if (us >= 0.07 && v <= quick)
            return k;
        if (log(v * alpha / (a / (us * us) + b)) <= log_ratio(c, count, k, m, odds))
            return k;
    }
}

static double binomial_below_half(const binomial_context *c, double count, double p)
{
    return fit(c, count * p) >= 10 ? binomial_by_rejection(c, count, p)
                                   : binomial_by_runs(c, count, p);
}

static double binomial_number(const binomial_context *c, double count, double p)
{
    if (count <= 0 || p <= 0)
        return 0;
    if (p >= 1)
        return count;
    if (p != p || count != count)
        return (double)NAN;
    if (p <= 0.5)
        return binomial_below_half(c, count, p);
    return fit(c, count - binomial_below_half(c, count, fit(c, 1 - p)));
}

#endif
