/* Parallel regions on libgomp.
 *
 * A child forked after the parent ran a region would wait for threads it does
 * not have, so the pool is dismissed before every fork (omp_pause_resource_all)
 * and grows again at the next region, in parent and child alike. */
#include "base/parallel.h"
#include "base/env.h"
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>

static _Atomic int wanted; /* 0: not yet decided */

static void before_fork(void)
{
    if (!omp_in_parallel())
        omp_pause_resource_all(omp_pause_hard);
}

static int decide(void)
{
    int64_t n = cr_env_int(CR_ENV_CR_THREADS);

    if (n < 1)
        n = cr_env_int(CR_ENV_OMP_NUM_THREADS);
    if (n < 1)
        n = omp_get_num_procs();
    return n > 1024 ? 1024 : (int)n;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void install(void)
{
    int none = 0;

    pthread_atfork(before_fork, NULL, NULL);
    atomic_compare_exchange_strong(&wanted, &none, decide());
}

static CR_THREAD_COLD int limit; /* of the calling thread; 0: none */

void cr_set_thread_limit(int n) { limit = n; }

int cr_threads(void)
{
    int n = atomic_load_explicit(&wanted, memory_order_relaxed);

    if (CR_UNLIKELY(n <= 0)) {
        pthread_once(&once, install);
        n = atomic_load(&wanted);
    }
    return limit > 0 && limit < n ? limit : n;
}

cr_status cr_set_threads(int n)
{
    if (n < 1)
        return cr_fail(CR_RUNTIME, "set_num_threads expects a positive integer");
    pthread_once(&once, install);
    atomic_store(&wanted, n);
    return CR_OK;
}

bool cr_in_parallel(void) { return omp_in_parallel(); }

void cr_parallel_for(int64_t n, int64_t grain, cr_range_fn fn, void *context)
{
    int64_t parts, threads;

    if (n <= 0)
        return;
    threads = n <= grain ? 1 : cr_threads();
    if (threads <= 1 || omp_in_parallel()) {
        fn(context, 0, n);
        return;
    }
    parts = (n + grain - 1) / grain;
    if (parts > threads)
        parts = threads;
#pragma omp parallel for num_threads((int)parts) schedule(static, 1)
    for (int64_t p = 0; p < parts; p++)
        fn(context, n * p / parts, n * (p + 1) / parts);
}
