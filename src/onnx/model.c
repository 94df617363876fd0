/* Nodes, constants and the protocol buffer of an ONNX file.
 *
 * A message of the wire format is a list of fields: a key (number * 8 + kind), then a varint, 4
 * bytes, or a length and bytes.  Field numbers are those of onnx.proto. */
#include "onnx/model.h"
#include <string.h>

int ox_dtype(cr_dtype t)
{
    switch (t) {
    case CR_F32: return 1;
    case CR_U8: return 2;
    case CR_I8: return 3;
    case CR_U16: return 4;
    case CR_I16: return 5;
    case CR_I32: return 6;
    case CR_I64: return 7;
    case CR_BOOL: return 9;
    case CR_F16: return 10;
    case CR_F64: return 11;
    case CR_U32: return 12;
    case CR_U64: return 13;
    case CR_C64: return 14;
    case CR_C128: return 15;
    case CR_BF16: return 16;
    case CR_E4M3FN: return 17;
    case CR_E4M3FNUZ: return 18;
    case CR_E5M2: return 19;
    case CR_E5M2FNUZ: return 20;
    default: return 0;
    }
}

/* --- names and keys --- */

static void remember(ox_model *m, const char *key, size_t len, void *what)
{
    cr_session_check(m->s, cr_map_set(&m->known, key, len, what));
}

void ox_take_name(ox_model *m, const char *name)
{
    const char *key = cr_session_printf(m->s, "=%s", name);

    if (cr_map_get(&m->known, key, strlen(key)))
        cr_bail(m->s, CR_VALUE, "torch.onnx.export: two values are called '%s'", name);
    remember(m, key, strlen(key), m);
}

static const char *ox_new_name(ox_model *m)
{
    const char *key;

    do
        key = cr_session_printf(m->s, "=val_%u", m->names++);
    while (cr_map_get(&m->known, key, strlen(key)));
    return key + 1;
}

/* --- nodes --- */

static void put_attr_key(cr_text *key, const ox_attr *a)
{
    cr_text_printf(key, "|%s:%d:%lld:%a:%d:%s", a->name, a->kind, (long long)a->i, a->d,
                   a->dtype, a->text ? a->text : "");
    for (size_t i = 0; i < a->len; i++)
        if (a->ints)
            cr_text_printf(key, ",%lld", (long long)a->ints[i]);
        else
            cr_text_printf(key, ",%a", a->floats[i]);
}

static const char *node_key(ox_model *m, const char *op, const ox_value *in, int inputs,
                            const ox_attr *attr, int attrs, size_t *len)
{
    cr_text key = {0};

    cr_text_put(&key, op);
    for (int i = 0; i < inputs; i++)
        cr_text_printf(&key, "(%s", in[i].name ? in[i].name : "");
    for (int i = 0; i < attrs; i++)
        put_attr_key(&key, &attr[i]);
    *len = key.len;
    return cr_session_take_text(m->s, &key);
}

static ox_node *new_node(ox_model *m, const char *op, const ox_value *in, int inputs,
                         const ox_attr *attr, int attrs)
{
    ox_node *n = CR_NEW(m->s, ox_node);

    *n = (ox_node){.op = op, .source = m->source, .inputs = inputs, .attrs = attrs};
    n->input = CR_NEW_N(m->s, const char *, inputs + 1);
    for (int i = 0; i < inputs; i++)
        n->input[i] = in[i].name ? in[i].name : "";
    n->attr = cr_session_copy(m->s, attr, (size_t)attrs * sizeof *attr);
    CR_PUSH(m->s, &m->nodes, n);
    return n;
}

ox_value ox_call(ox_model *m, const char *op, const ox_value *in, int inputs,
                 const ox_attr *attr, int attrs, int out, cr_dtype dtype)
{
    size_t len;
    ox_node *n;

    while (inputs && !in[inputs - 1].name)
        inputs--;
    const char *key = node_key(m, op, in, inputs, attr, attrs, &len);
    n = cr_map_get(&m->known, key, len);
    if (!n) {
        n = new_node(m, op, in, inputs, attr, attrs);
        remember(m, key, len, n);
    }
    if (out >= OX_RESULTS)
        cr_bail(m->s, CR_VALUE, "%s has %d results", op, out + 1);
    for (; n->outputs <= out; n->outputs++)
        n->output[n->outputs] = ox_new_name(m);
    return (ox_value){n->output[out], dtype};
}

void ox_put_output(ox_model *m, const char *name, ox_value v)
{
    ox_node *n = new_node(m, "Identity", &v, 1, NULL, 0);

    n->output[n->outputs++] = name;
}

ox_value ox_op2(ox_model *m, const char *op, ox_value a, ox_value b)
{
    return ox_call(m, op, (ox_value[]){a, b}, 2, NULL, 0, 0, a.dtype);
}

ox_value ox_cast(ox_model *m, ox_value v, cr_dtype t)
{
    ox_attr to = {.name = "to", .kind = OX_INT, .i = ox_dtype(t)};

    if (!to.i)
        cr_bail(m->s, CR_NOT_IMPLEMENTED, "ONNX has no dtype %s", cr_dtype_name(t));
    return v.dtype == t ? v : ox_call(m, "Cast", &v, 1, &to, 1, 0, t);
}

/* --- constants --- */

ox_value ox_constant(ox_model *m, cr_dtype t, int ndim, const int64_t *size, const void *bytes)
{
    size_t n = (size_t)cr_numel(ndim, size) * cr_dtype_size(t);
    cr_text key = {0};
    const char *name;

    cr_text_printf(&key, "#%d", t);
    for (int d = 0; d < ndim; d++)
        cr_text_printf(&key, ",%lld", (long long)size[d]);
    cr_text_char(&key, ':');
    cr_text_put_n(&key, bytes, n);
    name = cr_map_get(&m->known, cr_text_str(&key), key.len);
    if (!name) {
        size_t len = key.len;
        const char *lasting = cr_session_copy(m->s, cr_text_str(&key), len);
        name = ox_new_name(m);
        remember(m, lasting, len, (void *)(uintptr_t)name);
        ox_weight w = {name,
                       t,
                       ndim,
                       cr_session_copy(m->s, size, (size_t)ndim * sizeof *size),
                       cr_session_copy(m->s, bytes, n),
                       NULL};
        CR_PUSH(m->s, &m->weights, w);
    }
    cr_text_drop(&key);
    return (ox_value){name, t};
}

ox_value ox_number(ox_model *m, cr_dtype t, cr_scalar value)
{
    char element[16];

    cr_scalar_store(value, t, element);
    return ox_constant(m, t, 0, NULL, element);
}

ox_value ox_ints(ox_model *m, const int64_t *value, size_t n)
{
    int64_t size = (int64_t)n;

    return ox_constant(m, CR_I64, 1, &size, value);
}

/* --- the wire format --- */

static void put_varint(cr_text *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        cr_text_char(out, (char)(v | 0x80));
    cr_text_char(out, (char)v);
}

static void put_int(cr_text *out, int field, int64_t v)
{
    put_varint(out, (uint64_t)field << 3);
    put_varint(out, (uint64_t)v);
}

static void put_bytes(cr_text *out, int field, const void *bytes, size_t n)
{
    put_varint(out, (uint64_t)field << 3 | 2);
    put_varint(out, n);
    cr_text_put_n(out, bytes, n);
}

static void put_string(cr_text *out, int field, const char *s)
{
    put_bytes(out, field, s, strlen(s));
}

static void put_fixed32(cr_text *out, int field, double d)
{
    float f = (float)d;

    put_varint(out, (uint64_t)field << 3 | 5);
    cr_text_put_n(out, (const char *)&f, sizeof f); /* processors here are little-endian */
}

/* Appends a message and drops it. */
static void put_message(cr_text *out, int field, cr_text *message)
{
    if (message->failed && !out->failed)
        out->failed = message->failed;
    put_bytes(out, field, cr_text_str(message), message->len);
    cr_text_drop(message);
}

/* --- messages --- */

enum { EXTERNAL_LEAST = 1024, EXTERNAL_ALIGN = 4096 };

static void put_entry(cr_text *out, int field, const char *key, const char *value)
{
    cr_text entry = {0};

    put_string(&entry, 1, key);
    put_string(&entry, 2, value);
    put_message(out, field, &entry);
}

static void put_place(const ox_model *m, cr_text *t, const ox_weight *w, size_t n,
                      cr_onnx_places *places)
{
    int64_t offset = 0;

    if (places->len) {
        const cr_onnx_place *last = &places->at[places->len - 1];
        offset =
            last->offset + last->values->numel * (int64_t)cr_dtype_size(last->values->dtype);
        offset = (offset + EXTERNAL_ALIGN - 1) / EXTERNAL_ALIGN * EXTERNAL_ALIGN;
    }
    CR_PUSH(m->s, places, ((cr_onnx_place){w->values, offset}));
    put_entry(t, 13, "location", m->how->external);
    put_entry(t, 13, "offset", cr_session_printf(m->s, "%lld", (long long)offset));
    put_entry(t, 13, "length", cr_session_printf(m->s, "%zu", n));
    put_int(t, 14, 1);
}

static void put_tensor(const ox_model *m, cr_text *out, int field, const ox_weight *w,
                       cr_onnx_places *places)
{
    size_t n = (size_t)cr_numel(w->ndim, w->size) * cr_dtype_size(w->dtype);
    cr_text t = {0};

    for (int d = 0; d < w->ndim; d++)
        put_int(&t, 1, w->size[d]);
    put_int(&t, 2, ox_dtype(w->dtype));
    if (w->name)
        put_string(&t, 8, w->name);
    if (w->values && m->how->external && n >= EXTERNAL_LEAST)
        put_place(m, &t, w, n, places);
    else
        put_bytes(&t, 9, w->bytes, n);
    put_message(out, field, &t);
}

static void put_attr(const ox_model *m, cr_text *out, const ox_attr *a)
{
    int64_t one = 1;
    char element[16];
    cr_text t = {0};

    put_string(&t, 1, a->name);
    switch (a->kind) {
    case OX_INT: put_int(&t, 3, a->i); break;
    case OX_FLOAT: put_fixed32(&t, 2, a->d); break;
    case OX_TEXT: put_string(&t, 4, a->text); break;
    case OX_INTS:
        for (size_t i = 0; i < a->len; i++)
            put_int(&t, 8, a->ints[i]);
        break;
    case OX_FLOATS:
        for (size_t i = 0; i < a->len; i++)
            put_fixed32(&t, 7, a->floats[i]);
        break;
    case OX_TENSOR:
        cr_scalar_store(cr_dtype_is_float(a->dtype) ? cr_scalar_float(a->d)
                                                    : cr_scalar_int(a->i),
                        a->dtype, element);
        put_tensor(m, &t, 5, &(ox_weight){NULL, a->dtype, 1, &one, element, NULL}, NULL);
    }
    put_int(&t, 20, a->kind);
    put_message(out, 5, &t);
}

static void put_node(const ox_model *m, cr_text *out, const ox_node *n, size_t k)
{
    cr_text t = {0};

    for (int i = 0; i < n->inputs; i++)
        put_string(&t, 1, n->input[i]);
    for (int i = 0; i < n->outputs; i++)
        put_string(&t, 2, n->output[i]);
    put_string(&t, 3, cr_session_printf(m->s, "node_%s_%zu", n->op, k));
    put_string(&t, 4, n->op);
    for (int i = 0; i < n->attrs; i++)
        put_attr(m, &t, &n->attr[i]);
    if (n->source)
        put_string(&t, 6, n->source);
    put_message(out, 1, &t);
}

static void put_port(cr_text *out, int field, const ox_port *p)
{
    cr_text shape = {0}, tensor = {0}, type = {0}, port = {0};

    for (int d = 0; d < p->ndim; d++) {
        const char *name = p->dim ? p->dim[d] : NULL;
        cr_text dim = {0};
        if (!name)
            put_int(&dim, 1, p->size[d]);
        else if (*name)
            put_string(&dim, 2, name);
        put_message(&shape, 1, &dim);
    }
    put_int(&tensor, 1, ox_dtype(p->dtype));
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_string(&port, 1, p->name);
    put_message(&port, 2, &type);
    put_message(out, field, &port);
}

static void put_weight_port(cr_text *out, const ox_weight *w)
{
    put_port(out, 11, &(ox_port){w->name, w->dtype, w->ndim, w->size, NULL});
}

static bool is_read(ox_model *m, const char *name)
{
    const char *key = cr_session_printf(m->s, "!%s", name);

    return cr_map_get(&m->known, key, strlen(key)) != NULL;
}

static bool is_read_node(ox_model *m, const ox_node *n, bool last)
{
    bool read = last;

    for (int k = 0; k < n->outputs; k++)
        read = read || is_read(m, n->output[k]);
    return read;
}

/* Leaves out nodes and weights that no result depends on; the last nodes are the results. */
static void keep_read(ox_model *m)
{
    size_t kept = 0, results = m->outputs.len;

    for (size_t i = m->nodes.len; i-- > 0;) {
        ox_node *n = m->nodes.at[i];
        if (!is_read_node(m, n, i + results >= m->nodes.len)) {
            m->nodes.at[i] = NULL;
            continue;
        }
        for (int k = 0; k < n->inputs; k++) {
            const char *key = cr_session_printf(m->s, "!%s", n->input[k]);
            remember(m, key, strlen(key), m);
        }
    }
    for (size_t i = 0; i < m->nodes.len; i++)
        if (m->nodes.at[i])
            m->nodes.at[kept++] = m->nodes.at[i];
    m->nodes.len = kept;
    kept = 0;
    for (size_t i = 0; i < m->weights.len; i++)
        if (is_read(m, m->weights.at[i].name))
            m->weights.at[kept++] = m->weights.at[i];
    m->weights.len = kept;
}

static void put_graph(const ox_model *m, cr_text *out, cr_onnx_places *places)
{
    const cr_onnx_how *how = m->how;

    for (size_t i = 0; i < m->nodes.len; i++)
        put_node(m, out, m->nodes.at[i], i);
    put_string(out, 2, "main_graph");
    for (size_t i = 0; i < m->weights.len; i++)
        if (how->weights || !m->weights.at[i].values)
            put_tensor(m, out, 5, &m->weights.at[i], places);
    for (size_t i = 0; i < m->inputs.len; i++)
        put_port(out, 11, &m->inputs.at[i]);
    for (size_t i = 0; i < m->weights.len; i++)
        if (m->weights.at[i].values && (!how->weights || how->weights_as_inputs))
            put_weight_port(out, &m->weights.at[i]);
    for (size_t i = 0; i < m->outputs.len; i++)
        put_port(out, 12, &m->outputs.at[i]);
}

void ox_print(ox_model *m, cr_text *out, cr_onnx_places *places)
{
    static const int version[] = {8, 9, 9, 10}; /* of the format that came with each opset */
    cr_text graph = {0}, opset = {0};

    put_int(out, 1, version[m->how->opset - CR_ONNX_LEAST]);
    put_string(out, 2, m->how->producer);
    put_string(out, 3, m->how->version);
    keep_read(m);
    put_graph(m, &graph, places);
    put_message(out, 7, &graph);
    put_string(&opset, 1, "");
    put_int(&opset, 2, m->how->opset);
    put_message(out, 8, &opset);
}
