/* rewrite.h - copies a graph node by node.  For passes of graph/, aot/ and compile/. */
#ifndef CR_GRAPH_REWRITE_H
#define CR_GRAPH_REWRITE_H

#include "graph/graph.h"

typedef struct cr_rewrite cr_rewrite;
struct cr_rewrite {
    const cr_graph *from;
    cr_graph *to;
    cr_gvalue **now; /* by id in `from`: its value in `to` */
    /* Rewrites a node.  False: copies it.  True: the function has set `now` of its results, or
     * they are not read. */
    bool (*node)(cr_rewrite *w, cr_gblock *to, const cr_gnode *n);
    void *context;
    cr_session *into; /* session of the new graph; NULL: that of `from` */
};

/* Makes the new graph: inputs, the nodes in order, outputs. */
cr_graph *cr_rewrite_run(cr_rewrite *w);
/* The value in the new graph.  For cr_garg_copy, with the rewrite as its context. */
cr_gvalue *cr_rewrite_value(void *rewrite, cr_gvalue *v);
/* Appends a copy of `n` with new values. */
cr_gnode *cr_rewrite_copy(cr_rewrite *w, cr_gblock *to, const cr_gnode *n);

enum { CR_GRAPH_PART_INPUTS = 64 }; /* most tensor inputs and results of a split node */

/* --- values that must not share memory (owner.c) --- */
typedef struct {
    bool *own;  /* by value id */
    size_t end; /* index of the first node that writes */
} cr_owners;
/* False when the graph has writes other than copies to inputs and constants at its end. */
bool cr_owners_find(cr_owners *o, const cr_graph *g);
/* A result of the node is one of them. */
bool cr_owners_has(const cr_owners *o, const cr_gnode *n);
/* True when a rewrite has reached the first write; *at counts the nodes of the graph's body. */
bool cr_owners_past(const cr_owners *o, const cr_rewrite *w, const cr_gblock *to, size_t *at);

/* --- calls between ranks (overlap.c) --- */
bool cr_gnode_waits(const cr_gnode *n);
/* By value id: the own results of calls that nothing reads but one wait.  The graph's session
 * owns the array. */
const bool *cr_gwaited_find(cr_session *s, const cr_graph *g);

#endif
