/* Layers: arguments, initial weights drawn in torch's order, and forward. */
#include "base/map.h"
#include "entry.h"
#include "nn/nn_impl.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* --- arguments --- */

cr_value nn_arg(const cr_module *m, const char *name)
{
    int i = cr_op_find_param(m->signature, name);

    return i < 0 ? cr_of_none() : m->arg[i];
}

bool nn_is_on(const cr_module *m, const char *name) { return nn_arg(m, name).i != 0; }

/* --- weights --- */

static cr_dtype layer_dtype(const cr_module *m)
{
    cr_value v = nn_arg(m, "dtype");

    return v.tag == CR_DTYPE_VAL ? (cr_dtype)v.i : cr_default_dtype();
}

static cr_status layer_tensor(cr_tensor **out, const cr_op *op, const int64_t *size, int ndim,
                              cr_dtype dtype)
{
    cr_value arg[] = {cr_of_ints(size, (size_t)ndim), cr_of_dtype(dtype)};

    return cr_call_tensor(out, op, arg, 2);
}

cr_status nn_add_param(cr_module *m, const char *name, const cr_op *op, const int64_t *size,
                       int ndim)
{
    cr_tensor *t = NULL;

    CR_TRY(layer_tensor(&t, op, size, ndim, layer_dtype(m)));
    cr_status st = cr_module_set_parameter(m, name, t);
    cr_drop(t);
    return st;
}

cr_status nn_fill_random(cr_tensor *t, const cr_op *op, double a, double b)
{
    cr_value arg[] = {cr_of_tensor(t), cr_of_float(a), cr_of_float(b)};
    cr_tensor *same = NULL;
    bool before = cr_thread.no_grad;

    cr_thread.no_grad = true;
    cr_status st = cr_call_tensor(&same, op, arg, 3);
    cr_thread.no_grad = before;
    if (!st)
        cr_drop(same);
    return st;
}

/* Draws weight and bias of linear layers and convolutions: uniform, with bounds from fan-in. */
static cr_status draw_weights(cr_module *m)
{
    cr_tensor *weight = nn_own(m, "weight"), *bias = nn_own(m, "bias");
    double slope = sqrt(5), gain = sqrt(2.0 / (1 + slope * slope)), fan_in;

    if (!weight->numel && !(bias && bias->numel))
        return CR_OK;
    fan_in = (double)weight->size[1];
    for (int d = 2; d < weight->ndim; d++)
        fan_in *= (double)weight->size[d];
    double bound = sqrt(3.0) * (gain / sqrt(fan_in));
    if (weight->numel)
        CR_TRY(nn_fill_random(weight, cr_entry.uniform_, -bound, bound));
    bound = fan_in > 0 ? 1 / sqrt(fan_in) : 0;
    return bias ? nn_fill_random(bias, cr_entry.uniform_, -bound, bound) : CR_OK;
}

cr_status nn_add_optional(cr_module *m, const char *name, bool wanted, const cr_op *op,
                          const int64_t *size, int ndim)
{
    return wanted ? nn_add_param(m, name, op, size, ndim)
                  : cr_module_set_parameter(m, name, NULL);
}

static cr_status make_linear(cr_module *m)
{
    int64_t size[] = {nn_arg(m, "out_features").i, nn_arg(m, "in_features").i};

    CR_TRY(nn_add_param(m, "weight", cr_entry.empty_memory_format, size, 2));
    CR_TRY(
        nn_add_optional(m, "bias", nn_is_on(m, "bias"), cr_entry.empty_memory_format, size, 1));
    return draw_weights(m);
}

static cr_status check_conv(int64_t in, int64_t out, int64_t groups)
{
    if (groups <= 0)
        return cr_fail(CR_VALUE, "groups must be a positive integer");
    if (in % groups)
        return cr_fail(CR_VALUE, "in_channels must be divisible by groups");
    return out % groups ? cr_fail(CR_VALUE, "out_channels must be divisible by groups") : CR_OK;
}

/* Weight [rows, columns, *kernel_size] and bias [outputs]. */
static cr_status make_kernels(cr_module *m, int64_t rows, int64_t columns, int64_t outputs)
{
    cr_value kernel = nn_arg(m, "kernel_size");
    int64_t size[5] = {rows, columns};

    if (kernel.len > 3)
        return cr_fail(CR_VALUE, "kernel_size has %u numbers", kernel.len);
    for (uint32_t i = 0; i < kernel.len; i++)
        size[2 + i] = kernel.ints[i];
    CR_TRY(nn_add_param(m, "weight", cr_entry.empty_memory_format, size, 2 + (int)kernel.len));
    CR_TRY(nn_add_optional(m, "bias", nn_is_on(m, "bias"), cr_entry.empty_memory_format,
                           &outputs, 1));
    return draw_weights(m);
}

static cr_status make_conv(cr_module *m)
{
    int64_t in = nn_arg(m, "in_channels").i, out = nn_arg(m, "out_channels").i;
    int64_t groups = nn_arg(m, "groups").i;

    CR_TRY(check_conv(in, out, groups));
    return make_kernels(m, out, in / groups, out);
}

static cr_status make_conv_transpose(cr_module *m)
{
    int64_t in = nn_arg(m, "in_channels").i, out = nn_arg(m, "out_channels").i;
    int64_t groups = nn_arg(m, "groups").i;

    CR_TRY(check_conv(in, out, groups));
    return make_kernels(m, in, out / groups, out);
}

static cr_status add_buffer(cr_module *m, const char *name, const cr_op *op,
                            const int64_t *size, int ndim, cr_dtype dtype)
{
    cr_tensor *t = NULL;

    if (op)
        CR_TRY(layer_tensor(&t, op, size, ndim, dtype));
    cr_status st = cr_module_set_buffer(m, name, t, true);
    cr_drop(t);
    return st;
}

static cr_status make_batch_norm(cr_module *m)
{
    int64_t size[] = {nn_arg(m, "num_features").i};
    bool affine = nn_is_on(m, "affine"), track = nn_is_on(m, "track_running_stats");

    CR_TRY(nn_add_optional(m, "weight", affine, cr_entry.ones, size, 1));
    CR_TRY(nn_add_optional(m, "bias", affine && nn_is_on(m, "bias"), cr_entry.zeros, size, 1));
    CR_TRY(
        add_buffer(m, "running_mean", track ? cr_entry.zeros : NULL, size, 1, layer_dtype(m)));
    CR_TRY(add_buffer(m, "running_var", track ? cr_entry.ones : NULL, size, 1, layer_dtype(m)));
    return add_buffer(m, "num_batches_tracked", track ? cr_entry.zeros : NULL, size, 0, CR_I64);
}

static cr_status make_layer_norm(cr_module *m)
{
    cr_value shape = nn_arg(m, "normalized_shape"), bias = nn_arg(m, "bias");
    bool affine = nn_is_on(m, "elementwise_affine");

    CR_TRY(nn_add_optional(m, "weight", affine, cr_entry.ones, shape.ints, (int)shape.len));
    if (bias.tag == CR_NONE) /* RMSNorm has no bias */
        return CR_OK;
    return nn_add_optional(m, "bias", affine && bias.i, cr_entry.zeros, shape.ints,
                           (int)shape.len);
}

static cr_status make_group_norm(cr_module *m)
{
    int64_t groups = nn_arg(m, "num_groups").i, size[] = {nn_arg(m, "num_channels").i};
    bool affine = nn_is_on(m, "affine");

    if (groups <= 0 || size[0] % groups)
        return cr_fail(CR_VALUE, "num_channels (%lld) must be divisible by num_groups (%lld)",
                       (long long)size[0], (long long)groups);
    CR_TRY(nn_add_optional(m, "weight", affine, cr_entry.ones, size, 1));
    return nn_add_optional(m, "bias", affine && nn_is_on(m, "bias"), cr_entry.zeros, size, 1);
}

static cr_status forward_list(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    (void)out;
    (void)x;
    return cr_fail(CR_NOT_IMPLEMENTED,
                   "Module [%s] is missing the required \"forward\" function", m->kind);
}

/* Replaces an argument's value, as when a default depends on another argument. */
static void set_arg(cr_module *m, const char *name, cr_value v)
{
    int i = cr_op_find_param(m->signature, name);

    if (i >= 0)
        m->arg[i] = v;
}

static cr_status zero_row(cr_tensor *t, int64_t row)
{
    int64_t width = t->size[1];
    size_t bytes = cr_dtype_size((cr_dtype)t->dtype);

    char *to;

    CR_TRY(cr_reach_to_write(&to, t));
    memset(to + row * width * (int64_t)bytes, 0, (size_t)width * bytes);
    return CR_OK;
}

static cr_status make_embedding(cr_module *m)
{
    int64_t size[] = {nn_arg(m, "num_embeddings").i, nn_arg(m, "embedding_dim").i};
    cr_value padding = nn_arg(m, "padding_idx");

    if (padding.tag == CR_INT) {
        if (padding.i < -size[0] || padding.i >= size[0])
            return cr_fail(CR_ASSERTION, "Padding_idx must be within num_embeddings");
        padding.i += padding.i < 0 ? size[0] : 0;
        set_arg(m, "padding_idx", padding);
    }
    CR_TRY(nn_add_param(m, "weight", cr_entry.empty_memory_format, size, 2));
    CR_TRY(nn_fill_random(nn_own(m, "weight"), cr_entry.normal_, 0, 1));
    return padding.tag == CR_INT ? zero_row(nn_own(m, "weight"), padding.i) : CR_OK;
}

static cr_status make_dropout(cr_module *m)
{
    double p = nn_arg(m, "p").d;

    if (!(p >= 0 && p <= 1))
        return cr_fail(CR_VALUE, "dropout probability has to be between 0 and 1, but got %g",
                       p);
    return CR_OK;
}

static cr_status make_pool(cr_module *m)
{
    if (!nn_arg(m, "stride").len)
        set_arg(m, "stride", nn_arg(m, "kernel_size"));
    return CR_OK;
}

/* --- forward --- */

static cr_status forward_identity(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    (void)m;
    *out = cr_keep(x);
    return CR_OK;
}

static cr_status by_operator(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    int n = m->signature->param_count;
    cr_value arg[CR_MAX_ARGS];

    arg[0] = cr_of_tensor(x);
    memcpy(arg + 1, m->arg, (size_t)n * sizeof *arg);
    return cr_call_tensor(out, *m->layer->op, arg, n + 1);
}

static cr_value own_value(const cr_module *m, const char *name)
{
    return cr_of_tensor(nn_own(m, name));
}

static cr_status forward_linear(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    cr_value arg[] = {cr_of_tensor(x), own_value(m, "weight"), own_value(m, "bias")};

    return cr_call_tensor(out, cr_entry.linear, arg, 3);
}

static cr_status forward_conv(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    cr_value arg[] = {cr_of_tensor(x),     own_value(m, "weight"), own_value(m, "bias"),
                      nn_arg(m, "stride"), nn_arg(m, "padding"),   nn_arg(m, "dilation"),
                      nn_arg(m, "groups")};

    return cr_call_tensor(out, *m->layer->op, arg, 7);
}

static cr_status forward_conv_transpose(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    cr_value arg[] = {cr_of_tensor(x),     own_value(m, "weight"), own_value(m, "bias"),
                      nn_arg(m, "stride"), nn_arg(m, "padding"),   nn_arg(m, "output_padding"),
                      nn_arg(m, "groups"), nn_arg(m, "dilation")};

    return cr_call_tensor(out, *m->layer->op, arg, 8);
}

/* BatchNorm1d accepts (N, C) and (N, C, L).  The other kinds accept one number of dims. */
static cr_status check_norm_dims(const cr_module *m, const cr_tensor *x)
{
    int space = m->kind[strlen("BatchNorm")] - '0', ndim = x->ndim;

    if (space == 1)
        return ndim == 2 || ndim == 3
                   ? CR_OK
                   : cr_fail(CR_VALUE, "expected 2D or 3D input (got %dD input)", ndim);
    return ndim == space + 2
               ? CR_OK
               : cr_fail(CR_VALUE, "expected %dD input (got %dD input)", space + 2, ndim);
}

static cr_status check_batch(const cr_tensor *x)
{
    int64_t n = x->size[0];

    for (int d = 2; d < x->ndim; d++)
        n *= x->size[d];
    if (n != 1)
        return CR_OK;
    return cr_fail(CR_VALUE,
                   "Expected more than 1 value per channel when training, got "
                   "input size torch.Size(%s)",
                   cr_view_text(x));
}

/* Counts a batch.  *factor is the weight of the new batch in the running statistics. */
static cr_status count_batch(cr_module *m, double *factor)
{
    cr_tensor *count = nn_own(m, "num_batches_tracked");
    cr_value momentum = nn_arg(m, "momentum");

    char *at = NULL;

    if (count)
        CR_TRY(cr_reach_to_write(&at, count));
    if (!at)
        return CR_OK;
    int64_t n = ++*(int64_t *)(void *)at;
    count->storage->version++;
    if (momentum.tag == CR_NONE)
        *factor = 1.0 / (double)n;
    return CR_OK;
}

static cr_status forward_batch_norm(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    cr_value mean = own_value(m, "running_mean"), var = own_value(m, "running_var");
    cr_value momentum = nn_arg(m, "momentum");
    double factor = momentum.tag == CR_NONE ? 0 : momentum.d, eps = nn_arg(m, "eps").d;
    bool batch = m->training || (mean.tag == CR_NONE && var.tag == CR_NONE);

    CR_TRY(check_norm_dims(m, x));
    if (batch)
        CR_TRY(check_batch(x));
    if (m->training && nn_is_on(m, "track_running_stats"))
        CR_TRY(count_batch(m, &factor));
    if (batch ? eps <= 0 : eps < 0)
        return cr_fail(CR_VALUE,
                       batch ? "batch_norm eps must be positive during training, but got %g"
                             : "batch_norm eps must be non-negative, but got %g",
                       eps);
    cr_value arg[] = {cr_of_tensor(x),
                      own_value(m, "weight"),
                      own_value(m, "bias"),
                      mean,
                      var,
                      cr_of_bool(batch),
                      cr_of_float(factor),
                      cr_of_float(eps),
                      cr_of_bool(true)};
    return cr_call_tensor(out, cr_entry.batch_norm, arg, 9);
}

static cr_status forward_layer_norm(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    cr_value arg[] = {cr_of_tensor(x),        nn_arg(m, "normalized_shape"),
                      own_value(m, "weight"), own_value(m, "bias"),
                      nn_arg(m, "eps"),       cr_of_bool(true)};

    return cr_call_tensor(out, cr_entry.layer_norm, arg, 6);
}

static cr_status forward_rms_norm(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    cr_value arg[] = {cr_of_tensor(x), nn_arg(m, "normalized_shape"), own_value(m, "weight"),
                      nn_arg(m, "eps")};

    return cr_call_tensor(out, cr_entry.rms_norm, arg, 4);
}

static cr_status forward_group_norm(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    cr_value arg[] = {cr_of_tensor(x),      nn_arg(m, "num_groups"), own_value(m, "weight"),
                      own_value(m, "bias"), nn_arg(m, "eps"),        cr_of_bool(true)};

    return cr_call_tensor(out, cr_entry.group_norm, arg, 6);
}

static cr_status forward_embedding(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    cr_value padding = nn_arg(m, "padding_idx");
    cr_value arg[] = {own_value(m, "weight"), cr_of_tensor(x),
                      padding.tag == CR_INT ? padding : cr_of_int(-1)};

    return cr_call_tensor(out, cr_entry.embedding, arg, 3);
}

static cr_status forward_dropout(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    cr_value arg[] = {cr_of_tensor(x), nn_arg(m, "p"), cr_of_bool(m->training)};

    return cr_call_tensor(out, cr_entry.dropout, arg, 3);
}

/* --- kinds of layers --- */

static const nn_layer layers[] = {
#define CR_LAYER(kind, params, make, forward, op, text)                                        \
    {kind, "layer(" params ") -> Tensor", text, make, forward, op, NULL},
#define CR_LAYER_MANY(kind, params, make, many, text)                                          \
    {kind, "layer(" params ") -> Tensor", text, make, NULL, NULL, many},
#include "nn/layers.def"
#undef CR_LAYER
#undef CR_LAYER_MANY
};

static const nn_layer *layer_find(const char *kind)
{
    for (size_t i = 0; i < CR_LEN(layers); i++)
        if (!strcmp(layers[i].kind, kind))
            return &layers[i];
    return NULL;
}

/* Parsed schemas, by their text.  There is one schema a kind. */
static pthread_mutex_t schemas_lock = PTHREAD_MUTEX_INITIALIZER;
static cr_map schemas;
static cr_arena schemas_arena;

static cr_status find_schema(const cr_op **out, const char *schema)
{
    cr_op *op = cr_map_get(&schemas, schema, strlen(schema));
    cr_status st = CR_OK;

    if (!op) {
        op = cr_arena_get(&schemas_arena, sizeof *op);
        st = op ? cr_schema_read(op, &schemas_arena, schema) : CR_MEMORY;
        st = st ? st : cr_map_set(&schemas, schema, strlen(schema), op);
    }
    *out = op;
    return st;
}

cr_status nn_copy_value(cr_value *v, cr_arena *arena)
{
    size_t item = v->tag == CR_INTS || v->tag == CR_TRUTHS ? sizeof *v->ints
                  : v->tag == CR_FLOATS                    ? sizeof *v->floats
                                                           : 0;

    if (v->tag == CR_STRING) {
        v->s = cr_arena_text(arena, v->s, v->len);
        return v->s ? CR_OK : CR_MEMORY;
    }
    if (!item)
        return CR_OK;
    void *copy = cr_arena_get(arena, (v->len ? v->len : 1) * item);
    CR_NEED(copy);
    memcpy(copy, v->ints, v->len * item);
    v->ints = copy;
    return CR_OK;
}

cr_status nn_bind(const cr_op **signature, cr_value *value, cr_arena *arena, const char *schema,
                  const char *name, const cr_arg *args)
{
    static const cr_arg no_args[] = {{.kind = CR_ARG_END}};
    cr_binding b;
    cr_status st;

    pthread_mutex_lock(&schemas_lock);
    st = find_schema(signature, schema);
    pthread_mutex_unlock(&schemas_lock);
    CR_TRY(st);
    CR_GO(cr_bind(&b, signature, *signature, name, args ? args : no_args));
    for (int i = 0; i < (*signature)->param_count; i++) {
        CR_GO(nn_copy_value(&b.value[i], arena));
        value[i] = b.value[i];
    }
done:
    cr_binding_drop(&b);
    return st;
}

static cr_status bind_layer(cr_module *m, const cr_arg *args)
{
    char name[64];

    m->arg = cr_arena_get(&m->arena, CR_MAX_ARGS * sizeof *m->arg);
    CR_NEED(m->arg);
    snprintf(name, sizeof name, "%s.__init__", m->kind);
    CR_TRY(nn_bind(&m->signature, m->arg, &m->arena, m->layer->schema, name, args));
    return m->layer->make ? m->layer->make(m) : CR_OK;
}

cr_status cr_module_new(cr_module **out, const char *kind, const cr_arg *args)
{
    cr_module *m = NULL;

    CR_TRY(nn_need(kind, "Module", "kind", "str"));
    const nn_layer *layer = layer_find(kind);
    if (!layer)
        return cr_fail(CR_ATTRIBUTE, "module 'torch.nn' has no attribute '%s'", kind);
    CR_TRY(cr_module_define(&m, kind, NULL, NULL));
    m->layer = layer;
    cr_status st = bind_layer(m, args);
    CR_GIVE(st, out, m, cr_module_drop);
}
