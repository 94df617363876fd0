/* shape.h - shape rules that entries name in `shape extern` clauses.
 *
 * arg[i] is the schema's i-th argument as the user gave it, tensors as CR_VIEW
 * (data may be NULL).  A rule refuses wrong arguments in torch's words (dtypes
 * too, before anything is allocated) and fills one cr_shape a result. */
#ifndef CR_OPS_SHAPE_H
#define CR_OPS_SHAPE_H

#include "functions_shape.h"

/* Set by rules whose results' sizes follow from elements: no graph of known sizes can have them. */
extern CR_THREAD bool cr_sizes_of_values;

#endif
