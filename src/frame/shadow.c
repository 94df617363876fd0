/* The shadow.
 *
 * An instruction's effect is applied when the next event of its frame shows that it has been
 * executed: then the objects that it pushed are on the value stack.  When the next event is
 * neither the following instruction nor a jump, the instruction raised and a handler runs. */
#include "frame/shadow.h"
#include "frame/facts.h"
#include "frame/names.h"

/* A followed frame: its locals, then its value stack, are the slots from `base` on. */
typedef struct {
    const cr_live_frame *frame;
    PyCodeObject *code; /* borrowed: the frame owns it */
    const cr_code_facts *facts;
    size_t base;
    int at;     /* the instruction in execution, -1 before the first event */
    int hidden; /* it runs in a call of opaque code */
} shadow_frame;

/* What code of a file has called.  The file's name stays: `calls` has the code. */
typedef struct {
    const void *what;
    const PyObject *file;
} shadow_called;

typedef struct {
    PyCodeObject *code;
    int at;
} shadow_place;

#define SHADOW_LIST(type)                                                                      \
    struct {                                                                                   \
        type *item;                                                                            \
        size_t count, room;                                                                    \
    }

/* What the observer knows of the objects of the frames that it follows.
 * Invariant: `watched` is an index of `watch` or -1.  A broken shadow follows nothing more, and
 * its lists stay. */
struct cr_shadow {
    SHADOW_LIST(shadow_frame) frames;
    SHADOW_LIST(const PyObject *) slots;
    SHADOW_LIST(cr_call_seen) calls;
    SHADOW_LIST(shadow_called) identities; /* of the calls, to see each once */
    const PyObject **watch;                /* objects that are looked for */
    size_t watch_count;
    PyObject *folders;      /* of code that may read modules, types and functions in C */
    const PyObject *opaque; /* a tuple of code whose calls are not logged, or NULL */
    PyObject *quiet;        /* the folder of code whose names are not noted, or NULL */
    int watched;            /* the index of the first one found, or -1 */
    shadow_place found;     /* and where */
    PyObject *names;        /* a set: those that C functions got as strings */
    PyObject *codes;      /* a dict: code and globals of followed frames, by their addresses */
    PyObject *asked;      /* a dict: by the holder's address (weak reference, set of names) */
    const char *unnamed;  /* why `names` may lack some, or NULL */
    shadow_place escaped; /* and where */
    int log, broken;      /* broken: no memory; the shadow then follows nothing more */
    cr_shadow_sums sums;
};

/* Room for `more` items. */
static void *shadow_room(cr_shadow *s, void *item, size_t *room, size_t count, size_t more,
                         size_t size)
{
    size_t wanted = *room ? *room : 64;

    while (wanted < count + more)
        wanted *= 2;
    if (wanted == *room)
        return item;
    void *grown = PyMem_RawRealloc(item, wanted * size);
    if (!grown) {
        s->broken = 1;
        return item;
    }
    *room = wanted;
    return grown;
}

#define SHADOW_ROOM(s, list, more)                                                             \
    ((s)->list.item = shadow_room(s, (s)->list.item, &(s)->list.room, (s)->list.count, more,   \
                                  sizeof *(s)->list.item),                                     \
     !(s)->broken)

/* --- watched objects --- */

/* Import statements pass __import__ to frames of the import system, which only get modules. */
static int shadow_imports(PyCodeObject *code)
{
    const char *file = PyUnicode_AsUTF8(code->co_filename);

    if (!file)
        PyErr_Clear();
    return file && !strncmp(file, "<frozen importlib", strlen("<frozen importlib"));
}

/* Installed packages are in a folder of the standard library. */
static int shadow_is_installed(PyCodeObject *code)
{
    const char *file = PyUnicode_AsUTF8(code->co_filename);

    if (!file)
        PyErr_Clear();
    return file && (strstr(file, "/site-packages/") || strstr(file, "/dist-packages/"));
}

/* Whether the code is in one of the folders. */
static int shadow_is_trusted(const cr_shadow *s, PyCodeObject *code)
{
    Py_ssize_t count = s->folders ? PyTuple_GET_SIZE(s->folders) : 0;

    for (Py_ssize_t i = 0; i < count && (!i || !shadow_is_installed(code)); i++)
        if (PyUnicode_Tailmatch(code->co_filename, PyTuple_GET_ITEM(s->folders, i), 0,
                                PY_SSIZE_T_MAX, -1) > 0)
            return 1;
    return 0;
}

static int shadow_may_read(const cr_shadow *s, PyCodeObject *code, const PyObject *x)
{
    if (shadow_imports(code))
        return 1;
    return (PyModule_Check(x) || PyType_Check(x) || PyCFunction_Check(x)) &&
           shadow_is_trusted(s, code);
}

/* The call reads attributes of which no name is known. */
static void shadow_unnamed(cr_shadow *s, PyCodeObject *code, int at, const char *why)
{
    if (s->unnamed)
        return;
    s->unnamed = why;
    s->escaped.code = (PyCodeObject *)Py_NewRef((PyObject *)code);
    s->escaped.at = at < 0 ? 0 : at;
}

static void shadow_space_is_read(cr_shadow *s, PyCodeObject *code, int at)
{
    if (!s->unnamed && !shadow_imports(code) && !shadow_is_trusted(s, code))
        shadow_unnamed(s, code, at, "it reads the namespace of a class, module or function");
}

/* Whether x is a proxy of a plain dict, as that of a class.  CPython exports no access to
 * it. */
static int shadow_is_class_dict(const PyObject *x)
{
    return Py_IS_TYPE(x, &PyDictProxy_Type) &&
           PyDict_CheckExact(((PyObject *const *)(x + 1))[0]);
}

static void shadow_look(cr_shadow *s, PyCodeObject *code, int at, const PyObject *x)
{
    if (x && shadow_is_class_dict(x))
        shadow_space_is_read(s, code, at);
    if (s->watched >= 0 || !x)
        return;
    for (size_t i = 0; i < s->watch_count; i++)
        if (s->watch[i] == x && !shadow_may_read(s, code, x)) {
            s->watched = (int)i;
            s->found.code = (PyCodeObject *)Py_NewRef((PyObject *)code);
            s->found.at = at < 0 ? 0 : at;
            return;
        }
}

int cr_shadow_watch(cr_shadow *s, PyObject *const *object, size_t count, PyObject *folders,
                    const PyObject *opaque, PyObject *quiet)
{
    const PyObject **watch = PyMem_RawMalloc((count + 1) * sizeof *watch);

    if (!watch)
        return -1;
    for (size_t i = 0; i < count; i++)
        watch[i] = object[i];
    PyMem_RawFree(s->watch);
    s->watch = watch;
    s->watch_count = count;
    s->folders = folders;
    s->opaque = opaque;
    s->quiet = quiet;
    return 0;
}

int cr_shadow_watched(const cr_shadow *s, PyCodeObject **code, int *at)
{
    *code = s->found.code;
    *at = s->found.at;
    return s->watched;
}

/* --- frames --- */

static const PyObject **shadow_locals(const cr_shadow *s, const shadow_frame *f)
{
    return s->slots.item + f->base;
}

static const PyObject **shadow_stack(const cr_shadow *s, const shadow_frame *f)
{
    return shadow_locals(s, f) + f->code->co_nlocalsplus;
}

static shadow_frame *shadow_top(const cr_shadow *s)
{
    return s->frames.count ? &s->frames.item[s->frames.count - 1] : NULL;
}

static void shadow_pop(cr_shadow *s)
{
    s->slots.count = s->frames.item[--s->frames.count].base;
}

static shadow_frame *shadow_push(cr_shadow *s, const cr_live_frame *frame)
{
    PyCodeObject *code = cr_frame_code(frame);
    const cr_code_facts *facts = cr_code_facts_of(code);
    size_t size = (size_t)(code->co_nlocalsplus + code->co_stacksize);

    if (!facts) {
        PyErr_Clear();
        s->broken = 1;
    }
    if (s->broken || !SHADOW_ROOM(s, frames, 1) || !SHADOW_ROOM(s, slots, size))
        return NULL;
    s->frames.item[s->frames.count++] =
        (shadow_frame){frame, code, facts, s->slots.count, -1, 0};
    memset(s->slots.item + s->slots.count, 0, size * sizeof *s->slots.item);
    for (int i = 0; i < code->co_nlocalsplus; i++) {
        s->slots.item[s->slots.count + (size_t)i] = cr_frame_locals(frame)[i];
        shadow_look(s, code, 0, cr_frame_locals(frame)[i]);
    }
    s->slots.count += size;
    return shadow_top(s);
}

/* The shadow of a frame.  A frame that was running before the observation began has none: its
 * instructions are not part of what is observed. */
static shadow_frame *shadow_of(cr_shadow *s, const cr_live_frame *frame)
{
    size_t n = s->frames.count;

    while (n && (s->frames.item[n - 1].frame != frame ||
                 s->frames.item[n - 1].code != cr_frame_code(frame)))
        n--;
    if (!n)
        return NULL;
    while (s->frames.count > n)
        shadow_pop(s);
    return shadow_top(s);
}

static void shadow_note_code(cr_shadow *s, const cr_live_frame *frame)
{
    PyObject *code = (PyObject *)cr_frame_code(frame);
    PyObject *globals = cr_frame_globals(frame);
    PyObject *key = Py_BuildValue("NN", PyLong_FromVoidPtr(code), PyLong_FromVoidPtr(globals));
    PyObject *pair = PyTuple_Pack(2, code, globals);

    if (!key || !pair || PyDict_SetItem(s->codes, key, pair) < 0) {
        PyErr_Clear();
        s->broken = 1;
    }
    Py_XDECREF(pair);
    Py_XDECREF(key);
}

static int shadow_is_opaque(const cr_shadow *s, const PyCodeObject *code)
{
    Py_ssize_t i = s->opaque ? PyTuple_GET_SIZE(s->opaque) : 0;

    while (i-- > 0)
        if (PyTuple_GET_ITEM(s->opaque, i) == (const PyObject *)code)
            return 1;
    return 0;
}

static void shadow_enter(void *context, const cr_live_frame *frame)
{
    cr_shadow *s = context;
    shadow_frame *f = s->broken ? NULL : shadow_push(s, frame);

    if (!f)
        return;
    f->hidden = (s->frames.count > 1 && f[-1].hidden) || shadow_is_opaque(s, f->code);
    if (s->log && !f->hidden)
        shadow_note_code(s, frame);
}

static void shadow_leave(void *context, const cr_live_frame *frame)
{
    cr_shadow *s = context;

    for (size_t n = s->frames.count; n; n--)
        if (s->frames.item[n - 1].frame == frame) {
            while (s->frames.count >= n)
                shadow_pop(s);
            return;
        }
}

/* --- instructions --- */

/* An instruction that has been executed: its frame, and the stacks before (shadow) and
 * after. */
typedef struct {
    shadow_frame *frame;
    const cr_code_step *step;
    const PyObject **locals, **stack; /* shadow */
    PyObject *const *real;            /* the value stack now */
    int before, kept;                 /* depths: before the instruction, and after its pops */
} shadow_step;

static const PyObject *shadow_taken(const shadow_step *x, int i)
{
    return x->before >= i ? x->stack[x->before - i] : NULL;
}

static void shadow_compare(cr_shadow *s, const shadow_step *x, int i, const PyObject *expected)
{
    s->sums.compared++;
    if (x->real[i] == expected)
        return;
    if (!s->sums.differences++)
        snprintf(s->sums.first, sizeof s->sums.first, "%.60s: %d %s %d, entry %d of %d",
                 PyUnicode_AsUTF8(x->frame->code->co_qualname), x->frame->at,
                 cr_code_step_name(x->step), x->step->arg, i, x->before);
}

/* Entry `i` is `expected`, unless another object is there. */
static void shadow_expect(cr_shadow *s, const shadow_step *x, int i, const PyObject *expected)
{
    shadow_compare(s, x, i, expected);
    x->stack[i] = x->real[i];
}

/* Entry `i` is a new object. */
static void shadow_found(cr_shadow *s, const shadow_step *x, int i)
{
    shadow_look(s, x->frame->code, x->frame->at, x->real[i]);
    x->stack[i] = x->real[i];
}

static const PyObject *shadow_local(const shadow_step *x, int i)
{
    return i < x->frame->code->co_nlocalsplus ? x->locals[i] : NULL;
}

static void shadow_set_local(const shadow_step *x, int i, const PyObject *value)
{
    if (i < x->frame->code->co_nlocalsplus)
        x->locals[i] = value;
}

static void shadow_swap(cr_shadow *s, const shadow_step *x)
{
    int top = x->before - 1;
    const PyObject *a = x->stack[top], *b = x->stack[x->kept];

    for (int i = x->kept + 1; i < top; i++)
        shadow_expect(s, x, i, x->stack[i]);
    shadow_expect(s, x, top, b);
    shadow_expect(s, x, x->kept, a);
}

static void shadow_pushed(cr_shadow *s, const shadow_step *x)
{
    for (int i = 0; i < cr_code_step_pushes(x->step); i++)
        shadow_found(s, x, x->kept + i);
}

static void shadow_locals_flow(cr_shadow *s, const shadow_step *x)
{
    int a = x->step->arg, high = a >> 4, low = a & 15;

    switch ((cr_code_flow)x->step->flow) {
    case FLOW_LOCAL: shadow_expect(s, x, x->kept, shadow_local(x, a)); break;
    case FLOW_LOCAL_CLEAR:
        shadow_expect(s, x, x->kept, shadow_local(x, a));
        shadow_set_local(x, a, NULL);
        break;
    case FLOW_LOCAL_LOCAL:
        shadow_expect(s, x, x->kept, shadow_local(x, high));
        shadow_expect(s, x, x->kept + 1, shadow_local(x, low));
        break;
    case FLOW_SET_LOCAL: shadow_set_local(x, a, shadow_taken(x, 1)); break;
    case FLOW_SET_LOCAL_LOCAL:
        shadow_set_local(x, high, shadow_taken(x, 1));
        shadow_expect(s, x, x->kept, shadow_local(x, low));
        break;
    case FLOW_SET_LOCAL_SET_LOCAL:
        shadow_set_local(x, high, shadow_taken(x, 1));
        shadow_set_local(x, low, shadow_taken(x, 2));
        break;
    case FLOW_MAKE_CELL: shadow_set_local(x, a, cr_frame_locals(x->frame->frame)[a]); break;
    default: /* FLOW_DELETE_LOCAL */ shadow_set_local(x, a, NULL);
    }
}

static void shadow_flow(cr_shadow *s, const shadow_step *x)
{
    switch ((cr_code_flow)x->step->flow) {
    case FLOW_COPY: shadow_expect(s, x, x->kept, shadow_taken(x, x->step->arg)); break;
    case FLOW_SWAP: shadow_swap(s, x); break;
    case FLOW_CONST:
        shadow_expect(s, x, x->kept, PyTuple_GET_ITEM(x->frame->code->co_consts, x->step->arg));
        break;
    case FLOW_LOCAL:
    case FLOW_LOCAL_CLEAR:
    case FLOW_LOCAL_LOCAL:
    case FLOW_SET_LOCAL:
    case FLOW_SET_LOCAL_LOCAL:
    case FLOW_SET_LOCAL_SET_LOCAL:
    case FLOW_MAKE_CELL:
    case FLOW_DELETE_LOCAL: shadow_locals_flow(s, x); break;
    case FLOW_PRECALL:
        for (int i = x->kept; i < x->before; i++)
            shadow_found(s, x, i);
        break;
    default: shadow_pushed(s, x);
    }
}

/* Entries that the instruction did not touch are as before it. */
static void shadow_keep(cr_shadow *s, const shadow_step *x, int depth)
{
    for (int i = 0; i < depth; i++)
        shadow_expect(s, x, i, x->stack[i]);
}

/* The depth up to which entries are as before a jump or an error: a handler's error and
 * instruction number are new. */
static int shadow_unwound(const shadow_step *x, cr_code_way way, int depth)
{
    int kept = way == CR_CODE_JUMP ? depth : depth - 2;

    return kept < 0 ? 0 : kept < x->kept ? kept : x->kept;
}

/* Applies the instruction in execution; `at` is executed next. */
static void shadow_apply(cr_shadow *s, shadow_frame *f, int at)
{
    const cr_code_step *step = &f->facts->step[f->at], *now = &f->facts->step[at];
    shadow_step x = {f,
                     step,
                     shadow_locals(s, f),
                     shadow_stack(s, f),
                     cr_frame_stack(f->frame),
                     step->depth,
                     step->depth - cr_code_step_pops(step)};

    cr_code_way way = cr_code_step_way(step, at);

    if (way == CR_CODE_NEXT) {
        shadow_keep(s, &x, x.kept);
        shadow_flow(s, &x);
        return;
    }
    int kept = shadow_unwound(&x, way, now->depth);
    shadow_keep(s, &x, kept);
    for (int i = kept; i < now->depth; i++)
        shadow_found(s, &x, i);
}

/* The first event of a frame: a generator may have objects on its stack. */
static void shadow_begin(cr_shadow *s, const shadow_frame *f, int at)
{
    for (int i = 0; i < f->facts->step[at].depth; i++) {
        shadow_stack(s, f)[i] = cr_frame_stack(f->frame)[i];
        shadow_look(s, f->code, at, cr_frame_stack(f->frame)[i]);
    }
}

/* Whether x is a special method in C bound to an object, such as None.__str__.  3.13 does not
 * export this type. */
static int shadow_is_bound_slot(PyObject *x)
{
    static PyTypeObject *type; /* static in CPython: never freed */

    if (!type) {
        PyObject *one = PyObject_GetAttrString(Py_None, "__str__");
        type = one ? Py_TYPE(one) : NULL;
        Py_XDECREF(one);
        PyErr_Clear();
    }
    return Py_TYPE(x) == type;
}

/* --- calls of C functions --- */

/* Whether this is the first time that the file of `f` calls `what`. */
static int shadow_is_new(cr_shadow *s, const shadow_frame *f, const void *what)
{
    const shadow_called new = {what, f->code->co_filename};

    for (size_t i = 0; i < s->identities.count; i++)
        if (s->identities.item[i].what == what && s->identities.item[i].file == new.file)
            return 0;
    if (!SHADOW_ROOM(s, identities, 1) || !SHADOW_ROOM(s, calls, 1))
        return 0;
    s->identities.item[s->identities.count++] = new;
    return 1;
}

static void shadow_note_call(cr_shadow *s, const shadow_frame *f, int at, char kind,
                             PyObject *object, PyObject *owner)
{
    s->calls.item[s->calls.count++] =
        (cr_call_seen){kind, Py_XNewRef(object), Py_XNewRef(owner),
                       (PyCodeObject *)Py_NewRef((PyObject *)f->code), at};
}

/* A function of a module, or bound to an object: functions of two objects of a type are one. */
static void shadow_call_function(cr_shadow *s, const shadow_frame *f, int at, PyObject *x)
{
    const PyMethodDef *method = ((PyCFunctionObject *)x)->m_ml;
    PyObject *self = PyCFunction_GET_SELF(x), *name;

    if (!shadow_is_new(s, f, method))
        return;
    name = PyUnicode_FromString(method->ml_name);
    if (!name)
        s->broken = 1;
    PyErr_Clear();
    PyObject *owner = !self || PyModule_Check(self) ? ((PyCFunctionObject *)x)->m_module
                      : PyType_Check(self)          ? self
                                                    : (PyObject *)Py_TYPE(self);
    shadow_note_call(s, f, at, 'f', name, owner);
    Py_XDECREF(name);
}

static int shadow_is_descriptor(const PyObject *x)
{
    return Py_TYPE(x) == &PyMethodDescr_Type || Py_TYPE(x) == &PyWrapperDescr_Type ||
           Py_TYPE(x) == &PyClassMethodDescr_Type;
}

/* The descriptor of a bound special method in C, borrowed, or `x` itself. */
static PyObject *shadow_unbound(PyObject *x)
{
    PyObject *type = PyObject_GetAttrString(x, "__objclass__");
    PyObject *name = type ? PyObject_GetAttrString(x, "__name__") : NULL;
    PyObject *dict =
        name && PyType_Check(type) ? cr_frame_type_dict((PyTypeObject *)type) : NULL;
    PyObject *found = dict ? PyDict_GetItem(dict, name) : NULL;

    PyErr_Clear();
    Py_XDECREF(dict);
    Py_XDECREF(name);
    Py_XDECREF(type);
    return found ? found : x;
}

static void shadow_callable(cr_shadow *s, const shadow_frame *f, int at, PyObject *x)
{
    while (x && PyMethod_Check(x))
        x = PyMethod_GET_FUNCTION(x);
    if (!x || PyFunction_Check(x))
        return; /* its frame is observed */
    if (shadow_is_bound_slot(x))
        x = shadow_unbound(x);
    if (PyCFunction_Check(x))
        shadow_call_function(s, f, at, x);
    else if (shadow_is_descriptor(x) && shadow_is_new(s, f, x))
        shadow_note_call(s, f, at, 'd', x, NULL);
    else if (PyType_Check(x) && shadow_is_new(s, f, x))
        shadow_note_call(s, f, at, 't', x, NULL);
    else if (!shadow_is_descriptor(x) && !PyType_Check(x) && shadow_is_new(s, f, Py_TYPE(x)))
        shadow_note_call(s, f, at, 'o', (PyObject *)Py_TYPE(x), NULL);
}

static void shadow_text_of(cr_shadow *s, const shadow_frame *f, int at, PyObject *x)
{
    if (!x || PyUnicode_CheckExact(x) || PyLong_CheckExact(x) || PyFloat_CheckExact(x) ||
        PyBool_Check(x) || x == Py_None)
        return;
    if (shadow_is_new(s, f, Py_TYPE(x)))
        shadow_note_call(s, f, at, 'o', (PyObject *)Py_TYPE(x), NULL);
}

/* --- names that the program asks for --- */

/* The names that were asked of `holder`, borrowed; NULL without memory. */
static PyObject *shadow_asked_of(cr_shadow *s, PyObject *holder)
{
    PyObject *number = PyLong_FromVoidPtr(holder), *ref, *entry, *names;

    entry = number ? PyDict_GetItem(s->asked, number) : NULL;
    if (!entry || PyWeakref_GetObject(PyTuple_GET_ITEM(entry, 0)) != holder) {
        ref = PyWeakref_NewRef(holder, NULL);
        names = PySet_New(NULL);
        entry = ref && names ? PyTuple_Pack(2, ref, names) : NULL;
        if (!number || !entry || PyDict_SetItem(s->asked, number, entry) < 0)
            s->broken = 1;
        Py_XDECREF(entry); /* the dict's */
        Py_XDECREF(names);
        Py_XDECREF(ref);
    }
    Py_XDECREF(number);
    return s->broken ? NULL : PyTuple_GET_ITEM(entry, 1);
}

static void shadow_ask_of(cr_shadow *s, PyObject *holder, PyObject *names)
{
    PyObject *known = shadow_asked_of(s, holder);

    if (!known || cr_names_add(known, names) < 0)
        s->broken = 1;
    PyErr_Clear();
}

/* The class in which an attribute of `super()` is looked up, or of any other object. */
static PyObject *shadow_class_of(PyObject *x)
{
    PyObject *of =
        Py_IS_TYPE(x, &PySuper_Type) ? PyObject_GetAttrString(x, "__self_class__") : NULL;

    PyErr_Clear();
    Py_XDECREF(of); /* `x` has another reference */
    return of && PyType_Check(of) ? of : (PyObject *)Py_TYPE(x);
}

/* Code of `f` looks up `names`, a str or a tuple or list of some, in an object.  Functions,
 * classes and modules are noted themselves, other objects by their classes. */
static void shadow_ask(cr_shadow *s, const shadow_frame *f, PyObject *holder, PyObject *names)
{
    PyObject *type;

    if (s->quiet &&
        PyUnicode_Tailmatch(f->code->co_filename, s->quiet, 0, PY_SSIZE_T_MAX, -1) > 0)
        return;
    while (PyMethod_Check(holder))
        holder = PyMethod_GET_FUNCTION(holder);
    type = shadow_class_of(holder);
    if (PyFunction_Check(holder) || PyType_Check(holder) ||
        (PyModule_Check(holder) && !shadow_is_trusted(s, f->code)))
        shadow_ask_of(s, holder, names);
    if (PyType_HasFeature((PyTypeObject *)type, Py_TPFLAGS_HEAPTYPE))
        shadow_ask_of(s, type, names);
}

/* --- names that C functions read --- */

/* Modules and functions have namespaces that no guard knows; a class gives a proxy, which
 * shadow_look() sees.  `holder` may be NULL: not known. */
static void shadow_space_of(cr_shadow *s, const shadow_frame *f, int at, const PyObject *holder,
                            PyObject *name)
{
    static const char *const spaces[] = {"__dict__", "__globals__", "__builtins__"};

    if (holder && !PyModule_Check(holder) && !PyFunction_Check(holder))
        return;
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (!PyUnicode_CompareWithASCIIString(name, spaces[i]))
            shadow_space_is_read(s, f->code, at);
}

/* --- objects of which the program asks whether they are one --- */

static bool shadow_is_plain(PyObject *x)
{
    return PyLong_CheckExact(x) || PyFloat_CheckExact(x) || PyUnicode_CheckExact(x) ||
           PyBytes_CheckExact(x) || PyComplex_CheckExact(x);
}

/* Numbers and strings that are equal may be one object in this call and two in the next. */
static void shadow_identity(cr_shadow *s, const shadow_frame *f, int at, PyObject *a,
                            PyObject *b)
{
    bool alike = shadow_is_plain(a) && Py_TYPE(a) == Py_TYPE(b);
    int equal = alike ? PyObject_RichCompareBool(a, b, Py_EQ) : 0;

    PyErr_Clear();
    if (equal)
        shadow_unnamed(s, f->code, at, "it asks whether two numbers or strings are one object");
}

/* A call of a function in C.  `reads`: it reads attributes of `holder`, if that is known, by
 * the strings that it gets. */
typedef struct {
    cr_shadow *s;
    const shadow_frame *f;
    int at, reads;
    PyObject *holder;
} shadow_c_call;

static void shadow_add_names(const shadow_c_call *c, PyObject *x)
{
    if (cr_names_add(c->s->names, x) < 0) {
        PyErr_Clear();
        c->s->broken = 1;
    }
    if (c->holder)
        shadow_ask(c->s, c->f, c->holder, x);
    if (PyUnicode_Check(x))
        shadow_space_of(c->s, c->f, c->at, c->holder, x);
}

static void shadow_argument(const shadow_c_call *c, PyObject *x)
{
    if (x && c->reads)
        shadow_add_names(c, x);
    if (x && cr_names_are_read_by(x))
        shadow_unnamed(c->s, c->f->code, c->at,
                       "a function in C reads attributes by names that no call shows");
}

/* The items of a tuple, list or dict of arguments.  Other iterables make theirs in the call. */
static void shadow_spread(const shadow_c_call *c, PyObject *x)
{
    PyObject *key, *value;
    Py_ssize_t place = 0;

    if (x && (PyTuple_Check(x) || PyList_Check(x)))
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); i++)
            shadow_argument(c, PySequence_Fast_GET_ITEM(x, i));
    else if (x && PyDict_Check(x))
        while (PyDict_Next(x, &place, &key, &value))
            shadow_argument(c, value);
    else if (x && c->reads)
        shadow_unnamed(c->s, c->f->code, c->at,
                       "it reads attributes by names that it computes in a call");
}

/* The object whose attributes a call of `f` reads: the one to which it is bound, or the first
 * argument; borrowed. */
static PyObject *shadow_holder(PyObject *f, PyObject *first)
{
    PyObject *bound = shadow_is_bound_slot(f) ? PyObject_GetAttrString(f, "__self__") : NULL;

    PyErr_Clear();
    Py_XDECREF(bound); /* the method has another reference */
    return bound ? bound : PyType_Check(f) ? NULL : first;
}

/* The first of the arguments that a call spreads, or NULL. */
static PyObject *shadow_first(PyObject *x)
{
    return (PyTuple_Check(x) || PyList_Check(x)) && PySequence_Fast_GET_SIZE(x)
               ? PySequence_Fast_GET_ITEM(x, 0)
               : NULL;
}

static void shadow_call_names(cr_shadow *s, const shadow_frame *f, int at, int base)
{
    const cr_code_step *step = &f->facts->step[at];
    PyObject *const *real = cr_frame_stack(f->frame);
    PyObject *callable = real[base] ? real[base] : real[base + 1];
    int first = base + 2 - (callable == real[base]), spread = step->flow == FLOW_CALL_SPREAD;
    shadow_c_call c = {s, f, at, 0, NULL};

    while (callable && PyMethod_Check(callable))
        callable = PyMethod_GET_FUNCTION(callable);
    if (!callable || PyFunction_Check(callable))
        return;                                   /* the calls of its frame are seen */
    first += first < step->depth && !real[first]; /* 3.13 has NULL before the arguments */
    c.reads = cr_names_are_read_by(callable);
    if (c.reads && first < step->depth && real[first])
        c.holder = shadow_holder(callable, spread ? shadow_first(real[first]) : real[first]);
    if (PyType_Check(callable) && c.reads) /* its object reads them */
        shadow_unnamed(s, f->code, at, "it reads attributes by an object in C");
    if (c.reads && PyCFunction_Check(callable)) /* the text of a bound format() */
        shadow_argument(&c, PyCFunction_GET_SELF(callable));
    for (int i = first; i < step->depth; i++)
        if (spread)
            shadow_spread(&c, real[i]);
        else
            shadow_argument(&c, real[i]);
}

/* real[]: the subject, the class and the names of a class pattern */
static void shadow_pattern_names(cr_shadow *s, const shadow_frame *f, PyObject *const *real)
{
    PyObject *names = PySet_New(NULL), *listed = NULL;

    if (names && cr_names_add_pattern(names, real[1], real[2]) == 0)
        listed = PySequence_List(names);
    if (!listed || cr_names_add(s->names, listed) < 0)
        s->broken = 1;
    else
        shadow_ask(s, f, real[0], listed);
    PyErr_Clear();
    Py_XDECREF(listed);
    Py_XDECREF(names);
}

/* The name that an instruction looks up in an object, or NULL; the object is at *holder. */
static PyObject *shadow_asked_name(const shadow_frame *f, const cr_code_step *step,
                                   PyObject *const *top, PyObject **holder)
{
    int shift = 0;

    *holder = top[0];
    switch ((cr_code_flow)step->flow) {
    case FLOW_ATTRIBUTE:
        shift = PY_VERSION_HEX >= 0x030c0000 && strcmp(cr_code_step_name(step), "LOAD_METHOD");
        break;
    case FLOW_SUPER_ATTRIBUTE: shift = 2; break;
    case FLOW_SET_ATTRIBUTE:
    case FLOW_DELETE_ATTRIBUTE:
    case FLOW_IMPORT_FROM: break;
    default: return NULL;
    }
    return PyTuple_GET_ITEM(f->code->co_names, step->arg >> shift);
}

/* Attributes and items that an instruction is about to read. */
static void shadow_reads(cr_shadow *s, const shadow_frame *f, int at)
{
    const cr_code_step *step = &f->facts->step[at];
    PyObject *const *top = cr_frame_stack(f->frame) + step->depth - 1;
    PyObject *holder, *name = shadow_asked_name(f, step, top, &holder);

    if (name)
        shadow_ask(s, f, holder, name);
    if (step->flow == FLOW_ITEM && PyUnicode_Check(top[0]) && !PyDict_Check(top[-1]))
        shadow_add_names(&(shadow_c_call){s, f, at, 1, top[-1]}, top[0]);
    else if (step->flow == FLOW_IDENTITY)
        shadow_identity(s, f, at, top[-1], top[0]);
    else if (step->flow == FLOW_ATTRIBUTE)
        shadow_space_of(s, f, at, holder, name);
}

static void shadow_import(cr_shadow *s, const shadow_frame *f, int at)
{
    const cr_code_step *step = &f->facts->step[at];
    PyObject *package = PyDict_GetItemString(cr_frame_globals(f->frame), "__package__");
    PyObject *level = cr_frame_stack(f->frame)[step->depth - 2], *found;

    if (!shadow_is_new(s, f, step))
        return;
    found = PyTuple_Pack(3, PyTuple_GET_ITEM(f->code->co_names, step->arg), level,
                         package ? package : Py_None);
    if (found)
        shadow_note_call(s, f, at, 'i', found, NULL);
    else
        s->broken = 1;
    PyErr_Clear();
    Py_XDECREF(found);
}

/* Notes the C function that the instruction is about to call. */
static void shadow_calls(cr_shadow *s, const shadow_frame *f, int at)
{
    const cr_code_step *step = &f->facts->step[at];
    int base = step->depth - cr_code_step_pops(step);
    PyObject *const *real = cr_frame_stack(f->frame), *spread;

    if (base < 0)
        return;
    if (step->flow == FLOW_FORMAT) {
        shadow_text_of(s, f, at, real[base]);
        return;
    }
    if (step->flow == FLOW_MATCH_CLASS) {
        shadow_pattern_names(s, f, real + base);
        return;
    }
    if (step->flow == FLOW_IMPORT) {
        shadow_import(s, f, at);
        return;
    }
    shadow_callable(s, f, at, real[base] ? real[base] : real[base + 1]);
    shadow_call_names(s, f, at, base);
    spread = step->flow == FLOW_CALL_SPREAD ? real[step->depth - 1 - (step->arg & 1)] : NULL;
    for (Py_ssize_t i = 0; spread && (PyTuple_Check(spread) || PyList_Check(spread)) &&
                           i < PySequence_Fast_GET_SIZE(spread);
         i++)
        shadow_look(s, f->code, at, PySequence_Fast_GET_ITEM(spread, i));
}

/* Counts an instruction whose depth is unknown or, where CPython stores it, another one. */
static void shadow_check_depth(cr_shadow *s, const shadow_frame *f, int at)
{
    int real = cr_frame_depth(f->frame), depth = f->facts->step[at].depth;

    if (depth >= 0 && (real < 0 || real == depth))
        return;
    if (!s->sums.differences++)
        snprintf(s->sums.first, sizeof s->sums.first, "%.60s: %d %s, depth %d is %d",
                 PyUnicode_AsUTF8(f->code->co_qualname), at,
                 cr_code_step_name(&f->facts->step[at]), depth, real);
}

static void shadow_instruction(void *context, const cr_live_frame *frame, int at)
{
    cr_shadow *s = context;
    shadow_frame *f = s->broken ? NULL : shadow_of(s, frame);

    s->sums.events++;
    if (!f || at >= f->facts->units)
        return;
    /* the second event of one instruction with a prefix */
    if (f->at >= 0 && f->at < at && at < f->facts->step[f->at].next)
        return;
    shadow_check_depth(s, f, at);
    if (f->at < 0)
        shadow_begin(s, f, at);
    else
        shadow_apply(s, f, at);
    f->at = at;
    if (s->log && !f->hidden && f->facts->step[at].flow >= FLOW_CALL)
        shadow_calls(s, f, at);
    else if (s->log && !f->hidden && f->facts->step[at].depth > 0)
        shadow_reads(s, f, at);
}

cr_observer cr_shadow_observer(cr_shadow *s)
{
    return (cr_observer){shadow_enter, shadow_instruction, shadow_leave, s};
}

/* --- life, and what is known --- */

cr_shadow *cr_shadow_new(int log)
{
    cr_shadow *s = PyMem_RawCalloc(1, sizeof *s);

    if (!s)
        return (cr_shadow *)PyErr_NoMemory();
    s->log = log;
    s->watched = -1;
    s->names = PySet_New(NULL);
    s->codes = PyDict_New();
    s->asked = PyDict_New();
    if (!s->names || !s->codes || !s->asked) {
        cr_shadow_drop(s);
        return (cr_shadow *)PyErr_NoMemory();
    }
    return s;
}

void cr_shadow_drop(cr_shadow *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->calls.count; i++) {
        Py_XDECREF(s->calls.item[i].object);
        Py_XDECREF(s->calls.item[i].owner);
        Py_DECREF(s->calls.item[i].code);
    }
    Py_XDECREF((PyObject *)s->found.code);
    Py_XDECREF((PyObject *)s->escaped.code);
    Py_XDECREF(s->names);
    Py_XDECREF(s->codes);
    Py_XDECREF(s->asked);
    PyMem_RawFree(s->calls.item);
    PyMem_RawFree(s->identities.item);
    PyMem_RawFree(s->watch);
    PyMem_RawFree(s->frames.item);
    PyMem_RawFree(s->slots.item);
    PyMem_RawFree(s);
}

const cr_shadow_sums *cr_shadow_sums_of(const cr_shadow *s) { return &s->sums; }

const cr_call_seen *cr_shadow_calls(const cr_shadow *s, size_t *count)
{
    *count = s->calls.count;
    return s->calls.item;
}

PyObject *cr_shadow_names(const cr_shadow *s) { return s->names; }

PyObject *cr_shadow_codes(const cr_shadow *s) { return PyDict_Values(s->codes); }

PyObject *cr_shadow_asked(const cr_shadow *s) { return PyDict_Values(s->asked); }

const char *cr_shadow_unnamed(const cr_shadow *s, PyCodeObject **code, int *at)
{
    *code = s->escaped.code;
    *at = s->escaped.at;
    return s->broken ? "there was no memory to observe it" : s->unnamed;
}

PyCodeObject *cr_shadow_place(const cr_shadow *s, PyObject *folder, int *at)
{
    for (size_t n = s->frames.count; n; n--) {
        const shadow_frame *f = &s->frames.item[n - 1];
        if (f->at >= 0 &&
            !PyUnicode_Tailmatch(f->code->co_filename, folder, 0, PY_SSIZE_T_MAX, -1)) {
            *at = f->at;
            return f->code;
        }
    }
    return NULL;
}
