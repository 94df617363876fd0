/* products.h - calls of products and convolutions as numbers, for files that a plan is written
 * to (c_products.c, rt_file.c). */
#ifndef CR_COMPILE_PRODUCTS_H
#define CR_COMPILE_PRODUCTS_H

#include "plan/plan.h"
#include "space/space.h"

enum { CR_PRODUCT_OUT, CR_PRODUCT_A, CR_PRODUCT_B, CR_PRODUCT_BIAS, CR_PRODUCT_OPERANDS };

/* out[..., n, m] = the sum over k of a[..., n, k] b[..., k, m], and bias[..., n, m]: strides
 * of rows, columns and terms in elements, and the dims before the rows, with a step for each
 * operand.  `bias` may be NULL.
 * Invariant: batch is the number of dims before the rows, which `space` has with a step for
 * each of out, a, b and bias. Without bias, cn and cm are 0. */
typedef struct {
    const cr_array *out, *a, *b, *bias;
    int64_t n, m, depth, on, om, an, ak, bk, bm, cn, cm;
    int batch;
    cr_space space;
} cr_product;

/* Numbers of a convolution of one or two dims, in the order of cv_convolution
 * (file/convolve.inc): channels and results of a group, rows and columns of the image and of
 * the weight, strides, padding, dilation, images, groups, rows and columns of the result, and
 * the strides of the image and of the result. */
typedef enum {
    CR_CONVOLUTION,        /* out is computed of x and w */
    CR_CONVOLUTION_SPREAD, /* x of out and w: a transposed one */
    CR_CONVOLUTION_WEIGH   /* w of out and x */
} cr_convolution_kind;
typedef struct {
    cr_convolution_kind kind;
    const cr_array *out, *x, *w, *bias;
    int64_t number[24];
} cr_convolution;

/* False: the call is none.  *why: what it has that the numbers cannot say, or unchanged. */
bool cr_product_of(cr_product *out, const cr_library *c, const char **why);
bool cr_convolution_of(cr_convolution *out, const cr_library *c, const char **why);
/* The dim along which a call of (self, dim) goes. */
int cr_library_dim(const cr_library *c);
/* Whether elements follow one another in row-major order. */
bool cr_array_is_dense(const cr_array *a);

#endif
