/* The IR: making and changing graphs. */
#include "script/ir.h"
#include <string.h>

static const char *const prim_text[CR_SPRIM_COUNT] = {
#define CR_SPRIM(NAME, text) [CR_SPRIM_##NAME] = text,
#include "script/prims.def"
#undef CR_SPRIM
};

const char *cr_snode_kind(const cr_snode *n)
{
    return n->prim == CR_SPRIM_OPERATOR ? n->schema->name : prim_text[n->prim];
}

static cr_sblock *block_new(cr_sgraph *g, cr_snode *by)
{
    cr_sblock *b = CR_NEW(g->session, cr_sblock);

    b->graph = g;
    b->by = by;
    return b;
}

cr_sgraph *cr_sgraph_new(cr_session *s, cr_sunit *u)
{
    cr_sgraph *g = CR_NEW(s, cr_sgraph);

    g->session = s;
    g->unit = u;
    g->body = block_new(g, NULL);
    return g;
}

static cr_svalue *value_new(cr_sgraph *g, const char *name, const cr_stype *type)
{
    cr_svalue *v = CR_NEW(g->session, cr_svalue);

    v->name = name ? cr_session_text(g->session, name) : NULL;
    v->id = g->values++;
    v->type = type;
    return v;
}

/* Appends to an array of values with a length that is an int. */
static void values_push(cr_session *s, cr_svalue ***at, int *count, size_t *cap, cr_svalue *v)
{
    if ((size_t)*count == *cap)
        *at = cr_session_grow(s, *at, (size_t)*count, cap, sizeof **at);
    (*at)[(*count)++] = v;
}

cr_svalue *cr_sblock_input(cr_sblock *b, const char *name, const cr_stype *type)
{
    cr_svalue *v = value_new(b->graph, name, type);

    v->block = b;
    v->index = b->input_count;
    values_push(b->graph->session, &b->input, &b->input_count, &b->input_cap, v);
    return v;
}

void cr_sblock_output(cr_sblock *b, cr_svalue *v)
{
    v->uses++;
    values_push(b->graph->session, &b->output, &b->output_count, &b->output_cap, v);
}

static void node_link(cr_snode *n, cr_sblock *b, cr_snode *at)
{
    n->owner = b;
    n->next = at;
    n->prev = at ? at->prev : b->last;
    *(n->prev ? &n->prev->next : &b->first) = n;
    *(at ? &at->prev : &b->last) = n;
}

static void node_unlink(cr_snode *n)
{
    *(n->prev ? &n->prev->next : &n->owner->first) = n->next;
    *(n->next ? &n->next->prev : &n->owner->last) = n->prev;
    n->next = n->prev = NULL;
}

static cr_snode *node_make(cr_sblock *b, cr_snode *at, cr_sprim prim, cr_srange range)
{
    cr_snode *n = CR_NEW(b->graph->session, cr_snode);

    n->prim = (uint8_t)prim;
    n->from.range = range;
    node_link(n, b, at);
    return n;
}

cr_snode *cr_snode_new(cr_sblock *b, cr_sprim prim, cr_srange range)
{
    return node_make(b, NULL, prim, range);
}

cr_snode *cr_snode_before(cr_snode *at, cr_sprim prim, cr_srange range)
{
    return node_make(at->owner, at, prim, range);
}

void cr_snode_input(cr_snode *n, cr_svalue *v)
{
    v->uses++;
    values_push(n->owner->graph->session, &n->input, &n->input_count, &n->input_cap, v);
}

cr_svalue *cr_snode_output(cr_snode *n, const char *name, const cr_stype *type)
{
    cr_svalue *v = value_new(n->owner->graph, name, type);

    v->by = n;
    v->index = n->output_count;
    values_push(n->owner->graph->session, &n->output, &n->output_count, &n->output_cap, v);
    return v;
}

cr_sblock *cr_snode_block(cr_snode *n)
{
    cr_sgraph *g = n->owner->graph;
    cr_sblock **wide = CR_NEW_N(g->session, cr_sblock *, n->block_count + 1);

    if (n->block_count)
        memcpy(wide, n->block, (size_t)n->block_count * sizeof(*wide));
    n->block = wide;
    return n->block[n->block_count++] = block_new(g, n);
}

void cr_snode_set_input(cr_snode *n, int i, cr_svalue *v)
{
    n->input[i]->uses--;
    v->uses++;
    n->input[i] = v;
}

void cr_sblock_set_output(cr_sblock *b, int i, cr_svalue *v)
{
    v->uses++;
    b->output[i]->uses--;
    b->output[i] = v;
}

void cr_sblock_clear_outputs(cr_sblock *b)
{
    while (b->output_count)
        b->output[--b->output_count]->uses--;
}

static void block_forget(cr_sblock *b)
{
    cr_sblock_clear_outputs(b);
    while (b->last)
        cr_snode_remove(b->last);
}

void cr_snode_remove(cr_snode *n)
{
    for (int i = 0; i < n->block_count; i++)
        block_forget(n->block[i]);
    for (int i = 0; i < n->input_count; i++)
        n->input[i]->uses--;
    n->input_count = 0;
    for (int i = 0; i < n->output_count; i++)
        CR_ASSERT(!n->output[i]->uses);
    node_unlink(n);
}

void cr_snode_move(cr_snode *n, cr_sblock *b, cr_snode *at)
{
    node_unlink(n);
    node_link(n, b, at);
}

static void values_erase(cr_svalue **at, int *count, int i)
{
    --*count;
    for (int k = i; k < *count; k++)
        at[k] = at[k + 1];
}

void cr_snode_erase_input(cr_snode *n, int i)
{
    n->input[i]->uses--;
    values_erase(n->input, &n->input_count, i);
}

void cr_snode_erase_output(cr_snode *n, int i)
{
    values_erase(n->output, &n->output_count, i);
    for (int k = i; k < n->output_count; k++)
        n->output[k]->index = k;
}

void cr_sblock_erase_input(cr_sblock *b, int i)
{
    values_erase(b->input, &b->input_count, i);
    for (int k = i; k < b->input_count; k++)
        b->input[k]->index = k;
}

void cr_sblock_erase_output(cr_sblock *b, int i)
{
    b->output[i]->uses--;
    values_erase(b->output, &b->output_count, i);
}

static cr_snode *node_first(cr_sgraph *g, cr_sprim prim)
{
    return g->body->first ? cr_snode_before(g->body->first, prim, (cr_srange){0})
                          : cr_snode_new(g->body, prim, (cr_srange){0});
}

cr_svalue *cr_sgraph_constant_first(cr_sgraph *g, const cr_sconstant *value)
{
    cr_snode *n = node_first(g, CR_SPRIM_CONSTANT);

    n->value = value;
    return cr_snode_output(n, NULL, value->type);
}

cr_svalue *cr_sgraph_blank_first(cr_sgraph *g, const cr_stype *type)
{
    return cr_snode_output(node_first(g, CR_SPRIM_UNINITIALIZED), NULL, type);
}

const cr_sconstant *cr_svalue_constant(const cr_svalue *v)
{
    return v->by && v->by->prim == CR_SPRIM_CONSTANT ? v->by->value : NULL;
}

bool cr_snode_raises(const cr_snode *n)
{
    return n->prim == CR_SPRIM_OPERATOR && !strcmp(n->schema->name, "prim::RaiseException");
}

void cr_sblock_inline(cr_sblock *b, cr_snode *at)
{
    while (b->first)
        cr_snode_move(b->first, at->owner, at);
}

static cr_svalue *copy_value(cr_svalue *v, cr_svalue **map, unsigned room)
{
    return v->id < room && map[v->id] ? map[v->id] : v;
}

static void copy_node(cr_sblock *to, const cr_snode *from, cr_svalue **map, unsigned room);

static void copy_block(cr_sblock *to, const cr_sblock *from, cr_svalue **map, unsigned room)
{
    for (const cr_snode *n = from->first; n; n = n->next)
        copy_node(to, n, map, room);
    for (int i = 0; i < from->output_count; i++)
        cr_sblock_output(to, copy_value(from->output[i], map, room));
}

static void copy_node(cr_sblock *to, const cr_snode *from, cr_svalue **map, unsigned room)
{
    cr_snode *n = cr_snode_new(to, (cr_sprim)from->prim, from->from.range);

    n->schema = from->schema;
    n->value = from->value;
    n->name = from->name;
    n->tests.types = from->tests.types;
    n->tests.type_count = from->tests.type_count;
    n->slice.begin = from->slice.begin;
    n->slice.end = from->slice.end;
    n->subgraph = from->subgraph;
    n->from.scope = from->from.scope;
    for (int i = 0; i < from->input_count; i++)
        cr_snode_input(n, copy_value(from->input[i], map, room));
    for (int k = 0; k < from->block_count; k++) {
        const cr_sblock *inside = from->block[k];
        cr_sblock *b = cr_snode_block(n);
        for (int i = 0; i < inside->input_count; i++)
            map[inside->input[i]->id] =
                cr_sblock_input(b, inside->input[i]->name, inside->input[i]->type);
        copy_block(b, inside, map, room);
    }
    for (int i = 0; i < from->output_count; i++)
        map[from->output[i]->id] =
            cr_snode_output(n, from->output[i]->name, from->output[i]->type);
}

void cr_sblock_copy(cr_sblock *to, const cr_sblock *from, cr_svalue **map)
{
    copy_block(to, from, map, from->graph->values);
}

cr_sgraph *cr_sgraph_copy(cr_session *s, const cr_sgraph *g)
{
    cr_sgraph *out = cr_sgraph_new(s, g->unit);
    out->traced = g->traced;
    const cr_sblock *from = g->body;
    cr_svalue **map = CR_NEW_N(s, cr_svalue *, g->values + 1);

    for (int i = 0; i < from->input_count; i++)
        map[from->input[i]->id] =
            cr_sblock_input(out->body, from->input[i]->name, from->input[i]->type);
    cr_sblock_copy(out->body, from, map);
    return out;
}

static void constant_copy(cr_session *s, cr_sconstant *out, const cr_sconstant *from)
{
    *out = *from;
    switch (from->type->kind) {
    case CR_STYPE_DEVICE: out->s = cr_session_text(s, from->s); return;
    case CR_STYPE_STR:
    case CR_STYPE_ENUM:
        out->s = memcpy(CR_NEW_N(s, char, from->len + 1), from->s, from->len);
        return;
    case CR_STYPE_LIST:
    case CR_STYPE_TUPLE:
    case CR_STYPE_DICT: {
        cr_sconstant *item = CR_NEW_N(s, cr_sconstant, from->count + 1);
        for (int i = 0; i < from->count; i++)
            constant_copy(s, &item[i], &from->item[i]);
        out->item = item;
        return;
    }
    default: return;
    }
}

static void block_own_constants(cr_sblock *b)
{
    for (cr_snode *n = b->first; n; n = n->next) {
        if (n->value) {
            cr_sconstant *own = CR_NEW(b->graph->session, cr_sconstant);
            constant_copy(b->graph->session, own, n->value);
            n->value = own;
        }
        for (int i = 0; i < n->block_count; i++)
            block_own_constants(n->block[i]);
    }
}

void cr_sgraph_own_constants(cr_sgraph *g) { block_own_constants(g->body); }

static void block_replace(cr_sblock *b, cr_snode *first, cr_svalue *from, cr_svalue *to);

static void node_replace(cr_snode *n, cr_svalue *from, cr_svalue *to)
{
    for (int i = 0; i < n->input_count; i++)
        if (n->input[i] == from)
            cr_snode_set_input(n, i, to);
    for (int i = 0; i < n->block_count; i++)
        block_replace(n->block[i], n->block[i]->first, from, to);
}

/* In the nodes of `b` from `first` on, until nothing reads `from`. */
static void block_replace(cr_sblock *b, cr_snode *first, cr_svalue *from, cr_svalue *to)
{
    for (cr_snode *n = first; n && from->uses; n = n->next)
        node_replace(n, from, to);
    for (int i = 0; i < b->output_count && from->uses; i++)
        if (b->output[i] == from)
            cr_sblock_set_output(b, i, to);
}

/* Most readers follow the node, in its block. */
void cr_svalue_replace(cr_sgraph *g, cr_svalue *from, cr_svalue *to)
{
    if (from->uses && from->by)
        block_replace(from->by->owner, from->by->next, from, to);
    if (from->uses)
        block_replace(g->body, g->body->first, from, to);
}

void cr_svalue_replace_after(cr_snode *n, cr_svalue *from, cr_svalue *to)
{
    block_replace(n->owner, n->next, from, to);
}

cr_svalue *cr_sblock_constant(cr_sblock *b, const cr_sconstant *value, cr_srange range)
{
    cr_snode *n = cr_snode_new(b, CR_SPRIM_CONSTANT, range);

    n->value = value;
    return cr_snode_output(n, NULL, value->type);
}

size_t cr_sblock_nodes(const cr_sblock *b)
{
    size_t count = 0;

    for (const cr_snode *n = b->first; n; n = n->next) {
        count++;
        for (int i = 0; i < n->block_count; i++)
            count += cr_sblock_nodes(n->block[i]);
    }
    return count;
}
