/* Deferred calls: regions, flushes, and the report of each flush.
 *
 *     _C._defer(True) starts a region of the thread, _C._defer(False) ends it
 *     _C._defer_flush(why), _C._defer_pending(), _C._defer_counts() */
#include "tensor/defer.h"
#include "base/env.h"
#include "base/log.h"
#include "compile/compile.h"
#include "py/bind/bind.h"
#include <stdio.h>

/* --- the report --- */
typedef struct {
    size_t calls;
    const char *why;
    char where[256];
    int line;
} flush_event;

enum { KEPT = 1000 };
static CR_THREAD flush_event *events; /* while _C._defer_watch is on */
static CR_THREAD size_t event_count;

/* The file and line that the thread's program is at. */
static void find_where(flush_event *e)
{
    PyFrameObject *f = PyGILState_Check() ? PyThreadState_GetFrame(PyThreadState_Get()) : NULL;

    snprintf(e->where, sizeof e->where, "?");
    if (!f)
        return;
    PyCodeObject *code = PyFrame_GetCode(f);
    e->line = PyFrame_GetLineNumber(f);
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    snprintf(e->where, sizeof e->where, "%s", file ? file : "?");
    Py_DECREF(code);
    Py_DECREF(f);
}

/* Appends the text of the line, without the spaces around it. */
static void put_source(cr_text *out, const flush_event *e)
{
    char line[512] = "";
    FILE *file = fopen(e->where, "re");

    for (int i = 0; file && i < e->line && fgets(line, sizeof line, file);)
        i += strchr(line, '\n') != NULL || feof(file);
    if (file)
        fclose(file);
    size_t start = strspn(line, " \t"), n = strlen(line);
    while (n > start && strchr(" \t\r\n", line[n - 1]))
        n--;
    if (n > start)
        cr_text_put_n(out, line + start, n - start);
}

static void defer_report(size_t calls, const char *why)
{
    if (!events && !cr_log_wants("capture", 1))
        return;
    PyObject *type, *value, *trace;
    flush_event e = {.calls = calls, .why = why};
    cr_text source = {0};
    if (PyGILState_Check())
        PyErr_Fetch(&type, &value, &trace);
    find_where(&e);
    if (PyGILState_Check())
        PyErr_Restore(type, value, trace);
    put_source(&source, &e);
    cr_log_line("capture", 1, "flush of %zu calls at %s:%d: %s (for %s)", calls, e.where,
                e.line, cr_text_str(&source), why);
    cr_text_drop(&source);
    if (events && event_count < KEPT)
        events[event_count++] = e;
}

/* --- Python's functions --- */
static PyObject *defer_switch(PyObject *m, PyObject *on)
{
    int yes = PyObject_IsTrue(on);

    (void)m;
    if (yes < 0)
        return NULL;
    if (!yes) {
        cr_defer_end();
        Py_RETURN_NONE;
    }
    cr_status st = cr_defer_begin();
    if (st)
        return cr_py_raise(st);
    Py_RETURN_NONE;
}

static PyObject *defer_flush(PyObject *m, PyObject *why)
{
    const char *text = PyUnicode_AsUTF8(why);

    (void)m;
    if (!text)
        return NULL;
    cr_status st = cr_defer_flush(text);
    if (st)
        return cr_py_raise(st);
    Py_RETURN_NONE;
}

static PyObject *defer_pending(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyLong_FromSize_t(cr_defer_pending());
}

static PyObject *defer_in_region(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(cr_defer_in_region());
}

static PyObject *defer_counts(PyObject *m, PyObject *unused)
{
    cr_defer_counts c = cr_defer_take_counts();

    (void)m;
    (void)unused;
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L}", "noted", (long long)c.noted, "ran",
                         (long long)c.ran, "dead", (long long)c.dead, "now", (long long)c.now,
                         "flushes", (long long)c.flushes, "programs", (long long)c.programs);
}

static PyObject *events_list(void)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < event_count; i++) {
        const flush_event *e = &events[i];
        cr_text source = {0};
        put_source(&source, e);
        PyObject *one = Py_BuildValue("(nssis)", (Py_ssize_t)e->calls, e->why, e->where,
                                      e->line, cr_text_str(&source));
        cr_text_drop(&source);
        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

/* _defer_watch(True) keeps the thread's flushes from now on; _defer_watch(False) returns them
 * as (calls, needed value, file, line, source text). */
static PyObject *defer_watch(PyObject *m, PyObject *on)
{
    int yes = PyObject_IsTrue(on);

    (void)m;
    if (yes < 0)
        return NULL;
    if (yes) {
        if (!events && !(events = cr_alloc(KEPT * sizeof *events)))
            return PyErr_NoMemory();
        event_count = 0;
        Py_RETURN_NONE;
    }
    PyObject *list = events_list();
    cr_free(events);
    events = NULL;
    event_count = 0;
    return list;
}

static PyMethodDef functions[] = {
    {"_defer", defer_switch, METH_O, "Starts or ends a region of deferred calls."},
    {"_defer_flush", defer_flush, METH_O, "Runs the thread's deferred calls; says why."},
    {"_defer_pending", defer_pending, METH_NOARGS,
     "The number of the thread's deferred calls."},
    {"_defer_in_region", defer_in_region, METH_NOARGS, "Whether calls are deferred."},
    {"_defer_counts", defer_counts, METH_NOARGS, "The thread's counts since the last call."},
    {"_defer_watch", defer_watch, METH_O, "Keeps the thread's flushes, or returns them."},
    {NULL, NULL, 0, NULL},
};

int cr_py_defer_start(PyObject *m)
{
    cr_defer_set_report(defer_report);
    cr_defer_use_programs(cr_env_int(CR_ENV_CR_DEFER) == 2);
    if (cr_env_int(CR_ENV_CR_LAZY) || cr_env_int(CR_ENV_CR_DEFER))
        cr_defer_everywhere();
    return PyModule_AddFunctions(m, functions);
}
