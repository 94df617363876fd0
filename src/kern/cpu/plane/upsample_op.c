/* The entries of resampling: translate arguments to planes. */
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/plane/upsample.h"
#include "kern/cpu/walk.h"

/* mode, align_corners, scales */
static cr_upsample upsample_describe(const cr_view *in, const cr_view *out, const cr_value *arg)
{
    cr_upsample u = {.planes = in->size[0] * in->size[1],
                     .in = {1, 1, 1},
                     .out = {1, 1, 1},
                     .mode = (cr_upsample_mode)arg[0].i,
                     .align_corners = arg[1].i};
    int dims = in->ndim - 2;

    for (int d = 0; d < dims; d++) {
        u.in[3 - dims + d] = in->size[d + 2];
        u.out[3 - dims + d] = out->size[d + 2];
        if (arg[2].tag == CR_FLOATS)
            u.scale[3 - dims + d] = arg[2].floats[d];
    }
    return u;
}

static cr_status resample(const cr_upsample *u, const cr_view *from, const cr_view *to,
                          bool back)
{
    bool own = from->dtype == CR_F64 || (from->dtype == CR_U8 && !back);
    cr_dtype t = own ? (cr_dtype)from->dtype : CR_F32;
    cr_dense a = {0}, b = {0};
    cr_status st;

    if (!cr_view_numel(to))
        return CR_OK;
    CR_GO(cr_dense_in(&a, from, t));
    CR_GO(cr_dense_out(&b, to, t));
    if (back)
        CR_GO(cr_upsample_back(u, t, a.data, b.data));
    else
        CR_GO(cr_upsample_run(u, t, a.data, b.data));
    cr_dense_store(&b, to, t);
done:
    cr_dense_drop(&a);
    cr_dense_drop(&b);
    return st;
}

/* (self, output_size, mode, align_corners, scales) */
cr_status cr_kern_upsample(const cr_value *arg, cr_view *out)
{
    cr_upsample u = upsample_describe(arg[0].view, out, arg + 2);

    return resample(&u, arg[0].view, out, false);
}

/* (grad_output, input_size, mode, align_corners, scales) */
cr_status cr_kern_upsample_backward(const cr_value *arg, cr_view *out)
{
    cr_upsample u = upsample_describe(out, arg[0].view, arg + 2);

    return resample(&u, arg[0].view, out, true);
}
