/* Profiles: the events of a thread's calls as Python data. */
#include "tensor/profile.h"
#include "py/bind/bind.h"
#include <string.h>

/* --- arguments --- */

static PyObject *profile_ints(const int64_t **at, Py_ssize_t n)
{
    PyObject *out = cr_py_ints_tuple(*at, (size_t)n);

    *at += n;
    return out;
}

/* (dtype, sizes) */
static PyObject *profile_tensor(const int64_t **at)
{
    cr_dtype dtype = (cr_dtype)(*at)[0];
    Py_ssize_t ndim = (Py_ssize_t)(*at)[1];

    *at += 2;
    PyObject *sizes = profile_ints(at, ndim);
    return sizes ? Py_BuildValue("(ON)", cr_py_dtype_object(dtype), sizes) : NULL;
}

static PyObject *profile_tensors(const int64_t **at)
{
    Py_ssize_t n = (Py_ssize_t) * (*at)++;
    PyObject *out = PyList_New(n);

    for (Py_ssize_t i = 0; out && i < n; i++)
        cr_py_put_item(&out, i, profile_tensor(at));
    return out;
}

static PyObject *profile_value(const int64_t **at)
{
    cr_tag tag = (cr_tag) * (*at)++;
    int64_t n;
    double d;

    switch (tag) {
    case CR_TENSOR: return profile_tensor(at);
    case CR_TENSORS: return profile_tensors(at);
    case CR_INT: return PyLong_FromLongLong(*(*at)++);
    case CR_TRUTH: return PyBool_FromLong(*(*at)++ != 0);
    case CR_FLOAT: memcpy(&d, (*at)++, sizeof d); return PyFloat_FromDouble(d);
    case CR_INTS:
    case CR_TRUTHS: n = *(*at)++; return profile_ints(at, (Py_ssize_t)n);
    default: Py_RETURN_NONE;
    }
}

/* A list with an item for each parameter; None when the profile has no inputs. */
static PyObject *profile_inputs(const cr_profile *p, const cr_profile_event *e)
{
    const int64_t *at = p->inputs.at + e->inputs, *end = at + e->input_count;
    PyObject *out;

    if (!p->with_inputs || e->kind != CR_PROFILE_OP)
        Py_RETURN_NONE;
    out = PyList_New(0);
    while (out && at && at < end)
        cr_py_append(&out, profile_value(&at));
    return out;
}

/* --- events --- */

static PyObject *profile_event(const cr_profile *p, const cr_profile_event *e)
{
    PyObject *inputs = profile_inputs(p, e);

    if (!inputs)
        return NULL;
    return Py_BuildValue("(siLLLLLiN)", e->name, (int)e->kind, (long long)e->start,
                         (long long)e->end, (long long)e->memory, (long long)e->memory_end,
                         (long long)e->sequence, (int)e->parent, inputs);
}

static PyObject *profile_events(const cr_profile *p)
{
    PyObject *out = PyList_New((Py_ssize_t)p->events.len);

    for (size_t i = 0; out && i < p->events.len; i++)
        cr_py_put_item(&out, (Py_ssize_t)i, profile_event(p, &p->events.at[i]));
    return out;
}

/* _profile_start(with_inputs) */
static PyObject *profile_start(PyObject *m, PyObject *with_inputs)
{
    bool inputs;

    (void)m;
    if (!cr_py_truth(with_inputs, &inputs))
        return NULL;
    return cr_py_done(cr_profile_start(inputs));
}

/* _profile_stop() -> list of (name, kind, start, end, memory, memory at the end, sequence,
 * index of the parent, inputs) */
static PyObject *profile_stop(PyObject *m, PyObject *unused)
{
    cr_profile *p = cr_profile_stop();
    PyObject *out;

    (void)m;
    (void)unused;
    if (!p)
        return PyErr_Format(PyExc_RuntimeError, "Can't stop a profiler: none is running");
    out = p->incomplete ? PyErr_NoMemory() : profile_events(p);
    cr_profile_drop(p);
    return out;
}

static PyObject *profile_enabled(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(cr_profiling());
}

/* _profile_enter(name) -> index of the event, -1 when the thread does not profile */
static PyObject *profile_enter(PyObject *m, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);

    (void)m;
    if (!text)
        return NULL;
    return PyLong_FromLong(cr_profiling() ? cr_profile_enter(CR_PROFILE_USER, text, -1) : -1);
}

static PyObject *profile_leave(PyObject *m, PyObject *event)
{
    long index = PyLong_AsLong(event);

    (void)m;
    if (index == -1 && PyErr_Occurred())
        return NULL;
    cr_profile_leave((int32_t)index);
    Py_RETURN_NONE;
}

static PyObject *profile_next_sequence(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyLong_FromUnsignedLongLong(cr_node_next_sequence());
}

static PyMethodDef profile_functions[] = {
    {"_node_next_sequence", profile_next_sequence, METH_NOARGS, NULL},
    {"_profile_start", profile_start, METH_O, NULL},
    {"_profile_stop", profile_stop, METH_NOARGS, NULL},
    {"_profile_enabled", profile_enabled, METH_NOARGS, NULL},
    {"_profile_enter", profile_enter, METH_O, NULL},
    {"_profile_leave", profile_leave, METH_O, NULL},
    {0}};

int cr_py_profile_start(PyObject *m) { return PyModule_AddFunctions(m, profile_functions); }
