/* Values of tensors: single elements, and comparisons with one answer. */
#include "whole/whole_impl.h"
#include <string.h>

cr_status cr_do_item(const cr_value *arg, cr_value *result)
{
    cr_scalar s;

    CR_TRY(cr_tensor_item(&s, arg[0].t));
    *result = cr_of_number(s);
    return CR_OK;
}

static bool scalar_is_nonzero(cr_scalar s)
{
    cr_complex c = cr_scalar_as_complex(s);

    return c.re != 0 || c.im != 0;
}

cr_status cr_do_is_nonzero(const cr_value *arg, cr_value *result)
{
    cr_scalar s;

    if (arg[0].t->numel != 1)
        return cr_fail(CR_RUNTIME, "Boolean value of Tensor with %s is ambiguous",
                       arg[0].t->numel ? "more than one value" : "no values");
    CR_TRY(cr_tensor_item(&s, arg[0].t));
    *result = cr_of_bool(scalar_is_nonzero(s));
    return CR_OK;
}

cr_status cr_do_is_same_size(const cr_value *arg, cr_value *result)
{
    *result = cr_of_bool(cr_has_sizes(arg[0].t, arg[1].t->ndim, arg[1].t->size));
    return CR_OK;
}

cr_status cr_do_is_set_to(const cr_value *arg, cr_value *result)
{
    const cr_tensor *a = arg[0].t, *b = arg[1].t;
    bool same =
        a->storage == b->storage && a->offset == b->offset && cr_has_sizes(a, b->ndim, b->size);

    *result = cr_of_bool(same && !memcmp(a->stride, b->stride, a->ndim * sizeof *a->stride));
    return CR_OK;
}

static cr_status all_true(const cr_tensor *t, cr_value *result)
{
    cr_tensor *plain = NULL;

    if (!t->address && t->numel)
        return cr_fail(CR_NOT_IMPLEMENTED, "meta tensors have no values to compare");
    CR_TRY(cr_is_host(t->device)
               ? cr_contiguous_plain(&plain, (cr_tensor *)t)
               : cr_copy_as(&plain, t, t->dtype, CR_HOST, CR_FORMAT_CONTIGUOUS));
    bool some_false = plain->numel && memchr(plain->address, 0, (size_t)plain->numel);
    *result = cr_of_bool(!some_false);
    cr_drop(plain);
    return CR_OK;
}

cr_status cr_do_equal(const cr_value *arg, cr_value *result)
{
    cr_tensor *same = NULL;

    if (!cr_has_sizes(arg[0].t, arg[1].t->ndim, arg[1].t->size)) {
        *result = cr_of_bool(false);
        return CR_OK;
    }
    CR_TRY(cr_call_tensor(&same, cr_entry.eq, arg, 2));
    cr_status st = all_true(same, result);
    cr_drop(same);
    return st;
}

cr_status cr_do_allclose(const cr_value *arg, cr_value *result)
{
    cr_tensor *close = NULL;

    CR_TRY(cr_call_tensor(&close, cr_entry.isclose, arg, 5));
    cr_status st = all_true(close, result);
    cr_drop(close);
    return st;
}
