/* product_f32.cuh - matrix products of float32 on the tensor cores of an NVIDIA GPU.
 *
 * Follows matrix.cuh.  A number is the sum of three bfloat16 numbers, its parts, which have all
 * of its 24 bits.  Of the nine products of parts the six largest are added; the others are
 * below 2^-26 of the whole.  Tensor cores add them for 16 columns of a, the smallest first;
 * these sums are added in float32, rounded to nearest.  So a result is nearer to the exact one
 * than that of a sum of float32 products.  A NaN may come from the parts of an infinity, and an
 * infinity from parts whose product is larger than that of the numbers, so such a result is
 * computed again, from products of float32.
 *
 * CF_ROWS x CF_COLUMNS is the tile of a block of threads, CF_OWN_ROWS x CF_OWN_COLUMNS that of
 * a warp.  CF_A_DEEP and CF_B_DEEP: an operand's elements are adjacent along the dim that is
 * summed over, else along its other dim.  CF_WIDE: how many adjacent elements are at aligned
 * addresses, 1, 2 or 4. */
#ifndef CR_EMIT_PRODUCT_F32_CUH
#define CR_EMIT_PRODUCT_F32_CUH

#include "emit/matrix.cuh"

CK_DYNAMIC;

enum {
    CF_PARTS = 3,
    CF_WARPS_ACROSS = CF_COLUMNS / CF_OWN_COLUMNS,
    CF_THREADS = CF_ROWS / CF_OWN_ROWS * CF_WARPS_ACROSS * 32,
    CF_MS = CF_OWN_ROWS / 16,
    CF_NS = CF_OWN_COLUMNS / 8,
    CF_GROUP = 8 /* rows of tiles that neighbouring blocks share */
};

/* c = beta c + alpha a b + bias for each matrix of a batch.  a has m rows and k columns; `step`
 * is the distance of lines of adjacent elements.  With more than one split, split s adds up
 * columns s * split_k ... and stores its sums at `sums`. */
struct cf_call {
    float *c;
    const float *a, *b, *bias;
    cm_i64 a_step, b_step, c_step, a_batch, b_batch, c_batch, m, n, k, batch;
    float alpha, beta;
    int index, a_deep, b_deep;
    float *sums;
    int splits, split_k;
};

typedef unsigned short cf_half;
struct __attribute__((aligned(4 * CF_WIDE), may_alias)) cf_wide {
    float of[CF_WIDE];
};
struct __attribute__((aligned(8), may_alias)) cf_words {
    unsigned of[2];
};

#define CF_FN inline __attribute__((device, always_inline))

/* A tile of an operand: `lines` rows of a or columns of b. */
template <int lines, bool deep> struct cf_operand {
    enum {
        STEP = deep ? CF_DEPTH + 8 : lines + 8, /* 8 lines are in different banks */
        HALVES = (deep ? lines : CF_DEPTH) * STEP,
        ACROSS = (deep ? CF_DEPTH : lines) / 4,
        COPIES = lines * CF_DEPTH / 4 / CF_THREADS
    };
    float x[COPIES][4];

    /* Reads elements of columns k ... of `n` lines from line `first`; elements that the array
     * lacks, and those of columns from `end` on, are zero. */
    CF_FN void read(const float *at, cm_i64 step, int first, int n, int k, int end)
    {
        enum { APART = CF_THREADS / ACROSS };
        const int along = ck_x() % ACROSS * 4, over = ck_x() / ACROSS;
        const int along_end = (deep ? end - k : n - first) - along;
        int over_end = (deep ? n - first : end - k) - over;

        at += deep ? (first + over) * step + k + along : (k + over) * step + first + along;
        CV_ALL
        for (int i = 0; i < COPIES; i++, at += APART * step, over_end -= APART)
            CV_ALL
        for (int e = 0; e < 4; e += CF_WIDE) {
            cf_wide found = {{0}};
            if (over_end > 0 && e < along_end)
                found = *(const cf_wide *)(at + e);
            CV_ALL
            for (int j = 0; j < CF_WIDE; j++)
                x[i][e + j] = found.of[j];
        }
    }
    /* Stores the parts of the elements that were read. */
    CF_FN void store(cf_half *tile)
    {
        tile += ck_x() / ACROSS * STEP + ck_x() % ACROSS * 4;
        CV_ALL
        for (int i = 0; i < COPIES; i++)
            CV_ALL
        for (int part = 0; part < CF_PARTS; part++) {
            cf_words w;
            CV_ALL
            for (int j = 0; j < 2; j++) {
                float *y = &x[i][2 * j];
                w.of[j] = ca_round(y[0], y[1], cm_bf16());
                if (part + 1 == CF_PARTS)
                    continue;
                y[0] -= ck_float(w.of[j] << 16);
                y[1] -= ck_float(w.of[j] & 0xffff0000u);
            }
            *(cf_words *)(tile + part * HALVES + i * (CF_THREADS / ACROSS) * STEP) = w;
        }
    }
    /* Where a lane reads of the left operands at a line: 16 x 16 elements of a tile. */
    static CF_FN ca_place left(const cf_half *tile, int line)
    {
        const int lane = ck_x() % 32;
        return ca_place_of(deep ? tile + (line + lane % 16) * STEP + lane / 16 * 8
                                : tile + (lane / 16 * 8 + lane % 8) * STEP + line +
                                      lane / 8 % 2 * 8);
    }
    /* The same of right operands, two for 16 lines. */
    static CF_FN ca_place right(const cf_half *tile, int line)
    {
        const int lane = ck_x() % 32;
        return ca_place_of(
            deep ? tile + (line + lane / 16 * 8 + lane % 8) * STEP + lane / 8 % 2 * 8
                 : tile + (lane / 8 % 2 * 8 + lane % 8) * STEP + line + lane / 16 * 8);
    }
    static CF_FN void load(unsigned *r, ca_place first, int part, int line, int column)
    {
        const int at = part * HALVES + (deep ? line * STEP + column : column * STEP + line);
        if (deep)
            ca_load_at(r, first + at * (int)sizeof(cf_half));
        else
            ca_load_turned_at(r, first + at * (int)sizeof(cf_half));
    }
};
typedef cf_operand<CF_ROWS, CF_A_DEEP> cf_a;
typedef cf_operand<CF_COLUMNS, CF_B_DEEP> cf_b;

/* Adds the products of tiles in shared memory to the sums of a warp. */
CV_FN void cf_multiply(float (*sum)[CF_NS][4], ca_place a, ca_place b)
{
    CV_ALL
    for (int k = 0; k < CF_DEPTH; k += 16) {
        unsigned right[CF_PARTS][CF_NS][2];
        CV_ALL
        for (int part = 0; part < CF_PARTS; part++)
            CV_ALL
        for (int j = 0; j < CF_NS; j += 2)
            cf_b::load(right[part][j], b, part, 8 * j, k);
        CV_ALL
        for (int i = 0; i < CF_MS; i++) {
            unsigned left[CF_PARTS][4];
            float some[CF_NS][4];
            CV_ALL
            for (int part = 0; part < CF_PARTS; part++)
                cf_a::load(left[part], a, part, 16 * i, k);
            CV_ALL
            for (int j = 0; j < CF_NS; j++)
                some[j][0] = some[j][1] = some[j][2] = some[j][3] = 0;
            CV_ALL
            for (int total = CF_PARTS - 1; total >= 0; total--)
                CV_ALL
            for (int part = total; part >= 0; part--)
                CV_ALL
            for (int j = 0; j < CF_NS; j++)
                ca_multiply(some[j], left[part], right[total - part][j], cm_bf16());
            CV_ALL
            for (int j = 0; j < CF_NS; j++)
                CV_ALL
            for (int e = 0; e < 4; e++)
                sum[i][j][e] += some[j][e];
        }
    }
}

CV_FN void cf_put(const cf_call &call, cm_i64 at, int column, float x)
{
    if (call.splits > 1) {
        call.sums[at] = x;
        return;
    }
    x *= call.alpha;
    if (call.bias)
        x += call.bias[column];
    call.c[at] = call.beta ? x + call.beta * call.c[at] : x;
}

/* A thread's numbers of the result from products of float32. */
__attribute__((device, noinline)) static void cf_exact(const cf_call &call, const float *a,
                                                       const float *b, cm_i64 first,
                                                       cm_i64 c_step, int r0, int s0, int begin,
                                                       int end)
{
    const cm_i64 a_line = CF_A_DEEP ? call.a_step : 1, a_k = CF_A_DEEP ? 1 : call.a_step;
    const cm_i64 b_line = CF_B_DEEP ? call.b_step : 1, b_k = CF_B_DEEP ? 1 : call.b_step;

    CV_LOOP
    for (int r = r0; r < r0 + CF_OWN_ROWS && r < call.m; r += 8)
        CV_LOOP
    for (int j = 0; j < 2 * CF_NS; j++) {
        const int s = s0 + j / 2 * 8 + j % 2;
        float sum = 0;
        if (s >= call.n)
            break;
        CV_LOOP
        for (int k = begin; k < end && sum == sum; k++)
            sum = __builtin_fmaf(a[r * a_line + k * a_k], b[s * b_line + k * b_k], sum);
        cf_put(call, first + r * c_step + s, s, sum);
    }
}

CK_KERNEL_OF(CK_AT_ONCE(CF_THREADS, CF_BLOCKS), cf_product, cf_call)
{
    enum { STAGE = CF_PARTS * (cf_a::HALVES + cf_b::HALVES) };
    cf_half *const tile = (cf_half *)ck_dynamic;
    const int m = (int)call.m, n = (int)call.n;
    const int down = (m + CF_ROWS - 1) / CF_ROWS;
    const int across = (n + CF_COLUMNS - 1) / CF_COLUMNS;
    const int lane = ck_x() % 32, warp = ck_x() / 32;
    const int own_row = warp / CF_WARPS_ACROSS * CF_OWN_ROWS;
    const int own_column = warp % CF_WARPS_ACROSS * CF_OWN_COLUMNS;
    int block = CK_BLOCK_(x) % (down * across);
    const int rest = CK_BLOCK_(x) / (down * across);
    const int split = rest % call.splits, one = rest / call.splits;

    /* Tiles go down CF_GROUP rows of tiles before they go across. */
    const int group = block / (CF_GROUP * across) * CF_GROUP;
    const int high = down - group < CF_GROUP ? down - group : CF_GROUP;
    block -= group * across;
    const int row = (group + block % high) * CF_ROWS, column = block / high * CF_COLUMNS;
    const int begin = split * call.split_k;
    const int end = (int)call.k - begin < call.split_k ? (int)call.k : begin + call.split_k;
    const float *const at_a = call.a + one * call.a_batch, *const at_b =
                                                               call.b + one * call.b_batch;

    float sum[CF_MS][CF_NS][4];
    cf_a a;
    cf_b b;
    CV_ALL
    for (int i = 0; i < CF_MS; i++)
        CV_ALL
    for (int j = 0; j < CF_NS; j++)
        sum[i][j][0] = sum[i][j][1] = sum[i][j][2] = sum[i][j][3] = 0;
    a.read(at_a, call.a_step, row, m, begin, end);
    b.read(at_b, call.b_step, column, n, begin, end);
    const ca_place left = cf_a::left(tile, own_row);
    const ca_place right = cf_b::right(tile + CF_PARTS * cf_a::HALVES, own_column);
    CV_LOOP
    for (int k = begin, stage = 0; k < end;
         k += CF_DEPTH, stage = CF_STAGES == 2 ? !stage : 0) {
        cf_half *const at = tile + stage * STAGE;
        const int next = k + CF_DEPTH;
        if (CF_STAGES == 1 && k > begin)
            __syncthreads();
        a.store(at);
        b.store(at + CF_PARTS * cf_a::HALVES);
        __syncthreads();
        if (next < end) {
            a.read(at_a, call.a_step, row, m, next, end);
            b.read(at_b, call.b_step, column, n, next, end);
        }
        cf_multiply(sum, left + stage * (STAGE * 2), right + stage * (STAGE * 2));
    }

    const int r0 = row + own_row + lane / 4, s0 = column + own_column + lane % 4 * 2;
    const cm_i64 c_step = call.splits > 1 ? call.n : call.c_step;
    const cm_i64 first = call.splits > 1 ? rest * (call.m * call.n) : one * call.c_batch;
    bool odd = false;
    CV_ALL
    for (int i = 0; i < CF_MS; i++)
        CV_ALL
    for (int j = 0; j < CF_NS; j++)
        CV_ALL
    for (int e = 0; e < 4; e++)
        odd |= !(sum[i][j][e] >= -3.40282347e38f && sum[i][j][e] <= 3.40282347e38f);
    if (odd) {
        cf_exact(call, at_a, at_b, first, c_step, r0, s0, begin, end);
        return;
    }
    CV_ALL
    for (int i = 0; i < 2 * CF_MS; i++)
        CV_ALL
    for (int j = 0; j < CF_NS; j++) {
        const int r = r0 + 8 * i, s = s0 + 8 * j;
        const float *x = &sum[i / 2][j][i % 2 * 2];
        if (r < m && s < n)
            cf_put(call, first + r * c_step + s, s, x[0]);
        if (r < m && s + 1 < n)
            cf_put(call, first + r * c_step + s + 1, s + 1, x[1]);
    }
}

/* The sums of all splits, one after the other. */
CK_KERNEL_OF(256, cf_join, cf_call)
{
    const cm_i64 matrix = call.m * call.n;
    cf_call one = call;

    one.splits = 1;
    for (cm_i64 u = CK_BLOCK_(x) * 256ll + ck_x(); u < matrix * call.batch;
         u += CK_BLOCKS_(x) * 256ll) {
        const cm_i64 n = u / matrix, i = u - n * matrix;
        const cm_i64 row = i / call.n, column = i - row * call.n;
        const float *from = call.sums + n * call.splits * matrix + i;
        float x = from[0];
        for (int s = 1; s < call.splits; s++)
            x += from[s * matrix];
        cf_put(one, n * call.c_batch + row * call.c_step + column, (int)column, x);
    }
}

#endif
