/* torch.UntypedStorage: the bytes of tensors.
 *
 * A storage has at most one Python object, so that pickling and copying see which tensors share
 * memory.  `known` maps storages to their objects. */
#include "py/bind/bind.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    PyObject_HEAD cr_storage *storage;
    PyObject *filename;   /* of a file that it shares, or NULL */
    PyObject *references; /* list of weak references, or NULL */
} py_storage;

static PyObject *known; /* address of a storage -> address of its object (borrowed) */

cr_storage *cr_py_storage_of(PyObject *x) { return ((py_storage *)x)->storage; }

static PyObject *storage_find_known(PyObject *key)
{
    PyObject *found = PyDict_GetItemWithError(known, key);

    return found ? Py_NewRef((PyObject *)PyLong_AsVoidPtr(found)) : NULL;
}

static PyObject *make_known(PyObject *key, cr_storage *s)
{
    py_storage *self = PyObject_New(py_storage, &cr_py_storage_type);
    PyObject *address = self ? PyLong_FromVoidPtr(self) : NULL;

    if (self) {
        self->storage = cr_storage_keep(s);
        self->filename = self->references = NULL;
    }
    if (!address || PyDict_SetItem(known, key, address) < 0)
        Py_CLEAR(self);
    Py_XDECREF(address);
    return (PyObject *)self;
}

PyObject *cr_py_storage_object(cr_storage *s)
{
    PyObject *key = PyLong_FromVoidPtr(s), *self;

    if (!key)
        return NULL;
    self = storage_find_known(key);
    if (!self && !PyErr_Occurred())
        self = make_known(key, s);
    Py_DECREF(key);
    return self;
}

static void storage_dealloc(PyObject *self)
{
    cr_storage *s = cr_py_storage_of(self);
    PyObject *key = PyLong_FromVoidPtr(s);

    if (((py_storage *)self)->references)
        PyObject_ClearWeakRefs(self);
    if (!key || PyDict_DelItem(known, key) < 0)
        PyErr_Clear();
    Py_XDECREF(key);
    Py_XDECREF(((py_storage *)self)->filename);
    cr_storage_drop(s);
    PyObject_Free(self);
}

/* Calls a function of _untyped_storage.py. */
static PyObject *storage_call(const char *name, PyObject *args, PyObject *kwargs)
{
    PyObject *module = cr_py_import("_untyped_storage"), *out;
    PyObject *function = module ? PyObject_GetAttrString(module, name) : NULL;

    out = function ? PyObject_Call(function, args, kwargs) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(module);
    return out;
}

/* UntypedStorage(size) or UntypedStorage(values). */
/* Reads the argument `device`; NULL and None leave *out as it is. */
static bool storage_place(cr_device *out, PyObject *device)
{
    int kind, index;
    int done = device && device != Py_None ? cr_py_device_from(device, &kind, &index) : 0;
    cr_status st = done > 0 ? cr_device_named(out, cr_device_pack(kind, index)) : CR_OK;

    if (!done && device && device != Py_None)
        PyErr_Format(PyExc_TypeError,
                     "UntypedStorage(): argument 'device' must be torch.device, not %s",
                     Py_TYPE(device)->tp_name);
    if (st)
        cr_py_raise(st);
    return !st && !PyErr_Occurred();
}

static PyObject *storage_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"size", "device", NULL};
    Py_ssize_t size = 0;
    PyObject *device = NULL, *self;
    cr_device where = CR_HOST;
    cr_storage *s;

    (void)type;
    if (PyTuple_GET_SIZE(args) == 1 && PySequence_Check(PyTuple_GET_ITEM(args, 0)))
        return storage_call("from_sequence", args, kwargs);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|nO:UntypedStorage", names, &size,
                                     &device) ||
        !storage_place(&where, device))
        return NULL;
    if (size < 0)
        return PyErr_Format(PyExc_RuntimeError, "a storage cannot have %zd bytes", size);
    cr_status st = cr_storage_new(&s, where, (size_t)size);
    if (st)
        return cr_py_raise(st);
    self = cr_py_storage_object(s);
    cr_storage_drop(s);
    return self;
}

static PyObject *storage_nbytes(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromSize_t(cr_py_storage_of(self)->size);
}

static PyObject *storage_sizeof(PyObject *self, PyObject *unused)
{
    PyObject *bytes = storage_nbytes(self, unused), *object, *sum = NULL;

    object = bytes ? PyLong_FromSsize_t(Py_TYPE(self)->tp_basicsize) : NULL;
    if (object)
        sum = PyNumber_Add(object, bytes);
    Py_XDECREF(object);
    Py_XDECREF(bytes);
    return sum;
}

static Py_ssize_t storage_length(PyObject *self)
{
    return (Py_ssize_t)cr_py_storage_of(self)->size;
}

static PyObject *storage_data_ptr(PyObject *self, PyObject *unused)
{
    (void)unused;
    char *block;
    cr_status st = cr_reach_storage(&block, cr_py_storage_of(self));
    if (st)
        return cr_py_raise(st);
    cr_py_storage_of(self)->exposed = true;
    return PyLong_FromVoidPtr(block);
}

static PyObject *storage_device(PyObject *self, void *unused)
{
    (void)unused;
    return cr_py_device_of(cr_py_storage_of(self)->device);
}

static PyObject *storage_resize(PyObject *self, PyObject *x)
{
    int64_t size;

    cr_py_fit fit = cr_py_int_from(x, &size);
    if (fit == CR_PY_RAISED)
        return NULL;
    if (fit == CR_PY_MISFIT)
        return PyErr_Format(PyExc_RuntimeError, "resize_ expects an int, but got %s",
                            Py_TYPE(x)->tp_name);
    if (size < 0)
        return PyErr_Format(PyExc_RuntimeError, "a storage cannot have %R bytes", x);
    cr_status st = cr_storage_resize(cr_py_storage_of(self), (size_t)size);
    return st ? cr_py_raise(st) : Py_NewRef(self);
}

static PyObject *storage_clone(PyObject *self, PyObject *unused)
{
    cr_storage *from = cr_py_storage_of(self), *s;
    cr_status st = cr_storage_new(&s, from->device, from->size);

    (void)unused;
    if (st)
        return cr_py_raise(st);
    st = cr_storage_copy(s, 0, from, 0, from->size);
    PyObject *copy = st ? cr_py_raise(st) : cr_py_storage_object(s);
    cr_storage_drop(s);
    return copy;
}

static PyObject *storage_copy_in(PyObject *self, PyObject *x)
{
    cr_storage *to = cr_py_storage_of(self);

    if (!Py_IS_TYPE(x, &cr_py_storage_type))
        return PyErr_Format(
            PyExc_TypeError,
            "copy_(): argument 'src' (position 1) must be torch.Storage, not %s",
            Py_TYPE(x)->tp_name);
    cr_storage *from = cr_py_storage_of(x);
    if (from->size != to->size)
        return PyErr_Format(PyExc_RuntimeError,
                            "size does not match, self was %zu bytes but src was %zu bytes",
                            to->size, from->size);
    cr_status st = cr_storage_copy(to, 0, from, 0, to->size);
    if (st)
        return cr_py_raise(st);
    to->version++;
    return Py_NewRef(self);
}

static PyObject *storage_tobytes(PyObject *self, PyObject *unused)
{
    cr_storage *s = cr_py_storage_of(self);
    char *block;
    cr_status st = cr_reach_storage(&block, s);

    (void)unused;
    if (st)
        return cr_py_raise(st);
    if (!block && s->size)
        return PyErr_Format(PyExc_NotImplementedError, "a meta storage has no bytes");
    PyObject *out = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)s->size);
    if (out)
        st = cr_device_copy_out(PyBytes_AS_STRING(out), s->device, block, s->size);
    if (!st)
        return out;
    Py_DECREF(out);
    return cr_py_raise(st);
}

static PyObject *storage_item(PyObject *self, Py_ssize_t i)
{
    cr_storage *s = cr_py_storage_of(self);
    char *block;
    cr_status st = cr_reach_storage(&block, s);

    if (st)
        return cr_py_raise(st);
    if (i < 0 || (size_t)i >= s->size || !block)
        return PyErr_Format(PyExc_IndexError, "index %zd out of range for storage of size %zu",
                            i, s->size);
    unsigned char byte;
    st = cr_device_copy_out(&byte, s->device, block + i, 1);
    return st ? cr_py_raise(st) : PyLong_FromLong(byte);
}

/* The bytes [start, start + size) as another storage over the same memory. */
static PyObject *storage_part(PyObject *self, Py_ssize_t start, Py_ssize_t size)
{
    cr_storage *part;
    cr_status st = cr_storage_part(&part, cr_py_storage_of(self), (size_t)start, (size_t)size);

    if (st)
        return cr_py_raise(st);
    PyObject *out = cr_py_storage_object(part);
    cr_storage_drop(part);
    return out;
}

static PyObject *storage_subscript(PyObject *self, PyObject *index)
{
    if (!PySlice_Check(index) && !PyIndex_Check(index))
        return PyErr_Format(PyExc_TypeError, "can't index a torch.UntypedStorage with %s",
                            Py_TYPE(index)->tp_name);
    Py_ssize_t start, stop, step, size = storage_length(self);

    if (PySlice_Check(index)) {
        if (PySlice_Unpack(index, &start, &stop, &step) < 0)
            return NULL;
        size = PySlice_AdjustIndices(size, &start, &stop, step);
        if (step != 1)
            return PyErr_Format(PyExc_RuntimeError,
                                "Trying to slice with a step of %zd, but only a step of 1 is "
                                "supported",
                                step);
        return storage_part(self, start, size);
    }
    start = PyNumber_AsSsize_t(index, PyExc_IndexError);
    if (start == -1 && PyErr_Occurred())
        return NULL;
    return storage_item(self, start < 0 ? start + size : start);
}

static int storage_assign(PyObject *self, PyObject *index, PyObject *value)
{
    PyObject *args, *out;

    if (!value) {
        PyErr_SetString(PyExc_TypeError, "bytes of a storage cannot be deleted");
        return -1;
    }
    args = Py_BuildValue("(OOO)", self, index, value);
    out = args ? storage_call("assign", args, NULL) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(out);
    return out ? 0 : -1;
}

/* Pickles hold a storage as torch's do. */
static PyObject *storage_reduce(PyObject *self, PyObject *unused)
{
    PyObject *module = cr_py_import("storage"), *out;

    (void)unused;
    out = module ? PyObject_CallMethod(module, "_reduce", "O", self) : NULL;
    Py_XDECREF(module);
    return out;
}

/* copy.deepcopy() adds the copy to its memo, so that copied tensors share it. */
static PyObject *storage_deepcopy(PyObject *self, PyObject *memo)
{
    (void)memo;
    return storage_clone(self, NULL);
}

static int storage_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    cr_storage *s = cr_py_storage_of(self);

    char *block;
    cr_status st = cr_reach_storage(&block, s);

    if (st)
        return cr_py_raise_int(st);
    if (!cr_is_host(s->device) && block) {
        PyErr_SetString(PyExc_BufferError, "the bytes are on another device than the host");
        return -1;
    }
    s->exposed = true;
    return PyBuffer_FillInfo(view, self, block, block ? (Py_ssize_t)s->size : 0, 0, flags);
}

/* --- files --- */

typedef struct {
    void *bytes;
    size_t size;
} mapping;

static void mapping_drop(void *owner)
{
    mapping *m = owner;

    munmap(m->bytes, m->size);
    cr_free(m);
}

/* Grows a shared file; refuses a private one that is too small. */
static cr_status fit_file(int fd, const char *path, bool shared, size_t size)
{
    struct stat info;

    if (fstat(fd, &info))
        return cr_fail(CR_RUNTIME, "unable to stat the file <%s>: %s (%d)", path,
                       strerror(errno), errno);
    if ((size_t)info.st_size >= size)
        return CR_OK;
    if (!shared)
        return cr_fail(CR_RUNTIME,
                       "file <%s> size <%zu> is smaller than the required mapping size <%zu>",
                       path, (size_t)info.st_size, size);
    if (ftruncate(fd, (off_t)size))
        return cr_fail(CR_RUNTIME, "unable to resize file <%s> to the right size: %s (%d)",
                       path, strerror(errno), errno);
    return CR_OK;
}

static cr_status map_file(cr_storage **out, int fd, const char *path, bool shared, size_t size)
{
    CR_TRY(fit_file(fd, path, shared, size));
    if (!size)
        return cr_storage_new(out, CR_HOST, 0);
    void *bytes =
        mmap(NULL, size, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return cr_fail(CR_RUNTIME, "unable to mmap %zu bytes from file <%s>: %s (%d)", size,
                       path, strerror(errno), errno);
    mapping *m = cr_alloc(sizeof *m);
    cr_status st = m ? CR_OK : CR_MEMORY;
    if (m)
        *m = (mapping){bytes, size};
    st = st ? st : cr_storage_foreign(out, bytes, size, mapping_drop, m);
    if (st) {
        munmap(bytes, size);
        cr_free(m);
    }
    return st;
}

static cr_status open_file(cr_storage **out, const char *path, bool shared, size_t size)
{
    int fd = shared ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)
                    : open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return cr_fail(CR_RUNTIME, "unable to open file <%s> in %s mode: %s (%d)", path,
                       shared ? "read-write" : "read-only", strerror(errno), errno);
    cr_status st = map_file(out, fd, path, shared, size);
    close(fd);
    return st;
}

static PyObject *storage_from_file(PyObject *unused, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"filename", "shared", "nbytes", NULL};
    PyObject *path = NULL, *self = NULL;
    cr_storage *s;
    Py_ssize_t size = 0;
    int shared = 0;

    (void)unused;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|pn:from_file", names,
                                     PyUnicode_FSConverter, &path, &shared, &size))
        return NULL;
    cr_status st = size < 0 ? cr_fail(CR_RUNTIME, "a storage cannot have %zd bytes", size)
                            : open_file(&s, PyBytes_AS_STRING(path), shared, (size_t)size);
    if (st) {
        Py_DECREF(path);
        return cr_py_raise(st);
    }
    self = cr_py_storage_object(s);
    cr_storage_drop(s);
    if (self && shared)
        ((py_storage *)self)->filename = PyUnicode_DecodeFSDefault(PyBytes_AS_STRING(path));
    Py_DECREF(path);
    return self;
}

static PyObject *storage_filename(PyObject *self, void *unused)
{
    PyObject *name = ((py_storage *)self)->filename;

    (void)unused;
    return Py_NewRef(name ? name : Py_None);
}

/* --- methods written in Python --- */

#define CR_STORAGE_METHOD(name, doc)                                                           \
    static PyObject *storage_py_##name(PyObject *self, PyObject *args, PyObject *kwargs)       \
    {                                                                                          \
        return storage_call_method(#name, self, args, kwargs);                                 \
    }
#define CR_STORAGE_FUNCTION(name, doc)                                                         \
    static PyObject *storage_py_##name(PyObject *unused, PyObject *args, PyObject *kwargs)     \
    {                                                                                          \
        (void)unused;                                                                          \
        return storage_call(#name, args, kwargs);                                              \
    }

static PyObject *storage_call_method(const char *name, PyObject *self, PyObject *args,
                                     PyObject *kwargs)
{
    PyObject *first = PyTuple_Pack(1, self), *out;
    PyObject *all = first ? PySequence_Concat(first, args) : NULL;

    out = all ? storage_call(name, all, kwargs) : NULL;
    Py_XDECREF(all);
    Py_XDECREF(first);
    return out;
}

#include "py/bind/tensor/storage_methods.def"
#undef CR_STORAGE_METHOD
#undef CR_STORAGE_FUNCTION

static PyObject *storage_itself(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

/* True when the storage is on a device of the kind `kind`, the attribute's closure. */
static PyObject *storage_is_on(PyObject *self, void *kind)
{
    cr_device device = cr_py_storage_of(self)->device;

    return PyBool_FromLong(!strcmp(cr_device_kind_name(device.kind), kind));
}

static PyObject *storage_false(PyObject *self, void *unused)
{
    (void)self;
    (void)unused;
    Py_RETURN_FALSE;
}

static PyObject *storage_repr(PyObject *self)
{
    PyObject *args = PyTuple_Pack(1, self),
             *out = args ? storage_call("text", args, NULL) : NULL;

    Py_XDECREF(args);
    return out;
}

static PyMethodDef storage_methods[] = {
#define CR_STORAGE_METHOD(name, doc)                                                           \
    {#name, (PyCFunction)(void (*)(void))storage_py_##name, METH_VARARGS | METH_KEYWORDS, doc},
#define CR_STORAGE_FUNCTION(name, doc)                                                         \
    {#name, (PyCFunction)(void (*)(void))storage_py_##name,                                    \
     METH_VARARGS | METH_KEYWORDS | METH_STATIC, doc},
#include "py/bind/tensor/storage_methods.def"
#undef CR_STORAGE_METHOD
#undef CR_STORAGE_FUNCTION
    {"untyped", storage_itself, METH_NOARGS, "The storage itself."},
    {"nbytes", storage_nbytes, METH_NOARGS, "Bytes."},
    {"size", storage_nbytes, METH_NOARGS, "Bytes."},
    {"__sizeof__", storage_sizeof, METH_NOARGS, "Bytes of the object and of its elements."},
    {"data_ptr", storage_data_ptr, METH_NOARGS, "The address of the first byte."},
    {"resize_", storage_resize, METH_O, "Changes the size; keeps what fits."},
    {"clone", storage_clone, METH_NOARGS, "A copy."},
    {"copy_", storage_copy_in, METH_O, "Copies the bytes of another storage in."},
    {"tobytes", storage_tobytes, METH_NOARGS, "The bytes."},
    {"from_file", (PyCFunction)(void (*)(void))storage_from_file,
     METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "from_file(filename, shared=False, nbytes=0): the bytes of a file, mapped; `shared`: "
     "writes "
     "change the file, which is created and grown when needed."},
    {"__reduce__", storage_reduce, METH_NOARGS, NULL},
    {"__deepcopy__", storage_deepcopy, METH_O, NULL},
    {"__copy__", storage_clone, METH_NOARGS, NULL},
    {0}};
static PyGetSetDef storage_getset[] = {{"device", storage_device, NULL, NULL, NULL},
                                       {"filename", storage_filename, NULL, NULL, NULL},
                                       {"is_cuda", storage_is_on, NULL, NULL, "cuda"},
                                       {"is_hpu", storage_is_on, NULL, NULL, "hpu"},
                                       {"is_sparse", storage_false, NULL, NULL, NULL},
                                       {"is_sparse_csr", storage_false, NULL, NULL, NULL},
                                       {0}};
static PySequenceMethods storage_sequence = {.sq_length = storage_length,
                                             .sq_item = storage_item};
static PyMappingMethods storage_mapping = {.mp_length = storage_length,
                                           .mp_subscript = storage_subscript,
                                           .mp_ass_subscript = storage_assign};
static PyBufferProcs storage_buffer = {.bf_getbuffer = storage_getbuffer};

PyTypeObject cr_py_storage_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "storage.UntypedStorage",
    .tp_basicsize = sizeof(py_storage),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A block of bytes that tensors share.",
    .tp_new = storage_new,
    .tp_dealloc = storage_dealloc,
    .tp_as_sequence = &storage_sequence,
    .tp_as_mapping = &storage_mapping,
    .tp_as_buffer = &storage_buffer,
    .tp_weaklistoffset = offsetof(py_storage, references),
    .tp_repr = storage_repr,
    .tp_methods = storage_methods,
    .tp_getset = storage_getset,
};

int cr_py_storage_start(PyObject *m)
{
    known = PyDict_New();
    return known ? cr_py_add_type(m, "UntypedStorage", &cr_py_storage_type) : -1;
}
