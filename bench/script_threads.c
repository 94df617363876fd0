/* Measures how threads that call one TorchScript program scale, without Python:
 *
 *     script_threads MODEL.pt SECONDS ARGUMENT...
 *
 * ARGUMENT is "32x4x64" (float32 ones of this size), "t1" (a tensor [1] of int64) or a number.
 * Rounds of a millisecond take turns: one thread; two with the same arguments; two with
 * their own arguments.  A round counts when each of its threads had a processor for 95 % of
 * it, so other programs cancel.  Prints the processor time of a call, the median of the rounds,
 * and for two threads 2 * one / two: the rate of two threads over that of one. */
#define _GNU_SOURCE
#include "cresset_script.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ARGUMENTS = 8, ROUNDS = 1 << 16, WAYS = 3 };
static const double round_seconds = 0.001;

typedef struct {
    cr_script *program;
    cr_ivalue arg[ARGUMENTS];
    int count, place;
    atomic_int *waiting;
    double call_seconds, busy; /* of the last round */
} worker;

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(cr_status st)
{
    if (!st)
        return;
    fprintf(stderr, "%s\n", cr_error_message());
    exit(1);
}

static cr_ivalue argument_of(const char *text)
{
    int64_t size[8], one = 1;
    cr_tensor *t = NULL;
    float *ones;
    int64_t numel = 1;
    int n = 0;

    if (*text == 't') {
        check(cr_tensor_from(&t, CR_I64, 1, &one, &one));
        return cr_iv_tensor(t);
    }
    if (!strchr(text, 'x'))
        return cr_iv_int(atoll(text));
    for (const char *p = text; n < 8; p++) {
        char *end;
        size[n] = strtoll(p, &end, 10);
        numel *= size[n++];
        p = end;
        if (!*p)
            break;
    }
    ones = malloc((size_t)numel * sizeof *ones);
    for (int64_t i = 0; ones && i < numel; i++)
        ones[i] = 1;
    check(cr_tensor_from(&t, CR_F32, n, size, ones));
    free(ones);
    return cr_iv_tensor(t);
}

static void call(const worker *w)
{
    cr_ivalue out = cr_iv_none();

    check(cr_script_call(&out, w->program, "forward", w->arg, (size_t)w->count));
    cr_ivalue_free(out);
}

static void *work(void *context)
{
    worker *w = context;
    cpu_set_t one;
    int calls = 0;

    CPU_ZERO(&one);
    CPU_SET(w->place, &one);
    sched_setaffinity(0, sizeof one, &one);
    cr_set_grad_enabled(false);
    call(w);
    atomic_fetch_sub(w->waiting, 1);
    while (atomic_load(w->waiting) > 0)
        ;
    double wall = seconds_of(CLOCK_MONOTONIC), own = seconds_of(CLOCK_THREAD_CPUTIME_ID), now;
    do {
        call(w);
        calls++;
        now = seconds_of(CLOCK_MONOTONIC);
    } while (now - wall < round_seconds);
    own = seconds_of(CLOCK_THREAD_CPUTIME_ID) - own;
    w->call_seconds = own / calls;
    w->busy = own / (now - wall);
    return NULL;
}

/* The processor seconds of a call; 0: the round does not count. */
static double round_of(worker *w, int threads)
{
    pthread_t thread[2];
    atomic_int waiting = threads;
    double mean = 0, busy = 1;

    for (int i = 0; i < threads; i++) {
        w[i].waiting = &waiting;
        if (pthread_create(&thread[i], NULL, work, &w[i]))
            exit(1);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        mean += w[i].call_seconds / threads;
        busy = w[i].busy < busy ? w[i].busy : busy;
    }
    return busy > 0.95 ? mean : 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static double seen[WAYS][ROUNDS];
    static const char *const name[] = {"one thread", "same arguments", "own arguments"};
    int counts[WAYS] = {0};
    worker shared[2] = {{.place = 0}, {.place = 1}}, own[2];

    if (argc < 4 || argc > 3 + ARGUMENTS)
        return 2;
    check(cr_init());
    check(cr_set_threads(1));
    check(cr_script_load(&shared[0].program, argv[1]));
    shared[0].count = argc - 3;
    memcpy(own, shared, sizeof own);
    for (int i = 0; i < argc - 3; i++)
        shared[0].arg[i] = own[0].arg[i] = argument_of(argv[i + 3]),
        own[1].arg[i] = argument_of(argv[i + 3]);
    memcpy(shared[1].arg, shared[0].arg, sizeof shared[0].arg);
    own[0].program = own[1].program = shared[1].program = shared[0].program;
    own[0].count = own[1].count = shared[1].count = shared[0].count;
    double end = seconds_of(CLOCK_MONOTONIC) + atof(argv[2]);
    for (int r = 0; r < ROUNDS && seconds_of(CLOCK_MONOTONIC) < end; r++)
        for (int way = 0; way < WAYS; way++) {
            double t = round_of(way == 2 ? own : shared, way ? 2 : 1);
            if (t > 0)
                seen[way][counts[way]++] = t;
        }
    for (int way = 0; way < WAYS; way++) {
        qsort(seen[way], (size_t)counts[way], sizeof(double), compare);
        double median = seen[way][counts[way] / 2];
        printf("%s: %.1f us a call", name[way], 1e6 * median);
        if (way)
            printf(", rate %.2f of one", 2 * seen[0][counts[0] / 2] / median);
        printf(" (%d rounds)\n", counts[way]);
    }
    cr_script_drop(shared[0].program);
    return 0;
}
