/* Effects of nodes: writes, random draws, undefined elements. */
#include "entry.h"
#include "graph/graph.h"
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

bool cr_gnode_has_effect(const cr_gnode *n)
{
    if (n->kind == CR_GNODE_CALL)
        return call_writes(n) || cr_op_draws(n->op) || (n->op->words & CR_WORD_UNDEFINED);
    return any_inside(n, cr_gnode_has_effect);
}
