/* commands.h - graphs as plans of commands (plan/plan.h). */
#ifndef CR_COMPILE_COMMANDS_H
#define CR_COMPILE_COMMANDS_H

#include "graph/graph.h"
#include "jit/oracle.h"

/* Collects the commands of a run of the graph, in an empty plan: its inputs, on the host, give
 * sizes and layouts, and values where an operator reads elements.  Outputs that are None are
 * left out, and so are commands whose results nothing reads.  The caller drops the plan, also
 * on failure. */
CR_MUST cr_status cr_graph_plan(cr_plan *out, const cr_graph *g, cr_tensor *const *input);
/* The same with the groups of a program for devices: each is one command KERNEL. */
CR_MUST cr_status cr_graph_group_plan(cr_plan *out, const cr_graph *g, cr_tensor *const *input);
/* As cr_graph_plan, for a file that the commands are written to: products with factors are
 * products, multiplications and sums (factors.c), whose last bits may differ. */
CR_MUST cr_status cr_graph_file_plan(cr_plan *out, const cr_graph *g, cr_tensor *const *input);

#endif
