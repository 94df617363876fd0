/* Copies of modules, stacks of the layers of transformers, and the whole transformer. */
#include "entry.h"
#include "nn/parts.h"
#include <stdio.h>
#include <string.h>

/* --- copies --- */

/* The tensors that a copy has met, so that one that occurs twice is copied once. */
typedef struct {
    CR_VEC(cr_tensor *) from;
    CR_VEC(cr_tensor *) to; /* borrowed from the copies */
} copy_memo;

/* *out is owned by the caller; NULL for NULL. */
static cr_status copy_tensor(cr_tensor **out, copy_memo *memo, cr_tensor *t)
{
    cr_value arg = t ? cr_of_tensor(t) : cr_of_none();
    bool before = cr_thread.no_grad;
    cr_tensor *made = NULL;

    *out = NULL;
    for (size_t i = 0; t && i < memo->from.len; i++)
        if (memo->from.at[i] == t)
            *out = cr_keep(memo->to.at[i]);
    if (!t || *out)
        return CR_OK;
    CR_TRY(cr_vec_reserve(&memo->from, 1));
    CR_TRY(cr_vec_reserve(&memo->to, 1));
    cr_thread.no_grad = true;
    cr_status st = cr_call_tensor(&made, cr_entry.clone, &arg, 1);
    cr_thread.no_grad = before;
    CR_TRY(st);
    cr_vec_put(&memo->from, t);
    cr_vec_put(&memo->to, made);
    *out = made;
    return CR_OK;
}

static cr_status copy_tensors(cr_module *to, copy_memo *memo, const cr_module *m)
{
    for (size_t i = 0; i < m->params.len; i++) {
        const nn_tensor *p = &m->params.at[i];
        cr_tensor *made;
        CR_TRY(copy_tensor(&made, memo, p->t));
        cr_status st = cr_module_set_parameter(to, p->name, made);
        if (!st && made)
            st = cr_set_requires_grad(made, p->t->requires_grad);
        cr_drop(made);
        CR_TRY(st);
    }
    for (size_t i = 0; i < m->buffers.len; i++) {
        const nn_tensor *b = &m->buffers.at[i];
        cr_tensor *made;
        CR_TRY(copy_tensor(&made, memo, b->t));
        cr_status st = cr_module_set_buffer(to, b->name, made, b->persistent);
        cr_drop(made);
        CR_TRY(st);
    }
    return CR_OK;
}

static cr_status copy_arguments(cr_module *to, const cr_module *m)
{
    to->arg = cr_arena_get(&to->arena, CR_MAX_ARGS * sizeof *to->arg);
    CR_NEED(to->arg);
    for (int i = 0; i < m->signature->param_count; i++) {
        to->arg[i] = m->arg[i];
        CR_TRY(nn_copy_value(&to->arg[i], &to->arena));
    }
    return CR_OK;
}

static cr_status copy_module(cr_module **out, copy_memo *memo, cr_module *m)
{
    cr_module *made = NULL, *child = NULL;
    cr_status st;

    if (!m->layer)
        return cr_fail(CR_NOT_IMPLEMENTED, "Module [%s] of the program cannot be copied",
                       m->kind);
    CR_GO(cr_module_define(&made, m->kind, NULL, NULL));
    made->layer = m->layer;
    made->signature = m->signature;
    made->training = m->training;
    CR_GO(copy_arguments(made, m));
    CR_GO(copy_tensors(made, memo, m));
    for (size_t i = 0; i < m->children.len; i++) {
        CR_GO(copy_module(&child, memo, m->children.at[i].m));
        CR_GO(cr_module_add(made, m->children.at[i].name, child));
        cr_module_drop(child);
        child = NULL;
    }
    *out = cr_module_hold(made);
    st = CR_OK;
done:
    cr_module_drop(child);
    cr_module_drop(made);
    return st;
}

cr_status cr_module_copy(cr_module **out, cr_module *m)
{
    copy_memo memo = {0};

    CR_TRY(nn_need(m, "deepcopy", "self", "Module"));
    CR_TRY(nn_need(out, "deepcopy", "out", "Module"));
    cr_status st = copy_module(out, &memo, m);
    cr_vec_drop(&memo.from);
    cr_vec_drop(&memo.to);
    return st;
}

/* --- stacks --- */

static cr_status stack_layers(cr_module *list, cr_module *layer, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        cr_module *copy = NULL;
        CR_TRY(cr_module_copy(&copy, layer));
        cr_status st = cr_module_append(list, copy);
        cr_module_drop(copy);
        CR_TRY(st);
    }
    return CR_OK;
}

cr_status cr_module_stack(cr_module **out, const char *kind, cr_module *layer,
                          int64_t num_layers, cr_module *norm)
{
    cr_module *m = NULL;
    cr_status st;

    CR_TRY(nn_need(kind, "Module", "kind", "str"));
    CR_TRY(nn_need(layer, kind, "layer", "Module"));
    if (strcmp(kind, "TransformerEncoder") && strcmp(kind, "TransformerDecoder"))
        return cr_fail(CR_ATTRIBUTE, "'%s' is not a stack of layers", kind);
    CR_TRY(cr_module_new(&m, kind, CR_ARGS(num_layers)));
    CR_GO(nn_add_child(m, "layers", "ModuleList", NULL));
    CR_GO(stack_layers(cr_module_at(m, "layers"), layer, num_layers));
    if (norm)
        CR_GO(cr_module_add(m, "norm", norm));
    *out = cr_module_hold(m);
    st = CR_OK;
done:
    cr_module_drop(m);
    return st;
}

static cr_status stack_find(cr_module **layers, cr_module *m)
{
    *layers = cr_module_at(m, "layers");
    return *layers && (*layers)->children.len
               ? CR_OK
               : cr_fail(CR_ATTRIBUTE, "'%s' object has no layers: cr_module_stack makes it",
                         m->kind);
}

/* Calls the layers one after the other: input[0] is replaced by each result. */
static cr_tensor *stack_run(cr_steps *w, cr_module *m, cr_module *layers, cr_tensor **input,
                            size_t inputs)
{
    for (size_t i = 0; !w->st && i < layers->children.len; i++) {
        cr_tensor *made = NULL;
        w->st = cr_module_call(&made, 1, layers->children.at[i].m, input, inputs);
        input[0] = w->st ? NULL : cr_step_own(w, made);
    }
    cr_module *norm = cr_module_at(m, "norm");
    return norm && !w->st ? nn_apply(w, norm, input[0]) : input[0];
}

/* --- encoder: padded rows in evaluation --- */

static bool stack_records(cr_module *layer, const cr_tensor *src)
{
    cr_tensors params = {NULL, 0};
    bool any = cr_requires_grad(src);

    if (cr_thread.no_grad)
        return false;
    if (cr_module_parameters(&params, layer))
        return true;
    for (size_t i = 0; i < params.len; i++)
        any |= cr_requires_grad(params.at[i]);
    cr_free(params.at);
    return any;
}

/* True if a layer is such that torch skips padding in evaluation. */
static bool stack_skips(cr_module *layer)
{
    cr_module *attention = cr_module_at(layer, "self_attn");

    return !strcmp(layer->kind, "TransformerEncoderLayer") && !layer->training &&
           !nn_is_on(layer, "norm_first") && nn_is_on(layer, "batch_first") &&
           nn_own(attention, "in_proj_bias") && nn_arg(layer, "nhead").i % 2 == 0;
}

/* The mask of padding, where all padding of each row is at its end; else NULL. */
static cr_tensor *stack_padding(cr_steps *w, cr_tensor *padding)
{
    cr_tensor *kept = CR_STEP(w, logical_not, cr_of_tensor(padding));
    cr_tensor *hidden = CR_STEP(w, logical_not, cr_maybe(kept));
    int64_t n = padding->size[1] - 1;
    cr_scalar found = {0};

    if (w->st || n < 1)
        return hidden;
    cr_tensor *before = CR_STEP(w, narrow, cr_of_tensor(hidden), I(1), I(0), I(n));
    cr_tensor *after = CR_STEP(w, narrow, cr_of_tensor(kept), I(1), I(1), I(n));
    cr_tensor *gap = CR_STEP(w, logical_and, cr_maybe(before), cr_maybe(after));
    gap = CR_STEP(w, any, cr_maybe(gap));
    if (!w->st)
        w->st = cr_tensor_item(&found, gap);
    return w->st || cr_scalar_as_double(found) != 0 ? NULL : hidden;
}

/* (src, mask, src_key_padding_mask) */
cr_status nn_encoder(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                     size_t inputs)
{
    cr_tensor *in[3] = {input[0], NULL, NULL}, *hidden = NULL;
    cr_module *layers, *norm = cr_module_at(m, "norm");
    cr_steps w = {0};

    CR_TRY(nn_check_counts(m, inputs, 1, 3, outs, 1));
    CR_TRY(stack_find(&layers, m));
    for (size_t i = 1; i < inputs; i++)
        in[i] = nn_added_mask(&w, input[i], i == 1 ? "mask" : "src_key_padding_mask",
                              (cr_dtype)input[0]->dtype);
    cr_module *first = layers->children.at[0].m;
    if (!w.st && in[2] && !in[1] && in[0]->ndim == 3 && stack_skips(first) &&
        !stack_records(first, in[0]))
        hidden = stack_padding(&w, in[2]);
    if (!hidden) {
        cr_tensor *x = stack_run(&w, m, layers, in, 3);
        return nn_finish(&w, out, &x, 1);
    }
    cr_tensor *x = stack_run(&w, layers, layers, in, 3);
    hidden = CR_STEP(&w, unsqueeze, cr_of_tensor(hidden), I(-1));
    x = CR_STEP(&w, masked_fill_Scalar, cr_maybe(x), cr_maybe(hidden),
                cr_of_number(cr_scalar_float(0)));
    x = norm ? nn_apply(&w, norm, x) : x;
    return nn_finish(&w, out, &x, 1);
}

/* (tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask) */
cr_status nn_decoder(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                     size_t inputs)
{
    cr_tensor *in[6] = {NULL};
    cr_module *layers;
    cr_steps w = {0};

    CR_TRY(nn_check_counts(m, inputs, 2, 6, outs, 1));
    CR_TRY(stack_find(&layers, m));
    memcpy(in, input, inputs * sizeof *in);
    cr_tensor *x = stack_run(&w, m, layers, in, inputs);
    return nn_finish(&w, out, &x, 1);
}

/* --- the transformer --- */

/* "encoder" or "decoder": copies of a layer, and a norm. */
static cr_status transformer_half(cr_module *m, const char *name, const char *layer_kind,
                                  const char *stack_kind, int64_t count)
{
    cr_module *layer = NULL, *norm = NULL, *stack = NULL;
    cr_value dtype = nn_arg(m, "dtype");
    cr_dtype t = dtype.tag == CR_DTYPE_VAL ? (cr_dtype)dtype.i : cr_default_dtype();
    double eps = nn_arg(m, "layer_norm_eps").d;
    cr_status st;

    CR_GO(cr_module_new(&layer, layer_kind,
                        CR_ARGS(nn_arg(m, "d_model").i, nn_arg(m, "nhead").i,
                                nn_arg(m, "dim_feedforward").i, nn_arg(m, "dropout").d,
                                nn_arg(m, "activation").s, eps, nn_is_on(m, "batch_first"),
                                nn_is_on(m, "norm_first"), nn_is_on(m, "bias"),
                                CR_NAMED(dtype, t))));
    CR_GO(cr_module_new(&norm, "LayerNorm",
                        CR_ARGS(nn_arg(m, "d_model").i, CR_NAMED(eps, eps),
                                CR_NAMED(bias, nn_is_on(m, "bias")), CR_NAMED(dtype, t))));
    CR_GO(cr_module_stack(&stack, stack_kind, layer, count, norm));
    st = cr_module_add(m, name, stack);
done:
    cr_module_drop(layer);
    cr_module_drop(norm);
    cr_module_drop(stack);
    return st;
}

cr_status nn_make_transformer(cr_module *m)
{
    cr_tensors params = {NULL, 0};

    CR_TRY(transformer_half(m, "encoder", "TransformerEncoderLayer", "TransformerEncoder",
                            nn_arg(m, "num_encoder_layers").i));
    CR_TRY(transformer_half(m, "decoder", "TransformerDecoderLayer", "TransformerDecoder",
                            nn_arg(m, "num_decoder_layers").i));
    cr_status st = cr_module_parameters(&params, m);
    for (size_t i = 0; !st && i < params.len; i++)
        if (params.at[i]->ndim > 1)
            st = nn_draw_xavier(params.at[i]);
    cr_free(params.at);
    return st;
}

static cr_status transformer_check(const cr_module *m, const cr_tensor *src,
                                   const cr_tensor *tgt)
{
    int64_t width = nn_arg(m, "d_model").i;
    int batch = nn_is_on(m, "batch_first") ? 0 : 1;

    if (src->ndim == 3 && tgt->ndim == 3 && src->size[batch] != tgt->size[batch])
        return cr_fail(CR_RUNTIME, "the batch number of src and tgt must be equal");
    if (!src->ndim || !tgt->ndim || src->size[src->ndim - 1] != width ||
        tgt->size[tgt->ndim - 1] != width)
        return cr_fail(CR_RUNTIME,
                       "the feature number of src and tgt must be equal to d_model");
    return CR_OK;
}

/* (src, tgt, src_mask, tgt_mask, memory_mask, src_key_padding_mask, tgt_key_padding_mask,
 * memory_key_padding_mask) */
cr_status nn_transformer(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                         size_t inputs)
{
    cr_tensor *in[8] = {NULL}, *memory = NULL;

    CR_TRY(nn_check_counts(m, inputs, 2, 8, outs, 1));
    CR_TRY(nn_need(input[1], "forward", "tgt", "Tensor"));
    memcpy(in, input, inputs * sizeof *in);
    CR_TRY(transformer_check(m, in[0], in[1]));
    cr_tensor *const source[] = {in[0], in[2], in[5]};
    CR_TRY(nn_encoder(&memory, 1, cr_module_at(m, "encoder"), source, 3));
    cr_tensor *const target[] = {in[1], memory, in[3], in[4], in[6], in[7]};
    cr_status st = nn_decoder(out, 1, cr_module_at(m, "decoder"), target, 6);
    cr_drop(memory);
    return st;
}
