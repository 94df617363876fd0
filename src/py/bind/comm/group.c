/* _CommGroup and _CommWork: groups of processes and their works.  distributed/_groups.py has
 * the classes that programs use.
 *
 * A work refers to its tensors and its group; the group refers to works until they have ended,
 * so that a program may forget a work.  When a stream waits for the work, the tensors are
 * dropped: the host may be many calls ahead of the device, and memory that these calls used
 * would be missing. */
#include "device/device.h"
#include "py/bind/comm/comm.h"
#include <string.h>

typedef struct {
    PyObject_HEAD cr_comm *g; /* NULL after close() */
    PyObject *pending;        /* a list of works */
} py_group;

typedef struct {
    PyObject_HEAD cr_work *w;
    PyObject *group, *tensors;
} py_work;

static PyTypeObject group_type, work_type;

cr_comm *cr_py_comm_of(PyObject *x)
{
    if (!Py_IS_TYPE(x, &group_type))
        PyErr_SetString(PyExc_TypeError, "a group of processes is needed");
    else if (!((py_group *)x)->g)
        PyErr_SetString(PyExc_ValueError, "the group of processes was destroyed");
    else
        return ((py_group *)x)->g;
    return NULL;
}

/* --- the program's line --- */
/* How the names of files begin whose frames are not the program's: this package, and
 * contextlib, through which `with` enters and leaves it. */
static PyObject *inner_files;

static bool is_inside(PyCodeObject *code)
{
    Py_ssize_t count = inner_files ? PyTuple_GET_SIZE(inner_files) : 0;

    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t end = PyUnicode_GET_LENGTH(PyTuple_GET_ITEM(inner_files, i));
        int same = (int)PyUnicode_Tailmatch(code->co_filename, PyTuple_GET_ITEM(inner_files, i),
                                            0, end, -1);
        if (same < 0)
            PyErr_Clear();
        if (same > 0)
            return true;
    }
    return false;
}

void cr_py_comm_where(char *out, size_t size)
{
    PyFrameObject *f = PyEval_GetFrame();

    *out = 0;
    Py_XINCREF(f);
    while (f) {
        PyCodeObject *code = PyFrame_GetCode(f);
        bool inside = is_inside(code);
        const char *file = inside ? NULL : PyUnicode_AsUTF8(code->co_filename);
        const char *name = file && strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
        if (name)
            snprintf(out, size, "%s:%d", name, PyFrame_GetLineNumber(f));
        Py_DECREF(code);
        PyFrameObject *back = inside ? PyFrame_GetBack(f) : NULL;
        Py_DECREF(f);
        f = back;
    }
    PyErr_Clear();
}

static PyObject *set_inner_files(PyObject *m, PyObject *args)
{
    (void)m;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++)
        if (!PyUnicode_Check(PyTuple_GET_ITEM(args, i))) {
            PyErr_SetString(PyExc_TypeError, "names of files are texts");
            return NULL;
        }
    Py_XSETREF(inner_files, Py_NewRef(args));
    Py_RETURN_NONE;
}

/* --- works --- */
static PyObject *work_wrap(cr_work *w, PyObject *group, PyObject *tensors)
{
    py_work *o = PyObject_New(py_work, &work_type);

    if (!o) {
        cr_work_drop(w);
        return NULL;
    }
    o->w = w;
    o->group = Py_NewRef(group);
    o->tensors = Py_NewRef(tensors);
    return (PyObject *)o;
}

static void work_dealloc(PyObject *self)
{
    py_work *o = (py_work *)self;

    cr_work_drop(o->w);
    Py_DECREF(o->tensors);
    Py_DECREF(o->group);
    PyObject_Free(self);
}

/* Notes that the thread's stream uses the tensors of a list, which the program may have changed
 * meanwhile. */
static int list_note_use(PyObject *list)
{
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++) {
        PyObject *x = PySequence_Fast_GET_ITEM(list, i);
        cr_status st = cr_py_is_tensor(x) ? cr_note_use(cr_py_tensor_of(x)) : CR_OK;
        if (st)
            return cr_py_raise_int(st);
    }
    return 0;
}

/* Drops the tensors of a work for which the thread's stream waits: they are in calls (kind, op,
 * root, tag, factor, inputs, outputs), which were read before (read_call). */
static int work_release(py_work *o)
{
    PyObject *calls = o->tensors;

    if (calls == Py_None || !cr_work_is_ordered(o->w))
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(calls); i++)
        for (Py_ssize_t k = 5; k < 7; k++)
            if (list_note_use(PyTuple_GET_ITEM(PyTuple_GET_ITEM(calls, i), k)) < 0)
                return -1;
    o->tensors = Py_NewRef(Py_None);
    Py_DECREF(calls);
    return 0;
}

/* wait(timeout_ms): raises the work's failure */
static PyObject *work_wait(PyObject *self, PyObject *ms)
{
    long long timeout = PyLong_AsLongLong(ms);
    cr_status st;

    if (timeout == -1 && PyErr_Occurred())
        return NULL;
    cr_py_note_outside();
    CR_PY_AWAITING(st, cr_work_wait(((py_work *)self)->w, timeout));
    return !st && work_release((py_work *)self) < 0 ? NULL : cr_py_done(st);
}

static PyObject *work_is_done(PyObject *self, PyObject *unused)
{
    (void)unused;
    cr_py_note_outside();
    return PyBool_FromLong(cr_work_is_done(((py_work *)self)->w));
}

static void work_follow(void *callable)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *r = PyObject_CallNoArgs(callable);

    if (!r)
        PyErr_WriteUnraisable(callable);
    Py_XDECREF(r);
    Py_DECREF((PyObject *)callable);
    PyGILState_Release(lock);
}

/* then(callable): called without arguments after the end */
static PyObject *work_then(PyObject *self, PyObject *callable)
{
    cr_status st;

    cr_py_note_outside();
    Py_INCREF(callable);
    CR_PY_WAITING(st = cr_work_then(((py_work *)self)->w, work_follow, callable));
    if (st) {
        Py_DECREF(callable);
        return cr_py_raise(st);
    }
    Py_RETURN_NONE;
}

static PyObject *work_source(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(cr_work_source(((py_work *)self)->w));
}

static PyMethodDef work_methods[] = {{"wait", work_wait, METH_O, NULL},
                                     {"is_done", work_is_done, METH_NOARGS, NULL},
                                     {"then", work_then, METH_O, NULL},
                                     {0}};
static PyGetSetDef work_getset[] = {{"source", work_source, NULL, NULL, NULL}, {0}};
static PyTypeObject work_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C._CommWork",
    .tp_basicsize = sizeof(py_work),
    .tp_dealloc = work_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = work_methods,
    .tp_getset = work_getset,
};

/* --- groups --- */
static void group_close(py_group *o)
{
    cr_comm *g = o->g;

    if (!g)
        return;
    CR_PY_WAITING(cr_comm_end(g));
    PyList_SetSlice(o->pending, 0, PyList_GET_SIZE(o->pending), NULL);
}

static void group_dealloc(PyObject *self)
{
    py_group *o = (py_group *)self;
    cr_comm *g = o->g;

    o->g = NULL;
    Py_XDECREF(o->pending);
    CR_PY_WAITING(cr_comm_drop(g));
    PyObject_Free(self);
}

/* Forgets works that have ended. */
static int group_prune(py_group *o)
{
    for (Py_ssize_t i = PyList_GET_SIZE(o->pending); i-- > 0;)
        if (cr_work_ended(((py_work *)PyList_GET_ITEM(o->pending, i))->w) &&
            PyList_SetSlice(o->pending, i, i + 1, NULL) < 0)
            return -1;
    return 0;
}

/* What the tensors of a call have in common. */
typedef struct {
    cr_device_kind kind; /* of the group's engine */
    cr_dtype dtype;
    cr_device device;
    bool any;
} common;

static int same_device(common *c, const cr_tensor *t)
{
    bool fits = t->layout == CR_LAYOUT_STRIDED && t->device.kind == c->kind && !t->device.fake;

    if (!fits)
        PyErr_Format(PyExc_RuntimeError, "No backend type associated with device type %s",
                     cr_device_kind_name(t->device.kind));
    else if (c->any && !cr_same_device(c->device, t->device))
        PyErr_Format(PyExc_ValueError, "the tensors of a call are on %s and %s",
                     cr_device_print(c->device).text, cr_device_print(t->device).text);
    if (PyErr_Occurred())
        return -1;
    c->device = t->device;
    c->any = true;
    return 0;
}

/* The elements of a tensor, for another process: contiguous, on the group's device, without a
 * bit. */
static int buffer_of(PyObject *x, cr_buffer *out, common *c, bool written)
{
    cr_dtype *dtype = &c->dtype;

    if (!cr_py_is_tensor(x)) {
        PyErr_Format(PyExc_TypeError, "expected a tensor, not %s", Py_TYPE(x)->tp_name);
        return -1;
    }
    cr_tensor *t = cr_py_tensor_of(x);
    cr_py_note_read(t, CR_READ_RANKS);
    if (PyErr_Occurred())
        return -1;
    if (same_device(c, t) < 0)
        return -1;
    if (!t->contiguous || cr_is_lazy(t)) {
        PyErr_SetString(PyExc_ValueError, "Tensors must be contiguous");
        return -1;
    }
    if (*dtype != CR_DTYPE_NONE && t->dtype != *dtype) {
        PyErr_Format(PyExc_ValueError,
                     "Invalid usage of tensors with different dtypes: %s and %s",
                     cr_dtype_name(*dtype), cr_dtype_name(t->dtype));
        return -1;
    }
    *dtype = t->dtype;
    if (written)
        t->storage->version++;
    char *at;
    cr_status st = cr_reach_to_write(&at, t);
    if (st)
        return cr_py_raise_int(st);
    *out = (cr_buffer){at, t->numel};
    return 0;
}

enum { SOME_BUFFERS = 512 };

/* The buffers of a call; lists of several calls are one after the other. */
typedef CR_VEC(cr_buffer) buffers;

static int read_list(buffers *b, PyObject *list, common *c, bool written, int *n)
{
    if (!PyList_Check(list) && !PyTuple_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "expected a list of tensors");
        return -1;
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(list);
    if (b->len + (size_t)count > b->cap) {
        PyErr_SetString(PyExc_ValueError, "too many tensors in a call");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (buffer_of(PySequence_Fast_GET_ITEM(list, i), &b->at[b->len++], c, written) < 0)
            return -1;
    *n = (int)count;
    return 0;
}

/* A call from (kind, op, root, tag, factor, inputs, outputs). */
static int read_call(buffers *b, PyObject *tuple, cr_device_kind kind_of, cr_call_args *out)
{
    int kind, op;
    long long tag;
    PyObject *in, *outs;
    common c = {.kind = kind_of, .dtype = CR_DTYPE_NONE};

    memset(out, 0, sizeof *out);
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "iiiLdOO", &kind, &op, &out->root,
                                                   &tag, &out->factor, &in, &outs))
        return -1;
    if (kind < 0 || kind >= CR_CALL_COUNT || op < 0 || op >= CR_REDUCE_COUNT) {
        PyErr_SetString(PyExc_ValueError, "unknown call or reduction");
        return -1;
    }
    out->kind = (cr_call_kind)kind;
    out->op = (cr_reduce_op)op;
    out->tag = (uint64_t)tag;
    out->in = b->at + b->len;
    if (read_list(b, in, &c, false, &out->ins) < 0)
        return -1;
    out->out = b->at + b->len;
    if (read_list(b, outs, &c, true, &out->outs) < 0)
        return -1;
    out->dtype = c.dtype == CR_DTYPE_NONE ? CR_U8 : c.dtype;
    out->device = c.device;
    return 0;
}

static size_t count_tensors(PyObject *calls)
{
    size_t n = 0;

    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(calls); i++) {
        PyObject *c = PyTuple_GET_ITEM(calls, i);
        for (Py_ssize_t k = 5; PyTuple_Check(c) && k < PyTuple_GET_SIZE(c) && k < 7; k++)
            n += PySequence_Check(PyTuple_GET_ITEM(c, k))
                     ? (size_t)PySequence_Size(PyTuple_GET_ITEM(c, k))
                     : 0;
    }
    return n;
}

static PyObject *group_begin(py_group *o, PyObject *tensors, const cr_call_args *args, int n,
                             long long timeout, int now)
{
    char where[CR_PY_WHERE_BYTES];
    cr_work *w = NULL;
    cr_status st;

    cr_py_comm_where(where, sizeof where);
    CR_PY_AWAITING(st, cr_comm_start(&w, o->g, args, n, where, timeout, now));
    if (st)
        return cr_py_raise(st);
    PyObject *work = work_wrap(w, (PyObject *)o, tensors);
    if (work && (work_release((py_work *)work) < 0 || group_prune(o) < 0 ||
                 (!cr_work_ended(w) && PyList_Append(o->pending, work) < 0)))
        Py_CLEAR(work);
    return work;
}

/* start(calls, timeout_ms, now) -> work.  A work that ended with a failure is returned as
 * such. */
static PyObject *group_start(PyObject *self, PyObject *args)
{
    PyObject *calls, *work = NULL;
    long long timeout;
    int now;
    cr_call_args few[8], *all = few;
    cr_buffer some[SOME_BUFFERS];
    buffers b = {some, 0, SOME_BUFFERS};

    if (!PyArg_ParseTuple(args, "O!Lp", &PyTuple_Type, &calls, &timeout, &now) ||
        !cr_py_comm_of(self))
        return NULL;
    cr_py_note_outside();
    cr_device_kind kind = cr_comm_device(((py_group *)self)->g);
    size_t n = (size_t)PyTuple_GET_SIZE(calls), lists = count_tensors(calls);
    if (n > CR_LEN(few))
        all = PyMem_Calloc(n, sizeof *all);
    if (lists > SOME_BUFFERS)
        b = (buffers){PyMem_Calloc(lists, sizeof *b.at), 0, lists};
    int rc = all && b.at ? 0 : -1;
    for (size_t i = 0; i < n && !rc; i++)
        rc = read_call(&b, PyTuple_GET_ITEM(calls, (Py_ssize_t)i), kind, &all[i]);
    if (!rc)
        work = group_begin((py_group *)self, calls, all, (int)n, timeout, now);
    if (all != few)
        PyMem_Free(all);
    if (b.at != some)
        PyMem_Free(b.at);
    return work ? work : PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

static PyObject *group_shut(PyObject *self, PyObject *why)
{
    const char *text = PyUnicode_AsUTF8(why);
    cr_comm *g = text ? cr_py_comm_of(self) : NULL;

    if (!g)
        return NULL;
    cr_py_note_outside();
    CR_PY_WAITING(cr_comm_shut(g, text));
    Py_RETURN_NONE;
}

/* close(): ends the group's thread; waiting works run to their end first */
static PyObject *group_close_call(PyObject *self, PyObject *unused)
{
    (void)unused;
    cr_py_note_outside();
    group_close((py_group *)self);
    Py_RETURN_NONE;
}

static PyObject *group_history(PyObject *self, PyObject *unused)
{
    cr_text t = {0};
    cr_comm *g = cr_py_comm_of(self);

    (void)unused;
    if (!g)
        return NULL;
    cr_comm_history(g, &t);
    PyObject *text = PyUnicode_FromStringAndSize(cr_text_str(&t), (Py_ssize_t)t.len);
    cr_text_drop(&t);
    return text;
}

static PyObject *group_rank(PyObject *self, void *unused)
{
    cr_comm *g = cr_py_comm_of(self);

    (void)unused;
    return g ? PyLong_FromLong(cr_comm_rank(g)) : NULL;
}

static PyObject *group_size(PyObject *self, void *unused)
{
    cr_comm *g = cr_py_comm_of(self);

    (void)unused;
    return g ? PyLong_FromLong(cr_comm_size(g)) : NULL;
}

static PyObject *group_engine(PyObject *self, void *unused)
{
    cr_comm *g = cr_py_comm_of(self);

    (void)unused;
    return g ? PyUnicode_FromString(cr_comm_engine(g)) : NULL;
}

static PyObject *group_sequence(PyObject *self, void *unused)
{
    cr_comm *g = cr_py_comm_of(self);

    (void)unused;
    return g ? PyLong_FromUnsignedLongLong(cr_comm_sequence(g)) : NULL;
}

/* device: the kind of the group's tensors, "cpu" or "cuda" */
static PyObject *group_device(PyObject *self, void *unused)
{
    cr_comm *g = cr_py_comm_of(self);

    (void)unused;
    return g ? PyUnicode_FromString(cr_device_kind_name(cr_comm_device(g))) : NULL;
}

static PyObject *group_get_timeout(PyObject *self, void *unused)
{
    cr_comm *g = cr_py_comm_of(self);

    (void)unused;
    return g ? PyLong_FromLongLong(cr_comm_timeout(g)) : NULL;
}

static int group_set_timeout(PyObject *self, PyObject *value, void *unused)
{
    cr_comm *g = cr_py_comm_of(self);
    long long ms = value ? PyLong_AsLongLong(value) : -1;

    (void)unused;
    if (!g || (ms == -1 && PyErr_Occurred()))
        return -1;
    cr_comm_set_timeout(g, ms);
    return 0;
}

static PyObject *group_get_compares(PyObject *self, void *unused)
{
    cr_comm *g = cr_py_comm_of(self);

    (void)unused;
    return g ? PyBool_FromLong(cr_comm_compares(g)) : NULL;
}

static int group_set_compares(PyObject *self, PyObject *value, void *unused)
{
    cr_comm *g = cr_py_comm_of(self);
    int compares = value ? PyObject_IsTrue(value) : 0;

    (void)unused;
    if (!g || compares < 0)
        return -1;
    cr_comm_set_compares(g, compares);
    return 0;
}

static PyMethodDef group_methods[] = {{"start", group_start, METH_VARARGS, NULL},
                                      {"shut", group_shut, METH_O, NULL},
                                      {"close", group_close_call, METH_NOARGS, NULL},
                                      {"history", group_history, METH_NOARGS, NULL},
                                      {0}};
static PyGetSetDef group_getset[] = {
    {"rank", group_rank, NULL, NULL, NULL},
    {"size", group_size, NULL, NULL, NULL},
    {"engine", group_engine, NULL, NULL, NULL},
    {"sequence", group_sequence, NULL, NULL, NULL},
    {"device", group_device, NULL, NULL, NULL},
    {"timeout_ms", group_get_timeout, group_set_timeout, NULL, NULL},
    {"compares", group_get_compares, group_set_compares, NULL, NULL},
    {0}};
static PyTypeObject group_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C._CommGroup",
    .tp_basicsize = sizeof(py_group),
    .tp_dealloc = group_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = group_methods,
    .tp_getset = group_getset,
};

/* Numbers of ranks from a tuple, which PyMem_Free frees; NULL with an exception. */
static int *read_ranks(PyObject *tuple)
{
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    int *ranks = PyMem_Malloc(((size_t)n + 1) * sizeof *ranks);

    for (Py_ssize_t i = 0; ranks && i < n; i++) {
        ranks[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(tuple, i));
        if (ranks[i] == -1 && PyErr_Occurred()) {
            PyMem_Free(ranks);
            return NULL;
        }
    }
    return ranks;
}

static PyObject *group_wrap(cr_comm *g)
{
    py_group *o = PyObject_New(py_group, &group_type);

    if (!o) {
        cr_comm_drop(g);
        return NULL;
    }
    o->g = g;
    o->pending = PyList_New(0);
    if (!o->pending)
        Py_CLEAR(o);
    return (PyObject *)o;
}

/* _comm_group(engine, name, rank, size, ranks or None, store or None, timeout_ms, interface) */
static PyObject *make_group(PyObject *m, PyObject *args)
{
    cr_comm_how how = {0};
    char where[160];
    PyObject *ranks, *store;
    long long timeout;
    int *global = NULL;
    cr_comm *g = NULL;
    cr_status st;

    (void)m;
    if (!PyArg_ParseTuple(args, "ssiiOOLs", &how.engine, &how.name, &how.rank, &how.size,
                          &ranks, &store, &timeout, &how.interface))
        return NULL;
    if (store != Py_None && !(how.store = cr_py_store_of(store)))
        return NULL;
    if (PyTuple_Check(ranks) && PyTuple_GET_SIZE(ranks) == how.size &&
        !(global = read_ranks(ranks)))
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    how.global = global;
    how.timeout_ms = timeout;
    cr_py_comm_where(where, sizeof where);
    how.where = where;
    CR_PY_AWAITING(st, cr_comm_new(&g, &how));
    PyMem_Free(global);
    return st ? cr_py_raise(st) : group_wrap(g);
}

static PyObject *is_available(PyObject *m, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);

    (void)m;
    return text ? PyBool_FromLong(cr_engine_is_available(text)) : NULL;
}

/* Raises the reason when an engine is missing. */
static PyObject *need_engine(PyObject *m, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    const cr_engine *e;
    cr_status st = text ? cr_engine_find(&e, text) : CR_OK;

    (void)m;
    if (!text || st)
        return text ? cr_py_raise(st) : NULL;
    Py_RETURN_NONE;
}

static PyMethodDef group_functions[] = {
    {"_comm_group", make_group, METH_VARARGS, NULL},
    {"_comm_is_available", is_available, METH_O, NULL},
    {"_comm_need", need_engine, METH_O, NULL},
    {"_comm_set_inner_files", set_inner_files, METH_VARARGS, NULL},
    {0}};

int cr_py_add_names(PyObject *m, const char *name, const char *const *names, size_t n)
{
    PyObject *t = PyTuple_New((Py_ssize_t)n);

    for (size_t i = 0; t && i < n; i++)
        cr_py_put_item(&t, (Py_ssize_t)i, PyUnicode_FromString(names[i]));
    int rc = t ? PyModule_AddObjectRef(m, name, t) : -1;
    Py_XDECREF(t);
    return rc;
}

int cr_py_comm_group_start(PyObject *m)
{
    static const char *const calls[] = {
#define CR_CALL(NAME, name) #NAME,
#include "comm/calls.def"
#undef CR_CALL
    };
    static const char *const reduces[] = {
#define CR_REDUCE(NAME, name) #NAME,
#include "comm/reduce.def"
#undef CR_REDUCE
    };

    if (cr_py_add_type(m, "_CommGroup", &group_type) < 0 ||
        cr_py_add_type(m, "_CommWork", &work_type) < 0 ||
        cr_py_add_names(m, "_comm_calls", calls, CR_LEN(calls)) < 0 ||
        cr_py_add_names(m, "_comm_reduces", reduces, CR_LEN(reduces)) < 0)
        return -1;
    return PyModule_AddFunctions(m, group_functions);
}
