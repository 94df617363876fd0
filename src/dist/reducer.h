/* reducer.h - data parallelism: gradients are averaged over the ranks of a group while backward
 * runs.
 *
 * Parameters belong to buckets of one dtype.  When all gradients of a bucket are there, the
 * bucket is reduced in the group's thread while backward goes on; at the end of backward the
 * averages become the gradients.  Buckets start in one order at every rank.  After the first
 * backward the buckets are made anew in the order in which gradients came at rank 0.
 *
 * Not thread-safe: backward runs in one thread at a time. */
#ifndef CR_DIST_REDUCER_H
#define CR_DIST_REDUCER_H

#include "autograd/autograd.h"
#include "comm/group.h"

typedef struct cr_reducer cr_reducer;

typedef struct {
    cr_comm *comm;           /* kept */
    cr_tensor *const *param; /* leaves that require gradients, dense, on the host; kept */
    const bool *sparse;      /* whose gradients are sparse_coo; NULL: none */
    int count;
    size_t bucket_bytes, first_bytes; /* sizes of buckets, and of the first one */
    bool views;                       /* gradients become views of their buckets */
    bool find_unused;                 /* parameters may take no part in a backward */
    bool static_graph;                /* every backward uses parameters as the first one did */
} cr_reducer_how;

/* What replaces the average of a bucket: `start` when all gradients are there, `finish` at the
 * end of backward, after which the bucket has the result.  Both with the Python lock if
 * `python`. */
typedef struct {
    cr_status (*start)(void *context, int bucket);
    cr_status (*finish)(void *context, int bucket);
    void *context;
    bool python;
} cr_reducer_hook;

/* Adds hooks to the parameters, which cr_reducer_free removes.  The caller owns *out.  Fails
 * with CR_RUNTIME for a parameter that requires no gradient, with CR_NOT_IMPLEMENTED for one
 * that is sparse or on another device. */
CR_MUST cr_status cr_reducer_new(cr_reducer **out, const cr_reducer_how *how);
void cr_reducer_free(cr_reducer *r);

/* NULL: the average. */
void cr_reducer_set_hook(cr_reducer *r, const cr_reducer_hook *hook);
/* With false, gradients of the next backward stay at this rank and add up. */
void cr_reducer_set_sync(cr_reducer *r, bool sync);
/* Sums of gradients are divided by `n`, above 0, instead of the number of ranks. */
void cr_reducer_set_divisor(cr_reducer *r, int n);

/* Call before a forward whose backward reduces.  Fails with CR_RUNTIME in torch's words when
 * the last backward left gradients out. */
CR_MUST cr_status cr_reducer_before_forward(cr_reducer *r);
/* Call after it.  With find_unused, parameters that `outputs` do not depend on, or that get no
 * gradient because the loss does not use all outputs, are left out of the next backward. */
CR_MUST cr_status cr_reducer_after_forward(cr_reducer *r, cr_tensor *const *outputs, int n);

/* What a rank without inputs does while others run a forward and a backward: takes part in
 * their calls with zeros. */
CR_MUST cr_status cr_reducer_idle(cr_reducer *r);

int cr_reducer_buckets(const cr_reducer *r);
/* The elements of a bucket, 1-d, or its sparse gradient; borrowed until the next backward. */
cr_tensor *cr_reducer_buffer(const cr_reducer *r, int bucket);
/* The numbers of a bucket's parameters, borrowed; and the place of each in the bucket, NULL for
 * a sparse gradient. */
const int *cr_reducer_members(const cr_reducer *r, int bucket, int *n);
cr_tensor *cr_reducer_view(const cr_reducer *r, int param);
/* True when the buckets have the order of the first backward. */
bool cr_reducer_is_rebuilt(const cr_reducer *r);

#endif
