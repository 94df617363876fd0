/* The server of tcp stores: one thread, which answers requests from one table.
 *
 * A client's request that has to wait stays in its buffer; it is asked again after each change
 * of the table, and refused at its time limit.  A client sends one request at a time.  Where
 * the environment has CR_STORE_KEY, a connection's first request must bring the same text. */
#include "base/env.h"
#include "base/thread.h"
#include "comm/net.h"
#include "comm/store_impl.h"
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct client {
    struct client *next;
    int fd;
    bool welcome; /* sent the right key */
    bool waits;   /* its request is blocked */
    bool gone;
    double limit; /* of the blocked request */
    cr_text in, out;
    size_t sent; /* bytes of `out` */
} client;

struct cr_store_server {
    cr_store_server *next; /* of the shared servers */
    int count;             /* stores of this process that share it */
    int fd, port, poll, wake;
    bool shared;
    pid_t process; /* a forked child has no thread */
    pthread_t thread;
    cr_table *table;
    client *clients;
    cr_wire_room room;
    const char *key;
    bool changed; /* the table has changed since blocked requests were asked */
};

static const bool server_changes[] = {
#define CR_VERB(NAME, does_change, waits) does_change,
#include "comm/verbs.def"
#undef CR_VERB
};

/* Closing alone does not end events: a process that this one forked may have the socket,
 * too. */
static void client_free(const cr_store_server *s, client *c)
{
    epoll_ctl(s->poll, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    cr_text_drop(&c->in);
    cr_text_drop(&c->out);
    cr_free(c);
}

static void server_accept(cr_store_server *s)
{
    int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    client *c = fd < 0 ? NULL : cr_alloc_zero(sizeof *c);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};

    if (!c) {
        if (fd >= 0)
            close(fd);
        return;
    }
    c->fd = fd;
    c->welcome = !*s->key;
    c->next = s->clients;
    s->clients = c;
    if (epoll_ctl(s->poll, EPOLL_CTL_ADD, fd, &e))
        c->gone = true;
}

/* Sends as much as the socket takes; the rest when it is writable. */
static void client_flush(cr_store_server *s, client *c)
{
    while (c->sent < c->out.len && !c->gone) {
        ssize_t n = send(c->fd, c->out.at + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            c->gone = true;
        else
            c->sent += (size_t)n;
    }
    bool all = c->sent == c->out.len;
    if (all)
        c->sent = c->out.len = 0;
    struct epoll_event e = {.events = EPOLLIN | (all ? 0 : EPOLLOUT), .data.ptr = c};
    epoll_ctl(s->poll, EPOLL_CTL_MOD, c->fd, &e);
}

/* Whether the first frame of `in` is whole. */
static bool client_has_frame(const client *c)
{
    return c->in.len >= CR_WIRE_HEAD && cr_wire_u32(c->in.at) <= c->in.len - CR_WIRE_HEAD;
}

static void client_next(client *c)
{
    size_t n = CR_WIRE_HEAD + cr_wire_u32(c->in.at);

    memmove(c->in.at, c->in.at + n, c->in.len - n);
    c->in.len -= n;
    c->waits = false;
}

/* Takes the key of the first request. */
static bool client_greets(const cr_store_server *s, client *c, const cr_store_request *r)
{
    if (!c->welcome && r->verb == CR_STORE_HELLO && r->values == 1)
        c->welcome = r->value[0].len == strlen(s->key) &&
                     !memcmp(r->value[0].at, s->key, r->value[0].len);
    if (!c->welcome)
        c->gone = true;
    return c->welcome;
}

/* Answers the first request of `in`, or leaves it blocked. */
static void client_answer(cr_store_server *s, client *c)
{
    cr_store_request r;
    bool blocked;

    if (cr_wire_read_request(&r, &s->room, c->in.at + CR_WIRE_HEAD, cr_wire_u32(c->in.at))) {
        c->gone = true;
        return;
    }
    if (!client_greets(s, c, &r))
        return;
    cr_status st = cr_table_answer(s->table, &r, &c->out, &blocked);
    if (!st && blocked && !c->waits)
        c->limit = cr_seconds() + 1e-3 * (double)r.timeout_ms;
    if (!st && blocked && cr_seconds() >= c->limit) {
        cr_wire_failure(&c->out, cr_store_timed_out(&r, r.timeout_ms, "/"));
        blocked = false;
    }
    c->gone |= st || c->out.failed;
    s->changed |= !blocked && server_changes[r.verb];
    if (blocked)
        c->waits = true;
    else
        client_next(c);
}

static void client_read(cr_store_server *s, client *c)
{
    char bytes[65536];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        c->gone = true;
        return;
    }
    cr_text_put_n(&c->in, bytes, (size_t)n);
    c->gone |=
        c->in.failed || (c->in.len >= CR_WIRE_HEAD && cr_wire_u32(c->in.at) > CR_WIRE_LIMIT);
    while (!c->gone && !c->waits && client_has_frame(c))
        client_answer(s, c);
    if (c->out.len)
        client_flush(s, c);
}

/* Asks blocked requests again, after a change and at their limits.  Returns the milliseconds
 * until the next limit, or -1. */
static int server_ask_again(cr_store_server *s)
{
    double next = -1;

    do {
        s->changed = false;
        for (client *c = s->clients; c; c = c->next) {
            if (!c->waits || c->gone)
                continue;
            client_answer(s, c);
            client_flush(s, c);
        }
    } while (s->changed);
    for (const client *c = s->clients; c; c = c->next)
        if (c->waits && !c->gone && (next < 0 || c->limit < next))
            next = c->limit;
    double ms = 1e3 * (next - cr_seconds());
    return next < 0 ? -1 : ms < 0 ? 0 : ms > 1e6 ? 1000000 : (int)ms + 1;
}

static void server_bury(cr_store_server *s)
{
    for (client **link = &s->clients; *link;) {
        client *c = *link;
        if (!c->gone) {
            link = &c->next;
            continue;
        }
        *link = c->next;
        client_free(s, c);
    }
}

static void *server_run(void *at)
{
    cr_store_server *s = at;
    struct epoll_event ready[64];
    int wait = -1;

    for (;;) {
        int n = epoll_wait(s->poll, ready, 64, wait);
        for (int i = 0; i < n; i++) {
            client *c = ready[i].data.ptr;
            if ((void *)c == &s->wake)
                return NULL;
            if ((void *)c == &s->fd)
                server_accept(s);
            else if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                client_read(s, c);
            else if (ready[i].events & EPOLLOUT)
                client_flush(s, c);
        }
        wait = server_ask_again(s);
        server_bury(s);
    }
}

/* --- starting and ending --- */
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static cr_store_server *shared_servers;

static void server_free(cr_store_server *s)
{
    while (s->clients) {
        client *c = s->clients;
        s->clients = c->next;
        client_free(s, c);
    }
    for (int *fd = (int[]){s->fd, s->poll, s->wake, -2}; *fd != -2; fd++)
        if (*fd >= 0)
            close(*fd);
    cr_vec_drop(&s->room);
    cr_table_free(s->table);
    cr_free(s);
}

void cr_store_server_drop(cr_store_server *s)
{
    uint64_t one = 1;

    if (!s)
        return;
    pthread_mutex_lock(&shared_lock);
    bool last = --s->count == 0;
    for (cr_store_server **link = &shared_servers; last && *link; link = &(*link)->next)
        if (*link == s) {
            *link = s->next;
            break;
        }
    pthread_mutex_unlock(&shared_lock);
    if (!last || s->process != getpid())
        return; /* a forked child leaves the parent's sockets alone */
    if (write(s->wake, &one, sizeof one) == sizeof one)
        pthread_join(s->thread, NULL);
    server_free(s);
}

static cr_status server_system(const char *what)
{
    return cr_fail(CR_NETWORK, "the store's server cannot start: %s: %s", what,
                   strerror(errno));
}

static cr_status server_open(cr_store_server *s, const cr_store_tcp_options *o)
{
    struct epoll_event listen = {.events = EPOLLIN, .data.ptr = &s->fd};
    struct epoll_event wake = {.events = EPOLLIN, .data.ptr = &s->wake};

    CR_TRY(cr_table_new(&s->table));
    if (o->listen_fd >= 0) {
        CR_TRY(cr_net_take(o->listen_fd, o->port));
        s->fd = o->listen_fd;
    } else
        CR_TRY(cr_net_listen(&s->fd, o->host, o->port));
    s->port = cr_net_port(s->fd);
    s->poll = epoll_create1(EPOLL_CLOEXEC);
    s->wake = eventfd(0, EFD_CLOEXEC);
    if (s->poll < 0 || s->wake < 0 || epoll_ctl(s->poll, EPOLL_CTL_ADD, s->fd, &listen) ||
        epoll_ctl(s->poll, EPOLL_CTL_ADD, s->wake, &wake))
        return server_system("epoll");
    errno = cr_thread_start(&s->thread, server_run, s);
    return errno ? server_system("pthread_create") : CR_OK;
}

static cr_store_server *server_shared(const cr_store_tcp_options *o)
{
    for (cr_store_server *s = shared_servers; s && o->shared && o->port; s = s->next)
        if (s->port == o->port && s->process == getpid()) {
            s->count++;
            return s;
        }
    return NULL;
}

static cr_status server_make(cr_store_server **out, const cr_store_tcp_options *o)
{
    cr_store_server *s = cr_alloc_zero(sizeof *s);

    CR_NEED(s);
    s->count = 1;
    s->fd = s->poll = s->wake = -1;
    s->key = cr_env(CR_ENV_CR_STORE_KEY);
    s->process = getpid();
    cr_status st = server_open(s, o);
    CR_GIVE(st, out, s, server_free);
}

cr_status cr_store_server_start(cr_store_server **out, const cr_store_tcp_options *o)
{
    cr_status st = CR_OK;

    pthread_mutex_lock(&shared_lock);
    cr_store_server *s = server_shared(o);
    if (!s)
        st = server_make(&s, o);
    if (!st && o->shared && s->count == 1) {
        s->next = shared_servers;
        shared_servers = s;
    }
    pthread_mutex_unlock(&shared_lock);
    if (!st)
        *out = s;
    return st;
}

int cr_store_server_port(const cr_store_server *s) { return s->port; }
