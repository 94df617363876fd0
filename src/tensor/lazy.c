/* Tensors with the bit conj or neg: views whose elements are the conjugates or the negatives of
 * the stored numbers.
 *
 * The stage CONJ replaces such arguments by copies without bits, so kernels read stored numbers
 * only.  An argument that the entry writes is copied back after the call.  Views,
 * compositions and entries with the word `lazy` take such tensors (cr_op_takes_bits).  Tensors
 * without bits do not come here, so calls without such views pay nothing. */
#include "entry.h"
#include "tensor/internal.h"
#include <string.h>

void cr_tensor_set_bits(cr_tensor *t, bool conj, bool neg)
{
    t->conj = conj;
    t->neg = neg;
    if (conj || neg)
        t->stages |= CR_STAGE_BIT(CONJ);
    else
        t->stages &= ~CR_STAGE_BIT(CONJ);
}

static bool list_has_lazy(const cr_value *v)
{
    for (uint32_t i = 0; i < v->len; i++)
        if (v->list[i].tag == CR_TENSOR && cr_is_lazy(v->list[i].t))
            return true;
    return false;
}

bool cr_any_lazy(const cr_op *op, const cr_value *arg)
{
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        if (v->tag == CR_TENSOR ? cr_is_lazy(v->t) : v->tag == CR_TENSORS && list_has_lazy(v))
            return true;
    }
    return false;
}

bool cr_op_takes_bits(const cr_op *op)
{
    return (op->does == CR_DOES_IS && !op->fused) ||
           op->words & (CR_WORD_LAZY | CR_WORD_RESETS) || cr_op_may_view(op);
}

/* --- copies without bits --- */

/* A second tensor over the stored numbers, without bits, gradient and Python object. */
static cr_status lazy_stored(cr_tensor **out, const cr_tensor *t)
{
    CR_TRY(cr_tensor_alias(out, t));
    cr_tensor_set_bits(*out, false, false);
    return CR_OK;
}

/* Replaces *t by the result of an elementwise entry, without recording the call. */
static cr_status lazy_apply(cr_tensor **t, const cr_op *op)
{
    cr_value arg = cr_of_tensor(*t), result;

    CR_TRY(cr_call_below(CR_STAGE_AUTOGRAD, op, &arg, &result));
    cr_drop(*t);
    *t = result.t;
    return CR_OK;
}

/* *out: the conjugates or negatives of the numbers that `t` stores. */
static cr_status lazy_computed(cr_tensor **out, const cr_tensor *t, bool conj, bool neg)
{
    cr_tensor *made;
    cr_status st = CR_OK;

    CR_TRY(lazy_stored(&made, t));
    if (conj)
        st = lazy_apply(&made, cr_entry._conj_physical);
    if (!st && neg)
        st = lazy_apply(&made, cr_entry.neg);
    CR_GIVE(st, out, made, cr_drop);
}

cr_status cr_tensor_resolved(cr_tensor **out, cr_tensor *t)
{
    if (cr_is_lazy(t))
        return lazy_computed(out, t, t->conj, t->neg);
    *out = cr_keep(t);
    return CR_OK;
}

/* Replaces *t by the result of a call. */
static cr_status lazy_call(cr_tensor **t, const cr_op *op)
{
    cr_value arg = cr_of_tensor(*t);
    cr_tensor *made;

    CR_TRY(cr_call_tensor(&made, op, &arg, 1));
    cr_drop(*t);
    *t = made;
    return CR_OK;
}

cr_status cr_tensor_resolved_by_calls(cr_tensor **out, cr_tensor *t)
{
    bool conj = t->conj, neg = t->neg;
    cr_tensor *made = cr_keep(t);
    cr_status st = CR_OK;

    if (conj)
        st = lazy_call(&made, cr_entry._conj);
    if (!st && neg)
        st = lazy_call(&made, cr_entry._neg_view);
    if (!st && conj)
        st = lazy_call(&made, cr_entry._conj_physical);
    if (!st && neg)
        st = lazy_call(&made, cr_entry.neg);
    CR_GIVE(st, out, made, cr_drop);
}

/* --- copying between tensors with bits --- */

/* *out: the stored numbers of `from`, converted to the dtype of `to` if a real number becomes
 * complex. */
static cr_status lazy_source(cr_tensor **out, const cr_tensor *to, const cr_tensor *from)
{
    cr_tensor *stored;

    CR_TRY(lazy_stored(&stored, from));
    if (!cr_dtype_is_complex((cr_dtype)to->dtype) ||
        cr_dtype_is_complex((cr_dtype)from->dtype)) {
        *out = stored;
        return CR_OK;
    }
    cr_status st =
        cr_copy_as(out, stored, (cr_dtype)to->dtype, from->device, CR_FORMAT_PRESERVE);
    cr_drop(stored);
    return st;
}

/* Copies by a deferred call of copy_.  The version of the storage of `to` does not change. */
static cr_status copy_by_call(const cr_tensor *to, const cr_tensor *from)
{
    cr_value arg[] = {cr_of_tensor((cr_tensor *)(uintptr_t)to),
                      cr_of_tensor((cr_tensor *)(uintptr_t)from), cr_of_bool(false)};
    uint32_t version = to->storage->version;
    cr_value result;

    CR_TRY(cr_call_below(CR_STAGE_AUTOGRAD, cr_entry.copy_, arg, &result));
    cr_drop(result.t);
    to->storage->version = version;
    return CR_OK;
}

cr_status cr_copy_tensor(const cr_tensor *to, const cr_tensor *from)
{
    cr_view a = cr_view_of(to), b;
    cr_tensor *source, *made;
    bool conj = to->conj != from->conj, neg = to->neg != from->neg;

    if (CR_UNLIKELY(cr_defer_active() && cr_has_elements(to) && cr_has_elements(from)))
        return copy_by_call(to, from);
    CR_TRY(cr_reach_to_write(&a.data, to));
    CR_TRY(cr_reach_view(&b, from));
    if (!conj && !neg)
        return cr_copy_elements(&a, &b);
    if (!a.data || !b.data)
        return CR_OK;
    CR_TRY(lazy_source(&source, to, from));
    cr_status st =
        lazy_computed(&made, source, conj && cr_dtype_is_complex((cr_dtype)source->dtype), neg);
    cr_drop(source);
    CR_TRY(st);
    b = cr_view_of(made);
    st = cr_copy_elements(&a, &b);
    cr_drop(made);
    return st;
}

/* --- the stage --- */

/* The arguments of a call; copies without bits replace the tensors with bits. */
typedef struct {
    const cr_op *op;
    cr_resolve_fn resolve;
    cr_value arg[CR_MAX_ARGS];
    cr_value *list[CR_MAX_ARGS]; /* owned copies of lists; their tensors are owned */
    bool single[CR_MAX_ARGS];    /* arg[i].t is owned */
} lazy_args;

static cr_status lazy_resolve(const lazy_args *x, cr_value *v)
{
    cr_tensor *made;

    if (v->tag != CR_TENSOR)
        return CR_OK;
    if (!cr_is_lazy(v->t)) {
        cr_keep(v->t);
        return CR_OK;
    }
    CR_TRY(x->resolve(&made, v->t));
    *v = cr_of_tensor(made);
    return CR_OK;
}

static void lazy_list_drop(cr_value *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i].tag == CR_TENSOR)
            cr_drop(list[i].t);
    cr_free(list);
}

static cr_status lazy_resolve_list(const lazy_args *x, cr_value **out, cr_value *v)
{
    cr_value *list = cr_alloc(v->len * sizeof *list + 1);
    cr_status st = list ? CR_OK : CR_MEMORY;

    for (uint32_t i = 0; !st && i < v->len; i++) {
        list[i] = v->list[i];
        st = lazy_resolve(x, &list[i]);
        if (st)
            lazy_list_drop(list, i);
    }
    CR_TRY(st);
    *out = list;
    v->list = list;
    return CR_OK;
}

static cr_status lazy_args_make(lazy_args *x, const cr_value *arg)
{
    memcpy(x->arg, arg, x->op->param_count * sizeof *arg);
    for (uint32_t mask = x->op->tensor_params; mask; mask &= mask - 1) {
        int i = CR_CTZ(mask);
        if (arg[i].tag == CR_TENSOR) {
            CR_TRY(lazy_resolve(x, &x->arg[i]));
            x->single[i] = true;
        } else if (arg[i].tag == CR_TENSORS && list_has_lazy(&arg[i])) {
            CR_TRY(lazy_resolve_list(x, &x->list[i], &x->arg[i]));
        }
    }
    return CR_OK;
}

static void lazy_args_drop(lazy_args *x)
{
    for (int i = 0; i < x->op->param_count; i++) {
        if (x->single[i])
            cr_drop(x->arg[i].t);
        if (x->list[i])
            lazy_list_drop(x->list[i], x->arg[i].len);
    }
}

/* The call received `from`, a copy of `to`.  Copies it back to `to` if the call wrote it. */
static cr_status lazy_write(cr_tensor *to, cr_tensor *from)
{
    cr_value result;

    if (to == from || !from->storage->version)
        return CR_OK;
    CR_TRY(cr_call_given(&result, cr_entry.copy_,
                         (cr_value[]){cr_of_tensor(to), cr_of_tensor(from)}, 2));
    cr_drop_values(&result, 1);
    return CR_OK;
}

static bool lazy_is_written(const cr_op *op, int i)
{
    return op->param[i].written || op->updates.params >> i & 1;
}

/* For each argument that the call wrote, copies the result back to the caller's tensor. */
static cr_status lazy_write_back(const lazy_args *x, const cr_value *arg)
{
    for (int i = 0; i < x->op->param_count; i++) {
        if (!lazy_is_written(x->op, i))
            continue;
        if (x->single[i])
            CR_TRY(lazy_write(arg[i].t, x->arg[i].t));
        for (uint32_t k = 0; x->list[i] && k < arg[i].len; k++)
            if (arg[i].list[k].tag == CR_TENSOR)
                CR_TRY(lazy_write(arg[i].list[k].t, x->list[i][k].t));
    }
    return CR_OK;
}

/* Replaces a result that is the copy of a written argument by the caller's tensor. */
static void lazy_give_back(const lazy_args *x, const cr_value *arg, cr_value *result)
{
    for (int k = 0; k < x->op->result_count; k++)
        for (int i = 0; i < x->op->param_count; i++)
            if (x->single[i] && lazy_is_written(x->op, i) && result[k].tag == CR_TENSOR &&
                result[k].t == x->arg[i].t && result[k].t != arg[i].t) {
                cr_drop(result[k].t);
                result[k].t = cr_keep(arg[i].t);
            }
}

cr_status cr_call_resolved(cr_call_fn call, cr_resolve_fn resolve, const cr_op *op,
                           const cr_value *arg, cr_value *result)
{
    lazy_args x = {.op = op, .resolve = resolve};
    cr_status st = lazy_args_make(&x, arg);

    if (!st)
        st = call(op, x.arg, result);
    if (!st) {
        st = lazy_write_back(&x, arg);
        if (st)
            cr_drop_values(result, op->result_count);
        else
            lazy_give_back(&x, arg, result);
    }
    lazy_args_drop(&x);
    return st;
}

static cr_status lazy_call_past(const cr_op *op, const cr_value *arg, cr_value *result)
{
    return cr_call_past(CR_STAGE_CONJ, op, arg, result);
}

bool (*cr_handler_records)(const cr_op *op, const cr_value *arg);

cr_status cr_conj_stage(const cr_op *op, const cr_value *arg, cr_value *result)
{
    return cr_op_takes_bits(op) || (cr_handler_records && cr_handler_records(op, arg))
               ? lazy_call_past(op, arg, result)
               : cr_call_resolved(lazy_call_past, cr_tensor_resolved_by_calls, op, arg, result);
}
