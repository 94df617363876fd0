/* Which values may share memory: sets that grow by what each node may do, whatever the order in
 * which nodes run.  One set has all that code outside of the graph may hold. */
#include "script/alias.h"
#include "graph/graph.h"
#include "script/operators.h"
#include <string.h>

struct cr_salias {
    unsigned outside; /* the set of arguments, attributes, constants and results of calls */
    unsigned *above;  /* by value, and `outside`: another one of the set, or itself */
    bool *changed, *leaves; /* of the set, by its top */
    bool *kept;             /* by value: a node does more with the list than to read it */
    bool has_calls;
};

bool cr_stype_can_change(const cr_stype *t)
{
    switch (t->kind) {
    case CR_STYPE_INT:
    case CR_STYPE_FLOAT:
    case CR_STYPE_COMPLEX:
    case CR_STYPE_NUMBER:
    case CR_STYPE_BOOL:
    case CR_STYPE_STR:
    case CR_STYPE_NONE:
    case CR_STYPE_DEVICE:
    case CR_STYPE_ENUM:
    case CR_STYPE_FUNCTION:
    case CR_STYPE_NEVER: return false;
    case CR_STYPE_TUPLE:
    case CR_STYPE_OPTIONAL:
    case CR_STYPE_UNION:
        for (int i = 0; i < t->count; i++)
            if (cr_stype_can_change(t->item[i]))
                return true;
        return false;
    default: return true;
    }
}

static unsigned alias_top(const cr_salias *a, unsigned i)
{
    while (a->above[i] != i)
        i = a->above[i] = a->above[a->above[i]];
    return i;
}

static void alias_unite(cr_salias *a, unsigned x, unsigned y)
{
    unsigned to = alias_top(a, x), from = alias_top(a, y);

    a->above[from] = to;
    a->changed[to] |= a->changed[from];
    a->leaves[to] |= a->leaves[from];
}

static void alias_share(cr_salias *a, const cr_svalue *x, const cr_svalue *y)
{
    if (cr_stype_can_change(x->type) && cr_stype_can_change(y->type))
        alias_unite(a, x->id, y->id);
}

static void alias_share_outside(cr_salias *a, cr_svalue *const *v, int n)
{
    for (int i = 0; i < n; i++)
        if (cr_stype_can_change(v[i]->type))
            alias_unite(a, a->outside, v[i]->id);
}

static void alias_change(cr_salias *a, unsigned i) { a->changed[alias_top(a, i)] = true; }

/* --- nodes --- */

/* A node that changes a list or dict may store its other arguments there. */
static void alias_store(cr_salias *a, const cr_snode *n, int into)
{
    const cr_stype *t = n->input[into]->type;

    if (t->kind != CR_STYPE_TENSOR)
        for (int i = 0; i < n->input_count; i++)
            alias_share(a, n->input[into], n->input[i]);
}

/* Whether the node is known not to train, as a batch norm of a frozen module. */
static bool alias_is_off(const cr_snode *n, const char *when)
{
    for (int i = 0; i < n->schema->param_count && i < n->input_count; i++) {
        const cr_sconstant *c = cr_svalue_constant(n->input[i]);
        if (!strcmp(n->schema->param[i].name, when))
            return c && c->type->kind == CR_STYPE_BOOL && !c->i;
    }
    return false;
}

/* Whether the entry changes the argument without a mark, as batch norms change running
 * means. */
static bool alias_updates(const cr_snode *n, const cr_sparam *p)
{
    const cr_op *op = n->schema->op;
    int k = op && op->updates.params ? cr_op_find_param(op, p->name) : -1;

    return k >= 0 && op->updates.params >> k & 1 &&
           !alias_is_off(n, op->param[op->updates.when].name);
}

bool cr_stype_holds_tensors(const cr_stype *t)
{
    for (int i = 0; i < t->count; i++)
        if (cr_stype_holds_tensors(t->item[i]))
            return true;
    return t->kind == CR_STYPE_TENSOR;
}

/* Whether a builtin's result may be any tensor, such as a tensor's gradient; results of a
 * variable type are parts of the arguments. */
static bool alias_is_unknown(const cr_snode *n, int k)
{
    bool is_part = k < n->schema->result_count && cr_stype_has_var(n->schema->result[k].type);

    return n->output[k]->type->kind == CR_STYPE_TENSOR ||
           (!is_part && cr_stype_holds_tensors(n->output[k]->type));
}

/* Results that are arguments, parts of each other, or of the program's memory. */
static void alias_results(cr_salias *a, const cr_snode *n)
{
    const cr_op *op = n->schema->op;

    for (int k = 0; k < n->output_count; k++) {
        for (int i = 0; op && cr_op_may_share(op) && i < n->input_count; i++)
            alias_share(a, n->output[k], n->input[i]);
        if (op && (op->does == CR_DOES_IS || op->does == CR_DOES_WHOLE))
            alias_share(a, n->output[k], n->output[0]);
        if (op ? op->custom : alias_is_unknown(n, k))
            alias_share_outside(a, &n->output[k], 1);
    }
}

static void alias_operator(cr_salias *a, const cr_snode *n)
{
    const cr_sschema *s = n->schema;
    bool changes = false;

    for (int i = 0; i < n->input_count; i++) {
        const cr_sparam *p = i < s->param_count ? &s->param[i] : NULL;
        if (p && (p->written || alias_updates(n, p))) {
            changes = true;
            alias_change(a, n->input[i]->id);
            alias_store(a, n, i);
        }
        for (int k = 0; k < n->output_count && k < s->result_count; k++)
            if ((s->result[k].alias && (!p || p->alias)) || s->result[k].alias == '*' ||
                cr_stype_has_var(s->result[k].type))
                alias_share(a, n->output[k], n->input[i]);
    }
    alias_results(a, n);
    /* An operator that only has an effect, such as a change of the mode. */
    a->has_calls |=
        (!s->result_count && !changes && !cr_snode_raises(n)) || cr_sschema_is_range(s);
}

static void alias_call(cr_salias *a, const cr_snode *n)
{
    a->has_calls = true;
    alias_share_outside(a, n->input, n->input_count);
    alias_share_outside(a, n->output, n->output_count);
    alias_change(a, a->outside);
}

static void alias_block(cr_salias *a, const cr_sblock *b);

/* Results of branches, and values that a loop carries. */
static void alias_inside(cr_salias *a, const cr_snode *n)
{
    int loop = n->prim == CR_SPRIM_LOOP;

    for (int k = 0; k < n->block_count; k++) {
        const cr_sblock *b = n->block[k];
        alias_block(a, b);
        for (int i = loop; i < b->output_count && i - loop < n->output_count; i++)
            alias_share(a, n->output[i - loop], b->output[i]);
        for (int i = 1; loop && i < b->input_count; i++) {
            alias_share(a, n->output[i - 1], b->input[i]);
            alias_share(a, n->output[i - 1], n->input[i + 1]);
        }
    }
}

static void alias_node(cr_salias *a, const cr_snode *n)
{
    switch ((cr_sprim)n->prim) {
    case CR_SPRIM_OPERATOR: alias_operator(a, n); return;
    case CR_SPRIM_IF:
    case CR_SPRIM_LOOP: alias_inside(a, n); return;
    case CR_SPRIM_CONSTANT:
    case CR_SPRIM_GET_ATTR:
    case CR_SPRIM_MODULE_INDEX: alias_share_outside(a, n->output, n->output_count); return;
    case CR_SPRIM_LIST_CONSTRUCT:
    case CR_SPRIM_TUPLE_CONSTRUCT:
    case CR_SPRIM_DICT_CONSTRUCT:
    case CR_SPRIM_LIST_UNPACK:
    case CR_SPRIM_TUPLE_UNPACK:
    case CR_SPRIM_TUPLE_INDEX:
    case CR_SPRIM_TUPLE_SLICE:
    case CR_SPRIM_UNCHECKED_CAST:
        for (int k = 0; k < n->output_count; k++)
            for (int i = 0; i < n->input_count; i++)
                alias_share(a, n->output[k], n->input[i]);
        return;
    case CR_SPRIM_IS_INSTANCE:
    case CR_SPRIM_UNINITIALIZED:
    case CR_SPRIM_ENUM_NAME:
    case CR_SPRIM_ENUM_VALUE: return;
    default:
        alias_call(a, n);
        for (int k = 0; k < n->block_count; k++)
            alias_block(a, n->block[k]);
    }
}

/* --- lists --- */

/* A parameter of a variable type may become an item or the result. */
bool cr_snode_reads_list(const cr_snode *n, int i)
{
    const cr_sschema *s = n->schema;

    if (n->prim == CR_SPRIM_LIST_UNPACK)
        return true;
    if (n->prim != CR_SPRIM_OPERATOR || i >= s->param_count || s->param[i].written)
        return false;
    for (int k = 0; k < s->result_count; k++)
        if (s->result[k].alias && s->result[k].type->kind == CR_STYPE_LIST)
            return false;
    return s->param[i].type->kind == CR_STYPE_LIST;
}

static void alias_keep_lists(cr_salias *a, const cr_snode *n)
{
    for (int i = 0; i < n->input_count; i++)
        a->kept[n->input[i]->id] |= !cr_snode_reads_list(n, i);
}

static void alias_block(cr_salias *a, const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        alias_node(a, n);
        alias_keep_lists(a, n);
    }
    for (int i = 0; i < b->output_count; i++)
        a->kept[b->output[i]->id] = true;
}

/* --- the facts --- */

cr_salias *cr_salias_find(cr_sgraph *g)
{
    cr_salias *a = CR_NEW(g->session, cr_salias);
    unsigned n = g->values + 1;

    a->outside = g->values;
    a->above = CR_NEW_N(g->session, unsigned, n);
    a->changed = CR_NEW_N(g->session, bool, n);
    a->leaves = CR_NEW_N(g->session, bool, n);
    a->kept = CR_NEW_N(g->session, bool, n);
    for (unsigned i = 0; i < n; i++)
        a->above[i] = i;
    a->leaves[a->outside] = true;
    alias_share_outside(a, g->body->input, g->body->input_count);
    alias_block(a, g->body);
    for (int i = 0; i < g->body->output_count; i++)
        a->leaves[alias_top(a, g->body->output[i]->id)] = true;
    return a;
}

/* Nothing is known about a value that a pass made meanwhile. */
static bool alias_knows(const cr_salias *a, const cr_svalue *v) { return v->id < a->outside; }

bool cr_salias_is_changed(const cr_salias *a, const cr_svalue *v)
{
    return cr_stype_can_change(v->type) &&
           (!alias_knows(a, v) || a->changed[alias_top(a, v->id)]);
}

bool cr_salias_escapes(const cr_salias *a, const cr_svalue *v)
{
    return cr_stype_can_change(v->type) &&
           (!alias_knows(a, v) || a->leaves[alias_top(a, v->id)]);
}

void cr_salias_join(cr_salias *a, const cr_svalue *x, const cr_svalue *y)
{
    a->kept[x->id] |= a->kept[y->id];
    alias_share(a, x, y);
}

bool cr_salias_has_calls(const cr_salias *a) { return a->has_calls; }

bool cr_salias_is_fixed_list(const cr_salias *a, const cr_svalue *v)
{
    return v->by && v->by->prim == CR_SPRIM_LIST_CONSTRUCT && alias_knows(a, v) &&
           !a->kept[v->id];
}
