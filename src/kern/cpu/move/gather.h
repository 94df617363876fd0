/* gather.h - reading and writing at positions given by an index tensor.
 *
 * All indices are checked before the first write.  Writes to one element happen in index order
 * for any number of threads. */
#ifndef CR_KERN_GATHER_H
#define CR_KERN_GATHER_H

#include "kern/move.h"

/* dst[i] = combine(dst[i], src[i]) for i < n, in order.  With an index, the address of dst[i]
 * is increased by unit * index[i] bytes. */
typedef struct {
    char *dst;
    const char *src, *index; /* index may be NULL */
    int64_t dst_step, src_step, index_step, unit, n;
    bool is32; /* the index is int32 */
} cr_combine_row;
typedef void (*cr_combine_fn)(const cr_combine_row *row);

/* NULL when the dtype has no such operation (minimum of complex numbers). */
cr_combine_fn cr_combine_for(cr_combine how, cr_dtype t);

/* Corresponding elements of a table, an index and another operand, over the dims `size`.  The
 * table's stride is 0 along the dims that the index selects from. */
typedef struct {
    int ndim;
    const int64_t *size;
    char *table, *other, *index;
    const int64_t *table_stride, *other_stride, *index_stride; /* elements */
    int64_t unit; /* bytes from one index value to the next */
    size_t item, other_item, index_item;
    uint64_t limit; /* reading: indices must be below it; 0: they are already checked */
    int64_t range;  /* writing: indices are in [0, range), and all of these are elements of the
                       table; 0: not known */
} cr_places;

/* other[p] = table[p + index[p] * unit].  False when an index is not below the limit; entry 0
 * is read for it. */
bool cr_places_read(const cr_places *p);
/* Combines other[p] into table[p + index[p] * unit]. picked[d] is set for the dims that the
 * index selects from; threads do not divide these. */
void cr_places_write(const cr_places *p, cr_combine_fn fn, const bool *picked);
/* Like cr_places_write, for elements of dtype t. Sums and products of floats and complex
 * numbers have order P (num/order.h): the values for one element are folded first, then
 * combined with it. */
CR_MUST cr_status cr_places_combine(const cr_places *p, cr_combine how, cr_dtype t,
                                    const bool *picked);

/* out = the positions of self along dim that a vector of checked indices names. */
void cr_read_positions(const cr_view *out, const cr_view *self, int64_t dim,
                       const cr_view *index);
/* Divides elements by the int64 counts at the same places, which are at least 0: integers round
 * down, and counts below 2 change nothing. */
void cr_divide_by_counts(const cr_view *v, const cr_view *count);
/* Copies `from` to `to` unless they are the same memory. */
void cr_start_from(const cr_view *to, const cr_view *from);
/* True when all elements of an int32 or int64 view are in [low, high); or else *bad is the
 * first that is not. */
bool cr_indices_within(const cr_view *index, int64_t low, int64_t high, int64_t *bad);
/* True when n indices, `step` bytes apart, are in [0, high). */
bool cr_indices_row_within(const char *p, int64_t step, int64_t n, int64_t high, bool is32);
/* The indices as int64 in row-major order; the caller frees them.  NULL and CR_MEMORY when out
 * of memory. */
int64_t *cr_indices_to_plain(const cr_view *index);

#endif
