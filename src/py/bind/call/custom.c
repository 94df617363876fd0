/* Operators that programs define (torch.library).
 *
 * An operator is a record behind the table whose kernel stage calls a Python function, its
 * handler, with the arguments.  So graphs, fakes and profiles treat its calls like others.  The
 * handler chooses the kernel and makes the node of the backward pass. */
#include "graph/graph.h"
#include "py/bind/bind.h"

static PyObject *custom_handlers; /* {index of the record: handler} */

/* --- arguments --- */

static PyObject *custom_items(const cr_value *v)
{
    PyObject *out = PyList_New(v->len);

    for (uint32_t i = 0; out && i < v->len; i++) {
        PyObject *item;
        switch ((cr_tag)v->tag) {
        case CR_INTS: item = PyLong_FromLongLong(v->ints[i]); break;
        case CR_TRUTHS: item = PyBool_FromLong(v->ints[i] != 0); break;
        case CR_FLOATS: item = PyFloat_FromDouble(v->floats[i]); break;
        case CR_NUMBERS: item = cr_py_scalar_object(v->list[i].number); break;
        default: item = cr_py_wrap_keep(v->list[i].tag == CR_TENSOR ? v->list[i].t : NULL);
        }
        cr_py_put_item(&out, i, item);
    }
    return out;
}

/* A device that this process lacks is refused by the operator that a handler calls with it. */
static PyObject *custom_device(int64_t packed)
{
    cr_device device;

    if (!cr_device_of(cr_packed_kind(packed)))
        return cr_py_device_object((int)cr_packed_kind(packed), cr_packed_index(packed));
    cr_status st = cr_device_named(&device, packed);
    return st ? cr_py_raise(st) : cr_py_device_of(device);
}

static PyObject *custom_object(const cr_value *v)
{
    switch ((cr_tag)v->tag) {
    case CR_TENSOR: return cr_py_wrap_keep(v->t);
    case CR_NUMBER: return cr_py_scalar_object(v->number);
    case CR_INT: return PyLong_FromLongLong(v->i);
    case CR_TRUTH: return PyBool_FromLong(v->i != 0);
    case CR_FLOAT: return PyFloat_FromDouble(v->d);
    case CR_STRING: return PyUnicode_FromStringAndSize(v->s, v->len);
    case CR_DTYPE_VAL: return Py_NewRef(cr_py_dtype_object((cr_dtype)v->i));
    case CR_DEVICE_VAL: return custom_device(v->i);
    case CR_LAYOUT_VAL: return Py_NewRef(cr_py_layout_object((int)v->i));
    case CR_FORMAT_VAL: return Py_NewRef(cr_py_format_object((int)v->i));
    case CR_GENERATOR: return cr_py_generator_object(v->generator);
    case CR_INTS:
    case CR_TRUTHS:
    case CR_FLOATS:
    case CR_NUMBERS:
    case CR_TENSORS: return custom_items(v);
    default: Py_RETURN_NONE;
    }
}

PyObject *cr_py_arguments(const cr_op *op, const cr_value *arg)
{
    PyObject *out = PyTuple_New(op->param_count);

    for (int i = 0; out && i < op->param_count; i++)
        cr_py_put_item(&out, i, custom_object(&arg[i]));
    return out;
}

/* --- results --- */

static cr_status custom_refuse(const cr_op *op, int k, PyObject *x)
{
    return cr_fail(CR_RUNTIME,
                   "Unable to cast Python instance of type %s to the type of result %d of %s",
                   Py_TYPE(x)->tp_name, k, op->name);
}

static cr_status custom_list(cr_value *out, const cr_op *op, int k, PyObject *x)
{
    PyObject *items = PySequence_Tuple(x);
    Py_ssize_t n = items ? PySequence_Fast_GET_SIZE(items) : 0;
    cr_value *list = items ? cr_alloc((size_t)n * sizeof *list + 1) : NULL;
    cr_status st = items ? list ? CR_OK : CR_MEMORY : CR_PYTHON;

    for (Py_ssize_t i = 0; !st && i < n; i++)
        if (!cr_py_is_tensor(PySequence_Fast_GET_ITEM(items, i)))
            st = custom_refuse(op, k, PySequence_Fast_GET_ITEM(items, i));
    for (Py_ssize_t i = 0; !st && i < n; i++)
        list[i] = cr_of_tensor(cr_keep(cr_py_tensor_of(PySequence_Fast_GET_ITEM(items, i))));
    if (st)
        cr_free(list);
    else
        *out = (cr_value){.tag = CR_TENSORS, .len = (uint32_t)n, .list = list};
    Py_XDECREF(items);
    return st;
}

/* A result that is a number; a graph cannot represent it. */
static cr_status custom_number(cr_value *out, const cr_op *op, int k, PyObject *x)
{
    cr_scalar s;

    cr_recorder_refuse("an operator returns a number");
    if (cr_py_scalar_from(x, &s) != CR_PY_FITS)
        return custom_refuse(op, k, x);
    switch ((cr_type)op->result[k].type) {
    case CR_T_BOOL: *out = cr_of_bool(cr_scalar_as_int(s) != 0); break;
    case CR_T_INT: *out = cr_of_int(cr_scalar_as_int(s)); break;
    case CR_T_FLOAT: *out = cr_of_float(cr_scalar_as_double(s)); break;
    default: *out = cr_of_number(s);
    }
    return CR_OK;
}

static cr_status custom_result(cr_value *out, const cr_op *op, int k, PyObject *x)
{
    if (op->result[k].type == CR_T_TENSORS)
        return custom_list(out, op, k, x);
    if (op->result[k].type != CR_T_TENSOR)
        return custom_number(out, op, k, x);
    if (!cr_py_is_tensor(x) && x != Py_None)
        return custom_refuse(op, k, x);
    *out = cr_of_tensor(x == Py_None ? NULL : cr_keep(cr_py_tensor_of(x)));
    return CR_OK;
}

cr_status cr_py_results(cr_value *result, const cr_op *op, PyObject *x)
{
    if (op->result_count == 1)
        return custom_result(result, op, 0, x);
    if (!op->result_count)
        return CR_OK;
    if (!PyTuple_Check(x) && !PyList_Check(x))
        return custom_refuse(op, 0, x);
    if (PySequence_Size(x) != op->result_count)
        return cr_fail(CR_RUNTIME, "%s returns %d values, its kernel returned %zd", op->name,
                       op->result_count, PySequence_Size(x));
    for (int k = 0; k < op->result_count; k++) {
        PyObject *item = PySequence_GetItem(x, k);
        cr_status st = item ? custom_result(&result[k], op, k, item) : CR_PYTHON;
        Py_XDECREF(item);
        if (st) {
            cr_drop_values(result, k);
            return st;
        }
    }
    return CR_OK;
}

/* --- calls --- */

static PyObject *custom_handler(const cr_op *op)
{
    PyObject *index = PyLong_FromLong(op->index);
    PyObject *handler = index ? PyDict_GetItemWithError(custom_handlers, index) : NULL;

    Py_XDECREF(index);
    return handler;
}

static cr_status custom_call(const cr_op *op, const cr_value *arg, cr_value *result)
{
    PyObject *args = cr_py_arguments(op, arg), *handler = args ? custom_handler(op) : NULL;
    PyObject *out = handler ? PyObject_CallObject(handler, args) : NULL;
    cr_status st = out ? cr_py_results(result, op, out) : CR_PYTHON;

    Py_XDECREF(args);
    Py_XDECREF(out);
    return st;
}

static cr_status custom_stage(const cr_op *op, const cr_value *arg, cr_value *result)
{
    PyGILState_STATE locked = PyGILState_Ensure();
    bool opaque = op->custom == CR_CUSTOM_OPAQUE;
    cr_recorder *paused = opaque ? cr_recorder_pause() : NULL;
    cr_status st = custom_call(op, arg, result);

    if (opaque)
        cr_recorder_resume(paused);
    PyGILState_Release(locked);
    return st;
}

/* --- definitions --- */

static PyObject *custom_described(const cr_op *op)
{
    cr_py_sig *sig = cr_py_sig_one(op);
    PyObject *callable = sig ? cr_py_op_callable(sig, op->name, false) : NULL;

    if (!callable)
        return NULL;
    return Py_BuildValue("{s:i,s:N,s:N,s:N}", "index", op->index, "callable", callable,
                         "record", cr_py_record(op), "returns", cr_py_op_results(op));
}

/* _define_op(name, schema, handler) -> dict: adds an operator. */
static PyObject *custom_define(PyObject *m, PyObject *args)
{
    const char *name, *schema;
    PyObject *handler, *index;
    cr_op *op;

    (void)m;
    if (!PyArg_ParseTuple(args, "ssO", &name, &schema, &handler))
        return NULL;
    cr_status st = cr_ops_add(&op, name, schema, custom_stage);
    if (!st)
        st = cr_derivative_plan_add(op);
    if (st)
        return cr_py_raise(st);
    index = PyLong_FromLong(op->index);
    if (!index || PyDict_SetItem(custom_handlers, index, handler) < 0) {
        Py_XDECREF(index);
        return NULL;
    }
    Py_DECREF(index);
    return custom_described(op);
}

/* _set_op_opaque(index): graphs have the operator's calls, not those that it makes. */
static PyObject *custom_set_opaque(PyObject *m, PyObject *x)
{
    long index = PyLong_AsLong(x);

    (void)m;
    if (index < cr_ops_table_count() || index >= cr_ops_count() ||
        !cr_ops_at((int)index)->custom)
        return PyErr_Format(PyExc_ValueError, "%R is no operator of a program", x);
    cr_ops_at((int)index)->custom = CR_CUSTOM_OPAQUE;
    Py_RETURN_NONE;
}

/* _bump_version(tensor): the tensor's elements have changed. */
static PyObject *custom_bump(PyObject *m, PyObject *x)
{
    (void)m;
    if (!cr_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "a tensor is expected, not %s",
                            Py_TYPE(x)->tp_name);
    cr_py_tensor_of(x)->storage->version++;
    Py_RETURN_NONE;
}

/* _is_fake(tensor): it has sizes and no elements. */
static PyObject *custom_is_fake(PyObject *m, PyObject *x)
{
    (void)m;
    if (!cr_py_is_tensor(x))
        Py_RETURN_FALSE;
    const cr_tensor *t = cr_py_tensor_of(x);
    return PyBool_FromLong(t->device.fake || cr_is_meta(t->device));
}

static PyMethodDef custom_functions[] = {{"_define_op", custom_define, METH_VARARGS, NULL},
                                         {"_set_op_opaque", custom_set_opaque, METH_O, NULL},
                                         {"_bump_version", custom_bump, METH_O, NULL},
                                         {"_is_fake", custom_is_fake, METH_O, NULL},
                                         {0}};

int cr_py_custom_start(PyObject *m)
{
    custom_handlers = PyDict_New();
    return custom_handlers ? PyModule_AddFunctions(m, custom_functions) : -1;
}
