/* entries.h - kernels of entries on NVIDIA devices, as they are registered: (device, arguments,
 * results). */
#ifndef CR_KERN_CUDA_ENTRIES_H
#define CR_KERN_CUDA_ENTRIES_H

#include "cresset_backend.h"
#include "space/space.h"

static inline bool cr_is_dense_array(const cr_array *a)
{
    return cr_is_contiguous(a->ndim, a->size, a->stride);
}

/* Ranges of numbers (sequence.c). */
const char *cr_cuda_arange(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_range(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_linspace(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_logspace(int device, const cr_given *arg, const cr_array *result);
/* Triangles of matrices (move.c). */
const char *cr_cuda_tril(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_triu(int device, const cr_given *arg, const cr_array *result);
/* Random numbers (random.c). */
const char *cr_cuda_uniform(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_normal(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_log_normal(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_cauchy(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_exponential(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_geometric(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_random(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_random_from(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_random_to(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_bernoulli_float(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_bernoulli_tensor(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_bernoulli(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_dropout_mask(int device, const cr_given *arg, const cr_array *result);
/* Orders of lines, and searches (order.c). */
const char *cr_cuda_sort_lines(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_sort_stable(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_topk(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_kthvalue(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_median(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_nanmedian(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_median_dim(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_nanmedian_dim(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_mode(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_randperm(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_searchsorted(int device, const cr_given *arg, const cr_array *result);
/* Selections, whose sizes depend on elements (select.c). */
const char *cr_cuda_nonzero(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_nonzero_sizes(int device, const cr_given *arg, cr_shape *out);
const char *cr_cuda_masked_select(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_masked_select_sizes(int device, const cr_given *arg, cr_shape *out);
const char *cr_cuda_bincount(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_bincount_sizes(int device, const cr_given *arg, cr_shape *out);
const char *cr_cuda_repeats_sizes(int device, const cr_given *arg, cr_shape *out);
const char *cr_cuda_repeat_each_sizes(int device, const cr_given *arg, cr_shape *out);
/* Counts of equal bins (bins.c). */
const char *cr_cuda_bin_counts(int device, const cr_given *arg, const cr_array *result);
/* Scans (scan.c). */
const char *cr_cuda_cumsum(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_cumprod(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_cummax(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_cummin(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_logcumsumexp(int device, const cr_given *arg, const cr_array *result);
/* Resampling and its transpose (resample.c). */
const char *cr_cuda_upsample(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_upsample_backward(int device, const cr_given *arg, const cr_array *result);
/* Bags of embeddings (bag.c). */
const char *cr_cuda_embedding_bag(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_largest_of_bags(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_bags_of(int device, const cr_given *arg, const cr_array *result);
/* Attention of half types (attention.c). */
const char *cr_cuda_attention(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_attention_backward(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_attention_backward_joined(int device, const cr_given *arg,
                                              const cr_array *result);
/* The gradient of max pooling, where its windows are known (window.c). */
const char *cr_cuda_pool_scatter(int device, const cr_given *arg, const cr_array *result);
/* Cross entropy of classes (entropy.c). */
const char *cr_cuda_class_entropy(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_class_entropy_backward(int device, const cr_given *arg,
                                           const cr_array *result);
/* Steps of recurrent layers (recurrent.c). */
const char *cr_cuda_rnn_steps(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_rnn_steps_backward(int device, const cr_given *arg, const cr_array *result);
/* Fourier transforms (fft.c). */
const char *cr_cuda_fft_c2c(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_fft_r2c(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_fft_c2r(int device, const cr_given *arg, const cr_array *result);
/* Batch norm (norm.c). */
const char *cr_cuda_batch_norm(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_batch_norm_given(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_batch_norm_backward(int device, const cr_given *arg,
                                        const cr_array *result);
const char *cr_cuda_batch_norm_relu(int device, const cr_given *arg, const cr_array *result);
const char *cr_cuda_batch_norm_relu_backward(int device, const cr_given *arg,
                                             const cr_array *result);
const char *cr_cuda_batch_norm_masked_backward(int device, const cr_given *arg,
                                               const cr_array *result);
/* Gradients of a layer norm's weight and bias, and of an RMS norm's weight (layer_norm.c). */
const char *cr_cuda_layer_norm_parameters(int device, const cr_given *arg,
                                          const cr_array *result);
const char *cr_cuda_rms_norm_weight(int device, const cr_given *arg, const cr_array *result);

#endif
