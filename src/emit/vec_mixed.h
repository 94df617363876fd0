/* vec_mixed.h - values of several widths in one kernel.
 *
 * The kernel's lanes have 32 bits.  A value of 64 bits is two vectors, half 0 for the lower
 * lanes; a mask is one cv_m32, of which each half is a cv_m64; an element of 8 bits is widened
 * to a lane where it is loaded.  Conversions have the results of C casts as compiled for x86:
 * what does not fit gives the smallest integer. */
#ifndef CR_EMIT_VEC_MIXED_H
#define CR_EMIT_VEC_MIXED_H

#include "emit/vec_f32.h"
#include "emit/vec_f64.h"
#include "emit/vec_int.h"

CV_TYPE(cv_s_f32, cv_h_f32, CV_BYTES / 2);
CV_TYPE(cv_s_i32, cv_h_i32, CV_BYTES / 2);
CV_TYPE(cv_s_u8, cv_h_u8, CV_BYTES / 4);

#ifdef CV_AVX2
CV_TYPE(long long, cv_raw64x2, 16);
CV_TYPE(short, cv_raw16, CV_BYTES);
#endif

#define CV_DEFINE_HALVES(T)                                                                    \
    CV_FN cv_h_##T cv_halfof_##T(cv_##T v, int half)                                           \
    {                                                                                          \
        union {                                                                                \
            cv_##T all;                                                                        \
            cv_h_##T half[2];                                                                  \
        } u = {v};                                                                             \
        return u.half[half];                                                                   \
    }                                                                                          \
    CV_FN cv_##T cv_joined_##T(cv_h_##T a, cv_h_##T b)                                         \
    {                                                                                          \
        union {                                                                                \
            cv_h_##T half[2];                                                                  \
            cv_##T all;                                                                        \
        } u = {{a, b}};                                                                        \
        return u.all;                                                                          \
    }
CV_DEFINE_HALVES(f32)
CV_DEFINE_HALVES(i32)

/* --- masks --- */

#ifdef CV_AVX512
CV_FN cv_m64 cv_half_m64(cv_m32 m, int half) { return (cv_m64)(m >> half * CV_LANES_m64); }
CV_FN cv_m32 cv_join_m32(cv_m64 a, cv_m64 b) { return (cv_m32)(a | b << CV_LANES_m64); }
#else
CV_FN cv_m64 cv_half_m64(cv_m32 m, int half)
{
    return __builtin_convertvector(cv_halfof_i32(m, half), cv_i64);
}
CV_FN cv_m32 cv_join_m32(cv_m64 a, cv_m64 b)
{
    return cv_joined_i32(__builtin_convertvector(a, cv_h_i32),
                         __builtin_convertvector(b, cv_h_i32));
}
#endif

/* --- conversions --- */

/* W is a type of 64 bits, N one of 32. */
#define CV_DEFINE_WIDTHS(W, N)                                                                 \
    CV_FN cv_##W cv_widen_##W##_##N(cv_##N v, int half)                                        \
    {                                                                                          \
        return __builtin_convertvector(cv_halfof_##N(v, half), cv_##W);                        \
    }                                                                                          \
    CV_FN cv_##N cv_narrow_##N##_##W(cv_##W a, cv_##W b)                                       \
    {                                                                                          \
        return cv_joined_##N(__builtin_convertvector(a, cv_h_##N),                             \
                             __builtin_convertvector(b, cv_h_##N));                            \
    }
CV_DEFINE_WIDTHS(f64, f32)
CV_DEFINE_WIDTHS(f64, i32)
CV_DEFINE_WIDTHS(i64, f32)
CV_DEFINE_WIDTHS(i64, i32)

/* uint8 values in lanes of 32 bits.  Floats wrap as if through int64: a float32 beyond int32
 * is a multiple of 256, and the smallest integer wraps to 0, too. */
CV_FN cv_i32 cv_cast_u8_i32(cv_i32 v) { return v & 255; }
CV_FN cv_i32 cv_cast_u8_f32(cv_f32 v) { return cv_cast_i32_f32(v) & 255; }
CV_FN cv_i32 cv_narrow_u8_i64(cv_i64 a, cv_i64 b) { return cv_narrow_i32_i64(a, b) & 255; }
CV_FN cv_i32 cv_narrow_u8_f64(cv_f64 a, cv_f64 b)
{
    return cv_narrow_u8_i64(cv_cast_i64_f64(a), cv_cast_i64_f64(b));
}
CV_FN cv_i32 cv_cast_i32_u8(cv_i32 v) { return v; }
CV_FN cv_f32 cv_cast_f32_u8(cv_i32 v) { return cv_cast_f32_i32(v); }
CV_FN cv_f64 cv_widen_f64_u8(cv_i32 v, int half) { return cv_widen_f64_i32(v, half); }
CV_FN cv_i64 cv_widen_i64_u8(cv_i32 v, int half) { return cv_widen_i64_i32(v, half); }

/* --- memory --- */

/* gcc converts vectors of bytes element by element. */
#if defined(CV_AVX512) && !defined(__clang__)
CV_FN cv_i32 cv_widen_bytes(cv_h_u8 b)
{
    return __builtin_ia32_pmovzxbd512_mask((cv_raw8x16)b, CV_MAKE(cv_i32, 0), CV_ALL32);
}
CV_FN cv_h_u8 cv_narrow_bytes(cv_i32 v)
{
    return (cv_h_u8)__builtin_ia32_pmovdb512_mask(v, CV_MAKE(cv_raw8x16, 0), CV_ALL32);
}
#elif defined(CV_AVX2) && !defined(__clang__)
CV_FN cv_i32 cv_widen_bytes(cv_h_u8 b)
{
    cv_raw64x2 low = {0};
    __builtin_memcpy(&low, &b, sizeof b);
    return __builtin_ia32_pmovzxbd256((cv_raw8x16)low);
}
/* Lanes are below 256, so that packing does not saturate.  It packs halves separately. */
CV_FN cv_h_u8 cv_narrow_bytes(cv_i32 v)
{
    cv_i32 words = (cv_i32)__builtin_ia32_packusdw256(v, v);
    cv_i32 bytes = (cv_i32)__builtin_ia32_packuswb256((cv_raw16)words, (cv_raw16)words);
    union {
        cv_s_i32 half[2];
        cv_h_u8 all;
    } u = {{bytes[0], bytes[4]}};
    return u.all;
}
#else
CV_FN cv_i32 cv_widen_bytes(cv_h_u8 b) { return __builtin_convertvector(b, cv_i32); }
CV_FN cv_h_u8 cv_narrow_bytes(cv_i32 v) { return __builtin_convertvector(v, cv_h_u8); }
#endif

CV_FN cv_i32 cv_load32_u8(const void *p)
{
    cv_h_u8 b;
    __builtin_memcpy(&b, p, sizeof b);
    return cv_widen_bytes(b);
}
CV_FN cv_i32 cv_load32n_u8(const void *p, cv_s_i64 n)
{
    cv_h_u8 b = {0};
    cv_copyn(&b, p, n, sizeof b);
    return cv_widen_bytes(b);
}
CV_FN void cv_store32_u8(void *p, cv_i32 v)
{
    cv_h_u8 b = cv_narrow_bytes(v);
    __builtin_memcpy(p, &b, sizeof b);
}
CV_FN void cv_store32n_u8(void *p, cv_i32 v, cv_s_i64 n)
{
    cv_h_u8 b = cv_narrow_bytes(v);
    cv_copyn(p, &b, n, sizeof b);
}

/* The lanes of half `half` among the first n. */
CV_FN cv_s_i64 cv_rest64(cv_s_i64 n, int half)
{
    n -= half * CV_LANES_m64;
    return n < 0 ? 0 : n < CV_LANES_m64 ? n : CV_LANES_m64;
}

#endif
