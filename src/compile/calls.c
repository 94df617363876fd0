/* Calls of a recording with symbols.
 *
 * An *instance* is the cached call for one choice of sizes.  It stores sizes, strides and
 * offsets; it shares everything else with a *shared call*.  The second choice of sizes makes
 * the shared call, from the recording at these two choices and a few nearby ones (sizes.h).
 * When that fails, the instance compiles separate programs.
 *
 * Instances are found by hash and linked in order of use; the least recently used are dropped
 * beyond CR_SIZES_LIMIT. */
#include "base/env.h"
#include "base/log.h"
#include "base/map.h"
#include "compile/call.h"
#include <string.h>
#include <time.h>

/* A call for one choice of sizes and whole numbers. */
typedef struct instance {
    struct instance *chain, *newer, *older;
    uint64_t hash;
    cr_compiled_call *call; /* NULL: a guard does not hold for this choice */
    bool counted;           /* `bytes` includes its programs */
    size_t bytes;
    int64_t key[];
} instance;

typedef struct shared_call {
    struct shared_call *next;
    cr_compiled_call *call;
    const cr_sizes *sizes; /* those of the call */
    bool bounded; /* its sizes are not right everywhere: each new choice of sizes is compared */
} shared_call;

enum { MOST_TRIES = 4, MOST_SEEN = 4 };

/* The choices of sizes that a recording has programs for.
 * Invariant: `room` is a power of two above `count`. Every instance is in one chain of
 * `table` and in the list from newest to oldest. bytes is the sum over the instances. */
struct cr_compiled_calls {
    cr_session *session; /* of `g` */
    const cr_graph *g;
    bool grad;    /* there is a backward program */
    unsigned how; /* cr_how */
    int key_len;
    instance **table; /* chains by hash */
    size_t room;      /* of the table: a power of two */
    instance *newest, *oldest;
    int count;
    size_t bytes, limit;
    bool alone;          /* each choice compiles separate programs */
    bool related;        /* symbols may follow from others */
    double seconds;      /* to make the last instance of a shared call */
    int tries;           /* number of attempts to make a shared call */
    int refused;         /* choices of sizes for which the recording has no programs */
    shared_call *shared; /* newest first */
    int seen; /* choices of sizes, the recording's first, which show the symbols that are always
                 equal */
    int64_t *seen_symbol[MOST_SEEN]; /* by number */
};

/* --- symbols --- */

static bool is_symbol(const cr_gnumber *n)
{
    return n->fn == CR_GNUM_INPUT || (n->fn == CR_GNUM_SIZE && !n->of->by);
}

/* A symbol that may decide sizes; floats are run-time numbers. */
static bool is_size_symbol(const cr_gnumber *n)
{
    return is_symbol(n) && n->value.category == CR_CAT_INT;
}

/* Whether a guard depends on a float: it is checked at every call of an instance. */
static bool guards_floats(const cr_gnumbers *n)
{
    bool *varies = cr_alloc_zero(n->list.len + 1), any = false;

    for (size_t k = 0; varies && k < n->list.len; k++) {
        const cr_gnumber *one = &n->list.at[k];
        bool reads = !is_symbol(one) && one->fn != CR_GNUM_SIZE && one->fn != CR_GNUM_CONST;
        varies[k] =
            is_symbol(one) ? !is_size_symbol(one) : reads && (varies[one->a] || varies[one->b]);
    }
    for (size_t i = 0; varies && i < n->guards.len; i++)
        any |= varies[n->guards.at[i].a] || varies[n->guards.at[i].b];
    any |= !varies;
    cr_free(varies);
    return any;
}

static size_t numbers_of(const cr_compiled_calls *c) { return c->g->numbers.list.len; }

static int input_of(const cr_compiled_calls *c, const cr_gvalue *v)
{
    int i = 0;

    while (i < c->g->input_count && c->g->input[i] != v)
        i++;
    return i;
}

/* The value of every number that is a symbol of sizes, 0 of others; false if a float is part of
 * a gradient, or an input was removed. */
static bool symbols_now(const cr_compiled_calls *c, cr_tensor *const *input,
                        const cr_scalar *number, int64_t *out)
{
    for (size_t k = 0; k < numbers_of(c); k++) {
        const cr_gnumber *n = &c->g->numbers.list.at[k];
        out[k] = 0;
        if (is_symbol(n) && !is_size_symbol(n) && c->grad)
            return false;
        if (!is_size_symbol(n))
            continue;
        if (n->fn == CR_GNUM_SIZE && input_of(c, n->of) == c->g->input_count)
            return false;
        out[k] =
            n->fn == CR_GNUM_INPUT ? number[n->a].i : input[input_of(c, n->of)]->size[n->a];
    }
    return true;
}

static void symbols_recorded(const cr_compiled_calls *c, int64_t *out)
{
    for (size_t k = 0; k < numbers_of(c); k++)
        out[k] =
            is_size_symbol(&c->g->numbers.list.at[k]) ? c->g->numbers.list.at[k].value.i : 0;
}

static bool same_symbols(const cr_compiled_calls *c, const int64_t *a, const int64_t *b)
{
    return !memcmp(a, b, numbers_of(c) * sizeof *a);
}

/* Keeps up to MOST_SEEN different choices of sizes; when full, a new one replaces the last. */
static cr_status see(cr_compiled_calls *c, const int64_t *symbol)
{
    int at = c->seen < MOST_SEEN ? c->seen : MOST_SEEN - 1;

    for (int i = 0; i < c->seen; i++)
        if (same_symbols(c, c->seen_symbol[i], symbol))
            return CR_OK;
    if (at == c->seen && !(c->seen_symbol[at] = cr_alloc(numbers_of(c) * sizeof *symbol + 1)))
        return CR_MEMORY;
    c->seen += at == c->seen;
    memcpy(c->seen_symbol[at], symbol, numbers_of(c) * sizeof *symbol);
    return CR_OK;
}

/* --- a shared call --- */

typedef struct {
    cr_compiled_calls *c;
    cr_sizes *sizes;
    const int64_t *now;             /* symbols of the current call */
    int param[CR_MOST_PARAMS];      /* symbols */
    int64_t *probe[CR_MOST_PROBES]; /* symbols */
    cr_session *session[CR_MOST_PROBES];
    cr_graph *graph[CR_MOST_PROBES];
    cr_decisions decided[CR_MOST_PROBES]; /* while the recording was instantiated */
} sharer;

static bool moved_together(const cr_compiled_calls *c, size_t a, size_t b)
{
    for (int i = 0; i < c->seen; i++)
        if (c->seen_symbol[i][a] != c->seen_symbol[i][b])
            return false;
    return true;
}

/* Whether symbol b was always symbol a times *factor, or with the same distance (*factor is 1
 * then). */
static bool moved_along(const cr_compiled_calls *c, size_t a, size_t b, int64_t *factor)
{
    int64_t from = c->seen_symbol[0][a], to = c->seen_symbol[0][b];
    bool multiple = from && to % from == 0, apart = true;

    for (int i = 0; i < c->seen; i++) {
        const int64_t *now = c->seen_symbol[i];
        multiple = multiple && now[b] == now[a] * (to / from);
        apart = apart && now[b] - now[a] == to - from;
    }
    *factor = multiple ? to / from : 1;
    return multiple || apart;
}

static bool has_moved(const cr_compiled_calls *c, size_t k)
{
    for (int i = 1; i < c->seen; i++)
        if (c->seen_symbol[i][k] != c->seen_symbol[0][k])
            return true;
    return false;
}

/* The factor by which symbol k follows parameter i; 0: it does not. */
static int64_t follows(const sharer *x, size_t k, int i)
{
    int64_t factor = 1;

    if (moved_together(x->c, k, (size_t)x->param[i]))
        return 1;
    return x->c->related && moved_along(x->c, (size_t)x->param[i], k, &factor) ? factor : 0;
}

/* Whether symbol k was always the product of parameters *i and *j. */
static bool is_product(const sharer *x, size_t k, int *i, int *j)
{
    const cr_compiled_calls *c = x->c;

    for (*i = 0; c->related && *i < x->sizes->params; ++*i)
        for (*j = 0; *j <= *i; ++*j) {
            bool always = true;
            for (int n = 0; n < c->seen; n++) {
                const int64_t *now = c->seen_symbol[n];
                int64_t product;
                always =
                    always &&
                    !__builtin_mul_overflow(now[x->param[*i]], now[x->param[*j]], &product) &&
                    product == now[k];
            }
            if (always)
                return true;
        }
    return false;
}

static bool is_moved_size(const sharer *x, size_t k)
{
    return is_size_symbol(&x->c->g->numbers.list.at[k]) && has_moved(x->c, k);
}

/* The least symbol that varied and follows from no parameter, or -1. */
static int next_param(const sharer *x)
{
    int least = -1;

    for (size_t k = 0; k < numbers_of(x->c); k++) {
        bool known = !is_moved_size(x, k);
        for (int i = 0; !known && i < x->sizes->params; i++)
            known = follows(x, k, i) != 0;
        int i, j;
        known = known || is_product(x, k, &i, &j);
        if (!known && (least < 0 || x->now[k] < x->now[least]))
            least = (int)k;
    }
    return least;
}

/* Finds the symbols that varied; those that were always equal are one parameter. */
static bool find_params(sharer *x)
{
    cr_sizes *z = x->sizes;

    for (int k = next_param(x); k >= 0; k = next_param(x)) {
        if (z->params == CR_MOST_PARAMS || x->now[k] < 2)
            return false;
        x->param[z->params++] = k;
    }
    return z->params > 0;
}

/* Symbols as numbers; run-time numbers are those of the recording.  The caller frees them. */
static cr_scalar *numbers_at(const cr_compiled_calls *c, const int64_t *symbol)
{
    cr_scalar *at = cr_alloc(numbers_of(c) * sizeof *at + 1);

    for (size_t k = 0; at && k < numbers_of(c); k++) {
        const cr_gnumber *n = &c->g->numbers.list.at[k];
        bool is_float = is_symbol(n) && !is_size_symbol(n);
        at[k] = is_float ? n->value : cr_scalar_int(symbol[k]);
    }
    return at;
}

static cr_status instantiate(sharer *x, int p)
{
    const cr_compiled_calls *c = x->c;
    cr_scalar *symbol = numbers_at(c, x->probe[p]);
    cr_status st = symbol ? CR_OK : CR_MEMORY;

    x->session[p] = st ? NULL : cr_session_new();
    if (!x->session[p])
        st = CR_MEMORY;
    cr_decisions_drop(&x->decided[p]);
    cr_decisions *was = cr_decisions_into(&x->decided[p]);
    if (!st)
        st = cr_graph_instantiate_at(&x->graph[p], x->session[p], c->g, symbol, !c->grad);
    cr_decisions_into(was);
    if (!st && !x->graph[p])
        st = cr_fail(CR_VALUE, "what was asked of the sizes does not hold");
    if (st) {
        cr_session_release(x->session[p]);
        x->session[p] = NULL;
    }
    cr_free(symbol);
    return st;
}

/* Makes the symbols of a probe: parameter i of the current call changes by by[i], and with it
 * all symbols that follow it. */
static bool change(sharer *x, int p, const int64_t *by)
{
    memcpy(x->probe[p], x->now, numbers_of(x->c) * sizeof *x->now);
    for (size_t k = 0; k < numbers_of(x->c); k++) {
        int64_t factor = 0;
        int i = 0, j;
        if (!is_moved_size(x, k))
            continue;
        while (i < x->sizes->params && !(factor = follows(x, k, i)))
            i++;
        if (factor)
            x->probe[p][k] += factor * by[i];
        else if (is_product(x, k, &i, &j))
            x->probe[p][k] = (x->now[x->param[i]] + by[i]) * (x->now[x->param[j]] + by[j]);
        if (x->probe[p][k] < 2)
            return false;
    }
    return true;
}

/* Makes a probe at the nearest sizes for which the recording holds, with parameter `only`
 * changed, or all of them (-1), each by another amount. */
static cr_status probe_near(sharer *x, int p, int only)
{
    static const int64_t amounts[] = {1, -1, 2, -2, 3,  -3,  4,  -4,
                                      6, -6, 8, -8, 12, -12, 16, -16};
    cr_status st = cr_fail(CR_VALUE, "no other sizes are possible");

    for (size_t n = 0; n < CR_LEN(amounts); n++) {
        int64_t by[CR_MOST_PARAMS] = {0};
        for (int i = 0; i < x->sizes->params; i++)
            by[i] = only < 0 ? amounts[n] * (i + 2) : i == only ? amounts[n] : 0;
        if (!change(x, p, by))
            continue;
        st = instantiate(x, p);
        if (!st || st == CR_MEMORY)
            return st;
    }
    return st;
}

static cr_status probe_at(sharer *x, int p, const int64_t *symbol)
{
    memcpy(x->probe[p], symbol, numbers_of(x->c) * sizeof *symbol);
    return instantiate(x, p);
}

static cr_status probe_all(sharer *x)
{
    cr_sizes *z = x->sizes;
    int p = 1;

    CR_TRY(probe_at(x, 0, x->now));
    for (; p <= z->params; p++)
        CR_TRY(probe_near(x, p, p - 1));
    CR_TRY(probe_near(x, p++, -1));
    if (!same_symbols(x->c, x->c->seen_symbol[0], x->now))
        CR_TRY(probe_at(x, p++, x->c->seen_symbol[0]));
    z->probes = p;
    return CR_OK;
}

static void read_sizes(cr_session *s, void *context)
{
    sharer *x = context;
    cr_sizes *z = x->sizes;
    int params = z->params;

    for (int p = 0; p < z->probes; p++) {
        cr_scalar *symbol = CR_NEW_N(s, cr_scalar, numbers_of(x->c));
        for (size_t k = 0; k < numbers_of(x->c); k++)
            symbol[k] = cr_scalar_int(x->probe[p][k]);
        z->symbol[p] = symbol;
    }
    z->params = 0;
    for (int i = 0; i < params; i++) {
        int64_t at[CR_MOST_PROBES];
        for (int p = 0; p < z->probes; p++)
            at[p] = x->probe[p][x->param[i]];
        cr_sizes_param(z, x->param[i], at);
    }
    if (!cr_sizes_read(z, x->c->g, x->graph))
        cr_bail(s, CR_VALUE, "a size that was read follows from no symbol");
    cr_sizes_decide(z, x->decided);
}

static cr_status compare_probes(sharer *x)
{
    if (!find_params(x))
        return cr_fail(CR_VALUE, "too many sizes vary, or one is below 2");
    CR_TRY(probe_all(x));
    return cr_session_run(x->sizes->s, read_sizes, x);
}

static void shared_drop(shared_call *f)
{
    cr_compiled_call_drop(f->call);
    cr_free(f);
}

/* The call takes the sizes. */
static cr_status make_call(cr_compiled_call **out, sharer *x)
{
    cr_status st = cr_sizes_new(&x->sizes);

    if (!st)
        st = compare_probes(x);
    if (!st)
        st = cr_compiled_call_new_varying(out, x->sizes, x->c->g, x->graph, x->c->grad,
                                          x->c->how);
    if (st)
        cr_sizes_drop(x->sizes);
    return st;
}

/* *agree: the recording has the shared call's sizes for these symbols, or none. */
static cr_status compare_sizes(bool *agree, const cr_compiled_calls *c, const cr_sizes *sizes,
                               const int64_t *now)
{
    cr_session *s = cr_session_new();
    cr_scalar *symbol = numbers_at(c, now);
    cr_graph *g = NULL;
    cr_status st =
        s && symbol ? cr_graph_instantiate_at(&g, s, c->g, symbol, !c->grad) : CR_MEMORY;

    *agree = st || !g || cr_sizes_agree(sizes, symbol, g);
    cr_graph_drop(g);
    cr_session_release(s);
    cr_free(symbol);
    return st == CR_MEMORY ? st : CR_OK;
}

/* How many parameters are below parameter i; of equal ones, those with lower numbers count. */
static int rank_of(const sharer *x, int i)
{
    int rank = 0;

    for (int j = 0; j < x->sizes->params; j++) {
        int64_t a = x->now[x->param[j]], b = x->now[x->param[i]];
        rank += a < b || (a == b && j < i);
    }
    return rank;
}

/* Compares sizes at small and large parameters, in the present order and in the other one. */
static cr_status compare_far(bool *agree, sharer *x)
{
    static const int64_t first[] = {3, 6, 1009};
    int last = x->sizes->params - 1;
    cr_status st = CR_OK;

    *agree = true;
    for (size_t n = 0; !st && *agree && n < 2 * CR_LEN(first); n++) {
        int64_t by[CR_MOST_PARAMS] = {0}, least = first[n / 2];
        for (int i = 0; i <= last; i++) {
            int rank = n % 2 ? last - rank_of(x, i) : rank_of(x, i);
            by[i] = least + rank * (least / 2) - x->now[x->param[i]];
        }
        if (change(x, 0, by))
            st = compare_sizes(agree, x->c, x->sizes, x->probe[0]);
    }
    return st;
}

static cr_status make_shared(cr_compiled_calls *c, const int64_t *now)
{
    sharer x = {.c = c, .now = now};
    shared_call *f = cr_alloc_zero(sizeof *f);
    int64_t *room = cr_alloc(CR_MOST_PROBES * numbers_of(c) * sizeof *room + 1);
    cr_status st = f && room ? CR_OK : CR_MEMORY;

    for (int p = 0; !st && p < CR_MOST_PROBES; p++)
        x.probe[p] = room + (size_t)p * numbers_of(c);
    if (!st)
        st = make_call(&f->call, &x);
    if (!st) {
        bool everywhere;
        f->sizes = x.sizes;
        st = compare_far(&everywhere, &x);
        f->bounded = !everywhere;
        if (st)
            cr_compiled_call_drop(f->call);
    }
    for (int p = 0; p < CR_MOST_PROBES; p++) {
        cr_graph_drop(x.graph[p]);
        cr_session_release(x.session[p]);
        cr_decisions_drop(&x.decided[p]);
    }
    cr_free(room);
    if (st) {
        cr_free(f);
        return st;
    }
    f->next = c->shared;
    c->shared = f;
    c->tries++;
    return CR_OK;
}

/* --- an instance --- */

static double calls_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Makes an instance of a shared call that accepts these sizes, if there is one. */
static cr_status find_shared(cr_compiled_call **out, cr_compiled_calls *c, const int64_t *now)
{
    double start = calls_clock();
    cr_scalar *symbol = cr_alloc(numbers_of(c) * sizeof *symbol + 1);
    cr_status st = symbol ? CR_OK : CR_MEMORY;

    *out = NULL;
    for (size_t k = 0; !st && k < numbers_of(c); k++)
        symbol[k] = cr_scalar_int(now[k]);
    for (const shared_call *f = c->shared; !st && f && !*out; f = f->next) {
        bool agree = true;
        if (f->bounded)
            st = compare_sizes(&agree, c, f->sizes, now);
        if (st || !agree)
            continue;
        st = cr_compiled_call_resize(out, f->call, symbol);
        if (st && st != CR_MEMORY) {
            cr_log_line("graph", 2, "a shared program does not serve these sizes: %s",
                        cr_error_message());
            st = CR_OK;
        }
    }
    cr_free(symbol);
    if (*out)
        c->seconds = calls_clock() - start;
    return st;
}

/* *out stays NULL if the sizes need separate programs. */
static cr_status share(cr_compiled_call **out, cr_compiled_calls *c, const int64_t *now)
{
    cr_status st;

    CR_TRY(see(c, now));
    CR_TRY(find_shared(out, c, now));
    if (*out || c->seen < 2 || c->tries == MOST_TRIES)
        return CR_OK;
    st = make_shared(c, now);
    if (st == CR_MEMORY)
        return st;
    if (!st)
        return find_shared(out, c, now);
    cr_log_line("graph", 1, "no program for all sizes: %s", cr_error_message());
    c->tries++;
    return CR_OK;
}

static cr_status make_alone(cr_compiled_calls *c, cr_tensor *const *input,
                            const cr_scalar *number, cr_compiled_call **out)
{
    cr_session *s = cr_session_new();
    cr_graph *g = NULL;
    cr_status st = s ? cr_graph_instantiate(&g, s, c->g, input, number, !c->grad) : CR_MEMORY;

    if (!st && g)
        st = cr_compiled_call_new(out, g, c->grad, c->how);
    cr_graph_drop(g);
    cr_session_release(s);
    return st;
}

static cr_status make_instance(cr_compiled_calls *c, cr_tensor *const *input,
                               const cr_scalar *number, cr_compiled_call **out)
{
    int64_t few[64],
        *now = numbers_of(c) > CR_LEN(few) ? cr_alloc(numbers_of(c) * sizeof *now) : few;
    cr_status st = now ? CR_OK : CR_MEMORY;

    *out = NULL;
    if (!st && !c->alone && symbols_now(c, input, number, now))
        st = share(out, c, now);
    if (!st && !*out)
        st = make_alone(c, input, number, out);
    if (now != few)
        cr_free(now);
    return st;
}

/* --- the cache of instances --- */

static int count_dims(uint64_t mask, int ndim)
{
    int n = 0;

    for (int d = 0; d < ndim; d++)
        n += mask >> d & 1;
    return n;
}

static cr_status see_recorded(cr_compiled_calls *c)
{
    int64_t *symbol = cr_alloc(numbers_of(c) * sizeof *symbol + 1);
    cr_status st = CR_MEMORY;

    if (symbol) {
        symbols_recorded(c, symbol);
        st = see(c, symbol);
    }
    cr_free(symbol);
    return st;
}

cr_status cr_compiled_calls_new(cr_compiled_calls **out, const cr_graph *g, bool grad,
                                unsigned how)
{
    cr_compiled_calls *c = cr_alloc_zero(sizeof *c);
    cr_status st;

    CR_NEED(c);
    c->session = cr_session_keep(g->session);
    c->g = g;
    c->grad = grad && cr_compiled_wants_gradient(g);
    c->how = how;
    /* Schedules are measured for each choice of sizes. */
    c->alone = how & CR_HOW_MEASURE || (!c->grad && guards_floats(&g->numbers));
    c->limit = (size_t)cr_env_int(CR_ENV_CR_SIZES_LIMIT) << 20;
    c->key_len = g->numbers.inputs;
    for (int i = 0; i < g->input_count; i++)
        c->key_len += count_dims(g->input[i]->symbolic, g->input[i]->type.ndim);
    st = see_recorded(c);
    CR_GIVE(st, out, c, cr_compiled_calls_drop);
}

void cr_compiled_calls_relate(cr_compiled_calls *c) { c->related = true; }

static void instance_drop(instance *i)
{
    cr_compiled_call_drop(i->call);
    cr_free(i);
}

void cr_compiled_calls_drop(cr_compiled_calls *c)
{
    if (!c)
        return;
    for (instance *i = c->newest, *next; i; i = next) {
        next = i->older;
        instance_drop(i);
    }
    for (shared_call *f = c->shared, *next; f; f = next) {
        next = f->next;
        shared_drop(f);
    }
    for (int i = 0; i < c->seen; i++)
        cr_free(c->seen_symbol[i]);
    cr_free(c->table);
    cr_session_release(c->session);
    cr_free(c);
}

/* Floats are run-time numbers of one instance; whole numbers may decide sizes. */
static void fill_key(const cr_compiled_calls *c, cr_tensor *const *input,
                     const cr_scalar *number, int64_t *key)
{
    for (int i = 0; i < c->g->input_count; i++)
        for (int d = 0; d < c->g->input[i]->type.ndim; d++)
            if (c->g->input[i]->symbolic >> d & 1)
                *key++ = input[i]->size[d];
    for (int k = 0; k < c->g->numbers.inputs; k++)
        *key++ = number[k].category == CR_CAT_FLOAT && !c->grad ? 0 : number[k].i;
}

static instance **place_of(const cr_compiled_calls *c, const int64_t *key, uint64_t hash)
{
    instance **at = &c->table[hash & (c->room - 1)];

    while (*at &&
           ((*at)->hash != hash || memcmp((*at)->key, key, (size_t)c->key_len * sizeof *key)))
        at = &(*at)->chain;
    return at;
}

static void leave_order(cr_compiled_calls *c, instance *i)
{
    *(i->newer ? &i->newer->older : &c->newest) = i->older;
    *(i->older ? &i->older->newer : &c->oldest) = i->newer;
}

static void to_front(cr_compiled_calls *c, instance *i)
{
    i->newer = NULL;
    i->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = i;
    c->newest = i;
}

static void forget_oldest(cr_compiled_calls *c)
{
    instance *i = c->oldest;

    *place_of(c, i->key, i->hash) = i->chain;
    leave_order(c, i);
    c->bytes -= i->bytes;
    c->count--;
    instance_drop(i);
}

/* Counts again: separate programs are made at the first run of an instance. */
static void count_bytes(cr_compiled_calls *c, instance *i)
{
    c->bytes -= i->bytes;
    i->bytes = sizeof *i + (size_t)c->key_len * sizeof *i->key +
               (i->call ? cr_compiled_call_bytes(i->call) : 0);
    i->counted = !i->call || cr_compiled_call_forward(i->call);
    c->bytes += i->bytes;
    while (c->bytes > c->limit && c->oldest != i)
        forget_oldest(c);
}

static cr_status grow_table(cr_compiled_calls *c)
{
    size_t room = c->room ? 2 * c->room : 16;
    instance **table;

    if ((size_t)c->count < c->room)
        return CR_OK;
    table = cr_alloc_zero(room * sizeof(instance *));
    CR_NEED(table);
    cr_free(c->table);
    c->table = table;
    c->room = room;
    for (instance *i = c->newest; i; i = i->older) {
        i->chain = table[i->hash & (room - 1)];
        table[i->hash & (room - 1)] = i;
    }
    return CR_OK;
}

static cr_status add_instance(instance **out, cr_compiled_calls *c, const int64_t *key,
                              uint64_t hash, cr_tensor *const *input, const cr_scalar *number)
{
    size_t bytes = (size_t)c->key_len * sizeof *key;
    instance *i = cr_alloc_zero(sizeof *i + bytes);
    cr_status st = i ? grow_table(c) : CR_MEMORY;

    if (!st)
        st = make_instance(c, input, number, &i->call);
    if (st == CR_MEMORY) {
        cr_free(i);
        return st;
    }
    c->refused += st != CR_OK;
    if (st) /* there are none for these sizes: eager reports the error */
        cr_log_line("graph", 1, "no programs for these sizes: %s", cr_error_message());
    memcpy(i->key, key, bytes);
    i->hash = hash;
    *place_of(c, key, hash) = i;
    to_front(c, i);
    c->count++;
    *out = i;
    return CR_OK;
}

static cr_status find(instance **out, cr_compiled_calls *c, const int64_t *key,
                      cr_tensor *const *input, const cr_scalar *number)
{
    uint64_t hash = cr_hash(key, (size_t)c->key_len * sizeof *key);

    *out = c->room ? *place_of(c, key, hash) : NULL;
    if (!*out)
        return add_instance(out, c, key, hash, input, number);
    if (*out != c->newest) {
        leave_order(c, *out);
        to_front(c, *out);
    }
    return CR_OK;
}

/* Number k where it follows from the call's numbers without sizes; x and known: those before.
 */
static bool known_number(const cr_gnumber *n, const cr_scalar *number, cr_scalar *x,
                         const bool *known, int k)
{
    switch ((cr_gnum_fn)n->fn) {
    case CR_GNUM_INPUT: x[k] = number[n->a]; return true;
    case CR_GNUM_CONST: x[k] = n->value; return true;
    case CR_GNUM_SIZE: return false;
    default:
        return known[n->a] && known[n->b] &&
               cr_gnum_apply((cr_gnum_fn)n->fn, x[n->a], x[n->b], &x[k]);
    }
}

/* False if a comparison of what follows from the call's numbers fails.  Such a call needs no
 * instance that says so. */
static bool numbers_may_fit(const cr_compiled_calls *c, const cr_scalar *number)
{
    enum { MOST = 64 };
    const cr_gnumbers *n = &c->g->numbers;
    cr_scalar x[MOST];
    bool known[MOST];
    int count = n->list.len < MOST ? (int)n->list.len : MOST;

    for (int k = 0; n->guards.len && k < count; k++)
        known[k] = known_number(&n->list.at[k], number, x, known, k);
    for (size_t i = 0; i < n->guards.len; i++) {
        const cr_gnum_guard *g = &n->guards.at[i];
        if (g->a < count && g->b < count && known[g->a] && known[g->b] &&
            cr_gnum_compare((cr_gnum_test)g->test, x[g->a], x[g->b]) != g->holds)
            return false;
    }
    return true;
}

cr_status cr_compiled_calls_find(cr_compiled_call **out, cr_compiled_calls *c,
                                 cr_tensor *const *input, const cr_scalar *number)
{
    int64_t few[32], *key = few;
    instance *i;
    cr_status st;

    *out = NULL;
    if (!numbers_may_fit(c, number))
        return CR_OK;
    if (c->key_len > (int)CR_LEN(few) && !(key = cr_alloc((size_t)c->key_len * sizeof *key)))
        return CR_MEMORY;
    fill_key(c, input, number, key);
    st = find(&i, c, key, input, number);
    if (!st && !i->counted)
        count_bytes(c, i);
    if (key != few)
        cr_free(key);
    *out = st ? NULL : i->call;
    return st;
}

int cr_compiled_calls_count(const cr_compiled_calls *c) { return c->count; }
int cr_compiled_calls_refused(const cr_compiled_calls *c) { return c->refused; }
size_t cr_compiled_calls_bytes(const cr_compiled_calls *c) { return c->bytes; }
double cr_compiled_calls_seconds(const cr_compiled_calls *c) { return c->seconds; }

int cr_compiled_calls_shared(const cr_compiled_calls *c)
{
    int n = 0;

    for (const shared_call *f = c->shared; f; f = f->next)
        n++;
    return n;
}

cr_compiled_call *cr_compiled_calls_last(const cr_compiled_calls *c)
{
    return c->newest ? c->newest->call : NULL;
}
