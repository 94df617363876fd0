/* cost.h - what a graph computes and moves, as expressions over its sizes.
 *
 * Floating point operations of a call are stated by its entry (clause `flops`), else they follow
 * from what it does: a pointwise entry does every call of its body once an element, a reduction
 * its combination and the calls of its expression once an element read, a view nothing, a
 * composition what its parts do.  Multiply and add are two.  What says nothing (sorts, transforms,
 * copies by index) counts as none.
 *
 * Bytes are those of the tensors that a node reads and of its results; views move nothing, a
 * group reads and writes what leaves it.
 *
 * Sizes of values are found from the operators' rules: these are run at several sizes of the
 * inputs, and the simplest expression over the sizes around a node that gives all of them is
 * taken.  It holds wherever the guards of the graph hold.  A size that no expression is found for
 * has a name of its own, u0, u1, ... */
#ifndef CR_GRAPH_COST_H
#define CR_GRAPH_COST_H

#include "graph/graph.h"
#include "sym/sym.h"

/* --- of a call --- */
/* What is known of an argument: the sizes of a tensor (CR_TENSOR), an integer (CR_INT, CR_TRUTH: at[0]),
 * integers (CR_INTS), CR_NONE; other tags say nothing. */
typedef struct {
    uint8_t tag;
    int len;
    const cr_sym *const *at;
} cr_measure;

/* Floating point operations of a call; NULL where nothing states them.  Bails from the session of
 * `t` with a rule that has no value. */
const cr_sym *cr_op_flops(cr_syms *t, const cr_op *op, const cr_measure *arg, const cr_measure *result);

/* --- of a graph --- */
typedef struct {
    const cr_sym *flops, *read, *written;
} cr_cost;

typedef struct {
    cr_syms *syms; /* names: $0, $1, ... of the graph's symbols */
    cr_cost *node; /* of the nodes of g->body, in order */
    cr_cost total;
} cr_graph_costs;

/* A line a node, and the sums. */
void cr_graph_print_cost(cr_text *out, const cr_graph *g);

#endif
