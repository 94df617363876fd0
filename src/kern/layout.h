/* layout.h - kernels that prefer another layout of their operands than the plain one.
 *
 * A kind of device offers a cr_layout_hook.  The compiler asks it for the kernel that an eager
 * call would run, and then keeps packed weights and blocked results between such kernels.
 * Operand i of a kernel is the i-th pointer of `data`; CR_CONV_ARG_X and so on for
 * convolutions. */
#ifndef CR_KERN_LAYOUT_H
#define CR_KERN_LAYOUT_H

#include "kern/conv.h"
#include "kern/pool.h"
#include "num/device.h"

typedef struct cr_layout_kernel cr_layout_kernel;

typedef struct {
    /* The kernel that an eager convolution runs for the problem, with or without bias; counted.
     * NULL when eager runs something else. */
    cr_layout_kernel *(*convolution)(const cr_conv *c, cr_dtype t, bool bias);
    void (*release)(cr_layout_kernel *k);
    /* Bytes of operand i in the preferred layout, and whether this is the plain layout. */
    size_t (*bytes)(const cr_layout_kernel *k, int i);
    bool (*is_plain)(const cr_layout_kernel *k, int i);
    /* Whether operand i has the same sizes and preferred layout in both kernels, so that what
     * was packed for one serves the other. */
    bool (*is_same)(const cr_layout_kernel *a, const cr_layout_kernel *b, int i);
    /* b when the preferred layout is [N][C / b][...][b] without padding, else 0. */
    int64_t (*block)(const cr_layout_kernel *k, int i);
    /* Copies input i from the plain layout to the preferred one.  CR_MEMORY. */
    cr_status (*pack)(cr_layout_kernel *k, int i, void *plain, void *preferred);
    /* Runs.  Bit i of `preferred` is set when data[i] is in the preferred layout.
     * CR_MEMORY. */
    cr_status (*run)(cr_layout_kernel *k, void *const *data, unsigned preferred);

    /* Float32 values from planes [block] outermost to the plain layout: `planes` planes of
     * `block` channels with `points` points each. */
    void (*unblock)(float *plain, const float *blocked, int64_t planes, int64_t block,
                    int64_t points);
    /* The greatest values of windows, both sides in blocks. */
    void (*max_pool)(const cr_pool *windows, int64_t block, const float *x, float *y);
} cr_layout_hook;

/* NULL when the kind's kernels take plain layouts only. */
const cr_layout_hook *cr_layout_hook_of(cr_device_kind kind);

#endif
