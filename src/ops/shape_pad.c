/* Shape rules of padding. */
#include "ops/shape.h"
#include "space/shape.h"

typedef long long ll; /* for printf */

static int64_t before(const cr_value *pad, int ndim, int d)
{
    return pad->ints[2 * (ndim - 1 - d)];
}
static int64_t after(const cr_value *pad, int ndim, int d)
{
    return pad->ints[2 * (ndim - 1 - d) + 1];
}

static cr_status padded_shape(cr_shape *out, const cr_view *self, const cr_value *pad)
{
    int n = self->ndim;

    cr_shape_like(out, self);
    for (int d = n - (int)(pad->len / 2); d < n; d++) {
        int64_t more;
        if (CR_ADD_OVERFLOW(before(pad, n, d), after(pad, n, d), &more) ||
            CR_ADD_OVERFLOW(out->size[d], more, &out->size[d]))
            return cr_fail(CR_RUNTIME,
                           "pad: %lld and %lld more than a size of %lld are too large",
                           (ll)before(pad, n, d), (ll)after(pad, n, d), (ll)self->size[d]);
    }
    return CR_OK;
}

cr_status cr_shape_constant_pad(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view;
    const cr_value *pad = &arg[1];
    int n = self->ndim;

    if (pad->len % 2)
        return cr_fail(CR_RUNTIME, "Length of pad must be even but instead it equals %u",
                       pad->len);
    if (pad->len > 2u * self->ndim)
        return cr_fail(
            CR_RUNTIME,
            "Length of pad should be no more than twice the number of dimensions of the "
            "input. Pad length is %uwhile the input has %ddimensions.",
            pad->len, n);
    CR_TRY(padded_shape(out, self, pad));
    for (int d = n - (int)(pad->len / 2); d < n; d++)
        if (out->size[d] < 0)
            return cr_fail(
                CR_RUNTIME,
                "The input size %lld, plus negative padding %lld and %lld resulted in a "
                "negative output size, which is invalid. Check dimension %d of your input.",
                (ll)self->size[d], (ll)before(pad, n, d), (ll)after(pad, n, d), d);
    return CR_OK;
}

/* Only the batch may be empty. */
static cr_status check_input(const cr_view *self, int spatial)
{
    bool good = self->ndim == spatial + 1 || self->ndim == spatial + 2;

    for (int d = self->ndim == spatial + 2; good && d < self->ndim; d++)
        good = self->size[d] != 0;
    if (good)
        return CR_OK;
    return cr_fail(
        CR_RUNTIME,
        "Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and other "
        "non-zero dimensions for input, but got: %s",
        spatial + 1, spatial + 2, cr_view_text(self));
}

static cr_status check_pad_length(const cr_value *pad, int spatial)
{
    if ((int)pad->len == 2 * spatial)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "padding size is expected to be %d, but got: %u", 2 * spatial,
                   pad->len);
}

/* "W", "H" and "D" in torch's messages, last dimension first. */
static cr_status check_output(const cr_shape *out, const cr_view *self, int spatial)
{
    static const char *const names[] = {"W", "H", "D"};
    int n = self->ndim;
    bool good = spatial == 1 ? out->size[n - 1] >= 1 : false;

    for (int d = n - spatial; d < n; d++)
        good |= out->size[d] >= 1;
    for (int d = n - spatial; d < n; d++)
        good &= out->size[d] >= 0;
    if (good)
        return CR_OK;
    if (spatial == 1)
        return cr_fail(CR_RUNTIME, "input (%s: %lld) is too small. Calculated output %s: %lld",
                       names[0], (ll)self->size[n - 1], names[0], (ll)out->size[n - 1]);
    if (spatial == 2)
        return cr_fail(
            CR_RUNTIME,
            "input (H: %lld, W: %lld) is too small. Calculated output H: %lld W: %lld",
            (ll)self->size[n - 2], (ll)self->size[n - 1], (ll)out->size[n - 2],
            (ll)out->size[n - 1]);
    return cr_fail(
        CR_RUNTIME,
        "input (D: %lld H: %lld, W: %lld) is too small. Calculated output D: %lld H: %lld W: "
        "%lld",
        (ll)self->size[n - 3], (ll)self->size[n - 2], (ll)self->size[n - 1],
        (ll)out->size[n - 3], (ll)out->size[n - 2], (ll)out->size[n - 1]);
}

static cr_status check_reflection(const cr_view *self, const cr_value *pad, int spatial)
{
    int n = self->ndim;

    for (int d = n - 1; d >= n - spatial; d--)
        if (before(pad, n, d) >= self->size[d] || after(pad, n, d) >= self->size[d])
            return cr_fail(
                CR_RUNTIME,
                "Argument #%d: Padding size should be less than the corresponding input "
                "dimension, but got: padding (%lld, %lld) at dimension %d of input %s",
                4 + 2 * (n - 1 - d), (ll)before(pad, n, d), (ll)after(pad, n, d), d,
                cr_view_text(self));
    return CR_OK;
}

static cr_status edge_pad(const cr_value *arg, cr_shape *out, int spatial, bool reflect)
{
    const cr_view *self = arg[0].view;

    CR_TRY(check_pad_length(&arg[1], spatial));
    CR_TRY(check_input(self, spatial));
    if (reflect)
        CR_TRY(check_reflection(self, &arg[1], spatial));
    CR_TRY(padded_shape(out, self, &arg[1]));
    return check_output(out, self, spatial);
}

cr_status cr_shape_reflection_pad1d(const cr_value *arg, cr_shape *out)
{
    return edge_pad(arg, out, 1, true);
}
cr_status cr_shape_reflection_pad2d(const cr_value *arg, cr_shape *out)
{
    return edge_pad(arg, out, 2, true);
}
cr_status cr_shape_reflection_pad3d(const cr_value *arg, cr_shape *out)
{
    return edge_pad(arg, out, 3, true);
}
cr_status cr_shape_replication_pad1d(const cr_value *arg, cr_shape *out)
{
    return edge_pad(arg, out, 1, false);
}
cr_status cr_shape_replication_pad2d(const cr_value *arg, cr_shape *out)
{
    return edge_pad(arg, out, 2, false);
}
cr_status cr_shape_replication_pad3d(const cr_value *arg, cr_shape *out)
{
    return edge_pad(arg, out, 3, false);
}

cr_status cr_shape_circular_pad(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view;
    const cr_value *pad = &arg[1];
    int n = self->ndim, spatial = (int)(pad->len / 2);

    if (pad->len % 2 || (n != spatial + 1 && n != spatial + 2))
        return cr_fail(
            CR_RUNTIME,
            "Invalid padding size, expected 1 or 2 non-padded dimensions, which would be "
            "equivalent to padding of length %d or %d respectively but got %u",
            2 * (n - 1), 2 * (n - 2), pad->len);
    CR_TRY(padded_shape(out, self, pad));
    for (int d = n - spatial; d < n; d++) {
        if (before(pad, n, d) > self->size[d] || after(pad, n, d) > self->size[d])
            return cr_fail(CR_RUNTIME, "Padding value causes wrapping around more than once.");
        int64_t b = before(pad, n, d), a = after(pad, n, d),
                left = self->size[d] + (b < 0 ? b : 0) + (a < 0 ? a : 0);
        if (out->size[d] < 0 ||
            (left <= 0 && out->size[d])) /* circular padding needs elements to repeat */
            return cr_fail(CR_RUNTIME,
                           "Negative padding value is resulting in an empty dimension");
    }
    return CR_OK;
}
