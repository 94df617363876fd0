/* grid.h - images sampled at points.
 *
 * The image is [batch, channels, size...] in two or three dimensions, the grid
 * [batch, out..., dims] with coordinates in [-1, 1], last dimension first.  Dtypes
 * are F32 and F64; everything is row-major. */
#ifndef CR_KERN_GRID_H
#define CR_KERN_GRID_H

#include "num/view.h"

typedef enum { CR_GRID_LINEAR, CR_GRID_NEAREST, CR_GRID_CUBIC } cr_grid_mode;
typedef enum { CR_GRID_ZEROS, CR_GRID_BORDER, CR_GRID_REFLECT } cr_grid_padding;

typedef struct {
    int dims;
    int64_t batch, channels, points; /* points of one image */
    int64_t size[3];                 /* of the image, `dims` of them */
    cr_grid_mode mode;
    cr_grid_padding padding;
    bool align_corners;
} cr_grid;


#endif
