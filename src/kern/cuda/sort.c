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

static int sort_rounds(int64_t n) { return n < SORT_SMALL ? SORT_FEW_ROUNDS : SORT_ROUNDS; }

static void sort_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"count", "move", "few"};

    cr_text_printf(out, "#define CS_ROUNDS %d\n", k->b);
    snprintf(symbol, 32, "cs_%s", name[k->a]);
}

static const char *sort_launch(int device, cr_cuda_sort_call *c, sort_kernel kernel,
                               int64_t blocks)
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
static const char *sort_each(int device, cr_cuda_sort_call *c, uint64_t **keys, uint64_t **room)
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

static int64_t sort_words(const cr_cuda_sort_call *c)
{
    return SORT_PASSES * (SORT_DIGITS + 1) + 2 * SORT_DIGITS * c->tiles;
}

static void sort_place(cr_cuda_sort_call *c, int *at)
{
    c->count = at;
    c->next = at + SORT_PASSES * SORT_DIGITS;
    c->tile = c->next + SORT_PASSES;
    c->cleared = c->tile + SORT_DIGITS * c->tiles;
}

static void sort_start(cr_cuda_sort_call *c, int64_t n, int rounds, int low, int bits)
{
    int64_t tile = SORT_DIGITS * rounds;

    *c = (cr_cuda_sort_call){
        .n = n, .tiles = (n + tile - 1) / tile, .shift = low, .end = low + bits};
}

int64_t cr_cuda_sort_begin(cr_cuda_sort_call *c, int64_t n, int low, int bits)
{
    sort_start(c, n, CR_CUDA_SORT_ROUNDS, low, bits);
    return sort_words(c);
}

void cr_cuda_sort_set_room(cr_cuda_sort_call *c, int *at) { sort_place(c, at); }

static const char *sort_passes(int device, cr_cuda_sort_call *c, uint64_t **keys,
                               uint64_t **room)
{
    size_t words = (size_t)sort_words(c), last = SORT_DIGITS * (size_t)c->tiles;
    const int zero = 0;
    uint32_t block;
    int *at = cr_cuda_memory_get(device, words * sizeof *at, &block);

    if (!at)
        return cr_cuda_no_memory(device, words * sizeof *at);
    sort_place(c, at);
    const char *error = cr_cuda_fill(device, at, &zero, sizeof zero, words - last);
    if (!error)
        error =
            sort_launch(device, c, COUNT, c->tiles < SORT_COUNTERS ? c->tiles : SORT_COUNTERS);
    if (!error)
        error = sort_each(device, c, keys, room);
    cr_cuda_memory_release(device, at, block);
    return error;
}

const char *cr_cuda_sort(int device, uint64_t **keys, uint64_t **room, int64_t n, int low,
                         int bits)
{
    cr_cuda_sort_call c;

    sort_start(&c, n, sort_rounds(n), low, bits);
    c.from = c.to = *keys;
    if (n < 2 || bits <= 0)
        return NULL;
    return n <= CR_CUDA_SORT_FEW ? sort_launch(device, &c, FEW, 1)
                                 : sort_passes(device, &c, keys, room);
}
