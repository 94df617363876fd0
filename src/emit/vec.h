/* vec.h - vectors, masks, loads and stores for generated kernels.
 *
 * Every kernel, prebuilt or compiled at run time, is written in this vocabulary.  A name is
 * cv_<function>_<dtype>, so that a printer of kernels only joins two words.
 *
 * It is plain C with vector extensions and without system headers, because each kernel that is
 * compiled at run time includes the text, and system headers would take longer than the kernel.
 * A program that embeds the text drops its #include lines; the order is num/order.h, vec.h,
 * vec_float.h, vec_f32.h, vec_f64.h (with float32's pow), vec_int.h, vec_complex.h,
 * vec_special.h, vec_random.h. The last four are left out if no name of them is used.
 *
 * Compile with -O2 -ffp-contract=off: every fused multiply-add is spelled cv_fma_*.
 *
 *   cv_f32 cv_f64 cv_i32 cv_i64 cv_u8   vectors of CV_BYTES bytes, CV_LANES_<dtype> lanes
 *   cv_m8 cv_m32 cv_m64                 masks for lanes of 8, 32, 64 bits; opaque
 *   cv_s_<dtype>                        one element
 *
 * A function of one lane never depends on its neighbours, so results are the same wherever
 * an element falls in a vector.  Addresses need no alignment except for cv_stream_*. */
#ifndef CR_EMIT_VEC_H
#define CR_EMIT_VEC_H

#include "num/order.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) &&                  \
    defined(__AVX512VL__)
#define CV_AVX512 1
#define CV_BYTES  64
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define CV_AVX2  1
#define CV_BYTES 32
#else
#ifndef CV_BYTES
#define CV_BYTES 16
#endif
#ifdef __SSE2__
#define CV_SSE2 1
#endif
#endif

#if defined(CV_AVX512) || defined(CV_AVX2)
#define CV_HAS_FMA 1
#endif

#ifndef CV_FN
#define CV_FN static inline __attribute__((always_inline, unused))
/* For rare or long functions: one copy in a file, which is called. */
#define CV_SLOW static __attribute__((noinline, unused))
#define CV_LIBM extern
#endif

#define CV_PRAGMA(text) _Pragma(#text)
#if defined(__clang__) && defined(__CUDA__)
#define CV_UNROLL(n) /* NVRTC compiles this text for use; clang compiles it in tests only */
#elif defined(__clang__)
#define CV_UNROLL(n) CV_PRAGMA(clang loop unroll_count(n))
#elif defined(__CUDACC__)
#define CV_UNROLL(n) CV_PRAGMA(unroll n)
#else
#define CV_UNROLL(n) CV_PRAGMA(GCC unroll n)
#endif

#define CV_LANES_f32  (CV_BYTES / 4)
#define CV_LANES_f64  (CV_BYTES / 8)
#define CV_LANES_i32  (CV_BYTES / 4)
#define CV_LANES_i64  (CV_BYTES / 8)
#define CV_LANES_u8   CV_BYTES
#define CV_LANES_m8   CV_BYTES
#define CV_LANES_m32  (CV_BYTES / 4)
#define CV_LANES_m64  (CV_BYTES / 8)
#define CV_LANES_c64  (CV_BYTES / 4)
#define CV_LANES_c128 (CV_BYTES / 8)

typedef float cv_s_f32;
typedef double cv_s_f64;
typedef int cv_s_i32;
typedef __INT64_TYPE__ cv_s_i64;
typedef unsigned char cv_s_u8;
typedef unsigned int cv_s_u32;
typedef __UINT64_TYPE__ cv_s_u64;

#define CV_VECTOR(bytes) __attribute__((vector_size(bytes)))
/* A vector of the given lanes, or a complex number of the given parts. */
#ifndef CV_MAKE
#define CV_MAKE(type, ...) ((type){__VA_ARGS__})
#endif
#ifndef CV_TYPE
#define CV_TYPE(element, name, bytes) typedef element name CV_VECTOR(bytes)
#define CV_UNALIGNED(element, name, bytes)                                                     \
    typedef element name __attribute__((vector_size(bytes), aligned(1), may_alias))
#endif

CV_TYPE(cv_s_f32, cv_f32, CV_BYTES);
CV_TYPE(cv_s_f64, cv_f64, CV_BYTES);
CV_TYPE(cv_s_i32, cv_i32, CV_BYTES);
CV_TYPE(cv_s_i64, cv_i64, CV_BYTES);
CV_TYPE(cv_s_u8, cv_u8, CV_BYTES);
CV_TYPE(cv_s_u32, cv_u32, CV_BYTES);
CV_TYPE(cv_s_u64, cv_u64, CV_BYTES);
CV_TYPE(signed char, cv_i8, CV_BYTES);

CV_UNALIGNED(cv_s_f32, cv_mem_f32, CV_BYTES);
CV_UNALIGNED(cv_s_f64, cv_mem_f64, CV_BYTES);
CV_UNALIGNED(cv_s_i32, cv_mem_i32, CV_BYTES);
CV_UNALIGNED(cv_s_i64, cv_mem_i64, CV_BYTES);
CV_UNALIGNED(cv_s_u8, cv_mem_u8, CV_BYTES);

/* The bool elements for a vector of 32 or 64-bit lanes. */
CV_UNALIGNED(cv_s_u8, cv_mem_b32, CV_BYTES / 4);
CV_UNALIGNED(cv_s_u8, cv_mem_b64, CV_BYTES / 8);

/* Operand types of the target's built-in functions. */
CV_TYPE(char, cv_raw8, CV_BYTES);
CV_TYPE(long long, cv_raw64, CV_BYTES);
CV_TYPE(char, cv_raw8x16, 16);

#ifdef CV_AVX512
typedef cv_s_u64 cv_m8;
typedef unsigned short cv_m32;
typedef unsigned char cv_m64;
#else
typedef cv_i8 cv_m8;
typedef cv_i32 cv_m32;
typedef cv_i64 cv_m64;
#endif

/* --- target blocks: the only places where compilers and instruction sets differ --- */

#ifdef CV_AVX512
#define CV_ALL8                 (~(cv_s_u64)0)
#define CV_ALL32                ((unsigned short)-1)
#define CV_ALL64                ((unsigned char)-1)
#define CV_X_CMP_f32(a, b, how) __builtin_ia32_cmpps512_mask(a, b, how, CV_ALL32, 4)
#define CV_X_CMP_f64(a, b, how) __builtin_ia32_cmppd512_mask(a, b, how, CV_ALL64, 4)
#define CV_X_CMP_i32(a, b, how) __builtin_ia32_cmpd512_mask(a, b, how, CV_ALL32)
#define CV_X_CMP_i64(a, b, how)                                                                \
    __builtin_ia32_cmpq512_mask((cv_raw64)(a), (cv_raw64)(b), how, CV_ALL64)
#define CV_X_CMP_u8(a, b, how)                                                                 \
    __builtin_ia32_ucmpb512_mask((cv_raw8)(a), (cv_raw8)(b), how, CV_ALL8)
#define CV_X_FMA_f32(a, b, c)    __builtin_ia32_vfmaddps512_mask(a, b, c, CV_ALL32, 4)
#define CV_X_FMA_f64(a, b, c)    __builtin_ia32_vfmaddpd512_mask(a, b, c, CV_ALL64, 4)
#define CV_X_ROUND_f32(a, how)   __builtin_ia32_rndscaleps_mask(a, how, a, CV_ALL32, 4)
#define CV_X_ROUND_f64(a, how)   __builtin_ia32_rndscalepd_mask(a, how, a, CV_ALL64, 4)
#define CV_X_SCALEF_f32(a, b)    __builtin_ia32_scalefps512_mask(a, b, a, CV_ALL32, 4)
#define CV_X_SCALEF_f64(a, b)    __builtin_ia32_scalefpd512_mask(a, b, a, CV_ALL64, 4)
#define CV_X_GETEXP_f32(a)       __builtin_ia32_getexpps512_mask(a, a, CV_ALL32, 4)
#define CV_X_GETMANT_f32(a, how) __builtin_ia32_getmantps512_mask(a, how, a, CV_ALL32, 4)
#ifdef __clang__
#define CV_X_MAX_f32(a, b)       __builtin_ia32_maxps512(a, b, 4)
#define CV_X_MAX_f64(a, b)       __builtin_ia32_maxpd512(a, b, 4)
#define CV_X_MIN_f32(a, b)       __builtin_ia32_minps512(a, b, 4)
#define CV_X_MIN_f64(a, b)       __builtin_ia32_minpd512(a, b, 4)
#define CV_X_SQRT_f32(a)         __builtin_ia32_sqrtps512(a, 4)
#define CV_X_SQRT_f64(a)         __builtin_ia32_sqrtpd512(a, 4)
#define CV_X_SELECT_f32(m, a, b) __builtin_ia32_selectps_512(m, a, b)
#define CV_X_SELECT_f64(m, a, b) __builtin_ia32_selectpd_512(m, a, b)
#define CV_X_SELECT_i32(m, a, b) __builtin_ia32_selectd_512(m, a, b)
#define CV_X_SELECT_i64(m, a, b) __builtin_ia32_selectq_512(m, (cv_raw64)(a), (cv_raw64)(b))
#define CV_X_SELECT_u8(m, a, b)  __builtin_ia32_selectb_512(m, (cv_raw8)(a), (cv_raw8)(b))
#define CV_X_SELECT8X16(m, a, b) __builtin_ia32_selectb_128(m, a, b)
#else
#define CV_X_MAX_f32(a, b)       __builtin_ia32_maxps512_mask(a, b, a, CV_ALL32, 4)
#define CV_X_MAX_f64(a, b)       __builtin_ia32_maxpd512_mask(a, b, a, CV_ALL64, 4)
#define CV_X_MIN_f32(a, b)       __builtin_ia32_minps512_mask(a, b, a, CV_ALL32, 4)
#define CV_X_MIN_f64(a, b)       __builtin_ia32_minpd512_mask(a, b, a, CV_ALL64, 4)
#define CV_X_SQRT_f32(a)         __builtin_ia32_sqrtps512_mask(a, a, CV_ALL32, 4)
#define CV_X_SQRT_f64(a)         __builtin_ia32_sqrtpd512_mask(a, a, CV_ALL64, 4)
#define CV_X_SELECT_f32(m, a, b) __builtin_ia32_blendmps_512_mask(b, a, m)
#define CV_X_SELECT_f64(m, a, b) __builtin_ia32_blendmpd_512_mask(b, a, m)
#define CV_X_SELECT_i32(m, a, b) __builtin_ia32_blendmd_512_mask(b, a, m)
#define CV_X_SELECT_i64(m, a, b)                                                               \
    __builtin_ia32_blendmq_512_mask((cv_raw64)(b), (cv_raw64)(a), m)
#define CV_X_SELECT_u8(m, a, b)  __builtin_ia32_blendmb_512_mask((cv_raw8)(b), (cv_raw8)(a), m)
#define CV_X_SELECT8X16(m, a, b) __builtin_ia32_blendmb_128_mask(b, a, m)
#endif
#elif defined(CV_AVX2)
#define CV_X_FMA_f32(a, b, c)    __builtin_ia32_vfmaddps256(a, b, c)
#define CV_X_FMA_f64(a, b, c)    __builtin_ia32_vfmaddpd256(a, b, c)
#define CV_X_ROUND_f32(a, how)   __builtin_ia32_roundps256(a, how)
#define CV_X_ROUND_f64(a, how)   __builtin_ia32_roundpd256(a, how)
#define CV_X_MAX_f32(a, b)       __builtin_ia32_maxps256(a, b)
#define CV_X_MAX_f64(a, b)       __builtin_ia32_maxpd256(a, b)
#define CV_X_MIN_f32(a, b)       __builtin_ia32_minps256(a, b)
#define CV_X_MIN_f64(a, b)       __builtin_ia32_minpd256(a, b)
#define CV_X_SQRT_f32(a)         __builtin_ia32_sqrtps256(a)
#define CV_X_SQRT_f64(a)         __builtin_ia32_sqrtpd256(a)
#define CV_X_SELECT_f32(m, a, b) __builtin_ia32_blendvps256(b, a, (cv_f32)(m))
#define CV_X_SELECT_f64(m, a, b) __builtin_ia32_blendvpd256(b, a, (cv_f64)(m))
#elif defined(CV_SSE2)
#define CV_X_MAX_f32(a, b) __builtin_ia32_maxps(a, b)
#define CV_X_MAX_f64(a, b) __builtin_ia32_maxpd(a, b)
#define CV_X_MIN_f32(a, b) __builtin_ia32_minps(a, b)
#define CV_X_MIN_f64(a, b) __builtin_ia32_minpd(a, b)
#define CV_X_SQRT_f32(a)   __builtin_ia32_sqrtps(a)
#define CV_X_SQRT_f64(a)   __builtin_ia32_sqrtpd(a)
#endif

/* Numbers of the predicates and roundings above. */
enum {
    CV_EQ = 0,
    CV_LT = 0x11,
    CV_LE = 0x12,
    CV_UNORD = 3,
    CV_NE = 4,
    CV_NLT = 0x15,
    CV_GE = 0x1d,
    CV_GT = 0x1e
};
enum { CV_IEQ = 0, CV_ILT = 1, CV_ILE = 2, CV_INE = 4, CV_IGE = 5, CV_IGT = 6 };
enum { CV_NEAREST = 8, CV_DOWN = 9, CV_UP = 10, CV_ZERO = 11 };

#if defined(__clang__) && defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_sqrt)
#undef CV_X_SQRT_f32
#undef CV_X_SQRT_f64
#define CV_X_SQRT_f32(a) __builtin_elementwise_sqrt(a)
#define CV_X_SQRT_f64(a) __builtin_elementwise_sqrt(a)
#endif
#endif

/* --- constants and whole vectors --- */

CV_FN cv_f32 cv_set1_f32(cv_s_f32 x) { return x - CV_MAKE(cv_f32, 0); }
CV_FN cv_f64 cv_set1_f64(cv_s_f64 x) { return x - CV_MAKE(cv_f64, 0); }
CV_FN cv_i32 cv_set1_i32(cv_s_i32 x) { return x - CV_MAKE(cv_i32, 0); }
CV_FN cv_i64 cv_set1_i64(cv_s_i64 x) { return x - CV_MAKE(cv_i64, 0); }
CV_FN cv_u8 cv_set1_u8(cv_s_u8 x) { return x - CV_MAKE(cv_u8, 0); }

CV_FN cv_i32 cv_iota_i32(void)
{
#if CV_BYTES == 64
    return CV_MAKE(cv_i32, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif CV_BYTES == 32
    return CV_MAKE(cv_i32, 0, 1, 2, 3, 4, 5, 6, 7);
#elif CV_BYTES == 16
    return CV_MAKE(cv_i32, 0, 1, 2, 3);
#else
    return CV_MAKE(cv_i32, 0, 1);
#endif
}

CV_FN cv_i64 cv_iota_i64(void)
{
#if CV_BYTES == 64
    return CV_MAKE(cv_i64, 0, 1, 2, 3, 4, 5, 6, 7);
#elif CV_BYTES == 32
    return CV_MAKE(cv_i64, 0, 1, 2, 3);
#elif CV_BYTES == 16
    return CV_MAKE(cv_i64, 0, 1);
#else
    return CV_MAKE(cv_i64, 0);
#endif
}

CV_FN cv_u8 cv_iota_u8(void)
{
    cv_u8 r = {0};
    for (int l = 0; l < CV_LANES_u8; l++)
        r[l] = (cv_s_u8)l;
    return r;
}

CV_FN cv_f32 cv_iota_f32(void) { return __builtin_convertvector(cv_iota_i32(), cv_f32); }
CV_FN cv_f64 cv_iota_f64(void) { return __builtin_convertvector(cv_iota_i64(), cv_f64); }

/* --- masks --- */

#ifdef CV_AVX512
#define CV_DEFINE_MASK(M, all)                                                                 \
    CV_FN cv_##M cv_and_##M(cv_##M a, cv_##M b) { return a & b; }                              \
    CV_FN cv_##M cv_or_##M(cv_##M a, cv_##M b) { return a | b; }                               \
    CV_FN cv_##M cv_xor_##M(cv_##M a, cv_##M b) { return a ^ b; }                              \
    CV_FN cv_##M cv_not_##M(cv_##M a) { return (cv_##M) ~a; }                                  \
    CV_FN cv_##M cv_above_##M(cv_##M a, cv_##M b) { return (cv_##M)(a & ~b); }                 \
    CV_FN cv_##M cv_below_##M(cv_##M a, cv_##M b) { return (cv_##M)(~a & b); }                 \
    CV_FN int cv_first_##M(cv_##M a) { return __builtin_ctzll(a); }                            \
    CV_FN int cv_any_##M(cv_##M a) { return a != 0; }                                          \
    CV_FN int cv_all_##M(cv_##M a) { return a == all; }                                        \
    CV_FN int cv_count_##M(cv_##M a) { return __builtin_popcountll(a); }
#define CV_DEFINE_FIRSTN(M, W)                                                                 \
    CV_FN cv_##M cv_set1b_##W(int x) { return x ? (cv_##M) - 1 : 0; }                          \
    CV_FN cv_##M cv_firstn_##W(cv_s_i64 n)                                                     \
    {                                                                                          \
        return n >= CV_LANES_##M ? (cv_##M) - 1 : (cv_##M)(((cv_s_u64)1 << n) - 1);            \
    }
CV_DEFINE_MASK(m8, CV_ALL8)
CV_DEFINE_MASK(m32, CV_ALL32)
CV_DEFINE_MASK(m64, CV_ALL64)
CV_DEFINE_FIRSTN(m8, 8)
CV_DEFINE_FIRSTN(m32, 32)
CV_DEFINE_FIRSTN(m64, 64)
#define CV_DEFINE_SELECT(T, M)                                                                 \
    CV_FN cv_##T cv_select_##T(cv_##M m, cv_##T a, cv_##T b)                                   \
    {                                                                                          \
        return (cv_##T)CV_X_SELECT_##T(m, a, b);                                               \
    }
CV_DEFINE_SELECT(f32, m32)
CV_DEFINE_SELECT(f64, m64)
CV_DEFINE_SELECT(i32, m32)
CV_DEFINE_SELECT(i64, m64)
CV_DEFINE_SELECT(u8, m8)
#else
#if defined(CV_AVX2)
#define CV_FIRST_BYTE(a) __builtin_ctz((unsigned)__builtin_ia32_pmovmskb256((cv_raw8)(a)))
#elif defined(__SSE2__)
#define CV_FIRST_BYTE(a) __builtin_ctz((unsigned)__builtin_ia32_pmovmskb128((cv_raw8)(a)))
#else
CV_FN int cv_firstbyte(cv_i8 a)
{
    int l = 0;
    while (l < CV_LANES_m8 - 1 && !a[l])
        l++;
    return l;
}
#define CV_FIRST_BYTE(a) cv_firstbyte((cv_i8)(a))
#endif
/* Every lane is all ones or all zeros, so that any 64 bits have the information of their
 * lanes. */
CV_FN cv_s_u64 cv_fold_or(cv_u64 v)
{
#if CV_BYTES == 32
    return (v[0] | v[1]) | (v[2] | v[3]);
#elif CV_BYTES == 16
    return v[0] | v[1];
#else
    return v[0];
#endif
}
#define CV_DEFINE_MASK(M, S)                                                                   \
    CV_FN cv_##M cv_and_##M(cv_##M a, cv_##M b) { return a & b; }                              \
    CV_FN cv_##M cv_or_##M(cv_##M a, cv_##M b) { return a | b; }                               \
    CV_FN cv_##M cv_xor_##M(cv_##M a, cv_##M b) { return a ^ b; }                              \
    CV_FN cv_##M cv_not_##M(cv_##M a) { return ~a; }                                           \
    CV_FN cv_##M cv_above_##M(cv_##M a, cv_##M b) { return a & ~b; }                           \
    CV_FN cv_##M cv_below_##M(cv_##M a, cv_##M b) { return ~a & b; }                           \
    /* The first lane that is set; at least one is. */                                         \
    CV_FN int cv_first_##M(cv_##M a) { return CV_FIRST_BYTE(a) / (int)sizeof(S); }             \
    CV_FN int cv_any_##M(cv_##M a) { return cv_fold_or((cv_u64)a) != 0; }                      \
    CV_FN int cv_all_##M(cv_##M a) { return cv_fold_or((cv_u64)~a) == 0; }                     \
    CV_FN int cv_count_##M(cv_##M a)                                                           \
    {                                                                                          \
        int n = 0;                                                                             \
        for (int l = 0; l < CV_LANES_##M; l++)                                                 \
            n -= (int)a[l];                                                                    \
        return n;                                                                              \
    }
CV_DEFINE_MASK(m8, signed char)
CV_DEFINE_MASK(m32, cv_s_i32)
CV_DEFINE_MASK(m64, cv_s_i64)
CV_FN cv_m8 cv_set1b_8(int x) { return (cv_m8)cv_set1_u8(x ? 255 : 0); }
CV_FN cv_m32 cv_set1b_32(int x) { return cv_set1_i32(x ? -1 : 0); }
CV_FN cv_m64 cv_set1b_64(int x) { return cv_set1_i64(x ? -1 : 0); }
CV_FN cv_m8 cv_firstn_8(cv_s_i64 n) { return (cv_m8)(cv_iota_u8() < cv_set1_u8((cv_s_u8)n)); }
CV_FN cv_m32 cv_firstn_32(cv_s_i64 n) { return cv_iota_i32() < cv_set1_i32((int)n); }
CV_FN cv_m64 cv_firstn_64(cv_s_i64 n) { return cv_iota_i64() < cv_set1_i64(n); }
#ifdef CV_X_SELECT_f32
#define CV_DEFINE_SELECT(T, M)                                                                 \
    CV_FN cv_##T cv_select_##T(cv_##M m, cv_##T a, cv_##T b)                                   \
    {                                                                                          \
        return CV_X_SELECT_##T(m, a, b);                                                       \
    }
CV_DEFINE_SELECT(f32, m32)
CV_DEFINE_SELECT(f64, m64)
#undef CV_DEFINE_SELECT
#endif
#define CV_DEFINE_SELECT(T, M)                                                                 \
    CV_FN cv_##T cv_select_##T(cv_##M m, cv_##T a, cv_##T b)                                   \
    {                                                                                          \
        return (cv_##T)((m & (cv_##M)a) | (~m & (cv_##M)b));                                   \
    }
#ifndef CV_X_SELECT_f32
CV_DEFINE_SELECT(f32, m32)
CV_DEFINE_SELECT(f64, m64)
#endif
CV_DEFINE_SELECT(i32, m32)
CV_DEFINE_SELECT(i64, m64)
CV_DEFINE_SELECT(u8, m8)
#endif

CV_FN cv_m8 cv_select_m8(cv_m8 m, cv_m8 a, cv_m8 b) { return (m & a) | (~m & b); }
CV_FN cv_m32 cv_select_m32(cv_m32 m, cv_m32 a, cv_m32 b)
{
    return (cv_m32)((m & a) | (~m & b));
}
CV_FN cv_m64 cv_select_m64(cv_m64 m, cv_m64 a, cv_m64 b)
{
    return (cv_m64)((m & a) | (~m & b));
}

#define CV_DEFINE_FROMMASK(T, M, one)                                                          \
    CV_FN cv_##T cv_frommask_##T(cv_##M m)                                                     \
    {                                                                                          \
        return cv_select_##T(m, cv_set1_##T(one), cv_set1_##T(0));                             \
    }
CV_DEFINE_FROMMASK(f32, m32, 1.0f)
CV_DEFINE_FROMMASK(f64, m64, 1.0)
CV_DEFINE_FROMMASK(i32, m32, 1)
CV_DEFINE_FROMMASK(i64, m64, 1)
CV_DEFINE_FROMMASK(u8, m8, 1)

/* --- comparisons --- */

#ifdef CV_AVX512
#define CV_DEFINE_COMPARE(T, M, P)                                                             \
    CV_FN cv_##M cv_eq_##T(cv_##T a, cv_##T b) { return CV_X_CMP_##T(a, b, P##EQ); }           \
    CV_FN cv_##M cv_ne_##T(cv_##T a, cv_##T b) { return CV_X_CMP_##T(a, b, P##NE); }           \
    CV_FN cv_##M cv_lt_##T(cv_##T a, cv_##T b) { return CV_X_CMP_##T(a, b, P##LT); }           \
    CV_FN cv_##M cv_le_##T(cv_##T a, cv_##T b) { return CV_X_CMP_##T(a, b, P##LE); }           \
    CV_FN cv_##M cv_gt_##T(cv_##T a, cv_##T b) { return CV_X_CMP_##T(a, b, P##GT); }           \
    CV_FN cv_##M cv_ge_##T(cv_##T a, cv_##T b) { return CV_X_CMP_##T(a, b, P##GE); }
#else
#define CV_DEFINE_COMPARE(T, M, P)                                                             \
    CV_FN cv_##M cv_eq_##T(cv_##T a, cv_##T b) { return (cv_##M)(a == b); }                    \
    CV_FN cv_##M cv_ne_##T(cv_##T a, cv_##T b) { return (cv_##M)(a != b); }                    \
    CV_FN cv_##M cv_lt_##T(cv_##T a, cv_##T b) { return (cv_##M)(a < b); }                     \
    CV_FN cv_##M cv_le_##T(cv_##T a, cv_##T b) { return (cv_##M)(a <= b); }                    \
    CV_FN cv_##M cv_gt_##T(cv_##T a, cv_##T b) { return (cv_##M)(a > b); }                     \
    CV_FN cv_##M cv_ge_##T(cv_##T a, cv_##T b) { return (cv_##M)(a >= b); }
#endif
CV_DEFINE_COMPARE(f32, m32, CV_)
CV_DEFINE_COMPARE(f64, m64, CV_)
CV_DEFINE_COMPARE(i32, m32, CV_I)
CV_DEFINE_COMPARE(i64, m64, CV_I)
CV_DEFINE_COMPARE(u8, m8, CV_I)

/* Casts to bool, and to the same type. */
#define CV_DEFINE_CAST(T, M)                                                                   \
    CV_FN cv_##M cv_cast_bool_##T(cv_##T a) { return cv_ne_##T(a, CV_MAKE(cv_##T, 0)); }       \
    CV_FN cv_##T cv_cast_##T##_##T(cv_##T a) { return a; }
CV_DEFINE_CAST(f32, m32)
CV_DEFINE_CAST(f64, m64)
CV_DEFINE_CAST(i32, m32)
CV_DEFINE_CAST(i64, m64)
CV_DEFINE_CAST(u8, m8)

/* --- memory --- */

/* Copies n <= size <= 64 bytes without a call; size is a constant.  Most accesses of tensors
 * with few elements are of this kind. */
CV_FN void cv_copyn(void *to, const void *from, cv_s_i64 n, int size)
{
    char *d = (char *)to;
    const char *s = (const char *)from;

    if (n >= size) {
        __builtin_memcpy(d, s, (cv_s_u64)size);
        return;
    }
    if (size > 32 && n & 32) {
        __builtin_memcpy(d, s, 32);
        d += 32, s += 32;
    }
    if (size > 16 && n & 16) {
        __builtin_memcpy(d, s, 16);
        d += 16, s += 16;
    }
    if (size > 8 && n & 8) {
        __builtin_memcpy(d, s, 8);
        d += 8, s += 8;
    }
    if (size > 4 && n & 4) {
        __builtin_memcpy(d, s, 4);
        d += 4, s += 4;
    }
    if (size > 2 && n & 2) {
        __builtin_memcpy(d, s, 2);
        d += 2, s += 2;
    }
    if (n & 1)
        *d = *s;
}

#define CV_DEFINE_MEMORY(T)                                                                    \
    CV_FN cv_##T cv_load_##T(const void *p) { return (cv_##T) * (const cv_mem_##T *)p; }       \
    CV_FN void cv_store_##T(void *p, cv_##T v) { *(cv_mem_##T *)p = (cv_mem_##T)v; }
CV_DEFINE_MEMORY(f32)
CV_DEFINE_MEMORY(f64)
CV_DEFINE_MEMORY(i32)
CV_DEFINE_MEMORY(i64)
CV_DEFINE_MEMORY(u8)

#define CV_DEFINE_BYTEWISE(T)                                                                  \
    CV_FN cv_##T cv_loadn_##T(const void *p, cv_s_i64 n)                                       \
    {                                                                                          \
        cv_##T v = {0};                                                                        \
        cv_copyn(&v, p, n *(cv_s_i64)sizeof(cv_s_##T), CV_BYTES);                              \
        return v;                                                                              \
    }                                                                                          \
    CV_FN void cv_storen_##T(void *p, cv_##T v, cv_s_i64 n)                                    \
    {                                                                                          \
        cv_copyn(p, &v, n *(cv_s_i64)sizeof(cv_s_##T), CV_BYTES);                              \
    }

/* A row's one value is a scalar store: some processors take tens of cycles for a masked one. */
#define CV_IS_ONE(n) (__builtin_constant_p(n) && (n) == 1)
#define CV_STORE_FIRST(p, v)                                                                   \
    do {                                                                                       \
        __typeof__((v)[0]) first = (v)[0];                                                     \
        __builtin_memcpy(p, &first, sizeof first);                                             \
    } while (0)

#ifdef CV_AVX512
CV_FN cv_i32 cv_loadn_i32(const void *p, cv_s_i64 n)
{
    return __builtin_ia32_loaddqusi512_mask(p, CV_MAKE(cv_i32, 0), cv_firstn_32(n));
}
CV_FN void cv_storen_i32(void *p, cv_i32 v, cv_s_i64 n)
{
    if (CV_IS_ONE(n))
        CV_STORE_FIRST(p, v);
    else
        __builtin_ia32_storedqusi512_mask(p, v, cv_firstn_32(n));
}
CV_FN cv_i64 cv_loadn_i64(const void *p, cv_s_i64 n)
{
    return (cv_i64)__builtin_ia32_loaddqudi512_mask(p, CV_MAKE(cv_raw64, 0), cv_firstn_64(n));
}
CV_FN void cv_storen_i64(void *p, cv_i64 v, cv_s_i64 n)
{
    if (CV_IS_ONE(n))
        CV_STORE_FIRST(p, v);
    else
        __builtin_ia32_storedqudi512_mask(p, (cv_raw64)v, cv_firstn_64(n));
}
CV_FN cv_u8 cv_loadn_u8(const void *p, cv_s_i64 n)
{
    return (cv_u8)__builtin_ia32_loaddquqi512_mask(p, CV_MAKE(cv_raw8, 0), cv_firstn_8(n));
}
CV_FN void cv_storen_u8(void *p, cv_u8 v, cv_s_i64 n)
{
    __builtin_ia32_storedquqi512_mask(p, (cv_raw8)v, cv_firstn_8(n));
}
#elif defined(CV_AVX2)
CV_FN cv_i32 cv_loadn_i32(const void *p, cv_s_i64 n)
{
    return __builtin_ia32_maskloadd256((const cv_i32 *)p, cv_firstn_32(n));
}
CV_FN void cv_storen_i32(void *p, cv_i32 v, cv_s_i64 n)
{
    if (CV_IS_ONE(n))
        CV_STORE_FIRST(p, v);
    else
        __builtin_ia32_maskstored256((cv_i32 *)p, cv_firstn_32(n), v);
}
CV_FN cv_i64 cv_loadn_i64(const void *p, cv_s_i64 n)
{
    return (cv_i64)__builtin_ia32_maskloadq256((const cv_raw64 *)p, (cv_raw64)cv_firstn_64(n));
}
CV_FN void cv_storen_i64(void *p, cv_i64 v, cv_s_i64 n)
{
    if (CV_IS_ONE(n))
        CV_STORE_FIRST(p, v);
    else
        __builtin_ia32_maskstoreq256((cv_raw64 *)p, (cv_raw64)cv_firstn_64(n), (cv_raw64)v);
}
CV_DEFINE_BYTEWISE(u8)
#else
CV_DEFINE_BYTEWISE(i32)
CV_DEFINE_BYTEWISE(i64)
CV_DEFINE_BYTEWISE(u8)
#endif

CV_FN cv_f32 cv_loadn_f32(const void *p, cv_s_i64 n) { return (cv_f32)cv_loadn_i32(p, n); }
CV_FN cv_f64 cv_loadn_f64(const void *p, cv_s_i64 n) { return (cv_f64)cv_loadn_i64(p, n); }
CV_FN void cv_storen_f32(void *p, cv_f32 v, cv_s_i64 n) { cv_storen_i32(p, (cv_i32)v, n); }
CV_FN void cv_storen_f64(void *p, cv_f64 v, cv_s_i64 n) { cv_storen_i64(p, (cv_i64)v, n); }

/* Stores past the caches.  p is aligned to CV_BYTES; the caller fences afterwards with
 * cv_stream_end before another thread may read. */
CV_FN void cv_stream_f32(void *p, cv_f32 v)
{
#if defined(__clang__) && !defined(CR_EMIT_VEC_CUH)
    __builtin_nontemporal_store(v, (cv_f32 *)p);
#elif defined(CV_AVX512)
    __builtin_ia32_movntps512((float *)p, v);
#elif defined(CV_AVX2)
    __builtin_ia32_movntps256((float *)p, v);
#elif defined(CV_SSE2)
    __builtin_ia32_movntps((float *)p, v);
#else
    cv_store_f32(p, v);
#endif
}
CV_FN void cv_stream_f64(void *p, cv_f64 v) { cv_stream_f32(p, (cv_f32)v); }
CV_FN void cv_stream_i32(void *p, cv_i32 v) { cv_stream_f32(p, (cv_f32)v); }
CV_FN void cv_stream_i64(void *p, cv_i64 v) { cv_stream_f32(p, (cv_f32)v); }
CV_FN void cv_stream_u8(void *p, cv_u8 v) { cv_stream_f32(p, (cv_f32)v); }
CV_FN void cv_stream_end(void)
{
#ifdef CV_SSE2
    __builtin_ia32_sfence();
#elif defined(CV_AVX512) || defined(CV_AVX2)
    __builtin_ia32_sfence();
#endif
}

/* Like cv_stream, for any p; an unaligned address gets a normal store. */
#define CV_DEFINE_STREAMTO(T)                                                                  \
    CV_FN void cv_streamto_##T(void *p, cv_##T v)                                              \
    {                                                                                          \
        if ((__UINTPTR_TYPE__)p & (CV_BYTES - 1))                                              \
            cv_store_##T(p, v);                                                                \
        else                                                                                   \
            cv_stream_##T(p, v);                                                               \
    }
CV_DEFINE_STREAMTO(f32)
CV_DEFINE_STREAMTO(f64)
CV_DEFINE_STREAMTO(i32)
CV_DEFINE_STREAMTO(i64)
CV_DEFINE_STREAMTO(u8)

/* --- bool elements --- */

#ifdef CV_AVX512
#define CV_X_TRUE8X16(v)                                                                       \
    __builtin_ia32_ucmpb128_mask(v, CV_MAKE(cv_raw8x16, 0), CV_INE, CV_ALL32)
CV_FN cv_m8 cv_loadb_8(const void *p) { return cv_ne_u8(cv_load_u8(p), CV_MAKE(cv_u8, 0)); }
CV_FN cv_m8 cv_loadbn_8(const void *p, cv_s_i64 n)
{
    return cv_ne_u8(cv_loadn_u8(p, n), CV_MAKE(cv_u8, 0));
}
CV_FN void cv_storeb_8(void *p, cv_m8 m) { cv_store_u8(p, cv_frommask_u8(m)); }
CV_FN void cv_storebn_8(void *p, cv_m8 m, cv_s_i64 n) { cv_storen_u8(p, cv_frommask_u8(m), n); }
CV_FN cv_m32 cv_loadbn_32(const void *p, cv_s_i64 n)
{
    return CV_X_TRUE8X16(
        __builtin_ia32_loaddquqi128_mask(p, CV_MAKE(cv_raw8x16, 0), cv_firstn_32(n)));
}
CV_FN cv_raw8x16 cv_bytes_of_bits(unsigned short m)
{
    cv_raw8x16 zero = {0};
    return CV_X_SELECT8X16(m, zero + 1, zero);
}
CV_FN void cv_storebn_32(void *p, cv_m32 m, cv_s_i64 n)
{
    __builtin_ia32_storedquqi128_mask(p, cv_bytes_of_bits(m), cv_firstn_32(n));
}
CV_FN cv_m32 cv_loadb_32(const void *p)
{
    return CV_X_TRUE8X16((cv_raw8x16) * (const cv_mem_b32 *)p);
}
CV_FN void cv_storeb_32(void *p, cv_m32 m)
{
    *(cv_mem_b32 *)p = (cv_mem_b32)cv_bytes_of_bits(m);
}
CV_FN cv_m64 cv_loadbn_64(const void *p, cv_s_i64 n)
{
    return (cv_m64)CV_X_TRUE8X16(
        __builtin_ia32_loaddquqi128_mask(p, CV_MAKE(cv_raw8x16, 0), cv_firstn_64(n)));
}
CV_FN void cv_storebn_64(void *p, cv_m64 m, cv_s_i64 n)
{
    __builtin_ia32_storedquqi128_mask(p, cv_bytes_of_bits(m), cv_firstn_64(n));
}
CV_FN cv_m64 cv_loadb_64(const void *p)
{
    long long CV_VECTOR(16) low = {0};
    __builtin_memcpy(&low, p, 8);
    return (cv_m64)CV_X_TRUE8X16((cv_raw8x16)low);
}
CV_FN void cv_storeb_64(void *p, cv_m64 m)
{
    long long low = ((long long CV_VECTOR(16))cv_bytes_of_bits(m))[0];
    __builtin_memcpy(p, &low, 8);
}
#else
CV_FN cv_m8 cv_loadb_8(const void *p) { return (cv_m8)(cv_load_u8(p) != 0); }
CV_FN cv_m8 cv_loadbn_8(const void *p, cv_s_i64 n) { return (cv_m8)(cv_loadn_u8(p, n) != 0); }
CV_FN void cv_storeb_8(void *p, cv_m8 m) { cv_store_u8(p, (cv_u8)(m & 1)); }
CV_FN void cv_storebn_8(void *p, cv_m8 m, cv_s_i64 n) { cv_storen_u8(p, (cv_u8)(m & 1), n); }
#define CV_DEFINE_BOOLS(W)                                                                     \
    CV_FN cv_m##W cv_loadb_##W(const void *p)                                                  \
    {                                                                                          \
        cv_mem_b##W b;                                                                         \
        __builtin_memcpy(&b, p, sizeof b);                                                     \
        return __builtin_convertvector(b, cv_i##W) != 0;                                       \
    }                                                                                          \
    CV_FN cv_m##W cv_loadbn_##W(const void *p, cv_s_i64 n)                                     \
    {                                                                                          \
        cv_mem_b##W b = {0};                                                                   \
        cv_copyn(&b, p, n, sizeof b);                                                          \
        return __builtin_convertvector(b, cv_i##W) != 0;                                       \
    }                                                                                          \
    CV_FN void cv_storeb_##W(void *p, cv_m##W m)                                               \
    {                                                                                          \
        cv_mem_b##W b = __builtin_convertvector(m & 1, cv_mem_b##W);                           \
        __builtin_memcpy(p, &b, sizeof b);                                                     \
    }                                                                                          \
    CV_FN void cv_storebn_##W(void *p, cv_m##W m, cv_s_i64 n)                                  \
    {                                                                                          \
        cv_mem_b##W b = __builtin_convertvector(m & 1, cv_mem_b##W);                           \
        cv_copyn(p, &b, n, sizeof b);                                                          \
    }
CV_DEFINE_BOOLS(32)
CV_DEFINE_BOOLS(64)
#endif

/* --- lane by lane: for rare or complicated functions --- */

#define CV_LANEWISE1(T, name, scalar)                                                          \
    CV_FN cv_##T cv_##name##_##T(cv_##T a)                                                     \
    {                                                                                          \
        cv_##T r = a;                                                                          \
        for (int l = 0; l < CV_LANES_##T; l++)                                                 \
            r[l] = scalar(a[l]);                                                               \
        return r;                                                                              \
    }
#define CV_LANEWISE2(T, name, scalar)                                                          \
    CV_FN cv_##T cv_##name##_##T(cv_##T a, cv_##T b)                                           \
    {                                                                                          \
        cv_##T r = a;                                                                          \
        for (int l = 0; l < CV_LANES_##T; l++)                                                 \
            r[l] = scalar(a[l], b[l]);                                                         \
        return r;                                                                              \
    }

/* --- reductions ---
 *
 * The lanes of num/order.h, held in CV_REDUCE_<dtype> vectors (lane l is in vector
 * l / CV_LANES), are combined by halves, lane l being the left operand and lane l + half the
 * right one.  The tree is the same at every vector width. */

#define CV_REDUCE_f32  (CR_FOLD_LANES / CV_LANES_f32)
#define CV_REDUCE_f64  (CR_FOLD_LANES / CV_LANES_f64)
#define CV_REDUCE_i32  (CR_FOLD_LANES / CV_LANES_i32)
#define CV_REDUCE_i64  (CR_FOLD_LANES / CV_LANES_i64)
#define CV_REDUCE_u8   (CR_FOLD_LANES / CV_LANES_u8)
#define CV_REDUCE_m8   CV_REDUCE_u8
#define CV_REDUCE_m32  CV_REDUCE_f32
#define CV_REDUCE_m64  CV_REDUCE_f64
#define CV_REDUCE_c64  CV_REDUCE_f32
#define CV_REDUCE_c128 CV_REDUCE_f64

/* How many of a reduction's vectors a loop folds at a time where each has n accumulators: half
 * of the registers are left to operands. */
#define CV_PART(vectors, n)                                                                    \
    ((vectors) * (n) <= CV_BYTES / 4 ? (vectors) : (n) <= CV_BYTES / 4 ? CV_BYTES / 4 / (n) : 1)

/* v with its upper lanes moved down by k; the upper lanes of the result are undefined. */
#if CV_BYTES == 64
#define CV_DOWN_4(v, k)                                                                        \
    __builtin_shufflevector(v, v, 0 + k, 1 + k, 2 + k, 3 + k, 4 + k, 5 + k, 6 + k, 7 + k, 8,   \
                            9, 10, 11, 12, 13, 14, 15)
#define CV_DOWN_8(v, k) __builtin_shufflevector(v, v, 0 + k, 1 + k, 2 + k, 3 + k, 4, 5, 6, 7)
#elif CV_BYTES == 32
#define CV_DOWN_4(v, k) __builtin_shufflevector(v, v, 0 + k, 1 + k, 2 + k, 3 + k, 4, 5, 6, 7)
#define CV_DOWN_8(v, k) __builtin_shufflevector(v, v, 0 + k, 1 + k, 2, 3)
#elif CV_BYTES == 16
#define CV_DOWN_4(v, k) __builtin_shufflevector(v, v, 0 + k, 1 + k, 2, 3)
#define CV_DOWN_8(v, k) __builtin_shufflevector(v, v, 0 + k, 1)
#else
#define CV_DOWN_4(v, k) __builtin_shufflevector(v, v, 0 + k, 1)
#endif

#if CV_BYTES == 64
#define CV_TREE_4(op, v)                                                                       \
    v = op(v, CV_DOWN_4(v, 8));                                                                \
    v = op(v, CV_DOWN_4(v, 4));                                                                \
    v = op(v, CV_DOWN_4(v, 2));                                                                \
    v = op(v, CV_DOWN_4(v, 1));
#define CV_TREE_8(op, v)                                                                       \
    v = op(v, CV_DOWN_8(v, 4));                                                                \
    v = op(v, CV_DOWN_8(v, 2));                                                                \
    v = op(v, CV_DOWN_8(v, 1));
#elif CV_BYTES == 32
#define CV_TREE_4(op, v)                                                                       \
    v = op(v, CV_DOWN_4(v, 4));                                                                \
    v = op(v, CV_DOWN_4(v, 2));                                                                \
    v = op(v, CV_DOWN_4(v, 1));
#define CV_TREE_8(op, v)                                                                       \
    v = op(v, CV_DOWN_8(v, 2));                                                                \
    v = op(v, CV_DOWN_8(v, 1));
#elif CV_BYTES == 16
#define CV_TREE_4(op, v)                                                                       \
    v = op(v, CV_DOWN_4(v, 2));                                                                \
    v = op(v, CV_DOWN_4(v, 1));
#define CV_TREE_8(op, v) v = op(v, CV_DOWN_8(v, 1));
#else
#define CV_TREE_4(op, v) v = op(v, CV_DOWN_4(v, 1));
#define CV_TREE_8(op, v)
#endif

#define CV_DEFINE_REDUCE(T, op, size)                                                          \
    CV_FN cv_s_##T cv_reduce_##op##_##T(const cv_##T *acc)                                     \
    {                                                                                          \
        cv_##T t[CV_REDUCE_##T];                                                               \
        CV_UNROLL(16)                                                                          \
        for (int i = 0; i < CV_REDUCE_##T; i++)                                                \
            t[i] = acc[i];                                                                     \
        CV_UNROLL(8)                                                                           \
        for (int half = CV_REDUCE_##T / 2; half > 0; half /= 2)                                \
            CV_UNROLL(8)                                                                       \
        for (int i = 0; i < half; i++)                                                         \
            t[i] = cv_##op##_##T(t[i], t[i + half]);                                           \
        CV_TREE_##size(cv_##op##_##T, t[0]) return t[0][0];                                    \
    }

#define CV_DEFINE_MASK_REDUCE(M)                                                               \
    CV_FN int cv_reduce_and_##M(const cv_##M *acc)                                             \
    {                                                                                          \
        cv_##M m = acc[0];                                                                     \
        for (int i = 1; i < CV_REDUCE_##M; i++)                                                \
            m = cv_and_##M(m, acc[i]);                                                         \
        return cv_all_##M(m);                                                                  \
    }                                                                                          \
    CV_FN int cv_reduce_or_##M(const cv_##M *acc)                                              \
    {                                                                                          \
        cv_##M m = acc[0];                                                                     \
        for (int i = 1; i < CV_REDUCE_##M; i++)                                                \
            m = cv_or_##M(m, acc[i]);                                                          \
        return cv_any_##M(m);                                                                  \
    }
CV_DEFINE_MASK_REDUCE(m8)
CV_DEFINE_MASK_REDUCE(m32)
CV_DEFINE_MASK_REDUCE(m64)

#endif
