/* call.h - a compiled call: the forward program of a recording and, if an input required a
 * gradient, the backward program as one node of the tape. */
#ifndef CR_COMPILE_CALL_H
#define CR_COMPILE_CALL_H

#include "aot/aot.h"
#include "compile/program.h"
#include "compile/sizes.h"

/* Reference-counted: a node of the tape may outlive the function that made it. */
typedef struct cr_compiled_call cr_compiled_call;

/* Compiles the recording of a call (graph/graph.h) without constants (cr_graph_lift).  Takes a
 * reference to its session (cr_session_new); the graph does not change.  If `grad` is set and
 * an input requires a gradient, there is a backward program, too; `how` has bits of cr_how.
 * Fails if the graph has no gradient program. */
CR_MUST cr_status cr_compiled_call_new(cr_compiled_call **out, const cr_graph *g, bool grad,
                                       unsigned how);
/* True if an input and a result of the recording that was computed require gradients. */
bool cr_compiled_wants_gradient(const cr_graph *g);
cr_compiled_call *cr_compiled_call_keep(cr_compiled_call *c);
void cr_compiled_call_drop(cr_compiled_call *c);

/* Makes the programs now; without this call the first run makes them.  It may be called again
 * after a failure.  Thread-safe. */
CR_MUST cr_status cr_compiled_call_make(cr_compiled_call *c);

/* input[i] is borrowed and has the dtype, sizes and strides of the recording; the caller owns
 * output[k], which is NULL for None.  On failure there is no output.  Thread-safe. */
CR_MUST cr_status cr_compiled_call_run(cr_compiled_call *c, cr_tensor *const *input,
                                       const cr_scalar *number, cr_tensor **output);

/* True if the recording's guards hold for these numbers. */
bool cr_compiled_call_holds(cr_compiled_call *c, const cr_scalar *number);

/* --- one call for all sizes --- */
/* Makes a call for all sizes: g[p] is the instance of `recording` for probe p of `x`.  Takes a
 * reference to the session of `recording`, and owns `x`.  It does not run itself; the calls of
 * cr_compiled_call_resize share its steps and kernels.  Fails with CR_VALUE if instances differ
 * in more than sizes; then the caller still owns `x`. */
CR_MUST cr_status cr_compiled_call_new_varying(cr_compiled_call **out, cr_sizes *x,
                                               const cr_graph *recording, cr_graph *const *g,
                                               bool grad, unsigned how);
/* Makes the call for other sizes: symbol[k] is the value of number k of the recording.  Fails
 * with CR_VALUE if the steps do not fit these sizes. */
CR_MUST cr_status cr_compiled_call_resize(cr_compiled_call **out, cr_compiled_call *of,
                                          const cr_scalar *symbol);
/* Bytes of the call itself. */
size_t cr_compiled_call_bytes(const cr_compiled_call *c);

/* --- calls.c: a recording with symbols --- */
/* One call for each choice of sizes.  The last used ones are kept, up to CR_SIZES_LIMIT
 * megabytes.  From the second choice on calls share one program (sizes.h), if there is one for
 * all sizes. */
typedef struct cr_compiled_calls cr_compiled_calls;
CR_MUST cr_status cr_compiled_calls_new(cr_compiled_calls **out, const cr_graph *g, bool grad,
                                        unsigned how);
/* Symbols may follow from others: one that was always a multiple of another, at the same
 * distance, or the product of two parameters, is no parameter. */
void cr_compiled_calls_relate(cr_compiled_calls *c);
void cr_compiled_calls_drop(cr_compiled_calls *c);
/* The call for these inputs and numbers, borrowed; NULL if a guard does not hold.  Not
 * thread-safe. */
CR_MUST cr_status cr_compiled_calls_find(cr_compiled_call **out, cr_compiled_calls *c,
                                         cr_tensor *const *input, const cr_scalar *number);
int cr_compiled_calls_count(const cr_compiled_calls *c);
/* Number of choices of sizes for which the recording has no programs. */
int cr_compiled_calls_refused(const cr_compiled_calls *c);
/* The number of programs for all sizes; bytes of all calls. */
int cr_compiled_calls_shared(const cr_compiled_calls *c);
size_t cr_compiled_calls_bytes(const cr_compiled_calls *c);
/* Processor time to make the last instance of a shared program. */
double cr_compiled_calls_seconds(const cr_compiled_calls *c);
/* The last call that was found, borrowed; NULL before the first. */
cr_compiled_call *cr_compiled_calls_last(const cr_compiled_calls *c);

/* --- undo.c: taking back a run that raised --- */
/* What a graph changes before a call that may raise by elements. */
typedef struct cr_undo_plan cr_undo_plan;
/* The caller frees *out by cr_free. */
CR_MUST cr_status cr_undo_plan_new(cr_undo_plan **out, const cr_graph *g);
/* Whether some call of the graph may raise by the elements of its arguments. */
bool cr_undo_may_raise(const cr_undo_plan *p);
/* Keeps what a run changes; *out is NULL if there is nothing to keep. */
typedef struct cr_undo cr_undo;
CR_MUST cr_status cr_undo_keep(cr_undo **out, const cr_undo_plan *p, cr_tensor *const *input);
/* Puts it back.  False if the run may have changed more: it drew numbers that are not taken
 * back, or met other ranks.  Versions of inputs tell other writes. */
bool cr_undo_all(const cr_undo *u, const cr_undo_plan *p);
void cr_undo_drop(cr_undo *u);
/* The plan of a call whose programs are made; borrowed. */
const cr_undo_plan *cr_compiled_call_undo(const cr_compiled_call *c);

/* The programs, borrowed; NULL until they are made, or if there is no backward program. */
const cr_program *cr_compiled_call_forward(const cr_compiled_call *c);
const cr_program *cr_compiled_call_backward(const cr_compiled_call *c);

#endif
