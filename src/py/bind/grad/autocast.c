/* Autocast's settings under torch's names.  The context managers are in Python (amp/). */
#include "py/bind/bind.h"

static int device_kind(PyObject *x, cr_device_kind *out)
{
    int kind = CR_CUDA, index;

    if (x && !PyUnicode_Check(x)) {
        PyErr_Format(PyExc_TypeError, "device_type must be a str, not %s", Py_TYPE(x)->tp_name);
        return -1;
    }
    if (x && cr_py_device_from(x, &kind, &index) != 1)
        return -1;
    *out = (cr_device_kind)kind;
    return 0;
}

/* is_autocast_enabled(): for CUDA, or for the device type in `args`. */
static PyObject *is_enabled(PyObject *m, PyObject *args)
{
    PyObject *device = NULL;
    cr_device_kind kind;

    (void)m;
    if (!PyArg_ParseTuple(args, "|O:is_autocast_enabled", &device) ||
        device_kind(device, &kind) < 0)
        return NULL;
    return PyBool_FromLong(cr_autocast_on(kind));
}

/* set_autocast_enabled(device_type, enabled), or (enabled) for CUDA. */
static PyObject *set_enabled(PyObject *m, PyObject *args)
{
    PyObject *first, *second = NULL;
    cr_device_kind kind;
    bool on;

    (void)m;
    if (!PyArg_ParseTuple(args, "O|O:set_autocast_enabled", &first, &second) ||
        device_kind(second ? first : NULL, &kind) < 0 ||
        !cr_py_truth(second ? second : first, &on))
        return NULL;
    return cr_py_done(cr_autocast_set(kind, on));
}

static PyObject *get_dtype(PyObject *m, PyObject *device)
{
    cr_device_kind kind;

    (void)m;
    if (device_kind(device, &kind) < 0)
        return NULL;
    return Py_NewRef(cr_py_dtype_object(cr_autocast_dtype(kind)));
}

static PyObject *set_dtype(PyObject *m, PyObject *args)
{
    PyObject *device, *dtype;
    cr_device_kind kind;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO!:set_autocast_dtype", &device, &cr_py_dtype_type, &dtype) ||
        device_kind(device, &kind) < 0 || cr_py_refuse_named(dtype))
        return NULL;
    return cr_py_done(cr_autocast_set_dtype(kind, cr_py_dtype_from(dtype)));
}

static PyObject *caches(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(cr_autocast_caches());
}

static PyObject *set_caches(PyObject *m, PyObject *x)
{
    bool on;

    (void)m;
    return cr_py_truth(x, &on) ? cr_py_done(cr_autocast_set_caches(on)) : NULL;
}

static PyObject *clear(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    cr_autocast_clear();
    Py_RETURN_NONE;
}

static PyObject *nest(int by)
{
    int depth;
    cr_status st = cr_autocast_nest(by, &depth);

    return st ? cr_py_raise(st) : PyLong_FromLong(depth);
}

static PyObject *increment(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return nest(1);
}

static PyObject *decrement(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return nest(-1);
}

static PyMethodDef functions[] = {
    {"is_autocast_enabled", is_enabled, METH_VARARGS,
     "True when autocast is on for a device type.\n\n"
     "    >>> torch.is_autocast_enabled('cpu')\n"
     "    False\n"},
    {"set_autocast_enabled", set_enabled, METH_VARARGS,
     "Turns autocast on or off for a device type."},
    {"get_autocast_dtype", get_dtype, METH_O,
     "The lower precision of a device type.\n\n"
     "    >>> torch.get_autocast_dtype('cpu')\n"
     "    torch.bfloat16\n"},
    {"set_autocast_dtype", set_dtype, METH_VARARGS,
     "Sets the lower precision of a device type."},
    {"is_autocast_cache_enabled", caches, METH_NOARGS,
     "True when converted weights are cached."},
    {"set_autocast_cache_enabled", set_caches, METH_O,
     "True when converted weights are cached."},
    {"clear_autocast_cache", clear, METH_NOARGS, "Clears the cache of converted weights."},
    {"autocast_increment_nesting", increment, METH_NOARGS,
     "Increases the number of open autocasts."},
    {"autocast_decrement_nesting", decrement, METH_NOARGS,
     "Decreases the number of open autocasts."},
    {0}};

/* --- the class autocast --- */

typedef struct {
    cr_device_kind kind;
    bool on, caches;
    cr_dtype dtype;
} autocast_state;

static cr_status apply(const autocast_state *s)
{
    CR_TRY(cr_autocast_set(s->kind, s->on));
    CR_TRY(cr_autocast_set_dtype(s->kind, s->dtype));
    return cr_autocast_set_caches(s->caches);
}

/* Reads (device, enabled, dtype, cache_enabled). */
static bool read_state(autocast_state *s, PyObject *tuple)
{
    PyObject *device, *dtype;
    int on, state_caches;

    if (!tuple ||
        !PyArg_ParseTuple(tuple, "OpO!p", &device, &on, &cr_py_dtype_type, &dtype,
                          &state_caches) ||
        device_kind(device, &s->kind) < 0)
        return false;
    s->on = on;
    s->dtype = cr_py_dtype_from(dtype);
    if (s->dtype == CR_DTYPE_NONE && on && cr_py_refuse_named(dtype))
        return false;
    if (s->dtype ==
        CR_DTYPE_NONE) /* autocast is off, as for other dtypes that it does not take */
        s->dtype = cr_autocast_dtype(s->kind);
    s->caches = state_caches;
    return true;
}

static PyObject *state_of(PyObject *self, const autocast_state *s)
{
    PyObject *device = PyObject_GetAttrString(self, "device"), *out = NULL;

    if (device)
        out = Py_BuildValue("(OOOO)", device, cr_autocast_on(s->kind) ? Py_True : Py_False,
                            cr_py_dtype_object(cr_autocast_dtype(s->kind)),
                            cr_autocast_caches() ? Py_True : Py_False);
    Py_XDECREF(device);
    return out;
}

/* The thread's watcher is called with the context that opens, and with None where one has
 * closed. It is in the thread's dictionary, because storage of threads is scarce
 * (test_environment.py). */
static const char WATCHER[] = "cresset.autocast_watcher";

/* A new reference, or NULL. */
static PyObject *watcher_now(void)
{
    PyObject *all = PyThreadState_GetDict();

    return all ? Py_XNewRef(PyDict_GetItemString(all, WATCHER)) : NULL;
}

/* A watcher's error is that of the block. */
static bool watcher_told(PyObject *context)
{
    PyObject *f = watcher_now();
    PyObject *out = f && f != Py_None ? PyObject_CallOneArg(f, context) : Py_NewRef(Py_None);

    Py_XDECREF(f);
    Py_XDECREF(out);
    return out != NULL;
}

/* Sets the watcher of the thread, or None.  Returns the one before. */
static PyObject *watch(PyObject *m, PyObject *f)
{
    PyObject *was = watcher_now(), *all = PyThreadState_GetDict();

    (void)m;
    if (!all || PyDict_SetItemString(all, WATCHER, f)) {
        Py_XDECREF(was);
        return all ? NULL : PyErr_NoMemory();
    }
    return was ? was : Py_NewRef(Py_None);
}

/* Sets self._before to the present state, then the state self._state. */
static PyObject *enter(PyObject *m, PyObject *self)
{
    PyObject *wanted = PyObject_GetAttrString(self, "_state"), *before = NULL;
    autocast_state s;
    int depth;

    (void)m;
    if (!watcher_told(self)) {
        Py_XDECREF(wanted);
        return NULL;
    }
    if (read_state(&s, wanted) && (before = state_of(self, &s)) &&
        PyObject_SetAttrString(self, "_before", before) == 0) {
        cr_status st = apply(&s);
        st = st ? st : cr_autocast_nest(1, &depth);
        if (st)
            cr_py_raise(st);
    }
    Py_XDECREF(wanted);
    Py_XDECREF(before);
    return PyErr_Occurred() ? NULL : Py_NewRef(self);
}

static PyObject *leave(PyObject *m, PyObject *args)
{
    PyObject *before = PyObject_GetAttrString(PyTuple_GET_ITEM(args, 0), "_before");
    autocast_state s;
    int depth;

    (void)m;
    if (read_state(&s, before)) {
        cr_status st = cr_autocast_nest(-1, &depth);
        if (!st && !depth)
            cr_autocast_clear();
        st = st ? st : apply(&s);
        if (st)
            cr_py_raise(st);
    }
    Py_XDECREF(before);
    if (!PyErr_Occurred())
        (void)watcher_told(Py_None);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
}

static PyMethodDef methods[] = {
    {"_enter_autocast", enter, METH_O, "The method __enter__ of autocast."},
    {"_exit_autocast", leave, METH_VARARGS, "The method __exit__ of autocast."},
    {"_watch_autocast", watch, METH_O,
     "Sets a function that the thread calls with each autocast that opens, and with None where "
     "one has closed; None: no function. Returns the function before."},
    {0}};

int cr_py_autocast_start(PyObject *m)
{
    return PyModule_AddFunctions(m, functions) < 0 ? -1 : cr_py_add_methods(m, methods);
}
