/* _CommAgent: an agent of the room comm; distributed/rpc/_agent.py says what messages mean. */
#include "comm/agent.h"
#include "py/bind/comm/comm.h"

typedef struct {
    PyObject_HEAD cr_agent *a;
} py_agent;

/* A part of a message that arrived: a buffer, which tensors may keep. */
typedef struct {
    PyObject_HEAD void *at;
    size_t len;
} py_part;

static PyTypeObject agent_type, part_type;

static void part_dealloc(PyObject *self)
{
    cr_free(((py_part *)self)->at);
    PyObject_Free(self);
}

static int part_buffer(PyObject *self, Py_buffer *view, int flags)
{
    py_part *p = (py_part *)self;

    return PyBuffer_FillInfo(view, self, p->at, (Py_ssize_t)p->len, 0, flags);
}

static PyBufferProcs part_buffers = {part_buffer, NULL};
static PyTypeObject part_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C._CommPart",
    .tp_basicsize = sizeof(py_part),
    .tp_dealloc = part_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_as_buffer = &part_buffers,
};

/* A list of the parts, which leave the message. */
static PyObject *parts_list(cr_message *m)
{
    PyObject *list = PyList_New((Py_ssize_t)m->parts);

    for (uint32_t i = 0; list && i < m->parts; i++) {
        py_part *p = PyObject_New(py_part, &part_type);
        if (!p) {
            Py_CLEAR(list);
            break;
        }
        p->at = m->part[i].at;
        p->len = m->part[i].len;
        m->part[i].at = NULL;
        PyList_SET_ITEM(list, (Py_ssize_t)i, (PyObject *)p);
    }
    return list;
}

/* --- parts to send --- */
typedef struct {
    Py_ssize_t n, held; /* held: buffers to release */
    Py_buffer *view;
    cr_bytes *part;
} sent_parts;

static void sent_parts_drop(sent_parts *s)
{
    for (Py_ssize_t i = 0; i < s->held; i++)
        PyBuffer_Release(&s->view[i]);
    PyMem_Free(s->view);
    PyMem_Free(s->part);
}

static int sent_parts_of(sent_parts *s, PyObject *list)
{
    *s = (sent_parts){.n = PyList_GET_SIZE(list)};
    s->view = PyMem_Malloc(((size_t)s->n + 1) * sizeof *s->view);
    s->part = PyMem_Malloc(((size_t)s->n + 1) * sizeof *s->part);
    if (!s->view || !s->part) {
        PyErr_NoMemory();
        return -1;
    }
    for (; s->held < s->n; s->held++) {
        Py_buffer *v = &s->view[s->held];
        if (PyObject_GetBuffer(PyList_GET_ITEM(list, s->held), v, PyBUF_SIMPLE) < 0)
            return -1;
        s->part[s->held] = (cr_bytes){v->buf, (size_t)v->len};
    }
    return 0;
}

/* ask(control, to, id, timeout_ms, list of buffers) */
static PyObject *agent_ask(PyObject *self, PyObject *args)
{
    int control, to;
    unsigned long long id;
    long long timeout;
    PyObject *list;
    sent_parts s;
    cr_status st = CR_PYTHON;

    if (!PyArg_ParseTuple(args, "piKLO!", &control, &to, &id, &timeout, &PyList_Type, &list))
        return NULL;
    if (!sent_parts_of(&s, list))
        CR_PY_AWAITING(st, cr_agent_ask(((py_agent *)self)->a,
                                        control ? CR_MESSAGE_CONTROL : CR_MESSAGE_REQUEST, to,
                                        id, timeout, s.part, (uint32_t)s.n));
    sent_parts_drop(&s);
    return st ? cr_py_raise(st) : Py_NewRef(Py_None);
}

/* reply(to, id, list of buffers) */
static PyObject *agent_reply(PyObject *self, PyObject *args)
{
    int to;
    unsigned long long id;
    PyObject *list;
    sent_parts s;
    cr_status st = CR_PYTHON;

    if (!PyArg_ParseTuple(args, "iKO!", &to, &id, &PyList_Type, &list))
        return NULL;
    if (!sent_parts_of(&s, list))
        CR_PY_AWAITING(st,
                       cr_agent_reply(((py_agent *)self)->a, to, id, s.part, (uint32_t)s.n));
    sent_parts_drop(&s);
    return st ? cr_py_raise(st) : Py_NewRef(Py_None);
}

/* next(requests) -> (kind, rank, id, list of parts, other threads that wait); None at the
 * end */
static PyObject *agent_next(PyObject *self, PyObject *requests)
{
    cr_message *m = NULL;
    int truth = PyObject_IsTrue(requests), waiting = 0;

    if (truth < 0)
        return NULL;
    CR_PY_WAITING(cr_agent_next(((py_agent *)self)->a, truth, &m, &waiting));
    if (!m)
        return Py_NewRef(Py_None);
    PyObject *list = parts_list(m), *result = NULL;
    if (list)
        result = Py_BuildValue("iiKNi", (int)m->kind, m->from, (unsigned long long)m->id, list,
                               waiting);
    cr_message_drop(m);
    return result;
}

static PyObject *agent_shut(PyObject *self, PyObject *unused)
{
    (void)unused;
    CR_PY_WAITING(cr_agent_shut(((py_agent *)self)->a));
    return Py_NewRef(Py_None);
}

static PyObject *agent_forget(PyObject *self, PyObject *rank)
{
    long r = PyLong_AsLong(rank);

    if (r == -1 && PyErr_Occurred())
        return NULL;
    cr_agent_forget(((py_agent *)self)->a, (int)r);
    return Py_NewRef(Py_None);
}

static void agent_dealloc(PyObject *self)
{
    CR_PY_WAITING(cr_agent_free(((py_agent *)self)->a));
    PyObject_Free(self);
}

static PyMethodDef agent_methods[] = {
    {"ask", agent_ask, METH_VARARGS, NULL}, {"reply", agent_reply, METH_VARARGS, NULL},
    {"next", agent_next, METH_O, NULL},     {"shut", agent_shut, METH_NOARGS, NULL},
    {"forget", agent_forget, METH_O, NULL}, {0}};

static PyTypeObject agent_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C._CommAgent",
    .tp_basicsize = sizeof(py_agent),
    .tp_dealloc = agent_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = agent_methods,
};

/* _comm_agent(store, rank, host) */
static PyObject *make_agent(PyObject *m, PyObject *args)
{
    PyObject *store;
    int rank;
    const char *host;
    cr_agent *a = NULL;
    cr_status st;

    (void)m;
    if (!PyArg_ParseTuple(args, "Ois", &store, &rank, &host))
        return NULL;
    cr_store *s = cr_py_store_of(store);
    if (!s)
        return NULL;
    CR_PY_AWAITING(st, cr_agent_new(&a, s, rank, host));
    if (st)
        return cr_py_raise(st);
    py_agent *o = PyObject_New(py_agent, &agent_type);
    if (o)
        o->a = a;
    else
        cr_agent_free(a);
    return (PyObject *)o;
}

static PyMethodDef agent_functions[] = {{"_comm_agent", make_agent, METH_VARARGS, NULL}, {0}};

int cr_py_comm_agent_start(PyObject *m)
{
    static const char *const kinds[] = {"REQUEST", "CONTROL", "REPLY", "LATE", "LOST"};

    if (cr_py_add_type(m, "_CommAgent", &agent_type) < 0 ||
        cr_py_add_type(m, "_CommPart", &part_type) < 0 ||
        cr_py_add_names(m, "_comm_message_kinds", kinds, CR_LEN(kinds)) < 0)
        return -1;
    return PyModule_AddFunctions(m, agent_functions);
}
