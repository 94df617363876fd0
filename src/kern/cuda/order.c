/* Elements of lines in order on NVIDIA devices: sorts, ranks, searches; the kernels are in
 * emit/order.cuh.
 *
 * Equal elements keep their order, as in torch's kernels for CUDA; the host's unstable sorts
 * follow torch's for the CPU. */
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/lines.h"
#include "kern/cuda/product.h"
#include "kern/cuda/sort.h"
#include "num/dtype.h"
#include <stdio.h>
#include <string.h>

/* As in emit/order.cuh. */
enum { ORDER_FEW = 64, ORDER_DIGITS = 256, ORDER_BLOCKS = 1 << 30 };
/* A line in shared memory: the most elements, and those of a thread. */
enum { ORDER_THREADS = 256, ORDER_ROUNDS = 16, ORDER_SHORT = 2048, ORDER_MOST = 8192 };
/* So many lines are work for most blocks that a device runs at once. */
enum { ORDER_MANY = 32 };
typedef enum { KTH, MEDIAN, NAN_MEDIAN, MODE } order_pick;
enum { ORDER_CHOOSERS = 1024, ORDER_CHOSEN = 1024 };
typedef enum { FEW, PICK, KEYS, UPPER, WRITE, LINES, SEARCH, CHOOSE } order_kernel;

/* co_call of emit/order.cuh.
 * Invariant: the members are those of the kernels' struct, in the same order. the first
 * `count` of the n elements of each line are written; count <= n and k < n. */
typedef struct {
    char *to, *index;
    const char *from;
    uint64_t *keys;
    const uint64_t *lower;
    const int64_t *sorted;
    int64_t lines, n, count, to_step, index_step, from_step, k;
    int place_bits, descending, how, unused;
    cr_cuda_dims dims;
} order_call;

typedef struct {
    order_call call;
    int device, dtype;
} order_job;

static void order_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"few",   "pick",  "keys",   "upper",
                                       "write", "lines", "search", "choose"};
    int form = k->a < (int)LINES ? 0 : k->a - (int)LINES + 1;

    cr_text_printf(out,
                   "#define CS_NO_KERNELS\n#define CO_FORM %d\n#define CO_ROUNDS %d\n"
                   "#define CO_THREADS %d\n#define CO_ITEM cm_%s\n",
                   form, k->c, k->d, cr_dtype_infos[k->b].suffix);
    snprintf(symbol, 32, "co_%s", name[k->a]);
}

/* `rounds` elements of each of so many threads: of a line in shared memory. */
static const char *order_find(void **function, int device, order_kernel kernel, int dtype,
                              int rounds, int threads)
{
    cr_cuda_text k = {.print = order_print,
                      .device = device,
                      .part = CR_VEC_CUDA_ORDER,
                      .a = (int)kernel,
                      .b = dtype,
                      .c = rounds,
                      .d = threads};

    return cr_cuda_find(function, &k);
}

static const char *order_each(order_job *j, order_kernel kernel, int64_t n)
{
    void *function;
    const char *error = order_find(&function, j->device, kernel, j->dtype, 0, 0);

    return error ? error : cr_cuda_launch_each(j->device, function, n, &j->call);
}

/* --- orders --- */

/* The threads of a block that sorts a line, and the elements of each. */
static unsigned order_shape(const order_job *j, int *rounds)
{
    int threads = j->call.n <= ORDER_THREADS * ORDER_ROUNDS ? ORDER_THREADS : 2 * ORDER_THREADS;

    *rounds = 1;
    while (threads * *rounds < j->call.n)
        *rounds *= 2;
    return (unsigned)threads;
}

/* The bytes of a block that sorts a line: keys, places of 16 bits, and numbers of digits. */
static unsigned order_shared(const order_job *j)
{
    int rounds, threads = (int)order_shape(j, &rounds);
    int key = cr_dtype_size((cr_dtype)j->dtype) > 4 ? 8 : 4;

    return (unsigned)(threads * rounds * (key + 2) + threads / 32 * ORDER_DIGITS * 4);
}

/* Whether a block has room for a line. */
static bool order_has_room(const order_job *j)
{
    if (j->call.n <= ORDER_SHORT)
        return true;
    return j->call.n <= ORDER_MOST &&
           (int)order_shared(j) + ORDER_DIGITS * 4 < cr_cuda_shared_most(j->device);
}

static const char *order_lines(order_job *j)
{
    int rounds;
    cr_cuda_grid g = {.block = {order_shape(j, &rounds), 1}, .shared = order_shared(j)};

    g.grid[0] = (unsigned)(j->call.lines < ORDER_BLOCKS ? j->call.lines : ORDER_BLOCKS);
    g.grid[1] = 1;
    const char *error =
        order_find(&g.function, j->device, LINES, j->dtype, rounds, (int)g.block[0]);
    return error ? error : cr_cuda_launch(j->device, &g, &j->call);
}

/* The first elements of long lines. */
static const char *order_choose(order_job *j)
{
    cr_cuda_grid g = {.block = {ORDER_CHOOSERS, 1}};
    const char *error = order_find(&g.function, j->device, CHOOSE, j->dtype, 0, 0);

    g.grid[0] = (unsigned)(j->call.lines < ORDER_BLOCKS ? j->call.lines : ORDER_BLOCKS);
    g.grid[1] = 1;
    return error ? error : cr_cuda_launch(j->device, &g, &j->call);
}

static int order_bits(int64_t n)
{
    int bits = 0;

    while (n > (int64_t)1 << bits)
        bits++;
    return bits;
}

/* Sorts keys that `make` makes, in two lists at `room`; *sorted is the one with the result. */
static const char *order_sort(order_job *j, order_kernel make, uint64_t *room, int bits,
                              uint64_t **sorted)
{
    int64_t n = j->call.lines * j->call.n;
    uint64_t *spare = room + n;
    const char *error;

    j->call.keys = room;
    error = order_each(j, make, n);
    *sorted = room;
    if (!error)
        error = cr_cuda_sort(j->device, sorted, &spare, n, j->call.place_bits, bits);
    j->call.keys = *sorted;
    return error;
}

static const char *order_halves(order_job *j, uint64_t *room, int bits, bool two)
{
    int64_t n = j->call.lines * j->call.n;
    uint64_t *sorted;
    const char *error = order_sort(j, KEYS, room, bits, &sorted);

    if (error || !two)
        return error;
    j->call.lower = sorted;
    return order_sort(j, UPPER, room + 2 * n, bits, &sorted);
}

static const char *order_long(order_job *j)
{
    order_call *c = &j->call;
    int item = (int)cr_dtype_size((cr_dtype)j->dtype);
    int bits = (item < 4 ? 8 * item : 32) + order_bits(c->lines);
    int64_t n = c->lines * c->n;
    size_t bytes = 16 * (size_t)n * (item > 4 ? 2 : 1);
    uint32_t block;

    c->place_bits = order_bits(c->n);
    if (bits + c->place_bits > 64 || n > CR_CUDA_SORT_MOST)
        return cr_command_declines;
    uint64_t *room = cr_cuda_memory_get(j->device, bytes, &block);
    if (!room)
        return cr_cuda_no_memory(j->device, bytes);
    const char *error = order_halves(j, room, bits, item > 4);
    if (!error)
        error = order_each(j, WRITE, c->lines * c->count);
    cr_cuda_memory_release(j->device, room, block);
    return error;
}

static const char *order_run(order_job *j)
{
    const order_call *c = &j->call;

    if (!c->n || !c->lines || !c->count)
        return NULL;
    if (c->n <= ORDER_FEW)
        return order_each(j, FEW, c->lines * c->n);
    if (c->n <= ORDER_SHORT)
        return order_lines(j);
    /* One line is sorted faster by all blocks than it is read five times by one. */
    if (c->lines > 1 && c->count < c->n && c->count <= ORDER_CHOSEN && c->n <= INT32_MAX)
        return order_choose(j);
    return c->lines >= ORDER_MANY && order_has_room(j) ? order_lines(j) : order_long(j);
}

/* --- entries: (self, ...) -> values and indices --- */

static int64_t order_step(const cr_array *a, int dim)
{
    return a && a->ndim ? a->stride[dim] * (int64_t)cr_dtype_size((cr_dtype)a->dtype) : 0;
}

/* Lines of self, and the results, which may lack the dim. */
static bool order_start(order_job *j, int device, const cr_array *self, int64_t dim,
                        const cr_array *result)
{
    order_call *c = &j->call;
    int at = (int)(dim < 0 ? dim + self->ndim : dim);
    bool kept = result[0].ndim == self->ndim;
    const cr_array *const operand[3] = {&result[0], &result[1], self};

    memset(j, 0, sizeof *j);
    j->device = device;
    j->dtype = self->dtype;
    c->to = result[0].data;
    c->index = result[1].data;
    c->from = self->data;
    c->n = self->ndim ? self->size[at] : 1;
    c->to_step = kept ? order_step(&result[0], at) : 0;
    c->index_step = kept ? order_step(&result[1], at) : 0;
    c->from_step = order_step(self, at);
    c->count = c->n;
    return self->dtype < CR_DTYPE_KERNELS && self->dtype == result[0].dtype &&
           !cr_dtype_is_complex((cr_dtype)self->dtype) &&
           cr_cuda_lines(&c->dims, &c->lines, operand, at);
}

const char *cr_cuda_sort_lines(int device, const cr_given *arg, const cr_array *result)
{
    order_job j;

    if (!order_start(&j, device, &arg[0].array, arg[1].i, result))
        return cr_command_declines;
    j.call.descending = arg[2].i != 0;
    return order_run(&j);
}

/* (self, stable, dim, descending) */
const char *cr_cuda_sort_stable(int device, const cr_given *arg, const cr_array *result)
{
    const cr_given plain[3] = {arg[0], arg[2], arg[3]};

    return cr_cuda_sort_lines(device, plain, result);
}

/* (self, k, dim, largest, sorted) */
const char *cr_cuda_topk(int device, const cr_given *arg, const cr_array *result)
{
    order_job j;

    if (!order_start(&j, device, &arg[0].array, arg[2].i, result))
        return cr_command_declines;
    j.call.descending = arg[3].i != 0;
    j.call.count = arg[1].i;
    return order_run(&j);
}

/* Orders the places of elements in temporary memory, then picks one of each line. */
static const char *order_pick_one(order_job *j, order_pick how, int64_t k)
{
    order_job places = *j;
    order_call *c = &places.call;
    size_t bytes = 8 * (size_t)(c->lines * c->n);
    uint32_t block;
    const char *error;

    if (!bytes)
        return cr_command_declines;
    c->to = NULL;
    c->index = cr_cuda_memory_get(j->device, bytes, &block);
    if (!c->index)
        return cr_cuda_no_memory(j->device, bytes);
    c->index_step = 8;
    cr_cuda_dense_lines(&c->dims, 1, 8 * c->n);
    j->call.sorted = (const int64_t *)(const void *)c->index;
    j->call.how = (int)how;
    j->call.k = k;
    j->call.count = 1;
    error = order_run(&places);
    if (!error)
        error = order_each(j, PICK, j->call.lines);
    cr_cuda_memory_release(j->device, c->index, block);
    return error;
}

static const char *order_picked(int device, const cr_array *self, int64_t dim,
                                const cr_array *result, order_pick how, int64_t k)
{
    order_job j;

    return order_start(&j, device, self, dim, result) ? order_pick_one(&j, how, k)
                                                      : cr_command_declines;
}

/* (self, k, dim, keepdim) */
const char *cr_cuda_kthvalue(int device, const cr_given *arg, const cr_array *result)
{
    return order_picked(device, &arg[0].array, arg[2].i, result, KTH, arg[1].i - 1);
}

/* (self, dim, keepdim) */
const char *cr_cuda_median_dim(int device, const cr_given *arg, const cr_array *result)
{
    return order_picked(device, &arg[0].array, arg[1].i, result, MEDIAN, 0);
}

const char *cr_cuda_nanmedian_dim(int device, const cr_given *arg, const cr_array *result)
{
    return order_picked(device, &arg[0].array, arg[1].i, result, NAN_MEDIAN, 0);
}

const char *cr_cuda_mode(int device, const cr_given *arg, const cr_array *result)
{
    return order_picked(device, &arg[0].array, arg[1].i, result, MODE, 0);
}

/* All elements are one line of a dense copy; its index is not needed. */
static const char *order_median_of_all(int device, const cr_array *self, const cr_array *result,
                                       order_pick how)
{
    int64_t stride[CR_MAX_DIMS], n = cr_dense_strides(stride, self->ndim, self->size);
    int64_t one = 1, item = (int64_t)cr_dtype_size((cr_dtype)self->dtype);
    uint32_t block;

    if (!n)
        return cr_command_declines;
    size_t bytes = (size_t)(n * item + 7) / 8 * 8;
    char *room = cr_cuda_memory_get(device, bytes + 8, &block);
    if (!room)
        return cr_cuda_no_memory(device, bytes + 8);
    cr_array dense = {room, self->dtype, self->ndim, self->size, stride};
    cr_array flat = {room, self->dtype, 1, &n, &one};
    cr_array both[2] = {*result, {room + bytes, CR_I64, 0, NULL, NULL}};
    const char *error = cr_cuda_ops.move(device, &dense, self);
    if (!error)
        error = order_picked(device, &flat, 0, both, how, 0);
    cr_cuda_memory_release(device, room, block);
    return error;
}

const char *cr_cuda_median(int device, const cr_given *arg, const cr_array *result)
{
    return order_median_of_all(device, &arg[0].array, result, MEDIAN);
}

const char *cr_cuda_nanmedian(int device, const cr_given *arg, const cr_array *result)
{
    return order_median_of_all(device, &arg[0].array, result, NAN_MEDIAN);
}

/* (n, *, generator, ...): the order of random numbers of 64 bits. */
const char *cr_cuda_randperm(int device, const cr_given *arg, const cr_array *result)
{
    int64_t n = arg[0].i, one = 1;
    uint32_t block;

    if (n <= 0)
        return cr_command_declines;
    char *room = cr_cuda_memory_get(device, 16 * (size_t)n, &block);
    if (!room)
        return cr_cuda_no_memory(device, 16 * (size_t)n);
    cr_array numbers = {room, CR_I64, 1, &n, &one}, order = {room + 8 * n, CR_I64, 1, &n, &one};
    cr_given draw[4] = {{.kind = CR_GIVEN_ARRAY, .array = numbers},
                        {.kind = CR_GIVEN_INT, .i = INT64_MIN},
                        {.kind = CR_GIVEN_NONE},
                        arg[1]};
    order_job j;
    const char *error = cr_cuda_random_from(device, draw, &numbers);
    if (!error && order_start(&j, device, &numbers, 0, (cr_array[]){numbers, order})) {
        j.call.to = NULL;
        error = order_run(&j);
    }
    if (!error)
        error = cr_cuda_ops.move(device, result, &order);
    cr_cuda_memory_release(device, room, block);
    return error;
}

/* --- searches --- */

/* co_search_call of emit/order.cuh */
typedef struct {
    char *to;
    const char *value, *row, *sorter;
    void *late;
    uint64_t number;
    int64_t n, values, row_step, sorter_step;
    int right, narrow;
    int64_t ndim, size[CR_CUDA_DIMS], dim[4][CR_CUDA_DIMS];
} search_call;

/* Dims of the values; a row has all of them but the last one, or none. */
static bool search_set_dims(search_call *c, const cr_array *const a[4])
{
    const cr_array *value = a[1];
    cr_space s;

    cr_space_start(&s, 4);
    for (int d = 0; d < value->ndim; d++) {
        int64_t *step = cr_space_add(&s, value->size[d], d);
        for (int k = 0; k < 4; k++) {
            bool has = a[k] && (k < 2 || (a[k]->ndim > 1 && d < value->ndim - 1));
            step[k] = has ? order_step(a[k], d) : 0;
        }
    }
    cr_space_merge(&s, 0);
    c->ndim = s.ndim;
    c->values = cr_space_count(&s, s.ndim);
    for (int d = 0; d < s.ndim && d < CR_CUDA_DIMS; d++) {
        c->size[d] = s.dim[d].size;
        for (int k = 0; k < 4; k++)
            c->dim[k][d] = s.dim[d].step[k];
    }
    return s.ndim <= CR_CUDA_DIMS;
}

static const char *search_run(int device, search_call *c, int dtype)
{
    cr_cuda_late late;
    void *function;
    const char *error = order_find(&function, device, SEARCH, dtype, 0, 0);

    if (!error)
        error = cr_cuda_late_begin(&late, device, CR_RUNTIME,
                                   "torch.searchsorted(): sorter index out of range");
    if (error)
        return error;
    c->late = late.word;
    c->number = late.number;
    return cr_cuda_launch_each(device, function, c->values, c);
}

/* (sorted_sequence, self, *, out_int32, right, side, sorter) */
const char *cr_cuda_searchsorted(int device, const cr_given *arg, const cr_array *result)
{
    const cr_array *rows = &arg[0].array, *value = &arg[1].array;
    const cr_array *sorter = arg[5].kind == CR_GIVEN_ARRAY ? &arg[5].array : NULL;
    const cr_array *const operand[4] = {result, value, rows, sorter};
    search_call c = {.to = result->data};

    if (arg[1].kind != CR_GIVEN_ARRAY || value->dtype != rows->dtype ||
        value->dtype >= CR_DTYPE_KERNELS || cr_dtype_is_complex((cr_dtype)value->dtype) ||
        !search_set_dims(&c, operand))
        return cr_command_declines;
    c.value = value->data;
    c.row = rows->data;
    c.sorter = sorter ? sorter->data : NULL;
    c.n = rows->size[rows->ndim - 1];
    c.row_step = order_step(rows, rows->ndim - 1);
    c.sorter_step = sorter ? order_step(sorter, sorter->ndim - 1) : 0;
    c.right = arg[3].i || (arg[4].kind == CR_GIVEN_TEXT && arg[4].text[0] == 'r');
    c.narrow = result->dtype == CR_I32;
    return c.values ? search_run(device, &c, value->dtype) : NULL;
}
