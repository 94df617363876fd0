/* nan_to_num: NaN and infinities replaced. */
#include "whole/steps.h"
#include "whole/whole_impl.h"

static double largest_of(cr_dtype t)
{
    switch (t) {
    case CR_F16: return 65504.0;
    case CR_BF16: return 0x1.fep127;
    case CR_F64:
    case CR_C128: return 0x1.fffffffffffffp1023;
    default: return 0x1.fffffep127;
    }
}

/* The number that the dtype has for x. */
static cr_value replacement(cr_dtype dtype, const cr_value *given, double preset)
{
    double x = given->tag == CR_NONE ? preset : given->d, element[2];

    cr_scalar_store(cr_scalar_float(x), dtype, element);
    return cr_of_number(cr_scalar_float(cr_scalar_load(dtype, element).d));
}

cr_status cr_do_nan_to_num(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t, *made;
    cr_dtype part = cr_dtype_real((cr_dtype)t->dtype);
    bool both = cr_dtype_is_complex((cr_dtype)t->dtype);
    double most = largest_of((cr_dtype)t->dtype);
    cr_steps s = {.st = CR_OK};

    if (!cr_dtype_is_inexact((cr_dtype)t->dtype)) {
        CR_TRY(cr_copy_as(&made, t, (cr_dtype)t->dtype, t->device, CR_FORMAT_PRESERVE));
        *result = cr_of_tensor(made);
        return CR_OK;
    }
    cr_tensor *v = both ? CR_STEP(&s, view_as_real, T(t)) : t;
    v = CR_STEP(&s, _replace_not_finite, T(v), replacement(part, &arg[1], 0),
                replacement(part, &arg[2], most), replacement(part, &arg[3], -most));
    v = both ? CR_STEP(&s, view_as_complex, T(v)) : v;
    return cr_steps_give(&s, result, v);
}
