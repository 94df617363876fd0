/* safetensors files: reads and writes dicts of tensors (io/safetensors.h). */
#include "io/safetensors.h"
#include "py/bind/bind.h"

/* The arrays for the writer, borrowed from a dict that outlives them. */
typedef struct {
    const char **names;
    cr_tensor **tensors;
    int count;
} dict_arrays;

static void arrays_drop(dict_arrays *a)
{
    PyMem_Free(a->names);
    PyMem_Free(a->tensors);
}

static int take_item(dict_arrays *a, PyObject *key, PyObject *value)
{
    if (!PyUnicode_Check(key)) {
        PyErr_Format(PyExc_TypeError, "keys of a state dict must be str, not %s",
                     Py_TYPE(key)->tp_name);
        return -1;
    }
    if (!cr_py_is_tensor(value)) {
        PyErr_Format(PyExc_ValueError,
                     "Key `%U` is invalid, expected torch.Tensor but received %s", key,
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    a->names[a->count] = PyUnicode_AsUTF8(key);
    a->tensors[a->count] = cr_py_tensor_of(value);
    return a->names[a->count++] ? 0 : -1;
}

static int take_dict(dict_arrays *a, PyObject *dict)
{
    Py_ssize_t n = PyDict_Size(dict), at = 0;
    PyObject *key, *value;

    a->names = PyMem_Calloc((size_t)n + 1, sizeof *a->names);
    a->tensors = PyMem_Calloc((size_t)n + 1, sizeof *a->tensors);
    if (!a->names || !a->tensors) {
        PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(dict, &at, &key, &value))
        if (take_item(a, key, value))
            return -1;
    return 0;
}

/* Converts {str: str} to pairs ended by NULL; None to NULL.  0 on success. */
static int take_metadata(PyObject *metadata, const char ***out)
{
    Py_ssize_t at = 0, n = 0;
    PyObject *key, *value;

    *out = NULL;
    if (metadata == Py_None)
        return 0;
    if (!PyDict_Check(metadata)) {
        PyErr_Format(PyExc_TypeError, "metadata must be a dict of str, not %s",
                     Py_TYPE(metadata)->tp_name);
        return -1;
    }
    *out = PyMem_Calloc((size_t)PyDict_Size(metadata) * 2 + 1, sizeof **out);
    if (!*out) {
        PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(metadata, &at, &key, &value)) {
        (*out)[n++] = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : NULL;
        (*out)[n++] = PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : NULL;
        if (!(*out)[n - 1] || !(*out)[n - 2]) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "metadata must be a dict of str to str");
            return -1;
        }
    }
    return 0;
}

static PyObject *safetensors_save(PyObject *module, PyObject *args)
{
    PyObject *dict, *path, *metadata, *done = NULL;
    const char **pairs = NULL;
    dict_arrays a = {0};

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O&O", &PyDict_Type, &dict, PyUnicode_FSConverter, &path,
                          &metadata))
        return NULL;
    if (!take_dict(&a, dict) && !take_metadata(metadata, &pairs)) {
        cr_status st =
            cr_safetensors_write(PyBytes_AS_STRING(path), a.names, a.tensors, a.count, pairs);
        done = st ? cr_py_raise(st) : Py_NewRef(Py_None);
    }
    PyMem_Free(pairs);
    arrays_drop(&a);
    Py_DECREF(path);
    return done;
}

static PyObject *tensors_of(const cr_safetensors *s)
{
    PyObject *dict = PyDict_New();

    for (int i = 0; dict && i < cr_safetensors_count(s); i++) {
        cr_tensor *t;
        cr_status st = cr_safetensors_tensor(&t, s, i);
        cr_py_put_named(&dict, cr_safetensors_at(s, i)->name,
                        st ? cr_py_raise(st) : cr_py_wrap(t));
    }
    return dict;
}

static PyObject *metadata_of(const cr_safetensors *s)
{
    PyObject *dict = PyDict_New();
    const char *key, *value;

    for (int i = 0; dict && cr_safetensors_metadata(s, i, &key, &value); i++)
        cr_py_put_named(&dict, key, PyUnicode_FromString(value));
    return dict;
}

/* (tensors, metadata).  Drops `s`. */
static PyObject *contents(cr_safetensors *s)
{
    PyObject *tensors = tensors_of(s), *metadata = tensors ? metadata_of(s) : NULL;
    PyObject *both = metadata ? PyTuple_Pack(2, tensors, metadata) : NULL;

    Py_XDECREF(tensors);
    Py_XDECREF(metadata);
    cr_safetensors_drop(s);
    return both;
}

static PyObject *safetensors_load(PyObject *module, PyObject *arg)
{
    PyObject *path;
    cr_safetensors *s;

    (void)module;
    if (!PyUnicode_FSConverter(arg, &path))
        return NULL;
    cr_status st = cr_safetensors_open(&s, PyBytes_AS_STRING(path));
    Py_DECREF(path);
    return st ? cr_py_raise(st) : contents(s);
}

static PyObject *safetensors_parse(PyObject *module, PyObject *arg)
{
    Py_buffer bytes;
    cr_safetensors *s;

    (void)module;
    if (PyObject_GetBuffer(arg, &bytes, PyBUF_SIMPLE))
        return NULL;
    cr_status st = cr_safetensors_parse(&s, bytes.buf, (size_t)bytes.len);
    PyBuffer_Release(&bytes);
    return st ? cr_py_raise(st) : contents(s);
}

static PyMethodDef functions[] = {{"_safetensors_save", safetensors_save, METH_VARARGS,
                                   "_safetensors_save(tensors, path, metadata)"},
                                  {"_safetensors_load", safetensors_load, METH_O,
                                   "_safetensors_load(path) -> (tensors, metadata)"},
                                  {"_safetensors_parse", safetensors_parse, METH_O,
                                   "_safetensors_parse(bytes) -> (tensors, metadata)"},
                                  {NULL, NULL, 0, NULL}};

int cr_py_safetensors_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
