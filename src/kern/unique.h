/* unique.h - runs of equal elements or slices, for operators whose result size depends
 * on the values. */
#ifndef CR_KERN_UNIQUE_H
#define CR_KERN_UNIQUE_H

#include "num/view.h"

/* `n` items in groups: order[i] is the i-th item, group[i] its group; groups follow each
 * other from 0 to count - 1.  The arrays belong to the record. */
typedef struct {
    int64_t n, count;
    int64_t *order, *group;
} cr_groups;

/* Groups the elements of `v` in row-major order: equal neighbours, after sorting when
 * `sorted`.  A NaN is a group of its own.  CR_MEMORY. */
CR_MUST cr_status cr_group_elements(cr_groups *out, const cr_view *v, bool sorted);
/* Groups the slices of `v` along dim; slices are ordered element by element. */
CR_MUST cr_status cr_group_slices(cr_groups *out, const cr_view *v, int64_t dim, bool sorted);
void cr_groups_drop(cr_groups *g);

/* first[k]: an item of group k (the first in order); count[k]: its size;
 * inverse[i]: the group of item i.  Each may be NULL. */
void cr_groups_describe(const cr_groups *g, int64_t *first, int64_t *count, int64_t *inverse);

#endif
