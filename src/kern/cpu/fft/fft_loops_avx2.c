/* The loops of fft_plan.h for AVX2. */
#define LOOPS cr_fft_loops_avx2
#include "kern/cpu/fft/fft_loops.inc"
