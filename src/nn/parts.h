/* parts.h - layers that are several calls of operators and modules. */
#ifndef CR_NN_PARTS_H
#define CR_NN_PARTS_H

#include "nn/nn_impl.h"
#include "whole/steps.h"

/* A mask as numbers that are added: a bool mask becomes 0 and -inf.  NULL stays NULL. */
cr_tensor *nn_added_mask(cr_steps *w, cr_tensor *mask, const char *name, cr_dtype dtype);
/* A recurrent layer on packed sequences: the output's steps, and the last states.  `hx` has the
 * first states, or is NULL. */
void nn_recurrent_packed(cr_steps *w, cr_tensor **result, cr_module *m, const cr_packed *input,
                         cr_tensor *const *hx);
/* The result of a module with one input, which the steps own. */
cr_tensor *nn_apply(cr_steps *s, cr_module *m, cr_tensor *x);
/* Ends the steps: *out[i] are the results, owned by the caller. */
CR_MUST cr_status nn_finish(cr_steps *s, cr_tensor **out, cr_tensor *const *result,
                            size_t outs);

#endif
