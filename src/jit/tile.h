/* tile.h - tier 0: a nest run tile by tile, each step a call of a prebuilt kernel of one
 * loop function.  It needs no compiler, starts at once, and gives the bits that the
 * compiled nest gives, since both are made of the same vector functions and reductions. */
#ifndef CR_JIT_TILE_H
#define CR_JIT_TILE_H

#include "loop/nest.h"

typedef struct cr_tile cr_tile;

/* A plan for `n`, in the memory of its session.  Bails with CR_VALUE when a step has no
 * prebuilt kernel or the nest reduces columns. */
cr_tile *cr_tile_plan(const cr_nest *n);

/* Runs rows as a cr_kernel would; size is {rows, columns, first row}.  May be called from
 * several threads at once.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_tile_run(const cr_tile *t, void *const *ptr, const int64_t *stride,
                              const int64_t *size, const void *param);

#endif
