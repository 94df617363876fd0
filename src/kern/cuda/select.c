/* Selecting by masks on NVIDIA devices: `nonzero`, `masked_select`, and sizes that depend on
 * elements; the kernels are in emit/select.cuh.  A call waits once, for its size. */
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include "space/space.h"
#include <stdio.h>

/* As in emit/select.cuh. */
enum { SELECT_DIMS = 8, SELECT_THREADS = 256, SELECT_TILE = 4096, SELECT_BLOCKS = 1 << 30 };
enum { SELECT_PARTS = 512 }; /* of a search for extremes */
typedef enum { COUNT, STARTS, EXTREMES, ALL_EXTREMES, SUMS, ALL_SUMS, PUT } select_kernel;
#define SELECT_MOST_SUM ((int64_t)1 << 62) /* CL_MOST */

/* cl_call of emit/select.cuh */
typedef struct {
    const char *mask, *from;
    char *to;
    int64_t *count;
    int64_t n, tiles, ndim, size[SELECT_DIMS], mask_step[SELECT_DIMS], from_step[SELECT_DIMS];
    int64_t places, place_size[SELECT_DIMS];
} select_call;

typedef struct {
    select_call call;
    int device, mask, bytes;
    uint32_t block; /* of call.count */
} select_job;

static void select_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"count", "starts",   "extremes", "all_extremes",
                                       "sums",  "all_sums", "put"};

    cr_text_printf(out, "#define CL_FORM %d\n#define CL_MASK cm_%s\n#define CL_BYTES %d\n",
                   k->a == (int)PUT, cr_dtype_infos[k->b].suffix, k->c);
    snprintf(symbol, 32, "cl_%s", name[k->a]);
}

static const char *select_launch(select_job *j, select_kernel kernel, int64_t blocks)
{
    cr_cuda_text k = {.print = select_print,
                      .device = j->device,
                      .part = CR_VEC_CUDA_SELECT,
                      .a = (int)kernel,
                      .b = j->mask,
                      .c = kernel == PUT ? j->bytes : 0};
    cr_cuda_grid g = {.block = {SELECT_THREADS, 1}};
    const char *error = cr_cuda_find(&g.function, &k);

    g.grid[0] = (unsigned)(blocks < SELECT_BLOCKS ? blocks : SELECT_BLOCKS);
    g.grid[1] = 1;
    return error ? error : cr_cuda_launch(j->device, &g, &j->call);
}

static int64_t select_step(const cr_array *a, int ndim, int d)
{
    return a ? cr_broadcast_step(a->ndim, a->size, a->stride, ndim, d) *
                   (int64_t)cr_dtype_size((cr_dtype)a->dtype)
             : 0;
}

/* Elements in row-major order of the sizes, to which the mask and `from` are broadcast. */
static bool select_start(select_job *j, int device, const cr_array *mask, const cr_array *from,
                         int ndim, const int64_t *size)
{
    select_call *c = &j->call;
    cr_space s;

    *j = (select_job){.device = device, .mask = mask->dtype};
    c->mask = mask->data;
    c->from = from ? from->data : NULL;
    if (mask->dtype >= CR_DTYPE_KERNELS || ndim > SELECT_DIMS)
        return false;
    cr_space_start(&s, 2);
    for (int d = 0; d < ndim; d++) {
        int64_t *step = cr_space_add(&s, size[d], d);
        step[0] = select_step(mask, ndim, d);
        step[1] = select_step(from, ndim, d);
        c->place_size[d] = size[d];
    }
    cr_space_merge(&s, 0);
    for (int d = 0; d < s.ndim; d++) {
        c->size[d] = s.dim[d].size;
        c->mask_step[d] = s.dim[d].step[0];
        c->from_step[d] = s.dim[d].step[1];
    }
    c->n = cr_space_count(&s, s.ndim);
    c->ndim = s.ndim;
    c->places = ndim;
    c->tiles = (c->n + SELECT_TILE - 1) / SELECT_TILE;
    return true;
}

static const char *select_room(select_job *j, int64_t numbers)
{
    size_t bytes = 8 * (size_t)numbers;

    j->call.count = cr_cuda_memory_get(j->device, bytes, &j->block);
    return j->call.count ? NULL : cr_cuda_no_memory(j->device, bytes);
}

static void select_end(const select_job *j)
{
    cr_cuda_memory_release(j->device, j->call.count, j->block);
}

/* Sets the counts; the caller releases them when it succeeds. */
static const char *select_count(select_job *j)
{
    const char *error = select_room(j, j->call.tiles + 1);

    if (error)
        return error;
    error = select_launch(j, COUNT, j->call.tiles);
    if (!error)
        error = select_launch(j, STARTS, 1);
    if (error)
        select_end(j);
    return error;
}

static const char *select_total(select_job *j, int64_t *trues)
{
    *trues = 0;
    const char *error = j->call.n ? select_count(j) : NULL;

    if (error || !j->call.n)
        return error;
    error = cr_cuda_ops.copy_out(j->device, trues, j->call.count + j->call.tiles, 8);
    select_end(j);
    return error;
}

static const char *select_put(select_job *j, char *to, int bytes)
{
    const char *error = j->call.n ? select_count(j) : NULL;

    if (error || !j->call.n)
        return error;
    j->call.to = to;
    j->bytes = bytes;
    error = select_launch(j, PUT, j->call.tiles);
    select_end(j);
    return error;
}

/* --- nonzero: (self) --- */

const char *cr_cuda_nonzero_sizes(int device, const cr_given *arg, cr_shape *out)
{
    const cr_array *self = &arg[0].array;
    select_job j;

    if (!select_start(&j, device, self, NULL, self->ndim, self->size))
        return cr_command_declines;
    out->ndim = 2;
    out->size[1] = self->ndim;
    return select_total(&j, &out->size[0]);
}

const char *cr_cuda_nonzero(int device, const cr_given *arg, const cr_array *result)
{
    const cr_array *self = &arg[0].array;
    select_job j;

    if (!self->ndim || !result->size[0])
        return NULL;
    if (result->stride[1] != 1 || result->stride[0] != self->ndim ||
        !select_start(&j, device, self, NULL, self->ndim, self->size))
        return cr_command_declines;
    return select_put(&j, result->data, 0);
}

/* --- masked_select: (self, mask) --- */

static bool select_both(select_job *j, int device, const cr_given *arg)
{
    const cr_array *self = &arg[0].array, *mask = &arg[1].array;
    int ndim = self->ndim > mask->ndim ? self->ndim : mask->ndim;
    int64_t size[CR_MAX_DIMS];

    if (arg[0].kind != CR_GIVEN_ARRAY || arg[1].kind != CR_GIVEN_ARRAY ||
        mask->dtype != CR_BOOL)
        return false;
    for (int d = 0; d < ndim; d++) {
        int a = d - (ndim - self->ndim), b = d - (ndim - mask->ndim);
        int64_t x = a < 0 ? 1 : self->size[a], y = b < 0 ? 1 : mask->size[b];
        size[d] = x == 1 ? y : x;
        if (x != y && x != 1 && y != 1)
            return false;
    }
    return select_start(j, device, mask, self, ndim, size);
}

const char *cr_cuda_masked_select_sizes(int device, const cr_given *arg, cr_shape *out)
{
    select_job j;

    if (!select_both(&j, device, arg))
        return cr_command_declines;
    out->ndim = 1;
    return select_total(&j, &out->size[0]);
}

const char *cr_cuda_masked_select(int device, const cr_given *arg, const cr_array *result)
{
    select_job j;

    if (!result->size[0])
        return NULL;
    return result->stride[0] == 1 && select_both(&j, device, arg)
               ? select_put(&j, result->data, (int)cr_dtype_size((cr_dtype)result->dtype))
               : cr_command_declines;
}

/* --- numbers of integers --- */

/* The least and the greatest element, or for SUMS the least one and the sum. */
static const char *select_extremes(select_job *j, select_kernel kernel, int64_t extremes[2])
{
    int64_t parts = j->call.tiles < SELECT_PARTS ? j->call.tiles : SELECT_PARTS;
    const char *error = select_room(j, 2 * parts);

    if (error)
        return error;
    j->call.tiles = parts;
    error = select_launch(j, kernel, parts);
    if (!error)
        error = select_launch(j, kernel + 1, 1);
    if (!error)
        error = cr_cuda_ops.copy_out(j->device, extremes, j->call.count, 16);
    select_end(j);
    return error;
}

/* --- repeat_interleave --- */

/* How often all positions are repeated, or the number that is given, which needs no wait.  The
 * host's function raises the errors. */
static const char *select_repeats(int64_t *total, int device, const cr_array *repeats,
                                  const cr_given *given)
{
    int64_t found[2] = {0, 0};
    select_job j;

    if (repeats->ndim > 1 || (repeats->dtype != CR_I32 && repeats->dtype != CR_I64) ||
        !select_start(&j, device, repeats, NULL, repeats->ndim, repeats->size))
        return cr_command_declines;
    *total = given->i;
    if (given->kind == CR_GIVEN_INT)
        return *total < 0 ? cr_command_declines : NULL;
    const char *error = j.call.n ? select_extremes(&j, SUMS, found) : NULL;
    *total = found[1];
    return error                                         ? error
           : found[0] < 0 || found[1] >= SELECT_MOST_SUM ? cr_command_declines
                                                         : NULL;
}

/* (repeats, *, output_size) */
const char *cr_cuda_repeats_sizes(int device, const cr_given *arg, cr_shape *out)
{
    if (arg[0].array.ndim != 1)
        return cr_command_declines;
    out->ndim = 1;
    return select_repeats(&out->size[0], device, &arg[0].array, &arg[1]);
}

/* (self, repeats, dim, *, output_size) */
const char *cr_cuda_repeat_each_sizes(int device, const cr_given *arg, cr_shape *out)
{
    const cr_array *self = &arg[0].array, *repeats = &arg[1].array;
    int64_t dims = self->ndim ? self->ndim : 1, dim = arg[2].i < 0 ? arg[2].i + dims : arg[2].i;
    int64_t total;

    if (dim < 0 || dim >= dims)
        return cr_command_declines;
    int64_t size = self->ndim ? self->size[dim] : 1, n = repeats->ndim ? repeats->size[0] : 1;
    if (repeats->ndim > 1 || (n != size && n != 1))
        return cr_command_declines;
    const char *error = select_repeats(&total, device, repeats, &arg[3]);
    if (error)
        return error;
    if (arg[3].kind != CR_GIVEN_INT && n == 1 && size && total > SELECT_MOST_SUM / size)
        return cr_command_declines;
    out->ndim = (uint8_t)dims;
    for (int d = 0; d < self->ndim; d++)
        out->size[d] = self->size[d];
    out->size[dim] = arg[3].kind != CR_GIVEN_INT && n == 1 ? total * size : total;
    return NULL;
}

/* --- bincount: (self, weights, minlength) --- */

/* The host's function raises the errors. */
const char *cr_cuda_bincount_sizes(int device, const cr_given *arg, cr_shape *out)
{
    const cr_array *self = &arg[0].array;
    int64_t extremes[2] = {0, -1}, least = arg[2].i;
    select_job j;

    const cr_array *weights = arg[1].kind == CR_GIVEN_ARRAY ? &arg[1].array : NULL;
    if (self->ndim != 1 || least < 0 ||
        (weights && (weights->ndim != 1 || weights->size[0] != self->size[0])) ||
        cr_dtype_category((cr_dtype)self->dtype) != CR_CAT_INT ||
        !select_start(&j, device, self, NULL, 1, self->size))
        return cr_command_declines;
    const char *error = j.call.n ? select_extremes(&j, EXTREMES, extremes) : NULL;
    if (error)
        return error;
    if (extremes[0] < 0 || extremes[1] == INT64_MAX)
        return cr_command_declines;
    out->ndim = 1;
    out->size[0] = extremes[1] + 1 > least ? extremes[1] + 1 : least;
    return NULL;
}

/* A dense vector of the elements of another dtype. */
typedef struct {
    cr_array array;
    int64_t stride;
    uint32_t block;
} select_cast;

static const char *select_cast_to(select_cast *c, int device, const cr_array *from, int dtype)
{
    size_t bytes = cr_dtype_size((cr_dtype)dtype) * (size_t)from->size[0];

    c->stride = 1;
    c->array = *from;
    if (from->dtype == dtype)
        return NULL;
    c->array = (cr_array){cr_cuda_memory_get(device, bytes, &c->block), dtype, 1, from->size,
                          &c->stride};
    return c->array.data ? cr_cuda_ops.move(device, &c->array, from)
                         : cr_cuda_no_memory(device, bytes);
}

static void select_cast_end(const select_cast *c, int device, const cr_array *from)
{
    if (c->array.data && c->array.data != from->data)
        cr_cuda_memory_release(device, c->array.data, c->block);
}

/* Ones, or weights, are added to zeros at the places that self names. */
static const char *select_add(int device, const cr_array *self, const cr_array *weights,
                              const cr_array *result)
{
    const int64_t one = 1, still = 0, zero[2] = {0, 0};
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)result->dtype);
    cr_indexed c = {.how = CR_COMBINE_ADD,
                    .dtype = result->dtype,
                    .ndim = 1,
                    .size = self->size,
                    .dense = weights ? weights->data : NULL,
                    .dense_stride = weights ? weights->stride : &still,
                    .table = result->data,
                    .table_stride = &still,
                    .index = self->data,
                    .index_stride = self->stride,
                    .is32 = self->dtype == CR_I32,
                    .unit = item * result->stride[0],
                    .extent = result->size[0],
                    .picked = 1,
                    .outside_kind = CR_RUNTIME};

    *(int64_t *)(void *)c.item = one;
    const char *error = cr_cuda_ops.fill(device, result, zero);
    return error || !self->size[0] ? error : cr_cuda_ops.combine(device, &c);
}

/* Weights of one number are added in order P, and not one after the other as on the host. */
const char *cr_cuda_bincount(int device, const cr_given *arg, const cr_array *result)
{
    const cr_array *self = &arg[0].array;
    const cr_array *weights = arg[1].kind == CR_GIVEN_ARRAY ? &arg[1].array : NULL;
    select_cast index = {.stride = 1}, sum = {.stride = 1};

    const char *error =
        select_cast_to(&index, device, self, self->dtype == CR_I32 ? CR_I32 : CR_I64);
    if (!error && weights)
        error = select_cast_to(&sum, device, weights, result->dtype);
    if (!error)
        error = select_add(device, &index.array, weights ? &sum.array : NULL, result);
    select_cast_end(&index, device, self);
    if (weights)
        select_cast_end(&sum, device, weights);
    return error;
}
