/* Passes that remove and merge: dead nodes, common subexpressions, constants.
 *
 * In a graph with writes, values that are equal when they are made may differ later.  All
 * passes but the first return such a graph unchanged, unless its only writes are copies to
 * inputs and constants at its end (functional.c). */
#include "base/map.h"
#include "graph/rewrite.h"
#include <string.h>

/* --- dead nodes --- */

typedef struct {
    bool *read; /* by id */
} live_set;

static void live_mark(void *context, cr_gvalue *v)
{
    ((live_set *)context)->read[v->id] = true;
}

static bool is_read(const live_set *l, const cr_gnode *n)
{
    for (int k = 0; k < n->result_count; k++)
        if (l->read[n->result[k]->id])
            return true;
    return cr_gnode_stays(n);
}

/* Walks backwards, so that readers precede the values they read. */
static void live_mark_block(live_set *l, const cr_gblock *b)
{
    cr_gblock_each_output(b, live_mark, l);
    for (size_t i = b->len; i-- > 0;) {
        const cr_gnode *n = b->at[i];
        if (!is_read(l, n))
            continue;
        for (int k = 0; k < cr_gnode_blocks(n); k++)
            live_mark_block(l, n->block[k]);
        cr_gnode_each_read(n, live_mark, l);
    }
}

static bool drop_dead(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    (void)to;
    return !is_read(w->context, n);
}

cr_graph *cr_graph_dead(const cr_graph *g)
{
    live_set l = {CR_NEW_N(g->session, bool, g->values)};
    cr_rewrite w = {.from = g, .node = drop_dead, .context = &l};

    for (size_t k = 0; k < g->numbers.list.len; k++)
        if (g->numbers.list.at[k].of)
            l.read[g->numbers.list.at[k].of->id] = true;
    live_mark_block(&l, g->body);
    return cr_rewrite_run(&w);
}

/* --- common subexpressions --- */

/* Calls by a text of block, operator and arguments. */
typedef struct {
    const cr_graph *g;
    cr_graph *out;
    cr_owners owners;
    size_t at;
    cr_map seen;
    cr_text key;
    const bool *waited; /* by value id: cr_gwaited_find */
} call_table;

static uintptr_t id_now(void *rewrite, const cr_gvalue *v)
{
    return ((cr_rewrite *)rewrite)->now[v->id]->id;
}

static bool share_node(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    call_table *c = w->context;
    cr_gnode *old;

    if (cr_gnode_waits(n) && !c->waited[n->arg[0].value->id]) {
        cr_map_drop(&c->seen); /* a read before the wait may have other elements */
        c->seen = (cr_map){0};
    }
    if (cr_owners_past(&c->owners, w, to, &c->at) || n->kind != CR_GNODE_CALL ||
        cr_gnode_has_effect(n))
        return false;
    c->key.len = 0;
    cr_text_put_n(&c->key, (const char *)&to, sizeof to);
    cr_text_put_n(&c->key, (const char *)&n->op, sizeof n->op);
    for (int i = 0; i < n->arg_count; i++)
        cr_garg_key(&c->key, &n->arg[i], id_now, w);
    cr_session_check(w->to->session, cr_text_status(&c->key));
    old = cr_map_get(&c->seen, c->key.at, c->key.len);
    if (old && cr_owners_has(&c->owners, n))
        return false;
    if (!old) {
        old = cr_rewrite_copy(w, to, n);
        cr_session_check(w->to->session, cr_map_set(&c->seen, c->key.at, c->key.len, old));
    }
    for (int k = 0; k < n->result_count; k++)
        w->now[n->result[k]->id] = old->result[k];
    return true;
}

static void run_common(cr_session *s, void *context)
{
    call_table *c = context;
    cr_rewrite w = {.from = c->g, .node = share_node, .context = c};

    c->waited = cr_gwaited_find(s, c->g);
    c->out = cr_rewrite_run(&w);
}

cr_graph *cr_graph_common(const cr_graph *g)
{
    call_table c = {.g = g, .out = (cr_graph *)(uintptr_t)g};
    cr_status st =
        cr_owners_find(&c.owners, g) ? cr_session_run(g->session, run_common, &c) : CR_OK;

    cr_map_drop(&c.seen);
    cr_text_drop(&c.key);
    cr_session_check(g->session, st);
    return c.out;
}

/* --- constants --- */

typedef struct {
    cr_owners owners;
    size_t at;
} folding;

/* True for a constant that no node writes. */
static bool is_constant(const cr_rewrite *w, const cr_garg *a)
{
    if (a->tag == CR_TENSOR) {
        const cr_gvalue *v = w->now[a->value->id];
        return v->by && v->by->kind == CR_GNODE_CONSTANT && !v->by->constant->requires_grad &&
               !((const folding *)w->context)->owners.own[a->value->id];
    }
    for (uint32_t i = 0; a->tag == CR_TENSORS && i < a->len; i++)
        if (!is_constant(w, &a->list[i]))
            return false;
    return true;
}

static bool any_value(const cr_garg *a)
{
    for (uint32_t i = 0; a->tag == CR_TENSORS && i < a->len; i++)
        if (any_value(&a->list[i]))
            return true;
    return a->tag == CR_TENSOR;
}

static bool may_fold(const cr_rewrite *w, const cr_gnode *n)
{
    bool any = false;

    if (n->kind != CR_GNODE_CALL || cr_gnode_has_effect(n) || cr_gnode_has_symbol(n) ||
        n->op->result_count != 1 || n->op->result[0].type != CR_T_TENSOR ||
        n->op->result[0].alias || n->op->does == CR_DOES_MAP)
        return false;
    for (int i = 0; i < n->arg_count; i++) {
        if (!is_constant(w, &n->arg[i]))
            return false;
        any |= any_value(&n->arg[i]);
    }
    return any;
}

/* Computes the node's result now.  NULL on failure, so that the error occurs at run time. */
static cr_tensor *compute(const cr_rewrite *w, const cr_gnode *n)
{
    cr_value arg[CR_MAX_ARGS], result[CR_MAX_RESULTS];

    for (int i = 0; i < n->arg_count; i++) {
        const cr_garg *a = &n->arg[i];
        if (a->tag == CR_TENSORS || a->tag == CR_NUMBERS)
            return NULL;
        arg[i] = (cr_value){.tag = a->tag, .len = a->len};
        if (a->tag == CR_TENSOR)
            arg[i].t = w->now[a->value->id]->by->constant;
        else
            memcpy(&arg[i].number, &a->number, sizeof a->number);
    }
    return cr_call(n->op, arg, result) ? NULL : result[0].t;
}

static bool fold_node(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    folding *f = w->context;
    bool past = cr_owners_past(&f->owners, w, to, &f->at);
    cr_tensor *t =
        !past && may_fold(w, n) && !cr_owners_has(&f->owners, n) ? compute(w, n) : NULL;

    if (!t || t->numel * (int64_t)cr_dtype_size((cr_dtype)t->dtype) > CR_GRAPH_FOLD_BYTES) {
        cr_drop(t);
        return false;
    }
    w->now[n->result[0]->id] = cr_graph_constant(w->to, to, t, n->result[0]->name);
    cr_drop(t);
    return true;
}

cr_graph *cr_graph_fold(const cr_graph *g)
{
    folding f = {.at = 0};
    cr_rewrite w = {.from = g, .node = fold_node, .context = &f};

    return cr_owners_find(&f.owners, g) ? cr_rewrite_run(&w) : (cr_graph *)(uintptr_t)g;
}

/* --- by name --- */

cr_graph_pass cr_graph_find_pass(const char *name)
{
    static const struct {
        const char *name;
        cr_graph_pass pass;
    } passes[] = {{"dead", cr_graph_dead},           {"common", cr_graph_common},
                  {"fold", cr_graph_fold},           {"precompute", cr_graph_precompute},
                  {"simplify", cr_graph_simplify},   {"functional", cr_graph_functional},
                  {"decompose", cr_graph_decompose}, {"overlap", cr_graph_overlap}};

    for (size_t i = 0; i < CR_LEN(passes); i++)
        if (!strcmp(passes[i].name, name))
            return passes[i].pass;
    return NULL;
}
