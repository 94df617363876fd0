/* Elements at computed places on NVIDIA devices: the commands `indexed` and `combine`, whose
 * kernels are in emit/place.cuh.
 *
 * Entries are the positions along the dims that the index varies with, or that several
 * positions may have one place along; a command's other dims are columns.  Entries are numbered
 * row-major with the dims that the index picks from last, so that those of one destination are
 * in index order. */
#include "base/integer.h"
#include "device/cuda/cuda.h"
#include "device/facts.h"
#include "jit/cuda.h"
#include "kern/cuda/commands.h"
#include "kern/cuda/product.h"
#include "kern/cuda/sort.h"
#include "num/dtype.h"
#include "space/space.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_DIMS = 8, PLACE_WORD = 64, PLACE_BLOCK = 64 /* CP_BLOCK */ };

/* The space of a call: steps of its arrays along each dim. */
typedef struct {
    int64_t n, ndim, size[PLACE_DIMS], dense_step[PLACE_DIMS], table_step[PLACE_DIMS],
        index_step[PLACE_DIMS];
} place_dims;

/* The columns: dims that all arrays have. */
typedef struct {
    int64_t columns, cdim, csize[PLACE_DIMS], cdense_step[PLACE_DIMS], ctable_step[PLACE_DIMS];
} place_columns;

/* Dims by which an element of the index is numbered. */
typedef struct {
    int64_t numbered, nsize[PLACE_DIMS], nstep[PLACE_DIMS];
} place_numbered;

/* What an index counts: units of `unit` bytes in a dim of `extent`. */
typedef struct {
    int64_t unit, extent, item, grain;
} place_unit;

/* Lists of the elements that are combined into one destination. */
typedef struct {
    int64_t *heads, *blocks;
    uint64_t *list;
    void *parts;
    char *elements;
    int *held;
} place_lists;

/* How indices are read, and lines are combined. */
typedef struct {
    int is32, wraps, shift, lined;
} place_flags;

/* Lines: dims along which an index is the same. */
typedef struct {
    int64_t ldim, lsize[PLACE_DIMS], lstep[PLACE_DIMS], line_unit;
} place_lines;

/* How threads share the work. */
typedef struct {
    int wide, groups, fast, stage_rows;
} place_threads;

/* cp_call of emit/place.cuh.
 * Invariant: the members are those of the kernels' struct, in the same order. Sizes and
 * steps are of over.ndim dims, of inner.cdim columns, and of line.ldim lines; each at most
 * PLACE_DIMS. */
typedef struct {
    char *dense, *table;
    const char *index;
    void *late, *owner;
    uint64_t *keys;
    uint64_t number;
    place_dims over;
    place_columns inner;
    place_numbered rows;
    place_unit of;
    place_lists lists;
    int64_t number_step[PLACE_DIMS];
    int buckets, room, low;
    place_flags how;
    place_lines line;
    place_threads by;
    int64_t spread; /* destinations from the first to the last */
    cr_cuda_divisor divisor[PLACE_DIMS];
    _Alignas(16) char value[16];
} place_call;

/* --- texts --- */

enum { READ, PICK, SET, OWN, KEYS };
enum {
    FOLD_EACH,
    FOLD_LIST,
    FOLD_BLOCKS,
    FOLD_RUNS,
    SPLIT,
    STAGE,
    BUCKET,
    SUM,
    CELLS,
    DEAL,
    ROWS,
    REST
};
/* As in emit/place.cuh; a block of threads has at least so many entries. */
enum { PLACE_CELLS = 4096, CELLS_THREADS = 256, CELLS_ENTRIES = 4096, CELLS_BLOCKS = 1024 };
enum { PLACE_READS = 2 /* CP_READS */, PLACE_PICKS = 2 /* CP_PICKS */ };
enum { HELD_APART = 32 /* CP_APART */ };
/* Of a multiprocessor; shared memory of a block, at most. */
enum { REST_THREADS = 256, REST_BLOCKS = 4 /* CP_AT_ONCE */, REST_BYTES = 36 << 10 };
enum { FOLD_THREADS = 1 << 20 }; /* at most; how many blocks there are is not known */

static void place_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"read", "pick", "set", "own", "keys"};

    cr_text_put(out, "#define CS_NO_KERNELS\n");
    int n = snprintf(symbol, 32, "cp_%s", name[k->a]);
    if (k->a <= SET)
        snprintf(symbol + n, 32 - (size_t)n, "%d", k->b);
}

static void combine_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"each",   "list", "fold",  "runs", "split", "stage",
                                       "bucket", "sum",  "cells", "deal", "rows",  "rest"};
    int kernel = k->d / 4;

    cr_text_printf(out, "#define CP_HOW %d\n#define CP_ITEM cm_%s\n#define CP_IN_ORDER %d\n",
                   k->a, cr_dtype_infos[k->b].suffix, k->c & 1);
    cr_text_printf(out, "#define CP_LANES %d\n#define CP_FLAT %d\n#define CP_BUCKETED %d\n",
                   1 << k->d % 4, k->c >> 1 & 1, kernel >= SPLIT && kernel <= BUCKET);
    cr_text_printf(out, "#define CP_PACKED %d\n#define CP_NEAR %d\n#define CP_INDEX %s\n",
                   k->c >> 2 & 3, k->c >> 4 & 1, k->c >> 5 ? "int" : "cm_i64");
    cr_text_printf(out, "#define CP_ROWS %d\n#define CP_REST %d\n",
                   kernel == DEAL || kernel == ROWS, kernel == REST);
    if (kernel == REST)
        cr_text_printf(out, "#define CS_ROUNDS %d\n", CR_CUDA_SORT_ROUNDS);
    else
        cr_text_put(out, "#define CS_NO_KERNELS\n");
    if (kernel == SUM || kernel == CELLS)
        cr_text_put(out, "#define CP_ATOMIC\n");
    snprintf(symbol, 32, "cp_%s", name[kernel]);
}

static const char *place_launch(int device, place_call *c, int what)
{
    cr_cuda_text k = {.print = place_print,
                      .device = device,
                      .part = CR_VEC_CUDA_PLACE,
                      .a = what,
                      .b = what <= SET ? (int)c->of.item : 0};
    void *function;
    const char *error = cr_cuda_find(&function, &k);

    int64_t each = what == READ ? PLACE_READS : what == PICK ? PLACE_PICKS : 1;
    return error ? error
                 : cr_cuda_launch_each(device, function, (c->over.n + each - 1) / each, c);
}

/* `lanes` is the exponent of CP_LANES. */
static const char *combine_find(void **function, int device, const cr_indexed *x, int kernel,
                                int lanes, bool flat)
{
    cr_cuda_text k = {.print = combine_print,
                      .device = device,
                      .part = CR_VEC_CUDA_PLACE,
                      .a = (int)x->how,
                      .b = x->dtype,
                      .c = (kernel == FOLD_EACH || !x->index) + 2 * flat,
                      .d = 4 * kernel + lanes};

    return cr_cuda_find(function, &k);
}

static const char *combine_launch(int device, place_call *c, const cr_indexed *x, int kernel,
                                  int64_t threads)
{
    void *function;
    const char *error = combine_find(&function, device, x, kernel, 0, false);

    return error ? error : cr_cuda_launch_each(device, function, threads, c);
}

/* The exponent of the number of adjacent columns that one access reads: up to four of at most
 * 16 bytes. */
static int columns_lanes(const place_call *c)
{
    int64_t d = c->inner.cdim - 1,
            bits = (int64_t)(intptr_t)c->dense | (int64_t)(intptr_t)c->table;
    int lanes = 2;

    if (d < 0 || !c->dense || c->inner.cdense_step[d] != c->of.item ||
        c->inner.ctable_step[d] != c->of.item)
        return 0;
    for (int k = 0; k < c->over.ndim; k++)
        bits |= c->over.dense_step[k];
    for (int k = 0; k < d; k++)
        bits |= c->inner.cdense_step[k] | c->inner.ctable_step[k];
    bits |= c->of.grain | c->inner.csize[d] * c->of.item;
    while (lanes && (c->of.item << lanes > 16 || bits % (c->of.item << lanes)))
        lanes--;
    return lanes;
}

/* --- dims --- */

enum { DENSE, TABLE, INDEX };

static void place_add_dim(cr_space *s, const cr_indexed *x, int d)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)x->dtype), *step;

    step = cr_space_add(s, x->size[d], d);
    step[DENSE] = x->dense ? x->dense_stride[d] * (x->how == CR_COMBINE_DIVIDE ? 8 : item) : 0;
    step[TABLE] = x->table_stride[d] * item;
    step[INDEX] = x->index ? x->index_stride[d] * (x->is32 ? 4 : 8) : 0;
}

/* Merges dims; false when there is no room for them.  Returns the number of positions in *n;
 * `step` has an array for each operand, or NULL. */
static bool place_merge(cr_space *s, int64_t *ndim, int64_t *n, int64_t *size,
                        int64_t *const *step)
{
    cr_space_merge(s, 0);
    if (s->ndim > PLACE_DIMS)
        return false;
    *ndim = s->ndim;
    *n = cr_space_count(s, s->ndim);
    for (int d = 0; d < s->ndim; d++) {
        size[d] = s->dim[d].size;
        for (int k = 0; k < s->operands; k++)
            if (step[k])
                step[k][d] = s->dim[d].step[k];
    }
    return true;
}

/* The dims of entries. */
static bool place_set_dims(place_call *c, cr_space *s)
{
    int64_t *step[] = {c->over.dense_step, c->over.table_step, c->over.index_step};

    return place_merge(s, &c->over.ndim, &c->over.n, c->over.size, step);
}

static bool place_set_columns(place_call *c, cr_space *s)
{
    int64_t *step[] = {c->inner.cdense_step, c->inner.ctable_step, NULL};

    return place_merge(s, &c->inner.cdim, &c->inner.columns, c->inner.csize, step);
}

/* The array whose elements the indices number. */
static bool place_set_numbered(place_call *c, const cr_array *a)
{
    cr_space s;

    c->rows.numbered = -1;
    if (!a)
        return true;
    cr_space_start(&s, 1);
    for (int d = 0; d < a->ndim; d++)
        *cr_space_add(&s, a->size[d], d) = a->stride[d] * c->of.item;
    return place_merge(&s, &c->rows.numbered, &c->of.extent, c->rows.nsize,
                       &(int64_t *){c->rows.nstep});
}

static bool place_begin(place_call *c, const cr_indexed *x)
{
    memset(c, 0, sizeof *c);
    c->dense = x->dense;
    c->table = x->table;
    c->index = x->index;
    c->of.unit = x->unit;
    c->of.extent = x->extent;
    c->of.item = (int64_t)cr_dtype_size((cr_dtype)x->dtype);
    c->how.is32 = x->is32;
    c->how.wraps = x->wraps;
    memcpy(c->value, x->item, sizeof c->value);
    return place_set_numbered(c, x->numbered);
}

/* All dims are dims of entries. */
static bool place_whole(place_call *c, const cr_indexed *x)
{
    cr_space s;

    cr_space_start(&s, INDEX + 1);
    for (int d = 0; d < x->ndim; d++)
        place_add_dim(&s, x, d);
    return place_begin(c, x) && place_set_dims(c, &s);
}

/* Whether pairs of elements along the last dim are at addresses of one element of twice the
 * size. */
static bool place_has_pairs(const place_call *c)
{
    int64_t k = c->over.ndim - 1, wide = 2 * c->of.item;
    int64_t bits = (int64_t)(intptr_t)c->dense | (int64_t)(intptr_t)c->table | c->of.unit;

    if (k < 0 || c->of.item > 8 || !c->dense || c->rows.numbered >= 0 ||
        c->over.index_step[k] || c->over.size[k] % 2 || c->over.dense_step[k] != c->of.item ||
        c->over.table_step[k] != c->of.item)
        return false;
    for (int d = 0; d < k; d++)
        bits |= c->over.dense_step[d] | c->over.table_step[d];
    return bits % wide == 0;
}

static void place_join_pairs(place_call *c)
{
    int64_t k = c->over.ndim - 1;

    while (place_has_pairs(c)) {
        c->of.item *= 2;
        c->over.n /= 2;
        c->over.size[k] /= 2;
        c->over.dense_step[k] = c->over.table_step[k] = c->of.item;
    }
}

/* Destinations are multiples of c->grain bytes, which this sets; returns how many there are
 * from the first to the last, or 0 if steps are negative. */
static int64_t place_span(place_call *c)
{
    bool picks = c->index && c->rows.numbered < 0;
    int64_t span = picks ? (c->of.extent - 1) * c->of.unit : 0, grain = picks ? c->of.unit : 0;
    bool negative = span < 0;

    for (int d = 0; d < c->over.ndim; d++) {
        negative = negative || c->over.table_step[d] < 0;
        span += (c->over.size[d] - 1) * c->over.table_step[d];
        grain = cr_common_divisor(grain, c->over.table_step[d]);
    }
    for (int d = 0; d < c->rows.numbered; d++) {
        negative = negative || c->rows.nstep[d] < 0;
        span += (c->rows.nsize[d] - 1) * c->rows.nstep[d];
        grain = cr_common_divisor(grain, c->rows.nstep[d]);
    }
    c->of.grain = grain > 0 ? grain : c->of.item;
    return negative ? 0 : span / c->of.grain + 1;
}

static const char *place_late(place_call *c, int device, const cr_indexed *x)
{
    cr_cuda_late late;
    const char *error;

    if (!x->index)
        return NULL;
    error = cr_cuda_late_begin(&late, device, (cr_status)x->outside_kind,
                               x->outside ? x->outside : cr_index_outside);
    if (!error) {
        c->late = late.word;
        c->number = late.number;
    }
    return error;
}

/* --- reading --- */

/* Whether cp_pick reads the elements: those of rows, or of one dim, at indices of one dim. */
static bool place_picks(place_call *c)
{
    for (int d = 0; d < c->over.ndim; d++)
        c->divisor[d] = cr_cuda_divisor_of(c->over.size[d]);
    return c->index && c->rows.numbered < 0 && c->over.ndim > 0 && c->over.ndim <= 2 &&
           c->over.n <= INT32_MAX;
}

const char *cr_cuda_indexed(int device, const cr_indexed *x)
{
    place_call c;

    if (!place_whole(&c, x))
        return cr_command_declines;
    if (!c.over.n)
        return NULL;
    place_join_pairs(&c);
    const char *error = place_late(&c, device, x);
    return error ? error : place_launch(device, &c, place_picks(&c) ? PICK : READ);
}

/* --- writing --- */

/* A temporary block for the time of a command. */
static const char *place_get(void **out, int device, int64_t bytes, uint32_t *block)
{
    *out = cr_cuda_memory_get(device, (size_t)bytes, block);
    return *out ? NULL : cr_cuda_no_memory(device, (size_t)bytes);
}

/* Of the elements for one place, the last one is written. */
static const char *place_set(int device, place_call *c)
{
    int64_t span = place_span(c);
    const int zero = 0;
    uint32_t block;
    const char *error = place_get(&c->owner, device, span * 8, &block);

    if (error)
        return error;
    error = cr_cuda_fill(device, c->owner, &zero, 4, (size_t)span * 2);
    if (!error)
        error = place_launch(device, c, OWN);
    if (!error)
        error = place_launch(device, c, SET);
    cr_cuda_memory_release(device, c->owner, block);
    return error;
}

static const char *set_at_index(int device, const cr_indexed *x)
{
    place_call c;

    if (!place_whole(&c, x))
        return cr_command_declines;
    if (!c.over.n)
        return NULL;
    place_join_pairs(&c);
    if (!place_span(&c))
        return cr_command_declines;
    const char *error = place_late(&c, device, x);
    return error ? error : place_set(device, &c);
}

static const char *set_without_index(int device, const cr_indexed *x)
{
    cr_array table = {x->table, x->dtype, x->ndim, x->size, x->table_stride};
    cr_array dense = {x->dense, x->dtype, x->ndim, x->size, x->dense_stride};

    return x->dense ? cr_cuda_ops.move(device, &table, &dense)
                    : cr_cuda_ops.fill(device, &table, x->item);
}

/* Bytes of a result of a block: the type cp_cell of emit/place.cuh. */
static int64_t cell_bytes(int dtype)
{
    return dtype == CR_F16 || dtype == CR_BF16 || dtype == CR_F32 ? 4
           : dtype == CR_C128                                     ? 16
                                                                  : 8;
}

/* Memory for two lists of keys, of which the second becomes the list of blocks, and for the
 * results of the blocks of destinations of more than one. */
static const char *fold_memory(char **room, uint32_t *block, int device, place_call *c,
                               const cr_indexed *x)
{
    int64_t windows = x->index && c->over.n > PLACE_BLOCK ? c->over.n / PLACE_BLOCK + 1 : 0;
    int64_t bytes = 16 * c->over.n + 8 * (windows + 1), heads = 16 * c->over.n;
    void *at;

    bytes = (bytes + 15) / 16 * 16;
    const char *error = place_get(
        &at, device, bytes + 2 * windows * c->inner.columns * cell_bytes(x->dtype), block);
    if (error)
        return error;
    *room = at;
    c->keys = at;
    c->lists.blocks = (int64_t *)(void *)(*room + heads);
    c->lists.heads = windows ? c->lists.blocks + 1 : NULL;
    c->lists.parts = *room + bytes;
    return NULL;
}

/* Before the blocks of sorted keys are listed. */
static const char *fold_clear(int device, const place_call *c)
{
    int64_t windows = c->lists.heads ? c->over.n / PLACE_BLOCK + 1 : 0;
    const int zero = 0;

    return cr_cuda_fill(device, c->lists.blocks, &zero, 4, 2 * (size_t)(windows + 1));
}

/* Columns of 1 << lanes adjacent elements. */
static void fold_join_columns(place_call *c, int lanes)
{
    int64_t d = c->inner.cdim - 1;

    if (!lanes)
        return;
    c->inner.columns >>= lanes;
    c->inner.csize[d] >>= lanes;
    c->inner.cdense_step[d] <<= lanes;
    c->inner.ctable_step[d] <<= lanes;
}

/* The blocks of sorted keys; without an index, entries are combined one by one. */
static const char *fold_keys(int device, const place_call *given, const cr_indexed *x)
{
    static const int kernel[] = {FOLD_LIST, FOLD_BLOCKS, FOLD_RUNS};
    int lanes = x->index ? columns_lanes(given) : 0, launches = given->lists.heads ? 3 : 2;
    place_call c = *given;
    const char *error = NULL;

    if (!x->index)
        return combine_launch(device, &c, x, FOLD_BLOCKS, c.over.n * c.inner.columns);
    fold_join_columns(&c, lanes);
    int64_t blocks =
        c.over.n * c.inner.columns < FOLD_THREADS ? c.over.n * c.inner.columns : FOLD_THREADS;
    int64_t threads[] = {c.over.n, blocks, (c.over.n / PLACE_BLOCK + 1) * given->inner.columns};
    for (int i = 0; i < launches && !error; i++) {
        void *function;
        error = combine_find(&function, device, x, kernel[i], lanes, c.over.ndim == 1);
        if (!error)
            error = cr_cuda_launch_each(device, function, threads[i], &c);
    }
    return error;
}

static const char *fold_sorted(int device, place_call *c, const cr_indexed *x, int bits)
{
    uint32_t block;
    char *room = NULL;
    const char *error = fold_memory(&room, &block, device, c, x);

    if (error)
        return error;
    error = fold_clear(device, c);
    if (!error)
        error = place_launch(device, c, KEYS);
    if (!error) {
        uint64_t *spare = c->keys + c->over.n;
        error = cr_cuda_sort(device, &c->keys, &spare, c->over.n, c->how.shift, bits);
        c->lists.list = spare;
    }
    if (!error)
        error = fold_keys(device, c, x);
    cr_cuda_memory_release(device, room, block);
    return error;
}

/* --- after buckets: all of it in one launch, if one of them was full --- */

/* cp_rest_call of emit/place.cuh */
typedef struct {
    place_call place;
    cr_cuda_sort_call sort;
    int64_t words;
} rest_call;

/* The lists of keys change places in each pass. */
static void rest_set_lists(rest_call *r)
{
    uint64_t *keys = r->place.keys, *spare = keys + r->place.over.n;
    bool even = (r->sort.end - r->sort.shift + 7) / 8 % 2 == 0;

    r->sort.from = keys;
    r->sort.to = spare;
    r->place.keys = even ? keys : spare;
    r->place.lists.list = even ? spare : keys;
}

static const char *rest_launch(int device, const rest_call *r, const cr_indexed *x)
{
    rest_call c = *r;
    int lanes = columns_lanes(&c.place);
    cr_cuda_grid g = {
        .grid = {(unsigned)cr_cuda_together(device, REST_BLOCKS, REST_THREADS, REST_BYTES), 1},
        .block = {REST_THREADS, 1},
        .together = true};
    const char *error =
        combine_find(&g.function, device, x, REST, lanes, c.place.over.ndim == 1);

    fold_join_columns(&c.place, lanes);
    return error ? error : cr_cuda_launch(device, &g, &c);
}

/* Sorts and folds all entries if `held` says that a bucket was full. */
static const char *fold_rest(int device, const place_call *given, const cr_indexed *x, int bits)
{
    rest_call r = {.place = *given};
    uint32_t block, sort_block;
    char *room;
    void *sort_room;
    const char *error = fold_memory(&room, &block, device, &r.place, x);

    if (error)
        return error;
    r.words = cr_cuda_sort_begin(&r.sort, r.place.over.n, r.place.how.shift, bits);
    error = place_get(&sort_room, device, 4 * r.words, &sort_block);
    if (!error) {
        cr_cuda_sort_set_room(&r.sort, sort_room);
        rest_set_lists(&r);
        error = rest_launch(device, &r, x);
        cr_cuda_memory_release(device, sort_room, sort_block);
    }
    cr_cuda_memory_release(device, room, block);
    return error;
}

/* Counters of buckets, whether one was full, and the counter of cp_rest. */
static const char *held_get(int device, place_call *c, uint32_t *block)
{
    int64_t words = ((int64_t)c->buckets + 1) * HELD_APART;
    const int zero = 0;
    void *held;
    const char *error = place_get(&held, device, 4 * words, block);

    c->lists.held = held;
    return error ? error : cr_cuda_fill(device, held, &zero, 4, (size_t)words);
}

/* --- buckets --- */

/* As in emit/place.cuh.  Buckets have room for a quarter more entries than they have on
 * average, which is at most MANY; a destination has at most EACH on average. */
enum { BUCKET_MOST = 4096, BUCKET_THREADS = 512, BUCKET_ROOM = 8192, SPLIT_THREADS = 1024 };
enum { BUCKET_MANY = 4096, BUCKET_EACH = 32, BUCKET_LINES = 12, BUCKET_LEAST = 1 << 17 };
enum { BUCKET_KEPT = 4 << 10 /* bytes that the kernel declares, at most */ };
/* Entries of a tile, and the buckets that a tile may have, so that several neighbours of each
 * are written at once. */
enum {
    STAGE_ENTRIES = 4096,
    STAGE_BUCKETS = 512,
    STAGE_BYTES = STAGE_ENTRIES * 10 + BUCKET_MOST * 4 + 4,
    STAGE_NEAR_BYTES = STAGE_ENTRIES * 10 + STAGE_BUCKETS * 4 + 4
};
/* A thread sorts the entries of a destination where it has at most so many on average, and its
 * keys have room for an entry's number beside five bits. */
enum { SORTED_EACH = 16, SORTED_BITS = 27, SORTED_THREADS = 256 };
enum { BUCKET_SLOTS = 8192, SLOTS_MOST = 32 /* of a bucket; of a destination */ };

/* Whether an element, a number and a destination's place in its bucket are 64 bits. */
static bool bucket_packs(const place_call *c)
{
    return c->of.item <= 4 && c->how.shift + c->low <= 32;
}

/* CP_PACKED, with what a bucket's kernel does. */
static int bucket_how(const place_call *c, int kernel)
{
    bool few = c->over.n <= (int64_t)SORTED_EACH * c->spread && c->how.shift <= SORTED_BITS;

    return !bucket_packs(c) ? 0 : kernel == BUCKET && few ? 2 : 1;
}

/* Shared memory: elements, numbers, lines and order of entries, and where lines start; slots
 * instead of them, or these without lines, with two counters and a place in a list for each
 * destination (cp_slots_of). */
static int bucket_bytes(const place_call *c)
{
    int item = (int)c->of.item, each = BUCKET_SLOTS >> c->low;
    int held = ((each < SLOTS_MOST ? each : SLOTS_MOST) << c->low) * (4 + item);
    int ordered = c->room * (6 + item), plain = c->room * (8 + item) + ((1 << c->low) + 1) * 4;
    int slots = (held > ordered ? held : ordered) + 10 * (1 << c->low) + 4;

    return bucket_how(c, BUCKET) == 2 ? slots : plain;
}

/* True if no two positions have one place: each dim's step, in either direction, is beyond the
 * dims of smaller steps. */
static bool steps_differ(int n, const int64_t *size, const int64_t *step, int64_t item)
{
    uint64_t left = ((uint64_t)1 << n) - 1;

    while (left) {
        int64_t least = INT64_MAX;
        int best = -1;
        for (int d = 0; d < n; d++)
            if (left >> d & 1 && (best < 0 || llabs(step[d]) < least)) {
                best = d;
                least = llabs(step[d]);
            }
        left &= ~((uint64_t)1 << best);
        if (least < item)
            return false;
        item += (size[best] - 1) * least;
    }
    return true;
}

/* Where the index does not pick neighbours, destinations may be numbered along the lines from
 * which it picks: then entries of one line have few buckets.  Returns how many destinations
 * there are, or 0. */
static int64_t bucket_lines(place_call *c)
{
    int64_t size[PLACE_DIMS + 1], step[PLACE_DIMS + 1], all = c->of.extent;
    bool apart = false;
    int n = 0;

    if (c->rows.numbered >= 0)
        return 0;
    for (int d = 0; d < c->over.ndim; d++) {
        if (!c->over.table_step[d] || c->over.size[d] == 1)
            continue;
        c->line.lsize[n] = size[n] = c->over.size[d];
        c->line.lstep[n] = step[n] = c->over.table_step[d];
        apart = apart || step[n] < c->of.unit;
        all *= size[n++];
    }
    c->line.ldim = n;
    c->line.line_unit = size[n] = c->of.unit;
    size[n] = c->of.extent;
    step[n] = c->of.unit;
    return apart && steps_differ(n + 1, size, step, c->of.item) ? all : 0;
}

/* Sets the buckets of `span` destinations; false where entries are sorted. */
static bool bucket_shape(place_call *c, int device, const cr_indexed *x, int64_t span)
{
    int64_t lined = x->index ? bucket_lines(c) : 0;

    c->how.lined = lined > 0;
    span = lined ? lined : span;
    c->spread = span;
    if (!x->index || c->inner.columns != 1 || c->over.n < BUCKET_LEAST ||
        c->over.n > INT32_MAX || span > INT32_MAX || c->over.n / span >= BUCKET_EACH)
        return false;
    c->low = 0;
    while (c->low < BUCKET_LINES && (c->over.n << (c->low + 1)) / span <= BUCKET_MANY)
        c->low++;
    int64_t buckets = (span >> c->low) + 1, room = c->over.n / buckets * 5 / 4 + BUCKET_THREADS;
    c->buckets = (int)buckets;
    c->room = (int)(room < BUCKET_ROOM ? room / 8 * 8 : BUCKET_ROOM);
    return buckets <= BUCKET_MOST &&
           bucket_bytes(c) + BUCKET_KEPT <= cr_cuda_shared_most(device);
}

/* Destinations are counted along lines, whose numbers are row-major. */
static void bucket_number_lines(place_call *c)
{
    int64_t step = c->of.extent;
    int n = (int)c->line.ldim;

    for (int d = (int)c->over.ndim - 1; d >= 0; d--) {
        bool is_line = c->over.table_step[d] && c->over.size[d] > 1;
        c->over.table_step[d] = is_line ? step : 0;
        if (is_line)
            step *= c->line.lsize[--n];
    }
    c->of.unit = 1;
}

/* Dims in the order of the index's memory, the fastest last; `number_step` keeps the order in
 * which entries are numbered.  Steps of destinations count them. */
static void bucket_order(place_call *c)
{
    int64_t step = 1;

    if (c->how.lined)
        bucket_number_lines(c);
    else {
        c->of.unit /= c->of.grain;
        for (int d = 0; d < c->over.ndim; d++)
            c->over.table_step[d] /= c->of.grain;
    }
    for (int d = 0; d < c->rows.numbered; d++)
        c->rows.nstep[d] /= c->of.grain;

    for (int d = (int)c->over.ndim - 1; d >= 0; step *= c->over.size[d--])
        c->number_step[d] = step;
    for (int d = 1; d < c->over.ndim; d++)
        for (int k = d; k && llabs(c->over.index_step[k - 1]) < llabs(c->over.index_step[k]);
             k--) {
            int64_t *const list[] = {c->over.size, c->over.dense_step, c->over.table_step,
                                     c->over.index_step, c->number_step};
            for (size_t i = 0; i < CR_LEN(list); i++) {
                int64_t other = list[i][k];
                list[i][k] = list[i][k - 1];
                list[i][k - 1] = other;
            }
        }
}

/* Whether tiles have so few buckets that their entries are put in order first: `lines` is how
 * many lines of destinations a tile has. */
static bool bucket_stages(const place_call *c, int device)
{
    int last = (int)c->over.ndim - 1;
    int64_t lines = c->how.lined ? 1 << c->by.wide : STAGE_ENTRIES / c->over.size[last] + 2;

    if (STAGE_BYTES + BUCKET_KEPT > cr_cuda_shared_most(device) || !bucket_packs(c) ||
        c->rows.numbered >= 0 || (!c->how.lined && c->over.table_step[last]))
        return false;
    return lines * ((c->of.extent * (c->how.lined ? 1 : c->of.unit) >> c->low) + 2) <=
           STAGE_BUCKETS;
}

/* Sets tiles of parts of the fastest dim, if entries of its elements are of different lines.  A
 * part has the elements of 32 bytes, and fewer lines where those have too many buckets. */
static void bucket_tiles(place_call *c, int device)
{
    int last = (int)c->over.ndim - 1;
    bool parts = c->how.lined && last > 0 && c->over.table_step[last];

    c->by.wide = parts ? 3 : 0;
    if (parts && !bucket_stages(c, device))
        c->by.wide = 2;
    c->by.fast = parts ? (int)c->over.size[last] : 1;
    c->by.groups = (c->by.fast + (1 << c->by.wide) - 1) >> c->by.wide;
    c->by.stage_rows = (int)(c->over.n / c->by.fast);
}

/* CP_FLAT of such tiles. */
static bool bucket_is_flat(const place_call *c)
{
    return c->over.ndim == (c->by.fast > 1 ? 2 : 1);
}

/* CP_NEAR: a tile has neighbouring lines, or one. */
static bool bucket_is_near(const place_call *c)
{
    return bucket_is_flat(c) && !c->over.table_step[0] &&
           (c->by.fast > 1 ? c->over.table_step[1] == c->of.extent
                           : c->buckets <= STAGE_BUCKETS);
}

static const char *bucket_launch(int device, place_call *c, const cr_indexed *x, int kernel)
{
    cr_cuda_grid g = {.grid = {(unsigned)c->buckets, 1}, .block = {BUCKET_THREADS, 1}};
    cr_cuda_text k = {.print = combine_print,
                      .device = device,
                      .part = CR_VEC_CUDA_PLACE,
                      .a = (int)x->how,
                      .b = x->dtype,
                      .c = 4 * bucket_how(c, kernel),
                      .d = 4 * kernel};

    if (kernel == STAGE)
        k.c += 2 * bucket_is_flat(c) + 16 * bucket_is_near(c) + 32 * c->how.is32;
    const char *error = cr_cuda_find(&g.function, &k);

    if (kernel == STAGE) {
        int64_t rows = STAGE_ENTRIES >> c->by.wide;
        g.grid[0] = (unsigned)((c->by.stage_rows + rows - 1) / rows * c->by.groups);
        g.shared = bucket_is_near(c) ? STAGE_NEAR_BYTES : STAGE_BYTES;
    } else if (kernel == SPLIT) {
        g.grid[0] = (unsigned)((c->over.n + BUCKET_ROOM - 1) / BUCKET_ROOM);
        g.block[0] = SPLIT_THREADS;
    } else {
        g.shared = (unsigned)bucket_bytes(c);
        g.block[0] = bucket_how(c, kernel) == 2 ? SORTED_THREADS : BUCKET_THREADS;
    }
    return error ? error : cr_cuda_launch(device, &g, c);
}

/* Folds all entries, or notes in `held` that a bucket had too many. */
static const char *bucket_run(int device, const place_call *given, const cr_indexed *x)
{
    place_call c = *given;
    int64_t places = (int64_t)c.buckets * c.room;
    uint32_t block;
    void *room;
    int64_t entry = bucket_packs(&c) ? 8 : 8 + c.of.item;
    const char *error = place_get(&room, device, places * entry, &block);

    if (error)
        return error;
    c.keys = room;
    c.lists.elements = (char *)(c.keys + places);
    bucket_order(&c);
    bucket_tiles(&c, device);
    error = bucket_launch(device, &c, x, bucket_stages(&c, device) ? STAGE : SPLIT);
    if (!error)
        error = bucket_launch(device, &c, x, BUCKET);
    cr_cuda_memory_release(device, room, block);
    return error;
}

static const char *fold_buckets(int device, place_call *c, const cr_indexed *x, int bits)
{
    uint32_t block;
    const char *error = held_get(device, c, &block);

    if (!c->lists.held)
        return error;
    if (!error)
        error = bucket_run(device, c, x);
    if (!error)
        error = fold_rest(device, c, x, bits);
    cr_cuda_memory_release(device, c->lists.held, block);
    return error;
}

/* --- small buckets of numbers --- */

/* Entries of a bucket on average, and destinations of a bucket as a power of two; a word has a
 * destination in its bucket and a number. */
enum { ROWS_LEAST = 16, ROWS_MOST = 128, ROWS_BUCKETS = 2048, ROWS_LINES = 20, ROWS_WORD = 32 };
enum { ROWS_ROOM = 384, ROWS_COUNTERS = 1 << 14, ROWS_THREADS = 256, ROWS_PART = 64 };

/* Sets the buckets of `span` destinations; false where entries are sorted. */
static bool rows_shape(place_call *c, const cr_indexed *x, int64_t span)
{
    int64_t goal = c->over.n / ROWS_BUCKETS;

    c->how.lined = 0;
    if (!x->index || c->over.n <= CR_CUDA_SORT_FEW || c->over.n > INT32_MAX ||
        span > INT32_MAX || c->over.n / span >= BUCKET_EACH)
        return false;
    goal = goal < ROWS_LEAST ? ROWS_LEAST : goal > ROWS_MOST ? ROWS_MOST : goal;
    c->low = 0;
    while (c->low < ROWS_LINES &&
           ((c->over.n << (c->low + 1)) / span <= goal || span >> c->low >= ROWS_COUNTERS))
        c->low++;
    int64_t buckets = (span >> c->low) + 1, room = c->over.n / buckets * 5 / 4 + ROWS_ROOM;
    c->buckets = (int)buckets;
    c->room = (int)(room / 8 * 8);
    return c->how.shift + c->low <= ROWS_WORD && buckets <= ROWS_COUNTERS + 1 &&
           c->inner.columns <= (int64_t)ROWS_PART * UINT16_MAX;
}

static const char *rows_launch(int device, const place_call *given, const cr_indexed *x)
{
    int lanes = columns_lanes(given);
    place_call c = *given;
    void *function;
    const char *error = combine_find(&function, device, x, DEAL, 0, false);

    if (!error)
        error = cr_cuda_launch_each(device, function, c.over.n, &c);
    if (error)
        return error;
    fold_join_columns(&c, lanes);
    cr_cuda_grid g = {.grid = {(unsigned)c.buckets,
                               (unsigned)((c.inner.columns + ROWS_PART - 1) / ROWS_PART)},
                      .block = {ROWS_THREADS, 1},
                      .shared = 12 * (unsigned)c.room};
    error = combine_find(&g.function, device, x, ROWS, lanes, c.over.ndim == 1);
    return error ? error : cr_cuda_launch(device, &g, &c);
}

static const char *fold_rows(int device, place_call *c, const cr_indexed *x, int bits)
{
    uint32_t block, words_block;
    void *words;
    const char *error = held_get(device, c, &block);

    if (!c->lists.held)
        return error;
    if (!error)
        error = place_get(&words, device, 4 * (int64_t)c->buckets * c->room, &words_block);
    if (!error) {
        c->keys = words;
        error = rows_launch(device, c, x);
        cr_cuda_memory_release(device, words, words_block);
    }
    if (!error)
        error = fold_rest(device, c, x, bits);
    cr_cuda_memory_release(device, c->lists.held, block);
    return error;
}

/* True for a dim of entries. */
static bool is_entry_dim(const cr_indexed *x, int d)
{
    return x->picked >> d & 1 || (x->index && x->index_stride[d]);
}

/* Entries and columns. */
static bool place_divided(place_call *c, const cr_indexed *x)
{
    cr_space entries, columns;

    cr_space_start(&entries, INDEX + 1);
    cr_space_start(&columns, INDEX + 1);
    for (int d = 0; d < x->ndim; d++)
        if (is_entry_dim(x, d) && !(x->picked >> d & 1))
            place_add_dim(&entries, x, d);
    for (int d = 0; d < x->ndim; d++)
        if (x->picked >> d & 1)
            place_add_dim(&entries, x, d);
        else if (!is_entry_dim(x, d))
            place_add_dim(&columns, x, d);
    return place_begin(c, x) && place_set_dims(c, &entries) && place_set_columns(c, &columns);
}

static const char *combine_entries(int device, const cr_indexed *x)
{
    place_call c;
    int64_t span;

    if (!place_divided(&c, x))
        return cr_command_declines;
    if (!c.over.n || !c.inner.columns)
        return NULL;
    span = place_span(&c);
    c.how.shift = cr_digits(c.over.n);
    /* Keys of entries outside have ones in all bits that are sorted. */
    int bits = cr_digits(span + 1);
    if (!span || bits + c.how.shift > PLACE_WORD || c.over.n > CR_CUDA_SORT_MOST)
        return cr_command_declines;
    const char *error = place_late(&c, device, x);
    if (error)
        return error;
    return bucket_shape(&c, device, x, span) ? fold_buckets(device, &c, x, bits)
           : rows_shape(&c, x, span)         ? fold_rows(device, &c, x, bits)
                                             : fold_sorted(device, &c, x, bits);
}

/* Few destinations of many entries. */
static const char *sum_cells(int device, place_call *c, const cr_indexed *x)
{
    int64_t blocks = (c->over.n + CELLS_ENTRIES - 1) / CELLS_ENTRIES;
    cr_cuda_grid g = {.grid = {(unsigned)(blocks < CELLS_BLOCKS ? blocks : CELLS_BLOCKS), 1},
                      .block = {CELLS_THREADS, 1}};
    const char *error = combine_find(&g.function, device, x, CELLS, 0, false);

    return error ? error : cr_cuda_launch(device, &g, c);
}

/* Sums of integers need no order. */
static const char *sum_integers(int device, const cr_indexed *x)
{
    place_call c;

    if (!place_whole(&c, x))
        return cr_command_declines;
    if (!c.over.n)
        return NULL;
    c.inner.columns = place_span(&c);
    const char *error = place_late(&c, device, x);
    if (error)
        return error;
    return c.inner.columns && c.inner.columns <= PLACE_CELLS && c.over.n > c.inner.columns
               ? sum_cells(device, &c, x)
               : combine_launch(device, &c, x, SUM, c.over.n);
}

static const char *combine_each(int device, const cr_indexed *x)
{
    place_call c;

    if (!place_whole(&c, x))
        return cr_command_declines;
    if (!c.over.n)
        return NULL;
    return steps_differ((int)c.over.ndim, c.over.size, c.over.table_step, c.of.item)
               ? combine_launch(device, &c, x, FOLD_EACH, c.over.n)
               : combine_entries(device, x);
}

/* Complex numbers have no order. */
static bool has_kernel(const cr_indexed *x)
{
    bool orders = x->how == CR_COMBINE_MIN || x->how == CR_COMBINE_MAX;

    return x->dtype < CR_DTYPE_KERNELS && !(orders && cr_dtype_is_complex((cr_dtype)x->dtype));
}

const char *cr_cuda_combine(int device, const cr_indexed *x)
{
    if (x->how == CR_COMBINE_SET)
        return x->index ? set_at_index(device, x) : set_without_index(device, x);
    if (!has_kernel(x))
        return cr_command_declines;
    if (x->index && x->how == CR_COMBINE_ADD && (x->dtype == CR_I32 || x->dtype == CR_I64))
        return sum_integers(device, x);
    return x->index ? combine_entries(device, x) : combine_each(device, x);
}
