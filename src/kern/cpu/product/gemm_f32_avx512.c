/* The loops of gemm_f32.h for AVX-512. */
#define REGISTER 16
#define LOOPS    cr_f32_avx512
#include "kern/cpu/product/gemm_f32_loops.inc"
