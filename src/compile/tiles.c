/* Groups on the host: a KERNEL command whose operands are converted through tiles.
 *
 * A space consists of planes, a plane of rows, a row of columns.  A part is a number of rows of
 * a plane, or a piece of one long row.  Operands that the kernel cannot read in place, because
 * of their dtype or because their columns are not adjacent, are converted through tiles, as in
 * eager pointwise operators. */
#include "base/integer.h"
#include "base/parallel.h"
#include "compile/code.h"
#include "num/convert.h"
#include <stdatomic.h>
#include <string.h>

enum {
    GRAIN = 16384,
    SPAN = 4096,
    AT_ONCE = 64,      /* lanes of all vectors */
    LAID_OUT = 1 << 18 /* bytes */
};

typedef struct {
    const cr_group_command *command;
    const cr_group_code *c;
    const cr_space *space;
    char *const *ptr; /* the operands */
    const cr_way *way;
    cr_fused_call call;
    int64_t block; /* the first row of the block whose columns are folded together */
    char *part[CR_GROUP_OPERANDS]; /* of folds: one row for each block */
    _Atomic int *status;
} job;

/* Rows of one plane, or a piece of a row: the address of each operand. */
typedef struct {
    char *at[CR_GROUP_OPERANDS];
    int64_t first_row, first_column, rows, columns;
} part;

/* The source of operand k, or NULL. */
static const cr_placed_source *source_of(const job *j, int k)
{
    return cr_group_is_source(j->c, k) ? &j->command->source[-1 - j->c->operand[k].number]
                                       : NULL;
}

/* The number of elements of a tile.  With sources, tiles may exceed the first-level cache: long
 * lines are copied faster, and elements that are read in place need no tile. */
enum { SOURCE_TILES = 4 };
static int64_t tile_elements(const job *j)
{
    return j->way->tile * (j->c->sources ? SOURCE_TILES : 1);
}

/* --- one part --- */

/* Memory for `count` tiles of `bytes`, from an address that vectors can use.  Only *memory is
 * freed. */
static cr_status get_tiles(char **memory, char **first, int count, int64_t bytes)
{
    *memory = cr_alloc((size_t)(bytes * count) + 64);
    CR_NEED(*memory);
    *first = *memory + (64 - ((uintptr_t)*memory & 63));
    return CR_OK;
}

static int count_staged(const job *j)
{
    int count = 0;

    for (int k = 0; k < j->c->operands; k++)
        count += j->c->operand[k].staged;
    return count;
}

/* The strides of operand k along rows and columns, in place or in its tile. */
static void set_strides(const job *j, int k, int64_t columns, int64_t *stride)
{
    const cr_operand_plan *o = &j->c->operand[k];
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)o->lane);

    stride[0] = o->staged ? (o->row ? 1 : columns) * item : cr_space_last(j->space, 1)->step[k];
    stride[1] = o->row ? 0 : item;
}

/* *place: the source's elements in place, or the tile with a copy of them.  CR_INDEX, without
 * a message, if an index is outside; check_sources() then sets the message. */
static cr_status read_source(const job *j, int k, int64_t at, int64_t n, char *tile,
                             void **place)
{
    const cr_operand_plan *o = &j->c->operand[k];
    const cr_placed_source *from = source_of(j, k);
    const char *found =
        o->dtype == o->lane ? cr_part_place(from->part, from->data, at, n) : NULL;

    *place = found ? (void *)(uintptr_t)found : tile;
    return found || cr_stage_source(o, from, at, n, tile) ? CR_OK : CR_INDEX;
}

static void convert(const job *j, int k, const part *p, char *tile, bool out)
{
    const cr_operand_plan *o = &j->c->operand[k];
    int64_t both[2] = {cr_space_last(j->space, 1)->step[k],
                       cr_space_last(j->space, 0)->step[k]};

    cr_stage_rows(o, p->at[k], both, p->rows, o->row ? 1 : p->columns, tile, out);
}

/* Runs the kernel on the part; `tiles` is the memory for operands that are converted. */
static cr_status run_part(const job *j, const part *p, char *tiles)
{
    const cr_group_code *c = j->c;
    void *ptr[CR_GROUP_OPERANDS];
    int64_t stride[2 * CR_GROUP_OPERANDS], size[3] = {p->rows, p->columns, p->first_row};
    char *tile[CR_GROUP_OPERANDS];

    for (int k = 0; k < c->operands; k++) {
        const cr_operand_plan *o = &c->operand[k];
        set_strides(j, k, p->columns, &stride[2 * k]);
        ptr[k] = p->at[k];
        if (!o->staged)
            continue;
        ptr[k] = tile[k] = tiles;
        tiles += (p->rows * p->columns * (int64_t)cr_dtype_size((cr_dtype)o->lane) + 127) &
                 ~(int64_t)63;
        if (source_of(j, k))
            CR_TRY(read_source(j, k, p->first_row * c->over.columns + p->first_column,
                               p->rows * p->columns, tile[k], &ptr[k]));
        else if (k >= c->outputs)
            convert(j, k, p, tile[k], false);
    }
    CR_TRY(cr_fused_part(&j->call, ptr, stride, size, c->param));
    for (int k = 0; k < c->outputs; k++)
        if (c->operand[k].staged)
            convert(j, k, p, tile[k], true);
    return CR_OK;
}

static void move(const job *j, part *p, const part *from, int64_t row, int64_t column)
{
    const int64_t *down = cr_space_last(j->space, 1)->step,
                  *along = cr_space_last(j->space, 0)->step;

    for (int k = 0; k < j->c->operands; k++)
        p->at[k] = from->at[k] + row * down[k] + column * along[k];
    p->first_row = from->first_row + row;
    p->first_column = from->first_column + column;
}

/* Runs the part in pieces whose tiles fit in the cache. */
static cr_status run_staged(const job *j, const part *whole)
{
    int64_t most = tile_elements(j),
            wide = j->c->over.cuts && whole->columns > most ? most : whole->columns;
    int64_t high = wide < most ? most / wide : 1,
            tile = (high < whole->rows ? high : whole->rows) * wide * 8 + 128;
    char *memory, *tiles;
    cr_status st = CR_OK;

    CR_TRY(get_tiles(&memory, &tiles, count_staged(j), tile));
    for (int64_t r = 0; r < whole->rows; r += high)
        for (int64_t at = 0; !st && at < whole->columns; at += wide) {
            part p = {.rows = whole->rows - r < high ? whole->rows - r : high,
                      .columns = whole->columns - at < wide ? whole->columns - at : wide};
            move(j, &p, whole, r, at);
            st = run_part(j, &p, tiles);
        }
    cr_free(memory);
    return st;
}

static void run_whole(job *j, const part *p)
{
    cr_status st = j->c->over.staged ? run_staged(j, p) : run_part(j, p, NULL);

    if (st)
        atomic_store(j->status, (int)st);
}

/* --- all parts --- */

typedef struct {
    job *j;
    int64_t next; /* the number of the next row */
} rows_walk;

static void run_plane(void *context, char *const *at, const int64_t *step, int64_t n)
{
    rows_walk *w = context;
    const job *j = w->j;
    const cr_group_code *c = j->c;
    part p = {.first_row = w->next, .rows = n, .columns = c->over.columns};

    memcpy(p.at, at, (size_t)c->operands * sizeof *at);
    for (int k = 0; c->folds && k < c->outputs; k++)
        if (c->operand[k].fold)
            p.at[k] = j->ptr[k] + (w->next - j->block) * step[k];
    run_whole(w->j, &p);
    w->next += n;
}

/* Runs rows [begin, end) of the whole space, plane by plane. */
static void run_rows(void *context, int64_t begin, int64_t end)
{
    job *j = context;
    rows_walk w = {j, begin};

    cr_space_walk(j->space, j->space->ndim > 1 ? j->space->ndim - 1 : 0, j->ptr, begin, end,
                  run_plane, &w);
}

/* Runs columns [begin, end), in units of SPAN, of a space of one row. */
static void run_spans(void *context, int64_t begin, int64_t end)
{
    job *j = context;
    const cr_group_code *c = j->c;
    part p = {.first_column = begin * SPAN,
              .rows = 1,
              .columns =
                  (end * SPAN < c->over.columns ? end * SPAN : c->over.columns) - begin * SPAN};

    for (int k = 0; k < c->operands; k++)
        p.at[k] = j->ptr[k] + begin * SPAN * cr_space_last(j->space, 0)->step[k];
    run_whole(j, &p);
}

/* --- flat spaces --- */

/* Operands that repeat soon are laid out once for a range of elements. */
typedef struct {
    char *tile[CR_GROUP_OPERANDS]; /* of staged operands */
    bool repeats[CR_GROUP_OPERANDS];
    char *memory;
} flat_tiles;

static int64_t flat_item(const job *j, int k)
{
    return (int64_t)cr_dtype_size((cr_dtype)j->c->operand[k].lane);
}

static cr_placed_operand flat_operand(const job *j, int k)
{
    return (cr_placed_operand){&j->c->operand[k], j->ptr[k], j->space, k};
}

/* Lays out what all pieces read: uniform values, and operands that repeat within a tile. */
static void flat_prepare(const job *j, flat_tiles *t, int k)
{
    const cr_operand_plan *o = &j->c->operand[k];
    cr_placed_operand at = flat_operand(j, k);
    int64_t wanted = o->period + tile_elements(j), all = j->c->over.rows * j->c->over.columns;

    t->repeats[k] = o->period && o->period <= tile_elements(j);
    if (o->row)
        cr_stage_rows(o, at.base, (int64_t[2]){0, 0}, 1, 1, t->tile[k], false);
    else if (t->repeats[k])
        cr_stage_elements(j->c, &at, 0, wanted < all ? wanted : all, t->tile[k], false);
}

static cr_status flat_begin(const job *j, flat_tiles *t)
{
    int64_t bytes = 2 * tile_elements(j) * 8 + 128;
    char *at;

    CR_TRY(get_tiles(&t->memory, &at, count_staged(j), bytes));
    for (int k = 0; k < j->c->operands; k++)
        if (j->c->operand[k].staged) {
            t->tile[k] = at;
            at += bytes & ~(int64_t)63;
            flat_prepare(j, t, k);
        }
    return CR_OK;
}

/* Where the kernel finds elements [at, at + n) of operand k; NULL if an index is outside. */
static void *flat_address(const job *j, const flat_tiles *t, int k, int64_t at, int64_t n)
{
    const cr_operand_plan *o = &j->c->operand[k];
    cr_placed_operand from = flat_operand(j, k);
    void *place;

    if (source_of(j, k))
        return read_source(j, k, at, n, t->tile[k], &place) ? NULL : place;

    if (!o->staged)
        return j->ptr[k] + (o->row ? 0 : at * flat_item(j, k));
    if (t->repeats[k])
        return t->tile[k] + at % o->period * flat_item(j, k);
    if (k >= j->c->outputs && !o->row)
        cr_stage_elements(j->c, &from, at, n, t->tile[k], false);
    return t->tile[k];
}

static cr_status flat_piece(const job *j, const flat_tiles *t, int64_t at, int64_t n)
{
    const cr_group_code *c = j->c;
    void *ptr[CR_GROUP_OPERANDS];
    int64_t stride[2 * CR_GROUP_OPERANDS], size[3] = {1, n, 0};

    for (int k = 0; k < c->operands; k++) {
        ptr[k] = flat_address(j, t, k, at, n);
        if (!ptr[k])
            return CR_INDEX;
        stride[2 * k] = 0;
        stride[2 * k + 1] = c->operand[k].row ? 0 : flat_item(j, k);
    }
    CR_TRY(cr_fused_part(&j->call, ptr, stride, size, c->param));
    for (int k = 0; k < c->outputs; k++)
        if (c->operand[k].staged) {
            cr_placed_operand to = flat_operand(j, k);
            cr_stage_elements(c, &to, at, n, t->tile[k], true);
        }
    return CR_OK;
}

/* Runs elements [begin, end), in units of SPAN, of a flat space. */
static void run_flat(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    int64_t all = j->c->over.rows * j->c->over.columns,
            most = j->c->over.staged ? tile_elements(j) : SPAN;
    flat_tiles t = {.memory = NULL};
    cr_status st = flat_begin(j, &t);

    end = end * SPAN < all ? end * SPAN : all;
    for (int64_t at = begin * SPAN; !st && at < end; at += most)
        st = flat_piece(j, &t, at, end - at < most ? end - at : most);
    cr_free(t.memory);
    if (st)
        atomic_store(j->status, (int)st);
}

/* --- short rows --- */

/* The kernel reads and writes the operand in place: all its rows are adjacent. */
static bool across_fits(const job *j, int k)
{
    const cr_operand_plan *o = &j->c->operand[k];
    int64_t step = flat_item(j, k);

    for (int d = j->space->ndim - 2; d >= 0; step *= j->space->dim[d--].size)
        if (j->space->dim[d].step[k] != step)
            return false;
    return o->dtype == o->lane && !source_of(j, k);
}

/* The number of rows after which the operand repeats; 0: it does not. */
static int64_t across_period(const job *j, int k)
{
    int64_t period = 1;
    int first = 0, dims = j->space->ndim - 1;

    while (first < dims && !j->space->dim[first].step[k])
        first++;
    for (int d = first; d < dims; d++)
        period *= j->space->dim[d].size;
    return first ? period : 0;
}

/* Rows of one kernel call: a multiple of the lanes of all vectors, and of the rows after which
 * operands repeat, where a call can have so many. */
static int64_t across_high(const job *j)
{
    int64_t most = tile_elements(j) / j->c->over.columns, unit = AT_ONCE;

    most = most > AT_ONCE ? most : AT_ONCE;
    for (int k = j->c->outputs; k < j->c->operands; k++) {
        int64_t period = source_of(j, k) ? 0 : across_period(j, k);
        int64_t steps = period ? period / cr_common_divisor(unit, period) : 1;
        unit *= steps <= most / unit ? steps : 1;
    }
    return most / unit * unit;
}

/* Where the rows of an operand are. */
typedef struct {
    char *tile;     /* NULL: in place */
    int64_t pitch;  /* elements from one column of a tile to the next */
    int64_t period; /* the tile has all rows until the operand repeats; 0: those of one call */
} across_operand;

typedef struct {
    const job *j;
    int64_t high, rows; /* of one call, of all */
    across_operand operand[CR_GROUP_OPERANDS];
} across_tiles;

static int64_t across_columns(const job *j, int k)
{
    return j->c->operand[k].row ? 1 : j->c->over.columns;
}

/* An operand that repeats is laid out once, if the second cache holds it beside others. */
static across_operand across_place(const across_tiles *t, int k)
{
    const job *j = t->j;
    int64_t period = k < j->c->outputs || source_of(j, k) ? 0 : across_period(j, k);
    across_operand o = {.pitch = t->high};

    if (period && t->high % period == 0)
        o.period = t->high;
    else if (period && period <= t->rows / 2 && period <= LAID_OUT / (across_columns(j, k) * 8))
        o.period = o.pitch = period;
    return o;
}

static int64_t across_bytes(const across_tiles *t, int k)
{
    return (across_columns(t->j, k) * t->operand[k].pitch * 8 + 127) & ~(int64_t)63;
}

static int64_t across_describe(across_tiles *t)
{
    int64_t bytes = 0;

    for (int k = 0; k < t->j->c->operands; k++) {
        t->operand[k] = across_place(t, k);
        if (!across_fits(t->j, k))
            bytes += across_bytes(t, k);
    }
    return bytes;
}

static void across_prepare(across_tiles *t, char *at)
{
    const job *j = t->j;

    for (int k = 0; k < j->c->operands; k++) {
        across_operand *o = &t->operand[k];
        cr_placed_operand from = flat_operand(j, k);
        int64_t rows = o->period < j->c->over.rows ? o->period : j->c->over.rows;
        if (across_fits(j, k))
            continue;
        o->tile = at;
        at += across_bytes(t, k);
        if (o->period)
            cr_stage_across(j->c, &from, 0, rows, o->tile, o->pitch, false);
    }
}

/* The rows from `row` on that one call computes: no operand starts again among them. */
static int64_t across_rows(const across_tiles *t, int64_t row, int64_t end)
{
    int64_t n = end - row < t->high ? end - row : t->high;

    for (int k = 0; k < t->j->c->operands; k++) {
        const across_operand *o = &t->operand[k];
        int64_t left = o->tile && o->period ? o->period - row % o->period : n;
        n = left < n ? left : n;
    }
    return n;
}

static cr_status across_piece(const across_tiles *t, int64_t row, int64_t n)
{
    const job *j = t->j;
    const cr_group_code *c = j->c;
    void *ptr[CR_GROUP_OPERANDS];
    int64_t stride[2 * CR_GROUP_OPERANDS], size[3] = {n, c->over.columns, row};

    for (int k = 0; k < c->operands; k++) {
        const across_operand *o = &t->operand[k];
        cr_placed_operand from = flat_operand(j, k);
        int64_t item = flat_item(j, k), first = o->period ? row % o->period : 0;
        bool inside = true;
        if (source_of(j, k))
            inside = cr_stage_source_across(c, from.plan, source_of(j, k), row, n, o->tile,
                                            o->pitch);
        else if (o->tile && k >= c->outputs && !o->period)
            cr_stage_across(c, &from, row, n, o->tile, o->pitch, false);
        if (!inside)
            return CR_INDEX;
        ptr[k] = o->tile ? o->tile + first * item : j->ptr[k] + row * item;
        stride[2 * k] = item;
        stride[2 * k + 1] = c->operand[k].row ? 0
                            : o->tile         ? o->pitch * item
                                              : cr_space_last(j->space, 0)->step[k];
    }
    CR_TRY(cr_fused_part(&j->call, ptr, stride, size, c->param));
    for (int k = 0; k < c->outputs; k++) {
        cr_placed_operand to = flat_operand(j, k);
        if (t->operand[k].tile)
            cr_stage_across(c, &to, row, n, t->operand[k].tile, t->operand[k].pitch, true);
    }
    return CR_OK;
}

/* Runs rows [begin, end), in units of across_high(). */
static void run_across(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    across_tiles t = {.j = j, .high = across_high(j)};
    int64_t last = end * t.high < j->c->over.rows ? end * t.high : j->c->over.rows, n;
    char *memory, *tiles;
    cr_status st;

    t.rows = last - begin * t.high;
    st = get_tiles(&memory, &tiles, 1, across_describe(&t));
    if (!st)
        across_prepare(&t, tiles);
    for (int64_t row = begin * t.high; !st && row < last; row += n) {
        n = across_rows(&t, row, last);
        st = across_piece(&t, row, n);
    }
    cr_free(memory);
    if (st)
        atomic_store(j->status, (int)st);
}

/* --- columns --- */

static int64_t fold_item(const cr_operand_plan *o)
{
    return (int64_t)cr_dtype_size((cr_dtype)o->lane);
}

/* Rows to fold; `step` is the distance between them, in rows. */
typedef struct {
    char *from;
    int64_t rows, step;
} fold_part;

/* Folds the rows into the row at `to`, in eager's order. */
static void fold_rows(const job *j, const cr_operand_plan *o, cr_form form, char *to,
                      fold_part in)
{
    static const char none[CR_PARAM_BYTES * CR_MAX_ARGS];
    int64_t item = fold_item(o), columns = j->c->over.columns, size[2] = {in.rows, columns};
    int64_t stride[4] = {0, item, in.step * columns * item, item};

    o->fold->kernel[o->lane][form]((void *[2]){to, in.from}, stride, size, none);
}

/* Computes blocks of rows, and folds the columns of each while the block is in the cache. */
static void run_blocks(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const cr_group_code *c = j->c;
    job own = *j;
    int64_t bytes = c->over.columns * CR_FOLD_BLOCK * 8 + 64;
    char *memory, *at, *ptr[CR_GROUP_OPERANDS];

    if (get_tiles(&memory, &at, c->folds, bytes)) {
        atomic_store(j->status, (int)CR_MEMORY);
        return;
    }
    memcpy(ptr, j->ptr, (size_t)c->operands * sizeof *ptr);
    for (int k = 0; k < c->outputs; k++)
        if (c->operand[k].fold) {
            ptr[k] = at;
            at += bytes;
        }
    own.ptr = ptr;
    for (int64_t b = begin; b < end; b++) {
        int64_t last =
            (b + 1) * CR_FOLD_BLOCK < c->over.rows ? (b + 1) * CR_FOLD_BLOCK : c->over.rows;
        own.block = b * CR_FOLD_BLOCK;
        run_rows(&own, own.block, last);
        for (int k = 0; k < c->outputs; k++)
            if (c->operand[k].fold)
                fold_rows(j, &c->operand[k], CR_FORM_COLUMNS,
                          j->part[k] + b * c->over.columns * fold_item(&c->operand[k]),
                          (fold_part){ptr[k], last - own.block, 1});
    }
    cr_free(memory);
}

/* Folds every CR_FOLD_BLOCKS adjacent results of blocks into the result of CR_FOLD_COLUMN rows,
 * and returns the number of these. */
static int64_t pair_blocks(const job *j, const cr_operand_plan *o, char *at, int64_t blocks)
{
    int64_t row = j->c->over.columns * fold_item(o), columns = 0;

    for (; columns * CR_FOLD_BLOCKS < blocks; columns++) {
        int64_t left = blocks - columns * CR_FOLD_BLOCKS;
        char *first = at + columns * CR_FOLD_BLOCKS * row;
        for (int64_t half = CR_FOLD_BLOCKS / 2; half; half /= 2)
            for (int64_t b = 0; b < half && b + half < left; b++)
                fold_rows(j, o, CR_FORM_JOIN_COLUMNS, first + b * row,
                          (fold_part){first + b * row, 2, half});
        memmove(at + columns * row, first, (size_t)row);
    }
    return columns;
}

/* Folds results of CR_FOLD_COLUMN rows by the same rule until one is left, from one half of the
 * memory into the other in turn. */
static void end_fold(const job *j, int k, int64_t blocks)
{
    const cr_operand_plan *o = &j->c->operand[k];
    cr_dtype result = (cr_dtype)o->type->dtype;
    int64_t item = fold_item(o), row = j->c->over.columns * item;
    char *from = j->part[k], *to = from + blocks * row;

    for (int64_t n = pair_blocks(j, o, from, blocks), parts; n > 1; n = parts) {
        parts = (n + CR_FOLD_COLUMN - 1) / CR_FOLD_COLUMN;
        for (int64_t q = 0; q < parts; q++) {
            int64_t left = n - q * CR_FOLD_COLUMN;
            fold_rows(j, o, CR_FORM_JOIN_COLUMNS, to + q * row,
                      (fold_part){from + q * CR_FOLD_COLUMN * row,
                                  left < CR_FOLD_COLUMN ? left : CR_FOLD_COLUMN, 1});
        }
        char *next = from;
        from = to;
        to = next;
    }
    cr_convert_row(result, (cr_dtype)o->lane)(j->ptr[k], (int64_t)cr_dtype_size(result), from,
                                              item, j->c->over.columns);
}

static cr_status run_folds(job *j)
{
    const cr_group_code *c = j->c;
    int64_t blocks = (c->over.rows + CR_FOLD_BLOCK - 1) / CR_FOLD_BLOCK,
            unit = c->over.columns * CR_FOLD_BLOCK;
    int64_t bytes = 2 * blocks * c->over.columns * 8;
    char *memory, *at;

    CR_TRY(get_tiles(&memory, &at, c->folds, bytes));
    for (int k = 0; k < c->outputs; k++)
        if (c->operand[k].fold) {
            j->part[k] = at;
            at += bytes;
        }
    cr_parallel_for(blocks, cr_fused_is_checked(j->call.f) ? INT64_MAX : 1 + GRAIN / unit,
                    run_blocks, j);
    for (int k = 0; k < c->outputs; k++)
        if (c->operand[k].fold)
            end_fold(j, k, blocks);
    cr_free(memory);
    return CR_OK;
}

/* Runs a range from its end, `units` units at a time. */
typedef struct {
    job *j;
    cr_range_fn run;
    int64_t units;
} reversed;

static void run_backwards(void *context, int64_t begin, int64_t end)
{
    const reversed *r = context;

    for (; end > begin; end -= r->units)
        r->run(r->j, end - begin > r->units ? end - r->units : begin, end);
}

static void share_out(job *j, cr_range_fn run, int64_t units, int64_t grain)
{
    reversed r = {j, run, grain};

    if (cr_fused_is_checked(j->call.f))
        cr_parallel_for(units, INT64_MAX, run, j);
    else if (j->way->backwards)
        cr_parallel_for(units, grain, run_backwards, &r);
    else
        cr_parallel_for(units, grain, run, j);
}

static void run_all(job *j)
{
    const cr_group_code *c = j->c;
    int64_t grain = j->way->grain;

    if (c->over.across)
        share_out(j, run_across, (c->over.rows + across_high(j) - 1) / across_high(j),
                  grain > across_high(j) * c->over.columns
                      ? grain / (across_high(j) * c->over.columns)
                      : 1);
    else if (c->over.flat)
        share_out(j, run_flat, (c->over.rows * c->over.columns + SPAN - 1) / SPAN,
                  grain > SPAN ? grain / SPAN : 1);
    else if (c->over.rows == 1 && c->over.cuts)
        share_out(j, run_spans, (c->over.columns + SPAN - 1) / SPAN,
                  grain > SPAN ? grain / SPAN : 1);
    else
        share_out(j, run_rows, c->over.rows,
                  c->over.columns >= grain ? 1 : grain / c->over.columns);
}

/* The error of the first source that has an index outside, when all threads have ended. */
static cr_status check_sources(const cr_group_command *g)
{
    for (int i = 0; i < g->c->sources; i++)
        CR_TRY(cr_part_check(g->source[i].part, g->source[i].data));
    return cr_fail(CR_INDEX, "index out of range: the indices changed during the call");
}

cr_status cr_group_execute(const cr_group_command *g, const cr_way *way)
{
    _Atomic int status = 0;
    job j = {.command = g,
             .c = g->c,
             .space = g->space,
             .ptr = g->ptr,
             .way = way,
             .status = &status};

    CR_TRY(cr_fused_begin_schedule(&j.call, g->c->program->fused, way->schedule));
    if (g->c->folds)
        CR_TRY(run_folds(&j));
    else
        run_all(&j);
    return atomic_load(&status) == CR_INDEX ? check_sources(g)
                                            : (cr_status)atomic_load(&status);
}
