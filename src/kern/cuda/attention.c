/* Scaled dot product attention on NVIDIA devices; the kernels are in emit/attention.cuh
 * and emit/attention_f32.cuh.
 *
 * They take a positive scale, heads of up to 128 elements of half types in multiples of 8, or
 * of up to 64 of float32 in multiples of 4, and rows that begin at multiples of 16 bytes; other
 * layouts are copied, other problems are left to the composition.
 * Long rows of half types without masks are computed by cuDNN where it is there
 * (attention_plan.c).  These kernels need no library, and run under simt.h, so they are tested
 * without a GPU. */
#include "device/cuda/cuda.h"
#include "device/facts.h"
#include "jit/cuda.h"
#include "kern/cuda/attention_plan.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    ATTENTION_DIMS = 4,
    ATTENTION_THREADS = 128,
    ATTENTION_WIDEST = 128,
    ATTENTION_NARROW = 64,
    /* A block's rows, by the width of its heads, and those of the tiles over which it loops. */
    ATTENTION_ROWS = 64,
    ATTENTION_ROWS_NARROW = 128,
    ATTENTION_STAGES = 2,
    ATTENTION_FORWARD = 64,
    ATTENTION_BACKWARD = 16,
    ATTENTION_BACKWARD_NARROW = 32,
    /* Of float32: a tile's rows and columns, and the least width. */
    ATTENTION_WIDE_TILE = 64,
    ATTENTION_WIDE_LEAST = 32,
    ATTENTION_SHARE = 256, /* of the device's memory, one part for gradients of scores */
    ATTENTION_DELTAS = ATTENTION_THREADS / 8, /* rows of a block that computes deltas */
    ATTENTION_BLOCKS = 1 << 30
};

/* Kernels, and kinds of masks: CA_NONE ... of emit/attention.cuh. */
typedef enum { FORWARD, DELTAS, KEYS, QUERIES, KEPT } attention_kernel;
typedef enum { MASK_NONE, MASK_TRUTH, MASK_ADDED, MASK_ADDED4, MASKS } attention_mask;

/* ca_array and ca_call of emit/attention.cuh */
typedef struct {
    char *at;
    int64_t step[3];
} attention_array;
/* at_call of emit/attention.cuh.
 * Invariant: the members are those of the kernels' struct, in the same order; arrays that a
 * kernel does not read are zero. */
typedef struct {
    attention_array q, k, v, out, grad, gq, gk, gv;
    float *lse, *delta;
    const char *mask;
    int64_t mask_step[ATTENTION_DIMS];
    int64_t batch, heads, repeat;
    int queries, keys, width, causal;
    float scale;
    float *kept;
    const char *stay;
    float times;
} attention_call;

static void attention_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"forward", "deltas", "keys", "queries", "kept"};

    cr_text_printf(out,
                   "#define CA_ITEM cm_%s\n#define CA_WIDTH %d\n#define CA_MASK %d\n"
                   "#define CA_DROPS %d\n",
                   cr_dtype_infos[k->b].suffix, k->c, k->d % MASKS, k->d / MASKS);
    snprintf(symbol, 32, "ca_%s", name[k->a]);
}

/* --- arrays --- */

/* A row-major copy in place of an array that the kernels cannot read or write. */
typedef struct {
    void *at;
    uint32_t block;
    cr_array given;
    bool written;
} attention_copy;

enum { COPIES = 8 };

/* One call's problem, with its copies. */
typedef struct {
    int device, dtype;
    attention_call c;
    attention_mask mask;
    attention_copy copy[COPIES];
    int copies;
} attention;

static int64_t item_bytes(const cr_array *a)
{
    return (int64_t)cr_dtype_size((cr_dtype)a->dtype);
}

static bool is_readable(const cr_array *a)
{
    int64_t bits = (int64_t)(intptr_t)a->data;

    for (int d = 0; d < ATTENTION_DIMS - 1; d++)
        bits |= a->size[d] > 1 ? a->stride[d] * item_bytes(a) : 0;
    return bits % 16 == 0 && a->stride[ATTENTION_DIMS - 1] == 1;
}

static const char *attention_copy_of(attention *t, attention_array *out, const cr_array *a,
                                     bool written)
{
    attention_copy *copy = &t->copy[t->copies];
    int64_t stride[ATTENTION_DIMS], n = 1;
    const char *error = NULL;

    for (int d = ATTENTION_DIMS - 1; d >= 0; n *= a->size[d--])
        stride[d] = n;
    size_t bytes = (size_t)(n * item_bytes(a));
    copy->at = cr_cuda_memory_get(t->device, bytes, &copy->block);
    if (!copy->at)
        return cr_cuda_no_memory(t->device, bytes);
    t->copies++;
    copy->given = *a;
    copy->written = written;
    cr_array dense = {copy->at, a->dtype, ATTENTION_DIMS, a->size, stride};
    if (!written)
        error = cr_cuda_ops.move(t->device, &dense, a);
    *out = (attention_array){.at = copy->at};
    for (int d = 0; d < ATTENTION_DIMS - 1; d++)
        out->step[d] = stride[d] * item_bytes(a);
    return error;
}

static const char *attention_take(attention *t, attention_array *out, const cr_array *a,
                                  bool written)
{
    if (!is_readable(a))
        return attention_copy_of(t, out, a, written);
    *out = (attention_array){.at = a->data};
    for (int d = 0; d < ATTENTION_DIMS - 1; d++)
        out->step[d] = a->stride[d] * item_bytes(a);
    return NULL;
}

/* Moves the results that are in copies, and releases the copies. */
static const char *attention_end(attention *t, const char *error)
{
    for (int i = 0; i < t->copies; i++) {
        attention_copy *copy = &t->copy[i];
        int64_t stride[ATTENTION_DIMS], n = 1;
        for (int d = ATTENTION_DIMS - 1; d >= 0; n *= copy->given.size[d--])
            stride[d] = n;
        cr_array dense = {copy->at, copy->given.dtype, ATTENTION_DIMS, copy->given.size,
                          stride};
        if (!error && copy->written)
            error = cr_cuda_ops.move(t->device, &copy->given, &dense);
        cr_cuda_memory_release(t->device, copy->at, copy->block);
    }
    return error;
}

/* --- problems --- */

static bool mask_begin(attention *t, const cr_given *g)
{
    int64_t size[ATTENTION_DIMS] = {t->c.batch, t->c.heads, t->c.queries, t->c.keys};
    const cr_array *a = &g->array;

    t->mask = MASK_NONE;
    if (g->kind != CR_GIVEN_ARRAY)
        return g->kind == CR_GIVEN_NONE;
    t->mask = a->dtype == CR_BOOL ? MASK_TRUTH : a->dtype == CR_F32 ? MASK_ADDED4 : MASK_ADDED;
    if ((t->mask == MASK_ADDED && a->dtype != t->dtype) || a->ndim > ATTENTION_DIMS)
        return false;
    t->c.mask = a->data;
    for (int d = 0; d < a->ndim; d++) {
        int at = ATTENTION_DIMS - a->ndim + d;
        if (a->size[d] != 1 && a->size[d] != size[at])
            return false;
        t->c.mask_step[at] = a->size[d] == 1 ? 0 : a->stride[d] * item_bytes(a);
    }
    return true;
}

/* Which weights stay, and what these are multiplied by. */
static bool stay_begin(attention *t, const cr_given *stay, const cr_given *times)
{
    const cr_array *a = &stay->array;

    if (stay->kind == CR_GIVEN_NONE)
        return true;
    if (stay->kind != CR_GIVEN_ARRAY || t->dtype == CR_F32 || a->dtype != CR_BOOL ||
        !cr_is_dense_array(a) || t->c.keys % 16 || (uintptr_t)a->data % 16)
        return false;
    t->c.stay = a->data;
    t->c.times = (float)(times->kind == CR_GIVEN_INT ? (double)times->i : times->d);
    return true;
}

static bool has_sizes(const cr_array *a, int dtype, int64_t batch, int64_t heads, int64_t rows,
                      int64_t width)
{
    return a->dtype == dtype && a->ndim == ATTENTION_DIMS && a->size[0] == batch &&
           a->size[1] == heads && a->size[2] == rows && a->size[3] == width;
}

/* How many heads of the queries share one of the keys; 0 if they cannot. */
static int64_t shared_by(int64_t heads, int64_t shared)
{
    int64_t repeat = shared ? heads / shared : 0;

    return repeat * shared == heads ? repeat : 0;
}

/* The bytes of shared memory that a block may have, and 1; 1 on devices before compute
 * capability 8.0, which the kernels' products and copies need. */
static int device_shared(int device)
{
    static _Atomic int known[CR_CUDA_DEVICES]; /* 0: not asked */
    cr_cuda_properties p;

    if (!known[device])
        known[device] =
            cr_cuda_property(&p, device) || p.major < 8 ? 1 : p.shared_of_block_optin + 1;
    return known[device];
}

/* The bytes that kept gradients of scores may have. */
static int64_t device_kept(int device)
{
    static _Atomic int64_t known[CR_CUDA_DEVICES]; /* 0: not asked; the bytes and 1 */
    cr_cuda_properties p;

    if (!known[device])
        known[device] =
            cr_cuda_property(&p, device) ? 1 : (int64_t)(p.total_memory / ATTENTION_SHARE) + 1;
    return known[device] - 1;
}

/* The dtype and the width of heads are those of a kernel. */
static bool attention_has_width(const cr_array *q)
{
    bool half = q->dtype == CR_F16 || q->dtype == CR_BF16;
    int64_t width = q->ndim == ATTENTION_DIMS ? q->size[ATTENTION_DIMS - 1] : 0;

    if (!half && q->dtype != CR_F32)
        return false;
    return width > 0 && width % (half ? 8 : 4) == 0 &&
           width <= (half ? ATTENTION_WIDEST : ATTENTION_NARROW);
}

/* `arg` has query, key, value and the mask; false for problems that the kernels do not take. */
static bool attention_begin(attention *t, int device, const cr_given *arg,
                            const cr_given *causal, const cr_given *scale)
{
    const cr_array *q = &arg[0].array, *k = &arg[1].array, *v = &arg[2].array;

    memset(t, 0, sizeof *t);
    t->device = device;
    t->dtype = q->dtype;
    if (!attention_has_width(q) || q->ndim != ATTENTION_DIMS || k->ndim != ATTENTION_DIMS ||
        !k->size[1] || q->size[1] % k->size[1] ||
        q->size[2] > INT_MAX - ATTENTION_ROWS_NARROW ||
        k->size[2] > INT_MAX - ATTENTION_ROWS_NARROW ||
        !has_sizes(k, q->dtype, q->size[0], k->size[1], k->size[2], q->size[3]) ||
        !has_sizes(v, q->dtype, q->size[0], k->size[1], k->size[2], q->size[3]))
        return false;
    t->c.batch = q->size[0];
    t->c.heads = q->size[1];
    t->c.repeat = shared_by(q->size[1], k->size[1]);
    t->c.queries = (int)q->size[2];
    t->c.keys = (int)k->size[2];
    t->c.width = (int)q->size[3];
    t->c.causal = causal->i != 0;
    t->c.scale = (float)(scale->kind == CR_GIVEN_INT ? (double)scale->i : scale->d);
    return t->c.scale > 0 && mask_begin(t, &arg[3]);
}

static const char *attention_read(attention *t, const cr_given *arg)
{
    const char *error = attention_take(t, &t->c.q, &arg[0].array, false);

    if (!error)
        error = attention_take(t, &t->c.k, &arg[1].array, false);
    return error ? error : attention_take(t, &t->c.v, &arg[2].array, false);
}

static bool is_narrow(const attention *t) { return t->c.width <= ATTENTION_NARROW; }

static int attention_rows(const attention *t)
{
    return is_narrow(t) && t->dtype != CR_F32 ? ATTENTION_ROWS_NARROW : ATTENTION_ROWS;
}

static bool is_wide(const attention *t) { return t->dtype == CR_F32; }

/* The width to which the heads are padded. */
static int attention_width(const attention *t)
{
    if (is_wide(t) && t->c.width <= ATTENTION_WIDE_LEAST)
        return ATTENTION_WIDE_LEAST;
    return is_narrow(t) ? ATTENTION_NARROW : ATTENTION_WIDEST;
}

/* The bytes of a block's tiles of float32, and of weights (CA_TILE, CA_WEIGHTS). */
static unsigned attention_shared_wide(const attention *t, attention_kernel kernel)
{
    int tile = ATTENTION_WIDE_TILE * (attention_width(t) + 4) + ATTENTION_WIDE_TILE / 2;
    int weights = ATTENTION_WIDE_TILE * (ATTENTION_WIDE_TILE + 4);
    int tiles = kernel == FORWARD ? 3 : kernel == KEPT ? 2 : 4;
    int turned = kernel == KEYS || kernel == KEPT ? 2 : 1;

    return (unsigned)(tiles * tile + turned * weights) * sizeof(float);
}

/* The bytes of a block's tiles of half types, whose rows are 8 elements apart from each other
 * (CA_STEP). */
static unsigned attention_shared(const attention *t, attention_kernel kernel)
{
    int rows = kernel == FORWARD ? attention_rows(t) : 2 * attention_rows(t);
    int tile = kernel == FORWARD ? ATTENTION_FORWARD
               : is_narrow(t)    ? ATTENTION_BACKWARD_NARROW
                                 : ATTENTION_BACKWARD;

    if (kernel == DELTAS)
        return 0;
    if (is_wide(t))
        return attention_shared_wide(t, kernel);
    /* ca_stay: a row for each query of a tile. */
    int queries = kernel == KEYS ? tile : attention_rows(t);
    int stay = queries * ((kernel == KEYS ? attention_rows(t) : tile) + 16);
    return (unsigned)((rows + 2 * ATTENTION_STAGES * tile) * (attention_width(t) + 8) * 2 +
                      (t->c.stay ? ATTENTION_STAGES * stay : 0));
}

/* True if a block of the kernel has its tiles, and the two numbers of each of its rows. */
static bool device_has_room(const attention *t, attention_kernel kernel)
{
    int numbers = 2 * attention_rows(t) * (int)sizeof(float);

    return (int)attention_shared(t, kernel) + numbers < device_shared(t->device);
}

static const char *attention_launch(attention *t, attention_kernel kernel, int64_t blocks)
{
    cr_cuda_grid g = {
        .grid = {1, 1}, .block = {ATTENTION_THREADS, 1}, .shared = attention_shared(t, kernel)};
    cr_cuda_text k = {.print = attention_print,
                      .device = t->device,
                      .part = is_wide(t) ? CR_VEC_CUDA_HEADS_F32 : CR_VEC_CUDA_ATTENTION,
                      .a = (int)kernel,
                      .b = t->dtype,
                      .c = attention_width(t),
                      .d = (int)t->mask + (t->c.stay ? MASKS : 0)};
    const char *error = cr_cuda_find(&g.function, &k);

    if (error || !blocks)
        return error;
    if (blocks > ATTENTION_BLOCKS)
        return "attention: too many rows for one launch";
    g.grid[0] = (unsigned)blocks;
    return cr_cuda_launch(t->device, &g, &t->c);
}

static int64_t tiles_of(const attention *t, int rows)
{
    return (rows + attention_rows(t) - 1) / attention_rows(t);
}

/* --- cuDNN --- */

static const char *attention_by_plan(const attention *t, heads_way way)
{
    const attention_array *array[HEADS_STRIDED] = {
        [HEADS_Q] = &t->c.q,     [HEADS_K] = &t->c.k,       [HEADS_V] = &t->c.v,
        [HEADS_OUT] = &t->c.out, [HEADS_GRAD] = &t->c.grad, [HEADS_GQ] = &t->c.gq,
        [HEADS_GK] = &t->c.gk,   [HEADS_GV] = &t->c.gv};
    heads_call c;

    if (is_wide(t) || t->mask != MASK_NONE || !t->c.repeat || t->c.stay)
        return cr_command_declines;
    memset(&c, 0, sizeof c);
    c.key.index = t->device;
    c.key.way = (int32_t)way;
    c.key.dtype = t->dtype;
    c.key.causal = t->c.causal;
    c.key.batch = t->c.batch;
    c.key.heads = t->c.heads;
    c.key.shared = t->c.heads / t->c.repeat;
    c.key.queries = t->c.queries;
    c.key.keys = t->c.keys;
    c.key.width = t->c.width;
    for (int i = 0; i < HEADS_STRIDED; i++) {
        c.at[i] = array[i]->at;
        for (int d = 0; d < ATTENTION_DIMS - 1; d++)
            c.key.stride[i][d] = array[i]->step[d] / 2;
    }
    c.at[HEADS_LSE] = t->c.lse;
    c.scale = t->c.scale;
    return cr_heads_run(&c);
}

/* --- entries --- */

/* (query, key, value, mask, is_causal, scale, stay, times) -> output, logsumexp */
const char *cr_cuda_attention(int device, const cr_given *arg, const cr_array *result)
{
    attention t;

    if (!attention_begin(&t, device, arg, &arg[4], &arg[5]) ||
        !stay_begin(&t, &arg[6], &arg[7]) || !device_has_room(&t, FORWARD))
        return cr_command_declines;
    const char *error = attention_read(&t, arg);
    if (!error)
        error = attention_take(&t, &t.c.out, &result[0], true);
    t.c.lse = (float *)(void *)result[1].data;
    if (!error)
        error = attention_by_plan(&t, HEADS_OUTPUT);
    if (error == cr_command_declines)
        error =
            attention_launch(&t, FORWARD, tiles_of(&t, t.c.queries) * t.c.batch * t.c.heads);
    return attention_end(&t, error);
}

/* The bytes of the gradients of a batch's scores. */
static int64_t kept_bytes(const attention *t)
{
    int64_t tiles = t->c.heads * tiles_of(t, t->c.queries) * tiles_of(t, t->c.keys);

    return tiles * ATTENTION_WIDE_TILE * ATTENTION_WIDE_TILE * (int64_t)sizeof(float);
}

/* The problem of `count` batches from `first` on. */
static attention attention_part(const attention *t, int64_t first, int64_t count)
{
    attention part = *t;
    attention_call *c = &part.c;
    attention_array *array[] = {&c->q, &c->k, &c->v, &c->out, &c->grad, &c->gq, &c->gk, &c->gv};
    int64_t rows = first * c->heads * c->queries;

    for (size_t i = 0; i < CR_LEN(array); i++)
        array[i]->at += first * array[i]->step[0];
    c->lse += rows;
    c->delta += rows;
    c->mask = c->mask ? c->mask + first * c->mask_step[0] : NULL;
    c->batch = count;
    return part;
}

/* The gradients of keys and values, and then those of queries from the gradients of scores that
 * were kept, of as many batches at once as `kept` has room for, `most`. */
static const char *attention_keeping(const attention *t, float *kept, int64_t most)
{
    const char *error = NULL;

    for (int64_t first = 0; first < t->c.batch && !error; first += most) {
        int64_t left = t->c.batch - first;
        attention part = attention_part(t, first, left < most ? left : most);
        int64_t heads = part.c.batch * part.c.heads;
        part.c.kept = kept;
        error = attention_launch(&part, KEYS, tiles_of(t, t->c.keys) * heads / t->c.repeat);
        if (!error)
            error = attention_launch(&part, KEPT, tiles_of(t, t->c.queries) * heads);
    }
    return error;
}

static const char *attention_passes(attention *t)
{
    int64_t heads = t->c.batch * t->c.heads;
    int64_t most = is_wide(t) && t->c.keys ? device_kept(t->device) / kept_bytes(t) : 0;
    uint32_t block;
    const char *error;

    most = most < t->c.batch ? most : t->c.batch;
    float *kept =
        most ? cr_cuda_memory_get(t->device, (size_t)(most * kept_bytes(t)), &block) : NULL;
    if (kept) {
        error = attention_keeping(t, kept, most);
        cr_cuda_memory_release(t->device, kept, block);
        return error;
    }
    error = attention_launch(t, KEYS, tiles_of(t, t->c.keys) * heads / t->c.repeat);
    return error ? error : attention_launch(t, QUERIES, tiles_of(t, t->c.queries) * heads);
}

static const char *attention_gradients(attention *t)
{
    int64_t heads = t->c.batch * t->c.heads, rows = heads * t->c.queries;
    uint32_t block;
    const char *error;

    if (!rows)
        return attention_launch(t, KEYS, tiles_of(t, t->c.keys) * heads / t->c.repeat);
    size_t bytes = 2 * (size_t)rows * sizeof *t->c.delta;
    t->c.delta = cr_cuda_memory_get(t->device, bytes, &block);
    if (!t->c.delta)
        return cr_cuda_no_memory(t->device, bytes);
    error = attention_launch(t, DELTAS, (rows + ATTENTION_DELTAS - 1) / ATTENTION_DELTAS);
    if (!error)
        error = attention_passes(t);
    cr_cuda_memory_release(t->device, t->c.delta, block);
    return error;
}

static const char *attention_backward(int device, const cr_given *arg, const cr_array *gq,
                                      const cr_array *gk, const cr_array *gv)
{
    attention t;

    if (!attention_begin(&t, device, arg + 1, &arg[7], &arg[8]) ||
        !stay_begin(&t, &arg[9], &arg[10]) || !device_has_room(&t, KEYS) ||
        !device_has_room(&t, QUERIES) || arg[0].array.dtype != t.dtype ||
        arg[5].array.dtype != t.dtype)
        return cr_command_declines;
    const char *error = attention_read(&t, arg + 1);
    if (!error)
        error = attention_take(&t, &t.c.grad, &arg[0].array, false);
    if (!error)
        error = attention_take(&t, &t.c.out, &arg[5].array, false);
    if (!error)
        error = attention_take(&t, &t.c.gq, gq, true);
    if (!error)
        error = attention_take(&t, &t.c.gk, gk, true);
    if (!error)
        error = attention_take(&t, &t.c.gv, gv, true);
    t.c.lse = (float *)(void *)arg[6].array.data;
    if (!error)
        error = attention_by_plan(&t, HEADS_GRADIENTS);
    if (error == cr_command_declines)
        error = attention_gradients(&t);
    return attention_end(&t, error);
}

/* (grad, query, key, value, mask, output, logsumexp, is_causal, scale, stay, times) ->
 * gradients of query, key and value */
const char *cr_cuda_attention_backward(int device, const cr_given *arg, const cr_array *result)
{
    return attention_backward(device, arg, &result[0], &result[1], &result[2]);
}

/* The heads of one of the three gradients in a result that has all of them. */
static cr_array heads_of(const cr_array *whole, const cr_array *like, int64_t first,
                         int64_t stride[ATTENTION_DIMS])
{
    cr_array a = {(char *)whole->data + first * item_bytes(whole), whole->dtype, ATTENTION_DIMS,
                  like->size, stride};

    stride[0] = whole->stride[0];
    stride[1] = like->size[3];
    stride[2] = whole->stride[1];
    stride[3] = 1;
    return a;
}

/* The same, side by side. */
const char *cr_cuda_attention_backward_joined(int device, const cr_given *arg,
                                              const cr_array *result)
{
    const cr_array *q = &arg[1].array, *k = &arg[2].array, *v = &arg[3].array;
    int64_t stride[3][ATTENTION_DIMS];

    if (q->ndim != ATTENTION_DIMS || k->ndim != ATTENTION_DIMS || v->ndim != ATTENTION_DIMS)
        return cr_command_declines;
    int64_t queries = q->size[1] * q->size[3], keys = k->size[1] * k->size[3];
    cr_array gq = heads_of(result, q, 0, stride[0]),
             gk = heads_of(result, k, queries, stride[1]),
             gv = heads_of(result, v, queries + keys, stride[2]);
    return attention_backward(device, arg, &gq, &gk, &gv);
}
