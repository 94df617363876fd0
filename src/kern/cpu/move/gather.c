/* Gather, scatter and their one-dimensional relatives.
 *
 * Each operator is one of two walks over corresponding elements: cr_places_read reads a table
 * through an index, cr_places_write combines values into it.  An operator that takes a vector
 * of indices for one dimension is the same walk with an index of stride 0 along the others.
 *
 * Invariant of writing: threads divide a dimension that the index does not select from, and
 * each visits its elements in row-major order.  All writes to one element therefore happen in
 * one thread, in index order. */
#include "kern/cpu/move/gather.h"
#include "base/memory.h"
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/walk.h"
#include <stdatomic.h>

/* Reading. */

typedef struct {
    int64_t unit;
    uint64_t limit;
    bool is32;
    _Atomic bool outside;
} read_context;

enum { OTHER, TABLE, INDEX, MARK };

/* One element at a time.  An index out of range sets `outside` and reads element 0. */
#define PICK(index_type, type)                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                          \
        int64_t k = *(const index_type *)(at[INDEX] + i * step[INDEX]);                        \
        bool wrong = (uint64_t)k >= limit;                                                     \
        outside |= wrong;                                                                      \
        k = wrong ? 0 : k;                                                                     \
        memcpy(d + i * step[OTHER], at[TABLE] + i * step[TABLE] + unit * k, sizeof(type));     \
    }

/* The source of a row that has one index. */
static const char *row_source(read_context *c, const char *table, const char *index)
{
    int64_t k = cr_index_at(index, c->is32);

    if ((uint64_t)k < c->limit)
        return table + c->unit * k;
    atomic_store(&c->outside, true);
    return table;
}

#define READ(name, type)                                                                       \
    static void name(void *context, char *const *at, const int64_t *step, int64_t n)           \
    {                                                                                          \
        read_context *c = context;                                                             \
        int64_t unit = c->unit;                                                                \
        uint64_t limit = c->limit;                                                             \
        bool outside = false;                                                                  \
        char *d = at[OTHER];                                                                   \
        if (!step[INDEX]) {                                                                    \
            const char *s = row_source(c, at[TABLE], at[INDEX]);                               \
            if (step[OTHER] == (int64_t)sizeof(type) && step[TABLE] == step[OTHER])            \
                memcpy(d, s, (size_t)n * sizeof(type));                                        \
            else                                                                               \
                for (int64_t i = 0; i < n; i++)                                                \
                    memcpy(d + i * step[OTHER], s + i * step[TABLE], sizeof(type));            \
        } else if (c->is32) {                                                                  \
            PICK(int32_t, type)                                                                \
        } else {                                                                               \
            PICK(int64_t, type)                                                                \
        }                                                                                      \
        if (outside)                                                                           \
            atomic_store(&c->outside, true);                                                   \
    }
READ(read_1, uint8_t)
READ(read_2, uint16_t)
READ(read_4, uint32_t)
READ(read_8, uint64_t)
READ(read_16, cr_complex)

static void places_walk(cr_walk *w, const cr_places *p)
{
    cr_walk_start(w, p->ndim, p->size, -1);
    cr_walk_add_strides(w, p->other, p->other_stride, p->other_item);
    cr_walk_add_strides(w, p->table, p->table_stride, p->item);
    cr_walk_add_strides(w, p->index, p->index_stride, p->index_item);
}

bool cr_places_read(const cr_places *p)
{
    static const cr_row_fn rows[] = {read_1, read_2, read_4, read_8, read_16};
    read_context c = {.unit = p->unit,
                      .limit = p->limit ? p->limit : UINT64_MAX,
                      .is32 = p->index_item == sizeof(int32_t)};
    cr_walk w;

    places_walk(&w, p);
    cr_walk_merge(&w);
    cr_walk_run(&w, CR_WALK_GRAIN, rows[CR_CTZ(p->item)], &c);
    return !atomic_load(&c.outside);
}

/* Writing. */

typedef struct {
    const cr_walk *w;
    cr_combine_fn fn;
    int64_t unit;
    bool is32;
    int cut; /* the dimension that threads divide, or -1 */
} write_context;

static void write_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const write_context *c = context;
    cr_combine_row r = {at[TABLE],   at[OTHER], at[INDEX], step[TABLE], step[OTHER],
                        step[INDEX], c->unit,   n,         c->is32};

    if (!step[INDEX]) {
        r.dst += c->unit * cr_index_at(r.index, c->is32);
        r.index = NULL;
    }
    c->fn(&r);
}

static void write_range(void *context, int64_t begin, int64_t end)
{
    write_context *c = context;
    cr_walk part = *c->w;
    cr_space_dim *cut = &part.space.dim[c->cut];

    part.total = part.total / cut->size * (end - begin);
    cut->size = end - begin;
    for (int k = 0; k < part.space.operands; k++)
        part.at[k] += begin * cut->step[k];
    cr_walk_all(&part, write_row, c);
}

/* The longest dimension that the index does not select from (the step of MARK is 0), or -1. */
static int dim_to_cut(const cr_space *s)
{
    int best = -1;

    for (int d = 0; d < s->ndim; d++)
        if (!s->dim[d].step[MARK] && (best < 0 || s->dim[d].size > s->dim[best].size))
            best = d;
    return best;
}

/* Adds the operand MARK, whose strides are nonzero only along the picked dimensions, so that
 * merging the walk does not join these with others. */
static void mark_picked(cr_walk *w, const cr_places *p, const bool *picked)
{
    static char none;
    int64_t stride[CR_MAX_DIMS], next = 1;

    for (int d = p->ndim - 1; d >= 0; d--) {
        stride[d] = picked[d] ? next : 0;
        next *= picked[d] ? p->size[d] : 1;
    }
    cr_walk_add_strides(w, &none, stride, 1);
}

void cr_places_write(const cr_places *p, cr_combine_fn fn, const bool *picked)
{
    write_context c = {.fn = fn, .unit = p->unit, .is32 = p->index_item == sizeof(int32_t)};
    cr_walk w;

    places_walk(&w, p);
    mark_picked(&w, p, picked);
    cr_walk_merge(&w);
    c.w = &w;
    c.cut = w.total > CR_WALK_GRAIN ? dim_to_cut(&w.space) : -1;
    if (c.cut < 0) {
        cr_walk_all(&w, write_row, &c);
        return;
    }
    int64_t size = w.space.dim[c.cut].size;
    cr_parallel_for(size, cr_walk_grain(w.total / size), write_range, &c);
}

/* Checking. */

typedef struct {
    int64_t low, high;
    bool is32;
    _Atomic bool outside;
} within_context;

/* One comparison checks both limits, because a value below `low` wraps to a large number. */
#define OUTSIDE(type, name)                                                                    \
    CR_WIDE static bool name(const char *p, int64_t step, int64_t n, int64_t low,              \
                             uint64_t range)                                                   \
    {                                                                                          \
        bool outside = false;                                                                  \
        if (step == (int64_t)sizeof(type))                                                     \
            for (int64_t i = 0; i < n; i++)                                                    \
                outside |= (uint64_t)((const type *)p)[i] - (uint64_t)low >= range;            \
        else                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                    \
                outside |= (uint64_t) * (const type *)(p + i * step) - (uint64_t)low >= range; \
        return outside;                                                                        \
    }
OUTSIDE(int32_t, outside_32)
OUTSIDE(int64_t, outside_64)

bool cr_indices_row_within(const char *p, int64_t step, int64_t n, int64_t high, bool is32)
{
    return !(is32 ? outside_32 : outside_64)(p, step, n, 0, (uint64_t)high);
}

static void within_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    within_context *c = context;
    uint64_t range = (uint64_t)c->high - (uint64_t)c->low;

    if ((c->is32 ? outside_32 : outside_64)(at[0], step[0], n, c->low, range))
        atomic_store(&c->outside, true);
}

/* True for indices that need no walk and no threads. */
static bool is_short_row(const cr_view *index)
{
    return cr_view_is_contiguous(index) && cr_view_numel(index) <= CR_WALK_GRAIN;
}

typedef struct {
    const within_context *limits;
    int64_t bad;
    bool found;
} first_context;

static void first_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    first_context *f = context;

    for (int64_t i = 0; i < n && !f->found; i++) {
        f->bad = cr_index_at(at[0] + i * step[0], f->limits->is32);
        f->found = f->bad < f->limits->low || f->bad >= f->limits->high;
    }
}

bool cr_indices_within(const cr_view *index, int64_t low, int64_t high, int64_t *bad)
{
    within_context c = {.low = low, .high = high, .is32 = index->dtype == CR_I32};
    first_context f = {.limits = &c};
    cr_walk w;

    if (is_short_row(index)) {
        char *at[] = {index->data};
        within_row(&c, at, (int64_t[]){(int64_t)cr_view_item(index)}, cr_view_numel(index));
        if (!atomic_load(&c.outside))
            return true;
    }
    cr_walk_start(&w, index->ndim, index->size, -1);
    cr_walk_add(&w, index);
    cr_walk_merge(&w);
    cr_walk_run(&w, CR_WALK_GRAIN, within_row, &c);
    if (!atomic_load(&c.outside))
        return true;
    cr_walk_all(&w, first_row, &f);
    *bad = f.bad;
    return false;
}

typedef struct {
    int64_t *next;
    bool is32;
} copy_context;

static void copy_indices_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    copy_context *c = context;

    for (int64_t i = 0; i < n; i++)
        *c->next++ = cr_index_at(at[0] + i * step[0], c->is32);
}

int64_t *cr_indices_to_plain(const cr_view *index)
{
    int64_t *copy = cr_alloc((size_t)cr_view_numel(index) * sizeof *copy);
    copy_context c = {copy, index->dtype == CR_I32};
    cr_walk w;

    if (!copy)
        return NULL;
    cr_walk_start(&w, index->ndim, index->size, -1);
    cr_walk_add(&w, index);
    cr_walk_merge(&w);
    cr_walk_all(&w, copy_indices_row, &c);
    return copy;
}

void cr_start_from(const cr_view *to, const cr_view *from)
{
    if (to->data != from->data)
        cr_copy_view(to, from);
}

/* Means. */

#define DIVIDE_INT(suffix)                                                                     \
    static void divide_##suffix(char *p, int64_t n)                                            \
    {                                                                                          \
        int64_t a = load_##suffix(p), q = a / n;                                               \
        store_##suffix(p, q - (a % n != 0 && a < 0));                                          \
    }
#define DIVIDE(suffix)                                                                         \
    static void divide_##suffix(char *p, int64_t n)                                            \
    {                                                                                          \
        store_##suffix(p, load_##suffix(p) / (wide_##suffix)n);                                \
    }
CR_INT_TYPES(DIVIDE_INT)
CR_FLOAT_TYPES(DIVIDE)
CR_COMPLEX_TYPES(DIVIDE)

typedef void (*divide_fn)(char *p, int64_t n);

static void divide_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    divide_fn divide = *(divide_fn *)context;

    for (int64_t i = 0; i < n; i++) {
        int64_t count = *(const int64_t *)(at[1] + i * step[1]);
        if (count > 1)
            divide(at[0] + i * step[0], count);
    }
}

void cr_divide_by_counts(const cr_view *v, const cr_view *count)
{
    static const divide_fn divides[] = {CR_TYPE_TABLE(divide, CR_AND_FLOATS_AND_COMPLEX)};
    divide_fn divide = divides[v->dtype];
    cr_walk w;

    cr_walk_start(&w, v->ndim, v->size, -1);
    cr_walk_add(&w, v);
    cr_walk_add(&w, count);
    cr_walk_merge(&w);
    cr_walk_run(&w, CR_WALK_GRAIN, divide_row, &divide);
}

/* Operators with a vector of indices. */

void cr_read_positions(const cr_view *out, const cr_view *self, int64_t dim,
                       const cr_view *index)
{
    int64_t table[CR_MAX_DIMS], of[CR_MAX_DIMS] = {0};
    cr_places p = {.ndim = out->ndim,
                   .size = out->size,
                   .table = self->data,
                   .other = out->data,
                   .index = index->data,
                   .table_stride = table,
                   .other_stride = out->stride,
                   .index_stride = of,
                   .unit = self->ndim ? cr_view_step(self, dim) : 0,
                   .item = cr_view_item(self),
                   .other_item = cr_view_item(self),
                   .index_item = cr_view_item(index)};

    for (int d = 0; d < out->ndim; d++)
        table[d] = d == dim || d >= self->ndim ? 0 : self->stride[d];
    of[dim] = index->stride[0];
    if (cr_view_numel(out))
        (void)cr_places_read(&p);
}
