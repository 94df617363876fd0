/* scan.h - scans of generated kernels: order P's runs and blocks, and extremes with an index.
 *
 * Along a line, ck_take_<op>_<dtype> takes the next elements: whole blocks of CR_SCAN_BLOCK but
 * for the last one.  Down the rows of a strip of columns, ck_row_<op>_<dtype> takes row i.
 * `from` and `to` may be equal.  W is the type of running values, of two vectors where T has 32
 * bits.  A total that does not exist yet is left out: combining with the identity may change
 * complex numbers. */
#ifndef CR_EMIT_SCAN_H
#define CR_EMIT_SCAN_H

#include "emit/kernel.h"
#include "emit/vec_complex.h"
#include "emit/vec_mixed.h"

/* Columns of which the running values stay in the cache while the rows pass. */
enum { CK_SCAN_STRIP = 128 };

/* Vectors of the running type from a vector of T and back, and single elements. */
#define CK_SCAN_SAME(T)                                                                        \
    CV_FN cv_##T ck_widen_##T##_##T(cv_##T v, int part) { return (void)part, v; }              \
    CV_FN cv_##T ck_narrow_##T##_##T(const cv_##T *v) { return v[0]; }                         \
    CV_FN cv_s_##T ck_widen1_##T##_##T(cv_s_##T x) { return x; }                               \
    CV_FN cv_s_##T ck_narrow1_##T##_##T(cv_s_##T x) { return x; }
CK_SCAN_SAME(f64)
CK_SCAN_SAME(i64)
CK_SCAN_SAME(i32)
CK_SCAN_SAME(u8)
CK_SCAN_SAME(c128)
CV_FN cv_f64 ck_widen_f32_f64(cv_f32 v, int part) { return cv_widen_f64_f32(v, part); }
CV_FN cv_f32 ck_narrow_f32_f64(const cv_f64 *v) { return cv_narrow_f32_f64(v[0], v[1]); }
CV_FN cv_s_f64 ck_widen1_f32_f64(cv_s_f32 x) { return (cv_s_f64)x; }
CV_FN cv_s_f32 ck_narrow1_f32_f64(cv_s_f64 x) { return (cv_s_f32)x; }
CV_FN cv_c128 ck_widen_c64_c128(cv_c64 v, int part)
{
    return cv_make_c128(cv_widen_f64_f32(v.re, part), cv_widen_f64_f32(v.im, part));
}
CV_FN cv_c64 ck_narrow_c64_c128(const cv_c128 *v)
{
    return cv_make_c64(cv_narrow_f32_f64(v[0].re, v[1].re),
                       cv_narrow_f32_f64(v[0].im, v[1].im));
}
CV_FN cv_s_c128 ck_widen1_c64_c128(cv_s_c64 x)
{
    return CV_MAKE(cv_s_c128, (cv_s_f64)x.re, (cv_s_f64)x.im);
}
CV_FN cv_s_c64 ck_narrow1_c64_c128(cv_s_c128 x)
{
    return CV_MAKE(cv_s_c64, (cv_s_f32)x.re, (cv_s_f32)x.im);
}

/* Running values of one line. */
#define CK_SCAN_REAL(S)                                                                        \
    typedef cv_s_##S ck_sum_##S;                                                               \
    CV_FN ck_sum_##S ck_sum_add_##S(ck_sum_##S a, ck_sum_##S b) { return a + b; }              \
    CV_FN ck_sum_##S ck_sum_mul_##S(ck_sum_##S a, ck_sum_##S b) { return a * b; }
CK_SCAN_REAL(f64)
CK_SCAN_REAL(u64)
CK_SCAN_REAL(u32)
typedef cv_s_c128 ck_sum_c128;
CV_FN ck_sum_c128 ck_sum_add_c128(ck_sum_c128 a, ck_sum_c128 b)
{
    return CV_MAKE(cv_s_c128, a.re + b.re, a.im + b.im);
}
#ifdef __x86_64__
#define CK_ROUNDED(p, q, s, t) __asm__("" : "+x"(p), "+x"(q), "+x"(s), "+x"(t))
#else
#define CK_ROUNDED(p, q, s, t) (void)0
#endif
/* The products are rounded: gcc 12 makes fused multiply-adds on x86, -ffp-contract=off or
 * not. */
CV_FN ck_sum_c128 ck_sum_mul_c128(ck_sum_c128 a, ck_sum_c128 b)
{
    cv_s_f64 p = a.re * b.re, q = a.im * b.im, s = a.re * b.im, t = a.im * b.re;
    CK_ROUNDED(p, q, s, t);
    return CV_MAKE(cv_s_c128, p - q, s + t);
}
#define CK_TO_f64(x)         ((cv_s_f64)(x))
#define CK_TO_u64(x)         ((cv_s_u64)(x))
#define CK_TO_u32(x)         ((cv_s_u32)(x))
#define CK_TO_c128(x)        CV_MAKE(cv_s_c128, (cv_s_f64)(x).re, (cv_s_f64)(x).im)
#define CK_PUT_c128(v, T, p) (*(p) = ck_narrow1_##T##_c128(v))
#define CK_PUT_f64(v, T, p)  (*(p) = (cv_s_##T)(v))
#define CK_PUT_u64(v, T, p)  (*(p) = (cv_s_##T)(v))
#define CK_PUT_u32(v, T, p)  (*(p) = (cv_s_##T)(v))

/* After block `block` of a line, whose total is s->runs: s->level[k] is the fold of the runs of
 * level k that are not part of a longer one yet, and s->before that of the whole line. */
#define CK_DEFINE_LEVELS(name, LINE, S, JOIN)                                                  \
    CV_FN void ck_levels_##name(LINE *s, cv_s_i64 block)                                       \
    {                                                                                          \
        cv_s_i64 full = block, all = block + 1;                                                \
        int k = 0;                                                                             \
        s->level[0] = full % CR_SCAN_RUN ? JOIN(s->level[0], s->runs) : s->runs;               \
        for (; full % CR_SCAN_RUN == CR_SCAN_RUN - 1; k++) {                                   \
            full /= CR_SCAN_RUN;                                                               \
            s->level[k + 1] =                                                                  \
                full % CR_SCAN_RUN ? JOIN(s->level[k + 1], s->level[k]) : s->level[k];         \
        }                                                                                      \
        for (k = 0; all >= CR_SCAN_RUN; k++)                                                   \
            all /= CR_SCAN_RUN;                                                                \
        s->before = s->level[k];                                                               \
        while (k-- > 0)                                                                        \
            if (((block + 1) >> k * CR_SCAN_BITS) % CR_SCAN_RUN)                               \
                s->before = JOIN(s->before, s->level[k]);                                      \
    }

/* Sums and products along a line, in running values of type S.  The runs of a block do not wait
 * for each other.  Elements are `step` and `put` elements apart. */
#define CK_DEFINE_LINE(op, T, S)                                                               \
    typedef struct {                                                                           \
        ck_sum_##S runs, before, level[CR_SCAN_LEVELS];                                        \
        cv_s_i64 started; /* blocks */                                                         \
    } ck_line_##op##_##T;                                                                      \
    CV_FN ck_sum_##S ck_join_##op##_##T(ck_sum_##S a, ck_sum_##S b)                            \
    {                                                                                          \
        return ck_sum_##op##_##S(a, b);                                                        \
    }                                                                                          \
    CK_DEFINE_LEVELS(line_##op##_##T, ck_line_##op##_##T, ck_sum_##S, ck_join_##op##_##T)      \
    CV_FN ck_sum_##S ck_pass_##op##_##T(const ck_sum_##S *carry, ck_sum_##S sum, cv_s_##T *to) \
    {                                                                                          \
        ck_sum_##S all = sum;                                                                  \
        if (carry)                                                                             \
            all = ck_sum_##op##_##S(*carry, sum);                                              \
        CK_PUT_##S(all, T, to);                                                                \
        return sum;                                                                            \
    }                                                                                          \
    CV_FN void ck_run_##op##_##T(const ck_sum_##S *carry, ck_sum_##S *own, cv_s_##T *to,       \
                                 const cv_s_##T *from, cv_s_i64 n, cv_s_i64 put,               \
                                 cv_s_i64 step)                                                \
    {                                                                                          \
        ck_sum_##S sum = ck_pass_##op##_##T(carry, CK_TO_##S(*from), to);                      \
        if (put == 1 && step == 1 && n == CR_SCAN_RUN) {                                       \
            CV_UNROLL(16)                                                                      \
            for (int i = 1; i < CR_SCAN_RUN; i++)                                              \
                sum = ck_pass_##op##_##T(carry, ck_sum_##op##_##S(sum, CK_TO_##S(from[i])),    \
                                         to + i);                                              \
        } else {                                                                               \
            for (cv_s_i64 i = 1; i < n; i++)                                                   \
                sum = ck_pass_##op##_##T(                                                      \
                    carry, ck_sum_##op##_##S(sum, CK_TO_##S(from[i * step])), to + i * put);   \
        }                                                                                      \
        *own = sum;                                                                            \
    }                                                                                          \
    CV_FN void ck_block_##op##_##T(ck_line_##op##_##T *s, cv_s_##T *to, const cv_s_##T *from,  \
                                   cv_s_i64 n, cv_s_i64 put, cv_s_i64 step)                    \
    {                                                                                          \
        ck_sum_##S carry, own;                                                                 \
        int has = s->started;                                                                  \
        if (has)                                                                               \
            carry = s->before;                                                                 \
        for (cv_s_i64 i = 0; i < n; i += CR_SCAN_RUN) {                                        \
            cv_s_i64 m = ck_least(n - i, CR_SCAN_RUN);                                         \
            if (has)                                                                           \
                ck_run_##op##_##T(&carry, &own, to + i * put, from + i * step, m, put, step);  \
            else                                                                               \
                ck_run_##op##_##T((void *)0, &own, to + i * put, from + i * step, m, put,      \
                                  step);                                                       \
            s->runs = i ? ck_sum_##op##_##S(s->runs, own) : own;                               \
            carry = s->started ? ck_sum_##op##_##S(s->before, s->runs) : s->runs;              \
            has = 1;                                                                           \
        }                                                                                      \
        if (n == CR_SCAN_BLOCK) /* else it is the last one */                                  \
            ck_levels_line_##op##_##T(s, s->started++);                                        \
    }                                                                                          \
    CK_OUTLINE void ck_blocks_##op##_##T(ck_line_##op##_##T *s, cv_s_##T *to,                  \
                                         const cv_s_##T *from, cv_s_i64 n, cv_s_i64 put,       \
                                         cv_s_i64 step)                                        \
    {                                                                                          \
        if (put == 1 && step == 1)                                                             \
            ck_block_##op##_##T(s, to, from, n, 1, 1);                                         \
        else                                                                                   \
            ck_block_##op##_##T(s, to, from, n, put, step);                                    \
    }                                                                                          \
    /* A line of one run needs no sums of runs. */                                             \
    CK_OUTLINE void ck_take_##op##_##T(ck_line_##op##_##T *s, cv_s_##T *to,                    \
                                       const cv_s_##T *from, cv_s_i64 n, cv_s_i64 put,         \
                                       cv_s_i64 step)                                          \
    {                                                                                          \
        ck_sum_##S own;                                                                        \
        if (s->started || n > CR_SCAN_RUN)                                                     \
            ck_blocks_##op##_##T(s, to, from, n, put, step);                                   \
        else if (put == 1 && step == 1)                                                        \
            ck_run_##op##_##T((void *)0, &own, to, from, n, 1, 1);                             \
        else                                                                                   \
            ck_run_##op##_##T((void *)0, &own, to, from, n, put, step);                        \
    }

/* Down the rows.  Row i starts a run where CR_SCAN_RUN divides i.  What every row reads is
 * together: the sums of longer runs would spread it over the cache. */
#define CK_DEFINE_DOWN(op, T, W)                                                               \
    enum { CK_PARTS_##op##_##T = CV_LANES_##T / CV_LANES_##W };                                \
    typedef struct {                                                                           \
        cv_##W runs, before, level[CR_SCAN_LEVELS];                                            \
    } ck_past_##op##_##T;                                                                      \
    CK_DEFINE_LEVELS(down_##op##_##T, ck_past_##op##_##T, cv_##W, cv_##op##_##W)               \
    typedef struct {                                                                           \
        cv_##W own, carry;                                                                     \
    } ck_state_##op##_##T;                                                                     \
    typedef struct {                                                                           \
        ck_state_##op##_##T at[CK_SCAN_STRIP / CV_LANES_##W];                                  \
        ck_past_##op##_##T past[CK_SCAN_STRIP / CV_LANES_##W];                                 \
    } ck_down_##op##_##T;                                                                      \
    CV_FN cv_##W ck_begin_##op##_##T(ck_state_##op##_##T *a, ck_past_##op##_##T *s, cv_##W x,  \
                                     cv_s_i64 i)                                               \
    {                                                                                          \
        cv_s_i64 in = i % CR_SCAN_BLOCK;                                                       \
        if (i)                                                                                 \
            s->runs = in == CR_SCAN_RUN ? a->own : cv_##op##_##W(s->runs, a->own);             \
        if (i && !in)                                                                          \
            ck_levels_down_##op##_##T(s, i / CR_SCAN_BLOCK - 1);                               \
        if (i)                                                                                 \
            a->carry = !in                 ? s->before                                         \
                       : i > CR_SCAN_BLOCK ? cv_##op##_##W(s->before, s->runs)                 \
                                           : s->runs;                                          \
        a->own = x;                                                                            \
        return i ? cv_##op##_##W(a->carry, x) : x;                                             \
    }                                                                                          \
    CV_FN void ck_rows_##op##_##T(ck_down_##op##_##T *s, cv_s_##T *to, const cv_s_##T *from,   \
                                  cv_s_i64 n, cv_s_i64 i, int start, int first)                \
    {                                                                                          \
        for (cv_s_i64 k = 0; k * CV_LANES_##T < n; k++) {                                      \
            cv_s_i64 m = ck_least(n - k * CV_LANES_##T, CV_LANES_##T);                         \
            const cv_s_##T *p = from + k * CV_LANES_##T;                                       \
            cv_##T x = m == CV_LANES_##T ? cv_load_##T(p) : cv_loadn_##T(p, m);                \
            cv_##W y[CK_PARTS_##op##_##T];                                                     \
            CV_UNROLL(2)                                                                       \
            for (int q = 0; q < CK_PARTS_##op##_##T; q++) {                                    \
                cv_s_i64 at = k * CK_PARTS_##op##_##T + q;                                     \
                ck_state_##op##_##T *a = &s->at[at];                                           \
                cv_##W v = ck_widen_##T##_##W(x, q);                                           \
                if (start) {                                                                   \
                    y[q] = ck_begin_##op##_##T(a, &s->past[at], v, i);                         \
                } else {                                                                       \
                    a->own = cv_##op##_##W(a->own, v);                                         \
                    y[q] = first ? a->own : cv_##op##_##W(a->carry, a->own);                   \
                }                                                                              \
            }                                                                                  \
            if (m == CV_LANES_##T)                                                             \
                cv_store_##T(to + k * CV_LANES_##T, ck_narrow_##T##_##W(y));                   \
            else                                                                               \
                cv_storen_##T(to + k * CV_LANES_##T, ck_narrow_##T##_##W(y), m);               \
        }                                                                                      \
    }                                                                                          \
    CK_OUTLINE void ck_newrun_##op##_##T(ck_down_##op##_##T *s, cv_s_##T *to,                  \
                                         const cv_s_##T *from, cv_s_i64 n, cv_s_i64 i)         \
    {                                                                                          \
        ck_rows_##op##_##T(s, to, from, n, i, 1, 0);                                           \
    }                                                                                          \
    CV_FN void ck_row_##op##_##T(ck_down_##op##_##T *s, cv_s_##T *to, const cv_s_##T *from,    \
                                 cv_s_i64 n, cv_s_i64 i)                                       \
    {                                                                                          \
        if (i % CR_SCAN_RUN == 0)                                                              \
            ck_newrun_##op##_##T(s, to, from, n, i);                                           \
        else if (i < CR_SCAN_RUN)                                                              \
            ck_rows_##op##_##T(s, to, from, n, i, 0, 1);                                       \
        else                                                                                   \
            ck_rows_##op##_##T(s, to, from, n, i, 0, 0);                                       \
    }

/* Extremes and where they were last: `at` is the place of the first element, and each element
 * is `go` places further.  BEYOND compares vectors. */
#define CK_SCAN_above(x, best) !CK_ABOVE(best, x)
#define CK_SCAN_below(x, best) !CK_BELOW(best, x)
/* Integers have many equal extremes, which would be jumps that nothing predicts. */
#define CK_TAKE_RARE(take, x, best, at, found)                                                 \
    if (take) {                                                                                \
        best = x;                                                                              \
        found = at;                                                                            \
    }
#define CK_TAKE_OFTEN(take, x, best, at, found)                                                \
    int takes = take;                                                                          \
    best = takes ? x : best;                                                                   \
    found = takes ? at : found;
#define CK_DEFINE_LINE_INDEX(op, T, TAKE)                                                      \
    typedef struct {                                                                           \
        cv_s_##T best;                                                                         \
        cv_s_i64 at;                                                                           \
        int started;                                                                           \
    } ck_line_##op##_##T;                                                                      \
    CK_OUTLINE void ck_take_##op##_##T(ck_line_##op##_##T *s, cv_s_##T *to, cv_s_i64 *index,   \
                                       const cv_s_##T *from, cv_s_i64 n, cv_s_i64 put,         \
                                       cv_s_i64 set, cv_s_i64 step, cv_s_i64 at, cv_s_i64 go)  \
    {                                                                                          \
        cv_s_##T best = s->started ? s->best : *from;                                          \
        cv_s_i64 found = s->started ? s->at : at;                                              \
        for (cv_s_i64 i = 0; i < n; i++) {                                                     \
            cv_s_##T x = from[i * step];                                                       \
            TAKE(CK_SCAN_##op(x, best), x, best, at + i * go, found)                           \
            to[i * put] = best;                                                                \
            index[i * set] = found;                                                            \
        }                                                                                      \
        s->best = best;                                                                        \
        s->at = found;                                                                         \
        s->started = 1;                                                                        \
    }

#define CK_DEFINE_DOWN_INDEX(op, T, M, BYTES, BEYOND)                                          \
    typedef struct {                                                                           \
        cv_##T best[CK_SCAN_STRIP / CV_LANES_##T];                                             \
        cv_s_i64 at[CK_SCAN_STRIP];                                                            \
    } ck_down_##op##_##T;                                                                      \
    CK_OUTLINE void ck_row_##op##_##T(ck_down_##op##_##T *s, cv_s_##T *to, cv_s_i64 *index,    \
                                      const cv_s_##T *from, cv_s_i64 n, cv_s_i64 r, int first) \
    {                                                                                          \
        for (cv_s_i64 k = 0; k * CV_LANES_##T < n; k++) {                                      \
            cv_s_i64 c = k * CV_LANES_##T, m = ck_least(n - c, CV_LANES_##T);                  \
            cv_##T x = m == CV_LANES_##T ? cv_load_##T(from + c) : cv_loadn_##T(from + c, m);  \
            cv_##T best = first ? x : s->best[k];                                              \
            cv_##M take = cv_not_##M(cv_##BEYOND##_##T(best, x));                              \
            if (cv_any_##M(take)) {                                                            \
                cv_s_u8 lane[CV_LANES_##T];                                                    \
                cv_storeb_##BYTES(lane, take);                                                 \
                best = cv_select_##T(take, x, best);                                           \
                for (cv_s_i64 l = 0; l < m; l++)                                               \
                    s->at[c + l] = lane[l] ? r : s->at[c + l];                                 \
            }                                                                                  \
            s->best[k] = best;                                                                 \
            if (m == CV_LANES_##T)                                                             \
                cv_store_##T(to + c, best);                                                    \
            else                                                                               \
                cv_storen_##T(to + c, best, m);                                                \
        }                                                                                      \
        __builtin_memcpy(index, s->at, (cv_s_u64)n * sizeof *index);                           \
    }

#endif
