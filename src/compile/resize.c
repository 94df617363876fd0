/* Programs for other sizes.
 *
 * A program for other sizes shares steps, slots, deaths and kernels with the program that
 * varies and stores only what depends on sizes: types, arguments, geometries of views, and the
 * layout of the operands of groups.  The resizer of a program that varies lists them once; each
 * is made once for new sizes, although many steps may refer to it. */
#include "base/log.h"
#include "compile/program_impl.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include <string.h>

enum { OF_PLAN = -1 }; /* the data of the plan, for all sizes */

typedef struct {
    const cr_step *step;
    int rule; /* rule of a map; -1: a reshape */
    int from, made;
} resized_view;

/* A step that depends on sizes: indices into the data made for them. */
typedef struct {
    size_t at; /* index of the step */
    int arg, code, view, made;
    bool own;
} resized_step;

typedef struct cr_resizer {
    cr_session session;
    const cr_program *p;
    const cr_program_steps *plan;
    size_t bytes; /* of the last sizes */
    CR_VEC(resized_step) steps;
    CR_VEC(const cr_step *) args;
    CR_VEC(resized_view) views;
} resizer;

/* --- data that depends on sizes --- */

/* Values in blocks have classes after those of the graph. */
static int resizer_class(const resizer *x, const cr_gvalue *v)
{
    unsigned values = x->p->g->values;

    return v->id < values ? cr_gsizes_class(x->p->types, v)
                          : cr_gsizes_classes(x->p->types) + (int)(v->id - values);
}

static bool resizer_is_fixed(const resizer *x, const cr_gvalue *v)
{
    unsigned values = x->p->g->values;

    v = v->id < values ? v : x->plan->value.blocked.at[v->id - values];
    return cr_gsizes_is_fixed(x->p->types, resizer_class(x, v));
}

/* The index of the step's arguments, which calls of one rule share; `of_rule`: by rule, from
 * 1. */
static int resizer_args(resizer *x, const cr_step *s, int *of_rule)
{
    int alone = 0, *at = &alone;

    if (!s->values.node->varying_count || (s->kind != CR_STEP_CALL && s->kind != CR_STEP_VIEW))
        return OF_PLAN;
    if (s->results)
        at = &of_rule[cr_gsizes_rule(x->p->types, s->values.node)];
    if (!*at) {
        CR_PUSH(&x->session, &x->args, s);
        *at = (int)x->args.len;
    }
    return *at - 1;
}

static bool resizer_is_map(const cr_step *s) { return s->call.op->does == CR_DOES_MAP; }

static int resizer_view(resizer *x, const cr_step *s)
{
    const cr_gvalue *from = s->values.node->arg[0].value;
    resized_view v = {.step = s,
                      .rule =
                          resizer_is_map(s) ? cr_gsizes_rule(x->p->types, s->values.node) : -1,
                      .from = resizer_class(x, from),
                      .made = resizer_class(x, s->values.made_value[0])};

    if (resizer_is_fixed(x, from) && !s->values.node->varying_count)
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
    resized_step z = {i, OF_PLAN, OF_PLAN, OF_PLAN, OF_PLAN, false};

    if (s->values.node && s->values.node->kind == CR_GNODE_CALL)
        z.arg = resizer_args(x, s, of_rule);
    if (s->kind == CR_STEP_VIEW)
        z.view = resizer_view(x, s);
    if (s->kind == CR_STEP_GROUP)
        z.code = cr_gcode_source(s->code);
    if (s->reuse_read >= 0 && !resizer_is_fixed(x, s->values.made_value[0]))
        z.made = resizer_class(x, s->values.made_value[0]);
    z.own = s->kind == CR_STEP_OWN && s->own->resize;
    if (z.arg != OF_PLAN || z.view != OF_PLAN || z.code != OF_PLAN || z.made != OF_PLAN ||
        z.own)
        CR_PUSH(&x->session, &x->steps, z);
}

static void resizer_steps(cr_session *s, void *context)
{
    resizer *x = context;
    int *of_rule = CR_NEW_N(s, int, cr_gsizes_rules(x->p->types) + 1);

    for (size_t i = 0; i < x->plan->steps.len; i++)
        resizer_step(x, i, of_rule);
}

cr_status cr_resizer_new(resizer **out, const cr_program *p, const cr_program_steps *plan)
{
    resizer *x = cr_alloc_zero(sizeof *x);
    cr_status st;

    CR_NEED(x);
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
    resizer *x;
    cr_sized_steps *z;
    const cr_value **arg;
    const cr_static_view **view;
} sizer;

static void *sizer_array(cr_session *s, const int64_t *of, int n)
{
    return of ? cr_session_copy(s, of, (size_t)n * sizeof *of) : NULL;
}

/* Types of fixed sizes are shared with the graph. */
static const cr_gtype *sizer_type(cr_session *s, const cr_gsizes *types, int k)
{
    const cr_gtype *from = cr_gsizes_type(types, k);
    cr_gtype *t;

    if (cr_gsizes_is_fixed(types, k))
        return from;
    t = cr_session_copy(s, from, sizeof *from);
    t->size = sizer_array(s, from->size, from->ndim);
    t->stride = sizer_array(s, from->stride, from->ndim);
    return t;
}

/* All elements along one dim. */
static const cr_gtype *sizer_twin(cr_session *s, const cr_gtype *of)
{
    cr_gtype *t = cr_session_copy(s, of, sizeof *of);
    int64_t size = cr_numel(of->ndim, of->size);

    t->ndim = 1;
    t->size = sizer_array(s, &size, 1);
    t->stride = NULL;
    return t;
}

static void sizer_types(cr_session *s, void *context)
{
    sizer *y = context;
    const resizer *x = y->x;
    int classes = cr_gsizes_classes(x->p->types);

    y->z->type =
        CR_NEW_N(s, const cr_gtype *, (size_t)classes + x->plan->value.blocked.len + 1);
    for (int k = 0; k < classes; k++)
        y->z->type[k] = sizer_type(s, x->p->types, k);
    for (size_t i = 0; i < x->plan->value.blocked.len; i++)
        y->z->type[classes + (int)i] =
            sizer_twin(s, y->z->type[resizer_class(x, x->plan->value.blocked.at[i])]);
}

static const cr_value *sizer_args(cr_session *s, const cr_step *step)
{
    const cr_gnode *n = step->values.node;
    cr_value *arg = cr_session_copy(s, step->call.arg, step->call.arg_count * sizeof *arg);

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
    const cr_gtype *from = y->z->type[v->from], *to = y->z->type[v->made];
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
        cr_row_major_strides(dense, to->ndim, to->size);
    made->stride = sizer_array(s, stride, to->ndim);
    return made;
}

static void sizer_step(const sizer *y, const resized_step *at)
{
    cr_step_sizes *z = &y->z->step[at->at];

    if (at->arg != OF_PLAN)
        z->arg = y->arg[at->arg];
    if (at->code != OF_PLAN)
        z->code = cr_compiled_code(y->z->code, at->code);
    if (at->view != OF_PLAN)
        z->view = y->view[at->view];
    if (at->made != OF_PLAN)
        z->made = y->z->type[at->made];
}

static void sizer_inputs(cr_session *s, sizer *y)
{
    const cr_program_steps *p = y->x->plan;

    y->z->input = CR_NEW_N(s, const cr_gtype *, p->frame.inputs);
    for (uint32_t i = 0; i < p->frame.inputs; i++)
        y->z->input[i] = y->z->type[resizer_class(y->x, p->g->input[i])];
    y->z->shown = CR_NEW_N(s, const cr_gtype *, p->out.outputs);
    for (uint32_t k = 0; k < p->out.outputs; k++)
        if (cr_shown_type(p->g, k))
            y->z->shown[k] = y->z->type[resizer_class(y->x, p->g->body->output[k].value)];
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
    y->z->step =
        cr_session_copy(s, x->plan->sizes.step, x->plan->steps.len * sizeof *y->z->step);
    for (size_t i = 0; i < x->steps.len; i++)
        sizer_step(y, &x->steps.at[i]);
}

static const cr_gtype *sizer_kept_type(void *context, const cr_gvalue *v)
{
    const sizer *y = context;

    return y->z->type[resizer_class(y->x, v)];
}

/* Steps of our own for these sizes. */
static cr_status sizer_own(sizer *y, const cr_kept_types *kept)
{
    const resizer *x = y->x;

    for (size_t i = 0; i < x->steps.len; i++) {
        const cr_step *s = &x->plan->steps.at[x->steps.at[i].at];
        cr_own **own = &y->z->step[x->steps.at[i].at].own;
        if (!x->steps.at[i].own)
            continue;
        CR_TRY(s->own->resize(own, s->own, s, kept));
        (*own)->next = y->z->own;
        y->z->own = *own;
    }
    return CR_OK;
}

static cr_status sizer_make(sizer *y)
{
    const cr_program *p = y->x->p;
    cr_kept_types kept = {sizer_kept_type, y};

    CR_TRY(cr_arena_reserve(&y->z->session.keep, y->x->bytes));
    CR_TRY(cr_session_run(&y->z->session, sizer_types, y));
    CR_TRY(cr_compiled_resize(&y->z->code, p->code, p->g, p->how, &kept));
    CR_TRY(cr_session_run(&y->z->session, sizer_copy, y));
    y->x->bytes = cr_arena_used(&y->z->session.keep);
    return sizer_own(y, &kept);
}

/* --- programs --- */

void cr_sized_steps_drop(cr_sized_steps *z)
{
    for (cr_sized_steps *next; z; z = next) {
        next = z->next;
        cr_own_drop(z->own);
        cr_compiled_drop(z->code);
        cr_session_drop(&z->session);
        cr_free(z);
    }
}

/* Makes the sizes for the plan of `threads` threads, from the present types of the graph. */
static cr_status sizes_new(cr_sized_steps **out, cr_program *of, int threads)
{
    cr_sized_steps *z = cr_alloc_zero(sizeof *z);
    sizer y = {.z = z};
    cr_status st = z ? cr_program_plan_for(&z->plan, of, threads) : CR_MEMORY;

    if (!st) {
        z->threads = threads;
        y.x = z->plan->resizer;
        st = sizer_make(&y);
    }
    CR_GIVE(st, out, z, cr_sized_steps_drop);
}

/* Plain layouts serve all sizes, where those of the plan do not. */
static cr_status sizes_new_or_plain(cr_sized_steps **out, cr_program *of, int threads)
{
    cr_status st = sizes_new(out, of, threads);

    if (st != CR_VALUE || !threads)
        return st;
    CR_TRY(sizes_new(out, of, 0));
    (*out)->threads = threads;
    return CR_OK;
}

static cr_sized_steps *sizes_find(cr_program *p, int threads)
{
    cr_sized_steps *z = atomic_load_explicit(&p->sizes, memory_order_acquire);

    while (z && z->threads != threads)
        z = z->next;
    return z;
}

static void sizes_add(cr_program *p, cr_sized_steps *z)
{
    z->next = atomic_load(&p->sizes);
    atomic_store_explicit(&p->sizes, z, memory_order_release);
}

/* The program runs with another number of threads than before. */
static CR_NOINLINE cr_status sizes_for_threads(cr_sized_steps **out, cr_program *p, int threads)
{
    cr_status st = CR_OK;

    pthread_mutex_lock(&p->of->lock);
    *out = sizes_find(p, threads);
    if (!*out) {
        st = cr_gsizes_set(p->of->types, p->value);
        if (!st)
            st = sizes_new_or_plain(out, p->of, threads);
        if (!st)
            sizes_add(p, *out);
    }
    pthread_mutex_unlock(&p->of->lock);
    return st;
}

cr_status cr_program_sizes(const cr_sized_steps **out, cr_program *p)
{
    int threads = cr_program_threads(p->of);
    cr_sized_steps *z = sizes_find(p, threads);
    cr_status st = CR_LIKELY(z) ? CR_OK : sizes_for_threads(&z, p, threads);

    *out = z;
    return st;
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
    return p;
}

static cr_status resize_keep_value(cr_program *p, const cr_scalar *value)
{
    size_t bytes = p->of->numbers * sizeof *value;

    if (!p->of->layouts)
        return CR_OK;
    p->value = cr_alloc(bytes + 1);
    CR_NEED(p->value);
    memcpy(p->value, value, bytes);
    return CR_OK;
}

static cr_status resize_first(cr_program *p, const cr_scalar *value)
{
    cr_sized_steps *z;
    cr_status st;

    CR_TRY(resize_keep_value(p, value));
    pthread_mutex_lock(&p->of->lock);
    st = cr_gsizes_set(p->of->types, value);
    if (!st)
        st = sizes_new(&z, p->of, cr_program_threads(p->of));
    if (!st)
        sizes_add(p, z);
    pthread_mutex_unlock(&p->of->lock);
    return st;
}

cr_status cr_program_resize(cr_program **out, cr_program *of, const cr_scalar *value)
{
    cr_program *p = resize_program(of);
    cr_status st = p ? resize_first(p, value) : CR_MEMORY;

    CR_GIVE(st, out, p, cr_program_drop);
}

static bool resize_same_type(const cr_gtype *a, const cr_gtype *b)
{
    size_t bytes = a->ndim * sizeof *a->size;

    return cr_gtype_has_sizes_of(a, b) && !a->stride == !b->stride &&
           (!a->stride || !memcmp(a->stride, b->stride, bytes));
}

const cr_gtype *cr_program_input_type(const cr_program *p, int i)
{
    return p->of ? atomic_load(&p->sizes)->input[i] : &p->g->input[i]->type;
}

bool cr_program_takes(const cr_program *p, int i, const cr_program *from, int k)
{
    const cr_garg *a = &from->g->body->output[k];
    const cr_sized_steps *out = atomic_load(&from->sizes);

    return a->tag == CR_TENSOR &&
           resize_same_type(cr_program_input_type(p, i),
                            out->type[cr_gsizes_class(from->of->types, a->value)]);
}

size_t cr_program_bytes(const cr_program *p)
{
    size_t bytes = sizeof *p;

    for (const cr_sized_steps *z = atomic_load(&p->sizes); z; z = z->next)
        bytes += sizeof *z + cr_arena_bytes(&z->session.keep) + cr_compiled_bytes(z->code);
    if (p->of)
        return bytes + (p->value ? p->of->numbers * sizeof *p->value : 0);
    bytes += cr_arena_bytes(&p->session.keep) + cr_compiled_bytes(p->code);
    for (const cr_program_steps *x = atomic_load(&p->plans); x; x = x->next)
        bytes += sizeof *x + cr_arena_bytes(&x->session.keep);
    return bytes;
}
