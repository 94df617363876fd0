/* Calls of compiled functions without a recording: their operators are deferred.
 *
 * The first calls are deferred, and get their programs; then each way is measured.  The slower
 * one is tried again after SOON calls, and after twice as many whenever it is still slower. */
#include "py/bind/compile/deferred.h"
#include "autograd/autograd.h"
#include "base/clock.h"
#include "compile/compile.h"
#include "tensor/defer.h"

enum { FIRST = 4, SOON = 16, LATE = 1024 };
static CR_THREAD int calls; /* of compiled functions that the thread is in */

/* --- the faster way --- */
static void note_time(double *mean, double took)
{
    *mean = *mean <= 0 || took < *mean ? took : *mean + 0.25 * (took - *mean);
}

/* The time of the last call is known when the next one begins.  A call of another thread is
 * left out, because each thread has a clock. */
static void close_last(cr_py_deferral *d)
{
    double since = cr_defer_clock() - d->mark, *now = &d->seconds[d->way],
           *other = &d->seconds[!d->way];
    bool known = d->open && d->thread == &calls;

    d->open = false;
    if (!known)
        return;
    note_time(&d->seconds[d->last], d->took + (since > 0 ? since : 0));
    if (*now <= 0 || *other <= 0)
        return;
    bool tried = d->last != d->way;
    if (*other < 0.95 * *now) {
        d->way = !d->way;
        d->gap = SOON;
    } else if (tried) {
        d->gap = d->gap < SOON ? SOON : d->gap < LATE ? 2 * d->gap : LATE;
    } else {
        return;
    }
    d->next = d->ran + d->gap;
}

static bool defers_now(const cr_py_deferral *d)
{
    if (d->failed || d->strict)
        return true;
    if (d->ran < FIRST + 2)
        return d->ran != FIRST;
    return d->ran == d->next ? !d->way : d->way;
}

static void open_next(cr_py_deferral *d, bool way, double took)
{
    d->open = d->ran++ >= FIRST;
    d->last = way;
    d->took = took;
    d->thread = &calls;
    d->mark = cr_defer_clock();
}

/* --- a call --- */
static bool items_go_back(PyObject *x);

/* Whether a backward pass from the object is possible, when the call made nodes. */
static bool may_go_back(PyObject *x)
{
    if (cr_py_is_tensor(x))
        return cr_py_tensor_of(x)->requires_grad;
    if (x == Py_None || PyLong_Check(x) || PyFloat_Check(x) || PyUnicode_Check(x))
        return false;
    return !(PyList_CheckExact(x) || PyTuple_CheckExact(x) || PyDict_CheckExact(x)) ||
           items_go_back(x);
}

static bool items_go_back(PyObject *x)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    if (PyDict_CheckExact(x)) {
        while (PyDict_Next(x, &at, &key, &value))
            if (may_go_back(value))
                return true;
        return false;
    }
    for (Py_ssize_t i = 0; i < Py_SIZE(x); i++)
        if (may_go_back(PyList_CheckExact(x) ? PyList_GET_ITEM(x, i) : PyTuple_GET_ITEM(x, i)))
            return true;
    return false;
}

/* Ends a region.  An exception of the function stays. */
static PyObject *region_end(PyObject *out, uint64_t nodes)
{
    PyObject *type, *value, *trace;

    cr_defer_end();
    cr_defer_backward =
        out && nodes != cr_node_next_sequence() && !cr_thread.no_grad && may_go_back(out);
    if (cr_defer_backward)
        return out;
    PyErr_Fetch(&type, &value, &trace);
    cr_status st = cr_defer_flush("the end of a compiled function");
    PyErr_Restore(type, value, trace);
    if (!st || !out)
        return out;
    Py_DECREF(out);
    return cr_py_raise(st);
}

/* Reports the flushes inside of a call; the report may raise. */
static PyObject *tell_flushes(cr_py_deferral *d, const cr_py_flushes *f, PyObject *out)
{
    PyObject *list, *said;

    d->broken += f->count > 0;
    if (!out || !f->count || !d->flushed)
        return out;
    list = cr_py_flushes_list(f);
    said = list ? PyObject_CallOneArg(d->flushed, list) : NULL;
    Py_XDECREF(list);
    if (!said) {
        d->failed = true;
        Py_CLEAR(out);
    }
    Py_XDECREF(said);
    return out;
}

static PyObject *call_watched(cr_py_deferral *d, PyObject *f, PyObject *const *args,
                              size_t flagged, PyObject *names)
{
    cr_py_flushes flushes;

    cr_py_flushes_begin(&flushes);
    PyObject *out = PyObject_Vectorcall(f, args, flagged, names);
    cr_py_flushes_end(&flushes);
    out = tell_flushes(d, &flushes, out);
    cr_py_flushes_drop(&flushes);
    return out;
}

static PyObject *call_in_region(cr_py_deferral *d, PyObject *f, PyObject *const *args,
                                size_t flagged, PyObject *names)
{
    uint64_t nodes = cr_node_next_sequence();
    cr_status st = cr_defer_begin();

    if (st)
        return cr_py_raise(st);
    cr_defer_programs_are(d->how);
    return region_end(call_watched(d, f, args, flagged, names), nodes);
}

static PyObject *call_measured(cr_py_deferral *d, PyObject *f, PyObject *const *args,
                               size_t flagged, PyObject *names)
{
    if (cr_defer_in_region()) {
        d->deferred++;
        return call_watched(d, f, args, flagged, names);
    }
    cr_status st = cr_defer_flush("the next call of a compiled function");
    if (st)
        return cr_py_raise(st);
    cr_defer_backward = false;
    close_last(d);
    bool way = defers_now(d);
    double start = cr_seconds();
    d->deferred += way;
    PyObject *out = way ? call_in_region(d, f, args, flagged, names)
                        : PyObject_Vectorcall(f, args, flagged, names);
    open_next(d, way, cr_seconds() - start);
    return out;
}

bool cr_py_in_deferred_call(void) { return calls > 0; }

PyObject *cr_py_deferred_call(cr_py_deferral *d, PyObject *f, PyObject *const *args,
                              size_t flagged, PyObject *names)
{
    if (d->at_once)
        return PyObject_Vectorcall(f, args, flagged, names);
    calls++;
    PyObject *out = call_measured(d, f, args, flagged, names);
    calls--;
    return out;
}

PyObject *cr_py_watched_call(cr_py_deferral *d, PyObject *f, PyObject *const *args,
                             size_t flagged, PyObject *names)
{
    calls++;
    PyObject *out = cr_defer_in_region() ? call_watched(d, f, args, flagged, names)
                                         : call_in_region(d, f, args, flagged, names);
    calls--;
    return out;
}
