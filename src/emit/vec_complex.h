/* vec_complex.h - complex64 and complex128 vectors.
 *
 * A vector is a pair of vectors, real and imaginary parts; loads separate them, stores join
 * them.  Functions use functions of the parts, with the special values of C's annex G; inverse
 * circular and hyperbolic functions call libm lane by lane. */
#ifndef CR_EMIT_VEC_COMPLEX_H
#define CR_EMIT_VEC_COMPLEX_H

#include "emit/vec_f32.h"
#include "emit/vec_f64.h"

typedef struct {
    cv_f32 re, im;
} cv_c64;

typedef struct {
    cv_f64 re, im;
} cv_c128;

typedef struct {
    cv_s_f32 re, im;
} cv_s_c64;

typedef struct {
    cv_s_f64 re, im;
} cv_s_c128;

#if CV_BYTES == 64
#define CV_EVEN_f32(a, b)                                                                      \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define CV_ODD_f32(a, b)                                                                       \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define CV_ZIPLOW_f32(a, b)                                                                    \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define CV_ZIPHIGH_f32(a, b)                                                                   \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define CV_EVEN_f64(a, b)    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define CV_ODD_f64(a, b)     __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define CV_ZIPLOW_f64(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define CV_ZIPHIGH_f64(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#elif CV_BYTES == 32
#define CV_EVEN_f32(a, b)    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define CV_ODD_f32(a, b)     __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define CV_ZIPLOW_f32(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define CV_ZIPHIGH_f32(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define CV_EVEN_f64(a, b)    __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define CV_ODD_f64(a, b)     __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define CV_ZIPLOW_f64(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define CV_ZIPHIGH_f64(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#else
#define CV_EVEN_f32(a, b)    __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define CV_ODD_f32(a, b)     __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define CV_ZIPLOW_f32(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define CV_ZIPHIGH_f32(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define CV_EVEN_f64(a, b)    __builtin_shufflevector(a, b, 0, 2)
#define CV_ODD_f64(a, b)     __builtin_shufflevector(a, b, 1, 3)
#define CV_ZIPLOW_f64(a, b)  __builtin_shufflevector(a, b, 0, 2)
#define CV_ZIPHIGH_f64(a, b) __builtin_shufflevector(a, b, 1, 3)
#endif

/* C is the suffix, T the suffix of the parts, I the integers of a part's width, M the mask. */
#define CV_DEFINE_COMPLEX(C, T, I, M)                                                          \
    CV_FN cv_##C cv_make_##C(cv_##T re, cv_##T im) { return CV_MAKE(cv_##C, re, im); }         \
    CV_FN cv_##C cv_set1_##C(cv_s_##C x)                                                       \
    {                                                                                          \
        return cv_make_##C(cv_set1_##T(x.re), cv_set1_##T(x.im));                              \
    }                                                                                          \
    CV_FN cv_##C cv_pair_##C(cv_s_##T re, cv_s_##T im)                                         \
    {                                                                                          \
        return cv_make_##C(cv_set1_##T(re), cv_set1_##T(im));                                  \
    }                                                                                          \
    CV_FN cv_##C cv_iota_##C(void) { return cv_make_##C(cv_iota_##T(), CV_MAKE(cv_##T, 0)); }  \
    CV_FN cv_##C cv_part_##C(cv_##T a, cv_##T b)                                               \
    {                                                                                          \
        return cv_make_##C(CV_EVEN_##T(a, b), CV_ODD_##T(a, b));                               \
    }                                                                                          \
    CV_FN cv_##C cv_load_##C(const void *p)                                                    \
    {                                                                                          \
        return cv_part_##C(cv_load_##T(p), cv_load_##T((const char *)p + CV_BYTES));           \
    }                                                                                          \
    CV_FN void cv_store_##C(void *p, cv_##C z)                                                 \
    {                                                                                          \
        cv_store_##T(p, CV_ZIPLOW_##T(z.re, z.im));                                            \
        cv_store_##T((char *)p + CV_BYTES, CV_ZIPHIGH_##T(z.re, z.im));                        \
    }                                                                                          \
    CV_FN void cv_stream_##C(void *p, cv_##C z)                                                \
    {                                                                                          \
        cv_stream_##T(p, CV_ZIPLOW_##T(z.re, z.im));                                           \
        cv_stream_##T((char *)p + CV_BYTES, CV_ZIPHIGH_##T(z.re, z.im));                       \
    }                                                                                          \
    CV_FN cv_##C cv_loadn_##C(const void *p, cv_s_i64 n)                                       \
    {                                                                                          \
        const char *next = (const char *)p + CV_BYTES;                                         \
        if (2 * n <= CV_LANES_##T)                                                             \
            return cv_part_##C(cv_loadn_##T(p, 2 * n), CV_MAKE(cv_##T, 0));                    \
        return cv_part_##C(cv_load_##T(p), cv_loadn_##T(next, 2 * n - CV_LANES_##T));          \
    }                                                                                          \
    CV_FN void cv_storen_##C(void *p, cv_##C z, cv_s_i64 n)                                    \
    {                                                                                          \
        cv_##T low = CV_ZIPLOW_##T(z.re, z.im), high = CV_ZIPHIGH_##T(z.re, z.im);             \
        if (2 * n <= CV_LANES_##T) {                                                           \
            cv_storen_##T(p, low, 2 * n);                                                      \
            return;                                                                            \
        }                                                                                      \
        cv_store_##T(p, low);                                                                  \
        cv_storen_##T((char *)p + CV_BYTES, high, 2 * n - CV_LANES_##T);                       \
    }                                                                                          \
    CV_FN cv_##C cv_select_##C(cv_##M m, cv_##C a, cv_##C b)                                   \
    {                                                                                          \
        return cv_make_##C(cv_select_##T(m, a.re, b.re), cv_select_##T(m, a.im, b.im));        \
    }                                                                                          \
    CV_FN cv_##T cv_real_##C(cv_##C a) { return a.re; }                                        \
    CV_FN cv_##T cv_imag_##C(cv_##C a) { return a.im; }                                        \
    CV_FN cv_##T cv_abs_##C(cv_##C a) { return cv_hypot_##T(a.re, a.im); }                     \
    CV_FN cv_##T cv_magnitude_##C(cv_##C a) { return cv_abs_##C(a); }                          \
    CV_FN cv_##C cv_complex_##C(cv_##T re, cv_##T im) { return CV_MAKE(cv_##C, re, im); }      \
    CV_FN cv_##C cv_polar_##C(cv_##T r, cv_##T angle)                                          \
    {                                                                                          \
        return cv_make_##C(r * cv_cos_##T(angle), r * cv_sin_##T(angle));                      \
    }                                                                                          \
    CV_FN cv_##T cv_angle_##C(cv_##C a) { return cv_atan2_##T(a.im, a.re); }                   \
    CV_FN cv_##C cv_cast_##C##_##T(cv_##T a) { return cv_make_##C(a, CV_MAKE(cv_##T, 0)); }    \
    CV_FN cv_##T cv_cast_##T##_##C(cv_##C a) { return a.re; }                                  \
    CV_FN cv_##C cv_cast_##C##_##C(cv_##C a) { return a; }                                     \
    CV_FN cv_##C cv_cast_##C##_##I(cv_##I a)                                                   \
    {                                                                                          \
        return cv_make_##C(cv_cast_##T##_##I(a), CV_MAKE(cv_##T, 0));                          \
    }                                                                                          \
    CV_FN cv_##I cv_cast_##I##_##C(cv_##C a) { return cv_cast_##I##_##T(a.re); }               \
    CV_FN cv_##M cv_cast_bool_##C(cv_##C a)                                                    \
    {                                                                                          \
        return cv_or_##M(cv_cast_bool_##T(a.re), cv_cast_bool_##T(a.im));                      \
    }                                                                                          \
    CV_FN cv_##C cv_frommask_##C(cv_##M m) { return cv_cast_##C##_##T(cv_frommask_##T(m)); }   \
    CV_FN cv_##C cv_scaled_##C(cv_##C a, cv_##T k) { return cv_make_##C(a.re * k, a.im * k); } \
    CV_FN cv_##C cv_add_##C(cv_##C a, cv_##C b)                                                \
    {                                                                                          \
        return cv_make_##C(a.re + b.re, a.im + b.im);                                          \
    }                                                                                          \
    CV_FN cv_##C cv_sub_##C(cv_##C a, cv_##C b)                                                \
    {                                                                                          \
        return cv_make_##C(a.re - b.re, a.im - b.im);                                          \
    }                                                                                          \
    CV_FN cv_##C cv_mul_##C(cv_##C a, cv_##C b)                                                \
    {                                                                                          \
        return cv_make_##C(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);              \
    }                                                                                          \
    CV_FN cv_##C cv_square_##C(cv_##C a) { return cv_mul_##C(a, a); }                          \
    CV_FN cv_##C cv_neg_##C(cv_##C a) { return cv_make_##C(-a.re, -a.im); }                    \
    CV_FN cv_##C cv_conj_##C(cv_##C a) { return cv_make_##C(a.re, -a.im); }                    \
    /* Smith's method: b is divided by its larger part, so that no square leaves the range     \
     * when the quotient does not.  By zero, the parts are divided one by one. */              \
    CV_FN cv_##C cv_div_##C(cv_##C a, cv_##C b)                                                \
    {                                                                                          \
        cv_##T c = cv_abs_##T(b.re), d = cv_abs_##T(b.im), zero = {0};                         \
        cv_##M wide = cv_ge_##T(c, d), none = cv_eq_##T(c + d, zero);                          \
        cv_##T p = cv_select_##T(wide, b.re, b.im), q = cv_select_##T(wide, b.im, b.re);       \
        cv_##T x = cv_select_##T(wide, a.re, a.im), y = cv_select_##T(wide, a.im, a.re);       \
        cv_##T rat = q / p, den = p + q * rat, re = (x + y * rat) / den;                       \
        cv_##T im = (y - x * rat) / den;                                                       \
        im = cv_select_##T(wide, im, -im);                                                     \
        re = cv_select_##T(none, a.re / c, re);                                                \
        return cv_make_##C(re, cv_select_##T(none, a.im / d, im));                             \
    }                                                                                          \
    CV_FN cv_##C cv_reciprocal_##C(cv_##C a) { return cv_div_##C(cv_pair_##C(1, 0), a); }      \
    CV_FN cv_##M cv_eq_##C(cv_##C a, cv_##C b)                                                 \
    {                                                                                          \
        return cv_and_##M(cv_eq_##T(a.re, b.re), cv_eq_##T(a.im, b.im));                       \
    }                                                                                          \
    CV_FN cv_##M cv_ne_##C(cv_##C a, cv_##C b)                                                 \
    {                                                                                          \
        return cv_or_##M(cv_ne_##T(a.re, b.re), cv_ne_##T(a.im, b.im));                        \
    }                                                                                          \
    CV_FN cv_##M cv_isnan_##C(cv_##C a)                                                        \
    {                                                                                          \
        return cv_or_##M(cv_isnan_##T(a.re), cv_isnan_##T(a.im));                              \
    }                                                                                          \
    CV_FN cv_##M cv_isinf_##C(cv_##C a)                                                        \
    {                                                                                          \
        return cv_or_##M(cv_isinf_##T(a.re), cv_isinf_##T(a.im));                              \
    }                                                                                          \
    CV_FN cv_##M cv_isfinite_##C(cv_##C a)                                                     \
    {                                                                                          \
        return cv_and_##M(cv_isfinite_##T(a.re), cv_isfinite_##T(a.im));                       \
    }                                                                                          \
    CV_FN cv_##C cv_sgn_##C(cv_##C a)                                                          \
    {                                                                                          \
        cv_##T size = cv_abs_##C(a), zero = {0};                                               \
        cv_##C r = cv_make_##C(a.re / size, a.im / size);                                      \
        return cv_select_##C(cv_eq_##T(size, zero), cv_make_##C(zero, zero), r);               \
    }

/* Calls libm for each lane.  NVRTC has no complex numbers: kernels that need these functions do
 * not compile. */
#ifdef __CUDACC_RTC__
#define CV_COMPLEX1(C, T, name, function)
#else
typedef _Complex float cv_x_c64;
typedef _Complex double cv_x_c128;
#define CV_COMPLEX1(C, T, name, function)                                                      \
    CV_FN cv_##C cv_##name##_##C(cv_##C a)                                                     \
    {                                                                                          \
        for (int l = 0; l < CV_LANES_##T; l++) {                                               \
            cv_x_##C z = function(__builtin_complex(a.re[l], a.im[l]));                        \
            a.re[l] = __real__ z;                                                              \
            a.im[l] = __imag__ z;                                                              \
        }                                                                                      \
        return a;                                                                              \
    }
#endif

/* From CV_EXPSTEP_T on e^x is computed in two steps, because its product with a small sine or
 * cosine may be in range when it is not; CV_EXPSTEPPED_T is e to that.  Above CV_TANHONE_T tanh
 * is one.  Parts below CV_SMALLPART_T or above CV_LARGEPART_T are scaled before they are
 * squared. */
#define CV_EXPSTEP_f32    80.0f
#define CV_EXPSTEPPED_f32 0x1.55779cp+115f
#define CV_TANHONE_f32    12.0f
#define CV_SMALLPART_f32  0x1p-80f
#define CV_LARGEPART_f32  0x1p100f
#define CV_EXPSTEP_f64    700.0
#define CV_EXPSTEPPED_f64 0x1.d945df4f8ec8ep+1009
#define CV_TANHONE_f64    24.0
#define CV_SMALLPART_f64  0x1p-900
#define CV_LARGEPART_f64  0x1p1000

/* a^2 - p for p = a^2 rounded: exact, the baseline by Dekker's halves of 26 bits. */
CV_FN cv_f32 cv_squarerest_f32(cv_f32 a, cv_f32 p) { return cv_exactfma_f32(a, a, -p); }
CV_FN cv_f64 cv_squarerest_f64(cv_f64 a, cv_f64 p)
{
#ifdef CV_HAS_FMA
    return cv_fma_f64(a, a, -p);
#else
    cv_f64 c = a * 0x8000001p0, h = c - (c - a), l = a - h;
    return ((h * h - p) + 2.0 * h * l) + l * l;
#endif
}

#define CV_DEFINE_COMPLEX_MATH(C, T, M, suffix)                                                \
    /* unit e^x c and unit e^x s */                                                            \
    CV_FN cv_##C cv_expangle_##C(cv_##T x, cv_##T c, cv_##T s, cv_s_##T unit)                  \
    {                                                                                          \
        cv_##M big = cv_ge_##T(x, cv_set1_##T(CV_EXPSTEP_##T));                                \
        cv_##T e = cv_exp_##T(cv_select_##T(big, x - CV_EXPSTEP_##T, x)) * unit;               \
        cv_##T step = cv_select_##T(big, cv_set1_##T(CV_EXPSTEPPED_##T), cv_set1_##T(1));      \
        return cv_make_##C(e * c * step, e * s * step);                                        \
    }                                                                                          \
    CV_SLOW void cv_expto_##C(cv_##C *z)                                                       \
    {                                                                                          \
        cv_##T x = z->re, y = z->im, c, s = cv_sincos_##T(y, &c), zero = {0};                  \
        cv_##C r = cv_expangle_##C(x, c, s, 1);                                                \
        cv_##M whole = cv_isfinite_##T(y), end = cv_isinf_##T(x);                              \
        end = cv_and_##M(end, cv_not_##M(whole));                                              \
        r.re = cv_select_##T(end, cv_select_##T(cv_gt_##T(x, zero), x, zero), r.re);           \
        r.im = cv_select_##T(cv_and_##M(end, cv_lt_##T(x, zero)), zero, r.im);                 \
        z->re = r.re;                                                                          \
        z->im = cv_select_##T(cv_eq_##T(y, zero), y, r.im);                                    \
    }                                                                                          \
    /* sinh x cos y and cosh x sin y */                                                        \
    CV_SLOW void cv_sinhto_##C(cv_##C *z)                                                      \
    {                                                                                          \
        cv_##T x = z->re, y = z->im, a = cv_abs_##T(x), zero = {0};                            \
        cv_##T c, s = cv_sincos_##T(y, &c);                                                    \
        cv_##C r = cv_make_##C(cv_sinh_##T(x) * c, cv_cosh_##T(x) * s);                        \
        cv_##M big = cv_ge_##T(a, cv_set1_##T(CV_EXPSTEP_##T));                                \
        cv_##M odd = cv_not_##M(cv_isfinite_##T(y));                                           \
        if (cv_any_##M(big)) {                                                                 \
            cv_##C far = cv_expangle_##C(a, c, s, (cv_s_##T)0.5);                              \
            far.re = cv_flipsign_##T(far.re, x);                                               \
            r = cv_select_##C(big, far, r);                                                    \
        }                                                                                      \
        r.re = cv_select_##T(cv_and_##M(odd, cv_eq_##T(x, zero)), x, r.re);                    \
        z->re = cv_select_##T(cv_and_##M(odd, cv_isinf_##T(x)), a, r.re);                      \
        z->im = cv_select_##T(cv_eq_##T(y, zero), y, r.im);                                    \
    }                                                                                          \
    /* cosh x cos y and sinh x sin y */                                                        \
    CV_SLOW void cv_coshto_##C(cv_##C *z)                                                      \
    {                                                                                          \
        cv_##T x = z->re, y = z->im, a = cv_abs_##T(x), zero = {0};                            \
        cv_##T c, s = cv_sincos_##T(y, &c);                                                    \
        cv_##C r = cv_make_##C(cv_cosh_##T(x) * c, cv_sinh_##T(x) * s);                        \
        cv_##M big = cv_ge_##T(a, cv_set1_##T(CV_EXPSTEP_##T));                                \
        cv_##M odd = cv_not_##M(cv_isfinite_##T(y));                                           \
        if (cv_any_##M(big)) {                                                                 \
            cv_##C far = cv_expangle_##C(a, c, s, (cv_s_##T)0.5);                              \
            far.im = cv_flipsign_##T(far.im, x);                                               \
            r = cv_select_##C(big, far, r);                                                    \
        }                                                                                      \
        z->re = cv_select_##T(cv_and_##M(odd, cv_isinf_##T(x)), a, r.re);                      \
        z->im = cv_select_##T(cv_and_##M(odd, cv_eq_##T(x, zero)), a, r.im);                   \
        z->im = cv_select_##T(cv_eq_##T(y, zero), cv_flipsign_##T(y, x), z->im);               \
    }                                                                                          \
    /* sinh x cosh x / d and sin y cos y / d with d = sinh^2 x + cos^2 y */                    \
    CV_SLOW void cv_tanhto_##C(cv_##C *z)                                                      \
    {                                                                                          \
        cv_##T x = z->re, y = z->im, a = cv_abs_##T(x), zero = {0};                            \
        cv_##T c, s = cv_sincos_##T(y, &c);                                                    \
        cv_##M big = cv_gt_##T(a, cv_set1_##T(CV_TANHONE_##T)), whole = cv_isfinite_##T(y);    \
        cv_##T u = cv_select_##T(big, zero, x), h = cv_sinh_##T(u), d = h * h + c * c;         \
        cv_##T far = 4 * s * c * cv_exp_##T(-2 * a), one = cv_set1_##T(1);                     \
        cv_##M end = cv_isinf_##T(x), odd = cv_not_##M(cv_or_##M(whole, end));                 \
        far = cv_select_##T(cv_or_##M(whole, odd), far, cv_copysign_##T(zero, y));             \
        one = cv_select_##T(odd, far, cv_copysign_##T(one, x));                                \
        z->re = cv_select_##T(big, one, h * cv_cosh_##T(u) / d);                               \
        z->im = cv_select_##T(big, far, s * c / d);                                            \
        z->im = cv_select_##T(cv_eq_##T(y, zero), y, z->im);                                   \
        z->re = cv_select_##T(cv_and_##M(cv_eq_##T(x, zero), cv_not_##M(whole)), x, z->re);    \
    }                                                                                          \
    /* With t = sqrt((|x| + |z|) / 2), t and y / 2t; |y| / 2t and t for negative x. */         \
    CV_SLOW void cv_sqrtto_##C(cv_##C *z)                                                      \
    {                                                                                          \
        const cv_s_##T half = (cv_s_##T)0.5;                                                   \
        cv_##T a = cv_abs_##T(z->re), b = cv_abs_##T(z->im), m = cv_maximum_##T(a, b);         \
        cv_##T zero = {0};                                                                     \
        cv_##T one = cv_set1_##T(1), inf = cv_set1_##T(CV_INF_##T);                            \
        cv_##M large = cv_gt_##T(m, cv_set1_##T(CV_LARGEPART_##T));                            \
        cv_##M small = cv_lt_##T(m, cv_set1_##T(CV_SMALLPART_##T));                            \
        cv_##T in = cv_select_##T(large, one / 16, cv_select_##T(small, one * 0x1p60f, one));  \
        cv_##T out = cv_select_##T(large, one * 4, cv_select_##T(small, one * 0x1p-30f, one)); \
        a *= in;                                                                               \
        b *= in;                                                                               \
        cv_##T t = cv_sqrt_##T((a + cv_hypot_##T(a, b)) * half), u = b / (2 * t) * out;        \
        t = t * out;                                                                           \
        u = cv_select_##T(cv_eq_##T(m, zero), zero, u);                                        \
        cv_##M left = cv_lt_##T(z->re, zero), up = cv_isinf_##T(b), side = cv_isinf_##T(a);    \
        u = cv_select_##T(cv_and_##M(side, cv_isfinite_##T(b)), zero, u);                      \
        cv_##T re = cv_select_##T(left, u, t), im = cv_select_##T(left, t, u);                 \
        z->re = cv_select_##T(up, inf, re);                                                    \
        im = cv_select_##T(up, inf, im);                                                       \
        z->im = cv_copysign_##T(im, z->im);                                                    \
    }                                                                                          \
    /* |z|^2 - 1 keeps its digits near |z| = 1, where the logarithm is small. */               \
    CV_SLOW void cv_logto_##C(cv_##C *z)                                                       \
    {                                                                                          \
        const cv_s_##T half = (cv_s_##T)0.5;                                                   \
        cv_##T a = cv_abs_##T(z->re), b = cv_abs_##T(z->im), one = cv_set1_##T(1), zero = {0}; \
        cv_##T high = cv_maximum_##T(a, b), low = cv_minimum_##T(a, b);                        \
        cv_##M large = cv_gt_##T(high, cv_set1_##T(CV_LARGEPART_##T));                         \
        cv_##T unit = cv_select_##T(large, one * half, one);                                   \
        cv_##T r = cv_log_##T(cv_hypot_##T(a * unit, b * unit));                               \
        r += cv_select_##T(large, one * (cv_s_##T)0.69314718055994531, zero);                  \
        cv_##M near = cv_and_##M(cv_gt_##T(high, one * half), cv_lt_##T(high, one * 2));       \
        if (cv_any_##M(near)) {                                                                \
            cv_##T p = high * high, q = low * low, d = p - one, sum = d + q, e = sum - d;      \
            cv_##T rest = (d - (sum - e)) + (q - e);                                           \
            rest += cv_squarerest_##T(high, p) + cv_squarerest_##T(low, q);                    \
            r = cv_select_##T(near, half * cv_log1p_##T(sum + rest), r);                       \
        }                                                                                      \
        z->im = cv_atan2_##T(z->im, z->re);                                                    \
        z->re = r;                                                                             \
    }                                                                                          \
    CV_FN cv_##C cv_exp_##C(cv_##C a) { return cv_expto_##C(&a), a; }                          \
    CV_FN cv_##C cv_sinh_##C(cv_##C a) { return cv_sinhto_##C(&a), a; }                        \
    CV_FN cv_##C cv_cosh_##C(cv_##C a) { return cv_coshto_##C(&a), a; }                        \
    CV_FN cv_##C cv_tanh_##C(cv_##C a) { return cv_tanhto_##C(&a), a; }                        \
    CV_FN cv_##C cv_sqrt_##C(cv_##C a) { return cv_sqrtto_##C(&a), a; }                        \
    CV_FN cv_##C cv_log_##C(cv_##C a) { return cv_logto_##C(&a), a; }                          \
    /* f(z) = -i fh(i z), and cos z = cosh(i z) */                                             \
    CV_FN cv_##C cv_sin_##C(cv_##C a)                                                          \
    {                                                                                          \
        cv_##C r = cv_sinh_##C(cv_make_##C(-a.im, a.re));                                      \
        return cv_make_##C(r.im, -r.re);                                                       \
    }                                                                                          \
    CV_FN cv_##C cv_cos_##C(cv_##C a) { return cv_cosh_##C(cv_make_##C(-a.im, a.re)); }        \
    CV_FN cv_##C cv_tan_##C(cv_##C a)                                                          \
    {                                                                                          \
        cv_##C r = cv_tanh_##C(cv_make_##C(-a.im, a.re));                                      \
        return cv_make_##C(r.im, -r.re);                                                       \
    }                                                                                          \
    /* 1 where b is 0, as of real numbers: log of 0, of infinity and of NaN is not finite. */  \
    CV_FN cv_##C cv_pow_##C(cv_##C a, cv_##C b)                                                \
    {                                                                                          \
        cv_##C one = cv_pair_##C(1, 0), r = cv_exp_##C(cv_mul_##C(b, cv_log_##C(a)));          \
        return cv_select_##C(cv_eq_##C(b, cv_pair_##C(0, 0)), one, r);                         \
    }                                                                                          \
    CV_COMPLEX1(C, T, asin, __builtin_casin##suffix)                                           \
    CV_COMPLEX1(C, T, acos, __builtin_cacos##suffix)                                           \
    CV_COMPLEX1(C, T, atan, __builtin_catan##suffix)                                           \
    CV_COMPLEX1(C, T, asinh, __builtin_casinh##suffix)                                         \
    CV_COMPLEX1(C, T, acosh, __builtin_cacosh##suffix)                                         \
    CV_COMPLEX1(C, T, atanh, __builtin_catanh##suffix)                                         \
    CV_FN cv_##C cv_rsqrt_##C(cv_##C a) { return cv_reciprocal_##C(cv_sqrt_##C(a)); }          \
    CV_FN cv_##C cv_log2_##C(cv_##C a)                                                         \
    {                                                                                          \
        return cv_scaled_##C(cv_log_##C(a), cv_set1_##T((cv_s_##T)1.4426950408889634));        \
    }                                                                                          \
    CV_FN cv_##C cv_log10_##C(cv_##C a)                                                        \
    {                                                                                          \
        return cv_scaled_##C(cv_log_##C(a), cv_set1_##T((cv_s_##T)0.43429448190325183));       \
    }                                                                                          \
    CV_FN cv_##C cv_exp2_##C(cv_##C a)                                                         \
    {                                                                                          \
        return cv_exp_##C(cv_scaled_##C(a, cv_set1_##T((cv_s_##T)0.69314718055994531)));       \
    }                                                                                          \
    CV_FN cv_##C cv_sigmoid_##C(cv_##C a)                                                      \
    {                                                                                          \
        cv_##C one = cv_pair_##C(1, 0);                                                        \
        return cv_div_##C(one, cv_add_##C(one, cv_exp_##C(cv_neg_##C(a))));                    \
    }                                                                                          \
    /* |1 + z|^2 - 1 = x (x + 2) + y^2 keeps small z; large z has nothing to lose. */          \
    CV_FN cv_##C cv_log1p_##C(cv_##C a)                                                        \
    {                                                                                          \
        cv_##T one = cv_set1_##T(1), u = one + a.re;                                           \
        cv_##T d = a.re * (a.re + 2 * one) + a.im * a.im;                                      \
        cv_##M near = cv_lt_##T(cv_abs_##T(d), one * (cv_s_##T)0.5);                           \
        cv_##T r = cv_log1p_##T(cv_select_##T(near, d, one)) * (cv_s_##T)0.5;                  \
        cv_##C far = cv_log_##C(cv_make_##C(u, a.im));                                         \
        return cv_make_##C(cv_select_##T(near, r, far.re), cv_atan2_##T(a.im, u));             \
    }                                                                                          \
    /* e^x cos y - 1 = expm1(x) cos y - 2 sin^2(y / 2). */                                     \
    CV_FN cv_##C cv_expm1_##C(cv_##C a)                                                        \
    {                                                                                          \
        cv_##T half = cv_sin_##T(a.im * (cv_s_##T)0.5);                                        \
        cv_##T re = cv_expm1_##T(a.re) * cv_cos_##T(a.im) - 2 * half * half;                   \
        return cv_make_##C(re, cv_exp_##T(a.re) * cv_sin_##T(a.im));                           \
    }

/* The tree of vec.h: `meet(k)` for each distance within a vector. */
#if CV_BYTES == 64
#define CV_LOWER_4(meet) meet(8) meet(4) meet(2) meet(1)
#define CV_LOWER_8(meet) meet(4) meet(2) meet(1)
#elif CV_BYTES == 32
#define CV_LOWER_4(meet) meet(4) meet(2) meet(1)
#define CV_LOWER_8(meet) meet(2) meet(1)
#else
#define CV_LOWER_4(meet) meet(2) meet(1)
#define CV_LOWER_8(meet) meet(1)
#endif
#define CV_MEET_c64(k)                                                                         \
    t[0] = cv_mul_c64(t[0], cv_make_c64(CV_DOWN_4(t[0].re, k), CV_DOWN_4(t[0].im, k)));
#define CV_MEET_c128(k)                                                                        \
    t[0] = cv_mul_c128(t[0], cv_make_c128(CV_DOWN_8(t[0].re, k), CV_DOWN_8(t[0].im, k)));

/* Products are of vectors: of one element after the other gcc 12 makes fused multiply-adds,
 * -ffp-contract=off or not. */
#define CV_DEFINE_COMPLEX_REDUCE(C, T, size)                                                   \
    CV_FN cv_s_##C cv_reduce_add_##C(const cv_##C *acc)                                        \
    {                                                                                          \
        cv_##T re[CV_REDUCE_##C], im[CV_REDUCE_##C];                                           \
        CV_UNROLL(16)                                                                          \
        for (int i = 0; i < CV_REDUCE_##C; i++) {                                              \
            re[i] = acc[i].re;                                                                 \
            im[i] = acc[i].im;                                                                 \
        }                                                                                      \
        return CV_MAKE(cv_s_##C, cv_reduce_add_##T(re), cv_reduce_add_##T(im));                \
    }                                                                                          \
    CV_FN cv_s_##C cv_reduce_mul_##C(const cv_##C *acc)                                        \
    {                                                                                          \
        cv_##C t[CV_REDUCE_##C];                                                               \
        CV_UNROLL(16)                                                                          \
        for (int i = 0; i < CV_REDUCE_##C; i++)                                                \
            t[i] = acc[i];                                                                     \
        CV_UNROLL(8)                                                                           \
        for (int half = CV_REDUCE_##C / 2; half > 0; half /= 2)                                \
            CV_UNROLL(8)                                                                       \
        for (int i = 0; i < half; i++)                                                         \
            t[i] = cv_mul_##C(t[i], t[i + half]);                                              \
        CV_LOWER_##size(CV_MEET_##C) return CV_MAKE(cv_s_##C, t[0].re[0], t[0].im[0]);         \
    }

CV_DEFINE_COMPLEX(c64, f32, i32, m32)
CV_DEFINE_COMPLEX(c128, f64, i64, m64)
CV_DEFINE_COMPLEX_MATH(c64, f32, m32, f)
CV_DEFINE_COMPLEX_MATH(c128, f64, m64, )
CV_DEFINE_COMPLEX_REDUCE(c64, f32, 4)
CV_DEFINE_COMPLEX_REDUCE(c128, f64, 8)

#endif
