/* inline.h - graphs without calls of functions and methods whose graphs are known. */
#ifndef CR_SCRIPT_INLINE_H
#define CR_SCRIPT_INLINE_H

#include "script/unit.h"

/* A copy of the function's graph, in the session, in which calls are the graphs of the callees,
 * and so on inside.  The function is compiled. */
cr_sgraph *cr_sgraph_inlined(cr_session *s, const cr_sfunction *f);
/* Calls of the graph become the graphs of the callees, and so on inside. */
void cr_spass_inline(cr_sgraph *g);
/* The same, for graphs that are shown: calls of operators that the table lacks stay. */
void cr_spass_inline_shown(cr_sgraph *g);
/* The same for calls of former meanings of operators, with the places of the calls, as torch
 * does when it reads an older archive.  False: the graph has none. */
bool cr_spass_inline_former(cr_sgraph *g);

#endif
