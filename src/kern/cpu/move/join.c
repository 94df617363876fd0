/* Operators that move elements: each is a few copies between parts of views. */
#include "base/memory.h"
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/move/gather.h"
#include "kern/cpu/walk.h"

/* A view with sizes and strides that can be changed. */
typedef struct {
    cr_view v;
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
} part;

/* The part must not be copied, because its view points into it. */
static void part_of(part *p, const cr_view *v)
{
    p->v = *v;
    memcpy(p->size, v->size, v->ndim * sizeof *p->size);
    memcpy(p->stride, v->stride, v->ndim * sizeof *p->stride);
    p->v.size = p->size;
    p->v.stride = p->stride;
}

/* --- turning --- */

/* Repeats every element `repeats` times: adds a dimension of stride 0 after dim. */
static void interleave(const cr_view *out, const cr_view *self, int64_t dim, int64_t repeats)
{
    part to, from;

    part_of(&to, out);
    part_of(&from, self);
    if (!self->ndim)
        from.stride[0] = 0;
    for (int d = out->ndim; d > dim + 1; d--) {
        to.size[d] = to.size[d - 1];
        to.stride[d] = to.stride[d - 1];
        from.stride[d] = from.stride[d - 1];
    }
    to.size[dim] = self->ndim ? self->size[dim] : 1;
    to.size[dim + 1] = repeats;
    to.stride[dim + 1] = to.stride[dim];
    to.stride[dim] *= repeats;
    from.stride[dim + 1] = 0;
    to.v.ndim++;
    from.v.ndim = to.v.ndim;
    from.v.size = to.size;
    cr_copy_view(&to.v, &from.v);
}

static int64_t count_at(const cr_view *repeats, int64_t i)
{
    return cr_index_at(repeats->data + i * (repeats->ndim ? cr_view_step(repeats, 0) : 0),
                       repeats->dtype == CR_I32);
}

/* Writes each number i repeats[i] times. */
static void fill_indices(int64_t *to, const cr_view *repeats)
{
    int64_t n = cr_view_numel(repeats);

    for (int64_t i = 0; i < n; i++)
        for (int64_t k = count_at(repeats, i); k > 0; k--)
            *to++ = i;
}

cr_status cr_kern_repeat_indices(const cr_value *arg, cr_view *out)
{
    const cr_view *repeats = arg[0].view;
    char *to = out->data;

    for (int64_t i = 0, n = cr_view_numel(repeats); i < n; i++)
        for (int64_t k = count_at(repeats, i); k > 0; k--, to += cr_view_item(out)) {
            if (out->dtype == CR_I32)
                store_i32(to, i);
            else
                store_i64(to, i);
        }
    return CR_OK;
}

/* A vector of one count is used for all rows. */
cr_status cr_kern_repeat_interleave_each(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view, *repeats = arg[1].view;
    int64_t dim = cr_view_dim(out, arg[2].i), n = cr_view_size(out, dim), one = 1;
    cr_view index = {NULL, &n, &one, 1, CR_I64, CR_HOST, false};

    if (cr_view_numel(repeats) == 1 && self->ndim) {
        if (cr_view_numel(out))
            interleave(out, self, dim, count_at(repeats, 0));
        return CR_OK;
    }
    index.data = cr_alloc((size_t)n * sizeof(int64_t));
    CR_NEED(index.data);
    fill_indices((int64_t *)index.data, repeats);
    cr_read_positions(out, self, dim, &index);
    cr_free(index.data);
    return CR_OK;
}

/* --- triangles --- */

typedef struct {
    int64_t rows, columns, diagonal, to_row, to_column, from_row, from_column;
    size_t item;
    bool upper;
} triangle;

static void copy_span(const triangle *t, char *to, const char *from, int64_t first,
                      int64_t last)
{
    int64_t item = (int64_t)t->item;

    if (first >= last)
        return;
    if (t->to_column == item && t->from_column == item) {
        memcpy(to + first * item, from + first * item, (size_t)((last - first) * item));
        return;
    }
    for (int64_t j = first; j < last; j++)
        memcpy(to + j * t->to_column, from + j * t->from_column, t->item);
}

static void zero_span(const triangle *t, char *to, int64_t first, int64_t last)
{
    int64_t item = (int64_t)t->item;

    if (first >= last)
        return;
    if (t->to_column == item) {
        memset(to + first * item, 0, (size_t)((last - first) * item));
        return;
    }
    for (int64_t j = first; j < last; j++)
        memset(to + j * t->to_column, 0, t->item);
}

static void triangle_row(const triangle *t, char *to, const char *from, int64_t i)
{
    int64_t d = t->diagonal < -t->rows     ? -t->rows
                : t->diagonal > t->columns ? t->columns
                                           : t->diagonal;
    int64_t cut = i + d + !t->upper; /* the first column of the right part */

    cut = cut < 0 ? 0 : cut > t->columns ? t->columns : cut;
    if (t->upper) {
        zero_span(t, to, 0, cut);
        copy_span(t, to, from, cut, t->columns);
    } else {
        copy_span(t, to, from, 0, cut);
        zero_span(t, to, cut, t->columns);
    }
}

static void triangle_matrices(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const triangle *t = context;

    for (int64_t m = 0; m < n; m++)
        for (int64_t i = 0; i < t->rows; i++)
            triangle_row(t, at[0] + m * step[0] + i * t->to_row,
                         at[1] + m * step[1] + i * t->from_row, i);
}

static cr_status copy_triangle(const cr_value *arg, cr_view *out, bool upper)
{
    const cr_view *self = arg[0].view;
    int r = out->ndim - 2, c = out->ndim - 1;
    triangle t = {out->size[r],          out->size[c],         arg[1].i,
                  cr_view_step(out, r),  cr_view_step(out, c), cr_view_step(self, r),
                  cr_view_step(self, c), cr_view_item(out),    upper};
    cr_walk w;

    cr_walk_start(&w, r, out->size, -1);
    cr_walk_add(&w, out);
    cr_walk_add(&w, self);
    cr_walk_merge(&w);
    cr_walk_run(&w, cr_walk_grain(t.rows * t.columns), triangle_matrices, &t);
    return CR_OK;
}

cr_status cr_kern_tril(const cr_value *arg, cr_view *out)
{
    return copy_triangle(arg, out, false);
}
cr_status cr_kern_triu(const cr_value *arg, cr_view *out)
{
    return copy_triangle(arg, out, true);
}
