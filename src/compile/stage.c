/* Copies of operands that a kernel cannot read in place.
 *
 * A tile has the kernel's dtype and dense columns.  Short rows are converted column by column,
 * so that a call of a converter has many elements. */
#include "compile/code.h"
#include "num/convert.h"
#include <string.h>

enum { SHORT_ROW = 16 };

typedef struct {
    cr_convert_fn fn;
    int64_t item; /* bytes of an element of both; 0: the dtypes differ */
    bool out;
} stage_way;

static stage_way stage_for(const cr_operand_plan *o, bool out)
{
    cr_dtype to = (cr_dtype)(out ? o->dtype : o->lane),
             from = (cr_dtype)(out ? o->lane : o->dtype);

    return (stage_way){cr_convert_row(to, from), to == from ? (int64_t)cr_dtype_size(to) : 0,
                       out};
}

/* One element of 4 bytes, repeated: many short runs would each call a converter. */
static void stage_repeat(char *here, const char *there, int64_t n)
{
    uint32_t block[8];
    int64_t i = 0;

    for (size_t k = 0; k < CR_LEN(block); k++)
        memcpy(&block[k], there, sizeof *block);
    for (; i + (int64_t)CR_LEN(block) <= n; i += (int64_t)CR_LEN(block))
        memcpy(here + 4 * i, block, sizeof block);
    for (; i < n; i++)
        memcpy(here + 4 * i, block, sizeof *block);
}

/* Converts `n` elements between the operand, at `there`, and a tile; steps are in bytes. */
static inline void stage_line(stage_way w, char *there, int64_t along, char *here,
                              int64_t along_in, int64_t n)
{
    if (w.out)
        w.fn(there, along, here, along_in, n);
    else if (!along && w.item == 4 && along_in == 4)
        stage_repeat(here, there, n);
    else
        w.fn(here, along_in, there, along, n);
}

void cr_stage_rows(const cr_operand_plan *o, char *base, const int64_t *step, int64_t rows,
                   int64_t columns, char *tile, bool out)
{
    stage_way w = stage_for(o, out);
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)o->lane), down = columns * item;
    bool across = columns < SHORT_ROW && rows > columns;
    int64_t count = across ? columns : rows, n = across ? rows : columns;
    int64_t next = across ? step[1] : step[0], next_in = across ? item : down;
    int64_t along = across ? step[0] : step[1], along_in = across ? down : item;

    for (int64_t i = 0; i < count; i++)
        stage_line(w, base + i * next, along, tile + i * next_in, along_in, n);
}

/* The address of the element at the start of row `row` of the space. */
static char *stage_row(const cr_placed_operand *o, int64_t row)
{
    return o->base + cr_space_offset(o->space, o->space->ndim - 1, o->operand, row);
}

/* The first piece of elements [at, at + n): a part of a row, or rows of one plane. */
static int64_t stage_piece(const cr_group_code *c, const cr_placed_operand *o, int64_t at,
                           int64_t n, char *tile, bool out)
{
    const cr_space_dim *rows = cr_space_last(o->space, 1);
    int64_t step[2] = {rows->step[o->operand], cr_space_last(o->space, 0)->step[o->operand]};
    int64_t wide = c->over.columns, row = at / wide, column = at % wide, high = 1,
            left = wide - column;
    char *first = stage_row(o, row) + column * step[1];

    if (!column && n >= wide) {
        high = rows->size - row % rows->size;
        high = n / wide < high ? n / wide : high;
    } else {
        wide = n < left ? n : left;
    }
    cr_stage_rows(o->plan, first, step, high, wide, tile, out);
    return high * wide;
}

void cr_stage_elements(const cr_group_code *c, const cr_placed_operand *o, int64_t at,
                       int64_t n, char *tile, bool out)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)o->plan->lane);

    for (int64_t done = 0; done < n;)
        done += stage_piece(c, o, at + done, n - done, tile + done * item, out);
}

/* Whole planes of few rows from `first` on: the same row of all planes is one line, so that a
 * call of a converter has many elements. */
static void stage_planes(stage_way w, const cr_placed_operand *o, char *first, int64_t along,
                         int64_t planes, char *to, int64_t item)
{
    const cr_space_dim *rows = cr_space_last(o->space, 1);
    int64_t down = rows->step[o->operand], over = cr_space_last(o->space, 2)->step[o->operand];

    if (!w.out && !down && w.item == item &&
        cr_repeat_items(to, first + along, item, over, rows->size, planes))
        return;
    for (int64_t r = 0; r < rows->size; r++)
        stage_line(w, first + r * down + along, over, to + r * item, rows->size * item, planes);
}

/* The planes that begin at row `row` and are among the next n rows, where planes have few rows;
 * else 0. */
static int64_t whole_planes(const cr_placed_operand *o, int64_t row, int64_t n)
{
    int64_t high = cr_space_last(o->space, 1)->size, size, left;

    if (o->space->ndim < 3 || high >= SHORT_ROW || row % high || n < 2 * high)
        return 0;
    size = cr_space_last(o->space, 2)->size;
    left = size - row / high % size;
    return n / high < left ? n / high : left;
}

void cr_stage_across(const cr_group_code *c, const cr_placed_operand *o, int64_t row, int64_t n,
                     char *tile, int64_t pitch, bool out)
{
    const cr_space_dim *rows = cr_space_last(o->space, 1);
    int64_t down = rows->step[o->operand], along = cr_space_last(o->space, 0)->step[o->operand];
    int64_t high = rows->size, columns = o->plan->row ? 1 : c->over.columns;
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)o->plan->lane), piece;
    stage_way w = stage_for(o->plan, out);

    for (int64_t done = 0; done < n; done += piece) {
        char *first = stage_row(o, row + done);
        int64_t planes = whole_planes(o, row + done, n - done);
        piece = planes ? planes * high : high - (row + done) % high;
        piece = n - done < piece ? n - done : piece;
        if (!planes && out && w.item == 8 && along == 8 && down == 8 * columns &&
            cr_weave_8(first, tile + done * 8, pitch, columns, piece))
            continue;
        for (int64_t k = 0; k < columns; k++) {
            char *to = tile + (k * pitch + done) * item;
            if (planes)
                stage_planes(w, o, first, k * along, planes, to, item);
            else
                stage_line(w, first + k * along, down, to, item, piece);
        }
    }
}

/* --- sources --- */

/* The number of elements that are read at a time and then converted. */
enum { SOURCE_PIECE = 512 };

bool cr_stage_source(const cr_operand_plan *o, const cr_placed_source *from, int64_t at,
                     int64_t n, char *tile)
{
    _Alignas(64) char own[SOURCE_PIECE * 8];
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)o->dtype),
            to = (int64_t)cr_dtype_size((cr_dtype)o->lane);
    stage_way w = stage_for(o, false);

    if (o->dtype == o->lane)
        return cr_part_read(from->part, from->data, at, n, tile);
    for (int64_t i = 0; i < n; i += SOURCE_PIECE) {
        int64_t piece = n - i < SOURCE_PIECE ? n - i : SOURCE_PIECE;
        if (!cr_part_read(from->part, from->data, at + i, piece, own))
            return false;
        w.fn(tile + i * to, to, own, item, piece);
    }
    return true;
}

bool cr_stage_source_across(const cr_group_code *c, const cr_operand_plan *o,
                            const cr_placed_source *from, int64_t row, int64_t n, char *tile,
                            int64_t pitch)
{
    _Alignas(64) char own[SOURCE_PIECE * 8];
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)o->dtype),
            to = (int64_t)cr_dtype_size((cr_dtype)o->lane);
    int64_t high = SOURCE_PIECE / c->over.columns, piece;
    stage_way w = stage_for(o, false);

    for (int64_t i = 0; i < n; i += piece) {
        piece = n - i < high ? n - i : high;
        if (!cr_part_read(from->part, from->data, (row + i) * c->over.columns,
                          piece * c->over.columns, own))
            return false;
        for (int64_t k = 0; k < c->over.columns; k++)
            w.fn(tile + (k * pitch + i) * to, to, own + k * item, c->over.columns * item,
                 piece);
    }
    return true;
}
