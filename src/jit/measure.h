/* measure.h - finds the fastest of several ways by timing calls that the program makes anyway.
 *
 *     way = cr_measure_next(m, ready)     the way for this call
 *     cr_measure_note(m, way, seconds)    the time that the call took
 *     m->chosen                           the best, after all were measured; until then -1
 *
 * Plain data; callers make sure that only one thread at a time uses it. */
#ifndef CR_JIT_MEASURE_H
#define CR_JIT_MEASURE_H

#include "base/error.h"

enum { CR_MEASURE_WAYS = 12, CR_MEASURE_NONE = -1 };

typedef struct {
    int ways, chosen;
    double best[CR_MEASURE_WAYS]; /* seconds */
    int calls[CR_MEASURE_WAYS];
    bool out[CR_MEASURE_WAYS]; /* hopeless, or not available */
} cr_measure;

/* At most CR_MEASURE_WAYS ways.  Way 0 is the usual one; another way must be clearly faster. */
void cr_measure_init(cr_measure *m, int ways);
/* Among the ways whose bit is set in `ready`, the one measured least often.  CR_MEASURE_NONE
 * when there is nothing to measure now.  Way 0 comes first. */
int cr_measure_next(const cr_measure *m, unsigned ready);
/* Keeps the shortest time of each way.  When the last way has its time, the choice is made. */
void cr_measure_note(cr_measure *m, int way, double seconds);
/* Excludes a way that cannot be taken.  `way` is not 0. */
void cr_measure_leave_out(cr_measure *m, int way);

#endif
