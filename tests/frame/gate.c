/* gate: the observer and the shadow as an extension module, for CPython's own tests
 * (gate.py). */
#include "frame/shadow.h"

static cr_shadow *gate_shadow;
static uint64_t events, compared, differences; /* of earlier shadows */
static PyObject *first;

static void gate_end(void)
{
    if (!gate_shadow)
        return;
    cr_observe_stop(gate_shadow);
    const cr_shadow_sums *sums = cr_shadow_sums_of(gate_shadow);
    events += sums->events;
    compared += sums->compared;
    if (sums->differences && !differences)
        Py_XSETREF(first, PyUnicode_FromString(sums->first));
    differences += sums->differences;
    cr_shadow_drop(gate_shadow);
    gate_shadow = NULL;
}

/* Ends an observation, if there is one, and begins another. */
static PyObject *gate_start(PyObject *self, PyObject *none)
{
    cr_observer o;
    int on;

    (void)self;
    (void)none;
    gate_end();
    gate_shadow = cr_shadow_new(0);
    if (!gate_shadow)
        return NULL;
    o = cr_shadow_observer(gate_shadow);
    on = cr_observe_start(&o);
    return on < 0 ? NULL : PyBool_FromLong(on);
}

static PyObject *gate_stop(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    gate_end();
    Py_RETURN_NONE;
}

static PyObject *gate_is_on(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    return PyBool_FromLong(cr_observe_is_on());
}

/* The number of instructions seen so far. */
static PyObject *gate_events(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    return PyLong_FromUnsignedLongLong(
        events + (gate_shadow ? cr_shadow_sums_of(gate_shadow)->events : 0));
}

/* After the end: (instructions, entries compared, differences, the first difference or ""). */
static PyObject *gate_counts(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    return Py_BuildValue("KKKO", (unsigned long long)events, (unsigned long long)compared,
                         (unsigned long long)differences, first ? first : Py_None);
}

static PyMethodDef gate_methods[] = {{"start", gate_start, METH_NOARGS, NULL},
                                     {"stop", gate_stop, METH_NOARGS, NULL},
                                     {"restart", gate_start, METH_NOARGS, NULL},
                                     {"events", gate_events, METH_NOARGS, NULL},
                                     {"is_on", gate_is_on, METH_NOARGS, NULL},
                                     {"counts", gate_counts, METH_NOARGS, NULL},
                                     {NULL, NULL, 0, NULL}};
static struct PyModuleDef gate_module = {PyModuleDef_HEAD_INIT, .m_name = "frame_gate",
                                         .m_size = -1, .m_methods = gate_methods};

PyMODINIT_FUNC PyInit_frame_gate(void);
PyMODINIT_FUNC PyInit_frame_gate(void) { return PyModule_Create(&gate_module); }
