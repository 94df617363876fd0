/* move.h - moving elements: what a loop that only reads becomes (tensor/stated.c).
 *
 * A move has corresponding elements of a result, of a source, and possibly of an index tensor,
 * whose element times `unit` is added to the address in the source. */
#ifndef CR_KERN_MOVE_H
#define CR_KERN_MOVE_H

#include "num/view.h"

/* How a written value is combined with the present one. */
typedef enum {
    CR_COMBINE_SET,
    CR_COMBINE_ADD,
    CR_COMBINE_MUL,
    CR_COMBINE_MIN,
    CR_COMBINE_MAX,
    CR_COMBINE_COUNT
} cr_combine;

typedef struct {
    int ndim;
    int64_t size[CR_MAX_DIMS];
    uint8_t dtype; /* of result and source */
    char *to;
    const char *from;
    int64_t to_stride[CR_MAX_DIMS], from_stride[CR_MAX_DIMS]; /* elements */
    /* Of a move with an index; NULL without. */
    cr_kernel kernel; /* for the item's size and the index's type */
    const char *index;
    int64_t index_stride[CR_MAX_DIMS]; /* elements */
    int64_t unit;                      /* bytes */
    int64_t extent;                    /* indices are in [0, extent) */
    bool is32;                         /* the index is int32 */
    bool gaps; /* not all positions below the extent are elements of the source */
} cr_move;

/* A part of a line along the last dim of a move, in elements: a copy, or a fill. */
typedef struct {
    int64_t at, n;        /* of the result */
    int64_t from, stride; /* of the source */
    bool fill;
} cr_move_part;

/* Copies the elements between views of equal sizes that share no memory. */
void cr_move_view(const cr_view *to, const cr_view *from);
/* Copies the elements.  The result has elements, and shares none with the source. */
void cr_move_copy(const cr_move *m);
/* Makes lines of parts; m->from_stride of the last dim is unused.  `item` is the element of
 * fills. */
void cr_move_lines(const cr_move *m, const cr_move_part *part, int parts, const void *item);
/* Copies n elements of `item` bytes, `stride` elements apart, to adjacent ones, in this
 * thread. */
void cr_move_line(char *to, const char *from, int64_t stride, int64_t n, int64_t item);
/* The same as cr_move_copy through the index.  False when an index is outside: then some
 * elements may be missing. */
bool cr_move_indexed(const cr_move *m);
/* The elements of `to` are combined into those of `from`, through an index if there is one:
 * sums and products then have order P (num/order.h); without an index they are added one after
 * the other.  Bit d of `picked`: several positions along dim d may have one place.  Indices are
 * inside. */
CR_MUST cr_status cr_move_combine(const cr_move *m, cr_combine how, uint64_t picked);
/* A dense copy of v times a number; the caller frees copy->data, and `stride` has room for the
 * dims.  CR_MEMORY. */
CR_MUST cr_status cr_move_scale(cr_view *copy, int64_t *stride, const cr_view *v,
                                cr_scalar factor);
/* Divides elements by the int64 counts at the same places, which are at least 0: integers round
 * down, and counts below 2 change nothing. */
void cr_move_divide(const cr_view *v, const cr_view *count);
/* The elements of an index as int64 in row-major order, plus `size` where they are negative;
 * the caller frees them.  NULL and CR_MEMORY when out of memory. */
int64_t *cr_move_wrapped(const cr_view *index, int64_t size);
/* `number` holds row-major numbers of elements of v, one for each element of `index`: replaces
 * them by the offsets of these elements. */
void cr_move_unravel(int64_t *number, const cr_view *index, const cr_view *v);
/* Sets all elements of a view to the element at `item`. */
void cr_move_fill(const cr_view *to, const void *item);
/* True when all elements of an int32 or int64 view are in [low, high); else *bad is the first
 * that is not. */
bool cr_move_within(const cr_view *index, int64_t low, int64_t high, int64_t *bad);
/* The same for n elements, `step` bytes apart, and [0, extent), in this thread. */
bool cr_move_row_within(const char *index, int64_t step, int64_t n, int64_t extent, bool is32);

#endif
