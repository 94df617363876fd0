/* interp.h - running programs one element at a time: the oracle of tests.
 *
 * Reductions have the order of num/order.h, and the caller supplies the functions (cr_fn_eval).
 * With the kernels' functions, the bits of the results are those of the kernels. */
#ifndef CR_LOOP_INTERP_H
#define CR_LOOP_INTERP_H

#include "loop/loop.h"

typedef struct {
    const cr_sym *name;
    int64_t value;
} cr_loop_size;

typedef struct {
    const cr_loop_size *sizes; /* the value of each named size */
    int size_count;
    void *const *operand; /* row-major; outputs, then inputs (cr_loop_operands) */
    const void *param;    /* CR_PARAM_BYTES a slot */
    cr_fn_eval eval;
    /* Rows are numbered from `first` on where a value is computed of the number: the axes of
     * extent `row`.  NULL: from 0 on. */
    const cr_sym *row;
    int64_t first;
} cr_loop_run;

/* Runs all definitions.  Bails with CR_VALUE when a name has no size, CR_INDEX when an
 * index leaves its buffer. */
void cr_loop_interpret(cr_loop *l, const cr_loop_run *run);

#endif
