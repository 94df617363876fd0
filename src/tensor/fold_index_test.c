/* Extremes with their indices: the first one counts, in every layout and number of threads. */
#include "base/parallel.h"
#include "base/test.h"
#include "tensor/tensor.h"
#include <math.h>

/* Values with many ties; a NaN in every 5,000 elements. */
static cr_tensor *numbers(int ndim, const int64_t *size)
{
    cr_tensor *t = NULL;

    OK(cr_tensor_start());
    OK(cr_tensor_new(&t, CR_F32, CR_HOST, ndim, size));
    for (int64_t i = 0; i < t->numel; i++)
        ((float *)(void *)t->address)[i] = i % 5000 == 4321 ? NAN : (float)(i * 7919 % 101);
    return t;
}

static const float *floats(const cr_tensor *t)
{
    return (const float *)(const void *)t->address;
}

static bool beyond(float x, float best) { return x > best || (isnan(x) && !isnan(best)); }

static int64_t first_extreme(const float *x, int64_t step, int64_t n)
{
    int64_t at = 0;

    for (int64_t i = 1; i < n; i++)
        if (beyond(x[i * step], x[at * step]))
            at = i;
    return at;
}

/* max(t, dim), compared along the lines that start at line * line_step. */
static void compare_lines(cr_tensor *t, int64_t dim, int64_t lines, int64_t line_step,
                          int64_t step, int64_t n)
{
    cr_value arg[3] = {cr_of_tensor(t), cr_of_int(dim), cr_of_bool(false)},
             result[2] = {cr_of_none(), cr_of_none()};

    OK(cr_call_named("max.dim", arg, 3, result));
    for (int64_t k = 0; k < lines; k++) {
        int64_t at = first_extreme(floats(t) + k * line_step, step, n);
        float want = floats(t)[k * line_step + at * step], have = floats(result[0].t)[k];
        EQ(((const int64_t *)(const void *)result[1].t->address)[k], at);
        CHECK(isnan(want) ? isnan(have) : have == want);
    }
    cr_drop_values(result, 2);
}

TEST(rows_and_columns_of_every_length_have_their_first_extreme)
{
    static const int64_t lengths[] = {1, 2, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025, 2100};

    for (size_t k = 0; k < CR_LEN(lengths); k++) {
        int64_t n = lengths[k], rows[2] = {5, n}, columns[2] = {n, 37};
        cr_tensor *t = numbers(2, rows), *u = numbers(2, columns);
        compare_lines(t, 1, 5, n, 1, n);
        compare_lines(u, 0, 37, 1, 37, n);
        cr_drop(t);
        cr_drop(u);
    }
}

TEST(a_long_row_has_the_same_extreme_on_every_number_of_threads)
{
    int64_t n = 3 * 65536 + 77, size[2] = {2, n};
    cr_tensor *t = numbers(2, size);

    for (int threads = 1; threads <= 3; threads++) {
        OK(cr_set_threads(threads));
        compare_lines(t, 1, 2, n, 1, n);
    }
    cr_drop(t);
}
