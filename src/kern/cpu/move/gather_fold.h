/* gather_fold.h - the arithmetic of combining writes in order P (gather_order.c).
 *
 * Two ways to fold the entries of each destination.  Groups: entries are rows of elements,
 * listed by destination.  Slots: entries are single elements, folded in index order into four
 * accumulators for each destination. */
#ifndef CR_KERN_GATHER_FOLD_H
#define CR_KERN_GATHER_FOLD_H

#include "kern/cpu/move/gather.h"

/* Group k has the entries source[start[k]] up to source[start[k + 1]], byte offsets in index
 * order, and is combined into the table at dest[k] * unit.  An entry is `width` elements. */
typedef struct {
    const int64_t *start, *source, *dest;
    const char *from;
    char *to;
    int64_t unit, width, from_step, to_step;
} cr_fold_groups;

/* Entries in index order; with several lines, one entry of each line. */
typedef struct {
    const char *index, *from;
    int64_t n, index_step, from_step;
    bool is32;
} cr_fold_row;

/* The destinations [0, range) of `lines` lines; slot i * lines + j is destination i of line j.
 * A slot with more than a block of entries has a tower for the results of its blocks. */
typedef struct {
    int64_t range, lines;
    void *acc;      /* four accumulators for each slot */
    uint8_t *count; /* entries in the slot's accumulators */
    int32_t *tower; /* the number of its tower, plus 1; NULL if no slot can need one */
    void *towers;
    int32_t used;
} cr_fold_slots;

typedef struct {
    void (*groups)(const cr_fold_groups *g, int64_t begin, int64_t end);
    /* NULL if folding the identity changes values (products of complex numbers). */
    void (*add)(cr_fold_slots *s, const cr_fold_row *r);
    /* Empties the slots. */
    void (*start)(cr_fold_slots *s);
    /* Combines the folds with the table: destination i of line j is at to + i * unit + j *
     * step. */
    void (*join)(cr_fold_slots *s, char *to, int64_t unit, int64_t step);
    size_t cell, tower; /* bytes of an accumulator and of a tower */
} cr_fold_fns;

/* NULL for writes without order P: integers, extremes and writes that set. */
const cr_fold_fns *cr_fold_fns_for(cr_combine how, cr_dtype t);

/* Slots for up to `entries` entries between two starts.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_fold_slots_new(cr_fold_slots *s, const cr_fold_fns *fns, int64_t range,
                                    int64_t lines, int64_t entries);
void cr_fold_slots_drop(cr_fold_slots *s);

#endif
