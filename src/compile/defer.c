/* Flushes by programs: equal traces are compiled once and run as one program.
 *
 * A *family* has the traces of one structure (traced.h).  A *choice* is a trace of a family
 * with its numbers; it is compiled at its second sight.  When a family has a second choice, a
 * *general* program is made from all choices that are known: numbers and sizes that differ
 * between them are parameters (call.h: cr_compiled_calls).  It runs traces whose other numbers
 * are as they were, and whose integers are the arithmetic that was found.  A trace that no
 * graph can state is replayed. */
#include "base/log.h"
#include "base/map.h"
#include "compile/call.h"
#include "compile/compile.h"
#include "compile/facts.h"
#include "compile/traced.h"
#include "tensor/geometry.h"
#include <pthread.h>
#include <string.h>

enum {
    MOST_FAMILIES = 256,
    MOST_CHOICES = 6,
    MOST_GENERAL = 4,
    MOST_TRIES = 4,
    MOST_TRACED = 4000,
    MANY_MISSES = 16,
    PAUSE = 64,
    LEAST_CALLS = 2
};

typedef struct {
    uint64_t *number;
    uint64_t used; /* when, by the clock of flushes */
    int seen;
    bool refused;
    cr_compiled_call *call; /* NULL: not compiled */
} choice;

typedef struct {
    cr_compiled_calls *calls;
    cr_session *session;
    const cr_graph *g;
    uint64_t *number;      /* of the trace it was made of */
    int32_t *symbol;       /* by number of a trace: its index in the graph's numbers, or -1 */
    const int32_t *source; /* by number of the graph: the trace's number, or -1 */
    bool sized;            /* it has parameters that may be sizes */
} general;

typedef struct {
    uint64_t hash, used;
    cr_traced_words key;
    size_t numbers;
    int running; /* flushes that use it: it stays */
    choice choice[MOST_CHOICES];
    general general[MOST_GENERAL];
    int choices, generals, tries; /* tries: how many general programs were in vain */
    size_t *input, *output;       /* indices of memories */
    int inputs, outputs;
} family;

static pthread_mutex_t families_lock = PTHREAD_MUTEX_INITIALIZER;
static family *families[MOST_FAMILIES];
static size_t family_count;
static uint64_t flush_clock;
static bool first_sight; /* CR_DEFER=2: programs are made at the first sight (tests) */
static CR_THREAD int misses, pause_left;

static void choice_drop(choice *c)
{
    cr_compiled_call_drop(c->call);
    cr_free(c->number);
}

static void general_drop(general *g)
{
    cr_compiled_calls_drop(g->calls);
    cr_session_release(g->session);
    cr_free(g->number);
    cr_free(g->symbol);
}

static void family_drop(family *f)
{
    for (int i = 0; i < f->choices; i++)
        choice_drop(&f->choice[i]);
    for (int i = 0; i < f->generals; i++)
        general_drop(&f->general[i]);
    cr_vec_drop(&f->key);
    cr_free(f->input);
    cr_free(f);
}

/* Removes the family that was not used for the longest time; false if all are running. */
static bool family_forget(void)
{
    size_t at = family_count;

    for (size_t i = 0; i < family_count; i++)
        if (!families[i]->running &&
            (at == family_count || families[i]->used < families[at]->used))
            at = i;
    if (at == family_count)
        return false;
    family_drop(families[at]);
    families[at] = families[--family_count];
    return true;
}

/* The memories that are inputs and outputs of the graph. */
static cr_status family_ends(family *f, const cr_traced *t)
{
    const cr_trace *x = t->x;

    f->input = cr_alloc(2 * (x->memories.len + 1) * sizeof *f->input);
    CR_NEED(f->input);
    f->output = f->input + x->memories.len + 1;
    for (size_t i = 0; i < x->memories.len; i++) {
        const cr_memory *m = x->memories.at[i];
        if (!m->made && t->base[i])
            f->input[f->inputs++] = i;
        if (m->made && m->last == SIZE_MAX && t->base[i])
            f->output[f->outputs++] = i;
    }
    return CR_OK;
}

/* A new family takes the key.  NULL: there is no room. */
static family *family_new(cr_traced *t, uint64_t hash)
{
    family *f;

    if (family_count == MOST_FAMILIES && !family_forget())
        return NULL;
    f = cr_alloc_zero(sizeof *f);
    if (!f || family_ends(f, t)) {
        cr_free(f);
        return NULL;
    }
    f->hash = hash;
    f->key = t->key;
    t->key = (cr_traced_words){0};
    f->numbers = t->number.len;
    families[family_count++] = f;
    return f;
}

static family *family_find(cr_traced *t)
{
    uint64_t hash = cr_hash_words(t->key.at, t->key.len);
    family *f = NULL;

    for (size_t i = 0; i < family_count && !f; i++)
        if (families[i]->hash == hash && families[i]->key.len == t->key.len &&
            families[i]->numbers == t->number.len &&
            !memcmp(families[i]->key.at, t->key.at, t->key.len * sizeof *t->key.at))
            f = families[i];
    if (!f)
        f = family_new(t, hash);
    if (f)
        f->used = ++flush_clock;
    return f;
}

/* --- choices --- */
static uint64_t *numbers_copy(const cr_traced *t)
{
    uint64_t *n = cr_alloc(t->number.len * sizeof *n + 1);

    if (n && t->number.len)
        memcpy(n, t->number.at, t->number.len * sizeof *n);
    return n;
}

static bool has_numbers(const uint64_t *n, const cr_traced *t)
{
    return !t->number.len || !memcmp(n, t->number.at, t->number.len * sizeof *n);
}

/* The choice with the trace's numbers, or NULL. */
static choice *choice_find(family *f, const cr_traced *t)
{
    for (int i = 0; i < f->choices; i++)
        if (has_numbers(f->choice[i].number, t))
            return &f->choice[i];
    return NULL;
}

/* A new choice; it replaces the one not used for the longest time.  NULL: memory is short. */
static choice *choice_new(family *f, const cr_traced *t)
{
    choice *c = &f->choice[0];

    for (int i = 1; i < f->choices; i++)
        c = f->choice[i].used < c->used ? &f->choice[i] : c;
    uint64_t *number = numbers_copy(t);
    if (!number)
        return NULL;
    if (f->choices < MOST_CHOICES)
        c = &f->choice[f->choices++];
    else
        choice_drop(c);
    *c = (choice){.number = number};
    return c;
}

typedef struct {
    const cr_traced *t;
    const cr_traced_varying *v;
    cr_graph *g;
    const int32_t *source;
} graph_job;

static void build_graph(cr_session *s, void *context)
{
    graph_job *j = context;

    j->g = cr_traced_graph(s, j->t, j->v, &j->source);
}

static void headers_are_real(cr_trace *x)
{
    for (size_t i = 0; i < x->calls.len; i++) {
        const cr_noted *n = &x->calls.at[i];
        cr_each_tensor(n->op, n->arg, cr_header_device_is_real, NULL);
        for (int k = 0; k < n->results; k++)
            if (n->result[k])
                cr_header_device_is_real(n->result[k], NULL);
    }
}

static cr_status choice_compile(choice *c, const cr_traced *t)
{
    graph_job j = {.t = t};
    cr_session *s = cr_session_new();

    CR_NEED(s);
    headers_are_real(t->x);
    cr_status st = cr_session_run(s, build_graph, &j);
    if (!st)
        st = cr_compiled_call_new(&c->call, j.g, false, t->x->how);
    if (j.g)
        cr_graph_drop(j.g);
    cr_session_release(s);
    if (st)
        cr_log_line("capture", 1, "%zu deferred calls are no program: %s", t->x->calls.len,
                    cr_error_message());
    return st;
}

/* --- general programs --- */
static bool has_size_symbols(const cr_graph *g)
{
    for (size_t k = 0; k < g->numbers.list.len; k++) {
        const cr_gnumber *n = &g->numbers.list.at[k];
        if (n->fn == CR_GNUM_SIZE ||
            (n->fn == CR_GNUM_INPUT && n->value.category == CR_CAT_INT))
            return true;
    }
    return false;
}

static cr_status general_fill(general *g, const cr_traced *t, const cr_traced_varying *v)
{
    graph_job j = {.t = t, .v = v};

    g->session = cr_session_new();
    CR_NEED(g->session);
    CR_TRY(cr_session_run(g->session, build_graph, &j));
    g->g = j.g;
    g->source = j.source;
    g->sized = has_size_symbols(j.g);
    CR_TRY(cr_compiled_calls_new(&g->calls, j.g, false, t->x->how));
    cr_compiled_calls_relate(g->calls);
    return CR_OK;
}

static void general_remove(family *f, general *g)
{
    general_drop(g);
    memmove(g, g + 1, (size_t)(&f->general[--f->generals] - g) * sizeof *g);
}

static size_t numbers_apart(const family *f, const choice *a, const choice *b)
{
    size_t n = 0;

    for (size_t i = 0; i < f->numbers; i++)
        n += a->number[i] != b->number[i];
    return n;
}

/* The numbers of all choices: first those that differ most from `now`, because programs for all
 * sizes are made of two choices of sizes; `now` is the last. */
static int list_choices(const uint64_t **number, const family *f, const choice *now)
{
    const choice *first = now;
    int n = 0;

    for (int i = 0; i < f->choices; i++)
        if (numbers_apart(f, &f->choice[i], now) > numbers_apart(f, first, now))
            first = &f->choice[i];
    number[n++] = first->number;
    for (int i = 0; i < f->choices; i++)
        if (&f->choice[i] != now && &f->choice[i] != first)
            number[n++] = f->choice[i].number;
    number[n++] = now->number;
    return n;
}

/* Makes a general program for all choices of the family; the trace's choice is `now`. */
static cr_status general_new(family *f, const cr_traced *t, const choice *now)
{
    const uint64_t *number[MOST_CHOICES + 1];
    cr_traced_varying v = {.number = number, .count = list_choices(number, f, now)};

    if (f->generals == MOST_GENERAL)
        general_remove(f, &f->general[0]);
    general *g = &f->general[f->generals];
    *g = (general){.number = numbers_copy(t),
                   .symbol = cr_alloc(t->number.len * sizeof *g->symbol + 1)};
    v.symbol = g->symbol;
    headers_are_real(t->x);
    cr_status st = g->number && g->symbol ? general_fill(g, t, &v) : CR_MEMORY;
    if (st)
        general_drop(g);
    else
        f->generals++;
    return st;
}

static cr_scalar scalar_like(cr_scalar like, uint64_t bits)
{
    memcpy(&like.i, &bits, sizeof bits);
    return like;
}

/* Evaluates the graph's numbers from the trace's.  False: the arithmetic or another number
 * differs. */
static bool general_numbers(const general *g, const cr_traced *t, cr_scalar *input,
                            cr_scalar *value)
{
    const cr_gnumbers *n = &g->g->numbers;

    for (size_t k = 0; k < n->list.len; k++) {
        const cr_gnumber *one = &n->list.at[k];
        if (g->source[k] < 0)
            continue;
        value[k] = scalar_like(one->value, t->number.at[g->source[k]]);
        if (one->fn == CR_GNUM_INPUT)
            input[one->a] = value[k];
    }
    if (!cr_gnum_evaluate(n, input, value))
        return false;
    for (size_t i = 0; i < t->number.len; i++) {
        uint64_t want = g->symbol[i] < 0 ? g->number[i] : (uint64_t)value[g->symbol[i]].i;
        if (want == t->number.at[i])
            continue;
        cr_log_line("capture", 2, "number %zu of %zu deferred calls is %lld, not %lld", i,
                    t->x->calls.len, (long long)t->number.at[i], (long long)want);
        return false;
    }
    return true;
}

/* --- the program of a trace --- */
typedef struct {
    family *f;
    cr_compiled_call *call; /* one reference */
    cr_scalar *number;      /* the numbers of the call; owned */
    size_t numbers;
} chosen;

static bool take_call(chosen *out, cr_compiled_call *call)
{
    out->call = call ? cr_compiled_call_keep(call) : NULL;
    return call != NULL;
}

static cr_status find_instance(cr_compiled_call **out, const general *g, const family *f,
                               const cr_traced *t, const cr_scalar *number)
{
    cr_tensor **input = cr_alloc(((size_t)f->inputs + 1) * sizeof *input);

    CR_NEED(input);
    for (int i = 0; i < f->inputs; i++)
        input[i] = (cr_tensor *)(uintptr_t)t->base[f->input[i]];
    cr_status st = cr_compiled_calls_find(out, g->calls, input, number);
    cr_free(input);
    return st;
}

/* Takes the general program's call for the trace.  A program for one size only is dropped. */
static bool general_take(chosen *out, general *g, const cr_traced *t)
{
    const cr_gnumbers *n = &g->g->numbers;
    size_t count = (size_t)n->inputs + n->list.len + 1;
    cr_scalar *room = cr_alloc_zero(count * sizeof *room);
    cr_compiled_call *call = NULL;

    if (room && general_numbers(g, t, room, room + n->inputs) &&
        find_instance(&call, g, out->f, t, room))
        call = NULL;
    if (!call) {
        cr_free(room);
        return false;
    }
    if (g->sized && !cr_compiled_calls_shared(g->calls)) {
        cr_log_line("capture", 1, "no program for all sizes of %zu deferred calls",
                    t->x->calls.len);
        general_remove(out->f, g);
        cr_free(room);
        return false;
    }
    out->number = room;
    out->numbers = count;
    return take_call(out, call);
}

static bool take_general(chosen *out, const cr_traced *t)
{
    for (int i = out->f->generals - 1; i >= 0; i--)
        if (general_take(out, &out->f->general[i], t))
            return true;
    return false;
}

/* With the lock.  False: the trace is replayed. */
static bool choose(chosen *out, cr_traced *t)
{
    family *f = out->f = family_find(t);
    choice *c = f ? choice_find(f, t) : NULL;

    if (c)
        c->used = flush_clock;
    if (!f || (c && c->call))
        return f && take_call(out, c->call);
    if (take_general(out, t))
        return true;
    if (!c && !(c = choice_new(f, t)))
        return false;
    c->used = flush_clock;
    c->seen++;
    if (f->choices > 1 && f->tries < MOST_TRIES) {
        if (!general_new(f, t, c) && take_general(out, t))
            return true;
        f->tries++;
    }
    if (c->seen > 1 - first_sight && !c->refused)
        c->refused = choice_compile(c, t) != CR_OK;
    return take_call(out, c->call);
}

/* --- runs --- */
/* Inputs are headers over the storages themselves: programs keep facts about storages. */
static cr_status input_header(cr_tensor **out, cr_storage *real, const cr_tensor *base)
{
    CR_TRY(cr_tensor_over(out, real, (cr_dtype)base->dtype, base->ndim, base->size,
                          base->stride, base->offset));
    cr_storage_keep(real);
    (*out)->stages &= ~CR_STAGE_BIT(DEFER);
    return CR_OK;
}

/* Gives the pending storage the elements of an output. */
static cr_status bind_output(cr_memory *m, const cr_tensor *like, cr_tensor *t)
{
    cr_storage *s;
    cr_tensor *to = NULL;
    cr_status st = CR_OK;

    if (!t->offset && t->storage->size == m->real->size && !t->storage->release &&
        cr_traced_same_geometry(t, like)) {
        s = cr_storage_keep(t->storage);
        cr_drop(t);
        st = cr_storage_bind(m->real, s);
        cr_storage_drop(s);
        return st;
    }
    CR_GO(cr_storage_new(&s, m->real->device, m->real->size));
    st = cr_tensor_over(&to, s, (cr_dtype)like->dtype, like->ndim, like->size, like->stride, 0);
    if (st) {
        cr_storage_drop(s);
        goto done;
    }
    CR_GO(cr_copy_tensor(to, t));
    cr_storage_keep(s);
    cr_drop(to);
    to = NULL;
    st = cr_storage_bind(m->real, s);
    cr_storage_drop(s);
done:
    cr_drop(to);
    cr_drop(t);
    return st;
}

typedef struct {
    cr_tensor **input, **output;
    uint32_t *version;
} running;

static cr_status program_run(const cr_traced_program *p, cr_trace *x, running *r)
{
    cr_status st = CR_OK;

    for (int i = 0; i < p->inputs; i++) {
        size_t m = p->input[i];
        CR_TRY(input_header(&r->input[i], x->memories.at[m]->real, p->base[m]));
        r->version[i] = r->input[i]->storage->version;
    }
    st = cr_compiled_call_run(p->call, r->input, p->number, r->output);
    for (int i = 0; i < p->inputs; i++)
        r->input[i]->storage->version = r->version[i];
    CR_TRY(st);
    for (int k = 0; k < p->outputs; k++) {
        cr_tensor *made = r->output[k];
        r->output[k] = NULL;
        cr_status one = bind_output(x->memories.at[p->output[k]], p->base[p->output[k]], made);
        st = st ? st : one;
    }
    return st;
}

static cr_status run_program(const cr_traced_program *p, cr_trace *x)
{
    size_t n = (size_t)(p->inputs + p->outputs + 1);
    running r = {.input = cr_alloc_zero(2 * n * sizeof *r.input),
                 .version = cr_alloc_zero(n * sizeof *r.version)};
    cr_status st = r.input && r.version ? CR_OK : CR_MEMORY;

    r.output = r.input ? r.input + n : NULL;
    if (!st)
        st = program_run(p, x, &r);
    for (size_t i = 0; r.input && i < 2 * n; i++)
        cr_drop(r.input[i]);
    cr_free(r.input);
    cr_free(r.version);
    return st;
}

/* --- a flush --- */
static size_t live_calls(const cr_trace *x)
{
    size_t n = 0;

    for (size_t i = 0; i < x->calls.len; i++)
        n += x->calls.at[i].live;
    return n;
}

static bool find_program(chosen *out, cr_traced *t, cr_trace *x)
{
    if (cr_trace_spell_out(x) || cr_traced_read(t, x)) {
        cr_log_line("capture", 1, "%zu deferred calls have no graph: %s", x->calls.len,
                    cr_error_message());
        return false;
    }
    pthread_mutex_lock(&families_lock);
    bool found = choose(out, t);
    if (found)
        out->f->running++;
    pthread_mutex_unlock(&families_lock);
    return found;
}

static void count_miss(void)
{
    if (++misses < MANY_MISSES)
        return;
    misses = 0;
    pause_left = PAUSE;
}

static cr_status run_chosen(const chosen *c, const cr_traced *t)
{
    const family *f = c->f;
    cr_traced_program p = {.call = c->call,
                           .number = c->number,
                           .numbers = c->numbers,
                           .input = f->input,
                           .output = f->output,
                           .inputs = f->inputs,
                           .outputs = f->outputs,
                           .base = t->base};

    cr_traced_keep_known(t->x, &p);
    return run_program(&p, t->x);
}

/* Looks the program up by the structure of the trace. */
static cr_status flush_traced(cr_trace *x, bool *done)
{
    cr_traced t = {0};
    chosen c = {0};
    cr_status st = CR_OK;

    *done = find_program(&c, &t, x);
    if (*done) {
        misses = 0;
        st = run_chosen(&c, &t);
        cr_compiled_call_drop(c.call);
        pthread_mutex_lock(&families_lock);
        c.f->running--;
        pthread_mutex_unlock(&families_lock);
    } else if (!x->measured) {
        count_miss();
    }
    cr_free(c.number);
    cr_traced_drop(&t);
    return st;
}

static cr_status flush_by_program(cr_trace *x, bool *done)
{
    cr_traced_program known;

    *done = false;
    if (x->calls.len > MOST_TRACED || live_calls(x) < LEAST_CALLS)
        return CR_OK;
    if (pause_left && !x->measured) {
        pause_left--;
        return CR_OK;
    }
    *done = x->found = cr_traced_find_known(&known, x);
    if (!*done)
        return flush_traced(x, done);
    misses = 0;
    return run_program(&known, x);
}

void cr_defer_use_programs(bool at_first_sight)
{
    first_sight = at_first_sight;
    /* A trace's lock is taken before these: its handler of forks is registered later. */
    cr_facts_watch_forks();
    cr_groups_watch_forks();
    cr_defer_by_program = flush_by_program;
}
