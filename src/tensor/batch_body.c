/* Batches of elementwise entries, and calls in place.
 *
 * The operands of a batch get the same number of dims behind that of the batch.  Where an
 * example has no dims, promotion is that of the example. */
#include "entry.h"
#include "tensor/batch_call.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"

int cr_batch_most_dims(const batch_call *c)
{
    int most = 0;

    for (int i = 0; i < c->op->param_count; i++)
        if (c->arg[i].tag == CR_TENSOR && c->arg[i].t->ndim > most)
            most = c->arg[i].t->ndim;
    return most;
}

/* A tensor without dims has less weight in promotion than one with dims, and in a batch it has
 * one.  Such tensors are converted to the compute type of an example first. */
static cr_status batch_convert(batch_call *c, int i, cr_dtype compute)
{
    const cr_tensor *one = c->arg[i].t;
    cr_tensor *t;

    if (one->ndim || one->number || one->dtype == compute || one->dtype == CR_BOOL ||
        c->op->mask_params >> i & 1)
        return CR_OK;
    cr_value arg[] = {c->given[i], cr_of_dtype(compute)};
    CR_TRY(cr_batch_apply(c, &t, cr_entry.to_dtype, arg, 2));
    c->given[i] = cr_of_tensor(t);
    return CR_OK;
}

static cr_status batch_compute_type(cr_dtype *out, const batch_call *c)
{
    cr_frame f;

    cr_frame_init(&f, c->op, c->arg);
    cr_status st = cr_compute_type(out, c->op, c->arg, &f);
    cr_frame_drop(&f);
    return st;
}

/* True if tensors differ in dtype and some have no dims. */
static bool batch_weighs(const batch_call *c)
{
    int dtype = -1;
    bool differ = false, single = false;

    for (int i = 0; i < c->op->param_count; i++) {
        if (c->arg[i].tag != CR_TENSOR || c->arg[i].t->number)
            continue;
        differ |= dtype >= 0 && dtype != c->arg[i].t->dtype;
        dtype = c->arg[i].t->dtype;
        single |= !c->arg[i].t->ndim;
    }
    return differ && single;
}

cr_status cr_batch_pointwise(batch_call *c, cr_value *result)
{
    int ndim = cr_batch_most_dims(c);
    cr_dtype compute = CR_F32;
    bool weighs = batch_weighs(c);

    if (weighs)
        CR_TRY(batch_compute_type(&compute, c));
    for (int i = 0; i < c->op->param_count; i++) {
        if (c->arg[i].tag == CR_TENSORS)
            return cr_batch_leave(c);
        if (cr_batch_names_dim(&c->op->param[i])) { /* which the entry's derivative sums over */
            CR_TRY(cr_batch_shift(c, i, ndim));
            if (c->left)
                return CR_OK;
        }
        if (c->arg[i].tag != CR_TENSOR)
            continue;
        if (cr_batch_has(c, c->arg[i].t)) {
            cr_tensor *t;
            CR_TRY(cr_batch_widen(c, &t, c->arg[i].t->batch, ndim));
            c->given[i] = cr_of_tensor(t);
        }
        if (weighs)
            CR_TRY(batch_convert(c, i, compute));
    }
    return cr_batch_run(c, result);
}

/* Copies a batch into that of the first argument, whose examples then are the result. */
static cr_status batch_write(batch_call *c, cr_tensor *from, cr_value *result)
{
    cr_value arg[] = {cr_of_tensor(c->arg[0].t->batch), cr_of_tensor(from)}, made;

    CR_TRY(cr_call_given(&made, cr_entry.copy_, arg, 2));
    cr_drop(made.t);
    result[0] = cr_of_tensor(cr_keep(c->arg[0].t));
    c->arg[0].t->storage->version++;
    return CR_OK;
}

static cr_status batch_write_example(batch_call *c, cr_tensor *from, cr_value *result)
{
    if (from->ndim > c->arg[0].t->ndim)
        return cr_batch_leave(c);
    if (cr_batch_has(c, from))
        CR_TRY(cr_batch_widen(c, &from, from->batch, c->arg[0].t->ndim));
    return batch_write(c, from, result);
}

bool cr_batch_is_functional(const cr_op *op)
{
    const cr_rule *f = op->functional;

    return f && op->param[0].written && op->result_count == 1 &&
           !(f->kind == CR_RULE_CALL && f->op->words & CR_WORD_VIEW);
}

cr_status cr_batch_functional(batch_call *c, cr_value *result)
{
    cr_value made;

    if (!cr_batch_has_value(c, &c->arg[0]))
        return cr_batch_leave(c);
    CR_TRY(cr_run_functional(c->op, c->arg, &made));
    cr_status st = batch_write_example(c, made.t, result);
    cr_drop(made.t);
    return st;
}

cr_status cr_batch_inplace(batch_call *c, cr_value *result)
{
    const cr_op *of = c->op->inplace_of;
    cr_tensor *self = c->arg[0].t;
    bool body = of->does == CR_DOES_BODY && !batch_weighs(c);
    cr_value made;

    if (!cr_batch_has_value(c, &c->arg[0]) || of->words & CR_WORD_RESETS ||
        of->result_count != 1 || (body && self->ndim != cr_batch_most_dims(c)))
        return cr_batch_leave(c);
    if (!body) {
        const cr_op *op = c->op;
        c->op = of;
        cr_status st = cr_batch_any(c, &made);
        c->op = op;
        if (st || c->left)
            return st;
        if (made.t->dtype == self->dtype &&
            cr_has_sizes(made.t, self->batch->ndim, self->batch->size))
            st = batch_write(c, made.t, result);
        else
            c->left = true;
        cr_drop(made.t);
        return st;
    }
    CR_TRY(cr_batch_pointwise(c, result));
    if (c->left)
        return CR_OK;
    cr_drop(result[0].t);
    result[0] = cr_of_tensor(cr_keep(self));
    self->storage->version++;
    return CR_OK;
}
