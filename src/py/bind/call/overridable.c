/* Python functions that support __torch_function__.
 *
 * overridable(function) calls the function, unless an argument has a __torch_function__ or a
 * function mode is active; then it calls overrides.py.  The arguments are checked in C because
 * every call of nn.functional needs it. */
#include "py/bind/bind.h"

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *function;
} overridable;

static PyObject *handler; /* of overrides.py: handler(wrapped, args, kwargs) */

static bool is_handled(PyObject *const *args, Py_ssize_t n)
{
    if (CR_UNLIKELY(cr_py_mode_count))
        return true;
    for (Py_ssize_t i = 0; i < n; i++)
        if (CR_UNLIKELY(cr_py_overrides(Py_TYPE(args[i]))))
            return true;
    return false;
}

static PyObject *overridable_ask(PyObject *self, PyObject *const *args, Py_ssize_t positional,
                                 PyObject *names)
{
    const cr_py_given g = {args, positional, names};
    PyObject *packed[] = {self, cr_py_given_args(&g), cr_py_given_kwargs(&g)}, *out = NULL;

    if (packed[1] && packed[2])
        out = PyObject_Vectorcall(handler, packed, 3, NULL);
    Py_XDECREF(packed[1]);
    Py_XDECREF(packed[2]);
    return out;
}

static PyObject *overridable_call(PyObject *self, PyObject *const *args, size_t flagged,
                                  PyObject *names)
{
    Py_ssize_t positional = PyVectorcall_NARGS(flagged);

    if (CR_UNLIKELY(is_handled(args, positional + (names ? PyTuple_GET_SIZE(names) : 0))))
        return overridable_ask(self, args, positional, names);
    return PyObject_Vectorcall(((overridable *)self)->function, args, flagged, names);
}

/* --- attributes of the function --- */

static PyObject *forward_get(PyObject *self, PyObject *name)
{
    PyObject *x = PyObject_GenericGetAttr(self, name);

    if (x || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return x;
    PyErr_Clear();
    return PyObject_GetAttr(((overridable *)self)->function, name);
}

static int forward_set(PyObject *self, PyObject *name, PyObject *value)
{
    return PyObject_SetAttr(((overridable *)self)->function, name, value);
}

static PyObject *forward_named(PyObject *self, void *name)
{
    return PyObject_GetAttrString(((overridable *)self)->function, name);
}

static PyObject *overridable_wrapped(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(((overridable *)self)->function);
}

static PyObject *repr(PyObject *self) { return PyObject_Repr(((overridable *)self)->function); }

static PyObject *bind_to(PyObject *self, PyObject *obj, PyObject *type)
{
    (void)type;
    return obj ? PyMethod_New(self, obj) : Py_NewRef(self);
}

/* Pickles by name, as the function would be. */
static PyObject *overridable_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return forward_named(self, (void *)(uintptr_t) "__qualname__");
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((overridable *)self)->function);
    return 0;
}

static void dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(((overridable *)self)->function);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *overridable_make(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *function;
    overridable *self;

    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!:overridable", &PyFunction_Type, &function))
        return NULL;
    self = (overridable *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->vectorcall = overridable_call;
    self->function = Py_NewRef(function);
    return (PyObject *)self;
}

#define FORWARD(name)                                                                          \
    {                                                                                          \
        name, forward_named, NULL, NULL, (void *)(uintptr_t)name                               \
    }
static PyGetSetDef getset[] = {FORWARD("__name__"),
                               FORWARD("__qualname__"),
                               FORWARD("__doc__"),
                               FORWARD("__module__"),
                               {"__wrapped__", overridable_wrapped, NULL, NULL, NULL},
                               {0}};
static PyMethodDef methods[] = {{"__reduce__", overridable_reduce, METH_NOARGS, NULL}, {0}};

static PyTypeObject overridable_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.overridable",
    .tp_basicsize = sizeof(overridable),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(overridable, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = overridable_make,
    .tp_dealloc = dealloc,
    .tp_traverse = traverse,
    .tp_repr = repr,
    .tp_getattro = forward_get,
    .tp_setattro = forward_set,
    .tp_descr_get = bind_to,
    .tp_getset = getset,
    .tp_methods = methods,
};

static PyObject *set_handler(PyObject *m, PyObject *function)
{
    (void)m;
    Py_XSETREF(handler, Py_NewRef(function));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"_set_override_handler", set_handler, METH_O, NULL}, {0}};

int cr_py_overridable_start(PyObject *m)
{
    if (cr_py_type_ready(&overridable_type) < 0 || PyModule_AddFunctions(m, functions) < 0)
        return -1;
    return PyModule_AddObjectRef(m, "overridable", (PyObject *)&overridable_type);
}
