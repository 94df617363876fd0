/* flow.h - minimum cuts.  For files of aot/ only. */
#ifndef CR_AOT_FLOW_H
#define CR_AOT_FLOW_H

#include "sym/session.h"

enum { CR_FLOW_SOURCE, CR_FLOW_SINK, CR_FLOW_FIRST };
#define CR_FLOW_MUCH (INT64_MAX / 4)

typedef struct cr_flow cr_flow;

/* A network of `points` points, which include the source and the sink. */
cr_flow *cr_flow_new(cr_session *s, int points);
void cr_flow_edge(cr_flow *f, int from, int to, int64_t capacity);
/* Finds a minimum cut by Dinic's method (1970) and returns its capacity.  side[p] is true when
 * p is on the source's side.  Of several minimum cuts, the one nearest the sink is
 * chosen: what lies behind it is computed again. */
int64_t cr_flow_cut(cr_flow *f, bool *side);

#endif
