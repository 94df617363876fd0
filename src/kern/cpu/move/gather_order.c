/* Combining writes in order P (num/order.h): sums and products of floats.
 *
 * The entries of a write are numbered row-major over the dimensions that the index picks from.
 * Entries with one index are a group, kept in that order; a group is folded as a column, and
 * the result joins the destination.  Where the index does not vary along the other dimensions,
 * the groups are made once, and a column is as wide as the innermost of these allows.
 * Otherwise every position of the other dimensions is a line with groups of its own.
 *
 * Threads take whole groups, or whole lines. */
#include "base/memory.h"
#include "base/parallel.h"
#include "kern/cpu/element.h"
#include "kern/cpu/move/gather.h"
#include "kern/cpu/walk.h"
#include <stdatomic.h>

enum { WIDE = 32 };

/* --- groups --- */

/* Entries by group: group g is source[start[g]] ... source[start[g + 1] - 1], byte offsets. */
typedef struct {
    int64_t count, groups, slots;
    int64_t *index, *offset, *of, *dest, *start, *source;
    int64_t *slot; /* by index - low, or by hash: group + 1, or 0 */
    int64_t low, high;
} grouping;

static cr_status grouping_new(grouping *g, int64_t count, int64_t low, int64_t high)
{
    int64_t range = high - low + 1, hashed = 16;

    while (hashed < 2 * count)
        hashed *= 2;
    g->count = count;
    g->low = low;
    g->high = high;
    g->slots = range > 0 && range <= 4 * count + 256 ? range : -hashed;
    int64_t slots = g->slots < 0 ? hashed : g->slots;
    g->index = cr_alloc((size_t)(6 * count + 1 + slots) * sizeof *g->index);
    if (!g->index)
        return CR_MEMORY;
    g->offset = g->index + count;
    g->of = g->offset + count;
    g->dest = g->of + count;
    g->source = g->dest + count;
    g->start = g->source + count;
    g->slot = g->start + count + 1;
    return CR_OK;
}

static void grouping_drop(grouping *g) { cr_free(g->index); }

static int64_t *grouping_slot(const grouping *g, int64_t index)
{
    uint64_t mask = (uint64_t)-g->slots - 1, at;

    if (g->slots > 0)
        return &g->slot[index - g->low];
    at = (uint64_t)index * 0x9E3779B97F4A7C15u >> 20 & mask;
    while (g->slot[at] && g->dest[g->slot[at] - 1] != index)
        at = (at + 1) & mask;
    return &g->slot[at];
}

/* From index[] and offset[] of all entries; groups are numbered as they first appear. */
static void grouping_make(grouping *g)
{
    int64_t next = 0;

    memset(g->slot, 0, (size_t)(g->slots < 0 ? -g->slots : g->slots) * sizeof *g->slot);
    g->groups = 0;
    for (int64_t i = 0; i < g->count; i++) {
        int64_t *slot = grouping_slot(g, g->index[i]);
        if (!*slot) {
            g->dest[g->groups] = g->index[i];
            g->start[g->groups++] = 0;
            *slot = g->groups;
        }
        g->of[i] = *slot - 1;
        g->start[*slot - 1]++;
    }
    for (int64_t k = 0; k <= g->groups; k++) {
        int64_t n = k < g->groups ? g->start[k] : 0;
        g->start[k] = next;
        next += n;
    }
    for (int64_t i = 0; i < g->count; i++)
        g->source[g->start[g->of[i]]++] = g->offset[i];
    for (int64_t k = g->groups; k > 0; k--)
        g->start[k] = g->start[k - 1];
    g->start[0] = 0;
}

/* --- columns --- */

/* Entries at from + source[k], each `width` elements `step` bytes apart, into to. */
typedef struct {
    const int64_t *source;
    const char *from;
    char *to;
    int64_t count, width, from_step, to_step;
} column;

/* A line whose entries are at even steps, for columns of one element. */
typedef struct {
    const char *index, *from;
    char *to;
    int64_t count, index_step, from_step, unit, low, high;
    bool is32;
} scalar_line;
typedef struct {
    void (*column)(const column *c);
    bool (*slots)(const scalar_line *l, void *room);
} column_fns;
enum { LARGEST_SLOT = CR_FOLD_ACCUMULATORS * sizeof(cr_complex) + sizeof(int64_t) };

typedef float cell_f16, cell_bf16, cell_f32;
typedef double cell_f64;
typedef cr_complex_float cell_c64;
typedef cr_complex cell_c128;

#define get_f16(p)     load_f16(p)
#define get_bf16(p)    load_bf16(p)
#define get_f32(p)     load_f32(p)
#define get_f64(p)     load_f64(p)
#define get_c64(p)     (*(const cr_complex_float *)(const void *)(p))
#define get_c128(p)    (*(const cr_complex *)(const void *)(p))
#define put_f16(p, x)  store_f16(p, x)
#define put_bf16(p, x) store_bf16(p, x)
#define put_f32(p, x)  store_f32(p, x)
#define put_f64(p, x)  store_f64(p, x)
#define put_c64(p, x)  (*(cr_complex_float *)(void *)(p) = (x))
#define put_c128(p, x) (*(cr_complex *)(void *)(p) = (x))

#define DEFINE_REAL_OPS(s)                                                                     \
    static inline cell_##s add_##s(cell_##s a, cell_##s b) { return a + b; }                   \
    static inline cell_##s mul_##s(cell_##s a, cell_##s b) { return a * b; }                   \
    static const cell_##s none_add_##s = -(cell_##s)0, none_mul_##s = 1;
#define DEFINE_COMPLEX_OPS(s)                                                                  \
    static inline cell_##s add_##s(cell_##s a, cell_##s b)                                     \
    {                                                                                          \
        return (cell_##s){a.re + b.re, a.im + b.im};                                           \
    }                                                                                          \
    static inline cell_##s mul_##s(cell_##s a, cell_##s b)                                     \
    {                                                                                          \
        return (cell_##s){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};               \
    }                                                                                          \
    static const cell_##s none_add_##s = {-0.0, -0.0}, none_mul_##s = {1, 0};
CR_FLOAT_TYPES(DEFINE_REAL_OPS)
CR_COMPLEX_TYPES(DEFINE_COMPLEX_OPS)

/* block folds up to CR_FOLD_BLOCK elements of a column from entry `first` on, part up to
 * CR_FOLD_COLUMN: an element is an entry, or, where unit > 1, the result of `unit` entries;
 * n counts entries.  slots folds a line whose columns are one element wide as its entries
 * come; it gives up, with nothing changed, where a destination has more than a block. */
#define DEFINE_COLUMN(op, s)                                                                   \
    static void op##_part_##s(const column *c, cell_##s *to, int64_t first, int64_t n,         \
                              int64_t unit);                                                   \
    static inline __attribute__((always_inline)) void op##_block_##s(                          \
        const column *c, cell_##s *to, int64_t first, int64_t n, int64_t unit, int64_t width,  \
        int64_t step)                                                                          \
    {                                                                                          \
        cell_##s acc[CR_FOLD_ACCUMULATORS][WIDE], one[WIDE];                                   \
        for (int k = 0; k < CR_FOLD_ACCUMULATORS; k++)                                         \
            for (int64_t w = 0; w < width; w++)                                                \
                acc[k][w] = none_##op##_##s;                                                   \
        for (int64_t k = 0; k * unit < n; k++) {                                               \
            cell_##s *a = acc[k % CR_FOLD_ACCUMULATORS];                                       \
            if (unit > 1) {                                                                    \
                int64_t left = n - k * unit;                                                   \
                op##_part_##s(c, one, first + k * unit, left < unit ? left : unit,             \
                              unit / CR_FOLD_COLUMN);                                          \
                for (int64_t w = 0; w < width; w++)                                            \
                    a[w] = op##_##s(a[w], one[w]);                                             \
            } else {                                                                           \
                const char *p = c->from + c->source[first + k];                                \
                for (int64_t w = 0; w < width; w++)                                            \
                    a[w] = op##_##s(a[w], get_##s(p + w * step));                              \
            }                                                                                  \
        }                                                                                      \
        for (int64_t w = 0; w < width; w++)                                                    \
            to[w] = op##_##s(op##_##s(acc[0][w], acc[1][w]), op##_##s(acc[2][w], acc[3][w]));  \
    }                                                                                          \
    static void op##_part_##s(const column *c, cell_##s *to, int64_t first, int64_t n,         \
                              int64_t unit)                                                    \
    {                                                                                          \
        enum { ITEM = sizeof(item_##s) };                                                      \
        cell_##s block[CR_FOLD_BLOCKS][WIDE];                                                  \
        int64_t rows = CR_FOLD_BLOCK * unit, blocks = (n + rows - 1) / rows;                   \
        for (int64_t b = 0; b < blocks; b++) {                                                 \
            int64_t left = n - b * rows < rows ? n - b * rows : rows, at = first + b * rows;   \
            if (unit == 1 && c->width == WIDE && c->from_step == ITEM)                         \
                op##_block_##s(c, block[b], at, left, 1, WIDE, ITEM);                          \
            else                                                                               \
                op##_block_##s(c, block[b], at, left, unit, c->width, c->from_step);           \
        }                                                                                      \
        for (int64_t half = CR_FOLD_BLOCKS / 2; half; half /= 2)                               \
            for (int64_t b = 0; b < half && b + half < blocks; b++)                            \
                for (int64_t w = 0; w < c->width; w++)                                         \
                    block[b][w] = op##_##s(block[b][w], block[b + half][w]);                   \
        memcpy(to, block[0], (size_t)c->width * sizeof *to);                                   \
    }                                                                                          \
    static void op##_column_##s(const column *c)                                               \
    {                                                                                          \
        enum { ITEM = sizeof(item_##s) };                                                      \
        cell_##s sum[WIDE];                                                                    \
        int64_t unit = 1;                                                                      \
        while (unit * CR_FOLD_COLUMN < c->count)                                               \
            unit *= CR_FOLD_COLUMN;                                                            \
        op##_part_##s(c, sum, 0, c->count, unit);                                              \
        if (c->width == WIDE && c->to_step == ITEM)                                            \
            for (int64_t w = 0; w < WIDE; w++)                                                 \
                put_##s(c->to + w * ITEM, op##_##s(get_##s(c->to + w * ITEM), sum[w]));        \
        else                                                                                   \
            for (int64_t w = 0; w < c->width; w++)                                             \
                put_##s(c->to + w * c->to_step,                                                \
                        op##_##s(get_##s(c->to + w * c->to_step), sum[w]));                    \
    }                                                                                          \
    typedef struct {                                                                           \
        cell_##s acc[CR_FOLD_ACCUMULATORS];                                                    \
        int64_t count;                                                                         \
    } op##_slot_##s;                                                                           \
    static bool op##_slots_##s(const scalar_line *l, void *room)                               \
    {                                                                                          \
        op##_slot_##s *slot = room, *at;                                                       \
        for (int64_t v = 0; v <= l->high - l->low; v++) {                                      \
            slot[v].count = 0;                                                                 \
            for (int k = 0; k < CR_FOLD_ACCUMULATORS; k++)                                     \
                slot[v].acc[k] = none_##op##_##s;                                              \
        }                                                                                      \
        for (int64_t i = 0; i < l->count; i++) {                                               \
            at = &slot[cr_index_at(l->index + i * l->index_step, l->is32) - l->low];           \
            cell_##s *a = &at->acc[at->count % CR_FOLD_ACCUMULATORS];                          \
            *a = op##_##s(*a, get_##s(l->from + i * l->from_step));                            \
            if (at->count++ == CR_FOLD_BLOCK)                                                  \
                return false;                                                                  \
        }                                                                                      \
        for (int64_t v = l->low; v <= l->high; v++) {                                          \
            const cell_##s *a = slot[v - l->low].acc;                                          \
            char *to = l->to + v * l->unit;                                                    \
            if (slot[v - l->low].count)                                                        \
                put_##s(to, op##_##s(get_##s(to),                                              \
                                     op##_##s(op##_##s(a[0], a[1]), op##_##s(a[2], a[3]))));   \
        }                                                                                      \
        return true;                                                                           \
    }
#define DEFINE_COLUMNS(s) DEFINE_COLUMN(add, s) DEFINE_COLUMN(mul, s)
CR_FLOAT_TYPES(DEFINE_COLUMNS)
CR_COMPLEX_TYPES(DEFINE_COLUMNS)

static const column_fns *column_fns_for(cr_combine how, cr_dtype t)
{
#define ONE(op, s)                                                                             \
    {                                                                                          \
        op##_column_##s, op##_slots_##s                                                        \
    }
#define ROW(op)                                                                                \
    {                                                                                          \
        [CR_F16] = ONE(op, f16), [CR_BF16] = ONE(op, bf16), [CR_F32] = ONE(op, f32),           \
        [CR_F64] = ONE(op, f64), [CR_C64] = ONE(op, c64), [CR_C128] = ONE(op, c128)            \
    }
    static const column_fns add[CR_DTYPE_COUNT] = ROW(add), mul[CR_DTYPE_COUNT] = ROW(mul);
#undef ROW
#undef ONE
    if (cr_dtype_category(t) < CR_CAT_FLOAT)
        return NULL;
    return how == CR_COMBINE_ADD ? &add[t] : how == CR_COMBINE_MUL ? &mul[t] : NULL;
}

/* --- places --- */

/* Dimensions of one kind, strides in bytes; size is their product. */
typedef struct {
    int ndim;
    int64_t extent[CR_MAX_DIMS], table[CR_MAX_DIMS], other[CR_MAX_DIMS], index[CR_MAX_DIMS];
    int64_t size;
} dims;

typedef struct {
    const cr_places *p;
    const column_fns *fns;
    cr_combine_fn one;  /* of a single entry; NULL where its column is not the entry itself */
    dims picked, outer; /* outer: the others, without the one that columns are wide along */
    int64_t wide, wide_from, wide_to;
    int64_t low, high;
    grouping shared; /* of all lines, where index does not vary between them */
    _Atomic bool no_memory;
} ordered;

static void dims_add(dims *to, const cr_places *p, int d)
{
    int k = to->ndim++;

    to->extent[k] = p->size[d];
    to->table[k] = p->table_stride[d] * (int64_t)p->item;
    to->other[k] = p->other_stride[d] * (int64_t)p->other_item;
    to->index[k] = p->index_stride[d] * (int64_t)p->index_item;
    to->size *= p->size[d];
}

/* Byte offsets of position i. */
static int64_t dims_offset(const dims *d, const int64_t *stride, int64_t i)
{
    int64_t at = 0;

    for (int k = d->ndim - 1; k >= 0; k--) {
        at += i % d->extent[k] * stride[k];
        i /= d->extent[k];
    }
    return at;
}

/* The dimension along which columns are wide: contiguous in the entries, else the last. */
static int dims_widest(const cr_places *p, const bool *picked)
{
    int best = -1;

    for (int d = 0; d < p->ndim; d++)
        if (!picked[d] && p->size[d] > 1 && (best < 0 || p->other_stride[best] != 1))
            best = d;
    return best;
}

static bool index_varies(const cr_places *p, const bool *picked)
{
    for (int d = 0; d < p->ndim; d++)
        if (!picked[d] && p->size[d] > 1 && p->index_stride[d])
            return true;
    return false;
}

/* The entries of the line whose index begins `shift` bytes further on. */
static void grouping_read(const ordered *o, grouping *g, int64_t shift)
{
    const dims *d = &o->picked;
    bool is32 = o->p->index_item == sizeof(int32_t);
    int64_t last = d->ndim - 1, inner = d->ndim ? d->extent[last] : 1;
    int64_t index_step = d->ndim ? d->index[last] : 0,
            other_step = d->ndim ? d->other[last] : 0;

    for (int64_t i = 0; i < g->count; i += inner) {
        const char *index = o->p->index + shift + dims_offset(d, d->index, i);
        int64_t other = dims_offset(d, d->other, i);
        for (int64_t k = 0; k < inner; k++) {
            g->index[i + k] = cr_index_at(index + k * index_step, is32);
            g->offset[i + k] = other + k * other_step;
        }
    }
    grouping_make(g);
}

static void fold_group(const ordered *o, const grouping *g, int64_t k, const char *from,
                       char *to)
{
    column c = {.source = g->source + g->start[k],
                .count = g->start[k + 1] - g->start[k],
                .from_step = o->wide_from,
                .to_step = o->wide_to};

    to += g->dest[k] * o->p->unit;
    if (c.count == 1 && o->one) {
        o->one(&(cr_combine_row){.dst = to,
                                 .src = from + c.source[0],
                                 .dst_step = o->wide_to,
                                 .src_step = o->wide_from,
                                 .n = o->wide});
        return;
    }
    for (int64_t at = 0; at < o->wide; at += WIDE) {
        c.width = o->wide - at < WIDE ? o->wide - at : WIDE;
        c.from = from + at * o->wide_from;
        c.to = to + at * o->wide_to;
        o->fns->column(&c);
    }
}

/* Units (line, group) of groups that all lines share. */
static void fold_shared(void *context, int64_t begin, int64_t end)
{
    const ordered *o = context;
    int64_t groups = o->shared.groups, line = begin / groups, k = begin % groups;

    for (; begin < end; line++, k = 0) {
        const char *from = o->p->other + dims_offset(&o->outer, o->outer.other, line);
        char *to = o->p->table + dims_offset(&o->outer, o->outer.table, line);
        for (; k < groups && begin < end; k++, begin++)
            fold_group(o, &o->shared, k, from, to);
    }
}

static void fold_line(const ordered *o, grouping *g, int64_t line)
{
    const char *from = o->p->other + dims_offset(&o->outer, o->outer.other, line);
    char *to = o->p->table + dims_offset(&o->outer, o->outer.table, line);

    grouping_read(o, g, dims_offset(&o->outer, o->outer.index, line));
    for (int64_t k = 0; k < g->groups; k++)
        fold_group(o, g, k, from, to);
}

static void fold_lines(void *context, int64_t begin, int64_t end)
{
    ordered *o = context;
    grouping g;

    if (grouping_new(&g, o->picked.size, o->low, o->high)) {
        atomic_store(&o->no_memory, true);
        return;
    }
    for (int64_t line = begin; line < end; line++)
        fold_line(o, &g, line);
    grouping_drop(&g);
}

static void fold_scalar_lines(void *context, int64_t begin, int64_t end)
{
    ordered *o = context;
    char *room = cr_alloc((size_t)(o->high - o->low + 1) * LARGEST_SLOT);
    scalar_line l = {.count = o->picked.size,
                     .index_step = o->picked.ndim ? o->picked.index[0] : 0,
                     .from_step = o->picked.ndim ? o->picked.other[0] : 0,
                     .unit = o->p->unit,
                     .low = o->low,
                     .high = o->high,
                     .is32 = o->p->index_item == sizeof(int32_t)};

    if (!room) {
        atomic_store(&o->no_memory, true);
        return;
    }
    for (int64_t line = begin; line < end; line++) {
        l.index = o->p->index + dims_offset(&o->outer, o->outer.index, line);
        l.from = o->p->other + dims_offset(&o->outer, o->outer.other, line);
        l.to = o->p->table + dims_offset(&o->outer, o->outer.table, line);
        if (!o->fns->slots(&l, room))
            fold_lines(o, line, line + 1);
    }
    cr_free(room);
}

static void widen_range(ordered *o, const char *at, int64_t step, int64_t n)
{
    bool is32 = o->p->index_item == sizeof(int32_t);
    int64_t low = o->low, high = o->high;

    for (int64_t i = 0; i < n; i++) {
        int64_t v = cr_index_at(at + i * step, is32);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    o->low = low;
    o->high = high;
}

/* The lowest and the highest index of all. */
static void find_range(ordered *o)
{
    const dims *d = &o->picked;
    int64_t inner = d->ndim ? d->extent[d->ndim - 1] : 1,
            step = d->ndim ? d->index[d->ndim - 1] : 0;

    o->low = INT64_MAX;
    o->high = INT64_MIN;
    for (int64_t line = 0; line < (o->shared.count ? 1 : o->outer.size); line++) {
        const char *at = o->p->index + dims_offset(&o->outer, o->outer.index, line);
        for (int64_t i = 0; i < d->size; i += inner)
            widen_range(o, at + dims_offset(d, d->index, i), step, inner);
    }
}

static cr_status fold_by_shared_groups(ordered *o)
{
    o->shared.count = o->picked.size;
    find_range(o);
    CR_TRY(grouping_new(&o->shared, o->picked.size, o->low, o->high));
    grouping_read(o, &o->shared, 0);
    int64_t units = o->outer.size * o->shared.groups;
    int64_t each = o->wide * (1 + o->shared.count / o->shared.groups);
    cr_parallel_for(units, cr_walk_grain(each), fold_shared, o);
    grouping_drop(&o->shared);
    return CR_OK;
}

/* Slots where the indices are dense and the entries of a line lie at even steps. */
static bool suits_slots(const ordered *o)
{
    return o->wide == 1 && o->picked.ndim <= 1 && o->high - o->low < 4 * o->picked.size + 64;
}

static cr_status fold_by_lines(ordered *o)
{
    find_range(o);
    cr_parallel_for(o->outer.size, cr_walk_grain(4 * o->picked.size),
                    suits_slots(o) ? fold_scalar_lines : fold_lines, o);
    return atomic_load(&o->no_memory) ? CR_MEMORY : CR_OK;
}

cr_status cr_places_combine(const cr_places *p, cr_combine how, cr_dtype t, const bool *picked)
{
    ordered o = {
        .p = p, .fns = column_fns_for(how, t), .picked.size = 1, .outer.size = 1, .wide = 1};
    bool varies = index_varies(p, picked);
    int wide = varies ? -1 : dims_widest(p, picked);

    if (!o.fns) {
        cr_places_write(p, cr_combine_for(how, t), picked);
        return CR_OK;
    }
    for (int d = 0; d < p->ndim; d++)
        if (d != wide)
            dims_add(picked[d] ? &o.picked : &o.outer, p, d);
    if (wide >= 0) {
        o.wide = p->size[wide];
        o.wide_from = p->other_stride[wide] * (int64_t)p->other_item;
        o.wide_to = p->table_stride[wide] * (int64_t)p->item;
    }
    if (!o.picked.size || !o.outer.size || !o.wide)
        return CR_OK;
    if (how == CR_COMBINE_ADD || !cr_dtype_is_complex(t))
        o.one = cr_combine_for(how, t);
    return varies || o.wide == 1 ? fold_by_lines(&o) : fold_by_shared_groups(&o);
}
