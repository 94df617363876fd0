/* Compiled calls.
 *
 * The first call of a function only records: its graph is kept, or, for training, joined with
 * the backward pass and partitioned.  The second call makes the programs. */
#include "compile/call.h"
#include "autograd/autograd.h"
#include "base/log.h"
#include "compile/compile.h"
#include "compile/program.h"
#include <pthread.h>
#include <string.h>

enum { LARGE_PEAK = 64 << 20, MOST_LAYOUTS = 4 };

/* The backward program for a pass that reaches only some outputs. */
typedef struct variant {
    struct variant *next;
    cr_program *program; /* NULL, in a call for all sizes: there is none */
    bool reached[];      /* by output */
} variant;

/* The backward program for cotangents of other layouts than those of the recording: gradients
 * take their order from them, and a sum its bits from the order. */
typedef struct layout {
    struct layout *next;
    cr_program *program; /* NULL: the layouts have no influence, or there is no such program */
    size_t words;
    int64_t word[]; /* by output: 0 without a cotangent, or 1 and the cotangent's strides */
} layout;

/* A recorded graph, and the graphs that are made from it. */
typedef struct {
    /* For one program for all sizes: the recording, with a reference to its session. */
    const cr_graph *symbolic;
    cr_session *session;      /* of `recorded` */
    const cr_graph *recorded; /* kept for inference until the program is made, or if it has
                               * numbers; for training, for other backward programs */
    cr_aot_joint joint;       /* for training, like `parts`: kept until the programs are made */
    cr_aot_parts parts;
} call_recording;

/* How many tensors a program takes and gives. */
typedef struct {
    int inputs, outputs, saved, cotangents;
} call_counts;

/* What takes part in a backward pass. */
typedef struct {
    bool *marks; /* the memory of the arrays below; NULL: there is no backward program */
    bool *wants; /* by input: has a gradient */
    bool *differentiable; /* by output: has a cotangent */
    bool *plain;          /* by output: had no gradient in the recorded call */
} call_marks;

/* The programs of a recorded call.
 * Invariant: forward is set once `made` is, and never changes then; `made` is set under
 * `lock`. A call with `of` has no graph for all sizes. mark.marks is the memory of
 * mark.wants (inputs), .differentiable and .plain (outputs each), or all four are NULL. */
struct cr_compiled_call {
    _Atomic int32_t count;
    pthread_mutex_t lock; /* held while the programs are made */
    _Atomic bool made;
    call_recording kept;
    cr_sizes *sizes;      /* of the call for all sizes; under its lock */
    cr_compiled_call *of; /* the call for all sizes, if cr_compiled_call_resize made this one */
    cr_scalar *symbol;    /* the values of the symbols */
    cr_program *forward, *backward;
    cr_undo_plan *undo; /* of `forward`; NULL: that of `of` */
    _Atomic(variant *) variants;
    _Atomic(layout *) layouts;
    call_counts count_of;
    unsigned how; /* cr_how; of backward programs, backward_how() */
    call_marks mark;
};

static bool is_made(const cr_compiled_call *c)
{
    return atomic_load_explicit(&c->made, memory_order_acquire);
}

/* Inputs of a backward program are values that the forward program saved, of which several may
 * be one memory. */
static unsigned backward_how(const cr_compiled_call *c)
{
    return c->how & ~(unsigned)CR_HOW_APART;
}

/* --- recordings --- */

typedef struct {
    cr_compiled_call *c;
    const cr_graph *from;
    const cr_aot_parts *like; /* or NULL */
} job;

static void keep_recorded(cr_compiled_call *c, const cr_graph *g)
{
    c->kept.session = cr_session_keep(g->session);
    c->kept.recorded = g;
}

static void cut(cr_session *s, void *context)
{
    job *j = context;

    (void)s;
    if (cr_graph_writes(j->from))
        j->from = cr_graph_functional(j->from);
    j->from = cr_compile_norm_relu(j->from);
    j->c->kept.parts = j->like ? cr_aot_partition_like(j->from, j->c->count_of.inputs,
                                                       j->c->count_of.outputs, j->like)
                               : cr_aot_partition(j->from, j->c->count_of.inputs,
                                                  j->c->count_of.outputs, CR_AOT_MIN_CUT);
}

static cr_status keep_training(cr_compiled_call *c, const cr_graph *g, const cr_aot_parts *like)
{
    job j = {.c = c, .like = like};

    CR_TRY(cr_aot_joint_new(&c->kept.joint, g));
    j.from = c->kept.joint.graph;
    c->count_of.cotangents = c->kept.joint.cotangents;
    c->mark.marks = cr_alloc_zero((size_t)(c->count_of.inputs + c->count_of.outputs) + 1);
    CR_NEED(c->mark.marks);
    c->mark.wants = c->mark.marks;
    c->mark.differentiable = c->mark.wants + c->count_of.inputs;
    memcpy(c->mark.differentiable, c->kept.joint.differentiable, (size_t)c->count_of.outputs);
    for (int i = 0; i < c->count_of.inputs; i++)
        c->mark.wants[i] = g->input[i]->type.requires_grad;
    if (c->count_of.cotangents)
        keep_recorded(c, g);
    cr_show_graph("aot", "joint", c->kept.joint.graph);
    CR_TRY(cr_session_run(c->kept.joint.graph->session, cut, &j));
    cr_show_graph("aot", "forward", c->kept.parts.forward);
    cr_show_graph("aot", "backward", c->kept.parts.backward);
    c->count_of.saved = c->kept.parts.saved;
    return CR_OK;
}

/* --- a backward pass through some of the outputs --- */

static void variant_drop(variant *v)
{
    cr_program_drop(v->program);
    cr_free(v);
}

/* The joint graphs that reach all outputs and some outputs, or that have cotangents of other
 * layouts, and the backward graph of the second. */
typedef struct {
    cr_aot_joint whole, some;
    const cr_graph *whole_cut, *some_cut; /* without writes */
    const cr_compiled_call *c;
    cr_graph *backward;
} partial;

static void without_writes(cr_session *s, void *context)
{
    const cr_graph **g = context;

    (void)s;
    if (cr_graph_writes(*g))
        *g = cr_graph_functional(*g);
    *g = cr_compile_norm_relu(*g);
}

static void cut_like(cr_session *s, void *context)
{
    partial *x = context;

    without_writes(s, &x->some_cut);
    x->backward = cr_aot_backward_like(x->some_cut, x->whole_cut, x->c->count_of.inputs,
                                       x->c->count_of.outputs, cr_program_graph(x->c->backward),
                                       x->c->count_of.saved);
}

/* partial_drop releases it, also after a failure. */
static cr_status partial_new(partial *x, const cr_compiled_call *c, const cr_graph *recorded,
                             const bool *reached, const int64_t *const *stride)
{
    *x = (partial){.c = c};
    CR_TRY(cr_aot_joint_new(&x->whole, recorded));
    CR_TRY(cr_aot_joint_of(&x->some, recorded, reached, stride));
    x->whole_cut = x->whole.graph;
    x->some_cut = x->some.graph;
    cr_show_graph("aot", "joint, of some outputs", x->some_cut);
    CR_TRY(cr_session_run(x->whole.graph->session, without_writes, &x->whole_cut));
    return cr_session_run(x->some.graph->session, cut_like, x);
}

static void partial_drop(partial *x)
{
    cr_graph_drop(x->backward);
    cr_aot_joint_drop(&x->some);
    cr_aot_joint_drop(&x->whole);
}

/* Makes the recording for the sizes of a call that shares its programs' steps. */
static cr_status find_recorded(cr_compiled_call *c)
{
    cr_session *s = c->kept.recorded ? NULL : cr_session_new();
    cr_graph *g = NULL;

    if (c->kept.recorded)
        return CR_OK;
    cr_status st =
        s ? cr_graph_instantiate_at(&g, s, c->kept.symbolic, c->symbol, false) : CR_MEMORY;
    if (!st && !g)
        st = cr_fail(CR_RUNTIME, "what was asked of the sizes does not hold");
    if (!st)
        keep_recorded(c, g);
    cr_session_release(s);
    return st;
}

/* For the sizes of the call alone. */
static cr_status make_variant_alone(variant *v, cr_compiled_call *c)
{
    partial x = {.c = c};
    cr_status st = find_recorded(c);

    if (!st)
        st = partial_new(&x, c, c->kept.recorded, v->reached, NULL);
    if (!st) {
        cr_show_graph("aot", "backward, of some outputs", x.backward);
        st = cr_program_new(&v->program, x.backward, backward_how(c));
    }
    partial_drop(&x);
    return st;
}

static variant *find_variant(const cr_compiled_call *c, const bool *reached)
{
    variant *v = atomic_load_explicit(&((cr_compiled_call *)(uintptr_t)c)->variants,
                                      memory_order_acquire);

    while (v && memcmp(v->reached, reached, (size_t)c->count_of.outputs))
        v = v->next;
    return v;
}

static variant *new_variant(const cr_compiled_call *c, const bool *reached)
{
    variant *v = cr_alloc_zero(sizeof *v + (size_t)c->count_of.outputs);

    if (v)
        memcpy(v->reached, reached, (size_t)c->count_of.outputs);
    return v;
}

static void push_variant(cr_compiled_call *c, variant *v)
{
    v->next = atomic_load(&c->variants);
    atomic_store_explicit(&c->variants, v, memory_order_release);
}

/* --- the same for all sizes --- */

typedef struct {
    cr_sizes *sizes;
    const cr_decisions *decided; /* by probe */
} decisions;

static void guard_decisions(cr_session *s, void *context)
{
    decisions *d = context;

    (void)s;
    cr_sizes_decide(d->sizes, d->decided);
}

typedef struct {
    cr_session *session;
    cr_graph *recorded;
    partial part;
} variant_probe;

static cr_status probe_variant(variant_probe *p, const cr_compiled_call *c,
                               const cr_scalar *symbol, const bool *reached)
{
    p->session = cr_session_new();
    CR_NEED(p->session);
    CR_TRY(cr_graph_instantiate_at(&p->recorded, p->session, c->kept.symbolic, symbol, false));
    if (!p->recorded)
        return cr_fail(CR_RUNTIME, "what was asked of the sizes does not hold");
    return partial_new(&p->part, c, p->recorded, reached, NULL);
}

static void drop_probe(variant_probe *p)
{
    partial_drop(&p->part);
    cr_graph_drop(p->recorded);
    cr_session_release(p->session);
}

static cr_status make_variant_varying(variant *v, cr_compiled_call *c)
{
    variant_probe probe[CR_MOST_PROBES] = {{0}};
    cr_graph *backward[CR_MOST_PROBES];
    cr_decisions decided[CR_MOST_PROBES] = {{0}};
    cr_status st = CR_OK;

    for (int p = 0; !st && p < c->sizes->probes; p++) {
        cr_decisions *was = cr_decisions_into(&decided[p]);
        st = probe_variant(&probe[p], c, c->sizes->symbol[p], v->reached);
        cr_decisions_into(was);
        backward[p] = probe[p].part.backward;
    }
    if (!st)
        st = cr_session_run(c->sizes->s, guard_decisions, &(decisions){c->sizes, decided});
    if (!st)
        st = cr_program_new_varying(&v->program, c->sizes, backward, backward_how(c));
    for (int p = 0; p < c->sizes->probes; p++)
        drop_probe(&probe[p]);
    for (int p = 0; p < CR_MOST_PROBES; p++)
        cr_decisions_drop(&decided[p]);
    return st;
}

/* In the lock of `c`, the call for all sizes. */
static cr_status find_variant_varying(variant **out, cr_compiled_call *c, const bool *reached)
{
    cr_status st;

    *out = find_variant(c, reached);
    if (*out)
        return CR_OK;
    *out = new_variant(c, reached);
    CR_NEED(*out);
    st = make_variant_varying(*out, c);
    if (st == CR_MEMORY) {
        variant_drop(*out);
        return st;
    }
    if (st)
        cr_log_line("graph", 1, "no backward program for all sizes: %s", cr_error_message());
    push_variant(c, *out);
    return CR_OK;
}

/* The numbers of all sizes for these symbols; the caller owns *out.  In the lock of `c`. */
static cr_status evaluate(cr_scalar **out, const cr_compiled_call *c, const cr_scalar *symbol)
{
    cr_scalar *value = cr_alloc(c->sizes->numbers.len * sizeof *value + 1);

    CR_NEED(value);
    if (!cr_sizes_evaluate(c->sizes, symbol, value)) {
        cr_free(value);
        return cr_fail(CR_VALUE, "what was asked of the sizes does not hold");
    }
    *out = value;
    return CR_OK;
}

/* Checks that the backward program reads tensors of the types that the forward program
 * saves. */
static cr_status check_saved(const cr_compiled_call *c, const cr_program *backward)
{
    for (int i = 0; i < c->count_of.saved; i++)
        if (!cr_program_takes(backward, i, c->forward, c->count_of.outputs + i))
            return cr_fail(CR_VALUE, "what is saved is not what the backward pass reads");
    return CR_OK;
}

/* v->program stays NULL if the sizes need a separate program. */
static cr_status resize_variant(variant *v, const cr_compiled_call *c)
{
    cr_scalar *value = NULL;
    variant *of;
    cr_status st;

    pthread_mutex_lock(&c->of->lock);
    st = find_variant_varying(&of, c->of, v->reached);
    if (!st && of->program)
        st = evaluate(&value, c->of, c->symbol);
    pthread_mutex_unlock(&c->of->lock);
    if (!st && of->program)
        st = cr_program_resize(&v->program, of->program, value);
    cr_free(value);
    if (!st && v->program)
        st = check_saved(c, v->program);
    if (!st || st == CR_MEMORY)
        return st;
    cr_program_drop(v->program);
    v->program = NULL;
    return CR_OK;
}

static cr_status make_variant(variant *v, cr_compiled_call *c)
{
    if (c->of)
        CR_TRY(resize_variant(v, c));
    return v->program ? CR_OK : make_variant_alone(v, c);
}

static cr_status add_variant(variant **out, cr_compiled_call *c, const bool *reached)
{
    variant *v = new_variant(c, reached);
    cr_status st = v ? make_variant(v, c) : CR_MEMORY;

    if (st) {
        if (v)
            variant_drop(v);
        return st;
    }
    push_variant(c, v);
    *out = v;
    return CR_OK;
}

/* The backward program for the outputs that have cotangents. */
static cr_status backward_of(cr_program **out, cr_compiled_call *c, const bool *reached)
{
    variant *v = find_variant(c, reached);
    cr_status st = CR_OK;

    if (!memcmp(reached, c->mark.differentiable, (size_t)c->count_of.outputs)) {
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

/* --- cotangents of other layouts --- */

static void layout_drop(layout *l)
{
    cr_program_drop(l->program);
    cr_free(l);
}

/* Whether the program for the recording's layouts takes the cotangents that there are.  Also
 * counts the words of a layout. */
static bool are_as_recorded(const cr_compiled_call *c, cr_tensor *const *grads, size_t *words)
{
    bool same = true;
    int k = c->count_of.saved;

    *words = 0;
    for (int i = 0; i < c->count_of.outputs; i++) {
        if (c->mark.differentiable[i] && grads[i]) {
            const int64_t *stride = cr_program_input_type(c->backward, k)->stride;
            same = same &&
                   (stride ? cr_tensor_has_strides(grads[i], stride) : grads[i]->contiguous);
            *words += grads[i]->ndim;
        }
        k += c->mark.differentiable[i];
        ++*words;
    }
    return same;
}

/* The strides of dims of one element say nothing. */
static layout *layout_new(const cr_compiled_call *c, cr_tensor *const *grads, size_t words)
{
    layout *l = cr_alloc_zero(sizeof *l + words * sizeof *l->word);

    if (!l)
        return NULL;
    for (int i = 0; i < c->count_of.outputs; i++) {
        const cr_tensor *g = c->mark.differentiable[i] ? grads[i] : NULL;
        l->word[l->words++] = g != NULL;
        for (int d = 0; g && d < g->ndim; d++)
            l->word[l->words++] = g->size[d] == 1 ? 0 : g->stride[d];
    }
    return l;
}

/* Finds the equal layout, or counts those that there are. */
static layout *layout_find(const cr_compiled_call *c, const layout *like, int *count)
{
    layout *l = atomic_load_explicit(&((cr_compiled_call *)(uintptr_t)c)->layouts,
                                     memory_order_acquire);

    for (*count = 0; l; l = l->next, ++*count)
        if (l->words == like->words && !memcmp(l->word, like->word, l->words * sizeof *l->word))
            return l;
    return NULL;
}

/* Whether `v` is a cotangent, or a view of one. */
static bool shows_cotangent(const cr_graph *g, const cr_gvalue *v, int primals)
{
    while (v->by && v->by->kind == CR_GNODE_CALL && v->by->op->does == CR_DOES_MAP &&
           v->by->arg[0].tag == CR_TENSOR)
        v = v->by->arg[0].value;
    for (int i = primals; i < g->input_count; i++)
        if (g->input[i] == v)
            return true;
    return false;
}

static bool has_layout_of(const cr_gtype *a, const cr_gtype *b)
{
    return a->known && b->known && a->ndim == b->ndim && !a->stride == !b->stride &&
           (!a->stride || !memcmp(a->stride, b->stride, a->ndim * sizeof *a->stride));
}

/* Whether a node of two joint graphs computes the same bits in both: its results have one
 * layout, and it does not go through a cotangent in an order that may be another one. */
static bool has_bits_of(const cr_graph *g, const cr_gnode *a, const cr_gnode *b, int primals)
{
    if (a->kind != CR_GNODE_CALL || b->kind != CR_GNODE_CALL || a->op != b->op ||
        a->result_count != b->result_count)
        return a->kind == CR_GNODE_CONSTANT && b->kind == CR_GNODE_CONSTANT;
    if (a->op->does == CR_DOES_MAP)
        return true;
    for (int k = 0; k < a->result_count; k++)
        if (!has_layout_of(&a->result[k]->type, &b->result[k]->type))
            return false;
    if (a->op->does == CR_DOES_BODY || a->op->does == CR_DOES_EXTERN)
        return true;
    for (int i = 0; i < a->arg_count; i++)
        if (a->arg[i].tag == CR_TENSOR && shows_cotangent(g, a->arg[i].value, primals))
            return false;
    return true;
}

static bool have_influence(const partial *x)
{
    const cr_graph *a = x->some_cut, *b = x->whole_cut;

    if (a->body->len != b->body->len)
        return true;
    for (size_t i = 0; i < a->body->len; i++)
        if (!has_bits_of(a, a->body->at[i], b->body->at[i], x->c->count_of.inputs))
            return true;
    return false;
}

/* Makes the program, if the layouts have influence.  Other failures than a lack of memory leave
 * the recording's program, which gets copies. */
static cr_status layout_fill(layout *l, cr_compiled_call *c, cr_tensor *const *grads)
{
    const int64_t **stride = cr_alloc_zero((size_t)c->count_of.outputs * (sizeof *stride + 1));
    bool *reached = (bool *)(stride + c->count_of.outputs);
    partial x = {.c = c};
    size_t at = 0;

    CR_NEED(stride);
    for (int i = 0; i < c->count_of.outputs; i++) {
        reached[i] = l->word[at++];
        stride[i] = reached[i] ? &l->word[at] : NULL;
        at += reached[i] ? grads[i]->ndim : 0;
    }
    cr_status st = partial_new(&x, c, c->kept.recorded, reached, stride);
    if (!st && have_influence(&x)) {
        cr_show_graph("aot", "backward, of other layouts", x.backward);
        st = cr_program_new(&l->program, x.backward, backward_how(c));
    }
    partial_drop(&x);
    cr_free(stride);
    if (st && st != CR_MEMORY)
        cr_log_line("graph", 1, "no backward program for other layouts: %s",
                    cr_error_message());
    return st == CR_MEMORY ? st : CR_OK;
}

/* In the lock of `c`.  *out stays NULL where there are too many. */
static cr_status layout_add(layout **out, layout *l, cr_compiled_call *c,
                            cr_tensor *const *grads)
{
    int count;

    *out = layout_find(c, l, &count);
    if (*out || count == MOST_LAYOUTS)
        return CR_OK;
    CR_TRY(layout_fill(l, c, grads));
    l->next = atomic_load(&c->layouts);
    atomic_store_explicit(&c->layouts, l, memory_order_release);
    *out = l;
    return CR_OK;
}

/* The backward program for the layouts of the cotangents that there are; NULL: that of the
 * recording.  One program for all sizes gets row-major copies. */
static cr_status backward_for_layouts(cr_program **out, cr_compiled_call *c,
                                      cr_tensor *const *grads)
{
    layout *made, *found;
    size_t words;
    int count;
    cr_status st = CR_OK;

    *out = NULL;
    if (are_as_recorded(c, grads, &words) || !c->kept.recorded || c->of || c->kept.symbolic)
        return CR_OK;
    made = layout_new(c, grads, words);
    CR_NEED(made);
    found = layout_find(c, made, &count);
    if (!found) {
        pthread_mutex_lock(&c->lock);
        st = layout_add(&found, made, c, grads);
        pthread_mutex_unlock(&c->lock);
    }
    if (found != made)
        cr_free(made);
    *out = found ? found->program : NULL;
    return st;
}

bool cr_compiled_wants_gradient(const cr_graph *g)
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

static cr_compiled_call *call_of(int inputs, int outputs, unsigned how)
{
    cr_compiled_call *c = cr_alloc_zero(sizeof *c);

    if (!c)
        return NULL;
    atomic_store(&c->count, 1);
    c->how = how;
    c->count_of.inputs = inputs;
    c->count_of.outputs = outputs;
    pthread_mutex_init(&c->lock, NULL);
    c->mark.plain = cr_alloc_zero((size_t)outputs + 1);
    if (c->mark.plain)
        return c;
    cr_compiled_call_drop(c);
    return NULL;
}

/* `like` is another call of the same recording, whose saved tensors this call has to save too;
 * or NULL. */
static cr_status call_new(cr_compiled_call **out, const cr_graph *g, bool grad, unsigned how,
                          const cr_compiled_call *like)
{
    cr_compiled_call *c = call_of(g->input_count, g->body->output_count, how);
    cr_status st = CR_OK;

    CR_NEED(c);
    for (int k = 0; k < c->count_of.outputs; k++) {
        const cr_garg *a = &g->body->output[k];
        c->mark.plain[k] =
            a->tag == CR_TENSOR && a->value->type.known && !a->value->type.requires_grad;
    }
    if (grad && cr_compiled_wants_gradient(g))
        st = keep_training(c, g, like ? &like->kept.parts : NULL);
    else if (!st)
        keep_recorded(c, g);
    CR_GIVE(st, out, c, cr_compiled_call_drop);
}

/* --- the programs --- */

/* Replaces compositions by their parts; a graph that cannot be replayed is used as recorded. */
static cr_status inference_graph(const cr_graph **out, cr_aot_joint *parts,
                                 const cr_compiled_call *c)
{
    bool whole = c->kept.recorded->parts || c->kept.recorded->numbers.inputs;
    cr_status st = whole ? CR_OK : cr_aot_parts_new(parts, c->kept.recorded);

    *out = parts->graph ? parts->graph : c->kept.recorded;
    return st == CR_MEMORY ? st : CR_OK;
}

static cr_status make_inference(cr_compiled_call *c)
{
    cr_aot_joint parts = {0};
    const cr_graph *g;
    cr_status st = inference_graph(&g, &parts, c);

    if (!st)
        st = cr_program_new(&c->forward, g, c->how);
    cr_aot_joint_drop(&parts);
    return st;
}

static cr_status make_training(cr_compiled_call *c)
{
    if (!c->forward)
        CR_TRY(cr_program_new(&c->forward, c->kept.parts.forward, c->how));
    return cr_program_new(&c->backward, c->kept.parts.backward, backward_how(c));
}

static void drop_parts(cr_compiled_call *c)
{
    cr_graph_drop(c->kept.parts.forward);
    cr_graph_drop(c->kept.parts.backward);
    c->kept.parts.forward = c->kept.parts.backward = NULL;
    cr_aot_joint_drop(&c->kept.joint);
}

/* Drops the graphs from which no further program will be made. */
static void drop_graphs(cr_compiled_call *c)
{
    if (c->mark.marks)
        drop_parts(c);
    if (!c->mark.marks && !c->kept.recorded->numbers.inputs &&
        !c->kept.recorded->numbers.guards.len) {
        cr_session_release(c->kept.session);
        c->kept.session = NULL;
        c->kept.recorded = NULL;
    }
}

cr_status cr_compiled_call_make(cr_compiled_call *c)
{
    cr_status st = CR_OK;

    if (CR_LIKELY(atomic_load_explicit(&c->made, memory_order_acquire)))
        return CR_OK;
    pthread_mutex_lock(&c->lock);
    if (!atomic_load(&c->made)) {
        st = c->mark.marks ? make_training(c) : make_inference(c);
        if (!st)
            st = cr_undo_plan_new(&c->undo, cr_program_graph(c->forward));
        if (!st && cr_program_peak(c->forward) > LARGE_PEAK)
            cr_cpu_memory_trim(); /* cached blocks from the recorded calls have other sizes than
                                   * programs need */
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
    for (layout *l = atomic_load(&c->layouts), *next; l; l = next) {
        next = l->next;
        layout_drop(l);
    }
    drop_parts(c);
    cr_session_release(c->kept.session);
    pthread_mutex_destroy(&c->lock);
    if (c->kept.symbolic)
        cr_session_release(c->kept.symbolic->session);
    cr_compiled_call_drop(c->of);
    cr_sizes_drop(c->sizes);
    cr_free(c->symbol);
    cr_free(c->undo);
    cr_free(c->mark.marks);
    cr_free(c->mark.plain);
    cr_free(c);
}

/* --- one call for all sizes --- */

cr_status cr_compiled_call_new(cr_compiled_call **out, const cr_graph *g, bool grad,
                               unsigned how)
{
    return call_new(out, g, grad, how, NULL);
}

/* The calls of a recording at the probes; the programs for all sizes belong to the first. */
typedef struct {
    cr_compiled_call *call[CR_MOST_PROBES];
    cr_aot_joint parts[CR_MOST_PROBES];
    cr_graph *forward[CR_MOST_PROBES], *backward[CR_MOST_PROBES];
    cr_decisions decided[CR_MOST_PROBES]; /* in the joint graphs */
} probes;

static cr_status make_probe(probes *x, int p, const cr_graph *g, bool grad, unsigned how)
{
    const cr_graph *forward;
    cr_compiled_call *c;

    cr_decisions *was = cr_decisions_into(&x->decided[p]);
    cr_status st = call_new(&x->call[p], g, grad, how, p ? x->call[0] : NULL);
    cr_decisions_into(was);
    CR_TRY(st);
    c = x->call[p];
    if (c->mark.marks) {
        x->forward[p] = c->kept.parts.forward;
        x->backward[p] = c->kept.parts.backward;
    } else {
        CR_TRY(inference_graph(&forward, &x->parts[p], c));
        x->forward[p] = (cr_graph *)(uintptr_t)forward;
    }
    if (!c->mark.marks != !x->call[0]->mark.marks ||
        c->count_of.cotangents != x->call[0]->count_of.cotangents ||
        (c->mark.marks && memcmp(c->mark.marks, x->call[0]->mark.marks,
                                 (size_t)(c->count_of.inputs + c->count_of.outputs))))
        return cr_fail(CR_VALUE, "other outputs have gradients for other sizes");
    return CR_OK;
}

static cr_status make_varying(cr_compiled_call *c, probes *x, cr_sizes *sizes)
{
    CR_TRY(cr_session_run(sizes->s, guard_decisions, &(decisions){sizes, x->decided}));
    CR_TRY(cr_program_new_varying(&c->forward, sizes, x->forward, c->how));
    CR_TRY(cr_undo_plan_new(&c->undo, cr_program_graph(c->forward)));
    return c->mark.marks
               ? cr_program_new_varying(&c->backward, sizes, x->backward, backward_how(c))
               : CR_OK;
}

cr_status cr_compiled_call_new_varying(cr_compiled_call **out, cr_sizes *sizes,
                                       const cr_graph *recording, cr_graph *const *g, bool grad,
                                       unsigned how)
{
    probes x = {.call = {NULL}};
    cr_status st = CR_OK;

    for (int p = 0; !st && p < sizes->probes; p++)
        st = make_probe(&x, p, g[p], grad, how);
    if (!st)
        st = make_varying(x.call[0], &x, sizes);
    for (int p = 0; p < sizes->probes; p++) {
        cr_aot_joint_drop(&x.parts[p]);
        cr_decisions_drop(&x.decided[p]);
        if (p || st)
            cr_compiled_call_drop(x.call[p]);
    }
    if (st)
        return st;
    drop_graphs(x.call[0]);
    x.call[0]->kept.symbolic = recording;
    cr_session_keep(recording->session);
    x.call[0]->sizes = sizes;
    *out = x.call[0];
    return CR_OK;
}

static cr_status copy_facts(cr_compiled_call *c, const cr_compiled_call *of)
{
    c->count_of.saved = of->count_of.saved;
    c->count_of.cotangents = of->count_of.cotangents;
    memcpy(c->mark.plain, of->mark.plain, (size_t)c->count_of.outputs);
    if (!of->mark.marks)
        return CR_OK;
    c->mark.marks = cr_alloc((size_t)(c->count_of.inputs + c->count_of.outputs) + 1);
    CR_NEED(c->mark.marks);
    memcpy(c->mark.marks, of->mark.marks,
           (size_t)(c->count_of.inputs + c->count_of.outputs) + 1);
    c->mark.wants = c->mark.marks;
    c->mark.differentiable = c->mark.wants + c->count_of.inputs;
    return CR_OK;
}

static cr_status copy_symbols(cr_compiled_call *c, cr_compiled_call *of,
                              const cr_scalar *symbol)
{
    size_t bytes = of->kept.symbolic->numbers.list.len * sizeof *symbol;

    c->of = cr_compiled_call_keep(of);
    c->kept.symbolic = of->kept.symbolic;
    cr_session_keep(c->kept.symbolic->session);
    c->symbol = cr_alloc(bytes + 1);
    CR_NEED(c->symbol);
    memcpy(c->symbol, symbol, bytes);
    return CR_OK;
}

static cr_status resize_programs(cr_compiled_call *c, const cr_scalar *value)
{
    CR_TRY(cr_program_resize(&c->forward, c->of->forward, value));
    if (!c->mark.marks)
        return CR_OK;
    CR_TRY(cr_program_resize(&c->backward, c->of->backward, value));
    return check_saved(c, c->backward);
}

cr_status cr_compiled_call_resize(cr_compiled_call **out, cr_compiled_call *of,
                                  const cr_scalar *symbol)
{
    cr_compiled_call *c = call_of(of->count_of.inputs, of->count_of.outputs, of->how);
    cr_scalar *value = NULL;
    cr_status st = c ? copy_facts(c, of) : CR_MEMORY;

    if (!st)
        st = copy_symbols(c, of, symbol);
    if (!st) {
        pthread_mutex_lock(&of->lock);
        st = evaluate(&value, of, symbol);
        pthread_mutex_unlock(&of->lock);
    }
    if (!st)
        st = resize_programs(c, value);
    cr_free(value);
    if (st) {
        cr_compiled_call_drop(c);
        return st;
    }
    atomic_store(&c->made, true);
    *out = c;
    return CR_OK;
}

size_t cr_compiled_call_bytes(const cr_compiled_call *c)
{
    size_t bytes = sizeof *c + (size_t)(2 * c->count_of.outputs + c->count_of.inputs);

    bytes += c->symbol ? c->kept.symbolic->numbers.list.len * sizeof *c->symbol : 0;
    bytes += c->kept.session ? cr_arena_bytes(&c->kept.session->keep) : 0;
    bytes += c->kept.joint.graph ? cr_arena_bytes(&c->kept.joint.graph->session->keep) : 0;
    if (!is_made(c))
        return bytes;
    return bytes + cr_program_bytes(c->forward) +
           (c->backward ? cr_program_bytes(c->backward) : 0);
}

const cr_undo_plan *cr_compiled_call_undo(const cr_compiled_call *c)
{
    return c->of ? c->of->undo : c->undo;
}

/* --- running --- */

/* Evaluates the numbers of this call; *holds: the guards hold for them. */
static cr_status run_numbers(cr_compiled_call *c, const cr_scalar *number, cr_scalar **out,
                             bool *holds)
{
    const cr_gnumbers *n = &c->kept.recorded->numbers;

    *out = cr_alloc(n->list.len * sizeof **out + 1);
    CR_NEED(*out);
    *holds = cr_gnum_evaluate(n, number, *out) && cr_gnum_guards_hold(n, *out);
    return CR_OK;
}

/* The same for a call of a shared program, whose sizes are known. */
static cr_status run_numbers_sized(const cr_compiled_call *c, const cr_scalar *number,
                                   cr_scalar **out)
{
    const cr_gnumbers *n = &c->kept.symbolic->numbers;

    *out = cr_alloc(n->list.len * sizeof **out + 1);
    CR_NEED(*out);
    memcpy(*out, c->symbol, n->list.len * sizeof **out);
    if (cr_gnum_evaluate(n, number, *out))
        return CR_OK;
    cr_free(*out);
    return cr_fail(CR_RUNTIME, "arithmetic of numbers has no value");
}

bool cr_compiled_call_holds(cr_compiled_call *c, const cr_scalar *number)
{
    cr_scalar *values;
    bool holds = true;

    if (c->mark.marks || !c->kept.recorded || !c->kept.recorded->numbers.guards.len)
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

/* Without autocast, because the graph has its conversions. */
static cr_status run_program(cr_program *p, cr_tensor *const *input, const cr_scalar *number,
                             cr_tensor **output)
{
    uint32_t was = cr_thread.exclude;

    cr_thread.exclude = was | CR_STAGE_BIT(AUTOCAST);
    cr_status st = cr_program_run(p, input, number, output);
    cr_thread.exclude = was;
    return st;
}

/* --- the node of the tape --- */

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

/* *out is g with these strides, but for dims of size 1; NULL: row-major. */
static cr_status with_strides(cr_tensor **out, cr_tensor *g, const int64_t *stride)
{
    cr_value arg[CR_MAX_ARGS], result;

    if (stride ? cr_tensor_has_strides(g, stride) : g->contiguous) {
        *out = cr_keep(g);
        return CR_OK;
    }
    if (stride) {
        CR_TRY(cr_tensor_new_strided(out, (cr_dtype)g->dtype, g->device, g->ndim, g->size,
                                     stride));
        return cr_copy_tensor(*out, g);
    }
    arg[0] = cr_of_tensor(g);
    CR_TRY(cr_call_named("contiguous", arg, 1, &result));
    *out = result.t;
    return CR_OK;
}

/* Finds the program for the cotangents that there are, and collects them with the strides that
 * it was made for. */
static cr_status load_cotangents(call_node *n, cr_tensor *const *grads, cr_tensor **out,
                                 bool *reached, cr_program **p)
{
    cr_compiled_call *c = n->call;
    int k = 0;

    for (int i = 0; i < c->count_of.outputs; i++)
        reached[i] = c->mark.differentiable[i] && grads[i];
    CR_TRY(backward_for_layouts(p, c, grads));
    if (!*p)
        CR_TRY(backward_of(p, c, reached));
    for (int i = 0; i < c->count_of.outputs; i++)
        if (reached[i]) {
            const cr_gtype *type = cr_program_input_type(*p, n->saved_count + k);
            CR_TRY(with_strides(&out[k++], grads[i], type->stride));
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

/* The gradient of the k-th input that wants one is that of edge k. */
static cr_status give_early(void *node, uint32_t k, cr_tensor **gradient)
{
    return cr_backward_give_early(node, k, gradient);
}

static cr_status consume(call_node *n, cr_program *p, cr_tensor **input, cr_tensor **output)
{
    uint32_t was = cr_thread.exclude;
    cr_program_taker taker = {give_early, &n->node};

    cr_thread.exclude = was | CR_STAGE_BIT(AUTOCAST);
    cr_status st = cr_program_consume(p, input, output, &taker);
    cr_thread.exclude = was;
    return st;
}

static cr_status run_backward(call_node *n, cr_tensor *const *grads, cr_tensor **room,
                              cr_tensor **grads_out)
{
    cr_compiled_call *c = n->call;
    cr_tensor **out = room + n->saved_count + c->count_of.cotangents;
    bool *reached = (bool *)(out + c->count_of.inputs);
    cr_program *p;
    int k = 0, edge = 0;

    CR_TRY(load_saved(n, room));
    CR_TRY(load_cotangents(n, grads, room + n->saved_count, reached, &p));
    if (!cr_backward_retains())
        node_release(&n->node); /* the run drops saved tensors after their last reader */
    CR_TRY(consume(n, p, room, out));
    for (int i = 0; i < c->count_of.inputs; i++)
        if (c->mark.wants[i])
            grads_out[edge++] = out[k++];
    return CR_OK;
}

static cr_status node_apply(cr_node *node, cr_tensor *const *grads, cr_tensor **grads_out)
{
    call_node *n = (call_node *)node;
    int most = n->saved_count + n->call->count_of.cotangents;
    cr_tensor **room;
    cr_status st;

    if (n->released)
        return cr_fail_released();
    if (!cr_thread.no_grad)
        return cr_fail(
            CR_RUNTIME,
            "torch.compile with aot_autograd does not currently support double backward");
    room = cr_alloc_zero((size_t)(most + n->call->count_of.inputs + 1) * sizeof *room +
                         (size_t)n->call->count_of.outputs);
    CR_NEED(room);
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

static const cr_node_kind node_kind = {.name = "CompiledFunctionBackward",
                                       .apply = node_apply,
                                       .release = node_release,
                                       .free = node_free,
                                       .joined = true};

static cr_status fill_node(call_node *n, cr_tensor *const *input, cr_tensor **output)
{
    const cr_compiled_call *c = n->call;
    cr_tensor **saved = output + c->count_of.outputs;
    int edge = 0;

    for (int i = 0; i < c->count_of.inputs; i++)
        if (c->mark.wants[i])
            CR_TRY(cr_edge_of(&n->node.edges[edge++], input[i]));
    for (int k = 0; k < c->count_of.outputs; k++)
        if (c->mark.differentiable[k])
            CR_TRY(cr_set_history(output[k], &n->node, (uint32_t)k));
    for (int i = 0; i < c->count_of.saved; i++) {
        bool is_result = false;
        for (int k = 0; k < c->count_of.outputs; k++)
            is_result = is_result || (c->mark.differentiable[k] && saved[i] == output[k]);
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

    for (int i = 0; i < c->count_of.inputs; i++)
        edges += c->mark.wants[i];
    CR_TRY(cr_node_new(&node, sizeof *n, &node_kind, edges, (uint32_t)c->count_of.outputs));
    n = (call_node *)node;
    n->call = cr_compiled_call_keep(c);
    n->saved = cr_alloc_zero((size_t)(c->count_of.saved + 1) * sizeof *n->saved);
    st = n->saved ? fill_node(n, input, output) : CR_MEMORY;
    cr_node_drop(node);
    return st;
}

/* Detaches outputs without gradient: an output that is an input may have been detached.  Views
 * made without gradients require one through their base, as they do in eager mode. */
static cr_status lose_gradients(const cr_compiled_call *c, cr_tensor **output)
{
    for (int k = 0; k < c->count_of.outputs; k++) {
        cr_tensor *t = output[k];
        if (!c->mark.plain[k] || !t || !t->requires_grad)
            continue;
        CR_TRY(cr_detached(&output[k], t));
        cr_drop(t);
    }
    return CR_OK;
}

static cr_status run_inference(cr_compiled_call *c, cr_tensor *const *input,
                               const cr_scalar *number, cr_tensor **output)
{
    cr_scalar *values = NULL;
    bool holds;
    cr_status st;

    if (c->of && c->kept.symbolic->numbers.inputs)
        CR_TRY(run_numbers_sized(c, number, &values));
    else if (c->kept.recorded && c->kept.recorded->numbers.inputs)
        CR_TRY(run_numbers(c, number, &values, &holds));
    st = run_program(c->forward, input, values, output);
    cr_free(values);
    if (!st && (st = lose_gradients(c, output))) {
        drop_all(output, c->count_of.outputs);
        memset(output, 0, (size_t)c->count_of.outputs * sizeof *output);
    }
    return st;
}

cr_status cr_compiled_call_run(cr_compiled_call *c, cr_tensor *const *input,
                               const cr_scalar *number, cr_tensor **output)
{
    cr_tensor **all;
    cr_status st;

    CR_TRY(cr_compiled_call_make(c));
    if (!c->mark.marks)
        return run_inference(c, input, number, output);
    all = cr_alloc_zero((size_t)(c->count_of.outputs + c->count_of.saved + 1) * sizeof *all);
    CR_NEED(all);
    st = run_program(c->forward, input, NULL, all);
    if (!st)
        st = lose_gradients(c, all);
    if (!st && !cr_thread.no_grad)
        st = make_node(c, input, all);
    if (st) {
        drop_all(all, c->count_of.outputs + c->count_of.saved);
    } else {
        memcpy(output, all, (size_t)c->count_of.outputs * sizeof *all);
        drop_all(all + c->count_of.outputs, c->count_of.saved);
    }
    cr_free(all);
    return st;
}

/* --- inspection --- */

const cr_program *cr_compiled_call_forward(const cr_compiled_call *c)
{
    return is_made(c) ? c->forward : NULL;
}
const cr_program *cr_compiled_call_backward(const cr_compiled_call *c)
{
    return is_made(c) ? c->backward : NULL;
}
