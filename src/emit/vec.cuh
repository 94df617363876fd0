/* vec.cuh - the vocabulary on an NVIDIA GPU: included before vec.h.
 *
 * A thread computes with vectors of CV_BYTES bytes, 8, 16 or 32.  The text of vec*.h is the one
 * for processors. nvcc has no vector extensions, so this file defines, for every compiler, a
 * class with their operators and the fused multiply-add, lane by lane.  It also defines the
 * macros that turn the vocabulary's functions into functions of the device. */
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
#define CV_LOOP _Pragma("clang loop unroll(disable)")
#else
#define CV_LIBM extern "C"
#define CV_FMAF __fmaf_rn
#define CV_FMAD __fma_rn
#define CV_ALL  _Pragma("unroll")
#define CV_LOOP _Pragma("unroll 1")
#endif

/* List initialization, because NVRTC has no compound literals. */
#define CV_MAKE(type, ...) (type{__VA_ARGS__})

/* The types and functions that other compilers predefine. */
#ifdef __CUDACC_RTC__
#define __INT64_TYPE__          long
#define __UINT64_TYPE__         unsigned long
#define __UINTPTR_TYPE__        unsigned long
#define __builtin_memcpy        memcpy
#define __builtin_inff()        __int_as_float(0x7f800000)
#define __builtin_nanf(text)    __int_as_float(0x7fc00000)
#define __builtin_inf()         __longlong_as_double(0x7ff0000000000000)
#define __builtin_nan(text)     __longlong_as_double(0x7ff8000000000000)
#define __builtin_clzll         __clzll
#define __builtin_popcount      __popc
#define __builtin_constant_p(n) false
#define __builtin_isinf         isinf
#define __builtin_fmaf          __fmaf_rn
#define __builtin_fma           __fma_rn
/* NVRTC has these two itself: a function of the name would call itself without end. */
#define __builtin_copysignf copysignf
#define __builtin_copysign  copysign
#define CV_BUILTIN1_(name)                                                                     \
    __device__ inline float __builtin_##name##f(float x) { return name##f(x); }                \
    __device__ inline double __builtin_##name(double x) { return name(x); }
#define CV_BUILTIN2_(name)                                                                     \
    __device__ inline float __builtin_##name##f(float x, float y) { return name##f(x, y); }    \
    __device__ inline double __builtin_##name(double x, double y) { return name(x, y); }
CV_BUILTIN1_(sqrt)
CV_BUILTIN1_(floor)
CV_BUILTIN1_(rint)
CV_BUILTIN1_(fabs)
CV_BUILTIN1_(erfc)
CV_BUILTIN1_(erf)
CV_BUILTIN1_(exp)
CV_BUILTIN1_(exp2)
CV_BUILTIN1_(expm1)
CV_BUILTIN1_(log)
CV_BUILTIN1_(log2)
CV_BUILTIN1_(log10)
CV_BUILTIN1_(log1p)
CV_BUILTIN1_(sin)
CV_BUILTIN1_(cos)
CV_BUILTIN1_(tan)
CV_BUILTIN1_(sinh)
CV_BUILTIN1_(cosh)
CV_BUILTIN1_(tanh)
CV_BUILTIN1_(asin)
CV_BUILTIN1_(acos)
CV_BUILTIN1_(atan)
CV_BUILTIN1_(asinh)
CV_BUILTIN1_(acosh)
CV_BUILTIN1_(atanh)
CV_BUILTIN2_(atan2)
CV_BUILTIN2_(pow)
CV_BUILTIN2_(fmod)
CV_BUILTIN2_(hypot)
__device__ inline float __builtin_scalbnf(float x, int n) { return scalbnf(x, n); }
__device__ inline double __builtin_scalbn(double x, int n) { return scalbn(x, n); }
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

/* The greater and the lesser number, NaN before others; of +0 and -0 either one. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define CV_DEFINE_MOST(name, text, test)                                                       \
    CV_FN float cv_x_##name(float a, float b)                                                  \
    {                                                                                          \
        float x;                                                                               \
        asm(text " %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));                                   \
        return x;                                                                              \
    }                                                                                          \
    CV_DEFINE_MOST_LANES(name)
#else
#define CV_DEFINE_MOST(name, text, test)                                                       \
    CV_FN float cv_x_##name(float a, float b) { return a test b || a != a ? a : b; }           \
    CV_DEFINE_MOST_LANES(name)
#endif
#define CV_DEFINE_MOST_LANES(name)                                                             \
    template <int N>                                                                           \
    CV_FN cv_lanes<float, N> cv_x_##name(cv_lanes<float, N> a, cv_lanes<float, N> b)           \
    {                                                                                          \
        CV_ALL                                                                                 \
        for (int l = 0; l < N; l++)                                                            \
            a.lane[l] = cv_x_##name(a.lane[l], b.lane[l]);                                     \
        return a;                                                                              \
    }
CV_DEFINE_MOST(most, "max.NaN.f32", >)
CV_DEFINE_MOST(least, "min.NaN.f32", <)
#define CV_X_MOST_f32  cv_x_most
#define CV_X_LEAST_f32 cv_x_least

#ifdef __CUDA_ARCH__
/* The division of the compiler takes the same steps after a test of the exponent, whose branch
 * keeps the lanes of a vector from being computed at once. */
template <int N> CV_FN cv_lanes<float, N> cv_x_recip(cv_lanes<float, N> a)
{
    CV_ALL
    for (int l = 0; l < N; l++) {
        float y;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a.lane[l]));
        a.lane[l] = CV_FMAF(CV_FMAF(-a.lane[l], y, 1.0f), y, y);
    }
    return a;
}
#define CV_X_RECIP_f32 cv_x_recip
#endif

/* The nearest bfloat16 or float16, as a float: pairs of lanes share an instruction. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
CV_FN void cv_x_roundpair(float *a, float *b)
{
    unsigned both, low, high;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(*b), "f"(*a));
    low = both << 16;
    high = both & 0xffff0000u;
    __builtin_memcpy(a, &low, sizeof low);
    __builtin_memcpy(b, &high, sizeof high);
}
template <int N> CV_FN cv_lanes<float, N> cv_x_roundbf(cv_lanes<float, N> a)
{
    static_assert(N % 2 == 0, "lanes are rounded in pairs");
    CV_ALL
    for (int l = 0; l < N; l += 2)
        cv_x_roundpair(&a.lane[l], &a.lane[l + 1]);
    return a;
}
template <int N> CV_FN cv_lanes<float, N> cv_x_roundhalf(cv_lanes<float, N> a)
{
    CV_ALL
    for (int l = 0; l < N; l++)
        asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.f32.f16 %0, h; }"
            : "=f"(a.lane[l])
            : "f"(a.lane[l]));
    return a;
}
#define CV_X_ROUNDBF_f32   cv_x_roundbf
#define CV_X_ROUNDHALF_f32 cv_x_roundhalf
#endif

/* --- threads --- */

/* A kernel's head.  Its only parameter is `call`, of the type that follows the name.
 *
 * From compute capability 9.0 on, a kernel may be launched while the one before it in its
 * stream still runs (cr_cuda_launch): it first lets the next one be launched, and waits until
 * all kernels before it have ended. */
#ifndef CK_KERNEL
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && !defined(__clang__)
CV_FN void ck_begin(void)
{
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
#define CK_HEAD_(bounds, name, ...)                                                            \
    CV_FN void name##_body(const __VA_ARGS__ &call);                                           \
    extern "C" __attribute__((global)) void bounds name(                                       \
        const __grid_constant__ __VA_ARGS__ call)                                              \
    {                                                                                          \
        ck_begin();                                                                            \
        name##_body(call);                                                                     \
    }                                                                                          \
    CV_FN void name##_body(const __VA_ARGS__ &call)
#else
#define CK_HEAD_(bounds, name, ...)                                                            \
    extern "C" __attribute__((global)) void bounds name(const __VA_ARGS__ call)
#endif
#define CK_KERNEL(name, ...) CK_HEAD_(, name, __VA_ARGS__)
/* The same for blocks of at most `threads` threads; of CK_AT_ONCE(threads, blocks), for so many
 * blocks of a multiprocessor, whose registers the compiler then uses. */
#define CK_AT_ONCE(threads, blocks) threads, blocks
#ifdef __clang__
#define CK_KERNEL_OF(threads, name, ...)                                                       \
    CK_HEAD_(__attribute__((launch_bounds(threads))), name, __VA_ARGS__)
#else
#define CK_KERNEL_OF(threads, name, ...) CK_HEAD_(__launch_bounds__(threads), name, __VA_ARGS__)
#endif
#define CK_SHARED __attribute__((shared))
/* Declares ck_dynamic, as much shared memory as the launch says. */
#define CK_DYNAMIC extern __attribute__((shared)) __attribute__((aligned(16))) char ck_dynamic[]
#endif

#ifdef __clang__
#define CK_THREAD_(axis) __nvvm_read_ptx_sreg_tid_##axis()
#define CK_WIDTH_(axis)  __nvvm_read_ptx_sreg_ntid_##axis()
#define CK_BLOCK_(axis)  __nvvm_read_ptx_sreg_ctaid_##axis()
#define CK_BLOCKS_(axis) __nvvm_read_ptx_sreg_nctaid_##axis()
#define CK_SHUFFLE_DOWN_(mask, word, by, count)                                                \
    __nvvm_shfl_sync_down_i32(mask, word, by, (32 - count) << 8 | 31)
#define CK_ATOMIC_MOST(p, x) __nvvm_atom_max_gen_ull(p, x)
#define CK_SHUFFLE_FIRST_(mask, word, count)                                                   \
    __nvvm_shfl_sync_idx_i32(mask, word, 0, (32 - count) << 8 | 31)
#define CK_SHUFFLE_(word, lane) __nvvm_shfl_sync_idx_i32(~0u, (int)(word), lane, 31)
#define CK_BALLOT_(truth)       __nvvm_vote_ballot_sync(~0u, truth)
#define CK_SYNC_WARP_()         __nvvm_bar_warp_sync(~0u)
#define CK_ATOMIC_ADD_(p, x)    __nvvm_atom_add_gen_i(p, x)
#define CK_ATOMIC_ADD_64_(p, x) __nvvm_atom_add_gen_ll(p, x)
#else
#define CK_THREAD_(axis)                        (int)threadIdx.axis
#define CK_WIDTH_(axis)                         (int)blockDim.axis
#define CK_BLOCK_(axis)                         blockIdx.axis
#define CK_BLOCKS_(axis)                        gridDim.axis
#define CK_SHUFFLE_DOWN_(mask, word, by, count) __shfl_down_sync(mask, word, by, count)
#define CK_SHUFFLE_FIRST_(mask, word, count)    __shfl_sync(mask, word, 0, count)
#define CK_ATOMIC_MOST(p, x)                    atomicMax(p, x)
#define CK_SHUFFLE_(word, lane)                 __shfl_sync(~0u, (int)(word), lane)
#define CK_BALLOT_(truth)                       __ballot_sync(~0u, truth)
#define CK_SYNC_WARP_()                         __syncwarp()
#define CK_ATOMIC_ADD_(p, x)                    atomicAdd(p, x)
#define CK_ATOMIC_ADD_64_(p, x)                 atomicAdd((unsigned long long *)(p), (unsigned long long)(x))
#endif

/* A word that other blocks of a launch wait for, without an order of other writes. */
#ifdef __CUDA_ARCH__
CV_FN void ck_publish(unsigned long long *word, unsigned long long x)
{
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(word), "l"(x) : "memory");
}
CV_FN unsigned long long ck_published(const unsigned long long *word)
{
    unsigned long long x;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(x) : "l"(word) : "memory");
    return x;
}
/* What the thread has seen and written is before what it does next, for all threads. */
CV_FN void ck_fence(void) { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
#else
CV_FN void ck_fence(void) {}
CV_FN void ck_publish(unsigned long long *word, unsigned long long x)
{
    *(volatile unsigned long long *)word = x;
}
CV_FN unsigned long long ck_published(const unsigned long long *word)
{
    return *(const volatile unsigned long long *)word;
}
#endif

CV_FN int ck_x(void) { return CK_THREAD_(x); }
CV_FN int ck_y(void) { return CK_THREAD_(y); }
CV_FN int ck_wide(void) { return CK_WIDTH_(x); }
CV_FN int ck_thread(void) { return CK_THREAD_(y) * ck_wide() + ck_x(); }
CV_FN __INT64_TYPE__ ck_first_x(void)
{
    return (__INT64_TYPE__)CK_BLOCK_(x) * ck_wide() + ck_x();
}
CV_FN __INT64_TYPE__ ck_step_x(void) { return (__INT64_TYPE__)CK_BLOCKS_(x) * ck_wide(); }

#endif
