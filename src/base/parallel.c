/* Parallel regions: the number of threads, and the cut. */
#include "base/parallel.h"
#include "base/env.h"
#include "base/workers.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static _Atomic int wanted; /* 0 until the number of threads is decided */

/* The processors of the calling thread's affinity mask, whose size the kernel decides. */
static int processors_of_mask(void)
{
    int n = 0;

    for (int room = 1024; !n && room <= 1 << 20; room *= 4) {
        cpu_set_t *mask = CPU_ALLOC((size_t)room);
        size_t bytes = CPU_ALLOC_SIZE((size_t)room);

        if (mask && !sched_getaffinity(0, bytes, mask))
            n = CPU_COUNT_S(bytes, mask);
        CPU_FREE(mask);
    }
    return n;
}

int cr_processors(void)
{
    long n = processors_of_mask();

    n = n > 0 ? n : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

/* The first number of OMP_NUM_THREADS, a list whose others are for nested regions; 0: none.
 * OpenMP itself says that a text is not a list. */
static int64_t threads_of_openmp(void)
{
    char *end;
    long long n = strtoll(cr_env(CR_ENV_OMP_NUM_THREADS), &end, 10);

    return *end && *end != ',' ? 0 : n;
}

static int parallel_decide(void)
{
    int64_t n = cr_env_int(CR_ENV_CR_THREADS);

    if (n < 0)
        cr_env_refuse(CR_ENV_CR_THREADS, "less than one");
    if (n < 1)
        n = threads_of_openmp();
    if (n < 1)
        n = cr_processors();
    return n > CR_MOST_PARTS ? CR_MOST_PARTS : (int)n;
}

static int parallel_wanted(void)
{
    int n = atomic_load_explicit(&wanted, memory_order_relaxed);

    if (CR_UNLIKELY(!n)) {
        int decided = parallel_decide();
        if (atomic_compare_exchange_strong(&wanted, &n, decided))
            n = decided;
    }
    return n;
}

static CR_THREAD_COLD int limit; /* of the calling thread; 0: no limit */

void cr_set_thread_limit(int n) { limit = n; }

int cr_threads(void)
{
    int n = parallel_wanted();

    return limit > 0 && limit < n ? limit : n;
}

cr_status cr_set_threads(int n)
{
    if (n < 1)
        return cr_fail(CR_RUNTIME, "set_num_threads expects a positive integer");
    atomic_store(&wanted, n);
    return CR_OK;
}

bool cr_in_parallel(void) { return cr_workers_inside(); }

void cr_parallel_for(int64_t n, int64_t grain, cr_range_fn fn, void *context)
{
    int64_t parts, threads;

    if (n <= 0)
        return;
    threads = n <= grain ? 1 : cr_threads();
    threads = threads > CR_MOST_PARTS ? CR_MOST_PARTS : threads;
    if (threads <= 1 || cr_in_parallel()) {
        fn(context, 0, n);
        return;
    }
    parts = (n + grain - 1) / grain;
    cr_workers_run(n, (int)(parts > threads ? threads : parts), fn, context);
}
