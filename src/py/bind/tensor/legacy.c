/* Constructors of old programs: torch.Tensor(2, 3), torch.FloatTensor([1]), x.new(2),
 * x.type("torch.LongTensor"). */
#include "device/facts.h"
#include "py/bind/bind.h"
#include <string.h>

static PyObject *types[CR_DTYPE_COUNT]; /* torch.FloatTensor and the like */

/* --- making --- */

static cr_tensor *make_empty(cr_dtype dtype, cr_device device, int ndim, const int64_t *size)
{
    cr_tensor *t = NULL;
    cr_status st = CR_OK;

    for (int i = 0; i < ndim && !st; i++)
        if (size[i] < 0)
            st = cr_fail(CR_RUNTIME,
                         "Trying to create tensor with negative dimension %lld: dimensions "
                         "must be non-negative",
                         (long long)size[i]);
    if (!st)
        st = cr_tensor_new(&t, dtype, device, ndim, size);
    if (st)
        cr_py_raise(st);
    return st ? NULL : t;
}

static cr_tensor *from_other(cr_tensor *other, cr_dtype dtype)
{
    cr_tensor *t;

    if (other->dtype != dtype) {
        PyErr_Format(PyExc_TypeError, "expected a tensor of dtype %s (got %s)",
                     cr_dtype_name(dtype), cr_dtype_name((cr_dtype)other->dtype));
        return NULL;
    }
    cr_status st = cr_tensor_alias(&t, other);
    if (st)
        cr_py_raise(st);
    return st ? NULL : t;
}

static cr_tensor *from_one(PyObject *x, cr_dtype dtype, cr_device device)
{
    int64_t size[CR_MAX_DIMS];
    int n;

    if (cr_py_is_tensor(x) && cr_py_tensor_of(x)->ndim)
        return from_other(cr_py_tensor_of(x), dtype);
    if (Py_IS_TYPE(x, &cr_py_size_type))
        return cr_py_ints_from(x, size, CR_MAX_DIMS, &n) == CR_PY_FITS
                   ? make_empty(dtype, device, n, size)
                   : NULL;
    cr_py_fit fit = cr_py_int_from(x, size);
    if (fit == CR_PY_RAISED) {
        cr_py_blame_item("new", "size", 0);
        return NULL;
    }
    if (fit == CR_PY_FITS)
        return make_empty(dtype, device, 1, size);
    if (cr_py_is_tensor(x))
        return from_other(cr_py_tensor_of(x), dtype);
    if (!PySequence_Check(x)) {
        PyErr_Format(PyExc_TypeError, "new(): data must be a sequence (got %s)",
                     Py_TYPE(x)->tp_name);
        return NULL;
    }
    return cr_py_tensor_from_data(x, dtype, device);
}

/* As cr_py_device_from. */
static int legacy_named_device(cr_device *out, PyObject *x)
{
    int kind, index, done = cr_py_device_from(x, &kind, &index);

    if (done <= 0)
        return done;
    cr_status st = cr_device_named(out, cr_device_pack(kind, index));
    return st ? cr_py_raise_int(st) : 1;
}

/* Reads the arguments of such a constructor: sizes, data, a tensor, or none. */
static cr_tensor *construct(PyObject *args, PyObject *kwargs, cr_dtype dtype, cr_device device)
{
    int64_t size[CR_MAX_DIMS] = {0};
    int n;
    PyObject *where = kwargs ? PyDict_GetItemString(kwargs, "device") : NULL;

    if (where && where != Py_None && legacy_named_device(&device, where) <= 0) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError,
                         "new(): argument 'device' must be torch.device, not %s",
                         Py_TYPE(where)->tp_name);
        return NULL;
    }
    if (kwargs && PyDict_GET_SIZE(kwargs) > (where != NULL)) {
        PyErr_Format(PyExc_TypeError,
                     "new() received an invalid combination of arguments: only the keyword "
                     "'device' is possible, got %R",
                     kwargs);
        return NULL;
    }
    if (PyTuple_GET_SIZE(args) == 1)
        return from_one(PyTuple_GET_ITEM(args, 0), dtype, device);
    if (!PyTuple_GET_SIZE(args))
        return make_empty(dtype, device, 1, size);
    cr_py_fit fit = cr_py_ints_from(args, size, CR_MAX_DIMS, &n);
    if (fit == CR_PY_MISFIT)
        PyErr_Format(PyExc_TypeError,
                     "new() received an invalid combination of arguments - got %R, but "
                     "expected sizes or one sequence",
                     args);
    return fit == CR_PY_FITS ? make_empty(dtype, device, n, size) : NULL;
}

PyObject *cr_py_tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    cr_tensor *t = construct(args, kwargs, cr_default_dtype(), cr_thread.device);

    if (!t)
        return NULL;
    return type == cr_py_tensor_type ? cr_py_wrap(t) : cr_py_wrap_as(type, t);
}

static PyObject *tensor_new(PyObject *self, PyObject *args, PyObject *kwargs)
{
    const cr_tensor *like = cr_py_tensor_of(self);
    cr_tensor *t = construct(args, kwargs, (cr_dtype)like->dtype, like->device);

    return t ? cr_py_wrap(t) : NULL;
}

/* --- torch.FloatTensor and the like: classes, whose metaclass is tensortype --- */

static cr_dtype legacy_dtype_of(PyObject *self)
{
    for (int t = 0; t < CR_DTYPE_COUNT; t++)
        if (self && types[t] == self)
            return (cr_dtype)t;
    return CR_DTYPE_NONE;
}

static PyObject *type_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    cr_tensor *t = construct(args, kwargs, legacy_dtype_of(self), cr_thread.device);

    return t ? cr_py_wrap(t) : NULL;
}

static PyObject *type_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<class 'torch.%s'>", ((PyTypeObject *)self)->tp_name);
}

static PyObject *type_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(cr_py_dtype_object(legacy_dtype_of(self)));
}

static PyObject *type_is_cuda(PyObject *self, void *unused)
{
    (void)self;
    (void)unused;
    Py_RETURN_FALSE;
}

static PyObject *type_instancecheck(PyObject *self, PyObject *x)
{
    return PyBool_FromLong(
        cr_py_is_tensor(x) && cr_py_tensor_of(x)->device.kind == CR_HOST.kind &&
        !cr_py_tensor_of(x)->layout && cr_py_tensor_of(x)->dtype == legacy_dtype_of(self));
}

static PyMethodDef type_methods[] = {{"__instancecheck__", type_instancecheck, METH_O, NULL},
                                     {0}};
static PyGetSetDef type_getset[] = {
    {"dtype", type_dtype, NULL, NULL, NULL}, {"is_cuda", type_is_cuda, NULL, NULL, NULL}, {0}};

/* A class statement with such a base. */
static PyObject *type_refuse(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    PyObject *bases = PyTuple_GET_SIZE(args) > 1 ? PyTuple_GET_ITEM(args, 1) : NULL;

    if (bases && PyTuple_Check(bases) && PyTuple_GET_SIZE(bases) &&
        Py_IS_TYPE(PyTuple_GET_ITEM(bases, 0), type))
        return PyErr_Format(PyExc_TypeError, "type 'torch.%s' is not an acceptable base type",
                            ((PyTypeObject *)PyTuple_GET_ITEM(bases, 0))->tp_name);
    return PyErr_Format(PyExc_TypeError, "cannot create 'torch.tensortype' instances");
}

static PyTypeObject tensor_type_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tensortype",
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_base = &PyType_Type,
    .tp_new = type_refuse,
    .tp_call = type_call,
    .tp_repr = type_repr,
    .tp_methods = type_methods,
    .tp_getset = type_getset,
};

static PyObject *legacy_type_new(const char *name)
{
    PyObject *args = Py_BuildValue("(s(){ss})", name, "__module__", cr_py_root());
    PyObject *made = args ? PyType_Type.tp_new(&tensor_type_type, args, NULL) : NULL;

    Py_XDECREF(args);
    if (made)
        ((PyTypeObject *)made)->tp_flags &= ~Py_TPFLAGS_BASETYPE;
    return made;
}

/* --- x.type(...) --- */

/* The dtype and the kind of device of a name such as "torch.cuda.FloatTensor". */
static cr_dtype dtype_of_name(const char *name, cr_device_kind *kind)
{
    *kind = CR_CPU;
    if (name && !strcmp(name, "torch.Tensor"))
        return cr_default_dtype();
    for (int k = 0; name && k < CR_DEVICE_COUNT; k++)
        for (int t = 0; cr_device_of((cr_device_kind)k) && t < CR_DTYPE_COUNT; t++)
            if (!strcmp(cr_device_type_name((cr_device_kind)k, (cr_dtype)t), name)) {
                *kind = (cr_device_kind)k;
                return (cr_dtype)t;
            }
    return CR_DTYPE_NONE;
}

/* Types and names have a kind of device, dtypes leave *kind. */
static cr_dtype dtype_named_by(PyObject *x, cr_device_kind *kind)
{
    if (PyUnicode_Check(x))
        return dtype_of_name(PyUnicode_AsUTF8(x), kind);
    if (!Py_IS_TYPE(x, &tensor_type_type) && x != (PyObject *)cr_py_tensor_type)
        return cr_py_dtype_from(x);
    *kind = CR_CPU;
    return Py_IS_TYPE(x, &tensor_type_type) ? legacy_dtype_of(x) : cr_default_dtype();
}

static PyObject *tensor_type_method(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", "non_blocking", NULL};
    PyObject *x = Py_None;
    int waits_not = 0;
    cr_device_kind own = (cr_device_kind)cr_py_tensor_of(self)->device.kind, kind = own;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Op:type", names, &x, &waits_not))
        return NULL;
    if (x == Py_None)
        return PyUnicode_FromString(cr_tensor_type_name(cr_py_tensor_of(self)));
    cr_dtype t = dtype_named_by(x, &kind);
    if (t == CR_DTYPE_NONE && PyUnicode_Check(x))
        return PyErr_Format(PyExc_ValueError, "invalid type: %R", x);
    if (t == CR_DTYPE_NONE)
        return PyErr_Format(PyExc_TypeError, "dtype must be a type, str, or dtype object");
    if (kind != own)
        return PyObject_CallMethod(self, "to", "sOi", cr_device_kind_name(kind),
                                   cr_py_dtype_object(t), waits_not);
    return PyObject_CallMethod(self, "to", "Oi", cr_py_dtype_object(t), waits_not);
}

/* The dtype of a type object, string or dtype, for set_default_tensor_type. */
static PyObject *dtype_of_type(PyObject *m, PyObject *x)
{
    cr_device_kind kind = CR_CPU;
    cr_dtype t = dtype_named_by(x, &kind);

    (void)m;
    if (t == CR_DTYPE_NONE)
        return PyErr_Format(PyExc_TypeError, "invalid type object: %R", x);
    return Py_NewRef(cr_py_dtype_object(t));
}

#define KEYWORDS(f) (PyCFunction)(void (*)(void))(f), METH_VARARGS | METH_KEYWORDS
PyMethodDef cr_py_legacy_methods[] = {{"new", KEYWORDS(tensor_new),
                                       "A tensor of the same dtype, from sizes or data.\n\n"
                                       "    >>> torch.ones(2).new([1, 2])\n"
                                       "    tensor([1., 2.])\n"},
                                      {"type", KEYWORDS(tensor_type_method),
                                       "The type's name, or a conversion to a type.\n\n"
                                       "    >>> torch.ones(2).type(torch.int64)\n"
                                       "    tensor([1, 1])\n"},
                                      {0}};

static PyMethodDef functions[] = {{"_dtype_of_type", dtype_of_type, METH_O, NULL}, {0}};

int cr_py_legacy_start(PyObject *m)
{
    if (cr_py_type_ready(&tensor_type_type) < 0 || PyModule_AddFunctions(m, functions) < 0)
        return -1;
    for (int t = 0; t < CR_DTYPE_COUNT; t++) {
        char name[64];
        if (cr_dtype_is_complex((cr_dtype)t) || cr_dtype_is_stored((cr_dtype)t))
            continue; /* torch has no such types */
        snprintf(name, sizeof name, "%sTensor", cr_dtype_infos[t].legacy);
        types[t] = legacy_type_new(name);
        if (!types[t])
            return -1;
        if (PyModule_AddObjectRef(m, name, types[t]) < 0)
            return -1;
    }
    return 0;
}
