/* ulp.c - errors of the float32 functions, in units in the last place.
 *
 *   ulp [--full|--every] [--jobs=N] [function...]
 *
 * Sweeps floats in bit order against the double functions of libm, for every instruction set
 * that this machine has, and prints the largest error with its argument. --full visits as many
 * floats as functions.def states (all for the 1-ulp functions); without it, a thousandth of
 * them.  Work is divided among N processes.  Fails when a bound is exceeded, or when the two
 * instruction sets with a fused multiply-add give different bits (an infinite error). */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ulp.h"

enum { BLOCK = 4096, SETS = 3, MOST_JOBS = 64 };

typedef struct {
    const char *name;
    double (*reference)(double);
    double bound;
    uint32_t stride;
} function;

typedef struct {
    double error;
    float at, got;
} worst;

static double ref_sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double ref_rsqrt(double x) { return 1 / sqrt(x); }

#define ULP(name, reference, bound, stride) {#name, reference, bound, stride},
static const function functions[] = {
#include "functions.def"
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static const char *const set_names[SETS] = {"avx512", "avx2", "base"};
static const ulp_kernel *const sets[SETS] = {ulp_kernels_avx512, ulp_kernels_avx2,
                                             ulp_kernels_base};

static int has_set(int set)
{
    if (set == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return set == 2 || (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The distance between floats around `want`. */
static double spacing(double want)
{
    int e;
    double a = fabs(want);

    if (a < 0x1p-126)
        return 0x1p-149;
    frexp(a > 0x1p127 ? 0x1p127 : a, &e);
    return ldexp(1.0, e - 24);
}

static double error_of(float got, double want)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : HUGE_VAL;
    if ((double)got == want)
        return want == 0 && !signbit(got) != !signbit(want) ? HUGE_VAL : 0;
    if (isinf(want))
        return HUGE_VAL;
    double value = isinf(got) ? copysign(0x1p128, (double)got) : (double)got;
    if (isinf(got) && fabs(want) >= 0x1.ffffffp127)
        return 0;
    if (value == 0 && want != 0 && !signbit(got) != !signbit(want))
        return HUGE_VAL;
    return fabs(value - want) / spacing(want);
}

static void measure(const function *f, const float *x, int n, worst *w)
{
    static float got[SETS][BLOCK];

    for (int s = 0; s < SETS; s++)
        if (has_set(s))
            sets[s][f - functions](got[s], x, BLOCK);
    for (int i = 0; i < n; i++) {
        double want = f->reference((double)x[i]);
        if (has_set(0) && memcmp(&got[0][i], &got[1][i], sizeof got[0][i]) && !isnan(got[0][i]))
            w[1] = (worst){HUGE_VAL, x[i], got[1][i]};
        for (int s = 0; s < SETS; s++) {
            double e = has_set(s) ? error_of(got[s][i], want) : 0;
            if (e > w[s].error)
                w[s] = (worst){e, x[i], got[s][i]};
        }
    }
}

/* Every jobs-th block of the sweep, from the one numbered `job`. */
static void sweep(const function *f, uint64_t stride, int job, int jobs, worst *w)
{
    static float x[BLOCK];
    uint64_t block = stride * BLOCK;

    for (uint64_t start = block * (uint64_t)job; start < 1ull << 32;
         start += block * (uint64_t)jobs) {
        int n = 0;
        for (uint64_t b = start; n < BLOCK && b < 1ull << 32; b += stride)
            x[n++] = float_of((uint32_t)b);
        measure(f, x, n, w);
    }
}

static void edges(const function *f, worst *w)
{
    static const uint32_t bits[] = {0,          0x80000000, 1,          0x80000001, 0x7fffff,
                                    0x807fffff, 0x800000,   0x80800000, 0x3f800000, 0xbf800000,
                                    0x3f7fffff, 0x3f800001, 0x7f7fffff, 0xff7fffff, 0x7f800000,
                                    0xff800000, 0x7fc00000, 0xffc00000, 0x42b17218, 0xc2aeac50,
                                    0x40490fdb, 0x3fc90fdb, 0x48435000, 0x33000000, 0xb3000000};
    static float x[BLOCK];
    int n = (int)(sizeof bits / sizeof bits[0]);

    for (int i = 0; i < n; i++)
        x[i] = float_of(bits[i]);
    measure(f, x, n, w);
}

/* The worst of all jobs is left in w[0..SETS). */
static void run_jobs(const function *f, uint64_t stride, int jobs, worst (*w)[SETS])
{
    memset(w, 0, sizeof *w * (size_t)jobs);
    fflush(stdout);
    for (int j = 0; j < jobs; j++) {
        if (fork() == 0) {
            edges(f, w[j]);
            sweep(f, stride, j, jobs, w[j]);
            _exit(0);
        }
    }
    for (int j = 0; j < jobs; j++) {
        int status;
        if (wait(&status) < 0 || status != 0)
            w[0][0].error = HUGE_VAL;
    }
    for (int j = 1; j < jobs; j++)
        for (int s = 0; s < SETS; s++)
            if (w[j][s].error > w[0][s].error)
                w[0][s] = w[j][s];
}

static int report(const function *f, const worst *w)
{
    int bad = 0;

    printf("%-8s", f->name);
    for (int s = 0; s < SETS; s++) {
        if (!has_set(s))
            continue;
        printf("  %s %.4f at %-14a", set_names[s], w[s].error, (double)w[s].at);
        bad |= w[s].error > f->bound;
    }
    printf("%s\n", bad ? "  TOO MUCH" : "");
    return bad;
}

static int wanted(const char *name, int argc, char **argv)
{
    int named = 0;

    for (int i = 1; i < argc; i++) {
        named |= argv[i][0] != '-';
        if (strcmp(argv[i], name) == 0)
            return 1;
    }
    return !named;
}

/* Nanoseconds an element, in cache. */
static double speed(ulp_kernel kernel)
{
    static float x[BLOCK], y[BLOCK];
    struct timespec a, b;
    double best = HUGE_VAL;

    for (int i = 0; i < BLOCK; i++)
        x[i] = (float)(i + 1) * 0x1p-10f;
    for (int round = 0; round < 200; round++) {
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int k = 0; k < 10; k++)
            kernel(y, x, BLOCK);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double t = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
        best = fmin(best, t / (10.0 * BLOCK));
    }
    return best;
}

static void speeds(int argc, char **argv)
{
    for (int i = 0; i < FUNCTIONS; i++) {
        if (!wanted(functions[i].name, argc, argv))
            continue;
        printf("%-8s", functions[i].name);
        for (int s = 0; s < SETS; s++)
            if (has_set(s))
                printf("  %s %.3f ns", set_names[s], speed(sets[s][i]));
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    size_t size = sizeof(worst[MOST_JOBS][SETS]);
    worst(*w)[SETS] =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int full = 0, every = 0, jobs = 1, bad = 0;

    if (w == MAP_FAILED)
        return 2;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0)
            full = 1;
        if (strcmp(argv[i], "--every") == 0)
            every = 1;
        if (strncmp(argv[i], "--jobs=", 7) == 0)
            jobs = atoi(argv[i] + 7);
        if (strcmp(argv[i], "--speed") == 0) {
            speeds(argc, argv);
            return 0;
        }
    }
    jobs = jobs < 1 ? 1 : jobs > MOST_JOBS ? MOST_JOBS : jobs;
    for (int i = 0; i < FUNCTIONS; i++) {
        if (!wanted(functions[i].name, argc, argv))
            continue;
        run_jobs(&functions[i], every ? 1 : full ? functions[i].stride : 997, jobs, w);
        bad |= report(&functions[i], w[0]);
    }
    return bad;
}
