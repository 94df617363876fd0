/* Sizes and strides of elementwise results. */
#include "space/picked.h"
#include "space/shape.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include <string.h>

static cr_status join_sizes(cr_shape *out, int ndim, const int64_t *size)
{
    int shift = out->ndim - ndim;

    if (shift < 0) { /* the new shape has more dims: move the earlier sizes */
        memmove(out->size - shift, out->size, (size_t)out->ndim * sizeof *out->size);
        for (int d = 0; d < -shift; d++)
            out->size[d] = 1;
        out->ndim = ndim;
        shift = 0;
    }
    for (int d = ndim - 1; d >= 0; d--) {
        int64_t *have = &out->size[d + shift];
        if (*have == size[d] || size[d] == 1)
            continue;
        if (*have != 1)
            return cr_fail(
                CR_RUNTIME,
                "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                "non-singleton dimension %d",
                (long long)*have, (long long)size[d], d + shift);
        *have = size[d];
    }
    return CR_OK;
}

cr_status cr_broadcast(cr_shape *out, const cr_value *v, int n)
{
    out->ndim = 0;
    for (int i = 0; i < n; i++)
        if (v[i].tag == CR_TENSOR)
            CR_TRY(join_sizes(out, v[i].t->ndim, v[i].t->size));
        else if (v[i].tag == CR_TENSORS)
            for (uint32_t k = 0; k < v[i].len; k++)
                if (v[i].list[k].tag == CR_TENSOR)
                    CR_TRY(join_sizes(out, v[i].list[k].t->ndim, v[i].list[k].t->size));
    return CR_OK;
}

/* True when all operands have the full size and the layout tested by `is_layout`: row-major,
 * channels last, or the same dense strides. */
static bool lie_alike(const cr_shape *shape, const cr_value *v, int n,
                      bool (*is_layout)(const cr_tensor *t, const cr_tensor *first))
{
    const cr_tensor *first = NULL;

    for (int i = 0; i < n; i++) {
        if (v[i].tag != CR_TENSOR)
            continue;
        first = first ? first : v[i].t;
        if (!cr_has_sizes(v[i].t, shape->ndim, shape->size) || !is_layout(v[i].t, first))
            return false;
    }
    return first;
}

static bool operand_is_row_major(const cr_tensor *t, const cr_tensor *first)
{
    (void)first;
    return t->contiguous;
}

static bool operand_is_channels_last(const cr_tensor *t, const cr_tensor *first)
{
    (void)first;
    return cr_is_channels_last(t);
}

static bool is_dense_alike(const cr_tensor *t, const cr_tensor *first)
{
    return t == first ? cr_is_dense(t)
                      : !memcmp(first->stride, t->stride, t->ndim * sizeof *t->stride);
}

/* The stride of an operand along a dim of the result; 0 when it is broadcast. */
static int64_t operand_stride_along(const cr_shape *shape, const cr_view *t, int dim)
{
    int own = dim - (shape->ndim - t->ndim);

    return own < 0 || (t->size[own] == 1 && shape->size[dim] != 1) ? 0 : t->stride[own];
}

/* Compares two dims in the operands: 1 when the first has the larger stride, -1 when the second
 * has it, 0 when they do not decide. */
static int slower(const cr_shape *shape, const cr_view *v, int n, int a, int b)
{
    for (int i = 0; i < n; i++) {
        int64_t sa = operand_stride_along(shape, &v[i], a),
                sb = operand_stride_along(shape, &v[i], b);
        if (sa == 0 || sb == 0)
            continue;
        if (sa != sb)
            return sa > sb ? 1 : -1;
        if (shape->size[a] > shape->size[b])
            return 1;
    }
    return 0;
}

/* Sorts dims, given from the last on, by increasing stride.  A dim moves past undecided ones
 * and is exchanged with slower ones. */
static void sort_operand_dims(int *order, int dims, const cr_shape *shape, const cr_view *v,
                              int n)
{
    for (int i = 1; i < dims; i++) {
        int moving = i;
        for (int j = i - 1; j >= 0; j--) {
            int c = slower(shape, v, n, order[j], order[moving]);
            if (c < 0)
                break;
            if (c > 0) {
                int t = order[j];
                order[j] = order[moving];
                order[moving] = t;
                moving = j;
            }
        }
    }
}

/* Sorts the dims by the operands' strides.  Strides of dims of size 1 are undefined, so they
 * must not affect the order of the other dims. */
static void order_operand_dims(int *order, const cr_shape *shape, const cr_view *v, int n)
{
    int longer[CR_MAX_DIMS], count = 0;

    for (int d = 0; d < shape->ndim; d++) {
        order[d] = shape->ndim - 1 - d;
        if (shape->size[order[d]] != 1)
            longer[count++] = order[d];
    }
    sort_operand_dims(order, shape->ndim, shape, v, n);
    if (count == shape->ndim)
        return;
    sort_operand_dims(longer, count, shape, v, n);
    count = 0;
    for (int d = 0; d < shape->ndim; d++)
        if (shape->size[order[d]] != 1)
            order[d] = longer[count++];
}

static const cr_tensor *first_tensor(const cr_value *v)
{
    while (v->tag != CR_TENSOR)
        v++;
    return v->t;
}

/* torch takes a number as one more operand, which has other sizes than the result. */
static bool has_number(const cr_op *op, const cr_value *v)
{
    bool found = false;

    for (uint32_t mask = op ? op->tensor_params : 0; mask; mask &= mask - 1)
        found |= v[CR_CTZ(mask)].tag == CR_NUMBER;
    return found;
}

static bool all_row_major(const cr_value *v, int n)
{
    for (int i = 0; i < n; i++)
        if (v[i].tag == CR_TENSOR &&
            !cr_is_row_major(v[i].t->ndim, v[i].t->size, v[i].t->stride))
            return false;
    return true;
}

static void strides_by_operands(int64_t *stride, const cr_shape *shape, const cr_view *v, int n)
{
    int order[CR_MAX_DIMS];
    int64_t step = 1;

    order_operand_dims(order, shape, v, n);
    for (int i = 0; i < shape->ndim; i++) {
        stride[order[i]] = step;
        step = CR_WRAP_MUL(step, shape->size[order[i]] > 1 ? shape->size[order[i]] : 1);
    }
}

/* Strides of a result of these sizes; false: it is row-major. */
static bool result_strides(int64_t *stride, const cr_shape *shape, const cr_value *v, int n,
                           bool number)
{
    if (number ? lie_alike(shape, v, n, operand_is_row_major) && all_row_major(v, n)
               : lie_alike(shape, v, n, operand_is_row_major))
        return false;
    if (!number && shape->ndim == 4 && lie_alike(shape, v, n, operand_is_channels_last) &&
        !cr_format_strides(CR_FORMAT_CHANNELS_LAST, 4, shape->size, stride))
        return true;
    if (!number && lie_alike(shape, v, n, is_dense_alike)) {
        memcpy(stride, first_tensor(v)->stride, (size_t)shape->ndim * sizeof *stride);
        return true;
    }
    cr_view operand[CR_MAX_ARGS];
    int count = 0;
    for (int i = 0; i < n; i++)
        if (v[i].tag == CR_TENSOR)
            operand[count++] = cr_view_of(v[i].t);
    strides_by_operands(stride, shape, operand, count);
    return true;
}

/* An operand with an indexed result's sizes and these strides, which are copied to `full`. */
static cr_view along_result(const cr_index_plan *p, const int64_t *stride, int64_t *full)
{
    memcpy(full, stride, (size_t)p->result.ndim * sizeof *full);
    return (cr_view){.size = p->result.size, .stride = full, .ndim = (uint8_t)p->result.ndim};
}

static bool index_is_row_major(const cr_value *v)
{
    return v->tag != CR_VIEW || cr_is_mask(v->view) ||
           cr_is_row_major(v->view->ndim, v->view->size, v->view->stride);
}

/* torch's operands of indexing: self, whose indexed dims are broadcast, and the index tensors,
 * where a mask is a vector. */
bool cr_picked_strides(int64_t *stride, const cr_view *self, const cr_value *indices)
{
    int64_t full[CR_MAX_DIMS + 1][CR_MAX_DIMS], own[CR_MAX_DIMS];
    cr_view operand[CR_MAX_DIMS + 1];
    cr_index_plan p;
    bool plain = cr_is_row_major(self->ndim, self->size, self->stride);
    int from = 0;

    for (uint32_t i = 0; plain && i < indices->len; i++)
        plain = index_is_row_major(&indices->list[i]);
    if (plain || cr_index_plan_make(&p, self, indices))
        return false;
    for (int d = 0; d < p.result.ndim; d++) {
        bool picked = d >= p.at && d < p.at + p.picked.ndim;
        while (!picked && p.by_index[from])
            from++;
        own[d] = picked ? 0 : self->stride[from++];
    }
    operand[0] = along_result(&p, own, full[0]);
    for (int k = 0; k < p.count; k++) {
        static const int64_t one = 1;
        cr_view trues = {.size = &p.index[k].trues, .stride = &one, .ndim = 1};
        memset(own, 0, (size_t)p.result.ndim * sizeof *own);
        cr_broadcast_strides(own + p.at, p.index[k].trues < 0 ? p.index[k].view : &trues,
                             p.picked.ndim, p.picked.size);
        operand[k + 1] = along_result(&p, own, full[k + 1]);
    }
    strides_by_operands(stride, &p.result, operand, p.count + 1);
    return true;
}

bool cr_strides_like(int64_t *stride, const cr_shape *shape, const cr_tensor *t)
{
    if (!cr_has_sizes(t, shape->ndim, shape->size) ||
        cr_is_row_major(t->ndim, t->size, t->stride))
        return false;
    cr_like_strides(shape->ndim, shape->size, t->stride, stride);
    return true;
}

/* The tensors of a call, those of `last` after the others. */
static int sort_operands(cr_value *out, const cr_op *op, const cr_value *v, uint32_t last)
{
    int n = 0;

    for (int round = 0; round < 2; round++)
        for (uint32_t m = op->tensor_params & (round ? last : ~last); m; m &= m - 1)
            if (v[CR_CTZ(m)].tag == CR_TENSOR)
                out[n++] = v[CR_CTZ(m)];
    return n;
}

bool cr_body_strides(int64_t *stride, const cr_shape *shape, const cr_op *op, const cr_value *v)
{
    cr_value sorted[CR_MAX_OPERANDS];

    switch (op ? op->format.rule : CR_FORMAT_RULE_NONE) {
    case CR_FORMAT_RULE_ROW_MAJOR: return false;
    case CR_FORMAT_RULE_LIKE:
        return cr_strides_like(stride, shape, v[CR_CTZ(op->format.params)].t);
    case CR_FORMAT_RULE_LAST:
        return result_strides(stride, shape, sorted,
                              sort_operands(sorted, op, v, op->format.params),
                              has_number(op, v));
    default:
        return result_strides(stride, shape, v, op ? op->param_count : 1, has_number(op, v));
    }
}

cr_status cr_elementwise_geometry(cr_geometry *out, const cr_op *op, const cr_value *arg)
{
    cr_shape shape;

    CR_TRY(cr_broadcast(&shape, arg, op->param_count));
    out->ndim = shape.ndim;
    out->offset = 0;
    memcpy(out->size, shape.size, (size_t)shape.ndim * sizeof *shape.size);
    if (!cr_body_strides(out->stride, &shape, op, arg))
        cr_row_major_strides(out->stride, shape.ndim, shape.size);
    return CR_OK;
}

cr_status cr_result_like(cr_tensor **out, cr_dtype dtype, cr_device device,
                         const cr_shape *shape, const cr_op *op, const cr_value *v)
{
    int64_t stride[CR_MAX_DIMS];

    return cr_tensor_new_strided(out, dtype, device, shape->ndim, shape->size,
                                 cr_body_strides(stride, shape, op, v) ? stride : NULL);
}
