/* shape.h - shape rules that entries name in `shape extern` clauses.
 *
 * arg[i] is the schema's i-th argument as the user gave it; tensors are CR_VIEW (data may be
 * NULL).  A rule refuses wrong arguments, wrong dtypes too, in torch's words before anything is
 * allocated.  It fills one cr_shape for each result. */
#ifndef CR_OPS_SHAPE_H
#define CR_OPS_SHAPE_H

#include "functions_shape.h"

/* Set by rules whose result sizes depend on the values of elements.  A graph of known sizes
 * cannot contain their operators. */
extern CR_THREAD bool cr_sizes_of_values;

#endif
