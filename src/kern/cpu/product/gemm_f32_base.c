/* The loops of gemm_f32.h for every x86-64 processor. */
#define REGISTER 4
#define LOOPS    cr_f32_base
#include "kern/cpu/product/gemm_f32_loops.inc"
