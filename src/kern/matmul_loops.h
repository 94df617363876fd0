/* matmul_loops.h - the plain product for one element type, included once per type.
 *
 * Before inclusion: T the element type, NAME(x) the suffixed name, and for complex
 * types T_MULADD(acc, a, b), T_SCALE(s, x), T_ADD(x, y).
 *
 * Columns are taken sixteen at a time so that the sums stay in registers; each sum
 * runs over k in order. */

#ifndef T_MULADD
#define T_MULADD(acc, a, b) ((T)((acc) + (a) * (b)))
#define T_SCALE(s, x)       ((T)((s) * (x)))
#define T_ADD(x, y)         ((T)((x) + (y)))
#define T_PLAIN
#endif

/* out[0..width) = row a times `width` columns of b. */
static inline void NAME(columns)(T *restrict out, const T *a, int64_t a_step, const T *b,
                                 int64_t b_row, int64_t k, const int width)
{
    T acc[16];

    memset(acc, 0, sizeof acc);
    for (int64_t p = 0; p < k; p++) {
        T x = a[p * a_step];
        const T *row = b + p * b_row;

        for (int j = 0; j < width; j++)
            acc[j] = T_MULADD(acc[j], x, row[j]);
    }
    for (int j = 0; j < width; j++)
        out[j] = acc[j];
}

static inline void NAME(store)(T *c, const T *sum, int64_t n, T alpha, T beta, bool plain,
                               bool keep)
{
    if (plain) {
        memcpy(c, sum, (size_t)n * sizeof *c);
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        T x = T_SCALE(alpha, sum[j]);
        c[j] = keep ? T_ADD(x, T_SCALE(beta, c[j])) : x;
    }
}

/* Rows [begin, end) of c; b has unit column stride. */
static void NAME(rows)(const cr_gemm *g, int64_t begin, int64_t end, T alpha, T beta, bool plain,
                       bool keep)
{
    const T *b = (const T *)(const void *)g->b.data;
    T sum[16];

    for (int64_t i = begin; i < end; i++) {
        const T *a = (const T *)(const void *)g->a.data + i * g->a.row;
        T *c = (T *)(void *)g->c.data + i * g->c.row;
        int64_t j = 0;

        for (; j + 16 <= g->n; j += 16) {
            NAME(columns)(sum, a, g->a.col, b + j, g->b.row, g->k, 16);
            NAME(store)(c + j, sum, 16, alpha, beta, plain, keep);
        }
        for (; j + 4 <= g->n; j += 4) {
            NAME(columns)(sum, a, g->a.col, b + j, g->b.row, g->k, 4);
            NAME(store)(c + j, sum, 4, alpha, beta, plain, keep);
        }
        for (; j < g->n; j++) {
            NAME(columns)(sum, a, g->a.col, b + j, g->b.row, g->k, 1);
            NAME(store)(c + j, sum, 1, alpha, beta, plain, keep);
        }
    }
}

/* b^T with unit row stride is read against the grain; this turns it. */
static void NAME(turn)(char *to, const cr_gemm *g)
{
    T *out = (T *)(void *)to;
    const T *b = (const T *)(const void *)g->b.data;

    for (int64_t p = 0; p < g->k; p++)
        for (int64_t j = 0; j < g->n; j++)
            out[p * g->n + j] = b[p * g->b.row + j * g->b.col];
}

#ifdef T_PLAIN
#undef T_MULADD
#undef T_SCALE
#undef T_ADD
#undef T_PLAIN
#endif
#undef T
#undef NAME
