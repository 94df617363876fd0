/* Folds of the entries of one destination, in the order of num/order.h's columns.
 *
 * A column's blocks are folded in four accumulators; the results of blocks are stored in a
 * tower.  Its level 0 folds CR_FOLD_BLOCKS results of blocks, level 1 CR_FOLD_BLOCK results of
 * level 0, and so on in turn.  A full level is closed when the next result is added, so that a
 * higher level exists only if it has two results. */
#include "kern/cpu/move/gather_fold.h"
#include "kern/cpu/element.h"
#include "kern/cpu/pack.h"

enum {
    WIDE = 32,   /* elements of a row that are folded together */
    LEVELS = 14, /* blocks of 64, then 8, 64, 8 ...: more than 2^63 entries */
    ACCS = CR_FOLD_ACCUMULATORS
};

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

/* A vectorized loop with independent iterations. */
#define EACH(i, n) CR_SIMD for (int64_t i = 0; i < (n); i++)

/* --- towers --- */

/* The accumulators of level l are acc + 4 * l * width, each `width` cells.  count[l] is the
 * number of results in it; levels without results are above all others. */

static bool level_is_block(int level) { return level % 2; }

static int level_room(int level)
{
    return level_is_block(level) ? CR_FOLD_BLOCK : CR_FOLD_BLOCKS;
}

#define DEFINE_TOWER(op, s)                                                                    \
    CR_ALWAYS_INLINE cell_##s op##_four_##s(cell_##s a, cell_##s b, cell_##s c, cell_##s d)    \
    {                                                                                          \
        return op##_##s(op##_##s(a, b), op##_##s(c, d));                                       \
    }                                                                                          \
    CR_ALWAYS_INLINE void op##_join_##s(char *to, cell_##s x)                                  \
    {                                                                                          \
        put_##s(to, op##_##s(get_##s(to), x));                                                 \
    }                                                                                          \
    static void op##_close_##s(cell_##s *to, const cell_##s *acc, int level, int n,            \
                               int64_t width)                                                  \
    {                                                                                          \
        for (int64_t w = 0; w < width; w++) {                                                  \
            const cell_##s *a = acc + w;                                                       \
            if (level_is_block(level)) {                                                       \
                to[w] = op##_four_##s(a[0], a[width], a[2 * width], a[3 * width]);             \
                continue;                                                                      \
            }                                                                                  \
            cell_##s even = n > 2 ? op##_##s(a[0], a[2 * width]) : a[0];                       \
            cell_##s odd = n > 3 ? op##_##s(a[width], a[3 * width]) : a[width];                \
            to[w] = n > 1 ? op##_##s(even, odd) : even;                                        \
        }                                                                                      \
    }                                                                                          \
    static void op##_push_##s(cell_##s *acc, uint8_t *count, int level, cell_##s *x,           \
                              int64_t width)                                                   \
    {                                                                                          \
        bool full = true;                                                                      \
        for (; full; level++) {                                                                \
            cell_##s *a = acc + ACCS * level * width, closed[WIDE];                            \
            full = count[level] == level_room(level);                                          \
            if (full) {                                                                        \
                op##_close_##s(closed, a, level, count[level], width);                         \
                count[level] = 0;                                                              \
            }                                                                                  \
            for (int64_t w = 0; level_is_block(level) && !count[level] && w < ACCS * width;    \
                 w++)                                                                          \
                a[w] = none_##op##_##s;                                                        \
            bool set = !level_is_block(level) && count[level] < ACCS;                          \
            a += count[level]++ % ACCS * width;                                                \
            for (int64_t w = 0; w < width; w++)                                                \
                a[w] = set ? x[w] : op##_##s(a[w], x[w]);                                      \
            memcpy(x, closed, full ? (size_t)width * sizeof *x : 0);                           \
        }                                                                                      \
    }                                                                                          \
    static void op##_total_##s(cell_##s *acc, uint8_t *count, cell_##s *to, int64_t width)     \
    {                                                                                          \
        int l = 0;                                                                             \
        for (; count[l + 1]; l++) {                                                            \
            op##_close_##s(to, acc + ACCS * l * width, l, count[l], width);                    \
            op##_push_##s(acc, count, l + 1, to, width);                                       \
        }                                                                                      \
        op##_close_##s(to, acc + ACCS * l * width, l, count[l], width);                        \
    }

/* --- groups --- */

/* few is the column of up to four entries: no accumulator has more than one.  It needs an
 * identity that is exact. */
#define DEFINE_GROUPS(op, s, exact)                                                            \
    CR_ALWAYS_INLINE void op##_block_##s(cell_##s *to, const int64_t *source, int64_t n,       \
                                         const char *from, int64_t step, int64_t width)        \
    {                                                                                          \
        cell_##s acc[ACCS][WIDE];                                                              \
        for (int k = 0; k < ACCS; k++)                                                         \
            EACH(w, width) { acc[k][w] = none_##op##_##s; }                                    \
        for (int64_t k = 0; k < n; k++) {                                                      \
            cell_##s *a = acc[k % ACCS];                                                       \
            const char *p = from + source[k];                                                  \
            EACH(w, width) { a[w] = op##_##s(a[w], get_##s(p + w * step)); }                   \
        }                                                                                      \
        EACH(w, width) { to[w] = op##_four_##s(acc[0][w], acc[1][w], acc[2][w], acc[3][w]); }  \
    }                                                                                          \
    CR_ALWAYS_INLINE void op##_column_##s(const int64_t *source, int64_t n, const char *from,  \
                                          int64_t from_step, char *to, int64_t to_step,        \
                                          int64_t width)                                       \
    {                                                                                          \
        cell_##s sum[WIDE], acc[LEVELS * ACCS * WIDE];                                         \
        uint8_t count[LEVELS + 1] = {0};                                                       \
        for (; n > CR_FOLD_BLOCK; n -= CR_FOLD_BLOCK, source += CR_FOLD_BLOCK) {               \
            op##_block_##s(sum, source, CR_FOLD_BLOCK, from, from_step, width);                \
            op##_push_##s(acc, count, 0, sum, width);                                          \
        }                                                                                      \
        op##_block_##s(sum, source, n, from, from_step, width);                                \
        if (count[0]) {                                                                        \
            op##_push_##s(acc, count, 0, sum, width);                                          \
            op##_total_##s(acc, count, sum, width);                                            \
        }                                                                                      \
        EACH(w, width) { op##_join_##s(to + w * to_step, sum[w]); }                            \
    }                                                                                          \
    CR_ALWAYS_INLINE void op##_few_##s(const int64_t *source, int64_t n, const char *from,     \
                                       int64_t from_step, char *to, int64_t to_step,           \
                                       int64_t width)                                          \
    {                                                                                          \
        const char *a = from + source[0], *b = from + source[n > 1],                           \
                   *c = from + source[n > 2 ? 2 : 0], *d = from + source[n > 3 ? 3 : 0];       \
        if (n == 1)                                                                            \
            EACH(w, width) { op##_join_##s(to + w * to_step, get_##s(a + w * from_step)); }    \
        else if (n == 2)                                                                       \
            EACH(w, width)                                                                     \
            {                                                                                  \
                op##_join_##s(to + w * to_step, op##_##s(get_##s(a + w * from_step),           \
                                                         get_##s(b + w * from_step)));         \
            }                                                                                  \
        else                                                                                   \
            EACH(w, width)                                                                     \
            {                                                                                  \
                op##_join_##s(                                                                 \
                    to + w * to_step,                                                          \
                    op##_four_##s(get_##s(a + w * from_step), get_##s(b + w * from_step),      \
                                  get_##s(c + w * from_step),                                  \
                                  n > 3 ? get_##s(d + w * from_step) : none_##op##_##s));      \
            }                                                                                  \
    }                                                                                          \
    CR_WIDE static void op##_groups_##s(const cr_fold_groups *g, int64_t begin, int64_t end)   \
    {                                                                                          \
        enum { ITEM = sizeof(item_##s) };                                                      \
        bool dense = g->from_step == ITEM && g->to_step == ITEM;                               \
        for (int64_t k = begin; k < end; k++) {                                                \
            const int64_t *source = g->source + g->start[k];                                   \
            int64_t n = g->start[k + 1] - g->start[k];                                         \
            char *to = g->to + g->dest[k] * g->unit;                                           \
            if (exact && n <= ACCS && dense)                                                   \
                op##_few_##s(source, n, g->from, ITEM, to, ITEM, g->width);                    \
            else if (exact && n <= ACCS)                                                       \
                op##_few_##s(source, n, g->from, g->from_step, to, g->to_step, g->width);      \
            else                                                                               \
                for (int64_t at = 0; at < g->width; at += WIDE) {                              \
                    int64_t width = g->width - at < WIDE ? g->width - at : WIDE;               \
                    const char *from = g->from + at * g->from_step;                            \
                    if (dense && width == WIDE)                                                \
                        op##_column_##s(source, n, from, ITEM, to + at * ITEM, ITEM, WIDE);    \
                    else                                                                       \
                        op##_column_##s(source, n, from, g->from_step, to + at * g->to_step,   \
                                        g->to_step, width);                                    \
                }                                                                              \
        }                                                                                      \
    }

/* --- slots --- */

#define DEFINE_SLOTS(op, s)                                                                    \
    CR_WIDE static void op##_start_##s(cr_fold_slots *t)                                       \
    {                                                                                          \
        int64_t slots = t->range * t->lines;                                                   \
        cell_##s *acc = t->acc;                                                                \
        EACH(i, ACCS *slots) { acc[i] = none_##op##_##s; }                                     \
        memset(t->count, 0, (size_t)slots);                                                    \
        if (t->tower)                                                                          \
            memset(t->tower, 0, (size_t)slots * sizeof *t->tower);                             \
        t->used = 0;                                                                           \
    }                                                                                          \
    /* Moves the result of the slot's accumulators to its tower, and returns the tower. */     \
    static tower_##s *op##_close_slot_##s(cr_fold_slots *t, int64_t slot)                      \
    {                                                                                          \
        cell_##s *a = (cell_##s *)t->acc + ACCS * slot,                                        \
                 sum = op##_four_##s(a[0], a[1], a[2], a[3]);                                  \
        tower_##s *to = t->towers;                                                             \
        if (!t->tower[slot]) {                                                                 \
            to[t->used].slot = slot;                                                           \
            memset(to[t->used].count, 0, sizeof to->count);                                    \
            t->tower[slot] = ++t->used;                                                        \
        }                                                                                      \
        to += t->tower[slot] - 1;                                                              \
        op##_push_##s(to->acc, to->count, 0, &sum, 1);                                         \
        a[0] = a[1] = a[2] = a[3] = none_##op##_##s;                                           \
        t->count[slot] = 0;                                                                    \
        return to;                                                                             \
    }                                                                                          \
    CR_ALWAYS_INLINE void op##_add_row_##s(cr_fold_slots *t, const cr_fold_row *r,             \
                                           int64_t index_step, int64_t from_step,              \
                                           int64_t lines, bool is32)                           \
    {                                                                                          \
        int64_t inner = lines > 1, n = r->n;                                                   \
        const char *index = r->index, *from = r->from;                                         \
        uint8_t *count = t->count;                                                             \
        cell_##s *acc = t->acc;                                                                \
        for (int64_t i = 0; i < n; i++) {                                                      \
            int64_t slot = cr_index_at(index + i * index_step, is32) * lines + i * inner;      \
            if (CR_UNLIKELY(count[slot] == CR_FOLD_BLOCK))                                     \
                op##_close_slot_##s(t, slot);                                                  \
            cell_##s *a = &acc[ACCS * slot + count[slot]++ % ACCS];                            \
            *a = op##_##s(*a, get_##s(from + i * from_step));                                  \
        }                                                                                      \
    }                                                                                          \
    static void op##_add_##s(cr_fold_slots *t, const cr_fold_row *r)                           \
    {                                                                                          \
        enum { ITEM = sizeof(item_##s) };                                                      \
        if (r->is32)                                                                           \
            op##_add_row_##s(t, r, r->index_step, r->from_step, t->lines, true);               \
        else if (t->lines == 1 && r->index_step == sizeof(int64_t) && r->from_step == ITEM)    \
            op##_add_row_##s(t, r, sizeof(int64_t), ITEM, 1, false);                           \
        else                                                                                   \
            op##_add_row_##s(t, r, r->index_step, r->from_step, t->lines, false);              \
    }                                                                                          \
    CR_ALWAYS_INLINE void op##_join_row_##s(const cell_##s *a, char *to, int64_t step,         \
                                            int64_t n)                                         \
    {                                                                                          \
        EACH(i, n)                                                                             \
        {                                                                                      \
            op##_join_##s(to + i * step, op##_four_##s(a[ACCS * i], a[ACCS * i + 1],           \
                                                       a[ACCS * i + 2], a[ACCS * i + 3]));     \
        }                                                                                      \
    }                                                                                          \
    CR_WIDE static void op##_join_slots_##s(cr_fold_slots *t, char *to, int64_t unit,          \
                                            int64_t step)                                      \
    {                                                                                          \
        enum { ITEM = sizeof(item_##s) };                                                      \
        bool one = t->lines == 1;                                                              \
        int64_t rows = one ? 1 : t->range, n = one ? t->range : t->lines,                      \
                by = one ? unit : step;                                                        \
        cell_##s *acc = t->acc;                                                                \
        for (int64_t k = 0; k < t->used; k++) {                                                \
            tower_##s *tower = op##_close_slot_##s(t, ((tower_##s *)t->towers)[k].slot);       \
            op##_total_##s(tower->acc, tower->count, &acc[ACCS * tower->slot], 1);             \
        }                                                                                      \
        for (int64_t i = 0; i < rows; i++)                                                     \
            if (by == ITEM)                                                                    \
                op##_join_row_##s(acc + ACCS * i * n, to + i * unit, ITEM, n);                 \
            else                                                                               \
                op##_join_row_##s(acc + ACCS * i * n, to + i * unit, by, n);                   \
    }

#define DEFINE_CELL(s)                                                                         \
    typedef struct {                                                                           \
        int64_t slot;                                                                          \
        uint8_t count[LEVELS + 1];                                                             \
        cell_##s acc[LEVELS * ACCS];                                                           \
    } tower_##s;
CR_FLOAT_TYPES(DEFINE_CELL)
CR_COMPLEX_TYPES(DEFINE_CELL)

#define DEFINE_FOLD(op, s)                                                                     \
    DEFINE_TOWER(op, s)                                                                        \
    DEFINE_GROUPS(op, s, true)                                                                 \
    DEFINE_SLOTS(op, s)
#define DEFINE_FOLDS(s) DEFINE_FOLD(add, s) DEFINE_FOLD(mul, s)
CR_FLOAT_TYPES(DEFINE_FOLDS)
#define DEFINE_COMPLEX_FOLDS(s)                                                                \
    DEFINE_FOLD(add, s)                                                                        \
    DEFINE_TOWER(mul, s) DEFINE_GROUPS(mul, s, false)
CR_COMPLEX_TYPES(DEFINE_COMPLEX_FOLDS)

const cr_fold_fns *cr_fold_fns_for(cr_combine how, cr_dtype t)
{
#define FOLD(op, s)                                                                            \
    {                                                                                          \
        op##_groups_##s, op##_add_##s, op##_start_##s, op##_join_slots_##s, sizeof(cell_##s),  \
            sizeof(tower_##s)                                                                  \
    }
#define FLOATS(op)                                                                             \
    [CR_F16] = FOLD(op, f16), [CR_BF16] = FOLD(op, bf16), [CR_F32] = FOLD(op, f32),            \
    [CR_F64] = FOLD(op, f64)
    static const cr_fold_fns add[CR_DTYPE_COUNT] = {
        FLOATS(add), [CR_C64] = FOLD(add, c64), [CR_C128] = FOLD(add, c128)};
    static const cr_fold_fns mul[CR_DTYPE_COUNT] = {
        FLOATS(mul), [CR_C64] = {.groups = mul_groups_c64},
        [CR_C128] = {.groups = mul_groups_c128}};
#undef FLOATS
#undef FOLD
    if (cr_dtype_category(t) < CR_CAT_FLOAT)
        return NULL;
    return how == CR_COMBINE_ADD ? &add[t] : how == CR_COMBINE_MUL ? &mul[t] : NULL;
}

cr_status cr_fold_slots_new(cr_fold_slots *s, const cr_fold_fns *fns, int64_t range,
                            int64_t lines, int64_t entries)
{
    int64_t slots = range * lines, towers = entries / (CR_FOLD_BLOCK + 1);
    size_t acc = (size_t)slots * ACCS * fns->cell;
    char *room = cr_aligned_alloc(acc + (size_t)towers * fns->tower + (size_t)slots * 5);

    CR_NEED(room);
    s->range = range;
    s->lines = lines;
    s->acc = room;
    s->towers = room + acc;
    s->tower = towers ? (int32_t *)(void *)(room + acc + (size_t)towers * fns->tower) : NULL;
    s->count = (uint8_t *)room + acc + (size_t)towers * fns->tower + (size_t)slots * 4;
    return CR_OK;
}

void cr_fold_slots_drop(cr_fold_slots *s) { cr_aligned_free(s->acc); }
