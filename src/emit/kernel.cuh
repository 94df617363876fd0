/* kernel.cuh - what generated CUDA kernels use beside the vectors of vec.h.
 *
 * A vector has CV_BYTES bytes, 8, 16 or 32.  Launches (block is {x, y}, grid likewise), as the
 * comment before a kernel says:
 *
 *   pointwise      a thread a vector of columns, y a row; loops cover what the grid does not
 *   rows of T      a block of 1, 2, 4 or 8 chunks of T threads a row, at least
 *                  columns / CR_FOLD_CHUNK chunks or 8; y rows a block, one where x is more
 *                  than one chunk; the grid's x blocks share the rows
 *   S steps        before `rows`: at most CR_FOLD_LANES * S columns a chunk; when S is less
 *                  than a whole chunk's 16, a row is one chunk, and CK_ROW_LANES may limit the
 *                  columns of one step further
 *   columns of T   a block of up to 32 vectors of columns (x), and T threads of each (y), for
 *                  CR_FOLD_BLOCK rows each; T is 1 for an extreme with its index, which has
 *                  one part; the grid's y blocks share the parts of CR_FOLD_COLUMN rows, each
 *                  of which has a result
 *
 * A kernel of a ck_list_call has several arrays, one after the other along the grid's x blocks:
 * a block has a row of a reduction, or CR_EMIT_LIST_STEPS vectors for each thread of a
 * pointwise kernel, which has one row.
 *
 * A kernel of a ck_outer_call has several planes of rows.  Rows are numbered through the planes
 * (size[0] counts all of them), and the row is the fastest outer dim.  For columns, the grid's
 * y blocks share the parts of all planes.
 *
 * Order P (num/order.h): the 64 lanes of a chunk are the vectors of T = 64 / lanes threads. */
#ifndef CR_EMIT_KERNEL_CUH
#define CR_EMIT_KERNEL_CUH

#include "emit/kernel.h"

/* A kernel's only argument: what a cr_kernel takes, by value.  `computed` dims have their
 * strides and sizes after the others. */
template <int operands, int params, int computed = 0> struct ck_call {
    void *ptr[operands];
    cv_s_i64 stride[2 * operands + computed], size[3 + computed];
    char param[16 * params] __attribute__((aligned(16)));
};

/* The same with outer dims, the fastest first. */
template <int operands, int params, int dims> struct ck_outer_call {
    void *ptr[operands];
    cv_s_i64 stride[2 * operands], size[3];
    cv_s_i64 planes, count; /* for columns, the product of the sizes; the number of dims */
    cv_s_i64 outer[dims], step[operands][dims];
    char param[16 * params] __attribute__((aligned(16)));
};

/* Calls that differ in addresses and sizes. */
template <int operands, int params, int most> struct ck_list_call {
    char param[16 * params] __attribute__((aligned(16)));
    cv_s_i64 stride[2 * operands], arrays;
    void *ptr[most][operands];
    cv_s_i64 size[most][2];
    int first[most]; /* the number of the array's first block */
};

/* The array of the block at hand. */
template <class C> CV_FN int ck_array(const C &call)
{
    int low = 0, high = (int)call.arrays;

    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (call.first[middle] <= (int)CK_BLOCK_(x))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* An index in each outer dim. */
template <int dims> struct ck_place {
    cv_s_i64 index[dims];
};

CV_FN cv_s_i64 ck_quotient(cv_s_i64 a, cv_s_i64 b)
{
    return (a | b) >> 32 ? a / b : (cv_s_i64)((unsigned)a / (unsigned)b);
}

/* The indices of row or plane `n`. */
template <int operands, int params, int dims>
CV_FN ck_place<dims> ck_place_of(const ck_outer_call<operands, params, dims> &call, cv_s_i64 n)
{
    ck_place<dims> p;

    CV_UNROLL(8)
    for (int d = 0; d < dims; d++) {
        p.index[d] = 0;
        if (d < call.count) {
            const cv_s_i64 up = ck_quotient(n, call.outer[d]);
            p.index[d] = n - up * call.outer[d];
            n = up;
        }
    }
    return p;
}

/* Operand k's address there. */
template <int operands, int params, int dims>
CV_FN char *ck_at(const ck_outer_call<operands, params, dims> &call, const ck_place<dims> &p,
                  int k)
{
    char *at = (char *)call.ptr[k];

    CV_UNROLL(8)
    for (int d = 0; d < dims; d++)
        if (d < call.count)
            at += p.index[d] * call.step[k][d];
    return at;
}

CV_FN cv_s_i64 ck_first_y(void)
{
    return (cv_s_i64)CK_BLOCK_(y) * CK_WIDTH_(y) + CK_THREAD_(y);
}
CV_FN cv_s_i64 ck_step_y(void) { return (cv_s_i64)CK_BLOCKS_(y) * CK_WIDTH_(y); }
/* Rows of reductions: blocks along x share them. */
CV_FN cv_s_i64 ck_first_row(void)
{
    return (cv_s_i64)CK_BLOCK_(x) * CK_WIDTH_(y) + CK_THREAD_(y);
}
CV_FN cv_s_i64 ck_step_row(void) { return (cv_s_i64)CK_BLOCKS_(x) * CK_WIDTH_(y); }

/* --- elements --- */

CV_FN bool ck_aligned(const void *p, int bytes)
{
    return ((__UINTPTR_TYPE__)p & (bytes - 1)) == 0;
}

/* Long rows, which a block each reads: asks for the row at `p` that is CK_AHEAD bytes further
 * on, and starts about as much later as memory takes to answer.  `left` rows follow. */
enum { CK_AHEAD = 3 << 20 };
CV_FN void ck_fetch_ahead(const char *p, cv_s_i64 step, cv_s_i64 left, unsigned bytes)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && !defined(__clang__)
    const unsigned rows = CK_AHEAD / bytes;
    const char *const from = p + rows * step;

    if (rows < left && bytes % 16 == 0 && ck_aligned(from, 16))
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
#else
    (void)p;
    (void)step;
    (void)left;
    (void)bytes;
#endif
}

#define CK_DEFINE_MEMORY(T)                                                                    \
    CV_FN cv_##T ck_load_##T(const void *p) { return *(const cv_##T *)p; }                     \
    CV_FN void ck_store_##T(void *p, cv_##T v) { *(cv_##T *)p = v; }                           \
    CV_FN cv_##T ck_loadn_##T(const void *p, cv_s_i64 n)                                       \
    {                                                                                          \
        cv_##T v = {0};                                                                        \
        CV_UNROLL(16)                                                                          \
        for (int l = 0; l < CV_LANES_##T; l++)                                                 \
            if (l < n)                                                                         \
                v[l] = ((const cv_s_##T *)p)[l];                                               \
        return v;                                                                              \
    }                                                                                          \
    CV_FN void ck_storen_##T(void *p, cv_##T v, cv_s_i64 n)                                    \
    {                                                                                          \
        CV_UNROLL(16)                                                                          \
        for (int l = 0; l < CV_LANES_##T; l++)                                                 \
            if (l < n)                                                                         \
                ((cv_s_##T *)p)[l] = v[l];                                                     \
    }
CK_DEFINE_MEMORY(f32)
CK_DEFINE_MEMORY(f64)
CK_DEFINE_MEMORY(i32)
CK_DEFINE_MEMORY(i64)
CK_DEFINE_MEMORY(u8)

/* Truth values beside lanes of W bits; S holds those of a vector. */
#define CK_DEFINE_BOOLS(W, S)                                                                  \
    CV_FN cv_m##W ck_loadb_##W(const void *p)                                                  \
    {                                                                                          \
        S b = *(const S *)p;                                                                   \
        return cv_loadb_##W(&b);                                                               \
    }                                                                                          \
    CV_FN void ck_storeb_##W(void *p, cv_m##W m)                                               \
    {                                                                                          \
        S b;                                                                                   \
        cv_storeb_##W(&b, m);                                                                  \
        *(S *)p = b;                                                                           \
    }                                                                                          \
    CV_FN cv_m##W ck_loadbn_##W(const void *p, cv_s_i64 n)                                     \
    {                                                                                          \
        cv_m##W m = {0};                                                                       \
        CV_UNROLL(16)                                                                          \
        for (int l = 0; l < CV_LANES_m##W; l++)                                                \
            if (l < n)                                                                         \
                m[l] = ((const cv_s_u8 *)p)[l] ? -1 : 0;                                       \
        return m;                                                                              \
    }                                                                                          \
    CV_FN void ck_storebn_##W(void *p, cv_m##W m, cv_s_i64 n)                                  \
    {                                                                                          \
        CV_UNROLL(16)                                                                          \
        for (int l = 0; l < CV_LANES_m##W; l++)                                                \
            if (l < n)                                                                         \
                ((cv_s_u8 *)p)[l] = m[l] ? 1 : 0;                                              \
    }
CK_DEFINE_BOOLS(8, cv_u8)
#if CV_BYTES == 32
CK_DEFINE_BOOLS(32, cv_s_u64)
CK_DEFINE_BOOLS(64, cv_s_u32)
#elif CV_BYTES == 16
CK_DEFINE_BOOLS(32, cv_s_u32)
CK_DEFINE_BOOLS(64, unsigned short)
#else
CK_DEFINE_BOOLS(32, unsigned short)
CK_DEFINE_BOOLS(64, unsigned char)
#endif

#ifdef CR_EMIT_VEC_COMPLEX_H
#define CK_DEFINE_COMPLEX_MEMORY(C, T)                                                         \
    CV_FN cv_##C ck_load_##C(const void *p)                                                    \
    {                                                                                          \
        return cv_part_##C(ck_load_##T(p), ck_load_##T((const char *)p + CV_BYTES));           \
    }                                                                                          \
    CV_FN void ck_store_##C(void *p, cv_##C z)                                                 \
    {                                                                                          \
        ck_store_##T(p, CV_ZIPLOW_##T(z.re, z.im));                                            \
        ck_store_##T((char *)p + CV_BYTES, CV_ZIPHIGH_##T(z.re, z.im));                        \
    }                                                                                          \
    CV_FN cv_##C ck_loadn_##C(const void *p, cv_s_i64 n)                                       \
    {                                                                                          \
        return cv_part_##C(ck_loadn_##T(p, 2 * n),                                             \
                           ck_loadn_##T((const char *)p + CV_BYTES, 2 * n - CV_LANES_##T));    \
    }                                                                                          \
    CV_FN void ck_storen_##C(void *p, cv_##C z, cv_s_i64 n)                                    \
    {                                                                                          \
        ck_storen_##T(p, CV_ZIPLOW_##T(z.re, z.im), 2 * n);                                    \
        ck_storen_##T((char *)p + CV_BYTES, CV_ZIPHIGH_##T(z.re, z.im), 2 * n - CV_LANES_##T); \
    }
CK_DEFINE_COMPLEX_MEMORY(c64, f32)
CK_DEFINE_COMPLEX_MEMORY(c128, f64)
#endif

/* --- reductions along rows --- */

/* Lanes of a chunk that may have elements.  Lanes beyond the row hold the identity, with which
 * no value changes, so they need no threads. */
#ifndef CK_ROW_LANES
#define CK_ROW_LANES CR_FOLD_LANES
#endif

/* Threads of a chunk, the chunk of a thread, and the thread's first column in a chunk. */
#define CK_THREADS_(T) (CK_ROW_LANES / CV_LANES_##T)
#define CK_CHUNK_(T)   (ck_x() / CK_THREADS_(T))
#define CK_PLACE_(T)   (ck_x() % CK_THREADS_(T))
/* Chunks of n elements. */
CV_FN int ck_chunks(cv_s_i64 n)
{
    return (int)(ck_least(n, CR_FOLD_ROW) + CR_FOLD_CHUNK - 1) / CR_FOLD_CHUNK;
}

/* The value of the thread `by` further on in its group of `count`, a power of two up to 32; of
 * the group's first thread. */
template <class V> CV_FN V ck_shuffle(V v, int by, int count, bool first)
{
    const int words = (sizeof(V) + 3) / 4;
    int word[words] = {0};
    int base = ck_thread() % 32 / count * count;
    unsigned mask = count == 32 ? ~0u : ((1u << count) - 1) << base;

    __builtin_memcpy(word, &v, sizeof v);
    CV_UNROLL(16)
    for (int i = 0; i < words; i++)
        word[i] = first ? CK_SHUFFLE_FIRST_(mask, word[i], count)
                        : CK_SHUFFLE_DOWN_(mask, word[i], by, count);
    __builtin_memcpy(&v, word, sizeof v);
    return v;
}

/* v with its upper lanes brought down; what remains above does not matter. */
template <class V> CV_FN V ck_lower(V v, int by)
{
    const int lanes = sizeof(V) / sizeof(v[0]);
    V r = v;

    CV_UNROLL(16)
    for (int l = 0; l < lanes; l++)
        r[l] = v[(l + by) % lanes];
    return r;
}

/* `v` with lane n of `from`. */
template <class V> CV_FN V ck_with(V v, int n, V from)
{
    CV_UNROLL(16)
    for (int l = 0; l < (int)(sizeof(V) / sizeof(v[0])); l++)
        if (l == n)
            v[l] = from[l];
    return v;
}
template <class T, int N> CV_FN T ck_zeroth(cv_lanes<T, N> v) { return v[0]; }

#ifdef CR_EMIT_VEC_COMPLEX_H
#define CK_DEFINE_COMPLEX_LANES(C)                                                             \
    CV_FN cv_##C ck_lower(cv_##C v, int by)                                                    \
    {                                                                                          \
        return cv_make_##C(ck_lower(v.re, by), ck_lower(v.im, by));                            \
    }                                                                                          \
    CV_FN cv_##C ck_with(cv_##C v, int n, cv_##C from)                                         \
    {                                                                                          \
        return cv_make_##C(ck_with(v.re, n, from.re), ck_with(v.im, n, from.im));              \
    }                                                                                          \
    CV_FN cv_s_##C ck_zeroth(cv_##C v) { return CV_MAKE(cv_s_##C, v.re[0], v.im[0]); }
CK_DEFINE_COMPLEX_LANES(c64)
CK_DEFINE_COMPLEX_LANES(c128)
#endif

/* t[c] meets t[c + half], where that has elements. */
#define CK_MEET_(op, T, half, test)                                                            \
    CV_UNROLL(8)                                                                               \
    for (int c = 0; c < half; c++)                                                             \
        if (test)                                                                              \
            t[c] = cv_##op##_##T(t[c], t[c + half]);

/* Trees of several chunks keep values in one of two places, `turn`.  Consecutive trees of a
 * kernel take turns: then all threads have read what is in a place before the barrier of the
 * tree between.  CK_ALONE: another barrier, instead. */
enum { CK_ALONE = -1 };
CV_FN int ck_place_of_turn(int turn)
{
    if (turn == CK_ALONE)
        __syncthreads();
    return turn == CK_ALONE ? 0 : turn;
}

/* ck_meet: lane by lane the chunks, of which the first `full` have elements, then the vectors
 * of a chunk.  The first thread of every chunk has the result. */
#define CK_DEFINE_MEET(op, T)                                                                  \
    CV_FN cv_##T ck_meet_##op##_##T(cv_##T v, int full, int turn)                              \
    {                                                                                          \
        CK_SHARED cv_##T places[2][CR_FOLD_CHUNKS][CK_THREADS_(T)];                            \
        const int chunks = ck_wide() / CK_THREADS_(T);                                         \
        if (chunks > 1) {                                                                      \
            cv_##T t[CR_FOLD_CHUNKS];                                                          \
            full = full < chunks ? full : chunks;                                              \
            cv_##T(*const kept)[CK_THREADS_(T)] = places[ck_place_of_turn(turn)];              \
            kept[CK_CHUNK_(T)][CK_PLACE_(T)] = v;                                              \
            __syncthreads();                                                                   \
            if (full == CR_FOLD_CHUNKS) {                                                      \
                CV_UNROLL(8)                                                                   \
                for (int c = 0; c < CR_FOLD_CHUNKS; c++)                                       \
                    t[c] = kept[c][CK_PLACE_(T)];                                              \
                CK_MEET_(op, T, 4, true)                                                       \
                CK_MEET_(op, T, 2, true)                                                       \
                CK_MEET_(op, T, 1, true)                                                       \
            } else {                                                                           \
                CV_UNROLL(8)                                                                   \
                for (int c = 0; c < CR_FOLD_CHUNKS; c++)                                       \
                    t[c] = kept[c < full ? c : 0][CK_PLACE_(T)];                               \
                CK_MEET_(op, T, 4, c + 4 < full)                                               \
                CK_MEET_(op, T, 2, c + 2 < full)                                               \
                CK_MEET_(op, T, 1, c + 1 < full)                                               \
            }                                                                                  \
            v = t[0];                                                                          \
        }                                                                                      \
        CV_UNROLL(8)                                                                           \
        for (int by = CK_THREADS_(T) / 2; by > 0; by /= 2)                                     \
            v = cv_##op##_##T(v, ck_shuffle(v, by, CK_THREADS_(T), false));                    \
        return v;                                                                              \
    }

/* ck_tree: the result, in every thread of the row. */
#define CK_DEFINE_TREE(op, T)                                                                  \
    CK_DEFINE_MEET(op, T)                                                                      \
    CV_FN cv_s_##T ck_tree_##op##_##T(cv_##T v, int full, int turn)                            \
    {                                                                                          \
        v = ck_meet_##op##_##T(v, full, turn);                                                 \
        CV_UNROLL(8)                                                                           \
        for (int by = CV_LANES_##T / 2; by > 0; by /= 2)                                       \
            v = cv_##op##_##T(v, ck_lower(v, by));                                             \
        return ck_zeroth(ck_shuffle(v, 0, CK_THREADS_(T), true));                              \
    }

/* The same of an operation whose results are the same in any order: the lanes of a vector, its
 * threads and then the chunks meet by `word`, another one for `op`. */
#define CK_DEFINE_FREE_TREE(op, word, T)                                                       \
    CV_FN cv_s_##T ck_tree_##op##_##T(cv_##T v, int full, int turn)                            \
    {                                                                                          \
        CK_SHARED cv_s_##T places[2][CR_FOLD_CHUNKS];                                          \
        const int chunks = ck_wide() / CK_THREADS_(T);                                         \
        (void)full;                                                                            \
        CV_UNROLL(8)                                                                           \
        for (int by = CV_LANES_##T / 2; by > 0; by /= 2)                                       \
            v = cv_##word##_##T(v, ck_lower(v, by));                                           \
        cv_s_##T x = ck_zeroth(v);                                                             \
        CV_UNROLL(8)                                                                           \
        for (int by = CK_THREADS_(T) / 2; by > 0; by /= 2)                                     \
            x = ck_zeroth(cv_##word##_##T(                                                     \
                cv_set1_##T(x), cv_set1_##T(ck_shuffle(x, by, CK_THREADS_(T), false))));       \
        if (chunks == 1)                                                                       \
            return ck_shuffle(x, 0, CK_THREADS_(T), true);                                     \
        cv_s_##T *const kept = places[ck_place_of_turn(turn)];                                 \
        if (CK_PLACE_(T) == 0)                                                                 \
            kept[CK_CHUNK_(T)] = x;                                                            \
        __syncthreads();                                                                       \
        x = kept[0];                                                                           \
        CV_UNROLL(8)                                                                           \
        for (int c = 1; c < CR_FOLD_CHUNKS; c++)                                               \
            if (c < chunks)                                                                    \
                x = ck_zeroth(cv_##word##_##T(cv_set1_##T(x), cv_set1_##T(kept[c])));          \
        return x;                                                                              \
    }

#define CK_DEFINE_MASK_TREE(op, M, whether)                                                    \
    CK_DEFINE_MEET(op, M)                                                                      \
    CV_FN int ck_tree_##op##_##M(cv_##M v, int full, int turn)                                 \
    {                                                                                          \
        v = ck_meet_##op##_##M(v, full, turn);                                                 \
        return cv_##whether##_##M(ck_shuffle(v, 0, CK_THREADS_(M), true));                     \
    }

/* The column and value of an element that a thread has found. */
template <class T> struct ck_found {
    cv_s_i64 at;
    T value;
};

/* Returns to all threads of a row the element of the lowest column that one of them has found.
 * A chunk has `threads` threads. */
template <class T> CV_FN ck_found<T> ck_first(ck_found<T> f, int threads)
{
    CK_SHARED ck_found<T> kept[CR_FOLD_CHUNKS];
    const int chunks = ck_wide() / threads;

    for (int by = threads / 2; by > 0; by /= 2) {
        const ck_found<T> other = ck_shuffle(f, by, threads, false);
        if (other.at < f.at)
            f = other;
    }
    if (chunks == 1)
        return ck_shuffle(f, 0, threads, true);
    __syncthreads();
    if (ck_x() % threads == 0)
        kept[ck_x() / threads] = f;
    __syncthreads();
    f = kept[0];
    for (int c = 1; c < chunks; c++)
        if (kept[c].at < f.at)
            f = kept[c];
    return f;
}

/* A row in blocks.  Results of blocks are elements of level 0, which is a row; the results of
 * its blocks are elements of level 1.  Two levels hold 2^39 elements. */
#define CK_DEFINE_BLOCKS(op, T)                                                                \
    CK_DEFINE_TREE(op, T)                                                                      \
    typedef struct {                                                                           \
        cv_##T level[2];                                                                       \
        cv_s_i64 blocks;                                                                       \
        cv_s_##T first;                                                                        \
    } ck_blocks_##op##_##T;                                                                    \
    CV_FN void ck_start_##op##_##T(ck_blocks_##op##_##T *b, cv_##T z)                          \
    {                                                                                          \
        b->level[0] = b->level[1] = z;                                                         \
        b->blocks = 0;                                                                         \
    }                                                                                          \
    CV_FN void ck_add_##op##_##T(cv_##T *level, cv_s_i64 n, cv_s_##T x)                        \
    {                                                                                          \
        const int at = (int)(n % CR_FOLD_ROW), lane = at % CR_FOLD_LANES;                      \
        if (at / CR_FOLD_CHUNK == CK_CHUNK_(T) && lane / CV_LANES_##T == CK_PLACE_(T))         \
            *level =                                                                           \
                ck_with(*level, lane % CV_LANES_##T, cv_##op##_##T(*level, cv_set1_##T(x)));   \
    }                                                                                          \
    /* The result of the next block, which has n elements and the lanes v. */                  \
    CV_FN void ck_put_##op##_##T(ck_blocks_##op##_##T *b, cv_##T v, cv_s_i64 n, cv_##T z)      \
    {                                                                                          \
        cv_s_##T x = ck_tree_##op##_##T(v, ck_chunks(n), CK_ALONE);                            \
        if (b->blocks == 0)                                                                    \
            b->first = x;                                                                      \
        ck_add_##op##_##T(&b->level[0], b->blocks++, x);                                       \
        if (b->blocks % CR_FOLD_ROW == 0) {                                                    \
            x = ck_tree_##op##_##T(b->level[0], CR_FOLD_CHUNKS, CK_ALONE);                     \
            ck_add_##op##_##T(&b->level[1], b->blocks / CR_FOLD_ROW - 1, x);                   \
            b->level[0] = z;                                                                   \
        }                                                                                      \
    }                                                                                          \
    CV_FN cv_s_##T ck_end_##op##_##T(ck_blocks_##op##_##T *b)                                  \
    {                                                                                          \
        const cv_s_i64 full = b->blocks / CR_FOLD_ROW, rest = b->blocks % CR_FOLD_ROW;         \
        if (b->blocks == 1)                                                                    \
            return b->first;                                                                   \
        if (rest) {                                                                            \
            cv_s_##T x = ck_tree_##op##_##T(b->level[0], ck_chunks(rest), CK_ALONE);           \
            if (!full)                                                                         \
                return x;                                                                      \
            ck_add_##op##_##T(&b->level[1], full, x);                                          \
        }                                                                                      \
        return ck_tree_##op##_##T(b->level[1], ck_chunks(full + (rest > 0)), CK_ALONE);        \
    }

#endif
