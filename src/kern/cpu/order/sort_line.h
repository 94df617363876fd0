/* sort_line.h - sorts and selects in one line of elements.
 *
 * Elements are mapped to unsigned keys with the order of the elements: NaN last, -0 equal to
 * +0. */
#ifndef CR_KERN_SORT_LINE_H
#define CR_KERN_SORT_LINE_H

#include "num/view.h"

typedef struct {
    const char *data;
    int64_t step, n; /* bytes */
    cr_dtype dtype;  /* not complex */
    bool descending; /* NaN comes first */
} cr_line;

/* The bytes of scratch memory for a line of n elements. */
size_t cr_line_room(cr_dtype t, int64_t n);
/* Sets index[i] to the index of the element of rank i.  Equal elements keep their order. */
void cr_line_sort(const cr_line *line, int64_t *index, void *room);

/* The other functions order equal elements as torch's algorithms do, so that programs written
 * for torch get the same indices. */
void cr_line_sort_loose(const cr_line *line, int64_t *index, void *room);
/* Ranks below k only; k <= n. */
void cr_line_top(const cr_line *line, int64_t k, int64_t *index, void *room);
/* The index of an element of rank k: cr_line_rank as kthvalue selects it, cr_line_middle as a
 * stable sort would place it, which median returns. */
int64_t cr_line_rank(const cr_line *line, int64_t k, void *room);
int64_t cr_line_middle(const cr_line *line, int64_t k, void *room);
/* The number of NaNs. */
int64_t cr_line_nans(const cr_line *line);
/* The key of an element.  Elements have equal keys exactly when they are equal, except that all
 * NaNs share one key. */
uint64_t cr_sort_key(cr_dtype t, const char *element);

#endif
