/* cresset_dist.h - groups of processes for C programs: calls between ranks, and data-parallel
 * training.
 *
 *     cr_world *world = NULL;
 *     cr_ddp *ddp = NULL;
 *
 *     ct_check(cr_world_open(&world, NULL, "env://", -1, -1, 0));
 *     ct_check(cr_ddp_new(&ddp, world, net));
 *     ...
 *         ct_check(cr_ddp_forward(&y, ddp, x));
 *         ct_backward(ct_mse_loss(ct_owned(y), target));
 *         ct_step(optimizer);
 *
 * torchrun starts the processes and sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which
 * env:// reads.  All ranks make the same calls in the same order.  Tensors are contiguous, in
 * host memory, and have the same dtype and size at all ranks.  A rank that ends, stops or makes
 * another call is an error of the other ranks within the time limit, CR_COMM, that names the
 * rank and its line; the group cannot be used afterwards.
 *
 * Arguments are borrowed and results are owned by the caller.  A required argument that is NULL
 * is CR_TYPE.  The message of every failure of a group names the call, the rank and the group:
 * "all_reduce of rank 1 in group 'default': unknown reduction 'median'". */
#ifndef CRESSET_DIST_H
#define CRESSET_DIST_H

#include "cresset_nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- groups ---------------------------------------------------------------------- */

/* The ranks of a run. */
typedef struct cr_world cr_world;

/* Meets the other ranks.
 *
 * `backend` is "gloo", "mpi", or NULL for the first of these that is there.  `address` is
 * "env://", rank 0's "tcp://HOST:PORT", or "file:///PATH" of a file that does not exist yet.
 *
 * `rank` is this rank and `size` the number of ranks; -1 reads RANK or WORLD_SIZE.
 *
 * `timeout_ms` limits this and every call; 0 is 30 minutes.
 *
 * Fails with CR_VALUE for bad arguments, CR_STORE when a rank does not come in time, CR_NETWORK
 * when rank 0 cannot be reached, CR_COMM when the backend is missing. */
CR_API CR_MUST cr_status cr_world_open(cr_world **out, const char *backend, const char *address,
                                       int rank, int size, int64_t timeout_ms);
/* Ends the group.  NULL is allowed. */
CR_API void cr_world_close(cr_world *d);
/* -1 and 0 for NULL. */
CR_API int cr_world_rank(const cr_world *d);
CR_API int cr_world_size(const cr_world *d);
/* "gloo" or "mpi", borrowed; NULL for NULL. */
CR_API const char *cr_world_backend(const cr_world *d);

/* --- calls between ranks ---------------------------------------------------------- */

/* Waits for all ranks. */
CR_API CR_MUST cr_status cr_world_barrier(cr_world *d);
/* Reduces t over all ranks, in place: "sum", "avg", "product", "min", "max", "band", "bor" or
 * "bxor". */
CR_API CR_MUST cr_status cr_world_all_reduce(cr_world *d, cr_tensor *t, const char *op);
/* Copies rank `root`'s t to all ranks. */
CR_API CR_MUST cr_status cr_world_broadcast(cr_world *d, cr_tensor *t, int root);
/* Collects all ranks' `in`, one after the other, in `out`, which has `size` times as many
 * elements. */
CR_API CR_MUST cr_status cr_world_all_gather(cr_world *d, cr_tensor *out, cr_tensor *in);
/* Reduces `in` over all ranks; each gets its part of the elements in `out`. */
CR_API CR_MUST cr_status cr_world_reduce_scatter(cr_world *d, cr_tensor *out, cr_tensor *in,
                                                 const char *op);
/* Gives every rank its part of the elements of `in`, and gets a part of `out` from each. */
CR_API CR_MUST cr_status cr_world_all_to_all(cr_world *d, cr_tensor *out, cr_tensor *in);
/* Sends t to a rank, or receives t from a rank (-1: from any; *sender, if not NULL, is
 * that rank). */
CR_API CR_MUST cr_status cr_world_send(cr_world *d, cr_tensor *t, int to);
CR_API CR_MUST cr_status cr_world_receive(cr_world *d, cr_tensor *t, int from, int *sender);

/* --- data parallelism ------------------------------------------------------------- */

/* A module whose gradients become the ranks' averages while backward runs. */
typedef struct cr_ddp cr_ddp;

/* Copies rank 0's parameters and buffers to all ranks and adds hooks to the parameters.  Keeps
 * the module and the group.  CR_RUNTIME when no parameter requires a gradient. */
CR_API CR_MUST cr_status cr_ddp_new(cr_ddp **out, cr_world *d, cr_module *m);
/* Removes the hooks.  NULL is allowed. */
CR_API void cr_ddp_drop(cr_ddp *p);
/* Calls the module.  In training, rank 0's buffers are copied to all ranks first, and the next
 * backward averages.  CR_RUNTIME in torch's words when the last backward left gradients out. */
CR_API CR_MUST cr_status cr_ddp_forward(cr_tensor **out, cr_ddp *p, cr_tensor *input);
/* With false, gradients stay at this rank and add up until it is true again.  NULL is
 * allowed. */
CR_API void cr_ddp_set_sync(cr_ddp *p, bool sync);

#ifdef __cplusplus
}
#endif

#endif
