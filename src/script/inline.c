/* Graphs with the graphs of the functions and methods that they call in place of the calls. */
#include "script/inline.h"
#include "script/passes.h"

/* The graphs of callees as they are inserted, by function. */
typedef struct inlined inlined;
struct inlined {
    inlined *next;
    const cr_sfunction *function;
    cr_sgraph *graph;
};

typedef struct {
    inlined *made;
    bool shows; /* calls of operators that the table lacks stay calls, as torch shows them */
} inliner;

/* The function that a node calls, when its graph is known and goes in; else NULL. */
static const cr_sfunction *inline_callee(const inliner *x, const cr_snode *n)
{
    const cr_sconstant *constant;
    const cr_sfunction *f = NULL;

    if (n->prim == CR_SPRIM_CALL_METHOD && n->input[0]->type->kind == CR_STYPE_CLASS)
        f = cr_sclass_method(n->input[0]->type->cls, n->name);
    if (n->prim == CR_SPRIM_CALL_FUNCTION && (constant = cr_svalue_constant(n->input[0])) &&
        constant->type->kind == CR_STYPE_FUNCTION)
        f = constant->function;
    return f && f->graph && !(x->shows && f->stands_for) ? f : NULL;
}

/* Copies the callee's body before the call, whose results are then the body's. */
static void inline_call(cr_snode *call, const cr_sgraph *callee)
{
    cr_sgraph *g = call->owner->graph;
    const cr_sblock *from = callee->body;
    cr_svalue **map = CR_NEW_N(g->session, cr_svalue *, callee->values + 1);
    cr_snode *holder = cr_snode_before(call, CR_SPRIM_WITH, call->from.range);
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

static void inline_in(cr_sblock *b, inliner *x);

/* Attributes of type None are constants in callees, as in torch. */
static void inline_nones(cr_sblock *b)
{
    cr_sgraph *g = b->graph;

    for (cr_snode *n = b->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->block_count; i++)
            inline_nones(n->block[i]);
        if (n->prim != CR_SPRIM_GET_ATTR || n->output[0]->type->kind != CR_STYPE_NONE)
            continue;
        cr_sconstant *none = CR_NEW(g->session, cr_sconstant);
        none->type = CR_STYPE_OF(NONE);
        cr_svalue_replace(g, n->output[0], cr_sgraph_constant_first(g, none));
        cr_snode_remove(n);
    }
}

/* The callee's graph without calls, with the passes that torch runs before it inserts it. */
static const cr_sgraph *inline_graph(cr_session *s, const cr_sfunction *f, inliner *x)
{
    inlined *one = x->made;

    while (one && one->function != f)
        one = one->next;
    if (one)
        return one->graph;
    cr_sgraph *g = cr_sgraph_copy(s, f->graph);
    if (g->traced)
        cr_spass_unpool(g);
    inline_in(g->body, x);
    inline_nones(g->body);
    cr_spass_sizes(g);
    cr_spass_propagate(g);
    cr_spass_pool(g);
    one = CR_NEW(s, inlined);
    *one = (inlined){x->made, f, g};
    x->made = one;
    return g;
}

static void inline_in(cr_sblock *b, inliner *x)
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        const cr_sfunction *f = inline_callee(x, n);
        next = n->next;
        for (int i = 0; i < n->block_count; i++)
            inline_in(n->block[i], x);
        if (f)
            inline_call(n, inline_graph(b->graph->session, f, x));
    }
}

cr_sgraph *cr_sgraph_inlined(cr_session *s, const cr_sfunction *f)
{
    cr_sgraph *g = cr_sgraph_copy(s, f->graph);

    cr_spass_inline(g);
    return g;
}

static void inline_set_range(cr_snode *n, cr_srange range)
{
    n->from.range = range;
    for (int i = 0; i < n->block_count; i++)
        for (cr_snode *in = n->block[i]->first; in; in = in->next)
            inline_set_range(in, range);
}

static void inline_former_in(cr_sblock *b, inliner *x, bool *found)
{
    for (cr_snode *n = b->first, *next, *before; n; n = next) {
        const cr_sfunction *f = inline_callee(x, n);
        cr_srange range = n->from.range;
        next = n->next;
        before = n->prev;
        for (int i = 0; i < n->block_count; i++)
            inline_former_in(n->block[i], x, found);
        if (!f || !f->former)
            continue;
        *found = true;
        inline_call(n, inline_graph(b->graph->session, f, x));
        for (n = before ? before->next : b->first; n != next; n = n->next)
            inline_set_range(n, range);
    }
}

bool cr_spass_inline_former(cr_sgraph *g)
{
    inliner x = {0};
    bool found = false;

    inline_former_in(g->body, &x, &found);
    return found;
}

void cr_spass_inline(cr_sgraph *g)
{
    inliner x = {0};

    inline_in(g->body, &x);
}

void cr_spass_inline_shown(cr_sgraph *g)
{
    inliner x = {.shows = true};

    inline_in(g->body, &x);
}
