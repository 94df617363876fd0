/* cresset._C.Recorder and cresset._C.RecordedGraph: recorded calls as a graph (graph/graph.h).
 *
 * A RecordedGraph keeps alive the object that owns the session of its nodes: the recorder, or
 * the graph that a pass was applied to. */
#include "aot/aot.h"
#include "autograd/autograd.h"
#include "compile/commands.h"
#include "compile/compile.h"
#include "compile/rt_file.h"
#include "graph/cost.h"
#include "py/bind/bind.h"
#include "py/bind/compile/c_file.h"
#include "py/bind/compile/compiled.h"
#include "py/bind/compile/deferred.h"
#include "py/bind/compile/onnx.h"
#include "py/bind/compile/where.h"
#include "tensor/defer.h"

/* --- graphs --- */

typedef struct {
    PyObject_HEAD cr_graph *g;
    PyObject *keeper;    /* the object that owns the session, or NULL */
    cr_session *session; /* owned by this graph, or NULL */
    bool owns;           /* the graph owns its constants */
    cr_compiled *code;   /* code of its fusion groups, or NULL */
} graph_object;

typedef struct {
    PyObject_HEAD cr_recorder *r;
    cr_py_where *where; /* or NULL */
    PyObject *ends;     /* or NULL */
} recorder_object;

static PyTypeObject graph_type, recorder_type;

static void graph_dealloc(PyObject *x)
{
    graph_object *self = (graph_object *)x;

    cr_compiled_drop(self->code);
    if (self->owns)
        cr_graph_drop(self->g);
    cr_session_release(self->session);
    Py_XDECREF(self->keeper);
    PyObject_Free(self);
}

static PyObject *graph_repr(PyObject *x)
{
    cr_text t = {0};

    cr_graph_print(&t, ((graph_object *)x)->g);
    return cr_py_text(&t, CR_OK);
}

typedef struct {
    const cr_graph *g;
    cr_text text;
} cost_job;

static void graph_print_cost(cr_session *s, void *context)
{
    cost_job *j = context;

    (void)s;
    cr_graph_print_cost(&j->text, j->g);
}

static PyObject *graph_cost_text(PyObject *x, PyObject *unused)
{
    cost_job j = {.g = ((graph_object *)x)->g};
    cr_status st = cr_session_run(j.g->session, graph_print_cost, &j);

    (void)unused;
    return cr_py_text(&j.text, st);
}

/* --- running --- */

cr_tensor **cr_py_graph_inputs(const cr_graph *g, PyObject *given, PyObject **items)
{
    cr_tensor **input =
        PyMem_Calloc((size_t)(g->input_count + g->body->output_count + 1), sizeof *input);

    *items = input ? PySequence_Tuple(given) : PyErr_NoMemory();
    if (*items && PySequence_Fast_GET_SIZE(*items) != g->input_count)
        PyErr_Format(PyExc_TypeError, "the graph takes %d inputs, not %zd", g->input_count,
                     PySequence_Fast_GET_SIZE(*items));
    for (int i = 0; !PyErr_Occurred() && i < g->input_count; i++) {
        PyObject *x = PySequence_Fast_GET_ITEM(*items, i);
        if (cr_py_is_tensor(x))
            input[i] = cr_py_tensor_of(x);
        else
            PyErr_Format(PyExc_TypeError, "input %d must be Tensor, not %s", i,
                         Py_TYPE(x)->tp_name);
    }
    if (!PyErr_Occurred())
        return input;
    PyMem_Free(input);
    Py_CLEAR(*items);
    return NULL;
}

/* --- a file of the runtime --- */

typedef struct {
    const cr_graph *g;
    cr_tensor **input;
    cr_rt_input *with;
    const char **results;
    cr_text bytes;
} runtime_job;

static void graph_make_runtime_file(cr_session *s, void *context)
{
    runtime_job *j = context;
    cr_plan p = {.arena = {0}};
    cr_status st = cr_graph_file_plan(&p, j->g, j->input);

    if (!st) {
        cr_session inner = {.status = CR_OK};
        st = cr_rt_file(&inner, &j->bytes, &p, j->with, j->g->input_count, j->results);
        cr_session_drop(&inner);
    }
    cr_plan_drop(&p);
    cr_session_check(s, st);
}

/* What input k is, of (name, kind) as in rt_file; false with an exception. */
static bool describe_runtime_input(cr_rt_input *out, cr_tensor *t, PyObject *given)
{
    cr_c_input as = {.name = NULL};

    if (!cr_py_c_input(&as, t, given))
        return false;
    *out = (cr_rt_input){as.name, t->dtype, t->ndim, t->size, as.values, as.state};
    return true;
}

/* The names of results, which `names` owns; NULL with an exception. */
static const char **result_names(const cr_graph *g, PyObject *names)
{
    Py_ssize_t n = PyTuple_GET_SIZE(names);
    const char **out = PyMem_Calloc((size_t)n + 1, sizeof *out);

    if (!out)
        PyErr_NoMemory();
    else if (n != g->body->output_count)
        PyErr_SetString(PyExc_TypeError, "rt_file() takes a name for each result");
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < n; i++)
        out[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
    if (!PyErr_Occurred())
        return out;
    PyMem_Free(out);
    return NULL;
}

static PyObject *make_runtime_file(runtime_job *j)
{
    cr_session s = {.status = CR_OK};
    cr_status st = cr_session_run(&s, graph_make_runtime_file, j);
    PyObject *out =
        st ? cr_py_raise(st)
           : PyBytes_FromStringAndSize(cr_text_str(&j->bytes), (Py_ssize_t)j->bytes.len);

    cr_session_drop(&s);
    cr_text_drop(&j->bytes);
    return out;
}

/* rt_file(inputs, kinds, results) */
static PyObject *graph_rt_file(PyObject *x, PyObject *args)
{
    PyObject *given, *kinds, *names, *items = NULL, *out = NULL;
    runtime_job j = {.g = ((graph_object *)x)->g};

    if (!PyArg_ParseTuple(args, "OO!O!:rt_file", &given, &PyTuple_Type, &kinds, &PyTuple_Type,
                          &names))
        return NULL;
    j.input = cr_py_graph_inputs(j.g, given, &items);
    j.with = j.input ? PyMem_Calloc((size_t)j.g->input_count + 1, sizeof *j.with) : NULL;
    j.results = j.with ? result_names(j.g, names) : NULL;
    if (j.results && PyTuple_GET_SIZE(kinds) != j.g->input_count)
        PyErr_SetString(PyExc_TypeError, "rt_file() takes a kind for each input");
    for (int i = 0; j.results && !PyErr_Occurred() && i < j.g->input_count; i++)
        (void)!describe_runtime_input(&j.with[i], j.input[i], PyTuple_GET_ITEM(kinds, i));
    if (j.results && !PyErr_Occurred())
        out = make_runtime_file(&j);
    PyMem_Free(j.results);
    PyMem_Free(j.with);
    PyMem_Free(j.input);
    Py_XDECREF(items);
    return out;
}

/* run(inputs) -> tuple of outputs */
static PyObject *graph_run(PyObject *x, PyObject *given)
{
    const cr_graph *g = ((graph_object *)x)->g;
    PyObject *items, *out;
    cr_tensor **input = cr_py_graph_inputs(g, given, &items);

    if (!input)
        return NULL;
    cr_status st = cr_graph_run(g, input, input + g->input_count);
    out = st ? cr_py_raise(st)
             : cr_py_outputs_tuple(input + g->input_count, g->body->output_count);
    PyMem_Free(input);
    Py_DECREF(items);
    return out;
}

const cr_graph *cr_py_graph_of(PyObject *x)
{
    if (Py_TYPE(x) == &graph_type)
        return ((graph_object *)x)->g;
    PyErr_Format(PyExc_TypeError, "a RecordedGraph is needed, not %s", Py_TYPE(x)->tp_name);
    return NULL;
}

int cr_py_graph_fits(PyObject *graph, cr_tensor *const *input, const cr_scalar *number)
{
    cr_session s = {.status = CR_OK};
    cr_graph *instance = NULL;
    cr_status st =
        cr_graph_instantiate(&instance, &s, ((graph_object *)graph)->g, input, number, false);
    bool fits = instance != NULL;

    cr_graph_drop(instance);
    cr_session_drop(&s);
    return st ? cr_py_raise_int(st) : fits;
}

/* fits(inputs, numbers) -> bool */
static PyObject *graph_fits(PyObject *x, PyObject *args)
{
    const cr_graph *g = ((graph_object *)x)->g;
    PyObject *given, *numbers, *items;
    cr_scalar *number;
    cr_tensor **input;
    int fits;

    if (!PyArg_ParseTuple(args, "OO!:fits", &given, &PyTuple_Type, &numbers))
        return NULL;
    if (PyTuple_GET_SIZE(numbers) != g->numbers.inputs)
        return PyErr_Format(PyExc_TypeError, "the graph takes %d numbers, not %zd",
                            g->numbers.inputs, PyTuple_GET_SIZE(numbers));
    number = PyMem_Calloc((size_t)g->numbers.inputs + 1, sizeof *number);
    if (!number)
        return PyErr_NoMemory();
    for (int k = 0; k < g->numbers.inputs; k++)
        if (cr_py_scalar_from(PyTuple_GET_ITEM(numbers, k), &number[k]) != CR_PY_FITS) {
            PyMem_Free(number);
            return PyErr_Format(PyExc_TypeError, "number %d must be a number", k);
        }
    input = cr_py_graph_inputs(g, given, &items);
    if (!input) {
        PyMem_Free(number);
        return NULL;
    }
    fits = cr_py_graph_fits(x, input, number);
    PyMem_Free(number);
    PyMem_Free(input);
    Py_DECREF(items);
    return fits < 0 ? NULL : PyBool_FromLong(fits);
}

/* A tuple for each symbol: ("input", index), ("size", value, dim), ("const", number), or an
 * operation and the indices of its operands. */
static PyObject *number_tuple(const cr_gnumber *n)
{
    switch ((cr_gnum_fn)n->fn) {
    case CR_GNUM_INPUT: return Py_BuildValue("(si)", "input", n->a);
    case CR_GNUM_SIZE: return Py_BuildValue("(ssi)", "size", n->of->name, n->a);
    case CR_GNUM_CONST: return Py_BuildValue("(sN)", "const", cr_py_scalar_object(n->value));
    default: break;
    }
    return cr_gnum_is_unary((cr_gnum_fn)n->fn)
               ? Py_BuildValue("(si)", cr_gnum_fn_name[n->fn], n->a)
               : Py_BuildValue("(sii)", cr_gnum_fn_name[n->fn], n->a, n->b);
}

static PyObject *numbers_of(const cr_graph *g)
{
    const cr_gnumbers *all = &g->numbers;
    PyObject *out = PyList_New((Py_ssize_t)all->list.len);

    for (size_t i = 0; out && i < all->list.len; i++)
        cr_py_put_item(&out, (Py_ssize_t)i, number_tuple(&all->list.at[i]));
    return out;
}

static PyObject *graph_numbers(PyObject *x, void *unused)
{
    (void)unused;
    return numbers_of(((graph_object *)x)->g);
}

/* _symbol_of(x) -> index in Graph.numbers of the symbol that x, an argument of a node, stands
 * for; -1 when x is a plain number. */
PyObject *cr_py_symbol_of(PyObject *m, PyObject *x)
{
    cr_scalar s;

    (void)m;
    if (cr_py_symbol_scalar(x, &s))
        return PyLong_FromLong(cr_gnum_of(s));
    if (PyFloat_CheckExact(x))
        return PyLong_FromLong(cr_gnum_of(cr_scalar_float(PyFloat_AS_DOUBLE(x))));
    if (PyLong_CheckExact(x) && cr_py_scalar_from(x, &s) == CR_PY_FITS)
        return PyLong_FromLong(cr_gnum_of(s));
    PyErr_Clear();
    return PyLong_FromLong(-1);
}

/* --- passes and text --- */

typedef struct {
    const cr_graph *from;
    const char *text;
    cr_graph_pass pass;
    cr_graph *out;
} graph_job;

static void graph_parse_text(cr_session *s, void *context)
{
    graph_job *j = context;

    j->out = cr_graph_parse(s, j->text);
    cr_graph_verify(j->out);
}

static void graph_run_pass(cr_session *s, void *context)
{
    graph_job *j = context;

    (void)s;
    j->out = j->pass(j->from);
    cr_graph_verify(j->out);
}

static PyObject *graph_new(cr_graph *g, PyObject *keeper, cr_session *session, bool owns)
{
    graph_object *self = PyObject_New(graph_object, &graph_type);

    if (!self)
        return NULL;
    self->g = g;
    self->keeper = Py_XNewRef(keeper);
    self->session = session;
    self->owns = owns;
    self->code = NULL;
    return (PyObject *)self;
}

/* apply("dead"): runs the pass of this name.  The new graph is in the session of the old
 * one. */
static PyObject *graph_apply(PyObject *x, PyObject *name)
{
    const graph_object *self = (graph_object *)x;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    graph_job j = {.from = self->g, .pass = text ? cr_graph_find_pass(text) : NULL};
    cr_status st;

    if (!text)
        return PyErr_Format(PyExc_TypeError, "the name of a pass is a str");
    if (!j.pass)
        return PyErr_Format(PyExc_ValueError, "no pass is called '%s'", text);
    st = cr_session_run(self->g->session, graph_run_pass, &j);
    return st ? cr_py_raise(st) : graph_new(j.out, x, NULL, j.out != self->g);
}

/* --- code --- */

static void gather_groups(cr_session *s, void *context)
{
    graph_job *j = context;

    (void)s;
    j->out = cr_compile_group(j->from);
    cr_graph_verify(j->out);
}

/* compile() -> RecordedGraph: pointwise nodes in fusion groups that have code. */
static PyObject *graph_compile(PyObject *x, PyObject *unused)
{
    graph_job j = {.from = ((graph_object *)x)->g};
    cr_status st = cr_session_run(j.from->session, gather_groups, &j);
    PyObject *out;

    (void)unused;
    if (st)
        return cr_py_raise(st);
    out = graph_new(j.out, x, NULL, true);
    if (!out) {
        cr_graph_drop(j.out);
        return NULL;
    }
    st = cr_compile_code(&((graph_object *)out)->code, j.out, 0);
    if (!st)
        return out;
    Py_DECREF(out);
    return cr_py_raise(st);
}

/* program() -> Program: the graph after the passes, with fusion groups, as a list of steps. */
static PyObject *graph_program(PyObject *x, PyObject *args)
{
    unsigned how = 0;

    if (!PyArg_ParseTuple(args, "|I", &how))
        return NULL;
    return cr_py_program_new(x, ((graph_object *)x)->g, how);
}

typedef struct {
    cr_graph *g;
    cr_origins origins;
} lift_job;

static void lift(cr_session *s, void *context)
{
    lift_job *j = context;

    (void)s;
    j->origins = cr_graph_lift(j->g);
}

/* lift() -> [for each input: index of the earlier input, or the constant] */
static PyObject *graph_lift(PyObject *x, PyObject *unused)
{
    lift_job j = {.g = ((graph_object *)x)->g};
    cr_status st = cr_session_run(j.g->session, lift, &j);
    PyObject *from = st ? cr_py_raise(st) : PyList_New(j.g->input_count);

    (void)unused;
    for (int i = 0; from && i < j.g->input_count; i++)
        cr_py_put_item(&from, i,
                       j.origins.constant[i] ? cr_py_wrap_keep(j.origins.constant[i])
                                             : PyLong_FromLong(j.origins.from[i]));
    return from;
}

/* call(grad, how=0) -> Call */
static PyObject *graph_call(PyObject *x, PyObject *args)
{
    const cr_graph *g = ((graph_object *)x)->g;
    unsigned how = 0;
    int grad;

    if (!PyArg_ParseTuple(args, "p|I", &grad, &how))
        return NULL;
    return cr_graph_is_symbolic(g) ? cr_py_compiled_calls(g, grad, how)
                                   : cr_py_compiled_call(g, grad, how);
}

/* The strides of a type, which has none when its elements are in row-major order. */
static const int64_t *type_strides(const cr_gtype *t, int64_t *room)
{
    int64_t n = 1;

    if (t->stride)
        return t->stride;
    for (int d = t->ndim - 1; d >= 0; n *= t->size[d] > 1 ? t->size[d] : 1, d--)
        room[d] = n;
    return room;
}

/* Adds {name: (dtype, sizes, strides, device, requires_grad)}. */
static bool put_type(PyObject *into, const cr_gvalue *v)
{
    const cr_gtype *t = &v->type;
    int64_t room[CR_MAX_DIMS];
    PyObject *one;

    if (!t->known)
        return true;
    one =
        Py_BuildValue("(ONNNN)", cr_py_dtype_object((cr_dtype)t->dtype),
                      cr_py_size(t->ndim, t->size), cr_py_size(t->ndim, type_strides(t, room)),
                      cr_py_device_of(t->device), PyBool_FromLong(t->requires_grad));
    bool ok = one && PyDict_SetItemString(into, v->name, one) == 0;
    Py_XDECREF(one);
    return ok;
}

/* types() */
static PyObject *graph_types(PyObject *x, PyObject *unused)
{
    const cr_graph *g = ((graph_object *)x)->g;
    PyObject *out = PyDict_New();

    (void)unused;
    for (int i = 0; out && i < g->input_count; i++)
        if (!put_type(out, g->input[i]))
            Py_CLEAR(out);
    for (size_t i = 0; out && i < g->body->len; i++)
        for (int k = 0; out && k < g->body->at[i]->result_count; k++)
            if (!put_type(out, g->body->at[i]->result[k]))
                Py_CLEAR(out);
    return out;
}

/* The values of a graph's symbols, where `given` has {index: value} for some sizes of inputs.
 * NULL with an exception. */
static cr_scalar *symbols_given(const cr_graph *g, PyObject *given)
{
    size_t n = g->numbers.list.len;
    cr_scalar *symbol = PyMem_Calloc(n + 1, sizeof *symbol);
    Py_ssize_t at = 0;
    PyObject *key, *value;

    if (!symbol)
        return (cr_scalar *)PyErr_NoMemory();
    for (size_t k = 0; k < n; k++)
        symbol[k] = g->numbers.list.at[k].value;
    while (PyDict_Next(given, &at, &key, &value)) {
        Py_ssize_t k = PyNumber_AsSsize_t(key, PyExc_IndexError);
        long long size = PyLong_AsLongLong(value);
        int fn = k < 0 || (size_t)k >= n ? CR_GNUM_CONST : g->numbers.list.at[k].fn;
        if (!PyErr_Occurred() && fn != CR_GNUM_INPUT && (fn != CR_GNUM_SIZE || size < 0))
            PyErr_SetString(PyExc_ValueError,
                            "takes() gets sizes of inputs and numbers by their index");
        if (PyErr_Occurred()) {
            PyMem_Free(symbol);
            return NULL;
        }
        symbol[k] = cr_scalar_int(size);
    }
    return symbol;
}

/* takes(sizes) */
static PyObject *takes_of(const cr_graph *g, PyObject *given)
{
    cr_session s = {.status = CR_OK};
    cr_graph *instance = NULL;
    cr_scalar *symbol;

    if (!PyDict_Check(given))
        return PyErr_Format(PyExc_TypeError, "takes() gets a dict");
    symbol = symbols_given(g, given);
    if (!symbol)
        return NULL;
    cr_status st = cr_graph_instantiate_at(&instance, &s, g, symbol, false);
    bool fits = instance != NULL;
    cr_graph_drop(instance);
    cr_session_drop(&s);
    PyMem_Free(symbol);
    return st ? cr_py_raise(st) : PyBool_FromLong(fits);
}

static PyObject *graph_takes(PyObject *x, PyObject *given)
{
    return takes_of(((graph_object *)x)->g, given);
}

typedef struct {
    const cr_graph *g;
    cr_scalar **sample;
    int count;
    cr_text text;
} sizes_job;

static void graph_print_sizes(cr_session *s, void *context)
{
    sizes_job *j = context;

    (void)s;
    cr_graph_print_sizes(&j->text, j->g, (const cr_scalar *const *)j->sample, j->count);
}

/* The values of symbols in each dict of a list; NULL with an exception.  The caller frees them
 * by samples_drop. */
static cr_scalar **samples_given(const cr_graph *g, PyObject *list)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    cr_scalar **sample = PyMem_Calloc((size_t)n + 1, sizeof *sample);

    for (Py_ssize_t i = 0; sample && i < n && !PyErr_Occurred(); i++)
        if (PyDict_Check(PyList_GET_ITEM(list, i)))
            sample[i] = symbols_given(g, PyList_GET_ITEM(list, i));
        else
            PyErr_SetString(PyExc_TypeError, "a sample is a dict");
    return sample ? sample : (cr_scalar **)PyErr_NoMemory();
}

static void samples_drop(cr_scalar **sample)
{
    for (cr_scalar **at = sample; at && *at; at++)
        PyMem_Free(*at);
    PyMem_Free(sample);
}

/* onnx(samples, inputs, outputs, how) */
static PyObject *graph_onnx(PyObject *x, PyObject *args)
{
    const cr_graph *g = ((graph_object *)x)->g;
    PyObject *list, *inputs, *outputs, *how, *out = NULL;
    cr_scalar **sample;

    if (!PyArg_ParseTuple(args, "O!O!O!O!:onnx", &PyList_Type, &list, &PyList_Type, &inputs,
                          &PyTuple_Type, &outputs, &PyTuple_Type, &how))
        return NULL;
    sample = samples_given(g, list);
    if (sample && !PyErr_Occurred())
        out = cr_py_onnx_file(g, (const cr_scalar *const *)sample, (int)PyList_GET_SIZE(list),
                              inputs, outputs, how);
    samples_drop(sample);
    return out;
}

/* sizes(samples) */
static PyObject *sizes_text(const cr_graph *g, PyObject *list)
{
    sizes_job j = {.g = g};
    PyObject *out = NULL;

    if (!PyList_Check(list))
        return PyErr_Format(PyExc_TypeError, "sizes() gets a list");
    j.sample = samples_given(g, list);
    j.count = (int)PyList_GET_SIZE(list);
    if (j.sample && !PyErr_Occurred())
        out = cr_py_text(&j.text, cr_session_run(j.g->session, graph_print_sizes, &j));
    samples_drop(j.sample);
    return out;
}

static PyObject *graph_sizes_text(PyObject *x, PyObject *list)
{
    return sizes_text(((graph_object *)x)->g, list);
}

static PyObject *graph_guards(PyObject *x, void *unused)
{
    const cr_gnumbers *all = &((graph_object *)x)->g->numbers;
    PyObject *out = PyList_New((Py_ssize_t)all->guards.len);

    (void)unused;
    for (size_t i = 0; out && i < all->guards.len; i++) {
        const cr_gnum_guard *g = &all->guards.at[i];
        cr_py_put_item(&out, (Py_ssize_t)i,
                       Py_BuildValue("(siiN)", cr_gnum_test_name[g->test], g->a, g->b,
                                     PyBool_FromLong(g->holds)));
    }
    return out;
}

static PyObject *graph_once(PyObject *x, void *unused)
{
    const cr_gblock *b = ((graph_object *)x)->g->body;
    bool once = false;

    (void)unused;
    for (size_t i = 0; i < b->len; i++)
        once = once || cr_gnode_draws(b->at[i]) || cr_gnode_meets(b->at[i]);
    return PyBool_FromLong(once);
}

static void list_add(PyObject *list, PyObject *x)
{
    if (x && !PyErr_Occurred())
        (void)PyList_Append(list, x);
    Py_XDECREF(x);
}

/* The nodes, by their places in nodes(), that write to tensors with a gradient without a
 * history. */
static PyObject *graph_unseen(PyObject *x, void *unused)
{
    const cr_gblock *b = ((graph_object *)x)->g->body;
    PyObject *out = PyList_New(0);

    (void)unused;
    for (size_t i = 0; out && i < b->len; i++)
        if (b->at[i]->no_grad)
            list_add(out, PyLong_FromSize_t(i));
    if (PyErr_Occurred())
        Py_CLEAR(out);
    return out;
}

/* The names of values that autocast's conversions of arguments made. */
static PyObject *graph_casts(PyObject *x, void *unused)
{
    const cr_gblock *b = ((graph_object *)x)->g->body;
    PyObject *out = PyList_New(0);

    (void)unused;
    for (size_t i = 0; out && i < b->len; i++)
        if (b->at[i]->autocast)
            list_add(out, PyUnicode_FromString(b->at[i]->result[0]->name));
    if (PyErr_Occurred())
        Py_CLEAR(out);
    return out;
}

static PyObject *graph_writes(PyObject *x, void *unused)
{
    (void)unused;
    return PyBool_FromLong(cr_graph_writes(((graph_object *)x)->g));
}

static int group_count(const graph_object *self)
{
    return self->code ? cr_compiled_groups(self->code) : 0;
}

/* wait(seconds) -> number of fusion groups with native code */
static PyObject *graph_wait(PyObject *x, PyObject *seconds)
{
    const graph_object *self = (graph_object *)x;
    double left = PyFloat_AsDouble(seconds);
    int ready = 0;

    if (PyErr_Occurred())
        return NULL;
    for (int k = 0; k < group_count(self); k++) {
        cr_jit_kernel *kernel = cr_fused_kernel(cr_compiled_fused(self->code, k));
        CR_PY_UNLOCKED(ready += cr_jit_wait(kernel, left) == CR_JIT_READY);
    }
    return PyLong_FromLong(ready);
}

/* The C text of every fusion group. */
static PyObject *graph_sources(PyObject *x, void *unused)
{
    const graph_object *self = (graph_object *)x;
    PyObject *out = PyTuple_New(group_count(self));

    (void)unused;
    for (int k = 0; out && k < group_count(self); k++)
        cr_py_put_item(&out, k,
                       PyUnicode_FromString(cr_fused_source(cr_compiled_fused(self->code, k))));
    return out;
}

/* Number of programs that compile() built; equal groups share a program. */
static PyObject *graph_built(PyObject *x, void *unused)
{
    const graph_object *self = (graph_object *)x;

    (void)unused;
    return PyLong_FromLong(self->code ? cr_compiled_built(self->code) : 0);
}

/* --- forward and backward --- */

typedef struct {
    const cr_graph *joint;
    int primals, outputs;
    cr_aot_policy policy;
    cr_aot_parts parts;
} cut_job;

static void graph_run_partition(cr_session *s, void *context)
{
    cut_job *j = context;

    (void)s;
    j->parts = cr_aot_partition(j->joint, j->primals, j->outputs, j->policy);
    cr_graph_verify(j->parts.forward);
    cr_graph_verify(j->parts.backward);
}

/* partition(primals, outputs, recompute=True) -> (forward, backward, saved, bytes,
 * recomputed) */
static PyObject *graph_partition(PyObject *x, PyObject *args)
{
    cut_job j = {.joint = ((graph_object *)x)->g};
    int recompute = 1;
    PyObject *forward, *backward;
    cr_status st;

    if (!PyArg_ParseTuple(args, "ii|p", &j.primals, &j.outputs, &recompute))
        return NULL;
    j.policy = recompute ? CR_AOT_MIN_CUT : CR_AOT_SAVE;
    st = cr_session_run(j.joint->session, graph_run_partition, &j);
    if (st)
        return cr_py_raise(st);
    forward = graph_new(j.parts.forward, x, NULL, true);
    backward = graph_new(j.parts.backward, x, NULL, true);
    if (!forward || !backward) {
        Py_XDECREF(forward);
        Py_XDECREF(backward);
        return NULL;
    }
    return Py_BuildValue("(NNiLi)", forward, backward, j.parts.saved,
                         (long long)j.parts.saved_bytes, j.parts.recomputed);
}

/* RecordedGraph(text) */
static PyObject *graph_parse(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    graph_job j = {0};
    cr_session *s;
    PyObject *out = NULL;
    cr_status st;

    (void)type;
    if (kwargs || !PyArg_ParseTuple(args, "s", &j.text))
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_TypeError, "RecordedGraph() takes a text");
    s = cr_session_new();
    st = s ? cr_session_run(s, graph_parse_text, &j) : CR_MEMORY;
    if (st)
        cr_py_raise(st);
    else
        out = graph_new(j.out, NULL, s, true);
    if (!out) {
        cr_graph_drop(j.out);
        cr_session_release(s);
    }
    return out;
}

/* --- nodes as Python objects --- */

static PyObject *arg_object(const cr_garg *a);

static PyObject *graph_list_object(const cr_garg *a)
{
    PyObject *out = PyList_New(a->len);

    for (uint32_t i = 0; out && i < a->len; i++) {
        cr_garg item = {0};
        if (a->tag == CR_FLOATS)
            item = (cr_garg){.tag = CR_FLOAT, .d = a->floats[i]};
        else if (a->tag == CR_INTS || a->tag == CR_TRUTHS)
            item = (cr_garg){.tag = a->tag == CR_INTS ? CR_INT : CR_TRUTH, .i = a->ints[i]};
        else
            item = a->list[i];
        cr_py_put_item(&out, i, arg_object(&item));
    }
    return out;
}

/* A value is the tuple (name,). */
static PyObject *arg_object(const cr_garg *a)
{
    switch ((cr_tag)a->tag) {
    case CR_TENSOR: return Py_BuildValue("(s)", a->value->name);
    case CR_NUMBER: return cr_py_scalar_object(a->number);
    case CR_INT: return PyLong_FromLongLong(a->i);
    case CR_FLOAT: return PyFloat_FromDouble(a->d);
    case CR_TRUTH: return PyBool_FromLong(a->i != 0);
    case CR_STRING: return PyUnicode_FromStringAndSize(a->s, a->len);
    case CR_DTYPE_VAL: return Py_NewRef(cr_py_dtype_object((cr_dtype)a->i));
    case CR_LAYOUT_VAL: return Py_NewRef(cr_py_layout_object((int)a->i));
    case CR_FORMAT_VAL: return Py_NewRef(cr_py_format_object((int)a->i));
    case CR_DEVICE_VAL: return cr_py_device_object(cr_packed_kind(a->i), cr_packed_index(a->i));
    case CR_INTS:
    case CR_TRUTHS:
    case CR_FLOATS:
    case CR_NUMBERS:
    case CR_TENSORS: return graph_list_object(a);
    default: Py_RETURN_NONE;
    }
}

static PyObject *args_object(const cr_gnode *n)
{
    PyObject *out = PyDict_New();

    for (int i = 0; out && i < n->arg_count; i++)
        cr_py_put_named(&out, n->op->param[i].name, arg_object(&n->arg[i]));
    return out;
}

static PyObject *name_object(const cr_gvalue *v) { return PyUnicode_FromString(v->name); }

/* A tuple of what `make` gives for each value. */
static PyObject *values_object(cr_gvalue *const *v, int n, PyObject *(*make)(const cr_gvalue *))
{
    PyObject *out = PyTuple_New(n);

    for (int i = 0; out && i < n; i++)
        cr_py_put_item(&out, i, make(v[i]));
    return out;
}

static PyObject *names_object(cr_gvalue *const *v, int n)
{
    return values_object(v, n, name_object);
}

/* (results, operator, overload, {parameter: argument}, source); for a constant (results, None,
 * tensor).  A value as an argument is the tuple (name,). */
static PyObject *node_object(const cr_gnode *n)
{
    if (n->kind == CR_GNODE_CONSTANT)
        return Py_BuildValue("(NON)", names_object(n->result, n->result_count), Py_None,
                             cr_py_wrap_keep(n->constant));
    if (cr_gnode_blocks(n))
        return PyErr_Format(PyExc_RuntimeError, "%%%s: nested blocks have no node in fx",
                            n->result[0]->name);
    return Py_BuildValue("(NssNz)", names_object(n->result, n->result_count), n->op->name,
                         n->op->overload, args_object(n), n->source);
}

static PyObject *graph_nodes(PyObject *x, PyObject *unused)
{
    const cr_gblock *b = ((graph_object *)x)->g->body;
    PyObject *out = PyList_New((Py_ssize_t)b->len);

    (void)unused;
    for (size_t i = 0; out && i < b->len; i++)
        cr_py_put_item(&out, (Py_ssize_t)i, node_object(b->at[i]));
    return out;
}

/* --- the listing of a graph with groups (compiler/_picture.py) --- */

/* (name, "8x4 f32" with a multiplication sign). */
static PyObject *label_object(const cr_gvalue *v)
{
    cr_text t = {0};

    for (int i = 0; v->type.known && i < v->type.ndim; i++)
        cr_text_printf(&t, "%s%lld", i ? "\xc3\x97" : "", (long long)v->type.size[i]);
    cr_text_printf(&t, "%s%s", v->type.known && v->type.ndim ? " " : "",
                   v->type.known ? cr_dtype_infos[v->type.dtype].suffix : "?");
    PyObject *out = Py_BuildValue("(ss)", v->name, cr_text_str(&t));
    cr_text_drop(&t);
    return out;
}

static void list_add_name(void *list, cr_gvalue *v) { list_add(list, name_object(v)); }

static const char *shown_name(const cr_gnode *n)
{
    return n->kind == CR_GNODE_CONSTANT ? "constant"
           : n->kind == CR_GNODE_IF     ? "if"
                                        : n->op->name;
}

static const char *shown_kind(const cr_gnode *n)
{
    return n->kind == CR_GNODE_CONSTANT                             ? "constant"
           : n->kind == CR_GNODE_GROUP                              ? "group"
           : n->kind == CR_GNODE_CALL && n->op->does == CR_DOES_MAP ? "view"
                                                                    : "call";
}

/* (kind, [(name, source)] of the node, or of the nodes of a group, names that it reads,
 * results). */
static PyObject *listed_node(const cr_gnode *n)
{
    PyObject *lines = PyList_New(0), *reads = PyList_New(0);
    bool group = n->kind == CR_GNODE_GROUP;

    for (size_t i = 0; lines && reads && i < (group ? n->block[0]->len : 1); i++) {
        const cr_gnode *line = group ? n->block[0]->at[i] : n;
        list_add(lines,
                 Py_BuildValue("(ss)", shown_name(line), line->source ? line->source : ""));
    }
    if (lines && reads) {
        cr_gnode_each_read(n, list_add_name, reads);
        for (int b = 0; b < cr_gnode_blocks(n); b++)
            cr_gblock_each_read(n->block[b], list_add_name, reads);
    }
    return Py_BuildValue("(sNNN)", shown_kind(n), lines, reads,
                         values_object(n->result, n->result_count, label_object));
}

PyObject *cr_py_graph_listing(const char *title, const cr_graph *g)
{
    PyObject *nodes = PyList_New(0), *outputs = PyList_New(0);

    for (size_t i = 0; nodes && i < g->body->len; i++)
        list_add(nodes, listed_node(g->body->at[i]));
    if (outputs)
        cr_gblock_each_output(g->body, list_add_name, outputs);
    if (!PyErr_Occurred())
        return Py_BuildValue("(sNNN)", title,
                             values_object(g->input, g->input_count, label_object), nodes,
                             outputs);
    Py_XDECREF(nodes);
    Py_XDECREF(outputs);
    return NULL;
}

/* The symbols among a node's arguments that count its results. */
static PyObject *counting_symbols(const cr_gnode *n)
{
    PyObject *out = PyList_New(0);

    for (int i = 0; out && i < n->arg_count; i++) {
        const cr_garg *a = &n->arg[i];
        if (!(n->op->counts >> i & 1) || a->tag != CR_INT || !cr_gnum_is_int(a->i))
            continue;
        cr_py_append(&out, PyLong_FromLong(cr_gnum_of_int(a->i)));
    }
    return out;
}

/* (operator, source, tensor, dim, symbols) of a call whose number of results follows the
 * tensor's size along the dim and the symbols; None for other nodes. */
static PyObject *count_object(const cr_gnode *n)
{
    int at = n->op ? cr_op_find_param(n->op, "dim") : -1;
    int64_t dim;

    if (n->kind != CR_GNODE_CALL || !n->op->counts || at < 0)
        Py_RETURN_NONE;
    if (cr_gnum_is_int(n->arg[at].i) ||
        cr_wrap_dim(&dim, n->arg[at].i, n->arg[0].value->type.ndim))
        dim = -1; /* any */
    return Py_BuildValue("(szsLN)", n->op->name, n->source, n->arg[0].value->name,
                         (long long)dim, counting_symbols(n));
}

static PyObject *graph_counts(PyObject *x, PyObject *unused)
{
    const cr_gblock *b = ((graph_object *)x)->g->body;
    PyObject *out = PyList_New(0);

    (void)unused;
    for (size_t i = 0; out && i < b->len; i++) {
        PyObject *one = count_object(b->at[i]);
        if (!one || (one != Py_None && PyList_Append(out, one) < 0))
            Py_CLEAR(out);
        Py_XDECREF(one);
    }
    return out;
}

static PyObject *graph_inputs(PyObject *x, void *unused)
{
    const cr_graph *g = ((graph_object *)x)->g;

    (void)unused;
    return names_object(g->input, g->input_count);
}

static PyObject *graph_size(PyObject *x, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((graph_object *)x)->g->body->len);
}

/* Names of the outputs; None for an output without a value. */
static PyObject *graph_outputs(PyObject *x, void *unused)
{
    const cr_gblock *b = ((graph_object *)x)->g->body;
    PyObject *out = PyTuple_New(b->output_count);

    (void)unused;
    for (int i = 0; out && i < b->output_count; i++)
        cr_py_put_item(&out, i,
                       b->output[i].tag == CR_TENSOR
                           ? PyUnicode_FromString(b->output[i].value->name)
                           : Py_NewRef(Py_None));
    return out;
}

static PyMethodDef graph_methods[] = {
    {"run", graph_run, METH_O, "run(inputs) -> outputs: calls the nodes in order."},
    {"fits", graph_fits, METH_VARARGS,
     "fits(inputs, numbers) -> bool: true when the guards on sizes and numbers hold for these "
     "inputs;\n"
     "raises an operator's error."},
    {"cost", graph_cost_text, METH_NOARGS,
     "cost() -> str: operations and bytes of every node, and their sums."},
    {"types", graph_types, METH_NOARGS,
     "types() -> {name of a value: (dtype, sizes, strides, device, requires_grad)}, as "
     "recorded."},
    {"rt_file", graph_rt_file, METH_VARARGS,
     "rt_file(inputs, kinds, results) -> bytes: the calls as a file of the runtime "
     "(compile/rt_file.h).\n"
     "kinds: as in c_file, without files; results: their names."},
    {"takes", graph_takes, METH_O,
     "takes({index of a number: size}) -> bool: whether the guards hold when inputs have these "
     "sizes,\n"
     "by the indices of these numbers; raises an operator's error."},
    {"sizes", graph_sizes_text, METH_O,
     "sizes(samples) -> str: a line for every value, with its sizes as expressions over the "
     "symbols;\n"
     "samples: at least two dicts as of takes()."},
    {"apply", graph_apply, METH_O, "apply(name) -> RecordedGraph: runs the pass of this name."},
    {"partition", graph_partition, METH_VARARGS,
     "partition(primals, outputs, recompute=True) -> (forward, backward, number of saved "
     "values, their\n"
     "bytes without primals, number of recomputed nodes): partitions a joint graph "
     "(aot/aot.h)."},
    {"compile", graph_compile, METH_NOARGS,
     "compile() -> RecordedGraph: pointwise nodes in fusion groups, which run as tiles at once "
     "and as "
     "native\n"
     "code when it is ready, with the same bits as the separate nodes."},
    {"program", graph_program, METH_VARARGS,
     "program(how=0) -> Program: the graph after the passes, with fusion groups, as a list of "
     "steps; how as in call()."},
    {"lift", graph_lift, METH_NOARGS,
     "lift() -> origins: makes constants inputs of the graph and removes unused inputs; "
     "origins\n"
     "gives for each input the earlier input's index, or the constant."},
    {"call", graph_call, METH_VARARGS,
     "call(grad, how=0) -> Call: the programs of a recording without constants; Calls when it "
     "has\n"
     "symbols.  how combines _HOW_FAST, _HOW_MEASURE, _HOW_CALLS and _HOW_APART."},
    {"wait", graph_wait, METH_O, "wait(seconds) -> number of fusion groups with native code."},
    {"onnx", graph_onnx, METH_VARARGS,
     "onnx(samples, inputs, outputs, how) -> (bytes of a file of ONNX, list of (tensor, offset "
     "in "
     "the\n"
     "second file)).  samples: dicts as of takes(), those of the example first; inputs: (name, "
     "tensor\n"
     "or None, names of dims or None); outputs: names; how: (opset, weights, weights as "
     "inputs, "
     "name of\n"
     "the second file or None, version)."},
    {"counts", graph_counts, METH_NOARGS,
     "counts() -> list of (operator, source, tensor, dim, symbols): calls whose number of "
     "results follows the tensor's size along the dim and the symbols."},
    {"nodes", graph_nodes, METH_NOARGS,
     "Every node: (results, operator, overload, arguments, source) or (results, None, "
     "constant)."},
    {0}};
static PyGetSetDef graph_getset[] = {
    {"inputs", graph_inputs, NULL, "Names of the inputs.", NULL},
    {"outputs", graph_outputs, NULL, "Names of the outputs.", NULL},
    {"size", graph_size, NULL, "The number of nodes, without those in nested blocks.", NULL},
    {"numbers", graph_numbers, NULL, "The symbols: inputs, sizes, and arithmetic on them.",
     NULL},
    {"guards", graph_guards, NULL,
     "The conditions on symbols: (test, index, index, whether it holds).", NULL},
    {"writes", graph_writes, NULL, "True when a node writes to a tensor.", NULL},
    {"unseen", graph_unseen, NULL,
     "Places in nodes() of writes under no_grad to tensors that require a gradient.", NULL},
    {"casts", graph_casts, NULL,
     "Names of the values that autocast's conversions of arguments made.", NULL},
    {"once", graph_once, NULL,
     "True when a second run would not be like the first: a node draws random numbers or is a "
     "call between ranks.",
     NULL},
    {"sources", graph_sources, NULL, "The C text of every fusion group.", NULL},
    {"built", graph_built, NULL, "Number of programs that compile() built.", NULL},
    {0}};
static PyTypeObject graph_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.RecordedGraph",
    .tp_basicsize = sizeof(graph_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc =
        "RecordedGraph(text): operator calls in single assignment form; str() gives the text.",
    .tp_new = graph_parse,
    .tp_dealloc = graph_dealloc,
    .tp_repr = graph_repr,
    .tp_methods = graph_methods,
    .tp_getset = graph_getset,
};

/* --- recorders --- */

static PyObject *recorder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"parts", "sources", "borrow", "whole", NULL};
    recorder_object *self;
    int parts = 0, sources = 0, borrow = 0, whole = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|pppp", names, &parts, &sources, &borrow,
                                     &whole))
        return NULL;
    self = PyObject_New(recorder_object, type);
    if (!self)
        return NULL;
    self->r = NULL;
    self->ends = NULL;
    self->where = sources ? cr_py_where_new() : NULL;
    cr_status st = CR_OK;
    if (!sources || self->where)
        st = cr_recorder_new(&self->r, parts);
    if (self->r && borrow)
        cr_recorder_borrow(self->r);
    if (self->r && whole)
        cr_recorder_record_whole(self->r);
    if (self->r && self->where)
        cr_recorder_follow(self->r, cr_py_where_now, self->where);
    if (self->r)
        return (PyObject *)self;
    Py_DECREF(self);
    return st ? cr_py_raise(st) : NULL;
}

static void recorder_dealloc(PyObject *x)
{
    cr_recorder_drop(((recorder_object *)x)->r);
    cr_py_where_drop(((recorder_object *)x)->where);
    Py_XDECREF(((recorder_object *)x)->ends);
    PyObject_Free(x);
}

static PyObject *recorder_input(PyObject *x, PyObject *args)
{
    PyObject *t;
    const char *name = NULL;

    if (!PyArg_ParseTuple(args, "O|z", &t, &name))
        return NULL;
    if (!cr_py_is_tensor(t))
        return PyErr_Format(PyExc_TypeError, "an input is a Tensor, not %s",
                            Py_TYPE(t)->tp_name);
    return cr_py_done(cr_recorder_input(((recorder_object *)x)->r, cr_py_tensor_of(t), name));
}

static PyObject *recorder_start(PyObject *x, PyObject *unused)
{
    (void)unused;
    return cr_py_done(cr_recorder_start(((recorder_object *)x)->r));
}

static PyObject *recorder_stop(PyObject *x, PyObject *unused)
{
    (void)unused;
    cr_recorder_stop(((recorder_object *)x)->r);
    Py_RETURN_NONE;
}

static PyObject *recorder_at(PyObject *x, PyObject *source)
{
    const char *text = source == Py_None ? NULL : PyUnicode_AsUTF8(source);

    if (PyErr_Occurred())
        return NULL;
    cr_recorder_at(((recorder_object *)x)->r, text);
    Py_RETURN_NONE;
}

/* finish(outputs): tensors or None */
static PyObject *recorder_finish(PyObject *x, PyObject *given)
{
    PyObject *list = PySequence_Tuple(given), *out = NULL;
    Py_ssize_t n = list ? PySequence_Fast_GET_SIZE(list) : 0;
    cr_tensor **output = list ? PyMem_Calloc((size_t)n + 1, sizeof *output) : NULL;
    cr_graph *g = NULL;
    cr_status st;

    if (!output) {
        Py_XDECREF(list);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *t = PySequence_Fast_GET_ITEM(list, i);
        if (t != Py_None && !cr_py_is_tensor(t)) {
            PyErr_Format(PyExc_TypeError, "an output is a Tensor or None, not %s",
                         Py_TYPE(t)->tp_name);
            goto done;
        }
        output[i] = t == Py_None ? NULL : cr_py_tensor_of(t);
    }
    st = cr_recorder_finish(&g, ((recorder_object *)x)->r, output, (int)n);
    if (!st)
        cr_show_graph("graph", "recorded", g);
    out = st ? cr_py_raise(st) : graph_new(g, x, NULL, false);
done:
    PyMem_Free(output);
    Py_DECREF(list);
    return out;
}

/* foreign() -> tensors that the calls read and that are neither inputs nor results of the
 * calls. */
static PyObject *recorder_foreign(PyObject *x, PyObject *unused)
{
    cr_tensor *const *at;
    size_t n = cr_recorder_foreign(((recorder_object *)x)->r, &at);
    PyObject *out = PyList_New((Py_ssize_t)n);

    (void)unused;
    for (size_t i = 0; out && i < n; i++)
        cr_py_put_item(&out, (Py_ssize_t)i, cr_py_wrap_keep(at[i]));
    return out;
}

/* sparse() -> {name of a value: tensor} */
static PyObject *recorder_sparse(PyObject *x, PyObject *unused)
{
    const cr_recorder *r = ((recorder_object *)x)->r;
    size_t n = cr_recorder_sparse(r, NULL, NULL);
    cr_tensor **tensor = PyMem_Calloc(n + 1, sizeof *tensor);
    const char **name = PyMem_Calloc(n + 1, sizeof *name);
    PyObject *out = tensor && name ? PyDict_New() : PyErr_NoMemory();

    (void)unused;
    if (out)
        cr_recorder_sparse(r, tensor, name);
    for (size_t i = 0; out && i < n; i++) {
        PyObject *one = cr_py_wrap_keep(tensor[i]);
        if (!one || PyDict_SetItemString(out, name[i], one) < 0)
            Py_CLEAR(out);
        Py_XDECREF(one);
    }
    PyMem_Free(tensor);
    PyMem_Free(name);
    return out;
}

static void recorder_graph_ends(void *context, const char *why, bool of_size)
{
    cr_py_part part = of_size ? CR_PY_PART_SIZE : cr_py_part_read();
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    PyObject *out = PyObject_CallFunction(((recorder_object *)context)->ends, "sz", why,
                                          cr_py_part_name(part));
    if (!out)
        PyErr_WriteUnraisable(((recorder_object *)context)->ends);
    Py_XDECREF(out);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(lock);
}

/* ends(function) */
static PyObject *recorder_ends(PyObject *x, PyObject *function)
{
    recorder_object *self = (recorder_object *)x;

    Py_XSETREF(self->ends, Py_NewRef(function));
    cr_recorder_ends(self->r, recorder_graph_ends, self);
    Py_RETURN_NONE;
}

/* made() -> results of recorded calls that Python holds. */
static PyObject *recorder_made(PyObject *x, PyObject *unused)
{
    const cr_recorder *r = ((recorder_object *)x)->r;
    size_t n = cr_recorder_made(r, NULL), k = 0;
    cr_tensor **made = PyMem_Calloc(n + 1, sizeof *made);
    PyObject *out = made ? PyList_New((Py_ssize_t)n) : PyErr_NoMemory();

    (void)unused;
    if (out)
        cr_recorder_made(r, made);
    for (; out && k < n; k++)
        PyList_SET_ITEM(out, (Py_ssize_t)k, cr_py_wrap_keep(made[k])); /* it has a wrapper */
    PyMem_Free(made);
    return out;
}

/* Whether `t` has memory that no other tensor or object of the program can reach.  Deferred
 * calls, the history of `t` and the recorder may refer to it. */
static bool recorder_is_sole(const cr_recorder *r, const cr_tensor *t)
{
    const cr_storage *s = t->storage;
    const cr_grad_meta *g = t->grad;

    if (!s || !cr_storage_is_watched(s))
        return false;
    int32_t others =
        atomic_load(&s->count) - 1 - cr_defer_references(s) - cr_recorder_kept(r, t);
    if (g && g->base)
        others -= g->base->storage == s && !g->base->peer;
    else if (g && g->grad_fn)
        others -= cr_node_results_over(g->grad_fn, s);
    return others <= 0;
}

/* sole(tensors) */
static PyObject *recorder_sole(PyObject *x, PyObject *list)
{
    bool yes = true;

    if (!PyList_Check(list))
        return PyErr_Format(PyExc_TypeError, "sole() takes a list");
    for (Py_ssize_t i = 0; yes && i < PyList_GET_SIZE(list); i++) {
        PyObject *t = PyList_GET_ITEM(list, i);
        yes = cr_py_is_tensor(t) &&
              recorder_is_sole(((recorder_object *)x)->r, cr_py_tensor_of(t));
    }
    return PyBool_FromLong(yes);
}

/* number(value) -> Symbol: adds a number input. */
static PyObject *recorder_number(PyObject *x, PyObject *value)
{
    cr_recorder *r = ((recorder_object *)x)->r;
    cr_scalar s;
    int k;

    if (cr_py_scalar_from(value, &s) != CR_PY_FITS)
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError, "number() takes an int or a float");
    cr_status st = cr_recorder_number(&k, r, s);
    return st ? cr_py_raise(st) : cr_py_symbol(r, k);
}

/* dynamic(tensor, dims): makes the sizes of an input symbols, for the dims in the mask. */
static PyObject *recorder_dynamic(PyObject *x, PyObject *args)
{
    PyObject *t;
    unsigned long long dims;

    if (!PyArg_ParseTuple(args, "OK", &t, &dims))
        return NULL;
    if (!cr_py_is_tensor(t))
        return PyErr_Format(PyExc_TypeError, "dynamic() takes a tensor");
    return cr_py_done(cr_recorder_dynamic(((recorder_object *)x)->r, cr_py_tensor_of(t), dims));
}

/* sizes(samples) */
static PyObject *recorder_sizes_text(PyObject *x, PyObject *list)
{
    return sizes_text(cr_recorder_graph(((recorder_object *)x)->r), list);
}

/* takes(sizes) */
static PyObject *recorder_takes(PyObject *x, PyObject *given)
{
    return takes_of(cr_recorder_graph(((recorder_object *)x)->r), given);
}

/* apart(yes) */
static PyObject *recorder_apart(PyObject *x, PyObject *yes)
{
    cr_recorder_sized_apart(((recorder_object *)x)->r, yes == Py_True);
    Py_RETURN_NONE;
}

/* decides(function) */
static PyObject *recorder_decides(PyObject *x, PyObject *function)
{
    if (!cr_py_symbols_decided(((recorder_object *)x)->r, function))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *recorder_settle(PyObject *x, PyObject *unused)
{
    (void)unused;
    if (!cr_py_symbols_settle(((recorder_object *)x)->r))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *recorder_enter(PyObject *x, PyObject *unused)
{
    (void)unused;
    return cr_py_symbols_enter(((recorder_object *)x)->r);
}

static PyObject *recorder_leave(PyObject *x, PyObject *unused)
{
    (void)x;
    (void)unused;
    return cr_py_symbols_leave();
}

static PyObject *recorder_around(PyObject *x, PyObject *t)
{
    (void)x;
    if (!cr_py_is_tensor(t))
        return PyErr_Format(PyExc_TypeError, "around() takes a tensor");
    return cr_py_symbolic_around(cr_py_tensor_of(t));
}

static PyObject *recorder_numbers(PyObject *x, void *unused)
{
    (void)unused;
    return numbers_of(cr_recorder_graph(((recorder_object *)x)->r));
}

static PyObject *recorder_backward(PyObject *x, void *unused)
{
    (void)unused;
    return PyBool_FromLong(cr_recorder_saw_backward(((recorder_object *)x)->r));
}

static PyObject *recorder_fixed_floats(PyObject *x, void *unused)
{
    (void)unused;
    return PyBool_FromLong(cr_recorder_fixed_floats(((recorder_object *)x)->r));
}

static PyGetSetDef recorder_getset[] = {
    {"backward", recorder_backward, NULL, "True when a backward pass was recorded.", NULL},
    {"fixed_floats", recorder_fixed_floats, NULL,
     "True when a guard fixes a float because a derivative keeps it.", NULL},
    {"numbers", recorder_numbers, NULL, "The symbols so far, as RecordedGraph.numbers.", NULL},
    {0}};
static PyMethodDef recorder_methods[] = {
    {"number", recorder_number, METH_O, "number(value) -> Symbol: adds a number input."},
    {"dynamic", recorder_dynamic, METH_VARARGS,
     "dynamic(tensor, dims): makes the sizes of an input symbols, for the dims in the mask."},
    {"sizes", recorder_sizes_text, METH_O,
     "sizes(samples) -> str: RecordedGraph.sizes() of the calls so far."},
    {"takes", recorder_takes, METH_O,
     "takes(sizes) -> bool: RecordedGraph.takes() of the calls so far."},
    {"apart", recorder_apart, METH_O,
     "apart(yes): whether calls whose sizes depend on elements are left out: a handler of "
     "Python\n"
     "makes their results by other calls."},
    {"decides", recorder_decides, METH_O,
     "decides(function): comparisons of symbols are function(test, a, b), which returns "
     "NotImplemented\n"
     "for those that the present values decide; test: ==, !=, <, <=, >, >=, or None where the "
     "program\n"
     "needs a's value."},
    {"settle", recorder_settle, METH_NOARGS,
     "Makes numbers of the symbols that the program still has, wherever they are; the "
     "recording "
     "is\n"
     "fixed to these."},
    {"enter", recorder_enter, METH_NOARGS,
     "Until leave(), other recorders record parts of the program that this one records.  The "
     "recorder\n"
     "must live until then."},
    {"leave", recorder_leave, METH_NOARGS,
     "leave() -> the symbols, and tensors with symbolic sizes, of the recorders that were "
     "entered,\n"
     "which a part used as if they were plain."},
    {"around", recorder_around, METH_O,
     "around(tensor) -> mask of its dims that are symbols of recorders that were entered."},
    {"sparse", recorder_sparse, METH_NOARGS,
     "sparse() -> {name of a value: tensor}: the values of sparse layouts."},
    {"foreign", recorder_foreign, METH_NOARGS,
     "foreign() -> tensors that the calls read and that are neither inputs nor results of the "
     "calls."},
    {"ends", recorder_ends, METH_O,
     "ends(function): calls function(why, part), which stops the recorder, where no graph can "
     "represent what the program does.  The recorder must live until the call returns."},
    {"made", recorder_made, METH_NOARGS,
     "made() -> results of recorded calls that the program can still use."},
    {"sole", recorder_sole, METH_O,
     "sole(tensors) -> bool: whether nothing else in the program has memory of these tensors."},
    {"input", recorder_input, METH_VARARGS,
     "input(tensor, name=None): adds an input to the graph."},
    {"start", recorder_start, METH_NOARGS, "Starts recording the calls of this thread."},
    {"stop", recorder_stop, METH_NOARGS, "Stops recording."},
    {"at", recorder_at, METH_O,
     "at(source): sets the source of the next calls, \"file.py:12\"."},
    {"finish", recorder_finish, METH_O, "finish(outputs) -> RecordedGraph."},
    {0}};
static PyTypeObject recorder_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.Recorder",
    .tp_basicsize = sizeof(recorder_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc =
        "Recorder(parts=False, sources=False, borrow=False, whole=False): records the operator "
        "calls\n"
        "of a thread as a graph; parts: compositions without a derivative are recorded as "
        "their "
        "parts;\n"
        "sources: nodes have the source line of the call; whole: each call is one node, also "
        "those\n"
        "that a handler of Python takes.",
    .tp_new = recorder_new,
    .tp_dealloc = recorder_dealloc,
    .tp_methods = recorder_methods,
    .tp_getset = recorder_getset,
};

int cr_py_graph_start(PyObject *m)
{
    cr_graph_start();
    if (cr_py_add_type(m, "RecordedGraph", &graph_type) < 0)
        return -1;
    return cr_py_add_type(m, "Recorder", &recorder_type);
}
