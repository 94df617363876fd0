/* Counters of the kernel compiler, for tests and measurements. */
#include "jit/jit.h"
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

/* _jit_pending() -> number of requested kernels that are neither loaded nor failed. */
static PyObject *jit_pending(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyLong_FromLongLong(cr_jit_count().waiting);
}

/* _jit_wait(seconds) -> the same number, after waiting. */
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

static PyMethodDef functions[] = {{"_jit_counts", jit_counts, METH_NOARGS, NULL},
                                  {"_jit_pending", jit_pending, METH_NOARGS, NULL},
                                  {"_jit_wait", jit_wait, METH_O, NULL},
                                  {0}};

int cr_py_jit_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
