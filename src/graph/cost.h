/* cost.h - floating point operations and bytes of a graph, as expressions over its sizes.
 *
 * An entry's clause `flops` states the floating point operations of a call.  Without the clause
 * they follow from the kind of entry: a pointwise entry counts every call of its body once an
 * element; a reduction its combination and the calls of its expression once an element of the
 * input; a view none; a composition those of its parts.  A multiplication and an addition are
 * two operations.  Other entries (sorts, transforms, copies by index) count as none.
 *
 * Bytes are those of the tensors that a node reads and of its results.  Views move no bytes.  A
 * group reads its inputs and writes its outputs.
 *
 * Sizes of values come from the operators' rules, which are run at several sizes of the
 * inputs.  The simplest expression over the sizes around a node that gives all results is
 * used.  It is correct wherever the guards of the graph hold.  A size without such an
 * expression gets a name, u0, u1, ... */
#ifndef CR_GRAPH_COST_H
#define CR_GRAPH_COST_H

#include "graph/graph.h"
#include "sym/sym.h"

/* --- of a call --- */
/* A property of an argument: the sizes of a tensor (CR_TENSOR), an integer (CR_INT, CR_TRUTH:
 * at[0]), integers (CR_INTS), CR_NONE.  Other tags are unknown. */
typedef struct {
    uint8_t tag;
    int len;
    const cr_sym *const *at;
} cr_measure;

/* The floating point operations of a call; NULL when nothing states them.  Bails from the
 * session of `t` when a rule has no value. */
const cr_sym *cr_op_flops(cr_syms *t, const cr_op *op, const cr_measure *arg,
                          const cr_measure *result);

/* --- of a graph --- */
typedef struct {
    const cr_sym *flops, *read, *written;
} cr_cost;

typedef struct {
    cr_syms *syms; /* named $0, $1, ... like the graph's symbols */
    cr_cost *node; /* one for each node of g->body, in order */
    cr_cost total;
} cr_graph_costs;

/* Appends a line for each value: its name, ": " and its sizes as expressions, separated by
 * ", ".  given[i]: values of all numbers, of which at least two must be such as the graph
 * takes; NULL: they are chosen, and symbols whose recorded values are equal may be one name.
 * Bails as the cost does when the graph takes too few of them. */
void cr_graph_print_sizes(cr_text *out, const cr_graph *g, const cr_scalar *const *given,
                          int count);
/* Appends one line for each node, and the sums. */
void cr_graph_print_cost(cr_text *out, const cr_graph *g);

#endif
