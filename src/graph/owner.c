/* Values that must not share memory with other values.
 *
 * They leave the graph, or are read after a write, or may be viewed by such a value: two equal
 * values of this kind could differ later.  Or they are viewed by places in their storage
 * (as_strided): a copy of a part of another storage has other places. */
#include "graph/rewrite.h"

static void mark_owned(void *context, cr_gvalue *v)
{
    ((cr_owners *)context)->own[v->id] = true;
}

static void own_outputs(cr_owners *o, const cr_gblock *b)
{
    cr_gblock_each_output(b, mark_owned, o);
}

static void own_sources(cr_owners *o, const cr_gnode *n);

static void own_block(cr_owners *o, const cr_gblock *b)
{
    own_outputs(o, b);
    for (size_t i = b->len; i-- > 0;)
        own_sources(o, b->at[i]);
}

static void own_sources(cr_owners *o, const cr_gnode *n)
{
    bool owned = n->kind == CR_GNODE_CALL && n->op->words & CR_WORD_ABSOLUTE;

    for (int k = 0; k < n->result_count; k++)
        owned |= o->own[n->result[k]->id];
    for (int k = 0; k < cr_gnode_blocks(n); k++)
        own_block(o, n->block[k]);
    for (int i = 0; i < n->arg_count && owned && cr_gnode_may_view(n); i++)
        cr_garg_each(&n->arg[i], mark_owned, o);
}

bool cr_owners_find(cr_owners *o, const cr_graph *g)
{
    const cr_gblock *b = g->body;

    *o = (cr_owners){.own = CR_NEW_N(g->session, bool, g->values), .end = b->len};
    for (size_t i = b->len; i-- > 0;) {
        if (!cr_gnode_writes(b->at[i]))
            continue;
        if (!cr_gnode_copies_back(b->at[i]))
            return false;
        o->end = i;
    }
    own_outputs(o, b);
    for (size_t i = b->len; i-- > o->end;)
        cr_gnode_each_read(b->at[i], mark_owned, o);
    for (size_t i = o->end; i-- > 0;)
        own_sources(o, b->at[i]);
    return true;
}

bool cr_owners_has(const cr_owners *o, const cr_gnode *n)
{
    for (int k = 0; k < n->result_count; k++)
        if (o->own[n->result[k]->id])
            return true;
    return false;
}

bool cr_owners_past(const cr_owners *o, const cr_rewrite *w, const cr_gblock *to, size_t *at)
{
    return (to == w->to->body ? (*at)++ : *at) >= o->end;
}
