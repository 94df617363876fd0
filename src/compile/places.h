/* places.h - the memory of a plan's buffers in one block. */
#ifndef CR_COMPILE_PLACES_H
#define CR_COMPILE_PLACES_H

#include "plan/plan.h"
#include "sym/session.h"

/* Fills offset[b] with the place of buffer b, a multiple of `alignment`; -1 where bytes[b] is
 * -1. Buffers that are used at the same time do not overlap.  time: when each command runs,
 * below their number; NULL: in order.  Returns the bytes of the block. */
int64_t cr_plan_places(cr_session *s, const cr_plan *p, const int64_t *time,
                       const int64_t *bytes, int alignment, int64_t *offset);

/* Fills count[k] with how many operands of commands, and results, are in the buffer of input
 * k. */
void cr_plan_input_uses(const cr_plan *p, int *count, int inputs);

#endif
