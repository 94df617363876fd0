/* tile.h - tier 0: runs a nest tile by tile.  Each step calls a prebuilt kernel of one loop
 * function.  Tier 0 needs no compiler, starts at once, and gives the bits of the compiled nest,
 * because both use the same vector functions and reductions. */
#ifndef CR_JIT_TILE_H
#define CR_JIT_TILE_H

#include "loop/nest.h"

typedef struct cr_tile cr_tile;

/* A plan for `n`, in the memory of its session.  Bails with CR_VALUE when a step has no
 * prebuilt kernel or the nest reduces columns. */
cr_tile *cr_tile_plan(const cr_nest *n);

/* Runs rows as a cr_kernel does; `size` is {rows, columns, first row}.  Several threads may
 * call it at once.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_tile_run(const cr_tile *t, void *const *ptr, const int64_t *stride,
                              const int64_t *size, const void *param);

#endif
