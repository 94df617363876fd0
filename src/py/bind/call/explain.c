/* Error messages for calls that match no signature, in torch's words. */
#include "py/bind/bind.h"
#include <string.h>

typedef struct {
    const char *name;
    const cr_py_given *g;
    bool method;
} call;

/* A signature as torch lists it: torch has several where an entry's clause `aten` says that
 * parameters are absent, have no default or are numbers. */
typedef struct {
    const cr_py_sig *sig;
    uint32_t absent, required; /* bits of parameters */
    uint32_t scalars;          /* tensors of the entry that are numbers */
    uint32_t moved;            /* numbers that are no keywords */
} listed;

enum { LISTED_MOST = 16 };

static Py_ssize_t given_positional(const call *c) { return c->g->count - c->method; }

static Py_ssize_t given_keywords(const call *c)
{
    return c->g->names ? PyTuple_GET_SIZE(c->g->names) : 0;
}

/* The class name of x in torch's messages. */
static const char *type_name(PyObject *x)
{
    const char *name = Py_TYPE(x)->tp_name;
    size_t n = strlen(cr_py_root());
    char *own;

    if (strncmp(name, cr_py_root(), n) || name[n] != '.')
        return name;
    own = cr_error_scratch();
    snprintf(own, CR_SCRATCH_BYTES, "torch%s", name + n);
    return own;
}

/* --- signatures as text --- */

static void print_preset_number(cr_text *out, cr_scalar s)
{
    if (s.category == CR_CAT_INT)
        cr_text_printf(out, "%lld", (long long)s.i);
    else
        cr_text_printf(out, "%g", cr_scalar_as_double(s));
}

static void print_ints(cr_text *out, const cr_value *v)
{
    bool same = v->len > 0;

    for (uint32_t i = 1; i < v->len; i++)
        same &= v->ints[i] == v->ints[0];
    if (same) {
        cr_text_printf(out, "%lld", (long long)v->ints[0]);
        return;
    }
    cr_text_char(out, '[');
    for (uint32_t i = 0; i < v->len; i++)
        cr_text_printf(out, "%s%lld", i ? ", " : "", (long long)v->ints[i]);
    cr_text_char(out, ']');
}

static void print_default(cr_text *out, const cr_param *p)
{
    const cr_value *v = &p->preset;

    switch (v->tag) {
    case CR_TRUTH: cr_text_put(out, v->i ? "True" : "False"); break;
    case CR_INT: cr_text_printf(out, "%lld", (long long)v->i); break;
    case CR_FLOAT: cr_text_printf(out, "%g", v->d); break;
    case CR_NUMBER: print_preset_number(out, v->number); break;
    case CR_STRING: cr_text_printf(out, "\"%.*s\"", (int)v->len, v->s); break;
    case CR_INTS:
    case CR_TRUTHS: print_ints(out, v); break;
    default: cr_text_put(out, "None");
    }
}

static bool has_default(const listed *l, int i)
{
    return l->sig->op->param[i].has_default && !(l->required >> i & 1);
}

static void print_signature_param(cr_text *out, const listed *l, int i)
{
    const cr_param *p = &l->sig->op->param[i];

    if (l->scalars >> i & 1)
        cr_text_printf(out, "Number %s", p->name);
    else
        cr_text_printf(out, "%s %s", cr_param_type_text(p), PyUnicode_AsUTF8(l->sig->name[i]));
    if (has_default(l, i)) {
        cr_text_put(out, " = ");
        print_default(out, p);
    }
}

/* "(Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None)" */
static void print_sig(cr_text *out, const listed *l)
{
    const cr_py_sig *s = l->sig;
    bool star = false;
    int n = 0;

    cr_text_char(out, '(');
    for (int k = s->self >= 0; k < s->positional; k++) {
        if (l->absent >> s->order[k] & 1)
            continue;
        cr_text_put(out, n++ ? ", " : "");
        print_signature_param(out, l, s->order[k]);
    }
    for (int i = 0; i < s->op->param_count; i++) {
        if (!s->op->param[i].keyword_only || l->moved >> i & 1)
            continue;
        cr_text_printf(out, "%s%s", n++ ? ", " : "", star ? "" : "*, ");
        star = true;
        print_signature_param(out, l, i);
    }
    if (s->out)
        cr_text_printf(out, "%s%s%s out = None", n++ ? ", " : "", star ? "" : "*, ",
                       s->op->result_count > 1 ? "tuple of Tensors" : "Tensor");
    if (s->factory)
        cr_text_printf(out, "%s%sbool requires_grad = False", n ? ", " : "",
                       star || s->out ? "" : "*, ");
    cr_text_char(out, ')');
}

static void print_given(cr_text *out, const call *c)
{
    Py_ssize_t n = given_positional(c), k = given_keywords(c);

    cr_text_char(out, '(');
    for (Py_ssize_t i = 0; i < n; i++)
        cr_text_printf(out, "%s%s", i ? ", " : "", type_name(c->g->args[c->method + i]));
    for (Py_ssize_t i = 0; i < k; i++)
        cr_text_printf(out, "%s%s=%s%s", n || i ? ", " : "",
                       PyUnicode_AsUTF8(PyTuple_GET_ITEM(c->g->names, i)),
                       type_name(c->g->args[c->g->count + i]), !n && i + 1 == k ? ", " : "");
    cr_text_char(out, ')');
}

/* --- several signatures --- */

static bool fits_param(const listed *l, int param, PyObject *x)
{
    cr_param p = l->sig->op->param[param];
    cr_py_args a;
    cr_value v;

    if (l->scalars >> param & 1)
        p.type = CR_T_SCALAR;
    p.number &= !l->sig->by_numbers;
    cr_py_args_init(&a);
    cr_py_fit fit = cr_py_convert(&a, &p, x, &v);
    cr_py_args_drop(&a);
    if (!cr_py_forget_error())
        cr_py_raise_later();
    return fit == CR_PY_FITS;
}

/* Number of words between commas that print_sig prints; "()" counts as one. */
static int shown(const listed *l)
{
    const cr_py_sig *s = l->sig;
    int n = 0, keywords = s->out + s->factory;

    for (int k = s->self >= 0; k < s->positional; k++)
        n += !(l->absent >> s->order[k] & 1);
    for (int i = 0; i < s->op->param_count; i++)
        keywords += s->op->param[i].keyword_only;
    n += keywords ? keywords + 1 : 0;
    return n ? n : 1;
}

/* Prints the type of x: "int", but "tuple of (int, float)" for sequences. */
static void print_argument_type(cr_text *out, PyObject *x)
{
    bool list = PyList_Check(x);

    cr_text_put(out, type_name(x));
    if (!(list || PyTuple_Check(x)) || !PySequence_Fast_GET_SIZE(x))
        return;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); i++)
        cr_text_printf(out, "%s%s",
                       i      ? ", "
                       : list ? " of ["
                              : " of (",
                       type_name(PySequence_Fast_GET_ITEM(x, i)));
    cr_text_char(out, list ? ']' : ')');
}

/* Prints which arguments have a wrong type when their number is right. */
static void print_wrong_types(cr_text *out, const call *c, const listed *l)
{
    const cr_py_sig *s = l->sig;
    int first = c->method, n = (int)given_positional(c);

    if (given_keywords(c) || n != shown(l))
        return;
    cr_text_put(out,
                "\n      didn't match because some of the arguments have invalid types: (");
    for (int i = 0; i < n; i++) {
        PyObject *x = c->g->args[first + i];
        bool good = first + i < s->positional && fits_param(l, s->order[first + i], x);
        cr_text_put(out, i ? ", " : "");
        cr_text_put(out, good ? "" : "!");
        print_argument_type(out, x);
        cr_text_put(out, good ? "" : "!");
    }
    cr_text_char(out, ')');
}

static bool knows_keyword(const cr_py_sig *s, PyObject *name)
{
    static const char *const of_factories[] = {"layout", "pin_memory", "requires_grad"};
    bool known = cr_py_find_keyword(s, name) >= 0 ||
                 (s->out && !PyUnicode_CompareWithASCIIString(name, "out"));

    for (size_t i = 0; s->factory && i < CR_LEN(of_factories); i++)
        known |= !PyUnicode_CompareWithASCIIString(name, of_factories[i]);
    for (int i = 0; s->given && i < s->op->result_count; i++)
        known |= !PyUnicode_CompareWithASCIIString(name, s->given[i]);
    return known;
}

static void print_wrong_keywords(cr_text *out, const call *c, const listed *l)
{
    int n = 0;

    if (given_positional(c) + given_keywords(c) != shown(l))
        return;
    for (Py_ssize_t i = 0; i < given_keywords(c); i++) {
        PyObject *name = PyTuple_GET_ITEM(c->g->names, i);
        if (knows_keyword(l->sig, name))
            continue;
        cr_text_printf(
            out, "%s%s",
            n++ ? ", " : "\n      didn't match because some of the keywords were incorrect: ",
            PyUnicode_AsUTF8(name));
    }
}

static PyObject *raise_text(cr_text *text)
{
    if (text->failed)
        PyErr_NoMemory();
    else
        PyErr_SetString(PyExc_TypeError, cr_text_str(text));
    cr_text_drop(text);
    return NULL;
}

/* Prints the keywords that the signature lacks; false when there are none. */
static bool print_unknown_keywords(cr_text *out, const call *c, const cr_py_sig *s)
{
    int n = 0;

    for (Py_ssize_t i = 0; i < given_keywords(c); i++) {
        PyObject *name = PyTuple_GET_ITEM(c->g->names, i);
        if (!knows_keyword(s, name))
            cr_text_printf(out, "%s%s", n++ ? ", " : "unrecognized keyword arguments: ",
                           PyUnicode_AsUTF8(name));
    }
    return n > 0;
}

static PyObject *explain_many(const call *c, const listed *list, int count)
{
    cr_text out = {0};

    cr_text_printf(&out, "%s() received an invalid combination of arguments - got ", c->name);
    if (count == 1 && print_unknown_keywords(&out, c, list->sig))
        return raise_text(&out);
    print_given(&out, c);
    cr_text_put(&out, ", but expected ");
    if (count == 1) {
        print_sig(&out, list);
        return raise_text(&out);
    }
    cr_text_put(&out, "one of:\n");
    for (const listed *l = list; l < list + count; l++) {
        cr_text_put(&out, " * ");
        print_sig(&out, l);
        print_wrong_keywords(&out, c, l);
        print_wrong_types(&out, c, l);
        cr_text_char(&out, '\n');
    }
    return raise_text(&out);
}

/* --- one signature --- */

/* The parameters in the order in which torch looks for their arguments, without self: the
 * positional ones, of which there are *positional, then the keywords.  Returns their number. */
static int ordered_params(const listed *l, int order[CR_MAX_ARGS], int *positional)
{
    const cr_py_sig *s = l->sig;
    int n = 0;

    for (int k = s->self >= 0; k < s->positional; k++)
        if (!(l->absent >> s->order[k] & 1))
            order[n++] = s->order[k];
    *positional = n;
    for (int i = 0; i < s->op->param_count; i++)
        if (s->op->param[i].keyword_only && !((l->absent | l->moved) >> i & 1))
            order[n++] = i;
    return n;
}

static int required_arguments(const listed *l)
{
    int order[CR_MAX_ARGS], positional, n = 0, count = ordered_params(l, order, &positional);

    for (int k = 0; k < count; k++)
        n += !has_default(l, order[k]);
    return n;
}

/* torch's text counts keywords that have no default, too: "takes from 3 to 2". */
static PyObject *raise_too_many(const call *c, const listed *l)
{
    int order[CR_MAX_ARGS], most, least = required_arguments(l);
    Py_ssize_t n = given_positional(c);

    (void)ordered_params(l, order, &most);
    if (least != most)
        return PyErr_Format(PyExc_TypeError,
                            "%s() takes from %d to %d positional arguments but %zd were given",
                            c->name, least, most, n);
    return PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd %s given",
                        c->name, most, most == 1 ? "" : "s", n, n == 1 ? "was" : "were");
}

/* The message lists, as torch does, each parameter without default from the first missing one
 * on, also those that were given. */
static PyObject *raise_missing(const call *c, const listed *l, const int *order, int count)
{
    const cr_py_sig *s = l->sig;
    cr_text names = {0}, out = {0};
    int n = 0;

    for (int k = 0; k < count; k++)
        if (!has_default(l, order[k]))
            cr_text_printf(&names, "%s\"%s\"", n++ ? ", " : "",
                           PyUnicode_AsUTF8(s->name[order[k]]));
    cr_text_printf(&out, "%s() missing %d required positional argument%s: %s", c->name, n,
                   n == 1 ? "s" : "", cr_text_str(&names)); /* torch's plural */
    cr_text_drop(&names);
    return raise_text(&out);
}

/* The position of a parameter among the positional ones, without self. */
static int argument_number(const cr_py_sig *s, int param)
{
    int first = s->self >= 0;

    for (int k = first; k < s->positional; k++)
        if (s->order[k] == param)
            return k - first;
    return s->positional - first;
}

static PyObject *raise_wrong_type(const call *c, const cr_py_sig *s, const cr_py_args *a)
{
    const cr_param *p = &s->op->param[a->bad_param];
    PyObject *name = s->name[a->bad_param], *x = a->bad_value;
    char where[32] = "";
    bool list = !a->bad_spread && a->bad_item >= 0 && (PyTuple_Check(x) || PyList_Check(x));
    PyObject *item = list ? PySequence_Fast_GET_ITEM(x, a->bad_item) : x;

    if (p->type == CR_T_TENSORS && list)
        return PyErr_Format(PyExc_TypeError,
                            "expected Tensor as element %zd in argument %d, but got %s",
                            a->bad_item, argument_number(s, a->bad_param), type_name(item));
    if (a->bad_position > 0)
        snprintf(where, sizeof where, " (position %d)", a->bad_position);
    if (p->type == CR_T_INTS && a->bad_item > 0)
        return PyErr_Format(
            PyExc_TypeError,
            "%s(): argument '%U' failed to unpack the object at pos %zd with error "
            "\"type must be tuple of ints,but got %s\"",
            c->name, name, a->bad_item + 1, type_name(item));
    if (p->type != CR_T_TENSOR && list)
        return PyErr_Format(
            PyExc_TypeError,
            "%s(): argument '%U'%s must be %s, but found element of type %s at pos %zd",
            c->name, name, where, cr_param_type_text(p), type_name(item), a->bad_item);
    return PyErr_Format(PyExc_TypeError, "%s(): argument '%U'%s must be %s, not %s", c->name,
                        name, where, cr_param_type_text(p), type_name(x));
}

void cr_py_explain_raised(const char *name, const cr_py_sig *s, const cr_py_args *a)
{
    PyObject *x = a->bad_value;

    if (x && s->op->param[a->bad_param].type == CR_T_INTS && a->bad_item >= 0 &&
        (a->bad_spread || PyTuple_Check(x) || PyList_Check(x)))
        cr_py_blame_item(name, PyUnicode_AsUTF8(s->name[a->bad_param]), a->bad_item);
}

/* The value of the keyword that is parameter `param`; NULL when it is not given. */
static PyObject *keyword_value(const call *c, const cr_py_sig *s, int param)
{
    for (Py_ssize_t i = 0; i < given_keywords(c); i++)
        if (cr_py_find_keyword(s, PyTuple_GET_ITEM(c->g->names, i)) == param)
            return c->g->args[c->g->count + i];
    return NULL;
}

/* True when an argument is given positionally, or as a keyword, for a parameter that torch's
 * signature requires, and the entry's does not. */
static bool lacks_required(const call *c, const listed *l)
{
    int order[CR_MAX_ARGS], positional, count = ordered_params(l, order, &positional);

    for (int k = 0; k < count; k++)
        if (l->required >> order[k] & 1 && k >= given_positional(c) &&
            !keyword_value(c, l->sig, order[k]))
            return true;
    return false;
}

/* Converts an argument, and sets the members of `a` about a misfit. */
static cr_py_fit try_argument(cr_py_args *a, const listed *l, int param, int position,
                              PyObject *x)
{
    cr_param p = l->sig->op->param[param];
    cr_value v;

    if (l->scalars >> param & 1)
        p.type = CR_T_SCALAR;
    p.number &= !l->sig->by_numbers;
    a->bad_item = -1;
    a->bad_spread = false;
    a->bad_param = param;
    a->bad_position = position;
    a->bad_value = x;
    return cr_py_convert(a, &p, x, &v);
}

/* Keywords that are no parameters of entries, in the order in which torch looks for them. */
static PyObject *explain_further_keywords(const call *c, const cr_py_sig *s)
{
    static const char *const types[][2] = {{"out", "Tensor"},
                                           {"layout", "torch.layout"},
                                           {"pin_memory", "bool"},
                                           {"requires_grad", "bool"}};

    for (size_t t = 0; t < CR_LEN(types); t++)
        for (Py_ssize_t i = 0; i < given_keywords(c); i++) {
            PyObject *name = PyTuple_GET_ITEM(c->g->names, i);
            PyObject *x = c->g->args[c->g->count + i];
            const char *type = !t && s->op->result_count > 1 ? "tuple of Tensors" : types[t][1];
            cr_py_args a;
            if ((t ? !s->factory : !s->out) ||
                PyUnicode_CompareWithASCIIString(name, types[t][0]) ||
                cr_py_find_keyword(s, name) >= 0)
                continue;
            cr_py_args_init(&a);
            cr_py_fit fit = cr_py_bind_extra(&a, s, name, x);
            cr_py_args_drop(&a);
            if (fit != CR_PY_FITS)
                return PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be %s, not %s",
                                    c->name, types[t][0], type, type_name(x));
        }
    return NULL;
}

/* Refuses the first keyword that is no parameter, or one that a positional argument is. */
static PyObject *explain_keywords(const call *c, const listed *l, const int *order)
{
    for (Py_ssize_t i = 0; i < given_keywords(c); i++) {
        PyObject *name = PyTuple_GET_ITEM(c->g->names, i);
        if (!knows_keyword(l->sig, name))
            return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'",
                                c->name, name);
        for (Py_ssize_t k = 0; k < given_positional(c); k++)
            if (cr_py_find_keyword(l->sig, name) == order[k])
                return PyErr_Format(PyExc_TypeError,
                                    "%s() got multiple values for argument '%U'", c->name,
                                    name);
    }
    return explain_many(c, l, 1);
}

/* Of x.view(2, "a") the item that is no size; NULL without an exception when there is none. */
static PyObject *explain_varargs(const call *c, const cr_py_sig *s)
{
    const cr_py_given positional = {c->g->args, c->g->count, NULL};
    PyObject *done = NULL;
    cr_py_args a;

    cr_py_args_init(&a);
    a.bad_item = -1;
    a.bad_spread = false;
    if (cr_py_bind(&a, s, &positional, c->method) == CR_PY_MISFIT && a.bad_value)
        done = raise_wrong_type(c, s, &a);
    cr_py_args_drop(&a);
    return done;
}

/* Looks for the first reason in torch's order: too many positional arguments; for each
 * parameter, that it is missing or has a wrong type; keywords that are no parameters. */
static PyObject *explain_one(const call *c, const listed *l)
{
    const cr_py_sig *s = l->sig;
    int order[CR_MAX_ARGS], positional, count = ordered_params(l, order, &positional), k = 0;
    Py_ssize_t n = given_positional(c);
    PyObject *done = NULL;
    cr_py_fit fit = CR_PY_FITS;
    cr_py_args a;

    if (s->varargs >= 0 && n > 0) {
        done = explain_varargs(c, s);
        if (done || PyErr_Occurred())
            return done;
        k = 1;
    }
    if (n > positional)
        return raise_too_many(c, l);
    cr_py_args_init(&a);
    for (; k < count && fit == CR_PY_FITS; k++) {
        PyObject *x = k < n ? c->g->args[c->method + k] : keyword_value(c, s, order[k]);
        if (x)
            fit = try_argument(&a, l, order[k], k < n ? k + 1 : 0, x);
        else if (!has_default(l, order[k]))
            break;
    }
    if (fit == CR_PY_MISFIT)
        done = raise_wrong_type(c, s, &a);
    else if (fit == CR_PY_FITS && k < count)
        done = raise_missing(c, l, order + k, count - k);
    cr_py_args_drop(&a);
    if (fit != CR_PY_FITS || k < count)
        return done;
    done = explain_further_keywords(c, s);
    return done || PyErr_Occurred() ? done : explain_keywords(c, l, order);
}

/* True when the signature accepts this number of arguments. */
static bool plausible(const call *c, const listed *l)
{
    const cr_py_sig *s = l->sig;
    Py_ssize_t n = given_positional(c) + given_keywords(c);
    int absent = __builtin_popcount(l->absent), least = required_arguments(l);
    int most = s->op->param_count - absent - (s->self >= 0) + s->out + 3 * s->factory;

    return n >= least && (n <= most || s->varargs >= 0);
}

/* Those with numbers follow those with tensors in their places. */
static void list_by_numbers(listed *list, int count)
{
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && list[k].scalars < list[k - 1].scalars; k--) {
            listed moved = list[k];
            list[k] = list[k - 1];
            list[k - 1] = moved;
        }
}

/* Appends what torch lists for a signature.  Returns the new length. */
static int list_signature(listed *list, int n, const char *name, const cr_py_sig *s)
{
    const cr_op *op = s->op->inplace_of && s->by_numbers ? s->op->inplace_of : s->op;
    int from = n, count = 0;
    bool several = false, own = !strcmp(name, s->op->name);

    for (int i = 0; i < op->aten.count; i++) {
        count += !(own && op->aten.list[i].unlisted);
        several |= op->aten.list[i].absent != 0;
    }
    several |= s->by_numbers || count > 1;
    for (int i = 0; several && i < op->aten.count && n < LISTED_MOST; i++) {
        const cr_overload *o = &op->aten.list[i];
        if (!(own && o->unlisted) && (s->self < 0 || !(o->scalars >> s->self & 1)))
            list[n++] = (listed){
                .sig = s, .absent = o->absent, .required = o->required, .scalars = o->scalars};
    }
    list_by_numbers(list + from, n - from);
    bool hidden = own && op->aten.count == 1 && op->aten.list->unlisted;
    if (!several && !hidden && n < LISTED_MOST)
        list[n++] = (listed){.sig = s};
    return n;
}

/* True when only an item of a list of sizes is wrong, which torch converts after it has chosen
 * the signature. */
static bool has_wrong_size(const call *c, const listed *l)
{
    cr_py_args a;

    cr_py_args_init(&a);
    a.bad_item = -1;
    cr_py_fit fit = cr_py_bind(&a, l->sig, c->g, c->method);
    bool wrong = fit != CR_PY_RAISED && !lacks_required(c, l) && a.bad_param >= 0 &&
                 a.bad_value && a.bad_item > 0 &&
                 l->sig->op->param[a.bad_param].type == CR_T_INTS;
    cr_py_args_drop(&a);
    return wrong;
}

/* A method without parameters, as CPython refuses arguments of a function in C. */
static PyObject *explain_none(const call *c)
{
    if (given_keywords(c))
        return PyErr_Format(PyExc_TypeError, "TensorBase.%s() takes no keyword arguments",
                            c->name);
    return PyErr_Format(PyExc_TypeError, "TensorBase.%s() takes no arguments (%zd given)",
                        c->name, given_positional(c));
}

PyObject *cr_py_explain(const char *name, const cr_py_sig *chain, const cr_py_given *g,
                        bool method)
{
    const call c = {name, g, method};
    listed list[LISTED_MOST];
    const listed *only = NULL;
    int n = 0, count = 0;

    if (method && !chain->next && chain->op->param_count == 1)
        return explain_none(&c);
    for (const cr_py_sig *s = chain; s; s = s->next)
        n = list_signature(list, n, name, s);
    /* One signature, and none that torch hides. */
    if (n == 1 && !cr_py_old_numbers(list->sig))
        return explain_one(&c, list);
    for (int i = 0; i < n; i++)
        if (plausible(&c, &list[i])) {
            only = &list[i];
            count++;
            if (has_wrong_size(&c, only) || PyErr_Occurred())
                return PyErr_Occurred() ? NULL : explain_one(&c, only);
        }
    return count == 1 ? explain_one(&c, only) : explain_many(&c, list, n);
}

/* --- signatures of old programs --- */

cr_status cr_py_text_of_old(cr_text *out, const char *name, const cr_py_sig *old,
                            const cr_py_sig *sig)
{
    uint32_t numbers = cr_py_old_numbers(sig);
    const listed was = {.sig = old, .required = numbers, .moved = numbers};
    const listed is = {.sig = sig};

    cr_text_printf(out, "This overload of %s is deprecated:\n\t%s", name, name);
    print_sig(out, &was);
    cr_text_printf(out, "\nConsider using one of the following signatures instead:\n\t%s",
                   name);
    print_sig(out, &is);
    return out->failed ? CR_MEMORY : CR_OK;
}
