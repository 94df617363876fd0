/* Functions of the C library in programs and operators. */
#include "loop/libm.h"
#include "loop/build.h"

static void libm_of_expr(cr_fn_set *set, cr_expr_set *seen, const cr_expr *e)
{
    if (!cr_expr_set_add(seen, e))
        return;
    for (int i = 0; i < e->count; i++)
        libm_of_expr(set, seen, e->args[i]);
    if (e->kind != CR_EXPR_CALL || set->has[e->fn] ||
        !cr_fn_calls_libm((cr_fn)e->fn, (cr_dtype)e->args[0]->dtype))
        return;
    set->has[e->fn] = true;
    set->count++;
}

void cr_loop_libm(cr_fn_set *set, const cr_loop *l)
{
    cr_expr_set seen = cr_expr_set_new(l);

    for (size_t i = 0; i < l->defs.len; i++)
        libm_of_expr(set, &seen, l->defs.at[i]->value);
}

typedef struct {
    cr_fn_set *set;
    const cr_op *op;
    cr_dtype t;
} libm_job;

static void libm_of_kernel(cr_session *s, void *context)
{
    libm_job *j = context;

    cr_loop_libm(j->set, cr_loop_of_op(s, j->op, j->t, CR_FORM_MAIN));
}

static cr_status libm_of_rule(cr_fn_set *set, const cr_rule *r, cr_dtype t)
{
    if (r->kind == CR_RULE_CALL && r->op)
        CR_TRY(cr_op_libm(set, r->op, t));
    for (int i = 0; i < r->count; i++)
        CR_TRY(libm_of_rule(set, r->args[i], t));
    return CR_OK;
}

cr_status cr_op_libm(cr_fn_set *set, const cr_op *op, cr_dtype t)
{
    libm_job j = {set, op, t};
    cr_session s = {.status = CR_OK};
    cr_status st;

    if (cr_loop_has_form(op, CR_FORM_MAIN)) {
        st = cr_loop_wants(op, t) ? cr_session_run(&s, libm_of_kernel, &j) : CR_OK;
        cr_session_drop(&s);
        return st == CR_TYPE ? CR_OK : st;
    }
    if (op->does == CR_DOES_INPLACE)
        return cr_op_libm(set, op->inplace_of, t);
    for (int i = 0; op->does == CR_DOES_IS && i < op->let_count; i++)
        CR_TRY(libm_of_rule(set, op->lets[i].rule, t));
    for (int k = 0; op->does == CR_DOES_IS && k < op->body_count; k++)
        CR_TRY(libm_of_rule(set, op->body[k], t));
    return CR_OK;
}
