/* Operators that order a line: sort, topk, kthvalue, median, mode. */
#include "base/memory.h"
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/order/sort_line.h"
#include "kern/cpu/walk.h"
#include <stdatomic.h>

/* The work on one line.  `room` is scratch memory for the sort; `order` has room for line.n
 * indices. */
typedef struct line_job line_job;
typedef void (*line_fn)(const line_job *job, const cr_line *line, char *value, char *index,
                        int64_t *order, void *room);

struct line_job {
    line_fn fn;
    cr_dtype dtype;
    int64_t n, k; /* length of a line; the operator's argument k */
    int64_t step, value_step, index_step;
    size_t item;
    bool descending, skip_nan, loose;
    _Atomic bool no_memory;
};

enum { VALUE, INDEX, SELF };

static void job_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    line_job *job = context;
    size_t room = cr_line_room(job->dtype, job->n);
    char *memory = cr_alloc(room + (size_t)job->n * sizeof(int64_t));

    if (!memory) {
        atomic_store(&job->no_memory, true);
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        cr_line line = {at[SELF] + j * step[SELF], job->step, job->n, job->dtype,
                        job->descending};
        job->fn(job, &line, at[VALUE] + j * step[VALUE], at[INDEX] + j * step[INDEX],
                (int64_t *)(memory + room), memory);
    }
    cr_free(memory);
}

/* The strides of a result by dimension of self, with or without `dim` kept. */
static void sort_result_strides(int64_t *stride, const cr_view *out, int ndim, int64_t dim)
{
    bool kept = out->ndim == ndim;

    for (int d = 0; d < ndim; d++)
        stride[d] = kept ? out->stride[d] : d == dim ? 0 : out->stride[d < dim ? d : d - 1];
}

static int64_t step_along(const cr_view *out, int ndim, int64_t dim)
{
    return out->ndim == ndim && ndim ? cr_view_step(out, dim) : (int64_t)cr_view_item(out);
}

/* Runs the job on every line of self along dim; out[0] takes values, out[1] indices. */
static cr_status run_lines(line_job *job, const cr_view *self, int64_t dim, cr_view *out)
{
    int64_t stride[CR_MAX_DIMS];
    cr_walk w;

    dim = cr_view_dim(self, dim);
    job->dtype = (cr_dtype)self->dtype;
    job->item = cr_view_item(self);
    job->n = cr_view_size(self, dim);
    job->step = cr_view_step(self, dim);
    job->value_step = step_along(&out[0], self->ndim, dim);
    job->index_step = step_along(&out[1], self->ndim, dim);
    if (!cr_view_numel(&out[0]))
        return CR_OK;
    cr_walk_start(&w, self->ndim, self->size, (int)dim);
    for (int k = 0; k < 2; k++) {
        sort_result_strides(stride, &out[k], self->ndim, dim);
        cr_walk_add_strides(&w, out[k].data, stride, cr_view_item(&out[k]));
    }
    cr_walk_add(&w, self);
    cr_walk_merge(&w);
    cr_walk_run(&w, cr_walk_grain(8 * job->n), job_row, job);
    return atomic_load(&job->no_memory) ? CR_MEMORY : CR_OK;
}

/* Writes `count` elements and their indices in the given order. */
#define PUT(name, type)                                                                        \
    static void name(const line_job *job, const cr_line *line, char *value, char *index,       \
                     const int64_t *order, int64_t count)                                      \
    {                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                  \
            memcpy(value + i * job->value_step, line->data + order[i] * line->step,            \
                   sizeof(type));                                                              \
            *(int64_t *)(index + i * job->index_step) = order[i];                              \
        }                                                                                      \
    }
PUT(put_1, uint8_t)
PUT(put_2, uint16_t)
PUT(put_4, uint32_t)
PUT(put_8, uint64_t)

static void put_order(const line_job *job, const cr_line *line, char *value, char *index,
                      const int64_t *order, int64_t count)
{
    switch (job->item) {
    case 1: put_1(job, line, value, index, order, count); return;
    case 2: put_2(job, line, value, index, order, count); return;
    case 4: put_4(job, line, value, index, order, count); return;
    default: put_8(job, line, value, index, order, count); return;
    }
}

static void sort_line(const line_job *job, const cr_line *line, char *value, char *index,
                      int64_t *order, void *room)
{
    if (job->loose)
        cr_line_sort_loose(line, order, room);
    else
        cr_line_sort(line, order, room);
    put_order(job, line, value, index, order, line->n);
}

static void topk_line(const line_job *job, const cr_line *line, char *value, char *index,
                      int64_t *order, void *room)
{
    cr_line_top(line, job->k, order, room);
    put_order(job, line, value, index, order, job->k);
}

static void rank_line(const line_job *job, const cr_line *line, char *value, char *index,
                      int64_t *order, void *room)
{
    order[0] = cr_line_rank(line, job->k, room);
    put_order(job, line, value, index, order, 1);
}

static int64_t first_nan(const cr_line *line)
{
    cr_line one = *line;
    int64_t i = 0;

    for (one.n = 1; !cr_line_nans(&one); i++)
        one.data += line->step;
    return i;
}

/* The lower median; NaN when the line has a NaN, unless NaNs are ignored. */
static void median_line(const line_job *job, const cr_line *line, char *value, char *index,
                        int64_t *order, void *room)
{
    int64_t nans = cr_line_nans(line), numbers = line->n - nans;
    int64_t rank = numbers ? (numbers - 1) / 2 : 0;

    order[0] = nans && !job->skip_nan ? first_nan(line) : cr_line_middle(line, rank, room);
    put_order(job, line, value, index, order, 1);
}

static uint64_t line_key(const cr_line *line, int64_t i)
{
    return cr_sort_key(line->dtype, line->data + i * line->step);
}

/* True if the first element is less; a NaN, which has the key `nan`, is neither less nor
 * greater. */
static bool line_is_less(const cr_line *line, int64_t a, int64_t b, uint64_t nan)
{
    uint64_t x = line_key(line, a), y = line_key(line, b);

    return x != nan && y != nan && x < y;
}

/* Sorts as std::sort does that compares with <, to which NaNs are equal to everything: an
 * insertion that stops at a NaN. */
static void mode_insert(const cr_line *line, int64_t *order, uint64_t nan)
{
    for (int64_t i = 0; i < line->n; i++) {
        int64_t k = i;
        if (i && line_is_less(line, i, order[0], nan))
            for (; k > 0; k--)
                order[k] = order[k - 1];
        else
            for (; k > 0 && line_is_less(line, i, order[k - 1], nan); k--)
                order[k] = order[k - 1];
        order[k] = i;
    }
}

/* Longest line that std::sort sorts by insertion. */
enum { MODE_INSERTED = 16 };

/* The smallest of the most frequent values, with the last of its indices in sorted order.  NaNs
 * differ from each other; their place among few elements is torch's. */
static void mode_line(const line_job *job, const cr_line *line, char *value, char *index,
                      int64_t *order, void *room)
{
    int64_t best = 0, most = 0, run = 0;
    bool nans = cr_line_nans(line) > 0;
    uint64_t last = 0, nan = nans ? line_key(line, first_nan(line)) : 0;

    if (nans && line->n <= MODE_INSERTED)
        mode_insert(line, order, nan);
    else
        cr_line_sort_loose(line, order, room);
    for (int64_t i = 0; i < line->n; i++) {
        uint64_t key = line_key(line, order[i]);
        run = i && key == last && !(nans && key == nan) ? run + 1 : 1;
        last = key;
        if (run > most) {
            most = run;
            best = i;
        }
    }
    put_order(job, line, value, index, order + best, 1);
}

/* (self, dim, descending) -> values, indices */
cr_status cr_kern_sort(const cr_value *arg, cr_view *out)
{
    line_job job = {.fn = sort_line, .descending = arg[2].i, .loose = true};

    return run_lines(&job, arg[0].view, arg[1].i, out);
}

/* (self, *, stable, dim, descending) -> values, indices */
cr_status cr_kern_sort_stable(const cr_value *arg, cr_view *out)
{
    line_job job = {
        .fn = sort_line, .descending = arg[3].i, .loose = arg[1].tag == CR_NONE || !arg[1].i};

    return run_lines(&job, arg[0].view, arg[2].i, out);
}

/* (self, k, dim, largest, sorted) -> values, indices */
cr_status cr_kern_topk(const cr_value *arg, cr_view *out)
{
    line_job job = {.fn = topk_line, .k = arg[1].i, .descending = arg[3].i};

    return run_lines(&job, arg[0].view, arg[2].i, out);
}

/* (self, k, dim, keepdim) -> values, indices */
cr_status cr_kern_kthvalue(const cr_value *arg, cr_view *out)
{
    line_job job = {.fn = rank_line, .k = arg[1].i - 1};

    return run_lines(&job, arg[0].view, arg[2].i, out);
}

/* (self, dim, keepdim) -> values, indices */
cr_status cr_kern_median_dim(const cr_value *arg, cr_view *out)
{
    line_job job = {.fn = median_line};

    return run_lines(&job, arg[0].view, arg[1].i, out);
}

cr_status cr_kern_nanmedian_dim(const cr_value *arg, cr_view *out)
{
    line_job job = {.fn = median_line, .skip_nan = true};

    return run_lines(&job, arg[0].view, arg[1].i, out);
}

cr_status cr_kern_mode(const cr_value *arg, cr_view *out)
{
    line_job job = {.fn = mode_line};

    return run_lines(&job, arg[0].view, arg[1].i, out);
}

/* The median of all elements: a dense copy is one line. */
static cr_status median_of_all(const cr_value *arg, cr_view *out, bool skip_nan)
{
    const cr_view *self = arg[0].view;
    int64_t n = cr_view_numel(self), stride = 1, found;
    cr_view flat = {cr_dense_copy(self), &n, &stride, 1, self->dtype, CR_HOST, false};
    cr_view both[2] = {*out, {(char *)&found, NULL, NULL, 0, CR_I64, CR_HOST, false}};
    line_job job = {.fn = median_line, .skip_nan = skip_nan};
    cr_status st;

    CR_NEED(flat.data);
    if (n) {
        st = run_lines(&job, &flat, 0, both);
    } else {
        cr_scalar_store(cr_scalar_float((double)NAN), (cr_dtype)self->dtype, out->data);
        st = CR_OK;
    }
    cr_free(flat.data);
    return st;
}

cr_status cr_kern_median(const cr_value *arg, cr_view *out)
{
    return median_of_all(arg, out, false);
}
cr_status cr_kern_nanmedian(const cr_value *arg, cr_view *out)
{
    return median_of_all(arg, out, true);
}
