/* Batches of views, of copies that have the sizes of views, and of lists that are joined.
 *
 * The entry's function gives the sizes and strides of an example's view; the batch has one dim
 * more. */
#include "entry.h"
#include "space/shape_text.h"
#include "tensor/batch_call.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include <string.h>

/* --- other sizes --- */

/* Replaces -1 in the sizes of an example by the size that gives `numel` elements; false where
 * the other sizes do not determine it. */
static bool batch_solve(int64_t *list, uint32_t n, int64_t numel)
{
    int64_t known = 1, at = -1;

    for (uint32_t k = 0; k < n; k++)
        if (list[k] == -1)
            at = k;
        else if (CR_MUL_OVERFLOW(known, list[k], &known))
            return false;
    if (at < 0)
        return true;
    if (known <= 0)
        return false;
    list[at] = numel / known;
    return true;
}

cr_status cr_batch_resize(batch_call *c, cr_value *result)
{
    int i = cr_batch_find_size(c->op);

    if (i < 0 || c->arg[i].tag != CR_INTS)
        return cr_batch_leave(c);
    CR_TRY(cr_batch_prepend(c, i, c->size));
    if (!batch_solve((int64_t *)c->given[i].ints + 1, c->arg[i].len, c->arg[0].t->numel))
        return cr_batch_leave(c);
    return cr_batch_run(c, result);
}

/* --- views --- */

/* The sizes and strides of the entry's view of an example; `stride` replaces the example's. */
static cr_status batch_geometry(const batch_call *c, cr_geometry *g, const int64_t *stride)
{
    cr_view view = cr_shape_view(c->arg[0].t);
    cr_status st = CR_OK;

    if (c->op->check_count) {
        cr_frame f;
        cr_frame_init(&f, c->op, c->arg);
        st = cr_run_checks(c->op, &f);
        cr_frame_drop(&f);
    }
    view.stride = stride ? stride : view.stride;
    return st ? st : c->op->fn.on_geometry(c->arg, &view, g);
}

static cr_status batch_expand(batch_call *c, cr_value *result)
{
    int i = cr_batch_find_size(c->op);
    cr_geometry g;
    cr_tensor *t;

    CR_TRY(batch_geometry(c, &g, NULL)); /* the errors of an example */
    if (i < 0 || c->arg[i].tag != CR_INTS)
        return cr_batch_leave(c);
    CR_TRY(cr_batch_widen(c, &t, c->given[0].t, (int)c->arg[i].len));
    c->given[0] = cr_of_tensor(t);
    CR_TRY(cr_batch_prepend(c, i, c->size));
    return cr_batch_run(c, result);
}

/* Another order of the dims.  Dims of an example may have equal sizes and strides (expand), so
 * that only other strides, which count the batch's dims, tell the order. */
static cr_status batch_ordered(batch_call *c, cr_value *result)
{
    int64_t place[CR_MAX_DIMS], dims[CR_MAX_DIMS + 1] = {0};
    cr_tensor *made;
    cr_geometry g;

    for (int d = 0; d < c->arg[0].t->ndim; d++)
        place[d] = d + 1;
    CR_TRY(batch_geometry(c, &g, place));
    memcpy(dims + 1, g.stride, g.ndim * sizeof *dims);
    CR_TRY(cr_batch_permute(c, &made, c->given[0].t, dims));
    result[0] = cr_of_tensor(cr_keep(made));
    return CR_OK;
}

/* The last place of a view after the first, which elements of these sizes reach. */
static int64_t batch_reach(uint32_t n, const int64_t *size, const int64_t *stride)
{
    int64_t reach = 0, one;

    for (uint32_t k = 0; k < n; k++)
        if (CR_MUL_OVERFLOW(size[k] - 1, stride[k], &one) ||
            CR_ADD_OVERFLOW(reach, one, &reach))
            return INT64_MAX / 2;
    return reach;
}

/* Refuses places in front of or behind those of an example, which may be another example's. */
static cr_status batch_check_places(const batch_call *c, const cr_value *size,
                                    const cr_value *stride, const cr_value *offset)
{
    const cr_tensor *t = c->arg[0].t;
    int64_t from = offset->tag == CR_INT ? offset->i : t->offset, to;
    int64_t end = t->offset + batch_reach(t->ndim, t->size, t->stride) + 1;

    for (uint32_t k = 0; k < size->len; k++)
        if (stride->ints[k] < 0 || size->ints[k] <= 0)
            return CR_OK;
    to = CR_WRAP_ADD(from, batch_reach(size->len, size->ints, stride->ints) + 1);
    if (!t->numel || (from >= t->offset && to <= end))
        return CR_OK;
    return cr_fail(
        CR_RUNTIME,
        "result = tensor.as_strided(%s, %s, %lld) can access memory outside of `tensor`. "
        "`result` can access some memory in range [%lld, %lld], but `tensor` can only access "
        "some memory in range [%lld, %lld]. This is not supported inside of vmap, please try "
        "to rewrite the `as_strided` call as a sequence of PyTorch view operations",
        cr_shape_text((int)size->len, size->ints),
        cr_shape_text((int)stride->len, stride->ints), (long long)from, (long long)from,
        (long long)to, (long long)t->offset, (long long)end);
}

/* Places that are counted in the storage: each example's are one distance further. */
static cr_status batch_absolute(batch_call *c, cr_value *result)
{
    int size = cr_op_find_param(c->op, "size"), stride = cr_op_find_param(c->op, "stride");

    int offset = cr_op_find_param(c->op, "storage_offset");

    if (size < 0 || stride < 0 || offset < 0)
        return cr_batch_leave(c);
    if (c->arg[size].len != c->arg[stride].len)
        return cr_fail(CR_RUNTIME,
                       "Tensor.as_strided(size, stride, ...): size and stride must have the "
                       "same length! Got size %s and stride %s",
                       cr_shape_text((int)c->arg[size].len, c->arg[size].ints),
                       cr_shape_text((int)c->arg[stride].len, c->arg[stride].ints));
    CR_TRY(batch_check_places(c, &c->arg[size], &c->arg[stride], &c->arg[offset]));
    CR_TRY(cr_batch_prepend(c, size, c->size));
    CR_TRY(cr_batch_prepend(c, stride, c->arg[0].t->batch->stride[0]));
    return cr_batch_run(c, result);
}

/* Any view: a function gives an example's sizes and strides, and the batch has one dim more. */
static cr_status batch_view(batch_call *c, cr_value *result)
{
    int64_t size[CR_MAX_DIMS + 1] = {c->size}, stride[CR_MAX_DIMS + 1];
    cr_tensor *t = c->arg[0].t, *whole = t->batch, *made;
    cr_geometry g;

    CR_TRY(batch_geometry(c, &g, NULL));
    if (g.ndim >= CR_MAX_DIMS)
        return cr_batch_leave(c);
    if (c->op->words & CR_WORD_IDENTITY)
        return cr_batch_run(c, result);
    if (c->op->words & CR_WORD_RESHAPE) {
        memcpy(size + 1, g.size, g.ndim * sizeof *size);
        cr_value arg[] = {cr_of_tensor(whole), cr_of_ints(size, (size_t)g.ndim + 1)};
        CR_TRY(cr_batch_apply(c, &made, cr_entry.view, arg, 2));
    } else {
        stride[0] = whole->stride[0];
        memcpy(size + 1, g.size, g.ndim * sizeof *size);
        memcpy(stride + 1, g.stride, g.ndim * sizeof *stride);
        cr_value arg[] = {cr_of_tensor(whole), cr_of_ints(size, (size_t)g.ndim + 1),
                          cr_of_ints(stride, (size_t)g.ndim + 1),
                          cr_of_int(t->offset + g.offset)};
        CR_TRY(cr_batch_apply(c, &made, cr_entry.as_strided, arg, 4));
    }
    result[0] = cr_of_tensor(cr_keep(made));
    return CR_OK;
}

/* Where dims are named, unsqueeze and its like take one dim more than the example has. */
static cr_status batch_named_view(batch_call *c, cr_value *result)
{
    int ndim = c->arg[0].t->ndim;
    cr_geometry g;

    CR_TRY(batch_geometry(c, &g, NULL)); /* the errors of an example */
    return cr_batch_dims(c, g.ndim > ndim ? g.ndim : ndim, result);
}

cr_status cr_batch_map(batch_call *c, cr_value *result)
{
    bool named = false;

    if (c->op->words & CR_WORD_BITS || !cr_batch_only(c))
        return cr_batch_leave(c);
    if (c->op->words & CR_WORD_ABSOLUTE)
        return batch_absolute(c, result);
    if (c->op->words & CR_WORD_PERMUTE)
        return batch_ordered(c, result);
    if (c->op->words & CR_WORD_RESHAPE)
        return batch_view(c, result);
    if (c->op->words & CR_WORD_EXPAND)
        return batch_expand(c, result);
    for (int i = 1; i < c->op->param_count; i++) {
        if (c->op->param[i].type == CR_T_DTYPE)
            return cr_batch_leave(c);
        named |= cr_batch_names_dim(&c->op->param[i]) && c->arg[i].tag != CR_NONE;
    }
    if (named && c->arg[0].t->ndim)
        CR_TRY(batch_named_view(c, result));
    else
        return batch_view(c, result);
    if (!c->left)
        return CR_OK;
    c->left = false;
    return batch_view(c, result);
}

/* --- lists and copies --- */

cr_status cr_batch_join(batch_call *c, cr_value *result)
{
    const cr_value *v = &c->arg[0];
    int dim = cr_op_find_param(c->op, "dim");
    cr_value *list;

    if (v->tag != CR_TENSORS || !v->len || dim < 0 || c->arg[dim].tag != CR_INT)
        return cr_batch_leave(c);
    int ndim = v->list[0].t->ndim + (c->op == cr_entry.stack);
    for (uint32_t k = 0; k < v->len; k++)
        if (v->list[k].t->ndim != v->list[0].t->ndim)
            return cr_batch_leave(c);
    CR_TRY(cr_batch_shift(c, dim, ndim));
    if (c->left)
        return CR_OK;
    list = cr_arena_get(&c->memory, v->len * sizeof *list);
    CR_NEED(list);
    for (uint32_t k = 0; k < v->len; k++) {
        cr_tensor *t;
        CR_TRY(cr_batch_whole(c, &t, v->list[k].t));
        list[k] = cr_of_tensor(t);
    }
    c->given[0] = (cr_value){.tag = CR_TENSORS, .len = v->len, .list = list};
    return cr_batch_run(c, result);
}

/* Of sizes and strides: each example follows the one before. */
static cr_status batch_strided(batch_call *c, int size, int stride, cr_value *result)
{
    const cr_value *sizes = &c->arg[size], *strides = &c->arg[stride];
    int64_t step = 1, last;
    bool empty = false;

    if (sizes->tag != CR_INTS || strides->tag != CR_INTS || sizes->len != strides->len)
        return cr_batch_leave(c);
    for (uint32_t k = 0; k < sizes->len; k++)
        if (sizes->ints[k] < 0 || strides->ints[k] < 0 ||
            CR_MUL_OVERFLOW(sizes->ints[k] - (sizes->ints[k] > 0), strides->ints[k], &last) ||
            CR_ADD_OVERFLOW(step, last, &step))
            return cr_batch_leave(c);
    for (uint32_t k = 0; k < sizes->len; k++)
        empty |= !sizes->ints[k];
    CR_TRY(cr_batch_prepend(c, size, c->size));
    CR_TRY(cr_batch_prepend(c, stride, empty ? 0 : step));
    return cr_batch_run(c, result);
}

cr_status cr_batch_like(batch_call *c, cr_value *result)
{
    int size = cr_op_find_param(c->op, "size"), stride = cr_op_find_param(c->op, "stride");

    if (size >= 0 && stride >= 0)
        return batch_strided(c, size, stride, result);
    for (int i = 1; i < c->op->param_count; i++) {
        if (c->arg[i].tag == CR_FORMAT_VAL && c->arg[i].i != CR_FORMAT_CONTIGUOUS &&
            c->arg[i].i != CR_FORMAT_PRESERVE)
            return cr_batch_leave(c);
        if (c->arg[i].tag != CR_INTS)
            continue;
        if (!cr_batch_names_size(&c->op->param[i]))
            return cr_batch_leave(c);
        CR_TRY(cr_batch_prepend(c, i, c->size));
    }
    return cr_batch_run(c, result);
}

bool cr_batch_is_like(const batch_call *c)
{
    return cr_batch_only(c) && (c->op->words & (CR_WORD_IDENTITY | CR_WORD_CAST) ||
                                (c->op->does == CR_DOES_WHOLE && c->op->defer.unread & 1));
}

/* --- functions on tensors that name dims --- */

bool cr_batch_has_dims(const cr_op *op)
{
    return op->words & (CR_WORD_SPLIT | CR_WORD_VIEW) ||
           cr_op_find_param(op, "input_sizes") >= 0;
}

cr_status cr_batch_named_dims(batch_call *c, cr_value *result)
{
    int sizes = cr_op_find_param(c->op, "input_sizes"), ndim = c->arg[0].t->ndim;

    if (sizes >= 0 && c->arg[sizes].tag == CR_INTS) {
        int lost = (int)c->arg[sizes].len - ndim; /* dims that the view left out */
        if (lost != 0 && (lost != 1 || cr_op_find_param(c->op, "step") >= 0))
            return cr_batch_leave(c);
        ndim = (int)c->arg[sizes].len;
    }
    return ndim ? cr_batch_dims(c, ndim, result) : cr_batch_leave(c);
}
