/* Convolutions and their transposes against the definition. */
#include "base/test.h"
#include "kern/conv.h"
#include "kern/cpu/pack.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Small integers: every dtype holds the sums exactly, or nearly. */
static double value_at(int64_t i) { return (double)((i * 7 + 3) % 5 - 2); }

/* Every array has bytes 255 before and behind it.  They are NaN in the floating dtypes: a
 * result that reads them is NaN, and drop() fails when they were changed. */
enum { GUARD = 4096 };

static char *array(cr_dtype t, int64_t n)
{
    size_t bytes = (size_t)n * cr_dtype_size(t);
    char *p = (char *)cr_aligned_alloc(bytes + 2 * (size_t)GUARD) + GUARD;

    memset(p - GUARD, 255, bytes + 2 * (size_t)GUARD);
    for (int64_t i = 0; i < n; i++)
        cr_scalar_store(cr_scalar_float(value_at(i)), t, p + (size_t)i * cr_dtype_size(t));
    return p;
}

/* Frees the array.  False when something was written around it. */
static bool drop(char *p, cr_dtype t, int64_t n)
{
    size_t bytes = (size_t)n * cr_dtype_size(t);
    bool kept = true;

    for (size_t i = 0; i < GUARD; i++)
        kept = kept && (unsigned char)p[bytes + i] == 255 &&
               (unsigned char)*(p - GUARD + i) == 255;
    cr_aligned_free(p - GUARD);
    return kept;
}

/* Leaves bytes 255 in freed memory of many sizes: what a library takes next and reads before it
 * writes is NaN. */
static void spoil_free_memory(void)
{
    char *p[64];

    for (size_t i = 0; i < CR_LEN(p); i++) {
        size_t bytes = i < 48 ? 64 + 704 * i : 16384 * (i - 44);
        p[i] = cr_aligned_alloc(bytes);
        memset(p[i], 255, bytes);
    }
    for (size_t i = 0; i < CR_LEN(p); i++)
        cr_aligned_free(p[i]);
}

static double at(const char *p, cr_dtype t, int64_t i)
{
    return cr_scalar_as_complex(cr_scalar_load(t, p + (size_t)i * cr_dtype_size(t))).re;
}

typedef struct {
    cr_conv c;
    int64_t xn, wn, yn, in, out, kernel;
    double *x, *w, *y; /* one of them is accumulated */
} plain;

/* Visits every product of the definition: index of y, x and w. */
static void each_product(const plain *p, int which)
{
    const cr_conv *c = &p->c;
    int64_t o[3], k[3];

    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t gm = 0; gm < c->groups * c->oc; gm++)
            for (int64_t ch = 0; ch < c->ic; ch++)
                for (int64_t oi = 0; oi < p->out; oi++)
                    for (int64_t ki = 0; ki < p->kernel; ki++) {
                        int64_t orest = oi, krest = ki, pos = 0, step = 1;
                        bool in = true;
                        for (int64_t d = c->dims - 1; d >= 0; d--) {
                            o[d] = orest % c->out[d], orest /= c->out[d];
                            k[d] = krest % c->kernel[d], krest /= c->kernel[d];
                            int64_t i = o[d] * c->stride[d] + k[d] * c->dilation[d] - c->pad[d];
                            in = in && i >= 0 && i < c->in[d];
                            pos += i * step, step *= c->in[d];
                        }
                        if (!in)
                            continue;
                        int64_t g = gm / c->oc;
                        int64_t y = (b * c->groups * c->oc + gm) * p->out + oi;
                        int64_t x = ((b * c->groups + g) * c->ic + ch) * p->in + pos;
                        int64_t w = (gm * c->ic + ch) * p->kernel + ki;
                        if (which == CR_CONV_Y)
                            p->y[y] += p->x[x] * p->w[w];
                        else if (which == CR_CONV_X)
                            p->x[x] += p->y[y] * p->w[w];
                        else
                            p->w[w] += p->x[x] * p->y[y];
                    }
}

static double *doubles(int64_t n, bool zero)
{
    double *p = cr_alloc((size_t)n * sizeof *p + 1);

    for (int64_t i = 0; i < n; i++)
        p[i] = zero ? 0 : value_at(i);
    return p;
}

static int64_t result_count(const plain *p, int which)
{
    return which == CR_CONV_Y ? p->yn : which == CR_CONV_X ? p->xn : p->wn;
}

/* The largest relative error of the result; infinity when a number is NaN. */
static double worst_error(const plain *p, int which, cr_dtype t, const char *got, bool bias)
{
    const cr_conv *c = &p->c;
    int64_t per = which == CR_CONV_Y ? p->out : p->in;
    int64_t channels = c->groups * (which == CR_CONV_Y ? c->oc : c->ic);
    double worst = 0;

    for (int64_t i = 0; i < result_count(p, which); i++) {
        double want = (which == CR_CONV_Y ? p->y : which == CR_CONV_X ? p->x : p->w)[i];
        if (bias && which != CR_CONV_W)
            want += value_at(i / per % channels);
        double error = fabs(at(got, t, i) - want) / fmax(1, fabs(want));
        if (!(error <= worst))
            worst = isnan(error) ? HUGE_VAL : error;
    }
    return worst;
}

static double check(const cr_conv *c, cr_dtype t, int which, bool with_bias)
{
    plain p = {.c = *c,
               .in = cr_conv_volume(c, c->in),
               .out = cr_conv_volume(c, c->out),
               .kernel = cr_conv_volume(c, c->kernel)};
    char *x, *w, *y, *got, *bias = with_bias ? array(t, 64) : NULL;
    double worst;

    p.xn = c->batch * c->groups * c->ic * p.in;
    p.yn = c->batch * c->groups * c->oc * p.out;
    p.wn = c->groups * c->oc * c->ic * p.kernel;
    p.x = doubles(p.xn, which == CR_CONV_X), p.y = doubles(p.yn, which == CR_CONV_Y),
    p.w = doubles(p.wn, which == CR_CONV_W);
    x = array(t, p.xn), y = array(t, p.yn), w = array(t, p.wn);
    each_product(&p, which);
    got = which == CR_CONV_Y ? y : which == CR_CONV_X ? x : w;
    memset(got, 255, (size_t)result_count(&p, which) * cr_dtype_size(t));
    spoil_free_memory();
    if (which == CR_CONV_Y)
        OK(cr_conv_to_y(c, t, x, w, bias, y));
    else if (which == CR_CONV_X)
        OK(cr_conv_to_x(c, t, y, w, bias, x));
    else
        OK(cr_conv_to_w(c, t, x, y, w));
    worst = worst_error(&p, which, t, got, with_bias);
    cr_free(p.x), cr_free(p.y), cr_free(p.w);
    CHECK(drop(x, t, p.xn) && drop(w, t, p.wn) && drop(y, t, p.yn));
    if (bias)
        CHECK(drop(bias, t, 64));
    return worst;
}

TEST(all_three_maps_agree_with_the_definition)
{
    static const cr_conv cases[] = {
        {1, 2, 1, 3, 4, {9}, {9}, {3}, {1}, {1}, {1}},
        {2, 2, 1, 3, 5, {8, 7}, {6, 5}, {3, 3}, {1, 1}, {0, 0}, {1, 1}},
        {2, 1, 2, 2, 3, {9, 8}, {4, 3}, {3, 2}, {2, 3}, {1, 1}, {2, 1}},
        {2, 3, 4, 1, 1, {6, 6}, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        {2, 2, 1, 16, 16, {6, 6}, {6, 6}, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
        {3, 1, 1, 2, 3, {5, 4, 6}, {3, 2, 3}, {3, 3, 2}, {1, 2, 2}, {0, 1, 0}, {1, 1, 1}},
        {2, 1, 1, 2, 2, {22, 22}, {4, 4}, {4, 5}, {3, 2}, {1, 2}, {4, 4}},
        {1, 1, 1, 1, 1, {5}, {3}, {7}, {1}, {2}, {1}},
    };
    static const cr_dtype types[] = {CR_F32, CR_F64, CR_C64,  CR_C128, CR_I64,
                                     CR_I32, CR_I16, CR_BF16, CR_F16};

    for (size_t i = 0; i < CR_LEN(cases); i++)
        for (size_t t = 0; t < CR_LEN(types); t++)
            for (int which = CR_CONV_Y; which <= CR_CONV_W; which++)
                for (int bias = 0; bias < 2; bias++) {
                    cr_test_compared();
                    double wrong = check(&cases[i], types[t], which, bias);
                    if (!(wrong <= (types[t] == CR_BF16 ? 1.6e-2 : 1e-3)))
                        cr_test_failed(__FILE__, __LINE__, "case %zu, %s, map %d, bias %d: %g",
                                       i, cr_dtype_name(types[t]), which, bias, wrong);
                }
}

TEST(windows_may_reach_over_both_ends_of_the_depth)
{
    /* depth, kernel, stride, padding */
    static const int64_t depths[][4] = {{3, 4, 2, 3}, {4, 4, 2, 3}, {3, 3, 2, 1}, {2, 2, 2, 1},
                                        {3, 4, 1, 2}, {3, 5, 3, 4}, {6, 5, 3, 4}, {7, 5, 3, 4}};
    static const cr_dtype types[] = {CR_F32, CR_BF16};

    for (size_t i = 0; i < CR_LEN(depths); i++)
        for (size_t t = 0; t < CR_LEN(types); t++)
            for (int which = CR_CONV_Y; which <= CR_CONV_W; which++) {
                const int64_t *d = depths[i], out = (d[0] + 2 * d[3] - d[1]) / d[2] + 1;
                cr_conv c = {.dims = 3, .batch = 1, .groups = 1, .ic = 2, .oc = 16};
                for (int k = 0; k < 3; k++) {
                    c.in[k] = k ? 3 + k : d[0];
                    c.out[k] = k ? c.in[k] : out;
                    c.kernel[k] = k ? 3 : d[1];
                    c.stride[k] = k ? 1 : d[2];
                    c.pad[k] = k ? 1 : d[3];
                    c.dilation[k] = 1;
                }
                cr_test_compared();
                double wrong = check(&c, types[t], which, false);
                if (!(wrong <= (types[t] == CR_BF16 ? 1.6e-2 : 1e-3)))
                    cr_test_failed(__FILE__, __LINE__, "depth %zu, %s, map %d: %g", i,
                                   cr_dtype_name(types[t]), which, wrong);
            }
}

/* --- random convolutions --- */

static int64_t draw(uint64_t *state, int64_t low, int64_t high)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((*state >> 33) % (uint64_t)(high - low + 1));
}

/* False when a dim has no output, or the definition takes long. */
static bool draw_conv(uint64_t *s, int64_t dims, cr_conv *c)
{
    static const int64_t channels[] = {1, 2, 3, 5, 8, 16, 17, 32};
    bool plain_layer = draw(s, 0, 1);
    int64_t work;

    *c = (cr_conv){.dims = dims, .batch = draw(s, 1, 3), .groups = draw(s, 0, 5) ? 1 : 2};
    c->ic = channels[draw(s, 0, 7)], c->oc = channels[draw(s, 0, 7)];
    for (int64_t d = 0; d < dims; d++) {
        c->in[d] = draw(s, 1, 7), c->kernel[d] = draw(s, 1, 5), c->stride[d] = draw(s, 1, 4);
        c->pad[d] = draw(s, 0, plain_layer ? c->kernel[d] / 2 : 4);
        c->dilation[d] = draw(s, 1, plain_layer ? 1 : 2);
        int64_t room = c->in[d] + 2 * c->pad[d] - (c->kernel[d] - 1) * c->dilation[d] - 1;
        if (room < 0)
            return false;
        c->out[d] = room / c->stride[d] + 1;
    }
    work = c->batch * c->groups * c->ic * c->oc;
    return work * cr_conv_volume(c, c->out) * cr_conv_volume(c, c->kernel) < 200000;
}

static void name_conv(const cr_conv *c, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "batch %d groups %d channels %d %d", (int)c->batch,
                                (int)c->groups, (int)c->ic, (int)c->oc);

    for (int64_t d = 0; d < c->dims && n < size; d++)
        n += (size_t)snprintf(text + n, size - n, ", in %d kernel %d stride %d pad %d by %d",
                              (int)c->in[d], (int)c->kernel[d], (int)c->stride[d],
                              (int)c->pad[d], (int)c->dilation[d]);
}

static void check_random(int which, int64_t dims, int count)
{
    uint64_t state = (uint64_t)dims * 10 + (uint64_t)which;
    char text[400];
    cr_conv c;

    while (count > 0) {
        cr_dtype t = count % 3 ? CR_BF16 : CR_F32;
        if (!draw_conv(&state, dims, &c))
            continue;
        count--;
        cr_test_compared();
        double wrong = check(&c, t, which, false);
        name_conv(&c, text, sizeof text);
        if (!(wrong <= (t == CR_BF16 ? 1.6e-2 : 1e-3)))
            cr_test_failed(__FILE__, __LINE__, "%s, map %d, %s: %g", cr_dtype_name(t), which,
                           text, wrong);
    }
}

TEST(random_convolutions_agree_with_the_definition)
{
    for (int64_t dims = 1; dims <= CR_CONV_DIMS; dims++) {
        check_random(CR_CONV_Y, dims, 30);
        check_random(CR_CONV_X, dims, 60);
        check_random(CR_CONV_W, dims, 120);
    }
}

/* Gives a dim `out` windows with `room` elements behind the last.  False when there is no such
 * dim, or when padding alone fills a window. */
static bool spread_conv(cr_conv *c, int64_t d, int64_t out, int64_t room)
{
    int64_t extent = (c->kernel[d] - 1) * c->dilation[d] + 1;

    c->out[d] = out;
    c->in[d] = (out - 1) * c->stride[d] + extent - 2 * c->pad[d] + room;
    return c->in[d] > 0 && c->pad[d] < extent && room < c->stride[d];
}

static void check_spread(const cr_conv *c)
{
    static const cr_dtype types[] = {CR_F32, CR_BF16, CR_F16, CR_F64};
    char text[400];

    name_conv(c, text, sizeof text);
    for (size_t t = 0; t < CR_LEN(types); t++)
        for (int which = CR_CONV_Y; which <= CR_CONV_W; which++) {
            cr_test_compared();
            double wrong = check(c, types[t], which, false);
            if (!(wrong <= (types[t] == CR_BF16 ? 1.6e-2 : 2e-3)))
                cr_test_failed(__FILE__, __LINE__, "%s, map %d, %s: %g",
                               cr_dtype_name(types[t]), which, text, wrong);
        }
}

TEST(strides_may_be_longer_than_kernel_and_rows)
{
    /* kernel, dilation, stride, windows, padding, elements behind the last window */
    static const int64_t rows[][6] = {
        {3, 1, 1000, 3, 0, 0}, {1, 1, 19, 2, 0, 0}, {1, 1, 40, 3, 0, 39}, {3, 1, 18, 3, 1, 0},
        {3, 1, 21, 3, 1, 20},  {3, 2, 22, 3, 0, 1}, {3, 2, 23, 4, 2, 22}, {2, 9, 64, 2, 3, 5},
        {5, 1, 7, 5, 2, 6},    {2, 1, 2, 17, 0, 1}};

    for (size_t i = 0; i < CR_LEN(rows); i++)
        for (int64_t dims = 1; dims <= CR_CONV_DIMS; dims++)
            for (int64_t channels = 1; channels <= 17; channels += 16) {
                const int64_t *r = rows[i];
                cr_conv c = {
                    .dims = dims, .batch = 1, .groups = 1, .ic = channels, .oc = channels};
                bool fits = true;
                for (int64_t d = 0; d < dims; d++) {
                    bool last = d == dims - 1;
                    c.kernel[d] = last ? r[0] : 2, c.dilation[d] = last ? r[1] : 1;
                    c.stride[d] = last ? r[2] : 3 + d, c.pad[d] = last ? r[4] : 0;
                    fits = spread_conv(&c, d, last ? r[3] : 2, last ? r[5] : 1) && fits;
                }
                if (fits)
                    check_spread(&c);
            }
}

TEST(strides_of_rows_and_planes_may_be_longer_than_the_kernel)
{
    static const int64_t strides[] = {5, 11, 23, 100};

    for (size_t i = 0; i < CR_LEN(strides); i++)
        for (int64_t dims = 2; dims <= CR_CONV_DIMS; dims++)
            for (int64_t d = 0; d < dims - 1; d++) {
                cr_conv c = {.dims = dims, .batch = 2, .groups = 1, .ic = 5, .oc = 3};
                bool fits = true;
                for (int64_t k = 0; k < dims; k++) {
                    c.kernel[k] = 2, c.dilation[k] = 1, c.pad[k] = k == d;
                    c.stride[k] = k == d ? strides[i] : 1;
                    fits = spread_conv(&c, k, k == d ? 3 : 2, k == d ? 4 : 0) && fits;
                }
                CHECK(fits);
                check_spread(&c);
            }
}

/* The layers of a ResNet, with fewer channels, and the size of their input. */
TEST(ordinary_layers_have_the_librarys_weight_gradient)
{
    static const int64_t layers[][5] = {{32, 7, 2, 3, 1}, {8, 3, 1, 1, 1},  {8, 3, 2, 1, 1},
                                        {7, 3, 1, 1, 1},  {14, 3, 2, 1, 1}, {8, 3, 1, 2, 2},
                                        {3, 3, 1, 1, 1},  {9, 5, 1, 2, 1}};

    for (size_t i = 0; i < CR_LEN(layers) && cr_conv_has_dnnl(); i++) {
        const int64_t *l = layers[i],
                      out = (l[0] + 2 * l[3] - l[4] * (l[1] - 1) - 1) / l[2] + 1;
        cr_conv c = {2,
                     2,
                     1,
                     16,
                     32,
                     {l[0], l[0]},
                     {out, out},
                     {l[1], l[1]},
                     {l[2], l[2]},
                     {l[3], l[3]},
                     {l[4], l[4]}};
        char *x = array(CR_F32, 2 * 16 * l[0] * l[0]),
             *w = array(CR_F32, 32 * 16 * l[1] * l[1]);
        char *y = array(CR_F32, 2 * 32 * out * out);
        bool done = false;
        OK(cr_conv_dnnl(&done, CR_CONV_W, &c, CR_F32, x, w, NULL, y));
        CHECK(done);
        cr_aligned_free(x - GUARD), cr_aligned_free(w - GUARD), cr_aligned_free(y - GUARD);
    }
}

TEST(no_images_give_a_zero_weight_gradient)
{
    cr_conv c = {1, 0, 1, 2, 3, {5}, {3}, {3}, {1}, {0}, {1}};
    char *w = array(CR_F32, 18);

    OK(cr_conv_to_w(&c, CR_F32, NULL, NULL, w));
    for (int i = 0; i < 18; i++)
        NEAR(at(w, CR_F32, i), 0, 0);
    CHECK(drop(w, CR_F32, 18));
}
