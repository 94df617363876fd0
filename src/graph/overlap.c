/* Calls between ranks overlap with computation.
 *
 * A call starts as soon as its operands are made, and the wait for it comes as late as its
 * first reader.  Readers of calls are postponed behind nodes that read none.  A node that
 * writes, or that raises by the elements it reads, ends a part of the graph, across which
 * nothing moves.  So does a wait for elements
 * that other nodes can reach: the wait is the only reader of a call's own result, or readers of
 * the result, of the call's argument and of their views would have to be found.
 *
 * All ranks must start their calls in one order, and their graphs may differ in other nodes.
 * So calls keep their order, and so do draws.  The results of calls in progress have at most
 * AHEAD_BYTES, or are those of one call: gathered weights would else be there all at once.
 *
 * Small all_reduces of one group, operation and dtype become one work if no product, no call
 * and no wait is between them.  The room comm sends them in one message where the other ranks
 * do too; elements are added as in separate calls. */
#include "entry.h"
#include "graph/rewrite.h"
#include <string.h>

enum { AHEAD_BYTES = 32 << 20, JOIN_BYTES = 4096 };

typedef CR_VEC(const cr_gnode *) node_list;

/* Moves calls between ranks apart from their waits.
 * Invariant: a node is in `order`, in `postponed`, in `held`, or still to come, and `done`
 * says which of them are not to come. ahead is the sum of in_flight. */
typedef struct {
    const cr_graph *g;
    const bool *own; /* by value id: a call's own result, whose only reader is a wait */
    bool *wall_at;   /* by index of the node: nothing moves across it */
    bool *made;      /* by value id: by a node of `order`, or an input */
    bool *late;      /* by value id: a reader is postponed */
    bool *done;      /* by index of the node */
    node_list order; /* the result */
    node_list postponed;
    node_list held;               /* small calls, which are at the end of `order` for now */
    size_t held_bytes, held_from; /* of their operands; where the first one was ready */
    int64_t *in_flight; /* by value id: bytes that a call makes and no wait has read */
    int64_t ahead;      /* their sum */
    bool start_waits, draw_waits; /* one is postponed */
    size_t start, wall;           /* indices of the next ones */
} overlapping;

/* Invariant: each node is in one of order, held and postponed, or has its index behind the
 * node that is placed; those in `order` read nodes before them only. */

/* --- facts --- */

static bool has_meets(const cr_gnode *n)
{
    return n->kind == CR_GNODE_CALL && n->op->words & CR_WORD_MEETS;
}

bool cr_gnode_waits(const cr_gnode *n) { return has_meets(n) && n->op->words & CR_WORD_CHECKS; }

static bool is_wait(const cr_gnode *n) { return cr_gnode_waits(n); }

static bool is_start(const cr_gnode *n) { return has_meets(n) && !is_wait(n); }

/* A composition of calls and waits. */
static bool has_meets_inside(const cr_gnode *n)
{
    return n->kind == CR_GNODE_CALL && !has_meets(n) && cr_op_reaches(n->op, CR_WORD_BIT_MEETS);
}

/* A call whose error a program may catch: it raises after as many calls between ranks as in
 * eager mode, else the next ones meet the wrong ones of other ranks. */
static bool may_raise(const cr_gnode *n)
{
    return n->kind == CR_GNODE_CALL && !has_meets(n) && cr_gnode_may_raise(n);
}

/* Nothing moves across the node. */
static bool is_wall(const overlapping *x, const cr_gnode *n)
{
    return cr_gnode_writes(n) || has_meets_inside(n) || may_raise(n) ||
           (is_wait(n) && !x->own[n->arg[0].value->id]) ||
           (n->kind != CR_GNODE_CALL && cr_gnode_has_effect(n) && !cr_gnode_draws(n));
}

static void count_read(void *context, cr_gvalue *v) { ((unsigned *)context)[v->id]++; }

const bool *cr_gwaited_find(cr_session *s, const cr_graph *g)
{
    const cr_gblock *b = g->body;
    bool *own = CR_NEW_N(s, bool, g->values);
    unsigned *reads = CR_NEW_N(s, unsigned, g->values);

    cr_gblock_each_read(b, count_read, reads);
    for (size_t i = 0; i < b->len; i++) {
        const cr_gvalue *v = is_wait(b->at[i]) ? b->at[i]->arg[0].value : NULL;
        if (v && v->by && is_start(v->by) && !cr_gnode_writes(v->by))
            own[v->id] = reads[v->id] == 1;
    }
    return own;
}

/* Finds the results that only waits read, and the walls. */
static void find_walls(overlapping *x)
{
    const cr_gblock *b = x->g->body;

    x->own = cr_gwaited_find(x->g->session, x->g);
    for (size_t i = 0; i < b->len; i++)
        x->wall_at[i] = is_wall(x, b->at[i]);
}

static int64_t type_bytes(const cr_gtype *t)
{
    return t->known ? cr_numel(t->ndim, t->size) * (int64_t)cr_dtype_size((cr_dtype)t->dtype)
                    : AHEAD_BYTES;
}

static int64_t bytes_made(const cr_gnode *n)
{
    int64_t bytes = 0;

    for (int k = 0; k < n->result_count; k++)
        bytes += type_bytes(&n->result[k]->type);
    return bytes;
}

typedef struct {
    const bool *of;
    bool any, all;
} reading;

static void look_at(void *context, cr_gvalue *v)
{
    reading *r = context;

    r->any |= r->of[v->id];
    r->all &= r->of[v->id];
}

/* Looks at all values that the node reads, also in its blocks. */
static reading read_of(const cr_gnode *n, const bool *of)
{
    reading r = {of, false, true};

    cr_gnode_each_read(n, look_at, &r);
    for (int k = 0; k < cr_gnode_blocks(n); k++)
        cr_gblock_each_read(n->block[k], look_at, &r);
    return r;
}

/* --- small calls --- */

static bool is_small(const overlapping *x, const cr_gnode *n)
{
    const cr_gtype *t = is_start(n) ? &n->result[0]->type : NULL;

    return t && n->op == cr_entry._c10d_functional_all_reduce && x->own[n->result[0]->id] &&
           t->known && cr_is_host(t->device) && type_bytes(t) <= JOIN_BYTES;
}

static bool same_text(const cr_garg *a, const cr_garg *b)
{
    return a->len == b->len && !memcmp(a->s, b->s, a->len);
}

/* Whether the call goes with those that are held. */
static bool joins_held(const overlapping *x, const cr_gnode *n)
{
    const cr_gnode *first = x->held.at[0];

    return same_text(&first->arg[1], &n->arg[1]) && same_text(&first->arg[2], &n->arg[2]) &&
           first->result[0]->type.dtype == n->result[0]->type.dtype &&
           x->held_bytes + (size_t)bytes_made(n) <= JOIN_BYTES;
}

static void push(overlapping *x, node_list *list, const cr_gnode *n)
{
    CR_PUSH(x->g->session, list, n);
}

/* A call that stayed alone goes where it was ready. */
static void release_held(overlapping *x)
{
    bool alone = x->held.len == 1;

    for (size_t i = 0; i < x->held.len; i++)
        push(x, &x->order, x->held.at[i]);
    for (size_t i = x->order.len; alone && --i > x->held_from;) {
        const cr_gnode *last = x->order.at[i];
        x->order.at[i] = x->order.at[i - 1];
        x->order.at[i - 1] = last;
    }
    x->held.len = 0;
    x->held_bytes = 0;
}

static void hold(overlapping *x, const cr_gnode *n)
{
    if (x->held.len && !joins_held(x, n))
        release_held(x);
    if (!x->held.len)
        x->held_from = x->order.len;
    push(x, &x->held, n);
    x->held_bytes += (size_t)bytes_made(n);
}

/* --- order --- */

static void land(void *context, cr_gvalue *v)
{
    overlapping *x = context;

    x->ahead -= x->in_flight[v->id];
    x->in_flight[v->id] = 0;
}

static bool is_dear(const cr_gnode *n)
{
    return cr_gnode_blocks(n) ||
           (n->kind == CR_GNODE_CALL && cr_op_reaches(n->op, CR_WORD_BIT_LIBRARY));
}

static void emit(overlapping *x, const cr_gnode *n)
{
    if (is_small(x, n)) {
        hold(x, n);
    } else {
        if (has_meets(n) || is_dear(n) || is_wall(x, n) || read_of(n, x->late).any)
            release_held(x); /* also before what reads their results */
        push(x, &x->order, n);
    }
    for (int k = 0; k < n->result_count; k++) {
        unsigned id = n->result[k]->id;
        x->made[id] = true;
        x->late[id] = x->own[id]; /* its wait is late */
        x->in_flight[id] = x->own[id] ? type_bytes(&n->result[k]->type) : 0;
        x->ahead += x->in_flight[id];
    }
    if (is_wait(n))
        cr_gnode_each_read(n, land, x);
}

typedef struct {
    const cr_gvalue *value;
    bool found;
} value_search;

static void look_for(void *context, cr_gvalue *v)
{
    value_search *s = context;

    s->found |= v == s->value;
}

static bool reads_result(const cr_gnode *n, const cr_gnode *of)
{
    value_search s = {of->result[0], false};

    cr_gnode_each_read(n, look_for, &s);
    for (int k = 0; k < cr_gnode_blocks(n); k++)
        cr_gblock_each_read(n->block[k], look_for, &s);
    return s.found;
}

/* Emits the waits that the node reads; NULL: all. */
static void emit_waits(overlapping *x, node_list *waits, const cr_gnode *reader)
{
    size_t left = 0;

    for (size_t k = 0; k < waits->len; k++)
        if (!reader || reads_result(reader, waits->at[k]))
            emit(x, waits->at[k]);
        else
            waits->at[left++] = waits->at[k];
    waits->len = left;
}

static void note_postponed(overlapping *x)
{
    x->start_waits = x->draw_waits = false;
    for (size_t i = 0; i < x->postponed.len; i++) {
        x->start_waits |= is_start(x->postponed.at[i]);
        x->draw_waits |= cr_gnode_draws(x->postponed.at[i]);
    }
}

/* Emits the postponed nodes before the second wait, or all.  A wait goes before its first
 * reader. */
static void emit_postponed(overlapping *x, bool all)
{
    node_list list = x->postponed, waits = {0};
    size_t end = 0;

    while (end < list.len && (all || !end || !is_wait(list.at[end])))
        end++;
    for (size_t i = 0; i < end; i++) {
        emit_waits(x, &waits, list.at[i]);
        if (is_wait(list.at[i]))
            push(x, &waits, list.at[i]);
        else
            emit(x, list.at[i]);
    }
    emit_waits(x, &waits, NULL);
    x->postponed.len = list.len - end;
    memmove(x->postponed.at, list.at + end, x->postponed.len * sizeof *list.at);
    note_postponed(x);
}

static void postpone(overlapping *x, const cr_gnode *n)
{
    for (int k = 0; k < n->result_count; k++)
        x->late[n->result[k]->id] = true;
    push(x, &x->postponed, n);
    x->start_waits |= is_start(n);
    x->draw_waits |= cr_gnode_draws(n);
}

static bool must_wait(const overlapping *x, const cr_gnode *n)
{
    return is_wait(n) || read_of(n, x->late).any || (is_start(n) && x->start_waits) ||
           (cr_gnode_draws(n) && x->draw_waits);
}

/* Waits until the results of one more call may be in progress. */
static void make_room(overlapping *x, const cr_gnode *n)
{
    while (x->ahead && x->ahead + bytes_made(n) > AHEAD_BYTES && x->postponed.len)
        emit_postponed(x, false);
}

static void place(overlapping *x, const cr_gnode *n)
{
    if (is_start(n))
        make_room(x, n);
    if (must_wait(x, n))
        postpone(x, n);
    else
        emit(x, n);
}

/* The indices of the first wall and of the first start from node i on; they only grow. */
static size_t next_wall(overlapping *x, size_t i)
{
    x->wall = x->wall < i ? i : x->wall;
    while (x->wall < x->g->body->len && !x->wall_at[x->wall])
        x->wall++;
    return x->wall;
}

static size_t next_start(overlapping *x, size_t i)
{
    x->start = x->start < i ? i : x->start;
    while (x->start < x->g->body->len && !is_start(x->g->body->at[x->start]))
        x->start++;
    return x->start;
}

/* Starts the next calls whose operands are made, before node i, up to the next wall. */
static void start_early(overlapping *x, size_t i)
{
    const cr_gblock *b = x->g->body;
    size_t wall = next_wall(x, i);

    while (next_start(x, i) < wall) {
        const cr_gnode *n = b->at[x->start];
        if (!read_of(n, x->made).all || must_wait(x, n) ||
            (x->ahead && x->ahead + bytes_made(n) > AHEAD_BYTES))
            return;
        x->done[x->start++] = true;
        emit(x, n);
    }
}

static void order_nodes(overlapping *x)
{
    const cr_gblock *b = x->g->body;

    for (size_t i = 0; i < b->len; i++) {
        start_early(x, i);
        if (x->done[i])
            continue;
        if (x->wall_at[i]) {
            emit_postponed(x, true);
            emit(x, b->at[i]);
        } else {
            place(x, b->at[i]);
        }
    }
    emit_postponed(x, true);
    release_held(x);
}

/* --- the new graph --- */

/* How many calls from index i on are neighbours that become one work. */
static size_t joined_at(overlapping *x, size_t i)
{
    size_t n = 0;

    x->held.len = 0;
    x->held_bytes = 0;
    while (i + n < x->order.len && is_small(x, x->order.at[i + n]) &&
           (!n || joins_held(x, x->order.at[i + n])))
        hold(x, x->order.at[i + n++]);
    return n;
}

static void copy_joined(cr_rewrite *w, cr_gblock *to, const cr_gnode *const *n, size_t count)
{
    cr_session *s = w->to->session;
    cr_garg *list = CR_NEW_N(s, cr_garg, count);
    const char **names = CR_NEW_N(s, const char *, count);
    cr_garg arg[3] = {{.tag = CR_TENSORS, .len = (uint32_t)count, .list = list}};

    for (size_t k = 0; k < count; k++) {
        list[k] = cr_garg_value(w->now[n[k]->arg[0].value->id]);
        names[k] = n[k]->result[0]->name;
    }
    arg[1] = n[0]->arg[1];
    arg[2] = n[0]->arg[2];
    cr_gnode *made = cr_graph_call(w->to, to, cr_entry._c10d_functional_all_reduce_coalesced,
                                   arg, (int)count, names);
    made->source = n[0]->source;
    for (size_t k = 0; k < count; k++) {
        made->result[k]->type = n[k]->result[0]->type;
        w->now[n[k]->result[0]->id] = made->result[k];
    }
}

static bool copy_in_order(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    overlapping *x = w->context;

    if (to != w->to->body)
        return false;
    if (n != x->g->body->at[0])
        return true;
    for (size_t i = 0; i < x->order.len;) {
        size_t count = joined_at(x, i);
        if (count > 1)
            copy_joined(w, to, x->order.at + i, count);
        else
            cr_rewrite_copy(w, to, x->order.at[i]);
        i += count ? count : 1;
    }
    return true;
}

static bool any_start(const cr_gblock *b)
{
    for (size_t i = 0; i < b->len; i++)
        if (is_start(b->at[i]))
            return true;
    return false;
}

cr_graph *cr_graph_overlap(const cr_graph *g)
{
    cr_session *s = g->session;
    overlapping x = {.g = g};
    cr_rewrite w = {.from = g, .node = copy_in_order, .context = &x};

    if (!any_start(g->body))
        return (cr_graph *)(uintptr_t)g;
    x.wall_at = CR_NEW_N(s, bool, g->body->len);
    x.made = CR_NEW_N(s, bool, g->values);
    x.late = CR_NEW_N(s, bool, g->values);
    x.in_flight = CR_NEW_N(s, int64_t, g->values);
    x.done = CR_NEW_N(s, bool, g->body->len);
    for (int i = 0; i < g->input_count; i++)
        x.made[g->input[i]->id] = true;
    find_walls(&x);
    order_nodes(&x);
    return cr_rewrite_run(&w);
}
