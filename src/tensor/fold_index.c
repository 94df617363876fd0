/* Reductions that keep the index of their value: argmax, and max along a dim.
 *
 * A kernel of rows folds a dim whose elements are adjacent.  A kernel of columns folds any
 * other dim, if the elements of a remaining dim are adjacent in the input and in the results.
 * Other layouts, and dtypes without kernels, are copied first to a row-major tensor of the
 * compute type.  Rows so short that their kernel takes longer than a copy are copied to
 * columns.  The result does not depend on the order of the fold: the first of equal extremes
 * wins, and the first NaN wins over any number.  So the parts of a long line may be folded
 * apart. */
#include "base/memory.h"
#include "base/parallel.h"
#include "device/facts.h"
#include "num/convert.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/kernel.h"
#include "tensor/remote.h"
#include <string.h>

enum { PART = 65536, SMALL = 4096 };

/* Short rows have less than SHORT_BYTES elements of one byte, or less than SHORT_WIDE elements
 * of eight bytes.  At least FEW short rows are copied to columns; fewer rows of bytes are
 * computed in int32.  With 20,000 rows of 16: uint8 2,060 -> 175 us, int64 524 -> 213 us. */
enum { SHORT_BYTES = 128, SHORT_WIDE = 32, FEW = 64 };

/* The operands are the results, then the input; steps are bytes.  Not initialized: a space is
 * long. */
typedef struct {
    const cr_op *op;
    cr_placed_kernel kernel;
    cr_status status; /* of launches */
    int outputs;
    char *at[CR_MAX_RESULTS + 1];
    int64_t out_item[CR_MAX_RESULTS];
    int64_t count; /* positions in `space` */
    int64_t length, step, item;
    int64_t columns; /* the last dim, which COLUMNS kernels take */
    cr_space space;  /* dims other than the reduced one */
} index_job;

/* --- a launch for all dims --- */

/* The dim of the rows is the last one; that of the columns is, in a kernel of columns. */
static void index_launch_all(index_job *j, bool columns)
{
    static const cr_params none;
    const cr_space_dim *last = cr_space_last(&j->space, 0);
    int64_t stride[2 * (CR_MAX_RESULTS + 1)];
    cr_launch l = {.pointer = (void *const *)j->at,
                   .stride = stride,
                   .size = {columns ? j->length : last->size, columns ? j->columns : j->length},
                   .param = none.slot,
                   .param_bytes = sizeof none.slot};

    for (int k = 0; k < j->outputs; k++) {
        stride[2 * k] = columns ? 0 : last->step[k];
        stride[2 * k + 1] = columns ? j->out_item[k] : 0;
    }
    stride[2 * j->outputs] = columns ? j->step : last->step[j->outputs];
    stride[2 * j->outputs + 1] = j->item;
    j->status =
        cr_launch_space(&j->kernel, &l, &j->space, j->space.ndim ? j->space.ndim - 1 : 0);
}

/* --- few long lines, on a device whose launches need many --- */

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
    if (!cr_device_facts_of((cr_device_kind)j->kernel.device.kind)->folds_parts ||
        j->space.ndim + 1 >= CR_MAX_DIMS)
        return false;
    return columns ? j->count < LINES_COLUMN && j->length >= 2 * PART_COLUMN
                   : j->count < LINES_ROW && j->length >= 4 * PART_ROW;
}

/* Adds a dim: results `out` elements apart, input elements `in` bytes apart. */
static void parts_add_dim(index_job *p, int64_t size, int64_t out, int64_t in)
{
    int64_t *step = cr_space_add(&p->space, size, 0);

    for (int k = 0; k < p->outputs; k++)
        step[k] = out * p->out_item[k];
    step[p->outputs] = in;
}

/* Makes the dims of *p: those of *j, with the parts inside all but the columns. */
static void parts_set_dims(index_job *p, const index_job *j, const line_parts *s, int64_t parts)
{
    const cr_space *from = &j->space;
    int outer = from->ndim - s->columns, in = j->outputs;

    cr_space_start(&p->space, p->outputs + 1);
    for (int d = 0; d < outer; d++)
        parts_add_dim(p, from->dim[d].size, from->dim[d].step[0] / j->out_item[0] * s->parts,
                      from->dim[d].step[in]);
    parts_add_dim(p, parts, s->wide, s->unit * j->step);
    if (s->columns)
        parts_add_dim(p, s->wide, 1, j->item);
}

/* Folds `parts` parts of each line, of `length` elements each, from part `first` on. */
static cr_status parts_fold(const index_job *j, const line_parts *s, int64_t first,
                            int64_t parts, int64_t length)
{
    index_job p = *j;

    if (!parts || !length)
        return CR_OK;
    p.outputs = 2;
    p.out_item[0] = j->item;
    p.out_item[1] = sizeof(int64_t);
    p.at[0] = s->value->address + first * s->wide * j->item;
    p.at[1] = s->index->address + first * s->wide * (int64_t)sizeof(int64_t);
    p.at[2] = j->at[j->outputs] + first * s->unit * j->step;
    p.length = length;
    parts_set_dims(&p, j, s, parts);
    CR_TRY(cr_place_kernel(&p.kernel, j->kernel.device, j->op, s->dtype,
                           s->columns ? CR_FORM_JOIN_COLUMNS : CR_FORM_JOIN));
    index_launch_all(&p, s->columns);
    return p.status;
}

/* Finds the part of each line's extreme, and sets the results that are values. */
static cr_status parts_find_best(const index_job *j, const line_parts *s)
{
    index_job p = *j;

    p.at[j->outputs] = s->value->address;
    p.at[j->outputs - 1] = s->best->address;
    p.length = s->parts;
    p.step = s->wide * j->item;
    cr_space_start(&p.space, p.outputs + 1);
    parts_add_dim(&p, j->count / s->wide, s->wide, s->parts * s->wide * j->item);
    if (s->columns)
        parts_add_dim(&p, s->wide, 1, j->item);
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

/* The index in a line is that in its part, and the elements of the parts before. */
static cr_status parts_join(const index_job *j, const line_parts *s)
{
    cr_device device = j->kernel.device;
    const cr_device_ops *ops = cr_device_of((cr_device_kind)device.kind);
    int64_t size[2] = {j->count / s->wide, s->wide}, dense[2] = {s->wide, 1};
    int64_t part[2] = {s->parts * s->wide, 1};
    cr_indexed c = {.how = CR_COMBINE_READ,
                    .dtype = CR_I64,
                    .ndim = 2,
                    .size = size,
                    .dense_stride = dense,
                    .table_stride = part,
                    .index_stride = dense,
                    .dense = j->at[j->outputs - 1],
                    .table = s->index->address,
                    .index = s->best->address,
                    .unit = s->wide * (int64_t)sizeof(int64_t),
                    .extent = s->parts};
    cr_indexed times = {.how = CR_COMBINE_MUL,
                        .dtype = CR_I64,
                        .ndim = 2,
                        .size = size,
                        .table_stride = dense,
                        .table = s->best->address};
    cr_indexed add = times;

    add.how = CR_COMBINE_ADD;
    add.dense = s->best->address;
    add.dense_stride = dense;
    add.table = c.dense;
    memcpy(times.item, &s->unit, sizeof s->unit);
    CR_TRY(cr_device_status(ops->indexed(device.index, &c)));
    CR_TRY(cr_device_status(ops->combine(device.index, &times)));
    return cr_device_status(ops->combine(device.index, &add));
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
    CR_GO(parts_join(j, &s));
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
    char *from;
    int64_t *index;
    char *value;
} row_parts;

/* Folds n elements to one index, and to a value if the kernel has one. */
static void index_fold(index_job *j, char *from, int64_t n, int64_t *index, char *value)
{
    static const cr_params none;
    char *at[CR_MAX_RESULTS + 1] = {value};
    int64_t stride[2 * (CR_MAX_RESULTS + 1)] = {0};

    at[j->outputs - 1] = (char *)index;
    at[j->outputs] = from;
    stride[2 * j->outputs + 1] = j->item;
    j->kernel.fn((void *const *)at, stride, (int64_t[]){1, n}, none.slot);
}

static void index_parts(void *context, int64_t begin, int64_t end)
{
    row_parts *r = context;
    index_job *j = r->j;

    for (int64_t u = begin; u < end; u++) {
        int64_t first = u * PART, left = j->length - first;
        char *from = r->from + first * j->item, *value = r->value + u * j->item;
        index_fold(j, from, left < PART ? left : PART, &r->index[u], value);
        memcpy(value, from + r->index[u] * j->item, (size_t)j->item);
    }
}

/* Folds each part of the row, then the parts' extremes. */
static cr_status index_long_row(index_job *j, int64_t row)
{
    int64_t parts = (j->length + PART - 1) / PART, best;
    row_parts r = {.j = j,
                   .index = cr_alloc((size_t)parts * sizeof *r.index),
                   .value = cr_alloc((size_t)(parts * j->item))};
    cr_status st = r.index && r.value ? CR_OK : CR_MEMORY;
    cr_place p;

    if (!st) {
        cr_place_seek(&p, &j->space, j->space.ndim, j->at, row);
        r.from = p.at[j->outputs];
        cr_parallel_for(parts, 1, index_parts, &r);
        index_fold(j, r.value, parts, &best, p.at[0]);
        int64_t found = best * PART + r.index[best];
        memcpy(p.at[j->outputs - 1], &found, sizeof found);
    }
    cr_free(r.value);
    cr_free(r.index);
    return st;
}

static cr_status index_long_rows(index_job *j)
{
    for (int64_t row = 0; row < j->count; row++)
        CR_TRY(index_long_row(j, row));
    return CR_OK;
}

/* --- layouts --- */

/* Moves dim `d` to the end, as the columns. */
static void index_set_columns(index_job *j, int d)
{
    cr_space_move(&j->space, d, j->space.ndim - 1);
    j->columns = cr_space_last(&j->space, 0)->size;
}

/* A dim whose elements are adjacent in the input and the results, or -1. */
static int index_column_dim(const index_job *j)
{
    for (int d = j->space.ndim - 1; d >= 0 && j->length <= INT32_MAX; d--) {
        const int64_t *step = j->space.dim[d].step;
        if (step[j->outputs] == j->item && step[0] == j->out_item[0])
            return d;
    }
    return -1;
}

/* Fills the job from views; `dim` is -1 for a row of all elements of a row-major input. */
static void index_set_dims(index_job *j, const cr_view *self, int dim, const cr_view *out)
{
    bool kept = out->ndim == self->ndim;

    j->at[j->outputs] = self->data;
    j->item = (int64_t)cr_dtype_size((cr_dtype)self->dtype);
    j->length = dim < 0 ? cr_numel(self->ndim, self->size) : self->size[dim];
    /* The stride of a dim of size 1 may be any number. */
    j->step = dim < 0 ? j->item : CR_WRAP_MUL(self->stride[dim], j->item);
    cr_space_start(&j->space, j->outputs + 1);
    for (int d = 0; dim >= 0 && d < self->ndim; d++) {
        if (d == dim || self->size[d] == 1)
            continue;
        int64_t *step = cr_space_add(&j->space, self->size[d], d);
        for (int k = 0; k < j->outputs; k++)
            step[k] = out->stride[kept || d < dim ? d : d - 1] * j->out_item[k];
        step[j->outputs] = self->stride[d] * j->item;
    }
    cr_space_merge(&j->space, 0);
    j->count = cr_space_count(&j->space, j->space.ndim);
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
    if (rows && cr_is_host(self->device) && j->count < 4 && j->length >= 2 * PART)
        return index_long_rows(j);
    index_launch_all(j, !rows);
    return j->status;
}

static void index_set_outputs(index_job *j, const cr_op *op, cr_view *out)
{
    j->outputs = op->result_count;
    for (int k = 0; k < op->result_count; k++) {
        j->at[k] = out[k].data;
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
    c->view.data = c->tensor->address;
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
    CR_GO(cr_copy_few(&copy.view, self, SMALL));
    if (converted) {
        CR_GO(index_copy_new(&value, &out[0], compute, -1));
        j->at[0] = value.view.data;
        j->out_item[0] = (int64_t)cr_dtype_size(compute);
    }
    index_set_dims(j, &copy.view, dim, &out[0]);
    CR_GO(index_run(j, &copy.view));
    if (converted)
        CR_GO(cr_copy_few(&out[0], &value.view, SMALL));
done:
    cr_drop(copy.tensor);
    cr_drop(value.tensor);
    return st;
}

cr_status cr_run_fold_index(const cr_op *op, const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    const cr_value *at = &arg[op->fold.dim];
    int dim = at->tag == CR_NONE || !self->ndim ? -1
              : at->i < 0                       ? (int)at->i + self->ndim
                                                : (int)at->i;
    cr_dtype compute = cr_dtype_compute((cr_dtype)self->dtype);
    int slowest = -1;
    index_job j;

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
