/* The Tensor type and the lifetime of its objects.
 *
 * A wrapper normally owns a reference on its C tensor.  Python may drop a wrapper that has
 * state (a subclass, a __dict__, weak references, hooks) while C still refers to the tensor.
 * Ownership then flips: the tensor's peer slot owns the wrapper, until Python asks for the
 * wrapper again or C drops the tensor.
 *
 * Freed wrappers of the plain class are reused.  The garbage collector enters the graph of a
 * tensor only while the wrapper owns the tensor's only reference, so every reference that it
 * reports can be broken. */
#include "py/bind/bind.h"

PyTypeObject *cr_py_tensor_type;
long cr_py_graph_objects;

enum { KEEP_FREE = 256 };
static cr_py_tensor *free_wrappers[KEEP_FREE];
static int free_count;

static cr_py_tensor *wrapper_of(PyObject *self) { return (cr_py_tensor *)self; }

/* --- creation --- */

/* The existing wrapper of `t`. */
static PyObject *wrap_again(cr_tensor *t)
{
    cr_py_tensor *w = t->peer;

    if (w->owns) {
        cr_drop(t);
        return Py_NewRef((PyObject *)w);
    }
    /* the caller's reference goes to the wrapper, the peer's reference to the caller */
    w->owns = true;
    cr_py_graph_objects--;
    return (PyObject *)w;
}

static PyObject *wrap_new(PyTypeObject *type, cr_tensor *t)
{
    cr_py_tensor *w = (cr_py_tensor *)type->tp_alloc(type, 0);

    if (!w) {
        cr_drop(t);
        return NULL;
    }
    w->t = t;
    w->owns = true;
    t->peer = w;
    return (PyObject *)w;
}

PyObject *cr_py_wrap(cr_tensor *t)
{
    if (CR_UNLIKELY(t->peer != NULL))
        return wrap_again(t);
    if (CR_UNLIKELY(t->batch != NULL))
        return wrap_new(cr_py_example_type(), t);
    if (CR_UNLIKELY(!free_count))
        return wrap_new(cr_py_tensor_type, t);
    cr_py_tensor *w = free_wrappers[--free_count];
    PyObject_Init((PyObject *)w, cr_py_tensor_type);
    w->t = t;
    t->peer = w;
    PyObject_GC_Track(w);
    return (PyObject *)w;
}

PyObject *cr_py_wrap_keep(cr_tensor *t)
{
    if (!t)
        Py_RETURN_NONE;
    return cr_py_wrap(cr_keep(t));
}

/* A handler (__torch_dispatch__) may have given `t` an object of its class, and an example of a
 * batch has one. */
static PyObject *wrap_again_as(PyTypeObject *type, cr_tensor *t)
{
    PyObject *had = cr_py_wrap(t);

    if (PyObject_TypeCheck(had, type))
        return had;
    PyErr_Format(PyExc_RuntimeError,
                 "Creating a new Tensor subclass %s but the raw Tensor object is already "
                 "associated to a python object of type %s which is not a subclass of the "
                 "requested type",
                 type->tp_name, Py_TYPE(had)->tp_name);
    Py_DECREF(had);
    return NULL;
}

PyObject *cr_py_wrap_as(PyTypeObject *type, cr_tensor *t)
{
    if (CR_UNLIKELY(t->peer != NULL) ||
        (t->batch && !PyType_IsSubtype(type, cr_py_example_type())))
        return wrap_again_as(type, t);
    cr_py_mark_dispatched(type, t);
    return wrap_new(type, t);
}

/* --- destruction --- */

static int32_t counts(const cr_tensor *t)
{
    return atomic_load_explicit(&((cr_tensor *)(uintptr_t)t)->count, memory_order_acquire);
}

/* True when the wrapper has state and the tensor has other owners. */
static bool must_outlive(const cr_py_tensor *w)
{
    return w->t && counts(w->t) > 1 &&
           (w->dict || w->weak || w->hooks || w->accumulated ||
            !Py_IS_TYPE(w, cr_py_tensor_type));
}

static void flip(cr_py_tensor *w)
{
    Py_SET_REFCNT((PyObject *)w, 1);
    w->owns = false;
    cr_py_graph_objects++;
    /* may revive the wrapper at once, when C has dropped its reference meanwhile */
    cr_drop(w->t);
}

static void tensor_dealloc(PyObject *self)
{
    cr_py_tensor *w = wrapper_of(self);
    PyTypeObject *type = Py_TYPE(self);

    if (CR_UNLIKELY(must_outlive(w))) {
        flip(w);
        return;
    }
    PyObject_GC_UnTrack(self);
    if (CR_UNLIKELY(w->weak != NULL))
        PyObject_ClearWeakRefs(self);
    if (CR_UNLIKELY(w->dict != NULL))
        Py_CLEAR(w->dict);
    w->hooks = w->accumulated = NULL;
    if (CR_LIKELY(w->t != NULL)) {
        cr_tensor *t = w->t;
        w->t = NULL;
        t->peer = NULL;
        cr_drop(t);
    }
    if (CR_LIKELY(type == cr_py_tensor_type && free_count < KEEP_FREE))
        free_wrappers[free_count++] = w;
    else
        type->tp_free(self);
    Py_DECREF(type);
}

/* C has dropped its last reference on a tensor that owns its wrapper: the wrapper owns the
 * tensor again. */
static bool revive(cr_tensor *t)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    cr_py_tensor *w = t->peer;

    atomic_store_explicit(&t->count, 1, memory_order_release);
    w->owns = true;
    cr_py_graph_objects--;
    Py_DECREF((PyObject *)w);
    PyGILState_Release(lock);
    return true;
}

/* --- garbage collection --- */

enum { DEPTH = 512 };

static int visit_node(cr_node *node, visitproc visit, void *arg)
{
    cr_node *stack[DEPTH];
    int depth = 0;

    stack[depth++] = node;
    while (depth) {
        cr_node *n = stack[--depth];
        cr_tensor *leaf = cr_node_variable(n);
        if (leaf) { /* the leaf owns the node; the edge's reference is one on the leaf */
            int stop = cr_py_visit_tensor(leaf, visit, arg);
            if (stop)
                return stop;
            continue;
        }
        if (atomic_load_explicit(&n->count, memory_order_relaxed) != 1)
            continue;
        Py_VISIT(cr_py_node_context(n));
        Py_VISIT(cr_py_node_hooks(n, false));
        Py_VISIT(cr_py_node_hooks(n, true));
        for (uint32_t i = 0; i < n->edge_count && depth < DEPTH; i++)
            if (n->edges[i].node)
                stack[depth++] = n->edges[i].node;
    }
    return 0;
}

static int visit_inside(cr_tensor *t, visitproc visit, void *arg)
{
    const cr_grad_meta *meta = t->grad;
    int stop = 0;

    if (!meta)
        return 0;
    if (meta->grad)
        stop = cr_py_visit_tensor(meta->grad, visit, arg);
    if (!stop && meta->grad_fn && cr_py_graph_objects)
        stop = visit_node(meta->grad_fn, visit, arg);
    return stop;
}

int cr_py_visit_tensor(cr_tensor *t, visitproc visit, void *arg)
{
    cr_py_tensor *w = t->peer;

    if (cr_calls_apart || counts(t) != 1 || (w && w->owns))
        return 0;
    if (!w)
        return visit_inside(t, visit, arg);
    Py_VISIT((PyObject *)w);
    return 0;
}

/* True when the wrapper's tensor is the only owner of the node that has its hooks. */
static bool holds_hooks(const cr_tensor *t)
{
    cr_node *n = t->grad->grad_fn;

    return !n || atomic_load_explicit(&n->count, memory_order_relaxed) == 1;
}

void cr_py_clear_hooks(PyObject *dict)
{
    PyObject *done = dict ? PyObject_CallMethod(dict, "clear", NULL) : NULL;

    if (dict && !done)
        PyErr_Clear();
    Py_XDECREF(done);
}

static int tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    cr_py_tensor *w = wrapper_of(self);

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(w->dict);
    if (!w->t || cr_calls_apart || counts(w->t) != 1 || !w->t->grad)
        return 0;
    if (holds_hooks(w->t)) {
        Py_VISIT(w->hooks);
        Py_VISIT(w->accumulated);
    }
    return visit_inside(w->t, visit, arg);
}

static int tensor_clear(PyObject *self)
{
    cr_py_tensor *w = wrapper_of(self);

    Py_CLEAR(w->dict);
    cr_py_clear_hooks(w->hooks);
    cr_py_clear_hooks(w->accumulated);
    return 0;
}

/* --- the type --- */

static PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(cr_py_tensor, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(cr_py_tensor, weak), READONLY, NULL},
    {0}};

static Py_ssize_t tensor_length(PyObject *self)
{
    cr_tensor *t = cr_py_tensor_of(self);

    cr_py_fix_sizes(t);
    if (t->ndim)
        return cr_py_note_untraced("len") < 0 ? -1 : (Py_ssize_t)t->size[0];
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
}

/* id(self), as in torch. */
static Py_hash_t tensor_hash(PyObject *self) { return (Py_hash_t)(uintptr_t)self; }

static const PyType_Slot own_slots[] = {
    {Py_tp_doc, (void *)(uintptr_t) "An n-dimensional array."},
    {Py_tp_new, (void *)cr_py_tensor_new},
    {Py_tp_dealloc, (void *)tensor_dealloc},
    {Py_tp_traverse, (void *)tensor_traverse},
    {Py_tp_clear, (void *)tensor_clear},
    {Py_tp_members, members},
    {Py_tp_getset, cr_py_properties},
    {Py_tp_hash, (void *)tensor_hash},
    {Py_tp_richcompare, (void *)cr_py_richcompare},
    {Py_mp_length, (void *)tensor_length},
    {Py_mp_subscript, (void *)cr_py_subscript},
    {Py_mp_ass_subscript, (void *)cr_py_ass_subscript},
    {Py_bf_getbuffer, (void *)cr_py_getbuffer},
    {Py_bf_releasebuffer, (void *)cr_py_releasebuffer},
};

enum { MAX_SLOTS = 96, MAX_METHODS = 256 };

static void add_slots(PyType_Slot *to, int *n, const PyType_Slot *from, size_t count)
{
    for (size_t i = 0; i < count && from[i].slot; i++) {
        CR_ASSERT(*n < MAX_SLOTS - 2);
        to[(*n)++] = from[i];
    }
}

static void add_methods(PyMethodDef *to, int *n, const PyMethodDef *from)
{
    for (; from->ml_name; from++) {
        CR_ASSERT(*n < MAX_METHODS - 1);
        to[(*n)++] = *from;
    }
}

/* Qualified names of the methods in C, as error messages of torch have them. */
static int name_methods(PyTypeObject *type)
{
    PyObject *name, *method;
    Py_ssize_t at = 0;

    while (PyDict_Next(type->tp_dict, &at, &name, &method)) {
        if (!Py_IS_TYPE(method, &PyMethodDescr_Type))
            continue;
        PyObject *full = PyUnicode_FromFormat("TensorBase.%U", name);
        if (!full)
            return -1;
        Py_XSETREF(((PyDescrObject *)method)->d_qualname, full);
    }
    return 0;
}

int cr_py_tensor_start(PyObject *m)
{
    static PyMethodDef methods[MAX_METHODS];
    PyType_Slot slots[MAX_SLOTS] = {0};
    int slot_count = 0, method_count = 0;

    cr_py_ask_properties(cr_py_properties);
    add_methods(methods, &method_count, cr_py_methods);
    add_methods(methods, &method_count, cr_py_convert_methods);
    add_methods(methods, &method_count, cr_py_numpy_methods);
    add_methods(methods, &method_count, cr_py_dlpack_methods);
    add_methods(methods, &method_count, cr_py_legacy_methods);
    add_methods(methods, &method_count, cr_py_engine_methods);
    add_methods(methods, &method_count, cr_py_make_methods);
    add_slots(slots, &slot_count, own_slots, CR_LEN(own_slots));
    add_slots(slots, &slot_count, cr_py_number_slots, MAX_SLOTS);
    add_slots(slots, &slot_count, cr_py_convert_slots, MAX_SLOTS);
    add_slots(slots, &slot_count, cr_py_method_slots, MAX_SLOTS);
    slots[slot_count] = (PyType_Slot){Py_tp_methods, methods};
    PyType_Spec spec = {.name = cr_py_full_name("Tensor"),
                        .basicsize = sizeof(cr_py_tensor),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                        .slots = slots};
    cr_py_tensor_type = spec.name ? (PyTypeObject *)PyType_FromSpec(&spec) : NULL;
    if (!cr_py_tensor_type || name_methods(cr_py_tensor_type) < 0)
        return -1;
    cr_py_tensor_type->tp_name = "Tensor"; /* the class name in messages */
    cr_peer_revive = revive;
    return PyModule_AddObjectRef(m, "Tensor", (PyObject *)cr_py_tensor_type);
}
