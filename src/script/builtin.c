/* Builtin functions of programs on numbers, tensors' properties and values of any kind.
 *
 * A function serves all overloads of a name: it chooses by the kinds of its arguments.  The
 * compiler has checked the types; a function checks the kinds again, because an archive's
 * values come from a file. */
#include "script/builtin.h"
#include "autograd/autograd.h"
#include "device/generators.h"
#include "entry.h"
#include "num/generator.h"
#include "tensor/profile.h"
#include "tensor/sparse.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cr_status cr_builtin_misfit(const cr_scall *c)
{
    cr_text kinds = {0};

    for (int i = 0; i < c->count; i++)
        cr_text_printf(&kinds, "%s%s", i ? ", " : "", cr_ivalue_kind_name(&c->arg[i]));
    cr_status st = cr_fail(CR_RUNTIME, "%s() has no form for arguments of types (%s)",
                           c->node->schema->name, cr_text_str(&kinds));
    cr_text_drop(&kinds);
    return st;
}

static bool builtin_whole(const cr_ivalue *v)
{
    return v->kind == CR_IV_INT || v->kind == CR_IV_BOOL;
}

static bool builtin_real(const cr_ivalue *v)
{
    return builtin_whole(v) || v->kind == CR_IV_FLOAT;
}

static double builtin_double(const cr_ivalue *v)
{
    return v->kind == CR_IV_FLOAT ? v->d : (double)v->i;
}

static cr_complex builtin_as_complex(const cr_ivalue *v)
{
    return v->kind == CR_IV_COMPLEX ? v->c : (cr_complex){builtin_double(v), 0};
}

static bool builtin_both_whole(const cr_scall *c)
{
    return c->count >= 2 && builtin_whole(&c->arg[0]) && builtin_whole(&c->arg[1]);
}

static bool builtin_both_real(const cr_scall *c)
{
    return c->count >= 2 && builtin_real(&c->arg[0]) && builtin_real(&c->arg[1]);
}

static bool builtin_both_numbers(const cr_scall *c)
{
    cr_scalar s;

    return c->count >= 2 && cr_ivalue_scalar(&c->arg[0], &s) &&
           cr_ivalue_scalar(&c->arg[1], &s);
}

static cr_status builtin_give(cr_scall *c, cr_ivalue v)
{
    if (c->outs)
        c->out[0] = v;
    else
        cr_ivalue_drop(v);
    return CR_OK;
}

/* --- arithmetic --- */

static cr_complex complex_add(cr_complex a, cr_complex b)
{
    return (cr_complex){a.re + b.re, a.im + b.im};
}
static cr_complex complex_sub(cr_complex a, cr_complex b)
{
    return (cr_complex){a.re - b.re, a.im - b.im};
}
static cr_complex complex_mul(cr_complex a, cr_complex b)
{
    return (cr_complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static cr_complex complex_div(cr_complex a, cr_complex b)
{
    double d = b.re * b.re + b.im * b.im;

    return (cr_complex){(a.re * b.re + a.im * b.im) / d, (a.im * b.re - a.re * b.im) / d};
}

#define BUILTIN_ARITHMETIC(name, whole, op, otherwise)                                         \
    static cr_status builtin_##name(cr_scall *c)                                               \
    {                                                                                          \
        const cr_ivalue *a = c->arg, *b = c->arg + 1;                                          \
                                                                                               \
        if (builtin_both_whole(c))                                                             \
            return builtin_give(c, cr_iv_int(whole(a->i, b->i)));                              \
        if (builtin_both_real(c))                                                              \
            return builtin_give(c, cr_iv_float(builtin_double(a) op builtin_double(b)));       \
        if (builtin_both_numbers(c))                                                           \
            return builtin_give(c, cr_iv_complex(complex_##name(builtin_as_complex(a),         \
                                                                builtin_as_complex(b))));      \
        return otherwise(c);                                                                   \
    }
BUILTIN_ARITHMETIC(add, CR_WRAP_ADD, +, cr_builtin_join)
BUILTIN_ARITHMETIC(sub, CR_WRAP_SUB, -, cr_builtin_misfit)
BUILTIN_ARITHMETIC(mul, CR_WRAP_MUL, *, cr_builtin_repeat)

static cr_status builtin_div(cr_scall *c)
{
    const cr_ivalue *a = c->arg, *b = c->arg + 1;

    if (builtin_both_real(c))
        return builtin_give(c, cr_iv_float(builtin_double(a) / builtin_double(b)));
    if (builtin_both_numbers(c))
        return builtin_give(
            c, cr_iv_complex(complex_div(builtin_as_complex(a), builtin_as_complex(b))));
    return cr_builtin_misfit(c);
}

static cr_status builtin_by_zero(const cr_scall *c, const char *text)
{
    (void)c;
    return cr_fail(CR_RUNTIME, "%s", text);
}

/* Python's quotient, rounded down. */
static int64_t floor_quotient(int64_t a, int64_t b)
{
    if (b == -1)
        return CR_WRAP_SUB(0, a);
    int64_t q = a / b;
    return q - (a % b != 0 && (a % b < 0) != (b < 0));
}

static cr_status builtin_floordiv(cr_scall *c)
{
    const cr_ivalue *a = c->arg, *b = c->arg + 1;

    if (builtin_both_whole(c)) {
        if (!b->i)
            return builtin_by_zero(c, "division by 0");
        return builtin_give(c, cr_iv_int(floor_quotient(a->i, b->i)));
    }
    if (builtin_both_real(c))
        return builtin_give(c, cr_iv_float(floor(builtin_double(a) / builtin_double(b))));
    return cr_builtin_misfit(c);
}

/* Truncates, as C does. */
static cr_status builtin_truncdiv(cr_scall *c)
{
    const cr_ivalue *a = c->arg, *b = c->arg + 1;

    if (!builtin_both_whole(c))
        return cr_builtin_misfit(c);
    if (!b->i)
        return builtin_by_zero(c, "ZeroDivisionError: integer division or modulo by zero");
    return builtin_give(c, cr_iv_int(b->i == -1 ? CR_WRAP_SUB(0, a->i) : a->i / b->i));
}

static cr_status builtin_remainder(cr_scall *c)
{
    const cr_ivalue *a = c->arg, *b = c->arg + 1;

    if (builtin_both_whole(c)) {
        if (!b->i)
            return builtin_by_zero(c, "ZeroDivisionError: integer division or modulo by zero");
        int64_t q = floor_quotient(a->i, b->i);
        return builtin_give(c, cr_iv_int(CR_WRAP_SUB(a->i, CR_WRAP_MUL(q, b->i))));
    }
    if (!builtin_both_real(c))
        return cr_builtin_misfit(c);
    double x = builtin_double(a), y = builtin_double(b), r = fmod(x, y);
    return builtin_give(c, cr_iv_float(r != 0 && (r < 0) != (y < 0) ? r + y : r));
}

static cr_status builtin_divmod(cr_scall *c)
{
    const cr_ivalue *a = c->arg, *b = c->arg + 1;
    bool whole = builtin_both_whole(c);

    if (!builtin_both_real(c) || c->outs < 2)
        return cr_builtin_misfit(c);
    if (builtin_double(b) == 0)
        return builtin_by_zero(c, whole
                                      ? "ZeroDivisionError: integer division or modulo by zero"
                                      : "ZeroDivisionError: float divmod()");
    if (whole) {
        int64_t q = floor_quotient(a->i, b->i);
        c->out[0] = cr_iv_int(q);
        c->out[1] = cr_iv_int(CR_WRAP_SUB(a->i, CR_WRAP_MUL(q, b->i)));
        return CR_OK;
    }
    double x = builtin_double(a), y = builtin_double(b), r = fmod(x, y);
    r = r != 0 && (r < 0) != (y < 0) ? r + y : r;
    c->out[0] = cr_iv_float((x - r) / y);
    c->out[1] = cr_iv_float(r);
    return CR_OK;
}

static int64_t whole_power(int64_t base, int64_t exponent)
{
    uint64_t made = 1, factor = (uint64_t)base;

    for (uint64_t e = (uint64_t)exponent; e; e >>= 1, factor *= factor)
        made *= e & 1 ? factor : 1;
    return (int64_t)made;
}

static cr_status builtin_pow(cr_scall *c)
{
    const cr_ivalue *a = c->arg, *b = c->arg + 1;

    if (!strcmp(c->node->schema->overload, "int_to_int") && builtin_both_whole(c) && b->i >= 0)
        return builtin_give(c, cr_iv_int(whole_power(a->i, b->i)));
    if (builtin_both_real(c))
        return builtin_give(c, cr_iv_float(pow(builtin_double(a), builtin_double(b))));
    return cr_builtin_misfit(c);
}

#define BUILTIN_REAL2(NAME, expression)                                                        \
    static cr_status builtin_##NAME(cr_scall *c)                                               \
    {                                                                                          \
        if (!builtin_both_real(c))                                                             \
            return cr_builtin_misfit(c);                                                       \
        double x = builtin_double(&c->arg[0]), y = builtin_double(&c->arg[1]);                 \
        return builtin_give(c, cr_iv_float(expression));                                       \
    }
BUILTIN_REAL2(fmod, fmod(x, y))
BUILTIN_REAL2(mathremainder, remainder(x, y))
BUILTIN_REAL2(atan2, atan2(x, y))
BUILTIN_REAL2(copysign, copysign(x, y))

#define BUILTIN_REAL1(NAME, expression)                                                        \
    static cr_status builtin_##NAME(cr_scall *c)                                               \
    {                                                                                          \
        if (c->count < 1 || !builtin_real(&c->arg[0]))                                         \
            return cr_builtin_misfit(c);                                                       \
        double x = builtin_double(&c->arg[0]);                                                 \
        return builtin_give(c, cr_iv_float(expression));                                       \
    }
BUILTIN_REAL1(sqrt, sqrt(x))
BUILTIN_REAL1(exp, exp(x))
BUILTIN_REAL1(expm1, expm1(x))
BUILTIN_REAL1(log10, log10(x))
BUILTIN_REAL1(log1p, log1p(x))
BUILTIN_REAL1(sin, sin(x))
BUILTIN_REAL1(cos, cos(x))
BUILTIN_REAL1(tan, tan(x))
BUILTIN_REAL1(asin, asin(x))
BUILTIN_REAL1(acos, acos(x))
BUILTIN_REAL1(atan, atan(x))
BUILTIN_REAL1(sinh, sinh(x))
BUILTIN_REAL1(cosh, cosh(x))
BUILTIN_REAL1(tanh, tanh(x))
BUILTIN_REAL1(asinh, asinh(x))
BUILTIN_REAL1(acosh, acosh(x))
BUILTIN_REAL1(atanh, atanh(x))
BUILTIN_REAL1(gamma, tgamma(x))
BUILTIN_REAL1(lgamma, lgamma(x))
BUILTIN_REAL1(erf, erf(x))
BUILTIN_REAL1(erfc, erfc(x))
BUILTIN_REAL1(fabs, fabs(x))
BUILTIN_REAL1(degrees, x * 180.0 / M_PI)
BUILTIN_REAL1(radians, x *M_PI / 180.0)

static cr_status builtin_modf(cr_scall *c)
{
    double whole;

    if (c->count < 1 || c->outs < 2 || !builtin_real(c->arg))
        return cr_builtin_misfit(c);
    c->out[0] = cr_iv_float(modf(builtin_double(c->arg), &whole));
    c->out[1] = cr_iv_float(whole);
    return CR_OK;
}

static cr_status builtin_frexp(cr_scall *c)
{
    int exponent;

    if (c->count < 1 || c->outs < 2 || !builtin_real(c->arg))
        return cr_builtin_misfit(c);
    c->out[0] = cr_iv_float(frexp(builtin_double(c->arg), &exponent));
    c->out[1] = cr_iv_int(exponent);
    return CR_OK;
}

static cr_status builtin_ldexp(cr_scall *c)
{
    if (!builtin_both_real(c) || c->arg[1].kind != CR_IV_INT)
        return cr_builtin_misfit(c);
    int64_t i = c->arg[1].i;
    int exponent = i > 10000 ? 10000 : i < -10000 ? -10000 : (int)i;
    return builtin_give(c, cr_iv_float(ldexp(builtin_double(c->arg), exponent)));
}

static cr_status builtin_log(cr_scall *c)
{
    if (builtin_both_real(c))
        return builtin_give(
            c, cr_iv_float(log(builtin_double(c->arg)) / log(builtin_double(c->arg + 1))));
    if (c->count < 1 || !builtin_real(c->arg))
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_iv_float(log(builtin_double(c->arg))));
}

/* floor and ceil of a float are ints. */
static cr_status builtin_floor(cr_scall *c)
{
    if (c->count < 1 || !builtin_real(c->arg))
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_iv_int((int64_t)floor(builtin_double(c->arg))));
}

static cr_status builtin_ceil(cr_scall *c)
{
    if (c->count < 1 || !builtin_real(c->arg))
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_iv_int((int64_t)ceil(builtin_double(c->arg))));
}

static cr_status builtin_round(cr_scall *c)
{
    if (c->count < 1 || !builtin_real(c->arg))
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_iv_float(nearbyint(builtin_double(c->arg))));
}

static cr_status builtin_neg(cr_scall *c)
{
    const cr_ivalue *a = c->arg;

    if (c->count >= 1 && builtin_whole(a))
        return builtin_give(c, cr_iv_int(CR_WRAP_SUB(0, a->i)));
    if (c->count >= 1 && a->kind == CR_IV_FLOAT)
        return builtin_give(c, cr_iv_float(-a->d));
    if (c->count >= 1 && a->kind == CR_IV_COMPLEX)
        return builtin_give(c, cr_iv_complex((cr_complex){-a->c.re, -a->c.im}));
    return cr_builtin_misfit(c);
}

static cr_status builtin_abs(cr_scall *c)
{
    const cr_ivalue *a = c->arg;

    if (c->count >= 1 && builtin_whole(a))
        return builtin_give(c, cr_iv_int(a->i < 0 ? CR_WRAP_SUB(0, a->i) : a->i));
    if (c->count >= 1 && a->kind == CR_IV_FLOAT)
        return builtin_give(c, cr_iv_float(fabs(a->d)));
    if (c->count >= 1 && a->kind == CR_IV_COMPLEX)
        return builtin_give(c, cr_iv_float(hypot(a->c.re, a->c.im)));
    if (c->count >= 1 && a->kind == CR_IV_TENSOR)
        return cr_sop_call_entry(cr_entry.abs, a, 1, c->out, c->outs);
    return cr_builtin_misfit(c);
}

#define BUILTIN_BITS(NAME, operation)                                                          \
    static cr_status builtin_##NAME(cr_scall *c)                                               \
    {                                                                                          \
        const cr_ivalue *a = c->arg, *b = c->arg + 1;                                          \
        if (c->count >= 2 && a->kind == CR_IV_TENSOR)                                          \
            return cr_sop_call_entry(cr_entry.bitwise_##NAME, a, 2, c->out, c->outs);          \
        if (!builtin_both_whole(c))                                                            \
            return cr_builtin_misfit(c);                                                       \
        int64_t made = (int64_t)((uint64_t)a->i operation(uint64_t) b->i);                     \
        bool both = a->kind == CR_IV_BOOL && b->kind == CR_IV_BOOL;                            \
        return builtin_give(c, both ? cr_iv_bool(made != 0) : cr_iv_int(made));                \
    }
BUILTIN_BITS(and, &)
BUILTIN_BITS(or, |)
BUILTIN_BITS(xor, ^)

static cr_status builtin_shift(cr_scall *c, bool left)
{
    const cr_ivalue *a = c->arg, *b = c->arg + 1;

    if (!builtin_both_whole(c) || b->i < 0)
        return cr_builtin_misfit(c);
    if (b->i > 63)
        return builtin_give(c, cr_iv_int(!left && a->i < 0 ? -1 : 0));
    return builtin_give(c, cr_iv_int(left ? (int64_t)((uint64_t)a->i << b->i) : a->i >> b->i));
}
static cr_status builtin_lshift(cr_scall *c) { return builtin_shift(c, true); }
static cr_status builtin_rshift(cr_scall *c) { return builtin_shift(c, false); }

static cr_status builtin_not(cr_scall *c)
{
    if (c->count < 1 || !builtin_whole(c->arg))
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_iv_bool(!c->arg->i));
}

static cr_status builtin_gcd(cr_scall *c)
{
    if (!builtin_both_whole(c))
        return cr_builtin_misfit(c);
    uint64_t a = (uint64_t)c->arg[0].i, b = (uint64_t)c->arg[1].i;
    a = c->arg[0].i < 0 ? 0 - a : a;
    b = c->arg[1].i < 0 ? 0 - b : b;
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return builtin_give(c, cr_iv_int((int64_t)a));
}

static cr_status builtin_factorial(cr_scall *c)
{
    uint64_t made = 1;

    if (c->count < 1 || !builtin_whole(c->arg))
        return cr_builtin_misfit(c);
    if (c->arg->i < 0)
        return cr_fail(CR_RUNTIME, "factorial() not defined for negative values");
    for (int64_t i = 2; i <= c->arg->i && i < 100; i++)
        made *= (uint64_t)i;
    return builtin_give(c, cr_iv_int((int64_t)made));
}

static cr_status builtin_isnan(cr_scall *c)
{
    if (c->count < 1 || !builtin_real(c->arg))
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_iv_bool(isnan(builtin_double(c->arg))));
}
static cr_status builtin_isinf(cr_scall *c)
{
    if (c->count < 1 || !builtin_real(c->arg))
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_iv_bool(isinf(builtin_double(c->arg))));
}
static cr_status builtin_isfinite(cr_scall *c)
{
    if (c->count < 1 || !builtin_real(c->arg))
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_iv_bool(isfinite(builtin_double(c->arg))));
}

/* --- comparisons --- */

static int builtin_order_strings(const cr_istring *a, const cr_istring *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int order = n ? memcmp(a->at, b->at, n) : 0;

    return order ? order : a->len < b->len ? -1 : a->len > b->len;
}

/* Lists and tuples: by the first items that differ, then by length. */
static cr_status builtin_less_items(const cr_scall *c, const cr_ilist *a, const cr_ilist *b,
                                    bool *less)
{
    bool more;

    for (size_t i = 0; i < a->len && i < b->len; i++) {
        CR_TRY(cr_builtin_less(c, &a->at[i], &b->at[i], less));
        CR_TRY(cr_builtin_less(c, &b->at[i], &a->at[i], &more));
        if (*less || more)
            return CR_OK;
    }
    *less = a->len < b->len;
    return CR_OK;
}

/* Tensors of one element. */
static cr_status builtin_less_tensors(const cr_tensor *a, const cr_tensor *b, bool *less)
{
    cr_scalar x, y;

    if (a->numel > 1 || b->numel > 1)
        return cr_fail(CR_RUNTIME,
                       "Boolean value of Tensor with more than one value is ambiguous");
    CR_TRY(cr_tensor_item(&x, a));
    CR_TRY(cr_tensor_item(&y, b));
    *less = cr_scalar_as_double(x) < cr_scalar_as_double(y);
    return CR_OK;
}

/* Objects with a method __lt__. */
static cr_status builtin_less_called(const cr_scall *c, const cr_ivalue *a, const cr_ivalue *b,
                                     bool *less)
{
    cr_ivalue pair[] = {*a, *b}, made = cr_iv_none();
    cr_sfunction *f = a->kind == CR_IV_OBJECT && b->kind == CR_IV_OBJECT
                          ? cr_sclass_method(a->object->type->cls, "__lt__")
                          : NULL;

    if (!f)
        return cr_builtin_misfit(c);
    CR_TRY(cr_sfunction_run(&made, f, pair, 2, NULL));
    cr_status st = made.kind == CR_IV_BOOL ? CR_OK : cr_builtin_misfit(c);
    *less = !st && made.i;
    cr_ivalue_drop(made);
    return st;
}

cr_status cr_builtin_less(const cr_scall *c, const cr_ivalue *a, const cr_ivalue *b, bool *less)
{
    if (builtin_whole(a) && builtin_whole(b))
        *less = a->i < b->i;
    else if (builtin_real(a) && builtin_real(b))
        *less = builtin_double(a) < builtin_double(b);
    else if (a->kind == CR_IV_STRING && b->kind == CR_IV_STRING)
        *less = builtin_order_strings(a->string, b->string) < 0;
    else if (a->kind == b->kind && (a->kind == CR_IV_LIST || a->kind == CR_IV_TUPLE))
        return builtin_less_items(c, a->list, b->list, less);
    else if (a->kind == CR_IV_TENSOR && b->kind == CR_IV_TENSOR)
        return builtin_less_tensors(a->t, b->t, less);
    else
        return builtin_less_called(c, a, b, less);
    return CR_OK;
}

/* Neither order holds for a NaN, so <= is not the opposite of >. */
static bool builtin_has_nan(const cr_scall *c)
{
    return (c->arg[0].kind == CR_IV_FLOAT && isnan(c->arg[0].d)) ||
           (c->arg[1].kind == CR_IV_FLOAT && isnan(c->arg[1].d));
}

static cr_status builtin_compare(cr_scall *c, bool swap, bool opposite)
{
    bool less;

    if (c->count < 2)
        return cr_builtin_misfit(c);
    CR_TRY(cr_builtin_less(c, &c->arg[swap], &c->arg[!swap], &less));
    return builtin_give(c, cr_iv_bool(less != opposite && !builtin_has_nan(c)));
}
static cr_status builtin_lt(cr_scall *c) { return builtin_compare(c, false, false); }
static cr_status builtin_gt(cr_scall *c) { return builtin_compare(c, true, false); }
static cr_status builtin_ge(cr_scall *c) { return builtin_compare(c, false, true); }
static cr_status builtin_le(cr_scall *c) { return builtin_compare(c, true, true); }

/* The truth of a == b, which a tensor of several elements does not have. */
static cr_status builtin_equal_tensors(const cr_ivalue *a, const cr_ivalue *b, bool *equal)
{
    cr_ivalue pair[2] = {*a, *b}, made = {0};
    cr_scalar truth;

    CR_TRY(cr_sop_call_entry(cr_entry.eq, pair, 2, &made, 1));
    cr_status st = made.t->numel == 1
                       ? cr_tensor_item(&truth, made.t)
                       : cr_fail(CR_RUNTIME, "Boolean value of Tensor with %s is ambiguous",
                                 made.t->numel ? "more than one value" : "no values");
    *equal = !st && truth.i;
    cr_ivalue_drop(made);
    return st;
}

cr_status cr_builtin_equal(const cr_ivalue *a, const cr_ivalue *b, bool *equal)
{
    bool lists = a->kind == CR_IV_LIST && b->kind == CR_IV_LIST;

    if (a->kind == CR_IV_TENSOR && b->kind == CR_IV_TENSOR)
        return builtin_equal_tensors(a, b, equal);
    if (!lists) {
        *equal = cr_ivalue_equal(a, b);
        return CR_OK;
    }
    *equal = a->list->len == b->list->len;
    for (size_t i = 0; *equal && i < a->list->len; i++)
        CR_TRY(cr_builtin_equal(&a->list->at[i], &b->list->at[i], equal));
    return CR_OK;
}

static cr_status builtin_eq(cr_scall *c)
{
    bool equal = false;

    if (c->count < 2)
        return cr_builtin_misfit(c);
    CR_TRY(cr_builtin_equal(&c->arg[0], &c->arg[1], &equal));
    return builtin_give(c, cr_iv_bool(equal));
}

static cr_status builtin_ne(cr_scall *c)
{
    CR_TRY(builtin_eq(c));
    if (c->outs)
        c->out[0].i = !c->out[0].i;
    return CR_OK;
}

static bool builtin_same(const cr_ivalue *a, const cr_ivalue *b)
{
    if (a->kind != b->kind)
        return false;
    return cr_iv_is_boxed(a) && a->kind != CR_IV_STRING && a->kind != CR_IV_ENUM
               ? a->box == b->box
               : cr_ivalue_equal(a, b);
}

static cr_status builtin_is(cr_scall *c)
{
    if (c->count < 2)
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_iv_bool(builtin_same(&c->arg[0], &c->arg[1])));
}

static cr_status builtin_is_not(cr_scall *c)
{
    if (c->count < 2)
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_iv_bool(!builtin_same(&c->arg[0], &c->arg[1])));
}

/* max and min of two numbers, or of a list. */
static cr_status builtin_extreme(cr_scall *c, bool greatest)
{
    const cr_ivalue *at = c->arg, *best;
    size_t n = (size_t)c->count;
    bool less;

    if (c->count == 1 && at->kind == CR_IV_LIST) {
        n = at->list->len;
        at = at->list->at;
        if (!n)
            return cr_fail(CR_RUNTIME, "%s() arg is an empty sequence",
                           greatest ? "max" : "min");
    }
    best = at;
    bool real = false;
    for (size_t i = 0; i < n; i++) {
        CR_TRY(cr_builtin_less(c, greatest ? best : &at[i], greatest ? &at[i] : best, &less));
        best = less ? &at[i] : best;
        real |= at[i].kind == CR_IV_FLOAT;
    }
    return builtin_give(c, real && builtin_whole(best) ? cr_iv_float((double)best->i)
                                                       : cr_ivalue_keep(*best));
}
static cr_status builtin_max(cr_scall *c) { return builtin_extreme(c, true); }
static cr_status builtin_min(cr_scall *c) { return builtin_extreme(c, false); }

/* --- conversions --- */

/* The element of a tensor, or the number itself. */
static cr_status builtin_number(const cr_scall *c, cr_scalar *out)
{
    if (c->count >= 1 && c->arg->kind == CR_IV_TENSOR)
        return cr_tensor_item(out, c->arg->t);
    return c->count >= 1 && cr_ivalue_scalar(c->arg, out) ? CR_OK : cr_builtin_misfit(c);
}

/* prim::tolist: nested lists of a tensor's elements; `type` is 0 for ints, 1 floats, 2 bools, 3
 * complex numbers. */
static cr_status builtin_elements(cr_ivalue *out, cr_tensor *t, int64_t dims, int64_t type)
{
    cr_ivalue made, arg[3] = {cr_iv_tensor(t), cr_iv_int(0)};
    cr_status st = CR_OK;
    cr_scalar s;

    if (!dims) {
        CR_TRY(cr_tensor_item(&s, t));
        *out = type == 0   ? cr_iv_int(cr_scalar_as_int(s))
               : type == 1 ? cr_iv_float(cr_scalar_as_double(s))
               : type == 2 ? cr_iv_bool(cr_scalar_is_nonzero(s))
                           : cr_iv_complex(cr_scalar_as_complex(s));
        return CR_OK;
    }
    CR_TRY(cr_ilist_new(&made, NULL, (size_t)t->size[0]));
    for (int64_t i = 0; !st && i < t->size[0]; i++) {
        cr_ivalue part = cr_iv_none(), item = cr_iv_none();
        arg[2] = cr_iv_int(i);
        st = cr_sop_call_entry(cr_ops_find("select"), arg, 3, &part, 1);
        st = st ? st : builtin_elements(&item, part.t, dims - 1, type);
        st = st ? st : cr_ilist_append(made.list, item);
        cr_ivalue_drop(part);
    }
    CR_GIVE(st, out, made, cr_ivalue_drop);
}

static cr_status builtin_tolist(cr_scall *c)
{
    static const char *const kinds[] = {"int", "float", "bool", "complex"};

    if (c->count < 3 || c->arg->kind != CR_IV_TENSOR)
        return cr_builtin_misfit(c);
    const cr_tensor *t = c->arg->t;
    int64_t dims = c->arg[1].i, type = c->arg[2].i;
    int has = cr_dtype_is_complex(t->dtype) ? 3
              : t->dtype == CR_BOOL         ? 2
                                            : cr_dtype_is_float(t->dtype);
    if (t->ndim != dims)
        return cr_fail(
            CR_RUNTIME,
            "Output annotation list dimension and runtime tensor dimension must match "
            "for tolist()");
    if (has != type)
        return cr_fail(
            CR_RUNTIME,
            "Output annotation element type and runtime tensor element type must match "
            "for tolist(): %s and %s",
            kinds[type & 3], kinds[has]);
    return builtin_elements(c->out, c->arg->t, dims, type);
}

static cr_status builtin_to_bool(cr_scall *c)
{
    cr_scalar s;

    if (c->count && c->arg->kind == CR_IV_TENSOR && c->arg->t->numel > 1)
        return cr_fail(CR_RUNTIME,
                       "Boolean value of Tensor with more than one value is ambiguous");
    CR_TRY(builtin_number(c, &s));
    return builtin_give(c, cr_iv_bool(cr_scalar_is_nonzero(s)));
}

/* A number that a tensor or a complex number holds, as an int or a float: nothing may be lost
 * but a fraction.  Python's floats become ints as in C. */
static cr_status builtin_fits(const cr_scall *c, cr_scalar s, bool integral)
{
    double d = cr_scalar_as_double(s);
    bool tensor = c->arg->kind == CR_IV_TENSOR;
    bool floats = tensor && cr_dtype_category(c->arg->t->dtype) >= CR_CAT_FLOAT;

    if (!tensor && !integral)
        return CR_OK;
    if (cr_scalar_as_complex(s).im == 0 &&
        (!integral || !floats || (d >= -0x1p63 && d < 0x1p63)))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "value cannot be converted to type %s without overflow",
                   !integral ? "double"
                   : tensor  ? "int64_t"
                             : "int");
}

static cr_status builtin_to_int(cr_scall *c)
{
    cr_scalar s;
    char *end;

    if (c->count >= 1 && c->arg->kind == CR_IV_STRING) {
        errno = 0;
        long long i = strtoll(c->arg->string->at, &end, 10);
        if (errno || end == c->arg->string->at)
            return cr_fail(CR_RUNTIME, "stoll");
        if (*end)
            return cr_fail(CR_RUNTIME, "invalid literal for int() with base 10: '%s'",
                           c->arg->string->at);
        return builtin_give(c, cr_iv_int(i));
    }
    CR_TRY(builtin_number(c, &s));
    CR_TRY(builtin_fits(c, s, true));
    return builtin_give(c, cr_iv_int(cr_scalar_as_int(s)));
}

static cr_status builtin_to_float(cr_scall *c)
{
    cr_scalar s;
    char *end;

    if (c->count >= 1 && c->arg->kind == CR_IV_STRING) {
        errno = 0;
        double d = strtod(c->arg->string->at, &end);
        if (errno || end == c->arg->string->at)
            return cr_fail(CR_RUNTIME, "stod");
        if (*end)
            return cr_fail(CR_RUNTIME, "could not convert string to float: '%s'",
                           c->arg->string->at);
        return builtin_give(c, cr_iv_float(d));
    }
    CR_TRY(builtin_number(c, &s));
    CR_TRY(builtin_fits(c, s, false));
    return builtin_give(c, cr_iv_float(cr_scalar_as_double(s)));
}

/* The real number of an argument, or of a tensor of one element. */
static cr_status builtin_real_part(const cr_scall *c, int i, double *out)
{
    cr_scalar s;

    if (c->arg[i].kind == CR_IV_TENSOR)
        CR_TRY(cr_tensor_item(&s, c->arg[i].t));
    else if (!cr_ivalue_scalar(&c->arg[i], &s))
        return cr_builtin_misfit(c);
    *out = cr_scalar_as_double(s);
    return CR_OK;
}

static cr_status builtin_to_complex(cr_scall *c)
{
    cr_complex parts;

    if (c->count == 2) {
        CR_TRY(builtin_real_part(c, 0, &parts.re));
        CR_TRY(builtin_real_part(c, 1, &parts.im));
        return builtin_give(c, cr_iv_complex(parts));
    }
    cr_scalar s;
    CR_TRY(builtin_number(c, &s));
    return builtin_give(c, cr_iv_complex(cr_scalar_as_complex(s)));
}

static cr_status builtin_to_scalar(cr_scall *c)
{
    cr_scalar s;

    CR_TRY(builtin_number(c, &s));
    return builtin_give(c, cr_ivalue_of_scalar(s));
}

/* A tensor where an operator wants a number. */
static cr_status builtin_implicit(cr_scall *c, cr_status (*convert)(cr_scall *))
{
    const cr_tensor *t = c->count >= 1 && c->arg->kind == CR_IV_TENSOR ? c->arg->t : NULL;

    if (t && cr_requires_grad(t))
        return cr_fail(CR_RUNTIME,
                       "Cannot input a tensor that requires grad as a scalar argument");
    if (t && t->ndim)
        return cr_fail(CR_RUNTIME,
                       "Cannot input a tensor of dimension other than 0 as a scalar argument");
    return convert(c);
}

static cr_status builtin_implicit_int(cr_scall *c)
{
    const cr_tensor *t = c->count >= 1 && c->arg->kind == CR_IV_TENSOR ? c->arg->t : NULL;

    if (t && !t->ndim && !cr_requires_grad(t) && cr_dtype_category(t->dtype) != CR_CAT_INT)
        return cr_fail(CR_RUNTIME, "Cannot input a tensor of type %s as an integral argument",
                       cr_dtype_infos[t->dtype].legacy);
    return builtin_implicit(c, builtin_to_int);
}
static cr_status builtin_implicit_float(cr_scall *c)
{
    return builtin_implicit(c, builtin_to_float);
}
static cr_status builtin_implicit_complex(cr_scall *c)
{
    return builtin_implicit(c, builtin_to_complex);
}
static cr_status builtin_implicit_scalar(cr_scall *c)
{
    return builtin_implicit(c, builtin_to_scalar);
}

static cr_dtype builtin_dtype_of(const cr_scalar *s)
{
    switch (s->category) {
    case CR_CAT_BOOL: return CR_BOOL;
    case CR_CAT_INT: return CR_I64;
    case CR_CAT_FLOAT: return CR_F64;
    default: return CR_C128;
    }
}

/* prim::NumToTensor: a 0-d tensor that takes part in promotion as a number. */
static cr_status builtin_to_tensor(cr_scall *c)
{
    cr_scalar s;
    cr_tensor *t = NULL;

    if (c->count < 1 || !cr_ivalue_scalar(c->arg, &s))
        return cr_builtin_misfit(c);
    CR_TRY(cr_tensor_scalar(&t, s, builtin_dtype_of(&s), false));
    return builtin_give(c, cr_iv_tensor(t));
}

/* --- properties of tensors --- */

static cr_status builtin_tensor(const cr_scall *c, cr_tensor **out)
{
    if (c->count < 1 || c->arg->kind != CR_IV_TENSOR)
        return cr_builtin_misfit(c);
    *out = c->arg->t;
    return CR_OK;
}

static cr_status builtin_ints(cr_scall *c, const int64_t *at, int n)
{
    cr_ivalue made;

    CR_TRY(cr_ilist_new(&made, c->node->output_count ? c->node->output[0]->type : NULL,
                        (size_t)n));
    for (int i = 0; i < n; i++)
        made.list->at[made.list->len++] = cr_iv_int(at[i]);
    return builtin_give(c, made);
}

/* All sizes or strides, or that of a dim. */
static cr_status builtin_geometry(cr_scall *c, bool stride)
{
    cr_tensor *t = NULL;
    int64_t d;

    CR_TRY(builtin_tensor(c, &t));
    const int64_t *at = stride ? t->stride : t->size;
    if (c->count == 1)
        return builtin_ints(c, at, t->ndim);
    if (c->arg[1].kind != CR_IV_INT)
        return cr_builtin_misfit(c);
    if (!t->ndim)
        return cr_fail(CR_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                       (long long)c->arg[1].i);
    CR_TRY(cr_wrap_dim(&d, c->arg[1].i, t->ndim));
    return builtin_give(c, cr_iv_int(at[d]));
}
static cr_status builtin_size(cr_scall *c) { return builtin_geometry(c, false); }
static cr_status builtin_stride(cr_scall *c) { return builtin_geometry(c, true); }

#define BUILTIN_PROPERTY(NAME, value)                                                          \
    static cr_status builtin_##NAME(cr_scall *c)                                               \
    {                                                                                          \
        cr_tensor *t = NULL;                                                                   \
                                                                                               \
        CR_TRY(builtin_tensor(c, &t));                                                         \
        return builtin_give(c, value);                                                         \
    }
BUILTIN_PROPERTY(dim, cr_iv_int(t->ndim))
BUILTIN_PROPERTY(numel, cr_iv_int(t->numel))
BUILTIN_PROPERTY(element_size, cr_iv_int((int64_t)cr_dtype_size(t->dtype)))
BUILTIN_PROPERTY(dtype, cr_iv_int(cr_dtype_number(t->dtype)))
BUILTIN_PROPERTY(layout, cr_iv_layout(t->layout))
BUILTIN_PROPERTY(requires_grad, cr_iv_bool(cr_requires_grad(t)))
BUILTIN_PROPERTY(is_leaf, cr_iv_bool(cr_is_leaf(t)))
BUILTIN_PROPERTY(is_cuda, cr_iv_bool(t->device.kind == CR_CUDA))
BUILTIN_PROPERTY(is_cpu, cr_iv_bool(t->device.kind == CR_CPU))
BUILTIN_PROPERTY(is_meta, cr_iv_bool(t->device.kind == CR_META))
BUILTIN_PROPERTY(is_float, cr_iv_bool(cr_dtype_is_float(t->dtype)))
BUILTIN_PROPERTY(is_complex, cr_iv_bool(cr_dtype_is_complex(t->dtype)))
BUILTIN_PROPERTY(storage_offset, cr_iv_int(t->offset))
BUILTIN_PROPERTY(contiguous_now, cr_iv_bool(cr_is_contiguous(t->ndim, t->size, t->stride)))
BUILTIN_PROPERTY(is_conj, cr_iv_bool(t->conj))
BUILTIN_PROPERTY(is_neg, cr_iv_bool(t->neg))
BUILTIN_PROPERTY(grad_of, cr_iv_tensor(cr_keep(cr_grad_of(t))))
BUILTIN_PROPERTY(retains_grad, cr_iv_bool(t->grad && t->grad->grad_fn && t->grad->retains_grad))
BUILTIN_PROPERTY(nbytes, cr_iv_int(t->numel *(int64_t)cr_dtype_size(t->dtype)))
BUILTIN_PROPERTY(is_sparse, cr_iv_bool(cr_is_coo(t)))
BUILTIN_PROPERTY(is_sparse_csr, cr_iv_bool(t->layout == CR_LAYOUT_CSR))
BUILTIN_PROPERTY(none, cr_iv_none())

static cr_status builtin_device(cr_scall *c)
{
    int64_t packed;

    if (c->count >= 1 && c->arg->kind == CR_IV_STRING) {
        cr_text text = {0};
        cr_text_put(&text, c->arg->string->at);
        if (c->count > 1 && c->arg[1].kind == CR_IV_INT)
            cr_text_printf(&text, ":%lld", (long long)c->arg[1].i);
        cr_status st = cr_text_status(&text);
        st = st ? st : cr_ivalue_device(&c->out[0], text.at);
        cr_text_drop(&text);
        return st;
    }
    cr_tensor *t = NULL;
    CR_TRY(builtin_tensor(c, &t));
    packed = t->device.kind == CR_CPU || t->device.kind == CR_META
                 ? cr_device_pack(t->device.kind, -1)
                 : cr_packed_device(t->device);
    return builtin_give(c, (cr_ivalue){.kind = CR_IV_DEVICE, .i = packed});
}

static cr_status builtin_set_requires_grad(cr_scall *c)
{
    cr_tensor *t = NULL;

    CR_TRY(builtin_tensor(c, &t));
    CR_TRY(cr_set_requires_grad(t, c->count < 2 || c->arg[1].i));
    return builtin_give(c, cr_ivalue_keep(*c->arg));
}

static cr_status builtin_data(cr_scall *c)
{
    cr_tensor *t = NULL, *made;

    CR_TRY(builtin_tensor(c, &t));
    CR_TRY(cr_detached(&made, t));
    return builtin_give(c, cr_iv_tensor(made));
}

/* --- gradients --- */

/* The tensors of a tensor or of a list, where None is NULL; a value of the other kind fails. */
static cr_status builtin_tensors(const cr_scall *c, const cr_ivalue *v, cr_tensor ***out,
                                 int *count)
{
    bool list = v->kind == CR_IV_LIST;
    size_t n = list ? v->list->len : 1;

    *count = (int)n;
    *out = calloc(n + 1, sizeof **out);
    CR_NEED(*out);
    for (size_t i = 0; i < n; i++) {
        const cr_ivalue *x = list ? &v->list->at[i] : v;
        if (x->kind != CR_IV_TENSOR && x->kind != CR_IV_NONE)
            return cr_builtin_misfit(c);
        (*out)[i] = x->kind == CR_IV_TENSOR ? x->t : NULL;
    }
    return CR_OK;
}

static bool builtin_flag(const cr_ivalue *v, bool otherwise)
{
    return v->kind == CR_IV_BOOL ? v->i : otherwise;
}

/* The gradients, which are taken, as a list with None for NULL. */
static cr_status builtin_give_gradients(cr_scall *c, cr_tensor **made, int n)
{
    cr_ivalue list;
    cr_status st = cr_ilist_new(&list, c->node->output[0]->type, (size_t)n);

    for (int i = 0; i < n; i++) {
        if (st)
            cr_drop(made[i]);
        else
            list.list->at[list.list->len++] = made[i] ? cr_iv_tensor(made[i]) : cr_iv_none();
    }
    return st ? st : builtin_give(c, list);
}

/* backward(roots, gradients, retain, create); with `inputs`, their gradients. */
static cr_status builtin_differentiate(cr_scall *c, const cr_ivalue *gradients,
                                       const cr_ivalue *inputs, const cr_ivalue *flags)
{
    cr_tensor **roots = NULL, **grads = NULL, **of = NULL, **made = NULL;
    int n = 0, given = 0, wanted = 0;
    cr_status st;

    CR_GO(builtin_tensors(c, c->arg, &roots, &n));
    if (gradients->kind != CR_IV_NONE)
        CR_GO(builtin_tensors(c, gradients, &grads, &given));
    if (grads && given != n)
        CR_GO(cr_fail(CR_RUNTIME, "got %d tensors and %d gradients", n, given));
    if (inputs)
        CR_GO(builtin_tensors(c, inputs, &of, &wanted));
    made = calloc((size_t)wanted + 1, sizeof *made);
    if (!made)
        CR_GO(cr_fail(CR_MEMORY, "out of memory"));
    cr_backward_call call = {.roots = roots,
                             .grads = grads,
                             .root_count = n,
                             .inputs = of,
                             .input_count = wanted,
                             .create_graph = builtin_flag(&flags[1], false),
                             .allow_unused = inputs && builtin_flag(&flags[2], false)};
    call.retain_graph = builtin_flag(&flags[0], call.create_graph);
    CR_GO(cr_backward(&call, made));
    if (inputs)
        CR_GO(builtin_give_gradients(c, made, wanted));
done:
    free(roots);
    free(grads);
    free(of);
    free(made);
    return st;
}

static cr_status builtin_backward(cr_scall *c)
{
    return c->count < 4 ? cr_builtin_misfit(c)
                        : builtin_differentiate(c, &c->arg[1], NULL, &c->arg[2]);
}

static cr_status builtin_grad(cr_scall *c)
{
    return c->count < 6 ? cr_builtin_misfit(c)
                        : builtin_differentiate(c, &c->arg[2], &c->arg[1], &c->arg[3]);
}

static cr_status builtin_retain_grad(cr_scall *c)
{
    cr_tensor *t = NULL;

    CR_TRY(builtin_tensor(c, &t));
    return cr_retain_grad(t);
}

static cr_status builtin_manual_seed(cr_scall *c)
{
    if (c->count < 1 || c->arg->kind != CR_IV_INT)
        return cr_builtin_misfit(c);
    CR_TRY(cr_device_generators_seed((uint64_t)c->arg->i));
    return cr_generator_seed(cr_generator_default(), (uint64_t)c->arg->i);
}

/* --- tensors of numbers --- */

/* The sizes of nested lists, and the category of their numbers. */
typedef struct {
    cr_shape shape;
    cr_category category;
    bool any; /* a number was seen */
} builtin_nested;

static cr_status builtin_measure(builtin_nested *n, const cr_ivalue *v, int depth)
{
    cr_scalar s;

    if (v->kind != CR_IV_LIST) {
        if (!cr_ivalue_scalar(v, &s))
            return cr_fail(CR_RUNTIME, "a tensor is made of numbers, not of '%s'",
                           cr_ivalue_kind_name(v));
        n->category = n->any && n->category > s.category ? n->category : s.category;
        n->any = true;
        return CR_OK;
    }
    if (depth >= CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "too many dimensions");
    if (n->shape.ndim <= depth) {
        n->shape.ndim = depth + 1;
        n->shape.size[depth] = (int64_t)v->list->len;
    } else if (n->shape.size[depth] != (int64_t)v->list->len) {
        return cr_fail(CR_RUNTIME, "expected sequence of length %lld at dim %d (got %zu)",
                       (long long)n->shape.size[depth], depth, v->list->len);
    }
    for (size_t i = 0; i < v->list->len; i++)
        CR_TRY(builtin_measure(n, &v->list->at[i], depth + 1));
    return CR_OK;
}

static void builtin_store(const cr_ivalue *v, cr_dtype t, char **at)
{
    cr_scalar s;

    if (v->kind == CR_IV_LIST) {
        for (size_t i = 0; i < v->list->len; i++)
            builtin_store(&v->list->at[i], t, at);
    } else if (cr_ivalue_scalar(v, &s)) {
        cr_scalar_store(s, t, *at);
        *at += cr_dtype_size(t);
    }
}

static cr_dtype builtin_list_dtype(const builtin_nested *n)
{
    return cr_number_dtype(n->any ? n->category : CR_CAT_FLOAT);
}

/* Moves the tensor to the dtype and device of arguments 1 and 2. */
static cr_status builtin_moved(cr_scall *c, cr_tensor *t, cr_dtype dtype)
{
    cr_ivalue args[3] = {cr_iv_tensor(t), cr_iv_int(cr_dtype_number(dtype)),
                         c->count > 2 ? c->arg[2] : cr_iv_none()};

    if (args[2].kind != CR_IV_DEVICE || cr_packed_kind(args[2].i) == CR_CPU)
        return builtin_give(c, args[0]);
    cr_value to[2] = {cr_of_tensor(t), {.tag = CR_DEVICE_VAL, .i = args[2].i}}, made[1];
    cr_status st = cr_call_named("to.device", to, 2, made);
    cr_drop(t);
    return st ? st : builtin_give(c, cr_iv_tensor(made[0].t));
}

/* torch.tensor(numbers, dtype, device, requires_grad) */
static cr_status builtin_new_tensor(cr_scall *c)
{
    builtin_nested n = {.category = CR_CAT_BOOL};
    cr_tensor *t = NULL;

    if (c->count < 1)
        return cr_builtin_misfit(c);
    CR_TRY(builtin_measure(&n, c->arg, 0));
    cr_dtype dtype = builtin_list_dtype(&n);
    if (c->count > 1 && c->arg[1].kind == CR_IV_INT)
        dtype = cr_dtype_of_number(c->arg[1].i);
    if (dtype == CR_DTYPE_NONE)
        return cr_builtin_misfit(c);
    CR_TRY(cr_tensor_new(&t, dtype, CR_HOST, n.shape.ndim, n.shape.size));
    char *at;
    CR_TRY(cr_reach(&at, t));
    builtin_store(c->arg, dtype, &at);
    if (c->count > 3 && c->arg[3].kind == CR_IV_BOOL && c->arg[3].i) {
        cr_status st = cr_set_requires_grad(t, true);
        if (st) {
            cr_drop(t);
            return st;
        }
    }
    return builtin_moved(c, t, dtype);
}

/* --- other --- */

static cr_status builtin_unwrap(cr_scall *c)
{
    if (c->count < 1)
        return cr_builtin_misfit(c);
    if (c->arg->kind == CR_IV_NONE)
        return cr_fail(CR_RUNTIME, "Unwrapping null optional");
    return builtin_give(c, cr_ivalue_keep(*c->arg));
}

static cr_status builtin_same_value(cr_scall *c)
{
    return c->count < 1 ? cr_builtin_misfit(c) : builtin_give(c, cr_ivalue_keep(*c->arg));
}

static cr_status builtin_raise(cr_scall *c)
{
    if (c->count < 1 || c->arg->kind != CR_IV_STRING)
        return cr_builtin_misfit(c);
    if (c->count > 1 && c->arg[1].kind == CR_IV_STRING)
        return cr_fail(CR_SCRIPT, "%s: %s", c->arg[1].string->at, c->arg->string->at);
    return cr_fail(CR_SCRIPT, "RuntimeError: %s", c->arg->string->at);
}

static cr_status builtin_write(const char *text, size_t len)
{
    fwrite(text, 1, len, stdout);
    return CR_OK;
}
cr_status (*cr_script_print)(const char *text, size_t len) = builtin_write;

static cr_status builtin_print(cr_scall *c)
{
    cr_text text = {0};
    cr_status st = CR_OK;

    for (int i = 0; !st && i < c->count; i++) {
        cr_text_put(&text, i ? " " : "");
        st = cr_ivalue_print(&text, &c->arg[i]);
    }
    cr_text_char(&text, '\n');
    st = st ? st : cr_text_status(&text);
    st = st ? st : cr_script_print(text.at, text.len);
    cr_text_drop(&text);
    return st;
}

static cr_status builtin_warn(cr_scall *c)
{
    if (c->count < 1 || c->arg->kind != CR_IV_STRING)
        return cr_builtin_misfit(c);
    fprintf(stderr, "UserWarning: %s\n", c->arg->string->at);
    return CR_OK;
}

static cr_status builtin_true(cr_scall *c) { return builtin_give(c, cr_iv_bool(true)); }
static cr_status builtin_false(cr_scall *c) { return builtin_give(c, cr_iv_bool(false)); }

static cr_status builtin_grad_enabled(cr_scall *c)
{
    return builtin_give(c, cr_iv_bool(!cr_thread.no_grad));
}

static cr_status builtin_set_grad_enabled(cr_scall *c)
{
    if (c->count < 1 || c->arg->kind != CR_IV_BOOL)
        return cr_builtin_misfit(c);
    cr_thread.no_grad = !c->arg->i;
    return CR_OK;
}

static cr_status builtin_choose(cr_scall *c)
{
    if (c->count < 3 || c->arg->kind != CR_IV_BOOL)
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_ivalue_keep(c->arg[c->arg->i ? 1 : 2]));
}

static cr_status builtin_range_length(cr_scall *c)
{
    if (c->count < 3 || !builtin_both_whole(c) || c->arg[2].kind != CR_IV_INT)
        return cr_builtin_misfit(c);
    int64_t low = c->arg[0].i, high = c->arg[1].i, step = c->arg[2].i;
    if (!step)
        return cr_fail(CR_RUNTIME, "range() arg 3 must not be zero");
    uint64_t span = step > 0 ? (uint64_t)high - (uint64_t)low : (uint64_t)low - (uint64_t)high;
    uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    bool none = step > 0 ? low >= high : high >= low;
    return builtin_give(c, cr_iv_int(none ? 0 : (int64_t)((span - 1) / by + 1)));
}

static cr_status builtin_derive_index(cr_scall *c)
{
    if (c->count < 3 || !builtin_both_whole(c) || c->arg[2].kind != CR_IV_INT)
        return cr_builtin_misfit(c);
    return builtin_give(
        c, cr_iv_int(CR_WRAP_ADD(c->arg[1].i, CR_WRAP_MUL(c->arg[0].i, c->arg[2].i))));
}

static cr_status builtin_hashable(const cr_ivalue *v)
{
    if (v->kind == CR_IV_LIST || v->kind == CR_IV_DICT || v->kind == CR_IV_OBJECT)
        return cr_fail(CR_RUNTIME, "unhashable type: '%s'", cr_ivalue_kind_name(v));
    for (size_t i = 0; v->kind == CR_IV_TUPLE && i < v->list->len; i++)
        CR_TRY(builtin_hashable(&v->list->at[i]));
    return CR_OK;
}

static cr_status builtin_hash(cr_scall *c)
{
    if (c->count < 1)
        return cr_builtin_misfit(c);
    CR_TRY(builtin_hashable(c->arg));
    return builtin_give(c, cr_iv_int((int64_t)cr_ivalue_hash(c->arg)));
}

static cr_status builtin_get_device(cr_scall *c)
{
    cr_tensor *t = NULL;

    CR_TRY(builtin_tensor(c, &t));
    bool indexed = t->device.kind != CR_CPU && t->device.kind != CR_META;
    return builtin_give(c,
                        cr_iv_int(indexed ? cr_packed_index(cr_packed_device(t->device)) : -1));
}

static cr_status builtin_device_part(cr_scall *c, bool kind)
{
    if (c->count < 1 || c->arg->kind != CR_IV_DEVICE)
        return cr_builtin_misfit(c);
    int index = cr_packed_index(c->arg->i);
    if (!kind)
        return builtin_give(c, index < 0 ? cr_iv_none() : cr_iv_int(index));
    cr_text text = {0};
    CR_TRY(cr_ivalue_print(&text, c->arg));
    text.len = strcspn(cr_text_str(&text), ":");
    return cr_istring_of_text(&c->out[0], &text);
}
static cr_status builtin_device_type(cr_scall *c) { return builtin_device_part(c, true); }
static cr_status builtin_device_index(cr_scall *c) { return builtin_device_part(c, false); }

static cr_status builtin_id(cr_scall *c)
{
    if (c->count < 1)
        return cr_builtin_misfit(c);
    bool object = c->arg->kind == CR_IV_OBJECT;
    return builtin_give(c, cr_iv_int(object ? (int64_t)(intptr_t)c->arg->object : 0));
}

static cr_status builtin_enum_name(cr_scall *c)
{
    if (c->count < 1 || c->arg->kind != CR_IV_ENUM)
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_ivalue_keep(c->arg->member->name));
}

static cr_status builtin_enum_value(cr_scall *c)
{
    if (c->count < 1 || c->arg->kind != CR_IV_ENUM)
        return cr_builtin_misfit(c);
    return builtin_give(c, cr_ivalue_keep(c->arg->member->value));
}

/* The argument for the parameter of this name, or None. */
static cr_ivalue builtin_named(const cr_scall *c, const char *name)
{
    const cr_sschema *s = c->node->schema;

    for (int i = 0; i < s->param_count && i < c->count; i++)
        if (!strcmp(s->param[i].name, name))
            return c->arg[i];
    return cr_iv_none();
}

/* All overloads of `to`: self when nothing changes and no copy is asked for. */
static cr_status builtin_to(cr_scall *c)
{
    cr_tensor *t = NULL;
    cr_ivalue dtype = builtin_named(c, "dtype"), device = builtin_named(c, "device");
    cr_ivalue other = builtin_named(c, "other"), copy = builtin_named(c, "copy");
    cr_ivalue format = builtin_named(c, "memory_format"), none = cr_iv_none();

    CR_TRY(builtin_tensor(c, &t));
    if (other.kind == CR_IV_TENSOR) {
        dtype = cr_iv_int(cr_dtype_number((cr_dtype)other.t->dtype));
        device = (cr_ivalue){.kind = CR_IV_DEVICE, .i = cr_packed_device(other.t->device)};
    }
    bool same = dtype.kind == CR_IV_NONE || dtype.i == cr_dtype_number((cr_dtype)t->dtype);
    if (device.kind == CR_IV_DEVICE && cr_packed_kind(device.i) == t->device.kind &&
        (cr_packed_index(device.i) < 0 ||
         cr_packed_index(device.i) == cr_packed_index(cr_packed_device(t->device))))
        device = none;
    if (same && device.kind == CR_IV_NONE && format.kind == CR_IV_NONE &&
        !(copy.kind == CR_IV_BOOL && copy.i))
        return builtin_give(c, cr_ivalue_keep(c->arg[0]));
    cr_ivalue arg[] = {c->arg[0], dtype, none, device, none, cr_iv_bool(false), format};
    return cr_sop_call_entry(cr_entry._to_copy, arg, 7, c->out, c->outs);
}

/* The tensor itself where it has the dtype and is on the device. */
static cr_status builtin_as_tensor(cr_scall *c)
{
    return c->count && c->arg->kind == CR_IV_TENSOR ? builtin_to(c) : builtin_new_tensor(c);
}

static cr_status builtin_cuda(cr_scall *c)
{
    cr_tensor *t = NULL;
    cr_ivalue none = cr_iv_none(), device;

    CR_TRY(builtin_tensor(c, &t));
    if (t->device.kind == CR_CUDA)
        return builtin_give(c, cr_ivalue_keep(*c->arg));
    CR_TRY(cr_ivalue_device(&device, "cuda"));
    cr_ivalue arg[] = {*c->arg, none, none, device, none, cr_iv_bool(false), none};
    return cr_sop_call_entry(cr_entry._to_copy, arg, 7, c->out, c->outs);
}

/* --- ranges of profiles --- */

/* The event that a range began, -1: none is running. */
static cr_status builtin_range_begin(const cr_scall *c, int64_t *event)
{
    if (c->count < 1 || c->arg->kind != CR_IV_STRING)
        return cr_builtin_misfit(c);
    *event = cr_profiling() ? cr_profile_enter(CR_PROFILE_USER, c->arg->string->at, -1) : -1;
    return CR_OK;
}

static cr_status builtin_range_tensor(cr_scall *c)
{
    cr_tensor *t = NULL;
    int64_t event;

    CR_TRY(builtin_range_begin(c, &event));
    CR_TRY(cr_tensor_scalar(&t, cr_scalar_int(event), CR_I64, false));
    return builtin_give(c, cr_iv_tensor(t));
}

static cr_status builtin_range_object(cr_scall *c)
{
    cr_ivalue made;
    int64_t event;

    CR_TRY(builtin_range_begin(c, &event));
    CR_TRY(cr_iobject_new(&made, c->node->schema->result[0].type, NULL, 1));
    made.object->slot[0] = cr_iv_int(event);
    return builtin_give(c, made);
}

/* Ends the range of a capsule: a tensor with the number of its event, or an object that has
 * it. */
static cr_status builtin_range_end(cr_scall *c)
{
    cr_ivalue capsule = cr_iv_none();
    cr_scalar s;

    if (c->count >= 1 && c->arg->kind == CR_IV_OBJECT && c->arg->object->len == 1)
        capsule = c->arg->object->slot[0];
    if (c->count >= 1 && c->arg->kind == CR_IV_TENSOR) {
        cr_tensor *t = c->arg->t;
        if (t->dtype != CR_I64 || t->ndim || t->device.kind != CR_CPU)
            return cr_fail(CR_RUNTIME, "Expected temporary cpp type wrapper");
        CR_TRY(cr_tensor_item(&s, t));
        capsule = cr_iv_int(s.i);
    }
    if (capsule.kind == CR_IV_INT && capsule.i >= 0 && capsule.i <= INT32_MAX)
        cr_profile_leave((int32_t)capsule.i);
    return CR_OK;
}

/* A future is complete when there is one. */
static cr_status builtin_range_end_with(cr_scall *c)
{
    if (c->count < 2)
        return cr_builtin_misfit(c);
    CR_TRY(builtin_range_end(c));
    return builtin_give(c, cr_ivalue_keep(c->arg[1]));
}

/* --- names --- */

static const struct {
    const char *name;
    cr_builtin_fn fn;
} builtin_list[] = {
#define CR_BUILTIN_FN(name, fn) {name, builtin_##fn},
#include "script/builtin_names.def"
#undef CR_BUILTIN_FN
};

cr_builtin_fn cr_builtin_find(const char *name)
{
    for (size_t i = 0; i < CR_LEN(builtin_list); i++)
        if (!strcmp(builtin_list[i].name, name))
            return builtin_list[i].fn;
    return cr_builtin_container(name);
}
