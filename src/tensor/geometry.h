/* geometry.h - sizes and strides as plain numbers. */
#ifndef CR_TENSOR_GEOMETRY_H
#define CR_TENSOR_GEOMETRY_H

#include "tensor/tensor.h"

/* True when `t` has exactly these sizes. */
static inline bool cr_has_sizes(const cr_tensor *t, int ndim, const int64_t *size)
{
    if (t->ndim != ndim)
        return false;
    for (int i = 0; i < ndim; i++)
        if (t->size[i] != size[i])
            return false;
    return true;
}
/* True when the strides are exactly these, also for dims of size 1. */
bool cr_is_row_major(int ndim, const int64_t *size, const int64_t *stride);
/* Strides without gaps that keep the order of the given strides (empty_like's rule). */
void cr_like_strides(int ndim, const int64_t *size, const int64_t *stride, int64_t *out);
/* Sizes and strides from the outermost dim to the innermost one. */
void cr_memory_order(int ndim, const int64_t *size, const int64_t *stride, int64_t *out_size,
                     int64_t *out_stride);
/* Strides of a memory format (CR_FORMAT_*, not preserve).  CR_RUNTIME when the rank is
 * wrong. */
CR_MUST cr_status cr_format_strides(int64_t format, int ndim, const int64_t *size,
                                    int64_t *stride);
/* True when the strides have the memory format (CR_FORMAT_*, not preserve). */
bool cr_has_format(int64_t format, int ndim, const int64_t *size, const int64_t *stride);
/* channels_last or channels_last_3d if the strides of a tensor ascend so, gaps or not;
 * otherwise contiguous (torch's suggest_memory_format). */
int64_t cr_suggested_format(const cr_tensor *t);
/* The bytes of storage that a view needs, none for an empty one; CR_RUNTIME in torch's words
 * when offset, sizes or strides are negative or overflow. */
CR_MUST cr_status cr_view_bytes(uint64_t *out, cr_dtype dtype, int64_t offset, int ndim,
                                const int64_t *size, const int64_t *stride);
bool cr_is_dense_view(int ndim, const int64_t *size, const int64_t *stride);

/* A size list with at most one -1, which is filled in.  CR_RUNTIME in torch's words. */
CR_MUST cr_status cr_infer_sizes(int64_t *out, const cr_value *list, int64_t numel);
/* Strides with which the elements of `v` have other sizes of the same product; false when there
 * are none. */
bool cr_view_strides(const cr_view *v, int ndim, const int64_t *size, int64_t *stride);

/* The first byte of a view and the byte after its last; both are `data` for an empty view. */
void cr_view_extent(const cr_view *v, const char **begin, const char **end);

typedef enum { CR_APART, CR_SAME, CR_PARTLY, CR_UNSURE } cr_overlap;
/* How the memory of two views overlaps; CR_UNSURE when either has gaps, as in torch. */
cr_overlap cr_overlap_of(const cr_view *a, const cr_view *b);

/* CR_RUNTIME when `out`, which is written, shares part of its elements with `arg`; unless
 * `same`, also when it has exactly the elements of `arg`. */
CR_MUST cr_status cr_check_shared(const cr_tensor *out, const cr_tensor *arg, bool same);

#endif
