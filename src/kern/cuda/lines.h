/* lines.h - the lines of arrays along a dim, as kernels on NVIDIA devices get them. */
#ifndef CR_KERN_CUDA_LINES_H
#define CR_KERN_CUDA_LINES_H

#include "cresset_backend.h"
#include "num/dtype.h"
#include "space/space.h"

enum { CR_CUDA_DIMS = 8 };

/* The dims outside of a line, merged, and their steps in bytes for each of three operands. */
typedef struct {
    int64_t ndim, size[CR_CUDA_DIMS], step[3][CR_CUDA_DIMS];
} cr_cuda_dims;

/* Sets the dims of a[2] but `dim`, and the number of lines.  The other operands may be NULL,
 * and may lack the dim.  False if there are too many dims. */
static inline bool cr_cuda_lines(cr_cuda_dims *out, int64_t *lines, const cr_array *const a[3],
                                 int dim)
{
    cr_space s;

    cr_space_start(&s, 3);
    for (int d = 0; d < a[2]->ndim; d++) {
        if (d == dim)
            continue;
        int64_t *step = cr_space_add(&s, a[2]->size[d], d);
        for (int k = 0; k < 3; k++) {
            int at = a[k] && a[k]->ndim < a[2]->ndim && d > dim ? d - 1 : d;
            step[k] =
                a[k] ? a[k]->stride[at] * (int64_t)cr_dtype_size((cr_dtype)a[k]->dtype) : 0;
        }
    }
    cr_space_merge(&s, 0);
    out->ndim = s.ndim;
    *lines = cr_space_count(&s, s.ndim);
    for (int d = 0; d < s.ndim && d < CR_CUDA_DIMS; d++) {
        out->size[d] = s.dim[d].size;
        for (int k = 0; k < 3; k++)
            out->step[k][d] = s.dim[d].step[k];
    }
    return s.ndim <= CR_CUDA_DIMS;
}

/* Makes operand k dense: `bytes` from a line to the next one. */
static inline void cr_cuda_dense_lines(cr_cuda_dims *dims, int k, int64_t bytes)
{
    for (int d = (int)dims->ndim - 1; d >= 0; d--) {
        dims->step[k][d] = bytes;
        bytes *= dims->size[d];
    }
}

#endif
