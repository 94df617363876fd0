/* Convolutions by oneDNN.
 *
 * The algorithm is always the direct one: left to choose, oneDNN takes Winograd's for some
 * batches (from 9 images on with AVX-512), depending on the caches.  oneDNN chooses the memory
 * formats (`any`), and the plain arrays are reordered before and after.
 *
 * Invariant: a sample's result, and its gradient, depend neither on the batch nor on the number
 * of threads.  Two kinds of kernels would break it, and are refused: conv.c then unfolds and
 * multiplies.  The gradient of the weight is a sum over the batch and is no part of this. */
#include "kern/conv.h"
#include "kern/cpu/library/dnnl.h"
#include "kern/cpu/plane/slide.h"
#include <limits.h>
#include <string.h>

typedef struct {
    cr_conv conv;
    int64_t kind, dtype, bias;
} conv_key;

typedef struct {
    dnnl_memory_desc_t plain, any;
} layout;

typedef struct {
    layout x, w, bias, y;
    dnnl_dims_t stride, dilation, before, after;
} problem;

static bool layout_describe(const cr_dnnl_table *d, layout *out, int ndim, const int64_t *size,
                            dnnl_data_type_t t)
{
    dnnl_dims_t stride;
    int64_t step = 1;

    for (int i = ndim - 1; i >= 0; i--) {
        stride[i] = step;
        step *= size[i];
    }
    return !d->dnnl_memory_desc_init_by_strides(&out->plain, ndim, size, t, stride) &&
           !d->dnnl_memory_desc_init_by_tag(&out->any, ndim, size, t, dnnl_format_tag_any);
}

static bool describe_all(const cr_dnnl_table *d, const conv_key *key, problem *p)
{
    const cr_conv *c = &key->conv;
    dnnl_data_type_t t = key->dtype == CR_F32 ? dnnl_f32 : dnnl_bf16;
    int64_t x[5] = {c->batch, c->groups * c->ic}, y[5] = {c->batch, c->groups * c->oc};
    int64_t w[6] = {c->groups, c->oc, c->ic}, bias = c->groups * c->oc;
    int dims = (int)c->dims, skip = c->groups == 1;

    memcpy(x + 2, c->in, (size_t)dims * sizeof *x);
    memcpy(y + 2, c->out, (size_t)dims * sizeof *x);
    memcpy(w + 3, c->kernel, (size_t)dims * sizeof *x);
    for (int i = 0; i < dims; i++) {
        p->stride[i] = c->stride[i];
        p->dilation[i] = c->dilation[i] - 1;
        p->before[i] = c->pad[i];
        p->after[i] = (c->out[i] - 1) * c->stride[i] + (c->kernel[i] - 1) * c->dilation[i] + 1 -
                      c->in[i] - c->pad[i];
    }
    return layout_describe(d, &p->x, dims + 2, x, t) &&
           layout_describe(d, &p->y, dims + 2, y, t) &&
           layout_describe(d, &p->w, dims + 3 - skip, w + skip, t) &&
           layout_describe(d, &p->bias, 1, &bias, t);
}

/* Kernels for windows of one element, and products over unfolded input, divide the channels of
 * a sum among threads when there are many threads and few images.  oneDNN names a kernel by its
 * kind and instruction set: jit:avx2, jit_1x1:avx512_core, x64:gemm:jit. */
static bool sums_by_threads(const cr_dnnl_table *d, dnnl_primitive_desc_t desc)
{
    const char *name = NULL;

    return d->dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) ||
           strstr(name, "1x1") || strstr(name, "gemm");
}

/* oneDNN 2.6 computes the gradient of x wrongly with AMX in two cases, which its source shows:
 * - The kernel copies rows of y, with the stride's zeros between the elements, to rows of at
 *   least extent + 17 columns.  A larger stride leaves a row without an element of y; then the
 *   number of columns is negative, and the copy writes over all memory behind the row.
 * - Of two tiles of 16 columns, the kernel stores the first while it computes the second.  A
 *   plane of the depth behind the last window has no products, and its first tile is not
 *   stored. */
static bool amx_input_gradient_fails(const cr_conv *c)
{
    int64_t last = c->dims - 1, extent = (c->kernel[last] - 1) * c->dilation[last] + 1;
    int64_t depth = (c->out[0] - 1) * c->stride[0] + (c->kernel[0] - 1) * c->dilation[0] + 1;

    return c->stride[last] > extent + 17 ||
           (c->dims == 3 && c->in[0] + c->pad[0] > depth && c->in[last] > 16);
}

/* oneDNN 2.6 writes behind its scratch memory with AMX, in the convolution and in the gradient
 * of w, where windows leave elements between them: 35 of 531 random convolutions and 2 of 464
 * gradients, run with a page without access behind every array.  Of 1,010 convolutions whose
 * windows leave none, none did. */
static bool leaves_gaps(const cr_conv *c)
{
    for (int64_t d = 0; d < c->dims; d++)
        if (c->stride[d] > (c->kernel[d] - 1) * c->dilation[d] + 1)
            return true;
    return false;
}

static bool fails_with_amx(const cr_dnnl_table *d, dnnl_primitive_desc_t desc,
                           const conv_key *key)
{
    const cr_conv *c = &key->conv;
    const char *name = NULL;

    return (key->kind == CR_CONV_X ? amx_input_gradient_fails(c) : leaves_gaps(c)) &&
           (d->dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) ||
            strstr(name, "amx"));
}

/* Takes the kernel that oneDNN chose.  False when it is refused; *desc is NULL then. */
static bool accept(const cr_dnnl_table *d, const conv_key *key, dnnl_primitive_desc_t *desc)
{
    if (!sums_by_threads(d, *desc) && !fails_with_amx(d, *desc, key))
        return true;
    d->dnnl_primitive_desc_destroy(*desc);
    *desc = NULL;
    return false;
}

static bool make_y(const cr_dnnl_table *d, const conv_key *key, problem *p, cr_dnnl_recipe *out)
{
    dnnl_convolution_desc_t desc;

    if (d->dnnl_dilated_convolution_forward_desc_init(
            &desc, dnnl_forward_training, dnnl_convolution_direct, &p->x.any, &p->w.any,
            key->bias ? &p->bias.plain : NULL, &p->y.any, p->stride, p->dilation, p->before,
            p->after) ||
        d->dnnl_primitive_desc_create(&out->desc, &desc, d->attr, d->engine, NULL) ||
        !accept(d, key, &out->desc))
        return false;
    cr_dnnl_operand(out, DNNL_ARG_SRC, false, &p->x.plain);
    cr_dnnl_operand(out, DNNL_ARG_WEIGHTS, false, &p->w.plain);
    cr_dnnl_operand(out, DNNL_ARG_DST, true, &p->y.plain);
    if (key->bias)
        cr_dnnl_operand(out, DNNL_ARG_BIAS, false, &p->bias.plain);
    return true;
}

static dnnl_primitive_desc_t forward_hint(const cr_dnnl_table *d, problem *p)
{
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t hint;

    if (d->dnnl_dilated_convolution_forward_desc_init(
            &desc, dnnl_forward_training, dnnl_convolution_direct, &p->x.any, &p->w.any, NULL,
            &p->y.any, p->stride, p->dilation, p->before, p->after) ||
        d->dnnl_primitive_desc_create(&hint, &desc, d->attr, d->engine, NULL))
        return NULL;
    return hint;
}

static bool make_x(const cr_dnnl_table *d, const conv_key *key, problem *p, cr_dnnl_recipe *out)
{
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t hint = forward_hint(d, p);
    bool ok;

    if (!hint)
        return false;
    ok = !d->dnnl_dilated_convolution_backward_data_desc_init(
             &desc, dnnl_convolution_direct, &p->x.any, &p->w.any, &p->y.any, p->stride,
             p->dilation, p->before, p->after) &&
         !d->dnnl_primitive_desc_create(&out->desc, &desc, d->attr, d->engine, hint) &&
         accept(d, key, &out->desc);
    d->dnnl_primitive_desc_destroy(hint);
    cr_dnnl_operand(out, DNNL_ARG_DIFF_SRC, true, &p->x.plain);
    cr_dnnl_operand(out, DNNL_ARG_WEIGHTS, false, &p->w.plain);
    cr_dnnl_operand(out, DNNL_ARG_DIFF_DST, false, &p->y.plain);
    return ok;
}

static bool make_w(const cr_dnnl_table *d, const conv_key *key, problem *p, cr_dnnl_recipe *out)
{
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t hint = forward_hint(d, p);
    bool ok;

    if (!hint)
        return false;
    ok = !d->dnnl_dilated_convolution_backward_weights_desc_init(
             &desc, dnnl_convolution_direct, &p->x.any, &p->w.any, NULL, &p->y.any, p->stride,
             p->dilation, p->before, p->after) &&
         !d->dnnl_primitive_desc_create(&out->desc, &desc, d->attr, d->engine, hint);
    d->dnnl_primitive_desc_destroy(hint);
    if (ok && fails_with_amx(d, out->desc, key)) {
        d->dnnl_primitive_desc_destroy(out->desc);
        out->desc = NULL;
        return false;
    }
    cr_dnnl_operand(out, DNNL_ARG_SRC, false, &p->x.plain);
    cr_dnnl_operand(out, DNNL_ARG_DIFF_WEIGHTS, true, &p->w.plain);
    cr_dnnl_operand(out, DNNL_ARG_DIFF_DST, false, &p->y.plain);
    return ok;
}

static bool conv_make_recipe(const cr_dnnl_table *d, const void *bytes, cr_dnnl_recipe *out)
{
    const conv_key *key = bytes;
    problem p;

    if (!describe_all(d, key, &p))
        return false;
    switch ((cr_conv_kind)key->kind) {
    case CR_CONV_Y: return make_y(d, key, &p, out);
    case CR_CONV_X: return make_x(d, key, &p, out);
    default: return make_w(d, key, &p, out);
    }
}

/* oneDNN's blocked kernels are slow with few channels.  With one channel (for the transpose in
 * x, with up to four) unfolding and multiplying takes a third to an eighth of their time. */
static bool too_few_channels(cr_conv_kind kind, const cr_conv *c)
{
    return c->groups == 1 && c->ic <= (kind == CR_CONV_X ? 4 : 1);
}

/* oneDNN 2.6 computes wrong gradients of the weight for some windows: it reads or writes
 * outside its arrays, or reads memory that was not written, so that results differ from call to
 * call. Random convolutions of one to three dims, with NaN around every array, showed this on a
 * processor with AVX-512, for bfloat16 and for float32.  Each wrong one had a dim where
 * - there is padding, and the input is smaller than the extent of the kernel, or
 * - the first window that begins in the input ends behind it, or
 * - a kernel element meets no input element in any window, or
 * - the stride is larger than the input.
 * Most convolutions with such a dim were right, but no narrower condition is known. */
static bool windows_outgrow_input(const cr_conv *c, int64_t d)
{
    cr_slide slide = {c->in[d], c->out[d], c->stride[d], c->pad[d], c->dilation[d]};
    int64_t extent = (c->kernel[d] - 1) * c->dilation[d] + 1, begin, end, at;
    int64_t window = (c->pad[d] + c->stride[d] - 1) / c->stride[d];
    int64_t first = window * c->stride[d] - c->pad[d];

    if ((c->pad[d] > 0 && c->in[d] < extent) || c->stride[d] > c->in[d] ||
        (window < c->out[d] && first + extent > c->in[d]))
        return true;
    for (int64_t k = 0; k < c->kernel[d]; k++) {
        cr_slide_range(&slide, k, &begin, &end, &at);
        if (begin >= end)
            return true;
    }
    return false;
}

static bool weight_gradient_fails(const cr_conv *c)
{
    for (int64_t d = 0; d < c->dims; d++)
        if (windows_outgrow_input(c, d))
            return true;
    return false;
}

/* Threads cost more than they save in convolutions that take about ten microseconds.  Others
 * get all threads and not a number between, because libgomp ends the threads that a smaller
 * team does not need, and a larger one starts them again.  Results for x and y do not depend on
 * it (see above). */
static int threads_by_work(const cr_conv *c)
{
    double products = (double)(c->batch * c->groups * c->ic * c->oc) *
                      (double)(cr_conv_volume(c, c->out) * cr_conv_volume(c, c->kernel));

    return products < 1 << 18 ? 1 : INT_MAX;
}

static cr_dnnl_primitive *primitive(cr_conv_kind kind, const cr_conv *c, cr_dtype t, bool bias)
{
    conv_key key = {.conv = *c, .kind = kind, .dtype = t, .bias = bias};

    if ((t != CR_F32 && t != CR_BF16) || (t == CR_F32 && too_few_channels(kind, c)) ||
        (kind == CR_CONV_W && weight_gradient_fails(c)))
        return NULL;
    return cr_dnnl_get(&key, sizeof key, conv_make_recipe, threads_by_work(c));
}

cr_dnnl_primitive *cr_conv_primitive(const cr_conv *c, cr_dtype t, bool bias)
{
    return primitive(CR_CONV_Y, c, t, bias);
}

cr_status cr_conv_dnnl(bool *done, cr_conv_kind kind, const cr_conv *c, cr_dtype t, char *x,
                       char *w, char *bias, char *y)
{
    cr_dnnl_primitive *p = primitive(kind, c, t, bias != NULL);
    void *data[] = {x, w, y, bias};
    cr_status st;

    *done = p != NULL;
    if (!p)
        return CR_OK;
    st = cr_dnnl_run(p, data);
    cr_dnnl_release(p);
    return st;
}

bool cr_conv_has_dnnl(void) { return cr_dnnl() != NULL; }

void cr_conv_dnnl_log(int level)
{
    const cr_dnnl_table *d = cr_dnnl();

    if (d)
        d->dnnl_set_verbose(level);
}
