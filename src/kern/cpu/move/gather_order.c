/* Combining writes in order P (num/order.h): sums and products of floats.
 *
 * A line is a position of the dimensions that the index does not pick from; its entries are
 * numbered row-major over the dimensions that it picks from.  The entries of one destination,
 * in that order, are folded as a column, and the result is combined with the destination.
 * There are two ways (gather_fold.h):
 *
 * Slots, for single elements: every destination of the line has accumulators, into which
 * entries are folded in index order.  Adjacent lines are folded together if they are nearer in
 * memory than the entries of one line, as many as have 8 * MOST_SLOTS slots.  If a line
 * is folded alone and its accumulators do not fit into the cache, its entries are first sorted
 * by tile of destinations.
 *
 * Groups, for entries that are rows, for many more destinations than entries, or if not all
 * numbers below the range are destinations: entries are listed by destination.
 *
 * One thread folds all entries of a destination. */
#include "base/parallel.h"
#include "kern/cpu/element.h"
#include "kern/cpu/move/gather_fold.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/walk.h"
#include <stdatomic.h>

enum {
    TILE = 1 << 15,        /* slots whose accumulators fit into the second level of cache */
    MOST_SLOTS = 4 * TILE, /* entries of a line with more destinations are sorted by tile */
    LINES = 64             /* lines folded together: whole cache lines of index and entries */
};

enum { TABLE, OTHER, INDEX };

/* Dimensions of one kind; steps in bytes. */
typedef struct {
    int64_t size; /* their product */
    cr_space space;
} dims;

typedef struct {
    const cr_places *p;
    const cr_fold_fns *fns;
    dims picked, outer; /* outer: the other dimensions except `across` */
    dims across;        /* the dimension whose elements are folded together, or none */
    bool is32;
    _Atomic bool no_memory;
} ordered;

static void dims_add(dims *to, const cr_places *p, int d)
{
    int64_t *step = cr_space_add(&to->space, p->size[d], d);

    to->size *= p->size[d];
    step[TABLE] = CR_WRAP_MUL(p->table_stride[d], p->item);
    step[OTHER] = CR_WRAP_MUL(p->other_stride[d], p->other_item);
    step[INDEX] = CR_WRAP_MUL(p->index_stride[d], p->index_item);
}

/* The byte offset of an operand at position i. */
static int64_t dims_offset(const dims *d, int operand, int64_t i)
{
    return cr_space_offset(&d->space, d->space.ndim, operand, i);
}

/* The last dimension; 1 without dimensions. */
static int64_t dims_inner(const dims *d)
{
    return d->space.ndim ? d->space.dim[d->space.ndim - 1].size : 1;
}
static int64_t dims_step(const dims *d, int operand)
{
    return d->space.ndim ? d->space.dim[d->space.ndim - 1].step[operand] : 0;
}

/* Like dims_offset, without divisions for one dimension. */
static inline int64_t dims_at(const dims *d, int operand, int64_t i)
{
    return i < dims_inner(d) ? i * dims_step(d, operand) : dims_offset(d, operand, i);
}

/* --- groups --- */

/* Entries by destination: source[start[k]] up to source[start[k + 1]] for dest[k]. */
typedef struct {
    int64_t count, groups, slots, mask;
    int64_t *of, *dest, *start, *source;
    int64_t *slot; /* by index, or by hash where mask is set: group + 1, or 0 */
} grouping;

static cr_status grouping_new(grouping *g, int64_t count, int64_t range)
{
    bool dense = range && range <= 4 * count + 256;

    g->count = count;
    for (g->slots = 16; !dense && g->slots < 2 * count;)
        g->slots *= 2;
    g->mask = dense ? 0 : g->slots - 1;
    g->slots = dense ? range : g->slots;
    g->of = cr_aligned_alloc((size_t)(4 * count + 1 + g->slots) * sizeof *g->of);
    CR_NEED(g->of);
    g->dest = g->of + count;
    g->source = g->dest + count;
    g->start = g->source + count;
    g->slot = g->start + count + 1;
    return CR_OK;
}

static void grouping_drop(grouping *g) { cr_aligned_free(g->of); }

static int64_t *grouping_slot(const grouping *g, int64_t index)
{
    uint64_t mask = (uint64_t)g->mask, at;

    if (!mask)
        return &g->slot[index];
    at = (uint64_t)index * 0x9E3779B97F4A7C15u >> 20 & mask;
    while (g->slot[at] && g->dest[g->slot[at] - 1] != index)
        at = (at + 1) & mask;
    return &g->slot[at];
}

/* Groups are numbered as they first appear; start[k] counts the entries of group k. */
static void grouping_number(grouping *g, const dims *d, const char *index, bool is32)
{
    memset(g->slot, 0, (size_t)g->slots * sizeof *g->slot);
    g->groups = 0;
    for (int64_t i = 0; i < g->count; i++) {
        int64_t v = cr_index_at(index + dims_at(d, INDEX, i), is32);
        int64_t *slot = grouping_slot(g, v);
        if (!*slot) {
            g->dest[g->groups] = v;
            g->start[g->groups++] = 0;
            *slot = g->groups;
        }
        g->of[i] = *slot - 1;
        g->start[*slot - 1]++;
    }
}

static void grouping_list(grouping *g, const dims *d)
{
    int64_t next = 0;

    for (int64_t k = 0; k < g->groups; k++) {
        next += g->start[k];
        g->start[k] = next;
    }
    g->start[g->groups] = next;
    for (int64_t i = g->count - 1; i >= 0; i--)
        g->source[--g->start[g->of[i]]] = dims_at(d, OTHER, i);
}

static void grouping_make(const ordered *o, grouping *g, int64_t line)
{
    grouping_number(g, &o->picked, o->p->index + dims_offset(&o->outer, INDEX, line), o->is32);
    grouping_list(g, &o->picked);
}

/* Folds groups [begin, end) of a line. */
static void grouping_fold(const ordered *o, const grouping *g, int64_t line, int64_t begin,
                          int64_t end)
{
    cr_fold_groups rows = {.start = g->start,
                           .source = g->source,
                           .dest = g->dest,
                           .from = o->p->other + dims_offset(&o->outer, OTHER, line),
                           .to = o->p->table + dims_offset(&o->outer, TABLE, line),
                           .unit = o->p->unit,
                           .width = o->across.size,
                           .from_step = dims_step(&o->across, OTHER),
                           .to_step = dims_step(&o->across, TABLE)};

    o->fns->groups(&rows, begin, end);
}

typedef struct {
    const ordered *o;
    grouping of;
} shared_groups;

/* Units (line, group) of groups that all lines share. */
static void fold_shared(void *context, int64_t begin, int64_t end)
{
    const shared_groups *s = context;
    int64_t groups = s->of.groups;

    while (begin < end) {
        int64_t line = begin / groups, k = begin % groups;
        int64_t n = groups - k < end - begin ? groups - k : end - begin;
        grouping_fold(s->o, &s->of, line, k, k + n);
        begin += n;
    }
}

static cr_status fold_by_shared_groups(ordered *o)
{
    shared_groups s = {.o = o};

    CR_TRY(grouping_new(&s.of, o->picked.size, o->p->range));
    grouping_make(o, &s.of, 0);
    int64_t each = o->across.size * (1 + s.of.count / s.of.groups);
    cr_parallel_for(o->outer.size * s.of.groups, cr_walk_grain(each), fold_shared, &s);
    grouping_drop(&s.of);
    return CR_OK;
}

static void fold_lines_by_groups(void *context, int64_t begin, int64_t end)
{
    ordered *o = context;
    grouping g;

    if (grouping_new(&g, o->picked.size, o->p->range)) {
        atomic_store(&o->no_memory, true);
        return;
    }
    for (int64_t line = begin; line < end; line++) {
        grouping_make(o, &g, line);
        grouping_fold(o, &g, line, 0, g.groups);
    }
    grouping_drop(&g);
}

static cr_status fold_by_groups(ordered *o)
{
    bool varies = false;

    for (int d = 0; d < o->outer.space.ndim; d++)
        varies = varies || o->outer.space.dim[d].step[INDEX];
    if (!varies)
        return fold_by_shared_groups(o);
    cr_parallel_for(o->outer.size, cr_walk_grain(4 * o->picked.size * o->across.size),
                    fold_lines_by_groups, o);
    return atomic_load(&o->no_memory) ? CR_MEMORY : CR_OK;
}

/* --- slots --- */

/* Lines [first, first + s->lines) along `across`. */
static void slots_fold(const ordered *o, cr_fold_slots *s, int64_t outer, int64_t first)
{
    const dims *a = &o->across, *d = &o->picked;
    int64_t table = dims_step(a, TABLE), index = dims_step(a, INDEX),
            other = dims_step(a, OTHER), inner = dims_inner(d);
    const char *from = o->p->other + dims_offset(&o->outer, OTHER, outer) + first * other;
    const char *at = o->p->index + dims_offset(&o->outer, INDEX, outer) + first * index;
    bool one = s->lines == 1;
    cr_fold_row r = {.n = one ? inner : s->lines,
                     .index_step = one ? dims_step(d, INDEX) : index,
                     .from_step = one ? dims_step(d, OTHER) : other,
                     .is32 = o->is32};

    o->fns->start(s);
    for (int64_t i = 0; i < d->size; i += one ? inner : 1) {
        r.index = at + dims_at(d, INDEX, i);
        r.from = from + dims_at(d, OTHER, i);
        o->fns->add(s, &r);
    }
    o->fns->join(s, o->p->table + dims_offset(&o->outer, TABLE, outer) + first * table,
                 o->p->unit, table);
}

/* The number of lines that are folded together: their slots should fit the cache. */
static int64_t lines_together(const ordered *o)
{
    int64_t fit = 8 * MOST_SLOTS / o->p->range;

    fit = fit < 1 ? 1 : fit < LINES ? fit : LINES;
    return o->across.size < fit ? o->across.size : fit;
}

/* Units are (outer position, lines along `across` that are folded together). */
static void fold_lines_by_slots(void *context, int64_t begin, int64_t end)
{
    ordered *o = context;
    int64_t lines = lines_together(o), units = (o->across.size + lines - 1) / lines;
    cr_fold_slots s;

    if (cr_fold_slots_new(&s, o->fns, o->p->range, lines, o->picked.size * lines)) {
        atomic_store(&o->no_memory, true);
        return;
    }
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t first = unit % units * lines, left = o->across.size - first;
        s.lines = left < lines ? left : lines;
        slots_fold(o, &s, unit / units, first);
    }
    cr_fold_slots_drop(&s);
}

static cr_status fold_by_slots(ordered *o)
{
    int64_t lines = lines_together(o), units = (o->across.size + lines - 1) / lines;

    cr_parallel_for(o->outer.size * units, cr_walk_grain(4 * o->picked.size * lines),
                    fold_lines_by_slots, o);
    return atomic_load(&o->no_memory) ? CR_MEMORY : CR_OK;
}

/* --- sorting by tile --- */

/* The entries of a line by tile of destinations; those of tile t end before end[t]. */
typedef struct {
    ordered *o;
    int64_t tiles, *end, step;
    char *entry; /* `step` bytes apart: an int32 index within the tile, and the value */
    char *to;
} dealing;

/* The offset of the value in an entry, which aligns values and indices. */
#define VALUE_AT(item) ((item) == 2 ? 6 : (item) > 8 ? 8 : (int64_t)(item))

static cr_status dealing_new(dealing *l, ordered *o)
{
    l->o = o;
    l->tiles = (o->p->range + TILE - 1) / TILE;
    l->step = VALUE_AT(o->p->item) + (int64_t)o->p->item;
    l->end = cr_aligned_alloc((size_t)(l->tiles + 1) * sizeof *l->end +
                              (size_t)(o->picked.size * l->step));
    CR_NEED(l->end);
    l->entry = (char *)(l->end + l->tiles + 1);
    return CR_OK;
}

static int64_t tile_of(int64_t index) { return (int64_t)((uint64_t)index / TILE); }

/* end[t] becomes the first entry of tile t. */
static void dealing_count(dealing *l, const char *index)
{
    const dims *d = &l->o->picked;
    int64_t inner = dims_inner(d), step = dims_step(d, INDEX);
    bool is32 = l->o->is32;

    memset(l->end, 0, (size_t)(l->tiles + 1) * sizeof *l->end);
    for (int64_t i = 0; i < d->size; i += inner) {
        const char *at = index + dims_offset(d, INDEX, i);
        for (int64_t k = 0; k < inner; k++)
            l->end[tile_of(cr_index_at(at + k * step, is32)) + 1]++;
    }
    for (int64_t t = 0; t < l->tiles; t++)
        l->end[t + 1] += l->end[t];
}

#define DEAL(name, type)                                                                       \
    static void name(dealing *l, const char *index, const char *from)                          \
    {                                                                                          \
        enum { VALUE = VALUE_AT(sizeof(type)), ENTRY = VALUE + sizeof(type) };                 \
        const dims *d = &l->o->picked;                                                         \
        int64_t inner = dims_inner(d), index_step = dims_step(d, INDEX),                       \
                step = dims_step(d, OTHER), *end = l->end;                                     \
        bool is32 = l->o->is32;                                                                \
        for (int64_t i = 0; i < d->size; i += inner) {                                         \
            const char *at = index + dims_offset(d, INDEX, i);                                 \
            const char *x = from + dims_offset(d, OTHER, i);                                   \
            for (int64_t k = 0; k < inner; k++) {                                              \
                int64_t v = cr_index_at(at + k * index_step, is32);                            \
                char *e = l->entry + end[tile_of(v)]++ * ENTRY;                                \
                *(int32_t *)(void *)e = (int32_t)(v & (TILE - 1));                             \
                memcpy(e + VALUE, x + k * step, sizeof(type));                                 \
            }                                                                                  \
        }                                                                                      \
    }
DEAL(deal_2, uint16_t)
DEAL(deal_4, uint32_t)
DEAL(deal_8, uint64_t)
DEAL(deal_16, cr_complex)

static void fold_tiles(void *context, int64_t begin, int64_t end)
{
    const dealing *l = context;
    const cr_places *p = l->o->p;
    cr_fold_slots s;

    if (cr_fold_slots_new(&s, l->o->fns, TILE, 1, l->o->picked.size)) {
        atomic_store(&l->o->no_memory, true);
        return;
    }
    for (int64_t t = begin; t < end; t++) {
        int64_t first = t ? l->end[t - 1] : 0;
        cr_fold_row r = {.index = l->entry + first * l->step,
                         .from = l->entry + first * l->step + VALUE_AT(p->item),
                         .n = l->end[t] - first,
                         .index_step = l->step,
                         .from_step = l->step,
                         .is32 = true};
        s.range = p->range - t * TILE < TILE ? p->range - t * TILE : TILE;
        l->o->fns->start(&s);
        l->o->fns->add(&s, &r);
        l->o->fns->join(&s, l->to + t * TILE * p->unit, p->unit, 0);
    }
    cr_fold_slots_drop(&s);
}

static cr_status fold_by_tiles(ordered *o)
{
    static void (*const deal[])(dealing *, const char *, const char *) = {NULL, deal_2, deal_4,
                                                                          deal_8, deal_16};
    dealing l;

    CR_TRY(dealing_new(&l, o));
    for (int64_t line = 0; line < o->outer.size; line++) {
        const char *index = o->p->index + dims_offset(&o->outer, INDEX, line);
        l.to = o->p->table + dims_offset(&o->outer, TABLE, line);
        dealing_count(&l, index);
        deal[CR_CTZ(o->p->item)](&l, index, o->p->other + dims_offset(&o->outer, OTHER, line));
        cr_parallel_for(l.tiles, cr_walk_grain(4 * o->picked.size / l.tiles), fold_tiles, &l);
    }
    cr_aligned_free(l.end);
    return atomic_load(&o->no_memory) ? CR_MEMORY : CR_OK;
}

/* --- the choice --- */

/* The distance between the elements of a dimension. */
static int64_t dim_distance(const cr_places *p, int d)
{
    return p->other_stride[d] + p->index_stride[d];
}

/* The dimension of adjacent lines that are nearer than the entries of one line, or -1. */
static int dim_across(const cr_places *p, const bool *picked)
{
    int best = -1, last = -1;

    for (int d = 0; d < p->ndim; d++)
        if (p->size[d] > 1 && picked[d])
            last = d;
        else if (p->size[d] > 1 && (best < 0 || dim_distance(p, d) <= dim_distance(p, best)))
            best = d;
    return best >= 0 && last >= 0 && dim_distance(p, best) < dim_distance(p, last) ? best : -1;
}

static void plan_dims(ordered *o, const bool *picked, int across)
{
    dims *all[] = {&o->picked, &o->outer, &o->across};

    for (size_t k = 0; k < CR_LEN(all); k++) {
        cr_space_start(&all[k]->space, INDEX + 1);
        all[k]->size = 1;
    }
    for (int d = 0; d < o->p->ndim; d++)
        dims_add(d == across ? &o->across : picked[d] ? &o->picked : &o->outer, o->p, d);
    for (size_t k = 0; k < CR_LEN(all); k++)
        cr_space_merge(&all[k]->space, 0);
}

cr_status cr_places_combine(const cr_places *p, cr_combine how, cr_dtype t, const bool *picked)
{
    const cr_fold_fns *fns = cr_fold_fns_for(how, t);
    int across = dim_across(p, picked);
    ordered o; /* without {}: most of its memory for dimensions is not used */

    if (fns) {
        o.p = p;
        o.fns = fns;
        o.is32 = p->index_item == sizeof(int32_t);
        atomic_init(&o.no_memory, false);
        plan_dims(&o, picked, across);
    }
    if (!fns || (fns->add && o.picked.size == 1)) {
        cr_places_write(p, cr_combine_for(how, t), picked);
        return CR_OK;
    }
    if (!o.picked.size || !o.outer.size || !o.across.size)
        return CR_OK;
    if (across >= 0 && !p->index_stride[across])
        return fold_by_groups(&o);
    if (fns->add && p->range && p->range <= 4 * o.picked.size + 256)
        return across < 0 && p->range > MOST_SLOTS ? fold_by_tiles(&o) : fold_by_slots(&o);
    plan_dims(&o, picked, -1);
    return fold_by_groups(&o);
}
