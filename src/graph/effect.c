/* What nodes do beside computing their results. */
#include "graph/graph.h"
#include <stdatomic.h>
#include <string.h>

/* --- what an entry calls --- */

typedef bool (*op_fact)(const cr_op *op);

/* The rule calls an entry of which the fact is `wanted`; `self` may call itself. */
static bool rule_calls(const cr_op *self, const cr_rule *r, op_fact fact, bool wanted)
{
    if (!r)
        return false;
    if (r->kind == CR_RULE_CALL && r->op && r->op != self && fact(r->op) == wanted)
        return true;
    for (int i = 0; i < r->count; i++)
        if (rule_calls(self, r->args[i], fact, wanted))
            return true;
    return false;
}

static bool calls(const cr_op *op, op_fact fact, bool wanted)
{
    for (int i = 0; i < op->let_count; i++)
        if (rule_calls(op, op->lets[i].rule, fact, wanted))
            return true;
    for (int k = 0; k < op->body_count; k++)
        if (rule_calls(op, op->body[k], fact, wanted))
            return true;
    return false;
}

/* Facts by index: 0 not known yet, 1 no, 2 yes.  Threads that find out at once find the same. */
enum { MOST_OPS = 4096 };

static bool remembered(_Atomic uint8_t *facts, const cr_op *op, op_fact find)
{
    CR_ASSERT(op->index < MOST_OPS);
    uint8_t known = atomic_load_explicit(&facts[op->index], memory_order_relaxed);

    if (!known) {
        known = find(op) ? 2 : 1;
        atomic_store_explicit(&facts[op->index], known, memory_order_relaxed);
    }
    return known == 2;
}

static bool find_draws(const cr_op *op)
{
    if (op->words & CR_WORD_RANDOM)
        return true;
    if (op->inplace_of)
        return cr_op_draws(op->inplace_of);
    return op->does == CR_DOES_IS && calls(op, cr_op_draws, true);
}

bool cr_op_draws(const cr_op *op)
{
    static _Atomic uint8_t facts[MOST_OPS];

    return remembered(facts, op, find_draws);
}

static bool find_cheap(const cr_op *op)
{
    if (op->words & (CR_WORD_RANDOM | CR_WORD_UPDATES))
        return false;
    if (op->does == CR_DOES_MAP || op->does == CR_DOES_BODY || (op->words & CR_WORD_CHEAP) ||
        (op->result_count && op->result[0].alias && !op->result[0].written))
        return true;
    return op->does == CR_DOES_IS && !op->fused && !calls(op, cr_op_is_cheap, false);
}

bool cr_op_is_cheap(const cr_op *op)
{
    static _Atomic uint8_t facts[MOST_OPS];

    return remembered(facts, op, find_cheap);
}

bool cr_gnode_may_view(const cr_gnode *n)
{
    const cr_op *op = n->op;

    return n->kind != CR_GNODE_CALL || op->does == CR_DOES_MAP ||
           (!op->fused && (op->does == CR_DOES_IS || op->does == CR_DOES_WHOLE));
}

/* --- writes --- */

/* A norm that updates running statistics does so where it has them and its first truth is true. */
static bool updates(const cr_gnode *n)
{
    bool has = false;

    for (int i = 0; i < n->arg_count; i++) {
        has |= n->arg[i].tag == CR_TENSOR && !strncmp(n->op->param[i].name, "running_", 8);
        if (n->op->param[i].type == CR_T_BOOL)
            return has && n->arg[i].i;
    }
    return false;
}

static bool call_writes(const cr_gnode *n)
{
    for (int i = 0; i < n->arg_count; i++)
        if (n->op->param[i].written)
            return true;
    return (n->op->words & CR_WORD_UPDATES) && updates(n);
}

bool cr_gnode_copies_back(const cr_gnode *n)
{
    const cr_gvalue *to = n->kind == CR_GNODE_CALL && !strcmp(n->op->name, "copy_") ? n->arg[0].value : NULL;

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

bool cr_gnode_has_effect(const cr_gnode *n)
{
    if (n->kind == CR_GNODE_CALL)
        return call_writes(n) || cr_op_draws(n->op);
    return any_inside(n, cr_gnode_has_effect);
}
