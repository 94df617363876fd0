/* passes.h - passes over graphs, in the order in which a compiled function needs them. */
#ifndef CR_SCRIPT_PASSES_H
#define CR_SCRIPT_PASSES_H

#include "script/unit.h"
#include "script/value.h"

/* All passes below.  Bails from the graph's session. */
void cr_spasses_run(cr_sgraph *g);

/* Those that a graph without calls needs again: tuples, constants, dead nodes. */
void cr_spasses_tidy(cr_sgraph *g);

/* Before a graph runs: results and gradients keep their bits, errors their text. */
void cr_spasses_prepare(cr_sgraph *g);
/* Of a frozen graph, whose equal nodes are computed once: results keep their bits. */
void cr_spasses_freeze(cr_sgraph *g);
/* The same without idle dropouts, and with batch norms, sums and products in the layers
 * before them, which changes rounding. */
void cr_spasses_optimize(cr_sgraph *g);

/* Appends the graph after the passes of passes.def whose names `passes` has, with spaces
 * between. CR_VALUE: an unknown name.  The function is compiled and stays as it is. */
CR_MUST cr_status cr_sfunction_print_after(cr_text *out, const cr_sfunction *f,
                                           const char *passes);
/* The same for a graph's text, as cr_sgraph_print writes it.  CR_VALUE: no such graph. */
CR_MUST cr_status cr_sgraph_print_after(cr_text *out, const char *text, const char *passes);

/* The types of a line's results, as cr_stype_print writes them; NULL: not known. */
typedef struct {
    int count;
    const char **type;
} cr_straced_line;

/* What a trace saw: the path of the module that was called ("__module.a/__module.a.b"), or
 * NULL; and types, of the parameters first, then of each line of the function's source behind
 * `def`. */
typedef struct {
    const char *scope;
    int count;
    cr_straced_line *line;
} cr_straced;

/* Notes in the graph of a compiled function what a trace saw, and that its text has torch's
 * order (cr_spass_unpool).  CR_VALUE: no such type. */
CR_MUST cr_status cr_sfunction_note_trace(cr_sfunction *f, const cr_straced *seen);

/* Removes RETURN, CONTINUATION and WITH nodes (exits.c). */
void cr_spass_exits(cr_sgraph *g);
/* Readers of the number of a tensor that is made of a number read the number (traced.c). */
void cr_spass_sizes(cr_sgraph *g);
/* One node for equal constants, at the start of the graph. */
void cr_spass_pool(cr_sgraph *g);
/* A constant before each node that reads it, and lists before their readers (traced.c). */
void cr_spass_unpool(cr_sgraph *g);
/* Removes nodes without effect whose results are not read, and results of blocks. */
void cr_spass_dead(cr_sgraph *g);
/* Computes nodes whose arguments are constants of types that cannot be changed (fold.c). */
void cr_spass_fold(cr_sgraph *g);
/* The same, but nodes that were not read before go only where something is computed. */
void cr_spass_propagate(cr_sgraph *g);

/* Equal nodes are computed once; `numbers` leaves nodes that make tensors, whose gradients
 * would be added in another order (common.c). */
void cr_spass_common(cr_sgraph *g);
void cr_spass_common_numbers(cr_sgraph *g);
/* Gives operators that have two names the one that graphs of torch have (normal.c). */
void cr_spass_normal(cr_sgraph *g);
/* Constant tensors without dims become the numbers of overloads that take them (wrapped.c). */
void cr_spass_wrapped(cr_sgraph *g);
/* Nodes whose result is an argument, an item, a constant or a simpler node (peephole.c). */
void cr_spass_peephole(cr_sgraph *g);
/* Lists are made with the items that are appended, inserted and set (lists.c). */
void cr_spass_lists(cr_sgraph *g);
/* Loops of at most 8 iterations with at most 32 nodes become their bodies (unroll.c). */
void cr_spass_unroll(cr_sgraph *g);
/* Tensors that are computed of constants alone are constants (known.c). */
void cr_spass_known(cr_sgraph *g);
/* `detach` of values that nothing changes goes, as in torch: gradients pass (optimize.c). */
void cr_spass_detached(cr_sgraph *g);
/* Dropouts that do nothing go (optimize.c). */
void cr_spass_dropouts(cr_sgraph *g);
/* Batch norms, and sums and products with constants, join the convolutions before them, norms
 * also linear layers; `layers` does both, in the order of the nodes (optimize.c). */
void cr_spass_norms(cr_sgraph *g);
void cr_spass_terms(cr_sgraph *g);
void cr_spass_layers(cr_sgraph *g);

/* The constant of a value, in the session; false for kinds that can change or that constants
 * lack. */
bool cr_sconstant_of(cr_session *s, const cr_ivalue *v, cr_sconstant *out);
/* The constant with the items that a live value has now, in the session (freeze.c). */
const cr_sconstant *cr_sconstant_now(cr_session *s, const cr_sconstant *c);

/* What kind of loop this is: printed as `for`, as `while`, or neither. */
typedef enum { CR_SLOOP_FOR, CR_SLOOP_WHILE, CR_SLOOP_BOTH } cr_sloop_kind;
cr_sloop_kind cr_sloop_kind_of(const cr_snode *loop);

#endif
