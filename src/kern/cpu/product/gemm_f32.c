/* float32 matrix products.
 *
 * Three ways, chosen by sizes and layouts:
 * - dot products, where a column of b is adjacent in memory and few rows read it;
 * - one row of a, to which rows of b are added;
 * - blocks of c, each computed by one thread as tiles of sums in registers.  A block of k is
 * the outer loop.  Columns of b are taken in strips; a strip that many tiles read, that has no
 * unit stride, or that has too few columns for vectors, is copied into a panel, with zeros
 * beyond the last column.
 *
 * Other libraries are not used: oneDNN 2.6's product keeps the stack pointer in the heap, where
 * a signal overwrites other memory, and OpenBLAS 0.3.21 has a sixth of this speed on processors
 * that it does not know. */
#include "kern/cpu/product/gemm_f32.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/product/turn.h"
#include <string.h>

enum {
    K_BLOCK = 256,
    A_ROW = K_BLOCK + 16, /* of a copy of a */
    LONGEST = 1 << 14,    /* of k, in single precision: a multiple of K_BLOCK */
    DOT_BLOCK = 4096,     /* of k */
    ROW_WIDTH = 256,      /* columns that one row of a takes at once */
    SIDE = 256,           /* rows and columns of a block of c, at most */
    SHARE = 1 << 16,      /* multiplications for which a thread is worth while */
    COPY = 8,             /* multiplications in the time of copying a number */
    MORE_ROWS = 8,        /* times more blocks below each other than SIDE needs, at most */
    REUSED = 4,           /* tiles that make a panel worth its copy */
    A_NEAR = 1024, /* a distance of adjacent columns of a at which copying takes longer */
    NEAR = 256,    /* a distance of rows of b at which caches hold a strip without a copy */
    WIDTH = CR_F32_WIDTH,
    STACK_FLOATS = 4096
};

/* A product whose result may have any strides. */
typedef struct {
    int64_t m, n, k;
    const float *a, *b;
    int64_t a_row, a_col, b_row, b_col;
    float *c;
    int64_t c_row, c_col;
    float alpha, beta;
    bool keep;         /* beta is not zero: c is read */
    const float *bias; /* or NULL */
    int64_t bias_col;
    const cr_f32_loops *loops;
    int64_t rows, columns; /* of a block of c */
    _Atomic int failed;    /* cr_status */
} product;

static const cr_f32_loops *loops_chosen(void)
{
    static const cr_f32_loops *const all[] = {
#define CR_ISA_ROW(name, flags, moves) &cr_f32_##name,
        CR_ISA_ROWS(CR_ISA_ROW)
#undef CR_ISA_ROW
    };

    return all[cr_isa_chosen()];
}

/* A single column is the single row of the transposed product. */
static void product_turn(product *p)
{
    product was = *p;

    p->m = 1, p->n = was.m;
    p->a = was.b, p->a_row = was.b_col, p->a_col = was.b_row;
    p->b = was.a, p->b_row = was.a_col, p->b_col = was.a_row;
    p->c_row = was.c_col, p->c_col = was.c_row;
    p->bias_col = 0;
}

static product product_of(const cr_gemm *g)
{
    return (product){.m = g->m,
                     .n = g->n,
                     .k = g->k,
                     .a = (const float *)(const void *)g->a.data,
                     .b = (const float *)(const void *)g->b.data,
                     .a_row = g->a.row,
                     .a_col = g->a.col,
                     .b_row = g->b.row,
                     .b_col = g->b.col,
                     .c = (float *)(void *)g->c.data,
                     .c_row = g->c.row,
                     .c_col = 1,
                     .bias_col = 1,
                     .alpha = (float)cr_scalar_as_double(g->alpha),
                     .beta = (float)cr_scalar_as_double(g->beta),
                     .keep = cr_scalar_is_nonzero(g->beta),
                     .bias = (const float *)(const void *)g->bias,
                     .loops = loops_chosen()};
}

/* --- sums to results --- */

static bool is_plain(const product *p) { return p->c_col == 1 && p->alpha == 1.0f && !p->keep; }

/* Whether results are c and sums, which one block of k adds to c. */
static bool is_added(const product *p)
{
    return p->c_col == 1 && p->alpha == 1.0f && p->keep && p->beta == 1.0f && p->k <= K_BLOCK;
}

static float finished(const product *p, float sum, float old)
{
    float x = p->alpha == 1.0f ? sum : p->alpha * sum;

    return p->keep ? x + p->beta * old : x;
}

/* Stores sums from column j on. */
static void store_row(const product *p, const float *sums, float *c, int64_t j, int64_t columns)
{
    if (p->bias && is_plain(p) && p->bias_col == 1) {
        const float *bias = p->bias + j;
        CR_SIMD
        for (int64_t s = 0; s < columns; s++)
            c[s] = sums[s] + bias[s];
    } else if (p->bias) {
        for (int64_t s = 0; s < columns; s++)
            c[s * p->c_col] = finished(p, sums[s], 0.0f) + p->bias[(j + s) * p->bias_col];
    } else if (is_plain(p)) {
        memcpy(c, sums, (size_t)columns * sizeof *c);
    } else if (p->c_col == 1 && p->alpha == 1.0f && p->beta == 1.0f) {
        CR_SIMD
        for (int64_t s = 0; s < columns; s++)
            c[s] = sums[s] + c[s];
    } else {
        for (int64_t s = 0; s < columns; s++)
            c[s * p->c_col] = finished(p, sums[s], p->keep ? c[s * p->c_col] : 0.0f);
    }
}

/* Stores sums of rows [i, i + rows) and columns [j, j + columns). */
static void product_store(const product *p, const float *sums, int64_t width, int64_t i,
                          int64_t rows, int64_t j, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++, sums += width)
        store_row(p, sums, p->c + (i + r) * p->c_row + j * p->c_col, j, columns);
}

/* Adds sums of a part of k to the totals; afterwards `sums` has the rounded totals. */
static void add_to_totals(double *total, float *sums, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        total[i] += (double)sums[i];
        sums[i] = (float)total[i];
    }
}

/* Whether a part of k that is added in single precision ends at `end`. */
static bool ends_part(const product *p, int64_t end)
{
    return end % LONGEST == 0 || end == p->k;
}

/* --- blocks of c --- */

/* One block, and memory for it. */
typedef struct {
    const product *p;
    int64_t i, j, rows, columns, width; /* width: columns of a strip */
    int tile, vectors;                  /* rows and vectors of a tile */
    bool in_c;                          /* sums of whole strips are added up in c itself */
    float *sums, *a;                    /* a: a copy with unit stride, or NULL */
    double *total;                      /* NULL when k is short */
    _Alignas(64) float panel[K_BLOCK * WIDTH];
} block;

static int tile_rows(const cr_f32_loops *loops, int64_t m)
{
    int64_t tiles = (m + loops->rows - 1) / loops->rows;

    return (int)((m + tiles - 1) / tiles);
}

/* The first column whose sums are in the block's own memory: 0, or that of an incomplete
 * strip. */
static int64_t first_own(const block *t)
{
    return t->in_c ? t->columns / t->width * t->width : 0;
}

/* Columns of the block's own memory. */
static int64_t own_columns(const block *t)
{
    return (t->columns - first_own(t) + t->width - 1) / t->width * t->width;
}

static void block_describe(block *t, const product *p, int64_t i, int64_t j)
{
    t->p = p;
    t->i = i, t->j = j;
    t->rows = p->m - i < p->rows ? p->m - i : p->rows;
    t->columns = p->n - j < p->columns ? p->n - j : p->columns;
    t->tile = tile_rows(p->loops, t->rows);
    t->vectors = p->loops->vectors(t->tile);
    t->width = t->vectors * CR_F32_LANES;
    t->in_c = is_added(p) || (is_plain(p) && p->k <= LONGEST);
    t->sums = t->a = NULL;
    t->total = NULL;
}

/* Whether tiles read columns of a as fast as rows. */
static bool has_near_columns(const product *p) { return p->a_row == 1 && p->a_col <= A_NEAR; }

static cr_status block_memory(block *t)
{
    size_t sums = (size_t)(t->rows * own_columns(t)) * sizeof *t->sums;
    size_t total = t->p->k <= LONGEST ? 0 : 2 * sums;
    bool copies_a = t->p->a_col != 1 && t->columns > t->width && !has_near_columns(t->p);
    size_t a = copies_a ? (size_t)(t->rows * A_ROW) * sizeof *t->a : 0;
    char *bytes;

    if (!(sums + total + a))
        return CR_OK;
    bytes = cr_aligned_alloc(total + sums + a);
    CR_NEED(bytes);
    memset(bytes, 0, total ? total + sums : 0); /* totals include columns beyond the last */
    t->total = total ? (double *)(void *)bytes : NULL;
    t->sums = (float *)(void *)(bytes + total);
    t->a = copies_a ? (float *)(void *)(bytes + total + sums) : NULL;
    return CR_OK;
}

static void block_free(block *t) { cr_aligned_free(t->total ? (void *)t->total : t->sums); }

/* Rows [p, p + k) of the strip from column j of the block on; *step is the distance of rows. */
static const float *strip_of_b(block *t, int64_t j, int64_t p, int64_t k, int64_t *step)
{
    const product *g = t->p;
    const float *b = g->b + p * g->b_row + (t->j + j) * g->b_col;
    int64_t columns = t->columns - j < t->width ? t->columns - j : t->width;

    if (g->b_col == 1 && columns == t->width &&
        (g->b_row <= NEAR || t->rows <= REUSED * t->tile)) {
        *step = g->b_row;
        return b;
    }
    *step = t->width;
    if (columns < t->width)
        memset(t->panel, 0, (size_t)(k * t->width) * sizeof *t->panel);
    if (g->b_col == 1)
        for (int64_t q = 0; q < k; q++)
            memcpy(t->panel + q * t->width, b + q * g->b_row, (size_t)columns * sizeof *b);
    else if (g->b_row == 1)
        cr_turn_run(&(cr_turn){b, t->panel, g->b_col, t->width, k, columns});
    else
        for (int64_t q = 0; q < k; q++)
            for (int64_t s = 0; s < columns; s++)
                t->panel[q * t->width + s] = b[q * g->b_row + s * g->b_col];
    return t->panel;
}

static void copy_a(const block *t, int64_t p, int64_t k)
{
    const product *g = t->p;
    const float *a = g->a + t->i * g->a_row + p * g->a_col;

    if (g->a_row == 1) {
        cr_turn_run(&(cr_turn){a, t->a, g->a_col, A_ROW, t->rows, k});
        return;
    }
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t q = 0; q < k; q++)
            t->a[i * A_ROW + q] = a[i * g->a_row + q * g->a_col];
}

/* The vectors of a strip with `columns` columns. */
static int strip_vectors(const block *t, int64_t columns)
{
    int64_t needed = (columns + CR_F32_LANES - 1) / CR_F32_LANES;

    return needed < t->vectors ? (int)needed : t->vectors;
}

/* Where the sums of the strip from column j on go. */
static cr_f32_sums strip_sums(const block *t, int64_t j)
{
    const product *g = t->p;
    int64_t own = first_own(t);

    if (j < own)
        return (cr_f32_sums){.at = g->c + t->i * g->c_row + t->j + j, .row = g->c_row};
    return (cr_f32_sums){.at = t->sums + j - own, .row = own_columns(t)};
}

/* Adds columns [p, p + k) of a times the same rows of b to the sums. */
static void block_add(block *t, int64_t p, int64_t k)
{
    const product *g = t->p;
    const float *a = t->a ? t->a : g->a + t->i * g->a_row + p * g->a_col;
    int64_t a_row = t->a ? A_ROW : g->a_row, a_col = t->a ? 1 : g->a_col, step;

    if (t->a)
        copy_a(t, p, k);
    for (int64_t j = 0; j < t->columns; j += t->width) {
        const float *b = strip_of_b(t, j, p, k, &step);
        int vectors = strip_vectors(t, t->columns - j);
        cr_f32_sums to = strip_sums(t, j);
        to.add = p % LONGEST != 0 || (g->keep && j < first_own(t));
        to.bias = j < first_own(t) && p + k == g->k && g->bias ? g->bias + t->j + j : NULL;
        for (int64_t i = 0; i < t->rows; i += t->tile, to.at += t->tile * to.row) {
            int rows = (int)(t->rows - i < t->tile ? t->rows - i : t->tile);
            g->loops->tile(&to, rows, vectors, a + i * a_row, a_row, a_col, b, step, k);
        }
    }
}

static void block_run(block *t)
{
    int64_t count = t->rows * own_columns(t), own = first_own(t), k;

    for (int64_t p = 0; p < t->p->k; p += k) {
        k = t->p->k - p < K_BLOCK ? t->p->k - p : K_BLOCK;
        block_add(t, p, k);
        if (t->total && ends_part(t->p, p + k))
            add_to_totals(t->total, t->sums, count);
    }
    if (own < t->columns)
        product_store(t->p, t->sums, own_columns(t), t->i, t->rows, t->j + own,
                      t->columns - own);
}

static int64_t across(const product *p) { return (p->n + p->columns - 1) / p->columns; }

static void run_blocks(void *context, int64_t begin, int64_t end)
{
    product *p = context;
    block t;

    for (int64_t at = begin; at < end && !p->failed; at++) {
        block_describe(&t, p, at / across(p) * p->rows, at % across(p) * p->columns);
        cr_status st = block_memory(&t);
        if (st)
            p->failed = (int)st;
        else
            block_run(&t);
        block_free(&t);
    }
}

static int64_t whole(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static int64_t parts_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* Blocks of c: `down` by `across` of them, of one size but for the last ones. */
typedef struct {
    int64_t down, across, rows, columns;
} grid;

static grid grid_of(const product *p, int64_t down, int64_t across)
{
    int64_t tile = tile_rows(p->loops, p->m);
    int64_t width = p->loops->vectors((int)tile) * CR_F32_LANES;
    int64_t rows = whole(parts_of(p->m, down), tile);
    int64_t columns = whole(parts_of(p->n, across), width);

    return (grid){parts_of(p->m, rows), parts_of(p->n, columns), rows, columns};
}

/* The time of all blocks for each number of k, in multiplications.  Each thread computes equal
 * numbers of blocks, and a block copies its part of b and loads its part of a. */
static int64_t grid_time(const grid *g)
{
    int64_t most = parts_of(g->down * g->across, cr_threads());

    return most * (g->rows * g->columns + COPY * (g->rows + g->columns));
}

/* Whether the blocks of a grid are large enough to share among threads. */
static bool is_worth(const product *p, const grid *g)
{
    return g->rows * g->columns >= SHARE / p->k + 1;
}

/* `down` blocks below each other, and beside each other as many as give each thread the same
 * number of blocks. */
static grid even_grid(const product *p, int64_t down)
{
    int64_t threads = cr_threads();

    return grid_of(p, down,
                   whole(parts_of(p->n, SIDE), threads / cr_common_divisor(threads, down)));
}

/* Chooses the blocks, and returns their number.  No sum depends on the choice. */
static int64_t choose_blocks(product *p)
{
    int64_t least = parts_of(p->m, SIDE), most = p->m * p->n / (SHARE / p->k + 1);
    grid best = grid_of(p, least, parts_of(p->n, SIDE));

    most = cr_threads() == 1 ? 0 : most < MORE_ROWS * least ? most : MORE_ROWS * least;
    for (int64_t down = least; down <= most; down++) {
        grid g = even_grid(p, down);
        if (is_worth(p, &g) && grid_time(&g) < grid_time(&best))
            best = g;
    }
    p->rows = best.rows;
    p->columns = best.columns;
    return best.down * best.across;
}

static void multiply_blocks(product *p)
{
    int64_t blocks = choose_blocks(p), work = p->rows * p->columns;

    work = p->k < SHARE / work + 1 ? p->k * work : SHARE;
    cr_parallel_for(blocks, SHARE / (work + 1) + 1, run_blocks, p);
}

/* --- one row of a; rows of b have unit stride --- */

static void row_strips(void *context, int64_t begin, int64_t end)
{
    const product *g = context;

    for (int64_t j = begin * ROW_WIDTH; j < end * ROW_WIDTH && j < g->n; j += ROW_WIDTH) {
        int64_t columns = g->n - j < ROW_WIDTH ? g->n - j : ROW_WIDTH, k;
        double total[ROW_WIDTH] = {0};
        float sums[ROW_WIDTH], part[ROW_WIDTH];
        for (int64_t p = 0; p < g->k; p += k) {
            float *to = p % LONGEST ? part : sums;
            k = g->k - p < K_BLOCK ? g->k - p : K_BLOCK;
            memset(to, 0, sizeof part);
            g->loops->add_row(to, columns, g->a + p, g->b + p * g->b_row + j, g->b_row, k);
            for (int64_t s = 0; to == part && s < columns; s++)
                sums[s] = sums[s] + part[s];
            if (g->k > LONGEST && ends_part(g, p + k))
                add_to_totals(total, sums, columns);
        }
        product_store(g, sums, ROW_WIDTH, 0, 1, j, columns);
    }
}

/* --- dot products --- */

static void dot_sums(const product *g, float *sums, int64_t i, int rows, int64_t j, int columns)
{
    double total[CR_F32_DOT_ROWS * WIDTH];
    int64_t p = 0;

    if (g->k >= 2 * DOT_BLOCK)
        memset(total, 0, sizeof total);
    /* the last block has at least 16 numbers */
    for (; g->k - p >= 2 * DOT_BLOCK; p += DOT_BLOCK) {
        g->loops->dots(sums, rows, columns, g->a + i * g->a_row + p, g->a_row,
                       g->b + j * g->b_col + p, g->b_col, DOT_BLOCK);
        add_to_totals(total, sums, rows * WIDTH);
    }
    g->loops->dots(sums, rows, columns, g->a + i * g->a_row + p, g->a_row,
                   g->b + j * g->b_col + p, g->b_col, g->k - p);
    if (p)
        add_to_totals(total, sums, rows * WIDTH);
}

static void dot_strips(void *context, int64_t begin, int64_t end)
{
    const product *g = context;
    float sums[CR_F32_DOT_ROWS * WIDTH] = {0};

    for (int64_t j = begin * WIDTH; j < end * WIDTH && j < g->n; j += WIDTH) {
        int64_t columns = g->n - j < WIDTH ? g->n - j : WIDTH;
        for (int64_t i = 0; i < g->m; i += CR_F32_DOT_ROWS) {
            int64_t rows = g->m - i < CR_F32_DOT_ROWS ? g->m - i : CR_F32_DOT_ROWS;
            dot_sums(g, sums, i, (int)rows, j, (int)columns);
            product_store(g, sums, WIDTH, i, rows, j, columns);
        }
    }
}

/* --- choosing --- */

/* The lanes of a dot product meet once for each row. */
static bool are_dots(int64_t m, int64_t k, int64_t b_row)
{
    return b_row == 1 && m <= CR_F32_ROWS && k >= CR_F32_LANES * m;
}

static bool is_column(const cr_gemm *g) { return g->n == 1 && g->m != 1; }

bool cr_gemm_f32_is_dots(const cr_gemm *g)
{
    return is_column(g) ? are_dots(1, g->k, g->a.col) : are_dots(g->m, g->k, g->b.row);
}

static void share_strips(product *p, int64_t width, cr_range_fn strips)
{
    int64_t work = p->m * p->k < SHARE / width ? p->m * p->k * width : SHARE;

    cr_parallel_for((p->n + width - 1) / width, SHARE / (work + 1) + 1, strips, p);
}

/* Makes the numbers of each row of a adjacent. */
static cr_status adjacent_rows(product *g, float *stack, float **owned)
{
    float *to = stack;

    if (g->a_col == 1 || g->k == 1)
        return CR_OK;
    if (g->m * g->k > STACK_FLOATS &&
        !(to = *owned = cr_alloc((size_t)(g->m * g->k) * sizeof *to)))
        return CR_MEMORY;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t p = 0; p < g->k; p++)
            to[i * g->k + p] = g->a[i * g->a_row + p * g->a_col];
    g->a = to, g->a_row = g->k, g->a_col = 1;
    return CR_OK;
}

static cr_status multiply_narrow(product *p, bool dots)
{
    float stack[STACK_FLOATS], *owned = NULL;

    if (adjacent_rows(p, stack, &owned))
        return CR_MEMORY;
    share_strips(p, dots ? WIDTH : ROW_WIDTH, dots ? dot_strips : row_strips);
    cr_free(owned);
    return CR_OK;
}

cr_status cr_gemm_f32(const cr_gemm *g)
{
    product p = product_of(g);
    bool dots = cr_gemm_f32_is_dots(g);

    if (is_column(g))
        product_turn(&p);
    if (dots || (p.m == 1 && p.b_col == 1))
        p.failed = (int)multiply_narrow(&p, dots);
    else
        multiply_blocks(&p);
    return p.failed ? cr_fail(CR_MEMORY, "not enough memory for a matrix product") : CR_OK;
}

bool cr_gemm_f32_copies_b(const cr_gemm *g)
{
    return g->m > CR_F32_ROWS && g->n > 1 && g->k > 1 && g->b.row == 1 && g->b.col >= g->k;
}
