/* RecordedGraph.onnx(): the calls as a file of ONNX (onnx/onnx.h). */
#include "py/bind/compile/onnx.h"
#include <string.h>

typedef struct {
    const cr_graph *g;
    const cr_scalar *const *sample;
    int samples;
    cr_onnx_input *input;
    cr_onnx_how how;
    cr_text out;
    cr_onnx_places places;
} onnx_job;

static void run_onnx(cr_session *s, void *context)
{
    onnx_job *j = context;

    cr_onnx_file(s, &j->out, &j->places, j->g, j->sample, j->samples, j->input, &j->how);
}

/* The names of a tuple, in new memory; None is NULL. */
static const char **names_given(PyObject *tuple)
{
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    const char **out = PyMem_Calloc((size_t)n + 1, sizeof *out);

    for (Py_ssize_t i = 0, len; out && i < n; i++) {
        if (PyTuple_GET_ITEM(tuple, i) == Py_None)
            continue;
        out[i] = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(tuple, i), &len);
        if (out[i] && strlen(out[i]) != (size_t)len)
            PyErr_SetString(PyExc_ValueError, "embedded null character");
    }
    return out ? out : (const char **)PyErr_NoMemory();
}

static bool take_onnx_input(cr_onnx_input *in, PyObject *given, int ndim)
{
    PyObject *tensor, *dims;

    if (!PyArg_ParseTuple(given, "sOO", &in->name, &tensor, &dims))
        return false;
    if (tensor != Py_None && !cr_py_is_tensor(tensor)) {
        PyErr_SetString(PyExc_TypeError, "an input's values are a tensor or None");
        return false;
    }
    in->values = tensor == Py_None ? NULL : cr_py_tensor_of(tensor);
    if (in->values && (!in->values->contiguous || !cr_is_host(in->values->device))) {
        PyErr_SetString(PyExc_ValueError, "weights are contiguous tensors on the host");
        return false;
    }
    if (PyTuple_Check(dims) && PyTuple_GET_SIZE(dims) == ndim)
        in->dim = names_given(dims);
    else if (dims != Py_None)
        PyErr_SetString(PyExc_ValueError, "an input has a name or None for each dim");
    return !PyErr_Occurred();
}

static bool take_onnx_how(onnx_job *j, PyObject *outputs, PyObject *how)
{
    int weights, as_inputs;

    if (!PyArg_ParseTuple(how, "ippzs", &j->how.opset, &weights, &as_inputs, &j->how.external,
                          &j->how.version))
        return false;
    if (j->how.opset < CR_ONNX_LEAST || j->how.opset > CR_ONNX_MOST) {
        PyErr_Format(PyExc_ValueError, "opset_version is %d to %d, not %d", CR_ONNX_LEAST,
                     CR_ONNX_MOST, j->how.opset);
        return false;
    }
    if (PyTuple_GET_SIZE(outputs) != j->g->body->output_count) {
        PyErr_SetString(PyExc_ValueError, "a name is needed for each result");
        return false;
    }
    j->how.weights = weights;
    j->how.weights_as_inputs = as_inputs;
    j->how.producer = "cresset";
    j->how.output = names_given(outputs);
    return !PyErr_Occurred();
}

static PyObject *onnx_places(const onnx_job *j)
{
    PyObject *out = PyList_New((Py_ssize_t)j->places.len);

    for (size_t i = 0; out && i < j->places.len; i++)
        cr_py_put_item(
            &out, (Py_ssize_t)i,
            Py_BuildValue("(NL)",
                          cr_py_wrap_keep((cr_tensor *)(uintptr_t)j->places.at[i].values),
                          (long long)j->places.at[i].offset));
    return out;
}

static PyObject *make_onnx(onnx_job *j)
{
    cr_session s = {.status = CR_OK};
    cr_status st = cr_session_run(&s, run_onnx, j);
    PyObject *out = st ? cr_py_raise(st)
                       : Py_BuildValue("(y#N)", cr_text_str(&j->out), (Py_ssize_t)j->out.len,
                                       onnx_places(j));

    cr_session_drop(&s);
    return out;
}

PyObject *cr_py_onnx_file(const cr_graph *g, const cr_scalar *const *sample, int samples,
                          PyObject *inputs, PyObject *outputs, PyObject *how)
{
    onnx_job j = {.g = g, .sample = sample, .samples = samples};
    PyObject *out = NULL;

    if (PyList_GET_SIZE(inputs) != g->input_count)
        return PyErr_Format(PyExc_ValueError, "the graph has %d inputs, not %zd",
                            g->input_count, PyList_GET_SIZE(inputs));
    j.input = PyMem_Calloc((size_t)g->input_count + 1, sizeof *j.input);
    if (!j.input)
        return PyErr_NoMemory();
    for (int i = 0; i < g->input_count && !PyErr_Occurred(); i++)
        (void)!take_onnx_input(&j.input[i], PyList_GET_ITEM(inputs, i), g->input[i]->type.ndim);
    if (!PyErr_Occurred() && take_onnx_how(&j, outputs, how))
        out = make_onnx(&j);
    for (int i = 0; i < g->input_count; i++)
        PyMem_Free((void *)(uintptr_t)j.input[i].dim);
    PyMem_Free((void *)(uintptr_t)j.how.output);
    PyMem_Free(j.input);
    cr_text_drop(&j.out);
    return out;
}
