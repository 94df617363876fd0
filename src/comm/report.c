/* The error of a failed call: this call, the reason, and where every other rank is.
 *
 * Each rank that fails writes its place to the store.  The others are looked up for a moment: a
 * rank whose process has ended or is stopped is named as such. */
#include "comm/group_impl.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STORE_MS = 300, COLLECT_MS = 700, PLACE_BYTES = 400, NAMED_RANKS = 16 };

static void place_text(char *out, const cr_running *c)
{
    snprintf(out, PLACE_BYTES, "%s #%llu%s%s%s", cr_call_kind_name(c->args->kind),
             (unsigned long long)c->sequence, *c->where ? " (" : "", c->where,
             *c->where ? ")" : "");
}

/* A request that does not wait long for a lost store. */
static cr_status ask_shortly(cr_store *s, cr_store_request r, cr_store_reply *out)
{
    r.timeout_ms = STORE_MS;
    return cr_store_call(s, &r, out);
}

static cr_status place_write(const cr_running *c, const char *place)
{
    char key[32];
    cr_store_reply reply = {0};

    snprintf(key, sizeof key, "failed/%d", c->g->rank);
    cr_bytes k = cr_bytes_of(key), v = cr_bytes_of(place);
    cr_store_request r = {.verb = CR_STORE_SET, .keys = 1, .values = 1, .key = &k, .value = &v};
    cr_status st = ask_shortly(c->g->store, r, &reply);
    cr_store_reply_drop(&reply);
    return st;
}

/* Whether `rank` wrote its place; then *out has it. */
static bool place_read(const cr_running *c, int rank, char *out)
{
    char key[32];
    cr_store_reply reply = {0};

    snprintf(key, sizeof key, "failed/%d", rank);
    cr_bytes k = cr_bytes_of(key);
    cr_store_request r = {.verb = CR_STORE_CHECK, .keys = 1, .key = &k};
    bool there = !ask_shortly(c->g->store, r, &reply) && reply.number;
    cr_store_reply_drop(&reply);
    r.verb = CR_STORE_GET;
    if (there && !ask_shortly(c->g->store, r, &reply))
        snprintf(out, PLACE_BYTES, "%.*s", (int)reply.value.at[0].len, reply.value.at[0].at);
    else
        there = false;
    cr_store_reply_drop(&reply);
    return there;
}

/* What is known of a rank; "" for nothing. */
static void rank_text(const cr_running *c, int rank, char *out)
{
    const cr_peers *p = c->g->peers;
    cr_peer_state state = cr_peers_state(p, rank);
    int process = cr_peers_process(p, rank);

    *out = 0;
    if (state == CR_PEER_ENDED)
        snprintf(out, PLACE_BYTES, "rank %d (process %d) has ended", rank, process);
    else if (state == CR_PEER_STOPPED)
        snprintf(out, PLACE_BYTES, "rank %d (process %d) is stopped", rank, process);
    else if (place_read(c, rank, out)) {
        char place[PLACE_BYTES];
        memcpy(place, out, sizeof place);
        snprintf(out, PLACE_BYTES, "rank %d is at %.300s", rank, place);
    }
}

static bool all_known(char known[][PLACE_BYTES], int n, int own)
{
    for (int r = 0; r < n; r++)
        if (r != own && !*known[r])
            return false;
    return true;
}

/* Looks the others up until all are known, for a moment. */
static void ranks_text(const cr_running *c, cr_text *out)
{
    char known[NAMED_RANKS][PLACE_BYTES] = {{0}};
    int n = c->g->size < NAMED_RANKS ? c->g->size : NAMED_RANKS;
    double end = cr_seconds() + 1e-3 * COLLECT_MS;

    for (;;) {
        for (int r = 0; r < n; r++)
            if (r != c->g->rank && !*known[r])
                rank_text(c, r, known[r]);
        if (all_known(known, n, c->g->rank) || cr_seconds() > end)
            break;
        usleep(20000);
    }
    for (int r = 0; r < n; r++) {
        if (r == c->g->rank)
            continue;
        if (*known[r])
            cr_text_printf(out, "; %s", known[r]);
        else
            cr_text_printf(out, "; rank %d is in no call of this group", r);
    }
}

cr_status cr_report(const cr_running *c, cr_status st)
{
    char place[PLACE_BYTES];
    cr_text t = {0};

    place_text(place, c);
    cr_text_printf(&t, "%s of rank %d in group '%s' failed after %.0f ms (timeout %.0f ms): %s",
                   place, c->g->rank, c->g->name, 1e3 * (cr_seconds() - c->start),
                   1e3 * (c->end - c->start), cr_error_message());
    if (c->g->peers && c->g->store && !place_write(c, place))
        ranks_text(c, &t);
    cr_fail(st, "%s", cr_text_str(&t));
    cr_text_drop(&t);
    return st;
}
