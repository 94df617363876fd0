/* Resampling on NVIDIA devices; the kernel is in emit/resample.cuh.
 *
 * The taps of the dims are made by the host, as for its own kernel, and copied to the device
 * for each call.  The transpose has, for each element of its result, the taps that name it. */
#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cpu/plane/upsample.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include <stdio.h>
#include <string.h>

enum { RESAMPLE_AXES = 3, RESAMPLE_DIMS = RESAMPLE_AXES + 2, RESAMPLE_LANES = 4 };

/* cu_axis and cu_call of emit/resample.cuh */
typedef struct {
    const int32_t *start, *index;
    const void *weight;
    int64_t step;
    int dim, fraction, one;
} resample_axis;
typedef struct {
    char *to;
    const char *from;
    int64_t n, size[RESAMPLE_DIMS], to_step[RESAMPLE_DIMS], from_step[RESAMPLE_DIMS];
    int64_t to_lane, from_lane;
    resample_axis axis[RESAMPLE_AXES];
    double none;
    int adjacent;
} resample_call;

/* The types of sums and weights for a dtype; false for those that are left to the host. */
static bool resample_types(int dtype, cr_dtype *tap, const char **wide, const char **weight)
{
    static const struct {
        cr_dtype dtype, tap;
        const char *wide, *weight;
    } rows[] = {{CR_F16, CR_F32, "float", "float"},
                {CR_BF16, CR_F32, "float", "float"},
                {CR_F32, CR_F32, "float", "float"},
                {CR_F64, CR_F64, "double", "double"},
                {CR_U8, CR_U8, "int", "short"}};

    for (size_t i = 0; i < CR_LEN(rows); i++)
        if ((int)rows[i].dtype == dtype) {
            *tap = rows[i].tap;
            *wide = rows[i].wide;
            *weight = rows[i].weight;
            return true;
        }
    return false;
}

static void resample_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    const char *wide = "", *weight = "";
    cr_dtype tap;

    resample_types(k->a, &tap, &wide, &weight);
    cr_text_printf(out, "#define CU_ITEM cm_%s\n#define CU_WIDE %s\n#define CU_WEIGHT %s\n",
                   cr_dtype_infos[k->a].suffix, wide, weight);
    cr_text_printf(out, "#define CU_LANES %d\n", k->b);
    snprintf(symbol, 32, "cu_resample");
}

/* --- taps --- */

/* Lists of taps in host memory, and where they are on the device: of an axis the starts, the
 * indices and, from a multiple of 8 bytes on, the weights. */
typedef struct {
    CR_VEC(int32_t) word;
    size_t start[RESAMPLE_AXES], index[RESAMPLE_AXES], weight[RESAMPLE_AXES];
    char *there;
    uint32_t block;
} resample_lists;

static size_t weight_bytes(cr_dtype tap) { return tap == CR_U8 ? 2 : cr_dtype_size(tap); }

/* Reserves lists of an axis; the places of elements and taps have 32 bits. */
static cr_status lists_reserve(resample_lists *l, int k, const cr_upsample_axis *a,
                               int64_t places, int64_t taps, cr_dtype tap)
{
    size_t words = ((size_t)taps * weight_bytes(tap) + 7) / 8 * 2;

    if (a->in > INT32_MAX || a->out > INT32_MAX || taps > INT32_MAX)
        return cr_fail(CR_RUNTIME,
                       "CUDA: a dimension of %lld elements is resampled to %lld elements with "
                       "%lld taps, expected at most 2^31 - 1 of each",
                       (long long)a->in, (long long)a->out, (long long)taps);
    CR_TRY(cr_vec_reserve(&l->word, (size_t)(places + 2 + taps) + words));
    l->start[k] = l->word.len;
    l->index[k] = l->start[k] + (size_t)places + 1;
    l->weight[k] = (l->index[k] + (size_t)taps + 1) / 2 * 2;
    l->word.len = l->weight[k] + words;
    memset(l->word.at + l->start[k], 0, (l->word.len - l->start[k]) * sizeof *l->word.at);
    return CR_OK;
}

static void lists_put(resample_lists *l, int k, int64_t at, int64_t index,
                      const cr_upsample_axis *a, int64_t from, cr_dtype tap)
{
    size_t bytes = weight_bytes(tap);

    l->word.at[l->index[k] + (size_t)at] = (int32_t)index;
    memcpy((char *)(l->word.at + l->weight[k]) + (size_t)at * bytes,
           (const char *)a->weight + (size_t)from * bytes, bytes);
}

/* True for a dim of bytes that is copied: it keeps its size, in a mode of several taps. */
static bool axis_is_copied(const cr_upsample_axis *a, cr_dtype tap)
{
    return tap == CR_U8 && a->in == a->out && a->taps > 1;
}

/* True if the only tap of the only place has weight 1. */
static bool axis_is_one(const cr_upsample_axis *a, cr_dtype tap)
{
    return a->in == 1 && a->out == 1 && a->taps == 1 &&
           (tap == CR_F32   ? *(const float *)a->weight == 1
            : tap == CR_F64 ? *(const double *)a->weight == 1
                            : false);
}

/* One tap for each place, of weight 1. */
static cr_status lists_add_copy(resample_lists *l, int k, const cr_upsample_axis *a,
                                cr_dtype tap)
{
    int16_t one = (int16_t)(1 << a->fraction);

    CR_TRY(lists_reserve(l, k, a, a->out, a->out, tap));
    for (int64_t o = 0; o < a->out; o++) {
        l->word.at[l->start[k] + (size_t)o + 1] = (int32_t)o + 1;
        l->word.at[l->index[k] + (size_t)o] = (int32_t)o;
        memcpy((char *)(l->word.at + l->weight[k]) + (size_t)o * sizeof one, &one, sizeof one);
    }
    return CR_OK;
}

static cr_status lists_add(resample_lists *l, int k, const cr_upsample_axis *a, cr_dtype tap)
{
    if (axis_is_copied(a, tap))
        return lists_add_copy(l, k, a, tap);
    CR_TRY(lists_reserve(l, k, a, a->out, a->out * a->taps, tap));
    for (int64_t o = 0; o < a->out; o++) {
        l->word.at[l->start[k] + (size_t)o + 1] = (int32_t)((o + 1) * a->taps);
        for (int64_t t = o * a->taps; t < (o + 1) * a->taps; t++)
            lists_put(l, k, t, a->index[t], a, t, tap);
    }
    return CR_OK;
}

/* For each input, the outputs that have it, in their order. */
static cr_status lists_add_turned(resample_lists *l, int k, const cr_upsample_axis *a,
                                  cr_dtype tap)
{
    int64_t n = a->out * a->taps;
    int32_t *start;

    CR_TRY(lists_reserve(l, k, a, a->in, n, tap));
    start = l->word.at + l->start[k];
    for (int64_t t = 0; t < n; t++)
        start[a->index[t] + 1]++;
    for (int64_t i = 0; i < a->in; i++)
        start[i + 1] += start[i];
    for (int64_t t = 0; t < n; t++)
        lists_put(l, k, start[a->index[t]]++, t / a->taps, a, t, tap);
    /* Each start is now the next one's. */
    memmove(start + 1, start, (size_t)a->in * sizeof *start);
    start[0] = 0;
    return CR_OK;
}

static const char *lists_copy(resample_lists *l, int device, resample_call *c)
{
    size_t bytes = l->word.len * sizeof *l->word.at;

    l->there = cr_cuda_memory_get(device, bytes, &l->block);
    if (!l->there)
        return cr_cuda_no_memory(device, bytes);
    for (int k = 0; k < RESAMPLE_AXES; k++) {
        const int32_t *there = (const int32_t *)(const void *)l->there;
        c->axis[k].start = there + l->start[k];
        c->axis[k].index = there + l->index[k];
        c->axis[k].weight = there + l->weight[k];
    }
    return cr_cuda_ops.copy_in(device, l->there, l->word.at, bytes);
}

/* Sums go from the last dim outwards; those of the transpose from the first dim. */
static cr_status lists_make(resample_lists *l, resample_call *c, const cr_upsample *u,
                            cr_dtype tap, bool back)
{
    cr_status st = CR_OK;

    for (int k = 0; k < RESAMPLE_AXES && !st; k++) {
        int d = back ? RESAMPLE_AXES - 1 - k : k;
        cr_upsample_axis a = {.index = NULL, .weight = NULL};
        st = cr_upsample_axis_make(&a, u, d, tap);
        if (!st)
            st = back ? lists_add_turned(l, k, &a, tap) : lists_add(l, k, &a, tap);
        c->axis[k].dim = d;
        c->axis[k].fraction = a.fraction;
        c->axis[k].one = !st && axis_is_one(&a, tap);
        cr_upsample_axis_drop(&a);
    }
    return st;
}

/* --- the call --- */

/* Places of N, C and the three axes among the dims of a call, the slowest first. */
static const int rows_order[RESAMPLE_DIMS] = {0, 1, 2, 3, 4},
                 last_order[RESAMPLE_DIMS] = {0, 4, 1, 2, 3};

/* The size, or the stride in bytes, of dim d of five. */
static int64_t array_number(const cr_array *a, int d, bool stride)
{
    int lead = RESAMPLE_DIMS - a->ndim, at = d < 2 ? d : d - lead;

    if (d >= 2 && at < 2)
        return !stride;
    return stride ? a->stride[at] * (int64_t)cr_dtype_size((cr_dtype)a->dtype) : a->size[at];
}

static void call_set_dims(resample_call *c, const cr_array *to, const cr_array *from)
{
    const int *order = to->size[1] > 1 && to->stride[1] == 1 ? last_order : rows_order;

    c->n = 1;
    for (int d = 0; d < RESAMPLE_DIMS; d++) {
        c->size[order[d]] = array_number(to, d, false);
        c->to_step[order[d]] = array_number(to, d, true);
        c->from_step[order[d]] = d < 2 ? array_number(from, d, true) : 0;
        c->n *= array_number(to, d, false);
    }
    for (int k = 0; k < RESAMPLE_AXES; k++) {
        int d = c->axis[k].dim + 2;
        c->axis[k].step = array_number(from, d, true);
        c->axis[k].dim = order[d];
    }
}

/* True if the groups of channels of an array are adjacent elements that one access reads. */
static bool array_has_groups(const cr_array *a)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)a->dtype), bytes = RESAMPLE_LANES * item;
    bool one = array_number(a, 1, true) == item && !((uintptr_t)a->data % (uintptr_t)bytes);

    for (int d = 0; one && d < RESAMPLE_DIMS; d++)
        one = d == 1 || array_number(a, d, false) == 1 || !(array_number(a, d, true) % bytes);
    return one;
}

/* A thread has RESAMPLE_LANES channels, if they are groups of as many; returns how many. */
static int call_join_channels(resample_call *c, const cr_array *to, const cr_array *from)
{
    int at = to->size[1] > 1 && to->stride[1] == 1 ? last_order[1] : rows_order[1];

    if (to->size[1] % RESAMPLE_LANES)
        return 1;
    c->to_lane = c->to_step[at];
    c->from_lane = c->from_step[at];
    c->size[at] /= RESAMPLE_LANES;
    c->to_step[at] *= RESAMPLE_LANES;
    c->from_step[at] *= RESAMPLE_LANES;
    c->n /= RESAMPLE_LANES;
    c->adjacent = array_has_groups(to) && array_has_groups(from);
    return RESAMPLE_LANES;
}

static cr_upsample resample_describe(const cr_array *in, const cr_array *out,
                                     const cr_given *arg)
{
    cr_upsample u = {.mode = (cr_upsample_mode)arg[0].i, .align_corners = arg[1].i};

    for (int d = 0; d < RESAMPLE_AXES; d++) {
        int given = d - (RESAMPLE_DIMS - in->ndim);
        u.in[d] = array_number(in, d + 2, false);
        u.out[d] = array_number(out, d + 2, false);
        if (arg[2].kind == CR_GIVEN_FLOATS && given >= 0)
            u.scale[d] = arg[2].floats[given];
    }
    return u;
}

/* `arg` has the mode, align_corners and the scales. */
static const char *resample(int device, const cr_given *arg, const cr_array *from,
                            const cr_array *to, bool back)
{
    cr_upsample u = resample_describe(back ? to : from, back ? from : to, arg);
    cr_cuda_text text = {.print = resample_print,
                         .device = device,
                         .part = CR_VEC_CUDA_RESAMPLE,
                         .a = to->dtype};
    resample_call c = {.to = to->data, .from = from->data, .none = back ? 0.0 : -0.0};
    resample_lists lists = {.there = NULL};
    const char *wide, *weight, *error;
    void *function;
    cr_dtype tap;

    if (!resample_types(to->dtype, &tap, &wide, &weight) || from->dtype != to->dtype ||
        (back && tap == CR_U8))
        return cr_command_declines;
    error = lists_make(&lists, &c, &u, tap, back) ? cr_error_message() : NULL;
    call_set_dims(&c, to, from);
    text.b = call_join_channels(&c, to, from);
    if (!error && c.n) {
        error = cr_cuda_find(&function, &text);
        if (!error)
            error = lists_copy(&lists, device, &c);
        if (!error)
            error = cr_cuda_launch_each(device, function, c.n, &c);
    }
    if (lists.there)
        cr_cuda_memory_release(device, lists.there, lists.block);
    cr_vec_drop(&lists.word);
    return error;
}

/* (self, output_size, mode, align_corners, scales) */
const char *cr_cuda_upsample(int device, const cr_given *arg, const cr_array *result)
{
    return resample(device, arg + 2, &arg[0].array, result, false);
}

/* (grad_output, input_size, mode, align_corners, scales) */
const char *cr_cuda_upsample_backward(int device, const cr_given *arg, const cr_array *result)
{
    return resample(device, arg + 2, &arg[0].array, result, true);
}
