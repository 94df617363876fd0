/* vec.cuh - the vocabulary on an NVIDIA GPU: included before vec.h.
 *
 * A thread computes with vectors of 16 bytes.  The text of vec*.h is that of processors; nvcc
 * has no vector extensions, so here is a class with their operators, for every compiler, the
 * fused multiply-add, lane by lane, and the words that make the vocabulary's functions the
 * device's. */
#ifndef CR_EMIT_VEC_CUH
#define CR_EMIT_VEC_CUH

#undef __SSE2__
#define CV_FN   static inline __attribute__((device, always_inline, unused))
#define CV_SLOW static __attribute__((device, noinline, unused))
#ifdef __clang__
#define CV_LIBM extern "C" __attribute__((device))
#define CV_FMAF __builtin_fmaf
#define CV_FMAD __builtin_fma
#define CV_ALL  _Pragma("clang loop unroll(full)")
#else
#define CV_LIBM extern "C"
#define CV_FMAF __fmaf_rn
#define CV_FMAD __fma_rn
#define CV_ALL  _Pragma("unroll")
#endif

/* The integer as wide as a lane, of which a comparison's result is made. */
template <int bytes> struct cv_truth;
template <> struct cv_truth<1> {
    typedef signed char type;
};
template <> struct cv_truth<2> {
    typedef short type;
};
template <> struct cv_truth<4> {
    typedef int type;
};
template <> struct cv_truth<8> {
    typedef __INT64_TYPE__ type;
};

/* A conversion keeps the bits, as that of the extensions does. */
template <class T, int N> struct alignas(sizeof(T) * N) cv_lanes {
    T lane[N];

    typedef cv_lanes<typename cv_truth<sizeof(T)>::type, N> truth;
    __attribute__((device, always_inline)) T &operator[](int l) { return lane[l]; }
    __attribute__((device, always_inline)) const T &operator[](int l) const { return lane[l]; }
    template <class U, int M>
    __attribute__((device, always_inline)) explicit operator cv_lanes<U, M>() const
    {
        cv_lanes<U, M> r;
        static_assert(sizeof r == sizeof lane, "vectors of one size");
        __builtin_memcpy(&r, lane, sizeof r);
        return r;
    }
};

#define CV_TYPE(element, name, bytes)      typedef cv_lanes<element, (bytes) / sizeof(element)> name
#define CV_UNALIGNED(element, name, bytes) CV_TYPE(element, name, bytes)

/* Between vectors, and between a vector and a number, which becomes one of its lanes. */
#define CV_DEFINE_OPERATOR(op)                                                                 \
    template <class T, int N>                                                                  \
    CV_FN cv_lanes<T, N> operator op(cv_lanes<T, N> a, cv_lanes<T, N> b)                       \
    {                                                                                          \
        CV_ALL                                                                                 \
        for (int l = 0; l < N; l++)                                                            \
            a.lane[l] = (T)(a.lane[l] op b.lane[l]);                                           \
        return a;                                                                              \
    }                                                                                          \
    template <class T, int N, class S, class = decltype(T() + S())>                            \
    CV_FN cv_lanes<T, N> operator op(cv_lanes<T, N> a, S b)                                    \
    {                                                                                          \
        CV_ALL                                                                                 \
        for (int l = 0; l < N; l++)                                                            \
            a.lane[l] = (T)(a.lane[l] op(T) b);                                                \
        return a;                                                                              \
    }                                                                                          \
    template <class T, int N, class S, class = decltype(T() + S())>                            \
    CV_FN cv_lanes<T, N> operator op(S a, cv_lanes<T, N> b)                                    \
    {                                                                                          \
        CV_ALL                                                                                 \
        for (int l = 0; l < N; l++)                                                            \
            b.lane[l] = (T)((T)a op b.lane[l]);                                                \
        return b;                                                                              \
    }                                                                                          \
    template <class T, int N, class S>                                                         \
    CV_FN cv_lanes<T, N> &operator op##=(cv_lanes<T, N> &a, S b)                               \
    {                                                                                          \
        return a = a op b;                                                                     \
    }
CV_DEFINE_OPERATOR(+)
CV_DEFINE_OPERATOR(-)
CV_DEFINE_OPERATOR(*)
CV_DEFINE_OPERATOR(/)
CV_DEFINE_OPERATOR(&)
CV_DEFINE_OPERATOR(|)
CV_DEFINE_OPERATOR(^)
CV_DEFINE_OPERATOR(<<)
CV_DEFINE_OPERATOR(>>)

#define CV_DEFINE_SIGN(op)                                                                     \
    template <class T, int N> CV_FN cv_lanes<T, N> operator op(cv_lanes<T, N> a)               \
    {                                                                                          \
        CV_ALL                                                                                 \
        for (int l = 0; l < N; l++)                                                            \
            a.lane[l] = (T)(op a.lane[l]);                                                     \
        return a;                                                                              \
    }
CV_DEFINE_SIGN(-)
CV_DEFINE_SIGN(~)

#define CV_DEFINE_TEST(op)                                                                     \
    template <class T, int N>                                                                  \
    CV_FN typename cv_lanes<T, N>::truth operator op(cv_lanes<T, N> a, cv_lanes<T, N> b)       \
    {                                                                                          \
        typename cv_lanes<T, N>::truth r;                                                      \
        CV_ALL                                                                                 \
        for (int l = 0; l < N; l++)                                                            \
            r.lane[l] = a.lane[l] op b.lane[l] ? -1 : 0;                                       \
        return r;                                                                              \
    }                                                                                          \
    template <class T, int N, class S, class = decltype(T() + S())>                            \
    CV_FN typename cv_lanes<T, N>::truth operator op(cv_lanes<T, N> a, S b)                    \
    {                                                                                          \
        typename cv_lanes<T, N>::truth r;                                                      \
        CV_ALL                                                                                 \
        for (int l = 0; l < N; l++)                                                            \
            r.lane[l] = a.lane[l] op(T) b ? -1 : 0;                                            \
        return r;                                                                              \
    }
CV_DEFINE_TEST(==)
CV_DEFINE_TEST(!=)
CV_DEFINE_TEST(<)
CV_DEFINE_TEST(<=)
CV_DEFINE_TEST(>)
CV_DEFINE_TEST(>=)

template <class V> struct cv_element;
template <class T, int N> struct cv_element<cv_lanes<T, N>> {
    typedef T type;
};
template <class V, class T, int N> CV_FN V cv_converted(cv_lanes<T, N> a)
{
    V r;

    CV_ALL
    for (int l = 0; l < N; l++)
        r.lane[l] = (typename cv_element<V>::type)a.lane[l];
    return r;
}
#define __builtin_convertvector(v, type) cv_converted<type>(v)

template <int... from, class T, int N>
CV_FN cv_lanes<T, (int)sizeof...(from)> cv_shuffled(cv_lanes<T, N> a, cv_lanes<T, N> b)
{
    return {{(from < N ? a.lane[from % N] : b.lane[from % N])...}};
}
#define __builtin_shufflevector(a, b, ...) cv_shuffled<__VA_ARGS__>(a, b)

#define CV_HAS_FMA 1
template <int N>
CV_FN cv_lanes<float, N> cv_x_fma(cv_lanes<float, N> a, cv_lanes<float, N> b,
                                  cv_lanes<float, N> c)
{
    CV_ALL
    for (int l = 0; l < N; l++)
        a.lane[l] = CV_FMAF(a.lane[l], b.lane[l], c.lane[l]);
    return a;
}
template <int N>
CV_FN cv_lanes<double, N> cv_x_fma(cv_lanes<double, N> a, cv_lanes<double, N> b,
                                   cv_lanes<double, N> c)
{
    CV_ALL
    for (int l = 0; l < N; l++)
        a.lane[l] = CV_FMAD(a.lane[l], b.lane[l], c.lane[l]);
    return a;
}
#define CV_X_FMA_f32 cv_x_fma
#define CV_X_FMA_f64 cv_x_fma

#endif
