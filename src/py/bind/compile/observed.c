/* _C.Observation: the instructions of one recorded call.
 *
 * It tells which instruction made a recording impossible, and what the call looked up, called
 * and met (frame/shadow.h). */
#include "frame/shadow.h"
#include "graph/graph.h"
#include "py/bind/bind.h"
#include "py/bind/compile/where.h"

typedef struct {
    PyObject_HEAD cr_shadow *shadow;
    cr_observer follow;   /* the shadow's callbacks */
    PyObject *folder;     /* the package's, whose frames are not the user's */
    PyCodeObject *failed; /* the code in which the recording failed, or NULL */
    int at;               /* and the instruction */
    bool started;         /* the hook has a reference */
    bool cut;             /* the program removed the hook */
    PyObject *watched;    /* the objects and the folders that the shadow borrows */
} observed_object;

/* Remembers the user's instruction in execution at the first event after the failure. */
static void observed_check(observed_object *self)
{
    if (!self->failed && cr_recorder_has_failed())
        self->failed = (PyCodeObject *)Py_XNewRef(
            (PyObject *)cr_shadow_place(self->shadow, self->folder, &self->at));
}

static void observed_enter(void *context, const cr_live_frame *f)
{
    observed_object *self = context;

    observed_check(self);
    self->follow.enter(self->follow.context, f);
}

static void observed_instruction(void *context, const cr_live_frame *f, int at)
{
    observed_object *self = context;

    observed_check(self);
    self->follow.instruction(self->follow.context, f, at);
}

static void observed_leave(void *context, const cr_live_frame *f)
{
    observed_object *self = context;

    observed_check(self);
    self->follow.leave(self->follow.context, f);
}

static PyObject *observed_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    observed_object *self;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "", (char *[]){NULL}))
        return NULL;
    self = (observed_object *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->folder = cr_py_package_folder();
    self->shadow = self->folder ? cr_shadow_new(1) : NULL;
    if (self->shadow) {
        self->follow = cr_shadow_observer(self->shadow);
        return (PyObject *)self;
    }
    Py_DECREF(self);
    return NULL;
}

static void observed_dealloc(PyObject *x)
{
    observed_object *self = (observed_object *)x;

    cr_shadow_drop(self->shadow);
    Py_XDECREF(self->folder);
    Py_XDECREF((PyObject *)self->failed);
    Py_XDECREF(self->watched);
    Py_TYPE(x)->tp_free(x);
}

/* start() -> bool: False when no hook can be installed now */
static PyObject *observed_start(PyObject *x, PyObject *unused)
{
    observed_object *self = (observed_object *)x;
    cr_observer o = {observed_enter, observed_instruction, observed_leave, x};
    int on = cr_observe_start(&o);

    (void)unused;
    if (on > 0 && !self->started)
        Py_INCREF(x); /* the hook's; stop() releases it */
    self->started = self->started || on > 0;
    return on < 0 ? NULL : PyBool_FromLong(on);
}

static PyObject *observed_stop(PyObject *x, PyObject *unused)
{
    observed_object *self = (observed_object *)x;

    (void)unused;
    observed_check(self);
    self->cut = self->cut || (self->started && !cr_observe_is_on());
    if (self->started && cr_observe_stop(x)) {
        cr_shadow_watch(self->shadow, NULL, 0, NULL, NULL,
                        NULL); /* of no memory: nothing is followed */
        Py_CLEAR(self->watched);
        self->started = false;
        Py_DECREF(x);
    }
    Py_RETURN_NONE;
}

/* The instruction that made the recording fail as (code, number), or None. */
static PyObject *observed_failed(PyObject *x, void *unused)
{
    const observed_object *self = (observed_object *)x;

    (void)unused;
    if (!self->failed)
        Py_RETURN_NONE;
    return Py_BuildValue("Oi", self->failed, self->at);
}

static PyObject *observed_events(PyObject *x, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(
        cr_shadow_sums_of(((observed_object *)x)->shadow)->events);
}

/* watch(objects, folders, opaque, quiet): a list, a tuple of str, a tuple of code objects and a
 * str; kept alive until stop() */
static PyObject *observed_watch(PyObject *x, PyObject *args)
{
    observed_object *self = (observed_object *)x;
    PyObject *objects, *folders, *opaque, *quiet, *kept;

    if (!PyArg_ParseTuple(args, "O!O!O!U", &PyList_Type, &objects, &PyTuple_Type, &folders,
                          &PyTuple_Type, &opaque, &quiet))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(folders); i++)
        if (!PyUnicode_Check(PyTuple_GET_ITEM(folders, i)))
            return PyErr_Format(PyExc_TypeError, "watch() takes folders as str");
    objects = PyList_AsTuple(objects); /* the list may change */
    kept = objects ? PyTuple_Pack(4, objects, folders, opaque, quiet) : NULL;
    Py_XDECREF(objects);
    if (!kept)
        return NULL;
    if (cr_shadow_watch(self->shadow, ((PyTupleObject *)objects)->ob_item,
                        (size_t)PyTuple_GET_SIZE(objects), folders, opaque, quiet) < 0) {
        Py_DECREF(kept);
        return PyErr_NoMemory();
    }
    Py_XSETREF(self->watched, kept);
    Py_RETURN_NONE;
}

/* The first watched object that was in a frame as (index, (code, instruction)), or None. */
static PyObject *observed_watched(PyObject *x, void *unused)
{
    PyCodeObject *code;
    int at, index = cr_shadow_watched(((observed_object *)x)->shadow, &code, &at);

    (void)unused;
    if (index < 0)
        Py_RETURN_NONE;
    return Py_BuildValue("i(Oi)", index, code, at);
}

/* The names by which functions in C read attributes, a set of str. */
static PyObject *observed_names(PyObject *x, void *unused)
{
    (void)unused;
    return PySet_New(cr_shadow_names(((observed_object *)x)->shadow));
}

/* The code objects that ran, with their globals, a dict. */
static PyObject *observed_codes(PyObject *x, void *unused)
{
    (void)unused;
    return cr_shadow_codes(((observed_object *)x)->shadow);
}

/* asked: [(weak reference to a function, class or module, the names looked up in it)] */
static PyObject *observed_asked(PyObject *x, void *unused)
{
    (void)unused;
    return cr_shadow_asked(((observed_object *)x)->shadow);
}

/* Why `names` may lack some as (text, (code, instruction) or None), or None. */
static PyObject *observed_unnamed(PyObject *x, void *unused)
{
    const observed_object *self = (observed_object *)x;
    PyCodeObject *code;
    int at;
    const char *why = cr_shadow_unnamed(self->shadow, &code, &at);

    (void)unused;
    if (why && code)
        return Py_BuildValue("s(Oi)", why, code, at);
    if (!why && !self->cut)
        Py_RETURN_NONE;
    return Py_BuildValue("sO", why ? why : "it ends the observation of its call", Py_None);
}

/* calls() -> [(kind, object, owner or None, (code, instruction))] of C functions, see
 * shadow.h */
static PyObject *observed_calls(PyObject *x, PyObject *unused)
{
    size_t count;
    const cr_call_seen *c = cr_shadow_calls(((observed_object *)x)->shadow, &count);
    PyObject *out = PyList_New((Py_ssize_t)count);

    (void)unused;
    for (size_t i = 0; out && i < count; i++) {
        PyObject *item =
            Py_BuildValue("COO(Oi)", c[i].kind, c[i].object ? c[i].object : Py_None,
                          c[i].owner ? c[i].owner : Py_None, c[i].code, c[i].at);
        if (item)
            PyList_SET_ITEM(out, (Py_ssize_t)i, item);
        else
            Py_CLEAR(out);
    }
    return out;
}

static PyMethodDef observed_methods[] = {{"start", observed_start, METH_NOARGS, NULL},
                                         {"stop", observed_stop, METH_NOARGS, NULL},
                                         {"watch", observed_watch, METH_VARARGS, NULL},
                                         {"calls", observed_calls, METH_NOARGS, NULL},
                                         {0}};

static PyGetSetDef observed_properties[] = {{"failed", observed_failed, NULL, NULL, NULL},
                                            {"events", observed_events, NULL, NULL, NULL},
                                            {"watched", observed_watched, NULL, NULL, NULL},
                                            {"names", observed_names, NULL, NULL, NULL},
                                            {"codes", observed_codes, NULL, NULL, NULL},
                                            {"asked", observed_asked, NULL, NULL, NULL},
                                            {"unnamed", observed_unnamed, NULL, NULL, NULL},
                                            {0}};

static PyTypeObject observed_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.Observation",
    .tp_basicsize = sizeof(observed_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Observation(): the instructions that the thread executes between start() "
              "and stop().",
    .tp_new = observed_new,
    .tp_dealloc = observed_dealloc,
    .tp_methods = observed_methods,
    .tp_getset = observed_properties,
};

int cr_py_observed_start(PyObject *m)
{
    return cr_py_add_type(m, "Observation", &observed_type);
}
