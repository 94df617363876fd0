/* Errors: converts a status to a Python exception.  No other file does. */
#include "device/cuda/cuda.h"
#include "py/bind/bind.h"
#include <string.h>

PyObject *cr_py_linalg_error;

#define CR_KIND(name, pyclass) [CR_##name] = pyclass,
static const char *const class_names[CR_KIND_COUNT] = {
#include "base/kinds.def"
};
#undef CR_KIND

static PyObject *classes[CR_KIND_COUNT];

/* Imports the class of a module when it is first raised. */
static PyObject *import_class(const char *name)
{
    const char *dot = strrchr(name, '.');
    PyObject *text = PyUnicode_FromStringAndSize(name, dot - name);
    PyObject *module = text ? PyImport_Import(text) : NULL;
    PyObject *class = module ? PyObject_GetAttrString(module, dot + 1) : NULL;

    Py_XDECREF(text);
    Py_XDECREF(module);
    PyErr_Clear();
    return class;
}

/* The class of a status, borrowed; NULL when there is none. */
static PyObject *raise_class_of(cr_status st)
{
    if (st <= CR_OK || st >= CR_KIND_COUNT)
        return NULL;
    if (!classes[st] && class_names[st])
        classes[st] = import_class(class_names[st]);
    return classes[st];
}

/* An error of the driver, whose number is the attribute `error_code`. */
static void raise_accelerator(PyObject *class)
{
    PyObject *error = PyObject_CallFunction(class, "s", cr_error_message());
    PyObject *code = error ? PyLong_FromLong(cr_cuda_last_failure()) : NULL;

    if (code && !PyObject_SetAttrString(error, "error_code", code))
        PyErr_SetObject(class, error);
    Py_XDECREF(code);
    Py_XDECREF(error);
}

bool cr_py_truth(PyObject *x, bool *out)
{
    int truth = PyObject_IsTrue(x);

    *out = truth > 0;
    return truth >= 0;
}

bool cr_py_forget_error(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return false;
    PyErr_Clear();
    return true;
}

/* Takes the reference. */
static int raise_now(void *exception)
{
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_DECREF((PyObject *)exception);
    return -1;
}

void cr_py_raise_later(void)
{
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value && Py_AddPendingCall(raise_now, value) < 0)
        PyErr_WriteUnraisable(value);
    else if (value)
        Py_INCREF(value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

PyObject *cr_py_raise(cr_status st)
{
    if (st == CR_PYTHON && PyErr_Occurred())
        return NULL;
    PyObject *class = raise_class_of(st);
    if (st == CR_ACCELERATOR)
        raise_accelerator(class);
    else
        PyErr_SetString(class ? class : PyExc_RuntimeError, cr_error_message());
    return NULL;
}

int cr_py_raise_int(cr_status st)
{
    cr_py_raise(st);
    return -1;
}

int cr_py_warn_once(bool *said, const char *text)
{
    if (*said && !cr_thread.warn_always)
        return 0;
    *said = true;
    return PyErr_WarnEx(PyExc_UserWarning, text, 1);
}

int cr_py_warn_complex_half(void)
{
    static bool said;

    return cr_py_warn_once(&said,
                           "ComplexHalf support is experimental and many operators don't "
                           "support it yet.");
}

int cr_py_warn_cast(cr_dtype from, cr_dtype to)
{
    static bool said;

    return !cr_dtype_is_complex(from) || cr_dtype_is_complex(to) || to == CR_BOOL
               ? 0
               : cr_py_warn_once(&said,
                                 "Casting complex values to real discards the imaginary part");
}

int cr_py_warn_expanded(const cr_op *op, const cr_tensor *self)
{
    if (!cr_has_bytes(self->device) || !cr_has_internal_overlap(self))
        return 0;
    return PyErr_WarnFormat(
        PyExc_UserWarning, 1,
        "Use of %s on expanded tensors is deprecated. Please clone() the tensor before "
        "performing this operation. This also applies to advanced indexing e.g. %s",
        op->name, op->expanded_example);
}

static PyObject *memory_error, *accelerator_error, *script_error;

/* The exception class of a name in kinds.def: one that this file makes, or a built-in class.
 * Borrowed; NULL when it does not exist yet. */
static PyObject *class_named(const char *name)
{
    if (!strcmp(name, "cresset.linalg.LinAlgError"))
        return cr_py_linalg_error;
    if (!strcmp(name, "cresset.OutOfMemoryError"))
        return memory_error;
    if (!strcmp(name, "cresset.AcceleratorError"))
        return accelerator_error;
    if (!strcmp(name, "cresset.jit.Error"))
        return script_error;
    return PyDict_GetItemString(PyEval_GetBuiltins(), name);
}

int cr_py_raise_start(PyObject *m)
{
    cr_py_linalg_error = PyErr_NewExceptionWithDoc(
        "torch._C._LinAlgError", "A matrix does not have the property that a routine needs.",
        PyExc_RuntimeError, NULL);
    if (!cr_py_linalg_error || PyModule_AddObjectRef(m, "_LinAlgError", cr_py_linalg_error) < 0)
        return -1;
    memory_error = PyErr_NewExceptionWithDoc("torch.OutOfMemoryError",
                                             "Exception raised when device is out of memory",
                                             PyExc_RuntimeError, NULL);
    if (!memory_error || PyModule_AddObjectRef(m, "OutOfMemoryError", memory_error) < 0)
        return -1;
    accelerator_error = PyErr_NewExceptionWithDoc("torch.AcceleratorError",
                                                  "Exception raised while executing "
                                                  "on device",
                                                  PyExc_RuntimeError, NULL);
    if (!accelerator_error ||
        PyModule_AddObjectRef(m, "AcceleratorError", accelerator_error) < 0)
        return -1;
    script_error = PyErr_NewExceptionWithDoc(
        "torch.jit.Error", "An error that a compiled function raises.", PyExc_Exception, NULL);
    if (!script_error || PyModule_AddObjectRef(m, "_ScriptError", script_error) < 0)
        return -1;
    for (int i = 0; i < CR_KIND_COUNT; i++)
        if (class_names[i]) {
            classes[i] = class_named(class_names[i]);
            Py_XINCREF(classes[i]);
        }
    return 0;
}

int cr_py_add_methods(PyObject *m, PyMethodDef *methods)
{
    PyObject *module = PyModule_GetNameObject(m);
    int done = module ? 0 : -1;

    for (PyMethodDef *d = methods; !done && d->ml_name; d++) {
        PyObject *function = PyCFunction_NewEx(d, NULL, module);
        PyObject *method = function ? PyInstanceMethod_New(function) : NULL;
        done = method ? PyModule_AddObjectRef(m, d->ml_name, method) : -1;
        Py_XDECREF(method);
        Py_XDECREF(function);
    }
    Py_XDECREF(module);
    return done;
}

int cr_py_add_type(PyObject *m, const char *name, PyTypeObject *type)
{
    if (cr_py_type_ready(type) < 0)
        return -1;
    const char *dot = strrchr(type->tp_name, '.');
    /* Static types have no __module__, which pickle needs for objects that are pickled by name
     * (dtypes). */
    PyObject *home = PyUnicode_FromStringAndSize(type->tp_name, dot - type->tp_name);
    if (!home || PyDict_SetItemString(type->tp_dict, "__module__", home) < 0) {
        Py_XDECREF(home);
        return -1;
    }
    Py_XDECREF(home);
    PyType_Modified(type);
    return PyModule_AddObjectRef(m, name, (PyObject *)type);
}
