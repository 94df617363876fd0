/* draw.cuh - random numbers of one element on an NVIDIA GPU: the stream of Philox4x32-10 that
 * has the element's number in the upper half of its counter. */
#ifndef CR_EMIT_DRAW_CUH
#define CR_EMIT_DRAW_CUH

struct cr_draw {
    uint64_t seed, block, element;
    int left; /* words of the block that were not drawn */
    uint32_t word[4];
};

static void cl_next_block(cr_draw *g)
{
    uint32_t a = (uint32_t)g->block, b = (uint32_t)(g->block >> 32), c = (uint32_t)g->element,
             d = (uint32_t)(g->element >> 32), key = (uint32_t)g->seed,
             lock = (uint32_t)(g->seed >> 32);

    for (int i = 0; i < 10; i++) {
        const uint64_t p = (uint64_t)0xD2511F53u * a, q = (uint64_t)0xCD9E8D57u * c;
        a = (uint32_t)(q >> 32) ^ b ^ key;
        b = (uint32_t)q;
        c = (uint32_t)(p >> 32) ^ d ^ lock;
        d = (uint32_t)p;
        key += 0x9E3779B9u;
        lock += 0xBB67AE85u;
    }
    g->word[0] = a, g->word[1] = b, g->word[2] = c, g->word[3] = d;
    g->left = 4;
    g->block++;
}

static uint32_t cl_next_word(cr_draw *g)
{
    if (!g->left)
        cl_next_block(g);
    return g->word[--g->left];
}

/* 53 bits, of [0, 1). */
static double cr_draw_double(cr_draw *g)
{
    const uint64_t high = cl_next_word(g) >> 5, low = cl_next_word(g) >> 6;

    return (double)(high << 26 | low) * 0x1p-53;
}

static double cr_draw_normal(cr_draw *g)
{
    const double u = 1 - cr_draw_double(g), v = cr_draw_double(g);

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

#endif
