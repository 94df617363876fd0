/* Text for the messages of shape rules. */
#include "space/shape_text.h"
#include <stdio.h>

const char *cr_sizes_text(char buffer[CR_SIZES_TEXT], int64_t ndim, const int64_t *size)
{
    size_t at = 1;

    buffer[0] = '[';
    for (int64_t d = 0; d < ndim && at < CR_SIZES_TEXT - 32; d++)
        at += (size_t)snprintf(buffer + at, CR_SIZES_TEXT - at, "%s%lld", d ? ", " : "",
                               (long long)size[d]);
    snprintf(buffer + at, CR_SIZES_TEXT - at, "]");
    return buffer;
}

cr_status cr_check_expand(const cr_view *v, int ndim, const int64_t *size)
{
    int lead = ndim - v->ndim;

    if (lead < 0)
        return cr_fail(
            CR_RUNTIME,
            "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must "
            "be greater or equal to the number of dimensions in the tensor (%d)",
            cr_legacy_name(v), cr_view_text(v), cr_shape_text(ndim, size), ndim, v->ndim);
    for (int d = v->ndim - 1; d >= 0; d--)
        if (v->size[d] != 1 && v->size[d] != size[lead + d])
            return cr_fail(
                CR_RUNTIME,
                "The expanded size of the tensor (%lld) must match the existing size "
                "(%lld) at non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
                (long long)size[lead + d], (long long)v->size[d], lead + d,
                cr_shape_text(ndim, size), cr_view_text(v));
    return CR_OK;
}
