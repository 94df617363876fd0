/* The records of an archive, for the loader that unpickles with a pickle module. */
#include "io/zip.h"
#include "py/bind/bind.h"

static const char NAME[] = "cresset.archive";

static void archive_drop(PyObject *capsule)
{
    cr_zip_drop(PyCapsule_GetPointer(capsule, NAME));
}

static PyObject *archive_open(PyObject *module, PyObject *args)
{
    PyObject *file, *capsule;
    unsigned long long start;
    int map;
    cr_zip *zip;

    (void)module;
    if (!PyArg_ParseTuple(args, "OKp", &file, &start, &map))
        return NULL;
    cr_source *source = cr_py_source_of(file, start, map);
    if (!source)
        return NULL;
    cr_status st = cr_zip_open(&zip, source);
    cr_source_drop(source);
    if (st)
        return cr_py_raise(st);
    capsule = PyCapsule_New(zip, NAME, archive_drop);
    if (!capsule)
        cr_zip_drop(zip);
    return capsule;
}

static int take_archive(PyObject *x, void *out)
{
    *(cr_zip **)out = PyCapsule_GetPointer(x, NAME);
    return *(cr_zip **)out != NULL;
}

static PyObject *archive_has(PyObject *module, PyObject *args)
{
    cr_zip *zip;
    const char *name;

    (void)module;
    if (!PyArg_ParseTuple(args, "O&s", take_archive, &zip, &name))
        return NULL;
    return PyBool_FromLong(cr_zip_find(zip, name) != NULL);
}

static PyObject *archive_read(PyObject *module, PyObject *args)
{
    const cr_zip_entry *e;
    const char *name;
    cr_zip *zip;

    (void)module;
    if (!PyArg_ParseTuple(args, "O&s", take_archive, &zip, &name))
        return NULL;
    cr_status st = cr_zip_need(&e, zip, name);
    if (st)
        return cr_py_raise(st);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)e->size);
    st = bytes ? cr_zip_read(zip, e, PyBytes_AS_STRING(bytes)) : CR_PYTHON;
    if (!st)
        return bytes;
    Py_XDECREF(bytes);
    return cr_py_raise(st);
}

static void archive_drop_source(void *source) { cr_source_drop(source); }

/* A storage with a record's bytes; `share`: over the mapped file. */
static cr_status archive_storage_of(cr_storage **out, cr_zip *zip, const cr_zip_entry *e,
                                    bool share)
{
    char *bytes = share ? cr_source_bytes(cr_zip_source(zip), e->at) : NULL;
    cr_status st;

    CR_TRY(cr_zip_unpack(zip, e));
    if (bytes && e->size && (uintptr_t)bytes % 16 == 0) {
        st = cr_storage_foreign(out, bytes, (size_t)e->size, archive_drop_source,
                                cr_source_keep(cr_zip_source(zip)));
        if (st)
            cr_source_drop(cr_zip_source(zip));
        return st;
    }
    CR_TRY(cr_storage_new(out, CR_HOST, (size_t)e->size));
    char *to;
    st = cr_reach_storage(&to, *out);
    if (!st && e->size)
        st = cr_zip_read(zip, e, to);
    if (st)
        cr_storage_drop(*out);
    return st;
}

static PyObject *archive_storage(PyObject *module, PyObject *args)
{
    const cr_zip_entry *e;
    const char *name;
    cr_storage *storage;
    cr_zip *zip;
    int share;

    (void)module;
    if (!PyArg_ParseTuple(args, "O&sp", take_archive, &zip, &name, &share))
        return NULL;
    cr_status st = cr_zip_need(&e, zip, name);
    if (!st)
        st = archive_storage_of(&storage, zip, e, share);
    if (st)
        return cr_py_raise(st);
    PyObject *out = cr_py_storage_object(storage);
    cr_storage_drop(storage);
    return out;
}

static PyMethodDef functions[] = {
    {"_archive_open", archive_open, METH_VARARGS, "_archive_open(file, start, map) -> archive"},
    {"_archive_has", archive_has, METH_VARARGS, "_archive_has(archive, name) -> bool"},
    {"_archive_read", archive_read, METH_VARARGS, "_archive_read(archive, name) -> bytes"},
    {"_archive_storage", archive_storage, METH_VARARGS,
     "_archive_storage(archive, name, share) -> UntypedStorage"},
    {NULL, NULL, 0, NULL}};

int cr_py_archive_start(PyObject *m) { return PyModule_AddFunctions(m, functions); }
