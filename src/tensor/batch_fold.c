/* Batches of reductions, and of compositions that compute rows. */
#include "entry.h"
#include "tensor/batch_call.h"

/* --- reductions --- */

/* All elements of each example, along dim 1; `keepdim`, if it is a parameter, is false then. */
static cr_status batch_fold_row(batch_call *c, cr_value *result)
{
    const cr_op *op = c->op;
    int64_t size[] = {c->size, c->arg[0].t->numel}, one = 1, *list;
    int dim = op->fold.dim, keep = op->fold.keepdim;
    cr_tensor *t;

    if (keep >= 0 && c->arg[keep].tag == CR_TRUTH && c->arg[keep].i && c->arg[0].t->ndim)
        return cr_batch_leave(c);
    CR_TRY(cr_batch_reshape(c, &t, c->given[0].t, 2, size));
    c->given[0] = cr_of_tensor(t);
    CR_TRY(cr_batch_list(c, &list, -1, &one, 1));
    c->given[dim] = op->param[dim].type == CR_T_INTS ? cr_of_ints(list, 1) : cr_of_int(1);
    if (keep >= 0)
        c->given[keep] = cr_of_bool(false);
    return cr_batch_run(c, result);
}

cr_status cr_batch_fold(batch_call *c, cr_value *result)
{
    const cr_op *op = c->op;
    cr_tensor *t = cr_batch_only(c);
    int dim = op->fold.dim;
    int64_t *list, first[CR_MAX_DIMS];

    if (!t || dim < 0)
        return cr_batch_leave(c);
    const cr_value *v = &c->arg[dim];
    bool all = v->tag == CR_NONE || (v->tag == CR_INTS && !v->len);
    if (!t->ndim) {
        if (v->tag == CR_INTS && v->len > 1) /* one dim twice */
            return cr_batch_leave(c);
        for (uint32_t k = 0; !all && k < (v->tag == CR_INTS ? v->len : 1); k++)
            if (!cr_batch_dim_fits(v->tag == CR_INTS ? v->ints[k] : v->i, 1))
                return cr_batch_leave(c);
        return batch_fold_row(c, result);
    }
    if (!all)
        return cr_batch_dims(c, t->ndim, result);
    if (op->param[dim].type != CR_T_INTS)
        return batch_fold_row(c, result);
    for (int d = 0; d < t->ndim; d++)
        first[d] = d + 1;
    CR_TRY(cr_batch_list(c, &list, -1, first, t->ndim));
    c->given[dim] = cr_of_ints(list, t->ndim);
    return cr_batch_run(c, result);
}

/* --- fused compositions --- */

cr_status cr_batch_fused(batch_call *c, cr_value *result)
{
    const cr_op *op = c->op;
    int dim = op->rows.dim, ndim = -1;

    for (int i = 0; i < op->param_count; i++) {
        if (c->arg[i].tag == CR_TENSORS)
            return cr_batch_leave(c);
        if (c->arg[i].tag != CR_TENSOR)
            continue;
        if (op->rows.operand[i] == CR_OPERAND_COLUMN) { /* shared by all rows */
            if (cr_batch_has(c, c->arg[i].t))
                return cr_batch_leave(c);
            continue;
        }
        if (ndim >= 0 && c->arg[i].t->ndim != ndim)
            return cr_batch_leave(c);
        ndim = c->arg[i].t->ndim;
        CR_TRY(cr_batch_give_whole(c, i));
    }
    if (ndim <= 0)
        return cr_batch_leave(c);
    if (op->param[dim].type == CR_T_INT) {
        CR_TRY(cr_batch_shift(c, dim, ndim));
        if (c->left)
            return CR_OK;
    }
    return cr_batch_run(c, result);
}
