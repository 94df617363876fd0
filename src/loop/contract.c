/* Contracting: a sum with a product becomes one fused multiply-add.
 *
 * The product is no longer rounded, so bits change.  Only fast mode runs this pass. */
#include "loop/loop.h"

static bool is_call(const cr_expr *e, cr_fn fn)
{
    return e->kind == CR_EXPR_CALL && e->fn == fn;
}

static bool is_real(const cr_expr *e) { return e->dtype == CR_F32 || e->dtype == CR_F64; }

/* The factors of a product or a square.  False when `e` is neither. */
static bool factors(const cr_expr *e, const cr_expr *out[2])
{
    if (!is_call(e, CR_FN_mul) && !is_call(e, CR_FN_square))
        return false;
    out[0] = e->args[0];
    out[1] = e->args[e->count - 1];
    return true;
}

static const cr_expr *negative(cr_loop *l, const cr_expr *e)
{
    return is_call(e, CR_FN_neg) ? e->args[0] : cr_expr_call1(l, CR_FN_neg, e);
}

/* Contracts a * b + c, a * b - c, c + a * b and c - a * b; returns other expressions
 * unchanged. */
static const cr_expr *contract_sum(cr_loop *l, const cr_expr *e)
{
    const cr_expr *f[2], *a = e->args[0], *b = e->args[1];
    bool minus = e->fn == CR_FN_sub;

    if (factors(a, f))
        return cr_expr_call3(l, CR_FN_fma, f[0], f[1], minus ? negative(l, b) : b);
    if (factors(b, f))
        return cr_expr_call3(l, CR_FN_fma, minus ? negative(l, f[0]) : f[0], f[1], a);
    return e;
}

static const cr_expr *contract(cr_loop *l, const cr_expr *e)
{
    return (is_call(e, CR_FN_add) || is_call(e, CR_FN_sub)) && is_real(e) ? contract_sum(l, e)
                                                                          : e;
}

void cr_loop_contract(cr_loop *l) { cr_loop_rewrite(l, contract); }
