/* Products of matrices and convolutions, by the functions of exported C files. */
#include "rt/words.h"

/* Tiles of one panel: a call's scratch memory is the same on all processors. */
#define CV_WIDE 1

#include "compile/file/matrix.inc"

#include "compile/file/convolve.inc"

#include "compile/file/alone.inc"

#include "compile/file/spread.inc"

#include "compile/file/weigh.inc"

#include "rt_matrix_f64.inc"

#include "rt_convolve_f64.inc"

#include "rt_alone_f64.inc"

#include "rt_spread_f64.inc"

#include "rt_weigh_f64.inc"

#include "rt/rt.h"

/* --- products --- */

#define RT_PRODUCT_CALL(T, t)                                                                  \
    static void product_##t(const rt_memory *m, const int64_t *c, const int64_t *move)         \
    {                                                                                          \
        cv_matrix_##t x;                                                                       \
                                                                                               \
        memset(&x, 0, sizeof x);                                                               \
        x.n = c[RT_PRODUCT_N];                                                                 \
        x.m = c[RT_PRODUCT_M];                                                                 \
        x.depth = c[RT_PRODUCT_DEPTH];                                                         \
        x.out = (T *)(void *)rt_reach(m, c[RT_PRODUCT_OUT]) + move[0];                         \
        x.on = c[RT_PRODUCT_ON];                                                               \
        x.om = c[RT_PRODUCT_OM];                                                               \
        x.a = (const T *)(void *)rt_reach(m, c[RT_PRODUCT_A]) + move[1];                       \
        x.ap = 12 * c[RT_PRODUCT_AN];                                                          \
        x.an = c[RT_PRODUCT_AN];                                                               \
        x.ak = c[RT_PRODUCT_AK];                                                               \
        x.b = (const T *)(void *)rt_reach(m, c[RT_PRODUCT_B]) + move[2];                       \
        x.bp = 16 * c[RT_PRODUCT_BM];                                                          \
        x.bm = c[RT_PRODUCT_BM];                                                               \
        x.bk = c[RT_PRODUCT_BK];                                                               \
        if (c[RT_PRODUCT_BIAS])                                                                \
            x.bias = (const T *)(void *)rt_reach(m, c[RT_PRODUCT_BIAS]) + move[3];             \
        x.cn = c[RT_PRODUCT_CN];                                                               \
        x.cm = c[RT_PRODUCT_CM];                                                               \
        cv_multiply_##t(&x, (T *)(void *)rt_reach(m, c[RT_PRODUCT_SCRATCH]));                  \
    }

RT_PRODUCT_CALL(float, f32)
RT_PRODUCT_CALL(double, f64)

void rt_run_product(const rt_memory *m, const int64_t *c)
{
    int64_t ndim = c[RT_PRODUCT_NDIM], at[RT_MOST_DIMS] = {0}, move[4] = {0}, d, back;
    const int64_t *size = c + RT_PRODUCT_WORDS;
    int k;

    for (;;) {
        if (c[RT_PRODUCT_DTYPE] == CR_RT_F32 && RT_USE(product_f32))
            product_f32(m, c, move);
        if (c[RT_PRODUCT_DTYPE] == CR_RT_F64 && RT_USE(product_f64))
            product_f64(m, c, move);
        for (d = ndim - 1; d >= 0; d--) {
            back = ++at[d] < size[d] ? 1 : 1 - size[d];
            for (k = 0; k < 4; k++)
                move[k] += back * size[(k + 1) * ndim + d];
            if (back == 1)
                break;
            at[d] = 0;
        }
        if (d < 0)
            return;
    }
}

/* --- convolutions --- */

#define RT_CONVOLVE_CALL(T, t)                                                                 \
    static void convolve_##t(const rt_memory *m, int kind, const int64_t *c)                   \
    {                                                                                          \
        const int64_t *n = c + RT_CONVOLVE_NUMBERS;                                            \
        const cv_convolution_##t g = {n[0],                                                    \
                                      n[1],                                                    \
                                      n[2],                                                    \
                                      n[3],                                                    \
                                      n[4],                                                    \
                                      n[5],                                                    \
                                      n[6],                                                    \
                                      n[7],                                                    \
                                      n[8],                                                    \
                                      n[9],                                                    \
                                      n[10],                                                   \
                                      n[11],                                                   \
                                      n[12],                                                   \
                                      n[13],                                                   \
                                      n[14],                                                   \
                                      n[15],                                                   \
                                      {n[16], n[17], n[18], n[19]},                            \
                                      {n[20], n[21], n[22], n[23]},                            \
                                      0};                                                      \
                                                                                               \
        T *out = (T *)(void *)rt_reach(m, c[RT_CONVOLVE_OUT]),                                 \
          *x = (T *)(void *)rt_reach(m, c[RT_CONVOLVE_X]),                                     \
          *w = (T *)(void *)rt_reach(m, c[RT_CONVOLVE_W]),                                     \
          *bias = c[RT_CONVOLVE_BIAS] ? (T *)(void *)rt_reach(m, c[RT_CONVOLVE_BIAS]) : NULL;  \
        void *scratch = rt_reach(m, c[RT_CONVOLVE_SCRATCH]);                                   \
                                                                                               \
        if (kind == RT_CONVOLVE && RT_USE(convolve_##t))                                       \
            cv_convolve_##t(&g, out, x, w, bias, scratch);                                     \
        if (kind == RT_SPREAD && RT_USE(spread_##t))                                           \
            cv_spread_##t(&g, x, out, w, bias, scratch);                                       \
        if (kind == RT_WEIGH && RT_USE(weigh_##t))                                             \
            cv_weigh_##t(&g, w, out, x, scratch);                                              \
    }

RT_CONVOLVE_CALL(float, f32)
RT_CONVOLVE_CALL(double, f64)

void rt_run_convolution(const rt_memory *m, const int64_t *c)
{
    int kind = (int)(c[0] & 255);

    if (c[1 + RT_CONVOLVE_DTYPE] == CR_RT_F32)
        convolve_f32(m, kind, c + 1);
    else
        convolve_f64(m, kind, c + 1);
}
