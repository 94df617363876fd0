/* Copies a graph node by node. */
#include "graph/rewrite.h"

cr_gvalue *cr_rewrite_value(void *rewrite, cr_gvalue *v)
{
    return ((cr_rewrite *)rewrite)->now[v->id];
}

/* Copies the type's sizes to the session, because the other session may be dropped first. */
static cr_gtype copy_type(cr_rewrite *w, const cr_gtype *from)
{
    cr_gtype t = *from;
    size_t bytes = t.ndim * sizeof *t.size;

    if (w->to->session == w->from->session)
        return t;
    if (t.size)
        t.size = cr_session_copy(w->to->session, t.size, bytes);
    if (t.stride)
        t.stride = cr_session_copy(w->to->session, t.stride, bytes);
    return t;
}

static const char *copy_source(cr_rewrite *w, const char *source)
{
    if (!source || w->to->session == w->from->session)
        return source;
    return cr_session_text(w->to->session, source);
}

static void copy_varying(cr_rewrite *w, cr_gnode *copy, const cr_gnode *n)
{
    size_t bytes = (size_t)n->varying_count * sizeof *n->varying;

    copy->varying_count = n->varying_count;
    copy->varying = bytes ? cr_session_copy(w->to->session, n->varying, bytes) : NULL;
}

static void copy_block(cr_rewrite *w, cr_gblock *to, const cr_gblock *from)
{
    cr_garg *output = CR_NEW_N(w->to->session, cr_garg, from->output_count);

    for (size_t i = 0; i < from->len; i++)
        if (!w->node(w, to, from->at[i]))
            cr_rewrite_copy(w, to, from->at[i]);
    for (int i = 0; i < from->output_count; i++)
        output[i] = cr_garg_copy(w->to, &from->output[i], cr_rewrite_value, w);
    cr_gblock_return(w->to, to, output, from->output_count);
}

static cr_gnode *rewrite_node(cr_rewrite *w, cr_gblock *to, const cr_gnode *n,
                              const char *const *names)
{
    cr_garg arg[CR_MAX_ARGS];
    cr_gblock *block[2];

    for (int i = 0; i < n->arg_count; i++)
        arg[i] = cr_garg_copy(w->to, &n->arg[i], cr_rewrite_value, w);
    switch ((cr_gnode_kind)n->kind) {
    case CR_GNODE_CONSTANT: return cr_graph_constant(w->to, to, n->constant, names[0])->by;
    case CR_GNODE_IF:
        for (int k = 0; k < 2; k++) {
            block[k] = cr_graph_block(w->to);
            copy_block(w, block[k], n->block[k]);
        }
        return cr_graph_if(w->to, to, arg[0].value, block[0], block[1], names);
    case CR_GNODE_GROUP:
        block[0] = cr_graph_block(w->to);
        copy_block(w, block[0], n->block[0]);
        return cr_graph_group(w->to, to, block[0], names);
    case CR_GNODE_CALL: break;
    }
    return cr_graph_call(w->to, to, n->op, arg, n->result_count, names);
}

cr_gnode *cr_rewrite_copy(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    const char **names = CR_NEW_N(w->to->session, const char *, n->result_count);
    cr_gnode *copy;

    for (int k = 0; k < n->result_count; k++)
        names[k] = n->result[k]->name;
    copy = rewrite_node(w, to, n, names);
    copy->source = copy_source(w, n->source);
    copy->no_grad = n->no_grad;
    copy->same = n->same;
    copy_varying(w, copy, n);
    for (int k = 0; k < n->result_count; k++) {
        copy->result[k]->type = copy_type(w, &n->result[k]->type);
        copy->result[k]->symbolic = n->result[k]->symbolic;
        w->now[n->result[k]->id] = copy->result[k];
    }
    return copy;
}

static void rewrite_numbers(cr_rewrite *w)
{
    const cr_gnumbers *n = &w->from->numbers;
    cr_session *s = w->to->session;

    w->to->numbers.inputs = n->inputs;
    for (size_t k = 0; k < n->list.len; k++) {
        cr_gnumber one = n->list.at[k];
        one.of = one.of ? w->now[one.of->id] : NULL;
        CR_PUSH(s, &w->to->numbers.list, one);
    }
    for (size_t i = 0; i < n->guards.len; i++)
        CR_PUSH(s, &w->to->numbers.guards, n->guards.at[i]);
}

static void rewrite_run(cr_session *s, void *context)
{
    cr_rewrite *w = context;

    w->to = cr_graph_new(s);
    w->now = CR_NEW_N(s, cr_gvalue *, w->from->values);
    for (int i = 0; i < w->from->input_count; i++) {
        cr_gtype type = copy_type(w, &w->from->input[i]->type);
        cr_gvalue *made = cr_graph_input(w->to, w->from->input[i]->name, &type);
        made->symbolic = w->from->input[i]->symbolic;
        w->now[w->from->input[i]->id] = made;
    }
    copy_block(w, w->to->body, w->from->body);
    rewrite_numbers(w);
}

cr_graph *cr_rewrite_run(cr_rewrite *w)
{
    cr_session *s = w->into ? w->into : w->from->session;
    cr_status st = cr_session_run(s, rewrite_run, w);

    if (st)
        cr_graph_drop(w->to); /* releases its constants */
    cr_session_check(s, st);
    return w->to;
}
