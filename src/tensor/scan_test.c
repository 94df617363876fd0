/* Running sums and products against the order's model, in bits; running extremes. */
#include "base/test.h"
#include "num/order_model.h"
#include "tensor/tensor.h"
#include <math.h>
#include <stdlib.h>

static const int64_t lengths[] = {1, 15, 16, 17, 255, 256, 257, 1000, 70000};

static cr_tensor *matrix(int64_t rows, int64_t columns)
{
    cr_tensor *t = NULL;

    OK(cr_tensor_start());
    OK(cr_tensor_new(&t, CR_F32, CR_HOST, 2, (int64_t[]){rows, columns}));
    return t;
}

static cr_tensor *scanned(const char *name, cr_tensor *x, int dim)
{
    cr_value arg[] = {cr_of_tensor(x), cr_of_int(dim), {.tag = CR_NONE}}, result = {0};

    OK(cr_call_named(name, arg, 3, &result));
    return result.t;
}

/* x[i][j] of `lines` lines, scanned along dim 0 or 1 of a row-major matrix. */
static void check_lines(int64_t n, int64_t lines, bool along_rows, bool product)
{
    int64_t step = along_rows ? 1 : lines, line = along_rows ? n : 1;
    cr_tensor *t = along_rows ? matrix(lines, n) : matrix(n, lines);
    float *x = (void *)t->address, *one = malloc((size_t)n * sizeof *one);
    double *want = malloc((size_t)n * sizeof *want);

    for (int64_t i = 0; i < n * lines; i++)
        x[i] = product ? 1 + sinf((float)i) / 1024 : sinf((float)i) * 100;
    cr_tensor *made = scanned(product ? "cumprod" : "cumsum", t, along_rows);
    const float *y = (const void *)made->address;
    for (int64_t k = 0; k < lines; k++) {
        for (int64_t i = 0; i < n; i++)
            one[i] = x[k * line + i * step];
        model_scan_float(product, one, want, n);
        cr_test_compared();
        for (int64_t i = 0; i < n; i++)
            if (y[k * line + i * step] != (float)want[i]) {
                cr_test_failed(__FILE__, __LINE__,
                               "line %lld of %lld, element %lld: %a, not %a", (long long)k,
                               (long long)n, (long long)i, (double)y[k * line + i * step],
                               want[i]);
                break;
            }
    }
    cr_drop(made);
    cr_drop(t);
    free(one);
    free(want);
}

TEST(lines_are_scanned_in_order_p)
{
    for (size_t k = 0; k < CR_LEN(lengths); k++)
        for (int way = 0; way < 4; way++) {
            check_lines(lengths[k], 1, way & 1, way & 2);
            check_lines(lengths[k], 6, way & 1, way & 2);
            check_lines(lengths[k], 35, way & 1, way & 2);
        }
}

TEST(sums_of_floats_do_not_drift)
{
    enum { N = 100000 };
    cr_tensor *t = matrix(1, N);

    for (int i = 0; i < N; i++)
        ((float *)(void *)t->address)[i] = 0.1f;
    cr_tensor *made = scanned("cumsum", t, 1);
    NEAR(((float *)(void *)made->address)[N - 1], N * (double)0.1f, 1e-3);
    cr_drop(made);
    cr_drop(t);
}

TEST(running_extremes_keep_the_last_of_equals_and_the_nan)
{
    static const float x[] = {1, 1, 0, NAN, 5};
    static const int64_t want[] = {0, 1, 1, 3, 3};
    cr_tensor *t = matrix(1, 5);
    cr_value arg[] = {cr_of_tensor(t), cr_of_int(1)}, result[2];

    memcpy(t->address, x, sizeof x);
    OK(cr_call_named("cummax", arg, 2, result));
    CHECK(!memcmp(result[1].t->address, want, sizeof want));
    CHECK(isnan(((float *)(void *)result[0].t->address)[4]));
    cr_drop_values(result, 2);
    cr_drop(t);
}
