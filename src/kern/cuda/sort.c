/* Stable sorts of keys on NVIDIA devices; the kernels are in emit/sort.cuh. */
#include "kern/cuda/sort.h"
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/product.h"
#include <stdio.h>

/* As in emit/sort.cuh. */
enum {
    SORT_DIGITS = 256,
    SORT_BITS = 8,
    SORT_TILE = 4096,
    SORT_FEW = 2048,
    SORT_BLOCKS = 1 << 30
};

typedef enum { COUNT, STARTS, MOVE, FEW } sort_kernel;

/* cs_call of emit/sort.cuh */
typedef struct {
    const uint64_t *from;
    uint64_t *to;
    int *count;
    int64_t n, tiles;
    int shift, end;
} sort_call;

static void sort_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"count", "starts", "move", "few"};

    (void)out;
    snprintf(symbol, 32, "cs_%s", name[k->a]);
}

static const char *sort_launch(int device, sort_call *c, sort_kernel kernel, int64_t blocks)
{
    cr_cuda_text k = {
        .print = sort_print, .device = device, .part = CR_VEC_CUDA_SORT, .a = (int)kernel};
    cr_cuda_grid g = {.block = {SORT_DIGITS, 1}};
    const char *error = cr_cuda_find(&g.function, &k);

    g.grid[0] = (unsigned)(blocks < SORT_BLOCKS ? blocks : SORT_BLOCKS);
    g.grid[1] = 1;
    return error ? error : cr_cuda_launch(device, &g, c);
}

static const char *sort_pass(int device, sort_call *c)
{
    const char *error = sort_launch(device, c, COUNT, c->tiles);

    if (!error)
        error = sort_launch(device, c, STARTS, SORT_DIGITS);
    return error ? error : sort_launch(device, c, MOVE, c->tiles);
}

static const char *sort_passes(int device, sort_call *c, uint64_t **keys, uint64_t **room)
{
    size_t bytes = (size_t)(SORT_DIGITS * (c->tiles + 1)) * sizeof *c->count;
    uint32_t block;
    const char *error = NULL;

    c->count = cr_cuda_memory_get(device, bytes, &block);
    if (!c->count)
        return cr_cuda_no_memory(device, bytes);
    for (; c->shift < c->end && !error; c->shift += SORT_BITS) {
        uint64_t *sorted = *room;
        c->from = *keys;
        c->to = sorted;
        error = sort_pass(device, c);
        *room = *keys;
        *keys = sorted;
    }
    cr_cuda_memory_release(device, c->count, block);
    return error;
}

const char *cr_cuda_sort(int device, uint64_t **keys, uint64_t **room, int64_t n, int low,
                         int bits)
{
    sort_call c = {.from = *keys,
                   .to = *keys,
                   .n = n,
                   .tiles = (n + SORT_TILE - 1) / SORT_TILE,
                   .shift = low,
                   .end = low + bits};

    if (n < 2 || bits <= 0)
        return NULL;
    return n <= SORT_FEW ? sort_launch(device, &c, FEW, 1)
                         : sort_passes(device, &c, keys, room);
}
