/* vec_f64.h - float64 vectors.
 *
 * exp and log are polynomials within 1 ulp where there is a fused multiply-add; everything
 * else, and the baseline, goes to libm lane by lane.  float32's pow stands here because it is
 * computed in float64. */
#ifndef CR_EMIT_VEC_F64_H
#define CR_EMIT_VEC_F64_H

#include "emit/vec_f32.h"

CV_DEFINE_FLOAT(f64, i64, u64, m64, 8, )

#ifdef CV_HAS_FMA
/* As in vec_f32.h: adding this rounds to an integer; r is then scaled in two steps. */
#define CV_MAGIC64     0x1.8p52
#define CV_LN2_HIGH64  0x1.62e42feep-1
#define CV_LN2_LOW64   0x1.a39ef35793c76p-33

CV_FN cv_f64 cv_scale_f64(cv_f64 r, cv_f64 t)
{
#ifdef CV_X_SCALEF_f64
    return CV_X_SCALEF_f64(r, t - CV_MAGIC64);
#else
    /* Kept positive: there is no arithmetic shift of 64-bit lanes. */
    cv_u64 n = (cv_u64)t - (cv_u64)cv_set1_f64(CV_MAGIC64) + 2046, half = n >> 1;
    return r * (cv_f64)(half << 52) * (cv_f64)((n - half) << 52);
#endif
}

CV_FN cv_f64 cv_exp_f64(cv_f64 x)
{
    cv_f64 a = cv_greater_f64(cv_set1_f64(-746.0), x);
    a = cv_lesser_f64(cv_set1_f64(710.0), a);
    cv_f64 t = cv_fma_f64(a, cv_set1_f64(0x1.71547652b82fep+0), cv_set1_f64(CV_MAGIC64));
    cv_f64 n = t - CV_MAGIC64, f = cv_fma_f64(n, cv_set1_f64(-CV_LN2_HIGH64), a);
    cv_f64 low = n * CV_LN2_LOW64, g = f - low;
    cv_f64 p = cv_set1_f64(2.086869147233112e-09);
    p = cv_fma_f64(p, g, cv_set1_f64(2.5113169334699814e-08));
    p = cv_fma_f64(p, g, cv_set1_f64(2.755747526636895e-07));
    p = cv_fma_f64(p, g, cv_set1_f64(2.755723296600957e-06));
    p = cv_fma_f64(p, g, cv_set1_f64(2.4801587036691296e-05));
    p = cv_fma_f64(p, g, cv_set1_f64(0.00019841269896899339));
    p = cv_fma_f64(p, g, cv_set1_f64(0.001388888888904242));
    p = cv_fma_f64(p, g, cv_set1_f64(0.008333333333317282));
    p = cv_fma_f64(p, g, cv_set1_f64(0.041666666666666394));
    p = cv_fma_f64(p, g, cv_set1_f64(0.16666666666666682));
    p = cv_fma_f64(p, g, cv_set1_f64(0.5));
    cv_f64 q = f + cv_fma_f64(g * g, p, -low);
    return cv_scale_f64(1.0 + q, t);
}

/* x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), s = f / (2 + f), and
 * log(1 + f) = f - h + s (h + r(s^2)) with h = f^2 / 2. */
CV_FN cv_f64 cv_log_f64(cv_f64 x)
{
    const cv_s_u64 root = 0x3fe6a09e667f3bcd, one = 0x3ff0000000000000;
    cv_m64 plain = cv_and_m64(cv_ge_f64(x, cv_set1_f64(CV_TINY_f64)),
                              cv_lt_f64(x, cv_set1_f64(CV_INF_f64)));
    cv_f64 a = x, lift = {0}, zero = {0};
    int odd = !cv_all_m64(plain);
    if (odd) {
        cv_m64 tiny = cv_lt_f64(x, cv_set1_f64(CV_TINY_f64));
        a = cv_select_f64(tiny, x * 0x1p64, x);
        lift = cv_select_f64(tiny, cv_set1_f64(64.0), lift);
    }
    cv_u64 b = (cv_u64)a + (one - root), n = b >> 52 | (cv_u64)cv_set1_f64(0x1p52);
    cv_f64 e = (cv_f64)n - (0x1p52 + 1023) - lift;
    cv_f64 f = (cv_f64)((b & 0x000fffffffffffff) + root) - 1.0;
    cv_f64 s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
    cv_f64 p = cv_set1_f64(0.14805278786609857);
    p = cv_fma_f64(p, z, cv_set1_f64(0.1531316616947062));
    p = cv_fma_f64(p, z, cv_set1_f64(0.1818359691409332));
    p = cv_fma_f64(p, z, cv_set1_f64(0.2222219798657416));
    p = cv_fma_f64(p, z, cv_set1_f64(0.28571428747682215));
    p = cv_fma_f64(p, z, cv_set1_f64(0.39999999999392927));
    p = cv_fma_f64(p, z, cv_set1_f64(0.6666666666666737));
    cv_f64 tail = cv_fma_f64(s, cv_fma_f64(z, p, h), -h);
    cv_f64 whole = e * CV_LN2_HIGH64, high = whole + f, low = f - (high - whole);
    cv_f64 r = high + (cv_fma_f64(e, cv_set1_f64(CV_LN2_LOW64), tail) + low);
    if (odd) {
        r = cv_select_f64(cv_eq_f64(x, zero), cv_set1_f64(-CV_INF_f64), r);
        r = cv_select_f64(cv_lt_f64(x, zero), cv_set1_f64(CV_NAN_f64), r);
        r = cv_select_f64(cv_lt_f64(x, cv_set1_f64(CV_INF_f64)), r, x);
    }
    return r;
}
#else
CV_LANEWISE1(f64, exp, __builtin_exp)
CV_LANEWISE1(f64, log, __builtin_log)
#endif
CV_LANEWISE1(f64, exp2, __builtin_exp2)
CV_LANEWISE1(f64, expm1, __builtin_expm1)
CV_LANEWISE1(f64, log2, __builtin_log2)
CV_LANEWISE1(f64, log10, __builtin_log10)
CV_LANEWISE1(f64, log1p, __builtin_log1p)
CV_LANEWISE1(f64, sin, __builtin_sin)
CV_LANEWISE1(f64, cos, __builtin_cos)
CV_LANEWISE1(f64, tan, __builtin_tan)
CV_LANEWISE1(f64, asin, __builtin_asin)
CV_LANEWISE1(f64, acos, __builtin_acos)
CV_LANEWISE1(f64, atan, __builtin_atan)
CV_LANEWISE1(f64, sinh, __builtin_sinh)
CV_LANEWISE1(f64, cosh, __builtin_cosh)
CV_LANEWISE1(f64, tanh, __builtin_tanh)
CV_LANEWISE1(f64, asinh, __builtin_asinh)
CV_LANEWISE1(f64, acosh, __builtin_acosh)
CV_LANEWISE1(f64, atanh, __builtin_atanh)
CV_LANEWISE1(f64, erf, __builtin_erf)
CV_LANEWISE1(f64, erfc, __builtin_erfc)
CV_LANEWISE2(f64, atan2, __builtin_atan2)
CV_LANEWISE2(f64, pow, __builtin_pow)
CV_LANEWISE2(f64, hypot, __builtin_hypot)
CV_LANEWISE2(f64, fmod, __builtin_fmod)

CV_DEFINE_DIVISION(f64, m64)

CV_FN cv_f64 cv_sigmoid_f64(cv_f64 x)
{
    cv_f64 e = cv_exp_f64(-cv_abs_f64(x)), one = cv_set1_f64(1.0);
    return cv_select_f64(cv_lt_f64(x, (cv_f64){0}), e, one) / (one + e);
}

CV_FN cv_f64 cv_angle_f64(cv_f64 x)
{
    cv_f64 pi = cv_set1_f64(3.14159265358979324);
    cv_f64 r = cv_select_f64(cv_lt_f64(x, (cv_f64){0}), pi, (cv_f64){0});
    return cv_select_f64(cv_isnan_f64(x), x, r);
}

#ifdef CV_HAS_FMA
/* |x|^y through float64, which has digits to spare; then what the sign of x, zeros, ones and
 * infinities change.  Past 2^24 every float is even. */
CV_FN cv_f32 cv_powsize_f32(cv_f32 x, cv_f32 y)
{
    typedef cv_s_f64 wide CV_VECTOR(2 * CV_BYTES);
    union {
        wide all;
        cv_f64 half[2];
    } a = {__builtin_convertvector(x, wide)}, b = {__builtin_convertvector(y, wide)};
    a.half[0] = cv_exp_f64(b.half[0] * cv_log_f64(a.half[0]));
    a.half[1] = cv_exp_f64(b.half[1] * cv_log_f64(a.half[1]));
    return __builtin_convertvector(a.all, cv_f32);
}

CV_FN cv_f32 cv_pow_f32(cv_f32 x, cv_f32 y)
{
    cv_f32 zero = {0}, one = cv_set1_f32(1.0f), a = cv_abs_f32(x), half = y * 0.5f;
    cv_f32 r = cv_powsize_f32(a, y);
    cv_m32 whole = cv_eq_f32(cv_trunc_f32(y), y);
    cv_m32 odd = cv_and_m32(whole, cv_ne_f32(cv_trunc_f32(half), half));
    cv_m32 root = cv_and_m32(cv_lt_f32(x, zero), cv_not_m32(whole));
    root = cv_and_m32(root, cv_and_m32(cv_isfinite_f32(x), cv_isfinite_f32(y)));
    r = cv_select_f32(cv_and_m32(odd, cv_signbit_f32(x)), -r, r);
    r = cv_select_f32(root, cv_set1_f32(CV_NAN_f32), r);
    cv_m32 unit = cv_and_m32(cv_eq_f32(a, one), cv_isinf_f32(y));
    unit = cv_or_m32(unit, cv_or_m32(cv_eq_f32(x, one), cv_eq_f32(y, zero)));
    return cv_select_f32(unit, one, r);
}
#else
CV_LANEWISE2(f32, pow, __builtin_powf)
#endif

#endif
