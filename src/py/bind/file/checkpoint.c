/* Checkpoints: runs the steps of a pickle (io/pickle.h) to make Python objects, and writes
 * archives.
 *
 * Before the first object is made, the whole pickle has been read, each of its names has been
 * allowed and each storage has been found in the file.  A function is called only when the
 * pickle names it directly and the name permits calls.  Arguments that could make a permitted
 * function use much more memory than the file's size, or reach other objects, are rejected
 * here. */
#include "io/checkpoint.h"
#include "io/output.h"
#include "io/zip.h"
#include "py/bind/bind.h"
#include <string.h>

/* What the pickle may do with a name that the user's side gives: only refer to it, make
 * instances by __new__ (this package's classes), or call it. */
typedef enum { USE_NAME, USE_NEW, USE_CALL } use;

typedef struct {
    PyObject *find;    /* Python: (module, name) -> (object, use), or None */
    PyObject *allowed; /* dict of the objects that the user allowed, by name */
    /* Python: (storage, location) -> storage; NULL: storages stay on the CPU */
    PyObject *restore;
    PyObject *found; /* "module.name" -> result of `find` */
    PyObject *unpickling_error;
    const char *encoding; /* encoding of Python 2 strings */
    bool weights_only, meta, keep_cpu;
    const cr_checkpoint *c;
    const cr_pickle *p;
    PyObject **value;   /* by step; NULL: not made yet */
    PyObject **storage; /* by number, after `restore` */
} loader;

static PyObject *checkpoint_refuse(const loader *l, const char *format, PyObject *what)
{
    return PyErr_Format(l->unpickling_error, format, what);
}

/* --- names --- */
static PyObject *full_name(const char *module, const char *name)
{
    return PyUnicode_FromFormat("%s.%s", module, name);
}

/* cr_pickle_rules.ask */
static cr_status checkpoint_ask(void *who, const char *module, const char *name, bool *allowed)
{
    loader *l = who;
    PyObject *key = full_name(module, name), *said = NULL;
    int kept = -1;

    if (key)
        said = PyObject_CallFunction(l->find, "ss", module, name);
    if (said && said != Py_None)
        kept = PyDict_SetItem(l->found, key, said);
    *allowed = kept == 0;
    bool failed = !said || (said != Py_None && kept);
    Py_XDECREF(key);
    Py_XDECREF(said);
    return failed ? CR_PYTHON : CR_OK;
}

/* The (object, use) of a name outside the default list; borrowed. */
static PyObject *answer(const loader *l, const cr_pickle_name *n)
{
    PyObject *key = full_name(n->module, n->name);
    PyObject *pair = key ? PyDict_GetItemWithError(l->found, key) : NULL;

    Py_XDECREF(key);
    return pair;
}

/* Imports a module; torch's modules are those of this package. */
static PyObject *checkpoint_import(const char *module)
{
    if (!strcmp(module, "torch"))
        return PyImport_ImportModule(cr_py_root());
    return strncmp(module, "torch.", 6) ? PyImport_ImportModule(module)
                                        : cr_py_import(module + 6);
}

static PyObject *default_object(const cr_pickle_name *n)
{
    PyObject *module, *object;

    if (n->global.use == CR_USE_DTYPE)
        return Py_NewRef(cr_py_dtype_object(n->global.dtype));
    module = checkpoint_import(n->global.use == CR_USE_CLASS || n->global.use == CR_USE_STORAGE
                                   ? (n->global.untyped ? "torch.storage" : "torch")
                                   : n->module);
    object = module ? PyObject_GetAttrString(module, n->name) : NULL;
    Py_XDECREF(module);
    return object;
}

static bool checkpoint_is_default(const loader *l, const cr_pickle_name *n)
{
    return n->global.use != CR_USE_NONE &&
           !(l->weights_only && (n->global.use == CR_USE_FULL || n->global.use == CR_USE_TYPE));
}

static PyObject *name_object(const loader *l, const cr_pickle_name *n)
{
    if (checkpoint_is_default(l, n))
        return default_object(n);
    PyObject *pair = answer(l, n);
    return pair ? Py_NewRef(PyTuple_GET_ITEM(pair, 0)) : NULL;
}

/* The permitted use of the value of step f; USE_NAME unless the step is a name of the
 * pickle. */
static use use_of(const loader *l, const cr_step *f)
{
    if (f->kind != CR_STEP_GLOBAL)
        return USE_NAME;
    const cr_pickle_name *n = &l->p->names.at[f->i];
    if (checkpoint_is_default(l, n))
        return n->global.use == CR_USE_CALL || n->global.use == CR_USE_FULL ||
                       n->global.use == CR_USE_CLASS || n->global.use == CR_USE_DTYPE
                   ? USE_CALL
                   : USE_NAME;
    PyObject *pair = answer(l, n);
    return pair ? (use)PyLong_AsLong(PyTuple_GET_ITEM(pair, 1)) : USE_NAME;
}

static cr_global_id id_of(const loader *l, const cr_step *f)
{
    return f->kind == CR_STEP_GLOBAL && checkpoint_is_default(l, &l->p->names.at[f->i])
               ? l->p->names.at[f->i].global.id
               : CR_GLOBAL_OTHER;
}

/* --- storages --- */
static cr_status get_storage(loader *l, size_t i, cr_storage **out);

static cr_status read_storage(loader *l, size_t i, cr_storage **out)
{
    const cr_pickle_storage *s = &l->p->storages.at[i];
    cr_storage *root = NULL;
    cr_status st;

    if (l->meta)
        return cr_storage_new(out, CR_META_DEVICE, (size_t)s->bytes);
    if (s->root >= 0)
        CR_TRY(get_storage(l, (size_t)s->root, &root));
    if (s->bytes < 1 << 20)
        return cr_checkpoint_storage(out, l->c, i, root);
    CR_PY_UNLOCKED(st = cr_checkpoint_storage(out, l->c, i, root));
    return st;
}

/* The untyped storage of a typed storage, which `restore` may return. */
static PyObject *untyped(PyObject *x)
{
    if (!x || Py_IS_TYPE(x, &cr_py_storage_type))
        return x;
    PyObject *inner = PyObject_GetAttrString(x, "_untyped_storage");
    if (inner && !Py_IS_TYPE(inner, &cr_py_storage_type)) {
        PyErr_Format(PyExc_TypeError, "map_location must give a storage, not %s",
                     Py_TYPE(x)->tp_name);
        Py_CLEAR(inner);
    }
    Py_DECREF(x);
    return inner;
}

static PyObject *restored(const loader *l, PyObject *storage, const char *location)
{
    if (!storage || l->meta || (l->keep_cpu && !strcmp(location, "cpu")))
        return storage;
    PyObject *at = PyUnicode_DecodeUTF8(location, (Py_ssize_t)strlen(location), "replace");
    PyObject *moved = at ? PyObject_CallFunctionObjArgs(l->restore, storage, at, NULL) : NULL;
    Py_XDECREF(at);
    Py_DECREF(storage);
    return untyped(moved);
}

/* The Python object of storage i, borrowed. */
static PyObject *storage_object(loader *l, size_t i)
{
    cr_storage *s;

    if (l->storage[i])
        return l->storage[i];
    cr_status st = read_storage(l, i, &s);
    if (st)
        return cr_py_raise(st);
    PyObject *object = cr_py_storage_object(s);
    cr_storage_drop(s);
    return l->storage[i] = restored(l, object, l->p->storages.at[i].location);
}

static cr_status get_storage(loader *l, size_t i, cr_storage **out)
{
    PyObject *object = storage_object(l, i);

    if (object)
        *out = cr_py_storage_of(object);
    return object ? CR_OK : CR_PYTHON;
}

static PyObject *typed_storage(loader *l, size_t i)
{
    PyObject *storage = storage_object(l, i), *module = NULL, *made = NULL;

    if (storage)
        module = cr_py_import("storage");
    if (module)
        made = PyObject_CallMethod(module, "_typed", "OO", storage,
                                   cr_py_dtype_object(l->p->storages.at[i].dtype));
    Py_XDECREF(module);
    return made;
}

/* --- values --- */

/* The value of a step, borrowed. */
static PyObject *checkpoint_get(loader *l, uint32_t step)
{
    const cr_step *s = &l->p->steps.at[step];

    if (!l->value[step] && s->kind == CR_STEP_GLOBAL)
        l->value[step] = name_object(l, &l->p->names.at[s->i]);
    if (!l->value[step] && s->kind == CR_STEP_STORAGE)
        l->value[step] = typed_storage(l, (size_t)s->i);
    if (!l->value[step] && !PyErr_Occurred())
        PyErr_SetString(l->unpickling_error, "a value is used that a pickle cannot use");
    return l->value[step];
}

static PyObject *checkpoint_operand(loader *l, const cr_step *s, uint32_t i)
{
    return checkpoint_get(l, cr_step_operands(l->p, s)[i]);
}

static const cr_step *operand_step(const loader *l, const cr_step *s, uint32_t i)
{
    return &l->p->steps.at[cr_step_operands(l->p, s)[i]];
}

/* Operands [from, count) as a tuple or list. */
static PyObject *sequence(loader *l, const cr_step *s, uint32_t from, bool tuple)
{
    Py_ssize_t n = (Py_ssize_t)s->count - from;
    PyObject *made = tuple ? PyTuple_New(n) : PyList_New(n);

    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *item = checkpoint_operand(l, s, from + (uint32_t)i);
        if (!item)
            Py_CLEAR(made);
        else if (tuple)
            PyTuple_SET_ITEM(made, i, Py_NewRef(item));
        else
            PyList_SET_ITEM(made, i, Py_NewRef(item));
    }
    return made;
}

static int set_items(loader *l, PyObject *dict, const cr_step *s, uint32_t from)
{
    for (uint32_t i = from; i + 1 < s->count; i += 2) {
        PyObject *key = checkpoint_operand(l, s, i),
                 *value = key ? checkpoint_operand(l, s, i + 1) : NULL;
        if (!value || (PyDict_CheckExact(dict) ? PyDict_SetItem(dict, key, value)
                                               : PyObject_SetItem(dict, key, value)))
            return -1;
    }
    return 0;
}

static PyObject *make_dict(loader *l, const cr_step *s)
{
    PyObject *dict = PyDict_New();

    if (dict && set_items(l, dict, s, 0))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *make_frozenset(loader *l, const cr_step *s)
{
    PyObject *items = sequence(l, s, 0, true), *made = items ? PyFrozenSet_New(items) : NULL;

    Py_XDECREF(items);
    return made;
}

/* int.from_bytes(bytes, "little", signed=True) */
static PyObject *make_long(const cr_step *s)
{
    PyObject *from = PyObject_GetAttrString((PyObject *)&PyLong_Type, "from_bytes");
    PyObject *args = Py_BuildValue("(y#s)", s->text.at, (Py_ssize_t)s->text.len, "little");
    PyObject *kwargs = Py_BuildValue("{sO}", "signed", Py_True);
    PyObject *made = from && args && kwargs ? PyObject_Call(from, args, kwargs) : NULL;

    Py_XDECREF(from);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return made;
}

static PyObject *make_digits(const cr_step *s)
{
    PyObject *text = PyUnicode_DecodeASCII(s->text.at, (Py_ssize_t)s->text.len, NULL);
    PyObject *made = text ? PyLong_FromUnicodeObject(text, 10) : NULL;

    Py_XDECREF(text);
    return made;
}

static PyObject *make_string(const loader *l, const cr_step *s)
{
    Py_ssize_t n = (Py_ssize_t)s->text.len;

    if (!strcmp(l->encoding, "bytes"))
        return PyBytes_FromStringAndSize(s->text.at, n);
    return PyUnicode_Decode(s->text.at, n, l->encoding, "strict");
}

/* --- tensors --- */
static int read_ints(PyObject *x, int64_t *out, int *n)
{
    cr_py_fit fit = cr_py_ints_from(x, out, CR_MAX_DIMS, n);

    if (fit == CR_PY_MISFIT)
        PyErr_Format(PyExc_TypeError,
                     "a tensor's sizes and strides must be tuples of at most %d ints, "
                     "not %R",
                     CR_MAX_DIMS, x);
    return fit == CR_PY_FITS ? 0 : -1;
}

static PyObject *checkpoint_view_of(cr_storage *storage, cr_dtype dtype, PyObject *offset,
                                    PyObject *sizes, PyObject *strides)
{
    int64_t first, size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    int ndim, count;
    cr_tensor *t;

    cr_py_fit fit = cr_py_int_from(offset, &first);
    if (fit == CR_PY_MISFIT)
        PyErr_Format(PyExc_TypeError, "a tensor's storage offset must be an int, not %s",
                     Py_TYPE(offset)->tp_name);
    if (fit != CR_PY_FITS || read_ints(sizes, size, &ndim) ||
        read_ints(strides, stride, &count))
        return NULL;
    if (ndim != count)
        return PyErr_Format(PyExc_RuntimeError,
                            "unequal size length (%d) and stride length (%d)", ndim, count);
    cr_status st = cr_checkpoint_tensor(&t, storage, dtype, first, ndim, size, stride);
    return st ? cr_py_raise(st) : cr_py_wrap(t);
}

static int ask_grad(PyObject *tensor, PyObject *wanted)
{
    int asked = PyObject_IsTrue(wanted);

    if (asked > 0 && !cr_dtype_is_inexact((cr_dtype)cr_py_tensor_of(tensor)->dtype)) {
        PyErr_SetString(
            PyExc_RuntimeError,
            "only Tensors of floating point and complex dtype can require gradients");
        return -1;
    }
    return asked > 0 ? PyObject_SetAttrString(tensor, "requires_grad", Py_True) : asked;
}

/* Sets the bits conj and neg that the file's marks name.  Takes ownership of the tensor. */
static PyObject *apply_marks(PyObject *tensor, PyObject *marks)
{
    static const char *const names[] = {"conj", "neg"}, *const views[] = {"_conj", "_neg_view"};

    if (!PyDict_Check(marks)) {
        PyErr_Format(PyExc_AssertionError, "expected dict, got %s", Py_TYPE(marks)->tp_name);
        Py_CLEAR(tensor);
    }
    for (size_t i = 0; tensor && i < CR_LEN(names); i++) {
        PyObject *on = PyDict_GetItemString(marks, names[i]);
        bool marked = false;
        if (on && cr_py_truth(on, &marked) && !marked)
            continue;
        PyObject *changed = marked ? PyObject_CallMethod(tensor, views[i], NULL) : NULL;
        if (on)
            Py_SETREF(tensor, changed);
    }
    return tensor;
}

/* Runs a call of _rebuild_tensor, _v2 (requires_grad, hooks, marks) or _v3 (requires_grad,
 * hooks, dtype, marks) whose arguments are a tuple that begins with a storage of the file. */
static PyObject *checkpoint_rebuild(loader *l, cr_global_id id, const cr_step *args)
{
    bool v1 = id == CR_GLOBAL_REBUILD_TENSOR, v3 = id == CR_GLOBAL_REBUILD_TENSOR_V3;
    uint32_t need = v1 ? 4 : v3 ? 7 : 6, marks = v1 ? 4 : need;
    size_t i = (size_t)operand_step(l, args, 0)->i;
    cr_dtype dtype = l->p->storages.at[i].dtype;

    if (args->count < need || args->count > marks + !v1)
        return PyErr_Format(PyExc_TypeError, "a tensor is described by %u values, but got %u",
                            need, args->count);
    PyObject *storage = storage_object(l, i), *offset = checkpoint_operand(l, args, 1);
    PyObject *sizes = checkpoint_operand(l, args, 2), *strides = checkpoint_operand(l, args, 3);
    if (!storage || !offset || !sizes || !strides)
        return NULL;
    if (v3) {
        PyObject *given = checkpoint_operand(l, args, 6);
        dtype = given ? cr_py_dtype_from(given) : CR_DTYPE_NONE;
        if (dtype == CR_DTYPE_NONE)
            return given ? PyErr_Format(PyExc_TypeError, "a dtype was expected, not %R", given)
                         : NULL;
    }
    PyObject *tensor =
        checkpoint_view_of(cr_py_storage_of(storage), dtype, offset, sizes, strides);
    if (tensor && args->count > marks) {
        PyObject *given = checkpoint_operand(l, args, marks);
        if (!given)
            Py_CLEAR(tensor);
        else if (given != Py_None)
            tensor = apply_marks(tensor, given);
    }
    if (tensor && !v1) {
        PyObject *grad = checkpoint_operand(l, args, 4);
        if (!grad || ask_grad(tensor, grad))
            Py_CLEAR(tensor);
    }
    return tensor;
}

/* --- calls --- */
static bool rebuilds(cr_global_id id)
{
    return id == CR_GLOBAL_REBUILD_TENSOR || id == CR_GLOBAL_REBUILD_TENSOR_V2 ||
           id == CR_GLOBAL_REBUILD_TENSOR_V3;
}

/* True for arguments that could make a default function use much memory or reach other
 * objects. */
static bool misused(const loader *l, cr_global_id id, const cr_step *args, PyObject *tuple)
{
    PyObject *first = PyTuple_GET_SIZE(tuple) ? PyTuple_GET_ITEM(tuple, 0) : NULL;

    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
        if (PyRange_Check(PyTuple_GET_ITEM(tuple, i)))
            return true;
    switch (id) {
    case CR_GLOBAL_TENSOR: return first != NULL;
    case CR_GLOBAL_BYTEARRAY: return first && PyLong_Check(first);
    case CR_GLOBAL_ENCODE:
        return PyTuple_GET_SIZE(tuple) != 2 || !PyUnicode_Check(first) ||
               !PyUnicode_Check(PyTuple_GET_ITEM(tuple, 1)) ||
               (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(tuple, 1), "latin1") &&
                PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(tuple, 1), "latin-1"));
    case CR_GLOBAL_REBUILD_TYPE: /* calls its first argument */
        return args->kind != CR_STEP_TUPLE || !args->count ||
               (!rebuilds(id_of(l, operand_step(l, args, 0))) &&
                id_of(l, operand_step(l, args, 0)) != CR_GLOBAL_REBUILD_META);
    case CR_GLOBAL_RECONSTRUCTOR:
    case CR_GLOBAL_NEWOBJ:
    case CR_GLOBAL_NEWOBJ_EX: /* makes an instance of its first argument */
        return args->kind != CR_STEP_TUPLE || !args->count ||
               use_of(l, operand_step(l, args, 0)) == USE_NAME;
    default: return false;
    }
}

static PyObject *not_callable(const loader *l, PyObject *function)
{
    return checkpoint_refuse(l, "Trying to call reduce for unrecognized function %S", function);
}

static PyObject *checkpoint_call_function(loader *l, const cr_step *f, PyObject *function,
                                          const cr_step *args, PyObject *tuple)
{
    cr_global_id id = id_of(l, f);
    bool legacy_class =
        f->kind == CR_STEP_GLOBAL && l->p->names.at[f->i].global.use == CR_USE_CLASS;

    if (!PyTuple_Check(tuple))
        return PyErr_Format(PyExc_TypeError, "argument after * must be an iterable, not %s",
                            Py_TYPE(tuple)->tp_name);
    if (misused(l, id, args, tuple) || (legacy_class && PyTuple_GET_SIZE(tuple)))
        return checkpoint_refuse(l, "%S is not called with these arguments by a checkpoint",
                                 function);
    return PyObject_CallObject(function, tuple);
}

static PyObject *checkpoint_reduce(loader *l, const cr_step *s)
{
    const cr_step *f = operand_step(l, s, 0), *args = operand_step(l, s, 1);
    cr_global_id id = id_of(l, f);

    if (rebuilds(id) && args->kind == CR_STEP_TUPLE && args->count &&
        operand_step(l, args, 0)->kind == CR_STEP_STORAGE)
        return checkpoint_rebuild(l, id, args);
    PyObject *function = checkpoint_operand(l, s, 0),
             *tuple = function ? checkpoint_operand(l, s, 1) : NULL;
    if (!tuple)
        return NULL;
    if (use_of(l, f) != USE_CALL)
        return not_callable(l, function);
    return checkpoint_call_function(l, f, function, args, tuple);
}

/* cls.__new__(cls, *args, **kwargs) */
static PyObject *new_instance(PyObject *cls, PyObject *args, PyObject *kwargs)
{
    PyObject *first = PyTuple_Pack(1, cls), *all = NULL, *make = NULL, *made = NULL;

    if (first && PyTuple_Check(args))
        all = PySequence_Concat(first, args);
    else if (first)
        PyErr_Format(PyExc_TypeError, "argument after * must be an iterable, not %s",
                     Py_TYPE(args)->tp_name);
    if (all)
        make = PyObject_GetAttrString(cls, "__new__");
    if (make)
        made = PyObject_Call(make, all, kwargs);
    Py_XDECREF(make);
    Py_XDECREF(all);
    Py_XDECREF(first);
    return made;
}

static PyObject *newobj(loader *l, const cr_step *s)
{
    const cr_step *f = operand_step(l, s, 0);
    PyObject *cls = checkpoint_operand(l, s, 0),
             *args = cls ? checkpoint_operand(l, s, 1) : NULL;
    PyObject *kwargs = args && s->count > 2 ? checkpoint_operand(l, s, 2) : NULL;

    if (!args || (s->count > 2 && !kwargs))
        return NULL;
    if (use_of(l, f) == USE_NAME)
        return checkpoint_refuse(
            l,
            "Can only create new object for nn.Parameter or classes allowlisted via "
            "`add_safe_globals` but got %S",
            cls);
    if (!PyType_Check(cls) || (kwargs && !PyDict_Check(kwargs)))
        return checkpoint_refuse(l, "%S is not a class", cls);
    if (PyTuple_Check(args) && misused(l, id_of(l, f), operand_step(l, s, 1), args))
        return checkpoint_refuse(l, "%S is not called with these arguments by a checkpoint",
                                 cls);
    if (id_of(l, f) == CR_GLOBAL_PARAMETER && PyTuple_Check(args))
        return PyObject_CallObject(cls, args);
    return new_instance(cls, args, kwargs);
}

/* Makes an instance of protocol 0: by __new__ without arguments, else by a call. */
static PyObject *object_step(loader *l, const cr_step *s)
{
    PyObject *cls = checkpoint_operand(l, s, 0), *args = cls ? sequence(l, s, 1, true) : NULL,
             *made = NULL;
    use how = use_of(l, operand_step(l, s, 0));

    if (!args)
        return NULL;
    if (how == USE_NAME || (s->count > 1 && how != USE_CALL))
        checkpoint_refuse(
            l,
            "Can only create new object for classes allowlisted via `add_safe_globals` but "
            "got %S",
            cls);
    else
        made = s->count > 1 ? PyObject_CallObject(cls, args) : new_instance(cls, args, NULL);
    Py_DECREF(args);
    return made;
}

/* --- changes --- */

/* Calls x.name(arg) and drops the result.  A format of "O" would unpack a tuple. */
static int call_discard(PyObject *x, const char *name, PyObject *arg)
{
    PyObject *text = PyUnicode_InternFromString(name);
    PyObject *done = text ? PyObject_CallMethodObjArgs(x, text, arg, NULL) : NULL;

    Py_XDECREF(text);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *checkpoint_type_of(PyObject *x) { return (PyObject *)Py_TYPE(x); }

static int extend(loader *l, const cr_step *s)
{
    PyObject *list = checkpoint_operand(l, s, 0);

    if (!list)
        return -1;
    if (!PyList_CheckExact(list) && l->weights_only) {
        checkpoint_refuse(l,
                          s->count == 2 ? "Can only append to lists, but got %S"
                                        : "Can only extend lists, but got %S",
                          checkpoint_type_of(list));
        return -1;
    }
    for (uint32_t i = 1; i < s->count; i++) {
        PyObject *item = checkpoint_operand(l, s, i);
        if (!item || (PyList_CheckExact(list) ? PyList_Append(list, item)
                                              : call_discard(list, "append", item)))
            return -1;
    }
    return 0;
}

static bool takes_items(const loader *l, PyObject *x)
{
    const char *name = Py_TYPE(x)->tp_name;

    if (PyDict_CheckExact(x))
        return true;
    if (!l->weights_only)
        return !PyTuple_CheckExact(x) && !PyList_CheckExact(x);
    return PyDict_Check(x) &&
           (!strcmp(name, "collections.OrderedDict") || !strcmp(name, "Counter"));
}

static int checkpoint_update(loader *l, const cr_step *s)
{
    PyObject *dict = checkpoint_operand(l, s, 0);

    if (!dict)
        return -1;
    if (takes_items(l, dict))
        return set_items(l, dict, s, 1);
    checkpoint_refuse(l,
                      s->kind == CR_STEP_SETITEM
                          ? "Can only SETITEM for dict, collections.OrderedDict, "
                            "collections.Counter, but got %S"
                          : "Can only SETITEMS for dict, collections.OrderedDict, "
                            "collections.Counter, but got %S",
                      checkpoint_type_of(dict));
    return -1;
}

static int add_items(loader *l, const cr_step *s)
{
    PyObject *set = checkpoint_operand(l, s, 0);

    for (uint32_t i = 1; set && i < s->count; i++) {
        PyObject *item = checkpoint_operand(l, s, i);
        if (!item || (PySet_Check(set) ? PySet_Add(set, item) : call_discard(set, "add", item)))
            return -1;
    }
    return set ? 0 : -1;
}

static int update_dict_of(PyObject *x, PyObject *state)
{
    PyObject *dict = PyObject_GetAttrString(x, "__dict__");
    int st = dict ? call_discard(dict, "update", state) : -1;

    Py_XDECREF(dict);
    return st;
}

static int set_slots(PyObject *x, PyObject *slots)
{
    Py_ssize_t at = 0;
    PyObject *key, *value;

    if (!PyDict_Check(slots)) {
        PyErr_SetString(PyExc_TypeError, "a state's slots must be a dict");
        return -1;
    }
    while (PyDict_Next(slots, &at, &key, &value))
        if (PyObject_SetAttr(x, key, value))
            return -1;
    return 0;
}

static int set_state(PyObject *x, PyObject *state)
{
    PyObject *slots = NULL;

    if (PyObject_HasAttrString(x, "__setstate__"))
        return call_discard(x, "__setstate__", state);
    if (PyTuple_Check(state) && PyTuple_GET_SIZE(state) == 2) {
        slots = PyTuple_GET_ITEM(state, 1);
        state = PyTuple_GET_ITEM(state, 0);
    }
    bool has_state, has_slots = false;
    if (!cr_py_truth(state, &has_state) || (has_state && update_dict_of(x, state)) ||
        (slots && !cr_py_truth(slots, &has_slots)))
        return -1;
    return has_slots ? set_slots(x, slots) : 0;
}

static bool user_allows(const loader *l, PyObject *cls)
{
    Py_ssize_t at = 0;
    PyObject *key, *value;

    while (PyDict_Next(l->allowed, &at, &key, &value))
        if (value == cls)
            return true;
    return false;
}

/* 1 for a class that the user allowed, or that the pickle names and may make instances of. */
static int may_build(loader *l, PyObject *cls)
{
    if (user_allows(l, cls))
        return 1;
    for (size_t i = 0; i < l->p->names.len; i++) {
        const cr_pickle_name *n = &l->p->names.at[i];
        cr_step f = {.kind = CR_STEP_GLOBAL, .i = (int64_t)i};
        if (use_of(l, &f) == USE_NAME)
            continue;
        PyObject *object = name_object(l, n);
        if (!object)
            return -1;
        Py_DECREF(object);
        if (object == cls)
            return 1;
    }
    return 0;
}

static int checkpoint_build(loader *l, const cr_step *s)
{
    PyObject *x = checkpoint_operand(l, s, 0), *state = x ? checkpoint_operand(l, s, 1) : NULL;

    if (!state)
        return -1;
    if (!strcmp(Py_TYPE(x)->tp_name, "collections.OrderedDict"))
        return update_dict_of(x, state);
    if (cr_py_is_tensor(x))
        return call_discard(x, "__setstate__", state);
    int may = may_build(l, checkpoint_type_of(x));
    if (may > 0)
        return set_state(x, state);
    if (!may)
        checkpoint_refuse(
            l,
            "Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
            "`add_safe_globals`, but got %S",
            checkpoint_type_of(x));
    return -1;
}

/* --- the steps --- */
static PyObject *checkpoint_make(loader *l, const cr_step *s)
{
    Py_ssize_t n = (Py_ssize_t)s->text.len;

    switch ((cr_step_kind)s->kind) {
    case CR_STEP_NONE: return Py_NewRef(Py_None);
    case CR_STEP_FALSE: return Py_NewRef(Py_False);
    case CR_STEP_TRUE: return Py_NewRef(Py_True);
    case CR_STEP_INT: return PyLong_FromLongLong(s->i);
    case CR_STEP_LONG: return make_long(s);
    case CR_STEP_DIGITS: return make_digits(s);
    case CR_STEP_FLOAT: return PyFloat_FromDouble(s->d);
    case CR_STEP_TEXT: return PyUnicode_DecodeUTF8(s->text.at, n, "surrogatepass");
    case CR_STEP_STRING: return make_string(l, s);
    case CR_STEP_BYTES: return PyBytes_FromStringAndSize(s->text.at, n);
    case CR_STEP_BYTEARRAY: return PyByteArray_FromStringAndSize(s->text.at, n);
    case CR_STEP_TUPLE: return sequence(l, s, 0, true);
    case CR_STEP_LIST: return sequence(l, s, 0, false);
    case CR_STEP_DICT: return make_dict(l, s);
    case CR_STEP_SET: return PySet_New(NULL);
    case CR_STEP_FROZENSET: return make_frozenset(l, s);
    case CR_STEP_SAME: return Py_XNewRef(checkpoint_operand(l, s, 0));
    case CR_STEP_REDUCE: return checkpoint_reduce(l, s);
    case CR_STEP_NEWOBJ:
    case CR_STEP_NEWOBJ_EX: return newobj(l, s);
    case CR_STEP_OBJECT: return object_step(l, s);
    default: return NULL;
    }
}

static int carry_out(loader *l, uint32_t i)
{
    const cr_step *s = &l->p->steps.at[i];

    switch ((cr_step_kind)s->kind) {
    case CR_STEP_GLOBAL:
    case CR_STEP_STORAGE: return 0; /* made on first use */
    case CR_STEP_APPEND: return extend(l, s);
    case CR_STEP_SETITEM:
    case CR_STEP_SETITEMS: return checkpoint_update(l, s);
    case CR_STEP_ADDITEMS: return add_items(l, s);
    case CR_STEP_BUILD: return checkpoint_build(l, s);
    default: return (l->value[i] = checkpoint_make(l, s)) ? 0 : -1;
    }
}

static int warn_protocol(const loader *l)
{
    if (!l->weights_only || l->p->protocol == 2 || !l->p->protocol)
        return 0;
    return PyErr_WarnFormat(
        PyExc_UserWarning, 2,
        "Detected pickle protocol %d in the checkpoint, which was not the default pickle "
        "protocol used "
        "by `torch.load` (2). The weights_only Unpickler might not support all instructions "
        "implemented by this protocol, please file an issue for adding support if you "
        "encounter this.",
        l->p->protocol);
}

static PyObject *carry_out_all(loader *l)
{
    size_t n = l->p->steps.len, storages = l->p->storages.len;

    l->value = PyMem_Calloc(n + 1, sizeof *l->value);
    l->storage = PyMem_Calloc(storages + 1, sizeof *l->storage);
    if (!l->value || !l->storage)
        return PyErr_NoMemory();
    if (warn_protocol(l))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (carry_out(l, (uint32_t)i))
            return NULL;
    return Py_XNewRef(checkpoint_get(l, l->p->result));
}

static void loader_drop(loader *l)
{
    for (size_t i = 0; l->value && i < l->p->steps.len; i++)
        Py_XDECREF(l->value[i]);
    for (size_t i = 0; l->storage && i < l->p->storages.len; i++)
        Py_XDECREF(l->storage[i]);
    PyMem_Free(l->value);
    PyMem_Free(l->storage);
    Py_XDECREF(l->found);
    Py_XDECREF(l->unpickling_error);
}

static int loader_init(loader *l)
{
    PyObject *module = PyImport_ImportModule("_pickle");

    l->found = PyDict_New();
    l->unpickling_error = module ? PyObject_GetAttrString(module, "UnpicklingError") : NULL;
    Py_XDECREF(module);
    return l->found && l->unpickling_error ? 0 : -1;
}

/* Raises a read error.  A KeyError contains the key as a number. */
static PyObject *raise_read(cr_status st)
{
    if (st != CR_KEY)
        return cr_py_raise(st);
    PyObject *number = PyLong_FromString(cr_error_message(), NULL, 10);
    if (number)
        PyErr_SetObject(PyExc_KeyError, number);
    Py_XDECREF(number);
    return NULL;
}

static PyObject *load_source(loader *l, cr_source *source, const cr_checkpoint_options *o)
{
    cr_checkpoint *c = NULL;
    cr_status st = cr_checkpoint_open(&c, source, o);

    if (st)
        return raise_read(st);
    l->c = c;
    l->p = cr_checkpoint_pickle(c);
    PyObject *object = carry_out_all(l);
    PyObject *both =
        object ? Py_BuildValue("NK", object, (unsigned long long)cr_checkpoint_end(c)) : NULL;
    loader_drop(l);
    *l = (loader){0};
    cr_checkpoint_drop(c);
    return both;
}

static void checkpoint_release_buffer(void *owner)
{
    PyBuffer_Release(owner);
    PyMem_Free(owner);
}

static cr_source *memory_source(PyObject *x)
{
    Py_buffer *view = PyMem_Calloc(1, sizeof *view);
    cr_source *source = NULL;

    if (!view)
        return (cr_source *)PyErr_NoMemory();
    if (PyObject_GetBuffer(x, view, PyBUF_SIMPLE)) {
        PyMem_Free(view);
        return NULL;
    }
    cr_status st = cr_source_memory(&source, view->buf, (size_t)view->len,
                                    checkpoint_release_buffer, view);
    if (st) {
        checkpoint_release_buffer(view);
        cr_py_raise(st);
    }
    return source;
}

/* Opens a file descriptor or an object with a buffer. */
cr_source *cr_py_source_of(PyObject *file, unsigned long long start, bool map)
{
    cr_source *source = NULL;

    if (!PyLong_Check(file))
        return memory_source(file);
    int fd = (int)PyLong_AsLong(file);
    if (fd < 0 && PyErr_Occurred())
        return NULL;
    cr_status st = map ? cr_source_map(&source, fd) : cr_source_file(&source, fd, start);
    if (st)
        cr_py_raise(st);
    return source;
}

static PyObject *checkpoint_load(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"file",     "start",        "find",     "allowed",
                            "restore",  "weights_only", "mmap",     "swapped",
                            "encoding", "meta",         "keep_cpu", NULL};
    PyObject *file;
    unsigned long long start;
    int weights_only, map, swapped, meta, keep_cpu;
    loader l = {0};

    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OKOO!Opppspp", names, &file, &start,
                                     &l.find, &PyDict_Type, &l.allowed, &l.restore,
                                     &weights_only, &map, &swapped, &l.encoding, &meta,
                                     &keep_cpu))
        return NULL;
    l.weights_only = weights_only;
    l.meta = meta;
    l.keep_cpu = keep_cpu;
    cr_checkpoint_options o = {
        .rules = {.weights_only = weights_only, .ask = checkpoint_ask, .who = &l},
        .share = map,
        .swapped = swapped};
    cr_source *source = cr_py_source_of(file, start, map);
    if (!source)
        return NULL;
    PyObject *both = loader_init(&l) ? NULL : load_source(&l, source, &o);
    loader_drop(&l);
    cr_source_drop(source);
    return both;
}

/* --- listing of names that are not allowed --- */
static cr_status checkpoint_collect(void *who, const char *module, const char *name,
                                    bool *allowed)
{
    PyObject *full = full_name(module, name);
    int st = full ? PySet_Add(who, full) : -1;

    Py_XDECREF(full);
    *allowed = true;
    return st ? CR_PYTHON : CR_OK;
}

static PyObject *list_names(PyObject *module, PyObject *args)
{
    PyObject *file, *names = PySet_New(NULL);
    unsigned long long start;

    (void)module;
    if (!names || !PyArg_ParseTuple(args, "OK", &file, &start)) {
        Py_XDECREF(names);
        return NULL;
    }
    cr_source *source = cr_py_source_of(file, start, false);
    cr_status st = source ? cr_checkpoint_list(source, checkpoint_collect, names) : CR_PYTHON;
    cr_source_drop(source);
    if (st) {
        Py_DECREF(names);
        return raise_read(st);
    }
    return names;
}

static PyObject *default_names(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    const char *in, *name;

    (void)module;
    (void)unused;
    for (int i = 0; list && cr_global_at(i, &in, &name); i++) {
        PyObject *full = full_name(in, name);
        cr_global_use how = cr_global_find(in, name).use;
        bool listed = how == CR_USE_CALL || how == CR_USE_NAMED;
        if (!full || (listed && PyList_Append(list, full)))
            Py_CLEAR(list);
        Py_XDECREF(full);
    }
    return list;
}

/* --- tensors in ordinary pickles --- */
static PyObject *rebuild_tensor(PyObject *module, PyObject *args)
{
    PyObject *storage, *dtype, *offset, *sizes, *strides;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!OOO", &cr_py_storage_type, &storage, &cr_py_dtype_type,
                          &dtype, &offset, &sizes, &strides))
        return NULL;
    return checkpoint_view_of(cr_py_storage_of(storage), cr_py_dtype_from(dtype), offset, sizes,
                              strides);
}

/* --- writing --- */
static PyObject *rename_globals(PyObject *module, PyObject *x)
{
    Py_buffer view;
    cr_text out = {0};

    (void)module;
    if (PyObject_GetBuffer(x, &view, PyBUF_SIMPLE))
        return NULL;
    cr_status st = cr_pickle_rename(&out, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    PyObject *made =
        st ? cr_py_raise(st) : PyBytes_FromStringAndSize(out.at, (Py_ssize_t)out.len);
    cr_text_drop(&out);
    return made;
}

/* Calls write with large blocks as memoryviews, without a copy.  A view that the file still
 * refers to is released. */
static cr_status call_write(void *to, const void *bytes, size_t len)
{
    PyObject *view = len < 1 << 16
                         ? PyBytes_FromStringAndSize(bytes, (Py_ssize_t)len)
                         : PyMemoryView_FromMemory((char *)bytes, (Py_ssize_t)len, PyBUF_READ);
    PyObject *done = view ? PyObject_CallFunctionObjArgs(to, view, NULL) : NULL;

    if (done && PyMemoryView_Check(view) && Py_REFCNT(view) > 1) {
        PyObject *released = PyObject_CallMethod(view, "release", NULL);
        if (!released)
            Py_CLEAR(done);
        Py_XDECREF(released);
    }
    Py_XDECREF(view);
    Py_XDECREF(done);
    return done ? CR_OK : CR_PYTHON;
}

static cr_status put_output(void *to, const void *bytes, size_t len)
{
    return cr_output_put(to, bytes, len);
}

typedef struct {
    const char **name; /* NULL: bytes without names, not an archive */
    Py_buffer *bytes;
    Py_ssize_t count, held;
    bool unchecked;
} records;

static void records_drop(records *r)
{
    for (Py_ssize_t i = 0; i < r->held; i++)
        PyBuffer_Release(&r->bytes[i]);
    PyMem_Free(r->name);
    PyMem_Free(r->bytes);
}

/* Reads a list of (name, bytes). */
static int take_records(records *r, PyObject *list)
{
    r->count = PyList_GET_SIZE(list);
    r->name = PyMem_Calloc((size_t)r->count + 1, sizeof *r->name);
    r->bytes = PyMem_Calloc((size_t)r->count + 1, sizeof *r->bytes);
    if (!r->name || !r->bytes) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < r->count; i++) {
        PyObject *bytes;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "sO", &r->name[i], &bytes) ||
            PyObject_GetBuffer(bytes, &r->bytes[i], PyBUF_SIMPLE))
            return -1;
        r->held++;
    }
    return 0;
}

/* Writes an archive below `folder`; when `folder` is NULL, writes the bytes only. */
static cr_status put_records(const records *r, const char *folder, cr_zip_put put, void *to)
{
    cr_zip_writer w;
    cr_status st = CR_OK;

    cr_zip_begin(&w, folder, put, to);
    w.unchecked = r->unchecked;
    for (Py_ssize_t i = 0; !st && i < r->count; i++) {
        size_t len = (size_t)r->bytes[i].len;
        st = folder ? cr_zip_add(&w, r->name[i], r->bytes[i].buf, len)
                    : put(to, r->bytes[i].buf, len);
    }
    if (!st && folder)
        st = cr_zip_end(&w);
    cr_zip_writer_drop(&w);
    return st;
}

static cr_status put_file(const records *r, const char *folder, const char *path)
{
    cr_output o;

    CR_TRY(cr_output_open(&o, path));
    return cr_output_close(&o, put_records(r, folder, put_output, &o));
}

/* `to` is a path as bytes, or a callable that receives the bytes. */
static PyObject *checkpoint_save(PyObject *module, PyObject *args)
{
    PyObject *to, *list;
    const char *folder;
    records r = {0};
    cr_status st = CR_PYTHON;
    int checked;

    (void)module;
    if (!PyArg_ParseTuple(args, "OzO!p", &to, &folder, &PyList_Type, &list, &checked))
        return NULL;
    r.unchecked = !checked;
    if (!take_records(&r, list)) {
        if (PyBytes_Check(to))
            CR_PY_UNLOCKED(st = put_file(&r, folder, PyBytes_AS_STRING(to)));
        else
            st = put_records(&r, folder, call_write, to);
    }
    records_drop(&r);
    return st ? cr_py_raise(st) : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    {"_checkpoint_load", (PyCFunction)(void (*)(void))checkpoint_load,
     METH_VARARGS | METH_KEYWORDS,
     "_checkpoint_load(file, start, find, restore, ...) -> (object, bytes)"},
    {"_checkpoint_names", list_names, METH_VARARGS,
     "_checkpoint_names(file, start) -> set of str"},
    {"_checkpoint_default_names", default_names, METH_NOARGS, NULL},
    {"_checkpoint_rename", rename_globals, METH_O, "_checkpoint_rename(pickle) -> pickle"},
    {"_checkpoint_save", checkpoint_save, METH_VARARGS,
     "_checkpoint_save(to, folder, [(name, bytes)], checked)"},
    {"_rebuild_tensor", rebuild_tensor, METH_VARARGS,
     "_rebuild_tensor(storage, dtype, offset, size, stride)"},
    {NULL, NULL, 0, NULL}};

int cr_py_checkpoint_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
