/* parallel.h - the only parallel region of the library (OpenMP, libgomp).
 *
 * Work is cut into ranges of at least `grain`; the cut never decides a result:
 * kernels whose order of summation matters take whole chunks as their units. */
#ifndef CR_BASE_PARALLEL_H
#define CR_BASE_PARALLEL_H

#include "base/error.h"

/* Computes units [begin, end).  Must not fail; runs in any thread. */
typedef void (*cr_range_fn)(void *context, int64_t begin, int64_t end);

/* Calls `fn` over [0, n), in the calling thread when n <= grain, when only one
 * thread is set, or when already inside a parallel region. */
CR_API void cr_parallel_for(int64_t n, int64_t grain, cr_range_fn fn, void *context);

/* Threads that one operator may use; at least 1. */
CR_API int cr_threads(void);
CR_API cr_status cr_set_threads(int n);
/* At most n threads for operators that the calling thread runs; 0 takes the limit away.
 * For threads that are many themselves. */
CR_API void cr_set_thread_limit(int n);
/* True inside a region. */
bool cr_in_parallel(void);

#endif
