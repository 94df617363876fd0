/* torch.dtype: one object for each dtype; finfo and iinfo. */
#include "py/bind/bind.h"
#include <float.h>
#include <string.h>

static cr_py_dtype *objects[CR_DTYPE_COUNT];

/* Dtypes that programs name and no tensor here has: those of quantized tensors, bits, and
 * numbers of fewer than 8 bits.  Their number is CR_DTYPE_COUNT and above. */
typedef struct {
    const char *name, *legacy;
    uint8_t size;
    char sort; /* signed, unsigned or float; bits; quantized */
} named_dtype;
static const named_dtype named_dtypes[] = {{"qint8", "QInt8", 1, 'q'},
                                           {"quint8", "QUInt8", 1, 'q'},
                                           {"qint32", "QInt32", 4, 'q'},
                                           {"quint4x2", "QUInt4x2", 1, 'q'},
                                           {"quint2x4", "QUInt2x4", 1, 'q'},
                                           {"bits1x8", "Bits1x8", 1, 'b'},
                                           {"bits2x4", "Bits2x4", 1, 'b'},
                                           {"bits4x2", "Bits4x2", 1, 'b'},
                                           {"bits8", "Bits8", 1, 'b'},
                                           {"bits16", "Bits16", 2, 'b'},
                                           {"uint1", "UInt1", 1, 'u'},
                                           {"uint2", "UInt2", 1, 'u'},
                                           {"uint3", "UInt3", 1, 'u'},
                                           {"uint4", "UInt4", 1, 'u'},
                                           {"uint5", "UInt5", 1, 'u'},
                                           {"uint6", "UInt6", 1, 'u'},
                                           {"uint7", "UInt7", 1, 'u'},
                                           {"int1", "Int1", 1, 's'},
                                           {"int2", "Int2", 1, 's'},
                                           {"int3", "Int3", 1, 's'},
                                           {"int4", "Int4", 1, 's'},
                                           {"int5", "Int5", 1, 's'},
                                           {"int6", "Int6", 1, 's'},
                                           {"int7", "Int7", 1, 's'},
                                           {"float4_e2m1fn_x2", "Float4_e2m1fn_x2", 1, 'f'}};

/* NULL for a dtype of tensors. */
static const named_dtype *named_of(PyObject *self)
{
    int k = ((cr_py_dtype *)self)->dtype - CR_DTYPE_COUNT;

    return k >= 0 ? &named_dtypes[k] : NULL;
}

bool cr_py_refuse_named(PyObject *x)
{
    const named_dtype *n = Py_IS_TYPE(x, &cr_py_dtype_type) ? named_of(x) : NULL;

    if (n)
        PyErr_Format(PyExc_NotImplementedError,
                     "torch.%s is a name alone: no tensor of Cresset has this dtype", n->name);
    return n != NULL;
}

PyObject *cr_py_dtype_object(cr_dtype t) { return (PyObject *)objects[t]; }

cr_dtype cr_py_dtype_from(PyObject *x)
{
    if (Py_IS_TYPE(x, &cr_py_dtype_type))
        return named_of(x) ? CR_DTYPE_NONE : (cr_dtype)((cr_py_dtype *)x)->dtype;
    if (x == (PyObject *)&PyFloat_Type)
        return CR_F64;
    if (x == (PyObject *)&PyBool_Type)
        return CR_BOOL;
    if (x == (PyObject *)&PyLong_Type)
        return CR_I64;
    return x == (PyObject *)&PyComplex_Type ? CR_C128 : CR_DTYPE_NONE;
}

static cr_dtype dtype_of_object(PyObject *self) { return ((cr_py_dtype *)self)->dtype; }

static const char *dtype_name_of(PyObject *self)
{
    const named_dtype *n = named_of(self);

    return n ? n->name : cr_dtype_name(dtype_of_object(self));
}

static PyObject *dtype_repr(PyObject *self)
{
    return PyUnicode_FromFormat("torch.%s", dtype_name_of(self));
}

static PyObject *dtype_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyUnicode_FromString(dtype_name_of(self));
}

static PyObject *dtype_is_float(PyObject *self, void *unused)
{
    const named_dtype *n = named_of(self);

    (void)unused;
    return PyBool_FromLong(n ? n->sort == 'f' : cr_dtype_is_float(dtype_of_object(self)));
}

static PyObject *dtype_is_complex(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!named_of(self) && cr_dtype_is_complex(dtype_of_object(self)));
}

static PyObject *dtype_is_signed(PyObject *self, void *unused)
{
    const named_dtype *n = named_of(self);

    (void)unused;
    if (n && n->sort == 'b')
        return PyErr_Format(PyExc_RuntimeError, "Bits types are undefined");
    if (n && n->sort == 'q')
        return PyErr_Format(PyExc_RuntimeError,
                            "isSignedType not supported for quantized types");
    return PyBool_FromLong(n ? n->sort != 'u' : cr_dtype_is_signed(dtype_of_object(self)));
}

static PyObject *dtype_itemsize(PyObject *self, void *unused)
{
    const named_dtype *n = named_of(self);

    (void)unused;
    return PyLong_FromSize_t(n ? n->size : cr_dtype_size(dtype_of_object(self)));
}

static PyObject *dtype_to_real(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(named_of(self) ? self
                                    : cr_py_dtype_object(cr_dtype_real(dtype_of_object(self))));
}

static PyObject *dtype_to_complex(PyObject *self, PyObject *unused)
{
    const named_dtype *n = named_of(self);
    cr_dtype t = n ? CR_BOOL : dtype_of_object(self), complex = cr_dtype_complex(t);

    (void)unused;
    if (n || complex == CR_DTYPE_NONE || (cr_dtype_is_stored(t) && !cr_dtype_is_complex(t)))
        return PyErr_Format(PyExc_RuntimeError, "Unknown Complex ScalarType for %s",
                            n ? n->legacy : cr_dtype_infos[t].legacy);
    return Py_NewRef(cr_py_dtype_object(complex));
}

static PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, NULL},
    {"to_real", dtype_to_real, METH_NOARGS, "The real type of the same precision."},
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex type of the same precision."},
    {0}};

static PyGetSetDef dtype_getset[] = {
    {"is_floating_point", dtype_is_float, NULL, NULL, NULL},
    {"is_complex", dtype_is_complex, NULL, NULL, NULL},
    {"is_signed", dtype_is_signed, NULL, NULL, NULL},
    {"itemsize", dtype_itemsize, NULL, "Bytes of one element.", NULL},
    {0}};

PyTypeObject cr_py_dtype_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dtype",
    .tp_basicsize = sizeof(cr_py_dtype),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "The type of a tensor's elements.",
    .tp_repr = dtype_repr,
    .tp_methods = dtype_methods,
    .tp_getset = dtype_getset,
};

/* --- finfo, iinfo --- */

typedef struct {
    PyObject_HEAD uint8_t dtype;
} type_info;

typedef struct {
    double eps, max, min, tiny, resolution;
} float_facts;

static float_facts facts_of(cr_dtype t)
{
    switch (cr_dtype_real(t)) {
    case CR_F16: return (float_facts){0x1p-10, 65504, -65504, 0x1p-14, 1e-3};
    case CR_BF16: return (float_facts){0x1p-7, 0x1.fep127, -0x1.fep127, 0x1p-126, 1e-2};
    case CR_F64: return (float_facts){DBL_EPSILON, DBL_MAX, -DBL_MAX, DBL_MIN, 1e-15};
    case CR_E4M3FN: return (float_facts){0x1p-3, 448, -448, 0x1p-6, 1};
    case CR_E5M2: return (float_facts){0x1p-2, 57344, -57344, 0x1p-14, 1};
    case CR_E4M3FNUZ: return (float_facts){0x1p-3, 240, -240, 0x1p-7, 1};
    case CR_E5M2FNUZ: return (float_facts){0x1p-3, 57344, -57344, 0x1p-15, 1};
    case CR_E8M0FNU: return (float_facts){1, 0x1p127, 0x1p-127, 0x1p-127, 1};
    default:
        return (float_facts){(double)FLT_EPSILON, (double)FLT_MAX, -(double)FLT_MAX,
                             (double)FLT_MIN, 1e-6};
    }
}

static PyObject *info_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(cr_dtype_name(((type_info *)self)->dtype));
}

static PyObject *info_bits(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(8 * cr_dtype_size(cr_dtype_real(((type_info *)self)->dtype)));
}

#define FACT(field)                                                                            \
    static PyObject *finfo_##field(PyObject *self, void *unused)                               \
    {                                                                                          \
        (void)unused;                                                                          \
        return PyFloat_FromDouble(facts_of(((type_info *)self)->dtype).field);                 \
    }
FACT(eps)
FACT(max)
FACT(min)
FACT(tiny)
FACT(resolution)
#undef FACT

static PyObject *finfo_repr(PyObject *self)
{
    float_facts f = facts_of(((type_info *)self)->dtype);
    char text[256];

    snprintf(
        text, sizeof text,
        "finfo(resolution=%g, min=%g, max=%g, eps=%g, smallest_normal=%g, tiny=%g, dtype=%s)",
        f.resolution, f.min, f.max, f.eps, f.tiny, f.tiny,
        cr_dtype_name(((type_info *)self)->dtype));
    return PyUnicode_FromString(text);
}

static uint64_t iinfo_largest(cr_dtype t)
{
    return UINT64_MAX >> (64 - 8 * cr_dtype_size(t) + cr_dtype_is_signed(t));
}

static int64_t iinfo_smallest(cr_dtype t)
{
    return cr_dtype_is_signed(t) ? INT64_MIN >> (64 - 8 * cr_dtype_size(t)) : 0;
}

static PyObject *iinfo_max(PyObject *self, void *unused)
{
    cr_dtype t = ((type_info *)self)->dtype;

    (void)unused;
    return PyLong_FromUnsignedLongLong(iinfo_largest(t));
}

static PyObject *iinfo_min(PyObject *self, void *unused)
{
    cr_dtype t = ((type_info *)self)->dtype;

    (void)unused;
    return PyLong_FromLongLong(iinfo_smallest(t));
}

/* Prints the limits as floats, as torch does. */
static PyObject *iinfo_repr(PyObject *self)
{
    cr_dtype t = ((type_info *)self)->dtype;
    char text[128];

    snprintf(text, sizeof text, "iinfo(min=%g, max=%g, dtype=%s)", (double)iinfo_smallest(t),
             (double)iinfo_largest(t), cr_dtype_name(t));
    return PyUnicode_FromString(text);
}

static PyObject *info_new(PyTypeObject *type, cr_dtype t)
{
    type_info *self = (type_info *)type->tp_alloc(type, 0);

    if (self)
        self->dtype = (uint8_t)t;
    return (PyObject *)self;
}

/* False with an exception: `x` is no dtype. */
static bool is_info_dtype(const char *name, PyObject *x)
{
    if (cr_py_dtype_from(x) != CR_DTYPE_NONE)
        return true;
    PyErr_Format(PyExc_TypeError,
                 "%s(): argument 'type' (position 1) must be torch.dtype, not %s", name,
                 Py_TYPE(x)->tp_name);
    return false;
}

static PyObject *finfo_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"type", NULL};
    PyObject *x = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:finfo", names, &x))
        return NULL;
    if (x && !is_info_dtype("finfo", x))
        return NULL;
    cr_dtype t = x ? cr_py_dtype_from(x) : cr_default_dtype();
    if (t == CR_DTYPE_NONE || !cr_dtype_is_inexact(t)) {
        PyErr_Format(PyExc_TypeError, "torch.finfo() requires a floating point input type. Use "
                                      "torch.iinfo to handle 'torch.finfo'");
        return NULL;
    }
    return info_new(type, cr_dtype_real(t));
}

static PyObject *iinfo_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"type", NULL};
    PyObject *x;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:iinfo", names, &x))
        return NULL;
    if (!is_info_dtype("iinfo", x))
        return NULL;
    cr_dtype t = cr_py_dtype_from(x);
    if (t == CR_DTYPE_NONE || cr_dtype_category(t) != CR_CAT_INT) {
        PyErr_Format(PyExc_TypeError, t == CR_BOOL
                                          ? "torch.bool is not supported by torch.iinfo"
                                          : "torch.iinfo() requires an integer input type. Use "
                                            "torch.finfo to handle 'torch.iinfo'");
        return NULL;
    }
    return info_new(type, t);
}

static PyObject *info_compare(PyObject *a, PyObject *b, int op)
{
    if (!Py_IS_TYPE(b, Py_TYPE(a)) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    bool same = ((type_info *)a)->dtype == ((type_info *)b)->dtype;
    return PyBool_FromLong(same == (op == Py_EQ));
}

static PyGetSetDef finfo_getset[] = {{"dtype", info_dtype, NULL, NULL, NULL},
                                     {"bits", info_bits, NULL, NULL, NULL},
                                     {"eps", finfo_eps, NULL, NULL, NULL},
                                     {"max", finfo_max, NULL, NULL, NULL},
                                     {"min", finfo_min, NULL, NULL, NULL},
                                     {"tiny", finfo_tiny, NULL, NULL, NULL},
                                     {"smallest_normal", finfo_tiny, NULL, NULL, NULL},
                                     {"resolution", finfo_resolution, NULL, NULL, NULL},
                                     {0}};
static PyGetSetDef iinfo_getset[] = {{"dtype", info_dtype, NULL, NULL, NULL},
                                     {"bits", info_bits, NULL, NULL, NULL},
                                     {"max", iinfo_max, NULL, NULL, NULL},
                                     {"min", iinfo_min, NULL, NULL, NULL},
                                     {0}};

static PyTypeObject finfo_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "finfo",
    .tp_doc = "The limits of a floating or complex dtype.\n\n"
              "    >>> torch.finfo(torch.float16).max\n"
              "    65504.0\n",
    .tp_basicsize = sizeof(type_info),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = finfo_new,
    .tp_repr = finfo_repr,
    .tp_richcompare = info_compare,
    .tp_getset = finfo_getset,
};
static PyTypeObject iinfo_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "iinfo",
    .tp_doc = "The limits of an integer dtype.\n\n"
              "    >>> torch.iinfo(torch.int8).min\n"
              "    -128\n",
    .tp_basicsize = sizeof(type_info),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = iinfo_new,
    .tp_repr = iinfo_repr,
    .tp_richcompare = info_compare,
    .tp_getset = iinfo_getset,
};

/* Adds torch's names of a dtype: "float32", "float". */
static int add_names(PyObject *m, cr_dtype t)
{
    const cr_dtype_info *info = &cr_dtype_infos[t];

    if (PyModule_AddObjectRef(m, info->name, (PyObject *)objects[t]) < 0)
        return -1;
    return info->alias ? PyModule_AddObjectRef(m, info->alias, (PyObject *)objects[t]) : 0;
}

int cr_py_dtype_start(PyObject *m)
{
    if (cr_py_add_type(m, "dtype", &cr_py_dtype_type) < 0 ||
        cr_py_add_type(m, "finfo", &finfo_type) < 0 ||
        cr_py_add_type(m, "iinfo", &iinfo_type) < 0)
        return -1;
    for (int t = 0; t < CR_DTYPE_COUNT; t++) {
        objects[t] = PyObject_New(cr_py_dtype, &cr_py_dtype_type);
        if (!objects[t])
            return -1;
        objects[t]->dtype = (uint8_t)t;
        if (add_names(m, (cr_dtype)t) < 0)
            return -1;
    }
    for (size_t k = 0; k < CR_LEN(named_dtypes); k++) {
        cr_py_dtype *made = PyObject_New(cr_py_dtype, &cr_py_dtype_type);
        if (!made)
            return -1;
        made->dtype = (uint8_t)(CR_DTYPE_COUNT + k);
        if (PyModule_AddObjectRef(m, named_dtypes[k].name, (PyObject *)made) < 0)
            return -1;
    }
    return 0;
}
