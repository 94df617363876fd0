/* The gradients of a layer norm's weight and bias, and of an RMS norm's weight, on NVIDIA
 * devices; the kernels are in emit/layer_norm.cuh.  Other arrays than dense row-major ones of
 * the expected dtypes are declined: the device then runs the composition. */
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include "num/order.h"
#include <stdio.h>

/* As in emit/layer_norm.cuh; a launch has at most so many blocks along y. */
enum {
    LAYER_WIDE = 8,
    LAYER_CHAINS = 4,
    LAYER_VECTOR = 16,
    LAYER_LANES = 8,
    LAYER_MOST_Y = 65535
};
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
    cr_dtype item, stat; /* of elements; of a row's numbers and of the gradients */
    int lanes, sums;     /* sums: 1 of an RMS norm */
    layer_call c;
} layer;

static void layer_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    cr_text_printf(out,
                   "#define CL_ITEM cm_%s\n#define CL_LANES %d\n#define CL_STAT cm_%s\n"
                   "#define CL_SUMS %d\n",
                   cr_dtype_infos[k->b].suffix, k->c, cr_dtype_infos[k->d].suffix, k->a / 2);
    snprintf(symbol, 32, k->a % 2 == ROWS ? "cl_rows" : "cl_join");
}

static int64_t layer_parts(int64_t rows)
{
    return (rows + CR_FOLD_COLUMN - 1) / CR_FOLD_COLUMN;
}

static const char *layer_launch(layer *t, layer_kernel kernel)
{
    int64_t parts = layer_parts(t->c.rows), across = LAYER_WIDE * (int64_t)t->lanes;
    cr_cuda_grid g = {.block = {LAYER_WIDE * LAYER_CHAINS, CR_FOLD_BLOCKS}};
    cr_cuda_text k = {.print = layer_print,
                      .device = t->device,
                      .part = CR_VEC_CUDA_LAYER,
                      .a = 2 * t->sums + (int)kernel,
                      .b = t->item,
                      .c = t->lanes,
                      .d = t->stat};
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
            at[levels] =
                cr_cuda_memory_get(t->device, (size_t)(t->sums * bytes), &block[levels]);
            if (!at[levels])
                error = cr_cuda_no_memory(t->device, (size_t)(t->sums * bytes));
            else {
                t->c.sum[0] = at[levels];
                t->c.sum[1] = t->sums > 1 ? (char *)at[levels] + bytes : NULL;
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

static int64_t layer_count(const cr_array *a)
{
    int64_t n = 1;

    for (int d = 0; d < a->ndim; d++)
        n *= a->size[d];
    return n;
}

static bool layer_takes(const cr_array *a, cr_dtype dtype, int64_t count)
{
    return layer_count(a) == count && (cr_dtype)a->dtype == dtype && cr_is_dense_array(a);
}

/* Takes the matrices, the rows' 1 / standard deviations, and the gradient of the weight. */
static bool layer_begin(layer *t, const cr_array *grad, const cr_array *input,
                        const cr_array *rstd, const cr_array *weight)
{
    int64_t n = layer_count(grad);

    t->item = (cr_dtype)grad->dtype;
    t->stat = (cr_dtype)rstd->dtype;
    t->c.columns = layer_count(weight);
    /* The sum down one column would be that of a row, which has another order. */
    if (t->c.columns < 2 || !n || t->item >= CR_DTYPE_KERNELS ||
        cr_dtype_category(t->item) != CR_CAT_FLOAT)
        return false;
    t->c.rows = n / t->c.columns;
    if (!layer_takes(grad, t->item, n) || !layer_takes(input, t->item, n) ||
        !layer_takes(rstd, t->stat, t->c.rows) || !layer_takes(weight, t->stat, t->c.columns))
        return false;
    t->c.grad = grad->data;
    t->c.input = input->data;
    t->c.rstd = rstd->data;
    t->c.to[0] = weight->data;
    int64_t item = (int64_t)cr_dtype_size(t->item), lanes = LAYER_VECTOR / item;
    lanes = lanes < LAYER_LANES ? lanes : LAYER_LANES;
    uintptr_t bits = (uintptr_t)t->c.grad | (uintptr_t)t->c.input;
    t->lanes =
        t->c.columns % lanes == 0 && bits % (uintptr_t)(lanes * item) == 0 ? (int)lanes : 1;
    return true;
}

/* (grad, input, normalized_shape, mean, rstd) -> gradients of weight and bias */
const char *cr_cuda_layer_norm_parameters(int device, const cr_given *arg,
                                          const cr_array *result)
{
    layer t = {.device = device, .sums = 2};

    if (!layer_begin(&t, &arg[0].array, &arg[1].array, &arg[4].array, &result[0]) ||
        t.stat != t.item || !layer_takes(&arg[3].array, t.stat, t.c.rows) ||
        !layer_takes(&result[1], t.stat, t.c.columns))
        return cr_command_declines;
    t.c.mean = arg[3].array.data;
    t.c.to[1] = result[1].data;
    return layer_fold(&t);
}

/* (grad, input, normalized_shape, rstd) -> gradient of weight */
const char *cr_cuda_rms_norm_weight(int device, const cr_given *arg, const cr_array *result)
{
    layer t = {.device = device, .sums = 1};

    if (!layer_begin(&t, &arg[0].array, &arg[1].array, &arg[3].array, &result[0]) ||
        t.stat != (t.item == CR_F64 ? CR_F64 : CR_F32))
        return cr_command_declines;
    return layer_fold(&t);
}
