/* grid.h - samples images at points.
 *
 * The image is [batch, channels, size...] with two or three spatial dimensions.  The grid is
 * [batch, out..., dims] with coordinates in [-1, 1], those of the last dimension first.  Dtypes
 * are F32 and F64; all arrays are row-major. */
#ifndef CR_KERN_GRID_H
#define CR_KERN_GRID_H

#include "kern/cpu/plane/spread_job.h"

typedef enum { CR_GRID_LINEAR, CR_GRID_NEAREST, CR_GRID_CUBIC } cr_grid_mode;
typedef enum { CR_GRID_ZEROS, CR_GRID_BORDER, CR_GRID_REFLECT } cr_grid_padding;

typedef struct {
    int dims;
    int64_t batch, channels, points; /* points: of one image */
    int64_t size[3];                 /* of the image: `dims` sizes */
    cr_grid_mode mode;
    cr_grid_padding padding;
    bool align_corners;
} cr_grid;

enum {
    GRID_FEW = 8,
    GRID_CHANNELS = 16 /* of a unit on a device */
};

/* Arrays are row-major memory of the device that runs the loops. */
typedef struct {
    cr_grid g;
    const void *x, *gy, *grid;
    const void *along; /* a direction for each point, or NULL */
    void *out;
    int64_t plane;    /* elements of a channel */
    int64_t parts;    /* of the channels of an image, which are computed apart */
    spread_list list; /* what points send to elements, on a device */
    int64_t image;    /* the first one of the list's places */
    int tap_bits;     /* a point has 1 << tap_bits contributions */
} grid_job;

#endif
