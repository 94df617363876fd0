/* float64 matrix products. */
#define T       double
#define DTYPE   CR_F64
#define LANES   8
#define NAME(x) cr_f64_##x
#define GEMM    cr_gemm_f64
#define IS_DOTS cr_gemm_f64_is_dots
#include "kern/cpu/product/gemm_real.inc"
