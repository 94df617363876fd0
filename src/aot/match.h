/* match.h - values of one joint graph in another one of the same call. */
#ifndef CR_AOT_MATCH_H
#define CR_AOT_MATCH_H

#include "graph/graph.h"

/* found[id of a value of `joint`]: the index of the value of `other` that is equal, because the
 * same calls compute it from the first `primals` inputs; -1: there is none.  `other` may be in
 * another session. */
void cr_aot_match(int *found, const cr_graph *joint, const cr_graph *other, int primals,
                  cr_gvalue *const *value, int count);

#endif
