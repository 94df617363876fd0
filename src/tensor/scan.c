/* Scans: running sums, products and extremes along a dim.
 *
 * The elements are [outer, n, inner] around the dim.  A kernel of rows scans lines of adjacent
 * elements, or lines of few columns; a kernel of columns goes down n rows of `inner` columns.
 * Other layouts are copied to adjacent lines and the results are copied back; dtypes without
 * kernels are converted by the same copies. */
#include "num/convert.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/kernel.h"
#include "tensor/remote.h"
#include <string.h>

/* Fewer columns than LEAST are lines of elements that are not adjacent.  Copies of at most
 * SMALL bytes are on the stack. */
enum { SCAN_LEAST = 8, SCAN_SMALL = 512 };

/* Views of the operands in the kernel's layout; copies that were made for it. */
typedef struct {
    int operands; /* results, then the input */
    char *at[CR_MAX_RESULTS + 1];
    int64_t item[CR_MAX_RESULTS + 1];
    int64_t n, inner;
    bool copied[CR_MAX_RESULTS + 1];
    cr_view copy[CR_MAX_RESULTS + 1];
    cr_tensor *tensor[CR_MAX_RESULTS + 1]; /* of the copy; NULL when it is on the stack */
    int64_t stride[CR_MAX_RESULTS + 1][CR_MAX_DIMS], size[CR_MAX_RESULTS + 1][CR_MAX_DIMS];
    _Alignas(16) char small[CR_MAX_RESULTS + 1][SCAN_SMALL];
} scan_job;

/* The command: outer dims for all lines that are not rows or columns of one call. */
static cr_status scan_launch(const scan_job *j, const cr_placed_kernel *kernel, int64_t outer,
                             bool columns)
{
    static const cr_params none;
    int64_t row = columns ? j->inner : j->inner == 1 ? j->n : 1;
    int64_t column = columns ? 1 : j->inner;
    int64_t stride[2 * (CR_MAX_RESULTS + 1)], *step;
    cr_launch l = {.operands = j->operands,
                   .pointer = (void *const *)j->at,
                   .stride = stride,
                   .param = none.slot,
                   .param_bytes = sizeof none.slot};
    cr_space s;

    l.size[0] = columns ? j->n : j->inner == 1 ? outer : j->inner;
    l.size[1] = columns ? j->inner : j->n;
    cr_space_start(&s, j->operands);
    step = cr_space_add(&s, j->inner == 1 ? 1 : outer, 0);
    for (int k = 0; k < j->operands; k++) {
        stride[2 * k] = row * j->item[k];
        stride[2 * k + 1] = column * j->item[k];
        step[k] = j->n * j->inner * j->item[k];
    }
    return cr_launch_space(kernel, &l, &s, s.ndim);
}

static cr_status scan_run(const scan_job *j, const cr_op *op, cr_dtype compute,
                          cr_device device, int64_t outer)
{
    bool columns = j->inner >= SCAN_LEAST;
    cr_placed_kernel kernel;

    CR_TRY(cr_place_kernel(&kernel, device, op, compute,
                           columns ? CR_FORM_COLUMNS : CR_FORM_MAIN));
    return scan_launch(j, &kernel, outer, columns);
}

/* --- layouts --- */

/* The same elements with the dim last. */
typedef struct {
    cr_view view;
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
} scan_moved;

static const cr_view *scan_move_last(scan_moved *m, const cr_view *v, int dim)
{
    int last = v->ndim - 1;

    m->view = *v;
    m->view.size = m->size;
    m->view.stride = m->stride;
    for (int d = 0; d < v->ndim; d++) {
        int from = d < dim ? d : d < last ? d + 1 : dim;
        m->size[d] = v->size[from];
        m->stride[d] = v->stride[from];
    }
    return &m->view;
}

/* Makes operand k a copy of dtype `t`, row-major in the order of `v`; sets no elements. */
static cr_status scan_copy(scan_job *j, int k, const cr_view *v, cr_dtype t)
{
    int64_t n = cr_dense_strides(j->stride[k], v->ndim, v->size);

    memcpy(j->size[k], v->size, v->ndim * sizeof *v->size);
    j->copied[k] = true;
    j->copy[k] =
        (cr_view){j->small[k], j->size[k], j->stride[k], v->ndim, (uint8_t)t, v->device, false};
    if (!cr_is_host(v->device) || n * (int64_t)cr_dtype_size(t) > SCAN_SMALL) {
        CR_TRY(cr_tensor_new(&j->tensor[k], t, v->device, v->ndim, v->size));
        j->copy[k].data = j->tensor[k]->address;
    }
    j->at[k] = j->copy[k].data;
    return CR_OK;
}

typedef struct {
    const cr_view *self;
    int dim;
    bool last; /* self is not row-major: the kernel's layout has the dim last, as lines */
    cr_dtype compute;
} scan_layout;

static bool scan_fits(const cr_view *v, const scan_layout *l, cr_dtype t)
{
    return v->dtype == t && (!l->last || l->dim == v->ndim - 1) &&
           cr_is_contiguous(v->ndim, v->size, v->stride);
}

static cr_status scan_use_input(scan_job *j, const scan_layout *l)
{
    int k = j->operands - 1;
    scan_moved moved;

    j->at[k] = l->self->data;
    j->item[k] = (int64_t)cr_dtype_size(l->compute);
    if (!l->last && l->self->dtype == l->compute)
        return CR_OK;
    const cr_view *v = l->last ? scan_move_last(&moved, l->self, l->dim) : l->self;
    CR_TRY(scan_copy(j, k, v, l->compute));
    return cr_copy_few(&j->copy[k], v, SCAN_SMALL);
}

static cr_dtype scan_result_type(const scan_layout *l, int k)
{
    return k ? CR_I64 : l->compute;
}

static cr_status scan_use_result(scan_job *j, const scan_layout *l, int k, const cr_view *out)
{
    cr_dtype t = scan_result_type(l, k);
    scan_moved moved;

    j->at[k] = out->data;
    j->item[k] = (int64_t)cr_dtype_size(t);
    return scan_fits(out, l, t)
               ? CR_OK
               : scan_copy(j, k, l->last ? scan_move_last(&moved, out, l->dim) : out, t);
}

static cr_status scan_return(const scan_job *j, const scan_layout *l, int k, const cr_view *out)
{
    scan_moved moved;

    return j->copied[k] ? cr_copy_few(l->last ? scan_move_last(&moved, out, l->dim) : out,
                                      &j->copy[k], SCAN_SMALL)
                        : CR_OK;
}

/* The products of the sizes around the dim. */
static int64_t scan_sizes(scan_job *j, const cr_view *self, int dim)
{
    int64_t outer = 1;

    j->n = self->ndim ? self->size[dim] : 1;
    j->inner = 1;
    for (int d = 0; d < self->ndim; d++) {
        outer *= d < dim ? self->size[d] : 1;
        j->inner *= d > dim ? self->size[d] : 1;
    }
    return outer;
}

cr_status cr_run_scan(const cr_op *op, const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    scan_layout l = {.self = self,
                     .dim = (int)arg[op->fold.dim].i,
                     .compute = cr_dtype_compute((cr_dtype)self->dtype)};
    scan_job j; /* not initialised: copies on the stack are long */
    int64_t outer;
    cr_status st = CR_OK;

    l.dim += l.dim < 0 ? self->ndim : 0;
    j.operands = op->result_count + 1;
    for (int k = 0; k < j.operands; k++) {
        j.copied[k] = false;
        j.tensor[k] = NULL;
    }
    outer = scan_sizes(&j, self, l.dim);
    if (!outer || !j.n || !j.inner)
        return CR_OK;
    l.last = !cr_is_contiguous(self->ndim, self->size, self->stride);
    if (l.last) {
        outer *= j.inner;
        j.inner = 1;
    }
    CR_GO(scan_use_input(&j, &l));
    for (int k = 0; k < op->result_count; k++)
        CR_GO(scan_use_result(&j, &l, k, &out[k]));
    CR_GO(scan_run(&j, op, l.compute, self->device, outer));
    for (int k = 0; k < op->result_count; k++)
        CR_GO(scan_return(&j, &l, k, &out[k]));
done:
    for (int k = 0; k < j.operands; k++)
        cr_drop(j.tensor[k]);
    return st;
}
