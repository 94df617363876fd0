/* cuda.h - kernels for NVIDIA devices. */
#ifndef CR_JIT_CUDA_H
#define CR_JIT_CUDA_H

#include "base/text.h"
#include "jit/vocabulary.h"
#include <stdint.h>

/* Installs the functions of device/cuda's table that build and run generated kernels. */
void cr_cuda_install(void);

/* A kernel of a part of the vocabulary that follows move.cuh.  `print` writes the definitions
 * before the text, and the function's name, from a to d.  It is compiled once a device.  The
 * record is a key: it has no padding. */
typedef struct cr_cuda_text {
    void (*print)(cr_text *head, char symbol[32], const struct cr_cuda_text *t);
    int device, part;
    int a, b, c, d;
} cr_cuda_text;
const char *cr_cuda_find(void **function, const cr_cuda_text *t);
/* Launches a kernel whose threads share n steps.  `call` is its parameter. */
const char *cr_cuda_launch_each(int device, void *function, int64_t n, void *call);

#endif
