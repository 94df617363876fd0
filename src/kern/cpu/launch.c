/* The command KERNEL on the host (kern/launch.h): threads share rows, or blocks and strips of
 * columns.  The bits of results do not depend on the cut, because a fold of columns has blocks
 * of fixed sizes (num/order.h). */
#include "kern/launch.h"
#include "base/integer.h"
#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "kern/move.h"
#include "num/convert.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* GRAIN: elements that are worth another thread.  CHUNK: columns of a part of a single row.
 * TILE, GATHERED: elements of a copy.  HIGH: rows of a tile of transposed elements, a cache
 * line of float32, which is read once; LINE: bytes between its rows, so that they do not
 * compete for places in the cache. */
enum {
    GRAIN = 32768,
    STRIP = 2048,
    CHUNK = 4096,
    TILE = 1024,
    HIGH = 16,
    LINE = 64,
    AHEAD = 16, /* rows whose lines are fetched before they are read */
    GATHERED = CR_FOLD_ROW
};

typedef struct {
    cr_kernel fn;
    const cr_host_cut *cut;
    const cr_launch *l;
    const cr_space *s;
    int outer;
    uint32_t staged;              /* bit k: operand k goes through tiles */
    int64_t block, parts, strips; /* of columns */
    _Atomic bool no_memory;
} launch_job;

enum { OUT, IN };

/* A part of a block that fits the buffer: `size` of it from `first` on along dim `dim`, the dim
 * of results.  The elements are copied row by row, in the kernel's dtype. */
static void call_gathered_part(const launch_job *j, char *buffer, void *const *ptr,
                               const int64_t *stride, const int64_t *size, int dim,
                               int64_t first)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)j->cut->from),
            into = (int64_t)cr_dtype_size((cr_dtype)j->cut->to);
    int64_t steps[2] = {stride[2] / item, stride[3] / item}, dense[2] = {size[1], 1};
    int64_t given[4] = {stride[0], stride[1], size[1] * into, into};
    void *at[2] = {(char *)ptr[OUT] + first * stride[dim], buffer};
    cr_array from = {(char *)ptr[IN] + first * stride[2 + dim], j->cut->from, 2, size, steps};
    cr_array to = {buffer, j->cut->to, 2, size, dense};

    cr_host_move(0, &to, &from);
    j->fn(at, given, size, j->l->param);
}

/* The results of a kernel call do not depend on each other, so that a block with more elements
 * than the buffer is folded by several calls.  The buffer is not on the stack, which may be
 * unable to grow where memory is short. */
static void call_gathered(launch_job *j, void *const *ptr, const int64_t *stride,
                          const int64_t *size)
{
    int dim = stride[0] ? 0 : 1; /* of results: rows of a fold of rows, else columns */
    int64_t folded = size[1 - dim], most = folded < GATHERED ? GATHERED / folded : 1;
    uint32_t class;
    char *buffer = cr_cpu_get_scratch(GATHERED * cr_dtype_size((cr_dtype)j->cut->to), &class);

    if (!buffer) {
        atomic_store(&j->no_memory, true);
        return;
    }
    for (int64_t first = 0; first < size[dim]; first += most) {
        int64_t n = cr_least(most, size[dim] - first);
        int64_t part[2] = {dim ? folded : n, dim ? n : folded};
        call_gathered_part(j, buffer, ptr, stride, part, dim, first);
    }
    cr_cpu_release(buffer, class);
}

/* --- tiles --- */

/* A kernel reads and writes adjacent elements of its dtypes, and reads single ones. */
static uint32_t find_staged(const cr_host_values *v, const cr_launch *l)
{
    uint32_t staged = 0;

    for (int k = 0; k < l->operands; k++) {
        int64_t step = l->stride[2 * k + 1];
        bool fits = step == (int64_t)cr_dtype_size((cr_dtype)v->value[k]) || l->size[1] == 1 ||
                    (!step && k >= v->results);
        staged |= (uint32_t) !(fits && v->memory[k] == v->value[k]) << k;
    }
    return staged;
}

typedef struct {
    _Alignas(64) char bytes[TILE * 16];
} tile;

/* An operand's rows in memory, and its tile. */
typedef struct {
    char *memory, *tile;
    int64_t row, column, tile_row, tile_column; /* steps in bytes */
    int64_t rows, columns;
    cr_dtype memory_type, tile_type;
} tile_rows;

static tile_rows rows_of_tile(const launch_job *j, int k, char *memory, tile *t,
                              const int64_t *stride, const int64_t *size)
{
    const cr_host_values *v = j->cut->values;
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)v->value[k]);
    bool one = !stride[2 * k + 1] && k >= v->results;

    return (tile_rows){.memory = memory,
                       .tile = t->bytes,
                       .row = stride[2 * k],
                       .column = stride[2 * k + 1],
                       .tile_row =
                           one ? item : size[1] * item + (size[1] * size[0] > TILE) * LINE,
                       .tile_column = one ? 0 : item,
                       .rows = size[0],
                       .columns = one ? 1 : size[1],
                       .memory_type = (cr_dtype)v->memory[k],
                       .tile_type = (cr_dtype)v->value[k]};
}

/* Elements of a column are closer in memory than those of a row. */
static bool is_transposed(int64_t row, int64_t column)
{
    return row && column && llabs(row) < llabs(column);
}

/* The same elements, with rows as columns where these are closer in memory. */
static tile_rows in_memory_order(tile_rows t)
{
    if (!is_transposed(t.row, t.column))
        return t;
    return (tile_rows){.memory = t.memory,
                       .tile = t.tile,
                       .row = t.column,
                       .column = t.row,
                       .tile_row = t.tile_column,
                       .tile_column = t.tile_row,
                       .rows = t.columns,
                       .columns = t.rows,
                       .memory_type = t.memory_type,
                       .tile_type = t.tile_type};
}

static void fill_tile(const tile_rows *rows)
{
    tile_rows t = in_memory_order(*rows);
    cr_convert_fn convert = cr_convert_row(t.tile_type, t.memory_type);
    /* One column of equal elements has no step. */
    int64_t step = t.columns > 1 ? t.tile_column : (int64_t)cr_dtype_size(t.tile_type);
    int64_t ahead = t.rows > AHEAD ? AHEAD : 0;

    for (int64_t r = 0; r < t.rows; r++) {
        __builtin_prefetch(t.memory + (r + ahead) * t.row); /* no fault where nothing is */
        convert(t.tile + r * t.tile_row, step, t.memory + r * t.row, t.column, t.columns);
    }
}

static void empty_tile(const tile_rows *rows)
{
    tile_rows t = in_memory_order(*rows);
    cr_convert_fn convert = cr_convert_row(t.memory_type, t.tile_type);

    for (int64_t r = 0; r < t.rows; r++)
        convert(t.memory + r * t.row, t.column, t.tile + r * t.tile_row, t.tile_column,
                t.columns);
}

/* At most TILE elements, through the tiles of the staged operands. */
static void call_tile(const launch_job *j, tile *tiles, void *const *ptr, const int64_t *stride,
                      const int64_t *size)
{
    tile_rows rows[CR_HOST_TILED];
    void *at[CR_HOST_TILED];
    int64_t step[2 * CR_HOST_TILED];
    int results = j->cut->values->results;

    for (int k = 0; k < j->l->operands; k++) {
        at[k] = ptr[k];
        step[2 * k] = stride[2 * k];
        step[2 * k + 1] = stride[2 * k + 1];
        if (!(j->staged >> k & 1))
            continue;
        rows[k] = rows_of_tile(j, k, ptr[k], &tiles[k], stride, size);
        at[k] = rows[k].tile;
        step[2 * k] = rows[k].tile_row;
        step[2 * k + 1] = rows[k].tile_column;
        if (k >= results)
            fill_tile(&rows[k]);
    }
    j->fn(at, step, size, j->l->param);
    for (uint32_t left = j->staged & ((1u << results) - 1); left; left &= left - 1)
        empty_tile(&rows[CR_CTZ(left)]);
}

/* Columns of a tile. */
static int64_t widest_tile(const launch_job *j, const int64_t *stride)
{
    int64_t item = 1;
    bool transposed = false;

    for (uint32_t left = j->staged; left; left &= left - 1) {
        int k = CR_CTZ(left);
        int64_t own = (int64_t)cr_dtype_size((cr_dtype)j->cut->values->value[k]);
        item = own > item ? own : item;
        transposed |= is_transposed(stride[2 * k], stride[2 * k + 1]);
    }
    return transposed ? ((int64_t)sizeof(tile) / HIGH - LINE) / item : TILE;
}

static void call_tiles(const launch_job *j, void *const *ptr, const int64_t *stride,
                       const int64_t *size)
{
    tile tiles[CR_HOST_TILED];
    int64_t most = widest_tile(j, stride), wide = cr_least(size[1], most);
    int64_t high = wide < TILE / HIGH || most == TILE ? TILE / wide : HIGH;
    void *at[CR_HOST_TILED];

    for (int64_t r = 0; r < size[0]; r += high)
        for (int64_t c = 0; c < size[1]; c += wide) {
            for (int k = 0; k < j->l->operands; k++)
                at[k] = (char *)ptr[k] + r * stride[2 * k] + c * stride[2 * k + 1];
            call_tile(j, tiles, at, stride,
                      (int64_t[]){cr_least(high, size[0] - r), cr_least(wide, size[1] - c)});
        }
}

/* --- calls --- */

static void launch_call(launch_job *j, void *const *ptr, const int64_t *stride,
                        const int64_t *size)
{
    if (CR_UNLIKELY(j->staged))
        call_tiles(j, ptr, stride, size);
    else if (CR_UNLIKELY(j->cut->gathers))
        call_gathered(j, ptr, stride, size);
    else
        j->fn(ptr, stride, size, j->l->param);
}

/* Rows [begin, end) of all positions; one call takes neighbours. */
static void launch_rows(void *context, int64_t begin, int64_t end)
{
    launch_job *j = context;
    const cr_launch *l = j->l;
    int64_t rows = l->size[0], row = begin % rows;
    void *ptr[CR_SPACE_OPERANDS];
    cr_place p;

    cr_place_seek(&p, j->s, j->outer, (char *const *)l->pointer, begin / rows);
    while (begin < end) {
        int64_t n = cr_least(rows - row, end - begin);
        for (int k = 0; k < j->s->operands; k++)
            ptr[k] = p.at[k] + row * l->stride[2 * k];
        launch_call(j, ptr, l->stride, (int64_t[]){n, l->size[1]});
        begin += n;
        row = 0;
        cr_place_next(&p, j->s, j->outer);
    }
}

/* Parts of a single row; [begin, end) counts chunks of it. */
static void launch_chunks(void *context, int64_t begin, int64_t end)
{
    launch_job *j = context;
    const cr_launch *l = j->l;
    int64_t from = begin * CHUNK;
    void *at[CR_SPACE_OPERANDS];

    for (int k = 0; k < l->operands; k++)
        at[k] = (char *)l->pointer[k] + from * l->stride[2 * k + 1];
    launch_call(j, at, l->stride, (int64_t[]){1, cr_least(end * CHUNK, l->size[1]) - from});
}

/* Block `part` of the rows, and a strip of columns from `first` on. */
static void launch_strip(launch_job *j, char **at, int64_t part, int64_t first)
{
    const cr_launch *l = j->l;
    int64_t row = part * j->block;
    int64_t size[2] = {cr_least(j->block, l->size[0] - row),
                       cr_least(STRIP, l->size[1] - first)};
    int64_t stride[2 * CR_SPACE_OPERANDS];

    for (int k = 0; k < j->s->operands; k++) {
        at[k] += (k || !j->cut->block ? row : part) * l->stride[2 * k] +
                 first * l->stride[2 * k + 1];
        stride[2 * k] = k || !j->cut->block ? l->stride[2 * k] : 0;
        stride[2 * k + 1] = l->stride[2 * k + 1];
    }
    launch_call(j, (void *const *)at, stride, size);
}

/* Positions [begin, end), each of one call. */
static void launch_few_columns(launch_job *j, int64_t begin, int64_t end)
{
    int64_t stride[2 * CR_SPACE_OPERANDS];
    cr_place p;

    memcpy(stride, j->l->stride, 2 * (size_t)j->s->operands * sizeof *stride);
    stride[0] = j->cut->block ? 0 : stride[0];
    cr_place_seek(&p, j->s, j->outer, (char *const *)j->l->pointer, begin);
    for (int64_t i = begin; i < end; i++) {
        launch_call(j, (void *const *)p.at, stride, j->l->size);
        cr_place_next(&p, j->s, j->outer);
    }
}

/* Units are (position, block of rows, strip of columns). */
static void launch_strips(void *context, int64_t begin, int64_t end)
{
    launch_job *j = context;
    cr_place p;

    if (j->strips * j->parts == 1) {
        launch_few_columns(j, begin, end);
        return;
    }
    for (int64_t u = begin; u < end; u++) {
        cr_place_seek(&p, j->s, j->outer, (char *const *)j->l->pointer,
                      u / j->strips / j->parts);
        launch_strip(j, p.at, u / j->strips % j->parts, u % j->strips * STRIP);
    }
}

static void launch_columns(launch_job *j, int64_t positions)
{
    const cr_launch *l = j->l;
    int64_t unit;

    j->block = j->cut->block ? j->cut->block : l->size[0];
    j->parts = (l->size[0] + j->block - 1) / j->block;
    j->strips = (l->size[1] + STRIP - 1) / STRIP;
    unit = cr_least(l->size[0], j->block) * cr_least(l->size[1], STRIP);
    cr_parallel_for(positions * j->parts * j->strips, 1 + GRAIN / unit, launch_strips, j);
}

static void launch_shared(launch_job *j)
{
    const cr_launch *l = j->l;
    int64_t positions = cr_space_count(j->s, j->outer);

    if (!positions || !l->size[0] || !l->size[1])
        return;
    if (j->cut->columns)
        launch_columns(j, positions);
    else if (j->cut->wide && positions * l->size[0] == 1)
        cr_parallel_for((l->size[1] + CHUNK - 1) / CHUNK, GRAIN / CHUNK, launch_chunks, j);
    else
        cr_parallel_for(positions * l->size[0], 1 + GRAIN / l->size[1], launch_rows, j);
}

/* Few elements are one call. */
cr_status cr_host_launch(cr_kernel fn, const cr_host_cut *cut, const cr_launch *l,
                         const cr_space *s, int outer)
{
    launch_job j = {.fn = fn, .cut = cut, .l = l, .s = s, .outer = outer};
    int64_t n = l->size[0] * l->size[1];

    j.staged = cut->values ? find_staged(cut->values, l) : 0;
    if (!outer && !cut->block && n && n <= GRAIN)
        launch_call(&j, l->pointer, l->stride, l->size);
    else
        launch_shared(&j);
    return j.no_memory /* another thread has the message */
               ? cr_fail(CR_MEMORY, "not enough memory for the buffer of a reduction")
               : CR_OK;
}
