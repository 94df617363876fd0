/* Replaces batch norm with given statistics by its parts.
 *
 * Eager computes (x - mean) * (rsqrt(var + eps) * weight) + bias in this order, and so do the
 * parts, with equal bits.  Operands with one value for each channel stay vectors, so that
 * constant statistics are folded. */
#include "compile/compile.h"
#include "entry.h"
#include "graph/rewrite.h"
#include <string.h>

enum { INPUT, WEIGHT, BIAS, MEAN, VAR, TRAINING, MOMENTUM, EPS };

typedef struct {
    bool *read; /* by value id */
    bool any;
} norms;

static void mark(void *context, cr_gvalue *v) { ((norms *)context)->read[v->id] = true; }

static bool floats(const cr_garg *a, cr_dtype t)
{
    return a->tag == CR_NONE ||
           (a->tag == CR_TENSOR && a->value->type.known && a->value->type.dtype == t &&
            cr_is_host(a->value->type.device));
}

static bool is_norm(const norms *x, const cr_gnode *n)
{
    const cr_gtype *t;

    if (n->kind != CR_GNODE_CALL || n->op != cr_entry.native_batch_norm || n->arg[TRAINING].i ||
        x->read[n->result[1]->id] || x->read[n->result[2]->id])
        return false;
    t = &n->arg[INPUT].value->type;
    if (!t->known || t->ndim < 2 || !cr_gtype_is_contiguous(t) ||
        (t->dtype != CR_F32 && t->dtype != CR_F64))
        return false;
    for (int i = INPUT; i <= VAR; i++)
        if (!floats(&n->arg[i], (cr_dtype)t->dtype) ||
            (i && n->arg[i].tag == CR_TENSOR && n->arg[i].value->type.ndim != 1))
            return false;
    return n->arg[MEAN].tag == CR_TENSOR && n->arg[VAR].tag == CR_TENSOR;
}

/* A call with the given arguments and defaults for the others; its result has type `t`. */
static cr_gvalue *call(cr_rewrite *w, cr_gblock *to, const cr_op *op, const cr_garg *given,
                       int n, const cr_gtype *t, const char *source)
{
    cr_garg arg[CR_MAX_ARGS];

    for (int i = 0; i < op->param_count; i++) {
        arg[i] = (cr_garg){.tag = op->param[i].preset.tag};
        memcpy(&arg[i].number, &op->param[i].preset.number, sizeof arg[i].number);
        if (i < n)
            arg[i] = given[i];
    }
    cr_gnode *made = cr_graph_call(w->to, to, op, arg, 1, NULL);
    made->source = source;
    made->result[0]->type = *t;
    made->result[0]->type.requires_grad = false;
    return made->result[0];
}

typedef struct {
    cr_rewrite *w;
    cr_gblock *to;
    const cr_gnode *n;
} norm;

static cr_gvalue *two(const norm *x, const cr_op *op, cr_gvalue *a, cr_gvalue *b,
                      const cr_gtype *t)
{
    return call(x->w, x->to, op, (cr_garg[]){cr_garg_value(a), cr_garg_value(b)}, 2, t,
                x->n->source);
}

static cr_gvalue *argument(const norm *x, int i)
{
    return x->n->arg[i].tag == CR_TENSOR ? x->w->now[x->n->arg[i].value->id] : NULL;
}

/* rsqrt(var + eps) * weight */
static cr_gvalue *scale(const norm *x)
{
    cr_gvalue *var = argument(x, VAR), *weight = argument(x, WEIGHT);
    cr_garg plus[] = {cr_garg_value(var),
                      {.tag = CR_NUMBER, .number = cr_scalar_float(x->n->arg[EPS].d)}};
    cr_gvalue *sum = call(x->w, x->to, cr_entry.add, plus, 2, &var->type, x->n->source);
    cr_gvalue *r = call(x->w, x->to, cr_entry.rsqrt, (cr_garg[]){cr_garg_value(sum)}, 1,
                        &var->type, x->n->source);

    return weight ? two(x, cr_entry.mul, r, weight, &var->type) : r;
}

/* Reshapes a vector with one value for each channel so that it broadcasts over the input. */
static cr_gvalue *per_channel(const norm *x, cr_gvalue *v)
{
    cr_session *s = x->w->to->session;
    int ndim = x->n->arg[INPUT].value->type.ndim;
    int64_t *size = CR_NEW_N(s, int64_t, ndim);
    cr_gtype t = v->type;

    for (int d = 0; d < ndim; d++)
        size[d] = d == 1 ? v->type.size[0] : 1;
    t.ndim = (uint8_t)ndim;
    t.size = size;
    t.stride = NULL;
    return call(
        x->w, x->to, cr_entry.reshape,
        (cr_garg[]){cr_garg_value(v), {.tag = CR_INTS, .len = (uint32_t)ndim, .ints = size}}, 2,
        &t, x->n->source);
}

static bool take_apart(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    norm x = {w, to, n};

    if (!is_norm(w->context, n))
        return false;
    const cr_gtype *t =
        n->result[0]->type.known ? &n->result[0]->type : &n->arg[INPUT].value->type;
    cr_gvalue *y =
        two(&x, cr_entry.sub, argument(&x, INPUT), per_channel(&x, argument(&x, MEAN)), t);
    y = two(&x, cr_entry.mul, y, per_channel(&x, scale(&x)), t);
    if (argument(&x, BIAS))
        y = two(&x, cr_entry.add, y, per_channel(&x, argument(&x, BIAS)), t);
    w->now[n->result[0]->id] = y;
    return true;
}

cr_graph *cr_compile_norms(const cr_graph *g)
{
    norms x = {.read = CR_NEW_N(g->session, bool, g->values)};
    cr_rewrite w = {.from = g, .node = take_apart, .context = &x};

    cr_gblock_each_read(g->body, mark, &x);
    for (size_t i = 0; i < g->body->len; i++)
        x.any = x.any || is_norm(&x, g->body->at[i]);
    return x.any ? cr_rewrite_run(&w) : (cr_graph *)(uintptr_t)g;
}
