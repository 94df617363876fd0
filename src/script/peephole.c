/* Nodes whose result is an argument, an item, a constant or a simpler node. */
#include "script/alias.h"
#include "script/execute_impl.h"
#include "script/passes.h"
#include <string.h>

static const cr_sconstant *peep_constant(const cr_svalue *v, cr_stype_kind kind)
{
    const cr_sconstant *c = cr_svalue_constant(v);

    return c && c->type->kind == kind ? c : NULL;
}

static bool peep_is_int(const cr_svalue *v, int64_t i)
{
    const cr_sconstant *c = peep_constant(v, CR_STYPE_INT);

    return c && c->i == i;
}

static bool peep_is_bool(const cr_svalue *v, bool b)
{
    const cr_sconstant *c = peep_constant(v, CR_STYPE_BOOL);

    return c && (c->i != 0) == b;
}

static cr_svalue *peep_insert(cr_snode *at, cr_sconstant value)
{
    cr_sgraph *g = at->owner->graph;
    cr_snode *n = cr_snode_before(at, CR_SPRIM_CONSTANT, at->from.range);

    n->value = cr_session_copy(g->session, &value, sizeof value);
    return cr_snode_output(n, NULL, value.type);
}

static cr_svalue *peep_int(cr_snode *at, int64_t i)
{
    return peep_insert(at, (cr_sconstant){.type = CR_STYPE_OF(INT), .i = i});
}

static cr_svalue *peep_bool(cr_snode *at, bool b)
{
    return peep_insert(at, (cr_sconstant){.type = CR_STYPE_OF(BOOL), .i = b});
}

/* --- the rules: the value that replaces the node's result; NULL: none --- */

typedef cr_svalue *(*peep_rule)(const cr_salias *a, cr_snode *n);

static cr_svalue *peep_length(const cr_salias *a, cr_snode *n)
{
    return cr_salias_is_fixed_list(a, n->input[0]) ? peep_int(n, n->input[0]->by->input_count)
                                                   : NULL;
}

static cr_svalue *peep_item(const cr_salias *a, cr_snode *n)
{
    const cr_sconstant *at = peep_constant(n->input[1], CR_STYPE_INT);
    const cr_snode *made = n->input[0]->by;

    if (!at || !cr_salias_is_fixed_list(a, n->input[0]))
        return NULL;
    int64_t i = at->i < 0 ? at->i + made->input_count : at->i;
    return i >= 0 && i < made->input_count &&
                   cr_stype_equal(made->input[i]->type, n->output[0]->type)
               ? made->input[i]
               : NULL;
}

/* Whether a value of the type may be None. */
static bool peep_may_be_none(const cr_stype *t)
{
    switch (t->kind) {
    case CR_STYPE_NONE:
    case CR_STYPE_OPTIONAL:
    case CR_STYPE_UNION:
    case CR_STYPE_ANY:
    case CR_STYPE_VAR:
    case CR_STYPE_NEVER: return true;
    default: return false;
    }
}

/* An undefined tensor is None in C but has the type Tensor. */
static cr_svalue *peep_is_none(cr_snode *n, bool is)
{
    const cr_stype *x = n->input[0]->type, *y = n->input[1]->type;

    if (x->kind == CR_STYPE_NONE && y->kind == CR_STYPE_NONE)
        return peep_bool(n, is);
    if (x->kind == CR_STYPE_TENSOR || y->kind == CR_STYPE_TENSOR)
        return NULL;
    return (x->kind == CR_STYPE_NONE && !peep_may_be_none(y)) ||
                   (y->kind == CR_STYPE_NONE && !peep_may_be_none(x))
               ? peep_bool(n, !is)
               : NULL;
}

static cr_svalue *peep_is(const cr_salias *a, cr_snode *n)
{
    (void)a;
    return peep_is_none(n, true);
}

static cr_svalue *peep_is_not(const cr_salias *a, cr_snode *n)
{
    (void)a;
    return peep_is_none(n, false);
}

static bool peep_is_call(const cr_snode *n, const char *name)
{
    return n && n->prim == CR_SPRIM_OPERATOR && !n->schema->op &&
           !strcmp(n->schema->name, name);
}

static cr_svalue *peep_not(const cr_salias *a, cr_snode *n)
{
    (void)a;
    return peep_is_call(n->input[0]->by, "aten::__not__") ? n->input[0]->by->input[0] : NULL;
}

/* The other argument, where this one is a constant that decides nothing; the constant, where it
 * decides. */
static cr_svalue *peep_logical(const cr_snode *n, bool decides)
{
    for (int i = 0; i < 2; i++) {
        if (n->input[i]->type->kind != CR_STYPE_BOOL)
            return NULL;
        if (peep_is_bool(n->input[i], decides))
            return n->input[i];
        if (peep_is_bool(n->input[i], !decides))
            return n->input[1 - i];
    }
    return n->input[0] == n->input[1] ? n->input[0] : NULL;
}

static cr_svalue *peep_and(const cr_salias *a, cr_snode *n)
{
    (void)a;
    return peep_logical(n, false);
}

static cr_svalue *peep_or(const cr_salias *a, cr_snode *n)
{
    (void)a;
    return peep_logical(n, true);
}

static bool peep_are_ints(const cr_snode *n)
{
    return n->input_count == 2 && n->input[0]->type->kind == CR_STYPE_INT &&
           n->input[1]->type->kind == CR_STYPE_INT && n->output[0]->type->kind == CR_STYPE_INT;
}

/* x of x + 0 and 0 + x. */
static cr_svalue *peep_neutral(const cr_snode *n, int64_t neutral, bool left)
{
    if (!peep_are_ints(n))
        return NULL;
    if (peep_is_int(n->input[1], neutral))
        return n->input[0];
    return left && peep_is_int(n->input[0], neutral) ? n->input[1] : NULL;
}

static cr_svalue *peep_add(const cr_salias *a, cr_snode *n)
{
    (void)a;
    return peep_neutral(n, 0, true);
}

static cr_svalue *peep_sub(const cr_salias *a, cr_snode *n)
{
    (void)a;
    return peep_neutral(n, 0, false);
}

static cr_svalue *peep_mul(const cr_salias *a, cr_snode *n)
{
    (void)a;
    return peep_neutral(n, 1, true);
}

static cr_svalue *peep_floordiv(const cr_salias *a, cr_snode *n)
{
    (void)a;
    return peep_neutral(n, 1, false);
}

/* A conversion to the type that the argument has. */
static cr_svalue *peep_itself(const cr_salias *a, cr_snode *n)
{
    (void)a;
    return cr_stype_equal(n->input[0]->type, n->output[0]->type) ? n->input[0] : NULL;
}

/* An undefined tensor raises an error. */
static cr_svalue *peep_unwrap(const cr_salias *a, cr_snode *n)
{
    return n->input[0]->type->kind == CR_STYPE_TENSOR ? NULL : peep_itself(a, n);
}

static const struct {
    const char *name;
    peep_rule rule;
} peep_rules[] = {{"aten::len", peep_length},        {"aten::__getitem__", peep_item},
                  {"aten::__is__", peep_is},         {"aten::__isnot__", peep_is_not},
                  {"aten::__not__", peep_not},       {"aten::__and__", peep_and},
                  {"aten::__or__", peep_or},         {"aten::add", peep_add},
                  {"aten::sub", peep_sub},           {"aten::mul", peep_mul},
                  {"aten::floordiv", peep_floordiv}, {"aten::Int", peep_itself},
                  {"aten::Float", peep_itself},      {"aten::_unwrap_optional", peep_unwrap}};

/* --- branches --- */

static bool peep_only_constants(const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next)
        if (n->prim != CR_SPRIM_CONSTANT)
            return false;
    return true;
}

/* True if c else False: c. */
static void peep_branch(cr_snode *n, int i)
{
    cr_sgraph *g = n->owner->graph;
    const cr_svalue *yes = n->block[0]->output[i], *no = n->block[1]->output[i];

    if (peep_is_bool(yes, true) && peep_is_bool(no, false))
        cr_svalue_replace(g, n->output[i], n->input[0]);
}

static void peep_if(cr_snode *n)
{
    if (peep_only_constants(n->block[0]) && peep_only_constants(n->block[1]))
        for (int i = 0; i < n->output_count; i++)
            peep_branch(n, i);
}

/* --- facts of constant tensors --- */

static bool peep_is_fact(const cr_snode *n)
{
    static const char *const facts[] = {"aten::dim",     "aten::size",   "aten::numel",
                                        "prim::dtype",   "prim::device", "prim::layout",
                                        "prim::is_cuda", "prim::ndim"};

    for (size_t i = 0; i < CR_LEN(facts); i++)
        if (peep_is_call(n, facts[i]))
            return n->input_count == 1 || peep_constant(n->input[1], CR_STYPE_INT);
    return false;
}

/* Only tensors that no node changes: one may resize them. */
static cr_svalue *peep_fact(const cr_salias *a, cr_snode *n)
{
    cr_ivalue arg[2] = {{0}}, made = cr_iv_none();
    cr_scall call = {.arg = arg, .count = n->input_count, .out = &made, .outs = 1, .node = n};
    cr_builtin_fn fn = peep_is_fact(n) ? cr_builtin_find(n->schema->name) : NULL;
    const cr_sconstant *t = fn ? peep_constant(n->input[0], CR_STYPE_TENSOR) : NULL;
    cr_svalue *out = NULL;
    cr_sconstant value;

    if (!t || !t->tensor || cr_salias_is_changed(a, n->input[0]))
        return NULL;
    arg[0] = cr_iv_tensor(t->tensor); /* borrowed */
    if (n->input_count == 2)
        arg[1] = cr_iv_int(cr_svalue_constant(n->input[1])->i);
    if (!fn(&call) && cr_sconstant_of(n->owner->graph->session, &made, &value))
        out = peep_insert(n, value);
    cr_ivalue_drop(made);
    return out;
}

/* --- the walk --- */

static void peep_unpack(const cr_salias *a, cr_snode *n)
{
    const cr_snode *made = n->input[0]->by;

    if (!cr_salias_is_fixed_list(a, n->input[0]) || made->input_count != n->output_count)
        return;
    for (int i = 0; i < n->output_count; i++)
        if (cr_stype_equal(made->input[i]->type, n->output[i]->type))
            cr_svalue_replace(n->owner->graph, n->output[i], made->input[i]);
}

static cr_svalue *peep_operator(const cr_salias *a, cr_snode *n)
{
    for (size_t i = 0; i < CR_LEN(peep_rules); i++)
        if (peep_is_call(n, peep_rules[i].name))
            return peep_rules[i].rule(a, n);
    return peep_fact(a, n);
}

static void peep_in(const cr_salias *a, cr_sblock *b)
{
    for (cr_snode *n = b->first; n; n = n->next) {
        cr_svalue *to = NULL;
        for (int i = 0; i < n->block_count; i++)
            peep_in(a, n->block[i]);
        if (n->prim == CR_SPRIM_IF)
            peep_if(n);
        else if (n->prim == CR_SPRIM_LIST_UNPACK)
            peep_unpack(a, n);
        else if (n->prim == CR_SPRIM_UNCHECKED_CAST)
            to = peep_itself(a, n);
        else if (n->prim == CR_SPRIM_OPERATOR && n->output_count == 1)
            to = peep_operator(a, n);
        if (to)
            cr_svalue_replace(b->graph, n->output[0], to);
    }
}

void cr_spass_peephole(cr_sgraph *g)
{
    peep_in(cr_salias_find(g), g->body);
    cr_spass_dead(g);
}
