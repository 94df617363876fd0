/* Matches the values of two joint graphs of one call.
 *
 * Nodes of a call have the same names in every joint graph of it.  Names of the values that
 * the backward pass computes are counted, so they depend on the outputs that it reaches. Values
 * are equal when one entry computes them from equal arguments.  Results of nodes with effects,
 * as draws, are equal when as many such nodes are before them, too. */
#include "aot/match.h"
#include "base/map.h"
#include <string.h>

typedef struct {
    cr_session *s;
    const cr_graph *graph[2]; /* that of the values, and the one in which they are looked for */
    int primals;
    uintptr_t *number[2]; /* by value id: equal numbers for equal values; 0: none */
    uintptr_t last;
    cr_map seen; /* the number of the first result, by the key of a node */
    cr_text key;
    cr_gvalue *const *value;
    int count, *found;
} matcher;

static uintptr_t number_of(void *number, const cr_gvalue *v)
{
    return ((const uintptr_t *)number)[v->id];
}

typedef struct {
    const uintptr_t *number;
    bool all;
} reads;

static void check_number(void *context, cr_gvalue *v)
{
    reads *r = context;

    r->all = r->all && r->number[v->id];
}

/* Constants are equal if they have the same elements. */
static bool put_constant(matcher *m, const cr_tensor *t)
{
    char *first;

    if (!cr_is_host(t->device) || !t->contiguous || cr_reach(&first, t) || !first)
        return false;
    cr_text_put_n(&m->key, (const char *)&t->dtype, sizeof t->dtype);
    cr_text_put_n(&m->key, (const char *)t->size, t->ndim * sizeof *t->size);
    cr_text_put_n(&m->key, first, (size_t)t->numel * cr_dtype_size((cr_dtype)t->dtype));
    return true;
}

/* False for a node that depends on a cotangent, or whose results are not compared. */
static bool put_node(matcher *m, uintptr_t *number, const cr_gnode *n, size_t effects)
{
    reads r = {number, true};

    cr_gnode_each_read(n, check_number, &r);
    if (!r.all || !n->result_count)
        return false;
    m->key.len = 0;
    cr_text_put_n(&m->key, (const char *)&n->op, sizeof n->op);
    cr_text_put_n(&m->key, (const char *)&effects, sizeof effects);
    if (n->kind == CR_GNODE_CONSTANT)
        return put_constant(m, n->constant);
    for (int i = 0; i < n->arg_count; i++)
        cr_garg_key(&m->key, &n->arg[i], number_of, number);
    return n->kind == CR_GNODE_CALL;
}

static bool same_numbers(int n, const int64_t *a, const int64_t *b)
{
    return a == b || (a && b && !memcmp(a, b, (size_t)n * sizeof *a));
}

/* True for a view that is its argument again: a view has elements of its argument only, so with
 * equal sizes and strides it has all of them, in their places. */
static bool is_all(const cr_gnode *n)
{
    if (n->kind != CR_GNODE_CALL || n->op->does != CR_DOES_MAP || n->result_count != 1 ||
        n->op->words & CR_WORD_ABSOLUTE || n->arg[0].tag != CR_TENSOR)
        return false;
    const cr_gtype *a = &n->arg[0].value->type, *b = &n->result[0]->type;
    return a->known && b->known && a->dtype == b->dtype && a->ndim == b->ndim &&
           !cr_dtype_is_complex((cr_dtype)a->dtype) &&
           same_numbers(a->ndim, a->size, b->size) &&
           same_numbers(a->ndim, a->stride, b->stride);
}

static uintptr_t find_number(matcher *m, const cr_gnode *n)
{
    uintptr_t first;

    cr_session_check(m->s, cr_text_status(&m->key));
    first = (uintptr_t)cr_map_get(&m->seen, m->key.at, m->key.len);
    if (first)
        return first;
    first = m->last + 1;
    m->last += (uintptr_t)n->result_count;
    cr_session_check(m->s, cr_map_set(&m->seen, m->key.at, m->key.len, (void *)first));
    return first;
}

static void set_numbers(matcher *m, int k, const cr_gnode *n)
{
    uintptr_t first = find_number(m, n);

    for (int r = 0; r < n->result_count; r++)
        m->number[k][n->result[r]->id] = first + (uintptr_t)r;
}

static void number_values(matcher *m, int k)
{
    const cr_graph *g = m->graph[k];
    size_t effects = 0;

    for (int i = 0; i < m->primals; i++)
        m->number[k][g->input[i]->id] = (uintptr_t)i + 1;
    for (size_t i = 0; i < g->body->len; i++) {
        const cr_gnode *n = g->body->at[i];
        bool effect = cr_gnode_has_effect(n);
        effects += effect;
        if (is_all(n))
            m->number[k][n->result[0]->id] = m->number[k][n->arg[0].value->id];
        else if (put_node(m, m->number[k], n, effect ? effects : 0))
            set_numbers(m, k, n);
    }
}

/* Several values may be equal. */
static void find_values(matcher *m)
{
    const cr_graph *g = m->graph[1];
    int *by = CR_NEW_N(m->s, int, m->last + 1);

    for (int i = 0; i < m->count; i++)
        by[m->number[0][m->value[i]->id]] = i + 1;
    by[0] = 0;
    for (size_t id = 0; id < g->values; id++)
        m->found[id] = by[m->number[1][id]] - 1;
}

static void run_match(cr_session *s, void *context)
{
    matcher *m = context;

    m->s = s;
    m->last = (uintptr_t)m->primals;
    for (int k = 0; k < 2; k++) {
        m->number[k] = CR_NEW_N(s, uintptr_t, m->graph[k]->values);
        number_values(m, k);
    }
    find_values(m);
}

void cr_aot_match(int *found, const cr_graph *joint, const cr_graph *other, int primals,
                  cr_gvalue *const *value, int count)
{
    matcher m = {.graph = {other, joint},
                 .primals = primals,
                 .value = value,
                 .count = count,
                 .found = found};
    cr_status st = cr_session_run(joint->session, run_match, &m);

    cr_map_drop(&m.seen);
    cr_text_drop(&m.key);
    cr_session_check(joint->session, st);
}
