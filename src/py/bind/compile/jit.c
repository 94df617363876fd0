/* Counters of the kernel compiler, for tests and measurements, and its folder on disk. */
#include "jit/jit.h"
#include "jit/cache.h"
#include "py/bind/bind.h"

/* _jit_counts() -> dict of counters of this process. */
static PyObject *jit_counts(PyObject *m, PyObject *unused)
{
    cr_jit_counts c = cr_jit_count();

    (void)m;
    (void)unused;
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L}", "requested", (long long)c.requested,
                         "compiled", (long long)c.compiled, "from_memory",
                         (long long)c.from_memory, "from_disk", (long long)c.from_disk,
                         "failed", (long long)c.failed, "waiting", (long long)c.waiting);
}

/* _jit_wait(seconds) -> number of requested kernels that are neither loaded nor failed, after
 * waiting. */
static PyObject *jit_wait(PyObject *m, PyObject *seconds)
{
    double limit = PyFloat_AsDouble(seconds);
    int64_t left;

    (void)m;
    if (limit == -1 && PyErr_Occurred())
        return NULL;
    CR_PY_UNLOCKED(left = cr_jit_wait_all(limit));
    return PyLong_FromLongLong(left);
}

/* _cache_folder() -> path of the folder of compiled kernels. */
static PyObject *jit_cache_folder(PyObject *m, PyObject *unused)
{
    cr_text path = {0};
    PyObject *out;

    (void)m;
    (void)unused;
    cr_status st = cr_cache_path(&path);
    out = st ? cr_py_raise(st) : PyUnicode_DecodeFSDefault(path.at);
    cr_text_drop(&path);
    return out;
}

/* _cache_measure(clear) -> (files, bytes) of the folder; with `clear` they are removed. */
static PyObject *jit_cache_measure(PyObject *m, PyObject *clear)
{
    int yes = PyObject_IsTrue(clear);
    cr_cache_size size;

    (void)m;
    if (yes < 0)
        return NULL;
    CR_PY_UNLOCKED(size = cr_cache_measure(yes));
    return Py_BuildValue("LL", (long long)size.files, (long long)size.bytes);
}

/* _cache_turn_off(off): kernels are neither read from the folder nor kept there. */
static PyObject *jit_cache_turn_off(PyObject *m, PyObject *off)
{
    int yes = PyObject_IsTrue(off);

    (void)m;
    if (yes < 0)
        return NULL;
    cr_cache_turn_off(yes);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"_cache_turn_off", jit_cache_turn_off, METH_O, NULL},
                                  {"_jit_counts", jit_counts, METH_NOARGS, NULL},
                                  {"_jit_wait", jit_wait, METH_O, NULL},
                                  {"_cache_folder", jit_cache_folder, METH_NOARGS, NULL},
                                  {"_cache_measure", jit_cache_measure, METH_O, NULL},
                                  {0}};

int cr_py_jit_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
