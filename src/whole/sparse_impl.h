/* sparse_impl.h - what the entries that make sparse tensors of parts share. */
#ifndef CR_WHOLE_SPARSE_IMPL_H
#define CR_WHOLE_SPARSE_IMPL_H

#include "tensor/sparse.h"
#include "whole/steps.h"

/* Ends the steps; the result of the entry is a tensor of these parts. */
CR_MUST cr_status cr_steps_give_sparse(cr_steps *s, cr_value *result, int layout, int ndim,
                                       const int64_t *size, const cr_sparse *parts);
/* CR_RUNTIME in torch's words unless each value has these sizes. */
CR_MUST cr_status cr_expect_value_sizes(const cr_tensor *values, int dims, const int64_t *size);

#endif
