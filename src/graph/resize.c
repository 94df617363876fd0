/* Other sizes for a graph.
 *
 * The operators' rules compute the types of values; they run on tensors without bytes.  Many of
 * these calls are equal, because equal layers have equal calls.  So values with equal types at
 * every probe form a class.  A class has one type, whose arrays its values share.  Two calls
 * are one *rule* if they have the same entry, the same arguments and tensors of the same
 * classes; each rule runs once.  A rule whose tensors depend only on inputs and constants of
 * fixed sizes does not run again.
 *
 * Classes are only observed, so they are checked for other sizes: every rule's results must
 * have the type of their class, and the first computed result decides it.  Entry, arguments and
 * classes determine a rule's results, so every type is then the one that its rule computes. */
#include "base/log.h"
#include "base/map.h"
#include "graph/graph.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include <string.h>

enum { NO_CLASS = UINT32_MAX };

typedef struct {
    cr_gtype type;   /* all values of the class share its arrays */
    int64_t *stride; /* strides of the type, or row-major strides */
    cr_tensor shell; /* the type as a tensor without storage, and as a view: for functions of */
    cr_view view;    /* sizes and strides only */
    cr_tensor *fake; /* made at first use; owned */
    bool fixed;      /* equal for all sizes */
    bool known;      /* for the present sizes */
} size_class;

/* A tensor of a rule's arguments. */
typedef struct {
    cr_value *at;
    size_class *of;
} rule_read;

/* How the types of a rule's results are computed. */
typedef enum {
    RULE_CALL,  /* by a call on tensors without bytes */
    RULE_BODY,  /* elementwise: by the geometries of the arguments */
    RULE_SHAPE, /* by the entry's function of sizes; results are row-major */
    RULE_MAP    /* by the entry's function of geometry */
} rule_way;

typedef struct {
    const cr_gnode *n;
    cr_value *arg; /* complete except for tensors and numbers that vary */
    CR_VEC(rule_read) reads;
    bool fixed;
    uint8_t way;             /* rule_way */
    bool writes;             /* its tensors must not share memory */
    int64_t offset, *stride; /* of a view's result */
} size_rule;

struct cr_gsizes {
    cr_session session;
    cr_graph *g;
    const cr_gvarying_dims *inputs;
    uint32_t *class_of, *rule_of; /* by value id; a rule by its first result's */
    CR_VEC(size_class *) classes;
    CR_VEC(size_rule *) rules;
    CR_VEC(const cr_gnode *) varying; /* nodes with numbers that vary */
};

static void *resize_writable(const void *p) { return (void *)(uintptr_t)p; }

/* --- numbers of arguments --- */

static void resize_item(const cr_gnode *n, const cr_gvarying *v, cr_scalar to)
{
    cr_garg *a = &n->arg[v->arg];

    switch (a->tag) {
    case CR_INT: a->i = to.i; return;
    case CR_FLOAT: a->d = cr_scalar_as_double(to); return;
    case CR_NUMBER: a->number = to; return;
    case CR_INTS: ((int64_t *)resize_writable(a->ints))[v->item] = to.i; return;
    default: CR_ASSERT(!"only numbers vary");
    }
}

static void resize_items(const cr_gnode *n, const cr_scalar *value)
{
    for (int i = 0; i < n->varying_count; i++)
        resize_item(n, &n->varying[i], value[n->varying[i].number]);
}

static cr_value resize_literal(const cr_garg *a)
{
    cr_value v = {.tag = a->tag, .len = a->len};

    memcpy(&v.number, &a->number, sizeof a->number); /* the largest member */
    return v;
}

/* --- types --- */

static bool type_is_alike(int ndim, const int64_t *a, const int64_t *b)
{
    for (int d = 0; d < ndim; d++)
        if (a[d] != b[d] && (a[d] < 2 || b[d] < 2))
            return false;
    return true;
}

/* True if both have strides or both have none; a type without elements may have some, though
 * all strides are contiguous then. */
static bool type_strides_are_like(const cr_gtype *type, const cr_tensor *t)
{
    bool empty = type->stride && t->stride && !cr_numel(t->ndim, t->size);

    return empty || !type->stride == t->contiguous;
}

/* True if a pass or a plan made for the type is also valid for `t`. */
static bool type_is_like(const cr_gtype *type, const cr_tensor *t)
{
    return type->known && type->dtype == t->dtype && type->ndim == t->ndim &&
           type_strides_are_like(type, t) && type_is_alike(t->ndim, type->size, t->size);
}

static cr_status type_check_like(const cr_gtype *type, const cr_tensor *t, const cr_gvalue *v)
{
    return type_is_like(type, t)
               ? CR_OK
               : cr_fail(CR_VALUE, "%%%s is of another kind for these sizes", v->name);
}

/* The tensors that a call returned: one for each result, or the items of a list. */
static cr_status rule_results(cr_value **out, const cr_gnode *n, cr_value *result)
{
    bool list = n->op->result_count == 1 && result[0].tag == CR_TENSORS;
    int count = list ? (int)result[0].len : n->op->result_count;

    *out = list ? resize_writable(result[0].list) : result;
    return count == n->result_count
               ? CR_OK
               : cr_fail(CR_VALUE, "%s returns another number of tensors for these sizes",
                         n->op->name);
}

/* --- all types for one choice of sizes --- */

typedef struct {
    cr_gsizes *x;
    const cr_scalar *value;
    cr_tensor **fake;      /* by value id; owned */
    const cr_gtype **type; /* by value id, in x->session; NULL: no tensor */
} probe;

static void probe_input(probe *p, uint32_t i)
{
    const cr_gvarying_dims *in = p->x->inputs;
    const cr_gvalue *v = p->x->g->input[i];
    cr_session *s = &p->x->session;
    size_t bytes = v->type.ndim * sizeof *v->type.size;
    cr_gtype *t = cr_session_copy(s, &v->type, sizeof v->type);

    t->size = cr_session_copy(s, t->size, bytes);
    t->stride = t->stride ? cr_session_copy(s, t->stride, bytes) : NULL;
    for (size_t k = 0; k < in->len; k++)
        if (in->at[k].input == i)
            ((int64_t *)resize_writable(in->at[k].is_stride ? t->stride
                                                            : t->size))[in->at[k].dim] =
                p->value[in->at[k].number].i;
    p->type[v->id] = t;
    cr_session_check(s, cr_gtype_fake(&p->fake[v->id], t));
}

static cr_value probe_arg(probe *p, const cr_garg *a)
{
    cr_value v = resize_literal(a), *list;

    if (a->tag == CR_TENSOR)
        return p->fake[a->value->id] ? cr_of_tensor(p->fake[a->value->id])
                                     : (cr_value){.tag = CR_NONE};
    if (a->tag != CR_TENSORS && a->tag != CR_NUMBERS)
        return v;
    list = CR_NEW_N(&p->x->session, cr_value, a->len);
    for (uint32_t i = 0; i < a->len; i++)
        list[i] = probe_arg(p, &a->list[i]);
    v.list = list;
    return v;
}

static cr_status probe_results(probe *p, const cr_gnode *n, cr_value *result)
{
    cr_value *list;

    CR_TRY(rule_results(&list, n, result));
    for (int k = 0; k < n->result_count; k++) {
        if (list[k].tag != CR_TENSOR)
            continue;
        p->fake[n->result[k]->id] = list[k].t;
        list[k].tag = CR_NONE;
        CR_TRY(type_check_like(&n->result[k]->type, p->fake[n->result[k]->id], n->result[k]));
    }
    return CR_OK;
}

static void probe_type(probe *p, const cr_gvalue *v)
{
    cr_gtype *t = CR_NEW(&p->x->session, cr_gtype);

    if (!p->fake[v->id])
        return;
    *t = cr_gtype_of(&p->x->session, p->fake[v->id]);
    t->device = v->type.device;
    p->type[v->id] = t;
}

static void probe_call(probe *p, const cr_gnode *n)
{
    cr_session *s = &p->x->session;
    cr_value arg[CR_MAX_ARGS], result[CR_MAX_RESULTS];

    resize_items(n, p->value);
    for (int i = 0; i < n->arg_count; i++)
        arg[i] = probe_arg(p, &n->arg[i]);
    if (!n->result_count)
        return; /* a node that only writes has no sizes to compute */
    cr_session_check(s, cr_call(n->op, arg, result));
    cr_status st = probe_results(p, n, result);
    cr_drop_values(result, n->op->result_count);
    cr_session_check(s, st);
    for (int k = 0; k < n->result_count; k++)
        probe_type(p, n->result[k]);
}

static void probe_constant(probe *p, const cr_gvalue *v)
{
    cr_session_check(&p->x->session, cr_gtype_fake(&p->fake[v->id], &v->type));
    p->type[v->id] = &v->type;
}

static void probe_block(probe *p, const cr_gblock *b);

static void probe_group(probe *p, const cr_gnode *n)
{
    probe_block(p, n->block[0]);
    for (int k = 0; k < n->result_count; k++) {
        unsigned from = n->block[0]->output[k].value->id;
        p->fake[n->result[k]->id] = cr_keep(p->fake[from]);
        p->type[n->result[k]->id] = p->type[from];
    }
}

static void probe_block(probe *p, const cr_gblock *b)
{
    for (size_t i = 0; i < b->len; i++)
        switch ((cr_gnode_kind)b->at[i]->kind) {
        case CR_GNODE_CALL: probe_call(p, b->at[i]); break;
        case CR_GNODE_CONSTANT: probe_constant(p, b->at[i]->result[0]); break;
        case CR_GNODE_GROUP: probe_group(p, b->at[i]); break;
        case CR_GNODE_IF:
            cr_bail(&p->x->session, CR_VALUE, "a choice has the sizes that it was made for");
        }
}

static void probe_all(cr_session *s, void *context)
{
    probe *p = context;

    p->type = CR_NEW_N(s, const cr_gtype *, p->x->g->values + 1);
    for (int i = 0; i < p->x->g->input_count; i++)
        probe_input(p, (uint32_t)i);
    probe_block(p, p->x->g->body);
}

static cr_status probe_at(const cr_gtype ***out, cr_gsizes *x, const cr_scalar *value)
{
    probe p = {.x = x, .value = value};
    cr_status st;

    p.fake = cr_alloc_zero((x->g->values + 1) * sizeof *p.fake);
    st = p.fake ? cr_session_run(&x->session, probe_all, &p) : CR_MEMORY;
    for (unsigned i = 0; p.fake && i < x->g->values; i++)
        cr_drop(p.fake[i]);
    cr_free(p.fake);
    *out = p.type;
    return st;
}

/* --- classes --- */

typedef struct {
    cr_gsizes *x;
    const cr_gtype **const *type; /* by probe, then by value id */
    int probes;
    cr_map classes, rules; /* 1 + number, by text */
    cr_text text;
} classifier;

static void classify_put(classifier *c, const void *bytes, size_t n)
{
    cr_text_put_n(&c->text, bytes, n);
}

/* The number of the text, or `fresh` if the text is new. */
static uint32_t classify_text(classifier *c, cr_map *map, size_t fresh)
{
    cr_session *s = &c->x->session;
    cr_session_check(s, cr_text_status(&c->text));
    uintptr_t known = (uintptr_t)cr_map_get(map, c->text.at, c->text.len);

    if (known)
        return (uint32_t)known - 1;
    cr_session_check(
        s, cr_map_set(map, c->text.at, c->text.len, resize_writable((void *)(fresh + 1))));
    return (uint32_t)fresh;
}

static void classify_put_types(classifier *c, unsigned id)
{
    const cr_gtype *first = c->type[0][id];
    uint8_t facts[] = {first->dtype, first->ndim, first->stride != NULL, first->device.kind,
                       first->device.index};

    classify_put(c, facts, sizeof facts);
    for (int p = 0; p < c->probes; p++) {
        const cr_gtype *t = c->type[p][id];
        size_t bytes = t->ndim * sizeof *t->size;
        classify_put(c, t->size, bytes);
        if (first->stride)
            classify_put(c, t->stride, bytes);
    }
}

/* Fills the fields that depend on the sizes of the type. */
static void class_complete(size_class *c)
{
    const cr_gtype *t = &c->type;

    if (!t->stride)
        cr_row_major_strides(c->stride, t->ndim, t->size);
    c->shell.numel = cr_numel(t->ndim, t->size);
}

static void classify_add(classifier *c, const cr_gtype *type)
{
    cr_session *s = &c->x->session;
    size_t bytes = type->ndim * sizeof *type->size;
    size_class *made = CR_NEW(s, size_class);

    made->type = *type;
    made->type.size = cr_session_copy(s, type->size, bytes);
    made->stride = cr_session_copy(s, type->stride ? type->stride : type->size, bytes);
    made->type.stride = type->stride ? made->stride : NULL;
    made->shell = (cr_tensor){.dtype = type->dtype,
                              .ndim = type->ndim,
                              .device = cr_as_fake(type->device),
                              .contiguous = !type->stride,
                              .size = resize_writable(made->type.size),
                              .stride = made->stride};
    made->view = cr_shape_view(&made->shell);
    class_complete(made);
    CR_PUSH(s, &c->x->classes, made);
}

static void classify(classifier *c, cr_gvalue *v)
{
    cr_gsizes *x = c->x;

    if (!c->type[0][v->id])
        return;
    for (int p = 1; p < c->probes; p++)
        if (!c->type[p][v->id] || !c->type[p][v->id]->stride != !c->type[0][v->id]->stride)
            cr_bail(&x->session, CR_VALUE, "%%%s is of another kind for other sizes", v->name);
    c->text.len = 0;
    classify_put_types(c, v->id);
    uint32_t k = classify_text(c, &c->classes, x->classes.len);
    if (k == x->classes.len)
        classify_add(c, c->type[0][v->id]);
    x->class_of[v->id] = k;
    v->type.size = x->classes.at[k]->type.size;
    v->type.stride = x->classes.at[k]->type.stride;
}

/* --- rules --- */

/* NULL: the value is no tensor. */
static size_class *resize_class(const cr_gsizes *x, const cr_gvalue *v)
{
    uint32_t k = x->class_of[v->id];

    return k == NO_CLASS ? NULL : x->classes.at[k];
}

static uintptr_t class_number(void *sizes, const cr_gvalue *v)
{
    return ((const cr_gsizes *)sizes)->class_of[v->id];
}

static cr_value rule_arg(cr_gsizes *x, size_rule *r, const cr_garg *a, cr_value *at)
{
    cr_value v = resize_literal(a), *list;

    if (a->tag == CR_TENSOR) {
        size_class *of = resize_class(x, a->value);
        if (!of)
            return (cr_value){.tag = CR_NONE};
        CR_PUSH(&x->session, &r->reads, ((rule_read){at, of}));
    } else if (a->tag == CR_TENSORS || a->tag == CR_NUMBERS) {
        list = CR_NEW_N(&x->session, cr_value, a->len);
        for (uint32_t i = 0; i < a->len; i++)
            list[i] = rule_arg(x, r, &a->list[i], &list[i]);
        v.list = list;
    }
    return v;
}

static bool rule_writes(const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].written)
            return true;
    return false;
}

/* True if every result of the entry is one tensor of a known class. */
static bool rule_gives_each(const cr_gsizes *x, const cr_gnode *n)
{
    bool each = n->result_count == n->op->result_count && n->op->result[0].type != CR_T_TENSORS;

    for (int k = 0; k < n->result_count; k++)
        each = each && resize_class(x, n->result[k]);
    return each;
}

static uint32_t rule_varying(const cr_gnode *n)
{
    uint32_t params = 0;

    for (int i = 0; i < n->varying_count; i++)
        params |= UINT32_C(1) << n->varying[i].arg;
    return params;
}

/* Sizes of results follow from views alone.  `passes`: no check may hold at other sizes. */
static bool rule_has_shape(const cr_op *op, bool passes)
{
    if (!cr_op_on_views(op) || op->format.rule || op->words & CR_WORD_SIZED_BY_VALUES)
        return false;
    return op->sizes.fn ? passes : op->sizes.compiled && (passes || op->passes);
}

/* Evaluated checks need tensors, so other entries that check sizes are called. */
static rule_way rule_find_way(const cr_gsizes *x, const size_rule *r)
{
    const cr_op *op = r->n->op;
    bool passes = cr_checks_ignore_sizes(op, rule_varying(r->n));

    if (r->writes || !rule_gives_each(x, r->n))
        return RULE_CALL;
    if (rule_has_shape(op, passes))
        return RULE_SHAPE;
    if (!passes)
        return RULE_CALL;
    if (op->does == CR_DOES_BODY && r->reads.len)
        return RULE_BODY;
    return op->does == CR_DOES_MAP && !(op->words & CR_WORD_ABSOLUTE) ? RULE_MAP : RULE_CALL;
}

static void rule_load_shells(size_rule *r)
{
    for (size_t i = 0; i < r->reads.len; i++) {
        size_class *of = r->reads.at[i].of;
        *r->reads.at[i].at = r->way == RULE_SHAPE
                                 ? (cr_value){.tag = CR_VIEW, .view = &of->view}
                                 : cr_of_tensor(&of->shell);
    }
}

static bool rule_is_fixed(const size_rule *r)
{
    bool fixed = !r->n->varying_count;

    for (size_t i = 0; i < r->reads.len; i++)
        fixed = fixed && r->reads.at[i].of->fixed;
    return fixed;
}

static void rule_add(classifier *c, const cr_gnode *n)
{
    cr_gsizes *x = c->x;
    size_rule *r = CR_NEW(&x->session, size_rule);

    *r = (size_rule){.n = n, .writes = rule_writes(n->op)};
    r->arg = CR_NEW_N(&x->session, cr_value, n->arg_count);
    for (int i = 0; i < n->arg_count; i++)
        r->arg[i] = rule_arg(x, r, &n->arg[i], &r->arg[i]);
    if (n->op->does == CR_DOES_MAP)
        r->stride = CR_NEW_N(&x->session, int64_t, CR_MAX_DIMS);
    r->way = (uint8_t)rule_find_way(x, r);
    if (r->way != RULE_CALL)
        rule_load_shells(r);
    r->fixed = rule_is_fixed(r);
    for (int k = 0; r->fixed && k < n->result_count; k++)
        if (resize_class(x, n->result[k]))
            resize_class(x, n->result[k])->fixed = true;
    if (!r->fixed && r->way == RULE_CALL)
        cr_log_line("graph", 3, "other sizes: %s is called on tensors without bytes",
                    n->op->name);
    CR_PUSH(&x->session, &x->rules, r);
}

static void classify_call(classifier *c, const cr_gnode *n)
{
    cr_gsizes *x = c->x;

    for (int k = 0; k < n->result_count; k++)
        classify(c, n->result[k]);
    if (n->varying_count)
        CR_PUSH(&x->session, &x->varying, n);
    if (!n->result_count)
        return;
    c->text.len = 0;
    cr_gnode_key(&c->text, n, class_number, x);
    uint32_t k = classify_text(c, &c->rules, x->rules.len);
    x->rule_of[n->result[0]->id] = k;
    if (k == x->rules.len)
        rule_add(c, n);
}

static void classify_block(classifier *c, const cr_gblock *b)
{
    for (size_t i = 0; i < b->len; i++) {
        const cr_gnode *n = b->at[i];
        if (n->kind == CR_GNODE_CALL) {
            classify_call(c, n);
            continue;
        }
        if (n->kind == CR_GNODE_GROUP)
            classify_block(c, n->block[0]);
        for (int k = 0; k < n->result_count; k++)
            classify(c, n->result[k]);
        if (n->kind == CR_GNODE_CONSTANT)
            resize_class(c->x, n->result[0])->fixed = true;
    }
}

static bool classify_input_varies(const cr_gsizes *x, uint32_t i)
{
    for (size_t k = 0; k < x->inputs->len; k++)
        if (x->inputs->at[k].input == i)
            return true;
    return false;
}

static void classify_all(cr_session *s, void *context)
{
    classifier *c = context;
    cr_gsizes *x = c->x;
    unsigned values = x->g->values + 1;

    x->class_of = CR_NEW_N(s, uint32_t, values);
    x->rule_of = CR_NEW_N(s, uint32_t, values);
    memset(x->class_of, 0xff, values * sizeof *x->class_of);
    for (int i = 0; i < x->g->input_count; i++) {
        classify(c, x->g->input[i]);
        if (!classify_input_varies(x, (uint32_t)i))
            resize_class(x, x->g->input[i])->fixed = true;
    }
    classify_block(c, x->g->body);
}

/* --- the whole --- */

static cr_thread_state rules_begin(void)
{
    cr_thread_state was = cr_thread;

    cr_thread.no_grad = cr_thread.fakes = true;
    cr_thread.exclude |= CR_STAGE_BIT(FAKE) - 1;
    return was;
}

static void rules_end(cr_thread_state was)
{
    cr_thread.no_grad = was.no_grad;
    cr_thread.fakes = was.fakes;
    cr_thread.exclude = was.exclude;
}

/* Probe 0 is last, because the arguments of nodes must have its numbers afterwards. */
static cr_status probe_each(classifier *c, const cr_scalar *const *value)
{
    const cr_gtype ***type = resize_writable(c->type);
    cr_thread_state was = rules_begin();
    cr_status st = CR_OK;

    for (int p = c->probes; !st && p-- > 0;)
        st = probe_at(&type[p], c->x, value[p]);
    rules_end(was);
    if (!st)
        st = cr_session_run(&c->x->session, classify_all, c);
    return st;
}

cr_status cr_gsizes_new(cr_gsizes **out, cr_graph *g, const cr_gvarying_dims *inputs,
                        const cr_scalar *const *value, int probes)
{
    cr_gsizes *x = cr_alloc_zero(sizeof *x);
    const cr_gtype ***type = cr_alloc_zero((size_t)probes * sizeof *type);
    classifier c = {.x = x, .type = (const cr_gtype **const *)type, .probes = probes};
    cr_status st = x && type ? CR_OK : CR_MEMORY;

    if (!st) {
        x->g = g;
        x->inputs = inputs;
        st = probe_each(&c, value);
    }
    cr_map_drop(&c.classes);
    cr_map_drop(&c.rules);
    cr_text_drop(&c.text);
    cr_free(type);
    CR_GIVE(st, out, x, cr_gsizes_drop);
}

void cr_gsizes_drop(cr_gsizes *x)
{
    if (!x)
        return;
    for (size_t k = 0; k < x->classes.len; k++)
        cr_drop(x->classes.at[k]->fake);
    cr_session_drop(&x->session);
    cr_free(x);
}

/* --- other sizes --- */

static bool class_has(const cr_gtype *type, const cr_tensor *t)
{
    size_t bytes = t->ndim * sizeof *t->size;

    return type->dtype == t->dtype && type->ndim == t->ndim && type_strides_are_like(type, t) &&
           !memcmp(type->size, t->size, bytes) &&
           (!type->stride || !memcmp(type->stride, t->stride, bytes));
}

/* Sets or checks the type of a class for the present sizes: the first tensor decides it, others
 * must have the same. */
static cr_status class_meet(size_class *c, const cr_tensor *t, const cr_gvalue *v)
{
    size_t bytes = t->ndim * sizeof *t->size;

    if (c->known)
        return class_has(&c->type, t)
                   ? CR_OK
                   : cr_fail(CR_VALUE, "%%%s has another type than values that it was like",
                             v->name);
    CR_TRY(type_check_like(&c->type, t, v));
    memcpy(resize_writable(c->type.size), t->size, bytes);
    if (c->type.stride)
        memcpy(c->stride, t->stride, bytes);
    class_complete(c);
    c->known = true;
    return CR_OK;
}

/* Sets the dims of input at->input; *next becomes the first dim of another input. */
static cr_status class_set_input(cr_gsizes *x, const cr_scalar *value, size_t *next)
{
    const cr_gvarying_dims *in = x->inputs;
    uint32_t input = in->at[*next].input;
    const cr_gvalue *v = x->g->input[input];
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    size_t bytes = v->type.ndim * sizeof *size;
    cr_tensor t = {.dtype = v->type.dtype,
                   .ndim = v->type.ndim,
                   .contiguous = !v->type.stride,
                   .size = memcpy(size, v->type.size, bytes),
                   .stride = stride};

    if (v->type.stride)
        memcpy(stride, v->type.stride, bytes);
    for (; *next < in->len && in->at[*next].input == input; ++*next) {
        const cr_gvarying_dim *d = &in->at[*next];
        (d->is_stride ? stride : size)[d->dim] = value[d->number].i;
    }
    return class_meet(resize_class(x, v), &t, v);
}

static cr_status class_set_inputs(cr_gsizes *x, const cr_scalar *value)
{
    for (size_t k = 0; k < x->inputs->len;)
        CR_TRY(class_set_input(x, value, &k));
    return CR_OK;
}

/* --- calls of rules --- */

/* True if dims of one element have the strides of the type, so that the tensor can be used for
 * all values of its class. */
static bool class_may_lend(const cr_tensor *t)
{
    int64_t stride[CR_MAX_DIMS];

    if (!t->contiguous)
        return true;
    cr_row_major_strides(stride, t->ndim, t->size);
    return !memcmp(stride, t->stride, t->ndim * sizeof *stride);
}

static cr_status rule_take_result(size_class *c, const cr_gvalue *v, cr_value *result)
{
    CR_TRY(class_meet(c, result->t, v));
    if (c->fake || !class_may_lend(result->t))
        return CR_OK;
    c->fake = result->t;
    result->tag = CR_NONE;
    return CR_OK;
}

static void rule_see_view(size_rule *r, const cr_tensor *made)
{
    r->offset = made->offset - r->reads.at[0].at->t->offset;
    memcpy(r->stride, made->stride, made->ndim * sizeof *made->stride);
}

static cr_status rule_take_results(cr_gsizes *x, size_rule *r, cr_value *result)
{
    cr_value *list;

    CR_TRY(rule_results(&list, r->n, result));
    if (r->stride)
        rule_see_view(r, list[0].t);
    for (int k = 0; k < r->n->result_count; k++) {
        size_class *c = resize_class(x, r->n->result[k]);
        if ((list[k].tag == CR_TENSOR) != (c != NULL))
            return cr_fail(CR_VALUE, "%s returns other tensors for these sizes",
                           r->n->op->name);
        if (c)
            CR_TRY(rule_take_result(c, r->n->result[k], &list[k]));
    }
    return CR_OK;
}

static cr_status rule_load(size_rule *r)
{
    for (size_t i = 0; i < r->reads.len; i++) {
        size_class *c = r->reads.at[i].of;
        if (!c->fake)
            CR_TRY(cr_gtype_fake(&c->fake, &c->type));
        *r->reads.at[i].at = cr_of_tensor(c->fake);
    }
    return CR_OK;
}

/* Each argument of a call that writes gets a tensor with separate memory; the caller drops
 * them. */
static cr_status rule_load_apart(size_rule *r)
{
    for (size_t i = 0; i < r->reads.len; i++)
        *r->reads.at[i].at = (cr_value){.tag = CR_TENSOR};
    for (size_t i = 0; i < r->reads.len; i++)
        CR_TRY(cr_gtype_fake(&r->reads.at[i].at->t, &r->reads.at[i].of->type));
    return CR_OK;
}

static cr_status rule_call_loaded(cr_gsizes *x, size_rule *r)
{
    cr_value result[CR_MAX_RESULTS];

    CR_TRY(r->writes ? rule_load_apart(r) : rule_load(r));
    CR_TRY(cr_call(r->n->op, r->arg, result));
    cr_status st = rule_take_results(x, r, result);
    cr_drop_values(result, r->n->op->result_count);
    return st;
}

static cr_status rule_call(cr_gsizes *x, size_rule *r)
{
    cr_status st = rule_call_loaded(x, r);

    for (size_t i = 0; r->writes && i < r->reads.len; i++)
        cr_drop(r->reads.at[i].at->t);
    return st;
}

/* --- rules without calls --- */

/* Result k has these sizes and strides; NULL: row-major. */
static cr_status rule_meet(cr_gsizes *x, const size_rule *r, int k, int ndim,
                           const int64_t *size, const int64_t *stride)
{
    const cr_gvalue *v = r->n->result[k];
    size_class *c = resize_class(x, v);
    cr_tensor t = {.dtype = c->type.dtype,
                   .ndim = (uint8_t)ndim,
                   .contiguous = !stride || cr_is_contiguous(ndim, size, stride),
                   .size = resize_writable(size),
                   .stride = resize_writable(stride)};

    return class_meet(c, &t, v);
}

/* True if all arguments are row-major with equal sizes; then the result is, too. */
static bool rule_reads_alike(const size_rule *r)
{
    const cr_gtype *first = &r->reads.at[0].of->type;

    for (size_t i = 0; i < r->reads.len; i++) {
        const cr_gtype *t = &r->reads.at[i].of->type;
        if (t->stride || t->ndim != first->ndim ||
            memcmp(t->size, first->size, t->ndim * sizeof *t->size))
            return false;
    }
    return true;
}

static cr_status rule_body(cr_gsizes *x, size_rule *r)
{
    const cr_gtype *t = &r->reads.at[0].of->type;
    bool alike = rule_reads_alike(r);
    cr_geometry g;

    if (!alike)
        CR_TRY(cr_elementwise_geometry(&g, r->n->op, r->arg));
    for (int k = 0; k < r->n->result_count; k++)
        CR_TRY(alike ? rule_meet(x, r, k, t->ndim, t->size, NULL)
                     : rule_meet(x, r, k, g.ndim, g.size, g.stride));
    return CR_OK;
}

/* A call, which is needed for these sizes alone. */
static cr_status rule_call_once(cr_gsizes *x, size_rule *r)
{
    cr_status st = rule_call(x, r);

    rule_load_shells(r);
    return st;
}

static cr_status rule_shape(cr_gsizes *x, size_rule *r)
{
    const cr_op *op = r->n->op;
    cr_shape shape[CR_MAX_RESULTS];

    if (op->sizes.fn)
        CR_TRY(op->sizes.fn(r->arg, shape));
    else if ((op->passes && !op->passes(r->arg)) || !op->sizes.compiled(r->arg, shape))
        return rule_call_once(x, r);
    for (int k = 0; k < r->n->result_count; k++)
        CR_TRY(rule_meet(x, r, k, shape[k].ndim, shape[k].size, NULL));
    return CR_OK;
}

static cr_status rule_map(cr_gsizes *x, size_rule *r)
{
    cr_geometry g;

    CR_TRY(r->n->op->fn.on_geometry(r->arg, &r->reads.at[0].of->view, &g));
    r->offset = g.offset;
    memcpy(r->stride, g.stride, (size_t)g.ndim * sizeof *g.stride);
    return rule_meet(x, r, 0, g.ndim, g.size, g.stride);
}

static cr_status rule_run(cr_gsizes *x, size_rule *r)
{
    for (int i = 0; i < r->n->varying_count; i++) {
        int k = r->n->varying[i].arg;
        memcpy(&r->arg[k].number, &r->n->arg[k].number, sizeof r->arg[k].number);
    }
    switch ((rule_way)r->way) {
    case RULE_BODY: return rule_body(x, r);
    case RULE_SHAPE: return rule_shape(x, r);
    case RULE_MAP: return rule_map(x, r);
    case RULE_CALL: break;
    }
    return rule_call(x, r);
}

/* --- the whole --- */

static void classes_forget(cr_gsizes *x)
{
    for (size_t k = 0; k < x->classes.len; k++) {
        size_class *c = x->classes.at[k];
        c->known = c->fixed;
        if (!c->fixed) {
            cr_drop(c->fake);
            c->fake = NULL;
        }
    }
}

cr_status cr_gsizes_set(cr_gsizes *x, const cr_scalar *value)
{
    cr_thread_state was = rules_begin();
    cr_status st;

    classes_forget(x);
    for (size_t i = 0; i < x->varying.len; i++)
        resize_items(x->varying.at[i], value);
    st = class_set_inputs(x, value);
    for (size_t i = 0; !st && i < x->rules.len; i++)
        if (!x->rules.at[i]->fixed)
            st = rule_run(x, x->rules.at[i]);
    classes_forget(x);
    rules_end(was);
    return st;
}

/* --- results --- */

int cr_gsizes_classes(const cr_gsizes *x) { return (int)x->classes.len; }
int cr_gsizes_rules(const cr_gsizes *x) { return (int)x->rules.len; }
int cr_gsizes_class(const cr_gsizes *x, const cr_gvalue *v) { return (int)x->class_of[v->id]; }
int cr_gsizes_rule(const cr_gsizes *x, const cr_gnode *n)
{
    return (int)x->rule_of[n->result[0]->id];
}
bool cr_gsizes_is_fixed(const cr_gsizes *x, int k) { return x->classes.at[k]->fixed; }
const cr_gtype *cr_gsizes_type(const cr_gsizes *x, int k) { return &x->classes.at[k]->type; }

void cr_gsizes_view(const cr_gsizes *x, int rule, int64_t *offset, const int64_t **stride)
{
    *offset = x->rules.at[rule]->offset;
    *stride = x->rules.at[rule]->stride;
}
