/* Deferred calls: regions, flushes, and the report of each flush.
 *
 *     _C._defer(True) starts a region of the thread, _C._defer(False) ends it
 *     _C._defer_flush(why), _C._defer_pending(), _C._defer_counts() */
#include "tensor/defer.h"
#include "base/env.h"
#include "base/log.h"
#include "compile/compile.h"
#include "graph/graph.h"
#include "py/bind/bind.h"
#include "py/bind/compile/deferred.h"
#include "py/bind/compile/where.h"
#include <stdio.h>
#include <string.h>

#define CR_READ(name, text, part) [CR_READ_##name] = text,
static const char *const read_text[] = {
#include "py/bind/reads.def"
};
#undef CR_READ
#define CR_READ(name, text, part) [CR_READ_##name] = CR_PY_PART_##part,
static const cr_py_part read_part[] = {
#include "py/bind/reads.def"
};
#undef CR_READ
/* While a recorder is told of a read, under the interpreter's lock. */
static cr_py_part part_read;

void cr_py_note_read(const cr_tensor *t, cr_py_read by)
{
    char why[256];

    cr_defer_reason = read_text[by];
    if (CR_LIKELY(!cr_recorder_active()) || t->number)
        return;
    snprintf(why, sizeof why,
             "the value of a tensor is read (%s); what the program does next may depend on it",
             read_text[by]);
    part_read = read_part[by];
    cr_recorder_refuse(why);
    part_read = CR_PY_PART_BREAK;
}

void cr_py_refuse_held(const char *why)
{
    part_read = CR_PY_PART_HELD;
    cr_recorder_refuse(why);
    part_read = CR_PY_PART_BREAK;
}

cr_py_part cr_py_part_read(void) { return part_read; }

void cr_py_note_outside(void) { cr_recorder_refuse(read_text[CR_READ_RANKS]); }

/* What one graph can have of a value that made deferred calls run. */
static cr_py_part part_of(const char *why, const cr_op *op)
{
    if (op)
        return op->words & CR_WORD_SIZED_BY_VALUES ? CR_PY_PART_SIZE : CR_PY_PART_BREAK;
    for (size_t i = 0; i < CR_LEN(read_text); i++)
        if (read_text[i] == why)
            return read_part[i];
    return CR_PY_PART_BREAK;
}

const char *cr_py_part_name(cr_py_part part)
{
    static const char *const name[] = {NULL, "value", "truth", "size", "held"};

    return name[part];
}

/* --- the report --- */
enum { KEPT = 1000 };
static CR_THREAD cr_py_flush *events; /* while _C._defer_watch is on */
static CR_THREAD int event_count;
static CR_THREAD cr_py_flushes *watching;
static CR_THREAD bool breaks_are_errors;
static PyObject *package; /* the library's folder, whose frames are not the program's */

static void flush_keep(cr_py_flush *to, const cr_py_flush *e)
{
    *to = *e;
    Py_XINCREF((PyObject *)to->code);
    Py_INCREF(to->why);
}

/* Flushes by calls leave two places to those that the program wanted, these one to an error. */
static void flushes_add(cr_py_flushes *to, const cr_py_flush *e)
{
    int left_free = e->by_call ? 2 : !e->error;

    if (to->count < CR_PY_FLUSHES - left_free)
        flush_keep(&to->flush[to->count++], e);
}

static void flush_drop(cr_py_flush *e)
{
    Py_XDECREF((PyObject *)e->code);
    Py_XDECREF(e->why);
}

/* The instruction that the thread's program is at; a new reference. */
static void find_where(cr_py_flush *e)
{
    if (!package && !(package = cr_py_package_folder()))
        PyErr_Clear();
    PyFrameObject *f = package ? cr_py_user_frame(package) : NULL;
    if (!f)
        return;
    e->code = PyFrame_GetCode(f);
    e->at = PyFrame_GetLasti(f) / 2;
    e->line = PyFrame_GetLineNumber(f);
    Py_DECREF(f);
}

/* Without code the thread may not hold the interpreter lock. */
static const char *file_of(const cr_py_flush *e)
{
    const char *file;

    if (!e->code)
        return "?";
    file = PyUnicode_AsUTF8(e->code->co_filename);
    if (!file)
        PyErr_Clear();
    return file ? file : "?";
}

/* Appends the text of the line, without the spaces around it. */
static void put_source(cr_text *out, const cr_py_flush *e)
{
    char line[512] = "";
    FILE *file = fopen(file_of(e), "re");

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

static void log_flush(const cr_py_flush *e, const char *why)
{
    cr_text source = {0};

    if (!cr_log_wants("capture", 1))
        return;
    put_source(&source, e);
    cr_log_line("capture", 1, "flush of %zu calls at %s:%d: %s (for %s)", e->calls, file_of(e),
                e->line, cr_text_str(&source), why);
    cr_text_drop(&source);
}

static void keep_flush(cr_py_flush *e, const char *why)
{
    e->why = PyUnicode_FromString(why);
    if (!e->why)
        PyErr_Clear();
    else if (events && event_count < KEPT)
        flush_keep(&events[event_count++], e);
    if (e->why && watching && why != cr_defer_full)
        flushes_add(watching, e);
}

static void defer_report(size_t count, const char *why, const cr_op *op)
{
    PyObject *type, *value, *trace;
    bool by_call = op ? !(op->words & CR_WORD_SIZED_BY_VALUES)
                      : why == read_text[CR_READ_RANKS] || why == cr_defer_written;
    cr_py_flush e = {.calls = count,
                     .error = breaks_are_errors,
                     .by_call = by_call,
                     .part = part_of(why, op)};

    if (!events && !watching && !cr_log_wants("capture", 1))
        return;
    if (!PyGILState_Check()) {
        log_flush(&e, why);
        return;
    }
    PyErr_Fetch(&type, &value, &trace);
    find_where(&e);
    log_flush(&e, why);
    keep_flush(&e, why);
    flush_drop(&e);
    PyErr_Restore(type, value, trace);
}

int cr_py_defer_break(PyObject *why)
{
    const char *text = PyUnicode_AsUTF8(why);
    int before = watching ? watching->count : 0;

    if (!text)
        return -1;
    if (!cr_py_in_deferred_call())
        return 0;
    cr_status st = cr_defer_flush(text);
    if (watching && watching->count == before)
        defer_report(0, text, NULL);
    return st ? cr_py_raise_int(st) : 0;
}

void cr_py_flushes_begin(cr_py_flushes *f)
{
    f->count = 0;
    f->outer = watching;
    watching = f;
}

/* The flushes of an inner call count for the outer call, too. */
void cr_py_flushes_end(cr_py_flushes *f)
{
    watching = f->outer;
    for (int i = 0; watching && i < f->count; i++)
        flushes_add(watching, &f->flush[i]);
}

void cr_py_flushes_drop(cr_py_flushes *f)
{
    for (int i = 0; i < f->count; i++)
        flush_drop(&f->flush[i]);
}

PyObject *cr_py_flushes_list(const cr_py_flushes *f)
{
    PyObject *list = PyList_New(f->count);

    for (int i = 0; list && i < f->count; i++) {
        const cr_py_flush *e = &f->flush[i];
        cr_py_put_item(&list, i,
                       Py_BuildValue("(nOOiOOz)", (Py_ssize_t)e->calls, e->why,
                                     e->code ? (PyObject *)e->code : Py_None, e->at,
                                     e->by_call ? Py_True : Py_False,
                                     e->error ? Py_True : Py_False, cr_py_part_name(e->part)));
    }
    return list;
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
    return cr_py_done(cr_defer_begin());
}

static PyObject *defer_flush(PyObject *m, PyObject *why)
{
    const char *text = PyUnicode_AsUTF8(why);

    (void)m;
    if (!text)
        return NULL;
    return cr_py_done(cr_defer_flush(text));
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
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "noted", (long long)c.noted,
                         "known", (long long)c.known, "ran", (long long)c.ran, "dead",
                         (long long)c.dead, "now", (long long)c.now, "flushes",
                         (long long)c.flushes, "programs", (long long)c.programs, "found",
                         (long long)c.found, "bytes", (long long)c.bytes);
}

static PyObject *events_list(void)
{
    PyObject *list = PyList_New(0);

    for (int i = 0; list && i < event_count; i++) {
        const cr_py_flush *e = &events[i];
        cr_text source = {0};
        put_source(&source, e);
        PyObject *one = Py_BuildValue("(nOsis)", (Py_ssize_t)e->calls, e->why, file_of(e),
                                      e->line, cr_text_str(&source));
        cr_text_drop(&source);
        cr_py_append(&list, one);
    }
    return list;
}

static void events_clear(void)
{
    while (event_count)
        flush_drop(&events[--event_count]);
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
        events_clear();
        Py_RETURN_NONE;
    }
    PyObject *list = events_list();
    events_clear();
    cr_free(events);
    events = NULL;
    return list;
}

/* _defer_breaks_are_errors(on) -> the earlier value, of the thread. */
static PyObject *defer_breaks_are_errors(PyObject *m, PyObject *on)
{
    bool before = breaks_are_errors;
    int yes = PyObject_IsTrue(on);

    (void)m;
    if (yes < 0)
        return NULL;
    breaks_are_errors = yes;
    return PyBool_FromLong(before);
}

static PyObject *defer_flushed_apart(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyLong_FromUnsignedLongLong(cr_defer_flushed_apart());
}

static PyMethodDef functions[] = {
    {"_defer", defer_switch, METH_O, "Starts or ends a region of deferred calls."},
    {"_truth", cr_py_truth_of_check, METH_O, NULL},
    {"_defer_flush", defer_flush, METH_O, "Runs the thread's deferred calls; says why."},
    {"_defer_pending", defer_pending, METH_NOARGS,
     "The number of the thread's deferred calls."},
    {"_defer_in_region", defer_in_region, METH_NOARGS, "Whether calls are deferred."},
    {"_defer_flushed_apart", defer_flushed_apart, METH_NOARGS,
     "How often other threads ran the thread's deferred calls."},
    {"_defer_counts", defer_counts, METH_NOARGS, "The thread's counts since the last call."},
    {"_defer_watch", defer_watch, METH_O, "Keeps the thread's flushes, or returns them."},
    {"_defer_breaks_are_errors", defer_breaks_are_errors, METH_O,
     "Whether a flush inside of a deferred call is an error."},
    {NULL, NULL, 0, NULL},
};

int cr_py_defer_start(PyObject *m)
{
    cr_defer_set_report(defer_report);
    cr_defer_use_programs(cr_env_int(CR_ENV_CR_DEFER) == 2);
    cr_scripted_start();
    if (cr_env_int(CR_ENV_CR_LAZY) || cr_env_int(CR_ENV_CR_DEFER))
        cr_defer_everywhere();
    return PyModule_AddFunctions(m, functions);
}
