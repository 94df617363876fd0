/* The names that a code object can read, for guards. */
#include "py/bind/compile/compiled.h"
#include <opcode.h>

typedef struct {
    PyObject *globals, *names;
    bool matches; /* a match statement asks whether a class is a sequence or a mapping */
} facts;

static int add_global(facts *f, PyObject *names, unsigned at)
{
    return at < (unsigned)PyTuple_GET_SIZE(names)
               ? PySet_Add(f->globals, PyTuple_GET_ITEM(names, at))
               : 0;
}

/* A class statement loads a builtin that the code object does not name. */
static int add_class_builder(facts *f)
{
    PyObject *name = PyUnicode_InternFromString("__build_class__");
    int status = name ? PySet_Add(f->globals, name) : -1;

    Py_XDECREF(name);
    return status;
}

/* Adds what the instructions read: the name of every global, and types that they ask for. */
static int add_instructions(facts *f, PyObject *raw, PyObject *names)
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
            if (add_global(f, names, arg) < 0)
                return -1;
        }
        if (op == LOAD_BUILD_CLASS && add_class_builder(f) < 0)
            return -1;
        f->matches = f->matches || op == MATCH_SEQUENCE || op == MATCH_MAPPING;
        arg = 0;
    }
    return 0;
}

static int add_facts(facts *f, PyCodeObject *code)
{
    PyObject *raw = PyObject_GetAttrString((PyObject *)code, "co_code");
    int status = raw ? add_instructions(f, raw, code->co_names) : -1;

    Py_XDECREF(raw);
    for (Py_ssize_t i = 0; !status && i < PyTuple_GET_SIZE(code->co_names); i++)
        status = PySet_Add(f->names, PyTuple_GET_ITEM(code->co_names, i));
    for (Py_ssize_t i = 0; !status && i < PyTuple_GET_SIZE(code->co_consts); i++) {
        PyObject *inner = PyTuple_GET_ITEM(code->co_consts, i);

        if (PyCode_Check(inner))
            status = add_facts(f, (PyCodeObject *)inner);
    }
    return status;
}

PyObject *cr_py_code_facts(PyObject *module, PyObject *code)
{
    facts f = {PySet_New(NULL), PySet_New(NULL), false};
    PyObject *made = NULL;

    (void)module;
    if (!PyCode_Check(code))
        PyErr_Format(PyExc_TypeError, "a code object is expected, not %s",
                     Py_TYPE(code)->tp_name);
    else if (f.globals && f.names && add_facts(&f, (PyCodeObject *)code) == 0)
        made = PyTuple_Pack(3, f.globals, f.names, f.matches ? Py_True : Py_False);
    Py_XDECREF(f.globals);
    Py_XDECREF(f.names);
    return made;
}
