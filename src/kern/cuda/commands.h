/* commands.h - commands on elements (cresset_backend.h), on NVIDIA devices. */
#ifndef CR_KERN_CUDA_COMMANDS_H
#define CR_KERN_CUDA_COMMANDS_H

#include "cresset_backend.h"

const char *cr_cuda_move(int device, const cr_array *to, const cr_array *from);
const char *cr_cuda_fill_array(int device, const cr_array *to, const void *element);
const char *cr_cuda_indexed(int device, const cr_indexed *x);
const char *cr_cuda_combine(int device, const cr_indexed *x);
const char *cr_cuda_windows(int device, const cr_windows *w);

/* Registers the device that runs loops of the host (kern/loops.h). */
void cr_cuda_install_loops(void);
/* Registers the device's functions of LAPACK (kern/cpu/library/lapack.h). */
void cr_cuda_install_solver(void);
/* Fills the table of NVIDIA devices with functions that need generated kernels, and lists the
 * entries that have kernels there. */
void cr_kern_install_cuda(void);

#endif
