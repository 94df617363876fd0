/* Convolutions that cuDNN lacks on NVIDIA devices: of integers, of complex numbers, of sizes
 * without an algorithm.  The kernels are in emit/convolve.cuh. */
#include "jit/cuda.h"
#include "kern/cuda/cudnn.h"
#include "num/dtype.h"
#include <stdio.h>

/* cc_array and cc_call of emit/convolve.cuh */
typedef struct {
    char *data;
    int64_t size[CONV_ALL], stride[CONV_ALL];
} direct_array;

typedef struct {
    direct_array x, w, y;
    const char *bias;
    int64_t bias_stride, n, groups, way;
    int64_t step[CONV_DIMS], pad[CONV_DIMS], gap[CONV_DIMS];
} direct_call;

static void direct_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    cr_text_printf(out, "#define CC_ITEM cm_%s\n", cr_dtype_infos[k->a].suffix);
    snprintf(symbol, 32, "cc_convolve");
}

/* Missing dims have one element. */
static direct_array direct_array_of(const cr_array *a)
{
    direct_array out = {.data = a->data};

    for (int d = 0; d < CONV_ALL; d++) {
        int at = d < 2 ? d : d - (CONV_ALL - a->ndim);
        bool there = d < 2 || at >= 2;
        out.size[d] = there ? a->size[at] : 1;
        out.stride[d] = there ? a->stride[at] : 0;
    }
    return out;
}

static bool direct_steps(int64_t *out, const cr_given *g, int dims, int64_t fill)
{
    int32_t step[CONV_DIMS];

    if (!cr_conv_steps(step, g, dims, CONV_DIMS, fill))
        return false;
    for (int d = 0; d < CONV_DIMS; d++)
        out[d] = step[d];
    return true;
}

const char *cr_conv_direct(int index, const conv_call *c)
{
    int dims = c->w.ndim - 2, dtype = c->w.dtype;
    cr_cuda_text k = {
        .print = direct_print, .device = index, .part = CR_VEC_CUDA_CONVOLVE, .a = dtype};
    direct_call call = {.groups = c->groups, .way = c->way};
    void *function;

    if (dims < 1 || dims > CONV_DIMS || c->x.ndim != c->w.ndim || c->y.ndim != c->w.ndim ||
        c->x.dtype != dtype || c->y.dtype != dtype || (c->biased && c->bias.dtype != dtype) ||
        !direct_steps(call.step, &c->step[0], dims, 1) ||
        !direct_steps(call.pad, &c->step[1], dims, 0) ||
        !direct_steps(call.gap, &c->step[2], dims, 1))
        return cr_command_declines;
    call.x = direct_array_of(&c->x);
    call.w = direct_array_of(&c->w);
    call.y = direct_array_of(&c->y);
    if (c->biased) {
        call.bias = c->bias.data;
        call.bias_stride = c->bias.stride[0];
    }
    const direct_array *to = c->way == CONV_OUTPUT  ? &call.y
                             : c->way == CONV_INPUT ? &call.x
                                                    : &call.w;
    call.n = 1;
    for (int d = 0; d < CONV_ALL; d++)
        call.n *= to->size[d];
    const char *error = cr_cuda_find(&function, &k);
    return error ? error : cr_cuda_launch_each(index, function, call.n, &call);
}
