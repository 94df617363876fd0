/* What functions of the module return: None, texts, containers that are filled. */
#include "py/bind/bind.h"

PyObject *cr_py_done(cr_status st) { return st ? cr_py_raise(st) : Py_NewRef(Py_None); }

PyObject *cr_py_said(const char *error) { return cr_py_done(cr_device_status(error)); }

bool cr_py_pair(PyObject *args, int *index, void **at)
{
    PyObject *address;

    if (!PyArg_ParseTuple(args, "iO", index, &address))
        return false;
    *at = PyLong_AsVoidPtr(address);
    return !PyErr_Occurred();
}

PyObject *cr_py_wait_on(const char *(*call)(int index, void *at), int index, void *at)
{
    const char *error;

    CR_PY_UNLOCKED(error = call(index, at));
    return cr_py_said(error);
}

PyObject *cr_py_text(cr_text *text, cr_status st)
{
    st = st ? st : cr_text_status(text);
    PyObject *made = st ? cr_py_raise(st) : PyUnicode_FromString(cr_text_str(text));
    cr_text_drop(text);
    return made;
}

void cr_py_put_item(PyObject **to, Py_ssize_t i, PyObject *item)
{
    if (!item)
        Py_CLEAR(*to);
    else if (PyTuple_Check(*to))
        PyTuple_SET_ITEM(*to, i, item);
    else
        PyList_SET_ITEM(*to, i, item);
}

void cr_py_append(PyObject **list, PyObject *item)
{
    if (!item || PyList_Append(*list, item) < 0)
        Py_CLEAR(*list);
    Py_XDECREF(item);
}

void cr_py_put_named(PyObject **dict, const char *name, PyObject *value)
{
    if (!value || PyDict_SetItemString(*dict, name, value) < 0)
        Py_CLEAR(*dict);
    Py_XDECREF(value);
}
