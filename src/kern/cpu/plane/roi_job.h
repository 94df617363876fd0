/* roi_job.h - the poolings of regions, as their loops get them.
 *
 * A region is a row [image, x1, y1, x2, y2].  Its result is a grid of `height` x `width` bins
 * for every channel; a position-sensitive pooling takes bin (p, q) of channel c from channel
 * (c * height + p) * width + q of the input. */
#ifndef CR_KERN_ROI_JOB_H
#define CR_KERN_ROI_JOB_H

#include "kern/loops.h"

enum { ROI_CHANNELS = 8 };

typedef struct {
    int64_t images, channels, rows, columns; /* the sizes of the input */
    int64_t regions, height, width;
    double scale;
    int64_t samples; /* in a bin and dimension; at most 0: by the region's size */
    bool aligned, sensitive;
} cr_roi;

/* Elements from `from` to `to` - 1. */
typedef struct {
    int64_t from, to;
} roi_window;

/* The samples of a region that read an element of a row, or of a column: from sample `from` of
 * bin `bin` on, before sample `to` of bin `last`; none if `last` is negative. */
typedef struct {
    int64_t bin, last, from, to;
} roi_near;

/* A call of a function on regions of images.
 * Invariant: the host sets taps, first and window, a device `measured` and, of a derivative,
 * `near`; the others are NULL. */
typedef struct {
    cr_roi r;
    const void *x, *regions; /* x: the input, or the cotangent of the result */
    void *out;
    int32_t *argmax;
    int64_t each;   /* channels of a unit, at most ROI_CHANNELS */
    bool by_bin;    /* a unit of `average` has one bin */
    void *measured; /* the regions, as `measure` writes them on a device, or NULL */
    /* The derivative on a device: `some` regions from `region` on; `x` and `out` have channels
     * last, but position-sensitive results have them first. */
    int64_t region, some;
    roi_near *near; /* of each of them, for rows, then columns */
    uint32_t *mask;
    cr_loops_error error; /* a region of an image that does not exist */
    cr_loops_error wrong_argmax;
    /* What the host makes once for all channels; NULL on a device. */
    const void *taps;         /* of every region: those of rows of bins, then of columns */
    const int64_t *first;     /* where the taps of a row or column of bins begin */
    const roi_window *window; /* in the order of the taps */
} roi_job;

static inline int64_t cr_roi_plane(const cr_roi *r) { return r->rows * r->columns; }
static inline int64_t cr_roi_bins(const cr_roi *r) { return r->height * r->width; }
/* Channels of the result. */
static inline int64_t cr_roi_results(const cr_roi *r)
{
    return r->sensitive ? r->channels / cr_roi_bins(r) : r->channels;
}
/* Whether a region's number is one of an image; -0.5 is image 0. */
static inline bool cr_roi_has_image(const cr_roi *r, double number)
{
    return r->images && number > -1 && number < (double)r->images;
}
/* Units of `average` for a region and, by bin, for a bin of it. */
static inline int64_t cr_roi_ranges(const roi_job *w)
{
    return (cr_roi_results(&w->r) + w->each - 1) / w->each;
}
/* Words of the masks of the regions of a part. */
static inline int64_t cr_roi_words(const roi_job *w) { return (w->some + 31) / 32; }
/* Units of `gather` for a place of an image. */
static inline int64_t cr_roi_groups(const roi_job *w)
{
    return (w->r.channels + w->each - 1) / w->each;
}

#endif
