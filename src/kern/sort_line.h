/* sort_line.h - sorting and selecting in one line of elements, stably.
 *
 * Elements are mapped to unsigned keys that order as the elements do: NaN last, -0 equal
 * to +0.  Equal keys keep their order, ascending and descending alike. */
#ifndef CR_KERN_SORT_LINE_H
#define CR_KERN_SORT_LINE_H

#include "num/view.h"

typedef struct {
    const char *data;
    int64_t step, n; /* bytes */
    cr_dtype dtype;  /* not complex */
    bool descending; /* NaN is then first */
} cr_line;

/* Bytes of scratch memory that a line of n elements needs. */
size_t cr_line_room(cr_dtype t, int64_t n);
/* index[i] becomes the position of the element of rank i. */
void cr_line_sort(const cr_line *line, int64_t *index, void *room);
/* The same for ranks below k only; k <= n. */
void cr_line_sort_first(const cr_line *line, int64_t k, int64_t *index, void *room);
/* The position of the element of rank k alone. */
int64_t cr_line_rank(const cr_line *line, int64_t k, void *room);
/* How many elements are NaN. */
int64_t cr_line_nans(const cr_line *line);
/* An element's key; equal elements (and only these, NaNs apart) have equal keys. */
uint64_t cr_sort_key(cr_dtype t, const char *element);

#endif
