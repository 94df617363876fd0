/* vec_f32.h - float32 vectors. */
#ifndef CR_EMIT_VEC_F32_H
#define CR_EMIT_VEC_F32_H

#include "emit/vec_float.h"

CV_DEFINE_FLOAT(f32, i32, u32, m32, 4, f)

CV_LANEWISE1(f32, exp, __builtin_expf)
CV_LANEWISE1(f32, exp2, __builtin_exp2f)
CV_LANEWISE1(f32, expm1, __builtin_expm1f)
CV_LANEWISE1(f32, log, __builtin_logf)
CV_LANEWISE1(f32, log2, __builtin_log2f)
CV_LANEWISE1(f32, log10, __builtin_log10f)
CV_LANEWISE1(f32, log1p, __builtin_log1pf)
CV_LANEWISE1(f32, sin, __builtin_sinf)
CV_LANEWISE1(f32, cos, __builtin_cosf)
CV_LANEWISE1(f32, tan, __builtin_tanf)
CV_LANEWISE1(f32, asin, __builtin_asinf)
CV_LANEWISE1(f32, acos, __builtin_acosf)
CV_LANEWISE1(f32, atan, __builtin_atanf)
CV_LANEWISE1(f32, sinh, __builtin_sinhf)
CV_LANEWISE1(f32, cosh, __builtin_coshf)
CV_LANEWISE1(f32, tanh, __builtin_tanhf)
CV_LANEWISE1(f32, asinh, __builtin_asinhf)
CV_LANEWISE1(f32, acosh, __builtin_acoshf)
CV_LANEWISE1(f32, atanh, __builtin_atanhf)
CV_LANEWISE1(f32, erf, __builtin_erff)
CV_LANEWISE1(f32, erfc, __builtin_erfcf)
CV_LANEWISE2(f32, atan2, __builtin_atan2f)
CV_LANEWISE2(f32, pow, __builtin_powf)
CV_LANEWISE2(f32, hypot, __builtin_hypotf)
CV_LANEWISE2(f32, fmod, __builtin_fmodf)

CV_DEFINE_DIVISION(f32, m32)

CV_FN cv_f32 cv_sigmoid_f32(cv_f32 a) { return 1.0f / (1.0f + cv_exp_f32(-a)); }

#endif
