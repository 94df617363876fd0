/* Functions with a derivative written in Python: torch.autograd.Function.
 *
 * The context (`ctx`) is an instance of a class that Python's metaclass makes for each
 * Function.  A recorded call makes a node, which owns the context.  The context borrows the
 * node and is its grad_fn object. */
#include "graph/graph.h"
#include "py/bind/bind.h"
#include <string.h>

/* The ctx of an autograd.Function.
 * Invariant: saved has saved_count references, of which the last forward_count are for jvp.
 * likes has one item for each result, and is_tensor one for each of input_count inputs. */
typedef struct {
    PyObject_HEAD
        /* borrowed; NULL before the call is recorded and after the node is freed */
        cr_node *node;
    PyObject *to_save, *dirty, *non_differentiable; /* tuples, or NULL */
    PyObject *needs_input_grad;                     /* tuple of bools */
    PyObject *likes;       /* one per result: an empty tensor with its shape, or None */
    PyObject *input_likes; /* one per input, when the class has a jvp; else NULL */
    PyObject *to_save_forward;
    cr_saved *saved;
    uint32_t saved_count, forward_count; /* those for jvp are the last */
    uint8_t *is_tensor;                  /* one per input */
    Py_ssize_t input_count;
    bool materialize, released;
    bool in_jvp; /* saved_tensors are those of save_for_forward */
} context;

typedef struct {
    cr_node node;
    context *ctx; /* a reference */
} function_node;

static PyTypeObject context_type;

static context *context_of(PyObject *self) { return (context *)self; }

/* --- functions of the node's kind --- */

static const char *function_kind_name(cr_node *n)
{
    return Py_TYPE(((function_node *)n)->ctx)->tp_name;
}

static void drop_saved(context *c)
{
    for (uint32_t i = 0; i < c->saved_count; i++)
        cr_saved_drop(&c->saved[i]);
    PyMem_Free(c->saved);
    c->saved = NULL;
    c->saved_count = c->forward_count = 0;
}

static void kind_release(cr_node *n)
{
    context *c = ((function_node *)n)->ctx;

    if (!c)
        return;
    c->released |= c->saved_count > 0;
    drop_saved(c);
}

static void kind_free(cr_node *n)
{
    context *c = ((function_node *)n)->ctx;

    ((function_node *)n)->ctx = NULL;
    if (!c)
        return;
    cr_py_graph_objects--;
    c->node = NULL;
    Py_DECREF((PyObject *)c);
}

static cr_status kind_apply(cr_node *n, cr_tensor *const *grads, cr_tensor **grads_out);
static cr_status kind_push(cr_node *n, cr_tensor *const *tangents, cr_tensor **out);

static const cr_node_kind function_kind = {.name_of = function_kind_name,
                                           .apply = kind_apply,
                                           .push = kind_push,
                                           .release = kind_release,
                                           .free = kind_free,
                                           .python = true};

PyObject *cr_py_node_context(cr_node *n)
{
    return n->kind == &function_kind ? (PyObject *)((function_node *)n)->ctx : NULL;
}

cr_node *cr_py_context_node(PyObject *self)
{
    return PyObject_TypeCheck(self, &context_type) ? context_of(self)->node : NULL;
}

/* --- backward --- */

static PyObject *zero_gradient(PyObject *like)
{
    const cr_tensor *t = cr_py_tensor_of(like);
    cr_tensor *made;
    cr_status st = cr_tensor_new(&made, (cr_dtype)t->dtype, t->device, t->ndim, t->size);
    if (st)
        return cr_py_raise(st);
    cr_view v;
    st = cr_reach_view(&v, made);
    if (!st && v.data)
        st = cr_fill_elements(&v, cr_scalar_int(0));
    if (!st)
        return cr_py_wrap(made);
    cr_drop(made);
    return cr_py_raise(st);
}

static PyObject *cotangent(const context *c, cr_tensor *grad, uint32_t i)
{
    PyObject *like = PyTuple_GET_ITEM(c->likes, i);

    return !grad && c->materialize && like != Py_None ? zero_gradient(like)
                                                      : cr_py_wrap_keep(grad);
}

/* Calls backward(ctx, *grads) of the Function's class. */
static PyObject *call_backward(context *c, cr_tensor *const *grads)
{
    uint32_t n = c->node->result_count;
    PyObject *forward = PyObject_GetAttrString((PyObject *)c, "_forward_cls");
    PyObject *method = forward ? PyObject_GetAttrString(forward, "_backward_function") : NULL;
    PyObject *args = method ? PyTuple_New(n + 1) : NULL, *out = NULL;

    if (args)
        PyTuple_SET_ITEM(args, 0, Py_NewRef((PyObject *)c));
    for (uint32_t i = 0; args && i < n; i++)
        cr_py_put_item(&args, i + 1, cotangent(c, grads[i], i));
    out = args ? PyObject_CallObject(method, args) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(method);
    Py_XDECREF(forward);
    return out;
}

static cr_status wrong_count(const context *c, Py_ssize_t got)
{
    PyErr_Format(
        PyExc_RuntimeError,
        "function %s returned an incorrect number of gradients (expected %zd, got %zd)",
        Py_TYPE(c)->tp_name, c->input_count, got);
    return CR_PYTHON;
}

/* Converts item i of backward's tuple for its edge. */
static cr_status take_gradient(const context *c, PyObject *x, Py_ssize_t i, cr_tensor **out)
{
    if (x == Py_None)
        return CR_OK;
    if (!c->is_tensor[i])
        PyErr_Format(PyExc_RuntimeError,
                     "function %s returned a gradient different from None at position %zd, but "
                     "the corresponding forward input was not a Variable",
                     Py_TYPE(c)->tp_name, i + 1);
    else if (!cr_py_is_tensor(x))
        PyErr_Format(PyExc_RuntimeError, "expected Variable or None (got %s)",
                     Py_TYPE(x)->tp_name);
    if (PyErr_Occurred())
        return CR_PYTHON;
    *out = cr_keep(cr_py_tensor_of(x));
    return CR_OK;
}

static cr_status spread_gradients(const context *c, PyObject *tuple, cr_tensor **out)
{
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    int edge = 0;

    for (Py_ssize_t i = c->input_count; i < n; i++) /* further items must be None */
        if (PyTuple_GET_ITEM(tuple, i) != Py_None)
            return wrong_count(c, n);
    if (n < c->input_count)
        return wrong_count(c, n);
    for (Py_ssize_t i = 0; i < c->input_count; i++) {
        cr_tensor *unused = NULL;
        CR_TRY(take_gradient(c, PyTuple_GET_ITEM(tuple, i), i,
                             c->is_tensor[i] ? &out[edge] : &unused));
        edge += c->is_tensor[i];
    }
    return CR_OK;
}

static cr_status kind_apply(cr_node *n, cr_tensor *const *grads, cr_tensor **grads_out)
{
    context *c = ((function_node *)n)->ctx;
    PyObject *answer = call_backward(c, grads), *tuple;
    cr_status st;

    if (!answer)
        return CR_PYTHON;
    tuple = PyTuple_Check(answer)  ? Py_NewRef(answer)
            : PyList_Check(answer) ? PySequence_Tuple(answer)
                                   : PyTuple_Pack(1, answer);
    Py_DECREF(answer);
    if (!tuple)
        return CR_PYTHON;
    st = spread_gradients(c, tuple, grads_out);
    Py_DECREF(tuple);
    return st;
}

/* --- forward mode --- */

/* The tangents of a call's tensors, None for others. */
static PyObject *tangents_of_inputs(const context *c, cr_tensor *const *tangents)
{
    PyObject *out = PyTuple_New(c->input_count);

    for (Py_ssize_t i = 0, edge = 0; out && i < c->input_count; i++)
        cr_py_put_item(
            &out, i, c->is_tensor[i] ? cr_py_wrap_keep(tangents[edge++]) : Py_NewRef(Py_None));
    return out;
}

/* Calls _push_call(ctx, tangents, count), which calls jvp. */
static cr_status kind_push(cr_node *n, cr_tensor *const *tangents, cr_tensor **out)
{
    context *c = ((function_node *)n)->ctx;
    PyObject *module = cr_py_import("autograd.function"), *answer = NULL;
    PyObject *given = module ? tangents_of_inputs(c, tangents) : NULL;
    cr_status st = CR_OK;

    if (given)
        answer = PyObject_CallMethod(module, "_push_call", "OOI", (PyObject *)c, given,
                                     (unsigned)n->result_count);
    Py_XDECREF(given);
    Py_XDECREF(module);
    if (!answer)
        return CR_PYTHON;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(answer) && !st; k++) {
        PyObject *t = PyTuple_GET_ITEM(answer, k);
        if (t != Py_None)
            st = cr_tangent_add(&out[k], n, (uint32_t)k, cr_keep(cr_py_tensor_of(t)));
    }
    Py_DECREF(answer);
    return st;
}

/* --- the call --- */

typedef struct {
    context *ctx;
    PyObject *inputs;  /* tuple */
    PyObject *outputs; /* tuple; new objects replace its items */
    cr_edge *edges;    /* edges of the tensor inputs, taken before forward runs */
    uint32_t edge_count;
    bool recorded;
} call;

static bool function_contains(PyObject *tuple, PyObject *x)
{
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); i++)
        if (PyTuple_GET_ITEM(tuple, i) == x)
            return true;
    return false;
}

static int read_inputs(call *k)
{
    Py_ssize_t n = PyTuple_GET_SIZE(k->inputs);
    context *c = k->ctx;

    c->input_count = n;
    c->is_tensor = PyMem_Calloc((size_t)n + 1, 1);
    c->needs_input_grad = PyTuple_New(n);
    k->edges = PyMem_Calloc((size_t)n + 1, sizeof *k->edges);
    if (!c->is_tensor || !c->needs_input_grad || !k->edges) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyTuple_GET_ITEM(k->inputs, i);
        bool tensor = cr_py_is_tensor(x),
             needs = tensor && cr_requires_grad(cr_py_tensor_of(x));
        c->is_tensor[i] = tensor;
        PyTuple_SET_ITEM(c->needs_input_grad, i, PyBool_FromLong(needs));
        k->recorded |= needs && !cr_thread.no_grad && !cr_thread.inference;
    }
    for (Py_ssize_t i = 0; k->recorded && i < n; i++) {
        if (!c->is_tensor[i])
            continue;
        cr_status st = cr_edge_of(&k->edges[k->edge_count++],
                                  cr_py_tensor_of(PyTuple_GET_ITEM(k->inputs, i)));
        if (st)
            return cr_py_raise_int(st);
    }
    return 0;
}

/* Calls forward(ctx, *inputs), or forward(*inputs) and setup_context(ctx, inputs, output). */
static PyObject *run_forward(PyObject *cls, const call *k)
{
    PyObject *forward = PyObject_GetAttrString(cls, "forward"), *args, *out = NULL;
    PyObject *setup = forward ? PyObject_GetAttrString(cls, "_setup_function") : NULL;
    PyObject *ctx = (PyObject *)k->ctx;
    Py_ssize_t n = PyTuple_GET_SIZE(k->inputs);
    bool split = setup && setup != Py_None;

    args = setup ? PyTuple_New(n + !split) : NULL;
    if (args && !split)
        PyTuple_SET_ITEM(args, 0, Py_NewRef(ctx));
    for (Py_ssize_t i = 0; args && i < n; i++)
        PyTuple_SET_ITEM(args, i + !split, Py_NewRef(PyTuple_GET_ITEM(k->inputs, i)));
    out = args ? PyObject_CallObject(forward, args) : NULL;
    if (out && split) {
        PyObject *done = PyObject_CallFunctionObjArgs(setup, ctx, k->inputs, out, NULL);
        if (!done)
            Py_CLEAR(out);
        Py_XDECREF(done);
    }
    Py_XDECREF(args);
    Py_XDECREF(setup);
    Py_XDECREF(forward);
    return out;
}

static PyObject *run_unrecorded(PyObject *cls, const call *k)
{
    bool was = cr_thread.no_grad;

    cr_thread.no_grad = true;
    PyObject *out = run_forward(cls, k);
    cr_thread.no_grad = was;
    return out;
}

static cr_status function_make_node(call *k)
{
    cr_node *n;

    CR_TRY(cr_node_new(&n, sizeof(function_node), &function_kind, k->edge_count,
                       (uint32_t)PyTuple_GET_SIZE(k->outputs)));
    ((function_node *)n)->ctx = (context *)Py_NewRef((PyObject *)k->ctx);
    cr_py_graph_objects++;
    k->ctx->node = n;
    memcpy(n->edges, k->edges, k->edge_count * sizeof *k->edges);
    k->edge_count = 0; /* the node owns the references now */
    return CR_OK;
}

/* Replaces output i by another tensor over the same memory. */
static cr_status replace_output(call *k, Py_ssize_t i, cr_tensor *t)
{
    PyObject *w = cr_py_wrap(t), *old = PyTuple_GET_ITEM(k->outputs, i);

    if (!w)
        return CR_PYTHON;
    PyTuple_SET_ITEM(k->outputs, i, w);
    Py_DECREF(old);
    return CR_OK;
}

static cr_status alias_output(call *k, Py_ssize_t i)
{
    cr_tensor *alias;

    CR_TRY(cr_detached(&alias, cr_py_tensor_of(PyTuple_GET_ITEM(k->outputs, i))));
    return replace_output(k, i, alias);
}

/* Sets the history of output i. */
static cr_status record_output(call *k, Py_ssize_t i)
{
    const context *c = k->ctx;
    PyObject *x = PyTuple_GET_ITEM(k->outputs, i);
    cr_tensor *t = cr_py_tensor_of(x);
    bool input = function_contains(k->inputs, x), dirty = function_contains(c->dirty, x);

    if (!k->recorded || function_contains(c->non_differentiable, x) ||
        !cr_dtype_is_inexact((cr_dtype)t->dtype)) {
        if (k->recorded && dirty && input)
            return CR_OK;
        return input && !dirty ? alias_output(k, i) : CR_OK;
    }
    if (dirty && input) {
        if (cr_requires_grad(t) && cr_is_leaf(t))
            return cr_fail(
                CR_RUNTIME,
                "a leaf Variable that requires grad has been used in an in-place operation.");
        CR_TRY(cr_check_inplace(t, true));
        return cr_rebase_history(t, c->node, (uint32_t)i);
    }
    if (input || (cr_requires_grad(t) && !cr_base_of(t))) {
        CR_TRY(alias_output(k, i));
        cr_tensor *alias = cr_py_tensor_of(PyTuple_GET_ITEM(k->outputs, i));
        if (input)
            CR_TRY(cr_track_view(alias, t, CR_VIEW_FUNCTION));
        t = alias;
    }
    cr_set_view_kind(t, PyTuple_GET_SIZE(k->outputs) > 1 ? CR_VIEW_MULTIPLE : CR_VIEW_FUNCTION);
    return cr_set_history(t, c->node, (uint32_t)i);
}

/* An empty tensor with the shape of `x`, for making cotangents that do not arrive. */
static PyObject *like_of(PyObject *x)
{
    const int64_t zero[CR_MAX_DIMS] = {0};
    const cr_tensor *t;
    cr_tensor *like;
    cr_storage *s;

    if (!cr_py_is_tensor(x))
        Py_RETURN_NONE;
    t = cr_py_tensor_of(x);
    cr_status st = cr_storage_new(&s, t->device, 0);
    if (st)
        return cr_py_raise(st);
    st = cr_tensor_over(&like, s, (cr_dtype)t->dtype, t->ndim, t->size, zero, 0);
    if (st) {
        cr_storage_drop(s);
        return cr_py_raise(st);
    }
    return cr_py_wrap(like);
}

static PyObject *likes_of(PyObject *tuple)
{
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    PyObject *likes = PyTuple_New(n);

    for (Py_ssize_t i = 0; likes && i < n; i++)
        cr_py_put_item(&likes, i, like_of(PyTuple_GET_ITEM(tuple, i)));
    return likes;
}

static int record_likes(call *k)
{
    PyObject *forward = PyObject_GetAttrString((PyObject *)k->ctx, "_forward_cls");
    PyObject *jvp = forward ? PyObject_GetAttrString(forward, "_has_jvp") : NULL;
    bool pushed = jvp == Py_True;

    Py_XDECREF(jvp);
    Py_XDECREF(forward);
    if (!jvp || !(k->ctx->likes = likes_of(k->outputs)))
        return -1;
    return pushed && !(k->ctx->input_likes = likes_of(k->inputs)) ? -1 : 0;
}

static cr_status save_tuple(call *k, PyObject *tuple)
{
    context *c = k->ctx;

    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *x = PyTuple_GET_ITEM(tuple, i);
        cr_tensor *t = x == Py_None ? NULL : cr_py_tensor_of(x);
        CR_TRY(cr_save(&c->saved[c->saved_count], t, function_contains(k->outputs, x)));
        c->saved_count++;
    }
    return CR_OK;
}

static cr_status save_tensors(call *k)
{
    context *c = k->ctx;
    Py_ssize_t n = c->to_save ? PyTuple_GET_SIZE(c->to_save) : 0;
    Py_ssize_t forward = c->to_save_forward ? PyTuple_GET_SIZE(c->to_save_forward) : 0;

    c->saved = PyMem_Calloc((size_t)(n + forward) + 1, sizeof *c->saved);
    if (!c->saved)
        return cr_fail(CR_MEMORY, "out of memory");
    CR_TRY(save_tuple(k, c->to_save));
    CR_TRY(save_tuple(k, c->to_save_forward));
    c->forward_count = (uint32_t)forward;
    Py_CLEAR(c->to_save);
    Py_CLEAR(c->to_save_forward);
    return CR_OK;
}

/* Refuses an input that forward() changed and kept to itself. */
static cr_status check_dirty(const call *k)
{
    const PyObject *dirty = k->ctx->dirty;

    for (Py_ssize_t i = 0; dirty && i < PyTuple_GET_SIZE(dirty); i++)
        if (!function_contains(k->outputs, PyTuple_GET_ITEM(dirty, i)))
            return cr_fail(CR_RUNTIME,
                           "Some elements marked as dirty during the forward method were not "
                           "returned as output. The inputs that are modified inplace must all "
                           "be outputs of the Function.");
    return CR_OK;
}

static int record(call *k)
{
    cr_status st = check_dirty(k);

    if (st)
        return cr_py_raise_int(st);
    if (k->recorded && (record_likes(k) < 0 || (st = function_make_node(k))))
        return st ? cr_py_raise_int(st) : -1;
    for (Py_ssize_t i = 0; !st && i < PyTuple_GET_SIZE(k->outputs); i++)
        if (cr_py_is_tensor(PyTuple_GET_ITEM(k->outputs, i)))
            st = record_output(k, i);
    if (!st && k->recorded)
        st = save_tensors(k);
    for (Py_ssize_t i = 0; !st && i < PyTuple_GET_SIZE(k->outputs); i++)
        if (cr_py_is_tensor(PyTuple_GET_ITEM(k->outputs, i)))
            cr_recorder_gets_history(cr_py_tensor_of(PyTuple_GET_ITEM(k->outputs, i)));
    return st ? cr_py_raise_int(st) : 0;
}

/* Calls forward and returns its outputs, recorded. */
static PyObject *apply_call(PyObject *cls, call *k)
{
    PyObject *raw, *out = NULL;

    if (read_inputs(k) < 0)
        return NULL;
    raw = run_unrecorded(cls, k);
    if (!raw)
        return NULL;
    if (k->recorded && !cr_recorder_is_whole()) /* else the calls of forward() are recorded */
        cr_py_refuse_held("a custom autograd.Function has a backward pass of its own");
    bool single = !PyTuple_Check(raw);
    k->outputs = PyTuple_New(single ? 1 : PyTuple_GET_SIZE(raw));
    for (Py_ssize_t i = 0; k->outputs && i < PyTuple_GET_SIZE(k->outputs); i++)
        PyTuple_SET_ITEM(k->outputs, i, Py_NewRef(single ? raw : PyTuple_GET_ITEM(raw, i)));
    Py_DECREF(raw);
    if (k->outputs && record(k) == 0)
        out = Py_NewRef(single ? PyTuple_GET_ITEM(k->outputs, 0) : k->outputs);
    if (k->ctx->node) /* the recorded results keep the node alive */
        cr_node_drop(k->ctx->node);
    return out;
}

static PyObject *function_apply(PyObject *cls, PyObject *args)
{
    PyObject *type = PyObject_GetAttrString(cls, "_backward_cls"), *out = NULL;
    call k = {.inputs = args};

    if (!type)
        return NULL;
    k.ctx = (context *)PyObject_CallNoArgs(type);
    Py_DECREF(type);
    if (!k.ctx)
        return NULL;
    if (PyObject_TypeCheck((PyObject *)k.ctx, &context_type))
        out = apply_call(cls, &k);
    else
        PyErr_SetString(PyExc_TypeError,
                        "a Function's context class must derive from FunctionCtx");
    for (uint32_t i = 0; i < k.edge_count; i++)
        cr_node_drop(k.edges[i].node);
    PyMem_Free(k.edges);
    Py_XDECREF(k.outputs);
    Py_DECREF((PyObject *)k.ctx);
    return out;
}

/* --- methods of the context --- */

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    context *c = (context *)type->tp_alloc(type, 0);

    (void)args;
    (void)kwargs;
    if (c)
        c->materialize = true;
    return (PyObject *)c;
}

static int context_traverse(PyObject *self, visitproc visit, void *arg)
{
    context *c = context_of(self);

    Py_VISIT(c->to_save);
    Py_VISIT(c->to_save_forward);
    Py_VISIT(c->dirty);
    Py_VISIT(c->non_differentiable);
    for (uint32_t i = 0; i < c->saved_count; i++)
        if (c->saved[i].tensor) {
            int stop = cr_py_visit_tensor(c->saved[i].tensor, visit, arg);
            if (stop)
                return stop;
        }
    return 0;
}

static int context_clear(PyObject *self)
{
    context *c = context_of(self);

    Py_CLEAR(c->to_save);
    Py_CLEAR(c->to_save_forward);
    Py_CLEAR(c->dirty);
    Py_CLEAR(c->non_differentiable);
    return 0;
}

static void context_dealloc(PyObject *self)
{
    context *c = context_of(self);

    PyObject_GC_UnTrack(self);
    context_clear(self);
    drop_saved(c);
    Py_XDECREF(c->needs_input_grad);
    Py_XDECREF(c->likes);
    Py_XDECREF(c->input_likes);
    PyMem_Free(c->is_tensor);
    Py_TYPE(self)->tp_free(self);
}

static int keep_tensors(PyObject **where, PyObject *args, bool none, const char *what)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *x = PyTuple_GET_ITEM(args, i);
        if (cr_py_is_tensor(x) || (none && x == Py_None))
            continue;
        PyErr_Format(PyExc_TypeError, "%s can only %s, but argument %zd is of type %s", what,
                     none ? "save variables" : "take tensors", i, Py_TYPE(x)->tp_name);
        return -1;
    }
    Py_XSETREF(*where, Py_NewRef(args));
    return 0;
}

static PyObject *save_for_backward(PyObject *self, PyObject *args)
{
    if (keep_tensors(&context_of(self)->to_save, args, true, "save_for_backward") < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *save_for_forward(PyObject *self, PyObject *args)
{
    if (keep_tensors(&context_of(self)->to_save_forward, args, true, "save_for_forward") < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *mark_dirty(PyObject *self, PyObject *args)
{
    if (keep_tensors(&context_of(self)->dirty, args, false, "mark_dirty") < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *mark_non_differentiable(PyObject *self, PyObject *args)
{
    if (keep_tensors(&context_of(self)->non_differentiable, args, false,
                     "mark_non_differentiable") < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *set_materialize_grads(PyObject *self, PyObject *x)
{
    int truth = PyObject_IsTrue(x);

    if (truth < 0)
        return NULL;
    context_of(self)->materialize = truth;
    Py_RETURN_NONE;
}

static PyObject *saved_tensors(PyObject *self, void *unused)
{
    context *c = context_of(self);
    PyObject *out;

    (void)unused;
    if (c->released)
        return cr_py_raise(cr_fail_released());
    if (c->to_save && !c->node)
        return Py_NewRef(c->to_save);
    uint32_t backward = c->saved_count - c->forward_count;
    bool forward = c->in_jvp && c->forward_count;
    uint32_t first = forward ? backward : 0, count = forward ? c->forward_count : backward;
    out = PyTuple_New(count);
    for (uint32_t i = 0; out && i < count; i++) {
        cr_tensor *t = NULL;
        cr_status st = cr_saved_get(&t, &c->saved[first + i], c->node);
        if (st) {
            Py_DECREF(out);
            return cr_py_raise(st);
        }
        PyTuple_SET_ITEM(out, i, t ? cr_py_wrap(t) : Py_NewRef(Py_None));
    }
    return out;
}

static PyObject *needs_input_grad(PyObject *self, void *unused)
{
    PyObject *tuple = context_of(self)->needs_input_grad;

    (void)unused;
    return Py_NewRef(tuple ? tuple : Py_None);
}

static int set_needs_input_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    Py_XSETREF(context_of(self)->needs_input_grad, Py_XNewRef(value));
    return 0;
}

static PyObject *get_in_jvp(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(context_of(self)->in_jvp);
}

static int set_in_jvp(PyObject *self, PyObject *value, void *unused)
{
    int truth = value ? PyObject_IsTrue(value) : 0;

    (void)unused;
    if (truth < 0)
        return -1;
    context_of(self)->in_jvp = truth;
    return 0;
}

static PyObject *tuple_or_none(PyObject *tuple) { return Py_NewRef(tuple ? tuple : Py_None); }

static PyObject *get_to_save(PyObject *self, void *unused)
{
    (void)unused;
    return tuple_or_none(context_of(self)->to_save);
}

static PyObject *get_input_likes(PyObject *self, void *unused)
{
    (void)unused;
    return tuple_or_none(context_of(self)->input_likes);
}

static PyObject *get_dirty(PyObject *self, void *unused)
{
    (void)unused;
    return tuple_or_none(context_of(self)->dirty);
}

static PyObject *get_non_differentiable(PyObject *self, void *unused)
{
    (void)unused;
    return tuple_or_none(context_of(self)->non_differentiable);
}

static PyObject *get_materialize(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(context_of(self)->materialize);
}

static PyMethodDef context_methods[] = {
    {"save_for_backward", save_for_backward, METH_VARARGS, "Saves tensors for backward."},
    {"_save_for_forward", save_for_forward, METH_VARARGS, NULL},
    {"mark_dirty", mark_dirty, METH_VARARGS,
     "Declares the inputs that forward changed in place."},
    {"mark_non_differentiable", mark_non_differentiable, METH_VARARGS,
     "Declares the outputs that have no derivative."},
    {"set_materialize_grads", set_materialize_grads, METH_O,
     "True (the default): missing cotangents become zeros; False: None."},
    {0}};
static PyGetSetDef context_getset[] = {
    {"saved_tensors", saved_tensors, NULL, "The tensors that save_for_backward saved.", NULL},
    {"saved_variables", saved_tensors, NULL, NULL, NULL},
    {"needs_input_grad", needs_input_grad, set_needs_input_grad,
     "For each input, True when its gradient is needed.", NULL},
    {"to_save", get_to_save, NULL, NULL, NULL},
    {"_input_likes", get_input_likes, NULL, NULL, NULL},
    {"_in_jvp", get_in_jvp, set_in_jvp, NULL, NULL},
    {"dirty_tensors", get_dirty, NULL, NULL, NULL},
    {"non_differentiable", get_non_differentiable, NULL, NULL, NULL},
    {"materialize_grads", get_materialize, NULL, NULL, NULL},
    {0}};

static PyTypeObject context_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C._FunctionBase",
    .tp_basicsize = sizeof(context),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The context of a call of a Function.",
    .tp_new = context_new,
    .tp_dealloc = context_dealloc,
    .tp_traverse = context_traverse,
    .tp_clear = context_clear,
    .tp_methods = context_methods,
    .tp_getset = context_getset,
};

/* Adds the node methods to contexts, because a context is a grad_fn. */
static int add_node_methods(void)
{
    PyObject *dict = context_type.tp_dict;

    for (PyMethodDef *d = cr_py_node_methods; d->ml_name; d++) {
        PyObject *f = PyDescr_NewMethod(&context_type, d);
        if (!f || PyDict_SetItemString(dict, d->ml_name, f) < 0)
            return -1;
        Py_DECREF(f);
    }
    for (PyGetSetDef *d = cr_py_node_getset; d->name; d++) {
        PyObject *f = PyDescr_NewGetSet(&context_type, d);
        if (!f || PyDict_SetItemString(dict, d->name, f) < 0)
            return -1;
        Py_DECREF(f);
    }
    PyType_Modified(&context_type);
    return 0;
}

/* _apply_function(cls, inputs) */
static PyObject *apply_function(PyObject *m, PyObject *args)
{
    PyObject *cls, *inputs;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO!:_apply_function", &cls, &PyTuple_Type, &inputs))
        return NULL;
    return function_apply(cls, inputs);
}

static PyMethodDef functions[] = {{"_apply_function", apply_function, METH_VARARGS, NULL}, {0}};

int cr_py_function_start(PyObject *m)
{
    if (cr_py_add_type(m, "_FunctionBase", &context_type) < 0 || add_node_methods() < 0)
        return -1;
    return PyModule_AddFunctions(m, functions);
}
