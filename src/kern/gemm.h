/* gemm.h - matrix products of float32 and float64 in cache-sized blocks.
 *
 * An element's products are added in order within blocks of k of fixed length, and
 * the blocks' sums in order: the result does not depend on threads, and on the layout
 * of the operands only when one is a vector. */
#ifndef CR_KERN_GEMM_H
#define CR_KERN_GEMM_H

#include "kern/matmul.h"

/* F32 or F64; any strides of a and b; c has unit column stride.  m, n, k at least 1.  CR_MEMORY. */
CR_MUST cr_status cr_gemm_tiled(const cr_gemm *g);

#endif
