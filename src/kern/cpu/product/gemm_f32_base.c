/* The loops of gemm_real.h for float32 and every x86-64 processor. */
#define T        float
#define BITS     int32_t
#define LANES    16
#define REGISTER 4
#define NAME(x)  cr_f32_##x
#define LOOPS    cr_f32_base
#include "kern/cpu/product/gemm_real_loops.inc"
