/* Moves elementwise nodes beside earlier ones that read the same value, on devices.
 *
 * One launch then reads the value for both (group.c), for example for the gradient of gelu and
 * for gelu, which a partition recomputes.  A node moves up if all its arguments are made before
 * that place, and if one of them has no later reader, so that as many values are alive as
 * before.  A node stays if one that a group may have reads it, because it would leave that
 * node's group.
 *
 * Invariant: nodes that write stay behind the nodes that move. */
#include "compile/facts.h"
#include "graph/rewrite.h"

typedef struct nodes {
    size_t len, cap;
    const cr_gnode **at;
} nodes;

typedef struct {
    const cr_graph *g;
    cr_facts_cache *facts;
    size_t *place;  /* by value id: where its node will be, from 1; inputs have 0 */
    size_t *reader; /* by value id: where an elementwise node reads it, from 1; 0: none */
    size_t *last;   /* by value id: place of the last reader in the old order */
    bool *grouped;  /* by value id: a node that a group may have reads it */
    size_t at;      /* place of the node that is visited */
    bool grouping;  /* it may be in a group */
    nodes *behind;  /* by place: nodes that come behind it */
    bool *moved;    /* by place in the old order */
    size_t visited; /* by the rewrite */
    bool any;
} mover;

static void note_reader(void *context, cr_gvalue *v)
{
    mover *x = context;

    x->last[v->id] = x->at;
    x->grouped[v->id] |= x->grouping;
}

static bool is_full(const cr_gvalue *v, const cr_gnode *n)
{
    const cr_gtype *t = &v->type, *r = &n->result[0]->type;

    return t->known && r->known && t->ndim == r->ndim &&
           !memcmp(t->size, r->size, t->ndim * sizeof *t->size);
}

/* An elementwise node of a device, with one result. */
static bool is_point(const mover *x, const cr_gnode *n)
{
    return n->kind == CR_GNODE_CALL && n->result_count == 1 && n->result[0]->type.known &&
           !cr_is_host(n->result[0]->type.device) &&
           cr_facts_of(x->facts, n).kind == CR_FACT_POINT;
}

/* The place of an earlier node that reads a value of n's sizes, at which n's arguments are
 * made; 0: none. */
static size_t find_place(const mover *x, const cr_gnode *n)
{
    size_t made = 0, found = 0;
    bool dies = false;

    for (int i = 0; i < n->arg_count; i++) {
        const cr_gvalue *v = n->arg[i].tag == CR_TENSOR ? n->arg[i].value : NULL;
        if (!v)
            continue;
        made = x->place[v->id] > made ? x->place[v->id] : made;
        if (is_full(v, n)) {
            found = x->reader[v->id] > found ? x->reader[v->id] : found;
            dies = dies || (x->place[v->id] && x->last[v->id] == x->at);
        }
    }
    return dies && made < found ? found : 0;
}

static void visit(mover *x, const cr_gnode *n)
{
    size_t to = is_point(x, n) && !x->grouped[n->result[0]->id] ? find_place(x, n) : 0;

    for (int k = 0; k < n->result_count; k++)
        x->place[n->result[k]->id] = to ? to : x->at;
    if (to) {
        CR_PUSH(x->g->session, &x->behind[to], n);
        x->moved[x->at] = x->any = true;
    }
    if (is_point(x, n))
        for (int i = 0; i < n->arg_count; i++)
            if (n->arg[i].tag == CR_TENSOR && is_full(n->arg[i].value, n))
                x->reader[n->arg[i].value->id] = to ? to : x->at;
}

static bool emit(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    mover *x = w->context;

    if (to != w->to->body)
        return false;
    size_t at = ++x->visited;
    if (x->moved[at])
        return true;
    if (!x->behind[at].len)
        return false;
    cr_rewrite_copy(w, to, n);
    for (size_t k = 0; k < x->behind[at].len; k++)
        cr_rewrite_copy(w, to, x->behind[at].at[k]);
    return true;
}

static void note_readers(mover *x, const cr_gnode *n)
{
    uint8_t kind = cr_facts_of(x->facts, n).kind;

    x->grouping = kind != CR_FACT_CALL && kind != CR_FACT_VIEW;
    cr_gnode_each_read(n, note_reader, x);
    for (int k = 0; k < cr_gnode_blocks(n); k++)
        cr_gblock_each_read(n->block[k], note_reader, x);
}

cr_graph *cr_compile_beside(const cr_graph *g)
{
    cr_session *s = g->session;
    size_t n = g->body->len;
    mover x = {.g = g,
               .facts = cr_facts_cache_new(s),
               .place = CR_NEW_N(s, size_t, g->values),
               .reader = CR_NEW_N(s, size_t, g->values),
               .last = CR_NEW_N(s, size_t, g->values),
               .grouped = CR_NEW_N(s, bool, g->values),
               .behind = CR_NEW_N(s, nodes, n + 1),
               .moved = CR_NEW_N(s, bool, n + 1)};
    cr_rewrite w = {.from = g, .node = emit, .context = &x};
    cr_owners owners;

    if (!cr_owners_find(&owners, g))
        return (cr_graph *)(uintptr_t)g;
    for (x.at = 1; x.at <= n; x.at++)
        note_readers(&x, g->body->at[x.at - 1]);
    x.grouping = false;
    cr_gblock_each_output(g->body, note_reader, &x);
    for (x.at = 1; x.at <= owners.end; x.at++)
        visit(&x, g->body->at[x.at - 1]);
    return x.any ? cr_rewrite_run(&w) : (cr_graph *)(uintptr_t)g;
}
