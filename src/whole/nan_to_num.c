/* nan_to_num: NaN and infinities replaced. */
#include "whole/steps.h"
#include "whole/whole_impl.h"
#include <math.h>

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

typedef struct {
    cr_dtype dtype;
    double nan, high, low;
} replacement;

static double replaced(const replacement *r, double x)
{
    return isnan(x) ? r->nan : isinf(x) ? (x > 0 ? r->high : r->low) : x;
}

/* n floats (or halves of complex numbers) in place. */
static void replace_inexact(const replacement *r, char *data, int64_t n)
{
    size_t item = cr_dtype_size(r->dtype);

    for (int64_t i = 0; i < n; i++) {
        char *at = data + (size_t)i * item;
        double x = cr_scalar_load(r->dtype, at).d;
        if (!isfinite(x))
            cr_scalar_store(cr_scalar_float(replaced(r, x)), r->dtype, at);
    }
}

/* --- elsewhere than in the host's memory --- */

static cr_tensor *fill_masked(cr_steps *s, cr_tensor *t, cr_tensor *mask, double number)
{
    return CR_STEP(s, masked_fill_Scalar, T(t), T(mask), cr_of_number(cr_scalar_float(number)));
}

/* The number that the dtype has for x: a mask takes no other. */
static double rounded_to(cr_dtype dtype, double x)
{
    double element[2];

    cr_scalar_store(cr_scalar_float(x), dtype, element);
    return cr_scalar_load(dtype, element).d;
}

/* Masked elements have at least 16 bits; floats of 8 go through float32, which has all
 * their numbers. */
static cr_status nan_to_num_there(cr_tensor *t, const replacement *numbers, cr_value *result)
{
    bool both = cr_dtype_is_complex((cr_dtype)t->dtype);
    bool small = cr_dtype_size(numbers->dtype) == 1;
    const replacement *r = &(replacement){
        numbers->dtype, rounded_to(numbers->dtype, numbers->nan),
        rounded_to(numbers->dtype, numbers->high), rounded_to(numbers->dtype, numbers->low)};
    cr_steps s = {.st = CR_OK};
    cr_tensor *v = both ? CR_STEP(&s, view_as_real, T(t)) : t;

    v = small ? cr_step_cast(&s, v, CR_F32) : v;
    cr_tensor *nan = CR_STEP(&s, isnan, T(v));
    cr_tensor *high = CR_STEP(&s, isposinf, T(v));
    cr_tensor *low = CR_STEP(&s, isneginf, T(v));

    v = fill_masked(&s, v, nan, r->nan);
    v = fill_masked(&s, v, high, r->high);
    v = fill_masked(&s, v, low, r->low);
    if (both)
        v = CR_STEP(&s, view_as_complex, T(v));
    v = small ? cr_step_cast(&s, v, numbers->dtype) : v;
    return cr_steps_give(&s, result, v);
}

cr_status cr_do_nan_to_num(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t;
    double most = largest_of(t->dtype);
    replacement r = {cr_dtype_real(t->dtype), arg[1].tag == CR_NONE ? 0 : arg[1].d,
                     arg[2].tag == CR_NONE ? most : arg[2].d,
                     arg[3].tag == CR_NONE ? -most : arg[3].d};
    cr_tensor *made;

    if (cr_dtype_is_inexact(t->dtype) && cr_has_bytes(t->device) && !cr_is_host(t->device))
        return nan_to_num_there(t, &r, result);
    CR_TRY(cr_copy_as(&made, t, t->dtype, t->device, CR_FORMAT_PRESERVE));
    if (cr_dtype_is_inexact(t->dtype) && made->address)
        replace_inexact(&r, made->address, t->numel * (1 + cr_dtype_is_complex(t->dtype)));
    *result = cr_of_tensor(made);
    return CR_OK;
}
