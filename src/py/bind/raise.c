/* Errors: the one place where a status becomes a Python exception. */
#include "py/bind/bind.h"
#include <string.h>

PyObject *cr_py_linalg_error;

#define CR_KIND(name, pyclass) [CR_##name] = pyclass,
static const char *const class_names[CR_KIND_COUNT] = {
#include "base/kinds.def"
};
#undef CR_KIND

static PyObject *classes[CR_KIND_COUNT];

PyObject *cr_py_raise(cr_status st)
{
    if (st == CR_PYTHON && PyErr_Occurred())
        return NULL;
    PyErr_SetString(st > CR_OK && st < CR_KIND_COUNT && classes[st] ? classes[st]
                                                                    : PyExc_RuntimeError,
                    cr_error_message());
    return NULL;
}

int cr_py_raise_int(cr_status st)
{
    cr_py_raise(st);
    return -1;
}

int cr_py_warn_once(bool *said, const char *text)
{
    if (*said)
        return 0;
    *said = true;
    return PyErr_WarnEx(PyExc_UserWarning, text, 1);
}

/* A class by its name in kinds.def: a built-in one, or LinAlgError. */
static PyObject *class_named(const char *name)
{
    if (strchr(name, '.'))
        return cr_py_linalg_error;
    return PyDict_GetItemString(PyEval_GetBuiltins(), name);
}

int cr_py_raise_start(PyObject *m)
{
    cr_py_linalg_error =
        PyErr_NewExceptionWithDoc("cresset.linalg.LinAlgError",
                                  "A matrix does not have the property that a routine needs.",
                                  PyExc_RuntimeError, NULL);
    if (!cr_py_linalg_error ||
        PyModule_AddObjectRef(m, "_LinAlgError", cr_py_linalg_error) < 0)
        return -1;
    for (int i = 0; i < CR_KIND_COUNT; i++)
        if (class_names[i]) {
            classes[i] = class_named(class_names[i]);
            Py_XINCREF(classes[i]);
        }
    return 0;
}

int cr_py_add_type(PyObject *m, const char *name, PyTypeObject *type)
{
    if (PyType_Ready(type) < 0)
        return -1;
    return PyModule_AddObjectRef(m, name, (PyObject *)type);
}
