/* grad_fn: the graph's nodes as Python objects.
 *
 * An operator's node gets a wrapper on first access, of a class made for the node's name.  The
 * wrapper holds a reference on the node; the node's peer slot borrows the wrapper.  The Python
 * object of a custom Function's node is its context (function.c), which has the same
 * methods. */
#include "py/bind/bind.h"
#include <string.h>

typedef struct {
    PyObject_HEAD cr_node *node;
    PyObject *metadata;
} py_node;

static PyTypeObject node_type;
static PyObject *classes; /* name -> class */

cr_node *cr_py_node_of(PyObject *self)
{
    cr_node *n = PyObject_TypeCheck(self, &node_type) ? ((py_node *)self)->node
                                                      : cr_py_context_node(self);
    if (!n)
        PyErr_Format(
            PyExc_RuntimeError,
            "this attribute of '%s' is valid only for a grad_fn of a tensor that exists",
            Py_TYPE(self)->tp_name);
    return n;
}

/* The class of a node's name, such as "AddBackward0".  It has no instance layout. */
static PyObject *node_class_of(const char *name)
{
    PyObject *cls = PyDict_GetItemString(classes, name), *bases, *dict;

    if (cls)
        return cls;
    bases = Py_BuildValue("(O)", (PyObject *)&node_type);
    dict = Py_BuildValue("{s()ss}", "__slots__", "__module__", "builtins");
    cls = bases && dict
              ? PyObject_CallFunction((PyObject *)&PyType_Type, "sOO", name, bases, dict)
              : NULL;
    Py_XDECREF(bases);
    Py_XDECREF(dict);
    if (!cls || PyDict_SetItemString(classes, name, cls) < 0) {
        Py_XDECREF(cls);
        return NULL;
    }
    Py_DECREF(cls); /* the dict holds a reference */
    return cls;
}

PyObject *cr_py_node_object(cr_node *n)
{
    PyObject *context = cr_py_node_context(n), *cls;
    py_node *self;

    if (context)
        return Py_NewRef(context);
    if (n->peer)
        return Py_NewRef((PyObject *)n->peer);
    cls = node_class_of(cr_node_name(n));
    if (!cls)
        return NULL;
    self = (py_node *)((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, 0);
    if (!self)
        return NULL;
    self->node = cr_node_keep(n);
    n->peer = self;
    return (PyObject *)self;
}

static void node_dealloc(PyObject *self)
{
    py_node *p = (py_node *)self;

    PyObject_GC_UnTrack(self);
    if (p->node) {
        p->node->peer = NULL;
        cr_node_drop(p->node);
    }
    Py_XDECREF(p->metadata);
    Py_TYPE(self)->tp_free(self);
}

/* The hooks of a node that only its wrapper keeps. */
static int node_traverse(PyObject *self, visitproc visit, void *arg)
{
    const py_node *p = (py_node *)self;

    Py_VISIT(p->metadata);
    if (!p->node || cr_calls_apart ||
        atomic_load_explicit(&p->node->count, memory_order_relaxed) != 1)
        return 0;
    Py_VISIT(cr_py_node_hooks(p->node, false));
    Py_VISIT(cr_py_node_hooks(p->node, true));
    return 0;
}

static int node_clear(PyObject *self)
{
    const py_node *p = (py_node *)self;

    if (p->metadata)
        PyDict_Clear(p->metadata);
    if (p->node) {
        cr_py_clear_hooks(cr_py_node_hooks(p->node, false));
        cr_py_clear_hooks(cr_py_node_hooks(p->node, true));
    }
    return 0;
}

static PyObject *node_name(PyObject *self, PyObject *unused)
{
    cr_node *n = cr_py_node_of(self);

    (void)unused;
    if (n && cr_node_variable(n))
        return PyUnicode_FromString("torch::autograd::AccumulateGrad");
    if (n && !strncmp(cr_node_name(n), "Copy", 4)) /* CopyBackwards, CopySlices */
        return PyUnicode_FromFormat("torch::autograd::%s", cr_node_name(n));
    return n ? PyUnicode_FromString(cr_node_name(n)) : NULL;
}

static PyObject *edge_object(const cr_edge *e)
{
    PyObject *node = e->node ? cr_py_node_object(e->node) : Py_NewRef(Py_None);

    return node ? Py_BuildValue("(NI)", node, e->input) : NULL;
}

static PyObject *node_next_functions(PyObject *self, void *unused)
{
    cr_node *n = cr_py_node_of(self);
    PyObject *out = n ? PyTuple_New(n->edge_count) : NULL;

    (void)unused;
    for (uint32_t i = 0; out && i < n->edge_count; i++) {
        PyObject *edge = edge_object(&n->edges[i]);
        if (!edge) {
            Py_CLEAR(out);
            break;
        }
        PyTuple_SET_ITEM(out, i, edge);
    }
    return out;
}

static PyObject *node_metadata(PyObject *self, void *unused)
{
    py_node *p = (py_node *)self;

    (void)unused;
    if (!PyObject_TypeCheck(self, &node_type))
        return PyDict_New();
    if (!p->metadata && !(p->metadata = PyDict_New()))
        return NULL;
    return Py_NewRef(p->metadata);
}

static PyObject *node_variable(PyObject *self, void *unused)
{
    cr_node *n = cr_py_node_of(self);
    cr_tensor *leaf = n ? cr_node_variable(n) : NULL;

    (void)unused;
    if (n && !leaf)
        PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'",
                     Py_TYPE(self)->tp_name);
    return leaf ? cr_py_wrap_keep(leaf) : NULL;
}

static PyObject *node_sequence(PyObject *self, PyObject *unused)
{
    cr_node *n = cr_py_node_of(self);

    (void)unused;
    return n ? PyLong_FromUnsignedLongLong(n->sequence) : NULL;
}

/* Adds `callable` to the node's dict of pre-hooks or post-hooks, which the C hook owns: it
 * stays when the wrapper ends. */
static PyObject *node_add_hook(PyObject *self, PyObject *callable, bool after)
{
    cr_node *n = cr_py_node_of(self);
    PyObject *dict, *handle;
    cr_hook_call call;
    cr_status st;
    bool made;

    if (!n)
        return NULL;
    dict = cr_py_node_hooks(n, after);
    handle = cr_py_hook_dict_add(&dict, callable, &made);
    if (!handle || !made)
        return handle;
    call = after ? cr_py_after_hooks(dict) : cr_py_before_hooks(dict);
    Py_DECREF(dict); /* the C hook holds a reference */
    st = after ? cr_hook_after(NULL, n, &call) : cr_hook_before(NULL, n, &call);
    if (!st)
        return handle;
    call.drop(call.context);
    Py_DECREF(handle);
    return cr_py_raise(st);
}

static PyObject *node_register_hook(PyObject *self, PyObject *callable)
{
    return node_add_hook(self, callable, true);
}

static PyObject *node_register_prehook(PyObject *self, PyObject *callable)
{
    return node_add_hook(self, callable, false);
}

/* --- _saved_NAME --- */

static PyObject *saved_object(cr_value *v)
{
    PyObject *list;

    switch ((cr_tag)v->tag) {
    case CR_TENSOR: return cr_py_wrap(v->t);
    case CR_NUMBER: return cr_py_scalar_object(v->number);
    case CR_INT: return PyLong_FromLongLong(v->i);
    case CR_TRUTH: return PyBool_FromLong(v->i != 0);
    case CR_FLOAT: return PyFloat_FromDouble(v->d);
    case CR_INTS: return cr_py_ints_tuple(v->ints, v->len);
    case CR_STRING: return PyUnicode_FromStringAndSize(v->s, v->len);
    case CR_DTYPE_VAL: return Py_NewRef(cr_py_dtype_object((cr_dtype)v->i));
    case CR_TENSORS:
        list = PyTuple_New(v->len);
        for (uint32_t i = 0; list && i < v->len; i++)
            PyTuple_SET_ITEM(
                list, i, cr_py_wrap_keep(v->list[i].tag == CR_TENSOR ? v->list[i].t : NULL));
        return list;
    default: Py_RETURN_NONE;
    }
}

/* The saved value `wanted`; NULL without an exception when the node saved none of this name. */
static PyObject *saved_attribute(cr_node *n, const char *wanted)
{
    const char *name = "";
    cr_value v;

    for (int i = 0; name; i++) {
        cr_status st = cr_node_saved(&name, &v, n, i);
        if (st)
            return cr_py_raise(st);
        if (name && !strcmp(name, wanted))
            return saved_object(&v);
        if (name && v.tag == CR_TENSOR)
            cr_drop(v.t);
    }
    return NULL;
}

static PyObject *node_getattro(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    PyObject *found;

    if (!text || strncmp(text, "_saved_", 7))
        return PyObject_GenericGetAttr(self, name);
    found = saved_attribute(((py_node *)self)->node, text + 7);
    if (!found && !PyErr_Occurred())
        PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'",
                     Py_TYPE(self)->tp_name, name);
    return found;
}

PyMethodDef cr_py_node_methods[] = {
    {"name", node_name, METH_NOARGS, "The name of the node."},
    {"register_hook", node_register_hook, METH_O,
     "Calls hook(grad_inputs, grad_outputs) after the node ran."},
    {"register_prehook", node_register_prehook, METH_O,
     "Calls hook(grad_outputs) before the node runs."},
    {"_sequence_nr", node_sequence, METH_NOARGS, NULL},
    {0}};
PyGetSetDef cr_py_node_getset[] = {
    {"next_functions", node_next_functions, NULL,
     "The nodes that receive this node's gradients.", NULL},
    {"metadata", node_metadata, NULL, "A dict for the user.", NULL},
    {0}};

static PyGetSetDef own_getset[] = {
    {"next_functions", node_next_functions, NULL,
     "The nodes that receive this node's gradients.", NULL},
    {"metadata", node_metadata, NULL, "A dict for the user.", NULL},
    {"variable", node_variable, NULL, "The leaf of an AccumulateGrad node.", NULL},
    {0}};

static PyTypeObject node_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "autograd.graph.Node",
    .tp_basicsize = sizeof(py_node),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A recorded operation.",
    .tp_traverse = node_traverse,
    .tp_clear = node_clear,
    .tp_dealloc = node_dealloc,
    .tp_getattro = node_getattro,
    .tp_methods = cr_py_node_methods,
    .tp_getset = own_getset,
};

int cr_py_node_start(PyObject *m)
{
    classes = PyDict_New();
    return classes ? cr_py_add_type(m, "Node", &node_type) : -1;
}
