/* Hooks on tensors saved for backward: Python's two functions as cr_saved_hooks.
 *
 * A packed object keeps alive the hooks that can unpack it. */
#include "graph/graph.h"
#include "py/bind/bind.h"

typedef struct {
    cr_saved_hooks c; /* first member: autograd's structure */
    PyObject *pack, *unpack;
    int count;     /* refcount: the stack and packed objects; protected by the lock */
    bool recorded; /* entered while the thread's calls are recorded */
} py_hooks;

typedef struct {
    py_hooks *hooks;
    PyObject *object;
} py_packed;

static CR_THREAD py_hooks *top;
static CR_THREAD PyObject *disabled;      /* the error message while hooks are disabled */
static CR_THREAD uint64_t recorded_packs; /* calls of hooks that were entered in a recording */

static void hooks_drop(py_hooks *h)
{
    if (--h->count)
        return;
    Py_DECREF(h->pack);
    Py_DECREF(h->unpack);
    PyMem_Free(h);
}

static cr_status saved_hooks_pack(void *context, cr_tensor *t, void **out)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    py_hooks *h = context;
    py_packed *p = PyMem_Malloc(sizeof *p);
    PyObject *tensor = p ? cr_py_wrap_keep(t) : PyErr_NoMemory();
    PyObject *object = tensor ? PyObject_CallOneArg(h->pack, tensor) : NULL;

    Py_XDECREF(tensor);
    recorded_packs += h->recorded;
    if (object) {
        h->count++;
        *p = (py_packed){h, object};
        *out = p;
    } else {
        PyMem_Free(p);
    }
    PyGILState_Release(lock);
    return object ? CR_OK : CR_PYTHON;
}

static cr_status unpacked(cr_tensor **out, PyObject *x)
{
    if (!x)
        return CR_PYTHON;
    if (!cr_py_is_tensor(x)) {
        PyErr_Format(PyExc_TypeError,
                     "Output of saved tensor unpack_hook expected to be a Tensor "
                     "but got result of type %s",
                     Py_TYPE(x)->tp_name);
        return CR_PYTHON;
    }
    *out = cr_keep(cr_py_tensor_of(x));
    return CR_OK;
}

static cr_status unpack(void *packed, cr_tensor **out)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    py_packed *p = packed;
    PyObject *x = PyObject_CallOneArg(p->hooks->unpack, p->object);
    cr_status st = unpacked(out, x);

    Py_XDECREF(x);
    PyGILState_Release(lock);
    return st;
}

static void saved_hooks_drop(void *packed)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    py_packed *p = packed;
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    Py_DECREF(p->object);
    hooks_drop(p->hooks);
    PyMem_Free(p);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(lock);
}

static PyObject *saved_hooks_push(PyObject *m, PyObject *args)
{
    PyObject *pack_fn, *unpack_fn;
    py_hooks *h;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO", &pack_fn, &unpack_fn))
        return NULL;
    if (disabled)
        return PyErr_Format(PyExc_RuntimeError, "%U", disabled);
    h = PyMem_Calloc(1, sizeof *h);
    if (!h)
        return PyErr_NoMemory();
    h->c = (cr_saved_hooks){
        .pack = saved_hooks_pack, .unpack = unpack, .drop = saved_hooks_drop, .context = h};
    h->pack = Py_NewRef(pack_fn);
    h->unpack = Py_NewRef(unpack_fn);
    h->count = 1;
    cr_saved_hooks_push(&h->c);
    top = h;
    Py_RETURN_NONE;
}

static PyObject *pop(PyObject *m, PyObject *unused)
{
    py_hooks *h = top;

    (void)m;
    (void)unused;
    if (!h)
        return PyErr_Format(PyExc_RuntimeError, "there are no saved tensor hooks to remove");
    cr_saved_hooks_pop();
    top = (py_hooks *)h->c.outer;
    hooks_drop(h);
    Py_RETURN_NONE;
}

/* From now on hooks raise the message, or None does not; the earlier message or None.  A graph
 * is the same with and without. */
static PyObject *refuse_hooks(PyObject *m, PyObject *message)
{
    PyObject *was;

    (void)m;
    if (message != Py_None && !PyUnicode_Check(message))
        return PyErr_Format(PyExc_TypeError, "the message must be str or None, not %s",
                            Py_TYPE(message)->tp_name);
    if (top && message != Py_None && !disabled)
        return PyErr_Format(PyExc_RuntimeError, "%U", message);
    was = disabled ? disabled : Py_NewRef(Py_None);
    disabled = message == Py_None ? NULL : Py_NewRef(message);
    return was;
}

/* The same as a statement of the program. */
static PyObject *disable(PyObject *m, PyObject *message)
{
    PyObject *was = refuse_hooks(m, message);

    if (was)
        cr_recorder_refuse("it disables saved-tensor hooks");
    return was;
}

/* A number that grows with each tensor that hooks of a recorded call pack. */
static PyObject *count_recorded_packs(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyLong_FromUnsignedLongLong(recorded_packs);
}

static PyMethodDef functions[] = {
    {"_recorded_packs", count_recorded_packs, METH_NOARGS, NULL},
    {"_push_saved_tensors_hooks", saved_hooks_push, METH_VARARGS, NULL},
    {"_pop_saved_tensors_hooks", pop, METH_NOARGS, NULL},
    {"_disable_saved_tensors_hooks", disable, METH_O, NULL},
    {0}};

/* --- the class saved_tensors_hooks --- */

/* Graphs do not know hooks: a recording would save the tensors as they are.  Hooks of a
 * checkpoint give back equal tensors; what their function does beside is seen in parts, whose
 * calls then save through the hooks.  Returns whether calls are recorded. */
static bool refuse_graph(PyObject *self)
{
    PyObject *equal = PyObject_GetAttrString(self, "_gives_equal_tensors");
    bool recorded = cr_recorder_active();

    if (recorded && equal != Py_True)
        cr_recorder_refuse("it uses saved-tensor hooks");
    Py_XDECREF(equal);
    PyErr_Clear();
    return recorded;
}

static PyObject *enter(PyObject *m, PyObject *self)
{
    bool recorded = refuse_graph(self);
    PyObject *pack_fn = PyObject_GetAttrString(self, "pack_hook");
    PyObject *unpack_fn = pack_fn ? PyObject_GetAttrString(self, "unpack_hook") : NULL;
    PyObject *args = unpack_fn ? PyTuple_Pack(2, pack_fn, unpack_fn) : NULL;
    PyObject *out = args ? saved_hooks_push(m, args) : NULL;

    if (out)
        top->recorded = recorded;
    Py_XDECREF(pack_fn);
    Py_XDECREF(unpack_fn);
    Py_XDECREF(args);
    return out;
}

/* --- refusal in a derivative --- */

static PyObject *enter_refusal(PyObject *m, PyObject *self)
{
    PyObject *text = PyObject_GetAttrString(self, "text");
    PyObject *was = text ? refuse_hooks(m, text) : NULL;
    int done = was ? PyObject_SetAttrString(self, "before", was) : -1;

    if (was && done < 0)
        Py_XDECREF(refuse_hooks(m, was));
    Py_XDECREF(text);
    Py_XDECREF(was);
    return done < 0 ? NULL : Py_NewRef(self);
}

static PyObject *exit_refusal(PyObject *m, PyObject *args)
{
    PyObject *before = PyObject_GetAttrString(PyTuple_GET_ITEM(args, 0), "before");
    PyObject *was = before ? refuse_hooks(m, before) : NULL;

    Py_XDECREF(before);
    Py_XDECREF(was);
    return was ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef methods[] = {
    {"_enter_hook_refusal", enter_refusal, METH_O, "Hooks raise self.text from now on."},
    {"_exit_hook_refusal", exit_refusal, METH_VARARGS, "Ends it."},
    {"_enter_saved_tensors_hooks", enter, METH_O, "The method __enter__ of hooks."},
    {"_exit_saved_tensors_hooks", pop, METH_VARARGS, "The method __exit__ of hooks."},
    {0}};

int cr_py_saved_hooks_start(PyObject *m)
{
    return PyModule_AddFunctions(m, functions) < 0 ? -1 : cr_py_add_methods(m, methods);
}
