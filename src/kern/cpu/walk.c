/* Iterates over several views together. */
#include "kern/cpu/walk.h"
#include "base/memory.h"
#include <string.h>

void cr_walk_start(cr_walk *w, int ndim, const int64_t *size, int skip)
{
    cr_space_start(&w->space, 0);
    w->total = 1;
    for (int d = 0; d < ndim; d++) {
        if (d == skip)
            continue;
        (void)cr_space_add(&w->space, size[d], d);
        w->total *= size[d];
    }
}

void cr_walk_add_strides(cr_walk *w, char *at, const int64_t *stride, size_t item)
{
    int k = w->space.operands++;

    w->at[k] = at;
    for (int d = 0; d < w->space.ndim; d++) {
        cr_space_dim *dim = &w->space.dim[d];
        dim->step[k] = CR_WRAP_MUL(stride[dim->number], item);
    }
}

void cr_walk_add(cr_walk *w, const cr_view *v)
{
    cr_walk_add_strides(w, v->data, v->stride, cr_view_item(v));
}

typedef struct {
    const cr_walk *w;
    cr_row_fn fn;
    void *context;
} run_context;

static void run_range(void *context, int64_t begin, int64_t end)
{
    run_context *c = context;
    const cr_space *s = &c->w->space;

    cr_space_walk(s, s->ndim, c->w->at, begin, end, c->fn, c->context);
}

void cr_walk_run(const cr_walk *w, int64_t grain, cr_row_fn fn, void *context)
{
    run_context c = {w, fn, context};

    cr_parallel_for(w->total, grain, run_range, &c);
}

void cr_walk_all(const cr_walk *w, cr_row_fn fn, void *context)
{
    cr_space_walk(&w->space, w->space.ndim, w->at, 0, w->total, fn, context);
}

/* --- copies --- */

#define COPY(name, type)                                                                       \
    static void name(void *context, char *const *at, const int64_t *step, int64_t n)           \
    {                                                                                          \
        char *d = at[0];                                                                       \
        const char *s = at[1];                                                                 \
        (void)context;                                                                         \
        if (step[0] == (int64_t)sizeof(type) && step[1] == step[0]) {                          \
            memmove(d, s, (size_t)n * sizeof(type));                                           \
            return;                                                                            \
        }                                                                                      \
        for (int64_t i = 0; i < n; i++, d += step[0], s += step[1])                            \
            memcpy(d, s, sizeof(type));                                                        \
    }
COPY(copy_1, uint8_t)
COPY(copy_2, uint16_t)
COPY(copy_4, uint32_t)
COPY(copy_8, uint64_t)
COPY(copy_16, cr_complex)

/* The least number of bytes for one more thread. */
enum { COPY_BYTES = 1 << 18 };

/* By log2 of the item size. */
static const cr_row_fn copies[] = {copy_1, copy_2, copy_4, copy_8, copy_16};

/* Transposing copies: dst is dense along the walk's last dimension, src along another
 * dimension.  A block of each side stays in the cache while src is read along its rows and dst
 * is written along its own. */

enum { TURN_BLOCK = 32 };

typedef struct {
    int64_t rows, columns; /* along the dense dimension of src and of dst */
    int64_t dst_row, src_column;
} turn_context;

#define TURN(name, type)                                                                       \
    static void name(const turn_context *c, char *d, const char *s, int64_t first)             \
    {                                                                                          \
        enum { ITEM = sizeof(type) };                                                          \
        int64_t end = first + TURN_BLOCK < c->rows ? first + TURN_BLOCK : c->rows;             \
        for (int64_t from = 0; from < c->columns; from += TURN_BLOCK) {                        \
            int64_t to = from + TURN_BLOCK < c->columns ? from + TURN_BLOCK : c->columns;      \
            for (int64_t i = first; i < end; i++)                                              \
                for (int64_t j = from; j < to; j++)                                            \
                    memcpy(d + i * c->dst_row + j * ITEM, s + i * ITEM + j * c->src_column,    \
                           ITEM);                                                              \
        }                                                                                      \
    }
TURN(turn_4, uint32_t)
TURN(turn_8, uint64_t)

static void turn_rows_4(void *context, char *const *at, const int64_t *step, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < ((turn_context *)context)->rows; i += TURN_BLOCK)
            turn_4(context, at[0] + k * step[0], at[1] + k * step[1], i);
}

static void turn_rows_8(void *context, char *const *at, const int64_t *step, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < ((turn_context *)context)->rows; i += TURN_BLOCK)
            turn_8(context, at[0] + k * step[0], at[1] + k * step[1], i);
}

/* The dimension along which src is dense when transposing saves time, or -1.  Strips of
 * TURN_BLOCK rows become a dimension of the walk, which threads share. */
static int dim_to_turn(const cr_space *s, int64_t item)
{
    const cr_space_dim *last = s->dim + s->ndim - 1;

    if (s->ndim < 2 || (item != 4 && item != 8) || last->step[0] != item ||
        last->step[1] == item || last->size < TURN_BLOCK)
        return -1;
    for (int d = 0; d < s->ndim - 1; d++)
        if (s->dim[d].step[1] == item && s->dim[d].size >= TURN_BLOCK)
            return d;
    return -1;
}

/* Moves dimension `dim` and the last dimension from the walk to the context. */
static turn_context take_plane(cr_walk *w, int dim)
{
    cr_space *s = &w->space;
    const cr_space_dim *rows = &s->dim[dim], *columns = &s->dim[s->ndim - 1];
    turn_context c = {rows->size, columns->size, rows->step[0], columns->step[1]};

    w->total /= c.rows * c.columns;
    cr_space_remove(s, s->ndim - 1);
    cr_space_remove(s, dim);
    return c;
}

/* A single plane is cut into strips, which become the walk. */
static void cut_plane(cr_walk *w, turn_context *c, int64_t item)
{
    int64_t strips = c->rows / TURN_BLOCK, *step;

    if (w->total > 1 || strips < 2 || c->rows % TURN_BLOCK)
        return;
    w->total = strips;
    step = cr_space_add(&w->space, strips, 0);
    step[0] = TURN_BLOCK * c->dst_row;
    step[1] = TURN_BLOCK * item;
    c->rows = TURN_BLOCK;
}

static void walk_turn(cr_walk *w, int dim, int64_t item)
{
    turn_context c = take_plane(w, dim);

    cut_plane(w, &c, item);
    cr_walk_run(w, cr_walk_grain(c.rows * c.columns), item == 4 ? turn_rows_4 : turn_rows_8,
                &c);
}

void cr_copy_view(const cr_view *dst, const cr_view *src)
{
    int64_t item = (int64_t)cr_view_item(dst);
    int dim;
    cr_walk w;

    cr_walk_start(&w, dst->ndim, dst->size, -1);
    cr_walk_add(&w, dst);
    cr_walk_add(&w, src);
    cr_walk_sort(&w);
    cr_walk_merge(&w);
    dim = dim_to_turn(&w.space, item);
    if (dim >= 0)
        walk_turn(&w, dim, item);
    else
        cr_walk_run(&w, COPY_BYTES / item, copies[CR_CTZ(item)], NULL);
}

void cr_fill_view(const cr_view *dst, const void *item)
{
    static const int64_t still[CR_MAX_DIMS];
    cr_complex one = {0, 0};
    cr_walk w;

    memcpy(&one, item, cr_view_item(dst));
    cr_walk_start(&w, dst->ndim, dst->size, -1);
    cr_walk_add(&w, dst);
    cr_walk_add_strides(&w, (char *)&one, still, 1);
    cr_walk_sort(&w);
    cr_walk_merge(&w);
    cr_walk_run(&w, CR_WALK_GRAIN, copies[CR_CTZ(cr_view_item(dst))], NULL);
}

void cr_zero_view(const cr_view *dst)
{
    static const cr_complex zero;

    if (!dst->data) /* an empty tensor */
        return;
    if (cr_view_is_contiguous(dst))
        memset(dst->data, 0, (size_t)cr_view_numel(dst) * cr_view_item(dst));
    else
        cr_fill_view(dst, &zero);
}

void cr_dense_strides(int64_t *stride, int ndim, const int64_t *size)
{
    int64_t next = 1;

    for (int d = ndim - 1; d >= 0; next *= size[d--])
        stride[d] = next;
}

void cr_broadcast_strides(int64_t *stride, const cr_view *v, int ndim, const int64_t *size)
{
    int missing = ndim - v->ndim;

    for (int d = 0; d < ndim; d++) {
        bool repeats = d < missing || (v->size[d - missing] == 1 && size[d] != 1);
        stride[d] = repeats ? 0 : v->stride[d - missing];
    }
}

char *cr_dense_copy(const cr_view *v)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view copy = *v;

    cr_dense_strides(stride, v->ndim, v->size);
    copy.stride = stride;
    copy.data = cr_alloc((size_t)cr_view_numel(v) * cr_view_item(v));
    if (copy.data)
        cr_copy_view(&copy, v);
    return copy.data;
}

int64_t cr_view_numel(const cr_view *v)
{
    int64_t n = 1;

    for (int d = 0; d < v->ndim; d++)
        n *= v->size[d];
    return n;
}

bool cr_view_is_contiguous(const cr_view *v)
{
    int64_t expected = 1;

    for (int d = v->ndim - 1; d >= 0; d--) {
        if (v->size[d] == 0)
            return true;
        if (v->size[d] != 1 && v->stride[d] != expected)
            return false;
        expected *= v->size[d];
    }
    return true;
}
