/* cresset._C.Program: a graph as a program for repeated runs (compile/program.h). */
#include "compile/program.h"
#include "py/bind/bind.h"

typedef struct {
    PyObject_HEAD cr_program *p;
    PyObject *graph; /* the Python object that keeps the graph alive */
} program_object;

static PyTypeObject program_type;

PyObject *cr_py_program_new(PyObject *graph, const cr_graph *g, unsigned how)
{
    program_object *self = PyObject_New(program_object, &program_type);
    cr_status st;

    if (!self)
        return NULL;
    self->p = NULL;
    self->graph = Py_NewRef(graph);
    st = cr_program_new(&self->p, g, how);
    if (!st)
        return (PyObject *)self;
    Py_DECREF(self);
    return cr_py_raise(st);
}

static void program_dealloc(PyObject *x)
{
    program_object *self = (program_object *)x;

    cr_program_drop(self->p);
    Py_DECREF(self->graph);
    PyObject_Free(self);
}

PyObject *cr_py_outputs_tuple(cr_tensor **output, int n)
{
    PyObject *out = PyTuple_New(n);

    for (int i = 0; i < n; i++) {
        PyObject *item = !out ? NULL : output[i] ? cr_py_wrap(output[i]) : Py_NewRef(Py_None);
        if (!out)
            cr_drop(output[i]);
        else
            cr_py_put_item(&out, i, item);
    }
    return out;
}

static PyObject *program_run_inputs(cr_program *p, PyObject *args, cr_tensor **input,
                                    cr_tensor **output)
{
    cr_status st;

    for (int i = 0; i < cr_program_inputs(p); i++) {
        PyObject *x = PySequence_Fast_GET_ITEM(args, i);
        if (!cr_py_is_tensor(x))
            return PyErr_Format(PyExc_TypeError, "input %d must be Tensor, not %s", i,
                                Py_TYPE(x)->tp_name);
        input[i] = cr_py_tensor_of(x);
    }
    CR_PY_UNLOCKED(st = cr_program_run(p, input, NULL, output));
    return st ? cr_py_raise(st) : cr_py_outputs_tuple(output, cr_program_outputs(p));
}

/* run(inputs) -> tuple of outputs */
static PyObject *program_run(PyObject *x, PyObject *given)
{
    cr_program *p = ((program_object *)x)->p;
    PyObject *args = PySequence_Tuple(given), *out = NULL;
    int inputs = cr_program_inputs(p);
    cr_tensor **room;

    if (!args)
        return NULL;
    room = PyMem_Calloc((size_t)(inputs + cr_program_outputs(p) + 1), sizeof *room);
    if (!room)
        PyErr_NoMemory();
    else if (PySequence_Fast_GET_SIZE(args) != inputs)
        PyErr_Format(PyExc_TypeError, "the program takes %d inputs, not %zd", inputs,
                     PySequence_Fast_GET_SIZE(args));
    else
        out = program_run_inputs(p, args, room, room + inputs);
    PyMem_Free(room);
    Py_DECREF(args);
    return out;
}

static PyObject *program_wait(PyObject *x, PyObject *seconds)
{
    const program_object *self = (program_object *)x;
    double left = PyFloat_AsDouble(seconds);
    int ready;

    if (PyErr_Occurred())
        return NULL;
    CR_PY_UNLOCKED(ready = cr_program_wait(self->p, left));
    return PyLong_FromLong(ready);
}

static PyObject *program_repr(PyObject *x)
{
    cr_text t = {0};

    cr_program_print(&t, ((program_object *)x)->p);
    return cr_py_text(&t, CR_OK);
}

static PyObject *program_peak(PyObject *x, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(cr_program_peak(((program_object *)x)->p));
}

static PyObject *program_groups(PyObject *x, void *unused)
{
    (void)unused;
    return PyLong_FromLong(cr_program_groups(((program_object *)x)->p));
}

static PyMethodDef program_methods[] = {
    {"run", program_run, METH_O, "run(inputs) -> tuple of outputs; records no gradient."},
    {"wait", program_wait, METH_O,
     "wait(seconds) -> number of fusion groups with native code."},
    {0}};
static PyGetSetDef program_getset[] = {
    {"peak", program_peak, NULL, "Peak bytes of the program's tensors.", NULL},
    {"groups", program_groups, NULL, "Number of fusion groups with code.", NULL},
    {0}};
static PyTypeObject program_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.Program",
    .tp_basicsize = sizeof(program_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A graph as a program; str() gives its steps.  Made by RecordedGraph.program().",
    .tp_dealloc = program_dealloc,
    .tp_repr = program_repr,
    .tp_methods = program_methods,
    .tp_getset = program_getset,
};

int cr_py_program_start(PyObject *m) { return cr_py_add_type(m, "Program", &program_type); }
