/* lanes_main.c - runs the checks of lanes.c for each instruction set of this machine, and
 * compares the traces. */
#include <stdio.h>
#include <string.h>

#include "ulp.h"

static unsigned long traces[3][ULP_TRACE];

static int run(const char *name, ulp_lanes check, unsigned long *trace)
{
    int bad = check(trace);

    printf("lanes %-7s %s\n", name, bad ? "FAILED" : "ok");
    return bad;
}

/* The baseline has no fused multiply-add, but nothing in the trace uses one. */
static int differ(const unsigned long *a, const unsigned long *b)
{
    int bad = memcmp(a, b, sizeof traces[0]) != 0;

    if (bad)
        printf("instruction sets differ in their reductions\n");
    return bad;
}

int main(void)
{
    int bad = run("base", ulp_lanes_base, traces[0]);

    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        bad += run("avx2", ulp_lanes_avx2, traces[1]);
        bad += differ(traces[0], traces[1]);
    }
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        bad += run("avx512", ulp_lanes_avx512, traces[2]);
        bad += differ(traces[0], traces[2]);
    }
    return bad != 0;
}
