/* Computes nodes whose arguments are constants, and removes branches that are not taken. */
#include "script/execute_impl.h"
#include "script/operators.h"
#include "script/passes.h"
#include <string.h>

static void fold_in(cr_sblock *b);

/* --- values --- */

bool cr_sconstant_of(cr_session *s, const cr_ivalue *v, cr_sconstant *out)
{
    cr_text text = {0};

    switch (v->kind) {
    case CR_IV_NONE: *out = (cr_sconstant){.type = CR_STYPE_OF(NONE)}; return true;
    case CR_IV_INT: *out = (cr_sconstant){.type = CR_STYPE_OF(INT), .i = v->i}; return true;
    case CR_IV_BOOL: *out = (cr_sconstant){.type = CR_STYPE_OF(BOOL), .i = v->i}; return true;
    case CR_IV_FLOAT:
        *out = (cr_sconstant){.type = CR_STYPE_OF(FLOAT), .d = {v->d, 0}};
        return true;
    case CR_IV_COMPLEX:
        *out = (cr_sconstant){.type = CR_STYPE_OF(COMPLEX), .d = {v->c.re, v->c.im}};
        return true;
    case CR_IV_STRING:
        *out = (cr_sconstant){.type = CR_STYPE_OF(STR)};
        out->s = cr_session_copy(s, v->string->at, v->string->len + 1);
        out->len = v->string->len;
        return true;
    case CR_IV_DEVICE:
        if (cr_ivalue_print(&text, v)) {
            cr_text_drop(&text);
            return false;
        }
        *out = (cr_sconstant){.type = CR_STYPE_OF(DEVICE)};
        out->len = text.len;
        out->s = cr_session_take_text(s, &text);
        return true;
    default: return false;
    }
}

static cr_svalue *fold_insert(cr_snode *at, const cr_sconstant *value)
{
    cr_sgraph *g = at->owner->graph;
    cr_snode *n = cr_snode_before(at, CR_SPRIM_CONSTANT, at->from.range);

    n->value = cr_session_copy(g->session, value, sizeof *value);
    return cr_snode_output(n, NULL, value->type);
}

static bool fold_is_plain(const cr_stype *t)
{
    switch (t->kind) {
    case CR_STYPE_INT:
    case CR_STYPE_FLOAT:
    case CR_STYPE_COMPLEX:
    case CR_STYPE_BOOL:
    case CR_STYPE_STR:
    case CR_STYPE_NONE:
    case CR_STYPE_DEVICE:
    case CR_STYPE_NUMBER: return true;
    case CR_STYPE_TUPLE:
    case CR_STYPE_OPTIONAL:
    case CR_STYPE_UNION:
        for (int i = 0; i < t->count; i++)
            if (!fold_is_plain(t->item[i]))
                return false;
        return !t->cls;
    default: return false;
    }
}

static bool fold_inputs(const cr_snode *n)
{
    for (int i = 0; i < n->input_count; i++) {
        const cr_sconstant *c = cr_svalue_constant(n->input[i]);
        if (!c || !fold_is_plain(c->type))
            return false;
    }
    for (int i = 0; i < n->output_count; i++)
        if (!fold_is_plain(n->output[i]->type))
            return false;
    return true;
}

/* --- nodes --- */

enum { FOLD_ARGUMENTS = 16 };

static bool fold_call(const cr_snode *n, cr_ivalue *out)
{
    cr_builtin_fn fn = cr_builtin_find(n->schema->name);
    cr_ivalue arg[FOLD_ARGUMENTS] = {{0}};
    bool done = fn && n->input_count <= FOLD_ARGUMENTS && n->output_count == 1;

    for (int i = 0; done && i < n->input_count; i++)
        done = cr_ivalue_of_constant(&arg[i], n->input[i]->by->value) == CR_OK;
    if (done) {
        cr_scall c = {.arg = arg, .count = n->input_count, .out = out, .outs = 1, .node = n};
        done = fn(&c) == CR_OK;
    }
    for (int i = 0; i < n->input_count && i < FOLD_ARGUMENTS; i++)
        cr_ivalue_drop(arg[i]);
    return done;
}

static bool fold_has_effect(const cr_snode *n)
{
    return n->prim != CR_SPRIM_OPERATOR || n->schema->op || !n->schema->result_count ||
           !n->input_count || n->schema->any_params || cr_sschema_is_range(n->schema) ||
           !strncmp(n->schema->name, "aten::is_", 9) ||
           !strcmp(n->schema->name, "aten::_get_tracing_state");
}

static void fold_operator(cr_snode *n)
{
    cr_sgraph *g = n->owner->graph;
    cr_ivalue made = cr_iv_none();
    cr_sconstant value;

    if (fold_has_effect(n) || !fold_inputs(n) || !fold_call(n, &made))
        return;
    if (cr_sconstant_of(g->session, &made, &value))
        cr_svalue_replace(g, n->output[0], fold_insert(n, &value));
    cr_ivalue_drop(made);
}

/* (1, 2) of constants is a constant. */
static void fold_tuple(cr_snode *n)
{
    cr_sgraph *g = n->owner->graph;
    cr_sconstant value = {0}, *item;

    const cr_stype **type;

    if (n->output[0]->type->cls || n->output[0]->type->field || !fold_inputs(n))
        return;
    item = CR_NEW_N(g->session, cr_sconstant, n->input_count + 1);
    type = CR_NEW_N(g->session, const cr_stype *, n->input_count + 1);
    for (int i = 0; i < n->input_count; i++) {
        item[i] = *n->input[i]->by->value;
        type[i] = item[i].type;
    }
    value.type = cr_stype_tuple(g->unit, n->input_count, type, NULL);
    value.count = n->input_count;
    value.item = item;
    cr_svalue_replace(g, n->output[0], fold_insert(n, &value));
}

/* --- branches --- */

static void fold_take(cr_snode *n, cr_sblock *taken)
{
    cr_sgraph *g = n->owner->graph;

    cr_sblock_inline(taken, n);
    for (int i = 0; i < n->output_count; i++)
        cr_svalue_replace(g, n->output[i], taken->output[i]);
}

static bool fold_same(const cr_svalue *a, const cr_svalue *b)
{
    const cr_sconstant *x = cr_svalue_constant(a), *y = cr_svalue_constant(b);
    cr_text text[2] = {{0}, {0}};

    if (a == b)
        return true;
    if (!x || !y || !fold_is_plain(x->type) || !cr_stype_equal(x->type, y->type))
        return false;
    cr_sconstant_print(&text[0], x);
    cr_sconstant_print(&text[1], y);
    bool same = !strcmp(cr_text_str(&text[0]), cr_text_str(&text[1]));
    cr_text_drop(&text[0]);
    cr_text_drop(&text[1]);
    return same;
}

/* Results that are the same in both branches. */
static void fold_results(cr_snode *n)
{
    cr_sgraph *g = n->owner->graph;

    for (int i = n->output_count - 1; i >= 0; i--) {
        cr_svalue *a = n->block[0]->output[i];
        if (!fold_same(a, n->block[1]->output[i]))
            continue;
        if (cr_svalue_constant(a) && a->by->owner != n->owner)
            a = fold_insert(n, a->by->value);
        cr_svalue_replace(g, n->output[i], a);
        cr_snode_erase_output(n, i);
        for (int k = 0; k < 2; k++)
            cr_sblock_erase_output(n->block[k], i);
    }
}

/* Values that a loop carries and does not change. */
static void fold_carried(cr_snode *n)
{
    cr_sgraph *g = n->owner->graph;
    cr_sblock *body = n->block[0];

    for (int i = n->output_count - 1; i >= 0; i--) {
        cr_svalue *before = n->input[i + 2];
        if (body->output[i + 1] != body->input[i + 1] && body->output[i + 1] != before)
            continue;
        cr_svalue_replace(g, n->output[i], before);
        cr_svalue_replace(g, body->input[i + 1], before);
        cr_snode_erase_output(n, i);
        cr_snode_erase_input(n, i + 2);
        cr_sblock_erase_output(body, i + 1);
        cr_sblock_erase_input(body, i + 1);
    }
}

static bool fold_never_runs(const cr_snode *n)
{
    const cr_sconstant *trips = cr_svalue_constant(n->input[0]);
    const cr_sconstant *go = cr_svalue_constant(n->input[1]);

    return (trips && trips->i <= 0) || (go && !go->i);
}

static void fold_remove(cr_snode *n)
{
    for (int i = 0; i < n->output_count; i++)
        CR_ASSERT(!n->output[i]->uses);
    cr_snode_remove(n);
}

static void fold_loop(cr_snode *n)
{
    if (fold_never_runs(n)) {
        for (int i = 0; i < n->output_count; i++)
            cr_svalue_replace(n->owner->graph, n->output[i], n->input[i + 2]);
        fold_remove(n);
        return;
    }
    fold_in(n->block[0]);
    fold_carried(n);
}

static void fold_if(cr_snode *n)
{
    const cr_sconstant *c = cr_svalue_constant(n->input[0]);

    if (c && c->type->kind == CR_STYPE_BOOL) {
        cr_sblock *taken = n->block[c->i ? 0 : 1];
        fold_in(taken);
        fold_take(n, taken);
        fold_remove(n);
        return;
    }
    fold_in(n->block[0]);
    fold_in(n->block[1]);
    fold_results(n);
}

static void fold_in(cr_sblock *b)
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        next = n->next;
        if (n->prim == CR_SPRIM_IF)
            fold_if(n);
        else if (n->prim == CR_SPRIM_LOOP)
            fold_loop(n);
        else if (n->prim == CR_SPRIM_TUPLE_CONSTRUCT)
            fold_tuple(n);
        else if (n->block_count)
            for (int i = 0; i < n->block_count; i++)
                fold_in(n->block[i]);
        else if (n->output_count)
            fold_operator(n);
    }
}

void cr_spass_fold(cr_sgraph *g)
{
    fold_in(g->body);
    cr_spass_dead(g);
}

void cr_spass_propagate(cr_sgraph *g)
{
    size_t values = g->values, nodes = cr_sblock_nodes(g->body);

    fold_in(g->body);
    if (g->values != values || cr_sblock_nodes(g->body) != nodes)
        cr_spass_dead(g);
}
