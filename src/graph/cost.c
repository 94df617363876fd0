/* Costs of graphs: see cost.h.
 *
 * The sizes of every value are computed in several instances of the graph.  An expression that
 * gives all of them is searched among the sizes around the node: one of them, a*e + b, (e + b)
 * // c, c*e*f, e + f + c, and for one size of a view the quotient of the element count by its
 * other sizes.  Compositions are split into their parts in every instance, so that parts have
 * sizes, too; a part's `source` is its node's number. */
#include "graph/cost.h"
#include "base/integer.h"
#include "graph/rewrite.h"
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 12, LEAST = 5, ATTEMPTS = 60, MOST_DIVISOR = 32, AROUND = 24 };

/* An expression and its value in every sample. */
typedef struct {
    const cr_sym *e;
    int64_t at[SAMPLES];
} sized;

/* A graph in every sample, and the sizes of its values, by id in the first sample. */
typedef struct {
    cr_graph *in[SAMPLES];
    const cr_gvalue **same[SAMPLES];
    const cr_sym ***size;
} family;

/* Computes the costs of a graph.
 * Invariant: flops and moves have one entry for each node, counted with those of nested
 * blocks; whole and parts describe the same values. `given` has given_count samples, or is
 * NULL. */
typedef struct {
    const cr_graph *g;
    cr_session *s;
    cr_syms *t;
    int samples;
    family whole, parts;
    CR_VEC(sized) known;
    CR_VEC(cr_graph *) made;       /* own the constants */
    const cr_sym **flops;          /* by number of the node, including nested nodes */
    bool *moves;                   /* a part of the node is not a view */
    bool merged;                   /* symbols with equal values are merged */
    const cr_scalar *const *given; /* samples that the caller chose, or NULL */
    int given_count;
    unsigned nodes, unknown;
    uint64_t random;
    cr_graph_costs out;
} coster;

/* --- symbols --- */

static bool is_variable(const cr_gnumber *n)
{
    return (n->fn == CR_GNUM_SIZE && !n->of->by) ||
           (n->fn == CR_GNUM_INPUT && n->value.category == CR_CAT_INT);
}

/* The symbol that represents number k. */
static size_t stands_for(const coster *x, size_t k)
{
    const cr_gnumber *at = x->g->numbers.list.at;

    for (size_t i = 0; x->merged && i < k; i++)
        if (is_variable(&at[i]) && at[i].value.i == at[k].value.i)
            return i;
    return k;
}

static int64_t draw(coster *x, int64_t n)
{
    x->random = x->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((x->random >> 33) % (uint64_t)n);
}

/* A size that differs from `seen`: near and far, odd and even, and multiples for
 * divisibility. */
static int64_t other_value(coster *x, int64_t seen, int attempt)
{
    switch (attempt % 3) {
    case 0: return seen + 1 + draw(x, 9);
    case 1: return seen * (1 + draw(x, 4));
    default: return 2 * seen + draw(x, 7);
    }
}

static void choose_samples(coster *x, cr_scalar *symbol, int attempt)
{
    const cr_gnumbers *n = &x->g->numbers;

    for (size_t k = 0; k < n->list.len; k++) {
        size_t of = stands_for(x, k);
        symbol[k] = n->list.at[k].value;
        if (attempt && is_variable(&n->list.at[k]))
            symbol[k] =
                of < k ? symbol[of] : cr_scalar_int(other_value(x, symbol[k].i, attempt));
    }
}

static const cr_sym *symbol_name(coster *x, size_t k)
{
    return cr_sym_name(x->t, cr_session_printf(x->s, "$%zu", stands_for(x, k)), 0, CR_SYM_HIGH);
}

static const cr_sym *number_sym(coster *x, const cr_sym *const *e, size_t k)
{
    const cr_gnumber *n = &x->g->numbers.list.at[k];
    const cr_sym *a = n->fn > CR_GNUM_CONST ? e[n->a] : NULL,
                 *b = n->fn > CR_GNUM_CONST ? e[n->b] : NULL;

    if (is_variable(n))
        return symbol_name(x, k);
    if (n->fn == CR_GNUM_CONST && n->value.category == CR_CAT_INT)
        return cr_sym_int(x->t, n->value.i);
    if (!a || !b)
        return NULL;
    switch ((cr_gnum_fn)n->fn) {
    case CR_GNUM_ADD: return cr_sym_add(x->t, a, b);
    case CR_GNUM_SUB: return cr_sym_sub(x->t, a, b);
    case CR_GNUM_MUL: return cr_sym_mul(x->t, a, b);
    case CR_GNUM_NEG: return cr_sym_sub(x->t, cr_sym_int(x->t, 0), a);
    case CR_GNUM_FLOORDIV:
        return b->kind == CR_SYM_INT && b->integer > 0 ? cr_sym_floordiv(x->t, a, b) : NULL;
    case CR_GNUM_MOD:
        return b->kind == CR_SYM_INT && b->integer > 0 ? cr_sym_mod(x->t, a, b) : NULL;
    default: return NULL;
    }
}

static void know_numbers(coster *x)
{
    size_t n = x->g->numbers.list.len;
    const cr_sym **e = CR_NEW_N(x->s, const cr_sym *, n + 1);

    for (size_t k = 0; k < n; k++) {
        sized one = {.e = e[k] = number_sym(x, e, k)};
        for (int i = 0; one.e && i < x->samples; i++)
            one.at[i] = x->whole.in[i]->numbers.list.at[k].value.i;
        if (one.e && one.e->kind != CR_SYM_INT)
            CR_PUSH(x->s, &x->known, one);
    }
}

/* --- samples --- */

static void hold(coster *x, cr_graph *g) { CR_PUSH(x->s, &x->made, g); }

static bool costs_its_parts(const cr_gnode *n)
{
    const cr_op *op = n->op->inplace_of ? n->op->inplace_of : n->op;

    return !op->flops && (op->does == CR_DOES_IS || op->does == CR_DOES_WHOLE);
}

static void tag(coster *x, cr_gblock *b, unsigned *n)
{
    for (size_t i = 0; i < b->len; i++) {
        b->at[i]->source = cr_session_printf(x->s, "%u", (*n)++);
        for (int k = 0; k < cr_gnode_blocks(b->at[i]); k++)
            tag(x, b->at[i]->block[k], n);
    }
}

static cr_graph *parts_of(coster *x, const cr_graph *g)
{
    cr_graph *copy = cr_graph_copy(x->s, g), *split;

    hold(x, copy);
    x->nodes = 0;
    tag(x, copy->body, &x->nodes);
    split = cr_graph_split(copy, costs_its_parts);
    if (split != copy)
        hold(x, split);
    return split;
}

static bool is_taken(const coster *x, const cr_scalar *symbol)
{
    for (int i = 0; i < x->samples; i++) {
        bool same = true;
        for (size_t k = 0; k < x->g->numbers.list.len; k++)
            same = same && (!is_variable(&x->g->numbers.list.at[k]) ||
                            x->whole.in[i]->numbers.list.at[k].value.i == symbol[k].i);
        if (same)
            return true;
    }
    return false;
}

static void try_sample(coster *x, int attempt)
{
    cr_scalar *symbol = CR_NEW_N(x->s, cr_scalar, x->g->numbers.list.len + 1);
    cr_graph *g = NULL, *parts;

    if (x->given)
        memcpy(symbol, x->given[attempt], x->g->numbers.list.len * sizeof *symbol);
    else
        choose_samples(x, symbol, attempt);
    if (is_taken(x, symbol) || cr_graph_instantiate_at(&g, x->s, x->g, symbol, false) || !g)
        return;
    hold(x, g);
    parts = parts_of(x, g);
    if (x->samples &&
        (!cr_graph_alike(x->whole.in[0], g) || !cr_graph_alike(x->parts.in[0], parts)))
        return;
    x->whole.in[x->samples] = g;
    x->parts.in[x->samples++] = parts;
}

static void take_samples(coster *x)
{
    bool varies = false;

    for (size_t k = 0; k < x->g->numbers.list.len; k++)
        varies |= is_variable(&x->g->numbers.list.at[k]);
    if (!varies) {
        x->whole.in[0] = (cr_graph *)(uintptr_t)x->g;
        x->parts.in[0] = parts_of(x, x->g);
        x->samples = 1;
        return;
    }
    for (int i = 0; i < x->given_count && x->samples < SAMPLES; i++)
        try_sample(x, i);
    for (int round = 0; !x->given && round < 2 && x->samples < LEAST; round++) {
        x->merged = round;
        x->samples = 0;
        for (int attempt = 0; attempt < ATTEMPTS && x->samples < SAMPLES; attempt++)
            try_sample(x, attempt);
    }
    if (x->samples < (x->given ? 2 : LEAST))
        cr_bail(x->s, CR_VALUE, "the graph takes no other sizes than those seen");
}

/* --- the expression of a size --- */

/* Expressions that may occur in sizes of a node. */
typedef struct {
    int len;
    const sized *at[AROUND];
} around;

static const sized *sized_find(const coster *x, const int64_t *v)
{
    for (size_t i = 0; i < x->known.len; i++)
        if (!memcmp(x->known.at[i].at, v, (size_t)x->samples * sizeof *v))
            return &x->known.at[i];
    return NULL;
}

static const cr_sym *sized_linear(coster *x, const sized *e, const int64_t *v)
{
    int64_t a = 0, b;
    int k = 1;

    while (k < x->samples && e->at[k] == e->at[0])
        k++;
    if (k == x->samples || (v[k] - v[0]) % (e->at[k] - e->at[0]))
        return NULL;
    a = (v[k] - v[0]) / (e->at[k] - e->at[0]);
    b = v[0] - a * e->at[0];
    for (k = 0; k < x->samples; k++)
        if (v[k] != a * e->at[k] + b)
            return NULL;
    return cr_sym_add(x->t, cr_sym_mul(x->t, cr_sym_int(x->t, a), e->e), cr_sym_int(x->t, b));
}

static bool divides(const coster *x, const sized *e, const int64_t *v, int64_t b, int64_t c)
{
    for (int k = 0; k < x->samples; k++)
        if (cr_floor_div(e->at[k] + b, c) != v[k])
            return false;
    return true;
}

/* (e + b) // c with the smallest |b|. */
static const cr_sym *quotient(coster *x, const sized *e, const int64_t *v)
{
    for (int64_t c = 2; c <= MOST_DIVISOR; c++) {
        int64_t first = v[0] * c - e->at[0];
        for (int64_t b = 0; b <= llabs(first) + c; b = b > 0 ? -b : 1 - b)
            if (b >= first && b < first + c && divides(x, e, v, b, c))
                return cr_sym_floordiv(x->t, cr_sym_add(x->t, e->e, cr_sym_int(x->t, b)),
                                       cr_sym_int(x->t, c));
    }
    return NULL;
}

static const cr_sym *pair_of(coster *x, const sized *e, const sized *f, const int64_t *v)
{
    int64_t ef = e->at[0] * f->at[0], c = ef ? v[0] / ef : 0, d = v[0] - e->at[0] - f->at[0];
    bool product = c > 0, sum = true;

    for (int k = 0; k < x->samples; k++) {
        product = product && v[k] == c * e->at[k] * f->at[k];
        sum = sum && v[k] == e->at[k] + f->at[k] + d;
    }
    if (product)
        return cr_sym_mul(x->t, cr_sym_int(x->t, c), cr_sym_mul(x->t, e->e, f->e));
    return sum ? cr_sym_add(x->t, cr_sym_add(x->t, e->e, f->e), cr_sym_int(x->t, d)) : NULL;
}

static const cr_sym *explain(coster *x, const around *near, const int64_t *v)
{
    const cr_sym *e = NULL;
    const sized *known;
    bool same = true;

    for (int k = 1; k < x->samples; k++)
        same = same && v[k] == v[0];
    if (same)
        return cr_sym_int(x->t, v[0]);
    if ((known = sized_find(x, v)))
        return known->e;
    for (int i = 0; i < near->len && !e; i++)
        e = sized_linear(x, near->at[i], v);
    for (int i = 0; i < near->len && !e; i++)
        for (int j = i; j < near->len && !e; j++)
            e = pair_of(x, near->at[i], near->at[j], v);
    for (int i = 0; i < near->len && !e; i++)
        e = quotient(x, near->at[i], v);
    return e;
}

static void sized_add(coster *x, const cr_sym *e, const int64_t *v)
{
    sized one = {.e = e};

    if (e->kind == CR_SYM_INT || sized_find(x, v))
        return;
    memcpy(one.at, v, (size_t)x->samples * sizeof *v);
    CR_PUSH(x->s, &x->known, one);
}

/* --- sizes of values --- */

static void sizes_at(const coster *x, const family *f, const cr_gvalue *v, int d, int64_t *out)
{
    for (int k = 0; k < x->samples; k++)
        out[k] = f->same[k][v->id]->type.size[d];
}

static void see_value(coster *x, const family *f, around *near, const cr_gvalue *v)
{
    int64_t at[SAMPLES];

    for (int d = 0; d < v->type.ndim; d++) {
        sizes_at(x, f, v, d, at);
        const sized *known = sized_find(x, at);
        bool there = !known || near->len == AROUND;
        for (int i = 0; i < near->len && !there; i++)
            there = near->at[i] == known;
        if (!there)
            near->at[near->len++] = known;
    }
}

typedef struct {
    coster *x;
    const family *f;
    around *near;
} looker;

static void see_read(void *context, cr_gvalue *v)
{
    looker *l = context;

    see_value(l->x, l->f, l->near, v);
}

static void name_unknown(coster *x, const cr_sym **e, const int64_t *v)
{
    *e = cr_sym_name(x->t, cr_session_printf(x->s, "u%u", x->unknown++), 0, CR_SYM_HIGH);
    sized_add(x, *e, v);
}

/* The quotient of the first tensor argument's element count by the value's other sizes. */
static const cr_sym *left_over(coster *x, const family *f, const cr_gnode *n,
                               const cr_gvalue *v, int missing)
{
    const cr_gvalue *from = n->arg_count && n->arg[0].tag == CR_TENSOR ? n->arg[0].value : NULL;
    const cr_sym *all = cr_sym_int(x->t, 1), *rest = all;

    if (!from)
        return NULL;
    for (int k = 0; k < x->samples; k++) {
        const cr_gtype *a = &f->same[k][from->id]->type, *b = &f->same[k][v->id]->type;
        int64_t elements = 1, others = 1;
        for (int d = 0; d < a->ndim; d++)
            elements *= a->size[d];
        for (int d = 0; d < b->ndim; d++)
            others *= d == missing ? 1 : b->size[d];
        if (!others || elements % others || elements / others != b->size[missing])
            return NULL;
    }
    for (int d = 0; d < from->type.ndim; d++)
        all = cr_sym_mul(x->t, all, f->size[from->id][d]);
    for (int d = 0; d < v->type.ndim; d++)
        rest = d == missing ? rest : cr_sym_mul(x->t, rest, f->size[v->id][d]);
    return cr_sym_floordiv(x->t, all, rest);
}

static void size_value(coster *x, family *f, const cr_gnode *n, const cr_gvalue *v,
                       const around *near)
{
    const cr_sym **e = f->size[v->id] = CR_NEW_N(x->s, const cr_sym *, v->type.ndim + 1);
    int64_t at[SAMPLES];
    int missing = -1, count = 0;

    for (int d = 0; d < v->type.ndim; d++) {
        sizes_at(x, f, v, d, at);
        e[d] = explain(x, near, at);
        if (e[d])
            sized_add(x, e[d], at);
        else
            missing = d, count++;
    }
    if (count == 1 && n) {
        e[missing] = left_over(x, f, n, v, missing);
        sizes_at(x, f, v, missing, at);
        if (e[missing])
            sized_add(x, e[missing], at);
    }
    for (int d = 0; d < v->type.ndim; d++)
        if (!e[d]) {
            sizes_at(x, f, v, d, at);
            name_unknown(x, &e[d], at);
        }
}

static void family_match(coster *x, family *f)
{
    const cr_graph *g = f->in[0];

    f->size = CR_NEW_N(x->s, const cr_sym **, g->values + 1);
    for (int k = 0; k < x->samples; k++) {
        f->same[k] = CR_NEW_N(x->s, const cr_gvalue *, g->values + 1);
        for (int i = 0; i < g->input_count; i++)
            f->same[k][g->input[i]->id] = f->in[k]->input[i];
        for (size_t i = 0; i < g->body->len; i++)
            for (int r = 0; r < g->body->at[i]->result_count; r++)
                f->same[k][g->body->at[i]->result[r]->id] = f->in[k]->body->at[i]->result[r];
    }
}

static void size_family(coster *x, family *f)
{
    const cr_graph *g = f->in[0];
    size_t given = x->known.len;

    family_match(x, f);
    for (int i = 0; i < g->input_count; i++)
        size_value(x, f, NULL, g->input[i], &(around){.len = 0});
    for (size_t i = 0; i < g->body->len; i++) {
        const cr_gnode *n = g->body->at[i];
        around near = {.len = 0};
        looker l = {x, f, &near};
        cr_gnode_each_read(n, see_read, &l);
        for (size_t k = 0; k < given && near.len < AROUND; k++)
            near.at[near.len++] = &x->known.at[k];
        for (int r = 0; r < n->result_count; r++)
            size_value(x, f, n, n->result[r], &near);
    }
}

/* --- counting --- */

static const cr_sym *const *sizes_of(coster *x, const family *f, const cr_gvalue *v)
{
    const cr_sym **e;

    if (!v->type.known)
        cr_bail(x->s, CR_VALUE, "%%%s has no type", v->name);
    if (f->size && f->size[v->id])
        return f->size[v->id];
    e = CR_NEW_N(x->s, const cr_sym *, v->type.ndim + 1);
    for (int d = 0; d < v->type.ndim; d++)
        e[d] = cr_sym_int(x->t, v->type.size[d]);
    return e;
}

static cr_measure measure_arg(coster *x, const family *f, const cr_garg *a)
{
    const cr_sym **e;

    if (a->tag == CR_TENSOR)
        return (cr_measure){CR_TENSOR, a->value->type.ndim, sizes_of(x, f, a->value)};
    bool whole = a->tag == CR_NUMBER && a->number.category == CR_CAT_INT;
    if (!whole && a->tag != CR_INT && a->tag != CR_TRUTH && a->tag != CR_INTS)
        return (cr_measure){.tag = a->tag};
    uint32_t n = a->tag == CR_INTS ? a->len : 1;
    e = CR_NEW_N(x->s, const cr_sym *, n + 1);
    for (uint32_t i = 0; i < n; i++)
        e[i] = cr_sym_int(x->t, a->tag == CR_INTS ? a->ints[i] : whole ? a->number.i : a->i);
    return (cr_measure){whole ? CR_INT : a->tag, (int)n, e};
}

static void count_part(coster *x, const cr_gnode *n)
{
    cr_measure arg[CR_MAX_ARGS], result[CR_MAX_RESULTS] = {{.tag = CR_NONE}};
    unsigned of = (unsigned)strtoul(n->source, NULL, 10);
    const cr_sym *e;

    if (n->kind != CR_GNODE_CALL)
        return;
    x->moves[of] = x->moves[of] || n->op->does != CR_DOES_MAP;
    for (int i = 0; i < n->arg_count; i++)
        arg[i] = measure_arg(x, &x->parts, &n->arg[i]);
    for (int r = 0; r < n->result_count && r < CR_MAX_RESULTS; r++)
        result[r] = (cr_measure){CR_TENSOR, n->result[r]->type.ndim,
                                 sizes_of(x, &x->parts, n->result[r])};
    e = n->result_count ? cr_op_flops(x->t, n->op, arg, result) : NULL;
    if (e)
        x->flops[of] = cr_sym_add(x->t, x->flops[of], e);
}

static void count_parts(coster *x, const cr_gblock *b)
{
    for (size_t i = 0; i < b->len; i++) {
        count_part(x, b->at[i]);
        for (int k = 0; k < cr_gnode_blocks(b->at[i]); k++)
            count_parts(x, b->at[i]->block[k]);
    }
}

/* --- nodes of the original graph --- */

static const cr_sym *cost_bytes(coster *x, const cr_gvalue *v)
{
    const cr_sym *const *size = sizes_of(x, &x->whole, v);
    const cr_sym *e = cr_sym_int(x->t, (int64_t)cr_dtype_size((cr_dtype)v->type.dtype));

    for (int d = 0; d < v->type.ndim; d++)
        e = cr_sym_mul(x->t, e, size[d]);
    return e;
}

typedef struct {
    coster *x;
    const cr_sym *bytes;
    const bool *inside; /* values computed inside the group; NULL: none */
    CR_VEC(const cr_gvalue *) seen;
} reader;

static void cost_reads_value(void *context, cr_gvalue *v)
{
    reader *r = context;

    for (size_t i = 0; i < r->seen.len; i++)
        if (r->seen.at[i] == v)
            return;
    if (r->inside && r->inside[v->id])
        return;
    CR_PUSH(r->x->s, &r->seen, v);
    r->bytes = cr_sym_add(r->x->t, r->bytes, cost_bytes(r->x, v));
}

static void mark_made(const cr_gblock *b, bool *inside)
{
    for (size_t i = 0; i < b->len; i++) {
        for (int k = 0; k < b->at[i]->result_count; k++)
            inside[b->at[i]->result[k]->id] = true;
        for (int k = 0; k < cr_gnode_blocks(b->at[i]); k++)
            mark_made(b->at[i]->block[k], inside);
    }
}

static void cost_reads_node(reader *r, const cr_gnode *n)
{
    cr_gnode_each_read(n, cost_reads_value, r);
    for (int k = 0; k < cr_gnode_blocks(n); k++)
        for (size_t i = 0; i < n->block[k]->len; i++)
            cost_reads_node(r, n->block[k]->at[i]);
}

static cr_cost cost_of_block(coster *x, const cr_gblock *b, unsigned *at, cr_cost *each);

static cr_cost cost_zero(coster *x)
{
    const cr_sym *none = cr_sym_int(x->t, 0);

    return (cr_cost){none, none, none};
}

/* The cost of a call or group: its inputs and outputs; of an if: the larger branch. */
static cr_cost node_cost(coster *x, const cr_gnode *n, unsigned *at)
{
    unsigned me = (*at)++;
    cr_cost c = cost_zero(x), side[2] = {c, c};

    c.flops = x->flops[me];
    for (int k = 0; k < cr_gnode_blocks(n); k++)
        side[k] = cost_of_block(x, n->block[k], at, NULL);
    if (n->kind == CR_GNODE_IF)
        return (cr_cost){cr_sym_max(x->t, side[0].flops, side[1].flops),
                         cr_sym_max(x->t, side[0].read, side[1].read),
                         cr_sym_max(x->t, side[0].written, side[1].written)};
    c.flops = cr_sym_add(x->t, c.flops, side[0].flops);
    if (n->kind == CR_GNODE_CONSTANT || (n->kind == CR_GNODE_CALL && !x->moves[me]))
        return c;
    reader r = {.x = x, .bytes = c.read};
    if (n->kind == CR_GNODE_GROUP) {
        bool *inside = CR_NEW_N(x->s, bool, x->whole.in[0]->values + 1);
        mark_made(n->block[0], inside);
        r.inside = inside;
    }
    cost_reads_node(&r, n);
    c.read = r.bytes;
    for (int k = 0; k < n->result_count; k++)
        c.written = cr_sym_add(x->t, c.written, cost_bytes(x, n->result[k]));
    return c;
}

static cr_cost cost_of_block(coster *x, const cr_gblock *b, unsigned *at, cr_cost *each)
{
    cr_cost sum = cost_zero(x);

    for (size_t i = 0; i < b->len; i++) {
        cr_cost c = node_cost(x, b->at[i], at);
        sum.flops = cr_sym_add(x->t, sum.flops, c.flops);
        sum.read = cr_sym_add(x->t, sum.read, c.read);
        sum.written = cr_sym_add(x->t, sum.written, c.written);
        if (each)
            each[i] = c;
    }
    return sum;
}

static void cost_run(cr_session *s, void *context)
{
    coster *x = context;
    unsigned at = 0;

    x->t = x->out.syms = cr_syms_new(s);
    take_samples(x);
    if (x->samples > 1) {
        know_numbers(x);
        size_family(x, &x->whole);
        size_family(x, &x->parts);
    }
    x->flops = CR_NEW_N(s, const cr_sym *, x->nodes + 1);
    x->moves = CR_NEW_N(s, bool, x->nodes + 1);
    for (unsigned i = 0; i <= x->nodes; i++)
        x->flops[i] = cr_sym_int(x->t, 0);
    count_parts(x, x->parts.in[0]->body);
    x->out.node = CR_NEW_N(s, cr_cost, x->g->body->len + 1);
    x->out.total = cost_of_block(x, x->whole.in[0]->body, &at, x->out.node);
}

static cr_graph_costs graph_cost(const cr_graph *g)
{
    coster x = {.g = g, .s = g->session, .random = 1};
    cr_status st = cr_session_run(g->session, cost_run, &x);

    for (size_t i = 0; i < x.made.len; i++)
        cr_graph_drop(x.made.at[i]);
    cr_session_check(g->session, st);
    return x.out;
}

/* --- sizes --- */

static void sizes_run(cr_session *s, void *context)
{
    coster *x = context;

    x->t = cr_syms_new(s);
    take_samples(x);
    if (x->samples > 1) {
        know_numbers(x);
        size_family(x, &x->whole);
    }
}

static void print_sizes(cr_text *out, const coster *x, const cr_gvalue *v)
{
    const cr_sym *const *e = x->samples > 1 ? x->whole.size[v->id] : NULL;

    cr_text_printf(out, "%s:", v->name);
    for (int d = 0; d < v->type.ndim; d++) {
        cr_text_put(out, d ? ", " : " ");
        if (e)
            cr_sym_print(out, e[d]);
        else
            cr_text_printf(out, "%lld", (long long)v->type.size[d]);
    }
    cr_text_char(out, '\n');
}

void cr_graph_print_sizes(cr_text *out, const cr_graph *g, const cr_scalar *const *given,
                          int count)
{
    coster x = {
        .g = g, .s = g->session, .random = 1, .given = given, .given_count = given ? count : 0};
    cr_status st = cr_session_run(g->session, sizes_run, &x);
    const cr_graph *in = x.whole.in[0];

    for (int i = 0; !st && i < in->input_count; i++)
        print_sizes(out, &x, in->input[i]);
    for (size_t i = 0; !st && i < in->body->len; i++)
        for (int k = 0; k < in->body->at[i]->result_count; k++)
            print_sizes(out, &x, in->body->at[i]->result[k]);
    for (size_t i = 0; i < x.made.len; i++)
        cr_graph_drop(x.made.at[i]);
    cr_session_check(g->session, st);
}

/* --- numbers and text --- */

static void print_cost(cr_text *out, const char *name, const cr_cost *c)
{
    cr_text_printf(out, "%s: ", name);
    cr_sym_print(out, c->flops);
    cr_text_put(out, " flops, reads ");
    cr_sym_print(out, c->read);
    cr_text_put(out, " bytes, writes ");
    cr_sym_print(out, c->written);
    cr_text_char(out, '\n');
}

void cr_graph_print_cost(cr_text *out, const cr_graph *g)
{
    cr_graph_costs c = graph_cost(g);

    for (size_t i = 0; i < g->body->len; i++) {
        const cr_gnode *n = g->body->at[i];
        cr_text name = {0};
        if (n->kind == CR_GNODE_CONSTANT)
            continue;
        for (int k = 0; k < n->result_count; k++)
            cr_text_printf(&name, "%s%%%s", k ? ", " : "", n->result[k]->name);
        print_cost(out, n->result_count ? cr_text_str(&name) : n->op->name, &c.node[i]);
        cr_text_drop(&name);
    }
    print_cost(out, "sum", &c.total);
}
