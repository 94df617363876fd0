/* Signatures: overloads with their Python parameters, and binding of calls.
 *
 * Binding sets the positional parameters, then keywords, then defaults.  It stores the first
 * misfit in `args`, which explain.c turns into a message. */
#include "py/bind/bind.h"
#include <string.h>

/* --- making --- */

static bool is_factory(const cr_op *op)
{
    bool dtype = false, device = false;

    for (int i = 0; i < op->param_count; i++) {
        dtype |= op->param[i].type == CR_T_DTYPE && op->param[i].keyword_only;
        device |= op->param[i].type == CR_T_DEVICE && op->param[i].keyword_only;
    }
    return dtype && device && !(op->words & CR_WORD_CAST);
}

/* Sets the keyword names.  A function calls its tensor `self` input. */
static int name_params(cr_py_sig *s, bool method)
{
    const cr_op *op = s->op;

    s->name = PyMem_Calloc(op->param_count ? op->param_count : 1, sizeof *s->name);
    if (!s->name) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < op->param_count; i++) {
        bool self =
            !method && op->param[i].type == CR_T_TENSOR && !strcmp(op->param[i].name, "self");
        s->name[i] = PyUnicode_InternFromString(self ? "input" : op->param[i].name);
        if (!s->name[i])
            return -1;
    }
    return 0;
}

static void order_params(cr_py_sig *s, bool method)
{
    const cr_op *op = s->op;
    int n = 0;

    s->self = (int8_t)(method ? cr_op_find_param(op, "self") : -1);
    if (s->self >= 0)
        s->order[n++] = (uint8_t)s->self;
    for (int i = 0; i < op->param_count; i++)
        if (i != s->self && !op->param[i].keyword_only)
            s->order[n++] = (uint8_t)i;
    s->positional = (uint8_t)n;
    int first = s->self >= 0;
    bool alone = n == first + 1 && op->param[s->order[first]].type == CR_T_INTS;
    s->varargs = (int8_t)(alone ? s->order[first] : -1);
}

/* Whether torch's Python has a signature for each of the entry's overloads of tensors and
 * numbers.  It has one for all where tensors may be numbers (clause `aten`, as in `=other`). */
static bool by_numbers(const cr_op *op)
{
    bool some = false;

    for (int i = 0; i < op->aten.count; i++) {
        if (op->aten.list[i].numbers)
            return false;
        some |= op->aten.list[i].scalars != 0;
    }
    return some;
}

static cr_py_sig *sig_new(const cr_op *op, bool method)
{
    cr_py_sig *s = PyMem_Calloc(1, sizeof *s);

    if (!s) {
        PyErr_NoMemory();
        return NULL;
    }
    s->op = op;
    s->out = (op->forms & CR_AS_OUT) && !method;
    s->by_numbers = by_numbers(op->inplace_of ? op->inplace_of : op);
    s->factory = is_factory(op);
    s->device =
        (int8_t)(s->factory && !op->tensor_params ? cr_op_find_param(op, "device") : -1);
    if (name_params(s, method) < 0)
        return NULL;
    order_params(s, method);
    return s;
}

cr_py_sig *cr_py_sig_one(const cr_op *op)
{
    cr_py_sig *s = sig_new(op, false);

    if (s) {
        s->out = false; /* the overload that writes to tensors is another */
        s->by_numbers = false;
        s->overload = true;
    }
    return s;
}

cr_py_sig *cr_py_sig_out(const cr_op *op, const cr_out_overload *o)
{
    cr_py_sig *s = sig_new(op, false);

    if (s) {
        s->out = s->factory = s->by_numbers = false;
        s->overload = true;
        s->given = o->given;
    }
    return s;
}

/* In-place records have no forms; their entry's apply. */
unsigned cr_py_forms(const cr_op *op)
{
    return op->inplace_of ? CR_AS_METHOD | (op->inplace_of->forms & (CR_AS_FUNCTION | CR_AS_NN))
                          : op->forms;
}

cr_py_sig *cr_py_sig_chain(const cr_op *op, unsigned forms, bool method)
{
    cr_py_sig *first = NULL, **last = &first;

    for (; op; op = op->next) {
        if ((forms && !(cr_py_forms(op) & forms)) ||
            (method && cr_op_find_param(op, "self") < 0))
            continue;
        *last = sig_new(op, method);
        if (!*last)
            return NULL;
        last = &(*last)->next;
    }
    return first;
}

/* --- old orders --- */

uint32_t cr_py_old_numbers(const cr_py_sig *s)
{
    const cr_op *op = s->op;
    uint32_t numbers = 0;
    int tensors = 0;

    if (s->overload || !(cr_py_forms(op) & CR_AS_METHOD))
        return 0;
    for (int i = 0; i < op->param_count; i++) {
        const cr_param *p = &op->param[i];
        if (p->keyword_only && p->type == CR_T_SCALAR && p->has_default)
            numbers |= 1u << i;
        else if (!p->keyword_only && p->type == CR_T_TENSOR)
            tensors++;
        else
            return 0;
    }
    return tensors >= 2 && __builtin_popcount(numbers) <= 2 ? numbers : 0;
}

bool cr_py_old_sig(cr_py_sig *out, const cr_py_sig *s, int way)
{
    uint32_t numbers = cr_py_old_numbers(s), last = numbers & (numbers - 1);
    int n = 0, first = (int)CR_CTZ(numbers | 1u << 31);

    if (!numbers || way > (last != 0))
        return false;
    *out = *s;
    if (last && s->self < 0)
        out->order[n++] = (uint8_t)first; /* beta */
    out->order[n++] = s->order[0];
    if (last && s->self >= 0)
        out->order[n++] = (uint8_t)first;
    if (!last || !way)
        out->order[n++] = (uint8_t)CR_CTZ(last ? last : numbers);
    for (int k = 1; k < s->positional; k++)
        out->order[n++] = s->order[k];
    out->positional = (uint8_t)n;
    return true;
}

/* --- binding --- */

static cr_py_fit arg_misfit(cr_py_args *a, int param, int position, PyObject *value)
{
    a->bad_param = param;
    a->bad_position = position;
    a->bad_value = value;
    return CR_PY_MISFIT;
}

static cr_py_fit bind_arg(cr_py_args *a, const cr_py_sig *s, int param, int position,
                          PyObject *x)
{
    cr_py_fit fit = cr_py_convert(a, &s->op->param[param], x, &a->value[param]);

    if (CR_LIKELY(fit == CR_PY_FITS))
        return fit;
    a->bad_spread = false;
    (void)arg_misfit(a, param, position, x);
    return fit;
}

static bool starts_ints(PyObject *x)
{
    int64_t i;

    if (PyLong_Check(x))
        return !PyBool_Check(x);
    if (PyTuple_Check(x) || PyList_Check(x) || PyFloat_Check(x))
        return false;
    return cr_py_size_from(x, &i) == CR_PY_FITS ||
           (!cr_py_is_tensor(x) && cr_py_overrides(Py_TYPE(x)));
}

/* x.view(2, 3): the positional arguments from `first` on form a list. */
static cr_py_fit bind_varargs(cr_py_args *a, const cr_py_sig *s, const cr_py_given *g,
                              int first)
{
    Py_ssize_t n = g->count - first;
    int64_t *ints = cr_py_args_get(a, (size_t)n * sizeof *ints);

    if (!ints)
        return CR_PY_RAISED;
    for (Py_ssize_t i = 0; i < n; i++) {
        cr_py_fit fit = cr_py_size_from(g->args[first + i], &ints[i]);
        if (fit == CR_PY_FITS ||
            cr_py_handles_call(a, &s->op->param[s->varargs], g->args[first + i]))
            continue;
        a->bad_item = i;
        a->bad_spread = true;
        (void)arg_misfit(a, s->varargs, first + 1, g->args[first + i]);
        return fit;
    }
    a->value[s->varargs] = cr_of_ints(ints, (size_t)n);
    return CR_PY_FITS;
}

static bool same_name(PyObject *a, PyObject *b)
{
    return a == b || PyUnicode_Compare(a, b) == 0;
}

/* Names of torch's parameters, each before NumPy's names of it. */
static const char *const numpy_names[][4] = {{"dim", "axis", NULL, NULL},
                                             {"keepdim", "keepdims", NULL, NULL},
                                             {"input", "x", "a", "x1"},
                                             {"other", "x2", NULL, NULL}};

const char *cr_py_torch_name(PyObject *given)
{
    for (size_t i = 0; i < CR_LEN(numpy_names); i++)
        for (int k = 1; k < 4 && numpy_names[i][k]; k++)
            if (!PyUnicode_CompareWithASCIIString(given, numpy_names[i][k]))
                return numpy_names[i][0];
    return NULL;
}

/* True when `given` is NumPy's name of torch's parameter. */
static bool numpy_name(const char *torch, PyObject *given)
{
    const char *name = cr_py_torch_name(given);

    return name && !strcmp(name, torch);
}

int cr_py_find_keyword(const cr_py_sig *s, PyObject *name)
{
    int n = s->op->param_count;

    for (int i = 0; i < n; i++)
        if (s->name[i] == name)
            return i == s->self ? -1 : i;
    for (int i = 0; i < n; i++)
        if (i != s->self &&
            (same_name(s->name[i], name) || numpy_name(PyUnicode_AsUTF8(s->name[i]), name) ||
             !PyUnicode_CompareWithASCIIString(name, s->op->param[i].name)))
            return i;
    return -1;
}

/* Binds a tensor that an overload writes to. */
static cr_py_fit bind_given(cr_py_args *a, const cr_py_sig *s, PyObject *name, PyObject *x)
{
    int n = s->op->result_count, k = 0;

    while (k < n && PyUnicode_CompareWithASCIIString(name, s->given[k]))
        k++;
    if (k == n)
        return arg_misfit(a, -1, 0, name);
    if (!a->given) {
        a->given = cr_py_args_get(a, (size_t)n * sizeof *a->given);
        if (!a->given)
            return CR_PY_RAISED;
        memset(a->given, 0, (size_t)n * sizeof *a->given);
    }
    if (a->given[k])
        return arg_misfit(a, -1, 0, name);
    a->given[k] = x;
    return CR_PY_FITS;
}

/* Raises when a tensor to write to is missing. */
static cr_py_fit check_given(const cr_py_args *a, const cr_py_sig *s)
{
    for (int k = 0; k < s->op->result_count; k++)
        if (!a->given || !a->given[k]) {
            PyErr_Format(PyExc_TypeError, "%s() missing 1 required keyword-only argument: '%s'",
                         s->op->name, s->given[k]);
            return CR_PY_RAISED;
        }
    return CR_PY_FITS;
}

/* True for a tensor, or for a list of tensors where the entry has several results. */
static bool is_out(cr_py_args *a, const cr_py_sig *s, PyObject *x)
{
    const cr_param tensor = {.type = CR_T_TENSOR};

    if (s->op->result_count == 1)
        return cr_py_is_tensor(x) || cr_py_handles_call(a, &tensor, x);
    if (!PyTuple_Check(x) && !PyList_Check(x))
        return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(x, i);
        if (!cr_py_is_tensor(item) && !cr_py_handles_call(a, &tensor, item))
            return false;
    }
    return true;
}

cr_py_fit cr_py_bind_extra(cr_py_args *a, const cr_py_sig *s, PyObject *name, PyObject *x)
{
    const char *text = PyUnicode_AsUTF8(name);

    if (s->given)
        return bind_given(a, s, name, x);
    if (s->out && !strcmp(text, "out")) {
        a->out = x == Py_None ? NULL : x;
        return x == Py_None || is_out(a, s, x) ? CR_PY_FITS : arg_misfit(a, -1, 0, name);
    }
    if (!s->factory)
        return arg_misfit(a, -1, 0, name);
    if (!strcmp(text, "requires_grad") && PyBool_Check(x)) {
        a->requires_grad = x == Py_True;
        return CR_PY_FITS;
    }
    if (!strcmp(text, "pin_memory") && (PyBool_Check(x) || x == Py_None))
        return CR_PY_FITS;
    if (!strcmp(text, "layout") && (Py_IS_TYPE(x, &cr_py_layout_type) || x == Py_None))
        return CR_PY_FITS;
    return arg_misfit(a, -1, 0, name);
}

static cr_py_fit bind_keywords(cr_py_args *a, const cr_py_sig *s, const cr_py_given *g,
                               uint32_t *have)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(g->names); k++) {
        PyObject *name = PyTuple_GET_ITEM(g->names, k), *x = g->args[g->count + k];
        int p = cr_py_find_keyword(s, name);
        cr_py_fit fit = p < 0             ? cr_py_bind_extra(a, s, name, x)
                        : *have >> p & 1u ? arg_misfit(a, -1, 0, name)
                                          : bind_arg(a, s, p, 0, x);
        if (fit != CR_PY_FITS)
            return fit;
        if (p >= 0)
            *have |= 1u << p;
    }
    return CR_PY_FITS;
}

static cr_py_fit bind_defaults(cr_py_args *a, const cr_py_sig *s, uint32_t have)
{
    const cr_op *op = s->op;
    uint32_t missing = ~have & (uint32_t)((1ull << op->param_count) - 1);

    for (; missing; missing &= missing - 1) {
        int i = (int)CR_CTZ(missing);
        if (CR_UNLIKELY(!op->param[i].has_default))
            return arg_misfit(a, i, 0, NULL);
        a->value[i] = op->param[i].preset;
    }
    return CR_PY_FITS;
}

/* The dtype of a factory's `out` is the default of `dtype`. */
static void bind_dtype_of_out(cr_py_args *a, const cr_py_sig *s, uint32_t have)
{
    int p = s->factory && cr_py_is_tensor(a->out) ? cr_op_find_param(s->op, "dtype") : -1;

    if (p >= 0 && !(have >> p & 1))
        a->value[p] = cr_of_dtype((cr_dtype)cr_py_tensor_of(a->out)->dtype);
}

/* Refuses the first number in a call whose numbers are those of no overload. */
static cr_py_fit check_numbers(cr_py_args *a, const cr_py_sig *s, const cr_py_given *g)
{
    const cr_op *op = s->op->inplace_of ? s->op->inplace_of : s->op;
    uint32_t numbers = 0;
    int first;

    for (int i = 0; i < op->param_count; i++)
        numbers |= (uint32_t)(op->param[i].number && a->value[i].tag == CR_NUMBER) << i;
    if (!numbers)
        return CR_PY_FITS;
    for (int i = 0; i < op->aten.count; i++)
        if (!(numbers & ~op->aten.list[i].scalars))
            return CR_PY_FITS;
    first = (int)CR_CTZ(numbers);
    for (int k = 0; k < g->count && k < s->positional; k++)
        if (s->order[k] == first)
            return arg_misfit(a, first, k + 1, g->args[k]);
    return arg_misfit(a, first, 0, Py_None);
}

cr_py_fit cr_py_bind(cr_py_args *a, const cr_py_sig *s, const cr_py_given *g, bool method)
{
    uint32_t have = 0;
    Py_ssize_t n = g->count;
    int first = method;
    cr_py_fit fit;

    if (s->varargs >= 0 && n > first && starts_ints(g->args[first])) {
        if (method && (fit = bind_arg(a, s, s->self, 0, g->args[0])) != CR_PY_FITS)
            return fit;
        fit = bind_varargs(a, s, g, first);
        if (fit != CR_PY_FITS)
            return fit;
        have = 1u << s->varargs | (method ? 1u << s->self : 0);
    } else {
        if (n > s->positional)
            return arg_misfit(a, -1, 0, NULL);
        for (int i = 0; i < n; i++) {
            int p = s->order[i];
            fit = bind_arg(a, s, p, i + 1 - first, g->args[i]);
            if (fit != CR_PY_FITS)
                return fit;
            have |= 1u << p;
        }
    }
    if (g->names && (fit = bind_keywords(a, s, g, &have)) != CR_PY_FITS)
        return fit;
    if (CR_UNLIKELY(s->given != NULL) && (fit = check_given(a, s)) != CR_PY_FITS)
        return fit;
    fit = bind_defaults(a, s, have);
    if (s->by_numbers && fit == CR_PY_FITS)
        fit = check_numbers(a, s, g);
    if (CR_UNLIKELY(a->out != NULL))
        bind_dtype_of_out(a, s, have);
    if (CR_UNLIKELY(s->device >= 0) && fit == CR_PY_FITS && !cr_is_host(cr_thread.device) &&
        a->value[s->device].tag == CR_NONE)
        a->value[s->device] =
            (cr_value){.tag = CR_DEVICE_VAL, .i = cr_packed_device(cr_thread.device)};
    return fit;
}
