/* convert.h - conversion of rows of elements between dtypes.
 *
 * Values follow C casts and torch: floating point to integer drops the fraction, any type to
 * bool tests for nonzero, complex to real drops the imaginary part, and half types round to
 * nearest even. */
#ifndef CR_NUM_CONVERT_H
#define CR_NUM_CONVERT_H

#include "num/dtype.h"

/* Converts n elements.  Steps are in bytes and may be negative; from_step 0 repeats one value.
 * `to` and `from` do not overlap, unless they are the same row of the same dtype. */
typedef void (*cr_convert_fn)(void *to, int64_t to_step, const void *from, int64_t from_step,
                              int64_t n);

/* The converter of a pair of dtypes; a plain copier for equal dtypes.  Never NULL. */
cr_convert_fn cr_convert_row(cr_dtype to, cr_dtype from);

/* Fast copies; false when there is none for the numbers.
 * weave: columns of `n` elements of 8 bytes, `pitch` elements apart, to rows without gaps.
 * transpose: to[c, r] = from[r, c] of `item` bytes, `high` rows of `columns` elements; elements
 * of a row are adjacent in both, and rows are `down` bytes apart.
 * repeat: each of `n` elements of `item` bytes, `step` bytes apart, `times` times in a row. */
bool cr_weave_8(void *to, const void *from, int64_t pitch, int64_t columns, int64_t n);
bool cr_transpose_items(char *to, int64_t to_down, const char *from, int64_t from_down,
                        int64_t item, int64_t high, int64_t columns);
bool cr_repeat_items(void *to, const void *from, int64_t item, int64_t step, int64_t times,
                     int64_t n);

#endif
