/* Stable sorts of keys on NVIDIA devices; the kernels are in emit/sort.cuh. */
#include "kern/cuda/sort.h"
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/product.h"
#include <stdio.h>

/* As in emit/sort.cuh. */
enum { SORT_DIGITS = 256, SORT_BITS = 8, SORT_PASSES = 8 };
/* Keys of a thread: fewer while there are not enough tiles for all blocks that run at once. */
enum { SORT_ROUNDS = 16, SORT_FEW_ROUNDS = 4, SORT_SMALL = 1 << 19 };
enum { SORT_COUNTERS = 1024 /* blocks that count digits */ };

typedef enum { COUNT, MOVE, FEW } sort_kernel;

/* cs_call of emit/sort.cuh */
typedef struct {
    const uint64_t *from;
    uint64_t *to;
    int *count, *next, *tile, *cleared;
    const int *only_if;
    int64_t n, tiles;
    int shift, end;
} sort_call;

static int sort_rounds(int64_t n) { return n < SORT_SMALL ? SORT_FEW_ROUNDS : SORT_ROUNDS; }

static void sort_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"count", "move", "few"};

    cr_text_printf(out, "#define CS_ROUNDS %d\n", k->b);
    snprintf(symbol, 32, "cs_%s", name[k->a]);
}

static const char *sort_launch(int device, sort_call *c, sort_kernel kernel, int64_t blocks)
{
    cr_cuda_text k = {.print = sort_print,
                      .device = device,
                      .part = CR_VEC_CUDA_SORT,
                      .a = (int)kernel,
                      .b = sort_rounds(c->n)};
    cr_cuda_grid g = {.block = {SORT_DIGITS, 1}};
    const char *error = cr_cuda_find(&g.function, &k);

    g.grid[0] = (unsigned)blocks;
    g.grid[1] = 1;
    return error ? error : cr_cuda_launch(device, &g, c);
}

/* Passes whose digits are counted; `room` has as many keys. */
static const char *sort_each(int device, sort_call *c, uint64_t **keys, uint64_t **room)
{
    const char *error = NULL;

    for (; c->shift < c->end && !error; c->shift += SORT_BITS) {
        uint64_t *sorted = *room;
        int *cleared = c->cleared;
        c->from = *keys;
        c->to = sorted;
        error = sort_launch(device, c, MOVE, c->tiles);
        *room = *keys;
        *keys = sorted;
        c->count += SORT_DIGITS;
        c->next++;
        c->cleared = c->tile;
        c->tile = cleared;
    }
    return error;
}

static const char *sort_passes(int device, sort_call *c, uint64_t **keys, uint64_t **room)
{
    int64_t words = SORT_DIGITS * c->tiles, first = SORT_PASSES * (SORT_DIGITS + 1) + words;
    size_t bytes = (size_t)(first + words) * sizeof *c->count;
    const int zero = 0;
    uint32_t block;
    int *at = cr_cuda_memory_get(device, bytes, &block);

    if (!at)
        return cr_cuda_no_memory(device, bytes);
    c->count = at;
    c->next = at + SORT_PASSES * SORT_DIGITS;
    c->tile = c->next + SORT_PASSES;
    c->cleared = c->tile + words;
    const char *error = cr_cuda_fill(device, at, &zero, sizeof zero, (size_t)first);
    if (!error)
        error =
            sort_launch(device, c, COUNT, c->tiles < SORT_COUNTERS ? c->tiles : SORT_COUNTERS);
    if (!error)
        error = sort_each(device, c, keys, room);
    cr_cuda_memory_release(device, at, block);
    return error;
}

const char *cr_cuda_sort_if(const int *only_if, int device, uint64_t **keys, uint64_t **room,
                            int64_t n, int low, int bits)
{
    int64_t tile = SORT_DIGITS * sort_rounds(n);
    sort_call c = {.from = *keys,
                   .to = *keys,
                   .only_if = only_if,
                   .n = n,
                   .tiles = (n + tile - 1) / tile,
                   .shift = low,
                   .end = low + bits};

    if (n < 2 || bits <= 0)
        return NULL;
    return n <= CR_CUDA_SORT_FEW ? sort_launch(device, &c, FEW, 1)
                                 : sort_passes(device, &c, keys, room);
}

const char *cr_cuda_sort(int device, uint64_t **keys, uint64_t **room, int64_t n, int low,
                         int bits)
{
    return cr_cuda_sort_if(NULL, device, keys, room, n, low, bits);
}
