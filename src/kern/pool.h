/* pool.h - pooling of planes in three dimensions (missing leading dimensions have size 1).
 *
 * A plane is the spatial dimensions of one channel of one image.  Every array holds `planes`
 * planes, row-major.  Dtypes are F32, F64 and I64; callers convert others.  Indices are flat
 * positions in the input plane. */
#ifndef CR_KERN_POOL_H
#define CR_KERN_POOL_H

#include "num/view.h"

typedef struct {
    int64_t planes;
    int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
    bool count_pad;  /* average: padding counts */
    int64_t divisor; /* average: used instead of the count; 0: none */
    /* the windows divide the input evenly; kernel, stride, padding and dilation are unused */
    bool adaptive;
} cr_pool;

/* NaN wins; of equal values the first position wins.  `index` may be NULL when not adaptive. */
void cr_pool_max(const cr_pool *p, cr_dtype t, const void *x, void *y, int64_t *index);
/* The same for blocks of `block` interleaved float32 planes: position i of a plane is `block`
 * values at i * block.  p->planes counts blocks. */
void cr_pool_max_blocked(const cr_pool *p, int64_t block, const float *x, float *y);
/* The windows of a call of entry `_max_pool` with these views. */
cr_pool cr_pool_max_windows(const cr_view *in, const cr_view *out, const cr_value *arg);
void cr_pool_average(const cr_pool *p, cr_dtype t, const void *x, void *y);
/* The transpose of cr_pool_average; writes all of x.  F32 and F64. */
void cr_pool_spread(const cr_pool *p, cr_dtype t, const void *y, void *x);

/* Indexed access between `planes` planes of `n` values and planes of `m` positions: scatter
 * sets x to zero and adds x[index] += y, put sets x[index] = y.
 * Indices must be in range. */
typedef struct {
    int64_t planes, n, m;
} cr_pool_places;
void cr_pool_scatter(const cr_pool_places *p, cr_dtype t, const void *y, const int64_t *index,
                     void *x);
void cr_pool_put(const cr_pool_places *p, cr_dtype t, const void *y, const int64_t *index,
                 void *x);
/* The first index outside [0, m).  Sets *found to false and returns -1 when there is none. */
int64_t cr_pool_bad_index(const int64_t *index, int64_t n, int64_t m, bool *found);

#endif
