/* flow.h - a minimum cut; inside aot/ only. */
#ifndef CR_AOT_FLOW_H
#define CR_AOT_FLOW_H

#include "sym/session.h"

enum { CR_FLOW_SOURCE, CR_FLOW_SINK, CR_FLOW_FIRST };
#define CR_FLOW_MUCH (INT64_MAX / 4)

typedef struct cr_flow cr_flow;

/* A network of `points`, the source and the sink among them. */
cr_flow *cr_flow_new(cr_session *s, int points);
void cr_flow_edge(cr_flow *f, int from, int to, int64_t capacity);
/* Dinic's method (1970).  side[p]: p is on the source's side of a cut of least capacity, the
 * one nearest the source.  Returns that capacity. */
int64_t cr_flow_cut(cr_flow *f, bool *side);

#endif
