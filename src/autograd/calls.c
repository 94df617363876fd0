/* Operators that backward itself calls.  They run through every stage, so they are recorded
 * when grad mode is on. */
#include "autograd/autograd_impl.h"
#include "entry.h"

cr_status cr_call_add(cr_tensor **out, cr_tensor *a, cr_tensor *b)
{
    bool swap = a->layout && !b->layout; /* there is no sum of a sparse and a strided tensor */
    cr_value arg[] = {cr_of_tensor(swap ? b : a), cr_of_tensor(swap ? a : b)};

    return cr_call_tensor(out, cr_entry.add, arg, 2);
}

cr_status cr_call_add_inplace(cr_tensor *a, cr_tensor *b)
{
    cr_value arg[CR_MAX_ARGS] = {cr_of_tensor(a), cr_of_tensor(b)}, result;

    for (int i = 2; i < cr_entry.add->param_count; i++)
        arg[i] = cr_entry.add->param[i].preset;
    CR_TRY(cr_call_inplace(cr_entry.add, arg, &result));
    cr_drop(result.t);
    return CR_OK;
}

cr_status cr_call_unary(cr_tensor **out, const cr_op *op, cr_tensor *a)
{
    cr_value arg = cr_of_tensor(a);

    return cr_call_tensor(out, op, &arg, 1);
}

cr_status cr_call_where(cr_tensor **out, cr_tensor *mask, cr_tensor *a, cr_tensor *b)
{
    cr_value arg[3] = {cr_of_tensor(mask), cr_of_tensor(a), cr_of_tensor(b)};

    return cr_call_tensor(out, cr_entry.where, arg, 3);
}

/* In fresh memory, not recorded. */
static cr_status call_copy(cr_tensor **out, cr_tensor *t, cr_dtype dtype)
{
    cr_tensor *made = NULL;
    cr_status st;

    CR_TRY(cr_tensor_new_strided(&made, dtype, t->device, t->ndim, t->size,
                                 cr_is_dense(t) ? t->stride : NULL));
    st = cr_has_elements(made) && cr_has_elements(t) ? cr_copy_tensor(made, t) : CR_OK;
    CR_GIVE(st, out, made, cr_drop);
}

cr_status cr_call_cast(cr_tensor **out, cr_tensor *t, cr_dtype dtype)
{
    cr_value arg[2] = {cr_of_tensor(t), cr_of_dtype(dtype)};

    if (t->dtype == dtype) {
        *out = cr_keep(t);
        return CR_OK;
    }
    if ((cr_recording() && cr_requires_grad(t)) || cr_goes_to_python(t) || t->layout ||
        cr_thread.include & ~cr_thread.exclude & CR_STAGE_BIT(CAPTURE))
        return cr_call_tensor(out, cr_entry.to_dtype, arg, 2);
    return call_copy(out, t, dtype);
}
