/* Shape rules of sorting, extremes with indices, scans and searching. */
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

/* Order statistics. */

cr_status cr_shape_median_dim(const cr_value *arg, cr_shape *out)
{
    return pair_of_lines("median", arg[0].view, arg[1].i, arg[2].i, out);
}

cr_status cr_shape_mode(const cr_value *arg, cr_shape *out)
{
    return pair_of_lines("mode", arg[0].view, arg[1].i, arg[2].i, out);
}

cr_status cr_shape_kthvalue(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view;
    int64_t dim;

    CR_TRY(pair_of_lines("kthvalue", self, arg[2].i, arg[3].i, out));
    CR_TRY(cr_wrap_dim(&dim, arg[2].i, self->ndim));
    if (arg[1].i < 1 || arg[1].i > cr_dim_size(self, dim))
        return cr_fail(CR_RUNTIME,
                       "kthvalue(): selected number k out of range for dimension %lld",
                       (ll)dim);
    return CR_OK;
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

/* Searching. */

static cr_status check_side(const cr_value *right, const cr_value *side)
{
    bool is_left = side->tag == CR_STRING && side->len == 4 && !memcmp(side->s, "left", 4);
    bool is_right = side->tag == CR_STRING && side->len == 5 && !memcmp(side->s, "right", 5);

    if (side->tag == CR_NONE)
        return CR_OK;
    if (!is_left && !is_right)
        return cr_fail(CR_RUNTIME,
                       "torch.searchsorted(): side can only be 'left' or 'right' but got %.*s",
                       (int)side->len, side->s);
    if (right->i && is_left)
        return cr_fail(CR_RUNTIME,
                       "torch.searchsorted(): side and right can't be set to opposites, got "
                       "side of left while right was True");
    return CR_OK;
}

static cr_status check_sorter_shape(const cr_view *sequence, const cr_view *sorter)
{
    if (!cr_same_sizes(sequence, sorter))
        return cr_fail(
            CR_RUNTIME,
            "torch.searchsorted(): boundary and sorter must have the same size, but got "
            "boundary tensor %sand got sorter tensor %s",
            cr_view_text(sequence), cr_view_text(sorter));
    if (sorter->dtype != CR_I64)
        return cr_fail(
            CR_RUNTIME,
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
            cr_legacy_name(sorter));
    return CR_OK;
}

/* Boundaries are one vector for all values, or one row for each row of values. */
static cr_status check_boundary_rows(const cr_view *sequence, const cr_view *self)
{
    bool rows = sequence->ndim == self->ndim && sequence->ndim;

    for (int d = 0; rows && d < self->ndim - 1; d++)
        rows = sequence->size[d] == self->size[d];
    if (self->ndim == 0 && sequence->ndim != 1)
        return cr_fail(
            CR_RUNTIME,
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
            "dimension is 1, but we got boundaries tensor dim(%d) and input value's dim(0) "
            "numel(1)",
            sequence->ndim);
    if (sequence->ndim == 1 || rows)
        return CR_OK;
    return cr_fail(
        CR_RUNTIME,
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
        "dimensions of boundaries tensor and input value tensor must match, but we got "
        "boundaries tensor %s and input value tensor %s",
        cr_view_text(sequence), cr_view_text(self));
}

/* (sorted_sequence, self, *, out_int32, right, side, sorter) */
cr_status cr_shape_searchsorted(const cr_value *arg, cr_shape *out)
{
    const cr_view *sequence = arg[0].view, *self = arg[1].view;

    CR_TRY(check_side(&arg[3], &arg[4]));
    CR_TRY(check_boundary_rows(sequence, self));
    if (arg[5].tag != CR_NONE)
        CR_TRY(check_sorter_shape(sequence, arg[5].view));
    cr_shape_like(out, self);
    return CR_OK;
}

/* (self, boundaries, *, out_int32, right) */
cr_status cr_shape_bucketize(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view, *boundaries = arg[1].view;

    if (boundaries->ndim != 1)
        return cr_fail(CR_RUNTIME, "boundaries tensor must be 1 dimension, but got dim(%d)",
                       boundaries->ndim);
    cr_shape_like(out, self);
    return CR_OK;
}
