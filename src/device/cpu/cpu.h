/* cpu.h - host memory for tensors' bytes and headers.
 *
 * Blocks are 64-byte aligned and come from caches by size class, so that a small
 * tensor costs nanoseconds and a large temporary does not fault its pages in again. */
#ifndef CR_DEVICE_CPU_CPU_H
#define CR_DEVICE_CPU_CPU_H

#include "device/device.h"

/* The host's table; rooms above add the functions that need kernels. */
extern cr_device_ops cr_cpu_ops;

/* A block of at least `size` bytes with undefined contents; NULL and CR_MEMORY when out of
 * memory.  *size_class is nonzero and must be given to the release.  Any thread may release. */
void *cr_cpu_get(size_t size, uint32_t *size_class);
/* For memory that is released before the operator ends (cr_memory_mode). */
void *cr_cpu_get_scratch(size_t size, uint32_t *size_class);
void cr_cpu_release(void *p, uint32_t size_class);

/* Size of the blocks of a class; 0 of class 0. */
size_t cr_cpu_class_bytes(uint32_t size_class);
/* The smallest class whose blocks have `size` bytes, below 256. */
uint32_t cr_cpu_class_of(size_t size);
/* Lets the first `size` bytes of a block be used, which has at least as many: sanitizers report
 * the use of more bytes than were requested. */
void cr_cpu_extend(void *p, size_t size);

#endif
