/* batch.h - examples of batches: the calls of a mapped function (torch.func.vmap).
 *
 * Inside of a mapped function a tensor is an example: it has the sizes of one, no elements, and
 * refers to the whole batch, whose first dim counts the examples.  Maps nest; each has a level,
 * inner ones higher levels, and a batch may consist of examples of a lower level. */
#ifndef CR_TENSOR_BATCH_H
#define CR_TENSOR_BATCH_H

#include "tensor/tensor.h"

/* True for an example of a batch, whose level is t->level. */
static inline bool cr_is_example(const cr_tensor *t) { return t->batch != NULL; }

/* Makes `t`, a tensor without elements, an example of a batch. */
void cr_example_set(cr_tensor *t, cr_tensor *batch, uint64_t level);
/* A new example of `batch`, which has at least one dim. */
CR_MUST cr_status cr_example_new(cr_tensor **out, cr_tensor *batch, uint64_t level);

/* A new number, higher than all levels that were given. */
uint64_t cr_level_new(void);
/* Between these two calls the function of a level runs.  Calls with examples of levels that do
 * not run, and of more than 64 levels, are left to the caller of cr_batch_call. */
void cr_level_starts(uint64_t level);
void cr_level_ends(uint64_t level);
/* While false, calls that would be made for each example are left to the caller. */
void cr_batch_may_repeat(bool may);

/* Makes the call for all examples of the highest level among the arguments at once.  *left is
 * set, and nothing is done, where no rule fits: the caller decides.  Calls that it makes go
 * through all stages, so that autograd records them for the batch. */
CR_MUST cr_status cr_batch_call(const cr_op *op, const cr_value *arg, cr_value *result,
                                bool *left);
/* True if the call is left because the parts of a composition are to be called. */
bool cr_batch_comes_apart(const cr_op *op, const cr_value *arg);
/* Makes such a call by `parts`, with the refusals and dtypes of the entry's own function. */
CR_MUST cr_status cr_batch_in_parts(const cr_op *op, const cr_value *arg, cr_value *result,
                                    cr_call_fn parts);

#endif
