/* walk.h - visits corresponding elements, or corresponding lines, of several views.
 *
 * A walk has sizes and, for every operand, a pointer and byte steps.  Build it with
 * cr_walk_start and one cr_walk_add for each operand, simplify it with cr_walk_merge, and run
 * it: the visitor gets rows of positions.  With `skip` the walk leaves out one dimension, which
 * the visitor iterates itself. */
#ifndef CR_KERN_WALK_H
#define CR_KERN_WALK_H

#include "base/parallel.h"
#include "space/space.h"

enum { CR_WALK_MAX = 6 };

typedef struct {
    int64_t total; /* the number of positions: the product of the sizes */
    char *at[CR_WALK_MAX];
    cr_space space; /* steps in bytes */
} cr_walk;

/* skip is the dimension that the walk leaves out, or -1. */
void cr_walk_start(cr_walk *w, int ndim, const int64_t *size, int skip);
/* Adds an operand with the strides of `v` over the walk's sizes (v->ndim is ignored). */
void cr_walk_add(cr_walk *w, const cr_view *v);
void cr_walk_add_strides(cr_walk *w, char *at, const int64_t *stride, size_t item);
/* Joins dimensions that are one dimension in memory for all operands. */
static inline void cr_walk_merge(cr_walk *w) { cr_space_merge(&w->space, 0); }
/* Call it before cr_walk_merge when visits may have any order: makes the last dimension the one
 * in which operand 0 is densest. */
static inline void cr_walk_sort(cr_walk *w) { cr_space_order(&w->space); }
/* Visits all positions, in parallel ranges of at least `grain` positions.  Calls in different
 * threads visit disjoint positions. */
void cr_walk_run(const cr_walk *w, int64_t grain, cr_row_fn fn, void *context);
/* Visits all positions in row-major order, in the calling thread. */
void cr_walk_all(const cr_walk *w, cr_row_fn fn, void *context);

/* The number of elements that are worth another thread when each costs about a nanosecond. */
enum { CR_WALK_GRAIN = 32768 };
/* The grain in lines, for lines of `length` elements. */
static inline int64_t cr_walk_grain(int64_t length)
{
    return length >= CR_WALK_GRAIN ? 1 : CR_WALK_GRAIN / (length < 1 ? 1 : length);
}

/* Copies elements, converted like C casts; `from` is broadcast to the sizes of `to`.  The views
 * share no memory (copy.c). */
void cr_copy_view(const cr_view *to, const cr_view *from);
void cr_zero_view(const cr_view *to);

/* A row-major copy of the elements of v; the caller frees it.  NULL and a CR_MEMORY record
 * without memory. */
char *cr_dense_copy(const cr_view *v);

static inline int64_t cr_view_numel(const cr_view *v) { return cr_numel(v->ndim, v->size); }
static inline bool cr_view_is_contiguous(const cr_view *v)
{
    return cr_is_contiguous(v->ndim, v->size, v->stride);
}
static inline size_t cr_view_item(const cr_view *v)
{
    return cr_dtype_size((cr_dtype)v->dtype);
}
/* Size and stride of a dimension; a scalar is one line with one element. */
static inline int64_t cr_view_size(const cr_view *v, int64_t dim)
{
    return v->ndim ? v->size[dim] : 1;
}
static inline int64_t cr_view_step(const cr_view *v, int64_t dim)
{
    return v->ndim ? CR_WRAP_MUL(v->stride[dim], cr_view_item(v)) : 0;
}
/* A dimension as the user gave it, already checked, wrapped to 0 to ndim - 1. */
static inline int64_t cr_view_dim(const cr_view *v, int64_t dim)
{
    return dim < 0 ? dim + (v->ndim ? v->ndim : 1) : dim;
}

#endif
