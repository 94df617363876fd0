/* Operators that backward itself calls.  They run through every stage, so they are recorded
 * when grad mode is on. */
#include "autograd/autograd_impl.h"

static const cr_op *add_op;

static cr_status find_add(void)
{
    if (CR_LIKELY(add_op != NULL))
        return CR_OK;
    add_op = cr_ops_find("add");
    return add_op ? CR_OK : cr_fail(CR_RUNTIME, "no operator is called 'add'");
}

static void add_arguments(cr_value *arg, cr_tensor *a, cr_tensor *b)
{
    arg[0] = cr_of_tensor(a);
    arg[1] = cr_of_tensor(b);
    for (int i = 2; i < add_op->param_count; i++)
        arg[i] = add_op->param[i].preset;
}

cr_status cr_call_add(cr_tensor **out, cr_tensor *a, cr_tensor *b)
{
    cr_value arg[CR_MAX_ARGS], result;

    CR_TRY(find_add());
    add_arguments(arg, a, b);
    CR_TRY(cr_call(add_op, arg, &result));
    *out = result.t;
    return CR_OK;
}

cr_status cr_call_add_inplace(cr_tensor *a, cr_tensor *b)
{
    cr_value arg[CR_MAX_ARGS], result;

    CR_TRY(find_add());
    add_arguments(arg, a, b);
    CR_TRY(cr_call_inplace(add_op, arg, &result));
    cr_drop(result.t);
    return CR_OK;
}

static cr_status call(cr_tensor **out, const char *name, const cr_value *arg, int n)
{
    cr_value result;

    CR_TRY(cr_call_named(name, arg, n, &result));
    *out = result.t;
    return CR_OK;
}

cr_status cr_call_unary(cr_tensor **out, const char *name, cr_tensor *a)
{
    cr_value arg = cr_of_tensor(a);

    return call(out, name, &arg, 1);
}

cr_status cr_call_where(cr_tensor **out, cr_tensor *mask, cr_tensor *a, cr_tensor *b)
{
    cr_value arg[3] = {cr_of_tensor(mask), cr_of_tensor(a), cr_of_tensor(b)};

    return call(out, "where", arg, 3);
}

/* In fresh memory, not recorded. */
static cr_status call_copy(cr_tensor **out, cr_tensor *t, cr_dtype dtype)
{
    cr_tensor *made = NULL;
    cr_status st;

    if (cr_is_dense(t))
        CR_TRY(cr_tensor_new_strided(&made, dtype, t->device, t->ndim, t->size, t->stride));
    else
        CR_TRY(cr_tensor_new(&made, dtype, t->device, t->ndim, t->size));
    cr_view to = cr_view_of(made), from = cr_view_of(t);
    st = made->data && t->data ? cr_copy_elements(&to, &from) : CR_OK;
    if (st) {
        cr_drop(made);
        return st;
    }
    *out = made;
    return CR_OK;
}

cr_status cr_call_cast(cr_tensor **out, cr_tensor *t, cr_dtype dtype)
{
    cr_value arg[2] = {cr_of_tensor(t), cr_of_dtype(dtype)};

    if (t->dtype == dtype) {
        *out = cr_keep(t);
        return CR_OK;
    }
    if ((cr_recording() && cr_requires_grad(t)) ||
        cr_thread.include & ~cr_thread.exclude & CR_STAGE_BIT(CAPTURE))
        return call(out, "to_dtype", arg, 2);
    return call_copy(out, t, dtype);
}
