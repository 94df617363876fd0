/* Which elements a list of index tensors picks.
 *
 * Every index tensor takes one dim of the table and every mask as many as it has.  Masks count
 * as vectors of their true elements. */
#include "space/picked.h"
#include "space/shape.h"
#include "space/space.h"
#include <stdio.h>
#include <string.h>

/* Bools are 0 or 1: sums them in blocks that the compiler vectorizes. */
static int64_t count_true_bytes(const char *p, int64_t n)
{
    enum { BLOCK = 128 };
    int64_t sum = 0;

    for (; n >= BLOCK; n -= BLOCK, p += BLOCK) {
        uint8_t part = 0;
        for (int k = 0; k < BLOCK; k++)
            part = (uint8_t)(part + (uint8_t)p[k]);
        sum += part;
    }
    for (int64_t k = 0; k < n; k++)
        sum += p[k] != 0;
    return sum;
}

typedef struct {
    cr_dtype dtype;
    int64_t n;
} true_count;

static void count_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    true_count *c = context;
    const char *p = *at;

    if (c->dtype == CR_BOOL && *step == 1) {
        c->n += count_true_bytes(p, n);
        return;
    }
    for (int64_t i = 0; i < n; i++, p += *step)
        c->n +=
            c->dtype == CR_BOOL ? *p != 0 : cr_scalar_is_nonzero(cr_scalar_load(c->dtype, p));
}

int64_t cr_count_trues(const cr_view *v)
{
    true_count c = {(cr_dtype)v->dtype, 0};
    cr_space s;

    cr_space_of_view(&s, v);
    cr_space_order(&s);
    cr_space_merge(&s, 0);
    cr_space_walk(&s, s.ndim, &v->data, 0, cr_space_count(&s, s.ndim), count_row, &c);
    return c.n;
}

static cr_status too_many(const cr_view *self, int got)
{
    return cr_fail(CR_INDEX, "too many indices for tensor of dimension %d (got %d)", self->ndim,
                   got);
}

static cr_status plan_mask(cr_index_plan *p, const cr_view *self, const cr_view *mask, int dim)
{
    for (int d = 0; d < mask->ndim; d++)
        if (dim + d >= self->ndim || mask->size[d] != self->size[dim + d])
            return cr_fail(
                CR_INDEX,
                "The shape of the mask %s at index %d does not match the shape of the "
                "indexed tensor %s at index %d",
                cr_view_text(mask), d, cr_view_text(self), dim + d);
    if (!mask->data && cr_numel(mask->ndim, mask->size))
        p->uncounted = true;
    p->index[p->count].trues = p->uncounted ? 0 : cr_count_trues(mask);
    return CR_OK;
}

/* The number of dimensions that entry `v` indexes, after its check. */
static int entry_dims(const cr_value *v)
{
    return v->tag != CR_NONE && cr_is_mask(v->view) ? v->view->ndim : 1;
}

static cr_status plan_entry(cr_index_plan *p, const cr_view *self, const cr_value *entry,
                            int dim)
{
    const cr_view *v = entry->view;
    int64_t trues;

    if (p->count == CR_MAX_DIMS) /* masks without dims: self may have any number of them */
        return cr_fail(CR_INDEX, "at most %d tensors can be used as indices", CR_MAX_DIMS);
    p->index[p->count].view = v;
    p->index[p->count].dim = dim;
    p->index[p->count].trues = -1;
    if (!cr_is_mask(v) && !cr_is_index_type(v))
        return cr_fail(CR_INDEX,
                       "tensors used as indices must be long, int, byte or bool tensors");
    if (cr_is_mask(v))
        CR_TRY(plan_mask(p, self, v, dim));
    for (int d = dim; d < dim + entry_dims(entry) && d < self->ndim; d++)
        p->by_index[d] = true;
    trues = p->index[p->count++].trues;
    if (p->uncounted) /* nothing is known of the sizes that the indices have together */
        return CR_OK;
    if (trues < 0 ? cr_shape_broadcast(&p->picked, v->ndim, v->size)
                  : cr_shape_broadcast(&p->picked, 1, &trues))
        return CR_OK;
    return cr_fail(CR_INDEX,
                   "shape mismatch: indexing tensors could not be broadcast together");
}

/* torch's message names all shapes; a mask appears as a vector of its true elements. */
static cr_status name_shapes(const cr_value *indices)
{
    char text[512];
    size_t at = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < indices->len && at < sizeof text - 300; i++) {
        const cr_value *e = &indices->list[i];
        int64_t n;
        const char *one;
        if (e->tag == CR_NONE)
            continue;
        bool counted = cr_is_mask(e->view) && e->view->data;
        n = counted ? cr_count_trues(e->view) : 0;
        one = counted ? cr_shape_text(1, &n) : cr_view_text(e->view);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at ? ", " : "", one);
    }
    return cr_fail(
        CR_INDEX,
        "shape mismatch: indexing tensors could not be broadcast together with shapes %s",
        text);
}

/* The position of the picked elements' sizes in the result: that of the picked dimensions if
 * these are adjacent, else 0. */
static int place_of_picked(const cr_index_plan *p, int ndim)
{
    int first = 0, last = ndim - 1;

    while (first < ndim && !p->by_index[first])
        first++;
    while (last >= 0 && !p->by_index[last])
        last--;
    for (int d = first; d <= last; d++)
        if (!p->by_index[d])
            return 0;
    return first < ndim ? first : 0;
}

static cr_status plan_result(cr_index_plan *p, const cr_view *self)
{
    int n = 0;

    p->at = place_of_picked(p, self->ndim);
    for (int d = 0; d <= self->ndim; d++) {
        if (n == p->at && p->result.ndim == 0) {
            if (n + p->picked.ndim + self->ndim > CR_MAX_DIMS)
                return cr_fail(CR_RUNTIME, "too many dimensions in an indexed result");
            memcpy(p->result.size + n, p->picked.size,
                   (size_t)p->picked.ndim * sizeof *p->picked.size);
            n += p->picked.ndim;
            p->result.ndim = 1;
        }
        if (d < self->ndim && !p->by_index[d])
            p->result.size[n++] = self->size[d];
    }
    p->result.ndim = n;
    return CR_OK;
}

/* An empty result is allowed only when no index selects from an empty dimension. */
static cr_status check_empty_picks(const cr_index_plan *p, const cr_view *self)
{
    int64_t picked = cr_numel(p->picked.ndim, p->picked.size);

    for (int d = 0; d < self->ndim && picked; d++)
        if (p->by_index[d] && self->size[d] == 0)
            return cr_fail(CR_INDEX, "index is out of bounds for dimension with size 0");
    return CR_OK;
}

cr_status cr_index_plan_check(cr_index_plan *p, const cr_view *self, const cr_value *indices)
{
    int dim = 0;

    memset(p, 0, sizeof *p);
    for (uint32_t i = 0; i < indices->len; i++)
        dim += entry_dims(&indices->list[i]);
    if (indices->len == 0)
        return cr_fail(CR_INDEX, "at least one index must be provided");
    if (dim > self->ndim)
        return too_many(self, dim);
    dim = 0;
    for (uint32_t i = 0; i < indices->len; i++) {
        const cr_value *entry = &indices->list[i];
        if (entry->tag != CR_NONE && plan_entry(p, self, entry, dim)) {
            if (!strncmp(cr_error_message(), "shape mismatch", 14))
                return name_shapes(indices);
            return cr_error_kind();
        }
        dim += entry_dims(entry);
    }
    if (p->uncounted)
        return CR_OK;
    CR_TRY(check_empty_picks(p, self));
    return plan_result(p, self);
}

cr_status cr_index_plan_make(cr_index_plan *p, const cr_view *self, const cr_value *indices)
{
    CR_TRY(cr_index_plan_check(p, self, indices));
    return p->uncounted
               ? cr_fail(CR_RUNTIME,
                         "the size of a result indexed by a mask depends on its values")
               : CR_OK;
}

cr_status cr_index_plan_takes(const cr_index_plan *p, const cr_view *values)
{
    cr_shape wide = p->result;

    if (cr_shape_broadcast(&wide, values->ndim, values->size) && wide.ndim == p->result.ndim &&
        !memcmp(wide.size, p->result.size, (size_t)wide.ndim * sizeof *wide.size))
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "shape mismatch: value tensor of shape %s cannot be broadcast to indexing "
                   "result of shape %s",
                   cr_view_text(values), cr_shape_text(p->result.ndim, p->result.size));
}
