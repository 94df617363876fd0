/* The product of a sparse matrix, given as rows, columns and values, and a dense matrix.
 *
 * Items are put in the order of their rows, those of one row in the given order.  Each row of
 * the result is the sum over its items, in that order, so the bits do not depend on the number
 * of threads. */
#include "base/memory.h"
#include "base/parallel.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/walk.h"
#include <string.h>

typedef struct {
    const int64_t *start, *item; /* items of row r: item[start[r]] ... item[start[r + 1] - 1] */
    const int64_t *column;
    const void *value, *dense;
    void *out;
    int64_t width;
} sparse_rows;

#define SPARSE_ROWS(suffix, type)                                                              \
    static void sparse_rows_##suffix(void *context, int64_t begin, int64_t end)                \
    {                                                                                          \
        const sparse_rows *s = context;                                                        \
                                                                                               \
        for (int64_t r = begin; r < end; r++) {                                                \
            type *restrict out = (type *)s->out + r * s->width;                                \
            for (int64_t i = s->start[r]; i < s->start[r + 1]; i++) {                          \
                const type *restrict from =                                                    \
                    (const type *)s->dense + s->column[s->item[i]] * s->width;                 \
                type v = ((const type *)s->value)[s->item[i]];                                 \
                CR_SIMD                                                                        \
                for (int64_t k = 0; k < s->width; k++)                                         \
                    out[k] += (type)(v * from[k]);                                             \
            }                                                                                  \
        }                                                                                      \
    }

SPARSE_ROWS(f32, float)
SPARSE_ROWS(f64, double)
SPARSE_ROWS(i8, int8_t)
SPARSE_ROWS(u8, uint8_t)
SPARSE_ROWS(i16, int16_t)
SPARSE_ROWS(i32, uint32_t) /* unsigned, because sums wrap */
SPARSE_ROWS(i64, uint64_t)

/* Complex numbers: v times from[k], without C's treatment of infinities. */
#define SPARSE_COMPLEX_ROWS(suffix, type)                                                      \
    static void sparse_rows_##suffix(void *context, int64_t begin, int64_t end)                \
    {                                                                                          \
        const sparse_rows *s = context;                                                        \
                                                                                               \
        for (int64_t r = begin; r < end; r++) {                                                \
            type *out = (type *)s->out + 2 * r * s->width;                                     \
            for (int64_t i = s->start[r]; i < s->start[r + 1]; i++) {                          \
                const type *from =                                                             \
                    (const type *)s->dense + 2 * s->column[s->item[i]] * s->width;             \
                const type *v = (const type *)s->value + 2 * s->item[i];                       \
                for (int64_t k = 0; k < 2 * s->width; k += 2) {                                \
                    out[k] += v[0] * from[k] - v[1] * from[k + 1];                             \
                    out[k + 1] += v[0] * from[k + 1] + v[1] * from[k];                         \
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
    }

SPARSE_COMPLEX_ROWS(c64, float)
SPARSE_COMPLEX_ROWS(c128, double)

typedef void (*sparse_rows_fn)(void *context, int64_t begin, int64_t end);

static sparse_rows_fn sparse_rows_of(cr_dtype dtype)
{
    switch (dtype) {
    case CR_F32: return sparse_rows_f32;
    case CR_F64: return sparse_rows_f64;
    case CR_I8: return sparse_rows_i8;
    case CR_U8: return sparse_rows_u8;
    case CR_I16: return sparse_rows_i16;
    case CR_I32: return sparse_rows_i32;
    case CR_I64: return sparse_rows_i64;
    case CR_C64: return sparse_rows_c64;
    case CR_C128: return sparse_rows_c128;
    default: return NULL;
    }
}

static cr_status sparse_check(const int64_t *index, int64_t n, int64_t size, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= size)
            return cr_fail(CR_RUNTIME, "%s index %lld is out of bounds for size %lld", what,
                           (long long)index[i], (long long)size);
    return CR_OK;
}

/* Puts the items in the order of their rows: start[r] becomes the end of row r - 1. */
static void sparse_order(int64_t *start, int64_t *item, const int64_t *row, int64_t n,
                         int64_t rows)
{
    for (int64_t i = 0; i < n; i++)
        start[row[i] + 2]++;
    for (int64_t r = 2; r < rows + 2; r++)
        start[r] += start[r - 1];
    for (int64_t i = 0; i < n; i++)
        item[start[row[i] + 1]++] = i;
}

/* The same for items that are in the order of their rows. */
static void sparse_take_starts(int64_t *start, int64_t *item, const int64_t *row, int64_t n,
                               int64_t rows)
{
    memcpy(start, row, (size_t)(rows + 1) * sizeof *start);
    for (int64_t i = 0; i < n; i++)
        item[i] = i;
}

/* Whether `start` has the starts of the rows of n items. */
static cr_status sparse_check_starts(const cr_view *starts, int64_t n, int64_t rows)
{
    const int64_t *start = (const int64_t *)(void *)starts->data;
    bool good = starts->size[0] == rows + 1 && start[0] == 0 && start[rows] == n;

    for (int64_t r = 0; good && r < rows; r++)
        good = start[r] <= start[r + 1];
    return good ? CR_OK : cr_fail(CR_RUNTIME, "the starts of rows do not fit the values");
}

/* (values, rows, columns, dense, m, starts): the vectors and dense are row-major */
cr_status cr_kern_sparse_product(const cr_value *arg, cr_view *out)
{
    const cr_view *values = arg[0].view, *dense = arg[3].view;
    const int64_t *row = (const int64_t *)(void *)arg[1].view->data;
    const int64_t *column = (const int64_t *)(void *)arg[2].view->data;
    int64_t n = values->size[0], rows = out->size[0], width = out->size[1];
    sparse_rows_fn run = sparse_rows_of((cr_dtype)out->dtype);

    for (int i = 0; i < 4; i++)
        if (!cr_view_is_contiguous(arg[i].view))
            return cr_fail(CR_RUNTIME, "expected row-major tensors");
    if (!run)
        return cr_fail(CR_NOT_IMPLEMENTED, "\"addmm_sparse_dense\" not implemented for '%s'",
                       cr_dtype_infos[out->dtype].legacy);
    if (arg[5].i)
        CR_TRY(sparse_check_starts(arg[1].view, n, rows));
    else
        CR_TRY(sparse_check(row, n, rows, "row"));
    CR_TRY(sparse_check(column, n, dense->size[0], "column"));
    if (!rows || !width)
        return CR_OK;
    int64_t *start = rows < INT64_MAX / 32 && n < INT64_MAX / 32
                         ? cr_alloc_zero((size_t)(rows + 2 + n) * sizeof *start)
                         : NULL;
    CR_NEED(start);
    if (arg[5].i)
        sparse_take_starts(start, start + rows + 2, row, n, rows);
    else
        sparse_order(start, start + rows + 2, row, n, rows);
    cr_zero_view(out);
    sparse_rows s = {.start = start,
                     .item = start + rows + 2,
                     .column = column,
                     .value = values->data,
                     .dense = dense->data,
                     .out = out->data,
                     .width = width};
    int64_t work = rows ? n * width / rows + 1 : 1;
    if (width)
        cr_parallel_for(rows, 1 + 32768 / work, run, &s);
    cr_free(start);
    return CR_OK;
}
