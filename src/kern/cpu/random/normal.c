/* Normal numbers in blocks (Box and Muller).
 *
 * 16 uniform numbers become 16 normal numbers: number i of the first half with number i of the
 * second half.  For a remainder the last 16 numbers of the tensor are drawn again.
 *
 * Seeded programs expect torch's bits, so float logarithms, sines and cosines are the Cephes
 * polynomials (S. Moshier) that torch's vector code uses, with a fused multiply-add wherever
 * its compiler makes one.  Doubles use the C library, as torch does. */
#include "kern/cpu/random/normal.h"
#include "base/parallel.h"
#include "kern/cpu/element.h"
#include "kern/cpu/walk.h"
#include "num/float_bits.h"

enum {
    BLOCK = 16,
    HALF = BLOCK / 2,
    AHEAD = 64, /* blocks whose halves are separated, so that the loops have vectors */
};

typedef struct {
    char *data;
    double mean, std;
} normal_blocks;

/* x is a normal positive number: m * 2^e with m in [sqrt(1/2), sqrt(2)). */
CR_ALWAYS_INLINE float block_log(float x)
{
    uint32_t bits = cr_bits_of_float(x);
    float m = cr_float_of_bits((bits & 0x807fffffu) | 0x3f000000u);
    float e = (float)((int32_t)(bits >> 23) - 126);
    uint32_t low = 0u - (uint32_t)(m < 0.707106781186547524f); /* all bits, or none */
    float r = (m - 1) + cr_float_of_bits(cr_bits_of_float(m) & low), z = r * r,
          p = 7.0376836292e-2f;

    e -= cr_float_of_bits(cr_bits_of_float(1) & low);
    p = fmaf(p, r, -1.1514610310e-1f);
    p = fmaf(p, r, 1.1676998740e-1f);
    p = fmaf(p, r, -1.2420140846e-1f);
    p = fmaf(p, r, 1.4249322787e-1f);
    p = fmaf(p, r, -1.6668057665e-1f);
    p = fmaf(p, r, 2.0000714765e-1f);
    p = fmaf(p, r, -2.4999993993e-1f);
    p = fmaf(p, r, 3.3333331174e-1f) * r;
    p = fmaf(p, z, e * -2.12194440e-4f);
    p = fmaf(z, -0.5f, p);
    return fmaf(e, 0.693359375f, r + p);
}

/* x is in [0, 2 pi): its distance from the nearest multiple of pi/2 has both polynomials, and
 * the multiple selects between them and sets the signs. */
CR_ALWAYS_INLINE void block_sincos(float x, float *sine, float *cosine)
{
    uint32_t octant = ((uint32_t)(int32_t)(x * 1.27323954473516f) + 1) & ~1u;
    float k = (float)(int32_t)octant, c = 2.443315711809948e-5f, s = -1.9515295891e-4f, z;
    uint32_t swapped = 0u - (octant >> 1 & 1), differing;

    x = fmaf(k, -0.78515625f, x);
    x = fmaf(k, -2.4187564849853515625e-4f, x);
    x = fmaf(k, -3.77489497744594108e-8f, x);
    z = x * x;
    c = fmaf(c, z, -1.388731625493765e-3f);
    c = fmaf(c, z, 4.166664568298827e-2f) * z;
    c = fmaf(c, z, z * -0.5f) + 1;
    s = fmaf(s, z, 8.3321608736e-3f);
    s = fmaf(s, z, -1.6666654611e-1f) * z;
    s = fmaf(s, x, x);
    differing = (cr_bits_of_float(c) ^ cr_bits_of_float(s)) & swapped;
    *sine = cr_float_of_bits(cr_bits_of_float(s) ^ differing ^ (octant & 4) << 29);
    *cosine = cr_float_of_bits(cr_bits_of_float(c) ^ differing ^ (~(octant - 2) & 4) << 29);
}

CR_WIDE_FMA static void pairs_f32(float *u, float *v, int64_t n, float mean, float std)
{
    CR_SIMD
    for (int64_t i = 0; i < n; i++) {
        float radius = sqrtf(-2 * block_log(1 - u[i])), sine, cosine;
        block_sincos(6.283185307179586f * v[i], &sine, &cosine);
        u[i] = fmaf(radius * cosine, std, mean);
        v[i] = fmaf(radius * sine, std, mean);
    }
}

CR_WIDE_FMA static void pairs_f64(double *u, double *v, int64_t n, double mean, double std)
{
    for (int64_t i = 0; i < n; i++) {
        double radius = sqrt(-2 * log(1 - u[i])), angle = 6.283185307179586 * v[i];
        u[i] = fma(radius * cos(angle), std, mean);
        v[i] = fma(radius * sin(angle), std, mean);
    }
}

/* Replaces the uniform numbers of blocks [begin, end). */
#define BLOCKS(suffix, type)                                                                   \
    static void some_blocks_##suffix(const normal_blocks *b, type *x, int64_t n)               \
    {                                                                                          \
        type u[AHEAD * HALF], v[AHEAD * HALF];                                                 \
        for (int64_t i = 0; i < n; i++) {                                                      \
            memcpy(u + i * HALF, x + i * BLOCK, HALF * sizeof(type));                          \
            memcpy(v + i * HALF, x + i * BLOCK + HALF, HALF * sizeof(type));                   \
        }                                                                                      \
        pairs_##suffix(u, v, n *HALF, (type)b->mean, (type)b->std);                            \
        for (int64_t i = 0; i < n; i++) {                                                      \
            memcpy(x + i * BLOCK, u + i * HALF, HALF * sizeof(type));                          \
            memcpy(x + i * BLOCK + HALF, v + i * HALF, HALF * sizeof(type));                   \
        }                                                                                      \
    }                                                                                          \
    static void blocks_##suffix(void *context, int64_t begin, int64_t end)                     \
    {                                                                                          \
        const normal_blocks *b = context;                                                      \
        type *x = (type *)(void *)b->data;                                                     \
        for (int64_t i = begin; i < end; i += AHEAD)                                           \
            some_blocks_##suffix(b, x + i * BLOCK, end - i < AHEAD ? end - i : AHEAD);         \
    }
BLOCKS(f32, float)
BLOCKS(f64, double)

enum { AT_ONCE = 512 };

static void draw_floats(cr_mt19937 *mt, float *x, int64_t n)
{
    uint32_t word[AT_ONCE];

    for (int64_t i = 0; i < n; i += AT_ONCE) {
        int64_t some = n - i < AT_ONCE ? n - i : AT_ONCE;
        cr_mt_fill(mt, word, some);
        for (int64_t k = 0; k < some; k++)
            x[i + k] = cr_unit_float(word[k]);
    }
}

static void draw_doubles(cr_mt19937 *mt, double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = cr_unit_double(cr_mt_next64(mt));
}

/* All uniform numbers of the tensor are drawn first. */
#define FILL(suffix, type, draw)                                                               \
    static void fill_##suffix(cr_mt19937 *mt, type *x, int64_t n, double mean, double std)     \
    {                                                                                          \
        normal_blocks b = {(char *)x, mean, std};                                              \
        draw(mt, x, n);                                                                        \
        cr_parallel_for(n / BLOCK, 256, blocks_##suffix, &b);                                  \
        if (n % BLOCK) {                                                                       \
            b.data = (char *)(x + n - BLOCK);                                                  \
            draw(mt, x + n - BLOCK, BLOCK);                                                    \
            blocks_##suffix(&b, 0, 1);                                                         \
        }                                                                                      \
    }
FILL(f32, float, draw_floats)
FILL(f64, double, draw_doubles)

/* Half types are drawn block by block, in float. */
static void fill_half(cr_mt19937 *mt, char *x, int64_t n, const normal_blocks *b, cr_dtype t)
{
    float block[BLOCK];

    for (int64_t i = 0; i < n; i += BLOCK) {
        char *to = x + 2 * (i + BLOCK <= n ? i : n - BLOCK);
        draw_floats(mt, block, BLOCK);
        some_blocks_f32(b, block, 1);
        for (int64_t k = 0; k < BLOCK; k++) {
            if (t == CR_F16)
                store_f16(to + 2 * k, block[k]);
            else
                store_bf16(to + 2 * k, block[k]);
        }
    }
}

bool cr_fills_blocks(const cr_view *out)
{
    return cr_view_numel(out) >= BLOCK && cr_view_is_contiguous(out);
}

void cr_fill_blocks(const cr_view *out, cr_generator *g, double mean, double std)
{
    cr_mt19937 *mt = cr_generator_words(g);
    normal_blocks half = {NULL, mean, std};
    int64_t n = cr_view_numel(out);

    cr_generator_lock(g);
    if (out->dtype == CR_F32)
        fill_f32(mt, (float *)(void *)out->data, n, mean, std);
    else if (out->dtype == CR_F64)
        fill_f64(mt, (double *)(void *)out->data, n, mean, std);
    else
        fill_half(mt, out->data, n, &half, (cr_dtype)out->dtype);
    cr_generator_unlock(g);
}
