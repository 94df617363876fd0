/* backward, grad, and hooks on tensors. */
#include "graph/graph.h"
#include "py/bind/bind.h"
#include <string.h>

/* --- the interpreter lock for the engine --- */

/* Results of PyGILState_Ensure, one for each held lock: backward may call backward.  Bytes,
 * because thread-local storage is scarce. */
static CR_THREAD struct {
    uint8_t few[64], *more; /* more: all of them, once there are many */
    int depth, room;
} locks;

static void lock_python(void)
{
    PyGILState_STATE was = PyGILState_Ensure();

    if (locks.depth >= (int)CR_LEN(locks.few) && locks.depth >= locks.room) {
        int room = 2 * locks.depth;
        uint8_t *wide = cr_realloc(locks.more, (size_t)room);
        CR_ASSERT(wide); /* there is no way to say no here */
        if (!locks.more)
            memcpy(wide, locks.few, sizeof locks.few);
        locks.more = wide;
        locks.room = room;
    }
    (locks.more ? locks.more : locks.few)[locks.depth++] = (uint8_t)was;
}

static void unlock_python(void)
{
    PyGILState_STATE was =
        (PyGILState_STATE)(locks.more ? locks.more : locks.few)[--locks.depth];

    if (!locks.depth && locks.more) {
        cr_free(locks.more);
        locks.more = NULL;
        locks.room = 0;
    }
    PyGILState_Release(was);
}

/* --- arguments --- */

/* The tensors in a tensor, a sequence or None. */
typedef struct {
    cr_tensor **at; /* counted, NULL for None */
    int count;
} tensors;

static void drop_tensors(tensors *t)
{
    for (int i = 0; t->at && i < t->count; i++)
        cr_drop(t->at[i]);
    PyMem_Free(t->at);
}

/* Reads a GradientEdge, which is a tuple of a node, the index of a result, and a third item.
 * False without an exception for other objects. */
static bool take_edge(tensors *out, PyObject *x, int i)
{
    cr_edge edge = {0};

    if (!PyTuple_Check(x) || PyTuple_CheckExact(x) || PyTuple_GET_SIZE(x) != 3)
        return false;
    edge.node = cr_py_node_of(PyTuple_GET_ITEM(x, 0));
    if (!edge.node) {
        PyErr_Clear();
        return false;
    }
    unsigned long index = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(x, 1));
    if (index == (unsigned long)-1 && PyErr_Occurred())
        return false;
    edge.input = index > UINT32_MAX ? UINT32_MAX : (uint32_t)index;
    cr_status st = cr_edge_tensor(&out->at[i], &edge);
    return !st || cr_py_raise_int(st) == 0;
}

static bool backward_take_tensor(tensors *out, PyObject *x, bool optional, const char *what,
                                 int i)
{
    if (x == Py_None && optional) {
        out->at[i] = NULL;
        return true;
    }
    if (cr_py_is_tensor(x)) {
        out->at[i] = cr_keep(cr_py_tensor_of(x));
        return true;
    }
    if (!optional && take_edge(out, x, i))
        return true;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "element %d of %s is not a Tensor but %s", i, what,
                     Py_TYPE(x)->tp_name);
    return false;
}

/* Reads the tuple `x`. */
static bool read_tensors(tensors *out, PyObject *x, bool optional, const char *what)
{
    Py_ssize_t n = PyTuple_GET_SIZE(x);

    out->at = PyMem_Calloc((size_t)n + 1, sizeof *out->at);
    out->count = (int)n;
    if (!out->at) {
        PyErr_NoMemory();
        return false;
    }
    for (int i = 0; i < out->count; i++)
        if (!backward_take_tensor(out, PyTuple_GET_ITEM(x, i), optional, what, i))
            return false;
    return true;
}

static bool same_shape(const cr_tensor *a, const cr_tensor *b)
{
    return a->ndim == b->ndim && !memcmp(a->size, b->size, a->ndim * sizeof *a->size);
}

static bool shape_mismatch(int i, const cr_tensor *grad, const cr_tensor *root)
{
    PyErr_Format(PyExc_RuntimeError,
                 "Mismatch in shape: grad_output[%d] has a shape of torch.Size(%s) and "
                 "output[%d] has a shape of torch.Size(%s).",
                 i, cr_view_text(grad), i, cr_view_text(root));
    return false;
}

static bool check_roots(const tensors *roots, const tensors *grads)
{
    if (roots->count != grads->count) {
        PyErr_Format(PyExc_RuntimeError, "got %d tensors and %d gradients", roots->count,
                     grads->count);
        return false;
    }
    for (int i = 0; i < roots->count; i++) {
        const cr_tensor *t = roots->at[i], *g = grads->at[i];
        if (g && !same_shape(g, t))
            return shape_mismatch(i, g, t);
        if (g && cr_dtype_is_complex((cr_dtype)g->dtype) !=
                     cr_dtype_is_complex((cr_dtype)t->dtype)) {
            PyErr_Format(PyExc_RuntimeError,
                         "For complex Tensors, both grad_output and output are required to "
                         "have the same dtype. Mismatch in dtype: grad_output[%d] has a dtype "
                         "of torch.%s and output[%d] has a dtype of torch.%s.",
                         i, cr_dtype_name((cr_dtype)g->dtype), i,
                         cr_dtype_name((cr_dtype)t->dtype));
            return false;
        }
        if (!cr_requires_grad(t)) {
            PyErr_Format(
                PyExc_RuntimeError,
                "element %d of tensors does not require grad and does not have a grad_fn", i);
            return false;
        }
        if (!g && t->numel != 1) {
            PyErr_SetString(PyExc_RuntimeError,
                            "grad can be implicitly created only for scalar outputs");
            return false;
        }
        if (!g && !cr_dtype_is_float((cr_dtype)t->dtype)) {
            PyErr_Format(
                PyExc_RuntimeError,
                "grad can be implicitly created only for real scalar outputs but got torch.%s",
                cr_dtype_name((cr_dtype)t->dtype));
            return false;
        }
    }
    return true;
}

/* --- running --- */

static PyObject *results_tuple(cr_tensor **results, int n)
{
    PyObject *out = PyTuple_New(n);

    for (int i = 0; i < n; i++) {
        PyObject *item = results[i] ? cr_py_wrap(results[i]) : Py_NewRef(Py_None);
        if (out && item)
            PyTuple_SET_ITEM(out, i, item);
        else
            Py_CLEAR(out);
    }
    return out;
}

static PyObject *backward_run(const cr_backward_call *call)
{
    bool gives = call->inputs && !call->accumulate_inputs;
    cr_tensor **results = NULL;
    PyObject *out = NULL;
    cr_status st;

    if (gives && !(results = PyMem_Calloc((size_t)call->input_count + 1, sizeof *results)))
        return PyErr_NoMemory();
    cr_recorder_note_backward();
    CR_PY_UNLOCKED(st = cr_backward(call, results));
    if (st)
        cr_py_raise(st);
    else
        out = gives ? results_tuple(results, call->input_count) : Py_NewRef(Py_None);
    PyMem_Free(results);
    return out;
}

/* While a call is recorded, missing cotangents are made by an operator, because tensors made by
 * the engine would not be in the graph.  */
static int make_ones(const tensors *roots, tensors *grads)
{
    cr_value result;

    for (int i = 0; i < roots->count; i++) {
        cr_value arg = cr_of_tensor(roots->at[i]);
        if (grads->at[i])
            continue;
        cr_status st = cr_call_named("ones_like", &arg, 1, &result);
        if (st)
            return cr_py_raise_int(st);
        grads->at[i] = result.t;
    }
    return 0;
}

static PyObject *run_recorded(const cr_backward_call *call, const tensors *roots,
                              tensors *grads)
{
    if (cr_recorder_active() && make_ones(roots, grads) < 0)
        return NULL;
    return backward_run(call);
}

/* Gradients with a graph in .grad refer to their tensors. */
static int warn_of_cycle(void)
{
    static bool said;

    return cr_py_warn_once(
        &said,
        "Using backward() with create_graph=True will create a reference cycle between "
        "the parameter and its gradient which can cause a memory leak. We recommend using "
        "autograd.grad when creating the graph to avoid this. If you have to use this "
        "function, make sure to reset the .grad fields of your parameters to None after "
        "use to break the cycle and avoid the leak.");
}

/* _run_backward(tensors, grads, retain_graph, create_graph, inputs, accumulate,
 * allow_unused); tuples, `inputs` may be None. */
static PyObject *backward_run_call(PyObject *m, PyObject *args)
{
    PyObject *roots, *grads, *inputs, *out = NULL;
    tensors r = {0}, g = {0}, in = {0};
    int retain, create, accumulate, allow_unused;

    (void)m;
    if (!PyArg_ParseTuple(args, "O!O!ppOpp:_run_backward", &PyTuple_Type, &roots, &PyTuple_Type,
                          &grads, &retain, &create, &inputs, &accumulate, &allow_unused) ||
        (create && accumulate && warn_of_cycle() < 0))
        return NULL;
    if (read_tensors(&r, roots, false, "tensors") &&
        read_tensors(&g, grads, true, "gradients") &&
        (inputs == Py_None || read_tensors(&in, inputs, false, "inputs")) &&
        check_roots(&r, &g)) {
        const cr_backward_call call = {.roots = r.at,
                                       .grads = g.at,
                                       .root_count = r.count,
                                       .inputs = inputs == Py_None ? NULL : in.at,
                                       .input_count = in.count,
                                       .accumulate_inputs = accumulate != 0,
                                       .retain_graph = retain != 0,
                                       .create_graph = create != 0,
                                       .allow_unused = allow_unused != 0};
        out = run_recorded(&call, &r, &g);
    }
    drop_tensors(&r);
    drop_tensors(&g);
    drop_tensors(&in);
    return out;
}

/* --- forward mode --- */

static cr_status add_leaf(void *list, cr_tensor *leaf)
{
    PyObject *x;

    cr_lock_python();
    x = cr_py_wrap_keep(leaf);
    cr_status st = x && PyList_Append(list, x) == 0 ? CR_OK : CR_PYTHON;
    Py_XDECREF(x);
    cr_unlock_python();
    return st;
}

static PyObject *forward_run(const tensors *roots, const tensors *inputs,
                             const tensors *tangents)
{
    PyObject *leaves = PyList_New(0), *found = NULL, *out = NULL;
    cr_tensor **made = PyMem_Calloc((size_t)roots->count + 1, sizeof *made);
    const cr_push_call call = {.roots = roots->at,
                               .inputs = inputs->at,
                               .tangents = tangents->at,
                               .root_count = roots->count,
                               .input_count = inputs->count,
                               .leaf = add_leaf,
                               .context = leaves};

    if (leaves && made) {
        cr_status st;
        cr_recorder_note_backward();
        CR_PY_UNLOCKED(st = cr_push_tangents(&call, made));
        found = st ? cr_py_raise(st) : results_tuple(made, roots->count);
        out = found ? PyTuple_Pack(2, found, leaves) : NULL;
    }
    if (!made)
        PyErr_NoMemory();
    Py_XDECREF(found);
    Py_XDECREF(leaves);
    PyMem_Free(made);
    return out;
}

/* _push_forward(tensors, inputs, tangents): the tangents of tensors, None where no input leads
 * to one, and the leaves that were differentiated by. */
static PyObject *forward_run_call(PyObject *m, PyObject *args)
{
    PyObject *roots, *inputs, *tangents, *out = NULL;
    tensors r = {0}, in = {0}, t = {0};

    (void)m;
    if (!PyArg_ParseTuple(args, "O!O!O!:_push_forward", &PyTuple_Type, &roots, &PyTuple_Type,
                          &inputs, &PyTuple_Type, &tangents))
        return NULL;
    if (read_tensors(&r, roots, false, "tensors") &&
        read_tensors(&in, inputs, false, "inputs") &&
        read_tensors(&t, tangents, false, "tangents") && check_roots(&in, &t))
        out = forward_run(&r, &in, &t);
    drop_tensors(&r);
    drop_tensors(&in);
    drop_tensors(&t);
    return out;
}

static PyObject *continue_history(PyObject *m, PyObject *args)
{
    PyObject *x, *of;

    (void)m;
    if (!PyArg_ParseTuple(args, "O!O!:_continue_history", cr_py_tensor_type, &x,
                          cr_py_tensor_type, &of))
        return NULL;
    cr_status st = cr_continue_history(cr_py_tensor_of(x), cr_py_tensor_of(of));
    return st ? cr_py_raise(st) : Py_NewRef(Py_None);
}

static PyObject *set_forward_mode(PyObject *m, PyObject *on)
{
    (void)m;
    atomic_store_explicit(&cr_forward_mode, PyObject_IsTrue(on) > 0, memory_order_relaxed);
    Py_RETURN_NONE;
}

static PyObject *entry_name(const cr_op *op)
{
    return PyUnicode_FromFormat("%s%s%s", op->name, *op->overload ? "." : "", op->overload);
}

/* Takes the value's reference. */
static void put_entry(PyObject **dict, const cr_op *op, PyObject *value)
{
    PyObject *name = value ? entry_name(op) : NULL;

    if (!name || PyDict_SetItem(*dict, name, value) < 0)
        Py_CLEAR(*dict);
    Py_XDECREF(name);
    Py_XDECREF(value);
}

static PyObject *pulled_entries(PyObject *m, PyObject *unused)
{
    PyObject *out = PyDict_New();
    const cr_op *op;
    uint64_t count;

    (void)m;
    (void)unused;
    for (int i = 0; out && (op = cr_pulled_at(i, &count)); i++)
        put_entry(&out, op, PyLong_FromUnsignedLongLong(count));
    return out;
}

static PyObject *ways_of_entry(const cr_op *op)
{
    PyObject *out = PyDict_New();
    const char *param, *way;

    for (int d = 0; out && (way = cr_push_way(op, d, &param)); d++) {
        PyObject *text = PyUnicode_FromString(way);
        if (!text || PyDict_SetItemString(out, param, text) < 0)
            Py_CLEAR(out);
        Py_XDECREF(text);
    }
    return out;
}

static PyObject *tangent_ways(PyObject *m, PyObject *unused)
{
    PyObject *out = PyDict_New();

    (void)m;
    (void)unused;
    for (int i = 0; out && i < cr_ops_table_count(); i++)
        if (cr_ops_at(i)->differentiable)
            put_entry(&out, cr_ops_at(i), ways_of_entry(cr_ops_at(i)));
    return out;
}

/* Converts a tensor, a sequence of tensors or None to a tuple. */
static PyObject *as_tuple(PyObject *x)
{
    if (cr_py_is_tensor(x) || x == Py_None)
        return PyTuple_Pack(1, x);
    return PySequence_Tuple(x);
}

static PyObject *backward_overridden(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *function = PyObject_GetAttrString((PyObject *)cr_py_tensor_type, "backward"),
             *out;
    PyObject *all[5] = {self};
    Py_ssize_t n = PyTuple_GET_SIZE(args);

    (void)kwargs;
    for (Py_ssize_t i = 0; i < n && i < 4; i++)
        all[i + 1] = PyTuple_GET_ITEM(args, i);
    const cr_py_given g = {all, n < 4 ? n + 1 : 5, NULL};
    out = function ? cr_py_override_call(function, &self, 1, &g) : NULL;
    Py_XDECREF(function);
    return out;
}

static PyObject *tensor_backward(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"gradient", "retain_graph", "create_graph", "inputs", NULL};
    PyObject *gradient = Py_None, *retain = Py_None, *inputs = Py_None, *grads, *into = NULL,
             *roots, *packed, *out = NULL;
    int create = 0;

    if (!Py_IS_TYPE(self, cr_py_tensor_type) && !kwargs && cr_py_overrides(Py_TYPE(self)))
        return backward_overridden(self, args, kwargs);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOpO:backward", names, &gradient, &retain,
                                     &create, &inputs))
        return NULL;
    if (gradient != Py_None && !cr_py_is_tensor(gradient))
        return PyErr_Format(PyExc_TypeError,
                            "gradients can be either Tensors or None, but got %s",
                            Py_TYPE(gradient)->tp_name);
    roots = PyTuple_Pack(1, self);
    grads = PyTuple_Pack(1, gradient);
    into = inputs == Py_None ? Py_NewRef(Py_None) : as_tuple(inputs);
    if (into && into != Py_None && !PyTuple_GET_SIZE(into)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "`inputs` argument to `backward()` cannot be empty.");
    } else if (roots && grads && into) {
        int keep = retain == Py_None ? create : PyObject_IsTrue(retain);
        packed = Py_BuildValue("(OOiiOii)", roots, grads, keep, create, into, 1, 1);
        out = packed ? backward_run_call(NULL, packed) : NULL;
        Py_XDECREF(packed);
    }
    Py_XDECREF(roots);
    Py_XDECREF(grads);
    Py_XDECREF(into);
    return out;
}

/* --- hooks --- */

/* Adds `callable` to the tensor's dict of hooks of one kind. */
static PyObject *tensor_add_hook(PyObject *self, PyObject **dict, PyObject *callable,
                                 bool accumulated)
{
    cr_tensor *t = cr_py_tensor_of(self);
    cr_status st;
    bool made;
    PyObject *handle = cr_py_hook_dict_add(dict, callable, &made);

    if (!handle || !made)
        return handle;
    cr_hook_call call =
        accumulated ? cr_py_accumulated_hooks(*dict) : cr_py_tensor_hooks(*dict);
    Py_DECREF(*dict); /* the C hook holds a reference */
    st = accumulated ? cr_hook_accumulated(NULL, t, &call) : cr_hook_tensor(NULL, t, &call);
    if (!st)
        return handle;
    *dict = NULL;
    call.drop(call.context);
    Py_DECREF(handle);
    return cr_py_raise(st);
}

static PyObject *tensor_register_hook(PyObject *self, PyObject *callable)
{
    if (!cr_requires_grad(cr_py_tensor_of(self)))
        return PyErr_Format(PyExc_RuntimeError,
                            "cannot register a hook on a tensor that doesn't require gradient");
    return tensor_add_hook(self, &((cr_py_tensor *)self)->hooks, callable, false);
}

static PyObject *tensor_register_accumulated(PyObject *self, PyObject *callable)
{
    cr_tensor *t = cr_py_tensor_of(self);

    if (!cr_requires_grad(t))
        return PyErr_Format(PyExc_RuntimeError,
                            "cannot register a hook on a tensor that doesn't require gradient");
    if (!cr_is_leaf(t))
        return PyErr_Format(
            PyExc_RuntimeError,
            "post accumulate grad hooks cannot be registered on non-leaf tensors");
    return tensor_add_hook(self, &((cr_py_tensor *)self)->accumulated, callable, true);
}

/* --- the run --- */

static PyObject *graph_task_id(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyLong_FromLongLong(cr_backward_number());
}

static PyObject *will_execute(PyObject *m, PyObject *node)
{
    cr_node *n = cr_py_node_of(node);

    (void)m;
    return n ? PyBool_FromLong(cr_backward_reaches(n)) : NULL;
}

static PyObject *checkpoint_valid(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(cr_backward_accumulates());
}

/* _leaf_has_hooks(tensor): whether a hook waits for the gradient of a leaf */
static PyObject *leaf_has_hooks(PyObject *m, PyObject *x)
{
    (void)m;
    if (!cr_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "_leaf_has_hooks expects a Tensor, not %s",
                            Py_TYPE(x)->tp_name);
    return PyBool_FromLong(cr_leaf_has_hooks(cr_py_tensor_of(x)));
}

static PyObject *increment_version(PyObject *m, PyObject *x)
{
    (void)m;
    if (!cr_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "increment_version expects a Tensor, not %s",
                            Py_TYPE(x)->tp_name);
    cr_py_tensor_of(x)->storage->version++;
    Py_RETURN_NONE;
}

/* --- anomaly mode --- */

static PyObject *set_anomaly(PyObject *m, PyObject *args)
{
    int on, check_nan = 1;

    (void)m;
    if (!PyArg_ParseTuple(args, "p|p:_set_anomaly_enabled", &on, &check_nan))
        return NULL;
    cr_anomaly_set(on != 0, check_nan != 0);
    Py_RETURN_NONE;
}

static PyObject *is_anomaly(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(cr_anomaly_on());
}

static PyObject *anomaly_checks_nan(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(cr_anomaly_checks_nan());
}

/* The Python stack at a node's creation, as text. */
static void *record_stack(void)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *m = PyImport_ImportModule("traceback");
    PyObject *lines = m ? PyObject_CallMethod(m, "format_stack", NULL) : NULL;
    PyObject *empty = lines ? PyUnicode_FromString("") : NULL;
    PyObject *text = empty ? PyUnicode_Join(empty, lines) : NULL;

    if (!text) /* an interrupt: a list of lines has no other error */
        cr_py_raise_later();
    Py_XDECREF(m);
    Py_XDECREF(lines);
    Py_XDECREF(empty);
    PyGILState_Release(lock);
    return text;
}

static void report_stack(void *record, const char *node_name)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    if (PyErr_WarnFormat(
            PyExc_UserWarning, 1,
            "Error detected in %s. Traceback of forward call that caused the error:\n%S",
            node_name, record ? (PyObject *)record : Py_None) < 0 &&
        !cr_py_forget_error())
        cr_py_raise_later();
    PyErr_Restore(type, value, trace);
    PyGILState_Release(lock);
}

static void free_stack(void *record)
{
    PyGILState_STATE lock = PyGILState_Ensure();

    Py_XDECREF((PyObject *)record);
    PyGILState_Release(lock);
}

PyMethodDef cr_py_engine_methods[] = {
    {"backward", (PyCFunction)(void (*)(void))tensor_backward, METH_VARARGS | METH_KEYWORDS,
     "Adds the gradients of this tensor to the .grad of the leaves.  Sizes: of one element, or "
     "gradient has the tensor's.\n\n"
     "    >>> x = torch.tensor(3., requires_grad=True)\n"
     "    >>> (x * x).backward()\n"
     "    >>> x.grad\n"
     "    tensor(6.)\n"},
    {"register_hook", tensor_register_hook, METH_O,
     "Calls hook(grad) when the gradient of this tensor is known; a result takes its place.\n\n"
     "    >>> x = torch.tensor(3., requires_grad=True)\n"
     "    >>> handle = x.register_hook(lambda g: g * 10)\n"
     "    >>> (x * x).backward()\n"
     "    >>> x.grad\n"
     "    tensor(60.)\n"},
    {"register_post_accumulate_grad_hook", tensor_register_accumulated, METH_O,
     "Calls hook(tensor) after .grad of this leaf was updated."},
    {0}};

static PyMethodDef functions[] = {
    {"_run_backward", backward_run_call, METH_VARARGS, NULL},
    {"_push_forward", forward_run_call, METH_VARARGS, NULL},
    {"_continue_history", continue_history, METH_VARARGS, NULL},
    {"_set_forward_mode", set_forward_mode, METH_O, NULL},
    {"_pulled_entries", pulled_entries, METH_NOARGS,
     "How often forward mode went back and forth through calls of an entry, by its name."},
    {"_tangent_ways", tangent_ways, METH_NOARGS,
     "How each entry's derivatives give tangents, by the names of the entry and its "
     "parameter."},
    {"_current_graph_task_id", graph_task_id, METH_NOARGS, NULL},
    {"_will_engine_execute_node", will_execute, METH_O, NULL},
    {"_is_checkpoint_valid", checkpoint_valid, METH_NOARGS, NULL},
    {"_leaf_has_hooks", leaf_has_hooks, METH_O, NULL},
    {"_increment_version", increment_version, METH_O, NULL},
    {"_set_anomaly_enabled", set_anomaly, METH_VARARGS, NULL},
    {"is_anomaly_enabled", is_anomaly, METH_NOARGS, NULL},
    {"is_anomaly_check_nan_enabled", anomaly_checks_nan, METH_NOARGS, NULL},
    {0}};

/* The dict belongs to the earlier history; its C hook keeps it alive. */
static void forget_hooks(cr_tensor *t) { ((cr_py_tensor *)t->peer)->hooks = NULL; }

static void refuse_hook(void) { cr_recorder_refuse("a hook runs in the backward pass"); }

int cr_py_engine_start(PyObject *m)
{
    cr_history_changed = forget_hooks;
    cr_hook_runs = refuse_hook;
    cr_lock_python = lock_python;
    cr_unlock_python = unlock_python;
    cr_anomaly_record = record_stack;
    cr_anomaly_report = report_stack;
    cr_anomaly_free = free_stack;
    return PyModule_AddFunctions(m, functions);
}
