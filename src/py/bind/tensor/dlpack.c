/* DLPack: sharing memory with other array libraries through its C layout.
 *
 * An importer names the stream on which it will use a CUDA tensor; that stream then waits for
 * the exporter's current one. */
#include "py/bind/bind.h"

enum { DL_CPU = 1, DL_CUDA = 2 };
enum {
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_COMPLEX = 5,
    DL_BOOL = 6,
    DL_E4M3FN = 10,
    DL_E4M3FNUZ = 11,
    DL_E5M2 = 12,
    DL_E5M2FNUZ = 13,
    DL_E8M0FNU = 14
};

typedef struct {
    int32_t device_type, device_id;
} dl_device;
typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} dl_dtype;
typedef struct {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_dtype dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;
typedef struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

static const char plain_name[] = "dltensor", versioned_name[] = "dltensor_versioned";

/* --- element types --- */

static dl_dtype to_dl(cr_dtype t)
{
    static const uint8_t float8[] = {[CR_E4M3FN] = DL_E4M3FN,
                                     [CR_E5M2] = DL_E5M2,
                                     [CR_E4M3FNUZ] = DL_E4M3FNUZ,
                                     [CR_E5M2FNUZ] = DL_E5M2FNUZ,
                                     [CR_E8M0FNU] = DL_E8M0FNU};
    bool is_int = cr_dtype_category(t) == CR_CAT_INT;
    uint8_t code = t == CR_BOOL                           ? DL_BOOL
                   : is_int && !cr_dtype_is_signed(t)     ? DL_UINT
                   : t == CR_BF16                         ? DL_BFLOAT
                   : cr_dtype_is_float8(t)                ? float8[t]
                   : cr_dtype_category(t) == CR_CAT_INT   ? DL_INT
                   : cr_dtype_category(t) == CR_CAT_FLOAT ? DL_FLOAT
                                                          : DL_COMPLEX;
    return (dl_dtype){code, (uint8_t)(8 * cr_dtype_size(t)), 1};
}

static cr_dtype from_dl(dl_dtype d)
{
    for (int t = 0; t < CR_DTYPE_COUNT; t++) {
        dl_dtype own = to_dl((cr_dtype)t);
        if (own.code == d.code && own.bits == d.bits && d.lanes == 1)
            return (cr_dtype)t;
    }
    return CR_DTYPE_NONE;
}

/* --- export --- */

/* A managed tensor of either version, with its sizes and strides. */
typedef struct {
    union {
        dl_managed plain;
        dl_versioned versioned;
    };
    cr_tensor *t;
    cr_storage *lent; /* t's storage may be replaced, so it is kept here */
    int64_t both[];
} exported;

static void exported_free(exported *e)
{
    cr_storage_return(e->lent);
    cr_storage_drop(e->lent);
    cr_drop(e->t);
    PyMem_RawFree(e);
}

static void delete_plain(dl_managed *self) { exported_free(self->context); }
static void delete_versioned(dl_versioned *self) { exported_free(self->context); }

static dl_device to_dl_device(const cr_tensor *t)
{
    return t->device.kind == CR_CUDA ? (dl_device){DL_CUDA, t->device.index}
                                     : (dl_device){DL_CPU, 0};
}

static void fill_tensor(dl_tensor *d, exported *e, char *data)
{
    const cr_tensor *t = e->t;

    for (int i = 0; i < t->ndim; i++) {
        e->both[i] = t->size[i];
        e->both[t->ndim + i] = t->stride[i];
    }
    *d = (dl_tensor){.data = data,
                     .device = to_dl_device(t),
                     .ndim = t->ndim,
                     .dtype = to_dl((cr_dtype)t->dtype),
                     .shape = e->both,
                     .strides = e->both + t->ndim};
}

/* Frees the tensor of a capsule that no importer has consumed. */
static void capsule_end(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, plain_name)) {
        dl_managed *d = PyCapsule_GetPointer(capsule, plain_name);
        if (d->deleter)
            d->deleter(d);
    } else if (PyCapsule_IsValid(capsule, versioned_name)) {
        dl_versioned *d = PyCapsule_GetPointer(capsule, versioned_name);
        if (d->deleter)
            d->deleter(d);
    }
}

static PyObject *export(cr_tensor *t, bool versioned)
{
    exported *e = PyMem_RawCalloc(1, sizeof *e + 2 * t->ndim * sizeof *e->both);
    PyObject *capsule;
    char *data;

    if (!e)
        return PyErr_NoMemory();
    cr_py_note_read(t, CR_READ_DLPACK);
    cr_status st = cr_reach_to_write(&data, t);
    if (st) {
        PyMem_RawFree(e);
        return cr_py_raise(st);
    }
    e->t = cr_keep(t);
    e->lent = cr_storage_keep(t->storage);
    cr_storage_lend(e->lent);
    if (versioned) {
        e->versioned = (dl_versioned){.major = 1, .context = e, .deleter = delete_versioned};
        fill_tensor(&e->versioned.tensor, e, data);
    } else {
        e->plain = (dl_managed){.context = e, .deleter = delete_plain};
        fill_tensor(&e->plain.tensor, e, data);
    }
    capsule = PyCapsule_New(e, versioned ? versioned_name : plain_name, capsule_end);
    if (!capsule)
        exported_free(e);
    return capsule;
}

static bool is_exportable(const cr_tensor *t)
{
    return cr_is_host(t->device) || (t->device.kind == CR_CUDA && cr_has_bytes(t->device));
}

/* Lets `stream` wait for the thread's stream. */
static const char *stream_joins(const cr_device_ops *ops, int index, void *stream)
{
    void *own = ops->stream(index), *event;
    const char *error = own == stream ? NULL : ops->event_new(index, &event);

    if (own == stream || error)
        return error;
    error = ops->event_record(index, event);
    if (!error)
        error = ops->set_stream(index, stream);
    if (!error)
        error = ops->event_wait(index, event);
    const char *back = ops->set_stream(index, own);
    ops->event_drop(index, event);
    return error ? error : back;
}

/* The argument `stream` of an importer: None and 1 are the default stream, -1 means that the
 * importer waits itself.  False with an exception set. */
static bool stream_of_importer(const cr_tensor *t, PyObject *stream)
{
    const cr_device_ops *ops = cr_device_of((cr_device_kind)t->device.kind);
    long long at = 1;

    if (stream != Py_None && !PyLong_CheckExact(stream)) {
        PyErr_SetString(PyExc_TypeError, "stream must be ``int`` or ``none``");
        return false;
    }
    if (stream != Py_None)
        at = PyLong_AsLongLong(stream);
    if (PyErr_Occurred())
        return false;
    if (cr_is_host(t->device) || at == -1) {
        if (stream != Py_None && at != -1)
            PyErr_SetString(PyExc_AssertionError, "stream should be None on cpu.");
        return !PyErr_Occurred();
    }
    if (at == 2)
        PyErr_SetString(PyExc_BufferError, "per-thread default stream is not supported.");
    else if (at == 0)
        PyErr_SetString(PyExc_AssertionError, "unsupported stream on CUDA: 0.");
    if (PyErr_Occurred())
        return false;
    const char *error =
        stream_joins(ops, t->device.index, at == 1 ? NULL : (void *)(uintptr_t)at);
    if (error)
        PyErr_SetString(PyExc_RuntimeError, error);
    return !error;
}

/* Whether an importer of this version, or None, knows the versioned capsule; -1 on failure. */
static int is_versioned(PyObject *version)
{
    PyObject *major = version == Py_None ? NULL : PySequence_GetItem(version, 0), *one;

    if (!major)
        return version == Py_None ? 0 : -1;
    one = PyLong_FromLong(1);
    int is = one ? PyObject_RichCompareBool(major, one, Py_GE) : -1;
    Py_XDECREF(one);
    Py_DECREF(major);
    return is;
}

/* Reads the arguments `dl_device` (None: the tensor's own) and `copy`. */
static bool read_target(PyObject *self, PyObject *device, PyObject *copy, dl_device *out)
{
    if (copy != Py_None && !PyBool_Check(copy)) {
        PyErr_Format(PyExc_TypeError, "_to_dlpack(): argument 'copy' must be bool, not %s",
                     Py_TYPE(copy)->tp_name);
        return false;
    }
    *out = to_dl_device(cr_py_tensor_of(self));
    if (device == Py_None)
        return true;
    if (!PyTuple_Check(device) || PyTuple_GET_SIZE(device) != 2) {
        PyErr_Format(PyExc_TypeError,
                     "_to_dlpack(): argument 'dl_device' must be tuple of ints, not %s",
                     Py_TYPE(device)->tp_name);
        return false;
    }
    return PyArg_ParseTuple(device, "ii:__dlpack__", &out->device_type, &out->device_id);
}

/* The tensor itself, a copy, or a copy on another device, as an importer asks. */
static PyObject *exported_source(PyObject *self, PyObject *copy, dl_device to)
{
    dl_device own = to_dl_device(cr_py_tensor_of(self));

    if (own.device_type == to.device_type && own.device_id == to.device_id)
        return copy == Py_True ? PyObject_CallMethod(self, "clone", NULL) : Py_NewRef(self);
    if (copy == Py_False)
        return PyErr_Format(PyExc_ValueError,
                            "a tensor does not move to another device without a copy");
    if (to.device_type == DL_CPU)
        return PyObject_CallMethod(self, "to", "s", "cpu");
    if (to.device_type == DL_CUDA)
        return PyObject_CallMethod(self, "to", "N",
                                   PyUnicode_FromFormat("cuda:%d", to.device_id));
    return PyErr_Format(PyExc_BufferError, "Unsupported device_type: %d", to.device_type);
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None, *source,
             *out;
    dl_device to;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream,
                                     &version, &device, &copy))
        return NULL;
    int versioned = is_versioned(version);
    if (versioned < 0 || !read_target(self, device, copy, &to))
        return NULL;
    if (cr_requires_grad(cr_py_tensor_of(self)))
        return PyErr_Format(PyExc_BufferError,
                            "Can't export tensors that require gradient, use tensor.detach()");
    if (cr_py_tensor_of(self)->layout)
        return PyErr_Format(PyExc_BufferError,
                            "Can't export tensors with layout other than torch.strided");
    if (!is_exportable(cr_py_tensor_of(self)))
        return PyErr_Format(PyExc_BufferError, "only CPU and CUDA tensors can be exported");
    if (cr_py_tensor_of(self)->conj)
        return PyErr_Format(PyExc_BufferError,
                            "Can't export tensors with the conjugate bit set");
    if (cr_py_tensor_of(self)->neg)
        return PyErr_Format(PyExc_BufferError,
                            "Can't export tensors with the negative bit set");
    if (!stream_of_importer(cr_py_tensor_of(self), stream))
        return NULL;
    source = exported_source(self, copy, to);
    out = source ? export(cr_py_tensor_of(source), versioned) : NULL;
    Py_XDECREF(source);
    return out;
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    dl_device d = to_dl_device(cr_py_tensor_of(self));

    (void)unused;
    if (!is_exportable(cr_py_tensor_of(self)))
        return PyErr_Format(PyExc_ValueError, "only CPU and CUDA tensors can be exported");
    return Py_BuildValue("(ii)", d.device_type, d.device_id);
}

/* --- import --- */

#define RELEASE(type)                                                                          \
    static void release_##type(void *owner)                                                    \
    {                                                                                          \
        type *d = owner;                                                                       \
                                                                                               \
        if (d->deleter && Py_IsInitialized()) {                                                \
            PyGILState_STATE lock = PyGILState_Ensure();                                       \
            d->deleter(d);                                                                     \
            PyGILState_Release(lock);                                                          \
        }                                                                                      \
    }
RELEASE(dl_managed)
RELEASE(dl_versioned)

static size_t dlpack_extent(const dl_tensor *d, const int64_t *stride, size_t item)
{
    size_t last = 0;

    for (int i = 0; i < d->ndim; i++) {
        if (!d->shape[i])
            return 0;
        last += (size_t)(d->shape[i] - 1) * (size_t)stride[i];
    }
    return (last + 1) * item;
}

static int read_strides(const dl_tensor *d, int64_t *stride)
{
    int64_t step = 1;

    for (int i = d->ndim - 1; i >= 0; i--) {
        stride[i] = d->strides ? d->strides[i] : step;
        step *= d->shape[i];
        if (stride[i] < 0) {
            PyErr_SetString(PyExc_BufferError,
                            "tensors with negative strides are not supported");
            return -1;
        }
    }
    return 0;
}

/* The device of imported memory; false if it is not there. */
static bool from_dl_device(cr_device *out, dl_device d)
{
    const cr_device_ops *ops = d.device_type == DL_CUDA ? cr_device_of(CR_CUDA) : NULL;

    *out = CR_HOST;
    if (d.device_type == DL_CPU)
        return true;
    if (!ops || d.device_id < 0 || d.device_id >= ops->count())
        return false;
    *out = (cr_device){.kind = CR_CUDA, .index = (uint8_t)d.device_id};
    return true;
}

/* Makes a tensor over the memory that `d` describes.  On success the tensor's storage calls
 * release(owner) when it is freed. */
static cr_tensor *dlpack_import(const dl_tensor *d, void (*release)(void *), void *owner)
{
    cr_dtype t = from_dl(d->dtype);
    int64_t stride[CR_MAX_DIMS];
    cr_device device;
    cr_storage *s;
    cr_tensor *out;

    if (!from_dl_device(&device, d->device) || t == CR_DTYPE_NONE || d->ndim > CR_MAX_DIMS) {
        PyErr_Format(PyExc_BufferError,
                     "from_dlpack: device type %d, type code %d with %d bits are not supported",
                     d->device.device_type, d->dtype.code, d->dtype.bits);
        return NULL;
    }
    if (read_strides(d, stride) < 0)
        return NULL;
    cr_status st =
        cr_storage_foreign(&s, (char *)d->data + d->byte_offset,
                           dlpack_extent(d, stride, cr_dtype_size(t)), release, owner);
    if (!st) {
        s->device = device;
        st = cr_tensor_over(&out, s, t, d->ndim, d->shape, stride, 0);
        if (st) {
            s->release = NULL; /* on failure the capsule still owns the memory */
            cr_storage_drop(s);
        }
    }
    if (st)
        cr_py_raise(st);
    return st ? NULL : out;
}

static PyObject *from_capsule(PyObject *capsule)
{
    cr_tensor *t;

    if (PyCapsule_IsValid(capsule, versioned_name)) {
        dl_versioned *d = PyCapsule_GetPointer(capsule, versioned_name);
        t = dlpack_import(&d->tensor, release_dl_versioned, d);
        if (t)
            PyCapsule_SetName(capsule, "used_dltensor_versioned");
    } else if (PyCapsule_IsValid(capsule, plain_name)) {
        dl_managed *d = PyCapsule_GetPointer(capsule, plain_name);
        t = dlpack_import(&d->tensor, release_dl_managed, d);
        if (t)
            PyCapsule_SetName(capsule, "used_dltensor");
    } else {
        return PyErr_Format(
            PyExc_RuntimeError,
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be "
            "consumed only once, so you might have already constructed a tensor from it once.");
    }
    return t ? cr_py_wrap(t) : NULL;
}

/* The thread's stream on the exporter's CUDA device, as an importer names it; None for another
 * device.  A new reference. */
static PyObject *own_stream(PyObject *x)
{
    PyObject *where = PyObject_CallMethod(x, "__dlpack_device__", NULL);
    dl_device d = {0, 0};
    cr_device device;

    if (!where || !PyArg_ParseTuple(where, "ii", &d.device_type, &d.device_id))
        PyErr_Clear(); /* an exporter without devices */
    Py_XDECREF(where);
    if (d.device_type != DL_CUDA || !from_dl_device(&device, d))
        return Py_NewRef(Py_None);
    void *stream = cr_device_of(CR_CUDA)->stream(device.index);
    return PyLong_FromVoidPtr(stream ? stream : (void *)1);
}

static PyObject *ask_for_capsule(PyObject *x)
{
    PyObject *method, *kwargs, *none, *stream, *capsule = NULL;

    if (!PyObject_HasAttrString(x, "__dlpack__"))
        return Py_NewRef(x); /* from_capsule reports an object that is no capsule */
    method = PyObject_GetAttrString(x, "__dlpack__");
    if (!method)
        return NULL;
    stream = own_stream(x);
    kwargs = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
    none = PyTuple_New(0);
    if (kwargs && stream && stream != Py_None && PyDict_SetItemString(kwargs, "stream", stream))
        Py_CLEAR(kwargs);
    if (kwargs && none && stream)
        capsule = PyObject_Call(method, none, kwargs);
    /* an exporter without max_version */
    if (!capsule && kwargs && none && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        if (!PyDict_DelItemString(kwargs, "max_version"))
            capsule = PyObject_Call(method, none, kwargs);
    }
    Py_XDECREF(stream);
    Py_XDECREF(kwargs);
    Py_XDECREF(none);
    Py_DECREF(method);
    return capsule;
}

static PyObject *from_dlpack(PyObject *m, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ext_tensor", "device", "copy", NULL};
    PyObject *x, *device = Py_None, *copy = Py_None, *capsule, *out;

    (void)m;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OO:from_dlpack", names, &x, &device,
                                     &copy))
        return NULL;
    capsule = PyCapsule_CheckExact(x) ? Py_NewRef(x) : ask_for_capsule(x);
    out = capsule ? from_capsule(capsule) : NULL;
    Py_XDECREF(capsule);
    if (!out || copy != Py_True)
        return out;
    PyObject *clone = PyObject_CallMethod(out, "clone", NULL);
    Py_DECREF(out);
    return clone;
}

static PyObject *to_dlpack(PyObject *m, PyObject *x)
{
    PyObject *none = PyTuple_New(0), *out;

    (void)m;
    if (!none)
        return NULL;
    if (!cr_py_is_tensor(x)) {
        Py_DECREF(none);
        return PyErr_Format(PyExc_TypeError, "to_dlpack(): a tensor is expected, not %s",
                            Py_TYPE(x)->tp_name);
    }
    out = tensor_dlpack(x, none, NULL);
    Py_DECREF(none);
    return out;
}

#define KEYWORDS(f) (PyCFunction)(void (*)(void))(f), METH_VARARGS | METH_KEYWORDS
PyMethodDef cr_py_dlpack_methods[] = {
    {"__dlpack__", KEYWORDS(tensor_dlpack), "Makes a DLPack capsule of the tensor's memory."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, NULL},
    {0}};

static PyMethodDef functions[] = {
    {"from_dlpack", KEYWORDS(from_dlpack),
     "A tensor over the memory of another library's array."},
    {"to_dlpack", to_dlpack, METH_O, "Makes a DLPack capsule of a tensor's memory."},
    {0}};

int cr_py_dlpack_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
