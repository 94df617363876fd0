/* Running a group's code.
 *
 * A space consists of planes, a plane of rows, a row of columns.  A part is a number of rows of
 * a plane, or a piece of one long row.  Operands that the kernel cannot read in place, because
 * of their dtype or because their columns are not adjacent, are converted through tiles, as in
 * eager pointwise operators. */
#include "base/parallel.h"
#include "compile/code.h"
#include "num/convert.h"
#include "tensor/geometry.h"
#include <stdatomic.h>
#include <string.h>

enum { GRAIN = 16384, SPAN = 4096, TILE = 2048 };

const cr_way cr_usual_way = {.name = "plain", .grain = GRAIN, .tile = TILE};

typedef struct {
    const cr_group_code *c;
    const cr_way *way;
    cr_fused_call call;
    char *ptr[CR_GROUP_OPERANDS];
    cr_space *space; /* the dims of the code; steps are bytes */
    cr_placed_source source[CR_GROUP_SOURCES];
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
    int number = j->c->operand[k].number;

    return k >= j->c->outputs && number < 0 ? &j->source[-1 - number] : NULL;
}

/* The number of elements of a tile.  With sources, tiles may exceed the first-level cache: long
 * lines are copied faster, and elements that are read in place need no tile. */
enum { SOURCE_TILES = 4 };
static int64_t tile_elements(const job *j)
{
    return j->way->tile * (j->c->sources ? SOURCE_TILES : 1);
}

/* --- one part --- */

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
            CR_TRY(read_source(j, k, p->first_row * c->columns + p->first_column,
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
            wide = j->c->cuts && whole->columns > most ? most : whole->columns;
    int64_t high = wide < most ? most / wide : 1,
            tile = (high < whole->rows ? high : whole->rows) * wide * 8 + 128;
    int count = 0;
    cr_status st = CR_OK;

    for (int k = 0; k < j->c->operands; k++)
        count += j->c->operand[k].staged;
    char *memory = cr_alloc((size_t)(tile * count) + 64);
    if (!memory)
        return CR_MEMORY;
    char *tiles = memory + (64 - ((uintptr_t)memory & 63));
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
    cr_status st = j->c->staged ? run_staged(j, p) : run_part(j, p, NULL);

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
    part p = {.first_row = w->next, .rows = n, .columns = c->columns};

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
              .columns = (end * SPAN < c->columns ? end * SPAN : c->columns) - begin * SPAN};

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
    int64_t wanted = o->period + tile_elements(j), all = j->c->rows * j->c->columns;

    t->repeats[k] = o->period && o->period <= tile_elements(j);
    if (o->row)
        cr_stage_rows(o, at.base, (int64_t[2]){0, 0}, 1, 1, t->tile[k], false);
    else if (t->repeats[k])
        cr_stage_elements(j->c, &at, 0, wanted < all ? wanted : all, t->tile[k], false);
}

static bool flat_begin(const job *j, flat_tiles *t)
{
    int64_t bytes = 2 * tile_elements(j) * 8 + 128;
    int count = 0;

    for (int k = 0; k < j->c->operands; k++)
        count += j->c->operand[k].staged;
    t->memory = cr_alloc((size_t)(bytes * count) + 64);
    if (!t->memory)
        return false;
    char *at = t->memory + (64 - ((uintptr_t)t->memory & 63));
    for (int k = 0; k < j->c->operands; k++)
        if (j->c->operand[k].staged) {
            t->tile[k] = at;
            at += bytes & ~(int64_t)63;
            flat_prepare(j, t, k);
        }
    return true;
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
    int64_t all = j->c->rows * j->c->columns, most = j->c->staged ? tile_elements(j) : SPAN;
    flat_tiles t = {.memory = NULL};
    cr_status st = flat_begin(j, &t) ? CR_OK : CR_MEMORY;

    end = end * SPAN < all ? end * SPAN : all;
    for (int64_t at = begin * SPAN; !st && at < end; at += most)
        st = flat_piece(j, &t, at, end - at < most ? end - at : most);
    cr_free(t.memory);
    if (st)
        atomic_store(j->status, (int)st);
}

/* --- short rows --- */

/* Rows of one kernel call, a multiple of the lanes of all vectors. */
static int64_t across_high(const job *j)
{
    int64_t high = tile_elements(j) / j->c->columns & ~(int64_t)63;

    return high > 64 ? high : 64;
}

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

typedef struct {
    const job *j;
    int64_t high;
    char *tile[CR_GROUP_OPERANDS]; /* NULL: in place */
    bool repeats[CR_GROUP_OPERANDS];
} across_tiles;

static void across_prepare(across_tiles *t, char *at)
{
    const job *j = t->j;

    for (int k = 0; k < j->c->operands; k++) {
        int64_t period = k < j->c->outputs || source_of(j, k) ? 0 : across_period(j, k);
        cr_placed_operand o = flat_operand(j, k);
        t->tile[k] = NULL;
        if (across_fits(j, k))
            continue;
        t->tile[k] = at;
        at += ((j->c->operand[k].row ? 1 : j->c->columns) * t->high * 8 + 127) & ~(int64_t)63;
        t->repeats[k] = period && t->high % period == 0;
        if (t->repeats[k])
            cr_stage_across(j->c, &o, 0, t->high, t->tile[k], t->high, false);
    }
}

static cr_status across_piece(const across_tiles *t, int64_t row, int64_t n)
{
    const job *j = t->j;
    const cr_group_code *c = j->c;
    void *ptr[CR_GROUP_OPERANDS];
    int64_t stride[2 * CR_GROUP_OPERANDS], size[3] = {n, c->columns, row};

    for (int k = 0; k < c->operands; k++) {
        cr_placed_operand o = flat_operand(j, k);
        int64_t item = flat_item(j, k);
        bool inside = true;
        if (source_of(j, k))
            inside =
                cr_stage_source_across(c, o.plan, source_of(j, k), row, n, t->tile[k], t->high);
        else if (t->tile[k] && k >= c->outputs && !t->repeats[k])
            cr_stage_across(c, &o, row, n, t->tile[k], t->high, false);
        if (!inside)
            return CR_INDEX;
        ptr[k] = t->tile[k] ? t->tile[k] : j->ptr[k] + row * item;
        stride[2 * k] = item;
        stride[2 * k + 1] = c->operand[k].row ? 0
                            : t->tile[k]      ? t->high * item
                                              : cr_space_last(j->space, 0)->step[k];
    }
    CR_TRY(cr_fused_part(&j->call, ptr, stride, size, c->param));
    for (int k = 0; k < c->outputs; k++) {
        cr_placed_operand o = flat_operand(j, k);
        if (t->tile[k])
            cr_stage_across(c, &o, row, n, t->tile[k], t->high, true);
    }
    return CR_OK;
}

/* Runs rows [begin, end), in units of across_high(). */
static void run_across(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    across_tiles t = {.j = j, .high = across_high(j)};
    int64_t last = end * t.high < j->c->rows ? end * t.high : j->c->rows;
    char *memory = cr_alloc((size_t)(j->c->operands * (j->c->columns * t.high * 8 + 128)) + 64);
    cr_status st = memory ? CR_OK : CR_MEMORY;

    if (memory)
        across_prepare(&t, memory + (64 - ((uintptr_t)memory & 63)));
    for (int64_t row = begin * t.high; !st && row < last; row += t.high)
        st = across_piece(&t, row, last - row < t.high ? last - row : t.high);
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
    int64_t item = fold_item(o), columns = j->c->columns, size[2] = {in.rows, columns};
    int64_t stride[4] = {0, item, in.step * columns * item, item};

    o->fold->kernel[o->lane][form]((void *[2]){to, in.from}, stride, size, none);
}

static char *align(char *p) { return p + (64 - ((uintptr_t)p & 63)); }

/* Computes blocks of rows, and folds the columns of each while the block is in the cache. */
static void run_blocks(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const cr_group_code *c = j->c;
    job own = *j;
    int64_t bytes = c->columns * CR_FOLD_BLOCK * 8 + 64;
    char *memory = cr_alloc((size_t)(bytes * c->folds) + 64), *at;

    if (!memory) {
        atomic_store(j->status, (int)CR_MEMORY);
        return;
    }
    at = align(memory);
    for (int k = 0; k < c->outputs; k++)
        if (c->operand[k].fold) {
            own.ptr[k] = at;
            at += bytes;
        }
    for (int64_t b = begin; b < end; b++) {
        int64_t last = (b + 1) * CR_FOLD_BLOCK < c->rows ? (b + 1) * CR_FOLD_BLOCK : c->rows;
        own.block = b * CR_FOLD_BLOCK;
        run_rows(&own, own.block, last);
        for (int k = 0; k < c->outputs; k++)
            if (c->operand[k].fold)
                fold_rows(j, &c->operand[k], CR_FORM_COLUMNS,
                          j->part[k] + b * c->columns * fold_item(&c->operand[k]),
                          (fold_part){own.ptr[k], last - own.block, 1});
    }
    cr_free(memory);
}

/* Folds every CR_FOLD_BLOCKS adjacent results of blocks into the result of CR_FOLD_COLUMN rows,
 * and returns the number of these. */
static int64_t pair_blocks(const job *j, const cr_operand_plan *o, char *at, int64_t blocks)
{
    int64_t row = j->c->columns * fold_item(o), columns = 0;

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
static void end_fold(const job *j, int k, int64_t blocks, cr_tensor *out)
{
    const cr_operand_plan *o = &j->c->operand[k];
    int64_t item = fold_item(o), row = j->c->columns * item;
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
    cr_convert_row((cr_dtype)out->dtype, (cr_dtype)o->lane)(
        out->address, (int64_t)cr_dtype_size((cr_dtype)out->dtype), from, item, j->c->columns);
}

static cr_status run_folds(job *j, cr_tensor **output)
{
    const cr_group_code *c = j->c;
    int64_t blocks = (c->rows + CR_FOLD_BLOCK - 1) / CR_FOLD_BLOCK,
            unit = c->columns * CR_FOLD_BLOCK;
    int64_t bytes = 2 * blocks * c->columns * 8;
    char *memory = cr_alloc((size_t)(bytes * c->folds) + 64), *at;

    if (!memory)
        return CR_MEMORY;
    at = align(memory);
    for (int k = 0; k < c->outputs; k++)
        if (c->operand[k].fold) {
            j->part[k] = at;
            at += bytes;
        }
    cr_parallel_for(blocks, cr_fused_is_checked(j->call.f) ? INT64_MAX : 1 + GRAIN / unit,
                    run_blocks, j);
    for (int k = 0; k < c->outputs; k++)
        if (c->operand[k].fold)
            end_fold(j, k, blocks, output[c->operand[k].number]);
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

    if (c->across)
        share_out(j, run_across, (c->rows + across_high(j) - 1) / across_high(j),
                  grain > across_high(j) * c->columns ? grain / (across_high(j) * c->columns)
                                                      : 1);
    else if (c->flat)
        share_out(j, run_flat, (c->rows * c->columns + SPAN - 1) / SPAN,
                  grain > SPAN ? grain / SPAN : 1);
    else if (c->rows == 1 && c->cuts)
        share_out(j, run_spans, (c->columns + SPAN - 1) / SPAN,
                  grain > SPAN ? grain / SPAN : 1);
    else
        share_out(j, run_rows, c->rows, c->columns >= grain ? 1 : grain / c->columns);
}

/* --- operands --- */

cr_status cr_refuse_tensor(const cr_gvalue *v, const cr_tensor *t, const char *owner)
{
    cr_text sizes = {0};

    cr_print_sizes(&sizes, t->ndim, t->size);
    cr_fail(CR_RUNTIME, "%%%s is not what %s was made for: a tensor of %s and dtype %s",
            v->name, owner, cr_text_str(&sizes), cr_dtype_name((cr_dtype)t->dtype));
    cr_text_drop(&sizes);
    return CR_RUNTIME;
}

bool cr_tensor_has_strides(const cr_tensor *t, const int64_t *stride)
{
    for (int d = 0; d < t->ndim; d++)
        if (t->size[d] > 1 && t->stride[d] != stride[d])
            return false;
    return true;
}

/* True if the elements of `t` can be copied to the strides of `type`: no two positions of
 * `type` share an element. */
static bool may_lie_otherwise(const cr_tensor *t, const cr_gtype *type)
{
    return cr_tensor_has_sizes(t, type) &&
           (!type->stride || cr_is_dense_view(type->ndim, type->size, type->stride));
}

/* *otherwise: some tensors have other strides than the types.  That happens because strides of
 * dims of one element, which types leave out, can determine the strides of results of calls. */
static cr_status check_read(const cr_group_code *c, cr_tensor *const *read, int i,
                            const cr_gtype *type, bool *otherwise)
{
    bool so = cr_tensor_is_of(read[i], type);

    if (!so && !may_lie_otherwise(read[i], type))
        return cr_refuse_tensor(c->code.read[i], read[i], "its group");
    *otherwise = *otherwise || !so;
    if (read[i]->requires_grad && !cr_thread.no_grad)
        return cr_fail(CR_RUNTIME,
                       "a compiled group records no gradient, and %%%s requires one",
                       c->code.read[i]->name);
    return CR_OK;
}

static cr_status check_reads(const cr_group_code *c, cr_tensor *const *read, bool *otherwise)
{
    *otherwise = false;
    for (int k = c->outputs; k < c->operands; k++)
        if (c->operand[k].number >= 0)
            CR_TRY(check_read(c, read, c->operand[k].number, c->operand[k].type, otherwise));
    for (int s = 0; s < c->sources; s++)
        for (int k = 0; k < c->source[s].tensors; k++)
            CR_TRY(check_read(c, read, c->source[s].read[k], c->source[s].type[k], otherwise));
    return CR_OK;
}

static cr_status make_outputs(const cr_group_code *c, cr_tensor **output)
{
    for (int k = 0; k < c->outputs; k++) {
        const cr_gtype *t = c->operand[k].type;
        cr_tensor **out = &output[c->operand[k].number];
        if (!*out && t->stride)
            CR_TRY(cr_tensor_new_strided(out, (cr_dtype)t->dtype, t->device, t->ndim, t->size,
                                         t->stride));
        else if (!*out)
            CR_TRY(cr_tensor_new(out, (cr_dtype)t->dtype, t->device, t->ndim, t->size));
    }
    return CR_OK;
}

/* Copies the operand's elements to a new tensor in the order of the space. */
static cr_status copy_operand(cr_tensor **out, const cr_group_code *c, const cr_operand_plan *o,
                              cr_tensor *t)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)t->dtype);
    cr_view from = {(char *)t->address + o->offset * item,
                    c->space.size,
                    o->spread,
                    (uint8_t)c->space.ndim,
                    t->dtype,
                    t->device,
                    false},
            to;
    cr_status st;

    CR_TRY(cr_tensor_new(out, (cr_dtype)t->dtype, CR_HOST, c->space.ndim, c->space.size));
    to = cr_view_of(*out);
    st = cr_copy_elements(&to, &from);
    if (st)
        cr_drop(*out);
    return st;
}

static void set_operand(job *j, int k, const cr_tensor *t, bool copied)
{
    const cr_operand_plan *o = &j->c->operand[k];
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)o->dtype), dense = 1;

    j->ptr[k] = (char *)t->address + (copied ? 0 : o->offset * item);
    for (int d = j->space->ndim - 1; d >= 0; d--) {
        j->space->dim[d].step[k] = (copied ? dense : o->step[d]) * item;
        dense *= j->space->dim[d].size;
    }
}

/* The dims of the code, with steps 0. */
static void start_space(cr_space *s, const cr_group_code *c)
{
    cr_space_start(s, c->operands);
    for (int d = 0; d < c->ndim; d++)
        memset(cr_space_add(s, c->size[d], d), 0, (size_t)c->operands * sizeof(int64_t));
}

static void place_sources(job *j, cr_tensor *const *read)
{
    for (int i = 0; i < j->c->sources; i++) {
        const cr_source_plan *x = &j->c->source[i];
        j->source[i].part = x->part;
        for (int k = 0; k < x->tensors; k++)
            j->source[i].data[k] = read[x->read[k]]->address;
    }
}

/* The error of the first source that has an index outside, when all threads have ended. */
static cr_status check_sources(const job *j)
{
    for (int i = 0; i < j->c->sources; i++)
        CR_TRY(cr_part_check(j->source[i].part, j->source[i].data));
    return CR_OK;
}

static cr_status run_over(job *j, cr_tensor *const *read, cr_tensor **output)
{
    const cr_group_code *c = j->c;
    cr_tensor *copy[CR_GROUP_OPERANDS];
    int copies = 0;
    cr_status st = CR_OK;

    start_space(j->space, c);
    for (int k = 0; !st && k < c->operands; k++) {
        const cr_operand_plan *o = &c->operand[k];
        if (source_of(j, k))
            continue;
        cr_tensor *t = k < c->outputs ? output[o->number] : read[o->number];
        if (o->copied)
            st = copy_operand(&t, c, o, t);
        if (!st && o->copied)
            copy[copies++] = t;
        if (!st)
            set_operand(j, k, t, o->copied);
    }
    place_sources(j, read);
    if (!st)
        st = cr_fused_begin_schedule(&j->call, c->program->fused, j->way->schedule);
    if (!st && c->folds)
        st = run_folds(j, output);
    else if (!st)
        run_all(j);
    while (copies)
        cr_drop(copy[--copies]);
    st = st ? st : (cr_status)atomic_load(j->status);
    if (st == CR_INDEX) {
        CR_TRY(check_sources(j));
        return cr_fail(CR_INDEX, "index out of range: the indices changed during the call");
    }
    return st;
}

/* --- without tiles and native code --- */

/* Copies `t` to a tensor with these strides; NULL: row-major. */
static cr_status laid_out(cr_tensor **out, const cr_tensor *t, const int64_t *stride)
{
    cr_tensor *made = NULL;
    cr_view to, from = cr_view_of(t);

    if (stride)
        CR_TRY(cr_tensor_new_strided(&made, (cr_dtype)t->dtype, t->device, t->ndim, t->size,
                                     stride));
    else
        CR_TRY(cr_tensor_new(&made, (cr_dtype)t->dtype, t->device, t->ndim, t->size));
    to = cr_view_of(made);
    cr_status st = cr_copy_elements(&to, &from);
    if (st)
        cr_drop(made);
    else
        *out = made;
    return st;
}

/* Copies *result if anything else shares its storage, or if it does not have the strides of
 * `type`: results of code are new. */
static cr_status own_result(cr_tensor **result, const cr_gtype *type)
{
    cr_tensor *t = *result;

    if (cr_tensor_lies_so(t, type) &&
        atomic_load_explicit(&t->count, memory_order_acquire) == 1 &&
        atomic_load_explicit(&t->storage->count, memory_order_acquire) == 1)
        return CR_OK;
    CR_TRY(laid_out(result, t, type->stride));
    cr_drop(t);
    return CR_OK;
}

/* Calls the nodes one at a time.  A tensor given for the result is also an argument, so that it
 * is dropped afterwards. */
static cr_status run_nodes(const cr_group_code *c, cr_tensor *const *read, cr_tensor **output)
{
    cr_tensor *over = output[0];
    cr_status st;

    output[0] = NULL;
    st = cr_program_run(c->nodes, read, NULL, output);
    for (int k = 0; !st && k < c->outputs; k++)
        st = own_result(&output[c->operand[k].number], c->operand[k].type);
    cr_drop(over);
    return st;
}

static cr_status run_code(const cr_group_code *c, const cr_way *way, cr_tensor *const *read,
                          cr_tensor **output)
{
    _Atomic int status = 0;
    cr_space space;
    job j = {.c = c, .way = way, .status = &status, .space = &space};

    CR_TRY(make_outputs(c, output));
    return c->empty ? CR_OK : run_over(&j, read, output);
}

/* True if the group has tiles or native code; native code stays once it is compiled. */
static bool has_code(const cr_group_code *c)
{
    return !c->nodes || c->empty || cr_fused_has_tiles(c->program->fused) ||
           cr_jit_function(cr_fused_kernel(c->program->fused));
}

cr_status cr_group_run_way(const cr_group_code *c, const cr_way *way, cr_tensor *const *read,
                           cr_tensor **output)
{
    return way->calls || !has_code(c) ? run_nodes(c, read, output)
                                      : run_code(c, way, read, output);
}

/* Calls the nodes if the device cannot compile the kernel. */
static cr_status run_remote(const cr_group_code *c, cr_tensor *const *read, cr_tensor **output)
{
    bool refused = false;
    cr_status st = make_outputs(c, output);

    if (!st && !c->empty)
        st = cr_group_run_remote(c, read, output, &refused);
    if (!refused || !c->nodes)
        return st;
    for (int k = 0; k < c->outputs; k++) {
        int i = c->operand[k].number;
        if (i > 0) {
            cr_drop(output[i]);
            output[i] = NULL;
        }
    }
    return run_nodes(c, read, output);
}

static cr_status run(const cr_group_code *c, cr_tensor *const *read, cr_tensor **output)
{
    if (CR_UNLIKELY(!cr_is_host(c->operand[0].type->device)))
        return run_remote(c, read, output);
    return CR_UNLIKELY(c->tuner != NULL) ? cr_tuner_run(c->tuner, read, output)
                                         : cr_group_run_way(c, &cr_usual_way, read, output);
}

static cr_status lay_read(cr_tensor **made, cr_tensor *const *read, int i, const cr_gtype *type)
{
    return made[i] || cr_tensor_lies_so(read[i], type)
               ? CR_OK
               : laid_out(&made[i], read[i], type->stride);
}

static cr_status run_laid_out(const cr_group_code *c, cr_tensor *const *read,
                              cr_tensor **output)
{
    size_t n = (size_t)c->code.read_count;
    cr_tensor **all = cr_alloc_zero((2 * n + 1) * sizeof *all), **made;
    cr_tensor *over = output[0]; /* may be an argument that the result may overwrite */
    cr_status st = CR_OK;

    if (!all)
        return CR_MEMORY;
    made = all + n;
    output[0] = NULL;
    for (int k = c->outputs; !st && k < c->operands; k++)
        if (c->operand[k].number >= 0)
            st = lay_read(made, read, c->operand[k].number, c->operand[k].type);
    for (int s = 0; s < c->sources; s++)
        for (int k = 0; !st && k < c->source[s].tensors; k++)
            st = lay_read(made, read, c->source[s].read[k], c->source[s].type[k]);
    for (size_t i = 0; !st && i < n; i++)
        all[i] = made[i] ? made[i] : read[i];
    if (!st)
        st = run(c, all, output);
    cr_drop(over);
    for (size_t i = 0; i < n; i++)
        cr_drop(made[i]);
    cr_free(all);
    return st;
}

cr_status cr_group_run(const cr_gcode *code, cr_tensor *const *read, cr_tensor **output)
{
    const cr_group_code *c = (const cr_group_code *)code;
    bool otherwise;
    cr_status st = check_reads(c, read, &otherwise);

    if (!st)
        st = CR_UNLIKELY(otherwise) ? run_laid_out(c, read, output) : run(c, read, output);
    for (int k = 0; st && k < c->results; k++) {
        cr_drop(output[k]);
        output[k] = NULL;
    }
    return st;
}
