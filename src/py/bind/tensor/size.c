/* torch.Size: a tuple of sizes. */
#include "py/bind/bind.h"

PyObject *cr_py_size(int ndim, const int64_t *size)
{
    PyObject *self = cr_py_size_type.tp_alloc(&cr_py_size_type, ndim);

    for (int i = 0; self && i < ndim; i++) {
        PyObject *item = PyLong_FromLongLong(size[i]);
        if (!item) {
            Py_DECREF(self);
            return NULL;
        }
        PyTuple_SET_ITEM(self, i, item);
    }
    return self;
}

/* Makes a Size of a tuple's items.  Takes ownership of the tuple. */
static PyObject *from_tuple(PyObject *tuple)
{
    if (!tuple || !PyTuple_Check(tuple)) /* the item of a subscript, or NotImplemented */
        return tuple;
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    PyObject *self = cr_py_size_type.tp_alloc(&cr_py_size_type, n);
    for (Py_ssize_t i = 0; self && i < n; i++)
        PyTuple_SET_ITEM(self, i, Py_NewRef(PyTuple_GET_ITEM(tuple, i)));
    Py_DECREF(tuple);
    return self;
}

/* Whether an item is a size of a trace as users see it: a tensor without dims. */
static bool size_of_trace(PyObject *item)
{
    return cr_py_is_tracing() && cr_py_is_tensor(item) && cr_py_tensor_of(item)->ndim == 0;
}

static PyObject *size_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *self = PyTuple_Type.tp_new(type, args, kwargs);

    for (Py_ssize_t i = 0; self && i < PyTuple_GET_SIZE(self); i++) {
        PyObject *item = PyTuple_GET_ITEM(self, i);
        int64_t n;
        if (size_of_trace(item))
            continue;
        if (cr_py_int_from(item, &n) != CR_PY_FITS) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_TypeError,
                             "torch.Size() takes an iterable of 'int' (item %zd is '%s')", i,
                             Py_TYPE(item)->tp_name);
            Py_CLEAR(self);
            break;
        }
        if (PyLong_Check(item) && !PyBool_Check(item))
            continue;
        PyTuple_SET_ITEM(self, i, PyLong_FromLongLong(n));
        Py_DECREF(item);
    }
    return self;
}

static PyObject *size_repr(PyObject *self)
{
    PyObject *list = PySequence_List(self);
    PyObject *text = list ? PyUnicode_FromFormat("torch.Size(%R)", list) : NULL;

    Py_XDECREF(list);
    return text;
}

static PyObject *size_numel(PyObject *self, PyObject *unused)
{
    PyObject *n = PyLong_FromLong(1);

    (void)unused;
    for (Py_ssize_t i = 0; n && i < PyTuple_GET_SIZE(self); i++)
        Py_SETREF(n, PyNumber_Multiply(n, PyTuple_GET_ITEM(self, i)));
    return n;
}

static PyObject *size_reduce(PyObject *self, PyObject *unused)
{
    PyObject *items = PySequence_Tuple(self);

    (void)unused;
    return items ? Py_BuildValue("O(N)", Py_TYPE(self), items) : NULL;
}

static PyObject *size_subscript(PyObject *self, PyObject *index)
{
    return from_tuple(PyTuple_Type.tp_as_mapping->mp_subscript(self, index));
}

static PyObject *size_concat(PyObject *a, PyObject *b)
{
    if (!PyTuple_Check(a))
        Py_RETURN_NOTIMPLEMENTED;
    if (!PyTuple_Check(b))
        return PyErr_Format(PyExc_TypeError,
                            "can only concatenate tuple (not %s) to torch.Size",
                            Py_TYPE(b)->tp_name);
    return from_tuple(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}

static PyObject *size_repeat(PyObject *self, Py_ssize_t n)
{
    return from_tuple(PyTuple_Type.tp_as_sequence->sq_repeat(self, n));
}

static PySequenceMethods size_sequence = {.sq_repeat = size_repeat};
static PyNumberMethods size_number = {.nb_add = size_concat};
static PyMappingMethods size_mapping = {.mp_subscript = size_subscript};
static PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "The number of elements of a tensor of this size."},
    {"__reduce__", size_reduce, METH_NOARGS, NULL},
    {0}};

PyTypeObject cr_py_size_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "Size",
    .tp_base = &PyTuple_Type,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The sizes of a tensor.",
    .tp_new = size_new,
    .tp_repr = size_repr,
    .tp_as_number = &size_number,
    .tp_as_sequence = &size_sequence,
    .tp_as_mapping = &size_mapping,
    .tp_methods = size_methods,
};

int cr_py_size_start(PyObject *m) { return cr_py_add_type(m, "Size", &cr_py_size_type); }
