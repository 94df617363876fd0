/* compile.h - from a graph to fused code.
 *
 *     recorded graph --group--> graph with groups --code--> the same, with code in its groups
 *
 * A group is a set of pointwise nodes over one index space that is computed in one pass over
 * memory: by tiles at once, by native code as soon as it is there (jit/fused.h), with the bits
 * of the nodes called one by one.  Everything else stays a call. */
#ifndef CR_COMPILE_COMPILE_H
#define CR_COMPILE_COMPILE_H

#include "graph/graph.h"
#include "jit/fused.h"

/* How an operand lies in a group's space, seen as rows and columns. */
typedef enum {
    CR_OVER_ALL,    /* an element for each point, row-major */
    CR_OVER_ROWS,   /* one a row */
    CR_OVER_COLUMNS,/* one a column */
    CR_OVER_NOTHING /* one for all */
} cr_over;

/* The graph with nodes gathered into groups of at least two, in g's session.  Types have to be
 * known; a node without them stays a call. */
cr_graph *cr_compile_group(const cr_graph *g);

/* Batch norm by given statistics as its parts, with what belongs to the channels apart from the
 * elements, in g's session; g itself when there is none. */
cr_graph *cr_compile_norms(const cr_graph *g);

/* The groups' code.  It belongs to the graph's owner: drop it before the graph. */
typedef struct cr_compiled cr_compiled;
/* Gives every group of `g` code; a group that cannot have any keeps calling its nodes, and the
 * log (CR_LOG=fusion) says why. */
CR_MUST cr_status cr_compile_code(cr_compiled **out, cr_graph *g);
void cr_compiled_drop(cr_compiled *c);
int cr_compiled_groups(const cr_compiled *c);
/* The fused program of group k, borrowed. */
const cr_fused *cr_compiled_fused(const cr_compiled *c, int k);

/* Where an operand of `in` sizes lies in the space `size`; *split becomes the number of
 * dimensions that make rows, which is -1 while nothing has decided it.  False: nowhere. */
bool cr_operand_over(cr_over *out, int *split, int ndim, const int64_t *size, const cr_gtype *in);

/* The entry of a node as expressions of `l`: `value(context, v)` gives the expression of an
 * argument, `number(context, n)` that of a run-time number of dtype `t`.  Bails where the entry
 * is no body or composition of bodies, or computes in a type that loops do not have. */
typedef struct {
    const cr_expr *(*value)(void *context, cr_gvalue *v);
    const cr_expr *(*number)(void *context, cr_scalar n, cr_dtype t);
    void *context;
} cr_node_reader;
const cr_expr *cr_compile_node(cr_loop *l, const cr_gnode *n, const cr_node_reader *r);

#endif
