/* aot.h - forward and backward ahead of time: one joint graph, cut in two.
 *
 * A joint graph takes the primals and then the cotangents of the outputs, and returns the
 * outputs and then the gradients.  It is recorded from a call and its backward pass
 * (graph/graph.h, with parts).  The forward graph returns the outputs and what the backward
 * graph needs of the way; which values those are decides how much memory a training step
 * holds and how much is computed twice. */
#ifndef CR_AOT_AOT_H
#define CR_AOT_AOT_H

#include "graph/graph.h"

/* The joint graph of a recorded call: the call is replayed on tensors without bytes, and its
 * backward pass recorded.
 *
 *     inputs    those of `g`, then a cotangent for every output that has a gradient
 *     outputs   those of `g`, then a gradient for every input that requires one, in order;
 *               None where no output depends on it
 *
 * An output that is an input, or an earlier output again, has no cotangent of its own.  The
 * nodes of the call come first and are the same, by name, in every joint graph of `g`. */
typedef struct {
    cr_recorder *recorder; /* owns the graph */
    cr_graph *graph;
    int cotangents;
    const bool *differentiable; /* by output of `g`: has a cotangent */
} cr_aot_joint;

/* Fails with CR_RUNTIME where the replay has gradients in other places than the recording
 * (a custom Function stands between).  `g` has no constants (cr_graph_lift). */
CR_MUST cr_status cr_aot_joint_new(cr_aot_joint *out, const cr_graph *g);
/* The same where a backward pass reaches only some outputs: the others have no cotangent, and
 * gradients that come through them alone are None, as eager has it.  By output of `g`. */
CR_MUST cr_status cr_aot_joint_of(cr_aot_joint *out, const cr_graph *g, const bool *reached);
/* The same of the call alone, under no_grad: compositions without a derivative are their parts.
 */
CR_MUST cr_status cr_aot_parts_new(cr_aot_joint *out, const cr_graph *g);
void cr_aot_joint_drop(cr_aot_joint *j);

typedef enum {
    CR_AOT_SAVE,   /* whatever the backward part reads of the forward part */
    CR_AOT_MIN_CUT /* the fewest bytes, where what is cheap may be computed again */
} cr_aot_policy;

typedef struct {
    cr_graph *forward;  /* primals -> outputs, saved values */
    cr_graph *backward; /* saved values, cotangents -> gradients */
    int saved;
    int64_t saved_bytes; /* primals not counted: they are held anyway */
    int recomputed;      /* nodes that are in both graphs */
} cr_aot_parts;

/* Cuts `joint`, whose first `primals` inputs and first `outputs` outputs are the forward
 * part's.  Both graphs are made in joint's session; cr_graph_drop gives their constants back.
 * Draws and copies back to inputs that follow from primals are in `forward` alone.  Bails with
 * CR_VALUE where an output depends on a cotangent, and with CR_RUNTIME for a graph that writes
 * otherwise than functional ones do (cr_graph_functional) or has nested blocks. */
cr_aot_parts cr_aot_partition(const cr_graph *joint, int primals, int outputs,
                              cr_aot_policy policy);

/* The backward part of `joint` for a forward part that was cut from another joint graph of the
 * same call and saves `saved` values: the first inputs of its backward part `like`, known by
 * their names.  Bails with CR_RUNTIME where they do not suffice. */
cr_graph *cr_aot_backward_like(const cr_graph *joint, int primals, int outputs,
                               const cr_graph *like, int saved);

/* A value's bytes as stated by its type; 8 where nothing is known. */
int64_t cr_gvalue_bytes(const cr_gvalue *v);
/* Computing the node again costs little beside reading its result: pointwise work, views,
 * fills - no products, reductions, sorts or random numbers. */
bool cr_gnode_is_cheap(const cr_gnode *n);

#endif
