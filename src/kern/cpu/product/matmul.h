/* matmul.h - matrix products on strided memory.
 *
 * One description serves every dtype: gemm_real.h computes float32 and float64, oneDNN
 * bfloat16, BLAS complex; loops compute integers and products that are too small for a call.
 * The order in which the products of an element are added depends on sizes and layouts only,
 * never on the number of threads. */
#ifndef CR_KERN_MATMUL_H
#define CR_KERN_MATMUL_H

#include "space/space.h"

/* Element (i, j) is at data + (i*row + j*col) * item size. */
typedef struct {
    char *data;
    int64_t row, col;
} cr_matrix;

/* c = beta * c + alpha * a b, with a of m x k and b of k x n; c is m x n with unit column
 * stride.  With beta 0, c may be uninitialized.  c overlaps neither operand. With a bias, which
 * is n adjacent numbers, beta is 0, and the bias takes the place of each row of beta * c. */
typedef struct {
    cr_dtype dtype; /* of a, b and c; not BOOL */
    int64_t m, n, k;
    cr_matrix a, b, c;
    cr_scalar alpha, beta;
    const char *bias; /* or NULL */
} cr_gemm;

/* Fails with CR_MEMORY only. */
CR_MUST cr_status cr_gemm_run(const cr_gemm *g);

/* Some products are faster when the rows of b have unit stride.  A caller that multiplies by
 * one b several times may make such a copy once and pass it as b: the bits are the same. */
bool cr_gemm_copies_b(const cr_gemm *g);
size_t cr_gemm_copy_bytes(const cr_gemm *g);
/* `to` is aligned for vector loads.  Returns the copy as b. */
cr_matrix cr_gemm_copy_b(const cr_gemm *g, void *to);

/* Products of one size, at the positions of a space.  Not initialized: a space is long. */
typedef struct {
    cr_gemm one;    /* the data pointers are those of batch index 0 */
    cr_space space; /* of the batch; steps of a, b and c in bytes */
} cr_gemm_batch;

/* Starts a batch of one product like `one`. */
void cr_gemm_batch_start(cr_gemm_batch *b, const cr_gemm *one);
/* Adds an innermost dim; strides count elements. */
void cr_gemm_batch_add(cr_gemm_batch *b, int64_t size, int64_t a_stride, int64_t b_stride,
                       int64_t c_stride);

CR_MUST cr_status cr_gemm_batch_run(const cr_gemm_batch *b);

/* A gemm with alpha 1 and beta 0 of the given dtype. */
static inline cr_gemm cr_gemm_plain(cr_dtype dtype, int64_t m, int64_t n, int64_t k)
{
    return (cr_gemm){.dtype = dtype,
                     .m = m,
                     .n = n,
                     .k = k,
                     .alpha = cr_scalar_int(1),
                     .beta = cr_scalar_int(0)};
}

#endif
