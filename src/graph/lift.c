/* Copies of graphs: constants as inputs, graphs for other sessions. */
#include "graph/rewrite.h"
#include <string.h>

bool cr_graph_writes(const cr_graph *g)
{
    for (size_t i = 0; i < g->body->len; i++)
        if (cr_gnode_writes(g->body->at[i]))
            return true;
    return false;
}

typedef struct {
    cr_session *s;
    bool *read;    /* by value id of the old graph */
    bool writes;   /* some node writes a tensor */
    int *from, count;
    cr_tensor **constant;
} lifter;

static void mark_read(void *context, cr_gvalue *v) { ((lifter *)context)->read[v->id] = true; }

static void mark_block(lifter *x, const cr_gblock *b)
{
    for (size_t i = 0; i < b->len; i++) {
        const cr_gnode *n = b->at[i];
        for (int k = 0; k < n->arg_count; k++)
            cr_garg_each(&n->arg[k], mark_read, x);
        for (int k = 0; k < cr_gnode_blocks(n); k++)
            mark_block(x, n->block[k]);
    }
    for (int i = 0; i < b->output_count; i++)
        cr_garg_each(&b->output[i], mark_read, x);
}

/* A constant that may be written is the call's own copy. */
static bool lift(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    lifter *x = w->context;
    cr_gvalue *v;

    if (n->kind != CR_GNODE_CONSTANT)
        return false;
    v = w->now[n->result[0]->id] = cr_graph_input(w->to, n->result[0]->name, &n->result[0]->type);
    x->from[x->count] = -1;
    x->constant[x->count++] = n->constant;
    if (x->writes) {
        const cr_op *op = cr_ops_find("clone");
        cr_garg arg[CR_MAX_ARGS] = {cr_garg_value(v)};
        cr_gnode *copy = cr_graph_call(w->to, to, op, arg, 1, NULL);
        copy->result[0]->type = v->type;
        w->now[n->result[0]->id] = copy->result[0];
    }
    return true;
}

static size_t count_constants(const cr_gblock *b)
{
    size_t count = 0;

    for (size_t i = 0; i < b->len; i++)
        count += b->at[i]->kind == CR_GNODE_CONSTANT;
    return count;
}

cr_lifted cr_graph_lift(const cr_graph *g)
{
    cr_session *s = g->session;
    size_t most = (size_t)g->input_count + count_constants(g->body);
    lifter x = {.s = s, .writes = cr_graph_writes(g), .read = CR_NEW_N(s, bool, g->values), .from = CR_NEW_N(s, int, most),
                .constant = CR_NEW_N(s, cr_tensor *, most)};
    cr_rewrite w = {.from = g, .node = lift, .context = &x};

    mark_block(&x, g->body);
    for (size_t k = 0; k < g->numbers.list.len; k++)
        if (g->numbers.list.at[k].of)
            x.read[g->numbers.list.at[k].of->id] = true;
    w.keeps_input = x.read;
    for (int i = 0; i < g->input_count; i++)
        if (x.read[g->input[i]->id])
            x.from[x.count++] = i;
    cr_graph *made = cr_rewrite_run(&w);
    return (cr_lifted){made, x.from, x.constant};
}

static bool copy(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    (void)w;
    (void)to;
    (void)n;
    return false;
}

cr_graph *cr_graph_copy(cr_session *s, const cr_graph *g)
{
    cr_rewrite w = {.from = g, .node = copy, .into = s};

    return cr_rewrite_run(&w);
}
