/* Products of float32 on tensor cores (emit/product_f32.cuh), for those that have much work.
 *
 * The kernel and the number of splits are functions of sizes, layouts and the device, so equal
 * calls have equal bits. */
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/product.h"
#include <stdio.h>

/* cf_call of emit/product_f32.cuh.
 * Invariant: the members are those of the kernels' struct, in the same order. */
typedef struct {
    cr_product_f32 p;
    float *sums;
    int32_t splits, split_k;
} f32_call;

/* A kernel: the tile of a block of threads and that of a warp, the columns of tiles of
 * operands, how many blocks a multiprocessor has, in the time of how many it computes fewer,
 * and the 10^6 products that it adds in a microsecond. */
typedef struct {
    int rows, columns, own_rows, own_columns, depth, blocks;
    double least, rate;
} f32_form;

/* Measured on an H200. */
static const f32_form forms[] = {{128, 64, 64, 32, 16, 3, 2.5, 0.215},
                                 {64, 64, 32, 32, 16, 4, 3.5, 0.19}};

typedef enum { PRODUCT, JOIN } f32_kernel;
enum {
    STAGES = 2,
    PARTS = 3,
    LEAST = 128, /* columns of a split */
    MOST_SPLITS = 32,
    WORK = 2000000,             /* products for each multiprocessor */
    SMALLEST = 64,              /* of m, n and k */
    LARGEST = INT32_MAX - 4096, /* of them */
    JOIN_THREADS = 256,
    JOIN_BLOCKS = 65535,
    MOST_BLOCKS = 1 << 30
};

static void f32_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    const f32_form *f = &forms[k->a];

    cr_text_printf(out,
                   "#define CF_ROWS %d\n#define CF_COLUMNS %d\n#define CF_OWN_ROWS %d\n"
                   "#define CF_OWN_COLUMNS %d\n#define CF_DEPTH %d\n#define CF_STAGES %d\n"
                   "#define CF_BLOCKS %d\n#define CF_A_DEEP %d\n#define CF_B_DEEP %d\n"
                   "#define CF_WIDE %d\n",
                   f->rows, f->columns, f->own_rows, f->own_columns, f->depth, STAGES,
                   f->blocks, k->b & 1, k->b >> 1, k->c);
    snprintf(symbol, 32, k->d == PRODUCT ? "cf_product" : "cf_join");
}

/* Whether tensor cores add products of bfloat16 more than six times as fast as other cores add
 * those of float32: twelve times and more in compute capability 8.0, 9 and 10, but two to five
 * times in 8.6, 8.9 and 12.  Before 8.0 they lack bfloat16. */
static bool f32_is_fast(const cr_cuda_properties *p)
{
    return (p->major == 8 && p->minor == 0) || p->major == 9 || p->major == 10;
}

/* The device's multiprocessors; 0 where the library is faster. */
static int f32_processors(int device)
{
    static _Atomic int known[CR_CUDA_DEVICES]; /* 0: not asked; the number and 1 */
    cr_cuda_properties p;

    if (!known[device])
        known[device] = cr_cuda_property(&p, device) || !f32_is_fast(&p) ? 1 : p.processors + 1;
    return known[device] - 1;
}

static int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t f32_tiles(const f32_form *f, const cr_product_f32 *p)
{
    return over(p->m, f->rows) * over(p->n, f->columns) * p->batch;
}

static bool f32_fits(const cr_product_f32 *p, int processors)
{
    double work = (double)p->m * (double)p->n * (double)p->k * (double)p->batch;

    return processors && p->m >= SMALLEST && p->n >= SMALLEST && p->k >= SMALLEST &&
           p->m < LARGEST && p->n < LARGEST && p->k < LARGEST && p->batch < LARGEST &&
           work >= WORK * (double)processors &&
           f32_tiles(&forms[1], p) * MOST_SPLITS < MOST_BLOCKS;
}

/* How many adjacent elements of each line are at aligned addresses. */
static int f32_wide(const cr_product_f32 *p)
{
    int64_t bits = (int64_t)((uintptr_t)p->a | (uintptr_t)p->b) / (int64_t)sizeof(float) |
                   p->a_step | p->b_step | p->a_batch | p->b_batch | (p->a_deep ? p->k : p->m) |
                   (p->b_deep ? p->k : p->n);

    return bits & 1 ? 1 : bits & 2 ? 2 : 4;
}

/* Microseconds by estimate.  A multiprocessor computes as many blocks as it has at once, and
 * then the rest, which after some turns begins before all others have ended.  Sums of splits
 * are stored, and added by a second launch. */
static double f32_time(const f32_form *f, const cr_product_f32 *p, int processors,
                       int64_t splits, int64_t split_k)
{
    enum { START = 90, TURNS = 3 }; /* START: columns in whose time a block begins and ends */
    int64_t load = over(f32_tiles(f, p) * splits, processors);
    int64_t rest = load < TURNS * f->blocks ? load % f->blocks : 0;
    double turns = (double)(load - rest) + (!rest                     ? 0
                                            : (double)rest < f->least ? f->least
                                                                      : (double)rest);
    double block = (double)f->rows * f->columns * (double)(split_k + START) / (1e6 * f->rate);
    double bytes = 4.0 * (double)p->m * (double)p->n * (double)p->batch;

    return turns * block + (splits > 1 ? 2 + (double)(splits + 1) * bytes / 3e6 : 0);
}

/* Sets the form and the splits of the least time. */
static int f32_choose(f32_call *c, int processors)
{
    double least = 0;
    int best = -1;

    for (int i = 0; i < (int)CR_LEN(forms); i++)
        for (int64_t s = 1; s <= MOST_SPLITS; s++) {
            int64_t split_k = over(over(c->p.k, s), forms[i].depth) * forms[i].depth;
            if ((s > 1 && split_k < LEAST) || over(c->p.k, split_k) != s)
                continue;
            double time = f32_time(&forms[i], &c->p, processors, s, split_k);
            if (best >= 0 && time >= least)
                continue;
            best = i;
            least = time;
            c->splits = (int32_t)s;
            c->split_k = (int32_t)split_k;
        }
    return best;
}

static const char *f32_launch(f32_call *c, int form, f32_kernel kernel)
{
    const cr_product_f32 *p = &c->p;
    const f32_form *f = &forms[form];
    cr_cuda_text k = {.print = f32_print,
                      .device = p->index,
                      .part = CR_VEC_CUDA_PRODUCT,
                      .a = form,
                      .b = p->a_deep | p->b_deep << 1,
                      .c = f32_wide(p),
                      .d = kernel};
    int a = p->a_deep ? f->rows * (f->depth + 8) : f->depth * (f->rows + 8);
    int b = p->b_deep ? f->columns * (f->depth + 8) : f->depth * (f->columns + 8);
    int threads = f->rows / f->own_rows * (f->columns / f->own_columns) * 32;
    int64_t blocks = f32_tiles(f, p) * c->splits;
    cr_cuda_grid g = {.grid = {(unsigned)blocks, 1},
                      .block = {(unsigned)threads, 1},
                      .shared = (unsigned)(STAGES * PARTS * (a + b)) * 2};

    if (kernel == JOIN) {
        blocks = over(p->m * p->n * p->batch, JOIN_THREADS);
        g = (cr_cuda_grid){.grid = {(unsigned)(blocks < JOIN_BLOCKS ? blocks : JOIN_BLOCKS), 1},
                           .block = {JOIN_THREADS, 1}};
    }
    const char *error = cr_cuda_find(&g.function, &k);
    return error ? error : cr_cuda_launch(p->index, &g, c);
}

const char *cr_cuda_product_f32(const cr_product_f32 *p)
{
    int processors = f32_processors(p->index);
    f32_call c = {.p = *p};
    uint32_t block = 0;

    if (!f32_fits(p, processors))
        return cr_command_declines;
    int form = f32_choose(&c, processors);
    size_t bytes = sizeof(float) * (size_t)(p->m * p->n * p->batch) * (size_t)c.splits;
    if (c.splits > 1 && !(c.sums = cr_cuda_memory_get(p->index, bytes, &block)))
        return cr_cuda_no_memory(p->index, bytes);
    const char *error = f32_launch(&c, form, PRODUCT);
    if (!error && c.splits > 1)
        error = f32_launch(&c, form, JOIN);
    if (c.sums)
        cr_cuda_memory_release(p->index, c.sums, block);
    return error;
}
