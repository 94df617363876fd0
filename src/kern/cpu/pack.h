/* pack.h - dense copies of views, for kernels that need rows without gaps.
 *
 * Library kernels read contiguous memory of a few dtypes.  A cr_dense is either the view's own
 * memory (no copy) or an owned buffer in row-major order. */
#ifndef CR_KERN_PACK_H
#define CR_KERN_PACK_H

#include "base/memory.h"
#include "num/view.h"

typedef struct {
    char *data;  /* row-major elements, in memory of the view's device */
    void *owned; /* NULL when `data` is the memory of the view */
    cr_device device;
    uint32_t block; /* of `owned` on a device */
} cr_dense;

/* Scratch memory from the device's cache, aligned for vector loads; freed with
 * cr_aligned_free.  NULL and a record without memory. */
void *cr_aligned_alloc(size_t size);
void cr_aligned_free(void *p);

/* Copies `v` in row-major order to `dst` as dtype `to`: v's own dtype, F32, F64, I64 or C128.
 * Complex is not converted to real. */
void cr_pack(void *dst, cr_dtype to, const cr_view *v);
/* Copies n row-major elements of dtype `from` (the own dtype of `v`, F32, F64, I64 or C128)
 * into the view `v`. */
void cr_unpack(const cr_view *v, const void *src, cr_dtype from);

/* Makes the elements of `v` readable as dtype `to`.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_dense_in(cr_dense *d, const cr_view *v, cr_dtype to);
/* Makes room for a result that cr_dense_store copies into `v`; the contents are undefined.
 * Fails with CR_MEMORY. */
CR_MUST cr_status cr_dense_out(cr_dense *d, const cr_view *v, cr_dtype from);
/* Undefined bytes on a device or the host; CR_MEMORY. */
CR_MUST cr_status cr_dense_take(cr_dense *d, cr_device device, size_t bytes);
/* Fails on a device only. */
cr_status cr_dense_store(const cr_dense *d, const cr_view *v, cr_dtype from);
/* Sets `bytes` bytes to zero. */
CR_MUST cr_status cr_dense_clear(const cr_dense *d, size_t bytes);
void cr_dense_drop(cr_dense *d);

#endif
