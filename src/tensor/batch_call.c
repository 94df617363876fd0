/* Prepares the arguments of a call for a batch: batches take the place of examples, and
 * parameters that are dims or sizes count the dim of the batch, too. */
#include "tensor/batch_call.h"
#include "entry.h"
#include "tensor/geometry.h"
#include <string.h>

/* --- one call --- */

cr_status cr_batch_keep(batch_call *c, cr_tensor *t)
{
    if (c->few_count < BATCH_FEW) {
        c->few[c->few_count++] = t;
        return CR_OK;
    }
    if (cr_vec_reserve(&c->more, 1)) {
        cr_drop(t);
        return CR_MEMORY;
    }
    cr_vec_put(&c->more, t);
    return CR_OK;
}

void cr_batch_drop(batch_call *c)
{
    for (int i = 0; i < c->few_count; i++)
        cr_drop(c->few[i]);
    for (size_t i = 0; i < c->more.len; i++)
        cr_drop(c->more.at[i]);
    cr_vec_drop(&c->more);
    cr_arena_drop(&c->memory);
}

cr_status cr_batch_apply(batch_call *c, cr_tensor **out, const cr_op *op, const cr_value *arg,
                         int n)
{
    CR_TRY(cr_call_tensor(out, op, arg, n));
    return cr_batch_keep(c, *out);
}

cr_status cr_batch_reshape(batch_call *c, cr_tensor **out, cr_tensor *t, int ndim,
                           const int64_t *size)
{
    if (cr_has_sizes(t, ndim, size)) {
        *out = t;
        return CR_OK;
    }
    cr_value arg[] = {cr_of_tensor(t), cr_of_ints(size, (size_t)ndim)};
    return cr_batch_apply(c, out, cr_entry.reshape, arg, 2);
}

cr_status cr_batch_permute(batch_call *c, cr_tensor **out, cr_tensor *t, const int64_t *dims)
{
    cr_value arg[] = {cr_of_tensor(t), cr_of_ints(dims, t->ndim)};

    return cr_batch_apply(c, out, cr_entry.permute, arg, 2);
}

cr_status cr_batch_move(batch_call *c, cr_tensor **out, cr_tensor *t, int from, int to)
{
    int64_t dims[CR_MAX_DIMS];

    *out = t;
    if (from == to)
        return CR_OK;
    for (int d = 0, at = 0; d < t->ndim; d++) {
        at += at == from;
        dims[d] = d == to ? from : at++;
    }
    return cr_batch_permute(c, out, t, dims);
}

cr_status cr_batch_whole(batch_call *c, cr_tensor **out, cr_tensor *t)
{
    int64_t size[CR_MAX_DIMS];

    *out = t->batch;
    if (cr_batch_has(c, t))
        return CR_OK;
    if (t->ndim == CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a batch of tensors has more than %d dims", CR_MAX_DIMS);
    size[0] = c->size;
    memcpy(size + 1, t->size, t->ndim * sizeof *size);
    cr_value arg[] = {cr_of_tensor(t), cr_of_ints(size, (size_t)t->ndim + 1)};
    return cr_batch_apply(c, out, cr_entry.expand, arg, 2);
}

cr_status cr_batch_widen(batch_call *c, cr_tensor **out, cr_tensor *batch, int ndim)
{
    int64_t size[CR_MAX_DIMS];
    int more = ndim + 1 - batch->ndim;

    *out = batch;
    if (more <= 0)
        return CR_OK;
    size[0] = batch->size[0];
    for (int d = 0; d < more; d++)
        size[d + 1] = 1;
    for (int d = 1; d < batch->ndim; d++)
        size[d + more] = batch->size[d];
    return cr_batch_reshape(c, out, batch, ndim + 1, size);
}

cr_status cr_batch_give_whole(batch_call *c, int i)
{
    cr_tensor *t;

    CR_TRY(cr_batch_whole(c, &t, c->arg[i].t));
    c->given[i] = cr_of_tensor(t);
    return CR_OK;
}

cr_status cr_batch_list(batch_call *c, int64_t **out, int64_t first, const int64_t *ints,
                        uint32_t n)
{
    int at = first >= 0;

    *out = NULL;
    if (c->lists == BATCH_LISTS || n >= CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "%s: a batch has more than %d dims", c->op->name,
                       CR_MAX_DIMS);
    *out = c->ints[c->lists++];
    (*out)[0] = first;
    memcpy(*out + at, ints, n * sizeof *ints);
    return CR_OK;
}

cr_status cr_batch_prepend(batch_call *c, int i, int64_t first)
{
    int64_t *list;

    CR_TRY(cr_batch_list(c, &list, first, c->arg[i].ints, c->arg[i].len));
    c->given[i] = cr_of_ints(list, c->arg[i].len + 1);
    return CR_OK;
}

void cr_batch_give(batch_call *c)
{
    memcpy(c->given, c->arg, c->op->param_count * sizeof *c->given);
    for (int i = 0; i < c->op->param_count; i++)
        if (cr_batch_has_value(c, &c->arg[i]))
            c->given[i].t = c->arg[i].t->batch;
    c->lists = 0;
}

/* --- parameters that name dims and sizes --- */

static bool batch_is_one_of(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

bool cr_batch_names_dim(const cr_param *p)
{
    static const char *const names[] = {"dim",       "dims",   "dim0",        "dim1",  "dim2",
                                        "dimension", "source", "destination", "axis0", "axis1"};

    return (p->type == CR_T_INT || p->type == CR_T_INTS) &&
           batch_is_one_of(p->name, names, CR_LEN(names));
}

bool cr_batch_names_size(const cr_param *p)
{
    static const char *const names[] = {"input_sizes", "input_size", "size"};

    return p->type == CR_T_INTS && batch_is_one_of(p->name, names, CR_LEN(names));
}

cr_tensor *cr_batch_only(const batch_call *c)
{
    if (!cr_batch_has_value(c, &c->arg[0]))
        return NULL;
    for (int i = 1; i < c->op->param_count; i++)
        if (c->arg[i].tag == CR_TENSOR || (c->arg[i].tag == CR_TENSORS && c->arg[i].len))
            return NULL;
    return c->arg[0].t;
}

bool cr_batch_dim_fits(int64_t d, int ndim) { return d >= -ndim && d < ndim; }

cr_status cr_batch_shift(batch_call *c, int i, int ndim)
{
    const cr_value *v = &c->arg[i];
    int64_t *list;

    if (v->tag == CR_INT) {
        if (!cr_batch_dim_fits(v->i, ndim))
            return cr_batch_leave(c);
        c->given[i] = cr_of_int(v->i < 0 ? v->i : v->i + 1);
        return CR_OK;
    }
    if (v->tag != CR_INTS || !v->len)
        return cr_batch_leave(c);
    CR_TRY(cr_batch_list(c, &list, -1, v->ints, v->len));
    for (uint32_t k = 0; k < v->len; k++) {
        if (!cr_batch_dim_fits(list[k], ndim))
            return cr_batch_leave(c);
        list[k] += list[k] >= 0;
    }
    c->given[i] = cr_of_ints(list, v->len);
    return CR_OK;
}

cr_status cr_batch_dims(batch_call *c, int ndim, cr_value *result)
{
    bool named = false;

    for (int i = 0; i < c->op->param_count && !c->left; i++) {
        if (cr_batch_names_dim(&c->op->param[i])) {
            named = true;
            CR_TRY(cr_batch_shift(c, i, ndim));
        } else if (cr_batch_names_size(&c->op->param[i]) && c->arg[i].tag == CR_INTS) {
            CR_TRY(cr_batch_prepend(c, i, c->size));
        }
    }
    if (!named || c->left)
        return cr_batch_leave(c);
    return cr_batch_run(c, result);
}

int cr_batch_find_size(const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].type == CR_T_INTS &&
            (!strcmp(op->param[i].name, "size") || !strcmp(op->param[i].name, "shape")))
            return i;
    return -1;
}
