/* Extremes with their indices: argmax, argmin, max and min along a dimension.
 *
 * The first of equal extremes counts, and a NaN is more extreme than every number.  A new value
 * therefore replaces the extreme when the value is better or is the first NaN.  Lines that are
 * adjacent in memory are scanned together, a tile at a time. */
#include "base/memory.h"
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/walk.h"

enum { TILE = 64, BLOCK = 16 };

/* Finds the index of the extreme of each of `lines` lines of `n` elements. */
typedef void (*extreme_fn)(const char *p, int64_t line_step, int64_t lines, int64_t step,
                           int64_t n, int64_t *index);

#define BETTER_MAX(x, best) ((x) > (best) || ((x) != (x) && (best) == (best)))
#define BETTER_MIN(x, best) ((x) < (best) || ((x) != (x) && (best) == (best)))

/* A dense line: the elements of a block are compared one by one only when some lane of the
 * block is better than all earlier elements. */
#define EXTREME(name, suffix, BETTER)                                                          \
    static int64_t name##_dense_##suffix(const char *p, int64_t n)                             \
    {                                                                                          \
        enum { ITEM = sizeof(item_##suffix) };                                                 \
        wide_##suffix best = load_##suffix(p);                                                 \
        int64_t at = 0, i = 0;                                                                 \
        for (; i + BLOCK <= n; i += BLOCK) {                                                   \
            unsigned any = 0;                                                                  \
            for (int k = 0; k < BLOCK; k++) {                                                  \
                wide_##suffix x = load_##suffix(p + (i + k) * ITEM);                           \
                any |= (unsigned)BETTER(x, best);                                              \
            }                                                                                  \
            for (int k = 0; any && k < BLOCK; k++) {                                           \
                wide_##suffix x = load_##suffix(p + (i + k) * ITEM);                           \
                at = BETTER(x, best) ? i + k : at;                                             \
                best = BETTER(x, best) ? x : best;                                             \
            }                                                                                  \
        }                                                                                      \
        for (; i < n; i++) {                                                                   \
            wide_##suffix x = load_##suffix(p + i * ITEM);                                     \
            at = BETTER(x, best) ? i : at;                                                     \
            best = BETTER(x, best) ? x : best;                                                 \
        }                                                                                      \
        return at;                                                                             \
    }                                                                                          \
    static void name##_tile_##suffix(const char *p, int64_t line_step, int64_t lines,          \
                                     int64_t step, int64_t n, int64_t *index)                  \
    {                                                                                          \
        wide_##suffix best[TILE];                                                              \
        for (int64_t j = 0; j < lines; j++) {                                                  \
            best[j] = load_##suffix(p + j * line_step);                                        \
            index[j] = 0;                                                                      \
        }                                                                                      \
        for (int64_t i = 1; i < n; i++)                                                        \
            for (int64_t j = 0; j < lines; j++) {                                              \
                wide_##suffix x = load_##suffix(p + i * step + j * line_step);                 \
                bool better = BETTER(x, best[j]);                                              \
                best[j] = better ? x : best[j];                                                \
                index[j] = better ? i : index[j];                                              \
            }                                                                                  \
    }                                                                                          \
    static void name##_##suffix(const char *p, int64_t line_step, int64_t lines, int64_t step, \
                                int64_t n, int64_t *index)                                     \
    {                                                                                          \
        if (step == (int64_t)sizeof(item_##suffix))                                            \
            for (int64_t j = 0; j < lines; j++)                                                \
                index[j] = name##_dense_##suffix(p + j * line_step, n);                        \
        else                                                                                   \
            name##_tile_##suffix(p, line_step, lines, step, n, index);                         \
    }

#define BOTH(suffix) EXTREME(max, suffix, BETTER_MAX) EXTREME(min, suffix, BETTER_MIN)
CR_REAL_TYPES(BOTH)

static const extreme_fn max_fns[CR_DTYPE_COUNT] = {CR_TYPE_TABLE(max, CR_AND_FLOATS)};
static const extreme_fn min_fns[CR_DTYPE_COUNT] = {CR_TYPE_TABLE(min, CR_AND_FLOATS)};

/* --- along a dimension --- */

typedef struct {
    extreme_fn fn;
    int64_t n, step;
    size_t item; /* bytes of a value; 0 when only indices are wanted */
} line_context;

enum { INDEX, SELF, VALUE };

static void extreme_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const line_context *c = context;
    int64_t found[TILE];

    for (int64_t first = 0; first < n; first += TILE) {
        int64_t lines = n - first < TILE ? n - first : TILE;
        const char *p = at[SELF] + first * step[SELF];
        c->fn(p, step[SELF], lines, c->step, c->n, found);
        for (int64_t j = 0; j < lines; j++) {
            *(int64_t *)(at[INDEX] + (first + j) * step[INDEX]) = found[j];
            if (c->item)
                memcpy(at[VALUE] + (first + j) * step[VALUE],
                       p + j * step[SELF] + found[j] * c->step, c->item);
        }
    }
}

/* The strides of a reduction's result by dimension of the input. */
static void kept_strides(int64_t *stride, const cr_view *out, int ndim, int64_t dim)
{
    bool kept = out->ndim == ndim;

    for (int d = 0; d < ndim; d++)
        stride[d] = d == dim ? 0 : out->stride[kept || d < dim ? d : d - 1];
}

static void extreme_along(const extreme_fn *fns, const cr_view *self, int64_t dim,
                          cr_view *index, cr_view *value)
{
    int64_t stride[CR_MAX_DIMS];
    line_context c = {fns[self->dtype], cr_view_size(self, dim), cr_view_step(self, dim),
                      value ? cr_view_item(value) : 0};
    cr_walk w;

    cr_walk_start(&w, self->ndim, self->size, (int)dim);
    kept_strides(stride, index, self->ndim, dim);
    cr_walk_add_strides(&w, index->data, stride, sizeof(int64_t));
    cr_walk_add(&w, self);
    if (value) {
        kept_strides(stride, value, self->ndim, dim);
        cr_walk_add_strides(&w, value->data, stride, cr_view_item(value));
    }
    cr_walk_merge(&w);
    cr_walk_run(&w, cr_walk_grain(c.n), extreme_row, &c);
}

/* --- over all elements --- */

enum { CHUNK = 65536 };

typedef struct {
    extreme_fn fn;
    const char *data;
    int64_t n, item, *found;
} flat_context;

static void flat_range(void *context, int64_t begin, int64_t end)
{
    const flat_context *c = context;

    for (int64_t k = begin; k < end; k++) {
        int64_t first = k * CHUNK, n = c->n - first < CHUNK ? c->n - first : CHUNK;
        c->fn(c->data + first * c->item, 0, 1, c->item, n, &c->found[k]);
        c->found[k] += first;
    }
}

/* Every chunk finds its own extreme; the result is the extreme of those. */
static cr_status extreme_of_all(const extreme_fn *fns, const cr_view *self, int64_t *index)
{
    int64_t item = (int64_t)cr_view_item(self), n = cr_view_numel(self), best;
    int64_t chunks = (n + CHUNK - 1) / CHUNK;
    char *copy = cr_view_is_contiguous(self) ? NULL : cr_dense_copy(self);
    const char *data = copy ? copy : self->data;
    int64_t *found = cr_alloc((size_t)chunks * sizeof *found);
    char *values = cr_alloc((size_t)(chunks * item));
    flat_context c = {fns[self->dtype], data, n, item, found};
    bool good = found && values && (copy || cr_view_is_contiguous(self));

    if (good) {
        cr_parallel_for(chunks, 1, flat_range, &c);
        for (int64_t k = 0; k < chunks; k++)
            memcpy(values + k * item, data + found[k] * item, (size_t)item);
        c.fn(values, 0, 1, item, chunks, &best);
        *index = found[best];
    }
    cr_free(values);
    cr_free(found);
    cr_free(copy);
    return good ? CR_OK : CR_MEMORY;
}

static cr_status extreme_index(const extreme_fn *fns, const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;

    if (!cr_view_numel(out))
        return CR_OK;
    if (arg[1].tag == CR_NONE)
        return extreme_of_all(fns, self, (int64_t *)out->data);
    extreme_along(fns, self, cr_view_dim(self, arg[1].i), out, NULL);
    return CR_OK;
}

/* (self, dim, keepdim) -> values, indices */
static cr_status extreme_dim(const extreme_fn *fns, const cr_value *arg, cr_view *out)
{
    if (cr_view_numel(&out[0]))
        extreme_along(fns, arg[0].view, cr_view_dim(arg[0].view, arg[1].i), &out[1], &out[0]);
    return CR_OK;
}

cr_status cr_kern_argmax(const cr_value *arg, cr_view *out)
{
    return extreme_index(max_fns, arg, out);
}
cr_status cr_kern_argmin(const cr_value *arg, cr_view *out)
{
    return extreme_index(min_fns, arg, out);
}
cr_status cr_kern_max_dim(const cr_value *arg, cr_view *out)
{
    return extreme_dim(max_fns, arg, out);
}
cr_status cr_kern_min_dim(const cr_value *arg, cr_view *out)
{
    return extreme_dim(min_fns, arg, out);
}
