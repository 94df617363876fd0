/* Processes of a group's ranks.  A process is its number and its start time, because numbers
 * are used again; a host is its boot and its name space of process numbers.
 *
 * A rank that cannot join writes the reason to the store (a refusal), with which the waiting
 * ranks fail, too.  Each of them deletes its process from the store.  The ranks then wait for
 * each other for a moment, because the process of one of them may run the store, and the rank
 * that refused deletes the refusal: the group may be tried again. */
#include "comm/peers.h"
#include "base/clock.h"
#include "comm/wait.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HOST_BYTES = 128,
    NAME_BYTES = 64,
    PLACE_BYTES = 160,
    WHERE_BYTES = 192,
    MEET_SLICE_MS = 100,
    LEAVE_MS = 1000,
    LEAVE_ALL_MS = 5000,
    LEAVE_PAUSE_US = 5000,
    STORE_MS = 300
};

static const char refusal_key[] = "refusal", left_key[] = "refusal/left";

typedef struct {
    int process, size;                 /* of the group, as this process states it */
    unsigned long long start, meeting; /* its number in the process */
    char host[HOST_BYTES], engine[NAME_BYTES];
    char where[PLACE_BYTES]; /* the line of the program that makes the group, or "" */
} peer;

struct cr_peers {
    cr_peers *next;
    pthread_t thread;
    bool met;
    int rank, size;
    peer at[];
};

/* --- meetings of this process --- */

static pthread_mutex_t meetings_lock = PTHREAD_MUTEX_INITIALIZER;
static cr_peers *meetings; /* those that did not fail and whose groups were not dropped */

/* Puts a meeting in the list and gives it a number. */
static void meeting_begin(cr_peers *p)
{
    static unsigned long long numbers;

    pthread_mutex_lock(&meetings_lock);
    p->at[p->rank].meeting = ++numbers;
    p->thread = pthread_self();
    p->next = meetings;
    meetings = p;
    pthread_mutex_unlock(&meetings_lock);
}

static void meeting_end(const cr_peers *p)
{
    pthread_mutex_lock(&meetings_lock);
    for (cr_peers **at = &meetings; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    pthread_mutex_unlock(&meetings_lock);
}

static void meeting_met(cr_peers *p)
{
    pthread_mutex_lock(&meetings_lock);
    p->met = true;
    pthread_mutex_unlock(&meetings_lock);
}

/* Whether a meeting is not over, or is another thread's, whose group is there. */
static bool meeting_is_on(unsigned long long number)
{
    bool found = false;

    pthread_mutex_lock(&meetings_lock);
    for (const cr_peers *p = meetings; p; p = p->next)
        found = found || (p->at[p->rank].meeting == number &&
                          (!p->met || !pthread_equal(p->thread, pthread_self())));
    pthread_mutex_unlock(&meetings_lock);
    return found;
}

/* --- processes --- */

/* The state's letter and the start time of a process; false when it does not exist. */
static bool process_read(int process, char *state, unsigned long long *start)
{
    char path[64], text[1024];

    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *after = strrchr(text, ')'); /* the name may have spaces */
    return after &&
           sscanf(after + 1,
                  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                  "%*d %llu",
                  state, start) == 2;
}

static void host_read(char *out)
{
    char boot[64] = "", space[48] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (f && !fgets(boot, sizeof boot, f))
        boot[0] = 0;
    if (f)
        fclose(f);
    boot[strcspn(boot, "\n")] = 0;
    ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[n > 0 ? n : 0] = 0;
    snprintf(out, HOST_BYTES, "%s%s", boot[0] || space[0] ? boot : "unknown", space);
}

static void peer_key(char *out, int rank) { snprintf(out, 32, "peer/%d", rank); }

/* Sets a key that has no value.  *other, if not NULL: the value of another process (owned). */
static cr_status set_first(cr_store *store, const char *key, const char *text, char **other)
{
    cr_store_reply reply = {0};
    cr_bytes k = cr_bytes_of(key), value[2] = {{"", 0}, cr_bytes_of(text)};
    cr_store_request r = {CR_STORE_COMPARE_SET, 0, -1, 1, 2, &k, value, 0};
    cr_status st = cr_store_call(store, &r, &reply);
    const cr_bytes *now = st || !reply.value.len ? NULL : reply.value.at;
    bool mine = now && now->len == value[1].len && !memcmp(now->at, text, now->len);

    *other = now && !mine ? cr_strdup(now->at) : NULL;
    st = st || mine || *other ? st : CR_MEMORY;
    cr_store_reply_drop(&reply);
    return st;
}

/* Reads a process from its text. */
static bool peer_parse(peer *p, const char *text)
{
    return sscanf(text, "%d %llu %llu %d %127s %63s %159[^\n]", &p->process, &p->start,
                  &p->meeting, &p->size, p->host, p->engine, p->where) >= 6;
}

/* Writes this process as a rank's, also where an earlier try of it has written itself. */
static cr_status peer_write(peer *own, cr_store *store, int rank)
{
    char key[32], text[sizeof *own + 64], state = 0, *other = NULL;
    peer before = {0};

    own->process = getpid();
    process_read(own->process, &state, &own->start);
    host_read(own->host);
    snprintf(text, sizeof text, "%d %llu %llu %d %s %s %s", own->process, own->start,
             own->meeting, own->size, own->host, own->engine, own->where);
    peer_key(key, rank);
    CR_TRY(set_first(store, key, text, &other));
    if (!other)
        return CR_OK;
    bool known = peer_parse(&before, other);
    cr_free(other);
    bool same = known && before.process == own->process && before.start == own->start &&
                !strcmp(before.host, own->host);
    if (same && !meeting_is_on(before.meeting))
        return cr_store_set(store, key, cr_bytes_of(text));
    if (same)
        return cr_fail(CR_COMM,
                       "rank %d is another thread of process %d already: two threads "
                       "have the same rank",
                       rank, own->process);
    return cr_fail(
        CR_COMM, "rank %d is process %d already: two processes (%d and %d) have the same rank",
        rank, before.process, before.process, own->process);
}

/* Fails with the ranks that have not written themselves. */
static cr_status peers_missing(cr_store *store, int size, int64_t timeout_ms)
{
    cr_text list = {0};
    int missing = 0;

    for (int r = 0; r < size; r++) {
        char key[32];
        bool there = false;
        peer_key(key, r);
        cr_status st = cr_store_check(store, key, &there);
        if (st) {
            cr_text_drop(&list);
            return st; /* the store's own failure */
        }
        if (!there && missing++ < 32)
            cr_text_printf(&list, "%s%d", missing > 1 ? ", " : "", r);
    }
    cr_fail(CR_STORE,
            "Timed out after %lldms: %d of %d ranks have not joined the group (rank%s %s)",
            (long long)timeout_ms, missing, size, missing == 1 ? "" : "s", cr_text_str(&list));
    cr_text_drop(&list);
    return CR_STORE;
}

static cr_status peer_find(peer *p, cr_store *store, int rank, int64_t ms, double end)
{
    char key[32];
    cr_text text = {0};

    peer_key(key, rank);
    cr_status st = cr_store_get_slice(store, key, ms, end, &text);
    if (!st && !peer_parse(p, cr_text_str(&text)))
        st = cr_fail(CR_COMM, "the store has no process of rank %d", rank);
    cr_text_drop(&text);
    return st;
}

/* --- refusals --- */
/* Fails with the refusal of another rank, if there is one. */
static cr_status refusal_read(cr_store *store)
{
    cr_text text = {0};
    bool there = false;
    int kind = 0, begin = 0;

    CR_TRY(cr_store_check(store, refusal_key, &there));
    if (!there || cr_store_get(store, refusal_key, 0, &text))
        return CR_OK; /* it may be deleted meanwhile */
    cr_status st = CR_OK;
    if (sscanf(cr_text_str(&text), "%d %n", &kind, &begin) == 1 && kind > CR_OK &&
        kind < CR_KIND_COUNT)
        st = cr_fail((cr_status)kind, "%s", cr_text_str(&text) + begin);
    cr_text_drop(&text);
    return st;
}

/* Writes the thread's error; true if it is the first refusal. */
static bool refusal_write(cr_store *store, cr_status kind)
{
    cr_text text = {0};
    char *other = NULL;

    cr_text_printf(&text, "%d %s", (int)kind, cr_error_message());
    bool first = !set_first(store, refusal_key, cr_text_str(&text), &other) && !other;
    cr_free(other);
    cr_text_drop(&text);
    return first;
}

/* The answer to a request about a key; false where the store is lost, for which a rank that
 * leaves does not wait. */
static bool ask_shortly(cr_store *store, cr_store_verb verb, const char *key, int64_t number,
                        int64_t *answer)
{
    cr_store_reply reply = {0};
    cr_bytes k = cr_bytes_of(key);
    cr_store_request r = {verb, number, STORE_MS, 1, 0, &k, NULL, 0};
    bool answered = !cr_store_call(store, &r, &reply);

    *answer = reply.number;
    cr_store_reply_drop(&reply);
    return answered;
}

/* How many ranks have come and not left; 0 where the store is lost. */
static int peers_there(cr_store *store, int size)
{
    int n = 0;

    for (int r = 0; r < size; r++) {
        char key[32];
        int64_t there;
        peer_key(key, r);
        if (!ask_shortly(store, CR_STORE_CHECK, key, 0, &there))
            return 0;
        n += there != 0;
    }
    return n;
}

static bool peers_wait_more(cr_store *store, int size, bool over, int64_t left)
{
    return over ? peers_there(store, size) > 0 : left < size;
}

/* Waits until all ranks know of the refusal: those that have come where the time is over, else
 * all `size`, whose processes may start later.  `first`: this process refused, and deletes the
 * refusal, which ends the waits of the others.  `rank`: as which this process has written
 * itself, or -1; that is deleted before the others go on, which may try again. */
static void peers_leave(cr_store *store, int rank, int size, double limit, bool first)
{
    char key[32];
    double now = cr_seconds(), end = now + 1e-3 * LEAVE_ALL_MS, least = now + 1e-3 * LEAVE_MS;
    bool over = now >= limit;
    int64_t left, there = 1, unused;

    end = end > limit ? limit : end;
    end = end < least ? least : end;
    peer_key(key, rank);
    if (rank >= 0 && !ask_shortly(store, CR_STORE_DELETE, key, 0, &unused))
        return;
    if (!ask_shortly(store, CR_STORE_ADD, left_key, 1, &left))
        return;
    while (there && (!first || peers_wait_more(store, size, over, left)) &&
           cr_seconds() < end && !cr_wait_pause(LEAVE_PAUSE_US))
        if (!ask_shortly(store, CR_STORE_ADD, left_key, 0, &left) ||
            !ask_shortly(store, CR_STORE_CHECK, refusal_key, 0, &there))
            return;
    if (first && ask_shortly(store, CR_STORE_DELETE, refusal_key, 0, &unused))
        (void)ask_shortly(store, CR_STORE_DELETE, left_key, 0, &unused);
}

/* Waits for a rank; *over: the time has passed, or the program ends the wait. */
static cr_status peer_wait(peer *p, cr_store *store, int rank, double end, bool *over)
{
    for (;;) {
        double start = cr_seconds(), left = 1e3 * (end - start);
        int64_t ms = left < 0 ? 0 : left < MEET_SLICE_MS ? (int64_t)left : MEET_SLICE_MS;
        cr_status st = peer_find(p, store, rank, ms, end);
        if (st != CR_STORE)
            return st;
        CR_TRY(refusal_read(store));
        /* a store that fails, such as a file, does so at once */
        double pause = 1e6 * (start - cr_seconds()) + 1e3 * (double)ms;
        *over = cr_wait_pause(pause > 0 ? (unsigned)pause : 0) || cr_seconds() >= end;
        if (*over)
            return CR_OK;
    }
}

static const char *peer_where(const peer *p, char *out)
{
    snprintf(out, WHERE_BYTES, "%s%s%s", p->where[0] ? " (" : "", p->where,
             p->where[0] ? ")" : "");
    return out;
}

/* Fails when this rank and rank r state different groups.  The message begins with the lower
 * rank, so it is the same at both. */
static cr_status peer_compare(const cr_peers *p, int r)
{
    int low = r < p->rank ? r : p->rank, high = r < p->rank ? p->rank : r;
    const peer *a = &p->at[low], *b = &p->at[high];
    char here[WHERE_BYTES], there[WHERE_BYTES];

    if (a->size != b->size)
        return cr_fail(CR_COMM,
                       "the ranks state different sizes of the group: rank %d has %d "
                       "ranks, rank %d has %d",
                       low, a->size, high, b->size);
    if (strcmp(a->engine, b->engine))
        return cr_fail(CR_COMM,
                       "the ranks name different engines of the group: rank %d names '%s'%s, "
                       "rank %d names '%s'%s",
                       low, a->engine, peer_where(a, here), high, b->engine,
                       peer_where(b, there));
    return CR_OK;
}

/* The error of the time limit.  A rank whose limit passed a moment ago has left, and would be
 * named as missing; but its refusal, which it wrote before, names those that are. */
static cr_status peers_late(cr_store *store, int size, int64_t timeout_ms)
{
    cr_status st = peers_missing(store, size, timeout_ms);
    char *why = cr_strdup(cr_error_message());
    cr_status told = refusal_read(store);

    if (!told)
        cr_fail(st, "%s", why ? why : "no memory for a message");
    cr_free(why);
    return told ? told : st;
}

static cr_status peers_find(cr_peers *p, cr_store *store, double end, int64_t timeout_ms)
{
    for (int r = 0; r < p->size; r++) {
        bool over = false;
        CR_TRY(peer_wait(&p->at[r], store, r, end, &over));
        if (over)
            return peers_late(store, p->size, timeout_ms);
        CR_TRY(peer_compare(p, r));
    }
    return CR_OK;
}

/* Tells the waiting ranks the thread's error, which stays the thread's error.  `written`: this
 * process is in the store. */
static cr_status peers_refuse(const cr_comm_how *how, cr_status st, double end, bool written)
{
    char *why = cr_strdup(cr_error_message());
    bool first = refusal_write(how->store, st);

    peers_leave(how->store, written ? how->rank : -1, how->size, end, first);
    cr_fail(st, "%s", why ? why : "no memory for a message");
    cr_free(why);
    return st;
}

static void peer_state(peer *own, const cr_comm_how *how)
{
    own->size = how->size;
    snprintf(own->engine, sizeof own->engine, "%s", how->engine);
    snprintf(own->where, sizeof own->where, "%s", how->where ? how->where : "");
}

cr_status cr_peers_meet(cr_peers **out, const cr_comm_how *how)
{
    double end = cr_seconds() + 1e-3 * (double)how->timeout_ms;
    cr_peers *p = cr_alloc_zero(sizeof *p + (size_t)how->size * sizeof *p->at);

    CR_NEED(p);
    p->rank = how->rank;
    p->size = how->size;
    peer_state(&p->at[p->rank], how);
    meeting_begin(p);
    cr_status st = peer_write(&p->at[p->rank], how->store, p->rank);
    bool written = !st;
    if (!st)
        st = peers_find(p, how->store, end, how->timeout_ms);
    if (st == CR_COMM || st == CR_STORE)
        st = peers_refuse(how, st, end, written);
    if (st) {
        cr_peers_free(p);
        return st;
    }
    meeting_met(p);
    *out = p;
    return CR_OK;
}

cr_status cr_peers_miss(const cr_comm_how *how, cr_status st)
{
    char *why = cr_strdup(cr_error_message()), where[WHERE_BYTES];
    peer own = {0};

    CR_NEED(why);
    peer_state(&own, how);
    cr_fail(st, "rank %d has no engine '%s'%s: %s",
            how->global ? how->global[how->rank] : how->rank, own.engine,
            peer_where(&own, where), why);
    (void)peers_refuse(how, st, cr_seconds() + 1e-3 * (double)how->timeout_ms, false);
    cr_fail(st, "%s", why);
    cr_free(why);
    return st;
}

static bool peer_is_here(const cr_peers *p, int rank)
{
    return !strcmp(p->at[rank].host, p->at[p->rank].host);
}

cr_peer_state cr_peers_state(const cr_peers *p, int rank)
{
    char state;
    unsigned long long start;

    if (!peer_is_here(p, rank))
        return CR_PEER_UNKNOWN;
    if (!process_read(p->at[rank].process, &state, &start) || start != p->at[rank].start ||
        state == 'Z' || state == 'X')
        return CR_PEER_ENDED;
    return state == 'T' || state == 't' ? CR_PEER_STOPPED : CR_PEER_RUNS;
}

int cr_peers_process(const cr_peers *p, int rank) { return p->at[rank].process; }

int cr_peers_ended(const cr_peers *p)
{
    for (int r = 0; r < p->size; r++)
        if (r != p->rank && cr_peers_state(p, r) == CR_PEER_ENDED)
            return r;
    return -1;
}

bool cr_peers_share_host(const cr_peers *p)
{
    for (int r = 0; r < p->size; r++)
        if (!peer_is_here(p, r))
            return false;
    return true;
}

void cr_peers_free(cr_peers *p)
{
    if (p)
        meeting_end(p);
    cr_free(p);
}
