/* The server of PMI-1: ranks tell it keys and values, and wait for each other at barriers.
 *
 * The name of a run's key space must be new for each run: MPICH names shared memory after
 * it. */
#include "comm/mpi/pmi.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/thread.h"
#include "comm/net.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WORD = 1100, FIRST_CONTACT_MS = 300000 };

typedef struct {
    int fd, rank;
    bool waits; /* at the barrier */
    cr_text in;
} pmi_rank;

typedef struct {
    int listen, size, joined, gone;
    pmi_rank *ranks;
    struct pollfd *polled;
    cr_map values;
    cr_arena arena;
    char name[64];
} pmi_server;

/* The value of `name` in "cmd=put kvsname=x key=a value=b"; "" when it is absent. */
static void pmi_field(const char *line, const char *name, char *out)
{
    size_t n = strlen(name);

    *out = 0;
    for (const char *p = line; (p = strstr(p, name)); p += n)
        if ((p == line || p[-1] == ' ') && p[n] == '=') {
            snprintf(out, WORD, "%.*s", (int)strcspn(p + n + 1, " "), p + n + 1);
            return;
        }
}

static void pmi_say(const pmi_rank *r, const char *fmt, ...) CR_PRINTF(2, 3);
static void pmi_say(const pmi_rank *r, const char *fmt, ...)
{
    char text[2 * WORD];
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (send(r->fd, text, (size_t)n, MSG_NOSIGNAL) != n)
        shutdown(r->fd, SHUT_RDWR);
}

static void pmi_put(pmi_server *s, const pmi_rank *r, const char *line)
{
    char key[WORD], value[WORD];

    pmi_field(line, "key", key);
    pmi_field(line, "value", value);
    char *kept = cr_arena_text(&s->arena, value, strlen(value));
    bool ok = kept && !cr_map_set(&s->values, key, strlen(key), kept);
    pmi_say(r, "cmd=put_result rc=%d msg=%s\n", ok ? 0 : -1, ok ? "success" : "no_memory");
}

static void pmi_get(pmi_server *s, const pmi_rank *r, const char *line)
{
    char key[WORD], mapping[64];

    pmi_field(line, "key", key);
    const char *value = cr_map_get(&s->values, key, strlen(key));
    snprintf(mapping, sizeof mapping, "(vector,(0,1,%d))", s->size);
    if (!value && !strcmp(key, "PMI_process_mapping"))
        value = mapping;
    if (value)
        pmi_say(r, "cmd=get_result rc=0 msg=success value=%s\n", value);
    else
        pmi_say(r, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
}

static void pmi_barrier(pmi_server *s, pmi_rank *r)
{
    r->waits = true;
    for (int i = 0; i < s->size; i++)
        if (i >= s->joined || !s->ranks[i].waits)
            return;
    for (int i = 0; i < s->size; i++) {
        s->ranks[i].waits = false;
        pmi_say(&s->ranks[i], "cmd=barrier_out\n");
    }
}

static void pmi_hello(const pmi_server *s, pmi_rank *r, const char *line)
{
    char id[WORD];

    pmi_field(line, "pmiid", id);
    r->rank = atoi(id);
    pmi_say(r, "cmd=initack rc=0\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n", s->size,
            r->rank);
}

static void pmi_answer(pmi_server *s, pmi_rank *r, const char *line)
{
    char cmd[WORD];

    pmi_field(line, "cmd", cmd);
    if (!strcmp(cmd, "initack"))
        pmi_hello(s, r, line);
    else if (!strcmp(cmd, "init"))
        pmi_say(r, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    else if (!strcmp(cmd, "get_maxes"))
        pmi_say(r, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
    else if (!strcmp(cmd, "get_appnum"))
        pmi_say(r, "cmd=appnum appnum=0\n");
    else if (!strcmp(cmd, "get_universe_size"))
        pmi_say(r, "cmd=universe_size size=%d\n", s->size);
    else if (!strcmp(cmd, "get_my_kvsname"))
        pmi_say(r, "cmd=my_kvsname kvsname=%s\n", s->name);
    else if (!strcmp(cmd, "put"))
        pmi_put(s, r, line);
    else if (!strcmp(cmd, "get"))
        pmi_get(s, r, line);
    else if (!strcmp(cmd, "barrier_in"))
        pmi_barrier(s, r);
    else if (!strcmp(cmd, "finalize"))
        pmi_say(r, "cmd=finalize_ack\n");
    else
        pmi_say(r, "cmd=%s rc=-1 msg=unknown\n", cmd);
}

static void pmi_leave(pmi_server *s, pmi_rank *r)
{
    close(r->fd);
    r->fd = -1;
    s->gone++;
}

static void pmi_read(pmi_server *s, pmi_rank *r)
{
    char bytes[4096];
    ssize_t n = recv(r->fd, bytes, sizeof bytes, 0);

    if (n > 0)
        cr_text_put_n(&r->in, bytes, (size_t)n);
    if (n <= 0 || r->in.failed) {
        pmi_leave(s, r);
        return;
    }
    char *line = r->in.at, *end;
    while ((end = strchr(line, '\n'))) {
        *end = 0;
        pmi_answer(s, r, line);
        line = end + 1;
    }
    r->in.len = strlen(line);
    memmove(r->in.at, line, r->in.len + 1);
}

static void pmi_free(pmi_server *s)
{
    for (int i = 0; s->ranks && i < s->joined; i++) {
        if (s->ranks[i].fd >= 0)
            close(s->ranks[i].fd);
        cr_text_drop(&s->ranks[i].in);
    }
    if (s->listen >= 0)
        close(s->listen);
    cr_map_drop(&s->values);
    cr_arena_drop(&s->arena);
    cr_free(s->ranks);
    cr_free(s->polled);
    cr_free(s);
}

static void pmi_accept(pmi_server *s)
{
    int fd = accept(s->listen, NULL, NULL);

    if (fd >= 0)
        s->ranks[s->joined++] = (pmi_rank){.fd = fd, .rank = -1};
}

static void *pmi_run(void *at)
{
    pmi_server *s = at;

    while (s->gone < s->size) {
        int had = s->joined;
        s->polled[0] = (struct pollfd){had < s->size ? s->listen : -1, POLLIN, 0};
        for (int i = 0; i < had; i++)
            s->polled[i + 1] = (struct pollfd){s->ranks[i].fd, POLLIN, 0};
        if (poll(s->polled, (nfds_t)had + 1, had < s->size ? FIRST_CONTACT_MS : -1) == 0)
            break; /* a rank never came */
        if (s->polled[0].revents)
            pmi_accept(s);
        for (int i = 0; i < had; i++)
            if (s->polled[i + 1].revents)
                pmi_read(s, &s->ranks[i]);
    }
    pmi_free(s);
    return NULL;
}

cr_status cr_pmi_serve(int size, bool everywhere, int *port)
{
    pmi_server *s = cr_alloc_zero(sizeof *s);
    cr_status st = CR_MEMORY;

    CR_NEED(s);
    s->listen = -1;
    s->size = size;
    s->ranks = cr_alloc_zero((size_t)size * sizeof *s->ranks);
    s->polled = cr_alloc_zero(((size_t)size + 1) * sizeof *s->polled);
    snprintf(s->name, sizeof s->name, "cresset_%d_%llx", (int)getpid(),
             (unsigned long long)time(NULL));
    if (s->ranks && s->polled)
        st = cr_net_listen(&s->listen, everywhere ? "0.0.0.0" : "127.0.0.1", 0);
    if (!st)
        *port = cr_net_port(s->listen);
    if (!st && cr_thread_start(NULL, pmi_run, s))
        st = cr_fail(CR_COMM, "no thread for MPI's start");
    if (st)
        pmi_free(s);
    return st;
}
