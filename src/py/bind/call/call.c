/* Operators as Python callables, and results as Python objects. */
#include "graph/graph.h"
#include "py/bind/bind.h"
#include "tensor/remote.h"
#include <string.h>

/* --- calling --- */

/* Calls with at least this many elements run without the interpreter lock: such a kernel takes
 * tens of microseconds, giving the lock away and back takes one. */
enum { LARGE = 1 << 15 };

static int64_t call_elements(const cr_value *v)
{
    int64_t n = 0;

    if (CR_LIKELY(v->tag == CR_TENSOR))
        return v->t->numel;
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        n += v->list[i].tag == CR_TENSOR ? v->list[i].t->numel : 0;
    return n;
}

/* Elements that a factory makes, which has no tensor arguments. */
static int64_t made_elements(const cr_op *op, const cr_value *arg)
{
    int64_t n = 1;

    if (!op->param_count || arg[0].tag != CR_INTS)
        return 0;
    for (uint32_t i = 0; i < arg[0].len; i++)
        if (CR_MUL_OVERFLOW(n, arg[0].ints[i], &n))
            return 0;
    return n;
}

static bool is_large(const cr_op *op, const cr_value *arg)
{
    int64_t n = 0;

    if (op->does == CR_DOES_MAP || op->words & CR_WORD_RESETS)
        return false;
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1)
        n += call_elements(&arg[CR_CTZ(mask)]);
    return CR_UNLIKELY(n >= LARGE) || (!op->tensor_params && made_elements(op, arg) >= LARGE);
}

cr_status cr_py_call(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_status st;

    if (CR_LIKELY(!is_large(op, arg)))
        st = cr_call(op, arg, result);
    else
        CR_PY_UNLOCKED(st = cr_call(op, arg, result));
    return CR_LIKELY(!st) ? st : cr_refused_call(op, st);
}

void cr_py_defaults(const cr_op *op, cr_value *arg, int from)
{
    for (int i = from; i < op->param_count; i++)
        arg[i] = op->param[i].preset;
}

const cr_op *cr_py_find_op(const char *name)
{
    const cr_op *op = cr_ops_find(name);

    if (!op)
        PyErr_Format(PyExc_RuntimeError, "the operator table has no entry '%s'", name);
    return op;
}

/* --- results --- */

static PyObject *value_object(cr_value *v);

static PyObject *call_list_object(cr_value *v)
{
    PyObject *out = PyTuple_New(v->len);

    for (uint32_t i = 0; out && i < v->len; i++) {
        cr_value one = v->list[i];
        ((cr_value *)(uintptr_t)v->list)[i].tag = CR_NONE;
        PyObject *item = value_object(&one);
        if (!item) {
            Py_CLEAR(out);
            break;
        }
        PyTuple_SET_ITEM(out, i, item);
    }
    cr_drop_values(v, 1);
    return out;
}

/* Takes ownership of the objects in `v`. */
static PyObject *value_object(cr_value *v)
{
    switch ((cr_tag)v->tag) {
    case CR_TENSOR: return cr_py_wrap(v->t);
    case CR_TENSORS: return call_list_object(v);
    case CR_NUMBER: return cr_py_scalar_object(v->number);
    case CR_INT: return PyLong_FromLongLong(v->i);
    case CR_FLOAT: return PyFloat_FromDouble(v->d);
    case CR_TRUTH: return PyBool_FromLong(v->i != 0);
    case CR_STRING: return PyUnicode_FromStringAndSize(v->s, v->len);
    case CR_INTS: return cr_py_ints_tuple(v->ints, v->len);
    case CR_DTYPE_VAL: return Py_NewRef(cr_py_dtype_object((cr_dtype)v->i));
    default: Py_RETURN_NONE;
    }
}

/* Prints torch.return_types.max(values=..., indices=...) on several lines. */
static PyObject *named_repr(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject *lines = PyList_New(0), *joined = NULL, *out = NULL, *sep;

    for (Py_ssize_t i = 0; lines && i < PyTuple_GET_SIZE(self); i++)
        cr_py_append(&lines, PyUnicode_FromFormat("%s=%R", type->tp_members[i].name,
                                                  PyTuple_GET_ITEM(self, i)));
    sep = lines ? PyUnicode_FromString(",\n") : NULL;
    joined = sep ? PyUnicode_Join(sep, lines) : NULL;
    if (joined)
        out = PyUnicode_FromFormat("%s(\n%U)", type->tp_name, joined);
    Py_XDECREF(joined);
    Py_XDECREF(sep);
    Py_XDECREF(lines);
    return out;
}

static PyObject *return_types; /* name -> type */

static bool is_named(const cr_op *op)
{
    for (int i = 0; i < op->result_count; i++)
        if (!*op->result[i].name)
            return false;
    return op->result_count > 1 && (op->forms & CR_AS_FUNCTION) && !(op->forms & CR_AS_COPIED);
}

static PyTypeObject *make_named(const cr_op *op, PyObject *name)
{
    PyStructSequence_Field fields[CR_MAX_RESULTS + 1] = {{0}};
    PyObject *full = PyUnicode_FromFormat("torch.return_types.%U", name);
    PyTypeObject *type = NULL;

    if (!full)
        return NULL;
    for (int i = 0; i < op->result_count; i++)
        fields[i].name = op->result[i].name;
    PyStructSequence_Desc desc = {PyUnicode_AsUTF8(full), NULL, fields, op->result_count};
    type = PyStructSequence_NewType(&desc);
    if (type)
        type->tp_repr = named_repr;
    if (type && PyDict_SetItem(return_types, name, (PyObject *)type) < 0)
        Py_CLEAR(type);
    Py_DECREF(full);
    Py_XDECREF(type); /* the dict holds a reference */
    return type;
}

/* The named tuple type of an entry's results, or of those of out=; borrowed, NULL with an
 * exception. */
static PyTypeObject *named_type(const cr_op *op, bool out)
{
    PyObject *name = PyUnicode_FromFormat(out ? "%s_out" : "%s", op->name);
    PyTypeObject *type = NULL;

    if (name)
        type = (PyTypeObject *)PyDict_GetItemWithError(return_types, name);
    if (name && !type && !PyErr_Occurred())
        type = make_named(op, name);
    Py_XDECREF(name);
    return type;
}

/* How several results are given to Python. */
typedef enum { AS_TUPLE, AS_NAMED, AS_NAMED_OUT } results_form;

static PyObject *new_results(const cr_op *op, results_form form)
{
    if (form == AS_TUPLE || !is_named(op))
        return PyTuple_New(op->result_count);
    PyTypeObject *type = named_type(op, form == AS_NAMED_OUT);
    return type ? PyStructSequence_New(type) : NULL;
}

/* _return_type(name, out): the named tuple type of the first overload that has one, or None. */
static PyObject *op_return_type(PyObject *module, PyObject *args)
{
    const char *name;
    int out;

    (void)module;
    if (!PyArg_ParseTuple(args, "sp", &name, &out))
        return NULL;
    const cr_op *op = cr_ops_find(name);
    while (op && (!is_named(op) || (out && !(op->forms & CR_AS_OUT))))
        op = op->next;
    if (!op)
        Py_RETURN_NONE;
    return Py_XNewRef((PyObject *)named_type(op, out != 0));
}

static PyMethodDef op_functions[] = {
    {"_return_type", op_return_type, METH_VARARGS,
     "_return_type(name, out): the named tuple type of an operator's results, or None."},
    {0}};

/* Results to Python: a tensor, a tuple, a named tuple, a number.  Takes them. */
static PyObject *call_results(const cr_op *op, cr_value *result, results_form form)
{
    if (CR_LIKELY(op->result_count == 1))
        return value_object(&result[0]);
    if (!op->result_count)
        Py_RETURN_NONE;
    PyObject *out = new_results(op, form);
    if (!out) {
        cr_drop_values(result, op->result_count);
        return NULL;
    }
    for (int i = 0; i < op->result_count; i++) {
        PyObject *item = value_object(&result[i]);
        if (!item) {
            cr_drop_values(result + i + 1, op->result_count - i - 1);
            Py_DECREF(out);
            return NULL;
        }
        PyTuple_SET_ITEM(out, i, item); /* a named tuple is a tuple */
    }
    return out;
}

PyObject *cr_py_call_wrap(const cr_op *op, const cr_value *arg)
{
    cr_value result[CR_MAX_RESULTS];
    cr_status st = cr_py_call(op, arg, result);

    return CR_LIKELY(!st) ? call_results(op, result, AS_NAMED) : cr_py_raise(st);
}

/* torch.ops gives plain tuples, which have no names. */
static results_form form_of(const cr_py_op *self, bool out)
{
    return self->shown ? AS_TUPLE : out ? AS_NAMED_OUT : AS_NAMED;
}

/* --- out= --- */

static PyObject *bad_out(const cr_py_op *self, const char *expected, PyObject *given)
{
    return PyErr_Format(PyExc_TypeError, "%U(): argument 'out' must be %s, not %s", self->name,
                        expected, Py_TYPE(given)->tp_name);
}

/* Reads the tensors of out=; false with an exception. */
static bool out_tensors(const cr_py_op *self, const cr_op *op, PyObject *given, cr_tensor **out)
{
    if (op->result_count == 1) {
        if (!cr_py_is_tensor(given))
            return bad_out(self, "Tensor", given);
        out[0] = cr_py_tensor_of(given);
        return true;
    }
    if (!PyTuple_Check(given) && !PyList_Check(given))
        return bad_out(self, "tuple of Tensors", given);
    if (PySequence_Fast_GET_SIZE(given) != op->result_count)
        return PyErr_Format(PyExc_TypeError, "expected tuple of %d elements but got %zd",
                            op->result_count, PySequence_Fast_GET_SIZE(given));
    for (int i = 0; i < op->result_count; i++) {
        PyObject *x = PySequence_Fast_GET_ITEM(given, i);
        if (!cr_py_is_tensor(x))
            return bad_out(self, "tuple of Tensors", given);
        out[i] = cr_py_tensor_of(x);
    }
    return true;
}

typedef struct {
    int ndim;
    int64_t numel, size[CR_MAX_DIMS];
} sizes;

static sizes call_sizes_of(const cr_tensor *t)
{
    sizes s = {.ndim = t->ndim, .numel = t->numel};

    memcpy(s.size, t->size, t->ndim * sizeof *t->size);
    return s;
}

/* Warns when an out= tensor with elements was resized. */
static int warn_resized(const sizes *had, const cr_tensor *now)
{
    int done;

    if (!had->numel || (had->ndim == now->ndim &&
                        !memcmp(had->size, now->size, now->ndim * sizeof *now->size)))
        return 0;
    done = PyErr_WarnFormat(
        PyExc_UserWarning, 1,
        "An output with one or more elements was resized since it had shape %s, which does not "
        "match the required output shape %s. This behavior is deprecated, and in a future "
        "PyTorch "
        "release outputs will not be resized unless they have zero elements. You can "
        "explicitly "
        "reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
        cr_view_text(had), cr_view_text(now));
    return done;
}

/* Raises one warning of an entry, with this text.  `said` is that of a warning that comes
 * once. */
static int warn_text(const cr_warning *w, bool *said, const cr_text *text)
{
    return w->once ? cr_py_warn_once(said, cr_text_str(text))
                   : PyErr_WarnEx(PyExc_UserWarning, cr_text_str(text), 1);
}

/* Raises the entry's warnings (clause `warn`) after a call.  A recording does not see that they
 * are shown: later calls of its program do not warn again. */
static CR_NOINLINE int warn_called(const cr_op *op, const cr_value *arg)
{
    static bool said[CR_MOST_OPS][CR_MAX_WARNINGS];
    cr_recorder *paused = cr_recorder_pause();
    int done = 0;

    for (int i = 0; i < op->warning_count && done == 0; i++) {
        cr_text text = {0};
        cr_status st = cr_op_print_warning(&text, op, i, arg);
        if (st)
            done = cr_py_raise_int(st);
        else if (text.len)
            done = warn_text(&op->warnings[i], &said[op->index][i], &text);
        cr_text_drop(&text);
    }
    cr_recorder_resume(paused);
    return done;
}

static bool makes_complex_half(const cr_op *op, const cr_value *result)
{
    return op->result_count && result[0].tag == CR_TENSOR && result[0].t &&
           result[0].t->dtype == CR_C32 && op->does != CR_DOES_INPLACE &&
           !(op->words & CR_WORD_VIEW);
}

/* The results as Python objects, after the entry's warnings.  A call of an overload tells
 * nothing: it is made by a handler for a call that tells. */
CR_ALWAYS_INLINE PyObject *told_results(const cr_py_op *self, const cr_op *op,
                                        const cr_value *arg, cr_value *result, results_form how)
{
    bool expanded = op->does == CR_DOES_INPLACE && op->expanded;

    if (CR_UNLIKELY(op->warning_count || expanded) && !self->shown &&
        ((expanded && cr_py_warn_expanded(op, arg[0].t) < 0) ||
         (op->warning_count && !(op->silent && op->silent(arg)) && warn_called(op, arg) < 0))) {
        cr_drop_values(result, op->result_count);
        return NULL;
    }
    if (CR_UNLIKELY(makes_complex_half(op, result)) && cr_py_warn_complex_half() < 0) {
        cr_drop_values(result, op->result_count);
        return NULL;
    }
    return call_results(op, result, how);
}

/* The dtype that a factory is given must be that of `out`. */
static bool dtype_matches_out(const cr_py_sig *s, const cr_value *arg, const cr_tensor *out)
{
    int dtype = s->factory ? cr_op_find_param(s->op, "dtype") : -1;

    if (dtype < 0 || arg[dtype].tag != CR_DTYPE_VAL || arg[dtype].i == out->dtype)
        return true;
    PyErr_Format(PyExc_RuntimeError, "dtype %s does not match dtype of out parameter (%s)",
                 cr_dtype_infos[arg[dtype].i].legacy, cr_dtype_infos[out->dtype].legacy);
    return false;
}

/* out= for tensors that wrap others: the function, then a copy to each of `out`. */
static cr_status call_out_by_copies(const cr_op *op, const cr_value *arg, cr_tensor **out,
                                    cr_value *result)
{
    cr_value made[CR_MAX_RESULTS];
    cr_status st = CR_OK;
    int k;

    CR_TRY(cr_call(op, arg, made));
    for (k = 0; !st && k < op->result_count; k++) {
        cr_value copy[] = {cr_of_tensor(out[k]), made[k]};
        st = cr_call_given(&result[k], cr_ops_find("copy_"), copy, 2);
    }
    cr_drop_values(made, op->result_count);
    if (st)
        cr_drop_values(result, k - 1);
    return st;
}

/* The tensors that an overload writes to. */
static bool given_tensors(const cr_py_op *self, const cr_py_sig *s, PyObject *const *given,
                          cr_tensor **out)
{
    for (int i = 0; i < s->op->result_count; i++) {
        if (!cr_py_is_tensor(given[i])) {
            PyErr_Format(PyExc_TypeError, "%U(): argument '%s' must be Tensor, not %s",
                         self->name, s->given[i], Py_TYPE(given[i])->tp_name);
            return false;
        }
        out[i] = cr_py_tensor_of(given[i]);
    }
    return true;
}

/* out= of an entry whose result is a list of tensors. */
static PyObject *call_out_list(const cr_py_op *self, const cr_py_sig *s, cr_py_args *a)
{
    PyObject *list = a->given[0];
    Py_ssize_t n =
        PyList_Check(list) || PyTuple_Check(list) ? PySequence_Fast_GET_SIZE(list) : -1;
    cr_tensor **out = n < 0 ? NULL : cr_py_args_get(a, (size_t)(n + !n) * sizeof *out);
    cr_status st;

    if (n < 0)
        return PyErr_Format(PyExc_TypeError,
                            "%U(): argument '%s' must be tuple of Tensors, not %s", self->name,
                            s->given[0], Py_TYPE(list)->tp_name);
    if (!out)
        return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PySequence_Fast_GET_ITEM(list, i);
        if (!cr_py_is_tensor(x))
            return PyErr_Format(
                PyExc_TypeError,
                "%U(): argument '%s' must be tuple of Tensors, but found element of "
                "type %s at pos %zd",
                self->name, s->given[0], Py_TYPE(x)->tp_name, i);
        out[i] = cr_py_tensor_of(x);
    }
    st = cr_call_out_list(s->op, a->value, out, (int)n);
    return st ? cr_py_raise(st) : Py_NewRef(Py_None);
}

static PyObject *call_out(const cr_py_op *self, const cr_py_sig *s, cr_py_args *a)
{
    const cr_op *op = s->op;
    cr_tensor *out[CR_MAX_RESULTS] = {0};
    cr_value result[CR_MAX_RESULTS];
    sizes had[CR_MAX_RESULTS];
    cr_status st;

    if (!(s->given ? given_tensors(self, s, a->given, out)
                   : out_tensors(self, op, a->out, out)) ||
        !dtype_matches_out(s, a->value, out[0]))
        return NULL;
    for (int k = 0; k < op->result_count; k++)
        had[k] = call_sizes_of(out[k]);
    if (CR_UNLIKELY(cr_is_dispatched(out[0])))
        st = call_out_by_copies(op, a->value, out, result);
    else if (is_large(op, a->value))
        CR_PY_UNLOCKED(st = cr_call_out(op, a->value, out, result));
    else
        st = cr_call_out(op, a->value, out, result);
    if (st)
        return cr_py_raise(st);
    for (int k = 0; k < op->result_count; k++)
        if (warn_resized(&had[k], out[k]) < 0) {
            cr_drop_values(result, op->result_count);
            return NULL;
        }
    return told_results(self, op, a->value, result, form_of(self, true));
}

/* --- the callables --- */

cr_status cr_py_ask_grad(cr_tensor *t)
{
    if (!cr_dtype_is_inexact((cr_dtype)t->dtype))
        return cr_fail(
            CR_RUNTIME,
            "Only Tensors of floating point and complex dtype can require gradients");
    return cr_set_requires_grad(t, true);
}

CR_ALWAYS_INLINE PyObject *call_run(const cr_py_op *self, const cr_py_sig *s, cr_py_args *a)
{
    cr_value result[CR_MAX_RESULTS];
    cr_status st;

    if (CR_UNLIKELY(s->given != NULL) && s->op->result[0].type == CR_T_TENSORS)
        return call_out_list(self, s, a);
    if (CR_UNLIKELY(a->out != NULL || s->given != NULL))
        return call_out(self, s, a);
    st = cr_py_call(s->op, a->value, result);
    if (CR_UNLIKELY(st))
        return cr_py_raise(st);
    if (CR_UNLIKELY(a->requires_grad) && result[0].tag == CR_TENSOR) {
        st = cr_py_ask_grad(result[0].t);
        if (st) {
            cr_drop_values(result, s->op->result_count);
            return cr_py_raise(st);
        }
    }
    return told_results(self, s->op, a->value, result, form_of(self, false));
}

static PyObject *call_shown(const cr_py_op *self)
{
    return self->shown ? self->shown : (PyObject *)(uintptr_t)self;
}

/* Calls the operator, or functions of the arguments' classes. */
CR_ALWAYS_INLINE PyObject *call_bound(const cr_py_op *self, const cr_py_sig *s, cr_py_args *a,
                                      const cr_py_given *g)
{
    if (CR_UNLIKELY(a->overloaded_count > 0))
        return cr_py_override_call(call_shown(self), a->overloaded, a->overloaded_count, g);
    return call_run(self, s, a);
}

static int warn_of_old(const char *name, const cr_py_sig *old, const cr_py_sig *sig)
{
    static bool said;
    cr_text text = {0};
    bool silent = said && !cr_thread.warn_always;
    cr_status st = silent ? CR_OK : cr_py_text_of_old(&text, name, old, sig);
    int done = st ? cr_py_raise_int(st) : cr_py_warn_once(&said, cr_text_str(&text));

    cr_text_drop(&text);
    return done;
}

/* A call that no signature takes: with numbers before tensors, or an error. */
static CR_NOINLINE PyObject *call_old(const cr_py_op *self, const cr_py_given *g)
{
    const char *name = PyUnicode_AsUTF8(self->name);
    cr_py_sig old;
    cr_py_args a;

    for (const cr_py_sig *s = self->chain; s; s = s->next)
        for (int way = 0; cr_py_old_sig(&old, s, way); way++) {
            PyObject *out = NULL;
            cr_py_args_init(&a);
            cr_py_fit fit = cr_py_bind(&a, &old, g, self->method);
            if (fit == CR_PY_FITS && warn_of_old(name, &old, s) == 0)
                out = call_bound(self, &old, &a, g);
            cr_py_args_drop(&a);
            if (fit != CR_PY_MISFIT)
                return out;
        }
    return cr_py_explain(name, self->chain, g, self->method);
}

/* Tries the overloads in table order. */
static PyObject *op_call(PyObject *callable, PyObject *const *args, size_t flagged,
                         PyObject *names)
{
    const cr_py_op *self = (cr_py_op *)callable;
    const cr_py_given g = {args, PyVectorcall_NARGS(flagged), names};
    cr_py_fit fit = CR_PY_MISFIT;
    const cr_py_sig *s;
    PyObject *out;
    cr_py_args a;

    if (CR_UNLIKELY(cr_py_mode_count))
        return cr_py_mode_call(call_shown(self), &g);
    if (CR_UNLIKELY(self->method && (!g.count || !cr_py_is_tensor(args[0]))))
        return PyErr_Format(
            PyExc_TypeError,
            "descriptor '%U' for 'torch._C.TensorBase' objects doesn't apply to a '%s' object",
            self->name, g.count ? Py_TYPE(args[0])->tp_name : "missing");
    cr_py_args_init(&a);
    for (s = self->chain; s; s = s->next) {
        fit = cr_py_bind(&a, s, &g, self->method);
        if (fit != CR_PY_MISFIT)
            break;
        cr_py_args_drop(&a);
        cr_py_args_init(&a);
    }
    if (CR_LIKELY(fit == CR_PY_FITS))
        out = call_bound(self, s, &a, &g);
    else if (fit == CR_PY_RAISED) {
        cr_py_explain_raised(PyUnicode_AsUTF8(self->name), s, &a);
        out = NULL;
    } else
        out = call_old(self, &g);
    cr_py_args_drop(&a);
    return out;
}

static PyObject *op_bind(PyObject *self, PyObject *obj, PyObject *type)
{
    (void)type;
    return obj ? PyMethod_New(self, obj) : Py_NewRef(self);
}

static PyObject *op_repr(PyObject *self)
{
    const cr_py_op *o = (cr_py_op *)self;

    return PyUnicode_FromFormat(o->method ? "<method '%U' of 'torch._C.TensorBase' objects>"
                                          : "<built-in function %U>",
                                o->name);
}

static PyObject *op_name(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(((cr_py_op *)self)->name);
}

static PyObject *op_qualname(PyObject *self, void *unused)
{
    const cr_py_op *o = (cr_py_op *)self;

    (void)unused;
    return o->method ? PyUnicode_FromFormat("TensorBase.%U", o->name) : Py_NewRef(o->name);
}

/* The entry's sizes: its clause, or those that follow from its kind. */
static void doc_sizes(cr_text *text, const cr_op *op)
{
    const char *implied = NULL;

    if (op->does == CR_DOES_INPLACE)
        implied = "those of self; other tensors are broadcast to it";
    if (op->does == CR_DOES_BODY)
        implied = op->tensor_params & (op->tensor_params - 1)
                      ? "those of the tensors, broadcast"
                      : "those of the tensor";
    if (op->does == CR_DOES_FOLD)
        implied = "those of the tensor without the reduced dims; 1 there with keepdim";
    if (op->text.sizes.len) {
        cr_text_put(text, "    Sizes: ");
        cr_clause_put(text, op->text.sizes);
        cr_text_put(text, ".\n");
    } else if (implied)
        cr_text_printf(text, "    Sizes: %s.\n", implied);
}

static void doc_dtypes(cr_text *text, const cr_op *op)
{
    cr_text dtypes = {0};

    cr_op_print_dtypes(&dtypes, op);
    text->failed |= dtypes.failed;
    if (dtypes.len)
        cr_text_printf(text, "    Dtypes: %s.\n", cr_text_str(&dtypes));
    cr_text_drop(&dtypes);
}

/* An example "expression -> result" as a session. */
static void doc_example(cr_text *text, const cr_op *op)
{
    const char *arrow = op->text.example.len ? strstr(op->text.example.at, " -> ") : NULL;

    if (!arrow || arrow >= op->text.example.at + op->text.example.len)
        return;
    cr_text_printf(text, "\n    >>> %.*s\n    %.*s\n", (int)(arrow - op->text.example.at),
                   op->text.example.at,
                   (int)(op->text.example.at + op->text.example.len - arrow - 4), arrow + 4);
}

/* The table's sentence and all schemas. */
static PyObject *op_doc(PyObject *self, void *unused)
{
    const cr_py_op *o = (cr_py_op *)self;
    cr_text text = {0};

    (void)unused;
    for (const cr_py_sig *s = o->chain; s; s = s->next) {
        cr_text_put(&text, s == o->chain ? "" : "\n");
        cr_op_print_schema(&text, s->op);
        cr_text_put(&text, "\n    ");
        cr_clause_put(&text, s->op->text.doc);
        cr_text_char(&text, '\n');
        doc_sizes(&text, s->op);
        doc_dtypes(&text, s->op);
        doc_example(&text, s->op);
    }
    return cr_py_text(&text, CR_OK);
}

/* Modules for functions outside the package's main namespace, as in torch. */
static const struct {
    const char *module, *prefix; /* empty prefix: functions that only nn.functional has */
} families[] = {
    {"_nn", NULL}, {"_linalg", "linalg_"}, {"_fft", "fft_"}, {"_special", "special_"}};

static bool is_family(size_t i, const char *name, unsigned forms)
{
    const char *prefix = families[i].prefix;

    return prefix ? !strncmp(name, prefix, strlen(prefix))
                  : (forms & CR_AS_NN) && !(forms & CR_AS_FUNCTION);
}

static unsigned all_forms(const cr_py_op *o)
{
    unsigned forms = 0;

    for (const cr_py_sig *s = o->chain; s; s = s->next)
        forms |= cr_py_forms(s->op);
    return forms;
}

static PyObject *op_module(PyObject *self, void *unused)
{
    const cr_py_op *o = (cr_py_op *)self;
    const char *name = PyUnicode_AsUTF8(o->name);

    (void)unused;
    for (size_t i = 0; i < CR_LEN(families) && !o->method; i++)
        if (is_family(i, name, all_forms(o)))
            return PyUnicode_FromFormat("%s._C.%s", cr_py_root(), families[i].module);
    return PyUnicode_InternFromString(cr_py_root());
}

/* Pickles a callable by name. */
static PyObject *op_reduce(PyObject *self, PyObject *unused)
{
    const cr_py_op *o = (cr_py_op *)self;
    PyObject *get_attribute;

    (void)unused;
    if (!o->method)
        return Py_NewRef(o->name);
    get_attribute = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
    return Py_BuildValue("O(OO)", get_attribute, (PyObject *)cr_py_tensor_type, o->name);
}

static PyGetSetDef op_getset[] = {{"__name__", op_name, NULL, NULL, NULL},
                                  {"__qualname__", op_qualname, NULL, NULL, NULL},
                                  {"__doc__", op_doc, NULL, NULL, NULL},
                                  {"__module__", op_module, NULL, NULL, NULL},
                                  {0}};
static PyMethodDef op_methods[] = {{"__reduce__", op_reduce, METH_NOARGS, NULL}, {0}};

PyTypeObject cr_py_function_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.function",
    .tp_basicsize = sizeof(cr_py_op),
    .tp_flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(cr_py_op, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_repr = op_repr,
    .tp_methods = op_methods,
    .tp_getset = op_getset,
};
PyTypeObject cr_py_method_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.method",
    .tp_basicsize = sizeof(cr_py_op),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(cr_py_op, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = op_bind,
    .tp_repr = op_repr,
    .tp_methods = op_methods,
    .tp_getset = op_getset,
};

/* --- installing --- */

PyObject *cr_py_op_callable(cr_py_sig *chain, const char *name, bool method)
{
    cr_py_op *self = PyObject_New(cr_py_op, method ? &cr_py_method_type : &cr_py_function_type);

    if (!self)
        return NULL;
    self->vectorcall = op_call;
    self->chain = chain;
    self->method = method;
    self->shown = NULL;
    self->name = PyUnicode_InternFromString(name);
    return (PyObject *)self;
}

static PyObject *op_new(const cr_op *op, const char *name, unsigned forms, bool method)
{
    cr_py_sig *chain = cr_py_sig_chain(op, forms, method);

    return chain ? cr_py_op_callable(chain, name, method) : NULL;
}

/* Adds the callable of `op` to the dict `where`, unless no overload has a form in `forms`. */
static int install(PyObject *where, const cr_op *op, const char *as, unsigned forms,
                   bool method)
{
    PyObject *callable = op_new(op, as, forms, method);

    if (!callable)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *name = ((cr_py_op *)callable)->name;
    int done = 0;
    /* existing methods are hand-written: detach, item, set_ */
    if (!PyDict_Contains(where, name))
        done = PyDict_SetItem(where, name, callable);
    Py_DECREF(callable);
    return done;
}

static int install_all(PyObject *m, PyObject *ops, const cr_op *op, const char *as)
{
    if (install(PyModule_GetDict(ops), op, as, 0, false) < 0 ||
        install(PyModule_GetDict(m), op, as, CR_AS_FUNCTION, false) < 0)
        return -1;
    return install(cr_py_tensor_type->tp_dict, op, as, CR_AS_METHOD, true);
}

static bool has_family_prefix(const char *name)
{
    for (size_t i = 0; i < CR_LEN(families); i++)
        if (families[i].prefix && is_family(i, name, 0))
            return true;
    return false;
}

/* Adds the names of clause `also`.  The in-place form of "clip" is "clip_"; names of a family,
 * as "special_erf", are functions only. */
static int install_also(PyObject *m, PyObject *ops, const cr_op *op)
{
    const char *p = (op->inplace_of ? op->inplace_of : op)->text.also;
    char name[64];

    for (p += strspn(p, " "); *p; p += strspn(p, " ")) {
        int n = (int)strcspn(p, " "), done = 0;
        snprintf(name, sizeof name, "%.*s%s", n, p, op->inplace_of ? "_" : "");
        if (!has_family_prefix(name))
            done = install_all(m, ops, op, name);
        else if (!op->inplace_of)
            done = install(PyModule_GetDict(ops), op, name, 0, false);
        if (done < 0)
            return -1;
        p += n;
    }
    return 0;
}

/* Makes the modules of families[], with the callables in `ops`. */
static int install_families(PyObject *m, PyObject *ops)
{
    PyObject *name, *callable;

    for (size_t i = 0; i < CR_LEN(families); i++) {
        char full[64];
        snprintf(full, sizeof full, "%s._C.%s", cr_py_root(), families[i].module);
        PyObject *module = PyImport_AddModule(full); /* borrowed */
        Py_ssize_t at = 0;
        if (!module || PyModule_AddObjectRef(m, families[i].module, module) < 0)
            return -1;
        while (PyDict_Next(PyModule_GetDict(ops), &at, &name, &callable))
            if (Py_IS_TYPE(callable, &cr_py_function_type) &&
                is_family(i, PyUnicode_AsUTF8(name), all_forms((cr_py_op *)callable)) &&
                PyModule_AddObjectRef(module, PyUnicode_AsUTF8(name), callable) < 0)
                return -1;
    }
    return 0;
}

int cr_py_op_start(PyObject *m)
{
    const char *full = cr_py_full_name("_C.ops");
    PyObject *ops = full ? PyModule_New(full) : NULL;

    return_types = PyDict_New();
    if (!ops || !return_types || cr_py_type_ready(&cr_py_function_type) < 0 ||
        cr_py_type_ready(&cr_py_method_type) < 0)
        return -1;
    for (int i = 0; i < cr_ops_count(); i++) {
        const cr_op *op = cr_ops_at(i);
        /* the first overload's callable serves all overloads */
        if (cr_ops_find(op->name) != op)
            continue;
        if (install_all(m, ops, op, op->name) < 0 || install_also(m, ops, op) < 0)
            return -1;
    }
    PyType_Modified(cr_py_tensor_type);
    if (install_families(m, ops) < 0)
        return -1;
    if (PyModule_AddFunctions(m, op_functions) < 0)
        return -1;
    return PyModule_AddObject(m, "ops", ops);
}
