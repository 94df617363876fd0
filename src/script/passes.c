/* Passes that clean the graph of a function. */
#include "script/passes.h"
#include "base/map.h"
#include "script/inline.h"
#include "script/operators.h"
#include <string.h>

/* --- loops --- */

static bool loop_always(const cr_svalue *v)
{
    const cr_sconstant *c = cr_svalue_constant(v);

    return c && c->type->kind == CR_STYPE_BOOL && c->i;
}

cr_sloop_kind cr_sloop_kind_of(const cr_snode *loop)
{
    const cr_sconstant *trips = cr_svalue_constant(loop->input[0]);
    bool counted = !trips || trips->i != INT64_MAX || loop->block[0]->input[0]->uses;

    if (loop_always(loop->input[1]) && loop_always(loop->block[0]->output[0]))
        return counted ? CR_SLOOP_FOR : CR_SLOOP_WHILE;
    return counted ? CR_SLOOP_BOTH : CR_SLOOP_WHILE;
}

static cr_svalue *loop_int(cr_snode *at, int64_t i)
{
    cr_sgraph *g = at->owner->graph;
    cr_sconstant *value = CR_NEW(g->session, cr_sconstant);
    cr_snode *n = cr_snode_before(at, CR_SPRIM_CONSTANT, (cr_srange){0});

    *value = (cr_sconstant){.type = CR_STYPE_OF(INT), .i = i};
    n->value = value;
    return cr_snode_output(n, NULL, value->type);
}

/* Calls the overload of `name` before `at`, or at the end of `b`. */
static cr_svalue *loop_call(cr_sblock *b, cr_snode *at, const char *name, const char *overload,
                            cr_svalue *x, cr_svalue *y)
{
    const cr_sschemas *all;
    cr_snode *n = at ? cr_snode_before(at, CR_SPRIM_OPERATOR, (cr_srange){0})
                     : cr_snode_new(b, CR_SPRIM_OPERATOR, (cr_srange){0});

    cr_session_check(b->graph->session, cr_soperators(&all, name));
    for (size_t i = 0; i < all->len; i++)
        if (!strcmp(all->at[i]->overload, overload))
            n->schema = all->at[i];
    CR_ASSERT(n->schema);
    cr_snode_input(n, x);
    cr_snode_input(n, y);
    return cr_snode_output(n, NULL, n->schema->result[0].type);
}

static void loop_to_while(cr_snode *n)
{
    cr_sblock *body = n->block[0];
    cr_svalue *most = n->input[0], *zero = loop_int(n, 0), *one = loop_int(n, 1), *go, *i,
              *next;

    go = loop_call(n->owner, n, "aten::gt", "int", most, zero);
    cr_snode_set_input(n, 0, loop_int(n, INT64_MAX));
    if (!loop_always(n->input[1]))
        go = loop_call(n->owner, n, "aten::__and__", "bool", go, n->input[1]);
    cr_snode_set_input(n, 1, go);
    cr_snode_output(n, NULL, CR_STYPE_OF(INT));
    cr_snode_input(n, zero);
    i = cr_sblock_input(body, NULL, CR_STYPE_OF(INT));
    body->input[0]->name = NULL;
    cr_svalue_replace(body->graph, body->input[0], i);
    next = loop_call(body, NULL, "aten::add", "int", i, one);
    cr_sblock_output(body, next);
    go = loop_call(body, NULL, "aten::lt", "int", next, most);
    cr_sblock_set_output(body, 0,
                         loop_call(body, NULL, "aten::__and__", "bool", go, body->output[0]));
}

static void loops_in(cr_sblock *b)
{
    for (cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->block_count; i++)
            loops_in(n->block[i]);
        if (n->prim == CR_SPRIM_LOOP && cr_sloop_kind_of(n) == CR_SLOOP_BOTH)
            loop_to_while(n);
    }
}

static void pass_loops(cr_sgraph *g) { loops_in(g->body); }

/* --- tuples --- */

static void tuple_slice(cr_snode *n, const cr_snode *made)
{
    cr_snode *part = cr_snode_before(n, CR_SPRIM_TUPLE_CONSTRUCT, n->from.range);

    for (int64_t i = n->slice.begin; i < n->slice.end && i < made->input_count; i++)
        cr_snode_input(part, made->input[i]);
    cr_svalue_replace(n->owner->graph, n->output[0],
                      cr_snode_output(part, n->output[0]->name, n->output[0]->type));
}

static void tuple_lower(cr_snode *n)
{
    cr_sgraph *g = n->owner->graph;
    const cr_snode *made = n->input_count ? n->input[0]->by : NULL;
    const cr_sconstant *at;
    int64_t place;

    if (!made || made->prim != CR_SPRIM_TUPLE_CONSTRUCT)
        return;
    if (n->prim == CR_SPRIM_TUPLE_UNPACK && n->output_count == made->input_count)
        for (int i = 0; i < n->output_count; i++)
            cr_svalue_replace(g, n->output[i], made->input[i]);
    if (n->prim == CR_SPRIM_TUPLE_INDEX && (at = cr_svalue_constant(n->input[1]))) {
        place = at->i < 0 ? at->i + made->input_count : at->i;
        if (place >= 0 && place < made->input_count)
            cr_svalue_replace(g, n->output[0], made->input[place]);
    }
    if (n->prim == CR_SPRIM_TUPLE_SLICE)
        tuple_slice(n, made);
}

static void tuples_in(cr_sblock *b)
{
    for (cr_snode *n = b->first; n; n = n->next) {
        tuple_lower(n);
        for (int i = 0; i < n->block_count; i++)
            tuples_in(n->block[i]);
    }
}

static void pass_tuples(cr_sgraph *g)
{
    tuples_in(g->body);
    cr_spass_dead(g);
}

/* --- nodes without use --- */

/* Writes to a list or dict that the graph makes and that only such writes read. */
typedef struct {
    int *writes; /* by value: nodes that write to it and whose results are not read */
} dead_walk;

static bool dead_has_effect(const dead_walk *w, const cr_snode *n);

static bool dead_block_has_effect(const dead_walk *w, const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next)
        if (dead_has_effect(w, n))
            return true;
    return false;
}

static bool dead_is_made(const cr_svalue *v)
{
    return v->by &&
           (v->by->prim == CR_SPRIM_LIST_CONSTRUCT || v->by->prim == CR_SPRIM_DICT_CONSTRUCT);
}

static bool dead_operator_has_effect(const dead_walk *w, const cr_snode *n)
{
    const cr_sschema *s = n->schema;
    bool writes = false;

    if (s->result_count && s->result->type->kind == CR_STYPE_NEVER) /* a missing operator */
        return true;
    if (cr_sschema_is_range(s))
        return true;
    for (int i = 0; i < s->param_count && i < n->input_count; i++) {
        const cr_svalue *v = n->input[i];
        if (s->param[i].written && (!dead_is_made(v) || w->writes[v->id] != v->uses))
            return true;
        writes |= s->param[i].written;
    }
    return !s->result_count && !writes;
}

static bool dead_has_effect(const dead_walk *w, const cr_snode *n)
{
    for (int i = 0; i < n->block_count; i++)
        if (dead_block_has_effect(w, n->block[i]))
            return true;
    switch ((cr_sprim)n->prim) {
    case CR_SPRIM_OPERATOR: return dead_operator_has_effect(w, n);
    case CR_SPRIM_SET_ATTR:
    case CR_SPRIM_CALL_METHOD:
    case CR_SPRIM_CALL_FUNCTION:
    case CR_SPRIM_INTERFACE_METHOD:
    case CR_SPRIM_ENTER:
    case CR_SPRIM_EXIT:
    case CR_SPRIM_PYTHON:
    case CR_SPRIM_RETURN:
    case CR_SPRIM_CONTINUATION:
    case CR_SPRIM_FORK: return true;
    default: return false;
    }
}

static bool dead_is_read(const cr_snode *n)
{
    for (int i = 0; i < n->output_count; i++)
        if (n->output[i]->uses)
            return true;
    return false;
}

static bool dead_results_of_if(cr_snode *n)
{
    bool changed = false;

    for (int i = n->output_count - 1; i >= 0; i--) {
        if (n->output[i]->uses)
            continue;
        cr_snode_erase_output(n, i);
        for (int k = 0; k < 2; k++)
            cr_sblock_erase_output(n->block[k], i);
        changed = true;
    }
    return changed;
}

static bool dead_results_of_loop(cr_snode *n)
{
    cr_sblock *body = n->block[0];
    bool changed = false;

    for (int i = n->output_count - 1; i >= 0; i--) {
        if (n->output[i]->uses || body->input[i + 1]->uses)
            continue;
        cr_snode_erase_output(n, i);
        cr_snode_erase_input(n, i + 2);
        cr_sblock_erase_output(body, i + 1);
        cr_sblock_erase_input(body, i + 1);
        changed = true;
    }
    return changed;
}

static bool dead_in(const dead_walk *w, cr_sblock *b)
{
    bool changed = false;

    for (cr_snode *n = b->last, *before; n; n = before) {
        before = n->prev;
        if (!dead_is_read(n) && !dead_has_effect(w, n)) {
            cr_snode_remove(n);
            changed = true;
            continue;
        }
        if (n->prim == CR_SPRIM_IF)
            changed |= dead_results_of_if(n);
        if (n->prim == CR_SPRIM_LOOP)
            changed |= dead_results_of_loop(n);
        for (int i = 0; i < n->block_count; i++)
            changed |= dead_in(w, n->block[i]);
    }
    return changed;
}

static void dead_count_writes(dead_walk *w, const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->block_count; i++)
            dead_count_writes(w, n->block[i]);
        if (n->prim != CR_SPRIM_OPERATOR || dead_is_read(n))
            continue;
        for (int i = 0; i < n->schema->param_count && i < n->input_count; i++)
            w->writes[n->input[i]->id] += n->schema->param[i].written;
    }
}

void cr_spass_dead(cr_sgraph *g)
{
    dead_walk w = {CR_NEW_N(g->session, int, g->values + 1)};

    do {
        memset(w.writes, 0, (g->values + 1) * sizeof *w.writes);
        dead_count_writes(&w, g->body);
    } while (dead_in(&w, g->body));
}

/* --- constants --- */

typedef struct pooled pooled;
struct pooled {
    pooled *next;
    const char *key;
    cr_svalue *value;
};

enum { POOL_CHAINS = 64 };

static const void *pool_identity(const cr_sconstant *c)
{
    switch (c->type->kind) {
    case CR_STYPE_TENSOR: return c->tensor;
    case CR_STYPE_FUNCTION: return c->function;
    case CR_STYPE_CLASS: return c->object;
    default: return c->live ? c->live->box : NULL;
    }
}

/* None of a type T? is no other None. */
static char *pool_key(cr_session *s, const cr_snode *n)
{
    const cr_sconstant *c = n->value;
    cr_text text = {0};

    cr_stype_print(&text, n->output[0]->type);
    cr_text_printf(&text, " %p ", pool_identity(c));
    for (int i = 0; c->type->kind == CR_STYPE_TUPLE && i < c->count; i++)
        cr_text_printf(&text, "%p ", pool_identity(&c->item[i]));
    cr_sconstant_print(&text, c);
    return cr_session_take_text(s, &text);
}

static void pool_node(cr_sgraph *g, pooled **pool, cr_snode *n)
{
    char *key = pool_key(g->session, n);
    pooled **chain = &pool[cr_hash(key, strlen(key)) % POOL_CHAINS], *p;

    for (p = *chain; p; p = p->next) /* torch cannot tell that members of enums are equal */
        if (!strcmp(p->key, key) && n->value->type->kind != CR_STYPE_ENUM) {
            cr_svalue_replace(g, n->output[0], p->value);
            cr_snode_remove(n);
            return;
        }
    p = CR_NEW(g->session, pooled);
    *p = (pooled){*chain, key, n->output[0]};
    *chain = p;
    if (g->body->first != n)
        cr_snode_move(n, g->body, g->body->first);
}

static void pool_in(cr_sgraph *g, pooled **pool, cr_sblock *b)
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->block_count; i++)
            pool_in(g, pool, n->block[i]);
        if (n->prim == CR_SPRIM_CONSTANT)
            pool_node(g, pool, n);
    }
}

void cr_spass_pool(cr_sgraph *g)
{
    pooled *pool[POOL_CHAINS] = {0};

    pool_in(g, pool, g->body);
}

/* --- order of results --- */

/* Positions of first reads: blocks' nodes in order, a node before what is inside it. */
typedef struct {
    uint32_t at;     /* of the node or block end that comes next */
    uint32_t *first; /* by value, 0: not read */
} order_walk;

static void order_note(order_walk *w, cr_svalue *const *v, int n)
{
    for (int i = 0; i < n; i++)
        if (!w->first[v[i]->id])
            w->first[v[i]->id] = w->at + (uint32_t)i;
    w->at += (uint32_t)n + 1;
}

static void order_read(order_walk *w, const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        order_note(w, n->input, n->input_count);
        for (int i = 0; i < n->block_count; i++)
            order_read(w, n->block[i]);
    }
    order_note(w, b->output, b->output_count);
}

static bool order_before(const order_walk *w, const cr_svalue *a, const cr_svalue *b)
{
    uint32_t x = w->first[a->id], y = w->first[b->id];

    return x && (!y || x < y);
}

static void order_rotate(cr_svalue **at, int from, int to)
{
    cr_svalue *v = at[from];

    for (int i = from; i > to; i--)
        at[i] = at[i - 1];
    at[to] = v;
}

/* Moves result `from` of the node to place `to` before it. */
static void order_move(cr_snode *n, int from, int to)
{
    bool loop = n->prim == CR_SPRIM_LOOP;

    order_rotate(n->output, from, to);
    if (loop) {
        order_rotate(n->input, from + 2, to + 2);
        order_rotate(n->block[0]->input, from + 1, to + 1);
    }
    for (int i = 0; i < n->block_count; i++)
        order_rotate(n->block[i]->output, from + loop, to + loop);
    for (int i = 0; i < n->output_count; i++)
        n->output[i]->index = i;
    for (int i = 0; loop && i < n->block[0]->input_count; i++)
        n->block[0]->input[i]->index = i;
}

/* Orders the results of one node; true when something moved. */
static bool order_node(const order_walk *w, cr_snode *n)
{
    bool moved = false;

    for (int i = 1; i < n->output_count; i++) {
        int to = i;
        while (to && order_before(w, n->output[i], n->output[to - 1]))
            to--;
        if (to < i) {
            order_move(n, i, to);
            moved = true;
        }
    }
    return moved;
}

static void order_find(order_walk *w, cr_sgraph *g)
{
    memset(w->first, 0, (g->values + 1) * sizeof *w->first);
    w->at = 1;
    order_read(w, g->body);
}

/* From the end, and a node before what is inside it: its order depends on what reads it. */
static void order_in(order_walk *w, cr_sblock *b)
{
    for (cr_snode *n = b->last; n; n = n->prev) {
        if ((n->prim == CR_SPRIM_IF || n->prim == CR_SPRIM_LOOP) && order_node(w, n))
            order_find(w, b->graph);
        for (int i = 0; i < n->block_count; i++)
            order_in(w, n->block[i]);
    }
}

static void pass_order(cr_sgraph *g)
{
    order_walk w = {1, CR_NEW_N(g->session, uint32_t, g->values + 1)};

    order_find(&w, g);
    order_in(&w, g->body);
}

/* --- casts to annotated types --- */

static void widening_in(cr_sblock *b)
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->block_count; i++)
            widening_in(n->block[i]);
        if (!n->widens || n->prim != CR_SPRIM_UNCHECKED_CAST)
            continue;
        if (!n->input[0]->name)
            n->input[0]->name = n->output[0]->name;
        cr_svalue_replace(b->graph, n->output[0], n->input[0]);
        cr_snode_remove(n);
    }
}

static void pass_widening(cr_sgraph *g) { widening_in(g->body); }

void cr_spasses_tidy(cr_sgraph *g)
{
    pass_tuples(g);
    cr_spass_fold(g);
    cr_spass_pool(g);
    pass_order(g);
}

void cr_spasses_run(cr_sgraph *g)
{
    pass_widening(g);
    cr_spass_exits(g);
    cr_spass_normal(g);
    pass_loops(g);
    cr_spasses_tidy(g);
}

/* Loops first, whose bodies then have constants.  The length of a list may be the number of a
 * loop's iterations, hence two rounds. */
static void pass_simplify(cr_sgraph *g)
{
    for (int round = 0; round < 2; round++) {
        cr_spass_unroll(g);
        cr_spass_fold(g);
        cr_spass_lists(g);
        cr_spass_peephole(g);
        cr_spass_fold(g);
    }
}

void cr_spasses_prepare(cr_sgraph *g)
{
    pass_simplify(g);
    cr_spass_common_numbers(g);
    cr_spass_dead(g);
}

void cr_spasses_freeze(cr_sgraph *g)
{
    pass_simplify(g);
    cr_spass_common(g);
    cr_spasses_tidy(g);
}

void cr_spasses_optimize(cr_sgraph *g)
{
    cr_spass_dropouts(g);
    cr_spass_layers(g);
    cr_spasses_freeze(g);
}

/* --- passes by name --- */

typedef void (*named_pass)(cr_sgraph *g);

static named_pass pass_find(const char *name, size_t len)
{
    static const struct {
        const char *name;
        named_pass pass;
    } all[] = {
#define CR_SPASS(name, pass, text) {name, pass},
#include "script/passes.def"
#undef CR_SPASS
    };

    for (size_t i = 0; i < CR_LEN(all); i++)
        if (strlen(all[i].name) == len && !strncmp(all[i].name, name, len))
            return all[i].pass;
    return NULL;
}

static void pass_run_named(cr_sgraph *g, const char *names)
{
    for (names += strspn(names, " "); *names; names += strspn(names, " ")) {
        size_t len = strcspn(names, " ");
        named_pass pass = pass_find(names, len);
        if (!pass)
            cr_bail(g->session, CR_VALUE, "no pass is called '%.*s'", (int)len, names);
        pass(g);
        names += len;
    }
}

typedef struct {
    cr_text *out;
    const char *passes, *text;
    const cr_sfunction *function;
    cr_sunit *unit;
} print_job;

static void print_function_after(cr_session *s, void *context)
{
    const print_job *j = context;
    cr_sgraph *g = cr_sgraph_copy(s, j->function->graph);

    if (g->traced)
        cr_spass_unpool(g);
    pass_run_named(g, j->passes);
    cr_sgraph_print(j->out, g, true);
}

cr_status cr_sfunction_print_after(cr_text *out, const cr_sfunction *f, const char *passes)
{
    print_job j = {.out = out, .passes = passes, .function = f};
    cr_session s = {0};
    cr_status st;

    if (!f->graph)
        return cr_fail(CR_RUNTIME, "'%s' has no graph", f->qualified);
    st = cr_session_run(&s, print_function_after, &j);
    cr_session_drop(&s);
    return st ? st : cr_text_status(out);
}

static void print_text_after(cr_session *s, void *context)
{
    const print_job *j = context;
    cr_sgraph *g = cr_sgraph_parse(j->unit, j->text);

    (void)s;
    pass_run_named(g, j->passes);
    cr_sgraph_print(j->out, g, false);
}

cr_status cr_sgraph_print_after(cr_text *out, const char *text, const char *passes)
{
    print_job j = {.out = out, .passes = passes, .text = text, .unit = cr_sunit_new()};
    cr_status st;

    CR_NEED(j.unit);
    st = cr_session_run(cr_sunit_session(j.unit), print_text_after, &j);
    cr_sunit_release(j.unit);
    return st ? st : cr_text_status(out);
}
