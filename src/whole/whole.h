/* whole.h - functions over tensors that other rooms call as C. */
#ifndef CR_WHOLE_H
#define CR_WHOLE_H

#include "tensor/tensor.h"

/* Sums `t` down to `size`, which broadcasts to the sizes of `t`.  *out is owned.  CR_RUNTIME
 * when `size` does not broadcast. */
CR_MUST cr_status cr_reduce_to_size(cr_tensor **out, cr_tensor *t, int ndim,
                                    const int64_t *size);

#endif
