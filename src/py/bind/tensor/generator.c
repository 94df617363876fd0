/* torch.Generator, and functions for the default generator. */
#include "device/facts.h"
#include "device/generators.h"
#include "py/bind/bind.h"

static PyObject *default_object;

static cr_generator *generator_of_object(PyObject *self)
{
    return ((cr_py_generator *)self)->generator;
}

static PyObject *generator_object(cr_generator *g) /* takes ownership of the reference */
{
    cr_py_generator *self = PyObject_New(cr_py_generator, &cr_py_generator_type);

    if (!self)
        cr_generator_drop(g);
    else
        self->generator = g;
    return (PyObject *)self;
}

PyObject *cr_py_generator_object(cr_generator *g)
{
    if (default_object && generator_of_object(default_object) == g)
        return Py_NewRef(default_object);
    return generator_object(cr_generator_hold(g));
}

static void generator_dealloc(PyObject *self)
{
    cr_generator_drop(generator_of_object(self));
    PyObject_Free(self);
}

/* torch's text for devices without generators. */
static PyObject *no_generator(cr_device_kind kind)
{
    switch (kind) {
    case CR_CUDA:
        return PyErr_Format(PyExc_RuntimeError,
                            "Cannot get CUDA generator without ATen_cuda library.");
    case CR_XPU:
        return PyErr_Format(PyExc_RuntimeError,
                            "Cannot get XPU generator without ATen_xpu library.");
    case CR_MPS:
        return PyErr_Format(PyExc_RuntimeError,
                            "Cannot execute getNewGenerator() without MPS backend.");
    case CR_PRIVATEUSE1:
        return PyErr_Format(PyExc_RuntimeError, "Please register PrivateUse1HooksInterface by "
                                                "`RegisterPrivateUse1HooksInterface` first.");
    case CR_META:
        return PyErr_Format(PyExc_RuntimeError, "META device type not an accelerator.");
    default:
        return PyErr_Format(PyExc_RuntimeError,
                            "Device type %s is not supported for torch.Generator() api.",
                            cr_device_kind_name(kind));
    }
}

static int read_generator_device(PyObject *x, cr_device *out)
{
    int kind = CR_HOST.kind, index = -1;

    int done = cr_py_device_from(x, &kind, &index);
    if (!done)
        PyErr_Format(PyExc_TypeError,
                     "Generator(): argument 'device' must be torch.device, not %s",
                     Py_TYPE(x)->tp_name);
    if (done <= 0)
        return -1;
    if (!cr_device_of((cr_device_kind)kind) || kind == CR_META) {
        no_generator((cr_device_kind)kind);
        return -1;
    }
    cr_status st = cr_device_named(out, cr_device_pack(kind, index));
    return st ? cr_py_raise_int(st) : 0;
}

static PyObject *generator_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", NULL};
    PyObject *device = NULL;
    cr_generator *g;
    cr_device where = CR_HOST;

    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", names, &device))
        return NULL;
    if (device && read_generator_device(device, &where) < 0)
        return NULL;
    cr_status st = cr_generator_new(&g, CR_GENERATOR_DEFAULT_SEED);
    if (st)
        return cr_py_raise(st);
    cr_generator_place(g, where,
                       cr_device_facts_of((cr_device_kind)where.kind)->has_generators);
    return generator_object(g);
}

/* Reads a 64-bit seed.  Negative numbers wrap, as in torch. */
static int seed_from(PyObject *x, uint64_t *out)
{
    PyObject *whole = PyNumber_Long(x);
    int overflow;

    if (!whole)
        return -1;
    long long i = PyLong_AsLongLongAndOverflow(whole, &overflow);
    *out = overflow > 0 ? PyLong_AsUnsignedLongLong(whole) : (uint64_t)i;
    Py_DECREF(whole);
    if (overflow < 0 || PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        return -1;
    }
    return 0;
}

static PyObject *generator_manual_seed(PyObject *self, PyObject *x)
{
    uint64_t seed;

    if (!PyIndex_Check(x) || PyBool_Check(x) || cr_py_is_tensor(x))
        return PyErr_Format(PyExc_RuntimeError, "manual_seed expected a long, but got %s",
                            Py_TYPE(x)->tp_name);
    if (seed_from(x, &seed) < 0)
        return NULL;
    cr_status st = cr_generator_seed(generator_of_object(self), seed);
    return st ? cr_py_raise(st) : Py_NewRef(self);
}

static PyObject *generator_seed(PyObject *self, PyObject *unused)
{
    uint64_t seed;
    cr_status st = cr_generator_reseed(generator_of_object(self), &seed);

    (void)unused;
    return st ? cr_py_raise(st) : PyLong_FromUnsignedLongLong(seed);
}

static PyObject *generator_initial_seed(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(cr_generator_initial_seed(generator_of_object(self)));
}

static PyObject *generator_get_state(PyObject *self, PyObject *unused)
{
    const int64_t size = (int64_t)cr_generator_state_bytes(generator_of_object(self));
    cr_tensor *t;
    cr_status st = cr_tensor_new(&t, CR_U8, CR_HOST, 1, &size);

    (void)unused;
    if (st)
        return cr_py_raise(st);
    char *bytes;
    st = cr_reach(&bytes, t);
    if (st) {
        cr_drop(t);
        return cr_py_raise(st);
    }
    cr_generator_get_state(generator_of_object(self), bytes);
    return cr_py_wrap(t);
}

static PyObject *generator_set_state(PyObject *self, PyObject *x)
{
    if (!cr_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "expected a torch.ByteTensor, but got %s",
                            Py_TYPE(x)->tp_name);
    if (cr_py_tensor_of(x)->dtype != CR_U8 || !cr_is_host(cr_py_tensor_of(x)->device) ||
        !cr_py_tensor_of(x)->contiguous)
        return PyErr_Format(PyExc_TypeError, "RNG state must be a torch.ByteTensor");
    const cr_tensor *t = cr_py_tensor_of(x);
    cr_py_note_read(t, CR_READ_GENERATOR);
    char *bytes;
    cr_status st = cr_reach(&bytes, t);
    if (!st)
        st = cr_generator_set_state(generator_of_object(self), bytes, (size_t)t->numel);
    return st ? cr_py_raise(st) : Py_NewRef(self);
}

static PyObject *generator_clone(PyObject *self, PyObject *unused)
{
    cr_generator *g;
    cr_status st = cr_generator_clone(&g, generator_of_object(self));

    (void)unused;
    return st ? cr_py_raise(st) : generator_object(g);
}

static PyObject *generator_device(PyObject *self, void *unused)
{
    (void)unused;
    return cr_py_device_of(cr_generator_device(generator_of_object(self)));
}

/* Copies and pickles a generator by its state. */
static PyObject *generator_reduce(PyObject *self, PyObject *unused)
{
    PyObject *state = generator_get_state(self, unused);

    return state ? Py_BuildValue(
                       "O(s)N", Py_TYPE(self),
                       cr_device_print(cr_generator_device(generator_of_object(self))).text,
                       state)
                 : NULL;
}

static PyMethodDef generator_methods[] = {
    {"manual_seed", generator_manual_seed, METH_O, "Sets the seed."},
    {"seed", generator_seed, METH_NOARGS, "Seeds from the system's entropy; returns the seed."},
    {"initial_seed", generator_initial_seed, METH_NOARGS, "The latest seed."},
    {"get_state", generator_get_state, METH_NOARGS, "The state as a tensor of bytes."},
    {"set_state", generator_set_state, METH_O, "Sets a state that get_state returned."},
    {"clone_state", generator_clone, METH_NOARGS, "Makes a generator with the same state."},
    {"__reduce__", generator_reduce, METH_NOARGS, NULL},
    {"__setstate__", generator_set_state, METH_O, NULL},
    {0}};
static PyGetSetDef generator_getset[] = {{"device", generator_device, NULL, NULL, NULL}, {0}};

static PyObject *generator_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<torch._C.Generator object at %p>", (void *)self);
}

PyTypeObject cr_py_generator_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "Generator",
    .tp_repr = generator_repr,
    .tp_basicsize = sizeof(cr_py_generator),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A source of random numbers.",
    .tp_new = generator_new,
    .tp_dealloc = generator_dealloc,
    .tp_methods = generator_methods,
    .tp_getset = generator_getset,
};

static PyObject *manual_seed(PyObject *m, PyObject *x)
{
    uint64_t seed;

    (void)m;
    if (seed_from(x, &seed) < 0)
        return NULL;
    cr_status st = cr_device_generators_seed(seed);
    if (!st)
        st = cr_generator_seed(cr_generator_default(), seed);
    return st ? cr_py_raise(st) : Py_NewRef(default_object);
}

static PyObject *seed(PyObject *m, PyObject *unused)
{
    uint64_t seed;
    cr_status st = cr_generator_reseed(cr_generator_default(), &seed);

    (void)m;
    (void)unused;
    if (!st)
        st = cr_device_generators_seed(seed);
    return st ? cr_py_raise(st) : PyLong_FromUnsignedLongLong(seed);
}

/* (device): the default generator of a device. */
static PyObject *device_generator(PyObject *m, PyObject *x)
{
    cr_device where;

    (void)m;
    return read_generator_device(x, &where) < 0
               ? NULL
               : generator_object(cr_generator_hold(cr_device_generator(where)));
}

/* (seed): seeds the generators of all devices but the host's. */
static PyObject *seed_devices(PyObject *m, PyObject *x)
{
    uint64_t seed;

    (void)m;
    if (seed_from(x, &seed) < 0)
        return NULL;
    cr_status st = cr_device_generators_seed(seed);
    return st ? cr_py_raise(st) : Py_NewRef(Py_None);
}

static PyObject *initial_seed(PyObject *m, PyObject *unused)
{
    (void)m;
    return generator_initial_seed(default_object, unused);
}

static PyObject *get_rng_state(PyObject *m, PyObject *unused)
{
    (void)m;
    return generator_get_state(default_object, unused);
}

static PyObject *set_rng_state(PyObject *m, PyObject *x)
{
    (void)m;
    PyObject *done = generator_set_state(default_object, x);
    if (!done)
        return NULL;
    Py_DECREF(done);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"manual_seed", manual_seed, METH_O,
     "Seeds the default generator and returns it.\n\n"
     "    >>> torch.manual_seed(7).initial_seed()\n"
     "    7\n"},
    {"_device_generator", device_generator, METH_O, "The default generator of a device."},
    {"_seed_devices", seed_devices, METH_O, "Seeds the generators of all devices but the CPU."},
    {"seed", seed, METH_NOARGS, "Seeds the default generator from the system's entropy."},
    {"initial_seed", initial_seed, METH_NOARGS, "The default generator's seed."},
    {"get_rng_state", get_rng_state, METH_NOARGS,
     "The default generator's state: a uint8 tensor.\n\n"
     "    >>> torch.get_rng_state().dtype\n"
     "    torch.uint8\n"},
    {"set_rng_state", set_rng_state, METH_O,
     "Sets the default generator's state.\n\n"
     "    >>> state = torch.get_rng_state()\n"
     "    >>> x = torch.rand(2)\n"
     "    >>> torch.set_rng_state(state)\n"
     "    >>> torch.equal(x, torch.rand(2))\n"
     "    True\n"},
    {0}};

int cr_py_generator_start(PyObject *m)
{
    if (cr_py_add_type(m, "Generator", &cr_py_generator_type) < 0)
        return -1;
    default_object = generator_object(cr_generator_hold(cr_generator_default()));
    if (!default_object || PyModule_AddObjectRef(m, "default_generator", default_object) < 0)
        return -1;
    return PyModule_AddFunctions(m, functions);
}
