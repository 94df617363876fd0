/* indexed.h - commands on elements at computed places as numbers, for files that a plan is
 * written to (c_places.c, rt_file.c). */
#ifndef CR_COMPILE_INDEXED_H
#define CR_COMPILE_INDEXED_H

#include "plan/plan.h"

/* An element's place is `unit` bytes times its index, which is below `extent`, further; indices
 * below 0 count from the end if `wraps` is set.  Without an index, a file has one index, which
 * is 0, for all elements. */
typedef struct {
    const char *lacks; /* what files cannot say: "without an index"; or NULL */
    bool wraps, is32;
    bool copies;  /* the table is a row-major copy of the elements that indices count */
    bool ordered; /* sums and products of floats: in the order of columns (num/order.h) */
    int64_t unit, extent, dense_item, index_item; /* items: bytes of an element */
} cr_indexed_numbers;

cr_indexed_numbers cr_indexed_numbers_of(const cr_indexed *c);
/* The elements that indices count, of a command that has such an array. */
static inline cr_array cr_indexed_table(const cr_indexed *c)
{
    cr_array a = *c->numbered;

    a.data = c->table;
    return a;
}

#endif
