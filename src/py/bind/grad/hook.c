/* Hooks written in Python.
 *
 * All hooks of one kind on one tensor or node are in an OrderedDict, which one C hook owns.  A
 * RemovableHandle removes its entry from the dict.  The order of hooks is therefore the dict's,
 * and the garbage collector sees one object. */
#include "graph/graph.h"
#include "py/bind/bind.h"
#include <string.h>

/* --- the dicts --- */

/* The attribute of a module, which is dropped; NULL when it was not imported. */
static PyObject *hook_attribute(PyObject *m, const char *name)
{
    PyObject *found = m ? PyObject_GetAttrString(m, name) : NULL;

    Py_XDECREF(m);
    return found;
}

PyObject *cr_py_hook_dict_add(PyObject **dict, PyObject *callable, bool *made)
{
    static PyObject *ordered, *handle_type;
    PyObject *handle, *id;

    if (!ordered &&
        !(ordered = hook_attribute(PyImport_ImportModule("collections"), "OrderedDict")))
        return NULL;
    if (!handle_type &&
        !(handle_type = hook_attribute(cr_py_import("utils.hooks"), "RemovableHandle")))
        return NULL;
    cr_py_refuse_held("a hook is registered");
    *made = !*dict;
    if (*made && !(*dict = PyObject_CallNoArgs(ordered)))
        return NULL;
    handle = PyObject_CallOneArg(handle_type, *dict);
    id = handle ? PyObject_GetAttrString(handle, "id") : NULL;
    if (!id || PyObject_SetItem(*dict, id, callable) < 0)
        Py_CLEAR(handle);
    Py_XDECREF(id);
    return handle;
}

/* The callables that are now in the dict, as a list. */
static PyObject *callables(PyObject *dict)
{
    return PyObject_IsTrue(dict) > 0 ? PyMapping_Values(dict) : PyList_New(0);
}

/* --- replacing gradients --- */

static cr_status hook_wrong(const char *fmt, PyObject *x)
{
    PyErr_Format(PyExc_TypeError, fmt, Py_TYPE(x)->tp_name);
    return CR_PYTHON;
}

/* Raises "hook 'NAME' has ...". */
static cr_status hook_refuse(PyObject *hook, const char *what)
{
    PyObject *name = PyObject_GetAttrString(hook, "__name__");

    if (!cr_py_forget_error())
        return CR_PYTHON;
    if (name)
        PyErr_Format(PyExc_RuntimeError, "hook '%S' has %s", name, what);
    else
        PyErr_Format(PyExc_RuntimeError, "hook '<unknown>' has %s", what);
    Py_XDECREF(name);
    return CR_PYTHON;
}

static void hook_print_type(cr_text *out, const cr_tensor *t)
{
    const char *dtype = cr_dtype_infos[t->dtype].legacy;

    if (cr_is_meta(t->device))
        cr_text_printf(out, "Meta%sType", dtype);
    else if (cr_dtype_is_complex((cr_dtype)t->dtype))
        cr_text_printf(out, "CPU%sType", dtype);
    else
        cr_text_put(out, cr_tensor_type_name(t));
}

static cr_status refuse_type(const cr_tensor *had, const cr_tensor *got, PyObject *hook)
{
    cr_text text = {0};

    cr_text_put(&text, "changed the type of value (was ");
    hook_print_type(&text, had);
    cr_text_put(&text, " got ");
    hook_print_type(&text, got);
    cr_text_put(&text, ")");
    cr_status st = hook_refuse(hook, cr_text_str(&text));
    cr_text_drop(&text);
    return st;
}

/* Replaces `*grad` by the hook's return value. */
static cr_status hook_replace(cr_tensor **grad, PyObject *answer, PyObject *hook)
{
    cr_tensor *t;

    if (answer == Py_None)
        return CR_OK;
    if (!cr_py_is_tensor(answer))
        return hook_wrong("expected Variable, but hook returned '%s'", answer);
    t = cr_py_tensor_of(answer);
    if (*grad && ((*grad)->dtype != t->dtype || !cr_same_device((*grad)->device, t->device)))
        return refuse_type(*grad, t, hook);
    if (*grad &&
        ((*grad)->ndim != t->ndim || memcmp((*grad)->size, t->size, t->ndim * sizeof *t->size)))
        return hook_refuse(hook, "changed the size of value");
    cr_keep(t);
    cr_drop(*grad);
    *grad = t;
    return CR_OK;
}

static PyObject *tuple_of(cr_tensor *const *grads, int n)
{
    PyObject *out = PyTuple_New(n);

    for (int i = 0; out && i < n; i++) {
        PyObject *item = cr_py_wrap_keep(grads[i]);
        if (!item) {
            Py_CLEAR(out);
            break;
        }
        PyTuple_SET_ITEM(out, i, item);
    }
    return out;
}

static cr_status replace_all(cr_tensor **grads, int n, PyObject *answer, PyObject *hook)
{
    if (answer == Py_None)
        return CR_OK;
    if (n == 1 && cr_py_is_tensor(answer))
        return hook_replace(grads, answer, hook);
    if (!PyTuple_Check(answer) && !PyList_Check(answer))
        return hook_wrong("expected a tuple of tensors, but hook returned '%s'", answer);
    if (PySequence_Fast_GET_SIZE(answer) != n) {
        char text[96];
        snprintf(text, sizeof text,
                 "returned an incorrect number of values (got %zd, but expected %d)",
                 PySequence_Fast_GET_SIZE(answer), n);
        return hook_refuse(hook, text);
    }
    for (int i = 0; i < n; i++)
        CR_TRY(hook_replace(&grads[i], PySequence_Fast_GET_ITEM(answer, i), hook));
    return CR_OK;
}

/* --- running --- */

typedef cr_status (*run_one)(PyObject *callable, cr_tensor **grads, int n,
                             cr_tensor *const *given, int given_n);

static cr_status run_dict(PyObject *dict, run_one one, cr_tensor **grads, int n,
                          cr_tensor *const *given, int given_n)
{
    PyObject *list = callables(dict);
    cr_status st = list ? CR_OK : CR_PYTHON;

    for (Py_ssize_t i = 0; !st && i < PyList_GET_SIZE(list); i++)
        st = one(PyList_GET_ITEM(list, i), grads, n, given, given_n);
    Py_XDECREF(list);
    return st;
}

static cr_status tensor_one(PyObject *callable, cr_tensor **grads, int n,
                            cr_tensor *const *given, int given_n)
{
    PyObject *grad, *answer;

    (void)n;
    (void)given;
    (void)given_n;
    grad = cr_py_wrap_keep(grads[0]);
    answer = grad ? PyObject_CallOneArg(callable, grad) : NULL;
    Py_XDECREF(grad);
    if (!answer)
        return CR_PYTHON;
    cr_status st = hook_replace(&grads[0], answer, callable);
    Py_DECREF(answer);
    return st;
}

static cr_status accumulated_one(PyObject *callable, cr_tensor **grads, int n,
                                 cr_tensor *const *given, int given_n)
{
    PyObject *leaf = cr_py_wrap_keep(grads[0]);
    PyObject *answer = leaf ? PyObject_CallOneArg(callable, leaf) : NULL;

    (void)n;
    (void)given;
    (void)given_n;
    Py_XDECREF(leaf);
    if (!answer)
        return CR_PYTHON;
    bool none = answer == Py_None;
    Py_DECREF(answer);
    if (none)
        return CR_OK;
    PyErr_SetString(PyExc_RuntimeError,
                    "Tensor post accumulate grad hooks should return None.");
    return CR_PYTHON;
}

static cr_status before_one(PyObject *callable, cr_tensor **grads, int n,
                            cr_tensor *const *given, int given_n)
{
    PyObject *args = tuple_of(grads, n);
    PyObject *answer = args ? PyObject_CallOneArg(callable, args) : NULL;

    (void)given;
    (void)given_n;
    Py_XDECREF(args);
    if (!answer)
        return CR_PYTHON;
    cr_status st = replace_all(grads, n, answer, callable);
    Py_DECREF(answer);
    return st;
}

static cr_status after_one(PyObject *callable, cr_tensor **grads, int n,
                           cr_tensor *const *given, int given_n)
{
    PyObject *args[] = {tuple_of(grads, n), tuple_of(given, given_n)};
    PyObject *answer = args[0] && args[1] ? PyObject_Vectorcall(callable, args, 2, NULL) : NULL;

    Py_XDECREF(args[0]);
    Py_XDECREF(args[1]);
    if (!answer)
        return CR_PYTHON;
    cr_status st = replace_all(grads, n, answer, callable);
    Py_DECREF(answer);
    return st;
}

#define RUN(kind)                                                                              \
    static cr_status run_##kind(void *context, cr_tensor **grads, int n,                       \
                                cr_tensor *const *given, int given_n)                          \
    {                                                                                          \
        return run_dict(context, kind##_one, grads, n, given, given_n);                        \
    }                                                                                          \
    cr_hook_call cr_py_##kind##_hooks(PyObject *dict)                                          \
    {                                                                                          \
        cr_py_graph_objects++;                                                                 \
        return (cr_hook_call){run_##kind, Py_NewRef(dict), drop_dict, true, NULL};             \
    }

static void drop_dict(void *dict)
{
    cr_py_graph_objects--;
    Py_DECREF((PyObject *)dict);
}

RUN(tensor)
RUN(accumulated)
RUN(before)
RUN(after)

PyObject *cr_py_node_hooks(const cr_node *n, bool after)
{
    return cr_hook_find(n, after, after ? run_after : run_before);
}
