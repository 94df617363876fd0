/* compile.h - from a graph to fused code.
 *
 *     recorded graph --group--> graph with groups --code--> the same, with code in its groups
 *
 * A group is a set of pointwise nodes, reductions of rows and views over one space of rows and
 * columns.  One nest of sweeps computes it: tiles at first, native code as soon as it is
 * compiled (jit/fused.h), with the same bits as separate calls of the nodes.  All other nodes
 * stay calls. */
#ifndef CR_COMPILE_COMPILE_H
#define CR_COMPILE_COMPILE_H

#include "compile/how.h"
#include "graph/graph.h"
#include "jit/fused.h"
#include <string.h>

/* The graph with groups of at least two nodes, in g's session.  A node without known types
 * stays a call. */
cr_graph *cr_compile_group(const cr_graph *g);

/* Replaces batch norm with given statistics by its parts, in g's session; operands with one
 * value for each channel stay vectors.  Returns g itself if it has no such batch norm. */
cr_graph *cr_compile_norms(const cr_graph *g);

/* Joins batch norm on devices with a relu behind it, and their gradients, in g's session; bits
 * stay.  A joint graph shows more of these than its parts.  Returns g itself if it has none. */
cr_graph *cr_compile_norm_relu(const cr_graph *g);

/* Stores gradients of attention on devices where a node concatenates them, in g's session.
 * Returns g itself if there are none. */
cr_graph *cr_compile_heads(const cr_graph *g);

/* Moves elementwise nodes on devices beside others that read the same value, in g's session.
 * Returns g itself if none moves. */
cr_graph *cr_compile_beside(const cr_graph *g);

/* Replaces compositions of reads by the reads, in g's session, so that groups can read the
 * results part by part.  Returns g itself if it has no such composition. */
cr_graph *cr_compile_reads(const cr_graph *g);

/* The code of a graph's groups.  Drop it before the graph. */
typedef struct cr_compiled cr_compiled;
/* Makes code for every group of `g`.  A group without code calls its nodes, and the log
 * (CR_LOG=fusion) has the reason.  `how` has bits of cr_how. */
CR_MUST cr_status cr_compile_code(cr_compiled **out, cr_graph *g, unsigned how);
/* Registers the handlers of forks that take the locks of code and of its kernels, unless they
 * are. */
void cr_groups_watch_forks(void);
void cr_compiled_drop(cr_compiled *c);

/* Like cr_compile_code, for a graph whose sizes vary (graph.h: cr_gsizes).  The code is for the
 * present sizes; cr_compiled_resize makes the layouts for others.  Groups that are alike for
 * all sizes have one source. */
CR_MUST cr_status cr_compile_code_for_all_sizes(cr_compiled **out, cr_graph *g, unsigned how);
int cr_compiled_sources(const cr_compiled *c);
/* The number of the source of a group's code. */
int cr_gcode_source(const cr_gcode *code);
/* Makes the code of every source for the present sizes of the graph.  `kept` returns types that
 * live as long as the code, because the graph's sizes change.  Fails with CR_VALUE if a group
 * needs another kernel. */
typedef struct {
    const cr_gtype *(*of)(void *context, const cr_gvalue *v);
    void *context;
} cr_kept_types;
CR_MUST cr_status cr_compiled_resize(cr_compiled **out, cr_compiled *of, const cr_graph *g,
                                     unsigned how, const cr_kept_types *kept);
/* The code of source k. */
const cr_gcode *cr_compiled_code(const cr_compiled *c, int k);
int cr_compiled_groups(const cr_compiled *c);
/* Whether no group's ways are measured any more. */
bool cr_compiled_is_tuned(const cr_compiled *c);
/* The number of programs that were built; equal groups share one, across graphs. */
int cr_compiled_built(const cr_compiled *c);
/* Bytes of the groups' code, without kernels. */
size_t cr_compiled_bytes(const cr_compiled *c);
/* The fused program of group k, borrowed. */
const cr_fused *cr_compiled_fused(const cr_compiled *c, int k);

/* --- inspection: show.c --- */

/* Logs the text of `g` with a title. */
void cr_show_graph(const char *topic, const char *title, const cr_graph *g);
/* Appends the C code of a group after a list of its operators with their source lines.  (The
 * lines are not in the C code itself: equal groups from different lines share one kernel.) */
void cr_show_code(cr_text *out, const cr_gnode *group, const cr_fused *f);
/* Logs this text (CR_LOG=code). */
void cr_show_group(const cr_gnode *group, const cr_fused *f);

/* Fails with CR_RUNTIME: `t` does not have the type of `v` for which `owner` ("its group") was
 * made. */
cr_status cr_refuse_tensor(const cr_gvalue *v, const cr_tensor *t, const char *owner);
/* True if `t` has these strides in dims of more than one element. */
bool cr_tensor_has_strides(const cr_tensor *t, const int64_t *stride);
/* True if `t` has the sizes, dtype and device of a known type. */
static inline bool cr_tensor_has_sizes(const cr_tensor *t, const cr_gtype *type)
{
    return t->dtype == type->dtype && t->ndim == type->ndim &&
           cr_same_device(t->device, type->device) &&
           !memcmp(t->size, type->size, type->ndim * sizeof *type->size);
}
/* True if `t` has the type's strides in dims of more than one element. */
static inline bool cr_tensor_lies_so(const cr_tensor *t, const cr_gtype *type)
{
    return type->stride ? !t->numel || cr_tensor_has_strides(t, type->stride) : t->contiguous;
}
/* True if `t` has the type, as far as it is known. */
static inline bool cr_tensor_is_of(const cr_tensor *t, const cr_gtype *type)
{
    return !type->known || (cr_tensor_has_sizes(t, type) && cr_tensor_lies_so(t, type));
}

/* --- deferred calls (defer.c) --- */
/* From now on flushes of equal traces (tensor/defer.h) run programs.  A program is made when
 * its trace is flushed the second time, or the first time if `at_first_sight` is set. */
void cr_defer_use_programs(bool at_first_sight);

/* --- calls of TorchScript (scripted.c) --- */
/* From now on cr_scripted_set_mode decides whether equal calls of functions run programs; they
 * do not before it is called. */
void cr_scripted_start(void);
/* Whether calls run programs: never, where these are faster, or from the second equal call on
 * whenever there is one.  Returns the mode before. */
enum { CR_SCRIPTED_SHARED = -1, CR_SCRIPTED_OFF, CR_SCRIPTED_MEASURED, CR_SCRIPTED_ALWAYS };
int cr_scripted_set_mode(int mode);
/* The same for the calls of this thread; CR_SCRIPTED_SHARED is what cr_scripted_set_mode
 * says. */
int cr_scripted_set_mode_here(int mode);
/* Appends the programs of a function: the times of a call either way, and the graph with its
 * groups. */
struct cr_sfunction;
CR_MUST cr_status cr_scripted_print(cr_text *out, struct cr_sfunction *f);

#endif
