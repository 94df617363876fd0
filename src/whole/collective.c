/* Calls between the ranks of a group, on tensors.
 *
 * Results whose call may be in progress are in one list, found by the address of their first
 * element.  A work of several calls has an entry for each result. */
#include "base/memory.h"
#include "tensor/profile.h"
#include "whole/collective_plan.h"
#include <pthread.h>
#include <string.h>

/* A work, counted by the results that it makes.  It belongs to a group, or is one of a
 * program's class. */
typedef struct {
    _Atomic int count;
    cr_comm *group;
    cr_work *work;
    void *other;
} started_work;

typedef struct {
    const char *at;
    cr_tensor *in, *out;
    started_work *work;
} pending_result;

enum { SWEEP_LEAST = 16 };

static struct {
    pthread_mutex_t lock;
    CR_VEC(pending_result) list;
    size_t sweep_at; /* the length at which results are looked through */
    const cr_collective_classes *classes;
} pending = {.lock = PTHREAD_MUTEX_INITIALIZER, .sweep_at = SWEEP_LEAST};

void cr_collective_set_classes(const cr_collective_classes *functions)
{
    pending.classes = functions;
}

/* --- works --- */

static void started_drop(started_work *w)
{
    if (!w || --w->count)
        return;
    cr_work_drop(w->work);
    cr_comm_drop(w->group);
    if (w->other)
        pending.classes->drop(w->other);
    cr_free(w);
}

static cr_status wait_for_work(void *work) { return cr_work_wait(work, -1); }

static cr_status started_wait(const started_work *w)
{
    return w->other ? pending.classes->wait(w->other) : cr_comm_wait(wait_for_work, w->work);
}

static void pending_drop(pending_result *p)
{
    cr_drop(p->in);
    cr_drop(p->out);
    started_drop(p->work);
}

/* Waits, and drops the result: the stream that waited may be another one than that for which
 * the memory was allocated. */
static cr_status pending_end(pending_result *p)
{
    cr_status st = started_wait(p->work);

    if (!st && p->in)
        st = cr_note_use(p->in);
    if (!st)
        st = cr_note_use(p->out);
    pending_drop(p);
    return st;
}

/* Takes the result at an address out of the list. */
static bool pending_take(pending_result *out, const char *at)
{
    bool found = false;

    pthread_mutex_lock(&pending.lock);
    for (size_t i = pending.list.len; !found && i-- > 0;)
        if (pending.list.at[i].at == at) {
            *out = pending.list.at[i];
            pending.list.at[i] = pending.list.at[--pending.list.len];
            found = true;
        }
    pthread_mutex_unlock(&pending.lock);
    return found;
}

static cr_status wait_at(const char *at)
{
    pending_result p;

    return pending_take(&p, at) ? pending_end(&p) : CR_OK;
}

cr_status cr_collective_wait(const cr_tensor *t)
{
    char *at;

    if (!cr_has_bytes(t->device) || !t->numel)
        return CR_OK;
    if (t->device.kind == CR_LAZY)
        return cr_collective_collect_wait(t);
    CR_TRY(cr_reach(&at, t));
    return wait_at(at);
}

size_t cr_collective_pending(void)
{
    pthread_mutex_lock(&pending.lock);
    size_t n = pending.list.len;
    pthread_mutex_unlock(&pending.lock);
    return n;
}

/* The call has ended without an error, and only the list has the result: no wait can come. */
static bool is_left(const pending_result *p)
{
    return p->work->work && p->out->count == 1 && p->out->storage->count == 1 &&
           cr_work_is_done(p->work->work) && !cr_work_wait(p->work->work, 0);
}

/* Takes the next one of those at *from and behind. */
static bool take_left(pending_result *out, size_t *from)
{
    bool found = false;

    pthread_mutex_lock(&pending.lock);
    for (; !found && *from < pending.list.len; *from += !found)
        if (is_left(&pending.list.at[*from])) {
            *out = pending.list.at[*from];
            pending.list.at[*from] = pending.list.at[--pending.list.len];
            found = true;
        }
    pthread_mutex_unlock(&pending.lock);
    return found;
}

/* Drops results that were left, each time that the list has doubled. */
static void pending_sweep(void)
{
    pending_result p;
    size_t from = 0;

    if (cr_collective_pending() < pending.sweep_at)
        return;
    while (take_left(&p, &from))
        pending_drop(&p);
    pthread_mutex_lock(&pending.lock);
    size_t next = 2 * pending.list.len;
    pending.sweep_at = next > SWEEP_LEAST ? next : SWEEP_LEAST;
    pthread_mutex_unlock(&pending.lock);
}

/* Remembers the result of a call.  The work's count goes up. */
static cr_status pending_add(const char *at, cr_tensor *in, cr_tensor *out, started_work *w)
{
    pthread_mutex_lock(&pending.lock);
    cr_status st = cr_vec_reserve(&pending.list, 1);
    if (!st) {
        w->count++;
        cr_vec_put(&pending.list, ((pending_result){at, cr_keep(in), cr_keep(out), w}));
    }
    pthread_mutex_unlock(&pending.lock);
    return st;
}

cr_status cr_collective_register(cr_tensor *t, void *work)
{
    char *at;
    cr_status st = cr_reach_to_write(&at, t);
    started_work *w = st ? NULL : cr_alloc_zero(sizeof *w);

    if (!w) {
        pending.classes->drop(work);
        return st ? st : CR_MEMORY;
    }
    *w = (started_work){.count = 1, .other = work};
    st = t->numel ? wait_at(at) : started_wait(w);
    if (!st && t->numel) {
        st = pending_add(at, NULL, t, w);
        if (st)
            (void)started_wait(w); /* it writes t until then */
    }
    started_drop(w);
    return st;
}

/* --- the buffers of calls --- */

/* Calls as the room comm takes them. */
typedef struct {
    cr_comm *group;
    cr_call_args *args;
    cr_buffer *buffer;
    size_t used;
    cr_work *work;
    int n;
    const char *where;
} starting;

static cr_status whole_buffer(cr_buffer *out, cr_tensor *t, bool written)
{
    char *at;

    if (!t->contiguous || cr_is_lazy(t))
        return cr_fail(CR_VALUE, "Tensors must be contiguous");
    CR_TRY(written ? cr_reach_to_write(&at, t) : cr_reach(&at, t));
    *out = (cr_buffer){at, t->numel};
    return CR_OK;
}

/* The elements of a tensor in a part for each rank: equal ones without `rows`. */
static cr_status put_parts(starting *s, const cr_buffer **list, int *count, cr_tensor *t,
                           const int64_t *rows, bool written)
{
    int n = cr_comm_size(s->group);
    int64_t row = rows && t->numel ? t->numel / t->size[0] : 1;
    cr_buffer whole;

    CR_TRY(whole_buffer(&whole, t, written));
    char *at = whole.at;
    *list = s->buffer + s->used;
    *count = n;
    for (int r = 0; r < n; r++) {
        int64_t part = rows ? rows[r] * row : t->numel / n;
        s->buffer[s->used++] = (cr_buffer){at, part};
        at += (size_t)part * cr_dtype_size((cr_dtype)t->dtype);
    }
    return CR_OK;
}

static cr_status put_whole(starting *s, const cr_buffer **list, int *count, cr_tensor *t,
                           bool written)
{
    *list = s->buffer + s->used;
    *count = 1;
    return whole_buffer(&s->buffer[s->used++], t, written);
}

static cr_status check_parts(const cr_collective *c, int n)
{
    const cr_tensor *cut = c->kind == CR_CALL_ALL_GATHER ? c->out : c->in;
    const cr_tensor *part = c->kind == CR_CALL_ALL_GATHER ? c->in : c->out;

    if (c->kind == CR_CALL_ALL_TO_ALL)
        return c->in_parts == n && c->out_parts == n
                   ? CR_OK
                   : cr_fail(CR_RUNTIME, "Number of tensor splits not equal to group size");
    if (c->in && (cut->numel % n || cut->numel / n != part->numel))
        return cr_fail(CR_RUNTIME,
                       "%lld elements are not %d parts of %lld elements, one for each rank",
                       (long long)cut->numel, n, (long long)part->numel);
    return CR_OK;
}

static cr_status check_root(const cr_collective *c, const cr_comm *group)
{
    bool gloo = !strcmp(cr_comm_engine(group), "gloo");

    if (c->kind != CR_CALL_BROADCAST || (c->root >= 0 && c->root < cr_comm_size(group)))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "%sbroadcast: invalid root rank: %lld",
                   gloo ? "ProcessGroupGloo::" : "", (long long)c->root);
}

static cr_status put_call(starting *s, cr_call_args *to, const cr_collective *c)
{
    bool gathers = c->kind == CR_CALL_ALL_GATHER, cuts = c->in && !gathers;

    CR_TRY(check_root(c, s->group));
    *to = (cr_call_args){.kind = c->kind,
                         .dtype = (cr_dtype)c->out->dtype,
                         .device = c->out->device,
                         .root = (int)c->root,
                         .factor = 1,
                         .apart = c->kind == CR_CALL_ALL_REDUCE};
    CR_TRY(check_parts(c, cr_comm_size(s->group)));
    if (c->reduce)
        CR_TRY(cr_reduce_named(&to->op, c->reduce));
    if (c->in)
        CR_TRY(cuts ? put_parts(s, &to->in, &to->ins, c->in, c->in_rows, false)
                    : put_whole(s, &to->in, &to->ins, c->in, false));
    return gathers || c->kind == CR_CALL_ALL_TO_ALL
               ? put_parts(s, &to->out, &to->outs, c->out, c->out_rows, true)
               : put_whole(s, &to->out, &to->outs, c->out, true);
}

static cr_status start_calls(void *context)
{
    starting *s = context;

    return cr_comm_start(&s->work, s->group, s->args, s->n, s->where, -1, false);
}

/* A profile's event of the calls, as those of torch.distributed. */
static int32_t enter_profile(const starting *s, const cr_collective *c)
{
    cr_text name = {0};
    const char *engine = cr_comm_engine(s->group);

    if (!cr_profiling())
        return -1;
    cr_text_printf(&name, "%s:%s%s\x1f[", !strcmp(engine, "fake") ? "custom" : engine,
                   cr_call_kind_name(c->kind),
                   c->kind == CR_CALL_ALL_GATHER       ? "_into_tensor"
                   : c->kind == CR_CALL_REDUCE_SCATTER ? "_tensor"
                                                       : "");
    for (int i = 0; i < s->n; i++) {
        const cr_tensor *t = c[i].in ? c[i].in : c[i].out;
        cr_text_put(&name, i ? ", " : "");
        cr_print_sizes(&name, t->ndim, t->size);
    }
    cr_text_put(&name, "]");
    int32_t event = cr_profile_enter(CR_PROFILE_USER, cr_text_str(&name), -1);
    cr_text_drop(&name);
    return event;
}

/* The work of calls of a group of the room comm. */
static cr_status start_by_comm(started_work *w, const cr_collective *c, int n)
{
    char where[160];
    size_t ranks = (size_t)cr_comm_size(w->group);
    starting s = {.group = w->group, .n = n, .where = where};
    cr_status st = CR_MEMORY;

    cr_comm_where(where, sizeof where);
    s.args = cr_alloc((size_t)n * sizeof *s.args);
    s.buffer = cr_alloc((size_t)n * 2 * (ranks + 1) * sizeof *s.buffer);
    if (s.args && s.buffer)
        st = CR_OK;
    for (int i = 0; !st && i < n; i++)
        st = put_call(&s, &s.args[i], &c[i]);
    if (!st) {
        int32_t event = enter_profile(&s, c);
        st = cr_comm_wait(start_calls, &s);
        if (event >= 0)
            cr_profile_leave(event);
    }
    w->work = s.work;
    cr_free(s.args);
    cr_free(s.buffer);
    return st;
}

/* --- starting --- */

static cr_status remember(started_work *w, const cr_collective *c, int n)
{
    char *at;

    pending_sweep();
    for (int i = 0; i < n; i++) {
        CR_TRY(cr_reach_to_write(&at, c[i].out));
        if (c[i].out->numel)
            CR_TRY(pending_add(at, c[i].in, c[i].out, w));
        else
            CR_TRY(started_wait(w));
    }
    return CR_OK;
}

/* A call that cannot be remembered ends first: it uses the tensors. */
static cr_status remember_or_end(started_work *w, const cr_collective *c, int n)
{
    cr_status st = remember(w, c, n);
    char *at;

    if (st)
        (void)started_wait(w);
    for (int i = 0; st && i < n; i++)
        if (!cr_reach(&at, c[i].out))
            (void)wait_at(at);
    return st;
}

static cr_status check_devices(const cr_collective *c, int n)
{
    for (int i = 1; i < n; i++)
        if (!cr_same_device(c[i].out->device, c[0].out->device))
            return cr_fail(CR_RUNTIME, "the tensors of one call are on different devices");
    return CR_OK;
}

/* A call that makes one of the results, and may be in progress, ends first. */
static cr_status wait_for_earlier(const cr_collective *c, int n)
{
    for (int i = 0; i < n; i++) {
        if (c[i].in)
            CR_TRY(cr_collective_wait(c[i].in));
        CR_TRY(cr_collective_wait(c[i].out));
    }
    return CR_OK;
}

cr_status cr_collective_start(const char *group, const cr_collective *c, int n)
{
    cr_comm_found g = {NULL, 0};
    cr_reduce_op op;

    if (n && c[0].reduce)
        CR_TRY(cr_reduce_named(&op, c[0].reduce));
    CR_TRY(check_devices(c, n));
    if (!n || !cr_has_bytes(c[0].out->device))
        return CR_OK;
    if (c[0].out->device.kind == CR_LAZY)
        return cr_collective_collect(group, c, n);
    CR_TRY(cr_comm_find(&g, group, (cr_device_kind)c[0].out->device.kind));
    started_work *w = cr_alloc_zero(sizeof *w);
    if (!w) {
        cr_comm_drop(g.comm);
        return CR_MEMORY;
    }
    *w = (started_work){.count = 1, .group = g.comm};
    cr_status st = wait_for_earlier(c, n);
    if (!st)
        st = g.comm ? start_by_comm(w, c, n) : pending.classes->start(&w->other, group, c, n);
    if (!st && (w->work || w->other))
        st = remember_or_end(w, c, n);
    started_drop(w);
    return st;
}
