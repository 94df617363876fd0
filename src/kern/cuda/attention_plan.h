/* attention_plan.h - attention by plans of cuDNN. */
#ifndef CR_KERN_CUDA_ATTENTION_PLAN_H
#define CR_KERN_CUDA_ATTENTION_PLAN_H

#include "kern/cuda/attention_engine.h"

/* One call: heads_key.batch and heads_key.heads are those of the whole arrays, and so are the
 * addresses.  at[HEADS_SUMS] is set by the callee. */
typedef struct {
    heads_key key;
    void *at[HEADS_ARRAYS];
    float scale;
} heads_call;

/* Declines calls that the library has no plan for, or for which there is no memory. */
const char *cr_heads_run(const heads_call *c);

#endif
