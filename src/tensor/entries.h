/* entries.h - functions that operator entries name in `map` and `whole` clauses.
 *
 * A map turns a view's geometry into another's; arg is as the entry was called, self is
 * arg[0], and out->offset counts from self's first element.  A whole function does all of
 * an entry: arg is borrowed, results are owned by the caller, fakes are not touched. */
#ifndef CR_TENSOR_ENTRIES_H
#define CR_TENSOR_ENTRIES_H

#include "tensor/tensor.h"

#define CR_MAP(name) cr_status name(const cr_value *arg, const cr_view *self, cr_geometry *out);
#define CR_WHOLE(name) cr_status name(const cr_value *arg, cr_value *result);
#include "tensor/entries.def"
#undef CR_MAP
#undef CR_WHOLE

#endif
