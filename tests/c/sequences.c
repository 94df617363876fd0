/* Runs recurrent layers, attention and layers of transformers in C, for test_c.py to compare
 * with Python.
 *
 *     sequences OUT.safetensors
 *
 * A case seeds the generator, makes a layer, calls it on random numbers and differentiates the
 * sum of its results' squares.  Its results and gradients are written to the file. */
#include <cresset_easy.h>
#include <stdio.h>

enum { MOST = 3 };

static cr_state *all;

static void put(const char *name, const char *part, size_t i, cr_tensor *t)
{
    char key[128];

    snprintf(key, sizeof key, "%s/%s.%zu", name, part, i);
    if (t)
        ct_check(cr_state_set(all, key, ct_contiguous(ct_detach(t))));
}

static void try_layer(const char *name, cr_module *m, cr_tensors input, size_t outs)
{
    cr_tensors params = ct_parameters(m);
    cr_tensor *out[MOST], *loss = NULL;

    for (size_t i = 0; i < params.len; i++)
        put(name, "weight", i, ct_clone(params.at[i]));
    ct_forward_many(m, input, out, outs);
    for (size_t i = 0; i < outs; i++) {
        put(name, "out", i, out[i]);
        cr_tensor *part = ct_sum(ct_mul(out[i], out[i]));
        loss = loss ? ct_add(loss, part) : part;
    }
    ct_backward(loss);
    for (size_t i = 0; i < params.len; i++)
        put(name, "grad", i, ct_grad(params.at[i]));
    ct_eval(m);
    ct_forward_many(m, input, out, outs);
    for (size_t i = 0; i < outs; i++)
        put(name, "eval", i, out[i]);
    ct_no_grad
    {
        ct_forward_many(m, input, out, outs);
        for (size_t i = 0; i < outs; i++)
            put(name, "still", i, out[i]);
    }
}

/* Draws the layer's weights before the inputs. */
#define CASE(name, make, outs, ...)                                                            \
    ct_scope                                                                                   \
    {                                                                                          \
        ct_manual_seed(sizeof name);                                                           \
        cr_module *m = make;                                                                   \
        cr_tensor *inputs[] = {__VA_ARGS__};                                                   \
        try_layer(name, m, (cr_tensors){inputs, sizeof inputs / sizeof *inputs}, outs);        \
    }

static void recurrent(void)
{
    CASE("rnn", ct_RNN(3, 4), 2, ct_randn(5, 2, 3))
    CASE("rnn-relu", ct_RNN(3, 4, CT(nonlinearity, "relu"), CT(bias, false)), 2,
         ct_randn(5, 2, 3), ct_randn(1, 2, 4))
    CASE("lstm", ct_LSTM(3, 4), 3, ct_randn(5, 2, 3))
    CASE("lstm-deep",
         ct_LSTM(3, 4, CT(num_layers, 2), CT(bidirectional, true), CT(dropout, 0.3),
                 CT(batch_first, true)),
         3, ct_randn(2, 5, 3), ct_randn(4, 2, 4), ct_randn(4, 2, 4))
    CASE("lstm-small", ct_LSTM(3, 4, CT(proj_size, 2)), 3, ct_randn(5, 3))
    CASE("gru", ct_GRU(3, 4, CT(num_layers, 2)), 2, ct_randn(5, 2, 3), NULL)
    CASE("gru-double", ct_GRU(3, 4, CT(dtype, CR_F64), CT(batch_first, true)), 1,
         ct_randn(5, 3, CT(dtype, CR_F64)), ct_randn(1, 4, CT(dtype, CR_F64)))
}

static cr_tensor *causal(int64_t n) { return ct_to_dtype(ct_triu(ct_ones(n, n), 1), CR_BOOL); }

static void attention(void)
{
    cr_tensor *x = NULL;

    CASE("self", (x = ct_randn(5, 2, 8), ct_MultiheadAttention(8, 2)), 2, x, x, x)
    CASE("self-fused", (x = ct_randn(5, 2, 8), ct_MultiheadAttention(8, 2, CT(bias, false))), 1,
         x, x, x, NULL, causal(5))
    CASE("cross",
         ct_MultiheadAttention(8, 4, CT(kdim, 6), CT(vdim, 3), CT(batch_first, true),
                               CT(dropout, 0.2)),
         2, ct_randn(2, 4, 8), ct_randn(2, 5, 6), ct_randn(2, 5, 3))
    CASE("padded", ct_MultiheadAttention(8, 4, CT(batch_first, true)), 1, ct_randn(2, 4, 8),
         ct_randn(2, 5, 8), ct_randn(2, 5, 8), ct_gt(ct_randn(2, 5), 1.5), ct_randn(4, 5))
    CASE("alone", ct_MultiheadAttention(8, 2), 2, ct_randn(4, 8), ct_randn(5, 8),
         ct_randn(5, 8))
    CASE("encoder", ct_TransformerEncoderLayer(8, 2, 16), 1, ct_randn(5, 2, 8), causal(5))
    CASE("encoder-first",
         ct_TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", CT(norm_first, true),
                                    CT(batch_first, true), CT(bias, false)),
         1, ct_randn(2, 5, 8), NULL, ct_gt(ct_randn(2, 5), 1.5))
    CASE("decoder", ct_TransformerDecoderLayer(8, 2, 16, CT(dropout, 0.0)), 1,
         ct_randn(4, 2, 8), ct_randn(5, 2, 8), causal(4))
    CASE("decoder-first", ct_TransformerDecoderLayer(8, 2, 16, CT(norm_first, true)), 1,
         ct_randn(4, 8), ct_randn(5, 8))
}

/* The last positions of two rows of five: none, and two. */
static cr_tensor *tail(void)
{
    cr_tensor *row[] = {ct_zeros(1, 5), ct_cat(CT_TENSORS(ct_zeros(1, 3), ct_ones(1, 2)), 1)};

    return ct_to_dtype(ct_cat(CT_TENSORS(row[0], row[1]), 0), CR_BOOL);
}

static void stacks(void)
{
    CASE("stack", ct_TransformerEncoder(ct_TransformerEncoderLayer(8, 2, 16), 2, NULL), 1,
         ct_randn(5, 2, 8), causal(5))
    CASE("stack-padded",
         ct_TransformerEncoder(ct_TransformerEncoderLayer(8, 2, 16, CT(batch_first, true)), 2,
                               ct_LayerNorm(8)),
         1, ct_randn(2, 5, 8), NULL, tail())
    CASE("stack-gaps",
         ct_TransformerEncoder(ct_TransformerEncoderLayer(8, 2, 16, CT(batch_first, true)), 1,
                               NULL),
         1, ct_randn(2, 5, 8), NULL, ct_flip(tail(), 1))
    CASE("decoders",
         ct_TransformerDecoder(ct_TransformerDecoderLayer(8, 2, 16), 2, ct_LayerNorm(8)), 1,
         ct_randn(4, 2, 8), ct_randn(5, 2, 8), causal(4))
    CASE("transformer", ct_Transformer(8, 2, 2, 1, 16, CT(batch_first, true)), 1,
         ct_randn(2, 5, 8), ct_randn(2, 4, 8), NULL, causal(4))
}

/* A recurrent layer on sequences of the lengths 4, 1 and 3, or sorted ones; then padded
 * again. */
static void try_packed(const char *name, cr_module *m, bool sorted, bool first, size_t states)
{
    cr_tensor *x = first ? ct_randn(3, 4, 3) : ct_randn(4, 3, 3), *last[2], *n = NULL;
    cr_tensor *lengths = ct_add(ct_arange(3, CT(dtype, CR_I64)), 2);
    cr_tensors params = ct_parameters(m);

    lengths = sorted ? ct_flip(lengths, 0) : ct_remainder(ct_mul(lengths, 2), 5);
    cr_packed p = ct_pack_padded_sequence(x, lengths, first, sorted);
    put(name, "data", 0, p.data);
    put(name, "sizes", 0, p.batch_sizes);
    cr_packed q = ct_forward_packed(m, p, NULL, last, states);
    cr_tensor *y = ct_pad_packed_sequence(q, first, &n);
    cr_tensor *loss = ct_sum(ct_mul(y, y));
    put(name, "out", 0, y);
    put(name, "lengths", 0, n);
    for (size_t i = 0; i < states; i++) {
        put(name, "state", i, last[i]);
        loss = ct_add(loss, ct_sum(ct_mul(last[i], last[i])));
    }
    ct_backward(loss);
    for (size_t i = 0; i < params.len; i++)
        put(name, "grad", i, ct_grad(params.at[i]));
    ct_no_grad put(name, "again", 0, ct_forward_packed(m, p, last, last, states).data);
}

static void packed(void)
{
    ct_scope
    {
        ct_manual_seed(1);
        try_packed("packed-lstm", ct_LSTM(3, 4, CT(num_layers, 2), CT(bidirectional, true)),
                   false, false, 2);
        try_packed("packed-gru", ct_GRU(3, 4), true, true, 1);
        try_packed("packed-rnn", ct_RNN(3, 4, CT(nonlinearity, "relu")), false, true, 1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 1;
    ct_check(cr_state_new(&all));
    recurrent();
    attention();
    stacks();
    packed();
    ct_scope
    {
        ct_print(ct_LSTM(3, 4, CT(num_layers, 2), CT(batch_first, true), CT(proj_size, 2)));
        ct_print(ct_TransformerDecoderLayer(8, 2, 16));
        ct_print(ct_Transformer(8, 2, 2, 1, 16));
    }
    ct_check(cr_state_write(all, argv[1]));
    cr_state_drop(all);
    return 0;
}
