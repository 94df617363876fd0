/* The graph of a trace, built in the order of its key.
 *
 * A storage has one value; an argument with another geometry is a view call of it.  Writes are
 * calls too, which the pass `functional` turns into values.
 *
 * A number that differs between traces becomes a symbol.  Sizes of inputs are symbols of their
 * own; an integer is looked for as arithmetic on them.  Such arithmetic is a guess from a few
 * traces: before a run, the caller compares the graph's numbers with the trace's. */
#include "compile/traced.h"
#include "entry.h"
#include <string.h>

/* The numbers of a graph.  source[k]: the trace's number that number k stands for, or -1. */
typedef struct {
    cr_graph *g;
    const cr_traced_varying *v; /* or NULL */
    CR_VEC(int32_t) source;
} traced_numbers;

typedef struct {
    const cr_traced *t;
    cr_graph *g;
    cr_gvalue **value; /* by memory */
    traced_numbers numbers;
    size_t at; /* the trace's number that comes next */
} building;

/* --- numbers that vary --- */
static bool number_moves(const cr_traced_varying *v, size_t at)
{
    for (int c = 1; c < v->count; c++)
        if (v->number[c][at] != v->number[0][at])
            return true;
    return false;
}

static int64_t traced_int(const cr_traced_varying *v, int c, size_t at)
{
    int64_t i;

    memcpy(&i, &v->number[c][at], sizeof i);
    return i;
}

static int add_number(traced_numbers *x, cr_gnumber n, size_t at)
{
    cr_session *s = x->g->session;

    CR_PUSH(s, &x->g->numbers.list, n);
    CR_PUSH(s, &x->source, n.fn == CR_GNUM_SIZE || n.fn == CR_GNUM_INPUT ? (int32_t)at : -1);
    return (int)x->g->numbers.list.len - 1;
}

static int add_const(traced_numbers *x, int64_t i)
{
    return add_number(x, (cr_gnumber){.fn = CR_GNUM_CONST, .value = cr_scalar_int(i)}, 0);
}

static int add_applied(traced_numbers *x, cr_gnum_fn fn, int a, int b)
{
    const cr_gnumber *list = x->g->numbers.list.at;
    cr_gnumber n = {.fn = (uint8_t)fn, .a = a, .b = b};

    if (!cr_gnum_apply(fn, list[a].value, list[b].value, &n.value))
        cr_bail(x->g->session, CR_VALUE, "arithmetic of sizes has no value");
    return add_number(x, n, 0);
}

/* factor * number k + more */
static int add_linear(traced_numbers *x, int k, int64_t factor, int64_t more)
{
    if (factor != 1)
        k = add_applied(x, CR_GNUM_MUL, k, add_const(x, factor));
    return more ? add_applied(x, CR_GNUM_ADD, k, add_const(x, more)) : k;
}

/* Whether the number is factor * a + more everywhere; b is another term by which a is
 * multiplied, or -1. */
static bool is_linear(const cr_traced_varying *v, size_t at, int32_t a, int32_t b,
                      int64_t *factor, int64_t *more)
{
    int64_t first = 0, from = 0;
    bool moved = false;

    for (int c = 0; c < v->count; c++) {
        int64_t term, n = traced_int(v, c, at);
        if (__builtin_mul_overflow(traced_int(v, c, (size_t)a),
                                   b < 0 ? 1 : traced_int(v, c, (size_t)b), &term) ||
            n > INT32_MAX || n < INT32_MIN || term > INT32_MAX || term < INT32_MIN)
            return false;
        if (!c) {
            first = term;
            from = n;
        } else if (!moved && term != first) {
            *factor = (n - from) / (term - first);
            *more = from - *factor * first;
            moved = true;
        }
        if (moved && *factor * term + *more != n)
            return false;
        if (!moved && n != from)
            return false;
    }
    return moved && *factor && from == *factor * first + *more;
}

enum { MOST_TERMS = 12 };

/* The sizes and integers of the call that move, each once. */
static int find_terms(const traced_numbers *x, int *term)
{
    int count = 0;

    for (size_t k = 0; k < x->source.len && count < MOST_TERMS; k++) {
        bool known =
            x->source.at[k] < 0 || x->g->numbers.list.at[k].value.category != CR_CAT_INT;
        for (int i = 0; i < count && !known; i++) {
            int64_t factor, more;
            known = is_linear(x->v, (size_t)x->source.at[k], x->source.at[term[i]], -1, &factor,
                              &more) &&
                    factor == 1 && !more;
        }
        if (!known)
            term[count++] = (int)k;
    }
    return count;
}

/* The simplest arithmetic: a term, a multiple, a term and a constant, products of two terms,
 * and what is left of these. */
static int find_arithmetic(traced_numbers *x, size_t at)
{
    int term[MOST_TERMS], n = find_terms(x, term);
    int64_t factor, more;

    for (int way = 0; way < 3; way++)
        for (int i = 0; i < n; i++)
            if (is_linear(x->v, at, x->source.at[term[i]], -1, &factor, &more) &&
                (way == 2 || !more) && (way || factor == 1))
                return add_linear(x, term[i], factor, more);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            if (is_linear(x->v, at, x->source.at[term[i]], x->source.at[term[j]], &factor,
                          &more))
                return add_linear(x, add_applied(x, CR_GNUM_MUL, term[i], term[j]), factor,
                                  more);
    return -1;
}

static int find_number(traced_numbers *x, size_t at, bool is_float)
{
    int k = is_float ? -1 : find_arithmetic(x, at);
    cr_gnumber n = {.fn = CR_GNUM_INPUT, .a = x->g->numbers.inputs};
    double d;

    if (k >= 0)
        return k;
    memcpy(&d, &x->v->number[0][at], sizeof d);
    n.value = is_float ? cr_scalar_float(d) : cr_scalar_int(traced_int(x->v, 0, at));
    x->g->numbers.inputs++;
    return add_number(x, n, at);
}

/* The number that comes next, or its symbol. */
static cr_scalar next_number(building *b, cr_scalar n)
{
    const cr_traced_varying *v = b->numbers.v;
    size_t at = b->at++;

    if (!v || !number_moves(v, at))
        return n;
    int k = find_number(&b->numbers, at, n.category == CR_CAT_FLOAT);
    v->symbol[at] = k;
    return cr_gnum_scalar(k, n);
}

static cr_garg next_ints(building *b, const int64_t *at, int n)
{
    int64_t *copy = CR_NEW_N(b->g->session, int64_t, n + 1);

    for (int i = 0; i < n; i++)
        copy[i] = next_number(b, cr_scalar_int(at[i])).i;
    return (cr_garg){.tag = CR_INTS, .len = (uint32_t)n, .ints = copy};
}

/* --- arguments --- */
static cr_gnode *view_node(building *b, const cr_op *op, const cr_garg *arg)
{
    return cr_graph_call(b->g, b->g->body, op, arg, 1, NULL);
}

static void mark_varying(building *b, cr_gnode *n)
{
    bool varies = b->numbers.v && cr_gnode_sizes_vary(n);

    for (int k = 0; k < n->result_count; k++)
        n->result[k]->symbolic = varies ? UINT64_MAX : 0;
}

static cr_gvalue *view_value(building *b, cr_gvalue *v, const cr_tensor *base,
                             const cr_tensor *h)
{
    int64_t dims[CR_MAX_DIMS], *order;
    cr_garg arg[4] = {cr_garg_value(v)};
    cr_gnode *n = NULL;

    switch (cr_traced_view_of(base, h, dims)) {
    case CR_TRACED_SAME: return v;
    case CR_TRACED_PERMUTED:
        order = CR_NEW_N(b->g->session, int64_t, h->ndim + 1);
        memcpy(order, dims, h->ndim * sizeof *order);
        arg[1] = (cr_garg){.tag = CR_INTS, .len = h->ndim, .ints = order};
        n = view_node(b, cr_entry.permute, arg);
        break;
    case CR_TRACED_VIEW:
        arg[1] = next_ints(b, h->size, h->ndim);
        n = view_node(b, cr_entry.view, arg);
        break;
    case CR_TRACED_STRIDED:
        arg[1] = next_ints(b, h->size, h->ndim);
        arg[2] = next_ints(b, h->stride, h->ndim);
        arg[3] = (cr_garg){.tag = CR_INT, .i = next_number(b, cr_scalar_int(h->offset)).i};
        n = view_node(b, cr_entry.as_strided, arg);
        break;
    case CR_TRACED_NO_VIEW: cr_bail(b->g->session, CR_VALUE, "no view of the storage's value");
    }
    mark_varying(b, n);
    n->result[0]->type = cr_gtype_of(b->g->session, h);
    return n->result[0];
}

static cr_garg tensor_arg(building *b, const cr_tensor *h)
{
    size_t m = cr_memory_of(h)->index;
    cr_scalar n;

    if (!h->number) {
        if (!b->value[m])
            cr_bail(b->g->session, CR_VALUE, "a storage without a value");
        return cr_garg_value(view_value(b, b->value[m], b->t->base[m], h));
    }
    cr_session_check(b->g->session, cr_traced_literal(&n, h));
    if (cr_traced_may_vary(n))
        n = next_number(b, n);
    return (cr_garg){.tag = CR_NUMBER, .number = n};
}

static cr_garg traced_arg(building *b, const cr_value *v, bool in_list)
{
    cr_garg a = {.tag = v->tag, .len = v->len};

    switch (v->tag) {
    case CR_TENSOR: return tensor_arg(b, v->t);
    case CR_INTS: return next_ints(b, v->ints, (int)v->len);
    case CR_INT: a.i = next_number(b, cr_scalar_int(v->i)).i; return a;
    case CR_FLOAT: a.d = next_number(b, cr_scalar_float(v->d)).d; return a;
    case CR_NUMBER:
        a.number = v->number;
        if (!in_list && cr_traced_may_vary(a.number))
            a.number = next_number(b, a.number);
        return a;
    case CR_TENSORS:
    case CR_NUMBERS: {
        cr_garg *list = CR_NEW_N(b->g->session, cr_garg, v->len + 1);
        for (uint32_t i = 0; i < v->len; i++)
            list[i] = traced_arg(b, &v->list[i], true);
        a.list = list;
        return a;
    }
    default: memcpy(&a.number, &v->number, sizeof a.number); return a;
    }
}

/* --- the graph --- */

/* Whether the first result is an argument that the call does not write. */
static bool gives_back(const cr_noted *n)
{
    for (int i = 0; i < n->op->param_count && n->results; i++)
        if (n->arg[i].tag == CR_TENSOR && n->arg[i].t == n->result[0])
            return !n->op->param[i].written;
    return false;
}

static void build_call(building *b, const cr_noted *n)
{
    cr_garg arg[CR_MAX_ARGS];

    for (int i = 0; i < n->op->param_count; i++)
        arg[i] = traced_arg(b, &n->arg[i], false);
    cr_gnode *node = cr_graph_call(b->g, b->g->body, n->op, arg, n->results, NULL);
    mark_varying(b, node);
    node->same = b->numbers.v && cr_gnode_sizes_vary(node) && gives_back(n);
    for (int k = 0; k < n->results; k++) {
        const cr_tensor *h = n->result[k];
        if (!h) /* None, or no elements: a later call that reads it has it as an input */
            continue;
        node->result[k]->type = cr_gtype_of(b->g->session, h);
        cr_memory *m = cr_memory_of(h);
        if (m->made && b->t->base[m->index] == h)
            b->value[m->index] = node->result[k];
    }
}

static void build_input(building *b, size_t i)
{
    const cr_tensor *h = b->t->base[i];
    cr_gtype type = cr_gtype_of_input(b->g->session, h);
    cr_gvalue *value = b->value[i] = cr_graph_input(b->g, NULL, &type);

    for (int d = 0; d < h->ndim && cr_traced_is_sized(h); d++) {
        const cr_traced_varying *v = b->numbers.v;
        size_t at = b->at++;
        if (!v || !number_moves(v, at))
            continue;
        cr_gnumber n = {.fn = CR_GNUM_SIZE,
                        .a = d,
                        .of = value,
                        .value = cr_scalar_int(traced_int(v, 0, at))};
        value->symbolic |= (uint64_t)1 << d;
        v->symbol[at] = add_number(&b->numbers, n, at);
    }
}

static void build_outputs(building *b)
{
    const cr_trace *x = b->t->x;
    cr_garg *out = CR_NEW_N(b->g->session, cr_garg, x->memories.len + 1);
    int n = 0;

    for (size_t i = 0; i < x->memories.len; i++) {
        const cr_memory *m = x->memories.at[i];
        if (!m->made || m->last != SIZE_MAX)
            continue;
        if (!b->value[i])
            cr_bail(b->g->session, CR_VALUE, "a result without a value");
        out[n++] = cr_garg_value(b->value[i]);
    }
    out[n++] = cr_garg_value(NULL); /* a graph without outputs loses its writes */
    cr_gblock_return(b->g, b->g->body, out, n);
}

cr_graph *cr_traced_graph(cr_session *s, const cr_traced *t, const cr_traced_varying *v,
                          const int32_t **source)
{
    const cr_trace *x = t->x;
    building b = {.t = t, .g = cr_graph_new(s)};

    b.numbers.g = b.g;
    b.numbers.v = v;
    b.value = CR_NEW_N(s, cr_gvalue *, x->memories.len + 1);
    memset(b.value, 0, (x->memories.len + 1) * sizeof(cr_gvalue *));
    for (size_t i = 0; i < t->number.len && v; i++)
        v->symbol[i] = -1;
    for (size_t i = 0; i < x->memories.len; i++)
        if (!x->memories.at[i]->made && t->base[i])
            build_input(&b, i);
    for (size_t i = 0; i < x->calls.len; i++)
        if (x->calls.at[i].live)
            build_call(&b, &x->calls.at[i]);
    CR_ASSERT(b.at == t->number.len);
    build_outputs(&b);
    cr_graph_verify(b.g);
    *source = b.numbers.source.at;
    return b.g;
}
