/* torch.cuda: queries to NVIDIA devices, for the Python module of that name. */
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "kern/cuda/product.h"
#include "py/bind/bind.h"
#include <stdio.h>
#include <unistd.h>

/* The table of operations; NULL with torch's error when there is no device. */
static const cr_device_ops *cuda_ops(void)
{
    cr_device unused;
    const cr_device_ops *ops = cr_cuda_table();

    if (!ops)
        cr_py_raise(cr_device_named(&unused, cr_device_pack(CR_CUDA, -1)));
    return ops;
}

static PyObject *cuda_count(PyObject *m, PyObject *unused)
{
    const cr_device_ops *ops = cr_cuda_table();

    (void)m;
    (void)unused;
    return PyLong_FromLong(ops ? ops->count() : 0);
}

static PyObject *cuda_current(PyObject *m, PyObject *unused)
{
    const cr_device_ops *ops = cuda_ops();

    (void)m;
    (void)unused;
    return ops ? PyLong_FromLong(ops->current()) : NULL;
}

static PyObject *cuda_is_initialized(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyBool_FromLong(cr_cuda_is_initialized());
}

/* The index of an existing device; -1 with an exception. */
static int cuda_index(PyObject *x)
{
    const cr_device_ops *ops = cuda_ops();
    long index = ops ? PyLong_AsLong(x) : -1;
    cr_device d;

    if (!ops || PyErr_Occurred())
        return -1;
    if (index >= 0 && index < ops->count())
        return (int)index;
    cr_py_raise(cr_device_named(&d, cr_device_pack(CR_CUDA, CR_CUDA_DEVICES)));
    return -1;
}

static PyObject *cuda_set_current(PyObject *m, PyObject *x)
{
    int index = cuda_index(x);

    (void)m;
    return index < 0 ? NULL : cr_py_said(cr_cuda_table()->set_current(index));
}

static PyObject *cuda_synchronize(PyObject *m, PyObject *x)
{
    int index = cuda_index(x);
    const char *error;

    (void)m;
    if (index < 0)
        return NULL;
    CR_PY_UNLOCKED(error = cr_cuda_table()->synchronize(index));
    return cr_py_said(error);
}

static PyObject *cuda_properties(PyObject *m, PyObject *x)
{
    int index = cuda_index(x);
    cr_cuda_properties p;

    (void)m;
    if (index < 0)
        return NULL;
    cr_status st = cr_device_status(cr_cuda_property(&p, index));
    if (st)
        return cr_py_raise(st);
    return Py_BuildValue(
        "{s:s,s:i,s:i,s:n,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:y#}",
        "name", p.name, "major", p.major, "minor", p.minor, "total_memory",
        (Py_ssize_t)p.total_memory, "multi_processor_count", p.processors, "L2_cache_size",
        p.l2_bytes, "max_threads_per_multi_processor", p.threads_of_processor,
        "max_threads_per_block", p.max_threads_of_block, "warp_size", p.warp_size,
        "shared_memory_per_block", p.shared_of_block, "shared_memory_per_block_optin",
        p.shared_of_block_optin, "shared_memory_per_multiprocessor", p.shared_of_processor,
        "regs_per_multiprocessor", p.registers_of_processor, "clock_rate", p.clocks.clock_rate,
        "memory_clock_rate", p.clocks.memory_clock_rate, "memory_bus_width",
        p.clocks.memory_bus_width, "pci_bus_id", p.pci.pci_bus, "pci_device_id",
        p.pci.pci_device, "pci_domain_id", p.pci.pci_domain, "uuid", p.uuid,
        (Py_ssize_t)sizeof p.uuid);
}

static PyObject *cuda_driver_version(PyObject *m, PyObject *unused)
{
    int version = 0;

    (void)m;
    (void)unused;
    if (!cuda_ops())
        return NULL;
    cr_status st = cr_device_status(cr_cuda_driver_version(&version));
    return st ? cr_py_raise(st) : PyLong_FromLong(version);
}

static PyObject *cuda_cudnn_version(PyObject *m, PyObject *unused)
{
    const cr_device_ops *ops = cr_device_of(CR_CUDA);
    int version = ops && ops->count() ? cr_cuda_cudnn_version() : 0;

    (void)m;
    (void)unused;
    return version ? PyLong_FromLong(version) : Py_NewRef(Py_None);
}

static PyObject *cuda_allow_tf32(PyObject *m, PyObject *on)
{
    int truth = PyObject_IsTrue(on);

    (void)m;
    if (truth < 0)
        return NULL;
    cr_cuda_allow_tf32(truth);
    Py_RETURN_NONE;
}

#define WAITS "called a synchronizing CUDA operation"

static const char *wait_refuse(void) { return WAITS; }

/* A filter may turn the warning into an exception, for which the copy has no room. */
static const char *wait_warn(void)
{
    PyGILState_STATE was = PyGILState_Ensure();

    if (PyErr_WarnEx(PyExc_UserWarning, WAITS, 1) < 0)
        PyErr_WriteUnraisable(NULL);
    PyGILState_Release(was);
    return NULL;
}

static PyObject *cuda_report_waits(PyObject *m, PyObject *mode)
{
    long n = PyLong_AsLong(mode);

    (void)m;
    if (n == -1 && PyErr_Occurred())
        return NULL;
    cr_cuda_on_wait(n == 1 ? wait_warn : n == 2 ? wait_refuse : NULL);
    Py_RETURN_NONE;
}

static PyObject *cuda_allow_conv_tf32(PyObject *m, PyObject *on)
{
    int truth = PyObject_IsTrue(on);

    (void)m;
    if (truth < 0)
        return NULL;
    cr_cuda_allow_conv_tf32(truth);
    Py_RETURN_NONE;
}

static PyObject *cuda_can_access(PyObject *m, PyObject *args)
{
    int index, peer;
    bool can = false;

    (void)m;
    if (!cuda_ops() || !PyArg_ParseTuple(args, "ii", &index, &peer))
        return NULL;
    cr_status st = cr_device_status(cr_cuda_can_access_peer(&can, index, peer));
    return st ? cr_py_raise(st) : PyBool_FromLong(can);
}

/* --- streams and events: addresses as ints, which cuda/_device.py wraps in classes --- */

static PyObject *cuda_stream_new(PyObject *m, PyObject *args)
{
    int index, priority;
    void *stream = NULL;

    (void)m;
    if (!cuda_ops() || !PyArg_ParseTuple(args, "ii", &index, &priority))
        return NULL;
    cr_status st = cr_device_status(cr_cuda_stream_new(index, priority, &stream));
    return st ? cr_py_raise(st) : PyLong_FromVoidPtr(stream);
}

static PyObject *cuda_stream(PyObject *m, PyObject *x)
{
    int index = cuda_index(x);

    (void)m;
    return index < 0 ? NULL : PyLong_FromVoidPtr(cr_cuda_stream(index));
}

static PyObject *cuda_event_new(PyObject *m, PyObject *args)
{
    int index, timed, blocking;
    void *event = NULL;

    (void)m;
    if (!cuda_ops() || !PyArg_ParseTuple(args, "ipp", &index, &timed, &blocking))
        return NULL;
    cr_status st = cr_device_status(cr_cuda_event_new(index, timed, blocking, &event));
    return st ? cr_py_raise(st) : PyLong_FromVoidPtr(event);
}

CR_PY_ON_PAIR(cuda_event_record, cuda_ops(), cr_py_wait_on(ops->event_record, index, at))
CR_PY_ON_PAIR(cuda_event_wait, cuda_ops(), cr_py_wait_on(ops->event_wait, index, at))
CR_PY_ON_PAIR(cuda_event_synchronize, cuda_ops(),
              cr_py_wait_on(ops->event_synchronize, index, at))
CR_PY_ON_PAIR(cuda_stream_synchronize, cuda_ops(),
              cr_py_wait_on(cr_cuda_stream_synchronize, index, at))
CR_PY_ON_PAIR(cuda_set_stream, cuda_ops(), cr_py_said(ops->set_stream(index, at)))
CR_PY_ON_PAIR(cuda_event_drop, cuda_ops(), (ops->event_drop(index, at), Py_NewRef(Py_None)))
CR_PY_ON_PAIR(cuda_event_done, cuda_ops(), PyBool_FromLong(ops->event_done(index, at)))

static PyObject *cuda_stream_query(PyObject *m, PyObject *args)
{
    void *at;
    int index;
    bool done = true;

    (void)m;
    if (!cuda_ops() || !cr_py_pair(args, &index, &at))
        return NULL;
    cr_status st = cr_device_status(cr_cuda_stream_done(index, at, &done));
    return st ? cr_py_raise(st) : PyBool_FromLong(done);
}

static PyObject *cuda_elapsed(PyObject *m, PyObject *args)
{
    PyObject *start, *end;
    int index;
    double ms = 0;

    (void)m;
    if (!cuda_ops() || !PyArg_ParseTuple(args, "iOO", &index, &start, &end))
        return NULL;
    void *a = PyLong_AsVoidPtr(start), *b = PyLong_AsVoidPtr(end);
    if (PyErr_Occurred())
        return NULL;
    cr_status st = cr_device_status(cr_cuda_event_elapsed(index, a, b, &ms));
    return st ? cr_py_raise(st) : PyFloat_FromDouble(ms);
}

/* --- memory --- */

/* A counter as (current, peak, allocated, freed) for each pool. */
static PyObject *cuda_counter(const cr_cuda_counter *c)
{
    return Py_BuildValue("((LLLL)(LLLL)(LLLL))", c[0].current, c[0].peak, c[0].allocated,
                         c[0].freed, c[1].current, c[1].peak, c[1].allocated, c[1].freed,
                         c[2].current, c[2].peak, c[2].allocated, c[2].freed);
}

static PyObject *cuda_memory(PyObject *m, PyObject *x)
{
    int index = cuda_index(x);
    cr_cuda_memory_stats s;

    (void)m;
    if (index < 0)
        return NULL;
    cr_cuda_memory_statistics(&s, index);
    PyObject *out =
        Py_BuildValue("{s:L,s:L,s:L,s:L}", "num_alloc_retries", s.retries, "num_ooms",
                      s.shortages, "num_device_alloc", s.gets, "num_device_free", s.frees);
#define CR_CUDA_COUNTER(name)                                                                  \
    {                                                                                          \
        PyObject *rows = out ? cuda_counter(s.name) : NULL;                                    \
        if (out && (!rows || PyDict_SetItemString(out, #name, rows)))                          \
            Py_CLEAR(out);                                                                     \
        Py_XDECREF(rows);                                                                      \
    }
    CR_CUDA_COUNTERS(CR_CUDA_COUNTER)
#undef CR_CUDA_COUNTER
    return out;
}

static PyObject *cuda_memory_reset(PyObject *m, PyObject *args)
{
    PyObject *device;
    int index, peaks;

    (void)m;
    if (!PyArg_ParseTuple(args, "Op", &device, &peaks) || (index = cuda_index(device)) < 0)
        return NULL;
    cr_cuda_memory_reset(index, peaks);
    Py_RETURN_NONE;
}

static PyObject *cuda_memory_trim(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return cr_py_said(cr_cuda_memory_trim());
}

static PyObject *cuda_memory_free(PyObject *m, PyObject *x)
{
    int index = cuda_index(x);
    size_t free_bytes = 0, total = 0;

    (void)m;
    if (index < 0)
        return NULL;
    cr_status st = cr_device_status(cr_cuda_memory_info(index, &free_bytes, &total));
    return st ? cr_py_raise(st)
              : Py_BuildValue("(nn)", (Py_ssize_t)free_bytes, (Py_ssize_t)total);
}

static PyObject *cuda_memory_limit(PyObject *m, PyObject *args)
{
    int index;
    double part;

    (void)m;
    if (!cuda_ops() || !PyArg_ParseTuple(args, "id", &index, &part))
        return NULL;
    return cr_py_said(cr_cuda_memory_limit(index, part));
}

static PyObject *cuda_is_pinned(PyObject *m, PyObject *x)
{
    (void)m;
    if (!cr_py_is_tensor(x))
        return PyErr_Format(PyExc_TypeError, "is_pinned: a tensor is expected");
    const cr_tensor *t = cr_py_tensor_of(x);
    char *block;
    cr_status st = cr_reach_storage(&block, t->storage);
    if (st)
        return cr_py_raise(st);
    return PyBool_FromLong(cr_is_host(t->device) && block && cr_cuda_is_pinned(block));
}

/* record_stream(tensor, address of the stream) */
static PyObject *cuda_record_stream(PyObject *m, PyObject *args)
{
    PyObject *x, *address;

    (void)m;
    if (!PyArg_ParseTuple(args, "OO", &x, &address))
        return NULL;
    if (!cr_py_is_tensor(x) || cr_py_tensor_of(x)->device.kind != CR_CUDA) {
        PyErr_SetString(PyExc_RuntimeError, "record_stream: a CUDA tensor is expected");
        return NULL;
    }
    void *stream = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred())
        return NULL;
    return cr_py_said(cr_cuda_memory_record(cr_py_tensor_of(x)->storage->size_class, stream));
}

/* fft_plans(device, most or -1) -> (kept plans, most) */
static PyObject *cuda_fft_plans(PyObject *m, PyObject *args)
{
    long long most;
    int index;

    (void)m;
    if (!PyArg_ParseTuple(args, "iL", &index, &most))
        return NULL;
    if (index < 0 || index >= CR_CUDA_DEVICES)
        return PyErr_Format(PyExc_RuntimeError, "cufft_plan_cache: device %d is out of range",
                            index);
    int64_t n = most, count = cr_cuda_fft_plans(index, &n);
    return Py_BuildValue("(LL)", (long long)count, (long long)n);
}

static PyMethodDef functions[] = {
    {"_cuda_fft_plans", cuda_fft_plans, METH_VARARGS, "Plans of transforms that are kept."},
    {"_cuda_count", cuda_count, METH_NOARGS, "The number of devices."},
    {"_cuda_current", cuda_current, METH_NOARGS, "The thread's device."},
    {"_cuda_is_initialized", cuda_is_initialized, METH_NOARGS, "Whether a device was used."},
    {"_cuda_set_current", cuda_set_current, METH_O, "Sets the thread's device."},
    {"_cuda_synchronize", cuda_synchronize, METH_O, "Waits for a device."},
    {"_cuda_properties", cuda_properties, METH_O, "Properties by name."},
    {"_cuda_driver_version", cuda_driver_version, METH_NOARGS, "13000 is CUDA 13.0."},
    {"_cuda_cudnn_version", cuda_cudnn_version, METH_NOARGS, "None without cuDNN."},
    {"_cuda_allow_tf32", cuda_allow_tf32, METH_O, "Products of float32 may use TF32."},
    {"_cuda_allow_conv_tf32", cuda_allow_conv_tf32, METH_O,
     "Convolutions of float32 may use TF32."},
    {"_cuda_report_waits", cuda_report_waits, METH_O,
     "1: copies for which the host waits warn; 2: they raise; 0: neither."},
    {"_cuda_can_access", cuda_can_access, METH_VARARGS, "Whether a device can access a peer."},
    {"_cuda_stream_new", cuda_stream_new, METH_VARARGS, "A stream of this priority."},
    {"_cuda_stream", cuda_stream, METH_O, "The thread's stream."},
    {"_cuda_set_stream", cuda_set_stream, METH_VARARGS, "Sets the thread's stream."},
    {"_cuda_stream_synchronize", cuda_stream_synchronize, METH_VARARGS, "Waits for a stream."},
    {"_cuda_stream_query", cuda_stream_query, METH_VARARGS, "Whether a stream's work is done."},
    {"_cuda_event_new", cuda_event_new, METH_VARARGS, "Makes an event."},
    {"_cuda_event_drop", cuda_event_drop, METH_VARARGS, "Drops an event."},
    {"_cuda_event_record", cuda_event_record, METH_VARARGS, "Records an event."},
    {"_cuda_event_wait", cuda_event_wait, METH_VARARGS, "Makes the thread's stream wait."},
    {"_cuda_event_synchronize", cuda_event_synchronize, METH_VARARGS, "Waits for an event."},
    {"_cuda_event_done", cuda_event_done, METH_VARARGS, "Whether an event has happened."},
    {"_cuda_elapsed", cuda_elapsed, METH_VARARGS, "Milliseconds between two events."},
    {"_cuda_memory", cuda_memory, METH_O, "The allocator's counters."},
    {"_cuda_memory_reset", cuda_memory_reset, METH_VARARGS, "Resets the peaks or the sums."},
    {"_cuda_memory_trim", cuda_memory_trim, METH_NOARGS, "Frees cached memory."},
    {"_cuda_memory_info", cuda_memory_free, METH_O, "Free and total bytes of the device."},
    {"_cuda_memory_limit", cuda_memory_limit, METH_VARARGS, "Limits the memory of a device."},
    {"_cuda_is_pinned", cuda_is_pinned, METH_O, "Whether a tensor is in page-locked memory."},
    {"_cuda_record_stream", cuda_record_stream, METH_VARARGS, "A stream uses a tensor."},
    {0}};

/* Lets the driver search NVIDIA's wheels in each folder of sys.path that has some. */
static void look_in_wheels(void)
{
    PyObject *path = PySys_GetObject("path");
    char folder[1024];

    for (Py_ssize_t i = 0; path && PyList_Check(path) && i < PyList_GET_SIZE(path); i++) {
        PyObject *item = PyList_GET_ITEM(path, i);
        const char *text = PyUnicode_Check(item) ? PyUnicode_AsUTF8(item) : NULL;

        if (!text)
            PyErr_Clear();
        else if (*text == '/' &&
                 (size_t)snprintf(folder, sizeof folder, "%s/nvidia", text) < sizeof folder &&
                 !access(folder, X_OK))
            cr_cuda_look_in(folder);
    }
}

int cr_py_cuda_start(PyObject *m)
{
    look_in_wheels();
    return PyModule_AddFunctions(m, functions);
}
