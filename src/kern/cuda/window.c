/* Folds of windows on NVIDIA devices; the kernels are in emit/window.cuh.
 *
 * Windows of one form, as those of max pooling, are computed from their numbers, and channels
 * that come last stay there.  Of other windows, and of divisors that depend on places, the
 * lists are copied to the device for each call. */
#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/commands.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WINDOW_DIMS = 3,
    WINDOW_MOST_DIMS = 64,
    WINDOW_ARRAYS = 3,
    WINDOW_ALIGNED = 16,
    WINDOW_MOST_STEPS = 1 << 16 /* of the host, to find a form */
};

/* cw_axis and cw_call of emit/window.cuh */
typedef struct {
    int64_t size, in;
    const int64_t *start, *range;
    const double *count, *share;
    int kernel, stride, pad, dilation;
} window_axis;
typedef struct {
    void *result, *which;
    const void *from;
    int64_t n, in, out, channels, divisor;
    int divides, shares;
    window_axis dim[WINDOW_DIMS];
} window_call;

enum {
    WINDOW_SUM,
    WINDOW_MOST,
    WINDOW_EVEN_SUM,
    WINDOW_EVEN_MOST,
    WINDOW_SPREAD,
    WINDOW_SHARED,
    WINDOW_LINE_SUM,
    WINDOW_LINE_MOST
};

static void window_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"sum",    "most",   "even_sum", "even_most",
                                       "spread", "shared", "line_sum", "line_most"};

    cr_text_printf(out, "#define CW_ITEM cm_%s\n#define CW_LANES %d\n",
                   cr_dtype_infos[k->a].suffix, k->c);
    snprintf(symbol, 32, "cw_%s", name[k->b]);
}

static const char *window_find(void **function, int device, int dtype, int kernel, int lanes)
{
    cr_cuda_text k = {.print = window_print,
                      .device = device,
                      .part = CR_VEC_CUDA_WINDOW,
                      .a = dtype,
                      .b = kernel,
                      .c = lanes};

    return cr_cuda_find(function, &k);
}

/* The elements of a thread: as many of the channels as are accessed at once, if all arrays are
 * aligned. */
static int window_lanes(int dtype, int64_t channels, const void *const data[WINDOW_ARRAYS])
{
    int lanes = cr_dtype_size((cr_dtype)dtype) > 4 ? 2 : 4;
    uintptr_t bits = 0;

    for (int i = 0; i < WINDOW_ARRAYS; i++)
        bits |= (uintptr_t)data[i];
    return channels % lanes || bits % WINDOW_ALIGNED ? 1 : lanes;
}

/* --- lists --- */

/* Words of 8 bytes that are copied to the device, where the block begins at `there`. */
typedef struct {
    CR_VEC(int64_t) word;
    char *there;
    uint32_t block;
} window_words;

static int64_t axis_words(const cr_window_axis *a, bool even)
{
    return (even ? 0 : a->size + 1 + 3 * a->start[a->size]) + (a->count ? a->size : 0) +
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

static const char *words_copy(window_words *w, int device, window_call *c, const cr_windows *x,
                              bool even)
{
    int64_t n = 0;

    for (int k = 0; k < WINDOW_DIMS; k++)
        n += axis_words(&x->dim[k], even);
    if (!n)
        return NULL;
    if (cr_vec_reserve(&w->word, (size_t)n))
        return cr_error_message();
    w->there = cr_cuda_memory_get(device, (size_t)n * sizeof *w->word.at, &w->block);
    if (!w->there)
        return cr_cuda_no_memory(device, (size_t)n * sizeof *w->word.at);
    for (int k = 0; k < WINDOW_DIMS; k++) {
        const cr_window_axis *a = &x->dim[k];
        c->dim[k].start = words_put(w, even ? NULL : a->start, a->size + 1);
        c->dim[k].range = words_put(w, even ? NULL : a->range, 3 * a->start[a->size]);
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

/* An array whose channels are its last dim. */
typedef struct {
    cr_array array;
    int64_t size[WINDOW_MOST_DIMS], stride[WINDOW_MOST_DIMS];
} window_turned;

static const cr_array *window_turn(window_turned *out, const cr_array *a, bool last)
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

/* --- windows of one form --- */

/* What the kernel computes for a place: the first position and how many there are. */
static int64_t even_positions(const window_axis *d, int64_t p, int64_t *n)
{
    int64_t at = p * d->stride - d->pad, low = 0;
    int64_t high = at >= d->in ? 0 : (d->in - 1 - at) / d->dilation + 1;

    if (at < 0)
        low = (d->dilation - 1 - at) / d->dilation;
    high = high < d->kernel ? high : d->kernel;
    *n = high - low;
    return at + low * d->dilation;
}

/* Finds the numbers of a dim's windows: from the last two places the stride, which windows that
 * begin before the first element have not.  `unit` is the distance of two positions.  False if
 * a place has other positions. */
static bool even_axis(window_axis *d, const cr_window_axis *a, int64_t unit)
{
    const int64_t *last = a->range + 3 * (a->size - 1);
    int64_t n;

    if (a->size < 1 || a->in < 1 || a->start[a->size] != a->size || a->size > INT32_MAX / 4 ||
        a->in > INT32_MAX / 4)
        return false;
    d->dilation = 1;
    d->kernel = 0;
    d->stride = a->size > 1 ? (int)((last[0] - last[-3]) / unit) : 1;
    d->pad = (int)((a->size - 1) * d->stride - last[0] / unit);
    for (int64_t p = 0; p < a->size; p++)
        if (a->start[p + 1] - a->start[p] != 1)
            return false;
        else if (a->range[3 * p + 2] > 1)
            d->dilation = (int)(a->range[3 * p + 1] / unit);
    if (d->stride < 0 || d->dilation < 1)
        return false;
    for (int64_t p = 0; p < a->size; p++) {
        int64_t before = a->range[3 * p] / unit - (p * d->stride - d->pad);
        int64_t kernel = before / d->dilation + a->range[3 * p + 2];
        d->kernel = kernel > d->kernel ? (int)kernel : d->kernel;
    }
    for (int64_t p = 0; p < a->size; p++) {
        const int64_t *r = a->range + 3 * p;
        if (even_positions(d, p, &n) * unit != r[0] || n != r[2] ||
            (n > 1 && r[1] != d->dilation * unit))
            return false;
    }
    return true;
}

/* Finds the numbers of the windows of which the dim has the transpose: an element of the source
 * is a window, and its positions are the places that have this element.  False if they are not
 * adjacent places, or no windows of one form. */
static bool shared_axis(window_axis *d, const cr_window_axis *a, int64_t unit)
{
    cr_window_axis turned = {.size = a->in, .in = a->size};
    window_axis found = {.size = a->in, .in = a->size};
    CR_VEC(int64_t) list = {0};
    bool one = !cr_vec_reserve(&list, (size_t)(4 * a->in + 1));
    int64_t *start = list.at, *range = one ? start + a->in + 1 : NULL;

    for (int64_t q = 0; one && q < a->in; q++) {
        start[q] = q;
        memcpy(range + 3 * q, (int64_t[]){0, 1, 0}, 3 * sizeof *range);
    }
    for (int64_t p = 0, steps = 0; one && p < a->size; p++) {
        const int64_t *r = a->range + 3 * a->start[p];
        int64_t n = a->start[p + 1] > a->start[p] ? r[2] : 0;
        one = a->start[p + 1] - a->start[p] < 2 && (n < 2 || r[1] == unit) &&
              (n < 1 || (r[0] >= 0 && r[0] % unit == 0 && r[0] / unit + n <= a->in));
        one = one && (steps += n) <= WINDOW_MOST_STEPS;
        for (int64_t q = n ? r[0] / unit : 0; one && n > 0; q++, n--) {
            int64_t *window = range + 3 * q;
            window[0] = window[2] ? window[0] : p;
            one = window[0] + window[2]++ == p;
        }
    }
    for (int64_t q = 0; one && q < a->in; q++)
        one = range[3 * q + 2] > 0;
    if (one) {
        start[a->in] = a->in;
        turned.start = start, turned.range = range;
        one = even_axis(&found, &turned, 1) && found.dilation == 1 && found.stride > 0;
    }
    cr_vec_drop(&list);
    d->kernel = found.kernel, d->stride = found.stride, d->pad = found.pad, d->dilation = 1;
    return one;
}

/* True if all dims have windows of one form, or transposes of these. */
static bool windows_have_a_form(window_call *c, const cr_windows *x,
                                bool axis(window_axis *, const cr_window_axis *, int64_t))
{
    int64_t unit = 1;

    if (x->in >= INT32_MAX || x->planes >= INT32_MAX / x->out)
        return false;
    for (int k = WINDOW_DIMS - 1; k >= 0; unit *= x->dim[k--].in)
        if (!axis(&c->dim[k], &x->dim[k], unit))
            return false;
    return true;
}

static int windows_kernel(window_call *c, const cr_windows *x)
{
    if (!x->shares && windows_have_a_form(c, x, even_axis))
        return x->extreme ? WINDOW_EVEN_MOST : WINDOW_EVEN_SUM;
    if (x->extreme)
        return WINDOW_MOST;
    return !x->divides && windows_have_a_form(c, x, shared_axis) ? WINDOW_SHARED : WINDOW_SUM;
}

/* Factors that are the same number become a part of the divisor, where the products of double
 * are exact. */
static void windows_join_factors(const double **list, int64_t n, int64_t *divisor)
{
    double product = *list && n ? (*list)[0] * (double)*divisor : 0;

    for (int64_t i = 1; *list && i < n; i++)
        if ((*list)[i] != (*list)[0])
            return;
    if (!*list || !n || !(fabs((*list)[0]) < 0x1p53) || !(fabs(product) < 0x1p53))
        return;
    *divisor = (int64_t)product;
    *list = NULL;
}

/* True if the channels of the arrays come last. */
static bool even_last(const cr_windows *x)
{
    const cr_array *a = &x->from, *b = &x->result, *c = x->extreme ? &x->which : b;

    return a->ndim > 2 && a->size[1] > 1 && x->planes == a->size[0] * a->size[1] &&
           a->stride[1] == 1 && b->stride[1] == 1 && c->stride[1] == 1;
}

/* --- the command --- */

static const char *windows_launch(int device, const cr_windows *x, window_call *c, int kernel)
{
    window_words words = {.there = NULL};
    const void *aligned[] = {c->from, c->result, c->which};
    bool ranges = kernel == WINDOW_SUM || kernel == WINDOW_MOST;
    bool lines = !ranges && c->channels == 1;
    int64_t line = c->dim[WINDOW_DIMS - 1].size;
    int lanes = ranges ? 1 : window_lanes(x->from.dtype, lines ? 0 : c->channels, aligned);
    void *function;

    if (lines && kernel != WINDOW_SHARED)
        kernel = x->extreme ? WINDOW_LINE_MOST : WINDOW_LINE_SUM;
    const char *error = window_find(&function, device, x->from.dtype, kernel, lanes);
    c->n = x->planes * x->out;
    c->n = lines ? c->n / line * ((line + lanes - 1) / lanes) : c->n / lanes;
    c->in = x->in;
    c->out = x->out;
    c->divisor = x->divisor;
    c->divides = x->divides;
    c->shares = x->shares;
    if (!error)
        error = words_copy(&words, device, c, x, !ranges);
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

const char *cr_cuda_windows(int device, const cr_windows *given)
{
    cr_windows own = *given, *x = &own;
    window_array a[WINDOW_ARRAYS];
    window_turned turned[WINDOW_ARRAYS];
    window_call c;
    const char *error, *last;

    if (x->from.dtype >= CR_DTYPE_KERNELS || cr_dtype_is_complex((cr_dtype)x->from.dtype))
        return cr_command_declines;
    if (!cr_numel(x->from.ndim, x->from.size) || !cr_numel(x->result.ndim, x->result.size))
        return windows_fill_zero(device, x);
    for (int k = 0; k < WINDOW_DIMS; k++)
        c.dim[k] = (window_axis){.size = x->dim[k].size, .in = x->dim[k].in};
    for (int k = 0; k < WINDOW_DIMS; k++) {
        windows_join_factors(&x->dim[k].count, x->dim[k].size, &x->divisor);
        windows_join_factors(&x->dim[k].share, x->dim[k].in, &x->divisor);
    }
    int kernel = windows_kernel(&c, x);
    bool turn = kernel != WINDOW_SUM && kernel != WINDOW_MOST && even_last(x);
    c.channels = turn ? x->from.size[1] : 1;
    error = array_begin(&a[0], device, window_turn(&turned[0], &x->from, turn), true);
    last = array_begin(&a[1], device, window_turn(&turned[1], &x->result, turn), false);
    error = error ? error : last;
    last = array_begin(&a[2], device, window_turn(&turned[2], &x->which, turn), false);
    error = error ? error : last;
    c.from = a[0].dense.data;
    c.result = a[1].dense.data;
    c.which = a[2].dense.data;
    if (!error)
        error = windows_launch(device, x, &c, kernel);
    for (int i = 0; i < WINDOW_ARRAYS; i++) {
        last = array_end(&a[i], device, !error && (i == 1 || (i == 2 && x->extreme)));
        error = error ? error : last;
    }
    return error;
}

/* --- the transpose of a fold to the greatest element --- */

/* cw_spread_axis and cw_spread_call of emit/window.cuh */
typedef struct {
    int in, out, kernel, stride, pad, dilation;
} spread_axis;
typedef struct {
    void *to;
    const void *from;
    const int64_t *which;
    int64_t n, channels;
    spread_axis dim[WINDOW_DIMS];
} spread_call;

enum { SPREAD_LISTS = 4, SPREAD_FIRST = 4, SPREAD_MOST = 1 << 28 };

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
        int64_t n[] = {to->size[d],     from->size[d],   list[0].ints[k],
                       list[1].ints[k], list[2].ints[k], list[3].ints[k]};
        for (size_t i = 0; i < CR_LEN(n); i++)
            if (n[i] < 0 || n[i] > SPREAD_MOST)
                return false;
        *a = (spread_axis){(int)n[0], (int)n[1], (int)n[2], (int)n[3], (int)n[4], (int)n[5]};
        if (a->stride < 1 || a->dilation < 1 || a->kernel < 1 ||
            (int64_t)a->kernel * a->dilation > SPREAD_MOST)
            return false;
    }
    return true;
}

/* The elements of a thread are channels, or those of a line. */
static const char *spread_launch(int device, spread_call *c, int dtype, int64_t n)
{
    const void *aligned[] = {c->from, c->to, c->which};
    int64_t line = c->dim[WINDOW_DIMS - 1].in;
    int lanes = window_lanes(dtype, c->channels > 1 ? c->channels : 0, aligned);
    void *function;
    const char *error = window_find(&function, device, dtype, WINDOW_SPREAD, lanes);

    c->n = c->channels > 1 ? n / lanes : n / line * ((line + lanes - 1) / lanes);
    return error ? error : cr_cuda_launch_each(device, function, c->n, c);
}

/* (self, indices, size, dims, kernel, stride, padding, dilation), where the windows are
 * known */
const char *cr_cuda_pool_scatter(int device, const cr_given *arg, const cr_array *result)
{
    const cr_array *from = &arg[0].array, *which = &arg[1].array;
    bool last = arg[3].i == result->ndim - 2 && result->size[1] > 1 && result->stride[1] == 1;
    spread_call c = {.channels = last ? result->size[1] : 1};
    window_turned turned[WINDOW_ARRAYS];
    window_array a[WINDOW_ARRAYS];
    const char *error, *ended;

    if (!spread_windows(&c, arg, result) || from->dtype >= CR_DTYPE_KERNELS ||
        cr_dtype_is_complex((cr_dtype)from->dtype) || !cr_numel(from->ndim, from->size) ||
        !cr_numel(result->ndim, result->size) ||
        cr_numel(result->ndim, result->size) > UINT32_MAX / 2)
        return cr_command_declines;
    error = array_begin(&a[0], device, window_turn(&turned[0], from, last), true);
    ended = array_begin(&a[1], device, window_turn(&turned[1], result, last), false);
    error = error ? error : ended;
    ended = array_begin(&a[2], device, window_turn(&turned[2], which, last), true);
    error = error ? error : ended;
    c.from = a[0].dense.data;
    c.to = a[1].dense.data;
    c.which = (const int64_t *)a[2].dense.data;
    if (!error)
        error = spread_launch(device, &c, from->dtype, cr_numel(result->ndim, result->size));
    for (int i = 0; i < WINDOW_ARRAYS; i++) {
        ended = array_end(&a[i], device, !error && i == 1);
        error = error ? error : ended;
    }
    return error;
}
