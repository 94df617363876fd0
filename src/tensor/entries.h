/* entries.h - functions that operator entries name in `map` and `whole` clauses.
 *
 * A map turns a view's geometry into another's; arg is as the entry was called, self is
 * arg[0], and out->offset counts from self's first element.  A whole function does all of
 * an entry: arg is borrowed, results are owned by the caller, fakes are not touched. */
#ifndef CR_TENSOR_ENTRIES_H
#define CR_TENSOR_ENTRIES_H

#include "functions_map.h"
#include "functions_whole.h"
#include "tensor/tensor.h"
#endif
