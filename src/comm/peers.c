/* Processes of a group's ranks.  A process is its number and its start time, because numbers
 * are used again; a host is its boot and its name space of process numbers. */
#include "comm/peers.h"
#include "base/clock.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_BYTES = 128 };

typedef struct {
    int process;
    unsigned long long start;
    char host[HOST_BYTES];
} peer;

struct cr_peers {
    int rank, size;
    peer at[];
};

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
    snprintf(out, HOST_BYTES, "%s%s", boot, space);
}

static void peer_key(char *out, int rank) { snprintf(out, 32, "peer/%d", rank); }

static cr_status peer_write(peer *own, cr_store *store, int rank)
{
    char key[32], text[HOST_BYTES + 64], state = 0;
    cr_bytes k, value[2] = {{"", 0}, {0}};
    cr_store_reply reply = {0};

    own->process = getpid();
    process_read(own->process, &state, &own->start);
    host_read(own->host);
    snprintf(text, sizeof text, "%d %llu %s", own->process, own->start, own->host);
    peer_key(key, rank);
    k = cr_bytes_of(key);
    value[1] = cr_bytes_of(text);
    cr_store_request r = {CR_STORE_COMPARE_SET, 0, -1, 1, 2, &k, value};
    cr_status st = cr_store_call(store, &r, &reply);
    bool mine = !st && reply.value.len && reply.value.at[0].len == value[1].len &&
                !memcmp(reply.value.at[0].at, text, value[1].len);
    int other = st || mine ? 0 : atoi(reply.value.at[0].at);
    cr_store_reply_drop(&reply);
    return st || mine ? st
                      : cr_fail(CR_COMM,
                                "rank %d is process %d already: two processes (this one is "
                                "%d) have the same rank",
                                rank, other, own->process);
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

static cr_status peer_find(peer *p, cr_store *store, int rank, int64_t ms)
{
    char key[32];
    cr_text text = {0};

    peer_key(key, rank);
    cr_status st = cr_store_get(store, key, ms, &text);
    if (!st && sscanf(cr_text_str(&text), "%d %llu %127s", &p->process, &p->start, p->host) < 2)
        st = cr_fail(CR_COMM, "the store has no process of rank %d", rank);
    cr_text_drop(&text);
    return st;
}

cr_status cr_peers_meet(cr_peers **out, cr_store *store, int rank, int size, int64_t timeout_ms)
{
    double end = cr_seconds() + 1e-3 * (double)timeout_ms;
    cr_peers *p = cr_alloc_zero(sizeof *p + (size_t)size * sizeof *p->at);

    if (!p)
        return CR_MEMORY;
    p->rank = rank;
    p->size = size;
    cr_status st = peer_write(&p->at[rank], store, rank);
    for (int r = 0; r < size && !st; r++) {
        double left = 1e3 * (end - cr_seconds());
        st = peer_find(&p->at[r], store, r, left > 0 ? (int64_t)left : 0);
        if (st == CR_STORE)
            st = peers_missing(store, size, timeout_ms);
    }
    if (st)
        cr_peers_free(p);
    else
        *out = p;
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

void cr_peers_free(cr_peers *p) { cr_free(p); }
