/* Shape rules of sorting, extremes with indices and scans. */
#include "ops/shape.h"
#include "space/shape.h"
#include <string.h>

typedef long long ll; /* for printf */

/* The sizes of self without dim, or with size 1 there. */
static void reduced(cr_shape *out, const cr_view *self, int64_t dim, bool keep)
{
    cr_shape_like(out, self);
    if (!self->ndim)
        return;
    if (keep) {
        out->size[dim] = 1;
        return;
    }
    memmove(out->size + dim, out->size + dim + 1,
            (size_t)(self->ndim - 1 - dim) * sizeof *out->size);
    out->ndim--;
}

static cr_status refuse_empty(const char *what, const cr_view *self, int64_t dim)
{
    if (cr_dim_size(self, dim))
        return CR_OK;
    return cr_fail(CR_INDEX, "%s(): Expected reduction dim %lld to have non-zero size.", what,
                   (ll)dim);
}

/* Two results with one value for each line: values and indices. */
static cr_status pair_of_lines(const char *what, const cr_view *self, int64_t dim, bool keep,
                               cr_shape *out)
{
    CR_TRY(cr_wrap_dim(&dim, dim, self->ndim));
    CR_TRY(refuse_empty(what, self, dim));
    reduced(&out[0], self, dim, keep);
    out[1] = out[0];
    return CR_OK;
}

static cr_status arg_extreme_shape(const char *what, const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view;
    int64_t dim;

    if (arg[1].tag == CR_NONE) {
        if (!cr_numel(self->ndim, self->size))
            return cr_fail(CR_INDEX,
                           "%s(): Expected reduction dim to be specified for input.numel() "
                           "== 0.",
                           what);
        out->ndim = arg[2].i ? self->ndim : 0;
        for (int d = 0; d < out->ndim; d++)
            out->size[d] = 1;
        return CR_OK;
    }
    CR_TRY(cr_wrap_dim(&dim, arg[1].i, self->ndim));
    CR_TRY(refuse_empty(what, self, dim));
    reduced(out, self, dim, arg[2].i);
    return CR_OK;
}

cr_status cr_shape_argmax(const cr_value *arg, cr_shape *out)
{
    return arg_extreme_shape("argmax", arg, out);
}
cr_status cr_shape_argmin(const cr_value *arg, cr_shape *out)
{
    return arg_extreme_shape("argmin", arg, out);
}

cr_status cr_shape_max_dim(const cr_value *arg, cr_shape *out)
{
    return pair_of_lines("max", arg[0].view, arg[1].i, arg[2].i, out);
}

cr_status cr_shape_min_dim(const cr_value *arg, cr_shape *out)
{
    return pair_of_lines("min", arg[0].view, arg[1].i, arg[2].i, out);
}

static cr_status sorted_shape(const cr_view *self, int64_t dim, cr_shape *out)
{
    CR_TRY(cr_wrap_dim(&dim, dim, self->ndim));
    cr_shape_like(&out[0], self);
    out[1] = out[0];
    return CR_OK;
}

cr_status cr_shape_sort(const cr_value *arg, cr_shape *out)
{
    return sorted_shape(arg[0].view, arg[1].i, out);
}

cr_status cr_shape_sort_stable(const cr_value *arg, cr_shape *out)
{
    return sorted_shape(arg[0].view, arg[2].i, out);
}

cr_status cr_shape_topk(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view;
    int64_t dim;

    CR_TRY(cr_wrap_dim(&dim, arg[2].i, self->ndim));
    if (arg[1].i < 0 || arg[1].i > cr_dim_size(self, dim))
        return cr_fail(CR_RUNTIME, "selected index k out of range");
    cr_shape_like(&out[0], self);
    if (self->ndim)
        out[0].size[dim] = arg[1].i;
    out[1] = out[0];
    return CR_OK;
}

/* Scans keep the shape. */

cr_status cr_shape_scan(const cr_value *arg, cr_shape *out)
{
    int64_t dim;

    CR_TRY(cr_wrap_dim(&dim, arg[1].i, arg[0].view->ndim));
    cr_shape_like(out, arg[0].view);
    return CR_OK;
}

/* Values and indices. */
cr_status cr_shape_scan_pair(const cr_value *arg, cr_shape *out)
{
    CR_TRY(cr_shape_scan(arg, &out[0]));
    out[1] = out[0];
    return CR_OK;
}
