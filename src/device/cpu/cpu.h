/* cpu.h - host memory for tensors' bytes and headers.
 *
 * Blocks are 64-byte aligned and come from caches by size class, so that a small
 * tensor costs nanoseconds and a large temporary does not fault its pages in again. */
#ifndef CR_DEVICE_CPU_CPU_H
#define CR_DEVICE_CPU_CPU_H

#include "device/device.h"

extern const cr_device_ops cr_cpu_ops;

/* At least `size` bytes, undefined; NULL with a CR_MEMORY record when there are none.
 * *size_class is nonzero and is what the release needs.  Any thread may release. */
void *cr_cpu_get(size_t size, uint32_t *size_class);
/* For what is released before the operator ends: unless the mode is CR_MEMORY_FAST, any larger
 * block that is free will do. */
void *cr_cpu_get_scratch(size_t size, uint32_t *size_class);
void cr_cpu_release(void *p, uint32_t size_class);

/* Bytes that a block of this class really has. */
size_t cr_cpu_class_bytes(uint32_t size_class);

#endif
