/* x[...] and x[...] = value.
 *
 * An index is processed from left to right.  Ints, slices and None become views at once.
 * Tensors and sequences are collected by dim, and at the end they become one `index` or
 * `index_put_` call on the view. */
#include "entry.h"
#include "graph/graph.h"
#include "py/bind/bind.h"
#include <string.h>

typedef struct {
    cr_tensor *at;    /* owned: the view so far */
    int64_t dim;      /* dim of `at` that the next item applies to */
    int64_t ellipsis; /* number of dims that `...` stands for */
    int64_t dropped;  /* dims removed by ints, minus dims added by None */
    bool changed;
    /* dims of masks beyond the first of each mask; they have no entry below */
    int64_t masked;
    cr_value index[CR_MAX_DIMS]; /* owned tensors or none */
    uint32_t index_count;
    int bytes; /* index tensors of uint8 */
} walk;

static void walk_drop(walk *w)
{
    cr_drop(w->at);
    cr_drop_values(w->index, (int)w->index_count);
}

/* Calls an operator.  The caller sets arg[0] and the next n arguments. */
static cr_status index_call(const cr_op *op, cr_value *arg, int n, cr_value *result)
{
    cr_py_defaults(op, arg, n + 1);
    return cr_py_call(op, arg, result);
}

/* Replaces the view by a view of the view. */
static int view(walk *w, const cr_op *op, cr_value *arg, int n)
{
    cr_value result;

    arg[0] = cr_of_tensor(w->at);
    cr_status st = index_call(op, arg, n, &result);
    if (st)
        return cr_py_raise_int(st);
    cr_drop(w->at);
    w->at = result.t;
    w->changed = true;
    return 0;
}

/* --- items --- */

/* The value in this call of an integer, which may be a symbol (graph/number.h). */
static int64_t value_seen(int64_t i)
{
    return CR_UNLIKELY(cr_gnum_is_int(i))
               ? cr_recorder_value(cr_recorder_active(), cr_gnum_of_int(i)).i
               : i;
}

/* Fixes the index and the sizes in the recording, which then serves only calls that raise the
 * error too: the program may catch it. */
static int raise_out_of_bounds(const walk *w, int64_t index)
{
    cr_recorder *r = cr_recorder_active();
    int64_t i = value_seen(index);

    cr_py_fix_sizes(w->at);
    if (cr_gnum_is_int(index))
        cr_recorder_ask(r, CR_GNUM_EQ, cr_gnum_of_int(index),
                        cr_recorder_plain_number(r, cr_scalar_int(i)));
    PyErr_Format(PyExc_IndexError,
                 "index %lld is out of bounds for dimension %lld with size %lld", (long long)i,
                 (long long)(w->dim + w->dropped), (long long)w->at->size[w->dim]);
    return -1;
}

/* `index` may be a symbol. */
static int take_int(walk *w, int64_t index)
{
    cr_value arg[CR_MAX_ARGS];
    int64_t i = value_seen(index);

    if (!w->at->ndim) {
        PyErr_SetString(PyExc_IndexError,
                        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                        "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
        return -1;
    }
    int64_t size = w->at->size[w->dim];
    if (i < -size || i >= size)
        return raise_out_of_bounds(w, index);
    arg[1] = cr_of_int(w->dim);
    arg[2] = cr_of_int(index);
    w->dropped++;
    return view(w, cr_entry.select_int, arg, 2);
}

/* start, stop and step; those that are symbols stay symbols. */
static int unpack_slice(PyObject *x, int64_t out[3])
{
    const PySliceObject *s = (const PySliceObject *)x;
    PyObject *bound[] = {s->start, s->stop, s->step}, *plain;
    cr_scalar symbol[3];
    Py_ssize_t read[3];
    bool is_symbol[3];

    for (int k = 0; k < 3; k++) {
        is_symbol[k] =
            cr_py_symbol_scalar(bound[k], &symbol[k]) && symbol[k].category == CR_CAT_INT;
        bound[k] = is_symbol[k] ? Py_None : bound[k];
    }
    plain = PySlice_New(bound[0], bound[1], bound[2]);
    if (!plain || PySlice_Unpack(plain, &read[0], &read[1], &read[2]) < 0) {
        Py_XDECREF(plain);
        return -1;
    }
    Py_DECREF(plain);
    for (int k = 0; k < 3; k++)
        out[k] = is_symbol[k] ? symbol[k].i : read[k];
    return 0;
}

static int read_slice(PyObject *x, int64_t out[3])
{
    Py_ssize_t read[3];

    if (CR_UNLIKELY(cr_recorder_active()))
        return unpack_slice(x, out);
    if (PySlice_Unpack(x, &read[0], &read[1], &read[2]) < 0)
        return -1;
    for (int k = 0; k < 3; k++)
        out[k] = read[k];
    return 0;
}

static int take_slice(walk *w, PyObject *x, bool always)
{
    cr_value arg[CR_MAX_ARGS];
    int64_t bound[3];

    if (read_slice(x, bound) < 0)
        return -1;
    int64_t start = bound[0], stop = bound[1], step = bound[2];
    if (value_seen(step) < 0) {
        PyErr_SetString(PyExc_ValueError, "step must be greater than zero");
        return -1;
    }
    if (!w->at->ndim) {
        PyErr_SetString(PyExc_IndexError, "slice() cannot be applied to a 0-dim tensor.");
        return -1;
    }
    int64_t dim = w->dim++;
    /* While a call is recorded, `stop` must be recorded, because sizes may vary. */
    if (!always && start == 0 && stop >= w->at->size[dim] && step == 1 &&
        (stop == PY_SSIZE_T_MAX || !cr_recorder_active()))
        return 0;
    arg[1] = cr_of_int(dim);
    arg[2] = cr_of_int(start);
    arg[3] = cr_of_int(stop);
    arg[4] = cr_of_int(step);
    return view(w, cr_entry.slice_Tensor, arg, 4);
}

static int take_none(walk *w)
{
    cr_value arg[CR_MAX_ARGS];

    arg[1] = cr_of_int(w->dim++);
    w->dropped--;
    return view(w, cr_entry.unsqueeze, arg, 1);
}

/* Collects t, which indexes `dims` dims.  Takes ownership of t. */
static int index_collect(walk *w, cr_tensor *t, int dims)
{
    while ((int64_t)w->index_count < w->dim - w->masked)
        w->index[w->index_count++] = cr_of_none();
    w->index[w->index_count++] = cr_of_tensor(t);
    w->dim += dims;
    w->masked += dims - 1;
    return 0;
}

/* True adds a dim of size one, False a dim of size zero. */
static int take_bool(walk *w, bool truth)
{
    const int64_t size = truth;
    cr_tensor *t;

    if (take_none(w) < 0)
        return -1;
    w->dim--;
    cr_status st = cr_tensor_new(&t, CR_I64, CR_HOST, 1, &size);
    if (st)
        return cr_py_raise_int(st);
    if (truth) {
        const int64_t zero = 0;
        char *to;
        st = cr_reach(&to, t);
        if (st) {
            cr_drop(t);
            return cr_py_raise_int(st);
        }
        memcpy(to, &zero, sizeof zero);
    }
    return index_collect(w, t, 1);
}

static bool is_mask(const cr_tensor *t) { return t->dtype == CR_BOOL || t->dtype == CR_U8; }

static int index_take_tensor(walk *w, cr_tensor *t)
{
    cr_scalar s;

    w->bytes += t->dtype == CR_U8;
    if (t->ndim || cr_dtype_category((cr_dtype)t->dtype) > CR_CAT_INT ||
        !cr_has_bytes(t->device))
        return index_collect(w, cr_keep(t), is_mask(t) ? t->ndim : 1);
    cr_py_note_read(t, CR_READ_INDEX);
    cr_status st = cr_tensor_item(&s, t);
    if (st)
        return cr_py_raise_int(st);
    return is_mask(t) ? take_bool(w, s.i != 0) : take_int(w, s.i);
}

static int take_sequence(walk *w, PyObject *x)
{
    cr_tensor *t = cr_py_tensor_from_data(x, CR_DTYPE_NONE, CR_HOST);

    if (!t)
        return -1;
    if (!t->numel && cr_dtype_is_float((cr_dtype)t->dtype)) { /* [] has no dtype */
        cr_tensor *longs;
        cr_status st = cr_tensor_new(&longs, CR_I64, CR_HOST, t->ndim, t->size);
        cr_drop(t);
        if (st)
            return cr_py_raise_int(st);
        t = longs;
    }
    int done = index_take_tensor(w, t);
    cr_drop(t);
    return done;
}

static int take_other(walk *w, PyObject *x)
{
    int64_t i;
    cr_py_fit fit = cr_py_size_from(x, &i);

    if (fit == CR_PY_MISFIT && PySequence_Check(x))
        return take_sequence(w, x);
    if (fit == CR_PY_MISFIT)
        PyErr_Format(
            PyExc_IndexError,
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables "
            "are valid indices (got %s)",
            Py_TYPE(x)->tp_name);
    return fit == CR_PY_FITS ? take_int(w, i) : -1;
}

static int index_take(walk *w, PyObject *x, bool alone)
{
    if (PyLong_CheckExact(x)) {
        int64_t i;
        return cr_py_int_from(x, &i) == CR_PY_FITS ? take_int(w, i) : -1;
    }
    if (PySlice_Check(x))
        return take_slice(w, x, alone);
    if (x == Py_None)
        return take_none(w);
    if (x == Py_Ellipsis) {
        w->dim += w->ellipsis;
        return 0;
    }
    if (PyBool_Check(x))
        return take_bool(w, x == Py_True);
    return cr_py_is_tensor(x) ? index_take_tensor(w, cr_py_tensor_of(x)) : take_other(w, x);
}

/* Number of the tensor's dims that an item indexes. */
static int64_t covers(PyObject *x)
{
    if (x == Py_None || x == Py_Ellipsis || PyBool_Check(x))
        return 0;
    if (cr_py_is_tensor(x) && is_mask(cr_py_tensor_of(x)))
        return cr_py_tensor_of(x)->ndim;
    return 1;
}

/* True for a list that contains slices or sequences.  Old programs used such lists as
 * tuples. */
static int is_old_tuple(PyObject *x)
{
    if (PyTuple_Check(x))
        return 1;
    if (cr_py_is_tensor(x) || !PyList_Check(x) || PyList_GET_SIZE(x) >= 32)
        return 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(x); i++) {
        PyObject *y = PyList_GET_ITEM(x, i);
        if (!cr_py_is_tensor(y) && !PySequence_Check(y) && !PySlice_Check(y) &&
            y != Py_Ellipsis && y != Py_None)
            continue;
        return PyErr_WarnEx(PyExc_UserWarning,
                            "Using a non-tuple sequence for multidimensional indexing is "
                            "deprecated and will be changed in pytorch 2.9; use "
                            "x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be "
                            "interpreted as tensor index, x[torch.tensor(seq)], which will "
                            "result either in an error or a different result",
                            2) < 0
                   ? -1
                   : 1;
    }
    return 0;
}

static int take_all(walk *w, PyObject *items)
{
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    int64_t total = 0;

    for (Py_ssize_t i = 0; i < n; i++)
        total += covers(PySequence_Fast_GET_ITEM(items, i));
    if (total > w->at->ndim) {
        PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d",
                     w->at->ndim);
        return -1;
    }
    w->ellipsis = w->at->ndim - total;
    int done = 0;
    for (Py_ssize_t i = 0; !done && i < n; i++) {
        PyObject *item = cr_py_item(items, i);
        done = item ? index_take(w, item, false) : -1;
        Py_XDECREF(item);
    }
    return done < 0 ? -1 : 0;
}

static int walk_index(walk *w, cr_tensor *t, PyObject *index)
{
    int tuple = is_old_tuple(index);

    w->at = cr_keep(t);
    w->dim = w->ellipsis = w->dropped = w->masked = 0;
    w->changed = false;
    w->index_count = 0;
    w->bytes = 0;
    if (tuple < 0)
        return -1;
    if (tuple)
        return take_all(w, index);
    if (covers(index) > t->ndim && cr_py_is_tensor(index)) {
        PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", t->ndim);
        return -1;
    }
    return index_take(w, index, true);
}

/* --- reading --- */

static cr_value collected(walk *w)
{
    return (cr_value){.tag = CR_TENSORS, .len = w->index_count, .list = w->index};
}

/* Warns of each index tensor of uint8. */
static int warn_of_bytes(const walk *w)
{
    static bool said;

    for (int i = 0; i < w->bytes; i++)
        if (cr_py_warn_once(&said,
                            "indexing with dtype torch.uint8 is now deprecated, please use a "
                            "dtype torch.bool instead.") < 0)
            return -1;
    return 0;
}

static PyObject *index_result_of(walk *w)
{
    cr_value arg[CR_MAX_ARGS], result;
    cr_status st;

    arg[0] = cr_of_tensor(w->at);
    if (w->index_count) {
        arg[1] = collected(w);
        st = index_call(cr_entry.index_Tensor, arg, 1, &result);
    } else if (w->changed) {
        return cr_py_wrap_keep(w->at);
    } else {
        st = index_call(cr_entry.alias, arg, 0, &result);
    }
    return st ? cr_py_raise(st) : cr_py_wrap(result.t);
}

/* Finds self and the indices that have a __torch_function__. */
static int handlers(PyObject *self, PyObject *index, PyObject **found)
{
    bool many = PyTuple_Check(index);
    int n = 0;

    if (cr_py_overrides(Py_TYPE(self)))
        found[n++] = self;
    for (Py_ssize_t i = 0; i < (many ? PyTuple_GET_SIZE(index) : 1); i++) {
        PyObject *x = many ? PyTuple_GET_ITEM(index, i) : index;
        if (n < CR_PY_MAX_OVERLOADED && cr_py_overrides(Py_TYPE(x)))
            found[n++] = x;
    }
    return n;
}

/* Calls the method through __torch_function__ when self, or an index that is not a tensor, has
 * one. */
static PyObject *index_overridden(PyObject *self, PyObject *index, PyObject *value)
{
    PyObject *function = PyObject_GetAttrString((PyObject *)cr_py_tensor_type,
                                                value ? "__setitem__" : "__getitem__");
    PyObject *args[] = {self, index, value};
    const cr_py_given g = {args, value ? 3 : 2, NULL};
    PyObject *found[CR_PY_MAX_OVERLOADED], *out;

    if (!function)
        return NULL;
    out = cr_py_mode_count
              ? cr_py_mode_call(function, &g)
              : cr_py_override_call(function, found, handlers(self, index, found), &g);
    Py_DECREF(function);
    return out;
}

static inline bool index_is_plain(PyObject *self)
{
    return CR_LIKELY(!cr_py_mode_count &&
                     (Py_IS_TYPE(self, cr_py_tensor_type) || !cr_py_overrides(Py_TYPE(self))));
}

static inline bool is_foreign(PyObject *x)
{
    return !Py_IS_TYPE(x, &PyLong_Type) && !Py_IS_TYPE(x, &PySlice_Type) &&
           !cr_py_is_tensor(x) && cr_py_overrides(Py_TYPE(x));
}

/* True for an index that is not a tensor and has a __torch_function__. */
static inline bool has_foreign(PyObject *index)
{
    if (!PyTuple_Check(index))
        return is_foreign(index);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(index); i++)
        if (is_foreign(PyTuple_GET_ITEM(index, i)))
            return true;
    return false;
}

/* x[3], the most frequent case. */
static PyObject *select_first(cr_tensor *t, PyObject *index)
{
    cr_value arg[CR_MAX_ARGS], result;
    int overflow;
    int64_t i = PyLong_AsLongLongAndOverflow(index, &overflow);

    if (CR_UNLIKELY(overflow || !t->ndim || i < -t->size[0] || i >= t->size[0]))
        return NULL;
    cr_py_set_tensor(&arg[0], t);
    cr_py_set_int(&arg[1], 0);
    cr_py_set_int(&arg[2], i);
    cr_status st = cr_call(cr_entry.select_int, arg, &result);
    return st ? cr_py_raise(st) : cr_py_wrap(result.t);
}

PyObject *cr_py_subscript(PyObject *self, PyObject *index)
{
    cr_tensor *t = cr_py_tensor_of(self);
    PyObject *out = NULL;
    walk w;

    if (!index_is_plain(self))
        return index_overridden(self, index, NULL);
    if (CR_LIKELY(PyLong_CheckExact(index))) {
        out = select_first(t, index);
        if (CR_LIKELY(out || PyErr_Occurred()))
            return out;
    }
    if (CR_UNLIKELY(has_foreign(index)))
        return index_overridden(self, index, NULL);
    if (walk_index(&w, t, index) == 0 && warn_of_bytes(&w) == 0)
        out = index_result_of(&w);
    walk_drop(&w);
    return out;
}

/* --- writing --- */

/* Floats of 16 and 8 bits take any real number: it becomes infinite, or the largest one. */
static cr_status check_assigned(cr_scalar s, cr_dtype t)
{
    bool small = cr_dtype_is_float(t) && cr_dtype_size(t) < 4;

    return small ? cr_check_fits(cr_scalar_as_complex(s).im == 0 ? cr_scalar_int(0) : s, CR_F64)
                 : cr_check_fits(s, t);
}

/* The value as a tensor (owned): the tensor itself, or a number in the dtype of `t`. */
static cr_tensor *value_tensor(const cr_tensor *t, PyObject *value, bool *number,
                               cr_scalar *scalar)
{
    cr_tensor *made;

    *number = false;
    if (cr_py_is_tensor(value))
        return cr_keep(cr_py_tensor_of(value));
    cr_py_fit fit = cr_py_scalar_from(value, scalar);
    if ((fit == CR_PY_FITS && scalar->category == CR_CAT_INT && scalar->large) ||
        (fit == CR_PY_RAISED && PyErr_ExceptionMatches(PyExc_OverflowError))) {
        PyErr_Clear();
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        return NULL;
    }
    if (fit == CR_PY_MISFIT)
        PyErr_Format(PyExc_TypeError, "can't assign a %s to a %s", Py_TYPE(value)->tp_name,
                     cr_tensor_type_name(t));
    if (fit != CR_PY_FITS)
        return NULL;
    *number = true;
    cr_status st = check_assigned(*scalar, (cr_dtype)t->dtype);
    if (!st)
        st = cr_tensor_scalar(&made, *scalar, (cr_dtype)t->dtype, false);
    if (!st)
        return made;
    cr_py_raise(st);
    return NULL;
}

/* Whether the first dim has the size one; a recording asks only this of a size that varies. */
static bool leads_with_one(cr_tensor *t)
{
    cr_recorder *r = cr_recorder_active();
    int k = r ? cr_recorder_size(r, t, 0) : -1;

    return k < 0 ? t->size[0] == 1
                 : cr_recorder_ask(r, CR_GNUM_EQ, k,
                                   cr_recorder_plain_number(r, cr_scalar_int(1)));
}

/* Drops leading dims of size one while `t` has more than `ndim` dims. */
static int drop_leading(cr_tensor **t, int ndim)
{
    cr_value arg[CR_MAX_ARGS], result;

    while ((*t)->ndim > ndim && leads_with_one(*t)) {
        arg[0] = cr_of_tensor(*t);
        arg[1] = cr_of_int(0);
        arg[2] = cr_of_int(0);
        cr_status st = index_call(cr_entry.select_int, arg, 2, &result);
        if (st)
            return cr_py_raise_int(st);
        cr_drop(*t);
        *t = result.t;
    }
    return 0;
}

/* Checks that the value expands.  torch's message for assignment differs from copy_'s. */
static cr_status check_expands(const cr_tensor *to, const cr_tensor *from)
{
    for (int i = 1; i <= from->ndim && i <= to->ndim; i++) {
        int64_t n = from->size[from->ndim - i], m = to->size[to->ndim - i];
        if (n == m || n == 1)
            continue;
        return cr_fail(
            CR_RUNTIME,
            "The expanded size of the tensor (%lld) must match the existing size (%lld) at "
            "non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
            (long long)m, (long long)n, to->ndim - i, cr_view_text(to), cr_view_text(from));
    }
    return CR_OK;
}

/* Writes to a view. */
static cr_status write_view(walk *w, cr_tensor *from, cr_value *result)
{
    cr_value arg[CR_MAX_ARGS];

    arg[0] = cr_of_tensor(w->at);
    arg[1] = cr_of_tensor(from);
    CR_TRY(check_expands(w->at, from));
    return index_call(cr_entry.copy_, arg, 1, result);
}

/* Writes to the places of index tensors.  masked_fill_ computes a number's assignment by a
 * single mask in torch, which says nothing of uint8. */
static cr_status write_places(walk *w, cr_tensor *from, cr_value *result)
{
    cr_value arg[CR_MAX_ARGS];

    arg[0] = cr_of_tensor(w->at);
    arg[1] = collected(w);
    arg[2] = cr_of_tensor(from);
    return index_call(cr_entry.index_put_, arg, 2, result);
}

static bool fills_by_mask(const walk *w, const cr_tensor *from)
{
    int tensors = 0;

    for (uint32_t i = 0; i < w->index_count; i++)
        tensors += w->index[i].tag == CR_TENSOR;
    return !from->ndim && tensors == 1;
}

/* The warnings of a write; -1 with an exception. */
static int warn_of_write(const walk *w, const cr_tensor *from)
{
    if (!w->index_count)
        return cr_py_warn_cast((cr_dtype)from->dtype, (cr_dtype)w->at->dtype);
    if (!fills_by_mask(w, from) && warn_of_bytes(w) < 0)
        return -1;
    return cr_py_warn_expanded(cr_entry.index_put_, w->at);
}

static int write_value(walk *w, PyObject *value)
{
    cr_value arg[CR_MAX_ARGS], result;
    cr_scalar scalar;
    bool number;
    cr_tensor *from = value_tensor(w->at, value, &number, &scalar);
    cr_status st;

    if (!from)
        return -1;
    if (number && !w->index_count && cr_scalar_fits(scalar, (cr_dtype)w->at->dtype) &&
        !cr_has_internal_overlap(w->at)) {
        arg[0] = cr_of_tensor(w->at);
        arg[1] = cr_of_number(scalar);
        st = index_call(cr_entry.fill__Scalar, arg, 1, &result);
    } else if (drop_leading(&from, w->index_count ? 0 : w->at->ndim) < 0 ||
               warn_of_write(w, from) < 0) {
        cr_drop(from);
        return -1;
    } else {
        st = w->index_count ? write_places(w, from, &result) : write_view(w, from, &result);
    }
    cr_drop(from);
    if (st)
        return cr_py_raise_int(st);
    cr_drop(result.t);
    return 0;
}

int cr_py_ass_subscript(PyObject *self, PyObject *index, PyObject *value)
{
    int done = -1;
    walk w;

    if (!value) {
        PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
        return -1;
    }
    if (cr_py_tensor_of(self)->layout) {
        PyErr_SetString(PyExc_TypeError, "Cannot assign to a sparse tensor");
        return -1;
    }
    if (!index_is_plain(self) || has_foreign(index)) {
        PyObject *out = index_overridden(self, index, value);
        Py_XDECREF(out);
        return out ? 0 : -1;
    }
    if (index == Py_False)
        return 0;
    if (walk_index(&w, cr_py_tensor_of(self), index == Py_True ? Py_None : index) == 0)
        done = write_value(&w, value);
    walk_drop(&w);
    return done;
}
