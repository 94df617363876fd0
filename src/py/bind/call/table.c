/* The operator table as Python data, for tests, documentation and tools. */
#include "graph/graph.h"
#include "py/bind/bind.h"
#include <string.h>

PyObject *cr_py_schema_type(unsigned type)
{
    bool list;
    const char *name = cr_schema_type(type, &list);

    return PyUnicode_FromFormat("%s%s", name, list ? "[]" : "");
}

static PyObject *ints_list(const cr_value *v)
{
    PyObject *list = PyList_New(v->len);

    for (uint32_t i = 0; list && i < v->len; i++)
        PyList_SET_ITEM(list, i, PyLong_FromLongLong(v->ints[i]));
    return list;
}

static PyObject *preset_object(const cr_param *p)
{
    const cr_value *v = &p->preset;

    switch (v->tag) {
    case CR_INT: return PyLong_FromLongLong(v->i);
    case CR_TRUTH: return PyBool_FromLong((long)v->i);
    case CR_FLOAT: return PyFloat_FromDouble(v->d);
    case CR_NUMBER: return cr_py_scalar_object(v->number);
    case CR_DTYPE_VAL: return Py_NewRef(cr_py_dtype_object((cr_dtype)v->i));
    case CR_STRING: return PyUnicode_FromStringAndSize(v->s, v->len);
    case CR_INTS:
    case CR_TRUTHS: return ints_list(v);
    default: Py_RETURN_NONE;
    }
}

/* How the numbers of parameter i must fit; "" where all are taken. */
static const char *param_fits(const cr_op *op, int i)
{
    static const char *const ways[] = {"wide", "exact", "negated"};

    return op->scalar_params >> i & 1 ? ways[op->fits] : "";
}

static PyObject *param_object(const cr_op *op, int i)
{
    const cr_param *p = &op->param[i];
    PyObject *preset = preset_object(p), *made;

    if (!preset)
        return NULL;
    made = Py_BuildValue(
        "{s:s,s:N,s:s,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:N}", "name", p->name, "type",
        cr_py_schema_type(p->type), "fits", param_fits(op, i), "factor",
        op->factors >> i & 1 ? Py_True : Py_False, "optional", p->optional ? Py_True : Py_False,
        "keyword_only", p->keyword_only ? Py_True : Py_False, "number",
        p->number ? Py_True : Py_False, "written", p->written ? Py_True : Py_False, "mask",
        op->mask_params >> i & 1 ? Py_True : Py_False, "rounds",
        op->rounds >> i & 1 ? Py_True : Py_False, "has_default",
        p->has_default ? Py_True : Py_False, "default", preset);
    return made;
}

typedef struct {
    unsigned bit;
    const char *name;
} word;

static PyObject *words_list(unsigned bits, const word *words, size_t n)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *s = bits & words[i].bit ? PyUnicode_FromString(words[i].name) : NULL;
        if (s && PyList_Append(list, s))
            Py_CLEAR(list);
        Py_XDECREF(s);
    }
    return list;
}

static PyObject *dtypes_list(unsigned dtypes)
{
    PyObject *list = PyList_New(0);

    for (int t = 0; list && t < CR_DTYPE_COUNT; t++) {
        PyObject *s = dtypes >> t & 1 ? PyUnicode_FromString(cr_dtype_name((cr_dtype)t)) : NULL;
        if (s && PyList_Append(list, s))
            Py_CLEAR(list);
        Py_XDECREF(s);
    }
    return list;
}

static PyObject *params_list(const cr_op *op)
{
    PyObject *list = PyList_New(op->param_count);

    for (int i = 0; list && i < op->param_count; i++)
        cr_py_put_item(&list, i, param_object(op, i));
    return list;
}

static PyObject *names_list(const cr_op *op, bool grads)
{
    int n = grads ? op->grad_count : op->result_count;
    PyObject *list = PyList_New(0);

    for (int i = 0; list && i < n; i++) {
        if (grads && !op->grads[i].rule)
            continue;
        cr_py_append(&list,
                     PyUnicode_FromString(grads ? op->grads[i].input : op->result[i].name));
    }
    return list;
}

/* (parameter, number) of clause `neutral`, or None. */
static PyObject *neutral_pair(const cr_op *op)
{
    if (op->neutral.param < 0)
        Py_RETURN_NONE;
    return Py_BuildValue("(sd)", op->param[op->neutral.param].name, op->neutral.number);
}

/* The parameters of clause `updates`, then the one that says when. */
static PyObject *updates_names(const cr_op *op)
{
    PyObject *list = PyList_New(0);

    for (int i = 0; list && i <= op->param_count && op->updates.params; i++) {
        int at = i == op->param_count ? op->updates.when : i;
        PyObject *s = i == op->param_count || op->updates.params >> i & 1
                          ? PyUnicode_FromString(op->param[at].name)
                          : NULL;
        if (s && PyList_Append(list, s))
            Py_CLEAR(list);
        Py_XDECREF(s);
    }
    return list;
}

/* The parameters whose bits are set. */
static PyObject *params_of_bits(const cr_op *op, uint32_t bits)
{
    PyObject *list = PyList_New(0);

    for (int i = 0; list && i < op->param_count; i++) {
        PyObject *s = bits >> i & 1 ? PyUnicode_FromString(op->param[i].name) : NULL;
        if (bits >> i & 1 && (!s || PyList_Append(list, s)))
            Py_CLEAR(list);
        Py_XDECREF(s);
    }
    return list;
}

/* Index tensors whose bounds are stated. */
static uint32_t bounded_params(const cr_op *op)
{
    uint32_t bits = op->defer.within ? 1u << op->defer.within->param : 0;

    for (int i = 0; i < op->loop.index_count; i++)
        bits |= 1u << op->loop.index[i].param;
    return bits;
}

static PyObject *rule_text(const cr_rule *r)
{
    cr_text text = {0};

    if (!r)
        Py_RETURN_NONE;
    cr_rule_print(&text, r);
    return cr_py_text(&text, CR_OK);
}

static PyObject *clause_text(cr_clause_text clause)
{
    cr_text text = {0};

    cr_clause_put(&text, clause);
    return cr_py_text(&text, CR_OK);
}

static bool makes_float(const cr_op *op)
{
    return op->type && op->type->kind == CR_RULE_CALL && op->type->builtin == CR_BUILTIN_float;
}

PyObject *cr_py_record(const cr_op *op)
{
    static const char *const does[CR_DOES_COUNT] = {
        "body", "fold", "map", "is", "loop", "scan", "steps", "extern", "whole", "inplace"};
    static const word forms[] = {
        {CR_AS_FUNCTION, "function"}, {CR_AS_METHOD, "method"}, {CR_AS_INPLACE, "inplace"},
        {CR_AS_OUT, "out"},           {CR_AS_NN, "nn"},         {CR_AS_C, "c"},
        {CR_AS_COPIED, "copied"}};
    static const word words[] = {
#define CR_WORD(NAME, name, promise) {CR_WORD_##NAME, #name},
#include "ops/words.def"
#undef CR_WORD
    };
    cr_text schema = {0};
    PyObject *made;

    cr_op_print_schema(&schema, op);
    made = Py_BuildValue(
        "{s:s,s:s,s:s,s:N,s:N,s:N,s:N,s:N,s:s,s:s,s:s,s:i,s:O,s:O,s:d,s:N,s:N,s:N,s:N,s:N,s:N,"
        "s:z,"
        "s:N,"
        "s:N,s:N,s:z,s:N,s:N,s:O,s:O,s:O,s:N,s:N,s:N,s:N,s:N}",
        "name", op->name, "overload", op->overload, "schema", cr_text_str(&schema), "doc",
        clause_text(op->text.doc), "ref", clause_text(op->text.ref), "sample",
        clause_text(op->text.sample), "example", clause_text(op->text.example), "sizes",
        clause_text(op->text.sizes), "tags", op->text.tags, "does", does[op->does], "file",
        op->text.file, "line", op->text.line, "fused", op->fused ? Py_True : Py_False,
        "makes_float", makes_float(op) ? Py_True : Py_False, "ulp", op->ulp, "params",
        params_list(op), "results", names_list(op, false), "grads", names_list(op, true),
        "dtypes", dtypes_list(op->dtypes), "forms", words_list(op->forms, forms, CR_LEN(forms)),
        "words", words_list(op->words, words, CR_LEN(words)), "inverse", op->inverse.name,
        "inverse_dtypes", dtypes_list(op->inverse.dtypes), "neutral", neutral_pair(op),
        "filled", rule_text(op->filled), "scatter", op->scatter.name, "functional",
        rule_text(op->functional), "updates", updates_names(op), "raises_by_values",
        cr_op_reaches(op, CR_WORD_BIT_RAISES_BY_VALUES) ? Py_True : Py_False, "sized_by_values",
        cr_op_reaches(op, CR_WORD_BIT_SIZED_BY_VALUES) ? Py_True : Py_False, "may_share",
        cr_op_may_share(op) ? Py_True : Py_False, "unread",
        params_of_bits(op, op->defer.unread), "bounded", params_of_bits(op, bounded_params(op)),
        "by_calls", PyBool_FromLong(op->defer.by_calls), "kernel_dtypes",
        dtypes_list(op->fn.dtypes), "axes", clause_text(op->text.axes));
    cr_text_drop(&schema);
    return made;
}

static PyObject *records(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);

    (void)module;
    (void)unused;
    for (int i = 0; list && i < cr_ops_table_count(); i++)
        cr_py_append(&list, cr_py_record(cr_ops_at(i)));
    return list;
}

static PyMethodDef functions[] = {{"_records", records, METH_NOARGS,
                                   "The operator table: a list of dicts, one for each entry."},
                                  {NULL, NULL, 0, NULL}};

int cr_py_table_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
