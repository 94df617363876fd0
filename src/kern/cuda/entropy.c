/* The cross entropy of scores and classes on NVIDIA devices; the kernels are in
 * emit/entropy.cuh. */
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include <stdio.h>
#include <string.h>

enum {
    ENTROPY_THREADS = 256,
    ENTROPY_ADDERS = 1024,
    ENTROPY_WARP = 32,
    ENTROPY_VECTOR = 16,
    ENTROPY_DIMS = 64
};

typedef enum { FORWARD, REDUCE, BACKWARD } entropy_kernel;

/* ce_call of emit/entropy.cuh.
 * Invariant: the members are those of the kernels' struct, in the same order. rows is a
 * multiple of inner; a row has `classes` scores, `step` apart. */
typedef struct {
    const void *x;
    void *out;
    const void *target;
    void *lse, *term;
    const void *grad;
    void *loss, *total;
    int64_t rows, classes, inner, outer_step, inner_step, step, ignored;
    int reduction, unused;
    void *late;
    uint64_t wrong;
} entropy_call;

static void entropy_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"forward", "reduce", "backward"};

    cr_text_printf(out, "#define CE_ITEM cm_%s\n#define CE_LANES %d\n#define CE_VECTOR %d\n",
                   cr_dtype_infos[k->a].suffix, k->b, k->c);
    snprintf(symbol, 32, "ce_%s", name[k->d]);
}

/* The array's classes are dim 1; the other dims, which are rows, are two at most. */
static bool entropy_rows(entropy_call *c, const cr_array *x)
{
    int64_t next = 0;

    c->rows = x->size[0];
    c->classes = x->size[1];
    c->outer_step = x->stride[0];
    c->step = x->stride[1];
    c->inner = 1;
    for (int d = x->ndim - 1; d > 1; d--) {
        if (x->size[d] == 1)
            continue;
        if (c->inner > 1 && x->stride[d] != next)
            return false;
        c->inner_step = c->inner == 1 ? x->stride[d] : c->inner_step;
        next = x->stride[d] * x->size[d];
        c->inner *= x->size[d];
    }
    c->rows *= c->inner;
    return true;
}

static bool entropy_begin(entropy_call *c, const cr_array *x, const cr_given *target)
{
    memset(c, 0, sizeof *c);
    if (x->ndim < 2 || x->ndim > ENTROPY_DIMS || x->dtype >= CR_DTYPE_KERNELS ||
        cr_dtype_category((cr_dtype)x->dtype) != CR_CAT_FLOAT || !entropy_rows(c, x) ||
        !c->rows || !c->classes || target->array.dtype != CR_I64 ||
        !cr_is_dense_array(&target->array))
        return false;
    c->x = x->data;
    c->target = target->array.data;
    return true;
}

/* `out`: the gradient, of the same strides, or NULL. */
static const char *entropy_launch(int device, entropy_kernel kernel, int dtype, entropy_call *c)
{
    int64_t lanes = ENTROPY_VECTOR / (int64_t)cr_dtype_size((cr_dtype)dtype);
    uintptr_t bits = (uintptr_t)c->x | (uintptr_t)c->out;
    bool vectors = c->step == 1 && bits % ENTROPY_VECTOR == 0 && c->classes % lanes == 0 &&
                   c->outer_step % lanes == 0 && c->inner_step % lanes == 0;
    int threads = c->step != 1 || c->classes <= 4     ? 1
                  : c->classes <= ENTROPY_THREADS * 4 ? ENTROPY_WARP
                                                      : ENTROPY_THREADS;
    cr_cuda_grid g = {.grid = {1, 1},
                      .block = {kernel == REDUCE ? ENTROPY_ADDERS : ENTROPY_THREADS, 1}};
    cr_cuda_text k = {.print = entropy_print,
                      .device = device,
                      .part = CR_VEC_CUDA_ENTROPY,
                      .a = dtype,
                      .b = threads,
                      .c = vectors ? (int)lanes : 1,
                      .d = (int)kernel};
    int64_t high = ENTROPY_THREADS / threads;
    const char *error = cr_cuda_find(&g.function, &k);

    if (kernel != REDUCE)
        g.grid[0] = (unsigned)((c->rows + high - 1) / high);
    return error ? error : cr_cuda_launch(device, &g, c);
}

/* (self, target, reduction, ignore_index) -> output, logsumexp, total */
const char *cr_cuda_class_entropy(int device, const cr_given *arg, const cr_array *result)
{
    const cr_array *x = &arg[0].array;
    entropy_call c;
    cr_cuda_late late;
    uint32_t block;

    if (!entropy_begin(&c, x, &arg[1]) || c.rows > INT32_MAX)
        return cr_command_declines;
    const char *error =
        cr_cuda_late_begin(&late, device, CR_INDEX, "Target \1 is out of bounds.");
    size_t bytes = (size_t)c.rows * (x->dtype == CR_F64 ? 8 : 4);
    c.term = error ? NULL : cr_cuda_memory_get(device, bytes, &block);
    if (!c.term)
        return error ? error : cr_cuda_no_memory(device, bytes);
    c.late = late.word;
    c.wrong = late.number;
    c.reduction = (int)arg[2].i;
    c.ignored = arg[3].i;
    c.loss = result[0].data;
    c.lse = result[1].data;
    c.total = result[2].data;
    error = entropy_launch(device, FORWARD, x->dtype, &c);
    if (!error)
        error = entropy_launch(device, REDUCE, x->dtype, &c);
    cr_cuda_memory_release(device, c.term, block);
    return error;
}

/* (grad, self, target, logsumexp, total, reduction, ignore_index) -> the gradient of self */
const char *cr_cuda_class_entropy_backward(int device, const cr_given *arg,
                                           const cr_array *result)
{
    const cr_array *x = &arg[1].array;
    entropy_call c, out;

    if (!entropy_begin(&c, x, &arg[2]) || c.rows > INT32_MAX ||
        !cr_is_dense_array(&arg[0].array) || !cr_is_dense_array(&arg[3].array) ||
        arg[0].array.dtype != x->dtype || !entropy_begin(&out, result, &arg[2]) ||
        out.outer_step != c.outer_step || out.inner_step != c.inner_step || out.step != c.step)
        return cr_command_declines;
    c.out = result->data;
    c.grad = arg[0].array.data;
    c.lse = arg[3].array.data;
    c.total = arg[4].array.data;
    c.reduction = (int)arg[5].i;
    c.ignored = arg[6].i;
    return entropy_launch(device, BACKWARD, x->dtype, &c);
}
