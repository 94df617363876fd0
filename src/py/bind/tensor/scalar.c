/* Conversion of numbers between Python and C. */
#include "py/bind/bind.h"
#include <string.h>

bool cr_py_is_numpy_scalar(PyObject *x)
{
    const char *name = Py_TYPE(x)->tp_name;

    return !strncmp(name, "numpy.", 6) && strcmp(name, "numpy.ndarray") &&
           PyObject_HasAttrString(x, "item");
}

static cr_py_fit int_value(PyObject *x, int64_t *out)
{
    int overflow;

    *out = PyLong_AsLongLongAndOverflow(x, &overflow);
    if (overflow) {
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        return CR_PY_RAISED;
    }
    return *out == -1 && PyErr_Occurred() ? CR_PY_RAISED : CR_PY_FITS;
}

void cr_py_blame_item(const char *function, const char *argument, Py_ssize_t i)
{
    if (!PyErr_ExceptionMatches(PyExc_ValueError))
        return;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError,
                 "%s(): argument '%s' failed to unpack the object at pos %zd with error "
                 "\"Overflow when unpacking long long\"",
                 function, argument, i + 1);
}

/* Accepts unsigned numbers of 64 bits, too. */
static cr_py_fit scalar_int_value(PyObject *x, cr_scalar *out)
{
    int overflow;

    out->i = PyLong_AsLongLongAndOverflow(x, &overflow);
    if (CR_LIKELY(!overflow))
        return out->i == -1 && PyErr_Occurred() ? CR_PY_RAISED : CR_PY_FITS;
    out->i = overflow > 0 ? (int64_t)PyLong_AsUnsignedLongLong(x) : -1;
    out->large = !PyErr_Occurred();
    if (overflow > 0 && out->large)
        return CR_PY_FITS;
    PyErr_SetString(PyExc_OverflowError, overflow > 0
                                             ? "int too big to convert"
                                             : "can't convert negative int to unsigned");
    return CR_PY_RAISED;
}

static cr_py_fit numpy_scalar(PyObject *x, cr_scalar *out)
{
    PyObject *item = PyObject_CallMethod(x, "item", NULL);

    if (!item)
        return CR_PY_RAISED;
    cr_py_fit fit = cr_py_is_numpy_scalar(item) ? CR_PY_MISFIT : cr_py_scalar_from(item, out);
    Py_DECREF(item);
    return fit;
}

cr_py_fit cr_py_scalar_from(PyObject *x, cr_scalar *out)
{
    if (PyFloat_Check(x)) {
        *out = cr_scalar_float(PyFloat_AS_DOUBLE(x));
        return CR_PY_FITS;
    }
    if (PyBool_Check(x)) {
        *out = (cr_scalar){.category = CR_CAT_BOOL, .i = x == Py_True};
        return CR_PY_FITS;
    }
    if (PyLong_Check(x)) {
        *out = cr_scalar_int(0);
        return scalar_int_value(x, out);
    }
    if (PyComplex_Check(x)) {
        Py_complex c = PyComplex_AsCComplex(x);
        *out = (cr_scalar){.category = CR_CAT_COMPLEX, .c = {c.real, c.imag}};
        return CR_PY_FITS;
    }
    if (cr_py_symbol_value(x, out))
        return CR_PY_FITS;
    return cr_py_is_numpy_scalar(x) ? numpy_scalar(x, out) : CR_PY_MISFIT;
}

PyObject *cr_py_scalar_object(cr_scalar s)
{
    switch (s.category) {
    case CR_CAT_BOOL: return PyBool_FromLong(s.i != 0);
    case CR_CAT_INT:
        return s.large ? PyLong_FromUnsignedLongLong((uint64_t)s.i) : PyLong_FromLongLong(s.i);
    case CR_CAT_FLOAT: return PyFloat_FromDouble(s.d);
    default: return PyComplex_FromDoubles(s.c.re, s.c.im);
    }
}

static cr_py_fit int_of_tensor(const cr_tensor *t, int64_t *out)
{
    cr_scalar s;

    if (t->numel != 1 || cr_dtype_category(t->dtype) > CR_CAT_INT)
        return CR_PY_MISFIT;
    cr_py_note_read(t, CR_READ_INTEGER);
    cr_status st = cr_tensor_item(&s, t);
    if (st) {
        cr_py_raise(st);
        return CR_PY_RAISED;
    }
    *out = s.i;
    return CR_PY_FITS;
}

cr_py_fit cr_py_int_from(PyObject *x, int64_t *out)
{
    if (PyLong_Check(x))
        return PyBool_Check(x) ? CR_PY_MISFIT : int_value(x, out);
    if (cr_py_is_tensor(x))
        return int_of_tensor(cr_py_tensor_of(x), out);
    if (PyFloat_Check(x) || !PyIndex_Check(x) || PyType_Check(x))
        return CR_PY_MISFIT;
    PyObject *i = PyNumber_Index(x);
    if (!i)
        return cr_py_forget_error() ? CR_PY_MISFIT : CR_PY_RAISED;
    cr_py_fit fit = int_value(i, out);
    Py_DECREF(i);
    return fit;
}

cr_py_fit cr_py_size_from(PyObject *x, int64_t *out)
{
    cr_scalar s;

    if (CR_LIKELY(PyLong_Check(x)) || !cr_py_symbol_scalar(x, &s))
        return cr_py_int_from(x, out);
    *out = s.i;
    return s.category == CR_CAT_INT ? CR_PY_FITS : CR_PY_MISFIT;
}

PyObject *cr_py_item(PyObject *list, Py_ssize_t i)
{
    if (i < PySequence_Fast_GET_SIZE(list))
        return Py_NewRef(PySequence_Fast_GET_ITEM(list, i));
    return PyErr_Format(PyExc_RuntimeError, "the list changed its size while it was read");
}

static cr_py_fit int_item(PyObject *list, Py_ssize_t i, int64_t *out)
{
    PyObject *item = cr_py_item(list, i);
    cr_py_fit fit = !item ? CR_PY_RAISED : CR_PY_FITS;

    if (item && PyBool_Check(item))
        *out = item == Py_True;
    else if (item)
        fit = cr_py_int_from(item, out);
    Py_XDECREF(item);
    return fit;
}

cr_py_fit cr_py_ints_from(PyObject *x, int64_t *out, int room, int *count)
{
    if (!PyTuple_Check(x) && !PyList_Check(x))
        return CR_PY_MISFIT;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
    if (n > room) {
        PyErr_Format(PyExc_ValueError, "too many dimensions: %zd, at most %d are possible", n,
                     room);
        return CR_PY_RAISED;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        cr_py_fit fit = int_item(x, i, &out[i]);
        if (fit != CR_PY_FITS)
            return fit;
    }
    *count = (int)n;
    return CR_PY_FITS;
}

PyObject *cr_py_ints_tuple(const int64_t *v, size_t n)
{
    PyObject *out = PyTuple_New((Py_ssize_t)n);

    for (size_t i = 0; out && i < n; i++) {
        PyObject *item = PyLong_FromLongLong(v[i]);
        if (!item) {
            Py_DECREF(out);
            return NULL;
        }
        PyTuple_SET_ITEM(out, (Py_ssize_t)i, item);
    }
    return out;
}
