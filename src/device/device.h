/* device.h - memory and its place.
 *
 * A device kind fills one cr_device_ops; tensors reach it through the kind
 * number they carry.  cpu computes; meta has sizes but no bytes. */
#ifndef CR_DEVICE_DEVICE_H
#define CR_DEVICE_DEVICE_H

#include "base/error.h"

typedef enum { CR_CPU, CR_META, CR_CUDA, CR_DEVICE_COUNT } cr_device_kind;

typedef struct {
    const char *name;
    /* `size` bytes, 64-byte aligned, undefined; NULL with a record when there are
     * none.  *class is for the matching release. */
    void *(*get)(size_t size, uint32_t *size_class);
    void (*release)(void *p, uint32_t size_class);
} cr_device_ops;

/* The operations of a kind, or NULL when this build has no such device. */
const cr_device_ops *cr_device_of(cr_device_kind kind);
/* "cpu", "cuda:1" -> kind and index (-1: none given).  CR_RUNTIME in torch's words. */
CR_MUST cr_status cr_device_parse(const char *text, int *kind, int *index);

/* CPU bytes held by tensors, by the cache, and the peak of the first. */
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
    CR_MEMORY_TIGHT /* and free blocks go back to the system before there are more blocks, free or not, than were
                       ever in use */
} cr_memory_mode;
/* Sets the mode, returns the one before. */
cr_memory_mode cr_cpu_memory_set_mode(cr_memory_mode mode);

#endif
