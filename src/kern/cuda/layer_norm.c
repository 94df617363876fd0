/* The gradients of a layer norm's weight and bias on NVIDIA devices; the kernels are in
 * emit/layer_norm.cuh.  Other arrays than dense row-major ones of one dtype are declined: the
 * device then runs the composition. */
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include "num/order.h"
#include <stdio.h>

/* As in emit/layer_norm.cuh; a launch has at most so many blocks along y. */
enum { LAYER_WIDE = 32, LAYER_VECTOR = 16, LAYER_LANES = 4, LAYER_MOST_Y = 65535 };
/* Levels of parts: enough for 2^36 rows. */
enum { LAYER_LEVELS = 4 };

typedef enum { ROWS, JOIN } layer_kernel;

/* cl_call of emit/layer_norm.cuh */
typedef struct {
    const void *grad, *input, *mean, *rstd;
    const void *from[2];
    void *to[2], *sum[2];
    int64_t rows, columns;
} layer_call;

typedef struct {
    int device;
    cr_dtype item;
    int lanes;
    layer_call c;
} layer;

static void layer_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    cr_text_printf(out, "#define CL_ITEM cm_%s\n#define CL_LANES %d\n",
                   cr_dtype_infos[k->b].suffix, k->c);
    snprintf(symbol, 32, k->a == ROWS ? "cl_rows" : "cl_join");
}

static int64_t layer_parts(int64_t rows)
{
    return (rows + CR_FOLD_COLUMN - 1) / CR_FOLD_COLUMN;
}

static const char *layer_launch(layer *t, layer_kernel kernel)
{
    int64_t parts = layer_parts(t->c.rows), across = LAYER_WIDE * (int64_t)t->lanes;
    cr_cuda_grid g = {.block = {LAYER_WIDE, CR_FOLD_BLOCKS}};
    cr_cuda_text k = {.print = layer_print,
                      .device = t->device,
                      .part = CR_VEC_CUDA_LAYER,
                      .a = (int)kernel,
                      .b = t->item,
                      .c = t->lanes};
    const char *error = cr_cuda_find(&g.function, &k);

    g.grid[0] = (unsigned)((t->c.columns + across - 1) / across);
    g.grid[1] = (unsigned)(parts < LAYER_MOST_Y ? parts : LAYER_MOST_Y);
    return error ? error : cr_cuda_launch(t->device, &g, &t->c);
}

/* Folds the rows, then the results of their parts, and so on. */
static const char *layer_fold(layer *t)
{
    int64_t real = t->item == CR_F64 ? 8 : 4;
    const char *error = NULL;
    void *at[LAYER_LEVELS];
    uint32_t block[LAYER_LEVELS];
    int levels = 0;

    for (layer_kernel kernel = ROWS; !error; kernel = JOIN) {
        int64_t parts = layer_parts(t->c.rows), bytes = parts * t->c.columns * real;
        if (parts > 1 && levels == LAYER_LEVELS)
            error = cr_command_declines;
        if (parts > 1 && !error) {
            at[levels] = cr_cuda_memory_get(t->device, (size_t)(2 * bytes), &block[levels]);
            if (!at[levels])
                error = cr_cuda_no_memory(t->device, (size_t)(2 * bytes));
            else {
                t->c.sum[0] = at[levels];
                t->c.sum[1] = (char *)at[levels] + bytes;
                levels++;
            }
        }
        error = error ? error : layer_launch(t, kernel);
        if (parts == 1)
            break;
        t->c.from[0] = t->c.sum[0];
        t->c.from[1] = t->c.sum[1];
        t->c.rows = parts;
    }
    while (levels--)
        cr_cuda_memory_release(t->device, at[levels], block[levels]);
    return error;
}

static bool layer_takes(const layer *t, const cr_array *a, int64_t count)
{
    int64_t n = 1;

    for (int d = 0; d < a->ndim; d++)
        n *= a->size[d];
    return n == count && (cr_dtype)a->dtype == t->item && cr_is_dense_array(a);
}

/* (grad, input, normalized_shape, mean, rstd) -> gradients of weight and bias */
const char *cr_cuda_layer_norm_parameters(int device, const cr_given *arg,
                                          const cr_array *result)
{
    const cr_array *grad = &arg[0].array;
    layer t = {.device = device, .item = (cr_dtype)grad->dtype};
    int64_t n = 1;

    t.c.columns = 1;
    for (int d = 0; d < result->ndim; d++)
        t.c.columns *= result->size[d];
    for (int d = 0; d < grad->ndim; d++)
        n *= grad->size[d];
    /* The sum down one column would be that of a row, which has another order. */
    if (t.c.columns < 2 || !n || t.item >= CR_DTYPE_KERNELS ||
        cr_dtype_category(t.item) != CR_CAT_FLOAT)
        return cr_command_declines;
    t.c.rows = n / t.c.columns;
    if (!layer_takes(&t, grad, n) || !layer_takes(&t, &arg[1].array, n) ||
        !layer_takes(&t, &arg[3].array, t.c.rows) ||
        !layer_takes(&t, &arg[4].array, t.c.rows) ||
        !layer_takes(&t, &result[0], t.c.columns) || !layer_takes(&t, &result[1], t.c.columns))
        return cr_command_declines;
    t.c.grad = grad->data;
    t.c.input = arg[1].array.data;
    t.c.mean = arg[3].array.data;
    t.c.rstd = arg[4].array.data;
    t.c.to[0] = result[0].data;
    t.c.to[1] = result[1].data;
    int64_t item = (int64_t)cr_dtype_size(t.item), lanes = LAYER_VECTOR / item;
    lanes = lanes < LAYER_LANES ? lanes : LAYER_LANES;
    uintptr_t bits = (uintptr_t)t.c.grad | (uintptr_t)t.c.input;
    t.lanes =
        t.c.columns % lanes == 0 && bits % (uintptr_t)(lanes * item) == 0 ? (int)lanes : 1;
    return layer_fold(&t);
}
