/* space.h - iteration spaces: dims, and the steps of several operands along them.
 *
 * A call visits corresponding elements of its operands, which may have any strides and may be
 * broadcast.  Its space has a size for each dim and a step for each dim and operand, in bytes
 * or in elements as the caller chooses.  The caller adds the dims, may order them by memory and
 * merges those that are one dim for every operand; then it walks over the positions.  Only this
 * room orders, merges, refines, cuts and walks dims.
 *
 * Invariant: a space has no dims of one element. */
#ifndef CR_SPACE_SPACE_H
#define CR_SPACE_SPACE_H

#include "base/error.h"
#include "num/view.h"

enum { CR_SPACE_OPERANDS = 32 };

typedef struct {
    int64_t size;
    int64_t number; /* the caller's; merged dims have that of the innermost of them */
    int64_t step[CR_SPACE_OPERANDS];
} cr_space_dim;

/* Dims are from the outermost to the innermost.  An initializer would clear 17 KB: use
 * cr_space_start. */
typedef struct {
    int ndim, operands;
    cr_space_dim dim[CR_MAX_DIMS];
} cr_space;

/* --- making a space --- */

static inline void cr_space_start(cr_space *s, int operands)
{
    s->ndim = 0;
    s->operands = operands;
}

/* Adds an innermost dim, unless it has one element.  The caller sets the steps, `operands` of
 * them, before the next call; dims that are added are at most CR_MAX_DIMS. */
static inline int64_t *cr_space_add(cr_space *s, int64_t size, int64_t number)
{
    cr_space_dim *d = &s->dim[s->ndim];

    d->size = size;
    d->number = number;
    s->ndim += size != 1;
    return d->step;
}

/* The step, in elements, along dim `d` of `ndim` dims to which an operand with `own` dims is
 * broadcast; it does not matter for a dim of one element. */
static inline int64_t cr_broadcast_step(int own, const int64_t *size, const int64_t *stride,
                                        int ndim, int d)
{
    int at = d - (ndim - own);

    return at < 0 || size[at] == 1 ? 0 : stride[at];
}

/* The offset, in elements, of position `i` of the dims `of` in an operand that is broadcast to
 * them. */
static inline int64_t cr_broadcast_offset(int own, const int64_t *size, const int64_t *stride,
                                          int ndim, const int64_t *of, int64_t i)
{
    int64_t at = 0;

    for (int d = ndim - 1; d >= 0 && i; i /= of[d--])
        at = CR_WRAP_ADD(at,
                         CR_WRAP_MUL(i % of[d], cr_broadcast_step(own, size, stride, ndim, d)));
    return at;
}

/* The elements of a view: one operand, with steps in bytes; a dim's number is that of the
 * view. */
void cr_space_of_view(cr_space *s, const cr_view *v);

/* Orders dims by decreasing magnitude of the steps of operand 0; equal ones stay in order. */
void cr_space_order(cr_space *s);
/* Merges neighbours that are one dim for every operand.  Bit d of `apart`: dim d is not merged
 * into dim d - 1. */
void cr_space_merge(cr_space *s, uint64_t apart);
void cr_space_remove(cr_space *s, int d);
/* Moves a dim inwards; the others stay in order. */
void cr_space_move(cr_space *s, int from, int to);
extern const cr_space_dim cr_single_dim; /* one element, steps 0 */

/* The n-th dim from the end, counted from 0; the single dim where there are fewer. */
static inline const cr_space_dim *cr_space_last(const cr_space *s, int n)
{
    return n < s->ndim ? &s->dim[s->ndim - 1 - n] : &cr_single_dim;
}

/* True if elements of all dims have one distance, which is then *step; it stays as it was for
 * fewer than two elements. */
bool cr_one_step(int64_t *step, int ndim, const int64_t *size, const int64_t *stride);

/* The number of innermost positions along which an operand has one step. */
static inline int64_t cr_space_run(const cr_space *s, int operand)
{
    int64_t n = 1, step = cr_space_last(s, 0)->step[operand];

    for (int d = s->ndim - 1; d >= 0 && s->dim[d].step[operand] == CR_WRAP_MUL(step, n); d--)
        n *= s->dim[d].size;
    return n;
}

static inline int64_t cr_numel(int ndim, const int64_t *size)
{
    int64_t n = 1;

    for (int d = 0; d < ndim; d++)
        n *= size[d];
    return n;
}

/* True if elements follow each other in row-major order; of fewer than two, any strides are. */
static inline bool cr_is_contiguous(int ndim, const int64_t *size, const int64_t *stride)
{
    int64_t step = 1;
    bool right = true;

    for (int d = ndim - 1; d >= 0; d--) {
        if (size[d] == 0)
            return true;
        right &= size[d] == 1 || stride[d] == step;
        step = CR_WRAP_MUL(step, size[d]);
    }
    return right;
}

/* The strides of an operand that is broadcast to dims. */
static inline void cr_broadcast_strides(int64_t *stride, const cr_view *v, int ndim,
                                        const int64_t *size)
{
    int missing = ndim - v->ndim;

    for (int d = 0; d < ndim; d++) {
        bool repeats = d < missing || (v->size[d - missing] == 1 && size[d] != 1);
        stride[d] = repeats ? 0 : v->stride[d - missing];
    }
}

/* The strides of elements in row-major order, which wrap around; returns the number of
 * elements. */
static inline int64_t cr_dense_strides(int64_t *stride, int ndim, const int64_t *size)
{
    int64_t n = 1;

    for (int d = ndim - 1; d >= 0; n = CR_WRAP_MUL(n, size[d--]))
        stride[d] = n;
    return n;
}

/* The stride of the next outer dim: a dim without elements counts as one of size 1.  A product
 * that overflows is INT64_MAX; such sizes are refused later. */
static inline int64_t cr_step_over(int64_t step, int64_t size)
{
    int64_t next;

    if (size <= 1)
        return step;
    return CR_MUL_OVERFLOW(step, size, &next) ? INT64_MAX : next;
}

/* The strides of a tensor that is row-major. */
static inline void cr_row_major_strides(int64_t *stride, int ndim, const int64_t *size)
{
    int64_t step = 1;

    for (int d = ndim - 1; d >= 0; d--) {
        stride[d] = step;
        step = cr_step_over(step, size[d]);
    }
}

/* --- walking --- */

/* The number of positions in the first `dims` dims. */
static inline int64_t cr_space_count(const cr_space *s, int dims)
{
    int64_t n = 1;

    for (int d = 0; d < dims; d++)
        n *= s->dim[d].size;
    return n;
}

/* The distance from position 0 to position `i` of the first `dims` dims for one operand, in the
 * unit of its steps. */
static inline int64_t cr_space_offset(const cr_space *s, int dims, int operand, int64_t i)
{
    int64_t at = 0;

    for (int d = dims - 1; d >= 0 && i; i /= s->dim[d--].size)
        at += i % s->dim[d].size * s->dim[d].step[operand];
    return at;
}

/* A position in the first dims of a space, and the addresses of the operands there. */
typedef struct {
    int64_t index[CR_MAX_DIMS];
    char *at[CR_SPACE_OPERANDS];
} cr_place;

/* Position `i` of the first `dims` dims, in row-major order; `at` has the operands' addresses
 * at position 0. */
void cr_place_seek(cr_place *p, const cr_space *s, int dims, char *const *at, int64_t i);
/* The next position; after the last one the first. */
void cr_place_next(cr_place *p, const cr_space *s, int dims);

/* Visits n positions: operand k is at at[k] + i * step[k].  Must not fail. */
typedef void (*cr_row_fn)(void *context, char *const *at, const int64_t *step, int64_t n);
/* Visits positions [begin, end) of the first `dims` dims in row-major order.  A visit has the
 * positions of a range along the last of these dims. */
void cr_space_walk(const cr_space *s, int dims, char *const *at, int64_t begin, int64_t end,
                   cr_row_fn fn, void *context);

/* --- refining --- */

enum { CR_REFINED_DIMS = 12 };

/* Sizes without ones into which shapes of one number of elements are split: every dim of each
 * shape is a product of adjacent dims. */
typedef struct {
    int ndim;
    int64_t size[CR_REFINED_DIMS];
} cr_refined;

/* Splits dims so that `size` is one of the shapes.  False, with *r unchanged, if a dim of one
 * shape would have a part of a dim of another, or for more than CR_REFINED_DIMS dims.  Without
 * dims, *r accepts any shape. */
bool cr_refine(cr_refined *r, int ndim, const int64_t *size);
/* Steps, in elements, along the first `dims` dims of *r through an operand (strides NULL: it is
 * row-major) that is broadcast to the shape `size` of these dims. */
void cr_refined_steps(int64_t *step, const cr_refined *r, int dims, int ndim,
                      const int64_t *size, int own, const int64_t *own_size,
                      const int64_t *own_stride);
/* The number of trailing dims that have `columns` elements together. */
int cr_refined_cut(const cr_refined *r, int64_t columns);

/* True if an operand has one value for each row when the shape `size` is cut into rows of
 * `columns` elements. */
bool cr_is_one_a_row(int ndim, const int64_t *size, int64_t columns, int own,
                     const int64_t *own_size);
/* Strides with which the elements of an operand have other sizes of the same product, in the
 * same order; false if there are none.  The operand has elements. */
bool cr_strides_for_sizes(int64_t *stride, int ndim, const int64_t *size, int own,
                          const int64_t *own_size, const int64_t *own_stride);

#endif
