/* oracle.h - kernels by the interpreter: CR_ORACLE=1 repeats the runs of fused programs and
 * compares; the executor of plans that tests compare with others. */
#ifndef CR_JIT_ORACLE_H
#define CR_JIT_ORACLE_H

#include "plan/plan.h"

bool cr_oracle_wanted(void);

/* Compares the outputs of a run with those that the interpreter computes for the program
 * `text`, over the first rows (at most 65,536 elements, and at least one row).  `ptr` and
 * `stride` are those of cr_fused_run.  Fails with CR_RUNTIME and names the first element whose
 * bits differ.  All NaNs are equal. */
CR_MUST cr_status cr_oracle_check(const char *text, void *const *ptr, const int64_t *stride,
                                  int64_t rows, int64_t columns, const void *param);

/* The oracle of plans (plan/plan.h) with kernels. */
extern const cr_executor cr_oracle;
/* Adds them to its table; at start-up. */
void cr_oracle_install(void);
/* cr_executor.operands for kernels whose programs are in the loop IR. */
cr_status cr_kernel_operands(const cr_launch *l, cr_plan_operand *out);
/* cr_executor.build for a device that builds texts in C. */
const char *cr_plan_build(const cr_device_ops *ops, int index, const cr_plan_kernel *k,
                          void **code);

#endif
