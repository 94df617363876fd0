/* parallel.h - the only parallel region of the library.
 *
 * Work is cut into ranges of at least `grain` units.  Results must not depend on the cut: a
 * kernel whose order of summation matters takes whole chunks as units. */
#ifndef CR_BASE_PARALLEL_H
#define CR_BASE_PARALLEL_H

#include "base/error.h"

/* Computes units [begin, end).  Must not fail.  May run in any thread. */
typedef void (*cr_range_fn)(void *context, int64_t begin, int64_t end);

/* Calls `fn` over ranges that cover [0, n).  There is one call, in the calling thread, when n
 * <= grain, when one thread is set, or inside a parallel region. */
CR_API void cr_parallel_for(int64_t n, int64_t grain, cr_range_fn fn, void *context);

/* The number of threads that one operator may use; at least 1. */
CR_API int cr_threads(void);
CR_API cr_status cr_set_threads(int n);
/* Limits operators that the calling thread runs to n threads; 0 removes the limit.  For
 * programs that start many threads. */
CR_API void cr_set_thread_limit(int n);
/* The processors that the calling thread may run on; at least 1. */
int cr_processors(void);
/* True inside a parallel region. */
bool cr_in_parallel(void);

#endif
