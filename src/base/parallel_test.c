#include "base/parallel.h"
#include "base/test.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
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
    enum { CALLERS = 40 }; /* more than regions that workers help with at once */
    static tally own[CALLERS];
    int before = cr_threads();
    pthread_t thread[CALLERS];
    void *failed;

    OK(cr_set_threads(2));
    for (int i = 0; i < CALLERS; i++)
        EQ(pthread_create(&thread[i], NULL, regions, &own[i]), 0);
    for (int i = 0; i < CALLERS; i++) {
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

TEST(forks_during_regions_of_another_thread_leave_both_processes_working)
{
    static tally own, t;
    int before = cr_threads(), failures = 0, status;
    pthread_t thread;
    void *failed;

    OK(cr_set_threads(3));
    EQ(pthread_create(&thread, NULL, regions, &own), 0);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            t = (tally){0};
            cr_parallel_for(N, 1, count, &t);
            _exit(each_once(&t) ? 0 : 1);
        }
        waitpid(child, &status, 0);
        failures += status != 0;
    }
    EQ(failures, 0);
    pthread_join(thread, &failed);
    EQ(failed, NULL);
    OK(cr_set_threads(before));
}

/* The sanitizers need address space themselves. */
#if !defined(CR_SANITIZE) && !defined(__SANITIZE_THREAD__)
/* In a child, whose address space has no room for a stack. */
TEST(a_region_completes_when_no_thread_can_be_started)
{
    static tally t;
    int before = cr_threads(), status = -1;
    pid_t child;

    OK(cr_set_threads(4));
    child = fork();
    if (child == 0) {
        struct rlimit none = {1 << 20, 1 << 20};
        alarm(60);
        setrlimit(RLIMIT_AS, &none);
        cr_parallel_for(N, 1, count, &t);
        _exit(each_once(&t) && t.parts == 4 ? 0 : 1);
    }
    EQ(waitpid(child, &status, 0), child);
    EQ(status, 0);
    OK(cr_set_threads(before));
}
#endif

static _Atomic int signals, elsewhere;

static void on_signal(int number)
{
    (void)number;
    signals++;
    elsewhere += syscall(SYS_gettid) != getpid();
}

TEST(signals_interrupt_the_program_s_thread_and_no_worker)
{
    static tally t;
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, was;
    struct itimerval fast = {{0, 500}, {0, 500}}, off = {{0, 0}, {0, 0}};
    int before = cr_threads();

    OK(cr_set_threads(4));
    sigaction(SIGALRM, &act, &was);
    setitimer(ITIMER_REAL, &fast, NULL);
    while (signals < 100) {
        t = (tally){0};
        cr_parallel_for(N, 1, count, &t);
        CHECK(each_once(&t));
    }
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &was, NULL);
    EQ(elsewhere, 0);
    OK(cr_set_threads(before));
}

static void *count_processors(void *context)
{
    cpu_set_t all, one;

    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
    *(int *)context = cr_processors();
    return NULL;
}

TEST(processors_are_those_of_the_affinity_mask)
{
    pthread_t thread;
    int seen = 0;

    EQ(pthread_create(&thread, NULL, count_processors, &seen), 0);
    pthread_join(thread, NULL);
    EQ(seen, 1);
    CHECK(cr_processors() >= 1);
}

TEST(more_threads_than_parts_can_be_are_allowed)
{
    static tally t;
    int before = cr_threads();

    OK(cr_set_threads(1 << 20));
    EQ(cr_threads(), 1 << 20);
    t = (tally){0};
    cr_parallel_for(N, N / 3, count, &t);
    CHECK(each_once(&t));
    EQ(t.parts, 4);
    OK(cr_set_threads(before));
}

TEST(zero_threads_are_refused)
{
    FAILS(CR_RUNTIME, cr_set_threads(0));
    EQ_STR(cr_error_message(), "set_num_threads expects a positive integer");
}
