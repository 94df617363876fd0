/* Sets other sizes in a graph.
 *
 * Runs the operators' rules in order on tensors without bytes, like an instance (instance.c),
 * but makes no node: sizes, strides and varying numbers are written to the graph in place.  A
 * pass or a plan may have relied on two properties of a type, which must hold for the new
 * sizes, too: whether a size is more than 1, and whether the tensor is row-major. */
#include "graph/graph.h"
#include <string.h>

typedef struct {
    cr_graph *g;
    const cr_scalar *value;
    cr_tensor **fake; /* by value id; owned */
    cr_session *s;    /* argument lists, while sizes are set */
} resizer;

/* --- arguments --- */

static void set_item(const cr_gnode *n, const cr_gvarying *v, cr_scalar to)
{
    cr_garg *a = &n->arg[v->arg];

    switch (a->tag) {
    case CR_INT: a->i = to.i; return;
    case CR_FLOAT: a->d = cr_scalar_as_double(to); return;
    case CR_NUMBER: a->number = to; return;
    case CR_INTS: ((int64_t *)(uintptr_t)a->ints)[v->item] = to.i; return;
    default: CR_ASSERT(!"only numbers vary");
    }
}

static cr_value rule_arg(resizer *x, const cr_garg *a)
{
    cr_value v = {.tag = a->tag, .len = a->len};

    if (a->tag == CR_TENSOR)
        return x->fake[a->value->id] ? cr_of_tensor(x->fake[a->value->id])
                                     : (cr_value){.tag = CR_NONE};
    if (a->tag != CR_TENSORS && a->tag != CR_NUMBERS) {
        memcpy(&v.number, &a->number, sizeof a->number); /* the largest member */
        return v;
    }
    cr_value *list = CR_NEW_N(x->s, cr_value, a->len);
    for (uint32_t i = 0; i < a->len; i++)
        list[i] = rule_arg(x, &a->list[i]);
    v.list = list;
    return v;
}

/* --- types --- */

static bool is_alike(int ndim, const int64_t *a, const int64_t *b)
{
    for (int d = 0; d < ndim; d++)
        if (a[d] != b[d] && (a[d] < 2 || b[d] < 2))
            return false;
    return true;
}

/* Whether the sizes and strides of `t` may replace those of the type. */
static bool is_like(const cr_gtype *type, const cr_tensor *t)
{
    return type->known && type->dtype == t->dtype && type->ndim == t->ndim &&
           !type->stride == t->contiguous && is_alike(t->ndim, type->size, t->size);
}

static void set_type(resizer *x, const cr_gvalue *v, const cr_tensor *t)
{
    size_t bytes = t->ndim * sizeof *t->size;

    if (!is_like(&v->type, t))
        cr_bail(x->s, CR_VALUE, "%%%s is of another kind for these sizes", v->name);
    if (bytes)
        memcpy((int64_t *)(uintptr_t)v->type.size, t->size, bytes);
    if (v->type.stride)
        memcpy((int64_t *)(uintptr_t)v->type.stride, t->stride, bytes);
}

/* --- nodes --- */

static void take_results(resizer *x, const cr_gnode *n, cr_value *list, int count)
{
    if (count != n->result_count)
        cr_bail(x->s, CR_VALUE, "%s returns another number of tensors for these sizes",
                n->op->name);
    for (int k = 0; k < count; k++) {
        if (list[k].tag != CR_TENSOR)
            continue;
        x->fake[n->result[k]->id] = list[k].t;
        list[k].tag = CR_NONE;
        set_type(x, n->result[k], list[k].t);
    }
}

typedef struct {
    resizer *x;
    const cr_gnode *n;
    cr_value *result;
} taking;

static void take(cr_session *s, void *context)
{
    taking *t = context;
    bool list = t->n->op->result_count == 1 && t->result[0].tag == CR_TENSORS;

    (void)s;
    take_results(t->x, t->n, list ? (cr_value *)(uintptr_t)t->result[0].list : t->result,
                 list ? (int)t->result[0].len : t->n->op->result_count);
}

static void call_rule(resizer *x, const cr_gnode *n)
{
    cr_value arg[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    taking t = {x, n, result};

    for (int i = 0; i < n->varying_count; i++)
        set_item(n, &n->varying[i], x->value[n->varying[i].number]);
    for (int i = 0; i < n->arg_count; i++)
        arg[i] = rule_arg(x, &n->arg[i]);
    if (!n->result_count)
        return; /* a node that only writes has no sizes to compute */
    cr_session_check(x->s, cr_call(n->op, arg, result));
    cr_status st = cr_session_run(x->s, take, &t);
    cr_drop_values(result, n->op->result_count);
    cr_session_check(x->s, st);
}

static void make_fake(resizer *x, const cr_gvalue *v)
{
    const cr_gtype *t = &v->type;
    cr_tensor **out = &x->fake[v->id];
    cr_device device = cr_as_fake(t->device);

    cr_session_check(
        x->s, t->stride ? cr_tensor_new_strided(out, (cr_dtype)t->dtype, device, t->ndim,
                                                t->size, t->stride)
                        : cr_tensor_new(out, (cr_dtype)t->dtype, device, t->ndim, t->size));
}

static void resize_block(resizer *x, const cr_gblock *b);

static void resize_group(resizer *x, const cr_gnode *n)
{
    resize_block(x, n->block[0]);
    for (int k = 0; k < n->result_count; k++) {
        cr_tensor *t = x->fake[n->block[0]->output[k].value->id];
        x->fake[n->result[k]->id] = cr_keep(t);
        set_type(x, n->result[k], t);
    }
}

static void resize_block(resizer *x, const cr_gblock *b)
{
    for (size_t i = 0; i < b->len; i++)
        switch ((cr_gnode_kind)b->at[i]->kind) {
        case CR_GNODE_CALL: call_rule(x, b->at[i]); break;
        case CR_GNODE_CONSTANT: make_fake(x, b->at[i]->result[0]); break;
        case CR_GNODE_GROUP: resize_group(x, b->at[i]); break;
        case CR_GNODE_IF:
            cr_bail(x->s, CR_VALUE, "a choice has the sizes that it was made for");
        }
}

static void resize(cr_session *s, void *context)
{
    resizer *x = context;

    (void)s;
    for (int i = 0; i < x->g->input_count; i++)
        make_fake(x, x->g->input[i]);
    resize_block(x, x->g->body);
}

cr_status cr_graph_resize(cr_graph *g, const cr_scalar *value)
{
    cr_session room = {.status = CR_OK};
    resizer x = {.g = g, .value = value, .s = &room};
    cr_thread_state was = cr_thread;
    cr_status st;

    x.fake = cr_alloc_zero((g->values + 1) * sizeof *x.fake);
    if (!x.fake)
        return CR_MEMORY;
    cr_thread.no_grad = cr_thread.fakes = true;
    cr_thread.include &= ~(CR_STAGE_BIT(CAPTURE) | CR_STAGE_BIT(AUTOCAST));
    st = cr_session_run(&room, resize, &x);
    cr_thread.no_grad = was.no_grad;
    cr_thread.fakes = was.fakes;
    cr_thread.include = was.include;
    for (unsigned i = 0; i < g->values; i++)
        cr_drop(x.fake[i]);
    cr_free(x.fake);
    cr_session_drop(&room);
    return st;
}
