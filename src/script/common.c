/* Equal nodes are computed once: the later one's readers read the earlier one's results, if it
 * is in the same block or in one around it. */
#include "base/map.h"
#include "graph/graph.h"
#include "script/alias.h"
#include "script/operators.h"
#include "script/passes.h"
#include <string.h>

enum { COMMON_CHAINS = 256 };

typedef struct common_node common_node;
struct common_node {
    common_node *next, *below; /* of the chain; the one that was added before */
    cr_snode *node;
    uint64_t hash;
};

typedef struct {
    cr_salias *alias;
    bool tensors; /* also nodes with tensors as results */
    common_node *chain[COMMON_CHAINS], *last;
} common_walk;

/* --- which nodes --- */

static bool common_may_differ(const common_walk *w, const cr_snode *n)
{
    const cr_sschema *s = n->schema;
    const cr_op *op = s->op;

    for (int i = 0; i < s->param_count && i < n->input_count; i++)
        if (s->param[i].written)
            return true;
    for (int i = 0; i < n->output_count; i++)
        if ((n->output[i]->type->kind == CR_STYPE_TENSOR && !op) ||
            (cr_stype_holds_tensors(n->output[i]->type) && cr_salias_has_calls(w->alias)))
            return true;
    return !s->result_count || s->any_params || !n->input_count || cr_sschema_is_range(s) ||
           (op && (op->updates.params || cr_op_draws(op) ||
                   op->words & (CR_WORD_UNDEFINED | CR_WORD_CHECKS)));
}

static bool common_kind(const common_walk *w, const cr_snode *n)
{
    switch ((cr_sprim)n->prim) {
    case CR_SPRIM_OPERATOR: return !common_may_differ(w, n);
    case CR_SPRIM_CONSTANT:
        return n->value->type->kind != CR_STYPE_TENSOR &&
               n->value->type->kind != CR_STYPE_CLASS && !cr_stype_can_change(n->value->type);
    case CR_SPRIM_LIST_CONSTRUCT: return cr_salias_is_fixed_list(w->alias, n->output[0]);
    case CR_SPRIM_TUPLE_CONSTRUCT:
    case CR_SPRIM_TUPLE_UNPACK:
    case CR_SPRIM_TUPLE_INDEX:
    case CR_SPRIM_TUPLE_SLICE:
    case CR_SPRIM_UNCHECKED_CAST:
    case CR_SPRIM_IS_INSTANCE: return true;
    default: return false;
    }
}

/* A list that is only read has the same items at each reader; tensors among them may change. */
static bool common_is_steady(const common_walk *w, const cr_svalue *v)
{
    return !cr_salias_is_changed(w->alias, v) ||
           (cr_salias_is_fixed_list(w->alias, v) && !cr_stype_can_change(v->type->item[0]));
}

static bool common_is_candidate(const common_walk *w, const cr_snode *n)
{
    if (n->block_count || !n->output_count || !common_kind(w, n))
        return false;
    for (int i = 0; i < n->input_count && n->prim == CR_SPRIM_OPERATOR; i++)
        if (!common_is_steady(w, n->input[i]))
            return false;
    for (int i = 0; i < n->output_count; i++)
        if (cr_stype_can_change(n->output[i]->type) &&
            (!w->tensors || cr_salias_is_changed(w->alias, n->output[i])) &&
            !cr_salias_is_fixed_list(w->alias, n->output[i]))
            return false;
    return true;
}

/* --- equality --- */

static bool common_same_constant(const cr_sconstant *a, const cr_sconstant *b)
{
    cr_text text[2] = {{0}, {0}};

    if (!cr_stype_equal(a->type, b->type) || a->type->kind == CR_STYPE_ENUM)
        return false;
    cr_sconstant_print(&text[0], a);
    cr_sconstant_print(&text[1], b);
    bool same = !strcmp(cr_text_str(&text[0]), cr_text_str(&text[1])) &&
                (a->type->kind != CR_STYPE_FUNCTION || a->function == b->function);
    cr_text_drop(&text[0]);
    cr_text_drop(&text[1]);
    return same;
}

static bool common_same_types(const cr_snode *a, const cr_snode *b)
{
    if (a->tests.type_count != b->tests.type_count || a->output_count != b->output_count)
        return false;
    for (int i = 0; i < a->tests.type_count; i++)
        if (!cr_stype_equal(a->tests.types[i], b->tests.types[i]))
            return false;
    for (int i = 0; i < a->output_count; i++)
        if (!cr_stype_equal(a->output[i]->type, b->output[i]->type))
            return false;
    return true;
}

static bool common_equal(const cr_snode *a, const cr_snode *b)
{
    if (a->prim != b->prim || a->schema != b->schema || a->input_count != b->input_count ||
        a->slice.begin != b->slice.begin || a->slice.end != b->slice.end ||
        !common_same_types(a, b))
        return false;
    for (int i = 0; i < a->input_count; i++)
        if (a->input[i] != b->input[i])
            return false;
    return a->prim != CR_SPRIM_CONSTANT || common_same_constant(a->value, b->value);
}

/* Two results that both leave the graph stay two: its caller may change one. */
static bool common_may_be_one(const common_walk *w, const cr_snode *a, const cr_snode *b)
{
    for (int i = 0; i < a->output_count; i++)
        if (cr_salias_escapes(w->alias, a->output[i]) &&
            cr_salias_escapes(w->alias, b->output[i]))
            return false;
    return true;
}

static uint64_t common_hash(const cr_snode *n)
{
    uint64_t key[3] = {n->prim, (uintptr_t)n->schema, (uint64_t)n->input_count};
    uint64_t hash = cr_hash(key, sizeof key);

    for (int i = 0; i < n->input_count; i++)
        hash = (hash ^ n->input[i]->id) * 0x9E3779B97F4A7C15u;
    if (n->prim == CR_SPRIM_CONSTANT)
        hash ^= n->value->type->kind == CR_STYPE_INT ? (uint64_t)n->value->i : 0;
    return hash ^ hash >> 32;
}

/* --- the walk --- */

static cr_snode *common_find(const common_walk *w, uint64_t hash, const cr_snode *n)
{
    for (const common_node *at = w->chain[hash % COMMON_CHAINS]; at; at = at->next)
        if (at->hash == hash && common_equal(at->node, n) && common_may_be_one(w, at->node, n))
            return at->node;
    return NULL;
}

static void common_add(common_walk *w, uint64_t hash, cr_snode *n)
{
    common_node *made = CR_NEW(n->owner->graph->session, common_node);

    *made = (common_node){w->chain[hash % COMMON_CHAINS], w->last, n, hash};
    w->chain[hash % COMMON_CHAINS] = w->last = made;
}

/* Forgets the nodes of a block that ends. */
static void common_leave(common_walk *w, const common_node *last)
{
    for (; w->last != last; w->last = w->last->below)
        w->chain[w->last->hash % COMMON_CHAINS] = w->last->next;
}

static void common_in(common_walk *w, cr_sblock *b);

static void common_visit(common_walk *w, cr_snode *n)
{
    uint64_t hash;
    cr_snode *same;

    for (int i = 0; i < n->block_count; i++)
        common_in(w, n->block[i]);
    if (!common_is_candidate(w, n))
        return;
    hash = common_hash(n);
    same = common_find(w, hash, n);
    if (!same) {
        common_add(w, hash, n);
        return;
    }
    for (int i = 0; i < n->output_count; i++) {
        cr_salias_join(w->alias, same->output[i], n->output[i]);
        cr_svalue_replace(n->owner->graph, n->output[i], same->output[i]);
    }
    cr_snode_remove(n);
}

static void common_in(common_walk *w, cr_sblock *b)
{
    common_node *last = w->last;

    for (cr_snode *n = b->first, *next; n; n = next) {
        next = n->next;
        common_visit(w, n);
    }
    common_leave(w, last);
}

static void common_run(cr_sgraph *g, bool tensors)
{
    common_walk w = {.alias = cr_salias_find(g), .tensors = tensors};

    common_in(&w, g->body);
}

void cr_spass_common(cr_sgraph *g) { common_run(g, true); }
void cr_spass_common_numbers(cr_sgraph *g) { common_run(g, false); }
