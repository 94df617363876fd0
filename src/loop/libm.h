/* libm.h - which programs and operators call the C library.
 *
 * All other functions have the same bits on every machine with a fused multiply-add. */
#ifndef CR_LOOP_LIBM_H
#define CR_LOOP_LIBM_H

#include "loop/loop.h"
#include "ops/ops.h"

/* A set of loop functions; initialize it with {0}. */
typedef struct {
    bool has[CR_FN_COUNT];
    int count;
} cr_fn_set;

/* Adds the functions of a program that call the C library. */
void cr_loop_libm(cr_fn_set *set, const cr_loop *l);
/* Adds those that an operator's kernel for compute type `t` calls, or the kernels of the
 * operators that it is composed of.  C functions of `kern` and `tensor` are not examined. */
CR_MUST cr_status cr_op_libm(cr_fn_set *set, const cr_op *op, cr_dtype t);

#endif
