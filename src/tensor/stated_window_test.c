/* Folds of windows (pooling) against the definition: sizes, strides, padding, dilation; NaN,
 * ties, counts, transposes. */
#include "base/parallel.h"
#include "base/test.h"
#include "tensor/tensor.h"
#include <math.h>

enum { PLANES = 2 };

/* Pooling of planes of three dims. */
typedef struct {
    int64_t in[3], kernel[3], stride[3], pad[3], dilation[3];
    bool ceil, count_pad;
    int64_t divisor; /* 0: none */
} pooling;

static const pooling cases[] = {
    {{1, 5, 6}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, false, true, 0},
    {{1, 5, 6}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, false, false, 0},
    {{4, 5, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, false, true, 0},
    {{4, 5, 6}, {2, 2, 3}, {1, 2, 1}, {1, 0, 1}, {2, 3, 2}, false, true, 0},
    {{4, 5, 300}, {2, 3, 4}, {2, 2, 3}, {0, 1, 2}, {1, 1, 1}, true, true, 7},
    {{1, 7, 35}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, true, false, 0},
    {{1, 2, 1200}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, false, true, 0},
    {{1, 1, 9}, {1, 1, 3}, {1, 1, 3}, {0, 0, 0}, {1, 1, 1}, false, true, 0},
    {{1, 1, 700}, {1, 1, 21}, {1, 1, 4}, {0, 0, 10}, {1, 1, 1}, true, false, 0},
    {{2, 1, 17}, {1, 1, 2000000000}, {1, 1, 5}, {0, 0, 1000000000}, {1, 1, 1}, false, true, 0},
    {{3, 9, 11}, {2, 9, 5}, {3, 7, 4}, {1, 4, 2}, {1, 1, 1}, true, true, 0},
};

static float *floats(const cr_tensor *t) { return (float *)(void *)t->address; }
static const int64_t *integers(const cr_tensor *t)
{
    return (const int64_t *)(void *)t->address;
}

static cr_tensor *numbers(const int64_t *volume)
{
    int64_t size[5] = {1, PLANES, volume[0], volume[1], volume[2]};
    cr_tensor *t = NULL;

    OK(cr_tensor_start());
    OK(cr_tensor_new(&t, CR_F32, CR_HOST, 5, size));
    for (int64_t i = 0; i < t->numel; i++)
        floats(t)[i] = (float)((i * 37 + 11) % 101) - 50.0f;
    return t;
}

static cr_value three(const int64_t *list)
{
    return (cr_value){.tag = CR_INTS, .len = 3, .ints = (int64_t *)list};
}

static void max_pool(const pooling *p, cr_tensor *x, cr_value *result)
{
    cr_value arg[7] = {cr_of_tensor(x),    three(p->kernel),    three(p->stride), three(p->pad),
                       three(p->dilation), cr_of_bool(p->ceil), cr_of_int(3)};

    OK(cr_call_named("_max_pool", arg, 7, result));
}

/* _avg_pool, or with the input's size its derivative. */
static cr_tensor *average(const pooling *p, cr_tensor *x, const int64_t *size)
{
    cr_value arg[9] = {cr_of_tensor(x), {.tag = CR_INTS, .len = 5, .ints = (int64_t *)size}};
    cr_value rest[7] = {three(p->kernel),
                        three(p->stride),
                        three(p->pad),
                        cr_of_bool(p->ceil),
                        cr_of_bool(p->count_pad),
                        p->divisor ? cr_of_int(p->divisor) : cr_of_none(),
                        cr_of_int(3)};
    cr_value result = cr_of_none();

    memcpy(arg + (size ? 2 : 1), rest, sizeof rest);
    OK(cr_call_named(size ? "_avg_pool_backward" : "_avg_pool", arg, size ? 9 : 8, &result));
    return result.t;
}

/* The window of one output: greatest value, its position, sum and count. */
typedef struct {
    double max, sum;
    int64_t where, count;
} window;

/* The positions of dim d inside, [*first, *end), and their part of the count. */
static int64_t look_along(const pooling *p, int d, int64_t o, int64_t *first, int64_t *end)
{
    int64_t at = o * p->stride[d] - p->pad[d], step = p->dilation[d], k = p->kernel[d];
    int64_t low = at < 0 ? 0 : at, high = at + k;

    *first = at < 0 ? (step - 1 - at) / step : 0;
    *end = at >= p->in[d] ? 0 : (p->in[d] - at + step - 1) / step;
    *end = *end < k ? *end : k;
    if (p->count_pad)
        return (high < p->in[d] + p->pad[d] ? high : p->in[d] + p->pad[d]) - at;
    return (high < p->in[d] ? high : p->in[d]) - low;
}

static window look(const pooling *p, const float *x, const int64_t *o)
{
    window w = {-(double)INFINITY, 0, -1, 1};
    int64_t k[3], first[3], end[3];

    for (int d = 0; d < 3; d++)
        w.count *= look_along(p, d, o[d], &first[d], &end[d]);
    for (k[0] = first[0]; k[0] < end[0]; k[0]++)
        for (k[1] = first[1]; k[1] < end[1]; k[1]++)
            for (k[2] = first[2]; k[2] < end[2]; k[2]++) {
                int64_t at = 0;
                for (int d = 0; d < 3; d++)
                    at =
                        at * p->in[d] + o[d] * p->stride[d] - p->pad[d] + k[d] * p->dilation[d];
                w.sum += (double)x[at];
                if ((double)x[at] > w.max)
                    w.max = (double)x[at], w.where = at;
            }
    return w;
}

static void compare_output(const pooling *p, window w, float most, int64_t where, float mean)
{
    bool empty = w.where < 0;

    CHECK((double)most == w.max);
    EQ(where, w.where);
    for (int d = 0; d < 3; d++)
        if (p->dilation[d] != 1)
            return;
    NEAR(mean, empty ? 0 : w.sum / (double)(p->divisor ? p->divisor : w.count), 1e-5);
}

static void check_case(const pooling *p)
{
    cr_tensor *x = numbers(p->in), *mean = average(p, x, NULL);
    cr_value most[2] = {cr_of_none(), cr_of_none()};
    int64_t o[3], i = 0, volume = p->in[0] * p->in[1] * p->in[2];

    max_pool(p, x, most);
    const int64_t *size = most[0].t->size + 2;
    for (int64_t plane = 0; plane < PLANES; plane++)
        for (o[0] = 0; o[0] < size[0]; o[0]++)
            for (o[1] = 0; o[1] < size[1]; o[1]++)
                for (o[2] = 0; o[2] < size[2]; o[2]++, i++)
                    compare_output(p, look(p, floats(x) + plane * volume, o),
                                   floats(most[0].t)[i], integers(most[1].t)[i],
                                   mean->numel == most[0].t->numel ? floats(mean)[i] : 0);
    cr_drop(x);
    cr_drop(mean);
    cr_drop_values(most, 2);
}

TEST(maxima_and_averages_agree_with_the_definition)
{
    for (size_t i = 0; i < CR_LEN(cases); i++)
        check_case(&cases[i]);
}

static double product(const cr_tensor *a, const cr_tensor *b)
{
    double sum = 0;

    EQ(a->numel, b->numel);
    for (int64_t i = 0; i < a->numel; i++)
        sum += (double)floats(a)[i] * (double)floats(b)[i];
    return sum;
}

/* <A x, y> = <x, A' y>. */
static void compare_transposes(cr_tensor *x, cr_tensor *ax, cr_tensor *y, cr_tensor *aty)
{
    double left = product(ax, y), right = product(x, aty);

    NEAR(left, right, 1e-4 * fabs(left) + 1e-2);
    cr_drop(x);
    cr_drop(ax);
    cr_drop(y);
    cr_drop(aty);
}

TEST(derivatives_of_averages_are_their_transposes)
{
    for (size_t i = 0; i < CR_LEN(cases); i++) {
        const pooling *p = &cases[i];
        cr_tensor *x = numbers(p->in), *ax = average(p, x, NULL), *y = numbers(ax->size + 2);
        compare_transposes(x, ax, y, average(p, y, x->size));
    }
}

static cr_tensor *adaptive(const char *name, cr_tensor *x, const int64_t *size, uint32_t len)
{
    cr_value arg[3] = {
        cr_of_tensor(x), {.tag = CR_INTS, .len = len, .ints = (int64_t *)size}, cr_of_int(3)};
    cr_value result = cr_of_none();

    OK(cr_call_named(name, arg, 3, &result));
    return result.t;
}

TEST(derivatives_of_adaptive_averages_are_their_transposes)
{
    static const int64_t in[][3] = {{1, 5, 6}, {4, 7, 300}, {2, 3, 5}, {3, 1, 64}};
    static const int64_t out[][3] = {{1, 2, 3}, {3, 5, 7}, {5, 7, 9}, {1, 4, 8}};

    for (size_t i = 0; i < CR_LEN(in); i++) {
        cr_tensor *x = numbers(in[i]), *ax = adaptive("_adaptive_avg_pool", x, out[i], 3);
        cr_tensor *y = numbers(out[i]);
        compare_transposes(x, ax, y, adaptive("_adaptive_avg_pool_backward", y, x->size, 5));
    }
}

static void check_extremes(const pooling *p, const float *x, const int64_t *want, int64_t n)
{
    cr_tensor *t = numbers(p->in);
    cr_value most[2] = {cr_of_none(), cr_of_none()};

    memcpy(t->address, x, (size_t)(t->numel / PLANES) * sizeof *x);
    max_pool(p, t, most);
    for (int64_t i = 0; i < n; i++) {
        float value = floats(most[0].t)[i];
        EQ(integers(most[1].t)[i], want[i]);
        CHECK(isnan(x[want[i]]) ? isnan(value) : value == x[want[i]]);
    }
    cr_drop(t);
    cr_drop_values(most, 2);
}

TEST(the_last_nan_wins_and_the_first_of_equals_is_taken)
{
    static const float x[] = {NAN, 3, NAN, 5, 5, 5, -INFINITY, -INFINITY, -INFINITY};
    pooling p = {{1, 1, 9}, {1, 1, 3}, {1, 1, 3}, {0}, {1, 1, 1}, false, true, 0};

    check_extremes(&p, x, (const int64_t[]){2, 3, 6}, 3);
}

/* Every order of four values, of which some are equal and some are NaN, in rows of 16. */
TEST(squares_choose_as_other_windows_do)
{
    static const float values[] = {1, 2, NAN, -INFINITY};
    enum { N = 256 };
    float x[4 * N];
    int64_t want[N];
    pooling p = {{1, 2, 2 * N}, {1, 2, 2}, {1, 2, 2}, {0}, {1, 1, 1}, false, true, 0};

    for (int i = 0; i < N; i++)
        for (int k = 0; k < 4; k++)
            x[k / 2 * 2 * N + 2 * i + k % 2] = values[i >> 2 * k & 3];
    for (int i = 0; i < N; i++) {
        want[i] = 2 * i;
        for (int k = 1; k < 4; k++) {
            int64_t at = k / 2 * 2 * N + 2 * i + k % 2;
            want[i] = x[at] > x[want[i]] || isnan(x[at]) ? at : want[i];
        }
    }
    check_extremes(&p, x, want, N);
}
