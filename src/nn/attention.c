/* MultiheadAttention, and the layers of transformers.
 *
 * The steps are those of the Python modules, in the same order, so the bits are the same. */
#include "entry.h"
#include "nn/parts.h"
#include <math.h>
#include <string.h>

/* --- weights --- */

cr_status nn_draw_xavier(cr_tensor *t)
{
    if (!t)
        return CR_OK;
    double bound = sqrt(3.0) * sqrt(2.0 / (double)(t->size[0] + t->size[1]));
    return nn_fill_random(t, cr_entry.uniform_, -bound, bound);
}

static int64_t attention_width(const cr_module *m, const char *name)
{
    cr_value v = nn_arg(m, name);

    return v.tag == CR_INT ? v.i : nn_arg(m, "embed_dim").i;
}

static bool attention_is_packed(const cr_module *m)
{
    int64_t n = nn_arg(m, "embed_dim").i;

    return attention_width(m, "kdim") == n && attention_width(m, "vdim") == n;
}

static cr_status attention_projections(cr_module *m)
{
    static const char *const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    int64_t n = nn_arg(m, "embed_dim").i, size[] = {n, n}, three[] = {3 * n, n};
    int64_t width[] = {n, attention_width(m, "kdim"), attention_width(m, "vdim")};
    bool packed = attention_is_packed(m);

    if (packed)
        CR_TRY(nn_add_param(m, "in_proj_weight", cr_entry.empty_memory_format, three, 2));
    for (int i = 0; i < 3; i++) {
        size[1] = width[i];
        CR_TRY(nn_add_optional(m, names[i], !packed, cr_entry.empty_memory_format, size, 2));
    }
    if (!packed)
        CR_TRY(cr_module_set_parameter(m, "in_proj_weight", NULL));
    return nn_add_optional(m, "in_proj_bias", nn_is_on(m, "bias"), cr_entry.zeros, three, 1);
}

static cr_status attention_check(const cr_module *m)
{
    int64_t n = nn_arg(m, "embed_dim").i, heads = nn_arg(m, "num_heads").i;

    if (n <= 0 || heads <= 0)
        return cr_fail(CR_VALUE,
                       "embed_dim and num_heads must be greater than 0, got embed_dim=%lld and "
                       "num_heads=%lld instead",
                       (long long)n, (long long)heads);
    return n % heads ? cr_fail(CR_ASSERTION, "embed_dim must be divisible by num_heads")
                     : CR_OK;
}

/* The dtype argument of children: of this layer, or none. */
static cr_dtype attention_dtype(const cr_module *m)
{
    cr_value v = nn_arg(m, "dtype");

    return v.tag == CR_DTYPE_VAL ? (cr_dtype)v.i : cr_default_dtype();
}

/* torch's name of the last projection's class, which print shows. */
static cr_status attention_name_projection(cr_module *projection)
{
    char *kind = cr_strdup("NonDynamicallyQuantizableLinear");

    CR_NEED(kind);
    cr_free(projection->kind);
    projection->kind = kind;
    return CR_OK;
}

cr_status nn_make_attention(cr_module *m)
{
    int64_t n = nn_arg(m, "embed_dim").i;

    CR_TRY(attention_check(m));
    CR_TRY(attention_projections(m));
    CR_TRY(nn_add_child(m, "out_proj", "Linear",
                        CR_ARGS(n, n, CR_NAMED(bias, nn_is_on(m, "bias")),
                                CR_NAMED(dtype, attention_dtype(m)))));
    CR_TRY(attention_name_projection(cr_module_at(m, "out_proj")));
    if (nn_is_on(m, "bias"))
        CR_TRY(nn_add_param(cr_module_at(m, "out_proj"), "bias", cr_entry.zeros, &n, 1));
    CR_TRY(nn_draw_xavier(nn_own(m, "in_proj_weight")));
    CR_TRY(nn_draw_xavier(nn_own(m, "q_proj_weight")));
    CR_TRY(nn_draw_xavier(nn_own(m, "k_proj_weight")));
    return nn_draw_xavier(nn_own(m, "v_proj_weight"));
}

/* --- forward --- */

typedef struct {
    cr_steps w;
    cr_module *m;
    cr_tensor *q, *k, *v, *padding, *mask;
    bool batched;
    int64_t batch, heads, width, length, source; /* width: of the embedding */
} attention_call;

cr_tensor *nn_added_mask(cr_steps *w, cr_tensor *mask, const char *name, cr_dtype dtype)
{
    if (!mask || cr_dtype_is_float((cr_dtype)mask->dtype))
        return mask;
    if (mask->dtype != CR_BOOL)
        cr_step_fail(
            w, cr_fail(CR_ASSERTION, "only bool and floating types of %s are supported", name));
    cr_tensor *zeros = CR_STEP(w, zeros_like, cr_of_tensor(mask), cr_of_dtype(dtype));
    return CR_STEP(w, masked_fill_Scalar, cr_maybe(zeros), cr_of_tensor(mask),
                   cr_of_number(cr_scalar_float(-INFINITY)));
}

static cr_status attention_check_dims(const attention_call *c)
{
    int ndim = c->q->ndim;
    const char *kind = ndim == 3 ? "batched (3-D)" : "unbatched (2-D)";

    if (ndim != 2 && ndim != 3)
        return cr_fail(CR_ASSERTION,
                       "query should be unbatched 2D or batched 3D tensor but "
                       "received %d-D query tensor",
                       ndim);
    if (c->k->ndim != ndim || c->v->ndim != ndim)
        return cr_fail(CR_ASSERTION,
                       "For %s `query`, expected `key` and `value` to be %d-D but "
                       "found %d-D and %d-D tensors respectively",
                       kind, ndim, c->k->ndim, c->v->ndim);
    if (c->padding && c->padding->ndim != ndim - 1)
        return cr_fail(CR_ASSERTION,
                       "For %s `query`, expected `key_padding_mask` to be `None` "
                       "or %d-D but found %d-D tensor instead",
                       kind, ndim - 1, c->padding->ndim);
    if (c->mask && c->mask->ndim != 2 && c->mask->ndim != 3)
        return cr_fail(CR_ASSERTION,
                       "For %s `query`, expected `attn_mask` to be `None`, 2-D or "
                       "3-D but found %d-D tensor instead",
                       kind, c->mask->ndim);
    return CR_OK;
}

/* Turns query, key and value: equal ones stay equal, because one product then projects them. */
static void attention_turn(attention_call *c, const cr_op *op, const cr_value *how, int n)
{
    cr_tensor **at[] = {&c->q, &c->k, &c->v}, *before[] = {c->q, c->k, c->v}, *after[3];

    for (int i = 0; i < 3; i++) {
        after[i] = NULL;
        for (int j = 0; j < i; j++)
            if (before[j] == before[i])
                after[i] = after[j];
        cr_value arg[3] = {cr_of_tensor(before[i])};
        memcpy(arg + 1, how, (size_t)n * sizeof *arg);
        if (!after[i])
            after[i] = cr_step(&c->w, op, n + 1, arg);
        *at[i] = after[i];
    }
}

/* Puts the length first and adds a batch dim where there is none. */
static void attention_arrange(attention_call *c)
{
    const cr_value swap[] = {cr_of_int(0), cr_of_int(1)}, one[] = {cr_of_int(1)};

    c->batched = c->q->ndim == 3;
    if (c->batched && nn_is_on(c->m, "batch_first"))
        attention_turn(c, cr_entry.transpose_int, swap, 2);
    if (!c->batched) {
        attention_turn(c, cr_entry.unsqueeze, one, 1);
        if (c->padding)
            c->padding = CR_STEP(&c->w, unsqueeze, cr_of_tensor(c->padding), cr_of_int(0));
    }
}

/* A mask is for all heads, or has a part for each head of each sequence. */
static cr_status attention_check_mask(const attention_call *c)
{
    const cr_tensor *m = c->mask;
    int64_t size[] = {c->batch * c->heads, c->length, c->source};
    bool all = m && m->ndim == 2;

    if (!m || cr_has_sizes(m, m->ndim, size + all))
        return CR_OK;
    return all ? cr_fail(CR_RUNTIME,
                         "The shape of the 2D attn_mask is torch.Size([%lld, %lld]), but "
                         "should be (%lld, %lld).",
                         (long long)m->size[0], (long long)m->size[1], (long long)size[1],
                         (long long)size[2])
               : cr_fail(CR_RUNTIME,
                         "The shape of the 3D attn_mask is torch.Size([%lld, %lld, %lld]), "
                         "but should be (%lld, %lld, %lld).",
                         (long long)m->size[0], (long long)m->size[1], (long long)m->size[2],
                         (long long)size[0], (long long)size[1], (long long)size[2]);
}

static cr_status attention_check_sizes(attention_call *c)
{
    c->length = c->q->size[0];
    c->batch = c->q->size[1];
    c->source = c->k->size[0];
    c->width = nn_arg(c->m, "embed_dim").i;
    c->heads = nn_arg(c->m, "num_heads").i;
    if (c->q->size[2] != c->width)
        return cr_fail(CR_ASSERTION, "was expecting embedding dimension of %lld, but got %lld",
                       (long long)c->width, (long long)c->q->size[2]);
    if (c->k->size[0] != c->v->size[0] || c->k->size[1] != c->v->size[1] ||
        c->k->size[1] != c->batch)
        return cr_fail(CR_ASSERTION,
                       "key's sequence and batch dims (%lld, %lld) do not match "
                       "value's (%lld, %lld)",
                       (long long)c->k->size[0], (long long)c->k->size[1],
                       (long long)c->v->size[0], (long long)c->v->size[1]);
    if (c->padding && (c->padding->size[0] != c->batch || c->padding->size[1] != c->source))
        return cr_fail(CR_ASSERTION,
                       "Expected key_padding_mask of size (%lld, %lld), but got "
                       "(%lld, %lld)",
                       (long long)c->batch, (long long)c->source,
                       (long long)c->padding->size[0], (long long)c->padding->size[1]);
    return attention_check_mask(c);
}

static cr_tensor *attention_linear(cr_steps *w, cr_tensor *x, cr_tensor *weight,
                                   cr_tensor *bias)
{
    return CR_STEP(w, linear, cr_maybe(x), cr_maybe(weight), cr_maybe(bias));
}

/* n parts of equal size; NULL for NULL. */
static void attention_parts(cr_steps *w, cr_tensor **out, cr_tensor *t, int n, int dim)
{
    int64_t size = t ? t->size[dim < 0 ? t->ndim + dim : dim] / n : 0;
    const cr_value arg[] = {cr_maybe(t), cr_of_int(size), cr_of_int(dim)};

    for (int i = 0; i < n; i++)
        out[i] = NULL;
    if (t)
        cr_step_list(w, out, n, cr_entry.split_Tensor, 3, arg);
}

/* One product for n projections of x. */
static void attention_project_once(cr_steps *w, cr_tensor **out, cr_tensor *x,
                                   cr_tensor *weight, cr_tensor *bias, int n)
{
    attention_parts(w, out, attention_linear(w, x, weight, bias), n, -1);
    for (int i = 0; i < n; i++)
        out[i] = CR_STEP(w, contiguous, cr_maybe(out[i]));
}

/* The first part of a weight or bias, and the other two parts together. */
static void attention_split(cr_steps *w, cr_tensor **out, cr_tensor *t, int64_t size)
{
    int64_t sizes[] = {size, 2 * size};
    const cr_value arg[] = {cr_maybe(t), cr_of_ints(sizes, 2), cr_of_int(0)};

    out[0] = out[1] = NULL; /* there may be no bias */
    if (t)
        cr_step_list(w, out, 2, cr_entry.split_with_sizes, 3, arg);
}

static void attention_project(attention_call *c)
{
    cr_tensor *packed = nn_own(c->m, "in_proj_weight"), *bias = nn_own(c->m, "in_proj_bias");
    cr_tensor *weight[3] = {nn_own(c->m, "q_proj_weight"), nn_own(c->m, "k_proj_weight"),
                            nn_own(c->m, "v_proj_weight")};
    cr_tensor *biases[3] = {NULL, NULL, NULL}, *out[3];
    cr_steps *w = &c->w;

    if (packed && c->q == c->k && c->k == c->v) {
        attention_project_once(w, out, c->q, packed, bias, 3);
    } else if (packed && c->k == c->v) {
        attention_split(w, weight, packed, c->width);
        attention_split(w, biases, bias, c->width);
        out[0] = attention_linear(w, c->q, weight[0], biases[0]);
        attention_project_once(w, out + 1, c->k, weight[1], biases[1], 2);
    } else {
        attention_parts(w, biases, bias, 3, 0);
        if (packed)
            attention_parts(w, weight, packed, 3, 0);
        out[0] = attention_linear(w, c->q, weight[0], biases[0]);
        out[1] = attention_linear(w, c->k, weight[1], biases[1]);
        out[2] = attention_linear(w, c->v, weight[2], biases[2]);
    }
    c->q = out[0];
    c->k = out[1];
    c->v = out[2];
}

static cr_tensor *attention_shaped(cr_steps *w, cr_tensor *t, int64_t a, int64_t b, int64_t c,
                                   int64_t d)
{
    int64_t size[] = {a, b, c, d};

    return CR_STEP(w, reshape, cr_maybe(t), cr_of_ints(size, d ? 4 : c ? 3 : 2));
}

static cr_tensor *attention_swapped(cr_steps *w, cr_tensor *t, int64_t a, int64_t b)
{
    return CR_STEP(w, transpose_int, cr_maybe(t), cr_of_int(a), cr_of_int(b));
}

/* (length, batch, embedding) to (batch * heads, length, size of a head). */
static cr_tensor *attention_heads(attention_call *c, cr_tensor *t, int64_t length)
{
    int64_t rows = c->batch * c->heads;

    return attention_swapped(
        &c->w, attention_shaped(&c->w, t, length, rows, c->width / c->heads, 0), 0, 1);
}

/* The mask of both, with 3 dims. */
static void attention_merge(attention_call *c)
{
    int64_t wide[] = {-1, c->heads, -1, -1};
    cr_tensor *mask = c->mask, *padding = c->padding;
    cr_steps *w = &c->w;

    if (mask && mask->ndim == 2)
        mask = CR_STEP(w, unsqueeze, cr_of_tensor(mask), cr_of_int(0));
    if (padding) {
        padding = attention_shaped(w, padding, c->batch, 1, 1, c->source);
        padding = CR_STEP(w, expand, cr_maybe(padding), cr_of_ints(wide, 4));
        padding = attention_shaped(w, padding, c->batch * c->heads, 1, c->source, 0);
    }
    c->mask = !padding ? mask
              : !mask  ? padding
                       : CR_STEP(w, add, cr_of_tensor(mask), cr_of_tensor(padding));
}

/* By separate products; *weights are those of every head. */
static cr_tensor *attention_with_weights(attention_call *c, cr_tensor **weights)
{
    double scale = sqrt(1.0 / (double)(c->width / c->heads)), p = nn_arg(c->m, "dropout").d;
    cr_steps *w = &c->w;
    cr_tensor *q = CR_STEP(w, mul, cr_maybe(c->q), cr_of_number(cr_scalar_float(scale)));
    cr_tensor *k = attention_swapped(w, c->k, -2, -1);
    cr_tensor *a = c->mask
                       ? CR_STEP(w, baddbmm, cr_of_tensor(c->mask), cr_maybe(q), cr_maybe(k))
                       : CR_STEP(w, bmm, cr_maybe(q), cr_maybe(k));

    a = CR_STEP(w, softmax, cr_maybe(a), cr_of_int(-1));
    if (p > 0 && c->m->training)
        a = CR_STEP(w, dropout, cr_maybe(a), cr_of_float(p), cr_of_bool(true));
    *weights = attention_shaped(w, a, c->batch, c->heads, c->length, c->source);
    cr_tensor *out = CR_STEP(w, bmm, cr_maybe(a), cr_maybe(c->v));
    return attention_shaped(w, attention_swapped(w, out, 0, 1), c->length * c->batch, c->width,
                            0, 0);
}

static cr_tensor *attention_at_once(attention_call *c)
{
    static const int64_t order[] = {2, 0, 1, 3};
    int64_t size = c->width / c->heads;
    double p = c->m->training ? nn_arg(c->m, "dropout").d : 0;
    cr_steps *w = &c->w;
    cr_tensor *q = attention_shaped(w, c->q, c->batch, c->heads, c->length, size);
    cr_tensor *k = attention_shaped(w, c->k, c->batch, c->heads, c->source, size);
    cr_tensor *v = attention_shaped(w, c->v, c->batch, c->heads, c->source, size);
    cr_tensor *mask = c->mask;

    if (mask && mask->size[0] == 1)
        mask = CR_STEP(w, unsqueeze, cr_of_tensor(mask), cr_of_int(0));
    else if (mask)
        mask = attention_shaped(w, mask, c->batch, c->heads, -1, c->source);
    cr_tensor *out = CR_STEP(w, scaled_dot_product_attention, cr_maybe(q), cr_maybe(k),
                             cr_maybe(v), cr_maybe(mask), cr_of_float(p), cr_of_bool(false));
    out = CR_STEP(w, permute, cr_maybe(out), cr_of_ints(order, 4));
    return attention_shaped(w, out, c->batch * c->length, c->width, 0, 0);
}

/* result[0]: the values; result[1], when `outs` is 2: the mean weights of the heads. */
static void attention_run(attention_call *c, cr_tensor **result, size_t outs)
{
    static const int64_t head[] = {1};
    cr_tensor *weights = NULL, *out;
    cr_steps *w = &c->w;

    c->q = attention_heads(c, c->q, c->length);
    c->k = attention_heads(c, c->k, c->source);
    c->v = attention_heads(c, c->v, c->source);
    attention_merge(c);
    out = outs == 2 ? attention_with_weights(c, &weights) : attention_at_once(c);
    out = nn_apply(w, cr_module_at(c->m, "out_proj"), out);
    out = attention_shaped(w, out, c->length, c->batch, c->width, 0);
    if (outs == 2)
        weights = CR_STEP(w, mean, cr_maybe(weights), cr_of_ints(head, 1));
    if (!c->batched) {
        out = CR_STEP(w, squeeze_dim, cr_maybe(out), cr_of_int(1));
        if (outs == 2)
            weights = CR_STEP(w, squeeze_dim, cr_maybe(weights), cr_of_int(0));
    } else if (nn_is_on(c->m, "batch_first")) {
        out = attention_swapped(w, out, 1, 0);
    }
    result[0] = out;
    result[1] = weights;
}

cr_status nn_attention(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                       size_t inputs)
{
    attention_call c = {.m = m};
    cr_tensor *result[2] = {NULL, NULL};

    CR_TRY(nn_check_counts(m, inputs, 3, 5, outs, 2));
    for (int i = 1; i < 3; i++)
        CR_TRY(nn_need(input[i], "forward", i == 1 ? "key" : "value", "Tensor"));
    c.q = input[0];
    c.k = input[1];
    c.v = input[2];
    c.padding = inputs > 3 ? input[3] : NULL;
    c.mask = inputs > 4 ? input[4] : NULL;
    CR_TRY(attention_check_dims(&c));
    c.padding = nn_added_mask(&c.w, c.padding, "key_padding_mask", (cr_dtype)c.q->dtype);
    c.mask = nn_added_mask(&c.w, c.mask, "attn_mask", (cr_dtype)c.q->dtype);
    if (!c.w.st)
        attention_arrange(&c);
    if (!c.w.st)
        cr_step_fail(&c.w, attention_check_sizes(&c));
    if (!c.w.st)
        attention_project(&c);
    if (!c.w.st)
        attention_run(&c, result, outs);
    return nn_finish(&c.w, out, result, outs);
}

/* --- layers of transformers --- */

static cr_status transformer_add_attention(cr_module *m, const char *name)
{
    return nn_add_child(m, name, "MultiheadAttention",
                        CR_ARGS(nn_arg(m, "d_model").i, nn_arg(m, "nhead").i,
                                CR_NAMED(dropout, nn_arg(m, "dropout").d),
                                CR_NAMED(bias, nn_is_on(m, "bias")),
                                CR_NAMED(batch_first, nn_is_on(m, "batch_first")),
                                CR_NAMED(dtype, attention_dtype(m))));
}

static cr_status transformer_add_linear(cr_module *m, const char *name, int64_t in, int64_t out)
{
    return nn_add_child(m, name, "Linear",
                        CR_ARGS(in, out, CR_NAMED(bias, nn_is_on(m, "bias")),
                                CR_NAMED(dtype, attention_dtype(m))));
}

static cr_status transformer_add_norm(cr_module *m, const char *name)
{
    return nn_add_child(
        m, name, "LayerNorm",
        CR_ARGS(nn_arg(m, "d_model").i, CR_NAMED(eps, nn_arg(m, "layer_norm_eps").d),
                CR_NAMED(bias, nn_is_on(m, "bias")), CR_NAMED(dtype, attention_dtype(m))));
}

/* Children after the attention, in Python's order; `parts` norms and dropouts. */
static cr_status transformer_add_rest(cr_module *m, int parts)
{
    int64_t width = nn_arg(m, "d_model").i, inner = nn_arg(m, "dim_feedforward").i;
    double p = nn_arg(m, "dropout").d;
    const char *activation = nn_arg(m, "activation").s;
    char name[] = "dropout1", norm[] = "norm1";

    if (strcmp(activation, "relu") && strcmp(activation, "gelu"))
        return cr_fail(CR_RUNTIME, "activation should be relu/gelu, not %s", activation);
    CR_TRY(transformer_add_linear(m, "linear1", width, inner));
    CR_TRY(nn_add_child(m, "dropout", "Dropout", CR_ARGS(p)));
    CR_TRY(transformer_add_linear(m, "linear2", inner, width));
    for (int i = 0; i < parts; i++, norm[4]++)
        CR_TRY(transformer_add_norm(m, norm));
    for (int i = 0; i < parts; i++, name[7]++)
        CR_TRY(nn_add_child(m, name, "Dropout", CR_ARGS(p)));
    return CR_OK;
}

cr_status nn_make_encoder_layer(cr_module *m)
{
    CR_TRY(transformer_add_attention(m, "self_attn"));
    return transformer_add_rest(m, 2);
}

cr_status nn_make_decoder_layer(cr_module *m)
{
    CR_TRY(transformer_add_attention(m, "self_attn"));
    CR_TRY(transformer_add_attention(m, "multihead_attn"));
    return transformer_add_rest(m, 3);
}

/* A part of a layer: x + f(norm(x)), or norm(x + f(x)). */
typedef enum { TRANSFORMER_SELF, TRANSFORMER_OTHER, TRANSFORMER_FEED } transformer_part;

typedef struct {
    cr_steps w;
    cr_module *m;
    cr_tensor *memory, *mask[2], *padding[2]; /* of self and of the other attention */
    int parts;
} transformer_call;

static cr_tensor *transformer_child(transformer_call *c, const char *name, cr_tensor *x)
{
    return nn_apply(&c->w, cr_module_at(c->m, name), x);
}

static cr_tensor *transformer_attend(transformer_call *c, transformer_part part, cr_tensor *x)
{
    bool other = part == TRANSFORMER_OTHER;
    cr_tensor *k = other ? c->memory : x, *made = NULL;
    cr_tensor *const input[] = {x, k, k, c->padding[other], c->mask[other]};
    cr_module *attention = cr_module_at(c->m, other ? "multihead_attn" : "self_attn");

    if (c->w.st)
        return NULL;
    c->w.st = nn_attention(&made, 1, attention, input, 5);
    if (!c->w.st)
        made = cr_step_own(&c->w, made);
    return transformer_child(c, other ? "dropout2" : "dropout1", made);
}

static cr_tensor *transformer_feed(transformer_call *c, cr_tensor *x)
{
    cr_steps *w = &c->w;

    x = transformer_child(c, "linear1", x);
    x = strcmp(nn_arg(c->m, "activation").s, "gelu") ? CR_STEP(w, relu, cr_maybe(x))
                                                     : CR_STEP(w, gelu, cr_maybe(x));
    x = transformer_child(c, "linear2", transformer_child(c, "dropout", x));
    return transformer_child(c, c->parts == 3 ? "dropout3" : "dropout2", x);
}

static cr_tensor *transformer_step(transformer_call *c, transformer_part part, const char *norm,
                                   cr_tensor *x)
{
    bool first = nn_is_on(c->m, "norm_first");
    cr_tensor *in = first ? transformer_child(c, norm, x) : x;
    cr_tensor *f =
        part == TRANSFORMER_FEED ? transformer_feed(c, in) : transformer_attend(c, part, in);
    cr_tensor *sum = CR_STEP(&c->w, add, cr_maybe(x), cr_maybe(f));

    return first ? sum : transformer_child(c, norm, sum);
}

/* (src, src_mask, src_key_padding_mask) */
cr_status nn_encoder_layer(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                           size_t inputs)
{
    transformer_call c = {.m = m, .parts = 2};

    CR_TRY(nn_check_counts(m, inputs, 1, 3, outs, 1));
    c.mask[0] = inputs > 1 ? input[1] : NULL;
    c.padding[0] = inputs > 2 ? input[2] : NULL;
    cr_tensor *x = transformer_step(&c, TRANSFORMER_SELF, "norm1", input[0]);
    x = transformer_step(&c, TRANSFORMER_FEED, "norm2", x);
    return nn_finish(&c.w, out, &x, 1);
}

/* (tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask) */
cr_status nn_decoder_layer(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                           size_t inputs)
{
    transformer_call c = {.m = m, .parts = 3};

    CR_TRY(nn_check_counts(m, inputs, 2, 6, outs, 1));
    CR_TRY(nn_need(input[1], "forward", "memory", "Tensor"));
    c.memory = input[1];
    for (size_t i = 2; i < inputs; i++)
        *(i < 4 ? &c.mask[i - 2] : &c.padding[i - 4]) = input[i];
    cr_tensor *x = transformer_step(&c, TRANSFORMER_SELF, "norm1", input[0]);
    x = transformer_step(&c, TRANSFORMER_OTHER, "norm2", x);
    x = transformer_step(&c, TRANSFORMER_FEED, "norm3", x);
    return nn_finish(&c.w, out, &x, 1);
}
