/* The convolutions' table entries: arguments to descriptions of problems. */
#include "kern/conv.h"
#include "kern/entries.h"
#include "kern/pack.h"
#include "kern/walk.h"

static int64_t item(const cr_value *list, int64_t d)
{
    return list->ints[list->len == 1 ? 0 : d];
}

/* Sizes of x, w and y; `step` is the arguments stride, padding, dilation. */
static cr_conv problem(const cr_view *x, const cr_view *w, const cr_view *y, const cr_value *step,
                       int64_t groups)
{
    cr_conv c = {.dims = w->ndim - 2, .batch = x->size[0], .groups = groups};

    c.ic = w->size[1];
    c.oc = w->size[0] / groups;
    for (int64_t d = 0; d < c.dims; d++) {
        c.in[d] = x->size[d + 2];
        c.out[d] = y->size[d + 2];
        c.kernel[d] = w->size[d + 2];
        c.stride[d] = item(&step[0], d);
        c.pad[d] = item(&step[1], d);
        c.dilation[d] = item(&step[2], d);
    }
    return c;
}

/* x, w and y of one call; the one that is computed may be NULL in `from`. */
typedef struct {
    cr_dense x, w, bias, y;
} arrays;

static cr_status load(cr_dense *d, const cr_view *v)
{
    return v ? cr_dense_in(d, v, (cr_dtype)v->dtype) : CR_OK;
}

static cr_status load_all(arrays *a, const cr_view *x, const cr_view *w, const cr_view *bias,
                          const cr_view *y)
{
    CR_TRY(load(&a->x, x));
    CR_TRY(load(&a->w, w));
    CR_TRY(load(&a->bias, bias));
    return load(&a->y, y);
}

static void drop_all(arrays *a)
{
    cr_dense_drop(&a->x);
    cr_dense_drop(&a->w);
    cr_dense_drop(&a->bias);
    cr_dense_drop(&a->y);
}

static cr_status output(const cr_view *x, const cr_view *w, const cr_view *bias,
                        const cr_value *step, int64_t groups, const cr_view *out)
{
    cr_conv c = problem(x, w, out, step, groups);
    arrays a = {{0}, {0}, {0}, {0}};
    cr_status st;

    if (!cr_view_numel(out))
        return CR_OK;
    CR_GO(load_all(&a, x, w, bias, NULL));
    CR_GO(cr_conv_to_y(&c, (cr_dtype)out->dtype, a.x.data, a.w.data, a.bias.data, out->data));
done:
    drop_all(&a);
    return st;
}

static cr_status input(const cr_view *y, const cr_view *w, const cr_view *bias,
                       const cr_value *step, int64_t groups, const cr_view *out)
{
    cr_conv c = problem(out, w, y, step, groups);
    arrays a = {{0}, {0}, {0}, {0}};
    cr_status st;

    CR_GO(load_all(&a, NULL, w, bias, y));
    CR_GO(cr_conv_to_x(&c, (cr_dtype)out->dtype, a.y.data, a.w.data, a.bias.data, out->data));
done:
    drop_all(&a);
    return st;
}

/* (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
cr_status cr_kern_convolution(const cr_value *arg, cr_view *out)
{
    const cr_view *bias = arg[2].tag == CR_VIEW ? arg[2].view : NULL;

    if (arg[6].i)
        return input(arg[0].view, arg[1].view, bias, arg + 3, arg[8].i, out);
    return output(arg[0].view, arg[1].view, bias, arg + 3, arg[8].i, out);
}

/* (input, weight, output_size, stride, padding, dilation, groups) */
cr_status cr_kern_conv_output(const cr_value *arg, cr_view *out)
{
    return output(arg[0].view, arg[1].view, NULL, arg + 3, arg[6].i, out);
}

/* (grad_output, weight, input_size, stride, padding, dilation, groups) */
cr_status cr_kern_conv_input_grad(const cr_value *arg, cr_view *out)
{
    return input(arg[0].view, arg[1].view, NULL, arg + 3, arg[6].i, out);
}

/* (grad_output, input, weight_size, stride, padding, dilation, groups) */
cr_status cr_kern_conv_weight_grad(const cr_value *arg, cr_view *out)
{
    const cr_view *y = arg[0].view, *x = arg[1].view;
    cr_conv c = problem(x, out, y, arg + 3, arg[6].i);
    arrays a = {{0}, {0}, {0}, {0}};
    cr_status st;

    CR_GO(load_all(&a, x, NULL, NULL, y));
    CR_GO(cr_conv_to_w(&c, (cr_dtype)out->dtype, a.x.data, a.y.data, out->data));
done:
    drop_all(&a);
    return st;
}
