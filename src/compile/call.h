/* call.h - a recorded call that can be made again: its forward program, and where an input
 * required a gradient the backward program behind one node of the tape. */
#ifndef CR_COMPILE_CALL_H
#define CR_COMPILE_CALL_H

#include "aot/aot.h"
#include "compile/program.h"
#include "compile/sizes.h"

/* Counted: a node of the tape may outlive the function that made it. */
typedef struct cr_compiled_call cr_compiled_call;

/* From the recording of a call (graph/graph.h) without constants (cr_graph_lift).  Its
 * session is a counted one (cr_session_new); it is kept, and the graph stays as it is.  Where
 * an input requires a gradient and `grad`, there is a backward program, too; `how` is of
 * cr_how. Fails where the gradient cannot be had. */
CR_MUST cr_status cr_compiled_call_new(cr_compiled_call **out, const cr_graph *g, bool grad,
                                       unsigned how);
cr_compiled_call *cr_compiled_call_keep(cr_compiled_call *c);
void cr_compiled_call_drop(cr_compiled_call *c);

/* Makes the programs, which a function that is called once never needs: the first run does,
 * too. After a failure one may ask again.  Any thread may ask. */
CR_MUST cr_status cr_compiled_call_make(cr_compiled_call *c);

/* input[i] borrowed, as the recording's were in dtype, sizes and strides; output[k] owned by
 * the caller, NULL for None.  On failure nothing is owned.  Several threads may call at once.
 */
CR_MUST cr_status cr_compiled_call_run(cr_compiled_call *c, cr_tensor *const *input,
                                       const cr_scalar *number, cr_tensor **output);

/* Whether what the recording asked of its numbers is so for these. */
bool cr_compiled_call_holds(cr_compiled_call *c, const cr_scalar *number);

/* --- one call for all sizes --- */
/* g[p] is the instance of `recording`, whose session is kept, for probe p of `x`, which the
 * call owns from now on.  Its programs share their steps and kernels with those of
 * cr_compiled_call_resize, and are not run themselves.  CR_VALUE where instances differ in more
 * than sizes; then `x` stays the caller's. */
CR_MUST cr_status cr_compiled_call_new_varying(cr_compiled_call **out, cr_sizes *x,
                                               const cr_graph *recording, cr_graph *const *g,
                                               bool grad, unsigned how);
/* The call for other sizes: symbol[k] is the value of number k of the recording.  CR_VALUE
 * where the steps do not serve such sizes. */
CR_MUST cr_status cr_compiled_call_resize(cr_compiled_call **out, cr_compiled_call *of,
                                          const cr_scalar *symbol);
/* Bytes that the call holds for itself. */
size_t cr_compiled_call_bytes(const cr_compiled_call *c);

/* --- calls.c: a recording with symbols --- */
/* A call for each choice of sizes that was met; those used last are kept, up to CR_SIZES_LIMIT
 * megabytes.  From the second choice on calls share one program (sizes.h), where there is one
 * for all sizes. */
typedef struct cr_compiled_calls cr_compiled_calls;
CR_MUST cr_status cr_compiled_calls_new(cr_compiled_calls **out, const cr_graph *g, bool grad,
                                        unsigned how);
void cr_compiled_calls_drop(cr_compiled_calls *c);
/* The call for such inputs and numbers, borrowed; NULL when a guard does not hold.  By one
 * thread at a time. */
CR_MUST cr_status cr_compiled_calls_find(cr_compiled_call **out, cr_compiled_calls *c,
                                         cr_tensor *const *input, const cr_scalar *number);
int cr_compiled_calls_count(const cr_compiled_calls *c);
/* Programs for all sizes that were made; bytes of all calls. */
int cr_compiled_calls_shared(const cr_compiled_calls *c);
size_t cr_compiled_calls_bytes(const cr_compiled_calls *c);
/* Processor time that the last instance of a shared program took to make. */
double cr_compiled_calls_seconds(const cr_compiled_calls *c);
/* The call that was found last, borrowed; NULL before the first. */
cr_compiled_call *cr_compiled_calls_last(const cr_compiled_calls *c);

/* The programs, borrowed; NULL while they are not made, and the backward one where there is
 * none. */
const cr_program *cr_compiled_call_forward(const cr_compiled_call *c);
const cr_program *cr_compiled_call_backward(const cr_compiled_call *c);

#endif
