/* What nodes do beside computing their results. */
#include "graph/graph.h"
#include <stdatomic.h>
#include <string.h>

/* --- random numbers --- */

static bool rule_draws(const cr_rule *r)
{
    if (!r)
        return false;
    if (r->kind == CR_RULE_CALL && r->op && cr_op_draws(r->op))
        return true;
    for (int i = 0; i < r->count; i++)
        if (rule_draws(r->args[i]))
            return true;
    return false;
}

static bool find_draws(const cr_op *op)
{
    if (op->words & CR_WORD_RANDOM)
        return true;
    if (op->inplace_of)
        return cr_op_draws(op->inplace_of);
    for (int i = 0; op->does == CR_DOES_IS && i < op->let_count; i++)
        if (rule_draws(op->lets[i].rule))
            return true;
    for (int k = 0; op->does == CR_DOES_IS && k < op->body_count; k++)
        if (rule_draws(op->body[k]))
            return true;
    return false;
}

/* By index: 0 not known yet, 1 no, 2 yes.  Threads that find out at once find the same. */
enum { MOST_OPS = 4096 };
static _Atomic uint8_t draws[MOST_OPS];

bool cr_op_draws(const cr_op *op)
{
    CR_ASSERT(op->index < MOST_OPS);
    uint8_t known = atomic_load_explicit(&draws[op->index], memory_order_relaxed);

    if (!known) {
        known = find_draws(op) ? 2 : 1;
        atomic_store_explicit(&draws[op->index], known, memory_order_relaxed);
    }
    return known == 2;
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
