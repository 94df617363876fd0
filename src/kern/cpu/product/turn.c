/* Transposing by tiles of 16 x 16, and these by squares of four vectors. */
#include "kern/cpu/product/turn.h"
#include "base/compiler.h"
#include "base/parallel.h"
#include <string.h>

enum { SIDE = 4, TILE = 16, WIDE = 64 };

CR_VECTOR(float, quad, SIDE * sizeof(float));

static void turn_square(float *to, int64_t to_step, const float *from, int64_t from_step)
{
    quad x[SIDE], y[SIDE];

    for (int i = 0; i < SIDE; i++)
        memcpy(&x[i], from + i * from_step, sizeof x[i]);
    y[0] = CR_SHUFFLE(x[0], x[1], 0, 4, 1, 5);
    y[1] = CR_SHUFFLE(x[2], x[3], 0, 4, 1, 5);
    y[2] = CR_SHUFFLE(x[0], x[1], 2, 6, 3, 7);
    y[3] = CR_SHUFFLE(x[2], x[3], 2, 6, 3, 7);
    x[0] = CR_SHUFFLE(y[0], y[1], 0, 1, 4, 5);
    x[1] = CR_SHUFFLE(y[0], y[1], 2, 3, 6, 7);
    x[2] = CR_SHUFFLE(y[2], y[3], 0, 1, 4, 5);
    x[3] = CR_SHUFFLE(y[2], y[3], 2, 3, 6, 7);
    for (int i = 0; i < SIDE; i++)
        memcpy(to + i * to_step, &x[i], sizeof x[i]);
}

/* Turns TILE columns of `rows` numbers. */
static void turn_squares(float *to, int64_t to_step, const float *from, int64_t from_step,
                         int rows)
{
    for (int j = 0; j < TILE; j += SIDE)
        for (int p = 0; p < rows; p += SIDE)
            turn_square(to + p * to_step + j, to_step, from + j * from_step + p, from_step);
}

/* Lines of memory at distances of a power of two have few places in a cache.  So whole lines of
 * few columns are read, and whole lines of a wide result are written. */
static void turn_tile(float *to, int64_t to_step, const float *from, int64_t from_step)
{
    float tile[TILE * TILE];

    if (to_step <= WIDE) {
        turn_squares(to, to_step, from, from_step, TILE);
        return;
    }
    turn_squares(tile, TILE, from, from_step, TILE);
    for (int p = 0; p < TILE; p++)
        memcpy(to + p * to_step, tile + p * TILE, TILE * sizeof *to);
}

static void turn_part(const cr_turn *t, int64_t i, int64_t width, int64_t p)
{
    for (; p < t->rows; p++)
        for (int64_t j = i; j < i + width; j++)
            t->to[p * t->to_step + j] = t->from[j * t->from_step + p];
}

/* Columns [TILE * begin, TILE * end): a row of a tile fills a cache line of the result. */
static void turn_range(void *context, int64_t begin, int64_t end)
{
    const cr_turn *t = context;

    for (int64_t i = begin * TILE; i < end * TILE && i < t->columns; i += TILE) {
        int64_t width = t->columns - i < TILE ? t->columns - i : TILE, p = 0;
        float *to = t->to + i;
        const float *from = t->from + i * t->from_step;
        for (; width == TILE && p + TILE <= t->rows; p += TILE)
            turn_tile(to + p * t->to_step, t->to_step, from + p, t->from_step);
        for (; width == TILE && p + SIDE <= t->rows; p += SIDE)
            turn_squares(to + p * t->to_step, t->to_step, from + p, t->from_step, SIDE);
        turn_part(t, i, width, p);
    }
}

void cr_turn_run(const cr_turn *t) { turn_range((void *)t, 0, (t->columns + TILE - 1) / TILE); }

void cr_turn_shared(const cr_turn *t)
{
    cr_parallel_for((t->columns + TILE - 1) / TILE, 65536 / (TILE * t->rows) + 1, turn_range,
                    (void *)t);
}
