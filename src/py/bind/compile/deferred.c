/* Calls of compiled functions: the way that each one runs.  Without a recording its operators
 * are deferred, or run at once; with one its program runs, or the plain function.
 *
 * The first calls are compiled, and get their programs; then each way is measured.  The slower
 * one is tried again after SOON calls, later after twice as many, and never so soon that tries
 * take more than a hundredth of the time.  Calls just before a try are measured, too. */
#include "py/bind/compile/deferred.h"
#include "autograd/autograd.h"
#include "base/clock.h"
#include "base/log.h"
#include "tensor/defer.h"
#include "tensor/profile.h"
#include <math.h>

enum { FIRST = 4, SOON = 16, LATE = 1024, BEFORE = 4, TUNED = 1024 };
static CR_THREAD int calls;  /* of compiled functions that the thread is in */
static CR_THREAD int strict; /* of these, the ones that are one graph */

/* --- the faster way --- */
/* The least time of late: other work on the machine makes single calls much slower. */
static void note_time(double *least, double took)
{
    double most = 1.1 * *least;

    *least = *least <= 0 || took < most ? took : most;
}

/* The time of the last call is known when the next one begins.  A call of another thread is
 * left out, because each thread has a clock. */
static void close_last(cr_py_deferral *d)
{
    cr_py_timing *t = d->now;
    double since = cr_defer_clock() - d->mark;
    bool known = d->open && d->thread == &calls;

    d->open = false;
    if (!known)
        return;
    note_time(&t->seconds[d->last], d->took + (since > 0 ? since : 0));
    double now = t->seconds[t->way], other = t->seconds[!t->way];
    if (now <= 0 || other <= 0)
        return;
    if (other < 0.95 * now) {
        t->way = !t->way;
        t->gap = SOON;
        t->next = t->ran + t->gap;
        cr_log_line("graph", 2, "calls run %s: compiled %.1f us, plain %.1f us",
                    t->way ? "compiled" : "plain", 1e6 * t->seconds[1], 1e6 * t->seconds[0]);
    } else if (d->last != t->way && t->ran + 100 * other / now > t->next) {
        t->next = t->ran + (unsigned)fmin(100 * other / now, 1e9);
    }
}

/* The way of the next call.  Another try is planned before the outcome of this one is known,
 * which may be never. */
static bool way_now(cr_py_timing *t)
{
    bool first = t->seconds[!t->way] <= 0;

    if (first ? t->seconds[t->way] <= 0 || t->ran < t->next : t->ran != t->next)
        return t->way;
    t->gap = t->gap < SOON ? SOON : t->gap < LATE ? 2 * t->gap : LATE;
    t->next = t->ran + t->gap;
    return !t->way;
}

static bool is_measured(const cr_py_timing *t, bool way)
{
    return way != t->way || t->seconds[!t->way] <= 0 || t->ran + BEFORE >= t->next;
}

static bool defers_now(const cr_py_deferral *d, cr_py_timing *t)
{
    return d->failed || d->strict || d->ran < FIRST || way_now(t);
}

/* After a call, which may have called the function itself: backward passes and flushes follow.
 */
static void open_next(cr_py_deferral *d, cr_py_timing *t, bool way, double took)
{
    d->now = t;
    d->open = took > 0;
    d->last = way;
    d->took = took;
    d->thread = &calls;
    d->mark = cr_defer_clock();
}

/* --- sizes --- */

static uint64_t add_sizes(uint64_t hash, PyObject *x)
{
    if (cr_py_is_tensor(x)) {
        const cr_tensor *t = cr_py_tensor_of(x);
        for (int d = 0; d < t->ndim; d++)
            hash = (hash ^ (uint64_t)t->size[d]) * 0x9E3779B97F4A7C15u;
        return (hash ^ t->ndim) * 0x9E3779B97F4A7C15u;
    }
    if (PyList_CheckExact(x) || PyTuple_CheckExact(x))
        for (Py_ssize_t i = 0; i < Py_SIZE(x); i++) {
            PyObject *item =
                PyList_CheckExact(x) ? PyList_GET_ITEM(x, i) : PyTuple_GET_ITEM(x, i);
            hash = cr_py_is_tensor(item) ? add_sizes(hash, item) : hash;
        }
    return hash;
}

/* The measurements for what the hash is of.  One that takes the place of another begins with
 * the way given. */
static cr_py_timing *timing_at(cr_py_deferral *d, uint64_t hash, bool way)
{
    cr_py_timing *t = &d->timing[hash >> 32 & (CR_PY_TIMINGS - 1)];

    if (t->of != hash) {
        d->open = d->open && d->now != t;
        *t = (cr_py_timing){.of = hash, .way = way};
    }
    return t;
}

/* Those for the sizes of the arguments begin with the way of the last call. */
static cr_py_timing *timing_of(cr_py_deferral *d, PyObject *const *args, Py_ssize_t count)
{
    uint64_t hash = 0;

    for (Py_ssize_t i = 0; i < count; i++)
        hash = add_sizes(hash, args[i]);
    return timing_at(d, hash, d->now && d->now->way);
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

/* A recorded call would hold all that the trace holds of its backward pass. */
cr_status cr_py_deferral_closes(void)
{
    if (cr_defer_in_region())
        return CR_OK;
    cr_defer_backward = false;
    return cr_defer_pending() ? cr_defer_flush("the next call of a compiled function") : CR_OK;
}

/* Elements of a function of one graph are not read in it.  In a region of the program its
 * arguments may wait, too; they get their elements, so that the function is refused in a region
 * only if it is refused outside. */
static cr_status run_earlier_calls(const cr_py_deferral *d)
{
    if (!d->strict || calls > 1 || !cr_defer_in_region() || !cr_defer_pending())
        return CR_OK;
    return cr_defer_flush("the call of a function of one graph");
}

static PyObject *call_measured(cr_py_deferral *d, PyObject *f, PyObject *const *args,
                               size_t flagged, PyObject *names)
{
    if (cr_defer_in_region()) {
        d->deferred++;
        return call_watched(d, f, args, flagged, names);
    }
    cr_status st = cr_py_deferral_closes();
    if (st)
        return cr_py_raise(st);
    close_last(d);
    Py_ssize_t count = PyVectorcall_NARGS(flagged) + (names ? PyTuple_GET_SIZE(names) : 0);
    cr_py_timing *t = timing_of(d, args, count);
    bool way = defers_now(d, t), measured = d->ran++ >= FIRST && is_measured(t, way);
    double start = cr_seconds();
    t->ran++;
    d->deferred += way;
    PyObject *out = way ? call_in_region(d, f, args, flagged, names)
                        : PyObject_Vectorcall(f, args, flagged, names);
    open_next(d, t, way, measured ? cr_seconds() - start : 0);
    return out;
}

/* --- recorded calls --- */

/* Whether a program has its native code and the faster way of each group; a group that only
 * some calls reach is waited for until call TUNED. */
static bool is_ready(const cr_program *p, unsigned ran)
{
    return !p || (cr_program_wait(p, 0) == cr_program_groups(p) &&
                  (ran >= TUNED || cr_program_is_tuned(p)));
}

/* Kernels of a device run beside the host, whose clock does not tell their time. */
static bool is_for_host(const cr_program *p)
{
    bool host = p;

    for (int i = 0; host && i < cr_program_inputs(p); i++)
        host = cr_is_host(cr_program_input_type(p, i)->device);
    return host;
}

/* Whether calls of the program are measured: when it is ready, which each eighth call asks,
 * because that looks at every kernel. */
static bool may_measure(cr_py_timing *t, const cr_compiled_call *c)
{
    const cr_program *p = cr_compiled_call_forward(c);

    if (!t->ready && t->ran % 8 == 7 && is_for_host(p) && is_ready(p, t->ran) &&
        is_ready(cr_compiled_call_backward(c), t->ran)) {
        t->ready = true;
        t->next = t->ran + BEFORE;
    }
    return t->ready;
}

PyObject *cr_py_recorded_call(cr_py_deferral *d, const cr_compiled_call *c,
                              PyObject *(*program)(void *), PyObject *(*plain)(void *),
                              void *call)
{
    /* Programs with CR_HOW_FAST have other last bits than the plain function; a profile takes
     * time for each event. */
    if (d->at_once || d->how & CR_HOW_FAST || cr_defer_in_region() || cr_profiling())
        return program(call);
    close_last(d);
    cr_py_timing *t = timing_at(d, (uint64_t)(uintptr_t)c * 0x9E3779B97F4A7C15u | 1, true);
    bool may = may_measure(t, c), way = !may || way_now(t),
         measured = may && is_measured(t, way);
    double start = measured ? cr_seconds() : 0;
    t->ran++;
    PyObject *out = (way ? program : plain)(call);
    open_next(d, t, way, measured ? cr_seconds() - start : 0);
    return out;
}

PyObject *cr_py_plain_call(PyObject *f, PyObject *const *args, size_t flagged, PyObject *names)
{
    calls++;
    PyObject *out = PyObject_Vectorcall(f, args, flagged, names);
    calls--;
    return out;
}

bool cr_py_in_deferred_call(void) { return calls > 0; }
bool cr_py_in_strict_call(void) { return strict > 0; }

PyObject *cr_py_deferred_call(cr_py_deferral *d, PyObject *f, PyObject *const *args,
                              size_t flagged, PyObject *names)
{
    if (d->at_once)
        return PyObject_Vectorcall(f, args, flagged, names);
    calls++;
    strict += d->strict;
    cr_status st = run_earlier_calls(d);
    PyObject *out = st ? cr_py_raise(st) : call_measured(d, f, args, flagged, names);
    strict -= d->strict;
    calls--;
    return out;
}

PyObject *cr_py_watched_call(cr_py_deferral *d, PyObject *f, PyObject *const *args,
                             size_t flagged, PyObject *names)
{
    calls++;
    strict += d->strict;
    cr_status st = run_earlier_calls(d);
    PyObject *out = st                     ? cr_py_raise(st)
                    : cr_defer_in_region() ? call_watched(d, f, args, flagged, names)
                                           : call_in_region(d, f, args, flagged, names);
    strict -= d->strict;
    calls--;
    return out;
}
