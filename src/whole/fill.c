/* Fills with one value. */
#include "whole/whole_impl.h"

static const char *c_type_name(cr_dtype t)
{
    static const char *const names[CR_DTYPE_COUNT] = {[CR_BOOL] = "bool",
                                                      [CR_U8] = "uint8_t",
                                                      [CR_I8] = "int8_t",
                                                      [CR_I16] = "int16_t",
                                                      [CR_I32] = "int",
                                                      [CR_I64] = "int64_t",
                                                      [CR_F16] = "c10::Half",
                                                      [CR_BF16] = "c10::BFloat16",
                                                      [CR_F32] = "float",
                                                      [CR_F64] = "double",
                                                      [CR_C64] = "c10::complex<float>",
                                                      [CR_C128] = "c10::complex<double>"};
    return names[t];
}

cr_status cr_check_fits(cr_scalar value, cr_dtype dtype)
{
    if (CR_LIKELY(cr_scalar_fits(value, dtype)))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "value cannot be converted to type %s without overflow",
                   c_type_name(dtype));
}

cr_status cr_fill(cr_tensor *t, cr_scalar value)
{
    cr_view v = cr_view_of(t);

    return t->data ? cr_fill_elements(&v, value) : CR_OK;
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

    if (value.ndim)
        return cr_fail(CR_RUNTIME,
                       "fill_ only supports 0-dimension value tensor but got tensor "
                       "with %d dimensions.",
                       value.ndim);
    CR_TRY(cr_check_copy(arg[0].t, arg[1].t));
    CR_TRY(cr_copy_elements(&to, &value));
    return cr_give_changed(result, arg[0].t);
}

cr_status cr_do_zero(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_fill(arg[0].t, cr_scalar_int(0)));
    return cr_give_changed(result, arg[0].t);
}
