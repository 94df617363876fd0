/* alias.h - which values of a graph may share memory, and who changes it. */
#ifndef CR_SCRIPT_ALIAS_H
#define CR_SCRIPT_ALIAS_H

#include "script/ir.h"

typedef struct cr_salias cr_salias;

/* The facts of a graph, in its session.  They stay true when nodes are removed, and when a
 * value is read in place of one that shared its memory.  Of values that are made later nothing
 * is known. */
cr_salias *cr_salias_find(cr_sgraph *g);
/* Whether a node of the graph may change the value, or memory that it shares. */
bool cr_salias_is_changed(const cr_salias *a, const cr_svalue *v);
/* Whether code outside of the graph may have or get the value, or memory that it shares. */
bool cr_salias_escapes(const cr_salias *a, const cr_svalue *v);
/* The readers of both values will read one of them. */
void cr_salias_join(cr_salias *a, const cr_svalue *x, const cr_svalue *y);
/* Whether the graph calls code, or changes modes, so that equal calls may differ. */
bool cr_salias_has_calls(const cr_salias *a);
/* Whether the value is a list that a node makes, and that is only read: no node changes it,
 * stores it or returns it. */
bool cr_salias_is_fixed_list(const cr_salias *a, const cr_svalue *v);
/* Whether the node does no more with its input `i`, a list, than to read items. */
bool cr_snode_reads_list(const cr_snode *n, int i);
/* Whether values of the type can be changed, or have memory that can. */
bool cr_stype_can_change(const cr_stype *t);
/* Whether the type is a tensor, or has one among its items. */
bool cr_stype_holds_tensors(const cr_stype *t);

#endif
