/* The package's root name, "torch" or "cresset".
 *
 * Python decides it when the package is imported (python/cresset/_root.py).  No file of the
 * extension states it: names of types and of modules are stated without their root, and get it
 * here. */
#include "py/bind/bind.h"
#include <string.h>

static const char *root = "cresset";

int cr_py_root_start(PyObject *m)
{
    const char *name = PyModule_GetName(m), *dot = name ? strchr(name, '.') : NULL;
    char *text;

    if (!name)
        return -1;
    if (!dot) /* imported by itself, without its package */
        return 0;
    text = PyMem_Malloc((size_t)(dot - name) + 1);
    if (!text) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(text, name, (size_t)(dot - name));
    text[dot - name] = 0;
    root = text;
    return 0;
}

const char *cr_py_root(void) { return root; }

/* The text lives as long as the process, as the type that it names. */
const char *cr_py_full_name(const char *name)
{
    size_t bytes = strlen(root) + strlen(name) + 2;
    char *text = PyMem_Malloc(bytes);

    if (!text)
        return (const char *)PyErr_NoMemory();
    snprintf(text, bytes, "%s.%s", root, name);
    return text;
}

PyObject *cr_py_import(const char *module)
{
    PyObject *name = PyUnicode_FromFormat("%s.%s", root, module), *out;

    out = name ? PyImport_Import(name) : NULL;
    Py_XDECREF(name);
    return out;
}

int cr_py_type_ready(PyTypeObject *type)
{
    const char *name = cr_py_full_name(type->tp_name);

    if (!name)
        return -1;
    type->tp_name = name;
    return PyType_Ready(type);
}
