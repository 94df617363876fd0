/* cuda.h - kernels for NVIDIA devices. */
#ifndef CR_JIT_CUDA_H
#define CR_JIT_CUDA_H

#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

/* Installs the functions of device/cuda's table that run kernels. */
void cr_cuda_install(void);

/* Elements of `dense` and their places in `table`: element i is at index[i] * unit bytes from
 * the place that the table's strides give.  Strides are in elements; one of the table, or of
 * the index, is 0 where it does not depend on a dim. */
typedef struct {
    int ndim, item; /* item: bytes of an element */
    const int64_t *size, *dense_stride, *table_stride, *index_stride;
    char *dense, *table;
    const char *index;
    int64_t unit, extent;
    bool is32, wraps; /* the index is int32; indices below 0 count from the end */
} cr_cuda_index;
/* Reads elements of the table, and writes elements of the table: the last one of several at one
 * place.  An index out of range reads 0 or writes nothing, and raises later (late.c) an error
 * of this kind and text.  cr_device_declines for more dims than a kernel takes. */
const char *cr_cuda_pick(int device, const cr_cuda_index *x, cr_status kind, const char *text,
                         bool *done);
const char *cr_cuda_place(int device, const cr_cuda_index *x, cr_status kind, const char *text,
                          bool *done);

/* out[i] = best[i] * unit + part[i / columns, best[i], i % columns], where part has the sizes
 * [n / columns, parts, columns]; all are int64 elements on the device. */
typedef struct {
    int64_t *out;
    const int64_t *best, *part;
    int64_t n, columns, parts, unit;
} cr_cuda_parts;
const char *cr_cuda_join_indices(int device, const cr_cuda_parts *p);

#endif
