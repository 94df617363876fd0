/* Enumeration constants: layouts and memory formats. */
#include "py/bind/bind.h"
#include <string.h>

static PyObject *constant_repr(PyObject *self)
{
    return PyUnicode_FromFormat("torch.%s", ((cr_py_constant *)self)->name);
}

static PyObject *constant_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!Py_IS_TYPE(self, &cr_py_layout_type))
        return PyUnicode_FromString(((cr_py_constant *)self)->name);
    PyObject *module = cr_py_import("serialization"), *text = constant_repr(self), *out = NULL;
    PyObject *function = module ? PyObject_GetAttrString(module, "_get_layout") : NULL;
    if (function && text)
        out = Py_BuildValue("O(O)", function, text);
    Py_XDECREF(function);
    Py_XDECREF(text);
    Py_XDECREF(module);
    return out;
}

static PyMethodDef constant_methods[] = {{"__reduce__", constant_reduce, METH_NOARGS, NULL},
                                         {0}};

PyTypeObject cr_py_layout_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "layout",
    .tp_basicsize = sizeof(cr_py_constant),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "How a tensor's elements are stored.",
    .tp_repr = constant_repr,
    .tp_methods = constant_methods,
};
PyTypeObject cr_py_format_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "memory_format",
    .tp_basicsize = sizeof(cr_py_constant),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "The order of a tensor's elements in memory.",
    .tp_repr = constant_repr,
    .tp_methods = constant_methods,
};

/* After the layouts, jagged: nested tensors are a class in Python, and entries refuse it
 * (args.c). */
static PyObject *layout_objects[CR_LAYOUT_COUNT + 1], *format_objects[CR_FORMAT_COUNT];

PyObject *cr_py_layout_object(int value) { return layout_objects[value]; }

PyObject *cr_py_format_object(int value) { return format_objects[value]; }

static int add_all(PyObject *m, PyTypeObject *type, const char *const *names, size_t n,
                   PyObject **objects)
{
    for (size_t i = 0; i < n; i++) {
        cr_py_constant *c = PyObject_New(cr_py_constant, type);
        if (!c)
            return -1;
        c->name = names[i];
        c->value = (int)i;
        objects[i] = (PyObject *)c;
        if (PyModule_AddObjectRef(m, names[i], objects[i]) < 0)
            return -1;
    }
    return 0;
}

static int add_layouts(PyObject *m)
{
    const char *names[CR_LAYOUT_COUNT + 1];

    memcpy(names, cr_layout_names, CR_LAYOUT_COUNT * sizeof *names);
    names[CR_LAYOUT_COUNT] = "jagged";
    return add_all(m, &cr_py_layout_type, names, CR_LAYOUT_COUNT + 1, layout_objects);
}

int cr_py_constant_start(PyObject *m)
{
    if (cr_py_add_type(m, "layout", &cr_py_layout_type) < 0 ||
        cr_py_add_type(m, "memory_format", &cr_py_format_type) < 0 || add_layouts(m) < 0)
        return -1;
    return add_all(m, &cr_py_format_type, cr_format_names, CR_FORMAT_COUNT, format_objects);
}
