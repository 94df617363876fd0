/* oracle.h - CR_ORACLE=1: the interpreter repeats the runs of fused programs and compares. */
#ifndef CR_JIT_ORACLE_H
#define CR_JIT_ORACLE_H

#include "base/error.h"

bool cr_oracle_wanted(void);

/* Compares the outputs of a run with those that the interpreter computes for the program
 * `text`, over the first rows (at most 65,536 elements, and at least one row).  `ptr` and
 * `stride` are those of cr_fused_run.  Fails with CR_RUNTIME and names the first element whose
 * bits differ.  All NaNs are equal. */
CR_MUST cr_status cr_oracle_check(const char *text, void *const *ptr, const int64_t *stride,
                                  int64_t rows, int64_t columns, const void *param);

#endif
