/* pool.h - pooling of planes in three dimensions (leading ones of size 1 when fewer).
 *
 * A plane is the last spatial dimensions of an image's channel; every array holds
 * `planes` of them, row-major.  Dtypes are F32, F64 and I64; callers convert others.
 * Indices are flat positions in the input plane. */
#ifndef CR_KERN_POOL_H
#define CR_KERN_POOL_H

#include "num/view.h"

typedef struct {
    int64_t planes;
    int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
    bool count_pad;  /* average: padding counts */
    int64_t divisor; /* average: instead of the count; 0: none */
    bool adaptive;   /* windows divide the input evenly; kernel to dilation are unused */
} cr_pool;

/* NaN wins; equal values give the first position.  `index` may be NULL when not adaptive. */
void cr_pool_max(const cr_pool *p, cr_dtype t, const void *x, void *y, int64_t *index);
/* The same of float32 planes that lie together by `block`: position i of a plane is block values
 * at i * block.  p->planes counts the blocks. */
void cr_pool_max_blocked(const cr_pool *p, int64_t block, const float *x, float *y);
/* The windows of a call of entry `_max_pool` with these views. */
cr_pool cr_pool_max_windows(const cr_view *in, const cr_view *out, const cr_value *arg);
void cr_pool_average(const cr_pool *p, cr_dtype t, const void *x, void *y);
/* The transpose of cr_pool_average; sets all of x.  F32 and F64. */
void cr_pool_spread(const cr_pool *p, cr_dtype t, const void *y, void *x);

/* `planes` planes of `n` places against planes of `m` positions: x[index] += y (x is
 * zeroed first), y = x[index], x[index] = y.  Indices must be inside. */
typedef struct {
    int64_t planes, n, m;
} cr_pool_places;
void cr_pool_scatter(const cr_pool_places *p, cr_dtype t, const void *y, const int64_t *index, void *x);
void cr_pool_gather(const cr_pool_places *p, cr_dtype t, const void *x, const int64_t *index, void *y);
void cr_pool_put(const cr_pool_places *p, cr_dtype t, const void *y, const int64_t *index, void *x);
/* The first index outside [0, m), or -1 (and *found false) when there is none. */
int64_t cr_pool_bad_index(const int64_t *index, int64_t n, int64_t m, bool *found);

#endif
