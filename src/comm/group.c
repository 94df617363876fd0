/* Groups, and the order of their calls. */
#include "base/env.h"
#include "base/log.h"
#include "base/thread.h"
#include "comm/group_impl.h"
#include "comm/net.h"
#include "comm/wait.h"
#include "device/device.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef enum { WORK_WAITS, WORK_RUNS, WORK_ENDED } work_state;

typedef struct {
    void (*fn)(void *context);
    void *context;
} work_follower;

/* The transfer of a work, and the start of an engine that runs whole calls. */
typedef struct {
    void *transfer; /* of a SEND or RECEIVE, or of an engine that runs whole calls */
    bool handed;    /* such an engine's start has returned, as follows */
    bool ordered;   /* a wait made the device's later work wait */
    cr_status start_status;
    char *start_message;
} work_transfer;

/* A call, or a transfer, that was given to a group.
 * Invariant: message is set only if status is a failure, and moved.start_message only if
 * moved.start_status is one. A work is in the group's queue or was taken from it by the
 * thread, not both. */
struct cr_work {
    _Atomic int count;
    cr_comm *g;
    cr_work *next; /* in the group's queue */
    work_state state;
    bool fetched; /* a thread waits for the transfer */
    bool watched; /* a thread was started for that */
    cr_status status;
    char *message; /* of a failure */
    int64_t timeout_ms;
    uint64_t sequence; /* of the first call */
    double end;        /* time limit of a transfer */
    work_transfer moved;
    int source, n;
    CR_VEC(work_follower) followers;
    cr_call_args *calls;
    char where[CR_WHERE_BYTES];
};

enum { OPEN_SLICE_MS = 200, START_SLICE_MS = 100, LOOK_UP_MS = 2000 };

/* --- making groups --- */
/* A forked child has the sockets of its parent's link, but neither its threads nor, perhaps,
 * an open lock: it touches none of them. */
static bool is_inherited(const cr_comm *g) { return g->queue.process != getpid(); }

static cr_status fail_inherited(const cr_comm *g)
{
    return cr_fail(CR_COMM,
                   "the group '%s' belongs to process %d, of which this one was forked; make a "
                   "new group in the child",
                   g->name, (int)g->queue.process);
}

/* The receives of a call that does not come are dropped when the link can get no more.  The
 * link of a parent stays as it is: shutting a socket would end it in the parent, too. */
static void group_unlink(cr_comm *g)
{
    if (is_inherited(g))
        return;
    if (!g->broken_by.broken && g->engine->receive)
        g->engine->shut(g->link); /* ends the receives */
    for (int r = 0; g->frames_of.ahead && r < g->size; r++)
        if (g->frames_of.ahead[r])
            g->engine->drop(g->link, g->frames_of.ahead[r]);
    g->engine->close(g->link, g->broken_by.broken);
}

static void group_free(cr_comm *g)
{
    if (g->link)
        group_unlink(g);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    pthread_mutex_destroy(&g->compared_by.starting);
    cr_peers_free(g->peers);
    cr_store_drop(g->store);
    cr_text_drop(&g->broken_by.why);
    cr_free(g->global);
    cr_free(g->name);
    cr_free(g->history);
    cr_free(g->frames_of.frames);
    cr_free(g->frames_of.other_frames);
    cr_free(g->frames_of.ahead);
    cr_free(g->frames_of.transfers);
    cr_free(g->frames_of.scratch);
    cr_free(g);
}

static cr_comm *group_blank(const cr_comm_how *how)
{
    cr_comm *g = cr_alloc_zero(sizeof *g);

    if (!g)
        return NULL;
    g->count = 1;
    pthread_mutex_init(&g->lock, NULL);
    pthread_mutex_init(&g->compared_by.starting, NULL);
    cr_wait_start(&g->changed);
    g->queue.process = getpid();
    g->rank = how->rank;
    g->size = how->size;
    g->timeout_ms = how->timeout_ms;
    g->store = how->store ? cr_store_keep(how->store) : NULL;
    return g;
}

/* The address at which peers reach this rank: a named network device, the loopback device where
 * all ranks are here, or the host's name. */
static cr_status group_interface(const cr_comm *g, const char *asked, char *out, size_t size)
{
    const char *device = *asked ? asked : cr_env(CR_ENV_GLOO_SOCKET_IFNAME);

    if (*device)
        return cr_net_device_address(out, size, device);
    if (!g->peers || cr_peers_share_host(g->peers))
        snprintf(out, size, "127.0.0.1");
    else if (gethostname(out, size))
        snprintf(out, size, "localhost");
    return CR_OK;
}

/* A multiple of the frame's alignment. */
static size_t frame_data(int size)
{
    size_t each = CR_FRAME_DATA / (size_t)(size > 1 ? size - 1 : 1) & ~(size_t)63;

    return each > CR_FRAME_LEAST_DATA ? each : CR_FRAME_LEAST_DATA;
}

static cr_status group_memory(cr_comm *g, const cr_comm_how *how)
{
    size_t n = (size_t)g->size;

    g->name = cr_strdup(how->name);
    g->frames_of.frame_data = frame_data(g->size);
    g->frames_of.frames = cr_alloc((n + 1) * cr_frame_bytes(g));
    g->frames_of.other_frames = cr_alloc((n + 1) * cr_frame_bytes(g));
    g->frames_of.ahead = cr_alloc_zero(n * sizeof *g->frames_of.ahead);
    g->frames_of.transfers = cr_alloc_zero(2 * n * sizeof *g->frames_of.transfers);
    g->history = cr_alloc_zero(CR_HISTORY * sizeof *g->history);
    g->global = cr_alloc(n * sizeof *g->global);
    if (!g->name || !g->frames_of.frames || !g->frames_of.other_frames || !g->frames_of.ahead ||
        !g->frames_of.transfers || !g->history || !g->global)
        return CR_MEMORY;
    for (int i = 0; i < g->size; i++)
        g->global[i] = how->global ? how->global[i] : i;
    return CR_OK;
}

/* True when the program ends the wait. */
static bool group_pause(double end)
{
    double left = end - cr_seconds();

    return cr_wait_pause(left > 0 ? (unsigned)(1e6 * left) : 0);
}

/* Takes up the store's error. */
static cr_status fail_not_open(void)
{
    char why[256];

    snprintf(why, sizeof why, "%s", cr_error_message());
    return cr_fail(CR_COMM, "not all ranks have opened their links: %s", why);
}

/* Waits until all ranks have opened their links: a rank that ended earlier would close
 * connections that others still make. */
static cr_status group_wait_open(cr_comm *g, int64_t timeout_ms)
{
    static const char counter[] = "open", all[] = "open/all";
    double end = cr_seconds() + 1e-3 * (double)timeout_ms;
    int64_t n = 0;

    CR_TRY(cr_store_add(g->store, counter, 1, &n));
    if (n == g->size)
        return cr_store_set(g->store, all, cr_bytes_of("1"));
    for (;;) {
        double slice_end = cr_seconds() + 1e-3 * OPEN_SLICE_MS;
        cr_text one = {0};
        cr_status st = cr_store_get_slice(g->store, all, OPEN_SLICE_MS, end, &one);
        cr_text_drop(&one);
        if (st != CR_STORE)
            return st;
        /* a store that fails, such as a file, does so at once */
        bool over =
            group_pause(slice_end) || cr_peers_ended(g->peers) >= 0 || cr_seconds() > end;
        if (over && !cr_store_wait(g->store, all, 0)) /* the last one came and ended */
            return CR_OK;
        if (over)
            return fail_not_open();
    }
}

static void known_key(char *out, int rank) { snprintf(out, 32, "open/known/%d", rank); }

/* Waits up to a slice until all ranks that run know that the links are open. */
static cr_status wait_others(cr_comm *g)
{
    cr_bytes *key = cr_alloc((size_t)g->size * (sizeof *key + 32));
    char *text = (char *)(key + g->size);
    cr_store_reply reply = {0};
    int n = 0;

    CR_NEED(key);
    for (int r = 0; r < g->size; r++)
        if (r != g->rank && cr_peers_state(g->peers, r) != CR_PEER_ENDED) {
            known_key(text + 32 * n, r);
            key[n] = cr_bytes_of(text + 32 * n);
            n++;
        }
    cr_store_request request = {CR_STORE_WAIT, 0, OPEN_SLICE_MS, n, 0, key, NULL, 0};
    cr_status st = n ? cr_store_call(g->store, &request, &reply) : CR_OK;
    cr_store_reply_drop(&reply);
    cr_free(key);
    return st;
}

/* The process whose store the others use goes on when all of them know that the links are open,
 * or have ended. */
static void group_wait_known(cr_comm *g, int64_t timeout_ms)
{
    double end = cr_seconds() + 1e-3 * (double)timeout_ms;
    char key[32];

    known_key(key, g->rank);
    if (!cr_store_serves(g->store)) {
        /* without the answer, the other process has ended, which does not matter here */
        (void)!!cr_store_set(g->store, key, cr_bytes_of("1"));
        return;
    }
    for (double slice_end; cr_seconds() < end;) {
        slice_end = cr_seconds() + 1e-3 * OPEN_SLICE_MS;
        if (wait_others(g) != CR_STORE || group_pause(slice_end))
            return;
    }
}

static cr_status group_connect(cr_comm *g, const cr_comm_how *how)
{
    char interface[256] = "";

    if (g->store && g->rank >= 0 && !g->engine->alone)
        CR_TRY(cr_peers_meet(&g->peers, how));
    CR_TRY(
        group_interface(g, how->interface ? how->interface : "", interface, sizeof interface));
    cr_link_how link = {g->rank, g->size, how->global, g->store, how->timeout_ms, interface};
    CR_TRY(g->engine->open(&g->link, &link, &g->rank, &g->size));
    if (!g->peers)
        return CR_OK;
    CR_TRY(group_wait_open(g, how->timeout_ms));
    group_wait_known(g, how->timeout_ms);
    return CR_OK;
}

static cr_status group_open(cr_comm *g, const cr_comm_how *how)
{
    cr_status st = cr_engine_find(&g->engine, how->engine);

    if (st && how->store && how->rank >= 0)
        st = cr_peers_miss(how, st);
    CR_TRY(st);
    st = group_connect(g, how);
    return st ? cr_report_open(g, how, st) : group_memory(g, how);
}

cr_status cr_comm_new(cr_comm **out, const cr_comm_how *how)
{
    bool unknown = how->rank == -1 && how->size == -1;

    if (!unknown && (how->size < 1 || how->rank < 0 || how->rank >= how->size))
        return cr_fail(CR_VALUE, "a group of %d ranks has no rank %d", how->size, how->rank);
    cr_comm *g = group_blank(how);
    CR_NEED(g);
    cr_status st = group_open(g, how);
    CR_GIVE(st, out, g, group_free);
}

cr_comm *cr_comm_keep(cr_comm *g)
{
    g->count++;
    return g;
}

int cr_comm_rank(const cr_comm *g) { return g->rank; }
int cr_comm_size(const cr_comm *g) { return g->size; }
const char *cr_comm_engine(const cr_comm *g) { return g->engine->name; }
cr_device_kind cr_comm_device(const cr_comm *g) { return g->engine->device; }
int64_t cr_comm_timeout(const cr_comm *g) { return g->timeout_ms; }
void cr_comm_set_timeout(cr_comm *g, int64_t timeout_ms) { g->timeout_ms = timeout_ms; }

uint64_t cr_comm_sequence(const cr_comm *g)
{
    cr_comm *mine = (cr_comm *)(uintptr_t)g;

    pthread_mutex_lock(&mine->lock);
    uint64_t n = g->sequence;
    pthread_mutex_unlock(&mine->lock);
    return n;
}

bool cr_comm_compares(const cr_comm *g) { return g->compared_by.compares; }

void cr_comm_set_compares(cr_comm *g, bool compares) { g->compared_by.compares = compares; }

void cr_comm_break(cr_comm *g, const char *why)
{
    if (is_inherited(g))
        return;
    pthread_mutex_lock(&g->lock);
    bool first = !g->broken_by.broken;
    g->broken_by.broken = true;
    if (first)
        cr_text_put(&g->broken_by.why, why);
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    if (first)
        g->engine->shut(g->link);
}

/* Says that the group's reason to be broken is complete; `why` replaces it, if not NULL. */
static void group_tell(cr_comm *g, const char *why)
{
    pthread_mutex_lock(&g->lock);
    if (why && !g->broken_by.told) {
        g->broken_by.why.len = 0;
        cr_text_put(&g->broken_by.why, why);
    }
    g->broken_by.told = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

void cr_comm_shut(cr_comm *g, const char *why)
{
    cr_comm_break(g, why);
    group_tell(g, NULL);
}

/* Ends the thread, which runs waiting works to their failure or end first. */
void cr_comm_end(cr_comm *g)
{
    if (is_inherited(g))
        return;
    pthread_mutex_lock(&g->lock);
    bool joins = g->queue.has_thread && !g->queue.ends;
    g->queue.ends = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    if (!joins)
        return;
    pthread_join(g->queue.thread, NULL);
    cr_collective_leave(g);
}

void cr_comm_drop(cr_comm *g)
{
    if (!g || --g->count)
        return;
    cr_comm_end(g);
    group_free(g);
}

/* --- the history --- */
static cr_history_line *history_at(cr_comm *g, uint64_t sequence)
{
    return &g->history[sequence % CR_HISTORY];
}

static int64_t elements(const cr_buffer *b, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += b[i].count;
    return sum;
}

static void history_begin(cr_comm *g, const cr_running *c)
{
    cr_history_line *l = history_at(g, c->sequence);

    l->sequence = c->sequence;
    l->start = cr_seconds();
    l->end = 0;
    l->taken = elements(c->args->out, c->args->outs);
    l->count = c->args->ins ? elements(c->args->in, c->args->ins) : l->taken;
    l->kind = (uint8_t)c->args->kind;
    l->dtype = (uint8_t)c->args->dtype;
    l->failed = false;
    snprintf(l->where, sizeof l->where, "%s", c->where);
}

static void history_end(cr_comm *g, uint64_t sequence, cr_status st)
{
    cr_history_line *l = history_at(g, sequence);

    if (!sequence || l->sequence != sequence)
        return;
    l->end = cr_seconds();
    l->failed = st != CR_OK;
}

void cr_comm_history(cr_comm *g, cr_text *out)
{
    pthread_mutex_lock(&g->lock);
    uint64_t first = g->sequence > CR_HISTORY ? g->sequence - CR_HISTORY + 1 : 1;
    for (uint64_t i = first; i <= g->sequence; i++) {
        const cr_history_line *l = history_at(g, i);
        const char *state = l->failed ? "failed" : l->end > 0 ? "completed" : "started";
        if (l->sequence == i)
            cr_text_printf(out, "%llu\t%s\t%lld\t%s\t%s\t%s\t%.6f\t%lld\t%.9f\n",
                           (unsigned long long)i, cr_call_kind_name((cr_call_kind)l->kind),
                           (long long)l->count, cr_dtype_name((cr_dtype)l->dtype), l->where,
                           state, l->end > 0 ? l->end - l->start : 0, (long long)l->taken,
                           l->start);
    }
    pthread_mutex_unlock(&g->lock);
}

/* --- works --- */
static cr_work *work_keep(cr_work *w)
{
    w->count++;
    return w;
}

void cr_work_drop(cr_work *w)
{
    if (!w || --w->count)
        return;
    if (w->moved.transfer && !is_inherited(w->g))
        w->g->engine->drop(w->g->link, w->moved.transfer);
    cr_vec_drop(&w->followers);
    cr_free(w->message);
    cr_free(w->moved.start_message);
    cr_free(w->calls);
    cr_free(w);
}

/* Calls and lists of buffers in one block. */
static cr_call_args *calls_copy(const cr_call_args *calls, int n)
{
    size_t lists = 0;

    for (int i = 0; i < n; i++)
        lists += (size_t)calls[i].ins + (size_t)calls[i].outs;
    cr_call_args *copy = cr_alloc((size_t)n * sizeof *copy + lists * sizeof(cr_buffer));
    cr_buffer *at = (cr_buffer *)(void *)(copy + n);
    for (int i = 0; i < n && copy; i++) {
        copy[i] = calls[i];
        copy[i].in = at;
        for (int k = 0; k < calls[i].ins; k++)
            *at++ = calls[i].in[k];
        copy[i].out = at;
        for (int k = 0; k < calls[i].outs; k++)
            *at++ = calls[i].out[k];
    }
    return copy;
}

static cr_work *work_new(cr_comm *g, const cr_call_args *calls, int n, const char *where,
                         int64_t timeout_ms)
{
    cr_work *w = cr_alloc_zero(sizeof *w);

    if (w && !(w->calls = calls_copy(calls, n))) {
        cr_free(w);
        w = NULL;
    }
    if (!w)
        return NULL;
    w->count = 1;
    w->g = g;
    w->n = n;
    w->source = -1;
    w->timeout_ms = timeout_ms >= 0 ? timeout_ms : g->timeout_ms;
    snprintf(w->where, sizeof w->where, "%s", where);
    return w;
}

/* Ends a work with the thread's error, and calls its followers. */
static void work_end(cr_work *w, cr_status st)
{
    cr_comm *g = w->g;

    w->message = st ? cr_strdup(cr_error_message()) : NULL;
    pthread_mutex_lock(&g->lock);
    for (int i = 0; i < w->n; i++)
        history_end(g, w->sequence + (uint64_t)i, st);
    w->status = st;
    w->state = WORK_ENDED;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    for (size_t i = 0; i < w->followers.len; i++)
        w->followers.at[i].fn(w->followers.at[i].context);
}

/* A failure during a call breaks the group; the error then names the call and the other
 * ranks. */
static cr_status call_failed(const cr_running *c, cr_status st)
{
    char why[512];

    snprintf(why, sizeof why, "%s", cr_error_message());
    cr_comm_break(c->g, why);
    cr_fail(st, "%s", why);
    st = cr_report(c, st);
    /* The program may not wait for this call: its next call raises the error. */
    if (c->g->engine->start)
        cr_log_line("comm", 1, "%s", cr_error_message());
    group_tell(c->g, c->g->engine->start ? cr_error_message() : NULL);
    return st;
}

static cr_running running_of(const cr_work *w, int i)
{
    double now = cr_seconds();

    return (cr_running){.g = w->g,
                        .args = &w->calls[i],
                        .where = w->where,
                        .sequence = w->sequence + (uint64_t)i,
                        .start = now,
                        .end = now + 1e-3 * (double)w->timeout_ms};
}

static cr_status fail_broken(cr_comm *g, const cr_call_args *call, const char *where)
{
    cr_text why = {0};
    struct timespec end = cr_moment_after(LOOK_UP_MS);

    pthread_mutex_lock(&g->lock);
    while (g->engine->start && g->queue.has_thread && !g->broken_by.told &&
           !pthread_cond_timedwait(&g->changed, &g->lock, &end))
        ;
    cr_text_put(&why, cr_text_str(&g->broken_by.why));
    pthread_mutex_unlock(&g->lock);
    cr_fail(CR_COMM, "%s%s%s%s of rank %d: the group '%s' is closed since: %s",
            cr_call_kind_name(call->kind), *where ? " (" : "", where, *where ? ")" : "",
            cr_global_rank(g, g->rank), g->name, cr_text_str(&why));
    cr_text_drop(&why);
    return CR_COMM;
}

static bool is_broken(cr_comm *g)
{
    pthread_mutex_lock(&g->lock);
    bool broken = g->broken_by.broken;
    pthread_mutex_unlock(&g->lock);
    return broken;
}

static bool has_ended(cr_comm *g)
{
    pthread_mutex_lock(&g->lock);
    bool ended = g->queue.ends;
    if (ended && !g->broken_by.why.len)
        cr_text_put(&g->broken_by.why, "it was destroyed");
    g->broken_by.told |= ended;
    pthread_mutex_unlock(&g->lock);
    return ended;
}

/* --- works of engines that run whole calls --- */
static cr_status start_status(const cr_work *w)
{
    return w->moved.start_status ? cr_fail(w->moved.start_status, "%s",
                                           w->moved.start_message ? w->moved.start_message
                                                                  : "no memory for a message")
                                 : CR_OK;
}

/* Waits until the engine has started the work, which may take as long as a call. */
static cr_status work_wait_start(cr_work *w, double end)
{
    cr_comm *g = w->g;
    int ended = -1;

    pthread_mutex_lock(&g->lock);
    while (!w->moved.handed && ended < 0 && cr_seconds() < end) {
        struct timespec slice = cr_moment_after(START_SLICE_MS);
        if (pthread_cond_timedwait(&g->changed, &g->lock, &slice) && g->peers)
            ended = cr_peers_ended(g->peers);
    }
    bool handed = w->moved.handed;
    pthread_mutex_unlock(&g->lock);
    if (handed)
        return start_status(w);
    return ended >= 0
               ? cr_fail(CR_COMM, "the process of rank %d has ended", cr_global_rank(g, ended))
               : cr_fail(CR_COMM, "Timed out");
}

/* Watches a work to its end. */
static cr_status work_watch(cr_work *w)
{
    cr_running c = running_of(w, 0);
    cr_status st = work_wait_start(w, c.end);

    if (!st)
        st = cr_transfer_wait(w->g, w->moved.transfer, c.end, NULL);
    return st ? call_failed(&c, st) : CR_OK;
}

/* Messages have no counterpart at other ranks. */
static cr_status work_compare(const cr_work *w)
{
    cr_comm *g = w->g;

    for (int i = 0; i < w->n && g->compared_by.compares && g->store; i++) {
        cr_running c = running_of(w, i);
        if (c.args->kind == CR_CALL_SEND || c.args->kind == CR_CALL_RECEIVE)
            continue;
        c.sequence = ++g->compared_by.compared;
        CR_TRY(cr_collective_compare(&c));
    }
    return CR_OK;
}

static cr_status work_begin(const cr_work *w)
{
    cr_comm *g = w->g;

    if (is_broken(g))
        return fail_broken(g, w->calls, w->where);
    CR_TRY(work_compare(w));
    return g->engine->start(g->link, w->moved.transfer, w->calls, w->n);
}

/* Starts a work in the program's thread.  Its failure is the work's, which the group's thread
 * ends: an engine that hangs here is ended from there, too. */
static void work_hand(cr_work *w)
{
    cr_comm *g = w->g;
    cr_status st = work_begin(w);

    pthread_mutex_lock(&g->lock);
    w->moved.start_status = st;
    w->moved.start_message = st ? cr_strdup(cr_error_message()) : NULL;
    w->moved.handed = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

/* Makes the device's later work come after the started work: true if that is enough for a
 * program that waits. */
static bool work_order(cr_work *w)
{
    cr_comm *g = w->g;
    bool ordered = false;

    pthread_mutex_lock(&g->lock);
    bool runs = w->moved.handed && !w->moved.start_status && w->state != WORK_ENDED &&
                !g->broken_by.broken;
    pthread_mutex_unlock(&g->lock);
    if (!runs || !g->engine->order ||
        g->engine->order(g->link, w->moved.transfer, w->calls, w->n, &ordered) || !ordered)
        return false;
    pthread_mutex_lock(&g->lock);
    w->moved.ordered = true;
    pthread_mutex_unlock(&g->lock);
    return true;
}

static void work_run(cr_work *w)
{
    cr_status st = CR_OK;

    if (w->g->engine->start) {
        work_end(w, work_watch(w));
        return;
    }
    for (int i = 0, ran = 0; i < w->n && !st; i += ran) {
        cr_running c = running_of(w, i);
        if (is_broken(w->g))
            st = fail_broken(w->g, c.args, w->where);
        else if ((st = cr_join_run(&c, w->n - i, &ran)))
            st = call_failed(&c, st);
    }
    work_end(w, st);
}

/* The group's thread: runs works until the group ends and none waits. */
static void *group_thread(void *at)
{
    cr_comm *g = at;

    pthread_mutex_lock(&g->lock);
    for (;;) {
        while (g->queue.busy || (!g->queue.first && !g->queue.ends))
            pthread_cond_wait(&g->changed, &g->lock);
        cr_work *w = g->queue.first;
        if (!w)
            break;
        g->queue.first = w->next;
        g->queue.busy = true;
        pthread_mutex_unlock(&g->lock);
        work_run(w);
        cr_work_drop(w);
        pthread_mutex_lock(&g->lock);
        g->queue.busy = false;
        pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* --- starting --- */
static cr_status check_lists(const cr_call_args *a, int ins, int outs)
{
    if (a->ins == ins && a->outs == outs)
        return CR_OK;
    return cr_fail(CR_VALUE, "%s needs %d input and %d output tensors, not %d and %d",
                   cr_call_kind_name(a->kind), ins, outs, a->ins, a->outs);
}

static cr_status check_root(const cr_comm *g, const cr_call_args *a)
{
    if (a->root >= 0 && a->root < g->size)
        return CR_OK;
    return cr_fail(CR_VALUE, "%s: rank %d is not in a group of %d ranks",
                   cr_call_kind_name(a->kind), a->root, g->size);
}

static bool has_root(cr_call_kind k)
{
    return k == CR_CALL_BROADCAST || k == CR_CALL_REDUCE || k == CR_CALL_GATHER ||
           k == CR_CALL_SCATTER || k == CR_CALL_SEND;
}

static cr_status check_sizes(const cr_comm *g, const cr_call_args *a)
{
    int n = g->size, own = has_root(a->kind) && a->root == g->rank ? n : 0;
    int64_t mine;

    switch (a->kind) {
    case CR_CALL_BARRIER: return check_lists(a, 0, 0);
    case CR_CALL_ALL_GATHER: CR_TRY(check_lists(a, 1, n)); break;
    case CR_CALL_GATHER: CR_TRY(check_lists(a, 1, own)); break;
    case CR_CALL_SCATTER: CR_TRY(check_lists(a, own, 1)); break;
    case CR_CALL_REDUCE_SCATTER: CR_TRY(check_lists(a, n, 1)); break;
    case CR_CALL_ALL_TO_ALL: return check_lists(a, n, n);
    case CR_CALL_SEND: return check_lists(a, 1, 0);
    default: return check_lists(a, 0, 1);
    }
    /* The part that stays at this rank has one size. */
    mine = a->ins == 1 ? a->in[0].count : a->ins ? a->in[g->rank].count : a->out[0].count;
    int64_t other = a->outs == 1 ? a->out[0].count : a->outs ? a->out[g->rank].count : mine;
    return mine == other
               ? CR_OK
               : cr_fail(CR_VALUE,
                         "%s: this rank's input has %lld elements, but its "
                         "output has %lld",
                         cr_call_kind_name(a->kind), (long long)mine, (long long)other);
}

enum { DTYPE_BITS = 6 };
_Static_assert(CR_DTYPE_COUNT <= 1 << DTYPE_BITS, "a dtype has 6 bits of a message's tag");

/* A message is taken by a receive of its dtype alone. */
static uint64_t transfer_tag(const cr_call_args *a)
{
    return a->tag << DTYPE_BITS | (uint64_t)a->dtype;
}

static cr_status check_tag(const cr_comm *g, const cr_call_args *a)
{
    const cr_engine *e = g->engine;

    if ((int64_t)a->tag < 0)
        return cr_fail(CR_TYPE, "Tag must be nonnegative");
    if (!e->tag_bits || a->tag < (uint64_t)1 << (e->tag_bits - DTYPE_BITS))
        return CR_OK;
    return cr_fail(CR_VALUE, "%s: tag %llu is too large: tags of the engine %s end at %llu",
                   cr_call_kind_name(a->kind), (unsigned long long)a->tag, e->name,
                   (1ULL << (e->tag_bits - DTYPE_BITS)) - 1);
}

static cr_status check_reduction(const cr_comm *g, const cr_call_args *a)
{
    if (g->engine->no_quotients && a->op == CR_REDUCE_AVG && !cr_dtype_is_inexact(a->dtype))
        return cr_fail(CR_RUNTIME,
                       "result type Float can't be cast to the desired output type %s",
                       cr_dtype_infos[a->dtype].legacy);
    return cr_reduce_check(a->op, a->dtype);
}

static cr_status check_call(const cr_comm *g, const cr_call_args *a)
{
    bool reduces = a->kind == CR_CALL_ALL_REDUCE || a->kind == CR_CALL_REDUCE ||
                   a->kind == CR_CALL_REDUCE_SCATTER;

    if (has_root(a->kind) || (a->kind == CR_CALL_RECEIVE && a->root != -1))
        CR_TRY(check_root(g, a));
    if (a->kind == CR_CALL_SEND || a->kind == CR_CALL_RECEIVE) {
        if (a->root == g->rank)
            return cr_fail(CR_VALUE, "%s: rank %d is this process itself",
                           cr_call_kind_name(a->kind), cr_global_rank(g, a->root));
        CR_TRY(check_tag(g, a));
    }
    CR_TRY(check_sizes(g, a));
    if (a->device.kind != CR_CPU && a->device.kind != g->engine->device)
        return cr_fail(CR_RUNTIME, "No backend type associated with device type %s",
                       cr_device_kind_name(a->device.kind));
    return reduces ? check_reduction(g, a) : CR_OK;
}

/* Takes numbers for the calls; the lock is held. */
static void work_number(cr_work *w)
{
    w->sequence = w->g->sequence + 1;
    w->g->sequence += (uint64_t)w->n;
    for (int i = 0; i < w->n; i++) {
        cr_running c = running_of(w, i);
        history_begin(w->g, &c);
    }
}

static cr_status group_enqueue(cr_work *w)
{
    cr_comm *g = w->g;

    if (!g->queue.has_thread) {
        if (cr_thread_start(&g->queue.thread, group_thread, g))
            return cr_fail(CR_COMM, "no thread for the calls of a group");
        g->queue.has_thread = true;
    }
    w->next = NULL;
    *(g->queue.first ? &g->queue.last->next : &g->queue.first) = work_keep(w);
    g->queue.last = w;
    pthread_cond_broadcast(&g->changed);
    return CR_OK;
}

/* Runs the work here if the group is idle, else in its turn. */
static cr_status work_start(cr_work *w, bool now)
{
    cr_comm *g = w->g;
    cr_status st = CR_OK;

    pthread_mutex_lock(&g->lock);
    work_number(w);
    bool here = now && !g->queue.busy && !g->queue.first;
    if (here)
        g->queue.busy = true;
    else
        st = group_enqueue(w);
    pthread_mutex_unlock(&g->lock);
    if (!here) {
        if (now && !st && cr_work_wait(w, -1))
            return CR_OK; /* the failure is the work's */
        return st;
    }
    work_run(w);
    pthread_mutex_lock(&g->lock);
    g->queue.busy = false;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    return CR_OK;
}

/* Starts a work with an engine that runs whole calls.  One thread at a time, so that calls have
 * the order of their numbers. */
static cr_status work_start_whole(cr_work *w, bool now)
{
    cr_comm *g = w->g;

    pthread_mutex_lock(&g->compared_by.starting);
    pthread_mutex_lock(&g->lock);
    work_number(w);
    cr_status st = group_enqueue(w);
    pthread_mutex_unlock(&g->lock);
    if (!st)
        work_hand(w);
    pthread_mutex_unlock(&g->compared_by.starting);
    if (!st && now && !work_order(w) && cr_work_wait(w, -1))
        return CR_OK; /* the failure is the work's */
    return st;
}

/* --- transfers of programs --- */
static cr_status transfer_start(cr_work *w)
{
    const cr_call_args *a = w->calls;
    const cr_engine *e = w->g->engine;
    cr_buffer b = a->kind == CR_CALL_SEND ? a->in[0] : a->out[0];
    size_t n = (size_t)b.count * cr_dtype_size(a->dtype);
    uint64_t tag = transfer_tag(a);

    pthread_mutex_lock(&w->g->lock);
    w->state = WORK_RUNS;
    pthread_mutex_unlock(&w->g->lock);
    w->end = cr_seconds() + 1e-3 * (double)w->timeout_ms;
    return a->kind == CR_CALL_SEND
               ? e->send(w->g->link, &w->moved.transfer, b.at, n, a->root, 1, tag)
               : e->receive(w->g->link, &w->moved.transfer, b.at, n, a->root, 1, tag);
}

static void transfer_finish(cr_work *w, double end)
{
    cr_running c = running_of(w, 0);
    void *transfer = w->moved.transfer;

    cr_status st = cr_transfer_wait(w->g, transfer, end, &w->source);
    if (st)
        st = call_failed(&c, st);
    else {
        w->moved.transfer = NULL;
        w->g->engine->drop(w->g->link, transfer);
    }
    work_end(w, st);
}

/* Waits for a transfer in the calling thread, unless another one does. */
static bool transfer_fetch(cr_work *w)
{
    pthread_mutex_lock(&w->g->lock);
    bool mine = w->moved.transfer && !w->fetched && w->state == WORK_RUNS;
    w->fetched |= mine;
    pthread_mutex_unlock(&w->g->lock);
    if (mine)
        transfer_finish(w, w->end);
    return mine;
}

static void *transfer_thread(void *at)
{
    cr_work *w = at;
    cr_comm *g = w->g;

    transfer_fetch(w);
    cr_work_drop(w);
    cr_comm_drop(g);
    return NULL;
}

/* A thread that waits for the transfer, for programs that only ask whether it is done.  It
 * keeps the group, whose link the transfer needs. */
static void transfer_watch(cr_work *w)
{
    pthread_mutex_lock(&w->g->lock);
    bool starts = w->moved.transfer && !w->fetched && !w->watched && w->state == WORK_RUNS;
    w->watched |= starts;
    pthread_mutex_unlock(&w->g->lock);
    if (!starts)
        return;
    work_keep(w);
    cr_comm *g = cr_comm_keep(w->g);
    if (!cr_thread_start(NULL, transfer_thread, w))
        return;
    cr_work_drop(w);
    cr_comm_drop(g);
}

cr_status cr_comm_start(cr_work **out, cr_comm *g, const cr_call_args *calls, int n,
                        const char *where, int64_t timeout_ms, bool now)
{
    bool transfer = n == 1 &&
                    (calls[0].kind == CR_CALL_SEND || calls[0].kind == CR_CALL_RECEIVE) &&
                    !g->engine->start;
    cr_status st = CR_OK;

    if (is_inherited(g))
        return fail_inherited(g);
    for (int i = 0; i < n; i++)
        CR_TRY(check_call(g, &calls[i]));
    if (is_broken(g) || has_ended(g))
        return fail_broken(g, calls, where);
    cr_work *w = work_new(g, calls, n, where, timeout_ms);
    CR_NEED(w);
    if (g->engine->plan)
        st = g->engine->plan(g->link, &w->moved.transfer, w->calls, n);
    if (!st)
        st = transfer           ? transfer_start(w)
             : g->engine->start ? work_start_whole(w, now)
                                : work_start(w, now);
    if (!st && transfer && now)
        transfer_fetch(w);
    CR_GIVE(st, out, w, cr_work_drop);
}

/* The failure of a work that has ended. */
static cr_status work_status(const cr_work *w)
{
    return w->status
               ? cr_fail(w->status, "%s", w->message ? w->message : "no memory for a message")
               : CR_OK;
}

cr_status cr_comm_run(cr_comm *g, const cr_call_args *call, const char *where)
{
    cr_work *w = NULL;

    CR_TRY(cr_comm_start(&w, g, call, 1, where, -1, true));
    cr_status st = cr_work_ended(w) ? work_status(w) : CR_OK;
    cr_work_drop(w);
    return st;
}

/* --- waiting --- */
cr_status cr_work_wait(cr_work *w, int64_t timeout_ms)
{
    cr_comm *g = w->g;
    double end = timeout_ms < 0 ? HUGE_VAL : cr_seconds() + 1e-3 * (double)timeout_ms;
    cr_wake wake = CR_WAKE;

    if (is_inherited(g))
        return fail_inherited(g);
    if (timeout_ms < 0 && g->engine->start && work_order(w))
        return CR_OK;
    if (timeout_ms < 0)
        transfer_fetch(w);
    else
        transfer_watch(w);
    pthread_mutex_lock(&g->lock);
    while (w->state != WORK_ENDED && wake == CR_WAKE)
        wake = cr_wait_change(&g->changed, &g->lock, end);
    bool ended = w->state == WORK_ENDED;
    pthread_mutex_unlock(&g->lock);
    if (wake == CR_WAKE_INTERRUPTED && !ended)
        return cr_fail(CR_COMM, "the wait was interrupted");
    return ended ? work_status(w)
                 : cr_fail(CR_COMM, "Wait timeout: %s #%llu has not ended after %lldms",
                           cr_call_kind_name(w->calls[0].kind), (unsigned long long)w->sequence,
                           (long long)timeout_ms);
}

bool cr_work_ended(cr_work *w)
{
    pthread_mutex_lock(&w->g->lock);
    bool ended = w->state == WORK_ENDED;
    pthread_mutex_unlock(&w->g->lock);
    return ended;
}

bool cr_work_is_ordered(cr_work *w)
{
    pthread_mutex_lock(&w->g->lock);
    bool ordered = w->moved.ordered;
    pthread_mutex_unlock(&w->g->lock);
    return ordered;
}

bool cr_work_is_done(cr_work *w)
{
    transfer_watch(w);
    return cr_work_ended(w);
}

cr_status cr_work_then(cr_work *w, void (*fn)(void *context), void *context)
{
    cr_status st = CR_OK;

    pthread_mutex_lock(&w->g->lock);
    bool done = w->state == WORK_ENDED;
    if (!done)
        st = cr_vec_reserve(&w->followers, 1);
    if (!done && !st)
        cr_vec_put(&w->followers, ((work_follower){fn, context}));
    pthread_mutex_unlock(&w->g->lock);
    transfer_watch(w);
    if (done)
        fn(context);
    return st;
}

int cr_work_source(const cr_work *w) { return w->source; }
