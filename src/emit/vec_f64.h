/* vec_f64.h - float64 vectors.
 *
 * Where there is a fused multiply-add the functions up to erf are within 1 ulp over all numbers
 * (tests/ulp measures them); signed zeros, subnormals, infinities and NaN are right.  The rest,
 * and the baseline, goes to libm lane by lane.  Values that need more than 53 bits are sums of
 * two numbers, the second by a pointer.  float32's pow and erfc are here because they are
 * computed in float64. */
#ifndef CR_EMIT_VEC_F64_H
#define CR_EMIT_VEC_F64_H

#include "emit/vec_f32.h"

CV_DEFINE_FLOAT(f64, i64, u64, m64, 8, )

#ifdef CV_HAS_FMA
#define CV_D(c) cv_set1_f64(c)

/* Horner's rule, highest coefficient first. */
#define CV_D2(x, a, b)                   cv_fma_f64(CV_D(a), x, CV_D(b))
#define CV_D3(x, a, b, c)                cv_fma_f64(CV_D2(x, a, b), x, CV_D(c))
#define CV_D4(x, a, b, c, d)             cv_fma_f64(CV_D3(x, a, b, c), x, CV_D(d))
#define CV_D5(x, a, b, c, d, e)          cv_fma_f64(CV_D4(x, a, b, c, d), x, CV_D(e))
#define CV_D6(x, a, b, c, d, e, f)       cv_fma_f64(CV_D5(x, a, b, c, d, e), x, CV_D(f))
#define CV_D7(x, a, b, c, d, e, f, g)    cv_fma_f64(CV_D6(x, a, b, c, d, e, f), x, CV_D(g))
#define CV_D8(x, a, b, c, d, e, f, g, h) cv_fma_f64(CV_D7(x, a, b, c, d, e, f, g), x, CV_D(h))

/* a / b, where both are sums. */
CV_FN cv_f64 cv_ratio_f64(cv_f64 a, cv_f64 alow, cv_f64 b, cv_f64 blow)
{
    cv_f64 y = 1.0 / b, q = a * y;
    return cv_fma_f64(cv_fma_f64(-q, b, a) + cv_fma_f64(-q, blow, alow), y, q);
}

/* --- exponentials --- */

/* As in vec_f32.h: adding this rounds to an integer; r is then scaled in two steps. */
#define CV_MAGIC64    0x1.8p52
#define CV_LN2_HIGH64 0x1.62e42feep-1
#define CV_LN2_LOW64  0x1.a39ef35793c76p-33

CV_FN cv_f64 cv_scale_f64(cv_f64 r, cv_f64 t)
{
#ifdef CV_X_SCALEF_f64
    return CV_X_SCALEF_f64(r, t - CV_MAGIC64);
#else
    /* Kept positive: there is no arithmetic shift of 64-bit lanes. */
    cv_u64 n = (cv_u64)t - (cv_u64)CV_D(CV_MAGIC64) + 2046, half = n >> 1;
    return r * (cv_f64)(half << 52) * (cv_f64)((n - half) << 52);
#endif
}

/* Like cv_scale_f64, if r and the result are normal. */
CV_FN cv_f64 cv_scalenormal_f64(cv_f64 r, cv_f64 t)
{
    return (cv_f64)((cv_u64)r + ((cv_u64)t << 52));
}

CV_FN cv_f64 cv_clamp_f64(cv_f64 x, cv_s_f64 low, cv_s_f64 high)
{
    return cv_lesser_f64(CV_D(high), cv_greater_f64(CV_D(low), x));
}

/* (e^g - 1 - g - g^2 / 2) / g^3 for |g| up to ln 2 / 2. */
CV_FN cv_f64 cv_expcore_f64(cv_f64 g)
{
    cv_f64 p = CV_D8(g, 2.086869147233112e-09, 2.5113169334699814e-08, 2.755747526636895e-07,
                     2.755723296600957e-06, 2.4801587036691296e-05, 0.00019841269896899339,
                     0.001388888888904242, 0.008333333333317282);
    p = cv_fma_f64(p, g, CV_D(0.041666666666666394));
    return cv_fma_f64(p, g, CV_D(0.16666666666666682));
}

/* e^(f - low) - 1 - f, low being small beside f. */
CV_FN cv_f64 cv_exptail_f64(cv_f64 f, cv_f64 low)
{
    cv_f64 g = f - low;
    return cv_fma_f64(g * g, cv_fma_f64(cv_expcore_f64(g), g, CV_D(0.5)), -low);
}

/* e^(x + low) = 2^n (1 + f + *tail); *t is CV_MAGIC64 + n. */
CV_FN cv_f64 cv_expreduce_f64(cv_f64 x, cv_f64 low, cv_f64 *t, cv_f64 *tail)
{
    *t = cv_fma_f64(x, CV_D(0x1.71547652b82fep+0), CV_D(CV_MAGIC64));
    cv_f64 n = *t - CV_MAGIC64, f = cv_fma_f64(n, CV_D(-CV_LN2_HIGH64), x);
    *tail = cv_exptail_f64(f, cv_fma_f64(n, CV_D(CV_LN2_LOW64), -low));
    return f;
}

/* Lanes whose result is zero as those of float32. */
CV_FN cv_f64 cv_exp_f64(cv_f64 x)
{
    cv_f64 zero = {0}, t, tail, f;
#ifdef CV_X_SCALEF_f64
    cv_m64 some = CV_X_CMP_f64(x, CV_D(-746.0), CV_NLT);
    f = cv_expreduce_f64(cv_lesser_f64(CV_D(710.0), x), zero, &t, &tail);
    return cv_scale_f64(cv_select_f64(some, 1.0 + (f + tail), zero), t);
#else
    f = cv_expreduce_f64(cv_clamp_f64(x, -1418.0, 710.0), zero, &t, &tail);
    return cv_scale_f64(1.0 + (f + tail), t);
#endif
}

CV_FN cv_f64 cv_exp2_f64(cv_f64 x)
{
    cv_f64 a = cv_clamp_f64(x, -1077.0, 1025.0), t = a + CV_MAGIC64, r = a - (t - CV_MAGIC64);
    cv_f64 ln2 = CV_D(0x1.62e42fefa39efp-1), f = r * ln2, low = cv_fma_f64(r, ln2, -f);
    low = cv_fma_f64(r, CV_D(0x1.abc9e3b39803fp-56), low);
    return cv_scale_f64(1.0 + (f + cv_exptail_f64(f, -low)), t);
}

/* (e^x - 1) / 4 as a sum, for x in [-40, 710.5]. */
CV_FN cv_f64 cv_expm1quarter_f64(cv_f64 x, cv_f64 *low)
{
    cv_f64 t = cv_fma_f64(x, CV_D(0x1.71547652b82fep+0), CV_D(CV_MAGIC64)), n = t - CV_MAGIC64;
    cv_f64 f = cv_fma_f64(n, CV_D(-CV_LN2_HIGH64), x), flow = n * CV_LN2_LOW64;
    cv_f64 g = f - flow, glow = (f - g) - flow, h = 0.5 * g, a = h * g;
    cv_f64 tail = a + cv_fma_f64(2.0 * a * g, cv_expcore_f64(g),
                                 cv_fma_f64(g, glow, cv_fma_f64(h, g, -a)));
    cv_f64 q = g + tail, qlow = (tail - (q - g)) + glow;
    cv_f64 unit = cv_scalenormal_f64(CV_D(0.25), t), base = unit - 0.25, part = unit * q;
    cv_f64 high = base + part;
    *low = cv_fma_f64(unit, qlow, part - (high - base)) + ((unit - base) - 0.25);
    return high;
}

CV_FN cv_f64 cv_expm1_f64(cv_f64 x)
{
    cv_f64 low, high = cv_expm1quarter_f64(cv_clamp_f64(x, -40.0, 710.0), &low);
    return cv_select_f64(cv_lt_f64(cv_abs_f64(x), CV_D(0x1p-54)), x, 4.0 * (high + low));
}

/* tanh x = e / (e + 1/2) with e = (e^2x - 1) / 4. */
CV_FN cv_f64 cv_tanh_f64(cv_f64 x)
{
    cv_f64 a = cv_lesser_f64(CV_D(22.0), cv_abs_f64(x)), low;
    cv_f64 e = cv_expm1quarter_f64(a + a, &low), d = e + 0.5, b = d - e;
    cv_f64 r = cv_ratio_f64(e, low, d, (e - (d - b)) + (0.5 - b) + low);
    return cv_copysign_f64(cv_select_f64(cv_lt_f64(a, CV_D(0x1p-28)), a, r), x);
}

/* --- logarithms --- */

/* x = 2^e m with m in [sqrt(1/2), sqrt(2)), for positive normal x. */
CV_FN cv_f64 cv_logreduce_f64(cv_f64 x, cv_f64 *e)
{
    const cv_s_u64 root = 0x3fe6a09e667f3bcd, one = 0x3ff0000000000000;
    cv_u64 b = (cv_u64)x + (one - root), n = b >> 52 | (cv_u64)CV_D(0x1p52);
    *e = (cv_f64)n - (0x1p52 + 1023);
    return (cv_f64)((b & 0x000fffffffffffff) + root);
}

/* Corrects logarithms of zero, negative and infinite numbers. */
CV_FN cv_f64 cv_logedge_f64(cv_f64 x, cv_f64 r)
{
    r = cv_select_f64(cv_eq_f64(x, CV_D(0.0)), CV_D(-CV_INF_f64), r);
    r = cv_select_f64(cv_lt_f64(x, CV_D(0.0)), CV_D(CV_NAN_f64), r);
    return cv_select_f64(cv_lt_f64(x, CV_D(CV_INF_f64)), r, x);
}

/* A logarithm from `join`, which maps e and m to it. */
#define CV_DEFINE_LOG_f64(name, join)                                                          \
    CV_FN cv_f64 cv_##name##_f64(cv_f64 x)                                                     \
    {                                                                                          \
        cv_m64 plain =                                                                         \
            cv_and_m64(cv_ge_f64(x, CV_D(CV_TINY_f64)), cv_lt_f64(x, CV_D(CV_INF_f64)));       \
        cv_f64 a = x, lift = {0}, e, m, r;                                                     \
        int odd = !cv_all_m64(plain);                                                          \
        if (odd) {                                                                             \
            cv_m64 tiny = cv_lt_f64(x, CV_D(CV_TINY_f64));                                     \
            a = cv_select_f64(tiny, x * 0x1p64, x);                                            \
            lift = cv_select_f64(tiny, CV_D(64.0), lift);                                      \
        }                                                                                      \
        m = cv_logreduce_f64(a, &e);                                                           \
        r = join(e - lift, m);                                                                 \
        return odd ? cv_logedge_f64(x, r) : r;                                                 \
    }

/* c + s (h + r(s^2)) with h = f^2 / 2 and s = f / (2 + f).  For c = 0 that and f - h are
 * log (1 + f). */
CV_FN cv_f64 cv_logtail_f64(cv_f64 f, cv_f64 h, cv_f64 c)
{
    cv_f64 s = f / (2.0 + f), z = s * s;
    cv_f64 p =
        CV_D7(z, 0.14805278786609857, 0.1531316616947062, 0.1818359691409332,
              0.2222219798657416, 0.28571428747682215, 0.39999999999392927, 0.6666666666666737);
    return cv_fma_f64(s, cv_fma_f64(z, p, h), c);
}

CV_FN cv_f64 cv_logjoin_f64(cv_f64 e, cv_f64 m)
{
    cv_f64 f = m - 1.0, h = 0.5 * f * f, tail = cv_logtail_f64(f, h, -h);
    cv_f64 whole = e * CV_LN2_HIGH64, high = whole + f, low = f - (high - whole);
    return high + (cv_fma_f64(e, CV_D(CV_LN2_LOW64), tail) + low);
}

/* log (1 + f) + c as a sum. */
CV_FN cv_f64 cv_logsum_f64(cv_f64 f, cv_f64 c, cv_f64 *low)
{
    cv_f64 half = 0.5 * f, h = half * f, high = f - h;
    *low = ((f - high) - h) + cv_logtail_f64(f, h, c - cv_fma_f64(half, f, -h));
    return high;
}

/* log m = 2 s + s z (2/3 + z p(z)) with z = s^2, as a sum good to 64 bits. */
CV_FN cv_f64 cv_logpair_f64(cv_f64 m, cv_f64 *low)
{
    cv_f64 f = m - 1.0, d = 2.0 + f, dlow = f - (d - 2.0), y = 1.0 / d, s = f * y;
    cv_f64 slow = cv_fma_f64(-s, dlow, cv_fma_f64(-s, d, f)) * y;
    cv_f64 z = s * s, zlow = cv_fma_f64(s, s, -z) + 2.0 * s * slow;
    cv_f64 p = CV_D8(z, 0.12013525579293131, 0.11671855912488151, 0.1333646434954194,
                     0.15384553025260206, 0.18181818927093604, 0.22222222217070234,
                     0.28571428571447044, 0.39999999999999974);
    cv_f64 u = z * p, w = 2.0 / 3.0 + u, wlow = u - (w - 2.0 / 3.0) + 0x1.5555555555555p-55;
    cv_f64 v = z * w, vlow = cv_fma_f64(z, w, -v) + cv_fma_f64(z, wlow, zlow * w);
    cv_f64 t = s * v, tlow = cv_fma_f64(s, v, -t) + cv_fma_f64(s, vlow, slow * v);
    cv_f64 twice = 2.0 * s, high = twice + t;
    *low = t - (high - twice) + cv_fma_f64(CV_D(2.0), slow, tlow);
    return high;
}

/* high + low + e times a constant, of which `a` has few enough digits for an exact product. */
CV_FN cv_f64 cv_addwhole_f64(cv_f64 high, cv_f64 *low, cv_f64 e, cv_s_f64 a, cv_s_f64 b)
{
    cv_f64 whole = e * a, sum = whole + high;
    *low = high - (sum - whole) + cv_fma_f64(e, CV_D(b), *low);
    return sum;
}

/* (high + low) (a + b) */
CV_FN cv_f64 cv_timespair_f64(cv_f64 high, cv_f64 *low, cv_s_f64 a, cv_s_f64 b)
{
    cv_f64 p = high * a;
    *low = cv_fma_f64(high, CV_D(a), -p) + cv_fma_f64(high, CV_D(b), *low * a);
    return p;
}

CV_FN cv_f64 cv_log2join_f64(cv_f64 e, cv_f64 m)
{
    cv_f64 low, high = cv_logsum_f64(m - 1.0, CV_MAKE(cv_f64, 0), &low);
    high = cv_timespair_f64(high, &low, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56);
    high = cv_addwhole_f64(high, &low, e, 1.0, 0.0);
    return high + low;
}

CV_FN cv_f64 cv_log10join_f64(cv_f64 e, cv_f64 m)
{
    cv_f64 low, high = cv_logsum_f64(m - 1.0, CV_MAKE(cv_f64, 0), &low);
    high = cv_timespair_f64(high, &low, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57);
    high = cv_addwhole_f64(high, &low, e, 0x1.34413509f8p-2, -0x1.80433b83b532ap-44);
    return high + low;
}

CV_DEFINE_LOG_f64(log, cv_logjoin_f64) CV_DEFINE_LOG_f64(log2, cv_log2join_f64)
    CV_DEFINE_LOG_f64(log10, cv_log10join_f64)

    /* 1 + x is the sum u + ulow; u = 2^e (1 + f), and ulow / u is added, for which 1 - f + f^2
     * is close enough to 1 / (1 + f). */
    CV_FN cv_f64 cv_log1p_f64(cv_f64 x)
{
    cv_f64 u = 1.0 + x, b = u - 1.0, ulow = (1.0 - (u - b)) + (x - b), e, low;
    cv_f64 f = cv_logreduce_f64(u, &e) - 1.0;
    cv_u64 four = (cv_u64)CV_D(0x1p52 + 3073) - (cv_u64)(e + (0x1p52 + 2048));
    cv_f64 part = ulow * 0.25 * (cv_f64)(four << 52);
    cv_f64 high = cv_logsum_f64(f, cv_fma_f64(cv_fma_f64(f, f, -f), part, part), &low);
    high = cv_addwhole_f64(high, &low, e, CV_LN2_HIGH64, CV_LN2_LOW64);
    cv_f64 r = high + low;
    cv_m64 plain = cv_and_m64(cv_gt_f64(x, CV_D(-1.0)), cv_lt_f64(x, CV_D(CV_INF_f64)));
    if (!cv_all_m64(plain))
        r = cv_logedge_f64(u, r);
    return cv_select_f64(cv_lt_f64(cv_abs_f64(x), CV_D(0x1p-54)), x, r);
}

/* --- powers --- */

/* a^y for a >= 0; the logarithm is a sum, and so is its product with y.  `odd`: some a is zero,
 * subnormal, infinite or NaN. */
CV_FN cv_f64 cv_powsize_f64(cv_f64 a, cv_f64 y, int odd)
{
    cv_m64 tiny = cv_lt_f64(a, CV_D(CV_TINY_f64));
    cv_f64 e, low, t, tail, m = cv_logreduce_f64(odd ? cv_lifted_f64(a, tiny) : a, &e);
    cv_f64 high = cv_logpair_f64(m, &low);
    if (odd)
        e -= cv_select_f64(tiny, CV_D(CV_LIFT), CV_MAKE(cv_f64, 0));
    high = cv_addwhole_f64(high, &low, e, CV_LN2_HIGH64, CV_LN2_LOW64);
    cv_f64 sum = high + low;
    if (odd)
        sum = cv_logedge_f64(a, sum);
    low = low - (sum - high);
    cv_f64 x = y * sum, xlow = cv_fma_f64(y, low, cv_fma_f64(y, sum, -x));
    xlow = cv_select_f64(cv_lt_f64(cv_abs_f64(x), CV_D(800.0)), xlow, CV_MAKE(cv_f64, 0));
    cv_f64 f = cv_expreduce_f64(cv_clamp_f64(x, -746.0, 710.0), xlow, &t, &tail), q = f + tail;
    cv_f64 r = 1.0 + q;
    return cv_scale_f64(r + (q - (r - 1.0) + (tail - (q - f))), t);
}

/* --- circular functions --- */

/* Three parts of pi / 2 are precise enough up to this angle. */
#define CV_ANGLE_LIMIT64 0x1p27

CV_SLOW void cv_farangle_f64(const cv_f64 *x, cv_f64 *t, cv_f64 *r, cv_f64 *low)
{
    for (int l = 0; l < CV_LANES_f64; l++) {
        double a = (*x)[l], rest, turn, high;
        int quarter;
        if (a < CV_ANGLE_LIMIT64 && a > -CV_ANGLE_LIMIT64)
            continue;
        turn = cv_d_quarters(a, &rest, &quarter);
        high = turn * 0x1.921fb54442d18p+0;
        rest = __builtin_fma(turn, 0x1.921fb54442d18p+0, -high) +
               (turn * 0x1.1a62633145c07p-54 + rest * 0x1.921fb54442d18p+0);
        (*t)[l] = CV_MAGIC64 + (a < 0 ? -quarter : quarter);
        (*r)[l] = a < 0 ? -high : high;
        (*low)[l] = a < 0 ? -rest : rest;
    }
}

/* x = n pi/2 + r + *low; *t is CV_MAGIC64 + n. */
CV_FN cv_f64 cv_reduceangle_f64(cv_f64 x, cv_f64 *t, cv_f64 *low)
{
    *t = cv_fma_f64(x, CV_D(0x1.45f306dc9c883p-1), CV_D(CV_MAGIC64));
    cv_f64 n = *t - CV_MAGIC64, a = cv_fma_f64(n, CV_D(-0x1.921fb54442d18p+0), x);
    cv_f64 mid = CV_D(0x1.1a62633145c07p-54), p = n * mid, plow = cv_fma_f64(n, mid, -p);
    cv_f64 r = a - p, b = r - a;
    *low = ((a - (r - b)) - (p + b)) - cv_fma_f64(n, CV_D(-0x1.f1976b7ed8fbcp-110), plow);
    if (!cv_all_m64(cv_lt_f64(cv_abs_f64(x), CV_D(CV_ANGLE_LIMIT64))))
        cv_farangle_f64(&x, t, &r, low);
    return r;
}

/* The sine of a + low for |a| up to pi / 4 is a + this. */
CV_FN cv_f64 cv_sinetail_f64(cv_f64 a, cv_f64 low)
{
    cv_f64 z = a * a;
    cv_f64 p = CV_D6(z, 1.5895410523388642e-10, -2.5050734035793222e-08, 2.755731353656712e-06,
                     -0.00019841269829354085, 0.008333333333321837, -0.1666666666666663);
    return cv_fma_f64(a * z, p, cv_fma_f64(z * -0.5, low, low));
}

/* The cosine, as a sum. */
CV_FN cv_f64 cv_cosine_f64(cv_f64 a, cv_f64 alow, cv_f64 *low)
{
    cv_f64 z = a * a, half = 0.5 * z, w = 1.0 - half;
    cv_f64 p =
        CV_D6(z, -1.1358444698558924e-11, 2.0875700719976058e-09, -2.7557314191842166e-07,
              2.480158728894707e-05, -0.0013888888888873303, 0.041666666666666595);
    cv_f64 rest = cv_fma_f64(-a, alow, -0.5 * cv_fma_f64(a, a, -z));
    *low = ((1.0 - w) - half) + cv_fma_f64(z * z, p, rest);
    return w;
}

/* The sine of x, and its cosine in *c. */
CV_FN cv_f64 cv_sincos_f64(cv_f64 x, cv_f64 *c)
{
    cv_f64 t, low, rest, a = cv_reduceangle_f64(x, &t, &low);
    cv_f64 p = cv_cosine_f64(a, low, &rest), s = a + cv_sinetail_f64(a, low);
    cv_u64 n = (cv_u64)t;
    cv_m64 odd = cv_ne_i64((cv_i64)(n & 1), CV_MAKE(cv_i64, 0));
    p += rest;
    *c = (cv_f64)((cv_u64)cv_select_f64(odd, s, p) ^ ((n + 1) & 2) << 62);
    s = (cv_f64)((cv_u64)cv_select_f64(odd, p, s) ^ (n & 2) << 62);
    return cv_select_f64(cv_eq_f64(x, CV_D(0.0)), x, s);
}

CV_FN cv_f64 cv_sin_f64(cv_f64 x)
{
    cv_f64 c;
    return cv_sincos_f64(x, &c);
}

CV_FN cv_f64 cv_cos_f64(cv_f64 x)
{
    cv_f64 c;
    cv_sincos_f64(x, &c);
    return c;
}

/* The quotient of both, or minus its reciprocal. */
CV_FN cv_f64 cv_tan_f64(cv_f64 x)
{
    cv_f64 t, low, w, rest, a = cv_reduceangle_f64(x, &t, &low), tail = cv_sinetail_f64(a, low);
    cv_f64 s = a + tail, slow = tail - (s - a);
    w = cv_cosine_f64(a, low, &rest);
    cv_f64 c = w + rest, clow = rest - (c - w);
    cv_u64 n = (cv_u64)t & 1;
    cv_m64 odd = cv_ne_i64((cv_i64)n, CV_MAKE(cv_i64, 0));
    cv_f64 r = cv_ratio_f64(cv_select_f64(odd, c, s), cv_select_f64(odd, clow, slow),
                            cv_select_f64(odd, s, c), cv_select_f64(odd, slow, clow));
    return cv_select_f64(cv_eq_f64(x, CV_D(0.0)), x, (cv_f64)((cv_u64)r ^ n << 63));
}

/* --- the error function --- */

/* As in vec_f32.h: x + x p(x^2), and 1 - e^(-a - a p(a)). */
CV_FN cv_f64 cv_erf_f64(cv_f64 x)
{
    cv_f64 a = cv_lesser_f64(CV_D(5.93), cv_abs_f64(x)), z = x * x, t, tail;
    cv_f64 p = CV_D4(a, 1.89841030067004e-14, -6.353638372930332e-13, 7.238002256309033e-12,
                     1.308346623209736e-11);
    p = cv_fma_f64(p, a, CV_D(-1.4514263030275713e-09));
    p = cv_fma_f64(p, a, CV_D(2.209219315303176e-08));
    p = cv_fma_f64(p, a, CV_D(-2.0204520172291583e-07));
    p = cv_fma_f64(p, a, CV_D(1.3106289464991124e-06));
    p = cv_fma_f64(p, a, CV_D(-6.372473376855127e-06));
    p = cv_fma_f64(p, a, CV_D(2.351634287372346e-05));
    p = cv_fma_f64(p, a, CV_D(-6.390462562753113e-05));
    p = cv_fma_f64(p, a, CV_D(0.00011082671806397731));
    p = cv_fma_f64(p, a, CV_D(-2.4523570903012055e-05));
    p = cv_fma_f64(p, a, CV_D(-0.0005463161418305644));
    p = cv_fma_f64(p, a, CV_D(0.0016661645967335));
    p = cv_fma_f64(p, a, CV_D(-0.0001933017882880172));
    p = cv_fma_f64(p, a, CV_D(-0.01913470205134899));
    p = cv_fma_f64(p, a, CV_D(0.10277432667804293));
    p = cv_fma_f64(p, a, CV_D(0.6366194759804866));
    p = cv_fma_f64(p, a, CV_D(0.12837919102420575));
    cv_f64 f = cv_expreduce_f64(cv_fma_f64(-a, p, -a), CV_MAKE(cv_f64, 0), &t, &tail);
    cv_f64 two = cv_scalenormal_f64(CV_D(1.0), t);
    cv_f64 large = cv_copysign_f64(cv_fma_f64(-two, f + tail, 1.0 - two), x);
    cv_f64 q = CV_D8(z, -2.0636498236213583e-09, 1.878129207523398e-08, -1.707213537328104e-07,
                     1.6530959326904345e-06, -1.4929771764007602e-05, 0.0001205549065564014,
                     -0.000854833088638838, 0.0052239776843429064);
    q = cv_fma_f64(q, z, CV_D(-0.02686617065036502));
    q = cv_fma_f64(q, z, CV_D(0.11283791670978961));
    q = cv_fma_f64(q, z, CV_D(-0.37612638903184176));
    q = cv_fma_f64(q, z, CV_D(0.1283791670955126));
    return cv_select_f64(cv_gt_f64(a, CV_D(0.84)), large, cv_fma_f64(q, x, x));
}

/* --- hyperbolic functions --- */

/* sinh x = h + h / (2 h + 1) with h = (e^x - 1) / 2.  All is halved, because h leaves the range
 * before sinh does. */
CV_FN cv_f64 cv_sinh_f64(cv_f64 x)
{
    cv_f64 a = cv_lesser_f64(CV_D(710.5), cv_abs_f64(x)), low, h = cv_expm1quarter_f64(a, &low);
    cv_f64 d = h + 0.25, b = d - h, dlow = (h - (d - b)) + (0.25 - b) + low;
    cv_f64 r = 0.25 * cv_ratio_f64(h, low, d, dlow), s = h + r;
    s = 2.0 * (s + (r - (s - h) + low));
    return cv_copysign_f64(cv_select_f64(cv_lt_f64(a, CV_D(0x1p-28)), a, s), x);
}

/* cosh x = d + 1 / (4 d) with d = e^x / 2, halved. */
CV_FN cv_f64 cv_cosh_f64(cv_f64 x)
{
    cv_f64 a = cv_lesser_f64(CV_D(710.5), cv_abs_f64(x)), low, h = cv_expm1quarter_f64(a, &low);
    cv_f64 d = h + 0.25, b = d - h, dlow = (h - (d - b)) + (0.25 - b) + low;
    cv_f64 r = 0.0625 / d, s = d + r;
    return 2.0 * (s + (r - (s - d) + cv_fma_f64(r * r * -16.0, dlow, dlow)));
}

/* --- inverse circular functions --- */

#define CV_HALFPI_f64     0x1.921fb54442d18p+0
#define CV_HALFPI_LOW_f64 0x1.1a62633145c07p-54
#define CV_ATANHSMALL_f64 0x1p-27
#define CV_ARCHUGE_f64    0x1p500

/* atan (low / high) for 0 <= low <= high, as a sum; the quotient's remainder is divided too and
 * multiplied by about 1 / (1 + u), the derivative. */
CV_FN cv_f64 cv_atanpair_f64(cv_f64 low, cv_f64 high, cv_f64 *rest)
{
    cv_f64 z = low / high;
    z = cv_select_f64(cv_eq_f64(low, high), CV_D(1.0), z);
    z = cv_select_f64(cv_eq_f64(high, CV_D(0.0)), CV_D(0.0), z);
    cv_f64 u = z * z, slope = cv_fma_f64(u, u * 0.5 - 1.0, CV_D(1.0));
    cv_f64 more = cv_fma_f64(-z, high, low) * slope / high;
    more = cv_select_f64(cv_lt_f64(cv_abs_f64(more), CV_D(0x1p-50)), more, CV_D(0.0));
    cv_f64 p = CV_D8(u, 1.3231689928008603e-05, -0.00015222872156314538, 0.0008316424595675956,
                     -0.0028858441038223516, 0.0071983302451547595, -0.013903173945134488,
                     0.021987657706714504, -0.02990616205773441);
    p = cv_fma_f64(p, u, CV_D(0.03664337761820901));
    p = cv_fma_f64(p, u, CV_D(-0.042192518156095725));
    p = cv_fma_f64(p, u, CV_D(0.04722350511283461));
    p = cv_fma_f64(p, u, CV_D(-0.05253527124392066));
    p = cv_fma_f64(p, u, CV_D(0.05880529826723579));
    p = cv_fma_f64(p, u, CV_D(-0.06666404418904731));
    p = cv_fma_f64(p, u, CV_D(0.07692279887842848));
    p = cv_fma_f64(p, u, CV_D(-0.09090907007698637));
    p = cv_fma_f64(p, u, CV_D(0.11111111007337285));
    p = cv_fma_f64(p, u, CV_D(-0.1428571428258796));
    p = cv_fma_f64(p, u, CV_D(0.19999999999951748));
    p = cv_fma_f64(p, u, CV_D(-0.3333333333333307));
    *rest = cv_fma_f64(z * u, p, more);
    return z;
}

/* The angle count pi/2 +- (z + rest), the result of cv_atanpair. */
CV_FN cv_f64 cv_atanjoin_f64(cv_f64 count, cv_m64 minus, cv_f64 z, cv_f64 rest)
{
    z = cv_select_f64(minus, -z, z);
    rest = cv_select_f64(minus, -rest, rest);
    cv_f64 base = count * CV_HALFPI_f64, sum = base + z;
    return sum + (z - (sum - base) + cv_fma_f64(count, CV_D(CV_HALFPI_LOW_f64), rest));
}

CV_FN cv_f64 cv_atan_f64(cv_f64 x)
{
    cv_f64 a = cv_lesser_f64(CV_D(0x1p100), cv_abs_f64(x)), one = CV_D(1.0), rest;
    cv_m64 over = cv_gt_f64(a, one);
    cv_f64 z = cv_atanpair_f64(cv_select_f64(over, one, a), cv_select_f64(over, a, one), &rest);
    return cv_copysign_f64(cv_atanjoin_f64(cv_frommask_f64(over), over, z, rest), x);
}

CV_FN cv_f64 cv_atan2_f64(cv_f64 y, cv_f64 x)
{
    cv_f64 ax = cv_abs_f64(x), ay = cv_abs_f64(y), zero = {0}, rest;
    cv_m64 over = cv_gt_f64(ay, ax), left = cv_signbit_f64(x);
    cv_f64 low = cv_select_f64(over, ax, ay), high = cv_select_f64(over, ay, ax);
    cv_f64 z = cv_atanpair_f64(low, high, &rest);
    cv_f64 count = cv_select_f64(over, CV_D(1.0), cv_select_f64(left, CV_D(2.0), zero));
    cv_f64 p = cv_copysign_f64(cv_atanjoin_f64(count, cv_xor_m64(over, left), z, rest), y);
    return cv_select_f64(cv_or_m64(cv_isnan_f64(x), cv_isnan_f64(y)), x + y, p);
}

CV_FN cv_f64 cv_asintail_f64(cv_f64 z, cv_f64 u)
{
    cv_f64 p = CV_D8(u, 0.03262653166950109, -0.020995535183054692, 0.021704808149558094,
                     0.0037075627715262758, 0.01077992574357521, 0.011398975146091327,
                     0.01398081217640863, 0.017351612783458557);
    p = cv_fma_f64(p, u, CV_D(0.022372214939561347));
    p = cv_fma_f64(p, u, CV_D(0.03038194270974705));
    p = cv_fma_f64(p, u, CV_D(0.04464285717456301));
    p = cv_fma_f64(p, u, CV_D(0.07499999999970865));
    p = cv_fma_f64(p, u, CV_D(0.1666666666666676));
    return z * u * p;
}

CV_DEFINE_ARCS(f64, m64)

/* The squares' sum and its root are corrected by the errors of their rounding; a power of two
 * keeps the squares in range. */
CV_FN cv_f64 cv_hypot_f64(cv_f64 x, cv_f64 y)
{
    cv_f64 a = cv_abs_f64(x), b = cv_abs_f64(y), high = cv_maximum_f64(a, b);
    cv_m64 huge = cv_gt_f64(high, CV_D(0x1p500)), tiny = cv_lt_f64(high, CV_D(0x1p-500));
    cv_f64 scale = cv_select_f64(tiny, CV_D(0x1p600), CV_D(1.0)), back = CV_D(1.0);
    scale = cv_select_f64(huge, CV_D(0x1p-600), scale);
    back = cv_select_f64(huge, CV_D(0x1p600), cv_select_f64(tiny, CV_D(0x1p-600), back));
    cv_f64 u = high * scale, v = cv_minimum_f64(a, b) * scale, p = u * u, q = v * v, s = p + q;
    cv_f64 r = cv_sqrt_f64(s), rest = cv_fma_f64(u, u, -p) + cv_fma_f64(v, v, -q);
    rest += q - (s - p);
    rest = (cv_fma_f64(-r, r, s) + rest) * 0.5 / r;
    r = cv_select_f64(cv_gt_f64(s, CV_D(0.0)), r + rest, s) * back;
    cv_m64 endless = cv_or_m64(cv_isinf_f64(a), cv_isinf_f64(b));
    return cv_select_f64(endless, CV_D(CV_INF_f64), r);
}
#else
CV_LANEWISE1(f64, exp, __builtin_exp)
CV_LANEWISE1(f64, exp2, __builtin_exp2)
CV_LANEWISE1(f64, expm1, __builtin_expm1)
CV_LANEWISE1(f64, log, __builtin_log)
CV_LANEWISE1(f64, log2, __builtin_log2)
CV_LANEWISE1(f64, log10, __builtin_log10)
CV_LANEWISE1(f64, log1p, __builtin_log1p)
CV_LANEWISE1(f64, sin, __builtin_sin)
CV_LANEWISE1(f64, cos, __builtin_cos)
CV_LANEWISE1(f64, tan, __builtin_tan)
CV_LANEWISE1(f64, sinh, __builtin_sinh)
CV_LANEWISE1(f64, cosh, __builtin_cosh)
CV_LANEWISE1(f64, tanh, __builtin_tanh)
CV_LANEWISE1(f64, asin, __builtin_asin)
CV_LANEWISE1(f64, acos, __builtin_acos)
CV_LANEWISE1(f64, atan, __builtin_atan)
CV_LANEWISE1(f64, asinh, __builtin_asinh)
CV_LANEWISE1(f64, acosh, __builtin_acosh)
CV_LANEWISE1(f64, atanh, __builtin_atanh)
CV_LANEWISE1(f64, erf, __builtin_erf)
CV_LANEWISE2(f64, atan2, __builtin_atan2)
CV_LANEWISE2(f64, hypot, __builtin_hypot)

CV_FN cv_f64 cv_sincos_f64(cv_f64 x, cv_f64 *c)
{
    *c = cv_cos_f64(x);
    return cv_sin_f64(x);
}
#endif
CV_LANEWISE1(f64, erfc, __builtin_erfc)

CV_DEFINE_FMOD(f64, m64, , 0x1p600)
CV_DEFINE_DIVISION(f64, m64)

/* The normal distribution function. */
CV_FN cv_f64 cv_ncdf_f64(cv_f64 x)
{
    cv_f64 half = cv_set1_f64(0.5);
    return half + half * cv_erf_f64(x * cv_set1_f64(0.7071067811865476));
}

CV_FN cv_f64 cv_sigmoid_f64(cv_f64 x)
{
    cv_f64 e = cv_exp_f64(-cv_abs_f64(x)), one = cv_set1_f64(1.0);
    return cv_select_f64(cv_lt_f64(x, CV_MAKE(cv_f64, 0)), e, one) / (one + e);
}

CV_FN cv_f64 cv_angle_f64(cv_f64 x)
{
    cv_f64 pi = cv_set1_f64(3.14159265358979324);
    cv_f64 r = cv_select_f64(cv_lt_f64(x, CV_MAKE(cv_f64, 0)), pi, CV_MAKE(cv_f64, 0));
    return cv_select_f64(cv_isnan_f64(x), x, r);
}

#ifdef CV_HAS_FMA
/* float32 lanes through float64, a half of them at a time. */
CV_TYPE(cv_s_f64, cv_wide_f64, 2 * CV_BYTES);
typedef union {
    cv_wide_f64 all;
    cv_f64 half[2];
} cv_halves_f64;

/* |x|^y in float64, which has more digits than the result needs. */
CV_FN cv_f32 cv_powsize_f32(cv_f32 x, cv_f32 y, int odd)
{
    cv_halves_f64 a = {__builtin_convertvector(x, cv_wide_f64)};
    cv_halves_f64 b = {__builtin_convertvector(y, cv_wide_f64)};
    (void)odd;
    for (int i = 0; i < 2; i++)
        a.half[i] = cv_exp_f64(b.half[i] * cv_log_f64(a.half[i]));
    return __builtin_convertvector(a.all, cv_f32);
}

/* Corrects the power for the sign of x, zeros, ones and infinities.  Numbers that are whole
 * when halved, such as all large numbers, are even. */
#define CV_DEFINE_POW(T, M)                                                                    \
    CV_FN cv_##T cv_powedge_##T(cv_##T x, cv_##T y, cv_##T r)                                  \
    {                                                                                          \
        cv_##T zero = {0}, one = cv_set1_##T(1), a = cv_abs_##T(x), half = y * (cv_s_##T)0.5;  \
        cv_##M whole = cv_eq_##T(cv_trunc_##T(y), y);                                          \
        cv_##M odd = cv_and_##M(whole, cv_ne_##T(cv_trunc_##T(half), half));                   \
        cv_##M root = cv_and_##M(cv_lt_##T(x, zero), cv_not_##M(whole));                       \
        root = cv_and_##M(root, cv_and_##M(cv_isfinite_##T(x), cv_isfinite_##T(y)));           \
        r = cv_select_##T(cv_and_##M(odd, cv_signbit_##T(x)), -r, r);                          \
        r = cv_select_##T(root, cv_set1_##T(CV_NAN_##T), r);                                   \
        cv_##M unit = cv_and_##M(cv_eq_##T(a, one), cv_isinf_##T(y));                          \
        unit = cv_or_##M(unit, cv_or_##M(cv_eq_##T(x, one), cv_eq_##T(y, zero)));              \
        return cv_select_##T(unit, one, r);                                                    \
    }                                                                                          \
    CV_FN cv_##T cv_pow_##T(cv_##T x, cv_##T y)                                                \
    {                                                                                          \
        cv_##M plain = cv_and_##M(cv_ge_##T(x, cv_set1_##T(CV_TINY_##T)),                      \
                                  cv_lt_##T(x, cv_set1_##T(CV_INF_##T)));                      \
        int odd = !cv_all_##M(cv_and_##M(plain, cv_isfinite_##T(y)));                          \
        cv_##T r = cv_powsize_##T(cv_abs_##T(x), y, odd);                                      \
        return odd ? cv_powedge_##T(x, y, r) : r;                                              \
    }
CV_DEFINE_POW(f32, m32)
CV_DEFINE_POW(f64, m64)

/* erfc x = e^(-x^2) t p(t) with t = 1 / (x + 2) for x >= 0; beyond 12 it is zero in float32. */
CV_FN cv_f32 cv_erfc_f32(cv_f32 x)
{
    cv_halves_f64 v = {__builtin_convertvector(x, cv_wide_f64)};
    for (int i = 0; i < 2; i++) {
        cv_f64 a = cv_lesser_f64(CV_D(12.0), cv_abs_f64(v.half[i])), t = 1.0 / (a + 2.0);
        cv_f64 p = CV_D8(t, -77.23888016909675, 141.76337227745378, 54.75241003622493,
                         -368.1794314391428, 415.6881957775566, -214.93606343886418,
                         53.114641100816804, -12.446934890674013);
        p = cv_fma_f64(p, t, CV_D(4.359738957596532));
        p = cv_fma_f64(p, t, CV_D(2.6638520156005208));
        p = cv_fma_f64(p, t, CV_D(1.9841705665083516));
        p = cv_fma_f64(p, t, CV_D(1.1280436760399877));
        p = cv_fma_f64(p, t, CV_D(0.5641948157066945));
        cv_f64 r = cv_exp_f64(-a * a) * (p * t);
        v.half[i] = cv_select_f64(cv_lt_f64(v.half[i], CV_D(0.0)), 2.0 - r, r);
    }
    return __builtin_convertvector(v.all, cv_f32);
}
#else
CV_LANEWISE2(f64, pow, __builtin_pow)
CV_LANEWISE2(f32, pow, __builtin_powf)
CV_SLOW float cv_s_erfc_f32(float x) { return (float)__builtin_erfc((double)x); }
CV_LANEWISE1(f32, erfc, cv_s_erfc_f32)
#endif

#endif
