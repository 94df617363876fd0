/* Transposing matrices. */
#include "kern/cpu/product/turn.h"
#include "base/compiler.h"
#include "base/parallel.h"
#include <string.h>

enum { SIDE = 4, TILE = 16, WIDE = 64 };

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/product/turn.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/product/turn.inc"

static cr_range_fn range_of(const cr_turn *t)
{
    return t->item == sizeof(float) ? f32_turn_range : f64_turn_range;
}

void cr_turn_run(const cr_turn *t)
{
    range_of(t)((void *)t, 0, (t->columns + TILE - 1) / TILE);
}

void cr_turn_shared(const cr_turn *t)
{
    cr_parallel_for((t->columns + TILE - 1) / TILE, 65536 / (TILE * t->rows) + 1, range_of(t),
                    (void *)t);
}
