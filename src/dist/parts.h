/* parts.h - averages over the parts of a batch that have the same bits for any number of ranks.
 *
 * A batch is cut into `parts` parts; each rank computes a range of them, in order, and gives
 * the tensors of each.  Parts are added in one tree, which depends on their numbers alone:
 * numbers 2i and 2i + 1 become one node of the next level, and a last node without a neighbour
 * goes up as it is.  A rank adds the nodes that lie inside of its range; the ranks exchange
 * these nodes, and each adds the rest.
 *
 * Not thread-safe. */
#ifndef CR_DIST_PARTS_H
#define CR_DIST_PARTS_H

#include "comm/group.h"
#include "tensor/tensor.h"

typedef struct cr_parts cr_parts;

/* Averages `count` tensors of the dtypes and sizes of `like`, which are on the host.  The
 * caller owns *out.  Fails with CR_VALUE when the ranks do not divide `parts`, or for a dtype
 * that has no average. */
CR_MUST cr_status cr_parts_new(cr_parts **out, cr_comm *comm, int parts, cr_tensor *const *like,
                               int count);
void cr_parts_free(cr_parts *p); /* NULL is allowed */
/* This rank's parts: first to after - 1. */
void cr_parts_range(const cr_parts *p, int *first, int *after);
/* Takes the tensors of the next part; NULL counts as zeros.  CR_RUNTIME when this rank has no
 * part left, CR_VALUE for another dtype or number of elements. */
CR_MUST cr_status cr_parts_take(cr_parts *p, cr_tensor *const *tensor);
/* The averages, owned, in out[count]; NULL where every part of every rank was NULL.  Ends the
 * round: the next one starts with this rank's first part.  CR_RUNTIME when parts are
 * missing. */
CR_MUST cr_status cr_parts_finish(cr_parts *p, cr_tensor **out);

#endif
