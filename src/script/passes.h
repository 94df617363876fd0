/* passes.h - passes over graphs, in the order in which a compiled function needs them. */
#ifndef CR_SCRIPT_PASSES_H
#define CR_SCRIPT_PASSES_H

#include "script/unit.h"
#include "script/value.h"

/* All passes below.  Bails from the graph's session. */
void cr_spasses_run(cr_sgraph *g);

/* Those that a graph without calls needs again: tuples, constants, dead nodes. */
void cr_spasses_tidy(cr_sgraph *g);

/* Removes RETURN, CONTINUATION and WITH nodes (exits.c). */
void cr_spass_exits(cr_sgraph *g);
/* Removes nodes without effect whose results are not read, and results of blocks. */
void cr_spass_dead(cr_sgraph *g);
/* Computes nodes whose arguments are constants of types that cannot be changed (fold.c). */
void cr_spass_fold(cr_sgraph *g);

/* The constant of a value, in the session; false for kinds that can change or that constants
 * lack. */
bool cr_sconstant_of(cr_session *s, const cr_ivalue *v, cr_sconstant *out);

/* What kind of loop this is: printed as `for`, as `while`, or neither. */
typedef enum { CR_SLOOP_FOR, CR_SLOOP_WHILE, CR_SLOOP_BOTH } cr_sloop_kind;
cr_sloop_kind cr_sloop_kind_of(const cr_snode *loop);

#endif
