/* cuda.h - kernels for NVIDIA devices. */
#ifndef CR_JIT_CUDA_H
#define CR_JIT_CUDA_H

/* Completes the table of device/cuda by its functions that need kernels. */
void cr_cuda_install(void);

#endif
