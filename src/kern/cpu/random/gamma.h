/* gamma.h - gamma numbers; C and CUDA C++.
 *
 * Marsaglia and Tsang, "A simple method for generating gamma variables" (2000): d v, where v is
 * the cube of a shifted normal number, is accepted or drawn again.  For alpha < 1 a number of
 * alpha + 1 is multiplied by a power of a uniform number.  A seed gives torch's numbers on the
 * host, so parameters are rounded where torch rounds them, and its float constants stay
 * floats. */
#ifndef CR_KERN_RANDOM_GAMMA_H
#define CR_KERN_RANDOM_GAMMA_H

#include "kern/cpu/random/draw.h"
#include <math.h>

static double rounded(double x, bool single) { return single ? (double)(float)x : x; }

static double open_uniform(cr_draw *g) { return 1 - cr_draw_double(g); }

/* alpha is at least 1; the number is multiplied by `scale`. */
static double accepted_gamma(cr_draw *g, double scale, double alpha, bool single)
{
    double d = rounded(alpha - (double)(1.0f / 3.0f), single), c = 1 / sqrt(9 * d);

    for (;;) {
        double x, y, u, v, square;
        do {
            x = cr_draw_normal(g);
            y = 1 + c * x;
        } while (y <= 0);
        v = y * y * y;
        u = open_uniform(g);
        square = x * x;
        if (u < 1 - (double)0.0331f * square * square ||
            log(u) < 0.5 * square + d * (1 - v + log(v)))
            return scale * d * v;
    }
}

/* `single`: alpha is a float, as are sums with it. */
static double gamma_number(cr_draw *g, double alpha, bool single)
{
    double scale;

    if (!(alpha < 1))
        return accepted_gamma(g, 1, alpha, single);
    if (alpha == 0)
        return 0;
    scale = pow(open_uniform(g), rounded(1 / alpha, single));
    return accepted_gamma(g, scale, rounded(alpha + 1, single), single);
}

#endif
