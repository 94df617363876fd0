/* Reductions that keep the index of their value: argmax, and max along a dim.
 *
 * A kernel of rows folds a dim whose elements are adjacent.  A kernel of columns folds any
 * other dim, if the elements of a remaining dim are adjacent in the input and in the results.
 * Other layouts, and dtypes without kernels, are copied first to a row-major tensor of the
 * compute type.  Rows so short that their kernel takes longer than a copy are copied to
 * columns.  The result does not depend on the order of the fold: the first of equal extremes
 * wins, and the first NaN wins over any number.  So the parts of a long line may be folded
 * apart. */
#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "jit/cuda.h"
#include "num/convert.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/kernel.h"
#include "tensor/remote.h"
#include <string.h>

enum { GRAIN = 32768, STRIP = 2048, PART = 65536, SMALL = 4096 };

/* Short rows have less than SHORT_BYTES elements of one byte, or less than SHORT_WIDE elements
 * of eight bytes.  At least FEW short rows are copied to columns; fewer rows of bytes are
 * computed in int32.  With 20,000 rows of 16: uint8 2,060 -> 175 us, int64 524 -> 213 us. */
enum { SHORT_BYTES = 128, SHORT_WIDE = 32, FEW = 64 };

/* Results and input; dims other than the reduced one are from the slowest to the fastest.
 * Strides count bytes of the input and elements of the results. */
typedef struct {
    const cr_op *op;
    cr_placed_kernel kernel;
    cr_status status; /* of launches on another device */
    const char *in;
    char *out[CR_MAX_RESULTS];
    int64_t out_item[CR_MAX_RESULTS];
    int outputs, ndim;
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS], out_stride[CR_MAX_DIMS];
    int64_t count; /* product of the sizes */
    int64_t length, step, item;
    int64_t columns, strips; /* the dim that COLUMNS kernels take */
} index_job;

/* --- kernel calls --- */

/* Calls the kernel for results from `to` on and elements from `from` on. */
static void index_call(index_job *j, int64_t to, const char *from, const int64_t *out_stride,
                       const int64_t *in_stride, const int64_t *size)
{
    static const cr_params none; /* a launch copies all slots */
    void *ptr[CR_MAX_RESULTS + 1];
    int64_t stride[2 * (CR_MAX_RESULTS + 1)];

    for (int k = 0; k < j->outputs; k++) {
        ptr[k] = j->out[k] + to * j->out_item[k];
        stride[2 * k] = out_stride[0] * j->out_item[k];
        stride[2 * k + 1] = out_stride[1] * j->out_item[k];
    }
    ptr[j->outputs] = (void *)from;
    stride[2 * j->outputs] = in_stride[0];
    stride[2 * j->outputs + 1] = in_stride[1];
    cr_status st = cr_call_kernel(&j->kernel, j->outputs + 1, ptr, stride, size, none.slot);
    if (CR_UNLIKELY(st))
        j->status = st;
}

/* The offsets of position `i` in the first `ndim` dims. */
static const char *index_place(const index_job *j, int ndim, int64_t i, int64_t *to)
{
    const char *from = j->in;

    *to = 0;
    for (int d = ndim - 1; d >= 0; d--) {
        from += i % j->size[d] * j->stride[d];
        *to += i % j->size[d] * j->out_stride[d];
        i /= j->size[d];
    }
    return from;
}

/* Folds the rows [begin, end); one call folds neighbours in the fastest dim. */
static void index_rows(void *context, int64_t begin, int64_t end)
{
    index_job *j = context;
    int last = j->ndim - 1;
    int64_t run = last >= 0 ? j->size[last] : 1, to;

    while (begin < end) {
        int64_t left = run - begin % run, n = left < end - begin ? left : end - begin;
        const char *from = index_place(j, j->ndim, begin, &to);
        index_call(j, to, from, (int64_t[]){last >= 0 ? j->out_stride[last] : 0, 0},
                   (int64_t[]){last >= 0 ? j->stride[last] : 0, j->item},
                   (int64_t[]){n, j->length});
        begin += n;
    }
}

/* Folds units (outer, strip of columns); the columns are the last dim. */
static void index_strips(void *context, int64_t begin, int64_t end)
{
    index_job *j = context;
    int64_t to;

    for (int64_t u = begin; u < end; u++) {
        int64_t first = u % j->strips * STRIP;
        int64_t n = j->columns - first < STRIP ? j->columns - first : STRIP;
        const char *from = index_place(j, j->ndim - 1, u / j->strips, &to);
        index_call(j, to + first, from + first * j->item, (int64_t[]){0, 1},
                   (int64_t[]){j->step, j->item}, (int64_t[]){j->length, n});
    }
}

/* --- another device: a launch for all dims --- */

/* Launches for the first `n` dims outside those of `l`. */
static void index_launch(index_job *j, cr_launch *l, int n)
{
    static const cr_params none;
    int64_t stride[(CR_MAX_RESULTS + 1) * CR_MAX_DIMS];

    for (int d = 0; d < n; d++) {
        for (int k = 0; k < j->outputs; k++)
            stride[k * n + d] = j->out_stride[d] * j->out_item[k];
        stride[j->outputs * n + d] = j->stride[d];
    }
    l->operands = j->outputs + 1;
    l->param = none.slot;
    l->param_bytes = sizeof none.slot;
    l->outer = n;
    l->outer_size = j->size;
    l->outer_stride = stride;
    j->status = cr_launch_kernel(&j->kernel, l);
}

/* The dim of the rows is the last one; that of the columns is, in a kernel of columns. */
static void index_launch_all(index_job *j, bool columns)
{
    int last = j->ndim - 1;
    void *ptr[CR_MAX_RESULTS + 1];
    int64_t stride[2 * (CR_MAX_RESULTS + 1)];
    cr_launch l = {.pointer = ptr, .stride = stride, .size = {1, j->length}};

    for (int k = 0; k < j->outputs; k++) {
        ptr[k] = j->out[k];
        stride[2 * k] = columns || last < 0 ? 0 : j->out_stride[last] * j->out_item[k];
        stride[2 * k + 1] = columns ? j->out_item[k] : 0;
    }
    ptr[j->outputs] = (void *)(uintptr_t)j->in;
    stride[2 * j->outputs] = columns ? j->step : last < 0 ? 0 : j->stride[last];
    stride[2 * j->outputs + 1] = j->item;
    if (last >= 0)
        l.size[0] = j->size[last];
    if (columns) {
        l.size[0] = j->length;
        l.size[1] = j->columns;
    }
    index_launch(j, &l, last < 0 ? 0 : last);
}

/* --- few long lines, on a CUDA device --- */

/* A line is divided into parts of PART_ROW columns or PART_COLUMN rows when there are fewer
 * than LINES_ROW or LINES_COLUMN lines: a block of threads has a row, a thread four columns. */
enum { PART_ROW = 8192, PART_COLUMN = 128, LINES_ROW = 1024, LINES_COLUMN = 1 << 18 };

/* Values and indices [outer, parts, columns] of the parts' extremes, and for each line the part
 * of its extreme. */
typedef struct {
    cr_dtype dtype;
    bool columns;
    int64_t unit, parts, wide; /* elements of a part; columns, 1 in rows */
    cr_tensor *value, *index, *best;
} line_parts;

static bool index_has_parts(const index_job *j, bool columns)
{
    if (j->kernel.device.kind != CR_CUDA || j->ndim + 1 >= CR_MAX_DIMS)
        return false;
    return columns ? j->count < LINES_COLUMN && j->length >= 2 * PART_COLUMN
                   : j->count < LINES_ROW && j->length >= 4 * PART_ROW;
}

/* Folds `parts` parts of each line, of `length` elements each, from part `first` on. */
static cr_status parts_fold(const index_job *j, const line_parts *s, int64_t first,
                            int64_t parts, int64_t length)
{
    index_job p = *j;
    int at = s->columns ? j->ndim - 1 : j->ndim;

    if (!parts || !length)
        return CR_OK;
    for (int d = 0; d < at; d++)
        p.out_stride[d] *= s->parts;
    p.size[at + s->columns] = j->size[at];
    p.stride[at + s->columns] = j->stride[at];
    p.out_stride[at + s->columns] = j->out_stride[at];
    p.size[at] = parts;
    p.stride[at] = s->unit * j->step;
    p.out_stride[at] = s->wide;
    p.ndim++;
    p.length = length;
    p.in = j->in + first * s->unit * j->step;
    p.outputs = 2;
    p.out_item[0] = j->item;
    p.out_item[1] = sizeof(int64_t);
    p.out[0] = s->value->data + first * s->wide * j->item;
    p.out[1] = s->index->data + first * s->wide * (int64_t)sizeof(int64_t);
    CR_TRY(cr_place_kernel(&p.kernel, j->kernel.device, j->op, s->dtype,
                           s->columns ? CR_FORM_JOIN_COLUMNS : CR_FORM_JOIN));
    index_launch_all(&p, s->columns);
    return p.status;
}

/* Finds the part of each line's extreme, and sets the results that are values. */
static cr_status parts_find_best(const index_job *j, const line_parts *s)
{
    index_job p = *j;

    p.in = s->value->data;
    p.out[j->outputs - 1] = s->best->data;
    p.ndim = 1 + s->columns;
    p.size[0] = j->count / s->wide;
    p.stride[0] = s->parts * s->wide * j->item;
    p.out_stride[0] = s->wide;
    p.size[s->columns] = s->columns ? s->wide : p.size[0];
    p.stride[s->columns] = s->columns ? j->item : p.stride[0];
    p.out_stride[s->columns] = 1;
    p.length = s->parts;
    p.step = s->wide * j->item;
    index_launch_all(&p, s->columns);
    return p.status;
}

static cr_status parts_new(line_parts *s, const index_job *j)
{
    int64_t n = j->count * s->parts;

    CR_TRY(cr_tensor_new(&s->value, s->dtype, j->kernel.device, 1, &n));
    CR_TRY(cr_tensor_new(&s->index, CR_I64, j->kernel.device, 1, &n));
    return cr_tensor_new(&s->best, CR_I64, j->kernel.device, 1, &j->count);
}

static cr_status index_run_parts(const index_job *j, cr_dtype dtype, bool columns)
{
    line_parts s = {.dtype = dtype,
                    .columns = columns,
                    .unit = columns ? PART_COLUMN : PART_ROW,
                    .wide = columns ? j->columns : 1};
    int64_t whole = j->length / s.unit;
    cr_status st;

    s.parts = (j->length + s.unit - 1) / s.unit;
    CR_GO(parts_new(&s, j));
    CR_GO(parts_fold(j, &s, 0, whole, s.unit));
    CR_GO(parts_fold(j, &s, whole, 1, j->length - whole * s.unit));
    CR_GO(parts_find_best(j, &s));
    CR_GO(cr_device_status(cr_cuda_join_indices(
        j->kernel.device.index,
        &(cr_cuda_parts){.out = (int64_t *)(void *)j->out[j->outputs - 1],
                         .best = (const int64_t *)(const void *)s.best->data,
                         .part = (const int64_t *)(const void *)s.index->data,
                         .n = j->count,
                         .columns = s.wide,
                         .parts = s.parts,
                         .unit = s.unit})));
done:
    cr_drop(s.value);
    cr_drop(s.index);
    cr_drop(s.best);
    return st;
}

/* --- few long rows, on the host --- */

/* Results of the parts of one row. */
typedef struct {
    index_job *j;
    const char *from;
    int64_t *index;
    char *value;
} row_parts;

/* The same kernel with results at `index` and `value`. */
static index_job index_job_at(const index_job *j, int64_t *index, char *value)
{
    index_job p = *j;

    p.out[0] = value;
    p.out_item[0] = j->item;
    p.out[j->outputs - 1] = (char *)index;
    p.out_item[j->outputs - 1] = sizeof *index;
    return p;
}

static void index_parts(void *context, int64_t begin, int64_t end)
{
    row_parts *r = context;
    index_job p = index_job_at(r->j, r->index, r->value);
    static const int64_t none[2] = {0, 0};

    for (int64_t u = begin; u < end; u++) {
        int64_t first = u * PART, left = r->j->length - first;
        index_call(&p, u, r->from + first * p.item, none, (int64_t[]){0, p.item},
                   (int64_t[]){1, left < PART ? left : PART});
        memcpy(r->value + u * p.item, r->from + (first + r->index[u]) * p.item, (size_t)p.item);
    }
}

/* Folds each part of the row, then the parts' extremes. */
static cr_status index_long_row(index_job *j, int64_t row)
{
    int64_t parts = (j->length + PART - 1) / PART, to, best;
    row_parts r = {.j = j,
                   .from = index_place(j, j->ndim, row, &to),
                   .index = cr_alloc((size_t)parts * sizeof *r.index),
                   .value = cr_alloc((size_t)(parts * j->item))};
    cr_status st = r.index && r.value ? CR_OK : CR_MEMORY;

    if (!st) {
        char *value = j->outputs > 1 ? j->out[0] + to * j->out_item[0] : NULL;
        index_job p = index_job_at(j, &best, value);
        cr_parallel_for(parts, 1, index_parts, &r);
        index_call(&p, 0, r.value, (int64_t[]){0, 0}, (int64_t[]){0, p.item},
                   (int64_t[]){1, parts});
        int64_t found = best * PART + r.index[best];
        memcpy(j->out[j->outputs - 1] + to * (int64_t)sizeof found, &found, sizeof found);
    }
    cr_free(r.value);
    cr_free(r.index);
    return st;
}

static cr_status index_all_rows(index_job *j)
{
    bool split = j->count < 4 && j->length >= 2 * PART;

    if (j->count <= GRAIN / j->length && !split)
        index_rows(j, 0, j->count);
    else if (!split)
        cr_parallel_for(j->count, 1 + GRAIN / j->length, index_rows, j);
    for (int64_t row = 0; split && row < j->count; row++)
        CR_TRY(index_long_row(j, row));
    return j->status;
}

static void index_all_columns(index_job *j)
{
    int64_t wide = j->columns < STRIP ? j->columns : STRIP;

    cr_parallel_for(j->count / j->columns * j->strips, 1 + GRAIN / (j->length * wide),
                    index_strips, j);
}

/* --- layouts --- */

/* Moves dim `d` to the end, as the columns. */
static void index_set_columns(index_job *j, int d)
{
    int64_t size = j->size[d], stride = j->stride[d], out_stride = j->out_stride[d];

    for (; d + 1 < j->ndim; d++) {
        j->size[d] = j->size[d + 1];
        j->stride[d] = j->stride[d + 1];
        j->out_stride[d] = j->out_stride[d + 1];
    }
    j->size[d] = j->columns = size;
    j->stride[d] = stride;
    j->out_stride[d] = out_stride;
    j->strips = (size + STRIP - 1) / STRIP;
}

/* A dim whose elements are adjacent in the input and the results, or -1. */
static int index_column_dim(const index_job *j)
{
    for (int d = j->ndim - 1; d >= 0 && j->length <= INT32_MAX; d--)
        if (j->stride[d] == j->item && j->out_stride[d] == 1)
            return d;
    return -1;
}

/* Joins dims without gaps between them. */
static void index_add_dim(index_job *j, int64_t size, int64_t stride, int64_t out_stride)
{
    int last = j->ndim - 1;

    if (last >= 0 && j->stride[last] == stride * size &&
        j->out_stride[last] == out_stride * size) {
        j->size[last] *= size;
        j->stride[last] = stride;
        j->out_stride[last] = out_stride;
        return;
    }
    j->size[j->ndim] = size;
    j->stride[j->ndim] = stride;
    j->out_stride[j->ndim++] = out_stride;
}

/* Fills the job from views; `dim` is -1 for a row of all elements of a row-major input. */
static void index_set_dims(index_job *j, const cr_view *self, int dim, const cr_view *out)
{
    bool kept = out->ndim == self->ndim;

    j->in = self->data;
    j->item = (int64_t)cr_dtype_size((cr_dtype)self->dtype);
    j->ndim = 0;
    j->length = dim < 0 ? cr_numel(self->ndim, self->size) : self->size[dim];
    /* The stride of a dim of size 1 may be any number. */
    j->step = dim < 0 ? j->item : CR_WRAP_MUL(self->stride[dim], j->item);
    j->count = 1;
    for (int d = 0; dim >= 0 && d < self->ndim; d++) {
        if (d == dim || self->size[d] == 1)
            continue;
        index_add_dim(j, self->size[d], self->stride[d] * j->item,
                      out->stride[kept || d < dim ? d : d - 1]);
        j->count *= self->size[d];
    }
}

static bool index_is_short(const index_job *j)
{
    int64_t below = j->item == 1 ? SHORT_BYTES : j->item == 8 ? SHORT_WIDE : 0;

    return j->step == j->item && j->length > 1 && j->length < below && j->count >= FEW;
}

/* True for a few short rows of bytes, which take less time as int32. */
static bool index_widens(const index_job *j)
{
    return j->item == 1 && j->step == 1 && j->length < SHORT_BYTES && j->count < FEW;
}

/* True if a kernel can read the layout in place.  The dtype must be a compute type. */
static bool index_reads_in_place(const index_job *j, const cr_view *self, int dim)
{
    if (dim < 0)
        return cr_is_contiguous(self->ndim, self->size, self->stride);
    return j->length == 1 || (j->step == j->item && !index_is_short(j)) ||
           (j->step != j->item && index_column_dim(j) >= 0);
}

static cr_status index_run(index_job *j, const cr_view *self)
{
    int column = j->length == 1 || j->step == j->item ? -1 : index_column_dim(j);
    bool rows = column < 0;

    j->step = rows ? j->item : j->step;
    CR_TRY(cr_place_kernel(&j->kernel, self->device, j->op, (cr_dtype)self->dtype,
                           rows ? CR_FORM_MAIN : CR_FORM_COLUMNS));
    if (!rows)
        index_set_columns(j, column);
    if (index_has_parts(j, !rows))
        return index_run_parts(j, (cr_dtype)self->dtype, !rows);
    if (!cr_is_host(self->device))
        index_launch_all(j, !rows);
    else if (rows)
        return index_all_rows(j);
    else
        index_all_columns(j);
    return j->status;
}

static void index_set_outputs(index_job *j, const cr_op *op, cr_view *out)
{
    j->outputs = op->result_count;
    for (int k = 0; k < op->result_count; k++) {
        j->out[k] = out[k].data;
        j->out_item[k] = (int64_t)cr_dtype_size((cr_dtype)out[k].dtype);
    }
}

/* Memory for a copy: on the stack where it is small. */
typedef struct {
    cr_tensor *tensor;
    cr_view view;
    int64_t stride[CR_MAX_DIMS];
    _Alignas(16) char small[SMALL];
} index_copy;

/* Allocates a tensor with the sizes of `like`, without setting its elements.  Dim `slowest`
 * gets the largest stride; the other dims are row-major. */
static cr_status index_copy_new(index_copy *c, const cr_view *like, cr_dtype dtype, int slowest)
{
    int64_t step = 1;

    for (int d = like->ndim - 1; d >= 0; d--) {
        c->stride[d] = step;
        step *= d == slowest ? 1 : like->size[d];
    }
    if (slowest >= 0)
        c->stride[slowest] = step;
    step *= slowest >= 0 ? like->size[slowest] : 1;
    c->tensor = NULL;
    c->view = (cr_view){c->small,       like->size,   c->stride, like->ndim,
                        (uint8_t)dtype, like->device, false};
    if (cr_is_host(like->device) && step * (int64_t)cr_dtype_size(dtype) <= SMALL)
        return CR_OK;
    CR_TRY(cr_tensor_new(&c->tensor, dtype, like->device, 1, &step));
    c->view.data = c->tensor->data;
    return CR_OK;
}

/* Copies elements.  Small row-major tensors are converted directly, which takes less time than
 * cr_copy_elements. */
static cr_status index_convert(const cr_view *to, const cr_view *from)
{
    cr_dtype t = (cr_dtype)to->dtype, f = (cr_dtype)from->dtype;
    int64_t n = cr_numel(from->ndim, from->size);

    if (n > SMALL || !cr_is_host(to->device) ||
        !cr_is_contiguous(to->ndim, to->size, to->stride) ||
        !cr_is_contiguous(from->ndim, from->size, from->stride))
        return cr_copy_elements(to, from);
    cr_convert_row(t, f)(to->data, (int64_t)cr_dtype_size(t), from->data,
                         (int64_t)cr_dtype_size(f), n);
    return CR_OK;
}

/* Folds a copy with dtype `compute`, in which dim `slowest` has the largest stride; values are
 * converted back. */
static cr_status index_run_copy(index_job *j, const cr_view *self, int dim, cr_dtype compute,
                                int slowest, cr_view *out)
{
    index_copy copy, value;
    bool converted = j->outputs > 1 && compute != self->dtype;
    cr_status st;

    copy.tensor = value.tensor = NULL;
    CR_GO(index_copy_new(&copy, self, compute, slowest));
    CR_GO(index_convert(&copy.view, self));
    if (converted) {
        CR_GO(index_copy_new(&value, &out[0], compute, -1));
        j->out[0] = value.view.data;
        j->out_item[0] = (int64_t)cr_dtype_size(compute);
    }
    index_set_dims(j, &copy.view, dim, &out[0]);
    CR_GO(index_run(j, &copy.view));
    if (converted)
        CR_GO(index_convert(&out[0], &value.view));
done:
    cr_drop(copy.tensor);
    cr_drop(value.tensor);
    return st;
}

cr_status cr_run_fold_index(const cr_op *op, const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    const cr_value *at = &arg[op->dim_param];
    int dim = at->tag == CR_NONE || !self->ndim ? -1
              : at->i < 0                       ? (int)at->i + self->ndim
                                                : (int)at->i;
    cr_dtype compute = cr_dtype_compute((cr_dtype)self->dtype);
    int slowest = -1;
    index_job j; /* not initialised: its lists of dims are long */

    if (!cr_numel(out[0].ndim, out[0].size))
        return CR_OK;
    j.op = op;
    j.status = CR_OK;
    index_set_outputs(&j, op, out);
    if (compute == self->dtype) {
        index_set_dims(&j, self, dim, &out[0]);
        if (index_widens(&j))
            compute = CR_I32;
        else if (index_reads_in_place(&j, self, dim))
            return index_run(&j, self);
        else if (dim >= 0 && index_is_short(&j))
            slowest = dim;
    }
    return index_run_copy(&j, self, dim, compute, slowest, out);
}
