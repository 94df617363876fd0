/* The loops of rows.h for AVX-512. */
#define LOOPS cr_rows_avx512
#include "kern/cpu/attention/rows.inc"
