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
};

/* The new graph: inputs, the nodes in order, outputs. */
cr_graph *cr_rewrite_run(cr_rewrite *w);
/* The value in the new graph; for cr_garg_copy, whose context is the rewrite. */
cr_gvalue *cr_rewrite_value(void *rewrite, cr_gvalue *v);
/* Appends a copy of `n` with new values. */
cr_gnode *cr_rewrite_copy(cr_rewrite *w, cr_gblock *to, const cr_gnode *n);

#endif
