/* float32 matrix products. */
#define T       float
#define DTYPE   CR_F32
#define LANES   16
#define NAME(x) cr_f32_##x
#define GEMM    cr_gemm_f32
#define IS_DOTS cr_gemm_f32_is_dots
#include "kern/cpu/product/gemm_real.inc"
