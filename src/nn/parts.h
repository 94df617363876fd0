/* parts.h - layers that are several calls of operators and modules. */
#ifndef CR_NN_PARTS_H
#define CR_NN_PARTS_H

#include "nn/nn_impl.h"
#include "whole/steps.h"

/* The result of a module with one input, which the steps own. */
cr_tensor *nn_apply(cr_steps *s, cr_module *m, cr_tensor *x);
/* Ends the steps: *out[i] are the results, owned by the caller. */
CR_MUST cr_status nn_finish(cr_steps *s, cr_tensor **out, cr_tensor *const *result,
                            size_t outs);

#endif
