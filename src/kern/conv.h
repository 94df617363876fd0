/* conv.h - convolutions of dense arrays in one to three spatial dimensions.
 *
 * x is [batch, groups * ic, in...], w is [groups * oc, ic, kernel...], y is [batch, groups *
 * oc, out...]; all row-major.  The three functions below are the convolution and its two
 * transposes; a transposed convolution is cr_conv_to_x.  `out` is an argument and may be
 * smaller than the largest possible output. */
#ifndef CR_KERN_CONV_H
#define CR_KERN_CONV_H

#include "num/view.h"

enum { CR_CONV_DIMS = 3 };

typedef struct {
    int64_t dims; /* spatial dimensions, 1 to 3: the entries in use of the arrays below */
    int64_t batch, groups;
    int64_t ic, oc; /* channels of one group */
    int64_t in[CR_CONV_DIMS], out[CR_CONV_DIMS], kernel[CR_CONV_DIMS];
    int64_t stride[CR_CONV_DIMS], pad[CR_CONV_DIMS], dilation[CR_CONV_DIMS];
} cr_conv;

/* y = x convolved with w, plus bias (one element per channel of y, or NULL).  Fails with
 * CR_MEMORY. */
CR_MUST cr_status cr_conv_to_y(const cr_conv *c, cr_dtype t, char *x, char *w, char *bias,
                               char *y);
/* x = the transpose applied to y, plus bias (one element per channel of x, or NULL).  Fails
 * with CR_MEMORY. */
CR_MUST cr_status cr_conv_to_x(const cr_conv *c, cr_dtype t, char *y, char *w, char *bias,
                               char *x);
/* w = the sum over the batch of products of y and x.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_conv_to_w(const cr_conv *c, cr_dtype t, char *x, char *y, char *w);

/* Unfolds: column o of `col` is the window of x at output position o.  x is one group of one
 * image, [ic, in...]; col is [ic * kernel..., out...]. */
void cr_conv_im2col(const cr_conv *c, cr_dtype t, const char *x, char *col);
/* Adds each element of every column to its position in x; the caller initializes x. */
void cr_conv_col2im(const cr_conv *c, cr_dtype t, const char *col, char *x);

/* Whether oneDNN is found, and its log: level 0, 1 or 2. */
bool cr_conv_has_dnnl(void);
void cr_conv_dnnl_log(int level);
/* Runs oneDNN's kernel (conv_dnnl.c).  *done is false when oneDNN has no kernel for this
 * case. */
typedef enum { CR_CONV_Y, CR_CONV_X, CR_CONV_W } cr_conv_kind;
CR_MUST cr_status cr_conv_dnnl(bool *done, cr_conv_kind kind, const cr_conv *c, cr_dtype t,
                               char *x, char *w, char *bias, char *y);

/* The oneDNN primitive that cr_conv_to_y runs for the problem with cr_threads() threads.  Its
 * operands are x, w, y and the bias, when there is one.  The caller owns a reference.  NULL
 * when cr_conv_to_y does not use oneDNN. */
struct cr_dnnl_primitive;
enum { CR_CONV_ARG_X, CR_CONV_ARG_W, CR_CONV_ARG_Y, CR_CONV_ARG_BIAS };
struct cr_dnnl_primitive *cr_conv_primitive(const cr_conv *c, cr_dtype t, bool bias);
/* The problem of a call of entry `convolution` with these views; not transposed. */
cr_conv cr_conv_problem(const cr_view *x, const cr_view *w, const cr_view *y,
                        const cr_value *arg);

/* The product of the sizes. */
static inline int64_t cr_conv_volume(const cr_conv *c, const int64_t *size)
{
    int64_t n = 1;

    for (int64_t d = 0; d < c->dims; d++)
        n *= size[d];
    return n;
}

#endif
