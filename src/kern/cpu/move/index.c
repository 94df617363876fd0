/* Indexing by lists of tensors, and the operators that select by a mask.
 *
 * The plan of space/picked.h states which dims are indexed, and their dims in the result.
 * The index tensors are combined into one array of offsets over the picked sizes; masks become
 * the offsets of their true elements.  A walk of gather.c uses these offsets. */
#include "base/memory.h"
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/move/gather.h"
#include "kern/cpu/walk.h"
#include "space/picked.h"

static bool is_true(const char *p, cr_dtype t)
{
    switch (t) {
    case CR_I16: return load_i16(p) != 0;
    case CR_I32: return load_i32(p) != 0;
    case CR_I64: return load_i64(p) != 0;
    case CR_F16:
    case CR_BF16: return (*(const uint16_t *)(const void *)p & 0x7fff) != 0;
    case CR_F32: return load_f32(p) != 0;
    case CR_F64: return load_f64(p) != 0;
    case CR_C64:
    case CR_C128: return cabs(t == CR_C64 ? load_c64(p) : load_c128(p)) != 0;
    default:
        return cr_dtype_is_stored(t) ? cr_scalar_is_nonzero(cr_scalar_load(t, p)) : *p != 0;
    }
}

/* Offsets are in elements of the table, divided by the stride of the last indexed dimension
 * where the indexed dimensions are dense: they then number the indexed elements row-major. */

typedef struct {
    int64_t unit; /* elements that an offset counts */
    int64_t
        range; /* offsets are below it and all of these are indexed elements; 0: not known */
} offset_scale;

static offset_scale scale_of(const cr_index_plan *p, const cr_view *table)
{
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    offset_scale s = {0, 1};
    int n = 0;

    for (int d = 0; d < table->ndim; d++) {
        if (!p->by_index[d] || table->size[d] == 1)
            continue;
        size[n] = table->size[d];
        stride[n] = table->stride[d];
        s.range *= size[n++];
    }
    return cr_one_step(&s.unit, n, size, stride) && s.unit > 0 ? s : (offset_scale){1, 0};
}

typedef struct {
    int64_t *next;
    const char *table;
    int64_t unit; /* in bytes */
} offset_list;

/* Appends the table's offset for every true element.  Every element writes and only true ones
 * advance, so the list must have one more element than there are true ones. */
static void put_offsets(void *context, char *const *at, const int64_t *step, int64_t n)
{
    offset_list *c = context;
    int64_t offset = (at[1] - c->table) / c->unit, by = step[1] / c->unit, *next = c->next;
    const char *mask = at[0];

    for (int64_t k = 0; k < n; k++, mask += step[0], offset += by) {
        *next = offset;
        next += *mask != 0;
    }
    c->next = next;
}

typedef struct {
    int64_t size, step; /* of the table's dimension; offsets have size 0 and step 1 */
    bool is32, first;   /* first: sets the offsets, later ones add */
} add_context;

/* One function for each width of index, and for the first index, which sets the offsets.
 * Indices of a result without elements are not checked, and their offsets not read; they may
 * overflow. */
#define ADD(name, type, assign)                                                                \
    static void name(const add_context *c, char *const *at, const int64_t *step, int64_t n)    \
    {                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                      \
            int64_t x = *(const type *)(at[1] + i * step[1]);                                  \
            uint64_t offset = (uint64_t)(x < 0 ? x + c->size : x) * (uint64_t)c->step;         \
            *(uint64_t *)(at[0] + i * step[0]) assign offset;                                  \
        }                                                                                      \
    }
ADD(set_32, int32_t, =)
ADD(set_64, int64_t, =)
ADD(add_32, int32_t, +=)
ADD(add_64, int64_t, +=)

static void add_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const add_context *c = context;

    if (c->is32)
        (c->first ? set_32 : add_32)(c, at, step, n);
    else
        (c->first ? set_64 : add_64)(c, at, step, n);
}

/* Adds an index tensor, broadcast to the picked sizes, to all offsets. */
static void add_index(int64_t *offset, const cr_shape *picked, const cr_view *index,
                      add_context *c)
{
    int64_t dense[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    cr_walk w;

    cr_dense_strides(dense, picked->ndim, picked->size);
    cr_broadcast_strides(stride, index, picked->ndim, picked->size);
    c->is32 = index->dtype == CR_I32;
    cr_walk_start(&w, picked->ndim, picked->size, -1);
    cr_walk_add_strides(&w, (char *)offset, dense, sizeof *offset);
    cr_walk_add_strides(&w, index->data, stride, cr_view_item(index));
    cr_walk_merge(&w);
    cr_walk_run(&w, CR_WALK_GRAIN, add_row, c);
}

static cr_status add_mask(int64_t *offset, const cr_index_plan *p, int k, const cr_view *table,
                          int64_t unit)
{
    int64_t trues = p->index[k].trues, one = 1;
    const cr_view *mask = p->index[k].view;
    int64_t *found = cr_alloc((size_t)(trues + 1) * sizeof *found);
    cr_view vector = {(char *)found, &trues, &one, 1, CR_I64, CR_HOST, false};
    offset_list list = {found, table->data, unit * (int64_t)cr_view_item(table)};
    add_context add = {0, 1, false, k == 0};
    cr_walk w;

    CR_NEED(found);
    cr_walk_start(&w, mask->ndim, mask->size, -1);
    cr_walk_add(&w, mask);
    cr_walk_add_strides(&w, table->data, table->stride + p->index[k].dim, cr_view_item(table));
    cr_walk_merge(&w);
    cr_walk_all(&w, put_offsets, &list);
    add_index(offset, &p->picked, &vector, &add);
    cr_free(found);
    return CR_OK;
}

static cr_status check_bounds(const cr_index_plan *p, const cr_view *table)
{
    int64_t bad;

    if (cr_view_numel(&(cr_view){.size = p->result.size, .ndim = (uint8_t)p->result.ndim}) == 0)
        return CR_OK;
    for (int k = 0; k < p->count; k++) {
        int dim = p->index[k].dim;
        if (p->index[k].trues < 0 &&
            !cr_indices_within(p->index[k].view, -table->size[dim], table->size[dim], &bad))
            return cr_fail(CR_INDEX,
                           "index %lld is out of bounds for dimension %d with size %lld",
                           (long long)bad, dim, (long long)table->size[dim]);
    }
    return CR_OK;
}

/* Makes the offsets over the picked sizes; the caller frees *out. */
static cr_status make_offsets(int64_t **out, const cr_index_plan *p, const cr_view *table,
                              int64_t unit)
{
    int64_t n = cr_numel(p->picked.ndim, p->picked.size);
    cr_status st = CR_OK;

    *out = cr_alloc_zero((size_t)n * sizeof **out); /* zero when there is no index */
    CR_NEED(*out);
    for (int k = 0; k < p->count && !st && n; k++) {
        int dim = p->index[k].dim;
        add_context c = {table->size[dim], table->stride[dim] / unit, false, k == 0};
        if (p->index[k].trues >= 0)
            st = add_mask(*out, p, k, table, unit);
        else
            add_index(*out, &p->picked, p->index[k].view, &c);
    }
    if (st)
        cr_free(*out);
    return st;
}

/* The walk over the result's dims: strides of table and index. */
typedef struct {
    cr_places places;
    int64_t table_stride[CR_MAX_DIMS], index_stride[CR_MAX_DIMS];
    bool picked[CR_MAX_DIMS];
} index_walk;

static void plan_walk(index_walk *w, const cr_index_plan *p, const cr_view *table,
                      int64_t *offset, offset_scale scale)
{
    int64_t dense[CR_MAX_DIMS];
    int from = 0;

    cr_dense_strides(dense, p->picked.ndim, p->picked.size);
    for (int d = 0; d < p->result.ndim; d++) {
        int k = d - p->at;
        w->picked[d] = k >= 0 && k < p->picked.ndim;
        w->index_stride[d] = w->picked[d] ? dense[k] : 0;
        w->table_stride[d] = 0;
        if (w->picked[d])
            continue;
        while (p->by_index[from])
            from++;
        w->table_stride[d] = table->stride[from++];
    }
    w->places = (cr_places){.ndim = p->result.ndim,
                            .size = p->result.size,
                            .table = table->data,
                            .index = (char *)offset,
                            .table_stride = w->table_stride,
                            .index_stride = w->index_stride,
                            .unit = CR_WRAP_MUL(scale.unit, cr_view_item(table)),
                            .range = scale.range,
                            .item = cr_view_item(table),
                            .other_item = cr_view_item(table),
                            .index_item = sizeof *offset};
}

cr_status cr_kern_index(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    int64_t *offset;
    cr_index_plan p;
    index_walk w;

    CR_TRY(cr_index_plan_make(&p, self, &arg[1]));
    CR_TRY(check_bounds(&p, self));
    offset_scale scale = scale_of(&p, self);
    CR_TRY(make_offsets(&offset, &p, self, scale.unit));
    plan_walk(&w, &p, self, offset, scale);
    w.places.other = out->data;
    w.places.other_stride = out->stride;
    (void)cr_places_read(&w.places);
    cr_free(offset);
    return CR_OK;
}

cr_status cr_kern_index_put(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view, *values = arg[2].view;
    cr_combine how = arg[3].i ? CR_COMBINE_ADD : CR_COMBINE_SET;
    int64_t *offset, stride[CR_MAX_DIMS];
    cr_index_plan p;
    index_walk w;

    CR_TRY(cr_index_plan_make(&p, self, &arg[1]));
    CR_TRY(cr_index_plan_takes(&p, values));
    CR_TRY(check_bounds(&p, self));
    offset_scale scale = scale_of(&p, out);
    CR_TRY(make_offsets(&offset, &p, out, scale.unit));
    cr_broadcast_strides(stride, values, p.result.ndim, p.result.size);
    cr_start_from(out, self);
    plan_walk(&w, &p, out, offset, scale);
    w.places.other = values->data;
    w.places.other_stride = stride;
    cr_status st = cr_places_combine(&w.places, how, (cr_dtype)out->dtype, w.picked);
    cr_free(offset);
    return st;
}

/* Selecting by masks. */

/* Writes the coordinates of true elements of a row until the result is full. */
typedef struct {
    cr_dtype dtype;
    int ndim;
    int64_t coord[CR_MAX_DIMS];
    int64_t *first, count, most; /* rows that are written, and all */
    int64_t row, column;         /* strides of the result */
} nonzero_context;

static void put_coordinates(nonzero_context *c, const char *p, const cr_space_dim *row)
{
    int dim = row->number < 0 ? 0 : (int)row->number; /* below 0: the single dim */
    int64_t n = row->size, step = *row->step, count = c->count, most = c->most;
    int64_t column = c->column, *next = c->first + count * c->row;
    int ndim = c->ndim;

    for (int64_t k = 0; k < n && count < most; k++, p += step) {
        for (int j = 0; j < ndim; j++)
            next[j * column] = c->coord[j];
        next[dim * column] = k;
        bool found = is_true(p, c->dtype);
        next += found ? c->row : 0;
        count += found;
    }
    c->count = count;
}

/* Writes the coordinates of true elements in row-major order, until the result is full; returns
 * how many. */
static int64_t write_coordinates(const cr_view *self, cr_view *out)
{
    nonzero_context c = {.dtype = (cr_dtype)self->dtype,
                         .ndim = self->ndim,
                         .first = (int64_t *)(void *)out->data,
                         .most = self->ndim ? out->size[0] : 0,
                         .row = out->stride[0],
                         .column = out->stride[1]};
    cr_space s;
    cr_place p;

    cr_space_of_view(&s, self);
    int dims = s.ndim ? s.ndim - 1 : 0;
    int64_t rows = c.most && cr_view_numel(self) ? cr_space_count(&s, dims) : 0;

    cr_place_seek(&p, &s, dims, &self->data, 0);
    for (int64_t i = 0; i < rows && c.count < c.most; i++, cr_place_next(&p, &s, dims)) {
        for (int d = 0; d < dims; d++)
            c.coord[s.dim[d].number] = p.index[d];
        put_coordinates(&c, p.at[0], cr_space_last(&s, 0));
    }
    return c.count;
}

cr_status cr_kern_nonzero(const cr_value *arg, cr_view *out)
{
    (void)write_coordinates(arg[0].view, out);
    return CR_OK;
}

/* (self, size, fill_value) */
cr_status cr_kern_nonzero_static(const cr_value *arg, cr_view *out)
{
    int64_t *first = (int64_t *)(void *)out->data;

    if (!out->size[1])
        return CR_OK; /* any number of rows takes no memory */
    for (int64_t i = write_coordinates(arg[0].view, out); i < out->size[0]; i++)
        for (int64_t d = 0; d < out->size[1]; d++)
            first[i * out->stride[0] + d * out->stride[1]] = arg[2].i;
    return CR_OK;
}

typedef struct {
    char *dense; /* the next selected element, or the next source element */
    size_t item;
} select_context;

static void select_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    select_context *c = context;

    for (int64_t i = 0; i < n; i++)
        if (at[1][i * step[1]]) {
            memcpy(c->dense, at[0] + i * step[0], c->item);
            c->dense += c->item;
        }
}

/* The sizes of two views that broadcast together. */
static void broadcast_sizes(cr_shape *out, const cr_view *a, const cr_view *b)
{
    out->ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int d = 0; d < out->ndim; d++) {
        int i = d - (out->ndim - a->ndim), j = d - (out->ndim - b->ndim);
        int64_t x = i < 0 ? 1 : a->size[i], y = j < 0 ? 1 : b->size[j];
        out->size[d] = x == 1 ? y : x;
    }
}

cr_status cr_kern_masked_select(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view, *mask = arg[1].view;
    int64_t from[CR_MAX_DIMS], by[CR_MAX_DIMS];
    select_context c = {out->data, cr_view_item(self)};
    cr_shape wide;
    cr_walk w;

    broadcast_sizes(&wide, self, mask);
    cr_broadcast_strides(from, self, wide.ndim, wide.size);
    cr_broadcast_strides(by, mask, wide.ndim, wide.size);
    cr_walk_start(&w, wide.ndim, wide.size, -1);
    cr_walk_add_strides(&w, self->data, from, cr_view_item(self));
    cr_walk_add_strides(&w, mask->data, by, 1);
    cr_walk_merge(&w);
    cr_walk_all(&w, select_row, &c);
    return CR_OK;
}

static inline void take_items(select_context *c, char *const *at, const int64_t *step,
                              int64_t n, size_t item)
{
    for (int64_t i = 0; i < n; i++)
        if (at[1][i * step[1]]) {
            memcpy(at[0] + i * step[0], c->dense, item);
            c->dense += item;
        }
}

static void take_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    select_context *c = context;

    switch (c->item) { /* copies of a constant size are moves */
    case 2: take_items(c, at, step, n, 2); break;
    case 4: take_items(c, at, step, n, 4); break;
    case 8: take_items(c, at, step, n, 8); break;
    default: take_items(c, at, step, n, c->item); break;
    }
}

/* True when no byte from a's first element to its last is between b's. */
static bool select_is_apart(const cr_view *a, const cr_view *b)
{
    const cr_view *v[] = {a, b};
    const char *end[2];

    for (int k = 0; k < 2; k++) {
        if (!cr_view_numel(v[k])) /* may have no memory */
            return true;
        end[k] = v[k]->data + cr_view_item(v[k]);
        for (int d = 0; d < v[k]->ndim; d++)
            end[k] += (v[k]->size[d] - 1) * cr_view_step(v[k], d);
    }
    return end[0] <= b->data || end[1] <= a->data;
}

/* Writes the elements of `dense` where the mask is true, self's elsewhere. */
static void scatter_masked(cr_view *out, const cr_view *self, const cr_view *mask, char *dense)
{
    int64_t by[CR_MAX_DIMS], from[CR_MAX_DIMS];
    cr_view start = *self;
    select_context c = {dense, cr_view_item(self)};
    cr_walk w;

    cr_broadcast_strides(by, mask, out->ndim, out->size);
    cr_broadcast_strides(from, self, out->ndim, out->size);
    start.ndim = out->ndim;
    start.size = out->size;
    start.stride = from;
    cr_start_from(out, &start);
    cr_walk_start(&w, out->ndim, out->size, -1);
    cr_walk_add(&w, out);
    cr_walk_add_strides(&w, mask->data, by, 1);
    cr_walk_merge(&w);
    cr_walk_all(&w, take_row, &c);
}

/* self may be broadcast to the mask's sizes, which are out's.  source is copied only where it
 * has gaps or shares out's memory. */
cr_status cr_kern_masked_scatter(const cr_value *arg, cr_view *out)
{
    const cr_view *mask = arg[1].view, *source = arg[2].view;
    int64_t each = cr_view_numel(mask) ? cr_view_numel(out) / cr_view_numel(mask) : 1;
    char *copy = NULL;

    if (cr_count_trues(mask) * each > cr_view_numel(source))
        return cr_fail(CR_RUNTIME, "Number of elements of source < number of ones in mask");
    if (!cr_view_is_contiguous(source) || !select_is_apart(source, out)) {
        copy = cr_dense_copy(source);
        CR_NEED(copy);
    }
    scatter_masked(out, arg[0].view, mask, copy ? copy : source->data);
    cr_free(copy);
    return CR_OK;
}

/* Counting. */

/* Weights are float32 or float64, which the entry's type rule ensures. */
static void add_weights(cr_view *out, const int64_t *number, const cr_view *weights)
{
    int64_t step = cr_view_step(weights, 0);
    const char *w = weights->data;
    cr_dtype t = (cr_dtype)weights->dtype;

    for (int64_t i = 0; i < weights->size[0]; i++, w += step) {
        if (t == CR_F32)
            ((float *)(void *)out->data)[number[i]] += *(const float *)(const void *)w;
        else
            ((double *)(void *)out->data)[number[i]] +=
                cr_scalar_as_double(cr_scalar_load(t, w));
    }
}

static void count_numbers(int64_t *count, const int64_t *number, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        count[number[i]]++;
}

/* Numbers that are not a dense row of int64 are first copied to one. */
cr_status cr_kern_bincount(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    int64_t n = self->size[0], step = cr_view_step(self, 0), *copy = NULL;
    const int64_t *number = (const int64_t *)(const void *)self->data;

    if (self->dtype != CR_I64 || step != sizeof *number)
        number = copy = cr_alloc((size_t)n * sizeof *copy);
    if (!number && n)
        return CR_MEMORY;
    for (int64_t i = 0; copy && i < n; i++)
        copy[i] = cr_integer_at(self, self->data + i * step);
    cr_zero_view(out);
    if (arg[1].tag != CR_NONE)
        add_weights(out, number, arg[1].view);
    else
        count_numbers((int64_t *)(void *)out->data, number, n);
    cr_free(copy);
    return CR_OK;
}
