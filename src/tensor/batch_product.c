/* Batches of products of matrices and vectors: products of batches, or one product of more rows
 * where the right factor is that of all examples. */
#include "entry.h"
#include "tensor/batch_call.h"

int cr_batch_factor_dims(const cr_op *op, int *right)
{
    *right = op == cr_entry.mm || op == cr_entry.addmm ? 2 : 1;
    if (op == cr_entry.dot)
        return 1;
    return op == cr_entry.mm || op == cr_entry.addmm || op == cr_entry.mv ||
                   op == cr_entry.addmv
               ? 2
               : 0;
}

/* A factor as a matrix, or as a batch of them. */
static cr_status batch_factor(batch_call *c, cr_tensor **out, cr_tensor *t, int at)
{
    cr_tensor *whole = cr_batch_has(c, t) ? t->batch : t;

    *out = whole;
    if (t->ndim == 2)
        return CR_OK;
    cr_value arg[] = {cr_of_tensor(whole), cr_of_int(at)};
    return cr_batch_apply(c, out, cr_entry.unsqueeze, arg, 2);
}

/* self + rows of all examples times one matrix: one product. */
static cr_status batch_one_product(batch_call *c, cr_tensor *left, cr_tensor *right,
                                   cr_value *result)
{
    int64_t rows[] = {left->size[0] * left->size[1], left->size[2]};
    int64_t size[] = {left->size[0], left->size[1], right->size[1]};
    cr_tensor *t, *made;

    CR_TRY(cr_batch_reshape(c, &t, left, 2, rows));
    c->given[1] = cr_of_tensor(t);
    c->given[2] = cr_of_tensor(right);
    CR_TRY(cr_batch_apply(c, &made, c->op, c->given, c->op->param_count));
    CR_TRY(cr_batch_reshape(c, &t, made, 3, size));
    result[0] = cr_of_tensor(cr_keep(t));
    return CR_OK;
}

/* beta * self + alpha * the product of two batches. */
static cr_status batch_plus_product(batch_call *c, cr_tensor *left, cr_tensor *right,
                                    cr_tensor **out)
{
    cr_tensor *self = c->arg[0].t, *factor[2] = {left, right};
    cr_value arg[5];

    if (cr_batch_has(c, self) || self->ndim > 2)
        CR_TRY(cr_batch_widen(c, &self, self->batch, 2));
    for (int i = 0; i < 2; i++)
        if (factor[i]->ndim == 2)
            CR_TRY(cr_batch_whole(c, &factor[i], factor[i]));
    arg[0] = cr_of_tensor(self);
    arg[1] = cr_of_tensor(factor[0]);
    arg[2] = cr_of_tensor(factor[1]);
    arg[3] = c->arg[3];
    arg[4] = c->arg[4];
    return cr_batch_apply(c, out, cr_entry.baddbmm, arg, 5);
}

cr_status cr_batch_product(batch_call *c, int left_dims, int right_dims, cr_value *result)
{
    int at = c->op->param_count > 2;
    cr_tensor *a = c->arg[at].t, *b = c->arg[at + 1].t, *left, *right, *made;

    if (!at && left_dims == 2 && (a->ndim != left_dims || b->ndim != right_dims))
        return cr_fail(CR_RUNTIME,
                       "Shape mismatch: Got incorrect dims for %s(a, b). a has dim %dand b has "
                       "dim %dbut expected them to have dim %d and dim %d",
                       c->op->name, a->ndim, b->ndim, left_dims, right_dims);
    if (a->ndim != left_dims || b->ndim != right_dims || a->dtype != b->dtype)
        return cr_batch_leave(c);
    if (at && (right_dims == 1 || c->arg[0].t->ndim > 2 || c->arg[0].t->dtype != a->dtype))
        return cr_batch_leave(c);
    bool mapped = cr_batch_has(c, a) || cr_batch_has(c, b);
    if (!mapped)
        return cr_batch_leave(c);
    CR_TRY(batch_factor(c, &left, a, -2));
    CR_TRY(batch_factor(c, &right, b, -1));
    if (at && right->ndim == 2 && !cr_batch_has(c, c->arg[0].t) &&
        (c->arg[0].t->ndim < 2 || c->arg[0].t->size[0] == 1) && c->size)
        return batch_one_product(c, left, right, result);
    cr_value arg[] = {cr_of_tensor(left), cr_of_tensor(right)};
    if (at) {
        CR_TRY(batch_plus_product(c, left, right, &made));
    } else {
        bool outer = left->size[left->ndim - 1] == 1 && right->size[right->ndim - 2] == 1 &&
                     cr_dtype_is_float((cr_dtype)left->dtype);
        CR_TRY(cr_batch_apply(c, &made, outer ? cr_entry.mul : cr_entry.matmul, arg, 2));
    }
    for (int k = 0; k < (right_dims == 1) + (left_dims == 1); k++) {
        cr_value squeeze[] = {cr_of_tensor(made), cr_of_int(-1)};
        CR_TRY(cr_batch_apply(c, &made, cr_entry.squeeze_dim, squeeze, 2));
    }
    result[0] = cr_of_tensor(cr_keep(made));
    return CR_OK;
}
