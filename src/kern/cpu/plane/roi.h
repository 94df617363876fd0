/* roi.h - what the poolings of regions share. */
#ifndef CR_KERN_ROI_H
#define CR_KERN_ROI_H

#include "kern/cpu/pack.h"
#include "kern/cpu/plane/roi_job.h"

/* The sizes of the input `x` and of a result with pooled_height and pooled_width; not
 * `sensitive`. */
cr_roi cr_roi_of(const cr_view *x, const cr_view *regions, const cr_value *scale,
                 const cr_value *pooled);
/* A pooling of dtype F32 or F64 with its arrays in dense memory. */
typedef struct {
    roi_job job;
    cr_dtype t;
    cr_device device;
    cr_dense x, regions, out;
} cr_roi_call;
/* Loads the arrays.  CR_INDEX for a region of an image that does not exist, at once on the
 * host and later on a device; CR_MEMORY.  cr_roi_end after it in any case; it stores the result
 * unless `st` is an error. */
CR_MUST cr_status cr_roi_begin(cr_roi_call *c, const char *name, const cr_roi *r,
                               const cr_view *x, const cr_view *regions, const cr_view *out);
CR_MUST cr_status cr_roi_end(cr_roi_call *c, const cr_view *out, cr_status st);
/* Fills channel_mapping, [regions, results, height, width] of int32. */
CR_MUST cr_status cr_roi_mapping(const cr_roi *r, const cr_view *out);

#endif
