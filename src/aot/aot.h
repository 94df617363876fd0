/* aot.h - joint graphs of a forward and a backward pass, and their partition into two graphs.
 *
 * A joint graph takes the primals and then the cotangents of the outputs.  It returns the
 * outputs and then the gradients.  It is recorded from a call and its backward pass
 * (graph/graph.h).  The partition gives a forward graph, which returns the outputs and saved
 * values, and a backward graph, which reads the saved values.  The choice of saved values
 * decides how much memory a training step holds and how much it recomputes. */
#ifndef CR_AOT_AOT_H
#define CR_AOT_AOT_H

#include "graph/graph.h"

/* The joint graph of a recorded call `g`.  It is recorded while the call is replayed on meta
 * tensors and its backward pass runs.
 *
 *     inputs    those of `g`, then a cotangent for every output that has a gradient
 *     outputs   those of `g`, then a gradient for every input that requires one, in order;
 *               None where no output depends on the input
 *
 * An output that equals an input or an earlier output has no cotangent.  The nodes of the call
 * come first and have the same names in every joint graph of `g`. */
typedef struct {
    cr_recorder *recorder; /* owns the graph */
    cr_graph *graph;
    int cotangents;
    const bool *differentiable; /* one per output of `g`: true when it has a cotangent */
} cr_aot_joint;

/* Makes a joint graph; cr_aot_joint_drop releases it.  Fails with CR_RUNTIME when other outputs
 * require gradients in the replay than in the recorded call (a custom Function can cause
 * this).  `g` must have no constants (cr_graph_lift). */
CR_MUST cr_status cr_aot_joint_new(cr_aot_joint *out, const cr_graph *g);
/* As cr_aot_joint_new, for a backward pass that reaches only the outputs k with reached[k].
 * Other outputs have no cotangent, and a gradient that flows only through them is None, as in
 * eager mode.  stride[k]: the strides of a cotangent; with NULL for all or for one, it has its
 * output's layout. */
CR_MUST cr_status cr_aot_joint_of(cr_aot_joint *out, const cr_graph *g, const bool *reached,
                                  const int64_t *const *stride);
/* Records the call alone, under no_grad, so that compositions without a derivative become their
 * parts. */
CR_MUST cr_status cr_aot_parts_new(cr_aot_joint *out, const cr_graph *g);
void cr_aot_joint_drop(cr_aot_joint *j);

typedef enum {
    CR_AOT_SAVE,   /* every forward value that the backward graph reads */
    CR_AOT_MIN_CUT /* fewest bytes; cheap nodes may be recomputed */
} cr_aot_policy;

typedef struct {
    cr_graph *forward;  /* primals -> outputs, saved values */
    cr_graph *backward; /* saved values, cotangents -> gradients */
    int saved;
    int64_t saved_bytes; /* without primals, which the caller holds anyway */
    int recomputed;      /* nodes that are in both graphs */
} cr_aot_parts;

/* Partitions `joint`.  Its first `primals` inputs and first `outputs` outputs belong to the
 * forward graph.  Both graphs are made in joint's session; drop their constants with
 * cr_graph_drop.  Random draws and copies back to inputs that depend on primals alone are only
 * in `forward`.  Bails with CR_VALUE when an output depends on a cotangent.  Bails with
 * CR_RUNTIME when the graph has nested blocks or writes that a functional graph
 * (cr_graph_functional) does not have. */
cr_aot_parts cr_aot_partition(const cr_graph *joint, int primals, int outputs,
                              cr_aot_policy policy);

/* The same partition of another joint graph, which differs in sizes: it saves the values of the
 * same names.  Bails with CR_RUNTIME when they are not sufficient. */
cr_aot_parts cr_aot_partition_like(const cr_graph *joint, int primals, int outputs,
                                   const cr_aot_parts *like);

/* The backward graph of `joint`, which reaches some outputs, for an existing forward graph:
 * that of `whole`, the joint graph of the same call that reaches all outputs.  `like` is the
 * backward graph of `whole`, by whose names its first `saved` inputs, the saved values, are
 * found.  The result has the same saved values as inputs, with types in whole's session, and
 * reads those that it needs.  Bails with CR_RUNTIME when they are not sufficient. */
cr_graph *cr_aot_backward_like(const cr_graph *joint, const cr_graph *whole, int primals,
                               int outputs, const cr_graph *like, int saved);

#endif
