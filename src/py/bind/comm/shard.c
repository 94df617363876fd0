/* Strategies of calls on distributed tensors, for distributed/tensor. */
#include "dist/shard.h"
#include "py/bind/bind.h"
#include <string.h>

/* A call of an operator's callable: (callable, args, kwargs or None). */
typedef struct {
    PyObject *at[2 * CR_MAX_ARGS]; /* borrowed */
    PyObject *names;               /* owned */
    cr_py_args args;
    const cr_op *op;
} shard_call;

static PyObject *names_of(PyObject *kwargs)
{
    PyObject *keys = PyDict_Keys(kwargs), *names = keys ? PyList_AsTuple(keys) : NULL;

    Py_XDECREF(keys);
    return names;
}

/* False with an exception.  On success release with shard_call_drop. */
static bool shard_call_bind(shard_call *c, PyObject *callable, PyObject *args, PyObject *kwargs)
{
    const cr_py_op *self = (const cr_py_op *)callable;
    Py_ssize_t n = PyTuple_GET_SIZE(args), more = 0;
    cr_py_given g = {.args = c->at, .count = n};
    cr_py_fit fit = CR_PY_MISFIT;

    c->names = NULL;
    if (!Py_IS_TYPE(callable, &cr_py_function_type)) {
        PyErr_SetString(PyExc_TypeError, "an operator's function is expected");
        return false;
    }
    if (kwargs != Py_None && PyDict_GET_SIZE(kwargs)) {
        if (!(c->names = names_of(kwargs)))
            return false;
        more = PyTuple_GET_SIZE(c->names);
    }
    if (n + more > 2 * CR_MAX_ARGS) {
        Py_CLEAR(c->names);
        PyErr_SetString(PyExc_TypeError, "too many arguments");
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        c->at[i] = PyTuple_GET_ITEM(args, i);
    for (Py_ssize_t i = 0; i < more; i++)
        c->at[n + i] = PyDict_GetItem(kwargs, PyTuple_GET_ITEM(c->names, i));
    g.names = c->names;
    cr_py_args_init(&c->args);
    for (const cr_py_sig *s = self->chain; s && fit == CR_PY_MISFIT; s = s->next) {
        cr_py_args_drop(&c->args);
        cr_py_args_init(&c->args);
        fit = cr_py_bind(&c->args, s, &g, false);
        c->op = s->op;
    }
    if (fit == CR_PY_FITS)
        return true;
    if (fit == CR_PY_MISFIT)
        cr_py_explain(PyUnicode_AsUTF8(self->name), self->chain, &g, false);
    cr_py_args_drop(&c->args);
    Py_CLEAR(c->names);
    return false;
}

static void shard_call_drop(shard_call *c)
{
    cr_py_args_drop(&c->args);
    Py_CLEAR(c->names);
}

static PyObject *placements_tuple(const int8_t *at, int n)
{
    PyObject *out = PyTuple_New(n);

    for (int i = 0; out && i < n; i++)
        PyTuple_SET_ITEM(out, i, PyLong_FromLong(at[i]));
    return out;
}

static PyObject *strategy_object(const cr_strategies *all, const cr_strategy *s,
                                 const cr_op *op)
{
    PyObject *looked = Py_NewRef(Py_None);

    if (s->looked >= 0)
        Py_SETREF(looked, Py_BuildValue("(iN)", s->looked,
                                        placements_tuple(s->over, all->result[0].ndim)));
    if (!looked)
        return NULL;
    return Py_BuildValue("(NNzOOdN)", placements_tuple(s->operand, all->operands),
                         placements_tuple(s->result, all->results),
                         s->sized < 0 ? NULL : op->param[s->sized].name,
                         s->parts ? Py_True : Py_False, s->even ? Py_True : Py_False, s->cost,
                         looked);
}

/* [(sizes, strides, dtype)] of the whole results. */
static PyObject *results_list(const cr_strategies *all)
{
    PyObject *list = PyList_New(all->results);

    for (int k = 0; list && k < all->results; k++)
        cr_py_put_item(
            &list, k,
            Py_BuildValue("(NNO)", cr_py_ints_tuple(all->result[k].size, all->result[k].ndim),
                          cr_py_ints_tuple(all->result[k].stride, all->result[k].ndim),
                          cr_py_dtype_object(all->result[k].dtype)));
    return list;
}

static PyObject *strategies_object(const cr_strategies *all, const cr_op *op)
{
    PyObject *list = PyList_New(all->count);

    for (int i = 0; list && i < all->count; i++)
        cr_py_put_item(&list, i, strategy_object(all, &all->strategy[i], op));
    return list ? Py_BuildValue("(ziNN)", all->rule, cr_shard_cheapest(all), list,
                                results_list(all))
                : NULL;
}

static int read_placed(int8_t *placed, PyObject *list)
{
    int n = 0;

    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list) && n < CR_AXES_TENSORS; i++)
        placed[n++] = (int8_t)PyLong_AsLong(PyTuple_GET_ITEM(list, i));
    return n;
}

/* _shard(callable, args, kwargs, ranks, placements) -> (kind of the rule or None, the index of
 * the cheapest strategy, [(placements of operands, of results, the parameter that is given
 * local sizes or None, whether parts are called, whether sizes must divide, cost, None or (the
 * operand that has places along the split dim, its dims along those of the result))], [(sizes,
 * dtype) of the whole results]). */
static PyObject *shard_strategies(PyObject *m, PyObject *given)
{
    PyObject *callable, *args, *kwargs, *list, *out = NULL;
    int ranks, n;
    int8_t placed[CR_AXES_TENSORS];
    cr_strategies *all;
    shard_call c;

    (void)m;
    if (!PyArg_ParseTuple(given, "OO!OiO!", &callable, &PyTuple_Type, &args, &kwargs, &ranks,
                          &PyTuple_Type, &list))
        return NULL;
    n = read_placed(placed, list);
    if (PyErr_Occurred() || !shard_call_bind(&c, callable, args, kwargs))
        return NULL;
    all = cr_alloc_zero(sizeof *all);
    if (all) {
        cr_status st = cr_shard_strategies(all, c.op, c.args.value, ranks, placed, n);
        out = st ? cr_py_raise(st) : strategies_object(all, c.op);
    } else {
        PyErr_NoMemory();
    }
    cr_free(all);
    shard_call_drop(&c);
    return out;
}

static PyObject *result_object(cr_value *v)
{
    PyObject *out;

    if (v->tag == CR_TENSOR)
        return cr_py_wrap(v->t);
    if (v->tag != CR_TENSORS)
        Py_RETURN_NONE;
    out = PyList_New(v->len);
    for (uint32_t i = 0; out && i < v->len; i++)
        cr_py_put_item(&out, i,
                       v->list[i].tag == CR_TENSOR ? cr_py_wrap(cr_keep(v->list[i].t))
                                                   : Py_NewRef(Py_None));
    cr_drop_values(v, 1);
    return out;
}

/* _call_parts(callable, args, kwargs) -> the tuple of results: the calls that a composition
 * consists of, through all stages. */
static PyObject *shard_call_parts(PyObject *m, PyObject *given)
{
    PyObject *callable, *args, *kwargs, *out = NULL;
    cr_value result[CR_MAX_RESULTS];
    cr_status st;
    shard_call c;

    (void)m;
    if (!PyArg_ParseTuple(given, "OO!O", &callable, &PyTuple_Type, &args, &kwargs) ||
        !shard_call_bind(&c, callable, args, kwargs))
        return NULL;
    if (c.op->does == CR_DOES_STEPS)
        st = cr_run_composition(c.op, c.args.value, result);
    else
        st = cr_call_dispatch_parts(c.op, c.args.value, result);
    if (st) {
        cr_py_raise(st);
    } else {
        out = PyTuple_New(c.op->result_count);
        for (int k = 0; k < c.op->result_count; k++) {
            PyObject *x = out ? result_object(&result[k]) : NULL;
            if (x)
                PyTuple_SET_ITEM(out, k, x);
            else
                Py_CLEAR(out);
        }
    }
    shard_call_drop(&c);
    return out;
}

/* _shard_cost(placement, placement, bytes, ranks) -> bytes that a rank sends, or -1. */
static PyObject *shard_cost(PyObject *m, PyObject *given)
{
    int from, to, ranks;
    double bytes;

    (void)m;
    return PyArg_ParseTuple(given, "iidi", &from, &to, &bytes, &ranks)
               ? PyFloat_FromDouble(cr_shard_cost(from, to, bytes, ranks))
               : NULL;
}

static PyMethodDef shard_functions[] = {{"_shard", shard_strategies, METH_VARARGS, NULL},
                                        {"_shard_cost", shard_cost, METH_VARARGS, NULL},
                                        {"_call_parts", shard_call_parts, METH_VARARGS, NULL},
                                        {0}};

int cr_py_comm_shard_start(PyObject *m) { return PyModule_AddFunctions(m, shard_functions); }
