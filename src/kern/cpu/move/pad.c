/* The gradients of padding.
 *
 * Modes other than a constant repeat elements of the input: the walk of gather.c adds back
 * through the offsets of the source elements, for one run of columns after the other. */
#include "base/memory.h"
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/move/gather.h"
#include "kern/cpu/walk.h"

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

/* The input position whose element output position i repeats. */
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
    if (before >= 0)
        return i <= before ? 0 : i - before < size ? i - before : size - 1;
    return i < size + before ? i - before : size - 1;
}

/* Negative pads cut the input first; the rest repeats cyclically. */
static int64_t around(int64_t i, int64_t size, int64_t before, int64_t after)
{
    int64_t cut = before < 0 ? -before : 0, left = size - cut - (after < 0 ? -after : 0);

    i -= before > 0 ? before : 0;
    return cut + (i % left + left) % left;
}

/* The padded dimensions are the last dimensions of both views.  All but the last are read
 * through an index of offsets.  The last is cut into runs; within a run the source moves by one
 * step: forward, backward or not at all. */
typedef struct {
    const cr_view *large, *small;
    const cr_value *pad;
    source_fn source;
    int64_t *offset; /* over the padded dimensions except the last */
    int first;       /* the first padded dimension */
} pad_plan;

static int64_t source_of(const pad_plan *p, int d, int64_t i)
{
    int n = p->large->ndim;

    return p->source(i, p->small->size[d], pad_before(p->pad, n, d), pad_after(p->pad, n, d));
}

/* Adds the offset in dimension d to every offset. */
static void add_dim(const pad_plan *p, int d, int64_t total, int64_t inner)
{
    int64_t size = p->large->size[d], step = cr_view_step(p->small, d);

    for (int64_t j = 0; j < size; j++) {
        int64_t share = source_of(p, d, j) * step;
        for (int64_t i = j * inner; i < total; i += inner * size)
            for (int64_t k = 0; k < inner; k++)
                p->offset[i + k] += share;
    }
}

static cr_status make_plan(pad_plan *p, const cr_view *large, const cr_view *small,
                           const cr_value *pad, source_fn source)
{
    int64_t total = 1, inner = 1;

    *p = (pad_plan){.large = large,
                    .small = small,
                    .pad = pad,
                    .source = source,
                    .first = large->ndim - (int)(pad->len / 2)};
    for (int d = p->first; d < large->ndim - 1; d++)
        total *= large->size[d];
    p->offset = cr_alloc_zero((size_t)total * sizeof *p->offset);
    for (int d = large->ndim - 2; p->offset && d >= p->first; inner *= large->size[d--])
        add_dim(p, d, total, inner);
    return p->offset ? CR_OK : CR_MEMORY;
}

/* The end of the run that begins at i in the last dimension; *by is its step in the source. */
static int64_t run_end(const pad_plan *p, int64_t i, int64_t *by)
{
    int last = p->large->ndim - 1;
    int64_t size = p->large->size[last], at = source_of(p, last, i), end = i + 1;

    *by = end < size ? source_of(p, last, end) - at : 0;
    if (*by < -1 || *by > 1)
        *by = 0;
    while (end < size && source_of(p, last, end) == at + (end - i) * *by)
        end++;
    return end;
}

/* The walk over columns [begin, end), a run along the last dimension. */
static void each_run(const pad_plan *p, int64_t begin, int64_t end, int64_t by,
                     cr_combine_fn add)
{
    int n = p->large->ndim, last = n - 1;
    int64_t size[CR_MAX_DIMS], table[CR_MAX_DIMS], index[CR_MAX_DIMS], next = 1;
    bool picked[CR_MAX_DIMS];
    cr_places w = {.ndim = n,
                   .size = size,
                   .table = p->small->data,
                   .other = p->large->data,
                   .index = (char *)p->offset,
                   .table_stride = table,
                   .other_stride = p->large->stride,
                   .index_stride = index,
                   .unit = 1,
                   .item = cr_view_item(p->small),
                   .other_item = cr_view_item(p->large),
                   .index_item = sizeof *p->offset};

    for (int d = n - 1; d >= 0; d--) {
        picked[d] = d >= p->first;
        size[d] = d == last ? end - begin : p->large->size[d];
        table[d] = d == last ? by * p->small->stride[d] : picked[d] ? 0 : p->small->stride[d];
        index[d] = picked[d] && d < last ? next : 0;
        next *= picked[d] && d < last ? size[d] : 1;
    }
    w.table += source_of(p, last, begin) * cr_view_step(p->small, last);
    w.other += begin * cr_view_step(p->large, last);
    cr_places_write(&w, add, picked);
}

static void all_runs(const pad_plan *p, cr_combine_fn add)
{
    int64_t size = p->large->size[p->large->ndim - 1], by;

    for (int64_t i = 0, end; i < size; i = end) {
        end = run_end(p, i, &by);
        each_run(p, i, end, by, add);
    }
}

static cr_status pad_back(source_fn source, const cr_value *arg, cr_view *out)
{
    const cr_view *grad = arg[0].view;
    pad_plan p;

    cr_zero_view(out);
    if (!cr_view_numel(grad))
        return CR_OK;
    CR_TRY(make_plan(&p, grad, out, &arg[2], source));
    all_runs(&p, cr_combine_for(CR_COMBINE_ADD, (cr_dtype)out->dtype));
    cr_free(p.offset);
    return CR_OK;
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
