/* Functionalization: replaces nodes that write by nodes that compute.
 *
 * The graph is first called on tensors without bytes, which share storages as the real tensors
 * will.  A *region* is such a storage.  An *object* is a tensor over it: the base, which covers
 * the storage, or a view that a node made of another object.  At any time one value has the
 * region's elements, the value of the base.  A write becomes a node that computes the written
 * elements.  Elements written through a view update the base by the inverse view or a scatter;
 * other views are made again from the new base when they are read.  The final elements of an
 * input (or of a constant, which belongs to the program) are copied back at the end, and
 * outputs that share its memory are made from the copy.
 *
 * Every value has the sizes and strides of the recorded tensor, because bits may depend on
 * them.  When this is impossible, or an entry has no functional counterpart, the affected
 * regions stay as recorded: nodes that write them are copied unchanged and in order, and the
 * walk starts again. */
#include "entry.h"
#include "graph/rewrite.h"
#include "tensor/geometry.h"
#include <string.h>

typedef struct object object;

typedef struct region {
    cr_storage *storage;
    object *base;
    cr_gvalue *home; /* the input or constant with this memory; NULL: made by the graph */
    bool written;    /* some node writes elements of it */
    bool stays;      /* its writes stay as recorded */
    bool gradient;   /* an output, or a call whose result requires a gradient, reads it */
    /* the following fields are used while the new graph is made */
    cr_gvalue *now;        /* the base's elements */
    struct region *lender; /* the region that had these elements first, or NULL */
    struct region *memory; /* region whose home tensor has these elements; itself if its own */
    unsigned version;      /* counts the writes */
    size_t order;          /* index of its copy back, when it has a home */
} region;

struct object {
    cr_tensor *t; /* borrowed from the walk; its sizes and strides do not change */
    region *in;
    object *from;    /* of a view: the object that it is a view of */
    const cr_op *op; /* with the arguments of `view` */
    const cr_gnode *view;
    int index;
    object *became; /* the same tensor after an in-place view such as transpose_ */
    cr_gvalue *value;
    unsigned version; /* the region's version when `value` was made */
    bool aliases;     /* `value` is the view itself, not elements written to it */
};

/* Facts about a node. */
typedef struct {
    object *turned; /* the new object of its first argument */
    bool writes;    /* it writes elements */
    bool resized;   /* it gives sizes to an empty base */
} node_fact;

/* Rewrites a graph without writes.
 * Invariant: of and plain are by value id, fact by node. Every region of `changed` is in
 * `regions`. After `again` or `give_up` the graph that was built is not used. */
typedef struct {
    const cr_graph *g;
    cr_session *s;
    cr_graph *out;
    object **of;              /* by value id; NULL when the value is no tensor */
    cr_gvalue **plain;        /* by value id: its copy, unless its region is rewritten */
    node_fact *fact;          /* by node */
    CR_VEC(cr_tensor *) made; /* references */
    CR_VEC(region *) regions;
    CR_VEC(region *) changed; /* regions with a home, in the order of their first write */
    cr_arena room;
    bool again;   /* a region has to stay: the walk must start again */
    bool give_up; /* the graph cannot be changed */
    const char *source;
    bool gradient; /* the node has results that require a gradient */
} walk;

static object *object_root(object *o)
{
    while (o && o->became)
        o = o->became;
    return o;
}

static object *object_of(const walk *x, const cr_gvalue *v)
{
    return object_root(x->of[v->id]);
}

static bool is_rewritten(const region *r) { return r->written && !r->stays; }

/* --- the first walk: shared memory and writes --- */

static void walk_own(walk *x, cr_tensor *t) { CR_PUSH(x->s, &x->made, t); }

static region *region_new(walk *x, cr_tensor *t)
{
    region *r = CR_NEW(x->s, region);

    r->storage = t->storage;
    CR_PUSH(x->s, &x->regions, r);
    return r;
}

static object *object_new(walk *x, cr_tensor *t, region *r)
{
    object *o = CR_NEW(x->s, object);

    o->t = t;
    o->in = r;
    o->aliases = true;
    if (!r->base)
        r->base = o;
    return o;
}

/* A tensor without bytes of the given type, and its object. */
static object *object_fake(walk *x, const cr_gtype *type)
{
    cr_tensor *t = NULL;

    if (!type->known)
        return NULL;
    cr_session_check(x->s, cr_gtype_fake(&t, type));
    walk_own(x, t);
    return object_new(x, t, region_new(x, t));
}

static cr_value object_arg(walk *x, const cr_garg *a)
{
    cr_value v = {.tag = a->tag, .len = a->len};
    cr_value *list;

    if (a->tag == CR_TENSOR)
        return cr_of_tensor(object_of(x, a->value) ? object_of(x, a->value)->t : NULL);
    if (a->tag != CR_TENSORS && a->tag != CR_NUMBERS) {
        memcpy(&v.number, &a->number, sizeof a->number); /* the largest member */
        return v;
    }
    list = cr_arena_get(&x->room, a->len * sizeof *list + 1);
    if (!list)
        cr_bail(x->s, CR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < a->len; i++)
        list[i] = object_arg(x, &a->list[i]);
    v.list = list;
    return v;
}

static void object_args(walk *x, const cr_gnode *n, cr_value *arg)
{
    for (int i = 0; i < n->arg_count; i++)
        arg[i] = object_arg(x, &n->arg[i]);
}

typedef void (*object_fn)(walk *x, object *o, void *context);

static void each_object(walk *x, const cr_garg *a, object_fn fn, void *context)
{
    if (a->tag == CR_TENSOR && object_of(x, a->value))
        fn(x, object_of(x, a->value), context);
    for (uint32_t i = 0; a->tag == CR_TENSORS && i < a->len; i++)
        each_object(x, &a->list[i], fn, context);
}

static bool result_needs_grad(const cr_gnode *n)
{
    for (int k = 0; k < n->result_count; k++)
        if (n->result[k]->type.requires_grad)
            return true;
    return false;
}

static void note_gradient(walk *x, object *o, void *unused)
{
    (void)x;
    (void)unused;
    o->in->gradient = true;
}

static void note_written(walk *x, object *o, void *written)
{
    (void)x;
    o->in->written = true;
    *(bool *)written = true;
}

/* Finds writes by the schema's marks and by versions: calls on fakes raise versions, too. */
static void note_update(walk *x, object *o, void *written)
{
    if (o->in->version != o->in->storage->version)
        note_written(x, o, written);
    o->in->version = o->in->storage->version;
}

typedef struct {
    const cr_tensor *t;
    object *same, *shares;
    int objects; /* number of objects among the arguments */
} search;

static void search_object(walk *x, object *o, void *context)
{
    search *s = context;

    (void)x;
    s->objects++;
    if (o->t == s->t)
        s->same = o;
    if (o->t->storage == s->t->storage && !s->shares)
        s->shares = o;
}

static search search_args(walk *x, const cr_gnode *n, const cr_tensor *t)
{
    search s = {.t = t};

    for (int i = 0; i < n->arg_count; i++)
        each_object(x, &n->arg[i], search_object, &s);
    return s;
}

/* True when the node can be called again to make the same view of its first tensor's new
 * value. */
static bool may_repeat(const cr_gnode *n, const search *s)
{
    return s->objects == 1 && !cr_gnode_has_effect(n) && !(n->op->words & CR_WORD_ABSOLUTE);
}

static cr_tensor *without_bytes(walk *x, const cr_tensor *t)
{
    cr_tensor *made;

    cr_session_check(x->s, cr_tensor_new(&made, (cr_dtype)t->dtype, cr_as_fake(t->device),
                                         t->ndim, t->size));
    walk_own(x, made);
    made->number = t->number;
    return made;
}

static object *result_object(walk *x, const cr_gnode *n, int k, cr_tensor *t)
{
    search s;
    object *o;

    walk_own(x, t);
    if (cr_has_bytes(t->device)) /* the result of a call with numbers only */
        t = without_bytes(x, t);
    s = search_args(x, n, t);
    if (s.same)
        return s.same;
    o = object_new(x, t, s.shares ? s.shares->in : region_new(x, t));
    o->from = s.shares;
    o->view = n;
    o->op = n->op;
    o->index = k;
    if (s.shares && !may_repeat(n, &s))
        o->in->stays = true;
    return o;
}

/* The functional counterpart of an entry: it computes the written elements, or the view that
 * self becomes. */
static const cr_op *twin_of(const cr_op *op)
{
    if (op->inplace_of)
        return op->inplace_of;
    return op->functional && op->functional->kind == CR_RULE_CALL ? op->functional->op : NULL;
}

/* The parameter of a writing entry that is argument i of its counterpart; -1: its default. */
static int twin_param(const cr_op *op, int i)
{
    if (op->inplace_of)
        return i;
    return i < op->functional->count ? op->functional->args[i]->slot : -1;
}

/* True for entries that make self another view of its storage. */
static bool is_turn(const cr_op *op)
{
    const cr_op *twin = op->inplace_of ? NULL : twin_of(op);

    return twin && twin->result[0].alias;
}

/* True for resize_ of an empty tensor that the graph made, as out= uses it: the result is then
 * a new tensor. */
static bool may_resize(walk *x, const cr_gnode *n)
{
    object *o = object_of(x, n->arg[0].value);

    if (n->op != cr_entry.resize_ || o->from || o->t->numel || o->in->home)
        return false;
    for (size_t i = 0; i < x->g->values; i++)
        if (x->of[i] && x->of[i]->from == o)
            return false;
    return n->arg[2].tag == CR_NONE;
}

/* Makes a new object for the tensor's new geometry.  The old object keeps the old one. */
static object *turn_object(walk *x, const cr_gnode *n)
{
    object *o = object_of(x, n->arg[0].value), *after;
    cr_tensor *before;

    if (o->in->home && o == o->in->base) {
        x->give_up = true; /* an input would change its sizes */
        return NULL;
    }
    cr_session_check(x->s, cr_tensor_alias(&before, o->t));
    walk_own(x, before);
    after = object_new(x, o->t, o->in);
    o->t = before;
    after->from = o;
    after->view = n;
    after->op = twin_of(n->op);
    return after;
}

static void results_of(walk *x, const cr_gnode *n, const cr_value *result)
{
    const cr_value *list = result;
    int count = n->op->result_count;

    if (count == 1 && result[0].tag == CR_TENSORS) {
        list = result[0].list;
        count = (int)result[0].len;
    }
    for (int k = 0; k < count && k < n->result_count; k++)
        if (list[k].tag == CR_TENSOR)
            x->of[n->result[k]->id] = result_object(x, n, k, cr_keep(list[k].t));
}

/* For a node whose result sizes are unknown before it runs: the results have their recorded
 * types and separate memory.  Several results may be views of one tensor, so they stay. */
static void results_as_stated(walk *x, const cr_gnode *n)
{
    if (cr_gnode_writes(n))
        x->give_up = true;
    for (int k = 0; k < n->result_count; k++) {
        if (!n->result[k]->type.known || n->op->result[n->op->result_count > 1 ? k : 0].alias)
            x->give_up = true;
        object *o = x->of[n->result[k]->id] = object_fake(x, &n->result[k]->type);
        if (!o)
            continue;
        o->view = n;
        o->op = n->op;
        o->in->stays = n->result_count > 1 || n->result[k]->type.stride;
    }
}

/* True when an argument's tensor is missing because nothing is known about the value. */
static bool lacks_tensor(const cr_gnode *n, const cr_value *arg)
{
    for (int i = 0; i < n->arg_count; i++) {
        const cr_garg *a = &n->arg[i];
        if (a->tag == CR_NONE && n->op->param[i].type == CR_T_TENSOR &&
            !n->op->param[i].optional)
            return true;
        if (a->tag == CR_TENSOR && arg[i].tag != CR_TENSOR)
            return true;
        for (uint32_t k = 0; a->tag == CR_TENSORS && k < a->len; k++)
            if (a->list[k].tag == CR_TENSOR && arg[i].list[k].tag != CR_TENSOR)
                return true;
    }
    return false;
}

static void see_call(walk *x, const cr_gnode *n, node_fact *f)
{
    cr_value arg[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    bool turns = is_turn(n->op);

    object_args(x, n, arg);
    if (lacks_tensor(n, arg)) {
        results_as_stated(x, n);
        return;
    }
    if (n->op->words & CR_WORD_RESETS) {
        f->resized = may_resize(x, n);
        x->give_up |= !f->resized;
        turns = true;
    }
    if (turns && !x->give_up)
        f->turned = turn_object(x, n);
    if (x->give_up)
        return;
    if (cr_call(n->op, arg, result)) {
        results_as_stated(x, n);
        return;
    }
    if (f->turned) {
        f->turned->in->version = f->turned->in->storage->version;
        object_of(x, n->arg[0].value)->became = f->turned;
        x->of[n->result[0]->id] = f->turned;
        cr_drop_values(result, 1);
        return;
    }
    results_of(x, n, result);
    cr_drop_values(result, n->op->result_count);
    for (int i = 0; i < n->arg_count && result_needs_grad(n); i++)
        each_object(x, &n->arg[i], note_gradient, NULL);
    for (int i = 0; i < n->arg_count; i++)
        each_object(x, &n->arg[i], n->op->param[i].written ? note_written : note_update,
                    &f->writes);
    for (int i = 0; i < n->arg_count; i++)
        each_object(x, &n->arg[i], note_update, &f->writes);
}

/* Makes a fake of a constant.  Constants that share a storage stay as recorded. */
static void see_constant(walk *x, const cr_gnode *n)
{
    const cr_tensor *t = n->constant;
    object *o = object_fake(x, &n->result[0]->type);

    x->of[n->result[0]->id] = o;
    o->in->home = n->result[0];
    o->t->number = t->number;
    for (size_t i = 0; i < x->g->constants.len; i++)
        if (x->g->constants.at[i] != t && x->g->constants.at[i]->storage == t->storage)
            o->in->stays = true;
}

static void see_graph(walk *x)
{
    const cr_gblock *b = x->g->body;

    for (int i = 0; i < x->g->input_count; i++) {
        object *o = x->of[x->g->input[i]->id] = object_fake(x, &x->g->input[i]->type);
        if (!o) {
            x->give_up = true;
            return;
        }
        o->in->home = x->g->input[i];
    }
    for (size_t i = 0; i < b->len && !x->give_up; i++) {
        if (b->at[i]->kind == CR_GNODE_CALL)
            see_call(x, b->at[i], &x->fact[i]);
        else if (b->at[i]->kind == CR_GNODE_CONSTANT)
            see_constant(x, b->at[i]);
        else
            x->give_up = true;
    }
    for (int i = 0; i < b->output_count && !x->give_up; i++)
        if (b->output[i].tag == CR_TENSOR && b->output[i].value->type.requires_grad)
            each_object(x, &b->output[i], note_gradient, NULL);
}

/* --- making nodes --- */

/* A value of the new graph, and a tensor with its type. */
typedef struct {
    cr_gvalue *v;
    cr_tensor *t; /* borrowed from the walk */
} pair;

static cr_gtype fake_type(walk *x, const cr_tensor *t) { return cr_gtype_of(x->s, t); }

static void any_gradient(void *context, cr_gvalue *v)
{
    *(bool *)context |= v->type.requires_grad;
}

/* Fakes have no gradients here.  Nodes made where a gradient is `wanted` require one when an
 * argument does. */
static void pass_gradient(cr_gnode *made, bool wanted)
{
    bool any = false;

    for (int i = 0; i < made->arg_count && wanted; i++)
        cr_garg_each(&made->arg[i], any_gradient, &any);
    for (int k = 0; k < made->result_count && any; k++)
        made->result[k]->type.requires_grad =
            cr_dtype_is_float((cr_dtype)made->result[k]->type.dtype) ||
            cr_dtype_is_complex((cr_dtype)made->result[k]->type.dtype);
}

/* Makes a call of `op`; its tensor arguments are `tensor`, in order. */
static pair make_op(walk *x, const cr_op *op, const cr_value *arg, const pair *tensor)
{
    cr_garg made[CR_MAX_ARGS];
    cr_value call[CR_MAX_ARGS], result;

    for (int i = 0, k = 0; i < op->param_count; i++) {
        call[i] = arg[i];
        made[i] = (cr_garg){.tag = arg[i].tag, .len = arg[i].len};
        memcpy(&made[i].number, &arg[i].number, sizeof arg[i].number);
        if (arg[i].tag == CR_TENSOR) {
            call[i].t = tensor[k].t;
            made[i] = cr_garg_value(tensor[k++].v);
        }
    }
    cr_session_check(x->s, cr_call(op, call, &result));
    walk_own(x, result.t);
    cr_gnode *n = cr_graph_call(x->out, x->out->body, op, made, 1, NULL);
    n->source = x->source;
    n->result[0]->type = fake_type(x, result.t);
    pass_gradient(n, x->gradient);
    return (pair){n->result[0], result.t};
}

/* The same with defaults for the last arguments; TENSOR marks a tensor argument. */
#define TENSOR ((cr_value){.tag = CR_TENSOR})
static pair walk_call(walk *x, const cr_op *op, const cr_value *given, int n,
                      const pair *tensor)
{
    cr_value arg[CR_MAX_ARGS];

    for (int i = 0; i < op->param_count; i++)
        arg[i] = i < n ? given[i] : op->param[i].preset;
    return make_op(x, op, arg, tensor);
}

#define ARGS(...) (cr_value[]){__VA_ARGS__}, (int)CR_LEN(((cr_value[]){__VA_ARGS__}))

/* --- strides --- */

/* Compares strides except those of dims of size 0 or 1, which are not used. */
static bool tensors_stride_alike(const cr_tensor *a, const cr_tensor *b)
{
    for (int d = 0; d < a->ndim && a->numel; d++)
        if (a->size[d] > 1 && a->stride[d] != b->stride[d])
            return false;
    return true;
}

static bool same_geometry(const cr_tensor *a, const cr_tensor *b)
{
    return a->dtype == b->dtype && cr_has_sizes(a, b->ndim, b->size) &&
           tensors_stride_alike(a, b);
}

/* dims[k]: the dim with the k-th largest stride; back: the inverse. */
static void order_of(const cr_tensor *t, int64_t *dims, int64_t *back)
{
    for (int d = 0; d < t->ndim; d++)
        dims[d] = d;
    for (int k = 1; k < t->ndim; k++)
        for (int i = k; i > 0 && t->stride[dims[i - 1]] < t->stride[dims[i]]; i--) {
            int64_t d = dims[i];
            dims[i] = dims[i - 1];
            dims[i - 1] = d;
        }
    for (int k = 0; k < t->ndim; k++)
        back[dims[k]] = k;
}

static pair permuted(walk *x, pair p, const int64_t *dims)
{
    return walk_call(x, cr_entry.permute, ARGS(TENSOR, cr_of_ints(dims, p.t->ndim)), &p);
}

/* A dense copy of `p` whose dims are ordered in memory like those of `like`. */
static pair copied(walk *x, pair p, const cr_tensor *like)
{
    int64_t dims[CR_MAX_DIMS], back[CR_MAX_DIMS];
    cr_value format = {.tag = CR_FORMAT_VAL, .i = CR_FORMAT_CONTIGUOUS};

    if (like->contiguous)
        return walk_call(x, cr_entry.clone, ARGS(TENSOR, format), &p);
    order_of(like, dims, back);
    p = permuted(x, p, dims);
    p = walk_call(x, cr_entry.clone, ARGS(TENSOR, format), &p);
    return permuted(x, p, back);
}

/* `p` with the strides of `like`; no value when no copy can have them. */
static pair with_strides(walk *x, pair p, const cr_tensor *like)
{
    if (tensors_stride_alike(p.t, like))
        return p;
    if (!cr_is_dense(like))
        return (pair){NULL, NULL};
    return copied(x, p, like);
}

/* --- objects in the new graph --- */

static cr_gvalue *object_value(walk *x, object *o);

typedef struct {
    walk *x;
    const object *from; /* this object ... */
    cr_gvalue *value;   /* ... has this value */
} view_map;

static cr_gvalue *now_of(walk *x, cr_gvalue *v)
{
    object *o = object_of(x, v);

    return o && is_rewritten(o->in) ? object_value(x, o) : x->plain[v->id];
}

/* Maps the arguments of a view's node to values of the new graph. */
static cr_gvalue *view_arg(void *context, cr_gvalue *v)
{
    view_map *m = context;
    object *o = m->x->of[v->id];

    /* `o` may be an earlier form of the object that the view was made of */
    for (; o; o = o->became)
        if (o == m->from)
            return m->value;
    return now_of(m->x, v);
}

static void set_value(object *o, cr_gvalue *v)
{
    o->value = v;
    o->version = o->in->version;
    o->aliases = !o->from || o->from->aliases;
}

/* True for a view of a tensor with a gradient that has none itself: it was made under no_grad,
 * or by detach. */
static bool cuts_gradient(const cr_gnode *view)
{
    return view->arg_count && view->arg[0].tag == CR_TENSOR &&
           view->arg[0].value->type.requires_grad && !result_needs_grad(view);
}

/* All calls that read a view read the same value.  The first of them may need no gradient while
 * a later one does, so the region is asked, too. */
static bool view_needs_gradient(const walk *x, const object *o)
{
    return x->gradient || (o->in->gradient && !cuts_gradient(o->view));
}

/* Makes the view again from `from`, together with the node's other results. */
static void make_view(walk *x, object *o, cr_gvalue *from)
{
    const cr_gnode *n = o->view;
    cr_garg arg[CR_MAX_ARGS];
    view_map m = {x, o->from, from};
    cr_gnode *made;

    for (int i = 0; i < n->arg_count; i++)
        arg[i] = cr_garg_copy(x->out, &n->arg[i], view_arg, &m);
    made = cr_graph_call(x->out, x->out->body, o->op, arg, o->op == n->op ? n->result_count : 1,
                         NULL);
    made->source = n->source;
    for (int k = 0; k < made->result_count; k++) {
        object *other = o->op == n->op ? x->of[n->result[k]->id] : o;
        if (other)
            made->result[k]->type = fake_type(x, other->t);
        if (other && other->view == n && other->from == o->from && other->in == o->in)
            set_value(other, made->result[k]);
    }
    pass_gradient(made, view_needs_gradient(x, o));
}

/* The present value of an object.  Views older than the last write are made again. */
static cr_gvalue *object_value(walk *x, object *o)
{
    struct {
        size_t len, cap;
        object **at;
    } stale = {0};

    while (!o->value || o->version != o->in->version) {
        if (!o->from) {
            set_value(o, o->in->now);
            break;
        }
        CR_PUSH(x->s, &stale, o);
        o = o->from;
    }
    while (stale.len) {
        object *next = stale.at[--stale.len];
        make_view(x, next, o->value);
        o = next;
    }
    return o->value;
}

/* --- writing --- */

static void stay(walk *x, region *r)
{
    r->stays = true;
    x->again = true;
}

/* The relation between a view's elements and those of the object it was made of. */
typedef enum {
    SAME,
    RESHAPED,
    PERMUTED,
    SLICED,
    SELECTED,
    SCATTERED,
    INVERSE,
    OTHERWISE
} view_kind;

typedef struct {
    view_kind kind;
    int64_t dims[CR_MAX_DIMS]; /* PERMUTED: back */
    int64_t dim, start, step;  /* SLICED, SELECTED */
} view_way;

static bool is_reshaped(const cr_tensor *p, const cr_tensor *v)
{
    cr_view view = cr_shape_view(p);
    int64_t stride[CR_MAX_DIMS];

    if (p->numel != v->numel || p->offset != v->offset ||
        !cr_view_strides(&view, v->ndim, v->size, stride))
        return false;
    for (int d = 0; d < v->ndim; d++)
        if (v->size[d] > 1 && v->stride[d] != stride[d])
            return false;
    return true;
}

static bool is_permuted(const cr_tensor *p, const cr_tensor *v, int64_t *back)
{
    bool taken[CR_MAX_DIMS] = {false};

    if (p->ndim != v->ndim || p->offset != v->offset)
        return false;
    for (int d = 0; d < p->ndim; d++) {
        int k = 0;
        while (k < v->ndim &&
               (taken[k] || v->size[k] != p->size[d] || v->stride[k] != p->stride[d]))
            k++;
        if (k == v->ndim)
            return false;
        taken[k] = true;
        back[d] = k;
    }
    return true;
}

/* Sets *out to the index along dim d of p at which v starts; false when there is none. */
static bool position_along(const cr_tensor *p, const cr_tensor *v, int d, int64_t *out)
{
    int64_t step = p->stride[d], off = v->offset - p->offset;

    if (off && (!step || off % step))
        return false;
    *out = off ? off / step : 0;
    return *out >= 0 && *out < p->size[d];
}

static bool is_sliced(const cr_tensor *p, const cr_tensor *v, view_way *w)
{
    int at = -1;

    if (p->ndim != v->ndim)
        return false;
    for (int d = 0; d < p->ndim; d++) {
        if (p->size[d] == v->size[d] && (p->stride[d] == v->stride[d] || p->size[d] == 1))
            continue;
        if (at >= 0)
            return false;
        at = d;
    }
    if (at < 0 || !position_along(p, v, at, &w->start))
        return false;
    w->dim = at;
    w->step = v->size[at] > 1 && p->stride[at] ? v->stride[at] / p->stride[at] : 1;
    return w->step > 0 && (v->size[at] == 1 || w->step * p->stride[at] == v->stride[at]) &&
           w->start + (v->size[at] - 1) * w->step < p->size[at];
}

static bool is_selected(const cr_tensor *p, const cr_tensor *v, view_way *w)
{
    if (p->ndim != v->ndim + 1)
        return false;
    for (int d = 0; d < p->ndim; d++) {
        bool same = true;
        for (int i = 0; same && i < v->ndim; i++) {
            int k = i + (i >= d);
            same =
                p->size[k] == v->size[i] && (p->stride[k] == v->stride[i] || v->size[i] == 1);
        }
        w->dim = d;
        if (same && position_along(p, v, d, &w->start))
            return true;
    }
    return false;
}

/* Finds the relation from sizes and strides alone, which decide the view's elements for every
 * entry. */
static view_way way_of(const object *o)
{
    const cr_tensor *p = o->from->t, *v = o->t;
    view_way w = {.kind = OTHERWISE};

    if (p->dtype != v->dtype) {
        if (o->op->inverse.op)
            w.kind = INVERSE;
    } else if (p->offset == v->offset && same_geometry(p, v)) {
        w.kind = SAME;
    } else if (is_permuted(p, v, w.dims)) {
        w.kind = PERMUTED;
    } else if (is_reshaped(p, v)) {
        w.kind = RESHAPED;
    } else if (is_sliced(p, v, &w)) {
        w.kind = SLICED;
    } else if (is_selected(p, v, &w)) {
        w.kind = SELECTED;
    } else if (o->op->scatter.op && !(o->op->words & CR_WORD_ABSOLUTE)) {
        w.kind = SCATTERED;
    }
    return w;
}

/* Updates the parent by the entry of clause `scatter`, which takes self, the elements, and the
 * view's further arguments. */
static pair scattered_back(walk *x, const object *o, const pair *both)
{
    cr_value arg[CR_MAX_ARGS] = {TENSOR, TENSOR};

    for (int i = 1; i < o->view->arg_count; i++)
        arg[i + 1] = object_arg(x, &o->view->arg[i]);
    return make_op(x, o->op->scatter.op, arg, both);
}

/* Updates the parent by the view's inverse, which needs row-major elements. */
static pair inverted_back(walk *x, const object *o, pair to)
{
    cr_value arg[CR_MAX_ARGS] = {TENSOR};

    for (int i = 1; i < o->view->arg_count; i++)
        arg[i] = object_arg(x, &o->view->arg[i]);
    to = walk_call(x, cr_entry.contiguous, ARGS(TENSOR), &to);
    return make_op(x, o->op->inverse.op, arg, &to);
}

/* The value of the view's parent after `to` is written to the view. */
static pair written_back(walk *x, const object *o, pair to)
{
    view_way w = way_of(o);
    const cr_tensor *p = o->from->t;
    pair both[2];

    switch (w.kind) {
    case SAME: return to;
    case RESHAPED:
        return walk_call(x, cr_entry.reshape, ARGS(TENSOR, cr_of_ints(p->size, p->ndim)), &to);
    case PERMUTED: return permuted(x, to, w.dims);
    case INVERSE: return inverted_back(x, o, to);
    case OTHERWISE: return (pair){NULL, NULL};
    default: break;
    }
    both[0] = (pair){object_value(x, o->from), o->from->t};
    both[1] = to;
    if (w.kind == SCATTERED)
        return scattered_back(x, o, both);
    if (w.kind == SELECTED)
        return walk_call(x, cr_entry.select_scatter,
                         ARGS(TENSOR, TENSOR, cr_of_int(w.dim), cr_of_int(w.start)), both);
    return walk_call(x, cr_entry.slice_scatter,
                     ARGS(TENSOR, TENSOR, cr_of_int(w.dim), cr_of_int(w.start),
                          cr_of_int(w.start + (o->t->size[w.dim] - 1) * w.step + 1),
                          cr_of_int(w.step)),
                     both);
}

static void note_change(walk *x, region *r)
{
    if (!r->home || r->version)
        return;
    r->order = x->changed.len;
    CR_PUSH(x->s, &x->changed, r);
}

static bool kind_copies(view_kind kind)
{
    return kind == SLICED || kind == SELECTED || kind == SCATTERED;
}

static void lend(region *to, region *lender)
{
    if (lender == to) { /* the region gets its own elements again */
        if (to->home && !to->version)
            to->memory = to;
        return;
    }
    to->lender = lender;
    to->memory = !lender ? NULL : lender->home && !lender->version ? lender : lender->memory;
}

/* Makes `to`, which has the object's sizes and dtype, the object's value. */
static void write_to(walk *x, object *o, pair to, region *lender)
{
    region *r = o->in;
    object *base = o;
    pair all = to;

    if (!o->t->numel)
        return;
    for (; base->from && all.v; base = base->from) {
        all = written_back(x, base, all);
        lender = kind_copies(way_of(base).kind) ? NULL : lender;
    }
    if (all.v && !tensors_stride_alike(all.t, base->t)) {
        all = with_strides(x, all, base->t);
        lender = NULL;
    }
    if (!all.v) {
        stay(x, r);
        return;
    }
    note_change(x, r);
    r->now = all.v;
    lend(r, lender);
    r->version++;
    set_value(base, all.v);
    if (o == base || !tensors_stride_alike(to.t, o->t))
        return;
    set_value(o, to.v);
    o->aliases = false;
}

/* `p` with the dtype, device and sizes of `like`; sets *copy when that needed a copy. */
static pair fitted(walk *x, pair p, const cr_tensor *like, bool *copy)
{
    if (!cr_same_device(p.t->device, like->device)) {
        cr_value device = {.tag = CR_DEVICE_VAL, .i = cr_packed_device(like->device)};
        p = walk_call(x, cr_entry._to_copy,
                      ARGS(TENSOR, cr_of_dtype((cr_dtype)like->dtype), cr_of_none(), device),
                      &p);
        *copy = true;
    } else if (p.t->dtype != like->dtype) {
        p = walk_call(x, cr_entry._to_dtype, ARGS(TENSOR, cr_of_dtype((cr_dtype)like->dtype)),
                      &p);
        *copy = true;
    }
    if (!cr_has_sizes(p.t, like->ndim, like->size))
        p = walk_call(x, cr_entry.expand, ARGS(TENSOR, cr_of_ints(like->size, like->ndim)), &p);
    return p;
}

/* Writes the elements of another tensor (copy_, fill_).  They are copied when their memory may
 * be written later. */
static void write_copy(walk *x, object *o, cr_gvalue *from)
{
    object *other = object_of(x, from);
    bool copy = false;
    pair p = fitted(x, (pair){now_of(x, from), other->t}, o->t, &copy);

    if (!copy && other->in->written && other->in->stays) {
        p = copied(x, p, cr_is_dense(o->t) ? o->t : p.t);
        copy = true;
    }
    write_to(x, o, p, copy ? NULL : other->in);
}

/* Replaces a random draw into a tensor by one into a new tensor. */
static bool write_draw(walk *x, object *o, const cr_gnode *n)
{
    pair self = {object_value(x, o), o->t};
    cr_value arg[CR_MAX_ARGS];
    pair tensor[CR_MAX_ARGS];
    int k = 0;

    if (!cr_is_dense(o->t))
        return false;
    tensor[k++] = walk_call(x, cr_entry.empty_like, ARGS(TENSOR), &self);
    for (int i = 0; i < n->arg_count; i++) {
        arg[i] = object_arg(x, &n->arg[i]);
        if (i && arg[i].tag == CR_TENSOR)
            tensor[k++] = (pair){now_of(x, n->arg[i].value), arg[i].t};
    }
    write_to(x, o, make_op(x, n->op, arg, tensor), NULL);
    return true;
}

static cr_garg preset_arg(const cr_param *p)
{
    cr_garg a = {.tag = p->preset.tag, .len = p->preset.len};

    memcpy(&a.number, &p->preset.number, sizeof a.number);
    return a;
}

/* Replaces a node by a call of its functional counterpart with the arguments' present
 * values. */
static bool write_twin(walk *x, object *o, const cr_gnode *n, const cr_op *twin)
{
    cr_garg arg[CR_MAX_ARGS];
    cr_value call[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    cr_gnode *made;
    bool copy = false;
    search lent;

    for (int i = 0; i < twin->param_count; i++) {
        int from = twin_param(n->op, i);
        call[i] = from < 0 ? twin->param[i].preset : object_arg(x, &n->arg[from]);
    }
    if (twin->result_count != 1 || cr_call(twin, call, result))
        return false;
    walk_own(x, result[0].t);
    for (int i = 0; i < twin->param_count; i++) {
        int from = twin_param(n->op, i);
        arg[i] = from < 0 ? preset_arg(&twin->param[i])
                          : cr_garg_copy(x->out, &n->arg[from], view_arg, &(view_map){.x = x});
    }
    made = cr_graph_call(x->out, x->out->body, twin, arg, 1, NULL);
    made->source = n->source;
    made->result[0]->type = fake_type(x, result[0].t);
    pass_gradient(made, x->gradient);
    pair p = fitted(x, (pair){made->result[0], result[0].t}, o->t, &copy);
    if (!cr_has_sizes(p.t, o->t->ndim, o->t->size))
        return false;
    /* a dropout with p = 0 returns its argument */
    lent = search_args(x, n, result[0].t);
    write_to(x, o, p, lent.shares && !copy ? lent.shares->in : NULL);
    return true;
}

/* Replaces a node by one without writes; false when that is not possible. */
static bool write_node(walk *x, const cr_gnode *n)
{
    const cr_rule *computes = n->op->functional;
    const cr_garg *a = n->arg;
    object *o = a[0].tag == CR_TENSOR ? object_of(x, a[0].value) : NULL;
    int written = 0;

    for (int i = 0; i < n->arg_count; i++)
        written += n->op->param[i].written;
    if (!o || !n->op->param[0].written || written != 1 || n->op->updates.params)
        return false;
    if (computes && computes->kind == CR_RULE_NAME) {
        write_copy(x, o, a[computes->slot].value);
        return true;
    }
    if ((n->op->words & CR_WORD_RANDOM) && !n->op->inplace_of)
        return write_draw(x, o, n);
    return twin_of(n->op) && write_twin(x, o, n, twin_of(n->op));
}

static void stay_all(walk *x, object *o, void *unused)
{
    (void)unused;
    if (is_rewritten(o->in))
        stay(x, o->in);
}

/* --- the second walk --- */

static cr_gvalue *plain_arg(void *walk_, cr_gvalue *v) { return now_of(walk_, v); }

static void copy_call(walk *x, const cr_gnode *n)
{
    cr_garg arg[CR_MAX_ARGS];
    const char **names = CR_NEW_N(x->s, const char *, n->result_count);

    for (int i = 0; i < n->arg_count; i++)
        arg[i] = cr_garg_copy(x->out, &n->arg[i], plain_arg, x);
    for (int k = 0; k < n->result_count; k++)
        names[k] = n->result[k]->name;
    cr_gnode *copy = cr_graph_call(x->out, x->out->body, n->op, arg, n->result_count, names);
    copy->source = n->source;
    copy->no_grad = n->no_grad;
    for (int k = 0; k < n->result_count; k++) {
        object *o = x->of[n->result[k]->id];
        x->plain[n->result[k]->id] = copy->result[k];
        copy->result[k]->type = n->result[k]->type;
        if (!o)
            continue;
        if (!copy->result[k]->type.known)
            copy->result[k]->type = fake_type(x, o->t);
        if (o->view != n || o->op != n->op)
            continue; /* the result is an argument itself */
        set_value(o, copy->result[k]);
        if (!o->from)
            o->in->now = copy->result[k];
    }
}

static void write_call(walk *x, const cr_gnode *n)
{
    bool rewritten = false, kept = false, marked = false;
    cr_gvalue *self;

    for (int i = 0; i < n->arg_count; i++) {
        const cr_garg *a = &n->arg[i];
        marked |= n->op->param[i].written;
        if (a->tag == CR_TENSOR && n->op->param[i].written)
            *(is_rewritten(object_of(x, a->value)->in) ? &rewritten : &kept) = true;
    }
    if (rewritten && !kept && write_node(x, n)) {
        /* the results are self */
        self = n->arg[0].value;
        for (int k = 0; k < n->result_count; k++)
            x->plain[n->result[k]->id] = x->plain[self->id];
        return;
    }
    for (int i = 0; i < n->arg_count; i++)
        if (n->op->param[i].written || !marked)
            each_object(x, &n->arg[i], stay_all, NULL);
    copy_call(x, n);
}

/* Replaces resize_ of an empty tensor by a new tensor. */
static void resize_call(walk *x, object *o)
{
    cr_value size = cr_of_ints(o->t->size, o->t->ndim);
    const cr_op *op = cr_entry.empty_memory_format;
    cr_garg arg[CR_MAX_ARGS];

    for (int i = 0; i < op->param_count; i++) {
        arg[i] = preset_arg(&op->param[i]);
        if (op->param[i].type == CR_T_DTYPE)
            arg[i] = (cr_garg){.tag = CR_DTYPE_VAL, .i = o->t->dtype};
    }
    arg[0] = (cr_garg){.tag = CR_INTS, .len = size.len, .ints = size.ints};
    cr_gnode *n = cr_graph_call(x->out, x->out->body, op, arg, 1, NULL);
    n->result[0]->type = fake_type(x, o->t);
    o->from = NULL;
    o->in->base = o;
    o->in->now = n->result[0];
    o->in->version++;
    set_value(o, n->result[0]);
}

static void walk_copy(walk *x, const cr_gnode *n, const node_fact *f)
{
    object *o;

    x->source = n->source;
    x->gradient = result_needs_grad(n);
    if (n->kind == CR_GNODE_CONSTANT) {
        cr_gvalue *v = cr_graph_constant(x->out, x->out->body, n->constant, n->result[0]->name);
        o = x->of[n->result[0]->id];
        x->plain[n->result[0]->id] = v;
        o->in->home = o->in->now = v;
        set_value(o, v);
    } else if (f->turned) {
        o = f->turned;
        object_of(x, n->arg[0].value)->became = o;
        if (f->resized)
            resize_call(x, o);
        for (int k = 0; k < n->result_count; k++)
            x->plain[n->result[k]->id] = object_value(x, o);
        for (size_t i = 0; i < x->g->values; i++) /* all values of the tensor */
            if (x->of[i] && object_root(x->of[i]) == o && x->plain[i])
                x->plain[i] = object_value(x, o);
    } else if (f->writes) {
        write_call(x, n);
    } else {
        copy_call(x, n);
    }
}

/* --- the end --- */

static object *output_object(walk *x, int k)
{
    const cr_garg *a = &x->g->body->output[k];

    return a->tag == CR_TENSOR ? object_of(x, a->value) : NULL;
}

static void give_own_memory(walk *x, region *r)
{
    pair p = {r->now, r->base->t};

    r->now = copied(x, p, r->base->t).v;
    r->lender = r->memory = NULL;
    r->version++;
}

static void copy_back(walk *x, region *r)
{
    pair both[2] = {{r->home, r->base->t}, {r->now, r->base->t}};

    r->now = walk_call(x, cr_entry.copy_, ARGS(TENSOR, TENSOR), both).v;
    r->version++;
}

static cr_gvalue *graph_output(walk *x, int k)
{
    object *o = output_object(x, k);

    if (!o || !is_rewritten(o->in))
        return x->plain[x->g->body->output[k].value->id];
    for (object *p = o; p; p = p->from) /* the output must be the view itself */
        if (!p->aliases)
            p->value = NULL;
    return object_value(x, o);
}

static void end_graph(walk *x)
{
    const cr_gblock *b = x->g->body;
    cr_garg *out = CR_NEW_N(x->s, cr_garg, b->output_count);

    x->source = NULL;
    for (int k = 0; k < b->output_count; k++) {
        object *o = output_object(x, k);
        if (o && is_rewritten(o->in) && !o->in->home && o->in->lender)
            give_own_memory(x, o->in);
    }
    /* values in memory that an earlier copy back overwrites are copied */
    for (size_t i = 0; i < x->changed.len; i++) {
        const region *memory = x->changed.at[i]->memory;
        if (memory && memory->version && memory->order < i)
            give_own_memory(x, x->changed.at[i]);
    }
    for (size_t i = 0; i < x->changed.len; i++)
        copy_back(x, x->changed.at[i]);
    for (int k = 0; k < b->output_count; k++)
        if (b->output[k].tag == CR_TENSOR) {
            out[k] = cr_garg_value(graph_output(x, k));
            cr_gvalue_show(x->s, out[k].value, &b->output[k].value->type);
        }
    cr_gblock_return(x->out, x->out->body, out, b->output_count);
}

static void forget_objects(walk *x)
{
    for (size_t i = 0; i < x->g->values; i++)
        for (object *o = x->of[i], *next; o; o = next) {
            next = o->became;
            o->became = NULL;
            o->value = NULL;
        }
    for (size_t i = 0; i < x->regions.len; i++) {
        x->regions.at[i]->now = NULL;
        x->regions.at[i]->version = 0;
        x->regions.at[i]->lender = x->regions.at[i]->memory = NULL;
    }
    x->changed.len = 0;
    x->again = false;
}

static void make_graph(walk *x)
{
    const cr_gblock *b = x->g->body;

    forget_objects(x);
    x->out = cr_graph_new(x->s);
    for (int i = 0; i < x->g->input_count; i++) {
        const cr_gvalue *v = x->g->input[i];
        object *o = x->of[v->id];
        cr_gvalue *in = cr_graph_input(x->out, v->name, &v->type);
        x->plain[v->id] = o->in->home = o->in->now = in;
        set_value(o, in);
    }
    for (size_t i = 0; i < b->len; i++)
        walk_copy(x, b->at[i], &x->fact[i]);
    end_graph(x);
}

static bool any_node_writes(const cr_graph *g)
{
    for (size_t i = 0; i < g->body->len; i++)
        if (cr_gnode_writes(g->body->at[i]))
            return true;
    return false;
}

/* Runs below autograd, so that only fakes are recorded. */
static void walk_twice(cr_session *s, void *context)
{
    walk *x = context;

    (void)s;
    x->of = CR_NEW_N(x->s, object *, x->g->values);
    x->plain = CR_NEW_N(x->s, cr_gvalue *, x->g->values);
    x->fact = CR_NEW_N(x->s, node_fact, x->g->body->len);
    see_graph(x);
    while (!x->give_up) {
        make_graph(x);
        if (!x->again)
            return;
        cr_graph_drop(x->out);
        x->out = NULL;
    }
}

/* True for a norm that updates its statistics, whose parts have visible writes. */
static bool updates_statistics(const cr_gnode *n)
{
    return n->op->updates.params && cr_gnode_writes(n);
}

static cr_graph *functional(const cr_graph *g)
{
    walk x = {.g = g, .s = g->session};
    cr_thread_state was = cr_thread;
    cr_status st;

    cr_thread.include = 0;
    cr_thread.exclude |= CR_STAGE_BIT(FAKE) - 1;
    cr_thread.no_grad = cr_thread.fakes = true;
    st = cr_session_run(g->session, walk_twice, &x);
    cr_thread = was;
    for (size_t i = 0; i < x.made.len; i++)
        cr_drop(x.made.at[i]);
    cr_arena_drop(&x.room);
    if (st && x.out)
        cr_graph_drop(x.out);
    cr_session_check(g->session, st);
    if (x.give_up)
        return (cr_graph *)(uintptr_t)g;
    cr_graph *out = cr_graph_dead(x.out);
    cr_graph_drop(x.out);
    return out;
}

cr_graph *cr_graph_functional(const cr_graph *g)
{
    cr_graph *split, *out;

    if (!any_node_writes(g))
        return (cr_graph *)(uintptr_t)g;
    cr_graph_need_sizes(g);
    split = cr_graph_split(g, updates_statistics);
    out = functional(split);
    if (split != g && split != out)
        cr_graph_drop(split);
    return out;
}
