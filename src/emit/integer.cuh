/* integer.cuh - matrix products of integers on an NVIDIA GPU, which its libraries lack.
 *
 * Follows move.cuh.  CI_ITEM is the type of elements.  Sums are those of unsigned numbers, in
 * which any order has the same bits.  A block of threads has a tile of the result and passes
 * tiles of the operands through shared memory. */
#ifndef CR_EMIT_INTEGER_CUH
#define CR_EMIT_INTEGER_CUH

#include "emit/move.cuh"

enum { CI_SIDE = 32, CI_ROWS = 4, CI_THREADS = CI_SIDE * CI_SIDE / CI_ROWS };

template <int bytes> struct ci_wide {
    typedef unsigned type;
};
template <> struct ci_wide<8> {
    typedef unsigned long long type;
};
typedef ci_wide<sizeof(CI_ITEM)>::type ci_sum;

/* c = beta c + alpha a b for each matrix of a batch: c has m rows and n columns, a has k
 * columns.  Steps are in elements. */
struct ci_call {
    CI_ITEM *c;
    const CI_ITEM *a, *b;
    cm_i64 m, n, k, batch, c_row, c_column, c_batch, a_row, a_column, a_batch, b_row, b_column,
        b_batch;
    unsigned long long alpha, beta;
};

typedef ci_sum ci_tile[CI_SIDE][CI_SIDE + 1];

/* Elements outside are zero. */
CV_FN void ci_load(ci_tile &to, const CI_ITEM *from, cm_i64 row, cm_i64 column, cm_i64 rows,
                   cm_i64 columns, cm_i64 row_step, cm_i64 column_step)
{
    const int x = ck_x() % CI_SIDE;

    for (int y = ck_x() / CI_SIDE; y < CI_SIDE; y += CI_SIDE / CI_ROWS)
        to[y][x] = row + y < rows && column + x < columns
                       ? (ci_sum)from[(row + y) * row_step + (column + x) * column_step]
                       : 0;
}

CK_KERNEL_OF(CI_THREADS, ci_product, ci_call)
{
    CK_SHARED ci_tile a, b;
    const cm_i64 across = (call.n + CI_SIDE - 1) / CI_SIDE;
    const cm_i64 tiles = across * ((call.m + CI_SIDE - 1) / CI_SIDE);
    const int x = ck_x() % CI_SIDE, y = ck_x() / CI_SIDE;

    for (cm_i64 u = CK_BLOCK_(x); u < tiles * call.batch; u += CK_BLOCKS_(x)) {
        const cm_i64 one = u / tiles, tile = u - one * tiles;
        const cm_i64 row = tile / across * CI_SIDE, column = tile % across * CI_SIDE;
        ci_sum sum[CI_ROWS] = {0, 0, 0, 0};
        for (cm_i64 k = 0; k < call.k; k += CI_SIDE) {
            ci_load(a, call.a + one * call.a_batch, row, k, call.m, call.k, call.a_row,
                    call.a_column);
            ci_load(b, call.b + one * call.b_batch, k, column, call.k, call.n, call.b_row,
                    call.b_column);
            __syncthreads();
            for (int i = 0; i < CI_SIDE; i++) {
                CV_ALL
                for (int r = 0; r < CI_ROWS; r++)
                    sum[r] += a[y + r * (CI_SIDE / CI_ROWS)][i] * b[i][x];
            }
            __syncthreads();
        }
        CV_ALL
        for (int r = 0; r < CI_ROWS; r++) {
            const cm_i64 i = row + y + r * (CI_SIDE / CI_ROWS);
            if (i >= call.m || column + x >= call.n)
                continue;
            CI_ITEM *const to =
                call.c + one * call.c_batch + i * call.c_row + (column + x) * call.c_column;
            const ci_sum was = call.beta ? (ci_sum)*to * (ci_sum)call.beta : 0;
            *to = (CI_ITEM)(was + sum[r] * (ci_sum)call.alpha);
        }
    }
}

#endif
