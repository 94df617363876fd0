/* pack.h - dense copies of views, for kernels that want rows without gaps.
 *
 * Library kernels read contiguous memory of a few dtypes.  A dense is either
 * the view's own memory (no copy) or an owned buffer in row-major order. */
#ifndef CR_KERN_PACK_H
#define CR_KERN_PACK_H

#include "base/memory.h"
#include "num/view.h"

typedef struct {
    char *data;  /* row-major elements */
    void *owned; /* NULL when `data` is the view's own */
} cr_dense;

/* Scratch memory from the device's cache, aligned for vector loads; freed with
 * cr_aligned_free.  NULL and a record when there is none. */
void *cr_aligned_alloc(size_t size);
void cr_aligned_free(void *p);

/* Copies `v` in row-major order to `dst` as dtype `to`: v's own dtype, F32, F64,
 * I64 or C128.  Complex to real is not a conversion. */
void cr_pack(void *dst, cr_dtype to, const cr_view *v);
/* Copies n row-major elements of dtype `from` (t's own dtype, F32, F64, I64 or
 * C128) into the view `v`. */
void cr_unpack(const cr_view *v, const void *src, cr_dtype from);

/* `v` to be read as dtype `to`.  CR_MEMORY. */
CR_MUST cr_status cr_dense_in(cr_dense *d, const cr_view *v, cr_dtype to);
/* Room for a result that cr_dense_store puts into `v`; contents undefined.  CR_MEMORY. */
CR_MUST cr_status cr_dense_out(cr_dense *d, const cr_view *v, cr_dtype from);
void cr_dense_store(const cr_dense *d, const cr_view *v, cr_dtype from);
void cr_dense_drop(cr_dense *d);

/* Copies `from` into the contiguous view `to` of the same dtype, broadcasting sizes. */
void cr_broadcast_copy(const cr_view *to, const cr_view *from);

#endif
