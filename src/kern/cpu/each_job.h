/* each_job.h - a function of corresponding elements, as its loops get it. */
#ifndef CR_KERN_EACH_JOB_H
#define CR_KERN_EACH_JOB_H

#include "kern/loops.h"

/* Dense arrays of the loop's element type. */
typedef struct {
    const void *in[3];
    void *out;
    int64_t which; /* of several functions */
    double number;
    uint64_t seed, block;  /* of a device's draws: element i has the stream i from `block` on */
    const uint64_t *state; /* of a captured generator (num/generator.h) */
    cr_loops_error wrong;  /* an argument that the function refuses */
} cr_each;

/* clang-format off */
#define POLYNOMIALS(EACH)                                                                      \
    EACH(chebyshev_t, 0) EACH(chebyshev_u, 1) EACH(chebyshev_v, 2) EACH(chebyshev_w, 3) \
    EACH(shifted_t, 4) EACH(shifted_u, 5) EACH(shifted_v, 6) EACH(shifted_w, 7) \
    EACH(hermite_h, 8) EACH(hermite_he, 9) EACH(laguerre, 10) EACH(legendre, 11)
/* clang-format on */

#endif
