/* Removes `return`, `break` and `continue` from graphs.
 *
 * The compiler emits them as nodes.  A block that may have left sets a bool, "exited", and the
 * values that it leaves with; the nodes behind it become the other branch of an `if` on that
 * bool.  A loop that may have left carries the bool and the values, and stops.
 *
 * Invariant: between two nodes that may exit, the pair (exited, values) says what has happened
 * in the block so far. */
#include "script/passes.h"
#include <string.h>

typedef enum { EXIT_NEVER, EXIT_MAYBE, EXIT_ALWAYS, EXIT_THROWS } exit_status;

typedef struct {
    cr_svalue *exited;
    int count;
    cr_svalue **value;
} exit_pair;

typedef struct {
    const cr_stype *type;
    cr_svalue *value;
} exit_blank;

typedef struct {
    cr_sgraph *g;
    cr_session *s;
    cr_sprim kind;     /* RETURN or CONTINUATION */
    cr_sblock *target; /* the block that such a node leaves */
    cr_svalue *yes, *no, *throws;
    CR_VEC(exit_blank) blanks;
} exits;

/* --- values --- */

static cr_svalue *exit_bool(exits *x, bool b)
{
    cr_sconstant *value = CR_NEW(x->s, cr_sconstant);

    *value = (cr_sconstant){.type = CR_STYPE_OF(BOOL), .i = b};
    return cr_sgraph_constant_first(x->g, value);
}

/* A value of the type that is never read; as in torch, equal types of two values have two. */
static cr_svalue *exit_blank_of(exits *x, const cr_stype *type)
{
    for (size_t i = 0; i < x->blanks.len; i++)
        if (x->blanks.at[i].type == type)
            return x->blanks.at[i].value;
    cr_svalue *v = cr_sgraph_blank_first(x->g, type);
    CR_PUSH(x->s, &x->blanks, ((exit_blank){type, v}));
    return v;
}

static exit_pair exit_pair_of(cr_svalue *exited, int count, cr_svalue **value)
{
    return (exit_pair){exited, count, value};
}

static exit_status exit_status_of(const exits *x, const exit_pair *p)
{
    return p->exited == x->yes      ? EXIT_ALWAYS
           : p->exited == x->no     ? EXIT_NEVER
           : p->exited == x->throws ? EXIT_THROWS
                                    : EXIT_MAYBE;
}

static exit_pair exit_blanks_for(exits *x, cr_svalue *exited, const exit_pair *like)
{
    exit_pair made = {exited, like->count, CR_NEW_N(x->s, cr_svalue *, like->count + 1)};

    for (int i = 0; i < like->count; i++)
        made.value[i] = exit_blank_of(x, like->value[i]->type);
    return made;
}

static const cr_stype *exit_join(exits *x, const cr_stype *a, const cr_stype *b)
{
    const cr_stype *joined = cr_stype_join(x->g->unit, a, b), *both[] = {a, b};

    return joined ? joined : cr_stype_union(x->g->unit, 2, both);
}

/* Adds results to an `if`: a of its first block, b of its second. */
static cr_svalue **exit_add_results(exits *x, cr_snode *n, cr_svalue *const *a,
                                    cr_svalue *const *b, int count)
{
    cr_svalue **made = CR_NEW_N(x->s, cr_svalue *, count + 1);

    for (int i = 0; i < count; i++) {
        cr_sblock_output(n->block[0], a[i]);
        cr_sblock_output(n->block[1], b[i]);
        made[i] = cr_snode_output(n, NULL, exit_join(x, a[i]->type, b[i]->type));
    }
    return made;
}

/* --- branches and loops --- */

static exit_pair exit_block(exits *x, cr_sblock *b);

static exit_pair exit_if(exits *x, cr_snode *n)
{
    exit_pair p[2] = {exit_block(x, n->block[0]), exit_block(x, n->block[1])};
    exit_status st[2] = {exit_status_of(x, &p[0]), exit_status_of(x, &p[1])};
    cr_svalue *exited;

    if (st[0] == EXIT_NEVER && st[1] == EXIT_NEVER)
        return exit_pair_of(x->no, 0, NULL);
    if (st[0] == EXIT_THROWS && st[1] == EXIT_THROWS)
        return exit_pair_of(x->throws, 0, NULL);
    if ((st[0] == EXIT_THROWS && st[1] == EXIT_NEVER) ||
        (st[1] == EXIT_THROWS && st[0] == EXIT_NEVER))
        return exit_pair_of(x->no, 0, NULL);
    for (int i = 0; i < 2; i++)
        if (st[i] == EXIT_NEVER || st[i] == EXIT_THROWS)
            p[i] = exit_blanks_for(x, p[i].exited, &p[1 - i]);
    if ((st[0] == EXIT_ALWAYS || st[0] == EXIT_THROWS) &&
        (st[1] == EXIT_ALWAYS || st[1] == EXIT_THROWS))
        exited = x->yes;
    else
        exited = exit_add_results(x, n, &p[0].exited, &p[1].exited, 1)[0];
    return exit_pair_of(exited, p[0].count,
                        exit_add_results(x, n, p[0].value, p[1].value, p[0].count));
}

/* The loop goes on only if it has not left. */
static void exit_loop_condition(exits *x, cr_sblock *body, cr_svalue *exited)
{
    cr_snode *n = cr_snode_new(body, CR_SPRIM_IF, (cr_srange){0});

    cr_snode_input(n, exited);
    cr_sblock_output(cr_snode_block(n), x->no);
    cr_sblock_output(cr_snode_block(n), body->output[0]);
    cr_sblock_set_output(body, 0, cr_snode_output(n, NULL, CR_STYPE_OF(BOOL)));
}

static cr_svalue *exit_carry(cr_snode *n, cr_svalue *before, cr_svalue *at_end)
{
    cr_snode_input(n, before);
    cr_sblock_input(n->block[0], NULL, before->type);
    cr_sblock_output(n->block[0], at_end);
    return cr_snode_output(n, NULL, before->type);
}

static exit_pair exit_loop(exits *x, cr_snode *n)
{
    exit_pair p = exit_block(x, n->block[0]);
    exit_status st = exit_status_of(x, &p);
    cr_svalue *exited, **value;

    if (st == EXIT_NEVER || st == EXIT_THROWS)
        return exit_pair_of(x->no, 0, NULL);
    exit_loop_condition(x, n->block[0], p.exited);
    exited = exit_carry(n, x->no, p.exited);
    value = CR_NEW_N(x->s, cr_svalue *, p.count + 1);
    for (int i = 0; i < p.count; i++)
        value[i] = exit_carry(n, exit_blank_of(x, p.value[i]->type), p.value[i]);
    return exit_pair_of(exited, p.count, value);
}

/* --- blocks --- */

/* The nodes from `from` on run only if the block has not left. */
static exit_pair exit_guard(exits *x, cr_sblock *b, const exit_pair *p, cr_snode *from)
{
    cr_snode *n = cr_snode_before(from, CR_SPRIM_IF, (cr_srange){0});
    cr_sblock *left = cr_snode_block(n), *rest = cr_snode_block(n);
    int count = b->output_count;
    cr_svalue **old = CR_NEW_N(x->s, cr_svalue *, count + 1);

    cr_snode_input(n, p->exited);
    while (n->next)
        cr_snode_move(n->next, rest, NULL);
    for (int i = 0; i < count; i++)
        old[i] = b->output[i];
    cr_sblock_clear_outputs(b);
    for (int i = 0; i < count; i++) {
        cr_sblock_output(left, exit_blank_of(x, old[i]->type));
        cr_sblock_output(rest, old[i]);
        cr_sblock_output(b, cr_snode_output(n, NULL, old[i]->type));
    }
    cr_snode *leave = cr_snode_new(left, x->kind, (cr_srange){0});
    for (int i = 0; i < p->count; i++)
        cr_snode_input(leave, p->value[i]);
    return exit_if(x, n);
}

static cr_svalue *exit_result(cr_snode *with, cr_svalue *v)
{
    cr_sblock_output(with->block[0], v);
    return cr_snode_output(with, NULL, v->type);
}

static exit_pair exit_with(exits *x, cr_snode *n)
{
    exit_pair p = exit_block(x, n->block[0]);

    if (exit_status_of(x, &p) == EXIT_MAYBE)
        p.exited = exit_result(n, p.exited);
    for (int i = 0; i < p.count; i++)
        p.value[i] = exit_result(n, p.value[i]);
    return p;
}

static exit_pair exit_node(exits *x, cr_snode *n)
{
    exit_pair p = {x->no, 0, NULL};

    if (n->prim == x->kind) {
        p = exit_pair_of(x->yes, n->input_count,
                         CR_NEW_N(x->s, cr_svalue *, n->input_count + 1));
        for (int i = 0; i < n->input_count; i++)
            p.value[i] = n->input[i];
        cr_snode_remove(n);
        return p;
    }
    switch ((cr_sprim)n->prim) {
    case CR_SPRIM_OPERATOR:
        if (cr_snode_raises(n))
            p.exited = x->throws;
        return p;
    case CR_SPRIM_IF: return exit_if(x, n);
    case CR_SPRIM_LOOP: return exit_loop(x, n);
    case CR_SPRIM_WITH: return exit_with(x, n);
    case CR_SPRIM_FORK: exit_block(x, n->block[0]); return p;
    default: return p;
    }
}

static void exit_remove_from(cr_sblock *b, cr_snode *from)
{
    while (b->last && from) {
        cr_snode *n = b->last;
        from = n == from ? NULL : from;
        cr_snode_remove(n);
    }
}

static void exit_set_outputs(cr_sblock *b, cr_svalue *const *v, int count)
{
    cr_sblock_clear_outputs(b);
    for (int i = 0; i < count; i++)
        cr_sblock_output(b, v[i]);
}

/* The block that is left gives the values with which it was left. */
static void exit_finish_target(exits *x, cr_sblock *b, const exit_pair *p)
{
    exit_status st = exit_status_of(x, p);

    if (st == EXIT_ALWAYS)
        exit_set_outputs(b, p->value, p->count);
    if (st != EXIT_MAYBE)
        return;
    cr_snode *n = cr_snode_new(b, CR_SPRIM_IF, (cr_srange){0});
    cr_snode_input(n, p->exited);
    cr_snode_block(n);
    cr_snode_block(n);
    exit_set_outputs(b, exit_add_results(x, n, p->value, b->output, p->count), p->count);
}

static bool exit_is_target(const exits *x, const cr_sblock *b)
{
    if (x->kind == CR_SPRIM_CONTINUATION)
        return b->by && b->by->prim == CR_SPRIM_LOOP;
    return !b->by || b->by->prim == CR_SPRIM_FORK;
}

/* A branch that always leaves has outputs that are not read: values of nodes that were removed
 * are replaced first. */
static void exit_blank_outputs(exits *x, cr_sblock *b)
{
    for (int i = 0; i < b->output_count; i++)
        cr_sblock_set_output(b, i, exit_blank_of(x, b->output[i]->type));
}

static exit_pair exit_block(exits *x, cr_sblock *b)
{
    cr_sblock *before = x->target;
    exit_pair p = {x->no, 0, NULL};

    x->target = exit_is_target(x, b) ? b : x->target;
    for (cr_snode *n = b->first, *next; n; n = next) {
        next = n->next;
        p = exit_node(x, n);
        exit_status st = exit_status_of(x, &p);
        if ((st == EXIT_ALWAYS || st == EXIT_THROWS) && next) {
            exit_blank_outputs(x, b);
            exit_remove_from(b, next);
        } else if (st == EXIT_MAYBE && next) {
            p = exit_guard(x, b, &p, next);
        }
        if (st != EXIT_NEVER)
            break;
    }
    if (exit_is_target(x, b)) {
        exit_finish_target(x, b, &p);
        p = exit_pair_of(x->no, 0, NULL);
    }
    x->target = before;
    return p;
}

static void exits_of_kind(cr_sgraph *g, cr_sprim kind)
{
    exits x = {.g = g, .s = g->session, .kind = kind};

    x.throws = exit_blank_of(&x, CR_STYPE_OF(BOOL));
    x.no = exit_bool(&x, false);
    x.yes = exit_bool(&x, true);
    exit_block(&x, g->body);
}

/* --- an `if` on a bool that the `if` before it has set --- */

static bool joined_constant(const cr_snode *n, int block, int i, bool *out)
{
    const cr_snode *by = n->block[block]->output[i]->by;

    if (!by || by->prim != CR_SPRIM_CONSTANT || by->value->type->kind != CR_STYPE_BOOL)
        return false;
    *out = by->value->i != 0;
    return true;
}

/* Each join copies what follows, so their number is bounded; a graph with more stays as it
 * is. */
enum { MOST_VALUES = 1 << 19 };

/* The values that stand for others in a copy, by id: one table serves all copies of a graph,
 * since a session frees nothing before its end. */
typedef struct {
    cr_svalue **map;
    size_t cap;
} joined;

static cr_svalue **joined_map(joined *j, cr_sgraph *g)
{
    size_t n = (size_t)g->values + 1;

    if (n > j->cap) {
        j->cap = 2 * n;
        j->map = CR_NEW_N(g->session, cr_svalue *, j->cap);
    } else {
        memset(j->map, 0, n * sizeof *j->map);
    }
    return j->map;
}

/* Copies the branch of `second` that is taken after branch i of `first` into it. */
static void joined_copy(joined *j, cr_snode *first, const cr_snode *second, int i, bool taken)
{
    cr_svalue **map = joined_map(j, first->owner->graph);

    for (int k = 0; k < first->output_count; k++)
        map[first->output[k]->id] = first->block[i]->output[k];
    cr_sblock_copy(first->block[i], second->block[taken ? 0 : 1], map);
}

static bool join_next_if(joined *j, cr_snode *n)
{
    cr_snode *second = n->next;
    bool value[2];

    if (n->owner->graph->values > MOST_VALUES)
        return false;
    if (n->prim != CR_SPRIM_IF || !second || second->prim != CR_SPRIM_IF ||
        second->input[0]->by != n)
        return false;
    for (int i = 0; i < 2; i++)
        if (!joined_constant(n, i, second->input[0]->index, &value[i]))
            return false;
    if (value[0] == value[1])
        return false;
    for (int i = 0; i < 2; i++)
        joined_copy(j, n, second, i, value[i]);
    for (int i = 0; i < second->output_count; i++)
        cr_svalue_replace(n->owner->graph, second->output[i],
                          cr_snode_output(n, second->output[i]->name, second->output[i]->type));
    cr_snode_remove(second);
    return true;
}

static void join_ifs(joined *j, cr_sblock *b)
{
    for (cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->block_count; i++)
            join_ifs(j, n->block[i]);
        while (join_next_if(j, n))
            for (int i = 0; i < n->block_count; i++)
                join_ifs(j, n->block[i]);
    }
}

/* --- with --- */

/* While exits are removed, a part of the body of a `with` may become a branch, so the values of
 * the body that are read behind it are results of the node. */
typedef struct {
    cr_sgraph *g;
    struct {
        size_t len, cap;
        cr_svalue **at; /* by the id of a value: the result that replaces it, or NULL */
    } result;
} with_results;

/* The `with` whose body makes the value; NULL: none. */
static cr_snode *with_of(const cr_svalue *v)
{
    cr_snode *with = v->by ? v->by->owner->by : NULL;

    return with && with->prim == CR_SPRIM_WITH ? with : NULL;
}

static cr_svalue *with_result(with_results *w, cr_snode *with, cr_svalue *v)
{
    while (w->result.len <= v->id)
        CR_PUSH(w->g->session, &w->result, NULL);
    if (!w->result.at[v->id]) {
        cr_sblock_output(with->block[0], v);
        w->result.at[v->id] = cr_snode_output(with, v->name, v->type);
    }
    return w->result.at[v->id];
}

/* The value as it is read here; `begin` of a `with` is 1 while its body is visited. */
static cr_svalue *with_read(with_results *w, cr_svalue *v)
{
    for (cr_snode *with; (with = with_of(v)) && !with->slice.begin;)
        v = with_result(w, with, v);
    return v;
}

static void give_withs_results(with_results *w, cr_sblock *b)
{
    for (cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->input_count; i++)
            cr_snode_set_input(n, i, with_read(w, n->input[i]));
        for (int i = 0; i < n->block_count; i++) {
            n->slice.begin = n->prim == CR_SPRIM_WITH && !i ? 1 : n->slice.begin;
            give_withs_results(w, n->block[i]);
            n->slice.begin = n->prim == CR_SPRIM_WITH ? 0 : n->slice.begin;
        }
    }
    for (int i = 0; i < b->output_count; i++)
        cr_sblock_set_output(b, i, with_read(w, b->output[i]));
}

static cr_svalue *with_made(cr_svalue *v)
{
    while (v->by && v->by->prim == CR_SPRIM_WITH)
        v = v->by->block[0]->output[v->index];
    return v;
}

static void take_withs_results(cr_sblock *b)
{
    for (cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->input_count; i++)
            cr_snode_set_input(n, i, with_made(n->input[i]));
        for (int i = 0; i < n->block_count; i++)
            take_withs_results(n->block[i]);
    }
    for (int i = 0; i < b->output_count; i++)
        cr_sblock_set_output(b, i, with_made(b->output[i]));
}

static void flatten_withs(cr_sblock *b)
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->block_count; i++)
            flatten_withs(n->block[i]);
        if (n->prim != CR_SPRIM_WITH)
            continue;
        cr_sblock_clear_outputs(n->block[0]);
        cr_sblock_inline(n->block[0], n);
        cr_sblock_inline(n->block[1], n);
        cr_snode_remove(n);
    }
}

void cr_spass_exits(cr_sgraph *g)
{
    give_withs_results(&(with_results){.g = g}, g->body);
    exits_of_kind(g, CR_SPRIM_CONTINUATION);
    exits_of_kind(g, CR_SPRIM_RETURN);
    join_ifs(&(joined){0}, g->body);
    take_withs_results(g->body);
    flatten_withs(g->body);
}
