/* philox.h - Philox4x32-10, the counter-based generator of dropout and similar operators.
 *
 * Block `counter` of the stream `seed` is four words that depend on nothing else.  Every
 * thread, kernel and recomputation therefore gets the same numbers without shared state. */
#ifndef CR_NUM_PHILOX_H
#define CR_NUM_PHILOX_H

#include "base/error.h"

/* The four words of block `counter`. */
void cr_philox(uint64_t seed, uint64_t counter, uint32_t out[4]);

/* Word `i` of the stream that starts at block `offset`: word i%4 of block offset + i/4. */
uint32_t cr_philox_word(uint64_t seed, uint64_t offset, uint64_t i);

/* A word as a float in [0, 1): its upper 24 bits. */
static inline float cr_philox_float(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

#endif
