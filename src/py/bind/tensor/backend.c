/* Devices outside the library: loading, names, and the queries of torch.<name> to their
 * table. */
#include "cresset_backend.h"
#include "py/bind/bind.h"

static PyObject *load_backend(PyObject *m, PyObject *path)
{
    PyObject *bytes;

    (void)m;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    const char *error = cr_backend_load(PyBytes_AS_STRING(bytes));
    if (error)
        PyErr_SetString(PyExc_RuntimeError, error);
    Py_DECREF(bytes);
    return error ? NULL : Py_NewRef(Py_None);
}

static PyObject *set_name(PyObject *m, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);

    (void)m;
    if (!text)
        return NULL;
    return cr_py_done(cr_device_rename(text));
}

static PyObject *get_name(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyUnicode_FromString(cr_device_kind_name(CR_PRIVATEUSE1));
}

/* The table, or NULL with torch's error. */
static const cr_device_ops *backend_ops(void)
{
    cr_device unused;

    if (!cr_device_of(CR_PRIVATEUSE1))
        cr_py_raise(cr_device_named(&unused, cr_device_pack(CR_PRIVATEUSE1, -1)));
    return cr_device_of(CR_PRIVATEUSE1);
}

static PyObject *count_devices(PyObject *m, PyObject *unused)
{
    const cr_device_ops *ops = cr_device_of(CR_PRIVATEUSE1);

    (void)m;
    (void)unused;
    return PyLong_FromLong(ops ? ops->count() : 0);
}

static PyObject *current(PyObject *m, PyObject *unused)
{
    const cr_device_ops *ops = backend_ops();

    (void)m;
    (void)unused;
    return ops ? PyLong_FromLong(ops->current()) : NULL;
}

/* A device's number: an int, a device, a string, or None for the current one; -1 with an
 * exception. */
static int backend_index(PyObject *x, const cr_device_ops *ops)
{
    int kind = CR_PRIVATEUSE1, index = -1;

    if (x == Py_None)
        return ops->current();
    if (PyLong_Check(x))
        index = (int)PyLong_AsLong(x);
    else if (cr_py_device_from(x, &kind, &index) <= 0)
        return -1;
    if (kind != CR_PRIVATEUSE1 || index >= ops->count() || PyErr_Occurred()) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_RuntimeError, "%s error: invalid device ordinal",
                         cr_device_kind_name(CR_PRIVATEUSE1));
        return -1;
    }
    return index < 0 ? ops->current() : index;
}

static PyObject *set_current(PyObject *m, PyObject *x)
{
    const cr_device_ops *ops = backend_ops();
    int index = ops ? backend_index(x, ops) : -1;

    (void)m;
    return index < 0 ? NULL : cr_py_said(ops->set_current(index));
}

static PyObject *synchronize(PyObject *m, PyObject *x)
{
    const cr_device_ops *ops = backend_ops();
    int index = ops ? backend_index(x, ops) : -1;
    const char *error;

    (void)m;
    if (index < 0)
        return NULL;
    CR_PY_UNLOCKED(error = ops->synchronize(index));
    return cr_py_said(error);
}

static PyObject *limits(PyObject *m, PyObject *x)
{
    const cr_device_ops *ops = backend_ops();
    int index = ops ? backend_index(x, ops) : -1;
    cr_device_limits l = {0};

    (void)m;
    if (index < 0)
        return NULL;
    cr_status st = cr_device_status(ops->limits(index, &l));
    return st ? cr_py_raise(st)
              : Py_BuildValue("(sn)", l.name ? l.name : "", (Py_ssize_t)l.total_memory);
}

/* --- streams and events: addresses as numbers, wrapped in classes by Python --- */

#define MAKE(name)                                                                             \
    static PyObject *name(PyObject *m, PyObject *x)                                            \
    {                                                                                          \
        const cr_device_ops *ops = backend_ops();                                              \
        int index = ops ? backend_index(x, ops) : -1;                                          \
        void *made;                                                                            \
                                                                                               \
        (void)m;                                                                               \
        if (index < 0)                                                                         \
            return NULL;                                                                       \
        cr_status st = cr_device_status(ops->name(index, &made));                              \
        return st ? cr_py_raise(st) : PyLong_FromVoidPtr(made);                                \
    }
MAKE(stream_new)
MAKE(event_new)

static PyObject *get_stream(PyObject *m, PyObject *x)
{
    const cr_device_ops *ops = backend_ops();
    int index = ops ? backend_index(x, ops) : -1;

    (void)m;
    return index < 0 ? NULL : PyLong_FromVoidPtr(ops->stream(index));
}

CR_PY_ON_PAIR(set_stream, backend_ops(), cr_py_wait_on(ops->set_stream, index, at))
CR_PY_ON_PAIR(event_record, backend_ops(), cr_py_wait_on(ops->event_record, index, at))
CR_PY_ON_PAIR(event_wait, backend_ops(), cr_py_wait_on(ops->event_wait, index, at))
CR_PY_ON_PAIR(event_synchronize, backend_ops(),
              cr_py_wait_on(ops->event_synchronize, index, at))
CR_PY_ON_PAIR(stream_drop, backend_ops(), (ops->stream_drop(index, at), Py_NewRef(Py_None)))
CR_PY_ON_PAIR(event_drop, backend_ops(), (ops->event_drop(index, at), Py_NewRef(Py_None)))
CR_PY_ON_PAIR(event_done, backend_ops(), PyBool_FromLong(ops->event_done(index, at)))

static PyObject *allow_fallback(PyObject *m, PyObject *x)
{
    int on = PyObject_IsTrue(x);

    (void)m;
    if (on < 0)
        return NULL;
    cr_backend_fallback(on);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_load_backend", load_backend, METH_O, "Loads a device from a shared object."},
    {"_rename_privateuse1_backend", set_name, METH_O, "Gives privateuseone a name, once."},
    {"_get_privateuse1_backend_name", get_name, METH_NOARGS, "The name of privateuseone."},
    {"_backend_fallback", allow_fallback, METH_O, "Whether the host helps with operators."},
    {"_backend_count", count_devices, METH_NOARGS, "How many devices there are."},
    {"_backend_current", current, METH_NOARGS, "The thread's device."},
    {"_backend_set_current", set_current, METH_O, "Sets the thread's device."},
    {"_backend_synchronize", synchronize, METH_O, "Waits for a device."},
    {"_backend_limits", limits, METH_O, "The name of the model and the bytes of its memory."},
    {"_backend_stream_new", stream_new, METH_O, "Makes a stream."},
    {"_backend_stream_drop", stream_drop, METH_VARARGS, "Drops a stream."},
    {"_backend_stream", get_stream, METH_O, "The thread's stream."},
    {"_backend_set_stream", set_stream, METH_VARARGS, "Sets the thread's stream."},
    {"_backend_event_new", event_new, METH_O, "Makes an event."},
    {"_backend_event_drop", event_drop, METH_VARARGS, "Drops an event."},
    {"_backend_event_record", event_record, METH_VARARGS, "Records an event."},
    {"_backend_event_wait", event_wait, METH_VARARGS,
     "The thread's stream waits for an event."},
    {"_backend_event_synchronize", event_synchronize, METH_VARARGS, "Waits for an event."},
    {"_backend_event_done", event_done, METH_VARARGS, "Whether an event has happened."},
    {0}};

int cr_py_backend_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
