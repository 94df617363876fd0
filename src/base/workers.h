/* workers.h - the threads that share the parts of parallel regions.
 *
 * They start when a region first has parts for them, sleep between regions and stay until the
 * process ends.  A forked child starts its own. */
#ifndef CR_BASE_WORKERS_H
#define CR_BASE_WORKERS_H

#include "base/parallel.h"

enum { CR_MOST_PARTS = 1024 };

/* Cuts [0, n) into `parts` ranges, 1 < parts <= CR_MOST_PARTS, calls `fn` once for each, in the
 * calling thread and in at most parts - 1 workers, and returns when all are computed.  The
 * calling thread computes every part that no worker has begun, so it waits only for parts that
 * are being computed, and regions complete when no worker can be started. */
void cr_workers_run(int64_t n, int parts, cr_range_fn fn, void *context);
/* cr_workers_yield makes workers without a part sleep at once instead of spinning, until
 * cr_workers_resume: the caller runs a library whose threads need the processors.  Several
 * threads may do so at a time. */
void cr_workers_yield(void);
void cr_workers_resume(void);
/* True in a thread that computes a part. */
bool cr_workers_inside(void);

#endif
