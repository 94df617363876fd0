/* vec_int.h - int32, int64 and uint8 vectors.
 *
 * Arithmetic wraps around.  Division by zero gives zero and never traps (callers that must
 * report an error check before they divide); the smallest integer divided by -1 wraps. */
#ifndef CR_EMIT_VEC_INT_H
#define CR_EMIT_VEC_INT_H

#include "emit/vec.h"

#define CV_BITS_i32 32
#define CV_BITS_i64 64
#define CV_BITS_u8  8

/* One element; U is the unsigned type of the same width. */
#define CV_DEFINE_SCALAR_INT(T, U)                                                             \
    CV_FN cv_s_##T cv_s_neg_##T(cv_s_##T a) { return (cv_s_##T)(0 - (cv_s_##U)a); }            \
    CV_FN cv_s_##T cv_s_div_##T(cv_s_##T a, cv_s_##T b)                                        \
    {                                                                                          \
        if (b == (cv_s_##T) - 1 && (cv_s_##T) - 1 < 1)                                         \
            return cv_s_neg_##T(a);                                                            \
        return b == 0 ? 0 : (cv_s_##T)(a / b);                                                 \
    }                                                                                          \
    CV_FN cv_s_##T cv_s_fmod_##T(cv_s_##T a, cv_s_##T b)                                       \
    {                                                                                          \
        if (b == (cv_s_##T) - 1 && (cv_s_##T) - 1 < 1)                                         \
            return 0;                                                                          \
        return b == 0 ? 0 : (cv_s_##T)(a % b);                                                 \
    }                                                                                          \
    CV_FN cv_s_##T cv_s_gcd_##T(cv_s_##T a, cv_s_##T b)                                        \
    {                                                                                          \
        cv_s_##U x = (cv_s_##U)(a < 1 ? cv_s_neg_##T(a) : a);                                  \
        cv_s_##U y = (cv_s_##U)(b < 1 ? cv_s_neg_##T(b) : b);                                  \
        while (y != 0) {                                                                       \
            cv_s_##U r = (cv_s_##U)(x % y);                                                    \
            x = y;                                                                             \
            y = r;                                                                             \
        }                                                                                      \
        return (cv_s_##T)x;                                                                    \
    }                                                                                          \
    CV_FN cv_s_##T cv_s_lcm_##T(cv_s_##T a, cv_s_##T b)                                        \
    {                                                                                          \
        cv_s_##T g = cv_s_gcd_##T(a, b);                                                       \
        cv_s_##T r = g == 0 ? 0 : (cv_s_##T)((cv_s_##U)cv_s_div_##T(a, g) * (cv_s_##U)b);      \
        return r < 1 ? cv_s_neg_##T(r) : r;                                                    \
    }                                                                                          \
    /* A negative exponent leaves only the powers of 1 and -1 above zero. */                   \
    CV_FN cv_s_##T cv_s_pow_##T(cv_s_##T a, cv_s_##T b)                                        \
    {                                                                                          \
        cv_s_##U base = (cv_s_##U)a, r = 1;                                                    \
        if (b < 1 && b != 0)                                                                   \
            return a == 1 ? 1 : a != (cv_s_##T) - 1 ? 0 : (b & 1) ? a : 1;                     \
        for (cv_s_##U e = (cv_s_##U)b; e != 0; e >>= 1) {                                      \
            r = (e & 1) ? (cv_s_##U)(r * base) : r;                                            \
            base = (cv_s_##U)(base * base);                                                    \
        }                                                                                      \
        return (cv_s_##T)r;                                                                    \
    }

#define CV_DEFINE_INT(T, U, M, S)                                                              \
    CV_FN cv_##T cv_add_##T(cv_##T a, cv_##T b) { return (cv_##T)((cv_##U)a + (cv_##U)b); }    \
    CV_FN cv_##T cv_sub_##T(cv_##T a, cv_##T b) { return (cv_##T)((cv_##U)a - (cv_##U)b); }    \
    CV_FN cv_##T cv_mul_##T(cv_##T a, cv_##T b) { return (cv_##T)((cv_##U)a * (cv_##U)b); }    \
    CV_FN cv_##T cv_square_##T(cv_##T a) { return cv_mul_##T(a, a); }                          \
    CV_FN cv_##T cv_neg_##T(cv_##T a) { return (cv_##T)(-(cv_##U)a); }                         \
    CV_FN cv_##T cv_and_##T(cv_##T a, cv_##T b) { return a & b; }                              \
    CV_FN cv_##T cv_or_##T(cv_##T a, cv_##T b) { return a | b; }                               \
    CV_FN cv_##T cv_xor_##T(cv_##T a, cv_##T b) { return a ^ b; }                              \
    CV_FN cv_##T cv_not_##T(cv_##T a) { return ~a; }                                           \
    CV_FN cv_##T cv_maximum_##T(cv_##T a, cv_##T b)                                            \
    {                                                                                          \
        return cv_select_##T(cv_gt_##T(a, b), a, b);                                           \
    }                                                                                          \
    CV_FN cv_##T cv_minimum_##T(cv_##T a, cv_##T b)                                            \
    {                                                                                          \
        return cv_select_##T(cv_lt_##T(a, b), a, b);                                           \
    }                                                                                          \
    CV_FN cv_##M cv_above_##T(cv_##T a, cv_##T b) { return cv_gt_##T(a, b); }                  \
    CV_FN cv_##M cv_below_##T(cv_##T a, cv_##T b) { return cv_lt_##T(a, b); }                  \
    /* A count outside [0, width) shifts all bits out. */                                      \
    CV_FN cv_##T cv_shl_##T(cv_##T a, cv_##T b)                                                \
    {                                                                                          \
        cv_##T last = cv_set1_##T(CV_BITS_##T - 1), zero = {0};                                \
        cv_##M in = cv_and_##M(cv_ge_##T(b, zero), cv_le_##T(b, last));                        \
        return cv_select_##T(in, (cv_##T)((cv_##U)a << (cv_##U)(b & last)), zero);             \
    }                                                                                          \
    CV_FN cv_##T cv_shr_##T(cv_##T a, cv_##T b)                                                \
    {                                                                                          \
        cv_##T last = cv_set1_##T(CV_BITS_##T - 1), zero = {0};                                \
        cv_##M in = cv_and_##M(cv_ge_##T(b, zero), cv_le_##T(b, last));                        \
        return cv_select_##T(in, a >> (b & last), cv_signfill_##T(a));                         \
    }                                                                                          \
    CV_FN cv_##T cv_floordiv_##T(cv_##T a, cv_##T b)                                           \
    {                                                                                          \
        cv_##T q = cv_div_##T(a, b), r = cv_sub_##T(a, cv_mul_##T(q, b)), zero = {0};          \
        cv_##M other = cv_xor_##M(cv_lt_##T(r, zero), cv_lt_##T(b, zero));                     \
        cv_##M down = cv_and_##M(other, cv_ne_##T(r, zero));                                   \
        down = cv_and_##M(down, cv_ne_##T(b, zero));                                           \
        return cv_sub_##T(q, cv_frommask_##T(down));                                           \
    }                                                                                          \
    CV_FN cv_##T cv_remainder_##T(cv_##T a, cv_##T b)                                          \
    {                                                                                          \
        cv_##T r = cv_fmod_##T(a, b), zero = {0};                                              \
        cv_##M other = cv_xor_##M(cv_lt_##T(r, zero), cv_lt_##T(b, zero));                     \
        return cv_select_##T(cv_and_##M(other, cv_ne_##T(r, zero)), cv_add_##T(r, b), r);      \
    }                                                                                          \
    CV_LANEWISE2(T, gcd, cv_s_gcd_##T)                                                         \
    CV_LANEWISE2(T, lcm, cv_s_lcm_##T)                                                         \
    CV_LANEWISE2(T, pow, cv_s_pow_##T)

#define CV_DEFINE_SIGNED(T)                                                                    \
    CV_FN cv_##T cv_signfill_##T(cv_##T a) { return a >> (CV_BITS_##T - 1); }                  \
    CV_FN cv_##T cv_sgn_##T(cv_##T a)                                                          \
    {                                                                                          \
        return cv_signfill_##T(a) | cv_frommask_##T(cv_gt_##T(a, CV_MAKE(cv_##T, 0)));         \
    }

CV_DEFINE_SCALAR_INT(i32, u32)
CV_DEFINE_SCALAR_INT(i64, u64)
CV_DEFINE_SCALAR_INT(u8, u8)

CV_DEFINE_SIGNED(i32)
CV_DEFINE_SIGNED(i64)
CV_FN cv_u8 cv_signfill_u8(cv_u8 a) { return a ^ a; }
CV_FN cv_u8 cv_sgn_u8(cv_u8 a) { return cv_frommask_u8(cv_ne_u8(a, CV_MAKE(cv_u8, 0))); }

#if defined(CV_AVX512) || defined(CV_AVX2)
/* A quotient of two 32-bit integers is at least 2^-31 away from the integer above it, which
 * double precision resolves.  2^31, the one quotient that does not fit, converts to -2^31. */
CV_TYPE(cv_s_i32, cv_half_i32, CV_BYTES / 2);
CV_FN cv_half_i32 cv_halfdiv(cv_half_i32 a, cv_half_i32 b)
{
    cv_f64 q = __builtin_convertvector(a, cv_f64) / __builtin_convertvector(b, cv_f64);
    return __builtin_convertvector(q, cv_half_i32);
}
CV_FN cv_i32 cv_div_i32(cv_i32 a, cv_i32 b)
{
    union {
        cv_i32 all;
        cv_half_i32 half[2];
    } x = {a}, y = {b}, q;
    q.half[0] = cv_halfdiv(x.half[0], y.half[0]);
    q.half[1] = cv_halfdiv(x.half[1], y.half[1]);
    return cv_select_i32(cv_ne_i32(b, CV_MAKE(cv_i32, 0)), q.all, CV_MAKE(cv_i32, 0));
}
CV_FN cv_i32 cv_fmod_i32(cv_i32 a, cv_i32 b)
{
    cv_u32 r = (cv_u32)a - (cv_u32)cv_div_i32(a, b) * (cv_u32)b;
    return cv_select_i32(cv_ne_i32(b, CV_MAKE(cv_i32, 0)), (cv_i32)r, CV_MAKE(cv_i32, 0));
}
#else
CV_LANEWISE2(i32, div, cv_s_div_i32)
CV_LANEWISE2(i32, fmod, cv_s_fmod_i32)
#endif
CV_LANEWISE2(i64, div, cv_s_div_i64)
CV_LANEWISE2(i64, fmod, cv_s_fmod_i64)
CV_LANEWISE2(u8, div, cv_s_div_u8)
CV_LANEWISE2(u8, fmod, cv_s_fmod_u8)

CV_DEFINE_INT(i32, u32, m32, cv_s_u32)
CV_DEFINE_INT(i64, u64, m64, cv_s_u64)
CV_DEFINE_INT(u8, u8, m8, cv_s_u8)

CV_FN cv_i32 cv_abs_i32(cv_i32 a)
{
    cv_u32 s = (cv_u32)cv_signfill_i32(a);
    return (cv_i32)(((cv_u32)a ^ s) - s);
}
CV_FN cv_i64 cv_abs_i64(cv_i64 a)
{
    cv_u64 s = (cv_u64)cv_signfill_i64(a);
    return (cv_i64)(((cv_u64)a ^ s) - s);
}
CV_FN cv_u8 cv_abs_u8(cv_u8 a) { return a; }

#define CV_DEFINE_INT_REDUCE(T, size)                                                          \
    CV_DEFINE_REDUCE(T, add, size)                                                             \
    CV_DEFINE_REDUCE(T, mul, size)                                                             \
    CV_DEFINE_REDUCE(T, maximum, size)                                                         \
    CV_DEFINE_REDUCE(T, minimum, size)                                                         \
    CV_DEFINE_REDUCE(T, and, size)                                                             \
    CV_DEFINE_REDUCE(T, or, size)                                                              \
    CV_DEFINE_REDUCE(T, xor, size)
CV_DEFINE_INT_REDUCE(i32, 4)
CV_DEFINE_INT_REDUCE(i64, 8)

/* The order does not change these results, so uint8 combines lane by lane. */
#define CV_DEFINE_BYTE_REDUCE(op)                                                              \
    CV_FN cv_s_u8 cv_reduce_##op##_u8(const cv_u8 *acc)                                        \
    {                                                                                          \
        cv_u8 t = acc[0], one = {0};                                                           \
        for (int i = 1; i < CV_REDUCE_u8; i++)                                                 \
            t = cv_##op##_u8(t, acc[i]);                                                       \
        cv_u8 r = t;                                                                           \
        for (int l = 1; l < CV_LANES_u8; l++) {                                                \
            one[0] = t[l];                                                                     \
            r = cv_##op##_u8(r, one);                                                          \
        }                                                                                      \
        return r[0];                                                                           \
    }
CV_DEFINE_BYTE_REDUCE(add)
CV_DEFINE_BYTE_REDUCE(mul)
CV_DEFINE_BYTE_REDUCE(maximum)
CV_DEFINE_BYTE_REDUCE(minimum)
CV_DEFINE_BYTE_REDUCE(and)
CV_DEFINE_BYTE_REDUCE(or)
CV_DEFINE_BYTE_REDUCE(xor)

#endif
