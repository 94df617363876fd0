/* Graphs with the graphs of the functions and methods that they call in place of the calls. */
#include "script/inline.h"

/* The function that a node calls, when it is known and has a graph; else NULL. */
static const cr_sfunction *inline_callee(const cr_snode *n)
{
    const cr_sconstant *constant;
    const cr_sfunction *f = NULL;

    if (n->prim == CR_SPRIM_CALL_METHOD && n->input[0]->type->kind == CR_STYPE_CLASS)
        f = cr_sclass_method(n->input[0]->type->cls, n->name);
    if (n->prim == CR_SPRIM_CALL_FUNCTION && (constant = cr_svalue_constant(n->input[0])) &&
        constant->type->kind == CR_STYPE_FUNCTION)
        f = constant->function;
    return f && f->graph ? f : NULL;
}

/* Copies the callee's body before the call, whose results are then the body's. */
static void inline_call(cr_snode *call, const cr_sfunction *f)
{
    cr_sgraph *g = call->owner->graph;
    const cr_sblock *from = f->graph->body;
    cr_svalue **map = CR_NEW_N(g->session, cr_svalue *, f->graph->values + 1);
    cr_snode *holder = cr_snode_before(call, CR_SPRIM_WITH, call->range);
    cr_sblock *to = cr_snode_block(holder);
    int skip = call->prim == CR_SPRIM_CALL_FUNCTION;

    for (int i = 0; i < from->input_count; i++)
        map[from->input[i]->id] = call->input[skip + i];
    cr_sblock_copy(to, from, map);
    for (int i = 0; i < call->output_count; i++)
        cr_svalue_replace(g, call->output[i], to->output[i]);
    cr_sblock_clear_outputs(to);
    cr_sblock_inline(to, holder);
    cr_snode_remove(holder);
    cr_snode_remove(call);
}

static void inline_in(cr_sblock *b)
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        const cr_sfunction *f = inline_callee(n);
        cr_snode *before = n->prev;
        for (int i = 0; i < n->block_count; i++)
            inline_in(n->block[i]);
        next = n->next;
        if (!f)
            continue;
        inline_call(n, f);
        next = before ? before->next : b->first;
    }
}

cr_sgraph *cr_sgraph_inlined(cr_session *s, const cr_sfunction *f)
{
    cr_sgraph *g = cr_sgraph_copy(s, f->graph);

    inline_in(g->body);
    return g;
}

void cr_spass_inline(cr_sgraph *g) { inline_in(g->body); }
