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

    return (y >> 1) ^ (-(low & 1) & 0x9908b0dfu);
}

/* Each loop reads words at least M or N - M away from those it writes, so both loops are
 * vectorized. */
CR_WIDE static void mt_turn(uint32_t *s)
{
    enum { N = CR_MT_SIZE, M = CR_MT_SHIFT };

    for (int i = 0; i < N - M; i++)
        s[i] = s[i + M] ^ twist(s[i], s[i + 1]);
    for (int i = N - M; i < N - 1; i++)
        s[i] = s[i + M - N] ^ twist(s[i], s[i + 1]);
    s[N - 1] = s[M - 1] ^ twist(s[N - 1], s[0]);
}

void cr_mt_turn(cr_mt19937 *mt)
{
    mt_turn(mt->state);
    mt->left = CR_MT_SIZE;
    mt->next = 0;
}

CR_WIDE static void temper(uint32_t *word, const uint32_t *state, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        word[i] = cr_mt_temper(state[i]);
}

void cr_mt_fill(cr_mt19937 *mt, uint32_t *word, int64_t n)
{
    while (n > 0) {
        if (mt->left == 1) {
            cr_mt_turn(mt);
            mt->left++; /* cr_mt_turn assumes that one word is used */
        }
        int64_t some = n < mt->left - 1 ? n : mt->left - 1;
        temper(word, mt->state + mt->next, some);
        mt->next += (uint32_t)some;
        mt->left -= (int32_t)some;
        word += some;
        n -= some;
    }
}
