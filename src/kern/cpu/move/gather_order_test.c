/* Entries of one destination are folded as a column of the order's model, then combined with
 * it. */
#include "kern/cpu/move/gather.h"
#include "kern/cpu/test_views.h"
#include "num/order_model.h"
#include <math.h>

enum { ROWS = 3 };

static const int64_t counts[] = {1, 2, 3, 4, 5, 63, 64, 65, 127, 500, 512, 513, 1025, 100000};

/* Entry i goes to row i % 5 % 3, so that rows 0 and 1 have two fifths each, row 2 one. */
static int64_t row_of(int64_t i) { return i % 5 % ROWS; }

static float entry(int64_t i, int64_t column, bool half)
{
    float x = sinf((float)(i * 7 + column)) * 100;

    return half ? cr_bfloat_to_float(cr_float_to_bfloat(x)) : x;
}

/* The expected value of element (row, column), which starts as `start`. */
static float folded(int64_t n, int64_t row, int64_t column, float start, bool half)
{
    float *x = malloc((size_t)(n + 1) * sizeof *x), sum;
    int64_t found = 0;

    for (int64_t i = 0; i < n; i++)
        if (row_of(i) == row)
            x[found++] = entry(i, column, half);
    sum = found ? start + model_column_float(false, x, found) : start;
    free(x);
    return half ? cr_bfloat_to_float(cr_float_to_bfloat(sum)) : sum;
}

typedef struct {
    cr_dtype dtype;
    int64_t n, columns;
    char *source, *self, *out;
    int64_t *index; /* a row for each entry; for scatters, one for each element */
} writing;

static float element(const writing *w, const char *at, int64_t i)
{
    return w->dtype == CR_F32 ? ((const float *)(const void *)at)[i]
                              : cr_bfloat_to_float(((const uint16_t *)(const void *)at)[i]);
}

static void put(const writing *w, char *at, int64_t i, float x)
{
    cr_scalar_store(cr_scalar_float((double)x), w->dtype,
                    at + i * (int64_t)cr_dtype_size(w->dtype));
}

static void lay_out(writing *w)
{
    int64_t size = w->n * w->columns, item = (int64_t)cr_dtype_size(w->dtype);

    w->source = malloc((size_t)(size * item));
    w->self = malloc((size_t)(ROWS * w->columns * item));
    w->out = malloc((size_t)(ROWS * w->columns * item));
    w->index = malloc((size_t)size * sizeof *w->index);
    for (int64_t i = 0; i < size; i++)
        put(w, w->source, i, entry(i / w->columns, i % w->columns, w->dtype == CR_BF16));
    for (int64_t i = 0; i < ROWS * w->columns; i++)
        put(w, w->self, i, (float)i + 0.5f);
}

static void check_and_tidy(writing *w)
{
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < w->columns; c++) {
            float want =
                folded(w->n, r, c, (float)(r * w->columns + c) + 0.5f, w->dtype == CR_BF16);
            float got = element(w, w->out, r * w->columns + c);
            cr_test_compared();
            if (memcmp(&got, &want, sizeof got))
                cr_test_failed(__FILE__, __LINE__, "%lld entries, row %lld: %a, not %a",
                               (long long)w->n, (long long)r, (double)got, (double)want);
        }
    free(w->source);
    free(w->self);
    free(w->out);
    free(w->index);
}

static void check_index_add(int64_t n, int64_t columns, cr_dtype t)
{
    writing w = {.dtype = t, .n = n, .columns = columns};

    lay_out(&w);
    for (int64_t i = 0; i < n; i++)
        w.index[i] = row_of(i);
    OK(test_add_at(VIEW(w.out, t, ROWS, columns), VIEW(w.self, t, ROWS, columns),
                   VIEW(w.index, CR_I64, n), VIEW(w.source, t, n, columns)));
    check_and_tidy(&w);
}

static void check_scatter_add(int64_t n, int64_t columns)
{
    writing w = {.dtype = CR_F32, .n = n, .columns = columns};

    lay_out(&w);
    for (int64_t i = 0; i < n * columns; i++)
        w.index[i] = row_of(i / columns);
    OK(test_add_at(VIEW(w.out, CR_F32, ROWS, columns), VIEW(w.self, CR_F32, ROWS, columns),
                   VIEW(w.index, CR_I64, n, columns), VIEW(w.source, CR_F32, n, columns)));
    check_and_tidy(&w);
}

TEST(rows_added_by_index_are_columns_in_order_p)
{
    for (size_t k = 0; k < CR_LEN(counts); k++) {
        check_index_add(counts[k], 1, CR_F32);
        check_index_add(counts[k], 37, CR_F32);
        check_index_add(counts[k], 64, CR_F32);
    }
}

TEST(half_types_are_folded_in_float_and_rounded_once)
{
    for (size_t k = 0; k < CR_LEN(counts); k++) {
        check_index_add(counts[k], 1, CR_BF16);
        check_index_add(counts[k], 40, CR_BF16);
    }
}

TEST(scattered_elements_are_columns_in_order_p)
{
    for (size_t k = 0; k < CR_LEN(counts); k++) {
        check_scatter_add(counts[k], 1);
        check_scatter_add(counts[k], 5);
        check_scatter_add(counts[k] % 1025, 100);
    }
}

/* Enough destinations that entries are sorted by tile; every fifth entry is for the last. */
TEST(elements_scattered_over_a_long_line_are_columns_in_order_p)
{
    enum { N = 60000, RANGE = 200000, HOT = 5 };
    float *x = malloc(N * sizeof *x), *hot = malloc(N / HOT * sizeof *hot), want;
    float *self = calloc(RANGE, sizeof *self), *out = malloc(RANGE * sizeof *out);
    int64_t *index = malloc(N * sizeof *index);

    for (int64_t i = 0; i < N; i++) {
        x[i] = entry(i, 0, false);
        index[i] = i % HOT ? i * 3 : RANGE - 1;
        if (i % HOT == 0)
            hot[i / HOT] = x[i];
    }
    OK(test_add_at(VIEW(out, CR_F32, RANGE), VIEW(self, CR_F32, RANGE), VIEW(index, CR_I64, N),
                   VIEW(x, CR_F32, N)));
    for (int64_t i = 0; i < N; i++)
        if (i % HOT)
            CHECK(!memcmp(&out[i * 3], &x[i], sizeof *x));
    want = model_column_float(false, hot, N / HOT);
    CHECK(!memcmp(&out[RANGE - 1], &want, sizeof want));
    free(x);
    free(hot);
    free(self);
    free(out);
    free(index);
}

/* Destinations that are far apart are found by hashing. */
TEST(an_embeddings_gradient_is_a_column_in_order_p)
{
    enum { N = 300, TABLE = 100000, WIDTH = 6 };
    float *grad = malloc(N * WIDTH * sizeof *grad), *out = malloc(TABLE * WIDTH * sizeof *out);
    int64_t index[N];

    for (int64_t i = 0; i < N; i++) {
        index[i] = row_of(i) * 49999;
        for (int64_t c = 0; c < WIDTH; c++)
            grad[i * WIDTH + c] = entry(i, c, false);
    }
    OK(cr_kern_embedding_backward(ARGS(of_view(VIEW(grad, CR_F32, N, WIDTH)),
                                       of_view(VIEW(index, CR_I64, N)), cr_of_int(TABLE),
                                       cr_of_int(2 * 49999), cr_of_bool(false)),
                                  VIEW(out, CR_F32, TABLE, WIDTH)));
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < WIDTH; c++) {
            float want = r == 2 ? 0 : folded(N, r, c, 0, false);
            CHECK(!memcmp(&out[r * 49999 * WIDTH + c], &want, sizeof want));
        }
    free(grad);
    free(out);
}
