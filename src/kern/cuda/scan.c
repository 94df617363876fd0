/* Scans on NVIDIA devices: running sums, products, extremes and logarithmic sums; the kernels
 * are in emit/scan.cuh. */
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/lines.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include <stdio.h>

/* As in emit/scan.cuh. */
enum { SCAN_BLOCK = 256, SCAN_TILE = 4096, SCAN_THREADS = 256, SCAN_RUN = 16 };
typedef enum { SCAN_ADD, SCAN_MUL, SCAN_ABOVE, SCAN_BELOW, SCAN_LOG } scan_kind;
typedef enum { TILES, ROWS, SHORT, TOTALS_COLUMNS, CHAIN_COLUMNS, COLUMNS } scan_kernel;

/* Lines are divided where they are fewer than MANY; tiles are blocks of one launch. */
enum { SCAN_MANY_ROWS = 256, SCAN_MANY_COLUMNS = 1 << 16, SCAN_MOST_TILES = 1 << 30 };

/* cn_call of emit/scan.cuh */
typedef struct {
    char *to, *index;
    const char *from;
    void *totals;
    uint64_t *words;
    int *next;
    int64_t published, lines, n, parts, to_step, index_step, from_step;
    cr_cuda_dims dims;
} scan_call;

static void scan_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"tiles",          "rows",          "short",
                                       "totals_columns", "chain_columns", "columns"};

    cr_text_printf(out, "#define CN_OP %d\n#define CN_ITEM cm_%s\n", k->a,
                   cr_dtype_infos[k->b].suffix);
    snprintf(symbol, 32, "cn_%s", name[k->c]);
}

typedef struct {
    scan_call call;
    int device, dtype;
    scan_kind kind;
    bool rows;
} scan_job;

static int scan_threads(const scan_job *j, scan_kernel kernel)
{
    bool keeps = j->kind == SCAN_ABOVE || j->kind == SCAN_BELOW;
    bool large = cr_dtype_size((cr_dtype)j->dtype) + (keeps ? 8 : 0) > 8;

    return kernel == SHORT && large ? SCAN_THREADS / 2 : SCAN_THREADS;
}

/* Blocks of threads for rows, threads for columns. */
static const char *scan_launch(scan_job *j, scan_kernel kernel, int64_t n)
{
    cr_cuda_text k = {.print = scan_print,
                      .device = j->device,
                      .part = CR_VEC_CUDA_SCAN,
                      .a = (int)j->kind,
                      .b = j->dtype,
                      .c = (int)kernel};
    cr_cuda_grid g = {.block = {(unsigned)scan_threads(j, kernel), 1}};
    const char *error = cr_cuda_find(&g.function, &k);

    if (error)
        return error;
    if (kernel >= TOTALS_COLUMNS)
        return cr_cuda_launch_each(j->device, g.function, n, &j->call);
    g.grid[0] = (unsigned)(n < 1 << 30 ? n : 1 << 30);
    g.grid[1] = 1;
    return cr_cuda_launch(j->device, &g, &j->call);
}

static int64_t scan_step(const cr_array *a, int dim)
{
    return a && a->ndim ? a->stride[dim] * (int64_t)cr_dtype_size((cr_dtype)a->dtype) : 0;
}

enum { SCAN_STATE = 16 /* bytes, at most */, SCAN_WORDS = SCAN_STATE / 4 };

/* Totals of blocks of columns, which a second launch scans. */
static const char *scan_columns(scan_job *j)
{
    scan_call *c = &j->call;
    uint32_t block;

    c->parts = (c->n + SCAN_BLOCK - 1) / SCAN_BLOCK;
    size_t bytes = SCAN_STATE * (size_t)(c->lines * c->parts);
    c->totals = cr_cuda_memory_get(j->device, bytes, &block);
    if (!c->totals)
        return cr_cuda_no_memory(j->device, bytes);
    const char *error = scan_launch(j, TOTALS_COLUMNS, c->lines * c->parts);
    if (!error)
        error = scan_launch(j, CHAIN_COLUMNS, c->lines);
    if (!error)
        error = scan_launch(j, COLUMNS, c->lines * c->parts);
    cr_cuda_memory_release(j->device, c->totals, block);
    return error;
}

/* Tiles that publish their totals. */
static const char *scan_tiles(scan_job *j)
{
    scan_call *c = &j->call;
    const int zero = 0;
    uint32_t block;

    c->parts = (c->n + SCAN_TILE - 1) / SCAN_TILE;
    c->published = 0;
    for (int64_t runs = c->parts; runs; runs /= SCAN_RUN)
        c->published += runs;
    size_t words = SCAN_WORDS * (size_t)(c->lines * c->published) + 1;
    c->words = cr_cuda_memory_get(j->device, words * sizeof *c->words, &block);
    if (!c->words)
        return cr_cuda_no_memory(j->device, words * sizeof *c->words);
    c->next = (int *)(void *)(c->words + words - 1);
    const char *error = cr_cuda_fill(j->device, c->words, &zero, sizeof zero, 2 * words);
    if (!error)
        error = scan_launch(j, TILES, c->lines * c->parts);
    cr_cuda_memory_release(j->device, c->words, block);
    return error;
}

/* Lines of at most a block. */
static const char *scan_short(scan_job *j)
{
    int64_t most = scan_threads(j, SHORT) / ((j->call.n + SCAN_RUN - 1) / SCAN_RUN);

    return scan_launch(j, SHORT, (j->call.lines + most - 1) / most);
}

static const char *scan_run(scan_job *j)
{
    scan_call *c = &j->call;
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)j->dtype);

    j->rows = c->from_step == item && c->to_step == item;
    if (j->rows && c->n <= SCAN_BLOCK)
        return scan_short(j);
    if (j->rows && c->lines < SCAN_MANY_ROWS && c->n > SCAN_TILE &&
        c->n / SCAN_TILE < SCAN_MOST_TILES / c->lines)
        return scan_tiles(j);
    if (!j->rows && c->lines < SCAN_MANY_COLUMNS && c->n > 4 * SCAN_BLOCK)
        return scan_columns(j);
    return scan_launch(j, j->rows ? ROWS : COLUMNS, c->lines);
}

/* (self, dim, ...) -> values, or values and indices */
static const char *scan(int device, const cr_given *arg, const cr_array *result, scan_kind kind)
{
    const cr_array *self = &arg[0].array;
    bool keeps = kind == SCAN_ABOVE || kind == SCAN_BELOW;
    const cr_array *const operand[3] = {&result[0], keeps ? &result[1] : NULL, self};
    int dim = (int)(arg[1].i < 0 ? arg[1].i + self->ndim : arg[1].i);
    scan_job j = {.device = device, .dtype = self->dtype, .kind = kind};
    scan_call *c = &j.call;

    if (self->dtype != result->dtype || self->dtype >= CR_DTYPE_KERNELS ||
        (!keeps && self->dtype == CR_BOOL) ||
        (keeps && cr_dtype_is_complex((cr_dtype)self->dtype)) ||
        !cr_cuda_lines(&c->dims, &c->lines, operand, dim))
        return cr_command_declines;
    c->to = result->data;
    c->index = keeps ? result[1].data : NULL;
    c->from = self->data;
    c->n = self->ndim ? self->size[dim] : 1;
    c->to_step = scan_step(operand[0], dim);
    c->index_step = scan_step(operand[1], dim);
    c->from_step = scan_step(operand[2], dim);
    return c->n && c->lines ? scan_run(&j) : NULL;
}

const char *cr_cuda_cumsum(int device, const cr_given *arg, const cr_array *result)
{
    return scan(device, arg, result, SCAN_ADD);
}

const char *cr_cuda_cumprod(int device, const cr_given *arg, const cr_array *result)
{
    return scan(device, arg, result, SCAN_MUL);
}

const char *cr_cuda_cummax(int device, const cr_given *arg, const cr_array *result)
{
    return scan(device, arg, result, SCAN_ABOVE);
}

const char *cr_cuda_cummin(int device, const cr_given *arg, const cr_array *result)
{
    return scan(device, arg, result, SCAN_BELOW);
}

const char *cr_cuda_logcumsumexp(int device, const cr_given *arg, const cr_array *result)
{
    return scan(device, arg, result, SCAN_LOG);
}
