/* Partition of a joint graph.
 *
 * A value is a forward value when it depends on primals alone.  With CR_AOT_SAVE it must also
 * be needed by an output.  All other values are backward values.  A backward node may read
 * forward values, which are either saved or recomputed from saved values.
 *
 * CR_AOT_MIN_CUT finds the saved values by a minimum cut (Chen et al. 2016 recompute by
 * segments; functorch uses the cut).  A forward value is two vertices of a flow network, joined
 * by an edge whose capacity is the value's bytes.  Edges lead from the second vertex of a
 * node's arguments to the first vertex of its results.  The source leads to primals and to
 * results of nodes that must not be recomputed.  Values that the backward graph reads lead to
 * the sink.  The cut edges are the saved values.
 *
 * Effects.  A random draw that depends on primals alone is in the forward graph and is never
 * recomputed.  The joint graph is functional (graph/functional.c): it writes inputs and
 * constants by copies at its end.  A copy whose source depends on primals alone is at the end
 * of the forward graph.  The backward graph needs the input's earlier contents, so a clone made
 * before the copies is saved, and views of the input are recomputed from the clone. */
#include "aot/aot.h"
#include "aot/flow.h"
#include "aot/match.h"
#include "entry.h"
#include "graph/rewrite.h"
#include <string.h>

typedef struct {
    const cr_graph *joint;
    cr_session *s;
    int primals, outputs;
    bool *overwritten; /* by value id: an input or constant that the forward graph copies to */
    bool *stale;   /* by value id: overwritten, or possibly a view of an overwritten value */
    bool *forward; /* by value id: depends on primals alone */
    bool *needed;  /* by value id: read by the backward graph, or returned as a gradient */
    bool *saved;
    bool *wanted; /* by value id: needed in the graph that is being built */
    bool *unread; /* by value id: of a forward call that may raise; no output depends on it */
    bool *live;   /* by value id: a result of the joint graph or an effect depends on it */
    bool *kept;   /* by value id: the forward graph computes it in any case */
    bool *late;   /* by value id: not recomputed, because it extends a chain (find_late) */
    bool ends;    /* a copy to an input was seen, so the rest is copies and views */
} cutter;

/* --- facts --- */

/* The bytes of a value by its type; 8 when the type is unknown. */
static int64_t value_bytes(const cr_gvalue *v)
{
    if (!v->type.known)
        return 8;
    return cr_numel(v->type.ndim, v->type.size) *
           (int64_t)cr_dtype_size((cr_dtype)v->type.dtype);
}

/* A reduction of at most so many bytes is recomputed: its cost is mostly the overhead of a
 * call. */
enum { SMALL_FOLD = 4096 };

static bool is_small_fold(const cr_gnode *n)
{
    return n->op->does == CR_DOES_FOLD && n->arg[0].tag == CR_TENSOR &&
           n->arg[0].value->type.known && value_bytes(n->arg[0].value) <= SMALL_FOLD;
}

/* True when recomputing the node costs little more than reading its result: pointwise work,
 * views and fills, but no products, large reductions, sorts or random draws. */
static bool node_is_cheap(const cr_gnode *n)
{
    if (n->kind != CR_GNODE_CALL)
        return n->kind == CR_GNODE_CONSTANT;
    return !cr_gnode_has_effect(n) && (cr_op_is_cheap(n->op) || is_small_fold(n));
}

static cr_gvalue *joint_output(const cutter *c, int k)
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

    cr_gnode_each_read(n, all_forward, pair);
    return all;
}

static bool is_forward_node(const cutter *c, const cr_gnode *n)
{
    return n->result_count && c->forward[n->result[0]->id];
}

static void need_forward(void *context, cr_gvalue *v)
{
    cutter *c = context;

    if (c->forward[v->id])
        c->needed[v->id] = true;
}

/* True for a random draw that fills a new tensor. */
static bool fills_new(const cr_gnode *n)
{
    const cr_gvalue *to = n->arg_count && n->arg[0].tag == CR_TENSOR ? n->arg[0].value : NULL;

    return to && to->by && (n->op->words & CR_WORD_RANDOM) && to->by->kind == CR_GNODE_CALL &&
           (to->by->op->words & CR_WORD_UNDEFINED);
}

/* After the first copy to an input a functional graph has only copies and views. */
static void check_can_cut(cutter *c, const cr_gnode *n)
{
    bool back = cr_gnode_copies_back(n);

    c->ends = c->ends || back;
    if (cr_gnode_blocks(n))
        cr_bail(c->s, CR_RUNTIME, "%%%s: a graph with nested blocks cannot be cut",
                n->result[0]->name);
    if (!back && ((cr_gnode_writes(n) && !fills_new(n)) ||
                  (c->ends && !(n->kind == CR_GNODE_CALL && cr_op_may_view(n->op)))))
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
        check_can_cut(c, b->at[i]);
        for (int k = 0; k < b->at[i]->result_count; k++)
            c->forward[b->at[i]->result[k]->id] = forward;
    }
    for (int k = 0; k < c->outputs; k++)
        if (joint_output(c, k) && !c->forward[joint_output(c, k)->id])
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

/* Marks the values that results and effects depend on.  Forward calls on which none depends
 * stay if they may raise: `unread`. */
static void find_unread(cutter *c)
{
    const cr_gblock *b = c->joint->body;

    c->wanted = CR_NEW_N(c->s, bool, c->joint->values);
    c->unread = CR_NEW_N(c->s, bool, c->joint->values);
    cr_gblock_each_output(b, want, c);
    for (size_t i = b->len; i-- > 0;) {
        const cr_gnode *n = b->at[i];
        bool read = any_wanted(c, n) || cr_gnode_has_effect(n);
        if (!read && is_forward_node(c, n) && cr_gnode_may_raise(n))
            read = c->unread[n->result[0]->id] = true;
        if (read)
            cr_gnode_each_read(n, want, c);
    }
    c->live = c->wanted;
}

/* Marks the values on which outputs and effects of the forward graph depend. */
static void find_kept(cutter *c)
{
    const cr_gblock *b = c->joint->body;

    c->kept = CR_NEW_N(c->s, bool, c->joint->values);

    c->wanted = CR_NEW_N(c->s, bool, c->joint->values);
    for (int k = 0; k < c->outputs; k++)
        cr_garg_each(&b->output[k], want, c);
    for (size_t i = b->len; i-- > 0;) {
        const cr_gnode *n = b->at[i];
        bool keep = any_wanted(c, n) || (is_forward_node(c, n) && cr_gnode_has_effect(n)) ||
                    (is_forward_node(c, n) && c->unread[n->result[0]->id]);
        for (int k = 0; k < n->arg_count && keep; k++)
            cr_garg_each(&n->arg[k], want, c);
        for (int k = 0; k < n->result_count; k++)
            c->kept[n->result[k]->id] = keep;
    }
}

/* With CR_AOT_SAVE all other nodes move to the backward graph. */
static void move_the_rest(cutter *c)
{
    const cr_gblock *b = c->joint->body;

    for (size_t i = 0; i < b->len; i++)
        for (int k = 0; k < b->at[i]->result_count; k++) {
            unsigned id = b->at[i]->result[k]->id;
            c->forward[id] = c->forward[id] && c->kept[id];
        }
}

/* --- values that the forward graph overwrites --- */

static void any_stale(void *context, cr_gvalue *v)
{
    void **pair = context;

    if (((cutter *)pair[0])->stale[v->id])
        *(bool *)pair[1] = true;
}

static void spread_stale(cutter *c, const cr_gnode *n)
{
    bool stale = false;
    void *pair[2] = {c, &stale};

    if (!cr_gnode_may_view(n) || n->kind != CR_GNODE_CALL || (n->op->words & CR_WORD_CHEAP))
        return;
    cr_gnode_each_read(n, any_stale, pair);
    for (int k = 0; k < n->result_count; k++)
        c->stale[n->result[k]->id] = stale;
}

/* Marks the values that the forward graph's copies overwrite, and their views. */
static void find_overwritten(cutter *c)
{
    const cr_gblock *b = c->joint->body;
    bool any = false;

    for (size_t i = 0; i < b->len; i++) {
        const cr_gnode *n = b->at[i];
        if (!cr_gnode_copies_back(n))
            continue;
        const cr_gvalue *to = n->arg[0].value;
        if (!is_forward_node(c, n) && c->overwritten[to->id])
            cr_bail(c->s, CR_RUNTIME, "%%%s: both parts of a graph write to %%%s",
                    n->result[0]->name, to->name);
        any |= c->overwritten[to->id] = c->stale[to->id] = is_forward_node(c, n);
    }
    for (size_t i = 0; i < b->len && any; i++)
        if (!cr_gnode_writes(b->at[i]))
            spread_stale(c, b->at[i]);
}

static bool is_dead(const cutter *c, const cr_gnode *n)
{
    for (int k = 0; k < n->result_count; k++)
        if (c->live[n->result[k]->id])
            return false;
    return n->result_count && !cr_gnode_has_effect(n);
}

/* A derivative may be recorded with calls whose results no gradient depends on. */
static void find_needed(cutter *c)
{
    const cr_gblock *b = c->joint->body;

    for (size_t i = 0; i < b->len; i++) {
        const cr_gnode *n = b->at[i];
        bool reads = !is_forward_node(c, n) && !is_dead(c, n);
        for (int k = 0; k < n->arg_count && reads; k++)
            cr_garg_each(&n->arg[k], need_forward, c);
    }
    for (int k = c->outputs; k < b->output_count; k++)
        if (joint_output(c, k))
            need_forward(c, joint_output(c, k));
}

/* --- chains --- */

typedef struct {
    cutter *c;
    const size_t *dear; /* by value id */
    size_t at;
    const cr_gnode *n;
    const cr_gvalue *whole; /* a value of about the result's size that the node reads */
    bool extends, adds;     /* it reads one that was read before; another one */
} chain;

static void lower_dear(void *context, cr_gvalue *v)
{
    chain *x = context;
    size_t *dear = (size_t *)(uintptr_t)x->dear;

    dear[v->id] = dear[v->id] < x->at ? dear[v->id] : x->at;
}

static void note_late(void *context, cr_gvalue *v)
{
    chain *x = context;

    if (2 * value_bytes(v) < value_bytes(x->n->result[0]))
        return;
    x->extends |= v->by && x->c->forward[v->id] && x->dear[v->id] < x->at;
    x->adds |= x->whole && v != x->whole;
    x->whole = v;
}

/* A residual stream is a chain of sums of which each is also read by a layer.  To recompute the
 * last one the backward graph would make all of them first and keep them, which saves no memory
 * although the layers' results may have fewer bytes.  So an elementwise result of two values of
 * its size is late if one of them was read before, through cheap nodes or none, by a node that
 * is not cheap.  `h * rsqrt(mean(h * h))` reads one value of its size, so it is not late. */
static void find_late(cutter *c)
{
    const cr_gblock *b = c->joint->body;
    size_t *dear = CR_NEW_N(c->s, size_t, c->joint->values);

    c->late = CR_NEW_N(c->s, bool, c->joint->values);
    for (size_t i = 0; i < c->joint->values; i++)
        dear[i] = b->len;
    for (size_t i = b->len; i-- > 0;) {
        const cr_gnode *n = b->at[i];
        chain x = {.c = c, .dear = dear, .at = i, .n = n};
        if (!is_forward_node(c, n) || !c->kept[n->result[0]->id])
            continue;
        if (node_is_cheap(n)) {
            x.at = b->len;
            for (int k = 0; k < n->result_count; k++)
                x.at = dear[n->result[k]->id] < x.at ? dear[n->result[k]->id] : x.at;
        }
        cr_gnode_each_read(n, lower_dear, &x);
    }
    for (size_t i = 0; i < b->len; i++) {
        chain x = {.c = c, .dear = dear, .at = i, .n = b->at[i]};
        if (is_forward_node(c, x.n) && c->kept[x.n->result[0]->id] &&
            x.n->kind == CR_GNODE_CALL && x.n->op->does == CR_DOES_BODY) {
            cr_gnode_each_read(x.n, note_late, &x);
            c->late[x.n->result[0]->id] = x.extends && x.adds;
        }
    }
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

/* The cost of saving a value.  A saved view keeps its whole base alive, so a view costs twice
 * its bytes, and recomputing it is preferred.  A view of an overwritten value is always
 * recomputed from the saved clone, because the clone has the base's strides. */
static int64_t price(const cutter *c, const cr_gvalue *v)
{
    int64_t bytes = value_bytes(v);

    if (!v->by)
        return c->overwritten[v->id] ? bytes + 1 : 1;
    if (c->stale[v->id] && v->by->kind == CR_GNODE_CALL && cr_op_may_view(v->by->op))
        return CR_FLOW_MUCH;
    return v->by && v->by->kind == CR_GNODE_CALL && cr_op_may_view(v->by->op) ? 2 * bytes + 1
                                                                              : bytes + 1;
}

/* Whether the backward graph may compute the value.  What only gradients depend on is computed
 * once in either graph. */
static bool may_move(const cutter *c, const cr_gvalue *v)
{
    if (!v->by || c->overwritten[v->id] || c->late[v->id])
        return false;
    return node_is_cheap(v->by) || (!c->kept[v->id] && !cr_gnode_has_effect(v->by));
}

static void value_edges(cutter *c, cr_flow *flow, const cr_gvalue *v)
{
    bool again = may_move(c, v);

    cr_flow_edge(flow, in_point(v), out_point(v), price(c, v));
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
        cr_gnode_each_read(b->at[i], lead, &m);
    }
    cr_flow_cut(flow, side);
    for (int i = 0; i < c->primals; i++)
        c->saved[c->joint->input[i]->id] =
            side[in_point(c->joint->input[i])] && !side[out_point(c->joint->input[i])];
    for (size_t i = 0; i < b->len; i++)
        for (int k = 0; k < b->at[i]->result_count; k++) {
            const cr_gvalue *v = b->at[i]->result[k];
            c->saved[v->id] = c->forward[v->id] && side[in_point(v)] && !side[out_point(v)];
        }
}

/* --- the two graphs --- */

/* One graph while it is built. */
typedef struct {
    cutter *c;
    bool forward;
    const int *given;   /* by value id: the input of the graph that it is, or -1 */
    cr_gvalue **saved;  /* by value id: the clone that is saved in the value's place */
    int copied_forward; /* forward nodes copied so far */
} part;

/* True when the graph needs node `n`.  Nodes with effects, and in the forward graph those that
 * may raise, are needed even if their results are not read. */
static bool part_makes(const part *p, const cr_gnode *n)
{
    bool read = is_forward_node(p->c, n) == p->forward && cr_gnode_has_effect(n);

    if (p->forward && n->result_count)
        read |= p->c->unread[n->result[0]->id];
    for (int k = 0; k < n->result_count; k++)
        read |= p->c->wanted[n->result[k]->id] && p->given[n->result[k]->id] < 0;
    return read;
}

/* Marks the values that wanted values depend on, down to the graph's inputs. */
static void want_sources(const part *p)
{
    const cr_gblock *b = p->c->joint->body;

    for (size_t i = b->len; i-- > 0;)
        for (int k = 0; k < b->at[i]->arg_count && part_makes(p, b->at[i]); k++)
            cr_garg_each(&b->at[i]->arg[k], want, p->c);
}

/* The operator that clones `v`: the clone is dense, and row-major when `v` is. */
static const cr_op *copier_of(const cr_gvalue *v)
{
    bool plain = v->type.known && !v->type.stride;

    for (int d = 0; plain && d < v->type.ndim; d++)
        /* the type does not state the stride of a dim of size 1 */
        plain = v->type.size[d] != 1;
    return plain ? cr_entry.clone : cr_entry._clone_strided;
}

static void clone_saved(part *p, cr_rewrite *w, const cr_gvalue *v)
{
    const cr_op *op = copier_of(v);
    cr_garg arg[CR_MAX_ARGS] = {cr_garg_value(w->now[v->id])};

    if (!p->c->saved[v->id] || !p->c->stale[v->id] || !w->now[v->id])
        return;
    p->saved[v->id] = cr_graph_call(w->to, w->to->body, op, arg, 1, NULL)->result[0];
    p->saved[v->id]->type = v->type;
}

/* Clones saved values whose memory the following copies overwrite. */
static void clone_stale(part *p, cr_rewrite *w)
{
    const cr_graph *g = p->c->joint;

    for (int i = 0; i < g->input_count; i++)
        clone_saved(p, w, g->input[i]);
    for (size_t i = 0; i < g->body->len; i++)
        for (int k = 0; k < g->body->at[i]->result_count; k++)
            clone_saved(p, w, g->body->at[i]->result[k]);
}

/* --- recomputed nodes are placed just before their first reader --- */

typedef struct {
    cr_rewrite *w;
    const cr_gnode *missing; /* computes a value that is read and not yet in the new graph */
} sources;

static void find_missing(void *context, cr_gvalue *v)
{
    sources *x = context;

    if (!x->missing && !x->w->now[v->id])
        x->missing = v->by;
}

static void part_copy(part *p, cr_rewrite *w, const cr_gnode *n)
{
    p->copied_forward += n->kind == CR_GNODE_CALL && is_forward_node(p->c, n);
    cr_rewrite_copy(w, w->to->body, n);
}

/* True when a result is not in the new graph: some results of a node may be saved values. */
static bool is_missing(const cr_rewrite *w, const cr_gnode *n)
{
    bool missing = !n->result_count;

    for (int k = 0; k < n->result_count; k++)
        missing |= !w->now[n->result[k]->id];
    return missing;
}

/* Copies `n` after the nodes it depends on.  The chain may be long, hence the explicit
 * stack. */
static void copy_late(part *p, cr_rewrite *w, const cr_gnode *n)
{
    struct {
        size_t len, cap;
        const cr_gnode **at;
    } open = {0};

    CR_PUSH(p->c->s, &open, n);
    while (open.len) {
        sources x = {w, NULL};
        n = open.at[open.len - 1];
        cr_gnode_each_read(n, find_missing, &x);
        if (x.missing) {
            CR_PUSH(p->c->s, &open, x.missing);
            continue;
        }
        open.len--;
        if (is_missing(w, n))
            part_copy(p, w, n);
    }
}

static void copy_outputs_late(part *p, cr_rewrite *w, const cr_garg *output, int outputs)
{
    for (int i = 0; i < outputs; i++) {
        sources x = {w, NULL};
        cr_garg_each(&output[i], find_missing, &x);
        if (x.missing)
            copy_late(p, w, x.missing);
    }
}

/* The inputs of a graph: values that give their names and types, and by id of a value of the
 * joint graph the input that it is, or -1. */
typedef struct {
    cr_gvalue *const *like;
    int count;
    const int *of;
} part_inputs;

static void copy_inputs(cr_rewrite *w, const part_inputs *input)
{
    cr_gvalue **made = CR_NEW_N(w->to->session, cr_gvalue *, input->count);

    for (int i = 0; i < input->count; i++)
        made[i] = cr_graph_input(w->to, input->like[i]->name, &input->like[i]->type);
    for (size_t id = 0; id < w->from->values; id++)
        if (input->of[id] >= 0)
            w->now[id] = made[input->of[id]];
}

/* Copies the wanted nodes to a new graph.  `output` are its `results` results and after them
 * its saved values. */
static cr_graph *copy_part(part *p, const part_inputs *input, const cr_garg *output,
                           int outputs, int results)
{
    const cr_graph *joint = p->c->joint;
    cr_graph *g = cr_graph_new(p->c->s);
    cr_rewrite w = {
        .from = joint, .to = g, .now = CR_NEW_N(p->c->s, cr_gvalue *, joint->values)};
    cr_garg *out = CR_NEW_N(p->c->s, cr_garg, outputs);
    bool cloned = false;

    p->saved = CR_NEW_N(p->c->s, cr_gvalue *, joint->values);
    copy_inputs(&w, input);
    for (size_t i = 0; i < joint->body->len; i++) {
        const cr_gnode *n = joint->body->at[i];
        if (!part_makes(p, n))
            continue;
        if (!cloned && p->forward && cr_gnode_copies_back(n)) {
            clone_stale(p, &w);
            cloned = true;
        }
        if (p->forward)
            part_copy(p, &w, n);
        else if (!is_forward_node(p->c, n))
            copy_late(p, &w, n);
    }
    copy_outputs_late(p, &w, output, outputs);
    for (int i = 0; i < outputs; i++) {
        cr_gvalue *clone =
            i >= results && output[i].tag == CR_TENSOR ? p->saved[output[i].value->id] : NULL;
        out[i] =
            clone ? cr_garg_value(clone) : cr_garg_copy(g, &output[i], cr_rewrite_value, &w);
    }
    cr_gblock_return(g, g->body, out, outputs);
    return g;
}

typedef CR_VEC(cr_gvalue *) value_list;

static void add_if_saved(cutter *c, value_list *list, cr_gvalue *v)
{
    if (c->saved[v->id])
        CR_PUSH(c->s, list, v);
}

/* The saved values: primals first, then in the order of the nodes. */
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

/* By id of a value of the joint graph: its index in the list, or -1. */
static int *places(const cutter *c, cr_gvalue *const *value, int count)
{
    int *at = CR_NEW_N(c->s, int, c->joint->values);

    for (size_t id = 0; id < c->joint->values; id++)
        at[id] = -1;
    for (int i = 0; i < count; i++)
        at[value[i]->id] = i;
    return at;
}

static cr_graph *forward_graph(cutter *c, const value_list *saved)
{
    int n = c->outputs + (int)saved->len;
    cr_garg *out = CR_NEW_N(c->s, cr_garg, n);
    part p = {.c = c, .forward = true, .given = places(c, NULL, 0)};
    part_inputs input = {c->joint->input, c->primals, places(c, c->joint->input, c->primals)};

    c->wanted = CR_NEW_N(c->s, bool, c->joint->values);
    if (c->outputs)
        memcpy(out, c->joint->body->output, (size_t)c->outputs * sizeof *out);
    for (size_t i = 0; i < saved->len; i++)
        out[c->outputs + (int)i] = cr_garg_value(saved->at[i]);
    for (int i = 0; i < n; i++)
        cr_garg_each(&out[i], want, c);
    want_sources(&p);
    return copy_part(&p, &input, out, n, c->outputs);
}

/* Bails when a wanted primal or draw is not an input of the graph. */
static void check_given(const part *p)
{
    const cr_gblock *b = p->c->joint->body;

    for (int i = 0; i < p->c->primals; i++) {
        const cr_gvalue *v = p->c->joint->input[i];
        if (p->c->wanted[v->id] && p->given[v->id] < 0)
            cr_bail(p->c->s, CR_RUNTIME, "the backward pass reads %%%s, which was not saved",
                    v->name);
    }
    for (size_t i = 0; i < b->len; i++)
        if (is_forward_node(p->c, b->at[i]) && cr_gnode_draws(b->at[i]) &&
            part_makes(p, b->at[i]))
            cr_bail(p->c->s, CR_RUNTIME, "the backward pass reads %%%s, which was not saved",
                    b->at[i]->result[0]->name);
}

/* The saved values and then the cotangents. */
static cr_gvalue **backward_inputs(const cutter *c, const value_list *saved)
{
    int cotangents = c->joint->input_count - c->primals;
    cr_gvalue **input = CR_NEW_N(c->s, cr_gvalue *, (int)saved->len + cotangents);

    if (saved->len)
        memcpy(input, saved->at, saved->len * sizeof *input);
    if (cotangents)
        memcpy(input + saved->len, c->joint->input + c->primals,
               (size_t)cotangents * sizeof *input);
    return input;
}

/* `saved` gives the names and types of the saved values; `place` is by id of a value of the
 * joint graph the saved value that it is, or -1. */
static cr_graph *cut_backward(cutter *c, const value_list *saved, int *place, int *recomputed)
{
    const cr_graph *joint = c->joint;
    int cotangents = joint->input_count - c->primals, n = (int)saved->len + cotangents;
    int gradients = joint->body->output_count - c->outputs;
    const cr_garg *out = joint->body->output + c->outputs;
    part_inputs input = {backward_inputs(c, saved), n, place};
    part p = {.c = c, .given = place};

    for (int i = 0; i < cotangents; i++)
        place[joint->input[c->primals + i]->id] = (int)saved->len + i;
    c->wanted = CR_NEW_N(c->s, bool, joint->values);
    for (int i = 0; i < gradients; i++)
        cr_garg_each(&out[i], want, c);
    want_sources(&p);
    check_given(&p);
    cr_graph *g = copy_part(&p, &input, out, gradients, gradients);
    *recomputed = p.copied_forward;
    return g;
}

static void save(void *context, cr_gvalue *v) { ((cutter *)context)->saved[v->id] = true; }

/* Saves all needed values.  Constants are in both graphs, and views of overwritten values are
 * recomputed from clones, so neither are saved. */
static void save_needed(cutter *c)
{
    const cr_gblock *b = c->joint->body;

    memcpy(c->saved, c->needed, c->joint->values * sizeof *c->saved);
    for (size_t i = b->len; i-- > 0;) {
        const cr_gnode *n = b->at[i];
        bool again = n->kind == CR_GNODE_CALL && n->result_count && cr_op_may_view(n->op),
             read = false;
        if (n->kind == CR_GNODE_CONSTANT && !c->overwritten[n->result[0]->id])
            c->saved[n->result[0]->id] = false;
        for (int k = 0; k < n->result_count && again; k++) {
            cr_gvalue *v = n->result[k];
            read |= c->saved[v->id] && c->stale[v->id];
            c->saved[v->id] = c->saved[v->id] && !c->stale[v->id];
        }
        for (int k = 0; k < n->arg_count && read; k++)
            cr_garg_each(&n->arg[k], save, c);
    }
}

static cutter cutter_in(cr_session *s, const cr_graph *joint, int primals, int outputs)
{
    return (cutter){.joint = joint,
                    .s = s,
                    .primals = primals,
                    .outputs = outputs,
                    .forward = CR_NEW_N(s, bool, joint->values),
                    .needed = CR_NEW_N(s, bool, joint->values),
                    .saved = CR_NEW_N(s, bool, joint->values),
                    .overwritten = CR_NEW_N(s, bool, joint->values),
                    .stale = CR_NEW_N(s, bool, joint->values)};
}

static cutter cutter_of(const cr_graph *joint, int primals, int outputs)
{
    return cutter_in(joint->session, joint, primals, outputs);
}

static cr_aot_parts make_parts(cutter *c, const value_list *saved)
{
    cr_aot_parts parts = {.saved = (int)saved->len};

    parts.forward = forward_graph(c, saved);
    parts.backward =
        cut_backward(c, saved, places(c, saved->at, (int)saved->len), &parts.recomputed);
    for (size_t i = 0; i < saved->len; i++)
        parts.saved_bytes +=
            saved->at[i]->by || c->stale[saved->at[i]->id] ? value_bytes(saved->at[i]) : 0;
    return parts;
}

cr_aot_parts cr_aot_partition(const cr_graph *joint, int primals, int outputs,
                              cr_aot_policy policy)
{
    cr_session *s = joint->session;
    cutter c = cutter_of(joint, primals, outputs);

    if (primals < 0 || primals > joint->input_count || outputs < 0 ||
        outputs > joint->body->output_count)
        cr_bail(s, CR_VALUE,
                "the graph has %d inputs and %d outputs, not %d primals and %d outputs",
                joint->input_count, joint->body->output_count, primals, outputs);
    find_forward(&c);
    find_unread(&c);
    find_kept(&c);
    if (policy == CR_AOT_SAVE)
        move_the_rest(&c);
    find_overwritten(&c);
    find_needed(&c);
    if (policy == CR_AOT_MIN_CUT) {
        find_late(&c);
        find_cut(&c);
    } else
        save_needed(&c);
    value_list saved = saved_values(&c);
    return make_parts(&c, &saved);
}

/* --- saving what another partition saves --- */

static cr_gvalue *find_value(const cr_graph *g, const char *name)
{
    for (int i = 0; i < g->input_count; i++)
        if (!strcmp(g->input[i]->name, name))
            return g->input[i];
    for (size_t i = 0; i < g->body->len; i++)
        for (int k = 0; k < g->body->at[i]->result_count; k++)
            if (!strcmp(g->body->at[i]->result[k]->name, name))
                return g->body->at[i]->result[k];
    return NULL;
}

/* The first inputs of another backward graph, in `joint`.  Names are counted, so in a graph
 * that was differentiated by another formula the same name may be that of another value, which
 * only the backward pass computes. */
static value_list values_like(const cutter *c, const cr_graph *like, int saved)
{
    value_list list = {0};

    for (int i = 0; i < saved; i++) {
        cr_gvalue *v = find_value(c->joint, like->input[i]->name);
        if (!v)
            cr_bail(c->s, CR_RUNTIME, "%%%s is saved and not in the graph",
                    like->input[i]->name);
        if (!c->forward[v->id])
            cr_bail(c->s, CR_RUNTIME, "%%%s is saved and depends on a cotangent",
                    like->input[i]->name);
        CR_PUSH(c->s, &list, v);
    }
    return list;
}

cr_aot_parts cr_aot_partition_like(const cr_graph *joint, int primals, int outputs,
                                   const cr_aot_parts *like)
{
    cutter c = cutter_of(joint, primals, outputs);

    find_forward(&c);
    find_unread(&c);
    find_overwritten(&c);
    find_needed(&c);
    value_list saved = values_like(&c, like->backward, like->saved);
    return make_parts(&c, &saved);
}

cr_graph *cr_aot_backward_like(const cr_graph *joint, const cr_graph *whole, int primals,
                               int outputs, const cr_graph *like, int saved)
{
    cutter c = cutter_of(joint, primals, outputs);
    cutter other = cutter_in(joint->session, whole, primals, outputs);
    int recomputed, *place = places(&c, NULL, 0);

    find_forward(&c);
    find_forward(&other);
    value_list list = values_like(&other, like, saved);
    cr_aot_match(place, joint, whole, primals, list.at, saved);
    return cut_backward(&c, &list, place, &recomputed);
}
