/* The loops of fft_plan.h for AVX-512. */
#define LOOPS cr_fft_loops_avx512
#include "kern/cpu/fft/fft_loops.inc"
