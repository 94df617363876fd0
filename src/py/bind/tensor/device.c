/* torch.device, and the default device of factories. */
#include "py/bind/bind.h"

static const char *device_kind_name(int kind)
{
    return cr_device_kind_name((cr_device_kind)kind);
}

PyObject *cr_py_device_object(int kind, int index)
{
    cr_py_device *self = PyObject_New(cr_py_device, &cr_py_device_type);

    if (!self)
        return NULL;
    self->kind = kind;
    self->index = index;
    self->before = NULL;
    return (PyObject *)self;
}

PyObject *cr_py_device_of(cr_device d)
{
    return cr_py_device_object(d.kind, cr_is_host(d) || cr_is_meta(d) ? -1 : d.index);
}

static int from_text(PyObject *x, int *kind, int *index)
{
    const char *text = PyUnicode_AsUTF8(x);

    if (!text)
        return -1;
    cr_status st = cr_device_parse(text, kind, index);
    return st ? cr_py_raise_int(st) : 1;
}

int cr_py_device_from(PyObject *x, int *kind, int *index)
{
    int64_t i;

    if (Py_IS_TYPE(x, &cr_py_device_type)) {
        *kind = ((cr_py_device *)x)->kind;
        *index = ((cr_py_device *)x)->index;
        return 1;
    }
    if (PyUnicode_Check(x))
        return from_text(x, kind, index);
    if (!PyLong_Check(x) || PyBool_Check(x))
        return 0;
    if (cr_py_int_from(x, &i) != CR_PY_FITS)
        return -1;
    if (i < 0) {
        PyErr_SetString(PyExc_RuntimeError, "Device index must not be negative");
        return -1;
    }
    *kind = cr_device_accelerator();
    *index = (int)i;
    if (*kind != CR_CPU)
        return 1;
    PyErr_SetString(PyExc_RuntimeError,
                    "Cannot access accelerator device when none is available.");
    return -1;
}

static PyObject *bad_device(PyObject *args)
{
    bool one = PyTuple_GET_SIZE(args) == 1;
    const char *type = one ? Py_TYPE(PyTuple_GET_ITEM(args, 0))->tp_name : "";
    const char *why =
        "\n      didn't match because some of the arguments have invalid types: (!";

    return PyErr_Format(PyExc_TypeError,
                        "device() received an invalid combination of arguments - got (%s), but "
                        "expected one of:\n"
                        " * (torch.device device)%s%s%s\n * (str type, int index = -1)\n",
                        type, one ? why : "", type, one ? "!)" : "");
}

/* Reads the argument `index`.  False with an exception. */
static bool read_index(PyObject *x, bool positional, int *index)
{
    int64_t i;

    cr_py_fit fit = cr_py_int_from(x, &i);
    if (fit == CR_PY_MISFIT)
        PyErr_Format(PyExc_TypeError, "device(): argument 'index'%s must be int, not %s",
                     positional ? " (position 2)" : "", Py_TYPE(x)->tp_name);
    else if (fit == CR_PY_FITS && (i > INT_MAX || i < INT_MIN))
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
    else if (fit == CR_PY_FITS && i < 0)
        PyErr_SetString(PyExc_RuntimeError, "Device index must not be negative");
    if (PyErr_Occurred())
        return false;
    *index = (int)i;
    return true;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *by_type[] = {"type", "index", NULL}, *whole[] = {"device", NULL};
    PyObject *x = NULL, *at = NULL;
    int index = -1, kind, own;

    (void)type;
    if (!PyTuple_GET_SIZE(args) && !kwargs)
        return bad_device(args);
    if (kwargs && PyDict_GetItemString(kwargs, "device")) {
        if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:device", whole, &x))
            return NULL;
    } else if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", by_type, &x, &at)) {
        return NULL;
    }
    if (at && at != Py_None && !read_index(at, PyTuple_GET_SIZE(args) > 1, &index))
        return NULL;
    int done = cr_py_device_from(x, &kind, &own);
    if (done < 0)
        return NULL;
    if (!done)
        return bad_device(args);
    if (index >= 0 && own >= 0)
        return PyErr_Format(
            PyExc_RuntimeError,
            "type (string) must not include an index because index was passed explicitly: %U",
            x);
    return cr_py_device_object(kind, index >= 0 ? index : own);
}

static PyObject *device_str(PyObject *self)
{
    cr_py_device *d = (cr_py_device *)self;

    return d->index < 0 ? PyUnicode_FromString(device_kind_name(d->kind))
                        : PyUnicode_FromFormat("%s:%d", device_kind_name(d->kind), d->index);
}

static PyObject *device_repr(PyObject *self)
{
    cr_py_device *d = (cr_py_device *)self;

    return d->index < 0 ? PyUnicode_FromFormat("device(type='%s')", device_kind_name(d->kind))
                        : PyUnicode_FromFormat("device(type='%s', index=%d)",
                                               device_kind_name(d->kind), d->index);
}

static Py_hash_t device_hash(PyObject *self)
{
    return ((cr_py_device *)self)->kind * 65537 + ((cr_py_device *)self)->index + 2;
}

static PyObject *device_compare(PyObject *a, PyObject *b, int op)
{
    if (!Py_IS_TYPE(b, &cr_py_device_type) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    const cr_py_device *x = (cr_py_device *)a, *y = (cr_py_device *)b;
    bool same = x->kind == y->kind && x->index == y->index;
    return PyBool_FromLong(same == (op == Py_EQ));
}

static PyObject *device_type(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_InternFromString(device_kind_name(((cr_py_device *)self)->kind));
}

static PyObject *device_index(PyObject *self, void *unused)
{
    int index = ((cr_py_device *)self)->index;

    (void)unused;
    if (index < 0)
        Py_RETURN_NONE;
    return PyLong_FromLong(index);
}

static PyObject *device_reduce(PyObject *self, PyObject *unused)
{
    cr_py_device *d = (cr_py_device *)self;

    (void)unused;
    if (d->index < 0)
        return Py_BuildValue("O(s)", Py_TYPE(self), device_kind_name(d->kind));
    return Py_BuildValue("O(si)", Py_TYPE(self), device_kind_name(d->kind), d->index);
}

/* A device that is not there is refused where it is used. */
static void set_default(int kind, int index)
{
    cr_thread.device =
        (cr_device){.kind = (uint8_t)kind, .index = (uint8_t)(index < 0 ? 0 : index)};
}

/* `with torch.device("meta"):` sets the default device. */
static PyObject *device_enter(PyObject *self, PyObject *unused)
{
    cr_py_device *d = (cr_py_device *)self;
    PyObject *was = PyLong_FromLong(cr_packed_device(cr_thread.device));

    (void)unused;
    if (!was || (!d->before && !(d->before = PyList_New(0))) ||
        PyList_Append(d->before, was) < 0) {
        Py_XDECREF(was);
        return NULL;
    }
    Py_DECREF(was);
    set_default(d->kind, d->index);
    return Py_NewRef(self);
}

static PyObject *device_exit(PyObject *self, PyObject *args)
{
    cr_py_device *d = (cr_py_device *)self;
    Py_ssize_t n = d->before ? PyList_GET_SIZE(d->before) : 0;

    (void)args;
    if (!n)
        return PyErr_Format(PyExc_RuntimeError, "this device was not entered");
    long was = PyLong_AsLong(PyList_GET_ITEM(d->before, n - 1));
    set_default(cr_packed_kind(was), cr_packed_index(was));
    if (PyList_SetSlice(d->before, n - 1, n, NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static void device_dealloc(PyObject *self)
{
    Py_XDECREF(((cr_py_device *)self)->before);
    PyObject_Free(self);
}

static PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, NULL},
                                       {"__enter__", device_enter, METH_NOARGS, NULL},
                                       {"__exit__", device_exit, METH_VARARGS, NULL},
                                       {0}};
static PyGetSetDef device_getset[] = {{"type", device_type, NULL, "\"cpu\", \"meta\".", NULL},
                                      {"index", device_index, NULL, "A number or None.", NULL},
                                      {0}};

PyTypeObject cr_py_device_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "device",
    .tp_basicsize = sizeof(cr_py_device),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The device of a tensor's elements: device(\"cuda\", 0), device(\"cpu\").\n\n"
              "    >>> torch.ones(2).device == torch.device(\"cpu\")\n"
              "    True\n",
    .tp_new = device_new,
    .tp_dealloc = device_dealloc,
    .tp_repr = device_repr,
    .tp_str = device_str,
    .tp_hash = device_hash,
    .tp_richcompare = device_compare,
    .tp_methods = device_methods,
    .tp_getset = device_getset,
};

static PyObject *set_default_device(PyObject *m, PyObject *x)
{
    int kind = CR_HOST.kind, index = -1;

    (void)m;
    if (x != Py_None) {
        int done = cr_py_device_from(x, &kind, &index);
        if (done < 0)
            return NULL;
        if (!done)
            return PyErr_Format(PyExc_TypeError, "a device is expected, not %s",
                                Py_TYPE(x)->tp_name);
    }
    set_default(kind, index);
    Py_RETURN_NONE;
}

static PyObject *get_default_device(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return cr_py_device_of(cr_thread.device);
}

static PyMethodDef functions[] = {{"set_default_device", set_default_device, METH_O,
                                   "Sets the default device; None means the CPU."},
                                  {"get_default_device", get_default_device, METH_NOARGS,
                                   "The default device of new tensors.\n\n"
                                   "    >>> torch.get_default_device()\n"
                                   "    device(type='cpu')\n"},
                                  {0}};

int cr_py_device_start(PyObject *m)
{
    if (cr_py_add_type(m, "device", &cr_py_device_type) < 0)
        return -1;
    return PyModule_AddFunctions(m, functions);
}
