/* Compiled functions: Python callables that replay recorded calls.
 *
 *     _C.RecordedGraph.call(grad, how) a Call: the programs of a recording (compile/call.h)
 *     _C.CompiledEntry        a Call, its guard, and how its outputs form the return value
 *     _C.CompiledFunction     the function and its entries.  A call that fits no entry goes to
 *                             `miss`, which is Python code (_dynamo/capture.py) */
#include "py/bind/compile/compiled.h"
#include "autograd/again.h"
#include "autograd/autograd.h"
#include "base/log.h"
#include "compile/call.h"
#include "compile/compile.h"
#include "graph/graph.h"
#include "py/bind/compile/deferred.h"
#include "py/bind/compile/guard.h"
#include "tensor/defer.h"

/* --- calls --- */

typedef struct {
    PyObject_HEAD cr_compiled_call *c;
    int inputs, outputs;
} call_object;

static PyTypeObject call_type, entry_type, function_type;

static cr_compiled_call *compiled_call_of(PyObject *x) { return ((call_object *)x)->c; }

PyObject *cr_py_compiled_call(const cr_graph *g, bool grad, unsigned how)
{
    call_object *self = PyObject_New(call_object, &call_type);
    cr_status st;

    if (!self)
        return NULL;
    self->c = NULL;
    self->inputs = g->input_count;
    self->outputs = g->body->output_count;
    st = cr_compiled_call_new(&self->c, g, grad, how);
    if (!st)
        return (PyObject *)self;
    Py_DECREF(self);
    return cr_py_raise(st);
}

static void call_dealloc(PyObject *x)
{
    cr_compiled_call_drop(((call_object *)x)->c);
    PyObject_Free(x);
}

/* Makes the programs of a call on first use; NULL with an exception. */
static const cr_compiled_call *made(cr_compiled_call *c)
{
    cr_status st = cr_compiled_call_make(c);

    return st ? (cr_py_raise(st), NULL) : c;
}

static PyObject *call_wait(PyObject *x, PyObject *seconds)
{
    double most = PyFloat_AsDouble(seconds);
    int ready = 0;

    if (PyErr_Occurred() || !made(compiled_call_of(x)))
        return NULL;
    const cr_program *part[] = {cr_compiled_call_forward(compiled_call_of(x)),
                                cr_compiled_call_backward(compiled_call_of(x))};
    for (int k = 0; k < 2; k++)
        if (part[k])
            CR_PY_UNLOCKED(ready += cr_program_wait(part[k], most));
    return PyLong_FromLong(ready);
}

static PyObject *program_text(const cr_program *p, bool steps)
{
    cr_text t = {0};

    if (!p)
        Py_RETURN_NONE;
    if (steps)
        cr_program_print(&t, p);
    else
        cr_graph_print(&t, cr_program_graph(p));
    return cr_py_text(&t, CR_OK);
}

static PyObject *programs_code(const cr_program *forward, const cr_program *backward)
{
    cr_text t = {0};

    cr_program_code(&t, forward);
    if (backward)
        cr_program_code(&t, backward);
    return cr_py_text(&t, CR_OK);
}

#define CALL_FACT(name, expression)                                                            \
    static PyObject *call_##name(PyObject *x, void *unused)                                    \
    {                                                                                          \
        if (!made(compiled_call_of(x)))                                                        \
            return NULL;                                                                       \
        const cr_program *forward = cr_compiled_call_forward(compiled_call_of(x)),             \
                         *backward = cr_compiled_call_backward(compiled_call_of(x));           \
        (void)unused;                                                                          \
        (void)forward;                                                                         \
        (void)backward;                                                                        \
        return expression;                                                                     \
    }
CALL_FACT(forward, program_text(forward, false))
CALL_FACT(backward, program_text(backward, false))
CALL_FACT(forward_steps, program_text(forward, true))
CALL_FACT(backward_steps, program_text(backward, true))
CALL_FACT(groups, PyLong_FromLong(cr_program_groups(forward) +
                                  (backward ? cr_program_groups(backward) : 0)))
CALL_FACT(code, programs_code(forward, backward))
CALL_FACT(peak, PyLong_FromLongLong(cr_program_peak(forward)))
#undef CALL_FACT

static PyObject *listing_of(cr_compiled_call *c)
{
    if (!made(c))
        return NULL;
    const cr_program *forward = cr_compiled_call_forward(c),
                     *backward = cr_compiled_call_backward(c);
    PyObject *first =
        cr_py_graph_listing(backward ? "forward" : "the call", cr_program_graph(forward));

    if (!first || !backward)
        return first ? Py_BuildValue("(N)", first) : NULL;
    return Py_BuildValue("(NN)", first,
                         cr_py_graph_listing("backward", cr_program_graph(backward)));
}

static PyObject *call_listing(PyObject *x, void *unused)
{
    (void)unused;
    return listing_of(compiled_call_of(x));
}

static PyObject *call_make(PyObject *x, PyObject *unused)
{
    (void)unused;
    return made(compiled_call_of(x)) ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef call_methods[] = {
    {"make", call_make, METH_NOARGS,
     "Makes the programs and requests the code of their fusion groups."},
    {"wait", call_wait, METH_O, "wait(seconds) -> number of fusion groups with native code."},
    {0}};
static PyGetSetDef call_getset[] = {
    {"forward", call_forward, NULL, "The forward graph with its fusion groups, as text.", NULL},
    {"listing", call_listing, NULL, "The graphs with their fusion groups, for _picture.py.",
     NULL},
    {"backward", call_backward, NULL, "The backward graph, or None.", NULL},
    {"forward_steps", call_forward_steps, NULL, "The forward program.", NULL},
    {"backward_steps", call_backward_steps, NULL, "The backward program, or None.", NULL},
    {"code", call_code, NULL, "The C text of every fusion group.", NULL},
    {"groups", call_groups, NULL, "Number of fusion groups with code.", NULL},
    {"peak", call_peak, NULL, "Peak bytes of the forward program's tensors.", NULL},
    {0}};
static PyTypeObject call_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.Call",
    .tp_basicsize = sizeof(call_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The programs of a recorded call.",
    .tp_dealloc = call_dealloc,
    .tp_methods = call_methods,
    .tp_getset = call_getset,
};

/* --- recordings with symbols --- */

typedef struct {
    PyObject_HEAD cr_compiled_calls *c;
} calls_object;

static PyTypeObject calls_type;

PyObject *cr_py_compiled_calls(const cr_graph *g, bool grad, unsigned how)
{
    calls_object *self = PyObject_New(calls_object, &calls_type);
    cr_status st;

    if (!self)
        return NULL;
    self->c = NULL;
    st = cr_compiled_calls_new(&self->c, g, grad, how);
    if (!st)
        return (PyObject *)self;
    Py_DECREF(self);
    return cr_py_raise(st);
}

static void calls_dealloc(PyObject *x)
{
    cr_compiled_calls_drop(((calls_object *)x)->c);
    PyObject_Free(x);
}

static PyObject *calls_listing(PyObject *x, void *unused)
{
    cr_compiled_call *last = cr_compiled_calls_last(((calls_object *)x)->c);

    (void)unused;
    if (!last)
        return PyErr_Format(PyExc_RuntimeError, "nothing was called yet");
    return listing_of(last);
}

#define CALLS_FACT(name, expression)                                                           \
    static PyObject *calls_##name(PyObject *x, void *unused)                                   \
    {                                                                                          \
        cr_compiled_calls *c = ((calls_object *)x)->c;                                         \
        (void)unused;                                                                          \
        return expression;                                                                     \
    }
CALLS_FACT(count, PyLong_FromLong(cr_compiled_calls_count(c)))
CALLS_FACT(refused, PyLong_FromLong(cr_compiled_calls_refused(c)))
CALLS_FACT(shared, PyLong_FromLong(cr_compiled_calls_shared(c)))
CALLS_FACT(bytes, PyLong_FromSize_t(cr_compiled_calls_bytes(c)))
CALLS_FACT(seconds, PyFloat_FromDouble(cr_compiled_calls_seconds(c)))
#undef CALLS_FACT

static PyGetSetDef calls_getset[] = {
    {"count", calls_count, NULL, "Number of size combinations that are kept.", NULL},
    {"refused", calls_refused, NULL, "Number of size combinations without programs.", NULL},
    {"shared", calls_shared, NULL, "Number of programs that serve all sizes.", NULL},
    {"bytes", calls_bytes, NULL, "Bytes that the kept combinations hold.", NULL},
    {"seconds", calls_seconds, NULL,
     "Processor time that the last combination took which shares a program.", NULL},
    {"listing", calls_listing, NULL, "The graphs for the latest sizes, for _picture.py.", NULL},
    {0}};
static PyTypeObject calls_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.Calls",
    .tp_basicsize = sizeof(calls_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The programs of a recording with symbols, by sizes.",
    .tp_dealloc = calls_dealloc,
    .tp_getset = calls_getset,
};

/* --- entries --- */

enum { FEW = 16 };
typedef enum { RETURNS_ONE, RETURNS_TUPLE, RETURNS_LIST, RETURNS_TREE } returns_kind;

/* A tensor that the recorded call stored in a dict, a list, a cell or .grad. */
typedef struct {
    bool grad;
    int node, output; /* node: of the guard; output -1: no tensor; .grad becomes None */
    PyObject *key;
    Py_ssize_t place; /* index in a list; grad: the guard's node of the earlier gradient */
} put;

/* How the return value is made of the outputs. */
typedef struct {
    returns_kind returns;
    PyObject *leaves;    /* list: the return value's leaves, None in place of tensors */
    int *place;          /* index in leaves, by output; -1: not returned */
    PyObject *unflatten; /* RETURNS_TREE: leaves -> return value */
    int puts;
    put *put;
} entry_returned;

/* A recorded call, with what its program takes and returns.
 * Invariant: constants and origin have `inputs` entries, returned.place `outputs`. An input
 * has a constant, or the guard gives it. runner is called only if the guard holds. */
typedef struct {
    PyObject_HEAD cr_guard *guard;
    PyObject *names; /* keyword names, or NULL */
    Py_ssize_t positional;
    uint32_t mode;      /* see mode_now */
    PyObject *runner;   /* a Call, Calls, or a Python callable that takes numbers and inputs */
    PyObject *graph;    /* Graph whose guards on symbols symbols_fit() checks, or None */
    cr_undo_plan *undo; /* of a Python callable's graph, or NULL */
    PyObject *fitting;  /* set of keys (sizes_key) for which these guards hold */
    int inputs, outputs, numbers;
    PyObject *constants; /* one per input: a tensor, or None when the guard gives the input */
    int *origin;         /* first input with the same storage, by input; NULL: no writes */
    int *still, stills;  /* inputs whose version stays: the call may write them, by `.data` */
    PyObject *released;  /* [(output, name of its node)]: histories that a backward pass used */
    entry_returned returned;
    bool heavy;        /* large enough to release the interpreter lock */
    bool fixed_floats; /* a guard fixes floats that derivatives keep */
    int64_t calls;
} entry;

/* The thread's modes that a recording depends on, as bits. */
static uint32_t mode_now(void)
{
    cr_device d = cr_thread.device;
    uint32_t m = (uint32_t)(d.kind << 3 | (d.index & 7)) << 24 | (uint32_t)cr_thread.no_grad |
                 (uint32_t)cr_thread.inference << 1 | (uint32_t)cr_default_dtype() << 8;

    if (cr_thread.include & CR_STAGE_BIT(AUTOCAST))
        m |= 4u | (uint32_t)cr_autocast_on(CR_HOST.kind) << 3 |
             (uint32_t)cr_autocast_dtype(CR_HOST.kind) << 16;
    if (cr_thread.include & CR_STAGE_BIT(PYTHON)) /* a dispatch mode: nothing is recorded */
        m |= 16u;
    return m;
}

static PyObject *recorded_modes(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    return PyLong_FromUnsignedLong(mode_now());
}

#define ENTRY_OBJECTS(DO)                                                                      \
    DO(e->names);                                                                              \
    DO(e->runner);                                                                             \
    DO(e->graph);                                                                              \
    DO(e->fitting);                                                                            \
    DO(e->constants);                                                                          \
    DO(e->returned.leaves);                                                                    \
    DO(e->returned.unflatten);                                                                 \
    DO(e->released);                                                                           \
    for (int k = 0; e->returned.put && k < e->returned.puts; k++)                              \
        DO(e->returned.put[k].key);

static int entry_traverse(PyObject *x, visitproc visit, void *arg)
{
    const entry *e = (entry *)x;

    ENTRY_OBJECTS(Py_VISIT)
    return cr_guard_traverse(e->guard, visit, arg);
}

static int entry_clear(PyObject *x)
{
    entry *e = (entry *)x;
    cr_guard *g = e->guard;

    e->guard = NULL;
    cr_guard_drop(g);
    ENTRY_OBJECTS(Py_CLEAR)
    return 0;
}

static void entry_dealloc(PyObject *x)
{
    entry *e = (entry *)x;

    PyObject_GC_UnTrack(x);
    entry_clear(x);
    cr_free(e->undo);
    PyMem_Free(e->origin);
    PyMem_Free(e->still);
    PyMem_Free(e->returned.place);
    PyMem_Free(e->returned.put);
    Py_TYPE(x)->tp_free(x);
}

/* The numbers of a list, and how many they are; NULL with an exception. */
static int *read_ints(PyObject *list, int *count)
{
    *count = (int)PyList_GET_SIZE(list);
    int *out = PyMem_Calloc((size_t)*count + 1, sizeof *out);

    for (int k = 0; out && k < *count; k++)
        out[k] = (int)PyLong_AsLong(PyList_GET_ITEM(list, k));
    if (out && !PyErr_Occurred())
        return out;
    PyMem_Free(out);
    return NULL;
}

static int read_put(put *p, PyObject *from)
{
    int grad;

    if (!PyArg_ParseTuple(from, "piOi", &grad, &p->node, &p->key, &p->output)) {
        p->key = NULL;
        return -1;
    }
    Py_INCREF(p->key);
    p->grad = grad;
    if (PyLong_CheckExact(p->key))
        p->place = PyLong_AsSsize_t(p->key);
    PyErr_Clear(); /* a key of a dict may be any number */
    return 0;
}

static int read_puts(entry *e, PyObject *all)
{
    e->returned.put = PyMem_Calloc((size_t)PyList_GET_SIZE(all) + 1, sizeof *e->returned.put);
    if (!e->returned.put)
        return -1;
    while (e->returned.puts < PyList_GET_SIZE(all)) {
        int bad = read_put(&e->returned.put[e->returned.puts],
                           PyList_GET_ITEM(all, e->returned.puts));
        e->returned
            .puts++; /* after an error too, so that the references already read are released */
        if (bad)
            return -1;
    }
    return 0;
}

/* Takes the graph of a Python callable: its guards on symbols, and what a run that raised takes
 * back. */
static int entry_set_graph(entry *e, PyObject *graph)
{
    const cr_graph *g = graph == Py_None ? NULL : cr_py_graph_of(graph);

    e->graph = Py_NewRef(g && g->numbers.list.len ? graph : Py_None);
    if (!g)
        return graph == Py_None ? 0 : -1;
    cr_status st = cr_undo_plan_new(&e->undo, g);
    return st ? cr_py_raise_int(st) : 0;
}

/* CompiledEntry(guard, positional, names, runner, constants, origins, still, released, returns,
 * leaves, places, unflatten, puts, heavy, numbers, graph).  graph: of a runner that is a Python
 * callable, or None */
static PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *guard, *names, *runner, *constants, *origins, *still, *released, *leaves, *places,
        *unflatten, *puts, *graph;
    Py_ssize_t positional;
    int how, heavy, numbers;
    entry *e;

    if (kwargs || !PyArg_ParseTuple(args, "O!nOOO!OO!O!iO!O!OO!piO", &PyList_Type, &guard,
                                    &positional, &names, &runner, &PyList_Type, &constants,
                                    &origins, &PyList_Type, &still, &PyList_Type, &released,
                                    &how, &PyList_Type, &leaves, &PyList_Type, &places,
                                    &unflatten, &PyList_Type, &puts, &heavy, &numbers, &graph))
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError, "CompiledEntry() takes no keywords");
    e = (entry *)type->tp_alloc(type, 0);
    if (!e)
        return NULL;
    e->names = names == Py_None ? NULL : Py_NewRef(names);
    e->positional = positional;
    e->mode = mode_now();
    e->runner = Py_NewRef(runner);
    if (entry_set_graph(e, graph) < 0) {
        Py_DECREF(e);
        return NULL;
    }
    e->fitting = PySet_New(NULL);
    e->constants = Py_NewRef(constants);
    e->inputs = (int)PyList_GET_SIZE(constants);
    e->returned.returns = (returns_kind)how;
    e->returned.leaves = Py_NewRef(leaves);
    e->returned.unflatten = Py_NewRef(unflatten);
    e->released = Py_NewRef(released);
    e->heavy = heavy;
    e->numbers = numbers;
    e->guard = cr_guard_new(guard);
    e->returned.place = read_ints(places, &e->outputs);
    e->still = read_ints(still, &e->stills);
    e->origin = origins == Py_None ? NULL : read_ints(origins, &e->inputs);
    if (e->guard && e->fitting && e->returned.place && e->still &&
        (e->origin || origins == Py_None) && read_puts(e, puts) == 0)
        return (PyObject *)e;
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    Py_DECREF(e);
    return NULL;
}

/* --- replaying a call --- */

static bool same_names(PyObject *a, PyObject *b)
{
    Py_ssize_t n = a ? PyTuple_GET_SIZE(a) : 0;

    if (n != (b ? PyTuple_GET_SIZE(b) : 0))
        return false;
    for (Py_ssize_t i = 0; i < n; i++)
        if (PyTuple_GET_ITEM(a, i) != PyTuple_GET_ITEM(b, i) &&
            PyUnicode_Compare(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i)))
            return false;
    return true;
}

/* True when the same inputs share memory as in the recorded call. */
static bool same_origins(const entry *e, cr_tensor *const *input)
{
    enum { ROOM = 4096 };
    uint16_t room[ROOM] = {0}; /* hash table of memories: input + 1 */

    if (e->inputs >= ROOM / 2)
        return false;
    for (int i = 0; i < e->inputs; i++) {
        const void *key = cr_storage_key(input[i]->storage);
        size_t h = ((uintptr_t)key >> 4) * 0x9E3779B97F4A7C15u >> 52;
        while (room[h] && cr_storage_key(input[room[h] - 1]->storage) != key)
            h = (h + 1) % ROOM;
        if (!room[h])
            room[h] = (uint16_t)(i + 1);
        if (room[h] - 1 != e->origin[i])
            return false;
    }
    return true;
}

/* The inputs and programs for a call. */
typedef struct {
    cr_tensor **input;
    cr_scalar *number;
    cr_compiled_call *call; /* NULL: the runner is a Python callable */
    bool misfits;           /* set when a tensor has other sizes, or another dtype */
    bool differs;           /* set when only numbers that derivatives keep are others */
    bool undone;            /* set when an operator raised and the run changed nothing */
} match;

enum { SIZES_KEY_NUMBER = 1 + sizeof(cr_complex) };

/* Writes a number without the padding of its struct: equal numbers have equal bytes. */
static char *sizes_key_number(char *at, const cr_scalar *s)
{
    *at++ = (char)(s->category << 1 | s->large);
    memset(at, 0, sizeof s->c);
    memcpy(at, &s->c, s->category == CR_CAT_COMPLEX ? sizeof s->c : sizeof s->i);
    return at + sizeof s->c;
}

/* The call's numbers and the inputs' sizes as a bytes object. */
static PyObject *sizes_key(const entry *e, const match *m)
{
    Py_ssize_t length = (Py_ssize_t)SIZES_KEY_NUMBER * e->numbers;

    for (int i = 0; i < e->inputs; i++)
        length += (Py_ssize_t)sizeof(int64_t) * m->input[i]->ndim;
    PyObject *key = PyBytes_FromStringAndSize(NULL, length);
    char *at = key ? PyBytes_AS_STRING(key) : NULL;
    for (int k = 0; key && k < e->numbers; k++)
        at = sizes_key_number(at, &m->number[k]);
    for (int i = 0; key && i < e->inputs; i++) {
        memcpy(at, m->input[i]->size, m->input[i]->ndim * sizeof(int64_t));
        at += m->input[i]->ndim * sizeof(int64_t);
    }
    return key;
}

/* True when the guards on symbols hold.  The key needs no ndim, because the entry's guard fixes
 * it. */
static bool symbols_fit(entry *e, const match *m)
{
    enum { MOST = 4096 };
    PyObject *key = e->graph == Py_None ? NULL : sizes_key(e, m);
    int fits = !key ? e->graph == Py_None : PySet_Contains(e->fitting, key);

    if (!fits && key) {
        fits = cr_py_graph_fits(e->graph, m->input, m->number);
        if (PySet_GET_SIZE(e->fitting) >= MOST)
            PySet_Clear(e->fitting);
        if (fits > 0)
            fits = PySet_Add(e->fitting, key) == 0;
    }
    Py_XDECREF(key);
    PyErr_Clear();
    return fits > 0;
}

/* Finds the programs for the inputs' sizes.  When they cannot be made, the call does not fit,
 * and eager mode reports the error. */
static bool find_call(entry *e, match *m)
{
    m->call = NULL;
    if (Py_IS_TYPE(e->runner, &call_type))
        m->call = compiled_call_of(e->runner);
    else if (!Py_IS_TYPE(e->runner, &calls_type))
        return symbols_fit(e, m);
    else if (cr_compiled_calls_find(&m->call, ((calls_object *)e->runner)->c, m->input,
                                    m->number))
        return false;
    return m->call && !cr_compiled_call_make(m->call) &&
           cr_compiled_call_holds(m->call, m->number);
}

static bool entry_fits_call(entry *e, PyObject *const *args, Py_ssize_t positional,
                            PyObject *names, match *m)
{
    if (positional != e->positional || e->mode != mode_now() || !same_names(e->names, names) ||
        !e->guard)
        return false;
    int failed = cr_guard_check(e->guard, args, positional, m->input, m->number);
    if (failed >= 0) {
        m->misfits = cr_guard_misfits(e->guard, failed);
        cr_guard_release_all(e->guard);
        return false;
    }
    for (int i = 0; i < e->inputs; i++) {
        PyObject *constant = PyList_GET_ITEM(e->constants, i);
        if (constant != Py_None)
            m->input[i] = cr_py_tensor_of(constant);
    }
    if (e->origin && !same_origins(e, m->input))
        return false;
    bool fits = find_call(e, m);
    m->differs = !fits && e->fixed_floats;
    return fits;
}

/* Puts the outputs into a copy of the leaves.  Takes ownership of the outputs. */
static PyObject *entry_pack(entry *e, cr_tensor **output)
{
    PyObject *leaves, *out;

    if (e->returned.returns == RETURNS_ONE && e->outputs == 1)
        return cr_py_wrap(output[0]);
    leaves = e->returned.returns == RETURNS_TUPLE
                 ? PyList_AsTuple(e->returned.leaves)
                 : PyList_GetSlice(e->returned.leaves, 0, PyList_GET_SIZE(e->returned.leaves));
    for (int k = 0; k < e->outputs; k++) {
        PyObject *x =
            leaves && e->returned.place[k] >= 0 && output[k] ? cr_py_wrap(output[k]) : NULL;
        if (!x) {
            if (!(leaves && e->returned.place[k] >= 0 && output[k]))
                cr_drop(output[k]);
            if (PyErr_Occurred())
                Py_CLEAR(leaves);
            continue;
        }
        if (e->returned.returns == RETURNS_TUPLE) {
            PyObject *old = PyTuple_GET_ITEM(leaves, e->returned.place[k]);
            PyTuple_SET_ITEM(leaves, e->returned.place[k], x);
            Py_DECREF(old);
        } else {
            PyList_SetItem(leaves, e->returned.place[k], x);
        }
    }
    if (!leaves || e->returned.returns == RETURNS_TUPLE || e->returned.returns == RETURNS_LIST)
        return leaves;
    if (e->returned.returns == RETURNS_ONE)
        out = Py_NewRef(PyList_GET_ITEM(leaves, 0));
    else
        out = PyObject_CallOneArg(e->returned.unflatten, leaves);
    Py_DECREF(leaves);
    return out;
}

/* The objects that the call stores tensors in, as new references, because a run may release the
 * interpreter lock. */
static void find_targets(const entry *e, PyObject **target)
{
    for (int k = 0; k < e->returned.puts; k++)
        target[k] = Py_NewRef(cr_guard_object(e->guard, e->returned.put[k].node));
}

static int put_one(const put *p, PyObject *target, cr_tensor *const *output)
{
    if (p->grad) {
        cr_status st =
            cr_set_grad(cr_py_tensor_of(target), p->output < 0 ? NULL : output[p->output]);
        return st ? cr_py_raise_int(st) : 0;
    }
    PyObject *x = cr_py_wrap_keep(output[p->output]);
    if (!x)
        return -1;
    if (PyList_Check(target))
        return PyList_SetItem(target, p->place, x);
    int bad = PyCell_Check(target) ? PyCell_Set(target, x) : PyDict_SetItem(target, p->key, x);
    Py_DECREF(x);
    return bad;
}

/* In the order in which the recorded call stored them. */
static int put_all(const entry *e, PyObject *const *target, cr_tensor *const *output)
{
    for (int k = 0; k < e->returned.puts; k++)
        if (put_one(&e->returned.put[k], target[k], output) < 0)
            return -1;
    return 0;
}

/* Drops gradients that the call replaces and does not read before the call computes, as eager
 * mode does. */
static cr_status drop_old_grads(const entry *e, PyObject *const *target)
{
    for (int k = 0; k < e->returned.puts; k++) {
        if (!e->returned.put[k].grad ||
            cr_guard_is_input(e->guard, (int)e->returned.put[k].place))
            continue;
        CR_TRY(cr_set_grad(cr_py_tensor_of(target[k]), NULL));
        cr_guard_release(e->guard, (int)e->returned.put[k].place);
    }
    return CR_OK;
}

static void entry_drop_tensors(cr_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        cr_drop(t[i]);
}

static PyObject *run_python(entry *e, const match *m)
{
    PyObject *args = PyTuple_New(e->numbers + e->inputs), *out;

    for (int i = 0; args && i < e->numbers + e->inputs; i++) {
        PyObject *x = i < e->numbers ? cr_py_scalar_object(m->number[i])
                                     : cr_py_wrap_keep(m->input[i - e->numbers]);
        if (!x) {
            Py_DECREF(args);
            return NULL;
        }
        PyTuple_SET_ITEM(args, i, x);
    }
    out = args ? PyObject_CallObject(e->runner, args) : NULL;
    Py_XDECREF(args);
    return out;
}

/* Reads the return value of a backend's function as outputs. */
static int take_python(entry *e, PyObject *returned, cr_tensor **output)
{
    PyObject *list = PyTuple_Check(returned) || PyList_Check(returned)
                         ? PySequence_Tuple(returned)
                         : PyTuple_Pack(1, returned);
    Py_ssize_t n = list ? PySequence_Fast_GET_SIZE(list) : 0;

    if (list && n != e->outputs)
        PyErr_Format(PyExc_RuntimeError,
                     "the compiled graph returned %zd values, the graph has %d outputs", n,
                     e->outputs);
    for (int k = 0; !PyErr_Occurred() && k < e->outputs; k++) {
        PyObject *x = PySequence_Fast_GET_ITEM(list, k);
        if (x != Py_None && !cr_py_is_tensor(x))
            PyErr_Format(PyExc_RuntimeError,
                         "output %d of the compiled graph must be Tensor, not %s", k,
                         Py_TYPE(x)->tp_name);
        else
            output[k] = x == Py_None ? NULL : cr_keep(cr_py_tensor_of(x));
    }
    Py_XDECREF(list);
    return PyErr_Occurred() ? -1 : 0;
}

static int entry_compute(entry *e, const match *m, PyObject *const *target, cr_tensor **output)
{
    PyObject *out;
    cr_status st = drop_old_grads(e, target);

    if (st)
        return cr_py_raise_int(st);
    if (m->call) {
        if (e->heavy)
            CR_PY_UNLOCKED(st = cr_compiled_call_run(m->call, m->input, m->number, output));
        else
            st = cr_compiled_call_run(m->call, m->input, m->number, output);
        return st ? cr_py_raise_int(st) : 0;
    }
    out = run_python(e, m);
    if (!out)
        return -1;
    int bad = take_python(e, out, output);
    Py_DECREF(out);
    return bad;
}

/* Sum of the version counters of the inputs' storages. */
static uint64_t input_versions(const entry *e, const match *m)
{
    uint64_t sum = 0;

    for (int i = 0; i < e->inputs; i++)
        sum += m->input[i]->storage->version;
    return sum;
}

/* The versions of inputs that the call writes by `.data` or not at all; NULL: out of memory. */
static uint32_t *still_versions(const entry *e, const match *m)
{
    uint32_t *before = PyMem_Malloc(((size_t)e->stills + 1) * sizeof *before);

    for (int k = 0; before && k < e->stills; k++)
        before[k] = m->input[e->still[k]]->storage->version;
    return before;
}

static int entry_compute_still(entry *e, match *m, PyObject *const *target, cr_tensor **output)
{
    if (!e->stills)
        return entry_compute(e, m, target, output);
    uint32_t *before = still_versions(e, m);
    int bad = before ? entry_compute(e, m, target, output) : (PyErr_NoMemory(), -1);
    for (int k = 0; !bad && k < e->stills; k++)
        m->input[e->still[k]]->storage->version = before[k];
    PyMem_Free(before);
    return bad;
}

/* After an error the run is taken back where that is possible.  A Python callable's own error
 * stays its caller's where no call of the graph may raise. */
static int entry_compute_or_undo(entry *e, match *m, PyObject *const *target,
                                 cr_tensor **output)
{
    const cr_undo_plan *plan = m->call ? cr_compiled_call_undo(m->call)
                               : e->undo && cr_undo_may_raise(e->undo) ? e->undo
                                                                       : NULL;
    uint64_t versions = input_versions(e, m);
    cr_undo *undo = NULL;
    cr_status st = plan ? cr_undo_keep(&undo, plan, m->input) : CR_OK;

    if (st)
        return cr_py_raise_int(st);
    int bad = entry_compute_still(e, m, target, output);
    if (bad && plan)
        m->undone = cr_undo_all(undo, plan) && versions == input_versions(e, m);
    cr_undo_drop(undo);
    return bad;
}

static bool is_input(const entry *e, const match *m, const cr_tensor *t)
{
    int i = 0;

    while (i < e->inputs && m->input[i] != t)
        i++;
    return i < e->inputs;
}

/* The loss of a training step has a node, which raises if a backward pass reaches it. */
static int set_released(const entry *e, const match *m, cr_tensor *const *output)
{
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(e->released); k++) {
        int at;
        const char *name;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(e->released, k), "is", &at, &name))
            return -1;
        cr_tensor *t = at < e->outputs ? output[at] : NULL;
        if (!t || cr_requires_grad(t) || is_input(e, m, t))
            continue;
        cr_status st = cr_set_released_history(t, name);
        if (st)
            return cr_py_raise_int(st);
    }
    return 0;
}

static PyObject *entry_run(entry *e, match *m)
{
    cr_tensor *few[FEW], **output = few;
    PyObject *few_targets[FEW], **target = few_targets, *out = NULL;

    if (e->outputs > FEW)
        output = PyMem_Malloc((size_t)e->outputs * sizeof *output);
    if (e->returned.puts > FEW)
        target = PyMem_Malloc((size_t)e->returned.puts * sizeof *target);
    if (!output || !target) {
        PyErr_NoMemory();
        goto done;
    }
    for (int k = 0; k < e->outputs; k++)
        output[k] = NULL;
    for (int i = 0; i < e->inputs; i++)
        cr_keep(m->input[i]);
    if (m->call)
        cr_compiled_call_keep(m->call);
    find_targets(e, target);
    e->calls++;
    Py_INCREF(e);
    if (entry_compute_or_undo(e, m, target, output) < 0) {
        entry_drop_tensors(output, e->outputs);
    } else if (set_released(e, m, output) == 0 && put_all(e, target, output) == 0) {
        out = entry_pack(e, output);
    } else {
        entry_drop_tensors(output, e->outputs);
    }
    entry_drop_tensors(m->input, e->inputs);
    cr_compiled_call_drop(m->call);
    for (int k = 0; k < e->returned.puts; k++)
        Py_DECREF(target[k]);
    Py_DECREF(e);
done:
    if (output != few)
        PyMem_Free(output);
    if (target != few_targets)
        PyMem_Free(target);
    return out;
}

/* --- functions --- */

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *function, *miss, *entries, *dict, *weak;
    bool off;         /* true: nothing is recorded */
    bool sizes_fixed; /* true: calls that other tensors keep from all entries are deferred */
    cr_py_deferral deferral;
} function;

static uint64_t functions_made; /* made so far; protected by the interpreter lock */
/* > 0: compiled functions of this thread call the plain function */
static CR_THREAD int calls_off;
/* > 0: the thread is in plain functions that run in place of recordings, which hold the
 * compiled functions that these call */
static CR_THREAD int in_place;
/* as calls_off, for all threads; protected by the interpreter lock */
static bool force_eager;

static PyObject *call_miss(function *f, PyObject *const *args, Py_ssize_t positional,
                           PyObject *names)
{
    const cr_py_given g = {args, positional, names};
    PyObject *packed[] = {(PyObject *)f, cr_py_given_args(&g), cr_py_given_kwargs(&g)},
             *out = NULL;

    if (packed[1] && packed[2])
        out = PyObject_Vectorcall(f->miss, packed, 3, NULL);
    Py_XDECREF(packed[1]);
    Py_XDECREF(packed[2]);
    return out;
}

/* Clears the error and returns true when the plain function may run instead.  That run raises
 * the error again or handles it. */
static bool may_run_again(const match *m)
{
    PyObject *type, *error, *trace;

    if (!m->undone || !PyErr_ExceptionMatches(PyExc_Exception))
        return false;
    PyErr_Fetch(&type, &error, &trace);
    PyObject *text = cr_log_wants("graph", 1) && error ? PyObject_Str(error) : NULL;
    const char *said = text ? PyUnicode_AsUTF8(text) : NULL;
    if (said)
        cr_log_line("graph", 1, "a call runs eagerly, because a program raised: %s", said);
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    return true;
}

/* A call that a recording serves. */
typedef struct {
    function *f;
    entry *e;
    match m;
    PyObject *const *args;
    size_t flagged;
    PyObject *names;
} served;

static PyObject *run_recorded(void *call)
{
    served *s = call;

    return entry_run(s->e, &s->m);
}

/* The plain function in place of its recording. */
static PyObject *call_in_place(function *f, PyObject *const *args, size_t flagged,
                               PyObject *names)
{
    in_place++;
    PyObject *out = cr_py_plain_call(f->function, args, flagged, names);
    in_place--;
    return out;
}

static PyObject *run_plain(void *call)
{
    served *s = call;

    cr_guard_release_all(s->e->guard);
    return call_in_place(s->f, s->args, s->flagged, s->names);
}

/* Sets *fitted when the entry serves the call, *eager when the plain function must run instead,
 * and *differs when the call has other floats.  Clears *misfits unless a tensor is why it does
 * not serve it. */
static PyObject *try_entry(function *f, entry *e, PyObject *const *args, size_t flagged,
                           PyObject *names, bool *fitted, bool *eager, bool *misfits,
                           bool *differs)
{
    cr_tensor *few[2 * FEW];
    cr_scalar few_numbers[FEW];
    served s = {
        f, e, {.input = few, .number = few_numbers}, args, flagged, names,
    };
    match *m = &s.m;
    PyObject *out = NULL;

    *fitted = false;
    if (e->inputs > 2 * FEW)
        m->input = PyMem_Malloc((size_t)e->inputs * sizeof *m->input);
    if (e->numbers > FEW)
        m->number = PyMem_Malloc((size_t)e->numbers * sizeof *m->number);
    if (m->input && m->number) {
        *fitted = entry_fits_call(e, args, PyVectorcall_NARGS(flagged), names, m);
        if (*fitted)
            out = m->call
                      ? cr_py_recorded_call(&f->deferral, m->call, run_recorded, run_plain, &s)
                      : entry_run(e, m);
        *misfits = *misfits && m->misfits;
        *differs = *differs || m->differs;
        *eager = *fitted && !out && may_run_again(m);
    } else {
        PyErr_NoMemory();
    }
    if (m->input != few)
        PyMem_Free(m->input);
    if (m->number != few_numbers)
        PyMem_Free(m->number);
    return out;
}

/* The calls that no entry serves. */
static PyObject *call_plain(function *f, PyObject *const *args, size_t flagged, PyObject *names)
{
    if (calls_off || in_place || force_eager || cr_recorder_active() || cr_py_in_strict_call())
        return PyObject_Vectorcall(f->function, args, flagged, names);
    return cr_py_deferred_call(&f->deferral, f->function, args, flagged, names);
}

/* Whether a program's gradients would be differentiated again. */
static bool goes_back_again(function *f)
{
    cr_py_deferral *d = &f->deferral;

    if (!d->again && !d->at_once && cr_again_met(d->number, &d->again_seen)) {
        d->again = true;
        cr_log_line("graph", 1,
                    "calls with gradients stay deferred: a backward pass with "
                    "create_graph=True ran");
    }
    return d->again && !cr_thread.no_grad;
}

static PyObject *call_somehow(function *f, PyObject *const *args, size_t flagged,
                              PyObject *names)
{
    Py_ssize_t positional = PyVectorcall_NARGS(flagged);

    if (CR_UNLIKELY(f->off || (f->deferral.failed && !f->deferral.at_once) || calls_off ||
                    in_place || force_eager || cr_recorder_active() || cr_py_mode_count ||
                    cr_py_override_off || cr_py_in_strict_call() || goes_back_again(f))) {
        if (cr_py_mode_count || cr_py_override_off)
            return PyObject_Vectorcall(f->function, args, flagged, names);
        return call_plain(f, args, flagged, names);
    }
    bool misfits = f->sizes_fixed && PyList_GET_SIZE(f->entries), differs = false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(f->entries); i++) {
        bool fitted, eager = false;
        PyObject *out = try_entry(f, (entry *)PyList_GET_ITEM(f->entries, i), args, flagged,
                                  names, &fitted, &eager, &misfits, &differs);
        if (eager)
            return call_in_place(f, args, flagged, names);
        if (fitted || PyErr_Occurred())
            return out;
    }
    return (misfits || differs) && !f->deferral.at_once ? call_plain(f, args, flagged, names)
                                                        : call_miss(f, args, positional, names);
}

static PyObject *function_call(PyObject *x, PyObject *const *args, size_t flagged,
                               PyObject *names)
{
    function *f = (function *)x;
    uint64_t first = cr_node_next_sequence();
    cr_status st = cr_py_deferral_closes();

    if (st)
        return cr_py_raise(st);
    PyObject *out = call_somehow(f, args, flagged, names);

    cr_again_watch(f->deferral.number, first, cr_node_next_sequence());
    return out;
}

static PyObject *function_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *fn, *miss;
    function *f;

    if (kwargs || !PyArg_ParseTuple(args, "OO", &fn, &miss))
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError, "CompiledFunction() takes no keywords");
    f = (function *)type->tp_alloc(type, 0);
    if (!f)
        return NULL;
    f->vectorcall = function_call;
    f->deferral.number = ++functions_made;
    f->function = Py_NewRef(fn);
    f->miss = Py_NewRef(miss);
    f->entries = PyList_New(0);
    f->dict = PyDict_New();
    if (f->entries && f->dict)
        return (PyObject *)f;
    Py_DECREF(f);
    return NULL;
}

#define FUNCTION_OBJECTS(DO)                                                                   \
    DO(f->function);                                                                           \
    DO(f->miss);                                                                               \
    DO(f->entries);                                                                            \
    DO(f->deferral.flushed);                                                                   \
    DO(f->dict);

static int function_traverse(PyObject *x, visitproc visit, void *arg)
{
    const function *f = (function *)x;

    FUNCTION_OBJECTS(Py_VISIT)
    return 0;
}

static int function_clear(PyObject *x)
{
    function *f = (function *)x;

    FUNCTION_OBJECTS(Py_CLEAR)
    return 0;
}

static void function_dealloc(PyObject *x)
{
    PyObject_GC_UnTrack(x);
    if (((function *)x)->weak)
        PyObject_ClearWeakRefs(x);
    function_clear(x);
    Py_TYPE(x)->tp_free(x);
}

/* Binds a method, as plain functions do. */
static PyObject *function_bind(PyObject *x, PyObject *self, PyObject *type)
{
    (void)type;
    return self && self != Py_None ? PyMethod_New(x, self) : Py_NewRef(x);
}

static PyObject *entry_fails(PyObject *x, PyObject *const *args, Py_ssize_t positional,
                             PyObject *names)
{
    entry *e = (entry *)x;
    match m = {0};

    if (positional != e->positional || !same_names(e->names, names))
        return Py_BuildValue("i()", -2);
    if (e->mode != mode_now())
        return Py_BuildValue("i(I)", -3, e->mode ^ mode_now());
    m.input = PyMem_Calloc((size_t)e->inputs + 1, sizeof *m.input);
    m.number = PyMem_Calloc((size_t)e->numbers + 1, sizeof *m.number);
    int failed = m.input && m.number
                     ? cr_guard_check(e->guard, args, positional, m.input, m.number)
                     : -2;
    PyMem_Free(m.input);
    PyMem_Free(m.number);
    if (failed == -2)
        return PyErr_NoMemory();
    if (failed < 0)
        Py_RETURN_NONE;
    PyObject *found = cr_guard_failed(e->guard);
    PyObject *out = found ? Py_BuildValue("i(O)i", failed, found, cr_guard_twin(e->guard))
                          : Py_BuildValue("i()", failed);
    cr_guard_release_all(e->guard);
    return out;
}

/* deferred(*args, **kwargs): the call without a recording. */
static PyObject *function_deferred(PyObject *x, PyObject *const *args, Py_ssize_t positional,
                                   PyObject *names)
{
    return call_plain((function *)x, args, (size_t)positional, names);
}

/* watched(*args, **kwargs): the call in a region; under fullgraph=True a flush inside
 * raises. */
static PyObject *function_watched(PyObject *x, PyObject *const *args, Py_ssize_t positional,
                                  PyObject *names)
{
    function *f = (function *)x;

    return cr_py_watched_call(&f->deferral, f->function, args, (size_t)positional, names);
}

/* measured() -> (deferred calls, flushes inside of them, and for the last call's sizes the
 * seconds of a call that runs at once, and of a deferred one; 0: not measured) */
static PyObject *function_measured(PyObject *x, PyObject *unused)
{
    const cr_py_deferral *d = &((function *)x)->deferral;

    (void)unused;
    return Py_BuildValue("(IIdd)", d->deferred, d->broken, d->now ? d->now->seconds[0] : 0.,
                         d->now ? d->now->seconds[1] : 0.);
}

static PyMethodDef function_methods[] = {
    {"_deferred", (PyCFunction)(void (*)(void))function_deferred, METH_FASTCALL | METH_KEYWORDS,
     "Calls the plain function; its operators are deferred."},
    {"_watched", (PyCFunction)(void (*)(void))function_watched, METH_FASTCALL | METH_KEYWORDS,
     "As _deferred(), but never at once and without measuring."},
    {"_measured", function_measured, METH_NOARGS,
     "The numbers of deferred calls and of flushes in them, and both ways' seconds."},
    {0}};

static PyMethodDef entry_methods[] = {
    {"fails", (PyCFunction)(void (*)(void))entry_fails, METH_FASTCALL | METH_KEYWORDS,
     "fails(*args, **kwargs) -> (the guard's node that fails, a "
     "tuple of the object found or an empty tuple, and the "
     "node that has this object, too, or -1).\n"
     "Node -2: other arguments; -3: another mode, with the "
     "bits that differ.  None when the entry fits."},
    {0}};
static PyMemberDef entry_members[] = {{"runner", T_OBJECT_EX, offsetof(entry, runner), READONLY,
                                       "The Call, or the backend's function."},
                                      {"calls", T_LONGLONG, offsetof(entry, calls), READONLY,
                                       "Number of calls that used this entry."},
                                      {"fixed_floats", T_BOOL, offsetof(entry, fixed_floats), 0,
                                       "True: calls with other floats than those that "
                                       "derivatives keep are deferred."},
                                      {0}};
static PyTypeObject entry_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.CompiledEntry",
    .tp_basicsize = sizeof(entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "One recording of a compiled function.",
    .tp_new = entry_new,
    .tp_dealloc = entry_dealloc,
    .tp_traverse = entry_traverse,
    .tp_clear = entry_clear,
    .tp_methods = entry_methods,
    .tp_members = entry_members,
};

static PyMemberDef function_members[] = {
    {"_function", T_OBJECT_EX, offsetof(function, function), READONLY, "The plain function."},
    {"_entries", T_OBJECT_EX, offsetof(function, entries), READONLY,
     "The function's recordings."},
    {"_off", T_BOOL, offsetof(function, off), 0, "True: no call is recorded."},
    {"_sizes_fixed", T_BOOL, offsetof(function, sizes_fixed), 0,
     "True: calls that other tensors keep from all recordings are deferred."},
    {"_at_once", T_BOOL, offsetof(function, deferral.at_once), 0, "True: no call is deferred."},
    {"_failed", T_BOOL, offsetof(function, deferral.failed), 0,
     "True: `_flushed` has raised, and all calls are deferred."},
    {"_strict", T_BOOL, offsetof(function, deferral.strict), 0,
     "True: no call runs at once, because `_flushed` needs all flushes."},
    {"_how", T_UINT, offsetof(function, deferral.how), 0, "Flags of its programs."},
    {"_flushed", T_OBJECT, offsetof(function, deferral.flushed), 0,
     "Called with a list of the flushes inside of a deferred call."},
    {"__dictoffset__", T_PYSSIZET, offsetof(function, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(function, weak), READONLY, NULL},
    {0}};
static PyGetSetDef function_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL}, {0}};
static PyTypeObject function_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.CompiledFunction",
    .tp_basicsize = sizeof(function),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "CompiledFunction(function, miss): a call that fits no entry calls miss(self, "
              "args, kwargs).",
    .tp_new = function_new,
    .tp_dealloc = function_dealloc,
    .tp_traverse = function_traverse,
    .tp_clear = function_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(function, vectorcall),
    .tp_methods = function_methods,
    .tp_descr_get = function_bind,
    .tp_dictoffset = offsetof(function, dict),
    .tp_weaklistoffset = offsetof(function, weak),
    .tp_members = function_members,
    .tp_getset = function_getset,
};

/* _compiled_off(by) -> whether compiled functions of this thread call the plain function
 * now. */
static PyObject *compiled_off(PyObject *m, PyObject *by)
{
    long n = PyLong_AsLong(by);

    (void)m;
    if (PyErr_Occurred())
        return NULL;
    if (!calls_off != !(calls_off + n))
        cr_defer_pause(n > 0 ? 1 : -1);
    calls_off += (int)n;
    return PyBool_FromLong(calls_off > 0 || force_eager);
}

/* _force_eager(on): compiled functions of all threads call the plain function. */
static PyObject *set_force_eager(PyObject *m, PyObject *on)
{
    (void)m;
    force_eager = on == Py_True;
    Py_RETURN_NONE;
}

/* _refuse_recording(why): the recording in progress will give no graph that a later call may
 * run instead of Python.  Graphs of whole calls replace no call: they do without what Python
 * did. */
static PyObject *refuse_recording(PyObject *m, PyObject *why)
{
    const char *text = PyUnicode_AsUTF8(why);

    (void)m;
    if (!text)
        return NULL;
    if (!cr_recorder_is_whole())
        cr_recorder_refuse(text);
    Py_RETURN_NONE;
}

/* _literal(t): while a call is recorded a copy of `t` that is a constant of the graph; else
 * `t`. */
static PyObject *literal_of(PyObject *m, PyObject *x)
{
    cr_recorder *r = cr_py_is_tensor(x) ? cr_recorder_pause() : NULL;
    cr_value arg = {.tag = CR_TENSOR}, copy;

    (void)m;
    if (!r)
        return Py_NewRef(x);
    arg.t = cr_py_tensor_of(x);
    cr_status st = cr_call_named("clone", &arg, 1, &copy);
    cr_recorder_resume(r);
    if (st)
        return cr_py_raise(st);
    cr_recorder_literal(copy.t);
    return cr_py_wrap(copy.t);
}

/* _break_graph(why): ends the graph of the deferred call; a recording gives no graph. */
static PyObject *break_graph(PyObject *m, PyObject *why)
{
    const char *text = PyUnicode_AsUTF8(why);

    (void)m;
    if (!text || cr_py_defer_break(why) < 0)
        return NULL;
    cr_recorder_refuse(text);
    Py_RETURN_NONE;
}

/* _is_compiling(): whether a compiled function of the thread is recorded or deferred. */
static PyObject *is_compiling(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(cr_recorder_active() || (cr_py_in_deferred_call() && !calls_off));
}

/* _is_meta_or_subclass(t): true for tensors whose operations a recording does not see. */
static PyObject *is_odd_tensor(PyObject *m, PyObject *x)
{
    (void)m;
    return PyBool_FromLong(!cr_py_is_tensor(x) || !cr_has_bytes(cr_py_tensor_of(x)->device) ||
                           cr_py_overrides(Py_TYPE(x)));
}

static PyObject *saved_hooks_active(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(cr_saved_hooks_active());
}

/* _can_go_back(t): true when a backward pass from t is possible. */
static PyObject *can_go_back(PyObject *m, PyObject *x)
{
    bool released = false;

    (void)m;
    if (!cr_py_is_tensor(x) || !cr_requires_grad(cr_py_tensor_of(x)) ||
        cr_is_leaf(cr_py_tensor_of(x)))
        Py_RETURN_FALSE;
    cr_status st = cr_history_is_released(&released, cr_py_tensor_of(x));
    return st ? cr_py_raise(st) : PyBool_FromLong(!released);
}

/* _storage_key(t): equal for tensors with the same storage. */
static PyObject *storage_key(PyObject *m, PyObject *x)
{
    (void)m;
    if (!cr_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "_storage_key() takes a tensor");
    return PyLong_FromVoidPtr(cr_py_tensor_of(x)->storage);
}

/* _memory_key(t): equal for tensors with the same memory, which may be of several storages. */
static PyObject *memory_key(PyObject *m, PyObject *x)
{
    (void)m;
    if (!cr_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "_memory_key() takes a tensor");
    return PyLong_FromVoidPtr((void *)(uintptr_t)cr_storage_key(cr_py_tensor_of(x)->storage));
}

/* _storage_state(t): changes with every write to the tensor's memory; None when such a write
 * can happen without it, through another storage or an array. */
static PyObject *storage_state(PyObject *m, PyObject *x)
{
    (void)m;
    if (!cr_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "_storage_state() takes a tensor");
    const cr_storage *s = cr_py_tensor_of(x)->storage;
    if (!s || !cr_storage_is_watched(s))
        Py_RETURN_NONE;
    return Py_BuildValue("II", s->version, (unsigned)atomic_load(&s->hidden));
}

/* Whether the tensor is a result whose memory and history may become another tensor's. */
static bool is_plain_result(const cr_py_tensor *w)
{
    const cr_grad_meta *g = w->t->grad;

    return !w->hooks && !w->accumulated && !w->t->number && !w->t->layout && !w->t->conj &&
           !w->t->neg &&
           (!g || (!g->retains_grad && !g->grad && !g->accumulate &&
                   (!g->grad_fn || (!g->grad_fn->extra && !g->grad_fn->peer))));
}

static bool is_exchangeable(PyObject *x, PyObject *y)
{
    if (!cr_py_is_tensor(x) || !cr_py_is_tensor(y))
        return false;
    const cr_tensor *a = cr_py_tensor_of(x), *b = cr_py_tensor_of(y);
    return Py_REFCNT(y) == 1 && is_plain_result((const cr_py_tensor *)x) &&
           is_plain_result((const cr_py_tensor *)y) && a->dtype == b->dtype &&
           a->inference == b->inference && a->ndim == b->ndim &&
           !memcmp(a->size, b->size, a->ndim * sizeof *a->size) &&
           !memcmp(a->stride, b->stride, a->ndim * sizeof *a->stride);
}

/* _exchange_results(a, b): exchanges memory and history of the results in two lists, if all
 * pairs have equal dtype, sizes and strides and only the list refers to b[i]; otherwise of
 * none.  Code that is about to read a[i] reads what b[i] was. */
static PyObject *exchange_results(PyObject *m, PyObject *args)
{
    PyObject *a, *b;

    (void)m;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &a, &PyList_Type, &b))
        return NULL;
    bool fit = PyList_GET_SIZE(a) == PyList_GET_SIZE(b);
    for (Py_ssize_t i = 0; fit && i < PyList_GET_SIZE(a); i++)
        fit = is_exchangeable(PyList_GET_ITEM(a, i), PyList_GET_ITEM(b, i));
    for (Py_ssize_t i = 0; fit && i < PyList_GET_SIZE(a); i++)
        cr_tensor_exchange(cr_py_tensor_of(PyList_GET_ITEM(a, i)),
                           cr_py_tensor_of(PyList_GET_ITEM(b, i)));
    return PyBool_FromLong(fit);
}

/* _log(topic, level, text) */
static PyObject *log_line(PyObject *m, PyObject *args)
{
    const char *topic, *text;
    int level;

    (void)m;
    if (!PyArg_ParseTuple(args, "sis", &topic, &level, &text))
        return NULL;
    cr_log_line(topic, level, "%s", text);
    Py_RETURN_NONE;
}

/* _log_wants(topic, level) -> bool */
static PyObject *log_wants(PyObject *m, PyObject *args)
{
    const char *topic;
    int level;

    (void)m;
    if (!PyArg_ParseTuple(args, "si", &topic, &level))
        return NULL;
    return PyBool_FromLong(cr_log_wants(topic, level));
}

/* _outline(t) -> a tensor with the device, dtype, sizes and strides of t and no memory.  It
 * must not be read. */
static PyObject *outline(PyObject *m, PyObject *x)
{
    cr_storage *none = NULL;
    cr_tensor *out;

    (void)m;
    if (!cr_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "a tensor is expected, not %s",
                            Py_TYPE(x)->tp_name);
    const cr_tensor *t = cr_py_tensor_of(x);
    cr_status st = cr_storage_new(&none, t->device, 0);
    if (!st)
        st = cr_tensor_over(&out, none, (cr_dtype)t->dtype, t->ndim, t->size, t->stride, 0);
    if (!st)
        return cr_py_wrap(out);
    cr_storage_drop(none);
    return cr_py_raise(st);
}

/* _programs_made() -> programs of this process; those that only have other sizes than one are
 * none. */
static PyObject *programs_made(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyLong_FromLongLong(cr_programs_made());
}

static PyMethodDef functions[] = {
    {"_outline", outline, METH_O, NULL},
    {"_programs_made", programs_made, METH_NOARGS, NULL},
    {"_is_meta_or_subclass", is_odd_tensor, METH_O, NULL},
    {"_saved_hooks_active", saved_hooks_active, METH_NOARGS, NULL},
    {"_can_go_back", can_go_back, METH_O, NULL},
    {"_storage_key", storage_key, METH_O, NULL},
    {"_memory_key", memory_key, METH_O, NULL},
    {"_recorded_modes", recorded_modes, METH_NOARGS, NULL},
    {"_storage_state", storage_state, METH_O, NULL},
    {"_exchange_results", exchange_results, METH_VARARGS, NULL},
    {"_log", log_line, METH_VARARGS, NULL},
    {"_log_wants", log_wants, METH_VARARGS, NULL},
    {"_symbol_of", cr_py_symbol_of, METH_O, NULL},
    {"_symbol_texts", cr_py_symbol_texts, METH_O, NULL},
    {"_force_eager", set_force_eager, METH_O, NULL},
    {"_compiled_off", compiled_off, METH_O, NULL},
    {"_refuse_recording", refuse_recording, METH_O, NULL},
    {"_literal", literal_of, METH_O, NULL},
    {"_facts_of_code", cr_py_code_facts, METH_O, NULL},
    {"_break_graph", break_graph, METH_O, NULL},
    {"_is_compiling", is_compiling, METH_NOARGS, NULL},
    {0}};

int cr_py_compiled_start(PyObject *m)
{
    if (cr_py_add_type(m, "Call", &call_type) < 0 ||
        cr_py_add_type(m, "Calls", &calls_type) < 0 ||
        cr_py_add_type(m, "CompiledEntry", &entry_type) < 0 ||
        cr_py_add_type(m, "CompiledFunction", &function_type) < 0 ||
        PyModule_AddIntConstant(m, "_HOW_FAST", CR_HOW_FAST) < 0 ||
        PyModule_AddIntConstant(m, "_HOW_MEASURE", CR_HOW_MEASURE) < 0 ||
        PyModule_AddIntConstant(m, "_HOW_CALLS", CR_HOW_CALLS) < 0 ||
        PyModule_AddIntConstant(m, "_HOW_APART", CR_HOW_APART) < 0)
        return -1;
    return PyModule_AddFunctions(m, functions);
}
