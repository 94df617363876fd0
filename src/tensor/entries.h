/* entries.h - functions that operator entries name in `map` clauses.
 *
 * A map function makes a view's geometry from that of self. arg are the entry's arguments, self
 * is arg[0], and out->offset counts from self's first element. */
#ifndef CR_TENSOR_ENTRIES_H
#define CR_TENSOR_ENTRIES_H

#include "functions_map.h"
#include "tensor/tensor.h"
#endif
