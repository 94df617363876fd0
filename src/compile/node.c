/* One node as a loop expression. */
#include "compile/compile.h"
#include "loop/build.h"
#include <string.h>

bool cr_operand_over(cr_over *out, int *split, int ndim, const int64_t *size, const cr_gtype *in)
{
    int first = 0, last = in->ndim, rows;
    const int64_t *own;

    /* Leading and trailing ones. */
    while (first < in->ndim && in->size[first] == 1)
        first++;
    while (last > first && in->size[last - 1] == 1)
        last--;
    if (!in->known || in->stride || in->ndim > ndim)
        return false;
    own = size + (ndim - in->ndim);
    for (int d = first; d < last; d++)
        if (in->size[d] != own[d])
            return false;
    bool front = true, back = true; /* whether the ones left out are ones of the space, too */
    for (int d = 0; d < ndim - in->ndim + first; d++)
        front = front && size[d] == 1;
    for (int d = ndim - in->ndim + last; d < ndim; d++)
        back = back && size[d] == 1;
    if (front && back) {
        *out = CR_OVER_ALL;
        return true;
    }
    if (first == last) {
        *out = CR_OVER_NOTHING;
        return true;
    }
    if (!front && !back)
        return false;
    rows = ndim - in->ndim + (back ? first : last);
    *out = back ? CR_OVER_COLUMNS : CR_OVER_ROWS;
    if (*split >= 0 && *split != rows)
        return false;
    *split = rows;
    return true;
}

/* --- types --- */

typedef struct {
    cr_tensor *made[CR_MAX_ARGS];
    int count;
    cr_value arg[CR_MAX_ARGS];
} fakes;

static void drop_fakes(fakes *f)
{
    for (int i = 0; i < f->count; i++)
        cr_drop(f->made[i]);
}

/* Arguments with tensors that have a type and no bytes, for the rules. */
static cr_status fake_args(fakes *f, const cr_gnode *n)
{
    for (int i = 0; i < n->arg_count; i++) {
        const cr_garg *a = &n->arg[i];
        f->arg[i] = (cr_value){.tag = a->tag, .len = a->len};
        if (a->tag == CR_TENSOR) {
            const cr_gtype *t = &a->value->type;
            if (!t->known)
                return cr_fail(CR_VALUE, "%%%s has no type", a->value->name);
            CR_TRY(cr_tensor_new(&f->made[f->count], (cr_dtype)t->dtype, CR_META, t->ndim, t->size));
            f->arg[i].t = f->made[f->count++];
        } else if (a->tag == CR_TENSORS || a->tag == CR_NUMBERS) {
            return cr_fail(CR_VALUE, "%s takes a list", n->op->name);
        } else {
            memcpy(&f->arg[i].number, &a->number, sizeof a->number);
        }
    }
    return CR_OK;
}

static cr_status compute_type(cr_dtype *out, const cr_gnode *n)
{
    cr_dtype results[CR_MAX_RESULTS];
    fakes f = {.count = 0};
    cr_status st;

    CR_GO(fake_args(&f, n));
    CR_GO(cr_decide_types(n->op, f.arg, out, results));
    if (cr_dtype_compute(*out) != *out || cr_dtype_is_complex(*out))
        st = cr_fail(CR_TYPE, "%s computes in %s", n->op->name, cr_dtype_name(*out));
done:
    drop_fakes(&f);
    return st;
}

/* --- arguments --- */

static cr_scalar number_of(const cr_garg *a)
{
    switch (a->tag) {
    case CR_NUMBER: return a->number;
    case CR_FLOAT: return cr_scalar_float(a->d);
    case CR_TRUTH: return (cr_scalar){.category = CR_CAT_BOOL, .i = a->i};
    default: return cr_scalar_int(a->i);
    }
}

/* A body reads its numbers when it runs, as the eager kernel does; a composition chooses by
 * them, so that they are literals there. */
static cr_loop_arg arg_of(cr_loop *l, const cr_gnode *n, int i, cr_dtype t, const cr_node_reader *r)
{
    const cr_garg *a = &n->arg[i];
    bool body = n->op->does == CR_DOES_BODY;
    cr_dtype own = n->op->mask_params >> i & 1 ? CR_BOOL : t;

    switch (a->tag) {
    case CR_NONE: return (cr_loop_arg){.kind = CR_LOOP_NONE};
    case CR_TENSOR: return (cr_loop_arg){.kind = CR_LOOP_TENSOR, .e = r->value(r->context, a->value)};
    case CR_STRING:
        return (cr_loop_arg){.kind = CR_LOOP_STRING,
                             .text = cr_session_printf(l->session, "%.*s", (int)a->len, a->s)};
    case CR_NUMBER:
    case CR_INT:
    case CR_FLOAT:
    case CR_TRUTH:
        if (a->tag == CR_NUMBER && a->number.category == CR_CAT_COMPLEX)
            cr_bail(l->session, CR_TYPE, "%s takes a complex number", n->op->name);
        if (body)
            return (cr_loop_arg){.kind = CR_LOOP_PARAM, .e = r->number(r->context, number_of(a), own)};
        return (cr_loop_arg){.kind = a->tag == CR_TRUTH ? CR_LOOP_TRUTH : CR_LOOP_NUMBER, .number = number_of(a)};
    default: cr_bail(l->session, CR_VALUE, "%s: no loop for its argument '%s'", n->op->name, n->op->param[i].name);
    }
}

const cr_expr *cr_compile_node(cr_loop *l, const cr_gnode *n, const cr_node_reader *r)
{
    const cr_op *op = n->op;
    cr_loop_arg arg[CR_MAX_ARGS];
    const cr_expr *result[CR_MAX_RESULTS];
    cr_dtype t;

    if (n->kind != CR_GNODE_CALL || n->result_count != 1 || cr_gnode_has_effect(n) ||
        !(op->does == CR_DOES_BODY || (op->does == CR_DOES_IS && !op->fused && op->body_count == 1)))
        cr_bail(l->session, CR_VALUE, "%s is not pointwise", n->kind == CR_GNODE_CALL ? op->name : "the node");
    if (op->does == CR_DOES_IS && !op->type)
        cr_bail(l->session, CR_VALUE, "%s states no type", op->name);
    cr_session_check(l->session, compute_type(&t, n));
    for (int i = 0; i < op->param_count; i++)
        arg[i] = arg_of(l, n, i, t, r);
    cr_loop_apply(l, op, t, arg, result);
    if (!n->result[0]->type.known || result[0]->dtype != n->result[0]->type.dtype)
        cr_bail(l->session, CR_TYPE, "%%%s has another type than its loop", n->result[0]->name);
    return result[0];
}
