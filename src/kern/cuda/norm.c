/* Batch norm on NVIDIA devices; the kernels are in emit/norm.cuh.
 *
 * An array is read as it lies when it is row-major or has the channels last; others are
 * copied. */
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include <stdio.h>
#include <string.h>

enum {
    NORM_THREADS = 256,
    NORM_CHANNELS = 32, /* that threads beside each other read: at most so many vectors */
    NORM_JOINERS = 1024,
    NORM_BLOCKS = 512, /* of a launch, at least, where there are so many elements */
    NORM_SPREAD = 4,   /* times as many where no sums are joined */
    NORM_SHARE = 8,    /* lines of a thread, at least */
    NORM_VECTOR = 16,  /* bytes */
    NORM_MOST_DIMS = 64,
    NORM_NUMBERS = 3, /* of a part (cn_part) */
    NORM_MOST_Y = 65535,
    NORM_BLOCKS_HELD = 6
};

typedef enum { MOMENTS, STATISTICS, APPLY, SUMS, PARAMETERS, GRADIENT } norm_kernel;
/* Bits of a kernel's form; those of emit/norm.cuh without CN_. */
enum { VECTORS = 1, LAST = 2, RELU = 4, ADDS = 8, MASKS = 16, NORM_FORMS = 32 };

/* Statistics by channel, or by line. */
typedef struct {
    void *mean, *invstd, *var, *part, *factor;
} norm_sums;

/* The sizes of a call. */
typedef struct {
    int64_t channels, images, plane, lines, parts;
} norm_sizes;

/* cn_call of emit/norm.cuh.
 * Invariant: the members are those of the kernels' struct, in the same order. n.lines is
 * n.images * n.plane. */
typedef struct {
    const void *x, *grad, *other, *result;
    void *out, *masked;
    const void *weight, *bias;
    void *weight_grad, *bias_grad;
    const void *given_mean, *given_var;
    norm_sums sum;
    norm_sizes n;
    double eps;
    int training, unused;
} norm_call;

/* A copy in the layout of the result. */
typedef struct {
    void *at;
    uint32_t block;
} norm_block;

typedef struct {
    int device;
    cr_dtype item, param, given;
    bool last, vectors; /* the layout; whether vectors of 16 bytes are aligned */
    bool relu;          /* one follows */
    norm_call c;
    int64_t pieces; /* of the lines, for kernels that join no sums */
    norm_block block[NORM_BLOCKS_HELD];
    int blocks;
    const char *error;
} norm;

static void norm_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"moments_of_parts", "statistics", "apply",
                                       "sums_of_parts",    "parameters", "gradient"};
    bool vectors = k->d & VECTORS;
    int size = (int)cr_dtype_size((cr_dtype)k->a);

    cr_text_printf(
        out, "#define CN_ITEM cm_%s\n#define CN_PARAM cm_%s\n#define CN_STAT cm_%s\n",
        cr_dtype_infos[k->a].suffix, cr_dtype_infos[k->b].suffix, cr_dtype_infos[k->c].suffix);
    cr_text_printf(out, "#define CN_LAST %d\n#define CN_LANES %d\n", !!(k->d & LAST),
                   vectors ? NORM_VECTOR / size : 1);
    cr_text_printf(out, "#define CN_RELU %d\n#define CN_ADDS %d\n#define CN_MASKS %d\n",
                   !!(k->d & RELU), !!(k->d & ADDS), !!(k->d & MASKS));
    snprintf(symbol, 32, "cn_%s", name[k->d / NORM_FORMS]);
}

/* --- arrays --- */

static bool has_strides(const cr_array *a, const cr_array *like)
{
    if (a->ndim != like->ndim)
        return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->size[d] != like->size[d] || (a->size[d] > 1 && a->stride[d] != like->stride[d]))
            return false;
    return true;
}

/* The strides of a dense array whose dims are in the order first, channels last or not. */
static bool is_dense(const cr_array *a, bool last)
{
    int64_t next = 1;

    if (last && a->size[1] > 1 && a->stride[1] != 1)
        return false;
    next = last ? a->size[1] : 1;
    for (int d = a->ndim - 1; d >= 0; d--) {
        if (last && d == 1)
            continue;
        if (a->size[d] > 1 && a->stride[d] != next)
            return false;
        next *= a->size[d];
    }
    return true;
}

/* Memory until the end of the call; NULL if there is none. */
static void *norm_get(norm *t, size_t bytes)
{
    norm_block *b = &t->block[t->blocks];

    b->at = cr_cuda_memory_get(t->device, bytes, &b->block);
    if (b->at)
        t->blocks++;
    else
        t->error = cr_cuda_no_memory(t->device, bytes);
    return b->at;
}

/* The array, or a copy of it that has the layout of the result. */
static const void *norm_read(norm *t, const cr_array *a, const cr_array *like)
{
    cr_array copy = *like;

    if (t->error || has_strides(a, like))
        return a->data;
    copy.data = norm_get(t, (size_t)(t->c.n.lines * t->c.n.channels) *
                                cr_dtype_size((cr_dtype)a->dtype));
    if (copy.data)
        t->error = cr_cuda_ops.move(t->device, &copy, a);
    return copy.data;
}

static const char *norm_end(norm *t)
{
    for (int i = 0; i < t->blocks; i++)
        cr_cuda_memory_release(t->device, t->block[i].at, t->block[i].block);
    return t->error;
}

/* --- problems --- */

static bool is_real(const cr_array *a)
{
    return a->dtype < CR_DTYPE_KERNELS && cr_dtype_category((cr_dtype)a->dtype) == CR_CAT_FLOAT;
}

/* Sets a list of one number a channel; false for other arrays.  None is a list, too. */
static bool norm_list(const norm *t, const void **out, cr_dtype *dtype, const cr_given *g)
{
    const cr_array *a = &g->array;

    *out = NULL;
    if (g->kind != CR_GIVEN_ARRAY)
        return g->kind == CR_GIVEN_NONE;
    if (a->ndim != 1 || a->size[0] != t->c.n.channels ||
        (a->size[0] > 1 && a->stride[0] != 1) || !is_real(a) ||
        (*dtype != (cr_dtype)a->dtype && *dtype != CR_DTYPE_KERNELS))
        return false;
    *dtype = (cr_dtype)a->dtype;
    *out = a->data;
    return true;
}

static bool norm_begin(norm *t, int device, const cr_array *x, const cr_array *out)
{
    int64_t plane = 1, count = 1;

    memset(t, 0, sizeof *t);
    if (x->ndim < 2 || x->ndim > NORM_MOST_DIMS || !is_real(x) || out->dtype != x->dtype)
        return false;
    for (int d = 0; d < x->ndim; d++) {
        count *= x->size[d];
        plane *= d > 1 ? x->size[d] : 1;
    }
    t->last = is_dense(out, true) && (plane > 1 || is_dense(out, false));
    t->device = device;
    t->item = (cr_dtype)x->dtype;
    t->param = t->given = CR_DTYPE_KERNELS;
    t->c.n.channels = x->size[1];
    t->c.n.images = x->size[0];
    t->c.n.plane = plane;
    t->c.n.lines = x->size[0] * plane;
    t->c.out = out->data;
    return count > 0 && (t->last || is_dense(out, false));
}

static size_t real_size(const norm *t) { return t->item == CR_F64 ? 8 : 4; }

/* Threads beside each other, a power of two. */
static unsigned norm_width(const norm *t)
{
    int64_t lanes = t->vectors ? NORM_VECTOR / (int64_t)cr_dtype_size(t->item) : 1;
    unsigned width = 1;

    while (t->last && width < NORM_CHANNELS && width * lanes < t->c.n.channels)
        width *= 2;
    return width;
}

/* Blocks beside each other. */
static int64_t norm_across(const norm *t)
{
    int64_t lanes = t->vectors ? NORM_VECTOR / (int64_t)cr_dtype_size(t->item) : 1;
    int64_t channels = t->last ? norm_width(t) * lanes : 1;

    return (t->c.n.channels + channels - 1) / channels;
}

/* The vectors of 16 bytes, and the parts into which the lines are divided. */
static void norm_divide(norm *t)
{
    uintptr_t bits = (uintptr_t)t->c.x | (uintptr_t)t->c.grad | (uintptr_t)t->c.out |
                     (uintptr_t)t->c.other | (uintptr_t)t->c.result | (uintptr_t)t->c.masked;
    int64_t lanes = NORM_VECTOR / (int64_t)cr_dtype_size(t->item);

    t->vectors =
        bits % NORM_VECTOR == 0 && (t->last ? t->c.n.channels : t->c.n.plane) % lanes == 0;
    int64_t across = norm_across(t), high = NORM_THREADS / norm_width(t);
    int64_t n = t->last || !t->vectors ? t->c.n.lines : t->c.n.lines / lanes;
    int64_t most = (n + high * NORM_SHARE - 1) / (high * NORM_SHARE);
    int64_t parts = (NORM_BLOCKS + across - 1) / across;
    int64_t limit = most < NORM_MOST_Y ? most : NORM_MOST_Y;

    t->c.n.parts = parts < limit ? parts : limit;
    t->pieces = parts * NORM_SPREAD < limit ? parts * NORM_SPREAD : limit;
}

/* What follows batch norm is in the kernels that have its results or their gradient. */
static int norm_form(const norm *t, norm_kernel kernel)
{
    bool follows = kernel == APPLY || kernel == SUMS || kernel == GRADIENT;

    return (t->vectors ? VECTORS : 0) | (t->last ? LAST : 0) | (follows && t->relu ? RELU : 0) |
           (follows && t->c.other ? ADDS : 0) | (follows && t->c.result ? MASKS : 0);
}

static void norm_launch(norm *t, norm_kernel kernel)
{
    bool joins = kernel == STATISTICS || kernel == PARAMETERS;
    const int64_t parts = t->c.n.parts;
    cr_cuda_grid g = {.grid = {1, 1}};
    cr_cuda_text k = {.print = norm_print,
                      .device = t->device,
                      .part = CR_VEC_CUDA_NORM,
                      .a = t->item,
                      .b = t->param == CR_DTYPE_KERNELS ? t->item : t->param,
                      .c = t->given == CR_DTYPE_KERNELS ? t->item : t->given,
                      .d = (int)kernel * NORM_FORMS + norm_form(t, kernel)};

    if (!t->error)
        t->error = cr_cuda_find(&g.function, &k);
    g.block[0] = joins ? NORM_CHANNELS : norm_width(t);
    g.block[1] = (joins ? NORM_JOINERS : NORM_THREADS) / g.block[0];
    g.grid[0] = (unsigned)(joins ? (t->c.n.channels + NORM_CHANNELS - 1) / NORM_CHANNELS
                                 : norm_across(t));
    if (kernel == APPLY || kernel == GRADIENT)
        t->c.n.parts = t->pieces;
    g.grid[1] = joins ? 1 : (unsigned)t->c.n.parts;
    if (!t->error)
        t->error = cr_cuda_launch(t->device, &g, &t->c);
    t->c.n.parts = parts;
}

/* Room for the numbers of parts, and `more` numbers a channel before them. */
static void *norm_room(norm *t, int64_t more)
{
    size_t line = (size_t)t->c.n.channels * real_size(t);
    char *at =
        t->error ? NULL : norm_get(t, line * (size_t)(NORM_NUMBERS * t->c.n.parts + more));

    t->c.sum.part = at ? at + (size_t)more * line : NULL;
    return at;
}

/* --- entries --- */

static double number_of(const cr_given *g)
{
    return g->kind == CR_GIVEN_INT ? (double)g->i : g->d;
}

/* (input, weight, bias, ...) */
static bool norm_begin_forward(norm *t, int device, const cr_given *arg, const cr_array *result)
{
    return norm_begin(t, device, &arg[0].array, result) &&
           norm_list(t, &t->c.weight, &t->param, &arg[1]) &&
           norm_list(t, &t->c.bias, &t->param, &arg[2]);
}

/* A further array of the result's sizes and dtype, or None. */
static bool norm_other(norm *t, const void **out, const cr_given *g, const cr_array *like)
{
    *out = NULL;
    if (g->kind != CR_GIVEN_ARRAY)
        return g->kind == CR_GIVEN_NONE;
    if (g->array.dtype != like->dtype || g->array.ndim != like->ndim ||
        memcmp(g->array.size, like->size, (size_t)like->ndim * sizeof *like->size))
        return false;
    *out = norm_read(t, &g->array, like);
    return true;
}

/* The batch's statistics, and the results: out, mean, invstd, var. */
static const char *norm_train(norm *t, const cr_array *x, double eps, const cr_array *result)
{
    t->c.training = 1;
    t->c.eps = eps;
    t->c.sum.mean = result[1].data;
    t->c.sum.invstd = result[2].data;
    t->c.sum.var = result[3].data;
    t->c.x = norm_read(t, x, &result[0]);
    norm_divide(t);
    norm_room(t, 0);
    norm_launch(t, MOMENTS);
    norm_launch(t, STATISTICS);
    norm_launch(t, APPLY);
    return norm_end(t);
}

/* (input, weight, bias, eps) -> out, mean, invstd, var */
const char *cr_cuda_batch_norm(int device, const cr_given *arg, const cr_array *result)
{
    norm t;

    if (!norm_begin_forward(&t, device, arg, result))
        return cr_command_declines;
    return norm_train(&t, &arg[0].array, number_of(&arg[3]), result);
}

/* (input, weight, bias, other, eps) -> out, mean, invstd, var */
const char *cr_cuda_batch_norm_relu(int device, const cr_given *arg, const cr_array *result)
{
    norm t;

    if (!norm_begin_forward(&t, device, arg, result))
        return cr_command_declines;
    if (!norm_other(&t, &t.c.other, &arg[3], &result[0])) {
        norm_end(&t);
        return cr_command_declines;
    }
    t.relu = true;
    return norm_train(&t, &arg[0].array, number_of(&arg[4]), result);
}

/* (input, weight, bias, running_mean, running_var, eps) -> out */
const char *cr_cuda_batch_norm_given(int device, const cr_given *arg, const cr_array *result)
{
    norm t;

    if (!norm_begin_forward(&t, device, arg, result) ||
        !norm_list(&t, &t.c.given_mean, &t.given, &arg[3]) ||
        !norm_list(&t, &t.c.given_var, &t.given, &arg[4]))
        return cr_command_declines;
    t.c.eps = number_of(&arg[5]);
    t.c.x = norm_read(&t, &arg[0].array, &result[0]);
    norm_divide(&t);
    norm_launch(&t, APPLY);
    return norm_end(&t);
}

/* Weight, mean and invstd; the gradients of input, weight and bias. */
static bool norm_begin_backward(norm *t, int device, const cr_array *grad, const cr_array *x,
                                const cr_given *weight, const cr_given *mean,
                                const cr_given *invstd, const cr_array *result)
{
    cr_dtype real = CR_DTYPE_KERNELS;
    const void *list;

    if (!norm_begin(t, device, x, &result[0]) || grad->dtype != x->dtype ||
        !norm_list(t, &t->c.weight, &t->param, weight) || !norm_list(t, &list, &real, mean) ||
        !norm_list(t, &list, &real, invstd) || real != (t->item == CR_F64 ? CR_F64 : CR_F32))
        return false;
    t->param = (cr_dtype)result[1].dtype;
    t->c.sum.mean = mean->array.data;
    t->c.sum.invstd = invstd->array.data;
    t->c.weight_grad = result[1].data;
    t->c.bias_grad = result[2].data;
    return true;
}

static const char *norm_backward(norm *t, const cr_array *grad, const cr_array *x,
                                 const cr_array *result)
{
    t->c.grad = norm_read(t, grad, result);
    t->c.x = norm_read(t, x, result);
    norm_divide(t);
    t->c.sum.factor = norm_room(t, 2);
    norm_launch(t, SUMS);
    norm_launch(t, PARAMETERS);
    if (t->c.masked) { /* what SUMS has stored */
        t->c.grad = t->c.masked;
        t->c.other = t->c.result = NULL;
    }
    norm_launch(t, GRADIENT);
    return norm_end(t);
}

/* (grad, input, weight, mean, invstd, training) -> gradients of input, weight and bias */
const char *cr_cuda_batch_norm_backward(int device, const cr_given *arg, const cr_array *result)
{
    norm t;

    if (!norm_begin_backward(&t, device, &arg[0].array, &arg[1].array, &arg[2], &arg[3],
                             &arg[4], result))
        return cr_command_declines;
    t.c.training = arg[5].i != 0;
    return norm_backward(&t, &arg[0].array, &arg[1].array, result);
}

/* (grad, input, weight, bias, mean, invstd) -> gradients of input, weight and bias */
const char *cr_cuda_batch_norm_relu_backward(int device, const cr_given *arg,
                                             const cr_array *result)
{
    norm t;

    if (!norm_begin_backward(&t, device, &arg[0].array, &arg[1].array, &arg[2], &arg[4],
                             &arg[5], result) ||
        !norm_list(&t, &t.c.bias, &t.param, &arg[3]))
        return cr_command_declines;
    t.c.training = 1;
    t.relu = true;
    return norm_backward(&t, &arg[0].array, &arg[1].array, result);
}

/* (grad, other, result, input, weight, mean, invstd)
 * -> gradients of input, weight and bias, and of relu */
const char *cr_cuda_batch_norm_masked_backward(int device, const cr_given *arg,
                                               const cr_array *result)
{
    norm t;

    if (!norm_begin_backward(&t, device, &arg[0].array, &arg[3].array, &arg[4], &arg[5],
                             &arg[6], result) ||
        !has_strides(&result[3], &result[0]) || result[3].dtype != result[0].dtype)
        return cr_command_declines;
    if (!norm_other(&t, &t.c.other, &arg[1], result) ||
        !norm_other(&t, &t.c.result, &arg[2], result)) {
        norm_end(&t);
        return cr_command_declines;
    }
    t.c.training = 1;
    t.c.masked = result[3].data;
    return norm_backward(&t, &arg[0].array, &arg[3].array, result);
}
