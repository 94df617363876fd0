/* Recording joint graphs by replay. */
#include "aot/aot.h"
#include "autograd/autograd.h"
#include <string.h>

/* A replay of a graph with autograd on.
 * Invariant: the first `roots` of root and cotangent belong to outputs that are
 * differentiable, in their order; gradient has one place for each of the `wanted` leaves. */
typedef struct {
    const cr_graph *g;
    cr_recorder *r;
    int outputs, inputs, wanted;
    cr_tensor **input, **output, **cotangent, **gradient; /* owned */
    cr_tensor **root, **leaf;                             /* borrowed */
    bool *differentiable;
    const bool *reached;          /* one per output; NULL: all outputs */
    const int64_t *const *stride; /* of cotangents, by output; NULL: as their outputs */
    int roots;
    bool plain;  /* true: no gradients */
    bool copies; /* those that autograd makes before a write are calls of the graph */
    bool hidden; /* see joint_new */
    bool *has; /* by wanted gradient: whether the replay of the graph with its writes has it */
} replay;

/* --- fakes --- */

static cr_status joint_fake_input(cr_tensor **out, const cr_gvalue *v, bool plain)
{
    const cr_gtype *t = &v->type;

    if (!t->known)
        return cr_fail(CR_VALUE, "%%%s has no type", v->name);
    CR_TRY(cr_gtype_fake(out, t));
    return t->requires_grad && !plain ? cr_set_requires_grad(*out, true) : CR_OK;
}

static cr_status make_inputs(replay *x)
{
    for (int i = 0; i < x->inputs; i++) {
        CR_TRY(joint_fake_input(&x->input[i], x->g->input[i], x->plain));
        CR_TRY(cr_recorder_input(x->r, x->input[i], x->g->input[i]->name));
        if (x->g->input[i]->type.requires_grad && !x->plain)
            x->leaf[x->wanted++] = x->input[i];
    }
    return CR_OK;
}

/* --- outputs --- */

static bool seen_before(const replay *x, const cr_tensor *t, int k)
{
    for (int i = 0; i < x->inputs; i++)
        if (x->input[i] == t)
            return true;
    for (int i = 0; i < k; i++)
        if (x->output[i] == t)
            return true;
    return false;
}

static cr_status check_gradient(const replay *x, int k)
{
    const cr_garg *a = &x->g->body->output[k];
    bool wanted = a->tag == CR_TENSOR && a->value->type.requires_grad;

    if (wanted == (x->output[k] && x->output[k]->requires_grad))
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "output %d requires %s gradient in the call and %s in its replay", k,
                   wanted ? "a" : "no", wanted ? "none" : "one");
}

/* Without `stride` a cotangent's layout is its output's, as sums of it have eager's order;
 * row-major where sizes may vary. */
static cr_status joint_fake_cotangent(cr_tensor **out, const cr_graph *g, const cr_tensor *t,
                                      const int64_t *stride)
{
    bool plain = g->numbers.list.len || !cr_is_dense(t);

    return cr_tensor_new_strided(out, (cr_dtype)t->dtype, cr_as_fake(t->device), t->ndim,
                                 t->size,
                                 stride  ? stride
                                 : plain ? NULL
                                         : t->stride);
}

static cr_status make_cotangents(replay *x)
{
    for (int k = 0; k < x->outputs; k++) {
        cr_tensor *t = x->output[k];
        CR_TRY(check_gradient(x, k));
        if (!t || !t->requires_grad || seen_before(x, t, k) || (x->reached && !x->reached[k]))
            continue;
        CR_TRY(joint_fake_cotangent(&x->cotangent[x->roots], x->g, t,
                                    x->stride ? x->stride[k] : NULL));
        CR_TRY(cr_recorder_input(x->r, x->cotangent[x->roots], "cotangent"));
        x->root[x->roots++] = t;
        x->differentiable[k] = true;
    }
    return CR_OK;
}

static cr_status joint_run_backward(replay *x)
{
    cr_backward_call call = {.roots = x->root,
                             .grads = x->cotangent,
                             .root_count = x->roots,
                             .inputs = x->leaf,
                             .input_count = x->wanted,
                             .allow_unused = true};

    return x->roots && x->wanted ? cr_backward(&call, x->gradient) : CR_OK;
}

/* Gradients that pass only through writes without elements, which the functional form lacks. */
static cr_status make_zeros(replay *x)
{
    for (int k = 0; k < x->wanted; k++) {
        cr_value result, arg[CR_MAX_ARGS] = {cr_of_tensor(x->leaf[k])};
        if (x->gradient[k] || !x->has[k])
            continue;
        CR_TRY(cr_call_named("zeros_like", arg, 1, &result));
        x->gradient[k] = result.t;
    }
    return CR_OK;
}

/* --- the whole --- */

static cr_status record_all(replay *x)
{
    CR_TRY(cr_graph_replay(x->g, x->input, x->output));
    if (x->plain)
        return CR_OK;
    CR_TRY(make_cotangents(x));
    cr_recorder_at(x->r, "backward");
    CR_TRY(joint_run_backward(x));
    CR_TRY(make_zeros(x));
    for (int k = 0; k < x->wanted; k++)
        x->has[k] = x->gradient[k];
    return CR_OK;
}

/* Fails for a meta constant: an operator made this tensor without a call, so the graph cannot
 * contain it. */
static cr_status check_constants(const cr_graph *g)
{
    for (size_t i = 0; i < g->constants.len; i++)
        if (g->constants.at[i]->device.fake)
            return cr_fail(CR_RUNTIME,
                           "the backward pass reads a tensor that was made without a call");
    return CR_OK;
}

static cr_status joint_finish(replay *x, cr_aot_joint *out)
{
    cr_tensor **all = cr_alloc((size_t)(x->outputs + x->wanted + 1) * sizeof *all);
    cr_status st;

    CR_NEED(all);
    memcpy(all, x->output, (size_t)x->outputs * sizeof *all);
    memcpy(all + x->outputs, x->gradient, (size_t)x->wanted * sizeof *all);
    st = cr_recorder_finish(&out->graph, x->r, all, x->outputs + x->wanted);
    cr_free(all);
    if (!st && (st = check_constants(out->graph)))
        x->hidden = true;
    return st;
}

static void joint_drop_tensors(cr_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        cr_drop(t[i]);
}

static cr_status make_joint(replay *x, cr_aot_joint *out)
{
    cr_thread_state was = cr_thread;
    cr_status st;

    CR_TRY(make_inputs(x));
    if (x->copies)
        cr_recorder_record_copies(x->r);
    CR_TRY(cr_recorder_start(x->r));
    cr_thread.inference = false;
    cr_thread.no_grad = x->plain;
    cr_thread.fakes = true;
    cr_thread.exclude |= CR_STAGE_BIT(AUTOCAST); /* casts are already in the graph */
    st = record_all(x);
    cr_recorder_stop(x->r);
    cr_thread.no_grad = was.no_grad;
    cr_thread.fakes = was.fakes;
    cr_thread.exclude = was.exclude;
    cr_thread.inference = was.inference;
    CR_TRY(st);
    CR_TRY(joint_finish(x, out));
    out->recorder = x->r;
    out->cotangents = x->roots;
    return CR_OK;
}

/* Sets *hidden when the backward pass reads a tensor that no call made.  `has`: see replay;
 * false for all inputs in the first replay. */
static cr_status joint_new(cr_aot_joint *out, const cr_graph *g, const bool *reached,
                           const int64_t *const *stride, bool plain, bool copies, bool *hidden,
                           bool *has)
{
    size_t in = (size_t)g->input_count, outs = (size_t)g->body->output_count;
    cr_tensor **room = cr_alloc_zero((3 * in + 3 * outs + 1) * sizeof *room);
    replay x = {.g = g,
                .inputs = (int)in,
                .outputs = (int)outs,
                .reached = reached,
                .stride = stride,
                .plain = plain,
                .copies = copies,
                .has = has};
    cr_status st = room ? cr_recorder_new(&x.r, true) : CR_MEMORY;

    *out = (cr_aot_joint){0};
    if (!st) {
        x.input = room;
        x.leaf = room + in;
        x.gradient = room + 2 * in;
        x.output = room + 3 * in;
        x.cotangent = x.output + outs;
        x.root = x.cotangent + outs;
        out->differentiable = x.differentiable = cr_alloc_zero(outs + 1);
        st = x.differentiable ? make_joint(&x, out) : CR_MEMORY;
        *hidden = x.hidden;
        joint_drop_tensors(x.input, x.inputs);
        joint_drop_tensors(x.gradient, x.wanted);
        joint_drop_tensors(x.output, x.outputs);
        joint_drop_tensors(x.cotangent, x.roots);
        if (st) {
            cr_free(x.differentiable);
            cr_recorder_drop(x.r);
            *out = (cr_aot_joint){0};
        }
    }
    cr_free(room);
    return st;
}

static void joint_functional(cr_session *s, void *context)
{
    const cr_graph **g = context;

    (void)s;
    *g = cr_graph_functional(*g);
}

/* True when the call has nodes under no_grad.  Making the graph functional would let the tape
 * see their writes. */
static bool joint_has_no_grad_nodes(const cr_graph *g)
{
    for (size_t i = 0; i < g->body->len; i++)
        if (g->body->at[i]->no_grad)
            return true;
    return false;
}

/* When a saved tensor is overwritten, autograd copies it inside an operator, and the copy is a
 * hidden tensor.  The functional form of the graph has no writes, hence no such copy.  Where
 * the graph has no such form, the copies become calls. */
cr_status cr_aot_joint_of(cr_aot_joint *out, const cr_graph *g, const bool *reached,
                          const int64_t *const *stride)
{
    const cr_graph *functional = g;
    bool hidden = false, *has = cr_alloc_zero((size_t)g->input_count + 1);
    cr_status st =
        has ? joint_new(out, g, reached, stride, false, false, &hidden, has) : CR_MEMORY;

    if (hidden && !joint_has_no_grad_nodes(g) &&
        !cr_session_run(g->session, joint_functional, &functional) &&
        !cr_graph_writes(functional))
        st = joint_new(out, functional, reached, stride, false, false, &hidden, has);
    else if (hidden)
        st = joint_new(out, g, reached, stride, false, true, &hidden, has);
    cr_free(has);
    return st;
}

cr_status cr_aot_joint_new(cr_aot_joint *out, const cr_graph *g)
{
    return cr_aot_joint_of(out, g, NULL, NULL);
}

cr_status cr_aot_parts_new(cr_aot_joint *out, const cr_graph *g)
{
    bool hidden;

    return joint_new(out, g, NULL, NULL, true, false, &hidden, NULL);
}

void cr_aot_joint_drop(cr_aot_joint *j)
{
    cr_recorder_drop(j->recorder);
    cr_free((bool *)(uintptr_t)j->differentiable);
    *j = (cr_aot_joint){0};
}
