/* Bags of embeddings on NVIDIA devices; the kernel is in emit/bag.cuh. */
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/entries.h"
#include "num/dtype.h"
#include <stdio.h>

enum { BAG_MAX = 2 }; /* CB_MAX of emit/bag.cuh */
/* cb_list and cb_call of emit/bag.cuh */
typedef struct {
    const char *at;
    int64_t step, n;
    int is32, unused;
} bag_list;
/* The sizes of a call, and how it combines rows. */
typedef struct {
    int64_t rows, bags, columns, skip, mode;
} bag_sizes;

/* cb_call of emit/bag.cuh.
 * Invariant: the members are those of the kernels' struct, in the same order. A wrong_
 * number is 0 while no index was found out of range. */
typedef struct {
    const char *weight, *samples;
    int64_t row_step, step, sample_step;
    bag_list indices, offsets;
    bag_sizes n;
    void *out, *bag_of, *size, *most, *inside;
    void *late;
    uint64_t wrong_row, wrong_first, wrong_offset;
} bag_call;

static void bag_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    cr_text_printf(out, "#define CB_ITEM cm_%s\n", cr_dtype_infos[k->a].suffix);
    snprintf(symbol, 32, k->b ? "cb_places" : "cb_bags");
}

static int64_t array_step(const cr_array *a, int d)
{
    return a->stride[d] * (int64_t)cr_dtype_size((cr_dtype)a->dtype);
}

static bag_list list_of(const cr_array *a)
{
    return (bag_list){
        .at = a->data, .step = array_step(a, 0), .n = a->size[0], .is32 = a->dtype == CR_I32};
}

static const char *bag_error(bag_call *c, uint64_t *number, int device, cr_status kind,
                             const char *text)
{
    cr_cuda_late late;
    const char *error = cr_cuda_late_begin(&late, device, kind, text);

    if (!error) {
        c->late = late.word;
        *number = late.number;
    }
    return error;
}

static const char *bag_errors(bag_call *c, int device)
{
    char text[200];
    const char *error =
        bag_error(c, &c->wrong_row, device, CR_INDEX, "index out of range in self");

    if (!error)
        error = bag_error(c, &c->wrong_first, device, CR_RUNTIME,
                          "offsets[0] has to be 0, i.e., the first sequence in the mini-batch "
                          "has to start from position 0. However, got \1");
    snprintf(text, sizeof text,
             "offsets[-1] can not be greater than input's length %lld but got offsets[-1] of "
             "\1",
             (long long)c->indices.n);
    return error ? error : bag_error(c, &c->wrong_offset, device, CR_RUNTIME, text);
}

/* Of rows of `dtype`; `places`: of no rows. */
static const char *bag_run(int device, bag_call *c, int dtype, bool places)
{
    cr_cuda_text k = {
        .print = bag_print, .device = device, .part = CR_VEC_CUDA_BAG, .a = dtype, .b = places};
    int64_t folds = c->n.bags * (c->n.columns ? c->n.columns : 1);
    void *function;

    if (cr_dtype_category((cr_dtype)dtype) != CR_CAT_FLOAT || dtype >= CR_DTYPE_KERNELS)
        return cr_command_declines;
    if (!folds && !c->indices.n)
        return NULL;
    const char *error = cr_cuda_find(&function, &k);
    if (!error)
        error = bag_errors(c, device);
    return error ? error
                 : cr_cuda_launch_each(device, function,
                                       folds > c->indices.n ? folds : c->indices.n, c);
}

/* (weight, indices, offsets, ...) -> output, offset2bag, bag_size, max_indices */
static bag_call bag_of_rows(const cr_given *arg, const cr_array *result)
{
    const cr_array *weight = &arg[0].array;

    return (bag_call){.weight = weight->data,
                      .row_step = array_step(weight, 0),
                      .step = array_step(weight, 1),
                      .indices = list_of(&arg[1].array),
                      .offsets = list_of(&arg[2].array),
                      .n.rows = weight->size[0],
                      .n.bags = result[0].size[0],
                      .n.columns = weight->size[1],
                      .out = result[0].data,
                      .bag_of = result[1].data,
                      .size = result[2].data,
                      .most = result[3].data};
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
 *  include_last_offset, padding_idx) */
const char *cr_cuda_embedding_bag(int device, const cr_given *arg, const cr_array *result)
{
    const cr_array *samples = &arg[6].array;
    bool weighed = arg[6].kind == CR_GIVEN_ARRAY;
    bag_call c = bag_of_rows(arg, result);

    if (weighed && samples->dtype != arg[0].array.dtype)
        return cr_command_declines;
    c.samples = weighed ? samples->data : NULL;
    c.sample_step = weighed ? array_step(samples, 0) : 0;
    c.n.skip = arg[8].i;
    c.n.mode = arg[4].i;
    return bag_run(device, &c, arg[0].array.dtype, false);
}

/* (weight, indices, offsets, bags, padding_idx) */
const char *cr_cuda_largest_of_bags(int device, const cr_given *arg, const cr_array *result)
{
    bag_call c = bag_of_rows(arg, result);

    c.n.skip = arg[4].i;
    c.n.mode = BAG_MAX;
    return bag_run(device, &c, arg[0].array.dtype, false);
}

/* (indices, offsets, bags) -> the bag of each index, whether it is in one */
const char *cr_cuda_bags_of(int device, const cr_given *arg, const cr_array *result)
{
    bag_call c = {.indices = list_of(&arg[0].array),
                  .offsets = list_of(&arg[1].array),
                  .n.bags = arg[2].i,
                  .bag_of = result[0].data,
                  .inside = result[1].data};

    return bag_run(device, &c, CR_F32, true);
}
