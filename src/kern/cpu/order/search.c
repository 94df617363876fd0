/* Searches values in sorted rows, and counts values in bins. */
#include "base/memory.h"
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/walk.h"

/* --- binary search --- */

typedef struct {
    const char *row;    /* boundaries */
    const char *sorter; /* int64 indices that sort the row, or NULL */
    int64_t step, sorter_step, n;
    bool right;
} sorted_row;

typedef int64_t (*search_fn)(const sorted_row *r, const char *value);

#define SEARCH(suffix)                                                                         \
    static int64_t search_##suffix(const sorted_row *r, const char *value)                     \
    {                                                                                          \
        wide_##suffix x = load_##suffix(value);                                                \
        int64_t low = 0, high = r->n;                                                          \
        while (low < high) {                                                                   \
            int64_t mid = low + (high - low) / 2, at = mid;                                    \
            if (r->sorter)                                                                     \
                at = *(const int64_t *)(r->sorter + mid * r->sorter_step);                     \
            wide_##suffix b = load_##suffix(r->row + at * r->step);                            \
            bool before = r->right ? !(b > x) : !(b >= x);                                     \
            low = before ? mid + 1 : low;                                                      \
            high = before ? high : mid;                                                        \
        }                                                                                      \
        return low;                                                                            \
    }
CR_REAL_TYPES(SEARCH)
static const search_fn searches[CR_DTYPE_COUNT] = {CR_TYPE_TABLE(search, CR_AND_FLOATS)};

enum { OUT, VALUE, ROW, SORTER };

typedef struct {
    search_fn fn;
    sorted_row row; /* the row without the pointers */
    bool out32;
} search_context;

static void search_values(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const search_context *c = context;
    sorted_row r = c->row;

    for (int64_t i = 0; i < n; i++) {
        int64_t found;
        r.row = at[ROW] + i * step[ROW];
        r.sorter = c->row.sorter_step ? at[SORTER] + i * step[SORTER] : NULL;
        found = c->fn(&r, at[VALUE] + i * step[VALUE]);
        if (c->out32)
            *(int32_t *)(at[OUT] + i * step[OUT]) = (int32_t)found;
        else
            *(int64_t *)(at[OUT] + i * step[OUT]) = found;
    }
}

/* A row's strides over the sizes of the values: 0 along the last dimension, and all 0 for a
 * single row. */
static void row_strides(int64_t *stride, const cr_view *rows, int ndim)
{
    for (int d = 0; d < ndim; d++)
        stride[d] = rows->ndim > 1 && d < ndim - 1 ? rows->stride[d] : 0;
}

static void search_rows(const cr_view *rows, const cr_view *values, const cr_view *sorter,
                        bool right, cr_view *out)
{
    int last = rows->ndim - 1;
    int64_t stride[CR_MAX_DIMS];
    search_context c = {searches[values->dtype],
                        {.step = cr_view_step(rows, last),
                         .n = rows->size[last],
                         .right = right,
                         .sorter_step = sorter ? cr_view_step(sorter, last) : 0},
                        out->dtype == CR_I32};
    cr_walk w;

    cr_walk_start(&w, values->ndim, values->size, -1);
    cr_walk_add(&w, out);
    cr_walk_add(&w, values);
    row_strides(stride, rows, values->ndim);
    cr_walk_add_strides(&w, rows->data, stride, cr_view_item(rows));
    row_strides(stride, sorter ? sorter : rows, values->ndim);
    cr_walk_add_strides(&w, sorter ? sorter->data : rows->data, stride, sizeof(int64_t));
    cr_walk_merge(&w);
    cr_walk_run(&w, CR_WALK_GRAIN / 16, search_values, &c);
}

/* Wrong indices in a sorter would read outside the row. */
static cr_status check_sorter_range(const cr_view *sorter)
{
    int64_t n = cr_view_numel(sorter), limit = sorter->size[sorter->ndim - 1];
    int64_t *at = (int64_t *)(void *)cr_dense_copy(sorter);
    bool good = true;

    CR_NEED(at);
    for (int64_t i = 0; i < n; i++)
        good &= at[i] >= 0 && at[i] < limit;
    cr_free(at);
    return good ? CR_OK
                : cr_fail(CR_RUNTIME, "torch.searchsorted(): sorter index out of range");
}

cr_status cr_kern_searchsorted(const cr_value *arg, cr_view *out)
{
    const cr_view *sorter = arg[5].tag == CR_NONE ? NULL : arg[5].view;
    bool right = arg[3].i || (arg[4].tag == CR_STRING && arg[4].s[0] == 'r');

    if (!cr_view_numel(out))
        return CR_OK;
    if (sorter)
        CR_TRY(check_sorter_range(sorter));
    search_rows(arg[0].view, arg[1].view, sorter, right, out);
    return CR_OK;
}

cr_status cr_kern_bucketize(const cr_value *arg, cr_view *out)
{
    if (cr_view_numel(out))
        search_rows(arg[1].view, arg[0].view, NULL, arg[3].i, out);
    return CR_OK;
}

/* Histograms: values outside the range do not count; the last bin includes its end. */

typedef struct {
    double low, high;
    int64_t bins, n;
    double *count;
} histogram;

/* Rounds to the element type, as torch does after every step for half types. */
#define ROUND(suffix)                                                                          \
    static inline wide_##suffix round_##suffix(wide_##suffix x)                                \
    {                                                                                          \
        item_##suffix item;                                                                    \
        store_##suffix(&item, (double)x);                                                      \
        return load_##suffix(&item);                                                           \
    }
CR_FLOAT_TYPES(ROUND)

/* The least and the greatest number, or NaN after one. */
#define RANGE(suffix)                                                                          \
    static void range_##suffix(histogram *h, const char *p)                                    \
    {                                                                                          \
        h->low = h->high = h->n ? (double)load_##suffix(p) : 0;                                \
        for (int64_t i = 0; i < h->n; i++, p += sizeof(item_##suffix)) {                       \
            double x = (double)load_##suffix(p);                                               \
            h->low = x < h->low || x != x ? x : h->low;                                        \
            h->high = x > h->high || x != x ? x : h->high;                                     \
        }                                                                                      \
    }

#define COUNT(suffix)                                                                          \
    RANGE(suffix)                                                                              \
    static void count_##suffix(const histogram *h, const char *p)                              \
    {                                                                                          \
        wide_##suffix low = round_##suffix((wide_##suffix)h->low);                             \
        wide_##suffix high = round_##suffix((wide_##suffix)h->high);                           \
        wide_##suffix bins = round_##suffix((wide_##suffix)h->bins), span;                     \
        span = round_##suffix(high - low);                                                     \
        for (int64_t i = 0; i < h->n; i++, p += sizeof(item_##suffix)) {                       \
            wide_##suffix x = load_##suffix(p);                                                \
            int64_t bin;                                                                       \
            if (!(x >= low && x <= high))                                                      \
                continue;                                                                      \
            x = round_##suffix(round_##suffix(x - low) * bins);                                \
            bin = (int64_t)round_##suffix(x / span);                                           \
            h->count[bin < 0 ? 0 : bin < h->bins ? bin : h->bins - 1]++; /* NaN: the first */  \
        }                                                                                      \
    }
CR_FLOAT_TYPES(COUNT)

/* Integers, which torch counts on CUDA only. */
#define COUNT_INTEGERS(suffix)                                                                 \
    RANGE(suffix)                                                                              \
    static void count_##suffix(const histogram *h, const char *p)                              \
    {                                                                                          \
        int64_t low = (int64_t)h->low, high = (int64_t)h->high;                                \
        for (int64_t i = 0; i < h->n; i++, p += sizeof(item_##suffix)) {                       \
            int64_t x = (int64_t)load_##suffix(p);                                             \
            if (x < low || x > high)                                                           \
                continue;                                                                      \
            int64_t bin = CR_WRAP_MUL(CR_WRAP_SUB(x, low), h->bins) / (high - low);            \
            h->count[bin < 0 ? 0 : bin < h->bins ? bin : h->bins - 1]++;                       \
        }                                                                                      \
    }
COUNT_INTEGERS(u8)
COUNT_INTEGERS(i8)
COUNT_INTEGERS(i16)
COUNT_INTEGERS(i32)
COUNT_INTEGERS(i64)

static void (*const counts[CR_DTYPE_COUNT])(const histogram *, const char *) = {
    [CR_F16] = count_f16, [CR_BF16] = count_bf16, [CR_F32] = count_f32,
    [CR_F64] = count_f64, [CR_U8] = count_u8,     [CR_I8] = count_i8,
    [CR_I16] = count_i16, [CR_I32] = count_i32,   [CR_I64] = count_i64};
static void (*const ranges[CR_DTYPE_COUNT])(histogram *, const char *) = {
    [CR_F16] = range_f16, [CR_BF16] = range_bf16, [CR_F32] = range_f32,
    [CR_F64] = range_f64, [CR_U8] = range_u8,     [CR_I8] = range_i8,
    [CR_I16] = range_i16, [CR_I32] = range_i32,   [CR_I64] = range_i64};

/* Equal bounds mean the range of the values; a range of a single value is widened. */
static cr_status choose_range(histogram *h, const char *data, const cr_value *arg, cr_dtype t)
{
    h->low = cr_scalar_as_double(arg[2].number);
    h->high = cr_scalar_as_double(arg[3].number);
    if (h->low == h->high && h->n)
        ranges[t](h, data);
    if (!isfinite(h->low) || !isfinite(h->high))
        return cr_fail(CR_RUNTIME, "torch.histc: range of [%g, %g] is not finite", h->low,
                       h->high);
    if (h->low == h->high) {
        h->low -= 1;
        h->high += 1;
    }
    return CR_OK;
}

/* (self, bins, min, max) */
cr_status cr_kern_histc(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    cr_dtype t = (cr_dtype)self->dtype;
    char *data = cr_dense_copy(self);
    histogram h = {.bins = arg[1].i, .n = cr_view_numel(self)};
    cr_status st = data ? choose_range(&h, data, arg, t) : CR_MEMORY;

    if (!st) {
        h.count = cr_alloc_zero((size_t)h.bins * sizeof *h.count);
        st = h.count ? CR_OK : CR_MEMORY;
    }
    if (!st) {
        counts[t](&h, data);
        for (int64_t i = 0; i < h.bins; i++)
            cr_scalar_store(cr_scalar_float(h.count[i]), t,
                            out->data + i * cr_view_step(out, 0));
    }
    cr_free(h.count);
    cr_free(data);
    return st;
}
