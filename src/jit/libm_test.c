/* Compares column libm of fn.def with the calls that the kernels make. */
#include "base/test.h"
#include "jit/generated.h"
#include <complex.h>
#include <math.h>

/* The C library's functions that kernels refer to, but for sqrt and nextafter, which are exact.
 * The linker uses these functions instead. */
static bool called;

#define REPLACED(type, name)                                                                   \
    type name(type x)                                                                          \
    {                                                                                          \
        called = true;                                                                         \
        return x;                                                                              \
    }
REPLACED(double, exp)
REPLACED(double, log)
REPLACED(double, log1p)
REPLACED(double, sin)
REPLACED(double, erf)
REPLACED(double, erfc)
REPLACED(double, cos)
REPLACED(float, sinf)
REPLACED(double complex, casin)
REPLACED(double complex, cacos)
REPLACED(double complex, catan)
REPLACED(double complex, casinh)
REPLACED(double complex, cacosh)
REPLACED(double complex, catanh)
REPLACED(float complex, casinf)
REPLACED(float complex, cacosf)
REPLACED(float complex, catanf)
REPLACED(float complex, casinhf)
REPLACED(float complex, cacoshf)
REPLACED(float complex, catanhf)

void sincos(double x, double *s, double *c)
{
    called = true;
    *s = *c = x;
}

double pow(double x, double y)
{
    called = true;
    return x + y;
}

double lgamma_r(double x, int *sign)
{
    called = true;
    *sign = 1;
    return x;
}

static void put_number(cr_dtype t, char *to, double x)
{
    cr_scalar_store(cr_scalar_float(x), t, to);
}

/* Whether any of some arguments makes the function call one of them. */
static bool fn_calls(cr_fn fn, cr_dtype t)
{
    static const double few[] = {0.3, 0.9, 1.7, -0.6, -2.5, 40, 1e30, -1e-30, 0};
    char a[CR_PARAM_BYTES], b[CR_PARAM_BYTES], out[CR_PARAM_BYTES];
    const void *in[3] = {a, b, b};

    called = false;
    for (size_t i = 0; i < CR_LEN(few); i++)
        for (size_t k = 0; k < CR_LEN(few); k++) {
            put_number(t, a, few[i]);
            put_number(t, b, few[k]);
            CHECK(cr_fn_one(fn, t, out, in));
        }
    return called;
}

TEST(functions_call_the_c_library_exactly_when_the_table_states_it)
{
    static const cr_dtype types[] = {CR_F32, CR_F64, CR_C64, CR_C128};
    bool base = cr_isa_chosen() == CR_ISA_base; /* the baseline calls it in more functions */

    for (int fn = 0; fn < CR_FN_COUNT; fn++)
        for (size_t t = 0; t < CR_LEN(types); t++) {
            unsigned kind = cr_fn_infos[fn].kind;
            if (!cr_fn_has((cr_fn)fn, types[t]) || kind == CR_FN_CAST || kind == CR_FN_SELECT)
                continue;
            bool calls = fn_calls((cr_fn)fn, types[t]);
            bool says = cr_fn_calls_libm((cr_fn)fn, types[t]);
            if (calls != says && !(base && calls))
                cr_test_failed(__FILE__, __LINE__, "column libm is wrong for %s of %s",
                               cr_fn_infos[fn].name, cr_dtype_name(types[t]));
        }
}
