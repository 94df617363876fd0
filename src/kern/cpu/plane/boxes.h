/* boxes.h - overlapping boxes. */
#ifndef CR_KERN_BOXES_H
#define CR_KERN_BOXES_H

#include "num/view.h"

/* Chooses boxes, rows [x1, y1, x2, y2] of float32 or float64, in descending order of scores,
 * and leaves out those that overlap a chosen box by more than `most` of their union.  Writes
 * the indices of the *count chosen boxes to `chosen`, which has room for all.  CR_MEMORY. */
CR_MUST cr_status cr_boxes_choose(int64_t *chosen, int64_t *count, const cr_view *boxes,
                                  const cr_view *scores, double most);

#endif
