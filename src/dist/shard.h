/* shard.h - which placements of operands and results a call can have on one dim of a mesh.
 *
 * A strategy is a placement of each tensor: every rank computes the call on its parts, and gets
 * its part of the results.  Strategies follow from the axes of the call (axes.h); a call
 * without axes has the strategy whose tensors are replicated. */
#ifndef CR_DIST_SHARD_H
#define CR_DIST_SHARD_H

#include "dist/axes.h"

/* A placement: the dim along which a tensor is split, or one of these. */
typedef enum {
    CR_PLACE_REPLICATE = -1,
    CR_PLACE_SUM = -2, /* partial: the tensor is the sum of those of the ranks */
    CR_PLACE_PRODUCT = -3,
    CR_PLACE_MIN = -4,
    CR_PLACE_MAX = -5,
    CR_PLACE_AVERAGE = -6
} cr_placement;

typedef struct {
    int8_t operand[CR_AXES_TENSORS], result[CR_AXES_TENSORS];
    int sized;  /* a parameter that is given the sizes of the local result; -1: none */
    bool parts; /* the call depends on sizes: its parts are called, with whole sizes */
    bool even;  /* sizes must be multiples of the number of ranks */
    /* An operand whose values are places of another along the split dim, or -1.  Each rank
     * takes its first place off them, and sets results at places of other ranks to zero;
     * over[d] is the dim of this operand along dim d of the result, or -1. */
    int looked;
    int8_t over[CR_AXES_DIMS];
    double cost; /* of the redistribution from the present placements */
    int changes; /* operands whose placement changes */
} cr_strategy;

typedef struct {
    int operands, results, count;
    struct {
        cr_dtype dtype;
        int ndim;
        int64_t size[CR_AXES_DIMS], stride[CR_AXES_DIMS];
    } result[CR_AXES_TENSORS];
    const char *rule; /* the kind of the rule, or NULL: only the replicated strategy is known */
    cr_strategy strategy[CR_AXES_DIMS * CR_AXES_TENSORS];
} cr_strategies;

/* The strategies of a call for `ranks` ranks: that of replicated tensors first.  `placed` are
 * the present placements of the operands: calls that keep partial operands partial have this
 * strategy too.  A call that fails, or that fakes cannot make, has one strategy, without
 * results.  CR_MEMORY. */
CR_MUST cr_status cr_shard_strategies(cr_strategies *out, const cr_op *op, const cr_value *arg,
                                      int ranks, const int8_t *placed, int placed_count);
/* The cost of a redistribution of a tensor of so many bytes, in bytes that a rank sends; -1
 * where there is none. */
double cr_shard_cost(int from, int to, double bytes, int ranks);
/* Index of the strategy with the lowest cost; of equal ones that with the fewest changes. */
int cr_shard_cheapest(const cr_strategies *s);

#endif
