/* Programs for other sizes.
 *
 * A program for other sizes shares steps, slots, deaths and kernels with the program that
 * varies and stores only what depends on sizes: types, arguments, geometries of views, and the
 * layout of the operands of groups.  The resizer of a program that varies lists them once; each
 * is made once for new sizes, although many steps may refer to it. */
#include "base/log.h"
#include "compile/program_impl.h"
#include "tensor/geometry.h"
#include <string.h>

enum { OF_PLAN = -1 }; /* a step has what the plan was made with, for all sizes */

typedef struct {
    const cr_step *step;
    int rule; /* of a map; -1: it reshapes */
    int from, made;
} resized_view;

/* Indices into what is made for the sizes. */
typedef struct {
    int arg, code, view, made;
} resized_step;

typedef struct cr_resizer {
    cr_session session;
    const cr_program *p;
    const cr_plan *plan;
    resized_step *step;
    struct {
        size_t len, cap;
        const cr_step **at;
    } args;
    struct {
        size_t len, cap;
        resized_view *at;
    } views;
} resizer;

/* --- what depends on sizes --- */

static int resizer_class(const resizer *x, const cr_gvalue *v)
{
    return cr_gsizes_class(x->p->types, v);
}

/* Index of the arguments, which calls of one rule share; `of_rule` by rule, from 1. */
static int resizer_args(resizer *x, const cr_step *s, int *of_rule)
{
    int alone = 0, *at = &alone;

    if (!s->node->varying_count || (s->kind != CR_STEP_CALL && s->kind != CR_STEP_VIEW))
        return OF_PLAN;
    if (s->results)
        at = &of_rule[cr_gsizes_rule(x->p->types, s->node)];
    if (!*at) {
        CR_PUSH(&x->session, &x->args, s);
        *at = (int)x->args.len;
    }
    return *at - 1;
}

static bool resizer_is_map(const cr_step *s) { return s->op->does == CR_DOES_MAP; }

static bool resizer_is_fixed(const resizer *x, const cr_gvalue *v)
{
    return cr_gsizes_is_fixed(x->p->types, resizer_class(x, v));
}

static int resizer_view(resizer *x, const cr_step *s)
{
    const cr_gvalue *from = s->node->arg[0].value;
    resized_view v = {.step = s,
                      .rule = resizer_is_map(s) ? cr_gsizes_rule(x->p->types, s->node) : -1,
                      .from = resizer_class(x, from),
                      .made = resizer_class(x, s->made_value[0])};

    if (resizer_is_fixed(x, from) && !s->node->varying_count)
        return OF_PLAN;
    for (size_t i = 0; i < x->views.len; i++)
        if (x->views.at[i].rule == v.rule && x->views.at[i].from == v.from &&
            x->views.at[i].made == v.made)
            return (int)i;
    CR_PUSH(&x->session, &x->views, v);
    return (int)x->views.len - 1;
}

static void resizer_step(resizer *x, size_t i, int *of_rule)
{
    const cr_step *s = &x->plan->steps.at[i];
    bool call = s->node && s->node->kind == CR_GNODE_CALL;

    x->step[i] = (resized_step){OF_PLAN, OF_PLAN, OF_PLAN, OF_PLAN};
    if (call)
        x->step[i].arg = resizer_args(x, s, of_rule);
    if (s->kind == CR_STEP_VIEW)
        x->step[i].view = resizer_view(x, s);
    if (s->kind == CR_STEP_GROUP)
        x->step[i].code = cr_gcode_source(s->code);
    if (s->reuse_read >= 0 && !resizer_is_fixed(x, s->made_value[0]))
        x->step[i].made = resizer_class(x, s->made_value[0]);
}

static void resizer_steps(cr_session *s, void *context)
{
    resizer *x = context;
    int *of_rule = CR_NEW_N(s, int, cr_gsizes_rules(x->p->types) + 1);

    x->step = CR_NEW_N(s, resized_step, x->plan->steps.len + 1);
    for (size_t i = 0; i < x->plan->steps.len; i++)
        resizer_step(x, i, of_rule);
}

cr_status cr_resizer_new(resizer **out, const cr_program *p, const cr_plan *plan)
{
    resizer *x = cr_alloc_zero(sizeof *x);
    cr_status st;

    if (!x)
        return CR_MEMORY;
    x->p = p;
    x->plan = plan;
    st = cr_session_run(&x->session, resizer_steps, x);
    if (st)
        cr_resizer_drop(x);
    else
        *out = x;
    cr_log_line(
        "graph", 2,
        "a program for all sizes: %d types of %u values, %d rules, %d layouts of groups",
        cr_gsizes_classes(p->types), p->g->values, cr_gsizes_rules(p->types),
        cr_compiled_sources(p->code));
    return st;
}

void cr_resizer_drop(resizer *x)
{
    if (!x)
        return;
    cr_session_drop(&x->session);
    cr_free(x);
}

/* --- for one choice of sizes --- */

typedef struct {
    const resizer *x;
    cr_plan_sizes *z;
    const cr_gtype **type; /* by class, of z */
    const cr_value **arg;
    const cr_static_view **view;
} sizer;

static void *sizer_array(cr_session *s, const int64_t *of, int n)
{
    return of ? cr_session_copy(s, of, (size_t)n * sizeof *of) : NULL;
}

/* Types of fixed sizes are the graph's. */
static void sizer_types(cr_session *s, sizer *y)
{
    const cr_gsizes *types = y->x->p->types;

    y->type = CR_NEW_N(s, const cr_gtype *, cr_gsizes_classes(types) + 1);
    for (int k = 0; k < cr_gsizes_classes(types); k++) {
        const cr_gtype *from = cr_gsizes_type(types, k);
        y->type[k] = from;
        if (cr_gsizes_is_fixed(types, k))
            continue;
        cr_gtype *t = cr_session_copy(s, from, sizeof *from);
        t->size = sizer_array(s, from->size, from->ndim);
        t->stride = sizer_array(s, from->stride, from->ndim);
        y->type[k] = t;
    }
}

static const cr_value *sizer_args(cr_session *s, const cr_step *step)
{
    const cr_gnode *n = step->node;
    cr_value *arg = cr_session_copy(s, step->arg, step->arg_count * sizeof *arg);

    for (int i = 0; i < n->varying_count; i++) {
        const cr_garg *a = &n->arg[n->varying[i].arg];
        cr_value *v = &arg[n->varying[i].arg];
        if (a->tag != CR_INTS)
            memcpy(&v->number, &a->number, sizeof a->number); /* the largest member */
        else if (!i || n->varying[i].arg != n->varying[i - 1].arg)
            v->ints = sizer_array(s, a->ints, (int)a->len);
    }
    return arg;
}

static const cr_static_view *sizer_view(cr_session *s, const sizer *y, const resized_view *v)
{
    const cr_gtype *from = y->type[v->from], *to = y->type[v->made];
    cr_static_view *made = CR_NEW(s, cr_static_view);
    int64_t dense[CR_MAX_DIMS];
    const int64_t *stride = dense;

    *made = (cr_static_view){.from = from,
                             .assumed = cr_assumed_strides(s, from),
                             .ndim = to->ndim,
                             .size = to->size};
    if (v->rule >= 0)
        cr_gsizes_view(y->x->p->types, v->rule, &made->offset, &stride);
    else
        cr_row_major(to->ndim, to->size, dense);
    made->stride = sizer_array(s, stride, to->ndim);
    return made;
}

static cr_step_sizes sizer_step(const sizer *y, size_t i)
{
    const resized_step *at = &y->x->step[i];
    cr_step_sizes z = y->x->plan->sizes.step[i];

    z.arg = at->arg == OF_PLAN ? z.arg : y->arg[at->arg];
    z.code = at->code == OF_PLAN ? z.code : cr_compiled_code(y->z->code, at->code);
    z.view = at->view == OF_PLAN ? z.view : y->view[at->view];
    z.made = at->made == OF_PLAN ? z.made : y->type[at->made];
    return z;
}

static void sizer_inputs(cr_session *s, sizer *y)
{
    const cr_plan *p = y->x->plan;

    y->z->input = CR_NEW_N(s, const cr_gtype *, p->inputs);
    for (uint32_t i = 0; i < p->inputs; i++)
        y->z->input[i] = y->type[resizer_class(y->x, p->g->input[i])];
}

static void sizer_copy(cr_session *s, void *context)
{
    sizer *y = context;
    const resizer *x = y->x;

    y->arg = CR_NEW_N(s, const cr_value *, x->args.len + 1);
    y->view = CR_NEW_N(s, const cr_static_view *, x->views.len + 1);
    for (size_t i = 0; i < x->args.len; i++)
        y->arg[i] = sizer_args(s, x->args.at[i]);
    for (size_t i = 0; i < x->views.len; i++)
        y->view[i] = sizer_view(s, y, &x->views.at[i]);
    sizer_inputs(s, y);
    y->z->step = CR_NEW_N(s, cr_step_sizes, x->plan->steps.len);
    for (size_t i = 0; i < x->plan->steps.len; i++)
        y->z->step[i] = sizer_step(y, i);
}

static void sizer_begin(cr_session *s, void *context) { sizer_types(s, context); }

static const cr_gtype *sizer_kept_type(void *context, const cr_gvalue *v)
{
    const sizer *y = context;

    return y->type[resizer_class(y->x, v)];
}

static cr_status sizer_make(sizer *y, const cr_scalar *value)
{
    const cr_program *p = y->x->p;
    cr_kept_types kept = {sizer_kept_type, y};

    CR_TRY(cr_gsizes_set(p->types, value));
    CR_TRY(cr_session_run(&y->z->session, sizer_begin, y));
    CR_TRY(cr_compiled_resize(&y->z->code, p->code, p->g, p->how, &kept));
    return cr_session_run(&y->z->session, sizer_copy, y);
}

/* --- the whole --- */

void cr_plan_sizes_drop(cr_plan_sizes *z)
{
    if (!z)
        return;
    cr_compiled_drop(z->code);
    cr_session_drop(&z->session);
    cr_free(z);
}

static cr_program *resize_program(cr_program *of)
{
    cr_program *p = cr_alloc_zero(sizeof *p);

    if (!p)
        return NULL;
    atomic_store(&p->holders, 1);
    pthread_mutex_init(&p->lock, NULL);
    p->of = cr_program_keep(of);
    p->g = of->g;
    p->sizes = cr_alloc_zero(sizeof *p->sizes);
    if (p->sizes)
        return p;
    cr_program_drop(p);
    return NULL;
}

cr_status cr_program_resize(cr_program **out, cr_program *of, const cr_scalar *value)
{
    cr_program *p = resize_program(of);
    sizer y = {.x = of->resizer, .z = p ? p->sizes : NULL};
    cr_status st = p ? CR_OK : CR_MEMORY;

    if (!st) {
        pthread_mutex_lock(&of->lock);
        st = sizer_make(&y, value);
        pthread_mutex_unlock(&of->lock);
    }
    if (st)
        cr_program_drop(p);
    else
        *out = p;
    return st;
}
static bool resize_same_type(const cr_gtype *a, const cr_gtype *b)
{
    size_t bytes = a->ndim * sizeof *a->size;

    return a->dtype == b->dtype && a->ndim == b->ndim && !memcmp(a->size, b->size, bytes) &&
           !a->stride == !b->stride && (!a->stride || !memcmp(a->stride, b->stride, bytes));
}

bool cr_program_takes(const cr_program *p, int i, const cr_program *from, int k)
{
    const cr_garg *a = &from->g->body->output[k];

    return a->tag == CR_TENSOR && resize_same_type(&p->g->input[i]->type, &a->value->type);
}

size_t cr_program_bytes(const cr_program *p)
{
    size_t bytes = sizeof *p;

    if (p->sizes)
        return bytes + sizeof *p->sizes + cr_arena_bytes(&p->sizes->session.keep) +
               cr_compiled_bytes(p->sizes->code);
    bytes += cr_arena_bytes(&p->session.keep) + cr_compiled_bytes(p->code);
    for (const cr_plan *x = atomic_load(&p->plans); x; x = x->next)
        bytes += sizeof *x + cr_arena_bytes(&x->session.keep);
    return bytes;
}
