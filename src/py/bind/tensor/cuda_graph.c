/* Captured graphs of CUDA devices, as capsules that cuda/graphs.py wraps in a class. */
#include "base/memory.h"
#include "device/cuda/graph.h"
#include "py/bind/bind.h"

static const char graph_name[] = "cresset.cuda_graph";

static cr_cuda_graph *graph_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, graph_name);
}

static void graph_drop(PyObject *capsule) { cr_cuda_graph_drop(graph_of(capsule)); }

/* False with torch's error when there is no device. */
static bool graph_has_device(void)
{
    cr_device unused;

    if (cr_cuda_table())
        return true;
    cr_py_raise(cr_device_named(&unused, cr_device_pack(CR_CUDA, -1)));
    return false;
}

static PyObject *graph_new(PyObject *m, PyObject *keeps)
{
    int keep = PyObject_IsTrue(keeps);

    (void)m;
    if (keep < 0 || !graph_has_device())
        return NULL;
    cr_cuda_graph *g = cr_cuda_graph_new(keep);
    if (!g)
        return cr_py_raise(CR_MEMORY);
    PyObject *capsule = PyCapsule_New(g, graph_name, graph_drop);
    if (!capsule)
        cr_cuda_graph_drop(g);
    return capsule;
}

/* (graph, generator) */
static PyObject *graph_register(PyObject *m, PyObject *args)
{
    PyObject *capsule, *generator;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO!", &capsule, &cr_py_generator_type, &generator))
        return NULL;
    cr_cuda_graph *g = graph_of(capsule);
    return g ? cr_py_said(cr_cuda_graph_register(g, ((cr_py_generator *)generator)->generator))
             : NULL;
}

/* (graph, mode, pool or None) */
static PyObject *graph_begin(PyObject *m, PyObject *args)
{
    PyObject *capsule, *pool;
    const char *mode;
    cr_cuda_pool_number number = {0, 0};

    (void)m;
    if (!PyArg_ParseTuple(args, "OsO", &capsule, &mode, &pool))
        return NULL;
    cr_cuda_graph *g = graph_of(capsule);
    if (!g || (pool != Py_None &&
               !PyArg_ParseTuple(pool, "KK:capture_begin", &number.first, &number.second)))
        return NULL;
    bool given = pool != Py_None && (number.first || number.second);
    return cr_py_said(
        cr_cuda_graph_begin(g, cr_cuda_table()->current(), mode, given ? &number : NULL));
}

/* Returns whether nothing was captured. */
static PyObject *graph_end(PyObject *m, PyObject *capsule)
{
    cr_cuda_graph *g = graph_of(capsule);
    const char *error;
    bool empty = false;

    (void)m;
    if (!g)
        return NULL;
    CR_PY_UNLOCKED(error = cr_cuda_graph_end(g, &empty));
    cr_status st = cr_device_status(error);
    return st ? cr_py_raise(st) : PyBool_FromLong(empty);
}

#define GRAPH_CALL(name, call)                                                                 \
    static PyObject *graph_##name(PyObject *m, PyObject *capsule)                              \
    {                                                                                          \
        cr_cuda_graph *g = graph_of(capsule);                                                  \
        const char *error;                                                                     \
                                                                                               \
        (void)m;                                                                               \
        if (!g)                                                                                \
            return NULL;                                                                       \
        CR_PY_UNLOCKED(error = call(g));                                                       \
        return cr_py_said(error);                                                              \
    }
GRAPH_CALL(make, cr_cuda_graph_make)
GRAPH_CALL(replay, cr_cuda_graph_replay)
GRAPH_CALL(reset, cr_cuda_graph_reset)

static PyObject *graph_pool(PyObject *m, PyObject *capsule)
{
    const cr_cuda_graph *g = graph_of(capsule);
    cr_cuda_pool_number n;

    (void)m;
    if (!g)
        return NULL;
    cr_status st = cr_device_status(cr_cuda_graph_pool(g, &n));
    return st ? cr_py_raise(st) : Py_BuildValue("KK", n.first, n.second);
}

static PyObject *graph_pool_new(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    if (!graph_has_device())
        return NULL;
    cr_cuda_pool_number n = cr_cuda_pool_new();
    return Py_BuildValue("KK", n.first, n.second);
}

/* --- pools of programs --- */

static const char pool_name[] = "cresset.cuda_pool";

static void pool_drop(PyObject *capsule)
{
    cr_cuda_pool_drop(PyCapsule_GetPointer(capsule, pool_name));
}

/* (the addresses of the functions that get and free, whether it serves requests that would
 * fail, whether blocks stay whole) */
static PyObject *pool_make(PyObject *m, PyObject *args)
{
    unsigned long long get, give;
    int on_shortage, whole;

    (void)m;
    if (!PyArg_ParseTuple(args, "KKpp", &get, &give, &on_shortage, &whole) ||
        !graph_has_device())
        return NULL;
    const cr_cuda_pool_rules rules = {
        .get = (void *(*)(ptrdiff_t, int, void *))(uintptr_t)get,
        .free = (void (*)(void *, ptrdiff_t, int, void *))(uintptr_t)give,
        .on_shortage = on_shortage,
        .whole = whole};
    cr_cuda_pool *pool = cr_cuda_pool_make(cr_cuda_table()->current(), &rules);
    return pool ? PyCapsule_New(pool, pool_name, pool_drop) : cr_py_raise(CR_MEMORY);
}

/* (device, address, bytes, requested, stream, pool, state, begins, large) of each block */
static PyObject *pool_blocks(PyObject *m, PyObject *unused)
{
    cr_cuda_block_facts *of;
    size_t n;

    (void)m;
    (void)unused;
    cr_status st = cr_cuda_memory_blocks(&of, &n);
    if (st)
        return cr_py_raise(st);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        const cr_cuda_block_facts *b = &of[i];
        PyObject *row = Py_BuildValue(
            "iKnnK(KK)iNN", b->device, (unsigned long long)b->at, (Py_ssize_t)b->size,
            (Py_ssize_t)b->requested, (unsigned long long)(uintptr_t)b->stream, b->pool[0],
            b->pool[1], (int)b->state, PyBool_FromLong(b->begins), PyBool_FromLong(b->large));
        if (!row)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, row);
    }
    cr_free(of);
    return list;
}

/* The two numbers of a pool, and how often it is used. */
static PyObject *pool_state(PyObject *m, PyObject *capsule)
{
    const cr_cuda_pool *pool = PyCapsule_GetPointer(capsule, pool_name);

    (void)m;
    if (!pool)
        return NULL;
    cr_cuda_pool_number n = cr_cuda_pool_number_of(pool);
    return Py_BuildValue("KKi", n.first, n.second, cr_cuda_pool_uses(pool));
}

/* (device, the two numbers of a pool, whether it begins) */
static PyObject *pool_route(PyObject *m, PyObject *args)
{
    cr_cuda_pool_number n;
    int index, begins;

    (void)m;
    if (!PyArg_ParseTuple(args, "i(KK)p", &index, &n.first, &n.second, &begins))
        return NULL;
    if (begins)
        return cr_py_said(cr_cuda_pool_begin(index, n));
    cr_cuda_pool_end(index, n);
    Py_RETURN_NONE;
}

/* (graph, whether that which is launched) */
static PyObject *graph_raw(PyObject *m, PyObject *args)
{
    PyObject *capsule;
    int launchable;
    void *at;

    (void)m;
    if (!PyArg_ParseTuple(args, "Op", &capsule, &launchable))
        return NULL;
    const cr_cuda_graph *g = graph_of(capsule);
    if (!g)
        return NULL;
    cr_status st = cr_device_status(cr_cuda_graph_raw(g, launchable, &at));
    return st ? cr_py_raise(st) : PyLong_FromVoidPtr(at);
}

/* (graph, path) */
static PyObject *graph_print(PyObject *m, PyObject *args)
{
    PyObject *capsule;
    const char *path;

    (void)m;
    if (!PyArg_ParseTuple(args, "Os", &capsule, &path))
        return NULL;
    const cr_cuda_graph *g = graph_of(capsule);
    return g ? cr_py_said(cr_cuda_graph_print(g, path)) : NULL;
}

static PyObject *graph_is_capturing(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(cr_cuda_is_initialized() &&
                           cr_cuda_is_capturing(cr_cuda_table()->current()));
}

static PyMethodDef functions[] = {
    {"_cuda_graph_new", graph_new, METH_O, "Makes a graph; whether it stays after its end."},
    {"_cuda_graph_register", graph_register, METH_VARARGS, "The graph draws from a generator."},
    {"_cuda_graph_begin", graph_begin, METH_VARARGS, "Captures the thread's stream."},
    {"_cuda_graph_end", graph_end, METH_O, "Ends the capture; whether it has no work."},
    {"_cuda_graph_make", graph_make, METH_O, "Makes a captured graph launchable."},
    {"_cuda_graph_replay", graph_replay, METH_O, "Launches a graph."},
    {"_cuda_graph_reset", graph_reset, METH_O, "Drops what was captured."},
    {"_cuda_graph_pool", graph_pool, METH_O, "The number of the graph's pool."},
    {"_cuda_graph_pool_new", graph_pool_new, METH_NOARGS, "The number of a new pool."},
    {"_cuda_pool_make", pool_make, METH_VARARGS, "Makes a pool on the current device."},
    {"_cuda_memory_blocks", pool_blocks, METH_NOARGS, "The blocks of the allocator."},
    {"_cuda_pool_state", pool_state, METH_O, "A pool's numbers, and how often it is used."},
    {"_cuda_pool_route", pool_route, METH_VARARGS,
     "Requests of the thread use a pool, or end."},
    {"_cuda_graph_raw", graph_raw, METH_VARARGS, "An address of the driver."},
    {"_cuda_graph_print", graph_print, METH_VARARGS, "Writes a graph as text."},
    {"_cuda_is_capturing", graph_is_capturing, METH_NOARGS, "Whether work is captured."},
    {0}};

int cr_py_cuda_graph_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
