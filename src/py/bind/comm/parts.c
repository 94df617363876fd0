/* _Parts: averages over the parts of a batch (src/dist/parts.h); sums of sparse tensors; whole
 * tensors of the parts that ranks have sent. */
#include "dist/parts.h"
#include "dist/sparse_sum.h"
#include "py/bind/comm/comm.h"
#include "tensor/sparse.h"
#include "whole/gathered.h"

typedef struct {
    PyObject_HEAD cr_parts *p;
    Py_ssize_t count;
} py_parts;

static PyTypeObject parts_type;

static void parts_dealloc(PyObject *self)
{
    cr_parts_free(((py_parts *)self)->p);
    PyObject_Free(self);
}

/* The tensors of a tuple, borrowed, in a list that PyMem_Free frees; None is NULL, unless `all`
 * must be tensors.  NULL with an exception. */
static cr_tensor **parts_tensors(PyObject *tuple, Py_ssize_t count, bool all)
{
    if (PyTuple_GET_SIZE(tuple) != count) {
        PyErr_Format(PyExc_ValueError, "%zd tensors are averaged, not %zd", count,
                     PyTuple_GET_SIZE(tuple));
        return NULL;
    }
    cr_tensor **t = PyMem_Calloc((size_t)count + 1, sizeof *t);
    for (Py_ssize_t i = 0; t && i < count; i++) {
        PyObject *x = PyTuple_GET_ITEM(tuple, i);
        if ((all || x != Py_None) && !cr_py_is_tensor(x)) {
            PyMem_Free(t);
            PyErr_SetString(PyExc_TypeError, "a tuple of tensors is needed");
            return NULL;
        }
        t[i] = x == Py_None ? NULL : cr_py_tensor_of(x);
    }
    return t ? t : (void *)PyErr_NoMemory();
}

/* take(tuple of tensors and None) */
static PyObject *parts_take(PyObject *self, PyObject *tuple)
{
    py_parts *o = (py_parts *)self;

    if (!PyTuple_Check(tuple))
        return PyErr_Format(PyExc_TypeError, "a tuple of tensors is needed");
    cr_tensor **t = parts_tensors(tuple, o->count, false);
    if (!t)
        return NULL;
    cr_status st = cr_parts_take(o->p, t);
    PyMem_Free(t);
    return cr_py_done(st);
}

/* finish() -> tuple of tensors and None */
static PyObject *parts_finish(PyObject *self, PyObject *unused)
{
    py_parts *o = (py_parts *)self;
    cr_tensor **t = PyMem_Calloc((size_t)o->count + 1, sizeof *t);
    cr_status st;

    (void)unused;
    if (!t)
        return PyErr_NoMemory();
    CR_PY_UNLOCKED(st = cr_parts_finish(o->p, t));
    PyObject *out = st ? cr_py_raise(st) : PyTuple_New(o->count);
    for (Py_ssize_t i = 0; i < o->count && !st; i++) {
        PyObject *x = t[i] ? cr_py_wrap_keep(t[i]) : Py_NewRef(Py_None);
        cr_drop(t[i]);
        if (out && x)
            PyTuple_SET_ITEM(out, i, x);
        else
            Py_CLEAR(out);
    }
    PyMem_Free(t);
    return out;
}

/* range: (first, after) */
static PyObject *parts_range(PyObject *self, void *unused)
{
    int first, after;

    (void)unused;
    cr_parts_range(((py_parts *)self)->p, &first, &after);
    return Py_BuildValue("ii", first, after);
}

static PyMethodDef parts_methods[] = {
    {"take", parts_take, METH_O, NULL}, {"finish", parts_finish, METH_NOARGS, NULL}, {0}};
static PyGetSetDef parts_getset[] = {{"range", parts_range, NULL, NULL, NULL}, {0}};
static PyTypeObject parts_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C._Parts",
    .tp_basicsize = sizeof(py_parts),
    .tp_dealloc = parts_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = parts_methods,
    .tp_getset = parts_getset,
};

/* _comm_parts(group, parts, tuple of tensors of the dtypes and sizes) */
static PyObject *make_parts(PyObject *m, PyObject *args)
{
    PyObject *group, *like;
    int parts;
    cr_parts *p = NULL;

    (void)m;
    if (!PyArg_ParseTuple(args, "OiO!", &group, &parts, &PyTuple_Type, &like))
        return NULL;
    cr_comm *comm = cr_py_comm_of(group);
    cr_tensor **t = comm ? parts_tensors(like, PyTuple_GET_SIZE(like), true) : NULL;
    if (!t)
        return NULL;
    cr_status st = cr_parts_new(&p, comm, parts, t, (int)PyTuple_GET_SIZE(like));
    PyMem_Free(t);
    py_parts *o = st ? NULL : PyObject_New(py_parts, &parts_type);
    if (!o) {
        cr_parts_free(p);
        return st ? cr_py_raise(st) : NULL;
    }
    o->p = p;
    o->count = PyTuple_GET_SIZE(like);
    return (PyObject *)o;
}

/* _comm_sparse_sum(group, tensor): the sum of all ranks' sparse tensors becomes the tensor */
static PyObject *sparse_sum(PyObject *m, PyObject *args)
{
    PyObject *group, *x;
    cr_tensor *sum = NULL;
    cr_status st;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO", &group, &x))
        return NULL;
    cr_comm *comm = cr_py_comm_of(group);
    if (!comm)
        return NULL;
    if (!cr_py_is_tensor(x) || !cr_is_coo(cr_py_tensor_of(x)))
        return PyErr_Format(PyExc_RuntimeError,
                            "only sparse_coo tensors are summed over ranks");
    char where[CR_PY_WHERE_BYTES];
    cr_py_comm_where(where, sizeof where);
    CR_PY_UNLOCKED(st = cr_sparse_sum(&sum, comm, cr_py_tensor_of(x), 1, where));
    if (!st)
        st = cr_sparse_assign(cr_py_tensor_of(x), sum);
    cr_drop(sum);
    return cr_py_done(st);
}

/* The tensors of a list, borrowed, in a list that PyMem_Free frees.  NULL with an exception. */
static cr_tensor **list_tensors(PyObject *list)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    cr_tensor **t = PyMem_Calloc((size_t)n + 1, sizeof *t);

    for (Py_ssize_t i = 0; t && i < n; i++) {
        PyObject *x = PyList_GET_ITEM(list, i);
        if (!cr_py_is_tensor(x)) {
            PyMem_Free(t);
            PyErr_SetString(PyExc_TypeError, "a list of tensors is needed");
            return NULL;
        }
        t[i] = cr_py_tensor_of(x);
    }
    return t ? t : (void *)PyErr_NoMemory();
}

/* _comm_take_gathered(tensor of the ranks' parts, list of tensors, ranks) */
static PyObject *take_gathered(PyObject *m, PyObject *args)
{
    PyObject *every, *list;
    int ranks;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO!i", &every, &PyList_Type, &list, &ranks))
        return NULL;
    if (!cr_py_is_tensor(every)) {
        PyErr_SetString(PyExc_TypeError, "a tensor of parts is needed");
        return NULL;
    }
    cr_tensor **out = list_tensors(list);
    if (!out)
        return NULL;
    cr_status st =
        cr_take_gathered(cr_py_tensor_of(every), out, (int)PyList_GET_SIZE(list), ranks);
    PyMem_Free(out);
    return cr_py_done(st);
}

/* _comm_resize_storages(list of tensors, whether they get all their bytes or none) */
static PyObject *resize_storages(PyObject *m, PyObject *args)
{
    PyObject *list;
    int full;
    cr_status st = CR_OK;

    (void)m;
    if (!PyArg_ParseTuple(args, "O!p", &PyList_Type, &list, &full))
        return NULL;
    cr_tensor **t = list_tensors(list);
    if (!t)
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list) && !st; i++) {
        size_t bytes =
            (size_t)(t[i]->offset + t[i]->numel) * cr_dtype_size((cr_dtype)t[i]->dtype);
        st = cr_storage_resize(t[i]->storage, full ? bytes : 0);
    }
    PyMem_Free(t);
    return cr_py_done(st);
}

static PyMethodDef parts_functions[] = {
    {"_comm_parts", make_parts, METH_VARARGS, NULL},
    {"_comm_sparse_sum", sparse_sum, METH_VARARGS, NULL},
    {"_comm_take_gathered", take_gathered, METH_VARARGS, NULL},
    {"_comm_resize_storages", resize_storages, METH_VARARGS, NULL},
    {0}};

int cr_py_comm_parts_start(PyObject *m)
{
    if (cr_py_add_type(m, "_Parts", &parts_type) < 0)
        return -1;
    return PyModule_AddFunctions(m, parts_functions);
}
