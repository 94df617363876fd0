/* scores.cuh - what kernels of scaled dot product attention share (attention.cuh,
 * attention_f32.cuh).
 *
 * Follows matrix.cuh.  CA_ITEM is the type of all arrays but masks, CA_MASK one of the numbers
 * below, CA_DROPS whether weights are dropped. */
#ifndef CR_EMIT_SCORES_CUH
#define CR_EMIT_SCORES_CUH

#include "emit/matrix.cuh"

CK_DYNAMIC;

#define CA_NONE   0
#define CA_TRUTH  1 /* bool: true keeps */
#define CA_ADDED  2 /* of the item's type */
#define CA_ADDED4 3 /* float32 */

enum { CA_THREADS = 128 };

/* [batch, heads, rows, width]; steps in bytes, dense along the width. */
struct ca_array {
    char *at;
    cm_i64 step[3];
};
struct ca_call {
    ca_array q, k, v, out, grad, gq, gk, gv;
    float *lse, *delta; /* [batch, heads, queries]; behind the deltas, the ends */
    const char *mask;
    cm_i64 mask_step[4];
    cm_i64 batch, heads, repeat; /* repeat: heads that share one of k and v */
    int queries, keys, width, causal;
    float scale;
    float *kept;               /* tiles of gradients of scores (attention_f32.cuh), or NULL */
    const unsigned char *stay; /* of each weight, row-major: whether it is not dropped */
    float times;               /* what stays is multiplied by this */
};

#if defined(__CUDA_ARCH__)
/* Copies 16 bytes to shared memory without waiting; ca_wait waits for all but the last `left`
 * groups of copies, which ca_close ends. */
CV_FN void ca_copy(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(ca_shared(to)), "l"(from)
                 : "memory");
}
/* The same; zeros instead of what is not `real`. */
CV_FN void ca_copy_or_zero(ca_place to, const void *from, bool real)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(real ? 16 : 0)
                 : "memory");
}
/* The same for a float. */
CV_FN void ca_copy_float(float *to, const float *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(ca_shared(to)), "l"(from)
                 : "memory");
}
CV_FN void ca_close(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int left> CV_FN void ca_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}
CV_FN float ca_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
CV_FN float ca_most(float x, float y)
{
    float z;
    asm("max.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}
#else
CV_FN void ca_copy(void *to, const void *from) { __builtin_memcpy(to, from, 16); }
CV_FN void ca_copy_or_zero(ca_place to, const void *from, bool real)
{
    static const char zero[16] = {0};
    __builtin_memcpy(to, real ? from : zero, 16);
}
CV_FN void ca_copy_float(float *to, const float *from) { *to = *from; }
CV_FN void ca_close(void) {}
template <int left> CV_FN void ca_wait(void) {}
CV_FN float ca_exp2(float x) { return __builtin_exp2f(x); }
CV_FN float ca_most(float x, float y) { return y > x || x != x ? y : x; }
#endif

CV_FN float ca_from_lane(float x, int lane)
{
    return ck_float((unsigned)CK_SHUFFLE_(ck_bits(x), lane));
}
struct ca_sixteen {
    unsigned word[4];
} __attribute__((aligned(16)));

/* --- scores --- */

#define CA_LOG2E 1.44269504088896340736f
#define CA_LN2   0.69314718055994530942f

CV_FN char *ca_head(const ca_array &a, cm_i64 b, cm_i64 h)
{
    return a.at + b * a.step[0] + h * a.step[1];
}

/* Exponents of 2 are scores times this, which is positive; those with a mask are multiplied
 * before it is added. */
CV_FN float ca_factor(const ca_call &c) { return CA_MASK == CA_NONE ? c.scale * CA_LOG2E : 1; }

/* A score with its mask; minus infinity where the key is hidden. */
CV_FN float ca_exponent(const ca_call &c, float x, cm_i64 b, cm_i64 h, int query, int key)
{
    if (key >= c.keys || query >= c.queries || (c.causal && key > query))
        return -__builtin_inff();
#if CA_MASK != CA_NONE
    const char *m = c.mask + b * c.mask_step[0] + h * c.mask_step[1] + query * c.mask_step[2] +
                    key * c.mask_step[3];
#if CA_MASK == CA_TRUTH
    return *(const unsigned char *)m ? x : -__builtin_inff();
#elif CA_MASK == CA_ADDED
    return x + cm_real(*(const CA_ITEM *)m) * CA_LOG2E;
#else
    return x + *(const float *)m * CA_LOG2E;
#endif
#else
    return x;
#endif
}

/* A block's tile of rows: its number, and the head.  The last tiles, which have the most
 * keys with a causal mask, come first. */
struct ca_where {
    int row;
    cm_i64 b, h;
};
CV_FN ca_where ca_block(int tile_rows, int rows, cm_i64 heads, bool last_first)
{
    const cm_i64 tiles = (rows + tile_rows - 1) / tile_rows, head = CK_BLOCK_(x) / tiles;
    const cm_i64 tile = CK_BLOCK_(x) - head * tiles, b = head / heads;

    return ca_where{(int)(last_first ? tiles - 1 - tile : tile) * tile_rows, b,
                    head - b * heads};
}

/* --- backward --- */

/* The exponents' ends of one query: rows of which no key is seen have weights of zero. */
CV_FN float ca_end_of(float lse)
{
    return lse == -__builtin_inff() ? __builtin_inff() : lse * CA_LOG2E;
}

/* delta: each row's sum of output times gradient; and its end.  Eight lanes have a row, and of
 * it 16 bytes at a time. */
CK_KERNEL_OF(CA_THREADS, ca_deltas, ca_call)
{
    enum { LANES = 8, ITEMS = 16 / sizeof(CA_ITEM), ROWS = CA_THREADS / LANES };
    struct items {
        CA_ITEM at[ITEMS];
    } __attribute__((aligned(16)));
    const cm_i64 rows = call.batch * call.heads * call.queries;
    const int lane = ck_x() % 32, first = lane % LANES * ITEMS;

    for (cm_i64 from = CK_BLOCK_(x) * (cm_i64)ROWS; from < rows;
         from += CK_BLOCKS_(x) * (cm_i64)ROWS) {
        const cm_i64 mine = from + ck_x() / LANES, r = mine < rows ? mine : rows - 1;
        const cm_i64 head = r / call.queries, row = r - head * call.queries;
        const cm_i64 b = head / call.heads, h = head - b * call.heads;
        const char *o = ca_head(call.out, b, h) + row * call.out.step[2];
        const char *g = ca_head(call.grad, b, h) + row * call.grad.step[2];
        float sum = 0;
        for (int i = first; i < call.width; i += LANES * ITEMS) {
            const items x = *(const items *)(o + i * sizeof(CA_ITEM));
            const items y = *(const items *)(g + i * sizeof(CA_ITEM));
            CV_ALL
            for (int k = 0; k < ITEMS; k++)
                sum = CV_FMAF(cm_real(x.at[k]), cm_real(y.at[k]), sum);
        }
        for (int by = LANES / 2; by > 0; by /= 2)
            sum += ca_from_lane(sum, lane ^ by);
        if (mine < rows && lane % LANES == 0) {
            call.delta[r] = sum;
            call.delta[rows + r] = ca_end_of(call.lse[r]);
        }
    }
}

#endif
