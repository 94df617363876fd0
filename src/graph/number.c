/* Numbers of graphs. */
#include "graph/number.h"
#include "base/integer.h"
#include <math.h>
#include <stdlib.h>

const char *const cr_gnum_fn_name[CR_GNUM_FN_COUNT] = {
#define CR_GNUM(NAME, name) [CR_GNUM_##NAME] = #name,
#include "graph/number.def"
#undef CR_GNUM
};
const char *const cr_gnum_test_name[CR_GNUM_TEST_COUNT] = {
    [CR_GNUM_EQ] = "==", [CR_GNUM_LT] = "<", [CR_GNUM_LE] = "<="};

static bool int_apply(cr_gnum_fn fn, int64_t a, int64_t b, cr_scalar *out)
{
    int64_t c = 0;

    switch (fn) {
    case CR_GNUM_ADD:
        if (__builtin_add_overflow(a, b, &c))
            return false;
        break;
    case CR_GNUM_SUB:
        if (__builtin_sub_overflow(a, b, &c))
            return false;
        break;
    case CR_GNUM_MUL:
        if (__builtin_mul_overflow(a, b, &c))
            return false;
        break;
    case CR_GNUM_FLOORDIV:
        if (!b || (b == -1 && a == INT64_MIN))
            return false;
        c = cr_floor_div(a, b);
        break;
    case CR_GNUM_MOD:
        if (!b || (b == -1 && a == INT64_MIN))
            return false;
        c = a - b * cr_floor_div(a, b);
        break;
    case CR_GNUM_DIV:
        if (!b)
            return false;
        *out = cr_scalar_float((double)a / (double)b);
        return llabs(a) < (1ll << 53) && llabs(b) < (1ll << 53);
    case CR_GNUM_POW: {
        if (b < 0) {
            *out = cr_scalar_float(pow((double)a, (double)b));
            return a != 0;
        }
        c = 1;
        for (int64_t k = 0; k < b; k++)
            if (k > 64 || __builtin_mul_overflow(c, a, &c))
                return false;
        break;
    }
    case CR_GNUM_NEG:
        if (__builtin_sub_overflow(0, a, &c))
            return false;
        break;
    case CR_GNUM_ABS:
        if (a == INT64_MIN)
            return false;
        c = a < 0 ? -a : a;
        break;
    case CR_GNUM_FLOOR:
    case CR_GNUM_CEIL:
    case CR_GNUM_TRUNC:
    case CR_GNUM_ROUND: c = a; break;
    case CR_GNUM_SQRT:
        *out = cr_scalar_float(sqrt((double)a));
        return a >= 0 && a < (1ll << 53);
    default: return false;
    }
    *out = cr_scalar_int(c);
    return !cr_gnum_is_int(c);
}

/* The integer that a float is rounded to; false where it is no exact one. */
static bool rounded(double d, cr_scalar *out)
{
    if (!(fabs(d) < 0x1p53))
        return false;
    *out = cr_scalar_int((int64_t)d);
    return !cr_gnum_is_int(out->i);
}

static bool float_apply(cr_gnum_fn fn, double a, double b, cr_scalar *out)
{
    double d;

    switch (fn) {
    case CR_GNUM_ADD: d = a + b; break;
    case CR_GNUM_SUB: d = a - b; break;
    case CR_GNUM_MUL: d = a * b; break;
    case CR_GNUM_DIV:
        d = a / b;
        if (b == 0)
            return false;
        break;
    case CR_GNUM_POW:
        d = pow(a, b);
        if (a < 0 || a == 0)
            return false;
        break;
    case CR_GNUM_NEG: d = -a; break;
    case CR_GNUM_ABS: d = fabs(a); break;
    case CR_GNUM_FLOOR: return rounded(floor(a), out);
    case CR_GNUM_CEIL: return rounded(ceil(a), out);
    case CR_GNUM_TRUNC: return rounded(trunc(a), out);
    case CR_GNUM_ROUND: return rounded(nearbyint(a), out);
    case CR_GNUM_SQRT:
        d = sqrt(a);
        if (a < 0)
            return false;
        break;
    default: return false; /* floor division of floats differs from C's in corner cases */
    }
    *out = cr_scalar_float(d);
    return true;
}

bool cr_gnum_apply(cr_gnum_fn fn, cr_scalar a, cr_scalar b, cr_scalar *out)
{
    bool one = cr_gnum_is_unary(fn);

    if (a.category == CR_CAT_FLOAT || (!one && b.category == CR_CAT_FLOAT))
        return float_apply(fn, cr_scalar_as_double(a), one ? 0 : cr_scalar_as_double(b), out);
    return int_apply(fn, a.i, one ? 0 : b.i, out);
}

bool cr_gnum_compare(cr_gnum_test test, cr_scalar a, cr_scalar b)
{
    if (a.category != CR_CAT_FLOAT && b.category != CR_CAT_FLOAT)
        return test == CR_GNUM_EQ ? a.i == b.i : test == CR_GNUM_LT ? a.i < b.i : a.i <= b.i;
    double x = cr_scalar_as_double(a), y = cr_scalar_as_double(b);
    return test == CR_GNUM_EQ ? x == y : test == CR_GNUM_LT ? x < y : x <= y;
}

bool cr_gnum_evaluate(const cr_gnumbers *n, const cr_scalar *input, cr_scalar *out)
{
    for (size_t k = 0; k < n->list.len; k++) {
        const cr_gnumber *x = &n->list.at[k];
        switch ((cr_gnum_fn)x->fn) {
        case CR_GNUM_INPUT: out[k] = input[x->a]; break;
        case CR_GNUM_SIZE: break;
        case CR_GNUM_CONST: out[k] = x->value; break;
        default:
            if (!cr_gnum_apply((cr_gnum_fn)x->fn, out[x->a], out[x->b], &out[k]))
                return false;
        }
    }
    return true;
}

bool cr_gnum_guards_hold(const cr_gnumbers *n, const cr_scalar *value)
{
    for (size_t i = 0; i < n->guards.len; i++) {
        const cr_gnum_guard *g = &n->guards.at[i];
        if (cr_gnum_compare((cr_gnum_test)g->test, value[g->a], value[g->b]) != g->holds)
            return false;
    }
    return true;
}
