/* How the derivatives of an entry give tangents, read off their rules (forward.h). */
#include "autograd/forward.h"
#include <string.h>

/* The names on which a rule may depend: slots of `op`. */
typedef struct {
    const cr_op *op;
    uint64_t slots;
} variables;

static bool depends(variables v, const cr_rule *r)
{
    const cr_op *op = v.op;

    if (r->kind == CR_RULE_NAME) {
        int let = r->slot - op->slots.let;
        if (r->slot >= 0 && v.slots >> r->slot & 1)
            return true;
        return r->slot >= 0 && let >= 0 && let < op->let_count &&
               depends(v, op->lets[let].rule);
    }
    if (r->kind == CR_RULE_EACH && depends(v, r->args[0]))
        return true;
    if (r->kind == CR_RULE_CALL && cr_builtin_reads_only(r->builtin, CR_READS_SHAPE))
        return false;
    for (int i = 0; i < r->count; i++)
        if (depends(v, r->args[i]))
            return true;
    return false;
}

/* --- element by element --- */
enum { MOST_PARTS = 6 }; /* compositions inside of each other that are followed */

static bool is_diagonal(variables v, const cr_rule *r, bool analytic, int parts);

static int linear_parameter(const cr_op *op, const cr_rule *r, int i)
{
    if (!r->keyword || !r->keyword[i])
        return i < op->param_count && !op->param[i].keyword_only ? i : -1;
    return cr_op_find_param(op, r->keyword[i]);
}

/* Whether a loop expression is a sum of variables times numbers that do not depend on them. */
static bool is_scaled(variables v, const cr_rule *r)
{
    if (!depends(v, r))
        return true;
    if (r->kind == CR_RULE_NAME) {
        int let = r->slot - v.op->slots.let;
        return v.slots >> r->slot & 1 || is_scaled(v, v.op->lets[let].rule);
    }
    if (r->kind == CR_RULE_CHOOSE)
        return !depends(v, r->args[0]) && is_scaled(v, r->args[1]) && is_scaled(v, r->args[2]);
    if (r->kind != CR_RULE_CALL)
        return false;
    switch (r->builtin) {
    case CR_BUILTIN_add:
    case CR_BUILTIN_sub:
        return depends(v, r->args[0]) && depends(v, r->args[1]) && is_scaled(v, r->args[0]) &&
               is_scaled(v, r->args[1]);
    case CR_BUILTIN_neg: return is_scaled(v, r->args[0]);
    case CR_BUILTIN_mul:
        return (!depends(v, r->args[0]) && is_scaled(v, r->args[1])) ||
               (!depends(v, r->args[1]) && is_scaled(v, r->args[0]));
    case CR_BUILTIN_div: return !depends(v, r->args[1]) && is_scaled(v, r->args[0]);
    default: return false;
    }
}

/* Whether each element of the entry's result takes the elements of the parameters at its own
 * place.  `analytic`: and is linear in them, over the complex numbers. */
static bool entry_is_diagonal(const cr_op *op, uint64_t params, bool analytic, int parts)
{
    variables v = {op, params};

    if (op->filled && op->filled->kind == CR_RULE_INT && !op->filled->integer)
        return true;
    if (op->words & (CR_WORD_CAST | CR_WORD_IDENTITY))
        return !(op->words & CR_WORD_BITS);
    if (op->body_count != 1 || op->result_count != 1)
        return false;
    if (op->does == CR_DOES_BODY)
        return !analytic || is_scaled(v, op->body[0]);
    return (op->does == CR_DOES_IS || op->does == CR_DOES_STEPS) && parts < MOST_PARTS &&
           is_diagonal(v, op->body[0], analytic, parts + 1);
}

/* The parameters that depend on the variables; 0 if the call does not fit the overload. */
static uint64_t given_params(variables v, const cr_op *op, const cr_rule *r)
{
    uint64_t params = 0, given = 0;

    for (int i = 0; i < r->count; i++) {
        int p = linear_parameter(op, r, i);
        if (p < 0)
            return 0;
        given |= (uint64_t)1 << p;
        if (!depends(v, r->args[i]))
            continue;
        if (op->param[p].type != CR_T_TENSOR)
            return 0;
        params |= (uint64_t)1 << p;
    }
    for (int p = 0; p < op->param_count; p++)
        if (!(given >> p & 1) && !op->param[p].has_default && !op->param[p].optional)
            return 0;
    return params;
}

/* Whether the call fits the overload whatever the values of its arguments are, so that no later
 * overload is tried. */
static bool fits_always(variables v, const cr_op *op, const cr_rule *r)
{
    for (int i = 0; i < r->count; i++) {
        const cr_param *p = &op->param[linear_parameter(op, r, i)];
        if (p->type != CR_T_TENSOR || !(p->number || depends(v, r->args[i])))
            return false;
    }
    return true;
}

static bool call_is_diagonal(variables v, const cr_rule *r, bool analytic, int parts)
{
    bool any = false;

    for (int i = 0; i < r->count; i++)
        if (!is_diagonal(v, r->args[i], analytic, parts))
            return false;
    for (const cr_op *op = r->op; op; op = op->next) {
        uint64_t params = given_params(v, op, r);
        if (params && !entry_is_diagonal(op, params, analytic, parts))
            return false;
        any |= params != 0;
        if (params && fits_always(v, op, r))
            break;
    }
    return any;
}

static bool is_diagonal(variables v, const cr_rule *r, bool analytic, int parts)
{
    if (!depends(v, r))
        return true;
    if (r->kind == CR_RULE_NAME) {
        int let = r->slot - v.op->slots.let;
        return v.slots >> r->slot & 1 || is_diagonal(v, v.op->lets[let].rule, analytic, parts);
    }
    if (r->kind == CR_RULE_CHOOSE)
        return !depends(v, r->args[0]) && is_diagonal(v, r->args[1], analytic, parts) &&
               is_diagonal(v, r->args[2], analytic, parts);
    if (r->kind != CR_RULE_CALL || !r->op)
        return false;
    return call_is_diagonal(v, r, analytic, parts);
}

/* --- affine --- */
static bool always_raises(const cr_op *op)
{
    for (int i = 0; i < op->check_count; i++)
        if (op->checks[i].when->kind == CR_RULE_BOOL && op->checks[i].when->integer)
            return true;
    return false;
}

/* Whether a rule may raise because there is no derivative. */
static bool may_refuse(const cr_op *op, const cr_rule *r)
{
    int let = r->slot - op->slots.let;

    if (r->kind == CR_RULE_NAME)
        return r->slot >= 0 && let >= 0 && let < op->let_count &&
               may_refuse(op, op->lets[let].rule);
    if (r->kind == CR_RULE_CALL && r->op && always_raises(r->op))
        return true;
    for (int i = 0; i < r->count; i++)
        if (may_refuse(op, r->args[i]))
            return true;
    return false;
}

static bool writes(const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].written)
            return true;
    return false;
}

/* The derivative reads neither the operand nor a result.  A call between ranks has only started
 * when it returns; its derivative waits. */
static bool is_affine(const cr_derivative_plan *p, const cr_need *need)
{
    const cr_op *op = p->op;
    uint64_t results = ~(uint64_t)0 << op->slots.result;

    return op->does != CR_DOES_BODY &&
           !(need->values & (results | (uint64_t)1 << need->param)) && need->cotangents &&
           !(op->words & (CR_WORD_RANDOM | CR_WORD_MEETS)) && !may_refuse(op, need->rule) &&
           (op->functional || !writes(op));
}

/* --- by the derivative of a derivative --- */
/* The derivative of `op` by a parameter reads neither this parameter nor a result, so that it
 * is the transpose of a call of `op`. */
const cr_need *cr_transpose_of(const cr_op *op, int param)
{
    const cr_derivative_plan *p = cr_derivative_plan_of(op);

    for (int d = 0; p && d < p->count; d++)
        if (p->need[d].param == param)
            return op->result_count == 1 && !p->list_result && p->need[d].cotangents == 1 &&
                           !(p->need[d].values >> op->slots.result) &&
                           !(p->need[d].values >> param & 1) && !may_refuse(op, p->need[d].rule)
                       ? &p->need[d]
                       : NULL;
    return NULL;
}

/* The number of the call's argument that is the cotangent itself, where no other one depends on
 * it; -1 otherwise. */
int cr_cotangent_argument(const cr_op *op, const cr_rule *call, int slot)
{
    variables v = {op, (uint64_t)1 << slot};
    int found = -1;

    for (int i = 0; i < call->count; i++) {
        if (!depends(v, call->args[i]))
            continue;
        if (found >= 0 || call->args[i]->kind != CR_RULE_NAME || call->args[i]->slot != slot)
            return -1;
        found = i;
    }
    return found;
}

static bool is_transposed(const cr_op *op, const cr_rule *r, int slot)
{
    int let = r->slot - op->slots.let, i;
    bool any = false;

    if (r->kind == CR_RULE_NAME)
        return let >= 0 && let < op->let_count && is_transposed(op, op->lets[let].rule, slot);
    if (r->kind == CR_RULE_CHOOSE)
        return !depends((variables){op, (uint64_t)1 << slot}, r->args[0]) &&
               is_transposed(op, r->args[1], slot) && is_transposed(op, r->args[2], slot);
    if (r->kind != CR_RULE_CALL || !r->op || (i = cr_cotangent_argument(op, r, slot)) < 0)
        return false;
    for (const cr_op *o = r->op; o; o = o->next) {
        uint64_t params = given_params((variables){op, (uint64_t)1 << slot}, o, r);
        if (params && !cr_transpose_of(o, linear_parameter(o, r, i)))
            return false;
        any |= params != 0;
    }
    return any;
}

/* --- the plan --- */
static bool is_zero(const cr_rule *r)
{
    return r->kind == CR_RULE_CALL && r->builtin < 0 && r->op && !r->op->next &&
           r->op->filled && r->op->filled->kind == CR_RULE_INT && !r->op->filled->integer;
}

static void find_how(cr_push_need *out, const cr_derivative_plan *p, const cr_need *need)
{
    const cr_op *op = p->op;
    variables v = {op, (uint64_t)need->cotangents << op->slots.grad};
    bool list = op->param[need->param].type == CR_T_TENSORS || p->list_result;
    bool one = need->cotangents && !(need->cotangents & (need->cotangents - 1));

    out->how = CR_PUSH_PULLED;
    if (!need->cotangents || is_zero(need->rule)) {
        out->how = may_refuse(op, need->rule) ? CR_PUSH_PULLED : CR_PUSH_NONE;
    } else if (one && !list && !may_refuse(op, need->rule) &&
               is_diagonal(v, need->rule, false, 0)) {
        out->how = CR_PUSH_DIAGONAL;
        out->result = (uint8_t)CR_CTZ(need->cotangents);
        out->analytic = is_diagonal(v, need->rule, true, 0);
    } else if (is_affine(p, need)) {
        out->how = CR_PUSH_APPLIED;
    } else if (one && !list &&
               is_transposed(op, need->rule, op->slots.grad + (int)CR_CTZ(need->cotangents))) {
        out->how = CR_PUSH_TRANSPOSED;
        out->result = (uint8_t)CR_CTZ(need->cotangents);
    }
}

static bool read_by(const cr_derivative_plan *p, int d, int other)
{
    return p->need[d].values >> p->need[other].param & 1;
}

/* An operand that is neither multiplied nor affine may add something else than zero. */
static void find_beside(cr_push_plan *out, const cr_derivative_plan *p)
{
    for (int d = 0; d < p->count; d++)
        for (int k = 0; k < p->count; k++)
            if (k != d && (read_by(p, d, k) || read_by(p, k, d)))
                out->need[d].beside |= 1u << k;
    for (int d = 0; d < p->count; d++)
        for (int k = 0; k < p->count && out->need[d].how == CR_PUSH_APPLIED; k++)
            if (k != d && !(out->need[d].beside >> k & 1) && !is_affine(p, &p->need[k]) &&
                out->need[k].how != CR_PUSH_NONE)
                out->need[d].how = CR_PUSH_PULLED;
}

static void find_params(cr_push_plan *out, const cr_derivative_plan *p)
{
    const cr_op *op = p->op;
    uint64_t operands = 0, read = 0;

    for (int d = 0; d < p->count; d++) {
        operands |= (uint64_t)1 << p->need[d].param;
        read |= p->need[d].values;
    }
    out->further = (((uint64_t)1 << op->param_count) - 1) & ~operands;
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].type == CR_T_SCALAR && !(read >> i & 1))
            out->zeroed |= 1u << i;
}

static void find_lets(cr_push_plan *out, const cr_op *op)
{
    variables v = {op, (((uint64_t)1 << op->result_count) - 1) << op->slots.grad};

    for (int i = 0; i < op->let_count; i++)
        if (depends(v, op->lets[i].rule))
            out->lets |= (uint64_t)1 << (op->slots.let + i);
}

static cr_push_plan *linear_plan_new(const cr_derivative_plan *p)
{
    cr_push_plan *out = cr_alloc_zero(sizeof *out + (size_t)p->count * sizeof *out->need);

    if (!out)
        return NULL;
    for (int d = 0; d < p->count; d++)
        find_how(&out->need[d], p, &p->need[d]);
    find_beside(out, p);
    find_params(out, p);
    find_lets(out, p->op);
    return out;
}

static _Atomic(cr_push_plan *) plans[CR_MOST_OPS];

cr_push_plan *cr_push_plan_of(const cr_derivative_plan *p)
{
    _Atomic(cr_push_plan *) *at = &plans[p->op->index];
    cr_push_plan *made = atomic_load_explicit(at, memory_order_acquire), *other = NULL;

    if (CR_LIKELY(made != NULL))
        return made;
    made = linear_plan_new(p);
    if (made && !atomic_compare_exchange_strong(at, &other, made)) {
        cr_free(made);
        made = other;
    }
    return made;
}

const char *cr_push_way(const cr_op *op, int d, const char **param)
{
    static const char *const name[] = {"none", "diagonal", "applied", "transposed", "pulled"};
    const cr_derivative_plan *p = cr_derivative_plan_of(op);
    cr_push_plan *push = p && d < p->count ? cr_push_plan_of(p) : NULL;

    if (!push)
        return NULL;
    *param = op->param[p->need[d].param].name;
    return name[push->need[d].how];
}

const cr_op *cr_pulled_at(int i, uint64_t *count)
{
    for (int k = 0; k < cr_ops_count(); k++) {
        cr_push_plan *p = atomic_load_explicit(&plans[k], memory_order_acquire);
        if (!p || !atomic_load_explicit(&p->pulled, memory_order_relaxed) || i--)
            continue;
        *count = atomic_load_explicit(&p->pulled, memory_order_relaxed);
        return cr_ops_at(k);
    }
    return NULL;
}
