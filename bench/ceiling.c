/* Measures what the machine can do on one thread: copy bandwidth at three sizes and the
 * float32 fused-multiply-add peak.  Prints "name value" lines for bench/run.py. */
#include "emit/vec.h"
#include "emit/vec_f32.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Bytes read and written per second, best of several passes. */
static double copy_rate(size_t bytes)
{
    char *from = aligned_alloc(64, bytes), *to = aligned_alloc(64, bytes);
    double best = 0;
    int repeat = (int)(4e8 / (double)bytes) + 1;

    memset(from, 1, bytes);
    memset(to, 2, bytes);
    for (int pass = 0; pass < 5; pass++) {
        double start = now();
        for (int r = 0; r < repeat; r++) {
            memcpy(to, from, bytes);
            __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
        }
        double rate = 2.0 * (double)bytes * repeat / (now() - start);
        best = rate > best ? rate : best;
    }
    free(from);
    free(to);
    return best;
}

enum { CHAINS = 12, STEPS = 2000000 };

static double fma_rate(void)
{
    cv_f32 acc[CHAINS], a = cv_set1_f32(1.0000001f), b = cv_set1_f32(1e-9f);
    double best = 0;

    for (int pass = 0; pass < 5; pass++) {
        for (int k = 0; k < CHAINS; k++)
            acc[k] = cv_set1_f32((float)k);
        double start = now();
        for (int i = 0; i < STEPS; i++)
#pragma GCC unroll 12
            for (int k = 0; k < CHAINS; k++)
                acc[k] = cv_fma_f32(acc[k], a, b);
        double rate = 2.0 * CHAINS * STEPS * CV_LANES_f32 / (now() - start);
        float sink[CV_LANES_f32];
        for (int k = 0; k < CHAINS; k++) {
            cv_store_f32(sink, acc[k]);
            __asm__ volatile("" : : "r"(sink) : "memory");
        }
        best = rate > best ? rate : best;
    }
    return best;
}

int main(void)
{
    printf("copy_32K %.4g\n", copy_rate(32768 * 4));
    printf("copy_1M %.4g\n", copy_rate(1 << 22));
    printf("copy_16M %.4g\n", copy_rate(1 << 26));
    printf("fma %.4g\n", fma_rate());
    return 0;
}
