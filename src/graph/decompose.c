/* Decomposition: replaces composite nodes by the calls that they make.
 *
 * A node is called on fake tensors while a recorder records.  The recorded calls replace the
 * node.  The entry is therefore stated only once, and the bits are the same.  Two kinds of
 * nodes are kept: entries whose parts a kernel computes as one (pointwise compositions, fused
 * rows), and entries that make a result without a call.  Decompose after differentiation,
 * because gradients belong to entries. */
#include "graph/rewrite.h"
#include <string.h>

typedef struct {
    cr_node_test splits;
    bool any; /* a node was split in this walk */
} splitter;

/* --- the parts of a node --- */

typedef struct {
    const cr_gnode *n;
    cr_recorder *r;
    cr_graph *parts;                        /* owned by the recorder */
    cr_tensor *fake[CR_GRAPH_PART_INPUTS];  /* owned; each is an input of the parts */
    cr_gvalue *value[CR_GRAPH_PART_INPUTS]; /* values of the node's graph */
    int inputs;
    cr_arena room;
} parting;

static cr_status tensor_arg(cr_value *out, parting *p, cr_gvalue *v)
{
    int k = 0;

    while (k < p->inputs && p->value[k] != v)
        k++;
    if (k == p->inputs) {
        if (!v->type.known || k == CR_GRAPH_PART_INPUTS)
            return cr_fail(CR_VALUE, "%%%s has no type", v->name);
        CR_TRY(cr_gtype_fake(&p->fake[k], &v->type));
        p->value[p->inputs++] = v;
        CR_TRY(cr_recorder_input(p->r, p->fake[k], v->name));
    }
    *out = cr_of_tensor(p->fake[k]);
    return CR_OK;
}

static cr_status parting_arg(cr_value *out, parting *p, const cr_garg *a)
{
    cr_value *list;

    *out = (cr_value){.tag = a->tag, .len = a->len};
    if (a->tag == CR_TENSOR)
        return tensor_arg(out, p, a->value);
    if (a->tag != CR_TENSORS && a->tag != CR_NUMBERS) {
        memcpy(&out->number, &a->number, sizeof a->number); /* the largest member */
        return CR_OK;
    }
    list = cr_arena_get(&p->room, a->len * sizeof *list + 1);
    CR_NEED(list);
    for (uint32_t i = 0; i < a->len; i++)
        CR_TRY(parting_arg(&list[i], p, &a->list[i]));
    out->list = list;
    return CR_OK;
}

/* Ends the recording with the node's results. */
static cr_status parting_finish(parting *p, cr_value *result)
{
    cr_tensor *out[CR_GRAPH_PART_INPUTS];
    const cr_value *list = result;
    int n = p->n->op->result_count;

    if (n == 1 && result[0].tag == CR_TENSORS) {
        list = result[0].list;
        n = (int)result[0].len;
    }
    if (n != p->n->result_count || n > CR_GRAPH_PART_INPUTS)
        return cr_fail(CR_VALUE, "%s gives %d results", p->n->op->name, n);
    for (int k = 0; k < n; k++)
        out[k] = list[k].tag == CR_TENSOR ? list[k].t : NULL;
    return cr_recorder_finish(&p->parts, p->r, out, n);
}

static cr_status call_parts(parting *p)
{
    cr_value arg[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    cr_status st = CR_OK;

    for (int i = 0; i < p->n->arg_count; i++) {
        const cr_param *param = &p->n->op->param[i];
        if (p->n->arg[i].tag == CR_NONE && param->type == CR_T_TENSOR && !param->optional)
            return cr_fail(CR_VALUE, "%s has no tensor '%s'", p->n->op->name, param->name);
        CR_TRY(parting_arg(&arg[i], p, &p->n->arg[i]));
    }
    CR_TRY(cr_recorder_start(p->r));
    st = p->n->op->kernel_stage(p->n->op, arg, result);
    cr_recorder_stop(p->r);
    CR_TRY(st);
    st = parting_finish(p, result);
    cr_drop_values(result, p->n->op->result_count);
    return st;
}

/* Records the parts of the node.  False: the node is kept. */
static bool find_parts(parting *p)
{
    cr_thread_state was = cr_thread;
    cr_status st;

    if (cr_recorder_active() || cr_recorder_new(&p->r, true))
        return false;
    cr_thread.include = 0;
    cr_thread.exclude = 0;
    cr_thread.no_grad = cr_thread.fakes = true;
    st = call_parts(p);
    cr_thread = was;
    /* a constant is a result that no part has made */
    return !st && !p->parts->constants.len;
}

static void parting_drop(parting *p)
{
    for (int k = 0; k < p->inputs; k++)
        cr_drop(p->fake[k]);
    cr_recorder_drop(p->r);
    cr_arena_drop(&p->room);
}

/* --- replacing the node --- */

static cr_gvalue *part_value(void *now, cr_gvalue *v) { return ((cr_gvalue **)now)[v->id]; }

/* Copies a type to the session, because the recorder is dropped, and makes it that of a real
 * tensor. */
static cr_gtype lasting(cr_session *s, cr_gtype t)
{
    if (t.size)
        t.size = cr_session_copy(s, t.size, t.ndim * sizeof *t.size);
    if (t.stride)
        t.stride = cr_session_copy(s, t.stride, t.ndim * sizeof *t.stride);
    return t;
}

static void splice(cr_rewrite *w, cr_gblock *to, const parting *p)
{
    cr_session *s = w->to->session;
    cr_gvalue **now = CR_NEW_N(s, cr_gvalue *, p->parts->values);
    const cr_gblock *b = p->parts->body;
    cr_garg arg[CR_MAX_ARGS];

    for (int k = 0; k < p->inputs; k++)
        now[p->parts->input[k]->id] = w->now[p->value[k]->id];
    for (size_t i = 0; i < b->len; i++) {
        const cr_gnode *part = b->at[i];
        for (int k = 0; k < part->arg_count; k++)
            arg[k] = cr_garg_copy(w->to, &part->arg[k], part_value, now);
        cr_gnode *made = cr_graph_call(w->to, to, part->op, arg, part->result_count, NULL);
        made->source = p->n->source;
        for (int k = 0; k < part->result_count; k++) {
            made->result[k]->type = lasting(s, part->result[k]->type);
            now[part->result[k]->id] = made->result[k];
        }
    }
    for (int k = 0; k < p->n->result_count; k++)
        if (b->output[k].tag == CR_TENSOR)
            w->now[p->n->result[k]->id] = now[b->output[k].value->id];
}

/* True when no result with a value is None. */
static bool gives_all(const parting *p)
{
    for (int k = 0; k < p->n->result_count; k++)
        if (p->parts->body->output[k].tag != CR_TENSOR)
            return false;
    return true;
}

static bool part_node(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    splitter *x = w->context;
    parting p = {.n = n};
    bool done;

    if (n->kind != CR_GNODE_CALL || !x->splits(n))
        return false;
    done = find_parts(&p) && gives_all(&p);
    if (done)
        splice(w, to, &p);
    parting_drop(&p);
    x->any |= done;
    return done;
}

/* --- the walk --- */

/* Parts may be compositions that the recorder did not split. */
enum { MOST_WALKS = 6 };

cr_graph *cr_graph_split(const cr_graph *g, cr_node_test splits)
{
    const cr_graph *now = g;
    splitter x = {.splits = splits, .any = true};

    for (int k = 0; k < MOST_WALKS && x.any; k++) {
        bool wanted = false;
        for (size_t i = 0; i < now->body->len && !wanted; i++)
            wanted = now->body->at[i]->kind != CR_GNODE_CALL || splits(now->body->at[i]);
        if (!wanted)
            break;
        cr_rewrite w = {.from = now, .node = part_node, .context = &x};
        x.any = false;
        cr_graph *next = cr_rewrite_run(&w);
        if (now != g)
            cr_graph_drop((cr_graph *)(uintptr_t)now);
        now = next;
    }
    return (cr_graph *)(uintptr_t)now;
}

static bool splits_into_parts(const cr_gnode *n)
{
    const cr_op *op = n->op;

    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].written)
            return false;
    if (op->updates.params)
        return true;
    if (op->words & CR_WORD_SPARSE) /* a graph has no values for the parts of a tensor */
        return false;
    if (op->does == CR_DOES_IS)
        return !op->fused && !cr_op_is_cheap(op);
    return op->does == CR_DOES_WHOLE && !op->differentiable &&
           !(op->words & (CR_WORD_RANDOM | CR_WORD_CHECKS | CR_WORD_MEETS));
}

cr_graph *cr_graph_decompose(const cr_graph *g)
{
    cr_graph_need_sizes(g);
    return cr_graph_split(g, splits_into_parts);
}
