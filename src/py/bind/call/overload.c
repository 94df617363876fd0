/* torch's overloads as Python data, from which cresset.ops.aten is made. */
#include "graph/graph.h"
#include "py/bind/bind.h"

static PyObject *schema_text(const cr_op *op, const char *name, const cr_overload *o)
{
    cr_text text = {0};

    cr_op_print_overload(&text, op, name, o);
    return cr_py_text(&text, CR_OK);
}

/* A callable of this overload.  __torch_function__ receives the object that set_shown names. */
static PyObject *callable_of(const cr_op *op, const char *name)
{
    cr_py_sig *sig = cr_py_sig_one(op);

    return sig ? cr_py_op_callable(sig, name, false) : NULL;
}

/* (name, type) of every result. */
PyObject *cr_py_op_results(const cr_op *op)
{
    PyObject *out = PyList_New(op->result_count);

    for (int i = 0; out && i < op->result_count; i++)
        cr_py_put_item(
            &out, i,
            Py_BuildValue("(sN)", op->result[i].name, cr_py_schema_type(op->result[i].type)));
    return out;
}

static PyObject *overload_object(const cr_op *op, const char *name, const cr_overload *o)
{
    const cr_op *entry = op->inplace_of ? op->inplace_of : op;

    return Py_BuildValue("{s:s,s:N,s:N,s:N,s:N,s:I,s:I,s:I,s:I,s:I,s:O,s:O,s:O}", "name",
                         o->name, "schema", schema_text(op, name, o), "callable",
                         callable_of(op, name), "record", cr_py_record(op), "returns",
                         cr_py_op_results(op), "scalars", (unsigned)o->scalars, "numbers",
                         (unsigned)o->numbers, "absent", (unsigned)o->absent, "required",
                         (unsigned)o->required, "positional", (unsigned)o->positional, "random",
                         entry->words & CR_WORD_RANDOM ? Py_True : Py_False, "draws",
                         cr_op_draws(entry) ? Py_True : Py_False, "view",
                         op->does == CR_DOES_MAP ? Py_True : Py_False);
}

static PyObject *out_schema_text(const cr_op *op, const char *name, const cr_out_overload *o)
{
    cr_text text = {0};

    cr_op_print_out_overload(&text, op, name, o);
    return cr_py_text(&text, CR_OK);
}

static PyObject *out_names(const cr_op *op, const cr_out_overload *o)
{
    PyObject *out = PyTuple_New(op->result_count);

    for (int i = 0; out && i < op->result_count; i++)
        cr_py_put_item(&out, i, PyUnicode_FromString(o->given[i]));
    return out;
}

/* Replaces an item of the dict `made`; takes the value. */
static int replace_item(PyObject *made, const char *key, PyObject *value)
{
    int done = value ? PyDict_SetItemString(made, key, value) : -1;

    Py_XDECREF(value);
    return done;
}

static uint32_t lacking(const cr_op *op)
{
    uint32_t bits = 0;

    for (int i = 0; i < op->param_count; i++)
        bits |= (uint32_t)cr_op_out_lacks(op, i) << i;
    return bits;
}

/* As overload_object, with the names of the tensors as "given". */
static PyObject *out_overload_object(const cr_op *op, const char *name,
                                     const cr_out_overload *o)
{
    cr_overload of = *o->of;
    PyObject *made;
    cr_py_sig *sig;

    of.name = o->name;
    of.absent |= lacking(op);
    made = overload_object(op, name, &of);
    sig = made ? cr_py_sig_out(op, o) : NULL;
    if (sig && !replace_item(made, "callable", cr_py_op_callable(sig, name, false)) &&
        !replace_item(made, "schema", out_schema_text(op, name, o)) &&
        !replace_item(made, "given", out_names(op, o)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static int append_overload(PyObject *list, PyObject *o)
{
    int done = o ? PyList_Append(list, o) : -1;

    Py_XDECREF(o);
    return done;
}

static int append_overloads(PyObject *list, const cr_op *op, const char *name)
{
    for (int i = 0; i < op->aten.count; i++)
        if (append_overload(list, overload_object(op, name, &op->aten.list[i])) < 0)
            return -1;
    for (int i = 0; i < op->aten.out_count; i++)
        if (append_overload(list, out_overload_object(op, name, &op->aten.out[i])) < 0)
            return -1;
    return 0;
}

/* The callable of a name in `ops`; NULL without an exception when there is none. */
static const cr_py_op *find_callable(PyObject *module, PyObject *name)
{
    PyObject *ops = PyObject_GetAttrString(module, "ops");
    PyObject *found = ops ? PyDict_GetItemWithError(PyModule_GetDict(ops), name) : NULL;

    Py_XDECREF(ops); /* the module holds a reference */
    return found && Py_IS_TYPE(found, &cr_py_function_type) ? (const cr_py_op *)found : NULL;
}

static PyObject *overloads(PyObject *module, PyObject *name)
{
    const cr_py_op *callable = find_callable(module, name);
    PyObject *list = PyErr_Occurred() ? NULL : PyList_New(0);

    for (const cr_py_sig *s = callable ? callable->chain : NULL; list && s; s = s->next)
        if (append_overloads(list, s->op, PyUnicode_AsUTF8(name)) < 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *all_overloads(PyObject *module, PyObject *name)
{
    const cr_py_op *callable = find_callable(module, name);

    if (!callable)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_KeyError, "%R", name);
    return cr_py_op_callable(callable->chain, PyUnicode_AsUTF8(name), false);
}

static PyObject *set_shown(PyObject *module, PyObject *args)
{
    PyObject *callable, *shown;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O", &cr_py_function_type, &callable, &shown))
        return NULL;
    Py_XSETREF(((cr_py_op *)callable)->shown, Py_NewRef(shown));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_overloads", overloads, METH_O, "torch's overloads of an operator: a list of dicts."},
    {"_all_overloads", all_overloads, METH_O, "The callable of an operator's overloads."},
    {"_set_shown", set_shown, METH_VARARGS,
     "The function that __torch_function__ receives for a callable."},
    {NULL, NULL, 0, NULL}};

int cr_py_overload_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
