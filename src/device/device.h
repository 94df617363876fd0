/* device.h - what devices can do.
 *
 * A device kind fills one cr_device_ops, in this library or outside it; storages reach it
 * through the kind that they store.  cpu computes; meta has sizes but no bytes. */
#ifndef CR_DEVICE_DEVICE_H
#define CR_DEVICE_DEVICE_H

#include "base/error.h"
#include "cresset_backend.h"
#include "num/device.h"

/* The operations of a kind, or NULL when there is no such device.  cpu has memory and copies of
 * bytes, and computes in functions of this library.  meta has an empty table. */
const cr_device_ops *cr_device_of(cr_device_kind kind);
/* Makes the table that of `privateuseone` and gives that kind a name.  CR_RUNTIME when there is
 * one already, or when a function is missing. */
CR_MUST cr_status cr_device_register(const char *name, const cr_device_ops *ops);
/* Gives privateuseone a name, once a process.  CR_RUNTIME in torch's words. */
CR_MUST cr_status cr_device_rename(const char *name);
/* CR_RUNTIME with the text that a function of a table returned; CR_OK for NULL. */
CR_MUST cr_status cr_device_status(const char *error);
/* Bytes from the host to a device, and from a device to the host.  The host is a device, too.
 */
CR_MUST cr_status cr_device_copy_in(cr_device to, void *p, const void *host, size_t n);
CR_MUST cr_status cr_device_copy_out(void *host, cr_device from, const void *p, size_t n);

/* --- names --- */

/* "cpu", "cuda": without a number.  The name of privateuseone can be changed once. */
const char *cr_device_kind_name(cr_device_kind kind);
/* "cpu", "cuda:1"; for one expression. */
typedef struct {
    char text[40];
} cr_device_text;
cr_device_text cr_device_print(cr_device d);
/* "cpu", "cuda:1" -> kind and index (-1: none given).  CR_RUNTIME in torch's words. */
CR_MUST cr_status cr_device_parse(const char *text, int *kind, int *index);
/* The device that a CR_DEVICE_VAL names, for tensors that are made there, and for tensors that
 * are copied there.  Without a number it is the kind's current device.  torch's error for
 * devices that this process does not have: its class and text depend on the kind. */
CR_MUST cr_status cr_device_named(cr_device *out, int64_t packed);
CR_MUST cr_status cr_device_to_copy_to(cr_device *out, int64_t packed);

/* --- host memory --- */

/* Bytes of host memory held by tensors, by the cache, and the peak of the first. */
typedef struct {
    int64_t used, cached, peak;
} cr_memory_stats;
CR_API void cr_cpu_memory_stats(cr_memory_stats *out);
/* From here on the peak is of what comes. */
CR_API void cr_cpu_memory_reset_peak(void);
/* Returns cached blocks to the system. */
CR_API void cr_cpu_memory_trim(void);

/* Where the calling thread's blocks come from. */
typedef enum {
    CR_MEMORY_FAST, /* the cache has one of the class asked for, or the system is asked */
    CR_MEMORY_FIT,  /* a larger one that is free will do, up to half as large again */
    CR_MEMORY_TIGHT /* and free blocks go back to the system before there are more blocks, free
                       or not, than were ever in use */
} cr_memory_mode;
/* Sets the mode, returns the one before. */
cr_memory_mode cr_cpu_memory_set_mode(cr_memory_mode mode);

#endif
