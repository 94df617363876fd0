/* Matches numbers of graphs with arithmetic over symbols. */
#include "compile/sizes.h"
#include <math.h>
#include <string.h>

/* --- numbers --- */

static bool is_same(cr_scalar a, cr_scalar b)
{
    if (a.category != b.category)
        return false;
    return a.category == CR_CAT_FLOAT ? !memcmp(&a.d, &b.d, sizeof a.d) : a.i == b.i;
}

static bool is_same_everywhere(const cr_sizes *x, const cr_scalar *a, const cr_scalar *b)
{
    for (int p = 0; p < x->probes; p++)
        if (!is_same(a[p], b[p]))
            return false;
    return true;
}

static int find_known(const cr_sizes *x, const cr_scalar *at)
{
    for (size_t k = 0; k < x->numbers.len; k++)
        if (is_same_everywhere(x, x->numbers.at[k].at, at))
            return (int)k;
    return -1;
}

static int add_number(cr_sizes *x, cr_size_number n)
{
    CR_PUSH(x->s, &x->numbers, n);
    return (int)x->numbers.len - 1;
}

cr_status cr_sizes_new(cr_sizes **out)
{
    cr_sizes *x = cr_alloc_zero(sizeof *x);

    CR_NEED(x);
    x->s = &x->own;
    *out = x;
    return CR_OK;
}

void cr_sizes_drop(cr_sizes *x)
{
    if (!x)
        return;
    cr_session_drop(&x->own);
    cr_free(x);
}

void cr_sizes_param(cr_sizes *x, int symbol, const int64_t *at)
{
    cr_size_number n = {.fn = CR_GNUM_INPUT, .a = symbol};

    for (int p = 0; p < x->probes; p++)
        n.at[p] = cr_scalar_int(at[p]);
    add_number(x, n);
    x->params++;
}

static int constant(cr_sizes *x, cr_scalar value)
{
    cr_size_number n = {.fn = CR_GNUM_CONST, .value = value};

    for (int p = 0; p < x->probes; p++)
        n.at[p] = value;
    int k = find_known(x, n.at);
    return k < 0 ? add_number(x, n) : k;
}

/* False when the operation has no value at a probe. */
static bool apply_at_probes(const cr_sizes *x, cr_size_number *n)
{
    for (int p = 0; p < x->probes; p++)
        if (!cr_gnum_apply((cr_gnum_fn)n->fn, x->numbers.at[n->a].at[p],
                           x->numbers.at[n->b].at[p], &n->at[p]))
            return false;
    return true;
}

/* A number with the operation's values at the probes; -1 when it has none. */
static int apply(cr_sizes *x, cr_gnum_fn fn, int a, int b)
{
    cr_size_number n = {.fn = (uint8_t)fn, .a = a, .b = b};

    if (!apply_at_probes(x, &n))
        return -1;
    int k = find_known(x, n.at);
    return k < 0 ? add_number(x, n) : k;
}

/* A recorded constant and operation.  Guards need these themselves, not a number that is equal
 * at the probes: where `n % 3 == 0` is a guard, n % 3 and the constant 0 are equal there. */
static int constant_recorded(cr_sizes *x, cr_scalar value)
{
    cr_size_number n = {.fn = CR_GNUM_CONST, .value = value};

    for (int p = 0; p < x->probes; p++)
        n.at[p] = value;
    return add_number(x, n);
}

static int apply_recorded(cr_sizes *x, cr_gnum_fn fn, int a, int b)
{
    cr_size_number n = {.fn = (uint8_t)fn, .a = a, .b = b};

    return apply_at_probes(x, &n) ? add_number(x, n) : -1;
}

/* --- a number as a product of parameters and a sum of parameters --- */

static int64_t param_at(const cr_sizes *x, int i, int p) { return x->numbers.at[i].at[p].i; }

/* at[] = c + factor[0] * parameter 0 + ... */
static bool is_linear(const cr_sizes *x, const int64_t *at, int64_t *factor, int64_t *c)
{
    *c = at[0];
    for (int i = 0; i < x->params; i++) {
        int64_t by = param_at(x, i, i + 1) - param_at(x, i, 0), change = at[i + 1] - at[0];
        if (change % by)
            return false;
        factor[i] = change / by;
        *c -= factor[i] * param_at(x, i, 0);
    }
    for (int p = 0; p < x->probes; p++) {
        int64_t sum = *c;
        for (int i = 0; i < x->params; i++)
            sum += factor[i] * param_at(x, i, p);
        if (sum != at[p])
            return false;
    }
    return true;
}

static int linear(cr_sizes *x, const int64_t *factor, int64_t c)
{
    int sum = -1;

    for (int i = 0; i < x->params; i++) {
        if (!factor[i])
            continue;
        int term = apply(x, CR_GNUM_MUL, i, constant(x, cr_scalar_int(factor[i])));
        sum = sum < 0 || term < 0 ? term : apply(x, CR_GNUM_ADD, sum, term);
        if (sum < 0)
            return -1;
    }
    return sum < 0 ? constant(x, cr_scalar_int(c))
           : c     ? apply(x, CR_GNUM_ADD, sum, constant(x, cr_scalar_int(c)))
                   : sum;
}

/* Divides the values by these powers of the parameters; false if one is not divisible. */
static bool divide(const cr_sizes *x, const int *power, const int64_t *at, int64_t *out)
{
    for (int p = 0; p < x->probes; p++) {
        out[p] = at[p];
        for (int i = 0; i < x->params; i++)
            for (int k = 0; k < power[i]; k++) {
                int64_t by = param_at(x, i, p);
                if (!by || out[p] % by)
                    return false;
                out[p] /= by;
            }
    }
    return true;
}

/* Number k times these powers of the parameters; -1 if k is -1. */
static int times(cr_sizes *x, int k, const int *power)
{
    for (int i = 0; k >= 0 && i < x->params; i++)
        for (int n = 0; k >= 0 && n < power[i]; n++)
            k = apply(x, CR_GNUM_MUL, k, i);
    return k;
}

static int find_with(cr_sizes *x, const int *power, const int64_t *at)
{
    int64_t rest[CR_MOST_PROBES], factor[CR_MOST_PARAMS], c;

    if (!divide(x, power, at, rest) || !is_linear(x, rest, factor, &c))
        return -1;
    return times(x, linear(x, factor, c), power);
}

enum { MOST_POWER = 2 };

/* The next powers of the parameters; false after the last. */
static bool next_powers(const cr_sizes *x, int *power)
{
    for (int i = 0; i < x->params; i++) {
        if (power[i]++ < MOST_POWER)
            return true;
        power[i] = 0;
    }
    return false;
}

/* --- halves and quotients --- */

/* Half of parameter i, or of its value plus 1, rounded down; -1: all probes are even, or all
 * odd. */
static int half_of(cr_sizes *x, int i, int more)
{
    bool seen[2] = {false, false};

    for (int p = 0; p < x->probes; p++)
        seen[param_at(x, i, p) & 1] = true;
    if (!seen[0] || !seen[1])
        return -1;
    int k = more ? apply(x, CR_GNUM_ADD, i, constant(x, cr_scalar_int(more))) : i;
    return k < 0 ? k : apply(x, CR_GNUM_FLOORDIV, k, constant(x, cr_scalar_int(2)));
}

/* at[] = factor * number k */
static bool is_multiple(const cr_sizes *x, int k, const int64_t *at, int64_t *factor)
{
    const cr_scalar *n = x->numbers.at[k].at;

    *factor = n[0].i ? at[0] / n[0].i : 0;
    for (int p = 0; p < x->probes; p++)
        if (*factor * n[p].i != at[p])
            return false;
    return *factor != 0;
}

static int find_by_half(cr_sizes *x, const int *power, const int64_t *at)
{
    int64_t rest[CR_MOST_PROBES], factor;

    if (!divide(x, power, at, rest))
        return -1;
    for (int i = 0; i < 2 * x->params; i++) {
        int half = half_of(x, i / 2, i % 2);
        if (half >= 0 && is_multiple(x, half, rest, &factor))
            return times(x, apply(x, CR_GNUM_MUL, half, constant(x, cr_scalar_int(factor))),
                         power);
    }
    return -1;
}

typedef int (*finder)(cr_sizes *x, const int *power, const int64_t *at);

static int find_whole(cr_sizes *x, const int64_t *at)
{
    static const finder finders[] = {find_with, find_by_half};
    int k = -1;

    for (size_t i = 0; k < 0 && i < CR_LEN(finders); i++) {
        int power[CR_MOST_PARAMS] = {0};
        do
            k = finders[i](x, power, at);
        while (k < 0 && next_powers(x, power));
    }
    return k;
}

/* at[] = 1 or 2 divided by a whole number. */
static int find_quotient(cr_sizes *x, const cr_scalar *at)
{
    for (int c = 1; c <= 2; c++) {
        int64_t below[CR_MOST_PROBES];
        bool whole = true;
        for (int p = 0; p < x->probes; p++) {
            double d = (double)c / at[p].d;
            whole = whole && fabs(d) >= 1 && fabs(d) < 0x1p52;
            below[p] = whole ? (int64_t)nearbyint(d) : 1;
            whole = whole && (double)c / (double)below[p] == at[p].d;
        }
        int k = whole ? find_whole(x, below) : -1;
        if (k >= 0)
            return apply(x, CR_GNUM_DIV, constant(x, cr_scalar_int(c)), k);
    }
    return -1;
}

/* *n: the whole number with v = c * (n / (n - 1)). */
static bool is_unbiased(double v, double c, int64_t *n)
{
    double d = v / (v - c);

    if (!(d >= 2 && d < 0x1p31))
        return false;
    *n = (int64_t)nearbyint(d);
    return v == c * ((double)*n / (double)(*n - 1));
}

/* c * (n / (n - 1)) with a float c of the graph: the factor of a variance of n elements in the
 * update of a running variance. */
static int find_unbiased(cr_sizes *x, const cr_scalar *at)
{
    for (size_t i = 0; i < x->floats.len; i++) {
        int64_t n[CR_MOST_PROBES];
        bool all = true;
        for (int p = 0; p < x->probes; p++)
            all = all && is_unbiased(at[p].d, x->floats.at[i], &n[p]);
        int k = all ? find_whole(x, n) : -1;
        int less = k < 0 ? k : apply(x, CR_GNUM_SUB, k, constant(x, cr_scalar_int(1)));
        int q = less < 0 ? less : apply(x, CR_GNUM_DIV, k, less);
        if (q >= 0)
            return apply(x, CR_GNUM_MUL, constant(x, cr_scalar_float(x->floats.at[i])), q);
    }
    return -1;
}

static int find_float(cr_sizes *x, const cr_scalar *at)
{
    int k = find_quotient(x, at);

    return k < 0 ? find_unbiased(x, at) : k;
}

int cr_sizes_find(cr_sizes *x, const cr_scalar *at)
{
    int64_t whole[CR_MOST_PROBES];
    int k = find_known(x, at);

    for (int p = 0; p < x->probes; p++) {
        if (k >= 0 || at[p].category != at[0].category)
            return k;
        whole[p] = at[p].i;
    }
    return at[0].category == CR_CAT_INT ? find_whole(x, whole) : find_float(x, at);
}

/* --- numbers of a recording --- */

static bool is_symbol(const cr_gnumber *n)
{
    return n->fn == CR_GNUM_INPUT || (n->fn == CR_GNUM_SIZE && !n->of->by);
}

static void add_guard(cr_sizes *x, cr_gnum_guard g) { CR_PUSH(x->s, &x->guards, g); }

/* A symbol that is not a parameter is constant or arithmetic over parameters, as at the probes;
 * a guard checks it. */
static int read_symbol(cr_sizes *x, int symbol, const cr_scalar *at)
{
    cr_size_number n = {.fn = CR_GNUM_INPUT, .a = symbol};
    int same, own;

    for (int i = 0; i < x->params; i++)
        if (x->numbers.at[i].a == symbol)
            return i;
    same = cr_sizes_find(x, at);
    if (same < 0)
        return -1;
    memcpy(n.at, at, (size_t)x->probes * sizeof *at);
    own = add_number(x, n);
    add_guard(x, (cr_gnum_guard){.test = CR_GNUM_EQ, .holds = true, .a = same, .b = own});
    return same;
}

static int read_number(cr_sizes *x, const cr_gnumber *n, int k, const cr_scalar *at,
                       const int *now)
{
    if (n->fn == CR_GNUM_INPUT && n->value.category == CR_CAT_FLOAT)
        return constant_recorded(x, n->value); /* a run-time number, of which no size depends */
    if (is_symbol(n))
        return read_symbol(x, k, at);
    if (n->fn == CR_GNUM_SIZE)
        return cr_sizes_find(x, at);
    if (n->fn == CR_GNUM_CONST)
        return constant_recorded(x, n->value);
    return apply_recorded(x, (cr_gnum_fn)n->fn, now[n->a], now[n->b]);
}

static void keep_computed(cr_sizes *x, cr_size_of size, const cr_scalar *at)
{
    size.number = cr_sizes_find(x, at);
    if (size.number >= 0)
        CR_PUSH(x->s, &x->computed, size);
}

static void read_results(cr_sizes *x, cr_graph *const *of, uint32_t node)
{
    const cr_gnode *n = of[0]->body->at[node];

    for (int r = 0; r < n->result_count; r++)
        for (int d = 0; d < n->result[r]->type.ndim; d++) {
            cr_scalar at[CR_MOST_PROBES];
            for (int p = 0; p < x->probes; p++)
                at[p] = cr_scalar_int(of[p]->body->at[node]->result[r]->type.size[d]);
            keep_computed(
                x, (cr_size_of){node, (uint16_t)r, (uint16_t)d, .recorded = -1, .number = -1},
                at);
        }
}

/* The graphs of probes that are not alike are refused when they are compared. */
static void read_computed(cr_sizes *x, const cr_graph *g, cr_graph *const *of)
{
    for (int p = 1; p < x->probes; p++)
        if (!cr_graph_alike(of[0], of[p]))
            return;
    for (size_t k = 0; k < g->numbers.list.len; k++) {
        cr_scalar at[CR_MOST_PROBES];
        for (int p = 0; p < x->probes; p++)
            at[p] = of[p]->numbers.list.at[k].value;
        if (g->numbers.list.at[k].fn == CR_GNUM_SIZE)
            keep_computed(x, (cr_size_of){.recorded = (int)k}, at);
    }
    for (size_t i = 0; i < of[0]->body->len; i++)
        read_results(x, of, (uint32_t)i);
}

bool cr_sizes_read(cr_sizes *x, const cr_graph *g, cr_graph *const *of)
{
    const cr_gnumbers *n = &g->numbers;
    int *now = CR_NEW_N(x->s, int, n->list.len + 1);

    for (size_t k = 0; k < n->list.len; k++) {
        cr_scalar at[CR_MOST_PROBES];
        for (int p = 0; p < x->probes; p++)
            at[p] = of[p]->numbers.list.at[k].value;
        now[k] = read_number(x, &n->list.at[k], (int)k, at, now);
        if (now[k] < 0)
            return false;
    }
    for (size_t i = 0; i < n->guards.len; i++) {
        cr_gnum_guard guard = n->guards.at[i];
        guard.a = now[guard.a];
        guard.b = now[guard.b];
        add_guard(x, guard);
    }
    read_computed(x, g, of);
    return true;
}

bool cr_sizes_evaluate(const cr_sizes *x, const cr_scalar *symbol, cr_scalar *out)
{
    for (size_t k = 0; k < x->numbers.len; k++) {
        const cr_size_number *n = &x->numbers.at[k];
        if (n->fn == CR_GNUM_INPUT || n->fn == CR_GNUM_CONST)
            out[k] = n->fn == CR_GNUM_INPUT ? symbol[n->a] : n->value;
        else if (!cr_gnum_apply((cr_gnum_fn)n->fn, out[n->a], out[n->b], &out[k]))
            return false;
    }
    for (int i = 0; i < x->params; i++)
        if (out[i].i < 2)
            return false;
    for (size_t i = 0; i < x->guards.len; i++) {
        const cr_gnum_guard *g = &x->guards.at[i];
        if (cr_gnum_compare((cr_gnum_test)g->test, out[g->a], out[g->b]) != g->holds)
            return false;
    }
    return true;
}

/* --- comparisons by which rules chose --- */

static CR_NORETURN void decided_otherwise(cr_sizes *x)
{
    cr_bail(x->s, CR_VALUE, "graphs of two sizes differ in a choice of a rule");
}

/* Reads decision k of every probe; false when both operands are the same at all of them. */
static bool read_decision(cr_sizes *x, const cr_decisions *log, size_t k, cr_scalar *a,
                          cr_scalar *b)
{
    const cr_decision *first = &log[0].at[k];
    bool varies = false;

    for (int p = 0; p < x->probes; p++) {
        const cr_decision *d = &log[p].at[k];
        if (d->test != first->test || d->holds != first->holds)
            decided_otherwise(x);
        a[p] = cr_scalar_int(d->a);
        b[p] = cr_scalar_int(d->b);
        varies = varies || d->a != first->a || d->b != first->b;
    }
    return varies;
}

static bool is_guarded(const cr_sizes *x, cr_gnum_guard g)
{
    for (size_t i = 0; i < x->guards.len; i++) {
        const cr_gnum_guard *old = &x->guards.at[i];
        if (old->test == g.test && old->holds == g.holds && old->a == g.a && old->b == g.b)
            return true;
    }
    return false;
}

void cr_sizes_decide(cr_sizes *x, const cr_decisions *log)
{
    static const cr_gnum_test tests[] = {
        [CR_DECIDE_EQ] = CR_GNUM_EQ, [CR_DECIDE_LT] = CR_GNUM_LT, [CR_DECIDE_LE] = CR_GNUM_LE};

    for (int p = 0; p < x->probes; p++) {
        cr_session_check(x->s, log[p].status);
        if (log[p].len != log[0].len)
            decided_otherwise(x);
    }
    for (size_t k = 0; k < log[0].len; k++) {
        cr_scalar a[CR_MOST_PROBES], b[CR_MOST_PROBES];
        if (!read_decision(x, log, k, a, b))
            continue;
        cr_gnum_guard g = {.test = (uint8_t)tests[log[0].at[k].test],
                           .holds = log[0].at[k].holds,
                           .a = cr_sizes_find(x, a)};
        g.b = cr_sizes_find(x, b);
        if (g.a < 0 || g.b < 0)
            cr_bail(x->s, CR_VALUE, "a rule chose by a number that follows from no symbol");
        if (!is_guarded(x, g))
            add_guard(x, g);
    }
}

static int64_t size_in(const cr_graph *of, cr_size_of size)
{
    return size.recorded < 0 ? of->body->at[size.node]->result[size.result]->type.size[size.dim]
                             : of->numbers.list.at[size.recorded].value.i;
}

bool cr_sizes_agree(const cr_sizes *x, const cr_scalar *symbol, const cr_graph *of)
{
    cr_scalar *value = cr_alloc((x->numbers.len + 1) * sizeof *value);
    bool evaluated = value && cr_sizes_evaluate(x, symbol, value), agree = value;

    for (size_t i = 0; evaluated && agree && i < x->computed.len; i++) {
        cr_size_of size = x->computed.at[i];
        agree = size_in(of, size) == value[size.number].i;
    }
    cr_free(value);
    return agree;
}

/* --- graphs --- */

typedef struct {
    cr_sizes *x;
    cr_graph *const *graph;
    cr_session *s;
    CR_VEC(cr_gvarying) varying; /* of the current node */
    const char *name;            /* name of the current node */
} comparer;

static CR_NORETURN void differ(const comparer *c, const char *in)
{
    cr_bail(c->s, CR_VALUE, "graphs of two sizes differ in %s of %s", in, c->name);
}

static void check(const comparer *c, bool same, const char *in)
{
    if (!same)
        differ(c, in);
}

enum { MOST_FLOATS = 64 };

static void keep_float(cr_sizes *x, cr_scalar n)
{
    if (n.category != CR_CAT_FLOAT || cr_gnum_is_float(n.d) || x->floats.len == MOST_FLOATS)
        return;
    for (size_t i = 0; i < x->floats.len; i++)
        if (x->floats.at[i] == n.d)
            return;
    CR_PUSH(x->s, &x->floats, n.d);
}

static void compare_number(comparer *c, const cr_scalar *at, int arg, uint32_t item)
{
    bool same = true;

    for (int p = 1; p < c->x->probes; p++)
        same = same && is_same(at[0], at[p]);
    if (same) {
        keep_float(c->x, at[0]);
        return;
    }
    int k = cr_sizes_find(c->x, at);
    check(c, k >= 0, "a number");
    CR_PUSH(c->s, &c->varying, ((cr_gvarying){(uint16_t)arg, item, k}));
}

static cr_scalar number_of(const cr_garg *a, uint32_t item)
{
    switch (a->tag) {
    case CR_INT: return cr_scalar_int(a->i);
    case CR_FLOAT: return cr_scalar_float(a->d);
    case CR_INTS: return cr_scalar_int(a->ints[item]);
    default: return a->number;
    }
}

static bool same_literal(const cr_garg *a, const cr_garg *b)
{
    switch (a->tag) {
    case CR_NONE:
    case CR_GENERATOR: return true;
    case CR_STRING: return !memcmp(a->s, b->s, a->len);
    case CR_TRUTHS: return !memcmp(a->ints, b->ints, a->len * sizeof *a->ints);
    case CR_FLOATS: return !memcmp(a->floats, b->floats, a->len * sizeof *a->floats);
    case CR_TENSOR: return a->value->id == b->value->id;
    case CR_NUMBER: return is_same(a->number, b->number);
    case CR_TENSORS:
    case CR_NUMBERS:
        for (uint32_t i = 0; i < a->len; i++)
            if (a->list[i].tag != b->list[i].tag || !same_literal(&a->list[i], &b->list[i]))
                return false;
        return true;
    default: return a->i == b->i;
    }
}

static bool is_whole_or_float(cr_scalar s)
{
    return s.category == CR_CAT_INT || s.category == CR_CAT_FLOAT;
}

static bool may_vary(const cr_garg *a)
{
    return a->tag == CR_INT || a->tag == CR_FLOAT || a->tag == CR_INTS ||
           (a->tag == CR_NUMBER && is_whole_or_float(a->number));
}

static void compare_arg(comparer *c, const cr_garg *const *arg, int i)
{
    cr_scalar at[CR_MOST_PROBES];
    uint32_t items = arg[0]->tag == CR_INTS ? arg[0]->len : 1;

    for (int p = 1; p < c->x->probes; p++) {
        check(c, arg[p]->tag == arg[0]->tag, "an argument");
        check(c, !cr_garg_has_len(arg[0]) || arg[p]->len == arg[0]->len, "a list");
        check(c, may_vary(arg[0]) || same_literal(arg[0], arg[p]), "an argument");
    }
    for (uint32_t item = 0; may_vary(arg[0]) && item < items; item++) {
        for (int p = 0; p < c->x->probes; p++)
            at[p] = number_of(arg[p], item);
        compare_number(c, at, i, item);
    }
}

/* Constants on other devices than the host are equal only if they are one tensor. */
static bool same_constant(const cr_tensor *a, const cr_tensor *b)
{
    return a == b || (cr_is_host(a->device) && cr_is_host(b->device) && a->dtype == b->dtype &&
                      a->ndim == b->ndim && a->contiguous && b->contiguous &&
                      !memcmp(a->size, b->size, a->ndim * sizeof *a->size) &&
                      !memcmp(a->address, b->address,
                              (size_t)a->numel * cr_dtype_size((cr_dtype)a->dtype)));
}

static bool same_kind(const cr_gtype *a, const cr_gtype *b)
{
    return a->known && b->known && a->dtype == b->dtype && a->ndim == b->ndim &&
           cr_same_device(a->device, b->device) && !a->stride == !b->stride &&
           a->requires_grad == b->requires_grad;
}

static void compare_node(comparer *c, cr_gnode *const *n)
{
    const cr_garg *arg[CR_MOST_PROBES];

    c->name = n[0]->result_count ? n[0]->result[0]->name : n[0]->op->name;
    c->varying.len = c->varying.cap = 0;
    c->varying.at = NULL;
    check(c, n[0]->kind == CR_GNODE_CALL || n[0]->kind == CR_GNODE_CONSTANT, "the kind");
    for (int p = 1; p < c->x->probes; p++) {
        check(c,
              n[p]->kind == n[0]->kind && n[p]->op == n[0]->op &&
                  n[p]->result_count == n[0]->result_count,
              "the operator");
        check(c, n[0]->kind == CR_GNODE_CALL || same_constant(n[0]->constant, n[p]->constant),
              "the elements");
        for (int k = 0; k < n[0]->result_count; k++)
            check(c,
                  n[p]->result[k]->id == n[0]->result[k]->id &&
                      same_kind(&n[0]->result[k]->type, &n[p]->result[k]->type),
                  "a result");
    }
    for (int i = 0; i < n[0]->arg_count; i++) {
        for (int p = 0; p < c->x->probes; p++)
            arg[p] = &n[p]->arg[i];
        compare_arg(c, arg, i);
    }
    n[0]->varying = c->varying.at;
    n[0]->varying_count = (int)c->varying.len;
}

static void compare_input(comparer *c, int i, cr_gvarying_dims *inputs)
{
    const cr_gtype *type[CR_MOST_PROBES] = {&c->graph[0]->input[i]->type};

    c->name = c->graph[0]->input[i]->name;
    for (int p = 1; p < c->x->probes; p++) {
        type[p] = &c->graph[p]->input[i]->type;
        check(c, same_kind(type[0], type[p]), "the type");
    }
    for (int d = 0; d < 2 * type[0]->ndim; d++) {
        cr_scalar at[CR_MOST_PROBES];
        bool is_stride = d >= type[0]->ndim;
        int dim = is_stride ? d - type[0]->ndim : d;
        if (is_stride && !type[0]->stride)
            continue;
        for (int p = 0; p < c->x->probes; p++)
            at[p] = cr_scalar_int(is_stride ? type[p]->stride[dim] : type[p]->size[dim]);
        c->varying.len = 0;
        compare_number(c, at, 0, 0);
        if (c->varying.len)
            CR_PUSH(c->s, inputs,
                    ((cr_gvarying_dim){(uint32_t)i, (uint8_t)dim, is_stride,
                                       c->varying.at[0].number}));
    }
}

static void compare_outputs(comparer *c)
{
    const cr_gblock *b = c->graph[0]->body;

    c->name = "the graph";
    for (int p = 1; p < c->x->probes; p++) {
        const cr_gblock *q = c->graph[p]->body;
        check(c, q->output_count == b->output_count, "outputs");
        for (int i = 0; i < b->output_count; i++)
            check(c,
                  b->output[i].tag == q->output[i].tag &&
                      same_literal(&b->output[i], &q->output[i]),
                  "outputs");
    }
}

void cr_sizes_compare(cr_sizes *x, cr_graph *const *graph, cr_gvarying_dims *inputs)
{
    comparer c = {.x = x, .graph = graph, .s = graph[0]->session, .name = "the graph"};

    for (int p = 1; p < x->probes; p++)
        check(&c,
              graph[p]->input_count == graph[0]->input_count &&
                  graph[p]->body->len == graph[0]->body->len,
              "nodes");
    for (int i = 0; i < graph[0]->input_count; i++)
        compare_input(&c, i, inputs);
    for (size_t i = 0; i < graph[0]->body->len; i++) {
        cr_gnode *n[CR_MOST_PROBES];
        for (int p = 0; p < x->probes; p++)
            n[p] = graph[p]->body->at[i];
        compare_node(&c, n);
    }
    compare_outputs(&c);
}
