/* no_grad, enable_grad, set_grad_enabled, inference_mode: context managers that are also
 * decorators.  The mode itself is in cr_thread. */
#include "py/bind/bind.h"
#include <string.h>

typedef enum { NO_GRAD, ENABLE_GRAD, SET_GRAD, INFERENCE } switch_kind;

typedef struct {
    PyObject_HEAD uint8_t kind; /* switch_kind */
    bool mode;                  /* SET_GRAD, INFERENCE: the requested mode */
    bool was_no_grad, was_inference;
} grad_switch;

static void mode_apply(grad_switch *s)
{
    s->was_no_grad = cr_thread.no_grad;
    s->was_inference = cr_thread.inference;
    if (s->kind == INFERENCE) {
        cr_thread.inference = s->mode;
        cr_thread.no_grad = s->mode;
    } else {
        cr_thread.no_grad = !s->mode;
    }
}

static void restore(const grad_switch *s)
{
    cr_thread.no_grad = s->was_no_grad;
    if (s->kind == INFERENCE)
        cr_thread.inference = s->was_inference;
}

static PyObject *switch_new(PyTypeObject *type, switch_kind kind, bool mode)
{
    grad_switch *s = (grad_switch *)type->tp_alloc(type, 0);

    if (!s)
        return NULL;
    s->kind = (uint8_t)kind;
    s->mode = mode;
    if (kind == SET_GRAD) /* takes effect at once, with or without `with` */
        mode_apply(s);
    return (PyObject *)s;
}

static PyObject *switch_enter(PyObject *self, PyObject *unused)
{
    grad_switch *s = (grad_switch *)self;

    (void)unused;
    if (s->kind == SET_GRAD)
        cr_thread.no_grad = !s->mode;
    else
        mode_apply(s);
    Py_RETURN_NONE;
}

static PyObject *switch_exit(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)args;
    (void)n;
    restore((grad_switch *)self);
    Py_RETURN_FALSE;
}

static PyObject *switch_clone(PyObject *self, PyObject *unused)
{
    const grad_switch *s = (grad_switch *)self;

    (void)unused;
    if (s->kind == SET_GRAD || s->kind == INFERENCE)
        return PyObject_CallFunction((PyObject *)Py_TYPE(self), "O",
                                     s->mode ? Py_True : Py_False);
    return PyObject_CallNoArgs((PyObject *)Py_TYPE(self));
}

/* As a decorator: functools does the work. */
static PyObject *decorate(PyObject *self, PyObject *function)
{
    PyObject *m = cr_py_import("autograd.grad_mode"), *out;

    if (!m)
        return NULL;
    out = PyObject_CallMethod(m, "_decorate", "OO", self, function);
    Py_DECREF(m);
    return out;
}

static PyObject *switch_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *function;

    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O", &function))
        return NULL;
    if (((grad_switch *)self)->kind == SET_GRAD)
        restore((grad_switch *)self);
    return decorate(self, function);
}

/* Constructs no_grad() or applies @no_grad. */
static PyObject *plain_new(PyTypeObject *type, PyObject *args, switch_kind kind, bool mode)
{
    PyObject *function = NULL, *self, *out;

    if (!PyArg_ParseTuple(args, "|O", &function))
        return NULL;
    self = switch_new(type, kind, mode);
    if (!self || !function)
        return self;
    out = decorate(self, function);
    Py_DECREF(self);
    return out;
}

static PyObject *no_grad_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    return plain_new(type, args, NO_GRAD, false);
}

static PyObject *enable_grad_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    return plain_new(type, args, ENABLE_GRAD, true);
}

/* False with an exception: `mode` is no bool. */
static bool is_grad_mode(PyObject *mode)
{
    if (PyBool_Check(mode) || !strncmp(Py_TYPE(mode)->tp_name, "numpy.bool", 10))
        return true;
    PyErr_Format(PyExc_TypeError,
                 "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not %s",
                 Py_TYPE(mode)->tp_name);
    return false;
}

static PyObject *set_grad_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"mode", NULL};
    PyObject *mode;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:set_grad_enabled", names, &mode) ||
        !is_grad_mode(mode))
        return NULL;
    return switch_new(type, SET_GRAD, PyObject_IsTrue(mode) > 0);
}

static PyObject *inference_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"mode", NULL};
    PyObject *mode = Py_True, *self, *out;
    bool on;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:inference_mode", names, &mode))
        return NULL;
    if (PyBool_Check(mode) || !PyCallable_Check(mode))
        return cr_py_truth(mode, &on) ? switch_new(type, INFERENCE, on) : NULL;
    self = switch_new(type, INFERENCE, true);
    out = self ? decorate(self, mode) : NULL;
    Py_XDECREF(self);
    return out;
}

/* @no_grad passes the function to tp_new and then to tp_init, which must accept it. */
static int switch_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    (void)args;
    (void)kwargs;
    return 0;
}

static PyObject *set_grad_repr(PyObject *self)
{
    return PyUnicode_FromFormat("torch.autograd.grad_mode.set_grad_enabled(mode=%s)",
                                ((grad_switch *)self)->mode ? "True" : "False");
}

static PyObject *switch_mode(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((grad_switch *)self)->mode);
}

static PyMethodDef switch_methods[] = {
    {"__enter__", switch_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))switch_exit, METH_FASTCALL, NULL},
    {"clone", switch_clone, METH_NOARGS, "Makes another context manager of the same mode."},
    {0}};
static PyGetSetDef switch_getset[] = {{"mode", switch_mode, NULL, NULL, NULL}, {0}};

#define SWITCH_TYPE(name_, new_, doc_)                                                         \
    {                                                                                          \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = "autograd.grad_mode." name_,                  \
                                    .tp_basicsize = sizeof(grad_switch),                       \
                                    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,      \
                                    .tp_doc = doc_, .tp_new = new_, .tp_init = switch_init,    \
                                    .tp_call = switch_call, .tp_methods = switch_methods,      \
                                    .tp_getset = switch_getset,                                \
    }

static PyTypeObject switch_types[] = {
    SWITCH_TYPE("no_grad", no_grad_new,
                "Disables recording inside, in a with block or a decorated function.\n\n"
                "    >>> x = torch.ones(2, requires_grad=True)\n"
                "    >>> with torch.no_grad():\n"
                "    ...     y = x * 2\n"
                "    >>> y.requires_grad\n"
                "    False\n"),
    SWITCH_TYPE("enable_grad", enable_grad_new,
                "Enables recording inside, in a with block or a decorated function.\n\n"
                "    >>> x = torch.ones(2, requires_grad=True)\n"
                "    >>> with torch.no_grad(), torch.enable_grad():\n"
                "    ...     y = x * 2\n"
                "    >>> y.requires_grad\n"
                "    True\n"),
    SWITCH_TYPE("set_grad_enabled", set_grad_new,
                "Enables or disables recording, at once and also inside a with block.\n\n"
                "    >>> with torch.set_grad_enabled(False):\n"
                "    ...     torch.is_grad_enabled()\n"
                "    False\n"),
    SWITCH_TYPE("inference_mode", inference_new,
                "Disables recording inside; tensors made inside can never be recorded.\n\n"
                "    >>> with torch.inference_mode():\n"
                "    ...     y = torch.ones(2)\n"
                "    >>> y.is_inference()\n"
                "    True\n"),
};

static PyObject *is_grad_enabled(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(!cr_thread.no_grad);
}

static PyObject *is_inference_mode_enabled(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(cr_thread.inference);
}

static PyObject *set_grad_mode(PyObject *m, PyObject *x)
{
    (void)m;
    if (!is_grad_mode(x))
        return NULL;
    cr_thread.no_grad = PyObject_IsTrue(x) <= 0;
    Py_RETURN_NONE;
}

/* --- transforms of torch.func --- */

/* The transforms that run, of all threads. */
static long transforms;

static PyObject *enter_transform(PyObject *module, PyObject *self)
{
    (void)module;
    transforms++;
    return Py_NewRef(self);
}

static PyObject *exit_transform(PyObject *module, PyObject *args)
{
    (void)module;
    (void)args;
    transforms--;
    Py_RETURN_NONE;
}

static PyObject *are_transforms_running(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(transforms != 0);
}

static PyMethodDef transform_methods[] = {
    {"_enter_transform", enter_transform, METH_O, "A transform of torch.func runs."},
    {"_exit_transform", exit_transform, METH_VARARGS, "It has ended."},
    {0}};

bool cr_py_is_outside_transforms(const char *name, const char *more)
{
    PyObject *module, *done;

    if (!transforms)
        return true;
    module = cr_py_import("_functorch");
    done = module ? PyObject_CallMethod(module, "refuse_inside", "ss", name, more) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(done);
    return done;
}

static PyMethodDef functions[] = {
    {"_are_transforms_running", are_transforms_running, METH_NOARGS,
     "Whether any thread runs a transform of torch.func."},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS,
     "True when operations are recorded.\n\n"
     "    >>> torch.is_grad_enabled()\n"
     "    True\n"},
    {"is_inference_mode_enabled", is_inference_mode_enabled, METH_NOARGS, NULL},
    {"_set_grad_enabled", set_grad_mode, METH_O, NULL},
    {0}};

int cr_py_gradmode_start(PyObject *m)
{
    static const char *const names[] = {"no_grad", "enable_grad", "set_grad_enabled",
                                        "inference_mode"};
    switch_types[2].tp_repr = set_grad_repr;
    for (size_t i = 0; i < CR_LEN(names); i++)
        if (cr_py_add_type(m, names[i], &switch_types[i]) < 0)
            return -1;
    return PyModule_AddFunctions(m, functions) < 0 ? -1
                                                   : cr_py_add_methods(m, transform_methods);
}
