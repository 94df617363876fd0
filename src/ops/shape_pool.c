/* Shape rules of pooling, with torch's checks in torch's order.
 *
 * One entry is for 1, 2 and 3 dimensions.  `dims` is its last argument and selects the operator
 * that torch's messages name. */
#include "base/integer.h"
#include "ops/shape.h"
#include "space/shape_text.h"
#include <stdio.h>
#include <string.h>

typedef long long ll; /* for printf */

typedef struct {
    const char *name; /* "max_pool" */
    const cr_view *self;
    const cr_value *kernel, *stride, *padding, *dilation; /* dilation may be NULL */
    bool ceil;
    int64_t dims;
} call;

static const char *const count_word[] = {"zero", "one", "two", "three"};

static int64_t kernel_at(const call *c, int64_t d) { return cr_value_item(c->kernel, d); }
static int64_t stride_at(const call *c, int64_t d)
{
    return c->stride->len ? cr_value_item(c->stride, d) : cr_value_item(c->kernel, d);
}
static int64_t dilation_at(const call *c, int64_t d)
{
    return c->dilation ? cr_value_item(c->dilation, d) : 1;
}

/* Names and messages exist for 1 to 3 dimensions. */
static cr_status pool_check_dims(int64_t dims)
{
    return dims >= 1 && dims <= 3
               ? CR_OK
               : cr_fail(CR_RUNTIME, "expected one to three spatial dimensions, but got %lld",
                         (ll)dims);
}

static cr_status pool_check_list(const call *c, const cr_value *list, const char *what,
                                 const char *form)
{
    if (list->len == 1 || (int64_t)list->len == c->dims)
        return CR_OK;
    if (c->dims == 1)
        return cr_fail(CR_RUNTIME, "%s1d() argument '%s' should contain one int (got %u)",
                       c->name, what, list->len);
    return cr_fail(CR_RUNTIME, "%s%lldd: %s %s a single int, or a tuple of %s ints", c->name,
                   (ll)c->dims, what, form, count_word[c->dims]);
}

static cr_status check_lengths(const call *c)
{
    const char *form =
        c->dims == 3 && !strcmp(c->name, "avg_pool") ? "must be" : "must either be";

    CR_TRY(pool_check_list(c, c->kernel, "kernel_size", form));
    if (c->stride->len)
        CR_TRY(pool_check_list(c, c->stride, "stride", "must either be omitted,"));
    CR_TRY(pool_check_list(c, c->padding, "padding", form));
    return c->dilation ? pool_check_list(c, c->dilation, "dilation", "must be either") : CR_OK;
}

static cr_status check_ndim(const call *c)
{
    int64_t n = c->self->ndim;

    if (n == c->dims + 1 || n == c->dims + 2)
        return CR_OK;
    if (c->dims == 1)
        return cr_fail(
            CR_RUNTIME,
            "Expected 2 to 3 dimensions, but got %lld-dimensional tensor for argument #1 "
            "'self' (while checking arguments for %s1d)",
            (ll)n, c->name);
    return cr_fail(CR_RUNTIME,
                   "non-empty %lldD or %lldD (batch mode) tensor expected for input",
                   (ll)(c->dims + 1), (ll)(c->dims + 2));
}

/* torch computes with 32-bit ints; the limit also keeps computations here from overflowing. */
static cr_status check_int32(int64_t a)
{
    return a >= INT32_MIN && a <= INT32_MAX ? CR_OK
                                            : cr_fail(CR_RUNTIME, "integer out of range");
}

static cr_status output_size(const call *c, int64_t d, int64_t *out)
{
    int64_t in = c->self->size[c->self->ndim - c->dims + d], k = kernel_at(c, d);
    int64_t s = stride_at(c, d), pad = cr_value_item(c->padding, d), dil = dilation_at(c, d);

    CR_TRY(check_int32(k));
    CR_TRY(check_int32(s));
    CR_TRY(check_int32(pad));
    CR_TRY(check_int32(dil));
    if (s == 0)
        return cr_fail(CR_RUNTIME, "stride should not be zero");
    if (pad < 0)
        return cr_fail(CR_RUNTIME, "pad must be non-negative, but got pad: %lld", (ll)pad);
    if (pad > ((k - 1) * dil + 1) / 2)
        return cr_fail(CR_RUNTIME,
                       "pad should be at most half of effective kernel size, but got pad=%lld, "
                       "kernel_size=%lld and dilation=%lld",
                       (ll)pad, (ll)k, (ll)dil);
    *out = cr_floor_div(in + 2 * pad - dil * (k - 1) - 1 + (c->ceil ? s - 1 : 0), s) + 1;
    if (c->ceil && (*out - 1) * s >= in + pad)
        --*out;
    return CR_OK;
}

/* Refuses values that are not positive: "kernel size", "kT: 1 kH: 0 kW: 2". */
static cr_status check_positive(const call *c, int64_t (*at)(const call *, int64_t),
                                const char *what, const char *letter)
{
    char text[128];
    size_t n = 0;
    bool good = true;

    for (int64_t d = 0; d < c->dims; d++)
        good = good && at(c, d) > 0;
    for (int64_t d = 0; !good && d < c->dims; d++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%c: %lld", d ? " " : "", letter,
                              "THW"[3 - c->dims + d], (ll)at(c, d));
    return good ? CR_OK
                : cr_fail(CR_RUNTIME, "%s should be greater than zero, but got %s", what, text);
}

static cr_status check_not_empty(const call *c)
{
    char text[CR_SIZES_TEXT];
    const cr_view *v = c->self;
    int64_t first = v->ndim - c->dims - 1;

    for (int64_t d = first; d < v->ndim; d++) {
        if (v->size[d])
            continue;
        cr_sizes_text(text, v->ndim, v->size);
        if (c->dims == 3)
            return cr_fail(
                CR_RUNTIME,
                "%s3d: Expected input's non-batch dimensions to have positive length, but "
                "input has a shape of %s and non-batch dimension %lld has length zero!",
                c->name, text, (ll)(d - first));
        return cr_fail(
            CR_RUNTIME,
            "Expected %lldD or %lldD (batch mode) tensor with optional 0 dim batch size "
            "for input, but got:%s",
            (ll)(c->dims + 1), (ll)(c->dims + 2), text);
    }
    return CR_OK;
}

/* "3x1x4": channels and spatial sizes.  torch computes one dimension as two. */
static const char *volume_text(char *buffer, const call *c, const int64_t *size)
{
    size_t n = (size_t)snprintf(buffer, CR_SIZES_TEXT, "%lld%s",
                                (ll)c->self->size[c->self->ndim - c->dims - 1],
                                c->dims == 1 ? "x1" : "");

    for (int64_t d = 0; d < c->dims; d++)
        n += (size_t)snprintf(buffer + n, CR_SIZES_TEXT - n, "x%lld", (ll)size[d]);
    return buffer;
}

static cr_status pool_shape(const call *c, cr_shape *out)
{
    char have[CR_SIZES_TEXT], want[CR_SIZES_TEXT];
    int64_t size[3], lead = c->self->ndim - c->dims;

    CR_TRY(pool_check_dims(c->dims));
    CR_TRY(check_lengths(c));
    CR_TRY(check_ndim(c));
    for (int64_t d = 0; d < c->dims; d++)
        CR_TRY(output_size(c, d, &size[d]));
    CR_TRY(check_positive(c, kernel_at, "kernel size", "k"));
    CR_TRY(check_positive(c, stride_at, "stride", "d"));
    CR_TRY(check_positive(c, dilation_at, "dilation", "dilation"));
    CR_TRY(check_not_empty(c));
    for (int64_t d = 0; d < c->dims; d++)
        if (size[d] < 1)
            return cr_fail(
                CR_RUNTIME,
                "Given input size: (%s). Calculated output size: (%s). Output size is too "
                "small",
                volume_text(have, c, c->self->size + lead), volume_text(want, c, size));
    out->ndim = c->self->ndim;
    for (int64_t d = 0; d < out->ndim; d++)
        out->size[d] = d < lead ? c->self->size[d] : size[d - lead];
    return CR_OK;
}

static cr_status refuse_types(const cr_view *v, const char *name, int64_t dims, bool integers)
{
    cr_category kind = cr_dtype_category((cr_dtype)v->dtype);

    if (kind == CR_CAT_FLOAT || (kind == CR_CAT_INT && integers))
        return CR_OK;
    return cr_fail(CR_NOT_IMPLEMENTED, "\"%s%lldd\" not implemented for '%s'", name, (ll)dims,
                   cr_legacy_name(v));
}

/* (self, kernel_size, stride, padding, dilation, ceil_mode, dims) */
cr_status cr_shape_max_pool(const cr_value *arg, cr_shape *out)
{
    call c = {"max_pool", arg[0].view, &arg[1], &arg[2], &arg[3], &arg[4], arg[5].i, arg[6].i};

    CR_TRY(pool_shape(&c, out));
    out[1] = out[0];
    return refuse_types(c.self, "max_pool", c.dims, true);
}

/* (self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dims) */
cr_status cr_shape_avg_pool(const cr_value *arg, cr_shape *out)
{
    call c = {"avg_pool", arg[0].view, &arg[1], &arg[2], &arg[3], NULL, arg[4].i, arg[7].i};

    if (arg[6].tag == CR_INT && arg[6].i == 0)
        return cr_fail(CR_RUNTIME, "divisor must be not zero");
    CR_TRY(pool_shape(&c, out));
    return refuse_types(c.self, "avg_pool", c.dims, true);
}

/* --- adaptive --- */

static cr_status check_adaptive_input(const cr_view *v, const char *name, const char *got,
                                      int64_t dims)
{
    int64_t batch = v->ndim - dims - 1;

    if (dims == 1 && batch != 0 && batch != 1)
        return cr_fail(
            CR_RUNTIME,
            "Expected 2 to 3 dimensions, but got %d-dimensional tensor for argument #1 "
            "'self' (while checking arguments for %s1d)",
            v->ndim, name);
    if (batch != 0 && batch != 1)
        return cr_fail(CR_RUNTIME, "%s%lldd(): Expected %lldD or %lldD tensor, but got%s %s",
                       name, (ll)dims, (ll)(dims + 1), (ll)(dims + 2), got, cr_view_text(v));
    for (int64_t d = v->ndim - dims; d < v->ndim; d++)
        if (v->size[d] == 0)
            return cr_fail(
                CR_RUNTIME,
                "%s%lldd(): Expected input to have non-zero size for non-batch dimensions, "
                "but input has sizes %s with dimension %lld being empty",
                name, (ll)(dims == 1 ? 2 : dims), cr_view_text(v), (ll)d);
    return CR_OK;
}

static cr_status adaptive_shape(const cr_view *v, const cr_value *size, int64_t dims,
                                cr_shape *out)
{
    int64_t lead = v->ndim - dims;

    out->ndim = v->ndim;
    for (int64_t d = 0; d < v->ndim; d++)
        out->size[d] = d < lead ? v->size[d] : cr_value_item(size, d - lead);
    return CR_OK;
}

/* (self, output_size, dims) */
cr_status cr_shape_adaptive_avg_pool(const cr_value *arg, cr_shape *out)
{
    const cr_view *v = arg[0].view;
    const cr_value *size = &arg[1];
    int64_t dims = arg[2].i;
    char text[CR_SIZES_TEXT];

    CR_TRY(pool_check_dims(dims));
    if (size->len != 1 && (int64_t)size->len != dims)
        return dims == 1
                   ? cr_fail(CR_RUNTIME,
                             "adaptive_avg_pool1d() argument 'output_size' should contain one "
                             "int (got %u)",
                             size->len)
                   : cr_fail(CR_RUNTIME, "adaptive_avg_pool%lldd: output_size must be %lld",
                             (ll)dims, (ll)dims);
    for (int64_t d = 0; d < dims; d++)
        if (cr_value_item(size, d) < 0) {
            cr_sizes_text(text, size->len, size->ints);
            text[strlen(text) - 1] = 0;
            return cr_fail(
                CR_RUNTIME,
                "adaptive_avg_pool%lldd: elements of output_size must be greater than or "
                "equal to 0 but received {%s}",
                (ll)dims, text + 1);
        }
    CR_TRY(check_adaptive_input(v, "adaptive_avg_pool", "", dims));
    CR_TRY(refuse_types(v, "adaptive_avg_pool", dims, false));
    return adaptive_shape(v, size, dims, out);
}

/* (self, output_size, dims) */
cr_status cr_shape_adaptive_max_pool(const cr_value *arg, cr_shape *out)
{
    const cr_view *v = arg[0].view;
    int64_t dims = arg[2].i;
    char text[CR_SIZES_TEXT];

    CR_TRY(pool_check_dims(dims));
    CR_TRY(check_adaptive_input(v, "adaptive_max_pool", ":", dims));
    if (arg[1].len != 1 && (int64_t)arg[1].len != dims)
        return dims == 1
                   ? cr_fail(CR_RUNTIME,
                             "adaptive_max_pool1d() argument 'output_size' should contain one "
                             "int (got %u)",
                             arg[1].len)
                   : cr_fail(
                         CR_RUNTIME,
                         "adaptive_max_pool%lldd(): internal error: output_size.size() must "
                         "be %lld",
                         (ll)dims, (ll)dims);
    CR_TRY(adaptive_shape(v, &arg[1], dims, out));
    for (int d = 0; d < out->ndim; d++)
        if (out->size[d] < 0)
            return cr_fail(CR_RUNTIME,
                           "Trying to create tensor with negative dimension %lld: %s",
                           (ll)out->size[d], cr_sizes_text(text, out->ndim, out->size));
    out[1] = out[0];
    return refuse_types(v, "adaptive_max_pool", dims, false);
}

/* --- unpooling --- */

static cr_status check_unpool_size(const cr_value *size, int64_t dims)
{
    if ((int64_t)size->len == dims)
        return CR_OK;
    return cr_fail(
        CR_RUNTIME,
        "There should be exactly %s elements (%s) in output_size, but got %u elements.",
        count_word[dims], dims == 2 ? "height, width" : "depth, height, width", size->len);
}

static cr_status check_unpool_input(const cr_view *v, const cr_view *index, int64_t dims)
{
    char a[CR_SIZES_TEXT], b[CR_SIZES_TEXT];
    bool same = v->ndim == index->ndim;

    if (index->dtype != CR_I64)
        return cr_fail(CR_RUNTIME, "elements in indices should be type int64 but got: %s",
                       cr_legacy_name(index));
    if (v->ndim != dims + 1 && v->ndim != dims + 2)
        return cr_fail(
            CR_RUNTIME,
            "Input to max_unpooling%lldd should be a %lldd or %lldd Tensor, but got a "
            "tensor with %d dimensions.",
            (ll)dims, (ll)(dims + 1), (ll)(dims + 2), v->ndim);
    for (int d = 0; d < v->ndim && same; d++)
        same = v->size[d] == index->size[d];
    if (!same)
        return cr_fail(
            CR_RUNTIME,
            "Expected shape of indices to be same as that of the input tensor (%s) but got "
            "indices tensor with shape: %s",
            cr_sizes_text(a, v->ndim, v->size), cr_sizes_text(b, index->ndim, index->size));
    for (int d = 1; d < v->ndim; d++)
        if (!v->size[d])
            return cr_fail(
                CR_RUNTIME,
                "max_unpooling%lldd_forward_out_cpu(): Expected input to have non-zero size "
                "for non-batch dimensions, but got %s with dimension %d being empty.",
                (ll)dims, cr_sizes_text(a, v->ndim, v->size), d);
    return CR_OK;
}

/* (self, indices, output_size, dims) */
cr_status cr_shape_max_unpool(const cr_value *arg, cr_shape *out)
{
    CR_TRY(pool_check_dims(arg[3].i));
    CR_TRY(check_unpool_size(&arg[2], arg[3].i));
    CR_TRY(check_unpool_input(arg[0].view, arg[1].view, arg[3].i));
    return adaptive_shape(arg[0].view, &arg[2], arg[3].i, out);
}

/* --- resampling --- */

/* "(H: 2, W: 3)". */
static const char *named_sizes(char *buffer, int64_t dims, const int64_t *size)
{
    size_t n = (size_t)snprintf(buffer, CR_SIZES_TEXT, "(");

    for (int64_t d = 0; d < dims; d++)
        n += (size_t)snprintf(buffer + n, CR_SIZES_TEXT - n, "%s%c: %lld", d ? ", " : "",
                              "DHW"[3 - dims + d], (ll)size[d]);
    snprintf(buffer + n, CR_SIZES_TEXT - n, ")");
    return buffer;
}

static cr_status check_resample(const cr_view *v, const cr_shape *out, int64_t dims)
{
    char a[CR_SIZES_TEXT], b[CR_SIZES_TEXT];

    for (int64_t d = 0; d < dims; d++)
        if (v->size[d + 2] <= 0 || out->size[d + 2] <= 0)
            return cr_fail(
                CR_RUNTIME,
                "Input and output sizes should be greater than 0, but got input %s output "
                "%s",
                named_sizes(a, dims, v->size + 2), named_sizes(b, dims, out->size + 2));
    if (v->size[1] == 0)
        return cr_fail(CR_RUNTIME,
                       "Non-empty %lldD data tensor expected but got a tensor with sizes %s",
                       (ll)(dims + 2), cr_sizes_text(a, v->ndim, v->size));
    return CR_OK;
}

/* Bytes are resampled in planes, and by the nearest element. */
static cr_status check_resampled_dtype(const cr_view *v, int64_t mode, int64_t dims)
{
    static const char *const name[] = {"indices_weights_nearest", "indices_weights_nearest",
                                       "indices_weights_linear",  "indices_weights_cubic",
                                       "index_ranges_weights",    "index_ranges_weights"};

    if (cr_dtype_category((cr_dtype)v->dtype) == CR_CAT_FLOAT)
        return CR_OK;
    if (v->dtype == CR_U8 && (mode != 2 || dims == 2))
        return CR_OK;
    return cr_fail(CR_NOT_IMPLEMENTED, "\"compute_%s\" not implemented for '%s'", name[mode],
                   cr_legacy_name(v));
}

/* A value that is not a valid size becomes 0, which the caller refuses. */
static int64_t scaled_size(int64_t size, double scale)
{
    double scaled = (double)size * scale;

    return scaled >= 0 && scaled < 0x1p62 ? (int64_t)scaled : 0;
}

/* (self, output_size or None, mode, align_corners, scales or None, dims) */
cr_status cr_shape_upsample(const cr_value *arg, cr_shape *out)
{
    const cr_view *v = arg[0].view;
    const cr_value *size = &arg[1], *scale = &arg[4];
    bool given = size->tag == CR_INTS;
    int64_t dims = arg[5].i, n = given ? size->len : scale->len;

    CR_TRY(pool_check_dims(dims));
    if (arg[2].i < 0 || arg[2].i > 5 || (arg[2].i >= 3 && dims != 2))
        return cr_fail(CR_RUNTIME,
                       "there is no way of resampling number %lld in %lld dimensions",
                       (ll)arg[2].i, (ll)dims);
    if (given == (scale->tag == CR_FLOATS) && !given)
        return cr_fail(CR_RUNTIME, "Must specify exactly one of output_size and scale_factors");
    if (n != dims)
        return cr_fail(CR_RUNTIME,
                       "It is expected output_size equals to %lld, but got size %lld", (ll)dims,
                       (ll)n);
    if (scale->tag == CR_FLOATS && scale->len != dims)
        return cr_fail(CR_RUNTIME,
                       "It is expected scale_factors equals to %lld, but got size %lld",
                       (ll)dims, (ll)scale->len);
    if (v->ndim != dims + 2)
        return cr_fail(CR_RUNTIME, "It is expected input_size equals to %lld, but got size %d",
                       (ll)(dims + 2), v->ndim);
    out->ndim = v->ndim;
    for (int64_t d = 0; d < v->ndim; d++)
        out->size[d] = d < 2   ? v->size[d]
                       : given ? size->ints[d - 2]
                               : scaled_size(v->size[d], scale->floats[d - 2]);
    CR_TRY(check_resample(v, out, dims));
    return check_resampled_dtype(v, arg[2].i, dims);
}

/* --- sliding blocks --- */

static int64_t block_count(const cr_value *size, int64_t d, const cr_value *kernel,
                           const cr_value *step)
{
    int64_t room, more = 2 * cr_value_item(&step[1], d) -
                         cr_value_item(&step[0], d) * (cr_value_item(kernel, d) - 1) - 1;

    if (CR_ADD_OVERFLOW(size->ints[d], more, &room))
        room = INT64_MAX - 1;
    return cr_floor_div(room, cr_value_item(&step[2], d)) + 1;
}

static cr_status check_two(const cr_value *list, const char *name)
{
    if (list->len == 2)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "It is expected %s equals to 2, but got size %u", name,
                   list->len);
}

static cr_status check_over(const cr_value *list, int64_t least, const char *what,
                            const char *word, const char *bound)
{
    if (list->ints[0] >= least && list->ints[1] >= least)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "%s should be %s, but got %s_height: %lld %s_width: %lld", what,
                   bound, word, (ll)list->ints[0], word, (ll)list->ints[1]);
}

/* kernel_size, dilation, padding, stride */
static cr_status check_blocks(const cr_value *arg)
{
    CR_TRY(check_two(&arg[0], "kernel_size"));
    CR_TRY(check_two(&arg[1], "dilation"));
    CR_TRY(check_two(&arg[2], "padding"));
    CR_TRY(check_two(&arg[3], "stride"));
    for (int i = 0; i < 4; i++)
        for (int d = 0; d < 2; d++)
            CR_TRY(check_int32(arg[i].ints[d]));
    CR_TRY(check_over(&arg[0], 1, "kernel size", "kernel", "greater than zero"));
    CR_TRY(check_over(&arg[1], 1, "dilation", "dilation", "greater than zero"));
    CR_TRY(check_over(&arg[2], 0, "padding", "pad", "non-negative"));
    return check_over(&arg[3], 1, "stride", "stride", "greater than zero");
}

#define PAIR(list) (ll)(list).ints[0], (ll)(list).ints[1]

static cr_status bad_unfold_input(const cr_view *v)
{
    char text[CR_SIZES_TEXT];

    return cr_fail(CR_RUNTIME,
                   "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
                   "non-zero dimensions for input, but got: %s",
                   cr_sizes_text(text, v->ndim, v->size));
}

/* (self, kernel_size, dilation, padding, stride) */
cr_status cr_shape_im2col(const cr_value *arg, cr_shape *out)
{
    const cr_view *v = arg[0].view;
    int lead = v->ndim - 3;
    cr_value size = {.tag = CR_INTS, .len = 2};
    int64_t h, w;

    CR_TRY(check_blocks(arg + 1));
    if (lead != 0 && lead != 1)
        return bad_unfold_input(v);
    for (int d = lead; d < v->ndim; d++)
        if (!v->size[d])
            return bad_unfold_input(v);
    size.ints = v->size + lead + 1;
    h = block_count(&size, 0, &arg[1], &arg[2]);
    w = block_count(&size, 1, &arg[1], &arg[2]);
    if (h < 1 || w < 1)
        return cr_fail(
            CR_RUNTIME,
            "Given input with spatial size (%lld, %lld), kernel_size=(%lld, %lld), "
            "dilation=(%lld, %lld), padding=(%lld, %lld), calculated shape of the array of "
            "sliding blocks as (%lld, %lld), but its components must be at least one.",
            PAIR(size), PAIR(arg[1]), PAIR(arg[2]), PAIR(arg[3]), (ll)h, (ll)w);
    out->ndim = lead + 2;
    out->size[0] = v->size[0];
    if (CR_MUL_OVERFLOW(v->size[lead], arg[1].ints[0] * arg[1].ints[1], &out->size[lead]) ||
        CR_MUL_OVERFLOW(h, w, &out->size[lead + 1]))
        return cr_fail(CR_RUNTIME, "numel: integer multiplication overflow");
    return CR_OK;
}

/* (self, output_size, kernel_size, dilation, padding, stride) */
cr_status cr_shape_col2im(const cr_value *arg, cr_shape *out)
{
    const cr_view *v = arg[0].view;
    char text[CR_SIZES_TEXT];
    int lead = v->ndim - 2;
    int64_t h, w, area, count;

    CR_TRY(check_two(&arg[1], "output_size"));
    CR_TRY(check_blocks(arg + 2));
    if ((lead != 0 && lead != 1) || !v->size[lead] || !v->size[lead + 1])
        return cr_fail(
            CR_RUNTIME,
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            "non-zero dimensions for input, but got: %s",
            cr_sizes_text(text, v->ndim, v->size));
    area = arg[2].ints[0] * arg[2].ints[1];
    if (v->size[lead] % area)
        return cr_fail(CR_RUNTIME,
                       "Expected size of input's dimension 1 to be divisible by the product of "
                       "kernel_size, but got input.size(1)=%lld and kernel_size=(%lld, %lld).",
                       (ll)v->size[lead], PAIR(arg[2]));
    h = block_count(&arg[1], 0, &arg[2], &arg[3]);
    w = block_count(&arg[1], 1, &arg[2], &arg[3]);
    if (CR_MUL_OVERFLOW(h, w, &count) || v->size[lead + 1] != count)
        return cr_fail(
            CR_RUNTIME,
            "Given output_size=(%lld, %lld), kernel_size=(%lld, %lld), dilation=(%lld, "
            "%lld), padding=(%lld, %lld), stride=(%lld, %lld), expected size of input's "
            "dimension 2 to match the calculated number of sliding blocks %lld * %lld = "
            "%lld, but got input.size(2)=%lld.",
            PAIR(arg[1]), PAIR(arg[2]), PAIR(arg[3]), PAIR(arg[4]), PAIR(arg[5]), (ll)h, (ll)w,
            (ll)count, (ll)v->size[lead + 1]);
    if (arg[1].ints[0] < 1 || arg[1].ints[1] < 1)
        return cr_fail(
            CR_RUNTIME,
            "Expected output spatial size to be positive, but got: output_size=(%lld, %lld).",
            PAIR(arg[1]));
    out->ndim = lead + 3;
    out->size[0] = v->size[0];
    out->size[lead] = v->size[lead] / area;
    out->size[lead + 1] = arg[1].ints[0];
    out->size[lead + 2] = arg[1].ints[1];
    return CR_OK;
}
