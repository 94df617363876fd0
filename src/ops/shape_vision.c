/* Shape rules of torchvision's operators.
 *
 * Regions are rows [image, x1, y1, x2, y2]; the pooling rules end with the sizes of a bin grid.
 */
#include "base/error.h"
#include "base/integer.h"
#include "ops/shape.h"
#include "space/shape.h"
#include <stdio.h>

typedef long long ll;

/* "torch.FloatTensor", and "CPUBFloat16Type" of a dtype that has no such class. */
static const char *vision_class(char buffer[48], const cr_view *v)
{
    bool old = v->dtype <= CR_F64 && v->dtype != CR_BF16;

    snprintf(buffer, 48, old ? "torch.%sTensor" : "CPU%sType", cr_legacy_name(v));
    return buffer;
}

static cr_status vision_same_types(const cr_view *first, const char *name, const cr_view *rois,
                                   const char *kernel)
{
    char a[48], b[48];

    if (first->dtype == rois->dtype)
        return CR_OK;
    return cr_fail(
        CR_RUNTIME,
        "Expected tensor for argument #1 '%s' to have the same type as tensor for "
        "argument #2 'rois'; but type %s does not equal %s (while checking arguments "
        "for %s)",
        name, vision_class(a, first), vision_class(b, rois), kernel);
}

static cr_status vision_has_dim(const cr_view *v, int dim)
{
    int n = v->ndim ? v->ndim : 1;

    if (dim < n)
        return CR_OK;
    return cr_fail(CR_INDEX,
                   "Dimension out of range (expected to be in range of [%d, %d], but got %d)",
                   -n, n - 1, dim);
}

static cr_status vision_check_rois(const cr_view *rois, const char *text)
{
    CR_TRY(vision_has_dim(rois, 1));
    return rois->ndim == 2 && rois->size[1] == 5 ? CR_OK : cr_fail(CR_RUNTIME, "%s", text);
}

static const char vision_rois_text[] = "rois must have shape as Tensor[K, 5]";
static const char vision_ps_rois_text[] = "Tensor rois should have shape as Tensor[K, 5]";

static cr_status vision_check_sizes(int64_t a, int64_t b)
{
    if (a < 0 || b < 0)
        return cr_fail(CR_RUNTIME, "zeros: Dimension size must be non-negative.");
    return a <= INT32_MAX && b <= INT32_MAX
               ? CR_OK
               : cr_fail(CR_RUNTIME, "sizes %lld and %lld are too large", (ll)a, (ll)b);
}

/* Bins of `channels` channels for every region. */
static void vision_bins(cr_shape *out, const cr_view *rois, int64_t channels, int64_t height,
                        int64_t width)
{
    *out = (cr_shape){.ndim = 4, .size = {rois->size[0], channels, height, width}};
}

/* arg: input, rois, spatial_scale, pooled_height, pooled_width */
static cr_status vision_pooled(const cr_value *arg, const char *kernel, cr_shape *out)
{
    const cr_view *x = arg[0].view, *rois = arg[1].view;

    CR_TRY(vision_check_rois(rois, vision_rois_text));
    CR_TRY(vision_same_types(x, "input", rois, kernel));
    CR_TRY(vision_has_dim(x, 3));
    if (x->ndim != 4)
        return cr_fail(CR_RUNTIME, "input must have shape as Tensor[N, C, H, W]");
    CR_TRY(vision_check_sizes(arg[3].i, arg[4].i));
    vision_bins(out, rois, x->size[1], arg[3].i, arg[4].i);
    return CR_OK;
}

cr_status cr_shape_roi_align(const cr_value *arg, cr_shape *out)
{
    return vision_pooled(arg, "roi_align_forward_kernel", out);
}

cr_status cr_shape_roi_pool(const cr_value *arg, cr_shape *out)
{
    CR_TRY(vision_pooled(arg, "roi_pool_forward_kernel", &out[0]));
    out[1] = out[0];
    return CR_OK;
}

/* The channels of a position-sensitive result: `channels` divided by the number of bins. */
static cr_status vision_divided(int64_t *out, int64_t channels, int64_t height, int64_t width)
{
    int64_t bins;

    CR_TRY(vision_check_sizes(height, width));
    if (CR_MUL_OVERFLOW(height, width, &bins) || !bins || channels % bins)
        return cr_fail(CR_RUNTIME,
                       "input channels must be a multiple of pooling height * pooling width");
    *out = channels / bins;
    return CR_OK;
}

static cr_status vision_ps_pooled(const cr_value *arg, const char *kernel, cr_shape *out)
{
    const cr_view *x = arg[0].view, *rois = arg[1].view;
    int64_t channels = 0;

    CR_TRY(vision_check_rois(rois, vision_ps_rois_text));
    CR_TRY(vision_same_types(x, "input", rois, kernel));
    CR_TRY(vision_has_dim(x, 3));
    if (x->ndim != 4)
        return cr_fail(CR_RUNTIME, "input must have shape as Tensor[N, C, H, W]");
    CR_TRY(vision_divided(&channels, x->size[1], arg[3].i, arg[4].i));
    vision_bins(&out[0], rois, channels, arg[3].i, arg[4].i);
    out[1] = out[0];
    return CR_OK;
}

cr_status cr_shape_ps_roi_align(const cr_value *arg, cr_shape *out)
{
    return vision_ps_pooled(arg, "ps_roi_align_forward_kernel", out);
}

cr_status cr_shape_ps_roi_pool(const cr_value *arg, cr_shape *out)
{
    return vision_ps_pooled(arg, "ps_roi_pool_forward_kernel", out);
}

/* --- derivatives: grad, rois, and the sizes of the input --- */

static cr_status vision_input_sizes(const cr_value *size, cr_shape *out)
{
    CR_TRY(vision_check_sizes(size[0].i, size[1].i));
    CR_TRY(vision_check_sizes(size[2].i, size[3].i));
    *out = (cr_shape){.ndim = 4, .size = {size[0].i, size[1].i, size[2].i, size[3].i}};
    return CR_OK;
}

/* grad has a result's sizes, and so has `more`, a second result, unless it is NULL. */
static cr_status vision_check_grad(const cr_view *grad, const cr_view *more, const char *name,
                                   const cr_shape *expected)
{
    cr_view like = {.ndim = 4, .size = expected->size};

    if (!cr_same_sizes(grad, &like))
        return cr_fail(CR_RUNTIME, "grad has sizes %s, expected %s", cr_view_text(grad),
                       cr_view_text(&like));
    if (more && !cr_same_sizes(more, &like))
        return cr_fail(CR_RUNTIME, "%s has sizes %s, expected %s", name, cr_view_text(more),
                       cr_view_text(&like));
    return CR_OK;
}

typedef struct {
    const char *kernel;
    const cr_view *grad, *rois, *more; /* more may be NULL */
    const char *more_name;
    int64_t height, width;
    const cr_value *size; /* batch_size, channels, height, width */
    bool sensitive;       /* to the position of a bin */
} vision_backward;

static cr_status vision_backward_sizes(const vision_backward *b, cr_shape *out)
{
    cr_shape expected;
    int64_t channels = b->size[1].i;

    CR_TRY(vision_check_rois(b->rois, b->sensitive ? vision_ps_rois_text : vision_rois_text));
    CR_TRY(vision_same_types(b->grad, "grad", b->rois, b->kernel));
    CR_TRY(vision_input_sizes(b->size, out));
    if (b->sensitive)
        CR_TRY(vision_divided(&channels, channels, b->height, b->width));
    CR_TRY(vision_check_sizes(b->height, b->width));
    vision_bins(&expected, b->rois, channels, b->height, b->width);
    return vision_check_grad(b->grad, b->more, b->more_name, &expected);
}

/* (grad, rois, spatial_scale, pooled_height, pooled_width, batch_size, channels, height, width,
 * sampling_ratio, aligned) */
cr_status cr_shape_roi_align_backward(const cr_value *arg, cr_shape *out)
{
    vision_backward b = {.kernel = "roi_align_backward_kernel",
                         .grad = arg[0].view,
                         .rois = arg[1].view,
                         .height = arg[3].i,
                         .width = arg[4].i,
                         .size = arg + 5};

    return vision_backward_sizes(&b, out);
}

/* (grad, rois, argmax, spatial_scale, pooled_height, pooled_width, sizes...) */
cr_status cr_shape_roi_pool_backward(const cr_value *arg, cr_shape *out)
{
    vision_backward b = {.kernel = "roi_pool_backward_kernel",
                         .grad = arg[0].view,
                         .rois = arg[1].view,
                         .more = arg[2].view,
                         .more_name = "argmax",
                         .height = arg[4].i,
                         .width = arg[5].i,
                         .size = arg + 6};

    if (b.more->dtype != CR_I32)
        return cr_fail(CR_RUNTIME, "expected scalar type Int but found %s",
                       cr_legacy_name(b.more));
    return vision_backward_sizes(&b, out);
}

/* (grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, sampling_ratio,
 * sizes...) */
cr_status cr_shape_ps_roi_align_backward(const cr_value *arg, cr_shape *out)
{
    vision_backward b = {.kernel = "ps_roi_align_backward_kernel",
                         .grad = arg[0].view,
                         .rois = arg[1].view,
                         .more = arg[2].view,
                         .more_name = "channel_mapping",
                         .height = arg[4].i,
                         .width = arg[5].i,
                         .size = arg + 7,
                         .sensitive = true};

    return vision_backward_sizes(&b, out);
}

/* The same without sampling_ratio. */
cr_status cr_shape_ps_roi_pool_backward(const cr_value *arg, cr_shape *out)
{
    vision_backward b = {.kernel = "ps_roi_pool_backward_kernel",
                         .grad = arg[0].view,
                         .rois = arg[1].view,
                         .more = arg[2].view,
                         .more_name = "channel_mapping",
                         .height = arg[4].i,
                         .width = arg[5].i,
                         .size = arg + 6,
                         .sensitive = true};

    return vision_backward_sizes(&b, out);
}

/* --- boxes --- */

static cr_status vision_check_rotated(const cr_view *v, const char *name)
{
    if (v->ndim == 2 && v->size[1] == 5)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "%s should have shape (N, 5), got %s", name, cr_view_text(v));
}

cr_status cr_shape_box_iou_rotated(const cr_value *arg, cr_shape *out)
{
    const cr_view *a = arg[0].view, *b = arg[1].view;

    CR_TRY(vision_check_rotated(a, "boxes1"));
    CR_TRY(vision_check_rotated(b, "boxes2"));
    if (a->dtype != b->dtype)
        return cr_fail(CR_RUNTIME, "boxes1 and boxes2 must have the same dtype");
    *out = (cr_shape){.ndim = 2, .size = {a->size[0], b->size[0]}};
    return CR_OK;
}

/* --- deformable convolution --- */

/* input, weight, offset, mask, [stride, pad, dilation], groups, offset_groups, use_mask */
typedef struct {
    const cr_view *input, *weight, *offset, *mask;
    int64_t shift[6], groups, offset_groups, height, width; /* the sizes of the result */
    bool use_mask;
} vision_deform;

static cr_status vision_expected(const char *condition)
{
    return cr_fail(CR_RUNTIME,
                   "Expected %s to be true, but got false.  (Could this error message be "
                   "improved?  If so, please report an enhancement request to PyTorch.)",
                   condition);
}

static cr_status vision_check_ranks(const vision_deform *d)
{
    if (d->input->ndim != 4)
        return vision_expected("input_c.ndimension() == 4");
    if (d->offset->ndim != 4)
        return vision_expected("offset_c.ndimension() == 4");
    if (d->use_mask && d->mask->ndim != 4)
        return vision_expected("!use_mask || mask_c.ndimension() == 4");
    if (d->weight->ndim != 4)
        return vision_expected("weight_c.ndimension() == 4");
    return CR_OK;
}

static cr_status vision_check_pair(const char *name, int64_t h, int64_t w, int64_t least)
{
    if (h >= least && w >= least && h <= INT32_MAX && w <= INT32_MAX)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "%s_h: %lld %s_w: %lld", name, (ll)h, name, (ll)w);
}

static cr_status vision_check_numbers(const vision_deform *d)
{
    const int64_t *s = d->shift;

    CR_TRY(vision_check_pair("weight", d->weight->size[2], d->weight->size[3], 1));
    CR_TRY(vision_check_pair("stride", s[0], s[1], 1));
    CR_TRY(vision_check_pair("pad", s[2], s[3], 0));
    return vision_check_pair("dilation", s[4], s[5], 1);
}

/* The channels of offset (twice the taps) or mask, for all offset groups. */
static cr_status vision_check_taps(const char *name, const cr_view *v, const vision_deform *d,
                                   int64_t each)
{
    int64_t expected = 0;
    bool over = CR_MUL_OVERFLOW(d->weight->size[2], d->weight->size[3], &expected) ||
                CR_MUL_OVERFLOW(expected, each, &expected) ||
                CR_MUL_OVERFLOW(expected, d->offset_groups, &expected);

    if (!over && v->size[1] == expected)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "%s.shape[1] is not valid: got: %lld expected: %lld", name,
                   (ll)v->size[1], (ll)expected);
}

static cr_status vision_check_groups(const vision_deform *d)
{
    int64_t channels;

    if (CR_MUL_OVERFLOW(d->weight->size[1], d->groups, &channels) ||
        channels != d->input->size[1] || d->groups < 1)
        return vision_expected("weight_c.size(1) * n_weight_grps == input_c.size(1)");
    if (d->weight->size[0] % d->groups)
        return vision_expected("weight_c.size(0) % n_weight_grps == 0");
    CR_TRY(vision_check_taps("offset", d->offset, d, 2));
    if (d->offset_groups < 1 || d->input->size[1] % d->offset_groups)
        return vision_expected("input_c.size(1) % n_offset_grps == 0");
    if (d->use_mask)
        CR_TRY(vision_check_taps("mask", d->mask, d, 1));
    if (d->offset->size[0] != d->input->size[0])
        return cr_fail(CR_RUNTIME, "invalid batch size of offset");
    if ((d->mask->ndim ? d->mask->size[0] : 1) != d->input->size[0])
        return cr_fail(CR_RUNTIME, "invalid batch size of mask");
    return CR_OK;
}

static int64_t vision_places(const vision_deform *d, int k)
{
    int64_t span = d->shift[4 + k] * (d->weight->size[2 + k] - 1) + 1, room;

    if (CR_ADD_OVERFLOW(d->input->size[2 + k], 2 * d->shift[2 + k] - span, &room))
        room = INT64_MAX - 1;
    return cr_floor_div(room, d->shift[k]) + 1;
}

static cr_status vision_check_places(const char *name, const cr_view *v, int64_t h, int64_t w)
{
    if (v->size[2] == h && v->size[3] == w)
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "%s output dims: (%lld, %lld) - computed output dims: (%lld, %lld)", name,
                   (ll)v->size[2], (ll)v->size[3], (ll)h, (ll)w);
}

static cr_status vision_check_dtypes(const vision_deform *d)
{
    if (d->weight->dtype != d->input->dtype)
        return cr_fail(CR_RUNTIME, "mat1 and mat2 must have the same dtype, but got %s and %s",
                       cr_legacy_name(d->weight), cr_legacy_name(d->input));
    const cr_view *odd = d->offset->dtype != d->input->dtype                ? d->offset
                         : d->use_mask && d->mask->dtype != d->input->dtype ? d->mask
                                                                            : NULL;
    return odd ? cr_fail(CR_RUNTIME, "expected scalar type %s but found %s",
                         cr_legacy_name(d->input), cr_legacy_name(odd))
               : CR_OK;
}

static cr_status vision_check_deform(vision_deform *d, const cr_value *arg)
{
    *d = (vision_deform){arg[0].view,         arg[1].view,        arg[2].view,
                         arg[3].view,         .groups = arg[5].i, .offset_groups = arg[6].i,
                         .use_mask = arg[7].i};
    if (arg[4].len != 6)
        return cr_fail(CR_RUNTIME, "shifts has %u numbers, expected 6", arg[4].len);
    for (int i = 0; i < 6; i++)
        d->shift[i] = arg[4].ints[i];
    CR_TRY(vision_check_ranks(d));
    CR_TRY(vision_check_numbers(d));
    CR_TRY(vision_check_groups(d));
    d->height = vision_places(d, 0);
    d->width = vision_places(d, 1);
    CR_TRY(vision_check_places("offset", d->offset, d->height, d->width));
    if (d->use_mask)
        CR_TRY(vision_check_places("mask", d->mask, d->height, d->width));
    if (d->height <= 0 || d->width <= 0)
        return cr_fail(CR_RUNTIME, "Calculated output size too small - out_h: %lld out_w: %lld",
                       (ll)d->height, (ll)d->width);
    return vision_check_dtypes(d);
}

cr_status cr_shape_deform(const cr_value *arg, cr_shape *out)
{
    vision_deform d;
    int64_t rows, places;

    CR_TRY(vision_check_deform(&d, arg));
    if (CR_MUL_OVERFLOW(d.weight->size[2], d.weight->size[3], &rows) ||
        CR_MUL_OVERFLOW(rows, d.input->size[1], &rows) ||
        CR_MUL_OVERFLOW(d.height, d.width, &places))
        return cr_fail(CR_RUNTIME, "the columns of a deformable convolution are too many");
    *out = (cr_shape){.ndim = 3, .size = {d.input->size[0], rows, places}};
    return CR_OK;
}

/* Checks a cotangent of the columns, and gives the sizes of argument `like`. */
static cr_status vision_deform_grad(const cr_value *arg, int like, cr_shape *out)
{
    cr_view expected = {.ndim = 3, .size = out->size};

    CR_TRY(cr_shape_deform(arg + 1, out));
    if (!cr_same_sizes(arg[0].view, &expected))
        return cr_fail(CR_RUNTIME, "grad has sizes %s, expected %s", cr_view_text(arg[0].view),
                       cr_view_text(&expected));
    if (arg[0].view->dtype != arg[1].view->dtype)
        return cr_fail(CR_RUNTIME, "expected scalar type %s but found %s",
                       cr_legacy_name(arg[1].view), cr_legacy_name(arg[0].view));
    cr_shape_like(out, arg[like].view);
    return CR_OK;
}

cr_status cr_shape_deform_input_grad(const cr_value *arg, cr_shape *out)
{
    return vision_deform_grad(arg, 1, out);
}
cr_status cr_shape_deform_offset_grad(const cr_value *arg, cr_shape *out)
{
    return vision_deform_grad(arg, 3, out);
}
cr_status cr_shape_deform_mask_grad(const cr_value *arg, cr_shape *out)
{
    return vision_deform_grad(arg, 4, out);
}
