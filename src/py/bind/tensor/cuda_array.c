/* Arrays of other libraries on a CUDA device, by their __cuda_array_interface__. */
#include "device/cuda/cuda.h"
#include "device/facts.h"
#include "py/bind/bind.h"
#include "space/shape_text.h"
#include <string.h>

/* What the interface's dict says; the objects are borrowed. */
typedef struct {
    PyObject *shape, *strides, *stream;
    void *data;
    cr_dtype dtype;
    int ndim;
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    size_t extent; /* bytes from the first element to the end of the last one */
} cuda_array;

/* The dtype of a type string of NumPy, such as "<f4". */
static int array_dtype(cr_dtype *out, PyObject *given)
{
    static const struct {
        const char *text;
        cr_dtype dtype;
    } rows[] = {{"b1", CR_BOOL}, {"u1", CR_U8},   {"i1", CR_I8},  {"i2", CR_I16},
                {"i4", CR_I32},  {"i8", CR_I64},  {"u2", CR_U16}, {"u4", CR_U32},
                {"u8", CR_U64},  {"f2", CR_F16},  {"f4", CR_F32}, {"f8", CR_F64},
                {"c8", CR_C64},  {"c16", CR_C128}};
    const char *text = PyUnicode_Check(given) ? PyUnicode_AsUTF8(given) : NULL;

    text += text && *text && strchr("<|=", *text) ? 1 : 0;
    if (!text || !*text || !strchr("bifucUSV", *text) || text[1] < '0' || text[1] > '9') {
        PyErr_Clear();
        PyErr_SetString(PyExc_ValueError, "cannot parse `typestr`");
        return -1;
    }
    for (size_t i = 0; i < CR_LEN(rows); i++)
        if (!strcmp(rows[i].text, text)) {
            *out = rows[i].dtype;
            return 0;
        }
    PyErr_Format(PyExc_TypeError, "can't convert an array of type %s", text);
    return -1;
}

static int array_sizes(int64_t *out, PyObject *given, int n)
{
    for (int d = 0; d < n; d++) {
        PyObject *item = PySequence_GetItem(given, d);
        out[d] = item ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

static int array_overflow(const cuda_array *a)
{
    PyErr_Format(PyExc_RuntimeError, "Storage size calculation overflowed with sizes=%s",
                 cr_shape_text(a->ndim, a->size));
    return -1;
}

static int array_check_sizes(const cuda_array *a)
{
    for (int d = 0; d < a->ndim; d++)
        if (a->size[d] < 0) {
            PyErr_Format(PyExc_RuntimeError,
                         "Trying to create tensor with negative dimension %lld: %s",
                         (long long)a->size[d], cr_shape_text(a->ndim, a->size));
            return -1;
        }
    return 0;
}

static int array_strides(cuda_array *a)
{
    int64_t item = (int64_t)cr_dtype_size(a->dtype), step = 1;

    for (int d = a->ndim - 1; d >= 0; d--) {
        a->stride[d] = step;
        if (CR_MUL_OVERFLOW(step, a->size[d] ? a->size[d] : 1, &step))
            return array_overflow(a);
    }
    if (!a->strides || a->strides == Py_None)
        return 0;
    if (!PySequence_Check(a->strides) || PySequence_Size(a->strides) != a->ndim) {
        PyErr_Clear();
        PyErr_SetString(PyExc_TypeError,
                        "strides must be a sequence of the same length as shape");
        return -1;
    }
    if (array_sizes(a->stride, a->strides, a->ndim) < 0)
        return -1;
    for (int d = 0; d < a->ndim; d++) {
        if (a->stride[d] % item || a->stride[d] < 0) {
            PyErr_SetString(PyExc_ValueError,
                            a->stride[d] < 0 ? "arrays with negative strides are not supported"
                                             : "given array strides not a multiple of the "
                                               "element byte size. Make a copy of the array to "
                                               "reallocate the memory.");
            return -1;
        }
        a->stride[d] /= item;
    }
    return 0;
}

static int array_extent(cuda_array *a)
{
    int64_t last = 1, step, bytes;

    for (int d = 0; d < a->ndim; d++)
        if (!a->size[d])
            return 0;
    for (int d = 0; d < a->ndim; d++)
        if (CR_MUL_OVERFLOW(a->size[d] - 1, a->stride[d], &step) ||
            CR_ADD_OVERFLOW(last, step, &last))
            return array_overflow(a);
    if (CR_MUL_OVERFLOW(last, (int64_t)cr_dtype_size(a->dtype), &bytes))
        return array_overflow(a);
    a->extent = (size_t)bytes;
    return 0;
}

static int array_data(cuda_array *a, PyObject *given)
{
    int writes = given && PyTuple_Check(given) && PyTuple_GET_SIZE(given) == 2
                     ? PyObject_IsTrue(PyTuple_GET_ITEM(given, 1))
                     : -1;

    if (writes < 0)
        PyErr_SetString(PyExc_TypeError, given ? "`data` must be a 2-tuple of (int, bool)"
                                               : "attribute `shape` data exist");
    else if (writes)
        PyErr_SetString(PyExc_TypeError,
                        "the read only flag is not supported, should always be False");
    else
        a->data = PyLong_AsVoidPtr(PyTuple_GET_ITEM(given, 0));
    return PyErr_Occurred() ? -1 : 0;
}

static int array_read(cuda_array *a, PyObject *dict)
{
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "`__cuda_array_interface__` must be a dict");
        return -1;
    }
    a->shape = PyDict_GetItemString(dict, "shape");
    a->strides = PyDict_GetItemString(dict, "strides");
    a->stream = PyDict_GetItemString(dict, "stream");
    PyObject *type = PyDict_GetItemString(dict, "typestr");
    if (!a->shape || !type) {
        PyErr_SetString(PyExc_TypeError, a->shape ? "attribute `typestr` must exist"
                                                  : "attribute `shape` must exist");
        return -1;
    }
    Py_ssize_t n = PySequence_Check(a->shape) ? PySequence_Size(a->shape) : -1;
    if (n < 0 || n > CR_MAX_DIMS) {
        PyErr_SetString(PyExc_TypeError, "shape and strides must be sequences");
        return -1;
    }
    a->ndim = (int)n;
    if (array_dtype(&a->dtype, type) < 0 || array_sizes(a->size, a->shape, a->ndim) < 0 ||
        array_data(a, PyDict_GetItemString(dict, "data")) < 0 || array_check_sizes(a) < 0 ||
        array_strides(a) < 0)
        return -1;
    return array_extent(a);
}

/* The thread's stream waits for the one on which the array is computed. */
static const char *array_wait(int index, PyObject *stream)
{
    const cr_device_ops *ops = cr_device_of(CR_CUDA);
    void *own = ops->stream(index), *event, *other;

    if (!stream || stream == Py_None)
        return NULL;
    other = PyLong_AsVoidPtr(stream);
    if (PyErr_Occurred())
        return NULL;
    other = other == (void *)1 ? NULL : other; /* the default stream */
    if (other == own)
        return NULL;
    const char *error = ops->event_new(index, &event);
    if (error)
        return error;
    error = ops->set_stream(index, other);
    if (!error)
        error = ops->event_record(index, event);
    const char *back = ops->set_stream(index, own);
    if (!error)
        error = back ? back : ops->event_wait(index, event);
    ops->event_drop(index, event);
    return error;
}

static void array_release(void *owner)
{
    if (Py_IsInitialized()) {
        PyGILState_STATE lock = PyGILState_Ensure();
        Py_DECREF((PyObject *)owner);
        PyGILState_Release(lock);
    }
}

static cr_tensor *array_tensor(const cuda_array *a, PyObject *x, int index)
{
    cr_storage *s;
    cr_tensor *out = NULL;
    cr_status st = cr_storage_foreign(&s, a->data, a->extent, array_release, x);

    if (!st) {
        s->device = (cr_device){.kind = CR_CUDA, .index = (uint8_t)index};
        Py_INCREF(x);
        st = cr_tensor_over(&out, s, a->dtype, a->ndim, a->size, a->stride, 0);
        if (st)
            cr_storage_drop(s);
    }
    if (!st)
        return out;
    cr_py_raise(st);
    return NULL;
}

cr_tensor *cr_py_tensor_from_cuda_array(PyObject *x)
{
    PyObject *dict = PyObject_GetAttrString(x, "__cuda_array_interface__");
    const cr_device_ops *ops = cr_device_of(CR_CUDA);
    cuda_array a = {.data = NULL};
    cr_tensor *out = NULL;
    int index = 0;

    if (!dict || array_read(&a, dict) < 0)
        goto done;
    cr_status st = CR_OK;
    if (!ops) {
        cr_device device;
        st = cr_device_to_copy_to(&device, cr_device_pack(CR_CUDA, 0));
        st = st ? st : cr_fail(CR_RUNTIME, "No CUDA GPUs are available");
    } else {
        index = ops->current();
        st = cr_device_status(a.data || a.extent ? cr_cuda_device_of(&index, a.data) : NULL);
        st = st ? st : cr_device_status(array_wait(index, a.stream));
    }
    if (st)
        cr_py_raise(st);
    else if (!PyErr_Occurred())
        out = array_tensor(&a, x, index);
done:
    Py_XDECREF(dict);
    return out;
}
