/* Padding.
 *
 * A constant pad is a fill and a copy.  The others repeat elements of the input: every
 * output position of the padded dimensions gets the byte offset of the element it shows,
 * and the walk of gather.c reads through these offsets, or adds back through them. */
#include "base/memory.h"
#include "kern/element.h"
#include "kern/entries.h"
#include "kern/gather.h"
#include "kern/walk.h"

static int64_t pad_before(const cr_value *pad, int ndim, int d)
{
    uint32_t pair = (uint32_t)(ndim - 1 - d);

    return 2 * pair < pad->len ? pad->ints[2 * pair] : 0;
}

static int64_t pad_after(const cr_value *pad, int ndim, int d)
{
    uint32_t pair = (uint32_t)(ndim - 1 - d);

    return 2 * pair < pad->len ? pad->ints[2 * pair + 1] : 0;
}

cr_status cr_kern_constant_pad(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    int64_t size[CR_MAX_DIMS];
    cr_view to = *out, from = *self;
    cr_complex value;

    cr_scalar_store(arg[2].number, (cr_dtype)out->dtype, &value);
    cr_fill_view(out, &value);
    for (int d = 0; d < out->ndim; d++) {
        int64_t before = pad_before(&arg[1], out->ndim, d);
        int64_t first = before > 0 ? before : 0, cut = before < 0 ? -before : 0;
        int64_t left = self->size[d] - cut, room = out->size[d] - first;
        size[d] = left < room ? left : room;
        size[d] = size[d] < 0 ? 0 : size[d];
        to.data += first * cr_view_step(out, d);
        from.data += cut * cr_view_step(self, d);
    }
    to.size = from.size = size;
    if (cr_view_numel(&to))
        cr_copy_view(&to, &from);
    return CR_OK;
}

/* The input position that output position i shows. */
typedef int64_t (*source_fn)(int64_t i, int64_t size, int64_t before, int64_t after);

static int64_t reflected(int64_t i, int64_t size, int64_t before, int64_t after)
{
    (void)after;
    i -= before;
    i = i < 0 ? -i : i;
    return i < size ? i : 2 * (size - 1) - i;
}

static int64_t nearest(int64_t i, int64_t size, int64_t before, int64_t after)
{
    (void)after;
    i -= before;
    return i < 0 ? 0 : i < size ? i : size - 1;
}

/* Negative pads cut the input first; what is left goes round. */
static int64_t around(int64_t i, int64_t size, int64_t before, int64_t after)
{
    int64_t cut = before < 0 ? -before : 0, left = size - cut - (after < 0 ? -after : 0);

    i -= before > 0 ? before : 0;
    return cut + (i % left + left) % left;
}

/* The padded dimensions are the last `count` of both views. */
typedef struct {
    cr_places places;
    int64_t table_stride[CR_MAX_DIMS], index_stride[CR_MAX_DIMS];
    bool picked[CR_MAX_DIMS];
} pad_plan;

/* Adds dimension d's share to every offset. */
static void add_dim(int64_t *offset, int64_t total, int64_t inner, int64_t size,
                    const int64_t *share)
{
    for (int64_t i = 0; i < total; i += inner * size)
        for (int64_t j = 0; j < size; j++)
            for (int64_t k = 0; k < inner; k++)
                offset[i + j * inner + k] += share[j];
}

/* Offsets into `small` for each position of `large`'s padded dimensions; owned. */
static int64_t *pad_offsets(const cr_view *large, const cr_view *small, const cr_value *pad,
                            source_fn source)
{
    int n = large->ndim, first = n - (int)(pad->len / 2);
    int64_t total = 1, inner = 1, longest = 0, *offset;

    for (int d = first; d < n; d++) {
        total *= large->size[d];
        longest = large->size[d] > longest ? large->size[d] : longest;
    }
    offset = cr_alloc_zero((size_t)(total + longest) * sizeof *offset);
    for (int d = n - 1; offset && d >= first; inner *= large->size[d--]) {
        int64_t *share = offset + total;
        for (int64_t i = 0; i < large->size[d]; i++)
            share[i] = cr_view_step(small, d) *
                       source(i, small->size[d], pad_before(pad, n, d), pad_after(pad, n, d));
        add_dim(offset, total, inner, large->size[d], share);
    }
    return offset;
}

static void plan_pad(pad_plan *p, const cr_view *large, const cr_view *small,
                     const cr_value *pad, int64_t *offset)
{
    int n = large->ndim, first = n - (int)(pad->len / 2);
    int64_t next = 1;

    p->places = (cr_places){n,
                            large->size,
                            small->data,
                            large->data,
                            (char *)offset,
                            p->table_stride,
                            large->stride,
                            p->index_stride,
                            1,
                            cr_view_item(small),
                            cr_view_item(large),
                            sizeof(int64_t)};
    for (int d = n - 1; d >= 0; d--) {
        p->picked[d] = d >= first;
        p->table_stride[d] = d >= first ? 0 : small->stride[d];
        p->index_stride[d] = d >= first ? next : 0;
        next *= large->size[d];
    }
}

static cr_status pad_by(source_fn source, const cr_value *arg, cr_view *out)
{
    pad_plan p;
    int64_t *offset;

    if (!cr_view_numel(out))
        return CR_OK;
    offset = pad_offsets(out, arg[0].view, &arg[1], source);
    if (!offset)
        return CR_MEMORY;
    plan_pad(&p, out, arg[0].view, &arg[1], offset);
    cr_places_read(&p.places);
    cr_free(offset);
    return CR_OK;
}

static cr_status pad_back(source_fn source, const cr_value *arg, cr_view *out)
{
    const cr_view *grad = arg[0].view;
    pad_plan p;
    int64_t *offset;

    cr_zero_view(out);
    if (!cr_view_numel(grad))
        return CR_OK;
    offset = pad_offsets(grad, out, &arg[2], source);
    if (!offset)
        return CR_MEMORY;
    plan_pad(&p, grad, out, &arg[2], offset);
    cr_places_write(&p.places, cr_combine_for(CR_COMBINE_ADD, (cr_dtype)out->dtype), p.picked);
    cr_free(offset);
    return CR_OK;
}

cr_status cr_kern_reflection_pad(const cr_value *arg, cr_view *out)
{
    return pad_by(reflected, arg, out);
}
cr_status cr_kern_replication_pad(const cr_value *arg, cr_view *out)
{
    return pad_by(nearest, arg, out);
}
cr_status cr_kern_circular_pad(const cr_value *arg, cr_view *out)
{
    return pad_by(around, arg, out);
}
cr_status cr_kern_reflection_pad_backward(const cr_value *arg, cr_view *out)
{
    return pad_back(reflected, arg, out);
}
cr_status cr_kern_replication_pad_backward(const cr_value *arg, cr_view *out)
{
    return pad_back(nearest, arg, out);
}
cr_status cr_kern_circular_pad_backward(const cr_value *arg, cr_view *out)
{
    return pad_back(around, arg, out);
}
