/* program.h - a graph as a program that runs often.
 *
 *     graph --passes--> graph --group, code--> graph with groups --steps, plan--> program
 *
 * A program is a flat list of steps that is made once: arguments are laid out, every tensor has
 * a place, and where it dies is known.  Running it goes straight to the kernels, past autograd,
 * autocast and recording.  Its sizes are those that the graph states. */
#ifndef CR_COMPILE_PROGRAM_H
#define CR_COMPILE_PROGRAM_H

#include "compile/how.h"
#include "graph/graph.h"

typedef struct cr_program cr_program;

/* The program of a recorded graph, after the passes dead, common, fold and simplify, with its
 * pointwise nodes in groups; `how` is of cr_how.  `g` is borrowed until it returns.  The caller
 * owns *out. */
CR_MUST cr_status cr_program_new(cr_program **out, const cr_graph *g, unsigned how);
/* One program for all sizes: g[p] is the graph of a recording for probe p of `x`.  Fails with
 * CR_VALUE where they differ in more than numbers, or the steps in more than sizes.  It is not
 * run itself: cr_program_resize makes programs that share its steps and kernels and have sizes,
 * strides and offsets of their own, for these numbers of `x` (cr_sizes_evaluate). */
struct cr_sizes;
CR_MUST cr_status cr_program_new_varying(cr_program **out, struct cr_sizes *x,
                                         cr_graph *const *g, unsigned how);
CR_MUST cr_status cr_program_resize(cr_program **out, cr_program *of, const cr_scalar *value);
/* Whether output k of `from` may be input i of `p`; both are for other sizes. */
bool cr_program_takes(const cr_program *p, int i, const cr_program *from, int k);
/* Its nodes as the calls they are, without passes and groups; `g` must outlive the program. */
CR_MUST cr_status cr_program_of_calls(cr_program **out, const cr_graph *g);
cr_program *cr_program_keep(cr_program *p);
void cr_program_drop(cr_program *p);
/* How many programs this process has made; those of other sizes (cr_program_resize) are none.
 */
int64_t cr_programs_made(void);
/* Bytes that the program holds for itself. */
size_t cr_program_bytes(const cr_program *p);

/* input[i] is borrowed; output[k] is owned by the caller, NULL for None.  Nothing is owned on
 * failure; what the graph had written until then stays written.  No gradient is recorded.  May
 * be called by several threads at once.  `number`: values of the graph's numbers, one for each
 * (cr_gnum_evaluate); NULL where it has none.  CR_RUNTIME when an input is not of the type that
 * the graph states. */
CR_MUST cr_status cr_program_run(cr_program *p, cr_tensor *const *input,
                                 const cr_scalar *number, cr_tensor **output);

/* The same of a graph without numbers; counts of inputs are the run's: each is dropped once
 * nothing reads it any more, and NULL then.  What is not NULL afterwards stays the caller's. */
CR_MUST cr_status cr_program_consume(cr_program *p, cr_tensor **input, cr_tensor **output);

int cr_program_inputs(const cr_program *p);
int cr_program_outputs(const cr_program *p);
/* The most bytes that tensors made by the program, outputs among them, hold at one time; what
 * operators need while they run is not in it.  A value of unknown type counts nothing. */
int64_t cr_program_peak(const cr_program *p);
/* Steps, what dies where, whose bytes are reused, and the peak. */
void cr_program_print(cr_text *out, const cr_program *p);
/* The C of its groups, each after a list of its operators and their lines. */
void cr_program_code(cr_text *out, const cr_program *p);

/* Groups that have code, and how many of them have native code when all have it or `seconds`
 * are over. */
int cr_program_groups(const cr_program *p);
int cr_program_wait(const cr_program *p, double seconds);
/* The graph that is run, groups included; borrowed. */
const cr_graph *cr_program_graph(const cr_program *p);

#endif
