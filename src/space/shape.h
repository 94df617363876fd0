/* shape.h - sizes of views: functions that shape rules and kernels share. */
#ifndef CR_SPACE_SHAPE_H
#define CR_SPACE_SHAPE_H

#include "space/shape_text.h"
#include "space/space.h"
#include <string.h>

/* Fails with CR_INDEX: `dim` is not in -n..n-1. */
CR_MUST cr_status cr_refuse_dim(int64_t dim, int64_t n);
/* Wraps a dimension from -n..n-1 to 0..n-1; a scalar counts as having one dimension.  Fails
 * with CR_INDEX. */
CR_MUST static inline cr_status cr_wrap_dim(int64_t *out, int64_t dim, int64_t ndim)
{
    int64_t n = ndim > 0 ? ndim : 1;

    *out = dim < 0 ? dim + n : dim;
    return CR_LIKELY(dim >= -n && dim < n) ? CR_OK : cr_refuse_dim(dim, n);
}

static inline bool cr_is_index_type(const cr_view *v)
{
    return v->dtype == CR_I32 || v->dtype == CR_I64;
}

/* Sets *out to the sizes of v. */
static inline void cr_shape_like(cr_shape *out, const cr_view *v)
{
    out->ndim = v->ndim;
    memcpy(out->size, v->size, v->ndim * sizeof *v->size);
}
/* The size of a dimension; a scalar has size 1. */
static inline int64_t cr_dim_size(const cr_view *v, int64_t dim)
{
    return v->ndim ? v->size[dim] : 1;
}

/* True if the sizes broadcast to exactly those of `to`. */
bool cr_expands(int ndim, const int64_t *size, int to_ndim, const int64_t *to);
/* Extends `to` so that `size` broadcasts with it.  False when the two do not broadcast. */
bool cr_shape_broadcast(cr_shape *to, int ndim, const int64_t *size);

/* Fails with CR_NOT_IMPLEMENTED: '"name" not implemented for 'Bool''. */
cr_status cr_not_for_type(const char *name, const cr_view *v);

#endif
