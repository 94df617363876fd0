/* The entries of pooling: translate arguments to planes and windows. */
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/walk.h"
#include "kern/pool.h"

/* The dtype in which planes are computed. */
static cr_dtype plane_type(const cr_view *v)
{
    if (cr_dtype_is_float((cr_dtype)v->dtype))
        return v->dtype == CR_F64 ? CR_F64 : CR_F32;
    return CR_I64;
}

/* Sizes: the last `dims` dimensions are spatial. */
static cr_pool planes_of(const cr_view *in, const cr_view *out, int64_t dims)
{
    cr_pool p = {.planes = 1,
                 .in = {1, 1, 1},
                 .out = {1, 1, 1},
                 .kernel = {1, 1, 1},
                 .stride = {1, 1, 1},
                 .dilation = {1, 1, 1}};

    for (int64_t d = 0; d < in->ndim - dims; d++)
        p.planes *= in->size[d];
    for (int64_t d = 0; d < dims; d++) {
        p.in[3 - dims + d] = in->size[in->ndim - dims + d];
        p.out[3 - dims + d] = out->size[out->ndim - dims + d];
    }
    return p;
}

/* Windows: an empty stride means the kernel's size; without dilation it is 1. */
static void set_windows(cr_pool *p, int64_t dims, const cr_value *kernel,
                        const cr_value *stride, const cr_value *padding,
                        const cr_value *dilation)
{
    for (int64_t d = 0; d < dims; d++) {
        int64_t at = 3 - dims + d;
        p->kernel[at] = cr_value_item(kernel, d);
        p->stride[at] = stride->len ? cr_value_item(stride, d) : p->kernel[at];
        p->pad[at] = cr_value_item(padding, d);
        p->dilation[at] = dilation ? cr_value_item(dilation, d) : 1;
    }
}

static cr_status max_pool(const cr_pool *p, const cr_view *self, cr_view *out)
{
    cr_dtype t = plane_type(self);
    cr_dense x = {0}, y = {0};
    cr_status st;

    if (!cr_view_numel(out))
        return CR_OK;
    CR_GO(cr_dense_in(&x, self, t));
    CR_GO(cr_dense_out(&y, &out[0], t));
    cr_pool_max(p, t, x.data, y.data, (int64_t *)(void *)out[1].data);
    cr_dense_store(&y, &out[0], t);
done:
    cr_dense_drop(&x);
    cr_dense_drop(&y);
    return st;
}

cr_pool cr_pool_max_windows(const cr_view *in, const cr_view *out, const cr_value *arg)
{
    cr_pool p = planes_of(in, out, arg[6].i);

    set_windows(&p, arg[6].i, &arg[1], &arg[2], &arg[3], &arg[4]);
    return p;
}

/* (self, kernel_size, stride, padding, dilation, ceil_mode, dims) */
cr_status cr_kern_max_pool(const cr_value *arg, cr_view *out)
{
    cr_pool p = cr_pool_max_windows(arg[0].view, out, arg);

    return max_pool(&p, arg[0].view, out);
}

/* (self, output_size, dims) */
cr_status cr_kern_adaptive_max_pool(const cr_value *arg, cr_view *out)
{
    cr_pool p = planes_of(arg[0].view, out, arg[2].i);

    p.adaptive = true;
    return max_pool(&p, arg[0].view, out);
}

typedef void (*plane_fn)(const cr_pool *p, cr_dtype t, const void *from, void *to);

static cr_status linear_pool(const cr_pool *p, plane_fn fn, const cr_view *from,
                             const cr_view *to)
{
    cr_dtype t = plane_type(from);
    cr_dense x = {0}, y = {0};
    cr_status st;

    if (!cr_view_numel(from)) /* its other sizes may be huge */
        cr_zero_view(to);
    if (!cr_view_numel(from) || !cr_view_numel(to))
        return CR_OK;
    CR_GO(cr_dense_in(&x, from, t));
    CR_GO(cr_dense_out(&y, to, t));
    fn(p, t, x.data, y.data);
    cr_dense_store(&y, to, t);
done:
    cr_dense_drop(&x);
    cr_dense_drop(&y);
    return st;
}

/* kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dims */
static cr_pool average_windows(const cr_view *in, const cr_view *out, const cr_value *arg)
{
    cr_pool p = planes_of(in, out, arg[6].i);

    set_windows(&p, arg[6].i, &arg[0], &arg[1], &arg[2], NULL);
    p.count_pad = arg[4].i;
    p.divisor = arg[5].tag == CR_INT ? arg[5].i : 0;
    return p;
}

/* (self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dims) */
cr_status cr_kern_avg_pool(const cr_value *arg, cr_view *out)
{
    cr_pool p = average_windows(arg[0].view, out, arg + 1);

    return linear_pool(&p, cr_pool_average, arg[0].view, out);
}

/* (grad_output, input_size, kernel_size, stride, padding, ...) as above. */
cr_status cr_kern_avg_pool_backward(const cr_value *arg, cr_view *out)
{
    cr_pool p = average_windows(out, arg[0].view, arg + 2);

    return linear_pool(&p, cr_pool_spread, arg[0].view, out);
}

/* (self, output_size, dims) */
cr_status cr_kern_adaptive_avg_pool(const cr_value *arg, cr_view *out)
{
    cr_pool p = planes_of(arg[0].view, out, arg[2].i);

    p.adaptive = true;
    return linear_pool(&p, cr_pool_average, arg[0].view, out);
}

/* (grad_output, input_size, dims) */
cr_status cr_kern_adaptive_avg_pool_backward(const cr_value *arg, cr_view *out)
{
    cr_pool p = planes_of(out, arg[0].view, arg[2].i);

    p.adaptive = true;
    return linear_pool(&p, cr_pool_spread, arg[0].view, out);
}

/* --- values at indices into planes --- */

typedef void (*places_fn)(const cr_pool_places *p, cr_dtype t, const void *from,
                          const int64_t *index, void *to);

/* `small` has the sizes of the indices, `big` the planes that they index. */
static cr_pool_places places_of(const cr_view *small, const cr_view *big, int64_t dims)
{
    cr_pool_places p = {1, 1, 1};

    for (int64_t d = 0; d < small->ndim; d++) {
        if (d < small->ndim - dims)
            p.planes *= small->size[d];
        else
            p.n *= small->size[d], p.m *= big->size[d];
    }
    return p;
}

static cr_status check_places(const int64_t *index, const cr_pool_places *p, const cr_view *big,
                              int64_t dims)
{
    bool found;
    int64_t wrong = cr_pool_bad_index(index, p->planes * p->n, p->m, &found);
    const int64_t *size = big->size + big->ndim - dims;

    if (!found)
        return CR_OK;
    if (dims == 3)
        return cr_fail(
            CR_RUNTIME,
            "Found an invalid max index: %lld (output volumes are of size %lldx%lldx%lld)",
            (long long)wrong, (long long)size[0], (long long)size[1], (long long)size[2]);
    return cr_fail(CR_RUNTIME,
                   "Found an invalid max index: %lld (output volumes are of size %lldx%lld)",
                   (long long)wrong, (long long)size[0], (long long)(dims > 1 ? size[1] : 1));
}

static cr_status run_places(const cr_value *arg, const cr_view *big, int64_t dims, places_fn fn,
                            const cr_view *out)
{
    const cr_view *from = arg[0].view, *index = arg[1].view;
    cr_pool_places p = places_of(index, big, dims);
    cr_dtype t = plane_type(from);
    cr_dense x = {0}, y = {0}, i = {0};
    cr_status st;

    CR_GO(cr_dense_in(&i, index, CR_I64));
    CR_GO(check_places((const int64_t *)(void *)i.data, &p, big, dims));
    CR_GO(cr_dense_in(&x, from, t));
    CR_GO(cr_dense_out(&y, out, t));
    fn(&p, t, x.data, (const int64_t *)(void *)i.data, y.data);
    cr_dense_store(&y, out, t);
done:
    cr_dense_drop(&i);
    cr_dense_drop(&x);
    cr_dense_drop(&y);
    return st;
}

/* (self, indices, size, dims) */
cr_status cr_kern_pool_scatter(const cr_value *arg, cr_view *out)
{
    return run_places(arg, out, arg[3].i, cr_pool_scatter, out);
}

/* (self, indices, size, dims) */
cr_status cr_kern_pool_put(const cr_value *arg, cr_view *out)
{
    return run_places(arg, out, arg[3].i, cr_pool_put, out);
}
