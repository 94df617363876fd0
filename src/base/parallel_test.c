#include "base/parallel.h"
#include "base/test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 100000 };

typedef struct {
    int times[N]; /* calls for each unit */
    _Atomic int parts;
} tally;

static void count(void *context, int64_t begin, int64_t end)
{
    tally *t = context;

    t->parts++;
    for (int64_t i = begin; i < end; i++)
        t->times[i]++;
}

static bool each_once(const tally *t)
{
    for (int i = 0; i < N; i++)
        if (t->times[i] != 1)
            return false;
    return true;
}

TEST(every_unit_is_computed_once)
{
    static tally t;
    int before = cr_threads();

    for (int threads = 1; threads <= 5; threads++) {
        t = (tally){0};
        OK(cr_set_threads(threads));
        cr_parallel_for(N, 1, count, &t);
        CHECK(each_once(&t));
        EQ(t.parts, threads);
    }
    OK(cr_set_threads(before));
}

TEST(little_work_stays_in_one_part)
{
    static tally t;

    cr_parallel_for(N, N, count, &t);
    EQ(t.parts, 1);
    cr_parallel_for(0, 1, count, &t);
    cr_parallel_for(-3, 1, count, &t);
    EQ(t.parts, 1);
}

static void count_parts(void *context, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    *(_Atomic int *)context += cr_in_parallel();
}

static void nest(void *context, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        cr_parallel_for(8, 1, count_parts, context);
}

TEST(a_region_in_a_region_is_one_part)
{
    _Atomic int parts = 0;
    int before = cr_threads();

    OK(cr_set_threads(3));
    cr_parallel_for(6, 1, nest, &parts);
    EQ(parts, 6);
    CHECK(!cr_in_parallel());
    OK(cr_set_threads(before));
}

static void *limited(void *context)
{
    static tally own;

    cr_set_thread_limit(1);
    cr_parallel_for(N, 1, count, &own);
    *(int *)context = own.parts + 10 * cr_threads();
    return NULL;
}

TEST(a_thread_limit_does_not_affect_other_threads)
{
    int before = cr_threads(), seen = 0;
    pthread_t thread;

    OK(cr_set_threads(3));
    EQ(pthread_create(&thread, NULL, limited, &seen), 0);
    pthread_join(thread, NULL);
    EQ(seen, 11);
    EQ(cr_threads(), 3);
    OK(cr_set_threads(before));
}

static void *regions(void *context)
{
    tally *own = context;

    for (int i = 0; i < 20; i++) {
        *own = (tally){0};
        cr_parallel_for(N, 1, count, own);
        if (!each_once(own))
            return context;
    }
    return NULL;
}

TEST(several_threads_run_regions_at_once)
{
    static tally own[4];
    int before = cr_threads();
    pthread_t thread[4];
    void *failed;

    OK(cr_set_threads(2));
    for (int i = 0; i < 4; i++)
        EQ(pthread_create(&thread[i], NULL, regions, &own[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], &failed);
        EQ(failed, NULL);
    }
    OK(cr_set_threads(before));
}

TEST(a_child_forked_after_a_region_runs_regions)
{
    static tally t;
    int before = cr_threads(), status = -1;
    pid_t child;

    OK(cr_set_threads(2));
    cr_parallel_for(N, 1, count, &t);
    child = fork();
    if (child == 0) {
        alarm(60);
        t = (tally){0};
        cr_parallel_for(N, 1, count, &t);
        _exit(each_once(&t) && t.parts == 2 ? 0 : 1);
    }
    EQ(waitpid(child, &status, 0), child);
    EQ(status, 0);
    OK(cr_set_threads(before));
}

TEST(zero_threads_are_refused)
{
    FAILS(CR_RUNTIME, cr_set_threads(0));
    EQ_STR(cr_error_message(), "set_num_threads expects a positive integer");
}
