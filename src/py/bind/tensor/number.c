/* Operators in expressions: a + b, a -= 1, 2 / a, a < b, -a.
 *
 * Plain tensors and numbers call the operator directly.  Other operands go through the Python
 * method, which handles overloads and __torch_function__.  A TypeError there becomes
 * NotImplemented, so that Python tries the other operand. */
#include "py/bind/bind.h"

/* How `number <op> tensor` is computed. */
typedef enum {
    SWAP,    /* tensor <op> number */
    AS_IS,   /* the entry accepts numbers on the left */
    REVERSE, /* a separate entry: rsub */
    DIVIDE   /* reciprocal times the number */
} reflection;

/* clang-format off */
#define BINARIES(X)                                                                            \
    X(add,      "add",                 nb_add,           nb_inplace_add,          SWAP)        \
    X(sub,      "sub",                 nb_subtract,      nb_inplace_subtract,     REVERSE)     \
    X(mul,      "mul",                 nb_multiply,      nb_inplace_multiply,     SWAP)        \
    X(div,      "div",                 nb_true_divide,   nb_inplace_true_divide,  DIVIDE)      \
    X(floordiv, "floor_divide",        nb_floor_divide,  nb_inplace_floor_divide, AS_IS)       \
    X(mod,      "remainder",           nb_remainder,     nb_inplace_remainder,    AS_IS)       \
    X(and,      "bitwise_and",         nb_and,           nb_inplace_and,          SWAP)        \
    X(or,       "bitwise_or",          nb_or,            nb_inplace_or,           SWAP)        \
    X(xor,      "bitwise_xor",         nb_xor,           nb_inplace_xor,          SWAP)        \
    X(lshift,   "bitwise_left_shift",  nb_lshift,        nb_inplace_lshift,       AS_IS)       \
    X(rshift,   "bitwise_right_shift", nb_rshift,        nb_inplace_rshift,       AS_IS)
#define COMPARISONS(X)                                                                         \
    X(lt, "lt") X(le, "le") X(eq, "eq") X(ne, "ne") X(gt, "gt") X(ge, "ge")
/* clang-format on */

typedef struct {
    const char *name;
    reflection reflect;
    const cr_op *op, *inplace;
    PyObject *method, *function, *method_inplace; /* NULL when the table has no such entry */
} binary;

enum {
#define X(id, name, slot, inplace_slot, reflect) BINARY_##id,
    BINARIES(X)
#undef X
#define X(id, name) BINARY_##id,
        COMPARISONS(X)
#undef X
            BINARY_pow,
    BINARY_matmul,
    BINARY_COUNT
};

static binary binaries[BINARY_COUNT] = {
#define X(id, n, slot, inplace_slot, r) [BINARY_##id] = {.name = n, .reflect = r},
    BINARIES(X)
#undef X
#define X(id, n) [BINARY_##id] = {.name = n, .reflect = AS_IS},
        COMPARISONS(X)
#undef X
            [BINARY_pow] = {.name = "pow", .reflect = AS_IS},
    [BINARY_matmul] = {.name = "matmul", .reflect = AS_IS},
};

static const cr_op *op_rsub, *op_reciprocal, *op_mul;
/* Functions for calls that modes see. */
static PyObject *rsub_function, *reciprocal_function;

/* --- the fast path --- */

/* Reads a plain tensor or number for parameter p. */
static inline bool number_operand(const cr_param *p, PyObject *x, cr_value *out)
{
    if (CR_LIKELY(Py_IS_TYPE(x, cr_py_tensor_type))) {
        cr_py_set_tensor(out, cr_py_tensor_of(x));
        return true;
    }
    if (!p->number)
        return false;
    out->tag = CR_NUMBER;
    if (PyFloat_CheckExact(x)) {
        out->number.category = CR_CAT_FLOAT;
        out->number.d = PyFloat_AS_DOUBLE(x);
        return true;
    }
    if (PyLong_CheckExact(x)) {
        int overflow;
        out->number.category = CR_CAT_INT;
        out->number.large = false;
        out->number.i = PyLong_AsLongLongAndOverflow(x, &overflow);
        return !overflow;
    }
    return false;
}

/* True when the first overload takes two tensors and all further parameters have defaults. */
static bool number_is_short(const cr_op *op)
{
    if (!op || op->param_count < 2)
        return false;
    for (int i = 2; i < op->param_count; i++)
        if (!op->param[i].has_default)
            return false;
    return op->param[0].type == CR_T_TENSOR && op->param[1].type == CR_T_TENSOR;
}

static inline PyObject *number_run(const cr_op *op, cr_value *v)
{
    cr_value result;

    for (int i = 2; i < op->param_count; i++)
        v[i] = op->param[i].preset;
    cr_status st = cr_py_call(op, v, &result);
    return CR_LIKELY(!st) ? cr_py_wrap(result.t) : cr_py_raise(st);
}

/* --- the slow path --- */

static PyObject *type_error_means_not_implemented(PyObject *answer)
{
    if (answer || !PyErr_ExceptionMatches(PyExc_TypeError))
        return answer;
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
}

static PyObject *call_two(PyObject *callable, PyObject *a, PyObject *b)
{
    PyObject *args[] = {a, b};

    if (!callable)
        Py_RETURN_NOTIMPLEMENTED;
    return type_error_means_not_implemented(PyObject_Vectorcall(callable, args, 2, NULL));
}

/* 3 / a, with torch's rounding. */
static PyObject *divide_number(PyObject *a, PyObject *b)
{
    cr_value v[CR_MAX_ARGS] = {cr_of_tensor(cr_py_tensor_of(b))}, inverse;
    PyObject *one, *out;

    if (cr_py_mode_count) {
        one = PyObject_CallOneArg(reciprocal_function, b);
    } else {
        cr_status st = cr_py_call(op_reciprocal, v, &inverse);
        if (st)
            return cr_py_raise(st);
        one = cr_py_wrap(inverse.t);
    }
    out = one ? call_two(binaries[BINARY_mul].method, one, a) : NULL;
    Py_XDECREF(one);
    return out;
}

/* number <op> tensor.  `a` may be any object. */
static PyObject *number_reflected(const binary *o, PyObject *a, PyObject *b)
{
    cr_scalar s;
    cr_value v[CR_MAX_ARGS];
    cr_py_fit fit = cr_py_symbol_scalar(a, &s) ? CR_PY_FITS : cr_py_scalar_from(a, &s);

    if (fit == CR_PY_RAISED)
        return NULL;
    if (fit == CR_PY_MISFIT || !Py_IS_TYPE(b, cr_py_tensor_type))
        return o->reflect == SWAP ? call_two(o->method, b, a) : call_two(o->function, a, b);
    if (o->reflect == SWAP)
        return call_two(o->method, b, a);
    if (o->reflect == DIVIDE && op_reciprocal && op_mul)
        return divide_number(a, b);
    if (o->reflect == REVERSE && cr_py_mode_count)
        return call_two(rsub_function, b, a);
    if (o->reflect == REVERSE && op_rsub) {
        v[0] = cr_of_tensor(cr_py_tensor_of(b));
        v[1] = cr_of_number(s);
        return number_run(op_rsub, v);
    }
    return call_two(o->function, a, b);
}

static PyObject *number_two(const binary *o, PyObject *a, PyObject *b)
{
    cr_value v[CR_MAX_ARGS];

    if (CR_LIKELY(o->op && Py_IS_TYPE(a, cr_py_tensor_type) && !cr_py_mode_count) &&
        number_operand(&o->op->param[1], b, &v[1])) {
        cr_py_set_tensor(&v[0], cr_py_tensor_of(a));
        return number_run(o->op, v);
    }
    return cr_py_is_tensor(a) ? call_two(o->method, a, b) : number_reflected(o, a, b);
}

static PyObject *two_inplace(const binary *o, PyObject *a, PyObject *b)
{
    cr_value v[CR_MAX_ARGS];

    if (o->inplace && Py_IS_TYPE(a, cr_py_tensor_type) && !cr_py_mode_count &&
        number_operand(&o->op->param[1], b, &v[1])) {
        cr_py_set_tensor(&v[0], cr_py_tensor_of(a));
        return number_run(o->inplace, v);
    }
    return call_two(o->method_inplace, a, b);
}

/* --- slots --- */

#define X(id, name, slot, inplace_slot, reflect)                                               \
    static PyObject *nb_##id(PyObject *a, PyObject *b)                                         \
    {                                                                                          \
        return number_two(&binaries[BINARY_##id], a, b);                                       \
    }                                                                                          \
    static PyObject *nb_inplace_##id(PyObject *a, PyObject *b)                                 \
    {                                                                                          \
        return two_inplace(&binaries[BINARY_##id], a, b);                                      \
    }
BINARIES(X)
#undef X

static PyObject *nb_matmul(PyObject *a, PyObject *b)
{
    return number_two(&binaries[BINARY_matmul], a, b);
}

static PyObject *nb_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return number_two(&binaries[BINARY_pow], a, b);
}

static PyObject *nb_inplace_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return two_inplace(&binaries[BINARY_pow], a, b);
}

static PyObject *with_array(const binary *o, PyObject *a, PyObject *array)
{
    cr_tensor *t = cr_py_tensor_from_array(array, false);
    PyObject *b = t ? cr_py_wrap(t) : NULL;
    PyObject *out = b ? number_two(o, a, b) : NULL;

    Py_XDECREF(b);
    return out;
}

PyObject *cr_py_richcompare(PyObject *a, PyObject *b, int op)
{
    static const int which[] = {[Py_LT] = BINARY_lt, [Py_LE] = BINARY_le, [Py_EQ] = BINARY_eq,
                                [Py_NE] = BINARY_ne, [Py_GT] = BINARY_gt, [Py_GE] = BINARY_ge};
    PyObject *answer = number_two(&binaries[which[op]], a, b);

    if (answer != Py_NotImplemented || (op != Py_EQ && op != Py_NE) || !cr_py_is_array(b))
        return answer;
    Py_DECREF(answer); /* NumPy defers to this class, so the array is compared here */
    return with_array(&binaries[which[op]], a, b);
}

enum { UNARY_neg, UNARY_abs, UNARY_not, UNARY_COUNT };
static struct {
    const char *name;
    PyObject *method;
} unaries[UNARY_COUNT] = {{"neg", NULL}, {"abs", NULL}, {"bitwise_not", NULL}};

static PyObject *one(int which, PyObject *a)
{
    if (!unaries[which].method)
        return PyErr_Format(PyExc_TypeError, "the operator table has no entry '%s'",
                            unaries[which].name);
    return PyObject_CallOneArg(unaries[which].method, a);
}

static PyObject *nb_negative(PyObject *a) { return one(UNARY_neg, a); }
static PyObject *nb_absolute(PyObject *a) { return one(UNARY_abs, a); }

static PyObject *nb_invert(PyObject *a)
{
    if (cr_dtype_category((cr_dtype)cr_py_tensor_of(a)->dtype) > CR_CAT_INT)
        return PyErr_Format(
            PyExc_TypeError,
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    return one(UNARY_not, a);
}

static PyObject *nb_positive(PyObject *a)
{
    if (cr_py_tensor_of(a)->dtype == CR_BOOL)
        return PyErr_Format(PyExc_RuntimeError,
                            "The `+` operator, on a bool tensor is not supported.");
    return Py_NewRef(a);
}

#define X(id, name, slot, inplace_slot, reflect)                                               \
    {Py_##slot, (void *)nb_##id}, {Py_##inplace_slot, (void *)nb_inplace_##id},
const PyType_Slot cr_py_number_slots[] = {
    BINARIES(X){Py_nb_power, (void *)nb_pow},   {Py_nb_inplace_power, (void *)nb_inplace_pow},
    {Py_nb_matrix_multiply, (void *)nb_matmul}, {Py_nb_negative, (void *)nb_negative},
    {Py_nb_absolute, (void *)nb_absolute},      {Py_nb_invert, (void *)nb_invert},
    {Py_nb_positive, (void *)nb_positive},      {0, NULL}};
#undef X

/* --- start --- */

/* The attribute, or NULL without an exception when it does not exist. */
static PyObject *number_attribute(PyObject *where, const char *name, const char *suffix)
{
    PyObject *full = PyUnicode_FromFormat("%s%s", name, suffix);
    PyObject *found = full ? PyObject_GetAttr(where, full) : NULL;

    Py_XDECREF(full);
    if (!found)
        PyErr_Clear();
    return found;
}

int cr_py_number_start(PyObject *m)
{
    PyObject *type = (PyObject *)cr_py_tensor_type;

    for (int i = 0; i < BINARY_COUNT; i++) {
        binary *o = &binaries[i];
        const cr_op *op = cr_ops_find(o->name);
        o->op = number_is_short(op) ? op : NULL;
        o->inplace = o->op ? o->op->inplace : NULL;
        o->method = number_attribute(type, o->name, "");
        o->method_inplace = number_attribute(type, o->name, "_");
        o->function = number_attribute(m, o->name, "");
    }
    for (int i = 0; i < UNARY_COUNT; i++)
        unaries[i].method = number_attribute(type, unaries[i].name, "");
    op_rsub = number_is_short(cr_ops_find("rsub")) ? cr_ops_find("rsub") : NULL;
    op_reciprocal = cr_ops_find("reciprocal");
    op_mul = cr_ops_find("mul");
    rsub_function = PyObject_GetAttrString(m, "rsub");
    reciprocal_function = PyObject_GetAttrString(m, "reciprocal");
    return rsub_function && reciprocal_function ? 0 : -1;
}
