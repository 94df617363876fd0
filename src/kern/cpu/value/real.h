/* real.h - single elements of a view, read and written in double precision. */
#ifndef CR_KERN_CPU_VALUE_REAL_H
#define CR_KERN_CPU_VALUE_REAL_H

#include "num/view.h"

/* The element `at` elements after the view's first.  Reads the common dtype directly: a
 * function call costs more than the rest of a row of a loss. */
static inline double cr_real_get(const cr_view *v, int64_t at)
{
    if (v->dtype == CR_F32)
        return (double)((const float *)(const void *)v->data)[at];
    size_t item = cr_dtype_size((cr_dtype)v->dtype);

    return cr_scalar_as_double(
        cr_scalar_load((cr_dtype)v->dtype, v->data + at * (int64_t)item));
}

static inline void cr_real_put(const cr_view *v, int64_t at, double d)
{
    size_t item = cr_dtype_size((cr_dtype)v->dtype);

    cr_scalar_store(cr_scalar_float(d), (cr_dtype)v->dtype, v->data + at * (int64_t)item);
}

#endif
