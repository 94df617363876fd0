/* Runs a program file on generated inputs and prints a number for the bits of each result:
 * run FILE [CALLS].  The same on every processor, so results of several can be compared. */
#include <cresset_rt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A pseudorandom number from 0 to 65535. */
static unsigned next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 48);
}

/* Numbers of floating point between -1 and 1, and small integers. */
static void fill(const cr_rt_array *a, unsigned char *at, uint64_t *seed)
{
    static const unsigned char item[] = {1, 1, 1, 2, 4, 8, 0, 0, 4, 8};
    size_t i, n = a->bytes / item[a->dtype];

    memset(at, 0, a->bytes);
    for (i = 0; i < n; i++) {
        unsigned r = next(seed);

        if (a->dtype == CR_RT_F32)
            ((float *)(void *)at)[i] = (float)r / 32768 - 1;
        else if (a->dtype == CR_RT_F64)
            ((double *)(void *)at)[i] = (double)r / 32768 - 1;
        else
            at[i * item[a->dtype]] = (unsigned char)(r % 2);
    }
}

/* Makes every NaN the same: processors choose the sign of those that operations make. */
static void settle_nans(const cr_rt_array *a, unsigned char *at)
{
    size_t i;

    for (i = 0; a->dtype == CR_RT_F32 && i < a->bytes / sizeof(float); i++)
        if (isnan(((float *)(void *)at)[i]))
            ((float *)(void *)at)[i] = NAN;
    for (i = 0; a->dtype == CR_RT_F64 && i < a->bytes / sizeof(double); i++)
        if (isnan(((double *)(void *)at)[i]))
            ((double *)(void *)at)[i] = NAN;
}

static uint64_t hash(const unsigned char *at, size_t n)
{
    uint64_t h = 14695981039346656037u;
    size_t i;

    for (i = 0; i < n; i++)
        h = (h ^ at[i]) * 1099511628211u;
    return h;
}

static void *get(size_t n)
{
    void *p = NULL;

    if (posix_memalign(&p, 16, n + 16))
        exit(2);
    return p;
}

static int failed(const char *what, cr_rt_status status)
{
    if (status)
        fprintf(stderr, "%s: %s\n", what, cr_rt_text(status));
    return status != CR_RT_OK;
}

int main(int argc, char **argv)
{
    size_t n = 0;
    const void *file = argc > 1 ? cr_rt_map(argv[1], &n) : NULL;
    int k, calls = argc > 2 ? atoi(argv[2]) : 1, count;
    cr_rt m;
    uint64_t seed = 1;
    void **array, *work;
    clock_t start;

    if (!file || failed(argv[1], cr_rt_open(&m, file, n)))
        return 1;
    count = cr_rt_count(&m);
    array = get((size_t)count * sizeof *array);
    for (k = 0; k < count; k++) {
        cr_rt_array a = cr_rt_at(&m, k);

        array[k] = get(a.bytes);
        fill(&a, array[k], &seed);
    }
    work = get(cr_rt_work_bytes(&m));
    if (failed("start", cr_rt_start(&m, array)))
        return 1;
    start = clock();
    for (k = 0; k < calls; k++)
        if (failed("run", cr_rt_run(&m, array, work)))
            return 1;
    for (k = 0; k < count; k++) {
        cr_rt_array a = cr_rt_at(&m, k);

        if (a.kind == CR_RT_INPUT)
            continue;
        settle_nans(&a, array[k]);
        printf("%s %016llx\n", a.name, (unsigned long long)hash(array[k], a.bytes));
    }
    if (argc > 2)
        printf("%.4f ms a call, %zu bytes of work memory, %lld operations\n",
               1e3 * (double)(clock() - start) / CLOCKS_PER_SEC / calls, cr_rt_work_bytes(&m),
               (long long)cr_rt_operations(&m));
    return 0;
}
