/* device.h - the functions of devices.
 *
 * A device kind fills one cr_device_ops, in this library or outside it; storages reach it
 * through the kind that they store.  cpu computes; meta has sizes but no bytes. */
#ifndef CR_DEVICE_DEVICE_H
#define CR_DEVICE_DEVICE_H

#include "base/error.h"
#include "cresset_backend.h"
#include "num/device.h"
#include "num/view.h"
#include <stdatomic.h>

/* Tables that were found, and the search for another. */
extern const cr_device_ops *_Atomic cr_device_tables[CR_DEVICE_COUNT];
const cr_device_ops *cr_device_find(cr_device_kind kind);
/* The operations of a kind, or NULL when there is no such device.  cpu has memory and copies of
 * bytes, and computes in functions of this library.  meta has an empty table. */
static inline const cr_device_ops *cr_device_of(cr_device_kind kind)
{
    const cr_device_ops *ops =
        atomic_load_explicit(&cr_device_tables[kind], memory_order_acquire);

    return CR_LIKELY(ops != NULL) ? ops : cr_device_find(kind);
}
/* Fails because the device has no memory for `size` bytes, with torch's message: with
 * CR_DEVICE_MEMORY for CUDA, with CR_MEMORY for other kinds. */
CR_MUST cr_status cr_device_no_memory(cr_device d, size_t size);
/* What a kernel returns instead of cr_command_declines if it declines a call whose arguments
 * are right: the refusal has the text, a sentence. */
#define CR_LACKS(text) "\2" text
static inline bool cr_device_lacks(const char *error) { return error && *error == 2; }
/* Registers the table of `privateuseone` and names the kind.  Fails with CR_RUNTIME when a
 * table is already registered or a function is missing. */
CR_MUST cr_status cr_device_register(const char *name, const cr_device_ops *ops);
/* Gives privateuseone a name, once a process.  CR_RUNTIME in torch's words. */
CR_MUST cr_status cr_device_rename(const char *name);
/* The status of a text that a function of a table returned: CR_RUNTIME, or CR_OK for NULL. */
CR_MUST cr_status cr_device_failed(const char *error);
CR_MUST static inline cr_status cr_device_status(const char *error)
{
    return CR_LIKELY(!error) ? CR_OK : cr_device_failed(error);
}
/* Copies bytes from the host to a device, or from a device to the host.  The device may be the
 * host. */
CR_MUST cr_status cr_device_copy_in(cr_device to, void *p, const void *host, size_t n);
CR_MUST cr_status cr_device_copy_out(void *host, cr_device from, const void *p, size_t n);

/* --- arrays of commands --- */

/* The elements of a view, which keeps sizes and strides. */
static inline cr_array cr_array_of(const cr_view *v)
{
    return (cr_array){v->data, v->dtype, v->ndim, v->size, v->stride};
}

/* The elements of an array in host memory. */
static inline cr_view cr_host_view(const cr_array *a)
{
    return (cr_view){a->data,           a->size, a->stride, (uint8_t)a->ndim,
                     (uint8_t)a->dtype, CR_HOST, false};
}

/* --- names --- */

/* "cpu", "cuda": the name without an index.  The name of privateuseone can be changed once. */
const char *cr_device_kind_name(cr_device_kind kind);
/* "cpu", "cuda:1", returned by value. */
typedef struct {
    char text[40];
} cr_device_text;
cr_device_text cr_device_print(cr_device d);
/* torch's name of the backend: "CPU", "Meta", "Vulkan". */
cr_device_text cr_device_backend(cr_device_kind kind);
/* The kind of device that a number alone names: a backend that the program has loaded, else an
 * accelerator of this library; CR_CPU when there is none. */
cr_device_kind cr_device_accelerator(void);
/* "cpu", "cuda:1" -> kind and index (-1: none given).  CR_RUNTIME in torch's words. */
CR_MUST cr_status cr_device_parse(const char *text, int *kind, int *index);
/* The device of a CR_DEVICE_VAL, for tensors made there (named) or copied there (to_copy_to).
 * Without an index it is the kind's current device.  A device that this process does not have
 * is torch's error, whose class and text depend on the kind. */
CR_MUST cr_status cr_device_named(cr_device *out, int64_t packed);
CR_MUST cr_status cr_device_to_copy_to(cr_device *out, int64_t packed);

/* --- host memory --- */

/* Bytes of host memory: in use, cached, and the peak of those in use. */
typedef struct {
    int64_t used, cached, peak;
} cr_memory_stats;
CR_API void cr_cpu_memory_stats(cr_memory_stats *out);
/* Resets the peak to the bytes in use now. */
CR_API void cr_cpu_memory_reset_peak(void);
/* Returns cached blocks to the system. */
CR_API void cr_cpu_memory_trim(void);

/* Which cached blocks the calling thread may get. */
typedef enum {
    CR_MEMORY_FAST, /* blocks of the requested class */
    CR_MEMORY_FIT   /* also blocks of up to one and a half times the size, and for scratch
                       memory any larger block */
} cr_memory_mode;
/* Sets the thread's mode and returns the earlier one. */
cr_memory_mode cr_cpu_memory_set_mode(cr_memory_mode mode);

#endif
