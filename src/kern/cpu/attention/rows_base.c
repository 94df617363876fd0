/* The loops of rows.h for every x86-64 processor. */
#define LOOPS cr_rows_base
#include "kern/cpu/attention/rows.inc"
