/* The kind tcp: requests go to a server.
 *
 * A store has several connections, because a request may wait while another thread asks: a call
 * takes an idle connection or makes one.  The server refuses a request at its time limit; a
 * server that has not answered a moment later is taken for lost, and its connection is
 * closed. */
#include "base/env.h"
#include "comm/net.h"
#include "comm/store_impl.h"
#include "comm/wait.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { GRACE_MS = 1000, HELLO_MS = 10000 };

typedef struct {
    cr_store head;
    cr_store_server *server; /* of this process, or NULL */
    pthread_mutex_t lock;
    CR_VEC(int) idle; /* connections */
    pid_t process;    /* a forked child makes connections of its own */
    int port;
    char host[];
} tcp_store;

static cr_status tcp_exchange(int fd, const cr_store_request *r, cr_store_reply *out,
                              double end)
{
    cr_text frame = {0};
    char head[CR_WIRE_HEAD];
    cr_status st;

    cr_wire_request(&frame, r);
    CR_GO(cr_text_status(&frame));
    CR_GO(cr_net_send(fd, frame.at, frame.len, end));
    CR_GO(cr_net_receive(fd, head, sizeof head, end));
    size_t n = cr_wire_u32(head);
    out->raw.len = 0;
    cr_text_put_n(&out->raw, head, sizeof head);
    cr_text_pad(&out->raw, n, 0);
    CR_GO(cr_text_status(&out->raw));
    CR_GO(cr_net_receive(fd, out->raw.at + CR_WIRE_HEAD, n, end));
done:
    cr_text_drop(&frame);
    return st;
}

static cr_status tcp_hello(int fd, int64_t timeout_ms)
{
    cr_bytes key = cr_bytes_of(cr_env(CR_ENV_CR_STORE_KEY));
    cr_store_request r = {.verb = CR_STORE_HELLO, .values = 1, .value = &key};
    cr_store_reply reply = {0};
    cr_status st = tcp_exchange(fd, &r, &reply, cr_seconds() + 1e-3 * (double)timeout_ms);

    if (!st)
        st = cr_wire_read_reply(&reply);
    cr_store_reply_drop(&reply);
    return st ? cr_fail(CR_NETWORK, "the store's server refused the connection or its key "
                                    "(CR_STORE_KEY)")
              : CR_OK;
}

static cr_status tcp_open(tcp_store *t, int *fd, int64_t timeout_ms)
{
    CR_TRY(cr_net_connect(fd, t->host, t->port, timeout_ms));
    cr_status st = tcp_hello(*fd, timeout_ms < HELLO_MS ? timeout_ms + GRACE_MS : HELLO_MS);
    if (st)
        close(*fd);
    return st;
}

/* An idle connection, or a new one. */
static cr_status tcp_take(tcp_store *t, int *fd, int64_t timeout_ms)
{
    *fd = -1;
    pthread_mutex_lock(&t->lock);
    if (t->process != getpid()) {
        t->process = getpid();
        while (t->idle.len)
            close(t->idle.at[--t->idle.len]);
    }
    if (t->idle.len)
        *fd = t->idle.at[--t->idle.len];
    pthread_mutex_unlock(&t->lock);
    return *fd >= 0 ? CR_OK : tcp_open(t, fd, timeout_ms);
}

static void tcp_put_back(tcp_store *t, int fd)
{
    pthread_mutex_lock(&t->lock);
    if (cr_vec_reserve(&t->idle, 1))
        close(fd);
    else
        cr_vec_put(&t->idle, fd);
    pthread_mutex_unlock(&t->lock);
}

static cr_status tcp_lost(const tcp_store *t)
{
    char *why = cr_error_scratch();

    strncpy(why, cr_error_message(), CR_SCRATCH_BYTES - 1);
    why[CR_SCRATCH_BYTES - 1] = 0;
    return cr_fail(CR_NETWORK, "the store at %s:%d does not answer: %s", t->host, t->port, why);
}

static cr_status tcp_call(cr_store *s, const cr_store_request *r, cr_store_reply *out)
{
    tcp_store *t = (tcp_store *)s;
    cr_store_request with_limit = *r;
    int fd;

    with_limit.timeout_ms = cr_store_timeout(s, r);
    CR_TRY(tcp_take(t, &fd, with_limit.timeout_ms + r->late_ms));
    int64_t late = r->late_ms ? r->late_ms : GRACE_MS;
    double end = cr_seconds() + 1e-3 * (double)(with_limit.timeout_ms + late);
    if (tcp_exchange(fd, &with_limit, out, end)) {
        close(fd);
        return tcp_lost(t);
    }
    tcp_put_back(t, fd);
    return cr_wire_read_reply(out);
}

static void tcp_free(cr_store *s)
{
    tcp_store *t = (tcp_store *)s;

    while (t->idle.len)
        close(t->idle.at[--t->idle.len]);
    cr_vec_drop(&t->idle);
    cr_store_server_drop(t->server);
    pthread_mutex_destroy(&t->lock);
    cr_free(t);
}

static bool tcp_serves(const cr_store *s) { return ((const tcp_store *)s)->server; }

static const cr_store_kind tcp_kind = {tcp_call, tcp_free, tcp_serves};

/* Counts the connected stores; the server's process waits for all of them. */
static cr_status tcp_meet(tcp_store *t, const cr_store_tcp_options *o)
{
    static const char key[] = "init/";
    double end = cr_seconds() + 1e-3 * (double)o->timeout_ms;
    int64_t n;

    CR_TRY(cr_store_add(&t->head, key, 1, &n));
    while (o->server && o->wait && n < o->world_size) {
        if (cr_seconds() > end)
            return cr_fail(CR_STORE,
                           "Timed out after %lld seconds waiting for clients. %lld/%lld "
                           "clients joined.",
                           (long long)(o->timeout_ms / 1000), (long long)n,
                           (long long)o->world_size);
        if (cr_wait_pause(2000))
            return cr_fail(CR_STORE, "the wait for clients was interrupted");
        CR_TRY(cr_store_add(&t->head, key, 0, &n));
    }
    return CR_OK;
}

static cr_status tcp_start(tcp_store *t, const cr_store_tcp_options *o)
{
    int fd;

    if (o->server) {
        CR_TRY(cr_store_server_start(&t->server, o));
        t->port = cr_store_server_port(t->server);
    }
    CR_TRY(tcp_take(t, &fd, o->timeout_ms));
    tcp_put_back(t, fd);
    return o->world_size > 0 ? tcp_meet(t, o) : CR_OK;
}

cr_status cr_store_tcp(cr_store **out, const cr_store_tcp_options *o)
{
    size_t n = strlen(o->host) + 1;

    if (o->port < 0 || o->port > UINT16_MAX)
        return cr_fail(CR_VALUE, "a port is a number from 0 to %d, not %d", UINT16_MAX,
                       o->port);
    tcp_store *t = cr_alloc_zero(sizeof *t + n);
    CR_NEED(t);
    cr_store_init(&t->head, &tcp_kind, o->timeout_ms);
    pthread_mutex_init(&t->lock, NULL);
    memcpy(t->host, o->host, n);
    t->port = o->port;
    t->process = getpid();
    cr_status st = tcp_start(t, o);
    if (st)
        tcp_free(&t->head);
    else
        *out = &t->head;
    return st;
}

int cr_store_tcp_port(const cr_store *s)
{
    return s->kind == &tcp_kind ? ((const tcp_store *)s)->port : 0;
}

const char *cr_store_tcp_host(const cr_store *s)
{
    return s->kind == &tcp_kind ? ((const tcp_store *)s)->host : "";
}
