/* The loops of rows.h for AVX2. */
#define LOOPS cr_rows_avx2
#include "kern/cpu/attention/rows.inc"
