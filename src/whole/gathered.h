/* gathered.h - tensors from the parts that ranks have sent. */
#ifndef CR_WHOLE_GATHERED_H
#define CR_WHOLE_GATHERED_H

#include "tensor/tensor.h"

/* Fills n tensors with the elements that an all_gather collected: `every` has for each rank its
 * part of each tensor, one after the other.  A tensor is divided equally among the ranks along
 * its first dim.  Versions do not change.  Fails with CR_VALUE, before anything is written,
 * unless all are dense and row-major, of one dtype and device, and their elements are those of
 * `every`. */
CR_MUST cr_status cr_take_gathered(cr_tensor *every, cr_tensor *const *out, int n, int ranks);

#endif
