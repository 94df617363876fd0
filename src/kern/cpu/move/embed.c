/* Embeddings: rows of a table selected by index, sums of such rows, and their gradients. */
#include "base/memory.h"
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/move/gather.h"
#include "kern/cpu/walk.h"

static cr_status check_rows(const cr_view *indices, int64_t rows)
{
    int64_t bad;

    if (cr_indices_within(indices, 0, rows, &bad))
        return CR_OK;
    return cr_fail(CR_INDEX, "index out of range in self");
}

/* The gradient of the table: sums of the rows of grad with the same index. */

#define DIVIDE(suffix)                                                                         \
    static void divide_##suffix(char *row, int64_t n, int64_t count)                           \
    {                                                                                          \
        for (int64_t i = 0; i < n; i++, row += sizeof(item_##suffix))                          \
            store_##suffix(row, load_##suffix(row) / (wide_##suffix)count);                    \
    }
CR_FLOAT_TYPES(DIVIDE)
CR_COMPLEX_TYPES(DIVIDE)

typedef void (*divide_fn)(char *row, int64_t n, int64_t count);
static const divide_fn divides[CR_DTYPE_COUNT] = {
    [CR_F16] = divide_f16, [CR_BF16] = divide_bf16, [CR_F32] = divide_f32,
    [CR_F64] = divide_f64, [CR_C64] = divide_c64,   [CR_C128] = divide_c128};

/* Divides each row of a dense matrix by the number of its occurrences in row[0..n). */
static cr_status divide_by_frequency(const cr_view *out, const int64_t *row, int64_t n)
{
    int64_t rows = out->size[0], columns = out->size[1];
    int64_t *count = cr_alloc_zero((size_t)rows * sizeof *count);

    CR_NEED(count);
    for (int64_t i = 0; i < n; i++)
        count[row[i]]++;
    for (int64_t r = 0; r < rows; r++)
        if (count[r] > 1)
            divides[out->dtype](out->data + r * columns * (int64_t)cr_view_item(out), columns,
                                count[r]);
    cr_free(count);
    return CR_OK;
}

/* Adds dense row i of `grad` to row row[i] of `out`, for i < n. */
static cr_status add_rows(cr_view *out, const char *grad, int64_t *row, int64_t n)
{
    int64_t columns = out->size[1], size[2] = {n, columns}, table[2] = {0, 1};
    int64_t index[2] = {1, 0}, other[2] = {columns, 1};
    bool picked[2] = {true, false};
    size_t item = cr_view_item(out);
    cr_places p = {.ndim = 2,
                   .size = size,
                   .table = out->data,
                   .other = (char *)grad,
                   .index = (char *)row,
                   .table_stride = table,
                   .other_stride = other,
                   .index_stride = index,
                   .unit = columns * (int64_t)item,
                   .range = out->size[0],
                   .item = item,
                   .other_item = item,
                   .index_item = sizeof *row};

    return cr_places_combine(&p, CR_COMBINE_ADD, (cr_dtype)out->dtype, picked);
}

/* (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq) */
cr_status cr_kern_embedding_backward(const cr_value *arg, cr_view *out)
{
    const cr_view *grad = arg[0].view, *indices = arg[1].view;
    int64_t n = cr_view_numel(indices), padding = arg[3].i, *row;
    size_t row_bytes = (size_t)out->size[1] * cr_view_item(out);
    char *copy = NULL;
    cr_status st = CR_MEMORY;

    CR_TRY(check_rows(indices, out->size[0]));
    cr_zero_view(out);
    if (!cr_view_numel(grad))
        return CR_OK;
    row = cr_indices_to_plain(indices);
    if (!cr_view_is_contiguous(grad))
        copy = cr_dense_copy(grad);
    if (row && (copy || cr_view_is_contiguous(grad)))
        st = add_rows(out, copy ? copy : grad->data, row, n);
    if (!st && padding >= 0 && padding < out->size[0])
        memset(out->data + (size_t)padding * row_bytes, 0, row_bytes);
    if (!st && arg[4].i)
        st = divide_by_frequency(out, row, n);
    cr_free(copy);
    cr_free(row);
    return st;
}

/* Bags: for each run of indices the sum, mean or maximum of the selected rows. */

enum { BAG_SUM, BAG_MEAN, BAG_MAX, BAG_BLOCK = 32 };

typedef struct {
    const cr_view *weight, *samples; /* samples may be NULL */
    const int64_t *row, *start;      /* bag b is [start[b], start[b + 1]) */
    int64_t skip, mode;
    cr_view *out;
    int64_t *bag_of, *size, *most;
} bags;

/* Computes a block of columns of one bag.  Sums are in the wide type. */
#define BAG(suffix)                                                                            \
    static void bag_##suffix(const bags *b, int64_t bag, int64_t first, int64_t columns)       \
    {                                                                                          \
        const cr_view *t = b->weight;                                                          \
        int64_t row_step = cr_view_step(t, 0), step = cr_view_step(t, 1), n = 0;               \
        wide_##suffix acc[BAG_BLOCK] = {0};                                                    \
        char *to = b->out->data + (bag * t->size[1] + first) * (int64_t)sizeof(item_##suffix); \
        int64_t *most = b->most + bag * t->size[1] + first;                                    \
        for (int64_t i = b->start[bag]; i < b->start[bag + 1]; i++) {                          \
            const char *p = t->data + b->row[i] * row_step + first * step;                     \
            wide_##suffix w = 1;                                                               \
            if (b->row[i] == b->skip)                                                          \
                continue;                                                                      \
            if (b->samples)                                                                    \
                w = load_##suffix(b->samples->data + i * cr_view_step(b->samples, 0));         \
            for (int64_t c = 0; c < columns; c++, p += step) {                                 \
                wide_##suffix x = load_##suffix(p);                                            \
                if (b->mode != BAG_MAX) {                                                      \
                    acc[c] += x * w;                                                           \
                } else if (n == 0 || x > acc[c] || x != x) {                                   \
                    acc[c] = x;                                                                \
                    most[c] = b->row[i];                                                       \
                }                                                                              \
            }                                                                                  \
            n++;                                                                               \
        }                                                                                      \
        for (int64_t c = 0; c < columns; c++) {                                                \
            if (b->mode == BAG_MEAN && n > 1)                                                  \
                acc[c] /= (wide_##suffix)n;                                                    \
            if (n == 0)                                                                        \
                most[c] = -1;                                                                  \
            store_##suffix(to + c * (int64_t)sizeof(item_##suffix), acc[c]);                   \
        }                                                                                      \
        b->size[bag] = n;                                                                      \
    }
CR_FLOAT_TYPES(BAG)

typedef void (*bag_fn)(const bags *b, int64_t bag, int64_t first, int64_t columns);
static const bag_fn bag_fns[CR_DTYPE_COUNT] = {
    [CR_F16] = bag_f16, [CR_BF16] = bag_bf16, [CR_F32] = bag_f32, [CR_F64] = bag_f64};

static void bag_range(void *context, int64_t begin, int64_t end)
{
    const bags *b = context;
    int64_t columns = b->weight->size[1];

    for (int64_t bag = begin; bag < end; bag++) {
        b->size[bag] = 0;
        for (int64_t i = b->start[bag]; i < b->start[bag + 1]; i++)
            b->bag_of[i] = bag;
        for (int64_t c = 0; c < columns; c += BAG_BLOCK)
            bag_fns[b->out->dtype](b, bag, c,
                                   columns - c < BAG_BLOCK ? columns - c : BAG_BLOCK);
    }
}

/* The starts of all bags and the end of the last; the caller frees them.  NULL with the reason
 * in *st. */
static int64_t *bag_starts(const cr_view *offsets, int64_t bags_wanted, int64_t n,
                           cr_status *st)
{
    int64_t *given = cr_indices_to_plain(offsets);
    int64_t *start =
        given ? cr_realloc(given, (size_t)(bags_wanted + 1) * sizeof *start) : NULL;

    *st = CR_MEMORY;
    if (!start) {
        cr_free(given);
        return NULL;
    }
    if (offsets->size[0] == bags_wanted)
        start[bags_wanted] = n;
    *st = bags_wanted && start[0] != 0
              ? cr_fail(CR_RUNTIME,
                        "offsets[0] has to be 0, i.e., the first sequence in the mini-batch "
                        "has to start from position 0. However, got %lld",
                        (long long)start[0])
              : CR_OK;
    for (int64_t b = 0; b < bags_wanted && !*st; b++)
        if (start[b + 1] < start[b] || start[b + 1] > n)
            *st = cr_fail(CR_RUNTIME,
                          "offsets[-1] can not be greater than input's length %lld but got "
                          "offsets[-1] of %lld",
                          (long long)n, (long long)start[b + 1]);
    if (!*st)
        return start;
    cr_free(start);
    return NULL;
}

/* torch has two functions, and a message of each. */
static cr_status check_bag_rows(const bags *b, const cr_view *indices)
{
    int64_t rows = b->weight->size[0], *row, bad, i = 0;

    if (cr_indices_within(indices, 0, rows, &bad))
        return CR_OK;
    if (b->mode == BAG_MAX || b->weight->dtype == CR_F64)
        return cr_fail(CR_RUNTIME,
                       "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found "
                       "idx to be %lld",
                       (long long)bad);
    row = cr_indices_to_plain(indices);
    CR_NEED(row);
    while (row[i] >= 0 && row[i] < rows)
        i++;
    bad = row[i];
    cr_free(row);
    return cr_fail(CR_RUNTIME,
                   "Index %lld of input takes value %lld which is not in the valid range [0, "
                   "%lld)",
                   (long long)i, (long long)bad, (long long)rows);
}

/* Fills the results of b: output, offset2bag, bag_size, max_indices. */
static cr_status run_bags(bags *b, const cr_view *indices, const cr_view *offsets, cr_view *out)
{
    int64_t n = indices->size[0], count = out[0].size[0], *row, *start;
    cr_status st;

    b->out = &out[0];
    b->bag_of = (int64_t *)out[1].data;
    b->size = (int64_t *)out[2].data;
    b->most = (int64_t *)out[3].data;
    CR_TRY(check_bag_rows(b, indices));
    b->start = start = bag_starts(offsets, count, n, &st);
    if (!start)
        return st;
    cr_zero_view(&out[1]); /* indices after the last bag are in no bag */
    cr_zero_view(&out[3]); /* sums have no maximum */
    b->row = row = cr_indices_to_plain(indices);
    if (row)
        cr_parallel_for(count,
                        cr_walk_grain(b->weight->size[1] * (n / (count ? count : 1) + 1)),
                        bag_range, b);
    cr_free(row);
    cr_free(start);
    return row ? CR_OK : CR_MEMORY;
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
 *  include_last_offset, padding_idx) -> output, offset2bag, bag_size, max_indices */
cr_status cr_kern_embedding_bag(const cr_value *arg, cr_view *out)
{
    bags b = {.weight = arg[0].view,
              .samples = arg[6].tag == CR_NONE ? NULL : arg[6].view,
              .skip = arg[8].i,
              .mode = arg[4].i};

    return run_bags(&b, arg[1].view, arg[2].view, out);
}

/* (weight, indices, offsets, bags, padding_idx) -> the same, of maxima */
cr_status cr_kern_largest_of_bags(const cr_value *arg, cr_view *out)
{
    bags b = {.weight = arg[0].view, .skip = arg[4].i, .mode = BAG_MAX};

    return run_bags(&b, arg[1].view, arg[2].view, out);
}

/* (indices, offsets, bags) -> the bag of each index, whether it is in one */
cr_status cr_kern_bags_of(const cr_value *arg, cr_view *out)
{
    int64_t n = arg[0].view->size[0], count = arg[2].i, *bag = (int64_t *)out[0].data;
    bool *inside = (bool *)out[1].data;
    cr_status st;
    int64_t *start = bag_starts(arg[1].view, count, n, &st);

    if (!start)
        return st;
    cr_zero_view(&out[0]);
    cr_zero_view(&out[1]);
    for (int64_t b = 0; b < count; b++)
        for (int64_t i = start[b]; i < start[b + 1]; i++) {
            bag[i] = b;
            inside[i] = true;
        }
    cr_free(start);
    return CR_OK;
}

/* Adds one sample's share of its bag's gradient to a row. */
#define SHARE(suffix)                                                                          \
    static void share_##suffix(char *to, const char *grad, int64_t step, int64_t columns,      \
                               const char *weight, int64_t divisor)                            \
    {                                                                                          \
        wide_##suffix w = weight ? load_##suffix(weight) : 1;                                  \
        for (int64_t c = 0; c < columns; c++) {                                                \
            wide_##suffix g = load_##suffix(grad + c * step) * w / (wide_##suffix)divisor;     \
            char *p = to + c * (int64_t)sizeof(item_##suffix);                                 \
            store_##suffix(p, load_##suffix(p) + g);                                           \
        }                                                                                      \
    }
CR_FLOAT_TYPES(SHARE)

typedef void (*share_fn)(char *to, const char *grad, int64_t step, int64_t columns,
                         const char *weight, int64_t divisor);
static const share_fn shares[CR_DTYPE_COUNT] = {
    [CR_F16] = share_f16, [CR_BF16] = share_bf16, [CR_F32] = share_f32, [CR_F64] = share_f64};

static cr_status check_bags(const cr_view *bag_of, int64_t count)
{
    int64_t bad;

    if (cr_indices_within(bag_of, 0, count, &bad))
        return CR_OK;
    return cr_fail(CR_INDEX, "embedding_bag: there is no bag %lld of %lld", (long long)bad,
                   (long long)count);
}

static int64_t index_of(const cr_view *v, int64_t i)
{
    return *(const int64_t *)(const void *)(v->data + i * cr_view_step(v, 0));
}

static void add_shares(cr_view *out, const cr_value *arg, const int64_t *row)
{
    const cr_view *grad = arg[0].view, *samples = arg[8].tag == CR_NONE ? NULL : arg[8].view;
    int64_t step = out->size[1] * (int64_t)cr_view_item(out);

    for (int64_t i = 0; i < arg[1].view->size[0]; i++) {
        int64_t bag = index_of(arg[2].view, i), size = index_of(arg[3].view, bag);
        int64_t divisor = arg[7].i == BAG_MEAN && size ? size : 1;
        if (row[i] != arg[9].i)
            shares[out->dtype](
                out->data + row[i] * step, grad->data + bag * cr_view_step(grad, 0),
                cr_view_step(grad, 1), out->size[1],
                samples ? samples->data + i * cr_view_step(samples, 0) : NULL, divisor);
    }
}

static void add_to_largest(cr_view *out, const cr_value *arg)
{
    const cr_view *grad = arg[0].view, *most = arg[4].view;
    int64_t columns = out->size[1], item = (int64_t)cr_view_item(out);

    for (int64_t b = 0; b < grad->size[0]; b++)
        for (int64_t c = 0; c < columns; c++) {
            const char *row =
                most->data + b * cr_view_step(most, 0) + c * cr_view_step(most, 1);
            int64_t r = *(const int64_t *)(const void *)row;
            if (r >= 0)
                shares[out->dtype](out->data + (r * columns + c) * item,
                                   grad->data + b * cr_view_step(grad, 0) +
                                       c * cr_view_step(grad, 1),
                                   0, 1, NULL, 1);
        }
}

static cr_status check_largest(const cr_view *most, int64_t rows)
{
    int64_t bad;

    if (cr_indices_within(most, -1, rows, &bad))
        return CR_OK;
    return cr_fail(CR_INDEX, "embedding_bag: there is no row %lld of %lld", (long long)bad,
                   (long long)rows);
}

/* (grad, indices, offset2bag, bag_size, max_indices, num_weights, scale_grad_by_freq, mode,
 *  per_sample_weights, padding_idx); the three in the middle are the forward's results. */
cr_status cr_kern_embedding_bag_backward(const cr_value *arg, cr_view *out)
{
    int64_t *row;
    cr_status st = CR_OK;

    CR_TRY(check_rows(arg[1].view, out->size[0]));
    CR_TRY(check_bags(arg[2].view, arg[0].view->size[0]));
    if (arg[7].i == BAG_MAX)
        CR_TRY(check_largest(arg[4].view, out->size[0]));
    cr_zero_view(out);
    row = cr_indices_to_plain(arg[1].view);
    CR_NEED(row);
    if (arg[7].i == BAG_MAX)
        add_to_largest(out, arg);
    else
        add_shares(out, arg, row);
    if (arg[6].i)
        st = divide_by_frequency(out, row, arg[1].view->size[0]);
    cr_free(row);
    return st;
}

#define DOT(suffix)                                                                            \
    static void dot_##suffix(char *to, const char *a, int64_t a_step, const char *b,           \
                             int64_t b_step, int64_t n)                                        \
    {                                                                                          \
        sum_##suffix sum = 0;                                                                  \
        for (int64_t i = 0; i < n; i++)                                                        \
            sum += (sum_##suffix)load_##suffix(a + i * a_step) *                               \
                   (sum_##suffix)load_##suffix(b + i * b_step);                                \
        store_##suffix(to, sum);                                                               \
    }
CR_FLOAT_TYPES(DOT)

typedef void (*dot_fn)(char *to, const char *a, int64_t a_step, const char *b, int64_t b_step,
                       int64_t n);
static const dot_fn dots[CR_DTYPE_COUNT] = {
    [CR_F16] = dot_f16, [CR_BF16] = dot_bf16, [CR_F32] = dot_f32, [CR_F64] = dot_f64};

/* (grad, weight, indices, offset2bag, padding_idx) -> the gradient of per_sample_weights. */
cr_status cr_kern_embedding_bag_samples_backward(const cr_value *arg, cr_view *out)
{
    const cr_view *grad = arg[0].view, *weight = arg[1].view;
    int64_t *row;

    CR_TRY(check_rows(arg[2].view, weight->size[0]));
    CR_TRY(check_bags(arg[3].view, grad->size[0]));
    cr_zero_view(out);
    row = cr_indices_to_plain(arg[2].view);
    CR_NEED(row);
    for (int64_t i = 0; i < out->size[0]; i++)
        if (row[i] != arg[4].i)
            dots[out->dtype](out->data + i * cr_view_step(out, 0),
                             grad->data + index_of(arg[3].view, i) * cr_view_step(grad, 0),
                             cr_view_step(grad, 1),
                             weight->data + row[i] * cr_view_step(weight, 0),
                             cr_view_step(weight, 1), weight->size[1]);
    cr_free(row);
    return CR_OK;
}
