/* Sharing memory with NumPy and other exporters of the buffer protocol.
 *
 * This file does not link to NumPy.  Arrays are imported as buffers.  They are exported by
 * numpy.ndarray(shape, dtype, buffer, offset, strides) over an object that exports a storage's
 * bytes. */
#include "py/bind/bind.h"
#include "tensor/sparse.h"
#include <string.h>

/* --- element types --- */

/* Buffer formats in native order.  Several formats may have the same dtype. */
static const struct {
    const char *format;
    uint8_t dtype;
} formats[] = {{"?", CR_BOOL}, {"B", CR_U8},  {"b", CR_I8},   {"h", CR_I16},
               {"i", CR_I32},  {"l", CR_I64}, {"q", CR_I64},  {"e", CR_F16},
               {"f", CR_F32},  {"d", CR_F64}, {"Zf", CR_C64}, {"Zd", CR_C128},
               {"H", CR_U16},  {"I", CR_U32}, {"L", CR_U64},  {"Q", CR_U64}};

static const char *format_of(cr_dtype t)
{
    for (size_t i = 0; i < CR_LEN(formats); i++)
        if (formats[i].dtype == t)
            return formats[i].format;
    return NULL;
}

static cr_dtype dtype_of_format(const char *format, Py_ssize_t itemsize)
{
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    for (size_t i = 0; i < CR_LEN(formats); i++)
        if (!strcmp(formats[i].format, format) &&
            cr_dtype_size((cr_dtype)formats[i].dtype) == (size_t)itemsize)
            return (cr_dtype)formats[i].dtype;
    return CR_DTYPE_NONE;
}

/* --- import --- */

/* numpy.ndarray, which the type of `x` is or derives from, or NULL. */
static PyTypeObject *ndarray_of(PyObject *x)
{
    PyTypeObject *t = Py_TYPE(x);

    while (t && strcmp(t->tp_name, "numpy.ndarray") != 0)
        t = t->tp_base;
    return t;
}

bool cr_py_is_array(PyObject *x)
{
    if (PyList_Check(x) || PyTuple_Check(x) || PyLong_Check(x) || PyFloat_Check(x) ||
        !PyObject_CheckBuffer(x))
        return false;
    return ndarray_of(x) != NULL;
}

static void numpy_release_buffer(void *owner)
{
    Py_buffer *view = owner;

    if (!Py_IsInitialized())
        return;
    PyGILState_STATE lock = PyGILState_Ensure();
    PyBuffer_Release(view);
    PyMem_RawFree(view);
    PyGILState_Release(lock);
}

static int numpy_unsupported(PyObject *array)
{
    PyErr_Clear();
    PyObject *dtype = PyObject_GetAttrString(array, "dtype");
    PyObject *type = dtype ? PyObject_GetAttrString(dtype, "type") : NULL;
    PyObject *order = dtype ? PyObject_GetAttrString(dtype, "byteorder") : NULL;

    PyErr_Clear();
    if (order && PyUnicode_Check(order) && !PyUnicode_CompareWithASCIIString(order, ">"))
        PyErr_SetString(
            PyExc_ValueError,
            "given numpy array has byte order different from the native byte order. "
            "Conversion between byte orders is currently not supported.");
    else
        PyErr_Format(
            PyExc_TypeError,
            "can't convert np.ndarray of type %s. The only supported types are: float64, "
            "float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, "
            "uint32, uint16, uint8, and bool.",
            type && PyType_Check(type) ? ((PyTypeObject *)type)->tp_name
                                       : Py_TYPE(array)->tp_name);
    Py_XDECREF(dtype);
    Py_XDECREF(type);
    Py_XDECREF(order);
    return -1;
}

/* The strides that numpy.ndarray itself says, whatever a subclass makes of the attribute. */
static PyObject *ndarray_strides(PyObject *array)
{
    PyTypeObject *type = ndarray_of(array);
    PyObject *said = PyObject_GetAttrString((PyObject *)type, "strides");
    descrgetfunc get = said ? Py_TYPE(said)->tp_descr_get : NULL;
    PyObject *out = get ? get(said, array, (PyObject *)Py_TYPE(array)) : NULL;

    Py_XDECREF(said);
    return out;
}

/* The strides of a buffer in bytes.  A dim of fewer than two elements, and each dim of an empty
 * array, has the stride that the array itself says, as in torch: NumPy's buffers replace it. */
static int read_strides(PyObject *array, const Py_buffer *view, Py_ssize_t *stride)
{
    bool replaced = false;

    for (int i = 0; i < view->ndim; i++) {
        stride[i] = view->strides[i];
        replaced = replaced || view->shape[i] < 2;
    }
    PyObject *own = replaced && cr_py_is_array(array) ? ndarray_strides(array) : NULL;
    bool same = own && PyTuple_Check(own) && PyTuple_GET_SIZE(own) == view->ndim;
    for (int i = 0; same && i < view->ndim; i++)
        if (view->shape[i] < 2 || !view->len)
            stride[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(own, i));
    Py_XDECREF(own);
    return PyErr_Occurred() ? -1 : 0;
}

/* Reads sizes and strides in elements, with torch's errors. */
static int read_geometry(PyObject *array, const Py_buffer *view, cr_geometry *g, size_t *bytes)
{
    size_t extent = (size_t)view->itemsize;
    Py_ssize_t stride[PyBUF_MAX_NDIM];

    if (read_strides(array, view, stride) < 0)
        return -1;
    g->ndim = view->ndim;
    for (int i = 0; i < view->ndim; i++) {
        g->size[i] = view->shape[i];
        if (stride[i] < 0) {
            PyErr_SetString(
                PyExc_ValueError,
                "At least one stride in the given numpy array is negative, and tensors "
                "with negative strides are not currently supported. (You can probably "
                "work around this by making a copy of your array  with array.copy().) ");
            return -1;
        }
        if (stride[i] % view->itemsize && view->shape[i] > 1) {
            PyErr_SetString(
                PyExc_ValueError,
                "given numpy array strides not a multiple of the element byte size. "
                "Copy the numpy array to reallocate the memory.");
            return -1;
        }
        g->stride[i] = stride[i] / view->itemsize;
        if (view->shape[i] > 0)
            extent += (size_t)(view->shape[i] - 1) * (size_t)stride[i];
        else
            extent = 0;
    }
    *bytes = view->len ? extent : 0;
    return 0;
}

static int warn_read_only(const Py_buffer *view)
{
    static bool said;

    if (!view->readonly)
        return 0;
    return cr_py_warn_once(&said,
                           "The given NumPy array is not writable, and PyTorch does not "
                           "support non-writable tensors. "
                           "This means writing to this tensor will result in undefined "
                           "behavior. You may want to copy "
                           "the array to protect its data or make it writable before "
                           "converting it to a tensor. This "
                           "type of warning will be suppressed for the rest of this program.");
}

/* A tensor over the buffer of `array`.  Takes ownership of `view`, which is released with the
 * storage. */
static cr_tensor *numpy_over_buffer(PyObject *array, Py_buffer *view, cr_dtype t)
{
    cr_geometry g;
    cr_storage *s = NULL;
    cr_tensor *out = NULL;
    size_t bytes;
    cr_status st = CR_OK;

    if (read_geometry(array, view, &g, &bytes) < 0) {
        numpy_release_buffer(view);
        return NULL;
    }
    st = cr_storage_foreign(&s, view->buf, bytes, numpy_release_buffer, view);
    if (st) {
        numpy_release_buffer(view);
    } else {
        st = cr_tensor_over(&out, s, t, g.ndim, g.size, g.stride, 0);
        if (st)
            cr_storage_drop(s);
    }
    if (st)
        cr_py_raise(st);
    return st ? NULL : out;
}

cr_tensor *cr_py_tensor_from_array(PyObject *array, bool warn)
{
    Py_buffer *view = PyMem_RawMalloc(sizeof *view);

    if (!view) {
        PyErr_NoMemory();
        return NULL;
    }
    if (PyObject_GetBuffer(array, view, PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0) {
        PyMem_RawFree(view);
        if (cr_py_is_array(array))
            numpy_unsupported(array);
        return NULL;
    }
    cr_dtype t = dtype_of_format(view->format ? view->format : "B", view->itemsize);
    if (t == CR_DTYPE_NONE)
        numpy_unsupported(array);
    if (t == CR_DTYPE_NONE || (warn && warn_read_only(view) < 0)) {
        numpy_release_buffer(view);
        return NULL;
    }
    return numpy_over_buffer(array, view, t);
}

/* The type of the arrays that stand for tensors in compiled functions (_numpy/array.py). */
static PyTypeObject *numpy_stand_in;

bool cr_py_is_stand_in(PyObject *x) { return numpy_stand_in && Py_IS_TYPE(x, numpy_stand_in); }

cr_tensor *cr_py_tensor_of_stand_in(PyObject *x)
{
    PyObject *tensor = PyObject_GetAttrString(x, "_t");
    cr_tensor *t = tensor ? cr_keep(cr_py_tensor_of(tensor)) : NULL;

    Py_XDECREF(tensor);
    return t;
}

static PyObject *set_stand_in(PyObject *m, PyObject *type)
{
    (void)m;
    if (!PyType_Check(type))
        return PyErr_Format(PyExc_TypeError, "expected a type");
    Py_XSETREF(numpy_stand_in, (PyTypeObject *)Py_NewRef(type));
    Py_RETURN_NONE;
}

static PyObject *from_numpy(PyObject *m, PyObject *array)
{
    (void)m;
    if (cr_py_is_stand_in(array))
        return PyObject_GetAttrString(array, "_t");
    if (!cr_py_is_array(array))
        return PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %s)",
                            Py_TYPE(array)->tp_name);
    if (cr_py_note_untraced("from_numpy") < 0)
        return NULL;
    cr_tensor *t = cr_py_tensor_from_array(array, true);
    return t ? cr_py_wrap(t) : NULL;
}

/* Computes the part [offset, offset + count elements) of a buffer of bytes. */
static int cut_buffer(Py_buffer *view, size_t item, Py_ssize_t offset, Py_ssize_t *count)
{
    Py_ssize_t rest = view->len - offset;

    if (view->len <= 0 || *count == 0)
        PyErr_Format(PyExc_ValueError, "both buffer length (%zd) and count (%zd) must not be 0",
                     view->len, *count);
    else if (offset < 0 || offset >= view->len)
        PyErr_Format(PyExc_ValueError,
                     "offset (%zd bytes) must be non-negative and no greater than buffer "
                     "length (%zd bytes) minus 1",
                     offset, view->len);
    else if (*count < 0 && rest % (Py_ssize_t)item)
        PyErr_Format(PyExc_ValueError,
                     "buffer length (%zd bytes) after offset (%zd bytes) must be a multiple of "
                     "element size (%zu)",
                     rest, offset, item);
    else if (*count > 0 && *count > rest / (Py_ssize_t)item)
        PyErr_Format(PyExc_ValueError,
                     "requested buffer length (%zd * %zu bytes) after offset (%zd bytes) must "
                     "not be greater than actual buffer length (%zd bytes)",
                     *count, item, offset, view->len);
    else {
        *count = *count < 0 ? rest / (Py_ssize_t)item : *count;
        return 0;
    }
    return -1;
}

static PyObject *from_buffer(PyObject *m, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"buffer", "dtype", "count", "offset", "requires_grad", NULL};
    PyObject *source, *dtype = NULL;
    Py_ssize_t count = -1, offset = 0;
    int requires_grad = 0;
    Py_buffer *view;
    cr_storage *s;
    cr_tensor *out = NULL;

    (void)m;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$Onnp:frombuffer", names, &source, &dtype,
                                     &count, &offset, &requires_grad))
        return NULL;
    if (!dtype)
        return PyErr_Format(PyExc_TypeError,
                            "frombuffer() missing 1 required positional arguments: \"dtype\"");
    cr_dtype t = cr_py_dtype_from(dtype);
    if (t == CR_DTYPE_NONE && cr_py_refuse_named(dtype))
        return NULL;
    if (t == CR_DTYPE_NONE)
        return PyErr_Format(PyExc_TypeError,
                            "frombuffer(): argument 'dtype' must be torch.dtype, not %s",
                            Py_TYPE(dtype)->tp_name);
    if (!(view = PyMem_RawMalloc(sizeof *view)))
        return PyErr_NoMemory();
    if (PyObject_GetBuffer(source, view, PyBUF_SIMPLE) < 0) {
        PyMem_RawFree(view);
        return NULL;
    }
    if (cut_buffer(view, cr_dtype_size(t), offset, &count) < 0 ||
        (view->readonly &&
         PyErr_WarnEx(
             PyExc_UserWarning,
             "The given buffer is not writable, and PyTorch does not support non-writable "
             "tensors. This means you can write to the underlying (supposedly "
             "non-writable) buffer using the tensor. You may want to copy the buffer to "
             "protect its data or make it writable before converting it to a tensor. "
             "This type of warning will be suppressed for the rest of this program.",
             1) < 0)) {
        numpy_release_buffer(view);
        return NULL;
    }
    const int64_t size = count, stride = 1;
    cr_status st =
        cr_storage_foreign(&s, (char *)view->buf + offset, (size_t)count * cr_dtype_size(t),
                           numpy_release_buffer, view);
    if (st) {
        numpy_release_buffer(view);
        return cr_py_raise(st);
    }
    st = cr_tensor_over(&out, s, t, 1, &size, &stride, 0);
    if (st)
        cr_storage_drop(s);
    if (!st && requires_grad)
        st = cr_set_requires_grad(out, true);
    if (!st)
        return cr_py_wrap(out);
    cr_drop(out);
    return cr_py_raise(st);
}

/* --- export --- */

/* The buffer protocol of Tensor.  `internal` holds sizes and strides in bytes, and the
 * storage. */
int cr_py_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    const cr_tensor *t = cr_py_tensor_of(self);
    const char *format = format_of((cr_dtype)t->dtype);
    Py_ssize_t item = (Py_ssize_t)cr_dtype_size((cr_dtype)t->dtype), *both;

    view->obj = NULL;
    cr_py_note_read(t, CR_READ_BUFFER);
    if (cr_requires_grad(t) || cr_is_lazy(t) || t->layout || !format ||
        ((!cr_has_elements(t) || !cr_is_host(t->device)) && t->numel) ||
        (!t->contiguous && (flags & PyBUF_STRIDES) != PyBUF_STRIDES)) {
        PyErr_SetString(PyExc_BufferError, "this tensor cannot be exported as a buffer");
        return -1;
    }
    char *at;
    cr_status st = cr_reach_to_write(&at, t);
    if (st)
        return cr_py_raise_int(st);
    both = PyMem_Malloc((size_t)(2 * t->ndim + 1) * sizeof *both);
    if (!both) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < t->ndim; i++) {
        both[i] = (Py_ssize_t)t->size[i];
        both[t->ndim + i] = (Py_ssize_t)t->stride[i] * item;
    }
    *view = (Py_buffer){.buf = at,
                        .obj = Py_NewRef(self),
                        .len = (Py_ssize_t)t->numel * item,
                        .itemsize = item,
                        .ndim = t->ndim,
                        .internal = both};
    cr_storage_lend(t->storage);
    /* t's storage may be replaced */
    both[2 * t->ndim] = (Py_ssize_t)(uintptr_t)cr_storage_keep(t->storage);
    view->format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)format : NULL;
    view->shape = flags & PyBUF_ND ? both : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? both + t->ndim : NULL;
    return 0;
}

void cr_py_releasebuffer(PyObject *self, Py_buffer *view)
{
    Py_ssize_t *both = view->internal;
    cr_storage *lent = (cr_storage *)(uintptr_t)both[2 * view->ndim];

    (void)self;
    cr_storage_return(lent);
    cr_storage_drop(lent);
    PyMem_Free(both);
}

static PyObject *strides_in_bytes(const cr_tensor *t)
{
    int64_t bytes[CR_MAX_DIMS];

    for (int i = 0; i < t->ndim; i++)
        bytes[i] = t->stride[i] * (int64_t)cr_dtype_size((cr_dtype)t->dtype);
    return cr_py_ints_tuple(bytes, t->ndim);
}

static PyObject *make_array(const cr_tensor *t)
{
    static PyObject *ndarray;
    PyObject *storage, *shape, *strides, *out = NULL;

    if (!ndarray) {
        PyObject *numpy = PyImport_ImportModule("numpy");
        ndarray = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
        Py_XDECREF(numpy);
        if (!ndarray)
            return NULL;
    }
    storage = cr_py_storage_object(t->storage);
    shape = cr_py_ints_tuple(t->size, t->ndim);
    strides = strides_in_bytes(t);
    int64_t offset = t->offset * (int64_t)cr_dtype_size((cr_dtype)t->dtype);
    if (storage && shape && strides)
        out = t->numel ? PyObject_CallFunction(ndarray, "OsOLO", shape,
                                               cr_dtype_name((cr_dtype)t->dtype), storage,
                                               (long long)offset, strides)
                       : PyObject_CallFunction(ndarray, "Os", shape,
                                               cr_dtype_name((cr_dtype)t->dtype));
    Py_XDECREF(storage);
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return out;
}

static bool exportable(const cr_tensor *t)
{
    if (cr_is_dispatched(t))
        PyErr_SetString(PyExc_RuntimeError, ".numpy() is not supported for tensor subclasses.");
    else if (!cr_is_host(t->device))
        PyErr_Format(PyExc_TypeError,
                     "can't convert %s device type tensor to numpy. Use Tensor.cpu() to copy "
                     "the tensor to host memory first.",
                     cr_device_print(t->device).text);
    else if (t->layout)
        PyErr_Format(PyExc_TypeError,
                     "can't convert %s layout tensor to numpy. Use Tensor.to_dense() first.",
                     cr_layout_text(t->layout));
    else if (!format_of((cr_dtype)t->dtype))
        PyErr_Format(PyExc_TypeError, "Got unsupported ScalarType %s",
                     cr_dtype_infos[t->dtype].legacy);
    else if (cr_requires_grad(t) && !cr_thread.no_grad)
        PyErr_SetString(PyExc_RuntimeError,
                        "Can't call numpy() on Tensor that requires grad. Use "
                        "tensor.detach().numpy() instead.");
    else if (t->conj)
        PyErr_SetString(PyExc_RuntimeError,
                        "Can't call numpy() on Tensor that has conjugate bit set. Use "
                        "tensor.resolve_conj().numpy() instead.");
    else if (t->neg)
        PyErr_SetString(PyExc_RuntimeError,
                        "Can't call numpy() on Tensor that has negative bit set. Use "
                        "tensor.resolve_neg().numpy() instead.");
    else
        return true;
    return false;
}

static PyObject *tensor_numpy(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"force", NULL};
    int force = 0;
    PyObject *plain, *out;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$p:numpy", names, &force))
        return NULL;
    if (cr_py_note_untraced("numpy") < 0)
        return NULL;
    cr_py_note_read(cr_py_tensor_of(self), CR_READ_NUMPY);
    if (!force)
        return exportable(cr_py_tensor_of(self)) ? make_array(cr_py_tensor_of(self)) : NULL;
    plain = PyObject_CallMethod(self, "detach", NULL);
    if (plain && cr_is_lazy(cr_py_tensor_of(plain)))
        Py_SETREF(plain, PyObject_CallMethod(plain, "clone", NULL));
    out =
        plain && exportable(cr_py_tensor_of(plain)) ? make_array(cr_py_tensor_of(plain)) : NULL;
    Py_XDECREF(plain);
    return out;
}

/* __array__(dtype=None, copy=None) */
static PyObject *tensor_array(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None, *array, *out;

    cr_py_note_read(cr_py_tensor_of(self), CR_READ_ARRAY);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", names, &dtype, &copy) ||
        !exportable(cr_py_tensor_of(self)))
        return NULL;
    array = make_array(cr_py_tensor_of(self));
    if (!array || (dtype == Py_None && copy != Py_True))
        return array;
    out = dtype == Py_None ? PyObject_CallMethod(array, "copy", NULL)
                           : PyObject_CallMethod(array, "astype", "OssOO", dtype, "K", "unsafe",
                                                 Py_True, copy == Py_True ? Py_True : Py_False);
    Py_DECREF(array);
    return out;
}

#define KEYWORDS(f) (PyCFunction)(void (*)(void))(f), METH_VARARGS | METH_KEYWORDS
static PyMethodDef functions[] = {
    {"_set_stand_in", set_stand_in, METH_O, NULL},

    {"from_numpy", from_numpy, METH_O,
     "A tensor over the memory of a numpy.ndarray, of its sizes and dtype.\n\n"
     "    >>> torch.from_numpy(torch.ones(2).numpy())\n"
     "    tensor([1., 1.])\n"},
    {"frombuffer", KEYWORDS(from_buffer), "A vector over the memory of a buffer."},
    {0}};

PyMethodDef cr_py_numpy_methods[] = {
    {"numpy", KEYWORDS(tensor_numpy),
     "A numpy.ndarray over the tensor's memory; force=True detaches, copies to the host and "
     "resolves conj first.\n\n"
     "    >>> torch.tensor([1, 2]).numpy()\n"
     "    array([1, 2])\n"},
    {"__array__", KEYWORDS(tensor_array), NULL},
    {0}};

int cr_py_numpy_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
