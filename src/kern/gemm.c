/* Matrix products in blocks.
 *
 * For each block of columns and of k, panels of b as wide as a tile are laid out row
 * after row, and for each block of rows, a is copied so that its rows are a constant
 * distance apart.  Tiles then read both from the caches.  Threads take cells of a
 * grid of row and column blocks; how the grid is cut decides no sum. */
#include "kern/gemm.h"
#include "base/parallel.h"
#include "jit/isa.h"
#include "kern/pack.h"
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define CR_GEMM_X86 1
#else
#define CR_GEMM_X86 0
#endif

enum {
    K_BLOCK = 384,        /* of fixed length: it decides the order of sums */
    A_STEP = K_BLOCK + 16,/* not a multiple of a page, so rows do not share cache sets */
    ROW_BLOCK = 336,      /* rows of a copied at a time; a multiple of every tile's rows */
    COLUMN_BLOCK = 4096,  /* columns of b laid out at a time */
    SMALL_BYTES = 8192,   /* of panels, on the stack */
    IN_PLACE_BYTES = 1 << 20 /* of b, which the second-level cache holds */
};

typedef void (*tile_fn)(int rows, int cols, int64_t k, const void *a, int64_t a_row, const void *b,
                        int64_t b_row, void *c, int64_t c_row, double alpha, bool add);
typedef void (*vector_fn)(int64_t count, int64_t k, const void *one, int64_t step, const void *two,
                          int64_t two_step, void *out, double alpha, double beta);
typedef void (*dots_fn)(int64_t rows, int64_t k, const void *a, int64_t a_row, const void *x, void *out,
                        double alpha, double beta);

typedef struct {
    int rows, cols; /* of a tile */
    tile_fn tile;
    dots_fn dots;      /* rows of a matrix with a vector */
    vector_fn combine; /* a vector with rows that are combined */
} tile_kind;

/* Four or two elements, for machines without anything better; two roundings. */
typedef float four_floats __attribute__((vector_size(16)));
typedef double two_doubles __attribute__((vector_size(16)));
typedef float four_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
typedef double two_anywhere __attribute__((vector_size(16), aligned(8), may_alias));
#define T            float
#define NAME(x)      f32_128_##x
#define TARGET
#define V            four_floats
#define LANES        4
#define MR           6
#define ZERO         ((four_floats){0, 0, 0, 0})
#define LOAD(p)      ((four_floats)(*(const four_anywhere *)(const void *)(p)))
#define STORE(p, v)  (*(four_anywhere *)(void *)(p) = (four_anywhere)(v))
#define FILL(x)      ((four_floats){(x), (x), (x), (x)})
#define FMA(a, b, c) ((a) * (b) + (c))
#define FMA_ONE(a, b, c) ((a) * (b) + (c))
#define MUL(a, b)    ((a) * (b))
#define ADD(a, b)    ((a) + (b))
#include "kern/gemm_tile.inc"
#define T            double
#define NAME(x)      f64_128_##x
#define TARGET
#define V            two_doubles
#define LANES        2
#define MR           6
#define ZERO         ((two_doubles){0, 0})
#define LOAD(p)      ((two_doubles)(*(const two_anywhere *)(const void *)(p)))
#define STORE(p, v)  (*(two_anywhere *)(void *)(p) = (two_anywhere)(v))
#define FILL(x)      ((two_doubles){(x), (x)})
#define FMA(a, b, c) ((a) * (b) + (c))
#define FMA_ONE(a, b, c) ((a) * (b) + (c))
#define MUL(a, b)    ((a) * (b))
#define ADD(a, b)    ((a) + (b))
#include "kern/gemm_tile.inc"

#if CR_GEMM_X86
#define T            float
#define NAME(x)      f32_512_##x
#define TARGET       __attribute__((target("avx512f")))
#define V            __m512
#define LANES        16
#define MR           14
#define ZERO         _mm512_setzero_ps()
#define LOAD(p)      _mm512_loadu_ps(p)
#define STORE(p, v)  _mm512_storeu_ps(p, v)
#define FILL(x)      _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FMA_ONE      __builtin_fmaf
#define MUL(a, b)    _mm512_mul_ps(a, b)
#define ADD(a, b)    _mm512_add_ps(a, b)
#include "kern/gemm_tile.inc"
#define T            double
#define NAME(x)      f64_512_##x
#define TARGET       __attribute__((target("avx512f")))
#define V            __m512d
#define LANES        8
#define MR           14
#define ZERO         _mm512_setzero_pd()
#define LOAD(p)      _mm512_loadu_pd(p)
#define STORE(p, v)  _mm512_storeu_pd(p, v)
#define FILL(x)      _mm512_set1_pd(x)
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define FMA_ONE      __builtin_fma
#define MUL(a, b)    _mm512_mul_pd(a, b)
#define ADD(a, b)    _mm512_add_pd(a, b)
#include "kern/gemm_tile.inc"
#define T            float
#define NAME(x)      f32_256_##x
#define TARGET       __attribute__((target("avx2,fma")))
#define V            __m256
#define LANES        8
#define MR           6
#define ZERO         _mm256_setzero_ps()
#define LOAD(p)      _mm256_loadu_ps(p)
#define STORE(p, v)  _mm256_storeu_ps(p, v)
#define FILL(x)      _mm256_set1_ps(x)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define FMA_ONE      __builtin_fmaf
#define MUL(a, b)    _mm256_mul_ps(a, b)
#define ADD(a, b)    _mm256_add_ps(a, b)
#include "kern/gemm_tile.inc"
#define T            double
#define NAME(x)      f64_256_##x
#define TARGET       __attribute__((target("avx2,fma")))
#define V            __m256d
#define LANES        4
#define MR           6
#define ZERO         _mm256_setzero_pd()
#define LOAD(p)      _mm256_loadu_pd(p)
#define STORE(p, v)  _mm256_storeu_pd(p, v)
#define FILL(x)      _mm256_set1_pd(x)
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define FMA_ONE      __builtin_fma
#define MUL(a, b)    _mm256_mul_pd(a, b)
#define ADD(a, b)    _mm256_add_pd(a, b)
#include "kern/gemm_tile.inc"

/* to[i][j] = from[j][i] for 4 x 4 and 2 x 2 elements. */
static void turn_f32(float *to, int64_t to_row, const float *from, int64_t from_row)
{
    __m128 r0 = _mm_loadu_ps(from), r1 = _mm_loadu_ps(from + from_row);
    __m128 r2 = _mm_loadu_ps(from + 2 * from_row), r3 = _mm_loadu_ps(from + 3 * from_row);

    _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
    _mm_storeu_ps(to, r0);
    _mm_storeu_ps(to + to_row, r1);
    _mm_storeu_ps(to + 2 * to_row, r2);
    _mm_storeu_ps(to + 3 * to_row, r3);
}

static void turn_f64(double *to, int64_t to_row, const double *from, int64_t from_row)
{
    __m128d r0 = _mm_loadu_pd(from), r1 = _mm_loadu_pd(from + from_row);

    _mm_storeu_pd(to, _mm_unpacklo_pd(r0, r1));
    _mm_storeu_pd(to + to_row, _mm_unpackhi_pd(r0, r1));
}
#else
static void turn_f32(float *to, int64_t to_row, const float *from, int64_t from_row)
{
    for (int i = 0; i < 16; i++)
        to[i / 4 * to_row + i % 4] = from[i % 4 * from_row + i / 4];
}

static void turn_f64(double *to, int64_t to_row, const double *from, int64_t from_row)
{
    for (int i = 0; i < 4; i++)
        to[i / 2 * to_row + i % 2] = from[i % 2 * from_row + i / 2];
}
#endif

#define KIND(rows, cols, name) {rows, cols, name##_tile, name##_rows_times_vector, name##_vector_times_rows}

/* By instruction set, then float32 and float64. */
static const tile_kind kinds[][2] = {
    [CR_ISA_base] = {KIND(6, 8, f32_128), KIND(6, 4, f64_128)},
#if CR_GEMM_X86
    [CR_ISA_avx2] = {KIND(6, 16, f32_256), KIND(6, 8, f64_256)},
    [CR_ISA_avx512] = {KIND(14, 32, f32_512), KIND(14, 16, f64_512)},
#endif
};

static const tile_kind *kind_of(cr_dtype t)
{
    cr_isa isa = cr_isa_chosen();

    return &kinds[(size_t)isa < CR_LEN(kinds) ? isa : CR_ISA_base][t == CR_F64];
}

/* --- copies --- */

/* rows x cols elements from strides (row, col) to rows that are `step` apart. */
#define COPY(T, NAME, BLOCK)                                                                       \
    static void NAME##_one(T *to, int64_t step, const T *from, int64_t row, int64_t col,           \
                           int64_t rows, int64_t cols)                                             \
    {                                                                                              \
        for (int64_t i = 0; i < rows; i++)                                                         \
            for (int64_t j = 0; j < cols; j++)                                                     \
                to[i * step + j] = from[i * row + j * col];                                        \
    }                                                                                              \
    static void NAME##_turned(T *to, int64_t step, const T *from, int64_t col, int64_t rows,       \
                              int64_t cols)                                                        \
    {                                                                                              \
        int64_t whole = rows - rows % BLOCK, wide = cols - cols % BLOCK;                           \
        for (int64_t j = 0; j < wide; j += BLOCK)                                                  \
            for (int64_t i = 0; i < whole; i += BLOCK)                                             \
                turn_##NAME(to + i * step + j, step, from + i + j * col, col);                     \
        NAME##_one(to + wide, step, from + wide * col, 1, col, whole, cols - wide);                \
        NAME##_one(to + whole * step, step, from + whole, 1, col, rows - whole, cols);             \
    }                                                                                              \
    static void NAME##_copy(T *to, int64_t step, const T *from, int64_t row, int64_t col,          \
                            int64_t rows, int64_t cols)                                            \
    {                                                                                              \
        if (col == 1)                                                                              \
            for (int64_t i = 0; i < rows; i++)                                                     \
                memcpy(to + i * step, from + i * row, (size_t)cols * sizeof *to);                  \
        else if (row == 1)                                                                         \
            NAME##_turned(to, step, from, col, rows, cols);                                        \
        else                                                                                       \
            NAME##_one(to, step, from, row, col, rows, cols);                                      \
    }
COPY(float, f32, 4)
COPY(double, f64, 2)

static void copy(cr_dtype t, char *to, int64_t step, const char *from, int64_t row, int64_t col,
                 int64_t rows, int64_t cols)
{
    if (t == CR_F32)
        f32_copy((float *)(void *)to, step, (const float *)(const void *)from, row, col, rows, cols);
    else
        f64_copy((double *)(void *)to, step, (const double *)(const void *)from, row, col, rows, cols);
}

/* --- one block of columns and k --- */

typedef struct {
    const cr_gemm *g;
    const tile_kind *kind;
    size_t item;
    int64_t k0, k, j0, n;      /* the block */
    char *b;                   /* panels */
    bool in_place;             /* whole panels of b are read where they are */
    bool a_in_place;           /* and rows of a */
    int64_t row_block, row_blocks, column_block; /* the grid's cells */
    double alpha;
    bool add;
    _Atomic bool no_memory;
} block;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static char *panel_at(const block *w, int64_t j)
{
    return w->b + (size_t)(j / w->kind->cols * w->k * w->kind->cols) * w->item;
}

static void lay_out(void *context, int64_t begin, int64_t end)
{
    const block *w = context;
    const cr_matrix *b = &w->g->b;
    int64_t width = w->kind->cols;

    for (int64_t p = begin; p < end; p++) {
        int64_t j = p * width, cols = least(width, w->n - j);
        char *to = panel_at(w, j);
        if (w->in_place && cols == width)
            continue;
        if (cols < width)
            memset(to, 0, (size_t)(w->k * width) * w->item);
        copy(w->g->dtype, to, width,
             b->data + (size_t)(w->k0 * b->row + (w->j0 + j) * b->col) * w->item, b->row, b->col,
             w->k, cols);
    }
}

/* Rows [i, i + rows) of c, columns [j, end), from the copied rows of a. */
static void tiles(const block *w, const char *a, int64_t a_row, int64_t i, int64_t rows, int64_t j,
                  int64_t end)
{
    const cr_gemm *g = w->g;
    int64_t width = w->kind->cols, height = w->kind->rows;

    for (; j < end; j += width) {
        int64_t cols = least(width, w->n - j);
        bool here = w->in_place && cols == width;
        const char *b = here ? g->b.data + (size_t)(w->k0 * g->b.row + w->j0 + j) * w->item : panel_at(w, j);
        char *c = g->c.data + (size_t)(i * g->c.row + w->j0 + j) * w->item;
        for (int64_t r = 0; r < rows; r += height)
            w->kind->tile((int)least(height, rows - r), (int)cols, w->k, a + (size_t)(r * a_row) * w->item,
                          a_row, b, here ? g->b.row : width, c + (size_t)(r * g->c.row) * w->item, g->c.row,
                          w->alpha, w->add);
    }
}

/* The copy of rows i on, made when it is not the one that is there. */
static const char *rows_at(const block *w, char *rows, int64_t *copied, int64_t i, int64_t height)
{
    const cr_matrix *a = &w->g->a;
    const char *from = a->data + (size_t)(i * a->row + w->k0 * a->col) * w->item;

    if (w->a_in_place)
        return from;
    if (*copied != i)
        copy(w->g->dtype, rows, A_STEP, from, a->row, a->col, height, w->k);
    *copied = i;
    return rows;
}

static void cells(void *context, int64_t begin, int64_t end)
{
    block *w = context;
    int64_t copied = -1;
    char *rows = w->a_in_place ? NULL
                               : cr_aligned_alloc((size_t)(least(w->row_block, w->g->m) * A_STEP) * w->item);

    if (!rows && !w->a_in_place)
        w->no_memory = true;
    for (int64_t cell = begin; cell < end && !w->no_memory; cell++) {
        int64_t i = cell % w->row_blocks * w->row_block, j = cell / w->row_blocks * w->column_block;
        int64_t height = least(w->row_block, w->g->m - i);
        tiles(w, rows_at(w, rows, &copied, i, height), w->a_in_place ? w->g->a.row : A_STEP, i, height,
              j, least(j + w->column_block, w->n));
    }
    cr_aligned_free(rows);
}

/* Cells: as few copies of a as feed the threads. */
static void cut_grid(block *w)
{
    int64_t threads = w->g->m * w->n * w->k > 1 << 16 ? cr_threads() : 1;
    int64_t panels = (w->n + w->kind->cols - 1) / w->kind->cols, wide;

    w->row_block = ROW_BLOCK;
    if (w->g->m < ROW_BLOCK * threads && w->g->m >= 4 * w->kind->rows * threads) {
        int64_t each = (w->g->m + threads - 1) / threads;
        w->row_block = (each + w->kind->rows - 1) / w->kind->rows * w->kind->rows;
    }
    w->row_blocks = (w->g->m + w->row_block - 1) / w->row_block;
    wide = w->row_blocks >= threads ? 1 : (threads + w->row_blocks - 1) / w->row_blocks;
    w->column_block = (panels + wide - 1) / wide * w->kind->cols;
}

static cr_status run_block(block *w)
{
    int64_t panels = (w->n + w->kind->cols - 1) / w->kind->cols;
    int64_t work = w->g->m * w->n * w->k;

    cut_grid(w);
    cr_parallel_for(panels, 65536 / (w->k * w->kind->cols) + 1, lay_out, w);
    cr_parallel_for(w->row_blocks * ((w->n + w->column_block - 1) / w->column_block),
                    work > 1 << 16 ? 1 : INT64_MAX / 2, cells, w);
    return w->no_memory ? cr_fail(CR_MEMORY, "not enough memory for a matrix product") : CR_OK;
}

/* c times beta, unless that is 1; nothing for 0, when the first block overwrites. */
static void scale(const cr_gemm *g, double beta)
{
    for (int64_t i = 0; i < g->m && beta != 1 && beta != 0; i++)
        for (int64_t j = 0; j < g->n; j++) {
            if (g->dtype == CR_F32)
                ((float *)(void *)g->c.data)[i * g->c.row + j] *= (float)beta;
            else
                ((double *)(void *)g->c.data)[i * g->c.row + j] *= beta;
        }
}

/* --- vectors --- */

typedef struct {
    const cr_gemm *g;
    const tile_kind *kind;
    const char *matrix, *vector;
    int64_t step, vector_step; /* between the matrix's rows, the vector's elements */
    size_t item;
    bool dots;
} vector_job;

static void vector_range(void *context, int64_t begin, int64_t end)
{
    const vector_job *w = context;
    const cr_gemm *g = w->g;
    double alpha = cr_scalar_as_double(g->alpha), beta = cr_scalar_as_double(g->beta);
    char *out = g->c.data + (size_t)begin * w->item;

    if (w->dots)
        w->kind->dots(end - begin, g->k, w->matrix + (size_t)(begin * w->step) * w->item, w->step,
                      w->vector, out, alpha, beta);
    else
        w->kind->combine(end - begin, g->k, w->vector, w->vector_step,
                         w->matrix + (size_t)begin * w->item, w->step, out, alpha, beta);
}

/* A product with a vector whose result is dense, when one of the two loops fits: sets *done. */
static cr_status try_vector(const cr_gemm *g, bool *done)
{
    bool column = g->n == 1;
    const cr_matrix *m = column ? &g->a : &g->b, *v = column ? &g->b : &g->a;
    int64_t count = column ? g->m : g->n, v_step = column ? v->row : v->col;
    int64_t step = column ? m->row : m->col, along = column ? m->col : m->row;
    vector_job w = {g, kind_of(g->dtype), m->data, v->data, step, v_step, cr_dtype_size(g->dtype), true};
    void *copied = NULL;

    *done = (g->m == 1 || (column && g->c.row == 1)) && (along == 1 || step == 1 || g->k == 1);
    if (!*done)
        return CR_OK;
    w.dots = along == 1;
    if (!w.dots)
        w.step = along;
    if (w.dots && v_step != 1) {
        copied = cr_aligned_alloc((size_t)g->k * w.item);
        if (!copied)
            return CR_MEMORY;
        copy(g->dtype, copied, g->k, v->data, 0, v_step, 1, g->k);
        w.vector = copied;
    }
    cr_parallel_for(count, 131072 / g->k + 32, vector_range, &w);
    cr_aligned_free(copied);
    return CR_OK;
}

cr_status cr_gemm_tiled(const cr_gemm *g)
{
    double beta = cr_scalar_as_double(g->beta);
    block w = {.g = g, .kind = kind_of(g->dtype), .item = cr_dtype_size(g->dtype),
               .alpha = cr_scalar_as_double(g->alpha)};
    int64_t panels = (least(g->n, COLUMN_BLOCK) + w.kind->cols - 1) / w.kind->cols;
    size_t bytes = (size_t)(panels * w.kind->cols * least(g->k, K_BLOCK)) * w.item;
    _Alignas(64) char small[SMALL_BYTES];
    void *owned = NULL;
    bool done = false;
    cr_status st = CR_OK;

    if (g->m == 1 || g->n == 1)
        CR_TRY(try_vector(g, &done));
    if (done)
        return CR_OK;
    /* Few columns read a row a few times only; rows a page apart would share cache sets. */
    w.a_in_place = g->a.col == 1 && g->n <= 8 * w.kind->cols && (size_t)g->a.row * w.item % 4096;
    /* Few rows read a panel a few times only: not worth moving it. */
    w.in_place = g->b.col == 1 && g->m <= 10 * w.kind->rows &&
                 (size_t)(g->k * g->b.row) * w.item <= IN_PLACE_BYTES;
    if (bytes > sizeof small && !(owned = cr_aligned_alloc(bytes)))
        return CR_MEMORY;
    w.b = owned ? owned : small;
    scale(g, beta);
    for (w.j0 = 0; w.j0 < g->n && !st; w.j0 += COLUMN_BLOCK)
        for (w.k0 = 0; w.k0 < g->k && !st; w.k0 += K_BLOCK) {
            w.n = least(COLUMN_BLOCK, g->n - w.j0);
            w.k = least(K_BLOCK, g->k - w.k0);
            w.add = w.k0 > 0 || beta != 0;
            st = run_block(&w);
        }
    cr_aligned_free(owned);
    return st;
}
