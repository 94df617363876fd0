/* Requests and replies between processes: connections, and requests without a reply.
 *
 * A connection has one direction: the process that opened it sends.  The thread of the agent
 * reads the connections that others opened, and watches its own for their end.  A sender holds
 * the lock of its connection alone, so a process that does not read delays the messages to
 * itself and no others. */
#include "comm/agent.h"
#include "base/clock.h"
#include "base/thread.h"
#include "comm/net.h"
#include "comm/wait.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SECRET = 16,
    BUCKETS = 256,
    SMALL = 32768, /* smaller parts are copied, to be sent with one call */
    PARTS_MOST = 1 << 20,
    CONNECT_MS = 1000,
    HELLO_MS = 3000, /* a connection that has not said who it is by then is closed */
    SEND_MS = 60000
};

typedef struct {
    char secret[SECRET];
    uint64_t rank;
} hello;

typedef struct {
    uint64_t id;
    uint32_t kind, parts;
} head;

/* What the thread watches: the head of connections, and the two sockets of the agent. */
typedef struct {
    enum { WATCH_WAKE, WATCH_LISTEN, WATCH_INLET, WATCH_PEER } what;
} watch;

/* A connection that another agent opened.
 * Invariant: `at` and `left` are of the stage: `left` bytes from `at` on are still to be
 * read, all of them within the object that the stage reads. sizes and message are NULL
 * before the head was read. Of a connection that is `gone` nothing is read. */
typedef struct inlet {
    watch watch;
    struct inlet *next;
    int fd, from;
    enum { READ_HELLO, READ_HEAD, READ_SIZES, READ_PARTS } stage;
    hello hello;
    head head;
    uint64_t *sizes;
    cr_message *message;
    uint32_t part; /* that is being read */
    char *at;      /* the next byte's place */
    size_t left;   /* bytes until the stage is complete */
    double limit;  /* of the hello */
    bool gone;
} inlet;

/* Another agent, to which this one sends. */
typedef struct {
    watch watch;
    int rank;
    bool forgotten;       /* another process may have the rank; of the agent's lock */
    pthread_mutex_t lock; /* of a message's bytes */
    int fd;               /* -1: not connected */
    _Atomic bool lost;
} peer;

typedef struct pending {
    struct pending *next;
    uint64_t id;
    int to;
    const peer *peer; /* NULL: this agent itself */
    double limit;
    cr_message *end; /* the LATE or LOST message: a request ends without memory, too */
} pending;

typedef struct {
    cr_message *first, **last;
    pthread_cond_t changed;
    int waiting;
} queue;

/* The messages of a process that others send to it, and those that it sends.
 * Invariant: `thread` runs while has_thread is set, in the process `process` alone. Every
 * pending request is in one chain of `bucket`. soonest is at most the limit of each pending
 * request. */
struct cr_agent {
    cr_store *store;
    int rank;
    hello hello;
    watch wake_watch, listen_watch;
    int fd, poll, wake;
    pid_t process; /* a forked child has no thread */
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    bool ended;
    inlet *inlets; /* of the thread alone */
    CR_VEC(peer *) peers;
    pending *bucket[BUCKETS];
    double soonest; /* no limit of a pending request is before */
    queue queue[2]; /* requests, and the rest */
};

/* --- messages --- */
void cr_message_drop(cr_message *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->parts && m->part; i++)
        cr_free(m->part[i].at);
    cr_free(m->part);
    cr_free(m);
}

static cr_message *message_new(cr_message_kind kind, int from, uint64_t id, uint32_t parts)
{
    cr_message *m = cr_alloc_zero(sizeof *m);

    if (!m)
        return NULL;
    m->kind = kind;
    m->from = from;
    m->id = id;
    m->parts = parts;
    m->part = cr_alloc_zero((parts + 1) * sizeof *m->part);
    if (m->part)
        return m;
    cr_message_drop(m);
    return NULL;
}

static cr_status message_copy(cr_message **out, cr_message_kind kind, int from, uint64_t id,
                              const cr_bytes *part, uint32_t parts)
{
    cr_message *m = message_new(kind, from, id, parts);

    for (uint32_t i = 0; m && i < parts; i++) {
        m->part[i].at = cr_alloc(part[i].len + 1);
        m->part[i].len = part[i].len;
        if (!m->part[i].at) {
            cr_message_drop(m);
            return CR_MEMORY;
        }
        if (part[i].len)
            memcpy(m->part[i].at, part[i].at, part[i].len);
    }
    *out = m;
    return m ? CR_OK : CR_MEMORY;
}

/* The lock is held. */
static void queue_put(cr_agent *a, cr_message *m)
{
    queue *q = &a->queue[m->kind != CR_MESSAGE_REQUEST];

    m->next = NULL;
    *q->last = m;
    q->last = &m->next;
    pthread_cond_signal(&q->changed);
}

void cr_agent_next(cr_agent *a, bool requests, cr_message **out, int *waiting)
{
    queue *q = &a->queue[!requests];

    pthread_mutex_lock(&a->lock);
    q->waiting++;
    while (!q->first && !a->ended)
        pthread_cond_wait(&q->changed, &a->lock);
    q->waiting--;
    *out = a->ended ? NULL : q->first;
    if (*out) {
        q->first = (*out)->next;
        if (!q->first)
            q->last = &q->first;
    }
    *waiting = q->waiting;
    pthread_mutex_unlock(&a->lock);
}

/* --- requests without a reply; the lock is held --- */
static void pending_drop(pending *p)
{
    cr_message_drop(p->end);
    cr_free(p);
}

static cr_status pending_add(cr_agent *a, int to, const peer *asked, uint64_t id,
                             int64_t timeout_ms)
{
    pending *p = cr_alloc_zero(sizeof *p), **bucket = &a->bucket[id % BUCKETS];
    cr_message *end = message_new(CR_MESSAGE_LOST, to, id, 0);
    uint64_t one = 1;

    if (!p || !end) {
        cr_message_drop(end);
        cr_free(p);
        return CR_MEMORY;
    }
    *p = (pending){*bucket,
                   id,
                   to,
                   asked,
                   timeout_ms ? cr_seconds() + 1e-3 * (double)timeout_ms : (double)INFINITY,
                   end};
    *bucket = p;
    if (p->limit < a->soonest) {
        a->soonest = p->limit;
        if (write(a->wake, &one, sizeof one) < 0) {
            *bucket = p->next; /* no message comes */
            pending_drop(p);
            return cr_fail(CR_NETWORK, "eventfd: %s", strerror(errno));
        }
    }
    return CR_OK;
}

static bool pending_take(cr_agent *a, int to, uint64_t id)
{
    for (pending **link = &a->bucket[id % BUCKETS]; *link; link = &(*link)->next)
        if ((*link)->id == id && (*link)->to == to) {
            pending *p = *link;
            *link = p->next;
            pending_drop(p);
            return true;
        }
    return false;
}

/* Ends the requests to agent `lost` (NULL: none), those to any agent of rank `from` (-1: none),
 * and those whose limit has passed. */
static void pending_end(cr_agent *a, const peer *lost, int from)
{
    double now = cr_seconds();

    a->soonest = (double)INFINITY;
    for (int i = 0; i < BUCKETS; i++)
        for (pending **link = &a->bucket[i]; *link;) {
            pending *p = *link;
            bool late = p->limit <= now;
            if (!late && p->to != from && (!lost || p->peer != lost)) {
                a->soonest = p->limit < a->soonest ? p->limit : a->soonest;
                link = &p->next;
                continue;
            }
            p->end->kind = late ? CR_MESSAGE_LATE : CR_MESSAGE_LOST;
            queue_put(a, p->end);
            *link = p->next;
            cr_free(p);
        }
}

/* A message that arrived.  Replies to requests that ended before, and those of processes that
 * were not asked, are dropped. */
static void agent_deliver(cr_agent *a, cr_message *m)
{
    pthread_mutex_lock(&a->lock);
    if (m->kind == CR_MESSAGE_REPLY && !pending_take(a, m->from, m->id)) {
        cr_message_drop(m);
        m = NULL;
    }
    if (m)
        queue_put(a, m);
    pthread_mutex_unlock(&a->lock);
}

/* --- reading, in the agent's thread --- */
static void inlet_expect(inlet *c, int stage, void *at, size_t n)
{
    c->stage = stage;
    c->at = at;
    c->left = n;
}

static void inlet_free(inlet *c)
{
    shutdown(c->fd, SHUT_RDWR); /* a forked process may have the socket, too */
    close(c->fd);
    cr_message_drop(c->message);
    cr_free(c->sizes);
    cr_free(c);
}

/* The messages that follow one that was not read are lost, replies too: requests to that
 * process end. */
static void inlet_refuse(cr_agent *a, inlet *c)
{
    c->gone = true;
    pthread_mutex_lock(&a->lock);
    pending_end(a, NULL, c->from);
    pthread_mutex_unlock(&a->lock);
}

/* Goes on with the first part from c->part that has bytes, or delivers the message. */
static void inlet_next_part(cr_agent *a, inlet *c)
{
    for (; c->part < c->message->parts; c->part++) {
        cr_message_part *p = &c->message->part[c->part];
        p->len = c->sizes[c->part];
        p->at = p->len < PTRDIFF_MAX ? cr_alloc(p->len + 1) : NULL;
        if (!p->at) {
            inlet_refuse(a, c);
            return;
        }
        if (p->len) {
            inlet_expect(c, READ_PARTS, p->at, p->len);
            return;
        }
    }
    agent_deliver(a, c->message);
    c->message = NULL;
    cr_free(c->sizes);
    c->sizes = NULL;
    inlet_expect(c, READ_HEAD, &c->head, sizeof c->head);
}

static void inlet_take_head(cr_agent *a, inlet *c)
{
    bool known = c->head.kind <= CR_MESSAGE_REPLY && c->head.parts <= PARTS_MOST;

    c->part = 0;
    c->sizes = known ? cr_alloc((c->head.parts + 1) * sizeof *c->sizes) : NULL;
    c->message = c->sizes ? message_new((cr_message_kind)c->head.kind, c->from, c->head.id,
                                        c->head.parts)
                          : NULL;
    if (!c->message)
        inlet_refuse(a, c);
    inlet_expect(c, READ_SIZES, c->sizes, c->head.parts * sizeof *c->sizes);
}

/* The time that this takes does not tell how many bytes are right. */
static bool same_secret(const char *a, const char *b)
{
    unsigned char differs = 0;

    for (int i = 0; i < SECRET; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return !differs;
}

/* All bytes of a stage are here. */
static void inlet_step(cr_agent *a, inlet *c)
{
    switch (c->stage) {
    case READ_HELLO:
        c->gone = !same_secret(c->hello.secret, a->hello.secret) ||
                  c->hello.rank > (uint64_t)INT32_MAX;
        c->from = (int)c->hello.rank;
        inlet_expect(c, READ_HEAD, &c->head, sizeof c->head);
        return;
    case READ_HEAD: inlet_take_head(a, c); return;
    case READ_SIZES: inlet_next_part(a, c); return;
    case READ_PARTS:
        c->part++;
        inlet_next_part(a, c);
        return;
    }
}

static void inlet_read(cr_agent *a, inlet *c)
{
    while (!c->gone) {
        ssize_t n = c->left ? recv(c->fd, c->at, c->left, MSG_DONTWAIT) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0 || (!n && c->left)) {
            c->gone = true;
            return;
        }
        c->at += n;
        c->left -= (size_t)n;
        if (!c->left)
            inlet_step(a, c);
    }
}

/* False when no connection waits. */
static bool agent_accept(cr_agent *a)
{
    int fd = accept4(a->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    inlet *c = fd < 0 ? NULL : cr_alloc_zero(sizeof *c);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};

    if (!c) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    c->watch.what = WATCH_INLET;
    c->fd = fd;
    c->next = a->inlets;
    a->inlets = c;
    c->limit = cr_seconds() + 1e-3 * HELLO_MS;
    inlet_expect(c, READ_HELLO, &c->hello, sizeof c->hello);
    if (epoll_ctl(a->poll, EPOLL_CTL_ADD, fd, &e))
        c->gone = true;
    return true;
}

/* The other process closed the connection.  A sender may use the socket: it stays open. Replies
 * that the process sent before are read first, also from a connection that is not accepted. */
static void peer_end(cr_agent *a, peer *p)
{
    if (p->lost)
        return;
    while (agent_accept(a)) {
    }
    for (inlet *c = a->inlets; c; c = c->next)
        if (c->stage == READ_HELLO || c->from == p->rank)
            inlet_read(a, c);
    p->lost = true;
    epoll_ctl(a->poll, EPOLL_CTL_DEL, p->fd, NULL);
    shutdown(p->fd, SHUT_RDWR);
    pthread_mutex_lock(&a->lock);
    pending_end(a, p, -1);
    pthread_mutex_unlock(&a->lock);
}

static void agent_handle(cr_agent *a, watch *w)
{
    uint64_t count;

    switch (w->what) {
    case WATCH_WAKE:
        if (read(a->wake, &count, sizeof count) < 0)
            return;
        return;
    case WATCH_LISTEN: agent_accept(a); return;
    case WATCH_INLET: inlet_read(a, (inlet *)(void *)w); return;
    case WATCH_PEER: peer_end(a, (peer *)(void *)w); return;
    }
}

/* Ends connections that have not said who they are in time.  Returns the next limit. */
static double end_silent(cr_agent *a)
{
    double now = cr_seconds(), soonest = (double)INFINITY;

    for (inlet *c = a->inlets; c; c = c->next) {
        if (c->stage != READ_HELLO)
            continue;
        c->gone |= c->limit <= now;
        soonest = fmin(soonest, c->gone ? now : c->limit);
    }
    return soonest;
}

/* Milliseconds until the next limit, -1 without one; -2: the agent has ended. */
static int agent_tick(cr_agent *a)
{
    double silent = end_silent(a);

    pthread_mutex_lock(&a->lock);
    if (a->soonest <= cr_seconds())
        pending_end(a, NULL, -1);
    double ms = 1e3 * (fmin(a->soonest, silent) - cr_seconds());
    int wait = a->ended ? -2 : ms > 1e6 ? -1 : ms < 0 ? 0 : (int)ms + 1;
    pthread_mutex_unlock(&a->lock);
    return wait;
}

static void *agent_run(void *at)
{
    cr_agent *a = at;
    struct epoll_event ready[64];

    for (int wait = -1; wait != -2; wait = agent_tick(a)) {
        int n = epoll_wait(a->poll, ready, 64, wait);
        for (int i = 0; i < n; i++)
            agent_handle(a, ready[i].data.ptr);
        for (inlet **link = &a->inlets; *link;) {
            inlet *c = *link;
            if (!c->gone) {
                link = &c->next;
                continue;
            }
            *link = c->next;
            inlet_free(c);
        }
    }
    return NULL;
}

/* --- sending --- */
static cr_status agent_ended(void)
{
    return cr_fail(CR_NETWORK, "the RPC agent of this process was shut down");
}

static cr_status peer_of(peer **out, cr_agent *a, int rank)
{
    cr_status st = CR_OK;
    peer *p = NULL;

    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->peers.len && !p; i++)
        if (a->peers.at[i]->rank == rank && !a->peers.at[i]->forgotten)
            p = a->peers.at[i];
    if (a->ended)
        st = agent_ended();
    else if (!p && (p = cr_alloc_zero(sizeof *p)) != NULL) {
        p->watch.what = WATCH_PEER;
        p->rank = rank;
        p->fd = -1;
        pthread_mutex_init(&p->lock, NULL);
        st = cr_vec_reserve(&a->peers, 1);
        if (!st)
            cr_vec_put(&a->peers, p);
        else
            cr_free(p);
    }
    pthread_mutex_unlock(&a->lock);
    *out = p;
    return st ? st : p ? CR_OK : CR_MEMORY;
}

static void agent_key(char *out, size_t size, int rank)
{
    snprintf(out, size, "agent/%d", rank);
}

/* Where another agent listens, as it told the store: its secret, port and host. */
typedef struct {
    char secret[SECRET];
    int32_t port;
    char host[256];
} address;

static cr_status peer_address(cr_agent *a, const peer *p, address *to)
{
    char key[64];
    cr_text entry = {0};

    agent_key(key, sizeof key, p->rank);
    cr_status st = cr_store_get(a->store, key, -1, &entry);
    if (!st && entry.len != sizeof *to)
        st = cr_fail(CR_STORE, "the store's entry %s is not that of an agent", key);
    if (!st)
        memcpy(to, entry.at, sizeof *to);
    to->host[sizeof to->host - 1] = 0;
    cr_text_drop(&entry);
    return st;
}

/* The connection is the agent's to end from here on. */
static cr_status peer_watch(cr_agent *a, peer *p, int fd)
{
    struct epoll_event e = {.events = EPOLLRDHUP, .data.ptr = p};
    cr_status st = CR_OK;

    pthread_mutex_lock(&a->lock);
    p->fd = fd;
    if (a->ended)
        st = agent_ended();
    else if (epoll_ctl(a->poll, EPOLL_CTL_ADD, fd, &e))
        st = cr_fail(CR_NETWORK, "epoll_ctl: %s", strerror(errno));
    if (st)
        p->fd = -1;
    pthread_mutex_unlock(&a->lock);
    return st;
}

/* The connection's lock is held.  After a failure the next message tries again. */
static cr_status peer_connect(cr_agent *a, peer *p)
{
    address to;
    hello hi = {.rank = (uint64_t)a->rank};
    int fd = -1;

    CR_TRY(peer_address(a, p, &to));
    memcpy(hi.secret, to.secret, SECRET);
    CR_TRY(cr_net_connect(&fd, to.host, to.port, CONNECT_MS));
    cr_status st = cr_net_send(fd, &hi, sizeof hi, cr_seconds() + 1e-3 * CONNECT_MS);
    if (!st)
        st = peer_watch(a, p, fd);
    if (st)
        close(fd);
    return st;
}

/* Small parts travel together; a large one is sent from its place. */
static cr_status send_parts(int fd, cr_text *text, const cr_bytes *part, uint32_t parts)
{
    double end = cr_seconds() + 1e-3 * SEND_MS;

    for (uint32_t i = 0; i <= parts; i++) {
        bool large = i < parts && part[i].len >= SMALL;
        if (i < parts && !large)
            cr_text_put_n(text, part[i].at, part[i].len);
        CR_TRY(cr_text_status(text));
        if (large || i == parts || text->len >= SMALL) {
            CR_TRY(cr_net_send(fd, text->at, text->len, end));
            text->len = 0;
        }
        if (large)
            CR_TRY(cr_net_send(fd, part[i].at, part[i].len, end));
    }
    return CR_OK;
}

/* A message that was sent in part ends the connection. */
static cr_status peer_send(peer *p, head h, const cr_bytes *part)
{
    cr_text text = {0};

    cr_text_put_n(&text, (const char *)&h, sizeof h);
    for (uint32_t i = 0; i < h.parts; i++) {
        uint64_t n = part[i].len;
        cr_text_put_n(&text, (const char *)&n, sizeof n);
    }
    cr_status st = send_parts(p->fd, &text, part, h.parts);
    if (st)
        shutdown(p->fd, SHUT_RDWR);
    cr_text_drop(&text);
    return st;
}

static cr_status peer_lost(const peer *p)
{
    return cr_fail(CR_NETWORK, "rank %d has closed its connection (connection reset by peer)",
                   p->rank);
}

/* `p` NULL: to this agent itself. */
static cr_status agent_send(cr_agent *a, peer *p, head h, const cr_bytes *part)
{
    cr_message *m = NULL;

    if (!p) {
        CR_TRY(message_copy(&m, (cr_message_kind)h.kind, a->rank, h.id, part, h.parts));
        agent_deliver(a, m);
        return CR_OK;
    }
    pthread_mutex_lock(&p->lock);
    cr_status st = p->lost ? peer_lost(p) : p->fd < 0 ? peer_connect(a, p) : CR_OK;
    if (!st)
        st = peer_send(p, h, part);
    if (st && p->lost)
        st = peer_lost(p);
    pthread_mutex_unlock(&p->lock);
    return st;
}

static cr_status agent_find(peer **out, cr_agent *a, int to, uint32_t parts)
{
    if (parts > PARTS_MOST)
        return cr_fail(CR_VALUE, "a message has at most %d parts, not %u", PARTS_MOST, parts);
    return to == a->rank ? CR_OK : peer_of(out, a, to);
}

cr_status cr_agent_ask(cr_agent *a, cr_message_kind kind, int to, uint64_t id,
                       int64_t timeout_ms, const cr_bytes *part, uint32_t parts)
{
    peer *p = NULL;

    CR_TRY(agent_find(&p, a, to, parts));
    pthread_mutex_lock(&a->lock);
    cr_status st = a->ended ? agent_ended() : pending_add(a, to, p, id, timeout_ms);
    pthread_mutex_unlock(&a->lock);
    if (st)
        return st;
    st = agent_send(a, p, (head){id, (uint32_t)kind, parts}, part);
    if (!st)
        return CR_OK;
    pthread_mutex_lock(&a->lock);
    bool mine = pending_take(a, to, id);
    pthread_mutex_unlock(&a->lock);
    return mine ? st : CR_OK; /* else a LATE or LOST message tells it */
}

cr_status cr_agent_reply(cr_agent *a, int to, uint64_t id, const cr_bytes *part, uint32_t parts)
{
    peer *p = NULL;

    CR_TRY(agent_find(&p, a, to, parts));
    return agent_send(a, p, (head){id, CR_MESSAGE_REPLY, parts}, part);
}

/* The old socket is closed with the agent: a sender may hold it. */
void cr_agent_forget(cr_agent *a, int rank)
{
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->peers.len; i++)
        if (a->peers.at[i]->rank == rank)
            a->peers.at[i]->forgotten = true;
    pthread_mutex_unlock(&a->lock);
}

/* --- starting and ending --- */
static cr_status agent_failed(const char *what)
{
    return cr_fail(CR_NETWORK, "the RPC agent cannot start: %s: %s", what, strerror(errno));
}

static cr_status agent_tell(cr_agent *a, const char *host)
{
    char key[64];
    address here = {.port = cr_net_port(a->fd)};

    if (getrandom(a->hello.secret, SECRET, 0) != SECRET)
        return agent_failed("getrandom");
    memcpy(here.secret, a->hello.secret, SECRET);
    snprintf(here.host, sizeof here.host, "%s", host);
    agent_key(key, sizeof key, a->rank);
    return cr_store_set(a->store, key, (cr_bytes){(const char *)&here, sizeof here});
}

static cr_status agent_open(cr_agent *a, const char *host)
{
    struct epoll_event listen = {.events = EPOLLIN, .data.ptr = &a->listen_watch};
    struct epoll_event wake = {.events = EPOLLIN, .data.ptr = &a->wake_watch};

    CR_TRY(cr_net_listen(&a->fd, host, 0));
    a->poll = epoll_create1(EPOLL_CLOEXEC);
    a->wake = eventfd(0, EFD_CLOEXEC);
    if (a->poll < 0 || a->wake < 0 || epoll_ctl(a->poll, EPOLL_CTL_ADD, a->fd, &listen) ||
        epoll_ctl(a->poll, EPOLL_CTL_ADD, a->wake, &wake))
        return agent_failed("epoll");
    CR_TRY(agent_tell(a, host));
    errno = cr_thread_start(&a->thread, agent_run, a);
    a->has_thread = !errno;
    return errno ? agent_failed("pthread_create") : CR_OK;
}

cr_status cr_agent_new(cr_agent **out, cr_store *store, int rank, const char *host)
{
    cr_agent *a = cr_alloc_zero(sizeof *a);

    if (!a)
        return CR_MEMORY;
    a->store = cr_store_keep(store);
    a->rank = rank;
    a->process = getpid();
    a->fd = a->poll = a->wake = -1;
    a->soonest = (double)INFINITY;
    a->wake_watch.what = WATCH_WAKE;
    a->listen_watch.what = WATCH_LISTEN;
    pthread_mutex_init(&a->lock, NULL);
    for (int i = 0; i < 2; i++) {
        pthread_cond_init(&a->queue[i].changed, NULL);
        a->queue[i].last = &a->queue[i].first;
    }
    cr_status st = agent_open(a, host);
    if (st) {
        cr_agent_free(a);
        return st;
    }
    *out = a;
    return CR_OK;
}

/* Senders that wait for a process that does not read end with their sockets. */
void cr_agent_shut(cr_agent *a)
{
    uint64_t one = 1;

    if (a->process != getpid())
        return;
    pthread_mutex_lock(&a->lock);
    bool first = !a->ended;
    a->ended = true;
    for (int i = 0; i < 2; i++)
        pthread_cond_broadcast(&a->queue[i].changed);
    for (size_t i = 0; i < a->peers.len && first; i++)
        if (a->peers.at[i]->fd >= 0)
            shutdown(a->peers.at[i]->fd, SHUT_RDWR);
    pthread_mutex_unlock(&a->lock);
    if (first && a->has_thread && write(a->wake, &one, sizeof one) == sizeof one)
        pthread_join(a->thread, NULL);
}

static void agent_free_requests(cr_agent *a)
{
    for (int i = 0; i < 2; i++)
        while (a->queue[i].first) {
            cr_message *m = a->queue[i].first;
            a->queue[i].first = m->next;
            cr_message_drop(m);
        }
    for (int i = 0; i < BUCKETS; i++)
        while (a->bucket[i])
            pending_take(a, a->bucket[i]->to, a->bucket[i]->id);
}

void cr_agent_free(cr_agent *a)
{
    if (!a || a->process != getpid())
        return; /* a forked child leaves the parent's sockets alone */
    cr_agent_shut(a);
    while (a->inlets) {
        inlet *c = a->inlets;
        a->inlets = c->next;
        inlet_free(c);
    }
    for (size_t i = 0; i < a->peers.len; i++) {
        if (a->peers.at[i]->fd >= 0)
            close(a->peers.at[i]->fd);
        cr_free(a->peers.at[i]);
    }
    cr_vec_drop(&a->peers);
    agent_free_requests(a);
    for (int *fd = (int[]){a->fd, a->poll, a->wake, -2}; *fd != -2; fd++)
        if (*fd >= 0)
            close(*fd);
    cr_store_drop(a->store);
    cr_free(a);
}
