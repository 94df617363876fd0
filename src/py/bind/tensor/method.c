/* Tensor methods that are not entries of the table: properties of a tensor, conversion by to()
 * and its short forms, other objects over the same memory. */
#include "graph/graph.h"
#include "py/bind/bind.h"
#include "tensor/geometry.h"
#include "tensor/sparse.h"
#include <string.h>

#define SELF        cr_py_tensor_of(self)
#define KEYWORDS(f) (PyCFunction)(void (*)(void))(f), METH_VARARGS | METH_KEYWORDS

/* --- properties --- */

/* Implements size(), size(dim), stride() and stride(dim). */
static PyObject *all_or_one(PyObject *self, PyObject *args, PyObject *kwargs,
                            const int64_t *list, bool size)
{
    static char *names[] = {"dim", NULL};
    PyObject *dim = Py_None;
    int64_t i;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, size ? "|O:size" : "|O:stride", names, &dim))
        return NULL;
    if (!size)
        cr_py_fix_sizes(SELF);
    if (size && dim == Py_None) {
        PyObject *all = cr_py_symbolic_size(SELF);
        if (all || PyErr_Occurred())
            return all;
    }
    if (dim == Py_None)
        return size ? cr_py_size(SELF->ndim, list) : cr_py_ints_tuple(list, SELF->ndim);
    cr_py_fit fit = cr_py_int_from(dim, &i);
    if (fit == CR_PY_RAISED)
        return NULL;
    if (fit == CR_PY_MISFIT)
        return PyErr_Format(PyExc_TypeError,
                            "%s(): argument 'dim' (position 1) must be int, not %s",
                            size ? "size" : "stride", Py_TYPE(dim)->tp_name);
    cr_status st =
        SELF->ndim
            ? cr_wrap_dim(&i, i, SELF->ndim)
            : cr_fail(CR_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                      (long long)i);
    if (st)
        return cr_py_raise(st);
    PyObject *one = size ? cr_py_symbolic_dim(SELF, (int)i) : NULL;
    return one || PyErr_Occurred() ? one : PyLong_FromLongLong(list[i]);
}

static PyObject *tensor_size(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return all_or_one(self, args, kwargs, SELF->size, true);
}

static PyObject *tensor_stride(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (cr_is_sparse(SELF) && !cr_is_coo(SELF))
        return PyErr_Format(PyExc_RuntimeError, "Sparse %c%c%c tensors do not have strides",
                            cr_is_blocked(SELF) ? 'B' : 'C', 'S',
                            cr_by_rows(SELF->layout) ? 'R' : 'C');
    return all_or_one(self, args, kwargs, SELF->stride, false);
}

#define FACT(name, expression)                                                                 \
    static PyObject *tensor_##name(PyObject *self, PyObject *unused)                           \
    {                                                                                          \
        (void)unused;                                                                          \
        (void)self;                                                                            \
        return expression;                                                                     \
    }
FACT(is_conj, PyBool_FromLong(SELF->conj))
FACT(is_neg, PyBool_FromLong(SELF->neg))
FACT(dim, PyLong_FromLong(SELF->ndim))
FACT(element_size, PyLong_FromSize_t(cr_dtype_size((cr_dtype)SELF->dtype)))
FACT(storage_offset, (cr_recorder_is_whole() ? (void)0 : cr_py_note_read(SELF, CR_READ_OFFSET),
                      PyLong_FromLongLong(SELF->offset)))
FACT(is_floating_point, PyBool_FromLong(cr_dtype_is_float((cr_dtype)SELF->dtype)))
FACT(is_complex, PyBool_FromLong(cr_dtype_is_complex((cr_dtype)SELF->dtype)))
FACT(is_signed, PyBool_FromLong(cr_dtype_is_signed((cr_dtype)SELF->dtype)))
FACT(is_inference, PyBool_FromLong(SELF->inference))
FACT(is_view, PyBool_FromLong(cr_base_of(SELF) != NULL))
FACT(get_device,
     PyLong_FromLong(cr_is_host(SELF->device) || cr_is_meta(SELF->device) ? -1
                                                                          : SELF->device.index))
FACT(no, PyBool_FromLong(0))
FACT(reversed, PyObject_CallMethod(self, "flip", "i", 0))
#undef FACT

static PyObject *tensor_data_ptr(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (cr_is_sparse(SELF))
        return PyErr_Format(PyExc_RuntimeError,
                            "Cannot access data pointer of Tensor that doesn't "
                            "have storage");
    cr_py_note_read(SELF, CR_READ_DATA_PTR);
    char *at;
    cr_status st = cr_reach_to_write(&at, SELF);
    if (st)
        return cr_py_raise(st);
    SELF->storage->exposed = true;
    return PyLong_FromVoidPtr(SELF->numel ? at : NULL);
}

static PyObject *tensor_untyped_storage(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (cr_is_sparse(SELF))
        return PyErr_Format(PyExc_NotImplementedError, "Cannot access storage of %s",
                            cr_is_coo(SELF) ? "SparseTensorImpl" : "SparseCsrTensorImpl");
    cr_py_note_read(SELF, CR_READ_STORAGE);
    return cr_py_storage_object(SELF->storage);
}

static PyObject *tensor_numel(PyObject *self, PyObject *unused)
{
    PyObject *n = cr_py_symbolic_numel(SELF);

    (void)unused;
    return n || PyErr_Occurred() ? n : PyLong_FromLongLong(SELF->numel);
}

/* Calls the __torch_function__ of `other`, the second argument. */
static PyObject *call_handler(PyObject *self, PyObject *other, const char *name)
{
    PyObject *function = PyObject_GetAttrString((PyObject *)cr_py_tensor_type, name);
    PyObject *args[] = {self, other};
    const cr_py_given g = {args, 2, NULL};
    PyObject *out = function ? cr_py_override_call(function, &other, 1, &g) : NULL;

    Py_XDECREF(function);
    return out;
}

static PyObject *tensor_is_same_size(PyObject *self, PyObject *other)
{
    if (cr_py_overrides(Py_TYPE(other)))
        return call_handler(self, other, "is_same_size");
    if (!cr_py_is_tensor(other))
        return PyErr_Format(
            PyExc_TypeError,
            "is_same_size(): argument 'other' (position 1) must be Tensor, not %s",
            Py_TYPE(other)->tp_name);
    const cr_tensor *a = SELF, *b = cr_py_tensor_of(other);
    return PyBool_FromLong(a->ndim == b->ndim &&
                           !memcmp(a->size, b->size, a->ndim * sizeof *a->size));
}

static bool is_channels_last_3d(const cr_tensor *t)
{
    int64_t expected = 1;
    static const int order[] = {1, 4, 3, 2, 0};

    if (t->ndim != 5)
        return false;
    for (int i = 0; i < 5; i++) {
        if (t->size[order[i]] != 1 && t->stride[order[i]] != expected)
            return false;
        expected *= t->size[order[i]];
    }
    return true;
}

static PyObject *tensor_is_contiguous(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"memory_format", NULL};
    PyObject *format = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:is_contiguous", names, &format))
        return NULL;
    if (format && !Py_IS_TYPE(format, &cr_py_format_type))
        return PyErr_Format(
            PyExc_TypeError,
            "is_contiguous(): argument 'memory_format' must be torch.memory_format, not %s",
            Py_TYPE(format)->tp_name);
    switch (format ? ((cr_py_constant *)format)->value : CR_FORMAT_CONTIGUOUS) {
    case CR_FORMAT_CHANNELS_LAST: return PyBool_FromLong(cr_is_channels_last(SELF));
    case CR_FORMAT_CHANNELS_LAST_3D: return PyBool_FromLong(is_channels_last_3d(SELF));
    default: return PyBool_FromLong(SELF->contiguous);
    }
}

static PyObject *tensor_iter(PyObject *self)
{
    PyObject *rows, *out;

    if (!SELF->ndim)
        return PyErr_Format(PyExc_TypeError, "iteration over a 0-d tensor");
    if (cr_py_note_untraced("iter") < 0)
        return NULL;
    rows = PyObject_CallMethod(self, "unbind", "i", 0);
    out = rows ? PyObject_GetIter(rows) : NULL;
    Py_XDECREF(rows);
    return out;
}

/* --- autograd --- */

static PyObject *tensor_requires_grad(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"requires_grad", NULL};
    PyObject *on = Py_True;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:requires_grad_", names, &on))
        return NULL;
    if (!PyBool_Check(on))
        return PyErr_Format(
            PyExc_TypeError,
            "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not %s",
            Py_TYPE(on)->tp_name);
    if (on == Py_True && !cr_dtype_is_inexact((cr_dtype)SELF->dtype))
        return PyErr_Format(PyExc_RuntimeError,
                            "only Tensors of floating point dtype can require gradients");
    if (!cr_py_is_outside_transforms("requires_grad_",
                                     "(or perhaps using torch.autograd.functional.* APIs) "))
        return NULL;
    cr_status st = cr_set_requires_grad(SELF, on == Py_True);
    return st ? cr_py_raise(st) : Py_NewRef(self);
}

static PyObject *tensor_retain_grad(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!cr_py_is_outside_transforms("retain_grad", ""))
        return NULL;
    if (SELF->grad && !cr_is_leaf(SELF))
        cr_recorder_refuse("retain_grad() is called");
    return cr_py_done(cr_retain_grad(SELF));
}

static PyObject *tensor_detach(PyObject *self, PyObject *unused)
{
    cr_tensor *t;
    cr_status st;

    (void)unused;
    if (CR_UNLIKELY(!Py_IS_TYPE(self, cr_py_tensor_type) && cr_py_overrides(Py_TYPE(self)))) {
        PyObject *function = PyObject_GetAttrString((PyObject *)cr_py_tensor_type, "detach");
        const cr_py_given g = {&self, 1, NULL};
        PyObject *out = function ? cr_py_override_call(function, &self, 1, &g) : NULL;
        Py_XDECREF(function);
        return out;
    }
    st = cr_detached(&t, SELF);
    if (!st)
        cr_recorder_cut(t);
    return st ? cr_py_raise(st) : cr_py_wrap(t);
}

static PyObject *tensor_detach_inplace(PyObject *self, PyObject *unused)
{
    (void)unused;
    cr_status st = cr_detach_inplace(SELF);

    if (!st)
        cr_recorder_cut(SELF);
    return st ? cr_py_raise(st) : Py_NewRef(self);
}

/* --- conversion --- */

typedef struct {
    int dtype, format; /* -1: as it is */
    bool moves, copy;
    cr_device device; /* when it moves */
} target;

/* Calls the entry `_to_copy`, whose parameters are found by type. */
static PyObject *to_copy(PyObject *self, const target *to)
{
    static const cr_op *op;
    cr_value arg[CR_MAX_ARGS];

    if (!op && !(op = cr_py_find_op("_to_copy")))
        return NULL;
    cr_py_defaults(op, arg, 1);
    arg[0] = cr_of_tensor(SELF);
    for (int i = 1; i < op->param_count; i++) {
        if (op->param[i].type == CR_T_DTYPE && to->dtype >= 0)
            arg[i] = cr_of_dtype((cr_dtype)to->dtype);
        if (op->param[i].type == CR_T_DEVICE && to->moves)
            arg[i] = (cr_value){.tag = CR_DEVICE_VAL, .i = cr_packed_device(to->device)};
        if (op->param[i].type == CR_T_FORMAT && to->format >= 0)
            arg[i] = (cr_value){.tag = CR_FORMAT_VAL, .i = to->format};
    }
    return cr_py_call_wrap(op, arg);
}

/* True if the strides, those of dims of one element too, grow in the order of the format:
 * `order` has the dims from the fastest on. */
static bool strides_grow(const cr_tensor *t, const int *order)
{
    int64_t least = 0;

    if (t->stride[1] == 0)
        return false;
    for (int i = 0; i < t->ndim; i++) {
        int d = order[i];
        if (t->size[d] == 0 || t->stride[d] < least || (d == 0 && least == t->stride[1]))
            return false;
        least = CR_WRAP_MUL(t->stride[d], t->size[d]);
    }
    return true;
}

/* True if `to` returns the tensor itself.  A tensor whose dims of one element have other
 * strides than the format gives them is copied, as by torch. */
static bool has_format(const cr_tensor *t, int format)
{
    static const int last[] = {1, 3, 2, 0}, last_3d[] = {1, 4, 3, 2, 0};

    return format < 0 || format == CR_FORMAT_PRESERVE ||
           (format == CR_FORMAT_CONTIGUOUS && t->contiguous) ||
           (format == CR_FORMAT_CHANNELS_LAST && cr_is_channels_last(t) &&
            strides_grow(t, last)) ||
           (format == CR_FORMAT_CHANNELS_LAST_3D && is_channels_last_3d(t) &&
            strides_grow(t, last_3d));
}

static PyObject *method_convert(PyObject *self, const target *to)
{
    const cr_tensor *t = SELF;

    if (!to->copy && (to->dtype < 0 || to->dtype == t->dtype) &&
        (!to->moves || cr_same_device(to->device, t->device)) && has_format(t, to->format))
        return Py_NewRef(self);
    if (to->dtype >= 0 && cr_py_warn_cast((cr_dtype)t->dtype, (cr_dtype)to->dtype) < 0)
        return NULL;
    if (to->dtype == CR_C32 && cr_py_warn_complex_half() < 0)
        return NULL;
    return to_copy(self, to);
}

/* Calls `to` on a subclass that overrides it. */
static PyObject *convert_as(PyObject *self, const char *name, const target *to)
{
    if (CR_LIKELY(Py_IS_TYPE(self, cr_py_tensor_type) || !cr_py_overrides(Py_TYPE(self))))
        return method_convert(self, to);
    PyObject *function = PyObject_GetAttrString((PyObject *)cr_py_tensor_type, name);
    const cr_py_given g = {&self, 1, NULL};
    PyObject *out = function ? cr_py_override_call(function, &self, 1, &g) : NULL;
    Py_XDECREF(function);
    return out;
}

/* Tensors without elements also go to devices that this process lacks. */
static cr_status target_device(target *to, PyObject *self, int kind, int index)
{
    to->moves = true;
    if (cr_device_of((cr_device_kind)kind) || !SELF->device.fake)
        return cr_device_to_copy_to(&to->device, cr_device_pack(kind, index));
    to->device = (cr_device){.kind = (uint8_t)kind, .index = (uint8_t)(index < 0 ? 0 : index)};
    return CR_OK;
}

/* Reads one positional argument of to(): a dtype, a device or a tensor.  0: none of these. */
static int read_target(PyObject *self, PyObject *x, target *to)
{
    int kind, index;

    if (cr_py_is_tensor(x)) {
        to->dtype = cr_py_tensor_of(x)->dtype;
        to->device = cr_py_tensor_of(x)->device;
        to->moves = true;
        return 1;
    }
    cr_dtype t = cr_py_dtype_from(x);
    if (t != CR_DTYPE_NONE) {
        to->dtype = t;
        return 1;
    }
    if (cr_py_refuse_named(x))
        return -1;
    int done = cr_py_device_from(x, &kind, &index);
    if (done <= 0)
        return done;
    cr_status st = target_device(to, self, kind, index);
    return st ? cr_py_raise_int(st) : 1;
}

static int read_flag(PyObject *x, bool *out)
{
    if (!x || x == Py_None)
        return 0;
    int truth = PyObject_IsTrue(x);
    *out = truth > 0;
    return truth < 0 ? -1 : 0;
}

static PyObject *bad_to(PyObject *x)
{
    return PyErr_Format(
        PyExc_TypeError,
        "to() received an invalid combination of arguments - got (%s), but expected one of:\n"
        " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, "
        "bool copy = False, *, torch.memory_format memory_format = None)\n"
        " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, "
        "torch.memory_format memory_format = None)\n"
        " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, "
        "torch.memory_format memory_format = None)\n",
        Py_TYPE(x)->tp_name);
}

/* Reads the arguments of to() in all its forms; false with an exception. */
static bool read_to(PyObject *self, PyObject *args, PyObject *kwargs, target *to)
{
    static char *names[] = {"other",  "dtype",         "non_blocking", "copy",
                            "device", "memory_format", "tensor",       NULL};
    PyObject *first = NULL, *second = NULL, *third = NULL, *fourth = NULL, *device = NULL,
             *format = NULL, *tensor = NULL;
    bool unused;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOO$OOO:to", names, &first, &second,
                                     &third, &fourth, &device, &format, &tensor))
        return false;
    first = first ? first : tensor;
    PyObject *things[] = {first, device};
    for (int i = 0; i < 2; i++) {
        int done = things[i] && things[i] != Py_None ? read_target(self, things[i], to) : 1;
        if (!done)
            bad_to(things[i]);
        if (done <= 0)
            return false;
    }
    /* to(device, dtype, non_blocking, copy) or to(dtype, non_blocking, copy) */
    cr_dtype t = second ? cr_py_dtype_from(second) : CR_DTYPE_NONE;
    if (second && cr_py_refuse_named(second))
        return false;
    if (t != CR_DTYPE_NONE)
        to->dtype = t;
    else if (second && second != Py_None && third && !fourth && PyTuple_GET_SIZE(args) == 3)
        fourth = third;
    if (format && format != Py_None) {
        if (!Py_IS_TYPE(format, &cr_py_format_type))
            return bad_to(format);
        to->format = ((cr_py_constant *)format)->value;
    }
    return read_flag(third, &unused) == 0 && read_flag(fourth, &to->copy) == 0;
}

static PyObject *tensor_to(PyObject *self, PyObject *args, PyObject *kwargs)
{
    target to = {.dtype = -1, .format = -1};

    if (CR_UNLIKELY(!Py_IS_TYPE(self, cr_py_tensor_type) && cr_py_overrides(Py_TYPE(self)))) {
        PyObject *function = PyObject_GetAttrString((PyObject *)cr_py_tensor_type, "to");
        PyObject *all[8] = {self}, *out = NULL;
        Py_ssize_t n = PyTuple_GET_SIZE(args);
        for (Py_ssize_t i = 0; i < n && i < 7; i++)
            all[i + 1] = PyTuple_GET_ITEM(args, i);
        const cr_py_given g = {all, n < 7 ? n + 1 : 8, NULL};
        if (function && !kwargs)
            out = cr_py_override_call(function, &self, 1, &g);
        else if (function && read_to(self, args, kwargs, &to))
            out = method_convert(self, &to);
        Py_XDECREF(function);
        return out;
    }
    return read_to(self, args, kwargs, &to) ? method_convert(self, &to) : NULL;
}

/* Reads the only argument, the keyword memory_format; false with an exception. */
static bool read_format(const char *function, PyObject *args, PyObject *kwargs, target *to)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args), at = 0;
    PyObject *name, *x;

    if (n)
        PyErr_Format(PyExc_TypeError, "%s() takes 0 positional arguments but %zd %s given",
                     function, n, n == 1 ? "was" : "were");
    while (!n && kwargs && PyDict_Next(kwargs, &at, &name, &x)) {
        if (PyUnicode_CompareWithASCIIString(name, "memory_format"))
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'",
                         function, name);
        else if (Py_IS_TYPE(x, &cr_py_format_type))
            to->format = ((cr_py_constant *)x)->value;
        else if (x != Py_None)
            PyErr_Format(PyExc_TypeError,
                         "%s(): argument 'memory_format' must be torch.memory_format, not %s",
                         function, Py_TYPE(x)->tp_name);
        if (PyErr_Occurred())
            return false;
    }
    return !n;
}

/* x.half(), x.long() and others. */
static PyObject *method_to_dtype(PyObject *self, PyObject *args, PyObject *kwargs,
                                 const char *name, cr_dtype t)
{
    target to = {.dtype = (int)t, .format = -1};

    return read_format(name, args, kwargs, &to) ? convert_as(self, name, &to) : NULL;
}

#define SHORT_FORM(name, t)                                                                    \
    static PyObject *tensor_##name(PyObject *self, PyObject *args, PyObject *kwargs)           \
    {                                                                                          \
        return method_to_dtype(self, args, kwargs, #name, t);                                  \
    }
SHORT_FORM(half, CR_F16)
SHORT_FORM(bfloat16, CR_BF16)
SHORT_FORM(float, CR_F32)
SHORT_FORM(double, CR_F64)
SHORT_FORM(byte, CR_U8)
SHORT_FORM(char, CR_I8)
SHORT_FORM(short, CR_I16)
SHORT_FORM(int, CR_I32)
SHORT_FORM(long, CR_I64)
SHORT_FORM(bool, CR_BOOL)
SHORT_FORM(cfloat, CR_C64)
SHORT_FORM(cdouble, CR_C128)
SHORT_FORM(chalf, CR_C32)
#undef SHORT_FORM

static PyObject *tensor_cpu(PyObject *self, PyObject *args, PyObject *kwargs)
{
    target to = {.dtype = -1, .format = -1, .moves = true, .device = CR_HOST};

    return read_format("cpu", args, kwargs, &to) ? convert_as(self, "cpu", &to) : NULL;
}

/* `place`: of the argument, from 1; 0: by its name. */
static PyObject *bad_cuda(const char *name, int place, const char *type, PyObject *x)
{
    char at[32] = "";

    if (place)
        snprintf(at, sizeof at, " (position %d)", place);
    return PyErr_Format(PyExc_TypeError, "cuda(): argument '%s'%s must be %s, not %s", name, at,
                        type, Py_TYPE(x)->tp_name);
}

static PyObject *tensor_cuda(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "non_blocking", "memory_format", NULL};
    target to = {.dtype = -1, .format = -1};
    PyObject *device = Py_None, *blocking = Py_False, *format = Py_None;
    int kind = CR_CUDA, index = -1, n = (int)PyTuple_GET_SIZE(args);

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO$O:cuda", names, &device, &blocking,
                                     &format))
        return NULL;
    int done = device == Py_None ? 1 : cr_py_device_from(device, &kind, &index);
    if (!done)
        return bad_cuda("device", n > 0, "torch.device", device);
    if (!PyBool_Check(blocking))
        return bad_cuda("non_blocking", n > 1 ? 2 : 0, "bool", blocking);
    if (format != Py_None && !Py_IS_TYPE(format, &cr_py_format_type))
        return bad_cuda("memory_format", 0, "torch.memory_format", format);
    if (done > 0 && kind != CR_CUDA)
        PyErr_SetString(PyExc_RuntimeError, "Invalid device, must be cuda device");
    if (done < 0 || kind != CR_CUDA)
        return NULL;
    if (format != Py_None)
        to.format = ((cr_py_constant *)format)->value;
    cr_status st = target_device(&to, self, kind, index);
    return st ? cr_py_raise(st) : convert_as(self, "cuda", &to);
}

static PyObject *tensor_type_as(PyObject *self, PyObject *other)
{
    target to = {.dtype = -1, .format = -1};

    if (cr_py_overrides(Py_TYPE(other)))
        return call_handler(self, other, "type_as");
    if (!cr_py_is_tensor(other))
        return PyErr_Format(PyExc_TypeError,
                            "type_as(): argument 'other' (position 1) must be Tensor, not %s",
                            Py_TYPE(other)->tp_name);
    read_target(self, other, &to);
    return convert_as(self, "type_as", &to);
}

/* --- other objects over the same memory --- */

static PyObject *make_subclass(PyObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"cls", "data", "require_grad", NULL};
    PyObject *cls, *data;
    int requires_grad = 0;
    cr_tensor *t;

    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|p:_make_subclass", names, &cls, &data,
                                     &requires_grad))
        return NULL;
    if (!PyType_Check(cls))
        return PyErr_Format(PyExc_TypeError, "cls must be a type (got %s)",
                            Py_TYPE(cls)->tp_name);
    if (!cr_py_is_tensor(data))
        return PyErr_Format(
            PyExc_TypeError,
            "_make_subclass(): argument 'data' (position 2) must be Tensor, not %s",
            Py_TYPE(data)->tp_name);
    if (!PyType_IsSubtype((PyTypeObject *)cls, cr_py_tensor_type))
        return PyErr_Format(
            PyExc_TypeError,
            "Creating a Tensor subclass from a class that does not inherit from "
            "Tensor is not possible. Make sure your class inherits from Tensor.");
    cr_status st = cr_tensor_alias(&t, cr_py_tensor_of(data));
    if (st)
        return cr_py_raise(st);
    cr_recorder_cut(t);
    st = requires_grad ? cr_py_ask_grad(t) : CR_OK;
    if (!st)
        return cr_py_wrap_as((PyTypeObject *)cls, t);
    cr_drop(t);
    return cr_py_raise(st);
}

/* Exchanges the tensors of two objects, with their hooks; the objects keep class and
 * attributes.  The caller's references make both objects owners of their tensors. */
static PyObject *swap_tensor(PyObject *self, PyObject *x)
{
    cr_py_tensor *a = (cr_py_tensor *)self, *b = (cr_py_tensor *)x, was = *a;

    if (!cr_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "a tensor is expected, not %s",
                            Py_TYPE(x)->tp_name);
    CR_ASSERT(a->owns && b->owns);
    a->t = b->t;
    a->hooks = b->hooks;
    a->accumulated = b->accumulated;
    b->t = was.t;
    b->hooks = was.hooks;
    b->accumulated = was.accumulated;
    a->t->peer = a;
    b->t->peer = b;
    Py_RETURN_NONE;
}

/* An alias with the same history. */
static PyObject *as_subclass(PyObject *self, PyObject *cls)
{
    const cr_op *op = cr_py_find_op("alias");
    cr_value arg[CR_MAX_ARGS] = {cr_of_tensor(SELF)}, result;

    if (!op)
        return NULL;
    if (!PyType_Check(cls) || !PyType_IsSubtype((PyTypeObject *)cls, cr_py_tensor_type))
        return PyErr_Format(
            PyExc_TypeError,
            "Creating a Tensor subclass from a class that does not inherit from "
            "Tensor is not possible. Make sure your class inherits from Tensor.");
    cr_status st = cr_py_call(op, arg, &result);
    return st ? cr_py_raise(st) : cr_py_wrap_as((PyTypeObject *)cls, result.t);
}

static bool read_size_tuple(PyObject *x, int64_t *out, int *n)
{
    cr_py_fit fit = cr_py_ints_from(x, out, CR_MAX_DIMS, n);

    if (fit == CR_PY_MISFIT)
        PyErr_Format(PyExc_TypeError,
                     "set_(): sizes and strides must be tuples of ints, not %s",
                     Py_TYPE(x)->tp_name);
    return fit == CR_PY_FITS;
}

/* Checks that the storage has the bytes of the view; a storage of this library is resized. */
static cr_status fit_storage(cr_storage *s, cr_dtype t, const cr_geometry *g)
{
    uint64_t need;

    CR_TRY(cr_view_bytes(&need, t, g->offset, g->ndim, g->size, g->stride));
    if (need <= s->size)
        return CR_OK;
    return cr_storage_resize(s, (size_t)need);
}

/* A call, so that autograd sees it. */
static PyObject *set_from(PyObject *self, cr_tensor *source)
{
    const cr_op *op = cr_py_find_op("set_.source_Tensor");
    cr_value arg[CR_MAX_ARGS] = {cr_of_tensor(SELF), cr_of_tensor(source)}, result;

    if (!op)
        return NULL;
    cr_status st = cr_py_call(op, arg, &result);
    if (st)
        return cr_py_raise(st);
    cr_drop(result.t);
    return Py_NewRef(self);
}

static PyObject *set_over(PyObject *self, cr_storage *s, const cr_geometry *g)
{
    cr_dtype t = (cr_dtype)SELF->dtype;
    cr_tensor *made;
    cr_status st = fit_storage(s, t, g);

    if (!st)
        st = cr_tensor_over(&made, s, t, g->ndim, g->size, g->stride, g->offset);
    if (st)
        return cr_py_raise(st);
    cr_storage_keep(s);
    PyObject *set = set_from(self, made);
    cr_drop(made);
    return set;
}

/* set_(), set_(tensor), set_(storage, offset, size, stride) */
static PyObject *tensor_set(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"source", "storage_offset", "size", "stride", NULL};
    PyObject *source = NULL, *size = NULL, *stride = NULL;
    long long offset = 0;
    int strides;
    cr_geometry g = {.ndim = 1};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OLOO:set_", names, &source, &offset, &size,
                                     &stride))
        return NULL;
    if (SELF->layout || (source && cr_py_is_tensor(source) && cr_py_tensor_of(source)->layout))
        return PyErr_Format(PyExc_NotImplementedError,
                            "Could not run 'aten::set_.source_Tensor' with arguments from the "
                            "'SparseCPU' backend.");
    cr_py_refuse_held("set_() is called");
    if (source && cr_py_is_tensor(source) && !size)
        return set_from(self, cr_py_tensor_of(source));
    if (source && PyObject_HasAttrString(source, "_untyped_storage")) {
        source = PyObject_GetAttrString(source, "_untyped_storage");
        Py_XDECREF(source); /* its owner keeps it alive */
    }
    if (source && !Py_IS_TYPE(source, &cr_py_storage_type) && !cr_py_is_tensor(source))
        return PyErr_Format(PyExc_TypeError,
                            "set_(): argument 'source' must be Storage, not %s",
                            Py_TYPE(source)->tp_name);
    g.offset = offset;
    if (size && !read_size_tuple(size, g.size, &g.ndim))
        return NULL;
    if (stride && !read_size_tuple(stride, g.stride, &strides))
        return NULL;
    cr_storage *s = NULL;
    if (source)
        s = cr_py_is_tensor(source) ? cr_py_tensor_of(source)->storage
                                    : cr_py_storage_of(source);
    if (s && !size)
        g.size[0] = (int64_t)(s->size / cr_dtype_size((cr_dtype)SELF->dtype)) - offset;
    if (stride && strides != g.ndim)
        return PyErr_Format(PyExc_RuntimeError,
                            "unequal size length (%d) and stride length (%d)", g.ndim, strides);
    if (!stride)
        cr_row_major_strides(g.stride, g.ndim, g.size);
    if (s)
        return set_over(self, s, &g);
    cr_status st = cr_storage_new(&s, SELF->device, 0);
    if (st)
        return cr_py_raise(st);
    g.size[0] = 0;
    PyObject *out = set_over(self, s, &g);
    cr_storage_drop(s);
    return out;
}

/* A method asks a handler, if there is one, before it runs. */
#define CR_METHOD_NONE(name, function, doc)                                                    \
    static PyObject *asking_##name(PyObject *self, PyObject *x)                                \
    {                                                                                          \
        return CR_UNLIKELY(cr_py_asks(self)) ? cr_py_ask(self, #name, NULL, NULL, NULL)        \
                                             : function(self, x);                              \
    }
#define CR_METHOD_ONE(name, function, doc)                                                     \
    static PyObject *asking_##name(PyObject *self, PyObject *x)                                \
    {                                                                                          \
        return CR_UNLIKELY(cr_py_asks(self)) ? cr_py_ask(self, #name, NULL, x, NULL)           \
                                             : function(self, x);                              \
    }
#define CR_METHOD_KEYWORDS(name, function, doc)                                                \
    static PyObject *asking_##name(PyObject *self, PyObject *args, PyObject *kwargs)           \
    {                                                                                          \
        return CR_UNLIKELY(cr_py_asks(self)) ? cr_py_ask(self, #name, args, NULL, kwargs)      \
                                             : function(self, args, kwargs);                   \
    }
#include "py/bind/tensor/methods.def"
#undef CR_METHOD_NONE
#undef CR_METHOD_ONE
#undef CR_METHOD_KEYWORDS

PyMethodDef cr_py_methods[] = {
#define CR_METHOD_NONE(name, function, doc)     {#name, asking_##name, METH_NOARGS, doc},
#define CR_METHOD_ONE(name, function, doc)      {#name, asking_##name, METH_O, doc},
#define CR_METHOD_KEYWORDS(name, function, doc) {#name, KEYWORDS(asking_##name), doc},
#include "py/bind/tensor/methods.def"
#undef CR_METHOD_NONE
#undef CR_METHOD_ONE
#undef CR_METHOD_KEYWORDS
    {"_is_view", tensor_is_view, METH_NOARGS, NULL},
    {"__reversed__", tensor_reversed, METH_NOARGS, NULL},
    {"_make_subclass", KEYWORDS(make_subclass) | METH_STATIC, NULL},
    {"_swap_tensor", swap_tensor, METH_O, NULL},
    {"as_subclass", as_subclass, METH_O,
     "The same tensor as an object of a subclass.\n\n"
     "    >>> type(torch.ones(2).as_subclass(nn.Parameter)).__name__\n"
     "    'Parameter'\n"},
    {0}};

const PyType_Slot cr_py_method_slots[] = {{Py_tp_iter, (void *)tensor_iter}, {0, NULL}};
