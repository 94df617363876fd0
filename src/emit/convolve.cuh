/* convolve.cuh - convolutions on an NVIDIA GPU that its libraries lack (of integers, of complex
 * numbers, of sizes without an algorithm), and their transposes in the input and in the weight.
 *
 * Follows move.cuh.  CC_ITEM is the type of elements.  A thread adds up the products of one
 * element of the result.  Sums of integers are those of unsigned numbers, in which any order
 * has the same bits; complex numbers are multiplied and added as they are.  Sums of floats are
 * in float64 and rounded once. */
#ifndef CR_EMIT_CONVOLVE_CUH
#define CR_EMIT_CONVOLVE_CUH

#include "emit/move.cuh"

enum { CC_OUTPUT, CC_INPUT, CC_WEIGHT, CC_DIMS = 3, CC_ALL = CC_DIMS + 2 };

/* An array of images (image, channel, three dims), or the weight (channel of the output,
 * channel within the group, three dims).  Strides are in elements. */
struct cc_array {
    CC_ITEM *data;
    cm_i64 size[CC_ALL], stride[CC_ALL];
};

struct cc_call {
    cc_array x, w, y;
    const CC_ITEM *bias; /* a number for each channel of the result; or NULL */
    cm_i64 bias_stride, n, groups, way;
    cm_i64 step[CC_DIMS], pad[CC_DIMS], gap[CC_DIMS]; /* stride, padding, dilation */
};

template <class T> struct cc_number {
    typedef unsigned long long sum;
    CV_FN sum none() { return 0; }
    CV_FN sum plus(sum s, T x) { return s + (sum)x; }
    CV_FN sum plus(sum s, T a, T b) { return s + (sum)a * (sum)b; }
    CV_FN T back(sum s) { return (T)s; }
};
#define CC_DEFINE_COMPLEX(T)                                                                   \
    template <> struct cc_number<T> {                                                          \
        typedef T sum;                                                                         \
        CV_FN T none() { return T{0, 0}; }                                                     \
        CV_FN T plus(T s, T x) { return T{s.re + x.re, s.im + x.im}; }                         \
        CV_FN T plus(T s, T a, T b)                                                            \
        {                                                                                      \
            return T{s.re + (a.re * b.re - a.im * b.im), s.im + (a.re * b.im + a.im * b.re)};  \
        }                                                                                      \
        CV_FN T back(T s) { return s; }                                                        \
    };
CC_DEFINE_COMPLEX(cm_c64)
CC_DEFINE_COMPLEX(cm_c128)
#define CC_DEFINE_FLOAT(T)                                                                     \
    template <> struct cc_number<T> {                                                          \
        typedef double sum;                                                                    \
        CV_FN sum none() { return 0; }                                                         \
        CV_FN sum plus(sum s, T x) { return s + (double)cm_real(x); }                          \
        CV_FN sum plus(sum s, T a, T b)                                                        \
        {                                                                                      \
            return s + (double)cm_real(a) * (double)cm_real(b);                                \
        }                                                                                      \
        CV_FN T back(sum s) { return cm_to<T>::of(s); }                                        \
    };
CC_DEFINE_FLOAT(cm_f16)
CC_DEFINE_FLOAT(cm_bf16)
CC_DEFINE_FLOAT(cm_f32)
CC_DEFINE_FLOAT(cm_f64)
typedef cc_number<CC_ITEM> cc_of;
typedef cc_of::sum cc_sum;

CV_FN cm_i64 cc_place(const cc_array &a, const cm_i64 *at)
{
    cm_i64 place = 0;

    for (int d = 0; d < CC_ALL; d++)
        place += at[d] * a.stride[d];
    return place;
}

CV_FN void cc_index(const cc_array &a, cm_i64 i, cm_i64 *at)
{
    for (int d = CC_ALL - 1; d >= 0; d--) {
        at[d] = i % a.size[d];
        i /= a.size[d];
    }
}

/* The position of the input under position k of the weight at position p of the output. */
CV_FN bool cc_under(const cc_call &c, const cm_i64 *p, const cm_i64 *k, cm_i64 *q)
{
    bool inside = true;

    for (int d = 0; d < CC_DIMS; d++) {
        q[d] = p[d] * c.step[d] + k[d] * c.gap[d] - c.pad[d];
        inside = inside && q[d] >= 0 && q[d] < c.x.size[d + 2];
    }
    return inside;
}

/* The position of the output over position q of the input under position k of the weight. */
CV_FN bool cc_over(const cc_call &c, const cm_i64 *q, const cm_i64 *k, cm_i64 *p)
{
    bool inside = true;

    for (int d = 0; d < CC_DIMS; d++) {
        const cm_i64 at = q[d] + c.pad[d] - k[d] * c.gap[d];
        p[d] = at / c.step[d];
        inside = inside && at >= 0 && at % c.step[d] == 0 && p[d] < c.y.size[d + 2];
    }
    return inside;
}

/* The next position of three dims; false behind the last one. */
CV_FN bool cc_next(cm_i64 *at, const cm_i64 *size)
{
    for (int d = CC_DIMS - 1; d >= 0; d--) {
        if (++at[d] < size[d])
            return true;
        at[d] = 0;
    }
    return false;
}

CV_FN cc_sum cc_output(const cc_call &c, const cm_i64 *y)
{
    const cm_i64 channels = c.w.size[1], group = y[1] / (c.w.size[0] / c.groups);
    cc_sum sum = cc_of::none();

    for (cm_i64 i = 0; i < channels; i++) {
        cm_i64 w[CC_ALL] = {y[1], i, 0, 0, 0},
               x[CC_ALL] = {y[0], group * channels + i, 0, 0, 0};
        do
            if (cc_under(c, y + 2, w + 2, x + 2))
                sum = cc_of::plus(sum, c.x.data[cc_place(c.x, x)], c.w.data[cc_place(c.w, w)]);
        while (cc_next(w + 2, c.w.size + 2));
    }
    return sum;
}

CV_FN cc_sum cc_input(const cc_call &c, const cm_i64 *x)
{
    const cm_i64 channels = c.w.size[1], outputs = c.w.size[0] / c.groups;
    const cm_i64 group = x[1] / channels;
    cc_sum sum = cc_of::none();

    for (cm_i64 o = group * outputs; o < (group + 1) * outputs; o++) {
        cm_i64 w[CC_ALL] = {o, x[1] % channels, 0, 0, 0}, y[CC_ALL] = {x[0], o, 0, 0, 0};
        do
            if (cc_over(c, x + 2, w + 2, y + 2))
                sum = cc_of::plus(sum, c.y.data[cc_place(c.y, y)], c.w.data[cc_place(c.w, w)]);
        while (cc_next(w + 2, c.w.size + 2));
    }
    return sum;
}

CV_FN cc_sum cc_weight(const cc_call &c, const cm_i64 *w)
{
    const cm_i64 channel = w[0] / (c.w.size[0] / c.groups) * c.w.size[1] + w[1];
    cc_sum sum = cc_of::none();

    for (cm_i64 n = 0; n < c.y.size[0]; n++) {
        cm_i64 y[CC_ALL] = {n, w[0], 0, 0, 0}, x[CC_ALL] = {n, channel, 0, 0, 0};
        do
            if (cc_under(c, y + 2, w + 2, x + 2))
                sum = cc_of::plus(sum, c.y.data[cc_place(c.y, y)], c.x.data[cc_place(c.x, x)]);
        while (cc_next(y + 2, c.y.size + 2));
    }
    return sum;
}

CK_KERNEL(cc_convolve, cc_call)
{
    const cc_array &to = call.way == CC_OUTPUT  ? call.y
                         : call.way == CC_INPUT ? call.x
                                                : call.w;

    for (cm_i64 i = ck_first_x(); i < call.n; i += ck_step_x()) {
        cm_i64 at[CC_ALL];
        cc_index(to, i, at);
        cc_sum sum = call.way == CC_OUTPUT  ? cc_output(call, at)
                     : call.way == CC_INPUT ? cc_input(call, at)
                                            : cc_weight(call, at);
        if (call.bias)
            sum = cc_of::plus(sum, call.bias[at[1] * call.bias_stride]);
        to.data[cc_place(to, at)] = cc_of::back(sum);
    }
}

#endif
