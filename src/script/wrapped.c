/* Constant tensors without dims count as Python's numbers in type promotion, as in torch: a
 * trace records the 2.5 of `x * 2.5` as such a tensor.  A node of an operator that library.def
 * names becomes a call of the overload that takes a number. */
#include "script/operators.h"
#include "script/passes.h"
#include <string.h>

/* The number of a constant tensor without dims on the host. */
static bool wrapped_number(const cr_svalue *v, cr_sconstant *out)
{
    const cr_sconstant *c = cr_svalue_constant(v);
    const cr_tensor *t = c && c->type->kind == CR_STYPE_TENSOR ? c->tensor : NULL;
    cr_scalar x;

    if (!t || t->ndim || t->device.kind != CR_CPU || cr_tensor_item(&x, t) || x.large)
        return false;
    switch (x.category) {
    case CR_CAT_BOOL: *out = (cr_sconstant){.type = CR_STYPE_OF(BOOL), .i = x.i}; break;
    case CR_CAT_INT: *out = (cr_sconstant){.type = CR_STYPE_OF(INT), .i = x.i}; break;
    case CR_CAT_FLOAT: *out = (cr_sconstant){.type = CR_STYPE_OF(FLOAT), .d = {x.d}}; break;
    default: *out = (cr_sconstant){.type = CR_STYPE_OF(COMPLEX), .d = {x.c.re, x.c.im}}; break;
    }
    return true;
}

/* The schema that takes a number where `s` takes a tensor at i, and else the same; or NULL. */
static const cr_sschema *wrapped_schema(const cr_sschema *s, int i)
{
    const cr_sschemas *all;

    if (cr_soperators(&all, s->name))
        return NULL;
    for (size_t k = 0; k < all->len; k++) {
        const cr_sschema *one = all->at[k];
        bool same = one->op == s->op && one->param_count == s->param_count &&
                    one->param[i].type->kind == CR_STYPE_NUMBER;
        for (int n = 0; same && n < s->param_count; n++)
            same = n == i || cr_stype_equal(one->param[n].type, s->param[n].type);
        if (same)
            return one;
    }
    return NULL;
}

/* Whether library.def names the operator.  In-place forms and those with out= read the tensor,
 * as in torch: their results have a dtype anyway. */
static bool wrapped_takes_number(const cr_sschema *s)
{
    static const char *const names[] = {
#define CR_SLIBRARY(name, last, source)
#define CR_SNORMAL(name, other)
#define CR_SWRAPPED(name) name,
#include "script/library.def"
#undef CR_SWRAPPED
#undef CR_SNORMAL
#undef CR_SLIBRARY
    };
    bool known = false;

    for (size_t i = 0; i < CR_LEN(names) && !known; i++)
        known = !strcmp(s->op->name, names[i]) && !*s->op->overload;
    for (int i = 0; known && i < s->param_count; i++)
        known = !s->param[i].written;
    return known;
}

static void wrapped_node(cr_snode *n)
{
    const cr_sschema *s = n->schema, *with = NULL;
    cr_sconstant value;

    if (n->input_count < 2 || s->param_count < 2 || !wrapped_takes_number(s))
        return;
    if (!wrapped_number(n->input[1], &value) || !(with = wrapped_schema(s, 1)))
        return;
    cr_snode *made = cr_snode_before(n, CR_SPRIM_CONSTANT, n->from.range);
    made->value = cr_session_copy(n->owner->graph->session, &value, sizeof value);
    cr_snode_set_input(n, 1, cr_snode_output(made, NULL, value.type));
    n->schema = with;
}

/* A node writes to a constant: its elements are not those that the graph begins with. */
static bool wrapped_is_written(const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; n->prim == CR_SPRIM_OPERATOR && i < n->input_count; i++)
            if (i < n->schema->param_count && n->schema->param[i].written &&
                cr_svalue_constant(n->input[i]))
                return true;
        for (int i = 0; i < n->block_count; i++)
            if (wrapped_is_written(n->block[i]))
                return true;
    }
    return false;
}

static void wrapped_in(cr_sblock *b)
{
    for (cr_snode *n = b->first; n; n = n->next) {
        if (n->prim == CR_SPRIM_OPERATOR && n->schema->op)
            wrapped_node(n);
        for (int i = 0; i < n->block_count; i++)
            wrapped_in(n->block[i]);
    }
}

void cr_spass_wrapped(cr_sgraph *g)
{
    if (!wrapped_is_written(g->body))
        wrapped_in(g->body);
}
