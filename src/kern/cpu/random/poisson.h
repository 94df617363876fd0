/* poisson.h - Poisson numbers; C and CUDA C++. */
#ifndef CR_KERN_RANDOM_POISSON_H
#define CR_KERN_RANDOM_POISSON_H

#include "kern/cpu/random/draw.h"
#include <math.h>

/* Poisson numbers: products of uniform numbers for small rates; for others Hoermann's
 * transformed rejection ("The transformed rejection method for generating Poisson random
 * variables", 1993). */

static double small_poisson(cr_draw *g, double rate)
{
    double limit = exp(-rate), product = cr_draw_double(g), k = 0;

    for (; product > limit; k++)
        product *= cr_draw_double(g);
    return k;
}

static double large_poisson(cr_draw *g, double rate)
{
    double root = sqrt(rate), logarithm = log(rate);
    double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    double inverse = 1.1239 + 1.1328 / (b - 3.4), quick = 0.9277 - 3.6224 / (b - 2);

    for (;;) {
        double u = cr_draw_double(g) - 0.5, v = cr_draw_double(g), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= quick)
            return k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        if (log(v) + log(inverse) - log(a / (us * us) + b) <=
            -rate + k * logarithm - lgamma(k + 1))
            return k;
    }
}

static double poisson_number(cr_draw *g, double rate)
{
    return rate == 0 ? 0 : rate >= 10 ? large_poisson(g, rate) : small_poisson(g, rate);
}

#endif
