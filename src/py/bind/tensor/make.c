/* tensor(), as_tensor(), asarray(): make tensors from data of any kind. */
#include "graph/graph.h"
#include "py/bind/bind.h"
#include <string.h>

/* --- nested sequences --- */

typedef struct {
    cr_shape shape;
    cr_dtype dtype; /* dtype of the elements seen so far; CR_DTYPE_NONE before the first */
} survey;

static bool make_is_text(PyObject *x) { return PyUnicode_Check(x) || PyBytes_Check(x); }

static bool is_sequence(PyObject *x)
{
    return PyList_Check(x) || PyTuple_Check(x) ||
           (PySequence_Check(x) && !make_is_text(x) && !cr_py_is_tensor(x));
}

static int bad_text(PyObject *x)
{
    PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(x)->tp_name);
    return -1;
}

/* Reads the sizes from the first items. */
static int survey_shape(survey *s, PyObject *data)
{
    PyObject *x = Py_NewRef(data);

    while (is_sequence(x)) {
        Py_ssize_t n = PySequence_Size(x);
        if (n < 0 || s->shape.ndim == CR_MAX_DIMS) {
            if (n >= 0)
                PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(x)->tp_name);
            Py_DECREF(x);
            return -1;
        }
        s->shape.size[s->shape.ndim++] = n;
        PyObject *first = n ? PySequence_GetItem(x, 0) : NULL;
        Py_DECREF(x);
        if (!n)
            return 0;
        if (!first)
            return -1;
        x = first;
    }
    bool text = make_is_text(x) && s->shape.ndim;
    if (text)
        PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(x)->tp_name);
    Py_DECREF(x);
    return text ? -1 : 0;
}

static int make_meet(survey *s, cr_dtype t)
{
    cr_status st = CR_OK;

    if (s->dtype == CR_DTYPE_NONE)
        s->dtype = t;
    else
        st = cr_promote_checked(&s->dtype, s->dtype, t);
    return st ? cr_py_raise_int(st) : 0;
}

/* CR_DTYPE_NONE, with an exception after an interrupt. */
static cr_dtype numpy_scalar_dtype(PyObject *x)
{
    PyObject *dtype = PyObject_GetAttrString(x, "dtype");
    PyObject *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
    cr_dtype t = text ? cr_dtype_find(text) : CR_DTYPE_NONE;

    cr_py_forget_error();
    Py_XDECREF(dtype);
    Py_XDECREF(name);
    return t;
}

static int survey_scalar(survey *s, PyObject *x)
{
    cr_scalar value;

    if (PyFloat_CheckExact(x))
        return make_meet(s, cr_default_dtype());
    if (PyLong_Check(x))
        return make_meet(s, PyBool_Check(x) ? CR_BOOL : CR_I64);
    cr_dtype t = cr_py_is_numpy_scalar(x) ? numpy_scalar_dtype(x) : CR_DTYPE_NONE;
    if (PyErr_Occurred())
        return -1;
    if (t != CR_DTYPE_NONE)
        return make_meet(s, t);
    cr_py_fit fit = cr_py_scalar_from(x, &value);
    if (fit == CR_PY_FITS)
        return make_meet(s, cr_number_dtype(value.category));
    if (fit == CR_PY_MISFIT)
        PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s", Py_TYPE(x)->tp_name);
    return -1;
}

static int survey_dtype(survey *s, PyObject *x, int depth);

static int survey_item(survey *s, PyObject *list, Py_ssize_t i, int depth)
{
    PyObject *item = cr_py_item(list, i);
    int done = item ? survey_dtype(s, item, depth + 1) : -1;

    Py_XDECREF(item);
    return done;
}

static int survey_dtype(survey *s, PyObject *x, int depth)
{
    if (cr_py_is_tensor(x))
        return make_meet(s, (cr_dtype)cr_py_tensor_of(x)->dtype);
    if (make_is_text(x))
        return bad_text(x);
    if (!is_sequence(x))
        return survey_scalar(s, x);
    if (depth > CR_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(x)->tp_name);
        return -1;
    }
    PyObject *fast = PySequence_Fast(x, "not a sequence");
    int done = fast ? 0 : -1;
    for (Py_ssize_t i = 0; !done && i < PySequence_Fast_GET_SIZE(fast); i++)
        done = survey_item(s, fast, i, depth);
    Py_XDECREF(fast);
    return done;
}

/* --- storing --- */

typedef struct {
    cr_tensor *t; /* row-major */
    size_t bytes;
} sink;

/* Raises torch's errors for numbers that do not fit integers of 64 bits. */
static bool fits_64_bits(PyObject *x, cr_scalar s, cr_dtype t)
{
    if (t == CR_U64 && s.category > CR_CAT_INT)
        PyErr_SetString(PyExc_TypeError, "an integer is required");
    else if (t == CR_U64 && s.i < 0 && !s.large && PyLong_Check(x))
        PyErr_SetString(PyExc_OverflowError, "can't convert negative int to unsigned");
    else if (s.large && t != CR_U64 && cr_dtype_category(t) == CR_CAT_INT)
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
    else
        return true;
    return false;
}

/* A whole number of any size as an element of a float or complex dtype. */
static int store_large(PyObject *x, cr_dtype t, char *at)
{
    double d = PyLong_AsDouble(x);

    if (d == -1.0 && PyErr_Occurred())
        return -1;
    cr_scalar_store(cr_scalar_float(d), t, at);
    return 0;
}

static int store_scalar(const sink *k, PyObject *x, char *at)
{
    cr_dtype t = (cr_dtype)k->t->dtype;
    cr_scalar s;
    cr_status st = CR_OK;

    if (PyLong_CheckExact(x) && (cr_dtype_is_float(t) || cr_dtype_is_complex(t)))
        return store_large(x, t, at);
    if (PyLong_CheckExact(x) && t == CR_BOOL) {
        *at = (char)PyObject_IsTrue(x);
        return 0;
    }
    if (cr_py_is_tensor(x)) {
        if (cr_py_tensor_of(x)->numel != 1) {
            PyErr_SetString(PyExc_ValueError,
                            "only one element tensors can be converted to Python scalars");
            return -1;
        }
        cr_py_note_read(cr_py_tensor_of(x), CR_READ_TENSOR);
        st = cr_tensor_item(&s, cr_py_tensor_of(x));
    } else {
        cr_py_fit fit = cr_py_scalar_from(x, &s);
        if (fit == CR_PY_MISFIT)
            PyErr_Format(PyExc_TypeError, "'%s' object cannot be interpreted as %s",
                         Py_TYPE(x)->tp_name,
                         cr_dtype_category(t) <= CR_CAT_INT ? "an integer" : "a number");
        if (fit == CR_PY_RAISED && PyErr_ExceptionMatches(PyExc_OverflowError) && t != CR_U64) {
            PyErr_Clear();
            PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        }
        if (fit != CR_PY_FITS)
            return -1;
    }
    if (st)
        return cr_py_raise_int(st);
    if (s.category == CR_CAT_COMPLEX && !cr_dtype_is_complex(t) && t != CR_BOOL) {
        PyErr_SetString(PyExc_TypeError,
                        cr_dtype_is_float(t)
                            ? "must be real number, not complex"
                            : "'complex' object cannot be interpreted as an integer");
        return -1;
    }
    if (!fits_64_bits(x, s, t))
        return -1;
    if (!cr_dtype_is_float(t) && !cr_dtype_is_complex(t) && !cr_scalar_fits(s, t)) {
        PyErr_Format(PyExc_RuntimeError,
                     "value cannot be converted to type %s without overflow", cr_dtype_name(t));
        return -1;
    }
    cr_scalar_store(s, t, at);
    return 0;
}

/* Fast path: Python floats to float32 or float64, ints to int64. */
static inline bool store_common(const sink *k, PyObject *x, char *at)
{
    int overflow;

    if (PyFloat_CheckExact(x) && k->t->dtype == CR_F32) {
        *(float *)(void *)at = (float)PyFloat_AS_DOUBLE(x);
        return true;
    }
    if (PyFloat_CheckExact(x) && k->t->dtype == CR_F64) {
        *(double *)(void *)at = PyFloat_AS_DOUBLE(x);
        return true;
    }
    if (!PyLong_CheckExact(x) || k->t->dtype != CR_I64)
        return false;
    *(int64_t *)(void *)at = PyLong_AsLongLongAndOverflow(x, &overflow);
    return !overflow;
}

static int make_store(const sink *k, PyObject *x, int dim, char *at);

static int warn_of_array(PyObject *item)
{
    static bool said;

    if (!cr_py_is_array(item))
        return 0;
    return cr_py_warn_once(&said,
                           "Creating a tensor from a list of numpy.ndarrays is extremely "
                           "slow. Please consider converting the list to a single "
                           "numpy.ndarray with numpy.array() before converting to a tensor.");
}

static int make_store_item(const sink *k, PyObject *list, Py_ssize_t i, int dim, char *at)
{
    PyObject *item = cr_py_item(list, i);
    int done = item ? 0 : -1;

    if (!done && dim + 1 < k->t->ndim)
        done = warn_of_array(item);
    if (!done)
        done = make_store(k, item, dim + 1, at);

    Py_XDECREF(item);
    return done;
}

static int make_store(const sink *k, PyObject *x, int dim, char *at)
{
    const cr_tensor *t = k->t;

    if (dim == t->ndim)
        return store_common(k, x, at) ? 0 : store_scalar(k, x, at);
    PyObject *fast = is_sequence(x) ? PySequence_Fast(x, "not a sequence") : NULL;
    if (!fast) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "not a sequence");
        return -1;
    }
    Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
    int done = n == t->size[dim] ? 0 : -1;
    if (done)
        PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)",
                     (long long)t->size[dim], dim, n);
    int64_t step = t->stride[dim] * (int64_t)k->bytes;
    for (Py_ssize_t i = 0; !done && i < n; i++)
        done = make_store_item(k, fast, i, dim, at + i * step);
    Py_DECREF(fast);
    return done;
}

static cr_tensor *from_sequence(PyObject *data, cr_dtype dtype)
{
    survey s = {.dtype = dtype};
    cr_tensor *t;

    if (make_is_text(data)) {
        bad_text(data);
        return NULL;
    }
    if (survey_shape(&s, data) < 0)
        return NULL;
    if (dtype == CR_DTYPE_NONE && survey_dtype(&s, data, 0) < 0)
        return NULL;
    if (s.dtype == CR_DTYPE_NONE)
        s.dtype = cr_default_dtype();
    cr_status st = cr_tensor_new(&t, s.dtype, CR_HOST, s.shape.ndim, s.shape.size);
    if (st) {
        cr_py_raise(st);
        return NULL;
    }
    const sink k = {t, cr_dtype_size(s.dtype)};
    char *to;
    st = cr_reach(&to, t);
    if (st)
        cr_py_raise(st);
    if (st || (t->numel && make_store(&k, data, 0, to) < 0)) {
        cr_drop(t);
        return NULL;
    }
    return t;
}

/* --- conversion --- */

/* Copies a sparse tensor.  Takes ownership of t. */
static cr_tensor *copy_sparse(cr_tensor *t, cr_dtype dtype, cr_device device)
{
    cr_tensor *plain = NULL, *made = NULL;
    cr_value place = {.tag = CR_DEVICE_VAL, .i = cr_packed_device(device)};
    cr_status st = cr_detached(&plain, t);

    if (!st)
        st = cr_call_tensor(
            &made, cr_py_find_op("_to_copy"),
            (cr_value[]){cr_of_tensor(plain), cr_of_dtype(dtype), cr_of_none(), place}, 4);
    cr_drop(plain);
    cr_drop(t);
    if (!st)
        return made;
    cr_py_raise(st);
    return NULL;
}

/* Copies t to new memory with this dtype and device.  Takes ownership of t. */
static cr_tensor *copy_as(cr_tensor *t, cr_dtype dtype, cr_device device)
{
    cr_tensor *made = NULL;

    if (t->layout)
        return copy_sparse(t, dtype, device);
    cr_status st = cr_tensor_new(&made, dtype, device, t->ndim, t->size);

    cr_view to, from;
    st = st ? st : cr_reach_view(&to, made);
    st = st ? st : cr_reach_view(&from, t);
    if (!st && to.data && from.data)
        st = cr_copy_elements(&to, &from);
    cr_drop(t);
    if (!st)
        return made;
    cr_drop(made);
    cr_py_raise(st);
    return NULL;
}

static cr_tensor *make_convert(cr_tensor *t, cr_dtype dtype, cr_device device)
{
    if (!t ||
        ((dtype == CR_DTYPE_NONE || dtype == t->dtype) && cr_same_device(device, t->device)))
        return t;
    return copy_as(t, dtype == CR_DTYPE_NONE ? (cr_dtype)t->dtype : dtype, device);
}

/* The tensor of numbers of a recording, which its calls make. */
static cr_tensor *tensor_of_symbols(PyObject *made, cr_device device)
{
    cr_tensor *t = NULL;

    if (!made)
        return NULL;
    if (!cr_py_is_tensor(made)) {
        PyErr_SetString(PyExc_TypeError, "a tensor of numbers of a recording is no tensor");
    } else if (cr_same_device(device, cr_py_tensor_of(made)->device)) {
        t = cr_keep(cr_py_tensor_of(made));
    } else {
        cr_value place = {.tag = CR_DEVICE_VAL, .i = cr_packed_device(device)};
        cr_status st = cr_call_tensor(&t, cr_py_find_op("_to_copy"),
                                      (cr_value[]){cr_of_tensor(cr_py_tensor_of(made)),
                                                   cr_of_none(), cr_of_none(), place},
                                      4);
        if (st)
            cr_py_raise(st);
    }
    Py_DECREF(made);
    return t;
}

cr_tensor *cr_py_tensor_from_data(PyObject *data, cr_dtype dtype, cr_device device)
{
    PyObject *made;

    cr_tensor *t;

    if (cr_py_is_tensor(data)) {
        t = cr_py_tensor_of(data);
        return copy_as(cr_keep(t), dtype == CR_DTYPE_NONE ? (cr_dtype)t->dtype : dtype, device);
    }
    if (cr_py_is_array(data) || cr_py_is_stand_in(data)) {
        t = cr_py_is_stand_in(data) ? cr_py_tensor_of_stand_in(data)
                                    : cr_py_tensor_from_array(data, false);
        return t ? copy_as(t, dtype == CR_DTYPE_NONE ? (cr_dtype)t->dtype : dtype, device)
                 : NULL;
    }
    if (PyObject_HasAttrString(data, "__cuda_array_interface__")) {
        t = cr_py_tensor_from_cuda_array(data);
        return t ? copy_as(t, dtype == CR_DTYPE_NONE ? (cr_dtype)t->dtype : dtype, device)
                 : NULL;
    }
    if (cr_py_symbol_tensor(&made, data,
                            dtype == CR_DTYPE_NONE ? Py_None : cr_py_dtype_object(dtype)))
        return tensor_of_symbols(made, device);
    t = make_convert(from_sequence(data, dtype), dtype, device);
    if (t)
        cr_recorder_literal(t);
    return t;
}

/* --- the functions --- */

/* Reads dtype=, device= and others, with torch's type errors. */
static int read_options(const char *name, PyObject *dtype, PyObject *device, cr_py_options *out)
{
    int kind, index;

    if (dtype && dtype != Py_None) {
        out->dtype = cr_py_dtype_from(dtype);
        if (out->dtype == CR_DTYPE_NONE && cr_py_refuse_named(dtype))
            return -1;
        if (out->dtype == CR_DTYPE_NONE) {
            PyErr_Format(PyExc_TypeError, "%s(): argument 'dtype' must be torch.dtype, not %s",
                         name, Py_TYPE(dtype)->tp_name);
            return -1;
        }
    }
    if (!device || device == Py_None)
        return 0;
    int done = cr_py_device_from(device, &kind, &index);
    if (!done)
        PyErr_Format(PyExc_TypeError, "%s(): argument 'device' must be torch.device, not %s",
                     name, Py_TYPE(device)->tp_name);
    if (done <= 0)
        return -1;
    out->placed = true;
    cr_status st = cr_device_to_copy_to(&out->device, cr_device_pack(kind, index));
    return st ? cr_py_raise_int(st) : 0;
}

/* New data `t` (ownership taken) as a dispatch mode sees it; NULL with an exception. */
static cr_tensor *make_lifted(cr_tensor *t)
{
    cr_value arg = cr_of_tensor(t), result;
    cr_status st = cr_call(cr_ops_find("lift_fresh"), &arg, &result);

    cr_drop(t);
    if (!st)
        return result.t;
    cr_py_raise(st);
    return NULL;
}

static PyObject *make_finish(cr_tensor *t, bool requires_grad)
{
    cr_status st;

    if (t && CR_UNLIKELY(cr_goes_to_python(t)))
        t = make_lifted(t);
    if (!t)
        return NULL;
    st = requires_grad ? cr_py_ask_grad(t) : CR_OK;
    if (!st)
        return cr_py_wrap(t);
    cr_drop(t);
    return cr_py_raise(st);
}

/* Raises torch's error for a keyword that is not in `names`. */
static bool known_keywords(const char *function, PyObject *kwargs, char **names)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
        int i = 0;
        while (names[i] && PyUnicode_CompareWithASCIIString(key, names[i]))
            i++;
        if (!names[i]) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'",
                         function, key);
            return false;
        }
    }
    return true;
}

static int warn_copies(const char *function)
{
    return PyErr_WarnFormat(PyExc_UserWarning, 1,
                            "To copy construct from a tensor, it is recommended to use "
                            "sourceTensor.detach().clone() or "
                            "sourceTensor.detach().clone().requires_grad_(True), rather than "
                            "%s(sourceTensor).",
                            function);
}

/* Warns that a tensor's imaginary parts are dropped. */
static int warn_cast(PyObject *data, const cr_py_options *o)
{
    return o->dtype == CR_DTYPE_NONE
               ? 0
               : cr_py_warn_cast((cr_dtype)cr_py_tensor_of(data)->dtype, o->dtype);
}

static PyObject *make_tensor(PyObject *m, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"data", "dtype", "device", "requires_grad", "pin_memory", NULL};
    PyObject *data, *dtype = NULL, *device = NULL;
    int requires_grad = 0, pin = 0;
    cr_py_options o = {.dtype = CR_DTYPE_NONE};

    if (CR_UNLIKELY(cr_py_mode_count))
        return cr_py_mode_answer(m, "tensor", args, kwargs);
    if (cr_py_note_untraced("tensor") < 0)
        return NULL;
    if (PyTuple_GET_SIZE(args) > 1)
        return PyErr_Format(PyExc_TypeError,
                            "tensor() takes 1 positional argument but %zd were given",
                            PyTuple_GET_SIZE(args));
    if (!PyTuple_GET_SIZE(args) && !(kwargs && PyDict_GetItemString(kwargs, "data")))
        return PyErr_Format(PyExc_TypeError,
                            "tensor() missing 1 required positional arguments: \"data\"");
    if (!known_keywords("tensor", kwargs, names) ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOpp:tensor", names, &data, &dtype,
                                     &device, &requires_grad, &pin) ||
        read_options("tensor", dtype, device, &o) < 0)
        return NULL;
    if (cr_py_is_tensor(data) && (warn_copies("torch.tensor") < 0 || warn_cast(data, &o) < 0))
        return NULL;
    cr_device where = o.placed                ? o.device
                      : cr_py_is_tensor(data) ? cr_py_tensor_of(data)->device
                                              : cr_thread.device;
    return make_finish(cr_py_tensor_from_data(data, o.dtype, where), requires_grad);
}

/* Shares memory where possible: tensors, arrays, buffers. */
static cr_tensor *make_share(PyObject *data, cr_dtype dtype)
{
    PyObject *made;

    if (cr_py_is_tensor(data))
        return cr_keep(cr_py_tensor_of(data));
    if (cr_py_is_stand_in(data))
        return cr_py_tensor_of_stand_in(data);
    if (cr_py_is_array(data))
        return cr_py_tensor_from_array(data, true);
    if (PyObject_HasAttrString(data, "__cuda_array_interface__"))
        return cr_py_tensor_from_cuda_array(data);
    if (cr_py_symbol_tensor(&made, data,
                            dtype == CR_DTYPE_NONE ? Py_None : cr_py_dtype_object(dtype)))
        return tensor_of_symbols(made, CR_HOST);
    return from_sequence(data, dtype);
}

/* Converts a tensor by its method, so that the conversion is recorded. */
static PyObject *convert_tensor(PyObject *data, const cr_py_options *o)
{
    const cr_tensor *t = cr_py_tensor_of(data);
    PyObject *device, *dtype, *out;

    if ((o->dtype == CR_DTYPE_NONE || o->dtype == t->dtype) &&
        (!o->placed || cr_same_device(o->device, t->device)))
        return Py_NewRef(data);
    device = cr_py_device_of(o->placed ? o->device : t->device);
    dtype = cr_py_dtype_object(o->dtype == CR_DTYPE_NONE ? (cr_dtype)t->dtype : o->dtype);
    out = device ? PyObject_CallMethod(data, "to", "OO", device, dtype) : NULL;
    Py_XDECREF(device);
    return out;
}

static PyObject *as_tensor(PyObject *m, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"data", "dtype", "device", NULL};
    PyObject *data, *dtype = NULL, *device = NULL;
    cr_py_options o = {.dtype = CR_DTYPE_NONE};

    if (CR_UNLIKELY(cr_py_mode_count))
        return cr_py_mode_answer(m, "as_tensor", args, kwargs);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:as_tensor", names, &data, &dtype,
                                     &device) ||
        read_options("as_tensor", dtype, device, &o) < 0 ||
        cr_py_note_untraced("as_tensor") < 0)
        return NULL;
    if (cr_py_is_tensor(data))
        return convert_tensor(data, &o);
    cr_device where = o.placed ? o.device : cr_thread.device;
    return make_finish(make_convert(make_share(data, o.dtype), o.dtype, where), false);
}

/* A vector of `dtype` over the memory of bytes, array.array or memoryview. */
static PyObject *make_over_buffer(PyObject *m, PyObject *data, cr_dtype dtype)
{
    PyObject *function = PyObject_GetAttrString(m, "frombuffer"), *args, *kwargs, *out = NULL;

    if (dtype == CR_DTYPE_NONE)
        dtype = cr_default_dtype();
    args = PyTuple_Pack(1, data);
    kwargs = Py_BuildValue("{sO}", "dtype", cr_py_dtype_object(dtype));
    if (function && args && kwargs)
        out = PyObject_Call(function, args, kwargs);
    Py_XDECREF(function);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return out;
}

static bool is_buffer(PyObject *x)
{
    return PyObject_CheckBuffer(x) && !PyNumber_Check(x) && !cr_py_is_tensor(x) &&
           !cr_py_is_array(x);
}

/* asarray() of a tensor whose requires_grad stays: itself, or a copy that has its history. */
static PyObject *with_history(PyObject *data, PyObject *dtype, PyObject *device, bool changes,
                              bool copy)
{
    if (!changes)
        return copy ? PyObject_CallMethod(data, "clone", NULL) : Py_NewRef(data);
    PyObject *to = PyObject_GetAttrString(data, "to"), *args = PyTuple_New(0);
    PyObject *options = Py_BuildValue("{s:O,s:O}", "dtype", dtype ? dtype : Py_None, "device",
                                      device ? device : Py_None);
    PyObject *out = to && args && options ? PyObject_Call(to, args, options) : NULL;

    Py_XDECREF(to);
    Py_XDECREF(args);
    Py_XDECREF(options);
    return out;
}

static PyObject *as_array(PyObject *m, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"obj", "dtype", "device", "copy", "requires_grad", NULL};
    PyObject *data, *dtype = NULL, *device = NULL, *copy = Py_None, *shared, *out;
    int requires_grad = -1;
    cr_py_options o = {.dtype = CR_DTYPE_NONE};

    (void)m;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOOp:asarray", names, &data, &dtype,
                                     &device, &copy, &requires_grad) ||
        read_options("asarray", dtype, device, &o) < 0)
        return NULL;
    if (is_buffer(data)) {
        PyObject *vector = make_over_buffer(m, data, o.dtype);
        PyObject *again = vector ? PyTuple_Pack(1, vector) : NULL;
        out = again ? as_array(m, again, kwargs) : NULL;
        Py_XDECREF(vector);
        Py_XDECREF(again);
        return out;
    }
    bool is_tensor = cr_py_is_tensor(data),
         is_array = cr_py_is_array(data) || cr_py_is_stand_in(data);
    if (copy == Py_False && !is_tensor && !is_array)
        return PyErr_Format(PyExc_ValueError, "can't alias arbitrary sequence into a tensor.");
    cr_tensor *t = is_tensor ? cr_keep(cr_py_tensor_of(data)) : make_share(data, o.dtype);
    if (!t)
        return NULL;
    cr_device where = o.placed ? o.device : is_tensor ? t->device : cr_thread.device;
    bool changes =
        (o.dtype != CR_DTYPE_NONE && o.dtype != t->dtype) || !cr_same_device(where, t->device);
    if (copy == Py_False && changes) {
        cr_drop(t);
        return PyErr_Format(PyExc_ValueError,
                            "can't alias tensor with a different dtype or device.");
    }
    bool keeps = is_tensor && (requires_grad < 0 || t->requires_grad == (bool)requires_grad);
    if (keeps && (requires_grad < 0 || (!changes && copy != Py_True))) {
        cr_drop(t);
        return with_history(data, dtype, device, changes, copy == Py_True);
    }
    requires_grad = requires_grad > 0;
    shared = cr_py_wrap(t);
    if (shared && is_tensor && !requires_grad) {
        out = PyObject_CallMethod(shared, "detach", NULL);
        Py_DECREF(shared);
        shared = out;
    }
    if (!shared)
        return NULL;
    t = cr_keep(cr_py_tensor_of(shared));
    Py_DECREF(shared);
    cr_dtype to = o.dtype == CR_DTYPE_NONE ? (cr_dtype)t->dtype : o.dtype;
    return make_finish(changes || copy == Py_True ? copy_as(t, to, where) : t, requires_grad);
}

/* Tensor.new_tensor(data): torch.tensor with this tensor's dtype and device. */
static PyObject *new_tensor(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"data", "dtype", "device", "requires_grad", NULL};
    const cr_tensor *t = cr_py_tensor_of(self);
    PyObject *data, *dtype = NULL, *device = NULL;
    int requires_grad = 0;
    cr_py_options o = {.dtype = (cr_dtype)t->dtype, .device = t->device};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOp:new_tensor", names, &data, &dtype,
                                     &device, &requires_grad) ||
        read_options("new_tensor", dtype, device, &o) < 0 ||
        (cr_py_is_tensor(data) && warn_copies("tensor.new_tensor") < 0))
        return NULL;
    return make_finish(cr_py_tensor_from_data(data, o.dtype, o.device), requires_grad);
}

#define KEYWORDS(f) (PyCFunction)(void (*)(void))(f), METH_VARARGS | METH_KEYWORDS
static PyMethodDef functions[] = {
    {"tensor", KEYWORDS(make_tensor),
     "A tensor with a copy of the data: numbers, nested sequences, arrays.  Sizes: the lengths "
     "of the sequences.\n\nWithout dtype the numbers' own: bool, int64, the default dtype, "
     "complex.\n\n"
     "    >>> torch.tensor([[1, 2], [3, 4]])\n"
     "    tensor([[1, 2],\n"
     "            [3, 4]])\n"},
    {"as_tensor", KEYWORDS(as_tensor),
     "A tensor over the data, shared where dtype and device are the same.\n\n"
     "    >>> torch.as_tensor([1., 2.])\n"
     "    tensor([1., 2.])\n"},
    {"asarray", KEYWORDS(as_array),
     "A tensor over an array, a buffer or a sequence; copy=True copies, copy=False never "
     "does.\n\n"
     "    >>> torch.asarray([1, 2])\n"
     "    tensor([1, 2])\n"},
    {0}};

PyMethodDef cr_py_make_methods[] = {{"new_tensor", KEYWORDS(new_tensor),
                                     "A tensor with a copy of the data, of the same dtype and "
                                     "device unless others are given.\n\n"
                                     "    >>> torch.ones(2).new_tensor([1, 2])\n"
                                     "    tensor([1., 2.])\n"},
                                    {0}};

int cr_py_make_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
