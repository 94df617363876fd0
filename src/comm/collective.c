/* Calls of a group, by messages.
 *
 * First every rank sends a frame to every other one: the description of its call and, when its
 * contribution is small, the bytes.  Frames have one largest size, so that ranks whose calls
 * differ still understand each other.  Where all contributions are small the call ends there,
 * after one step; each rank reduces in the order of ranks, so all get the same bits.  Larger
 * calls go on in a ring, by parts of a segment: a part is reduced while the next one
 * travels. */
#include "base/log.h"
#include "comm/group_impl.h"
#include "comm/wait.h"
#include <stdio.h>
#include <string.h>

enum { SEGMENT = 1 << 19, PAIR_BYTES = 1 << 18, SLICE_MS = CR_WAIT_SLICE_MS };
enum { HALVES_SEGMENT = 1 << 18, HALVES_AHEAD = 4 };
enum { DATA_TAG, FRAME_TAG, RESULT_TAG };
enum { KEY_BYTES = 64 };
#define LEFT_KEY "calls/left" /* ranks that compare no more */

/* --- transfers --- */
static int64_t left_ms(const cr_running *c)
{
    double ms = 1e3 * (c->end - cr_seconds());

    return ms < 0 ? 0 : (int64_t)ms + 1;
}

/* Transfers that were started, for one wait. */
typedef struct {
    void **at;
    int n;
} started;

static cr_status tagged_send(const cr_running *c, started *s, const void *at, size_t n, int to,
                             uint64_t tag)
{
    const cr_engine *e = c->g->engine;

    CR_TRY(e->send(c->g->link, &s->at[s->n], at, n, to, 0, tag));
    s->n++;
    return CR_OK;
}

static cr_status tagged_receive(const cr_running *c, started *s, void *at, size_t n, int from,
                                uint64_t tag)
{
    const cr_engine *e = c->g->engine;

    CR_TRY(e->receive(c->g->link, &s->at[s->n], at, n, from, 0, tag));
    s->n++;
    return CR_OK;
}

static cr_status start_send(const cr_running *c, started *s, const void *at, size_t n, int to)
{
    return tagged_send(c, s, at, n, to, DATA_TAG);
}

static cr_status start_receive(const cr_running *c, started *s, void *at, size_t n, int from)
{
    return tagged_receive(c, s, at, n, from, DATA_TAG);
}

/* Waits for the end of a transfer.  Engines that see no peer's end wait by slices, and peers
 * are looked up in between. */
cr_status cr_transfer_wait(cr_comm *g, void *transfer, double end, int *from)
{
    bool done = false;

    for (;;) {
        double left = 1e3 * (end - cr_seconds());
        int64_t ms = left < 1 ? 1 : (int64_t)left;
        if (g->engine->by_slices && ms > SLICE_MS)
            ms = SLICE_MS;
        CR_TRY(g->engine->wait(g->link, transfer, ms, &done, from));
        if (done)
            return CR_OK;
        if (cr_seconds() >= end || !g->engine->by_slices)
            return cr_fail(CR_COMM, "Timed out");
        if (cr_interrupted())
            return cr_fail(CR_COMM, "the wait was interrupted");
        int ended = g->peers ? cr_peers_ended(g->peers) : -1;
        if (ended >= 0)
            return cr_fail(CR_COMM, "the process of rank %d has ended",
                           cr_global_rank(g, ended));
        if (cr_is_broken_elsewhere(g))
            return cr_fail(CR_COMM, "another rank has failed");
    }
}

static cr_status finish_one(const cr_running *c, void **transfer)
{
    const cr_engine *e = c->g->engine;

    if (!*transfer)
        return CR_OK;
    CR_TRY(cr_transfer_wait(c->g, *transfer, c->end, NULL));
    e->drop(c->g->link, *transfer);
    *transfer = NULL;
    return CR_OK;
}

/* Waits for all; after a failure, drops the rest.  The link is shut first then. */
static cr_status finish_all(const cr_running *c, started *s, cr_status st)
{
    for (int i = 0; i < s->n; i++) {
        if (!st)
            st = finish_one(c, &s->at[i]);
        if (st && s->at[i]) {
            cr_comm_break(c->g, cr_error_message());
            c->g->engine->drop(c->g->link, s->at[i]);
        }
        s->at[i] = NULL;
    }
    s->n = 0;
    return st;
}

/* --- geometry of a call --- */
static size_t bytes_of(const cr_running *c, int64_t count)
{
    return (size_t)count * cr_dtype_size(c->args->dtype);
}

static int64_t total(const cr_buffer *b, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += b[i].count;
    return sum;
}

/* The buffers that this rank contributes. */
static const cr_buffer *contributed(const cr_running *c, int *n)
{
    const cr_call_args *a = c->args;

    *n = 0;
    switch (a->kind) {
    case CR_CALL_BROADCAST: *n = c->g->rank == a->root; return a->out;
    case CR_CALL_ALL_REDUCE:
    case CR_CALL_REDUCE: *n = 1; return a->out;
    case CR_CALL_SCATTER: *n = c->g->rank == a->root ? a->ins : 0; return a->in;
    default: *n = a->ins; return a->in;
    }
}

/* A hash of the counts that all ranks must state alike; 0 where they may differ. */
static uint64_t common_sizes(const cr_call_args *a)
{
    uint64_t h = 1469598103934665603u;

    switch (a->kind) {
    case CR_CALL_BROADCAST:
    case CR_CALL_ALL_REDUCE:
    case CR_CALL_REDUCE: return (uint64_t)a->out[0].count + 1;
    case CR_CALL_REDUCE_SCATTER:
        for (int i = 0; i < a->ins; i++)
            h = (h ^ (uint64_t)a->in[i].count) * 1099511628211u;
        return h;
    default: return 0;
    }
}

/* Calls whose contribution has a part for each rank: the frame tells their counts, not the
 * data. */
static bool tells_counts(const cr_call_args *a)
{
    return a->kind == CR_CALL_ALL_TO_ALL || a->kind == CR_CALL_SCATTER;
}

static size_t counts_bytes(int n) { return (size_t)n * sizeof(int64_t); }

/* --- frames --- */
static cr_frame *frame_in(const cr_comm *g, char *set, int rank)
{
    return (cr_frame *)(void *)(set + (size_t)rank * cr_frame_bytes(g));
}

/* This rank's frame is the last one of a set. */
static cr_frame *frame_own(const cr_comm *g)
{
    return frame_in(g, g->frames_of.frames, g->size);
}

static cr_frame *frame_of(const cr_running *c, int rank)
{
    return rank == c->g->rank ? frame_own(c->g) : frame_in(c->g, c->g->frames_of.frames, rank);
}

/* The counts that a frame tells instead of data. */
static void gather_counts(const cr_running *c, cr_frame *f)
{
    int n;
    const cr_buffer *b = contributed(c, &n);

    f->count = total(b, n);
    for (int i = 0; i < n && tells_counts(c->args); i++)
        if (counts_bytes(i + 1) <= c->g->frames_of.frame_data) {
            memcpy(f->data + counts_bytes(i), &b[i].count, sizeof b[i].count);
            f->bytes = (uint32_t)counts_bytes(i + 1);
        }
}

/* The further calls' buffers after the first one's. */
static void gather_further(const cr_running *c, cr_frame *f)
{
    f->more = (uint32_t)c->further;
    f->strict = c->further && !c->args->apart;
    f->further = c->further ? 1469598103934665603u : 0;
    for (int i = 1; i <= c->further && f->whole; i++) {
        const cr_buffer *b = &c->args[i].out[0];
        if (b->count)
            memcpy(f->data + f->bytes, b->at, bytes_of(c, b->count));
        f->bytes += (uint32_t)bytes_of(c, b->count);
        f->further = (f->further ^ (uint64_t)b->count) * 1099511628211u;
    }
}

static void gather_data(const cr_running *c, cr_frame *f)
{
    int n;
    const cr_buffer *b = contributed(c, &n);
    size_t bytes = bytes_of(c, f->count), at = 0;

    f->whole = bytes <= c->g->frames_of.frame_data && !tells_counts(c->args);
    if (!f->whole)
        return;
    f->bytes = (uint32_t)bytes;
    for (int i = 0; i < n; i++) {
        size_t m = bytes_of(c, b[i].count);
        if (m)
            memcpy(f->data + at, b[i].at, m);
        at += m;
    }
}

/* Calls to which most ranks contribute nothing, but state how much they take. */
static bool receives_from_root(cr_call_kind kind)
{
    return kind == CR_CALL_BROADCAST || kind == CR_CALL_SCATTER;
}

static void describe(const cr_running *c, cr_frame *f)
{
    const cr_call_args *a = c->args;

    memset(f, 0, sizeof *f);
    f->sequence = c->sequence;
    f->kind = (uint8_t)a->kind;
    f->op = (uint8_t)a->op;
    f->dtype = (uint8_t)a->dtype;
    f->root = a->root;
    f->sizes = common_sizes(a);
    snprintf(f->where, sizeof f->where, "%s", c->where);
    gather_counts(c, f);
    f->shown = receives_from_root(a->kind) ? a->out[0].count : f->count;
}

/* --- comparing --- */
static void describe_text(cr_text *out, const cr_comm *g, const cr_frame *f, int rank)
{
    cr_text_printf(out, "rank %d called %s #%llu", cr_global_rank(g, rank),
                   cr_call_kind_name((cr_call_kind)(f->kind % CR_CALL_COUNT)),
                   (unsigned long long)f->sequence);
    if (f->kind != CR_CALL_BARRIER)
        cr_text_printf(out, " with %lld elements of %s", (long long)f->shown,
                       cr_dtype_name((cr_dtype)(f->dtype % CR_DTYPE_COUNT)));
    if (f->kind == CR_CALL_ALL_REDUCE || f->kind == CR_CALL_REDUCE ||
        f->kind == CR_CALL_REDUCE_SCATTER)
        cr_text_printf(out, ", %s", cr_reduce_name((cr_reduce_op)(f->op % CR_REDUCE_COUNT)));
    if (f->root >= 0)
        cr_text_printf(out, ", root %d", cr_global_rank(g, f->root));
    if (f->more)
        cr_text_printf(out, ", and %u more", f->more);
    if (*f->where)
        cr_text_printf(out, " (%.*s)", CR_WHERE_BYTES - 1, f->where);
}

static cr_status mismatch(const cr_running *c, const cr_frame *other, int rank)
{
    cr_text t = {0};

    cr_text_put(&t, "the ranks' calls differ: ");
    describe_text(&t, c->g, frame_own(c->g), c->g->rank);
    cr_text_put(&t, "; ");
    describe_text(&t, c->g, other, rank);
    cr_fail(CR_COMM, "%s", cr_text_str(&t));
    cr_text_drop(&t);
    return CR_COMM;
}

/* Whether the peer sends as many elements as this rank takes from it. */
static bool counts_fit(const cr_running *c, const cr_frame *f, int rank)
{
    const cr_call_args *a = c->args;
    int64_t sends;

    switch (a->kind) {
    case CR_CALL_ALL_GATHER: return a->out[rank].count == f->count;
    case CR_CALL_GATHER: return c->g->rank != a->root || a->out[rank].count == f->count;
    case CR_CALL_ALL_TO_ALL:
    case CR_CALL_SCATTER:
        if ((a->kind == CR_CALL_SCATTER && rank != a->root) ||
            counts_bytes(c->g->rank + 1) > f->bytes)
            return true;
        memcpy(&sends, f->data + counts_bytes(c->g->rank), sizeof sends);
        return sends == a->out[a->kind == CR_CALL_SCATTER ? 0 : rank].count;
    default: return true;
    }
}

static cr_status compare(const cr_running *c, int rank)
{
    const cr_frame *own = frame_own(c->g), *f = frame_of(c, rank);
    bool same = f->sequence == own->sequence && f->kind == own->kind && f->op == own->op &&
                f->dtype == own->dtype && f->root == own->root && f->sizes == own->sizes;

    bool further = f->further == own->further || (!f->strict && !own->strict);

    return same && further && counts_fit(c, f, rank) ? CR_OK : mismatch(c, f, rank);
}

/* Whether this rank and `rank` exchange frames. */
static bool meets(const cr_comm *g, int rank)
{
    return rank != g->rank && (g->size <= CR_FRAME_RANKS || rank == (g->rank + 1) % g->size ||
                               rank == (g->rank + g->size - 1) % g->size);
}

/* Starts to receive frames into a set, where that was not done before. */
static cr_status expect_frames(const cr_running *c, char *set)
{
    cr_comm *g = c->g;

    for (int r = 0; r < g->size; r++)
        if (meets(g, r) && !g->frames_of.ahead[r])
            CR_TRY(g->engine->receive(g->link, &g->frames_of.ahead[r], frame_in(g, set, r),
                                      cr_frame_bytes(g), r, 0, FRAME_TAG));
    return CR_OK;
}

static cr_status take_frames(const cr_running *c)
{
    for (int r = 0; r < c->g->size; r++)
        CR_TRY(finish_one(c, &c->g->frames_of.ahead[r]));
    return CR_OK;
}

static cr_status compare_frames(const cr_running *c, bool *whole)
{
    const cr_comm *g = c->g;

    *whole = g->size <= CR_FRAME_RANKS && frame_own(g)->whole;
    for (int r = 0; r < g->size; r++)
        if (meets(g, r)) {
            CR_TRY(compare(c, r));
            *whole &= frame_of(c, r)->whole;
        }
    return CR_OK;
}

/* Exchanges frames.  *whole: every rank's contribution came with its frame.  The receives of
 * the next call's frames are started before the end, into the other of two sets: a frame that
 * finds its place waiting arrives sooner. */
static cr_status meet(const cr_running *c, bool *whole)
{
    cr_comm *g = c->g;
    started s = {g->frames_of.transfers, 0};
    char *other = g->frames_of.frames;
    cr_status st;

    g->frames_of.frames = g->frames_of.other_frames;
    g->frames_of.other_frames = other;
    describe(c, frame_own(g));
    gather_data(c, frame_own(g));
    gather_further(c, frame_own(g));
    st = expect_frames(c, g->frames_of.frames);
    for (int k = 1; k < g->size && !st; k++) {
        int r = (g->rank + k) % g->size;
        if (meets(g, r))
            st = tagged_send(c, &s, frame_own(g), sizeof(cr_frame) + frame_own(g)->bytes, r,
                             FRAME_TAG);
    }
    if (!st)
        st = take_frames(c);
    CR_TRY(finish_all(c, &s, st));
    CR_TRY(compare_frames(c, whole));
    /* Not with Gloo, which tells the peer of each receive and so wakes its thread once more.  A
     * peer that has ended meanwhile is the next call's failure, not this one's. */
    if (g->engine->by_slices && expect_frames(c, g->frames_of.other_frames))
        cr_log_line("comm", 2, "a peer has left: %s", cr_error_message());
    return CR_OK;
}

/* --- comparing through the store --- */
static void frame_key(char *key, size_t n, uint64_t sequence, int rank)
{
    snprintf(key, n, "calls/%llu/%d", (unsigned long long)sequence, rank);
}

static cr_status frame_publish(const cr_running *c)
{
    const cr_frame *f = frame_own(c->g);
    char key[KEY_BYTES];

    frame_key(key, sizeof key, c->sequence, c->g->rank);
    return cr_store_set(c->g->store, key, (cr_bytes){(const char *)f, sizeof *f + f->bytes});
}

static cr_status frame_take(const cr_running *c, int rank, cr_bytes text)
{
    cr_frame *f = frame_of(c, rank);

    if (text.len < sizeof *f || text.len > cr_frame_bytes(c->g))
        return cr_fail(CR_COMM, "the store has no call of rank %d", cr_global_rank(c->g, rank));
    memcpy(f, text.at, text.len);
    f->bytes = (uint32_t)(text.len - sizeof *f);
    return compare(c, rank);
}

/* The keys of frames, in one block that the caller frees. */
static cr_bytes *frame_keys(uint64_t sequence, const int *rank, int n)
{
    cr_bytes *key = cr_alloc((size_t)n * (sizeof *key + KEY_BYTES) + 1);
    char *at = (char *)(key + n);

    for (int i = 0; key && i < n; i++, at += KEY_BYTES) {
        frame_key(at, KEY_BYTES, sequence, rank[i]);
        key[i] = cr_bytes_of(at);
    }
    return key;
}

/* Takes the frames of n ranks by one request: CR_STORE if they are not there in time. */
static cr_status frames_take(const cr_running *c, const int *rank, int n, int64_t ms)
{
    cr_store_reply reply = {0};
    cr_bytes *key = frame_keys(c->sequence, rank, n);
    cr_store_request r = {.verb = CR_STORE_GET, .keys = n, .key = key, .timeout_ms = ms};
    cr_status st = key ? cr_store_call(c->g->store, &r, &reply) : CR_MEMORY;

    if (!st && reply.value.len != (size_t)n)
        st = cr_fail(CR_COMM, "the store has lost calls");
    for (int i = 0; i < n && !st; i++)
        st = frame_take(c, rank[i], reply.value.at[i]);
    cr_store_reply_drop(&reply);
    cr_free(key);
    return st;
}

/* Compares with those ranks that have come, so that a difference is told although another rank
 * never comes, and takes them off the list. */
static cr_status frames_look(const cr_running *c, int *rank, int *n)
{
    int left = 0;

    for (int i = 0; i < *n; i++) {
        cr_status st = frames_take(c, &rank[i], 1, 0);
        if (st && st != CR_STORE)
            return st;
        if (st)
            rank[left++] = rank[i];
    }
    *n = left;
    return CR_OK;
}

/* Waits for frames by slices, and looks in between whether a rank has ended. */
static cr_status frames_wait(const cr_running *c, int *rank, int n)
{
    const cr_comm *g = c->g;

    while (n) {
        int64_t ms = left_ms(c) < SLICE_MS ? left_ms(c) : SLICE_MS;
        cr_status st = frames_take(c, rank, n, ms);
        if (st != CR_STORE)
            return st;
        CR_TRY(frames_look(c, rank, &n));
        int ended = n && g->peers ? cr_peers_ended(g->peers) : -1;
        if (ended >= 0)
            return cr_fail(CR_COMM, "the process of rank %d has ended",
                           cr_global_rank(g, ended));
        if (n && cr_seconds() >= c->end)
            return cr_fail(CR_COMM, "Timed out");
        if (n && cr_interrupted())
            return cr_fail(CR_COMM, "the wait was interrupted");
    }
    return CR_OK;
}

static cr_status store_delete(cr_store *s, const cr_bytes *key, int n)
{
    cr_store_reply reply = {0};
    cr_store_request r = {
        .verb = CR_STORE_DELETE, .keys = n, .key = key, .timeout_ms = SLICE_MS};
    cr_status st = cr_store_call(s, &r, &reply);

    cr_store_reply_drop(&reply);
    return st;
}

/* Every rank has read this rank's previous frame when all have written the next one. */
static void frame_forget(const cr_running *c)
{
    char key[KEY_BYTES];

    frame_key(key, sizeof key, c->sequence - 1, c->g->rank);
    cr_bytes k = cr_bytes_of(key);
    if (store_delete(c->g->store, &k, 1))
        cr_log_line("comm", 2, "a call stays in the store: %s", cr_error_message());
}

cr_status cr_collective_compare(const cr_running *c)
{
    cr_frame *own = frame_own(c->g);
    int *rank = cr_alloc((size_t)c->g->size * sizeof *rank), n = 0;
    cr_status st;

    CR_NEED(rank);
    for (int r = 0; r < c->g->size; r++)
        if (r != c->g->rank)
            rank[n++] = r;
    describe(c, own);
    CR_GO(frame_publish(c));
    CR_GO(frames_wait(c, rank, n));
    frame_forget(c);
done:
    cr_free(rank);
    return st;
}

/* Adds this rank to those that have left; the sum. */
static cr_status frames_leave(cr_comm *g, int64_t *left)
{
    cr_store_reply reply = {0};
    cr_bytes key = cr_bytes_of(LEFT_KEY);
    cr_store_request r = {
        .verb = CR_STORE_ADD, .number = 1, .keys = 1, .key = &key, .timeout_ms = SLICE_MS};
    cr_status st = cr_store_call(g->store, &r, &reply);

    *left = reply.number;
    cr_store_reply_drop(&reply);
    return st;
}

/* Deletes all ranks' frames of the last calls, which a failure may have left one apart. */
static cr_status frames_clear(cr_comm *g)
{
    cr_bytes left = cr_bytes_of(LEFT_KEY);
    cr_status st = store_delete(g->store, &left, 1);

    for (int r = 0; r < g->size && !st; r++)
        for (uint64_t k = 0; k < 3 && !st; k++) {
            cr_bytes *key = frame_keys(g->compared_by.compared - 1 + k, &r, 1);
            st = key ? store_delete(g->store, key, 1) : CR_MEMORY;
            cr_free(key);
        }
    return st;
}

void cr_collective_leave(cr_comm *g)
{
    int64_t left = 0;
    cr_status st = g->compared_by.compared && g->store ? frames_leave(g, &left) : CR_OK;

    if (!st && left == g->size)
        st = frames_clear(g);
    if (st)
        cr_log_line("comm", 2, "calls stay in the store: %s", cr_error_message());
}

/* --- small calls --- */
/* Copies `out` from a place in the rank's frame. */
static cr_status take(const cr_running *c, const cr_buffer *out, int rank, size_t at)
{
    const cr_frame *f = frame_of(c, rank);
    size_t n = bytes_of(c, out->count);

    if (at + n > f->bytes)
        return mismatch(c, f, rank);
    if (n)
        memcpy(out->at, f->data + at, n);
    return CR_OK;
}

/* The elements at byte `at` of a rank's frame, ready to be added. */
static void *frame_term(const cr_running *c, int rank, size_t at, int64_t n)
{
    char *term = frame_of(c, rank)->data + at;

    if (c->args->op == CR_REDUCE_PREMUL_SUM)
        cr_reduce_scale(c->args->dtype, term, n, c->args->factor);
    return term;
}

/* Reduces n elements at byte `at` of all frames into `out`, in the order of ranks.  Frames are
 * whole and state the same counts. */
static void fold_frames(const cr_running *c, void *out, size_t at, int64_t n)
{
    const cr_call_args *a = c->args;

    if (!n)
        return;
    memcpy(out, frame_term(c, 0, at, n), bytes_of(c, n));
    for (int r = 1; r < c->g->size; r++)
        cr_reduce(a->op, a->dtype, out, out, frame_term(c, r, at, n), n);
    if (a->op == CR_REDUCE_AVG)
        cr_reduce_average(a->dtype, out, n, c->g->size);
}

/* Bytes before buffer `rank` of a list. */
static size_t bytes_before(const cr_running *c, const cr_buffer *b, int rank)
{
    return bytes_of(c, total(b, rank));
}

static cr_status small(const cr_running *c)
{
    const cr_call_args *a = c->args;
    int me = c->g->rank;

    switch (a->kind) {
    case CR_CALL_BROADCAST: return me == a->root ? CR_OK : take(c, &a->out[0], a->root, 0);
    case CR_CALL_ALL_REDUCE: fold_frames(c, a->out[0].at, 0, a->out[0].count); return CR_OK;
    case CR_CALL_REDUCE:
        if (me == a->root)
            fold_frames(c, a->out[0].at, 0, a->out[0].count);
        return CR_OK;
    case CR_CALL_REDUCE_SCATTER:
        fold_frames(c, a->out[0].at, bytes_before(c, a->in, me), a->in[me].count);
        return CR_OK;
    case CR_CALL_ALL_GATHER:
    case CR_CALL_GATHER:
        for (int r = 0; r < c->g->size && a->outs; r++)
            CR_TRY(take(c, &a->out[r], r, 0));
        return CR_OK;
    default: return CR_OK;
    }
}

/* --- large calls --- */
static cr_status need_scratch(cr_comm *g, size_t n)
{
    if (g->frames_of.scratch_bytes >= n)
        return CR_OK;
    cr_free(g->frames_of.scratch);
    g->frames_of.scratch = cr_alloc(n);
    g->frames_of.scratch_bytes = g->frames_of.scratch ? n : 0;
    return g->frames_of.scratch ? CR_OK : CR_MEMORY;
}

/* Copies unless it is the same place. */
static void copy_part(const cr_running *c, cr_buffer to, cr_buffer from)
{
    if (to.at != from.at && from.count)
        memmove(to.at, from.at, bytes_of(c, from.count));
}

/* Bytes to one rank and from another, at the same time. */
static cr_status exchange(const cr_running *c, cr_buffer out, int to, cr_buffer in, int from)
{
    started s = {c->g->frames_of.transfers, 0};
    cr_status st = CR_OK;

    if (in.count)
        st = start_receive(c, &s, in.at, bytes_of(c, in.count), from);
    if (out.count && !st)
        st = start_send(c, &s, out.at, bytes_of(c, out.count), to);
    return finish_all(c, &s, st);
}

static int ring_at(const cr_comm *g, int k)
{
    return ((g->rank + k) % g->size + g->size) % g->size;
}

/* part[r] is at rank r; afterwards all parts are at all ranks. */
static cr_status ring_gather(const cr_running *c, const cr_buffer *part)
{
    const cr_comm *g = c->g;

    for (int k = 0; k + 1 < g->size; k++)
        CR_TRY(exchange(c, part[ring_at(g, -k)], ring_at(g, 1), part[ring_at(g, -k - 1)],
                        ring_at(g, -1)));
    return CR_OK;
}

/* One step of a reduction: sends `out`, and receives elements that are reduced with `own` into
 * `sum`, segment by segment.  `sum` is also where they arrive. */
static cr_status reduce_step(const cr_running *c, cr_buffer out, cr_buffer own, void *sum)
{
    const cr_call_args *a = c->args;
    size_t size = cr_dtype_size(a->dtype);
    int64_t per = (int64_t)(SEGMENT / size);
    int64_t sends = (out.count + per - 1) / per, takes = (own.count + per - 1) / per;
    void **room = cr_alloc_zero((size_t)(sends + takes + 1) * sizeof *room);
    started r = {room, 0}, s = {room + takes, 0};
    cr_status st = room ? CR_OK : CR_MEMORY;

    for (int64_t i = 0; i < own.count && !st; i += per) {
        int64_t n = own.count - i < per ? own.count - i : per;
        st = start_receive(c, &r, (char *)sum + (size_t)i * size, (size_t)n * size,
                           ring_at(c->g, -1));
    }
    for (int64_t i = 0; i < out.count && !st; i += per) {
        int64_t n = out.count - i < per ? out.count - i : per;
        st = start_send(c, &s, (char *)out.at + (size_t)i * size, (size_t)n * size,
                        ring_at(c->g, 1));
    }
    for (int64_t i = 0, k = 0; i < own.count && !st; i += per, k++) {
        int64_t n = own.count - i < per ? own.count - i : per;
        char *at = (char *)sum + (size_t)i * size;
        st = finish_one(c, &room[k]);
        if (!st)
            cr_reduce(a->op, a->dtype, at, at, (char *)own.at + (size_t)i * size, n);
    }
    st = finish_all(c, &s, st);
    st = finish_all(c, &r, st);
    cr_free(room);
    return st;
}

/* Reduces part[r] of all ranks at rank r, into `out`.  The parts do not change, unless `out` is
 * one of them. */
static cr_status ring_reduce(const cr_running *c, const cr_buffer *part, void *out)
{
    cr_comm *g = c->g;
    int64_t most = 0;

    for (int r = 0; r < g->size; r++)
        most = part[r].count > most ? part[r].count : most;
    size_t room = bytes_of(c, most);
    CR_TRY(need_scratch(g, 2 * room + 1));
    cr_buffer send = part[ring_at(g, -1)];
    for (int k = 1; k < g->size; k++) {
        cr_buffer own = part[ring_at(g, -k - 1)];
        void *sum = g->frames_of.scratch + (k & 1 ? room : 0);
        CR_TRY(reduce_step(c, send, own, sum));
        send = (cr_buffer){sum, own.count};
    }
    copy_part(c, (cr_buffer){out, send.count}, send);
    return CR_OK;
}

/* Cuts a buffer into a part for each rank. */
static void cut(cr_buffer *part, const cr_running *c, cr_buffer whole)
{
    int n = c->g->size;

    for (int r = 0; r < n; r++) {
        int64_t first = whole.count / n * r + (whole.count % n < r ? whole.count % n : r);
        int64_t next =
            whole.count / n * (r + 1) + (whole.count % n < r + 1 ? whole.count % n : r + 1);
        part[r] = (cr_buffer){(char *)whole.at + bytes_of(c, first), next - first};
    }
}

static void scale(const cr_running *c, cr_buffer b, double factor)
{
    cr_reduce_scale(c->args->dtype, b.at, b.count, factor);
}

static void average(const cr_running *c, cr_buffer b)
{
    cr_reduce_average(c->args->dtype, b.at, b.count, c->g->size);
}

/* Exchanges whole buffers with one rank and reduces both, segment by segment, with the lower
 * rank's elements first: both ranks get the same bits. */
static cr_status pair_reduce(const cr_running *c, cr_buffer whole, int peer)
{
    const cr_call_args *a = c->args;
    size_t all = bytes_of(c, whole.count), size = cr_dtype_size(a->dtype);
    size_t parts = (all + SEGMENT - 1) / SEGMENT;
    char *at = whole.at;
    void **room = cr_alloc_zero((2 * parts + 1) * sizeof *room);
    started r = {room, 0}, s = {room + parts, 0};
    cr_status st = room ? need_scratch(c->g, all + 1) : CR_MEMORY;

    for (size_t i = 0; i < all && !st; i += SEGMENT)
        st = start_receive(c, &r, c->g->frames_of.scratch + i,
                           all - i < SEGMENT ? all - i : SEGMENT, peer);
    for (size_t i = 0; i < all && !st; i += SEGMENT)
        st = start_send(c, &s, at + i, all - i < SEGMENT ? all - i : SEGMENT, peer);
    for (size_t i = 0, k = 0; i < all && !st; i += SEGMENT, k++) {
        const char *low = c->g->rank < peer ? at + i : c->g->frames_of.scratch + i;
        const char *high = c->g->rank < peer ? c->g->frames_of.scratch + i : at + i;
        size_t n = all - i < SEGMENT ? all - i : SEGMENT;
        st = finish_one(c, &room[k]);
        if (!st) /* the segment must have left before it changes */
            st = finish_one(c, &room[parts + k]);
        if (!st)
            cr_reduce(a->op, a->dtype, at + i, low, high, (int64_t)(n / size));
    }
    st = finish_all(c, &s, st);
    st = finish_all(c, &r, st);
    cr_free(room);
    return st;
}

/* Two ranks of which each reduces one half of a buffer and sends the result to the other one.
 * Segment k of the own half is reduced while later ones travel; few are on their way, so that
 * they are still in the processor's caches when they are read. */
typedef struct {
    const cr_running *c;
    cr_buffer own, other;
    int peer;
    int64_t per, steps;                             /* elements and number of segments */
    started sends, receives, result_sends, results; /* by segment */
} halves;

/* Segment k of a half.  The last one may be shorter, and have no elements in the second
 * half. */
static cr_buffer halves_segment(const halves *h, cr_buffer half, int64_t k)
{
    int64_t first = k * h->per < half.count ? k * h->per : half.count;
    int64_t left = half.count - first;

    return (cr_buffer){(char *)half.at + bytes_of(h->c, first), left < h->per ? left : h->per};
}

static char *halves_room(const halves *h, int64_t k)
{
    return h->c->g->frames_of.scratch + (size_t)(k % HALVES_AHEAD) * HALVES_SEGMENT;
}

static cr_status halves_send(const halves *h, started *s, cr_buffer b, uint64_t tag)
{
    return b.count ? tagged_send(h->c, s, b.at, bytes_of(h->c, b.count), h->peer, tag) : CR_OK;
}

static cr_status halves_receive(const halves *h, started *s, cr_buffer b, uint64_t tag)
{
    return b.count ? tagged_receive(h->c, s, b.at, bytes_of(h->c, b.count), h->peer, tag)
                   : CR_OK;
}

/* Starts the exchange of the terms of segment k. */
static cr_status halves_start(halves *h, int64_t k)
{
    cr_buffer term = {halves_room(h, k), halves_segment(h, h->own, k).count};

    CR_TRY(halves_receive(h, &h->receives, term, DATA_TAG));
    return halves_send(h, &h->sends, halves_segment(h, h->other, k), DATA_TAG);
}

/* Reduces segment k, sends the result, and starts to receive that of the other half, whose
 * terms must have left before. */
static cr_status halves_reduce(halves *h, int64_t k)
{
    const cr_call_args *a = h->c->args;
    cr_buffer own = halves_segment(h, h->own, k);
    bool first = h->c->g->rank < h->peer;
    char *term = halves_room(h, k);

    CR_TRY(finish_one(h->c, &h->receives.at[k]));
    cr_reduce(a->op, a->dtype, own.at, first ? own.at : term, first ? term : own.at, own.count);
    if (a->op == CR_REDUCE_AVG)
        average(h->c, own);
    CR_TRY(halves_send(h, &h->result_sends, own, RESULT_TAG));
    CR_TRY(finish_one(h->c, &h->sends.at[k]));
    return halves_receive(h, &h->results, halves_segment(h, h->other, k), RESULT_TAG);
}

static cr_status halves_run(halves *h)
{
    started *all[] = {&h->sends, &h->receives, &h->result_sends, &h->results};
    int64_t ahead = h->steps < HALVES_AHEAD ? h->steps : HALVES_AHEAD;
    cr_status st = CR_OK;

    for (int64_t k = 0; k < ahead && !st; k++)
        st = halves_start(h, k);
    for (int64_t k = 0; k < h->steps && !st; k++) {
        st = halves_reduce(h, k);
        if (k + ahead < h->steps && !st)
            st = halves_start(h, k + ahead);
    }
    for (size_t i = 0; i < CR_LEN(all); i++)
        st = finish_all(h->c, all[i], st);
    return st;
}

static cr_status all_reduce_by_halves(const cr_running *c, cr_buffer whole)
{
    int me = c->g->rank;
    int64_t per = (int64_t)(HALVES_SEGMENT / cr_dtype_size(c->args->dtype));
    cr_buffer part[2];

    cut(part, c, whole);
    int64_t steps = (part[0].count + per - 1) / per; /* the first half is not the smaller one */
    void **room = cr_alloc_zero(4 * (size_t)steps * sizeof *room);
    CR_NEED(room);
    halves h = {c,
                part[me],
                part[1 - me],
                1 - me,
                per,
                steps,
                {room, 0},
                {room + steps, 0},
                {room + 2 * steps, 0},
                {room + 3 * steps, 0}};
    cr_status st = need_scratch(c->g, HALVES_AHEAD * HALVES_SEGMENT);
    if (!st)
        st = halves_run(&h);
    cr_free(room);
    return st;
}

/* Steps of pairs suit few bytes, which a ring would pass on in many steps. */
static bool suits_pairs(const cr_running *c, cr_buffer whole)
{
    int n = c->g->size;

    return (n & (n - 1)) == 0 && n > 1 && bytes_of(c, whole.count) <= PAIR_BYTES;
}

static cr_status all_reduce_by_pairs(const cr_running *c, cr_buffer whole)
{
    for (int step = 1; step < c->g->size; step *= 2)
        CR_TRY(pair_reduce(c, whole, c->g->rank ^ step));
    if (c->args->op == CR_REDUCE_AVG)
        average(c, whole);
    return CR_OK;
}

static cr_status all_reduce(const cr_running *c, cr_buffer whole)
{
    const cr_call_args *a = c->args;
    cr_comm *g = c->g;
    cr_buffer *part = NULL;
    cr_status st;

    if (a->op == CR_REDUCE_PREMUL_SUM)
        scale(c, whole, a->factor);
    if (suits_pairs(c, whole))
        return all_reduce_by_pairs(c, whole);
    if (g->size == 2)
        return all_reduce_by_halves(c, whole);
    part = cr_alloc((size_t)g->size * sizeof *part);
    CR_NEED(part);
    cut(part, c, whole);
    CR_GO(ring_reduce(c, part, part[g->rank].at));
    if (a->op == CR_REDUCE_AVG)
        average(c, part[g->rank]);
    CR_GO(ring_gather(c, part));
done:
    cr_free(part);
    return st;
}

/* Sums into a copy: the buffers of ranks other than the root do not change. */
static cr_status reduce(const cr_running *c)
{
    cr_buffer whole = c->args->out[0], copy = {NULL, whole.count};
    cr_status st;

    if (c->g->rank == c->args->root)
        return all_reduce(c, whole);
    copy.at = cr_alloc(bytes_of(c, whole.count) + 1);
    CR_NEED(copy.at);
    copy_part(c, copy, whole);
    st = all_reduce(c, copy);
    cr_free(copy.at);
    return st;
}

/* With PREMUL_SUM the inputs are multiplied in a copy. */
static cr_status reduce_scatter(const cr_running *c)
{
    const cr_call_args *a = c->args;
    cr_comm *g = c->g;
    cr_status st;

    if (a->op != CR_REDUCE_PREMUL_SUM) {
        st = ring_reduce(c, a->in, a->out[0].at);
    } else {
        size_t list = (size_t)g->size * sizeof(cr_buffer);
        char *block = cr_alloc(list + bytes_of(c, total(a->in, a->ins)) + 1);
        cr_buffer *part = (cr_buffer *)(void *)block;
        CR_NEED(block);
        char *at = block + list;
        for (int r = 0; r < g->size; at += bytes_of(c, a->in[r++].count)) {
            part[r] = (cr_buffer){at, a->in[r].count};
            copy_part(c, part[r], a->in[r]);
            scale(c, part[r], a->factor);
        }
        st = ring_reduce(c, part, a->out[0].at);
        cr_free(block);
    }
    if (!st && a->op == CR_REDUCE_AVG)
        average(c, a->out[0]);
    return st;
}

/* From the root along the ring, by segments: a rank sends a segment on when it has it.  Two
 * ranks send nothing on, and each message costs. */
static cr_status broadcast(const cr_running *c)
{
    const cr_call_args *a = c->args;
    const cr_comm *g = c->g;
    size_t all = bytes_of(c, a->out[0].count);
    char *at = a->out[0].at;
    bool takes = g->rank != a->root, gives = ring_at(g, 1) != a->root;
    size_t segment = g->size == 2 ? all + 1 : SEGMENT, parts = (all + segment - 1) / segment;
    void **room = cr_alloc_zero((2 * parts + 1) * sizeof *room);
    started r = {room, 0}, s = {room + parts, 0};
    cr_status st = room ? CR_OK : CR_MEMORY;

    for (size_t i = 0; i < all && takes && !st; i += segment)
        st =
            start_receive(c, &r, at + i, all - i < segment ? all - i : segment, ring_at(g, -1));
    for (size_t i = 0, k = 0; i < all && !st; i += segment, k++) {
        if (takes)
            st = finish_one(c, &room[k]);
        if (gives && !st)
            st =
                start_send(c, &s, at + i, all - i < segment ? all - i : segment, ring_at(g, 1));
    }
    st = finish_all(c, &s, st);
    st = finish_all(c, &r, st);
    cr_free(room);
    return st;
}

/* All transfers at once: `out` to each rank, `in` from each; NULL: none. */
static cr_status everyone(const cr_running *c, const cr_buffer *out, const cr_buffer *in,
                          int only_to, int only_from)
{
    cr_comm *g = c->g;
    started s = {g->frames_of.transfers, 0};
    cr_status st = CR_OK;

    for (int k = 1; k < g->size && in && !st; k++) {
        int r = ring_at(g, -k);
        if (in[r].count && (only_from < 0 || only_from == r))
            st = start_receive(c, &s, in[r].at, bytes_of(c, in[r].count), r);
    }
    for (int k = 1; k < g->size && out && !st; k++) {
        int r = ring_at(g, k);
        if (out[r].count && (only_to < 0 || only_to == r))
            st = start_send(c, &s, out[r].at, bytes_of(c, out[r].count), r);
    }
    return finish_all(c, &s, st);
}

static cr_status gather(const cr_running *c)
{
    const cr_call_args *a = c->args;
    started s = {c->g->frames_of.transfers, 0};
    cr_status st = CR_OK;

    if (c->g->rank == a->root) {
        copy_part(c, a->out[a->root], a->in[0]);
        return everyone(c, NULL, a->out, -1, -1);
    }
    if (a->in[0].count)
        st = start_send(c, &s, a->in[0].at, bytes_of(c, a->in[0].count), a->root);
    return finish_all(c, &s, st);
}

static cr_status scatter(const cr_running *c)
{
    const cr_call_args *a = c->args;
    started s = {c->g->frames_of.transfers, 0};
    int64_t sends = a->out[0].count;
    cr_status st = CR_OK;

    if (c->g->rank == a->root) {
        copy_part(c, a->out[0], a->in[a->root]);
        return everyone(c, a->in, NULL, -1, -1);
    }
    if (sends)
        st = start_receive(c, &s, a->out[0].at, bytes_of(c, sends), a->root);
    return finish_all(c, &s, st);
}

/* Whether all ranks sent the same further calls. */
static bool further_go(const cr_running *c)
{
    for (int r = 0; r < c->g->size; r++)
        if (frame_of(c, r)->further != frame_own(c->g)->further)
            return false;
    return true;
}

static void further(const cr_running *c)
{
    size_t at = bytes_of(c, c->args->out[0].count);

    for (int i = 1; i <= c->further; i++) {
        const cr_buffer *b = &c->args[i].out[0];
        fold_frames(c, b->at, at, b->count);
        at += bytes_of(c, b->count);
    }
}

static cr_status large(const cr_running *c)
{
    const cr_call_args *a = c->args;
    int me = c->g->rank;

    switch (a->kind) {
    case CR_CALL_BROADCAST: return broadcast(c);
    case CR_CALL_ALL_REDUCE: return all_reduce(c, a->out[0]);
    case CR_CALL_REDUCE: return reduce(c);
    case CR_CALL_REDUCE_SCATTER: return reduce_scatter(c);
    case CR_CALL_GATHER: return gather(c);
    case CR_CALL_SCATTER: return scatter(c);
    case CR_CALL_ALL_GATHER: copy_part(c, a->out[me], a->in[0]); return ring_gather(c, a->out);
    case CR_CALL_ALL_TO_ALL:
        copy_part(c, a->out[me], a->in[me]);
        return everyone(c, a->in, a->out, -1, -1);
    default: return CR_OK;
    }
}

/* The part that stays at this rank has one size. */
static cr_status check_own_part(const cr_running *c)
{
    const cr_call_args *a = c->args;
    int me = c->g->rank;

    if (a->kind != CR_CALL_ALL_TO_ALL || a->in[me].count == a->out[me].count)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "all_to_all: rank %d gives itself %lld elements and takes %lld",
                   cr_global_rank(c->g, me), (long long)a->in[me].count,
                   (long long)a->out[me].count);
}

cr_status cr_collective_run(const cr_running *c, bool *alone)
{
    bool whole, did = false;

    *alone = true;

    if (c->g->engine->run) {
        CR_TRY(check_own_part(c));
        CR_TRY(c->g->engine->run(c->g->link, c->args, left_ms(c), &did));
    }
    if (did)
        return CR_OK;
    CR_TRY(meet(c, &whole));
    CR_TRY(check_own_part(c)); /* behind the comparison, which names all ranks' sizes */
    *alone = !whole || !further_go(c);
    if (!*alone)
        further(c);
    return whole ? small(c) : large(c);
}
