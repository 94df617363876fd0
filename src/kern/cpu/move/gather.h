/* gather.h - reading and writing at positions that an index tensor gives.
 *
 * The cr_kern_ functions are table externs: arg[i] is the schema's i-th argument, out[k]
 * the k-th result.  All indices are checked before anything is written.  Writes to one
 * place happen in index order, whatever the number of threads. */
#ifndef CR_KERN_GATHER_H
#define CR_KERN_GATHER_H

#include "num/view.h"

/* What writing to a place does with the value that is there. */
typedef enum {
    CR_COMBINE_SET,
    CR_COMBINE_ADD,
    CR_COMBINE_MUL,
    CR_COMBINE_MIN,
    CR_COMBINE_MAX,
    CR_COMBINE_COUNT
} cr_combine;

/* dst[i] = dst[i] (combine) src[i] for i < n, in order.  With an index, dst[i] is `unit`
 * times index[i] bytes further on. */
typedef struct {
    char *dst;
    const char *src, *index; /* index may be NULL */
    int64_t dst_step, src_step, index_step, unit, n;
    bool is32; /* the index is int32 */
} cr_combine_row;
typedef void (*cr_combine_fn)(const cr_combine_row *row);

/* NULL where the dtype has no such operation (the order of complex numbers). */
cr_combine_fn cr_combine_for(cr_combine how, cr_dtype t);

/* Corresponding positions of a table, an index and another operand, all over `size`.
 * The table's stride is 0 along the dimensions that the index picks from. */
typedef struct {
    int ndim;
    const int64_t *size;
    char *table, *other, *index;
    const int64_t *table_stride, *other_stride, *index_stride; /* elements */
    int64_t unit;                                              /* bytes an index counts */
    size_t item, other_item, index_item;
    uint64_t limit; /* reading: indices must be below it; 0: they are known to be right */
} cr_places;

/* other[p] = table[p + index[p] * unit].  False when an index is not below the limit: the
 * first entry is then read in its place. */
bool cr_places_read(const cr_places *p);
/* table[p + index[p] * unit] is combined with other[p].  picked[d] tells which
 * dimensions the index picks from: these are never cut between threads. */
void cr_places_write(const cr_places *p, cr_combine_fn fn, const bool *picked);
/* The same for elements of type t; sums and products of floats and complex numbers have
 * order P (num/order.h): the entries of a place are folded before they join it. */
CR_MUST cr_status cr_places_combine(const cr_places *p, cr_combine how, cr_dtype t,
                                    const bool *picked);

/* Copies `from` to `to` unless they are the same memory. */
void cr_start_from(const cr_view *to, const cr_view *from);
/* True when all elements of an int32 or int64 view lie in [low, high); otherwise *bad is
 * the first that does not. */
bool cr_indices_within(const cr_view *index, int64_t low, int64_t high, int64_t *bad);
/* The indices row-major as int64; the caller frees them.  NULL with a CR_MEMORY record. */
int64_t *cr_indices_copy(const cr_view *index);

#endif
