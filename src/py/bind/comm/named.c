/* Groups of Python by name, and the calls of groups that are classes of a program, for calls
 * between ranks that are operators.
 *
 * distributed/_functional_collectives.py gives two functions: find(name, device) returns
 * (a _CommGroup or None, rank); start(kind, reduction, root, name, calls) starts calls, each
 * (input or None, output, rows for each rank or None, rows of each rank or None), and returns
 * a work. */
#include "py/bind/comm/comm.h"
#include "whole/collective.h"

static PyObject *named_find, *named_start;

/* Without the functions no group has a name. */
static cr_status named_missing(const char *name)
{
    return cr_fail(CR_RUNTIME,
                   "Could not resolve the process group registered under the name %s", name);
}

static cr_status named_read(cr_comm_found *out, PyObject *found)
{
    PyObject *handle;
    cr_comm *g = NULL;
    int rank;

    if (!found || !PyArg_ParseTuple(found, "Oi", &handle, &rank))
        return CR_PYTHON;
    if (handle != Py_None && !(g = cr_py_comm_of(handle)))
        return CR_PYTHON;
    *out = (cr_comm_found){g ? cr_comm_keep(g) : NULL, rank};
    return CR_OK;
}

static cr_status named_host_find(cr_comm_found *out, const char *name, cr_device_kind kind)
{
    PyGILState_STATE locked = PyGILState_Ensure();
    PyObject *found =
        named_find ? PyObject_CallFunction(named_find, "ss", name, cr_device_kind_name(kind))
                   : NULL;
    cr_status st = named_find ? named_read(out, found) : named_missing(name);

    Py_XDECREF(found);
    PyGILState_Release(locked);
    return st;
}

static void named_host_where(char *out, size_t size)
{
    PyGILState_STATE locked = PyGILState_Ensure();

    cr_py_comm_where(out, size);
    PyGILState_Release(locked);
}

static cr_status named_host_wait(cr_status (*call)(void *context), void *context)
{
    cr_status st;

    if (!PyGILState_Check())
        return call(context);
    CR_PY_AWAITING(st, call(context));
    return st;
}

/* --- classes of programs --- */

static PyObject *named_rows(const int64_t *rows, int n)
{
    PyObject *list = rows ? PyList_New(n) : Py_NewRef(Py_None);

    for (int i = 0; rows && list && i < n; i++)
        cr_py_put_item(&list, i, PyLong_FromLongLong(rows[i]));
    return list;
}

static PyObject *named_calls(const cr_collective *c, int n)
{
    PyObject *list = PyList_New(n);

    for (int i = 0; list && i < n; i++)
        cr_py_put_item(&list, i,
                       Py_BuildValue("(NNNN)", cr_py_wrap_keep(c[i].in),
                                     cr_py_wrap_keep(c[i].out),
                                     named_rows(c[i].in_rows, c[i].in_parts),
                                     named_rows(c[i].out_rows, c[i].out_parts)));
    return list;
}

static cr_status named_class_start(void **work, const char *group, const cr_collective *c,
                                   int n)
{
    PyGILState_STATE locked = PyGILState_Ensure();
    PyObject *calls = named_calls(c, n);
    PyObject *made =
        calls ? PyObject_CallFunction(named_start, "szLsO", cr_call_kind_name(c->kind),
                                      c->reduce, (long long)c->root, group, calls)
              : NULL;

    Py_XDECREF(calls);
    if (made == Py_None)
        Py_CLEAR(made);
    *work = made;
    cr_status st = PyErr_Occurred() ? CR_PYTHON : CR_OK;
    PyGILState_Release(locked);
    return st;
}

static cr_status named_class_wait(void *work)
{
    PyGILState_STATE locked = PyGILState_Ensure();
    PyObject *r = PyObject_CallMethod(work, "wait", NULL);
    cr_status st = r ? CR_OK : CR_PYTHON;

    Py_XDECREF(r);
    PyGILState_Release(locked);
    return st;
}

static void named_class_drop(void *work)
{
    PyGILState_STATE locked = PyGILState_Ensure();

    Py_DECREF((PyObject *)work);
    PyGILState_Release(locked);
}

/* --- functions --- */

/* _collective_set(find, start) */
static PyObject *named_set(PyObject *m, PyObject *args)
{
    PyObject *find, *start;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO", &find, &start))
        return NULL;
    Py_XSETREF(named_find, Py_NewRef(find));
    Py_XSETREF(named_start, Py_NewRef(start));
    Py_RETURN_NONE;
}

/* _collective_waited(x) -> x: waits for the call that makes the elements of a tensor */
static PyObject *named_waited(PyObject *m, PyObject *x)
{
    cr_status st = CR_OK;

    (void)m;
    if (cr_py_is_tensor(x)) {
        cr_py_note_outside();
        st = cr_collective_wait(cr_py_tensor_of(x));
    }
    return st ? cr_py_raise(st) : Py_NewRef(x);
}

/* _collective_register(tensor, work): wait_tensor of the tensor waits for the work */
static PyObject *named_register(PyObject *m, PyObject *args)
{
    PyObject *x, *work;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO", &x, &work))
        return NULL;
    if (!cr_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "expected a tensor, not %s", Py_TYPE(x)->tp_name);
    return cr_py_done(cr_collective_register(cr_py_tensor_of(x), Py_NewRef(work)));
}

/* _collective_pending() -> the number of results that no wait was for */
static PyObject *named_pending(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyLong_FromSize_t(cr_collective_pending());
}

static PyMethodDef named_functions[] = {
    {"_collective_set", named_set, METH_VARARGS, NULL},
    {"_collective_waited", named_waited, METH_O, NULL},
    {"_collective_register", named_register, METH_VARARGS, NULL},
    {"_collective_pending", named_pending, METH_NOARGS, NULL},
    {0}};

int cr_py_comm_named_start(PyObject *m)
{
    static const cr_comm_host host = {named_host_find, named_host_where, named_host_wait};
    static const cr_collective_classes classes = {named_class_start, named_class_wait,
                                                  named_class_drop};

    cr_comm_set_host(&host);
    cr_collective_set_classes(&classes);
    return PyModule_AddFunctions(m, named_functions);
}
