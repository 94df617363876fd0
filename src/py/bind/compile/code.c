/* The names that a code object can read, for guards. */
#include "py/bind/compile/compiled.h"
#include <opcode.h>

/* Adds to the set the name of every global that the instructions load. */
static int add_globals(PyObject *set, PyObject *raw, PyObject *names)
{
    const unsigned char *at = (const unsigned char *)PyBytes_AS_STRING(raw);
    unsigned arg = 0;

    for (Py_ssize_t i = 0, n = PyBytes_GET_SIZE(raw); i + 1 < n; i += 2) {
        unsigned op = at[i];

        arg = arg << 8 | at[i + 1];
        if (op == EXTENDED_ARG)
            continue;
#if PY_VERSION_HEX >= 0x030b0000
        if (op == LOAD_GLOBAL)
            arg >>= 1; /* the lowest bit means: push a NULL first */
#endif
        if (op == LOAD_GLOBAL || op == LOAD_NAME
#ifdef LOAD_FROM_DICT_OR_GLOBALS
            || op == LOAD_FROM_DICT_OR_GLOBALS
#endif
        ) {
            if (arg < (unsigned)PyTuple_GET_SIZE(names) &&
                PySet_Add(set, PyTuple_GET_ITEM(names, arg)) < 0)
                return -1;
        }
        arg = 0;
    }
    return 0;
}

static int add_facts(PyObject *globals, PyObject *all, PyCodeObject *code)
{
    PyObject *raw = PyObject_GetAttrString((PyObject *)code, "co_code");
    int status = raw ? add_globals(globals, raw, code->co_names) : -1;

    Py_XDECREF(raw);
    for (Py_ssize_t i = 0; !status && i < PyTuple_GET_SIZE(code->co_names); i++)
        status = PySet_Add(all, PyTuple_GET_ITEM(code->co_names, i));
    for (Py_ssize_t i = 0; !status && i < PyTuple_GET_SIZE(code->co_consts); i++) {
        PyObject *inner = PyTuple_GET_ITEM(code->co_consts, i);

        if (PyCode_Check(inner))
            status = add_facts(globals, all, (PyCodeObject *)inner);
    }
    return status;
}

PyObject *cr_py_code_facts(PyObject *module, PyObject *code)
{
    PyObject *globals = PySet_New(NULL), *all = PySet_New(NULL), *both = NULL;

    (void)module;
    if (!PyCode_Check(code))
        PyErr_Format(PyExc_TypeError, "a code object is expected, not %s",
                     Py_TYPE(code)->tp_name);
    else if (globals && all && add_facts(globals, all, (PyCodeObject *)code) == 0)
        both = PyTuple_Pack(2, globals, all);
    Py_XDECREF(globals);
    Py_XDECREF(all);
    return both;
}
