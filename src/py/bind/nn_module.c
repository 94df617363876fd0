/* nn.Module: the parts of a layer's call that must be fast.
 *
 * A call checks for hooks and runs `forward`.  An attribute that neither the class nor the
 * instance has is looked up in the tables of parameters, modules and buffers.  Registration,
 * calls with hooks and error messages are in Python: nn/modules/module.py.
 *
 * For a class whose bases define `__getattr__` in Python, CPython first raises AttributeError
 * and then calls `__getattr__`, which is slow.  nn.Module.__init_subclass__ calls quicken(),
 * which replaces this lookup by the one in C, unless the class defines `__getattr__`.
 * Assigning `__getattr__` later replaces the C lookup again. */
#include "py/bind/bind.h"

enum { OWN_HOOKS = 4, GLOBAL_HOOKS = 4, TABLES = 3 };

static const char *const hook_names[OWN_HOOKS] = {"_forward_hooks", "_forward_pre_hooks",
                                                  "_backward_hooks", "_backward_pre_hooks"};
static const char *const table_names[TABLES] = {"_parameters", "_modules", "_buffers"};
static PyObject *own_hooks[OWN_HOOKS], *tables[TABLES], *forward, *compiled, *slow_call,
    *getattr;
/* Set by Python: dicts of the hooks of all modules, and nn.Module.__getattr__. */
static PyObject *global_hooks[GLOBAL_HOOKS], *module_getattr;

/* The instance's dict, borrowed; NULL with an exception. */
static PyObject *dict_of(PyObject *self)
{
    PyObject *dict = PyObject_GenericGetDict(self, NULL);

    Py_XDECREF(dict); /* the instance keeps the dict alive */
    return dict;
}

/* 1 when a hook must run or the instance is not initialized, 0 when not, -1 with an
 * exception. */
static int needs_more(PyObject *dict)
{
    for (int i = 0; i < OWN_HOOKS; i++) {
        PyObject *hooks = PyDict_GetItemWithError(dict, own_hooks[i]);
        if (!hooks)
            return PyErr_Occurred() ? -1 : 1;
        if (!PyDict_Check(hooks) || PyDict_GET_SIZE(hooks))
            return 1;
    }
    for (int i = 0; i < GLOBAL_HOOKS; i++)
        if (!global_hooks[i] || PyDict_GET_SIZE(global_hooks[i]))
            return 1;
    return 0;
}

/* The compiled form of the call, borrowed; NULL when there is none, or with an exception. */
static PyObject *compiled_of(PyObject *dict)
{
    PyObject *f = PyDict_GetItemWithError(dict, compiled);

    return f == Py_None ? NULL : f;
}

static PyObject *call_attribute(PyObject *self, PyObject *name, PyObject *args,
                                PyObject *kwargs)
{
    PyObject *f = PyObject_GetAttr(self, name);
    PyObject *out = f ? PyObject_Call(f, args, kwargs) : NULL;

    Py_XDECREF(f);
    return out;
}

static PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *dict = dict_of(self), *f = dict ? compiled_of(dict) : NULL;
    int more;

    if (!dict || PyErr_Occurred())
        return NULL;
    if (f) {
        Py_INCREF(f);
        PyObject *out = PyObject_Call(f, args, kwargs);
        Py_DECREF(f);
        return out;
    }
    more = needs_more(dict);
    return more < 0 ? NULL : call_attribute(self, more ? slow_call : forward, args, kwargs);
}

/* A value of one of the tables, new reference; NULL with or without an exception. */
static PyObject *from_tables(PyObject *dict, PyObject *name)
{
    for (int i = 0; i < TABLES; i++) {
        PyObject *table = PyDict_GetItemWithError(dict, tables[i]);
        PyObject *x =
            table && PyDict_Check(table) ? PyDict_GetItemWithError(table, name) : NULL;
        if (x)
            return Py_NewRef(x);
        if (PyErr_Occurred())
            return NULL;
    }
    return NULL;
}

static PyObject *quick_getattr(PyObject *self, PyObject *name)
{
    PyObject *x = _PyObject_GenericGetAttrWithDict(self, name, NULL, 1), *dict;

    if (x || PyErr_Occurred())
        return x;
    dict = dict_of(self);
    x = dict ? from_tables(dict, name) : NULL;
    return x || PyErr_Occurred()
               ? x
               : PyObject_CallFunctionObjArgs(module_getattr, self, name, NULL);
}

/* _quicken_module(cls): sets the C attribute lookup, see above. */
static PyObject *quicken(PyObject *m, PyObject *cls)
{
    PyTypeObject *type = (PyTypeObject *)cls;
    PyObject *asked;

    (void)m;
    if (!PyType_Check(cls))
        return PyErr_Format(PyExc_TypeError, "a class is needed, not %s",
                            Py_TYPE(cls)->tp_name);
    asked = PyObject_GetAttr(cls, getattr);
    if (!asked)
        return NULL;
    bool ours = asked == module_getattr;
    Py_DECREF(asked);
    asked = PyObject_GetAttrString(cls, "__getattribute__");
    if (!asked)
        return NULL;
    ours = ours && Py_IS_TYPE(asked, &PyWrapperDescr_Type) &&
           ((PyWrapperDescrObject *)asked)->d_wrapped == (void *)PyObject_GenericGetAttr;
    Py_DECREF(asked);
    if (ours)
        type->tp_getattro = quick_getattr;
    Py_RETURN_NONE;
}

/* Makes module_call the class's `__call__`.  A slot wrapper, as of a type in C, lets CPython
 * call the function directly.  A base type in C would change the layout of instances: objects
 * could not be assigned a class with another first base. */
static int set_call(PyObject *cls)
{
    PyObject *like = PyObject_GetAttrString((PyObject *)&PyFunction_Type, "__call__"), *call;
    int failed;

    if (!like)
        return -1;
    call = PyDescr_NewWrapper((PyTypeObject *)cls, ((PyWrapperDescrObject *)like)->d_base,
                              (void *)module_call);
    failed = call ? PyObject_SetAttrString(cls, "__call__", call) : -1;
    Py_XDECREF(call);
    Py_DECREF(like);
    return failed;
}

/* _set_module_parts(Module, hooks...): sets the objects of nn/modules/module.py. */
static PyObject *set_parts(PyObject *m, PyObject *args)
{
    PyObject *cls, *asked;

    (void)m;
    if (PyTuple_GET_SIZE(args) != 1 + GLOBAL_HOOKS || !PyType_Check(PyTuple_GET_ITEM(args, 0)))
        return PyErr_Format(PyExc_TypeError, "expected a class and %d dicts", GLOBAL_HOOKS);
    for (int i = 0; i < GLOBAL_HOOKS; i++) {
        PyObject *hooks = PyTuple_GET_ITEM(args, i + 1);
        if (!PyDict_Check(hooks))
            return PyErr_Format(PyExc_TypeError, "hooks are in a dict");
        Py_XSETREF(global_hooks[i], Py_NewRef(hooks));
    }
    cls = PyTuple_GET_ITEM(args, 0);
    asked = PyObject_GetAttr(cls, getattr);
    if (!asked || set_call(cls) < 0) {
        Py_XDECREF(asked);
        return NULL;
    }
    Py_XSETREF(module_getattr, asked);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"_quicken_module", quicken, METH_O, NULL},
                                  {"_set_module_parts", set_parts, METH_VARARGS, NULL},
                                  {0}};

static int module_intern(PyObject **out, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!(out[i] = PyUnicode_InternFromString(names[i])))
            return -1;
    return 0;
}

int cr_py_nn_module_start(PyObject *m)
{
    static const char *const others[] = {"forward", "_compiled_call_impl", "_call_impl",
                                         "__getattr__"};
    PyObject *name[CR_LEN(others)];

    if (module_intern(own_hooks, hook_names, OWN_HOOKS) < 0 ||
        module_intern(tables, table_names, TABLES) < 0 ||
        module_intern(name, others, CR_LEN(others)) < 0)
        return -1;
    forward = name[0], compiled = name[1], slow_call = name[2], getattr = name[3];
    return PyModule_AddFunctions(m, functions);
}
