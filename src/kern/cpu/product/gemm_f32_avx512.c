/* The loops of gemm_real.h for float32 and AVX-512. */
#define T        float
#define BITS     int32_t
#define LANES    16
#define REGISTER 16
#define NAME(x)  cr_f32_##x
#define LOOPS    cr_f32_avx512
#include "kern/cpu/product/gemm_real_loops.inc"
