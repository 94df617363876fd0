/* window.cuh - folds of windows on an NVIDIA GPU (cr_windows of cresset_backend.h).
 *
 * Follows move.cuh.  A thread folds the positions of CW_LANES elements of the result, in
 * row-major order, as the host does.  CW_ITEM is the type of elements. */
#ifndef CR_EMIT_WINDOW_CUH
#define CR_EMIT_WINDOW_CUH

#include "emit/move.cuh"

/* Elements that are beside each other in memory, and have a thread. */
struct alignas(CW_LANES * sizeof(CW_ITEM)) cw_vector {
    CW_ITEM item[CW_LANES];
};
struct alignas(CW_LANES > 1 ? 16 : 8) cw_numbers {
    cm_i64 item[CW_LANES];
};

/* The positions of place p are those of p * stride - pad + u * dilation, u < kernel, that are
 * elements, or those of the ranges. */
struct cw_axis {
    cm_i64 size, in;
    const cm_i64 *start, *range;
    const double *count, *share;
    int kernel, stride, pad, dilation;
};
struct cw_call {
    CW_ITEM *result;
    cm_i64 *which;
    const CW_ITEM *from;
    cm_i64 n, in, out, channels, divisor;
    int divides, shares;
    cw_axis dim[3];
};

/* Of numbers that are not negative: division of 32 bits is much faster than of 64 bits. */
CV_FN cm_i64 cw_quotient(cm_i64 a, cm_i64 b)
{
    return (a | b) >> 32 ? a / b : (cm_i64)((unsigned)a / (unsigned)b);
}
CV_FN unsigned cw_quotient(unsigned a, unsigned b) { return b == 1 ? a : a / b; }

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
        const cm_i64 number = cw_quotient(n, call.out), rest = n - number * call.out;          \
        const cm_i64 line = cw_quotient(rest, call.dim[2].size);                               \
        const cm_i64 p2 = rest - line * call.dim[2].size;                                      \
        const cm_i64 p0 = cw_quotient(line, call.dim[1].size);                                 \
        const cm_i64 p1 = line - p0 * call.dim[1].size;                                        \
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

/* --- windows of one form --- */

/* A place's positions: `n` of them, `first`, first + dilation, ... */
struct cw_line {
    int first, n;
};

CV_FN cw_line cw_positions(const cw_axis &d, int p)
{
    const int at = p * d.stride - d.pad, in = (int)d.in;
    int low = 0, high = d.kernel;

    if (d.dilation == 1) {
        low = at < 0 ? -at : 0;
        high = at + high > in ? in - at : high;
    } else {
        low = at < 0 ? (d.dilation - 1 - at) / d.dilation : 0;
        high = at >= in                             ? 0
               : at + (high - 1) * d.dilation >= in ? (in - 1 - at) / d.dilation + 1
                                                    : high;
    }
    return {at + low * d.dilation, high - low};
}

/* A thread's place: plane and positions, and where its elements and its results are. */
struct cw_place {
    unsigned p0, p1, p2;
    cw_line line[3];
    const CW_ITEM *from;
    cm_i64 to;
};

CV_FN cw_place cw_place_of(const cw_call &c, unsigned n)
{
    const unsigned groups = (unsigned)c.channels / CW_LANES, row = cw_quotient(n, groups);
    const unsigned channel = (n - row * groups) * CW_LANES;
    const unsigned line = cw_quotient(row, (unsigned)c.dim[2].size);
    const unsigned plane = cw_quotient(line, (unsigned)c.dim[1].size);
    const unsigned number = cw_quotient(plane, (unsigned)c.dim[0].size);
    cw_place p;

    p.p2 = row - line * (unsigned)c.dim[2].size;
    p.p1 = line - plane * (unsigned)c.dim[1].size;
    p.p0 = plane - number * (unsigned)c.dim[0].size;
    p.line[0] = cw_positions(c.dim[0], (int)p.p0);
    p.line[1] = cw_positions(c.dim[1], (int)p.p1);
    p.line[2] = cw_positions(c.dim[2], (int)p.p2);
    p.from = c.from + (cm_i64)number * c.in * c.channels + channel;
    p.to = (cm_i64)row * c.channels + channel;
    return p;
}

/* Runs `text` for the elements x of each position `at`. */
#define CW_EVEN(text)                                                                          \
    for (int i = 0; i < p.line[0].n; i++)                                                      \
        for (int j = 0; j < p.line[1].n; j++) {                                                \
            const int plane = p.line[0].first + i * call.dim[0].dilation;                      \
            const int line = p.line[1].first + j * call.dim[1].dilation;                       \
            int at =                                                                           \
                (plane * (int)call.dim[1].in + line) * (int)call.dim[2].in + p.line[2].first;  \
            for (int k = 0; k < p.line[2].n; k++, at += call.dim[2].dilation) {                \
                const cw_vector x = *(const cw_vector *)(p.from + at * call.channels);         \
                for (int l = 0; l < CW_LANES; l++) {                                           \
                    text;                                                                      \
                }                                                                              \
            }                                                                                  \
        }

CK_KERNEL(cw_even_sum, cw_call)
{
    for (cm_i64 n = ck_first_x(); n < call.n; n += ck_step_x()) {
        const cw_place p = cw_place_of(call, (unsigned)n);
        const bool some = p.line[0].n > 0 && p.line[1].n > 0 && p.line[2].n > 0;
        cw_wide sum[CW_LANES];
        cw_vector out;

        CV_ALL
        for (int l = 0; l < CW_LANES; l++)
            sum[l] = 0;
        CW_EVEN(sum[l] = cw_add(sum[l], (cw_wide)cm_real(x.item[l])))
        if (call.divides && some) {
            const cw_wide by = cw_divisor(call, false, p.p0, p.p1, p.p2);
            for (int l = 0; l < CW_LANES; l++)
                sum[l] = cw_over(sum[l], by);
        }
        for (int l = 0; l < CW_LANES; l++)
            out.item[l] = cm_to<CW_ITEM>::of(sum[l]);
        *(cw_vector *)(call.result + p.to) = out;
    }
}

CK_KERNEL(cw_even_most, cw_call)
{
    for (cm_i64 n = ck_first_x(); n < call.n; n += ck_step_x()) {
        const cw_place p = cw_place_of(call, (unsigned)n);
        cw_wide most[CW_LANES];
        int which[CW_LANES];
        cw_vector out;
        cw_numbers numbers;

        for (int l = 0; l < CW_LANES; l++) {
            most[l] = cw_lowest((cw_wide)0);
            which[l] = -1;
        }
        CW_EVEN({
            const cw_wide y = (cw_wide)cm_real(x.item[l]);
            if (y > most[l] || y != y || which[l] < 0) {
                most[l] = y;
                which[l] = at;
            }
        })
        for (int l = 0; l < CW_LANES; l++) {
            out.item[l] = cm_to<CW_ITEM>::of(most[l]);
            numbers.item[l] = which[l];
        }
        *(cw_numbers *)(call.which + p.to) = numbers;
        *(cw_vector *)(call.result + p.to) = out;
    }
}

/* --- transposes of windows of one form --- */

/* `channels` are beside each other in memory: 1, or all where they come last.  A thread has
 * CW_LANES channels, or CW_LANES elements of a line where there is one. */
struct cw_spread_axis {
    int in, out, kernel, stride, pad, dilation;
};
struct cw_spread_call {
    CW_ITEM *to;
    const CW_ITEM *from;
    const cm_i64 *which;
    cm_i64 n, channels;
    cw_spread_axis dim[3];
};

/* The first and the last window with an element from p on to `end`. */
CV_FN int cw_first(const cw_spread_axis &d, int p)
{
    const int before = p + d.pad - (d.kernel - 1) * d.dilation;

    return before <= 0
               ? 0
               : (int)cw_quotient((unsigned)(before + d.stride - 1), (unsigned)d.stride);
}
CV_FN int cw_last(const cw_spread_axis &d, int p)
{
    const int q = (int)cw_quotient((unsigned)(p + d.pad), (unsigned)d.stride);

    return q < d.out ? q : d.out - 1;
}

/* A thread's elements: `left` of a line from (p0, p1, p2) on, or channels of that place. */
struct cw_elements {
    int p0, p1, p2, left;
    unsigned number, channel; /* of the plane */
    cm_i64 to;
};

CV_FN cw_elements cw_elements_of(const cw_spread_axis *d, cm_i64 channels, unsigned n)
{
    const bool lines = channels == 1;
    const unsigned groups = lines ? 1 : (unsigned)channels / CW_LANES;
    const int step = lines ? CW_LANES : 1, parts = (d[2].in + step - 1) / step;
    const unsigned row = cw_quotient(n, groups), line = cw_quotient(row, (unsigned)parts);
    const unsigned plane = cw_quotient(line, (unsigned)d[1].in);
    cw_elements e;

    e.number = cw_quotient(plane, (unsigned)d[0].in);
    e.channel = (n - row * groups) * CW_LANES;
    e.p2 = (int)(row - line * (unsigned)parts) * step;
    e.p1 = (int)(line - plane * (unsigned)d[1].in);
    e.p0 = (int)(plane - e.number * (unsigned)d[0].in);
    e.left = d[2].in - e.p2 < step ? d[2].in - e.p2 : step;
    e.to = lines ? (cm_i64)line * d[2].in + e.p2 : (cm_i64)row * channels + e.channel;
    return e;
}

CV_FN void cw_store_elements(CW_ITEM *to, const cw_elements &e, bool lines, const cw_wide *sum)
{
    cw_vector out;

    CV_ALL
    for (int l = 0; l < CW_LANES; l++)
        out.item[l] = cm_to<CW_ITEM>::of(sum[l]);
    if ((!lines || e.left == CW_LANES) && (cm_i64)(to + e.to) % (cm_i64)sizeof out == 0)
        *(cw_vector *)(to + e.to) = out;
    else {
        CV_ALL
        for (int l = 0; l < CW_LANES; l++)
            if (!lines || l < e.left)
                to[e.to + l] = out.item[l];
    }
}

CV_FN cw_spread_axis cw_places(const cw_axis &d)
{
    return {(int)d.size, (int)d.in, d.kernel, d.stride, d.pad, d.dilation};
}

/* Runs `text` for the windows (q0, q1, q2) with an element of `e`, in row-major order, as the
 * host does; their results are at `place`. */
#define CW_WINDOWS(channels, text)                                                             \
    const int first = cw_first(d[2], e.p2), last = cw_last(d[2], e.p2 + e.left - 1);           \
    for (int q0 = cw_first(d[0], e.p0); q0 <= cw_last(d[0], e.p0); q0++)                       \
        for (int q1 = cw_first(d[1], e.p1); q1 <= cw_last(d[1], e.p1); q1++)                   \
            for (int q2 = first; q2 <= last; q2++) {                                           \
                const cm_i64 place =                                                           \
                    ((((cm_i64)e.number * d[0].out + q0) * d[1].out + q1) * d[2].out + q2) *   \
                        (channels) +                                                           \
                    e.channel;                                                                 \
                text                                                                           \
            }

/* The gradient of an extreme: a thread adds up what the windows that have its elements send to
 * them. */
CK_KERNEL(cw_spread, cw_spread_call)
{
    const cw_spread_axis *const d = call.dim;
    const bool lines = call.channels == 1;

    for (cm_i64 m = ck_first_x(); m < call.n; m += ck_step_x()) {
        const cw_elements e = cw_elements_of(d, call.channels, (unsigned)m);
        const int at = (e.p0 * d[1].in + e.p1) * d[2].in + e.p2;
        cw_wide sum[CW_LANES];

        CV_ALL
        for (int l = 0; l < CW_LANES; l++)
            sum[l] = 0;
        CW_WINDOWS(call.channels, {
            if (lines) {
                const int which = (int)call.which[place] - at;
                const cw_wide x = (cw_wide)cm_real(call.from[place]);
                CV_ALL
                for (int l = 0; l < CW_LANES; l++)
                    if (which == l)
                        sum[l] = cw_add(sum[l], x);
                continue;
            }
            const cw_vector x = *(const cw_vector *)(call.from + place);
            const cw_numbers which = *(const cw_numbers *)(call.which + place);
            CV_ALL
            for (int l = 0; l < CW_LANES; l++)
                if ((int)which.item[l] == at)
                    sum[l] = cw_add(sum[l], (cw_wide)cm_real(x.item[l]));
        })
        cw_store_elements(call.to, e, lines, sum);
    }
}

/* The gradient of a sum: a place of the result has the windows with this element. */
CK_KERNEL(cw_shared, cw_call)
{
    const bool lines = call.channels == 1;
    cw_spread_axis d[3];

    CV_ALL
    for (int k = 0; k < 3; k++)
        d[k] = cw_places(call.dim[k]);
    for (cm_i64 m = ck_first_x(); m < call.n; m += ck_step_x()) {
        const cw_elements e = cw_elements_of(d, call.channels, (unsigned)m);
        cw_wide sum[CW_LANES];

        CV_ALL
        for (int l = 0; l < CW_LANES; l++)
            sum[l] = 0;
        CW_WINDOWS(call.channels, {
            const cw_wide by = call.shares ? cw_divisor(call, true, q0, q1, q2) : (cw_wide)1;
            if (lines) {
                const int from = e.p2 + d[2].pad - q2 * d[2].stride;
                const cw_wide x = cw_over((cw_wide)cm_real(call.from[place]), by);
                CV_ALL
                for (int l = 0; l < CW_LANES; l++)
                    if (from + l >= 0 && from + l < d[2].kernel)
                        sum[l] = cw_add(sum[l], x);
                continue;
            }
            const cw_vector x = *(const cw_vector *)(call.from + place);
            CV_ALL
            for (int l = 0; l < CW_LANES; l++)
                sum[l] = cw_add(sum[l], cw_over((cw_wide)cm_real(x.item[l]), by));
        })
        cw_store_elements(call.result, e, lines, sum);
    }
}

/* --- windows of one form, of neighbours of a line --- */

/* Runs `text` for each position `at` of element l of `e`. */
#define CW_LINES(text)                                                                         \
    const cw_axis *const dim = call.dim;                                                       \
    const cw_line a = cw_positions(dim[0], e.p0), b = cw_positions(dim[1], e.p1);              \
    const CW_ITEM *const plane = call.from + (cm_i64)e.number * call.in;                       \
    cw_line own[CW_LANES];                                                                     \
    CV_ALL                                                                                     \
    for (int l = 0; l < CW_LANES; l++) {                                                       \
        own[l] = cw_positions(dim[2], e.p2 + l);                                               \
        own[l].n = l < e.left ? own[l].n : 0;                                                  \
    }                                                                                          \
    CV_LOOP                                                                                    \
    for (int i = 0; i < a.n; i++)                                                              \
        for (int j = 0; j < b.n; j++) {                                                        \
            const int row = ((a.first + i * dim[0].dilation) * (int)dim[1].in + b.first +      \
                             j * dim[1].dilation) *                                            \
                            (int)dim[2].in;                                                    \
            CV_ALL                                                                             \
            for (int l = 0; l < CW_LANES; l++)                                                 \
                for (int k = 0, at = row + own[l].first; k < own[l].n;                         \
                     k++, at += dim[2].dilation) {                                             \
                    text                                                                       \
                }                                                                              \
        }

CK_KERNEL(cw_line_sum, cw_call)
{
    const cw_spread_axis d[3] = {cw_places(call.dim[0]), cw_places(call.dim[1]),
                                 cw_places(call.dim[2])};

    for (cm_i64 m = ck_first_x(); m < call.n; m += ck_step_x()) {
        const cw_elements e = cw_elements_of(d, 1, (unsigned)m);
        cw_wide sum[CW_LANES];
        CV_ALL
        for (int l = 0; l < CW_LANES; l++)
            sum[l] = 0;
        CW_LINES(sum[l] = cw_add(sum[l], (cw_wide)cm_real(plane[at]));)
        CV_ALL
        for (int l = 0; l < CW_LANES; l++)
            if (call.divides && a.n > 0 && b.n > 0 && own[l].n > 0)
                sum[l] = cw_over(sum[l], cw_divisor(call, false, e.p0, e.p1, e.p2 + l));
        cw_store_elements(call.result, e, true, sum);
    }
}

CK_KERNEL(cw_line_most, cw_call)
{
    const cw_spread_axis d[3] = {cw_places(call.dim[0]), cw_places(call.dim[1]),
                                 cw_places(call.dim[2])};

    for (cm_i64 m = ck_first_x(); m < call.n; m += ck_step_x()) {
        const cw_elements e = cw_elements_of(d, 1, (unsigned)m);
        cw_wide most[CW_LANES];
        int which[CW_LANES];
        CV_ALL
        for (int l = 0; l < CW_LANES; l++) {
            most[l] = cw_lowest((cw_wide)0);
            which[l] = -1;
        }
        CW_LINES({
            const cw_wide x = (cw_wide)cm_real(plane[at]);
            if (x > most[l] || x != x || which[l] < 0) {
                most[l] = x;
                which[l] = at;
            }
        })
        cm_i64 *const to = call.which + e.to;
        if (e.left == CW_LANES && (cm_i64)to % 16 == 0) {
            cw_numbers numbers;
            CV_ALL
            for (int l = 0; l < CW_LANES; l++)
                numbers.item[l] = which[l];
            *(cw_numbers *)to = numbers;
        } else {
            CV_ALL
            for (int l = 0; l < CW_LANES; l++)
                if (l < e.left)
                    to[l] = which[l];
        }
        cw_store_elements(call.result, e, true, most);
    }
}

#endif
