/* Order P in the prebuilt kernels of every instruction set that the processor has, against
 * the model of num/order_model.h, in bits. */
#include "base/test.h"
#include "jit/generated.h"
#include "num/order_model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 70000, COLUMNS = 37 };

static const int64_t lengths[] = {1,    3,    5,    63,   64,   65,    127,
                                  1023, 1024, 1025, 2049, 3073, 4097,  5121,
                                  6145, 7169, 8191, 8192, 8193, 16385, LONGEST};
static const int64_t heights[] = {1,   2,   3,   5,   63,  64,  65,  128,
                                  129, 193, 257, 321, 385, 449, 511, 512};

static cr_kernel kernel_of(const char *name, cr_dtype t, cr_form form, cr_isa isa)
{
    const cr_op *op = cr_ops_find(name);

    for (int i = 0; i < cr_kernel_table_count; i++) {
        const cr_kernel_entry *e = &cr_kernel_table[i];
        if (e->op == op->index && e->dtype == t && e->form == (uint8_t)form)
            return e->fn[isa];
    }
    return NULL;
}

static double element(int64_t i, bool product)
{
    return product ? 1 + sin((double)i) / 64 : sin((double)i) * 100;
}

#define DEFINE_CHECKS(T, DTYPE)                                                                \
    static void check_rows_##T(cr_isa isa, bool product)                                       \
    {                                                                                          \
        cr_kernel k = kernel_of(product ? "_prod" : "sum", DTYPE, CR_FORM_MAIN, isa);          \
        T *x = malloc((LONGEST + 3) * sizeof *x), y[3], want;                                  \
        static const char none[CR_PARAM_BYTES * 4];                                            \
        for (int64_t i = 0; i < LONGEST + 3; i++)                                              \
            x[i] = (T)element(i, product);                                                     \
        for (size_t n = 0; n < CR_LEN(lengths); n++) {                                         \
            int64_t stride[4] = {sizeof *x, 0, sizeof *x, sizeof *x};                          \
            k((void *[2]){y, x}, stride, (int64_t[2]){3, lengths[n]}, none);                   \
            for (int r = 0; r < 3; r++) {                                                      \
                want = model_row_##T(product, x + r, lengths[n]);                              \
                cr_test_compared();                                                            \
                if (memcmp(&y[r], &want, sizeof want))                                         \
                    cr_test_failed(__FILE__, __LINE__, "%s: row of %lld: %a, not %a",          \
                                   cr_isa_name(isa), (long long)lengths[n], (double)y[r],      \
                                   (double)want);                                              \
            }                                                                                  \
        }                                                                                      \
        free(x);                                                                               \
    }                                                                                          \
    static void check_columns_##T(cr_isa isa, bool product)                                    \
    {                                                                                          \
        cr_kernel k = kernel_of(product ? "_prod" : "sum", DTYPE, CR_FORM_COLUMNS, isa);       \
        T *x = malloc(CR_FOLD_COLUMN * COLUMNS * sizeof *x), y[COLUMNS];                       \
        T column[CR_FOLD_COLUMN], want;                                                        \
        static const char none[CR_PARAM_BYTES * 4];                                            \
        for (int64_t i = 0; i < CR_FOLD_COLUMN * COLUMNS; i++)                                 \
            x[i] = (T)element(i, product);                                                     \
        for (size_t n = 0; n < CR_LEN(heights); n++) {                                         \
            int64_t stride[4] = {0, sizeof *x, COLUMNS * sizeof *x, sizeof *x};                \
            k((void *[2]){y, x}, stride, (int64_t[2]){heights[n], COLUMNS}, none);             \
            for (int c = 0; c < COLUMNS; c++) {                                                \
                for (int64_t r = 0; r < heights[n]; r++)                                       \
                    column[r] = x[r * COLUMNS + c];                                            \
                want = model_column_##T(product, column, heights[n]);                          \
                cr_test_compared();                                                            \
                if (memcmp(&y[c], &want, sizeof want))                                         \
                    cr_test_failed(__FILE__, __LINE__, "%s: column of %lld: %a, not %a",       \
                                   cr_isa_name(isa), (long long)heights[n], (double)y[c],      \
                                   (double)want);                                              \
            }                                                                                  \
        }                                                                                      \
        free(x);                                                                               \
    }
DEFINE_CHECKS(float, CR_F32)
DEFINE_CHECKS(double, CR_F64)

static void install(void)
{
    static bool done;

    if (!done)
        OK(cr_generated_install());
    done = true;
}

TEST(kernels_fold_rows_in_order_p_on_every_instruction_set)
{
    install();
    for (int isa = 0; isa <= (int)cr_isa_chosen(); isa++)
        for (int product = 0; product < 2; product++) {
            check_rows_float((cr_isa)isa, product);
            check_rows_double((cr_isa)isa, product);
        }
}

TEST(kernels_fold_columns_in_order_p_on_every_instruction_set)
{
    install();
    for (int isa = 0; isa <= (int)cr_isa_chosen(); isa++)
        for (int product = 0; product < 2; product++) {
            check_columns_float((cr_isa)isa, product);
            check_columns_double((cr_isa)isa, product);
        }
}

/* The extreme of zeros is +0.0 for any position of a +0.0, and without one. */
TEST(an_extreme_that_is_zero_has_no_sign)
{
    static const char none[CR_PARAM_BYTES * 4];

    install();
    for (int isa = 0; isa <= (int)cr_isa_chosen(); isa++)
        for (int at = 0; at < 100; at++) {
            float x[100], y = 1;
            cr_kernel k =
                kernel_of(at % 2 ? "amax" : "amin", CR_F32, CR_FORM_MAIN, (cr_isa)isa);
            for (int i = 0; i < 100; i++)
                x[i] = i == at && at > 1 ? 0.0f : -0.0f;
            k((void *[2]){&y, x}, (int64_t[4]){4, 0, 400, 4}, (int64_t[2]){1, 100}, none);
            CHECK(y == 0 && !signbit(y));
        }
}

typedef struct {
    double re, im;
} pair;

static pair times(pair a, pair b)
{
    return (pair){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* gcc 12 made fused multiply-adds of the tree, in spite of -ffp-contract=off. */
TEST(complex_products_are_rounded_before_they_are_added)
{
    static const char none[CR_PARAM_BYTES * 4];
    int64_t stride[4] = {sizeof(pair), 0, sizeof(pair), sizeof(pair)};
    pair x[66], y;

    install();
    for (int i = 0; i < 66; i++)
        x[i] = (pair){cos(i) + 0.1, sin(i)};
    for (int isa = 0; isa <= (int)cr_isa_chosen(); isa++)
        for (int i = 0; i + 3 <= 66; i++) {
            pair want = times(times(x[i], x[i + 2]), x[i + 1]);
            kernel_of("_prod", CR_C128, CR_FORM_MAIN,
                      (cr_isa)isa)((void *[2]){&y, x + i}, stride, (int64_t[2]){1, 3}, none);
            EQ(memcmp(&y, &want, sizeof y), 0);
        }
}
