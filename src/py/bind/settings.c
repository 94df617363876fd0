/* Settings of the process, and functions of dtypes. */
#include "py/bind/bind.h"
#ifdef __SSE2__
#include <xmmintrin.h>
#endif
#include "base/parallel.h"
#include "kern/conv.h"
#include "tensor/defer.h"

/* --- default dtype --- */

static PyObject *get_default_dtype(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return Py_NewRef(cr_py_dtype_object(cr_default_dtype()));
}

static PyObject *set_default_dtype(PyObject *m, PyObject *x)
{
    (void)m;
    if (!Py_IS_TYPE(x, &cr_py_dtype_type))
        return PyErr_Format(PyExc_TypeError, "invalid dtype object: only floating-point types "
                                             "are supported as the default type");
    cr_dtype t = cr_py_dtype_from(x);
    if (!cr_dtype_is_float(t))
        return PyErr_Format(PyExc_TypeError,
                            "only floating-point types are supported as the default type");
    cr_status st = cr_defer_flush("set_default_dtype");
    if (!st)
        st = cr_set_default_dtype(t);
    return cr_py_done(st);
}

/* --- memory --- */

/* _memory_stats() -> dict: bytes of tensors, bytes cached, peak bytes of tensors. */
static PyObject *memory_stats(PyObject *m, PyObject *unused)
{
    cr_memory_stats s;

    (void)m;
    (void)unused;
    cr_cpu_memory_stats(&s);
    return Py_BuildValue("{s:L,s:L,s:L}", "used", (long long)s.used, "cached",
                         (long long)s.cached, "peak", (long long)s.peak);
}

static PyObject *reset_peak_memory(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    cr_cpu_memory_reset_peak();
    Py_RETURN_NONE;
}

/* --- threads --- */

static PyObject *get_num_threads(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyLong_FromLong(cr_threads());
}

static PyObject *set_num_threads(PyObject *m, PyObject *x)
{
    int64_t n;
    cr_py_fit fit = cr_py_int_from(x, &n);

    (void)m;
    if (fit == CR_PY_RAISED)
        return NULL;
    if (fit == CR_PY_MISFIT)
        return PyErr_Format(PyExc_RuntimeError, "set_num_threads expects an int, but got %s",
                            Py_TYPE(x)->tp_name);
    if (n <= 0)
        return PyErr_Format(PyExc_RuntimeError, "set_num_threads expects a positive integer");
    cr_status st = cr_defer_flush("set_num_threads");
    if (!st)
        st = cr_set_threads((int)n);
    return cr_py_done(st);
}

static PyObject *set_thread_limit(PyObject *m, PyObject *x)
{
    long n = PyLong_AsLong(x);

    (void)m;
    if (n == -1 && PyErr_Occurred())
        return NULL;
    cr_set_thread_limit(n < 0 || n > 1024 ? 0 : (int)n);
    Py_RETURN_NONE;
}

/* --- dtypes --- */

static bool two_dtypes(PyObject *args, const char *format, cr_dtype *a, cr_dtype *b)
{
    PyObject *x, *y;

    if (!PyArg_ParseTuple(args, format, &x, &y))
        return false;
    *a = cr_py_dtype_from(x);
    *b = cr_py_dtype_from(y);
    if (cr_py_refuse_named(x) || cr_py_refuse_named(y))
        return false;
    if (*a == CR_DTYPE_NONE || *b == CR_DTYPE_NONE)
        PyErr_Format(PyExc_TypeError, "two dtypes are expected, not %s and %s",
                     Py_TYPE(x)->tp_name, Py_TYPE(y)->tp_name);
    return *a != CR_DTYPE_NONE && *b != CR_DTYPE_NONE;
}

static PyObject *promote_types(PyObject *m, PyObject *args)
{
    cr_dtype a, b, t;

    (void)m;
    if (!two_dtypes(args, "OO:promote_types", &a, &b))
        return NULL;
    cr_status st = cr_promote_checked(&t, a, b);
    return st ? cr_py_raise(st) : Py_NewRef(cr_py_dtype_object(t));
}

static PyObject *can_cast(PyObject *m, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"from_", "to", NULL};
    PyObject *x, *y;

    (void)m;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:can_cast", names, &x, &y))
        return NULL;
    cr_dtype a = cr_py_dtype_from(x), b = cr_py_dtype_from(y);
    if (cr_py_refuse_named(x) || cr_py_refuse_named(y))
        return NULL;
    if (a == CR_DTYPE_NONE || b == CR_DTYPE_NONE)
        return PyErr_Format(PyExc_TypeError, "can_cast(): dtypes are expected");
    return PyBool_FromLong(cr_can_cast(a, b));
}

/* Reads a tensor or a number for type promotion. */
static bool promotion_value(PyObject *x, cr_value *out)
{
    if (cr_py_is_tensor(x)) {
        *out = cr_of_tensor(cr_py_tensor_of(x));
        return true;
    }
    out->tag = CR_NUMBER;
    cr_py_fit fit = cr_py_scalar_from(x, &out->number);
    if (fit == CR_PY_MISFIT)
        PyErr_Format(PyExc_TypeError, "result_type(): tensors or numbers are expected, not %s",
                     Py_TYPE(x)->tp_name);
    return fit == CR_PY_FITS;
}

static PyObject *settings_result_type(PyObject *m, PyObject *args)
{
    PyObject *x, *y;
    cr_value v[2];
    cr_dtype t;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO:result_type", &x, &y) || !promotion_value(x, &v[0]) ||
        !promotion_value(y, &v[1]))
        return NULL;
    cr_status st = cr_promote_values(&t, v, 2);
    return st ? cr_py_raise(st) : Py_NewRef(cr_py_dtype_object(t));
}

static PyObject *settings_is_tensor(PyObject *m, PyObject *x)
{
    (void)m;
    return PyBool_FromLong(cr_py_is_tensor(x));
}

/* The argument `input`, by position or by its name; NULL with an exception. */
static PyObject *only_input(const char *name, PyObject *const *args, Py_ssize_t n,
                            PyObject *names)
{
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    PyObject *first = named ? PyTuple_GET_ITEM(names, 0) : NULL;
    bool is_input = first && !PyUnicode_CompareWithASCIIString(first, "input");

    if (n + named == 1 && (n || is_input))
        return args[0];
    if (!n)
        return PyErr_Format(PyExc_TypeError,
                            "%s() missing 1 required positional arguments: \"input\"", name);
    if (n > 1)
        return PyErr_Format(PyExc_TypeError,
                            "%s() takes 1 positional argument but %zd were given", name, n);
    return PyErr_Format(PyExc_TypeError,
                        is_input ? "%s() got multiple values for argument '%U'"
                                 : "%s() got an unexpected keyword argument '%U'",
                        name, first);
}

/* torch.numel(x) and others: calls the method of the same name. */
static PyObject *by_method(PyObject *m, PyObject *x, bool by_name, const char *name)
{
    if (!x)
        return NULL;
    if (CR_UNLIKELY(cr_py_overrides(Py_TYPE(x)))) {
        const cr_py_given g = {&x, 1, NULL};
        PyObject *function = PyObject_GetAttrString(m, name);
        PyObject *out = function ? cr_py_override_call(function, &x, 1, &g) : NULL;
        Py_XDECREF(function);
        return out;
    }
    if (!cr_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "%s(): argument 'input'%s must be Tensor, not %s",
                            name, by_name ? "" : " (position 1)", Py_TYPE(x)->tp_name);
    return PyObject_CallMethod(x, name, NULL);
}

#define BY_METHOD(name)                                                                        \
    static PyObject *call_##name(PyObject *m, PyObject *const *args, Py_ssize_t n,             \
                                 PyObject *names)                                              \
    {                                                                                          \
        return by_method(m, only_input(#name, args, n, names), n == 0, #name);                 \
    }
BY_METHOD(numel)
BY_METHOD(is_floating_point)
BY_METHOD(is_complex)
BY_METHOD(is_signed)
BY_METHOD(is_inference)
BY_METHOD(is_conj)
BY_METHOD(is_neg)
BY_METHOD(get_device)
BY_METHOD(detach_)
#undef BY_METHOD

static PyObject *set_warn_always(PyObject *m, PyObject *on)
{
    bool always;

    (void)m;
    if (!cr_py_truth(on, &always))
        return NULL;
    cr_thread.warn_always = always;
    Py_RETURN_NONE;
}

static PyObject *has_dnnl(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(cr_conv_has_dnnl());
}

static PyObject *set_dnnl_verbose(PyObject *m, PyObject *level)
{
    long n = PyLong_AsLong(level);

    (void)m;
    if (n == -1 && PyErr_Occurred())
        return NULL;
    cr_conv_dnnl_log(n < 0 ? 0 : n > 2 ? 2 : (int)n);
    Py_RETURN_NONE;
}

/* Whether attention of halves may add in halves: stored for programs that ask. */
static bool math_reduces_in_halves;

static PyObject *get_math_reduction(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(math_reduces_in_halves);
}

static PyObject *set_math_reduction(PyObject *m, PyObject *on)
{
    int truth = PyObject_IsTrue(on);

    (void)m;
    if (truth < 0)
        return NULL;
    math_reduces_in_halves = truth;
    Py_RETURN_NONE;
}

/* Flushes denormal numbers to zero in the calling thread.  Returns False when the processor
 * cannot. */
static PyObject *set_flush_denormal(PyObject *m, PyObject *on)
{
    bool flush;

    (void)m;
    if (!cr_py_truth(on, &flush))
        return NULL;
#ifdef __SSE2__
    cr_status st = cr_defer_flush("set_flush_denormal");
    if (st)
        return cr_py_raise(st);
    unsigned bits = _MM_FLUSH_ZERO_ON | 0x40u; /* denormal inputs are zeros, too */
    _mm_setcsr(flush ? _mm_getcsr() | bits : _mm_getcsr() & ~bits);
    Py_RETURN_TRUE;
#else
    Py_RETURN_FALSE;
#endif
}

#define BY_KEYWORD(name, function, doc)                                                        \
    {                                                                                          \
        name, (PyCFunction)(void (*)(void))function, METH_FASTCALL | METH_KEYWORDS, doc        \
    }
static PyMethodDef functions[] = {
    {"_memory_stats", memory_stats, METH_NOARGS, NULL},
    {"_reset_peak_memory", reset_peak_memory, METH_NOARGS, NULL},
    {"_set_warn_always", set_warn_always, METH_O, NULL},
    {"_has_dnnl", has_dnnl, METH_NOARGS, "Whether oneDNN is found."},
    {"_set_dnnl_verbose", set_dnnl_verbose, METH_O, "oneDNN prints its calls: 0, 1 or 2."},
    {"_get_math_sdp_allow_fp16_bf16_reduction", get_math_reduction, METH_NOARGS, NULL},
    {"_set_math_sdp_allow_fp16_bf16_reduction", set_math_reduction, METH_O, NULL},
    {"set_flush_denormal", set_flush_denormal, METH_O, "Flushes denormal numbers to zero."},
    BY_KEYWORD("numel", call_numel,
               "The number of elements.\n\n"
               "    >>> torch.numel(torch.ones(2, 3))\n"
               "    6\n"),
    BY_KEYWORD("is_floating_point", call_is_floating_point,
               "True when the dtype is floating.\n\n"
               "    >>> torch.is_floating_point(torch.tensor([1., 2.]))\n"
               "    True\n"),
    BY_KEYWORD("is_complex", call_is_complex,
               "True when the dtype is complex.\n\n"
               "    >>> torch.is_complex(torch.tensor([1j]))\n"
               "    True\n"),
    BY_KEYWORD("is_signed", call_is_signed, NULL),
    BY_KEYWORD("is_inference", call_is_inference, NULL),
    BY_KEYWORD("is_conj", call_is_conj, NULL),
    BY_KEYWORD("is_neg", call_is_neg, NULL),
    BY_KEYWORD("get_device", call_get_device, "The device's index, -1 for the CPU."),
    BY_KEYWORD("detach_", call_detach_,
               "Removes the history.\n\n"
               "    >>> torch.ones(2, requires_grad=True).mul(2).detach_().requires_grad\n"
               "    False\n"),
    {"get_default_dtype", get_default_dtype, METH_NOARGS,
     "The dtype of new floating tensors.\n\n"
     "    >>> torch.get_default_dtype()\n"
     "    torch.float32\n"},
    {"set_default_dtype", set_default_dtype, METH_O,
     "Sets the dtype of new floating tensors.\n\n"
     "    >>> torch.set_default_dtype(torch.float32)\n"},
    {"get_num_threads", get_num_threads, METH_NOARGS,
     "The number of threads that one operator may use."},
    {"_set_thread_limit", set_thread_limit, METH_O,
     "Limits the threads of operators that the calling thread runs; 0 removes the limit."},
    {"set_num_threads", set_num_threads, METH_O, "Sets the number of threads of one operator."},
    {"promote_types", promote_types, METH_VARARGS,
     "The smallest dtype that both can be converted to."},
    {"can_cast", (PyCFunction)(void (*)(void))can_cast, METH_VARARGS | METH_KEYWORDS,
     "True when results of one dtype may be stored in another."},
    {"result_type", settings_result_type, METH_VARARGS, "The dtype of an operation on both."},
    {"is_tensor", settings_is_tensor, METH_O,
     "True when the object is a Tensor.\n\n"
     "    >>> torch.is_tensor([1, 2])\n"
     "    False\n"},
    {0}};

int cr_py_settings_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
