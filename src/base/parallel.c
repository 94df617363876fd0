/* Parallel regions on libgomp.
 *
 * libgomp's thread pool does not survive fork: a child would wait for threads that it does not
 * have.  Every fork therefore stops the pool first (omp_pause_resource_all).  The next region,
 * in parent or child, starts it again. */
#include "base/parallel.h"
#include "base/env.h"
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>

static _Atomic int wanted; /* 0 until the number of threads is decided */

void cr_threads_end(void)
{
    if (!cr_in_parallel())
        omp_pause_resource_all(omp_pause_hard);
}

static int parallel_decide(void)
{
    int64_t n = cr_env_int(CR_ENV_CR_THREADS);

    if (n < 1)
        n = cr_env_int(CR_ENV_OMP_NUM_THREADS);
    if (n < 1)
        n = omp_get_num_procs();
    return n > 1024 ? 1024 : (int)n;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void parallel_install(void)
{
    int none = 0;

    pthread_atfork(cr_threads_end, NULL, NULL);
    atomic_compare_exchange_strong(&wanted, &none, parallel_decide());
}

static CR_THREAD_COLD int limit; /* of the calling thread; 0: no limit */

void cr_set_thread_limit(int n) { limit = n; }

int cr_threads(void)
{
    int n = atomic_load_explicit(&wanted, memory_order_relaxed);

    if (CR_UNLIKELY(n <= 0)) {
        pthread_once(&once, parallel_install);
        n = atomic_load(&wanted);
    }
    return limit > 0 && limit < n ? limit : n;
}

cr_status cr_set_threads(int n)
{
    if (n < 1)
        return cr_fail(CR_RUNTIME, "set_num_threads expects a positive integer");
    pthread_once(&once, parallel_install);
    atomic_store(&wanted, n);
    return CR_OK;
}

#ifndef __SANITIZE_THREAD__

bool cr_in_parallel(void) { return omp_in_parallel(); }

static void run_parts(int64_t n, int64_t parts, cr_range_fn fn, void *context)
{
#pragma omp parallel for num_threads((int)parts) schedule(static, 1)
    for (int64_t p = 0; p < parts; p++)
        fn(context, n * p / parts, n * (p + 1) / parts);
}

#else

/* ThreadSanitizer does not know libgomp's barriers.  Its build runs regions on plain
 * threads. */

static CR_THREAD_COLD bool inside;

bool cr_in_parallel(void) { return inside; }

typedef struct {
    pthread_t thread;
    bool started;
    int64_t begin, end;
    cr_range_fn fn;
    void *context;
} part;

static void *parallel_run_part(void *p)
{
    part *one = p;

    inside = true;
    one->fn(one->context, one->begin, one->end);
    inside = false;
    return NULL;
}

enum { MOST_PARTS = 64 };

static void run_parts(int64_t n, int64_t parts, cr_range_fn fn, void *context)
{
    part list[MOST_PARTS];

    parts = parts > MOST_PARTS ? MOST_PARTS : parts;
    for (int64_t p = 0; p < parts; p++)
        list[p] = (part){
            .begin = n * p / parts, .end = n * (p + 1) / parts, .fn = fn, .context = context};
    for (int64_t p = 1; p < parts; p++)
        list[p].started = !pthread_create(&list[p].thread, NULL, parallel_run_part, &list[p]);
    for (int64_t p = 0; p < parts; p++)
        if (!list[p].started)
            parallel_run_part(&list[p]);
    for (int64_t p = 1; p < parts; p++)
        if (list[p].started)
            pthread_join(list[p].thread, NULL);
}

#endif

void cr_parallel_for(int64_t n, int64_t grain, cr_range_fn fn, void *context)
{
    int64_t parts, threads;

    if (n <= 0)
        return;
    threads = n <= grain ? 1 : cr_threads();
    if (threads <= 1 || cr_in_parallel()) {
        fn(context, 0, n);
        return;
    }
    parts = (n + grain - 1) / grain;
    run_parts(n, parts > threads ? threads : parts, fn, context);
}
