/* Building graphs: values and their names, nodes, copies of arguments. */
#include "graph/graph.h"
#include "base/map.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include <string.h>

cr_graph *cr_graph_new(cr_session *s)
{
    cr_graph *g = CR_NEW(s, cr_graph);

    g->session = s;
    g->body = cr_graph_block(g);
    return g;
}

void cr_graph_drop(cr_graph *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->constants.len; i++)
        cr_drop(g->constants.at[i]);
    g->constants.len = 0;
}

cr_gblock *cr_graph_block(cr_graph *g) { return CR_NEW(g->session, cr_gblock); }

/* --- names --- */

static uint32_t hash_name(const char *name) { return (uint32_t)cr_hash(name, strlen(name)); }

/* The entry of a name in the open hash table: its value's, or a free one. */
static cr_gvalue **find_name(const cr_graph *g, const char *name, uint32_t hash)
{
    size_t i = hash & (g->name_room - 1);

    while (g->names[i] && (g->names[i]->hash != hash || strcmp(g->names[i]->name, name)))
        i = (i + 1) & (g->name_room - 1);
    return &g->names[i];
}

static void grow_names(cr_graph *g)
{
    cr_gvalue **old = g->names;
    size_t room = g->name_room;

    g->name_room = room ? 2 * room : 16;
    g->names = CR_NEW_N(g->session, cr_gvalue *, g->name_room);
    for (size_t i = 0; i < room; i++)
        if (old[i])
            *find_name(g, old[i]->name, old[i]->hash) = old[i];
}

enum { NAME_ROOM = 64, MOST_DIGITS = 10 };

/* Makes "add_12" from "add" and 12, in `room` if it fits.  Without printf, which took a tenth
 * of recording time. */
static const char *numbered(cr_graph *g, const char *wanted, int number, char *room)
{
    size_t len = strlen(wanted), digits = 0;
    char *out = len + MOST_DIGITS + 2 <= NAME_ROOM
                    ? room
                    : cr_session_get(g->session, len + MOST_DIGITS + 2);
    char digit[MOST_DIGITS];

    do
        digit[digits++] = (char)('0' + number % 10);
    while (number /= 10);
    memcpy(out, wanted, len);
    out[len++] = '_';
    while (digits)
        out[len++] = digit[--digits];
    out[len] = '\0';
    return out;
}

/* Names `v` "add", "add_1", "add_2", as torch.fx does. */
static void give_name(cr_graph *g, cr_gvalue *v, const char *wanted)
{
    uint32_t hash = hash_name(wanted);
    char room[NAME_ROOM];

    if (2 * ((size_t)g->values + 1) > g->name_room)
        grow_names(g);
    cr_gvalue **at = find_name(g, wanted, hash), *first = *at;
    const char *name = wanted;

    while (*at) {
        name = numbered(g, wanted, ++first->same_name, room);
        hash = hash_name(name);
        at = find_name(g, name, hash);
    }
    v->name = cr_session_text(g->session, name);
    v->hash = hash;
    *at = v;
}

cr_gvalue *cr_graph_find(const cr_graph *g, const char *name)
{
    return g->name_room ? *find_name(g, name, hash_name(name)) : NULL;
}

/* --- values and nodes --- */

static cr_gvalue *value_new(cr_graph *g, const char *name, cr_gnode *by, int index)
{
    cr_gvalue *v = CR_NEW(g->session, cr_gvalue);

    give_name(g, v, name);
    v->id = g->values++;
    v->by = by;
    v->index = index;
    return v;
}

void cr_graph_push_input(cr_graph *g, cr_gvalue *v)
{
    int n = g->input_count;

    if (!(n & (n - 1))) { /* full: the capacity is the next power of two */
        cr_gvalue **more = CR_NEW_N(g->session, cr_gvalue *, n ? 2 * n : 1);
        if (n)
            memcpy(more, g->input, (size_t)n * sizeof *more);
        g->input = more;
    }
    v->by = NULL;
    v->index = n;
    g->input[g->input_count++] = v;
}

cr_gvalue *cr_graph_input(cr_graph *g, const char *name, const cr_gtype *type)
{
    cr_gvalue *v = value_new(g, name ? name : "arg", NULL, 0);

    if (type)
        v->type = *type;
    cr_graph_push_input(g, v);
    return v;
}

static cr_gnode *node_new(cr_graph *g, cr_gblock *b, cr_gnode_kind kind, int args, int results)
{
    cr_gnode *n = CR_NEW(g->session, cr_gnode);

    n->kind = (uint8_t)kind;
    n->arg_count = args;
    n->arg = CR_NEW_N(g->session, cr_garg, args);
    n->result_count = results;
    n->result = CR_NEW_N(g->session, cr_gvalue *, results);
    CR_PUSH(g->session, b, n);
    return n;
}

/* Names a result after its node's operator, without the namespace, or as the schema names
 * it. */
static const char *result_base_name(const cr_op *op, int k)
{
    const char *colons = strstr(op->name, "::");

    if (op->result_count > 1 && k < op->result_count && *op->result[k].name)
        return op->result[k].name;
    return colons ? colons + 2 : op->name;
}

cr_gnode *cr_graph_call(cr_graph *g, cr_gblock *b, const cr_op *op, const cr_garg *arg,
                        int results, const char *const *names)
{
    cr_gnode *n = node_new(g, b, CR_GNODE_CALL, op->param_count, results);

    n->op = op;
    for (int i = 0; i < n->arg_count; i++)
        n->arg[i] = cr_garg_copy(g, &arg[i], NULL, NULL);
    for (int k = 0; k < results; k++)
        n->result[k] = value_new(g, names ? names[k] : result_base_name(op, k), n, k);
    return n;
}

cr_gvalue *cr_graph_constant(cr_graph *g, cr_gblock *b, cr_tensor *t, const char *name)
{
    cr_gnode *n = node_new(g, b, CR_GNODE_CONSTANT, 0, 1);

    CR_PUSH(g->session, &g->constants, t);
    n->constant = cr_keep(t);
    n->result[0] = value_new(g, name ? name : "constant", n, 0);
    n->result[0]->type = cr_gtype_of(g->session, t);
    return n->result[0];
}

/* Makes results with the names and types of a block's outputs. */
static void block_results(cr_graph *g, cr_gnode *n, const cr_gblock *b, const char *name,
                          const char *const *names)
{
    for (int k = 0; k < n->result_count; k++) {
        n->result[k] = value_new(g, names ? names[k] : name, n, k);
        if (b->output[k].tag == CR_TENSOR)
            n->result[k]->type = b->output[k].value->type;
    }
}

cr_gnode *cr_graph_group(cr_graph *g, cr_gblock *b, cr_gblock *inner, const char *const *names)
{
    cr_gnode *n = node_new(g, b, CR_GNODE_GROUP, 0, inner->output_count);

    n->block[0] = inner;
    block_results(g, n, inner, "group", names);
    return n;
}

cr_gnode *cr_graph_if(cr_graph *g, cr_gblock *b, cr_gvalue *condition, cr_gblock *then,
                      cr_gblock *other, const char *const *names)
{
    cr_gnode *n;

    if (then->output_count != other->output_count)
        cr_bail(g->session, CR_VALUE, "the blocks of a choice return %d and %d values",
                then->output_count, other->output_count);
    n = node_new(g, b, CR_GNODE_IF, 1, then->output_count);
    n->arg[0] = cr_garg_value(condition);
    n->block[0] = then;
    n->block[1] = other;
    block_results(g, n, then, "cond", names);
    return n;
}

void cr_gblock_return(cr_graph *g, cr_gblock *b, const cr_garg *output, int n)
{
    b->output = cr_session_copy(g->session, output, (size_t)n * sizeof *output);
    b->output_count = n;
}

/* --- types --- */

/* Results of tensors without elements have the strides that eager calls give them, though any
 * strides are contiguous. */
static bool type_omits_strides(const cr_tensor *t)
{
    return t->contiguous && (t->numel || cr_is_row_major(t->ndim, t->size, t->stride));
}

cr_gtype cr_gtype_of(cr_session *s, const cr_tensor *t)
{
    size_t bytes = t->ndim * sizeof *t->size;

    return (cr_gtype){.known = true,
                      .requires_grad = t->requires_grad,
                      .dtype = t->dtype,
                      .device = {.kind = t->device.kind, .index = t->device.index},
                      .ndim = t->ndim,
                      .size = cr_session_copy(s, t->size, bytes),
                      .stride =
                          type_omits_strides(t) ? NULL : cr_session_copy(s, t->stride, bytes)};
}

cr_status cr_gtype_fake(cr_tensor **out, const cr_gtype *t)
{
    return cr_tensor_new_strided(out, (cr_dtype)t->dtype, cr_as_fake(t->device), t->ndim,
                                 t->size, t->stride);
}

cr_gtype cr_gtype_of_input(cr_session *s, const cr_tensor *t)
{
    cr_gtype type = cr_gtype_of(s, t);

    if (!type.stride && !cr_is_row_major(t->ndim, t->size, t->stride))
        type.stride = cr_session_copy(s, t->stride, t->ndim * sizeof *t->stride);
    return type;
}

/* Whether the types have the same sizes, and the same strides in dims of more than one
 * element. */
static bool types_agree(const cr_gtype *a, const cr_gtype *b)
{
    int64_t dense[CR_MAX_DIMS];
    const int64_t *x = a->stride ? a->stride : dense, *y = b->stride ? b->stride : dense;

    if (!a->known || !b->known || a->ndim != b->ndim ||
        (a->ndim && memcmp(a->size, b->size, a->ndim * sizeof *a->size)))
        return false;
    cr_row_major_strides(dense, a->ndim, a->size);
    for (int d = 0; d < a->ndim; d++)
        if (a->size[d] > 1 && x[d] != y[d])
            return false;
    return true;
}

void cr_gvalue_show(cr_session *s, cr_gvalue *v, const cr_gtype *as)
{
    if (!v->by || !types_agree(&v->type, as))
        return;
    v->type.exact = true;
    v->type.stride =
        as->stride ? cr_session_copy(s, as->stride, as->ndim * sizeof *as->stride) : NULL;
}

void cr_gvalue_show_as(cr_session *s, cr_gvalue *v, const cr_tensor *t)
{
    cr_gtype type = cr_gtype_of_input(s, t);

    cr_gvalue_show(s, v, &type);
}

/* --- arguments --- */

static cr_gvalue *mapped(cr_gvalue *v, cr_gvalue_map map, void *context)
{
    return map ? map(context, v) : v;
}

cr_garg cr_garg_copy(cr_graph *g, const cr_garg *a, cr_gvalue_map map, void *context)
{
    cr_session *s = g->session;
    cr_garg out = *a;

    switch (a->tag) {
    case CR_TENSOR: out.value = mapped(a->value, map, context); break;
    case CR_STRING: {
        char *text = cr_session_get(s, (size_t)a->len + 1);
        if (a->len)
            memcpy(text, a->s, a->len);
        out.s = text;
        break;
    }
    case CR_INTS:
    case CR_TRUTHS: out.ints = cr_session_copy(s, a->ints, a->len * sizeof *a->ints); break;
    case CR_FLOATS:
        out.floats = cr_session_copy(s, a->floats, a->len * sizeof *a->floats);
        break;
    case CR_TENSORS:
    case CR_NUMBERS: {
        cr_garg *list = CR_NEW_N(s, cr_garg, a->len);
        for (uint32_t i = 0; i < a->len; i++)
            list[i] = cr_garg_copy(g, &a->list[i], map, context);
        out.list = list;
        break;
    }
    default: break;
    }
    return out;
}

static void put_bytes(cr_text *t, const void *p, size_t n) { cr_text_put_n(t, p, n); }

void cr_garg_key(cr_text *out, const cr_garg *a, cr_gvalue_number number, void *context)
{
    uintptr_t k;

    put_bytes(out, &a->tag, sizeof a->tag);
    if (cr_garg_has_len(a))
        put_bytes(out, &a->len, sizeof a->len);
    switch (a->tag) {
    case CR_NONE: break;
    case CR_TENSOR:
        k = number(context, a->value);
        put_bytes(out, &k, sizeof k);
        break;
    case CR_NUMBER:
        put_bytes(out, &a->number.category, sizeof a->number.category);
        put_bytes(out, &a->number.c, a->number.category == CR_CAT_COMPLEX ? 16 : 8);
        break;
    case CR_STRING: put_bytes(out, a->s, a->len); break;
    case CR_INTS:
    case CR_TRUTHS: put_bytes(out, a->ints, a->len * sizeof *a->ints); break;
    case CR_FLOATS: put_bytes(out, a->floats, a->len * sizeof *a->floats); break;
    case CR_TENSORS:
    case CR_NUMBERS:
        for (uint32_t i = 0; i < a->len; i++)
            cr_garg_key(out, &a->list[i], number, context);
        break;
    default: put_bytes(out, &a->i, sizeof a->i);
    }
}

void cr_gnode_key(cr_text *out, const cr_gnode *n, cr_gvalue_number number, void *context)
{
    put_bytes(out, &n->op, sizeof n->op);
    put_bytes(out, &n->varying_count, sizeof n->varying_count);
    for (int i = 0; i < n->varying_count; i++) {
        const cr_gvarying *v = &n->varying[i];
        uint32_t place[] = {v->arg, v->item, (uint32_t)v->number};
        put_bytes(out, place, sizeof place);
    }
    for (int i = 0; i < n->arg_count; i++)
        cr_garg_key(out, &n->arg[i], number, context);
}

bool cr_graph_alike(const cr_graph *a, const cr_graph *b)
{
    if (a->body->len != b->body->len)
        return false;
    for (size_t i = 0; i < a->body->len; i++) {
        const cr_gnode *m = a->body->at[i], *n = b->body->at[i];
        if (m->op != n->op || m->result_count != n->result_count)
            return false;
        for (int k = 0; k < m->result_count; k++)
            if (m->result[k]->type.ndim != n->result[k]->type.ndim)
                return false;
    }
    return true;
}

void cr_garg_each(const cr_garg *a, cr_gvalue_fn fn, void *context)
{
    if (a->tag == CR_TENSOR)
        fn(context, a->value);
    for (uint32_t i = 0; a->tag == CR_TENSORS && i < a->len; i++)
        cr_garg_each(&a->list[i], fn, context);
}

void cr_gnode_each_read(const cr_gnode *n, cr_gvalue_fn fn, void *context)
{
    for (int i = 0; i < n->arg_count; i++)
        cr_garg_each(&n->arg[i], fn, context);
}

void cr_gblock_each_output(const cr_gblock *b, cr_gvalue_fn fn, void *context)
{
    for (int i = 0; i < b->output_count; i++)
        cr_garg_each(&b->output[i], fn, context);
}

void cr_gblock_each_read(const cr_gblock *b, cr_gvalue_fn fn, void *context)
{
    for (size_t i = 0; i < b->len; i++) {
        cr_gnode_each_read(b->at[i], fn, context);
        for (int k = 0; k < cr_gnode_blocks(b->at[i]); k++)
            cr_gblock_each_read(b->at[i]->block[k], fn, context);
    }
    cr_gblock_each_output(b, fn, context);
}
