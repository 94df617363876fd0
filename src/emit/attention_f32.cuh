/* attention_f32.cuh - scaled dot product attention of float32 on an NVIDIA GPU.
 *
 * Follows scores.cuh.  CA_WIDTH is the width of a head, 32 or 64, to which narrower ones are
 * padded with zeros.  Products are of float32, as those of the composition.
 *
 * A block has a tile of 64 rows and loops over tiles of 64 columns; thread (x, y) of 16 x 8 has
 * rows 8 y to 8 y + 7 and every sixteenth column, from x on, of the scores, and of results the
 * columns CA_PART x and up.  Weights are turned as they go through shared memory, so that both
 * operands of the second product are read along its sum.  One pass over rows computes a
 * gradient, as in attention.cuh.  Where there is memory for them, the pass over keys keeps the
 * gradients of scores, of which one product more makes those of queries; otherwise another pass
 * computes them again.  They are the same, and so are the sums. */
#ifndef CR_EMIT_ATTENTION_F32_CUH
#define CR_EMIT_ATTENTION_F32_CUH

#include "emit/scores.cuh"

enum {
    CA_ROWS = 64,
    CA_ACROSS = 16, /* threads of a row */
    CA_EACH = 8,    /* rows of a thread */
    CA_COLUMNS = CA_ROWS / CA_ACROSS,
    CA_PART = CA_WIDTH / CA_ACROSS,
    CA_STEP = CA_WIDTH + 4,
    CA_TILE = CA_ROWS * CA_STEP + CA_ROWS / 2,
    CA_WEIGHTS_STEP = CA_ROWS + 4,
    CA_WEIGHTS = CA_ROWS * CA_WEIGHTS_STEP
};

struct alignas(16) ca_quad {
    float x[4];
};
struct alignas(CA_PART * sizeof(float)) ca_part {
    float x[CA_PART];
};

/* A row of a tile: eight rows further, the banks are four further. */
CV_FN int ca_row_at(int row) { return row * CA_STEP + row / 8 * 4; }
CV_FN int ca_across(void) { return ck_x() % CA_ACROSS; }
CV_FN int ca_first(void) { return ck_x() / CA_ACROSS * CA_EACH; }

/* Rows `first` ... of an array into a tile; zeros where there are none. */
CV_FN void ca_fill(float *tile, const char *at, cm_i64 step, int first, int n, int width)
{
    enum { QUADS = CA_WIDTH / 4 };

    CV_ALL
    for (int i = 0; i < CA_ROWS * QUADS / CA_THREADS; i++) {
        const int place = ck_x() + i * CA_THREADS, row = place / QUADS;
        const int column = place % QUADS * 4;
        float *const to = tile + ca_row_at(row) + column;
        if (first + row < n && column < width)
            ca_copy(to, at + (first + row) * step + column * 4);
        else
            *(ca_sixteen *)to = ca_sixteen{{0, 0, 0, 0}};
    }
}

/* s = left * right', of two tiles. */
CV_FN void ca_scores(float (*s)[CA_COLUMNS], const float *left, const float *right)
{
    CV_ALL
    for (int i = 0; i < CA_EACH; i++)
        CV_ALL
    for (int j = 0; j < CA_COLUMNS; j++)
        s[i][j] = 0;
    for (int k = 0; k < CA_WIDTH; k += 4) {
        ca_quad y[CA_COLUMNS];
        CV_ALL
        for (int j = 0; j < CA_COLUMNS; j++)
            y[j] = *(const ca_quad *)(right + ca_row_at(ca_across() + j * CA_ACROSS) + k);
        CV_ALL
        for (int i = 0; i < CA_EACH; i++) {
            const ca_quad x = *(const ca_quad *)(left + ca_row_at(ca_first() + i) + k);
            CV_ALL
            for (int j = 0; j < CA_COLUMNS; j++)
                CV_ALL
            for (int l = 0; l < 4; l++)
                s[i][j] = CV_FMAF(x.x[l], y[j].x[l], s[i][j]);
        }
    }
}

/* Turns weights: a column of them becomes a row. */
CV_FN void ca_turn(float *weights, const float (*s)[CA_COLUMNS])
{
    CV_ALL
    for (int j = 0; j < CA_COLUMNS; j++) {
        float *const to =
            weights + (ca_across() + j * CA_ACROSS) * CA_WEIGHTS_STEP + ca_first();
        CV_ALL
        for (int i = 0; i < CA_EACH; i += 4)
            *(ca_quad *)(to + i) = ca_quad{{s[i][j], s[i + 1][j], s[i + 2][j], s[i + 3][j]}};
    }
}

/* o += weights * right, of turned weights and a tile. */
CV_FN void ca_add(float (*o)[CA_PART], const float *weights, const float *right)
{
    for (int k = 0; k < CA_ROWS; k++) {
        const float *const w = weights + k * CA_WEIGHTS_STEP + ca_first();
        const ca_quad x[2] = {*(const ca_quad *)w, *(const ca_quad *)(w + 4)};
        const ca_part y = *(const ca_part *)(right + ca_row_at(k) + ca_across() * CA_PART);
        CV_ALL
        for (int i = 0; i < CA_EACH; i++)
            CV_ALL
        for (int j = 0; j < CA_PART; j++)
            o[i][j] = CV_FMAF(x[i / 4].x[i % 4], y.x[j], o[i][j]);
    }
}

CV_FN void ca_store(char *at, cm_i64 step, int first, int rows, int width,
                    const float (*o)[CA_PART], float by)
{
    CV_ALL
    for (int i = 0; i < CA_EACH; i++) {
        const int row = first + ca_first() + i;
        CV_ALL
        for (int j = 0; j < CA_PART; j++) {
            const int column = ca_across() * CA_PART + j;
            if (row < rows && column < width)
                *(float *)(at + row * step + column * 4) = o[i][j] * by;
        }
    }
}

/* Masks the scores of rows `row` ... and columns `column` ...; with KEYS rows are keys. */
template <bool KEYS>
CV_FN void ca_hide(const ca_call &c, float (*s)[CA_COLUMNS], const ca_where &w, int column)
{
    const int query = KEYS ? column : w.row, key = KEYS ? w.row : column;

    if (CA_MASK == CA_NONE && key + CA_ROWS <= c.keys && query + CA_ROWS <= c.queries &&
        (!c.causal || key + CA_ROWS - 1 <= query))
        return;
    CV_ALL
    for (int i = 0; i < CA_EACH; i++)
        CV_ALL
    for (int j = 0; j < CA_COLUMNS; j++) {
        const int r = w.row + ca_first() + i, d = column + ca_across() + j * CA_ACROSS;
        const float x = CA_MASK == CA_NONE ? s[i][j] : s[i][j] * (c.scale * CA_LOG2E);
        s[i][j] = ca_exponent(c, x, w.b, w.h, KEYS ? d : r, KEYS ? r : d);
    }
}

/* --- forward --- */

CV_FN float ca_row_most(float x)
{
    for (int by = CA_ACROSS / 2; by > 0; by /= 2)
        x = ca_most(x, ca_from_lane(x, (ck_x() % 32) ^ by));
    return x;
}
CV_FN float ca_row_sum(float x)
{
    for (int by = CA_ACROSS / 2; by > 0; by /= 2)
        x += ca_from_lane(x, (ck_x() % 32) ^ by);
    return x;
}

/* Weights of a row's scores against its new maximum. */
CV_FN void ca_weigh(float *s, float *o, float *most, float *sum, float factor)
{
    float high = *most, part = 0;

    CV_ALL
    for (int j = 0; j < CA_COLUMNS; j++)
        high = ca_most(high, s[j]);
    high = ca_row_most(high);
    const float base = high == -__builtin_inff() ? 0 : high, under = -base * factor;
    const float less = ca_exp2(CV_FMAF(*most, factor, under));
    CV_ALL
    for (int j = 0; j < CA_COLUMNS; j++) {
        s[j] = ca_exp2(CV_FMAF(s[j], factor, under));
        part += s[j];
    }
    *sum = CV_FMAF(*sum, less, part);
    *most = high;
    CV_ALL
    for (int j = 0; j < CA_PART; j++)
        o[j] *= less;
}

CV_FN void ca_end(const ca_call &c, const ca_where &w, const float *most, const float *sum,
                  float (*o)[CA_PART])
{
    CV_ALL
    for (int i = 0; i < CA_EACH; i++) {
        const float total = ca_row_sum(sum[i]),
                    by = total > 0 || total != total ? 1 / total : 0;
        const int row = w.row + ca_first() + i;
        CV_ALL
        for (int j = 0; j < CA_PART; j++)
            o[i][j] *= by;
        if (ca_across() == 0 && row < c.queries)
            c.lse[(w.b * c.heads + w.h) * c.queries + row] =
                total > 0 ? most[i] * ca_factor(c) * CA_LN2 + __builtin_logf(total)
                          : -__builtin_inff();
    }
    ca_store(ca_head(c.out, w.b, w.h), c.out.step[2], w.row, c.queries, c.width, o, 1);
}

/* The values of a tile come while its scores are computed, the next keys while the values are
 * multiplied. */
CK_KERNEL_OF(CK_AT_ONCE(CA_THREADS, 3), ca_forward, ca_call)
{
    float *const query = (float *)ck_dynamic, *const key = query + CA_TILE;
    float *const value = key + CA_TILE, *const weights = value + CA_TILE;
    const ca_where w = ca_block(CA_ROWS, call.queries, call.heads, call.causal);
    const cm_i64 kv = w.h / call.repeat;
    const char *k = ca_head(call.k, w.b, kv), *v = ca_head(call.v, w.b, kv);
    const int end = call.causal && w.row + CA_ROWS < call.keys ? w.row + CA_ROWS : call.keys;
    float s[CA_EACH][CA_COLUMNS], o[CA_EACH][CA_PART] = {}, most[CA_EACH], sum[CA_EACH] = {};

    CV_ALL
    for (int i = 0; i < CA_EACH; i++)
        most[i] = -__builtin_inff();
    ca_fill(query, ca_head(call.q, w.b, w.h), call.q.step[2], w.row, call.queries, call.width);
    ca_fill(key, k, call.k.step[2], 0, call.keys, call.width);
    ca_close();
    for (int at = 0; at < end; at += CA_ROWS) {
        ca_fill(value, v, call.v.step[2], at, call.keys, call.width);
        ca_close();
        ca_wait<1>();
        __syncthreads();
        ca_scores(s, query, key);
        ca_hide<false>(call, s, w, at);
        CV_ALL
        for (int i = 0; i < CA_EACH; i++)
            ca_weigh(s[i], o[i], &most[i], &sum[i], ca_factor(call));
        ca_turn(weights, s);
        __syncthreads();
        if (at + CA_ROWS < end)
            ca_fill(key, k, call.k.step[2], at + CA_ROWS, call.keys, call.width);
        ca_close();
        ca_wait<1>();
        __syncthreads();
        ca_add(o, weights, value);
        __syncthreads();
    }
    ca_end(call, w, most, sum, o);
}

/* --- backward --- */

/* What the block keeps, or the tile at `first`: of keys, their values, too; of queries, the
 * gradients of their results. */
CV_FN void ca_fetch(const ca_call &c, float *one, float *two, bool keys, cm_i64 b, cm_i64 h,
                    int first)
{
    const cm_i64 kv = h / c.repeat;
    const ca_array &x = keys ? c.k : c.q, &y = keys ? c.v : c.grad;
    const int n = keys ? c.keys : c.queries;

    ca_fill(one, ca_head(x, b, keys ? kv : h), x.step[2], first, n, c.width);
    ca_fill(two, ca_head(y, b, keys ? kv : h), y.step[2], first, n, c.width);
}

/* The ends of the exponents of 64 queries, and their deltas. */
CV_FN void ca_fetch_ends(const ca_call &c, float *ends, float *deltas, cm_i64 b, cm_i64 h,
                         int first)
{
    if (ck_x() < CA_ROWS) {
        const int query = first + ck_x();
        const cm_i64 at = (b * c.heads + h) * c.queries + query;
        ends[ck_x()] = query < c.queries ? ca_end_of(c.lse[at]) : __builtin_inff();
        deltas[ck_x()] = query < c.queries ? c.delta[at] : 0;
    }
}

/* The gradients of a tile of scores, key by key. */
CV_FN float *ca_kept_tile(const ca_call &c, cm_i64 b, cm_i64 h, int query, int key)
{
    const cm_i64 queries = (c.queries + CA_ROWS - 1) / CA_ROWS,
                 keys = (c.keys + CA_ROWS - 1) / CA_ROWS,
                 row = (b * c.heads + h) * queries + query / CA_ROWS;

    return c.kept + (row * keys + key / CA_ROWS) * CA_ROWS * CA_ROWS;
}

CV_FN void ca_keep(float *tile, const float (*s)[CA_COLUMNS])
{
    CV_ALL
    for (int i = 0; i < CA_EACH; i++)
        CV_ALL
    for (int j = 0; j < CA_COLUMNS; j++)
        tile[(ca_first() + i) * CA_ROWS + ca_across() + j * CA_ACROSS] = s[i][j];
}

/* The gradients of a tile of keys and values, or of queries. */
template <bool KEYS> CV_FN void ca_backward(const ca_call &c, float *ends, float *deltas)
{
    float *const one = (float *)ck_dynamic, *const two = one + CA_TILE;
    float *const left = two + CA_TILE, *const right = left + CA_TILE;
    float *const weights = right + CA_TILE, *const turned = weights + CA_WEIGHTS;
    const ca_where w = ca_block(CA_ROWS, KEYS ? c.keys : c.queries,
                                KEYS ? c.heads / c.repeat : c.heads, !KEYS && c.causal);
    const int columns = KEYS ? c.queries : c.keys, from = KEYS && c.causal ? w.row : 0;
    const int end = !KEYS && c.causal && w.row + CA_ROWS < columns ? w.row + CA_ROWS : columns;
    const float factor = ca_factor(c);
    float s[CA_EACH][CA_COLUMNS], p[CA_EACH][CA_COLUMNS];
    float a[CA_EACH][CA_PART] = {}, o[KEYS ? CA_EACH : 1][CA_PART] = {};

    ca_fetch(c, one, two, KEYS, w.b, KEYS ? w.h * c.repeat : w.h, w.row);
    if (!KEYS)
        ca_fetch_ends(c, ends, deltas, w.b, w.h, w.row);
    for (int r = 0; r < (KEYS ? (int)c.repeat : 1); r++)
        for (int at = from; at < end; at += CA_ROWS) {
            const ca_where head = {w.row, w.b, KEYS ? w.h * c.repeat + r : w.h};
            ca_fetch(c, left, right, !KEYS, head.b, head.h, at);
            if (KEYS)
                ca_fetch_ends(c, ends, deltas, head.b, head.h, at);
            ca_close();
            ca_wait<0>();
            __syncthreads();
            ca_scores(s, one, left);
            ca_scores(p, two, right);
            ca_hide<KEYS>(c, s, head, at);
            CV_ALL
            for (int i = 0; i < CA_EACH; i++)
                CV_ALL
            for (int j = 0; j < CA_COLUMNS; j++) {
                const int query = KEYS ? ca_across() + j * CA_ACROSS : ca_first() + i;
                const float weight = ca_exp2(CV_FMAF(s[i][j], factor, -ends[query]));
                s[i][j] = weight * (p[i][j] - deltas[query]);
                p[i][j] = weight;
            }
            if (KEYS && c.kept)
                ca_keep(ca_kept_tile(c, head.b, head.h, at, w.row), s);
            ca_turn(weights, s);
            if (KEYS)
                ca_turn(turned, p);
            __syncthreads();
            ca_add(a, weights, left);
            if (KEYS)
                ca_add(o, turned, right);
            __syncthreads();
        }
    const ca_array &to = KEYS ? c.gk : c.gq;
    ca_store(ca_head(to, w.b, w.h), to.step[2], w.row, KEYS ? c.keys : c.queries, c.width, a,
             c.scale);
    if (KEYS)
        ca_store(ca_head(c.gv, w.b, w.h), c.gv.step[2], w.row, c.keys, c.width, o, 1);
}

CK_KERNEL_OF(CA_THREADS, ca_keys, ca_call)
{
    CK_SHARED float ends[CA_ROWS], deltas[CA_ROWS];
    ca_backward<true>(call, ends, deltas);
}
CK_KERNEL_OF(CA_THREADS, ca_queries, ca_call)
{
    CK_SHARED float ends[CA_ROWS], deltas[CA_ROWS];
    ca_backward<false>(call, ends, deltas);
}

/* A tile of keys, and the kept gradients of its scores. */
CV_FN void ca_fetch_kept(const ca_call &c, float *weights, float *key, const ca_where &w,
                         int at)
{
    const float *const tile = ca_kept_tile(c, w.b, w.h, w.row, at);

    ca_fill(key, ca_head(c.k, w.b, w.h / c.repeat), c.k.step[2], at, c.keys, c.width);
    CV_ALL
    for (int i = 0; i < CA_ROWS * CA_ROWS / 4 / CA_THREADS; i++) {
        const int place = (ck_x() + i * CA_THREADS) * 4, row = place / CA_ROWS;
        ca_copy(weights + row * CA_WEIGHTS_STEP + place % CA_ROWS, tile + place);
    }
}

/* The gradients of queries from those of scores.  A tile comes while the one before it is
 * multiplied. */
CK_KERNEL_OF(CA_THREADS, ca_kept, ca_call)
{
    float *const weights = (float *)ck_dynamic, *const key = weights + 2 * CA_WEIGHTS;
    const ca_where w = ca_block(CA_ROWS, call.queries, call.heads, call.causal);
    const int end = call.causal && w.row + CA_ROWS < call.keys ? w.row + CA_ROWS : call.keys;
    float a[CA_EACH][CA_PART] = {};
    int now = 0;

    ca_fetch_kept(call, weights, key, w, 0);
    ca_close();
    for (int at = 0; at < end; at += CA_ROWS, now ^= 1) {
        if (at + CA_ROWS < end)
            ca_fetch_kept(call, weights + (now ^ 1) * CA_WEIGHTS, key + (now ^ 1) * CA_TILE, w,
                          at + CA_ROWS);
        ca_close();
        ca_wait<1>();
        __syncthreads();
        ca_add(a, weights + now * CA_WEIGHTS, key + now * CA_TILE);
        __syncthreads();
    }
    ca_store(ca_head(call.gq, w.b, w.h), call.gq.step[2], w.row, call.queries, call.width, a,
             call.scale);
}

#endif
