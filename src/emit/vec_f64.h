/* vec_f64.h - float64 vectors. */
#ifndef CR_EMIT_VEC_F64_H
#define CR_EMIT_VEC_F64_H

#include "emit/vec_float.h"

CV_DEFINE_FLOAT(f64, i64, u64, m64, 8, )

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

#endif
