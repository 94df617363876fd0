/* compile.h - from a graph to fused code.
 *
 *     recorded graph --group--> graph with groups --code--> the same, with code in its groups
 *
 * A group is a set of pointwise nodes, reductions of rows and views over one space of rows and
 * columns that is computed in one nest of sweeps: by tiles at once, by native code as soon as
 * it is there (jit/fused.h), with the bits of the nodes called one by one.  Everything else
 * stays a call. */
#ifndef CR_COMPILE_COMPILE_H
#define CR_COMPILE_COMPILE_H

#include "compile/how.h"
#include "graph/graph.h"
#include "jit/fused.h"
#include <string.h>

/* The graph with nodes gathered into groups of at least two, in g's session.  Types have to be
 * known; a node without them stays a call. */
cr_graph *cr_compile_group(const cr_graph *g);

/* Batch norm by given statistics as its parts, with what belongs to the channels apart from the
 * elements, in g's session; g itself when there is none. */
cr_graph *cr_compile_norms(const cr_graph *g);

/* The groups' code.  It belongs to the graph's owner: drop it before the graph. */
typedef struct cr_compiled cr_compiled;
/* Gives every group of `g` code; a group that cannot have any keeps calling its nodes, and the
 * log (CR_LOG=fusion) says why.  `how` is of cr_how. */
CR_MUST cr_status cr_compile_code(cr_compiled **out, cr_graph *g, unsigned how);
void cr_compiled_drop(cr_compiled *c);

/* The same of a graph whose sizes vary (graph.h: cr_gsizes): code for the sizes that it has,
 * which cr_compiled_resize lays out again for others.  Groups that are alike for all sizes are
 * one source of code. */
CR_MUST cr_status cr_compile_code_for_all_sizes(cr_compiled **out, cr_graph *g, unsigned how);
int cr_compiled_sources(const cr_compiled *c);
/* Which source a group's code is of. */
int cr_gcode_source(const cr_gcode *code);
/* The code of every source for the sizes that the graph has now; `kept` gives types that live
 * as long as the code, which is not the graph's.  CR_VALUE where a group needs another kernel.
 */
typedef struct {
    const cr_gtype *(*of)(void *context, const cr_gvalue *v);
    void *context;
} cr_kept_types;
CR_MUST cr_status cr_compiled_resize(cr_compiled **out, cr_compiled *of, const cr_graph *g,
                                     unsigned how, const cr_kept_types *kept);
/* The code of source k. */
const cr_gcode *cr_compiled_code(const cr_compiled *c, int k);
int cr_compiled_groups(const cr_compiled *c);
/* How many programs had to be built: equal groups share one, across graphs. */
int cr_compiled_built(const cr_compiled *c);
/* Bytes of the groups' code, kernels left out. */
size_t cr_compiled_bytes(const cr_compiled *c);
/* The fused program of group k, borrowed. */
const cr_fused *cr_compiled_fused(const cr_compiled *c, int k);

/* --- for people: show.c, picture.c --- */

/* Logs the text of `g` under its title. */
void cr_show_graph(const char *topic, const char *title, const cr_graph *g);
/* The C of a group's code after a list of its operators, with the lines of the program that
 * called them.  (The lines are no part of the C itself: equal groups of different lines are one
 * kernel.) */
void cr_show_code(cr_text *out, const cr_gnode *group, const cr_fused *f);
/* Logs that (CR_LOG=code). */
void cr_show_group(const cr_gnode *group, const cr_fused *f);

/* Appends graphs, one below the other, as an SVG picture: groups with their operators, calls,
 * views, and edges with sizes. */
typedef struct {
    const char *title;
    const cr_graph *graph;
} cr_picture_part;
CR_MUST cr_status cr_picture(cr_text *out, const cr_picture_part *part, int parts);

/* CR_RUNTIME: `t` came for `v`, and `owner` ("its group") was made for another tensor. */
cr_status cr_refuse_tensor(const cr_gvalue *v, const cr_tensor *t, const char *owner);
/* Along dimensions of more than one element. */
bool cr_tensor_has_strides(const cr_tensor *t, const int64_t *stride);
/* The sizes of a type that is known, its dtype and device. */
static inline bool cr_tensor_has_sizes(const cr_tensor *t, const cr_gtype *type)
{
    return t->dtype == type->dtype && t->ndim == type->ndim &&
           cr_same_device(t->device, type->device) &&
           !memcmp(t->size, type->size, type->ndim * sizeof *type->size);
}
/* Its strides, where they matter. */
static inline bool cr_tensor_lies_so(const cr_tensor *t, const cr_gtype *type)
{
    return type->stride ? !t->numel || cr_tensor_has_strides(t, type->stride) : t->contiguous;
}
/* What a run asks of a tensor. */
static inline bool cr_tensor_is_of(const cr_tensor *t, const cr_gtype *type)
{
    return !type->known || (cr_tensor_has_sizes(t, type) && cr_tensor_lies_so(t, type));
}

#endif
