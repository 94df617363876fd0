/* Shape rules of the Fourier transforms. */
#include "ops/shape.h"
#include "space/shape.h"
#include "space/shape_text.h"

static cr_status fft_check_dims(const cr_view *v, const cr_value *dims)
{
    uint64_t seen = 0;

    for (uint32_t i = 0; i < dims->len; i++) {
        int64_t d = dims->ints[i] < 0 ? dims->ints[i] + v->ndim : dims->ints[i];
        if (d < 0 || d >= v->ndim)
            return cr_fail(
                CR_INDEX,
                "Dimension out of range (expected to be in range of [%d, %d], but got %lld)",
                -v->ndim, v->ndim - 1, (long long)dims->ints[i]);
        if (seen >> d & 1)
            return cr_fail(CR_RUNTIME, "FFT dims must be unique");
        seen |= (uint64_t)1 << d;
        if (v->size[d] < 1)
            return cr_fail(CR_RUNTIME, "Invalid number of data points (%lld) specified",
                           (long long)v->size[d]);
    }
    return CR_OK;
}

static int64_t *last_size(cr_shape *out, const cr_value *dims)
{
    int64_t d = dims->ints[dims->len - 1];

    return &out->size[d < 0 ? d + out->ndim : d];
}

static cr_status check_type(const cr_view *v, bool complex)
{
    if (v->dtype == CR_F16 || v->dtype == CR_BF16)
        return cr_fail(CR_RUNTIME, "Unsupported dtype %s", cr_legacy_name(v));
    if (complex != cr_dtype_is_complex((cr_dtype)v->dtype) ||
        !cr_dtype_is_inexact((cr_dtype)v->dtype))
        return cr_fail(CR_RUNTIME, "Expected a %s tensor, but got %s",
                       complex ? "complex" : "real", cr_legacy_name(v));
    return CR_OK;
}

/* (self, dim, normalization, forward) */
cr_status cr_shape_fft_c2c(const cr_value *arg, cr_shape *out)
{
    CR_TRY(check_type(arg[0].view, true));
    CR_TRY(fft_check_dims(arg[0].view, &arg[1]));
    cr_shape_like(out, arg[0].view);
    return CR_OK;
}

static cr_status check_some(const cr_value *dims)
{
    return dims->len ? CR_OK : cr_fail(CR_RUNTIME, "must transform at least one axis");
}

/* (self, dim, normalization, onesided) */
cr_status cr_shape_fft_r2c(const cr_value *arg, cr_shape *out)
{
    CR_TRY(check_some(&arg[1]));
    CR_TRY(check_type(arg[0].view, false));
    CR_TRY(fft_check_dims(arg[0].view, &arg[1]));
    cr_shape_like(out, arg[0].view);
    if (arg[3].i)
        *last_size(out, &arg[1]) = *last_size(out, &arg[1]) / 2 + 1;
    return CR_OK;
}

/* (self, dim, normalization, last_dim_size) */
cr_status cr_shape_fft_c2r(const cr_value *arg, cr_shape *out)
{
    CR_TRY(check_some(&arg[1]));
    CR_TRY(check_type(arg[0].view, true));
    CR_TRY(fft_check_dims(arg[0].view, &arg[1]));
    cr_shape_like(out, arg[0].view);
    if (*last_size(out, &arg[1]) < arg[3].i / 2 + 1)
        return cr_fail(CR_RUNTIME,
                       "a real transform of length %lld needs %lld elements, but got %lld",
                       (long long)arg[3].i, (long long)(arg[3].i / 2 + 1),
                       (long long)*last_size(out, &arg[1]));
    *last_size(out, &arg[1]) = arg[3].i;
    return CR_OK;
}
