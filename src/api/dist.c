/* Groups of processes and data parallelism of the C API, over the rooms comm and dist. */
#include "autograd/autograd.h"
#include "base/env.h"
#include "comm/named.h"
#include "dist/reducer.h"
#include "io/safetensors.h"
#include "nn/nn.h"
#include "tensor/tensor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define cr_view cr_view_operator /* `cr_view` is a type here and an operator in the header */
#include "cresset.h"
#undef cr_view
#include "cresset_dist.h"

struct cr_world {
    int owners;
    cr_comm *comm;
    cr_buffer *parts; /* room for a call's buffers, one a rank */
};

struct cr_ddp {
    cr_world *d;
    cr_module *m;
    cr_reducer *reducer;
    bool sync;
};

enum { HALF_AN_HOUR = 1800000, LAST_PORT = 65535 };
static const char world_name[] = "default";
static const char graph_name[] = "0"; /* of the first group, in graphs and plans */

static cr_status dist_need(const void *p, const char *function, const char *what)
{
    return p ? CR_OK : cr_fail(CR_TYPE, "%s(): argument '%s' must not be NULL", function, what);
}

/* Returns st.  A failure's message then begins with call, rank and group; the group's own
 * failures (CR_COMM) name them already. */
static cr_status dist_named(const char *call, int rank, cr_status st)
{
    cr_text why = {0};

    if (!st || st == CR_MEMORY || strstr(cr_error_message(), "in group '"))
        return st;
    cr_text_put(&why, cr_error_message());
    cr_fail(st, "%s of rank %d in group '%s': %s", call, rank, world_name, cr_text_str(&why));
    cr_text_drop(&why);
    return st;
}

/* --- meeting --- */
typedef struct {
    const char *backend;
    char host[256];
    int port, rank, size;
    bool served; /* by torchrun */
    int64_t timeout_ms;
} meeting;

static const char *dist_backend(const char *asked)
{
    return asked ? asked : cr_engine_is_available("gloo") ? "gloo" : "mpi";
}

/* A number of the environment; CR_VALUE when it is not there. */
static cr_status dist_env(int *out, cr_env_name variable, const char *name)
{
    const char *text = cr_env(variable);
    char *end = NULL;
    long n = strtol(text, &end, 10);

    if (end == text || *end || n < 0 || n > INT32_MAX)
        return cr_fail(CR_VALUE,
                       "Error initializing: environment variable %s expected, but not set",
                       name);
    *out = (int)n;
    return CR_OK;
}

static cr_status meeting_port(int *out, const char *text)
{
    char *end = NULL;
    long n = strtol(text, &end, 10);

    if (end == text || *end || n < 0 || n > LAST_PORT)
        return cr_fail(CR_VALUE, "a port is a number from 0 to %d, not '%s'", LAST_PORT, text);
    *out = (int)n;
    return CR_OK;
}

static cr_status meeting_host(meeting *m, const char *text)
{
    const char *colon = strrchr(text, ':');

    if (!colon || colon == text || (size_t)(colon - text) >= sizeof m->host)
        return cr_fail(CR_VALUE, "an address is tcp://HOST:PORT, not tcp://%s", text);
    snprintf(m->host, sizeof m->host, "%.*s", (int)(colon - text), text);
    return meeting_port(&m->port, colon + 1);
}

static cr_status meeting_env(meeting *m)
{
    const char *host = cr_env(CR_ENV_MASTER_ADDR), *port = cr_env(CR_ENV_MASTER_PORT);

    if (!*host || strlen(host) >= sizeof m->host)
        return cr_fail(CR_VALUE, "Error initializing: environment variable MASTER_ADDR "
                                 "expected, but not set");
    memcpy(m->host, host, strlen(host) + 1);
    m->served = !strcmp(cr_env(CR_ENV_TORCHELASTIC_USE_AGENT_STORE), "True");
    return *port ? meeting_port(&m->port, port)
                 : cr_fail(CR_VALUE, "Error initializing: environment variable MASTER_PORT "
                                     "expected, but not set");
}

static cr_status meeting_store(cr_store **out, const meeting *m)
{
    cr_store_tcp_options o = {.host = m->host,
                              .port = m->port,
                              .world_size = m->size,
                              .server = m->rank == 0 && !m->served,
                              .shared = true,
                              .listen_fd = -1,
                              .timeout_ms = m->timeout_ms};

    return cr_store_tcp(out, &o);
}

static cr_status meet_at(cr_store **out, meeting *m, const char *address)
{
    if (!strncmp(address, "file://", 7))
        return cr_store_file(out, address + 7, m->size);
    if (!strncmp(address, "tcp://", 6))
        CR_TRY(meeting_host(m, address + 6));
    else if (!strcmp(address, "env://"))
        CR_TRY(meeting_env(m));
    else
        return cr_fail(
            CR_VALUE, "an address is env://, tcp://HOST:PORT or file:///PATH, not %s", address);
    return meeting_store(out, m);
}

static cr_status dist_make(cr_world *d, const meeting *m, cr_store *store)
{
    cr_store *own = NULL;
    char attempt[64]; /* processes that were started again meet apart from the earlier ones */

    snprintf(attempt, sizeof attempt, "cresset_dist/%lld",
             (long long)cr_env_int(CR_ENV_TORCHELASTIC_RESTART_COUNT));
    CR_TRY(cr_store_prefix(&own, attempt, store));
    cr_comm_how how = {m->backend, world_name,    m->rank, m->size, NULL,
                       own,        m->timeout_ms, "",      NULL};
    cr_status st = cr_comm_new(&d->comm, &how);
    cr_store_drop(own);
    if (st)
        return st;
    d->parts = cr_alloc((size_t)m->size * sizeof *d->parts);
    return d->parts ? cr_comm_name(d->comm, graph_name) : CR_MEMORY;
}

/* Makes the group that `m` states. */
static cr_status dist_open(cr_world **out, meeting *m, const char *address)
{
    cr_store *store = NULL;

    if (m->size < 1 || m->rank >= m->size)
        return cr_fail(CR_VALUE, "a group of %d ranks has no rank %d", m->size, m->rank);
    CR_TRY(meet_at(&store, m, address));
    cr_world *d = cr_alloc_zero(sizeof *d);
    cr_status st = d ? dist_make(d, m, store) : CR_MEMORY;
    cr_store_drop(store);
    if (d)
        d->owners = 1;
    CR_GIVE(st, out, d, cr_world_close);
}

cr_status cr_world_open(cr_world **out, const char *backend, const char *address, int rank,
                        int size, int64_t timeout_ms)
{
    meeting m = {.backend = dist_backend(backend),
                 .rank = rank,
                 .size = size,
                 .timeout_ms = timeout_ms > 0 ? timeout_ms : HALF_AN_HOUR};

    CR_TRY(cr_init());
    CR_TRY(dist_need(out, "cr_world_open", "out"));
    CR_TRY(dist_need(address, "cr_world_open", "address"));
    if (rank < 0)
        CR_TRY(dist_env(&m.rank, CR_ENV_RANK, "RANK"));
    if (size < 0)
        CR_TRY(dist_env(&m.size, CR_ENV_WORLD_SIZE, "WORLD_SIZE"));
    return dist_named("open", m.rank, dist_open(out, &m, address));
}

void cr_world_close(cr_world *d)
{
    if (!d || --d->owners)
        return;
    cr_comm_forget(d->comm);
    cr_comm_drop(d->comm);
    cr_free(d->parts);
    cr_free(d);
}

int cr_world_rank(const cr_world *d) { return d ? cr_comm_rank(d->comm) : -1; }
int cr_world_size(const cr_world *d) { return d ? cr_comm_size(d->comm) : 0; }
const char *cr_world_backend(const cr_world *d) { return d ? cr_comm_engine(d->comm) : NULL; }

/* --- calls --- */
static cr_status dist_buffer(cr_buffer *out, const cr_tensor *t)
{
    char *at = NULL;

    if (!t)
        return cr_fail(CR_TYPE, "a call between ranks needs a tensor, not NULL");
    if (t->layout != CR_LAYOUT_STRIDED || !cr_is_host(t->device) || t->device.fake ||
        !t->contiguous || cr_is_lazy(t))
        return cr_fail(CR_VALUE, "Tensors must be contiguous and in host memory");
    CR_TRY(cr_reach(&at, t));
    *out = (cr_buffer){at, t->numel};
    return CR_OK;
}

/* The elements of `whole` in as many parts as there are ranks. */
static cr_status dist_parts(cr_world *d, cr_buffer *out, cr_dtype dtype, const cr_tensor *whole)
{
    cr_buffer all;
    int n = cr_world_size(d);

    CR_TRY(dist_buffer(&all, whole));
    if ((cr_dtype)whole->dtype != dtype)
        return cr_fail(CR_VALUE, "Invalid usage of tensors with different dtypes: %s and %s",
                       cr_dtype_name(dtype), cr_dtype_name((cr_dtype)whole->dtype));
    if (all.count % n)
        return cr_fail(CR_VALUE, "%lld elements do not divide among %d ranks",
                       (long long)all.count, n);
    int64_t each = all.count / n;
    for (int r = 0; r < n; r++)
        out[r] = (cr_buffer){(char *)all.at + (size_t)(r * each) * cr_dtype_size(dtype), each};
    return CR_OK;
}

static cr_status dist_op(cr_reduce_op *out, const char *name)
{
    static const char *const names[] = {
#define CR_REDUCE(NAME, name) [CR_REDUCE_##NAME] = name,
#include "comm/reduce.def"
#undef CR_REDUCE
    };

    CR_TRY(dist_need(name, "a reduction", "op"));
    for (int i = 0; i < (int)CR_LEN(names) && i != CR_REDUCE_PREMUL_SUM; i++)
        if (!strcasecmp(name, names[i])) {
            *out = (cr_reduce_op)i;
            return CR_OK;
        }
    return cr_fail(CR_VALUE, "unknown reduction '%s'", name);
}

static cr_status dist_end(const cr_world *d, const cr_call_args *call, cr_status st)
{
    return dist_named(cr_call_kind_name(call->kind), cr_world_rank(d), st);
}

/* A call with one tensor, in place. */
static cr_status dist_one(cr_world *d, cr_call_args *call, cr_tensor *t)
{
    cr_buffer b;

    CR_TRY(dist_buffer(&b, t));
    call->dtype = (cr_dtype)t->dtype;
    call->outs = 1;
    call->out = &b;
    t->storage->version++;
    return cr_comm_run(d->comm, call, cr_call_kind_name(call->kind));
}

cr_status cr_world_barrier(cr_world *d)
{
    cr_call_args call = {.kind = CR_CALL_BARRIER, .dtype = CR_U8, .root = -1};

    CR_TRY(dist_need(d, "cr_world_barrier", "d"));
    return cr_comm_run(d->comm, &call, "barrier");
}

cr_status cr_world_all_reduce(cr_world *d, cr_tensor *t, const char *op)
{
    cr_call_args call = {.kind = CR_CALL_ALL_REDUCE, .root = -1};

    CR_TRY(dist_need(d, "cr_world_all_reduce", "d"));
    cr_status st = dist_op(&call.op, op);
    if (!st)
        st = dist_one(d, &call, t);
    return dist_end(d, &call, st);
}

cr_status cr_world_broadcast(cr_world *d, cr_tensor *t, int root)
{
    cr_call_args call = {.kind = CR_CALL_BROADCAST, .root = root};

    CR_TRY(dist_need(d, "cr_world_broadcast", "d"));
    return dist_end(d, &call, dist_one(d, &call, t));
}

cr_status cr_world_receive(cr_world *d, cr_tensor *t, int from, int *sender)
{
    cr_call_args call = {.kind = CR_CALL_RECEIVE, .root = from, .outs = 1};
    cr_buffer b;
    cr_work *w = NULL;
    cr_status st = CR_OK;

    CR_TRY(dist_need(d, "cr_world_receive", "d"));
    CR_GO(dist_buffer(&b, t));
    call.dtype = (cr_dtype)t->dtype;
    call.out = &b;
    t->storage->version++;
    CR_GO(cr_comm_start(&w, d->comm, &call, 1, "receive", -1, true));
    CR_GO(cr_work_wait(w, -1));
    if (sender)
        *sender = cr_work_source(w);
done:
    cr_work_drop(w);
    return dist_end(d, &call, st);
}

cr_status cr_world_send(cr_world *d, cr_tensor *t, int to)
{
    cr_call_args call = {.kind = CR_CALL_SEND, .root = to, .ins = 1};
    cr_buffer b;
    cr_status st = CR_OK;

    CR_TRY(dist_need(d, "cr_world_send", "d"));
    CR_GO(dist_buffer(&b, t));
    call.dtype = (cr_dtype)t->dtype;
    call.in = &b;
    CR_GO(cr_comm_run(d->comm, &call, "send"));
done:
    return dist_end(d, &call, st);
}

cr_status cr_world_all_gather(cr_world *d, cr_tensor *out, cr_tensor *in)
{
    cr_call_args call = {.kind = CR_CALL_ALL_GATHER, .root = -1, .ins = 1};
    cr_buffer own;
    cr_status st = CR_OK;

    CR_TRY(dist_need(d, "cr_world_all_gather", "d"));
    CR_GO(dist_buffer(&own, in));
    call.in = &own;
    call.dtype = (cr_dtype)in->dtype;
    call.outs = cr_world_size(d);
    call.out = d->parts;
    CR_GO(dist_parts(d, d->parts, call.dtype, out));
    out->storage->version++;
    CR_GO(cr_comm_run(d->comm, &call, "all_gather"));
done:
    return dist_end(d, &call, st);
}

cr_status cr_world_reduce_scatter(cr_world *d, cr_tensor *out, cr_tensor *in, const char *op)
{
    cr_call_args call = {.kind = CR_CALL_REDUCE_SCATTER, .root = -1, .outs = 1};
    cr_buffer own;
    cr_status st = CR_OK;

    CR_TRY(dist_need(d, "cr_world_reduce_scatter", "d"));
    CR_GO(dist_op(&call.op, op));
    CR_GO(dist_buffer(&own, out));
    call.out = &own;
    call.dtype = (cr_dtype)out->dtype;
    call.ins = cr_world_size(d);
    call.in = d->parts;
    CR_GO(dist_parts(d, d->parts, call.dtype, in));
    out->storage->version++;
    CR_GO(cr_comm_run(d->comm, &call, "reduce_scatter"));
done:
    return dist_end(d, &call, st);
}

cr_status cr_world_all_to_all(cr_world *d, cr_tensor *out, cr_tensor *in)
{
    int n = cr_world_size(d);
    cr_call_args call = {.kind = CR_CALL_ALL_TO_ALL, .root = -1, .ins = n, .outs = n};
    cr_buffer own, *to = NULL;
    cr_status st = CR_OK;

    CR_TRY(dist_need(d, "cr_world_all_to_all", "d"));
    CR_GO(dist_buffer(&own, in));
    CR_GO((to = cr_alloc((size_t)n * sizeof *to)) ? CR_OK : CR_MEMORY);
    call.in = d->parts;
    call.out = to;
    call.dtype = (cr_dtype)in->dtype;
    CR_GO(dist_parts(d, d->parts, call.dtype, in));
    CR_GO(dist_parts(d, to, call.dtype, out));
    out->storage->version++;
    CR_GO(cr_comm_run(d->comm, &call, "all_to_all"));
done:
    cr_free(to);
    return dist_end(d, &call, st);
}

/* --- data parallelism --- */
enum { BUCKET_BYTES = 25 << 20, FIRST_BUCKET_BYTES = 1 << 20 };

static cr_status ddp_reducer(cr_ddp *p)
{
    cr_tensors all = {0};
    cr_reducer_how how = {
        .comm = p->d->comm, .bucket_bytes = BUCKET_BYTES, .first_bytes = FIRST_BUCKET_BYTES};
    size_t n = 0;

    CR_TRY(cr_module_parameters(&all, p->m));
    for (size_t i = 0; i < all.len; i++)
        if (cr_requires_grad(all.at[i]))
            all.at[n++] = all.at[i];
    how.param = all.at;
    how.count = (int)n;
    cr_status st =
        n ? cr_reducer_new(&p->reducer, &how)
          : cr_fail(CR_RUNTIME, "DistributedDataParallel is not needed when a module "
                                "doesn't have any parameter that requires a "
                                "gradient.");
    cr_free(all.at);
    return st;
}

static cr_status ddp_copy_one(cr_world *d, cr_tensor *t)
{
    cr_tensor *plain = NULL;

    CR_TRY(cr_detach(&plain, t));
    cr_status st = cr_world_broadcast(d, plain, 0);
    cr_drop(plain);
    return st;
}

/* Copies rank 0's parameters or buffers: `list` is cr_module_parameters or _buffers. */
static cr_status ddp_copy(cr_ddp *p, cr_status (*list)(cr_tensors *out, cr_module *m))
{
    cr_tensors all = {0};
    cr_status st = list(&all, p->m);

    for (size_t i = 0; i < all.len && !st; i++)
        st = ddp_copy_one(p->d, all.at[i]);
    cr_free(all.at);
    return st;
}

cr_status cr_ddp_new(cr_ddp **out, cr_world *d, cr_module *m)
{
    CR_TRY(dist_need(out, "cr_ddp_new", "out"));
    CR_TRY(dist_need(d, "cr_ddp_new", "d"));
    CR_TRY(dist_need(m, "cr_ddp_new", "m"));
    cr_ddp *p = cr_alloc_zero(sizeof *p);
    cr_status st = p ? CR_OK : CR_MEMORY;
    CR_GO(st);
    p->d = d;
    d->owners++;
    p->sync = true;
    p->m = cr_module_hold(m);
    CR_GO(ddp_copy(p, cr_module_parameters));
    CR_GO(ddp_copy(p, cr_module_buffers));
    CR_GO(ddp_reducer(p));
    *out = p;
done:
    if (st)
        cr_ddp_drop(p);
    return st;
}

void cr_ddp_drop(cr_ddp *p)
{
    if (!p)
        return;
    cr_reducer_free(p->reducer);
    cr_module_drop(p->m);
    cr_world_close(p->d);
    cr_free(p);
}

void cr_ddp_set_sync(cr_ddp *p, bool sync)
{
    if (!p)
        return;
    p->sync = sync;
    cr_reducer_set_sync(p->reducer, sync);
}

cr_status cr_ddp_forward(cr_tensor **out, cr_ddp *p, cr_tensor *input)
{
    CR_TRY(dist_need(out, "cr_ddp_forward", "out"));
    CR_TRY(dist_need(p, "cr_ddp_forward", "p"));
    cr_tensor *y = NULL;
    bool averages = p->sync && !cr_thread.no_grad;

    if (averages)
        CR_TRY(cr_reducer_before_forward(p->reducer));
    if (averages && cr_module_training(p->m))
        CR_TRY(ddp_copy(p, cr_module_buffers));
    CR_TRY(cr_module_forward(&y, p->m, input));
    cr_status st = averages ? cr_reducer_after_forward(p->reducer, &y, 1) : CR_OK;
    CR_GIVE(st, out, y, cr_drop);
}
