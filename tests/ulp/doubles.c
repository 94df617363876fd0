/* doubles.c - errors of the float64 functions, in units in the last place.
 *
 *   doubles [--full] [--speed] [function...]
 *
 * Draws arguments over all numbers, densely where a function is difficult, and compares with
 * long double functions of libm.  Instruction sets with a fused multiply-add must stay within
 * the bounds of doubles.def and give equal bits; the baseline is not measured, because it calls
 * libm.  --full draws 256 times as many, --speed prints nanoseconds for each set. */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ulp.h"

enum { BLOCK = 4096, SETS = 3, QUICK = 48, FULL = 256 * QUICK };

static uint64_t state;

static uint64_t draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 11 ^ state << 21;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t bits_of(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static double any(void) { return double_of(draw() ^ draw() << 32); }

static double edge(void)
{
    static const double edges[] = {
        0,
        1,
        2,
        0.5,
        3,
        0x1p-1074,
        0x1p-1022,
        0x1.fffffffffffffp-1023,
        0x1.fffffffffffffp1023,
        HUGE_VAL,
        (double)NAN,
        0x1.62e42fefa39efp9,
        0x1.6232bdd7abcd2p9,
        0x1.74910d52d3051p9,
        1074,
        1024,
        0x1p52,
        0x1p53,
        0x1p27,
        0x1.921fb54442d18p0,
        0x1.6ac5b262ca1ffp849,
        0x1p-54,
        0x1.fffffffffffffp-1,
        0x1.0000000000001p0,
        0x1.9p-28,
        0x1p-27,
    };
    double x = edges[draw() % (sizeof edges / sizeof edges[0])];
    return draw() & 1 << 7 ? -x : x;
}

/* Between 2^low and 2^high, of either sign. */
static double between(int low, int high)
{
    int power = low + (int)(draw() % (unsigned)(high - low));
    double x = ldexp(1 + (double)(draw() >> 12) * 0x1p-52, power);
    return draw() & 1 << 9 ? -x : x;
}

typedef struct {
    double x, y;
} arguments;

static arguments SPREAD(int i)
{
    switch (i % 8) {
    case 0: return (arguments){any(), 0};
    case 1: return (arguments){edge(), 0};
    case 2: return (arguments){between(-60, 0), 0};
    case 3: return (arguments){between(-2, 1), 0};
    default: return (arguments){between(-6, 11), 0};
    }
}

static arguments POSITIVE(int i)
{
    if (i % 8 == 0)
        return (arguments){edge(), 0};
    if (i % 8 < 4)
        return (arguments){fabs(any()), 0};
    return (arguments){i % 8 == 4 ? 1 + between(-50, -2) : fabs(between(-4, 4)), 0};
}

static arguments UNIT(int i)
{
    if (i % 8 == 0)
        return (arguments){edge(), 0};
    double x = i % 8 < 4 ? between(-60, 0) : between(-4, 0);
    return (arguments){i % 8 == 7 ? copysign(1, x) - x * 0.1 : x, 0};
}

/* Half of them close to multiples of pi / 2. */
static arguments ANGLES(int i)
{
    if (i % 8 == 0)
        return (arguments){edge(), 0};
    if (i % 8 < 3)
        return (arguments){any(), 0};
    if (i % 8 < 5)
        return (arguments){between(-30, 40), 0};
    double n = ldexp((double)(draw() >> 40), -(int)(draw() % 24));
    double x = (double)(rintl((long double)n) * 1.57079632679489661923L);
    return (arguments){double_of(bits_of(x) + draw() % 7 - 3), 0};
}

static arguments POWERS(int i)
{
    if (i % 8 == 0)
        return (arguments){edge(), edge()};
    if (i % 8 == 1)
        return (arguments){any(), between(-12, 12)};
    if (i % 8 == 2)
        return (arguments){between(-4, 4), rint(between(0, 10))};
    double x = i % 8 == 5 ? 1 + between(-40, -2) : fabs(between(-3, 3));
    x = i % 8 < 5 ? fabs(any()) : x;
    return (arguments){x, between(-20, 0) * 760 / log(x)};
}

static arguments PAIRS(int i)
{
    if (i % 8 == 0)
        return (arguments){edge(), edge()};
    if (i % 8 == 1)
        return (arguments){any(), any()};
    double y = any(), q = between(-3, i % 8 < 6 ? 30 : 70);
    return (arguments){i % 2 ? y * rint(q) : y * q, y};
}

/* Two numbers, mostly of like size. */
static arguments SIDES(int i)
{
    if (i % 8 == 0)
        return (arguments){edge(), edge()};
    if (i % 8 == 1)
        return (arguments){any(), any()};
    double x = i % 8 < 4 ? any() : between(-40, 40);
    return (arguments){x, x * between(i % 2 ? -2 : -60, i % 2 ? 2 : 60)};
}

typedef struct {
    const char *name;
    long double (*reference)(double x, double y);
    double bound;
    arguments (*draw)(int i);
} function;

#define ULP64(name, reference, bound, draw)                                                    \
    static long double ref_##name(double a, double b)                                          \
    {                                                                                          \
        long double x = (long double)a, y = (long double)b;                                    \
        (void)y;                                                                               \
        return reference;                                                                      \
    }
#define ULP64_2 ULP64
#include "doubles.def"
#undef ULP64
#define ULP64(name, reference, bound, draw) {#name, ref_##name, bound, draw},
static const function functions[] = {
#include "doubles.def"
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static const char *const set_names[SETS] = {"avx512", "avx2", "base"};
static const ulp_kernel64 *const sets[SETS] = {ulp_kernels64_avx512, ulp_kernels64_avx2,
                                               ulp_kernels64_base};

static int has_set(int set)
{
    if (set == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return set == 2 || (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
}

static int equal(double a, double b)
{
    return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

/* The error in units in the last place of the right result. */
static double error_of(double got, long double want)
{
    double near = (double)want;
    int e;

    if (equal(got, near))
        return isfinite(near) && near != 0
                   ? (double)(fabsl((long double)got - want) /
                              ldexpl(1, (frexpl(want, &e), e < -1021 ? -1074 : e - 53)))
                   : 0;
    if (isnan(near) || isnan(got) || want == 0)
        return HUGE_VAL;
    if (got == 0 && signbit(got) != signbit(near))
        return HUGE_VAL;
    long double g = isinf(got) ? copysignl(0x1p1024L, (long double)got) : (long double)got;
    if (isinf(want))
        return HUGE_VAL;
    if (fabsl(want) >= 0x1p1024L)
        want = copysignl(0x1p1024L, want);
    frexpl(want, &e);
    e = e > 1024 ? 1024 : e < -1021 ? -1021 : e;
    return (double)(fabsl(g - want) / ldexpl(1, e - 53));
}

typedef struct {
    double error, x, y, got;
} worst;

static void measure(const function *f, const double *x, const double *y, worst *w,
                    long *unequal)
{
    static double got[2][BLOCK];
    int k = (int)(f - functions);

    for (int s = 0; s < 2; s++)
        if (has_set(s))
            sets[s][k](got[s], x, y, BLOCK);
    for (int i = 0; i < BLOCK; i++) {
        int s = has_set(0) ? 0 : 1;
        double e = error_of(got[s][i], f->reference(x[i], y[i]));
        if (e > w->error)
            *w = (worst){e, x[i], y[i], got[s][i]};
        *unequal += has_set(0) && !equal(got[0][i], got[1][i]);
    }
}

static int check(const function *f, int blocks)
{
    static double x[BLOCK], y[BLOCK];
    worst w = {0};
    long unequal = 0;

    state = 20231123;
    for (int b = 0; b < blocks; b++) {
        for (int i = 0; i < BLOCK; i++) {
            arguments a = f->draw(i);
            x[i] = a.x;
            y[i] = a.y;
        }
        measure(f, x, y, &w, &unequal);
    }
    int bad = w.error > f->bound || unequal;
    printf("%-6s %.4f at %a, %a: %a; %ld lanes differ between sets%s\n", f->name, w.error, w.x,
           w.y, w.got, unequal, bad ? "  TOO MUCH" : "");
    return bad;
}

/* Nanoseconds an element, in cache. */
static double speed(ulp_kernel64 kernel)
{
    static double x[BLOCK], y[BLOCK], z[BLOCK];
    struct timespec a, b;
    double best = HUGE_VAL;

    for (int i = 0; i < BLOCK; i++) {
        x[i] = (double)(i + 1) * 0x1p-10;
        y[i] = (double)(i % 97 + 1) * 0x1p-5;
    }
    for (int round = 0; round < 100; round++) {
        clock_gettime(CLOCK_MONOTONIC, &a);
        kernel(z, x, y, BLOCK);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double t = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
        best = fmin(best, t / BLOCK);
    }
    return best;
}

static void speeds(const function *f)
{
    printf("%-6s", f->name);
    for (int s = 0; s < SETS; s++)
        if (has_set(s))
            printf("  %s %.3f ns", set_names[s], speed(sets[s][f - functions]));
    printf("\n");
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

int main(int argc, char **argv)
{
    int blocks = QUICK, fast = 0, bad = 0;

    for (int i = 1; i < argc; i++) {
        blocks = strcmp(argv[i], "--full") == 0 ? FULL : blocks;
        fast |= strcmp(argv[i], "--speed") == 0;
    }
    if (!has_set(1) && !fast)
        return 0;
    for (int i = 0; i < FUNCTIONS; i++) {
        if (!wanted(functions[i].name, argc, argv))
            continue;
        if (fast)
            speeds(&functions[i]);
        else
            bad |= check(&functions[i], blocks);
    }
    return bad;
}
