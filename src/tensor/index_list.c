/* Lists of index tensors (entries of the word `host_indices`) on other devices than the host.
 *
 * One index tensor is the index of a command.  Several are checked by commands that read
 * nothing, and become one list of offsets by commands on numbers: an index below 0 gets the
 * size, one out of range the nearest in range, each is multiplied by its dim's stride, and they
 * are added.  The host computes calls with masks. */
#include "device/facts.h"
#include "num/dtype.h"
#include "space/picked.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/remote.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    const cr_device_ops *ops;
    int device;
    cr_index_plan plan;
    const cr_view *table;
    int64_t count;                  /* picked positions */
    int64_t row_major[CR_MAX_DIMS]; /* strides of the picked sizes */
    int64_t stride[CR_MAX_DIMS];    /* of the index tensor at hand, over the picked sizes */
    cr_block offsets, wrapped, sign;
    char text[160];
} listed;

static bool list_is_indices(const cr_value *v)
{
    for (uint32_t i = 0; i < v->len; i++) {
        const cr_value *x = &v->list[i];
        if (x->tag == CR_VIEW && x->view->dtype != CR_I64 && x->view->dtype != CR_I32)
            return false;
    }
    return true;
}

static void list_set_stride(listed *l, int k)
{
    const cr_view *v = l->plan.index[k].view;
    const cr_shape *picked = &l->plan.picked;

    for (int d = 0; d < picked->ndim; d++)
        l->stride[d] = cr_broadcast_step(v->ndim, v->size, v->stride, picked->ndim, d);
}

/* Makes index tensor k the index of the command. */
static void list_set_index(listed *l, cr_indexed *c, int k)
{
    const cr_view *v = l->plan.index[k].view;
    int dim = l->plan.index[k].dim;

    list_set_stride(l, k);
    snprintf(l->text, sizeof l->text,
             "index %c is out of bounds for dimension %d with size %lld", CR_INDEX_MARK, dim,
             (long long)l->table->size[dim]);
    c->index = v->data;
    c->is32 = v->dtype == CR_I32;
    c->wraps = true;
    c->extent = l->table->size[dim];
    c->outside = l->text;
    c->outside_kind = CR_INDEX;
}

/* --- several index tensors --- */

/* Reads one byte of the table for each index, into l->sign. */
static cr_status list_check(listed *l, int k)
{
    static const int64_t still[CR_MAX_DIMS];
    cr_indexed c = {.how = CR_COMBINE_READ,
                    .dtype = CR_U8,
                    .ndim = l->plan.picked.ndim,
                    .size = l->plan.picked.size,
                    .dense = l->sign.at,
                    .dense_stride = l->row_major,
                    .table = l->table->data,
                    .table_stride = still,
                    .index_stride = l->stride};

    list_set_index(l, &c, k);
    return cr_device_status(l->ops->indexed(l->device, &c));
}

/* to = combine(to, number), for all picked positions; or with the elements of `by`. */
static cr_status list_combine(const listed *l, cr_combine how, const cr_block *to,
                              const cr_block *by, int64_t number)
{
    cr_indexed c = {.how = how,
                    .dtype = CR_I64,
                    .ndim = l->plan.picked.ndim,
                    .size = l->plan.picked.size,
                    .dense = by ? by->at : NULL,
                    .dense_stride = l->row_major,
                    .table = to->at,
                    .table_stride = l->row_major};

    memcpy(c.item, &number, sizeof number);
    return cr_device_status(l->ops->combine(l->device, &c));
}

static cr_status list_move(const listed *l, const cr_block *to, char *data, cr_dtype dtype,
                           const int64_t *stride)
{
    const cr_shape *picked = &l->plan.picked;
    cr_array a = {to->at, CR_I64, picked->ndim, picked->size, l->row_major};
    cr_array b = {data, dtype, picked->ndim, picked->size, stride};

    return cr_device_status(l->ops->move(l->device, &a, &b));
}

/* Adds index k, as offsets in elements. */
static cr_status list_add(listed *l, int k)
{
    const cr_view *v = l->plan.index[k].view;
    int dim = l->plan.index[k].dim;
    const cr_block *to = k ? &l->wrapped : &l->offsets;

    CR_TRY(list_check(l, k));
    CR_TRY(list_move(l, to, v->data, (cr_dtype)v->dtype, l->stride));
    CR_TRY(list_move(l, &l->sign, to->at, CR_I64, l->row_major));
    CR_TRY(list_combine(l, CR_COMBINE_MIN, &l->sign, NULL, 0));
    CR_TRY(list_combine(l, CR_COMBINE_MAX, &l->sign, NULL, -1));
    CR_TRY(list_combine(l, CR_COMBINE_MUL, &l->sign, NULL, -l->table->size[dim]));
    CR_TRY(list_combine(l, CR_COMBINE_ADD, to, &l->sign, 0));
    CR_TRY(list_combine(l, CR_COMBINE_MIN, to, NULL, l->table->size[dim] - 1));
    CR_TRY(list_combine(l, CR_COMBINE_MAX, to, NULL, 0));
    CR_TRY(list_combine(l, CR_COMBINE_MUL, to, NULL, l->table->stride[dim]));
    return k ? list_combine(l, CR_COMBINE_ADD, &l->offsets, to, 0) : CR_OK;
}

static cr_status list_offsets(listed *l, cr_indexed *c, cr_device device)
{
    size_t bytes = (size_t)l->count * sizeof(int64_t);

    CR_TRY(cr_block_get(&l->offsets, device, bytes));
    CR_TRY(cr_block_get(&l->wrapped, device, bytes));
    CR_TRY(cr_block_get(&l->sign, device, bytes));
    c->extent = 1;
    for (int k = 0; k < l->plan.count; k++) {
        int dim = l->plan.index[k].dim;
        CR_TRY(list_add(l, k));
        c->extent += (l->table->size[dim] - 1) * l->table->stride[dim];
    }
    memcpy(l->stride, l->row_major, sizeof l->stride);
    c->index = l->offsets.at;
    c->outside = l->text;
    c->outside_kind = CR_INDEX;
    c->unit = (int64_t)cr_dtype_size((cr_dtype)l->table->dtype);
    return CR_OK;
}

/* --- calls --- */

/* The dims of the result: those picked have the index's strides, the others the table's. */
static void list_set_dims(const listed *l, cr_indexed *c, int64_t *table, int64_t *index)
{
    const cr_index_plan *p = &l->plan;
    int from = 0;

    for (int d = 0; d < p->result.ndim; d++) {
        int k = d - p->at;
        bool picked = k >= 0 && k < p->picked.ndim;
        c->picked |= (uint64_t)picked << d;
        index[d] = picked ? l->stride[k] : 0;
        table[d] = 0;
        if (picked)
            continue;
        while (p->by_index[from])
            from++;
        table[d] = l->table->stride[from++];
    }
    c->table_stride = table;
    c->index_stride = index;
}

static cr_status list_index(listed *l, cr_indexed *c, cr_device device)
{
    if (l->plan.count > 1)
        return list_offsets(l, c, device);
    list_set_index(l, c, 0);
    c->unit = (int64_t)cr_dtype_size((cr_dtype)l->table->dtype) *
              l->table->stride[l->plan.index[0].dim];
    return CR_OK;
}

static cr_status list_start(const cr_view *out, const cr_view *self)
{
    return out->data == self->data ? CR_OK : cr_copy_elements(out, self);
}

/* (self, indices), or (self, indices, values, accumulate). *declined: the device does not take
 * the dtype or the dims; the host then computes the whole result. */
static cr_status list_run(listed *l, const cr_op *op, const cr_value *arg, cr_view *out,
                          bool *declined)
{
    int64_t table[CR_MAX_DIMS], index[CR_MAX_DIMS], dense[CR_MAX_DIMS];
    bool writes = op->param_count > 2;
    const cr_view *v = writes ? arg[2].view : out;
    const cr_shape *size = &l->plan.result;
    cr_indexed c = {.how = !writes    ? CR_COMBINE_READ
                           : arg[3].i ? CR_COMBINE_ADD
                                      : CR_COMBINE_SET,
                    .dtype = out->dtype,
                    .ndim = size->ndim,
                    .size = size->size,
                    .dense = v->data,
                    .dense_stride = dense,
                    .table = l->table->data};

    for (int d = 0; d < size->ndim; d++)
        dense[d] = cr_broadcast_step(v->ndim, v->size, v->stride, size->ndim, d);
    if (!cr_same_device(v->device, out->device)) { /* a number */
        c.dense = NULL;
        memcpy(c.item, v->data, cr_dtype_size((cr_dtype)v->dtype));
    }
    if (writes)
        CR_TRY(list_start(out, arg[0].view));
    CR_TRY(list_index(l, &c, out->device));
    list_set_dims(l, &c, table, index);
    const char *error =
        writes ? l->ops->combine(l->device, &c) : l->ops->indexed(l->device, &c);
    *declined = error == cr_command_declines;
    return *declined ? CR_OK : cr_device_status(error);
}

cr_status cr_run_index_list(const cr_op *op, const cr_value *arg, cr_view *out, bool *declined)
{
    listed l = {.ops = cr_device_of((cr_device_kind)out->device.kind),
                .device = out->device.index};
    cr_status st;

    *declined = !l.ops->indexed || !l.ops->combine || !list_is_indices(&arg[1]);
    if (*declined)
        return CR_OK;
    CR_TRY(cr_index_plan_make(&l.plan, arg[0].view, &arg[1]));
    if (op->param_count > 2)
        CR_TRY(cr_index_plan_takes(&l.plan, arg[2].view));
    *declined = !l.plan.count;
    l.count = cr_numel(l.plan.picked.ndim, l.plan.picked.size);
    if (*declined)
        return CR_OK;
    l.table = op->param_count > 2 ? out : arg[0].view;
    if (!cr_numel(l.plan.result.ndim, l.plan.result.size))
        return op->param_count > 2 ? list_start(out, arg[0].view) : CR_OK;
    cr_row_major_strides(l.row_major, l.plan.picked.ndim, l.plan.picked.size);
    st = list_run(&l, op, arg, out, declined);
    cr_block_drop(&l.offsets);
    cr_block_drop(&l.wrapped);
    cr_block_drop(&l.sign);
    return st;
}
