/* What the graph of a traced function shows: the types of the tensors that the trace saw, the
 * module paths, and each constant before the node that reads it, as in torch. */
#include "script/passes.h"
#include <string.h>

/* --- what a trace saw --- */

typedef struct {
    cr_sfunction *function;
    const cr_straced *seen;
} traced_job;

/* The types of results that a node makes of its inputs. */
static void traced_made(cr_sunit *u, cr_snode *n)
{
    if (n->prim == CR_SPRIM_TUPLE_CONSTRUCT) {
        const cr_stype *was = n->output[0]->type;
        const cr_stype **item = CR_NEW_N(cr_sunit_session(u), const cr_stype *, was->count + 1);
        for (int i = 0; i < was->count; i++)
            item[i] = n->input[i]->type;
        if (!was->cls && !was->field)
            n->output[0]->type = cr_stype_tuple(u, was->count, item, NULL);
    }
    if (n->prim == CR_SPRIM_TUPLE_UNPACK && n->input[0]->type->kind == CR_STYPE_TUPLE)
        for (int i = 0; i < n->output_count; i++)
            if (n->input[0]->type->item[i]->kind == n->output[i]->type->kind)
                n->output[i]->type = n->input[0]->type->item[i];
}

/* The results of a line, which its last node has. */
static void traced_line(cr_sunit *u, cr_snode *n, const cr_straced_line *l)
{
    for (int k = 0; l->count == n->output_count && k < l->count; k++)
        if (l->type[k] && n->output[k]->type->kind == CR_STYPE_TENSOR)
            n->output[k]->type = cr_stype_parse(u, l->type[k]);
}

static int traced_line_of(const cr_snode *n, cr_splace *place)
{
    int line, column;

    if (!n->from.range.source)
        return 0;
    cr_srange_place(n->from.range, place, &line, &column);
    return line;
}

static void traced_note(cr_session *s, void *context)
{
    const traced_job *j = context;
    const cr_straced *seen = j->seen;
    cr_sblock *b = j->function->graph->body;
    const char *scope = seen->scope ? cr_session_text(s, seen->scope) : NULL;
    cr_splace place = {0};

    for (int i = 0; i < b->input_count && seen->count && i < seen->line[0].count; i++)
        if (seen->line[0].type[i])
            b->input[i]->type = cr_stype_parse(j->function->unit, seen->line[0].type[i]);
    for (cr_snode *n = b->first; n; n = n->next) {
        int line = traced_line_of(n, &place) - 1;
        bool last = !n->next || traced_line_of(n->next, &place) - 1 != line;
        bool bare = n->prim == CR_SPRIM_CALL_METHOD || n->prim == CR_SPRIM_GET_ATTR ||
                    (n->prim == CR_SPRIM_TUPLE_CONSTRUCT && !n->next);
        traced_made(j->function->unit, n);
        if (last && line > 0 && line < seen->count)
            traced_line(j->function->unit, n, &seen->line[line]);
        n->from.scope = bare ? NULL : scope;
    }
    b->graph->traced = true;
}

cr_status cr_sfunction_note_trace(cr_sfunction *f, const cr_straced *seen)
{
    traced_job j = {f, seen};

    if (!f->graph)
        return cr_fail(CR_RUNTIME, "'%s' has no graph", f->qualified);
    return cr_session_run(cr_sunit_session(f->unit), traced_note, &j);
}

/* --- the order of torch's traces --- */

/* Whether a node makes a container for one reader, before which it goes. */
static bool traced_is_part(const cr_snode *n)
{
    bool makes = n->prim == CR_SPRIM_LIST_CONSTRUCT || n->prim == CR_SPRIM_TUPLE_CONSTRUCT ||
                 n->prim == CR_SPRIM_DICT_CONSTRUCT;

    return makes && n->output[0]->uses == 1;
}

static cr_snode *traced_node(cr_sblock *b, cr_snode *at, cr_sprim prim)
{
    const cr_snode *reader = at ? at : b->last;
    cr_srange none = {0}, range = reader ? reader->from.range : none;
    cr_snode *n = cr_snode_new(b, prim, range);

    n->from.scope = reader ? reader->from.scope : NULL;
    if (at)
        cr_snode_move(n, b, at);
    return n;
}

/* A constant before `at`.  A list of numbers is made of its items, as a trace records it. */
static cr_svalue *traced_constant(cr_sblock *b, cr_snode *at, const cr_sconstant *value,
                                  const cr_svalue *was)
{
    bool list = value->type->kind == CR_STYPE_LIST && !value->live;
    cr_svalue **item = CR_NEW_N(b->graph->session, cr_svalue *, list ? value->count + 1 : 1);

    for (int i = 0; list && i < value->count; i++)
        item[i] = traced_constant(b, at, &value->item[i], NULL);
    cr_snode *n = traced_node(b, at, list ? CR_SPRIM_LIST_CONSTRUCT : CR_SPRIM_CONSTANT);
    n->value = list ? NULL : value;
    for (int i = 0; list && i < value->count; i++)
        cr_snode_input(n, item[i]);
    return cr_snode_output(n, was ? was->name : NULL, was ? was->type : value->type);
}

static void traced_inputs(cr_sblock *b, cr_snode *n);

/* The value that a node, or the results of the block where `at` is NULL, reads, made there. */
static cr_svalue *traced_operand(cr_sblock *b, cr_snode *at, cr_svalue *v)
{
    if (v->by && v->by->prim == CR_SPRIM_CONSTANT)
        return traced_constant(b, at, v->by->value, v);
    if (v->by && v->by->owner == b && traced_is_part(v->by)) {
        cr_snode_move(v->by, b, at);
        traced_inputs(b, v->by);
    }
    return v;
}

static void traced_inputs(cr_sblock *b, cr_snode *n)
{
    int calls = n->prim == CR_SPRIM_CALL_FUNCTION; /* its function comes behind the arguments */

    for (int k = 0; k < n->input_count; k++) {
        int i = (k + calls) % n->input_count;
        cr_svalue *v = traced_operand(b, n, n->input[i]);
        if (v != n->input[i])
            cr_snode_set_input(n, i, v);
    }
}

void cr_spass_unpool(cr_sgraph *g)
{
    cr_sblock *b = g->body;
    cr_snode *n, *next;

    for (n = b->first; n; n = n->next)
        if (n->prim != CR_SPRIM_CONSTANT && !(n->output_count == 1 && traced_is_part(n)))
            traced_inputs(b, n);
    for (int i = 0; i < b->output_count; i++) {
        cr_svalue *v = traced_operand(b, NULL, b->output[i]);
        if (v != b->output[i])
            cr_sblock_set_output(b, i, v);
    }
    for (n = b->first; n; n = next) {
        next = n->next;
        if (n->prim == CR_SPRIM_CONSTANT && !n->output[0]->uses)
            cr_snode_remove(n);
    }
}

/* --- sizes --- */

static bool traced_is_call(const cr_snode *n, const char *name)
{
    return n && n->prim == CR_SPRIM_OPERATOR && !strcmp(n->schema->name, name);
}

static void traced_drop(cr_snode *n)
{
    if (!n->output[0]->uses)
        cr_snode_remove(n);
}

void cr_spass_sizes(cr_sgraph *g)
{
    for (cr_snode *n = g->body->first, *next; n; n = next) {
        cr_snode *made = n->input_count ? n->input[0]->by : NULL;
        next = n->next;
        if (!traced_is_call(n, "aten::Int") || !traced_is_call(made, "prim::NumToTensor") ||
            made->input[0]->type->kind != CR_STYPE_INT)
            continue;
        cr_svalue_replace(g, n->output[0], made->input[0]);
        traced_drop(n);
        traced_drop(made);
    }
}
