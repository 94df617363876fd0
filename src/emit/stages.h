/* stages.h - loops of costly functions that depend on one another (C with vector
 * extensions). */
#ifndef CR_EMIT_STAGES_H
#define CR_EMIT_STAGES_H

#include "emit/dialect.h"

/* Prints the loop over columns from j to `end`, an expression, of a sweep without reductions
 * whose results need several costly functions one after another.  Prints nothing and returns
 * false for others. */
bool cr_print_stages(cr_printer *p, const char *end);

#endif
