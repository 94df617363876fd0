/* Programs for other sizes.
 *
 * The graph of a program whose sizes vary is set to these sizes (graph/resize.c), and what its
 * steps need of them is copied out: types, arguments, geometries of views, and where the
 * operands of groups lie.  Steps, slots, deaths and kernels are those of the program. */
#include "base/log.h"
#include "compile/program_impl.h"
#include <string.h>

typedef struct {
    cr_program *of;
    cr_plan *plan;
    cr_plan_sizes *z;
    const cr_gcode **code; /* by node of the body: a group's, of the program itself */
    const cr_gtype **type; /* by value id: copies */
    cr_session *scratch;
} resizer;

/* --- copies --- */

static const cr_gtype *type_of(cr_session *s, resizer *x, const cr_gvalue *v)
{
    size_t bytes = v->type.ndim * sizeof *v->type.size;
    cr_gtype *t;

    if (x->type[v->id])
        return x->type[v->id];
    t = cr_session_copy(s, &v->type, sizeof v->type);
    t->size = cr_session_copy(s, t->size, bytes);
    t->stride = t->stride ? cr_session_copy(s, t->stride, bytes) : NULL;
    return x->type[v->id] = t;
}

static void set_arg(cr_session *s, cr_value *v, const cr_garg *a)
{
    if (a->tag == CR_INTS)
        v->ints = cr_session_copy(s, a->ints, a->len * sizeof *a->ints);
    else
        memcpy(&v->number, &a->number, sizeof a->number); /* the largest member */
}

static const cr_value *args_of(cr_session *s, const cr_step *step)
{
    const cr_gnode *n = step->node;
    cr_value *arg;

    if (!n->varying_count)
        return step->arg;
    arg = cr_session_copy(s, step->arg, step->arg_count * sizeof *arg);
    for (int i = 0; i < n->varying_count; i++)
        if (!i || n->varying[i].arg != n->varying[i - 1].arg)
            set_arg(s, &arg[n->varying[i].arg], &n->arg[n->varying[i].arg]);
    return arg;
}

/* Operands are read in the order that the steps have. */
static const cr_gcode *code_of(cr_session *s, const cr_step *step)
{
    const cr_gcode *code = step->node->code;

    if (!code || code->read_count != step->code->read_count ||
        memcmp(code->read, step->code->read, (size_t)code->read_count * sizeof *code->read))
        cr_bail(s, CR_VALUE, "the group of %%%s has no code for these sizes",
                step->made_value[0]->name);
    return code;
}

static cr_step_sizes sizes_of(cr_session *s, resizer *x, const cr_step *step)
{
    cr_step_sizes z = {.arg = step->arg};

    if (step->kind == CR_STEP_CALL || step->kind == CR_STEP_VIEW)
        z.arg = args_of(s, step);
    if (step->kind == CR_STEP_GROUP)
        z.code = code_of(s, step);
    if (step->kind == CR_STEP_VIEW)
        z.view = cr_step_view(s, step, z.arg, type_of(s, x, step->node->arg[0].value));
    if (step->reuse_read >= 0)
        z.made = type_of(s, x, step->made_value[0]);
    return z;
}

static void copy_sizes(cr_session *s, void *context)
{
    resizer *x = context;
    const cr_plan *p = x->plan;

    x->z->input = CR_NEW_N(s, const cr_gtype *, p->inputs);
    for (uint32_t i = 0; i < p->inputs; i++)
        x->z->input[i] = type_of(s, x, p->g->input[i]);
    x->z->step = CR_NEW_N(s, cr_step_sizes, p->steps.len);
    for (size_t i = 0; i < p->steps.len; i++)
        x->z->step[i] = sizes_of(s, x, &p->steps.at[i]);
}

/* --- groups --- */

static void swap_code(resizer *x)
{
    const cr_gblock *b = x->of->g->body;

    for (size_t i = 0; i < b->len; i++) {
        const cr_gcode *now = b->at[i]->code;
        b->at[i]->code = x->code[i];
        x->code[i] = now;
    }
}

static void make_room(cr_session *s, void *context)
{
    resizer *x = context;

    x->code = CR_NEW_N(s, const cr_gcode *, x->of->g->body->len + 1);
    x->type = CR_NEW_N(s, const cr_gtype *, x->of->g->values + 1);
}

static cr_status make_sizes(resizer *x, const cr_scalar *value)
{
    cr_graph *g = (cr_graph *)(uintptr_t)x->of->g;
    cr_status st;

    cr_varying_inputs_set(&x->of->varying, g, value);
    CR_TRY(cr_graph_resize(g, value));
    CR_TRY(cr_session_run(x->scratch, make_room, x));
    swap_code(x);
    st = cr_compile_code(&x->z->code, g, x->of->how);
    if (!st)
        st = cr_session_run(&x->z->session, copy_sizes, x);
    swap_code(x);
    return st;
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

static cr_program *program_over(cr_program *of)
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
    cr_session scratch = {.status = CR_OK};
    cr_program *p = program_over(of);
    resizer x = {.of = of, .scratch = &scratch, .z = p ? p->sizes : NULL};
    cr_status st = p ? cr_program_plan(&x.plan, of) : CR_MEMORY;

    if (!st) {
        pthread_mutex_lock(&of->lock);
        st = make_sizes(&x, value);
        pthread_mutex_unlock(&of->lock);
    }
    cr_session_drop(&scratch);
    if (st)
        cr_program_drop(p);
    else
        *out = p;
    return st;
}

static bool same_type(const cr_gtype *a, const cr_gtype *b)
{
    size_t bytes = a->ndim * sizeof *a->size;

    return a->dtype == b->dtype && a->ndim == b->ndim && !memcmp(a->size, b->size, bytes) &&
           !a->stride == !b->stride && (!a->stride || !memcmp(a->stride, b->stride, bytes));
}

bool cr_program_takes(const cr_program *p, int i, const cr_program *from, int k)
{
    const cr_garg *a = &from->g->body->output[k];

    return a->tag == CR_TENSOR && same_type(&p->g->input[i]->type, &a->value->type);
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
