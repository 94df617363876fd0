/* commands.h - commands on elements at computed places (cresset_backend.h), on NVIDIA devices.
 */
#ifndef CR_KERN_CUDA_COMMANDS_H
#define CR_KERN_CUDA_COMMANDS_H

#include "cresset_backend.h"

const char *cr_cuda_indexed(int device, const cr_indexed *x);
const char *cr_cuda_combine(int device, const cr_indexed *x);
const char *cr_cuda_windows(int device, const cr_windows *w);

#endif
