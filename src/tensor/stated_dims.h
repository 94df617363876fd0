/* stated_dims.h - the dims that a loop's index leaves in place. */
#ifndef CR_TENSOR_STATED_DIMS_H
#define CR_TENSOR_STATED_DIMS_H

#include "ops/ops.h"

/* A rule of a loop along an axis. */
typedef struct {
    const cr_rule *rule;
    bool is_guard;    /* the condition of an element; or else an index of a tensor */
    const int *width; /* the number of axes of each name */
    int name, item;   /* the axis: the item-th of the pack `name`, or 0 */
    int64_t size;     /* it runs over 0 <= t < size */
} cr_loop_along;

/* True if at every t of the axis, whatever the values of the others, the index is t, or the
 * guard holds. */
bool cr_loop_stays(const cr_op *op, const cr_value *arg, const cr_loop_along *a);

#endif
