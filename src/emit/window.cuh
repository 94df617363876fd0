/* window.cuh - folds of windows on an NVIDIA GPU (cr_windows of cresset_backend.h).
 *
 * Follows move.cuh.  A thread folds the positions of one element of the result, in row-major
 * order, as the host does.  CW_ITEM is the type of elements. */
#ifndef CR_EMIT_WINDOW_CUH
#define CR_EMIT_WINDOW_CUH

#include "emit/move.cuh"

struct cw_axis {
    cm_i64 size, in;
    const cm_i64 *start, *range;
    const double *count, *share;
};
struct cw_call {
    CW_ITEM *result;
    cm_i64 *which;
    const CW_ITEM *from;
    cm_i64 n, in, out, divisor;
    int divides, shares;
    cw_axis dim[3];
};

template <class T> struct cw_type {
    typedef cm_i64 wide, factor;
};
#define CW_DEFINE_TYPE(T, W)                                                                   \
    template <> struct cw_type<T> {                                                            \
        typedef W wide;                                                                        \
        typedef double factor;                                                                 \
    };
CW_DEFINE_TYPE(cm_f16, float)
CW_DEFINE_TYPE(cm_bf16, float)
CW_DEFINE_TYPE(cm_f32, float)
CW_DEFINE_TYPE(cm_f64, double)
typedef cw_type<CW_ITEM>::wide cw_wide;
typedef cw_type<CW_ITEM>::factor cw_factor;

/* Integers wrap around; a divisor is 0 only if a product did. */
CV_FN cm_i64 cw_add(cm_i64 a, cm_i64 b)
{
    return (cm_i64)((unsigned long long)a + (unsigned long long)b);
}
CV_FN float cw_add(float a, float b) { return a + b; }
CV_FN double cw_add(double a, double b) { return a + b; }
CV_FN cm_i64 cw_over(cm_i64 a, cm_i64 b)
{
    return b == -1 ? (cm_i64)(0 - (unsigned long long)a) : b ? a / b : 0;
}
CV_FN float cw_over(float a, float b) { return a / b; }
CV_FN double cw_over(double a, double b) { return a / b; }
CV_FN cm_i64 cw_times(cm_i64 a, cm_i64 b)
{
    return (cm_i64)((unsigned long long)a * (unsigned long long)b);
}
CV_FN double cw_times(double a, double b) { return a * b; }
CV_FN cw_factor cw_item(const double *list, cm_i64 i)
{
    return list ? (cw_factor)list[i] : (cw_factor)1;
}

/* The divisor of a place, or of an element of the source. */
CV_FN cw_wide cw_divisor(const cw_call &c, bool share, cm_i64 i0, cm_i64 i1, cm_i64 i2)
{
    const cw_axis *d = c.dim;
    const cw_factor a = cw_item(share ? d[0].share : d[0].count, i0);
    const cw_factor b = cw_item(share ? d[1].share : d[1].count, i1);
    const cw_factor e = cw_item(share ? d[2].share : d[2].count, i2);

    return (cw_wide)cw_times(cw_times(cw_times((cw_factor)c.divisor, a), b), e);
}

CV_FN cw_wide cw_load(const cw_call &c, const CW_ITEM *plane, cm_i64 at)
{
    const cw_wide x = (cw_wide)cm_real(plane[at]);

    if (!c.shares)
        return x;
    const cm_i64 row = at / c.dim[2].in, i0 = row / c.dim[1].in;
    return cw_over(x, cw_divisor(c, true, i0, row - i0 * c.dim[1].in, at - row * c.dim[2].in));
}

/* Runs `text` for each position `at` of the place (p0, p1, p2). */
#define CW_RANGES(d, p, r)                                                                     \
    for (const cm_i64 *r = call.dim[d].range + 3 * call.dim[d].start[p],                       \
                      *r##_end = call.dim[d].range + 3 * call.dim[d].start[p + 1];             \
         r < r##_end; r += 3)
#define CW_EACH(text)                                                                          \
    CW_RANGES(0, p0, r)                                                                        \
    CW_RANGES(1, p1, s)                                                                        \
    for (cm_i64 i = 0; i < r[2]; i++)                                                          \
        for (cm_i64 j = 0; j < s[2]; j++) {                                                    \
            const cm_i64 row = r[0] + i * r[1] + s[0] + j * s[1];                              \
            CW_RANGES(2, p2, t)                                                                \
            for (cm_i64 k = 0; k < t[2]; k++) {                                                \
                const cm_i64 at = row + t[0] + k * t[1];                                       \
                text;                                                                          \
            }                                                                                  \
        }

#define CW_PLACES(text)                                                                        \
    for (cm_i64 n = ck_first_x(); n < call.n; n += ck_step_x()) {                              \
        const cm_i64 number = n / call.out, rest = n - number * call.out;                      \
        const cm_i64 line = rest / call.dim[2].size, p2 = rest - line * call.dim[2].size;      \
        const cm_i64 p0 = line / call.dim[1].size, p1 = line - p0 * call.dim[1].size;          \
        const CW_ITEM *const plane = call.from + number * call.in;                             \
        text                                                                                   \
    }

CK_KERNEL(cw_sum, cw_call){CW_PLACES({
    cw_wide sum = 0;
    bool some = false;
    CW_EACH(sum = cw_add(sum, cw_load(call, plane, at)); some = true)
    if (call.divides && some)
        sum = cw_over(sum, cw_divisor(call, false, p0, p1, p2));
    call.result[n] = cm_to<CW_ITEM>::of(sum);
})}

CV_FN cm_i64 cw_lowest(cm_i64)
{
    return -9223372036854775807 - 1;
}
CV_FN float cw_lowest(float) { return -__builtin_inff(); }
CV_FN double cw_lowest(double) { return -__builtin_inf(); }

CK_KERNEL(cw_most, cw_call)
{
    CW_PLACES({
        cw_wide most = cw_lowest((cw_wide)0);
        cm_i64 which = -1;
        CW_EACH(const cw_wide x = cw_load(call, plane, at);
                if (x > most || x != x || which < 0) {
                    most = x;
                    which = at;
                })
        call.result[n] = cm_to<CW_ITEM>::of(most);
        call.which[n] = which;
    })
}

/* --- the transpose of a fold to the greatest element --- */

struct cw_spread_axis {
    cm_i64 in, out, kernel, stride, pad, dilation;
};
struct cw_spread_call {
    CW_ITEM *to;
    const CW_ITEM *from;
    const cm_i64 *which;
    cm_i64 n, channels; /* beside each other in memory: 1, or all where they come last */
    cw_spread_axis dim[3];
};

/* Of numbers that are not negative: division of 32 bits is much faster than of 64 bits. */
CV_FN cm_i64 cw_quotient(cm_i64 a, cm_i64 b)
{
    return (a | b) >> 32 ? a / b : (cm_i64)((unsigned)a / (unsigned)b);
}

CV_FN cm_i64 cw_first(const cw_spread_axis &d, cm_i64 p)
{
    const cm_i64 before = p + d.pad - (d.kernel - 1) * d.dilation;

    return before <= 0 ? 0 : cw_quotient(before + d.stride - 1, d.stride);
}
CV_FN cm_i64 cw_last(const cw_spread_axis &d, cm_i64 p)
{
    const cm_i64 q = cw_quotient(p + d.pad, d.stride);

    return q < d.out ? q : d.out - 1;
}

/* A thread adds up what the windows that have its element send to it, in row-major order of the
 * windows, as the host does. */
CK_KERNEL(cw_spread, cw_spread_call)
{
    const cw_spread_axis *const d = call.dim;

    for (cm_i64 n = ck_first_x(); n < call.n; n += ck_step_x()) {
        const cm_i64 row = cw_quotient(n, call.channels), channel = n - row * call.channels;
        const cm_i64 line = cw_quotient(row, d[2].in), p2 = row - line * d[2].in;
        const cm_i64 plane = cw_quotient(line, d[1].in), p1 = line - plane * d[1].in;
        const cm_i64 number = cw_quotient(plane, d[0].in), p0 = plane - number * d[0].in;
        const cm_i64 at = (p0 * d[1].in + p1) * d[2].in + p2;
        cw_wide sum = 0;
        for (cm_i64 q0 = cw_first(d[0], p0); q0 <= cw_last(d[0], p0); q0++)
            for (cm_i64 q1 = cw_first(d[1], p1); q1 <= cw_last(d[1], p1); q1++)
                for (cm_i64 q2 = cw_first(d[2], p2); q2 <= cw_last(d[2], p2); q2++) {
                    const cm_i64 place =
                        ((((number * d[0].out + q0) * d[1].out + q1) * d[2].out) + q2) *
                            call.channels +
                        channel;
                    if (call.which[place] == at)
                        sum = cw_add(sum, (cw_wide)cm_real(call.from[place]));
                }
        call.to[n] = cm_to<CW_ITEM>::of(sum);
    }
}

#endif
