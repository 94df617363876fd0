/* again.h - whether gradients of a call were differentiated again.
 *
 * A program of a compiled function computes gradients that have no history.  Calls whose nodes
 * a backward pass with create_graph=True has run must therefore make plain nodes. */
#ifndef CR_AUTOGRAD_AGAIN_H
#define CR_AUTOGRAD_AGAIN_H

#include <stdbool.h>
#include <stdint.h>

/* Watches the thread's nodes from `from` up to but without `to` (cr_node_next_sequence) for
 * `owner`.  The newest 256 such ranges are kept. */
void cr_again_watch(uint64_t owner, uint64_t from, uint64_t to);
/* Notes that a backward pass with create_graph=True runs the node. */
void cr_again_ran(uint64_t sequence);
/* Whether such a pass ran a watched node of the owner.  *seen is the owner's, 0 at first: as
 * long as no further node was met, the answer costs a comparison. */
bool cr_again_met(uint64_t owner, uint64_t *seen);

#endif
