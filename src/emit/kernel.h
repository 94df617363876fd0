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
#define CK_JOIN3_(a, b, c)  a##b##_##c
#define CK_JOIN3(a, b, c)   CK_JOIN3_(a, b, c)
#define CK(name)            CK_JOIN3(ck_, CK_ISA, name)

#define CK_PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define CK_UNROLL(n) CK_PRAGMA(clang loop unroll_count(n))
#else
#define CK_UNROLL(n) CK_PRAGMA(GCC unroll n)
#endif

/* num/view.h's: the fixed order of reductions. */
enum { CK_CHUNK = 8192, CK_BLOCK = 64 };

CV_FN cv_s_i64 ck_least(cv_s_i64 a, cv_s_i64 b) { return a < b ? a : b; }

/* A row of more than CK_CHUNK columns: the chunks' results are folded by the same rule,
 * and so on; three levels hold 2^52 elements.  Out of line, as it runs once a chunk. */
#define CK_WIDTH(T) (CV_REDUCE_##T * CV_LANES_##T)
#define CK_DEFINE_CHUNKS(op, T)                                                               \
    typedef struct {                                                                          \
        cv_s_i64 count[4];                                                                    \
        cv_s_##T start, lane[4][CK_WIDTH(T)];                                                 \
    } ck_chunks_##op##_##T;                                                                   \
    static __attribute__((noinline, unused)) cv_s_##T ck_fold_##op##_##T(                     \
        ck_chunks_##op##_##T *c, int level)                                                   \
    {                                                                                         \
        cv_##T acc[CV_REDUCE_##T];                                                            \
        for (int i = 0; i < CV_REDUCE_##T; i++)                                               \
            acc[i] = cv_load_##T(c->lane[level] + i * CV_LANES_##T);                          \
        for (int i = 0; i < CK_WIDTH(T); i++)                                                 \
            c->lane[level][i] = c->start;                                                     \
        c->count[level] = 0;                                                                  \
        return cv_red32_##op##_##T(acc);                                                      \
    }                                                                                         \
    static __attribute__((noinline, unused)) void ck_start_##op##_##T(                        \
        ck_chunks_##op##_##T *c, cv_s_##T start)                                              \
    {                                                                                         \
        c->start = start;                                                                     \
        for (int level = 0; level < 4; level++) {                                             \
            c->count[level] = 0;                                                              \
            for (int i = 0; i < CK_WIDTH(T); i++)                                             \
                c->lane[level][i] = start;                                                    \
        }                                                                                     \
    }                                                                                         \
    static __attribute__((noinline, unused)) void ck_put_##op##_##T(ck_chunks_##op##_##T *c,  \
                                                                    cv_s_##T x)               \
    {                                                                                         \
        for (int level = 0; level < 4; level++) {                                             \
            cv_s_##T *lane = &c->lane[level][c->count[level]++ % 32];                         \
            cv_storen_##T(lane, cv_##op##_##T(cv_set1_##T(*lane), cv_set1_##T(x)), 1);        \
            if (c->count[level] < CK_CHUNK)                                                   \
                return;                                                                       \
            x = ck_fold_##op##_##T(c, level);                                                 \
        }                                                                                     \
    }                                                                                         \
    static __attribute__((noinline, unused)) cv_s_##T ck_end_##op##_##T(                      \
        ck_chunks_##op##_##T *c)                                                              \
    {                                                                                         \
        for (int level = 0; level < 3; level++) {                                             \
            cv_s_i64 above = 0;                                                               \
            for (int k = level + 1; k < 4; k++)                                               \
                above += c->count[k];                                                         \
            if (!above)                                                                       \
                return ck_fold_##op##_##T(c, level);                                          \
            if (c->count[level]) {                                                            \
                cv_s_##T x = ck_fold_##op##_##T(c, level), *lane;                             \
                lane = &c->lane[level + 1][c->count[level + 1]++ % 32];                       \
                cv_storen_##T(lane, cv_##op##_##T(cv_set1_##T(*lane), cv_set1_##T(x)), 1);    \
            }                                                                                 \
        }                                                                                     \
        return ck_fold_##op##_##T(c, 3);                                                      \
    }

/* Vectors a column reduction advances by while it goes down the rows of a block. */
enum { CK_STRIP = 32 };

#endif
