/* sort_line.h - sorting and selecting in one line of elements.
 *
 * Elements are mapped to unsigned keys that order as the elements do: NaN last, -0 equal
 * to +0. */
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
/* index[i] becomes the position of the element of rank i; equal ones keep their order. */
void cr_line_sort(const cr_line *line, int64_t *index, void *room);

/* The others leave equal elements in the order in which torch's algorithms leave them:
 * programs that were written for torch see the positions they know. */
void cr_line_sort_loose(const cr_line *line, int64_t *index, void *room);
/* Ranks below k only; k <= n. */
void cr_line_top(const cr_line *line, int64_t k, int64_t *index, void *room);
/* The position of an element of rank k: as kthvalue finds it, and the one that a stable
 * sort would put there, which is what median gives. */
int64_t cr_line_rank(const cr_line *line, int64_t k, void *room);
int64_t cr_line_middle(const cr_line *line, int64_t k, void *room);
/* How many elements are NaN. */
int64_t cr_line_nans(const cr_line *line);
/* An element's key; equal elements (and only these, NaNs apart) have equal keys. */
uint64_t cr_sort_key(cr_dtype t, const char *element);

#endif
