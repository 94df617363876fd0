/* Recorded graphs as C files: one that a program includes, and that of an AOT object. */
#include "py/bind/compile/c_file.h"
#include "base/isa.h"
#include "compile/commands.h"
#include "object/object.h"
#include "py/bind/compile/compiled.h"
#include <string.h>

/* A recording at some sizes. */
typedef struct {
    const cr_graph *g;
    cr_tensor **input;
    PyObject *items; /* which own the inputs */
    cr_plan plan;
    int *ndim;
    const int64_t **size;
} recorded;

static void recorded_drop(recorded *r)
{
    cr_plan_drop(&r->plan);
    PyMem_Free(r->input);
    PyMem_Free(r->ndim);
    PyMem_Free(r->size);
    Py_XDECREF(r->items);
}

static bool take_recorded(recorded *r, PyObject *graph, PyObject *inputs)
{
    r->g = cr_py_graph_of(graph);
    r->input = r->g ? cr_py_graph_inputs(r->g, inputs, &r->items) : NULL;
    if (!r->input)
        return false;
    r->ndim = PyMem_Calloc((size_t)r->g->input_count + 1, sizeof *r->ndim);
    r->size = PyMem_Calloc((size_t)r->g->input_count + 1, sizeof *r->size);
    if (!r->ndim || !r->size)
        return PyErr_NoMemory() != NULL;
    for (int i = 0; i < r->g->input_count; i++) {
        r->ndim[i] = r->input[i]->ndim;
        r->size[i] = r->input[i]->size;
    }
    return true;
}

static void plan_of(cr_session *s, void *context)
{
    recorded *r = context;

    cr_session_check(s, cr_graph_file_plan(&r->plan, r->g, r->input));
}

static bool make_plan(recorded *r)
{
    cr_session s = {.status = CR_OK};
    cr_status st = cr_session_run(&s, plan_of, r);

    cr_session_drop(&s);
    return st ? cr_py_raise(st) != NULL : true;
}

bool cr_py_c_input(cr_c_input *out, cr_tensor *t, PyObject *given)
{
    PyObject *halves = NULL;
    const char *kind;
    char *at;

    if (!PyArg_ParseTuple(given, "ss|O", &out->name, &kind, &halves))
        return false;
    if (halves) { /* of a float32 input */
        t = cr_py_is_tensor(halves) ? cr_py_tensor_of(halves) : t;
        out->half = t->dtype;
        CR_ASSERT(t->dtype == CR_F16 || t->dtype == CR_BF16);
    }
    if (!t->contiguous || !cr_is_host(t->device)) {
        PyErr_SetString(PyExc_ValueError,
                        "inputs of a C file are contiguous tensors on the host");
        return false;
    }
    cr_status st = cr_reach(&at, t);
    out->dtype = halves ? CR_F32 : t->dtype;
    out->count = t->numel;
    bool argument = !strcmp(kind, "argument") || !strcmp(kind, "written");
    out->state = !strcmp(kind, "written") || !strncmp(kind, "state ", 6);
    out->values = argument ? NULL : t->numel ? at : ""; /* or no elements */
    out->from_file = !strcmp(kind + (out->values && out->state ? 6 : 0), "file");
    return st ? cr_py_raise(st) != NULL : true;
}

/* The descriptions of a recording's inputs, in new memory. */
static cr_c_input *describe_inputs(const recorded *r, PyObject *kinds)
{
    cr_c_input *out = PyMem_Calloc((size_t)r->g->input_count + 1, sizeof *out);

    if (out && PyTuple_GET_SIZE(kinds) != r->g->input_count)
        PyErr_SetString(PyExc_TypeError, "a C file has a kind for each input");
    for (int i = 0; out && !PyErr_Occurred() && i < r->g->input_count; i++)
        (void)!cr_py_c_input(&out[i], r->input[i], PyTuple_GET_ITEM(kinds, i));
    if (!PyErr_Occurred() && out)
        return out;
    PyMem_Free(out);
    return out ? NULL : (cr_c_input *)PyErr_NoMemory();
}

/* Where each weight is in the bytes: (offset, panel, columns, depth, deep, wide); None: not
 * there. */
static PyObject *places_of(const cr_c_input *with, int n)
{
    PyObject *out = PyList_New(n);
    long long at = 0;

    for (int i = 0; out && i < n; i++) {
        PyObject *one =
            with[i].from_file
                ? Py_BuildValue("(LLLLLL)", at, (long long)with[i].panel,
                                (long long)with[i].columns, (long long)with[i].depth,
                                (long long)with[i].deep, (long long)with[i].wide)
                : Py_NewRef(Py_None);
        at += with[i].from_file ? cr_c_weight_span(&with[i]) : 0;
        if (!one)
            Py_CLEAR(out);
        else
            PyList_SET_ITEM(out, i, one);
    }
    return out;
}

/* (text, bytes of the inputs that are read from a file, their places) */
static PyObject *file_and_weights(const cr_text *text, const cr_c_input *with, int n)
{
    cr_text bytes = {0};
    PyObject *places = places_of(with, n), *out = NULL;

    for (int i = 0; i < n; i++)
        if (with[i].from_file)
            cr_c_weight_bytes(&bytes, &with[i]);
    if (text->failed || bytes.failed)
        PyErr_NoMemory();
    else if (places)
        out = Py_BuildValue("sy#O", cr_text_str(text), cr_text_str(&bytes),
                            (Py_ssize_t)bytes.len, places);
    Py_XDECREF(places);
    cr_text_drop(&bytes);
    return out;
}

/* _c_file(graph, inputs, kinds, name, threads) */
static PyObject *c_file(PyObject *module, PyObject *args)
{
    PyObject *graph, *given, *kinds, *out = NULL;
    cr_session s = {.status = CR_OK};
    recorded r = {.plan = {.arena = {0}}};
    cr_c_input *with = NULL;
    cr_text text = {0};
    cr_c_how how = {0};
    int threads;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOO!sp:_c_file", &graph, &given, &PyTuple_Type, &kinds,
                          &how.name, &threads))
        return NULL;
    how.threads = threads;
    if (take_recorded(&r, graph, given) && (with = describe_inputs(&r, kinds)) &&
        make_plan(&r)) {
        cr_status st = cr_c_file(&s, &text, &r.plan, &how, with, r.g->input_count);
        out = st ? cr_py_raise(st) : file_and_weights(&text, with, r.g->input_count);
    }
    cr_session_drop(&s);
    cr_text_drop(&text);
    PyMem_Free(with);
    recorded_drop(&r);
    return out;
}

enum { MOST_PROBES = 8 };

typedef struct {
    recorded r[MOST_PROBES];
    cr_c_probe probe[MOST_PROBES];
    int probes, libraries;
    cr_c_range range;
} object_job;

/* Probes are (graph, inputs, size). */
static bool take_probes(object_job *j, PyObject *list)
{
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++) {
        PyObject *graph, *inputs;
        long long n;
        recorded *r = &j->r[k];
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, k), "OOL", &graph, &inputs, &n))
            return false;
        j->probes++;
        if (!take_recorded(r, graph, inputs) || !make_plan(r))
            return false;
        if (r->g->input_count != j->r[0].g->input_count) {
            PyErr_SetString(PyExc_ValueError, "probes have the same inputs");
            return false;
        }
        j->probe[k] = (cr_c_probe){&r->plan, n, r->size, r->ndim};
    }
    return true;
}

static PyObject *print_object(object_job *j, PyObject *kinds)
{
    cr_session s = {.status = CR_OK};
    cr_text text = {0};
    cr_c_input *with = describe_inputs(&j->r[0], kinds);
    PyObject *out = NULL;

    if (with) {
        cr_status st = cr_c_object(&s, &text, j->probe, j->probes, &j->range, j->libraries,
                                   with, j->r[0].g->input_count);
        out = st ? cr_py_raise(st) : file_and_weights(&text, with, j->r[0].g->input_count);
    }
    cr_session_drop(&s);
    cr_text_drop(&text);
    PyMem_Free(with);
    return out;
}

/* _aot_file(probes, kinds, symbol, least, most, libraries) */
static PyObject *aot_file(PyObject *module, PyObject *args)
{
    object_job *j = PyMem_Calloc(1, sizeof *j);
    PyObject *probes, *kinds, *out = NULL;
    long long least, most;

    (void)module;
    if (!j)
        return PyErr_NoMemory();
    if (PyArg_ParseTuple(args, "O!O!zLLp:_aot_file", &PyList_Type, &probes, &PyTuple_Type,
                         &kinds, &j->range.symbol, &least, &most, &j->libraries)) {
        j->range.least = least;
        j->range.most = most;
        if (!PyList_GET_SIZE(probes) || PyList_GET_SIZE(probes) > MOST_PROBES)
            PyErr_Format(PyExc_ValueError, "1 to %d probes are needed", MOST_PROBES);
        else if (take_probes(j, probes))
            out = print_object(j, kinds);
    }
    for (int k = 0; k < j->probes; k++)
        recorded_drop(&j->r[k]);
    PyMem_Free(j);
    return out;
}

/* _aot_seal(code, weights, spec, isa) */
static PyObject *aot_seal(PyObject *module, PyObject *args)
{
    unsigned char seal[CR_OBJECT_SEAL_BYTES];
    cr_object_record record[CR_OBJECT_RECORDS];
    const char *isa;
    Py_ssize_t n[CR_OBJECT_RECORDS];

    (void)module;
    if (!PyArg_ParseTuple(args, "y#y#y#s:_aot_seal", &record[0].bytes, &n[0], &record[1].bytes,
                          &n[1], &record[2].bytes, &n[2], &isa))
        return NULL;
    for (int k = 0; k < CR_OBJECT_RECORDS; k++)
        record[k].n = (size_t)n[k];
    cr_object_seal(seal, record, isa);
    return PyBytes_FromStringAndSize((const char *)seal, sizeof seal);
}

/* _aot_isa(name or None) -> (name, flags): an instruction set, or that of this process. */
static PyObject *aot_isa(PyObject *module, PyObject *args)
{
    const char *name;

    (void)module;
    if (!PyArg_ParseTuple(args, "z:_aot_isa", &name))
        return NULL;
    for (int k = 0; k < CR_ISA_COUNT; k++)
        if (name ? !strcmp(name, cr_isa_name((cr_isa)k)) : k == (int)cr_isa_chosen())
            return Py_BuildValue("(ss)", cr_isa_name((cr_isa)k), cr_isa_flags((cr_isa)k));
    return PyErr_Format(PyExc_ValueError,
                        "there is no instruction set %s; known: base, avx2, avx512", name);
}

static PyMethodDef functions[] = {
    {"_aot_isa", aot_isa, METH_VARARGS,
     "_aot_isa(name or None) -> (name, compiler's flags); None: that of this process"},
    {"_c_file", c_file, METH_VARARGS,
     "_c_file(graph, inputs, kinds, name, threads) -> (text, weights, places): the calls as "
     "one "
     "C99 file\n(compile/c_text.h).  kinds: of each input (name, kind),, and of an input of "
     "float32 whose values the\nfile has as halves these; 'argument', 'written', 'array', "
     "'file', 'state array' or 'state file'."},
    {"_aot_file", aot_file, METH_VARARGS,
     "_aot_file([(graph, inputs, size)], kinds, symbol, least, most) -> (text, weights, "
     "places): "
     "the C file of\nan AOT object, for one size or for those of a range."},
    {"_aot_seal", aot_seal, METH_VARARGS,
     "_aot_seal(code, weights, spec, isa) -> bytes (object/seal.h)"},
    {NULL, NULL, 0, NULL}};

int cr_py_c_file_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
