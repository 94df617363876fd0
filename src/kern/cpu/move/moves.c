/* The host's commands on elements at computed places (kern/move.h).
 *
 * Threads share the rows of a command.  Reading through an index, rows go in pieces whose
 * indices are checked just before the generated kernel reads them, while they are in the cache.
 * Indices that count from the end, and those that number the elements of an array, are
 * copied. */
#include "base/memory.h"
#include "device/facts.h"
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
        const lines_context *c = context; /* without elements, at[1] is NULL */                \
        for (int64_t r = 0; r < n; r++)                                                        \
            for (int i = 0; i < c->parts; i++)                                                 \
                name##_part(c, &c->part[i], (type *)(void *)(at[0] + r * step[0]),             \
                            (const type *)cr_moved(at[1], r, (size_t)step[1]));                \
    }
LINES(lines_1, uint8_t)
LINES(lines_2, uint16_t)
LINES(lines_4, uint32_t)
LINES(lines_8, uint64_t)
LINES(lines_16, cr_complex)

const char *cr_host_lines(int index, const cr_indexed *m, const cr_move_part *part, int parts)
{
    static const cr_row_fn rows[] = {lines_1, lines_2, lines_4, lines_8, lines_16};
    size_t bytes = cr_dtype_size((cr_dtype)m->dtype);
    lines_context c = {part, parts, m->dense_stride[m->ndim - 1], {0, 0}};
    cr_walk w;

    (void)index;
    memcpy(&c.item, m->item, bytes);
    cr_walk_start(&w, m->ndim - 1, m->size, -1);
    cr_walk_add_strides(&w, m->dense, m->dense_stride, bytes);
    cr_walk_add_strides(&w, m->table, m->table_stride, bytes);
    cr_walk_merge(&w);
    cr_walk_run(&w, cr_walk_grain(m->size[m->ndim - 1]), rows[CR_CTZ(bytes)], &c);
    return NULL;
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

bool cr_move_within(const cr_view *index, int64_t low, int64_t high, int64_t *bad)
{
    return cr_indices_within(index, low, high, bad);
}

bool cr_move_row_within(const char *index, int64_t step, int64_t n, int64_t extent, bool is32)
{
    return cr_indices_row_within(index, step, n, extent, is32);
}

typedef struct {
    const cr_indexed *m;
    int64_t columns, column[3]; /* of a walk over rows */
    _Atomic bool outside;
} move_context;

enum { TO, FROM, INDEX };

/* Rows of columns: byte steps from row to row and from column to column. */
typedef struct {
    int64_t rows, columns;
    int64_t row[3], column[3];
} move_plane;

static bool move_checked(const cr_indexed *m, const move_plane *p, const char *index)
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

static bool move_plane_run(const cr_indexed *m, const move_plane *p, char *const *at)
{
    int64_t size[2] = {p->rows, p->columns};
    int64_t stride[7] = {p->row[TO],    p->column[TO],    p->row[FROM], p->column[FROM],
                         p->row[INDEX], p->column[INDEX], m->unit};

    if (!move_checked(m, p, at[INDEX]))
        return false;
    m->kernel[m->is32]((void *const *)at, stride, size, NULL);
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

/* False when an index is outside: then some elements may be missing. */
static bool read_indexed(const cr_indexed *m)
{
    size_t item = cr_dtype_size((cr_dtype)m->dtype);
    move_context c = {.m = m};
    cr_walk w;

    cr_walk_start(&w, m->ndim, m->size, -1);
    cr_walk_add_strides(&w, m->dense, m->dense_stride, item);
    cr_walk_add_strides(&w, m->table, m->table_stride, item);
    cr_walk_add_strides(&w, (char *)(uintptr_t)m->index, m->index_stride, m->is32 ? 4 : 8);
    cr_walk_merge(&w);
    if (rows_are_short(&w.space))
        cr_walk_run(&w, move_take_columns(&w, &c), move_rows, &c);
    else
        cr_walk_run(&w, CR_WALK_GRAIN, move_row, &c);
    return !atomic_load(&c.outside);
}

/* --- indices that are not used as they are --- */

/* The elements of a command's index: its dims without those along which the index does not
 * vary. */
typedef struct {
    cr_view view;
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
} index_elements;

static void index_elements_of(index_elements *e, const cr_indexed *m)
{
    int n = 0;

    for (int d = 0; d < m->ndim; d++)
        if (m->index_stride[d]) {
            e->size[n] = m->size[d];
            e->stride[n++] = m->index_stride[d];
        }
    e->view = (cr_view){(char *)(uintptr_t)m->index, e->size, e->stride, (uint8_t)n,
                        m->is32 ? CR_I32 : CR_I64,   CR_HOST, false};
}

/* Replaces row-major numbers of elements by their offsets; returns the end of the offsets. */
static int64_t unravel(int64_t *number, int64_t n, const cr_array *a)
{
    int64_t span = 1;
    cr_space s;

    cr_space_start(&s, 1);
    for (int d = 0; d < a->ndim; d++) {
        *cr_space_add(&s, a->size[d], d) = a->stride[d];
        span += CR_WRAP_MUL(a->size[d] - 1, a->stride[d]);
    }
    cr_space_merge(&s, 0);
    for (int64_t i = 0; i < n; i++)
        number[i] = cr_space_offset(&s, s.ndim, 0, number[i]);
    return span;
}

/* The command with a copy of its indices as int64, none of which is negative. */
static void resolve(cr_indexed *made, int64_t *stride, int64_t *index, const cr_indexed *m,
                    const index_elements *e)
{
    int64_t n = cr_view_numel(&e->view), next = 1;
    int64_t limit = m->numbered ? cr_numel(m->numbered->ndim, m->numbered->size) : m->extent;

    for (int64_t i = 0; i < n; i++)
        index[i] += index[i] < 0 ? limit : 0;
    *made = *m;
    if (m->numbered) {
        made->extent = unravel(index, n, m->numbered);
        made->unit = (int64_t)cr_dtype_size((cr_dtype)m->dtype);
    }
    for (int d = m->ndim - 1; d >= 0; d--) {
        stride[d] = m->index_stride[d] ? next : 0;
        next *= m->index_stride[d] ? m->size[d] : 1;
    }
    made->index = (const char *)index;
    made->index_stride = stride;
    made->is32 = made->wraps = false;
    made->numbered = NULL;
}

static const char *run_inside(const cr_indexed *m, bool gaps);

/* A command of which some index is not in [0, extent), or whose indices are numbers. */
static const char *run_resolved(const cr_indexed *m)
{
    int64_t stride[CR_MAX_DIMS], bad, *index;
    int64_t limit = m->numbered ? cr_numel(m->numbered->ndim, m->numbered->size) : m->extent;
    index_elements e;
    cr_indexed made;

    index_elements_of(&e, m);
    if (!cr_indices_within(&e.view, m->wraps ? -limit : 0, limit, &bad))
        return cr_index_error(m, bad);
    index = cr_indices_to_plain(&e.view);
    if (!index)
        return cr_error_message();
    resolve(&made, stride, index, m, &e);
    const char *error = run_inside(&made, m->numbered != NULL);
    cr_free(index);
    return error;
}

/* --- reading --- */

/* Without generated kernels: commands of a backend's own. */
static const char *read_places(const cr_indexed *m)
{
    size_t item = cr_dtype_size((cr_dtype)m->dtype);
    cr_places p = {.ndim = m->ndim,
                   .size = m->size,
                   .table = m->table,
                   .other = m->dense,
                   .index = (char *)(uintptr_t)m->index,
                   .table_stride = m->table_stride,
                   .other_stride = m->dense_stride,
                   .index_stride = m->index_stride,
                   .unit = m->unit,
                   .item = item,
                   .other_item = item,
                   .index_item = m->is32 ? sizeof(int32_t) : sizeof(int64_t),
                   .limit = (uint64_t)m->extent};

    return cr_places_read(&p) ? NULL : cr_index_outside;
}

/* Finds an index outside when it comes to it. */
const char *cr_host_indexed(int index, const cr_indexed *m)
{
    (void)index;
    if (!m->numbered && m->kernel[m->is32] && read_indexed(m))
        return NULL;
    return run_resolved(m);
}

/* --- writing --- */

static void copy_back(const cr_indexed *m, const char *dense, const int64_t *dense_stride)
{
    cr_view to = {m->table, m->size, m->table_stride, (uint8_t)m->ndim, (uint8_t)m->dtype,
                  CR_HOST,  false};
    cr_view from = to;

    from.data = (char *)(uintptr_t)dense;
    from.stride = dense_stride;
    cr_copy_view(&to, &from);
}

/* `gaps`: not all positions below the extent are elements of the table. */
static cr_status combine_places(const cr_indexed *m, bool gaps)
{
    static const int64_t still[CR_MAX_DIMS];
    size_t item = cr_dtype_size((cr_dtype)m->dtype);
    bool dims[CR_MAX_DIMS];
    int64_t zero = 0;
    cr_places p = {.ndim = m->ndim,
                   .size = m->size,
                   .table = m->table,
                   .other = m->dense ? m->dense : (char *)(uintptr_t)m->item,
                   .index = m->index ? (char *)(uintptr_t)m->index : (char *)&zero,
                   .table_stride = m->table_stride,
                   .other_stride = m->dense ? m->dense_stride : still,
                   .index_stride = m->index ? m->index_stride : still,
                   .unit = m->index ? m->unit : 0,
                   .item = item,
                   .other_item = item,
                   .index_item = m->index && m->is32 ? sizeof(int32_t) : sizeof(int64_t),
                   .range = m->index && !gaps ? m->extent : 0};

    if (m->how == CR_COMBINE_SET && !m->index) {
        copy_back(m, p.other, p.other_stride);
        return CR_OK;
    }
    if (!cr_combine_for(m->how, (cr_dtype)m->dtype))
        return cr_fail(CR_NOT_IMPLEMENTED, "\"combine\" not implemented for '%s'",
                       cr_dtype_infos[m->dtype].legacy);
    for (int d = 0; d < m->ndim; d++)
        dims[d] = m->picked >> d & 1;
    if (m->index)
        return cr_places_combine(&p, m->how, (cr_dtype)m->dtype, dims);
    cr_places_write(&p, cr_combine_for(m->how, (cr_dtype)m->dtype), dims);
    return CR_OK;
}

static void divide(const cr_indexed *m)
{
    cr_view table = {m->table, m->size, m->table_stride, (uint8_t)m->ndim, (uint8_t)m->dtype,
                     CR_HOST,  false};
    cr_view count = table;

    count.data = m->dense;
    count.stride = m->dense_stride;
    count.dtype = CR_I64;
    cr_divide_by_counts(&table, &count);
}

/* All indices are in [0, extent). */
static const char *run_inside(const cr_indexed *m, bool gaps)
{
    if (m->how == CR_COMBINE_READ)
        return m->kernel[m->is32] && read_indexed(m) ? NULL : read_places(m);
    return combine_places(m, gaps) ? cr_error_message() : NULL;
}

/* Checks all indices before the first write. */
const char *cr_host_combine(int index, const cr_indexed *m)
{
    index_elements e;
    int64_t bad;

    (void)index;
    if (m->how == CR_COMBINE_DIVIDE) {
        divide(m);
        return NULL;
    }
    if (m->index && !m->numbered)
        index_elements_of(&e, m);
    if (m->numbered || (m->index && !cr_indices_within(&e.view, 0, m->extent, &bad)))
        return run_resolved(m);
    return run_inside(m, false);
}
