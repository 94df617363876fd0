/* Shape rules of convolutions, with torch's checks in torch's order. */
#include "ops/shape.h"
#include "space/shape_text.h"
#include <stdio.h>

typedef long long ll; /* for printf */

/* The call's arguments by name. */
typedef struct {
    const cr_view *input, *weight, *bias;
    const cr_value *stride, *padding, *dilation, *output_padding;
    bool transposed;
    int64_t groups;
    int64_t dims; /* spatial */
} call;

static cr_status conv_check_list(const cr_value *list, const char *name, int64_t dims)
{
    char text[CR_SIZES_TEXT];

    if (list->len == 1 || list->len == dims)
        return CR_OK;
    return cr_fail(
        CR_RUNTIME,
        "expected %s to be a single integer value or a list of %lld values to match the "
        "convolution dimensions, but got %s=%s",
        name, (ll)dims, name, cr_sizes_text(text, list->len, list->ints));
}

/* Refuses a value below `least`, and one beyond 32 bits, so that no computation here
 * overflows. */
static cr_status conv_check_least(const cr_value *list, int64_t least, const char *message)
{
    for (uint32_t i = 0; i < list->len; i++) {
        if (list->ints[i] < least)
            return cr_fail(CR_RUNTIME, "%s", message);
        if (list->ints[i] > INT32_MAX)
            return cr_fail(CR_RUNTIME, "integer out of range");
    }
    return CR_OK;
}

static cr_status conv_check_numbers(const call *c)
{
    if (c->dims <= 0)
        return cr_fail(CR_RUNTIME, "weight should have at least three dimensions");
    if (c->dims > 3)
        return cr_fail(CR_RUNTIME,
                       "convolution: weight has %lld dimensions, at most five are supported",
                       (long long)c->dims + 2);
    if (c->groups <= 0)
        return cr_fail(CR_RUNTIME, "non-positive groups is not supported");
    CR_TRY(conv_check_list(c->stride, "stride", c->dims));
    CR_TRY(conv_check_list(c->padding, "padding", c->dims));
    CR_TRY(conv_check_list(c->dilation, "dilation", c->dims));
    CR_TRY(conv_check_list(c->output_padding, "output_padding", c->dims));
    CR_TRY(conv_check_least(c->padding, 0, "negative padding is not supported"));
    CR_TRY(conv_check_least(c->output_padding, 0, "negative output_padding is not supported"));
    CR_TRY(conv_check_least(c->stride, 1, "non-positive stride is not supported"));
    return conv_check_least(c->dilation, 1, "dilation should be greater than zero");
}

static cr_status check_weight(const call *c)
{
    int n = c->weight->ndim;

    if (c->input->ndim != n)
        return cr_fail(CR_RUNTIME,
                       "Expected %d-dimensional input for %d-dimensional weight %s, but got "
                       "%d-dimensional input of size %s instead",
                       n, n, cr_shape_text(n, c->weight->size), c->input->ndim,
                       cr_shape_text(c->input->ndim, c->input->size));
    if (c->weight->size[0] < c->groups)
        return cr_fail(
            CR_RUNTIME,
            "Given groups=%lld, expected weight to be at least %lld at dimension 0, but "
            "got weight of size %s instead",
            (ll)c->groups, (ll)c->groups, cr_shape_text(n, c->weight->size));
    if (c->weight->size[0] % c->groups)
        return cr_fail(
            CR_RUNTIME,
            "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, "
            "but got weight of size [%s] instead",
            (ll)c->groups, (ll)c->groups, cr_shape_text(n, c->weight->size));
    return CR_OK;
}

static cr_status check_channels(const call *c)
{
    char w[CR_SIZES_TEXT], x[CR_SIZES_TEXT], given[64];
    int64_t want = c->transposed ? c->weight->size[0] : c->weight->size[1] * c->groups;

    if (c->input->size[1] == want)
        return CR_OK;
    snprintf(given, sizeof given, c->transposed ? "transposed=1" : "groups=%lld",
             (ll)c->groups);
    return cr_fail(
        CR_RUNTIME,
        "Given %s, weight of size %s, expected input%s to have %lld channels, but got "
        "%lld channels instead",
        given, cr_sizes_text(w, c->weight->ndim, c->weight->size),
        cr_sizes_text(x, c->input->ndim, c->input->size), (ll)want, (ll)c->input->size[1]);
}

static cr_status check_bias(const call *c)
{
    char w[CR_SIZES_TEXT], b[CR_SIZES_TEXT];
    int64_t want = c->transposed ? c->weight->size[1] * c->groups : c->weight->size[0];

    if (!c->bias || (c->bias->ndim == 1 && c->bias->size[0] == want))
        return CR_OK;
    return cr_fail(
        CR_RUNTIME,
        "Given %sweight of size %s, expected bias to be 1-dimensional with %lld elements, "
        "but got bias of size %s instead",
        c->transposed ? "transposed=1, " : "",
        cr_sizes_text(w, c->weight->ndim, c->weight->size), (ll)want,
        cr_sizes_text(b, c->bias->ndim, c->bias->size));
}

static int64_t reach(const call *c, int64_t d)
{
    return (c->weight->size[d + 2] - 1) * cr_value_item(c->dilation, d) + 1;
}

static int64_t padded_size(const call *c, int64_t d)
{
    return c->input->size[d + 2] + 2 * cr_value_item(c->padding, d);
}

/* "3 x 4": the values of a function of the dimension. */
static const char *by_text(char *buffer, const call *c, int64_t (*of)(const call *, int64_t))
{
    size_t at = 0;

    for (int64_t d = 0; d < c->dims && at < CR_SIZES_TEXT - 32; d++)
        at += (size_t)snprintf(buffer + at, CR_SIZES_TEXT - at, "%s%lld", d ? " x " : "",
                               (ll)of(c, d));
    return buffer;
}

static cr_status check_reach(const call *c)
{
    char have[CR_SIZES_TEXT], want[CR_SIZES_TEXT];

    for (int64_t d = 0; d < c->dims && !c->transposed; d++)
        if (padded_size(c, d) < reach(c, d))
            return cr_fail(CR_RUNTIME,
                           "Calculated padded input size per channel: (%s). Kernel size: (%s). "
                           "Kernel size can't be greater than actual input size",
                           by_text(have, c, padded_size), by_text(want, c, reach));
    return CR_OK;
}

static cr_status check_types(const call *c)
{
    if (c->bias && c->bias->dtype != c->input->dtype)
        return cr_fail(CR_RUNTIME, "Input type (%s) and bias type (%s) should be the same",
                       cr_c_name(c->input), cr_c_name(c->bias));
    if (c->input->dtype != c->weight->dtype)
        return cr_fail(CR_RUNTIME, "expected scalar type %s but found %s",
                       cr_legacy_name(c->input), cr_legacy_name(c->weight));
    if (c->input->dtype == CR_BOOL)
        return cr_fail(CR_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Bool'",
                       c->transposed ? "slow_conv_transpose2d_out_cpu" : "slow_conv2d_cpu");
    return CR_OK;
}

static int64_t transposed_size(const call *c, int64_t d)
{
    return (c->input->size[d + 2] - 1) * cr_value_item(c->stride, d) -
           2 * cr_value_item(c->padding, d) + reach(c, d) + cr_value_item(c->output_padding, d);
}

/* The values of the last two dimensions; torch's message has no others. */
static int64_t height(const cr_value *list, int64_t dims, int64_t of_one)
{
    return dims == 1 ? of_one : cr_value_item(list, dims - 2);
}

static cr_status wrong_output_padding(const call *c)
{
    int64_t last = c->dims - 1;

    return cr_fail(CR_RUNTIME,
                   "output padding must be smaller than either stride or dilation, but got "
                   "output_padding_height: %lld output_padding_width: %lld stride_height: %lld "
                   "stride_width: %lld dilation_height: %lld dilation_width: %lld",
                   (ll)height(c->output_padding, c->dims, 0),
                   (ll)cr_value_item(c->output_padding, last),
                   (ll)height(c->stride, c->dims, 1), (ll)cr_value_item(c->stride, last),
                   (ll)height(c->dilation, c->dims, 1), (ll)cr_value_item(c->dilation, last));
}

static cr_status check_transposed(const call *c)
{
    char have[CR_SIZES_TEXT], size[CR_SIZES_TEXT];

    for (int64_t d = 0; d < c->dims; d++) {
        int64_t extra = cr_value_item(c->output_padding, d);
        if (extra >= cr_value_item(c->stride, d) && extra >= cr_value_item(c->dilation, d))
            return wrong_output_padding(c);
    }
    for (int64_t d = 0; d < c->dims; d++)
        if (transposed_size(c, d) < 1) {
            size_t at = 0;
            for (int64_t i = 0; i < c->dims; i++)
                at += (size_t)snprintf(have + at, sizeof have - at, "%s%lld", i ? " x " : "",
                                       (ll)c->input->size[i + 2]);
            return cr_fail(
                CR_RUNTIME,
                "Given input size per channel: (%s). Calculated output size per channel: "
                "(%s). Output size is too small",
                have, by_text(size, c, transposed_size));
        }
    return CR_OK;
}

static cr_status check_no_empty_dim(const call *c)
{
    char text[CR_SIZES_TEXT];

    for (int64_t d = 0; d < c->dims; d++)
        if (c->input->size[d + 2] == 0)
            return cr_fail(
                CR_RUNTIME,
                "Only zero batch or zero channel inputs are supported, but got input "
                "shape: %s",
                cr_sizes_text(text, c->input->ndim, c->input->size));
    return CR_OK;
}

/* (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
cr_status cr_shape_convolution(const cr_value *arg, cr_shape *out)
{
    call c = {.input = arg[0].view,
              .weight = arg[1].view,
              .bias = arg[2].tag == CR_VIEW ? arg[2].view : NULL,
              .stride = &arg[3],
              .padding = &arg[4],
              .dilation = &arg[5],
              .transposed = arg[6].i,
              .output_padding = &arg[7],
              .groups = arg[8].i,
              .dims = arg[1].view->ndim - 2};

    CR_TRY(conv_check_numbers(&c));
    CR_TRY(check_weight(&c));
    CR_TRY(check_channels(&c));
    CR_TRY(check_bias(&c));
    CR_TRY(check_reach(&c));
    CR_TRY(check_types(&c));
    CR_TRY(check_no_empty_dim(&c));
    if (c.transposed)
        CR_TRY(check_transposed(&c));
    out->ndim = c.input->ndim;
    out->size[0] = c.input->size[0];
    out->size[1] = c.transposed ? c.weight->size[1] * c.groups : c.weight->size[0];
    if (!c.transposed && c.input->size[1] == 0)
        out->size[1] = 0; /* torch's result for an input without channels */
    for (int64_t d = 0; d < c.dims; d++)
        out->size[d + 2] =
            c.transposed ? transposed_size(&c, d)
                         : (padded_size(&c, d) - reach(&c, d)) / cr_value_item(c.stride, d) + 1;
    return CR_OK;
}
