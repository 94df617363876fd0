/* Convolutions and their transposes against the definition. */
#include "base/test.h"
#include "kern/conv.h"
#include "kern/cpu/pack.h"
#include <math.h>

/* Small integers: every dtype holds the sums exactly, or nearly. */
static double value_at(int64_t i) { return (double)((i * 7 + 3) % 5 - 2); }

static char *array(cr_dtype t, int64_t n)
{
    char *p = cr_aligned_alloc((size_t)n * cr_dtype_size(t) + 1);

    for (int64_t i = 0; i < n; i++)
        cr_scalar_store(cr_scalar_float(value_at(i)), t, p + (size_t)i * cr_dtype_size(t));
    return p;
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

static double check(const cr_conv *c, cr_dtype t, int which, bool with_bias)
{
    plain p = {.c = *c,
               .in = cr_conv_volume(c, c->in),
               .out = cr_conv_volume(c, c->out),
               .kernel = cr_conv_volume(c, c->kernel)};
    double worst = 0;
    char *x, *w, *y, *bias = with_bias ? array(t, 64) : NULL;
    int64_t n, per, channels;

    p.xn = c->batch * c->groups * c->ic * p.in;
    p.yn = c->batch * c->groups * c->oc * p.out;
    p.wn = c->groups * c->oc * c->ic * p.kernel;
    p.x = doubles(p.xn, which == CR_CONV_X), p.y = doubles(p.yn, which == CR_CONV_Y),
    p.w = doubles(p.wn, which == CR_CONV_W);
    x = array(t, p.xn), y = array(t, p.yn), w = array(t, p.wn);
    each_product(&p, which);
    if (which == CR_CONV_Y)
        OK(cr_conv_to_y(c, t, x, w, bias, y));
    else if (which == CR_CONV_X)
        OK(cr_conv_to_x(c, t, y, w, bias, x));
    else
        OK(cr_conv_to_w(c, t, x, y, w));
    n = which == CR_CONV_Y ? p.yn : which == CR_CONV_X ? p.xn : p.wn;
    per = which == CR_CONV_Y ? p.out : p.in;
    channels = c->groups * (which == CR_CONV_Y ? c->oc : c->ic);
    for (int64_t i = 0; i < n; i++) {
        double want = (which == CR_CONV_Y ? p.y : which == CR_CONV_X ? p.x : p.w)[i];
        double got = at(which == CR_CONV_Y ? y : which == CR_CONV_X ? x : w, t, i);
        if (bias && which != CR_CONV_W)
            want += value_at(i / per % channels);
        worst = fmax(worst, fabs(got - want) / fmax(1, fabs(want)));
    }
    cr_free(p.x), cr_free(p.y), cr_free(p.w);
    cr_aligned_free(x), cr_aligned_free(y), cr_aligned_free(w), cr_aligned_free(bias);
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

TEST(no_images_give_a_zero_weight_gradient)
{
    cr_conv c = {1, 0, 1, 2, 3, {5}, {3}, {3}, {1}, {0}, {1}};
    char *w = array(CR_F32, 18);

    OK(cr_conv_to_w(&c, CR_F32, NULL, NULL, w));
    for (int i = 0; i < 18; i++)
        NEAR(at(w, CR_F32, i), 0, 0);
    cr_aligned_free(w);
}
