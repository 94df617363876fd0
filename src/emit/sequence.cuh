/* sequence.cuh - ranges of numbers on an NVIDIA GPU, with the bits of kern/cpu/value/factory.c.
 *
 * Follows move.cuh.  CQ_ITEM is the type of elements, CQ_FORM one of the numbers below. */
#ifndef CR_EMIT_SEQUENCE_CUH
#define CR_EMIT_SEQUENCE_CUH

#include "emit/move.cuh"

#define CQ_ARANGE   0
#define CQ_RANGE    1
#define CQ_LINSPACE 2
#define CQ_LOGSPACE 3

struct cq_call {
    char *to;
    cm_i64 n, step, int_start, int_by; /* step: bytes */
    double start, end, by, base;
};

/* wide: the type of arithmetic; group: elements of 32 bytes. */
template <class T> struct cq_type {
    typedef cm_i64 wide;
    static const int group = 1;
};
#define CQ_DEFINE_TYPE(T, W, G)                                                                \
    template <> struct cq_type<T> {                                                            \
        typedef W wide;                                                                        \
        static const int group = G;                                                            \
    };
CQ_DEFINE_TYPE(cm_f16, float, 16)
CQ_DEFINE_TYPE(cm_bf16, float, 16)
CQ_DEFINE_TYPE(cm_f32, double, 8)
CQ_DEFINE_TYPE(cm_f64, double, 4)
typedef cq_type<CQ_ITEM>::wide cq_wide;

CV_FN float cq_fma(float a, float b, float c) { return CV_FMAF(a, b, c); }
CV_FN double cq_fma(double a, double b, double c) { return CV_FMAD(a, b, c); }
CV_FN double cq_round(double x) { return (double)cm_real(cm_to<CQ_ITEM>::of(x)); }

#if CQ_FORM == CQ_ARANGE
/* Groups come in pairs; elements behind the last pair have no group. */
template <class W> CV_FN CQ_ITEM cq_element(const cq_call &c, cm_i64 i, W)
{
    const int group = cq_type<CQ_ITEM>::group;
    const W by = (W)c.by;
    const cm_i64 k = i % group;

    if (i >= c.n / (2 * group) * (2 * group))
        return cm_to<CQ_ITEM>::of(cq_fma(by, (W)i, (W)c.start));
    const W first = (W)cm_real(cm_to<CQ_ITEM>::of(cq_fma(by, (W)(i - k), (W)c.start)));
    return cm_to<CQ_ITEM>::of(cq_fma(by, (W)k, first));
}
CV_FN CQ_ITEM cq_element(const cq_call &c, cm_i64 i, cm_i64)
{
    return cm_to<CQ_ITEM>::of((cm_i64)((unsigned long long)c.int_start +
                                       (unsigned long long)i * (unsigned long long)c.int_by));
}
#elif CQ_FORM == CQ_RANGE
CV_FN CQ_ITEM cq_element(const cq_call &c, cm_i64 i, float)
{
    return cm_to<CQ_ITEM>::of((float)c.start + (float)i * (float)c.by);
}
CV_FN CQ_ITEM cq_element(const cq_call &c, cm_i64 i, double)
{
    return cm_to<CQ_ITEM>::of(c.start + (double)i * c.by);
}
#elif CQ_FORM == CQ_LINSPACE
struct cq_half {
};
template <class T> struct cq_way {
    typedef double type;
};
template <> struct cq_way<cm_f32> {
    typedef float type;
};
template <> struct cq_way<cm_c64> {
    typedef float type;
};
template <> struct cq_way<cm_f16> {
    typedef cq_half type;
};
template <> struct cq_way<cm_bf16> {
    typedef cq_half type;
};
CV_FN CQ_ITEM cq_steps(double from, double by, double n, float)
{
    return cm_to<CQ_ITEM>::of(CV_FMAF((float)by, (float)n, (float)from));
}
CV_FN CQ_ITEM cq_steps(double from, double by, double n, double)
{
    return cm_to<CQ_ITEM>::of(CV_FMAD(by, n, from));
}
CV_FN CQ_ITEM cq_steps(double from, double by, double n, cq_half)
{
    return cm_to<CQ_ITEM>::of(from + cq_round(by * cq_round(n)));
}
/* Each half is computed from the nearer end. */
template <class W> CV_FN CQ_ITEM cq_element(const cq_call &c, cm_i64 i, W)
{
    typedef typename cq_way<CQ_ITEM>::type way;

    return i < c.n / 2 ? cq_steps(c.start, c.by, (double)i, way())
                       : cq_steps(c.end, c.by, -(double)(c.n - 1 - i), way());
}
#else
#ifndef __CUDACC_RTC__
extern "C" double pow(double, double);
#endif
/* Powers in double precision for every dtype, by the device's library: bits may differ from the
 * host's.  Whole powers are products, so integers are not truncated to the number below. */
CV_FN double cq_power(double base, double exponent)
{
    double r = 1;

    if (!(exponent >= -1023 && exponent <= 1023) || exponent != (double)(int)exponent)
        return pow(base, exponent);
    for (int n = exponent < 0 ? -(int)exponent : (int)exponent; n; n /= 2) {
        r = n % 2 ? r * base : r;
        base *= base;
    }
    return exponent < 0 ? 1 / r : r;
}
template <class W> CV_FN CQ_ITEM cq_element(const cq_call &c, cm_i64 i, W)
{
    return cm_to<CQ_ITEM>::of(cq_power(c.base, i < c.n / 2
                                                   ? c.start + c.by * (double)i
                                                   : c.end - c.by * (double)(c.n - 1 - i)));
}
#endif

CK_KERNEL(cq_fill, cq_call)
{
    for (cm_i64 i = ck_first_x(); i < call.n; i += ck_step_x())
        *(CQ_ITEM *)(call.to + i * call.step) = cq_element(call, i, (cq_wide)0);
}

#endif
