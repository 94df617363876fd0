/* Conversion of tensors to Python values: item, tolist, int(), float(), bool(), complex(). */
#include "py/bind/bind.h"

static PyObject *element_object(const cr_tensor *t, const char *at)
{
    return cr_py_scalar_object(cr_scalar_load((cr_dtype)t->dtype, at));
}

static PyObject *no_bytes(const char *what)
{
    return PyErr_Format(PyExc_RuntimeError, "Tensor.%s() cannot be called on meta tensors",
                        what);
}

/* The only element.  By a call if __torch_dispatch__ sees it. */
static cr_status convert_item(cr_scalar *out, cr_tensor *t)
{
    const cr_op *op = cr_ops_find("_local_scalar_dense");
    cr_value arg = cr_of_tensor(t), result;

    if (CR_LIKELY(!cr_goes_to_python(t)))
        return cr_tensor_item(out, t);
    CR_TRY(cr_call(op, &arg, &result));
    *out = result.tag == CR_NUMBER  ? result.number
           : result.tag == CR_FLOAT ? cr_scalar_float(result.d)
                                    : cr_scalar_int(result.i);
    return CR_OK;
}

static PyObject *item_of_sparse(PyObject *self)
{
    PyObject *dense = PyObject_CallMethod(self, "to_dense", NULL);
    PyObject *out = dense ? PyObject_CallMethod(dense, "item", NULL) : NULL;

    Py_XDECREF(dense);
    return out;
}

static PyObject *tensor_item(PyObject *self, PyObject *unused)
{
    cr_tensor *t = cr_py_tensor_of(self);

    (void)unused;
    if (t->numel != 1)
        return PyErr_Format(PyExc_RuntimeError,
                            "a Tensor with %lld elements cannot be converted to Scalar",
                            (long long)t->numel);
    if (cr_py_note_untraced("item") < 0)
        return NULL;
    cr_py_note_read(t, CR_READ_ITEM);
    bool dispatched = cr_goes_to_python(t);
    char *at;
    cr_status st = cr_reach(&at, t);
    if (CR_UNLIKELY(st))
        return cr_py_raise(st);
    if (!at && !dispatched)
        return t->layout ? item_of_sparse(self) : no_bytes("item");
    if (CR_LIKELY(cr_is_host(t->device) && !cr_is_lazy(t) && !dispatched))
        return element_object(t, at);
    cr_scalar s;
    st = convert_item(&s, t);
    return st ? cr_py_raise(st) : cr_py_scalar_object(s);
}

static PyObject *list_level(const cr_tensor *t, int dim, const char *at)
{
    size_t bytes = cr_dtype_size((cr_dtype)t->dtype);
    PyObject *list;

    if (dim == t->ndim)
        return element_object(t, at);
    list = PyList_New(t->size[dim]);
    for (int64_t i = 0; list && i < t->size[dim]; i++) {
        PyObject *item = list_level(t, dim + 1, at + i * t->stride[dim] * (int64_t)bytes);
        if (!item) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyObject *tensor_tolist(PyObject *self, PyObject *unused)
{
    cr_tensor *t = cr_py_tensor_of(self), *here;

    (void)unused;
    if (cr_py_note_untraced("tolist") < 0)
        return NULL;
    cr_py_note_read(t,
                    cr_dtype_category(t->dtype) > CR_CAT_INT ? CR_READ_FLOATS : CR_READ_TOLIST);
    if (t->layout)
        return PyErr_Format(PyExc_RuntimeError,
                            "Cannot access data pointer of Tensor that doesn't "
                            "have storage");
    if (cr_is_emptied(t))
        return cr_py_raise(cr_fail_emptied(t));
    if (!cr_has_elements(t) && t->numel)
        return no_bytes("tolist");
    char *at;
    cr_status st = cr_tensor_on_host(&here, t);
    if (st)
        return cr_py_raise(st);
    st = cr_reach(&at, here);
    PyObject *list = st ? cr_py_raise(st) : list_level(here, 0, at);
    cr_drop(here);
    return list;
}

/* --- traces --- */

static PyObject *trace_note; /* called with the name of a use that a trace cannot record */
PyObject *cr_py_trace_call;  /* called with a compiled function, its arguments and its result */

int cr_py_note_untraced(const char *use)
{
    if (!trace_note)
        return 0;
    PyObject *done = PyObject_CallFunction(trace_note, "s", use);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

bool cr_py_is_tracing(void) { return trace_note != NULL; }

static void trace_set(PyObject **at, PyObject *hook)
{
    PyObject *old = *at;

    *at = hook == Py_None ? NULL : Py_NewRef(hook);
    Py_XDECREF(old);
}

PyObject *cr_py_set_trace_hooks(PyObject *module, PyObject *args)
{
    PyObject *note, *call;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &note, &call))
        return NULL;
    trace_set(&trace_note, note);
    trace_set(&cr_py_trace_call, call);
    Py_RETURN_NONE;
}

/* The only element of a tensor.  Raises the ValueError of int() and float() for other
 * tensors. */
static bool only_element(PyObject *self, cr_scalar *out)
{
    cr_tensor *t = cr_py_tensor_of(self);

    if (t->numel != 1) {
        PyErr_SetString(PyExc_ValueError,
                        "only one element tensors can be converted to Python scalars");
        return false;
    }
    cr_py_note_read(t, CR_READ_CONVERSION);
    cr_status st = convert_item(out, t);
    if (st)
        cr_py_raise(st);
    return !st;
}

static PyObject *tensor_int(PyObject *self)
{
    cr_scalar s;

    if (cr_py_note_untraced("int") < 0 || !only_element(self, &s))
        return NULL;
    if (s.category == CR_CAT_FLOAT)
        return PyLong_FromDouble(s.d);
    bool real = s.category != CR_CAT_COMPLEX || s.c.im == 0;
    if (s.large || !real || (s.category == CR_CAT_COMPLEX && !cr_scalar_fits(s, CR_I64)))
        return PyErr_Format(PyExc_RuntimeError,
                            "value cannot be converted to type int64_t without overflow");
    if (s.category == CR_CAT_COMPLEX)
        return PyLong_FromDouble(s.c.re);
    return PyLong_FromLongLong(s.i);
}

static int warn_of_history(PyObject *self)
{
    static bool said;

    return cr_thread.no_grad || !cr_requires_grad(cr_py_tensor_of(self))
               ? 0
               : cr_py_warn_once(&said,
                                 "Converting a tensor with requires_grad=True to a scalar "
                                 "may lead to unexpected behavior.\nConsider using "
                                 "tensor.detach() first.");
}

static PyObject *tensor_float(PyObject *self)
{
    cr_scalar s;

    if (cr_py_note_untraced("float") < 0 || warn_of_history(self) < 0 ||
        !only_element(self, &s))
        return NULL;
    if (s.category == CR_CAT_COMPLEX && s.c.im != 0)
        return PyErr_Format(PyExc_RuntimeError,
                            "value cannot be converted to type double without overflow");
    return PyFloat_FromDouble(s.category == CR_CAT_COMPLEX ? s.c.re : cr_scalar_as_double(s));
}

static PyObject *tensor_index(PyObject *self)
{
    cr_scalar s;
    const cr_tensor *t = cr_py_tensor_of(self);

    if (t->numel != 1 || cr_dtype_category((cr_dtype)t->dtype) > CR_CAT_INT)
        return PyErr_Format(
            PyExc_TypeError,
            "only integer tensors of a single element can be converted to an index");
    return only_element(self, &s) ? PyLong_FromLongLong(s.i) : NULL;
}

static PyObject *tensor_complex(PyObject *self, PyObject *unused)
{
    cr_scalar s;

    (void)unused;
    if (cr_py_note_untraced("complex") < 0 || warn_of_history(self) < 0 ||
        !only_element(self, &s))
        return NULL;
    cr_complex c = cr_scalar_as_complex(s);
    return PyComplex_FromDoubles(c.re, c.im);
}

static int truth(PyObject *self, cr_py_read by)
{
    cr_tensor *t = cr_py_tensor_of(self);
    cr_scalar s;

    if (t->numel != 1) {
        PyErr_SetString(PyExc_RuntimeError,
                        t->numel
                            ? "Boolean value of Tensor with more than one value is ambiguous"
                            : "Boolean value of Tensor with no values is ambiguous");
        return -1;
    }
    if (cr_py_note_untraced("bool") < 0)
        return -1;
    cr_py_note_read(t, by);
    cr_status st = convert_item(&s, t);
    if (st)
        return cr_py_raise_int(st);
    if (s.category == CR_CAT_COMPLEX)
        return s.c.re != 0 || s.c.im != 0;
    return s.category == CR_CAT_FLOAT ? s.d != 0 : s.i != 0;
}

static int tensor_bool(PyObject *self) { return truth(self, CR_READ_BRANCH); }

PyObject *cr_py_truth_of_check(PyObject *m, PyObject *x)
{
    const PyNumberMethods *n = Py_TYPE(x)->tp_as_number;
    int is = n && n->nb_bool == tensor_bool ? truth(x, CR_READ_CHECK) : PyObject_IsTrue(x);

    (void)m;
    return is < 0 ? NULL : PyBool_FromLong(is);
}

/* format(x, ".3f"): formats the number in a tensor of one element. */
static PyObject *tensor_format(PyObject *self, PyObject *spec)
{
    const cr_tensor *t = cr_py_tensor_of(self);
    PyObject *value, *out;

    if (t->ndim || !cr_has_bytes(t->device)) {
        if (PyUnicode_Check(spec) && PyUnicode_GET_LENGTH(spec))
            return PyErr_Format(PyExc_TypeError,
                                "unsupported format string passed to %s.__format__",
                                Py_TYPE(self)->tp_name);
        return PyObject_Str(self);
    }
    value = tensor_item(self, NULL);
    out = value ? PyObject_CallMethod(value, "__format__", "(O)", spec) : NULL;
    Py_XDECREF(value);
    return out;
}

PyMethodDef cr_py_convert_methods[] = {
    {"item", tensor_item, METH_NOARGS,
     "The only element as a Python number.  Sizes: of one element.\n\n"
     "    >>> torch.tensor([1.5]).item()\n"
     "    1.5\n"},
    {"tolist", tensor_tolist, METH_NOARGS,
     "The elements as nested lists; a number without dims.\n\n"
     "    >>> torch.tensor([[1, 2], [3, 4]]).tolist()\n"
     "    [[1, 2], [3, 4]]\n"},
    {"__complex__", tensor_complex, METH_NOARGS, NULL},
    {"__format__", tensor_format, METH_O, NULL},
    {0}};

const PyType_Slot cr_py_convert_slots[] = {{Py_nb_int, (void *)tensor_int},
                                           {Py_nb_float, (void *)tensor_float},
                                           {Py_nb_index, (void *)tensor_index},
                                           {Py_nb_bool, (void *)tensor_bool},
                                           {0, NULL}};
