/* Guards: see guard.h. */
#include "py/bind/compile/guard.h"
#include "frame/frame_compat.h"
#include "py/bind/compile/distinct.h"
#include "tensor/geometry.h"
#include <math.h>
#include <string.h>

typedef enum {
    FROM_ARG,
    FROM_KWARG,
    FROM_CONST,
    FROM_ITEM,
    FROM_CELL,
    FROM_DICT,
    FROM_ATTR,
    FROM_TYPE,
    FROM_GRAD,
    FROM_CLASS
} source_kind;
typedef enum {
    IS_ANY,
    IS_OBJECT,
    IS_SAME,
    IS_INSTANCE,
    IS_EQUAL,
    IS_NUMBER,
    IS_LIST,
    IS_MAPPING,
    IS_ITEMS,
    IS_HOLDING,
    IS_DERIVED,
    IS_RETURNING,
    IS_TENSOR
} check_kind;

static const char *const source_names[] = {"arg",  "kwarg", "const", "item", "cell",
                                           "dict", "attr",  "type",  "grad", "class"};
static const char *const check_names[] = {"any",     "is",      "same",    "instance", "equal",
                                          "number",  "list",    "mapping", "items",    "holds",
                                          "derived", "returns", "tensor"};

typedef struct {
    uint8_t dtype, ndim;
    cr_device device;
    bool contiguous, row_major, requires_grad, inference, hooks;
    bool bare;     /* the Python object has no attributes */
    uint64_t dims; /* dims whose size may be anything but 0 and 1 */
    int64_t *size; /* sizes and strides */
} tensor_facts;

/* Parts of `expected`, borrowed from it. */
typedef struct {
    PyObject *keys; /* IS_MAPPING, IS_ITEMS, IS_HOLDING: a tuple, borrowed from `expected` */
    PyObject *mro;  /* IS_HOLDING: borrowed from `expected` */
    PyObject *held_items; /* IS_LIST, IS_MAPPING: numbers and strings by place, a dict or NULL;
                             IS_HOLDING: a dict; borrowed from `expected` */
    PyObject *base;       /* IS_DERIVED: the plain value, borrowed from `expected` */
} node_plain;

/* What a guard checks of one object.
 * Invariant: the parent of a node has a lower number. `seen` is valid while the parent is
 * stable; `holds` and `expected` live as long as the node. source and check decide which
 * members are set. */
typedef struct {
    uint8_t source, check;
    bool stable; /* the dict or tuple contains the objects of the last check */
    bool kept;   /* while the kept dicts are unchanged, `seen` is the object */
    bool own;    /* no other node may have this object, but for those that check "same" */
    bool exact;  /* IS_HOLDING: has no other items */
    int parent, slot;
    Py_ssize_t place;  /* position: FROM_ARG, FROM_KWARG, FROM_ITEM of a tuple or list */
    Py_ssize_t wanted; /* expected length, or number of a node */
    PyObject *key, *expected;
    PyTypeObject *type; /* borrowed from `expected` */
    union {
        node_plain holds;
        tensor_facts facts; /* IS_TENSOR */
    };
    uint64_t version;
    PyObject *seen; /* the object, borrowed; valid while the parent is stable */
    PyObject *held; /* a reference on an attribute object that the check created */
} node;

/* A dict that contained what the nodes below it found when it had this version. */
typedef struct {
    PyObject **owner; /* the place of an object's __dict__, or NULL */
    PyObject *dict;
    uint64_t version;
} kept_dict;

/* A class or a namespace with what the node says, while it has this version. */
typedef struct {
    PyObject *object; /* the node's constant */
    uint64_t version;
    int node;
} held_version;

/* The conditions under which a recording serves a call.
 * Invariant: `at` has `count` nodes, a container before its contents. step has `steps`
 * numbers of nodes, of which the first `firsts` are checked before the kept dicts. While no
 * kept dict or holder has another version, every node without a step holds. */
struct cr_guard {
    int count;
    node *at;
    PyObject *failed;
    kept_dict *kept; /* NULL: none are kept */
    int keeps;
    held_version *holder; /* NULL: none are kept */
    int holders;
    int *step; /* nodes to check: `firsts` before the kept dicts, the others after them */
    int firsts, steps; /* while no kept dict has changed, all other nodes hold */
    int vain;          /* checks in a row that found a kept dict changed */
    int leading;       /* nodes at the start that are arguments without contents */
    bool passed;       /* the last check of all nodes passed */
    /* Objects of own nodes and those that a node names: */
    cr_object_set met; /* of the last check of all nodes; after it of kept and constant nodes */
    cr_object_set found; /* of the other nodes of a quick check */
    int *open;           /* own nodes whose objects a quick check finds */
    int opens, twin;     /* twin: the node that had the object of the node that failed, or -1 */
};

/* A number that changes with every change of any dict; 0 where Python has none. */
static uint64_t dict_version(PyObject *dict)
{
#if PY_VERSION_HEX < 0x030d0000
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
    return ((PyDictObject *)dict)->ma_version_tag;
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#else
    (void)dict;
    return 0;
#endif
}

/* --- making --- */

static int guard_find_name(const char *const *names, size_t n, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);

    for (size_t i = 0; text && i < n; i++)
        if (!strcmp(names[i], text))
            return (int)i;
    if (text)
        PyErr_Format(PyExc_ValueError, "a guard has no '%s'", text);
    return -1;
}

static int set_facts(tensor_facts *f, const cr_tensor *t)
{
    size_t bytes = t->ndim * sizeof *t->size;

    *f = (tensor_facts){.dtype = t->dtype,
                        .device = t->device,
                        .ndim = t->ndim,
                        .contiguous = t->contiguous,
                        .row_major = cr_is_row_major(t->ndim, t->size, t->stride),
                        .requires_grad = cr_requires_grad(t),
                        .inference = t->inference,
                        .hooks = cr_leaf_has_hooks(t)};
    f->size = PyMem_Malloc(2 * bytes + 1);
    if (!f->size) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(f->size, t->size, bytes);
    memcpy(f->size + t->ndim, t->stride, bytes);
    return 0;
}

static bool is_bare(PyObject *tensor)
{
    PyObject **dict = _PyObject_GetDictPtr(tensor);

    return !dict || !*dict || !PyDict_GET_SIZE(*dict);
}

static int set_expected(node *d)
{
    switch ((check_kind)d->check) {
    case IS_SAME: d->wanted = PyLong_AsSsize_t(d->expected); return PyErr_Occurred() ? -1 : 0;
    case IS_LIST:
        return PyArg_ParseTuple(d->expected, "On|O!", &d->type, &d->wanted, &PyDict_Type,
                                &d->holds.held_items)
                   ? 0
                   : -1;
    case IS_MAPPING:
    case IS_ITEMS:
        return PyArg_ParseTuple(d->expected, "OO!|O!", &d->type, &PyTuple_Type, &d->holds.keys,
                                &PyDict_Type, &d->holds.held_items)
                   ? 0
                   : -1;
    case IS_HOLDING: {
        int exact;
        if (!PyArg_ParseTuple(d->expected, "O!O!Op", &PyDict_Type, &d->holds.held_items,
                              &PyTuple_Type, &d->holds.keys, &d->holds.mro, &exact))
            return -1;
        d->exact = exact;
        return 0;
    }
    case IS_DERIVED:
        return PyArg_ParseTuple(d->expected, "OO", &d->type, &d->holds.base) ? 0 : -1;
    case IS_RETURNING: {
        PyObject *given, *wanted;
        return PyArg_ParseTuple(d->expected, "O!O", &PyTuple_Type, &given, &wanted) ? 0 : -1;
    }
    case IS_INSTANCE:
    case IS_NUMBER: d->type = (PyTypeObject *)d->expected; return 0;
    case IS_TENSOR: /* the guard does not keep the tensor alive */
        if (set_facts(&d->facts, cr_py_tensor_of(d->expected)) < 0)
            return -1;
        d->type = Py_TYPE(d->expected);
        d->facts.bare = is_bare(d->expected);
        Py_SETREF(d->expected, Py_NewRef(d->type));
        return 0;
    default: return 0;
    }
}

/* Methods are made when they are read, and the dict of an object has one owner.  Other nodes
 * name the object of one with the slot NAMED. */
static bool is_own(const node *d)
{
    enum { NAMED = -2 };

    if (d->slot == NAMED)
        return false;
    switch ((check_kind)d->check) {
    case IS_TENSOR:
    case IS_LIST:
    case IS_MAPPING:
    case IS_ITEMS:
    case IS_DERIVED: return d->source != FROM_DICT && d->source != FROM_CONST;
    case IS_INSTANCE: return d->type != &PyMethod_Type && d->source != FROM_CONST;
    default: return false;
    }
}

/* Does not use PyArg_ParseTuple, because a guard may have thousands of nodes and the first call
 * waits for them. */
static int set_node(node *d, PyObject *from)
{
    enum { SOURCE, PARENT, KEY, CHECK, EXPECTED, SLOT, DIMS };
    Py_ssize_t n = PyList_Check(from) ? PyList_GET_SIZE(from) : 0;
    PyObject *const *item = n == SLOT + 1 || n == DIMS + 1 ? PySequence_Fast_ITEMS(from) : NULL;
    int source, check;

    if (!item) {
        PyErr_SetString(PyExc_TypeError, "a node of a guard is a list of six or seven");
        return -1;
    }
    d->key = Py_NewRef(item[KEY]);
    d->expected = Py_NewRef(item[EXPECTED]);
    d->parent = (int)PyLong_AsLong(item[PARENT]);
    d->slot = (int)PyLong_AsLong(item[SLOT]);
    source = guard_find_name(source_names, CR_LEN(source_names), item[SOURCE]);
    check = source < 0 ? -1 : guard_find_name(check_names, CR_LEN(check_names), item[CHECK]);
    if (check < 0)
        return -1;
    d->source = (uint8_t)source;
    d->check = (uint8_t)check;
    if (PyErr_Occurred() || set_expected(d) < 0)
        return -1;
    if (PyLong_CheckExact(d->key))
        d->place = PyLong_AsSsize_t(d->key);
    PyErr_Clear(); /* a key of a dict may be any number */
    if (n == DIMS + 1 && check == IS_TENSOR)
        d->facts.dims = PyLong_AsUnsignedLongLong(item[DIMS]);
    d->own = is_own(d);
    return PyErr_Occurred() ? -1 : 0;
}

static bool is_plain_argument(const node *d)
{
    return (d->source == FROM_ARG || d->source == FROM_KWARG) &&
           (d->check == IS_TENSOR || d->check == IS_NUMBER || d->check == IS_EQUAL ||
            d->check == IS_OBJECT);
}

cr_guard *cr_guard_new(PyObject *nodes)
{
    cr_guard *g = PyMem_Calloc(1, sizeof *g);
    Py_ssize_t n = PyList_GET_SIZE(nodes);

    if (!g || !(g->at = PyMem_Calloc((size_t)n + 1, sizeof *g->at))) {
        PyMem_Free(g);
        PyErr_NoMemory();
        return NULL;
    }
    for (; g->count < n; g->count++)
        if (set_node(&g->at[g->count], PyList_GET_ITEM(nodes, g->count)) < 0) {
            g->count++;
            cr_guard_drop(g);
            return NULL;
        }
    while (g->leading < g->count && is_plain_argument(&g->at[g->leading]))
        g->leading++;
    return g;
}

void cr_guard_drop(cr_guard *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->count; i++) {
        Py_XDECREF(g->at[i].key);
        Py_XDECREF(g->at[i].expected);
        Py_XDECREF(g->at[i].held);
        if (g->at[i].check == IS_TENSOR)
            PyMem_Free(g->at[i].facts.size);
    }
    PyMem_Free(g->kept);
    PyMem_Free(g->holder);
    PyMem_Free(g->step);
    PyMem_Free(g->open);
    cr_object_set_drop(&g->met);
    cr_object_set_drop(&g->found);
    PyMem_Free(g->at);
    PyMem_Free(g);
}

int cr_guard_traverse(const cr_guard *g, visitproc visit, void *arg)
{
    for (int i = 0; g && i < g->count; i++) {
        Py_VISIT(g->at[i].key);
        Py_VISIT(g->at[i].expected);
    }
    return 0;
}

/* --- checking --- */

static bool has_sizes(const tensor_facts *f, const cr_tensor *t)
{
    if (!f->dims)
        return !memcmp(t->size, f->size, f->ndim * sizeof *f->size);
    for (int d = 0; d < f->ndim; d++)
        if (f->dims >> d & 1 ? t->size[d] < 2 : t->size[d] != f->size[d])
            return false;
    return true;
}

/* Compares strides also for dims of size 1, because views and call results may pass these
 * strides on.  Dims of variable size are not compared. */
static bool has_strides(const tensor_facts *f, const cr_tensor *t)
{
    if (f->dims && f->contiguous)
        return f->row_major == cr_is_row_major(t->ndim, t->size, t->stride);
    return !memcmp(t->stride, f->size + f->ndim, f->ndim * sizeof *f->size);
}

static bool has_facts(const tensor_facts *f, const cr_tensor *t)
{
    return t->dtype == f->dtype && t->ndim == f->ndim && cr_same_device(t->device, f->device) &&
           t->contiguous == f->contiguous && cr_requires_grad(t) == f->requires_grad &&
           t->inference == f->inference && cr_leaf_has_hooks(t) == f->hooks && !t->number &&
           !t->layout && !cr_is_lazy(t) && has_sizes(f, t) && has_strides(f, t);
}

static bool equals(PyObject *o, PyObject *expected);

static bool is_value_of_python(PyObject *x)
{
    return PyLong_CheckExact(x) || PyFloat_CheckExact(x) || PyUnicode_CheckExact(x) ||
           PyComplex_CheckExact(x) || PyBytes_CheckExact(x);
}

static bool same_bits(double a, double b) { return !memcmp(&a, &b, sizeof a); }

static bool tuples_equal(PyObject *a, PyObject *b)
{
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b))
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++)
        if (!equals(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i)))
            return false;
    return true;
}

/* Floats must have equal bits: -0.0 differs from 0.0, and NaN equals NaN.  Instances of
 * the program's classes must be identical, because __eq__ would run code of the program. */
static bool equals(PyObject *o, PyObject *expected)
{
    if (o == expected)
        return true;
    if (Py_TYPE(o) != Py_TYPE(expected))
        return false;
    if (PyFloat_CheckExact(o))
        return same_bits(PyFloat_AS_DOUBLE(o), PyFloat_AS_DOUBLE(expected));
    if (PyComplex_CheckExact(o))
        return same_bits(PyComplex_RealAsDouble(o), PyComplex_RealAsDouble(expected)) &&
               same_bits(PyComplex_ImagAsDouble(o), PyComplex_ImagAsDouble(expected));
    if (PyTuple_CheckExact(o))
        return tuples_equal(o, expected);
    if (PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE))
        return false;
    int same = PyObject_RichCompareBool(o, expected, Py_EQ);
    if (same < 0)
        PyErr_Clear();
    return same == 1;
}

/* True when the iteration by the method of CPython's class gives these items in this order. */
static bool gives_items(PyTypeObject *base, PyObject *x, PyObject *items)
{
    PyObject *each = base->tp_iter(x), *item = NULL;
    Py_ssize_t i = 0, n = PyTuple_GET_SIZE(items);

    for (; each && (item = PyIter_Next(each)); i++) {
        bool same = i < n && equals(item, PyTuple_GET_ITEM(items, i));
        Py_DECREF(item);
        if (!same)
            break;
    }
    PyErr_Clear();
    Py_XDECREF(each);
    return i == n && !item;
}

/* True when the set, list or tuple has these items in this order.  Equal sets may differ in
 * order. */
static bool has_items(PyObject *x, PyObject *items)
{
    if (PyAnySet_Check(x))
        return PySet_GET_SIZE(x) == PyTuple_GET_SIZE(items) &&
               (!PySet_GET_SIZE(x) || gives_items(&PySet_Type, x, items));
    return Py_SIZE(x) == PyTuple_GET_SIZE(items) &&
           gives_items(PyList_Check(x) ? &PyList_Type : &PyTuple_Type, x, items);
}

/* --- dicts --- */

static bool dict_has_keys(PyObject *dict, PyObject *keys)
{
    PyObject *key, *x;
    Py_ssize_t at = 0, i = 0;

    if (PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys))
        return false;
    if (!PyDict_GET_SIZE(dict))
        return true;
    if (PyODict_Check(dict) &&
        PyDict_GET_SIZE(dict) > 1) /* its order is not that of the dict */
        return gives_items(&PyODict_Type, dict, keys);
    while (PyDict_Next(dict, &at, &key, &x))
        if (i >= PyTuple_GET_SIZE(keys) || !equals(key, PyTuple_GET_ITEM(keys, i++)))
            return false;
    return i == PyTuple_GET_SIZE(keys);
}

/* True when the dict has not changed since the last check.  An OrderedDict is always checked
 * again, because move_to_end() keeps its version. */
static bool dict_is_unchanged(const node *d, PyObject *o)
{
    return o == d->seen && d->version && dict_version(o) == d->version && !PyODict_Check(o);
}

/* Reads a number; false when may_vary() of guards.py is false for it.  Float zeros differ in
 * sign, and very large integers mark symbols. */
static bool take_number(PyObject *o, cr_scalar *out)
{
    const int64_t most = INT64_C(1) << 61;

    if (PyFloat_CheckExact(o)) {
        *out = cr_scalar_float(PyFloat_AS_DOUBLE(o));
        return out->d != 0 && isfinite(out->d);
    }
    long long i = PyLong_AsLongLong(o);
    if (i == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return false;
    }
    *out = cr_scalar_int(i);
    return i > -most && i < most;
}

/* True when the container contains the objects of the last check. */
static bool is_stable(const cr_guard *g, node *d, PyObject *o)
{
    if (PyTuple_CheckExact(o)) { /* a tuple is immutable, but may have been replaced */
        bool kept = d->parent >= 0 && g->at[d->parent].stable && d->source != FROM_ARG &&
                    d->source != FROM_KWARG;
        return kept && o == d->seen;
    }
    if (!PyDict_Check(o))
        return false;
    uint64_t now = dict_version(o);
    bool same = now && o == d->seen && now == d->version;
    d->version = now;
    return same;
}

/* Gets an attribute and keeps it alive during the check, because getattr may create it. */
static PyObject *guard_attribute(PyObject *o, PyObject *name, PyObject **held)
{
    PyObject *x = PyObject_GetAttr(o, name);

    if (!x)
        PyErr_Clear();
    Py_XSETREF(*held, x);
    return x;
}

/* The item of a dict, tuple or list, borrowed, or NULL. */
static PyObject *item_of(PyObject *holder, PyObject *key, Py_ssize_t place)
{
    if (!PyDict_Check(holder))
        return PyTuple_Check(holder) ? PyTuple_GET_ITEM(holder, place)
                                     : PyList_GET_ITEM(holder, place);
    PyObject *x = PyDict_GetItemWithError(holder, key);

    if (!x)
        PyErr_Clear();
    return x;
}

static PyObject *guard_find(cr_guard *g, node *d, PyObject *const *args, Py_ssize_t positional)
{
    node *up = d->parent >= 0 ? &g->at[d->parent] : NULL;
    PyObject *o = up ? up->seen : NULL;

    switch ((source_kind)d->source) {
    case FROM_ARG: return args[d->place];
    case FROM_KWARG: return args[positional + d->place];
    case FROM_CONST: return d->key;
    case FROM_ITEM: return up->stable ? d->seen : item_of(o, d->key, d->place);
    case FROM_CELL: return PyCell_GET(o);
    case FROM_DICT: {
        PyObject **dict = _PyObject_GetDictPtr(o);
        if (dict && *dict)
            return *dict;
        o = PyObject_GenericGetDict(o, NULL);
        if (!o)
            PyErr_Clear();
        else
            Py_DECREF(o); /* the object keeps the dict alive */
        return o;
    }
    case FROM_ATTR: return guard_attribute(o, d->key, &d->held);
    case FROM_TYPE:
        return _PyType_Lookup((PyTypeObject *)(PyType_Check(o) ? o : (PyObject *)Py_TYPE(o)),
                              d->key);
    case FROM_CLASS: return (PyObject *)Py_TYPE(o);
    case FROM_GRAD: {
        cr_tensor *grad = cr_grad_of(cr_py_tensor_of(o));
        return grad ? (grad->peer ? (PyObject *)grad->peer
                                  : guard_attribute(o, d->key, &d->held))
                    : Py_None;
    }
    }
    return NULL;
}

/* True when the dict, list or tuple has these items by key or place, values by their bits and
 * others by identity. */
static bool contains(PyObject *holder, PyObject *items)
{
    PyObject *key, *wanted;
    Py_ssize_t at = 0;

    while (items && PyDict_Next(items, &at, &key, &wanted)) {
        PyObject *now = item_of(holder, key, PyDict_Check(holder) ? 0 : PyLong_AsSsize_t(key));
        if (!now || (now != wanted && !(is_value_of_python(now) && equals(now, wanted))))
            return false;
    }
    return true;
}

static bool dict_lacks(PyObject *dict, PyObject *keys)
{
    bool lacks = true;

    for (Py_ssize_t i = 0; lacks && i < PyTuple_GET_SIZE(keys); i++)
        lacks = !PyDict_Contains(dict, PyTuple_GET_ITEM(keys, i));
    return lacks;
}

/* True when the dict has these items and lacks the keys. */
static bool dict_holds(const node *d, PyObject *dict)
{
    if (d->exact && PyDict_GET_SIZE(dict) != PyDict_GET_SIZE(d->holds.held_items))
        return false;
    return contains(dict, d->holds.held_items) && dict_lacks(dict, d->holds.keys);
}

static uint64_t version_of(PyObject *o)
{
    return PyDict_Check(o) ? dict_version(o) : ((PyTypeObject *)o)->tp_version_tag;
}

/* True when a dict, or the class with this __mro__, has what the node says.  The version of a
 * class or a dict changes with every change; 0 means that it has none. */
static bool holder_holds(node *d, PyObject *o)
{
    PyTypeObject *t = PyType_Check(o) ? (PyTypeObject *)o : NULL;

    if (d->version && d->version == version_of(o))
        return true;
    PyObject *dict = !t                          ? Py_NewRef(o)
                     : t->tp_mro == d->holds.mro ? cr_frame_type_dict(t)
                                                 : NULL;
    bool same = dict && dict_holds(d, dict);

    Py_XDECREF(dict);
    if (same && t && !t->tp_version_tag) {
        PyObject *name = PyUnicode_InternFromString("__doc__");
        if (name) /* a lookup gives the class a version */
            (void)_PyType_Lookup(t, name);
        PyErr_Clear();
        Py_XDECREF(name);
    }
    d->version = same ? version_of(o) : 0;
    return same;
}

/* True for an object of exactly this class, which derives from int, float, complex, str or
 * bytes, with this value.  Runs no method of the class. */
static bool is_derived(const node *d, PyObject *o)
{
    PyObject *base = d->holds.base;

    if (Py_TYPE(o) != d->type)
        return false;
    if (PyFloat_Check(o))
        return same_bits(PyFloat_AS_DOUBLE(o), PyFloat_AS_DOUBLE(base));
    if (PyComplex_Check(o))
        return same_bits(PyComplex_RealAsDouble(o), PyComplex_RealAsDouble(base)) &&
               same_bits(PyComplex_ImagAsDouble(o), PyComplex_ImagAsDouble(base));
    richcmpfunc compare = PyLong_Check(o)      ? PyLong_Type.tp_richcompare
                          : PyUnicode_Check(o) ? PyUnicode_Type.tp_richcompare
                          : PyBytes_Check(o)   ? PyBytes_Type.tp_richcompare
                                               : NULL;
    PyObject *same = compare ? compare(o, base, Py_EQ) : NULL;
    bool equal = same == Py_True;

    PyErr_Clear();
    Py_XDECREF(same);
    return equal;
}

/* True when a function in C returns the expected object for these arguments.  It reads state of
 * the process. */
static bool function_returns(PyObject *function, PyObject *expected)
{
    PyObject *now = PyCFunction_Check(function)
                        ? PyObject_Call(function, PyTuple_GET_ITEM(expected, 0), NULL)
                        : NULL;
    bool same = now && equals(now, PyTuple_GET_ITEM(expected, 1));

    PyErr_Clear();
    Py_XDECREF(now);
    return same;
}

static bool guard_holds(cr_guard *g, node *d, PyObject *o, cr_tensor **input, cr_scalar *number)
{
    switch ((check_kind)d->check) {
    case IS_ANY: return true;
    case IS_OBJECT: return o == d->expected;
    case IS_SAME: return o == g->at[d->wanted].seen;
    case IS_INSTANCE: return Py_TYPE(o) == d->type;
    case IS_EQUAL: return equals(o, d->expected);
    case IS_NUMBER: return Py_TYPE(o) == d->type && take_number(o, &number[d->slot]);
    case IS_LIST:
        return Py_TYPE(o) == d->type &&
               (PyTuple_Check(o) ? PyTuple_GET_SIZE(o) : PyList_GET_SIZE(o)) == d->wanted &&
               contains(o, d->holds.held_items);
    case IS_MAPPING:
        return Py_TYPE(o) == d->type &&
               (dict_is_unchanged(d, o) ||
                (dict_has_keys(o, d->holds.keys) && contains(o, d->holds.held_items)));
    case IS_HOLDING: return holder_holds(d, o);
    case IS_DERIVED: return is_derived(d, o);
    case IS_RETURNING: return function_returns(o, d->expected);
    case IS_ITEMS: return Py_TYPE(o) == d->type && has_items(o, d->holds.keys);
    case IS_TENSOR:
        if (Py_TYPE(o) != d->type || !has_facts(&d->facts, cr_py_tensor_of(o)) ||
            (d->facts.bare && !is_bare(o)))
            return false;
        if (d->slot >= 0)
            input[d->slot] = cr_py_tensor_of(o);
        return true;
    }
    return false;
}

/* Finds and checks the object of a node. */
static bool node_holds(cr_guard *g, node *d, PyObject *const *args, Py_ssize_t positional,
                       cr_tensor **input, cr_scalar *number)
{
    PyObject *o = guard_find(g, d, args, positional);

    g->failed = o;
    if (!o || !guard_holds(g, d, o, input, number))
        return false;
    d->stable = d->check != IS_HOLDING && is_stable(g, d, o);
    d->seen = o;
    return true;
}

/* --- kept dicts --- */

enum { KEPT_AHEAD = 24, KEPT_IN_VAIN = 8 };
/* How the object of a node is known.  OPEN: it has to be found.  SURE: it is a constant, or one
 * of the first nodes finds that it is the expected one.  KEPT: no dict on its path has
 * changed. */
typedef enum { OPEN, SURE, KEPT } knowledge;

/* Dicts of which a guard uses some items change often: globals and namespaces. */
static bool is_open_dict(const node *d)
{
    return d->check == IS_ANY || d->check == IS_HOLDING || !PyDict_Check(d->seen) ||
           !dict_version(d->seen);
}

static knowledge knowledge_of(const cr_guard *g, const node *d, const uint8_t *known)
{
    const node *up = d->parent >= 0 ? &g->at[d->parent] : NULL;
    knowledge above = up ? (knowledge)known[d->parent] : OPEN;

    switch ((source_kind)d->source) {
    case FROM_CONST: return SURE;
    case FROM_ARG:
    case FROM_KWARG: return d - g->at < g->leading && d->check == IS_OBJECT ? SURE : OPEN;
    case FROM_DICT:
        return !is_open_dict(d) ? (above ? KEPT : OPEN) : above == SURE ? SURE : OPEN;
    case FROM_ITEM:
        if (above && (PyTuple_CheckExact(up->seen) || !is_open_dict(up)))
            return KEPT;
        return above == SURE && PyDict_Check(up->seen) && d->check == IS_OBJECT ? SURE : OPEN;
    default: return OPEN;
    }
}

/* Whether a node of a known object holds without a check. */
static bool holds_always(const node *d, const uint8_t *known)
{
    switch ((check_kind)d->check) {
    case IS_ANY: return !PyDict_Check(d->seen);
    case IS_EQUAL: return true;
    case IS_OBJECT: return true;
    case IS_SAME: return known[d->wanted] != OPEN;
    case IS_LIST: return PyTuple_CheckExact(d->seen);
    case IS_MAPPING: /* move_to_end() changes an order and no version */
        return !is_open_dict(d) &&
               (PyDict_CheckExact(d->seen) ||
                (Py_IS_TYPE(d->seen, &PyODict_Type) && PyDict_GET_SIZE(d->seen) < 2));
    default: return false;
    }
}

static void keep_dict(cr_guard *g, node *d)
{
    PyObject **owner =
        d->source == FROM_DICT ? _PyObject_GetDictPtr(g->at[d->parent].seen) : NULL;

    d->stable = true;
    g->kept[g->keeps++] = (kept_dict){owner, d->seen, dict_version(d->seen)};
}

/* Whether the node is checked before the kept dicts are read. */
static bool is_first(const node *d, const uint8_t *known, int i)
{
    return known[i] == SURE && (d->parent < 0 || known[d->parent] == SURE) &&
           (d->source != FROM_CONST || (PyDict_Check(d->seen) && is_open_dict(d)));
}

/* Whether the version of the node's constant says that the node holds. */
static bool is_held_by_version(const node *d)
{
    return d->source == FROM_CONST && d->check == IS_HOLDING && d->version &&
           d->version == version_of(d->key);
}

static void keep_all(cr_guard *g, uint8_t *known)
{
    for (int i = 0; i < g->count; i++) {
        known[i] = (uint8_t)knowledge_of(g, &g->at[i], known);
        g->at[i].kept = known[i] == KEPT;
        if (is_held_by_version(&g->at[i]))
            g->holder[g->holders++] = (held_version){g->at[i].key, g->at[i].version, i};
        else if (i >= g->leading && is_first(&g->at[i], known, i))
            g->step[g->steps++] = i;
    }
    g->firsts = g->steps;
    for (int i = g->leading; i < g->count; i++) {
        if (known[i] && PyDict_Check(g->at[i].seen) && !is_open_dict(&g->at[i]))
            keep_dict(g, &g->at[i]);
        if (!is_first(&g->at[i], known, i) && !is_held_by_version(&g->at[i]) &&
            !(known[i] && holds_always(&g->at[i], known)))
            g->step[g->steps++] = i;
    }
}

/* --- objects that are apart --- */

/* The object that a node names, or NULL. */
static PyObject *object_named(const node *d)
{
    if (d->source == FROM_CONST && d->check != IS_SAME)
        return d->key;
    return d->check == IS_OBJECT ? d->expected : NULL;
}

/* Adds the objects that nodes name.  Several nodes may name one. */
static void meet_constants(cr_guard *g)
{
    for (int i = 0; i < g->count; i++) {
        const PyObject *named = object_named(&g->at[i]);
        if (named)
            cr_object_set_add(&g->met, named);
    }
}

/* Whether the objects of own nodes are apart, after a check of all nodes.  Returns the first
 * node that shares its object, or -1. */
static int find_shared(cr_guard *g)
{
    if (!cr_object_set_clear(&g->met, (size_t)g->count))
        return 0;
    meet_constants(g);
    for (int i = 0; i < g->count; i++)
        if (g->at[i].own && !cr_object_set_add(&g->met, g->at[i].seen))
            return i;
    return -1;
}

/* The same after a quick check, for the nodes that it has looked at. */
static int find_shared_again(cr_guard *g)
{
    if (!cr_object_set_clear(&g->found, (size_t)g->opens))
        return 0;
    for (int k = 0; k < g->opens; k++) {
        const PyObject *o = g->at[g->open[k]].seen;
        if (cr_object_set_has(&g->met, o) || !cr_object_set_add(&g->found, o))
            return g->open[k];
    }
    return -1;
}

/* Sorts own nodes into those whose objects stay while the kept dicts do, and others. */
static bool keep_apart(cr_guard *g, const uint8_t *known)
{
    g->opens = 0;
    if (!cr_object_set_clear(&g->met, (size_t)g->count))
        return false;
    meet_constants(g);
    for (int i = 0; i < g->count; i++)
        if (g->at[i].own && known[i])
            cr_object_set_add(&g->met, g->at[i].seen);
        else if (g->at[i].own)
            g->open[g->opens++] = i;
    return true;
}

/* Notes which node has the object of node i, too. */
static void fail_shared(cr_guard *g, int i)
{
    g->failed = g->at[i].seen;
    for (int k = 0; k < g->count && g->twin < 0; k++)
        if (k < i && g->at[k].own ? g->at[k].seen == g->failed
                                  : object_named(&g->at[k]) == g->failed)
            g->twin = k;
}

/* The list with room for just `n` items; as it was, with *failed set, without memory. */
static void *guard_room(void *list, int n, size_t size, bool *failed)
{
    void *at = PyMem_Realloc(list, ((size_t)n + 1) * size);

    *failed = *failed || !at;
    return at ? at : list;
}

static bool guard_rooms(cr_guard *g, int opens, int keeps, int holders, int steps)
{
    bool failed = false;

    g->open = guard_room(g->open, opens, sizeof *g->open, &failed);
    g->kept = guard_room(g->kept, keeps, sizeof *g->kept, &failed);
    g->holder = guard_room(g->holder, holders, sizeof *g->holder, &failed);
    g->step = guard_room(g->step, steps, sizeof *g->step, &failed);
    return !failed;
}

/* Notes the versions of dicts after a check that passed.  Without memory none are kept. */
static void keep_dicts(cr_guard *g)
{
    uint8_t *known = PyMem_Malloc((size_t)g->count + 1);
    int n = g->count;

    g->keeps = g->steps = g->firsts = g->holders = 0;
    if (known && guard_rooms(g, n, n, n, n)) {
        keep_all(g, known);
        if (!keep_apart(g, known))
            g->keeps = 0;
        guard_rooms(g, g->opens, g->keeps, g->holders, g->steps);
    }
    PyMem_Free(known);
}

/* A kept dict is alive while those before it are unchanged. */
static bool are_kept(const cr_guard *g)
{
    const kept_dict *k = g->kept, *end = k + g->keeps;

    for (; k < end; k++) {
        if (end - k > KEPT_AHEAD)
            __builtin_prefetch(&((PyDictObject *)k[KEPT_AHEAD].dict)->ma_used);
        if ((k->owner && *k->owner != k->dict) || dict_version(k->dict) != k->version)
            return false;
    }
    return true;
}

/* Whether classes and namespaces hold what their nodes say.  Those of another version are
 * compared. */
static bool holders_hold(cr_guard *g)
{
    for (held_version *h = g->holder, *end = h + g->holders; h < end; h++) {
        node *d = &g->at[h->node];
        if (h->version && version_of(h->object) == h->version)
            continue;
        if (!holder_holds(d, h->object))
            return false;
        h->version = d->version;
    }
    return true;
}

static const node *step_at(const cr_guard *g, int k)
{
    return k < g->steps ? &g->at[g->step[k]] : NULL;
}

static void fetch_lines(const void *at, int bytes)
{
    const char *end = (const char *)at + bytes - 1;

    for (const char *p = at; p && p < end; p += 64)
        __builtin_prefetch(p);
    if (at)
        __builtin_prefetch(end);
}

/* Fetches what the checks of the next steps read: after other work all of it is in memory. */
static void fetch_ahead(const cr_guard *g, int k)
{
    const node *d = step_at(g, k + 32);

    fetch_lines(d, (int)sizeof *d);
    d = step_at(g, k + 24);
    if (d) {
        fetch_lines(d->seen, (int)sizeof(PyObject) + 16);
        if (d->check == IS_TENSOR)
            fetch_lines(d->facts.size, 1);
    }
    d = step_at(g, k + 16);
    if (d && d->kept && d->check == IS_TENSOR)
        fetch_lines(((cr_py_tensor *)d->seen)->t, (int)sizeof(cr_tensor));
    d = step_at(g, k + 8);
    if (d && d->kept && d->check == IS_TENSOR)
        fetch_lines(((cr_py_tensor *)d->seen)->t->storage, (int)sizeof(cr_storage));
}

static bool steps_hold(cr_guard *g, int from, int to, PyObject *const *args,
                       Py_ssize_t positional, cr_tensor **input, cr_scalar *number)
{
    bool fetch = to == g->steps;

    for (int k = from; k < to; k++) {
        if (fetch)
            fetch_ahead(g, k);
        if (!node_holds(g, &g->at[g->step[k]], args, positional, input, number))
            return false;
    }
    return true;
}

/* Whether the guard holds because no kept dict has changed.  If not, all nodes are checked. */
static bool quick_check(cr_guard *g, PyObject *const *args, Py_ssize_t positional,
                        cr_tensor **input, cr_scalar *number)
{
    if (!g->keeps)
        return false;
    if (steps_hold(g, 0, g->firsts, args, positional, input, number) && are_kept(g) &&
        holders_hold(g)) {
        g->vain = 0;
        return steps_hold(g, g->firsts, g->steps, args, positional, input, number) &&
               find_shared_again(g) < 0;
    }
    g->vain++;
    return false;
}

/* The steps of a quick check that failed have read some dicts again, but not all nodes
 * below. */
static void forget_steps(cr_guard *g)
{
    for (int k = 0; k < g->steps; k++)
        if (g->at[g->step[k]].check != IS_HOLDING) /* whose version stands for itself */
            g->at[g->step[k]].version = 0;
    g->keeps = g->steps = g->holders = 0;
}

/* Forgets all objects, so that the next check looks into unchanged dicts, too. */
static void guard_forget(cr_guard *g)
{
    for (int i = 0; i < g->count; i++) {
        g->at[i].stable = false;
        g->at[i].version = 0;
        g->at[i].seen = NULL;
    }
    g->keeps = g->steps = 0;
    g->passed = false;
}

int cr_guard_check(cr_guard *g, PyObject *const *args, Py_ssize_t positional, cr_tensor **input,
                   cr_scalar *number)
{
    int shared;

    g->twin = -1;
    /* Arguments first: a call of other sizes fails here and keeps the list of versions. */
    for (int i = 0; i < g->leading; i++)
        if (!node_holds(g, &g->at[i], args, positional, input, number))
            return i;
    if (quick_check(g, args, positional, input, number))
        return -1;
    forget_steps(g);
    for (int i = g->leading; i < g->count; i++) {
        node *d = &g->at[i];
        if (!node_holds(g, d, args, positional, input, number)) {
            guard_forget(g);
            return i;
        }
    }
    shared = find_shared(g);
    if (shared >= 0) {
        fail_shared(g, shared);
        guard_forget(g);
        return shared;
    }
    if (g->passed && g->vain < KEPT_IN_VAIN)
        keep_dicts(g);
    g->passed = true;
    return -1;
}

PyObject *cr_guard_failed(const cr_guard *g) { return g->failed; }

int cr_guard_twin(const cr_guard *g) { return g->twin; }

bool cr_guard_misfits(const cr_guard *g, int i)
{
    return g->at[i].check == IS_TENSOR && g->twin < 0 && g->failed &&
           cr_py_is_tensor(g->failed);
}

PyObject *cr_guard_object(const cr_guard *g, int i) { return g->at[i].seen; }

bool cr_guard_is_input(const cr_guard *g, int i)
{
    return g->at[i].check == IS_TENSOR && g->at[i].slot >= 0;
}

void cr_guard_release(cr_guard *g, int i)
{
    g->at[i].seen = NULL;
    Py_CLEAR(g->at[i].held);
}

void cr_guard_release_all(cr_guard *g)
{
    g->failed = NULL;
    for (int i = 0; i < g->count; i++)
        Py_CLEAR(g->at[i].held);
}
