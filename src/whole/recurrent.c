/* Recurrent networks over whole sequences: lstm, gru, rnn_tanh, rnn_relu, also packed.
 *
 * The products with the input are one product for the whole sequence; those with the hidden
 * state run step by step.  `_rnn_direction` runs the steps of one batch.  In a packed sequence
 * a row leaves the batch at the end of its sequence; in the backward direction it enters there:
 * the steps between are a batch. */
#include "whole/recurrent.h"
#include "base/memory.h"

typedef struct {
    cr_tensor *ih, *hh, *b_ih, *b_hh, *hr; /* borrowed; b_ih, b_hh, hr may be NULL */
} rnn_weights;

typedef struct {
    cr_rnn_kind kind;
    int states; /* 2: lstm */
    const cr_value *params;
    bool biases, train, both, first;
    int64_t layers;
    double dropout;
    const cr_tensor *hx[2];
    const int64_t *sizes; /* of the batch by step; NULL: not packed */
    int64_t steps;
    bool projected;
} rnn_call;

/* One direction of one layer, and its states; what it makes belongs to the steps. */
typedef struct {
    const rnn_call *call;
    cr_steps *s;
    rnn_weights w;
    bool reverse;
    cr_tensor *state[2], *start[2];
} rnn_run;

/* --- steps of one batch --- */

static cr_tensor *rnn_linear(cr_steps *s, cr_tensor *x, cr_tensor *w, cr_tensor *b)
{
    return CR_STEP(s, linear, T(x), T(w), cr_maybe(b));
}

static cr_tensor *rnn_narrow(cr_steps *s, cr_tensor *t, int64_t start, int64_t length)
{
    return CR_STEP(s, narrow, T(t), I(0), I(start), I(length));
}

/* One step of an lstm whose hidden state is projected. */
static void rnn_project_step(rnn_run *u, cr_tensor *x)
{
    cr_steps *s = u->s;
    cr_tensor *gates[4], *share = rnn_linear(s, u->state[0], u->w.hh, u->w.b_hh);

    share = CR_STEP(s, add, T(x), T(share));
    cr_step_list(s, gates, 4, cr_entry.chunk, 3, (cr_value[]){T(share), I(4), I(1)});
    cr_tensor *kept = CR_STEP(s, mul, T(CR_STEP(s, sigmoid, T(gates[1]))), T(u->state[1]));
    cr_tensor *added =
        CR_STEP(s, mul, T(CR_STEP(s, sigmoid, T(gates[0]))), T(CR_STEP(s, tanh, T(gates[2]))));
    u->state[1] = CR_STEP(s, add, T(kept), T(added));
    cr_tensor *hidden = CR_STEP(s, mul, T(CR_STEP(s, sigmoid, T(gates[3]))),
                                T(CR_STEP(s, tanh, T(u->state[1]))));
    u->state[0] = rnn_linear(s, hidden, u->w.hr, NULL);
}

static cr_tensor *rnn_project(rnn_run *u, cr_tensor *gates, int64_t steps)
{
    cr_steps *s = u->s;
    cr_tensor **x = cr_step_room(s, steps), *joined;

    if (x)
        cr_step_list(s, x, steps, cr_entry.unbind_int, 2, (cr_value[]){T(gates), I(0)});
    for (int64_t i = 0; !s->st && i < steps; i++) {
        int64_t k = u->reverse ? steps - 1 - i : i;
        rnn_project_step(u, x[k]);
        x[k] = u->state[0];
    }
    joined = cr_step_join(s, cr_entry.stack, x, steps, 0);
    cr_free(x);
    return joined;
}

/* The outputs (steps, rows, hidden) for gates (steps, rows, gates); the states become the last
 * ones. */
static cr_tensor *rnn_steps(rnn_run *u, cr_tensor *gates, int64_t steps)
{
    const rnn_call *r = u->call;
    cr_value at = I(u->reverse ? 0 : steps - 1);
    cr_tensor *result[2];

    if (r->projected)
        return rnn_project(u, gates, steps);
    cr_step_all(u->s, result, cr_entry._rnn_direction, 7,
                (cr_value[]){T(gates), T(u->state[0]), cr_maybe(u->state[1]), T(u->w.hh),
                             cr_maybe(u->w.b_hh), I(r->kind), cr_of_bool(u->reverse)});
    for (int i = 0; i < r->states; i++)
        u->state[i] = CR_STEP(u->s, select_int, T(result[i]), I(0), at);
    return result[0];
}

/* --- one direction of one layer --- */

static rnn_weights rnn_weights_of(const rnn_call *r, int64_t index)
{
    int64_t each = (r->biases ? 4 : 2) + r->projected;
    const cr_value *at = &r->params->list[index * each];
    rnn_weights w = {.ih = at[0].t, .hh = at[1].t};

    if (r->biases) {
        w.b_ih = at[2].t;
        w.b_hh = at[3].t;
    }
    w.hr = r->projected ? at[each - 1].t : NULL;
    return w;
}

/* Rows from `rows` on leave the batch: they are put at `finished`. */
static void rnn_shrink(rnn_run *u, int64_t rows, cr_tensor **finished)
{
    for (int i = 0; !u->s->st && i < u->call->states; i++) {
        int64_t now = u->state[i]->size[0];
        finished[i] = rnn_narrow(u->s, u->state[i], rows, now - rows);
        u->state[i] = rnn_narrow(u->s, u->state[i], 0, rows);
    }
}

/* Rows up to `rows` enter the batch with their start state. */
static void rnn_grow(rnn_run *u, int64_t rows)
{
    for (int i = 0; !u->s->st && i < u->call->states; i++) {
        int64_t now = u->state[i]->size[0];
        cr_tensor *part[2] = {u->state[i], rnn_narrow(u->s, u->start[i], now, rows - now)};
        u->state[i] = cr_step_join(u->s, cr_entry.cat, part, 2, 0);
    }
}

/* The steps of a packed sequence between two changes of the batch. */
typedef struct {
    int64_t start, rows, steps; /* start: its first row in the data */
} rnn_span;

/* Returns the number of spans. */
static int64_t rnn_find_spans(const rnn_call *r, rnn_span *span)
{
    int64_t n = 0, at = 0;

    for (int64_t i = 0; i < r->steps; at += r->sizes[i++]) {
        if (!n || span[n - 1].rows != r->sizes[i])
            span[n++] = (rnn_span){at, r->sizes[i], 0};
        span[n - 1].steps++;
    }
    return n;
}

static cr_tensor *rnn_run_span(rnn_run *u, const rnn_span *p, cr_tensor *gates)
{
    cr_steps *s = u->s;
    cr_tensor *out = rnn_narrow(s, gates, p->start, p->rows * p->steps);
    int64_t size[3] = {p->steps, p->rows, -1};

    out = rnn_steps(u, CR_STEP(s, view, T(out), cr_of_ints(size, 3)), p->steps);
    return CR_STEP(s, flatten_using_ints, T(out), I(0), I(1));
}

/* `out` gets the output of each span.  Backward, rows enter; forward, they leave, and the
 * states of all rows are joined at the end: those that finished last come first. */
static void rnn_run_spans(rnn_run *u, const rnn_span *span, int64_t n, cr_tensor *gates,
                          cr_tensor **out, cr_tensor **finished)
{
    cr_steps *s = u->s;

    for (int i = 0; u->reverse && i < u->call->states; i++)
        u->state[i] = rnn_narrow(s, u->start[i], 0, span[n - 1].rows);
    for (int64_t i = 0; i < n && !s->st; i++) {
        int64_t k = u->reverse ? n - 1 - i : i;
        if (i && u->reverse)
            rnn_grow(u, span[k].rows);
        else if (i)
            rnn_shrink(u, span[k].rows, &finished[2 * (n - i)]);
        out[k] = rnn_run_span(u, &span[k], gates);
    }
    for (int i = 0; !u->reverse && !s->st && i < u->call->states; i++) {
        for (int64_t k = 1; k < n; k++)
            out[n + k] = finished[2 * k + i];
        out[n] = u->state[i];
        u->state[i] = cr_step_join(s, cr_entry.cat, out + n, n, 0);
    }
}

static cr_tensor *rnn_packed_steps(rnn_run *u, cr_tensor *gates)
{
    int64_t most = u->call->steps, n;
    rnn_span *span = cr_alloc((size_t)most * sizeof *span);
    cr_tensor **out = cr_step_room(u->s, 2 * most), **finished = cr_step_room(u->s, 2 * most);
    cr_tensor *joined = NULL;

    cr_step_fail(u->s, span ? CR_OK : CR_MEMORY);
    if (!u->s->st) {
        n = rnn_find_spans(u->call, span);
        rnn_run_spans(u, span, n, gates, out, finished);
        joined = cr_step_join(u->s, cr_entry.cat, out, n, 0);
    }
    cr_free(span);
    cr_free(out);
    cr_free(finished);
    return joined;
}

/* Autocast may have made the gates narrower: products have their dtype, and a gru's states keep
 * that of the first one, as torch's do. */
static cr_tensor *rnn_agree(rnn_run *u, cr_tensor *gates)
{
    const rnn_call *r = u->call;

    u->w.hh = cr_step_cast(u->s, u->w.hh, (cr_dtype)gates->dtype);
    u->w.b_hh = cr_step_cast(u->s, u->w.b_hh, (cr_dtype)gates->dtype);
    return r->kind == CR_RNN_GRU ? cr_step_cast(u->s, gates, (cr_dtype)r->hx[0]->dtype) : gates;
}

/* Runs layer-and-direction `index`: its output; `last` gets its last states. */
static cr_tensor *rnn_run_direction(const rnn_call *r, cr_steps *s, int64_t index,
                                    cr_tensor *input, cr_tensor **last)
{
    rnn_run u = {
        .call = r, .s = s, .w = rnn_weights_of(r, index), .reverse = r->both && index % 2};
    int64_t directions = r->layers * (r->both ? 2 : 1);
    cr_tensor *gates = rnn_linear(s, input, u.w.ih, u.w.b_ih), *out;

    if (!s->st && !r->projected)
        gates = rnn_agree(&u, gates);
    for (int i = 0; i < r->states; i++)
        u.state[i] = u.start[i] =
            CR_STEP(s, select_int, T((cr_tensor *)r->hx[i]), I(0), I(index));
    out = r->sizes ? rnn_packed_steps(&u, gates) : rnn_steps(&u, gates, r->steps);
    for (int i = 0; i < r->states; i++)
        last[i * directions + index] = u.state[i];
    return out;
}

/* --- all layers --- */

static cr_tensor *rnn_layer(const rnn_call *r, cr_steps *s, int64_t layer, cr_tensor *input,
                            cr_tensor **last)
{
    int n = r->both ? 2 : 1;
    cr_tensor *part[2] = {NULL, NULL}, *out;

    for (int d = 0; d < n; d++)
        part[d] = rnn_run_direction(r, s, layer * n + d, input, last);
    out = r->both ? cr_step_join(s, cr_entry.cat, part, 2, -1) : part[0];
    if (r->dropout > 0 && r->train && layer < r->layers - 1)
        out = CR_STEP(s, dropout, T(out), cr_of_float(r->dropout), cr_of_bool(true));
    return out;
}

/* The outputs, then the last states, in `result`. */
static cr_status rnn_layers(const rnn_call *r, cr_tensor *input, cr_value *result)
{
    int64_t directions = r->layers * (r->both ? 2 : 1);
    cr_steps s = {.st = CR_OK};
    cr_tensor **last = cr_step_room(&s, r->states * directions), *all[3] = {input};

    if (r->first)
        all[0] = CR_STEP(&s, transpose_int, T(all[0]), I(0), I(1));
    for (int64_t layer = 0; layer < r->layers && !s.st; layer++)
        all[0] = rnn_layer(r, &s, layer, all[0], last);
    if (r->first)
        all[0] = CR_STEP(&s, transpose_int, T(all[0]), I(0), I(1));
    for (int i = 0; i < r->states; i++)
        all[i + 1] = cr_step_join(&s, cr_entry.stack, last ? last + i * directions : NULL,
                                  directions, 0);
    cr_free(last);
    return cr_steps_give_all(&s, result, all, r->states + 1);
}

/* --- arguments --- */

static cr_status rnn_check_params(rnn_call *r)
{
    int64_t n, each = (r->biases ? 4 : 2) + r->projected;

    if (r->layers < 1)
        return cr_fail(CR_RUNTIME, "num_layers must be greater than zero");
    if (r->layers > (int64_t)r->params->len)
        return cr_fail(CR_RUNTIME, "%u parameters are too few for %lld layers", r->params->len,
                       (long long)r->layers);
    n = r->layers * (r->both ? 2 : 1);
    for (int i = 0; i < r->states; i++)
        if (r->hx[i]->ndim != 3 || r->hx[i]->size[0] != n)
            return cr_fail(CR_RUNTIME,
                           "Expected hidden states of 3 dimensions, the first of size %lld",
                           (long long)n);
    if ((int64_t)r->params->len != n * each)
        return cr_fail(CR_RUNTIME, "Expected %lld parameters, got %u", (long long)(n * each),
                       r->params->len);
    for (uint32_t i = 0; i < r->params->len; i++) {
        const cr_value *v = &r->params->list[i];
        bool bias = r->biases && (i % each == 2 || i % each == 3);
        if (v->tag != CR_TENSOR || v->t->ndim != (bias ? 1 : 2))
            return cr_fail(CR_RUNTIME, "parameter %u is not a %s", i,
                           bias ? "vector" : "matrix");
    }
    return CR_OK;
}

static cr_status rnn_set_hx(rnn_call *r, const cr_value *hx)
{
    if (hx->tag == CR_TENSOR) {
        r->hx[0] = hx->t;
        return CR_OK;
    }
    if (hx->len != 2 || hx->list[0].tag != CR_TENSOR || hx->list[1].tag != CR_TENSOR)
        return cr_fail(CR_RUNTIME, "lstm expects two hidden states");
    r->hx[0] = hx->list[0].t;
    r->hx[1] = hx->list[1].t;
    if (r->hx[0]->ndim == 3 && r->hx[1]->ndim == 3)
        r->projected = r->hx[0]->size[2] != r->hx[1]->size[2];
    return CR_OK;
}

static rnn_call rnn_call_of(cr_rnn_kind kind, const cr_value *params)
{
    return (rnn_call){.kind = kind,
                      .states = kind == CR_RNN_LSTM ? 2 : 1,
                      .params = &params[0],
                      .biases = params[1].i != 0,
                      .layers = params[2].i,
                      .dropout = params[3].d,
                      .train = params[4].i != 0,
                      .both = params[5].i != 0};
}

/* (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) */
static cr_status rnn_input(cr_rnn_kind kind, const cr_value *arg, cr_value *result)
{
    rnn_call r = rnn_call_of(kind, arg + 2);
    const cr_tensor *input = arg[0].t;

    r.first = arg[8].i != 0;
    CR_TRY(rnn_set_hx(&r, &arg[1]));
    CR_TRY(rnn_check_params(&r));
    if (input->ndim != 3)
        return cr_fail(CR_RUNTIME, "input must have 3 dimensions, got %d", input->ndim);
    r.steps = input->size[r.first ? 1 : 0];
    if (!r.steps)
        return cr_fail(CR_RUNTIME, "Expected sequence length to be larger than 0 in RNN");
    return rnn_layers(&r, arg[0].t, result);
}

static cr_status rnn_read_sizes(const cr_tensor *t, int64_t rows, int64_t **out)
{
    cr_scalar one;
    int64_t sum = 0, before = INT64_MAX;
    char *sizes;

    if (t->ndim != 1 || t->dtype != CR_I64 || !t->numel || !cr_has_bytes(t->device) ||
        !cr_is_host(t->device))
        return cr_fail(CR_RUNTIME, "batch_sizes must be a 1-D tensor of int64 on the CPU");
    CR_TRY(cr_reach(&sizes, t));
    *out = cr_alloc((size_t)t->numel * sizeof **out);
    CR_NEED(*out);
    for (int64_t i = 0; i < t->numel; i++) {
        one.i = ((const int64_t *)(void *)sizes)[i * t->stride[0]];
        if (one.i < 1 || one.i > before || one.i > rows - sum)
            return cr_fail(CR_RUNTIME, "batch_sizes must not increase, and their sum must be "
                                       "the number of rows of the input");
        sum += before = (*out)[i] = one.i;
    }
    return sum == rows ? CR_OK
                       : cr_fail(CR_RUNTIME,
                                 "the sum of batch_sizes is %lld, the input has "
                                 "%lld rows",
                                 (long long)sum, (long long)rows);
}

/* (data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional) */
static cr_status rnn_packed(cr_rnn_kind kind, const cr_value *arg, cr_value *result)
{
    rnn_call r = rnn_call_of(kind, arg + 3);
    const cr_tensor *data = arg[0].t;
    int64_t *sizes = NULL;
    cr_status st;

    CR_GO(rnn_set_hx(&r, &arg[2]));
    CR_GO(rnn_check_params(&r));
    if (data->ndim != 2)
        CR_GO(cr_fail(CR_RUNTIME, "input must have 2 dimensions, got %d", data->ndim));
    CR_GO(rnn_read_sizes(arg[1].t, data->size[0], &sizes));
    r.sizes = sizes;
    r.steps = arg[1].t->numel;
    CR_GO(rnn_layers(&r, arg[0].t, result));
done:
    cr_free(sizes);
    return st;
}

cr_status cr_do_lstm(const cr_value *arg, cr_value *result)
{
    return rnn_input(CR_RNN_LSTM, arg, result);
}
cr_status cr_do_gru(const cr_value *arg, cr_value *result)
{
    return rnn_input(CR_RNN_GRU, arg, result);
}
cr_status cr_do_rnn_tanh(const cr_value *arg, cr_value *result)
{
    return rnn_input(CR_RNN_TANH, arg, result);
}
cr_status cr_do_rnn_relu(const cr_value *arg, cr_value *result)
{
    return rnn_input(CR_RNN_RELU, arg, result);
}
cr_status cr_do_lstm_packed(const cr_value *arg, cr_value *result)
{
    return rnn_packed(CR_RNN_LSTM, arg, result);
}
cr_status cr_do_gru_packed(const cr_value *arg, cr_value *result)
{
    return rnn_packed(CR_RNN_GRU, arg, result);
}
cr_status cr_do_rnn_tanh_packed(const cr_value *arg, cr_value *result)
{
    return rnn_packed(CR_RNN_TANH, arg, result);
}
cr_status cr_do_rnn_relu_packed(const cr_value *arg, cr_value *result)
{
    return rnn_packed(CR_RNN_RELU, arg, result);
}
