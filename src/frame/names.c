/* Names that C functions read. */
#include "frame/names.h"

/* The functions: of modules and bound to strings, and the methods of types. */
static const char *const names_functions[] = {"getattr", "hasattr", "setattr",   "delattr",
                                              "call",    "format",  "format_map"};
static const char *const names_methods[] = {"__getattribute__", "__setattr__", "__delattr__",
                                            "format", "format_map"};
static const char *const names_types[] = {"operator.attrgetter", "operator.methodcaller"};

#define NAMES_HAVE(list, text) names_have(list, sizeof(list) / sizeof *(list), text)

static int names_have(const char *const *list, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i], text))
            return 1;
    return 0;
}

/* Special methods bound to an object are of a type that 3.13 does not export. */
static int names_are_read_by_bound(PyObject *f)
{
    PyObject *name = strcmp(Py_TYPE(f)->tp_name, "method-wrapper")
                         ? NULL
                         : PyObject_GetAttrString(f, "__name__");
    const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
    int found = text && NAMES_HAVE(names_methods, text);

    Py_XDECREF(name);
    PyErr_Clear();
    return found;
}

int cr_names_are_read_by(PyObject *f)
{
    if (PyCFunction_Check(f)) {
        PyObject *self = PyCFunction_GET_SELF(f);
        return NAMES_HAVE(names_functions, ((PyCFunctionObject *)f)->m_ml->ml_name) &&
               (!self || PyModule_Check(self) || PyUnicode_Check(self));
    }
    if (Py_TYPE(f) == &PyMethodDescr_Type || Py_TYPE(f) == &PyWrapperDescr_Type) {
        const char *name = PyUnicode_AsUTF8(PyDescr_NAME(f));
        return name && NAMES_HAVE(names_methods, name);
    }
    if (PyType_Check(f))
        return NAMES_HAVE(names_types, ((PyTypeObject *)f)->tp_name);
    return names_are_read_by_bound(f);
}

static int names_add_part(PyObject *set, PyObject *text, Py_ssize_t from, Py_ssize_t to)
{
    PyObject *part = from < to ? PyUnicode_Substring(text, from, to) : NULL;
    int status = part ? PySet_Add(set, part) : from < to ? -1 : 0;

    Py_XDECREF(part);
    return status;
}

static int names_add_text(PyObject *set, PyObject *text)
{
    Py_ssize_t size = PyUnicode_GET_LENGTH(text), from = 0;
    int status = names_add_part(set, text, 0, size);

    if (PyUnicode_FindChar(text, '.', 0, size, 1) < 0)
        return status;
    for (Py_ssize_t i = 0; i <= size && !status; i++) {
        Py_UCS4 c = i < size ? PyUnicode_READ_CHAR(text, i) : '.';
        if (Py_UNICODE_ISALNUM(c) || c == '_')
            continue;
        status = names_add_part(set, text, from, i);
        from = i + 1;
    }
    return status;
}

int cr_names_add(PyObject *set, PyObject *x)
{
    int status = 0;

    if (x && PyUnicode_Check(x))
        return names_add_text(set, x);
    if (!x || (!PyTuple_Check(x) && !PyList_Check(x)))
        return 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x) && !status; i++)
        if (PyUnicode_Check(PySequence_Fast_GET_ITEM(x, i)))
            status = names_add_text(set, PySequence_Fast_GET_ITEM(x, i));
    return status;
}

int cr_names_add_pattern(PyObject *set, PyObject *type, PyObject *keywords)
{
    PyObject *name = PyUnicode_InternFromString("__match_args__"), *found;
    int status = name && !PySet_Add(set, name) ? cr_names_add(set, keywords) : -1;

    found = !status && PyType_Check(type) ? _PyType_Lookup((PyTypeObject *)type, name) : NULL;
    if (found)
        status = cr_names_add(set, found);
    Py_XDECREF(name);
    return status;
}
