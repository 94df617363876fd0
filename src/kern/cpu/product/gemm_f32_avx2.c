/* The loops of gemm_real.h for float32 and AVX2. */
#define T        float
#define BITS     int32_t
#define LANES    16
#define REGISTER 8
#define NAME(x)  cr_f32_##x
#define LOOPS    cr_f32_avx2
#include "kern/cpu/product/gemm_real_loops.inc"
