/* vec_complex.h - complex64 and complex128 vectors.
 *
 * A vector is a pair of vectors, real and imaginary; loads part them, stores join them.
 * Arithmetic is done on whole vectors, other functions lane by lane through libm. */
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

typedef _Complex float cv_x_c64;
typedef _Complex double cv_x_c128;

#if CV_BYTES == 64
#define CV_EVEN_f32(a, b)                                                                     \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define CV_ODD_f32(a, b)                                                                      \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define CV_ZIPLOW_f32(a, b)                                                                   \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define CV_ZIPHIGH_f32(a, b)                                                                  \
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

/* C is the suffix, T that of its parts, I integers as wide as a part, M the mask. */
#define CV_DEFINE_COMPLEX(C, T, I, M)                                                         \
    CV_FN cv_##C cv_make_##C(cv_##T re, cv_##T im) { return (cv_##C){re, im}; }               \
    CV_FN cv_##C cv_set1_##C(cv_s_##C x)                                                      \
    {                                                                                         \
        return cv_make_##C(cv_set1_##T(x.re), cv_set1_##T(x.im));                             \
    }                                                                                         \
    CV_FN cv_##C cv_pair_##C(cv_s_##T re, cv_s_##T im)                                        \
    {                                                                                         \
        return cv_make_##C(cv_set1_##T(re), cv_set1_##T(im));                                 \
    }                                                                                         \
    CV_FN cv_##C cv_iota_##C(void) { return cv_make_##C(cv_iota_##T(), (cv_##T){0}); }        \
    CV_FN cv_##C cv_part_##C(cv_##T a, cv_##T b)                                              \
    {                                                                                         \
        return cv_make_##C(CV_EVEN_##T(a, b), CV_ODD_##T(a, b));                              \
    }                                                                                         \
    CV_FN cv_##C cv_load_##C(const void *p)                                                   \
    {                                                                                         \
        return cv_part_##C(cv_load_##T(p), cv_load_##T((const char *)p + CV_BYTES));          \
    }                                                                                         \
    CV_FN void cv_store_##C(void *p, cv_##C z)                                                \
    {                                                                                         \
        cv_store_##T(p, CV_ZIPLOW_##T(z.re, z.im));                                           \
        cv_store_##T((char *)p + CV_BYTES, CV_ZIPHIGH_##T(z.re, z.im));                       \
    }                                                                                         \
    CV_FN void cv_stream_##C(void *p, cv_##C z)                                               \
    {                                                                                         \
        cv_stream_##T(p, CV_ZIPLOW_##T(z.re, z.im));                                          \
        cv_stream_##T((char *)p + CV_BYTES, CV_ZIPHIGH_##T(z.re, z.im));                      \
    }                                                                                         \
    CV_FN cv_##C cv_loadn_##C(const void *p, cv_s_i64 n)                                      \
    {                                                                                         \
        const char *next = (const char *)p + CV_BYTES;                                        \
        if (2 * n <= CV_LANES_##T)                                                            \
            return cv_part_##C(cv_loadn_##T(p, 2 * n), (cv_##T){0});                          \
        return cv_part_##C(cv_load_##T(p), cv_loadn_##T(next, 2 * n - CV_LANES_##T));         \
    }                                                                                         \
    CV_FN void cv_storen_##C(void *p, cv_##C z, cv_s_i64 n)                                   \
    {                                                                                         \
        cv_##T low = CV_ZIPLOW_##T(z.re, z.im), high = CV_ZIPHIGH_##T(z.re, z.im);            \
        if (2 * n <= CV_LANES_##T) {                                                          \
            cv_storen_##T(p, low, 2 * n);                                                     \
            return;                                                                           \
        }                                                                                     \
        cv_store_##T(p, low);                                                                 \
        cv_storen_##T((char *)p + CV_BYTES, high, 2 * n - CV_LANES_##T);                      \
    }                                                                                         \
    CV_FN cv_##C cv_select_##C(cv_##M m, cv_##C a, cv_##C b)                                  \
    {                                                                                         \
        return cv_make_##C(cv_select_##T(m, a.re, b.re), cv_select_##T(m, a.im, b.im));       \
    }                                                                                         \
    CV_FN cv_##T cv_real_##C(cv_##C a) { return a.re; }                                       \
    CV_FN cv_##T cv_imag_##C(cv_##C a) { return a.im; }                                       \
    CV_FN cv_##T cv_abs_##C(cv_##C a) { return cv_hypot_##T(a.re, a.im); }                    \
    CV_FN cv_##T cv_magnitude_##C(cv_##C a) { return cv_abs_##C(a); }                         \
    CV_FN cv_##C cv_complex_##C(cv_##T re, cv_##T im) { return (cv_##C){re, im}; }            \
    CV_FN cv_##C cv_polar_##C(cv_##T r, cv_##T angle)                                         \
    {                                                                                         \
        return cv_make_##C(r * cv_cos_##T(angle), r * cv_sin_##T(angle));                     \
    }                                                                                         \
    CV_FN cv_##T cv_angle_##C(cv_##C a) { return cv_atan2_##T(a.im, a.re); }                  \
    CV_FN cv_##C cv_cast_##C##_##T(cv_##T a) { return cv_make_##C(a, (cv_##T){0}); }          \
    CV_FN cv_##T cv_cast_##T##_##C(cv_##C a) { return a.re; }                                 \
    CV_FN cv_##C cv_cast_##C##_##C(cv_##C a) { return a; }                                    \
    CV_FN cv_##C cv_cast_##C##_##I(cv_##I a)                                                  \
    {                                                                                         \
        return cv_make_##C(cv_cast_##T##_##I(a), (cv_##T){0});                                \
    }                                                                                         \
    CV_FN cv_##I cv_cast_##I##_##C(cv_##C a) { return cv_cast_##I##_##T(a.re); }              \
    CV_FN cv_##M cv_cast_bool_##C(cv_##C a)                                                   \
    {                                                                                         \
        return cv_or_##M(cv_cast_bool_##T(a.re), cv_cast_bool_##T(a.im));                     \
    }                                                                                         \
    CV_FN cv_##C cv_frommask_##C(cv_##M m) { return cv_cast_##C##_##T(cv_frommask_##T(m)); }  \
    CV_FN cv_##C cv_scaled_##C(cv_##C a, cv_##T k)                                            \
    {                                                                                         \
        return cv_make_##C(a.re * k, a.im * k);                                               \
    }                                                                                         \
    CV_FN cv_##C cv_add_##C(cv_##C a, cv_##C b)                                               \
    {                                                                                         \
        return cv_make_##C(a.re + b.re, a.im + b.im);                                         \
    }                                                                                         \
    CV_FN cv_##C cv_sub_##C(cv_##C a, cv_##C b)                                               \
    {                                                                                         \
        return cv_make_##C(a.re - b.re, a.im - b.im);                                         \
    }                                                                                         \
    CV_FN cv_##C cv_mul_##C(cv_##C a, cv_##C b)                                               \
    {                                                                                         \
        return cv_make_##C(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);             \
    }                                                                                         \
    CV_FN cv_##C cv_square_##C(cv_##C a) { return cv_mul_##C(a, a); }                         \
    CV_FN cv_##C cv_neg_##C(cv_##C a) { return cv_make_##C(-a.re, -a.im); }                   \
    CV_FN cv_##C cv_conj_##C(cv_##C a) { return cv_make_##C(a.re, -a.im); }                   \
    /* Smith's method: b is divided by its larger part, so that no square leaves the range    \
     * when the quotient does not.  By zero, the parts are divided one by one. */             \
    CV_FN cv_##C cv_div_##C(cv_##C a, cv_##C b)                                               \
    {                                                                                         \
        cv_##T c = cv_abs_##T(b.re), d = cv_abs_##T(b.im), zero = {0};                        \
        cv_##M wide = cv_ge_##T(c, d), none = cv_eq_##T(c + d, zero);                         \
        cv_##T p = cv_select_##T(wide, b.re, b.im), q = cv_select_##T(wide, b.im, b.re);      \
        cv_##T x = cv_select_##T(wide, a.re, a.im), y = cv_select_##T(wide, a.im, a.re);      \
        cv_##T rat = q / p, den = p + q * rat, re = (x + y * rat) / den;                      \
        cv_##T im = (y - x * rat) / den;                                                      \
        im = cv_select_##T(wide, im, -im);                                                    \
        re = cv_select_##T(none, a.re / c, re);                                               \
        return cv_make_##C(re, cv_select_##T(none, a.im / d, im));                            \
    }                                                                                         \
    CV_FN cv_##C cv_reciprocal_##C(cv_##C a)                                                  \
    {                                                                                         \
        return cv_div_##C(cv_pair_##C(1, 0), a);                                              \
    }                                                                                         \
    CV_FN cv_##M cv_eq_##C(cv_##C a, cv_##C b)                                                \
    {                                                                                         \
        return cv_and_##M(cv_eq_##T(a.re, b.re), cv_eq_##T(a.im, b.im));                      \
    }                                                                                         \
    CV_FN cv_##M cv_ne_##C(cv_##C a, cv_##C b)                                                \
    {                                                                                         \
        return cv_or_##M(cv_ne_##T(a.re, b.re), cv_ne_##T(a.im, b.im));                       \
    }                                                                                         \
    CV_FN cv_##M cv_isnan_##C(cv_##C a)                                                       \
    {                                                                                         \
        return cv_or_##M(cv_isnan_##T(a.re), cv_isnan_##T(a.im));                             \
    }                                                                                         \
    CV_FN cv_##M cv_isinf_##C(cv_##C a)                                                       \
    {                                                                                         \
        return cv_or_##M(cv_isinf_##T(a.re), cv_isinf_##T(a.im));                             \
    }                                                                                         \
    CV_FN cv_##M cv_isfinite_##C(cv_##C a)                                                    \
    {                                                                                         \
        return cv_and_##M(cv_isfinite_##T(a.re), cv_isfinite_##T(a.im));                      \
    }                                                                                         \
    CV_FN cv_##C cv_sgn_##C(cv_##C a)                                                         \
    {                                                                                         \
        cv_##T size = cv_abs_##C(a), zero = {0};                                              \
        cv_##C r = cv_make_##C(a.re / size, a.im / size);                                     \
        return cv_select_##C(cv_eq_##T(size, zero), cv_make_##C(zero, zero), r);              \
    }

/* Through libm, a lane at a time. */
#define CV_COMPLEX1(C, T, name, function)                                                     \
    CV_FN cv_##C cv_##name##_##C(cv_##C a)                                                    \
    {                                                                                         \
        for (int l = 0; l < CV_LANES_##T; l++) {                                              \
            cv_x_##C z = function(__builtin_complex(a.re[l], a.im[l]));                       \
            a.re[l] = __real__ z;                                                             \
            a.im[l] = __imag__ z;                                                             \
        }                                                                                     \
        return a;                                                                             \
    }

#define CV_COMPLEX2(C, T, name, function)                                                     \
    CV_FN cv_##C cv_##name##_##C(cv_##C a, cv_##C b)                                          \
    {                                                                                         \
        for (int l = 0; l < CV_LANES_##T; l++) {                                              \
            cv_x_##C z = function(__builtin_complex(a.re[l], a.im[l]),                        \
                                  __builtin_complex(b.re[l], b.im[l]));                       \
            a.re[l] = __real__ z;                                                             \
            a.im[l] = __imag__ z;                                                             \
        }                                                                                     \
        return a;                                                                             \
    }

#define CV_DEFINE_COMPLEX_MATH(C, T, M, s)                                                    \
    CV_COMPLEX1(C, T, exp, __builtin_cexp##s)                                                 \
    CV_COMPLEX1(C, T, log, __builtin_clog##s)                                                 \
    CV_COMPLEX1(C, T, sqrt, __builtin_csqrt##s)                                               \
    CV_COMPLEX1(C, T, sin, __builtin_csin##s)                                                 \
    CV_COMPLEX1(C, T, cos, __builtin_ccos##s)                                                 \
    CV_COMPLEX1(C, T, tan, __builtin_ctan##s)                                                 \
    CV_COMPLEX1(C, T, sinh, __builtin_csinh##s)                                               \
    CV_COMPLEX1(C, T, cosh, __builtin_ccosh##s)                                               \
    CV_COMPLEX1(C, T, tanh, __builtin_ctanh##s)                                               \
    CV_COMPLEX1(C, T, asin, __builtin_casin##s)                                               \
    CV_COMPLEX1(C, T, acos, __builtin_cacos##s)                                               \
    CV_COMPLEX1(C, T, atan, __builtin_catan##s)                                               \
    CV_COMPLEX1(C, T, asinh, __builtin_casinh##s)                                             \
    CV_COMPLEX1(C, T, acosh, __builtin_cacosh##s)                                             \
    CV_COMPLEX1(C, T, atanh, __builtin_catanh##s)                                             \
    CV_COMPLEX2(C, T, pow, __builtin_cpow##s)                                                 \
    CV_FN cv_##C cv_rsqrt_##C(cv_##C a) { return cv_reciprocal_##C(cv_sqrt_##C(a)); }         \
    CV_FN cv_##C cv_log2_##C(cv_##C a)                                                        \
    {                                                                                         \
        return cv_scaled_##C(cv_log_##C(a), cv_set1_##T((cv_s_##T)1.4426950408889634));       \
    }                                                                                         \
    CV_FN cv_##C cv_log10_##C(cv_##C a)                                                       \
    {                                                                                         \
        return cv_scaled_##C(cv_log_##C(a), cv_set1_##T((cv_s_##T)0.43429448190325183));      \
    }                                                                                         \
    CV_FN cv_##C cv_exp2_##C(cv_##C a)                                                        \
    {                                                                                         \
        return cv_exp_##C(cv_scaled_##C(a, cv_set1_##T((cv_s_##T)0.69314718055994531)));      \
    }                                                                                         \
    CV_FN cv_##C cv_sigmoid_##C(cv_##C a)                                                     \
    {                                                                                         \
        cv_##C one = cv_pair_##C(1, 0);                                                       \
        return cv_div_##C(one, cv_add_##C(one, cv_exp_##C(cv_neg_##C(a))));                   \
    }                                                                                         \
    /* |1 + z|^2 - 1 = x (x + 2) + y^2 keeps small z; large z has nothing to lose. */         \
    CV_FN cv_##C cv_log1p_##C(cv_##C a)                                                       \
    {                                                                                         \
        cv_##T one = cv_set1_##T(1), u = one + a.re;                                          \
        cv_##T d = a.re * (a.re + 2 * one) + a.im * a.im;                                     \
        cv_##M near = cv_lt_##T(cv_abs_##T(d), one * (cv_s_##T)0.5);                          \
        cv_##T r = cv_log1p_##T(cv_select_##T(near, d, one)) * (cv_s_##T)0.5;                 \
        cv_##C far = cv_log_##C(cv_make_##C(u, a.im));                                        \
        return cv_make_##C(cv_select_##T(near, r, far.re), cv_atan2_##T(a.im, u));            \
    }                                                                                         \
    /* e^x cos y - 1 = expm1(x) cos y - 2 sin^2(y / 2). */                                    \
    CV_FN cv_##C cv_expm1_##C(cv_##C a)                                                       \
    {                                                                                         \
        cv_##T half = cv_sin_##T(a.im * (cv_s_##T)0.5);                                       \
        cv_##T re = cv_expm1_##T(a.re) * cv_cos_##T(a.im) - 2 * half * half;                  \
        return cv_make_##C(re, cv_exp_##T(a.re) * cv_sin_##T(a.im));                          \
    }

/* The tree of vec.h, on one element after the other. */
#define CV_DEFINE_COMPLEX_REDUCE(C, T)                                                        \
    CV_FN cv_s_##C cv_reduce_add_##C(const cv_##C *acc)                                        \
    {                                                                                         \
        cv_##T re[CV_REDUCE_##C], im[CV_REDUCE_##C];                                          \
        for (int i = 0; i < CV_REDUCE_##C; i++) {                                             \
            re[i] = acc[i].re;                                                                \
            im[i] = acc[i].im;                                                                \
        }                                                                                     \
        return (cv_s_##C){cv_reduce_add_##T(re), cv_reduce_add_##T(im)};                        \
    }                                                                                         \
    CV_FN cv_s_##C cv_reduce_mul_##C(const cv_##C *acc)                                        \
    {                                                                                         \
        cv_s_##C t[CR_FOLD_LANES];                                                            \
        for (int i = 0; i < CV_REDUCE_##C; i++)                                               \
            cv_store_##C(t + i * CV_LANES_##T, acc[i]);                                       \
        for (int half = CR_FOLD_LANES / 2; half > 0; half /= 2) {                             \
            for (int l = 0; l < half; l++) {                                                  \
                cv_s_##C a = t[l], b = t[l + half];                                           \
                t[l].re = a.re * b.re - a.im * b.im;                                          \
                t[l].im = a.re * b.im + a.im * b.re;                                          \
            }                                                                                 \
        }                                                                                     \
        return t[0];                                                                          \
    }

CV_DEFINE_COMPLEX(c64, f32, i32, m32)
CV_DEFINE_COMPLEX(c128, f64, i64, m64)
CV_DEFINE_COMPLEX_MATH(c64, f32, m32, f)
CV_DEFINE_COMPLEX_MATH(c128, f64, m64, )
CV_DEFINE_COMPLEX_REDUCE(c64, f32)
CV_DEFINE_COMPLEX_REDUCE(c128, f64)

#endif
