/* convert.h - rows of elements from one dtype to another.
 *
 * Conversions are those of C casts and of torch: floating point to integers drops the
 * fraction, anything to bool asks for nonzero, complex to real drops the imaginary part,
 * half types round to nearest even. */
#ifndef CR_NUM_CONVERT_H
#define CR_NUM_CONVERT_H

#include "num/dtype.h"

/* Converts n elements; steps are in bytes and may be 0 (`from`: one value) or negative.
 * `to` and `from` do not overlap, unless they are the same row of the same dtype. */
typedef void (*cr_convert_fn)(void *to, int64_t to_step, const void *from, int64_t from_step,
                              int64_t n);

/* Never NULL; equal dtypes give a plain copier. */
cr_convert_fn cr_convert_row(cr_dtype to, cr_dtype from);

#endif
