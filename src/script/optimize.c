/* Changes of frozen graphs that keep results but for rounding: dropouts that do nothing go, and
 * batch norms behind convolutions become part of their weights. */
#include "autograd/autograd.h"
#include "entry.h"
#include "script/freeze.h"
#include "script/passes.h"
#include <string.h>

/* --- dropouts --- */

/* An operator on (input, p, train) draws while training only. */
static bool optimize_is_idle(const cr_snode *n)
{
    const cr_sschema *s = n->prim == CR_SPRIM_OPERATOR ? n->schema : NULL;
    const cr_sconstant *train;

    if (!s || s->param_count != 3 || strcmp(s->param[1].name, "p") ||
        strcmp(s->param[2].name, "train"))
        return false;
    train = cr_svalue_constant(n->input[2]);
    return train && train->type->kind == CR_STYPE_BOOL && !train->i;
}

static void optimize_dropouts(cr_sblock *b)
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->block_count; i++)
            optimize_dropouts(n->block[i]);
        if (!optimize_is_idle(n))
            continue;
        cr_svalue_replace(b->graph, n->output[0], n->input[0]);
        cr_snode_remove(n);
    }
}

/* --- batch norms --- */

/* Places of the operators' arguments. */
enum { CONV_WEIGHT = 1, CONV_BIAS = 2 };
enum { NORM_WEIGHT = 1, NORM_BIAS, NORM_MEAN, NORM_VAR, NORM_TRAINING, NORM_EPS = 7 };

static bool optimize_is_conv(const cr_snode *n)
{
    const cr_op *op = n && n->prim == CR_SPRIM_OPERATOR ? n->schema->op : NULL;

    return op && (op == cr_entry.conv1d || op == cr_entry.conv2d || op == cr_entry.conv3d);
}

/* How many nodes read the number of dims of a value: they do not see its elements. */
static int optimize_dims_of(const cr_sblock *b, const cr_svalue *v)
{
    int found = 0;

    for (const cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->block_count; i++)
            found += optimize_dims_of(n->block[i], v);
        found += n->prim == CR_SPRIM_OPERATOR && !strcmp(n->schema->name, "aten::dim") &&
                 n->input[0] == v;
    }
    return found;
}

/* Whether a node computes `v.dim() != dims`. */
static bool optimize_compares(const cr_snode *n, const cr_svalue *v, int64_t dims)
{
    const cr_snode *read = n && !strcmp(cr_snode_kind(n), "aten::ne") ? n->input[0]->by : NULL;
    const cr_sconstant *number = read ? cr_svalue_constant(n->input[1]) : NULL;

    return number && number->type->kind == CR_STYPE_INT && number->i == dims &&
           !strcmp(cr_snode_kind(read), "aten::dim") && read->input[0] == v;
}

/* Whether the block raises an error unless the value has so many dims. */
static bool optimize_refuses_others(const cr_sblock *b, const cr_svalue *v, int64_t dims)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        if (n->prim != CR_SPRIM_IF || !optimize_compares(n->input[0]->by, v, dims))
            continue;
        for (const cr_snode *inner = n->block[0]->first; inner; inner = inner->next)
            if (cr_snode_raises(inner))
                return true;
    }
    return false;
}

/* A constant that is a tensor, or None. */
static bool optimize_is_known(const cr_svalue *v, bool none)
{
    const cr_sconstant *c = cr_svalue_constant(v);

    return c && (c->type->kind == CR_STYPE_TENSOR || (none && c->type->kind == CR_STYPE_NONE));
}

static cr_tensor *optimize_tensor(const cr_svalue *v)
{
    const cr_sconstant *c = cr_svalue_constant(v);

    return c->type->kind == CR_STYPE_TENSOR ? c->tensor : NULL;
}

/* The convolution whose elements only this batch norm reads, with constants that can be joined;
 * NULL: there is none.  The norm of an unbatched result is that of another dim than the
 * convolution's channels, so a check must refuse it. */
static cr_snode *optimize_conv_of(const cr_snode *n)
{
    cr_snode *conv = n->prim == CR_SPRIM_OPERATOR && n->schema->op == cr_entry.batch_norm
                         ? n->input[0]->by
                         : NULL;
    const cr_sconstant *training, *eps;
    const cr_tensor *weight, *var;

    if (!optimize_is_conv(conv) ||
        conv->output[0]->uses != 1 + optimize_dims_of(conv->owner, conv->output[0]) ||
        !optimize_is_known(conv->input[CONV_WEIGHT], false) ||
        !optimize_is_known(conv->input[CONV_BIAS], true))
        return NULL;
    for (int i = NORM_WEIGHT; i <= NORM_VAR; i++)
        if (!optimize_is_known(n->input[i], i < NORM_MEAN))
            return NULL;
    training = cr_svalue_constant(n->input[NORM_TRAINING]);
    eps = cr_svalue_constant(n->input[NORM_EPS]);
    weight = optimize_tensor(conv->input[CONV_WEIGHT]);
    var = optimize_tensor(n->input[NORM_VAR]);
    return training && !training->i && eps && eps->type->kind == CR_STYPE_FLOAT &&
                   weight->dtype == var->dtype && weight->size[0] == var->size[0] &&
                   optimize_refuses_others(n->owner, conv->output[0], weight->ndim)
               ? conv
               : NULL;
}

/* The norm of rows (N, C), with another mean and without its bias where `scales`. */
static cr_status optimize_norm(cr_tensor **out, const cr_snode *n, cr_tensor *rows, bool scales)
{
    cr_tensor *mean = optimize_tensor(n->input[NORM_MEAN]), *zero = NULL;
    cr_value like[] = {cr_of_tensor(mean)};

    if (scales)
        CR_TRY(cr_call_tensor(&zero, cr_entry.zeros_like, like, 1));
    cr_value arg[] = {cr_of_tensor(rows),
                      cr_of_tensor(optimize_tensor(n->input[NORM_WEIGHT])),
                      cr_of_tensor(scales ? NULL : optimize_tensor(n->input[NORM_BIAS])),
                      cr_of_tensor(scales ? zero : mean),
                      cr_of_tensor(optimize_tensor(n->input[NORM_VAR])),
                      cr_of_bool(false),
                      cr_of_float(0),
                      cr_of_float(cr_svalue_constant(n->input[NORM_EPS])->d[0]),
                      cr_of_bool(true)};
    cr_status st = cr_call_tensor(out, cr_entry.batch_norm, arg, 9);
    cr_drop(zero);
    return st;
}

/* The weight (C, ...) as rows (N, C), scaled, in its own shape again. */
static cr_status optimize_weight(cr_tensor **out, const cr_snode *n, cr_tensor *weight)
{
    const int64_t flat[] = {weight->size[0], -1};
    cr_tensor *t[3] = {NULL};
    cr_status st;

    CR_GO(cr_call_tensor(&t[0], cr_entry.reshape,
                         (cr_value[]){cr_of_tensor(weight), cr_of_ints(flat, 2)}, 2));
    CR_GO(cr_call_tensor(&t[1], cr_entry.t, (cr_value[]){cr_of_tensor(t[0])}, 1));
    CR_GO(optimize_norm(&t[2], n, t[1], true));
    cr_drop(t[1]);
    t[1] = NULL;
    CR_GO(cr_call_tensor(&t[1], cr_entry.t, (cr_value[]){cr_of_tensor(t[2])}, 1));
    CR_GO(cr_call_tensor(
        out, cr_entry.reshape,
        (cr_value[]){cr_of_tensor(t[1]), cr_of_ints(weight->size, (size_t)weight->ndim)}, 2));
done:
    for (int i = 0; i < 3; i++)
        cr_drop(t[i]);
    return st;
}

/* The bias, zeros where there is none, as one row that is normed. */
static cr_status optimize_bias(cr_tensor **out, const cr_snode *n, cr_tensor *bias)
{
    cr_value like[] = {cr_of_tensor(optimize_tensor(n->input[NORM_MEAN]))};
    cr_tensor *zero = NULL, *row = NULL, *made = NULL;
    cr_status st;

    if (!bias)
        CR_GO(cr_call_tensor(&zero, cr_entry.zeros_like, like, 1));
    CR_GO(cr_call_tensor(&row, cr_entry.unsqueeze,
                         (cr_value[]){cr_of_tensor(bias ? bias : zero), cr_of_int(0)}, 2));
    CR_GO(optimize_norm(&made, n, row, false));
    CR_GO(cr_call_tensor(out, cr_entry.squeeze_dim,
                         (cr_value[]){cr_of_tensor(made), cr_of_int(0)}, 2));
done:
    cr_drop(zero);
    cr_drop(row);
    cr_drop(made);
    return st;
}

/* A constant before the node.  Takes ownership of the tensor. */
static cr_svalue *optimize_constant(cr_snode *at, cr_tensor *t)
{
    cr_sgraph *g = at->owner->graph;
    cr_sconstant *value = CR_NEW(g->session, cr_sconstant);
    cr_snode *n = cr_snode_before(at, CR_SPRIM_CONSTANT, at->range);

    cr_sunit_keep_tensor(g->unit, t);
    cr_drop(t);
    *value = (cr_sconstant){.type = CR_STYPE_OF(TENSOR), .tensor = t};
    n->value = value;
    return cr_snode_output(n, NULL, value->type);
}

static void optimize_join(cr_snode *conv, cr_snode *n)
{
    cr_session *s = n->owner->graph->session;
    cr_tensor *weight = NULL, *bias = NULL;
    bool before = cr_thread.no_grad;

    cr_thread.no_grad = true;
    cr_status st = optimize_weight(&weight, n, optimize_tensor(conv->input[CONV_WEIGHT]));
    st = st ? st : optimize_bias(&bias, n, optimize_tensor(conv->input[CONV_BIAS]));
    cr_thread.no_grad = before;
    if (st)
        cr_drop(weight);
    cr_session_check(s, st);
    cr_snode_set_input(conv, CONV_WEIGHT, optimize_constant(conv, weight));
    cr_snode_set_input(conv, CONV_BIAS, optimize_constant(conv, bias));
    cr_svalue_replace(n->owner->graph, n->output[0], n->input[0]);
    cr_snode_remove(n);
}

static void optimize_norms(cr_sblock *b)
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        cr_snode *conv = optimize_conv_of(n);
        next = n->next;
        for (int i = 0; i < n->block_count; i++)
            optimize_norms(n->block[i]);
        if (conv)
            optimize_join(conv, n);
    }
}

void cr_spass_dropouts(cr_sgraph *g) { optimize_dropouts(g->body); }

void cr_spass_norms(cr_sgraph *g)
{
    optimize_norms(g->body);
    cr_spass_dead(g);
}

static void optimize_methods(cr_session *s, void *context)
{
    const cr_sclass *cls = context;

    (void)s;
    for (size_t i = 0; i < cls->method_count; i++) {
        cr_sfunction *f = cls->method[i];
        if (!f->graph || f->code) /* the executor reads a graph that has run */
            continue;
        cr_spasses_optimize(f->graph);
    }
}

cr_status cr_sobject_optimize(const cr_ivalue *frozen)
{
    cr_sclass *cls = frozen->object->type->cls;

    return cr_session_run(cr_sunit_session(cls->unit), optimize_methods, cls);
}
