/* Pooling against the definition, and promises about NaN, ties and counts. */
#include "base/memory.h"
#include "base/test.h"
#include "kern/pool.h"
#include <math.h>
#include <stdlib.h>

static const cr_pool cases[] = {
    {3, {1, 5, 6}, {1, 2, 3}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, true, 0, false},
    {2, {1, 5, 6}, {1, 3, 4}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, false, 0, false},
    {2, {4, 5, 6}, {4, 5, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, true, 0, false},
    {2, {4, 5, 300}, {2, 2, 100}, {2, 3, 4}, {2, 2, 3}, {0, 1, 2}, {1, 1, 1}, true, 7, false},
    {3, {1, 7, 35}, {1, 3, 17}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, true, 0, false},
    {1, {1, 2, 1200}, {1, 1, 600}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, true, 0, false},
    {2, {1, 1, 9}, {1, 1, 3}, {1, 1, 3}, {1, 1, 3}, {0, 0, 0}, {1, 1, 1}, true, 0, false},
};

static float *numbers(int64_t n)
{
    float *x = cr_alloc((size_t)n * sizeof *x + 1);

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((i * 37 + 11) % 101) - 50.0f;
    return x;
}

static int64_t volume(const int64_t *s) { return s[0] * s[1] * s[2]; }

/* The window of one output: greatest value, its index, sum and count. */
typedef struct {
    double max, sum;
    int64_t where, in, all;
} window;

static window look(const cr_pool *p, const float *x, const int64_t *o)
{
    window w = {-(double)INFINITY, 0, -1, 0, 0};
    int64_t at[3], k[3];

    for (k[0] = 0; k[0] < p->kernel[0]; k[0]++)
        for (k[1] = 0; k[1] < p->kernel[1]; k[1]++)
            for (k[2] = 0; k[2] < p->kernel[2]; k[2]++) {
                bool in = true, all = true;
                for (int d = 0; d < 3; d++) {
                    at[d] = o[d] * p->stride[d] + k[d] * p->dilation[d] - p->pad[d];
                    in = in && at[d] >= 0 && at[d] < p->in[d];
                    all = all && at[d] < p->in[d] + p->pad[d];
                }
                w.all += all;
                if (!in)
                    continue;
                int64_t pos = (at[0] * p->in[1] + at[1]) * p->in[2] + at[2];
                w.in++;
                w.sum += (double)x[pos];
                if ((double)x[pos] > w.max)
                    w.max = (double)x[pos], w.where = pos;
            }
    return w;
}

static void check_case(const cr_pool *p)
{
    int64_t in = volume(p->in), out = volume(p->out), o[3], i = 0;
    float *x = numbers(p->planes * in), *y = numbers(p->planes * out),
          *z = numbers(p->planes * out);
    int64_t *index = cr_alloc((size_t)(p->planes * out) * sizeof *index);

    cr_pool_max(p, CR_F32, x, y, index);
    cr_pool_max(p, CR_F32, x, z, NULL);
    for (int64_t n = 0; n < p->planes * out; n++)
        NEAR(y[n], z[n], 0);
    cr_pool_average(p, CR_F32, x, z);
    for (int64_t plane = 0; plane < p->planes; plane++)
        for (o[0] = 0; o[0] < p->out[0]; o[0]++)
            for (o[1] = 0; o[1] < p->out[1]; o[1]++)
                for (o[2] = 0; o[2] < p->out[2]; o[2]++, i++) {
                    window w = look(p, x + plane * in, o);
                    double count = (double)(p->divisor     ? p->divisor
                                            : p->count_pad ? w.all
                                                           : w.in);
                    NEAR(y[i], w.max, 0);
                    EQ(index[i], w.where);
                    NEAR(z[i], w.sum / count, 1e-5);
                }
    cr_free(x), cr_free(y), cr_free(z), cr_free(index);
}

TEST(maxima_and_averages_agree_with_the_definition)
{
    for (size_t i = 0; i < CR_LEN(cases); i++)
        check_case(&cases[i]);
}

/* <A x, y> = <x, A' y>. */
TEST(spreading_is_the_transpose_of_averaging)
{
    for (size_t c = 0; c < 2 * CR_LEN(cases); c++) {
        cr_pool p = cases[c / 2];
        p.adaptive = c % 2;
        int64_t in = p.planes * volume(p.in), out = p.planes * volume(p.out);
        float *x = numbers(in), *y = numbers(out), *ax = numbers(out), *aty = numbers(in);
        double left = 0, right = 0;

        cr_pool_average(&p, CR_F32, x, ax);
        cr_pool_spread(&p, CR_F32, y, aty);
        for (int64_t i = 0; i < out; i++)
            left += (double)ax[i] * (double)y[i];
        for (int64_t i = 0; i < in; i++)
            right += (double)aty[i] * (double)x[i];
        NEAR(left, right, 1e-4 * fabs(left) + 1e-2);
        cr_free(x), cr_free(y), cr_free(ax), cr_free(aty);
    }
}

TEST(a_nan_wins_and_the_first_of_equals_is_taken)
{
    cr_pool p = {1,         {1, 1, 4}, {1, 1, 2}, {1, 1, 2}, {1, 1, 2},
                 {0, 0, 0}, {1, 1, 1}, true,      0,         false};
    float x[] = {NAN, 3, 5, 5}, y[2];
    int64_t index[2];

    cr_pool_max(&p, CR_F32, x, y, index);
    CHECK(isnan(y[0]));
    EQ(index[0], 0);
    NEAR(y[1], 5, 0);
    EQ(index[1], 2);
    p.adaptive = true;
    cr_pool_max(&p, CR_F32, x, y, index);
    CHECK(isnan(y[0]));
    EQ(index[1], 2);
}

/* Every order of four values, of which some are equal and some are NaN, in rows of 16. */
TEST(squares_choose_as_other_windows_do)
{
    static const float values[] = {1, 2, NAN, -INFINITY};
    enum { N = 256 };
    float x[4 * N], y[N];
    int64_t index[N];
    cr_pool p = {1,         {1, 2, 2 * N}, {1, 1, N}, {1, 2, 2}, {1, 2, 2},
                 {0, 0, 0}, {1, 1, 1},     true,      0,         false};

    for (int i = 0; i < N; i++)
        for (int k = 0; k < 4; k++)
            x[k / 2 * 2 * N + 2 * i + k % 2] = values[i >> 2 * k & 3];
    cr_pool_max(&p, CR_F32, x, y, index);
    for (int i = 0; i < N; i++) {
        int64_t best = 2 * i;
        for (int k = 1; k < 4; k++) {
            int64_t at = k / 2 * 2 * N + 2 * i + k % 2;
            best = x[at] > x[best] || isnan(x[at]) ? at : best;
        }
        EQ(index[i], best);
        CHECK(y[i] == x[best] || isnan(x[best]));
    }
}

TEST(minus_infinity_alone_still_has_a_position)
{
    cr_pool p = {1,         {1, 1, 4}, {1, 1, 2}, {1, 1, 2}, {1, 1, 2},
                 {0, 0, 0}, {1, 1, 1}, true,      0,         false};
    float x[] = {-INFINITY, -INFINITY, 1, -INFINITY}, y[2];
    int64_t index[2];

    cr_pool_max(&p, CR_F32, x, y, index);
    EQ(index[0], 0);
    EQ(index[1], 2);
}

TEST(an_index_outside_is_found)
{
    int64_t index[] = {0, 3, 4, -1};
    bool found;

    EQ(cr_pool_bad_index(index, 2, 4, &found), -1);
    CHECK(!found);
    EQ(cr_pool_bad_index(index, 4, 4, &found), 4);
    CHECK(found);
}
