/* recurrent.cuh - a step of a recurrent layer on an NVIDIA GPU: its product and its gates.
 *
 * Follows move.cuh.  RN_ITEM is the type of all arrays; sums are of rn_real.  RN_KIND is a kind
 * of `_rnn_direction`: 0 lstm, 1 gru, 2 tanh, 3 relu.  RN_VECTOR elements are read at once.
 *
 * A block has some rows and some hidden units.  Its two operands come through shared memory in
 * chunks of the sum; threads that are neighbours share the sums of two rows and four columns,
 * which they add up by shuffles.  Forward the columns are the gates of a unit, backward they
 * are units. */
#ifndef CR_EMIT_RECURRENT_CUH
#define CR_EMIT_RECURRENT_CUH

#include "emit/move.cuh"

typedef decltype(cm_real(RN_ITEM())) rn_real;

enum {
    RN_LSTM,
    RN_GRU,
    RN_TANH,
    RN_RELU,
    RN_GATES = RN_KIND == RN_LSTM  ? 4
               : RN_KIND == RN_GRU ? 3
                                   : 1,
    RN_THREADS = 256,
    RN_QUAD = 4,
    RN_CHUNK = sizeof(rn_real) == 8 ? 128 : 256,
    RN_PITCH = RN_CHUNK + RN_QUAD,
    RN_QUADS = RN_CHUNK / RN_QUAD,
    RN_ROWS = 16, /* forward */
    RN_UNITS = 4,
    RN_SHARE = 8, /* threads of a sum */
    RN_BACK_ROWS = 8,
    RN_BACK_UNITS = 8,
    RN_BACK_SHARE = 32
};

/* The arrays of a step: gates [rows, gates * units], states [rows, units].  Forward `gates` is
 * the input's share.  Backward `share` has the arguments of the gates, of a gru the hidden
 * state's share; `later` the cotangents of the step after it, or NULL; without `grad` the
 * cotangents of the first states are computed. */
struct rn_call {
    const RN_ITEM *gates, *share, *before, *cell_before, *w, *bias;
    RN_ITEM *out, *cell_out;
    const RN_ITEM *later, *grad, *grad_cell;
    RN_ITEM *gates_grad, *own_grad, *hidden_grad, *cell_grad;
    rn_real *carry; /* what a step adds to the cotangents of the step before */
    int rows, units, last, unused;
};

/* Callers align arrays to 16 bytes, also those of float64. */
struct alignas(RN_VECTOR * sizeof(RN_ITEM) < 16 ? RN_VECTOR * sizeof(RN_ITEM) : 16) rn_items {
    RN_ITEM item[RN_VECTOR];
};
struct alignas(16) rn_quad {
    rn_real x[RN_QUAD];
};

CV_FN float rn_fma(float a, float b, float c) { return CV_FMAF(a, b, c); }
CV_FN double rn_fma(double a, double b, double c) { return CV_FMAD(a, b, c); }
CV_FN float rn_exp(float x) { return __builtin_expf(x); }
CV_FN double rn_exp(double x) { return __builtin_exp(x); }
CV_FN float rn_tanh(float x) { return __builtin_tanhf(x); }
CV_FN double rn_tanh(double x) { return __builtin_tanh(x); }
CV_FN rn_real rn_sigmoid(rn_real x) { return 1 / (1 + rn_exp(-x)); }

/* What lane `lane ^ by` of the warp has. */
CV_FN float rn_across(float x, int by)
{
    return ck_float((unsigned)CK_SHUFFLE_(ck_bits(x), (ck_x() % 32) ^ by));
}
CV_FN double rn_across(double x, int by)
{
    int word[2];

    __builtin_memcpy(word, &x, sizeof x);
    word[0] = CK_SHUFFLE_(word[0], (ck_x() % 32) ^ by);
    word[1] = CK_SHUFFLE_(word[1], (ck_x() % 32) ^ by);
    __builtin_memcpy(&x, word, sizeof x);
    return x;
}

/* Four elements, of which `left` exist: with vectors all of them, or none. */
CV_FN rn_quad rn_load(const RN_ITEM *p, int left)
{
    rn_quad q = {};

    if (RN_VECTOR == RN_QUAD) {
        if (left > 0) {
            const rn_items v = *(const rn_items *)p;
            for (int l = 0; l < RN_VECTOR; l++)
                q.x[l] = cm_real(v.item[l]);
        }
        return q;
    }
    for (int l = 0; l < RN_QUAD; l++)
        if (l < left)
            q.x[l] = cm_real(p[l]);
    return q;
}

/* acc[i][j] += a[i] * w[j], over the quads that the thread has of the chunk. */
template <int columns, int share>
CV_FN void rn_multiply(rn_real acc[2][columns], const rn_real *const a[2],
                       const rn_real *const w[columns])
{
    CV_ALL
    for (int i = 0; i < RN_CHUNK / (share * RN_QUAD); i++) {
        const int k = (i * share + ck_x() % share) * RN_QUAD;
        const rn_quad x[2] = {*(const rn_quad *)(a[0] + k), *(const rn_quad *)(a[1] + k)};
        CV_ALL
        for (int j = 0; j < columns; j++) {
            const rn_quad y = *(const rn_quad *)(w[j] + k);
            CV_ALL
            for (int l = 0; l < RN_QUAD; l++) {
                acc[0][j] = rn_fma(x[0].x[l], y.x[l], acc[0][j]);
                acc[1][j] = rn_fma(x[1].x[l], y.x[l], acc[1][j]);
            }
        }
    }
}

/* Every thread of a sum gets it. */
template <int columns, int share> CV_FN void rn_join(rn_real acc[2][columns])
{
    CV_ALL
    for (int by = share / 2; by > 0; by /= 2)
        CV_ALL
    for (int j = 0; j < columns; j++) {
        acc[0][j] += rn_across(acc[0][j], by);
        acc[1][j] += rn_across(acc[1][j], by);
    }
}

/* --- forward --- */

CV_FN rn_real rn_input(const rn_call &c, int row, int gate, int unit)
{
    return cm_real(c.gates[((cm_i64)row * RN_GATES + gate) * c.units + unit]);
}

CV_FN void rn_state(const rn_call &c, int row, int unit, const rn_real *sum)
{
    const cm_i64 at = (cm_i64)row * c.units + unit;
    rn_real h[RN_GATES], x[RN_GATES];

    for (int g = 0; g < RN_GATES; g++) {
        h[g] = sum[g] + (c.bias ? (rn_real)cm_real(c.bias[g * c.units + unit]) : 0);
        x[g] = rn_input(c, row, g, unit);
    }
    if (RN_KIND == RN_LSTM) {
        const rn_real i = rn_sigmoid(x[0] + h[0]),
                      f = rn_sigmoid(x[1 % RN_GATES] + h[1 % RN_GATES]);
        const rn_real n = rn_tanh(x[2 % RN_GATES] + h[2 % RN_GATES]);
        const rn_real cell = f * cm_real(c.cell_before[at]) + i * n;
        c.cell_out[at] = cm_to<RN_ITEM>::of(cell);
        c.out[at] =
            cm_to<RN_ITEM>::of(rn_sigmoid(x[3 % RN_GATES] + h[3 % RN_GATES]) * rn_tanh(cell));
    } else if (RN_KIND == RN_GRU) {
        const rn_real r = rn_sigmoid(x[0] + h[0]),
                      z = rn_sigmoid(x[1 % RN_GATES] + h[1 % RN_GATES]);
        const rn_real n = rn_tanh(x[2 % RN_GATES] + r * h[2 % RN_GATES]);
        c.out[at] = cm_to<RN_ITEM>::of((cm_real(c.before[at]) - n) * z + n);
    } else {
        const rn_real y = x[0] + h[0];
        c.out[at] = cm_to<RN_ITEM>::of(RN_KIND == RN_TANH ? rn_tanh(y)
                                       : y > 0 || y != y  ? y
                                                          : 0);
    }
}

CK_KERNEL_OF(RN_THREADS, rn_forward, rn_call)
{
    enum {
        A = RN_ROWS * RN_QUADS / RN_THREADS,
        W = (RN_GATES * RN_UNITS * RN_QUADS + RN_THREADS - 1) / RN_THREADS
    };
    CK_SHARED rn_real a[RN_ROWS * RN_PITCH] __attribute__((aligned(16)));
    CK_SHARED rn_real w[RN_GATES * RN_UNITS * RN_PITCH] __attribute__((aligned(16)));
    const int row0 = CK_BLOCK_(x) * RN_ROWS, unit0 = CK_BLOCK_(y) * RN_UNITS;
    const int group = ck_x() / RN_SHARE, lane = ck_x() % RN_SHARE;
    const int unit = group % RN_UNITS, row = group / RN_UNITS;
    const rn_real *const rows[2] = {a + row * RN_PITCH, a + (row + RN_ROWS / 2) * RN_PITCH};
    const rn_real *columns[RN_GATES];
    rn_real acc[2][RN_GATES] = {};

    for (int g = 0; g < RN_GATES; g++)
        columns[g] = w + (g * RN_UNITS + unit) * RN_PITCH;
    for (int k0 = 0; k0 < call.units; k0 += RN_CHUNK) {
        CV_ALL
        for (int i = 0; i < A; i++) {
            const int n = ck_x() + i * RN_THREADS, r = n / RN_QUADS, k = n % RN_QUADS * RN_QUAD;
            const bool some = row0 + r < call.rows;
            *(rn_quad *)(a + r * RN_PITCH + k) =
                rn_load(call.before + (cm_i64)(some ? row0 + r : 0) * call.units + k0 + k,
                        some ? call.units - k0 - k : 0);
        }
        CV_ALL
        for (int i = 0; i < W; i++) {
            const int n = ck_x() + i * RN_THREADS, c = n / RN_QUADS, k = n % RN_QUADS * RN_QUAD;
            const int g = c / RN_UNITS, u = unit0 + c % RN_UNITS;
            const bool some = u < call.units;
            if (g >= RN_GATES)
                break;
            *(rn_quad *)(w + c * RN_PITCH + k) = rn_load(
                call.w + ((cm_i64)g * call.units + (some ? u : 0)) * call.units + k0 + k,
                some ? call.units - k0 - k : 0);
        }
        __syncthreads();
        rn_multiply<RN_GATES, RN_SHARE>(acc, rows, columns);
        __syncthreads();
    }
    rn_join<RN_GATES, RN_SHARE>(acc);
    if (unit0 + unit < call.units && lane < 2 &&
        row0 + row + lane * (RN_ROWS / 2) < call.rows) {
        rn_real sum[RN_GATES];
        for (int g = 0; g < RN_GATES; g++)
            sum[g] = lane ? acc[1][g] : acc[0][g];
        rn_state(call, row0 + row + lane * (RN_ROWS / 2), unit0 + unit, sum);
    }
}

/* --- backward --- */

CV_FN void rn_put(const rn_call &c, RN_ITEM *to, int row, int gate, int unit, rn_real x)
{
    to[((cm_i64)row * RN_GATES + gate) * c.units + unit] = cm_to<RN_ITEM>::of(x);
}

/* What the cotangents of an element need beside those of the step after: nothing of it waits
 * for that step, but `carry`. */
struct rn_known {
    rn_real grad, grad_cell, carry, gate[RN_GATES], own, before, tanh_cell, out;
};
CV_FN rn_real rn_carried(const rn_call &c, cm_i64 at)
{
    return c.last || RN_KIND > RN_GRU ? 0 : c.carry[at];
}
CV_FN rn_known rn_know(const rn_call &c, int row, int unit)
{
    const cm_i64 at = (cm_i64)row * c.units + unit;
    rn_known k = {};
    rn_real y[RN_GATES];

    k.carry = rn_carried(c, at);
    if (!c.grad)
        return k;
    k.grad = cm_real(c.grad[at]);
    for (int g = 0; g < RN_GATES && RN_KIND < RN_TANH; g++)
        y[g] = cm_real(c.share[((cm_i64)row * RN_GATES + g) * c.units + unit]);
    if (RN_KIND == RN_LSTM) {
        k.grad_cell = cm_real(c.grad_cell[at]);
        k.before = cm_real(c.cell_before[at]);
        k.tanh_cell = rn_tanh(cm_real(c.cell_out[at]));
        for (int g = 0; g < RN_GATES; g++)
            k.gate[g] = g == 2 ? rn_tanh(y[g]) : rn_sigmoid(y[g]);
    } else if (RN_KIND == RN_GRU) {
        k.before = cm_real(c.before[at]);
        k.own = y[2 % RN_GATES];
        k.gate[0] = rn_sigmoid(rn_input(c, row, 0, unit) + y[0]);
        k.gate[1 % RN_GATES] = rn_sigmoid(rn_input(c, row, 1, unit) + y[1 % RN_GATES]);
        k.gate[2 % RN_GATES] = rn_tanh(rn_input(c, row, 2, unit) + k.gate[0] * k.own);
    } else {
        k.out = cm_real(c.out[at]);
    }
    return k;
}

/* `through`: the hidden state's cotangent that came through the gates of the step after. */
CV_FN void rn_cotangents(const rn_call &c, int row, int unit, const rn_known &k,
                         rn_real through)
{
    const cm_i64 at = (cm_i64)row * c.units + unit;
    rn_real h = RN_KIND == RN_GRU ? through + k.carry : through;

    if (!c.grad) {
        c.hidden_grad[at] = cm_to<RN_ITEM>::of(h);
        if (RN_KIND == RN_LSTM)
            c.cell_grad[at] = cm_to<RN_ITEM>::of(k.carry);
        return;
    }
    h += k.grad;
    if (RN_KIND == RN_LSTM) {
        const rn_real i = k.gate[0], f = k.gate[1 % RN_GATES], n = k.gate[2 % RN_GATES],
                      o = k.gate[3 % RN_GATES], t = k.tanh_cell;
        const rn_real cell = k.grad_cell + k.carry + h * o * (1 - t * t);
        rn_put(c, c.gates_grad, row, 0, unit, cell * n * i * (1 - i));
        rn_put(c, c.gates_grad, row, 1, unit, cell * k.before * f * (1 - f));
        rn_put(c, c.gates_grad, row, 2, unit, cell * i * (1 - n * n));
        rn_put(c, c.gates_grad, row, 3, unit, h * t * o * (1 - o));
        c.carry[at] = cell * f;
    } else if (RN_KIND == RN_GRU) {
        const rn_real r = k.gate[0], z = k.gate[1 % RN_GATES], n = k.gate[2 % RN_GATES];
        const rn_real d = h * (1 - z) * (1 - n * n), dr = d * k.own * r * (1 - r);
        const rn_real dz = h * (k.before - n) * z * (1 - z);
        const rn_real all[] = {dr, dz, d};
        for (int g = 0; g < 3; g++) {
            rn_put(c, c.gates_grad, row, g, unit, all[g]);
            rn_put(c, c.own_grad, row, g, unit, g == 2 ? d * r : all[g]);
        }
        c.carry[at] = h * z;
    } else {
        rn_put(c, c.gates_grad, row, 0, unit,
               RN_KIND == RN_TANH ? h * (1 - k.out * k.out)
               : k.out <= 0       ? 0
                                  : h);
    }
}

CK_KERNEL_OF(RN_THREADS, rn_backward, rn_call)
{
    enum {
        A = RN_BACK_ROWS * RN_QUADS / RN_THREADS,
        W = RN_CHUNK * (RN_BACK_UNITS / RN_QUAD) / RN_THREADS
    };
    CK_SHARED rn_real a[RN_BACK_ROWS * RN_PITCH] __attribute__((aligned(16)));
    CK_SHARED rn_real w[RN_BACK_UNITS * RN_PITCH] __attribute__((aligned(16)));
    const int row0 = CK_BLOCK_(x) * RN_BACK_ROWS, unit0 = CK_BLOCK_(y) * RN_BACK_UNITS;
    const int group = ck_x() / RN_BACK_SHARE, lane = ck_x() % RN_BACK_SHARE;
    const int unit = group % 2 * RN_QUAD, row = group / 2, depth = RN_GATES * call.units;
    const rn_real *const rows[2] = {a + row * RN_PITCH,
                                    a + (row + RN_BACK_ROWS / 2) * RN_PITCH};
    const rn_real *columns[RN_QUAD];
    rn_real acc[2][RN_QUAD] = {};
    rn_quad next_a[A], next_w[W];

    for (int j = 0; j < RN_QUAD; j++)
        columns[j] = w + (unit + j) * RN_PITCH;
    /* The elements of the next chunk are on their way while those of this one are
     * multiplied. */
    for (int k0 = call.later ? -RN_CHUNK : depth; k0 < depth; k0 += RN_CHUNK) {
        const int k1 = k0 + RN_CHUNK;
        if (k0 >= 0) {
            CV_ALL
            for (int i = 0; i < A; i++) {
                const int n = ck_x() + i * RN_THREADS;
                *(rn_quad *)(a + n / RN_QUADS * RN_PITCH + n % RN_QUADS * RN_QUAD) = next_a[i];
            }
            CV_ALL
            for (int i = 0; i < W; i++) {
                const int n = ck_x() + i * RN_THREADS;
                CV_ALL
                for (int l = 0; l < RN_QUAD; l++)
                    w[(n % 2 * RN_QUAD + l) * RN_PITCH + n / 2] = next_w[i].x[l];
            }
            __syncthreads();
        }
        CV_ALL
        for (int i = 0; i < A; i++) {
            const int n = ck_x() + i * RN_THREADS, r = row0 + n / RN_QUADS,
                      k = k1 + n % RN_QUADS * RN_QUAD;
            const bool some = r < call.rows;
            next_a[i] =
                rn_load(call.later + (cm_i64)(some ? r : 0) * depth + k, some ? depth - k : 0);
        }
        CV_ALL
        for (int i = 0; i < W; i++) {
            const int n = ck_x() + i * RN_THREADS, k = k1 + n / 2, u = unit0 + n % 2 * RN_QUAD;
            const bool some = k < depth;
            next_w[i] = rn_load(call.w + (cm_i64)(some ? k : 0) * call.units + u,
                                some ? call.units - u : 0);
        }
        if (k0 >= 0) {
            rn_multiply<RN_QUAD, RN_BACK_SHARE>(acc, rows, columns);
            __syncthreads();
        }
    }
    rn_join<RN_QUAD, RN_BACK_SHARE>(acc);
    CV_ALL
    for (int j = 0; j < 2 * RN_QUAD; j++) {
        const int r = row0 + row + j / RN_QUAD * (RN_BACK_ROWS / 2),
                  u = unit0 + unit + j % RN_QUAD;
        if (lane == j && r < call.rows && u < call.units)
            rn_cotangents(call, r, u, rn_know(call, r, u), acc[j / RN_QUAD][j % RN_QUAD]);
    }
}

/* --- backward, all steps in one launch --- */

#if RN_WARPS
CK_DYNAMIC;

/* A tile has RN_TILE_ROWS rows and RN_TILE_UNITS units.  Blocks of threads run at once, and a
 * block keeps the weights of its tiles' units in shared memory from the first step to the last
 * one; with `alike` all its tiles have the same units.  A thread multiplies four units of all
 * rows by some of the gates; the gates of the step after come from the other blocks of the
 * rows, which count in done[] how many of them have written theirs. */
struct rn_all_call {
    rn_call step;                 /* the last one */
    const RN_ITEM *hidden, *cell; /* before the first step */
    cm_i64 state, gates;          /* elements from a step to the one before it */
    int steps, tiles, across, alike;
    int *done;
};

enum {
    RN_TILE_ROWS = 8,
    RN_TILE_UNITS = 16,
    RN_ALL = RN_WARPS * 32, /* threads, and gates that they multiply by at once */
    RN_TILE = RN_TILE_ROWS * RN_TILE_UNITS
};

template <class T> CV_FN void rn_back(T *&p, cm_i64 by)
{
    if (p)
        p += by;
}
/* From a step to the one before it; i: the number of that one. */
CV_FN void rn_step_back(const rn_all_call &call, rn_call &c, int i)
{
    c.last = 0;
    c.later = RN_KIND == RN_GRU ? c.own_grad : c.gates_grad;
    if (i < 0) {
        c.grad = 0;
        return;
    }
    rn_back(c.grad, call.state);
    rn_back(c.grad_cell, call.state);
    rn_back(c.out, call.state);
    rn_back(c.cell_out, call.state);
    rn_back(c.gates, call.gates);
    rn_back(c.share, call.gates);
    rn_back(c.gates_grad, call.gates);
    rn_back(c.own_grad, call.gates);
    rn_back(c.before, call.state);
    rn_back(c.cell_before, call.state);
    if (!i) {
        c.before = call.hidden;
        c.cell_before = call.cell;
    }
}

/* Each thread keeps the weights that it multiplies by, which no other thread reads. */
CV_FN void rn_keep(const rn_call &c, rn_quad *kept, int unit0, int depth)
{
    const int lane = ck_x() % 32, u = unit0 + lane % 4 * RN_QUAD;

    for (int slab = 0; slab < depth; slab += RN_ALL, kept += RN_QUAD * RN_ALL)
        for (int l = 0; l < RN_QUAD; l++) {
            const int k = slab + ck_x() / 4 * RN_QUAD + l;
            kept[l * RN_ALL + ck_x()] = rn_load(c.w + (cm_i64)(k < depth ? k : 0) * c.units + u,
                                                k < depth ? c.units - u : 0);
        }
}

CV_FN void rn_read_rows(const rn_call &c, rn_quad *x, int row0, int k, int depth)
{
    CV_ALL
    for (int r = 0; r < RN_TILE_ROWS; r++) {
        const bool some = row0 + r < c.rows;
        x[r] =
            rn_load(c.later + (cm_i64)(some ? row0 + r : 0) * depth + k, some ? depth - k : 0);
    }
}

CV_FN void rn_multiply_rows(rn_real acc[RN_TILE_ROWS][RN_QUAD], const rn_quad *x,
                            const rn_quad *kept)
{
    CV_ALL
    for (int l = 0; l < RN_QUAD; l++) {
        const rn_quad w = kept[l * RN_ALL + ck_x()];
        CV_ALL
        for (int r = 0; r < RN_TILE_ROWS; r++)
            CV_ALL
        for (int j = 0; j < RN_QUAD; j++)
            acc[r][j] = rn_fma(x[r].x[l], w.x[j], acc[r][j]);
    }
}

/* The sums over the gates that a warp has: those of row lane / 4, of the lane's units.  Gates
 * are read while those before them are multiplied. */
CV_FN rn_quad rn_tile_sums(const rn_call &c, const rn_quad *kept, int row0, int depth)
{
    rn_real acc[RN_TILE_ROWS][RN_QUAD] = {};
    rn_quad even[RN_TILE_ROWS], odd[RN_TILE_ROWS], sum;
    const int k = ck_x() / 4 * RN_QUAD;

    rn_read_rows(c, even, row0, k, depth);
    for (int slab = 0; slab < depth; slab += 2 * RN_ALL, kept += 2 * RN_QUAD * RN_ALL) {
        rn_read_rows(c, odd, row0, slab + RN_ALL + k, depth);
        rn_multiply_rows(acc, even, kept);
        rn_read_rows(c, even, row0, slab + 2 * RN_ALL + k, depth);
        if (slab + RN_ALL < depth)
            rn_multiply_rows(acc, odd, kept + RN_QUAD * RN_ALL);
    }
    /* A lane hands over half of its rows, and adds up those that it keeps. */
    CV_ALL
    for (int half = RN_TILE_ROWS / 2; half > 0; half /= 2) {
        const bool upper = ck_x() & half * 4;
        CV_ALL
        for (int r = 0; r < half; r++)
            CV_ALL
        for (int j = 0; j < RN_QUAD; j++) {
            const rn_real low = acc[r][j], high = acc[r + half][j];
            acc[r][j] = (upper ? high : low) + rn_across(upper ? low : high, half * 4);
        }
    }
    CV_ALL
    for (int j = 0; j < RN_QUAD; j++)
        sum.x[j] = acc[0][j];
    return sum;
}

/* Waits until so many tiles have written their gates. */
CV_FN void rn_wait(const int *done, int goal)
{
    if (!ck_x()) {
        while (*(const volatile int *)done < goal)
            ;
        ck_fence();
    }
    __syncthreads();
}

CK_KERNEL_OF(CK_AT_ONCE(RN_ALL, 1), rn_backward_all, rn_all_call)
{
    CK_SHARED rn_real part[RN_WARPS][RN_TILE] __attribute__((aligned(16)));
    const int depth = RN_GATES * call.step.units, slabs = (depth + RN_ALL - 1) / RN_ALL;
    const int step = CK_BLOCKS_(x), first = CK_BLOCK_(x), each = slabs * RN_QUAD * RN_ALL;
    rn_call c = call.step;

    for (int t = first, i = 0; t < call.tiles && !(call.alike && i); t += step, i++)
        rn_keep(c, (rn_quad *)ck_dynamic + i * each, t % call.across * RN_TILE_UNITS, depth);
    for (int s = call.steps - 1; s >= -1; s--) {
        for (int t = first, i = 0; t < call.tiles; t += step, i++) {
            const int group = t / call.across, row0 = group * RN_TILE_ROWS;
            const int row = row0 + ck_x() / RN_TILE_UNITS;
            const int unit = t % call.across * RN_TILE_UNITS + ck_x() % RN_TILE_UNITS;
            const bool own = ck_x() < RN_TILE && row < c.rows && unit < c.units;
            rn_known known = {};
            rn_real through = 0;

            if (own)
                known = rn_know(c, row, unit);
            if (c.later) {
                rn_wait(call.done + group, (call.steps - 1 - s) * call.across);
                *(rn_quad *)&part[ck_x() / 32][ck_x() % 32 * RN_QUAD] = rn_tile_sums(
                    c, (rn_quad *)ck_dynamic + (call.alike ? 0 : i * each), row0, depth);
                __syncthreads();
                if (own)
                    CV_ALL
                for (int w = 0; w < RN_WARPS; w++)
                    through += part[w][ck_x()];
            }
            if (own)
                rn_cotangents(c, row, unit, known, through);
            __syncthreads();
            if (!ck_x()) {
                ck_fence();
                CK_ATOMIC_ADD_(call.done + group, 1);
            }
        }
        rn_step_back(call, c, s - 1);
    }
}
#endif

#endif
