/* Compiled calls.
 *
 * The recorded call is all that a function's first call waits for: its graph is kept, or for
 * training joined with the backward pass and cut.  Programs are made for the second call. */
#include "compile/call.h"
#include "autograd/autograd.h"
#include "base/log.h"
#include "compile/compile.h"
#include "compile/program.h"
#include <pthread.h>
#include <string.h>

enum { LARGE_PEAK = 64 << 20 };

/* The backward program for a pass that reaches only some outputs. */
typedef struct variant {
    struct variant *next;
    cr_program *program;
    bool reached[]; /* by output */
} variant;

struct cr_compiled_call {
    _Atomic int32_t count;
    pthread_mutex_t lock; /* of making the programs */
    _Atomic bool made;
    cr_session *session; /* of `recorded` */
    const cr_graph *recorded; /* of inference until the program is made, or where it has numbers; and of
                                 training with several cotangents */
    cr_aot_joint joint; /* of training, with its parts: until the programs are made, or with several cotangents */
    cr_aot_parts parts;
    cr_program *forward, *backward;
    _Atomic(variant *) variants;
    int inputs, outputs, saved, cotangents;
    unsigned how;        /* cr_how */
    bool *marks;         /* the block of the arrays below; NULL: there is no backward part */
    bool *wants;         /* by input: has a gradient */
    bool *differentiable; /* by output: has a cotangent */
    bool *plain;          /* by output: had no gradient in the recorded call */
};

/* --- making --- */

typedef struct {
    cr_compiled_call *c;
    const cr_graph *from;
} job;

static void keep_recorded(cr_compiled_call *c, const cr_graph *g)
{
    c->session = cr_session_keep(g->session);
    c->recorded = g;
}

static void cut(cr_session *s, void *context)
{
    job *j = context;

    (void)s;
    if (cr_graph_writes(j->from))
        j->from = cr_graph_functional(j->from);
    j->c->parts = cr_aot_partition(j->from, j->c->inputs, j->c->outputs, CR_AOT_MIN_CUT);
}

static cr_status keep_training(cr_compiled_call *c, const cr_graph *g)
{
    job j = {.c = c};

    CR_TRY(cr_aot_joint_new(&c->joint, g));
    j.from = c->joint.graph;
    c->cotangents = c->joint.cotangents;
    c->marks = cr_alloc_zero((size_t)(c->inputs + c->outputs) + 1);
    if (!c->marks)
        return CR_MEMORY;
    c->wants = c->marks;
    c->differentiable = c->wants + c->inputs;
    memcpy(c->differentiable, c->joint.differentiable, (size_t)c->outputs);
    for (int i = 0; i < c->inputs; i++)
        c->wants[i] = g->input[i]->type.requires_grad;
    if (c->cotangents > 1)
        keep_recorded(c, g);
    cr_show_graph("aot", "joint", c->joint.graph);
    CR_TRY(cr_session_run(c->joint.graph->session, cut, &j));
    cr_show_graph("aot", "forward", c->parts.forward);
    cr_show_graph("aot", "backward", c->parts.backward);
    c->saved = c->parts.saved;
    return CR_OK;
}

/* --- a backward pass through some of the outputs --- */

static void variant_drop(variant *v)
{
    cr_program_drop(v->program);
    cr_free(v);
}

typedef struct {
    const cr_compiled_call *c;
    const cr_graph *from;
    cr_graph *backward;
} like;

static void cut_like(cr_session *s, void *context)
{
    like *x = context;

    (void)s;
    if (cr_graph_writes(x->from))
        x->from = cr_graph_functional(x->from);
    x->backward = cr_aot_backward_like(x->from, x->c->inputs, x->c->outputs, x->c->parts.backward, x->c->saved);
}

static cr_status make_variant(variant *v, cr_compiled_call *c)
{
    cr_aot_joint joint = {0};
    like x = {.c = c};
    cr_status st = cr_aot_joint_of(&joint, c->recorded, v->reached);

    x.from = joint.graph;
    if (!st)
        st = cr_session_run(joint.graph->session, cut_like, &x);
    if (!st) {
        cr_show_graph("aot", "backward, of some outputs", x.backward);
        st = cr_program_new(&v->program, x.backward, c->how);
    }
    cr_graph_drop(x.backward);
    cr_aot_joint_drop(&joint);
    return st;
}

static variant *find_variant(const cr_compiled_call *c, const bool *reached)
{
    variant *v = atomic_load_explicit(&((cr_compiled_call *)(uintptr_t)c)->variants, memory_order_acquire);

    while (v && memcmp(v->reached, reached, (size_t)c->outputs))
        v = v->next;
    return v;
}

static cr_status add_variant(variant **out, cr_compiled_call *c, const bool *reached)
{
    variant *v = cr_alloc_zero(sizeof *v + (size_t)c->outputs);
    cr_status st;

    if (!v)
        return CR_MEMORY;
    memcpy(v->reached, reached, (size_t)c->outputs);
    st = make_variant(v, c);
    if (st) {
        variant_drop(v);
        return st;
    }
    v->next = atomic_load(&c->variants);
    atomic_store_explicit(&c->variants, v, memory_order_release);
    *out = v;
    return CR_OK;
}

/* The backward program for cotangents of these outputs. */
static cr_status backward_of(cr_program **out, cr_compiled_call *c, const bool *reached)
{
    variant *v = find_variant(c, reached);
    cr_status st = CR_OK;

    if (!memcmp(reached, c->differentiable, (size_t)c->outputs)) {
        *out = c->backward;
        return CR_OK;
    }
    if (!v) {
        pthread_mutex_lock(&c->lock);
        if (!(v = find_variant(c, reached)))
            st = add_variant(&v, c, reached);
        pthread_mutex_unlock(&c->lock);
    }
    *out = st ? NULL : v->program;
    return st;
}

static bool wants_gradient(const cr_graph *g)
{
    bool in = false, out = false;

    for (int i = 0; i < g->input_count; i++)
        in = in || g->input[i]->type.requires_grad;
    for (int k = 0; k < g->body->output_count; k++) {
        const cr_garg *a = &g->body->output[k];
        out = out || (a->tag == CR_TENSOR && a->value->type.requires_grad && a->value->by);
    }
    return in && out;
}

cr_status cr_compiled_call_new(cr_compiled_call **out, const cr_graph *g, bool grad, unsigned how)
{
    cr_compiled_call *c = cr_alloc_zero(sizeof *c);
    cr_status st;

    if (!c)
        return CR_MEMORY;
    atomic_store(&c->count, 1);
    c->how = how;
    c->inputs = g->input_count;
    c->outputs = g->body->output_count;
    c->plain = cr_alloc_zero((size_t)c->outputs + 1);
    for (int k = 0; c->plain && k < c->outputs; k++) {
        const cr_garg *a = &g->body->output[k];
        c->plain[k] = a->tag == CR_TENSOR && a->value->type.known && !a->value->type.requires_grad;
    }
    pthread_mutex_init(&c->lock, NULL);
    st = c->plain ? CR_OK : CR_MEMORY;
    if (!st && grad && wants_gradient(g))
        st = keep_training(c, g);
    else if (!st)
        keep_recorded(c, g);
    if (st)
        cr_compiled_call_drop(c);
    else
        *out = c;
    return st;
}

/* --- the programs --- */

/* Compositions as their parts; what cannot be replayed stays whole. */
static cr_status make_inference(cr_compiled_call *c)
{
    cr_aot_joint parts = {0};
    bool whole = c->recorded->parts || c->recorded->numbers.inputs;
    cr_status st = whole ? CR_OK : cr_aot_parts_new(&parts, c->recorded);

    if (st != CR_MEMORY)
        st = cr_program_new(&c->forward, parts.graph ? parts.graph : c->recorded, c->how);
    cr_aot_joint_drop(&parts);
    return st;
}

static cr_status make_training(cr_compiled_call *c)
{
    if (!c->forward)
        CR_TRY(cr_program_new(&c->forward, c->parts.forward, c->how));
    return cr_program_new(&c->backward, c->parts.backward, c->how);
}

static void drop_parts(cr_compiled_call *c)
{
    cr_graph_drop(c->parts.forward);
    cr_graph_drop(c->parts.backward);
    c->parts.forward = c->parts.backward = NULL;
    cr_aot_joint_drop(&c->joint);
}

/* The graphs that nothing is made of any more. */
static void drop_graphs(cr_compiled_call *c)
{
    if (c->marks && c->cotangents <= 1)
        drop_parts(c);
    if (!c->marks && !c->recorded->numbers.inputs && !c->recorded->numbers.guards.len) {
        cr_session_release(c->session);
        c->session = NULL;
        c->recorded = NULL;
    }
}

cr_status cr_compiled_call_make(cr_compiled_call *c)
{
    cr_status st = CR_OK;

    if (CR_LIKELY(atomic_load_explicit(&c->made, memory_order_acquire)))
        return CR_OK;
    pthread_mutex_lock(&c->lock);
    if (!atomic_load(&c->made)) {
        st = c->marks ? make_training(c) : make_inference(c);
        if (!st && cr_program_peak(c->forward) > LARGE_PEAK)
            cr_cpu_memory_trim(); /* what the recorded calls left is of other sizes than programs need */
        if (!st) {
            drop_graphs(c);
            atomic_store_explicit(&c->made, true, memory_order_release);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}

cr_compiled_call *cr_compiled_call_keep(cr_compiled_call *c)
{
    atomic_fetch_add_explicit(&c->count, 1, memory_order_relaxed);
    return c;
}

void cr_compiled_call_drop(cr_compiled_call *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->count, 1, memory_order_acq_rel) != 1)
        return;
    cr_program_drop(c->forward);
    cr_program_drop(c->backward);
    for (variant *v = atomic_load(&c->variants), *next; v; v = next) {
        next = v->next;
        variant_drop(v);
    }
    drop_parts(c);
    cr_session_release(c->session);
    pthread_mutex_destroy(&c->lock);
    cr_free(c->marks);
    cr_free(c->plain);
    cr_free(c);
}

/* --- instances --- */

enum { MOST_INSTANCES = 64 };

/* A call for one choice of sizes and whole numbers. */
typedef struct {
    int64_t *key;
    cr_compiled_call *call; /* NULL: a guard does not hold for these */
} instance;

struct cr_compiled_calls {
    cr_session *session; /* of `g` */
    const cr_graph *g;
    bool grad;
    unsigned how; /* cr_how */
    int key_len;
    CR_VEC(instance) made; /* the last used first */
};

static int count_dims(uint64_t mask, int ndim)
{
    int n = 0;

    for (int d = 0; d < ndim; d++)
        n += mask >> d & 1;
    return n;
}

cr_status cr_compiled_calls_new(cr_compiled_calls **out, const cr_graph *g, bool grad, unsigned how)
{
    cr_compiled_calls *c = cr_alloc_zero(sizeof *c);

    if (!c)
        return CR_MEMORY;
    c->session = cr_session_keep(g->session);
    c->g = g;
    c->grad = grad;
    c->how = how;
    c->key_len = g->numbers.inputs;
    for (int i = 0; i < g->input_count; i++)
        c->key_len += count_dims(g->input[i]->symbolic, g->input[i]->type.ndim);
    *out = c;
    return CR_OK;
}

static void instance_drop(instance *i)
{
    cr_compiled_call_drop(i->call);
    cr_free(i->key);
}

void cr_compiled_calls_drop(cr_compiled_calls *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->made.len; i++)
        instance_drop(&c->made.at[i]);
    cr_vec_drop(&c->made);
    cr_session_release(c->session);
    cr_free(c);
}

/* Floats are run-time numbers of one instance; whole numbers may decide sizes. */
static void fill_key(const cr_compiled_calls *c, cr_tensor *const *input, const cr_scalar *number, int64_t *key)
{
    for (int i = 0; i < c->g->input_count; i++)
        for (int d = 0; d < c->g->input[i]->type.ndim; d++)
            if (c->g->input[i]->symbolic >> d & 1)
                *key++ = input[i]->size[d];
    for (int k = 0; k < c->g->numbers.inputs; k++)
        *key++ = number[k].category == CR_CAT_FLOAT && !c->grad ? 0 : number[k].i;
}

static cr_status make_instance(cr_compiled_calls *c, cr_tensor *const *input, const cr_scalar *number, instance *out)
{
    cr_session *s = cr_session_new();
    cr_graph *g = NULL;
    cr_status st = s ? cr_graph_instantiate(&g, s, c->g, input, number, !c->grad) : CR_MEMORY;

    if (!st && g)
        st = cr_compiled_call_new(&out->call, g, c->grad, c->how);
    cr_graph_drop(g);
    cr_session_release(s);
    return st;
}

static void to_front(cr_compiled_calls *c, size_t i)
{
    instance found = c->made.at[i];

    memmove(c->made.at + 1, c->made.at, i * sizeof found);
    c->made.at[0] = found;
}

static cr_status add_instance(cr_compiled_calls *c, const int64_t *key, cr_tensor *const *input, const cr_scalar *number)
{
    instance made = {.key = cr_alloc((size_t)c->key_len * sizeof *key + 1)};
    cr_status st = made.key ? cr_vec_reserve(&c->made, 1) : CR_MEMORY;

    if (!st) {
        memcpy(made.key, key, (size_t)c->key_len * sizeof *key);
        st = make_instance(c, input, number, &made);
    }
    if (st == CR_MEMORY) {
        instance_drop(&made);
        return st;
    }
    if (st) /* for such sizes there are none: eager says why */
        cr_log_line("graph", 1, "no programs for these sizes: %s", cr_error_message());
    if (c->made.len == MOST_INSTANCES)
        instance_drop(&c->made.at[--c->made.len]);
    cr_vec_put(&c->made, made);
    to_front(c, c->made.len - 1);
    return CR_OK;
}

cr_status cr_compiled_calls_find(cr_compiled_call **out, cr_compiled_calls *c, cr_tensor *const *input,
                                 const cr_scalar *number)
{
    int64_t few[32], *key = few;
    cr_status st = CR_OK;
    size_t i = 0;

    if (c->key_len > (int)CR_LEN(few) && !(key = cr_alloc((size_t)c->key_len * sizeof *key)))
        return CR_MEMORY;
    fill_key(c, input, number, key);
    while (i < c->made.len && memcmp(c->made.at[i].key, key, (size_t)c->key_len * sizeof *key))
        i++;
    if (i == c->made.len)
        st = add_instance(c, key, input, number);
    else if (i)
        to_front(c, i);
    if (key != few)
        cr_free(key);
    *out = st ? NULL : c->made.at[0].call;
    return st;
}

int cr_compiled_calls_count(const cr_compiled_calls *c) { return (int)c->made.len; }

cr_compiled_call *cr_compiled_calls_last(const cr_compiled_calls *c)
{
    return c->made.len ? c->made.at[0].call : NULL;
}

/* --- running --- */

/* What may still change of the numbers, worked out; *holds: the guards on them do. */
static cr_status run_numbers(cr_compiled_call *c, const cr_scalar *number, cr_scalar **out, bool *holds)
{
    const cr_gnumbers *n = &c->recorded->numbers;

    *out = cr_alloc(n->list.len * sizeof **out + 1);
    if (!*out)
        return CR_MEMORY;
    *holds = cr_gnum_evaluate(n, number, *out) && cr_gnum_guards_hold(n, *out);
    return CR_OK;
}

bool cr_compiled_call_holds(cr_compiled_call *c, const cr_scalar *number)
{
    cr_scalar *values;
    bool holds = true;

    if (c->marks || !c->recorded || !c->recorded->numbers.guards.len)
        return true;
    if (run_numbers(c, number, &values, &holds))
        return false;
    cr_free(values);
    return holds;
}

static void drop_all(cr_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        cr_drop(t[i]);
}

/* Conversions of autocast are in the graph. */
static cr_status run_program(cr_program *p, cr_tensor *const *input, const cr_scalar *number, cr_tensor **output)
{
    uint32_t was = cr_thread.exclude;

    cr_thread.exclude = was | CR_STAGE_BIT(AUTOCAST);
    cr_status st = cr_program_run(p, input, number, output);
    cr_thread.exclude = was;
    return st;
}

static cr_status consume(cr_program *p, cr_tensor **input, cr_tensor **output)
{
    uint32_t was = cr_thread.exclude;

    cr_thread.exclude = was | CR_STAGE_BIT(AUTOCAST);
    cr_status st = cr_program_consume(p, input, output);
    cr_thread.exclude = was;
    return st;
}

/* --- the node --- */

typedef struct {
    cr_node node;
    cr_compiled_call *call; /* counted; NULL once freed */
    bool released;
    int saved_count;
    cr_saved *saved;
} call_node;

static cr_status load_saved(call_node *n, cr_tensor **out)
{
    for (int i = 0; i < n->saved_count; i++)
        CR_TRY(cr_saved_get(&out[i], &n->saved[i], &n->node));
    return CR_OK;
}

/* Cotangents as the graph has them: row-major.  reached[k]: output k has one. */
static cr_status load_cotangents(call_node *n, cr_tensor *const *grads, cr_tensor **out, bool *reached)
{
    const cr_compiled_call *c = n->call;
    int k = 0;

    for (int i = 0; i < c->outputs; i++) {
        cr_value arg[CR_MAX_ARGS], result;
        cr_tensor *g = c->differentiable[i] ? grads[i] : NULL;
        reached[i] = g != NULL;
        if (!g)
            continue;
        if (g->contiguous) {
            out[k++] = cr_keep(g);
        } else {
            arg[0] = cr_of_tensor(g);
            CR_TRY(cr_call_named("contiguous", arg, 1, &result));
            out[k++] = result.t;
        }
    }
    return CR_OK;
}

static void node_release(cr_node *node)
{
    call_node *n = (call_node *)node;

    for (int i = 0; i < n->saved_count; i++)
        cr_saved_drop(&n->saved[i]);
    n->saved_count = 0;
    n->released = true;
}

static cr_status run_backward(call_node *n, cr_tensor *const *grads, cr_tensor **room, cr_tensor **grads_out)
{
    cr_compiled_call *c = n->call;
    cr_tensor **out = room + n->saved_count + c->cotangents;
    bool *reached = (bool *)(out + c->inputs);
    cr_program *p;
    int k = 0, edge = 0;

    CR_TRY(load_saved(n, room));
    CR_TRY(load_cotangents(n, grads, room + n->saved_count, reached));
    CR_TRY(backward_of(&p, c, reached));
    if (!cr_backward_retains())
        node_release(&n->node); /* what was saved goes as it is used up */
    CR_TRY(consume(p, room, out));
    for (int i = 0; i < c->inputs; i++)
        if (c->wants[i])
            grads_out[edge++] = out[k++];
    return CR_OK;
}

static cr_status node_apply(cr_node *node, cr_tensor *const *grads, cr_tensor **grads_out)
{
    call_node *n = (call_node *)node;
    int most = n->saved_count + n->call->cotangents;
    cr_tensor **room;
    cr_status st;

    if (n->released)
        return cr_fail_released();
    if (!cr_thread.no_grad)
        return cr_fail(CR_RUNTIME, "torch.compile with aot_autograd does not currently support double backward");
    room = cr_alloc_zero((size_t)(most + n->call->inputs + 1) * sizeof *room + (size_t)n->call->outputs);
    if (!room)
        return CR_MEMORY;
    st = run_backward(n, grads, room, grads_out);
    drop_all(room, most);
    cr_free(room);
    return st;
}

static void node_free(cr_node *node)
{
    call_node *n = (call_node *)node;

    node_release(node);
    cr_free(n->saved);
    cr_compiled_call_drop(n->call);
    n->call = NULL;
}

static const cr_node_kind node_kind = {.name = "CompiledFunctionBackward", .apply = node_apply,
                                       .release = node_release, .free = node_free};

static cr_status fill_node(call_node *n, cr_tensor *const *input, cr_tensor **output)
{
    const cr_compiled_call *c = n->call;
    cr_tensor **saved = output + c->outputs;
    int edge = 0;

    for (int i = 0; i < c->inputs; i++)
        if (c->wants[i])
            CR_TRY(cr_edge_of(&n->node.edges[edge++], input[i]));
    for (int k = 0; k < c->outputs; k++)
        if (c->differentiable[k])
            CR_TRY(cr_set_history(output[k], &n->node, (uint32_t)k));
    for (int i = 0; i < c->saved; i++) {
        bool is_result = false;
        for (int k = 0; k < c->outputs; k++)
            is_result = is_result || (c->differentiable[k] && saved[i] == output[k]);
        CR_TRY(cr_save(&n->saved[i], saved[i], is_result));
        n->saved_count = i + 1;
    }
    return CR_OK;
}

static cr_status make_node(cr_compiled_call *c, cr_tensor *const *input, cr_tensor **output)
{
    cr_node *node;
    call_node *n;
    uint32_t edges = 0;
    cr_status st;

    for (int i = 0; i < c->inputs; i++)
        edges += c->wants[i];
    CR_TRY(cr_node_new(&node, sizeof *n, &node_kind, edges, (uint32_t)c->outputs));
    n = (call_node *)node;
    n->call = cr_compiled_call_keep(c);
    n->saved = cr_alloc_zero((size_t)(c->saved + 1) * sizeof *n->saved);
    st = n->saved ? fill_node(n, input, output) : CR_MEMORY;
    cr_node_drop(node);
    return st;
}

/* An output that is an input may have lost its gradient on the way (detach). */
static cr_status lose_gradients(const cr_compiled_call *c, cr_tensor **output)
{
    for (int k = 0; k < c->outputs; k++) {
        cr_tensor *t = output[k];
        if (!c->plain[k] || !t || !cr_requires_grad(t))
            continue;
        CR_TRY(cr_detached(&output[k], t));
        cr_drop(t);
    }
    return CR_OK;
}

static cr_status run_inference(cr_compiled_call *c, cr_tensor *const *input, const cr_scalar *number,
                               cr_tensor **output)
{
    cr_scalar *values = NULL;
    bool holds;
    cr_status st;

    if (c->recorded && c->recorded->numbers.inputs)
        CR_TRY(run_numbers(c, number, &values, &holds));
    st = run_program(c->forward, input, values, output);
    cr_free(values);
    if (!st && (st = lose_gradients(c, output))) {
        drop_all(output, c->outputs);
        memset(output, 0, (size_t)c->outputs * sizeof *output);
    }
    return st;
}

cr_status cr_compiled_call_run(cr_compiled_call *c, cr_tensor *const *input, const cr_scalar *number,
                               cr_tensor **output)
{
    cr_tensor **all;
    cr_status st;

    CR_TRY(cr_compiled_call_make(c));
    if (!c->marks)
        return run_inference(c, input, number, output);
    all = cr_alloc_zero((size_t)(c->outputs + c->saved + 1) * sizeof *all);
    if (!all)
        return CR_MEMORY;
    st = run_program(c->forward, input, NULL, all);
    if (!st)
        st = lose_gradients(c, all);
    if (!st && !cr_thread.no_grad)
        st = make_node(c, input, all);
    if (st) {
        drop_all(all, c->outputs + c->saved);
    } else {
        memcpy(output, all, (size_t)c->outputs * sizeof *all);
        drop_all(all + c->outputs, c->saved);
    }
    cr_free(all);
    return st;
}

/* --- for people --- */

static bool is_made(const cr_compiled_call *c) { return atomic_load_explicit(&c->made, memory_order_acquire); }

const cr_program *cr_compiled_call_forward(const cr_compiled_call *c) { return is_made(c) ? c->forward : NULL; }
const cr_program *cr_compiled_call_backward(const cr_compiled_call *c) { return is_made(c) ? c->backward : NULL; }
