/* random.h - what kernels of random numbers share between devices. */
#ifndef CR_KERN_RANDOM_H
#define CR_KERN_RANDOM_H

#include "num/dtype.h"

/* Random integers: from + word % range; all 64 bits for range 0.  `wide`: words of 64 bits. */
typedef struct {
    int64_t from;
    uint64_t range;
    bool wide;
} cr_random_integers;

/* Those from *from to *to - 1 for tensors of dtype t.  Without `to`: to the largest integer;
 * without `from`: the dtype's whole range.  Fails in torch's words. */
CR_MUST cr_status cr_random_range(cr_random_integers *out, cr_dtype t, const int64_t *from,
                                  const int64_t *to);

#endif
