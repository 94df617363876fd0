/* attention.cuh - scaled dot product attention of half types on an NVIDIA GPU.
 *
 * Follows scores.cuh.  CA_ITEM is cm_f16 or cm_bf16, CA_WIDTH the width of a head, 64 or 128,
 * to which narrower ones are padded with zeros.
 *
 * A block has four warps, and a warp one or two groups of 16 rows of the block's tile: an
 * operand that is loaded is multiplied with the rows of both.  Scores are never stored: the
 * forward pass keeps a running maximum and sum of each row, and the backward pass computes the
 * scores again from the logarithm of that sum.  Products are instructions of tensor cores,
 * which add in float32; weights are rounded to the half type before they meet the values, as in
 * the composition.  One pass over rows computes a gradient, so no two blocks add to one element
 * and results do not change from call to call. */
#ifndef CR_EMIT_ATTENTION_CUH
#define CR_EMIT_ATTENTION_CUH

#include "emit/scores.cuh"

enum {
    CA_GROUPS = CA_WIDTH == 64 ? 2 : 1,
    CA_OWN = 16 * CA_GROUPS, /* rows of a warp */
    CA_ROWS = 4 * CA_OWN,
    CA_STEP = CA_WIDTH + 8, /* of a tile in shared memory: rows are in different banks */
    CA_KS = CA_WIDTH / 16,
    CA_NS = CA_WIDTH / 8,
    /* Rows of the tiles over which a block loops, and how many of them are in shared memory. */
    CA_FORWARD = 64,
    CA_BACKWARD = CA_WIDTH == 64 ? 32 : 16,
    CA_STAGES = 2
};

/* --- matrices of a warp --- */

CV_FN unsigned ca_pair(float low, float high, cm_bf16) { return ck_pair_bf16(low, high); }
CV_FN unsigned ca_pair(float low, float high, cm_f16) { return ck_pair_f16(low, high); }

/* Over the four lanes that have a row. */
CV_FN float ca_row_most(float x)
{
    const int lane = ck_x() % 32;
    x = ca_most(x, ca_from_lane(x, lane ^ 1));
    return ca_most(x, ca_from_lane(x, lane ^ 2));
}
CV_FN float ca_row_sum(float x)
{
    const int lane = ck_x() % 32;
    x += ca_from_lane(x, lane ^ 1);
    return x + ca_from_lane(x, lane ^ 2);
}

typedef unsigned short ca_row[CA_STEP];

/* Rows `first` ... of an array into a tile; zeros where there are none. */
template <int rows>
CV_FN void ca_fill(ca_row *tile, const char *at, cm_i64 step, int first, int n, int width)
{
    enum { APART = CA_THREADS / CA_NS, COPIES = rows / APART };
    const int row = ck_x() / CA_NS, column = ck_x() % CA_NS * 8;
    const int end = column < width ? n - first - row : 0;
    const ca_place to = ca_place_of(&tile[row][column]);

    at += (first + row) * step + column * 2;
    CV_ALL
    for (int i = 0; i < COPIES; i++, at += APART * step)
        ca_copy_or_zero(to + i * APART * (int)sizeof(ca_row), at, i * APART < end);
}

/* The 16 x 16 left operand at (row, column) of a tile. */
CV_FN void ca_left(unsigned *a, const ca_row *tile, int row, int column)
{
    const int lane = ck_x() % 32;
    ca_load(a, &tile[row + lane % 16][column + lane / 16 * 8]);
}
/* Two right operands of products with the tile's rows turned into columns: rows `row` to
 * row + 15, for 16 columns that are summed over. */
CV_FN void ca_right(unsigned *b, const ca_row *tile, int row, int column)
{
    const int lane = ck_x() % 32;
    ca_load(b, &tile[row + lane / 16 * 8 + lane % 8][column + lane / 8 % 2 * 8]);
}
/* Two right operands of products that sum over the tile's rows. */
CV_FN void ca_right_turned(unsigned *b, const ca_row *tile, int row, int column)
{
    const int lane = ck_x() % 32;
    ca_load_turned(b, &tile[row + lane / 8 % 2 * 8 + lane % 8][column + lane / 16 * 8]);
}

/* s = left * right', where `left` has the warp's rows from `row` on, and `right` n rows. */
template <int n>
CV_FN void ca_scores(float (*s)[n / 8][4], const ca_row *left, int row, const ca_row *right)
{
    CV_ALL
    for (int g = 0; g < CA_GROUPS; g++)
        CV_ALL
    for (int j = 0; j < n / 8; j++)
        s[g][j][0] = s[g][j][1] = s[g][j][2] = s[g][j][3] = 0;
    CV_ALL
    for (int k = 0; k < CA_KS; k++) {
        unsigned a[CA_GROUPS][4], b[4];
        CV_ALL
        for (int g = 0; g < CA_GROUPS; g++)
            ca_left(a[g], left, row + g * 16, k * 16);
        CV_ALL
        for (int j = 0; j < n / 8; j += 2) {
            ca_right(b, right, j * 8, k * 16);
            CV_ALL
            for (int g = 0; g < CA_GROUPS; g++) {
                ca_multiply(s[g][j], a[g], b, CA_ITEM());
                ca_multiply(s[g][j + 1], a[g], b + 2, CA_ITEM());
            }
        }
    }
}

/* o += p * right, where p is a result of ca_scores, rounded. */
template <int n>
CV_FN void ca_add(float (*o)[CA_NS][4], const float (*p)[n / 8][4], const ca_row *right)
{
    CV_ALL
    for (int k = 0; k < n / 16; k++) {
        unsigned a[CA_GROUPS][4];
        CV_ALL
        for (int g = 0; g < CA_GROUPS; g++)
            CV_ALL
        for (int i = 0; i < 4; i++)
            a[g][i] = ca_round(p[g][2 * k + i / 2][i % 2 * 2],
                               p[g][2 * k + i / 2][i % 2 * 2 + 1], CA_ITEM());
        CV_ALL
        for (int j = 0; j < CA_NS; j += 2) {
            unsigned b[4];
            ca_right_turned(b, right, k * 16, j * 8);
            CV_ALL
            for (int g = 0; g < CA_GROUPS; g++) {
                ca_multiply(o[g][j], a[g], b, CA_ITEM());
                ca_multiply(o[g][j + 1], a[g], b + 2, CA_ITEM());
            }
        }
    }
}

/* Writes 16 rows of results, each times its factor. */
CV_FN void ca_store(char *at, cm_i64 step, int row, int rows, int width, const float (*o)[4],
                    float first, float second)
{
    const int lane = ck_x() % 32;

    CV_ALL
    for (int half = 0; half < 2; half++) {
        const int r = row + lane / 4 + half * 8;
        const float by = half ? second : first;
        if (r >= rows)
            continue;
        CV_ALL
        for (int j = 0; j < CA_NS; j++) {
            const int column = j * 8 + lane % 4 * 2;
            if (column < width)
                *(unsigned *)(at + r * step + column * 2) =
                    ca_pair(o[j][half * 2] * by, o[j][half * 2 + 1] * by, CA_ITEM());
        }
    }
}

/* --- scores --- */

/* Where scores are: row r of them is query r0 + r and column c key c0 + c, or with KEYS the
 * other way round. */
struct ca_scored {
    cm_i64 b, h;
    int row, column;
};

/* Masks 16 rows of scores, n columns. */
template <int n, bool KEYS>
CV_FN void ca_exponents(const ca_call &c, float (*s)[4], const ca_scored &w)
{
    const int lane = ck_x() % 32;
    const int low = KEYS ? w.column : w.row, high = KEYS ? w.row + 15 : w.column + n - 1;
    const bool whole = CA_MASK == CA_NONE && high < c.keys && (!c.causal || high <= low) &&
                       (KEYS ? w.column + n : w.row + 16) <= c.queries;

    if (whole)
        return;
    CV_ALL
    for (int j = 0; j < n / 8; j++)
        CV_ALL
    for (int e = 0; e < 4; e++) {
        const int row = w.row + lane / 4 + e / 2 * 8;
        const int column = w.column + j * 8 + lane % 4 * 2 + e % 2;
        s[j][e] = ca_exponent(c, CA_MASK == CA_NONE ? s[j][e] : s[j][e] * (c.scale * CA_LOG2E),
                              w.b, w.h, KEYS ? column : row, KEYS ? row : column);
    }
}

/* --- dropped weights --- */

/* A tile of bytes that say which weights stay: of each query a row of `keys` bytes, and 16
 * more, so that neighbouring queries and keys are in different banks. */
template <int queries, int keys> struct ca_stay {
    unsigned char of[queries][keys + 16];

    /* Starts to copy the tile at (query, key); zeros where there are no weights. */
    inline __attribute__((device, always_inline)) void fetch(const ca_call &c, cm_i64 b,
                                                             cm_i64 h, int query, int key)
    {
        enum { ACROSS = keys / 16 };
        const unsigned char *at =
            c.stay + ((b * c.heads + h) * c.queries + query) * c.keys + key;

        for (int i = ck_x(); i < queries * ACROSS; i += CA_THREADS) {
            const int row = i / ACROSS, column = i % ACROSS * 16;
            ca_copy_or_zero(ca_place_of(&of[row][column]), at + row * (cm_i64)c.keys + column,
                            query + row < c.queries && key + column < c.keys);
        }
    }
};
typedef ca_stay<CA_ROWS, CA_FORWARD> ca_stay_forward;
template <bool KEYS> struct ca_stay_backward {
    typedef ca_stay<KEYS ? CA_BACKWARD : CA_ROWS, KEYS ? CA_ROWS : CA_BACKWARD> type;
};

/* --- forward --- */

/* The state of a group of rows: of each, a lane has the elements 2 and 3, or 0 and 1, of the
 * parts of o and s. */
struct ca_state {
    float most[2], sum[2];
};

/* Weights of scores against the rows' new maxima. */
CV_FN void ca_weigh(ca_state &t, float (*o)[4], float (*s)[4], float factor)
{
    CV_ALL
    for (int half = 0; half < 2; half++) {
        float high = t.most[half], part = 0;
        CV_ALL
        for (int j = 0; j < CA_FORWARD / 8; j++)
            CV_ALL
        for (int e = 0; e < 2; e++)
            high = ca_most(high, s[j][half * 2 + e]);
        high = ca_row_most(high);
        const float base = high == -__builtin_inff() ? 0 : high, under = -base * factor;
        const float less = ca_exp2(CV_FMAF(t.most[half], factor, under));
        CV_ALL
        for (int j = 0; j < CA_FORWARD / 8; j++)
            CV_ALL
        for (int e = 0; e < 2; e++) {
            s[j][half * 2 + e] = ca_exp2(CV_FMAF(s[j][half * 2 + e], factor, under));
            part += s[j][half * 2 + e];
        }
        t.sum[half] = CV_FMAF(t.sum[half], less, part);
        t.most[half] = high;
        if (!CK_BALLOT_(less != 1))
            continue;
        CV_ALL
        for (int j = 0; j < CA_NS; j++) {
            o[j][half * 2] *= less;
            o[j][half * 2 + 1] *= less;
        }
    }
}

CV_FN void ca_end(const ca_call &call, const ca_where &w, int own, ca_state &t, float (*o)[4])
{
    const int lane = ck_x() % 32;

    t.sum[0] = ca_row_sum(t.sum[0]);
    t.sum[1] = ca_row_sum(t.sum[1]);
    ca_store(ca_head(call.out, w.b, w.h), call.out.step[2], own, call.queries, call.width, o,
             t.sum[0] > 0 ? 1 / t.sum[0] : 0, t.sum[1] > 0 ? 1 / t.sum[1] : 0);
    CV_ALL
    for (int half = 0; half < 2; half++) {
        const int row = own + lane / 4 + half * 8;
        if (lane % 4 == 0 && row < call.queries)
            call.lse[(w.b * call.heads + w.h) * call.queries + row] =
                t.sum[half] > 0
                    ? t.most[half] * ca_factor(call) * CA_LN2 + __builtin_logf(t.sum[half])
                    : -__builtin_inff();
    }
}

CK_KERNEL_OF(CA_THREADS, ca_forward, ca_call)
{
    ca_row *const query = (ca_row *)ck_dynamic;
    ca_row *const key = query + CA_ROWS, *const value = key + CA_STAGES * CA_FORWARD;
#if CA_DROPS
    ca_stay_forward *const stay = (ca_stay_forward *)(value + CA_STAGES * CA_FORWARD);
#endif
    const int warp = ck_x() / 32;
    const ca_where w = ca_block(CA_ROWS, call.queries, call.heads, call.causal);
    const int own = w.row + warp * CA_OWN;
    const cm_i64 kv = w.h / call.repeat;
    const char *k = ca_head(call.k, w.b, kv), *v = ca_head(call.v, w.b, kv);
    const int end = call.causal && w.row + CA_ROWS < call.keys ? w.row + CA_ROWS : call.keys;
    const int tiles = (end + CA_FORWARD - 1) / CA_FORWARD;
    float s[CA_GROUPS][CA_FORWARD / 8][4], o[CA_GROUPS][CA_NS][4] = {};
    ca_state t[CA_GROUPS];

    CV_ALL
    for (int g = 0; g < CA_GROUPS; g++)
        t[g] = ca_state{{-__builtin_inff(), -__builtin_inff()}, {0, 0}};

    ca_fill<CA_ROWS>(query, ca_head(call.q, w.b, w.h), call.q.step[2], w.row, call.queries,
                     call.width);
    /* While a tile is multiplied, the next one is copied. */
    for (int i = -1; i < tiles; i++) {
        const int next = i + 1, at = next % CA_STAGES * CA_FORWARD;
        if (i >= 0) {
            ca_wait<0>();
            __syncthreads();
        }
        if (next < tiles) {
            ca_fill<CA_FORWARD>(key + at, k, call.k.step[2], next * CA_FORWARD, call.keys,
                                call.width);
            ca_fill<CA_FORWARD>(value + at, v, call.v.step[2], next * CA_FORWARD, call.keys,
                                call.width);
#if CA_DROPS
            stay[next % CA_STAGES].fetch(call, w.b, w.h, w.row, next * CA_FORWARD);
#endif
        }
        ca_close();
        if (i < 0)
            continue;
        const int part = i % CA_STAGES * CA_FORWARD;
        ca_scores<CA_FORWARD>(s, query, warp * CA_OWN, key + part);
        CV_ALL
        for (int g = 0; g < CA_GROUPS; g++) {
            ca_exponents<CA_FORWARD, false>(call, s[g],
                                            ca_scored{w.b, w.h, own + g * 16, i * CA_FORWARD});
            ca_weigh(t[g], o[g], s[g], ca_factor(call));
#if CA_DROPS
            CV_ALL
            for (int j = 0; j < CA_FORWARD / 8; j++)
                CV_ALL
            for (int e = 0; e < 4; e++)
                s[g][j][e] *= stay[i % CA_STAGES].of[warp * CA_OWN + g * 16 + ck_x() % 32 / 4 +
                                                     e / 2 * 8][j * 8 + ck_x() % 4 * 2 + e % 2]
                                  ? call.times
                                  : 0;
#endif
        }
        ca_add<CA_FORWARD>(o, s, value + part);
    }
    CV_ALL
    for (int g = 0; g < CA_GROUPS; g++)
        ca_end(call, w, own + g * 16, t[g], o[g]);
}

/* --- backward --- */

/* The tiles of a block: rows of two arrays, and a stage of rows of two others. */
struct ca_tiles {
    ca_row *one, *two, *left, *right;
    float *ends, *deltas;
    void *stay; /* behind the others, of both stages, where weights are dropped */
};

/* The gradients' sums of a warp's rows. */
template <bool KEYS> struct ca_sums {
    float a[CA_GROUPS][CA_NS][4], o[KEYS ? CA_GROUPS : 1][CA_NS][4];
};

/* Adds a tile's share.  With KEYS rows are keys: s = k q', w = v g', and the weights are
 * turned; they add to the gradients of k and v.  Without, rows are queries: s = q k', w = g
 * v'. */
template <bool KEYS>
CV_FN void ca_share(const ca_call &c, const ca_tiles &t, const ca_scored &w,
                    ca_sums<KEYS> &sums)
{
    const int lane = ck_x() % 32, warp = ck_x() / 32;
    const float factor = ca_factor(c);
    float s[CA_GROUPS][CA_BACKWARD / 8][4], p[CA_GROUPS][CA_BACKWARD / 8][4];

    ca_scores<CA_BACKWARD>(s, t.one, warp * CA_OWN, t.left);
    ca_scores<CA_BACKWARD>(p, t.two, warp * CA_OWN, t.right);
    CV_ALL
    for (int g = 0; g < CA_GROUPS; g++) {
        ca_exponents<CA_BACKWARD, KEYS>(c, s[g], ca_scored{w.b, w.h, w.row + g * 16, w.column});
        CV_ALL
        for (int j = 0; j < CA_BACKWARD / 8; j++)
            CV_ALL
        for (int e = 0; e < 4; e++) {
            const int row = warp * CA_OWN + g * 16 + lane / 4 + e / 2 * 8;
            const int column = j * 8 + lane % 4 * 2 + e % 2, query = KEYS ? column : row;
            const float weight = ca_exp2(CV_FMAF(s[g][j][e], factor, -t.ends[query]));
            s[g][j][e] = p[g][j][e];
            p[g][j][e] = weight;
#if CA_DROPS
            const auto &stay = *(const typename ca_stay_backward<KEYS>::type *)t.stay;
            const float by = stay.of[KEYS ? column : row][KEYS ? row : column] ? c.times : 0;
            s[g][j][e] *= by;
            p[g][j][e] *= by;
#endif
            s[g][j][e] = weight * (s[g][j][e] - t.deltas[query]);
        }
    }
    ca_add<CA_BACKWARD>(sums.a, s, t.left);
    if (KEYS)
        ca_add<CA_BACKWARD>(sums.o, p, t.right);
}

/* Starts to copy the ends and deltas of `rows` queries, the thread's one. */
template <int rows>
CV_FN void ca_fetch_numbers(const ca_call &c, const ca_tiles &t, cm_i64 b, cm_i64 h, int first)
{
    const int me = ck_x();

    if (me >= rows)
        return;
    if (first + me < c.queries) {
        const float *const delta = c.delta + (b * c.heads + h) * c.queries + first + me;
        ca_copy_float(&t.deltas[me], delta);
        ca_copy_float(&t.ends[me], delta + c.batch * c.heads * c.queries);
    } else {
        t.deltas[me] = 0;
        t.ends[me] = __builtin_inff();
    }
}

/* Starts to copy the stage at `first`. */
template <bool KEYS>
CV_FN void ca_fetch(const ca_call &c, const ca_tiles &t, cm_i64 b, cm_i64 h, int first)
{
    const cm_i64 kv = h / c.repeat;

    if (KEYS) {
        ca_fill<CA_BACKWARD>(t.left, ca_head(c.q, b, h), c.q.step[2], first, c.queries,
                             c.width);
        ca_fill<CA_BACKWARD>(t.right, ca_head(c.grad, b, h), c.grad.step[2], first, c.queries,
                             c.width);
        ca_fetch_numbers<CA_BACKWARD>(c, t, b, h, first);
    } else {
        ca_fill<CA_BACKWARD>(t.left, ca_head(c.k, b, kv), c.k.step[2], first, c.keys, c.width);
        ca_fill<CA_BACKWARD>(t.right, ca_head(c.v, b, kv), c.v.step[2], first, c.keys, c.width);
    }
}

/* What a block keeps. */
template <bool KEYS> CV_FN void ca_begin(const ca_call &c, const ca_tiles &t, const ca_where &w)
{
    if (KEYS) {
        ca_fill<CA_ROWS>(t.one, ca_head(c.k, w.b, w.h), c.k.step[2], w.row, c.keys, c.width);
        ca_fill<CA_ROWS>(t.two, ca_head(c.v, w.b, w.h), c.v.step[2], w.row, c.keys, c.width);
        return;
    }
    ca_fill<CA_ROWS>(t.one, ca_head(c.q, w.b, w.h), c.q.step[2], w.row, c.queries, c.width);
    ca_fill<CA_ROWS>(t.two, ca_head(c.grad, w.b, w.h), c.grad.step[2], w.row, c.queries,
                     c.width);
    ca_fetch_numbers<CA_ROWS>(c, t, w.b, w.h, w.row);
}

template <bool KEYS>
CV_FN void ca_finish(const ca_call &c, const ca_where &w, int own, const ca_sums<KEYS> &sums)
{
    const ca_array &to = KEYS ? c.gk : c.gq;

    CV_ALL
    for (int g = 0; g < CA_GROUPS; g++) {
        ca_store(ca_head(to, w.b, w.h), to.step[2], own + g * 16, KEYS ? c.keys : c.queries,
                 c.width, sums.a[g], c.scale, c.scale);
        if (KEYS)
            ca_store(ca_head(c.gv, w.b, w.h), c.gv.step[2], own + g * 16, c.keys, c.width,
                     sums.o[g], 1, 1);
    }
}

/* `t` has the first stage; the next ones follow it, each with its floats where rows are
 * keys. */
template <bool KEYS> CV_FN void ca_backward(const ca_call &c, const ca_tiles &t)
{
    typedef typename ca_stay_backward<KEYS>::type stay_tile;
    const ca_where w = ca_block(CA_ROWS, KEYS ? c.keys : c.queries,
                                KEYS ? c.heads / c.repeat : c.heads, !KEYS && c.causal);
    const int own = w.row + ck_x() / 32 * CA_OWN, columns = KEYS ? c.queries : c.keys;
    const int from = KEYS && c.causal ? w.row / CA_BACKWARD : 0;
    const int end = !KEYS && c.causal && w.row + CA_ROWS < columns ? w.row + CA_ROWS : columns;
    const int tiles = (end + CA_BACKWARD - 1) / CA_BACKWARD - from;
    const bool shared = KEYS && c.repeat > 1;
    const int total = tiles > 0 ? tiles * (KEYS ? (int)c.repeat : 1) : 0;
    ca_sums<KEYS> sums = {};

    ca_begin<KEYS>(c, t, w);
    for (int i = -1; i < total; i++) {
        const int next = i + 1;
        ca_tiles stage = t;
        if (i >= 0) {
            ca_wait<0>();
            __syncthreads();
        }
        if (next < total) {
            const int r = shared ? next / tiles : 0, part = next % CA_STAGES * CA_BACKWARD;
            stage.left = t.left + part;
            stage.right = t.right + part;
            stage.ends = KEYS ? t.ends + part : t.ends;
            stage.deltas = KEYS ? t.deltas + part : t.deltas;
            const cm_i64 h = KEYS ? w.h * c.repeat + r : w.h;
            const int first = (from + next - r * tiles) * CA_BACKWARD;
            ca_fetch<KEYS>(c, stage, w.b, h, first);
            if (CA_DROPS)
                ((stay_tile *)t.stay)[next % CA_STAGES].fetch(c, w.b, h, KEYS ? first : w.row,
                                                              KEYS ? w.row : first);
        }
        ca_close();
        if (i < 0)
            continue;
        const int r = shared ? i / tiles : 0, part = i % CA_STAGES * CA_BACKWARD;
        stage.left = t.left + part;
        stage.right = t.right + part;
        stage.ends = KEYS ? t.ends + part : t.ends;
        stage.deltas = KEYS ? t.deltas + part : t.deltas;
        stage.stay = (stay_tile *)t.stay + i % CA_STAGES;
        ca_share<KEYS>(c, stage,
                       ca_scored{w.b, KEYS ? w.h * c.repeat + r : w.h, own,
                                 (from + i - r * tiles) * CA_BACKWARD},
                       sums);
    }
    ca_finish<KEYS>(c, w, own, sums);
}

#define CA_GRADIENTS(name, keys)                                                               \
    CK_KERNEL_OF(CA_THREADS, name, ca_call)                                                    \
    {                                                                                          \
        ca_row *const one = (ca_row *)ck_dynamic, *const two = one + CA_ROWS;                  \
        ca_row *const left = two + CA_ROWS, *const right = left + CA_STAGES * CA_BACKWARD;     \
        CK_SHARED float ends[CA_ROWS], deltas[CA_ROWS];                                        \
        ca_backward<keys>(call, ca_tiles{one, two, left, right, ends, deltas,                  \
                                         right + CA_STAGES * CA_BACKWARD});                    \
    }
CA_GRADIENTS(ca_keys, true)
CA_GRADIENTS(ca_queries, false)

#endif
