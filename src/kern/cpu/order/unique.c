/* Groups equal elements and slices. */
#include "kern/cpu/order/unique.h"
#include "base/memory.h"
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/order/sort_line.h"
#include "kern/cpu/walk.h"

static cr_status groups_new(cr_groups *g, int64_t n)
{
    g->n = n;
    g->count = 0;
    g->order = cr_alloc((size_t)n * sizeof *g->order);
    g->group = cr_alloc((size_t)n * sizeof *g->group);
    for (int64_t i = 0; g->order && i < n; i++)
        g->order[i] = i;
    return g->order && g->group ? CR_OK : CR_MEMORY;
}

void cr_groups_drop(cr_groups *g)
{
    cr_free(g->order);
    cr_free(g->group);
    g->order = g->group = NULL;
}

void cr_groups_describe(const cr_groups *g, int64_t *first, int64_t *count, int64_t *inverse)
{
    for (int64_t k = 0; count && k < g->count; k++)
        count[k] = 0;
    for (int64_t i = 0; i < g->n; i++) {
        int64_t k = g->group[i];
        if (first && (i == 0 || g->group[i - 1] != k))
            first[k] = g->order[i];
        if (count)
            count[k]++;
        if (inverse)
            inverse[g->order[i]] = k;
    }
}

static bool is_nan(cr_dtype t, const char *p)
{
    cr_line one = {p, 0, 1, t, false};

    return cr_line_nans(&one) != 0;
}

static bool same_element(cr_dtype t, const char *a, const char *b)
{
    return cr_sort_key(t, a) == cr_sort_key(t, b) && !is_nan(t, a);
}

/* --- elements --- */

static void number_elements(cr_groups *g, cr_dtype t, const char *data)
{
    int64_t item = (int64_t)cr_dtype_size(t);

    for (int64_t i = 0; i < g->n; i++) {
        const char *p = data + g->order[i] * item;
        if (i == 0 || !same_element(t, p, data + g->order[i - 1] * item))
            g->count++;
        g->group[i] = g->count - 1;
    }
}

cr_status cr_group_elements(cr_groups *g, const cr_view *v, bool sorted)
{
    cr_dtype t = (cr_dtype)v->dtype;
    int64_t n = cr_view_numel(v);
    char *data = cr_dense_copy(v);
    void *room = sorted ? cr_alloc(cr_line_room(t, n)) : NULL;
    cr_line line = {data, (int64_t)cr_dtype_size(t), n, t, false};
    cr_status st = groups_new(g, n);

    if (!data || (sorted && !room))
        st = CR_MEMORY;
    if (!st && sorted)
        cr_line_sort(&line, g->order, room);
    if (!st)
        number_elements(g, t, data);
    cr_free(room);
    cr_free(data);
    if (st)
        cr_groups_drop(g);
    return st;
}

/* --- slices: rows of a dense copy whose first dimension is dim --- */

typedef struct {
    cr_dtype t;
    const char *data;
    int64_t length, item;
} rows;

static const char *row_at(const rows *r, int64_t i)
{
    return r->data + i * r->length * r->item;
}

static bool row_less(const rows *r, int64_t a, int64_t b)
{
    const char *x = row_at(r, a), *y = row_at(r, b);

    for (int64_t k = 0; k < r->length; k++, x += r->item, y += r->item) {
        uint64_t p = cr_sort_key(r->t, x), q = cr_sort_key(r->t, y);
        if (p != q)
            return p < q;
    }
    return false;
}

static bool same_row(const rows *r, int64_t a, int64_t b)
{
    const char *x = row_at(r, a), *y = row_at(r, b);

    for (int64_t k = 0; k < r->length; k++, x += r->item, y += r->item)
        if (!same_element(r->t, x, y))
            return false;
    return true;
}

/* A stable merge sort between two arrays. */
static void sort_rows(const rows *r, int64_t *order, int64_t *room, int64_t n)
{
    int64_t left = n / 2, i = 0, j = left;

    if (n < 2)
        return;
    sort_rows(r, order, room, left);
    sort_rows(r, order + left, room, n - left);
    memcpy(room, order, (size_t)n * sizeof *room);
    for (int64_t k = 0; k < n; k++) {
        bool second = i == left || (j < n && row_less(r, room[j], room[i]));
        order[k] = second ? room[j++] : room[i++];
    }
}

/* v with dim moved to the front. */
static cr_view dim_first(const cr_view *v, int64_t dim, int64_t *size, int64_t *stride)
{
    cr_view out = *v;
    int n = 0;

    size[n] = v->size[dim];
    stride[n++] = v->stride[dim];
    for (int d = 0; d < v->ndim; d++)
        if (d != dim) {
            size[n] = v->size[d];
            stride[n++] = v->stride[d];
        }
    out.size = size;
    out.stride = stride;
    return out;
}

cr_status cr_group_slices(cr_groups *g, const cr_view *v, int64_t dim, bool sorted)
{
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    cr_view front = dim_first(v, dim, size, stride);
    int64_t n = size[0], length = n ? cr_view_numel(v) / n : 0;
    rows r = {(cr_dtype)v->dtype, cr_dense_copy(&front), length, (int64_t)cr_view_item(v)};
    cr_status st = r.data ? groups_new(g, n) : CR_MEMORY;

    if (!st && sorted)
        /* the groups are not yet known, so their array is free */
        sort_rows(&r, g->order, g->group, n);
    for (int64_t i = 0; !st && i < n; i++) {
        if (i == 0 || !same_row(&r, g->order[i], g->order[i - 1]))
            g->count++;
        g->group[i] = g->count - 1;
    }
    cr_free((char *)r.data);
    return st;
}

/* --- membership: binary search in the sorted test elements --- */

static bool contains(const uint64_t *key, int64_t n, uint64_t x)
{
    int64_t low = 0, high = n;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (key[mid] < x)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && key[low] == x;
}

/* The sorted keys; the caller frees them.  NULL without memory. */
static uint64_t *sorted_keys(const cr_view *v)
{
    cr_dtype t = (cr_dtype)v->dtype;
    int64_t n = cr_view_numel(v), item = (int64_t)cr_view_item(v);
    char *data = cr_dense_copy(v);
    uint64_t *key = cr_alloc((size_t)n * sizeof *key);
    int64_t *order = cr_alloc((size_t)n * sizeof *order);
    void *room = cr_alloc(cr_line_room(t, n));
    cr_line line = {data, item, n, t, false};
    bool good = data && key && order && room;

    if (good)
        cr_line_sort(&line, order, room);
    for (int64_t i = 0; good && i < n; i++)
        key[i] = cr_sort_key(t, data + order[i] * item);
    cr_free(room);
    cr_free(order);
    cr_free(data);
    if (!good)
        cr_free(key);
    return good ? key : NULL;
}

typedef struct {
    const uint64_t *key;
    int64_t n;
    cr_dtype t;
    bool invert;
} isin_context;

static void isin_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const isin_context *c = context;

    for (int64_t i = 0; i < n; i++) {
        const char *p = at[1] + i * step[1];
        bool found = !is_nan(c->t, p) && contains(c->key, c->n, cr_sort_key(c->t, p));
        at[0][i * step[0]] = found != c->invert;
    }
}

/* (elements, test_elements, *, assume_unique, invert); both tensors have one dtype. */
cr_status cr_kern_isin(const cr_value *arg, cr_view *out)
{
    const cr_view *elements = arg[0].view, *test = arg[1].view;
    uint64_t *key = sorted_keys(test);
    isin_context c = {key, cr_view_numel(test), (cr_dtype)test->dtype, arg[3].i};
    cr_walk w;

    CR_NEED(key);
    cr_walk_start(&w, out->ndim, out->size, -1);
    cr_walk_add(&w, out);
    cr_walk_add(&w, elements);
    cr_walk_merge(&w);
    cr_walk_run(&w, CR_WALK_GRAIN / 16, isin_row, &c);
    cr_free(key);
    return CR_OK;
}
