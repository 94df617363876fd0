/* mt19937.h - the 32-bit Mersenne Twister: the stream of the default CPU generator. */
#ifndef CR_NUM_MT19937_H
#define CR_NUM_MT19937_H

#include "base/error.h"

enum { CR_MT_SIZE = 624, CR_MT_SHIFT = 397 };

/* `next` words of `state` have been used.  After left - 1 more words the state is turned. */
typedef struct {
    uint32_t state[CR_MT_SIZE];
    uint32_t next;
    int32_t left;
} cr_mt19937;

void cr_mt_seed(cr_mt19937 *mt, uint32_t seed);
/* Computes the next CR_MT_SIZE words of the state. */
void cr_mt_turn(cr_mt19937 *mt);

/* Writes the next `n` words; much faster than `n` calls of cr_mt_next. */
void cr_mt_fill(cr_mt19937 *mt, uint32_t *word, int64_t n);

static inline uint32_t cr_mt_temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

static inline uint32_t cr_mt_next(cr_mt19937 *mt)
{
    if (CR_UNLIKELY(--mt->left == 0))
        cr_mt_turn(mt);
    return cr_mt_temper(mt->state[mt->next++]);
}

/* 64 bits from two words; the first word is the upper half. */
static inline uint64_t cr_mt_next64(cr_mt19937 *mt)
{
    uint64_t high = cr_mt_next(mt);

    return high << 32 | cr_mt_next(mt);
}

#endif
