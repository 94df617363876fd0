/* product.h - matrix products on NVIDIA devices, by cuBLASLt, and convolutions, by cuDNN.
 *
 * A product's algorithm is a function of its key: the device, sizes, transposes, dtype,
 * distances of rows, alignment.  One table for the process keeps the algorithms, so eager and
 * compiled programs get the same bits.  float32 is not rounded to TF32. */
#ifndef CR_KERN_CUDA_PRODUCT_H
#define CR_KERN_CUDA_PRODUCT_H

#include "cresset_backend.h"

/* The error of a request for memory that failed: torch's text. */
const char *cr_cuda_no_memory(int index, size_t bytes);

/* c = beta c + alpha a b + bias, for a batch of matrices of float32: a has m rows and k
 * columns, b has n columns.  `deep`: elements are adjacent along k, otherwise along the other
 * dim; `step` is the distance of such lines.  Declines a product that the library computes.
 * Invariant: m, n, k and batch are positive, and c overlaps no operand. */
typedef struct {
    float *c;
    const float *a, *b, *bias; /* bias: a number for each column, or NULL */
    int64_t a_step, b_step, c_step, a_batch, b_batch, c_batch, m, n, k, batch;
    float alpha, beta;
    int32_t index, a_deep, b_deep;
} cr_product_f32;
const char *cr_cuda_product_f32(const cr_product_f32 *p);

/* The version of cuDNN, such as 91002; 0 if it is missing. */
int cr_cuda_cudnn_version(void);

/* Whether products of float32 may round their operands to TF32; off by default. */
void cr_cuda_allow_tf32(bool on);

/* The same for convolutions. */
void cr_cuda_allow_conv_tf32(bool on);

/* Convolutions (conv.c), as entries call them. */
const char *cr_cuda_convolution(int index, const cr_given *arg, const cr_array *result);
const char *cr_cuda_conv_output(int index, const cr_given *arg, const cr_array *result);
const char *cr_cuda_conv_input_grad(int index, const cr_given *arg, const cr_array *result);
const char *cr_cuda_conv_weight_grad(int index, const cr_given *arg, const cr_array *result);

/* The number of plans for Fourier transforms that a device keeps.  *most: sets how many it may
 * keep unless it is negative, and becomes that number. */
int64_t cr_cuda_fft_plans(int device, int64_t *most);

#endif
