/* Recording: the first stage writes down every call of the thread.
 *
 * A tensor is identified by its address.  The recorder owns a reference to every tensor it has
 * seen, so that no address is used by a second tensor.  A recorder that borrows has no
 * references and watches the tensors, so that recording needs no more memory.  It forgets a
 * watched tensor that dies, unless other tensors share its storage; then it takes the last
 * reference, and drops it when only the recorder uses the storage.  A tensor that no recorded
 * call made is a constant of the graph, unless it shares bytes with a recorded tensor.  Then it
 * is the same value when it has the same elements (a tensor that autograd saved, a detached
 * tensor), unless it may have another history (has_own_history).  Any other view was made
 * without a recorded call, and the recording fails, because the graph would lose the
 * connection. */
#include "base/map.h"
#include "entry.h"
#include "graph/graph.h"
#include "ops/shape.h"
#include "tensor/autocast.h"
#include "tensor/defer.h"
#include "tensor/sparse.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The numbers of a tensor with the bits conj or neg, computed by recorded calls. */
typedef struct {
    const cr_gvalue *of;
    uint32_t version; /* of the tensor's storage when they were computed */
    cr_tensor *as;    /* owned */
} computed_bits;

/* A value of a sparse layout, and its tensor, which `seen` has. */
typedef struct {
    const cr_gvalue *value;
    cr_tensor *tensor;
} sparse_value;

/* Functions of the caller, each with its context. */
typedef struct {
    cr_recorder_where where;
    void *where_context;
    cr_recorder_end ends;
    void *ends_context;
} recorder_asks;

/* The tensors that the recording refers to. */
typedef struct {
    cr_map values;   /* cr_tensor * -> cr_gvalue */
    cr_map storages; /* bytes -> index + 1 of the last tensor of `seen` over them */
    CR_VEC(cr_tensor *) seen;
    CR_VEC(uint8_t) held;  /* of seen[i]: COUNTED, ... */
    CR_VEC(size_t) before; /* of seen[i]: the tensor before it over the bytes, index + 1 */
    CR_VEC(cr_tensor *) foreign; /* constants from outside the call; borrowed from `seen` */
} recorder_seen;

/* The choices of cr_record_how. */
typedef struct {
    bool parts, whole, apart, backward, copies;
    bool fixes; /* floats, which a derivative keeps */
    bool borrows;
} recorder_kind;

/* The state of the thread before the recording. */
typedef struct {
    uint32_t was_included;
    cr_memory_mode was_mode;
} recorder_thread;

/* A recording in progress.
 * Invariant: held and before have one entry for each of tensors.seen, and tensors.values and
 * .storages name only tensors of it. After a failure in `failed`, the graph is not used. */
struct cr_recorder {
    cr_session *session;
    uint64_t serial;
    recorder_kind kind;
    cr_graph *g;
    recorder_seen tensors;
    cr_recorder *outer; /* the next in the thread's list of recorders that borrow */
    CR_VEC(computed_bits) computed;
    CR_VEC(sparse_value) sparse; /* of a recording of whole calls */
    const char *source;
    recorder_asks asks;
    cr_status failed; /* the first failure: the record is incomplete */
    char why[CR_SCRATCH_BYTES];
    recorder_thread was;
};

/* COUNTED: the recorder has a reference.  WATCHED: it has none.  TAKEN: it took the last
 * reference of a dying tensor.  GONE: the tensor was freed. */
enum { COUNTED, WATCHED, TAKEN, GONE };

static CR_THREAD cr_recorder *active, *borrowers;
static char gone; /* value of freed tensors in the maps */

cr_recorder *cr_recorder_active(void) { return active; }

uint64_t cr_recorder_serial(const cr_recorder *r) { return r ? r->serial : 0; }

cr_recorder *cr_recorder_pause(void)
{
    cr_recorder *r = active;

    active = NULL;
    return r;
}

void cr_recorder_resume(cr_recorder *r) { active = r; }

static void new_graph(cr_session *s, void *context)
{
    cr_recorder *r = context;

    r->g = cr_graph_new(s);
    r->g->parts = r->kind.parts;
}

cr_status cr_recorder_new(cr_recorder **out, bool parts)
{
    static atomic_uint_fast64_t last;
    cr_recorder *r = cr_alloc_zero(sizeof *r);
    cr_status st;

    CR_NEED(r);
    r->serial = atomic_fetch_add(&last, 1) + 1;
    r->kind.parts = parts;
    r->session = cr_session_new();
    st = r->session ? cr_session_run(r->session, new_graph, r) : CR_MEMORY;
    CR_GIVE(st, out, r, cr_recorder_drop);
}

void cr_recorder_record_copies(cr_recorder *r) { r->kind.copies = true; }

void cr_recorder_record_whole(cr_recorder *r) { r->kind.whole = true; }

void cr_recorder_sized_apart(cr_recorder *r, bool apart) { r->kind.apart = apart; }

const cr_graph *cr_recorder_graph(const cr_recorder *r) { return r->g; }

/* At most one recorder watches a tensor. */
void cr_recorder_borrow(cr_recorder *r)
{
    if (!r->kind.borrows) {
        r->outer = borrowers;
        borrowers = r;
    }
    r->kind.borrows = true;
}

static void leave_borrowers(cr_recorder *r)
{
    cr_recorder **at = &borrowers;

    while (*at && *at != r)
        at = &(*at)->outer;
    if (*at)
        *at = r->outer;
}

void cr_recorder_drop(cr_recorder *r)
{
    if (!r)
        return;
    if (active == r)
        cr_recorder_stop(r);
    leave_borrowers(r);
    for (size_t i = 0; i < r->tensors.seen.len; i++) {
        if (r->tensors.held.at[i] == WATCHED || r->tensors.held.at[i] == TAKEN)
            r->tensors.seen.at[i]->watched = false;
        if (r->tensors.held.at[i] == TAKEN)
            r->tensors.seen.at[i]->storage->followed = false;
        if (r->tensors.held.at[i] == COUNTED || r->tensors.held.at[i] == TAKEN)
            cr_drop(r->tensors.seen.at[i]);
    }
    for (size_t i = 0; i < r->computed.len; i++)
        cr_drop(r->computed.at[i].as);
    cr_vec_drop(&r->computed);
    cr_vec_drop(&r->sparse);
    cr_vec_drop(&r->tensors.seen);
    cr_vec_drop(&r->tensors.held);
    cr_vec_drop(&r->tensors.before);
    cr_vec_drop(&r->tensors.foreign);
    cr_map_drop(&r->tensors.values);
    cr_map_drop(&r->tensors.storages);
    cr_graph_drop(r->g);
    cr_session_release(r->session);
    cr_free(r);
}

/* --- tensors and values --- */

static cr_gvalue *recorded_value(const cr_recorder *r, const cr_tensor *t)
{
    void *v = cr_map_get(&r->tensors.values, (const char *)&t, sizeof t);

    return v == &gone ? NULL : v;
}

/* The key of all tensors over the same bytes, also of those made by `.data`. */
static const void *bytes_key(const cr_tensor *t) { return cr_storage_key(t->storage); }

static size_t last_over(const cr_recorder *r, const void *bytes)
{
    void *at = cr_map_get(&r->tensors.storages, (const char *)&bytes, sizeof bytes);

    return at == &gone ? 0 : (size_t)(uintptr_t)at;
}

static void record_tensor(cr_recorder *r, cr_tensor *t, cr_gvalue *v)
{
    cr_session *s = r->session;
    const void *bytes = bytes_key(t);

    cr_session_check(s, cr_vec_reserve(&r->tensors.seen, 1));
    cr_session_check(s, cr_vec_reserve(&r->tensors.before, 1));
    cr_session_check(s, cr_vec_reserve(&r->tensors.held, 1));
    if (r->kind.whole && cr_is_sparse(t)) {
        cr_session_check(s, cr_vec_reserve(&r->sparse, 1));
        cr_vec_put(&r->sparse, ((sparse_value){v, t}));
    }
    cr_session_check(s, cr_map_set(&r->tensors.values, (const char *)&t, sizeof t, v));
    /* Constants have a reference anyway.  A tensor that another recorder watches gets one. */
    bool watch = r->kind.borrows && !(v->by && v->by->kind == CR_GNODE_CONSTANT) && !t->watched;
    cr_vec_put(&r->tensors.before, last_over(r, bytes));
    cr_vec_put(&r->tensors.held, watch ? WATCHED : COUNTED);
    cr_vec_put(&r->tensors.seen, watch ? t : cr_keep(t));
    t->watched = t->watched || watch;
    cr_session_check(s, cr_map_set(&r->tensors.storages, (const char *)&bytes, sizeof bytes,
                                   (void *)(uintptr_t)r->tensors.seen.len));
}

/* --- watched tensors --- */

/* Index + 1 of `t` in `seen`; 0 when the recorder does not know it. */
static size_t place_in_chain(const cr_recorder *r, const cr_tensor *t)
{
    size_t i = last_over(r, bytes_key(t));

    while (i && (r->tensors.held.at[i - 1] == GONE || r->tensors.seen.at[i - 1] != t))
        i = r->tensors.before.at[i - 1];
    return i;
}

static bool is_taken_of(const cr_recorder *r, size_t i, const cr_storage *s)
{
    return r->tensors.held.at[i - 1] == TAKEN && r->tensors.seen.at[i - 1]->storage == s;
}

/* Number of tensors of the storage whose last reference the recorder took. */
static int count_taken(const cr_recorder *r, const void *bytes, const cr_storage *s)
{
    int n = 0;

    for (size_t i = last_over(r, bytes); i; i = r->tensors.before.at[i - 1])
        n += is_taken_of(r, i, s);
    return n;
}

/* Whether only the recorder, `dying` tensors and calls that wait use the storage. */
static bool is_left(const cr_recorder *r, const void *bytes, const cr_storage *s, int dying)
{
    return atomic_load(&s->count) == count_taken(r, bytes, s) + dying + cr_defer_references(s);
}

/* Leaves the tensor watched when out of memory. */
static void record_forget(cr_recorder *r, size_t i)
{
    cr_tensor *t = r->tensors.seen.at[i - 1];
    bool taken = r->tensors.held.at[i - 1] == TAKEN;

    if (cr_map_set(&r->tensors.values, (const char *)&t, sizeof t, &gone))
        return;
    r->tensors.held.at[i - 1] = GONE;
    t->watched = false;
    if (taken)
        cr_drop(t);
}

/* Forgets the tensors of a storage that only the recorder uses: seen[own - 1], which is dying,
 * unless `own` is 0, and the taken ones.  Removes the bytes from the map when no tensor is
 * left. */
static void forget_storage(cr_recorder *r, const void *bytes, cr_storage *s, size_t own)
{
    bool left = false;

    s->followed = false;
    for (size_t i = last_over(r, bytes), before; i; i = before) {
        before = r->tensors.before.at[i - 1];
        if (i == own || is_taken_of(r, i, s))
            record_forget(r, i);
        left = left || r->tensors.held.at[i - 1] != GONE;
    }
    if (!left && cr_map_set(&r->tensors.storages, (const char *)&bytes, sizeof bytes, &gone))
        return; /* then searches visit freed tensors */
}

/* Takes the last reference of a dying tensor whose storage others use, and drops its autograd
 * history. */
static void record_take(cr_recorder *r, size_t i, cr_tensor *t)
{
    cr_grad_meta *history = t->grad;

    atomic_store(&t->count, 1);
    r->tensors.held.at[i - 1] = TAKEN;
    t->storage->followed = true;
    t->grad = NULL;
    if (history)
        cr_grad_meta_drop(history); /* may free `t` */
}

static bool watched_dies(cr_tensor *t)
{
    for (cr_recorder *r = borrowers; r; r = r->outer) {
        size_t i = place_in_chain(r, t);
        if (!i || r->tensors.held.at[i - 1] != WATCHED)
            continue;
        if (!is_left(r, bytes_key(t), t->storage, 1)) {
            record_take(r, i, t);
            return true;
        }
        forget_storage(r, bytes_key(t), t->storage, i);
        if (t->watched) /* forget failed: the tensor lives on */
            atomic_store(&t->count, 1);
        return t->watched;
    }
    /* A recorder of another thread watches it: it is never freed. */
    atomic_store(&t->count, 1);
    return true;
}

/* Index + 1 of a taken tensor over the bytes whose storage only the recorder uses; 0: none. */
static size_t find_left(const cr_recorder *r, const void *bytes)
{
    size_t i = last_over(r, bytes);

    while (i && (r->tensors.held.at[i - 1] != TAKEN ||
                 !is_left(r, bytes, r->tensors.seen.at[i - 1]->storage, 0)))
        i = r->tensors.before.at[i - 1];
    return i;
}

static void followed_loses(const void *bytes)
{
    for (cr_recorder *r = borrowers; r; r = r->outer) {
        size_t i = find_left(r, bytes);
        if (i)
            forget_storage(r, bytes, r->tensors.seen.at[i - 1]->storage, 0);
    }
}

/* A tensor of a storage whose calls have run may not have its address yet. */
static bool same_elements(const cr_tensor *a, const cr_tensor *b)
{
    return (a->storage == b->storage || (cr_same_start(a, b) && !cr_is_sparse(a))) &&
           a->offset == b->offset && a->layout == b->layout && a->dtype == b->dtype &&
           a->conj == b->conj && a->neg == b->neg && a->ndim == b->ndim &&
           !memcmp(a->size, b->size, a->ndim * sizeof *a->size) &&
           !memcmp(a->stride, b->stride, a->ndim * sizeof *a->stride);
}

/* The latest known tensor with exactly the elements of `t`, or NULL.  *shared is the latest
 * known tensor over the same bytes, or NULL. */
static cr_tensor *twin(const cr_recorder *r, const cr_tensor *t, const cr_tensor **shared)
{
    size_t i = last_over(r, bytes_key(t));

    while (i && r->tensors.held.at[i - 1] == GONE)
        i = r->tensors.before.at[i - 1];
    *shared = i ? r->tensors.seen.at[i - 1] : NULL;
    for (; i; i = r->tensors.before.at[i - 1])
        if (r->tensors.held.at[i - 1] != GONE && same_elements(r->tensors.seen.at[i - 1], t))
            return r->tensors.seen.at[i - 1];
    return NULL;
}

/* Records a detach: `t` requires no gradient, and the value with its elements does. */
static cr_gvalue *detached(cr_recorder *r, cr_tensor *t, cr_gvalue *v)
{
    const cr_op *op = cr_entry.detach;
    cr_garg arg = cr_garg_value(v);
    cr_gnode *n = cr_graph_call(r->g, r->g->body, op, &arg, 1, NULL);

    n->source = r->source;
    n->result[0]->type = cr_gtype_of(r->session, t);
    record_tensor(r, t, n->result[0]);
    return n->result[0];
}

/* Whether `t`, which has the elements of `same`, may have another history: of a part of a call,
 * in which the program made `t` of an input between this part and an earlier one. */
static bool has_own_history(const cr_recorder *r, const cr_tensor *t, const cr_tensor *same)
{
    const cr_gvalue *v = recorded_value(r, same);

    return r->asks.ends && t->requires_grad && (!v->by || v->by->kind == CR_GNODE_CONSTANT);
}

static cr_gvalue *record_value(cr_recorder *r, cr_tensor *t)
{
    cr_gvalue *v = recorded_value(r, t);
    const cr_tensor *shared;
    cr_tensor *same;

    if (v)
        return v;
    same = twin(r, t, &shared);
    if (same && !r->kind.parts && same->requires_grad && !t->requires_grad)
        return detached(r, t, recorded_value(r, same));
    if (same && !has_own_history(r, t, same))
        return recorded_value(r, same);
    if (shared && !same)
        cr_bail(r->session, CR_RUNTIME,
                "a view of %%%s was made in a way that recording does not see",
                recorded_value(r, shared)->name);
    v = cr_graph_constant(r->g, r->g->body, t, NULL);
    record_tensor(r, t, v);
    cr_session_check(r->session, cr_vec_reserve(&r->tensors.foreign, 1));
    cr_vec_put(&r->tensors.foreign, t);
    return v;
}

/* --- one call --- */

typedef struct {
    cr_recorder *r;
    const cr_op *op;
    const cr_value *arg;
    cr_value *result;
    cr_garg made[CR_MAX_ARGS];
} call_record;

static cr_garg record_arg(call_record *c, const cr_value *v)
{
    cr_garg a = {.tag = v->tag, .len = v->len};

    switch (v->tag) {
    case CR_TENSOR:
        /* A Python number that was wrapped in a tensor is recorded as a literal. */
        if (v->t->number && !recorded_value(c->r, v->t)) {
            cr_scalar s;
            cr_session_check(c->r->session, cr_tensor_item(&s, v->t));
            return (cr_garg){.tag = CR_NUMBER, .number = s};
        }
        return cr_garg_value(record_value(c->r, v->t));
    case CR_TENSORS:
    case CR_NUMBERS: {
        cr_garg *list = CR_NEW_N(c->r->session, cr_garg, v->len);
        for (uint32_t i = 0; i < v->len; i++)
            list[i] = record_arg(c, &v->list[i]);
        a.list = list;
        return a;
    }
    case CR_VIEW: cr_bail(c->r->session, CR_RUNTIME, "%s reads plain memory", c->op->name);
    case CR_GENERATOR:
        if (v->generator)
            cr_bail(c->r->session, CR_RUNTIME, "%s draws from a generator of its own",
                    c->op->name);
        return a;
    default: memcpy(&a.number, &v->number, sizeof a.number); return a;
    }
}

static void record_args(cr_session *s, void *context)
{
    call_record *c = context;

    (void)s;
    for (int i = 0; i < c->op->param_count; i++)
        c->made[i] = record_arg(c, &c->arg[i]);
}

static void know_result(call_record *c, cr_gvalue *v, cr_tensor *t)
{
    v->type = cr_gtype_of(c->r->session, t);
    record_tensor(c->r, t, v);
}

static bool any_requires_grad(const cr_value *x)
{
    for (uint32_t k = 0; x->tag == CR_TENSORS && k < x->len; k++)
        if (x->list[k].tag == CR_TENSOR && x->list[k].t->requires_grad)
            return true;
    return x->tag == CR_TENSOR && x->t->requires_grad;
}

static bool writes_unseen(const call_record *c)
{
    for (int i = 0; cr_thread.no_grad && i < c->op->param_count; i++)
        if (c->op->param[i].written && any_requires_grad(&c->arg[i]))
            return true;
    return false;
}

static void record_results(cr_session *s, void *context)
{
    call_record *c = context;
    cr_recorder *r = c->r;
    const cr_value *list = c->result;
    int n = c->op->result_count;

    (void)s;
    if (n == 1 && c->result[0].tag == CR_TENSORS) {
        list = c->result[0].list;
        n = (int)c->result[0].len;
    }
    cr_gnode *node = cr_graph_call(r->g, r->g->body, c->op, c->made, n, NULL);
    bool symbolic = r->g->numbers.list.len && cr_gnode_sizes_vary(node);
    node->source = r->source;
    node->no_grad = writes_unseen(c);
    node->autocast = cr_thread.converts;
    node->same = symbolic && cr_op_gives_back(c->op, c->arg, c->result);
    for (int k = 0; k < n; k++) {
        node->result[k]->symbolic = symbolic ? UINT64_MAX : 0;
        if (list[k].tag == CR_TENSOR)
            know_result(c, node->result[k], list[k].t);
        else if (list[k].tag != CR_NONE)
            cr_bail(r->session, CR_RUNTIME, "%s gives a number, which no graph holds",
                    c->op->name);
    }
}

static void note_failure(cr_recorder *r, cr_status st)
{
    if (!st || r->failed)
        return;
    r->failed = st;
    snprintf(r->why, sizeof r->why, "%s", cr_error_message());
}

/* Asks for the source line that makes the call. */
static void find_source(cr_recorder *r)
{
    const char *text = r->asks.where ? r->asks.where(r->asks.where_context, r->session) : NULL;

    if (text)
        r->source = text;
}

/* Records c->result as the clone of a constant, c->arg. */
static void add_literal(cr_session *s, void *context)
{
    call_record *c = context;
    cr_graph *g = c->r->g;
    cr_garg arg[CR_MAX_ARGS] = {
        cr_garg_value(cr_graph_constant(g, g->body, c->arg[0].t, NULL))};
    cr_gnode *n = cr_graph_call(g, g->body, cr_entry.clone, arg, 1, NULL);

    (void)s;
    n->source = c->r->source;
    know_result(c, n->result[0], c->result[0].t);
}

/* The constant is a copy, because the program may write to the literal. */
void cr_recorder_literal(cr_tensor *t)
{
    cr_recorder *r = cr_recorder_pause();
    cr_value value = cr_of_tensor(t), copy;
    call_record c = {.r = r, .arg = &copy, .result = &value};
    uint32_t was = cr_thread.exclude;
    cr_status st;

    if (r && !r->failed && !recorded_value(r, t)) {
        cr_thread.exclude |= CR_STAGE_BIT(PYTHON); /* a handler may return a fake */
        st = cr_call_tensor(&copy.t, cr_entry.clone, &value, 1);
        cr_thread.exclude = was;
        copy.tag = CR_TENSOR;
        find_source(r);
        if (!st) {
            st = cr_session_run(r->session, add_literal, &c);
            cr_drop(copy.t);
        }
        note_failure(r, st);
    }
    cr_recorder_resume(r);
}

void cr_recorder_ends(cr_recorder *r, cr_recorder_end ends, void *context)
{
    r->asks.ends = ends;
    r->asks.ends_context = context;
}

static bool is_made(const cr_recorder *r, size_t i)
{
    const cr_gvalue *v = r->tensors.held.at[i] == WATCHED || r->tensors.held.at[i] == COUNTED
                             ? recorded_value(r, r->tensors.seen.at[i])
                             : NULL;

    return v && v->by && v->by->kind == CR_GNODE_CALL && r->tensors.seen.at[i]->peer;
}

size_t cr_recorder_made(const cr_recorder *r, cr_tensor **out)
{
    size_t n = 0;

    for (size_t i = 0; i < r->tensors.seen.len; i++)
        if (is_made(r, i)) {
            if (out)
                out[n] = r->tensors.seen.at[i];
            n++;
        }
    return n;
}

int cr_recorder_kept(const cr_recorder *r, const cr_tensor *t)
{
    return count_taken(r, bytes_key(t), t->storage);
}

static void refuse(const char *why, bool of_size)
{
    if (active && active->asks.ends)
        active->asks.ends(active->asks.ends_context, why, of_size);
    else if (active && !active->failed)
        note_failure(active, cr_fail(CR_RUNTIME, "%s", why));
}

void cr_recorder_refuse(const char *why) { refuse(why, false); }

void cr_recorder_gets_history(const cr_tensor *t)
{
    cr_gvalue *v = active ? recorded_value(active, t) : NULL;

    if (v && !v->by && active->asks.ends)
        v->type.requires_grad = t->requires_grad;
}

bool cr_recorder_has_parts(void) { return active && active->kind.parts; }

bool cr_recorder_is_whole(void) { return active && active->kind.whole; }

bool cr_recorder_has_failed(void) { return active && active->failed; }

static void record_cut(cr_session *s, void *context)
{
    call_record *c = context;
    cr_tensor *t = c->arg[0].t;
    const cr_tensor *shared;
    cr_tensor *same = recorded_value(c->r, t) ? t : twin(c->r, t, &shared);
    cr_gvalue *v = same ? recorded_value(c->r, same) : NULL;

    (void)s;
    if (v && v->type.requires_grad && (v->by || same != t))
        detached(c->r, t, v)->type.requires_grad = false;
}

void cr_recorder_cut(cr_tensor *t)
{
    call_record c = {.r = active, .arg = &(cr_value){.tag = CR_TENSOR, .t = t}};

    if (active && !active->failed)
        note_failure(active, cr_session_run(active->session, record_cut, &c));
}

void cr_recorder_note_backward(void)
{
    if (active)
        active->kind.backward = true;
}

bool cr_recorder_saw_backward(const cr_recorder *r) { return r->kind.backward; }
bool cr_recorder_fixed_floats(const cr_recorder *r) { return r->kind.fixes; }

size_t cr_recorder_foreign(const cr_recorder *r, cr_tensor *const **out)
{
    *out = r->tensors.foreign.at;
    return r->tensors.foreign.len;
}

/* True when the calls that an entry makes may be recorded in its place, as autograd does: it
 * has no derivative.  Entries that write are left out, because they may write without a
 * call. */
static bool has_parts(const cr_op *op)
{
    if (op->custom == CR_CUSTOM_OPAQUE)
        return false;
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].written)
            return false;
    return (op->does == CR_DOES_IS || op->does == CR_DOES_WHOLE) && !op->differentiable &&
           !op->fused &&
           !(op->words & (CR_WORD_RANDOM | CR_WORD_CHECKS | CR_WORD_MEETS | CR_WORD_SPARSE));
}

cr_handled (*cr_recorder_handling)(const cr_op *op, const cr_value *arg);

static bool value_has_symbol(const cr_value *v);
static bool fails_without_bytes(const cr_op *op, const cr_value *arg);

static bool needs_elements(const cr_op *op, const cr_value *arg)
{
    cr_recorder *r = cr_recorder_pause();
    uint32_t was = cr_thread.exclude;

    cr_thread.exclude |= CR_STAGE_BIT(PYTHON); /* a handler answers for its own tensors */
    bool fails = fails_without_bytes(op, arg);
    cr_thread.exclude = was;
    cr_recorder_resume(r);
    return fails;
}

/* Operators whose sizes depend on elements, where a handler of Python makes the results. */
static bool is_apart(const cr_op *op, const cr_value *arg)
{
    if (!active->kind.apart || !cr_op_reaches(op, CR_WORD_BIT_SIZED_BY_VALUES) ||
        op->words & CR_WORD_SPARSE || cr_any_tensor(op, arg, cr_is_sparse))
        return false;
    for (int i = 0; i < op->param_count; i++)
        if (value_has_symbol(&arg[i]))
            return false;
    return op->words & CR_WORD_SIZED_BY_VALUES ||
           (op->does == CR_DOES_IS && has_parts(op) && needs_elements(op, arg));
}

static cr_handled record_handling(const cr_op *op, const cr_value *arg)
{
    if (active->kind.whole)
        return is_apart(op, arg) ? CR_HANDLED_PARTS : CR_HANDLED_WHOLE;
    return cr_recorder_handling ? cr_recorder_handling(op, arg) : CR_HANDLED_NOT;
}

static bool knows_all(const cr_recorder *r, const cr_value *v, int n)
{
    const cr_tensor *shared;

    for (int k = 0; k < n; k++) {
        if (v[k].tag == CR_TENSORS ? !knows_all(r, v[k].list, (int)v[k].len)
                                   : v[k].tag == CR_TENSOR && !recorded_value(r, v[k].t) &&
                                         !twin(r, v[k].t, &shared))
            return false;
    }
    return true;
}

void cr_recorder_follow(cr_recorder *r, cr_recorder_where where, void *context)
{
    r->asks.where = where;
    r->asks.where_context = context;
}

/* --- symbols --- */

/* The value of a symbol in this call.  Other numbers are returned unchanged. */
static cr_scalar symbol_seen(const cr_recorder *r, cr_scalar s)
{
    int k = cr_gnum_of(s);

    return k < 0 ? s : r->g->numbers.list.at[k].value;
}

static bool value_has_symbol(const cr_value *v)
{
    switch (v->tag) {
    case CR_INT: return cr_gnum_is_int(v->i);
    case CR_FLOAT: return cr_gnum_is_float(v->d);
    case CR_NUMBER: return cr_gnum_of(v->number) >= 0;
    case CR_INTS:
        for (uint32_t i = 0; i < v->len; i++)
            if (cr_gnum_is_int(v->ints[i]))
                return true;
        return false;
    case CR_FLOATS:
        for (uint32_t i = 0; i < v->len; i++)
            if (cr_gnum_is_float(v->floats[i]))
                return true;
        return false;
    case CR_NUMBERS:
        for (uint32_t i = 0; i < v->len; i++)
            if (cr_gnum_of(v->list[i].number) >= 0)
                return true;
        return false;
    default: return false;
    }
}

static cr_status decode(cr_value *out, const cr_recorder *r, const cr_value *v, cr_arena *room)
{
    *out = *v;
    switch (v->tag) {
    case CR_INT: out->i = symbol_seen(r, cr_scalar_int(v->i)).i; return CR_OK;
    case CR_FLOAT:
        out->d = cr_scalar_as_double(symbol_seen(r, cr_scalar_float(v->d)));
        return CR_OK;
    case CR_NUMBER: out->number = symbol_seen(r, v->number); return CR_OK;
    default: break;
    }
    char *list = cr_arena_get(room, v->len * sizeof *v->list + 1);
    CR_NEED(list);
    for (uint32_t i = 0; i < v->len; i++) {
        if (v->tag == CR_INTS)
            ((int64_t *)(void *)list)[i] = symbol_seen(r, cr_scalar_int(v->ints[i])).i;
        else if (v->tag == CR_FLOATS)
            ((double *)(void *)list)[i] =
                cr_scalar_as_double(symbol_seen(r, cr_scalar_float(v->floats[i])));
        else {
            cr_value *item = (cr_value *)(void *)list + i;
            *item = v->list[i];
            item->number = symbol_seen(r, v->list[i].number);
        }
    }
    out->ints = (const int64_t *)(const void *)list;
    return CR_OK;
}

static bool record_needs_grad(const cr_tensor *t) { return t->requires_grad; }

/* True when autograd saves the call's numbers for its formulas.  Formulas are not recorded with
 * symbols, so guards fix these numbers. */
static bool keeps_numbers(const cr_op *op, const cr_value *arg)
{
    return !cr_thread.no_grad && cr_any_tensor(op, arg, record_needs_grad);
}

static void fix_number(cr_recorder *r, cr_scalar s)
{
    int k = cr_gnum_of(s);

    if (k < 0 || s.category != CR_CAT_FLOAT)
        return;
    cr_recorder_ask(r, CR_GNUM_EQ, k, cr_recorder_plain_number(r, symbol_seen(r, s)));
    r->kind.fixes = true;
}

static void fix_numbers(cr_recorder *r, const cr_value *v)
{
    if (v->tag == CR_FLOAT)
        fix_number(r, cr_scalar_float(v->d));
    else if (v->tag == CR_NUMBER)
        fix_number(r, v->number);
    /* `len` is undefined unless the value is a list. */
    for (uint32_t i = 0; v->tag == CR_FLOATS && i < v->len; i++)
        fix_number(r, cr_scalar_float(v->floats[i]));
    for (uint32_t i = 0; v->tag == CR_NUMBERS && i < v->len; i++)
        fix_number(r, v->list[i].number);
}

static cr_status record_call(const cr_op *op, const cr_value *arg, const cr_value *shown,
                             cr_value *result);

/* Records the call with its symbols and runs the operator with their values. */
static cr_status record_decoded(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_value plain[CR_MAX_ARGS];
    cr_arena room = {0};
    cr_status st = CR_OK;
    bool keeps = keeps_numbers(op, arg);

    for (int i = 0; !st && i < op->param_count; i++) {
        plain[i] = arg[i];
        if (!value_has_symbol(&arg[i]))
            continue;
        if (keeps)
            fix_numbers(active, &arg[i]);
        st = decode(&plain[i], active, &arg[i], &room);
    }
    if (!st)
        st = record_call(op, plain, arg, result);
    cr_arena_drop(&room);
    return st;
}

static bool autocasts(void)
{
    return cr_thread.include & ~cr_thread.exclude & CR_STAGE_BIT(AUTOCAST);
}

/* --- sparse tensors --- */

/* Whether a tensor is one of the parts of a sparse argument. */
static bool record_is_part(const cr_op *op, const cr_value *arg, const cr_tensor *t)
{
    for (int i = 0; i < op->param_count; i++) {
        if (arg[i].tag != CR_TENSOR || !cr_is_sparse(arg[i].t))
            continue;
        const cr_sparse *p = cr_sparse_of(arg[i].t);
        const cr_tensor *part[] = {p->compressed, p->indices, p->values};
        for (size_t k = 0; k < CR_LEN(part); k++)
            if (part[k] && part[k]->storage == t->storage)
                return true;
    }
    return false;
}

/* Calls that are recorded whole run on tensors without elements, of which sparse ones have no
 * items.  So what reads how many items there are is refused; numbers of dims, and whether a
 * tensor is coalesced, are those of this call. */
static cr_status record_sparse_call(const cr_op *op, const cr_value *arg, cr_value *result)
{
    if (!active->kind.whole) {
        cr_recorder_refuse("a sparse tensor is used");
        return cr_call_below(CR_STAGE_CAPTURE, op, arg, result);
    }
    if (active->g->numbers.list.len) {
        cr_recorder_refuse("a sparse tensor is used in a program with numbers that vary");
        return cr_call_below(CR_STAGE_CAPTURE, op, arg, result);
    }
    if (op->result_count == 1 && op->result[0].type != CR_T_TENSOR &&
        op->result[0].type != CR_T_TENSORS) {
        if (op == cr_entry._nnz)
            cr_recorder_refuse("_nnz: the number of a sparse tensor's items depends on its "
                               "elements");
        return cr_call_below(CR_STAGE_CAPTURE, op, arg, result);
    }
    CR_TRY(record_call(op, arg, arg, result));
    if (active && op->result_count == 1 && result[0].tag == CR_TENSOR &&
        !cr_is_sparse(result[0].t) && record_is_part(op, arg, result[0].t)) {
        char why[CR_SCRATCH_BYTES];
        snprintf(why, sizeof why,
                 "%s: the number of a sparse tensor's items depends on its elements", op->name);
        cr_recorder_refuse(why);
    }
    return CR_OK;
}

size_t cr_recorder_sparse(const cr_recorder *r, cr_tensor **out, const char **name)
{
    for (size_t i = 0; out && i < r->sparse.len; i++) {
        out[i] = r->sparse.at[i].tensor;
        name[i] = r->sparse.at[i].value->name;
    }
    return r->sparse.len;
}

static cr_status capture_stage(const cr_op *op, const cr_value *arg, cr_value *result)
{
    if (!active || record_handling(op, arg) == CR_HANDLED_PARTS) {
        bool calls = active && active->kind.whole && op->does == CR_DOES_IS && has_parts(op);
        return calls ? op->kernel_stage(op, arg, result) /* its parts are recorded */
                     : cr_call_below(CR_STAGE_CAPTURE, op, arg, result);
    }
    /* Autocast runs first, so that its conversions are recorded. */
    if (autocasts() && cr_autocast_takes(op, arg))
        return cr_stage_fns[CR_STAGE_AUTOCAST](op, arg, result);
    if (CR_UNLIKELY(op->words & CR_WORD_SPARSE || cr_any_tensor(op, arg, cr_is_sparse)))
        return record_sparse_call(op, arg, result);
    for (int i = 0; active->g->numbers.list.len && i < op->param_count; i++)
        if (value_has_symbol(&arg[i]))
            return record_decoded(op, arg, result);
    return record_call(op, arg, arg, result);
}

/* --- errors --- */

static cr_status fake_of(cr_value *out, const cr_tensor *t)
{
    cr_tensor *made;

    if (cr_is_sparse(t)) {
        *out = cr_of_tensor(cr_keep((cr_tensor *)t));
        return CR_OK;
    }
    CR_TRY(cr_tensor_new_strided(&made, (cr_dtype)t->dtype, cr_as_fake(t->device), t->ndim,
                                 t->size, t->stride));
    made->number = t->number;
    *out = cr_of_tensor(made);
    return CR_OK;
}

/* The argument with fakes of its tensors; cr_drop_values() drops it, also after a failure. */
static cr_status fake_arg(cr_value *out, const cr_value *v)
{
    cr_value *list;

    *out = cr_of_none();
    if (v->tag == CR_TENSOR)
        return fake_of(out, v->t);
    if (v->tag != CR_TENSORS) {
        *out = *v;
        return CR_OK;
    }
    list = cr_alloc_zero(v->len * sizeof *list + 1);
    CR_NEED(list);
    *out = (cr_value){.tag = CR_TENSORS, .len = v->len, .list = list};
    for (uint32_t i = 0; i < v->len; i++)
        CR_TRY(fake_arg(&list[i], &v->list[i]));
    return CR_OK;
}

static cr_status call_on_fakes(const cr_op *op, const cr_value *arg)
{
    cr_value fake[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    cr_status st = CR_OK;
    int n = 0;

    while (!st && n < op->param_count) {
        st = fake_arg(&fake[n], &arg[n]);
        n++;
    }
    if (!st && !(st = cr_call(op, fake, result)))
        cr_drop_values(result, op->result_count);
    cr_drop_values(fake, n);
    return st;
}

/* True if the call also fails on tensors without bytes: the error depends only on dtypes, sizes
 * and other facts that guards check. */
static bool fails_without_bytes(const cr_op *op, const cr_value *arg)
{
    cr_thread_state was = cr_thread;

    cr_thread.no_grad = cr_thread.fakes = true;
    cr_status st = call_on_fakes(op, arg);
    cr_thread = was;
    return st && st != CR_MEMORY;
}

/* The program may catch the error.  The recording is then valid only if every later call raises
 * the same error. */
static cr_status record_error(const cr_op *op, const cr_value *arg, cr_status st)
{
    cr_recorder *r = cr_recorder_pause();

    if (!r || r->failed) {
        cr_recorder_resume(r);
        return st;
    }
    char *text = cr_strdup(cr_error_message());
    if (st == CR_PYTHON || r->g->numbers.list.len || !fails_without_bytes(op, arg))
        note_failure(r, cr_fail(CR_RUNTIME,
                                "%s raises an error that may depend on values, and the program "
                                "catches it",
                                op->name));
    cr_recorder_resume(r);
    st = cr_fail(st, "%s", text ? text : "");
    cr_free(text);
    return st;
}

/* --- the bits conj and neg --- */

static cr_status record_plain_call(const cr_op *op, const cr_op *as, const cr_value *arg,
                                   const cr_value *shown, cr_value *result);

static cr_status record_as_itself(const cr_op *op, const cr_value *arg, cr_value *result)
{
    return record_plain_call(op, op, arg, arg, result);
}

/* Records copy_ to a tensor with bits as copy_ to its stored numbers. */
static cr_status record_stored_copy(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_tensor *to = arg[0].t, *stored = cr_keep(to), *from = cr_keep(arg[1].t);
    const cr_op *const view[] = {cr_entry._conj, cr_entry._neg_view},
                       *const computed[] = {cr_entry._conj_physical, cr_entry.neg};
    const bool on[] = {to->conj, to->neg};
    cr_tensor *made;
    cr_status st = CR_OK;

    for (int i = 0; i < 2; i++) {
        cr_value a = cr_of_tensor(stored), b = cr_of_tensor(from);
        if (!on[i])
            continue;
        CR_GO(cr_call_tensor(&made, view[i], &a, 1));
        cr_drop(stored);
        stored = made;
        if (i == 0 && !cr_dtype_is_complex((cr_dtype)from->dtype))
            continue;
        CR_GO(cr_call_tensor(&made, computed[i], &b, 1));
        cr_drop(from);
        from = made;
    }
    CR_GO(cr_call_given(result, op,
                        (cr_value[]){cr_of_tensor(stored), cr_of_tensor(from), arg[2]}, 3));
    cr_drop_values(result, 1);
    result[0] = cr_of_tensor(cr_keep(to));
done:
    cr_drop(from);
    cr_drop(stored);
    return st;
}

/* The numbers that an earlier call computed for the tensor; NULL when there are none. */
static cr_tensor *record_computed(const cr_recorder *r, const cr_gvalue *v, const cr_tensor *t)
{
    bool grad = t->requires_grad && !cr_thread.no_grad;

    for (size_t i = 0; v && i < r->computed.len; i++) {
        const computed_bits *c = &r->computed.at[i];
        if (c->of == v && c->version == t->storage->version && c->as->requires_grad == grad)
            return c->as;
    }
    return NULL;
}

/* Records the computation once for all calls that read the tensor: backward then sums their
 * cotangents before it conjugates, as it does for the view in eager mode. */
static cr_status record_resolved(cr_tensor **out, cr_tensor *t)
{
    cr_recorder *r = active;
    const cr_gvalue *v = recorded_value(r, t);
    cr_tensor *known = record_computed(r, v, t);

    if (known) {
        *out = cr_keep(known);
        return CR_OK;
    }
    if (v)
        CR_TRY(cr_vec_reserve(&r->computed, 1));
    CR_TRY(cr_tensor_resolved_by_calls(out, t));
    if (v)
        cr_vec_put(&r->computed, ((computed_bits){v, t->storage->version, cr_keep(*out)}));
    return CR_OK;
}

/* True when the call neither returns nor writes the memory of an argument. */
static bool record_only_reads(const cr_op *op)
{
    bool writes = op->updates.params;

    for (int i = 0; i < op->param_count; i++)
        writes = writes || op->param[i].written;
    return !writes && !cr_op_may_view(op);
}

/* A value of a graph has the stored numbers of its tensor.  So a view is recorded
 * unchanged, and a view that changes bits is recorded as `alias`.  Any other call is recorded
 * with arguments without bits, which recorded calls compute. */
static cr_status record_with_bits(const cr_op *op, const cr_value *arg, const cr_value *shown,
                                  cr_value *result)
{
    bool view = op->words & (CR_WORD_VIEW | CR_WORD_RESETS);

    if (view && op->words & CR_WORD_BITS)
        return record_plain_call(op, cr_entry.alias, arg, shown, result);
    if (view)
        return record_plain_call(op, op, arg, shown, result);
    if (op == cr_entry.copy_ && cr_is_lazy(arg[0].t))
        return record_stored_copy(op, arg, result);
    if (cr_op_takes_bits(op) && !op->differentiable && has_parts(op))
        return cr_defer_by_parts(op, arg, result);
    return cr_call_resolved(
        record_as_itself, record_only_reads(op) ? record_resolved : cr_tensor_resolved_by_calls,
        op, arg, result);
}

static cr_status record_call(const cr_op *op, const cr_value *arg, const cr_value *shown,
                             cr_value *result)
{
    if (CR_UNLIKELY(!active->failed && (op->words & CR_WORD_BITS || cr_any_lazy(op, arg))))
        return record_with_bits(op, arg, shown, result);
    return record_plain_call(op, op, arg, shown, result);
}

static bool has_lazy(const cr_value *v, int n)
{
    for (int k = 0; k < n; k++)
        if (v[k].tag == CR_TENSORS ? has_lazy(v[k].list, (int)v[k].len)
                                   : v[k].tag == CR_TENSOR && v[k].t && cr_is_lazy(v[k].t))
            return true;
    return false;
}

/* Runs a call and records it as a call of `as` with the arguments `shown`.  With parts, the
 * calls that the entry makes are recorded, and the entry itself only when one of its results
 * was made without a call. */
static cr_status record_plain_call(const cr_op *op, const cr_op *as, const cr_value *arg,
                                   const cr_value *shown, cr_value *result)
{
    call_record c = {.r = active, .op = as, .arg = shown, .result = result};
    bool parts, outer = cr_sizes_of_values; /* of the enclosing call */
    bool view = op->words & (CR_WORD_VIEW | CR_WORD_RESETS);

    if (active->failed)
        return cr_call_below(CR_STAGE_CAPTURE, op, arg, result);
    /* Under autocast the arguments of the calls that an entry makes may be converted. */
    parts = (active->kind.parts || autocasts() || op->custom) && shown == arg &&
            has_parts(op) && record_handling(op, arg) != CR_HANDLED_WHOLE;
    find_source(active);
    note_failure(active, cr_session_run(active->session, record_args, &c));
    cr_sizes_of_values = false;
    cr_status st =
        parts ? cr_defer_by_parts(op, arg, result)
        : active->kind.copies && op->does == CR_DOES_INPLACE
            ? cr_call_past(CR_STAGE_CAPTURE, op, arg, result) /* its copies are recorded */
            : cr_call_below(CR_STAGE_CAPTURE, op, arg, result);
    /* Kernels say it of a call, a composition of dense tensors by its word. */
    bool of_values =
        cr_sizes_of_values ||
        (!parts && op->does == CR_DOES_IS &&
         (op->words & (CR_WORD_SIZED_BY_VALUES | CR_WORD_SPARSE)) == CR_WORD_SIZED_BY_VALUES);
    cr_sizes_of_values = outer;
    if (active && active != c.r) /* the graph has ended in the call */
        return st;
    if (st)
        return record_error(op, arg, st);
    if (of_values && active) {
        char why[CR_SCRATCH_BYTES];
        snprintf(why, sizeof why, "%s: the size of the result depends on the values", op->name);
        refuse(why, true);
        if (active != c.r)
            return CR_OK;
    }
    if (active && !parts && as == op && !view && has_lazy(result, op->result_count))
        note_failure(
            active,
            cr_fail(CR_RUNTIME, "%s: the result is a view with the bit conj or neg", op->name));
    if (active && !active->failed && !(parts && knows_all(active, result, op->result_count)))
        note_failure(active, cr_session_run(active->session, record_results, &c));
    return CR_OK;
}

/* --- numbers --- */

typedef struct {
    cr_recorder *r;
    cr_gnumber number;
    cr_gnum_guard guard;
} number_step;

static void step_add_number(cr_session *s, void *context)
{
    number_step *x = context;

    CR_PUSH(s, &x->r->g->numbers.list, x->number);
}

static void step_add_guard(cr_session *s, void *context)
{
    number_step *x = context;

    CR_PUSH(s, &x->r->g->numbers.guards, x->guard);
}

static int new_number(cr_recorder *r, cr_gnumber number)
{
    number_step x = {.r = r, .number = number};
    cr_status st = cr_session_run(r->session, step_add_number, &x);

    note_failure(r, st);
    return st ? -1 : (int)r->g->numbers.list.len - 1;
}

cr_status cr_recorder_number(int *out, cr_recorder *r, cr_scalar value)
{
    *out = new_number(
        r, (cr_gnumber){.fn = CR_GNUM_INPUT, .a = r->g->numbers.inputs, .value = value});
    if (*out < 0)
        return CR_MEMORY;
    r->g->numbers.inputs++;
    return CR_OK;
}

cr_status cr_recorder_dynamic(cr_recorder *r, cr_tensor *input, uint64_t dims)
{
    cr_gvalue *v = recorded_value(r, input);

    if (!v || v->by)
        return cr_fail(CR_VALUE, "only an input has symbolic sizes");
    v->symbolic = dims;
    for (int d = 0; d < input->ndim; d++)
        if (dims >> d & 1 && cr_recorder_size(r, input, d) < 0)
            return CR_MEMORY;
    return CR_OK;
}

int cr_recorder_size(cr_recorder *r, cr_tensor *t, int dim)
{
    const cr_tensor *shared;
    cr_gvalue *v = recorded_value(r, t);
    cr_tensor *same = v ? NULL : twin(r, t, &shared);

    v = same ? recorded_value(r, same) : v;
    if (!v || dim < 0 || dim >= t->ndim || !(v->symbolic >> dim & 1))
        return -1;
    for (size_t k = 0; k < r->g->numbers.list.len; k++) {
        const cr_gnumber *n = &r->g->numbers.list.at[k];
        if (n->fn == CR_GNUM_SIZE && n->of == v && n->a == dim)
            return (int)k;
    }
    return new_number(
        r, (cr_gnumber){
               .fn = CR_GNUM_SIZE, .of = v, .a = dim, .value = cr_scalar_int(t->size[dim])});
}

int cr_recorder_plain_number(cr_recorder *r, cr_scalar value)
{
    return new_number(r, (cr_gnumber){.fn = CR_GNUM_CONST, .value = value});
}

int cr_recorder_apply(cr_recorder *r, cr_gnum_fn fn, int a, int b)
{
    cr_gnumber n = {.fn = (uint8_t)fn, .a = a, .b = b};

    if (a < 0 || b < 0 ||
        !cr_gnum_apply(fn, cr_recorder_value(r, a), cr_recorder_value(r, b), &n.value))
        return -1;
    return new_number(r, n);
}

bool cr_recorder_ask(cr_recorder *r, cr_gnum_test test, int a, int b)
{
    number_step x = {.r = r, .guard = {.test = (uint8_t)test, .a = a, .b = b}};

    if (a < 0 || b < 0) {
        note_failure(r, cr_fail(CR_MEMORY, "out of memory"));
        return false;
    }
    x.guard.holds = cr_gnum_compare(test, cr_recorder_value(r, a), cr_recorder_value(r, b));
    note_failure(r, cr_session_run(r->session, step_add_guard, &x));
    return x.guard.holds;
}

cr_scalar cr_recorder_value(const cr_recorder *r, int k)
{
    return r->g->numbers.list.at[k].value;
}

/* --- from start to end --- */

typedef struct {
    cr_recorder *r;
    cr_tensor *t;
    const char *name;
    cr_tensor *const *output;
    int n;
} step;

static void add_input(cr_session *s, void *context)
{
    step *x = context;
    cr_gtype type = cr_gtype_of_input(s, x->t);

    if (cr_is_lazy(x->t))
        cr_bail(s, CR_RUNTIME, "an input is a view with the bit conj or neg");
    if (x->t->layout && !x->r->kind.whole)
        cr_bail(s, CR_RUNTIME, "an input is a sparse tensor");
    if (recorded_value(x->r, x->t))
        cr_bail(s, CR_VALUE, "a tensor is an input twice");
    record_tensor(x->r, x->t, cr_graph_input(x->r->g, x->name, &type));
}

cr_status cr_recorder_input(cr_recorder *r, cr_tensor *t, const char *name)
{
    step x = {.r = r, .t = t, .name = name};

    CR_TRY(cr_defer_settle(t));
    return cr_session_run(r->session, add_input, &x);
}

cr_status cr_recorder_start(cr_recorder *r)
{
    if (active)
        return cr_fail(CR_RUNTIME, "calls of this thread are being recorded already");
    CR_TRY(cr_defer_flush("a recording"));
    active = r;
    r->was.was_mode = cr_cpu_memory_set_mode(CR_MEMORY_FIT);
    r->was.was_included = cr_thread.include & CR_STAGE_BIT(CAPTURE);
    cr_thread.include |= CR_STAGE_BIT(CAPTURE);
    return CR_OK;
}

void cr_recorder_stop(cr_recorder *r)
{
    if (active != r)
        return;
    active = NULL;
    cr_cpu_memory_set_mode(r->was.was_mode);
    cr_thread.include = (cr_thread.include & ~CR_STAGE_BIT(CAPTURE)) | r->was.was_included;
}

static void set_source(cr_session *s, void *context)
{
    step *x = context;

    x->r->source = cr_session_text(s, x->name);
}

void cr_recorder_at(cr_recorder *r, const char *source)
{
    step x = {.r = r, .name = source};

    if (source && r->source && !strcmp(source, r->source))
        return;
    if (!source || !*source || cr_session_run(r->session, set_source, &x))
        r->source = NULL;
}

/* Bails when the call changed whether an input requires a gradient: a graph cannot. */
static void check_inputs(const cr_recorder *r)
{
    for (size_t i = 0; i < r->tensors.seen.len && i < (size_t)r->g->input_count; i++) {
        const cr_gvalue *v =
            r->tensors.held.at[i] == GONE ? NULL : recorded_value(r, r->tensors.seen.at[i]);
        if (v && !v->by && v->type.requires_grad != r->tensors.seen.at[i]->requires_grad)
            cr_bail(r->g->session, CR_RUNTIME,
                    "the call changes whether %%%s requires a gradient", v->name);
    }
}

/* A detached tensor has the value of the tensor that it was made of, but is another object.  So
 * where that tensor is an input, a constant or another output, the detached one is an output
 * beside it. */
static cr_gvalue *record_output(const step *x, const cr_garg *out, int at)
{
    cr_tensor *t = x->output[at];
    bool known = recorded_value(x->r, t);
    cr_gvalue *v = record_value(x->r, t);
    bool shown = !v->by || v->by->kind == CR_GNODE_CONSTANT;

    if (known || recorded_value(x->r, t) || x->r->kind.parts)
        return v;
    for (int i = 0; i < x->n && !shown; i++)
        shown = x->output[i] && x->output[i] != t &&
                (i < at ? out[i].value : recorded_value(x->r, x->output[i])) == v;
    return shown ? detached(x->r, t, v) : v;
}

static void record_finish(cr_session *s, void *context)
{
    step *x = context;
    cr_garg *out = CR_NEW_N(s, cr_garg, x->n);

    check_inputs(x->r);
    for (int i = 0; i < x->n; i++) {
        cr_gvalue *v = x->output[i] ? record_output(x, out, i) : NULL;
        if (v && v->by && v->by->kind == CR_GNODE_CALL && !x->r->kind.whole &&
            v->type.requires_grad != x->output[i]->requires_grad)
            cr_bail(s, CR_RUNTIME,
                    "a tensor that the call made is made a leaf with a gradient in it");
        if (v)
            cr_gvalue_show_as(s, v, x->output[i]);
        out[i] = cr_garg_value(v);
    }
    cr_gblock_return(x->r->g, x->r->g->body, out, x->n);
    cr_graph_verify(x->r->g);
}

/* Replaces outputs with bits by computed ones, which are recorded.  made[i] is owned. */
static cr_status finish_resolved(cr_recorder *r, cr_tensor *const *output, cr_tensor **made,
                                 int n)
{
    cr_recorder *was = active;
    uint32_t include = cr_thread.include;
    cr_status st = CR_OK;

    active = r;
    cr_thread.include |= CR_STAGE_BIT(CAPTURE);
    for (int i = 0; i < n; i++) {
        made[i] = cr_keep(output[i]);
        if (st || !output[i] || !cr_is_lazy(output[i]))
            continue;
        cr_drop(made[i]);
        made[i] = NULL;
        st = cr_tensor_resolved_by_calls(&made[i], output[i]);
    }
    cr_thread.include = include;
    active = was;
    return st;
}

static cr_status finish_with_bits(cr_graph **out, cr_recorder *r, cr_tensor *const *output,
                                  int n)
{
    cr_tensor **made = cr_alloc_zero((size_t)n * sizeof *made);
    cr_status st = made ? finish_resolved(r, output, made, n) : CR_MEMORY;

    if (st)
        cr_recorder_stop(r);
    else
        st = cr_recorder_finish(out, r, made, n);
    for (int i = 0; made && i < n; i++)
        cr_drop(made[i]);
    cr_free(made);
    return st;
}

static bool finish_has_bits(cr_tensor *const *output, int n)
{
    for (int i = 0; i < n; i++)
        if (output[i] && cr_is_lazy(output[i]))
            return true;
    return false;
}

cr_status cr_recorder_finish(cr_graph **out, cr_recorder *r, cr_tensor *const *output, int n)
{
    step x = {.r = r, .output = output, .n = n};

    if (!r->failed && finish_has_bits(output, n))
        return finish_with_bits(out, r, output, n);
    cr_recorder_stop(r);
    if (r->failed)
        return cr_fail(r->failed, "%s", r->why);
    CR_TRY(cr_session_run(r->session, record_finish, &x));
    *out = r->g;
    return CR_OK;
}

void cr_graph_start(void)
{
    cr_stage_fns[CR_STAGE_CAPTURE] = capture_stage;
    cr_watched_dies = watched_dies;
    cr_followed_loses = followed_loses;
}
