/* deform_job.h - deformable convolutions, as their loops get them. */
#ifndef CR_KERN_DEFORM_JOB_H
#define CR_KERN_DEFORM_JOB_H

#include "kern/cpu/plane/spread_job.h"

enum { DEFORM_CHANNELS = 16, DEFORM_PLACES = 32 };

typedef struct {
    int64_t images, channels, offset_groups;
    int64_t size[2], kernel[2], places[2]; /* places: the sizes of the result */
    int64_t stride[2], pad[2], dilation[2];
} deform;

typedef struct {
    deform d;
    const void *x, *offset, *mask; /* mask may be NULL */
    const void *g;                 /* the cotangent of the columns, or NULL */
    void *out;
    int64_t each;     /* channels of a unit */
    bool of_mask;     /* the derivative in the mask, not in the offsets */
    spread_list list; /* what places of taps send to elements, on a device */
    int64_t group;    /* the offset group of an image that has the list's first place */
} deform_job;

/* Elements of an image's plane, and of a channel's columns. */
static inline int64_t deform_plane(const deform *d) { return d->size[0] * d->size[1]; }
static inline int64_t deform_columns(const deform *d)
{
    return d->kernel[0] * d->kernel[1] * d->places[0] * d->places[1];
}

/* Ranges of channels in an offset group. */
static inline int64_t deform_ranges(const deform_job *w)
{
    return (w->d.channels / w->d.offset_groups + w->each - 1) / w->each;
}

#endif
