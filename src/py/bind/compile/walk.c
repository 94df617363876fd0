/* The walk over the contents of a container, for guards.
 *
 * A module contains dozens of numbers, names, tuples of numbers and empty dicts of hooks, and
 * the first call of a function waits for the walk.  guards.py handles other contents. */
#include "py/bind/compile/compiled.h"
#include <math.h>

typedef struct {
    PyObject *nodes, *source, *node; /* node: the container's */
    PyObject *known, *holders, *kept;
    bool values; /* numbers and strings are handled here, too */
    PyObject *is, *at, *equal, *list, *mapping, *no_slot;
    PyObject *later;
} walk;

static int append(PyObject *list, PyObject *made)
{
    int status = made ? PyList_Append(list, made) : -1;

    Py_XDECREF(made);
    return status;
}

static int walk_add_node(walk *w, PyObject *source, PyObject *parent, PyObject *key,
                         PyObject *check, PyObject *expected)
{
    PyObject *made = PyList_New(6), *const item[] = {source, parent,   key,
                                                     check,  expected, w->no_slot};

    for (int i = 0; made && i < 6; i++)
        PyList_SET_ITEM(made, i, Py_NewRef(item[i]));
    return append(w->nodes, made);
}

/* A NaN is none: it is in a container, or equal to another, if it is the same object. */
static bool is_value(PyObject *x)
{
    return PyLong_CheckExact(x) || PyUnicode_CheckExact(x) || PyBytes_CheckExact(x) ||
           (PyFloat_CheckExact(x) && !isnan(PyFloat_AS_DOUBLE(x))) ||
           (PyComplex_CheckExact(x) && !isnan(PyComplex_RealAsDouble(x)) &&
            !isnan(PyComplex_ImagAsDouble(x)));
}

static bool walk_is_plain(const walk *w, PyObject *x)
{
    return x == Py_None || PyBool_Check(x) || (w->values && is_value(x));
}

static int walk_add_plain(walk *w, PyObject *source, PyObject *parent, PyObject *key,
                          PyObject *x)
{
    return walk_add_node(w, source, parent, key, is_value(x) ? w->equal : w->is, x);
}

/* Adds a node for x, or puts x into `later`.  Holds references, because a garbage collection
 * may run code that changes the container. */
static int look_at(walk *w, PyObject *key, PyObject *x)
{
    int status;

    Py_INCREF(key);
    Py_INCREF(x);
    status = walk_is_plain(w, x) ? walk_add_plain(w, w->source, w->node, key, x)
                                 : append(w->later, PyTuple_Pack(2, key, x));
    Py_DECREF(x);
    Py_DECREF(key);
    return status;
}

static int look_at_all(walk *w, PyObject *holder)
{
    PyObject *key, *x;
    Py_ssize_t at = 0;
    int status = 0;

    if (PyDict_Check(holder)) {
        while (!status && PyDict_Next(holder, &at, &key, &x))
            status = look_at(w, key, x);
        return status;
    }
    for (; !status && at < PySequence_Fast_GET_SIZE(holder); at++) {
        key = PyLong_FromSsize_t(at);
        status = key ? look_at(w, key, PySequence_Fast_GET_ITEM(holder, at)) : -1;
        Py_XDECREF(key);
    }
    return status;
}

static bool is_empty_dict(PyObject *x)
{
    return (PyDict_CheckExact(x) || Py_IS_TYPE(x, &PyODict_Type)) && !PyDict_GET_SIZE(x);
}

static bool is_plain_tuple(const walk *w, PyObject *x)
{
    if (!PyTuple_CheckExact(x))
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); i++)
        if (!walk_is_plain(w, PyTuple_GET_ITEM(x, i)))
            return false;
    return true;
}

static int add_members(walk *w, PyObject *tuple, PyObject *node)
{
    int status = 0;

    for (Py_ssize_t i = 0; !status && i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *place = PyLong_FromSsize_t(i);
        status = place ? walk_add_plain(w, w->at, node, place, PyTuple_GET_ITEM(tuple, i)) : -1;
        Py_XDECREF(place);
    }
    return status;
}

/* Adds a node as Walk.mapping() and Walk.sequence() do. */
static int add_container(walk *w, PyObject *key, PyObject *x, PyObject *id)
{
    bool tuple = PyTuple_CheckExact(x);
    PyObject *node = PyLong_FromSsize_t(PyList_GET_SIZE(w->nodes));
    PyObject *expected = tuple ? Py_BuildValue("(On)", Py_TYPE(x), PyTuple_GET_SIZE(x))
                               : Py_BuildValue("(O())", Py_TYPE(x));
    int status = -1;

    if (node && expected && PyDict_SetItem(w->known, id, node) >= 0 &&
        PyList_Append(w->kept, x) >= 0 &&
        walk_add_node(w, w->source, w->node, key, tuple ? w->list : w->mapping, expected) >= 0)
        status = tuple ? add_members(w, x, node) : PyDict_SetItem(w->holders, node, x);
    Py_XDECREF(expected);
    Py_XDECREF(node);
    return status;
}

/* 1: added; 0: not an empty dict or tuple of plain values, or seen before; -1: raised. */
static int walk_take(walk *w, PyObject *key, PyObject *x)
{
    PyObject *id;
    int met;

    if (!is_empty_dict(x) && !is_plain_tuple(w, x))
        return 0;
    id = PyLong_FromVoidPtr(x);
    met = id ? PyDict_Contains(w->known, id) : -1;
    if (!met)
        met = add_container(w, key, x, id) < 0 ? -1 : 0;
    Py_XDECREF(id);
    return met < 0 ? -1 : !met;
}

/* Adds plain containers of `later` and keeps the others in it. */
static int take_containers(walk *w)
{
    Py_ssize_t kept = 0;

    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(w->later); i++) {
        PyObject *pair = PyList_GET_ITEM(w->later, i), *x = PyTuple_GET_ITEM(pair, 1);
        int taken = walk_take(w, PyTuple_GET_ITEM(pair, 0), x);
        if (taken < 0)
            return -1;
        if (!taken && kept++ != i && PyList_SetItem(w->later, kept - 1, Py_NewRef(pair)) < 0)
            return -1;
    }
    return PyList_SetSlice(w->later, kept, PyList_GET_SIZE(w->later), NULL);
}

PyObject *cr_py_walk_items(PyObject *module, PyObject *args)
{
    walk w = {0};
    PyObject *holder;
    int values;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOOO!O!O!O!p", &holder, &w.source, &w.node, &PyList_Type,
                          &w.nodes, &PyDict_Type, &w.known, &PyDict_Type, &w.holders,
                          &PyList_Type, &w.kept, &values))
        return NULL;
    if (!PyDict_Check(holder) && !PyList_Check(holder) && !PyTuple_Check(holder)) {
        PyErr_SetString(PyExc_TypeError, "what is walked over is a dict, a list or a tuple");
        return NULL;
    }
    w.values = values;
    w.is = PyUnicode_InternFromString("is");
    w.at = PyUnicode_InternFromString("at");
    w.list = PyUnicode_InternFromString("list");
    w.equal = PyUnicode_InternFromString("equal");
    w.mapping = PyUnicode_InternFromString("mapping");
    w.no_slot = PyLong_FromLong(-1);
    w.later = PyList_New(0);
    if (!w.is || !w.at || !w.equal || !w.list || !w.mapping || !w.no_slot || !w.later ||
        look_at_all(&w, holder) < 0 || take_containers(&w) < 0)
        Py_CLEAR(w.later);
    Py_XDECREF(w.no_slot);
    Py_XDECREF(w.mapping);
    Py_XDECREF(w.list);
    Py_XDECREF(w.equal);
    Py_XDECREF(w.at);
    Py_XDECREF(w.is);
    return w.later;
}
