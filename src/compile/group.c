/* Gathering pointwise nodes into groups.
 *
 * Nodes are seen in order.  A pointwise node joins the open group that made one of its
 * arguments when both are over one space; open groups that it reads and that fit are merged.
 * A group is computed where its last node stands, so it closes as soon as anything else reads
 * one of its values, and all close where a tensor is written. */
#include "compile/compile.h"
#include "graph/rewrite.h"
#include <string.h>

enum { MOST_OPERANDS = 24 }; /* results and arguments of a group */

typedef struct group {
    const cr_gtype *space;
    int split; /* of the dimensions into rows and columns; -1: not decided */
    int width; /* bytes of its values, truth values apart; 0: there are no others */
    bool open;
    unsigned era;       /* a group of an earlier era is closed */
    struct group *into; /* merged into this one */
    int reads, made;    /* upper bounds of its operands */
    struct {
        size_t len, cap, *at;
    } nodes;            /* once all are gathered: its nodes, in order */
} group;

typedef struct {
    const cr_graph *g;
    cr_session *s;
    group **of;          /* by value id: the group that makes it */
    group **at;          /* by node: the group it is in */
    unsigned era;        /* counts the nodes that write */
    size_t place;        /* the next node to be emitted */
} gatherer;

static group *root(group *p)
{
    while (p && p->into)
        p = p->into;
    return p;
}

/* --- is the node pointwise? --- */

typedef struct {
    cr_loop *l;
    const cr_gnode *n;
} trial;

static const cr_expr *trial_value(void *context, cr_gvalue *v)
{
    trial *t = context;
    const cr_sym *size = cr_sym_name(t->l->syms, "C", 0, CR_SYM_HIGH);
    const cr_sym *index = cr_sym_name(t->l->syms, "j", 0, CR_SYM_HIGH);
    cr_buffer *b = cr_loop_find_buffer(t->l, v->name);

    if (!b)
        b = cr_loop_buffer(t->l, CR_BUFFER_INPUT, v->name, (cr_dtype)v->type.dtype, 1, &size);
    return cr_expr_load(t->l, b, &index);
}

static const cr_expr *trial_number(void *context, cr_scalar n, cr_dtype t)
{
    return cr_expr_const(((trial *)context)->l, t, n);
}

static void try_node(cr_session *s, void *context)
{
    trial *t = context;
    cr_node_reader r = {trial_value, trial_number, t};

    t->l = cr_loop_new(s);
    cr_compile_node(t->l, t->n, &r);
}

/* Whether loops can compute the node, tried in a session of its own. */
static bool has_loop(const cr_gnode *n)
{
    trial t = {.n = n};
    cr_session s = {.status = CR_OK};
    cr_status st = cr_session_run(&s, try_node, &t);

    cr_session_drop(&s);
    return !st;
}

/* Every argument lies in the space of the result; *split as cr_operand_over has it. */
static bool lies_well(const cr_gnode *n, int *split)
{
    const cr_gtype *space = &n->result[0]->type;
    cr_over over;

    for (int i = 0; i < n->arg_count; i++)
        if (n->arg[i].tag == CR_TENSOR &&
            !cr_operand_over(&over, split, space->ndim, space->size, &n->arg[i].value->type))
            return false;
    return true;
}

/* A kernel's values have one width, truth values apart.  -1: the node's have two. */
static int joint_width(int a, int b) { return !a || a == b ? b : !b ? a : -1; }

static int width_of(const cr_gtype *t)
{
    return t->dtype == CR_BOOL ? 0 : (int)cr_dtype_size((cr_dtype)t->dtype);
}

static int node_width(const cr_gnode *n)
{
    int width = width_of(&n->result[0]->type);

    for (int i = 0; i < n->arg_count && width >= 0; i++)
        if (n->arg[i].tag == CR_TENSOR)
            width = joint_width(width, width_of(&n->arg[i].value->type));
    return width;
}

static bool is_pointwise(const cr_gnode *n, int *split)
{
    *split = -1;
    return n->kind == CR_GNODE_CALL && n->result_count == 1 && n->result[0]->type.known &&
           !n->result[0]->type.stride && n->result[0]->type.device == CR_CPU && lies_well(n, split) &&
           node_width(n) >= 0 && has_loop(n);
}

/* --- joining --- */

static bool same_space(const cr_gtype *a, const cr_gtype *b)
{
    return a->ndim == b->ndim && !memcmp(a->size, b->size, a->ndim * sizeof *a->size);
}

static bool agrees(const gatherer *x, const group *p, const cr_gtype *space, int split, int width, int reads)
{
    return p->open && p->era == x->era && same_space(p->space, space) && joint_width(p->width, width) >= 0 && (p->split < 0 || split < 0 || p->split == split) &&
           p->reads + p->made + reads < MOST_OPERANDS;
}

static void close_group(void *context, cr_gvalue *v)
{
    group *p = root(((gatherer *)context)->of[v->id]);

    if (p)
        p->open = false;
}

static void close_read(gatherer *x, const cr_gnode *n)
{
    for (int i = 0; i < n->arg_count; i++)
        cr_garg_each(&n->arg[i], close_group, x);
    for (int k = 0; k < cr_gnode_blocks(n); k++) {
        for (size_t i = 0; i < n->block[k]->len; i++)
            close_read(x, n->block[k]->at[i]);
        for (int i = 0; i < n->block[k]->output_count; i++)
            cr_garg_each(&n->block[k]->output[i], close_group, x);
    }
}

/* The groups that made the arguments become one with `into`, or close. */
static group *join_arguments(gatherer *x, const cr_gnode *n, int split)
{
    int width = node_width(n);
    group *into = NULL;

    for (int i = 0; i < n->arg_count; i++) {
        group *p = n->arg[i].tag == CR_TENSOR ? root(x->of[n->arg[i].value->id]) : NULL;
        if (!p || p == into)
            continue;
        if (!agrees(x, into ? into : p, &n->result[0]->type, split, width, n->arg_count) ||
            (into && !agrees(x, p, &n->result[0]->type, into->split, into->width, into->reads + into->made))) {
            p->open = false;
            continue;
        }
        if (into) {
            p->into = into;
            into->reads += p->reads;
            into->made += p->made;
            into->split = into->split < 0 ? p->split : into->split;
            into->width = joint_width(into->width, p->width);
        } else {
            into = p;
        }
        split = split < 0 ? into->split : split;
    }
    return into;
}

static void place_pointwise(gatherer *x, const cr_gnode *n, size_t i, int split)
{
    group *p = join_arguments(x, n, split);

    if (!p) {
        p = CR_NEW(x->s, group);
        *p = (group){.space = &n->result[0]->type, .split = split, .open = true, .era = x->era};
    }
    p->split = p->split < 0 ? split : p->split;
    p->width = joint_width(p->width, node_width(n));
    p->made++;
    for (int k = 0; k < n->arg_count; k++)
        p->reads += n->arg[k].tag == CR_TENSOR;
    x->at[i] = p;
    x->of[n->result[0]->id] = p;
}

static void gather(gatherer *x)
{
    const cr_gblock *b = x->g->body;

    for (size_t i = 0; i < b->len; i++) {
        int split;
        if (is_pointwise(b->at[i], &split)) {
            place_pointwise(x, b->at[i], i, split);
            continue;
        }
        close_read(x, b->at[i]);
        x->era += cr_gnode_has_effect(b->at[i]);
    }
    for (size_t i = 0; i < b->len; i++)
        if (x->at[i])
            CR_PUSH(x->s, &root(x->at[i])->nodes, i);
}

/* --- the new graph --- */

/* By value id of the old graph: somebody outside the group reads it. */
typedef struct {
    gatherer *x;
    const group *reader;
    bool *outside;
} reader_marks;

static void mark_outside(void *context, cr_gvalue *v)
{
    reader_marks *m = context;

    if (root(m->x->of[v->id]) != m->reader)
        m->outside[v->id] = true;
}

static void mark_block(reader_marks *m, const cr_gblock *b, bool top)
{
    for (size_t i = 0; i < b->len; i++) {
        m->reader = top ? root(m->x->at[i]) : NULL;
        for (int k = 0; k < b->at[i]->arg_count; k++)
            cr_garg_each(&b->at[i]->arg[k], mark_outside, m);
        for (int k = 0; k < cr_gnode_blocks(b->at[i]); k++)
            mark_block(m, b->at[i]->block[k], false);
    }
    m->reader = NULL;
    for (int i = 0; i < b->output_count; i++)
        cr_garg_each(&b->output[i], mark_outside, m);
}

typedef struct {
    gatherer *x;
    bool *outside;
} emitter;

/* All nodes of the group, where its last one stood. */
static void emit_group(cr_rewrite *w, cr_gblock *to, const group *p)
{
    emitter *e = w->context;
    const cr_gblock *from = e->x->g->body;
    cr_gblock *inner = cr_graph_block(w->to);
    cr_garg *out = CR_NEW_N(e->x->s, cr_garg, p->nodes.len);
    const cr_gvalue **old = CR_NEW_N(e->x->s, const cr_gvalue *, p->nodes.len);
    const char **names = CR_NEW_N(e->x->s, const char *, p->nodes.len);
    int outputs = 0;

    for (size_t k = 0; k < p->nodes.len; k++) {
        const cr_gnode *n = from->at[p->nodes.at[k]];
        cr_gvalue *made = cr_rewrite_copy(w, inner, n)->result[0];
        if (!e->outside[n->result[0]->id])
            continue;
        old[outputs] = n->result[0];
        names[outputs] = made->name;
        out[outputs++] = cr_garg_value(made);
    }
    if (!outputs)
        return; /* nobody reads any of it */
    cr_gblock_return(w->to, inner, out, outputs);
    cr_gnode *made = cr_graph_group(w->to, to, inner, names);
    for (int k = 0; k < outputs; k++)
        w->now[old[k]->id] = made->result[k];
}

static bool emit(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    emitter *e = w->context;
    const group *p;

    (void)n;
    if (to != w->to->body)
        return false; /* inside a block */
    p = root(e->x->at[e->x->place++]);
    if (!p || p->nodes.len < 2)
        return false;
    if (p->nodes.at[p->nodes.len - 1] == e->x->place - 1)
        emit_group(w, to, p);
    return true;
}

cr_graph *cr_compile_group(const cr_graph *g)
{
    cr_session *s = g->session;
    gatherer x = {.g = g, .s = s, .of = CR_NEW_N(s, group *, g->values), .at = CR_NEW_N(s, group *, g->body->len)};
    emitter e = {&x, CR_NEW_N(s, bool, g->values)};
    reader_marks marks = {.x = &x, .outside = e.outside};
    cr_rewrite w = {.from = g, .node = emit, .context = &e};

    gather(&x);
    mark_block(&marks, g->body, true);
    return cr_rewrite_run(&w);
}
