/* libm.h - which programs and operators call the C library.
 *
 * All else in a program has the same bits on every machine with a fused multiply-add. */
#ifndef CR_LOOP_LIBM_H
#define CR_LOOP_LIBM_H

#include "loop/loop.h"
#include "ops/ops.h"

/* Loop functions; initialize with {0}. */
typedef struct {
    bool has[CR_FN_COUNT];
    int count;
} cr_fn_set;

/* Adds the functions of a program that call the C library. */
void cr_loop_libm(cr_fn_set *set, const cr_loop *l);
/* Adds those that an operator in compute type `t` reaches, by its own kernel or by the
 * operators that it is composed of.  C functions of `kern` and `tensor` are not looked into. */
CR_MUST cr_status cr_op_libm(cr_fn_set *set, const cr_op *op, cr_dtype t);

#endif
