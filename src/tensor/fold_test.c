/* Complete reductions have the model's order P for any number of dims and threads. */
#include "base/parallel.h"
#include "base/test.h"
#include "num/order_model.h"
#include "tensor/tensor.h"
#include <math.h>
#include <string.h>

static cr_tensor *numbers(int ndim, const int64_t *size)
{
    cr_tensor *t = NULL;

    OK(cr_tensor_start());
    OK(cr_tensor_new(&t, CR_F32, CR_HOST, ndim, size));
    for (int64_t i = 0; i < t->numel; i++)
        ((float *)(void *)t->address)[i] = sinf((float)i) * 100;
    return t;
}

static cr_tensor *sum(cr_tensor *t, const int64_t *dim, int n)
{
    cr_value arg[2] = {cr_of_tensor(t), cr_of_ints(dim, (size_t)n)}, result = cr_of_none();

    OK(cr_call_named("sum", arg, 2, &result));
    return result.t;
}

static void same(const cr_tensor *got, int64_t at, float want, int64_t n)
{
    float y = ((const float *)(const void *)got->address)[at];

    cr_test_compared();
    if (memcmp(&y, &want, sizeof y))
        cr_test_failed(__FILE__, __LINE__, "%lld elements, result %lld: %a, not %a",
                       (long long)n, (long long)at, (double)y, (double)want);
}

static const int64_t lengths[] = {0,    1,    63,   64,   65,   511,  512,   513,
                                  1023, 1024, 1025, 8191, 8192, 8193, 33000, 70000};

TEST(rows_of_every_length_are_summed_in_order_p)
{
    for (size_t k = 0; k < CR_LEN(lengths); k++) {
        int64_t n = lengths[k], size[2] = {3, n}, last = 1;
        cr_tensor *t = numbers(2, size), *s = sum(t, &last, 1);
        for (int64_t r = 0; r < 3; r++)
            same(s, r, model_row_float(false, (const float *)(void *)t->address + r * n, n), n);
        cr_drop(s);
        cr_drop(t);
    }
}

static float column_of(const cr_tensor *t, int64_t first, int64_t step, int64_t n)
{
    float *column = malloc((size_t)(n + 1) * sizeof *column), result;

    for (int64_t i = 0; i < n; i++)
        column[i] = ((const float *)(const void *)t->address)[first + i * step];
    result = model_column_float(false, column, n);
    free(column);
    return result;
}

TEST(columns_of_every_length_are_summed_in_order_p)
{
    for (size_t k = 0; k < CR_LEN(lengths); k++) {
        int64_t n = lengths[k], size[2] = {n, 5}, first = 0;
        cr_tensor *t = numbers(2, size), *s = sum(t, &first, 1);
        for (int64_t c = 0; c < 5; c++)
            same(s, c, n ? column_of(t, c, 5, n) : 0, n);
        cr_drop(s);
        cr_drop(t);
    }
}

/* The dims [300, 7, 90]: rows along the last dim, then columns of their results. */
TEST(of_several_dims_the_fastest_is_folded_first)
{
    int64_t size[3] = {300, 7, 90}, both[2] = {0, 2}, n = 300;
    cr_tensor *t = numbers(3, size), *s = sum(t, both, 2),
              *rows = numbers(2, (int64_t[2]){300, 7});

    for (int64_t i = 0; i < 300 * 7; i++)
        ((float *)(void *)rows->address)[i] =
            model_row_float(false, (const float *)(void *)t->address + i * 90, 90);
    for (int64_t c = 0; c < 7; c++)
        same(s, c, column_of(rows, c, 7, n), n);
    cr_drop(rows);
    cr_drop(s);
    cr_drop(t);
}

/* Neighbours that are both reduced are one column: [40, 50, 6] over the first two. */
TEST(neighbouring_dims_are_one_column)
{
    int64_t size[3] = {40, 50, 6}, both[2] = {0, 1};
    cr_tensor *t = numbers(3, size), *s = sum(t, both, 2);

    for (int64_t c = 0; c < 6; c++)
        same(s, c, column_of(t, c, 6, 2000), 2000);
    cr_drop(s);
    cr_drop(t);
}

/* Checks the indices of argmax or argmin along `dim`, or of all elements where `dim` is
 * NULL. */
static void same_indices(const char *name, cr_tensor *t, const int64_t *dim,
                         const int64_t *want, int64_t n)
{
    cr_value arg[2] = {cr_of_tensor(t), dim ? cr_of_int(*dim) : cr_of_none()};
    cr_value result = cr_of_none();

    OK(cr_call_named(name, arg, 2, &result));
    EQ(result.t->numel, n);
    EQ(memcmp(result.t->address, want, (size_t)n * sizeof *want), 0);
    cr_drop(result.t);
}

TEST(the_first_of_equal_extremes_counts_and_nan_beats_all)
{
    const float x[] = {1, 7, 7, 2, NAN, 9, NAN, 3};
    const int64_t size[2] = {2, 4}, first = 0, last = 1;
    cr_tensor *t = numbers(2, size);

    memcpy(t->address, x, sizeof x);
    same_indices("argmax", t, &last, (int64_t[]){1, 0}, 2);
    same_indices("argmax", t, &first, (int64_t[]){1, 1, 1, 1}, 4);
    same_indices("argmin", t, NULL, (int64_t[]){4}, 1);
    cr_drop(t);
}

TEST(a_long_dense_line_is_searched_to_its_end)
{
    const int64_t n = 200003;
    cr_tensor *t = numbers(1, &n);
    float *x = (float *)(void *)t->address;

    memset(x, 0, (size_t)n * sizeof *x);
    x[n - 1] = 1;
    same_indices("argmax", t, NULL, (int64_t[]){n - 1}, 1);
    x[70000] = NAN;
    same_indices("argmax", t, NULL, (int64_t[]){70000}, 1);
    cr_drop(t);
}
