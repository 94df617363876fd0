/* cresset._C.AotModel: a compiled model that was loaded (object/object.h). */
#include "object/object.h"
#include "py/bind/bind.h"
#include <string.h>

typedef struct {
    PyObject_HEAD cr_aot *m;
} aot_object;

static PyTypeObject aot_type;

static void aot_dealloc(PyObject *x)
{
    cr_aot_free(((aot_object *)x)->m);
    Py_TYPE(x)->tp_free(x);
}

static PyObject *aot_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "threads", NULL};
    PyObject *path, *x;
    cr_aot *m = NULL;
    int threads = 0, st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|i:AotModel", names,
                                     PyUnicode_FSConverter, &path, &threads))
        return NULL;
    CR_PY_UNLOCKED(st = cr_aot_load(&m, PyBytes_AS_STRING(path), threads));
    Py_DECREF(path);
    if (st)
        return cr_py_raise((cr_status)st);
    x = type->tp_alloc(type, 0);
    if (x)
        ((aot_object *)x)->m = m;
    else
        cr_aot_free(m);
    return x;
}

/* --- calls --- */

typedef struct {
    cr_aot_value *in;
    void **out;
    cr_tensor **made;
    int inputs, outputs;
} aot_call;

/* writes: the model writes the input. */
static bool take_input(cr_aot_value *out, PyObject *x, bool writes)
{
    char *at;

    if (!cr_py_is_tensor(x)) {
        PyErr_Format(PyExc_TypeError, "inputs are tensors, not %s", Py_TYPE(x)->tp_name);
        return false;
    }
    cr_tensor *t = cr_py_tensor_of(x);
    if (!t->contiguous || !cr_is_host(t->device)) {
        PyErr_SetString(PyExc_ValueError, "inputs are contiguous tensors on the host");
        return false;
    }
    cr_status st = writes ? cr_reach_to_write(&at, t) : cr_reach(&at, t);
    if (st)
        return cr_py_raise(st) != NULL;
    t->storage->version += writes;
    *out = (cr_aot_value){at, cr_dtype_name((cr_dtype)t->dtype), t->ndim, t->size};
    return true;
}

static cr_dtype dtype_named(const char *name)
{
    for (int t = 0; t < CR_DTYPE_COUNT; t++)
        if (!strcmp(cr_dtype_name((cr_dtype)t), name))
            return (cr_dtype)t;
    return CR_DTYPE_NONE;
}

static cr_status make_outputs(aot_call *c, const cr_aot *m)
{
    for (int k = 0; k < c->outputs; k++) {
        const cr_aot_array *a = cr_aot_output(m, k);
        int64_t size[CR_MAX_DIMS];
        char *at;
        if (a->ndim > CR_MAX_DIMS)
            return cr_fail(CR_VALUE, "output %d has %d dims", k, a->ndim);
        CR_TRY((cr_status)cr_aot_output_size(m, c->in, c->inputs, k, size));
        CR_TRY(
            cr_tensor_new(&c->made[k], dtype_named(a->dtype), (cr_device){0}, a->ndim, size));
        CR_TRY(cr_reach_to_write(&at, c->made[k]));
        c->out[k] = at;
    }
    return CR_OK;
}

static bool take_inputs(aot_call *c, PyObject *items, PyObject *written)
{
    for (int k = 0; k < c->inputs; k++) {
        PyObject *place = PyLong_FromLong(k);
        int writes = place ? PySequence_Contains(written, place) : -1;
        Py_XDECREF(place);
        if (writes < 0 || !take_input(&c->in[k], PyTuple_GET_ITEM(items, k), writes))
            return false;
    }
    return true;
}

static PyObject *call_model(aot_call *c, cr_aot *m, PyObject *items, PyObject *written)
{
    cr_status st;
    PyObject *out;

    if (!take_inputs(c, items, written))
        return NULL;
    st = make_outputs(c, m);
    if (!st)
        CR_PY_UNLOCKED(st = (cr_status)cr_aot_run(m, c->in, c->inputs, c->out, c->outputs));
    if (st)
        return cr_py_raise(st);
    out = PyList_New(c->outputs);
    for (int k = 0; out && k < c->outputs; k++) {
        PyObject *one = cr_py_wrap(c->made[k]);
        c->made[k] = NULL;
        if (!one)
            Py_CLEAR(out);
        else
            PyList_SET_ITEM(out, k, one);
    }
    return out;
}

/* run(inputs, written) -> list of tensors */
static PyObject *aot_run(PyObject *x, PyObject *args)
{
    cr_aot *m = ((aot_object *)x)->m;
    PyObject *given, *written, *items, *out;
    aot_call c = {.outputs = cr_aot_outputs(m)};

    if (!PyArg_ParseTuple(args, "OO:run", &given, &written))
        return NULL;
    items = PySequence_Tuple(given);
    if (!items)
        return NULL;
    c.inputs = (int)PyTuple_GET_SIZE(items);
    c.in = PyMem_Calloc((size_t)c.inputs + 1, sizeof *c.in);
    c.out = PyMem_Calloc((size_t)c.outputs + 1, sizeof *c.out);
    c.made = PyMem_Calloc((size_t)c.outputs + 1, sizeof *c.made);
    out = c.in && c.out && c.made ? call_model(&c, m, items, written) : PyErr_NoMemory();
    for (int k = 0; c.made && k < c.outputs; k++)
        cr_drop(c.made[k]);
    PyMem_Free(c.in);
    PyMem_Free(c.out);
    PyMem_Free(c.made);
    Py_DECREF(items);
    return out;
}

/* --- what it is --- */

static PyObject *numbers_of(const int64_t *at, int n)
{
    PyObject *out = PyTuple_New(n);

    for (int i = 0; out && i < n; i++)
        PyTuple_SET_ITEM(out, i, PyLong_FromLongLong(at[i]));
    return out;
}

static PyObject *describe_arrays(const cr_aot *m, int n,
                                 const cr_aot_array *(*of)(const cr_aot *, int))
{
    PyObject *out = PyList_New(n);

    for (int k = 0; out && k < n; k++) {
        const cr_aot_array *a = of(m, k);
        PyObject *one =
            Py_BuildValue("(ssNN)", a->name, a->dtype, numbers_of(a->least, a->ndim),
                          numbers_of(a->most, a->ndim));
        if (!one)
            Py_CLEAR(out);
        else
            PyList_SET_ITEM(out, k, one);
    }
    return out;
}

static PyObject *aot_inputs(PyObject *x, void *unused)
{
    const cr_aot *m = ((aot_object *)x)->m;

    (void)unused;
    return describe_arrays(m, cr_aot_inputs(m), cr_aot_input);
}

static PyObject *aot_outputs(PyObject *x, void *unused)
{
    const cr_aot *m = ((aot_object *)x)->m;

    (void)unused;
    return describe_arrays(m, cr_aot_outputs(m), cr_aot_output);
}

static PyObject *aot_spec(PyObject *x, void *unused)
{
    size_t n;
    const char *at = cr_aot_spec(((aot_object *)x)->m, &n);

    (void)unused;
    return PyBytes_FromStringAndSize(at, (Py_ssize_t)n);
}

static PyObject *aot_weights(PyObject *x, PyObject *unused)
{
    size_t n;
    const char *at = cr_aot_weights(((aot_object *)x)->m, &n);

    (void)unused;
    return PyBytes_FromStringAndSize(at, (Py_ssize_t)n);
}

static PyObject *aot_set_weights(PyObject *x, PyObject *given)
{
    Py_buffer bytes;
    cr_status st;

    if (PyObject_GetBuffer(given, &bytes, PyBUF_SIMPLE) < 0)
        return NULL;
    st = cr_aot_set_weights(((aot_object *)x)->m, bytes.buf, (size_t)bytes.len);
    PyBuffer_Release(&bytes);
    return st ? cr_py_raise(st) : Py_NewRef(Py_None);
}

static PyMethodDef aot_methods[] = {
    {"run", aot_run, METH_VARARGS,
     "run(inputs, written) -> list of tensors.  Inputs are contiguous tensors on the host;\n"
     "written: the numbers of those that the model writes."},
    {"weights", aot_weights, METH_NOARGS, "weights() -> bytes, a copy"},
    {"set_weights", aot_set_weights, METH_O,
     "set_weights(bytes): weights in the layout of weights(), which are copied."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef aot_members[] = {
    {"inputs", aot_inputs, NULL, "[(name, dtype, least sizes, most sizes)]", NULL},
    {"outputs", aot_outputs, NULL, "[(name, dtype, least sizes, most sizes)]", NULL},
    {"spec", aot_spec, NULL, "the text that was written with the object, as bytes", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject aot_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.AotModel",
    .tp_doc =
        "AotModel(path, threads=0): a compiled model.\n\nthreads: how many share a call; 0: "
        "as many as an operator may use.",
    .tp_basicsize = sizeof(aot_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = aot_new,
    .tp_dealloc = aot_dealloc,
    .tp_methods = aot_methods,
    .tp_getset = aot_members};

int cr_py_aot_start(PyObject *m)
{
    if (cr_py_type_ready(&aot_type) < 0)
        return -1;
    return PyModule_AddObjectRef(m, "AotModel", (PyObject *)&aot_type);
}
