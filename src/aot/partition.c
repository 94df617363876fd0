/* Cutting a joint graph.
 *
 * A value is the forward part's when it follows from primals alone (and, where everything that
 * is read is saved, when an output follows from it); the rest is the backward part's, which
 * reads values of the forward part.  These are saved, or computed again from saved ones.
 *
 * The minimum cut (Chen et al. 2016 recompute by segments; the cut by flow is functorch's): a
 * value of the forward part is two points with an edge of its bytes between them; a node leads
 * from its arguments' second points to its results' first.  The source leads to primals and to
 * results of nodes that must not be repeated; what the backward part reads leads to the sink.
 * The edges cut are the values to save. */
#include "aot/aot.h"
#include "aot/flow.h"
#include "graph/rewrite.h"
#include <string.h>

typedef struct {
    const cr_graph *joint;
    cr_session *s;
    int primals, outputs;
    bool *forward; /* by value id: follows from primals alone */
    bool *needed;  /* read by the backward part, or returned as a gradient */
    bool *saved;
    bool *wanted;  /* in the graph being made: must be there */
} cutter;

/* --- facts --- */

int64_t cr_gvalue_bytes(const cr_gvalue *v)
{
    int64_t n = 1;

    if (!v->type.known)
        return 8;
    for (int i = 0; i < v->type.ndim; i++)
        n *= v->type.size[i];
    return n * (int64_t)cr_dtype_size((cr_dtype)v->type.dtype);
}

static bool is_view(const cr_op *op) { return op->does == CR_DOES_MAP || op->result[0].alias; }

bool cr_gnode_is_cheap(const cr_gnode *n)
{
    if (n->kind != CR_GNODE_CALL)
        return n->kind == CR_GNODE_CONSTANT;
    return !cr_gnode_has_effect(n) && (is_view(n->op) || n->op->does == CR_DOES_BODY);
}

static cr_gvalue *output_value(const cutter *c, int k)
{
    const cr_garg *a = &c->joint->body->output[k];

    return a->tag == CR_TENSOR ? a->value : NULL;
}

/* --- sorting values --- */

static void all_forward(void *context, cr_gvalue *v)
{
    void **pair = context;

    if (!((cutter *)pair[0])->forward[v->id])
        *(bool *)pair[1] = false;
}

static bool is_forward(cutter *c, const cr_gnode *n)
{
    bool all = true;
    void *pair[2] = {c, &all};

    for (int i = 0; i < n->arg_count; i++)
        cr_garg_each(&n->arg[i], all_forward, pair);
    return all;
}

static void need(void *context, cr_gvalue *v)
{
    cutter *c = context;

    if (c->forward[v->id])
        c->needed[v->id] = true;
}

static void check_node(cutter *c, const cr_gnode *n)
{
    if (cr_gnode_blocks(n))
        cr_bail(c->s, CR_RUNTIME, "%%%s: a graph with nested blocks cannot be cut", n->result[0]->name);
    for (int k = 0; k < n->arg_count; k++)
        if (n->kind == CR_GNODE_CALL && n->op->param[k].written)
            cr_bail(c->s, CR_RUNTIME, "%%%s: a graph that writes to tensors cannot be cut",
                    n->result_count ? n->result[0]->name : n->op->name);
}

static void find_forward(cutter *c)
{
    const cr_gblock *b = c->joint->body;

    for (int i = 0; i < c->primals; i++)
        c->forward[c->joint->input[i]->id] = true;
    for (size_t i = 0; i < b->len; i++) {
        bool forward = is_forward(c, b->at[i]);
        check_node(c, b->at[i]);
        for (int k = 0; k < b->at[i]->result_count; k++)
            c->forward[b->at[i]->result[k]->id] = forward;
    }
    for (int k = 0; k < c->outputs; k++)
        if (output_value(c, k) && !c->forward[output_value(c, k)->id])
            cr_bail(c->s, CR_VALUE, "output %d depends on a cotangent", k);
}

static void want(void *context, cr_gvalue *v) { ((cutter *)context)->wanted[v->id] = true; }

static bool any_wanted(const cutter *c, const cr_gnode *n)
{
    for (int k = 0; k < n->result_count; k++)
        if (c->wanted[n->result[k]->id])
            return true;
    return false;
}

/* The forward part is what the outputs follow from; the rest waits for the backward part. */
static void keep_what_outputs_need(cutter *c)
{
    const cr_gblock *b = c->joint->body;

    c->wanted = CR_NEW_N(c->s, bool, c->joint->values);
    for (int k = 0; k < c->outputs; k++)
        cr_garg_each(&b->output[k], want, c);
    for (size_t i = b->len; i-- > 0;) {
        const cr_gnode *n = b->at[i];
        bool keep = any_wanted(c, n) || cr_gnode_has_effect(n);
        for (int k = 0; k < n->arg_count && keep; k++)
            cr_garg_each(&n->arg[k], want, c);
        for (int k = 0; k < n->result_count; k++)
            c->forward[n->result[k]->id] = c->forward[n->result[k]->id] && keep;
    }
}

static void find_needed(cutter *c)
{
    const cr_gblock *b = c->joint->body;

    for (size_t i = 0; i < b->len; i++) {
        const cr_gnode *n = b->at[i];
        bool forward = n->result_count && c->forward[n->result[0]->id];
        for (int k = 0; k < n->arg_count && !forward; k++)
            cr_garg_each(&n->arg[k], need, c);
    }
    for (int k = c->outputs; k < b->output_count; k++)
        if (output_value(c, k))
            need(c, output_value(c, k));
}

/* --- the cut --- */

static int in_point(const cr_gvalue *v) { return CR_FLOW_FIRST + 2 * (int)v->id; }
static int out_point(const cr_gvalue *v) { return in_point(v) + 1; }

typedef struct {
    cr_flow *flow;
    const cr_gnode *n;
    cutter *c;
} edge_maker;

static void lead(void *context, cr_gvalue *v)
{
    edge_maker *m = context;

    for (int k = 0; k < m->n->result_count; k++)
        cr_flow_edge(m->flow, out_point(v), in_point(m->n->result[k]), CR_FLOW_MUCH);
}

/* Views cost nothing to save when their base is saved, and hold all of it when it is not: they
 * are better computed again. */
static int64_t price(const cr_gvalue *v)
{
    int64_t bytes = cr_gvalue_bytes(v);

    return v->by && v->by->kind == CR_GNODE_CALL && is_view(v->by->op) ? 2 * bytes + 1 : bytes + 1;
}

static void value_edges(cutter *c, cr_flow *flow, const cr_gvalue *v)
{
    bool again = v->by && cr_gnode_is_cheap(v->by);

    cr_flow_edge(flow, in_point(v), out_point(v), v->by ? price(v) : 1);
    if (!again)
        cr_flow_edge(flow, CR_FLOW_SOURCE, in_point(v), CR_FLOW_MUCH);
    if (c->needed[v->id])
        cr_flow_edge(flow, out_point(v), CR_FLOW_SINK, CR_FLOW_MUCH);
}

static void find_cut(cutter *c)
{
    const cr_gblock *b = c->joint->body;
    int points = CR_FLOW_FIRST + 2 * (int)c->joint->values;
    cr_flow *flow = cr_flow_new(c->s, points);
    bool *side = CR_NEW_N(c->s, bool, points);

    for (int i = 0; i < c->primals; i++)
        value_edges(c, flow, c->joint->input[i]);
    for (size_t i = 0; i < b->len; i++) {
        edge_maker m = {flow, b->at[i], c};
        if (!b->at[i]->result_count || !c->forward[b->at[i]->result[0]->id])
            continue;
        for (int k = 0; k < b->at[i]->result_count; k++)
            value_edges(c, flow, b->at[i]->result[k]);
        for (int k = 0; k < b->at[i]->arg_count; k++)
            cr_garg_each(&b->at[i]->arg[k], lead, &m);
    }
    cr_flow_cut(flow, side);
    for (int i = 0; i < c->primals; i++)
        c->saved[c->joint->input[i]->id] = side[in_point(c->joint->input[i])] && !side[out_point(c->joint->input[i])];
    for (size_t i = 0; i < b->len; i++)
        for (int k = 0; k < b->at[i]->result_count; k++) {
            const cr_gvalue *v = b->at[i]->result[k];
            c->saved[v->id] = c->forward[v->id] && side[in_point(v)] && !side[out_point(v)];
        }
}

/* --- the two graphs --- */

/* Marks what the wanted values follow from, down to those that `given` says are inputs. */
static void want_sources(cutter *c, const bool *given)
{
    const cr_gblock *b = c->joint->body;

    for (size_t i = b->len; i-- > 0;) {
        const cr_gnode *n = b->at[i];
        bool read = false;
        for (int k = 0; k < n->result_count; k++)
            read |= c->wanted[n->result[k]->id] && !given[n->result[k]->id];
        for (int k = 0; k < n->arg_count && read; k++)
            cr_garg_each(&n->arg[k], want, c);
    }
}

typedef struct {
    cutter *c;
    const bool *given;
    int copied_forward;
} copy_context;

/* Random numbers keep their place in the forward graph whether or not they are read. */
static bool skip(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    copy_context *x = w->context;
    bool read = false;

    (void)to;
    for (int k = 0; k < n->result_count; k++)
        read |= x->c->wanted[n->result[k]->id] && !x->given[n->result[k]->id];
    if (read && n->kind == CR_GNODE_CALL && x->c->forward[n->result[0]->id])
        x->copied_forward++;
    return !read;
}

/* Copies the nodes that are wanted; `input` are the new graph's inputs in order. */
static cr_graph *copy_part(cutter *c, cr_gvalue *const *input, int inputs, const cr_garg *output, int outputs,
                           const bool *given, int *forward_nodes)
{
    copy_context x = {c, given, 0};
    cr_graph *g = cr_graph_new(c->s);
    cr_rewrite w = {.from = c->joint, .to = g, .node = skip, .context = &x};
    cr_garg *out = CR_NEW_N(c->s, cr_garg, outputs);

    w.now = CR_NEW_N(c->s, cr_gvalue *, c->joint->values);
    for (int i = 0; i < inputs; i++)
        w.now[input[i]->id] = cr_graph_input(g, input[i]->name, &input[i]->type);
    for (size_t i = 0; i < c->joint->body->len; i++)
        if (!skip(&w, g->body, c->joint->body->at[i]))
            cr_rewrite_copy(&w, g->body, c->joint->body->at[i]);
    for (int i = 0; i < outputs; i++)
        out[i] = cr_garg_copy(g, &output[i], cr_rewrite_value, &w);
    cr_gblock_return(g, g->body, out, outputs);
    *forward_nodes = x.copied_forward;
    return g;
}

typedef struct {
    size_t len, cap;
    cr_gvalue **at;
} value_list;

static void add_if_saved(cutter *c, value_list *list, cr_gvalue *v)
{
    if (c->saved[v->id])
        CR_PUSH(c->s, list, v);
}

/* Primals first, then in the order of the nodes. */
static value_list saved_values(cutter *c)
{
    value_list list = {0};

    for (int i = 0; i < c->primals; i++)
        add_if_saved(c, &list, c->joint->input[i]);
    for (size_t i = 0; i < c->joint->body->len; i++)
        for (int k = 0; k < c->joint->body->at[i]->result_count; k++)
            add_if_saved(c, &list, c->joint->body->at[i]->result[k]);
    return list;
}

static cr_graph *forward_graph(cutter *c, const value_list *saved)
{
    int n = c->outputs + (int)saved->len, nodes;
    cr_garg *out = CR_NEW_N(c->s, cr_garg, n);
    bool *given = CR_NEW_N(c->s, bool, c->joint->values);

    c->wanted = CR_NEW_N(c->s, bool, c->joint->values);
    if (c->outputs)
        memcpy(out, c->joint->body->output, (size_t)c->outputs * sizeof *out);
    for (size_t i = 0; i < saved->len; i++)
        out[c->outputs + (int)i] = cr_garg_value(saved->at[i]);
    for (int i = 0; i < n; i++)
        cr_garg_each(&out[i], want, c);
    want_sources(c, given);
    return copy_part(c, c->joint->input, c->primals, out, n, given, &nodes);
}

static cr_graph *backward_graph(cutter *c, const value_list *saved, int *recomputed)
{
    const cr_graph *joint = c->joint;
    int cotangents = joint->input_count - c->primals, n = (int)saved->len + cotangents;
    int gradients = joint->body->output_count - c->outputs;
    const cr_garg *out = joint->body->output + c->outputs;
    cr_gvalue **input = CR_NEW_N(c->s, cr_gvalue *, n);
    bool *given = CR_NEW_N(c->s, bool, joint->values);

    if (saved->len)
        memcpy(input, saved->at, saved->len * sizeof *input);
    if (cotangents)
        memcpy(input + saved->len, joint->input + c->primals, (size_t)cotangents * sizeof *input);
    for (int i = 0; i < n; i++)
        given[input[i]->id] = true;
    c->wanted = CR_NEW_N(c->s, bool, joint->values);
    for (int i = 0; i < gradients; i++)
        cr_garg_each(&out[i], want, c);
    want_sources(c, given);
    return copy_part(c, input, n, out, gradients, given, recomputed);
}

static void save_needed(cutter *c)
{
    const cr_gblock *b = c->joint->body;

    memcpy(c->saved, c->needed, c->joint->values * sizeof *c->saved);
    for (size_t i = 0; i < b->len; i++)
        if (b->at[i]->kind == CR_GNODE_CONSTANT)
            c->saved[b->at[i]->result[0]->id] = false;
}

cr_aot_parts cr_aot_partition(const cr_graph *joint, int primals, int outputs, cr_aot_policy policy)
{
    cr_session *s = joint->session;
    cutter c = {.joint = joint, .s = s, .primals = primals, .outputs = outputs,
                .forward = CR_NEW_N(s, bool, joint->values), .needed = CR_NEW_N(s, bool, joint->values),
                .saved = CR_NEW_N(s, bool, joint->values)};
    cr_aot_parts parts = {0};

    if (primals < 0 || primals > joint->input_count || outputs < 0 || outputs > joint->body->output_count)
        cr_bail(s, CR_VALUE, "the graph has %d inputs and %d outputs, not %d primals and %d outputs",
                joint->input_count, joint->body->output_count, primals, outputs);
    find_forward(&c);
    if (policy == CR_AOT_SAVE)
        keep_what_outputs_need(&c);
    find_needed(&c);
    if (policy == CR_AOT_MIN_CUT)
        find_cut(&c);
    else
        save_needed(&c);
    value_list saved = saved_values(&c);
    parts.forward = forward_graph(&c, &saved);
    parts.backward = backward_graph(&c, &saved, &parts.recomputed);
    parts.saved = (int)saved.len;
    for (size_t i = 0; i < saved.len; i++)
        parts.saved_bytes += saved.at[i]->by ? cr_gvalue_bytes(saved.at[i]) : 0;
    return parts;
}
