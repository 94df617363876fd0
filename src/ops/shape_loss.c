/* Sizes of losses. */
#include "ops/shape.h"
#include "base/error.h"

cr_status cr_shape_nll(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view, *target = arg[1].view;
    bool batched = self->ndim == 2;

    if (self->ndim != 1 && self->ndim != 2)
        return cr_fail(CR_RUNTIME, "input tensor should be 1D or 2D");
    if (target->ndim > 1)
        return cr_fail(CR_RUNTIME,
                       "0D or 1D target tensor expected, multi-target not supported");
    int64_t n = target->ndim ? target->size[0] : 1;
    if (!batched && n != 1)
        return cr_fail(CR_VALUE,
                       "For 1D input, 1D target must have size 1, but got target size: %lld",
                       (long long)n);
    if (batched && self->size[0] != n)
        return cr_fail(CR_VALUE,
                       "Expected input batch_size (%lld) to match target batch_size (%lld).",
                       (long long)self->size[0], (long long)n);
    if (arg[2].tag == CR_VIEW &&
        (arg[2].view->ndim != 1 || arg[2].view->size[0] != self->size[self->ndim - 1]))
        return cr_fail(CR_RUNTIME,
                       "weight tensor should be defined either for all %lld classes or no classes "
                       "but got weight tensor of shape: [%lld]",
                       (long long)self->size[self->ndim - 1],
                       (long long)(arg[2].view->ndim ? arg[2].view->size[0] : 1));
    out[0].ndim = batched && arg[3].i == 0;
    out[0].size[0] = n;
    out[1].ndim = 0;
    return CR_OK;
}
