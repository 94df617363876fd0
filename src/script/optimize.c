/* Changes of frozen graphs that keep results but for rounding: dropouts that do nothing go, and
 * batch norms, sums and products behind convolutions and linear layers become part of their
 * weights.  As in torch, channels are those of a batch: of the second dim of a convolution's
 * result, also where the result has no batch, and of the last dim of a linear layer's. */
#include "autograd/autograd.h"
#include "entry.h"
#include "script/alias.h"
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

/* --- detached values --- */

static bool optimize_is_named(const cr_snode *n, const char *name)
{
    return n->prim == CR_SPRIM_OPERATOR && !strcmp(n->schema->name, name);
}

/* Whether the block compares values by identity. */
static bool optimize_compares_identity(const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        if (optimize_is_named(n, "aten::__is__") || optimize_is_named(n, "aten::__isnot__"))
            return true;
        for (int i = 0; i < n->block_count; i++)
            if (optimize_compares_identity(n->block[i]))
                return true;
    }
    return false;
}

static void optimize_detached(const cr_salias *a, cr_sblock *b)
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->block_count; i++)
            optimize_detached(a, n->block[i]);
        if (!optimize_is_named(n, "aten::detach") || cr_salias_is_changed(a, n->output[0]))
            continue;
        cr_svalue_replace(b->graph, n->output[0], n->input[0]);
        cr_snode_remove(n);
    }
}

/* --- layers whose results are scaled --- */

/* Places of the operators' arguments. */
enum { LAYER_WEIGHT = 1, LAYER_BIAS };
enum { NORM_WEIGHT = 1, NORM_BIAS, NORM_MEAN, NORM_VAR, NORM_TRAINING, NORM_EPS = 7 };
enum { TERM_OTHER = 1, TERM_ALPHA };

/* A convolution or linear layer with constant parameters. */
typedef struct {
    cr_snode *node;
    cr_tensor *weight, *bias; /* bias: NULL where it is None */
    int64_t channels, groups;
    bool transposed, linear;
} layer;

/* What becomes of its result, by channel: ((y - alpha * minus) * times / over) + alpha * plus.
 * NULL: nothing.  The change owns the tensors. */
typedef struct {
    cr_tensor *minus, *times, *over, *plus;
    cr_scalar alpha;
    bool casts; /* the results get the weight's dtype */
} change;

static void optimize_drop_change(change *c)
{
    cr_drop(c->minus);
    cr_drop(c->times);
    cr_drop(c->over);
    cr_drop(c->plus);
    *c = (change){.alpha = cr_scalar_int(1)};
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

/* The place of a parameter; -1: there is none. */
static int optimize_param(const cr_sschema *s, const char *name)
{
    for (int i = 0; i < s->param_count; i++)
        if (!strcmp(s->param[i].name, name))
            return i;
    return -1;
}

/* The layers' operators have a weight and a bias behind the input; those of convolutions also
 * have groups and a dilation. */
static bool optimize_is_layer(const cr_snode *n)
{
    const cr_sschema *s = n && n->prim == CR_SPRIM_OPERATOR ? n->schema : NULL;

    if (!s || !s->op || s->param_count < 3 || n->input_count != s->param_count ||
        optimize_param(s, "input") != 0 || optimize_param(s, "weight") != LAYER_WEIGHT ||
        optimize_param(s, "bias") != LAYER_BIAS)
        return false;
    return s->op == cr_entry.linear ||
           (optimize_param(s, "groups") >= 0 && optimize_param(s, "dilation") >= 0);
}

/* Whether it is transposed, and its groups, where these are known. */
static bool optimize_conv(layer *out)
{
    const cr_snode *n = out->node;
    int transposed = optimize_param(n->schema, "transposed");
    const cr_sconstant *groups =
        cr_svalue_constant(n->input[optimize_param(n->schema, "groups")]);
    const cr_sconstant *given =
        transposed < 0 ? NULL : cr_svalue_constant(n->input[transposed]);

    if (!groups || groups->type->kind != CR_STYPE_INT || groups->i < 1 ||
        out->weight->ndim < 3 || out->weight->size[0] % groups->i)
        return false;
    if (transposed >= 0 && (!given || given->type->kind != CR_STYPE_BOOL))
        return false;
    out->transposed = given ? given->i : optimize_param(n->schema, "output_padding") >= 0;
    out->groups = groups->i;
    return true;
}

/* The layer whose result this is, and whose elements nothing else reads. */
static bool optimize_layer(layer *out, const cr_svalue *v)
{
    *out = (layer){.node = v->by, .groups = 1};
    if (!optimize_is_layer(v->by) || v->uses != 1 + optimize_dims_of(v->by->owner, v) ||
        !optimize_is_known(v->by->input[LAYER_WEIGHT], false) ||
        !optimize_is_known(v->by->input[LAYER_BIAS], true))
        return false;
    out->weight = optimize_tensor(v->by->input[LAYER_WEIGHT]);
    out->bias = optimize_tensor(v->by->input[LAYER_BIAS]);
    out->linear = v->by->schema->op == cr_entry.linear;
    if (out->linear ? out->weight->ndim != 2 : !optimize_conv(out))
        return false;
    out->channels = out->transposed ? out->weight->size[1] * out->groups : out->weight->size[0];
    return out->weight->numel && cr_dtype_is_float(out->weight->dtype) &&
           (!out->bias || (out->bias->ndim == 1 && out->bias->size[0] == out->channels &&
                           out->bias->dtype == out->weight->dtype));
}

/* --- the new parameters --- */

/* Replaces a tensor by op(t, by[, alpha]); nothing where `by` is NULL. */
static cr_status optimize_apply(cr_tensor **t, const cr_op *op, cr_tensor *by,
                                const cr_scalar *alpha)
{
    cr_value arg[] = {cr_of_tensor(*t), cr_of_tensor(by),
                      alpha ? cr_of_number(*alpha) : cr_of_none()};
    cr_tensor *made = NULL;

    if (!by)
        return CR_OK;
    CR_TRY(cr_call_tensor(&made, op, arg, alpha ? 3 : 2));
    cr_drop(*t);
    *t = made;
    return CR_OK;
}

static cr_status optimize_reshape(cr_tensor **t, const int64_t *size, int dims)
{
    cr_tensor *made = NULL;

    CR_TRY(cr_call_tensor(&made, cr_entry.reshape,
                          (cr_value[]){cr_of_tensor(*t), cr_of_ints(size, (size_t)dims)}, 2));
    cr_drop(*t);
    *t = made;
    return CR_OK;
}

/* Replaces a tensor by one of the dtype. */
static cr_status optimize_cast(cr_tensor **t, cr_dtype dtype)
{
    cr_tensor *made = NULL;

    if ((*t)->dtype == dtype)
        return CR_OK;
    CR_TRY(cr_call_tensor(&made, cr_entry._to_copy,
                          (cr_value[]){cr_of_tensor(*t), cr_of_dtype(dtype)}, 2));
    cr_drop(*t);
    *t = made;
    return CR_OK;
}

/* The weight by one factor, or one for each channel. */
static cr_status optimize_scale(cr_tensor **weight, const layer *l, const cr_op *op,
                                cr_tensor *factor)
{
    const cr_tensor *w = l->weight;
    const int64_t inner = l->transposed ? w->size[0] / l->groups : 1,
                  outer = l->channels / l->groups;
    const int64_t rows[] = {l->groups, inner, outer, w->numel / (l->groups * inner * outer)};
    const int64_t by_channel[] = {l->groups, 1, outer, 1};
    cr_tensor *f = cr_keep(factor);
    cr_status st = CR_OK;

    if (!f)
        return CR_OK;
    CR_GO(optimize_reshape(weight, rows, 4));
    if (f->numel != 1)
        CR_GO(optimize_reshape(&f, by_channel, 4));
    CR_GO(optimize_apply(weight, op, f, NULL));
    CR_GO(optimize_reshape(weight, w->size, w->ndim));
done:
    cr_drop(f);
    return st;
}

static cr_status optimize_weight(cr_tensor **out, const layer *l, const change *c)
{
    cr_tensor *t = cr_keep(l->weight);
    cr_status st;

    CR_GO(optimize_scale(&t, l, cr_entry.mul, c->times));
    CR_GO(optimize_scale(&t, l, cr_entry.div, c->over));
    if (c->casts)
        CR_GO(optimize_cast(&t, l->weight->dtype));
    *out = cr_keep(t);
done:
    cr_drop(t);
    return st;
}

/* The bias, zeros where there was none; NULL where none is needed. */
static cr_status optimize_bias(cr_tensor **out, const layer *l, const change *c)
{
    cr_tensor *t = cr_keep(l->bias);
    cr_status st;

    if (!t && !c->minus && !c->plus)
        return CR_OK;
    if (!t)
        CR_GO(cr_call_tensor(&t, cr_entry.new_zeros,
                             (cr_value[]){cr_of_tensor(l->weight), cr_of_ints(&l->channels, 1)},
                             2));
    CR_GO(optimize_apply(&t, cr_entry.sub, c->minus, &c->alpha));
    CR_GO(optimize_apply(&t, cr_entry.mul, c->times, NULL));
    CR_GO(optimize_apply(&t, cr_entry.div, c->over, NULL));
    CR_GO(optimize_apply(&t, cr_entry.add, c->plus, &c->alpha));
    if (c->casts)
        CR_GO(optimize_cast(&t, l->weight->dtype));
    *out = cr_keep(t);
done:
    cr_drop(t);
    return st;
}

/* A constant before the node. */
static cr_svalue *optimize_constant(cr_snode *at, cr_tensor *t)
{
    cr_sgraph *g = at->owner->graph;
    cr_sconstant *value = CR_NEW(g->session, cr_sconstant);
    cr_snode *n = cr_snode_before(at, CR_SPRIM_CONSTANT, at->from.range);

    cr_sunit_keep_tensor(g->unit, t);
    *value = (cr_sconstant){.type = CR_STYPE_OF(TENSOR), .tensor = t};
    n->value = value;
    return cr_snode_output(n, NULL, value->type);
}

/* The layer gives the node's result, unless it would have another dtype.  Drops the change. */
static void optimize_join(const layer *l, cr_snode *n, change *c)
{
    cr_tensor *weight = NULL, *bias = NULL;
    bool before = cr_thread.no_grad;

    cr_thread.no_grad = true;
    cr_status st = optimize_weight(&weight, l, c);
    st = st ? st : optimize_bias(&bias, l, c);
    cr_thread.no_grad = before;
    optimize_drop_change(c);
    if (!st && weight->dtype == l->weight->dtype && (!bias || bias->dtype == weight->dtype)) {
        if (weight != l->weight)
            cr_snode_set_input(l->node, LAYER_WEIGHT, optimize_constant(l->node, weight));
        if (bias)
            cr_snode_set_input(l->node, LAYER_BIAS, optimize_constant(l->node, bias));
        cr_svalue_replace(n->owner->graph, n->output[0], n->input[0]);
        cr_snode_remove(n);
    }
    cr_drop(weight);
    cr_drop(bias);
    cr_session_check(n->owner->graph->session, st);
}

/* --- batch norms --- */

/* Whether a node computes `v.dim() != dims` for a number of dims that is more than two. */
static bool optimize_compares(const cr_snode *n, const cr_svalue *v)
{
    const cr_snode *read = n && !strcmp(cr_snode_kind(n), "aten::ne") ? n->input[0]->by : NULL;
    const cr_sconstant *number = read ? cr_svalue_constant(n->input[1]) : NULL;

    return number && number->type->kind == CR_STYPE_INT && number->i > 2 &&
           !strcmp(cr_snode_kind(read), "aten::dim") && read->input[0] == v;
}

/* Whether the block raises an error for a value of two dims. */
static bool optimize_refuses_rows(const cr_sblock *b, const cr_svalue *v)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        if (n->prim != CR_SPRIM_IF || !optimize_compares(n->input[0]->by, v))
            continue;
        for (const cr_snode *inner = n->block[0]->first; inner; inner = inner->next)
            if (cr_snode_raises(inner))
                return true;
    }
    return false;
}

static bool optimize_is_uniform(cr_tensor *t, cr_status *st)
{
    cr_tensor *most = NULL, *least = NULL;
    cr_scalar a = {0}, b = {0};
    bool same = !t;

    if (!t || *st)
        return same;
    *st = cr_call_tensor(&most, cr_entry.amax, (cr_value[]){cr_of_tensor(t)}, 1);
    *st = *st ? *st : cr_call_tensor(&least, cr_entry.amin, (cr_value[]){cr_of_tensor(t)}, 1);
    if (!*st && !(*st = cr_tensor_item(&a, most)) && !(*st = cr_tensor_item(&b, least)))
        same = a.d == b.d;
    cr_drop(most);
    cr_drop(least);
    return same;
}

/* Whether all channels change alike, so that it does not matter which dim they are. */
static bool optimize_norms_alike(const cr_snode *n)
{
    bool alike = true;
    cr_status st = CR_OK;

    for (int i = NORM_WEIGHT; i <= NORM_VAR; i++)
        alike = alike && optimize_is_uniform(optimize_tensor(n->input[i]), &st);
    cr_session_check(n->owner->graph->session, st);
    return alike;
}

/* Whether the norm has constant statistics of the layer's channels.  Those of a linear layer
 * are the last dim, and a norm's are the second. */
static bool optimize_norms(const cr_snode *n, const layer *l)
{
    const cr_sconstant *training = cr_svalue_constant(n->input[NORM_TRAINING]),
                       *eps = cr_svalue_constant(n->input[NORM_EPS]);
    cr_dtype dtype;

    if (!training || training->i || !eps || eps->type->kind != CR_STYPE_FLOAT)
        return false;
    for (int i = NORM_WEIGHT; i <= NORM_VAR; i++)
        if (!optimize_is_known(n->input[i], i < NORM_MEAN))
            return false;
    dtype = optimize_tensor(n->input[NORM_VAR])->dtype;
    for (int i = NORM_WEIGHT; i <= NORM_VAR; i++) {
        const cr_tensor *t = optimize_tensor(n->input[i]);
        if (t && (t->ndim != 1 || t->size[0] != l->channels || t->dtype != dtype))
            return false;
    }
    if (dtype != l->weight->dtype && (dtype != CR_F32 || cr_dtype_size(l->weight->dtype) != 2))
        return false;
    return !l->linear || !optimize_refuses_rows(n->owner, n->input[0]) ||
           optimize_norms_alike(n);
}

/* weight / sqrt(var + eps) */
static cr_status optimize_norm_scale(cr_tensor **out, const cr_snode *n)
{
    cr_tensor *t = cr_keep(optimize_tensor(n->input[NORM_VAR])), *eps = NULL, *root = NULL;
    const cr_scalar one = cr_scalar_int(1);
    cr_status st;

    CR_GO(cr_tensor_scalar(&eps, cr_scalar_float(cr_svalue_constant(n->input[NORM_EPS])->d[0]),
                           CR_F64, true));
    CR_GO(optimize_apply(&t, cr_entry.add, eps, &one));
    CR_GO(cr_call_tensor(&root, cr_entry.rsqrt, (cr_value[]){cr_of_tensor(t)}, 1));
    CR_GO(optimize_apply(&root, cr_entry.mul, optimize_tensor(n->input[NORM_WEIGHT]), NULL));
    *out = cr_keep(root);
done:
    cr_drop(t);
    cr_drop(eps);
    cr_drop(root);
    return st;
}

static void optimize_norm(cr_snode *n)
{
    change c = {.alpha = cr_scalar_int(1), .casts = true};
    layer l;

    if (n->prim != CR_SPRIM_OPERATOR || n->schema->op != cr_entry.batch_norm ||
        n->input_count <= NORM_EPS || !optimize_layer(&l, n->input[0]) ||
        !optimize_norms(n, &l))
        return;
    c.minus = cr_keep(optimize_tensor(n->input[NORM_MEAN]));
    c.plus = cr_keep(optimize_tensor(n->input[NORM_BIAS]));
    bool before = cr_thread.no_grad;
    cr_thread.no_grad = true;
    cr_status st = optimize_norm_scale(&c.times, n);
    cr_thread.no_grad = before;
    if (st)
        optimize_drop_change(&c);
    cr_session_check(n->owner->graph->session, st);
    optimize_join(&l, n, &c);
}

/* --- sums, differences, products and quotients --- */

/* The number of a constant. */
static bool optimize_number(const cr_sconstant *c, cr_scalar *out)
{
    if (c->type->kind != CR_STYPE_INT && c->type->kind != CR_STYPE_FLOAT)
        return false;
    *out = c->type->kind == CR_STYPE_INT ? cr_scalar_int(c->i) : cr_scalar_float(c->d[0]);
    return true;
}

/* Whether a constant tensor has one element, or one for each channel of a batch. */
static bool optimize_broadcasts(const cr_tensor *t, const layer *l)
{
    if (t->ndim > l->weight->ndim)
        return false;
    for (int i = 0; i < t->ndim; i++)
        if (t->size[i] != 1 &&
            (i != 1 || t->ndim != l->weight->ndim || t->size[i] != l->channels))
            return false;
    return true;
}

/* The other operand, with no dims, or one. */
static cr_status optimize_other(cr_tensor **out, const cr_snode *n, const layer *l)
{
    const cr_sconstant *c = cr_svalue_constant(n->input[TERM_OTHER]);
    const int64_t flat = -1;
    cr_scalar number;

    if (c && optimize_number(c, &number))
        return cr_tensor_scalar(out, number, c->type->kind == CR_STYPE_INT ? CR_I64 : CR_F64,
                                true);
    if (!c || c->type->kind != CR_STYPE_TENSOR || !optimize_broadcasts(c->tensor, l))
        return CR_OK;
    *out = cr_keep(c->tensor);
    return c->tensor->ndim ? optimize_reshape(out, &flat, 1) : CR_OK;
}

static void optimize_term(cr_snode *n)
{
    const cr_sschema *s = n->prim == CR_SPRIM_OPERATOR ? n->schema : NULL;
    const cr_op *op = s ? s->op : NULL;
    bool sum = op && (op == cr_entry.add || op == cr_entry.sub);
    change c = {.alpha = cr_scalar_int(1)};
    const cr_sconstant *alpha;
    cr_tensor *other = NULL;
    layer l;

    if (!op || (!sum && op != cr_entry.mul && op != cr_entry.div) || s->param[0].written ||
        s->param_count != (sum ? 3 : 2) || n->input_count != s->param_count ||
        !optimize_layer(&l, n->input[0]) || l.linear)
        return;
    alpha = sum ? cr_svalue_constant(n->input[TERM_ALPHA]) : NULL;
    if (sum && (!alpha || !optimize_number(alpha, &c.alpha)))
        return;
    cr_session_check(n->owner->graph->session, optimize_other(&other, n, &l));
    if (!other)
        return;
    *(op == cr_entry.add   ? &c.plus
      : op == cr_entry.sub ? &c.minus
      : op == cr_entry.mul ? &c.times
                           : &c.over) = other;
    optimize_join(&l, n, &c);
}

/* --- the passes --- */

static void optimize_each(cr_sblock *b, void (*change_node)(cr_snode *n))
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->block_count; i++)
            optimize_each(n->block[i], change_node);
        change_node(n);
    }
}

/* A norm may be behind a product, and a product behind a norm. */
static void optimize_norm_or_term(cr_snode *n)
{
    bool norm = n->prim == CR_SPRIM_OPERATOR && n->schema->op == cr_entry.batch_norm;

    (norm ? optimize_norm : optimize_term)(n);
}

void cr_spass_detached(cr_sgraph *g)
{
    if (!optimize_compares_identity(g->body))
        optimize_detached(cr_salias_find(g), g->body);
}

void cr_spass_dropouts(cr_sgraph *g) { optimize_dropouts(g->body); }

void cr_spass_norms(cr_sgraph *g)
{
    optimize_each(g->body, optimize_norm);
    cr_spass_dead(g);
}

void cr_spass_terms(cr_sgraph *g)
{
    optimize_each(g->body, optimize_term);
    cr_spass_dead(g);
}

void cr_spass_layers(cr_sgraph *g)
{
    optimize_each(g->body, optimize_norm_or_term);
    cr_spass_dead(g);
}

static void optimize_methods(cr_session *s, void *context)
{
    const cr_sclass *cls = context;

    (void)s;
    for (size_t i = 0; i < cls->methods.len; i++) {
        cr_sfunction *f = cls->methods.at[i];
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
