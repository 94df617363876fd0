/* commands.h - commands on elements (cresset_backend.h), on NVIDIA devices. */
#ifndef CR_KERN_CUDA_COMMANDS_H
#define CR_KERN_CUDA_COMMANDS_H

#include "cresset_backend.h"
#include <stdint.h>

const char *cr_cuda_move(int device, const cr_array *to, const cr_array *from);
const char *cr_cuda_move_list(int device, const cr_array *to, const cr_array *from, int n);
const char *cr_cuda_fill_array(int device, const cr_array *to, const void *element);
const char *cr_cuda_indexed(int device, const cr_indexed *x);
const char *cr_cuda_combine(int device, const cr_indexed *x);
const char *cr_cuda_windows(int device, const cr_windows *w);

/* cm_divisor of emit/move.cuh: the quotient of i < 2^31 and n is i * factor >> shift.  A
 * divisor of 2^31 or more has no use, as only greater numbers have other quotients than 0. */
typedef struct {
    uint32_t factor, shift;
} cr_cuda_divisor;
static inline cr_cuda_divisor cr_cuda_divisor_of(int64_t n)
{
    uint32_t digits = 0;

    if (n < 1 || n > INT32_MAX)
        return (cr_cuda_divisor){0, 0};
    while (INT64_C(1) << digits < n)
        digits++;
    uint64_t all = UINT64_C(1) << (31 + digits);
    return (cr_cuda_divisor){(uint32_t)((all + (uint64_t)n - 1) / (uint64_t)n), 31 + digits};
}

/* Registers the device that runs loops of the host (kern/loops.h). */
void cr_cuda_install_loops(void);
/* Registers the device's functions of LAPACK (kern/cpu/library/lapack.h). */
void cr_cuda_install_solver(void);
/* Fills the table of NVIDIA devices with functions that need generated kernels, and lists the
 * entries that have kernels there. */
void cr_kern_install_cuda(void);

#endif
