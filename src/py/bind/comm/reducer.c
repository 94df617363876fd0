/* _Reducer: the reducer of DistributedDataParallel (src/dist/reducer.h). */
#include "dist/reducer.h"
#include "py/bind/comm/comm.h"

typedef struct {
    PyObject_HEAD cr_reducer *r;
    PyObject *group, *hook; /* hook: (start, finish), or NULL */
} py_reducer;

static PyTypeObject reducer_type;

static cr_reducer *reducer_of(PyObject *x)
{
    cr_py_note_outside();
    return ((py_reducer *)x)->r;
}

static int reducer_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((py_reducer *)self)->group);
    Py_VISIT(((py_reducer *)self)->hook);
    return 0;
}

static int reducer_clear(PyObject *self)
{
    cr_reducer_set_hook(((py_reducer *)self)->r, NULL);
    Py_CLEAR(((py_reducer *)self)->hook);
    return 0;
}

static void reducer_dealloc(PyObject *self)
{
    py_reducer *o = (py_reducer *)self;

    PyObject_GC_UnTrack(self);
    reducer_clear(self);
    cr_reducer_free(o->r);
    Py_XDECREF(o->group);
    PyObject_GC_Del(self);
}

/* Tensors of a tuple, borrowed; PyMem_Free frees the list.  NULL with an exception. */
static cr_tensor **reducer_tensors(PyObject *tuple)
{
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    cr_tensor **t = PyMem_Malloc(((size_t)n + 1) * sizeof *t);

    for (Py_ssize_t i = 0; t && i < n; i++) {
        PyObject *x = PyTuple_GET_ITEM(tuple, i);
        if (!cr_py_is_tensor(x)) {
            PyMem_Free(t);
            PyErr_SetString(PyExc_TypeError, "a tuple of tensors is needed");
            return NULL;
        }
        t[i] = cr_py_tensor_of(x);
    }
    return t;
}

static PyObject *before_forward(PyObject *self, PyObject *unused)
{
    cr_status st;

    (void)unused;
    CR_PY_UNLOCKED(st = cr_reducer_before_forward(reducer_of(self)));
    return cr_py_done(st);
}

static PyObject *reducer_idle(PyObject *self, PyObject *unused)
{
    cr_status st;

    (void)unused;
    CR_PY_UNLOCKED(st = cr_reducer_idle(reducer_of(self)));
    return cr_py_done(st);
}

static PyObject *after_forward(PyObject *self, PyObject *outputs)
{
    if (!PyTuple_Check(outputs))
        return PyErr_Format(PyExc_TypeError, "a tuple of tensors is needed");
    cr_tensor **t = reducer_tensors(outputs);
    if (!t)
        return NULL;
    cr_status st =
        cr_reducer_after_forward(reducer_of(self), t, (int)PyTuple_GET_SIZE(outputs));
    PyMem_Free(t);
    return cr_py_done(st);
}

static PyObject *reducer_set_sync(PyObject *self, PyObject *on)
{
    cr_reducer_set_sync(reducer_of(self), PyObject_IsTrue(on));
    Py_RETURN_NONE;
}

static PyObject *reducer_set_divisor(PyObject *self, PyObject *number)
{
    long n = PyLong_AsLong(number);

    if (n == -1 && PyErr_Occurred())
        return NULL;
    if (n < 1 || n > INT_MAX)
        return PyErr_Format(PyExc_ValueError, "a divisor must be positive, not %ld", n);
    cr_reducer_set_divisor(reducer_of(self), (int)n);
    Py_RETURN_NONE;
}

static bool is_bucket(PyObject *self, Py_ssize_t i)
{
    if (i >= 0 && i < cr_reducer_buckets(reducer_of(self)))
        return true;
    PyErr_SetString(PyExc_IndexError, "there is no such bucket");
    return false;
}

static PyObject *reducer_buffer(PyObject *self, PyObject *index)
{
    Py_ssize_t i = PyNumber_AsSsize_t(index, PyExc_IndexError);

    if (PyErr_Occurred() || !is_bucket(self, i))
        return NULL;
    return cr_py_wrap_keep(cr_reducer_buffer(reducer_of(self), (int)i));
}

/* A list of the parameters' numbers, or of their views. */
static PyObject *reducer_members(PyObject *self, PyObject *index, bool views)
{
    Py_ssize_t i = PyNumber_AsSsize_t(index, PyExc_IndexError);
    int n;

    if (PyErr_Occurred() || !is_bucket(self, i))
        return NULL;
    const int *at = cr_reducer_members(reducer_of(self), (int)i, &n);
    PyObject *list = PyList_New(n);
    for (int k = 0; list && k < n; k++) {
        cr_tensor *view = cr_reducer_view(reducer_of(self), at[k]);
        if (!view)
            view = cr_reducer_buffer(reducer_of(self), (int)i);
        cr_py_put_item(&list, k, views ? cr_py_wrap_keep(view) : PyLong_FromLong(at[k]));
    }
    return list;
}

static PyObject *member_numbers(PyObject *self, PyObject *index)
{
    return reducer_members(self, index, false);
}

static PyObject *member_views(PyObject *self, PyObject *index)
{
    return reducer_members(self, index, true);
}

/* --- a program's communication hook: (start, finish), called with a bucket's number --- */
static cr_status hook_call(void *context, int bucket, int which)
{
    PyObject *hook = Py_NewRef(((py_reducer *)context)->hook);
    PyObject *r = PyObject_CallFunction(PyTuple_GET_ITEM(hook, which), "i", bucket);

    Py_XDECREF(r);
    Py_DECREF(hook);
    return r ? CR_OK : CR_PYTHON;
}

static cr_status hook_start(void *context, int bucket) { return hook_call(context, bucket, 0); }
static cr_status hook_finish(void *context, int bucket)
{
    return hook_call(context, bucket, 1);
}

static PyObject *reducer_set_hook(PyObject *self, PyObject *args)
{
    PyObject *start, *finish;

    if (!PyArg_ParseTuple(args, "OO", &start, &finish))
        return NULL;
    cr_reducer_hook hook = {hook_start, hook_finish, self, true};
    Py_XSETREF(((py_reducer *)self)->hook, Py_NewRef(args));
    cr_reducer_set_hook(reducer_of(self), &hook);
    Py_RETURN_NONE;
}

static PyObject *reducer_count(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(cr_reducer_buckets(reducer_of(self)));
}

static PyObject *reducer_rebuilt(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(cr_reducer_is_rebuilt(reducer_of(self)));
}

static PyMethodDef reducer_methods[] = {{"before_forward", before_forward, METH_NOARGS, NULL},
                                        {"after_forward", after_forward, METH_O, NULL},
                                        {"idle", reducer_idle, METH_NOARGS, NULL},
                                        {"set_sync", reducer_set_sync, METH_O, NULL},
                                        {"set_divisor", reducer_set_divisor, METH_O, NULL},
                                        {"buffer", reducer_buffer, METH_O, NULL},
                                        {"members", member_numbers, METH_O, NULL},
                                        {"views", member_views, METH_O, NULL},
                                        {"set_hook", reducer_set_hook, METH_VARARGS, NULL},
                                        {0}};
static PyGetSetDef reducer_getset[] = {{"bucket_count", reducer_count, NULL, NULL, NULL},
                                       {"rebuilt", reducer_rebuilt, NULL, NULL, NULL},
                                       {0}};
static PyTypeObject reducer_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C._Reducer",
    .tp_basicsize = sizeof(py_reducer),
    .tp_dealloc = reducer_dealloc,
    .tp_traverse = reducer_traverse,
    .tp_clear = reducer_clear,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = reducer_methods,
    .tp_getset = reducer_getset,
};

static PyObject *reducer_wrap(cr_reducer *r, PyObject *group)
{
    py_reducer *o = PyObject_GC_New(py_reducer, &reducer_type);

    if (!o) {
        cr_reducer_free(r);
        return NULL;
    }
    o->r = r;
    o->group = Py_NewRef(group);
    o->hook = NULL;
    PyObject_GC_Track(o);
    return (PyObject *)o;
}

static bool *flags_failed(bool *flags)
{
    PyMem_Free(flags);
    return NULL;
}

/* For each parameter whether its gradients are sparse; PyMem_Free frees it.  NULL with an
 * exception. */
static bool *reducer_flags(PyObject *tuple, Py_ssize_t n)
{
    bool *flags = PyMem_Calloc((size_t)n + 1, sizeof *flags);

    if (!flags)
        return (void *)PyErr_NoMemory();
    if (PyTuple_GET_SIZE(tuple) != n) {
        PyErr_Format(PyExc_ValueError,
                     "%zd parameters need as many flags of sparse gradients, "
                     "not %zd",
                     n, PyTuple_GET_SIZE(tuple));
        return flags_failed(flags);
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        int flag = PyObject_IsTrue(PyTuple_GET_ITEM(tuple, i));
        if (flag < 0)
            return flags_failed(flags);
        flags[i] = flag;
    }
    return flags;
}

/* _comm_reducer(group, parameters, sparse, bucket_bytes, first_bytes, views, find_unused,
 *               static_graph) */
static PyObject *make_reducer(PyObject *m, PyObject *args)
{
    PyObject *group, *params, *sparse;
    long long bytes, first;
    int views, find, is_static;
    cr_reducer *r = NULL;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO!O!LLppp", &group, &PyTuple_Type, &params, &PyTuple_Type,
                          &sparse, &bytes, &first, &views, &find, &is_static))
        return NULL;
    cr_comm *comm = cr_py_comm_of(group);
    cr_tensor **t = comm ? reducer_tensors(params) : NULL;
    bool *flags = t ? reducer_flags(sparse, PyTuple_GET_SIZE(params)) : NULL;
    if (!flags) {
        PyMem_Free(t);
        return NULL;
    }
    cr_reducer_how how = {.comm = comm,
                          .param = t,
                          .sparse = flags,
                          .count = (int)PyTuple_GET_SIZE(params),
                          .bucket_bytes = (size_t)bytes,
                          .first_bytes = (size_t)first,
                          .views = views,
                          .find_unused = find,
                          .static_graph = is_static};
    cr_status st = cr_reducer_new(&r, &how);
    PyMem_Free(flags);
    PyMem_Free(t);
    return st ? cr_py_raise(st) : reducer_wrap(r, group);
}

/* _at_backward_end(callable): called without arguments at the end of the running backward */
static cr_status end_call(void *callable)
{
    cr_lock_python();
    PyObject *r = PyObject_CallNoArgs(callable);
    Py_XDECREF(r);
    Py_DECREF((PyObject *)callable);
    cr_unlock_python();
    return r ? CR_OK : CR_PYTHON;
}

static PyObject *at_backward_end(PyObject *m, PyObject *callable)
{
    (void)m;
    cr_status st = cr_backward_at_end(end_call, callable);
    if (!st)
        Py_INCREF(callable);
    return cr_py_done(st);
}

static PyMethodDef reducer_functions[] = {{"_comm_reducer", make_reducer, METH_VARARGS, NULL},
                                          {"_at_backward_end", at_backward_end, METH_O, NULL},
                                          {0}};

int cr_py_comm_reducer_start(PyObject *m)
{
    if (cr_py_add_type(m, "_Reducer", &reducer_type) < 0)
        return -1;
    return PyModule_AddFunctions(m, reducer_functions);
}
