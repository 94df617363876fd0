/* Copies, conversions and fills of elements on NVIDIA devices; the kernels are in
 * emit/move.cuh.
 *
 * Dims are in the order of the destination's memory.  Neighbouring elements that are next to
 * each other on both sides are moved as one element of up to 16 bytes.  Where source and
 * destination are dense along different dims, blocks of threads move tiles through shared
 * memory, so that both sides have long accesses. */
#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/commands.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/product.h"
#include "num/convert.h"
#include "num/dtype.h"
#include "space/space.h"
#include <stdio.h>
#include <string.h>

enum {
    MOVE_DIMS = 8,
    MOVE_MOST_DIMS = 64,
    MOVE_BLOCK = 256,
    MOVE_BLOCKS = 1 << 30,
    MOVE_WIDEST = 16, /* bytes of an access */
    MOVE_TURNED = 8,  /* the least sizes of dims that are moved by tiles */
    MOVE_COPIES = 4   /* CM_COPIES */
};

/* cm_call of emit/move.cuh */
typedef struct {
    char *to;
    const char *from;
    int64_t n, ndim, size[MOVE_DIMS], to_step[MOVE_DIMS], from_step[MOVE_DIMS];
    _Alignas(16) char item[16];
} move_call;

/* cm_turn_call of emit/move.cuh: along t the destination is dense, along f the source. */
typedef struct {
    char *to;
    const char *from;
    int64_t tiles, tiles_f, tiles_t, nf, nt, f_to, t_from;
    int64_t ndim, size[MOVE_DIMS], to_step[MOVE_DIMS], from_step[MOVE_DIMS];
    int reads_packs, writes_packs;
} turn_call;

enum {
    MOVE_COPY = -1,
    MOVE_FILL = -2,
    MOVE_TURN = -3,
    MOVE_TRIANGLE = -4,
    MOVE_ROWS = -5,
    MOVE_LIST = -6
};

static int64_t move_least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t move_parts(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* --- texts --- */

/* a and b are dtypes; or a is bytes of an element, and b one of the numbers above. */
static void move_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    static const char *const name[] = {"copy",     "fill",         "turn",
                                       "triangle", "triangle_row", "list"};

    if (k->b >= 0) {
        cr_text_printf(out, "#define CM_TO cm_%s\n#define CM_FROM cm_%s\n",
                       cr_dtype_infos[k->a].suffix, cr_dtype_infos[k->b].suffix);
        snprintf(symbol, 32, "cm_convert");
    } else {
        snprintf(symbol, 32, "cm_%s%d", name[-1 - k->b], k->a);
    }
}

static const char *move_find(void **out, int index, int a, int b)
{
    return cr_cuda_find(
        out,
        &(cr_cuda_text){
            .print = move_print, .device = index, .part = CR_VEC_CUDA_MOVE, .a = a, .b = b});
}

/* --- dims --- */

enum { TO, FROM };

/* The dims of a copy, or without `from_stride` of a fill, in the order of the destination's
 * memory; steps in bytes. */
static void move_set_dims(cr_space *s, const cr_array *to, const int64_t *from_stride,
                          int64_t to_item, int64_t from_item)
{
    cr_space_start(s, 2);
    for (int d = 0; d < to->ndim; d++) {
        int64_t *step = cr_space_add(s, to->size[d], d);
        step[TO] = to->stride[d] * to_item;
        step[FROM] = from_stride ? from_stride[d] * from_item : 0;
    }
    cr_space_order(s);
    cr_space_merge(s, 0);
}

static bool move_is_dense(const cr_space *s, int operand, int64_t item)
{
    return !s->ndim || (s->ndim == 1 && s->dim->step[operand] == item);
}

/* The bits of all steps but those of the dims `t` and `f`, and of an address. */
static int64_t move_bits(const cr_space *s, int operand, const void *at, int t, int f)
{
    int64_t bits = (int64_t)(intptr_t)at;

    for (int d = 0; d < s->ndim; d++)
        if (d != t && d != f)
            bits |= s->dim[d].step[operand];
    return bits;
}

/* True if pairs of elements along the last dim are at addresses of one element of twice the
 * size.  A fill reads nothing. */
static bool move_has_pairs(const cr_space *s, const move_call *c, int64_t item)
{
    int last = s->ndim - 1;
    int64_t bits = last < 0 ? 1 : move_bits(s, TO, c->to, last, last);

    if (last < 0 || item >= MOVE_WIDEST || s->dim[last].size % 2 ||
        s->dim[last].step[TO] != item || (c->from && s->dim[last].step[FROM] != item))
        return false;
    if (c->from)
        bits |= move_bits(s, FROM, c->from, last, last);
    return bits % (2 * item) == 0;
}

/* Joins pairs as long as there are some; returns the bytes of an element. */
static int64_t move_join_pairs(cr_space *s, move_call *c, int64_t item)
{
    while (move_has_pairs(s, c, item)) {
        cr_space_dim *last = &s->dim[s->ndim - 1];
        memcpy(c->item + item, c->item, (size_t)item);
        item *= 2;
        last->size /= 2;
        last->step[TO] = item;
        last->step[FROM] = c->from ? item : 0;
        if (last->size == 1)
            cr_space_remove(s, s->ndim - 1);
    }
    return item;
}

/* --- launches --- */

/* A thread takes `each` elements, eight of a dense conversion. */
static const char *move_launch(int index, void *function, move_call *c, int each)
{
    cr_cuda_grid g = {.function = function, .grid = {1, 1}, .block = {MOVE_BLOCK, 1}};

    each = c->ndim == 1 ? 8 : each;
    g.grid[0] = (unsigned)move_least(MOVE_BLOCKS, move_parts(c->n, each * MOVE_BLOCK));
    return cr_cuda_launch(index, &g, c);
}

/* Runs the kernel once, or, beyond MOVE_DIMS dims, once for each index of the outer dims. */
static const char *move_dims(int index, void *function, move_call *c, const cr_space *s,
                             int each)
{
    int outer = s->ndim > MOVE_DIMS ? s->ndim - MOVE_DIMS : 0;
    int64_t launches = cr_space_count(s, outer);
    const char *error = NULL;
    cr_place p;

    c->n = 1;
    c->ndim = s->ndim ? s->ndim - outer : 1;
    for (int d = 0; d < c->ndim; d++) {
        const cr_space_dim *dim = cr_space_last(s, (int)c->ndim - 1 - d);
        c->size[d] = dim->size;
        c->to_step[d] = dim->step[TO];
        c->from_step[d] = dim->step[FROM];
        c->n *= dim->size;
    }
    cr_place_seek(&p, s, outer, (char *[2]){c->to, (char *)(uintptr_t)c->from}, 0);
    for (int64_t i = 0; i < launches && c->n && !error; i++, cr_place_next(&p, s, outer)) {
        c->to = p.at[TO];
        c->from = p.at[FROM];
        error = move_launch(index, function, c, each);
    }
    return error;
}

/* --- tiles --- */

/* The dim along which the source is dense, if it is moved by tiles; or else -1. */
static int turn_dim(const cr_space *s, int64_t item)
{
    int t = s->ndim - 1;

    if (s->ndim < 2 || s->ndim - 2 > MOVE_DIMS || s->dim[t].step[TO] != item ||
        s->dim[t].size < MOVE_TURNED)
        return -1;
    for (int f = 0; f < t; f++)
        if (s->dim[f].step[FROM] == item && s->dim[f].size >= MOVE_TURNED)
            return f;
    return -1;
}

static void turn_set_dims(turn_call *c, const cr_space *s, int t, int f)
{
    c->nt = s->dim[t].size;
    c->nf = s->dim[f].size;
    c->f_to = s->dim[f].step[TO];
    c->t_from = s->dim[t].step[FROM];
    for (int d = 0; d < t; d++) {
        if (d == f)
            continue;
        c->size[c->ndim] = s->dim[d].size;
        c->to_step[c->ndim] = s->dim[d].step[TO];
        c->from_step[c->ndim++] = s->dim[d].step[FROM];
    }
}

/* Tiles have 32 times `pack` elements a side (cm_turn of emit/move.cuh). */
static const char *turn_run(int index, const move_call *m, const cr_space *s, int64_t item,
                            int f)
{
    int t = s->ndim - 1, pack = item < 4 ? (int)(4 / item) : 1;
    turn_call c = {.to = m->to, .from = m->from};
    cr_cuda_grid g = {.grid = {1, 1}, .block = {MOVE_BLOCK, 1}};
    const char *error = move_find(&g.function, index, (int)item, MOVE_TURN);

    turn_set_dims(&c, s, t, f);
    c.tiles_f = move_parts(c.nf, 32 * pack);
    c.tiles_t = move_parts(c.nt, 32 * pack);
    c.tiles = c.tiles_f * c.tiles_t;
    for (int d = 0; d < c.ndim; d++)
        c.tiles *= c.size[d];
    c.reads_packs = move_bits(s, FROM, c.from, f, f) % (item * pack) == 0;
    c.writes_packs = move_bits(s, TO, c.to, t, t) % (item * pack) == 0;
    g.grid[0] = (unsigned)move_least(MOVE_BLOCKS, c.tiles);
    return error ? error : cr_cuda_launch(index, &g, &c);
}

/* --- the commands --- */

static int64_t item_bytes(const cr_array *a)
{
    return (int64_t)cr_dtype_size((cr_dtype)a->dtype);
}

static const char *move_same(int index, move_call *c, cr_space *s, int64_t item)
{
    void *function;
    int f = turn_dim(s, item);

    if (f >= 0)
        return turn_run(index, c, s, item, f);
    item = move_join_pairs(s, c, item);
    const char *error = move_find(&function, index, (int)item, MOVE_COPY);
    return error ? error : move_dims(index, function, c, s, MOVE_COPIES);
}

static const char *move_elements(int index, const cr_array *to, const cr_array *from)
{
    int64_t to_item = item_bytes(to), from_item = item_bytes(from);
    bool same = to->dtype == from->dtype;
    move_call c = {.to = to->data, .from = from->data};
    void *function;
    cr_space s;

    move_set_dims(&s, to, from->stride, to_item, from_item);
    if (same && move_is_dense(&s, TO, to_item) && move_is_dense(&s, FROM, from_item))
        return cr_cuda_table()->copy(index, to->data, from->data,
                                     (size_t)(cr_space_last(&s, 0)->size * to_item));
    if (same)
        return move_same(index, &c, &s, to_item);
    const char *error = move_find(&function, index, to->dtype, from->dtype);
    return error ? error : move_dims(index, function, &c, &s, 1);
}

/* --- conversions on the host, for dtypes without kernels --- */

/* A dense array at `data` with the sizes of `like`; the caller owns `stride`. */
static cr_array move_dense(const cr_array *like, int dtype, char *data, int64_t *stride)
{
    cr_dense_strides(stride, like->ndim, like->size);
    return (cr_array){data, dtype, like->ndim, like->size, stride};
}

static const char *move_through_host(int index, const cr_array *to, const cr_array *from)
{
    const cr_device_ops *ops = cr_cuda_table();
    int64_t stride[MOVE_MOST_DIMS], n = cr_numel(to->ndim, to->size);
    int64_t to_item = item_bytes(to), from_item = item_bytes(from);
    size_t most = (size_t)(n * (to_item > from_item ? to_item : from_item));
    char *host = cr_alloc((size_t)(n * (to_item + from_item)) + 1);
    uint32_t block;
    char *there = host ? ops->get(index, most, &block) : NULL;
    const char *error = there  ? NULL
                        : host ? cr_cuda_no_memory(index, most)
                               : cr_error_message();

    if (!error) {
        cr_array dense = move_dense(to, from->dtype, there, stride);
        error = move_elements(index, &dense, from);
    }
    if (!error)
        error = ops->copy_out(index, host, there, (size_t)(n * from_item));
    if (!error) {
        char *made = host + n * from_item;
        cr_array dense = move_dense(to, to->dtype, there, stride);
        cr_convert_row((cr_dtype)to->dtype, (cr_dtype)from->dtype)(made, to_item, host,
                                                                   from_item, n);
        error = ops->copy_in(index, there, made, (size_t)(n * to_item));
        if (!error)
            error = move_elements(index, to, &dense);
    }
    if (there)
        ops->release(index, there, block);
    cr_free(host);
    return error;
}

const char *cr_cuda_move(int index, const cr_array *to, const cr_array *from)
{
    bool stored =
        cr_dtype_is_stored((cr_dtype)to->dtype) || cr_dtype_is_stored((cr_dtype)from->dtype);

    if (!cr_numel(to->ndim, to->size))
        return NULL;
    return stored && to->dtype != from->dtype ? move_through_host(index, to, from)
                                              : move_elements(index, to, from);
}

/* --- lists of copies --- */

enum { LIST_PIECES = 64 /* CM_PIECES */, LIST_SIZES = 5 /* 1, 2, 4, 8 and 16 bytes */ };

/* cm_piece of emit/move.cuh */
typedef struct {
    char *to;
    const char *from;
    int64_t to_step, from_step;
    uint32_t n, columns, first;
    cr_cuda_divisor over;
} list_piece;

/* cm_list_call of emit/move.cuh */
typedef struct {
    int64_t pieces;
    list_piece of[LIST_PIECES];
} list_call;

/* Pieces of one size of elements that wait for a launch. */
typedef struct {
    list_call call;
    int64_t blocks;
} list_waiting;

static const char *list_run(int index, list_waiting *w, int64_t item)
{
    cr_cuda_grid g = {.grid = {(unsigned)w->blocks, 1}, .block = {MOVE_BLOCK, 1}};
    const char *error = w->blocks ? move_find(&g.function, index, (int)item, MOVE_LIST) : NULL;

    if (!error && w->blocks)
        error = cr_cuda_launch(index, &g, &w->call);
    w->call.pieces = w->blocks = 0;
    return error;
}

/* Sets a piece, and the bytes of its elements, of a copy that has rows of dense elements;
 * false for other copies. */
static bool list_set(list_piece *p, int64_t *item, const cr_array *to, const cr_array *from)
{
    move_call c = {.to = to->data, .from = from->data};
    cr_space s;

    *item = item_bytes(to);
    move_set_dims(&s, to, from->stride, *item, *item);
    if (to->dtype != from->dtype || !s.ndim || s.ndim > 2 || turn_dim(&s, *item) >= 0)
        return false;
    const cr_space_dim *last = cr_space_last(&s, 0);
    if (last->step[TO] != *item || last->step[FROM] != *item)
        return false;
    *item = move_join_pairs(&s, &c, *item);
    int64_t n = cr_space_count(&s, s.ndim), columns = 1;
    bool rows = s.ndim == 2 ||
                (s.ndim == 1 && (s.dim->step[TO] != *item || s.dim->step[FROM] != *item));
    if (s.ndim > rows)
        columns = cr_space_last(&s, 0)->size;
    if (n > INT32_MAX)
        return false;
    *p = (list_piece){.to = c.to,
                      .from = c.from,
                      .to_step = rows ? s.dim->step[TO] : 0,
                      .from_step = rows ? s.dim->step[FROM] : 0,
                      .n = (uint32_t)n,
                      .columns = (uint32_t)columns,
                      .over = cr_cuda_divisor_of(columns)};
    return true;
}

static const char *list_add(int index, list_waiting *w, const list_piece *p, int64_t item)
{
    int64_t blocks = move_parts(p->n, MOVE_BLOCK * MOVE_COPIES);
    const char *error = NULL;

    if (w->call.pieces == LIST_PIECES || w->blocks + blocks > MOVE_BLOCKS)
        error = list_run(index, w, item);
    w->call.of[w->call.pieces] = *p;
    w->call.of[w->call.pieces++].first = (uint32_t)w->blocks;
    w->blocks += blocks;
    return error;
}

/* Copies of dense rows share launches, one for each size of elements. */
const char *cr_cuda_move_list(int index, const cr_array *to, const cr_array *from, int n)
{
    list_waiting waiting[LIST_SIZES];
    const char *error = NULL;

    if (n == 1)
        return cr_cuda_move(index, to, from);
    for (int k = 0; k < LIST_SIZES; k++)
        waiting[k].call.pieces = waiting[k].blocks = 0;
    for (int i = 0; i < n && !error; i++) {
        list_piece p;
        int64_t item;
        if (!cr_numel(to[i].ndim, to[i].size))
            continue;
        error = list_set(&p, &item, &to[i], &from[i])
                    ? list_add(index, &waiting[CR_CTZ64((uint64_t)item)], &p, item)
                    : cr_cuda_move(index, &to[i], &from[i]);
    }
    for (int k = 0; k < LIST_SIZES && !error; k++)
        error = list_run(index, &waiting[k], INT64_C(1) << k);
    return error;
}

/* --- triangles: (self, diagonal) --- */

/* True if rows are adjacent elements that accesses of MOVE_WIDEST bytes divide. */
static bool triangle_has_rows(const move_call *c, int64_t item)
{
    int64_t d = c->ndim - 1, bits = (int64_t)(intptr_t)c->to | (int64_t)(intptr_t)c->from;

    for (int64_t k = 0; k < d; k++)
        bits |= c->to_step[k] | c->from_step[k];
    return item < MOVE_WIDEST && c->to_step[d] == item && c->from_step[d] == item &&
           (bits | c->size[d] * item) % MOVE_WIDEST == 0;
}

static const char *triangle_launch(int index, move_call *c, int64_t item)
{
    bool rows = triangle_has_rows(c, item);
    void *function;

    if (rows) {
        c->n = c->n * item / MOVE_WIDEST;
        c->size[c->ndim - 1] = c->size[c->ndim - 1] * item / MOVE_WIDEST;
        c->to_step[c->ndim - 1] = c->from_step[c->ndim - 1] = MOVE_WIDEST;
    }
    const char *error =
        move_find(&function, index, (int)item, rows ? MOVE_ROWS : MOVE_TRIANGLE);
    return error ? error : move_launch(index, function, c, 1);
}

/* The kernel walks the result's dims without merging them.  Results with more dims than the
 * call has room for are left to the composition. */
static const char *move_triangle(int index, const cr_given *arg, const cr_array *to, bool upper)
{
    const cr_array *self = &arg[0].array;
    move_call c = {.to = to->data,
                   .from = self->data,
                   .n = cr_numel(to->ndim, to->size),
                   .ndim = to->ndim};
    const int64_t side[2] = {arg[1].i, upper};
    int64_t item = item_bytes(to);

    if (arg[0].kind != CR_GIVEN_ARRAY || arg[1].kind != CR_GIVEN_INT ||
        self->dtype != to->dtype || self->ndim != to->ndim || to->ndim < 2 ||
        to->ndim > MOVE_DIMS)
        return cr_command_declines;
    for (int d = 0; d < to->ndim; d++) {
        c.size[d] = to->size[d];
        c.to_step[d] = to->stride[d] * item;
        c.from_step[d] = self->stride[d] * item;
    }
    if (!c.n)
        return NULL;
    memcpy(c.item, side, sizeof side);
    return triangle_launch(index, &c, item);
}

const char *cr_cuda_tril(int index, const cr_given *arg, const cr_array *result)
{
    return move_triangle(index, arg, result, false);
}

const char *cr_cuda_triu(int index, const cr_given *arg, const cr_array *result)
{
    return move_triangle(index, arg, result, true);
}

const char *cr_cuda_fill_array(int index, const cr_array *to, const void *element)
{
    int64_t item = item_bytes(to);
    move_call c = {.to = to->data};
    void *function;
    cr_space s;

    if (!cr_numel(to->ndim, to->size))
        return NULL;
    move_set_dims(&s, to, NULL, item, 0);
    if (move_is_dense(&s, TO, item) && item <= 4)
        return cr_cuda_fill(index, to->data, element, (int)item,
                            (size_t)cr_space_last(&s, 0)->size);
    memcpy(c.item, element, (size_t)item);
    item = move_join_pairs(&s, &c, item);
    const char *error = move_find(&function, index, (int)item, MOVE_FILL);
    return error ? error : move_dims(index, function, &c, &s, 1);
}
