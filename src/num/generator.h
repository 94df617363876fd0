/* generator.h - generators of random numbers.
 *
 * A generator holds torch's CPU stream (MT19937 and the cached halves of normal pairs) and the
 * offset of a Philox stream for counter-based operators.  It has a refcount and a lock.  An
 * operator holds the lock for all its draws, so that its numbers are contiguous in the
 * stream. */
#ifndef CR_NUM_GENERATOR_H
#define CR_NUM_GENERATOR_H

#include "num/device.h"
#include "num/mt19937.h"

typedef struct cr_generator cr_generator;

enum { CR_GENERATOR_STATE_BYTES = 5056 };
/* The seed of a new default generator. */
#define CR_GENERATOR_DEFAULT_SEED 67280421310721ull

/* The caller owns *out.  Fails with CR_MEMORY. */
CR_API CR_MUST cr_status cr_generator_new(cr_generator **out, uint64_t seed);
/* Makes a generator with the same streams and offsets.  The caller owns *out.  CR_MEMORY. */
CR_API CR_MUST cr_status cr_generator_clone(cr_generator **out, cr_generator *from);
/* Takes back the draws since `clone` was made of `g`. */
void cr_generator_return(cr_generator *g, const cr_generator *clone);
CR_API cr_generator *cr_generator_hold(cr_generator *g);
CR_API void cr_generator_drop(cr_generator *g);
/* The process's default generator; borrowed, never freed. */
CR_API cr_generator *cr_generator_default(void);
/* The device whose tensors the generator fills: the host, unless cr_generator_place set another
 * one after it was made.  The state of one that `counts` is the seed and the offset of its
 * Philox stream, 16 bytes; its offset is in words of each thread, as torch's, and a multiple
 * of 4. */
cr_device cr_generator_device(const cr_generator *g);
void cr_generator_place(cr_generator *g, cr_device device, bool counts);
CR_API size_t cr_generator_state_bytes(const cr_generator *g);
/* Reserves a block of words of a generator that counts, and makes one of the host's kind that
 * is a function of it, for draws on the host.  The caller owns *out.  CR_MEMORY. */
CR_MUST cr_status cr_generator_branch(cr_generator **out, cr_generator *g);

/* The following functions take the lock. */
/* CR_RUNTIME while a capture reads the generator, unless the seed is the one it has. */
CR_API CR_MUST cr_status cr_generator_seed(cr_generator *g, uint64_t seed);
CR_API uint64_t cr_generator_initial_seed(cr_generator *g);
/* Seeds from the system's entropy; `seed` may be NULL.  CR_RUNTIME while a capture reads the
 * generator. */
CR_API CR_MUST cr_status cr_generator_reseed(cr_generator *g, uint64_t *seed);
/* Writes torch's state, byte for byte. */
CR_API void cr_generator_get_state(cr_generator *g, void *bytes);
/* Fails with CR_RUNTIME when the size or the contents are not those of a state, and while a
 * capture reads the generator. */
CR_API CR_MUST cr_status cr_generator_set_state(cr_generator *g, const void *bytes,
                                                size_t size);
/* The Philox stream's seed and next unused block.  Set the offset to replay draws. */
CR_API void cr_generator_philox(cr_generator *g, uint64_t *seed, uint64_t *offset);
/* Reserves `blocks` blocks of the Philox stream.  Returns the seed and the first block's
 * number. */
CR_API void cr_generator_reserve(cr_generator *g, uint64_t blocks, uint64_t *seed,
                                 uint64_t *offset);

/* As cr_generator_reserve, for draws of a device.  *state is NULL, or the seed and the first
 * block are in memory of the device: state[0], and state[1] is added to the block. */
void cr_generator_reserve_on(cr_generator *g, uint64_t blocks, uint64_t *seed, uint64_t *offset,
                             const uint64_t **state);
/* Until the second call, draws of a device take their seed and first block from `state`;
 * returns how many blocks they reserved. */
void cr_generator_capture(cr_generator *g, const uint64_t *state);
uint64_t cr_generator_end_capture(cr_generator *g);

void cr_generator_lock(cr_generator *g);
void cr_generator_unlock(cr_generator *g);

/* Draws.  The caller holds the lock. */
cr_mt19937 *cr_generator_words(cr_generator *g);
/* A standard normal number in double precision.  Two are computed; the second is cached. */
double cr_generator_normal(cr_generator *g);

/* The lower 24 (or 53) bits of a word as a fraction in [0, 1). */
static inline float cr_unit_float(uint32_t word)
{
    return (float)(word & 0xffffffu) * 0x1p-24f;
}
static inline double cr_unit_double(uint64_t word)
{
    return (double)(word & 0x1fffffffffffffull) * 0x1p-53;
}
/* A number in [0, 1) from the next two words.  The caller holds the lock. */
static inline double cr_generator_double(cr_generator *g)
{
    return cr_unit_double(cr_mt_next64(cr_generator_words(g)));
}

#endif
