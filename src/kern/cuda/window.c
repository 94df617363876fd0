/* Folds of windows on NVIDIA devices; the kernels are in emit/window.cuh.
 *
 * The lists of the dims are copied to the device for each call. */
#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/commands.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include <stdio.h>
#include <string.h>

enum { WINDOW_DIMS = 3, WINDOW_MOST_DIMS = 64, WINDOW_ARRAYS = 3 };

/* cw_axis and cw_call of emit/window.cuh */
typedef struct {
    int64_t size, in;
    const int64_t *start, *range;
    const double *count, *share;
} window_axis;
typedef struct {
    void *result, *which;
    const void *from;
    int64_t n, in, out, divisor;
    int divides, shares;
    window_axis dim[WINDOW_DIMS];
} window_call;

static void window_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    cr_text_printf(out, "#define CW_ITEM cm_%s\n", cr_dtype_infos[k->a].suffix);
    snprintf(symbol, 32, k->b == 2 ? "cw_spread" : k->b ? "cw_most" : "cw_sum");
}

/* --- lists --- */

/* Words of 8 bytes that are copied to the device, where the block begins at `there`. */
typedef struct {
    CR_VEC(int64_t) word;
    char *there;
    uint32_t block;
} window_words;

static int64_t axis_words(const cr_window_axis *a)
{
    return a->size + 1 + 3 * a->start[a->size] + (a->count ? a->size : 0) +
           (a->share ? a->in : 0);
}

/* Appends n words; returns their place on the device. */
static void *words_put(window_words *w, const void *from, int64_t n)
{
    char *there = w->there + w->word.len * sizeof *w->word.at;

    if (!from)
        return NULL;
    memcpy(w->word.at + w->word.len, from, (size_t)n * sizeof *w->word.at);
    w->word.len += (size_t)n;
    return there;
}

static const char *words_copy(window_words *w, int device, window_call *c, const cr_windows *x)
{
    int64_t n = 0;

    for (int k = 0; k < WINDOW_DIMS; k++)
        n += axis_words(&x->dim[k]);
    if (cr_vec_reserve(&w->word, (size_t)n))
        return cr_error_message();
    w->there = cr_cuda_memory_get(device, (size_t)n * sizeof *w->word.at, &w->block);
    if (!w->there)
        return cr_cuda_no_memory(device, (size_t)n * sizeof *w->word.at);
    for (int k = 0; k < WINDOW_DIMS; k++) {
        const cr_window_axis *a = &x->dim[k];
        c->dim[k] = (window_axis){.size = a->size, .in = a->in};
        c->dim[k].start = words_put(w, a->start, a->size + 1);
        c->dim[k].range = words_put(w, a->range, 3 * a->start[a->size]);
        c->dim[k].count = words_put(w, a->count, a->size);
        c->dim[k].share = words_put(w, a->share, a->in);
    }
    return cr_cuda_ops.copy_in(device, w->there, w->word.at, (size_t)n * sizeof *w->word.at);
}

static void words_drop(window_words *w, int device)
{
    if (w->there)
        cr_cuda_memory_release(device, w->there, w->block);
    cr_vec_drop(&w->word);
}

/* --- arrays --- */

/* A row-major array in place of a given one. */
typedef struct {
    cr_array given, dense;
    int64_t stride[WINDOW_MOST_DIMS];
    bool own;
    uint32_t block;
} window_array;

static int64_t array_count(const cr_array *a)
{
    int64_t n = 1;

    for (int d = 0; d < a->ndim; d++)
        n *= a->size[d];
    return n;
}

static const char *array_begin(window_array *w, int device, const cr_array *given, bool filled)
{
    int64_t next = 1;

    w->given = w->dense = *given;
    w->own = false;
    for (int d = given->ndim - 1; d >= 0; next *= given->size[d--]) {
        w->own = w->own || (given->size[d] > 1 && given->stride[d] != next);
        w->stride[d] = next;
    }
    if (!w->own)
        return NULL;
    w->dense.stride = w->stride;
    size_t bytes = (size_t)next * cr_dtype_size((cr_dtype)given->dtype);
    w->dense.data = cr_cuda_memory_get(device, bytes, &w->block);
    w->own = w->dense.data != NULL;
    if (!w->own)
        return cr_cuda_no_memory(device, bytes);
    return filled ? cr_cuda_ops.move(device, &w->dense, given) : NULL;
}

static const char *array_end(window_array *w, int device, bool filled)
{
    const char *error = NULL;

    if (!w->own)
        return NULL;
    if (filled)
        error = cr_cuda_ops.move(device, &w->given, &w->dense);
    cr_cuda_memory_release(device, w->dense.data, w->block);
    return error;
}

/* --- the command --- */

static const char *windows_launch(int device, const cr_windows *x, window_call *c)
{
    window_words words = {.there = NULL};
    cr_cuda_text k = {.print = window_print,
                      .device = device,
                      .part = CR_VEC_CUDA_WINDOW,
                      .a = x->from.dtype,
                      .b = x->extreme};
    void *function;
    const char *error = cr_cuda_find(&function, &k);

    c->n = x->planes * x->out;
    c->in = x->in;
    c->out = x->out;
    c->divisor = x->divisor;
    c->divides = x->divides;
    c->shares = x->shares;
    if (!error)
        error = words_copy(&words, device, c, x);
    if (!error)
        error = cr_cuda_launch_each(device, function, c->n, c);
    words_drop(&words, device);
    return error;
}

static const char *windows_fill_zero(int device, const cr_windows *x)
{
    static const char zero[16];
    const char *error = cr_cuda_ops.fill(device, &x->result, zero);

    return error || !x->extreme ? error : cr_cuda_ops.fill(device, &x->which, zero);
}

const char *cr_cuda_windows(int device, const cr_windows *x)
{
    window_array a[WINDOW_ARRAYS];
    window_call c;
    const char *error, *last;

    if (x->from.dtype >= CR_DTYPE_KERNELS || cr_dtype_is_complex((cr_dtype)x->from.dtype))
        return cr_command_declines;
    if (!array_count(&x->from) || !array_count(&x->result))
        return windows_fill_zero(device, x);
    error = array_begin(&a[0], device, &x->from, true);
    last = array_begin(&a[1], device, &x->result, false);
    error = error ? error : last;
    last = array_begin(&a[2], device, &x->which, false);
    error = error ? error : last;
    c.from = a[0].dense.data;
    c.result = a[1].dense.data;
    c.which = a[2].dense.data;
    if (!error)
        error = windows_launch(device, x, &c);
    for (int i = 0; i < WINDOW_ARRAYS; i++) {
        last = array_end(&a[i], device, !error && (i == 1 || (i == 2 && x->extreme)));
        error = error ? error : last;
    }
    return error;
}

/* --- the transpose of a fold to the greatest element --- */

/* cw_spread_axis and cw_spread_call of emit/window.cuh */
typedef struct {
    int64_t in, out, kernel, stride, pad, dilation;
} spread_axis;
typedef struct {
    void *to;
    const void *from;
    const int64_t *which;
    int64_t n, channels;
    spread_axis dim[WINDOW_DIMS];
} spread_call;

enum { SPREAD_LISTS = 4, SPREAD_FIRST = 4 };

/* Sets the windows of the last dims; false if they are not known. */
static bool spread_windows(spread_call *c, const cr_given *arg, const cr_array *to)
{
    const cr_array *from = &arg[0].array;
    const cr_given *list = &arg[SPREAD_FIRST];
    int64_t dims = arg[3].i;

    for (int k = 0; k < WINDOW_DIMS; k++)
        c->dim[k] = (spread_axis){1, 1, 1, 1, 0, 1};
    for (int k = 0; k < SPREAD_LISTS; k++)
        if (list[k].kind != CR_GIVEN_INTS || list[k].count != (size_t)dims)
            return false;
    for (int64_t k = 0; k < dims; k++) {
        spread_axis *a = &c->dim[WINDOW_DIMS - dims + k];
        int64_t d = to->ndim - dims + k;
        *a = (spread_axis){to->size[d],     from->size[d],   list[0].ints[k],
                           list[1].ints[k], list[2].ints[k], list[3].ints[k]};
        if (a->stride < 1 || a->dilation < 1 || a->kernel < 1 || a->pad < 0)
            return false;
    }
    return true;
}

/* An array whose channels are its last dim. */
typedef struct {
    cr_array array;
    int64_t size[WINDOW_MOST_DIMS], stride[WINDOW_MOST_DIMS];
} spread_turned;

static const cr_array *spread_turn(spread_turned *out, const cr_array *a, bool last)
{
    if (!last)
        return a;
    for (int d = 0; d < a->ndim; d++) {
        int from = d == 0 ? 0 : d + 1 < a->ndim ? d + 1 : 1;
        out->size[d] = a->size[from];
        out->stride[d] = a->stride[from];
    }
    out->array = *a;
    out->array.size = out->size;
    out->array.stride = out->stride;
    return &out->array;
}

/* (self, indices, size, dims, kernel, stride, padding, dilation), where the windows are known
 */
const char *cr_cuda_pool_scatter(int device, const cr_given *arg, const cr_array *result)
{
    const cr_array *from = &arg[0].array, *which = &arg[1].array;
    cr_cuda_text k = {.print = window_print,
                      .device = device,
                      .part = CR_VEC_CUDA_WINDOW,
                      .a = from->dtype,
                      .b = 2};
    bool last = arg[3].i == result->ndim - 2 && result->size[1] > 1 && result->stride[1] == 1;
    spread_call c = {.channels = last ? result->size[1] : 1};
    spread_turned turned[WINDOW_ARRAYS];
    window_array a[WINDOW_ARRAYS];
    void *function;
    const char *error, *ended;

    if (!spread_windows(&c, arg, result) || from->dtype >= CR_DTYPE_KERNELS ||
        cr_dtype_is_complex((cr_dtype)from->dtype) || !array_count(from) ||
        !array_count(result))
        return cr_command_declines;
    error = cr_cuda_find(&function, &k);
    ended = array_begin(&a[0], device, spread_turn(&turned[0], from, last), true);
    error = error ? error : ended;
    ended = array_begin(&a[1], device, spread_turn(&turned[1], result, last), false);
    error = error ? error : ended;
    ended = array_begin(&a[2], device, spread_turn(&turned[2], which, last), true);
    error = error ? error : ended;
    c.n = array_count(result);
    c.from = a[0].dense.data;
    c.to = a[1].dense.data;
    c.which = (const int64_t *)a[2].dense.data;
    if (!error)
        error = cr_cuda_launch_each(device, function, c.n, &c);
    for (int i = 0; i < WINDOW_ARRAYS; i++) {
        ended = array_end(&a[i], device, !error && i == 1);
        error = error ? error : ended;
    }
    return error;
}
