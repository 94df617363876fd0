/* The loops of gemm_real.h for float64 and AVX2. */
#define T        double
#define BITS     int64_t
#define LANES    8
#define REGISTER 4
#define NAME(x)  cr_f64_##x
#define LOOPS    cr_f64_avx2
#include "kern/cpu/product/gemm_real_loops.inc"
