/* Making constants inputs, and copying graphs to other sessions. */
#include "entry.h"
#include "graph/rewrite.h"

bool cr_graph_writes(const cr_graph *g)
{
    for (size_t i = 0; i < g->body->len; i++)
        if (cr_gnode_writes(g->body->at[i]))
            return true;
    return false;
}

typedef struct {
    cr_graph *g;
    int *reads;  /* number of readers, by value id */
    bool writes; /* some node writes a tensor */
    int *from;
    cr_tensor **constant;
} lifter;

static void count_read(void *context, cr_gvalue *v) { ((lifter *)context)->reads[v->id]++; }

/* Counts the readers of every value, and returns the number of constants. */
static int lift_count_block(lifter *x, const cr_gblock *b)
{
    int constants = 0;

    for (size_t i = 0; i < b->len; i++) {
        const cr_gnode *n = b->at[i];
        constants += n->kind == CR_GNODE_CONSTANT;
        cr_gnode_each_read(n, count_read, x);
        for (int k = 0; k < cr_gnode_blocks(n); k++)
            constants += lift_count_block(x, n->block[k]);
    }
    cr_gblock_each_output(b, count_read, x);
    return constants;
}

static void drop_unread_inputs(lifter *x)
{
    cr_graph *g = x->g;
    int kept = 0;

    for (int i = 0; i < g->input_count; i++)
        if (x->reads[g->input[i]->id]) {
            x->from[kept] = i;
            g->input[kept] = g->input[i];
            g->input[kept]->index = kept;
            kept++;
        }
    g->input_count = kept;
}

/* Replaces a constant that may be written by a clone of the input, made in every call. */
static void copy_input(lifter *x, cr_gnode *n)
{
    cr_gvalue *v = n->result[0], *input = cr_graph_input(x->g, v->name, &v->type);

    n->kind = CR_GNODE_CALL;
    n->op = cr_entry.clone;
    n->arg_count = n->op->param_count;
    n->arg = CR_NEW_N(x->g->session, cr_garg, n->arg_count);
    n->arg[0] = cr_garg_value(input);
    n->constant = NULL;
}

/* True for a literal of the program: a constant whose only reader is the next node, a clone. */
static bool is_copied(const lifter *x, const cr_gblock *b, size_t i)
{
    const cr_gvalue *v = b->at[i]->result[0];
    const cr_gnode *next = i + 1 < b->len ? b->at[i + 1] : NULL;

    return next && next->kind == CR_GNODE_CALL && next->op == cr_entry.clone &&
           next->arg[0].value == v && x->reads[v->id] == 1;
}

static void lift_block(lifter *x, cr_gblock *b)
{
    size_t kept = 0;

    for (size_t i = 0; i < b->len; i++) {
        cr_gnode *n = b->at[i];
        for (int k = 0; k < cr_gnode_blocks(n); k++)
            lift_block(x, n->block[k]);
        if (n->kind == CR_GNODE_CONSTANT) {
            x->from[x->g->input_count] = -1;
            x->constant[x->g->input_count] = n->constant;
            if (!x->writes || is_copied(x, b, i)) {
                cr_graph_push_input(x->g, n->result[0]);
                continue;
            }
            copy_input(x, n);
        }
        b->at[kept++] = n;
    }
    b->len = kept;
}

cr_origins cr_graph_lift(cr_graph *g)
{
    cr_session *s = g->session;
    lifter x = {.g = g, .writes = cr_graph_writes(g), .reads = CR_NEW_N(s, int, g->values)};
    size_t most = (size_t)(g->input_count + lift_count_block(&x, g->body));

    for (size_t k = 0; k < g->numbers.list.len; k++)
        if (g->numbers.list.at[k].of)
            x.reads[g->numbers.list.at[k].of->id]++;
    x.from = CR_NEW_N(s, int, most);
    x.constant = CR_NEW_N(s, cr_tensor *, most);
    drop_unread_inputs(&x);
    lift_block(&x, g->body);
    return (cr_origins){x.from, x.constant};
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
