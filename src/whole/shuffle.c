/* Moving elements between channels and pixels; filling diagonals. */
#include "tensor/geometry.h"
#include "whole/whole_impl.h"
#include <string.h>

/* `t` itself or, where it shares `like`'s memory or has other strides than those of `like`'s
 * memory format, a copy that has them. */
static cr_status keep_format(cr_value *result, cr_tensor *t, const cr_tensor *like)
{
    int64_t stride[CR_MAX_DIMS], format = cr_suggested_format(like);

    CR_TRY(cr_format_strides(format, t->ndim, t->size, stride));
    if (t->storage == like->storage || memcmp(t->stride, stride, t->ndim * sizeof *stride))
        return cr_call_given(result, cr_entry.clone,
                             (cr_value[]){cr_of_tensor(t), {.tag = CR_FORMAT_VAL, .i = format}},
                             2);
    *result = cr_of_tensor(cr_keep(t));
    return CR_OK;
}

/* (self, like) */
cr_status cr_do_in_format_of(const cr_value *arg, cr_value *result)
{
    return keep_format(result, arg[0].t, arg[1].t);
}

/* reshape, permute, reshape, as calls through all stages; a copy also where these are views. */
static cr_status shuffle_elements(cr_value *result, const cr_value *self, const cr_shape *fine,
                                  const int64_t *order, const cr_shape *sizes)
{
    cr_tensor *a = NULL, *b = NULL, *c = NULL;
    size_t n = (size_t)fine->ndim;
    cr_status st;

    CR_GO(cr_call_tensor(&a, cr_entry.reshape, (cr_value[]){*self, cr_of_ints(fine->size, n)},
                         2));
    CR_GO(cr_call_tensor(&b, cr_entry.permute,
                         (cr_value[]){cr_of_tensor(a), cr_of_ints(order, n)}, 2));
    CR_GO(cr_call_tensor(
        &c, cr_entry.reshape,
        (cr_value[]){cr_of_tensor(b), cr_of_ints(sizes->size, (size_t)sizes->ndim)}, 2));
    st = keep_format(result, c, self->t);
done:
    cr_drop(c);
    cr_drop(b);
    cr_drop(a);
    return st;
}

static void append_size(cr_shape *s, int64_t size) { s->size[s->ndim++] = size; }

static cr_status check_pixels(const cr_tensor *t, const char *name, const char *factor,
                              int64_t f)
{
    if (t->ndim < 3)
        return cr_fail(CR_RUNTIME,
                       "%s expects input to have at least 3 dimensions, but got input "
                       "with %d dimension(s)",
                       name, t->ndim);
    if (f <= 0)
        return cr_fail(CR_RUNTIME, "%s expects a positive %s, but got %lld", name, factor,
                       (long long)f);
    if (t->ndim > CR_MAX_DIMS - 2)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions", CR_MAX_DIMS);
    return CR_OK;
}

/* [..., c, f, f, h, w] to [..., c, h, f, w, f] */
cr_status cr_do_pixel_shuffle(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    int64_t square, f = arg[1].i, order[CR_MAX_DIMS];
    int n = t->ndim - 3;
    cr_shape fine = {0}, sizes = {0};

    CR_TRY(check_pixels(t, "pixel_shuffle", "upscale_factor", f));
    if (CR_MUL_OVERFLOW(f, f, &square))
        return cr_fail(
            CR_VALUE,
            "upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor=%lld",
            (long long)f);
    if (t->size[n] % square)
        return cr_fail(
            CR_RUNTIME,
            "pixel_shuffle expects its input's 'channel' dimension to be "
            "divisible by the square of upscale_factor, but input.size(-3)=%lld is not "
            "divisible by %lld",
            (long long)t->size[n], (long long)square);
    for (int i = 0; i < n; i++) {
        append_size(&fine, t->size[i]);
        append_size(&sizes, t->size[i]);
        order[i] = i;
    }
    const int64_t split[5] = {t->size[n] / square, f, f, t->size[n + 1], t->size[n + 2]};
    const int64_t turned[5] = {n, n + 3, n + 1, n + 4, n + 2};
    for (int i = 0; i < 5; i++) {
        append_size(&fine, split[i]);
        order[n + i] = turned[i];
    }
    append_size(&sizes, split[0]);
    for (int i = 3; i < 5; i++) {
        int64_t side;
        if (CR_MUL_OVERFLOW(split[i], f, &side))
            return cr_fail(CR_RUNTIME, "pixel_shuffle: an upscale_factor of %lld is too large",
                           (long long)f);
        append_size(&sizes, side);
    }
    return shuffle_elements(result, &arg[0], &fine, order, &sizes);
}

static cr_status refuse_side(const char *side, int64_t dim, int64_t size, int64_t f)
{
    return cr_fail(CR_RUNTIME,
                   "pixel_unshuffle expects %s to be divisible by downscale_factor, "
                   "but input.size(%lld)=%lld is not divisible by %lld",
                   side, (long long)dim, (long long)size, (long long)f);
}

/* [..., c, h, f, w, f] to [..., c, f, f, h, w] */
cr_status cr_do_pixel_unshuffle(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    int64_t square, channels, f = arg[1].i, order[CR_MAX_DIMS];
    int n = t->ndim - 3;
    cr_shape fine = {0}, sizes = {0};

    CR_TRY(check_pixels(t, "pixel_unshuffle", "downscale_factor", f));
    if (t->size[n + 1] % f)
        return refuse_side("height", -2, t->size[n + 1], f);
    if (t->size[n + 2] % f)
        return refuse_side("width", -1, t->size[n + 2], f);
    for (int i = 0; i < n; i++) {
        append_size(&fine, t->size[i]);
        append_size(&sizes, t->size[i]);
        order[i] = i;
    }
    const int64_t split[5] = {t->size[n], t->size[n + 1] / f, f, t->size[n + 2] / f, f};
    const int64_t turned[5] = {n, n + 2, n + 4, n + 1, n + 3};
    for (int i = 0; i < 5; i++) {
        append_size(&fine, split[i]);
        order[n + i] = turned[i];
    }
    if (CR_MUL_OVERFLOW(f, f, &square) || CR_MUL_OVERFLOW(split[0], square, &channels))
        return cr_fail(CR_RUNTIME, "pixel_unshuffle: a downscale_factor of %lld is too large",
                       (long long)f);
    append_size(&sizes, channels);
    append_size(&sizes, split[1]);
    append_size(&sizes, split[3]);
    return shuffle_elements(result, &arg[0], &fine, order, &sizes);
}

static cr_status check_groups(const cr_tensor *t, int64_t groups)
{
    if (t->ndim <= 2)
        return cr_fail(CR_RUNTIME,
                       "channel_shuffle expects input with > 2 dims, but got input with sizes "
                       "%s",
                       cr_view_text(t));
    if (groups <= 0)
        return cr_fail(CR_RUNTIME,
                       "Number of groups to divide channels in must be positive. Value "
                       "of groups:%lld",
                       (long long)groups);
    if (t->size[1] % groups)
        return cr_fail(CR_RUNTIME,
                       "Number of channels must be divisible by groups. Got %lld "
                       "channels and %lld groups.",
                       (long long)t->size[1], (long long)groups);
    return CR_OK;
}

/* [n, g, c, ...] to [n, c, g, ...] */
cr_status cr_do_channel_shuffle(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    cr_shape fine = {0}, sizes = {.ndim = t->ndim};
    int64_t order[CR_MAX_DIMS];

    CR_TRY(check_groups(t, arg[1].i));
    append_size(&fine, t->size[0]);
    append_size(&fine, arg[1].i);
    append_size(&fine, t->size[1] / arg[1].i);
    for (int i = 2; i < t->ndim; i++)
        append_size(&fine, t->size[i]);
    for (int i = 0; i < fine.ndim; i++)
        order[i] = i == 1 ? 2 : i == 2 ? 1 : i;
    memcpy(sizes.size, t->size, t->ndim * sizeof *t->size);
    return shuffle_elements(result, &arg[0], &fine, order, &sizes);
}

/* --- diagonals --- */

static cr_status check_diagonal(const cr_tensor *t)
{
    if (t->ndim < 2)
        return cr_fail(CR_RUNTIME, "dimensions must larger than 1");
    for (int i = 1; t->ndim > 2 && i < t->ndim; i++)
        if (t->size[i] != t->size[0])
            return cr_fail(CR_RUNTIME, "all dimensions of input must be of equal length");
    return CR_OK;
}

/* Fills the diagonal that starts at row `first`. */
static cr_status fill_run(cr_tensor *t, int64_t first, cr_scalar value)
{
    int64_t size = t->size[0] - first, stride = 0;
    cr_view v = cr_view_of(t);

    for (int i = 0; i < t->ndim; i++) {
        stride = CR_WRAP_ADD(stride, t->stride[i]);
        if (i > 0 && t->size[i] < size)
            size = t->size[i];
    }
    v.data = cr_moved(v.data, CR_WRAP_MUL(first, t->stride[0]), cr_dtype_size(t->dtype));
    v.ndim = 1;
    v.size = &size;
    v.stride = &stride;
    return cr_fill_elements(&v, value);
}

static cr_status fill_diagonal(cr_tensor *t, cr_scalar value, bool wrap)
{
    CR_TRY(check_diagonal(t));
    CR_TRY(cr_check_fits(value, t->dtype));
    if (!t->address || !t->numel)
        return CR_OK;
    for (int64_t row = 0; row < t->size[0]; row += t->size[1] + 1) {
        CR_TRY(fill_run(t, row, value));
        if (!wrap || t->ndim > 2)
            break;
    }
    return CR_OK;
}

cr_status cr_do_fill_diagonal(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t;

    CR_TRY(fill_diagonal(t, arg[1].number, arg[2].i));
    return cr_give_changed(result, t);
}

cr_status cr_do_filled_diagonal(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    cr_tensor *made;

    CR_TRY(cr_copy_as(&made, t, t->dtype, t->device, CR_FORMAT_PRESERVE));
    cr_status st = fill_diagonal(made, arg[1].number, arg[2].i);
    if (st)
        cr_drop(made);
    else
        *result = cr_of_tensor(made);
    return st;
}
