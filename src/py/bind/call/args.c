/* Arguments: converts a Python object to a tagged value by the schema's type. */
#include "graph/number.h"
#include "py/bind/bind.h"
#include <string.h>

/* --- memory of one call --- */

typedef struct block {
    struct block *next;
    _Alignas(16) char bytes[];
} block;

void *cr_py_args_get(cr_py_args *a, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (a->used + size <= sizeof a->scratch) {
        void *p = a->scratch + a->used;
        a->used += size;
        return p;
    }
    block *b = PyMem_RawMalloc(sizeof *b + size);
    if (!b) {
        PyErr_NoMemory();
        return NULL;
    }
    b->next = a->blocks;
    a->blocks = b;
    return b->bytes;
}

typedef struct held_list {
    struct held_list *next;
    PyObject *items;
} held_list;

/* The items of `x`, borrowed from `a`: while arguments are converted and while the call runs,
 * the program may change a list, but not a tuple. */
static PyObject *args_hold(cr_py_args *a, PyObject *x)
{
    held_list *h;

    if (PyTuple_Check(x) || !PyList_GET_SIZE(x))
        return x;
    h = cr_py_args_get(a, sizeof *h);
    PyObject *items = h ? PyList_AsTuple(x) : NULL;
    if (!items)
        return NULL;
    *h = (held_list){a->held, items};
    a->held = h;
    return items;
}

void cr_py_args_release(cr_py_args *a)
{
    for (held_list *h = a->held; h; h = h->next)
        Py_DECREF(h->items);
    a->held = NULL;
    while (a->blocks) {
        block *b = a->blocks;
        a->blocks = b->next;
        PyMem_RawFree(b);
    }
}

/* --- objects with __torch_function__ --- */

/* Adds `x` to the overloaded arguments: subclasses before their base classes, else in the order
 * of the arguments. */
static void note_overloaded(cr_py_args *a, PyObject *x)
{
    int at = a->overloaded_count;

    for (int i = 0; i < a->overloaded_count; i++)
        if (Py_TYPE(a->overloaded[i]) == Py_TYPE(x))
            return;
    if (a->overloaded_count == CR_PY_MAX_OVERLOADED)
        return;
    for (int i = a->overloaded_count - 1; i >= 0; i--)
        if (PyType_IsSubtype(Py_TYPE(x), Py_TYPE(a->overloaded[i])))
            at = i;
    memmove(a->overloaded + at + 1, a->overloaded + at,
            (size_t)(a->overloaded_count - at) * sizeof *a->overloaded);
    a->overloaded[at] = x;
    a->overloaded_count++;
}

/* --- one value --- */

static cr_py_fit args_to_tensor(cr_py_args *a, const cr_param *p, PyObject *x, cr_value *out)
{
    if (CR_LIKELY(Py_IS_TYPE(x, cr_py_tensor_type))) {
        cr_py_set_tensor(out, cr_py_tensor_of(x));
        return CR_PY_FITS;
    }
    if (x == Py_None) {
        *out = cr_of_none();
        return p->optional ? CR_PY_FITS : CR_PY_MISFIT;
    }
    bool subclass = cr_py_is_tensor(x);
    if (cr_py_overrides(Py_TYPE(x)))
        note_overloaded(a, x);
    else if (!subclass && p->number) {
        out->tag = CR_NUMBER;
        return cr_py_symbol_scalar(x, &out->number) ? CR_PY_FITS
                                                    : cr_py_scalar_from(x, &out->number);
    } else if (!subclass)
        return CR_PY_MISFIT;
    *out = cr_of_tensor(subclass ? cr_py_tensor_of(x) : NULL);
    return CR_PY_FITS;
}

/* The number in a tensor of one element. */
static cr_py_fit scalar_of_tensor(PyObject *x, cr_scalar *out)
{
    const cr_tensor *t;

    if (!cr_py_is_tensor(x))
        return CR_PY_MISFIT;
    t = cr_py_tensor_of(x);
    if (t->ndim || t->requires_grad || !cr_has_bytes(t->device))
        return CR_PY_MISFIT;
    cr_py_note_read(t, CR_READ_NUMBER);
    cr_status st = cr_tensor_item(out, t);
    if (!st)
        return CR_PY_FITS;
    cr_py_raise(st);
    return CR_PY_RAISED;
}

static cr_py_fit to_scalar(PyObject *x, cr_scalar *out)
{
    cr_py_fit fit;

    if (CR_UNLIKELY(cr_py_symbol_scalar(x, out)))
        return CR_PY_FITS;
    fit = cr_py_scalar_from(x, out);
    return fit == CR_PY_MISFIT ? scalar_of_tensor(x, out) : fit;
}

static cr_py_fit args_to_number(PyObject *x, cr_value *out)
{
    out->tag = CR_NUMBER;
    return to_scalar(x, &out->number);
}

static cr_py_fit args_to_float(PyObject *x, cr_value *out)
{
    cr_scalar s;
    cr_py_fit fit;

    if (CR_LIKELY(PyFloat_CheckExact(x))) {
        out->tag = CR_FLOAT;
        out->d = PyFloat_AS_DOUBLE(x);
        return CR_PY_FITS;
    }
    if (PyLong_CheckExact(x) || PyBool_Check(x)) {
        *out = cr_of_float(PyLong_AsDouble(x));
        return out->d == -1.0 && PyErr_Occurred() ? CR_PY_RAISED : CR_PY_FITS;
    }
    fit = to_scalar(x, &s);
    if (fit != CR_PY_FITS)
        return fit;
    *out = cr_gnum_of(s) >= 0 ? cr_of_float(cr_gnum_as_float(cr_gnum_of(s)))
                              : cr_of_float(cr_scalar_as_double(s));
    return s.category == CR_CAT_COMPLEX ? CR_PY_MISFIT : CR_PY_FITS;
}

static cr_py_fit args_to_int(PyObject *x, cr_value *out)
{
    out->tag = CR_INT;
    return cr_py_size_from(x, &out->i);
}

static cr_py_fit args_to_bool(PyObject *x, cr_value *out)
{
    cr_scalar s;

    if (CR_LIKELY(PyBool_Check(x))) {
        out->tag = CR_TRUTH;
        out->i = x == Py_True;
        return CR_PY_FITS;
    }
    if (!cr_py_is_numpy_scalar(x) || cr_py_scalar_from(x, &s) != CR_PY_FITS ||
        s.category != CR_CAT_BOOL)
        return PyErr_Occurred() ? CR_PY_RAISED : CR_PY_MISFIT;
    *out = cr_of_bool(s.i != 0);
    return CR_PY_FITS;
}

static cr_py_fit args_to_string(PyObject *x, cr_value *out)
{
    Py_ssize_t len;

    if (!PyUnicode_Check(x))
        return CR_PY_MISFIT;
    const char *s = PyUnicode_AsUTF8AndSize(x, &len);
    *out = (cr_value){.tag = CR_STRING, .len = (uint32_t)len, .s = s};
    return s ? CR_PY_FITS : CR_PY_RAISED;
}

static cr_py_fit args_to_dtype(PyObject *x, cr_value *out)
{
    cr_dtype t = cr_py_dtype_from(x);

    *out = cr_of_dtype(t);
    if (CR_UNLIKELY(t == CR_DTYPE_NONE))
        return cr_py_refuse_named(x) ? CR_PY_RAISED : CR_PY_MISFIT;
    return CR_PY_FITS;
}

static cr_py_fit args_to_device(PyObject *x, cr_value *out)
{
    int kind, index;
    int done = cr_py_device_from(x, &kind, &index);

    if (done <= 0)
        return done < 0 ? CR_PY_RAISED : CR_PY_MISFIT;
    *out = (cr_value){.tag = CR_DEVICE_VAL, .i = cr_device_pack(kind, index)};
    return CR_PY_FITS;
}

static cr_py_fit to_constant(PyObject *x, PyTypeObject *type, cr_tag tag, cr_value *out)
{
    if (!Py_IS_TYPE(x, type))
        return CR_PY_MISFIT;
    *out = (cr_value){.tag = (uint8_t)tag, .i = ((cr_py_constant *)x)->value};
    return CR_PY_FITS;
}

static cr_py_fit to_layout(PyObject *x, cr_value *out)
{
    cr_py_fit fit = to_constant(x, &cr_py_layout_type, CR_LAYOUT_VAL, out);

    if (fit != CR_PY_FITS || out->i < CR_LAYOUT_COUNT)
        return fit;
    PyErr_SetString(PyExc_NotImplementedError,
                    "tensors of the layout torch.jagged are made by torch.nested");
    return CR_PY_RAISED;
}

static cr_py_fit to_generator(PyObject *x, cr_value *out)
{
    if (!Py_IS_TYPE(x, &cr_py_generator_type))
        return CR_PY_MISFIT;
    *out = (cr_value){.tag = CR_GENERATOR, .generator = ((cr_py_generator *)x)->generator};
    return CR_PY_FITS;
}

/* --- lists --- */

/* Fills an int[2] and the like with one value. */
static cr_py_fit args_spread(cr_py_args *a, const cr_param *p, cr_tag tag, int64_t i,
                             cr_value *out)
{
    int64_t *ints = cr_py_args_get(a, (size_t)p->fixed * sizeof *ints);

    if (!ints)
        return CR_PY_RAISED;
    for (int k = 0; k < p->fixed; k++)
        ints[k] = i;
    *out = (cr_value){.tag = (uint8_t)tag, .len = (uint32_t)p->fixed, .ints = ints};
    return CR_PY_FITS;
}

static bool is_list(PyObject *x) { return PyTuple_Check(x) || PyList_Check(x); }

static cr_py_fit args_int_item(PyObject *list, Py_ssize_t i, int64_t *out)
{
    PyObject *item = cr_py_item(list, i);

    if (CR_UNLIKELY(!item))
        return CR_PY_RAISED;
    *out = item == Py_True;
    cr_py_fit fit = PyBool_Check(item) ? CR_PY_FITS : cr_py_size_from(item, out);
    Py_DECREF(item);
    return fit;
}

static cr_py_fit args_to_ints(cr_py_args *a, const cr_param *p, PyObject *x, cr_value *out)
{
    int64_t one;

    if (!is_list(x)) {
        cr_py_fit fit = p->fixed ? cr_py_size_from(x, &one) : CR_PY_MISFIT;
        return fit == CR_PY_FITS ? args_spread(a, p, CR_INTS, one, out) : fit;
    }
    Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
    int64_t *ints = cr_py_args_get(a, (size_t)n * sizeof *ints);
    if (!ints)
        return CR_PY_RAISED;
    for (Py_ssize_t i = 0; i < n; i++) {
        cr_py_fit fit = args_int_item(x, i, &ints[i]);
        if (fit != CR_PY_FITS) {
            a->bad_item = i;
            return fit;
        }
    }
    *out = cr_of_ints(ints, (size_t)n);
    return CR_PY_FITS;
}

static cr_py_fit to_bools(cr_py_args *a, const cr_param *p, PyObject *x, cr_value *out)
{
    if (PyBool_Check(x) && p->fixed)
        return args_spread(a, p, CR_TRUTHS, x == Py_True, out);
    if (!is_list(x))
        return CR_PY_MISFIT;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
    int64_t *ints = cr_py_args_get(a, (size_t)n * sizeof *ints);
    if (!ints)
        return CR_PY_RAISED;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(x, i);
        a->bad_item = i;
        if (!PyBool_Check(item))
            return CR_PY_MISFIT;
        ints[i] = item == Py_True;
    }
    *out = (cr_value){.tag = CR_TRUTHS, .len = (uint32_t)n, .ints = ints};
    return CR_PY_FITS;
}

static cr_py_fit args_to_floats(cr_py_args *a, const cr_param *p, PyObject *x, cr_value *out)
{
    cr_value one;
    bool single = !is_list(x) && p->fixed;

    if (!is_list(x) && !single)
        return CR_PY_MISFIT;
    if (!single && !(x = args_hold(a, x)))
        return CR_PY_RAISED;
    Py_ssize_t n = single ? p->fixed : PySequence_Fast_GET_SIZE(x);
    double *floats = cr_py_args_get(a, (size_t)n * sizeof *floats);
    if (!floats)
        return CR_PY_RAISED;
    for (Py_ssize_t i = 0; i < n; i++) {
        cr_py_fit fit = args_to_float(single ? x : PySequence_Fast_GET_ITEM(x, i), &one);
        if (fit != CR_PY_FITS) {
            a->bad_item = single ? -1 : i;
            return fit;
        }
        floats[i] = one.d;
    }
    *out = (cr_value){.tag = CR_FLOATS, .len = (uint32_t)n, .floats = floats};
    return CR_PY_FITS;
}

/* Lists of tensors or numbers. */
static cr_py_fit to_values(cr_py_args *a, const cr_param *p, PyObject *x, cr_value *out)
{
    const cr_param item = {.type = CR_T_TENSOR, .optional = p->item_optional};
    bool tensors = p->type == CR_T_TENSORS;

    if (!is_list(x))
        return CR_PY_MISFIT;
    if (!(x = args_hold(a, x)))
        return CR_PY_RAISED;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
    cr_value *list = cr_py_args_get(a, (size_t)n * sizeof *list);
    if (!list)
        return CR_PY_RAISED;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *y = PySequence_Fast_GET_ITEM(x, i);
        cr_py_fit fit =
            tensors ? args_to_tensor(a, &item, y, &list[i]) : args_to_number(y, &list[i]);
        if (fit != CR_PY_FITS) {
            a->bad_item = i;
            return fit;
        }
    }
    *out =
        (cr_value){.tag = tensors ? CR_TENSORS : CR_NUMBERS, .len = (uint32_t)n, .list = list};
    return CR_PY_FITS;
}

bool cr_py_handles_call(cr_py_args *a, const cr_param *p, PyObject *x)
{
    bool found = !cr_py_is_tensor(x) && cr_py_overrides(Py_TYPE(x));

    if (found)
        note_overloaded(a, x);
    else if ((p->type == CR_T_INTS || p->type == CR_T_SCALARS || p->type == CR_T_FLOATS) &&
             is_list(x))
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); i++)
            found |= cr_py_handles_call(a, &(cr_param){.type = CR_T_INT},
                                        PySequence_Fast_GET_ITEM(x, i));
    return found;
}

/* torch takes None for a list of integers with the default []. */
static bool defaults_to_empty_list(const cr_param *p)
{
    return p->type == CR_T_INTS && p->has_default && p->preset.tag == CR_INTS && !p->preset.len;
}

static cr_py_fit to_other(cr_py_args *a, const cr_param *p, PyObject *x, cr_value *out)
{
    if (x == Py_None && (p->optional || defaults_to_empty_list(p))) {
        *out = p->optional ? cr_of_none() : p->preset;
        return CR_PY_FITS;
    }
    a->bad_item = -1;
    switch ((cr_type)p->type) {
    case CR_T_TENSOR: break;
    case CR_T_TENSORS:
    case CR_T_SCALARS: return to_values(a, p, x, out);
    case CR_T_SCALAR: return args_to_number(x, out);
    case CR_T_INT: return args_to_int(x, out);
    case CR_T_INTS: return args_to_ints(a, p, x, out);
    case CR_T_FLOAT: return args_to_float(x, out);
    case CR_T_FLOATS: return args_to_floats(a, p, x, out);
    case CR_T_BOOL: return args_to_bool(x, out);
    case CR_T_BOOLS: return to_bools(a, p, x, out);
    case CR_T_STRING: return args_to_string(x, out);
    case CR_T_DTYPE: return args_to_dtype(x, out);
    case CR_T_LAYOUT: return to_layout(x, out);
    case CR_T_DEVICE: return args_to_device(x, out);
    case CR_T_FORMAT: return to_constant(x, &cr_py_format_type, CR_FORMAT_VAL, out);
    case CR_T_GENERATOR: return to_generator(x, out);
    }
    return CR_PY_MISFIT;
}

cr_py_fit cr_py_convert(cr_py_args *a, const cr_param *p, PyObject *x, cr_value *out)
{
    cr_py_fit fit;

    if (p->type == CR_T_TENSOR)
        return args_to_tensor(a, p, x, out);
    fit = to_other(a, p, x, out);
    if (CR_LIKELY(fit != CR_PY_MISFIT) || !cr_py_handles_call(a, p, x))
        return fit;
    *out = cr_of_none(); /* the call will go to the object's __torch_function__ */
    return CR_PY_FITS;
}
