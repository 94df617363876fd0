/* Sizes of exported programs as Python objects: integer expressions over symbols (sym/sym.h).
 *
 * All have one table, so equal polynomials are one node, which is never freed; the
 * interpreter's lock guards it.  Texts of them are Python's (_size_expr.py), which subclasses
 * the type: results have the class of an operand. */
#include "compiled.h"
#include "sym/sym.h"

typedef struct {
    PyObject_HEAD const cr_sym *e;
} size_object;

static PyTypeObject size_type;
static cr_session size_session;
static cr_syms *size_table;

/* --- computing --- */

typedef const cr_sym *(*size_fn)(cr_syms *t, const cr_sym *a, const cr_sym *b);

typedef struct {
    size_fn fn;
    const cr_sym *a, *b;
    const char *name; /* of a symbol, if fn is NULL */
    int64_t integer;
    const cr_sym *made;
} size_job;

/* Sizes of inputs are positive.  Numbers that depend on elements, u and zuf, may be any. */
static void size_compute(cr_session *s, void *context)
{
    size_job *job = context;

    if (!size_table)
        size_table = cr_syms_new(s);
    if (job->fn)
        job->made = job->fn(size_table, job->a, job->b);
    else if (job->name)
        job->made =
            cr_sym_name(size_table, job->name,
                        *job->name == 'u' || *job->name == 'z' ? CR_SYM_LOW : 1, CR_SYM_HIGH);
    else
        job->made = cr_sym_int(size_table, job->integer);
}

static PyObject *size_wrap(PyTypeObject *type, const cr_sym *e)
{
    size_object *made = (size_object *)type->tp_alloc(type, 0);

    if (made)
        made->e = e;
    return (PyObject *)made;
}

static const cr_sym *size_run(size_job *job)
{
    cr_status st = cr_session_run(&size_session, size_compute, job);

    if (!st)
        return job->made;
    cr_py_raise(st);
    return NULL;
}

/* The expression of a size or an int; NULL with an error, *other is set for other objects. */
static const cr_sym *size_of(PyObject *x, bool *other)
{
    size_job job = {0};

    *other = false;
    if (PyObject_TypeCheck(x, &size_type))
        return ((size_object *)x)->e;
    *other = !PyIndex_Check(x);
    if (*other)
        return NULL;
    PyObject *n = PyNumber_Index(x);
    if (!n)
        return NULL;
    job.integer = PyLong_AsLongLong(n);
    Py_DECREF(n);
    return job.integer == -1 && PyErr_Occurred() ? NULL : size_run(&job);
}

static PyObject *size_binary(PyObject *x, PyObject *y, size_fn fn)
{
    PyTypeObject *type = PyObject_TypeCheck(x, &size_type) ? Py_TYPE(x) : Py_TYPE(y);
    size_job job = {.fn = fn};
    bool other;

    job.a = size_of(x, &other);
    if (job.a)
        job.b = size_of(y, &other);
    if (!job.a || !job.b) {
        if (other)
            Py_RETURN_NOTIMPLEMENTED;
        return NULL;
    }
    const cr_sym *e = size_run(&job);
    return e ? size_wrap(type, e) : NULL;
}

static PyObject *size_add(PyObject *x, PyObject *y) { return size_binary(x, y, cr_sym_add); }
static PyObject *size_sub(PyObject *x, PyObject *y) { return size_binary(x, y, cr_sym_sub); }
static PyObject *size_mul(PyObject *x, PyObject *y) { return size_binary(x, y, cr_sym_mul); }

static PyObject *size_neg(PyObject *x)
{
    PyObject *minus = PyLong_FromLong(-1), *made = minus ? size_mul(x, minus) : NULL;

    Py_XDECREF(minus);
    return made;
}

static PyObject *size_power(PyObject *x, PyObject *y, PyObject *modulus)
{
    bool other;
    const cr_sym *n = size_of(y, &other);
    PyObject *made = x;

    if (!n && !other)
        return NULL;
    if (!n || modulus != Py_None || n->kind != CR_SYM_INT || n->integer < 0)
        Py_RETURN_NOTIMPLEMENTED;
    if (!n->integer)
        return PyObject_CallMethod((PyObject *)Py_TYPE(x), "of", "i", 1);
    Py_INCREF(made);
    for (int64_t k = 1; made && k < n->integer; k++) {
        PyObject *next = size_mul(made, x);
        Py_DECREF(made);
        made = next;
    }
    return made;
}

/* --- making --- */

static PyObject *size_from(PyObject *type, PyObject *x)
{
    bool other;

    if (PyObject_TypeCheck(x, &size_type))
        return Py_NewRef(x);
    const cr_sym *e = size_of(x, &other);
    if (other)
        PyErr_Format(PyExc_TypeError, "expected a size or an int, got %s", Py_TYPE(x)->tp_name);
    return e ? size_wrap((PyTypeObject *)type, e) : NULL;
}

static PyObject *size_symbol(PyObject *type, PyObject *name)
{
    size_job job = {.name = PyUnicode_AsUTF8(name)};
    const cr_sym *e = job.name ? size_run(&job) : NULL;

    return e ? size_wrap((PyTypeObject *)type, e) : NULL;
}

static const struct {
    const char *name;
    cr_sym_kind kind;
    size_fn fn;
} size_functions[] = {{"floordiv", CR_SYM_FLOORDIV, cr_sym_floordiv},
                      {"mod", CR_SYM_MOD, cr_sym_mod},
                      {"min", CR_SYM_MIN, cr_sym_min},
                      {"max", CR_SYM_MAX, cr_sym_max},
                      {"div", CR_SYM_FRACTION, cr_sym_fraction}};

static PyObject *size_apply(PyObject *type, PyObject *args)
{
    const char *name;
    PyObject *x, *y, *made = NULL;

    if (!PyArg_ParseTuple(args, "sOO", &name, &x, &y))
        return NULL;
    PyObject *a = size_from(type, x);
    for (size_t i = 0; a && i < CR_LEN(size_functions); i++)
        if (!strcmp(name, size_functions[i].name))
            made = size_binary(a, y, size_functions[i].fn);
    Py_XDECREF(a);
    if (!made && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "no function of sizes: %s", name);
    return made;
}

/* --- reading --- */

/* (function, operands), or the name of a symbol. */
static PyObject *size_atom(PyTypeObject *type, const cr_sym *e)
{
    if (e->kind == CR_SYM_NAME)
        return PyUnicode_FromString(e->name);
    for (size_t i = 0; i < CR_LEN(size_functions); i++)
        if (e->kind == size_functions[i].kind)
            return Py_BuildValue("s(NN)", size_functions[i].name, size_wrap(type, e->args[0]),
                                 size_wrap(type, e->args[1]));
    CR_ASSERT(false);
    return NULL;
}

/* Puts one term into {atoms: coefficient}. */
static int size_put(PyObject *terms, PyTypeObject *type, const cr_sym *e)
{
    const cr_sym *const *atom = e->kind == CR_SYM_MUL ? e->args : &e;
    int count = e->kind == CR_SYM_MUL ? e->count : e->kind != CR_SYM_INT;
    int64_t factor = e->kind == CR_SYM_INT ? e->integer : 1;

    if (e->kind == CR_SYM_MUL && e->args[0]->kind == CR_SYM_INT) {
        factor = e->args[0]->integer;
        atom++;
        count--;
    }
    PyObject *key = PyTuple_New(count), *value = PyLong_FromLongLong(factor);
    int failed = !key || !value;
    for (int i = 0; !failed && i < count; i++) {
        PyObject *one = size_atom(type, atom[i]);
        failed = !one;
        if (one)
            PyTuple_SET_ITEM(key, i, one);
    }
    failed = failed || PyDict_SetItem(terms, key, value);
    Py_XDECREF(key);
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

static PyObject *size_terms(PyObject *self, void *unused)
{
    const cr_sym *e = ((size_object *)self)->e;
    PyObject *terms = PyDict_New();
    int failed = !terms;

    (void)unused;
    if (e->kind == CR_SYM_ADD)
        for (int i = 0; !failed && i < e->count; i++)
            failed = size_put(terms, Py_TYPE(self), e->args[i]);
    else if (!failed && !(e->kind == CR_SYM_INT && !e->integer))
        failed = size_put(terms, Py_TYPE(self), e);
    if (failed)
        Py_CLEAR(terms);
    return terms;
}

static PyObject *size_is_number(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((size_object *)self)->e->kind == CR_SYM_INT);
}

static PyObject *size_is_symbol(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((size_object *)self)->e->kind == CR_SYM_NAME);
}

static PyObject *size_name(PyObject *self, void *unused)
{
    const cr_sym *e = ((size_object *)self)->e;

    (void)unused;
    if (e->kind != CR_SYM_NAME)
        Py_RETURN_NONE;
    return PyUnicode_FromString(e->name);
}

static PyObject *size_value(PyObject *self, void *unused)
{
    const cr_sym *e = ((size_object *)self)->e;

    (void)unused;
    if (e->kind != CR_SYM_INT)
        return PyErr_Format(PyExc_TypeError, "%S is no number", self);
    return PyLong_FromLongLong(e->integer);
}

static PyObject *size_compare(PyObject *x, PyObject *y, int how)
{
    bool other, equal = false;

    if (how != Py_EQ && how != Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    if (PyObject_TypeCheck(y, &size_type) || PyLong_Check(y)) {
        const cr_sym *e = size_of(y, &other);
        if (!e && !PyErr_ExceptionMatches(PyExc_OverflowError))
            return NULL;
        PyErr_Clear(); /* an int that no size is equal to */
        equal = e == ((size_object *)x)->e;
    }
    return PyBool_FromLong(equal == (how == Py_EQ));
}

static Py_hash_t size_hash(PyObject *self)
{
    return _Py_HashPointer((void *)(uintptr_t)((size_object *)self)->e);
}

static PyNumberMethods size_number = {.nb_add = size_add,
                                      .nb_subtract = size_sub,
                                      .nb_multiply = size_mul,
                                      .nb_negative = size_neg,
                                      .nb_power = size_power};
static PyMethodDef size_methods[] = {
    {"of", size_from, METH_O | METH_CLASS, "of(x) -> size: of a size or an int."},
    {"symbol", size_symbol, METH_O | METH_CLASS, "symbol(name) -> size."},
    {"apply", size_apply, METH_VARARGS | METH_CLASS,
     "apply(function, a, b) -> size: floordiv, mod, min, max or div."},
    {0}};
static PyGetSetDef size_getset[] = {
    {"terms", size_terms, NULL,
     "{tuple of atoms: coefficient}; an atom is a name or (function, operands).", NULL},
    {"is_number", size_is_number, NULL, "Whether it has no symbol.", NULL},
    {"is_symbol", size_is_symbol, NULL, "Whether it is one symbol.", NULL},
    {"name", size_name, NULL, "The name of one symbol, else None.", NULL},
    {"value", size_value, NULL, "The number of one without symbols.", NULL},
    {0}};

static PyTypeObject size_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C._SizeExpression",
    .tp_basicsize = sizeof(size_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "An integer expression over symbols.",
    .tp_as_number = &size_number,
    .tp_richcompare = size_compare,
    .tp_hash = size_hash,
    .tp_methods = size_methods,
    .tp_getset = size_getset,
};

int cr_py_size_expression_start(PyObject *m)
{
    return cr_py_add_type(m, "_SizeExpression", &size_type);
}
