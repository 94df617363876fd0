/* RNN, LSTM and GRU: weights of each layer and direction, and one call of their operator. */
#include "entry.h"
#include "nn/parts.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t recurrent_gates(const cr_module *m)
{
    return !strcmp(m->kind, "LSTM") ? 4 : !strcmp(m->kind, "GRU") ? 3 : 1;
}

/* The size of an output: of the projection where there is one. */
static int64_t recurrent_width(const cr_module *m)
{
    int64_t projected = nn_arg(m, "proj_size").i;

    return projected ? projected : nn_arg(m, "hidden_size").i;
}

static cr_status recurrent_check(const cr_module *m)
{
    static const char *const sizes[] = {"input_size", "hidden_size", "num_layers"};
    double dropout = nn_arg(m, "dropout").d;
    cr_value mode = nn_arg(m, "nonlinearity");
    int64_t projected = nn_arg(m, "proj_size").i;

    for (int i = 0; i < 3; i++)
        if (nn_arg(m, sizes[i]).i <= 0)
            return cr_fail(CR_VALUE, "%s must be greater than zero", sizes[i]);
    if (!(dropout >= 0 && dropout <= 1))
        return cr_fail(CR_VALUE, "dropout should be a number in range [0, 1] representing the "
                                 "probability of an element being zeroed");
    if (projected < 0)
        return cr_fail(CR_VALUE,
                       "proj_size should be a positive integer or zero to disable projections");
    if (projected >= nn_arg(m, "hidden_size").i)
        return cr_fail(CR_VALUE, "proj_size has to be smaller than hidden_size");
    if (mode.tag == CR_STRING && strcmp(mode.s, "tanh") && strcmp(mode.s, "relu"))
        return cr_fail(CR_VALUE, "Unknown nonlinearity '%s'. Select from 'tanh' or 'relu'.",
                       mode.s);
    return CR_OK;
}

static cr_status recurrent_weight(cr_module *m, const char *name, int64_t layer, bool back,
                                  int64_t rows, int64_t columns)
{
    int64_t size[] = {rows, columns};
    char text[48];

    snprintf(text, sizeof text, "%s_l%lld%s", name, (long long)layer, back ? "_reverse" : "");
    return nn_add_param(m, text, cr_entry.empty_memory_format, size, columns ? 2 : 1);
}

static cr_status recurrent_weights(cr_module *m, int64_t layer, bool back)
{
    int64_t hidden = nn_arg(m, "hidden_size").i, rows = recurrent_gates(m) * hidden;
    int64_t width = recurrent_width(m), both = nn_is_on(m, "bidirectional") ? 2 : 1;
    int64_t inputs = layer ? width * both : nn_arg(m, "input_size").i;

    CR_TRY(recurrent_weight(m, "weight_ih", layer, back, rows, inputs));
    CR_TRY(recurrent_weight(m, "weight_hh", layer, back, rows, width));
    if (nn_is_on(m, "bias")) {
        CR_TRY(recurrent_weight(m, "bias_ih", layer, back, rows, 0));
        CR_TRY(recurrent_weight(m, "bias_hh", layer, back, rows, 0));
    }
    return width != hidden ? recurrent_weight(m, "weight_hr", layer, back, width, hidden)
                           : CR_OK;
}

cr_status nn_make_recurrent(cr_module *m)
{
    CR_TRY(recurrent_check(m));
    for (int64_t layer = 0; layer < nn_arg(m, "num_layers").i; layer++)
        for (int back = 0; back <= nn_is_on(m, "bidirectional"); back++)
            CR_TRY(recurrent_weights(m, layer, back));
    double bound = 1 / sqrt((double)nn_arg(m, "hidden_size").i);
    for (size_t i = 0; i < m->params.len; i++)
        CR_TRY(nn_fill_random(m->params.at[i].t, cr_entry.uniform_, -bound, bound));
    return CR_OK;
}

/* --- forward --- */

typedef struct {
    cr_module *m;
    bool batched, first; /* a batch dim; it is the first */
    int64_t batch;
    int states; /* 2: LSTM */
} recurrent_call;

static cr_status recurrent_check_input(recurrent_call *c, const cr_tensor *x)
{
    int64_t width = nn_arg(c->m, "input_size").i;

    if (x->ndim != 2 && x->ndim != 3)
        return cr_fail(CR_VALUE, "%s: Expected input to be 2D or 3D, got %dD %s", c->m->kind,
                       x->ndim, c->states == 2 ? "instead" : "tensor instead");
    if (x->dtype != c->m->params.at[0].t->dtype)
        return cr_fail(CR_VALUE,
                       "RNN input dtype (torch.%s) does not match weight dtype "
                       "(torch.%s). Convert input: input.to(torch.%s), or convert "
                       "model: model.to(torch.%s)",
                       cr_dtype_name((cr_dtype)x->dtype),
                       cr_dtype_name((cr_dtype)c->m->params.at[0].t->dtype),
                       cr_dtype_name((cr_dtype)c->m->params.at[0].t->dtype),
                       cr_dtype_name((cr_dtype)x->dtype));
    if (x->size[x->ndim - 1] != width)
        return cr_fail(CR_RUNTIME,
                       "input.size(-1) must be equal to input_size. Expected %lld, "
                       "got %lld",
                       (long long)width, (long long)x->size[x->ndim - 1]);
    c->batched = x->ndim == 3;
    c->first = nn_is_on(c->m, "batch_first");
    c->batch = c->batched ? x->size[c->first ? 0 : 1] : 1;
    return CR_OK;
}

/* The state i with a batch dim: the given one, or zeros. */
static cr_tensor *recurrent_state(cr_steps *w, const recurrent_call *c, cr_tensor *given, int i,
                                  cr_tensor *x)
{
    int64_t both = nn_is_on(c->m, "bidirectional") ? 2 : 1;
    int64_t size[] = {nn_arg(c->m, "num_layers").i * both, c->batch,
                      i ? nn_arg(c->m, "hidden_size").i : recurrent_width(c->m)};

    if (!given)
        return CR_STEP(w, new_zeros, cr_of_tensor(x), cr_of_ints(size, 3));
    if (given->ndim != (c->batched ? 3 : 2)) {
        cr_step_fail(w, cr_fail(CR_RUNTIME,
                                "For %s input, hx should also be %d-D but got %d-D tensor",
                                c->batched ? "batched 3-D" : "unbatched 2-D",
                                c->batched ? 3 : 2, given->ndim));
        return NULL;
    }
    cr_tensor *t =
        c->batched ? given : CR_STEP(w, unsqueeze, cr_of_tensor(given), cr_of_int(1));
    for (int d = 0; t && d < 3; d++)
        if (t->size[d] != size[d]) {
            cr_step_fail(w, cr_fail(CR_RUNTIME,
                                    "Expected hidden%s size (%lld, %lld, %lld), got [%lld, "
                                    "%lld, %lld]",
                                    c->states < 2 ? ""
                                    : i           ? "[1]"
                                                  : "[0]",
                                    (long long)size[0], (long long)size[1], (long long)size[2],
                                    (long long)t->size[0], (long long)t->size[1],
                                    (long long)t->size[2]));
            return NULL;
        }
    return t;
}

static const cr_op *recurrent_operator(const cr_module *m, bool packed)
{
    if (!strcmp(m->kind, "LSTM"))
        return packed ? cr_entry.lstm_data : cr_entry.lstm_input;
    if (!strcmp(m->kind, "GRU"))
        return packed ? cr_entry.gru_data : cr_entry.gru_input;
    if (!strcmp(nn_arg(m, "nonlinearity").s, "relu"))
        return packed ? cr_entry.rnn_relu_data : cr_entry.rnn_relu_input;
    return packed ? cr_entry.rnn_tanh_data : cr_entry.rnn_tanh_input;
}

/* Calls the operator, that of packed sequences with the sizes of their batches: result[0] is
 * the output, the others are the last states. */
static void recurrent_run(cr_steps *w, const recurrent_call *c, cr_tensor *x, cr_tensor *sizes,
                          cr_tensor *const *state, cr_tensor **result)
{
    cr_module *m = c->m;
    cr_arena arena = {0};
    cr_value *params = cr_arena_get(&arena, m->params.len * sizeof *params);
    cr_value pair[] = {cr_maybe(state[0]), cr_maybe(state[1])};

    cr_step_fail(w, params ? CR_OK : CR_MEMORY);
    for (size_t i = 0; !w->st && i < m->params.len; i++)
        params[i] = cr_of_tensor(m->params.at[i].t);
    cr_value arg[] = {cr_maybe(x),
                      cr_maybe(sizes),
                      c->states == 2 ? nn_list(pair, 2) : pair[0],
                      nn_list(params, m->params.len),
                      nn_arg(m, "bias"),
                      nn_arg(m, "num_layers"),
                      nn_arg(m, "dropout"),
                      cr_of_bool(m->training),
                      nn_arg(m, "bidirectional"),
                      cr_of_bool(c->first)};
    if (!sizes)
        arg[1] = arg[0];
    cr_step_all(w, result, recurrent_operator(m, sizes != NULL), (int)CR_LEN(arg) - 1,
                sizes ? arg : arg + 1);
    cr_arena_drop(&arena);
}

void nn_recurrent_packed(cr_steps *w, cr_tensor **result, cr_module *m, const cr_packed *input,
                         cr_tensor *const *hx)
{
    recurrent_call c = {.m = m, .states = !strcmp(m->kind, "LSTM") ? 2 : 1, .batched = true};
    cr_tensor *state[2] = {NULL, NULL};
    cr_scalar batch = {0};

    if (input->data->ndim != 2) {
        cr_step_fail(
            w, cr_fail(CR_RUNTIME, "input must have 2 dimensions, got %d", input->data->ndim));
        return;
    }
    cr_step_fail(w, recurrent_check_input(&c, input->data));
    cr_tensor *first = CR_STEP(w, select_int, cr_of_tensor(input->batch_sizes), I(0), I(0));
    if (!w->st)
        w->st = cr_tensor_item(&batch, first);
    c.batch = batch.i;
    c.batched = true;
    for (int i = 0; !w->st && i < c.states; i++) {
        state[i] = recurrent_state(w, &c, hx ? hx[i] : NULL, i, input->data);
        if (hx && hx[i] && input->sorted)
            state[i] =
                CR_STEP(w, index_select, cr_maybe(state[i]), I(1), cr_of_tensor(input->sorted));
    }
    recurrent_run(w, &c, input->data, input->batch_sizes, state, result);
    for (int i = 1; !w->st && input->unsorted && i <= c.states; i++)
        result[i] = CR_STEP(w, index_select, cr_of_tensor(result[i]), I(1),
                            cr_of_tensor(input->unsorted));
}

cr_status nn_recurrent(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                       size_t inputs)
{
    recurrent_call c = {.m = m, .states = !strcmp(m->kind, "LSTM") ? 2 : 1};
    cr_tensor *state[2] = {NULL, NULL}, *result[3] = {NULL, NULL, NULL}, *x = input[0];
    cr_steps w = {0};

    CR_TRY(nn_check_counts(m, inputs, 1, 1 + (size_t)c.states, outs, 1 + (size_t)c.states));
    CR_TRY(recurrent_check_input(&c, x));
    if (!c.batched)
        x = CR_STEP(&w, unsqueeze, cr_of_tensor(x), cr_of_int(c.first ? 0 : 1));
    for (int i = 0; x && i < c.states; i++)
        state[i] = recurrent_state(&w, &c, (size_t)i + 1 < inputs ? input[i + 1] : NULL, i, x);
    recurrent_run(&w, &c, x, NULL, state, result);
    for (size_t i = 0; !w.st && !c.batched && i < outs; i++)
        result[i] =
            CR_STEP(&w, squeeze_dim, cr_of_tensor(result[i]), cr_of_int(i || !c.first ? 1 : 0));
    return nn_finish(&w, out, result, outs);
}
