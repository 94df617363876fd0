/* norm.cuh - batch norm on an NVIDIA GPU.
 *
 * Follows move.cuh.  CN_ITEM is the type of the elements, CN_PARAM of weights and biases,
 * CN_STAT of given statistics; sums are of cn_real.  CN_LANES elements are read at once.  With
 * CN_LAST the array is a matrix of `lines` rows of all channels, else `images` times `channels`
 * planes.
 *
 * With CN_ADDS, `other` is added to a result, or to a gradient.  With CN_RELU, a result is that
 * of relu, and a gradient is 0 where relu's result was not above 0: x gives the result again.
 * With CN_MASKS, `result` has it.  Each of these steps rounds as a call of its own does.
 *
 * A block has some channels, x of its threads beside each other, and of these channels one of
 * `parts` parts of the lines; thread y has every y-th line, or every y-th vector of the planes.
 * The moments of a part are sums of differences to its first element, which lose few digits:
 * a part has few elements.  A second kernel joins the means and squares of parts. */
#ifndef CR_EMIT_NORM_CUH
#define CR_EMIT_NORM_CUH

#include "emit/move.cuh"

typedef decltype(cm_real(CN_ITEM())) cn_real;

struct cn_call {
    const CN_ITEM *x, *grad, *other, *result;
    CN_ITEM *out;    /* or the gradient of x */
    CN_ITEM *masked; /* the gradient after relu's */
    const CN_PARAM *weight, *bias;
    CN_PARAM *weight_grad, *bias_grad;
    const CN_STAT *given_mean, *given_var;
    cn_real *mean, *invstd, *var, *part;
    cn_real *factor; /* of the gradient: 2 numbers a channel */
    cm_i64 channels, images, plane, lines, parts;
    double eps;
    int training, unused;
};

enum {
    CN_THREADS = 256,
    CN_JOINERS = 1024,
    CN_AT_ONCE = 4,
    CN_CHANNELS = CN_LAST ? CN_LANES : 1,
    CN_AGAIN = CN_RELU ? CN_CHANNELS : 1
};

struct alignas(CN_LANES * sizeof(CN_ITEM)) cn_vector {
    CN_ITEM item[CN_LANES];
};

CV_FN float cn_fma(float a, float b, float c) { return CV_FMAF(a, b, c); }
CV_FN double cn_fma(double a, double b, double c) { return CV_FMAD(a, b, c); }
CV_FN float cn_rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
CV_FN double cn_rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
CV_FN cn_real cn_of(const CN_PARAM *list, cm_i64 i, cn_real preset)
{
    return list ? (cn_real)cm_real(list[i]) : preset;
}

/* --- the elements of a thread --- */

/* Lines, or vectors of a channel's planes; the first of the thread's channels. */
struct cn_walk {
    cm_i64 at, end, step, channel;
    cm_i64 first; /* of the part, whose end is `end` */
    bool some;    /* the channels exist */
};

CV_FN cn_walk cn_begin(const cn_call &c)
{
    const cm_i64 n = CN_LAST ? c.lines : c.images * (c.plane / CN_LANES);
    const cm_i64 share = (n + c.parts - 1) / c.parts, first = CK_BLOCK_(y) * share;
    cn_walk w;

    w.first = first;
    w.channel = ((cm_i64)CK_BLOCK_(x) * CK_WIDTH_(x) + ck_x()) * CN_CHANNELS;
    w.some = w.channel < c.channels;
    w.at = first + ck_y();
    w.step = CK_WIDTH_(y);
    w.end = !w.some ? 0 : first + share < n ? first + share : n;
    return w;
}

CV_FN cm_i64 cn_over(cm_i64 a, cm_i64 b)
{
    return (a | b) >> 32 ? a / b : (cm_i64)((unsigned)a / (unsigned)b);
}

/* The vector's first element. */
CV_FN cm_i64 cn_place(const cn_call &c, const cn_walk &w, cm_i64 at)
{
    const cm_i64 vectors = CN_LAST ? 1 : c.plane / CN_LANES,
                 image = CN_LAST ? at : cn_over(at, vectors);

    return CN_LAST
               ? at * c.channels + w.channel
               : (image * c.channels + w.channel) * c.plane + (at - image * vectors) * CN_LANES;
}

CV_FN cn_vector cn_load(const CN_ITEM *p) { return *(const cn_vector *)p; }
CV_FN void cn_store(CN_ITEM *p, const cn_vector &v) { cm_store<sizeof v>(p, &v); }

/* Runs `text` for each vector, where `place` is that of its first element; reads x, grad where
 * `two` is true, other where `adds` and result where `masks` is, of several vectors before
 * their texts. */
#define CN_EACH(w, two, adds, masks, text)                                                     \
    for (; w.at < w.end; w.at += CN_AT_ONCE * w.step) {                                        \
        cn_vector xs[CN_AT_ONCE], gs[CN_AT_ONCE], os[CN_AT_ONCE], rs[CN_AT_ONCE];              \
        CV_ALL                                                                                 \
        for (int k = 0; k < CN_AT_ONCE; k++)                                                   \
            if (w.at + k * w.step < w.end) {                                                   \
                const cm_i64 place = cn_place(call, w, w.at + k * w.step);                     \
                xs[k] = cn_load(call.x + place);                                               \
                if (two)                                                                       \
                    gs[k] = cn_load(call.grad + place);                                        \
                if (adds)                                                                      \
                    os[k] = cn_load(call.other + place);                                       \
                if (masks)                                                                     \
                    rs[k] = cn_load(call.result + place);                                      \
            }                                                                                  \
        CV_ALL                                                                                 \
        for (int k = 0; k < CN_AT_ONCE; k++)                                                   \
            if (w.at + k * w.step < w.end) {                                                   \
                const cm_i64 place = cn_place(call, w, w.at + k * w.step);                     \
                const cn_vector &x = xs[k], &g = gs[k], &o = os[k], &r = rs[k];                \
                (void)place, (void)g, (void)o, (void)r;                                        \
                text                                                                           \
            }                                                                                  \
    }
/* Lane l of a vector, and the place of its channel among the thread's. */
#define CN_LANES_EACH(text)                                                                    \
    CV_ALL                                                                                     \
    for (int l = 0; l < CN_LANES; l++) {                                                       \
        const int c = CN_LAST ? l : 0;                                                         \
        text                                                                                   \
    }

/* (x - mean) * scale + bias */
CV_FN CN_ITEM cn_scaled(const CN_ITEM &x, cn_real mean, cn_real scale, cn_real bias, bool added)
{
    const cn_real z = (cm_real(x) - mean) * scale;
    return cm_to<CN_ITEM>::of(added ? z + bias : z);
}

CV_FN CN_ITEM cn_sum(const CN_ITEM &a, const CN_ITEM &b)
{
    return cm_to<CN_ITEM>::of(cm_real(a) + cm_real(b));
}

/* `x` where relu's result, or its argument, was above 0 or NaN. */
CV_FN CN_ITEM cn_where(const CN_ITEM &result, const CN_ITEM &x)
{
    return cm_real(result) <= 0 ? CN_ITEM{0} : x;
}

/* --- joining --- */

/* The number of elements, their mean, and the sum of squares of differences to it. */
struct cn_moments {
    cn_real n, mean, squares;
};
struct cn_sums {
    cn_real a, b;
};

CV_FN cn_moments cn_join(const cn_moments &a, const cn_moments &b)
{
    if (a.n == 0 || b.n == 0)
        return a.n == 0 ? b : a;
    const cn_real n = a.n + b.n, far = b.mean - a.mean, share = b.n / n;
    return cn_moments{n, cn_fma(far, share, a.mean),
                      cn_fma(far * far * a.n, share, a.squares + b.squares)};
}
CV_FN cn_sums cn_join(const cn_sums &a, const cn_sums &b)
{
    return cn_sums{a.a + b.a, a.b + b.b};
}

/* Joins the values of the threads y; thread y = 0 has the result. */
template <int threads, int count, class T> CV_FN void cn_join_block(T *mine)
{
    CK_SHARED T kept[count][threads];

    for (int half = CK_WIDTH_(y) / 2; half > 0; half /= 2) {
        CV_ALL
        for (int l = 0; l < count; l++)
            kept[l][ck_thread()] = mine[l];
        __syncthreads();
        CV_ALL
        for (int l = 0; l < count && ck_y() < half; l++)
            mine[l] = cn_join(mine[l], kept[l][ck_thread() + half * ck_wide()]);
        __syncthreads();
    }
}

/* Number k of part p. */
CV_FN cn_real *cn_part(const cn_call &c, cm_i64 p, int k, cm_i64 channel)
{
    return c.part + (3 * p + k) * c.channels + channel;
}

/* --- forward --- */

/* The moments of a part. */
CK_KERNEL_OF(CN_THREADS, cn_moments_of_parts, cn_call)
{
    cn_walk w = cn_begin(call);
    const cm_i64 n = w.end > w.first ? (w.end - w.first) * (CN_LANES / CN_CHANNELS) : 0;
    cn_real first[CN_CHANNELS] = {0};
    cn_sums s[CN_CHANNELS];

    CV_ALL
    for (int c = 0; c < CN_CHANNELS; c++)
        s[c] = cn_sums{0, 0};
    if (n > 0) {
        const cn_vector x = cn_load(call.x + cn_place(call, w, w.first));
        CN_LANES_EACH(first[c] = cm_real(x.item[CN_LAST ? l : 0]);)
    }
    CN_EACH(w, false, false, false, CN_LANES_EACH({
                const cn_real d = cm_real(x.item[l]) - first[c];
                s[c].a += d;
                s[c].b = cn_fma(d, d, s[c].b);
            }))
    cn_join_block<CN_THREADS, CN_CHANNELS>(s);
    CV_ALL
    for (int c = 0; c < CN_CHANNELS && ck_y() == 0 && w.some; c++) {
        const cn_real mean = s[c].a / (cn_real)(n ? n : 1),
                      rest = cn_fma(-mean, s[c].a, s[c].b);
        *cn_part(call, CK_BLOCK_(y), 0, w.channel + c) = (cn_real)n;
        *cn_part(call, CK_BLOCK_(y), 1, w.channel + c) = first[c] + mean;
        *cn_part(call, CK_BLOCK_(y), 2, w.channel + c) = rest < 0 ? 0 : rest;
    }
}

/* The moments of all parts: x is the channel, threads y share the parts. */
CK_KERNEL_OF(CN_JOINERS, cn_statistics, cn_call)
{
    const cm_i64 channel = (cm_i64)CK_BLOCK_(x) * CK_WIDTH_(x) + ck_x();
    const bool some = channel < call.channels;
    cn_moments m = {0, 0, 0};

    for (cm_i64 p = ck_y(); p < call.parts && some; p += CN_AT_ONCE * CK_WIDTH_(y)) {
        cn_moments part[CN_AT_ONCE];
        CV_ALL
        for (int k = 0; k < CN_AT_ONCE; k++) {
            const cm_i64 at = p + k * CK_WIDTH_(y);
            part[k] = cn_moments{0, 0, 0};
            if (at < call.parts)
                part[k] =
                    cn_moments{*cn_part(call, at, 0, channel), *cn_part(call, at, 1, channel),
                               *cn_part(call, at, 2, channel)};
        }
        CV_ALL
        for (int k = 0; k < CN_AT_ONCE; k++)
            m = cn_join(m, part[k]);
    }
    cn_join_block<CN_JOINERS, 1>(&m);
    if (ck_y() == 0 && some) {
        const cn_real var = m.squares / m.n;
        call.mean[channel] = m.mean;
        call.var[channel] = var;
        call.invstd[channel] = cn_rsqrt(var + (cn_real)call.eps);
    }
}

/* (x - mean) * (invstd * weight) + bias, by the batch's or by given statistics; plus other, of
 * which relu. */
CK_KERNEL_OF(CN_THREADS, cn_apply, cn_call)
{
    cn_walk w = cn_begin(call);
    cn_real mean[CN_CHANNELS], scale[CN_CHANNELS], bias[CN_CHANNELS];

    CV_ALL
    for (int c = 0; c < CN_CHANNELS && w.some; c++) {
        const cm_i64 i = w.channel + c;
        mean[c] = call.training ? call.mean[i] : (cn_real)cm_real(call.given_mean[i]);
        const cn_real r =
            call.training ? call.invstd[i]
                          : cn_rsqrt((cn_real)cm_real(call.given_var[i]) + (cn_real)call.eps);
        scale[c] = call.weight ? r * cn_of(call.weight, i, 1) : r;
        bias[c] = cn_of(call.bias, i, 0);
    }
    const bool added = call.bias != nullptr;
    CN_EACH(w, false, CN_ADDS, false, {
        cn_vector y;
        CN_LANES_EACH({
            y.item[l] = cn_scaled(x.item[l], mean[c], scale[c], bias[c], added);
            if (CN_ADDS)
                y.item[l] = cn_sum(y.item[l], o.item[l]);
            if (CN_RELU)
                y.item[l] = 0 > cm_real(y.item[l]) ? CN_ITEM{0} : y.item[l];
        })
        cn_store(call.out + place, y);
    })
}

/* --- backward --- */

/* The argument of relu, for a thread's channels. */
struct cn_again {
    cn_real scale[CN_AGAIN], bias[CN_AGAIN];
    bool added;
};

CV_FN cn_again cn_again_of(const cn_call &call, const cn_walk &w)
{
    cn_again a;

    CV_ALL
    for (int c = 0; c < CN_AGAIN; c++) {
        const bool some = CN_RELU && w.some;
        a.scale[c] =
            some ? call.invstd[w.channel + c] * cn_of(call.weight, w.channel + c, 1) : 0;
        a.bias[c] = some ? cn_of(call.bias, w.channel + c, 0) : 0;
    }
    a.added = call.bias != nullptr;
    return a;
}

/* The gradient of batch norm's result: 0 where relu follows and gives 0, else grad. */
#define CN_GRADIENT                                                                            \
    (CN_RELU ? cn_where(cn_scaled(x.item[l], mean[c], again.scale[CN_RELU ? c : 0],            \
                                  again.bias[CN_RELU ? c : 0], again.added),                   \
                        g.item[l])                                                             \
             : g.item[l])

/* The sums of grad and of grad * (x - mean) of a part. */
CK_KERNEL_OF(CN_THREADS, cn_sums_of_parts, cn_call)
{
    cn_walk w = cn_begin(call);
    cn_real mean[CN_CHANNELS];
    cn_sums s[CN_CHANNELS];

    CV_ALL
    for (int c = 0; c < CN_CHANNELS; c++) {
        mean[c] = w.some ? call.mean[w.channel + c] : 0;
        s[c] = cn_sums{0, 0};
    }
    const cn_again again = cn_again_of(call, w);
    CN_EACH(w, true, CN_ADDS, CN_MASKS, {
        cn_vector y;
        CN_LANES_EACH({
            y.item[l] = CN_GRADIENT;
            if (CN_ADDS)
                y.item[l] = cn_sum(y.item[l], o.item[l]);
            if (CN_MASKS)
                y.item[l] = cn_where(r.item[l], y.item[l]);
            const cn_real d = cm_real(y.item[l]);
            s[c].a += d;
            s[c].b = cn_fma(d, cm_real(x.item[l]) - mean[c], s[c].b);
        })
        if (CN_MASKS)
            cn_store(call.masked + place, y);
    })
    cn_join_block<CN_THREADS, CN_CHANNELS>(s);
    CV_ALL
    for (int c = 0; c < CN_CHANNELS && ck_y() == 0 && w.some; c++) {
        *cn_part(call, CK_BLOCK_(y), 0, w.channel + c) = s[c].a;
        *cn_part(call, CK_BLOCK_(y), 1, w.channel + c) = s[c].b;
    }
}

/* The gradients of weight and bias, and the factors of cn_gradient. */
CK_KERNEL_OF(CN_JOINERS, cn_parameters, cn_call)
{
    const cm_i64 channel = (cm_i64)CK_BLOCK_(x) * CK_WIDTH_(x) + ck_x();
    const bool some = channel < call.channels;
    cn_sums s = {0, 0};

    for (cm_i64 p = ck_y(); p < call.parts && some; p += CN_AT_ONCE * CK_WIDTH_(y)) {
        cn_sums part[CN_AT_ONCE];
        CV_ALL
        for (int k = 0; k < CN_AT_ONCE; k++) {
            const cm_i64 at = p + k * CK_WIDTH_(y);
            part[k] = cn_sums{0, 0};
            if (at < call.parts)
                part[k] =
                    cn_sums{*cn_part(call, at, 0, channel), *cn_part(call, at, 1, channel)};
        }
        CV_ALL
        for (int k = 0; k < CN_AT_ONCE; k++)
            s = cn_join(s, part[k]);
    }
    cn_join_block<CN_JOINERS, 1>(&s);
    if (ck_y() == 0 && some) {
        const cn_real r = call.invstd[channel], n = (cn_real)call.lines;
        call.weight_grad[channel] = cm_to<CN_PARAM>::of(s.b * r);
        call.bias_grad[channel] = cm_to<CN_PARAM>::of(s.a);
        call.factor[channel] = call.training ? s.a / n : 0;
        call.factor[call.channels + channel] = call.training ? s.b * r * r / n : 0;
    }
}

/* (grad - mean of grad - (x - mean) * factor) * (invstd * weight) */
CK_KERNEL_OF(CN_THREADS, cn_gradient, cn_call)
{
    cn_walk w = cn_begin(call);
    cn_real mean[CN_CHANNELS], a[CN_CHANNELS], b[CN_CHANNELS], scale[CN_CHANNELS];

    CV_ALL
    for (int c = 0; c < CN_CHANNELS && w.some; c++) {
        const cm_i64 i = w.channel + c;
        mean[c] = call.mean[i];
        a[c] = call.factor[i];
        b[c] = call.factor[call.channels + i];
        scale[c] = call.invstd[i] * cn_of(call.weight, i, 1);
    }
    const cn_again again = cn_again_of(call, w);
    CN_EACH(w, true, false, false, {
        cn_vector y;
        CN_LANES_EACH({
            const cn_real d = cm_real(x.item[l]) - mean[c];
            const cn_real from = cm_real(CN_GRADIENT);
            y.item[l] = cm_to<CN_ITEM>::of(cn_fma(-d, b[c], from - a[c]) * scale[c]);
        })
        cn_store(call.out + place, y);
    })
}

#endif
