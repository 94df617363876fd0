/* Shape rule of resampling, with torch's checks in torch's order. */
#include "ops/shape.h"
#include "space/shape_text.h"
#include <stdio.h>

typedef long long ll; /* for printf */

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

    if (dims < 1 || dims > 3)
        return cr_fail(CR_RUNTIME, "expected one to three spatial dimensions, but got %lld",
                       (ll)dims);
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
