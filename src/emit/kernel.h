/* kernel.h - functions of generated kernels beyond the vectors of vec.h.
 *
 * CK_ISA is set on the command line; a kernel's symbol carries it, so that one library
 * holds a kernel several times. */
#ifndef CR_EMIT_KERNEL_H
#define CR_EMIT_KERNEL_H

#include "emit/vec.h"

#ifndef CK_ISA
#define CK_ISA jit
#endif
#define CK_JOIN3_(a, b, c) a##b##_##c
#define CK_JOIN3(a, b, c)  CK_JOIN3_(a, b, c)
#define CK(name)           CK_JOIN3(ck_, CK_ISA, name)

#define CK_OUTLINE static __attribute__((noinline, unused))
CV_FN cv_s_i64 ck_least(cv_s_i64 a, cv_s_i64 b) { return a < b ? a : b; }
CV_FN cv_s_i64 ck_most(cv_s_i64 a, cv_s_i64 b) { return a > b ? a : b; }

/* Rows that go through each sweep together: a thousand elements, which fit in the first
 * cache. */
enum { CK_ROWS_TOGETHER = 16 };
CV_FN cv_s_i64 ck_rows_together(cv_s_i64 columns)
{
    return ck_least(CK_ROWS_TOGETHER, 1 + 1024 / (columns + 1));
}

/* Elements that are only moved, by their size; at any address. */
typedef unsigned char ck_item1;
typedef unsigned short __attribute__((may_alias, aligned(1))) ck_item2;
typedef cv_s_u32 __attribute__((may_alias, aligned(1))) ck_item4;
typedef cv_s_u64 __attribute__((may_alias, aligned(1))) ck_item8;
#ifndef __CUDACC_RTC__
typedef struct {
    cv_s_u64 part[2];
} __attribute__((may_alias, aligned(1))) ck_item16;
#endif
typedef cv_s_i32 __attribute__((may_alias)) ck_int4;
typedef cv_s_i64 __attribute__((may_alias)) ck_int8;

/* Whether x replaces the extreme: x is beyond it, or x is the first NaN. */
#define CK_ABOVE(x, extreme) ((x) > (extreme) || ((x) != (x) && (extreme) == (extreme)))
#define CK_BELOW(x, extreme) ((x) < (extreme) || ((x) != (x) && (extreme) == (extreme)))

/* Short rows are copied here: a call of memcpy takes longer. */
CV_FN void ck_copy(char *to, const char *from, cv_s_i64 n)
{
    if (n > 128) {
        __builtin_memcpy(to, from, (cv_s_u64)n);
        return;
    }
    for (; n >= 16; n -= 16, to += 16, from += 16)
        __builtin_memcpy(to, from, 16);
    for (; n >= 4; n -= 4, to += 4, from += 4)
        __builtin_memcpy(to, from, 4);
    for (; n; n--)
        *to++ = *from++;
}

/* Indices: an index outside of [0, n) is 0; division rounds down. */
CV_FN cv_s_i64 ck_within(cv_s_i64 i, cv_s_i64 n) { return (cv_s_u64)i < (cv_s_u64)n ? i : 0; }
CV_FN cv_s_i64 ck_floordiv(cv_s_i64 a, cv_s_i64 b)
{
    return b ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0;
}
CV_FN cv_s_i64 ck_remainder(cv_s_i64 a, cv_s_i64 b) { return a - b * ck_floordiv(a, b); }

/* Reduces a row of more than CR_FOLD_CHUNK columns. ck_put combines the lanes of the next chunk
 * with lanes of earlier chunks of the block as soon as the order permits, so that at most four
 * chunks are kept.  If another block follows, the block's result is an element of level 0. The
 * elements of a level are a row, whose result is an element of the next level.  Three levels
 * hold 2^52 elements. */
#define CK_DEFINE_CHUNKS(op, T)                                                                \
    typedef struct {                                                                           \
        cv_##T kept[4][CV_REDUCE_##T];                                                         \
        cv_s_i64 chunks, blocks, count[3];                                                     \
        cv_s_##T start, block, lane[3][CR_FOLD_CHUNKS][CR_FOLD_LANES];                         \
    } ck_chunks_##op##_##T;                                                                    \
    CV_FN void ck_start_##op##_##T(ck_chunks_##op##_##T *c, cv_s_##T start)                    \
    {                                                                                          \
        c->chunks = c->blocks = c->count[0] = c->count[1] = c->count[2] = 0;                   \
        c->start = start;                                                                      \
    }                                                                                          \
    CV_FN void ck_meet_##op##_##T(const cv_##T *left, cv_##T *right)                           \
    {                                                                                          \
        CV_UNROLL(16)                                                                          \
        for (int i = 0; i < CV_REDUCE_##T; i++)                                                \
            right[i] = cv_##op##_##T(left[i], right[i]);                                       \
    }                                                                                          \
    /* Chunks 0-3 are kept; 4 meets 0, 5 meets 1, 6 meets 2, then 0, 7 meets 3, 1, 0.  True    \
     * where the block is complete: its lanes are then in t, else they are kept. */            \
    CV_FN int ck_place_##op##_##T(ck_chunks_##op##_##T *c, cv_##T *t)                          \
    {                                                                                          \
        int at = (int)c->chunks++;                                                             \
        if (at >= 4)                                                                           \
            ck_meet_##op##_##T(c->kept[at -= 4], t);                                           \
        if (c->chunks >= 7)                                                                    \
            ck_meet_##op##_##T(c->kept[at -= 2], t);                                           \
        if (c->chunks == CR_FOLD_CHUNKS) {                                                     \
            ck_meet_##op##_##T(c->kept[0], t);                                                 \
            c->chunks = 0;                                                                     \
            return 1;                                                                          \
        }                                                                                      \
        CV_UNROLL(16)                                                                          \
        for (int i = 0; i < CV_REDUCE_##T; i++)                                                \
            c->kept[at][i] = t[i];                                                             \
        return 0;                                                                              \
    }                                                                                          \
    /* The result of a block of fewer chunks; of 7, chunk 6 has met 2 and 0 already. */        \
    CK_OUTLINE cv_s_##T ck_rest_##op##_##T(ck_chunks_##op##_##T *c)                            \
    {                                                                                          \
        cv_s_i64 n = c->chunks;                                                                \
        cv_##T t[CV_REDUCE_##T];                                                               \
        c->chunks = 0;                                                                         \
        for (int i = 0; i < CV_REDUCE_##T; i++) {                                              \
            cv_##T even = c->kept[0][i], odd = c->kept[1][i];                                  \
            if (n >= 3 && n < 7)                                                               \
                even = cv_##op##_##T(even, c->kept[2][i]);                                     \
            if (n >= 4)                                                                        \
                odd = cv_##op##_##T(odd, c->kept[3][i]);                                       \
            t[i] = n < 2 ? even : cv_##op##_##T(even, odd);                                    \
        }                                                                                      \
        return cv_reduce_##op##_##T(t);                                                        \
    }                                                                                          \
    CK_OUTLINE cv_s_##T ck_level_##op##_##T(ck_chunks_##op##_##T *c, int level)                \
    {                                                                                          \
        cv_s_i64 n = c->count[level];                                                          \
        cv_##T t[CV_REDUCE_##T];                                                               \
        c->count[level] = 0;                                                                   \
        for (cv_s_i64 k = 0; k * CR_FOLD_CHUNK < n; k++) {                                     \
            for (int i = 0; i < CV_REDUCE_##T; i++)                                            \
                t[i] = cv_load_##T(c->lane[level][k] + i * CV_LANES_##T);                      \
            if (ck_place_##op##_##T(c, t))                                                     \
                return cv_reduce_##op##_##T(t);                                                \
        }                                                                                      \
        return ck_rest_##op##_##T(c);                                                          \
    }                                                                                          \
    CK_OUTLINE void ck_add_##op##_##T(ck_chunks_##op##_##T *c, int level, cv_s_##T x)          \
    {                                                                                          \
        cv_s_##T *lane;                                                                        \
        cv_s_i64 at;                                                                           \
        if (c->count[level] == CR_FOLD_ROW)                                                    \
            ck_add_##op##_##T(c, level + 1, ck_level_##op##_##T(c, level));                    \
        at = c->count[level]++;                                                                \
        lane = c->lane[level][at / CR_FOLD_CHUNK];                                             \
        for (int i = 0; i < CR_FOLD_LANES && at % CR_FOLD_CHUNK == 0; i++)                     \
            lane[i] = c->start;                                                                \
        lane += at % CR_FOLD_LANES;                                                            \
        cv_storen_##T(lane, cv_##op##_##T(cv_set1_##T(*lane), cv_set1_##T(x)), 1);             \
    }                                                                                          \
    CK_OUTLINE void ck_next_##op##_##T(ck_chunks_##op##_##T *c, cv_s_##T x)                    \
    {                                                                                          \
        if (c->blocks++)                                                                       \
            ck_add_##op##_##T(c, 0, c->block);                                                 \
        c->block = x;                                                                          \
    }                                                                                          \
    CV_FN void ck_put_##op##_##T(ck_chunks_##op##_##T *c, const cv_##T *lanes)                 \
    {                                                                                          \
        cv_##T t[CV_REDUCE_##T];                                                               \
        CV_UNROLL(16)                                                                          \
        for (int i = 0; i < CV_REDUCE_##T; i++)                                                \
            t[i] = lanes[i];                                                                   \
        if (ck_place_##op##_##T(c, t))                                                         \
            ck_next_##op##_##T(c, cv_reduce_##op##_##T(t));                                    \
    }                                                                                          \
    CK_OUTLINE cv_s_##T ck_end_##op##_##T(ck_chunks_##op##_##T *c)                             \
    {                                                                                          \
        if (c->chunks)                                                                         \
            ck_next_##op##_##T(c, ck_rest_##op##_##T(c));                                      \
        for (int level = 0; level < 3 && c->count[level]; level++) {                           \
            ck_add_##op##_##T(c, level, c->block);                                             \
            c->block = ck_level_##op##_##T(c, level);                                          \
        }                                                                                      \
        return c->block;                                                                       \
    }

/* Vectors a column reduction advances by while it goes down the rows of a block. */
enum { CK_STRIP = 32 };

#endif
