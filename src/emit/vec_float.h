/* vec_float.h - common functions of float32 and float64 vectors.
 *
 * CV_DEFINE_FLOAT(T, U, I, M, ...) writes the functions of one dtype: T its suffix, U and I
 * the unsigned and signed integers of its width, M its mask, bits the width, top the sign bit,
 * whole the value from which on every number is an integer, suffix the letter of libm names. */
#ifndef CR_EMIT_VEC_FLOAT_H
#define CR_EMIT_VEC_FLOAT_H

#include "emit/vec.h"

#define CV_SIGN_f32  0x80000000u
#define CV_SIGN_f64  0x8000000000000000u
#define CV_WHOLE_f32 8388608.0f
#define CV_WHOLE_f64 4503599627370496.0
#define CV_INF_f32   __builtin_inff()
#define CV_INF_f64   __builtin_inf()
#define CV_NAN_f32   __builtin_nanf("")
#define CV_NAN_f64   __builtin_nan("")

/* a * b + c rounded once.  The baseline has no such instruction and rounds twice, so that its
 * results differ from those of other targets. */
#ifdef CV_X_FMA_f32
CV_FN cv_f32 cv_fma_f32(cv_f32 a, cv_f32 b, cv_f32 c) { return CV_X_FMA_f32(a, b, c); }
CV_FN cv_f64 cv_fma_f64(cv_f64 a, cv_f64 b, cv_f64 c) { return CV_X_FMA_f64(a, b, c); }
#else
CV_FN cv_f32 cv_fma_f32(cv_f32 a, cv_f32 b, cv_f32 c) { return a * b + c; }
CV_FN cv_f64 cv_fma_f64(cv_f64 a, cv_f64 b, cv_f64 c) { return a * b + c; }
#endif

#define CV_DEFINE_BITS(T, I, U, M)                                                             \
    CV_FN cv_##I cv_bits_##I##_##T(cv_##T a) { return (cv_##I)a; }                             \
    CV_FN cv_##T cv_bits_##T##_##I(cv_##I a) { return (cv_##T)a; }                             \
    CV_FN cv_##T cv_neg_##T(cv_##T a) { return -a; }                                           \
    CV_FN cv_##T cv_abs_##T(cv_##T a) { return (cv_##T)((cv_##U)a & ~CV_SIGN_##T); }           \
    CV_FN cv_##T cv_copysign_##T(cv_##T a, cv_##T b)                                           \
    {                                                                                          \
        return (cv_##T)(((cv_##U)a & ~CV_SIGN_##T) | ((cv_##U)b & CV_SIGN_##T));               \
    }                                                                                          \
    /* a with its sign flipped where b is negative */                                          \
    CV_FN cv_##T cv_flipsign_##T(cv_##T a, cv_##T b)                                           \
    {                                                                                          \
        return (cv_##T)((cv_##U)a ^ ((cv_##U)b & CV_SIGN_##T));                                \
    }                                                                                          \
    CV_FN cv_##M cv_signbit_##T(cv_##T a) { return cv_lt_##I((cv_##I)a, CV_MAKE(cv_##I, 0)); } \
    CV_FN cv_##M cv_isnan_##T(cv_##T a) { return cv_ne_##T(a, a); }                            \
    CV_FN cv_##M cv_isinf_##T(cv_##T a)                                                        \
    {                                                                                          \
        return cv_eq_##T(cv_abs_##T(a), cv_set1_##T(CV_INF_##T));                              \
    }                                                                                          \
    CV_FN cv_##M cv_isfinite_##T(cv_##T a)                                                     \
    {                                                                                          \
        return cv_lt_##T(cv_abs_##T(a), cv_set1_##T(CV_INF_##T));                              \
    }                                                                                          \
    CV_FN cv_##T cv_sgn_##T(cv_##T a)                                                          \
    {                                                                                          \
        cv_##M up = cv_gt_##T(a, CV_MAKE(cv_##T, 0)), down = cv_lt_##T(a, CV_MAKE(cv_##T, 0)); \
        return cv_frommask_##T(up) - cv_frommask_##T(down);                                    \
    }

/* NaN wins; of equal operands the second is returned, which decides between zeros. */
#ifdef CV_X_MAX_f32
#define CV_DEFINE_EXTREMA(T)                                                                   \
    CV_FN cv_##T cv_greater_##T(cv_##T a, cv_##T b) { return CV_X_MAX_##T(a, b); }             \
    CV_FN cv_##T cv_lesser_##T(cv_##T a, cv_##T b) { return CV_X_MIN_##T(a, b); }
#else
#define CV_DEFINE_EXTREMA(T)                                                                   \
    CV_FN cv_##T cv_greater_##T(cv_##T a, cv_##T b)                                            \
    {                                                                                          \
        return cv_select_##T(cv_gt_##T(a, b), a, b);                                           \
    }                                                                                          \
    CV_FN cv_##T cv_lesser_##T(cv_##T a, cv_##T b)                                             \
    {                                                                                          \
        return cv_select_##T(cv_lt_##T(a, b), a, b);                                           \
    }
#endif

/* A NaN is beyond every number, but not beyond another NaN. */
#define CV_DEFINE_BEYOND(T, M)                                                                 \
    CV_FN cv_##M cv_above_##T(cv_##T a, cv_##T b)                                              \
    {                                                                                          \
        return cv_and_##M(cv_not_##M(cv_le_##T(a, b)), cv_eq_##T(b, b));                       \
    }                                                                                          \
    CV_FN cv_##M cv_below_##T(cv_##T a, cv_##T b)                                              \
    {                                                                                          \
        return cv_and_##M(cv_not_##M(cv_ge_##T(a, b)), cv_eq_##T(b, b));                       \
    }

/* cv_maximum and cv_minimum pass NaN on; cv_fmax and cv_fmin return the other operand. */
#define CV_DEFINE_MINMAX(T)                                                                    \
    CV_FN cv_##T cv_maximum_##T(cv_##T a, cv_##T b)                                            \
    {                                                                                          \
        return cv_select_##T(cv_isnan_##T(a), a, cv_greater_##T(a, b));                        \
    }                                                                                          \
    CV_FN cv_##T cv_minimum_##T(cv_##T a, cv_##T b)                                            \
    {                                                                                          \
        return cv_select_##T(cv_isnan_##T(a), a, cv_lesser_##T(a, b));                         \
    }                                                                                          \
    CV_FN cv_##T cv_fmax_##T(cv_##T a, cv_##T b)                                               \
    {                                                                                          \
        return cv_select_##T(cv_isnan_##T(b), a, cv_greater_##T(a, b));                        \
    }                                                                                          \
    CV_FN cv_##T cv_fmin_##T(cv_##T a, cv_##T b)                                               \
    {                                                                                          \
        return cv_select_##T(cv_isnan_##T(b), a, cv_lesser_##T(a, b));                         \
    }

#ifdef CV_X_ROUND_f32
#define CV_DEFINE_ROUND(T)                                                                     \
    CV_FN cv_##T cv_round_##T(cv_##T a) { return CV_X_ROUND_##T(a, CV_NEAREST); }              \
    CV_FN cv_##T cv_floor_##T(cv_##T a) { return CV_X_ROUND_##T(a, CV_DOWN); }                 \
    CV_FN cv_##T cv_ceil_##T(cv_##T a) { return CV_X_ROUND_##T(a, CV_UP); }                    \
    CV_FN cv_##T cv_trunc_##T(cv_##T a) { return CV_X_ROUND_##T(a, CV_ZERO); }
#else
/* The sum with `whole` has no bits for a fraction. */
#define CV_DEFINE_ROUND(T)                                                                     \
    CV_FN cv_##T cv_round_##T(cv_##T a)                                                        \
    {                                                                                          \
        cv_##T whole = cv_set1_##T(CV_WHOLE_##T), m = cv_abs_##T(a);                           \
        cv_##T r = cv_select_##T(cv_lt_##T(m, whole), (m + whole) - whole, m);                 \
        return cv_copysign_##T(r, a);                                                          \
    }                                                                                          \
    CV_FN cv_##T cv_floor_##T(cv_##T a)                                                        \
    {                                                                                          \
        cv_##T r = cv_round_##T(a);                                                            \
        return cv_copysign_##T(r - cv_frommask_##T(cv_gt_##T(r, a)), a);                       \
    }                                                                                          \
    CV_FN cv_##T cv_ceil_##T(cv_##T a)                                                         \
    {                                                                                          \
        cv_##T r = cv_round_##T(a);                                                            \
        return cv_copysign_##T(r + cv_frommask_##T(cv_lt_##T(r, a)), a);                       \
    }                                                                                          \
    CV_FN cv_##T cv_trunc_##T(cv_##T a)                                                        \
    {                                                                                          \
        return cv_copysign_##T(cv_floor_##T(cv_abs_##T(a)), a);                                \
    }
#endif

#ifdef CV_X_SQRT_f32
#define CV_DEFINE_SQRT(T, suffix)                                                              \
    CV_FN cv_##T cv_sqrt_##T(cv_##T a) { return CV_X_SQRT_##T(a); }
#else
#define CV_DEFINE_SQRT(T, suffix) CV_LANEWISE1(T, sqrt, __builtin_sqrt##suffix)
#endif

/* The remainder of a division is exact: a fused multiply-add gives it without rounding while
 * the quotient is off by at most one.  For larger quotients the nearest number of the type is
 * subtracted first, repeatedly; b times lift or its square keeps them finite.  There is no
 * rounding, so that the baseline's libm gives the same bits. */
#ifdef CV_HAS_FMA
#define CV_DEFINE_FMOD(T, M, suffix, lift)                                                     \
    CV_SLOW cv_##T cv_fmodfar_##T(cv_##T x, cv_##T y)                                          \
    {                                                                                          \
        const cv_s_##T most = (cv_s_##T)0.5 * CV_WHOLE_##T;                                    \
        cv_##M one = cv_and_##M(cv_lt_##T(y, cv_set1_##T(CV_INF_##T)), cv_isfinite_##T(x));    \
        one = cv_and_##M(one, cv_gt_##T(y, CV_MAKE(cv_##T, 0)));                               \
        for (;;) {                                                                             \
            cv_##T a = cv_abs_##T(x), b = y;                                                   \
            cv_##M more = cv_and_##M(one, cv_ge_##T(a, y * most));                             \
            if (!cv_any_##M(more))                                                             \
                return x;                                                                      \
            for (int k = 0; k < 2; k++)                                                        \
                b = cv_select_##T(cv_ge_##T(a, b * lift), b * lift, b);                        \
            x = cv_select_##T(more, cv_fma_##T(-cv_round_##T(x / b), b, x), x);                \
        }                                                                                      \
    }                                                                                          \
    CV_FN cv_##T cv_fmod_##T(cv_##T a, cv_##T b)                                               \
    {                                                                                          \
        cv_##T x = cv_abs_##T(a), y = cv_abs_##T(b), q = x / y, zero = {0};                    \
        cv_##T most = cv_set1_##T((cv_s_##T)0.5 * CV_WHOLE_##T);                               \
        cv_##T inf = cv_set1_##T(CV_INF_##T);                                                  \
        cv_##M plain = cv_and_##M(cv_lt_##T(q, most), cv_lt_##T(y, inf));                      \
        int far = !cv_all_##M(plain);                                                          \
        if (far) {                                                                             \
            x = cv_fmodfar_##T(x, y);                                                          \
            q = x / y;                                                                         \
        }                                                                                      \
        cv_##T r = cv_fma_##T(-cv_trunc_##T(q), y, x);                                         \
        r += cv_select_##T(cv_lt_##T(r, zero), y, zero);                                       \
        r -= cv_select_##T(cv_ge_##T(r, y), y, zero);                                          \
        if (far)                                                                               \
            r = cv_select_##T(cv_and_##M(cv_isfinite_##T(a), cv_eq_##T(y, inf)), a, r);        \
        return cv_copysign_##T(r, a);                                                          \
    }
#else
#define CV_DEFINE_FMOD(T, M, suffix, lift) CV_LANEWISE2(T, fmod, __builtin_fmod##suffix)
#endif

/* fmod, and Python's and torch's division by it. mod + b is precise enough: both are below
 * |b|. */
#define CV_DEFINE_DIVISION(T, M)                                                               \
    CV_FN cv_##T cv_remainder_##T(cv_##T a, cv_##T b)                                          \
    {                                                                                          \
        cv_##T mod = cv_fmod_##T(a, b), zero = {0};                                            \
        cv_##M other = cv_xor_##M(cv_lt_##T(b, zero), cv_lt_##T(mod, zero));                   \
        return cv_select_##T(cv_and_##M(other, cv_ne_##T(mod, zero)), mod + b, mod);           \
    }                                                                                          \
    CV_FN cv_##T cv_floordiv_##T(cv_##T a, cv_##T b)                                           \
    {                                                                                          \
        cv_##T mod = cv_fmod_##T(a, b), zero = {0}, quotient = a / b;                          \
        cv_##M other = cv_xor_##M(cv_lt_##T(b, zero), cv_lt_##T(mod, zero));                   \
        cv_##T div = (a - mod) / b;                                                            \
        div -= cv_frommask_##T(cv_and_##M(other, cv_ne_##T(mod, zero)));                       \
        cv_##T down = cv_floor_##T(div);                                                       \
        down += cv_frommask_##T(cv_gt_##T(div - down, cv_set1_##T((cv_s_##T)0.5)));            \
        down = cv_select_##T(cv_eq_##T(div, zero), cv_copysign_##T(zero, quotient), down);     \
        return cv_select_##T(cv_eq_##T(b, zero), quotient, down);                              \
    }

#define CV_DEFINE_ARITHMETIC(T, M)                                                             \
    CV_FN cv_##T cv_add_##T(cv_##T a, cv_##T b) { return a + b; }                              \
    CV_FN cv_##T cv_sub_##T(cv_##T a, cv_##T b) { return a - b; }                              \
    CV_FN cv_##T cv_mul_##T(cv_##T a, cv_##T b) { return a * b; }                              \
    CV_FN cv_##T cv_div_##T(cv_##T a, cv_##T b) { return a / b; }                              \
    CV_FN cv_##T cv_reciprocal_##T(cv_##T a) { return (cv_s_##T)1 / a; }                       \
    CV_FN cv_##T cv_rsqrt_##T(cv_##T a) { return (cv_s_##T)1 / cv_sqrt_##T(a); }               \
    CV_FN cv_##T cv_square_##T(cv_##T a) { return a * a; }

/* a is cv_frexpm times two to the cv_frexpe, the former in [0.5, 1); zeros, infinities and
 * NaN are their own mantissa.  Subnormals are first multiplied by two to the CV_LIFT. */
#define CV_DIGITS_f32   23
#define CV_DIGITS_f64   52
#define CV_EXPONENT_f32 0x7f800000
#define CV_EXPONENT_f64 0x7ff0000000000000
#define CV_TINY_f32     0x1p-126f
#define CV_TINY_f64     0x1p-1022
#define CV_LIFT         64
#define CV_DEFINE_FREXP(T, I, M)                                                               \
    CV_FN cv_##T cv_lifted_##T(cv_##T a, cv_##M tiny)                                          \
    {                                                                                          \
        return cv_select_##T(tiny, a * (cv_s_##T)0x1p64, a);                                   \
    }                                                                                          \
    CV_FN cv_##M cv_plain_##T(cv_##T a)                                                        \
    {                                                                                          \
        return cv_and_##M(cv_isfinite_##T(a), cv_ne_##T(a, CV_MAKE(cv_##T, 0)));               \
    }                                                                                          \
    CV_FN cv_##T cv_frexpm_##T(cv_##T a)                                                       \
    {                                                                                          \
        cv_##M tiny = cv_lt_##T(cv_abs_##T(a), cv_set1_##T(CV_TINY_##T));                      \
        cv_##I b = (cv_##I)cv_lifted_##T(a, tiny), half = (cv_##I)cv_set1_##T((cv_s_##T)0.5);  \
        return cv_select_##T(cv_plain_##T(a), (cv_##T)((b & ~CV_EXPONENT_##T) | half), a);     \
    }                                                                                          \
    CV_FN cv_##I cv_frexpe_##T(cv_##T a)                                                       \
    {                                                                                          \
        cv_##M tiny = cv_lt_##T(cv_abs_##T(a), cv_set1_##T(CV_TINY_##T));                      \
        cv_##I b = (cv_##I)cv_lifted_##T(a, tiny) & CV_EXPONENT_##T;                           \
        cv_##I e = (b >> CV_DIGITS_##T) - ((CV_EXPONENT_##T >> (CV_DIGITS_##T + 1)) - 1);      \
        e -= cv_frommask_##I(tiny) * CV_LIFT;                                                  \
        return cv_select_##I(cv_plain_##T(a), e, CV_MAKE(cv_##I, 0));                          \
    }

/* a times two to the e, rounded once. */
#ifdef CV_X_SCALEF_f32
#define CV_DEFINE_LDEXP(T, I, suffix)                                                          \
    CV_FN cv_##T cv_ldexp_##T(cv_##T a, cv_##I e)                                              \
    {                                                                                          \
        return CV_X_SCALEF_##T(a, __builtin_convertvector(e, cv_##T));                         \
    }
#else
#define CV_DEFINE_LDEXP(T, I, suffix)                                                          \
    CV_FN cv_##T cv_ldexp_##T(cv_##T a, cv_##I e)                                              \
    {                                                                                          \
        for (int l = 0; l < CV_LANES_##T; l++) {                                               \
            int k = e[l] > 5000 ? 5000 : e[l] < -5000 ? -5000 : (int)e[l];                     \
            a[l] = __builtin_scalbn##suffix(a[l], k);                                          \
        }                                                                                      \
        return a;                                                                              \
    }
#endif

/* --- angles far from zero --- */

/* The binary digits of 2 / pi after 64 zeros. */
CV_SLOW cv_s_u64 cv_d_twobypi(int word)
{
    static const cv_s_u64 digits[] = {
        0,
        0xa2f9836e4e441529,
        0xfc2757d1f534ddc0,
        0xdb6295993c439041,
        0xfe5163abdebbc561,
        0xb7246e3a424dd2e0,
        0x06492eea09d1921c,
        0xfe1deb1cb129a73e,
        0xe88235f52ebb4484,
        0xe99c7026b45f7e41,
        0x3991d639835339f4,
        0x9c845f8bbdf9283b,
        0x1ff897ffde05980f,
        0xef2f118b5a0a6d1f,
        0x6d367ecf27cb09b7,
        0x4f463f669e5fea2d,
        0x7527bac7ebe5f17b,
        0x3d0739f78a5292ea,
        0x6bfb5fb11f8d5d08,
        0x56033046fc7b6bab,
    };
    return digits[word];
}

/* |x| = (quarter + r + *low) pi / 2 with |r| <= 1/2, quarter up to a multiple of four, for
 * |x| >= 2^17; NaN for infinities and NaN.  x is an integer times 2^e, and of 2 / pi only the
 * 192 digits that follow the multiples of four count (Payne and Hanek). */
CV_SLOW double cv_d_quarters(double x, double *low, int *quarter)
{
    union {
        double d;
        cv_s_u64 u;
    } b = {x}, scale;
    typedef unsigned __int128 wide;
    int e = (int)(b.u >> 52 & 0x7ff) - 1075, at = e + 62, skip = at & 63, zeros;
    cv_s_u64 m = (b.u & 0xfffffffffffff) | 0x10000000000000, w[3];

    *low = 0;
    *quarter = 0;
    if (!(x - x == 0))
        return x - x;
    for (int i = 0; i < 3; i++) {
        cv_s_u64 next = cv_d_twobypi((at >> 6) + i + 1) >> 1 >> (63 - skip);
        w[i] = cv_d_twobypi((at >> 6) + i) << skip | next;
    }
    wide product = (wide)m * w[2], turn = (product >> 64) + (wide)m * w[1];
    turn += (wide)(m * w[0]) << 64;
    /* The two highest bits count quarters, the next bit is the sign of the remainder. */
    cv_s_u64 odd = (cv_s_u64)(turn >> 125) & 1;
    *quarter = (int)(cv_s_u64)(turn >> 126) + (int)odd;
    turn = turn << 2 | (cv_s_u64)product >> 62;
    turn = odd ? -turn : turn;
    zeros = __builtin_clzll((cv_s_u64)(turn >> 64) | 1);
    turn <<= zeros;
    scale.u = (cv_s_u64)(1023 - 53 - zeros) << 52;
    scale.d = odd ? -scale.d : scale.d;
    *low = (double)(cv_s_i64)((cv_s_u64)(turn >> 22) & 0x1fffffffffffff) * scale.d * 0x1p-53;
    return (double)(cv_s_i64)(turn >> 75) * scale.d;
}

/* asin, acos, asinh, acosh and atanh, from functions of the type: cv_asintail_T, the part of
 * asin z beyond z for z in [-1/2, 1/2] with u = z^2, sqrt and log1p.  From CV_ARCHUGE_T on
 * asinh x is log (2 x); up to there x^2 is in range.  Below CV_ATANHSMALL_T atanh x is x. */
#define CV_DEFINE_ARCS(T, M)                                                                   \
    CV_FN cv_##T cv_asin_##T(cv_##T x)                                                         \
    {                                                                                          \
        const cv_s_##T half = (cv_s_##T)0.5;                                                   \
        cv_##T a = cv_abs_##T(x);                                                              \
        cv_##M over = cv_gt_##T(a, cv_set1_##T(half));                                         \
        cv_##T u = cv_select_##T(over, half - half * a, a * a);                                \
        cv_##T z = cv_select_##T(over, cv_sqrt_##T(u), a), tail = cv_asintail_##T(z, u);       \
        cv_##T far = CV_HALFPI_##T - (2 * z + (2 * tail - CV_HALFPI_LOW_##T));                 \
        return cv_copysign_##T(cv_select_##T(over, far, z + tail), x);                         \
    }                                                                                          \
    CV_FN cv_##T cv_acos_##T(cv_##T x)                                                         \
    {                                                                                          \
        const cv_s_##T half = (cv_s_##T)0.5;                                                   \
        cv_##T a = cv_abs_##T(x);                                                              \
        cv_##M over = cv_gt_##T(a, cv_set1_##T(half)),                                         \
               left = cv_lt_##T(x, CV_MAKE(cv_##T, 0));                                        \
        cv_##T u = cv_select_##T(over, half - half * a, a * a);                                \
        cv_##T z = cv_select_##T(over, cv_sqrt_##T(u), x), tail = cv_asintail_##T(z, u);       \
        cv_##T far = 2 * CV_HALFPI_##T - (2 * z + (2 * tail - 2 * CV_HALFPI_LOW_##T));         \
        far = cv_select_##T(left, far, 2 * (z + tail));                                        \
        return cv_select_##T(over, far, CV_HALFPI_##T - (z + (tail - CV_HALFPI_LOW_##T)));     \
    }                                                                                          \
    CV_FN cv_##T cv_asinh_##T(cv_##T x)                                                        \
    {                                                                                          \
        const cv_s_##T one = 1, ln2 = (cv_s_##T)0.69314718055994531;                           \
        cv_##T a = cv_abs_##T(x), z = a * a;                                                   \
        cv_##M huge = cv_gt_##T(a, cv_set1_##T(CV_ARCHUGE_##T));                               \
        cv_##T in = a + z / (one + cv_sqrt_##T(one + z));                                      \
        cv_##T r = cv_log1p_##T(cv_select_##T(huge, a, in));                                   \
        return cv_copysign_##T(r + cv_select_##T(huge, cv_set1_##T(ln2), CV_MAKE(cv_##T, 0)),  \
                               x);                                                             \
    }                                                                                          \
    CV_FN cv_##T cv_acosh_##T(cv_##T x)                                                        \
    {                                                                                          \
        const cv_s_##T one = 1, ln2 = (cv_s_##T)0.69314718055994531;                           \
        cv_##T a = x - one;                                                                    \
        cv_##M huge = cv_gt_##T(x, cv_set1_##T(CV_ARCHUGE_##T));                               \
        cv_##T in = a + cv_sqrt_##T(a) * cv_sqrt_##T(a + 2 * one);                             \
        cv_##T r = cv_log1p_##T(cv_select_##T(huge, x, in));                                   \
        return r + cv_select_##T(huge, cv_set1_##T(ln2), CV_MAKE(cv_##T, 0));                  \
    }                                                                                          \
    CV_FN cv_##T cv_atanh_##T(cv_##T x)                                                        \
    {                                                                                          \
        const cv_s_##T half = (cv_s_##T)0.5, one = 1;                                          \
        cv_##T a = cv_abs_##T(x), r = half * cv_log1p_##T((a + a) / (one - a));                \
        r = cv_select_##T(cv_lt_##T(a, cv_set1_##T(CV_ATANHSMALL_##T)), a, r);                 \
        return cv_copysign_##T(r, x);                                                          \
    }

/* The next number from x towards y: bits have the order of numbers of one sign. */
#define CV_DEFINE_NEXTAFTER(T, I, U, M)                                                        \
    CV_FN cv_##T cv_nextafter_##T(cv_##T x, cv_##T y)                                          \
    {                                                                                          \
        cv_##M away = cv_xor_##M(cv_lt_##T(x, y), cv_signbit_##T(x));                          \
        cv_##I step = cv_select_##I(away, cv_set1_##I(1), cv_set1_##I(-1));                    \
        cv_##T r = (cv_##T)((cv_##U)x + (cv_##U)step), zero = {0};                             \
        r = cv_select_##T(cv_eq_##T(x, zero), cv_copysign_##T((cv_##T)cv_set1_##I(1), y), r);  \
        r = cv_select_##T(cv_eq_##T(x, y), y, r);                                              \
        return cv_select_##T(cv_or_##M(cv_isnan_##T(x), cv_isnan_##T(y)), x + y, r);           \
    }

#define CV_DEFINE_FLOAT(T, I, U, M, size, suffix)                                              \
    CV_DEFINE_BITS(T, I, U, M)                                                                 \
    CV_DEFINE_EXTREMA(T)                                                                       \
    CV_DEFINE_BEYOND(T, M)                                                                     \
    CV_DEFINE_MINMAX(T)                                                                        \
    CV_DEFINE_ROUND(T)                                                                         \
    CV_DEFINE_SQRT(T, suffix)                                                                  \
    CV_DEFINE_ARITHMETIC(T, M)                                                                 \
    CV_DEFINE_FREXP(T, I, M)                                                                   \
    CV_DEFINE_LDEXP(T, I, suffix)                                                              \
    CV_FN cv_##T cv_cast_##T##_##I(cv_##I a) { return __builtin_convertvector(a, cv_##T); }    \
    CV_FN cv_##I cv_cast_##I##_##T(cv_##T a) { return __builtin_convertvector(a, cv_##I); }    \
    CV_DEFINE_NEXTAFTER(T, I, U, M)                                                            \
    CV_DEFINE_REDUCE(T, add, size)                                                             \
    CV_DEFINE_REDUCE(T, mul, size)                                                             \
    CV_DEFINE_REDUCE(T, maximum, size)                                                         \
    CV_DEFINE_REDUCE(T, minimum, size)

#endif
