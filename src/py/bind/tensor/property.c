/* Attributes of tensors. */
#include "graph/graph.h"
#include "py/bind/bind.h"
#include "tensor/sparse.h"

#define GETTER(name) static PyObject *get_##name(PyObject *self, void *unused)
#define SELF         cr_py_tensor_of(self)

GETTER(shape)
{
    PyObject *size = cr_py_symbolic_size(SELF);

    (void)unused;
    return size || PyErr_Occurred() ? size : cr_py_size(SELF->ndim, SELF->size);
}

GETTER(dtype)
{
    (void)unused;
    return Py_NewRef(cr_py_dtype_object((cr_dtype)SELF->dtype));
}

GETTER(device)
{
    (void)unused;
    return cr_py_device_of(SELF->device);
}

GETTER(layout)
{
    (void)unused;
    return Py_NewRef(cr_py_layout_object(SELF->layout));
}

GETTER(ndim)
{
    (void)unused;
    return PyLong_FromLong(SELF->ndim);
}

GETTER(itemsize)
{
    (void)unused;
    return PyLong_FromSize_t(cr_dtype_size((cr_dtype)SELF->dtype));
}

GETTER(nbytes)
{
    (void)unused;
    if (cr_is_sparse(SELF))
        return PyErr_Format(
            PyExc_RuntimeError,
            "nbytes is not defined for sparse tensors.  If you want the size of the "
            "constituent "
            "tensors, add the nbytes of the indices and values.  If you want the size of the  "
            "equivalent dense tensor, multiply numel() by element_size()");
    cr_py_fix_sizes(SELF);
    return PyLong_FromLongLong(SELF->numel * (int64_t)cr_dtype_size((cr_dtype)SELF->dtype));
}

GETTER(is_cpu)
{
    (void)unused;
    return PyBool_FromLong(cr_is_host(SELF->device));
}

GETTER(is_sparse)
{
    (void)unused;
    return PyBool_FromLong(cr_is_coo(SELF));
}

GETTER(is_sparse_csr)
{
    (void)unused;
    return PyBool_FromLong(SELF->layout == CR_LAYOUT_CSR);
}

GETTER(is_meta)
{
    (void)unused;
    return PyBool_FromLong(cr_is_meta(SELF->device));
}

GETTER(is_cuda)
{
    (void)unused;
    return PyBool_FromLong(SELF->device.kind == CR_CUDA);
}

GETTER(no)
{
    (void)self;
    (void)unused;
    Py_RETURN_FALSE;
}

GETTER(none)
{
    (void)self;
    (void)unused;
    Py_RETURN_NONE;
}

/* --- autograd --- */

GETTER(requires_grad)
{
    (void)unused;
    return PyBool_FromLong(cr_requires_grad(SELF));
}

static int set_requires_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (!value || !PyBool_Check(value)) {
        PyErr_SetString(PyExc_RuntimeError, "requires_grad must be a bool");
        return -1;
    }
    cr_status st = cr_set_requires_grad(SELF, value == Py_True);
    return st ? cr_py_raise_int(st) : 0;
}

static int warn_non_leaf(cr_tensor *t)
{
    if (t->grad->retains_grad || cr_is_leaf(t))
        return 0;
    return PyErr_WarnEx(
        PyExc_UserWarning,
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
        ".grad "
        "attribute won't be populated during autograd.backward(). If you indeed want the .grad "
        "field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf "
        "Tensor. If "
        "you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor "
        "instead. "
        "See github.com/pytorch/pytorch/pull/30531 for more information.",
        1);
}

GETTER(grad)
{
    cr_tensor *t = SELF;

    (void)unused;
    if (!t->grad)
        Py_RETURN_NONE;
    if (!t->grad->grad && t->grad->grad_fn && warn_non_leaf(t) < 0)
        return NULL;
    return cr_py_wrap_keep(t->grad->grad);
}

GETTER(grad_quietly)
{
    (void)unused;
    return cr_py_wrap_keep(cr_grad_of(SELF));
}

static int set_grad(PyObject *self, PyObject *value, void *unused)
{
    cr_status st;

    (void)unused;
    if (value && value != Py_None && !cr_py_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError,
                     "assigned grad expected to be a Tensor or None but got grad of type %s",
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    if (value == self) {
        PyErr_SetString(PyExc_RuntimeError, "can't assign Variable as its own grad");
        return -1;
    }
    st = cr_set_grad(SELF, value && value != Py_None ? cr_py_tensor_of(value) : NULL);
    return st ? cr_py_raise_int(st) : 0;
}

GETTER(grad_fn)
{
    cr_node *n;

    (void)unused;
    if (!SELF->grad)
        Py_RETURN_NONE;
    cr_status st = cr_grad_fn(&n, SELF);
    if (st)
        return cr_py_raise(st);
    return n ? cr_py_node_object(n) : Py_NewRef(Py_None);
}

GETTER(is_leaf)
{
    (void)unused;
    return PyBool_FromLong(!SELF->grad || cr_is_leaf(SELF));
}

GETTER(retains_grad)
{
    (void)unused;
    return PyBool_FromLong(SELF->grad && SELF->grad->grad_fn && SELF->grad->retains_grad);
}

GETTER(output_nr)
{
    (void)unused;
    return PyLong_FromUnsignedLong(SELF->grad ? SELF->grad->output : 0);
}

GETTER(version)
{
    uint32_t version;

    (void)unused;
    if (!cr_recorder_is_whole()) /* a fake tensor counts its changes, too */
        cr_py_note_read(SELF, CR_READ_VERSION);
    cr_status st = cr_version(&version, SELF);
    return st ? cr_py_raise(st) : PyLong_FromUnsignedLong(version);
}

/* (version, changes without a version, storage), which differ after each change of the bytes,
 * or None where changes leave no trace. */
GETTER(changes)
{
    const cr_storage *s = SELF->storage;

    (void)unused;
    cr_py_note_read(SELF, CR_READ_CHANGES);
    if (!s || !cr_storage_is_watched(s))
        Py_RETURN_NONE;
    return Py_BuildValue("IIK", s->version, atomic_load(&s->hidden),
                         (unsigned long long)(uintptr_t)s);
}

GETTER(base)
{
    (void)unused;
    return cr_py_wrap_keep(cr_base_of(SELF));
}

GETTER(backward_hooks)
{
    PyObject *hooks = ((cr_py_tensor *)self)->hooks;

    (void)unused;
    return Py_NewRef(hooks ? hooks : Py_None);
}

static int set_backward_hooks(PyObject *self, PyObject *value, void *unused)
{
    PyObject *list, *handle;
    int done = 0;

    (void)unused;
    if (!value || value == Py_None)
        return 0;
    list = PyMapping_Values(value);
    for (Py_ssize_t i = 0; list && !done && i < PyList_GET_SIZE(list); i++) {
        handle = PyObject_CallMethod(self, "register_hook", "O", PyList_GET_ITEM(list, i));
        done = handle ? 0 : -1;
        Py_XDECREF(handle);
    }
    Py_XDECREF(list);
    return list ? done : -1;
}

/* --- data --- */

/* Gives a tensor, which a handler made of `of` by detach, a separate version. */
static cr_status separate_version(cr_tensor *made, const cr_tensor *of)
{
    cr_storage *alias;
    cr_tensor *other;

    if (made == of || made->storage != of->storage || made->layout || !cr_has_elements(made))
        return CR_OK;
    CR_TRY(cr_storage_alias(&alias, made->storage));
    cr_status st = cr_tensor_over(&other, alias, (cr_dtype)made->dtype, made->ndim, made->size,
                                  made->stride, made->offset);
    if (st) {
        cr_storage_drop(alias);
        return st;
    }
    st = cr_tensor_set_from(made, other);
    cr_drop(other);
    return st;
}

/* data where __torch_dispatch__ handles the call */
static PyObject *data_by_handlers(cr_tensor *t)
{
    cr_tensor *made;
    cr_status st = cr_detached(&made, t);

    if (!st && (st = separate_version(made, t)))
        cr_drop(made);
    return st ? cr_py_raise(st) : cr_py_wrap(made);
}

/* A tensor over the same memory, without history and with a separate version. */
GETTER(data)
{
    const cr_tensor *t = SELF;
    cr_storage *alias;
    cr_tensor *made;

    (void)unused;
    if (CR_UNLIKELY(cr_goes_to_python(SELF)))
        return data_by_handlers(SELF);
    if (cr_is_sparse(t)) /* the storage has no bytes that could have a separate version */
        return PyObject_CallMethod(self, "detach", NULL);
    cr_status st = cr_storage_alias(&alias, t->storage);
    if (st)
        return cr_py_raise(st);
    st = cr_tensor_over(&made, alias, (cr_dtype)t->dtype, t->ndim, t->size, t->stride,
                        t->offset);
    if (!st) {
        cr_tensor_set_inference(made, t->inference);
        cr_tensor_set_bits(made, t->conj, t->neg);
        cr_recorder_cut(made);
    }
    if (!st && !Py_IS_TYPE(self, cr_py_tensor_type) && cr_py_overrides(Py_TYPE(self)))
        return cr_py_wrap_as(Py_TYPE(self), made);
    if (!st)
        return cr_py_wrap(made);
    cr_storage_drop(alias);
    return cr_py_raise(st);
}

static cr_status check_data(const cr_tensor *t, const cr_tensor *data)
{
    if (cr_is_meta(t->device) != cr_is_meta(data->device) || t->layout != data->layout)
        return cr_fail(CR_RUNTIME,
                       "Attempted to call `variable.set_data(tensor)`, but `variable` and "
                       "`tensor` have incompatible tensor type.");
    if (cr_requires_grad(t) && !cr_dtype_is_inexact((cr_dtype)data->dtype))
        return cr_fail(CR_RUNTIME, "data set to a tensor that requires gradients must be "
                                   "floating point or complex dtype");
    return CR_OK;
}

static int set_data(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (!value || !cr_py_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "Variable data has to be a tensor, but got %s",
                     value ? Py_TYPE(value)->tp_name : "nothing");
        return -1;
    }
    cr_py_refuse_held("the .data of a tensor is set");
    cr_status st = check_data(SELF, cr_py_tensor_of(value));
    if (!st)
        st = cr_tensor_set_from(SELF, cr_py_tensor_of(value));
    if (!st)
        cr_tensor_set_bits(SELF, cr_py_tensor_of(value)->conj, cr_py_tensor_of(value)->neg);
    return st ? cr_py_raise_int(st) : 0;
}

/* --- other views --- */

/* Transposing a tensor without dims is deprecated: a warning, once for each property. */
static int warn_no_dims(const char *what)
{
    static struct {
        const char *name, *advice;
        bool said;
    } known[] = {{"T", "This function is the identity in these cases.", false},
                 {"mT", "This function is the identity in these cases.", false},
                 {"H", "Consider using x.conj().", false},
                 {"mH", "Consider using x.conj().", false}};
    char text[128];
    size_t i = 0;

    while (strcmp(known[i].name, what))
        i++;
    snprintf(text, sizeof text, "Tensor.%s is deprecated on 0-D tensors. %s", what,
             known[i].advice);
    return cr_py_warn_once(&known[i].said, text);
}

GETTER(transposed)
{
    const cr_tensor *t = SELF;
    int64_t reversed[CR_MAX_DIMS];
    static bool said;

    (void)unused;
    for (int i = 0; i < t->ndim; i++)
        reversed[i] = t->ndim - 1 - i;
    if (t->ndim != 2 && t->ndim != 0 &&
        cr_py_warn_once(
            &said,
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape "
            "is deprecated and it will throw an error in a future release. Consider "
            "`x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - "
            "1, -1, -1))` to reverse the dimensions of a tensor.") < 0)
        return NULL;
    if (!t->ndim && warn_no_dims("T") < 0)
        return NULL;
    PyObject *dims = cr_py_ints_tuple(reversed, t->ndim);
    PyObject *out = dims ? PyObject_CallMethod(self, "permute", "(O)", dims) : NULL;
    Py_XDECREF(dims);
    return out;
}

static PyObject *swap_last(PyObject *self, const char *what, bool conjugate)
{
    const cr_tensor *t = SELF;
    PyObject *swapped, *out;

    if (t->ndim == 1)
        return PyErr_Format(
            PyExc_RuntimeError,
            "tensor.%s is only supported on matrices or batches of matrices. Got 1-D tensor.",
            what);
    if (!t->ndim && warn_no_dims(what) < 0)
        return NULL;
    swapped = t->ndim ? PyObject_CallMethod(self, "transpose", "ii", -2, -1) : Py_NewRef(self);
    if (!swapped || !conjugate || !cr_dtype_is_complex((cr_dtype)t->dtype))
        return swapped;
    out = PyObject_CallMethod(swapped, "conj", NULL);
    Py_DECREF(swapped);
    return out;
}

GETTER(mT)
{
    (void)unused;
    return swap_last(self, "mT", false);
}

GETTER(mH)
{
    (void)unused;
    return swap_last(self, "mH", true);
}

GETTER(H)
{
    (void)unused;
    if (SELF->ndim == 0)
        return warn_no_dims("H") < 0 ? NULL : Py_NewRef(self);
    if (SELF->ndim != 2)
        return PyErr_Format(
            PyExc_RuntimeError,
            "tensor.H is only supported on matrices (2-D tensors). Got %d-D tensor.%s",
            SELF->ndim,
            SELF->ndim > 2 ? " For batches of matrices, consider using tensor.mH" : "");
    return swap_last(self, "H", true);
}

/* x.real, x.imag: the entries of these names. */
static PyObject *property_part(PyObject *self, const char *name)
{
    const cr_op *op = cr_py_find_op(name);
    cr_value arg = cr_of_tensor(SELF);

    return op ? cr_py_call_wrap(op, &arg) : NULL;
}

static int set_part(PyObject *self, const char *name, PyObject *value)
{
    PyObject *place = value ? PyObject_GetAttrString(self, name) : NULL, *done = NULL;

    if (place)
        done =
            PyObject_CallMethod(place, cr_py_is_tensor(value) ? "copy_" : "fill_", "O", value);
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "parts of a tensor cannot be deleted");
    Py_XDECREF(place);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

GETTER(real)
{
    (void)unused;
    return property_part(self, "real");
}

GETTER(imag)
{
    (void)unused;
    if (!cr_dtype_is_complex((cr_dtype)SELF->dtype))
        return PyErr_Format(PyExc_RuntimeError,
                            "imag is not implemented for tensors with non-complex dtypes.");
    return property_part(self, "imag");
}

static int set_real(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    return set_part(self, "real", value);
}

static int set_imag(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    return set_part(self, "imag", value);
}

GETTER(array_priority)
{
    (void)self;
    (void)unused;
    return PyLong_FromLong(1000);
}

GETTER(address)
{
    (void)unused;
    return PyLong_FromVoidPtr(SELF);
}

PyGetSetDef cr_py_properties[] = {
    {"shape", get_shape, NULL, "The sizes.", NULL},
    {"dtype", get_dtype, NULL, "The type of the elements.", NULL},
    {"device", get_device, NULL, "The device.", NULL},
    {"layout", get_layout, NULL, "The layout: how the elements are stored.", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of one element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"is_cpu", get_is_cpu, NULL, NULL, NULL},
    {"is_meta", get_is_meta, NULL, NULL, NULL},
    {"is_cuda", get_is_cuda, NULL, NULL, NULL},
    {"is_sparse", get_is_sparse, NULL, NULL, NULL},
    {"is_sparse_csr", get_is_sparse_csr, NULL, NULL, NULL},
    {"is_quantized", get_no, NULL, NULL, NULL},
    {"is_mkldnn", get_no, NULL, NULL, NULL},
    {"is_nested", get_no, NULL, NULL, NULL},
    {"is_mps", get_no, NULL, NULL, NULL},
    {"is_xpu", get_no, NULL, NULL, NULL},
    {"is_ipu", get_no, NULL, NULL, NULL},
    {"is_maia", get_no, NULL, NULL, NULL},
    {"is_mtia", get_no, NULL, NULL, NULL},
    {"is_vulkan", get_no, NULL, NULL, NULL},
    {"is_xla", get_no, NULL, NULL, NULL},
    {"name", get_none, NULL, NULL, NULL},
    {"requires_grad", get_requires_grad, set_requires_grad,
     "True when the tensor requires a gradient.", NULL},
    {"grad", get_grad, set_grad, "The gradient that backward computed, or None.", NULL},
    {"_grad", get_grad_quietly, set_grad, NULL, NULL},
    {"grad_fn", get_grad_fn, NULL, "The node of the operation that made this tensor, or None.",
     NULL},
    {"_grad_fn", get_grad_fn, NULL, NULL, NULL},
    {"is_leaf", get_is_leaf, NULL, "True when no recorded operation made this tensor.", NULL},
    {"retains_grad", get_retains_grad, NULL, NULL, NULL},
    {"output_nr", get_output_nr, NULL, NULL, NULL},
    {"_version", get_version, NULL, "The number of in-place changes.", NULL},
    {"_changes", get_changes, NULL, NULL, NULL},
    {"_base", get_base, NULL, "The base of this view, or None.", NULL},
    {"_backward_hooks", get_backward_hooks, set_backward_hooks, NULL, NULL},
    {"data", get_data, set_data, "A tensor over the same memory, without history.", NULL},
    {"T", get_transposed, NULL, "The dimensions reversed.", NULL},
    {"mT", get_mT, NULL, "The last two dimensions exchanged.", NULL},
    {"H", get_H, NULL, "The conjugate transpose of a matrix.", NULL},
    {"mH", get_mH, NULL, "The last two dimensions exchanged, conjugated.", NULL},
    {"real", get_real, set_real, "The real parts.", NULL},
    {"imag", get_imag, set_imag, "The imaginary parts.", NULL},
    {"__array_priority__", get_array_priority, NULL, NULL, NULL},
    {"_cdata", get_address, NULL, NULL, NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {0}};
