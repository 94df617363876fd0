/* cuda.h - kernels for NVIDIA devices. */
#ifndef CR_JIT_CUDA_H
#define CR_JIT_CUDA_H

/* Installs the functions of device/cuda's table that run kernels. */
void cr_cuda_install(void);

#endif
