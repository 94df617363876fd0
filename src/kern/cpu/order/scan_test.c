/* Running sums and products against the order's model, in bits. */
#include "kern/cpu/test_views.h"
#include "num/order_model.h"
#include <math.h>

static const int64_t lengths[] = {1, 15, 16, 17, 255, 256, 257, 1000, 70000};

/* x[i][j] of `lines` lines, scanned along dim 0 or 1 of a row-major matrix. */
static void check_lines(int64_t n, int64_t lines, bool along_rows, bool product)
{
    int64_t rows = along_rows ? lines : n, columns = along_rows ? n : lines;
    int64_t step = along_rows ? 1 : lines, line = along_rows ? n : 1;
    float *x = malloc((size_t)(n * lines) * sizeof *x),
          *y = malloc((size_t)(n * lines) * sizeof *y);
    float *one = malloc((size_t)n * sizeof *one);
    double *want = malloc((size_t)n * sizeof *want);

    for (int64_t i = 0; i < n * lines; i++)
        x[i] = product ? 1 + sinf((float)i) / 1024 : sinf((float)i) * 100;
    cr_view *out = VIEW(y, CR_F32, rows, columns);
    const cr_value *arg = ARGS(of_view(VIEW(x, CR_F32, rows, columns)), cr_of_int(along_rows));
    OK(product ? cr_kern_cumprod(arg, out) : cr_kern_cumsum(arg, out));
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
    free(x);
    free(y);
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
