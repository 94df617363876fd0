/* Moves (kern/move.h) on the host.
 *
 * Threads share the rows of a move.  Through an index, rows go in pieces whose indices are
 * checked just before the generated kernel reads them, while they are in the cache. */
#include "kern/cpu/element.h"
#include "kern/cpu/move/gather.h"
#include "kern/cpu/walk.h"
#include "kern/move.h"
#include <stdatomic.h>
#include <string.h>

/* Elements of a piece; fewer, when each of its indices has its own cache line. */
enum { PIECE = 2048, PIECE_APART = 128, LINE = 64 };

static int64_t piece_length(int64_t index_step)
{
    return index_step >= LINE || index_step <= -LINE ? PIECE_APART : PIECE;
}

void cr_move_view(const cr_view *to, const cr_view *from) { cr_copy_view(to, from); }

void cr_move_copy(const cr_move *m)
{
    cr_view to = {m->to, m->size, m->to_stride, (uint8_t)m->ndim, m->dtype, CR_HOST, false};
    cr_view from = to;

    from.data = (char *)(uintptr_t)m->from;
    from.stride = m->from_stride;
    cr_copy_view(&to, &from);
}

/* --- lines of parts --- */

typedef struct {
    const cr_move_part *part;
    int parts;
    int64_t to_stride; /* of the last dim, in elements */
    cr_complex item;
} lines_context;

enum { SHORT = 256, BLOCK = 4096, LONG = 1 << 15, CHUNK = 16 };

/* Copies n bytes; short rows without a call.  Up to LONG bytes are copied in blocks: memcpy
 * copies a block by vectors, but more bytes by string instructions, which start slowly. */
static inline void copy_bytes(char *to, const char *from, int64_t n)
{
    int64_t i = 0;

    if (n > SHORT) {
        for (int64_t piece = n > LONG ? n : BLOCK; i < n; i += piece) {
            piece = n - i < piece ? n - i : piece;
            memcpy(to + i, from + i, (size_t)piece);
        }
        return;
    }
    for (; i + CHUNK <= n; i += CHUNK)
        memcpy(to + i, from + i, CHUNK);
    for (; i < n; i++)
        to[i] = from[i];
}

#define LINES(name, type)                                                                      \
    static void name##_turned(type *to, const type *from, int64_t n)                           \
    {                                                                                          \
        int64_t i = 0;                                                                         \
        for (; i + 4 <= n; i += 4) {                                                           \
            const type *f = from - i - 3;                                                      \
            type a = f[0], b = f[1], c = f[2], d = f[3];                                       \
            to[i] = d, to[i + 1] = c, to[i + 2] = b, to[i + 3] = a;                            \
        }                                                                                      \
        for (; i < n; i++)                                                                     \
            to[i] = from[-i];                                                                  \
    }                                                                                          \
    static void name##_part(const lines_context *c, const cr_move_part *p, type *to,           \
                            const type *from)                                                  \
    {                                                                                          \
        int64_t step = c->to_stride;                                                           \
        type item;                                                                             \
        if (!p->n)                                                                             \
            return;                                                                            \
        to += p->at * step;                                                                    \
        memcpy(&item, &c->item, sizeof item);                                                  \
        if (p->n == 1)                                                                         \
            *to = p->fill ? item : from[p->from];                                              \
        else if (p->fill)                                                                      \
            for (int64_t i = 0; i < p->n; i++)                                                 \
                to[i * step] = item;                                                           \
        else if (step == 1 && p->stride == 1)                                                  \
            copy_bytes((char *)to, (const char *)(from + p->from),                             \
                       p->n *(int64_t)sizeof(type));                                           \
        else if (step == 1 && p->stride == -1)                                                 \
            name##_turned(to, from + p->from, p->n);                                           \
        else                                                                                   \
            for (int64_t i = 0; i < p->n; i++)                                                 \
                to[i * step] = from[p->from + i * p->stride];                                  \
    }                                                                                          \
    static void name(void *context, char *const *at, const int64_t *step, int64_t n)           \
    {                                                                                          \
        const lines_context *c = context;                                                      \
        for (int64_t r = 0; r < n; r++)                                                        \
            for (int i = 0; i < c->parts; i++)                                                 \
                name##_part(c, &c->part[i], (type *)(void *)(at[0] + r * step[0]),             \
                            (const type *)(const void *)(at[1] + r * step[1]));                \
    }
LINES(lines_1, uint8_t)
LINES(lines_2, uint16_t)
LINES(lines_4, uint32_t)
LINES(lines_8, uint64_t)
LINES(lines_16, cr_complex)

void cr_move_lines(const cr_move *m, const cr_move_part *part, int parts, const void *item)
{
    static const cr_row_fn rows[] = {lines_1, lines_2, lines_4, lines_8, lines_16};
    size_t bytes = cr_dtype_size((cr_dtype)m->dtype);
    lines_context c = {part, parts, m->to_stride[m->ndim - 1], {0, 0}};
    cr_walk w;

    memcpy(&c.item, item, bytes);
    cr_walk_start(&w, m->ndim - 1, m->size, -1);
    cr_walk_add_strides(&w, m->to, m->to_stride, bytes);
    cr_walk_add_strides(&w, (char *)(uintptr_t)m->from, m->from_stride, bytes);
    cr_walk_merge(&w);
    cr_walk_run(&w, cr_walk_grain(m->size[m->ndim - 1]), rows[CR_CTZ(bytes)], &c);
}

void cr_move_line(char *to, const char *from, int64_t stride, int64_t n, int64_t item)
{
    lines_context c = {NULL, 1, 1, {0, 0}};
    cr_move_part part = {.n = n, .stride = stride};

    switch (item) {
    case 1: lines_1_part(&c, &part, (uint8_t *)to, (const uint8_t *)from); return;
    case 2: lines_2_part(&c, &part, (void *)to, (const void *)from); return;
    case 4: lines_4_part(&c, &part, (void *)to, (const void *)from); return;
    case 8: lines_8_part(&c, &part, (void *)to, (const void *)from); return;
    default: lines_16_part(&c, &part, (void *)to, (const void *)from); return;
    }
}

void cr_move_fill(const cr_view *to, const void *item)
{
    static const char zeros[sizeof(cr_complex)];

    if (memcmp(item, zeros, cr_view_item(to)))
        cr_fill_view(to, item);
    else
        cr_zero_view(to);
}

void cr_move_unravel(int64_t *number, const cr_view *index, const cr_view *v)
{
    int64_t n = cr_view_numel(index);
    cr_space s;

    cr_space_start(&s, 1);
    for (int d = 0; d < v->ndim; d++)
        *cr_space_add(&s, v->size[d], d) = v->stride[d];
    cr_space_merge(&s, 0);
    for (int64_t i = 0; i < n; i++)
        number[i] = cr_space_offset(&s, s.ndim, 0, number[i]);
}

bool cr_move_within(const cr_view *index, int64_t low, int64_t high, int64_t *bad)
{
    return cr_indices_within(index, low, high, bad);
}

bool cr_move_row_within(const char *index, int64_t step, int64_t n, int64_t extent, bool is32)
{
    return cr_indices_row_within(index, step, n, extent, is32);
}

typedef struct {
    const cr_move *m;
    int64_t columns, column[3]; /* of a walk over rows */
    _Atomic bool outside;
} move_context;

enum { TO, FROM, INDEX };

/* Rows of columns: byte steps from row to row and from column to column. */
typedef struct {
    int64_t rows, columns;
    int64_t row[3], column[3];
} move_plane;

static bool move_checked(const cr_move *m, const move_plane *p, const char *index)
{
    int64_t columns = p->column[INDEX] ? p->columns : 1;

    if (columns > 1 && p->row[INDEX] == columns * p->column[INDEX])
        return cr_indices_row_within(index, p->column[INDEX], p->rows * columns, m->extent,
                                     m->is32);
    if (columns == 1 || !p->row[INDEX])
        return cr_indices_row_within(index, p->row[INDEX] ? p->row[INDEX] : p->column[INDEX],
                                     p->row[INDEX] ? p->rows : columns, m->extent, m->is32);
    for (int64_t r = 0; r < p->rows; r++)
        if (!cr_indices_row_within(index + r * p->row[INDEX], p->column[INDEX], columns,
                                   m->extent, m->is32))
            return false;
    return true;
}

static bool move_plane_run(const cr_move *m, const move_plane *p, char *const *at)
{
    int64_t size[2] = {p->rows, p->columns};
    int64_t stride[7] = {p->row[TO],    p->column[TO],    p->row[FROM], p->column[FROM],
                         p->row[INDEX], p->column[INDEX], m->unit};

    if (!move_checked(m, p, at[INDEX]))
        return false;
    m->kernel((void *const *)at, stride, size, NULL);
    return true;
}

/* Runs n steps of a plane, rows or columns, in pieces of `piece`. */
static void move_pieces(move_context *c, move_plane *p, int64_t *count, const int64_t *step,
                        char *const *at, int64_t n, int64_t piece)
{
    bool inside = true;

    for (int64_t i = 0; i < n && inside; i += piece) {
        char *part[] = {at[TO] + i * step[TO], at[FROM] + i * step[FROM],
                        at[INDEX] + i * step[INDEX]};
        *count = n - i < piece ? n - i : piece;
        inside = move_plane_run(c->m, p, part);
    }
    if (!inside)
        atomic_store(&c->outside, true);
}

/* A line of positions, each of which is a row of c->columns. */
static void move_rows(void *context, char *const *at, const int64_t *step, int64_t n)
{
    move_context *c = context;
    move_plane p = {0,
                    c->columns,
                    {step[TO], step[FROM], step[INDEX]},
                    {c->column[TO], c->column[FROM], c->column[INDEX]}};
    int64_t piece = c->column[INDEX] ? piece_length(c->column[INDEX]) / c->columns : PIECE;

    move_pieces(c, &p, &p.rows, step, at, n, piece ? piece : 1);
}

static void move_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    move_context *c = context;
    move_plane p = {1, 0, {0, 0, 0}, {step[TO], step[FROM], step[INDEX]}};

    move_pieces(c, &p, &p.columns, step, at, n, step[INDEX] ? piece_length(step[INDEX]) : n);
}

/* Takes the columns out of a walk with rows. */
static int64_t move_take_columns(cr_walk *w, move_context *c)
{
    const cr_space_dim *last = &w->space.dim[w->space.ndim - 1];

    c->columns = last->size;
    for (int k = 0; k < 3; k++)
        c->column[k] = last->step[k];
    cr_space_remove(&w->space, w->space.ndim - 1);
    w->total /= c->columns;
    return cr_walk_grain(c->columns);
}

static bool rows_are_short(const cr_space *s)
{
    return s->ndim > 1 &&
           s->dim[s->ndim - 1].size <= piece_length(s->dim[s->ndim - 1].step[INDEX]);
}

bool cr_move_indexed(const cr_move *m)
{
    size_t item = cr_dtype_size((cr_dtype)m->dtype);
    move_context c = {.m = m};
    cr_walk w;

    cr_walk_start(&w, m->ndim, m->size, -1);
    cr_walk_add_strides(&w, m->to, m->to_stride, item);
    cr_walk_add_strides(&w, (char *)(uintptr_t)m->from, m->from_stride, item);
    cr_walk_add_strides(&w, (char *)(uintptr_t)m->index, m->index_stride, m->is32 ? 4 : 8);
    cr_walk_merge(&w);
    if (rows_are_short(&w.space))
        cr_walk_run(&w, move_take_columns(&w, &c), move_rows, &c);
    else
        cr_walk_run(&w, CR_WALK_GRAIN, move_row, &c);
    return !atomic_load(&c.outside);
}

static void move_back(const cr_move *m)
{
    cr_view to = {(char *)(uintptr_t)m->from,
                  m->size,
                  m->from_stride,
                  (uint8_t)m->ndim,
                  m->dtype,
                  CR_HOST,
                  false};
    cr_view from = to;

    from.data = m->to;
    from.stride = m->to_stride;
    cr_copy_view(&to, &from);
}

static cr_status move_combine(const cr_move *m, cr_combine how, uint64_t picked)
{
    static const int64_t still[CR_MAX_DIMS];
    size_t item = cr_dtype_size((cr_dtype)m->dtype);
    bool dims[CR_MAX_DIMS];
    int64_t zero = 0;
    cr_places p = {.ndim = m->ndim,
                   .size = m->size,
                   .table = (char *)(uintptr_t)m->from,
                   .other = m->to,
                   .index = m->index ? (char *)(uintptr_t)m->index : (char *)&zero,
                   .table_stride = m->from_stride,
                   .other_stride = m->to_stride,
                   .index_stride = m->index ? m->index_stride : still,
                   .unit = m->index ? m->unit : 0,
                   .item = item,
                   .other_item = item,
                   .index_item = m->index && m->is32 ? sizeof(int32_t) : sizeof(int64_t),
                   .range = m->index && !m->gaps ? m->extent : 0};

    for (int d = 0; d < m->ndim; d++)
        dims[d] = picked >> d & 1;
    if (m->index)
        return cr_places_combine(&p, how, (cr_dtype)m->dtype, dims);
    cr_places_write(&p, cr_combine_for(how, (cr_dtype)m->dtype), dims);
    return CR_OK;
}

cr_status cr_move_combine(const cr_move *m, cr_combine how, uint64_t picked)
{
    if (how != CR_COMBINE_SET || m->index)
        return move_combine(m, how, picked);
    move_back(m);
    return CR_OK;
}
