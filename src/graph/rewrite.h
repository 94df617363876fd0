/* rewrite.h - copying a graph node by node; inside graph/ only. */
#ifndef CR_GRAPH_REWRITE_H
#define CR_GRAPH_REWRITE_H

#include "graph/graph.h"

typedef struct cr_rewrite cr_rewrite;
struct cr_rewrite {
    const cr_graph *from;
    cr_graph *to;
    cr_gvalue **now; /* by id in `from`: the value that stands for it in `to` */
    /* What becomes of a node: false copies it; true says that the function has set `now` of
     * its results itself (or that nobody reads them). */
    bool (*node)(cr_rewrite *w, cr_gblock *to, const cr_gnode *n);
    void *context;
    cr_session *into; /* of the new graph; NULL: that of `from` */
};

/* The new graph: inputs, the nodes in order, outputs. */
cr_graph *cr_rewrite_run(cr_rewrite *w);
/* The value in the new graph; for cr_garg_copy, whose context is the rewrite. */
cr_gvalue *cr_rewrite_value(void *rewrite, cr_gvalue *v);
/* Appends a copy of `n` with new values. */
cr_gnode *cr_rewrite_copy(cr_rewrite *w, cr_gblock *to, const cr_gnode *n);

/* The calls that nodes make in place of those for which `splits` is true (decompose.c). */
typedef bool (*cr_node_test)(const cr_gnode *n);
enum { CR_GRAPH_PART_INPUTS = 64 }; /* most tensors that a split node reads or gives */
cr_graph *cr_rewrite_split(const cr_graph *g, cr_node_test splits);

/* --- what must stay a tensor of its own (owner.c) --- */
typedef struct {
    bool *own;  /* by value id */
    size_t end; /* the node that writes first */
} cr_owners;
/* False where the graph writes otherwise than functional.c leaves it: copies to inputs and
 * constants. */
bool cr_owners_find(cr_owners *o, const cr_graph *g);
/* A result of the node is one of them. */
bool cr_owners_has(const cr_owners *o, const cr_gnode *n);
/* Whether a rewrite has come to the first write; *at counts the nodes of the graph's body. */
bool cr_owners_past(const cr_owners *o, const cr_rewrite *w, const cr_gblock *to, size_t *at);

#endif
