/* spread.h - lists of contributions to elements at computed places, in the memory of a
 * device. */
#ifndef CR_KERN_SPREAD_H
#define CR_KERN_SPREAD_H

#include "kern/cpu/pack.h"
#include "kern/cpu/plane/spread_job.h"

/* Contributions of a list, unless one unit has more. */
enum { CR_SPREAD_MOST = 1 << 22 };

typedef struct {
    cr_dense keys, weight, first;
} cr_spread;

/* Takes the memory of a list of n contributions to `places` places; the caller drops it, also
 * after a failure. */
CR_MUST cr_status cr_spread_take(cr_spread *m, spread_list *s, cr_device d, cr_dtype t,
                                 int64_t n, int64_t places);
/* Sorts the keys. */
CR_MUST cr_status cr_spread_sort(spread_list *s, cr_device d);
void cr_spread_drop(cr_spread *m);

#endif
