/* Rewrites that change no bit of any result.
 *
 * Exact for every operand: x * 1, x / 1, x - 0, x + -0, -(-x), not not b, and selections with a
 * known condition. x + 0 is not exact (-0 + 0 is 0), and x * 0 is not (NaN). */
#include "loop/loop.h"
#include <math.h>
#include <string.h>

static bool is_number(const cr_expr *e, double v)
{
    double d;

    if (e->kind != CR_EXPR_CONST || cr_dtype_is_complex((cr_dtype)e->dtype) ||
        e->dtype == CR_BOOL)
        return false;
    d = cr_scalar_as_double(e->value);
    return d == v && !signbit(d) == !signbit(v);
}

/* True for the identity of addition: -0 for floats, 0 for integers. */
static bool is_zero_of_sum(const cr_expr *e)
{
    return is_number(e, cr_dtype_is_float((cr_dtype)e->dtype) ? -0.0 : 0.0);
}

static const cr_expr *simplify_pair(const cr_expr *e)
{
    const cr_expr *a = e->args[0], *b = e->args[1];

    switch ((cr_fn)e->fn) {
    case CR_FN_mul: return is_number(b, 1) ? a : is_number(a, 1) ? b : e;
    case CR_FN_div: return is_number(b, 1) ? a : e;
    case CR_FN_add: return is_zero_of_sum(b) ? a : is_zero_of_sum(a) ? b : e;
    case CR_FN_sub: return is_number(b, 0) ? a : e;
    case CR_FN_and:
    case CR_FN_or: return a == b ? a : e;
    default: return e;
    }
}

static bool undoes_itself(cr_fn fn)
{
    return fn == CR_FN_neg || fn == CR_FN_not || fn == CR_FN_conj;
}

enum { DEEPEST = 8 };

/* True when rounding by `fn` does not change the value: it comes from rounded values by
 * functions that return one of their operands or its negative. */
static bool is_rounded(const cr_expr *e, cr_fn fn, int depth)
{
    int first = 0;

    if (e->kind == CR_EXPR_CONST)
        return e->value.d == 0;
    if (e->kind != CR_EXPR_CALL || depth == DEEPEST)
        return false;
    switch ((cr_fn)e->fn) {
    case CR_FN_where: first = 1; break;
    case CR_FN_neg:
    case CR_FN_abs:
    case CR_FN_maximum:
    case CR_FN_minimum: break;
    default: return (cr_fn)e->fn == fn;
    }
    for (int i = first; i < e->count; i++)
        if (!is_rounded(e->args[i], fn, depth + 1))
            return false;
    return true;
}

static const cr_expr *simplify_call(cr_loop *l, const cr_expr *e)
{
    const cr_expr *a = e->args[0];

    (void)l;
    if (e->kind != CR_EXPR_CALL)
        return e;
    if (e->fn == CR_FN_roundhalf || e->fn == CR_FN_roundbfloat)
        return is_rounded(a, (cr_fn)e->fn, 0) ? a : e;

    if (e->fn == CR_FN_where) {
        if (e->args[1] == e->args[2])
            return e->args[1];
        return a->kind == CR_EXPR_CONST ? e->args[a->value.i ? 1 : 2] : e;
    }
    if (e->count == 1 && undoes_itself((cr_fn)e->fn) && a->kind == CR_EXPR_CALL &&
        a->fn == e->fn)
        return a->args[0];
    return e->count == 2 ? simplify_pair(e) : e;
}

typedef struct {
    cr_loop *l;
    cr_expr_fn fn;
    const cr_expr **done; /* by id */
    size_t nodes;
} rewriter;

static const cr_expr *rewrite_expr(rewriter *w, const cr_expr *e)
{
    const cr_expr *args[3], *r;

    if (e->id < w->nodes && w->done[e->id])
        return w->done[e->id];
    for (int i = 0; i < e->count; i++)
        args[i] = rewrite_expr(w, e->args[i]);
    r = w->fn(w->l, cr_expr_with(w->l, e, args));
    if (e->id < w->nodes)
        w->done[e->id] = r;
    return r;
}

void cr_loop_rewrite(cr_loop *l, cr_expr_fn fn)
{
    rewriter w = {l, fn, CR_NEW_N(l->session, const cr_expr *, l->nodes), l->nodes};

    for (size_t i = 0; i < l->defs.len; i++)
        l->defs.at[i]->value = rewrite_expr(&w, l->defs.at[i]->value);
}

void cr_loop_simplify(cr_loop *l) { cr_loop_rewrite(l, simplify_call); }
