/* entries.h - kernels that operator entries name in `extern` clauses.
 *
 * arg[i] is the schema's i-th argument, tensors as CR_VIEW (any strides, the
 * entry's compute type) or CR_NONE; out[k] are contiguous results of the sizes
 * and dtypes that the entry's rules gave.  They fail before writing, except for
 * lack of memory and errors that only the values can show (a singular matrix). */
#ifndef CR_KERN_ENTRIES_H
#define CR_KERN_ENTRIES_H

#include "functions_extern.h"
#endif
