/* The error of a failed call: this call, the reason, and where every other rank is.
 *
 * Each rank that fails writes its place to the store.  The others are looked up for a moment: a
 * rank whose process has ended or is stopped is named as such. */
#include "comm/group_impl.h"
#include <stdio.h>
#include <unistd.h>

enum { STORE_MS = 300, COLLECT_MS = 700, PLACE_BYTES = 800, NAMED_RANKS = 16 };

/* A message: two ranks' messages that differ wait for each other in vain. */
static void message_text(char *out, const cr_running *c)
{
    const cr_call_args *a = c->args;
    bool sends = a->kind == CR_CALL_SEND;
    char peer[32] = "any rank";

    if (a->root >= 0)
        snprintf(peer, sizeof peer, "rank %d", cr_global_rank(c->g, a->root));
    snprintf(out, PLACE_BYTES, "%s of %lld elements of %s %s %s, tag %llu%s%s%s",
             cr_call_kind_name(a->kind), (long long)(sends ? a->in : a->out)[0].count,
             cr_dtype_name(a->dtype), sends ? "to" : "from", peer, (unsigned long long)a->tag,
             *c->where ? " (" : "", c->where, *c->where ? ")" : "");
}

static void place_text(char *out, const cr_running *c)
{
    if (c->args->kind == CR_CALL_SEND || c->args->kind == CR_CALL_RECEIVE) {
        message_text(out, c);
        return;
    }
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

/* The place and the reason; and the key that tells waiting ranks of the failure. */
static cr_status place_write(const cr_running *c, const char *place, const char *why)
{
    char key[32], text[2 * PLACE_BYTES];
    cr_store_reply reply = {0};

    snprintf(key, sizeof key, "failed/%d", c->g->rank);
    snprintf(text, sizeof text, "%s: %.500s", place, why);
    cr_bytes k[] = {cr_bytes_of(key), cr_bytes_of(CR_BROKEN_KEY)},
             v[] = {cr_bytes_of(text), {"1", 1}};
    cr_store_request r = {.verb = CR_STORE_SET, .keys = 2, .values = 2, .key = k, .value = v};
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

/* Writes a description of a rank into `out`, or "" if there is none.  A rank may end after its
 * own failure, which is then the reason of the others.  A store that is lost is not asked. */
static void rank_text(const cr_running *c, int rank, bool asks, char *out)
{
    const cr_peers *p = c->g->peers;
    cr_peer_state state = cr_peers_state(p, rank);
    int process = cr_peers_process(p, rank), number = cr_global_rank(c->g, rank);
    char place[PLACE_BYTES] = "";
    bool failed = asks && state != CR_PEER_STOPPED && place_read(c, rank, place);

    *out = 0;
    if (state == CR_PEER_ENDED)
        snprintf(out, PLACE_BYTES, "rank %d (process %d) has ended%s%.700s", number, process,
                 failed ? " after " : "", place);
    else if (state == CR_PEER_STOPPED)
        snprintf(out, PLACE_BYTES, "rank %d (process %d) is stopped", number, process);
    else if (failed)
        snprintf(out, PLACE_BYTES, "rank %d is at %.700s", number, place);
}

static bool all_known(char known[][PLACE_BYTES], int n, int own)
{
    for (int r = 0; r < n; r++)
        if (r != own && !*known[r])
            return false;
    return true;
}

/* Looks the others up until all are known, for a moment; without a store until one has ended,
 * because connections of a process close before it is seen to end. */
static void ranks_text(const cr_running *c, bool asks, cr_text *out)
{
    char known[NAMED_RANKS][PLACE_BYTES] = {{0}};
    int n = c->g->size < NAMED_RANKS ? c->g->size : NAMED_RANKS;
    double end = cr_seconds() + 1e-3 * COLLECT_MS;

    for (bool last = false;; usleep(20000)) {
        last = cr_seconds() > end || (!asks && cr_peers_ended(c->g->peers) >= 0);
        for (int r = 0; r < n; r++)
            if (r != c->g->rank && !*known[r])
                rank_text(c, r, asks, known[r]);
        if (last || all_known(known, n, c->g->rank))
            break;
    }
    for (int r = 0; r < n; r++) {
        if (r == c->g->rank)
            continue;
        if (*known[r])
            cr_text_printf(out, "; %s", known[r]);
        else
            cr_text_printf(out,
                           asks ? "; rank %d is in no call of this group"
                                : "; of rank %d nothing is known, the store does not answer",
                           cr_global_rank(c->g, r));
    }
}

cr_status cr_report(const cr_running *c, cr_status st)
{
    char place[PLACE_BYTES], why[PLACE_BYTES];
    cr_text t = {0};

    place_text(place, c);
    snprintf(why, sizeof why, "%s", cr_error_message());
    cr_text_printf(&t, "%s of rank %d in group '%s' failed after %.0f ms (timeout %.0f ms): %s",
                   place, cr_global_rank(c->g, c->g->rank), c->g->name,
                   1e3 * (cr_seconds() - c->start), 1e3 * (c->end - c->start), why);
    if (c->g->peers && c->g->store)
        ranks_text(c, !place_write(c, place, why), &t);
    cr_fail(st, "%s", cr_text_str(&t));
    cr_text_drop(&t);
    return st;
}

bool cr_is_broken_elsewhere(const cr_comm *g)
{
    cr_store_reply reply = {0};
    cr_bytes k = cr_bytes_of(CR_BROKEN_KEY);
    cr_store_request r = {.verb = CR_STORE_CHECK, .keys = 1, .key = &k};
    bool broken = g->store && !ask_shortly(g->store, r, &reply) && reply.number;

    cr_store_reply_drop(&reply);
    return broken;
}

cr_status cr_report_open(const cr_comm *g, const cr_comm_how *how, cr_status st)
{
    int ended = g->peers ? cr_peers_ended(g->peers) : -1;
    char why[2 * PLACE_BYTES], who[64] = "";

    snprintf(why, sizeof why, "%s", cr_error_message());
    if (ended >= 0)
        snprintf(who, sizeof who,
                 "rank %d (process %d) has ended: ", how->global ? how->global[ended] : ended,
                 cr_peers_process(g->peers, ended));
    if (g->rank < 0)
        return cr_fail(st, "this process cannot join the group '%s': %s%s", how->name, who,
                       why);
    return cr_fail(st, "rank %d cannot join the group '%s': %s%s",
                   how->global ? how->global[g->rank] : g->rank, how->name, who, why);
}
