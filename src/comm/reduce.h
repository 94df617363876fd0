/* reduce.h - reductions of the elements of two ranks. */
#ifndef CR_COMM_REDUCE_H
#define CR_COMM_REDUCE_H

#include "num/dtype.h"

typedef enum {
#define CR_REDUCE(NAME, name) CR_REDUCE_##NAME,
#include "comm/reduce.def"
#undef CR_REDUCE
    CR_REDUCE_COUNT
} cr_reduce_op;

const char *cr_reduce_name(cr_reduce_op op);
/* Fails with CR_VALUE when `op` is not defined for the dtype. */
CR_MUST cr_status cr_reduce_check(cr_reduce_op op, cr_dtype dtype);
/* out[i] = a[i] op b[i]; `out` may be `a` or `b`.  AVG and PREMUL_SUM add.  The pair must have
 * passed cr_reduce_check. */
void cr_reduce(cr_reduce_op op, cr_dtype dtype, void *out, const void *a, const void *b,
               int64_t n);
/* Multiplies n elements of a floating or complex dtype by a number. */
void cr_reduce_scale(cr_dtype dtype, void *at, int64_t n, double factor);
/* Divides n sums of AVG by the number of ranks; quotients of integers lose their fraction, as
 * NCCL's do. */
void cr_reduce_average(cr_dtype dtype, void *at, int64_t n, int ranks);

#endif
