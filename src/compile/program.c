/* Makes programs: runs the passes, then converts the blocks of the graph to one flat list of
 * steps.
 *
 * A choice becomes jumps.  A group without code becomes calls of its nodes, and its results are
 * other names of the block's values. */
#include "base/clock.h"
#include "base/log.h"
#include "base/parallel.h"
#include "compile/program_impl.h"
#include <string.h>

/* --- the graph that runs --- */

static void take_graph(cr_program *p, cr_graph *next)
{
    if (next == p->g)
        return;
    cr_graph_drop(p->own);
    p->g = p->own = next;
}

static void apply(cr_program *p, cr_graph_pass pass) { take_graph(p, pass(p->g)); }

static void prepare(cr_session *s, void *context)
{
    static const cr_graph_pass passes[] = {
        cr_compile_reads,     cr_compile_norms, cr_graph_dead,
        cr_graph_common,      cr_graph_fold,    cr_graph_simplify,
        cr_compile_norm_relu, cr_compile_heads, cr_graph_dead};
    cr_program *p = context;

    take_graph(p, cr_graph_copy(s, p->g));
    for (size_t i = 0; i < CR_LEN(passes); i++)
        apply(p, passes[i]);
}

static void group(cr_program *p)
{
    apply(p, cr_graph_overlap);
    if (p->how & CR_HOW_CALLS)
        return;
    apply(p, cr_compile_beside);
    apply(p, cr_compile_group);
}

static void prepare_one(cr_session *s, void *context)
{
    cr_program *p = context;

    prepare(s, p);
    apply(p, cr_graph_precompute);
    apply(p, cr_graph_dead);
    group(p);
    cr_show_graph("fusion", "with groups", p->g);
}

/* A program for each probe; the first becomes the program for all sizes. */
typedef struct {
    cr_program *p, probe[CR_MOST_PROBES];
    cr_sizes *x;
} varying;

static void compare_probes(cr_session *s, void *context)
{
    varying *v = context;
    cr_graph *graph[CR_MOST_PROBES];

    for (int i = 1; i < v->x->probes; i++) {
        prepare(s, &v->probe[i]);
        graph[i] = (cr_graph *)(uintptr_t)v->probe[i].g;
    }
    prepare(s, v->p);
    graph[0] = (cr_graph *)(uintptr_t)v->p->g;
    cr_sizes_compare(v->x, graph, &v->p->varying);
}

static void prepare_varying(cr_session *s, void *context)
{
    varying *v = context;
    cr_status st = cr_session_run(s, compare_probes, v);

    for (int i = 1; i < v->x->probes; i++)
        cr_graph_drop(v->probe[i].own);
    cr_session_check(s, st);
    group(v->p);
    cr_show_graph("fusion", "with groups, for all sizes", v->p->g);
}

static void keep(cr_session *s, void *context)
{
    cr_program *p = context;
    cr_gvarying_dims *v = &p->varying;

    v->at = cr_session_copy(s, v->at, v->len * sizeof *v->at);
    take_graph(p, cr_graph_copy(s, p->g));
}

/* Runs the passes in a separate session, so that intermediate graphs are freed. */
static cr_status run_passes(cr_program *p, cr_session_fn fn, void *context)
{
    cr_session passes = {.keep = {.mapped = true}};
    cr_status st = cr_session_run(&passes, fn, context);

    if (!st)
        st = cr_session_run(&p->session, keep, p);
    if (st) {
        cr_graph_drop(p->own);
        p->g = p->own = NULL;
    }
    cr_session_drop(&passes);
    return st;
}

/* --- arguments --- */

typedef struct {
    cr_program_steps *p;
    cr_step *step;
    uint32_t patches, lists;
} filler;

static void count_value(void *context, cr_gvalue *v)
{
    (void)v;
    ++*(uint32_t *)context;
}

static void read_value(filler *f, cr_gvalue *v)
{
    f->step->values.read_value[f->step->reads++] = v;
}

/* The slot of a patch is the index in read_value until slots are known. */
static void patch(filler *f, int arg, bool in_list, uint32_t item, cr_gvalue *v)
{
    f->step->call.patch[f->step->call.patches++] =
        (cr_patch){(uint16_t)arg, in_list, item, f->step->reads};
    read_value(f, v);
}

static cr_value literal(const cr_garg *a)
{
    cr_value v = {.tag = a->tag, .len = a->len};

    memcpy(&v.number, &a->number, sizeof a->number); /* the largest member */
    return v;
}

/* A run builds lists of tensors in its frame. */
static void fill_list(filler *f, int i, const cr_garg *a)
{
    cr_value *list = CR_NEW_N(f->p->s, cr_value, a->len);

    for (uint32_t k = 0; k < a->len; k++) {
        if (a->list[k].tag == CR_TENSOR)
            patch(f, i, true, k, a->list[k].value);
        else
            list[k] = literal(&a->list[k]);
    }
    f->step->call.arg[i] = (cr_value){.tag = a->tag, .len = a->len, .list = list};
    if (a->tag == CR_TENSORS)
        f->step->call.list_room += a->len;
}

static void fill_args(filler *f, const cr_gnode *n)
{
    uint32_t reads = 0;

    cr_gnode_each_read(n, count_value, &reads);
    f->step->call.arg = CR_NEW_N(f->p->s, cr_value, n->arg_count);
    f->step->call.arg_count = (uint16_t)n->arg_count;
    f->step->call.patch = CR_NEW_N(f->p->s, cr_patch, reads);
    f->step->values.read_value = CR_NEW_N(f->p->s, cr_gvalue *, reads);
    for (int i = 0; i < n->arg_count; i++) {
        if (n->arg[i].tag == CR_TENSOR)
            patch(f, i, false, 0, n->arg[i].value);
        else if (n->arg[i].tag == CR_TENSORS || n->arg[i].tag == CR_NUMBERS)
            fill_list(f, i, &n->arg[i]);
        else
            f->step->call.arg[i] = literal(&n->arg[i]);
    }
    f->step->call.symbols = cr_gnode_has_symbol(n);
    if (f->step->call.list_room > f->p->frame.list_room)
        f->p->frame.list_room = f->step->call.list_room;
}

/* --- steps --- */

static cr_step *add_step(cr_program_steps *p, cr_step_kind kind, const cr_gnode *n)
{
    CR_PUSH(p->s, &p->steps,
            ((cr_step){
                .kind = (uint8_t)kind, .values.node = n, .reuse_read = -1, .back_read = -1}));
    return &p->steps.at[p->steps.len - 1];
}

static void add_results(cr_step *s, const cr_gnode *n)
{
    s->values.made_value = n->result;
    s->results = (uint32_t)n->result_count;
}

static bool writes(const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].written)
            return true;
    return false;
}

static void add_call(cr_program_steps *p, const cr_gnode *n)
{
    cr_step *s = add_step(p, CR_STEP_CALL, n);
    filler f = {.p = p, .step = s};

    s->call.op = n->op;
    s->call.tracked = writes(n->op);
    s->call.list_result = n->op->result_count == 1 && n->op->result[0].type == CR_T_TENSORS;
    fill_args(&f, n);
    add_results(s, n);
}

/* A step that reads one value (or nothing) and makes one (or nothing). */
static cr_step *add_plain(cr_program_steps *p, cr_step_kind kind, const cr_gnode *n,
                          cr_gvalue *read, cr_gvalue **made)
{
    cr_step *s = add_step(p, kind, n);

    s->values.read_value = CR_NEW(p->s, cr_gvalue *);
    s->values.read_value[0] = read;
    s->reads = read != NULL;
    s->values.made_value = made;
    s->results = made != NULL;
    return s;
}

static void add_block(cr_program_steps *p, const cr_gblock *b);

static void add_branch(cr_program_steps *p, const cr_gnode *n, const cr_gblock *b)
{
    add_block(p, b);
    for (int i = 0; i < n->result_count; i++)
        add_plain(p, CR_STEP_MOVE, n, b->output[i].tag == CR_TENSOR ? b->output[i].value : NULL,
                  &n->result[i]);
}

static void add_if(cr_program_steps *p, const cr_gnode *n)
{
    size_t choose = p->steps.len, jump;

    add_plain(p, CR_STEP_CHOOSE, n, n->arg[0].value, NULL);
    add_branch(p, n, n->block[0]);
    jump = p->steps.len;
    add_plain(p, CR_STEP_JUMP, n, NULL, NULL);
    p->steps.at[choose].to = p->steps.len;
    add_branch(p, n, n->block[1]);
    p->steps.at[jump].to = p->steps.len;
    add_plain(p, CR_STEP_NONE, n, NULL, NULL);
}

static void add_group(cr_program_steps *p, const cr_gnode *n)
{
    const cr_gblock *b = n->block[0];

    if (n->code) {
        cr_step *s = add_step(p, CR_STEP_GROUP, n);
        s->code = n->code;
        s->values.read_value = n->code->read;
        s->reads = (uint32_t)n->code->read_count;
        add_results(s, n);
        if (s->reads + s->results > p->frame.operands)
            p->frame.operands = s->reads + s->results;
        return;
    }
    add_block(p, b);
    for (int i = 0; i < n->result_count; i++)
        p->value.stands_for[n->result[i]->id] = b->output[i].value;
}

static void add_constant(cr_program_steps *p, const cr_gnode *n)
{
    CR_PUSH(p->s, &p->constants, n->constant);
    CR_PUSH(p->s, &p->constant_values, n->result[0]);
}

static void add_block(cr_program_steps *p, const cr_gblock *b)
{
    for (size_t i = 0; i < b->len; i++) {
        const cr_gnode *n = b->at[i];
        switch ((cr_gnode_kind)n->kind) {
        case CR_GNODE_CALL: add_call(p, n); break;
        case CR_GNODE_CONSTANT: add_constant(p, n); break;
        case CR_GNODE_IF: add_if(p, n); break;
        case CR_GNODE_GROUP: add_group(p, n); break;
        }
    }
}

/* --- views of inputs --- */

static const cr_param *aliased_param(const cr_op *op, int k)
{
    for (int i = 0; i < op->param_count && op->result[k].alias; i++)
        if (op->param[i].alias == op->result[k].alias)
            return &op->param[i];
    return op->does == CR_DOES_MAP ? &op->param[0] : NULL;
}

/* Marks calls whose result may be an output and a view of an input, and the views between the
 * two: they run as in eager, so that the output has its base. */
static void track_outputs(cr_program_steps *p)
{
    bool *leaves = CR_NEW_N(p->s, bool, p->g->values);

    for (int i = 0; i < p->g->body->output_count; i++)
        if (p->g->body->output[i].tag == CR_TENSOR)
            leaves[cr_program_value(p, p->g->body->output[i].value)->id] = true;
    for (size_t i = p->steps.len; i-- > 0;) {
        cr_step *s = &p->steps.at[i];
        bool any = false;
        for (uint32_t k = 0; k < s->results; k++)
            any |= leaves[s->values.made_value[k]->id];
        if (!any || s->kind == CR_STEP_GROUP ||
            (s->kind == CR_STEP_CALL && !aliased_param(s->call.op, 0)))
            continue;
        s->call.tracked = s->kind == CR_STEP_CALL;
        for (uint32_t k = 0; k < s->reads; k++)
            leaves[cr_program_value(p, s->values.read_value[k])->id] = true;
    }
}

/* --- plans --- */

static void add_outputs(cr_program_steps *p)
{
    const cr_gblock *b = p->g->body;

    p->out.outputs = (uint32_t)b->output_count;
    p->out.output_value = CR_NEW_N(p->s, cr_gvalue *, b->output_count);
    for (int i = 0; i < b->output_count; i++)
        p->out.output_value[i] =
            b->output[i].tag == CR_TENSOR ? cr_program_value(p, b->output[i].value) : NULL;
}

const cr_gtype *cr_shown_type(const cr_graph *g, uint32_t k)
{
    const cr_garg *a = &g->body->output[k];
    const cr_gtype *t = a->tag == CR_TENSOR && a->value->by ? &a->value->type : NULL;

    for (int d = 0; t && t->known && t->exact && d < t->ndim; d++)
        if (t->size[d] <= 1)
            return t;
    return NULL;
}

/* Fills the sizes for which the plan was made. */
static void tell_sizes(cr_program_steps *p)
{
    cr_sized_steps *z = &p->sizes;

    z->input = CR_NEW_N(p->s, const cr_gtype *, p->frame.inputs);
    for (uint32_t i = 0; i < p->frame.inputs; i++)
        z->input[i] = &p->g->input[i]->type;
    z->shown = CR_NEW_N(p->s, const cr_gtype *, p->out.outputs);
    for (uint32_t k = 0; k < p->out.outputs; k++)
        z->shown[k] = cr_shown_type(p->g, k);
    z->step = CR_NEW_N(p->s, cr_step_sizes, p->steps.len);
    for (size_t i = 0; i < p->steps.len; i++) {
        const cr_step *s = &p->steps.at[i];
        z->step[i] =
            (cr_step_sizes){.arg = s->call.arg,
                            .code = s->code,
                            .view = s->view,
                            .own = s->own,
                            .made = s->results ? &s->values.made_value[0]->type : NULL};
    }
}

static void build(cr_session *s, void *context)
{
    cr_program_steps *p = context;

    p->s = s;
    p->value.values = p->g->values;
    p->value.stands_for = CR_NEW_N(s, cr_gvalue *, p->g->values);
    p->frame.inputs = (uint32_t)p->g->input_count;
    p->writes = cr_graph_writes(p->g);
    p->steps.cap = p->g->body->len;
    p->steps.at = CR_NEW_N(s, cr_step, p->steps.cap);
    add_block(p, p->g->body);
    add_outputs(p);
    track_outputs(p);
    cr_program_order(p);
    if (p->threads > 0)
        cr_program_layouts(p);
    if (p->threads != CR_CALLS_ONLY)
        cr_program_products(p);
    cr_program_views(p);
    cr_program_back(p);
    cr_program_lives(p);
    tell_sizes(p);
}

void cr_program_own(cr_program_steps *p, cr_own *own)
{
    own->next = p->own;
    p->own = own;
}

void cr_own_drop(cr_own *own)
{
    for (cr_own *next; own; own = next) {
        next = own->next;
        own->drop(own);
    }
}

static void plan_drop(cr_program_steps *p)
{
    cr_resizer_drop(p->resizer);
    cr_own_drop(p->own);
    cr_free(atomic_load(&p->spare));
    cr_session_drop(&p->session);
    cr_free(p);
}

static void log_plan(const cr_program_steps *p);

static cr_status plan_new(cr_program_steps **out, const cr_program *of, int threads)
{
    cr_program_steps *p = cr_alloc_zero(sizeof *p);
    cr_status st;

    CR_NEED(p);
    p->g = of->g;
    p->how = of->how;
    p->varies = of->varies;
    p->threads = threads;
    st = cr_session_run(&p->session, build, p);
    if (!st && of->varies)
        st = cr_resizer_new(&p->resizer, of, p);
    if (st) {
        plan_drop(p);
        return st;
    }
    log_plan(p);
    *out = p;
    return CR_OK;
}

static cr_program_steps *find_plan(cr_program *p, int threads)
{
    cr_program_steps *x = atomic_load_explicit(&p->plans, memory_order_acquire);

    while (x && x->threads != threads)
        x = x->next;
    return x;
}

cr_status cr_program_plan_for(cr_program_steps **out, cr_program *p, int threads)
{
    *out = find_plan(p, threads);
    if (*out)
        return CR_OK;
    CR_TRY(plan_new(out, p, threads));
    (*out)->next = atomic_load(&p->plans);
    atomic_store_explicit(&p->plans, *out, memory_order_release);
    return CR_OK;
}

static CR_NOINLINE cr_status add_plan(cr_program_steps **out, cr_program *p, int threads)
{
    pthread_mutex_lock(&p->lock);
    cr_status st = cr_program_plan_for(out, p, threads);
    pthread_mutex_unlock(&p->lock);
    return st;
}

int cr_program_threads(const cr_program *p)
{
    bool autocast = cr_thread.include & ~cr_thread.exclude & CR_STAGE_BIT(AUTOCAST);

    if (autocast && !p->varies)
        return CR_CALLS_ONLY;
    return p->layouts && !cr_in_parallel() ? cr_threads() : 0;
}

cr_status cr_program_plan(cr_program_steps **out, cr_program *p)
{
    int threads = cr_program_threads(p);

    *out = find_plan(p, threads);
    return CR_LIKELY(*out) ? CR_OK : add_plan(out, p, threads);
}

/* --- programs --- */

static cr_status make_one(cr_program *p, void *unused)
{
    cr_program_steps *plan;

    (void)unused;
    CR_TRY(run_passes(p, prepare_one, p));
    CR_TRY(cr_compile_code(&p->code, (cr_graph *)(uintptr_t)p->g, p->how));
    p->layouts = cr_has_layouts(p->g);
    return cr_program_plan(&plan, p);
}

/* Comparison adds numbers, so that it runs in the session of the sizes. */
static void run_varying_passes(cr_session *s, void *context)
{
    varying *v = context;

    cr_session_check(s, run_passes(v->p, prepare_varying, v));
}

/* Finds the types for other sizes from the numbers at every probe. */
static cr_status find_types(cr_program *p, const cr_sizes *x)
{
    size_t n = x->numbers.len;
    cr_scalar *room = cr_alloc(n * (size_t)x->probes * sizeof *room + 1);
    const cr_scalar *value[CR_MOST_PROBES];

    CR_NEED(room);
    for (int k = 0; k < x->probes; k++) {
        value[k] = room + n * (size_t)k;
        for (size_t i = 0; i < n; i++)
            room[n * (size_t)k + i] = x->numbers.at[i].at[k];
    }
    cr_status st =
        cr_gsizes_new(&p->types, (cr_graph *)(uintptr_t)p->g, &p->varying, value, x->probes);
    cr_free(room);
    return st;
}

static cr_status make_varying(cr_program *p, void *context)
{
    const cr_sizes *x = ((varying *)context)->x;
    cr_graph *g;
    cr_program_steps *plan;

    CR_TRY(cr_session_run(x->s, run_varying_passes, context));
    p->numbers = x->numbers.len;
    p->layouts = cr_has_layouts(p->g);
    CR_TRY(find_types(p, x));
    g = (cr_graph *)(uintptr_t)p->g;
    CR_TRY(cr_compile_code_for_all_sizes(&p->code, g, p->how));
    return cr_program_plan(&plan, p);
}

static _Atomic int64_t programs_made;

int64_t cr_programs_made(void) { return atomic_load(&programs_made); }

static cr_program *program_of(const cr_graph *g)
{
    cr_program *p = cr_alloc_zero(sizeof *p);

    if (p) {
        p->g = g;
        atomic_store(&p->holders, 1);
        pthread_mutex_init(&p->lock, NULL);
    }
    return p;
}

cr_status cr_program_of_calls(cr_program **out, const cr_graph *g)
{
    cr_program *p = program_of(g);
    cr_program_steps *plan;
    cr_status st = p ? cr_program_plan(&plan, p) : CR_MEMORY;

    CR_GIVE(st, out, p, cr_program_drop);
}

typedef cr_status (*making)(cr_program *p, void *context);

/* Takes the reference to `p`. */
static cr_status make_by(cr_program **out, cr_program *p, making fn, void *context)
{
    uint32_t was = cr_thread.exclude;
    bool no_grad = cr_thread.no_grad;

    cr_thread.exclude =
        was | CR_STAGE_BIT(CAPTURE) | CR_STAGE_BIT(DEFER); /* folding calls operators */
    cr_thread.no_grad = true;
    cr_status st = fn(p, context);
    cr_thread.exclude = was;
    cr_thread.no_grad = no_grad;
    if (st) {
        cr_program_drop(p);
        return st;
    }
    atomic_fetch_add(&programs_made, 1);
    *out = p;
    return CR_OK;
}

cr_status cr_program_new(cr_program **out, const cr_graph *g, unsigned how)
{
    cr_program *p = program_of(g);

    CR_NEED(p);
    p->how = how;
    return make_by(out, p, make_one, NULL);
}

cr_status cr_program_new_varying(cr_program **out, cr_sizes *x, cr_graph *const *g,
                                 unsigned how)
{
    cr_program *p = program_of(g[0]);
    varying v = {.p = p, .x = x};

    CR_NEED(p);
    p->how = how;
    p->varies = true;
    for (int i = 1; i < x->probes; i++)
        v.probe[i] = (cr_program){.g = g[i], .how = how};
    return make_by(out, p, make_varying, &v);
}

cr_program *cr_program_keep(cr_program *p)
{
    atomic_fetch_add_explicit(&p->holders, 1, memory_order_relaxed);
    return p;
}

void cr_program_drop(cr_program *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->holders, 1, memory_order_acq_rel) != 1)
        return;
    cr_program_drop(p->of);
    cr_sized_steps_drop(atomic_load(&p->sizes));
    cr_free(p->value);
    for (cr_program_steps *x = atomic_load(&p->plans), *next; x; x = next) {
        next = x->next;
        plan_drop(x);
    }
    pthread_mutex_destroy(&p->lock);
    cr_gsizes_drop(p->types);
    cr_compiled_drop(p->code);
    cr_graph_drop(p->own);
    cr_session_drop(&p->session);
    cr_free(p);
}

int cr_program_inputs(const cr_program *p) { return p->g->input_count; }
int cr_program_outputs(const cr_program *p) { return p->g->body->output_count; }

/* The program whose steps `p` runs. */
static const cr_program *base_of(const cr_program *p) { return p->of ? p->of : p; }

int64_t cr_program_peak(const cr_program *p)
{
    return atomic_load(&base_of(p)->plans)->memory.peak;
}
const cr_graph *cr_program_graph(const cr_program *p) { return p->g; }
bool cr_program_is_tuned(const cr_program *p) { return cr_compiled_is_tuned(base_of(p)->code); }

int cr_program_groups(const cr_program *p) { return cr_compiled_groups(base_of(p)->code); }

int cr_program_wait(const cr_program *p, double seconds)
{
    double until = cr_seconds() + seconds;
    int ready = 0;

    p = base_of(p);

    for (int k = 0; k < cr_compiled_groups(p->code); k++) {
        double left = until - cr_seconds();
        ready += cr_jit_wait(cr_fused_kernel(cr_compiled_fused(p->code, k)),
                             left > 0 ? left : 1e-9) == CR_JIT_READY;
    }
    return ready;
}

/* --- text --- */

void cr_program_code(cr_text *out, const cr_program *p)
{
    int k = 0;

    p = base_of(p);
    for (size_t i = 0; i < p->g->body->len; i++)
        if (p->g->body->at[i]->kind == CR_GNODE_GROUP && p->g->body->at[i]->code)
            cr_show_code(out, p->g->body->at[i], cr_compiled_fused(p->code, k++));
}

static void print_names(cr_text *t, cr_gvalue *const *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        cr_text_printf(t, "%s%%%s", i ? ", " : "", v[i]->name);
}

static void print_group(cr_text *t, const cr_step *s)
{
    const cr_gblock *b = s->values.node->block[0];

    cr_text_put(t, "group[");
    for (size_t i = 0; i < b->len; i++)
        cr_text_printf(t, "%s%s", i ? " " : "", b->at[i]->op->name);
    cr_text_put(t, "]");
}

static void print_what(cr_text *t, const cr_step *s)
{
    switch ((cr_step_kind)s->kind) {
    case CR_STEP_CALL:
    case CR_STEP_VIEW:
        cr_text_put(t, s->call.op->name);
        if (*s->call.op->overload)
            cr_text_printf(t, ".%s", s->call.op->overload);
        break;
    case CR_STEP_GROUP: print_group(t, s); break;
    case CR_STEP_OWN: cr_text_put(t, s->own->name); break;
    case CR_STEP_MOVE: cr_text_put(t, "move"); break;
    case CR_STEP_CHOOSE: cr_text_printf(t, "unless goto %zu", s->to); break;
    case CR_STEP_JUMP: cr_text_printf(t, "goto %zu", s->to); break;
    case CR_STEP_NONE: cr_text_put(t, "end"); break;
    }
}

static void print_step(cr_text *t, const cr_program_steps *p, size_t i)
{
    const cr_step *s = &p->steps.at[i];

    cr_text_printf(t, "  %zu: ", i);
    print_names(t, s->values.made_value, s->results);
    cr_text_put(t, s->results ? " = " : "");
    print_what(t, s);
    cr_text_put(t, "(");
    print_names(t, s->values.read_value, s->reads);
    cr_text_put(t, ")");
    int32_t in = s->back_read >= 0 ? s->back_read : s->reuse_read;
    if (in >= 0)
        cr_text_printf(t, " in %%%s", s->values.read_value[in]->name);
    if (s->values.deaths)
        cr_text_put(t, " frees ");
    print_names(t, s->values.dies, s->values.deaths);
    cr_text_printf(t, " | %lld\n", (long long)s->values.alive);
}

static void print_plan(cr_text *out, const cr_program_steps *p)
{
    cr_text_put(out, "program(");
    print_names(out, p->g->input, p->frame.inputs);
    cr_text_put(out, ") {\n");
    for (size_t i = 0; i < p->steps.len; i++)
        print_step(out, p, i);
    cr_text_put(out, "  return ");
    for (uint32_t i = 0; i < p->out.outputs; i++)
        cr_text_printf(out, "%s%s%s", i ? ", " : "", p->out.output_value[i] ? "%" : "",
                       p->out.output_value[i] ? p->out.output_value[i]->name : "None");
    cr_text_printf(out, "\n}\n%u slots, %d results in the bytes of others",
                   (unsigned)p->frame.slots, p->memory.reused);
    cr_text_printf(out, ", at most %lld bytes alive (step %zu)\n", (long long)p->memory.peak,
                   p->memory.peak_at);
}

void cr_program_print(cr_text *out, const cr_program *p)
{
    print_plan(out, atomic_load(&base_of(p)->plans));
}

static void log_plan(const cr_program_steps *p)
{
    cr_text t = {0};

    if (!cr_log_wants("memory", 1))
        return;
    print_plan(&t, p);
    for (const char *line = cr_text_str(&t), *end; *line; line = end + (*end == '\n')) {
        end = strchr(line, '\n') ? strchr(line, '\n') : line + strlen(line);
        cr_log_line("memory", 1, "%.*s", (int)(end - line), line);
    }
    cr_text_drop(&t);
}
