/* MT19937 (Matsumoto and Nishimura, "Mersenne Twister", 1998). */
#include "num/mt19937.h"

void cr_mt_seed(cr_mt19937 *mt, uint32_t seed)
{
    mt->state[0] = seed;
    for (uint32_t i = 1; i < CR_MT_SIZE; i++) {
        uint32_t last = mt->state[i - 1];
        mt->state[i] = 1812433253u * (last ^ (last >> 30)) + i;
    }
    mt->left = 1;
    mt->next = 0;
}

static uint32_t twist(uint32_t high, uint32_t low)
{
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);

    return (y >> 1) ^ (low & 1 ? 0x9908b0dfu : 0);
}

void cr_mt_turn(cr_mt19937 *mt)
{
    enum { N = CR_MT_SIZE, M = CR_MT_SHIFT };
    uint32_t *s = mt->state;

    for (int i = 0; i < N - M; i++)
        s[i] = s[i + M] ^ twist(s[i], s[i + 1]);
    for (int i = N - M; i < N - 1; i++)
        s[i] = s[i + M - N] ^ twist(s[i], s[i + 1]);
    s[N - 1] = s[M - 1] ^ twist(s[N - 1], s[0]);
    mt->left = N;
    mt->next = 0;
}
