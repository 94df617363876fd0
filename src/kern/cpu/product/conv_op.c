/* The table entries of convolutions: translate arguments to problems. */
#include "base/parallel.h"
#include "kern/conv.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/walk.h"
#include <string.h>

/* Sizes of x, w and y.  `step` has the arguments stride, padding, dilation. */
static cr_conv problem(const cr_view *x, const cr_view *w, const cr_view *y,
                       const cr_value *step, int64_t groups)
{
    cr_conv c = {.dims = w->ndim - 2, .batch = x->size[0], .groups = groups};

    c.ic = w->size[1];
    c.oc = w->size[0] / groups;
    for (int64_t d = 0; d < c.dims; d++) {
        c.in[d] = x->size[d + 2];
        c.out[d] = y->size[d + 2];
        c.kernel[d] = w->size[d + 2];
        c.stride[d] = cr_value_item(&step[0], d);
        c.pad[d] = cr_value_item(&step[1], d);
        c.dilation[d] = cr_value_item(&step[2], d);
    }
    return c;
}

cr_conv cr_conv_problem(const cr_view *x, const cr_view *w, const cr_view *y,
                        const cr_value *arg)
{
    return problem(x, w, y, arg + 3, arg[8].i);
}

/* Dense x, w, bias and y of one call.  The array that is computed may be NULL in `from`. */
typedef struct {
    cr_dense x, w, bias, y;
} arrays;

static cr_status conv_array_load(cr_dense *d, const cr_view *v)
{
    return v ? cr_dense_in(d, v, (cr_dtype)v->dtype) : CR_OK;
}

static cr_status conv_arrays_load(arrays *a, const cr_view *x, const cr_view *w,
                                  const cr_view *bias, const cr_view *y)
{
    CR_TRY(conv_array_load(&a->x, x));
    CR_TRY(conv_array_load(&a->w, w));
    CR_TRY(conv_array_load(&a->bias, bias));
    return conv_array_load(&a->y, y);
}

static void conv_arrays_drop(arrays *a)
{
    cr_dense_drop(&a->x);
    cr_dense_drop(&a->w);
    cr_dense_drop(&a->bias);
    cr_dense_drop(&a->y);
}

/* `to_x`: the transposed convolution of `from`, which is y. */
static cr_status convolve(const cr_view *from, const cr_view *w, const cr_view *bias,
                          const cr_value *step, int64_t groups, const cr_view *out, bool to_x)
{
    const cr_view *x = to_x ? NULL : from, *y = to_x ? from : NULL;
    cr_conv c = problem(to_x ? out : x, w, to_x ? y : out, step, groups);
    cr_status (*run)(const cr_conv *, cr_dtype, char *, char *, char *, char *) =
        to_x ? cr_conv_to_x : cr_conv_to_y;
    arrays a = {{0}, {0}, {0}, {0}};
    cr_status st;

    if (!cr_view_numel(out))
        return CR_OK;
    CR_GO(conv_arrays_load(&a, x, w, bias, y));
    CR_GO(run(&c, (cr_dtype)out->dtype, to_x ? a.y.data : a.x.data, a.w.data, a.bias.data,
              out->data));
done:
    conv_arrays_drop(&a);
    return st;
}

/* (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
cr_status cr_kern_convolution(const cr_value *arg, cr_view *out)
{
    const cr_view *bias = arg[2].tag == CR_VIEW ? arg[2].view : NULL;

    return convolve(arg[0].view, arg[1].view, bias, arg + 3, arg[8].i, out, arg[6].i != 0);
}

/* (input, weight, output_size, stride, padding, dilation, groups) */
cr_status cr_kern_conv_output(const cr_value *arg, cr_view *out)
{
    return convolve(arg[0].view, arg[1].view, NULL, arg + 3, arg[6].i, out, false);
}

/* (grad_output, weight, input_size, stride, padding, dilation, groups) */
cr_status cr_kern_conv_input_grad(const cr_value *arg, cr_view *out)
{
    return convolve(arg[0].view, arg[1].view, NULL, arg + 3, arg[6].i, out, true);
}

/* (grad_output, input, weight_size, stride, padding, dilation, groups) */
cr_status cr_kern_conv_weight_grad(const cr_value *arg, cr_view *out)
{
    const cr_view *y = arg[0].view, *x = arg[1].view;
    cr_conv c = problem(x, out, y, arg + 3, arg[6].i);
    arrays a = {{0}, {0}, {0}, {0}};
    cr_status st;

    if (!cr_view_numel(out))
        return CR_OK;
    CR_GO(conv_arrays_load(&a, x, NULL, NULL, y));
    CR_GO(cr_conv_to_w(&c, (cr_dtype)out->dtype, a.x.data, a.y.data, out->data));
done:
    conv_arrays_drop(&a);
    return st;
}

/* --- sliding blocks --- */

/* kernel_size, dilation, padding, stride; the image is in the last three dimensions. */
static cr_conv block_conv(const cr_view *image, const cr_value *arg)
{
    const int64_t *size = image->size + image->ndim - 3;
    cr_conv c = {
        .dims = 2, .batch = image->ndim == 4 ? image->size[0] : 1, .groups = 1, .ic = size[0]};

    for (int d = 0; d < 2; d++) {
        c.in[d] = size[d + 1];
        c.kernel[d] = arg[0].ints[d];
        c.dilation[d] = arg[1].ints[d];
        c.pad[d] = arg[2].ints[d];
        c.stride[d] = arg[3].ints[d];
        c.out[d] =
            (c.in[d] + 2 * c.pad[d] - c.dilation[d] * (c.kernel[d] - 1) - 1) / c.stride[d] + 1;
    }
    return c;
}

typedef struct {
    cr_conv c;
    cr_dtype t;
    bool fold;
    char *image, *columns;
    int64_t image_bytes, column_bytes;
} block_job;

static void block_range(void *context, int64_t begin, int64_t end)
{
    const block_job *w = context;

    for (int64_t i = begin; i < end; i++) {
        char *image = w->image + i * w->image_bytes,
             *columns = w->columns + i * w->column_bytes;
        if (w->fold) {
            memset(image, 0, (size_t)w->image_bytes);
            cr_conv_col2im(&w->c, w->t, columns, image);
        } else {
            cr_conv_im2col(&w->c, w->t, image, columns);
        }
    }
}

static void run_block_copies(const cr_conv *c, cr_dtype t, bool fold, char *image,
                             char *columns)
{
    int64_t item = (int64_t)cr_dtype_size(t);
    block_job w = {*c, t, fold, image, columns, 0, 0};

    w.image_bytes = c->ic * cr_conv_volume(c, c->in) * item;
    w.column_bytes = c->ic * cr_conv_volume(c, c->kernel) * cr_conv_volume(c, c->out) * item;
    cr_parallel_for(c->batch, 32768 / (w.column_bytes + 1) + 1, block_range, &w);
}

/* (self, kernel_size, dilation, padding, stride) */
cr_status cr_kern_im2col(const cr_value *arg, cr_view *out)
{
    const cr_view *x = arg[0].view;
    cr_conv c = block_conv(x, arg + 1);
    cr_dense image;

    CR_TRY(conv_array_load(&image, x));
    run_block_copies(&c, (cr_dtype)x->dtype, false, image.data, out->data);
    cr_dense_drop(&image);
    return CR_OK;
}

/* (self, output_size, kernel_size, dilation, padding, stride).  Half types are summed in
 * float32. */
cr_status cr_kern_col2im(const cr_value *arg, cr_view *out)
{
    const cr_view *x = arg[0].view;
    cr_dtype t = x->dtype == CR_F16 || x->dtype == CR_BF16 ? CR_F32 : (cr_dtype)x->dtype;
    cr_conv c = block_conv(out, arg + 2);
    cr_dense columns = {0}, image = {0};
    cr_status st;

    CR_GO(cr_dense_in(&columns, x, t));
    CR_GO(cr_dense_out(&image, out, t));
    run_block_copies(&c, t, true, image.data, columns.data);
    cr_dense_store(&image, out, t);
done:
    cr_dense_drop(&columns);
    cr_dense_drop(&image);
    return st;
}
