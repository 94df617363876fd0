/* eval.h - the evaluator of rules.
 *
 * A rule has a value in every domain: numbers and tensors (tensor/rule.c), expressions over
 * sizes (graph/flops.c), expressions of loops (loop/build.c), values of an ONNX file
 * (onnx/clause.c), texts (ops/expr.c), and facts about results (graph/effect.c,
 * dist/axes_rule.c).  The evaluator has what all domains share: which parts of a rule are
 * evaluated, and when.  A domain says what the parts mean.
 *
 * A domain's function calls cr_rule_eval with a constant domain.  It is inlined there, so that
 * the domain's functions are called directly. */
#ifndef CR_OPS_EVAL_H
#define CR_OPS_EVAL_H

#include "base/error.h"
#include "ops/ops.h"
#include "ops/rule.h"
#include <string.h>

/* Writes the value of `r` to *out; `in` is the domain's own state. */
typedef cr_status (*cr_rule_fn)(void *in, const cr_rule *r, void *out);

/* What a condition decides. */
typedef enum { CR_RULE_FALSE, CR_RULE_TRUE, CR_RULE_UNDECIDED } cr_rule_truth;

typedef struct {
    cr_rule_fn eval; /* the function that calls cr_rule_eval with this domain */
    /* An integer, a float, a bool, None or a text.  NULL: values of the domain are cr_value. */
    cr_status (*constant)(void *in, cr_value v, void *out);
    cr_rule_fn name, call, list, each, index;
    /* The truth of the condition *value, which is the first part of `r`.  NULL: every
     * condition is undecided. */
    cr_rule_truth (*truth)(void *in, const cr_rule *r, const void *value);
    /* A choice whose condition, in *out, is undecided. */
    cr_rule_fn either;
} cr_rule_domain;

/* Defines the function `part` of a domain, whose value `call` returns. */
#define CR_RULE_PART(part, value, call)                                                        \
    static cr_status part(void *in, const cr_rule *r, void *out)                               \
    {                                                                                          \
        *(value *)out = call(in, r);                                                           \
        return CR_OK;                                                                          \
    }

static inline bool cr_rule_is_logic(const cr_rule *r)
{
    return r->builtin == CR_BUILTIN_and || r->builtin == CR_BUILTIN_or ||
           r->builtin == CR_BUILTIN_not;
}

/* One branch of a choice, or both where the condition is undecided. */
CR_ALWAYS_INLINE cr_status cr_rule_choose(const cr_rule_domain *d, void *in, const cr_rule *r,
                                          void *out)
{
    CR_TRY(d->eval(in, r->args[0], out));
    cr_rule_truth truth = d->truth ? d->truth(in, r, out) : CR_RULE_UNDECIDED;
    return truth == CR_RULE_UNDECIDED
               ? d->either(in, r, out)
               : d->eval(in, r->args[truth == CR_RULE_TRUE ? 1 : 2], out);
}

/* Stores a constant; a macro, so that it is made where it is stored. */
#define CR_RULE_CONSTANT(v)                                                                    \
    (d->constant ? d->constant(in, (v), out) : (*(cr_value *)out = (v), CR_OK))

/* `and`, `or` and `not` of decided operands.  The second operand is evaluated only where the
 * first one does not decide. */
CR_ALWAYS_INLINE cr_status cr_rule_logic(const cr_rule_domain *d, void *in, const cr_rule *r,
                                         void *out)
{
    CR_TRY(d->eval(in, r->args[0], out));
    bool holds = d->truth(in, r, out) == CR_RULE_TRUE;
    if (r->builtin != CR_BUILTIN_not && holds == (r->builtin == CR_BUILTIN_and)) {
        CR_TRY(d->eval(in, r->args[1], out));
        holds = d->truth(in, r, out) == CR_RULE_TRUE;
    } else if (r->builtin == CR_BUILTIN_not) {
        holds = !holds;
    }
    return CR_RULE_CONSTANT(cr_of_bool(holds));
}

CR_ALWAYS_INLINE cr_status cr_rule_eval(const cr_rule_domain *d, void *in, const cr_rule *r,
                                        void *out)
{
    switch (r->kind) {
    case CR_RULE_NAME: return d->name(in, r, out);
    case CR_RULE_INT: return CR_RULE_CONSTANT(cr_of_int(r->integer));
    case CR_RULE_FLOAT: return CR_RULE_CONSTANT(cr_of_float(r->number));
    case CR_RULE_BOOL: return CR_RULE_CONSTANT(cr_of_bool(r->integer != 0));
    case CR_RULE_NONE: return CR_RULE_CONSTANT(cr_of_none());
    case CR_RULE_STRING:
        return CR_RULE_CONSTANT(
            ((cr_value){.tag = CR_STRING, .len = (uint32_t)strlen(r->name), .s = r->name}));
    case CR_RULE_LIST: return d->list(in, r, out);
    case CR_RULE_CALL: return d->call(in, r, out);
    case CR_RULE_CHOOSE: return cr_rule_choose(d, in, r, out);
    case CR_RULE_EACH: return d->each(in, r, out);
    case CR_RULE_INDEX: return d->index(in, r, out);
    }
    CR_ASSERT(!"a kind of rule");
    return CR_RUNTIME;
}

#undef CR_RULE_CONSTANT

#endif
