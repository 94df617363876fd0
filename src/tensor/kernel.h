/* kernel.h - the kernels of elementwise entries, for code that runs them itself. */
#ifndef CR_TENSOR_KERNEL_H
#define CR_TENSOR_KERNEL_H

#include "tensor/tensor.h"
#include <string.h>

/* The kernel of a form for a dtype; "not implemented for" when there is none. */
CR_MUST cr_status cr_find_kernel(cr_kernel *out, const cr_op *op, cr_dtype dtype, cr_form form);

/* Scalar arguments in schema order, in the compute type. */
typedef struct {
    _Alignas(16) char slot[CR_MAX_ARGS][CR_PARAM_BYTES];
} cr_params;
/* On other devices than the host, all bytes are defined: plans have copies of them. */
static inline void cr_start_params(cr_params *out, cr_device device)
{
    if (!cr_is_host(device))
        memset(out, 0, sizeof *out);
}
void cr_fill_params(cr_params *out, const cr_op *op, const cr_value *arg, cr_dtype compute);

/* Computes a body's results into given tensors (in-place and out= without a temporary). */
CR_MUST cr_status cr_run_body_into(const cr_op *op, const cr_value *arg, cr_tensor *const *out);

/* True if the tensors have one float dtype, elements without gaps, and one device, another one
 * than the host. */
bool cr_can_fold_list(const cr_value *list);
/* Folds all elements of each of them by an entry without numbers: the vector *out has their
 * results, in the dtype of the kernel's values.  Few launches do this for any number of
 * tensors; the bits are those of the entry. */
CR_MUST cr_status cr_fold_list(cr_tensor **out, const cr_op *op, const cr_value *list);

#endif
