/* Modules: a tree of named parameters, buffers and children.
 *
 * Names are in the order of their creation, which is the order of torch's state dict. */
#include "entry.h"
#include "nn/nn_impl.h"
#include <stdio.h>
#include <string.h>

cr_status nn_need(const void *p, const char *function, const char *what, const char *type)
{
    if (p)
        return CR_OK;
    return cr_fail(CR_TYPE, "%s(): argument '%s' must be %s, not NoneType", function, what,
                   type);
}

/* --- making --- */

cr_status cr_module_define(cr_module **out, const char *kind, cr_forward forward, void *context)
{
    CR_TRY(nn_need(kind, "Module", "kind", "str"));
    cr_module *m = cr_alloc_zero(sizeof *m);

    CR_NEED(m);
    m->count = 1;
    m->training = true;
    m->forward = forward;
    m->context = context;
    m->kind = cr_strdup(kind);
    if (!m->kind) {
        cr_free(m);
        return CR_MEMORY;
    }
    *out = m;
    return CR_OK;
}

cr_module *cr_module_hold(cr_module *m)
{
    if (m)
        atomic_fetch_add_explicit(&m->count, 1, memory_order_relaxed);
    return m;
}

static void drop_tensors(nn_tensor *at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        cr_free(at[i].name);
        cr_drop(at[i].t);
    }
    cr_free(at);
}

void cr_module_drop(cr_module *m)
{
    if (!m || atomic_fetch_sub(&m->count, 1) != 1)
        return;
    drop_tensors(m->params.at, m->params.len);
    drop_tensors(m->buffers.at, m->buffers.len);
    for (size_t i = 0; i < m->children.len; i++) {
        cr_free(m->children.at[i].name);
        cr_module_drop(m->children.at[i].m);
    }
    cr_vec_drop(&m->children);
    cr_arena_drop(&m->arena);
    if (m->release)
        m->release(m->context);
    cr_free(m->kind);
    cr_free(m);
}

cr_status cr_module_own_context(cr_module *m, void (*release)(void *context))
{
    CR_TRY(nn_need(m, "Module", "self", "Module"));
    m->release = release;
    return CR_OK;
}

void *cr_module_context(const cr_module *m, void (*release)(void *context))
{
    return m && release && m->release == release ? m->context : NULL;
}

/* --- names --- */

static nn_tensor *find_tensor(nn_tensor *at, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(at[i].name, name))
            return &at[i];
    return NULL;
}

static nn_child *find_child(const cr_module *m, const char *name, size_t len)
{
    for (size_t i = 0; i < m->children.len; i++)
        if (strlen(m->children.at[i].name) == len && !memcmp(m->children.at[i].name, name, len))
            return &m->children.at[i];
    return NULL;
}

static nn_tensor *module_find_param(const cr_module *m, const char *name)
{
    return find_tensor(m->params.at, m->params.len, name);
}

static nn_tensor *find_buffer(const cr_module *m, const char *name)
{
    return find_tensor(m->buffers.at, m->buffers.len, name);
}

static cr_status module_check_name(const cr_module *m, const char *what, const char *name,
                                   bool taken)
{
    if (strchr(name, '.'))
        return cr_fail(CR_KEY,
                       strcmp(what, "module") ? "%s name can't contain \".\""
                                              : "%s name can't contain \".\", got: %s",
                       what, name);
    if (!*name)
        return cr_fail(CR_KEY, "%s name can't be empty string \"\"", what);
    (void)m;
    return taken ? cr_fail(CR_KEY, "attribute '%s' already exists", name) : CR_OK;
}

/* Stores `t` under `name` in the list of parameters or of buffers. */
static cr_status module_put_tensor(nn_tensor **at, size_t *len, size_t *cap, nn_tensor *old,
                                   const char *name, cr_tensor *t, bool persistent)
{
    if (old) {
        cr_drop(old->t);
        old->t = cr_keep(t);
        old->persistent = persistent;
        return CR_OK;
    }
    CR_TRY(cr_vec_reserve_bytes((void **)at, *len, cap, 1, sizeof **at));
    char *own = cr_strdup(name);
    CR_NEED(own);
    (*at)[(*len)++] = (nn_tensor){own, cr_keep(t), persistent};
    return CR_OK;
}

cr_status cr_module_set_parameter(cr_module *m, const char *name, cr_tensor *t)
{
    CR_TRY(nn_need(m, "register_parameter", "module", "Module"));
    CR_TRY(nn_need(name, "register_parameter", "name", "str"));
    CR_TRY(module_check_name(m, "parameter", name,
                             find_buffer(m, name) || find_child(m, name, strlen(name))));
    if (t && !cr_is_leaf(t))
        return cr_fail(
            CR_VALUE,
            "Cannot assign non-leaf Tensor to parameter '%s'. Model parameters must be "
            "created explicitly. To express '%s' as a function of another Tensor, "
            "compute the value in the forward() method.",
            name, name);
    if (t)
        CR_TRY(cr_set_requires_grad(t, true));
    return module_put_tensor(&m->params.at, &m->params.len, &m->params.cap,
                             module_find_param(m, name), name, t, true);
}

cr_status cr_module_set_buffer(cr_module *m, const char *name, cr_tensor *t, bool persistent)
{
    CR_TRY(nn_need(m, "register_buffer", "module", "Module"));
    CR_TRY(nn_need(name, "register_buffer", "name", "str"));
    CR_TRY(module_check_name(m, "buffer", name,
                             module_find_param(m, name) || find_child(m, name, strlen(name))));
    return module_put_tensor(&m->buffers.at, &m->buffers.len, &m->buffers.cap,
                             find_buffer(m, name), name, t, persistent);
}

static bool module_contains(const cr_module *m, const cr_module *what)
{
    if (m == what)
        return true;
    for (size_t i = 0; i < m->children.len; i++)
        if (module_contains(m->children.at[i].m, what))
            return true;
    return false;
}

cr_status cr_module_add(cr_module *m, const char *name, cr_module *child)
{
    CR_TRY(nn_need(m, "add_module", "self", "Module"));
    CR_TRY(nn_need(name, "add_module", "name", "str"));
    CR_TRY(nn_need(child, "add_module", "module", "Module"));
    CR_TRY(module_check_name(m, "module", name,
                             module_find_param(m, name) || find_buffer(m, name)));
    if (module_contains(child, m))
        return cr_fail(CR_VALUE, "the module would contain itself");
    nn_child *old = find_child(m, name, strlen(name));
    if (old) {
        cr_module_hold(child);
        cr_module_drop(old->m);
        old->m = child;
        return CR_OK;
    }
    CR_TRY(cr_vec_reserve(&m->children, 1));
    char *own = cr_strdup(name);
    CR_NEED(own);
    cr_vec_put(&m->children, ((nn_child){own, cr_module_hold(child)}));
    return CR_OK;
}

cr_status cr_module_append(cr_module *m, cr_module *child)
{
    char name[24];

    CR_TRY(nn_need(m, "append", "self", "Module"));
    snprintf(name, sizeof name, "%zu", m->children.len);
    return cr_module_add(m, name, child);
}

/* --- finding --- */

const char *cr_module_kind(const cr_module *m) { return m ? m->kind : ""; }
bool cr_module_training(const cr_module *m) { return m && m->training; }

/* The module at the first `len` bytes of a path. */
static cr_module *module_at(cr_module *m, const char *path, size_t len)
{
    while (m && len) {
        const char *dot = memchr(path, '.', len);
        size_t n = dot ? (size_t)(dot - path) : len;
        nn_child *child = find_child(m, path, n);
        m = child ? child->m : NULL;
        path += n + (dot != NULL);
        len -= n + (dot != NULL);
    }
    return m;
}

cr_module *cr_module_at(cr_module *m, const char *path)
{
    return path ? module_at(m, path, strlen(path)) : NULL;
}

cr_tensor *nn_own(const cr_module *m, const char *name)
{
    nn_tensor *found = module_find_param(m, name);

    found = found ? found : find_buffer(m, name);
    return found ? found->t : NULL;
}

cr_tensor *cr_module_tensor(cr_module *m, const char *path)
{
    const char *dot = path ? strrchr(path, '.') : NULL;

    if (!path)
        return NULL;
    m = module_at(m, path, dot ? (size_t)(dot - path) : 0);
    return m ? nn_own(m, dot ? dot + 1 : path) : NULL;
}

cr_module *cr_module_child(cr_module *m, size_t i, const char **name)
{
    if (!m || i >= m->children.len)
        return NULL;
    if (name)
        *name = m->children.at[i].name;
    return m->children.at[i].m;
}

/* --- walking all modules below --- */

static cr_status module_walk(cr_module *m, cr_text *prefix, nn_visit visit, void *context)
{
    size_t len = prefix->len;

    CR_TRY(visit(context, m, cr_text_str(prefix)));
    for (size_t i = 0; i < m->children.len; i++) {
        cr_text_printf(prefix, "%s.", m->children.at[i].name);
        CR_TRY(cr_text_status(prefix));
        CR_TRY(module_walk(m->children.at[i].m, prefix, visit, context));
        prefix->len = len;
        prefix->at[len] = 0;
    }
    return CR_OK;
}

cr_status nn_walk(cr_module *m, nn_visit visit, void *context)
{
    cr_text prefix = {0};
    cr_status st = module_walk(m, &prefix, visit, context);

    cr_text_drop(&prefix);
    return st;
}

typedef CR_VEC(cr_tensor *) tensor_vec;

static bool has_tensor(const tensor_vec *v, const cr_tensor *t)
{
    for (size_t i = 0; i < v->len; i++)
        if (v->at[i] == t)
            return true;
    return false;
}

static cr_status collect_tensors(tensor_vec *v, const nn_tensor *at, size_t n)
{
    CR_TRY(cr_vec_reserve(v, n));
    for (size_t i = 0; i < n; i++)
        if (at[i].t && !has_tensor(v, at[i].t))
            cr_vec_put(v, at[i].t);
    return CR_OK;
}

static cr_status collect_parameters(void *context, cr_module *m, const char *prefix)
{
    (void)prefix;
    return collect_tensors(context, m->params.at, m->params.len);
}

static cr_status collect_buffers(void *context, cr_module *m, const char *prefix)
{
    (void)prefix;
    return collect_tensors(context, m->buffers.at, m->buffers.len);
}

static cr_status module_collect(cr_tensors *out, cr_module *m, nn_visit collect)
{
    tensor_vec v = {0};
    cr_status st = nn_walk(m, collect, &v);

    if (st) {
        cr_vec_drop(&v);
        return st;
    }
    *out = (cr_tensors){v.at, v.len};
    return CR_OK;
}

cr_status cr_module_parameters(cr_tensors *out, cr_module *m)
{
    CR_TRY(nn_need(out, "parameters", "out", "list"));
    CR_TRY(nn_need(m, "parameters", "self", "Module"));
    return module_collect(out, m, collect_parameters);
}

cr_status cr_module_buffers(cr_tensors *out, cr_module *m)
{
    CR_TRY(nn_need(out, "buffers", "out", "list"));
    CR_TRY(nn_need(m, "buffers", "self", "Module"));
    return module_collect(out, m, collect_buffers);
}

/* --- modes --- */

static cr_status set_training(void *context, cr_module *m, const char *prefix)
{
    (void)prefix;
    m->training = *(const bool *)context;
    return CR_OK;
}

cr_status cr_module_train(cr_module *m, bool on)
{
    CR_TRY(nn_need(m, "train", "self", "Module"));
    return nn_walk(m, set_training, &on);
}

static cr_status set_wanted(void *context, cr_module *m, const char *prefix)
{
    (void)prefix;
    for (size_t i = 0; i < m->params.len; i++)
        if (m->params.at[i].t)
            CR_TRY(cr_set_requires_grad(m->params.at[i].t, *(const bool *)context));
    return CR_OK;
}

cr_status cr_module_requires_grad(cr_module *m, bool on)
{
    CR_TRY(nn_need(m, "requires_grad_", "self", "Module"));
    return nn_walk(m, set_wanted, &on);
}

static cr_status module_forget(void *context, cr_module *m, const char *prefix)
{
    (void)context;
    (void)prefix;
    for (size_t i = 0; i < m->params.len; i++)
        if (m->params.at[i].t)
            CR_TRY(cr_set_grad(m->params.at[i].t, NULL));
    return CR_OK;
}

cr_status cr_module_zero_grad(cr_module *m)
{
    CR_TRY(nn_need(m, "zero_grad", "self", "Module"));
    return nn_walk(m, module_forget, NULL);
}

/* Replaces `t` by the result of a call, in place, so that optimizers keep referring to it. */
static cr_status module_replace(cr_tensor *t, const cr_op *op, const cr_value *arg, int n)
{
    cr_tensor *made = NULL;
    bool before = cr_thread.no_grad;

    cr_thread.no_grad = true;
    cr_status st = cr_call_tensor(&made, op, arg, n);
    cr_thread.no_grad = before;
    st = st ? st : cr_set_grad(t, NULL);
    st = st ? st : cr_tensor_set_from(t, made);
    cr_drop(made);
    return st;
}

static cr_status module_convert(cr_tensor *t, cr_dtype dtype)
{
    cr_value arg[] = {cr_of_tensor(t), cr_of_dtype(dtype)};

    if (!t || !cr_dtype_is_float((cr_dtype)t->dtype) || t->dtype == dtype)
        return CR_OK;
    return module_replace(t, cr_entry.to_dtype, arg, 2);
}

static cr_status module_move(cr_tensor *t, cr_value device)
{
    cr_value arg[] = {cr_of_tensor(t), cr_of_none(), cr_of_none(), device};

    return t ? module_replace(t, cr_entry._to_copy, arg, 4) : CR_OK;
}

static cr_status module_move_all(void *context, cr_module *m, const char *prefix)
{
    (void)prefix;
    for (size_t i = 0; i < m->params.len; i++)
        CR_TRY(module_move(m->params.at[i].t, *(const cr_value *)context));
    for (size_t i = 0; i < m->buffers.len; i++)
        CR_TRY(module_move(m->buffers.at[i].t, *(const cr_value *)context));
    return CR_OK;
}

cr_status cr_module_to_device(cr_module *m, const char *device)
{
    int kind, index;

    CR_TRY(nn_need(m, "to", "self", "Module"));
    CR_TRY(nn_need(device, "to", "device", "str"));
    CR_TRY(cr_device_parse(device, &kind, &index));
    cr_value where = {.tag = CR_DEVICE_VAL, .i = cr_device_pack(kind, index)};
    return nn_walk(m, module_move_all, &where);
}

static cr_status module_convert_all(void *context, cr_module *m, const char *prefix)
{
    (void)prefix;
    for (size_t i = 0; i < m->params.len; i++)
        CR_TRY(module_convert(m->params.at[i].t, *(const cr_dtype *)context));
    for (size_t i = 0; i < m->buffers.len; i++)
        CR_TRY(module_convert(m->buffers.at[i].t, *(const cr_dtype *)context));
    return CR_OK;
}

cr_status cr_module_to(cr_module *m, cr_dtype dtype)
{
    CR_TRY(nn_need(m, "to", "self", "Module"));
    if ((unsigned)dtype >= CR_DTYPE_COUNT || !cr_dtype_is_inexact(dtype))
        return cr_fail(CR_TYPE,
                       "nn.Module.to only accepts floating point or complex dtypes, but "
                       "got desired dtype=torch.%s",
                       (unsigned)dtype < CR_DTYPE_COUNT ? cr_dtype_name(dtype) : "?");
    return nn_walk(m, module_convert_all, &dtype);
}

/* --- calling --- */

static cr_status forward_children(cr_tensor **out, cr_module *m, cr_tensor *x)
{
    cr_tensor *now = cr_keep(x), *next = NULL;

    for (size_t i = 0; i < m->children.len; i++) {
        cr_status st = cr_module_forward(&next, m->children.at[i].m, now);
        cr_drop(now);
        if (st)
            return st;
        now = next;
    }
    *out = now;
    return CR_OK;
}

cr_status cr_module_forward(cr_tensor **out, cr_module *m, cr_tensor *input)
{
    CR_TRY(nn_need(m, "forward", "self", "Module"));
    CR_TRY(nn_need(input, "forward", "input", "Tensor"));
    CR_TRY(nn_need(out, "forward", "out", "Tensor"));
    if (m->layer && m->layer->many)
        return m->layer->many(out, 1, m, &input, 1);
    if (m->layer)
        return m->layer->forward ? m->layer->forward(out, m, input)
                                 : forward_children(out, m, input);
    if (m->many)
        return m->many(out, 1, m, &input, 1, m->context);
    if (!m->forward)
        return cr_fail(CR_NOT_IMPLEMENTED,
                       "Module [%s] is missing the required \"forward\" function", m->kind);
    return m->forward(out, m, input, m->context);
}

cr_status cr_module_define_many(cr_module **out, const char *kind, cr_forward_many forward,
                                void *context)
{
    cr_module *m = NULL;

    CR_TRY(cr_module_define(&m, kind, NULL, context));
    m->many = forward;
    *out = m;
    return CR_OK;
}

cr_status cr_module_call(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                         size_t inputs)
{
    CR_TRY(nn_need(m, "forward", "self", "Module"));
    CR_TRY(nn_need(inputs ? input : (const void *)m, "forward", "input", "Tensor"));
    CR_TRY(nn_need(outs ? out : (const void *)m, "forward", "out", "Tensor"));
    bool layer = m->layer && m->layer->many; /* whose inputs after the first are optional */
    for (size_t i = 0; i < inputs; i++)
        if (!layer || !i)
            CR_TRY(nn_need(input[i], "forward", "input", "Tensor"));
    if (layer && inputs && outs)
        return m->layer->many(out, outs, m, input, inputs);
    if (m->many)
        return m->many(out, outs, m, input, inputs, m->context);
    if (inputs != 1 || outs != 1)
        return cr_fail(CR_TYPE,
                       "%s.forward() has 1 input and 1 result, but %zu inputs were given and "
                       "%zu results were asked for",
                       m->kind, inputs, outs);
    return cr_module_forward(out, m, input[0]);
}
