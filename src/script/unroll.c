/* Loops with a known, small number of iterations become their bodies, one after another. */
#include "script/passes.h"

/* Iterations, nodes of a body, and nodes that a graph may gain. */
enum { UNROLL_TRIPS = 8, UNROLL_BODY = 32, UNROLL_MOST = 1024 };

static bool unroll_is_true(const cr_svalue *v)
{
    const cr_sconstant *c = cr_svalue_constant(v);

    return c && c->type->kind == CR_STYPE_BOOL && c->i;
}

/* The iterations of a loop that is unrolled; else -1. */
static int unroll_trips(const cr_snode *n)
{
    const cr_sconstant *trips = cr_svalue_constant(n->input[0]);

    if (!trips || trips->type->kind != CR_STYPE_INT || trips->i > UNROLL_TRIPS ||
        !unroll_is_true(n->input[1]) || !unroll_is_true(n->block[0]->output[0]) ||
        (int)cr_sblock_nodes(n->block[0]) > UNROLL_BODY)
        return -1;
    return trips->i < 0 ? 0 : (int)trips->i;
}

static cr_svalue *unroll_number(cr_snode *at, int i)
{
    cr_sconstant *value = CR_NEW(at->owner->graph->session, cr_sconstant);
    cr_snode *n = cr_snode_before(at, CR_SPRIM_CONSTANT, at->from.range);

    *value = (cr_sconstant){.type = CR_STYPE_OF(INT), .i = i};
    n->value = value;
    return cr_snode_output(n, NULL, value->type);
}

/* Copies iteration `i` before the loop; `carried` has the values before and then after it. */
static void unroll_once(cr_snode *loop, int i, cr_svalue **carried)
{
    cr_sgraph *g = loop->owner->graph;
    cr_sblock *body = loop->block[0];
    cr_svalue *at = unroll_number(loop, i);
    cr_snode *holder = cr_snode_before(loop, CR_SPRIM_WITH, loop->from.range);
    cr_sblock *to = cr_snode_block(holder);
    cr_svalue **map = CR_NEW_N(g->session, cr_svalue *, g->values + 1);

    map[body->input[0]->id] = at;
    for (int k = 0; k < loop->output_count; k++)
        map[body->input[k + 1]->id] = carried[k];
    cr_sblock_copy(to, body, map);
    for (int k = 0; k < loop->output_count; k++)
        carried[k] = to->output[k + 1];
    cr_sblock_clear_outputs(to);
    cr_sblock_inline(to, holder);
    cr_snode_remove(holder);
}

static void unroll_loop(cr_snode *loop, int trips)
{
    cr_sgraph *g = loop->owner->graph;
    cr_svalue **carried = CR_NEW_N(g->session, cr_svalue *, loop->output_count + 1);

    for (int k = 0; k < loop->output_count; k++)
        carried[k] = loop->input[k + 2];
    for (int i = 0; i < trips; i++)
        unroll_once(loop, i, carried);
    for (int k = 0; k < loop->output_count; k++)
        cr_svalue_replace(g, loop->output[k], carried[k]);
    cr_snode_remove(loop);
}

/* Inner loops first, so that the size of a body counts them. */
static void unroll_in(cr_sblock *b, int *room)
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        int trips;
        next = n->next;
        for (int i = 0; i < n->block_count; i++)
            unroll_in(n->block[i], room);
        trips = n->prim == CR_SPRIM_LOOP ? unroll_trips(n) : -1;
        if (trips < 0 || trips * (int)cr_sblock_nodes(n->block[0]) > *room)
            continue;
        *room -= trips * (int)cr_sblock_nodes(n->block[0]);
        unroll_loop(n, trips);
    }
}

void cr_spass_unroll(cr_sgraph *g)
{
    int room = UNROLL_MOST;

    unroll_in(g->body, &room);
}
