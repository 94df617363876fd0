/* The engine nccl: whole calls on NVIDIA's GPUs, by NCCL, which is opened at run time.
 *
 * A communicator is made at the first call, on the device of its buffers, by a thread, because
 * making waits for all ranks.  Calls run on a stream of the link, after the work that the
 * program's stream had when they were planned.  A program that waits for them makes its stream
 * wait, and goes on; another thread watches them to their end.  ncclCommAbort is the only way
 * out of a call whose peer is gone; it ends the link.
 *
 * Buffers in host memory travel through device memory. */
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "comm/engine.h"
#include "comm/late.h"
#include "comm/nccl/abi.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "num/convert.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static struct {
#define NCCL_FUNCTION(type, name, args) type(*name) args;
    CR_NCCL_FUNCTIONS(NCCL_FUNCTION)
#undef NCCL_FUNCTION
} nccl;
static const cr_cuda_driver *nccl_driver;

typedef struct {
    int rank, size, device; /* device -1: no communicator yet */
    cr_store *store;
    int64_t timeout_ms;
    pthread_mutex_t lock; /* of comm and users */
    cr_nccl_comm comm;
    int users; /* calls that are being handed to NCCL */
    atomic_bool shut;
    void *stream;
    uintptr_t barrier; /* four bytes of device memory */
} nccl_link;

/* A host buffer's place on the device. */
typedef struct {
    cr_buffer host;
    size_t offset, bytes;
    bool comes_back;
} nccl_stage;

typedef struct {
    int device;
    void *before, *after; /* events: of the program's work, of the calls */
    bool started, done;
    bool hurries;   /* the host needs the end: of a barrier, or of host buffers */
    uintptr_t room; /* of the stages */
    CR_VEC(nccl_stage) stages;
    int sender;
} nccl_transfer;

enum { YIELDS = 2000, PAUSE_US = 20, LONGEST_PAUSE_US = 200, ASK_EVERY = 64 };
enum { HAND_OVER_MS = 1000, DESTROY_MS = 2000 };

/* --- the library --- */
static bool nccl_bind(void *file)
{
    bool all = true;

#define NCCL_FUNCTION(type, name, args)                                                        \
    *(void **)&nccl.name = dlsym(file, "nccl" #name);                                          \
    all &= nccl.name != NULL;
    CR_NCCL_FUNCTIONS(NCCL_FUNCTION)
#undef NCCL_FUNCTION
    return all;
}

static bool nccl_open_library(cr_text *tried)
{
    static const cr_cuda_library place = {"libnccl.so.2", "nccl", NULL};
    const char *named = cr_env(CR_ENV_CR_NCCL);
    void *file = *named ? cr_engine_dlopen(named, RTLD_NOW | RTLD_LOCAL, tried)
                        : cr_cuda_open(&place, 1);

    nccl_driver = cr_cuda_load_driver();
    if (!file && !*named)
        cr_text_put(tried, "libnccl.so.2 was not found");
    if (!nccl_driver)
        cr_text_put(tried, "; there is no NVIDIA GPU with a driver");
    bool bound = file && nccl_bind(file);
    if (file && !bound)
        cr_text_put(tried, "; the library lacks functions of NCCL 2.18");
    return bound && nccl_driver;
}

static cr_status nccl_failed(int rc, const char *function)
{
    return cr_fail(CR_COMM, "nccl%s: %s", function, nccl.GetErrorString(rc));
}

#define NCCL_DO(name, ...)                                                                     \
    do {                                                                                       \
        int nccl_rc = nccl.name(__VA_ARGS__);                                                  \
        if (nccl_rc && nccl_rc != CR_NCCL_IN_PROGRESS)                                         \
            return nccl_failed(nccl_rc, #name);                                                \
    } while (0)

static cr_status nccl_cuda(const char *error)
{
    return error ? cr_fail(CR_COMM, "CUDA: %s", error) : CR_OK;
}

#define CUDA_DO(call) CR_TRY(nccl_cuda(cr_cuda_check(nccl_driver->call)))

/* --- links --- */
static cr_status nccl_link_open(void **link, const cr_link_how *how, int *rank, int *size)
{
    nccl_link *l = cr_alloc_zero(sizeof *l);

    CR_NEED(l);
    if (!how->store) {
        cr_free(l);
        return cr_fail(CR_VALUE, "backend 'nccl' needs a store, a rank and a world size");
    }
    pthread_mutex_init(&l->lock, NULL);
    l->rank = *rank;
    l->size = *size;
    l->device = -1;
    l->store = cr_store_keep(how->store);
    l->timeout_ms = how->timeout_ms;
    *link = l;
    return CR_OK;
}

/* The communicator, taken from the link; the caller ends it.  Calls that use it are awaited
 * first.  One that takes longer waits for a peer: then only an abort ends it. */
static cr_nccl_comm nccl_take_comm(nccl_link *l)
{
    double end = cr_seconds() + 1e-3 * HAND_OVER_MS;

    pthread_mutex_lock(&l->lock);
    while (l->users && cr_seconds() < end) {
        pthread_mutex_unlock(&l->lock);
        usleep(PAUSE_US);
        pthread_mutex_lock(&l->lock);
    }
    cr_nccl_comm comm = l->comm;
    l->comm = NULL;
    pthread_mutex_unlock(&l->lock);
    return comm;
}

/* The communicator for a call, which nccl_return_comm ends; NULL after shut. */
static cr_nccl_comm nccl_use_comm(nccl_link *l)
{
    pthread_mutex_lock(&l->lock);
    cr_nccl_comm comm = l->shut ? NULL : l->comm;
    l->users += comm != NULL;
    pthread_mutex_unlock(&l->lock);
    return comm;
}

static void nccl_return_comm(nccl_link *l)
{
    pthread_mutex_lock(&l->lock);
    l->users--;
    pthread_mutex_unlock(&l->lock);
}

static void nccl_link_shut(void *link)
{
    nccl_link *l = link;

    l->shut = true;
    cr_nccl_comm comm = nccl_take_comm(l);
    if (comm)
        nccl.CommAbort(comm);
}

/* --- the communicator --- */
typedef struct {
    cr_nccl_comm comm;
    cr_nccl_id id;
    int rank, size, device;
} making;

static cr_status making_run(void *at)
{
    making *m = at;

    CR_TRY(nccl_cuda(cr_cuda_use(m->device)));
    NCCL_DO(CommInitRank, &m->comm, m->size, m->id, m->rank);
    return CR_OK;
}

/* Also of a communicator that came too late, or after the link was shut. */
static void making_free(void *at)
{
    making *m = at;

    if (m->comm)
        nccl.CommAbort(m->comm);
    cr_free(m);
}

static cr_status making_meet(making *m, const nccl_link *l)
{
    cr_text text = {0};

    if (l->rank == 0) {
        NCCL_DO(GetUniqueId, &m->id);
        return cr_store_set(l->store, "nccl/id", (cr_bytes){m->id.at, sizeof m->id.at});
    }
    cr_status st = cr_store_get(l->store, "nccl/id", l->timeout_ms, &text);
    if (!st && text.len != sizeof m->id.at)
        st = cr_fail(CR_COMM, "the store has no id of NCCL");
    if (!st)
        memcpy(m->id.at, text.at, sizeof m->id.at);
    cr_text_drop(&text);
    return st;
}

static cr_status nccl_connect_on(nccl_link *l, making *m)
{
    bool late = false;
    cr_status st = making_meet(m, l);

    if (!st)
        st = cr_run_limited(making_run, m, making_free, l->timeout_ms,
                            "NCCL: connecting the ranks", &late);
    if (!st) {
        pthread_mutex_lock(&l->lock);
        if (!l->shut) {
            l->comm = m->comm;
            m->comm = NULL;
        }
        pthread_mutex_unlock(&l->lock);
    }
    if (!late)
        making_free(m);
    return st;
}

static cr_status nccl_make(nccl_link *l, int device)
{
    making *m = cr_alloc_zero(sizeof *m);

    CR_NEED(m);
    m->rank = l->rank;
    m->size = l->size;
    m->device = device;
    CR_TRY(nccl_connect_on(l, m));
    l->device = device;
    return CR_OK;
}

/* Makes the communicator at the first call, then the rest; after a failure, the next call makes
 * what is missing. */
static cr_status nccl_connect(nccl_link *l, int device)
{
    if (l->device >= 0 && l->device != device)
        return cr_fail(CR_RUNTIME, "NCCL: the group's device is cuda:%d, not cuda:%d",
                       l->device, device);
    if (l->device < 0)
        CR_TRY(nccl_make(l, device));
    CR_TRY(nccl_cuda(cr_cuda_use(device)));
    if (!l->stream)
        CR_TRY(nccl_cuda(cr_cuda_stream_new(device, -1, &l->stream)));
    if (!l->barrier)
        CUDA_DO(memory_get(&l->barrier, sizeof(int32_t)));
    return CR_OK;
}

/* --- closing --- */
static cr_status ending_run(void *at)
{
    making *m = at;

    CR_TRY(nccl_cuda(cr_cuda_use(m->device)));
    NCCL_DO(CommDestroy, m->comm);
    return CR_OK;
}

/* NCCL may wait until the other ranks destroy theirs, too: not longer than a limit. */
static void nccl_destroy(const nccl_link *l, cr_nccl_comm comm)
{
    making *m = cr_alloc_zero(sizeof *m);
    bool late = false;

    if (!m)
        return;
    m->comm = comm;
    m->device = l->device;
    if (cr_run_limited(ending_run, m, cr_free, DESTROY_MS, "NCCL: ending a group", &late))
        cr_log_line("comm", 1, "%s", cr_error_message());
    if (!late)
        cr_free(m);
}

static void nccl_link_close(void *link, bool broken)
{
    nccl_link *l = link;
    cr_nccl_comm comm = nccl_take_comm(l);

    if (l->device >= 0 && !cr_cuda_use(l->device)) {
        if (!broken && l->stream)
            nccl_driver->stream_wait(l->stream);
        if (comm)
            nccl_destroy(l, comm);
        if (l->barrier)
            nccl_driver->memory_free(l->barrier);
    }
    cr_store_drop(l->store);
    pthread_mutex_destroy(&l->lock);
    cr_free(l);
}

/* --- what NCCL takes --- */
static bool nccl_reduces(cr_call_kind k)
{
    return k == CR_CALL_ALL_REDUCE || k == CR_CALL_REDUCE || k == CR_CALL_REDUCE_SCATTER;
}

/* How elements of a dtype are reduced: as `per` elements of a type of NCCL; -1: not at all. */
static int nccl_type(cr_dtype dtype, int *per)
{
    *per = 1;
    switch (dtype) {
    case CR_BOOL:
    case CR_U8: return CR_NCCL_U8;
    case CR_I8: return CR_NCCL_I8;
    case CR_I32: return CR_NCCL_I32;
    case CR_U32: return CR_NCCL_U32;
    case CR_I64: return CR_NCCL_I64;
    case CR_U64: return CR_NCCL_U64;
    case CR_F16: return CR_NCCL_F16;
    case CR_BF16: return CR_NCCL_BF16;
    case CR_F32: return CR_NCCL_F32;
    case CR_F64: return CR_NCCL_F64;
    case CR_C64: *per = 2; return CR_NCCL_F32;
    case CR_C128: *per = 2; return CR_NCCL_F64;
    default: return -1;
    }
}

/* The operation; -1 for one that NCCL lacks.  Bool is 0 or 1: "or" is the maximum. */
static int nccl_op(cr_reduce_op op, cr_dtype dtype)
{
    bool flags = dtype == CR_BOOL;

    switch (op) {
    case CR_REDUCE_SUM: return flags ? CR_NCCL_MAX : CR_NCCL_SUM;
    case CR_REDUCE_AVG: return CR_NCCL_AVG;
    case CR_REDUCE_PRODUCT:
        return flags ? CR_NCCL_MIN : dtype == CR_C64 || dtype == CR_C128 ? -1 : CR_NCCL_PROD;
    case CR_REDUCE_MIN: return CR_NCCL_MIN;
    case CR_REDUCE_MAX: return CR_NCCL_MAX;
    case CR_REDUCE_BAND: return flags ? CR_NCCL_MIN : -1;
    case CR_REDUCE_BOR: return flags ? CR_NCCL_MAX : -1;
    case CR_REDUCE_PREMUL_SUM: return CR_NCCL_SUM;
    default: return -1;
    }
}

static cr_status nccl_check(const cr_call_args *c)
{
    int per;

    if (c->kind == CR_CALL_RECEIVE && c->root < 0)
        return cr_fail(CR_VALUE, "ProcessGroupNCCL does not support recvAnysource");
    if (!nccl_reduces(c->kind))
        return CR_OK;
    if (nccl_type(c->dtype, &per) < 0)
        return cr_fail(CR_VALUE, "NCCL does not reduce %s", cr_dtype_name(c->dtype));
    if (nccl_op(c->op, c->dtype) < 0)
        return cr_fail(CR_VALUE, "Cannot use ReduceOp.%s with NCCL on %s",
                       cr_reduce_name(c->op), cr_dtype_name(c->dtype));
    return CR_OK;
}

/* --- planning --- */
static int nccl_device_of(const nccl_link *l, const cr_call_args *calls, int n)
{
    for (int i = 0; i < n; i++)
        if (calls[i].device.kind == CR_CUDA)
            return calls[i].device.index;
    return l->device >= 0 ? l->device : cr_cuda_table()->current();
}

static void nccl_drop(void *link, void *transfer)
{
    nccl_transfer *t = transfer;

    (void)link;
    if (!cr_cuda_use(t->device)) {
        if (t->before)
            nccl_driver->event_drop(t->before);
        if (t->after)
            nccl_driver->event_drop(t->after);
        if (t->room)
            nccl_driver->memory_free(t->room);
    }
    cr_vec_drop(&t->stages);
    cr_free(t);
}

static cr_status nccl_mark(nccl_transfer *t)
{
    CR_TRY(nccl_cuda(cr_cuda_use(t->device)));
    CUDA_DO(event_new(&t->before, CR_CUDA_EVENT_NO_TIME));
    CUDA_DO(event_new(&t->after, CR_CUDA_EVENT_NO_TIME));
    CUDA_DO(event_record(t->before, cr_cuda_stream(t->device)));
    return CR_OK;
}

static cr_status nccl_plan(void *link, void **transfer, const cr_call_args *calls, int n)
{
    for (int i = 0; i < n; i++)
        CR_TRY(nccl_check(&calls[i]));
    nccl_transfer *t = cr_alloc_zero(sizeof *t);
    CR_NEED(t);
    t->device = nccl_device_of(link, calls, n);
    t->sender = calls[0].kind == CR_CALL_RECEIVE ? calls[0].root : -1;
    cr_status st = nccl_mark(t);
    if (st)
        nccl_drop(link, t);
    else
        *transfer = t;
    return st;
}

/* --- host buffers --- */
/* The stage of a host buffer; NULL when it has none. */
static nccl_stage *stage_of(const nccl_transfer *t, cr_buffer b, cr_dtype dtype)
{
    size_t bytes = (size_t)b.count * cr_dtype_size(dtype);

    for (size_t i = 0; i < t->stages.len; i++)
        if (t->stages.at[i].host.at == b.at && t->stages.at[i].bytes == bytes)
            return &t->stages.at[i];
    return NULL;
}

static cr_status stage_list(nccl_transfer *t, const cr_buffer *b, int n, cr_dtype dtype,
                            bool comes_back, size_t *at)
{
    CR_TRY(cr_vec_reserve(&t->stages, (size_t)n));
    for (int i = 0; i < n; i++) {
        size_t bytes = (size_t)b[i].count * cr_dtype_size(dtype);
        nccl_stage *same = stage_of(t, b[i], dtype);
        if (same) {
            same->comes_back |= comes_back;
            continue;
        }
        cr_vec_put(&t->stages, ((nccl_stage){b[i], *at, bytes, comes_back}));
        *at += (bytes + 255) & ~(size_t)255;
    }
    return CR_OK;
}

/* Copies the host buffers of all calls to device memory. */
static cr_status stage_in(const nccl_link *l, nccl_transfer *t, const cr_call_args *calls,
                          int n)
{
    size_t bytes = 0;

    for (int i = 0; i < n; i++) {
        if (calls[i].device.kind != CR_CPU)
            continue;
        CR_TRY(stage_list(t, calls[i].in, calls[i].ins, calls[i].dtype, false, &bytes));
        CR_TRY(stage_list(t, calls[i].out, calls[i].outs, calls[i].dtype, true, &bytes));
    }
    if (bytes)
        CUDA_DO(memory_get(&t->room, bytes));
    for (size_t i = 0; i < t->stages.len; i++) {
        const nccl_stage *s = &t->stages.at[i];
        if (s->bytes)
            CUDA_DO(copy_in(t->room + s->offset, s->host.at, s->bytes, l->stream));
    }
    return CR_OK;
}

static cr_status stage_out(const nccl_link *l, const nccl_transfer *t)
{
    for (size_t i = 0; i < t->stages.len; i++) {
        const nccl_stage *s = &t->stages.at[i];
        if (s->bytes && s->comes_back)
            CUDA_DO(copy_out(s->host.at, t->room + s->offset, s->bytes, l->stream));
    }
    if (t->stages.len)
        CUDA_DO(stream_wait(l->stream));
    return CR_OK;
}

/* The device address of a buffer. */
static void *nccl_at(const nccl_transfer *t, const cr_call_args *c, cr_buffer b)
{
    const nccl_stage *s = c->device.kind == CR_CPU ? stage_of(t, b, c->dtype) : NULL;

    return s ? (void *)(t->room + s->offset) : b.at;
}

/* --- calls --- */
typedef struct {
    nccl_link *l;
    cr_nccl_comm comm;
    const nccl_transfer *t;
    const cr_call_args *c;
    int type, op;
    size_t per; /* elements of the type for each element of the call */
} nccl_call;

static void *call_in(const nccl_call *k, int i) { return nccl_at(k->t, k->c, k->c->in[i]); }
static void *call_out(const nccl_call *k, int i) { return nccl_at(k->t, k->c, k->c->out[i]); }
static size_t call_count(const nccl_call *k, cr_buffer b) { return (size_t)b.count * k->per; }

/* Whether buffers have one size and lie one after the other. */
static bool call_is_whole(const nccl_call *k, const cr_buffer *b, int n)
{
    size_t bytes = (size_t)b[0].count * cr_dtype_size(k->c->dtype);

    for (int i = 1; i < n; i++)
        if (b[i].count != b[0].count || k->c->device.kind == CR_CPU ||
            (char *)b[i].at != (char *)b[0].at + (size_t)i * bytes)
            return false;
    return true;
}

static cr_status call_gather_all(const nccl_call *k)
{
    const cr_call_args *c = k->c;

    if (call_is_whole(k, c->out, c->outs)) {
        NCCL_DO(AllGather, call_in(k, 0), call_out(k, 0), call_count(k, c->in[0]), k->type,
                k->comm, k->l->stream);
        return CR_OK;
    }
    for (int r = 0; r < c->outs; r++)
        if (c->out[r].count)
            NCCL_DO(Broadcast, r == k->l->rank ? call_in(k, 0) : call_out(k, r), call_out(k, r),
                    call_count(k, c->out[r]), k->type, r, k->comm, k->l->stream);
    return CR_OK;
}

static cr_status call_reduce_scatter(const nccl_call *k)
{
    const cr_call_args *c = k->c;

    if (call_is_whole(k, c->in, c->ins)) {
        NCCL_DO(ReduceScatter, call_in(k, 0), call_out(k, 0), call_count(k, c->out[0]), k->type,
                k->op, k->comm, k->l->stream);
        return CR_OK;
    }
    for (int r = 0; r < c->ins; r++)
        if (c->in[r].count)
            NCCL_DO(Reduce, call_in(k, r), r == k->l->rank ? call_out(k, 0) : call_in(k, r),
                    call_count(k, c->in[r]), k->type, k->op, r, k->comm, k->l->stream);
    return CR_OK;
}

/* One part to each rank of `in`, one from each of `out`; a list of one is for `peer`. */
static cr_status call_messages(const nccl_call *k, int ins, int outs, int peer)
{
    const cr_call_args *c = k->c;

    for (int i = 0; i < ins; i++)
        if (c->in[i].count)
            NCCL_DO(Send, call_in(k, i), call_count(k, c->in[i]), k->type,
                    ins == 1 && peer >= 0 ? peer : i, k->comm, k->l->stream);
    for (int i = 0; i < outs; i++)
        if (c->out[i].count)
            NCCL_DO(Recv, call_out(k, i), call_count(k, c->out[i]), k->type,
                    outs == 1 && peer >= 0 ? peer : i, k->comm, k->l->stream);
    return CR_OK;
}

static cr_status call_barrier(const nccl_call *k)
{
    void *at = (void *)k->l->barrier;

    NCCL_DO(AllReduce, at, at, 1, CR_NCCL_I32, CR_NCCL_SUM, k->comm, k->l->stream);
    return CR_OK;
}

static cr_status call_run(const nccl_call *k)
{
    const cr_call_args *c = k->c;
    size_t n = c->outs ? call_count(k, c->out[0]) : 0;
    void *out = c->outs ? call_out(k, 0) : NULL;

    switch (c->kind) {
    case CR_CALL_BARRIER: return call_barrier(k);
    case CR_CALL_BROADCAST:
        NCCL_DO(Broadcast, out, out, n, k->type, c->root, k->comm, k->l->stream);
        return CR_OK;
    case CR_CALL_ALL_REDUCE:
        NCCL_DO(AllReduce, out, out, n, k->type, k->op, k->comm, k->l->stream);
        return CR_OK;
    case CR_CALL_REDUCE:
        NCCL_DO(Reduce, out, out, n, k->type, k->op, c->root, k->comm, k->l->stream);
        return CR_OK;
    case CR_CALL_ALL_GATHER: return call_gather_all(k);
    case CR_CALL_REDUCE_SCATTER: return call_reduce_scatter(k);
    case CR_CALL_GATHER:
    case CR_CALL_SCATTER:
    case CR_CALL_SEND:
    case CR_CALL_RECEIVE: return call_messages(k, c->ins, c->outs, c->root);
    default: return call_messages(k, c->ins, c->outs, -1);
    }
}

/* The factor of PREMUL_SUM as an element. */
static cr_status call_factor(nccl_call *k)
{
    double factor = k->c->factor;
    char element[16];

    cr_convert_row(k->c->dtype, CR_F64)(element, 0, &factor, 0, 1);
    NCCL_DO(RedOpCreatePreMulSum, &k->op, element, k->type, CR_NCCL_HOST_SCALAR, k->comm);
    return CR_OK;
}

static cr_status call_make(nccl_call *k)
{
    int per = 1;

    k->type = CR_NCCL_U8;
    k->per = cr_dtype_size(k->c->dtype);
    if (!nccl_reduces(k->c->kind))
        return CR_OK;
    k->type = nccl_type(k->c->dtype, &per);
    k->per = (size_t)per;
    k->op = nccl_op(k->c->op, k->c->dtype);
    return k->c->op == CR_REDUCE_PREMUL_SUM ? call_factor(k) : CR_OK;
}

/* All calls in one group of NCCL, so that messages of both directions cannot wait for each
 * other. */
static cr_status calls_run(nccl_call *k, int n)
{
    cr_status st = CR_OK;

    for (int i = 0; i < n; i++)
        CR_TRY(call_make(&k[i]));
    NCCL_DO(GroupStart);
    for (int i = 0; i < n && !st; i++)
        st = call_run(&k[i]);
    int rc = nccl.GroupEnd();
    for (int i = 0; i < n; i++)
        if (k[i].op > CR_NCCL_AVG && !k[i].l->shut) /* an abort frees operations */
            nccl.RedOpDestroy(k[i].op, k[i].comm);
    return st ? st : rc && rc != CR_NCCL_IN_PROGRESS ? nccl_failed(rc, "GroupEnd") : CR_OK;
}

static cr_status calls_start(nccl_link *l, const nccl_transfer *t, const cr_call_args *calls,
                             int n)
{
    nccl_call *k = cr_alloc_zero((size_t)n * sizeof *k);

    CR_NEED(k);
    cr_nccl_comm comm = nccl_use_comm(l);
    for (int i = 0; i < n; i++)
        k[i] = (nccl_call){.l = l, .comm = comm, .t = t, .c = &calls[i]};
    cr_status st = comm ? calls_run(k, n) : cr_fail(CR_COMM, "NCCL: the group was closed");
    if (comm)
        nccl_return_comm(l);
    cr_free(k);
    return st;
}

static bool has_barrier(const cr_call_args *calls, int n)
{
    for (int i = 0; i < n; i++)
        if (calls[i].kind == CR_CALL_BARRIER)
            return true;
    return false;
}

static cr_status nccl_start(void *link, void *transfer, const cr_call_args *calls, int n)
{
    nccl_link *l = link;
    nccl_transfer *t = transfer;

    if (l->shut)
        return cr_fail(CR_COMM, "NCCL: the group was closed");
    CR_TRY(nccl_connect(l, t->device));
    CR_TRY(nccl_cuda(cr_cuda_use(t->device)));
    CUDA_DO(stream_wait_event(l->stream, t->before, 0));
    CR_TRY(stage_in(l, t, calls, n));
    t->hurries = t->stages.len || has_barrier(calls, n);
    CR_TRY(calls_start(l, t, calls, n));
    CUDA_DO(event_record(t->after, l->stream));
    t->started = true;
    return CR_OK;
}

/* --- waiting --- */
static cr_status nccl_order(void *link, void *transfer, const cr_call_args *calls, int n,
                            bool *ordered)
{
    const nccl_transfer *t = transfer;

    (void)link;
    (void)calls;
    (void)n;
    *ordered = false;
    if (t->hurries)
        return CR_OK;
    CR_TRY(nccl_cuda(cr_cuda_use(t->device)));
    CUDA_DO(stream_wait_event(cr_cuda_stream(t->device), t->after, 0));
    *ordered = true;
    return CR_OK;
}

/* The failure that NCCL has found meanwhile. */
static cr_status nccl_ask(nccl_link *l)
{
    int rc = 0;

    pthread_mutex_lock(&l->lock);
    if (l->comm)
        nccl.CommGetAsyncError(l->comm, &rc);
    pthread_mutex_unlock(&l->lock);
    if (l->shut)
        return cr_fail(CR_COMM, "NCCL: the group was closed");
    return rc && rc != CR_NCCL_IN_PROGRESS ? nccl_failed(rc, "CommGetAsyncError") : CR_OK;
}

static cr_status nccl_finish(nccl_link *l, nccl_transfer *t)
{
    CR_TRY(nccl_ask(l)); /* an aborted call ends, too */
    CR_TRY(stage_out(l, t));
    t->done = true;
    return CR_OK;
}

/* Each look takes a lock of the driver, which the program's thread needs for its kernels: where
 * the program goes on meanwhile, the pauses get longer. */
static void nccl_pause(const nccl_transfer *t, int tries)
{
    bool longest = tries >= LONGEST_PAUSE_US / PAUSE_US;

    if (t->hurries && tries < YIELDS)
        sched_yield();
    else if (t->hurries)
        usleep(PAUSE_US);
    else
        usleep((useconds_t)(longest ? LONGEST_PAUSE_US : PAUSE_US * (tries + 1)));
}

static cr_status nccl_wait(void *link, void *transfer, int64_t ms, bool *done, int *from)
{
    nccl_transfer *t = transfer;
    double end = cr_seconds() + 1e-3 * (double)ms;

    CR_TRY(nccl_cuda(cr_cuda_use(t->device)));
    for (int tries = 0; t->started && !t->done; tries++) {
        cr_cuda_result rc = nccl_driver->event_query(t->after);
        if (rc == CR_CUDA_SUCCESS)
            CR_TRY(nccl_finish(link, t));
        else if (rc != CR_CUDA_NOT_READY)
            return nccl_cuda(cr_cuda_check(rc));
        if (t->done || cr_seconds() > end)
            break;
        if (tries % ASK_EVERY == ASK_EVERY - 1)
            CR_TRY(nccl_ask(link));
        nccl_pause(t, tries);
    }
    *done = t->done;
    if (from)
        *from = t->sender;
    return CR_OK;
}

cr_engine_library cr_nccl_engine = {
    .engine = {.name = "nccl",
               .by_slices = true,
               .open = nccl_link_open,
               .shut = nccl_link_shut,
               .close = nccl_link_close,
               .wait = nccl_wait,
               .drop = nccl_drop,
               .device = CR_CUDA,
               .plan = nccl_plan,
               .start = nccl_start,
               .order = nccl_order},
    .open = nccl_open_library,
    .advice =
        "backend 'nccl' needs an NVIDIA GPU and NCCL ('pip install nvidia-nccl-cu12' brings "
        "it, CR_NCCL names a library); backends 'gloo' and 'mpi' are for CPUs"};
