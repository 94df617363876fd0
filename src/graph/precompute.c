/* Values that depend on no input: masks, positions, windows.
 *
 * Programs make them in every call from calls without tensors (ones, arange).  Here they are
 * computed once, by the kernels of eager mode.  Only values that a computation makes become
 * constants: a loop that reads ones() or a view of it makes the elements itself.  Such calls
 * stay where other nodes read them. */
#include "graph/rewrite.h"
#include <string.h>

static const int64_t MOST_BYTES = 1 << 20, MOST_TOTAL = 4 << 20;

typedef struct {
    const cr_graph *from;
    cr_graph *out;
    cr_owners owners;
    cr_tensor **known; /* by id in `from`: one reference; NULL: the value is not known */
    size_t at;
    int64_t bytes; /* of the constants that were made */
} precompute;

static int64_t bytes_of(const cr_tensor *t)
{
    return t->numel * (int64_t)cr_dtype_size((cr_dtype)t->dtype);
}

/* --- arguments --- */
static cr_tensor *known_value(const cr_rewrite *w, const cr_gvalue *v)
{
    const precompute *p = w->context;
    const cr_gvalue *now = w->now[v->id];

    if (p->owners.own[v->id])
        return NULL;
    if (now && now->by && now->by->kind == CR_GNODE_CONSTANT)
        return now->by->constant->requires_grad ? NULL : now->by->constant;
    return p->known[v->id];
}

static bool known_arg(const cr_rewrite *w, const cr_garg *a)
{
    if (a->tag == CR_TENSOR)
        return known_value(w, a->value) != NULL;
    for (uint32_t i = 0; a->tag == CR_TENSORS && i < a->len; i++)
        if (!known_arg(w, &a->list[i]))
            return false;
    return a->tag != CR_GENERATOR && a->tag != CR_NUMBERS;
}

static bool may_precompute(const cr_rewrite *w, const cr_gnode *n)
{
    if (n->kind != CR_GNODE_CALL || cr_gnode_has_effect(n) || cr_gnode_has_symbol(n) ||
        cr_gnode_may_raise(n) || n->op->result_count != 1 ||
        n->op->result[0].type != CR_T_TENSOR || n->op->custom ||
        cr_owners_has(&((const precompute *)w->context)->owners, n))
        return false;
    for (int i = 0; i < n->arg_count; i++)
        if (!known_arg(w, &n->arg[i]))
            return false;
    const cr_gtype *type = &n->result[0]->type;
    return (!type->known || (cr_is_host(type->device) && !type->requires_grad)) &&
           !n->result[0]->symbolic;
}

static bool fill_arg(const cr_rewrite *w, cr_session *s, const cr_garg *a, cr_value *out)
{
    *out = (cr_value){.tag = a->tag, .len = a->len};
    if (a->tag == CR_TENSOR) {
        out->t = known_value(w, a->value);
        return true;
    }
    if (a->tag != CR_TENSORS) {
        memcpy(&out->number, &a->number, sizeof a->number);
        return true;
    }
    cr_value *list = cr_arena_get(&s->keep, a->len * sizeof *list + 1);
    for (uint32_t i = 0; list && i < a->len; i++)
        if (!fill_arg(w, s, &a->list[i], &list[i]))
            return false;
    out->list = list;
    return list != NULL;
}

/* NULL on failure, so that the error occurs at run time. */
static cr_tensor *value_now(const cr_rewrite *w, const cr_gnode *n)
{
    cr_value arg[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    cr_thread_state was = cr_thread;

    for (int i = 0; i < n->arg_count; i++)
        if (!fill_arg(w, w->from->session, &n->arg[i], &arg[i]))
            return NULL;
    cr_thread.exclude |= CR_STAGES_UP_TO(CR_STAGE_DEFER);
    cr_thread.no_grad = true;
    cr_thread.fakes = false;
    cr_status st = cr_call(n->op, arg, result);
    cr_thread = was;
    return st ? NULL : result[0].t;
}

/* Whether the value is made by arithmetic: not a view, nor a call without tensors. */
static bool is_computed(const cr_gnode *n)
{
    bool any = false;

    for (int i = 0; i < n->arg_count; i++)
        any |= n->arg[i].tag == CR_TENSOR || n->arg[i].tag == CR_TENSORS;
    return any && !n->op->result[0].alias && n->op->does != CR_DOES_MAP;
}

static bool has_type(const cr_tensor *t, const cr_gtype *type)
{
    return cr_is_host(t->device) && !t->requires_grad &&
           (!type->known || (t->dtype == type->dtype && t->ndim == type->ndim &&
                             !memcmp(t->size, type->size, t->ndim * sizeof *t->size)));
}

static bool precompute_node(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    precompute *p = w->context;
    const cr_gvalue *v = n->result_count == 1 ? n->result[0] : NULL;
    bool past = cr_owners_past(&p->owners, w, to, &p->at);

    if (past || !v || !may_precompute(w, n))
        return false;
    cr_tensor *t = value_now(w, n);
    if (!t || bytes_of(t) > MOST_BYTES || t->layout || !has_type(t, &v->type)) {
        cr_drop(t);
        return false;
    }
    p->known[v->id] = t;
    if (!is_computed(n) || p->bytes + bytes_of(t) > MOST_TOTAL)
        return false;
    p->bytes += bytes_of(t);
    w->now[v->id] = cr_graph_constant(w->to, to, t, v->name);
    return true;
}

static void run_precompute(cr_session *s, void *context)
{
    precompute *p = context;
    cr_rewrite w = {.from = p->from, .node = precompute_node, .context = p};

    (void)s;
    p->out = cr_rewrite_run(&w);
}

cr_graph *cr_graph_precompute(const cr_graph *g)
{
    precompute p = {.from = g, .out = (cr_graph *)(uintptr_t)g};
    cr_status st = CR_OK;

    if (!cr_owners_find(&p.owners, g))
        return p.out;
    p.known = cr_alloc_zero(((size_t)g->values + 1) * sizeof *p.known);
    if (p.known)
        st = cr_session_run(g->session, run_precompute, &p);
    for (size_t i = 0; p.known && i < (size_t)g->values; i++)
        cr_drop(p.known[i]);
    cr_free(p.known);
    cr_session_check(g->session, st);
    return p.out;
}
