/* Recurrent networks over whole sequences: lstm, gru, rnn_tanh, rnn_relu, also packed.
 *
 * The products with the input are one product for the whole sequence; the products with the
 * hidden state run step by step.  In a packed sequence a row leaves the batch at the end of its
 * sequence; in the backward direction it enters there.  Each part is a call through all stages,
 * so that autograd records it. */
#include "base/memory.h"
#include "whole/whole_impl.h"

typedef enum { RNN_LSTM, RNN_GRU, RNN_TANH, RNN_RELU } rnn_kind;

/* Tensors that a step owns until it ends. */
typedef CR_VEC(cr_tensor *) rnn_pool;

typedef struct {
    cr_tensor *ih, *hh, *b_ih, *b_hh, *hr; /* borrowed; b_ih, b_hh, hr may be NULL */
} rnn_weights;

/* h and, of an lstm, c; owned. */
typedef struct {
    cr_tensor *at[2];
} rnn_state;

typedef struct {
    rnn_kind kind;
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

/* --- calls --- */

static void rnn_pool_drop(rnn_pool *p)
{
    for (size_t i = 0; i < p->len; i++)
        cr_drop(p->at[i]);
    cr_vec_drop(p);
}

/* Calls an entry with one result, which the pool owns. */
static cr_status rnn_make(rnn_pool *p, cr_tensor **out, const cr_op *op, const cr_value *arg,
                          int n)
{
    CR_TRY(cr_vec_reserve(p, 1));
    CR_TRY(cr_call_tensor(out, op, arg, n));
    cr_vec_put(p, *out);
    return CR_OK;
}

static cr_status rnn_one(rnn_pool *p, cr_tensor **out, const cr_op *op, cr_tensor *a)
{
    return rnn_make(p, out, op, (cr_value[]){cr_of_tensor(a)}, 1);
}

static cr_status rnn_two(rnn_pool *p, cr_tensor **out, const cr_op *op, cr_tensor *a,
                         cr_tensor *b)
{
    return rnn_make(p, out, op, (cr_value[]){cr_of_tensor(a), cr_of_tensor(b)}, 2);
}

static cr_value rnn_maybe(cr_tensor *t) { return t ? cr_of_tensor(t) : cr_of_none(); }

static cr_status rnn_linear(rnn_pool *p, cr_tensor **out, cr_tensor *x, cr_tensor *w,
                            cr_tensor *b)
{
    return rnn_make(p, out, cr_entry.linear,
                    (cr_value[]){cr_of_tensor(x), cr_of_tensor(w), rnn_maybe(b)}, 3);
}

/* n parts of the gates. */
static cr_status rnn_gates(rnn_pool *p, cr_tensor **out, cr_tensor *gates, int n)
{
    cr_value list;
    cr_status st;

    CR_TRY(cr_vec_reserve(p, (size_t)n));
    CR_TRY(cr_call_given(&list, cr_entry.chunk,
                         (cr_value[]){cr_of_tensor(gates), cr_of_int(n), cr_of_int(1)}, 3));
    st = list.len == (uint32_t)n ? CR_OK
                                 : cr_fail(CR_RUNTIME, "the weights do not have %d gates", n);
    for (int i = 0; !st && i < n; i++) {
        out[i] = cr_keep(list.list[i].t);
        cr_vec_put(p, out[i]);
    }
    cr_drop_values(&list, 1);
    return st;
}

static cr_status rnn_narrow(rnn_pool *p, cr_tensor **out, cr_tensor *t, int64_t start,
                            int64_t length)
{
    return rnn_make(
        p, out, cr_entry.narrow,
        (cr_value[]){cr_of_tensor(t), cr_of_int(0), cr_of_int(start), cr_of_int(length)}, 4);
}

/* The rows of each of n tensors one after another. */
static cr_status rnn_join(rnn_pool *p, cr_tensor **out, const cr_op *op,
                          cr_tensor *const *parts, size_t n, int64_t dim)
{
    cr_value *list = cr_alloc(n * sizeof *list + 1);
    cr_status st = list ? CR_OK : CR_MEMORY;

    for (size_t i = 0; !st && i < n; i++)
        list[i] = cr_of_tensor(parts[i]);
    if (!st)
        st = rnn_make(p, out, op, (cr_value[]){cr_of_list(list, (uint32_t)n), cr_of_int(dim)},
                      2);
    cr_free(list);
    return st;
}

/* --- one step --- */

static cr_status rnn_step_lstm(rnn_pool *p, cr_tensor *x, rnn_state *s, const rnn_weights *w)
{
    cr_tensor *part[4], *i, *f, *g, *o, *kept, *added, *c, *h, *squashed, *share;

    CR_TRY(rnn_linear(p, &share, s->at[0], w->hh, w->b_hh));
    CR_TRY(rnn_two(p, &share, cr_entry.add, x, share));
    CR_TRY(rnn_gates(p, part, share, 4));
    CR_TRY(rnn_one(p, &f, cr_entry.sigmoid, part[1]));
    CR_TRY(rnn_two(p, &kept, cr_entry.mul, f, s->at[1]));
    CR_TRY(rnn_one(p, &i, cr_entry.sigmoid, part[0]));
    CR_TRY(rnn_one(p, &g, cr_entry.tanh, part[2]));
    CR_TRY(rnn_two(p, &added, cr_entry.mul, i, g));
    CR_TRY(rnn_two(p, &c, cr_entry.add, kept, added));
    CR_TRY(rnn_one(p, &o, cr_entry.sigmoid, part[3]));
    CR_TRY(rnn_one(p, &squashed, cr_entry.tanh, c));
    CR_TRY(rnn_two(p, &h, cr_entry.mul, o, squashed));
    if (w->hr)
        CR_TRY(rnn_linear(p, &h, h, w->hr, NULL));
    s->at[0] = h;
    s->at[1] = c;
    return CR_OK;
}

static cr_status rnn_step_gru(rnn_pool *p, cr_tensor *x, rnn_state *s, const rnn_weights *w)
{
    cr_tensor *xs[3], *hs[3], *share, *reset, *keep, *new, *rest, *h;

    CR_TRY(rnn_linear(p, &share, s->at[0], w->hh, w->b_hh));
    CR_TRY(rnn_gates(p, xs, x, 3));
    CR_TRY(rnn_gates(p, hs, share, 3));
    CR_TRY(rnn_two(p, &keep, cr_entry.add, xs[1], hs[1]));
    CR_TRY(rnn_one(p, &keep, cr_entry.sigmoid, keep));
    CR_TRY(rnn_two(p, &reset, cr_entry.add, xs[0], hs[0]));
    CR_TRY(rnn_one(p, &reset, cr_entry.sigmoid, reset));
    CR_TRY(rnn_two(p, &new, cr_entry.mul, reset, hs[2]));
    CR_TRY(rnn_two(p, &new, cr_entry.add, xs[2], new));
    CR_TRY(rnn_one(p, &new, cr_entry.tanh, new));
    CR_TRY(rnn_two(p, &rest, cr_entry.sub, s->at[0], new));
    CR_TRY(rnn_two(p, &rest, cr_entry.mul, rest, keep));
    CR_TRY(rnn_two(p, &h, cr_entry.add, rest, new));
    s->at[0] = h;
    return CR_OK;
}

static cr_status rnn_step_plain(rnn_pool *p, const cr_op *squash, cr_tensor *x, rnn_state *s,
                                const rnn_weights *w)
{
    cr_tensor *share, *h;

    CR_TRY(rnn_linear(p, &share, s->at[0], w->hh, w->b_hh));
    CR_TRY(rnn_two(p, &share, cr_entry.add, x, share));
    CR_TRY(rnn_one(p, &h, squash, share));
    s->at[0] = h;
    return CR_OK;
}

/* Replaces the state; what the step made besides is dropped. */
static cr_status rnn_step(const rnn_call *r, cr_tensor *x, rnn_state *s, const rnn_weights *w)
{
    rnn_pool p = {0};
    rnn_state next = *s;
    cr_status st;

    switch (r->kind) {
    case RNN_LSTM: st = rnn_step_lstm(&p, x, &next, w); break;
    case RNN_GRU: st = rnn_step_gru(&p, x, &next, w); break;
    default:
        st = rnn_step_plain(&p, r->kind == RNN_TANH ? cr_entry.tanh : cr_entry.relu, x, &next,
                            w);
    }
    for (int i = 0; !st && i < r->states; i++) {
        cr_keep(next.at[i]);
        cr_drop(s->at[i]);
        s->at[i] = next.at[i];
    }
    rnn_pool_drop(&p);
    return st;
}

/* --- one direction of one layer --- */

static void rnn_state_drop(rnn_state *s)
{
    for (int i = 0; i < 2; i++) {
        cr_drop(s->at[i]);
        s->at[i] = NULL;
    }
}

/* The state of layer `index`: a row of the first dim of hx. */
static cr_status rnn_start(const rnn_call *r, int64_t index, rnn_state *out)
{
    for (int i = 0; i < r->states; i++)
        CR_TRY(cr_call_tensor(
            &out->at[i], cr_entry.select_int,
            (cr_value[]){cr_of_tensor((cr_tensor *)r->hx[i]), cr_of_int(0), cr_of_int(index)},
            3));
    return CR_OK;
}

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

/* Rows from `rows` on leave the batch; `finished` gets their states. */
static cr_status rnn_shrink(const rnn_call *r, rnn_state *s, int64_t rows, rnn_pool *finished)
{
    int64_t now = s->at[0]->size[0];
    cr_tensor *left;

    for (int i = 0; i < r->states; i++) {
        CR_TRY(rnn_narrow(&finished[i], &left, s->at[i], rows, now - rows));
        CR_TRY(cr_call_tensor(
            &left, cr_entry.narrow,
            (cr_value[]){cr_of_tensor(s->at[i]), cr_of_int(0), cr_of_int(0), cr_of_int(rows)},
            4));
        cr_drop(s->at[i]);
        s->at[i] = left;
    }
    return CR_OK;
}

/* Rows up to `rows` enter the batch with their start state. */
static cr_status rnn_grow(const rnn_call *r, rnn_state *s, const rnn_state *start, int64_t rows)
{
    rnn_pool p = {0};
    int64_t now = s->at[0]->size[0];
    cr_status st = CR_OK;

    for (int i = 0; !st && i < r->states; i++) {
        cr_tensor *part[2] = {s->at[i], NULL}, *both = NULL;
        st = rnn_narrow(&p, &part[1], start->at[i], now, rows - now);
        st = st ? st : rnn_join(&p, &both, cr_entry.cat, part, 2, 0);
        if (!st) {
            cr_drop(s->at[i]);
            s->at[i] = cr_keep(both);
        }
    }
    rnn_pool_drop(&p);
    return st;
}

/* The states of all rows: those that finished last come first. */
static cr_status rnn_collect(const rnn_call *r, rnn_state *s, rnn_pool *finished)
{
    for (int i = 0; finished[0].len && i < r->states; i++) {
        rnn_pool p = {0};
        cr_tensor **part = cr_alloc((finished[i].len + 1) * sizeof(*part)), *all = NULL;
        cr_status st = part ? CR_OK : CR_MEMORY;
        if (!st) {
            part[0] = s->at[i];
            for (size_t k = 0; k < finished[i].len; k++)
                part[k + 1] = finished[i].at[finished[i].len - 1 - k];
            st = rnn_join(&p, &all, cr_entry.cat, part, finished[i].len + 1, 0);
        }
        if (!st) {
            cr_drop(s->at[i]);
            s->at[i] = cr_keep(all);
        }
        rnn_pool_drop(&p);
        cr_free(part);
        CR_TRY(st);
    }
    return CR_OK;
}

typedef struct {
    const rnn_call *call;
    rnn_weights w;
    rnn_state state, start;
    rnn_pool finished[2], outputs;
    bool reverse;
} rnn_run;

static cr_status rnn_run_step(rnn_run *u, cr_tensor *x, int64_t i)
{
    const rnn_call *r = u->call;
    int64_t rows = r->sizes ? r->sizes[i] : 0;

    if (r->sizes && !u->reverse && rows < u->state.at[0]->size[0])
        CR_TRY(rnn_shrink(r, &u->state, rows, u->finished));
    if (r->sizes && u->reverse && rows > u->state.at[0]->size[0])
        CR_TRY(rnn_grow(r, &u->state, &u->start, rows));
    CR_TRY(rnn_step(r, x, &u->state, &u->w));
    u->outputs.at[i] = cr_keep(u->state.at[0]);
    return CR_OK;
}

static cr_status rnn_run_steps(rnn_run *u, const cr_value *gates)
{
    const rnn_call *r = u->call;

    if (r->sizes && u->reverse)
        for (int i = 0; i < r->states; i++) {
            cr_tensor *part;
            CR_TRY(cr_call_tensor(&part, cr_entry.narrow,
                                  (cr_value[]){cr_of_tensor(u->start.at[i]), cr_of_int(0),
                                               cr_of_int(0), cr_of_int(r->sizes[r->steps - 1])},
                                  4));
            cr_drop(u->state.at[i]);
            u->state.at[i] = part;
        }
    for (int64_t i = 0; i < r->steps; i++) {
        int64_t k = u->reverse ? r->steps - 1 - i : i;
        CR_TRY(rnn_run_step(u, gates->list[k].t, k));
    }
    return r->sizes ? rnn_collect(r, &u->state, u->finished) : CR_OK;
}

/* The input's share of the gates, by step. */
static cr_status rnn_input_gates(const rnn_run *u, cr_tensor *input, cr_value *out)
{
    const rnn_call *r = u->call;
    rnn_pool p = {0};
    cr_tensor *gates;
    cr_status st = rnn_linear(&p, &gates, input, u->w.ih, u->w.b_ih);

    if (!st && r->sizes)
        st = cr_call_given(out, cr_entry.split_with_sizes,
                           (cr_value[]){cr_of_tensor(gates),
                                        cr_of_ints(r->sizes, (size_t)r->steps), cr_of_int(0)},
                           3);
    else if (!st)
        st = cr_call_given(out, cr_entry.unbind_int,
                           (cr_value[]){cr_of_tensor(gates), cr_of_int(0)}, 2);
    rnn_pool_drop(&p);
    return st;
}

/* Runs layer-and-direction `index`: its output and its last states, which the pools own. */
static cr_status rnn_direction(const rnn_call *r, int64_t index, cr_tensor *input,
                               rnn_pool *out, rnn_pool *last)
{
    rnn_run u = {.call = r, .w = rnn_weights_of(r, index), .reverse = r->both && index % 2};
    cr_value gates = cr_of_none();
    cr_tensor *joined;
    cr_status st;

    CR_GO(rnn_start(r, index, &u.start));
    for (int i = 0; i < r->states; i++)
        u.state.at[i] = cr_keep(u.start.at[i]);
    CR_GO(cr_vec_reserve(&u.outputs, (size_t)r->steps));
    for (int64_t i = 0; i < r->steps; i++)
        cr_vec_put(&u.outputs, NULL);
    CR_GO(rnn_input_gates(&u, input, &gates));
    CR_GO(rnn_run_steps(&u, &gates));
    CR_GO(rnn_join(out, &joined, r->sizes ? cr_entry.cat : cr_entry.stack, u.outputs.at,
                   (size_t)r->steps, 0));
    for (int i = 0; i < r->states; i++) {
        CR_GO(cr_vec_reserve(&last[i], 1));
        cr_vec_put(&last[i], u.state.at[i]);
        u.state.at[i] = NULL;
    }
done:
    cr_drop_values(&gates, 1);
    rnn_state_drop(&u.state);
    rnn_state_drop(&u.start);
    rnn_pool_drop(&u.finished[0]);
    rnn_pool_drop(&u.finished[1]);
    rnn_pool_drop(&u.outputs);
    return st;
}

/* --- all layers --- */

static cr_status rnn_layer(const rnn_call *r, int64_t layer, rnn_pool *p, cr_tensor **input,
                           rnn_pool *last)
{
    int n = r->both ? 2 : 1;
    size_t from = p->len;

    for (int d = 0; d < n; d++)
        CR_TRY(rnn_direction(r, layer * n + d, *input, p, last));
    *input = p->at[from];
    if (r->both)
        CR_TRY(rnn_join(p, input, cr_entry.cat, (cr_tensor *[]){p->at[from], p->at[from + 1]},
                        2, -1));
    if (r->dropout > 0 && r->train && layer < r->layers - 1)
        CR_TRY(rnn_make(
            p, input, cr_entry.dropout,
            (cr_value[]){cr_of_tensor(*input), cr_of_float(r->dropout), cr_of_bool(true)}, 3));
    return CR_OK;
}

static cr_status rnn_transpose(rnn_pool *p, cr_tensor **t)
{
    return rnn_make(p, t, cr_entry.transpose_int,
                    (cr_value[]){cr_of_tensor(*t), cr_of_int(0), cr_of_int(1)}, 3);
}

/* input, then the last states, in `result`. */
static cr_status rnn_layers(const rnn_call *r, cr_tensor *input, cr_value *result)
{
    rnn_pool p = {0}, last[2] = {{0}, {0}};
    cr_tensor *made = NULL;
    cr_status st;

    for (int i = 0; i < r->states; i++)
        result[i + 1] = cr_of_none();
    if (r->first)
        CR_GO(rnn_transpose(&p, &input));
    for (int64_t layer = 0; layer < r->layers; layer++)
        CR_GO(rnn_layer(r, layer, &p, &input, last));
    if (r->first)
        CR_GO(rnn_transpose(&p, &input));
    for (int i = 0; i < r->states; i++) {
        CR_GO(rnn_join(&p, &made, cr_entry.stack, last[i].at, last[i].len, 0));
        result[i + 1] = cr_of_tensor(cr_keep(made));
    }
    result[0] = cr_of_tensor(cr_keep(input));
done:
    for (int i = 0; st && i < r->states; i++) {
        cr_drop_values(&result[i + 1], 1);
        result[i + 1] = cr_of_none();
    }
    rnn_pool_drop(&p);
    rnn_pool_drop(&last[0]);
    rnn_pool_drop(&last[1]);
    return st;
}

/* --- arguments --- */

static cr_status rnn_check_params(rnn_call *r)
{
    int64_t n = r->layers * (r->both ? 2 : 1), each = (r->biases ? 4 : 2) + r->projected;

    if (r->layers < 1)
        return cr_fail(CR_RUNTIME, "num_layers must be greater than zero");
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

static rnn_call rnn_call_of(rnn_kind kind, const cr_value *params)
{
    return (rnn_call){.kind = kind,
                      .states = kind == RNN_LSTM ? 2 : 1,
                      .params = &params[0],
                      .biases = params[1].i != 0,
                      .layers = params[2].i,
                      .dropout = params[3].d,
                      .train = params[4].i != 0,
                      .both = params[5].i != 0};
}

/* (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) */
static cr_status rnn_input(rnn_kind kind, const cr_value *arg, cr_value *result)
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

    if (t->ndim != 1 || t->dtype != CR_I64 || !t->numel || !cr_has_bytes(t->device))
        return cr_fail(CR_RUNTIME, "batch_sizes must be a 1-D tensor of int64 on the CPU");
    CR_TRY(cr_reach(&sizes, t));
    *out = cr_alloc((size_t)t->numel * sizeof **out);
    if (!*out)
        return CR_MEMORY;
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
static cr_status rnn_packed(rnn_kind kind, const cr_value *arg, cr_value *result)
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
    return rnn_input(RNN_LSTM, arg, result);
}
cr_status cr_do_gru(const cr_value *arg, cr_value *result)
{
    return rnn_input(RNN_GRU, arg, result);
}
cr_status cr_do_rnn_tanh(const cr_value *arg, cr_value *result)
{
    return rnn_input(RNN_TANH, arg, result);
}
cr_status cr_do_rnn_relu(const cr_value *arg, cr_value *result)
{
    return rnn_input(RNN_RELU, arg, result);
}
cr_status cr_do_lstm_packed(const cr_value *arg, cr_value *result)
{
    return rnn_packed(RNN_LSTM, arg, result);
}
cr_status cr_do_gru_packed(const cr_value *arg, cr_value *result)
{
    return rnn_packed(RNN_GRU, arg, result);
}
cr_status cr_do_rnn_tanh_packed(const cr_value *arg, cr_value *result)
{
    return rnn_packed(RNN_TANH, arg, result);
}
cr_status cr_do_rnn_relu_packed(const cr_value *arg, cr_value *result)
{
    return rnn_packed(RNN_RELU, arg, result);
}
