/* The loops of gemm_f32.h for AVX2. */
#define REGISTER 8
#define LOOPS    cr_f32_avx2
#include "kern/cpu/product/gemm_f32_loops.inc"
