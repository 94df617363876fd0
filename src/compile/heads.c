/* Stores the gradients of attention on a device side by side where a program concatenates them.
 *
 *     cat of the heads of query's, key's and value's gradients    one call, which stores there
 *
 * The gradients of parts of one projection are concatenated; the kernels store to any strides.
 * The elements are the same.
 *
 * Invariant: the gradients have no other reader. */
#include "compile/compile.h"
#include "entry.h"
#include "graph/rewrite.h"

enum { GRADIENTS = 3, QUERY = 1, KEY = 2, POSITIONS = 1, HEADS = 2 };

typedef struct {
    uint32_t *readers;    /* by value id */
    const cr_gnode **cat; /* by id of the first gradient: the node that joins them, or NULL */
    bool *left_out;       /* by id of a node's first result */
    bool any;
} joiner;

static void count(void *context, cr_gvalue *v) { ((joiner *)context)->readers[v->id]++; }

static bool is_call(const cr_gnode *n, const cr_op *op)
{
    return n && n->kind == CR_GNODE_CALL && n->op == op;
}

static bool swaps(const cr_gnode *n)
{
    int64_t a = n->arg[1].i, b = n->arg[2].i;

    a = a < 0 ? a + 4 : a;
    b = b < 0 ? b + 4 : b;
    return (a == POSITIONS && b == HEADS) || (a == HEADS && b == POSITIONS);
}

/* The gradient of which `v` has the heads of each position one after the other; NULL: none. */
static const cr_gvalue *gradient_of(const joiner *x, const cr_gvalue *v)
{
    const cr_gnode *view =
        x->readers[v->id] == 1 && is_call(v->by, cr_entry.view) ? v->by : NULL;
    const cr_gvalue *turned = view ? view->arg[0].value : NULL;

    if (!turned || v->type.ndim != 3 || turned->type.ndim != 4 || x->readers[turned->id] != 1 ||
        !is_call(turned->by, cr_entry.transpose_int) || !swaps(turned->by) ||
        v->type.size[0] != turned->type.size[0] || v->type.size[1] != turned->type.size[1])
        return NULL;
    const cr_gvalue *made = turned->by->arg[0].value;
    return x->readers[made->id] == 1 && is_call(made->by, cr_entry._attention_backward) ? made
                                                                                        : NULL;
}

static void leave_out(joiner *x, const cr_gvalue *v)
{
    for (int k = 0; k < 2; k++, v = v->by->arg[0].value)
        x->left_out[v->id] = true;
}

static void find(joiner *x, const cr_gnode *cat)
{
    const cr_garg *list = &cat->arg[0];
    const cr_gtype *t = &cat->result[0]->type;
    const cr_gvalue *of[GRADIENTS];

    if (list->len != GRADIENTS || (cat->arg[1].i != 2 && cat->arg[1].i != -1) || !t->known ||
        t->stride || cr_is_host(t->device))
        return;
    for (int k = 0; k < GRADIENTS; k++) {
        of[k] = gradient_of(x, list->list[k].value);
        if (!of[k] || of[k]->by != of[0]->by || of[k]->index != k)
            return;
    }
    if (of[0]->by->arg[QUERY].value->type.size[2] != of[0]->by->arg[KEY].value->type.size[2])
        return;
    x->cat[of[0]->id] = cat;
    x->left_out[cat->result[0]->id] = x->any = true;
    for (int k = 0; k < GRADIENTS; k++)
        leave_out(x, list->list[k].value);
}

static bool emit(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    const joiner *x = w->context;
    const cr_gnode *cat = n->result_count ? x->cat[n->result[0]->id] : NULL;
    cr_garg arg[CR_MAX_ARGS];

    if (n->result_count && x->left_out[n->result[0]->id])
        return true;
    if (!cat)
        return false;
    for (int i = 0; i < n->arg_count; i++)
        arg[i] = cr_garg_copy(w->to, &n->arg[i], cr_rewrite_value, w);
    cr_gnode *made = cr_graph_call(w->to, to, cr_entry._attention_backward_joined, arg, 1,
                                   &cat->result[0]->name);
    made->source = n->source;
    made->result[0]->type = cat->result[0]->type;
    w->now[cat->result[0]->id] = made->result[0];
    return true;
}

cr_graph *cr_compile_heads(const cr_graph *g)
{
    cr_session *s = g->session;
    joiner x = {.readers = CR_NEW_N(s, uint32_t, g->values),
                .cat = CR_NEW_N(s, const cr_gnode *, g->values),
                .left_out = CR_NEW_N(s, bool, g->values)};
    cr_rewrite w = {.from = g, .node = emit, .context = &x};
    cr_owners owners;

    if (!cr_owners_find(&owners, g))
        return (cr_graph *)(uintptr_t)g;
    cr_gblock_each_read(g->body, count, &x);
    for (size_t i = 0; i < owners.end; i++)
        if (is_call(g->body->at[i], cr_entry.cat))
            find(&x, g->body->at[i]);
    return x.any ? cr_rewrite_run(&w) : (cr_graph *)(uintptr_t)g;
}
