/* __torch_function__: classes whose objects handle calls.
 *
 * The result for a class is cached until the class changes.  The plain Tensor does not handle
 * calls, nor do subclasses whose __torch_function__ is _disabled_torch_function_impl. */
#include "py/bind/bind.h"

CR_THREAD int cr_py_override_off, cr_py_mode_count;
static CR_THREAD PyObject *modes; /* list of active TorchFunctionModes */

static PyObject *handler_name, *disabled;

/* --- does a class handle calls? --- */

enum { CACHE = 256 };
static struct {
    PyTypeObject *type;
    unsigned int version;
    bool overrides;
} cache[CACHE];

static bool override_look_up(PyTypeObject *type)
{
    PyObject *handler = PyObject_GetAttr((PyObject *)type, handler_name);

    if (!handler) {
        PyErr_Clear();
        return false;
    }
    bool own = handler != disabled;
    Py_DECREF(handler);
    return own;
}

bool cr_py_overrides(PyTypeObject *type)
{
    size_t at = ((uintptr_t)type >> 5) % CACHE;

    if (type == cr_py_tensor_type || type == &PyLong_Type || type == &PyFloat_Type ||
        type == &PyUnicode_Type || type == &PyBool_Type || cr_py_override_off)
        return false;
    if (cache[at].type == type && cache[at].version &&
        cache[at].version == type->tp_version_tag)
        return cache[at].overrides;
    bool own = override_look_up(type);
    cache[at].type = type;
    cache[at].version = type->tp_version_tag;
    cache[at].overrides = own;
    return own;
}

/* --- calling --- */

PyObject *cr_py_given_args(const cr_py_given *g)
{
    PyObject *args = PyTuple_New(g->count);

    for (Py_ssize_t i = 0; args && i < g->count; i++)
        PyTuple_SET_ITEM(args, i, Py_NewRef(g->args[i]));
    return args;
}

PyObject *cr_py_given_kwargs(const cr_py_given *g)
{
    PyObject *kwargs = PyDict_New();
    Py_ssize_t n = g->names ? PyTuple_GET_SIZE(g->names) : 0;

    for (Py_ssize_t k = 0; kwargs && k < n; k++)
        if (PyDict_SetItem(kwargs, PyTuple_GET_ITEM(g->names, k), g->args[g->count + k]) < 0)
            Py_CLEAR(kwargs);
    return kwargs;
}

static PyObject *types_of(PyObject *const *objects, int count)
{
    PyObject *types = PyTuple_New(count);

    for (int i = 0; types && i < count; i++)
        PyTuple_SET_ITEM(types, i, Py_NewRef((PyObject *)Py_TYPE(objects[i])));
    return types;
}

/* The first return value that is not NotImplemented; NotImplemented when all are. */
static PyObject *ask_in_turn(PyObject *const *objects, int count, PyObject *const *packed)
{
    for (int i = 0; i < count; i++) {
        PyObject *handler = PyObject_GetAttr((PyObject *)objects[i], handler_name);
        if (!handler)
            return NULL;
        PyObject *answer = PyObject_Vectorcall(handler, packed, 4, NULL);
        Py_DECREF(handler);
        if (answer != Py_NotImplemented)
            return answer;
        Py_DECREF(answer);
    }
    return Py_NewRef(Py_NotImplemented);
}

static PyObject *nobody(PyObject *function, PyObject *types)
{
    PyObject *name = PyObject_GetAttrString(function, "__name__");
    PyObject *list = name ? PyUnicode_FromString("") : NULL;

    for (Py_ssize_t i = 0; list && i < PyTuple_GET_SIZE(types); i++) {
        PyObject *longer = PyUnicode_FromFormat("%U\n\n  - tensor subclass %R", list,
                                                PyTuple_GET_ITEM(types, i));
        Py_SETREF(list, longer);
    }
    if (list)
        PyErr_Format(PyExc_TypeError,
                     "Multiple dispatch failed for 'torch.%U'; all __torch_function__ handlers "
                     "returned NotImplemented:%U\n\nFor more information, try re-running with "
                     "TORCH_LOGS=not_implemented",
                     name, list);
    Py_XDECREF(list);
    Py_XDECREF(name);
    return NULL;
}

PyObject *cr_py_override_call(PyObject *function, PyObject *const *overloaded, int count,
                              const cr_py_given *g)
{
    PyObject *packed[4] = {function, types_of(overloaded, count), cr_py_given_args(g),
                           cr_py_given_kwargs(g)};
    PyObject *answer = NULL;

    if (packed[1] && packed[2] && packed[3])
        answer = ask_in_turn(overloaded, count, packed);
    if (answer == Py_NotImplemented) {
        Py_DECREF(answer);
        answer = nobody(function, packed[1]);
    }
    for (int i = 1; i < 4; i++)
        Py_XDECREF(packed[i]);
    return answer;
}

/* --- modes --- */

/* Calls the innermost mode, which is inactive during the call. */
static PyObject *ask_mode(PyObject *function, PyObject *types, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t last = PyList_GET_SIZE(modes) - 1;
    PyObject *mode = Py_NewRef(PyList_GET_ITEM(modes, last)), *answer = NULL;

    if (PyList_SetSlice(modes, last, last + 1, NULL) == 0) {
        cr_py_mode_count--;
        answer = PyObject_CallMethod(mode, "__torch_function__", "OOOO", function, types, args,
                                     kwargs);
        cr_py_mode_count++;
        if (PyList_Append(modes, mode) < 0)
            Py_CLEAR(answer);
    }
    Py_DECREF(mode);
    return answer;
}

PyObject *cr_py_mode_call(PyObject *function, const cr_py_given *g)
{
    PyObject *args = cr_py_given_args(g), *kwargs = cr_py_given_kwargs(g);
    PyObject *types = PyTuple_New(0), *answer = NULL;

    if (args && kwargs && types)
        answer = ask_mode(function, types, args, kwargs);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(types);
    return answer;
}

PyObject *cr_py_mode_answer(PyObject *m, const char *name, PyObject *args, PyObject *kwargs)
{
    PyObject *function = PyObject_GetAttrString(m, name), *types = PyTuple_New(0);
    PyObject *given = kwargs ? Py_NewRef(kwargs) : PyDict_New(), *answer = NULL;

    if (function && types && given)
        answer = ask_mode(function, types, args, given);
    Py_XDECREF(function);
    Py_XDECREF(types);
    Py_XDECREF(given);
    return answer;
}

/* --- methods and properties of Tensor --- */

/* Lets the mode, or else the class of the first argument, answer a call of `function`; takes
 * the arguments. */
static PyObject *ask_about(PyObject *function, PyObject *args, PyObject *kwargs)
{
    PyObject *self = args ? PyTuple_GET_ITEM(args, 0) : NULL, *answer = NULL;
    PyObject *types = self ? types_of(&self, !cr_py_mode_count) : NULL;
    PyObject *given = kwargs ? Py_NewRef(kwargs) : PyDict_New();
    PyObject *packed[] = {function, types, args, given};

    if (function && types && given) {
        answer = cr_py_mode_count ? ask_mode(function, types, args, given)
                                  : ask_in_turn(&self, 1, packed);
        if (answer == Py_NotImplemented) {
            Py_DECREF(answer);
            answer = nobody(function, types);
        }
    }
    Py_XDECREF(given);
    Py_XDECREF(types);
    Py_XDECREF(args);
    return answer;
}

static PyObject *with_self(PyObject *self, PyObject *args, PyObject *one)
{
    PyObject *head = one ? PyTuple_Pack(2, self, one) : PyTuple_Pack(1, self);
    PyObject *all = head && args ? PySequence_Concat(head, args) : Py_XNewRef(head);

    Py_XDECREF(head);
    return all;
}

PyObject *cr_py_ask(PyObject *self, const char *name, PyObject *args, PyObject *one,
                    PyObject *kwargs)
{
    PyObject *function = PyObject_GetAttrString((PyObject *)cr_py_tensor_type, name);
    PyObject *answer = ask_about(function, with_self(self, args, one), kwargs);

    Py_XDECREF(function);
    return answer;
}

/* A property's function: Tensor.NAME.__get__ or __set__. */
static PyObject *property_function(const char *name, const char *accessor)
{
    PyObject *descriptor = PyObject_GetAttrString((PyObject *)cr_py_tensor_type, name);
    PyObject *function = descriptor ? PyObject_GetAttrString(descriptor, accessor) : NULL;

    Py_XDECREF(descriptor);
    return function;
}

/* Both get the property as it was before it asked. */
static PyObject *asking_get(PyObject *self, void *before)
{
    const PyGetSetDef *p = before;

    if (CR_LIKELY(!cr_py_asks(self)))
        return p->get(self, p->closure);
    PyObject *function = property_function(p->name, "__get__");
    PyObject *answer = ask_about(function, with_self(self, NULL, NULL), NULL);
    Py_XDECREF(function);
    return answer;
}

static int asking_set(PyObject *self, PyObject *value, void *before)
{
    const PyGetSetDef *p = before;

    if (CR_LIKELY(!cr_py_asks(self)))
        return p->set(self, value, p->closure);
    PyObject *function = property_function(p->name, value ? "__set__" : "__delete__");
    PyObject *answer = ask_about(function, with_self(self, NULL, value), NULL);
    Py_XDECREF(function);
    Py_XDECREF(answer);
    return answer ? 0 : -1;
}

void cr_py_ask_properties(PyGetSetDef *list)
{
    static PyGetSetDef before[64];

    for (size_t i = 0; list[i].name; i++) {
        CR_ASSERT(i < CR_LEN(before));
        if (*list[i].name == '_')
            continue;
        before[i] = list[i];
        list[i].get = asking_get;
        list[i].set = before[i].set ? asking_set : NULL;
        list[i].closure = &before[i];
    }
}

/* _ask_mode(function, types, args, kwargs); NotImplemented when no mode is active. */
static PyObject *ask_mode_from_python(PyObject *m, PyObject *args)
{
    PyObject *function, *types, *given, *kwargs;

    (void)m;
    if (!PyArg_ParseTuple(args, "OOOO", &function, &types, &given, &kwargs))
        return NULL;
    return cr_py_mode_count ? ask_mode(function, types, given, kwargs)
                            : Py_NewRef(Py_NotImplemented);
}

bool cr_py_has_handler(PyObject *mode, const char *method)
{
    bool found = PyObject_HasAttrString((PyObject *)Py_TYPE(mode), method);

    if (!found)
        PyErr_Format(PyExc_TypeError, "expected a mode, whose class has %s, but got %s", method,
                     Py_TYPE(mode)->tp_name);
    return found;
}

static PyObject *push_mode(PyObject *m, PyObject *mode)
{
    (void)m;
    if (!cr_py_has_handler(mode, "__torch_function__"))
        return NULL;
    if ((!modes && !(modes = PyList_New(0))) || PyList_Append(modes, mode) < 0)
        return NULL;
    cr_py_mode_count++;
    Py_RETURN_NONE;
}

static PyObject *pop_mode(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    if (!cr_py_mode_count)
        return PyErr_Format(PyExc_RuntimeError, "no function mode is active");
    Py_ssize_t last = PyList_GET_SIZE(modes) - 1;
    PyObject *mode = Py_NewRef(PyList_GET_ITEM(modes, last));
    PyList_SetSlice(modes, last, last + 1, NULL);
    cr_py_mode_count--;
    return mode;
}

/* --- the default handler, and none --- */

static PyObject *override_convert(PyObject *x, PyObject *cls);

static PyObject *convert_items(PyObject *x, PyObject *cls)
{
    PyObject *items = PySequence_List(x), *out;

    for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items); i++) {
        PyObject *item = Py_NewRef(PyList_GET_ITEM(items, i)), *y = override_convert(item, cls);
        Py_DECREF(item);
        if (!y || PyList_SetItem(items, i, y) < 0)
            Py_CLEAR(items);
    }
    if (!items || Py_IS_TYPE(x, &PyList_Type))
        return items;
    out = PyObject_CallOneArg((PyObject *)Py_TYPE(x), items);
    Py_DECREF(items);
    return out;
}

/* Converts tensors in `x` to objects of `cls`. */
static PyObject *override_convert(PyObject *x, PyObject *cls)
{
    if (cr_py_is_tensor(x)) {
        int already = PyObject_IsInstance(x, cls);
        return already ? already < 0 ? NULL : Py_NewRef(x)
                       : PyObject_CallMethod(x, "as_subclass", "O", cls);
    }
    return PyTuple_Check(x) || PyList_Check(x) ? convert_items(x, cls) : Py_NewRef(x);
}

static int all_bases(PyObject *cls, PyObject *types)
{
    PyObject *seq = PySequence_Tuple(types);
    int good = seq ? 1 : -1;

    for (Py_ssize_t i = 0; good > 0 && i < PySequence_Fast_GET_SIZE(seq); i++)
        good = PyObject_IsSubclass(cls, PySequence_Fast_GET_ITEM(seq, i));
    Py_XDECREF(seq);
    return good;
}

/* The arguments of a handler: (function, types, args=(), kwargs={}).  `args` is owned, `kwargs`
 * is a borrowed dict or NULL. */
typedef struct {
    PyObject *function, *types, *args, *kwargs;
} handled_call;

static bool read_handled(handled_call *c, PyObject *given, const char *format)
{
    PyObject *args = NULL, *kwargs = NULL;

    if (!PyArg_ParseTuple(given, format, &c->function, &c->types, &args, &kwargs))
        return false;
    if (kwargs && kwargs != Py_None && !PyDict_Check(kwargs)) {
        PyErr_Format(PyExc_TypeError, "kwargs must be a dict, not %s",
                     Py_TYPE(kwargs)->tp_name);
        return false;
    }
    c->kwargs = kwargs == Py_None ? NULL : kwargs;
    c->args = args ? PySequence_Tuple(args) : PyTuple_New(0);
    return c->args != NULL;
}

/* Runs the function without handlers. */
static PyObject *run_handled(const handled_call *c)
{
    cr_py_override_off++;
    PyObject *out = PyObject_Call(c->function, c->args, c->kwargs);
    cr_py_override_off--;
    return out;
}

/* Tensor.__torch_function__: runs the function without handlers and converts results to
 * `cls`. */
static PyObject *default_handler(PyObject *cls, PyObject *args)
{
    handled_call c;
    PyObject *plain, *out;

    if (!read_handled(&c, args, "OO|OO:__torch_function__"))
        return NULL;
    int good = all_bases(cls, c.types);
    plain = good > 0 ? run_handled(&c) : good < 0 ? NULL : Py_NewRef(Py_NotImplemented);
    Py_DECREF(c.args);
    if (!plain || plain == Py_NotImplemented || cls == (PyObject *)cr_py_tensor_type)
        return plain;
    out = override_convert(plain, cls);
    Py_DECREF(plain);
    return out;
}

static PyObject *disabled_handler(PyObject *m, PyObject *args)
{
    handled_call c;

    (void)m;
    if (!read_handled(&c, args, "OO|OO:_disabled_torch_function_impl"))
        return NULL;
    PyObject *out = run_handled(&c);
    Py_DECREF(c.args);
    return out;
}

/* The arguments that have a __torch_function__, subclasses first.  For Python functions. */
static PyObject *has_torch_function(PyObject *m, PyObject *args)
{
    PyObject *seq = PySequence_Tuple(args);
    bool found = cr_py_mode_count > 0;

    (void)m;
    if (!seq)
        return NULL;
    for (Py_ssize_t i = 0; !found && i < PySequence_Fast_GET_SIZE(seq); i++)
        found = cr_py_overrides(Py_TYPE(PySequence_Fast_GET_ITEM(seq, i)));
    Py_DECREF(seq);
    return PyBool_FromLong(found);
}

/* with DisableTorchFunctionSubclass(): subclasses are treated as plain tensors. */
static PyObject *off_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    cr_py_override_off++;
    return Py_NewRef(self);
}

static PyObject *off_exit(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    cr_py_override_off--;
    Py_RETURN_NONE;
}

static PyMethodDef off_methods[] = {{"__enter__", off_enter, METH_NOARGS, NULL},
                                    {"__exit__", off_exit, METH_VARARGS, NULL},
                                    {0}};
static PyTypeObject off_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.DisableTorchFunctionSubclass",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Disables __torch_function__ of subclasses inside.",
    .tp_new = PyType_GenericNew,
    .tp_methods = off_methods,
};

static PyMethodDef handler_def = {"__torch_function__", default_handler,
                                  METH_VARARGS | METH_CLASS,
                                  "Calls the function; results become objects of this class."};
static PyMethodDef functions[] = {
    {"_disabled_torch_function_impl", disabled_handler, METH_VARARGS,
     "As __torch_function__: treats objects of the class as plain tensors."},
    {"_ask_mode", ask_mode_from_python, METH_VARARGS, NULL},
    {"_push_function_mode", push_mode, METH_O, NULL},
    {"_pop_function_mode", pop_mode, METH_NOARGS, NULL},
    {"_has_torch_function", has_torch_function, METH_O, NULL},
    {0}};

int cr_py_override_start(PyObject *m)
{
    handler_name = PyUnicode_InternFromString("__torch_function__");
    if (cr_py_add_type(m, "DisableTorchFunctionSubclass", &off_type) < 0)
        return -1;
    PyObject *handler =
        handler_name ? PyDescr_NewClassMethod(cr_py_tensor_type, &handler_def) : NULL;
    if (!handler ||
        PyObject_SetAttr((PyObject *)cr_py_tensor_type, handler_name, handler) < 0 ||
        PyModule_AddFunctions(m, functions) < 0)
        return -1;
    Py_DECREF(handler);
    disabled = PyObject_GetAttrString(m, "_disabled_torch_function_impl");
    return disabled ? 0 : -1;
}
