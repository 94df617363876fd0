/* Joins batch norm on a device with the relu behind it, and its gradient with relu's.
 *
 *     relu(norm), relu(norm + other)        one call, in norm's last pass
 *     gradient of norm of relu's gradient   one call
 *
 * Where relu's argument is norm's result, the gradient's call computes it again; else the call
 * reads relu's result.  The calls compute the steps in the same order and round after each, so
 * bits stay.  Computing it again needs norm's arguments, so the pass takes joint graphs, too.
 *
 * Invariant: a value that is left out is read by the nodes that are joined alone. */
#include "compile/compile.h"
#include "entry.h"
#include "graph/rewrite.h"

enum { INPUT, WEIGHT, BIAS, EPS };                           /* of _batch_norm_channels */
enum { GRAD, OF, SCALE, MEAN, INVSTD, TRAINING };            /* of _batch_norm_backward */
enum { OUT, OUT_MEAN, OUT_INVSTD, OUT_VAR, MOST_GIVEN = 7 }; /* results; most arguments */

/* The call that a node becomes. */
typedef struct {
    const cr_op *op; /* NULL: none */
    cr_garg arg[MOST_GIVEN];
    int args;
    const cr_gvalue *result[4]; /* of the old graph */
} joined;

typedef struct {
    const cr_graph *g;
    uint32_t *readers; /* by value id */
    size_t *place;     /* by value id: of its node, from 1; inputs have 0.  The gradient of a
                        * relu that is joined is made at its reader. */
    size_t *first;     /* by value id: place of the first reader */
    size_t at;         /* place of the node that is visited */
    joined **by;       /* by value id, of a node's first result */
    bool *left_out;    /* likewise */
    bool any;
} joiner;

/* --- facts --- */

static void count(void *context, cr_gvalue *v)
{
    joiner *x = context;

    x->readers[v->id]++;
    if (!x->first[v->id])
        x->first[v->id] = x->at;
}

static bool calls(const cr_gvalue *v, const cr_op *op, int result)
{
    return v->by && v->by->kind == CR_GNODE_CALL && v->by->op == op && v->index == result;
}

static bool alike(const cr_gvalue *a, const cr_gvalue *b)
{
    const cr_gtype *t = &a->type, *u = &b->type;

    return t->known && u->known && t->dtype == u->dtype && t->ndim == u->ndim &&
           cr_same_device(t->device, u->device) &&
           !memcmp(t->size, u->size, t->ndim * sizeof *t->size) &&
           (t->stride && u->stride ? !memcmp(t->stride, u->stride, t->ndim * sizeof *t->stride)
                                   : t->stride == u->stride);
}

/* The sum of two values alike. */
static bool is_sum(const cr_gvalue *v)
{
    const cr_garg *a = v->by ? v->by->arg : NULL;

    return calls(v, cr_entry.add, 0) && a[0].tag == CR_TENSOR && a[1].tag == CR_TENSOR &&
           cr_scalar_as_double(a[2].number) == 1 && alike(a[0].value, v) &&
           alike(a[1].value, v);
}

static bool is_norm(const joiner *x, const cr_gvalue *v)
{
    return calls(v, cr_entry._batch_norm_channels, OUT) && x->readers[v->id] == 1 &&
           !x->by[v->id];
}

static void join(joiner *x, const cr_gnode *n, const joined *call)
{
    joined *j = x->by[n->result[0]->id] = CR_NEW(x->g->session, joined);

    *j = *call;
    x->any = true;
}

static void leave_out(const joiner *x, const cr_gvalue *v)
{
    x->left_out[v->by->result[0]->id] = true;
}

/* --- forward --- */

static void join_norm(joiner *x, const cr_gvalue *norm, cr_gvalue *other, const cr_gvalue *relu)
{
    const cr_gnode *n = norm->by;

    join(x, n,
         &(joined){
             .op = cr_entry._batch_norm_relu,
             .arg = {n->arg[INPUT], n->arg[WEIGHT], n->arg[BIAS], cr_garg_value(other),
                     n->arg[EPS]},
             .args = 5,
             .result = {relu, n->result[OUT_MEAN], n->result[OUT_INVSTD], n->result[OUT_VAR]}});
    leave_out(x, relu);
}

/* Of two batch norms that are added, the later one reads the other's result. */
static void find_relu(joiner *x, const cr_gvalue *relu)
{
    cr_gvalue *of = relu->by->arg[0].value;

    if (!alike(of, relu) || x->readers[of->id] != 1)
        return;
    if (is_norm(x, of))
        join_norm(x, of, NULL, relu);
    for (int k = 0; is_sum(of) && k < 2; k++) {
        cr_gvalue *norm = of->by->arg[k].value, *other = of->by->arg[1 - k].value;
        if (is_norm(x, norm) && x->place[other->id] < x->place[norm->id]) {
            join_norm(x, norm, other, relu);
            leave_out(x, of);
            return;
        }
    }
}

/* --- backward --- */

static bool same_argument(const cr_garg *a, const cr_garg *b)
{
    return a->tag == b->tag && (a->tag != CR_TENSOR || a->value == b->value);
}

/* The gradient `n` is that of the batch norm whose result is the argument of `relu`. */
static bool is_gradient_of(const cr_gnode *n, const cr_gvalue *relu)
{
    const cr_gvalue *of = calls(relu, cr_entry.relu, 0) ? relu->by->arg[0].value : NULL;
    const cr_gnode *norm = of && calls(of, cr_entry._batch_norm_channels, OUT) ? of->by : NULL;

    if (!norm || norm->arg[WEIGHT].tag != norm->arg[BIAS].tag)
        return false;
    return same_argument(&n->arg[OF], &norm->arg[INPUT]) &&
           same_argument(&n->arg[SCALE], &norm->arg[WEIGHT]) &&
           n->arg[MEAN].value == norm->result[OUT_MEAN] &&
           n->arg[INVSTD].value == norm->result[OUT_INVSTD] &&
           (norm->arg[BIAS].tag != CR_TENSOR ||
            norm->arg[BIAS].value->type.dtype == norm->arg[WEIGHT].value->type.dtype);
}

static void join_again(joiner *x, const cr_gnode *n, const cr_gvalue *grad)
{
    const cr_garg *relu = &grad->by->arg[1], *bias = &relu->value->by->arg[0];

    bias = &bias->value->by->arg[BIAS];
    join(x, n,
         &(joined){.op = cr_entry._batch_norm_relu_backward,
                   .arg = {grad->by->arg[0], n->arg[OF], n->arg[SCALE], *bias, n->arg[MEAN],
                           n->arg[INVSTD]},
                   .args = 6,
                   .result = {n->result[0], n->result[1], n->result[2]}});
    leave_out(x, grad);
}

static void join_masked(joiner *x, const cr_gnode *n, const cr_gvalue *grad)
{
    cr_gvalue *from = grad->by->arg[0].value, *other = NULL;

    if (is_sum(from) && x->readers[from->id] == 1) {
        other = from->by->arg[1].value;
        leave_out(x, from);
        from = from->by->arg[0].value;
    }
    join(x, n,
         &(joined){.op = cr_entry._batch_norm_masked_backward,
                   .arg = {cr_garg_value(from), cr_garg_value(other), grad->by->arg[1],
                           n->arg[OF], n->arg[SCALE], n->arg[MEAN], n->arg[INVSTD]},
                   .args = 7,
                   .result = {n->result[0], n->result[1], n->result[2], grad}});
    leave_out(x, grad);
    x->place[grad->id] = x->at;
}

static void find_gradient(joiner *x, const cr_gnode *n)
{
    const cr_gvalue *grad = n->arg[GRAD].value, *of = n->arg[OF].value;
    const cr_garg *relu = grad->by ? grad->by->arg : NULL;

    if (!n->arg[TRAINING].i || !calls(grad, cr_entry.threshold_backward, 0) ||
        cr_scalar_as_double(relu[2].number) != 0 || x->left_out[grad->id] || !alike(grad, of) ||
        !alike(relu[0].value, of) || !alike(relu[1].value, of) || !alike(n->result[0], of))
        return;
    if (x->readers[grad->id] == 1 && is_gradient_of(n, relu[1].value))
        join_again(x, n, grad);
    else if (x->first[grad->id] == x->at)
        join_masked(x, n, grad);
}

/* --- the new graph --- */

static bool emit(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    const joiner *x = w->context;
    const joined *j = n->result_count ? x->by[n->result[0]->id] : NULL;
    const char *name[4];
    cr_garg arg[CR_MAX_ARGS];

    if (n->result_count && x->left_out[n->result[0]->id])
        return true;
    if (!j)
        return false;
    for (int i = 0; i < j->args; i++)
        arg[i] = cr_garg_copy(w->to, &j->arg[i], cr_rewrite_value, w);
    for (int k = 0; k < j->op->result_count; k++)
        name[k] = j->result[k]->name;
    cr_gnode *made = cr_graph_call(w->to, to, j->op, arg, j->op->result_count, name);
    made->source = n->source;
    for (int k = 0; k < made->result_count; k++) {
        made->result[k]->type = j->result[k]->type;
        w->now[j->result[k]->id] = made->result[k];
    }
    return true;
}

static bool is_one_of(const cr_gnode *n, const cr_op *op)
{
    return n->kind == CR_GNODE_CALL && n->op == op;
}

cr_graph *cr_compile_norm_relu(const cr_graph *g)
{
    cr_session *s = g->session;
    joiner x = {.g = g,
                .readers = CR_NEW_N(s, uint32_t, g->values),
                .place = CR_NEW_N(s, size_t, g->values),
                .first = CR_NEW_N(s, size_t, g->values),
                .by = CR_NEW_N(s, joined *, g->values),
                .left_out = CR_NEW_N(s, bool, g->values)};
    cr_rewrite w = {.from = g, .node = emit, .context = &x};
    cr_owners owners;

    if (!cr_owners_find(&owners, g))
        return (cr_graph *)(uintptr_t)g;
    for (size_t i = 0; i < g->body->len; i++) {
        x.at = i + 1;
        for (int k = 0; k < g->body->at[i]->result_count; k++)
            x.place[g->body->at[i]->result[k]->id] = x.at;
        cr_gnode_each_read(g->body->at[i], count, &x);
        for (int k = 0; k < cr_gnode_blocks(g->body->at[i]); k++)
            cr_gblock_each_read(g->body->at[i]->block[k], count, &x);
    }
    x.at = g->body->len + 1;
    cr_gblock_each_output(g->body, count, &x);
    for (size_t i = 0; i < owners.end; i++) {
        x.at = i + 1;
        if (is_one_of(g->body->at[i], cr_entry.relu))
            find_relu(&x, g->body->at[i]->result[0]);
        else if (is_one_of(g->body->at[i], cr_entry._batch_norm_backward))
            find_gradient(&x, g->body->at[i]);
    }
    return x.any ? cr_rewrite_run(&w) : (cr_graph *)(uintptr_t)g;
}
