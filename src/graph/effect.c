/* Effects of nodes: writes, random draws, undefined elements. */
#include "entry.h"
#include "graph/graph.h"
#include "ops/eval.h"
#include <stdatomic.h>
#include <string.h>

/* --- the entries that an entry calls --- */

typedef bool (*op_fact)(const cr_op *op, unsigned words);

/* A walk over the entries that an entry calls; an entry may call itself. */
typedef struct {
    op_fact found;
    unsigned words; /* argument of `found` */
    uint64_t seen[CR_MOST_OPS / 64];
} op_search;

static bool reaches(op_search *s, const cr_op *op);

static bool rule_reaches(op_search *s, const cr_rule *r)
{
    if (!r)
        return false;
    if (r->kind == CR_RULE_CALL && r->op && reaches(s, r->op))
        return true;
    for (int i = 0; i < r->count; i++)
        if (rule_reaches(s, r->args[i]))
            return true;
    return false;
}

static bool reaches(op_search *s, const cr_op *op)
{
    CR_ASSERT(op->index < CR_MOST_OPS);
    if (s->seen[op->index / 64] >> op->index % 64 & 1)
        return false;
    s->seen[op->index / 64] |= (uint64_t)1 << op->index % 64;
    if (s->found(op, s->words))
        return true;
    if (op->inplace_of)
        return reaches(s, op->inplace_of);
    for (int i = 0; op->does == CR_DOES_IS && i < op->let_count; i++)
        if (rule_reaches(s, op->lets[i].rule))
            return true;
    for (int k = 0; op->does == CR_DOES_IS && k < op->body_count; k++)
        if (rule_reaches(s, op->body[k]))
            return true;
    return false;
}

/* Facts by entry index: 0 unknown, 1 no, 2 yes.  Threads that compute a fact at the same time
 * store the same value. */
static bool remembered(_Atomic uint8_t *facts, const cr_op *op, op_fact found, unsigned words)
{
    uint8_t known = atomic_load_explicit(&facts[op->index], memory_order_relaxed);

    if (!known) {
        op_search s = {.found = found, .words = words};
        known = reaches(&s, op) ? 2 : 1;
        atomic_store_explicit(&facts[op->index], known, memory_order_relaxed);
    }
    return known == 2;
}

static bool op_has_word(const cr_op *op, unsigned words) { return op->words & words; }

bool cr_op_reaches(const cr_op *op, int word)
{
    static _Atomic uint8_t facts[CR_WORD_COUNT][CR_MOST_OPS];

    return remembered(facts[word], op, op_has_word, 1u << word);
}

/* A call between ranks, or the wait for one. */
static bool op_meets(const cr_op *op) { return cr_op_reaches(op, CR_WORD_BIT_MEETS); }

bool cr_op_draws(const cr_op *op) { return cr_op_reaches(op, CR_WORD_BIT_RANDOM); }

/* True for entries that are not cheap, and that are no compositions of cheap ones. */
static bool is_dear(const cr_op *op, unsigned unused)
{
    (void)unused;
    if (op->does == CR_DOES_BODY || (op->words & CR_WORD_CHEAP) || cr_op_may_view(op))
        return false;
    return op->does != CR_DOES_IS || op->fused || op->updates.params ||
           (op->words & CR_WORD_RANDOM);
}

bool cr_op_is_cheap(const cr_op *op)
{
    static _Atomic uint8_t facts[CR_MOST_OPS];

    return !remembered(facts, op, is_dear, 0);
}

bool cr_gnode_may_view(const cr_gnode *n)
{
    const cr_op *op = n->op;

    return n->kind != CR_GNODE_CALL || op->does == CR_DOES_MAP ||
           (!op->fused && (op->does == CR_DOES_IS || op->does == CR_DOES_WHOLE));
}

/* --- results that share memory with arguments --- */

/* A composition that is read, inside of those that call it. */
typedef struct sharing sharing;
struct sharing {
    const sharing *outer;
    const cr_op *op;
    uint64_t slots; /* names whose values may share memory with an argument */
};

static bool op_shares(const cr_op *op, const sharing *outer);
static bool rule_shares(sharing *in, const cr_rule *r);

static bool some_rule_shares(sharing *in, const cr_rule *r)
{
    for (int i = 0; i < r->count; i++)
        if (rule_shares(in, r->args[i]))
            return true;
    return false;
}

/* The arguments choose one of the overloads. */
static bool some_overload_shares(const cr_op *op, const sharing *in)
{
    for (; op; op = op->next)
        if (op_shares(op, in))
            return true;
    return false;
}

/* Functions that read sizes make numbers; others, such as real(), may give their argument. */
static bool call_shares(sharing *in, const cr_rule *r)
{
    bool is_size = cr_builtin_reads_only(r->builtin, CR_READS_SHAPE) &&
                   !cr_builtin_reads_only(r->builtin, CR_READS_TYPE);
    bool is_entry = r->op && (r->builtin < 0 || r->builtin >= CR_BUILTIN_add);

    return !is_size && (!is_entry || some_overload_shares(r->op, in)) &&
           some_rule_shares(in, r);
}

static bool each_shares(sharing *in, const cr_rule *r)
{
    if (rule_shares(in, r->args[0]))
        in->slots |= (uint64_t)1 << r->slot;
    return rule_shares(in, r->args[1]);
}

static bool name_shares(const sharing *in, const cr_rule *r)
{
    return r->slot >= 0 && in->slots >> r->slot & 1;
}

static bool item_shares(sharing *in, const cr_rule *r) { return rule_shares(in, r->args[0]); }

/* A call may choose either branch, whatever the condition is. */
static bool branch_shares(sharing *in, const cr_rule *r)
{
    return rule_shares(in, r->args[1]) || rule_shares(in, r->args[2]);
}

static cr_status shares_constant(void *in, cr_value v, void *out)
{
    (void)in, (void)v;
    *(bool *)out = false;
    return CR_OK;
}

CR_RULE_PART(shares_part, bool, rule_shares)
CR_RULE_PART(shares_name, bool, name_shares)
CR_RULE_PART(shares_call, bool, call_shares)
CR_RULE_PART(shares_list, bool, some_rule_shares)
CR_RULE_PART(shares_each, bool, each_shares)
CR_RULE_PART(shares_item, bool, item_shares)
CR_RULE_PART(shares_branch, bool, branch_shares)

/* The domain: whether a value may share memory with an argument. */
static const cr_rule_domain shares = {.eval = shares_part,
                                      .constant = shares_constant,
                                      .name = shares_name,
                                      .call = shares_call,
                                      .list = shares_list,
                                      .each = shares_each,
                                      .index = shares_item,
                                      .either = shares_branch};

static bool rule_shares(sharing *in, const cr_rule *r)
{
    bool found = false;

    cr_rule_eval(&shares, in, r, &found);
    return found;
}

/* Of an entry that calls itself the answer is yes. */
static bool composition_shares(const cr_op *op, const sharing *outer)
{
    sharing in = {outer, op, op->tensor_params};

    for (; outer; outer = outer->outer)
        if (outer->op == op)
            return true;
    for (int i = 0; i < op->let_count; i++)
        if (rule_shares(&in, op->lets[i].rule))
            in.slots |= (uint64_t)1 << op->lets[i].slot;
    for (int k = 0; k < op->body_count; k++)
        if (op->body[k] && rule_shares(&in, op->body[k]))
            return true;
    return false;
}

/* Entries with kernels allocate results before they compute them; their sparse forms call such
 * entries on the values. */
static bool find_op_shares(const cr_op *op, const sharing *outer)
{
    if (op->custom || cr_op_may_view(op))
        return true;
    if (op->words & CR_WORD_COPY)
        return false;
    switch ((cr_does)op->does) {
    case CR_DOES_BODY:
    case CR_DOES_FOLD:
    case CR_DOES_LOOP:
    case CR_DOES_SCAN:
    case CR_DOES_STEPS:
    case CR_DOES_EXTERN: return false;
    case CR_DOES_IS:
        return composition_shares(op, outer) ||
               (op->sparse.op && op_shares(op->sparse.op, outer));
    default: return true;
    }
}

/* Threads, and compositions that call each other, may store a yes where another order of the
 * questions gives a no: both are safe. */
static bool op_shares(const cr_op *op, const sharing *outer)
{
    static _Atomic uint8_t facts[CR_MOST_OPS];
    uint8_t known = atomic_load_explicit(&facts[op->index], memory_order_relaxed);

    if (!known) {
        known = find_op_shares(op, outer) ? 2 : 1;
        atomic_store_explicit(&facts[op->index], known, memory_order_relaxed);
    }
    return known == 2;
}

bool cr_op_may_share(const cr_op *op) { return op_shares(op, NULL); }

/* --- writes --- */

/* True when the call updates tensors by clause `updates`. */
static bool call_updates(const cr_gnode *n)
{
    for (int i = 0; i < n->arg_count; i++)
        if (n->op->updates.params >> i & 1 && n->arg[i].tag == CR_TENSOR)
            return n->arg[n->op->updates.when].i;
    return false;
}

static bool call_writes(const cr_gnode *n)
{
    for (int i = 0; i < n->arg_count; i++)
        if (n->op->param[i].written)
            return true;
    return call_updates(n);
}

bool cr_gnode_copies_back(const cr_gnode *n)
{
    const cr_gvalue *to =
        n->kind == CR_GNODE_CALL && n->op == cr_entry.copy_ ? n->arg[0].value : NULL;

    return to && (!to->by || to->by->kind == CR_GNODE_CONSTANT);
}

typedef bool (*node_fact)(const cr_gnode *n);

static bool any_inside(const cr_gnode *n, node_fact fact)
{
    for (int k = 0; k < cr_gnode_blocks(n); k++)
        for (size_t i = 0; i < n->block[k]->len; i++)
            if (fact(n->block[k]->at[i]))
                return true;
    return false;
}

bool cr_gnode_writes(const cr_gnode *n)
{
    return n->kind == CR_GNODE_CALL ? call_writes(n) : any_inside(n, cr_gnode_writes);
}

bool cr_gnode_draws(const cr_gnode *n)
{
    return n->kind == CR_GNODE_CALL ? cr_op_draws(n->op) : any_inside(n, cr_gnode_draws);
}

bool cr_gnode_meets(const cr_gnode *n)
{
    return n->kind == CR_GNODE_CALL ? op_meets(n->op) : any_inside(n, cr_gnode_meets);
}

static bool has_integers(const cr_garg *a)
{
    return a->tag == CR_TENSOR && a->value->type.known && a->value->type.dtype != CR_BOOL &&
           !cr_dtype_is_float((cr_dtype)a->value->type.dtype) &&
           !cr_dtype_is_complex((cr_dtype)a->value->type.dtype);
}

/* Only tensors of integers divide by zero. */
static bool divides_by_elements(const cr_gnode *n)
{
    int other = cr_op_find_param(n->op, "other");
    bool any = false;

    if (other >= 0 && n->arg[other].tag != CR_TENSOR)
        return false;
    for (int i = 0; i < n->arg_count; i++)
        any = any || has_integers(&n->arg[i]);
    return any;
}

bool cr_gnode_may_raise(const cr_gnode *n)
{
    if (n->kind != CR_GNODE_CALL)
        return any_inside(n, cr_gnode_may_raise);
    return cr_op_reaches(n->op, CR_WORD_BIT_RAISES_BY_VALUES) &&
           (!cr_op_reaches(n->op, CR_WORD_BIT_DIVIDES) || divides_by_elements(n));
}

/* Undefined elements that are not read may go. */
bool cr_gnode_stays(const cr_gnode *n)
{
    unsigned words = n->kind == CR_GNODE_CALL ? n->op->words : 0;

    return (words & CR_WORD_CHECKS) || cr_gnode_may_raise(n) ||
           (cr_gnode_has_effect(n) && !(words & CR_WORD_UNDEFINED));
}

bool cr_gnode_has_effect(const cr_gnode *n)
{
    if (n->kind == CR_GNODE_CALL)
        return call_writes(n) || cr_op_draws(n->op) || op_meets(n->op) ||
               (n->op->words & CR_WORD_UNDEFINED);
    return any_inside(n, cr_gnode_has_effect);
}
