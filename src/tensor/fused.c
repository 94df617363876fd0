/* Compositions with a row kernel (clause `fused`).
 *
 * Full operands are used as [rows, columns] with contiguous rows; they are copied unless the
 * rows are the last dims.  Short rows along another dim are read in place: the kernel
 * CR_FORM_ACROSS has neighbouring rows, which are adjacent, in the lanes of a vector.  Short
 * rows of the last dims are turned for it: copies have columns as rows. */
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/remote.h"
#include <string.h>

typedef struct {
    const cr_op *op;
    cr_dtype compute;
    int ndim, dim; /* of the full operands; dim: that of the row, -1: the last dims */
    int lead;      /* number of dims before the row when dim is -1 */
    int64_t rows, columns;
    int64_t inner; /* elements from a column to the next when dim is not -1 */
    bool across;   /* the kernel is CR_FORM_ACROSS; operands keep the order of their dims */
    bool turned;   /* across, and full operands are copied with their columns as rows */
    const cr_tensor *full;
} row_space;

/* Rows from which vectors are full; columns up to which, and rows from which, it pays to turn
 * operands. */
enum { LEAST_ACROSS = 16, MOST_TURNED = 16, LEAST_TURNED = 64 };

static cr_status find_row_space(row_space *s, const cr_op *op, const cr_value *arg)
{
    const cr_value *along = &arg[op->rows.dim];
    int64_t d = 0;

    s->op = op;
    s->full = NULL;
    for (int i = 0; i < op->param_count && !s->full; i++)
        if (op->param[i].type == CR_T_TENSOR && op->rows.operand[i] == CR_OPERAND_FULL)
            s->full = arg[i].t;
    s->ndim = s->full->ndim;
    s->dim = -1;
    if (along->tag == CR_INT) {
        CR_TRY(cr_wrap_dim(&d, along->i, s->ndim ? s->ndim : 1));
        s->lead = s->ndim ? s->ndim - 1 : 0;
        s->dim = s->ndim && d != s->ndim - 1 ? (int)d : -1;
        s->columns = s->ndim ? s->full->size[d] : 1;
    } else {
        s->lead = s->ndim - (int)along->len;
        s->columns = 1;
        for (int i = s->lead < 0 ? 0 : s->lead; i < s->ndim; i++)
            s->columns *= s->full->size[i];
    }
    s->rows = s->columns ? s->full->numel / s->columns : 0;
    s->inner = 1;
    for (int i = s->dim + 1; s->dim >= 0 && i < s->ndim; i++)
        s->inner *= s->full->size[i];
    s->across = s->turned = false;
    return CR_OK;
}

/* True when operands and buffers have the row's dim last, which is another dim of tensors. */
static bool moves(const row_space *s) { return s->dim >= 0 && !s->across; }

/* Moves the row's dim last. */
static cr_status moved(cr_tensor **out, const row_space *s, cr_tensor *t)
{
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    int n = 0;

    for (int d = 0; d < t->ndim; d++)
        if (d != s->dim) {
            size[n] = t->size[d];
            stride[n++] = t->stride[d];
        }
    size[n] = t->size[s->dim];
    stride[n] = t->stride[s->dim];
    CR_TRY(
        cr_tensor_over(out, t->storage, (cr_dtype)t->dtype, t->ndim, size, stride, t->offset));
    cr_storage_keep(t->storage);
    return CR_OK;
}

/* A contiguous tensor's rows as columns. */
static cr_status turn(cr_tensor **out, const row_space *s, cr_tensor *t)
{
    int64_t size[2] = {s->columns, s->rows}, stride[2] = {1, s->columns};

    CR_TRY(cr_tensor_over(out, t->storage, (cr_dtype)t->dtype, 2, size, stride, t->offset));
    cr_storage_keep(t->storage);
    return CR_OK;
}

/* Makes an operand in the kernel's layout; the caller owns it. */
static cr_status prepare_operand(cr_tensor **out, const row_space *s, cr_tensor *t,
                                 cr_operand kind)
{
    cr_tensor *cast = NULL, *dense = NULL, *turned = NULL;
    cr_status st;

    CR_GO(cr_cast_for_kernel(&cast, t, cr_dtype_compute(s->compute)));
    if (kind == CR_OPERAND_FULL && moves(s))
        CR_GO(moved(&turned, s, cast));
    if (kind == CR_OPERAND_FULL && s->turned) {
        CR_GO(cr_contiguous_plain(&dense, cast));
        CR_GO(turn(&turned, s, dense));
    }
    CR_GO(cr_contiguous_plain(out, turned ? turned : cast));
done:
    cr_drop(cast);
    cr_drop(dense);
    cr_drop(turned);
    return st;
}

typedef struct {
    cr_placed_kernel kernel;
    const void *param;
    int count;
    char *ptr[CR_MAX_OPERANDS];
    int64_t stride[2 * CR_MAX_OPERANDS];
    int64_t plane[CR_MAX_OPERANDS]; /* bytes from a plane to the next, when rows are across */
    int64_t columns;
} row_job;

static cr_status run_rows(const row_job *j, const row_space *s)
{
    cr_space planes; /* not initialized: a space is long */

    cr_space_start(&planes, j->count);
    if (s->across && s->rows)
        memcpy(cr_space_add(&planes, s->rows / s->inner, 0), j->plane,
               (size_t)j->count * sizeof *j->plane);
    return cr_launch_space(&j->kernel,
                           &(cr_launch){.pointer = (void *const *)j->ptr,
                                        .stride = j->stride,
                                        .size = {s->across ? s->inner : s->rows, j->columns},
                                        .param = j->param,
                                        .param_bytes = CR_MAX_ARGS * CR_PARAM_BYTES},
                           &planes, planes.ndim);
}

static void set_row_operand(row_job *j, const row_space *s, int k, const cr_tensor *t,
                            cr_operand kind)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)t->dtype);
    bool full = kind == CR_OPERAND_FULL;

    j->ptr[k] = t->address;
    if (s->across) {
        j->stride[2 * k] = item;
        j->stride[2 * k + 1] = full ? s->inner * item : 0;
        j->plane[k] = s->inner * item * (full ? s->columns : 1);
        return;
    }
    j->stride[2 * k] = kind == CR_OPERAND_FULL  ? j->columns * item
                       : kind == CR_OPERAND_ROW ? item
                                                : 0;
    j->stride[2 * k + 1] = kind == CR_OPERAND_ROW ? 0 : item;
}

/* Sizes of a result: the full operand's, or one value a row. */
static void row_result_size(cr_shape *out, const row_space *s, cr_operand kind)
{
    out->ndim = s->ndim;
    memcpy(out->size, s->full->size, (size_t)s->ndim * sizeof *out->size);
    if (kind != CR_OPERAND_ROW)
        return;
    for (int d = 0; d < s->ndim; d++)
        if (s->dim >= 0 ? d == s->dim : d >= s->lead)
            out->size[d] = 1;
}

/* Copies a kernel's result, whose rows are last, to the result tensor. */
static cr_status deliver_row_result(cr_tensor *out, const row_space *s, cr_tensor *made,
                                    cr_operand kind)
{
    cr_tensor *turned = NULL;
    cr_view to, from = cr_view_of(made);
    cr_status st;

    if (kind == CR_OPERAND_FULL && moves(s))
        CR_TRY(moved(&turned, s, out));
    if (kind == CR_OPERAND_FULL && s->turned)
        CR_TRY(turn(&turned, s, out));
    to = cr_view_of(turned ? turned : out);
    from.size = to.size;
    st = cr_copy_elements(&to, &from);
    cr_drop(turned);
    return st;
}

/* Rows of more than CR_FOLD_ROW columns may keep values for a later sweep in a result, which
 * are not rounded then. */
static bool direct(const row_space *s, const cr_tensor *out)
{
    cr_dtype compute = cr_dtype_compute(s->compute);

    return !moves(s) && (out->dtype == compute ||
                         (s->columns <= CR_FOLD_ROW &&
                          cr_kernel_accepts(out->device, (cr_dtype)out->dtype, compute)));
}

/* The tensor that the kernel writes: the result itself, or a buffer in the kernel's layout. */
static cr_status target(cr_tensor **out, const row_space *s, cr_tensor *result, cr_operand kind)
{
    int64_t size[CR_MAX_DIMS];
    int n = 0;

    if (s->turned && kind == CR_OPERAND_FULL)
        return cr_tensor_new(out, cr_dtype_compute(s->compute), result->device, 2,
                             (int64_t[]){s->columns, s->rows});
    if (direct(s, result)) {
        *out = cr_keep(result);
        return CR_OK;
    }
    for (int d = 0; d < result->ndim; d++)
        if (d != s->dim || !moves(s))
            size[n++] = result->size[d];
    if (moves(s))
        size[n++] = result->size[s->dim];
    return cr_tensor_new(out, cr_dtype_compute(s->compute), result->device, n, size);
}

static cr_status place_rows(cr_placed_kernel *out, const row_space *s, int count,
                            cr_tensor *const *operand)
{
    cr_stored stored = {.any = false};

    for (int k = 0; k < count; k++)
        if (cr_kernel_accepts(s->full->device, (cr_dtype)operand[k]->dtype, CR_F32))
            cr_stored_note(&stored, k, (cr_dtype)operand[k]->dtype, CR_F32);
    return cr_place_stored(out, s->full->device, s->op, s->compute, CR_FORM_MAIN, &stored);
}

/* Runs the kernel `host`, or that of the device for its operands. */
static cr_status run_kernel(const row_space *s, const cr_value *arg, cr_tensor *const *result,
                            cr_kernel host)
{
    const cr_op *op = s->op;
    cr_tensor *operand[CR_MAX_OPERANDS] = {0};
    cr_params params;
    row_job j = {.kernel.fn = host, .columns = s->columns, .count = op->result_count};
    cr_status st;

    for (int k = 0; k < op->result_count; k++) {
        cr_operand kind = (cr_operand)op->rows.result[k];
        CR_GO(target(&operand[k], s, result[k], kind));
        set_row_operand(&j, s, k, operand[k], kind);
    }
    for (int i = 0; i < op->param_count; i++) {
        if (op->param[i].type != CR_T_TENSOR)
            continue;
        cr_operand kind = (cr_operand)op->rows.operand[i];
        CR_GO(prepare_operand(&operand[j.count], s, arg[i].t, kind));
        set_row_operand(&j, s, j.count, operand[j.count], kind);
        j.count++;
    }
    if (!cr_is_host(s->full->device))
        CR_GO(place_rows(&j.kernel, s, j.count, operand));
    cr_start_params(&params, s->full->device);
    cr_fill_params(&params, op, arg, cr_dtype_compute(s->compute));
    j.param = params.slot;
    CR_GO(run_rows(&j, s));
    for (int k = 0; k < op->result_count; k++)
        if (operand[k] != result[k])
            CR_GO(deliver_row_result(result[k], s, operand[k], (cr_operand)op->rows.result[k]));
done:
    for (int k = 0; k < j.count + 1 && k < CR_MAX_OPERANDS; k++)
        cr_drop(operand[k]);
    return st;
}

/* Uses the kernel of rows across when it is faster: rows are short and fill vectors. */
static void choose_across(row_space *s, cr_kernel *kernel)
{
    cr_kernel across = s->op->kernel[cr_dtype_compute(s->compute)][CR_FORM_ACROSS];
    bool last = s->dim < 0;

    if (!across || !cr_is_host(s->full->device) || s->columns < 2 ||
        s->columns > (last ? MOST_TURNED : CR_FOLD_LANES) ||
        (last ? s->rows < LEAST_TURNED : s->inner < LEAST_ACROSS))
        return;
    s->across = true;
    s->turned = last;
    s->inner = last ? s->rows : s->inner;
    *kernel = across;
}

static cr_status make_row_results(const row_space *s, cr_tensor **result, cr_frame *f)
{
    const cr_op *op = s->op;

    for (int k = 0; k < op->result_count; k++) {
        cr_dtype dtype;
        cr_shape shape;
        CR_TRY(cr_result_type(&dtype, op, k, s->compute, f));
        row_result_size(&shape, s, (cr_operand)op->rows.result[k]);
        CR_TRY(cr_tensor_new(&result[k], dtype, s->full->device, shape.ndim, shape.size));
    }
    return CR_OK;
}

/* True when the operand has the sizes that the kernel reads: full, one element a row, or one a
 * column.  Operands that broadcast go to the composition. */
static bool operand_fits(const row_space *s, const cr_tensor *t, cr_operand kind)
{
    if (!cr_same_device(t->device, s->full->device))
        return false;
    return kind == CR_OPERAND_FULL  ? cr_has_sizes(t, s->full->ndim, s->full->size)
           : kind == CR_OPERAND_ROW ? t->numel == s->rows
                                    : t->numel == s->columns;
}

static bool rows_fit(const row_space *s, const cr_value *along)
{
    for (uint32_t i = 0; along->tag == CR_INTS && i < along->len; i++)
        if (s->lead < 0 || along->ints[i] != s->full->size[s->lead + (int)i])
            return false;
    return true;
}

static bool all_fit(const row_space *s, const cr_op *op, const cr_value *arg)
{
    bool fit = rows_fit(s, &arg[op->rows.dim]);

    for (int i = 0; fit && i < op->param_count; i++)
        if (op->param[i].type == CR_T_TENSOR)
            fit = operand_fits(s, arg[i].t, (cr_operand)op->rows.operand[i]);
    return fit;
}

/* True when rows without columns have results, which the kernel would not write. */
static bool rows_are_empty(const row_space *s, const cr_op *op)
{
    bool any = false;

    for (int k = 0; k < op->result_count; k++)
        any |= (cr_operand)op->rows.result[k] == CR_OPERAND_ROW;
    return any && !s->columns;
}

/* True when all tensor arguments are given, because the kernel needs all operands. */
static bool has_all(const cr_op *op, const cr_value *arg)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].type == CR_T_TENSOR && arg[i].tag != CR_TENSOR)
            return false;
    return true;
}

cr_status cr_run_fused(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_tensor *made[CR_MAX_RESULTS] = {0};
    row_space s;
    cr_kernel kernel;
    cr_frame f;
    cr_status st;

    if (!has_all(op, arg))
        return cr_run_composition(op, arg, result);
    CR_TRY(find_row_space(&s, op, arg));
    if (!all_fit(&s, op, arg) || rows_are_empty(&s, op))
        return cr_run_composition(op, arg, result);
    cr_frame_init(&f, op, arg);
    CR_GO(cr_run_checks(op, &f));
    CR_GO(cr_compute_type(&s.compute, op, arg, &f));
    CR_GO(cr_find_kernel(&kernel, op, s.compute, CR_FORM_MAIN));
    choose_across(&s, &kernel);
    CR_GO(make_row_results(&s, made, &f));
    if (cr_has_bytes(s.full->device) && s.full->numel)
        CR_GO(run_kernel(&s, arg, made, kernel));
done:
    for (int k = 0; k < op->result_count; k++) {
        if (st)
            cr_drop(made[k]);
        else
            result[k] = cr_of_tensor(made[k]);
    }
    cr_frame_drop(&f);
    return st;
}
