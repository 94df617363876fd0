/* sparse_average.h - averages of sparse gradients over the ranks of a group. */
#ifndef CR_DIST_SPARSE_AVERAGE_H
#define CR_DIST_SPARSE_AVERAGE_H

#include "comm/group.h"
#include "tensor/tensor.h"

/* The average of all ranks' sparse_coo tensors of one size: not coalesced, the ranks' values in
 * the order of ranks.  `where` is the line of messages.  The caller owns *out. */
CR_MUST cr_status cr_sparse_average(cr_tensor **out, cr_comm *comm, const cr_tensor *grad,
                                    const char *where);
/* A sparse_coo tensor without values, of the size of `like`; one dim is sparse. */
CR_MUST cr_status cr_sparse_zeros(cr_tensor **out, const cr_tensor *like);

#endif
