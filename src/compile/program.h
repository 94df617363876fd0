/* program.h - a graph compiled to a program that runs many times.
 *
 *     graph --passes--> graph --group, code--> graph with groups --steps, plan--> program
 *
 * A program is a flat list of steps with prepared arguments; every tensor has a slot and a step
 * at which it is freed.  A run calls the kernels directly, without autograd, autocast and
 * recording.  The sizes are those of the graph. */
#ifndef CR_COMPILE_PROGRAM_H
#define CR_COMPILE_PROGRAM_H

#include "compile/how.h"
#include "graph/graph.h"

typedef struct cr_program cr_program;

/* Makes the program of a recorded graph, after the passes dead, common, fold and simplify, with
 * its pointwise nodes in groups; `how` has bits of cr_how.  `g` is borrowed during the call.
 * The caller owns *out. */
CR_MUST cr_status cr_program_new(cr_program **out, const cr_graph *g, unsigned how);
/* Makes one program for all sizes: g[p] is the graph of a recording for probe p of `x`.  Fails
 * with CR_VALUE if the graphs differ in more than numbers, or the steps in more than sizes.
 * The program itself does not run: cr_program_resize makes programs that share its steps and
 * kernels and have separate sizes, strides and offsets, for given numbers of `x`
 * (cr_sizes_evaluate). */
struct cr_sizes;
CR_MUST cr_status cr_program_new_varying(cr_program **out, struct cr_sizes *x,
                                         cr_graph *const *g, unsigned how);
CR_MUST cr_status cr_program_resize(cr_program **out, cr_program *of, const cr_scalar *value);
/* True if output k of `from` has the type of input i of `p`; both programs are from
 * cr_program_resize. */
bool cr_program_takes(const cr_program *p, int i, const cr_program *from, int k);
/* Makes a program that calls the nodes of `g` one at a time, without passes and groups; `g`
 * must outlive the program. */
CR_MUST cr_status cr_program_of_calls(cr_program **out, const cr_graph *g);
cr_program *cr_program_keep(cr_program *p);
void cr_program_drop(cr_program *p);
/* The number of programs that this process has made; cr_program_resize does not count. */
int64_t cr_programs_made(void);
/* Bytes of the program itself, without tensors and kernels. */
size_t cr_program_bytes(const cr_program *p);

/* input[i] is borrowed; the caller owns output[k], which is NULL for None.  On failure there is
 * no output, but tensors that the graph has already written stay written.  No gradient is
 * recorded.  Several threads may run a program at once.  `number`: the value of each number of
 * the graph (cr_gnum_evaluate); NULL if it has none.  Fails with CR_RUNTIME if an input does
 * not have the type in the graph. */
CR_MUST cr_status cr_program_run(cr_program *p, cr_tensor *const *input,
                                 const cr_scalar *number, cr_tensor **output);

/* Takes outputs while a run goes on: output k, which no later step reads, comes to `give` in
 * the state of the thread that the caller of the run had.  `give` may take the reference and
 * set it to NULL; then output[k] is NULL after the run. */
typedef struct {
    cr_status (*give)(void *context, uint32_t k, cr_tensor **t);
    void *context;
} cr_program_taker;

/* Like cr_program_run, for a graph without numbers, but the run takes the references of inputs:
 * it drops each after its last reader and sets it to NULL.  Inputs that are not NULL afterwards
 * still belong to the caller.  `taker` may be NULL. */
CR_MUST cr_status cr_program_consume(cr_program *p, cr_tensor **input, cr_tensor **output,
                                     const cr_program_taker *taker);

int cr_program_inputs(const cr_program *p);
/* The type that input i must have. */
const cr_gtype *cr_program_input_type(const cr_program *p, int i);
int cr_program_outputs(const cr_program *p);
/* The most bytes that tensors of the program, including outputs, have at one time; without
 * temporary memory of operators, and without values of unknown type. */
int64_t cr_program_peak(const cr_program *p);
/* Appends the steps, with the values that each frees and reuses, and the peak. */
void cr_program_print(cr_text *out, const cr_program *p);
/* Appends the C code of the groups, each after a list of its operators and their source
 * lines. */
void cr_program_code(cr_text *out, const cr_program *p);

/* The number of groups with code. cr_program_wait waits until all have native code, for at most
 * `seconds`, and returns how many do. */
int cr_program_groups(const cr_program *p);
int cr_program_wait(const cr_program *p, double seconds);
/* Whether no group's ways are measured any more. */
bool cr_program_is_tuned(const cr_program *p);
/* The graph that runs, with groups; borrowed. */
const cr_graph *cr_program_graph(const cr_program *p);

#endif
