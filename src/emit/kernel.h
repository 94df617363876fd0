/* kernel.h - what generated kernels use beside the vectors of vec.h.
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

/* A row of more than CR_FOLD_CHUNK columns.  ck_put takes the lanes of the next chunk and
 * combines them with those of earlier chunks of the block as soon as the order allows, so
 * that at most four are kept.  A block's result is an element of level 0 when another block
 * follows; a level's elements are a row, whose result is an element of the next level.  Three
 * levels hold 2^52 elements. */
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
    /* Chunks 0-3 are kept; 4 meets 0, 5 meets 1, 6 meets 2, then 0, 7 meets 3, 1, 0. */       \
    CV_FN int ck_place_##op##_##T(ck_chunks_##op##_##T *c, const cv_##T *lanes)                \
    {                                                                                          \
        cv_##T t[CV_REDUCE_##T];                                                               \
        int at = (int)c->chunks++;                                                             \
        CV_UNROLL(16)                                                                          \
        for (int i = 0; i < CV_REDUCE_##T; i++)                                                \
            t[i] = lanes[i];                                                                   \
        if (at >= 4)                                                                           \
            ck_meet_##op##_##T(c->kept[at -= 4], t);                                           \
        if (c->chunks >= 7)                                                                    \
            ck_meet_##op##_##T(c->kept[at -= 2], t);                                           \
        if (c->chunks == 8)                                                                    \
            ck_meet_##op##_##T(c->kept[at -= 1], t);                                           \
        CV_UNROLL(16)                                                                          \
        for (int i = 0; i < CV_REDUCE_##T; i++)                                                \
            c->kept[at][i] = t[i];                                                             \
        return c->chunks == CR_FOLD_CHUNKS;                                                    \
    }                                                                                          \
    /* What is left to combine where a block ends. */                                          \
    CK_OUTLINE cv_s_##T ck_block_##op##_##T(ck_chunks_##op##_##T *c)                           \
    {                                                                                          \
        cv_s_i64 n = c->chunks;                                                                \
        c->chunks = 0;                                                                         \
        if (n >= 4 && n < 8)                                                                   \
            ck_meet_##op##_##T(c->kept[1], c->kept[3]);                                        \
        if (n >= 3 && n < 7)                                                                   \
            ck_meet_##op##_##T(c->kept[0], c->kept[2]);                                        \
        if (n >= 2 && n < 8)                                                                   \
            ck_meet_##op##_##T(c->kept[n < 3 || n == 7 ? 0 : 2], c->kept[n < 4 ? 1 : 3]);      \
        return cv_reduce_##op##_##T(c->kept[n < 2 || n == 8 ? 0 : n < 4 ? 1 : 3]);             \
    }                                                                                          \
    CK_OUTLINE cv_s_##T ck_level_##op##_##T(ck_chunks_##op##_##T *c, int level)                \
    {                                                                                          \
        cv_##T t[CV_REDUCE_##T];                                                               \
        for (cv_s_i64 k = 0; k * CR_FOLD_CHUNK < c->count[level]; k++) {                       \
            for (int i = 0; i < CV_REDUCE_##T; i++)                                            \
                t[i] = cv_load_##T(c->lane[level][k] + i * CV_LANES_##T);                      \
            ck_place_##op##_##T(c, t);                                                         \
        }                                                                                      \
        c->count[level] = 0;                                                                   \
        return ck_block_##op##_##T(c);                                                         \
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
    CK_OUTLINE void ck_next_##op##_##T(ck_chunks_##op##_##T *c)                                \
    {                                                                                          \
        cv_s_##T x = ck_block_##op##_##T(c);                                                   \
        if (c->blocks++)                                                                       \
            ck_add_##op##_##T(c, 0, c->block);                                                 \
        c->block = x;                                                                          \
    }                                                                                          \
    CV_FN void ck_put_##op##_##T(ck_chunks_##op##_##T *c, const cv_##T *lanes)                 \
    {                                                                                          \
        if (ck_place_##op##_##T(c, lanes))                                                     \
            ck_next_##op##_##T(c);                                                             \
    }                                                                                          \
    CK_OUTLINE cv_s_##T ck_end_##op##_##T(ck_chunks_##op##_##T *c)                             \
    {                                                                                          \
        if (c->chunks)                                                                         \
            ck_next_##op##_##T(c);                                                             \
        for (int level = 0; level < 3 && c->count[level]; level++) {                           \
            ck_add_##op##_##T(c, level, c->block);                                             \
            c->block = ck_level_##op##_##T(c, level);                                          \
        }                                                                                      \
        return c->block;                                                                       \
    }

/* Vectors a column reduction advances by while it goes down the rows of a block. */
enum { CK_STRIP = 32 };

#endif
