/* Copies and fills of views of any strides and dtypes: the host's commands MOVE and FILL.
 *
 * The dims are ordered by the destination's strides, and merged where both views allow it.  The
 * innermost dim is the row, which a converter takes.  Rows and a second dim, the line, are cut
 * into tiles.  When the source is contiguous along the line instead of the row, a tile goes
 * through a small buffer, which is written in the source's order and read in the destination's,
 * so each cache line of either view is accessed once for each tile.  A tile of 4 or 8 bytes an
 * element is transposed in registers.  When one of the two dims is short, such as the channels
 * of an image, the other one is the row, whose elements have a distance in one of the views. */
#include "base/integer.h"
#include "device/device.h"
#include "kern/cpu/walk.h"
#include "kern/move.h"
#include "num/convert.h"
#include <string.h>

/* A tile of 64 x 64 small elements or 32 x 32 large ones fits the buffer. */
enum { BUFFER = 16384, UNIT = 16384, GRAIN = 32768, SHORT = 16 };

enum { TO, FROM };

typedef struct {
    char *at[2];
    cr_convert_fn convert, move;    /* move: within the destination's dtype, if crossed */
    int64_t item;                   /* of the destination */
    const cr_space_dim *row, *line; /* the last dims of the space; its steps are bytes */
    int outer;                      /* the number of other dims */
    int64_t row_tile, line_tile, row_tiles, line_tiles;
    bool crossed; /* the source is contiguous along the line */
    bool woven;   /* the row and the line cross, and one of them is short */
    bool same;    /* both dtypes are the same */
    cr_space space;
} plan;

static void list_dims(cr_space *s, const cr_array *to, const cr_array *from)
{
    int64_t to_item = (int64_t)cr_dtype_size((cr_dtype)to->dtype),
            from_item = (int64_t)cr_dtype_size((cr_dtype)from->dtype);

    cr_space_start(s, 2);
    for (int d = 0; d < to->ndim; d++) {
        int64_t *step = cr_space_add(s, to->size[d], d);
        /* the stride of a dim of size 1 may be any number */
        step[TO] = CR_WRAP_MUL(to->stride[d], to_item);
        step[FROM] = CR_WRAP_MUL(
            from_item, cr_broadcast_step(from->ndim, from->size, from->stride, to->ndim, d));
    }
    cr_space_order(s);
    cr_space_merge(s, 0);
}

/* The dim along which the source has the smallest stride. */
static int densest_dim(const cr_space *s)
{
    int best = s->ndim - 1;

    for (int d = best - 1; d >= 0; d--) {
        int64_t step = s->dim[d].step[FROM];
        if (step && cr_magnitude(step) < cr_magnitude(s->dim[best].step[FROM]))
            best = d;
    }
    return best;
}

static void choose_tiles(plan *p)
{
    if (p->crossed) {
        p->row_tile = p->line_tile = p->item <= 4 ? 64 : 32;
    } else {
        /* of no elements there are no tiles, of any size */
        int64_t unit = p->woven ? UNIT / SHORT : UNIT;
        p->row_tile = cr_most(1, cr_least(p->row->size, unit));
        p->line_tile = cr_most(1, cr_least(p->line->size, UNIT / p->row_tile));
    }
    p->row_tiles = (p->row->size + p->row_tile - 1) / p->row_tile;
    p->line_tiles = (p->line->size + p->line_tile - 1) / p->line_tile;
}

static void plan_element_copy(plan *p, const cr_array *to, const cr_array *from)
{
    cr_space *s = &p->space;
    int densest;

    p->at[TO] = to->data;
    p->at[FROM] = from->data;
    p->convert = cr_convert_row((cr_dtype)to->dtype, (cr_dtype)from->dtype);
    p->item = (int64_t)cr_dtype_size((cr_dtype)to->dtype);
    list_dims(s, to, from);
    densest = densest_dim(s);
    p->crossed = densest < s->ndim - 1;
    p->same = to->dtype == from->dtype;
    p->woven = false;
    if (p->crossed) {
        p->move = cr_convert_row((cr_dtype)to->dtype, (cr_dtype)to->dtype);
        cr_space_move(s, densest, s->ndim - 2);
    }
    p->outer = s->ndim < 2 ? 0 : s->ndim - 2;
    p->row = cr_space_last(s, 0);
    p->line = cr_space_last(s, 1);
    if (p->crossed && cr_least(p->row->size, p->line->size) < SHORT) {
        p->crossed = false;
        p->woven = true;
        if (p->row->size < p->line->size) {
            p->row = cr_space_last(s, 1);
            p->line = cr_space_last(s, 0);
        }
    }
    choose_tiles(p);
}

/* --- running --- */

static void run_crossed(const plan *p, char *to, const char *from, int64_t rows, int64_t lines)
{
    _Alignas(64) char buffer[BUFFER];
    int64_t pitch = p->line_tile * p->item, down = p->line->step[TO];
    bool dense = p->row->step[TO] == p->item;

    if (dense && p->same && p->line->step[FROM] == p->item &&
        cr_transpose_items(to, down, from, p->row->step[FROM], p->item, rows, lines))
        return;
    for (int64_t r = 0; r < rows; r++)
        p->convert(buffer + r * pitch, p->item, from + r * p->row->step[FROM],
                   p->line->step[FROM], lines);
    if (dense && cr_transpose_items(to, down, buffer, pitch, p->item, rows, lines))
        return;
    for (int64_t l = 0; l < lines; l++)
        p->move(to + l * p->line->step[TO], p->row->step[TO], buffer + l * p->item, pitch,
                rows);
}

static void run_straight(const plan *p, char *to, const char *from, int64_t rows, int64_t lines)
{
    for (int64_t l = 0; l < lines; l++)
        p->convert(to + l * p->line->step[TO], p->row->step[TO], from + l * p->line->step[FROM],
                   p->row->step[FROM], rows);
}

/* Runs tiles [begin, end) of all outer positions. */
static void run_units(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    int64_t tiles = p->row_tiles * p->line_tiles, tile = begin % tiles;
    cr_place at;

    cr_place_seek(&at, &p->space, p->outer, p->at, begin / tiles);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t r = tile % p->row_tiles * p->row_tile, l = tile / p->row_tiles * p->line_tile;
        char *to = at.at[TO] + r * p->row->step[TO] + l * p->line->step[TO];
        const char *from = at.at[FROM] + r * p->row->step[FROM] + l * p->line->step[FROM];
        int64_t rows = cr_least(p->row_tile, p->row->size - r);
        int64_t lines = cr_least(p->line_tile, p->line->size - l);
        (p->crossed ? run_crossed : run_straight)(p, to, from, rows, lines);
        if (++tile == tiles) {
            tile = 0;
            cr_place_next(&at, &p->space, p->outer);
        }
    }
}

/* A part of a single row, which threads share. */
static void run_row(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;

    p->convert(p->at[TO] + begin * p->row->step[TO], p->row->step[TO],
               p->at[FROM] + begin * p->row->step[FROM], p->row->step[FROM], end - begin);
}

static void run_element_copy(plan *p)
{
    int64_t units = p->row_tiles * p->line_tiles, tile = p->row_tile * p->line_tile;

    if (p->line->size == 1 && !p->outer) {
        cr_parallel_for(p->row->size, GRAIN, run_row, p);
        return;
    }
    units *= cr_space_count(&p->space, p->outer);
    cr_parallel_for(units, (GRAIN + tile - 1) / tile, run_units, p);
}

/* --- entry points --- */

const char *cr_host_move(int index, const cr_array *to, const cr_array *from)
{
    plan p; /* not initialized: a space is long */

    (void)index;
    plan_element_copy(&p, to, from);
    run_element_copy(&p);
    return NULL;
}

static bool all_bytes_equal(const unsigned char *element, size_t item)
{
    for (size_t i = 1; i < item; i++)
        if (element[i] != element[0])
            return false;
    return true;
}

typedef struct {
    char *to;
    int byte;
} byte_fill;

static void set_bytes(void *context, int64_t begin, int64_t end)
{
    const byte_fill *f = context;

    memset(f->to + begin, f->byte, (size_t)(end - begin));
}

const char *cr_host_fill(int index, const cr_array *to, const void *element)
{
    cr_array from = {.data = (char *)(uintptr_t)element, .dtype = to->dtype};
    plan p;

    (void)index;
    plan_element_copy(&p, to, &from);
    if (p.line->size == 1 && !p.outer && (p.row->step[TO] == p.item || p.row->size == 1) &&
        all_bytes_equal(element, (size_t)p.item)) {
        byte_fill f = {to->data, *(const unsigned char *)element};
        cr_parallel_for(p.row->size * p.item, 4 * GRAIN, set_bytes, &f);
    } else {
        run_element_copy(&p);
    }
    return NULL;
}

void cr_copy_view(const cr_view *to, const cr_view *from)
{
    cr_array a = cr_array_of(to), b = cr_array_of(from);

    cr_host_move(0, &a, &b);
}

void cr_zero_view(const cr_view *to)
{
    static const cr_complex zero;
    cr_array a = cr_array_of(to);

    cr_host_fill(0, &a, &zero);
}
