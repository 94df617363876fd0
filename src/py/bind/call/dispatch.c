/* __torch_dispatch__: classes of tensors and modes that handle calls of operators.
 *
 * Tensors of such classes have the bit of the stage PYTHON, and so has the thread while a mode
 * is active.  The stage is below autograd, so a handler sees the operators that run, forward
 * and backward.  `utils/_python_dispatch.py` finds torch's overload and calls the handler. */
#include "entry.h"
#include "graph/graph.h"
#include "py/bind/bind.h"
#include "tensor/batch.h"

static CR_THREAD PyObject *dispatch_modes; /* list of active TorchDispatchModes; NULL: none */
static CR_THREAD int dispatch_off;         /* number of active guards _DisableTorchDispatch */
static CR_THREAD bool dispatch_apart;      /* the next composition's parts are handled */
static PyObject *dispatch_caller;          /* set by _set_dispatch_caller */
static PyObject *dispatch_name, *dispatch_disabled, *dispatch_records_name,
    *dispatch_whole_name, *dispatch_draws_name;

/* --- which calls --- */

void cr_py_mark_dispatched(PyTypeObject *type, cr_tensor *t)
{
    PyObject *handler;

    if (type == cr_py_tensor_type || !dispatch_disabled)
        return;
    handler = PyObject_GetAttr((PyObject *)type, dispatch_name);
    if (!handler)
        PyErr_Clear();
    else if (handler != dispatch_disabled)
        t->stages |= CR_DISPATCH_BITS;
    Py_XDECREF(handler);
}

/* The thread's bits follow from its modes and guards. */
static void dispatch_update_thread(void)
{
    if (dispatch_modes && PyList_GET_SIZE(dispatch_modes))
        cr_thread.include |= CR_DISPATCH_BITS;
    else
        cr_thread.include &= ~CR_DISPATCH_BITS;
    if (dispatch_off)
        cr_thread.exclude |= CR_STAGE_BIT(PYTHON);
    else
        cr_thread.exclude &= ~CR_STAGE_BIT(PYTHON);
}

/* True when autograd will record the call's parts. */
static bool dispatch_is_recorded(const cr_op *op, const cr_value *arg)
{
    return !cr_thread.no_grad && !(cr_thread.exclude & CR_STAGE_BIT(AUTOGRAD)) &&
           cr_any_tensor(op, arg, cr_requires_grad);
}

/* True if the class of a tensor has an attribute. */
static bool dispatch_value_has(const cr_value *v, PyObject *name)
{
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        if (dispatch_value_has(&v->list[i], name))
            return true;
    if (v->tag != CR_TENSOR || !cr_is_dispatched(v->t))
        return false;
    if (cr_is_example(v->t))
        return name == dispatch_records_name; /* python/cresset/_functorch/vmap.py */
    PyGILState_STATE locked = PyGILState_Ensure();
    PyObject *x = cr_py_wrap_keep(v->t);
    bool has = x && PyObject_HasAttr((PyObject *)Py_TYPE(x), name);
    Py_XDECREF(x);
    PyErr_Clear();
    PyGILState_Release(locked);
    return has;
}

static bool dispatch_args_have(const cr_op *op, const cr_value *arg, PyObject *name)
{
    for (uint32_t m = op->tensor_params; m; m &= m - 1)
        if (dispatch_value_has(&arg[CR_CTZ(m)], name))
            return true;
    return false;
}

/* True if a handler calls operators with tensors that have other histories than the call's
 * arguments, so that autograd must record the calls that the call consists of. */
static bool dispatch_records_parts(const cr_op *op, const cr_value *arg)
{
    return dispatch_args_have(op, arg, dispatch_records_name);
}

/* True if the class of the thread's innermost mode has an attribute. */
static bool dispatch_mode_has(PyObject *name)
{
    Py_ssize_t n = dispatch_modes ? PyList_GET_SIZE(dispatch_modes) : 0;

    if (!n)
        return false;
    PyGILState_STATE locked = PyGILState_Ensure();
    bool has =
        PyObject_HasAttr((PyObject *)Py_TYPE(PyList_GET_ITEM(dispatch_modes, n - 1)), name);
    PyGILState_Release(locked);
    return has;
}

/* True if the innermost mode's class, or the class of an argument, has an attribute. */
static bool dispatch_handler_has(const cr_op *op, const cr_value *arg, PyObject *name)
{
    if (dispatch_off || cr_thread.exclude & CR_STAGE_BIT(PYTHON))
        return false;
    return dispatch_mode_has(name) || dispatch_args_have(op, arg, name);
}

/* Takes the interpreter lock only where there is a mode or a tensor of a subclass: a thread may
 * make a program here that another thread waits for with the lock. */
static cr_handled dispatch_handling(const cr_op *op, const cr_value *arg)
{
    return dispatch_handler_has(op, arg, dispatch_records_name) ? CR_HANDLED_PARTS
           : dispatch_handler_has(op, arg, dispatch_whole_name) ? CR_HANDLED_WHOLE
                                                                : CR_HANDLED_NOT;
}

static bool dispatch_makes_recorded(const cr_op *op, const cr_value *arg)
{
    return dispatch_handling(op, arg) == CR_HANDLED_PARTS;
}

static bool dispatch_has_parts(const cr_op *op, const cr_value *arg)
{
    bool composite = op->does == CR_DOES_IS || op->does == CR_DOES_WHOLE;

    if (op->custom ||
        (op->dispatch.call && (op->does == CR_DOES_WHOLE || !cr_op_makes_tensors(op))))
        return false;
    if (op->dispatch.calls)
        return op->does != CR_DOES_BODY || !dispatch_records_parts(op, arg);
    return composite && !op->differentiable &&
           (!op->dispatch.call || dispatch_is_recorded(op, arg) ||
            dispatch_records_parts(op, arg));
}

/* Replaces results by aliases without the history that the parts gave them: the history of the
 * call itself follows. */
static cr_status dispatch_detach(const cr_op *op, cr_value *result)
{
    for (int k = 0; k < op->result_count; k++) {
        cr_value made;
        if (result[k].tag != CR_TENSOR)
            continue;
        CR_TRY(cr_call_given(&made, cr_entry.detach, &result[k], 1));
        cr_drop(result[k].t);
        result[k] = made;
    }
    return CR_OK;
}

/* Runs the parts of a call below autograd, or recorded for classes that ask for it. */
static cr_status dispatch_parts(const cr_op *op, const cr_value *arg, cr_value *result)
{
    uint32_t was = cr_thread.exclude;

    if (!op->differentiable || !dispatch_records_parts(op, arg))
        return cr_call_dispatch_parts(op, arg, result);
    cr_thread.exclude &= ~CR_STAGES_UP_TO(CR_STAGE_AUTOGRAD);
    cr_status st = cr_call_dispatch_parts(op, arg, result);
    cr_thread.exclude = was;
    CR_TRY(st);
    st = dispatch_detach(op, result);
    if (st)
        cr_drop_values(result, op->result_count);
    return st;
}

/* The in-place form of a composition: the composition, then a copy. */
static cr_status dispatch_inplace_parts(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_value made[CR_MAX_RESULTS];

    CR_TRY(dispatch_parts(op->inplace_of, arg, made));
    cr_value copy[] = {arg[0], made[0]};
    cr_status st = cr_call_given(result, cr_ops_find("copy_"), copy, 2);
    cr_drop_values(made, op->result_count);
    return st;
}

/* --- calling handlers --- */

/* Adds an object whose class differs from those in `list`, before the first object of a base
 * class. */
static int dispatch_add(PyObject *list, PyObject *x)
{
    Py_ssize_t at = PyList_GET_SIZE(list);

    for (Py_ssize_t i = PyList_GET_SIZE(list); i-- > 0;) {
        PyTypeObject *other = Py_TYPE(PyList_GET_ITEM(list, i));
        if (other == Py_TYPE(x))
            return 0;
        if (PyType_IsSubtype(Py_TYPE(x), other))
            at = i;
    }
    return PyList_Insert(list, at, x);
}

static int dispatch_add_value(PyObject *list, const cr_value *v)
{
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        if (dispatch_add_value(list, &v->list[i]) < 0)
            return -1;
    if (v->tag != CR_TENSOR || !cr_is_dispatched(v->t))
        return 0;
    PyObject *x = cr_py_wrap_keep(v->t);
    int done = x ? dispatch_add(list, x) : -1;
    Py_XDECREF(x);
    return done;
}

/* One tensor for each class with a __torch_dispatch__ among the arguments. */
static PyObject *dispatch_overloaded(const cr_op *op, const cr_value *arg)
{
    PyObject *list = PyList_New(0);

    for (uint32_t m = op->tensor_params; list && m; m &= m - 1)
        if (dispatch_add_value(list, &arg[CR_CTZ(m)]) < 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *dispatch_ask(PyObject *mode, PyObject *overloaded, const cr_op *op,
                              PyObject *args)
{
    if (!dispatch_caller) { /* the module calls _set_dispatch_caller */
        PyObject *module = cr_py_import("utils._python_dispatch");
        if (!module)
            return NULL;
        Py_DECREF(module);
    }
    return PyObject_CallFunction(dispatch_caller, "OOssO", mode, overloaded, op->name,
                                 op->overload, args);
}

static int dispatch_push_mode(PyObject *mode)
{
    if ((!dispatch_modes && !(dispatch_modes = PyList_New(0))) ||
        PyList_Append(dispatch_modes, mode) < 0)
        return -1;
    dispatch_update_thread();
    return 0;
}

/* The innermost mode, owned; NULL without an error if there is none.  A thread without modes
 * has no list, so its end leaves none. */
static PyObject *dispatch_pop_mode(void)
{
    Py_ssize_t last = dispatch_modes ? PyList_GET_SIZE(dispatch_modes) - 1 : -1;

    if (last < 0)
        return NULL;
    PyObject *mode = Py_NewRef(PyList_GET_ITEM(dispatch_modes, last));
    if (PyList_SetSlice(dispatch_modes, last, last + 1, NULL) < 0)
        Py_CLEAR(mode);
    else if (!last)
        Py_CLEAR(dispatch_modes);
    dispatch_update_thread();
    return mode;
}

/* Calls the innermost mode, which is inactive during the call; NotImplemented without one. */
static PyObject *dispatch_ask_mode(PyObject *overloaded, const cr_op *op, PyObject *args)
{
    PyObject *mode = dispatch_pop_mode(), *out;

    if (!mode)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
    out = dispatch_ask(mode, overloaded, op, args);
    if (dispatch_push_mode(mode) < 0)
        Py_CLEAR(out);
    Py_DECREF(mode);
    return out;
}

static PyObject *dispatch_handlers(const cr_op *op, const cr_value *arg)
{
    PyObject *args = cr_py_arguments(op, arg);
    PyObject *overloaded = args ? dispatch_overloaded(op, arg) : NULL;
    PyObject *out = overloaded ? dispatch_ask_mode(overloaded, op, args) : NULL;

    if (out == Py_NotImplemented)
        Py_SETREF(out, dispatch_ask(Py_None, overloaded, op, args));
    Py_XDECREF(overloaded);
    Py_XDECREF(args);
    return out;
}

/* --- results --- */

/* The argument that result k is, by the schema: one that the entry writes; NULL for none. */
static cr_tensor *dispatch_written(const cr_op *op, int k, const cr_value *arg)
{
    if (op->does == CR_DOES_INPLACE)
        return arg[0].t;
    for (int i = 0; i < op->param_count; i++)
        if (op->result[k].written && op->param[i].written && arg[i].tag == CR_TENSOR &&
            op->param[i].alias == op->result[k].alias)
            return arg[i].t;
    return NULL;
}

/* A handler may return anything for a tensor that the operator writes; the result is that
 * tensor. */
static cr_status dispatch_results(cr_value *result, const cr_op *op, const cr_value *arg,
                                  PyObject *x)
{
    cr_tensor *written = op->result_count ? dispatch_written(op, 0, arg) : NULL;

    if (!written)
        return cr_py_results(result, op, x);
    for (int k = 0; k < op->result_count; k++)
        result[k] = cr_of_tensor(cr_keep(dispatch_written(op, k, arg)));
    return CR_OK;
}

/* Versions of the tensors without elements that a call writes. */
typedef struct {
    const cr_tensor *of[CR_MAX_ARGS];
    uint32_t was[CR_MAX_ARGS];
    int n;
} dispatch_versions;

static void dispatch_versions_before(dispatch_versions *v, const cr_op *op, const cr_value *arg)
{
    v->n = 0;
    for (int i = 0; i < op->param_count; i++)
        if ((op->param[i].written || (!i && op->does == CR_DOES_INPLACE)) &&
            arg[i].tag == CR_TENSOR && !cr_has_elements(arg[i].t) && arg[i].t->storage) {
            v->of[v->n] = arg[i].t;
            v->was[v->n++] = arg[i].t->storage->version;
        }
}

/* A handler writes the tensors inside, so the versions outside increase here; not when it has
 * made a call of the operator, which did it. */
static void dispatch_versions_after(const dispatch_versions *v)
{
    for (int i = 0; i < v->n; i++)
        v->of[i]->storage->version += v->of[i]->storage->version == v->was[i];
}

static bool dispatch_draws(const cr_op *op)
{
    return (op->inplace_of ? op->inplace_of : op)->words & CR_WORD_RANDOM;
}

/* A mode with _handles_draws handles calls that draw numbers alone: other calls pass it without
 * a call of Python. */
static bool dispatch_passes_mode(const cr_op *op)
{
    return !dispatch_off && !dispatch_draws(op) && dispatch_mode_has(dispatch_draws_name);
}

/* The call without the innermost mode. */
static cr_status dispatch_past_mode(const cr_op *op, const cr_value *arg, cr_value *result)
{
    PyGILState_STATE locked = PyGILState_Ensure();
    uint32_t was = cr_thread.exclude;
    PyObject *mode = dispatch_pop_mode();
    cr_status st = CR_PYTHON;

    if (mode) {
        cr_thread.exclude |= CR_STAGES_UP_TO(CR_STAGE_AUTOGRAD);
        st = cr_call_given(result, op, arg, op->param_count);
        cr_thread.exclude = was;
        if (dispatch_push_mode(mode) < 0 && !st) {
            cr_drop_values(result, op->result_count);
            st = CR_PYTHON;
        }
        Py_DECREF(mode);
    }
    PyGILState_Release(locked);
    return st;
}

/* Calls of a mapped function are recorded by those for the batch, and its draws, which a mode
 * handles, by those that the mode makes; others only by recorders with parts. */
static cr_handled dispatch_for_recorder(const cr_op *op, const cr_value *arg)
{
    if (dispatch_off || cr_thread.exclude & CR_STAGE_BIT(PYTHON))
        return CR_HANDLED_NOT;
    if (cr_any_tensor(op, arg, cr_is_example) ||
        (dispatch_draws(op) && dispatch_mode_has(dispatch_draws_name)))
        return CR_HANDLED_PARTS;
    return cr_recorder_has_parts() ? dispatch_handling(op, arg) : CR_HANDLED_NOT;
}

/* Refuses to record a call that a handler sees, unless the recorder takes what it calls. */
static void dispatch_tell_recorder(const cr_op *op, const cr_value *arg)
{
    if (!cr_recorder_is_whole() && !dispatch_for_recorder(op, arg))
        cr_recorder_refuse("__torch_dispatch__ handles a call");
}

/* Makes a call of examples for their batch, where no mode comes before; *left if Python
 * decides. */
static cr_status dispatch_batch(const cr_op *op, const cr_value *arg, cr_value *result,
                                bool *left)
{
    *left = true;
    if (dispatch_off || (dispatch_modes && PyList_GET_SIZE(dispatch_modes)) ||
        !cr_any_tensor(op, arg, cr_is_example))
        return CR_OK;
    dispatch_tell_recorder(op, arg);
    CR_TRY(cr_batch_call(op, arg, result, left));
    if (!*left || !cr_batch_comes_apart(op, arg))
        return CR_OK;
    uint32_t was = cr_thread.exclude;
    cr_thread.exclude &=
        ~CR_STAGES_UP_TO(CR_STAGE_AUTOGRAD); /* of tensors that are no batches */
    cr_status st = cr_batch_in_parts(op, arg, result, dispatch_parts);
    cr_thread.exclude = was;
    *left = false;
    return st;
}

static cr_status dispatch_call(const cr_op *op, const cr_value *arg, cr_value *result)
{
    bool left;

    if (dispatch_passes_mode(op))
        return dispatch_past_mode(op, arg, result);
    CR_TRY(dispatch_batch(op, arg, result, &left));
    if (!left)
        return CR_OK;

    PyGILState_STATE locked = PyGILState_Ensure();
    uint32_t was = cr_thread.exclude;
    dispatch_versions versions;

    dispatch_tell_recorder(op, arg);
    cr_thread.exclude |= CR_STAGES_UP_TO(CR_STAGE_AUTOGRAD);
    dispatch_versions_before(&versions, op, arg);
    PyObject *out = dispatch_handlers(op, arg);
    cr_status st = out ? dispatch_results(result, op, arg, out) : CR_PYTHON;
    if (!st)
        dispatch_versions_after(&versions);
    Py_XDECREF(out);
    cr_thread.exclude = was;
    PyGILState_Release(locked);
    return st;
}

/* A kernel of rows computes a batch at once. */
static cr_status dispatch_rows(const cr_op *op, const cr_value *arg, cr_value *result)
{
    bool left;

    if (dispatch_passes_mode(op))
        return dispatch_past_mode(op, arg, result);
    CR_TRY(dispatch_batch(op, arg, result, &left));
    return left ? dispatch_parts(op, arg, result) : CR_OK;
}

static cr_status dispatch_stage(const cr_op *op, const cr_value *arg, cr_value *result)
{
    if (dispatch_apart && op->does == CR_DOES_IS) {
        dispatch_apart = false; /* the parts themselves stay whole */
        return dispatch_parts(op, arg, result);
    }
    if (op->does == CR_DOES_INPLACE && dispatch_has_parts(op->inplace_of, arg))
        return dispatch_inplace_parts(op, arg, result);
    if (dispatch_has_parts(op, arg))
        return op->fused && cr_any_tensor(op, arg, cr_is_example)
                   ? dispatch_rows(op, arg, result)
                   : dispatch_parts(op, arg, result);
    return dispatch_call(op, arg, result);
}

/* --- modes, for Python --- */

static PyObject *dispatch_push(PyObject *m, PyObject *mode)
{
    (void)m;
    return dispatch_push_mode(mode) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *dispatch_pop(PyObject *m, PyObject *unused)
{
    PyObject *mode = dispatch_pop_mode();

    (void)m;
    (void)unused;
    if (!mode && !PyErr_Occurred())
        PyErr_SetString(PyExc_AssertionError, "no dispatch mode is active");
    return mode;
}

static PyObject *dispatch_enter(PyObject *m, PyObject *mode)
{
    (void)m;
    if (!cr_py_has_handler(mode, "__torch_dispatch__") || dispatch_push_mode(mode) < 0)
        return NULL;
    return Py_NewRef(mode);
}

static PyObject *dispatch_exit(PyObject *m, PyObject *args)
{
    PyObject *mode = dispatch_pop(m, args);

    if (!mode)
        return NULL;
    Py_DECREF(mode);
    Py_RETURN_NONE;
}

static PyMethodDef dispatch_mode_methods[] = {
    {"_enter_dispatch_mode", dispatch_enter, METH_O, "The method __enter__ of modes."},
    {"_exit_dispatch_mode", dispatch_exit, METH_VARARGS, "The method __exit__ of modes."},
    {0}};

static PyObject *dispatch_stack(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return dispatch_modes ? PyList_GetSlice(dispatch_modes, 0, PY_SSIZE_T_MAX) : PyList_New(0);
}

static PyObject *dispatch_length(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyLong_FromSsize_t(dispatch_modes ? PyList_GET_SIZE(dispatch_modes) : 0);
}

/* --- guards --- */

/* A guard acts from its construction to its end: `with`, or `del`.  It acts on the thread that
 * made it, so only this thread can end it. */
typedef struct {
    PyObject_HEAD bool active, fakes; /* fakes: the thread's before */
    unsigned long thread;
    uint32_t was; /* the thread's excluded stages before */
} dispatch_guard;

static dispatch_guard *dispatch_guard_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    dispatch_guard *g = (dispatch_guard *)PyType_GenericNew(type, args, kwargs);

    if (g) {
        g->active = true;
        g->thread = PyThread_get_thread_ident();
    }
    return g;
}

/* True if the guard is to end now; -1 with an error in another thread. */
static int dispatch_guard_ends(dispatch_guard *g)
{
    if (!g->active)
        return 0;
    if (g->thread != PyThread_get_thread_ident()) {
        PyErr_SetString(PyExc_RuntimeError, "a guard is ended by the thread that made it");
        return -1;
    }
    g->active = false;
    return 1;
}

static PyObject *dispatch_off_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    dispatch_guard *g = dispatch_guard_new(type, args, kwargs);

    if (!g)
        return NULL;
    dispatch_off++;
    dispatch_update_thread();
    return (PyObject *)g;
}

static void dispatch_off_end(const dispatch_guard *g)
{
    (void)g;
    dispatch_off--;
    dispatch_update_thread();
}

static PyObject *dispatch_fakes_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    dispatch_guard *g = (dispatch_guard *)dispatch_off_new(type, args, kwargs);

    if (!g)
        return NULL;
    g->was = cr_thread.exclude;
    g->fakes = cr_thread.fakes;
    cr_thread.fakes = true;
    cr_thread.exclude |= CR_STAGES_UP_TO(CR_STAGE_AUTOGRAD);
    return (PyObject *)g;
}

static void dispatch_fakes_end(const dispatch_guard *g)
{
    cr_thread.fakes = g->fakes;
    cr_thread.exclude = g->was;
    dispatch_off_end(g);
}

static PyObject *dispatch_again_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    dispatch_guard *g = dispatch_guard_new(type, args, kwargs);

    if (!g)
        return NULL;
    g->was = cr_thread.exclude;
    cr_thread.exclude &= ~CR_STAGES_UP_TO(CR_STAGE_AUTOGRAD);
    return (PyObject *)g;
}

static void dispatch_again_end(const dispatch_guard *g) { cr_thread.exclude = g->was; }

static PyObject *dispatch_apart_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    dispatch_guard *g = dispatch_guard_new(type, args, kwargs);

    if (!g)
        return NULL;
    g->was = cr_thread.exclude;
    cr_thread.exclude |= CR_STAGES_UP_TO(CR_STAGE_AUTOGRAD);
    dispatch_apart = true;
    return (PyObject *)g;
}

static void dispatch_apart_end(const dispatch_guard *g)
{
    dispatch_apart = false;
    cr_thread.exclude = g->was;
}

static PyObject *dispatch_guard_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

#define DISPATCH_GUARD(kind, name, text)                                                       \
    static int dispatch_##kind##_try(PyObject *self)                                           \
    {                                                                                          \
        int ends = dispatch_guard_ends((dispatch_guard *)self);                                \
                                                                                               \
        if (ends > 0)                                                                          \
            dispatch_##kind##_end((dispatch_guard *)self);                                     \
        return ends < 0 ? -1 : 0;                                                              \
    }                                                                                          \
    static PyObject *dispatch_##kind##_exit(PyObject *self, PyObject *args)                    \
    {                                                                                          \
        (void)args;                                                                            \
        return dispatch_##kind##_try(self) < 0 ? NULL : Py_NewRef(Py_None);                    \
    }                                                                                          \
    static void dispatch_##kind##_dealloc(PyObject *self)                                      \
    {                                                                                          \
        if (dispatch_##kind##_try(self) < 0)                                                   \
            PyErr_WriteUnraisable((PyObject *)Py_TYPE(self));                                  \
        Py_TYPE(self)->tp_free(self);                                                          \
    }                                                                                          \
    static PyMethodDef dispatch_##kind##_methods[] = {                                         \
        {"__enter__", dispatch_guard_enter, METH_NOARGS, NULL},                                \
        {"__exit__", dispatch_##kind##_exit, METH_VARARGS, NULL},                              \
        {0}};                                                                                  \
    static PyTypeObject dispatch_##kind##_type = {                                             \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C." name,                                   \
        .tp_basicsize = sizeof(dispatch_guard),                                                \
        .tp_flags = Py_TPFLAGS_DEFAULT,                                                        \
        .tp_doc = text,                                                                        \
        .tp_new = dispatch_##kind##_new,                                                       \
        .tp_dealloc = dispatch_##kind##_dealloc,                                               \
        .tp_methods = dispatch_##kind##_methods,                                               \
    }

DISPATCH_GUARD(off, "_DisableTorchDispatch",
               "While it lives, no __torch_dispatch__ of a class or mode is called.");
DISPATCH_GUARD(
    fakes, "_FakesOnly",
    "As _DisableTorchDispatch; operators that make tensors make fakes, and nothing records "
    "the calls.");
DISPATCH_GUARD(again, "_ReentrantDispatch",
               "While it lives, calls inside of a handler start at the first stage.");
DISPATCH_GUARD(apart, "_TakenApart",
               "While it lives, handlers get the parts of the next composition that is called, "
               "not the composition.");

/* As __torch_dispatch__: calls the function without handlers. */
static PyObject *dispatch_plain(PyObject *m, PyObject *args)
{
    PyObject *function, *types, *given = NULL, *kwargs = NULL;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO|OO:_disabled_torch_dispatch_impl", &function, &types,
                          &given, &kwargs))
        return NULL;
    if (kwargs == Py_None)
        kwargs = NULL;
    if (kwargs && !PyDict_Check(kwargs))
        return PyErr_Format(PyExc_TypeError, "expected Dict (got %s)",
                            Py_TYPE(kwargs)->tp_name);
    PyObject *tuple = given ? PySequence_Tuple(given) : PyTuple_New(0);
    if (!tuple)
        return NULL;
    dispatch_off++;
    dispatch_update_thread();
    PyObject *out = PyObject_Call(function, tuple, kwargs);
    dispatch_off--;
    dispatch_update_thread();
    Py_DECREF(tuple);
    return out;
}

/* --- tensors without elements --- */

static bool dispatch_is_wrapper_class(PyObject *cls, PyObject *dtype)
{
    if (!PyType_Check(cls) || !PyType_IsSubtype((PyTypeObject *)cls, cr_py_tensor_type))
        PyErr_SetString(PyExc_TypeError,
                        "Creating a Tensor subclass from a class that does not inherit from "
                        "Tensor is not possible. Make sure your class inherits from Tensor.");
    else if (!PyObject_TypeCheck(dtype, &cr_py_dtype_type))
        PyErr_Format(PyExc_TypeError,
                     "_make_wrapper_subclass(): argument 'dtype' must be torch.dtype, not %s",
                     Py_TYPE(dtype)->tp_name);
    else
        return true;
    return false;
}

static bool dispatch_offset(int64_t *out, PyObject *offset)
{
    if (cr_py_is_tensor(offset))
        *out = cr_py_tensor_of(offset)->offset;
    else
        *out = PyLong_AsLongLong(offset);
    if (*out < 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "Tensor: invalid storage offset %lld",
                     (long long)*out);
    return *out >= 0;
}

/* _make_wrapper(cls, size, stride or None, offset, dtype, device, requires_grad); the offset is
 * a number, or that of a tensor. */
static PyObject *dispatch_make_wrapper(PyObject *m, PyObject *args)
{
    PyObject *cls, *size, *stride, *place_in, *dtype, *device;
    int64_t sizes[CR_MAX_DIMS], strides[CR_MAX_DIMS];
    int requires_grad, n = 0, k = 0, kind, index;
    int64_t offset;
    cr_tensor *t;
    cr_status st;

    (void)m;
    if (!PyArg_ParseTuple(args, "OOOOOOp", &cls, &size, &stride, &place_in, &dtype, &device,
                          &requires_grad))
        return NULL;
    if (!dispatch_offset(&offset, place_in))
        return NULL;
    if (cr_py_ints_from(size, sizes, CR_MAX_DIMS, &n) != CR_PY_FITS ||
        (stride != Py_None && cr_py_ints_from(stride, strides, CR_MAX_DIMS, &k) != CR_PY_FITS))
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_TypeError, "sizes and strides are ints");
    if (stride != Py_None && n != k)
        return PyErr_Format(PyExc_RuntimeError,
                            "_make_wrapper_subclass: sizes and strides differ in length");
    if (cr_py_device_from(device, &kind, &index) <= 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "not a device");
    if (!dispatch_is_wrapper_class(cls, dtype))
        return NULL;
    cr_device place = {
        .kind = (uint8_t)kind, .index = (uint8_t)(index < 0 ? 0 : index), .fake = true};
    cr_dtype type = cr_py_dtype_from(dtype);
    st = cr_tensor_new_strided(&t, type, place, n, sizes, stride == Py_None ? NULL : strides);
    if (st)
        return cr_py_raise(st);
    t->offset = offset;
    t->stages |= CR_DISPATCH_BITS;
    st = requires_grad ? cr_py_ask_grad(t) : CR_OK;
    if (!st)
        return cr_py_wrap_as((PyTypeObject *)cls, t);
    cr_drop(t);
    return cr_py_raise(st);
}

/* _share_storage(to, from): a result that is a view has the storage of its base, so that
 * autograd treats it as a view. */
static PyObject *dispatch_share_storage(PyObject *m, PyObject *args)
{
    PyObject *to, *from;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO", &to, &from))
        return NULL;
    if (!cr_py_is_tensor(to) || !cr_py_is_tensor(from) ||
        cr_has_elements(cr_py_tensor_of(to)) || cr_has_elements(cr_py_tensor_of(from)))
        return PyErr_Format(PyExc_TypeError, "two tensors without elements are expected");
    cr_storage *old = cr_py_tensor_of(to)->storage;
    cr_py_tensor_of(to)->storage = cr_storage_keep(cr_py_tensor_of(from)->storage);
    cr_storage_drop(old);
    Py_RETURN_NONE;
}

/* --- examples of batches, for _functorch/vmap.py --- */

static PyTypeObject
    *dispatch_example_type; /* the class of examples; set by _set_example_class */

PyTypeObject *cr_py_example_type(void)
{
    return dispatch_example_type ? dispatch_example_type : cr_py_tensor_type;
}

static PyObject *dispatch_set_example_class(PyObject *m, PyObject *cls)
{
    (void)m;
    if (!PyType_Check(cls))
        return PyErr_Format(PyExc_TypeError, "a class is expected");
    Py_XSETREF(dispatch_example_type, (PyTypeObject *)Py_NewRef(cls));
    Py_RETURN_NONE;
}

/* _make_example(cls, batch, level) */
static PyObject *dispatch_make_example(PyObject *m, PyObject *args)
{
    PyObject *cls, *batch;
    unsigned long long level;
    cr_tensor *t;

    (void)m;
    if (!PyArg_ParseTuple(args, "OOK", &cls, &batch, &level))
        return NULL;
    if (!cr_py_is_tensor(batch) || !PyType_Check(cls) ||
        !PyType_IsSubtype((PyTypeObject *)cls, cr_py_tensor_type) ||
        !cr_py_tensor_of(batch)->ndim)
        return PyErr_Format(PyExc_TypeError, "a class of tensors and a batch are expected");
    cr_status st = cr_example_new(&t, cr_py_tensor_of(batch), level);
    return st ? cr_py_raise(st) : cr_py_wrap_as((PyTypeObject *)cls, t);
}

/* _set_example(tensor, batch, level): a tensor without elements becomes an example. */
static PyObject *dispatch_set_example(PyObject *m, PyObject *args)
{
    PyObject *x, *batch;
    unsigned long long level;

    (void)m;
    if (!PyArg_ParseTuple(args, "OOK", &x, &batch, &level))
        return NULL;
    if (!cr_py_is_tensor(x) || !cr_py_is_tensor(batch) || cr_has_elements(cr_py_tensor_of(x)))
        return PyErr_Format(PyExc_TypeError, "two tensors, one without elements, are expected");
    cr_example_set(cr_py_tensor_of(x), cr_py_tensor_of(batch), level);
    Py_RETURN_NONE;
}

/* The batch of an example; its level. */
static PyObject *dispatch_batch_of(PyObject *m, PyObject *x)
{
    (void)m;
    if (!cr_py_is_tensor(x) || !cr_is_example(cr_py_tensor_of(x)))
        return PyErr_Format(PyExc_TypeError, "the tensor is no example of a batch");
    return cr_py_wrap_keep(cr_py_tensor_of(x)->batch);
}

static PyObject *dispatch_level_of(PyObject *m, PyObject *x)
{
    (void)m;
    if (!cr_py_is_tensor(x) || !cr_is_example(cr_py_tensor_of(x)))
        return PyErr_Format(PyExc_TypeError, "the tensor is no example of a batch");
    return PyLong_FromUnsignedLongLong(cr_py_tensor_of(x)->level);
}

static PyObject *dispatch_new_level(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyLong_FromUnsignedLongLong(cr_level_new());
}

static PyObject *dispatch_level_starts(PyObject *m, PyObject *level)
{
    uint64_t n = PyLong_AsUnsignedLongLong(level);

    (void)m;
    if (PyErr_Occurred())
        return NULL;
    cr_level_starts(n);
    Py_RETURN_NONE;
}

static PyObject *dispatch_level_ends(PyObject *m, PyObject *level)
{
    uint64_t n = PyLong_AsUnsignedLongLong(level);

    (void)m;
    if (PyErr_Occurred())
        return NULL;
    cr_level_ends(n);
    Py_RETURN_NONE;
}

static PyObject *dispatch_set_caller(PyObject *m, PyObject *function)
{
    (void)m;
    Py_XSETREF(dispatch_caller, Py_NewRef(function));
    Py_RETURN_NONE;
}

static PyMethodDef dispatch_functions[] = {
    {"_disabled_torch_dispatch_impl", dispatch_plain, METH_VARARGS,
     "As __torch_dispatch__: treats objects of the class as plain tensors."},
    {"_push_on_torch_dispatch_stack", dispatch_push, METH_O, NULL},
    {"_pop_torch_dispatch_stack", dispatch_pop, METH_NOARGS, NULL},
    {"_torch_dispatch_stack", dispatch_stack, METH_NOARGS, NULL},
    {"_len_torch_dispatch_stack", dispatch_length, METH_NOARGS, NULL},
    {"_make_wrapper", dispatch_make_wrapper, METH_VARARGS, NULL},
    {"_share_storage", dispatch_share_storage, METH_VARARGS, NULL},
    {"_set_dispatch_caller", dispatch_set_caller, METH_O, NULL},
    {"_set_example_class", dispatch_set_example_class, METH_O, NULL},
    {"_make_example", dispatch_make_example, METH_VARARGS, NULL},
    {"_set_example", dispatch_set_example, METH_VARARGS, NULL},
    {"_batch_of_example", dispatch_batch_of, METH_O, NULL},
    {"_level_of_example", dispatch_level_of, METH_O, NULL},
    {"_new_level", dispatch_new_level, METH_NOARGS, NULL},
    {"_level_starts", dispatch_level_starts, METH_O, NULL},
    {"_level_ends", dispatch_level_ends, METH_O, NULL},
    {0}};

int cr_py_dispatch_start(PyObject *m)
{
    cr_stage_fns[CR_STAGE_PYTHON] = dispatch_stage;
    cr_recorder_handling = dispatch_for_recorder;
    cr_handler_records = dispatch_makes_recorded;
    dispatch_name = PyUnicode_InternFromString("__torch_dispatch__");
    dispatch_records_name = PyUnicode_InternFromString("_records_parts");
    dispatch_whole_name = PyUnicode_InternFromString("_recorded_whole");
    dispatch_draws_name = PyUnicode_InternFromString("_handles_draws");
    if (!dispatch_name || !dispatch_records_name || !dispatch_whole_name ||
        !dispatch_draws_name || PyModule_AddFunctions(m, dispatch_functions) < 0 ||
        cr_py_add_methods(m, dispatch_mode_methods) < 0 ||
        cr_py_add_type(m, "_DisableTorchDispatch", &dispatch_off_type) < 0 ||
        cr_py_add_type(m, "_FakesOnly", &dispatch_fakes_type) < 0 ||
        cr_py_add_type(m, "_ReentrantDispatch", &dispatch_again_type) < 0 ||
        cr_py_add_type(m, "_TakenApart", &dispatch_apart_type) < 0)
        return -1;
    dispatch_disabled = PyObject_GetAttrString(m, "_disabled_torch_dispatch_impl");
    return dispatch_disabled ? PyObject_SetAttr((PyObject *)cr_py_tensor_type, dispatch_name,
                                                dispatch_disabled)
                             : -1;
}
