/* roi.h - arguments that the poolings of regions share.
 *
 * A region is a row [image, x1, y1, x2, y2].  Its result is a grid of `height` x `width` bins
 * for every channel; a position-sensitive pooling takes bin (p, q) of channel c from channel
 * (c * height + p) * width + q of the input. */
#ifndef CR_KERN_ROI_H
#define CR_KERN_ROI_H

#include "num/view.h"

typedef struct {
    int64_t images, channels, rows, columns; /* the sizes of the input */
    int64_t regions, height, width;
    double scale;
    int64_t samples; /* in a bin and dimension; at most 0: by the region's size */
    bool aligned, sensitive;
    const char *name; /* the operator's, for errors */
} cr_roi;

static inline int64_t cr_roi_plane(const cr_roi *r) { return r->rows * r->columns; }
static inline int64_t cr_roi_bins(const cr_roi *r) { return r->height * r->width; }
/* Channels of the result. */
static inline int64_t cr_roi_results(const cr_roi *r)
{
    return r->sensitive ? r->channels / cr_roi_bins(r) : r->channels;
}

/* The sizes of the input `x` and of a result with pooled_height and pooled_width; not
 * `sensitive`. */
cr_roi cr_roi_of(const char *name, const cr_view *x, const cr_view *regions,
                 const cr_value *scale, const cr_value *pooled);
/* Converts the image of each region to an index.  CR_INDEX for one that does not exist,
 * CR_MEMORY. The caller frees *out. */
CR_MUST cr_status cr_roi_images(int64_t **out, const cr_roi *r, const cr_view *regions);
/* Fills channel_mapping, [regions, results, height, width] of int32. */
void cr_roi_mapping(const cr_roi *r, int32_t *out);

#endif
