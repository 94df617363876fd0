/* factory.h - fills new tensors.  Table externs (see gather.h); out[0] has the size and dtype
 * that the entry's rules gave. */
#ifndef CR_KERN_FACTORY_H
#define CR_KERN_FACTORY_H

#include "num/view.h"

/* out[i] = start + i * step; exact for integers.  The two round floats differently. */
void cr_fill_arange(const cr_view *out, cr_scalar start, cr_scalar step);
void cr_fill_range(const cr_view *out, cr_scalar start, cr_scalar step);
/* Evenly spaced values from start to end, both included, computed from the nearer end. */
void cr_fill_linspace(const cr_view *out, cr_scalar start, cr_scalar end);
/* `base` to the power of linspace. */
void cr_fill_logspace(const cr_view *out, cr_scalar start, cr_scalar end, double base);
/* Row and column indices of a triangle of a rows x columns matrix, {2, n}: the elements with
 * column - row <= offset, or >= for the upper triangle. */
void cr_fill_triangle_indices(const cr_view *out, int64_t rows, int64_t columns, int64_t offset,
                              bool upper);

#endif
