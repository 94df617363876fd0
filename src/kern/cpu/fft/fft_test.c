/* Transforms of every small length against the definition. */
#include "base/memory.h"
#include "base/test.h"
#include "kern/cpu/fft/fft.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static cr_complex *numbers(int64_t n)
{
    cr_complex *x = cr_alloc((size_t)n * sizeof *x);

    for (int64_t i = 0; i < n; i++)
        x[i] = (cr_complex){(double)((i * 37 + 11) % 101) / 50 - 1,
                            (double)((i * 53 + 7) % 89) / 44 - 1};
    return x;
}

/* Greatest distance from the definition, over some outputs. */
static double wrongness(const cr_complex *x, const cr_complex *y, int64_t n, bool forward)
{
    double worst = 0;

    for (int64_t k = 0; k < n; k += 1 + n / 40) {
        double re = 0, im = 0;
        for (int64_t j = 0; j < n; j++) {
            double angle =
                (forward ? -2 : 2) * 3.14159265358979323846 * (double)(j * k % n) / (double)n;
            re += x[j].re * cos(angle) - x[j].im * sin(angle);
            im += x[j].re * sin(angle) + x[j].im * cos(angle);
        }
        worst = fmax(worst, hypot(re - y[k].re, im - y[k].im));
    }
    return worst;
}

static void check_length(int64_t n, bool forward)
{
    cr_complex *x = numbers(3 * n), *y = numbers(3 * n);
    cr_fft_plan *plan;
    void *scratch;

    OK(cr_fft_plan_new(&plan, CR_C128, n, forward));
    scratch = cr_alloc(cr_fft_scratch(plan, 3));
    OK(cr_fft_lines(plan, y, 1, n, 3, 1, scratch));
    cr_test_compared();
    for (int line = 0; line < 3; line++)
        if (!(wrongness(x + line * n, y + line * n, n, forward) < 1e-12 * (double)n + 1e-13))
            cr_test_failed(__FILE__, __LINE__, "length %lld, line %d", (long long)n, line);
    cr_free(x), cr_free(y), cr_free(scratch);
    cr_fft_plan_drop(plan);
}

TEST(every_length_agrees_with_the_definition)
{
    for (int64_t n = 1; n <= 140; n++)
        check_length(n, n % 2);
    check_length(1024, true);
    check_length(1009, true);
    check_length(1009, false);
    check_length(37 * 41, true);
    check_length(2310, false);
}

/* Lines that are matrices, with passes and by Bluestein. */
TEST(long_lengths_agree_with_the_definition)
{
    check_length(4100, false);
    check_length(5000, true);
    check_length(6561, false);
    check_length(8192, true);
    check_length(4099, true);
    check_length(10007, false);
    check_length(121 * 37, true);
    check_length(49 * 197, false);
    check_length(2 * 4099, true);
    check_length(7 * 11 * 13 * 17, true);
}

/* A real plan of odd length against the plan of all elements. */
static void check_real(int64_t n, bool forward)
{
    int64_t half = n / 2 + 1, given = forward ? half : n;
    cr_complex *x = numbers(n), *y = cr_alloc((size_t)n * sizeof *x);
    cr_fft_plan *all = NULL, *real = NULL;
    const void *turn;
    void *a, *b;

    for (int64_t k = 0; k < n; k++)
        if (forward || 2 * k > n || k == 0)
            x[k].im = 0;
    for (int64_t k = half; k < n && !forward; k++)
        x[k] = (cr_complex){0, 0};
    memcpy(y, x, (size_t)n * sizeof *x);
    for (int64_t k = half; k < n && !forward; k++)
        y[k] = (cr_complex){NAN, NAN};
    OK(cr_fft_plan_get(&all, CR_C128, n, forward));
    OK(cr_fft_real_get(&real, CR_C128, n, forward));
    EQ(cr_fft_half(real, &turn), NULL);
    a = cr_alloc(cr_fft_scratch(all, 1));
    b = cr_alloc(cr_fft_scratch(real, 1));
    OK(cr_fft_lines(all, x, 1, n, 1, 0.5, a));
    OK(cr_fft_lines(real, y, 1, n, 1, 0.5, b));
    for (int64_t k = 0; k < given; k++) {
        NEAR(y[k].re, x[k].re, 1e-10);
        NEAR(y[k].im, x[k].im, 1e-10);
    }
    cr_free(x), cr_free(y), cr_free(a), cr_free(b);
    cr_fft_plan_release(all);
    cr_fft_plan_release(real);
}

TEST(real_plans_of_odd_length_need_half_the_spectrum)
{
    static const int64_t lengths[] = {1, 3, 15, 37, 1009, 4099, 6561, 49 * 197, 10007};

    for (size_t i = 0; i < CR_LEN(lengths); i++) {
        check_real(lengths[i], true);
        check_real(lengths[i], false);
    }
}

TEST(float_transforms_there_and_back)
{
    static const int64_t lengths[] = {1, 2, 30, 64, 97, 243, 1000, 4096};

    for (size_t i = 0; i < CR_LEN(lengths); i++) {
        int64_t n = lengths[i];
        cr_complex_float *x = cr_alloc((size_t)n * sizeof *x);
        cr_fft_plan *there, *back;
        void *scratch;

        for (int64_t k = 0; k < n; k++)
            x[k] = (cr_complex_float){(float)(k % 7), (float)(k % 5)};
        OK(cr_fft_plan_get(&there, CR_C64, n, true));
        OK(cr_fft_plan_get(&back, CR_C64, n, false));
        scratch = cr_alloc(cr_fft_scratch(there, 1));
        OK(cr_fft_lines(there, x, 1, n, 1, 1, scratch));
        OK(cr_fft_lines(back, x, 1, n, 1, 1 / (double)n, scratch));
        for (int64_t k = 0; k < n; k++)
            NEAR(x[k].re, (double)(k % 7), 1e-5);
        cr_free(x), cr_free(scratch);
        cr_fft_plan_release(there);
        cr_fft_plan_release(back);
    }
}
