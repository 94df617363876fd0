/* walk.h - visiting corresponding elements, or corresponding lines, of several views.
 *
 * A walk holds sizes and, for every operand, a pointer and byte steps.  It is built by
 * cr_walk_start and one cr_walk_add an operand, tidied by cr_walk_merge and then run:
 * the visitor is given rows of positions.  With `skip` the walk leaves out one dimension,
 * along which the visitor itself goes. */
#ifndef CR_KERN_WALK_H
#define CR_KERN_WALK_H

#include "base/parallel.h"
#include "num/view.h"

enum { CR_WALK_MAX = 6 };

typedef struct {
    int ndim, count, skip;
    int64_t total; /* positions: the product of the sizes */
    int64_t size[CR_MAX_DIMS];
    int64_t step[CR_WALK_MAX][CR_MAX_DIMS]; /* bytes */
    char *at[CR_WALK_MAX];
} cr_walk;

/* Visits `n` positions: operand k's is at[k] + i * step[k].  Must not fail; runs in any
 * thread, for disjoint positions. */
typedef void (*cr_row_fn)(void *context, char *const *at, const int64_t *step, int64_t n);

/* skip is a dimension that the walk leaves out, or -1. */
void cr_walk_start(cr_walk *w, int ndim, const int64_t *size, int skip);
/* Adds an operand with `v`'s strides over the walk's sizes (v->ndim is not looked at). */
void cr_walk_add(cr_walk *w, const cr_view *v);
void cr_walk_add_strides(cr_walk *w, char *at, const int64_t *stride, size_t item);
/* Drops dimensions of size 1 and joins those that are one in memory for all operands. */
void cr_walk_merge(cr_walk *w);
/* Before cr_walk_merge, where the order of the visits is free: makes the last dimension
 * the one along which operand 0 is densest. */
void cr_walk_sort(cr_walk *w);
/* All positions, in parallel ranges of at least `grain`. */
void cr_walk_run(const cr_walk *w, int64_t grain, cr_row_fn fn, void *context);
/* Positions [begin, end) in row-major order, in the calling thread. */
void cr_walk_range(const cr_walk *w, int64_t begin, int64_t end, cr_row_fn fn, void *context);

/* Elements that are worth a thread of their own when each costs about a nanosecond. */
enum { CR_WALK_GRAIN = 32768 };
/* The grain in lines when a line of `length` elements is the unit. */
static inline int64_t cr_walk_grain(int64_t length)
{
    return length >= CR_WALK_GRAIN ? 1 : CR_WALK_GRAIN / (length < 1 ? 1 : length);
}

/* dst = src; equal sizes (src may have stride 0), equal dtypes. */
void cr_copy_view(const cr_view *dst, const cr_view *src);
/* Every element of dst becomes the element at `item`. */
void cr_fill_view(const cr_view *dst, const void *item);
void cr_zero_view(const cr_view *dst);

/* A row-major copy of v's elements; the caller frees it.  NULL with a CR_MEMORY record. */
char *cr_dense_copy(const cr_view *v);
/* Row-major strides of `size`. */
void cr_dense_strides(int64_t *stride, int ndim, const int64_t *size);
/* v's strides as if it were expanded to `ndim` dimensions of `size` by broadcasting. */
void cr_broadcast_strides(int64_t *stride, const cr_view *v, int ndim, const int64_t *size);

int64_t cr_view_numel(const cr_view *v);
bool cr_view_is_contiguous(const cr_view *v);
static inline size_t cr_view_item(const cr_view *v)
{
    return cr_dtype_size((cr_dtype)v->dtype);
}
/* Size and stride along a dimension; a scalar has one line of one element. */
static inline int64_t cr_view_size(const cr_view *v, int64_t dim)
{
    return v->ndim ? v->size[dim] : 1;
}
static inline int64_t cr_view_step(const cr_view *v, int64_t dim)
{
    return v->ndim ? CR_WRAP_MUL(v->stride[dim], cr_view_item(v)) : 0;
}
/* A dimension as the user wrote it, already checked, as 0 to ndim - 1. */
static inline int64_t cr_view_dim(const cr_view *v, int64_t dim)
{
    return dim < 0 ? dim + (v->ndim ? v->ndim : 1) : dim;
}

#endif
