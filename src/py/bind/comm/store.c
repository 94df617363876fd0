/* _CommStore: a store of the room comm; distributed/_stores.py has the classes that programs
 * use.
 *
 * A store that a program's class implements is a kind of its own here: its requests call a
 * Python function. */
#include "comm/store_impl.h"
#include "comm/wait.h"
#include "py/bind/comm/comm.h"
#include <sys/types.h>
#include <unistd.h>

typedef struct {
    PyObject_HEAD cr_store *s;
} py_store;

static PyTypeObject store_type;

/* --- handlers of signals --- */
static bool handlers_run; /* written in the process's first thread alone */

static bool is_first_thread(void) { return gettid() == getpid(); }

bool cr_py_waits(bool on)
{
    bool before = handlers_run;

    if (is_first_thread())
        handlers_run = on;
    return before;
}

cr_status cr_py_waited(cr_status st, bool before)
{
    cr_py_waits(before);
    if (!PyErr_Occurred())
        return st;
    if (st)
        return CR_PYTHON;
    cr_py_raise_later();
    return CR_OK;
}

/* An exception stays set until the call returns, so its other waits end at once. */
static bool wait_hook(void)
{
    if (!is_first_thread() || !handlers_run)
        return false;
    PyGILState_STATE state = PyGILState_Ensure();
    bool ends = PyErr_Occurred() || PyErr_CheckSignals() < 0;

    PyGILState_Release(state);
    return ends;
}

cr_store *cr_py_store_of(PyObject *x)
{
    if (Py_IS_TYPE(x, &store_type))
        return ((py_store *)x)->s;
    PyErr_SetString(PyExc_TypeError, "a store is needed");
    return NULL;
}

/* Takes the caller's reference. */
static PyObject *store_wrap(cr_store *s)
{
    py_store *o = PyObject_New(py_store, &store_type);

    if (o)
        o->s = s;
    else
        cr_store_drop(s);
    return (PyObject *)o;
}

static void store_dealloc(PyObject *self)
{
    cr_store *s = ((py_store *)self)->s;

    CR_PY_WAITING(cr_store_drop(s));
    PyObject_Free(self);
}

/* The bytes of a tuple's items; *out is freed with PyMem_Free.  -1 with an exception. */
static Py_ssize_t store_bytes(PyObject *tuple, cr_bytes **out)
{
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);

    *out = PyMem_Malloc(((size_t)n + 1) * sizeof **out);
    if (!*out) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        char *at;
        Py_ssize_t len;
        if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(tuple, i), &at, &len) < 0) {
            PyMem_Free(*out);
            return -1;
        }
        (*out)[i] = (cr_bytes){at, (size_t)len};
    }
    return n;
}

static PyObject *store_answer(const cr_store_reply *r)
{
    PyObject *list = PyList_New((Py_ssize_t)r->value.len);

    for (size_t i = 0; list && i < r->value.len; i++) {
        PyObject *b =
            PyBytes_FromStringAndSize(r->value.at[i].at, (Py_ssize_t)r->value.at[i].len);
        if (!b) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, b);
    }
    return list ? Py_BuildValue("LN", (long long)r->number, list) : NULL;
}

/* call(verb, keys, values, number, timeout_ms) -> (number, list of bytes) */
static PyObject *store_call(PyObject *self, PyObject *args)
{
    int verb;
    long long number, timeout;
    PyObject *keys, *values, *result = NULL;
    cr_bytes *key = NULL, *value = NULL;
    cr_store_reply reply = {0};
    cr_status st;

    if (!PyArg_ParseTuple(args, "iO!O!LL", &verb, &PyTuple_Type, &keys, &PyTuple_Type, &values,
                          &number, &timeout))
        return NULL;
    cr_py_note_outside();
    Py_ssize_t n = store_bytes(keys, &key);
    Py_ssize_t m = n < 0 ? -1 : store_bytes(values, &value);
    if (m >= 0) {
        cr_store_request r = {
            (cr_store_verb)verb, number, timeout, (int)n, (int)m, key, value, 0};
        CR_PY_AWAITING(st, cr_store_call(((py_store *)self)->s, &r, &reply));
        result = st ? cr_py_raise(st) : store_answer(&reply);
        PyMem_Free(value);
    }
    if (n >= 0)
        PyMem_Free(key);
    cr_store_reply_drop(&reply);
    return result;
}

static PyObject *store_get_timeout(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(((py_store *)self)->s->timeout_ms);
}

static int store_set_timeout(PyObject *self, PyObject *value, void *unused)
{
    long long ms = value ? PyLong_AsLongLong(value) : -1;

    (void)unused;
    if (ms == -1 && PyErr_Occurred())
        return -1;
    ((py_store *)self)->s->timeout_ms = ms;
    return 0;
}

static PyObject *store_port(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(cr_store_tcp_port(((py_store *)self)->s));
}

static PyObject *store_host(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(cr_store_tcp_host(((py_store *)self)->s));
}

static PyMethodDef store_methods[] = {{"call", store_call, METH_VARARGS, NULL}, {0}};
static PyGetSetDef store_getset[] = {
    {"timeout_ms", store_get_timeout, store_set_timeout, NULL, NULL},
    {"port", store_port, NULL, NULL, NULL},
    {"host", store_host, NULL, NULL, NULL},
    {0}};

static PyTypeObject store_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C._CommStore",
    .tp_basicsize = sizeof(py_store),
    .tp_dealloc = store_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = store_methods,
    .tp_getset = store_getset,
};

/* --- stores that a program implements --- */
typedef struct {
    cr_store head;
    PyObject
        *answer; /* answer(verb, keys, values, number, timeout_ms) -> (number, list of bytes) */
} program_store;

static PyObject *bytes_tuple(int n, const cr_bytes *b)
{
    PyObject *t = PyTuple_New(n);

    for (int i = 0; t && i < n; i++)
        cr_py_put_item(&t, i, PyBytes_FromStringAndSize(b[i].at, (Py_ssize_t)b[i].len));
    return t;
}

/* The answer's values as a reply's frame. */
static cr_status program_reply(PyObject *answer, cr_store_reply *out)
{
    long long number;
    PyObject *list;
    cr_bytes *value;

    if (!PyArg_ParseTuple(answer, "LO!", &number, &PyTuple_Type, &list))
        return CR_PYTHON;
    Py_ssize_t n = store_bytes(list, &value);
    if (n < 0)
        return CR_PYTHON;
    cr_wire_reply(&out->raw, CR_OK, number, (int)n, value);
    PyMem_Free(value);
    CR_TRY(cr_text_status(&out->raw));
    return cr_wire_read_reply(out);
}

/* An exception as the thread's error: another thread than the program's may ask. */
static cr_status program_failed(void)
{
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *message = text ? PyUnicode_AsUTF8(text) : NULL;
    cr_fail(CR_STORE, "%s", message ? message : "the program's store failed");
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    PyErr_Clear();
    return CR_STORE;
}

static cr_status program_call(cr_store *s, const cr_store_request *r, cr_store_reply *out)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *keys = bytes_tuple(r->keys, r->key), *values = bytes_tuple(r->values, r->value);
    PyObject *answer =
        keys && values
            ? PyObject_CallFunction(((program_store *)s)->answer, "iOOLL", (int)r->verb, keys,
                                    values, (long long)r->number, (long long)r->timeout_ms)
            : NULL;
    cr_status st = answer ? program_reply(answer, out) : CR_PYTHON;

    if (st == CR_PYTHON)
        st = program_failed();
    Py_XDECREF(answer);
    Py_XDECREF(values);
    Py_XDECREF(keys);
    PyGILState_Release(lock);
    return st;
}

static void program_free(cr_store *s)
{
    PyGILState_STATE lock = PyGILState_Ensure();

    Py_DECREF(((program_store *)s)->answer);
    PyGILState_Release(lock);
    cr_free(s);
}

/* --- functions that make stores --- */
static PyObject *store_made(cr_status st, cr_store *s)
{
    return st ? cr_py_raise(st) : store_wrap(s);
}

static PyObject *make_hash(PyObject *m, PyObject *unused)
{
    cr_store *s = NULL;

    (void)m;
    (void)unused;
    cr_status st = cr_store_hash(&s);
    return store_made(st, s);
}

static PyObject *make_file(PyObject *m, PyObject *args)
{
    const char *path;
    long long size;
    cr_store *s = NULL;
    cr_status st;

    (void)m;
    if (!PyArg_ParseTuple(args, "sL", &path, &size))
        return NULL;
    CR_PY_AWAITING(st, cr_store_file(&s, path, size));
    return store_made(st, s);
}

static PyObject *make_tcp(PyObject *m, PyObject *args)
{
    cr_store_tcp_options o = {0};
    int server, wait, shared;
    long long size, timeout;
    cr_store *s = NULL;
    cr_status st;

    (void)m;
    if (!PyArg_ParseTuple(args, "siLpppiL", &o.host, &o.port, &size, &server, &wait, &shared,
                          &o.listen_fd, &timeout))
        return NULL;
    o.world_size = size;
    o.timeout_ms = timeout;
    o.server = server;
    o.wait = wait;
    o.shared = shared;
    CR_PY_AWAITING(st, cr_store_tcp(&s, &o));
    return store_made(st, s);
}

static PyObject *make_prefix(PyObject *m, PyObject *args)
{
    const char *prefix;
    PyObject *under;
    cr_store *s = NULL;

    (void)m;
    if (!PyArg_ParseTuple(args, "sO", &prefix, &under))
        return NULL;
    cr_store *of = cr_py_store_of(under);
    if (!of)
        return NULL;
    cr_status st = cr_store_prefix(&s, prefix, of);
    return store_made(st, s);
}

static PyObject *make_program(PyObject *m, PyObject *answer)
{
    static const cr_store_kind kind = {program_call, program_free, NULL};
    program_store *p = cr_alloc_zero(sizeof *p);

    (void)m;
    if (!p)
        return cr_py_raise(CR_MEMORY);
    cr_store_init(&p->head, &kind, CR_STORE_TIMEOUT_MS);
    p->answer = Py_NewRef(answer);
    return store_wrap(&p->head);
}

static PyMethodDef store_functions[] = {
    {"_comm_hash", make_hash, METH_NOARGS, NULL},
    {"_comm_file", make_file, METH_VARARGS, NULL},
    {"_comm_tcp", make_tcp, METH_VARARGS, NULL},
    {"_comm_prefix", make_prefix, METH_VARARGS, NULL},
    {"_comm_program", make_program, METH_O, NULL},
    {0},
};

int cr_py_comm_store_start(PyObject *m)
{
    static const char *const verbs[] = {
#define CR_VERB(NAME, changes, waits) #NAME,
#include "comm/verbs.def"
#undef CR_VERB
    };

    cr_wait_hook = wait_hook;
    if (cr_py_add_type(m, "_CommStore", &store_type) < 0 ||
        cr_py_add_names(m, "_comm_verbs", verbs, CR_LEN(verbs)) < 0)
        return -1;
    return PyModule_AddFunctions(m, store_functions);
}
