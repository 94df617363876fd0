/* vec_f32.h - float32 vectors.
 *
 * exp, log, sin, cos, tanh, erf and sigmoid are within 1 ulp over all floats, the other
 * polynomials within 2 to 4 (tests/ulp measures them); signed zeros, subnormals, infinities
 * and NaN are right.  tools/remez.py prints the coefficients.  Lanes that need something
 * rare (a huge angle, a subnormal logarithm) take a branch which leaves other lanes alone. */
#ifndef CR_EMIT_VEC_F32_H
#define CR_EMIT_VEC_F32_H

#include "emit/vec_float.h"

CV_DEFINE_FLOAT(f32, i32, u32, m32, 4, f)

#define CV_K(c) cv_set1_f32(c)

/* c + a b with an exact product on every target, for the few places that need it. */
CV_FN cv_f32 cv_exactfma_f32(cv_f32 a, cv_f32 b, cv_f32 c)
{
#ifdef CV_HAS_FMA
    return cv_fma_f32(a, b, c);
#else
    CV_TYPE(double, wide, 2 * CV_BYTES);
    wide r = __builtin_convertvector(a, wide) * __builtin_convertvector(b, wide);
    return __builtin_convertvector(r + __builtin_convertvector(c, wide), cv_f32);
#endif
}

/* 1 / x, if x and the result are normal. */
CV_FN cv_f32 cv_recipnormal_f32(cv_f32 x)
{
#ifdef CV_X_RECIP_f32
    return CV_X_RECIP_f32(x);
#else
    return 1.0f / x;
#endif
}

/* Horner's rule, highest coefficient first. */
#define CV_P2(x, a, b)                   cv_fma_f32(CV_K(a), x, CV_K(b))
#define CV_P3(x, a, b, c)                cv_fma_f32(CV_P2(x, a, b), x, CV_K(c))
#define CV_P4(x, a, b, c, d)             cv_fma_f32(CV_P3(x, a, b, c), x, CV_K(d))
#define CV_P5(x, a, b, c, d, e)          cv_fma_f32(CV_P4(x, a, b, c, d), x, CV_K(e))
#define CV_P6(x, a, b, c, d, e, f)       cv_fma_f32(CV_P5(x, a, b, c, d, e), x, CV_K(f))
#define CV_P7(x, a, b, c, d, e, f, g)    cv_fma_f32(CV_P6(x, a, b, c, d, e, f), x, CV_K(g))
#define CV_P8(x, a, b, c, d, e, f, g, h) cv_fma_f32(CV_P7(x, a, b, c, d, e, f, g), x, CV_K(h))
#define CV_P9(x, a, b, c, d, e, f, g, h, i)                                                    \
    cv_fma_f32(CV_P8(x, a, b, c, d, e, f, g, h), x, CV_K(i))

/* --- exponentials --- */

/* Adding this rounds to an integer and leaves the integer in the low bits. */
#define CV_MAGIC 12582912.0f

CV_FN cv_i32 cv_magic_int(cv_f32 t) { return (cv_i32)((cv_u32)t - 0x4B400000u); }

/* r times two to the n, in two steps: either may leave the range of one exponent.  The bits of
 * CV_MAGIC, and of its half, end with 21 zeros, which leave when an exponent is shifted up. */
CV_FN cv_f32 cv_scale_f32(cv_f32 r, cv_f32 t)
{
#ifdef CV_X_SCALEF_f32
    return CV_X_SCALEF_f32(r, t - CV_MAGIC);
#else
    cv_u32 n = (cv_u32)t, half = n >> 1;
    return r * (cv_f32)((half << 23) + 0x3f800000u) *
           (cv_f32)(((n - half) << 23) + 0x3f800000u);
#endif
}

/* Like cv_scale_f32, if r and the result are normal. */
CV_FN cv_f32 cv_scalenormal_f32(cv_f32 r, cv_f32 t)
{
    return (cv_f32)((cv_u32)r + ((cv_u32)t << 23));
}

/* q with e^x = 2^n (1 + q); *t is `magic` + n: CV_MAGIC, or an even number above it. */
CV_FN cv_f32 cv_expabove_f32(cv_f32 x, cv_s_f32 magic, cv_f32 *t)
{
    *t = cv_fma_f32(x, CV_K(1.44269504f), CV_K(magic));
    cv_f32 n = *t - magic;
    cv_f32 f = cv_fma_f32(n, CV_K(-0x1.62e4p-1f), x), low = n * -0x1.7f7d1cp-20f;
    cv_f32 g = f + low;
    cv_f32 p =
        CV_P5(g, 0.00138410064f, 0.00836993381f, 0.0416681133f, 0.166665167f, 0.49999994f);
    return f + cv_fma_f32(g * g, p, low);
}
CV_FN cv_f32 cv_expreduce_f32(cv_f32 x, cv_f32 *t) { return cv_expabove_f32(x, CV_MAGIC, t); }

/* cv_maximum and cv_minimum, but of +0 and -0 either one; and the greater or lesser one of c,
 * which is not zero, and x, of which a NaN stays. */
#ifdef CV_X_MOST_f32
CV_FN cv_f32 cv_most_f32(cv_f32 a, cv_f32 b) { return CV_X_MOST_f32(a, b); }
CV_FN cv_f32 cv_least_f32(cv_f32 a, cv_f32 b) { return CV_X_LEAST_f32(a, b); }
CV_FN cv_f32 cv_atleast_f32(cv_s_f32 c, cv_f32 x) { return cv_most_f32(CV_K(c), x); }
CV_FN cv_f32 cv_atmost_f32(cv_s_f32 c, cv_f32 x) { return cv_least_f32(CV_K(c), x); }
#else
CV_FN cv_f32 cv_atleast_f32(cv_s_f32 c, cv_f32 x) { return cv_greater_f32(CV_K(c), x); }
CV_FN cv_f32 cv_atmost_f32(cv_s_f32 c, cv_f32 x) { return cv_lesser_f32(CV_K(c), x); }
#endif
CV_FN cv_f32 cv_clamp_f32(cv_f32 x, cv_s_f32 low, cv_s_f32 high)
{
    return cv_atmost_f32(high, cv_atleast_f32(low, x));
}

/* Lanes whose result is zero, such as hidden scores, have a zero as a factor: some processors
 * take hundreds of cycles for a product that underflows. */
CV_FN cv_f32 cv_exp_f32(cv_f32 x)
{
#ifdef CV_X_SCALEF_f32
    cv_m32 some = CV_X_CMP_f32(x, CV_K(-104.0f), CV_NLT);
    cv_f32 t, zero = {0}, q = cv_expreduce_f32(cv_atmost_f32(89.0f, x), &t);
    return cv_scale_f32(cv_select_f32(some, 1.0f + q, zero), t);
#else
    /* The lowest n is -254, whose halves are exponents of zeros. */
    cv_f32 t, q = cv_expreduce_f32(cv_clamp_f32(x, -176.0f, 89.0f), &t);
    return cv_scale_f32(1.0f + q, t);
#endif
}

/* The same of x <= 0: of 2^n, 2^65 and more is in one exponent. */
CV_FN cv_f32 cv_expdown_f32(cv_f32 x)
{
    cv_f32 t, q = cv_expabove_f32(cv_atleast_f32(-104.0f, x), CV_MAGIC + 192.0f, &t);
    return (1.0f + q) * (cv_f32)((cv_u32)t << 23) * 0x1p-65f;
}

/* The same of -87 <= x <= 0: no result is below the least normal number. */
CV_FN cv_f32 cv_expnear_f32(cv_f32 x)
{
    cv_f32 t, q = cv_expreduce_f32(x, &t);
    return (cv_f32)((cv_u32)(1.0f + q) + ((cv_u32)t << 23));
}

CV_FN cv_f32 cv_exp2_f32(cv_f32 x)
{
    cv_f32 a = cv_clamp_f32(x, -151.0f, 129.0f), t = a + CV_MAGIC, f = a - (t - CV_MAGIC);
    cv_f32 p = CV_P6(f, 0.000153782225f, 0.00133928878f, 0.00961833168f, 0.0555035658f,
                     0.240226492f, 0.693147182f);
    return cv_scale_f32(cv_fma_f32(p, f, CV_K(1.0f)), t);
}

CV_FN cv_f32 cv_expm1_f32(cv_f32 x)
{
    cv_f32 a = cv_clamp_f32(x, -20.0f, 89.0f);
    cv_f32 t = cv_fma_f32(a, CV_K(1.44269504f), CV_K(CV_MAGIC)), n = t - CV_MAGIC;
    cv_f32 f = cv_fma_f32(n, CV_K(-0x1.62e4p-1f), a);
    f = cv_fma_f32(n, CV_K(-0x1.7f7d1cp-20f), f);
    cv_f32 q = CV_P6(f, 0.000199313246f, 0.00139341142f, 0.00833322387f, 0.0416664854f,
                     0.166666672f, 0.5f);
    q = cv_fma_f32(f * f, q, f);
    cv_f32 half = cv_scalenormal_f32(CV_K(0.5f), t);
    cv_f32 r = 2.0f * cv_fma_f32(q, half, half - 0.5f);
    return cv_select_f32(cv_lt_f32(cv_abs_f32(x), CV_K(0x1p-25f)), x, r);
}

/* r times two to the n, n at most 0, for t = CV_MAGIC + 192 + n: 2^(n + 65) is in one exponent,
 * so the last factor alone rounds. */
CV_FN cv_f32 cv_scaledown_f32(cv_f32 r, cv_f32 t)
{
#ifdef CV_X_SCALEF_f32
    return CV_X_SCALEF_f32(r, t - (CV_MAGIC + 192.0f));
#else
    return r * (cv_f32)((cv_u32)t << 23) * 0x1p-65f;
#endif
}

/* e^-|x| is kept as a sum and the quotient corrected by its remainder, so that one rounding
 * decides.  For negative x the power of two comes last: the result may be subnormal. */
CV_FN cv_f32 cv_sigmoid_f32(cv_f32 x)
{
    cv_f32 t, a = cv_atleast_f32(-104.0f, -cv_abs_f32(x));
    cv_f32 q = cv_expabove_f32(a, CV_MAGIC + 192.0f, &t);
    cv_m32 negative = cv_lt_f32(x, CV_K(0.0f));
    cv_f32 e = 1.0f + q, elow = q - (e - 1.0f);
    /* 2^n, of n below -126 that of -126 */
    cv_u32 least = (cv_u32)cv_atleast_f32(CV_MAGIC + 66.0f, t);
    cv_f32 two = (cv_f32)((least << 23) + (0x3f800000u - (192u << 23)));
    cv_f32 scaled = e * two, d = 1.0f + scaled, dlow = scaled - (d - 1.0f) + elow * two;
    cv_f32 y = cv_recipnormal_f32(d), top = cv_select_f32(negative, e, CV_K(1.0f));
    cv_f32 toplow = cv_select_f32(negative, elow, CV_K(0.0f)), s = top * y;
    cv_f32 rest = cv_exactfma_f32(-s, d, top) + (toplow - s * dlow);
    s = cv_fma_f32(rest, y, s);
    return cv_select_f32(negative, cv_scaledown_f32(s, t), s);
}

CV_FN cv_f32 cv_tanh_f32(cv_f32 x)
{
    cv_f32 a = cv_atmost_f32(10.0f, cv_abs_f32(x)), z = x * x, t;
    cv_f32 e = cv_expreduce_f32(a + a, &t);
    cv_f32 half = cv_scalenormal_f32(CV_K(0.5f), t);
    cv_f32 large = 1.0f - cv_recipnormal_f32(cv_fma_f32(half, e, half + 0.5f));
    cv_f32 small = CV_P7(z, -0.000398180855f, 0.00242371392f, -0.0080927331f, 0.0215726122f,
                         -0.0539051071f, 0.133326843f, -0.333333105f);
    small = cv_exactfma_f32(z * x, small, x);
    return cv_copysign_f32(cv_select_f32(cv_gt_f32(a, CV_K(0.95f)), large, small), x);
}

CV_FN cv_f32 cv_sinh_f32(cv_f32 x)
{
    cv_f32 a = cv_abs_f32(x), z = x * x, t;
    cv_f32 q = cv_expreduce_f32(cv_atmost_f32(90.0f, a), &t);
    cv_f32 e = cv_scale_f32(1.0f + q, t - 1.0f);
    cv_f32 large = cv_copysign_f32(e - 0.25f / e, x);
    cv_f32 small = cv_fma_f32(
        z * x, CV_P4(z, 2.78436778e-6f, 0.000198426016f, 0.00833331142f, 0.166666672f), x);
    return cv_select_f32(cv_gt_f32(a, CV_K(1.0f)), large, small);
}

CV_FN cv_f32 cv_cosh_f32(cv_f32 x)
{
    cv_f32 t, q = cv_expreduce_f32(cv_atmost_f32(90.0f, cv_abs_f32(x)), &t);
    cv_f32 e = cv_scale_f32(1.0f + q, t - 1.0f);
    return e + 0.25f / e;
}

/* --- logarithms --- */

/* log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1]. */
CV_FN cv_f32 cv_logtail_f32(cv_f32 f)
{
    cv_f32 z = f * f;
    cv_f32 p = CV_P9(f, 0.067179203f, -0.116513826f, 0.118929274f, -0.124108091f, 0.142193526f,
                     -0.166676119f, 0.20002088f, -0.250000149f, 0.333333135f);
    return cv_fma_f32(z * f, p, -0.5f * z);
}

/* x = 2^e (1 + f). */
CV_FN cv_f32 cv_logreduce_f32(cv_f32 x, cv_f32 *e)
{
    cv_u32 b = (cv_u32)x;
    cv_i32 n = (cv_i32)(b - 0x3f3504f3u) >> 23;
    *e = __builtin_convertvector(n, cv_f32);
    return (cv_f32)(b - ((cv_u32)n << 23)) - 1.0f;
}

/* Corrects logarithms of zero, negative and infinite numbers. */
CV_FN cv_f32 cv_logedge_f32(cv_f32 x, cv_f32 r)
{
    r = cv_select_f32(cv_eq_f32(x, CV_K(0.0f)), CV_K(-CV_INF_f32), r);
    r = cv_select_f32(cv_lt_f32(x, CV_K(0.0f)), CV_K(CV_NAN_f32), r);
    return cv_select_f32(cv_lt_f32(x, CV_K(CV_INF_f32)), r, x);
}

/* A logarithm from `join`, which maps e and f to it. */
#define CV_DEFINE_LOG(name, join)                                                              \
    CV_FN cv_f32 cv_##name##_f32(cv_f32 x)                                                     \
    {                                                                                          \
        cv_m32 plain =                                                                         \
            cv_and_m32(cv_ge_f32(x, CV_K(CV_TINY_f32)), cv_lt_f32(x, CV_K(CV_INF_f32)));       \
        cv_f32 a = x, lift = {0}, e, f, r;                                                     \
        int odd = !cv_all_m32(plain);                                                          \
        if (odd) {                                                                             \
            cv_m32 tiny = cv_lt_f32(x, CV_K(CV_TINY_f32));                                     \
            a = cv_select_f32(tiny, x * 0x1p32f, x);                                           \
            lift = cv_select_f32(tiny, CV_K(32.0f), lift);                                     \
        }                                                                                      \
        f = cv_logreduce_f32(a, &e);                                                           \
        e -= lift;                                                                             \
        r = join(e, f);                                                                        \
        return odd ? cv_logedge_f32(x, r) : r;                                                 \
    }

#define CV_LN2_HIGH 0x1.62e4p-1f
#define CV_LN2_LOW  0x1.7f7d1cp-20f

/* f + e ln 2 is split into its rounded value and the rest. */
CV_FN cv_f32 cv_logjoin_f32(cv_f32 e, cv_f32 f)
{
    cv_f32 a = e * CV_LN2_HIGH, high = a + f, low = f - (high - a);
    return high + (cv_fma_f32(e, CV_K(CV_LN2_LOW), cv_logtail_f32(f)) + low);
}

CV_FN cv_f32 cv_log2join_f32(cv_f32 e, cv_f32 f)
{
    cv_f32 tail = cv_logtail_f32(f), k = CV_K(0x1.715476p+0f);
    return e + cv_fma_f32(f, k, cv_fma_f32(tail, k, f * 0x1.4ae0cp-26f));
}

CV_FN cv_f32 cv_log10join_f32(cv_f32 e, cv_f32 f)
{
    cv_f32 tail = cv_logtail_f32(f), k = CV_K(0x1.bcb7b2p-2f);
    cv_f32 low = cv_fma_f32(e, CV_K(0x1.3509f8p-18f), f * -0x1.5b235ep-27f);
    return cv_fma_f32(e, CV_K(0x1.344p-2f), cv_fma_f32(f, k, cv_fma_f32(tail, k, low)));
}

CV_DEFINE_LOG(log, cv_logjoin_f32)
CV_DEFINE_LOG(log2, cv_log2join_f32)
CV_DEFINE_LOG(log10, cv_log10join_f32)

/* 1 + x is rounded only to find e; f comes from x itself. */
CV_FN cv_f32 cv_log1p_f32(cv_f32 x)
{
    cv_f32 u = 1.0f + x;
    cv_i32 n = (cv_i32)((cv_u32)u - 0x3f3504f3u) >> 23;
    cv_f32 e = __builtin_convertvector(n, cv_f32), four = (cv_f32)((129u - (cv_u32)n) << 23);
    cv_f32 f = cv_fma_f32(x * 0.25f, four, four * 0.25f - 1.0f);
    cv_f32 r = cv_logjoin_f32(e, f);
    cv_m32 plain = cv_and_m32(cv_gt_f32(x, CV_K(-1.0f)), cv_lt_f32(x, CV_K(CV_INF_f32)));
    if (!cv_all_m32(plain))
        r = cv_logedge_f32(u, r);
    return cv_select_f32(cv_lt_f32(cv_abs_f32(x), CV_K(0x1p-25f)), x, r);
}

/* --- circular functions --- */

/* Three parts of pi / 2 are precise enough up to this angle. */
#define CV_ANGLE_LIMIT 200000.0f

CV_SLOW void cv_farangle_f32(const cv_f32 *x, cv_f32 *t, cv_f32 *r, cv_f32 *low)
{
    for (int l = 0; l < CV_LANES_f32; l++) {
        double a = (double)(*x)[l], rest, turn;
        int quarter;
        if (a < (double)CV_ANGLE_LIMIT && a > -(double)CV_ANGLE_LIMIT)
            continue;
        turn = cv_d_quarters(a, &rest, &quarter);
        turn = (turn + rest) * 0x1.921fb54442d18p+0;
        (*t)[l] = CV_MAGIC + (float)(a < 0 ? -quarter : quarter);
        (*r)[l] = (float)(a < 0 ? -turn : turn);
        (*low)[l] = (float)((a < 0 ? -turn : turn) - (double)(*r)[l]);
    }
}

/* x = n pi/2 + r + *low; *t is CV_MAGIC + n.  r - *low is exact up to 2^-57. */
CV_FN cv_f32 cv_reduceangle_f32(cv_f32 x, cv_f32 *t, cv_f32 *low)
{
    const cv_s_f32 high = 0x1.921fb6p+0f, mid = -0x1.777a5cp-25f, rest = -0x1.ee59dap-50f;
    *t = cv_fma_f32(x, CV_K(0.636619772f), CV_K(CV_MAGIC));
    cv_f32 n = *t - CV_MAGIC, a = cv_exactfma_f32(n, CV_K(-high), x);
    cv_f32 p = n * mid, plow = cv_exactfma_f32(n, CV_K(mid), -p), r = a - p;
    *low = ((a - r) - p) - cv_fma_f32(n, CV_K(rest), plow);
    if (!cv_all_m32(cv_lt_f32(cv_abs_f32(x), CV_K(CV_ANGLE_LIMIT))))
        cv_farangle_f32(&x, t, &r, low);
    return r;
}

/* The sine of x, and its cosine in *c. */
CV_FN cv_f32 cv_sincos_f32(cv_f32 x, cv_f32 *c)
{
    cv_f32 t, low, a = cv_reduceangle_f32(x, &t, &low), z = a * a, half = 0.5f * z;
    cv_f32 s =
        a + cv_fma_f32(a * z, CV_P3(z, -0.000195078625f, 0.00833210628f, -0.166666538f), low);
    cv_f32 w = 1.0f - half, p = CV_P3(z, 2.44306684e-5f, -0.00138873013f, 0.0416666456f);
    p = w + (((1.0f - w) - half) + cv_fma_f32(z * z, p, -a * low));
    cv_i32 n = cv_magic_int(t);
    cv_m32 odd = cv_ne_i32(n & 1, CV_MAKE(cv_i32, 0));
    *c = (cv_f32)((cv_i32)cv_select_f32(odd, s, p) ^ (((n + 1) & 2) << 30));
    s = (cv_f32)((cv_i32)cv_select_f32(odd, p, s) ^ ((n & 2) << 30));
    return cv_select_f32(cv_eq_f32(x, CV_K(0.0f)), x, s);
}

CV_FN cv_f32 cv_sin_f32(cv_f32 x)
{
    cv_f32 c;
    return cv_sincos_f32(x, &c);
}

CV_FN cv_f32 cv_cos_f32(cv_f32 x)
{
    cv_f32 c;
    cv_sincos_f32(x, &c);
    return c;
}

CV_FN cv_f32 cv_tan_f32(cv_f32 x)
{
    cv_f32 t, low, a = cv_reduceangle_f32(x, &t, &low), z = a * a;
    cv_f32 p = CV_P7(z, 0.0044878982f, -0.000131027497f, 0.0110045867f, 0.0212194677f,
                     0.054071486f, 0.133325681f, 0.333333522f);
    cv_f32 r = a + cv_fma_f32(a * z, p, cv_fma_f32(low, z, low));
    r = cv_select_f32(cv_ne_i32(cv_magic_int(t) & 1, CV_MAKE(cv_i32, 0)), -1.0f / r, r);
    return cv_select_f32(cv_eq_f32(x, CV_K(0.0f)), x, r);
}

#define CV_HALFPI_f32     0x1.921fb6p+0f
#define CV_HALFPI_LOW_f32 -0x1.777a5cp-25f
#define CV_ATANHSMALL_f32 0x1p-13f
#define CV_ARCHUGE_f32    0x1p40f

/* atan z for z in [-1, 1]. */
CV_FN cv_f32 cv_atancore_f32(cv_f32 z)
{
    cv_f32 u = z * z;
    cv_f32 p = CV_P9(u, -0.00178248412f, 0.010867578f, -0.03109557f, 0.0578805134f,
                     -0.0839928016f, 0.109508775f, -0.142640159f, 0.199985296f, -0.333332986f);
    return cv_fma_f32(z * u, p, z);
}

CV_FN cv_f32 cv_atan_f32(cv_f32 x)
{
    cv_f32 a = cv_abs_f32(x);
    cv_m32 over = cv_gt_f32(a, CV_K(1.0f));
    cv_f32 p = cv_atancore_f32(cv_select_f32(over, -1.0f / a, a));
    p = cv_select_f32(over, CV_HALFPI_f32 + (p + CV_HALFPI_LOW_f32), p);
    return cv_copysign_f32(p, x);
}

CV_FN cv_f32 cv_atan2_f32(cv_f32 y, cv_f32 x)
{
    cv_f32 ax = cv_abs_f32(x), ay = cv_abs_f32(y), zero = {0};
    cv_m32 over = cv_gt_f32(ay, ax), left = cv_signbit_f32(x);
    cv_f32 low = cv_select_f32(over, ax, ay), high = cv_select_f32(over, ay, ax);
    cv_f32 z = low / high;
    z = cv_select_f32(cv_eq_f32(low, high), CV_K(1.0f), z);
    z = cv_select_f32(cv_eq_f32(high, zero), zero, z);
    /* pi/2 - atan, pi - atan or pi/2 + atan: the angle is base +- p. */
    cv_f32 p = cv_atancore_f32(z);
    p = cv_select_f32(cv_xor_m32(over, left), -p, p);
    cv_f32 count = cv_select_f32(over, CV_K(1.0f), cv_select_f32(left, CV_K(2.0f), zero));
    p = cv_fma_f32(count, CV_K(CV_HALFPI_f32), cv_fma_f32(count, CV_K(CV_HALFPI_LOW_f32), p));
    p = cv_copysign_f32(p, y);
    return cv_select_f32(cv_or_m32(cv_isnan_f32(x), cv_isnan_f32(y)), x + y, p);
}

/* z^3 p(z^2) with asin z = z + that, for z in [-1/2, 1/2] and u = z^2. */
CV_FN cv_f32 cv_asintail_f32(cv_f32 z, cv_f32 u)
{
    return z * u *
           CV_P6(u, 0.0376961492f, 0.0143154617f, 0.0318389386f, 0.0445133857f, 0.0750052184f,
                 0.166666597f);
}

CV_DEFINE_ARCS(f32, m32)

/* --- erf, fmod and others --- */

CV_FN cv_f32 cv_erf_f32(cv_f32 x)
{
    cv_f32 a = cv_atmost_f32(3.95f, cv_abs_f32(x)), z = x * x, t;
    cv_f32 p = CV_P6(a, 6.19456796e-6f, -0.000273764512f, 0.00344890961f, -0.0233655479f,
                     0.105791919f, 0.635410845f);
    p = cv_exactfma_f32(p, a, CV_K(0.128586963f));
    cv_f32 q = cv_expreduce_f32(cv_exactfma_f32(-a, p, -a), &t);
    cv_f32 two = cv_scalenormal_f32(CV_K(1.0f), t);
    cv_f32 large = cv_copysign_f32(cv_fma_f32(-two, q, 1.0f - two), x);
    cv_f32 small = CV_P6(z, -0.000646105444f, 0.00507522793f, -0.0268165898f, 0.112830564f,
                         -0.376126021f, 0.128379166f);
    small = cv_exactfma_f32(small, x, x);
    return cv_select_f32(cv_gt_f32(a, CV_K(0.82f)), large, small);
}

/* The normal distribution function, within 2^-24: 1/2 +- (1/2 - e), where e = 2^(-a p(a)) / 2
 * is the chance to be above a.  2^-f / 2 is 1/2 + f q(f). */
CV_FN cv_f32 cv_ncdf_f32(cv_f32 x)
{
    cv_f32 a = cv_atmost_f32(5.6f, cv_abs_f32(x));
    cv_f32 y = a * CV_P8(a, 2.84050907e-6f, -3.94498456e-5f, 0.000186545367f, 0.000136005721f,
                         -0.00706214411f, 0.0524952523f, 0.459208518f, 1.15110517f);
    cv_f32 t = CV_MAGIC - y, f = y + (t - CV_MAGIC);
    cv_f32 q = CV_P6(f, 7.72202329e-5f, -0.00066964596f, 0.00480905548f, -0.0277517904f,
                     0.120113254f, -0.346573591f);
    cv_f32 e = cv_scalenormal_f32(cv_fma_f32(q, f, CV_K(0.5f)), t);
    return 0.5f + cv_copysign_f32(0.5f - e, x);
}

CV_FN cv_f32 cv_hypot_f32(cv_f32 x, cv_f32 y)
{
    cv_f32 a = cv_abs_f32(x), b = cv_abs_f32(y), zero = {0};
    cv_f32 high = cv_maximum_f32(a, b), low = cv_minimum_f32(a, b), ratio = low / high;
    cv_f32 r = high * cv_sqrt_f32(cv_fma_f32(ratio, ratio, CV_K(1.0f)));
    r = cv_select_f32(cv_eq_f32(high, zero), zero, r);
    cv_m32 endless = cv_or_m32(cv_isinf_f32(a), cv_isinf_f32(b));
    return cv_select_f32(endless, CV_K(CV_INF_f32), r);
}

CV_FN cv_f32 cv_angle_f32(cv_f32 x)
{
    cv_f32 r =
        cv_select_f32(cv_lt_f32(x, CV_K(0.0f)), CV_K(2 * CV_HALFPI_f32), CV_MAKE(cv_f32, 0));
    return cv_select_f32(cv_isnan_f32(x), x, r);
}

CV_DEFINE_FMOD(f32, m32, f, 0x1p100f)
CV_DEFINE_DIVISION(f32, m32)

/* --- rounding to half types, whose values stay float32 --- */

/* Rounds to nearest even in the upper 16 bits; a NaN stays a NaN. */
CV_FN cv_f32 cv_roundbfloat_f32(cv_f32 x)
{
#ifdef CV_X_ROUNDBF_f32
    return CV_X_ROUNDBF_f32(x);
#else
    const cv_u32 u = (cv_u32)x; /* the bits of a NaN may pass the largest integer */
    const cv_u32 r = (u + 0x7fff + ((u >> 16) & 1)) & (cv_u32)(cv_set1_i32(-0x10000));

    return cv_select_f32(cv_isnan_f32(x), x, (cv_f32)r);
#endif
}

/* Nearest even at 10 bits of mantissa; below 2^-14 at 2^-24, which is what adding 0.5 does. */
CV_FN cv_f32 cv_roundhalf_f32(cv_f32 x)
{
#ifdef CV_X_ROUNDHALF_f32
    return CV_X_ROUNDHALF_f32(x);
#else
    const cv_f32 a = cv_abs_f32(x), half = cv_set1_f32(0.5f);
    const cv_u32 u = (cv_u32)a;
    cv_f32 r = (cv_f32)((u + 0xfff + ((u >> 13) & 1)) & (cv_u32)(cv_set1_i32(-0x2000)));

    r = cv_select_f32(cv_ge_f32(a, cv_set1_f32(65520.0f)), cv_set1_f32(__builtin_inff()), r);
    r = cv_select_f32(cv_lt_f32(a, cv_set1_f32(0x1p-14f)), (a + half) - half, r);
    return cv_select_f32(cv_isnan_f32(x), x, cv_copysign_f32(r, x));
#endif
}

#endif
