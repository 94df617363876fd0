/* The loops of gemm_real.h for float64 and every x86-64 processor. */
#define T        double
#define BITS     int64_t
#define LANES    8
#define REGISTER 2
#define NAME(x)  cr_f64_##x
#define LOOPS    cr_f64_base
#include "kern/cpu/product/gemm_real_loops.inc"
