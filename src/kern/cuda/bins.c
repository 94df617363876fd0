/* Counts of equal bins on NVIDIA devices; the kernel is in emit/bins.cuh. */
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/entries.h"
#include "num/dtype.h"
#include <stdio.h>

enum {
    BINS_THREADS = 512,
    BINS_AT_ONCE = 8,
    BINS_BLOCKS = 1024,
    BINS_MOST = 1 << 30 /* elements of a block, whose counts are int32 */
};

/* cb_call of emit/bins.cuh */
typedef struct {
    const void *x, *low, *high;
    void *to;
    int64_t n, bins;
} bins_call;

static void bins_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    cr_text_printf(out, "#define CB_ITEM cm_%s\n", cr_dtype_infos[k->a].suffix);
    snprintf(symbol, 32, "cb_count");
}

static bool is_one_of(const cr_array *a, int dtype)
{
    return a->dtype == dtype && cr_numel(a->ndim, a->size) == 1;
}

/* (x, low, high, bins) -> counts */
const char *cr_cuda_bin_counts(int device, const cr_given *arg, const cr_array *result)
{
    const cr_array *x = &arg[0].array, *low = &arg[1].array, *high = &arg[2].array;
    bins_call c = {.x = x->data,
                   .low = low->data,
                   .high = high->data,
                   .to = result->data,
                   .n = cr_numel(x->ndim, x->size),
                   .bins = arg[3].i};
    cr_cuda_text k = {
        .print = bins_print, .device = device, .part = CR_VEC_CUDA_BINS, .a = x->dtype};
    cr_cuda_grid g = {.grid = {BINS_BLOCKS, 1}, .block = {BINS_THREADS, 1}};
    int64_t each = BINS_THREADS * BINS_AT_ONCE, blocks = (c.n + each - 1) / each, zero = 0;

    if (x->dtype >= CR_DTYPE_KERNELS || cr_dtype_is_complex((cr_dtype)x->dtype) ||
        cr_dtype_category((cr_dtype)x->dtype) != CR_CAT_FLOAT || !is_one_of(low, x->dtype) ||
        !is_one_of(high, x->dtype) || !cr_is_dense_array(x) ||
        c.n > (int64_t)BINS_MOST * BINS_BLOCKS)
        return cr_command_declines;
    const char *error = cr_cuda_ops.fill(device, result, &zero);
    if (error || !c.n)
        return error;
    if (blocks < BINS_BLOCKS)
        g.grid[0] = (unsigned)blocks;
    error = cr_cuda_find(&g.function, &k);
    return error ? error : cr_cuda_launch(device, &g, &c);
}
