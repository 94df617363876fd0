/* Fills with one value. */
#include "whole/whole_impl.h"

cr_status cr_fill(cr_tensor *t, cr_scalar value)
{
    cr_view v = cr_view_of(t);

    return t->address ? cr_fill_elements(&v, value) : CR_OK;
}

cr_status cr_do_fill(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_check_fits(arg[1].number, arg[0].t->dtype));
    CR_TRY(cr_fill(arg[0].t, arg[1].number));
    return cr_give_changed(result, arg[0].t);
}

cr_status cr_do_fill_tensor(const cr_value *arg, cr_value *result)
{
    cr_view to = cr_view_of(arg[0].t), value = cr_view_of(arg[1].t);

    if (cr_has_internal_overlap(arg[0].t))
        return cr_refuse_internal_overlap();
    CR_TRY(cr_check_copy(arg[0].t, arg[1].t));
    CR_TRY(cr_copy_elements(&to, &value));
    return cr_give_changed(result, arg[0].t);
}

cr_status cr_do_zero(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_fill(arg[0].t, cr_scalar_int(0)));
    return cr_give_changed(result, arg[0].t);
}
