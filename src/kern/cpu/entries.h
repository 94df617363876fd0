/* entries.h - kernels that operator entries name in `extern` clauses.
 *
 * arg[i] is the schema's i-th argument.  Tensors are CR_VIEW (any strides, the entry's compute
 * type) or CR_NONE.  out[k] are contiguous results with the sizes and dtypes that the entry's
 * rules gave.  A kernel fails before it writes, except for lack of memory and for errors that
 * depend on values (a singular matrix). */
#ifndef CR_KERN_ENTRIES_H
#define CR_KERN_ENTRIES_H

#include "functions_extern.h"
#endif
