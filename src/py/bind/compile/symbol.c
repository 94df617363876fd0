/* Symbols: numbers of a recording as Python objects (graph/number.h).
 *
 * Arithmetic with a Symbol gives a Symbol.  A comparison answers for the present value and adds
 * a guard.  Reading the value itself (range, format, math) fixes it: the recording then serves
 * only calls with this value.  isinstance(x, int) is true, because __class__ is int or
 * float.  Symbols that the program still has when its recording ends become numbers in place:
 * their memory is large enough for an int or a float. */
#include "py/bind/compile/compiled.h"
#include <math.h>

typedef struct symbol {
    PyObject_HEAD uint64_t serial; /* of its recorder */
    struct symbol *before,
        *after; /* in the list of all symbols, which the interpreter's lock guards */
    int k;
    cr_scalar value;
} symbol;

PyTypeObject cr_py_symbol_type;
static symbol *all_symbols;

static bool is_symbol_object(PyObject *x) { return Py_IS_TYPE(x, &cr_py_symbol_type); }

PyObject *cr_py_symbol(cr_recorder *r, int k)
{
    symbol *s;

    if (k < 0)
        return PyErr_NoMemory();
    s = PyObject_New(symbol, &cr_py_symbol_type);
    if (!s)
        return NULL;
    s->serial = cr_recorder_serial(r);
    s->k = k;
    s->value = cr_recorder_value(r, k);
    s->before = NULL;
    s->after = all_symbols;
    if (all_symbols)
        all_symbols->before = s;
    all_symbols = s;
    return (PyObject *)s;
}

static void unlist(symbol *s)
{
    *(s->before ? &s->before->after : &all_symbols) = s->after;
    if (s->after)
        s->after->before = s->before;
}

static void symbol_dealloc(PyObject *x)
{
    unlist((symbol *)x);
    Py_TYPE(x)->tp_free(x);
}

/* --- recordings inside of others --- */

enum { MOST_AROUND = 32 };

/* The state of symbols in one thread.  `at` has the recordings that wait while another
 * recording records a part of their program, outermost first.  `used` lists what that part used
 * of the waiting recordings: their symbols, and tensors whose sizes are their symbols. */
typedef struct {
    cr_recorder *at[MOST_AROUND];
    int count;
    PyObject *used;
    uint64_t serial;    /* of the recording to which `function` belongs */
    PyObject *function; /* decides comparisons of symbols (Recorder.decides), or NULL */
    PyObject *text;     /* the function that gives symbols' texts (_symbol_texts) */
} thread_symbols;

/* NULL while no recording waits and no function is set.  It is a pointer because thread-local
 * memory is scarce: libraries that the program loads later need some of it, too. */
static CR_THREAD thread_symbols *here;

static int count_around(void) { return here ? here->count : 0; }

static bool make_here(void)
{
    if (!here && !(here = PyMem_Calloc(1, sizeof *here)))
        PyErr_NoMemory();
    return here;
}

static void drop_here(void)
{
    if (here->count || here->function || here->text)
        return;
    PyMem_Free(here);
    here = NULL;
}

static void note_use(PyObject *x)
{
    if (!x || PyList_Append(here->used, x))
        PyErr_WriteUnraisable(x);
}

/* A program may keep a symbol: it is a plain number when its recording has ended. */
static bool is_live(const symbol *s)
{
    const cr_recorder *active = cr_recorder_active();

    if (s->serial == cr_recorder_serial(active))
        return true;
    for (int i = 0; active && i < count_around(); i++)
        if (s->serial == cr_recorder_serial(here->at[i]))
            note_use((PyObject *)s);
    return false;
}

static uint64_t symbolic_dims(cr_recorder *r, cr_tensor *t)
{
    uint64_t dims = 0;

    for (int d = 0; r && d < t->ndim; d++)
        dims |= (uint64_t)(cr_recorder_size(r, t, d) >= 0) << d;
    return dims;
}

/* Adds `t`, whose sizes the program reads, to `used` if a waiting recording has a symbol for
 * one of the sizes. */
static void note_sizes(cr_tensor *t)
{
    cr_recorder *active = count_around() ? cr_recorder_active() : NULL;

    if (!active || symbolic_dims(active, t))
        return;
    for (int i = 0; i < count_around(); i++)
        if (symbolic_dims(here->at[i], t)) {
            PyObject *x = cr_py_wrap_keep(t);
            note_use(x);
            Py_XDECREF(x);
            return;
        }
}

PyObject *cr_py_symbols_enter(cr_recorder *r)
{
    if (count_around() == MOST_AROUND)
        return PyErr_Format(PyExc_RecursionError,
                            "more than %d functions inside of one another", MOST_AROUND);
    if (!make_here())
        return NULL;
    if (!here->used && !(here->used = PyList_New(0)))
        return NULL;
    here->at[here->count++] = r;
    Py_RETURN_NONE;
}

PyObject *cr_py_symbols_leave(void)
{
    if (!count_around())
        return PyErr_Format(PyExc_RuntimeError, "leave() without enter()");
    PyObject *used = here->used, *more = here->count > 1 ? PyList_New(0) : NULL;
    if (here->count > 1 && !more)
        return NULL;
    here->used = more;
    here->count--;
    drop_here();
    return used;
}

PyObject *cr_py_symbolic_around(cr_tensor *t)
{
    uint64_t dims = 0;

    for (int i = 0; i < count_around(); i++)
        dims |= symbolic_dims(here->at[i], t);
    return PyLong_FromUnsignedLongLong(dims);
}

/* --- values --- */

static PyObject *symbol_plain(const symbol *s) { return cr_py_scalar_object(s->value); }

/* --- questions that the present values do not decide --- */

bool cr_py_symbols_decided(const cr_recorder *r, PyObject *function)
{
    if (!make_here())
        return false;
    PyObject *before = here->function;
    here->serial = cr_recorder_serial(r);
    here->function = function == Py_None ? NULL : Py_NewRef(function);
    drop_here();
    Py_XDECREF(before);
    return true;
}

PyObject *cr_py_symbol_texts(PyObject *m, PyObject *function)
{
    PyObject *before;

    (void)m;
    if (!make_here())
        return NULL;
    before = here->text ? here->text : Py_NewRef(Py_None);
    here->text = function == Py_None ? NULL : Py_NewRef(function);
    drop_here();
    return before;
}

static bool may_decide(void)
{
    return here && here->function && here->serial == cr_recorder_serial(cr_recorder_active());
}

/* The answer of here->function to the comparison `a test b`, or NULL with an exception.
 * The answer NotImplemented means that the caller compares the present values. */
static PyObject *decided(const char *test, PyObject *a, PyObject *b)
{
    if (!may_decide())
        Py_RETURN_NOTIMPLEMENTED;
    return PyObject_CallFunction(here->function, "zOO", test, a, b);
}

static void ask_value(const symbol *s)
{
    cr_recorder *r = cr_recorder_active();

    cr_recorder_ask(r, CR_GNUM_EQ, s->k, cr_recorder_plain_number(r, s->value));
}

/* Fixes the symbol's value by a guard of the recording.  False with an exception where no value
 * can be known. */
static bool fix(symbol *s)
{
    PyObject *answer;

    if (!is_live(s))
        return true;
    answer = decided(NULL, (PyObject *)s, Py_None);
    if (!answer)
        return false;
    Py_DECREF(answer);
    ask_value(s);
    return true;
}

/* Copies the number `x` over the symbol, so that all references to the symbol refer to a number
 * from now on.  The copy can be freed as an int or a float, because these return their memory
 * to the allocator from which the symbol's memory came. */
static bool become(symbol *s, PyObject *x)
{
    PyObject *bytes = PyObject_CallMethod(x, "__sizeof__", NULL);
    size_t size = bytes ? PyLong_AsSize_t(bytes) : (size_t)-1;

    Py_XDECREF(bytes);
    if (size == (size_t)-1)
        return false;
    CR_ASSERT(size <= sizeof *s);
    unlist(s);
    memcpy((char *)s + sizeof(PyObject), (char *)x + sizeof(PyObject), size - sizeof(PyObject));
    Py_SET_TYPE((PyObject *)s, Py_TYPE(x));
    return true;
}

bool cr_py_symbols_settle(const cr_recorder *r)
{
    uint64_t serial = cr_recorder_serial(r);

    for (symbol *s = all_symbols, *next; s; s = next) {
        next = s->after;
        if (s->serial != serial)
            continue;
        PyObject *x = fix(s) ? symbol_plain(s) : NULL;
        bool done = x && become(s, x);
        Py_XDECREF(x);
        if (!done)
            return false;
    }
    return true;
}

bool cr_py_symbol_scalar(PyObject *x, cr_scalar *out)
{
    symbol *s = (symbol *)x;

    if (!is_symbol_object(x))
        return false;
    *out = is_live(s) ? cr_gnum_scalar(s->k, s->value) : s->value;
    return true;
}

bool cr_py_symbol_value(PyObject *x, cr_scalar *out)
{
    if (!is_symbol_object(x))
        return false;
    if (!fix((symbol *)x)) {
        /* This function cannot fail, so it adds the guard all the same.  "fixed" tells
         * here->function, which may refuse the guard when the recording ends. */
        PyErr_Clear();
        ask_value((symbol *)x);
        Py_XDECREF(decided("fixed", x, Py_None));
        PyErr_Clear();
    }
    *out = ((symbol *)x)->value;
    return true;
}

static bool has_live_symbol(PyObject *data, int depth)
{
    bool list = PyList_Check(data);

    if (is_symbol_object(data))
        return is_live((symbol *)data);
    if (depth == 0 || !(list || PyTuple_Check(data)))
        return false;
    Py_ssize_t n = list ? PyList_GET_SIZE(data) : PyTuple_GET_SIZE(data);
    for (Py_ssize_t i = 0; i < n; i++)
        if (has_live_symbol(list ? PyList_GET_ITEM(data, i) : PyTuple_GET_ITEM(data, i),
                            depth - 1))
            return true;
    return false;
}

bool cr_py_symbol_tensor(PyObject **out, PyObject *data, PyObject *dtype)
{
    if (!may_decide() || !has_live_symbol(data, 8))
        return false;
    *out = decided("tensor", data, dtype);
    return true;
}

/* --- sizes --- */

PyObject *cr_py_symbolic_dim(cr_tensor *t, int dim)
{
    cr_recorder *r = cr_recorder_active();
    int k = r ? cr_recorder_size(r, t, dim) : -1;

    note_sizes(t);
    return k < 0 ? NULL : cr_py_symbol(r, k);
}

PyObject *cr_py_symbolic_size(cr_tensor *t)
{
    PyObject *size = NULL;

    note_sizes(t);
    for (int d = 0; d < t->ndim; d++) {
        PyObject *one = cr_py_symbolic_dim(t, d);
        if (!one && PyErr_Occurred()) {
            Py_XDECREF(size);
            return NULL;
        }
        if (!one)
            continue;
        if (!size && !(size = cr_py_size(t->ndim, t->size))) {
            Py_DECREF(one);
            return NULL;
        }
        PyObject *old = PyTuple_GET_ITEM(size, d);
        PyTuple_SET_ITEM(size, d, one);
        Py_DECREF(old);
    }
    return size;
}

PyObject *cr_py_symbolic_numel(cr_tensor *t)
{
    PyObject *n = NULL;

    note_sizes(t);
    for (int d = 0; d < t->ndim; d++) {
        PyObject *one = cr_py_symbolic_dim(t, d), *next;
        if (!one && PyErr_Occurred())
            break;
        if (!one)
            continue;
        if (!n) {
            int64_t rest = 1;
            for (int e = 0; e < t->ndim; e++)
                rest *=
                    e < d || cr_recorder_size(cr_recorder_active(), t, e) < 0 ? t->size[e] : 1;
            n = PyLong_FromLongLong(rest);
        }
        next = n ? PyNumber_Multiply(one, n) : NULL;
        Py_DECREF(one);
        Py_XSETREF(n, next);
        if (!n)
            break;
    }
    return n;
}

void cr_py_fix_sizes(cr_tensor *t)
{
    cr_recorder *r = cr_recorder_active();

    note_sizes(t);
    for (int d = 0; r && d < t->ndim; d++) {
        int k = cr_recorder_size(r, t, d);
        if (k >= 0)
            cr_recorder_ask(r, CR_GNUM_EQ, k,
                            cr_recorder_plain_number(r, cr_scalar_int(t->size[d])));
    }
}

/* --- arithmetic --- */

/* The index of operand `x` in the recorder: that of a symbol, or that of a new constant for an
 * int, a float or a bool.  -1: the recorder cannot hold `x`. */
static int symbol_operand(cr_recorder *r, PyObject *x)
{
    cr_scalar s;

    if (is_symbol_object(x) && is_live((symbol *)x))
        return ((symbol *)x)->k;
    if (!(PyLong_Check(x) || PyFloat_Check(x)) || cr_py_scalar_from(x, &s) != CR_PY_FITS) {
        PyErr_Clear();
        return -1;
    }
    if (s.category == CR_CAT_BOOL)
        s = cr_scalar_int(s.i);
    return s.category == CR_CAT_INT || s.category == CR_CAT_FLOAT
               ? cr_recorder_plain_number(r, s)
               : -1;
}

/* The plain number of an operand; a symbol is fixed. */
static PyObject *settled(PyObject *x)
{
    if (!is_symbol_object(x))
        return Py_NewRef(x);
    return fix((symbol *)x) ? symbol_plain((symbol *)x) : NULL;
}

typedef PyObject *(*python_binary)(PyObject *, PyObject *);

static PyObject *binary(PyObject *a, PyObject *b, int fn, python_binary otherwise)
{
    cr_recorder *r = cr_recorder_active();
    PyObject *x, *y, *out;
    int k = -1;

    if (!is_symbol_object(a) && !PyLong_Check(a) && !PyFloat_Check(a))
        Py_RETURN_NOTIMPLEMENTED;
    if (!is_symbol_object(b) && !PyLong_Check(b) && !PyFloat_Check(b))
        Py_RETURN_NOTIMPLEMENTED;
    if (r && fn >= 0) {
        int i = symbol_operand(r, a), j = symbol_operand(r, b);
        k = i >= 0 && j >= 0 ? cr_recorder_apply(r, (cr_gnum_fn)fn, i, j) : -1;
    }
    if (k >= 0)
        return cr_py_symbol(r, k);
    x = settled(a);
    y = x ? settled(b) : NULL;
    out = x && y ? otherwise(x, y) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(y);
    return out;
}

#define BINARY(name, fn, python)                                                               \
    static PyObject *symbol_##name(PyObject *a, PyObject *b)                                   \
    {                                                                                          \
        return binary(a, b, fn, python);                                                       \
    }
BINARY(add, CR_GNUM_ADD, PyNumber_Add)
BINARY(sub, CR_GNUM_SUB, PyNumber_Subtract)
BINARY(mul, CR_GNUM_MUL, PyNumber_Multiply)
BINARY(div, CR_GNUM_DIV, PyNumber_TrueDivide)
BINARY(floordiv, CR_GNUM_FLOORDIV, PyNumber_FloorDivide)
BINARY(mod, CR_GNUM_MOD, PyNumber_Remainder)
BINARY(divmod, -1, PyNumber_Divmod)
BINARY(lshift, -1, PyNumber_Lshift)
BINARY(rshift, -1, PyNumber_Rshift)
BINARY(and, -1, PyNumber_And)
BINARY(or, -1, PyNumber_Or)
BINARY(xor, -1, PyNumber_Xor)
#undef BINARY

static PyObject *power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }

static PyObject *symbol_pow(PyObject *a, PyObject *b, PyObject *modulo)
{
    if (modulo != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return binary(a, b, CR_GNUM_POW, power);
}

static PyObject *unary(PyObject *a, cr_gnum_fn fn, PyObject *(*otherwise)(PyObject *))
{
    symbol *s = (symbol *)a;
    cr_recorder *r = cr_recorder_active();
    int k = is_live(s) ? cr_recorder_apply(r, fn, s->k, s->k) : -1;
    PyObject *x, *out;

    if (k >= 0)
        return cr_py_symbol(r, k);
    x = settled(a);
    out = x ? otherwise(x) : NULL;
    Py_XDECREF(x);
    return out;
}

static PyObject *symbol_neg(PyObject *a) { return unary(a, CR_GNUM_NEG, PyNumber_Negative); }
static PyObject *symbol_abs(PyObject *a) { return unary(a, CR_GNUM_ABS, PyNumber_Absolute); }
static PyObject *symbol_pos(PyObject *a) { return Py_NewRef(a); }

/* --- comparisons --- */

static PyObject *symbol_compare(PyObject *a, PyObject *b, int op)
{
    static const struct {
        uint8_t test;
        bool swapped, negated;
    } how[] = {[Py_LT] = {CR_GNUM_LT, false, false}, [Py_LE] = {CR_GNUM_LE, false, false},
               [Py_EQ] = {CR_GNUM_EQ, false, false}, [Py_NE] = {CR_GNUM_EQ, false, true},
               [Py_GT] = {CR_GNUM_LT, true, false},  [Py_GE] = {CR_GNUM_LE, true, false}};
    static const char *const texts[] = {[Py_LT] = "<",  [Py_LE] = "<=", [Py_EQ] = "==",
                                        [Py_NE] = "!=", [Py_GT] = ">",  [Py_GE] = ">="};
    cr_recorder *r = cr_recorder_active();
    PyObject *x, *y, *out;

    if (!is_symbol_object(b) && !PyLong_Check(b) && !PyFloat_Check(b))
        Py_RETURN_NOTIMPLEMENTED;
    out = decided(texts[op], a, b);
    if (out != Py_NotImplemented)
        return out;
    Py_DECREF(out);
    int i = r ? symbol_operand(r, a) : -1, j = r ? symbol_operand(r, b) : -1;
    if (i >= 0 && j >= 0) {
        bool yes = cr_recorder_ask(r, (cr_gnum_test)how[op].test, how[op].swapped ? j : i,
                                   how[op].swapped ? i : j);
        return PyBool_FromLong(yes != how[op].negated);
    }
    x = settled(a);
    y = x ? settled(b) : NULL;
    out = x && y ? PyObject_RichCompare(x, y, op) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(y);
    return out;
}

static int symbol_bool(PyObject *a)
{
    symbol *s = (symbol *)a;
    cr_recorder *r = cr_recorder_active();

    if (is_live(s) && here && here->function) {
        PyObject *zero = PyLong_FromLong(0);
        PyObject *answer = zero ? symbol_compare(a, zero, Py_NE) : NULL;
        int yes = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(zero);
        Py_XDECREF(answer);
        return yes;
    }
    if (is_live(s))
        return !cr_recorder_ask(r, CR_GNUM_EQ, s->k,
                                cr_recorder_plain_number(r, cr_scalar_int(0)));
    return cr_scalar_as_double(s->value) != 0;
}

#define SETTLED(name, expression)                                                              \
    static PyObject *symbol_##name(PyObject *a)                                                \
    {                                                                                          \
        PyObject *x = settled(a), *out = x ? (expression) : NULL;                              \
        Py_XDECREF(x);                                                                         \
        return out;                                                                            \
    }
SETTLED(int, PyNumber_Long(x))
SETTLED(float, PyNumber_Float(x))
SETTLED(index, PyNumber_Index(x))
SETTLED(invert, PyNumber_Invert(x))
#undef SETTLED

static PyObject *symbol_repr(PyObject *a)
{
    PyObject *x, *out;

    if (is_live((symbol *)a) && here && here->text) {
        out = PyObject_CallFunctionObjArgs(here->text, a, NULL);
        if (out != Py_NotImplemented)
            return out;
        Py_DECREF(out);
    }
    x = settled(a);
    out = x ? PyObject_Repr(x) : NULL;
    Py_XDECREF(x);
    return out;
}

static Py_hash_t symbol_hash(PyObject *a)
{
    PyObject *x = settled(a);
    Py_hash_t h = x ? PyObject_Hash(x) : -1;

    Py_XDECREF(x);
    return h;
}

static PyObject *symbol_class(PyObject *a, void *unused)
{
    (void)unused;
    return Py_NewRef(((symbol *)a)->value.category == CR_CAT_FLOAT ? &PyFloat_Type
                                                                   : &PyLong_Type);
}

/* A look-up of an attribute that Symbol lacks fixes the symbol and reads the number's
 * attribute. */
static PyObject *symbol_attribute(PyObject *a, PyObject *name)
{
    PyObject *out = PyObject_GenericGetAttr(a, name), *x;

    if (out || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return out;
    PyErr_Clear();
    x = settled(a);
    out = x ? PyObject_GetAttr(x, name) : NULL;
    Py_XDECREF(x);
    return out;
}

static PyObject *symbol_format(PyObject *a, PyObject *spec)
{
    if (PyUnicode_Check(spec) && !PyUnicode_GET_LENGTH(spec))
        return symbol_repr(a);
    PyObject *x = settled(a);
    PyObject *out = x ? PyObject_CallMethod(x, "__format__", "(O)", spec) : NULL;

    Py_XDECREF(x);
    return out;
}

/* Special methods that C code looks up in the class.  Each fixes the symbol and calls the
 * number's method. */
static PyObject *symbol_forward(PyObject *a, const char *name, PyObject *args)
{
    PyObject *x = settled(a), *method = x ? PyObject_GetAttrString(x, name) : NULL;
    PyObject *out = method ? PyObject_CallObject(method, args) : NULL;

    Py_XDECREF(method);
    Py_XDECREF(x);
    return out;
}

static PyObject *symbol_reduce_ex(PyObject *a, PyObject *args)
{
    return symbol_forward(a, "__reduce_ex__", args);
}

/* A method that rounds.  Without arguments its result is a Symbol if the recorder can compute
 * it.  With arguments it fixes the symbol and rounds the number. */
#define ROUNDED(name, fn)                                                                      \
    static PyObject *name##_plain(PyObject *x)                                                 \
    {                                                                                          \
        return PyObject_CallMethod(x, "__" #name "__", NULL);                                  \
    }                                                                                          \
    static PyObject *symbol_##name(PyObject *a, PyObject *args)                                \
    {                                                                                          \
        return PyTuple_GET_SIZE(args) ? symbol_forward(a, "__" #name "__", args)               \
                                      : unary(a, fn, name##_plain);                            \
    }
ROUNDED(round, CR_GNUM_ROUND)
ROUNDED(trunc, CR_GNUM_TRUNC)
ROUNDED(floor, CR_GNUM_FLOOR)
ROUNDED(ceil, CR_GNUM_CEIL)
#undef ROUNDED

static PyObject *sqrt_plain(PyObject *x)
{
    double d = PyFloat_AsDouble(x);

    if (d == -1 && PyErr_Occurred())
        return NULL;
    if (d < 0)
        return PyErr_Format(PyExc_ValueError, "math domain error");
    return PyFloat_FromDouble(sqrt(d));
}

static PyObject *symbol_sqrt(PyObject *a, PyObject *unused)
{
    (void)unused;
    return unary(a, CR_GNUM_SQRT, sqrt_plain);
}

/* __array__(dtype=None, copy=None), for functions of NumPy: the plain number, as an array. */
static PyObject *symbol_array(PyObject *a, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None, *x = NULL, *numpy = NULL, *out = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", names, &dtype, &copy))
        return NULL;
    x = settled(a);
    numpy = x ? PyImport_ImportModule("numpy") : NULL;
    if (numpy)
        out = PyObject_CallMethod(numpy, "array", "OO", x, dtype);
    Py_XDECREF(numpy);
    Py_XDECREF(x);
    return out;
}

static PyNumberMethods as_number = {.nb_add = symbol_add,
                                    .nb_subtract = symbol_sub,
                                    .nb_multiply = symbol_mul,
                                    .nb_true_divide = symbol_div,
                                    .nb_floor_divide = symbol_floordiv,
                                    .nb_remainder = symbol_mod,
                                    .nb_divmod = symbol_divmod,
                                    .nb_power = symbol_pow,
                                    .nb_lshift = symbol_lshift,
                                    .nb_rshift = symbol_rshift,
                                    .nb_and = symbol_and,
                                    .nb_or = symbol_or,
                                    .nb_xor = symbol_xor,
                                    .nb_negative = symbol_neg,
                                    .nb_positive = symbol_pos,
                                    .nb_absolute = symbol_abs,
                                    .nb_invert = symbol_invert,
                                    .nb_bool = symbol_bool,
                                    .nb_int = symbol_int,
                                    .nb_float = symbol_float,
                                    .nb_index = symbol_index};
static PyMethodDef symbol_methods[] = {{"__format__", symbol_format, METH_O, NULL},
                                       {"__array__", (PyCFunction)(void (*)(void))symbol_array,
                                        METH_VARARGS | METH_KEYWORDS, NULL},
                                       {"__round__", symbol_round, METH_VARARGS, NULL},
                                       {"__trunc__", symbol_trunc, METH_VARARGS, NULL},
                                       {"__floor__", symbol_floor, METH_VARARGS, NULL},
                                       {"__ceil__", symbol_ceil, METH_VARARGS, NULL},
                                       {"__sym_sqrt__", symbol_sqrt, METH_NOARGS, NULL},
                                       {"__reduce_ex__", symbol_reduce_ex, METH_VARARGS, NULL},
                                       {0}};
static PyGetSetDef symbol_getset[] = {{"__class__", symbol_class, NULL, "int or float.", NULL},
                                      {0}};

PyTypeObject cr_py_symbol_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.Symbol",
    .tp_basicsize = sizeof(symbol),
    .tp_dealloc = symbol_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A number that may differ from call to call of a recording.",
    .tp_as_number = &as_number,
    .tp_richcompare = symbol_compare,
    .tp_hash = symbol_hash,
    .tp_repr = symbol_repr,
    .tp_str = symbol_repr,
    .tp_getattro = symbol_attribute,
    .tp_methods = symbol_methods,
    .tp_getset = symbol_getset,
};

int cr_py_symbol_start(PyObject *m) { return cr_py_add_type(m, "Symbol", &cr_py_symbol_type); }
