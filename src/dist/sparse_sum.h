/* sparse_sum.h - sums and averages of sparse tensors over the ranks of a group. */
#ifndef CR_DIST_SPARSE_SUM_H
#define CR_DIST_SPARSE_SUM_H

#include "comm/group.h"
#include "tensor/tensor.h"

/* The sum, times a factor, of all ranks' sparse_coo tensors of one size: not coalesced, the
 * ranks' values in the order of ranks.  `where` is the line of messages.  The caller owns *out.
 * A factor other than 1 needs a floating or complex dtype. */
CR_MUST cr_status cr_sparse_sum(cr_tensor **out, cr_comm *comm, const cr_tensor *grad,
                                double factor, const char *where);
/* A sparse_coo tensor without values, of the size of `like`; one dim is sparse. */
CR_MUST cr_status cr_sparse_zeros(cr_tensor **out, const cr_tensor *like);

#endif
