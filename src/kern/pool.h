/* pool.h - windows of interleaved planes, and elements at positions in planes. */
#ifndef CR_KERN_POOL_H
#define CR_KERN_POOL_H

#include "num/view.h"

/* A plane has three dimensions; missing leading ones have size 1. */
typedef struct {
    int64_t planes;
    int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
} cr_pool;

/* The greatest elements of windows in planes of which `block` are interleaved: position i of a
 * plane is `block` values at i * block.  p->planes counts blocks.  NaN wins. */
void cr_pool_max_blocked(const cr_pool *p, int64_t block, const float *x, float *y);
/* The windows of a call of entry `_max_pool` with these views. */
cr_pool cr_pool_max_windows(const cr_view *in, const cr_view *out, const cr_value *arg);

#endif
