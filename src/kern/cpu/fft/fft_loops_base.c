/* The loops of fft_plan.h for every processor. */
#define LOOPS cr_fft_loops_base
#include "kern/cpu/fft/fft_loops.inc"
