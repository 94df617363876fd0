/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3").
 *
 * The key is the seed.  The low half of the counter is the block's number; the high half is
 * zero. */
#include "num/philox.h"

enum { ROUNDS = 10 };
static const uint32_t MULTIPLY_0 = 0xD2511F53, MULTIPLY_1 = 0xCD9E8D57;
static const uint32_t WEYL_0 = 0x9E3779B9, WEYL_1 = 0xBB67AE85;

static void philox_turn(uint32_t c[4], uint32_t key0, uint32_t key1)
{
    uint64_t a = (uint64_t)MULTIPLY_0 * c[0], b = (uint64_t)MULTIPLY_1 * c[2];
    uint32_t c1 = c[1], c3 = c[3];

    c[0] = (uint32_t)(b >> 32) ^ c1 ^ key0;
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c3 ^ key1;
    c[3] = (uint32_t)a;
}

void cr_philox(uint64_t seed, uint64_t counter, uint32_t out[4])
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);

    out[0] = (uint32_t)counter;
    out[1] = (uint32_t)(counter >> 32);
    out[2] = out[3] = 0;
    for (int i = 0; i < ROUNDS; i++) {
        philox_turn(out, key0, key1);
        key0 += WEYL_0;
        key1 += WEYL_1;
    }
}

uint32_t cr_philox_word(uint64_t seed, uint64_t offset, uint64_t i)
{
    uint32_t block[4];

    cr_philox(seed, offset + i / 4, block);
    return block[i % 4];
}
