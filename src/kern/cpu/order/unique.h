/* unique.h - groups of equal elements or slices, for operators whose result sizes depend on
 * values. */
#ifndef CR_KERN_UNIQUE_H
#define CR_KERN_UNIQUE_H

#include "num/view.h"

/* `n` items in groups: order lists the items group by group, and group[i] is the group of item
 * order[i].  Groups are numbered from 0 to count - 1.  The record owns the arrays. */
typedef struct {
    int64_t n, count;
    int64_t *order, *group;
} cr_groups;

/* Groups equal neighbours among the elements of `v` in row-major order, or all equal elements
 * after sorting when `sorted`.  Each NaN is its own group.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_group_elements(cr_groups *out, const cr_view *v, bool sorted);
/* Groups the slices of `v` along dim.  Slices are compared element by element. */
CR_MUST cr_status cr_group_slices(cr_groups *out, const cr_view *v, int64_t dim, bool sorted);
void cr_groups_drop(cr_groups *g);

/* first[k] is the first item of group k in order, count[k] the size of the group, inverse[i]
 * the group of item i.  Each pointer may be NULL. */
void cr_groups_describe(const cr_groups *g, int64_t *first, int64_t *count, int64_t *inverse);

#endif
