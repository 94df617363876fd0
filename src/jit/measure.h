/* measure.h - which of several ways is the fastest, found out on calls that are made anyway.
 *
 *     way = cr_measure_next(m, ready)     the way that the call at hand should take
 *     cr_measure_note(m, way, seconds)    what it took
 *     m->chosen                           the best, once all were measured; until then -1
 *
 * Plain data; callers see to it that one thread at a time uses it. */
#ifndef CR_JIT_MEASURE_H
#define CR_JIT_MEASURE_H

#include "base/error.h"

enum { CR_MEASURE_WAYS = 12, CR_MEASURE_NONE = -1 };

typedef struct {
    int ways, chosen;
    double best[CR_MEASURE_WAYS]; /* seconds */
    int calls[CR_MEASURE_WAYS];
    bool out[CR_MEASURE_WAYS];    /* hopeless, or not to be had */
} cr_measure;

/* Of at most CR_MEASURE_WAYS; way 0 is the usual one, which another has to beat clearly. */
void cr_measure_init(cr_measure *m, int ways);
/* The way measured least among those whose bit is in `ready`; CR_MEASURE_NONE when there is
 * nothing to be measured now.  Way 0 comes first. */
int cr_measure_next(const cr_measure *m, unsigned ready);
/* Takes the shortest of a way's times; the last missing one makes the choice. */
void cr_measure_note(cr_measure *m, int way, double seconds);
/* The way cannot be taken; not of way 0. */
void cr_measure_leave_out(cr_measure *m, int way);

#endif
