/* Moving elements between views of any strides and dtypes.
 *
 * The dims are sorted by the destination's strides, and joined where both views allow it.  The
 * innermost dim is the row, which a converter takes.  Rows and a second dim, the line, are cut
 * into tiles.  When the source is contiguous along the line instead of the row, a tile goes
 * through a small buffer, which is written in the source's order and read in the destination's,
 * so each cache line of either view is accessed once for each tile. */
#include "base/integer.h"
#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "num/convert.h"
#include "tensor/geometry.h"
#include "tensor/remote.h"
#include <stdlib.h>
#include <string.h>

/* A tile of 64 x 64 small elements or 32 x 32 large ones fits the buffer. */
enum { BUFFER = 16384, UNIT = 16384, GRAIN = 32768 };

typedef struct {
    int64_t size, to, from; /* strides in bytes */
} dim;

typedef struct {
    char *to;
    const char *from;
    cr_convert_fn convert, move; /* move: within the destination's dtype */
    int64_t item;                /* of the destination */
    int count;
    dim outer[CR_MAX_DIMS]; /* the first varies fastest */
    dim row, line;
    int64_t row_tile, line_tile, row_tiles, line_tiles;
    bool crossed; /* the source is contiguous along the line */
} plan;

/* Lists the dims with more than one element, sorted by the destination's strides. */
static int list_dims(dim *d, const cr_view *to, const cr_view *from)
{
    int64_t to_item = (int64_t)cr_dtype_size(to->dtype), n = 0;
    int64_t from_item = (int64_t)cr_dtype_size(from->dtype);
    int shift = from->ndim - to->ndim;

    for (int i = to->ndim - 1; i >= 0; i--) {
        int64_t at = n;
        if (to->size[i] == 1)
            continue;
        dim one = {to->size[i], to->stride[i] * to_item, 0};
        if (i + shift >= 0 && from->size[i + shift] != 1) {
            CR_ASSERT(from->size[i + shift] == one.size);
            one.from = from->stride[i + shift] * from_item;
        }
        for (; at > 0 && cr_magnitude(d[at - 1].to) > cr_magnitude(one.to); at--)
            d[at] = d[at - 1];
        d[at] = one;
        n++;
    }
    return (int)n;
}

static int join_dims(dim *d, int n)
{
    int last = 0;

    for (int i = 1; i < n; i++) {
        dim *in = &d[last];
        if (d[i].to == in->to * in->size && d[i].from == in->from * in->size)
            in->size *= d[i].size;
        else
            d[++last] = d[i];
    }
    return n ? last + 1 : 0;
}

/* The dim along which the source has a smaller stride than along the row, or 0. */
static int crossing_dim(const dim *d, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++)
        if (d[i].from && cr_magnitude(d[i].from) < cr_magnitude(d[best].from))
            best = i;
    return best;
}

static void choose_tiles(plan *p)
{
    if (p->crossed) {
        p->row_tile = p->line_tile = p->item <= 4 ? 64 : 32;
    } else {
        p->row_tile = cr_least(p->row.size, UNIT);
        p->line_tile = cr_least(p->line.size, UNIT / p->row_tile);
    }
    p->row_tiles = (p->row.size + p->row_tile - 1) / p->row_tile;
    p->line_tiles = (p->line.size + p->line_tile - 1) / p->line_tile;
}

static void plan_element_copy(plan *p, const cr_view *to, const cr_view *from)
{
    dim d[CR_MAX_DIMS];
    int n = join_dims(d, list_dims(d, to, from)), cross = crossing_dim(d, n);

    p->to = to->data;
    p->from = from->data;
    p->convert = cr_convert_row(to->dtype, from->dtype);
    p->move = cr_convert_row(to->dtype, to->dtype);
    p->item = (int64_t)cr_dtype_size(to->dtype);
    p->crossed = cross > 0;
    p->row = n > 0 ? d[0] : (dim){1, 0, 0};
    p->line = n > 1 ? d[cross ? cross : 1] : (dim){1, 0, 0};
    p->count = 0;
    for (int i = 1; i < n; i++)
        if (i != (cross ? cross : 1))
            p->outer[p->count++] = d[i];
    choose_tiles(p);
}

/* --- running a plan --- */

static void run_crossed(const plan *p, char *to, const char *from, int64_t rows, int64_t lines)
{
    _Alignas(64) char buffer[BUFFER];
    int64_t pitch = p->line_tile * p->item;

    for (int64_t r = 0; r < rows; r++)
        p->convert(buffer + r * pitch, p->item, from + r * p->row.from, p->line.from, lines);
    for (int64_t l = 0; l < lines; l++)
        p->move(to + l * p->line.to, p->row.to, buffer + l * p->item, pitch, rows);
}

static void run_straight(const plan *p, char *to, const char *from, int64_t rows, int64_t lines)
{
    for (int64_t l = 0; l < lines; l++)
        p->convert(to + l * p->line.to, p->row.to, from + l * p->line.from, p->row.from, rows);
}

typedef struct {
    int64_t index[CR_MAX_DIMS], tile; /* tile: within the outer position */
    char *to;
    const char *from;
} position;

static void seek(const plan *p, position *at, int64_t unit)
{
    int64_t tiles = p->row_tiles * p->line_tiles, outer = unit / tiles;

    at->tile = unit % tiles;
    at->to = p->to;
    at->from = p->from;
    for (int i = 0; i < p->count; i++) {
        at->index[i] = outer % p->outer[i].size;
        outer /= p->outer[i].size;
        at->to += at->index[i] * p->outer[i].to;
        at->from += at->index[i] * p->outer[i].from;
    }
}

static void advance(const plan *p, position *at)
{
    if (++at->tile < p->row_tiles * p->line_tiles)
        return;
    at->tile = 0;
    for (int i = 0; i < p->count; i++) {
        const dim *d = &p->outer[i];
        at->to += d->to;
        at->from += d->from;
        if (++at->index[i] < d->size)
            return;
        at->to -= d->size * d->to;
        at->from -= d->size * d->from;
        at->index[i] = 0;
    }
}

static void run_units(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    position at;

    seek(p, &at, begin);
    for (int64_t unit = begin; unit < end; unit++, advance(p, &at)) {
        int64_t r = at.tile % p->row_tiles * p->row_tile,
                l = at.tile / p->row_tiles * p->line_tile;
        char *to = at.to + r * p->row.to + l * p->line.to;
        const char *from = at.from + r * p->row.from + l * p->line.from;
        int64_t rows = cr_least(p->row_tile, p->row.size - r);
        int64_t lines = cr_least(p->line_tile, p->line.size - l);
        (p->crossed ? run_crossed : run_straight)(p, to, from, rows, lines);
    }
}

/* A part of a single row, which threads share. */
static void run_row(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;

    p->convert(p->to + begin * p->row.to, p->row.to, p->from + begin * p->row.from, p->row.from,
               end - begin);
}

static void run_element_copy(plan *p)
{
    int64_t units = p->row_tiles * p->line_tiles, tile = p->row_tile * p->line_tile;

    if (p->line.size == 1 && p->count == 0) {
        cr_parallel_for(p->row.size, GRAIN, run_row, p);
        return;
    }
    for (int i = 0; i < p->count; i++)
        units *= p->outer[i].size;
    cr_parallel_for(units, (GRAIN + tile - 1) / tile, run_units, p);
}

/* --- entry points --- */

/* Copies overlapping views through a temporary copy of the source. */
static cr_status copy_apart(const cr_view *to, const cr_view *from)
{
    int64_t stride[CR_MAX_DIMS];
    uint32_t class;
    cr_view between = *from;

    cr_row_major(from->ndim, from->size, stride);
    between.stride = stride;
    between.data = cr_cpu_get(
        (size_t)cr_numel(from->ndim, from->size) * cr_dtype_size(from->dtype), &class);
    if (!between.data)
        return CR_MEMORY;
    plan p;
    plan_element_copy(&p, &between, from);
    run_element_copy(&p);
    plan_element_copy(&p, to, &between);
    run_element_copy(&p);
    cr_cpu_release(between.data, class);
    return CR_OK;
}

static bool same_layout(const cr_view *a, const cr_view *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           !memcmp(a->size, b->size, a->ndim * sizeof *a->size) &&
           cr_is_contiguous(a->ndim, a->size, a->stride) &&
           cr_is_contiguous(b->ndim, b->size, b->stride);
}

cr_status cr_copy_elements(const cr_view *to, const cr_view *from)
{
    int64_t n = cr_numel(to->ndim, to->size);
    plan p;

    if (n == 0 || !to->data || !from->data)
        return CR_OK;
    if (CR_UNLIKELY(!cr_is_host(to->device) || !cr_is_host(from->device)))
        return cr_remote_copy(to, from);
    if (n <= GRAIN && same_layout(to, from)) {
        memmove(to->data, from->data, (size_t)n * cr_dtype_size(to->dtype));
        return CR_OK;
    }
    cr_overlap overlap = cr_overlap_of(to, from);
    if (overlap != CR_APART)
        return overlap == CR_SAME && to->dtype == from->dtype ? CR_OK : copy_apart(to, from);
    plan_element_copy(&p, to, from);
    run_element_copy(&p);
    return CR_OK;
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

cr_status cr_fill_elements(const cr_view *to, cr_scalar value)
{
    _Alignas(16) unsigned char element[sizeof(cr_complex)] = {0};
    cr_view from = {.data = (char *)element, .dtype = to->dtype};
    int64_t n = cr_numel(to->ndim, to->size);
    plan p;

    if (n == 0 || !to->data)
        return CR_OK;
    cr_scalar_store(value, to->dtype, element);
    if (CR_UNLIKELY(!cr_is_host(to->device)))
        return cr_remote_fill(to, element);
    plan_element_copy(&p, to, &from);
    if (p.line.size == 1 && p.count == 0 && (p.row.to == p.item || n == 1) &&
        all_bytes_equal(element, (size_t)p.item)) {
        byte_fill f = {to->data, element[0]};
        cr_parallel_for(n * p.item, 4 * GRAIN, set_bytes, &f);
    } else {
        run_element_copy(&p);
    }
    return CR_OK;
}
