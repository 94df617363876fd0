/* oracle.h - CR_ORACLE=1: what fused programs computed, computed again by the interpreter. */
#ifndef CR_JIT_ORACLE_H
#define CR_JIT_ORACLE_H

#include "base/error.h"

bool cr_oracle_wanted(void);

/* Compares the outputs of a run (as cr_fused_run took its operands) with those of the
 * program `text`, over as many rows as the interpreter does in a moment.  CR_RUNTIME names
 * the first element whose bits differ; every NaN is the same. */
CR_MUST cr_status cr_oracle_check(const char *text, void *const *ptr, const int64_t *stride,
                                  int64_t rows, int64_t columns, const void *param);

#endif
