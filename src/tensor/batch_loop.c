/* Batches of entries that are stated as loops: the batch is one more axis of the first pack.
 *
 * result[o, index[o, i, n], n] += src[o, i, n]: where the first axes o.. are a pack, and the
 * elements of the result and of all mapped tensors are at these axes first, the statement is
 * that of a batch if the pack has one axis more in front. */
#include "entry.h"
#include "tensor/batch_call.h"
#include "tensor/internal.h"

/* How the statement names parameters: bit i is parameter i. */
typedef struct {
    const cr_op *op;
    uint32_t first, other; /* its elements are at the first pack first; at other places */
    bool fits;
} loop_names;

static bool loop_is_first(const cr_op *op, const cr_rule *r)
{
    return r->kind == CR_RULE_NAME && r->slot == op->loop.axis[0].slot;
}

static void loop_find(loop_names *f, const cr_rule *r)
{
    const cr_op *op = f->op;
    int let = r->slot - op->slots.let, from = 0;

    if (r->kind == CR_RULE_NAME && let >= 0 && let < op->let_count)
        loop_find(f, op->lets[let].rule);
    if (r->kind == CR_RULE_INDEX) {
        const cr_rule *of = r->args[0];
        bool first = r->count > 1 && loop_is_first(op, r->args[1]);
        if (of->kind != CR_RULE_NAME || of->slot < 0 || of->slot >= op->slots.grad)
            f->fits = false;
        else if (of->slot >= op->param_count)
            f->fits &= first;
        else
            *(first ? &f->first : &f->other) |= 1u << of->slot;
        from = 1;
    }
    for (int i = from; i < (int)r->count; i++)
        loop_find(f, r->args[i]);
}

/* The parameter whose elements the result starts with, or that is written as it is; -1. */
static int loop_param(const cr_op *op, const cr_rule *r)
{
    return r && r->kind == CR_RULE_NAME && r->slot >= 0 && r->slot < op->param_count ? r->slot
                                                                                     : -1;
}

static bool loop_fits(const batch_call *c, uint32_t *whole)
{
    const cr_op *op = c->op;
    loop_names f = {.op = op, .fits = op->loop.axis_count && op->loop.axis[0].pack};
    int start = loop_param(op, op->loop.start), ndim = -1;

    if (!f.fits || op->loop.window || !c->size || op->param_count > 32)
        return false;
    loop_find(&f, op->loop.target);
    loop_find(&f, op->loop.value);
    *whole = f.first | (start >= 0 ? 1u << start : 0);
    for (int i = 0; f.fits && i < op->param_count; i++) {
        bool is_whole = *whole >> i & 1;
        if (c->arg[i].tag == CR_TENSORS && c->arg[i].len)
            return false;
        if (c->arg[i].tag != CR_TENSOR)
            continue;
        if (cr_batch_has_value(c, &c->arg[i]) && (!is_whole || f.other >> i & 1))
            return false;
        if (!is_whole)
            continue;
        f.fits = c->arg[i].t->ndim && (ndim < 0 || c->arg[i].t->ndim == ndim);
        ndim = c->arg[i].t->ndim;
    }
    return f.fits && !(*whole & f.other);
}

static bool loop_names_result(const cr_op *op, const cr_rule *r)
{
    int let = r->slot - op->slots.let;
    bool found =
        r->kind == CR_RULE_NAME && r->slot >= op->slots.result && r->slot < op->slots.let;

    if (r->kind == CR_RULE_NAME && let >= 0 && let < op->let_count)
        found |= loop_names_result(op, op->lets[let].rule);
    for (int i = 0; i < (int)r->count; i++)
        found |= loop_names_result(op, r->args[i]);
    return found;
}

static cr_status loop_count(int64_t *out, const cr_op *op, const cr_value *arg,
                            const cr_rule *count)
{
    cr_frame f;
    cr_value v = cr_of_none();

    cr_frame_init(&f, op, arg);
    cr_status st = cr_frame_eval(&f, count, &v);
    *out = v.tag == CR_INT ? v.i : -1;
    cr_frame_drop(&f);
    return st;
}

/* Whether the first pack of the call for the batch has one axis more, and others as many. */
static cr_status loop_check_counts(batch_call *c)
{
    for (int k = 0; k < c->op->loop.axis_count; k++) {
        const cr_rule *count = c->op->loop.axis[k].count;
        int64_t one, all;
        if (!count)
            continue;
        if (loop_names_result(c->op, count))
            return cr_batch_leave(c);
        CR_TRY(loop_count(&one, c->op, c->arg, count));
        CR_TRY(loop_count(&all, c->op, c->given, count));
        if (one < 0 || all != one + !k)
            return cr_batch_leave(c);
    }
    return CR_OK;
}

cr_status cr_batch_loop(batch_call *c, cr_value *result)
{
    const cr_op *op = c->op;
    uint32_t whole;

    if (!loop_fits(c, &whole))
        return cr_batch_leave(c);
    for (int i = 0; i < op->param_count; i++) {
        if (cr_batch_names_dim(&op->param[i])) {
            CR_TRY(cr_batch_shift(c, i, c->arg[CR_CTZ(whole)].t->ndim));
            if (c->left)
                return CR_OK;
        }
        if (c->arg[i].tag == CR_TENSOR && whole >> i & 1)
            CR_TRY(cr_batch_give_whole(c, i));
    }
    CR_TRY(loop_check_counts(c));
    return c->left ? CR_OK : cr_batch_run(c, result);
}
