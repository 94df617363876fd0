/* Flushes: the calls of a trace run in order, below all stages.
 *
 * Calls whose results only the trace can read are dropped, and a storage that only the trace
 * owns is freed after its last use, as eager execution frees it.  A result of a call that
 * failed keeps the error, and raises it whenever it is read. */
#include "tensor/geometry.h"
#include "tensor/sparse.h"
#include "tensor/trace.h"
#include <stdio.h>
#include <string.h>

static cr_defer_report_fn report;
cr_status (*cr_defer_by_program)(cr_trace *x, bool *done);

void cr_defer_set_report(cr_defer_report_fn fn) { report = fn; }

/* --- errors of results --- */
typedef struct {
    _Atomic int count;
    cr_status status;
    char text[];
} failure;

static failure *failure_new(cr_status status)
{
    const char *text = cr_error_message();
    failure *f = cr_alloc(sizeof *f + strlen(text) + 1);

    if (!f)
        return NULL;
    atomic_init(&f->count, 1);
    f->status = status;
    strcpy(f->text, text);
    return f;
}

static void failure_drop(void *p)
{
    failure *f = p;

    if (f && atomic_fetch_sub(&f->count, 1) == 1)
        cr_free(f);
}

static cr_status failure_raise(const failure *f)
{
    return f ? cr_fail(f->status, "%s", f->text)
             : cr_fail(CR_MEMORY, "a deferred call failed: memory is short");
}

static void storage_fail(cr_storage *s, failure *f)
{
    if (f)
        atomic_fetch_add(&f->count, 1);
    s->owner = f;
    s->release = failure_drop;
}

/* --- which calls run --- */
/* References beside the trace's own. */
static bool program_reads(const cr_memory *m)
{
    return atomic_load_explicit(&m->real->count, memory_order_acquire) >
           (int32_t)cr_defer_references(m->real);
}

/* From the last call to the first: a call runs when it writes, or when a result is needed. */
static void find_live(cr_trace *x)
{
    for (size_t i = 0; i < x->memories.len; i++) {
        cr_memory *m = x->memories.at[i];
        m->needed = !m->made || program_reads(m);
        m->last = program_reads(m) ? SIZE_MAX : 0;
    }
    for (size_t i = x->calls.len; i-- > 0;) {
        cr_noted *n = &x->calls.at[i];
        n->live = n->writes;
        for (int k = 0; k < n->outs; k++)
            n->live |= n->out[k]->needed;
        for (int k = 0; n->live && k < n->uses; k++) {
            n->use[k]->needed = true;
            n->use[k]->last = n->use[k]->last ? n->use[k]->last : i + 1;
        }
    }
}

/* --- one call --- */
void cr_header_device_is_real(cr_tensor *h, void *unused)
{
    (void)unused;
    h->device.fake = false;
    h->stages &= ~CR_STAGE_BIT(FAKE);
}

static void header_is_real(cr_tensor *t, void *context)
{
    cr_status *st = context;
    cr_memory *m = cr_memory_of(t);

    if (m->failed && !*st)
        *st = failure_raise(m->real->owner);
    cr_header_device_is_real(t, NULL);
    t->address = m->shown.chunk
                     ? cr_moved(m->shown.chunk, t->offset, cr_dtype_size((cr_dtype)t->dtype))
                     : NULL;
}

static bool is_shown(const cr_trace *x, const cr_storage *s)
{
    for (size_t i = 0; i < x->memories.len; i++)
        if (&x->memories.at[i]->shown == s)
            return true;
    return false;
}

static bool has_promised_geometry(const cr_tensor *t, const cr_tensor *like)
{
    if (t->ndim != like->ndim || t->dtype != like->dtype || t->offset != like->offset)
        return false;
    for (int d = 0; d < t->ndim; d++)
        if (t->size[d] != like->size[d] || (t->size[d] > 1 && t->stride[d] != like->stride[d]))
            return false;
    return true;
}

/* Gives the pending storage of result `k` the bytes of `t`, which owns a reference. */
static cr_status bind_result(const cr_noted *n, int k, cr_tensor *t)
{
    cr_memory *m = n->out[k];
    cr_storage *s = cr_storage_keep(t->storage);

    if (!has_promised_geometry(t, n->like[k])) {
        cr_storage_drop(s);
        cr_drop(t);
        return cr_fail(CR_RUNTIME, "%s: a deferred call made another layout than promised",
                       n->op->name);
    }
    cr_drop(t);
    cr_status st = cr_storage_bind(m->real, s);
    cr_storage_drop(s);
    m->shown.chunk = m->real->chunk;
    return st;
}

typedef struct {
    cr_trace *x;
    const cr_noted *n;
    cr_storage *seen[CR_MAX_RESULTS];
    int k;
    cr_status st;
} binding;

static void bind_value(binding *b, cr_value *v)
{
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        bind_value(b, (cr_value *)(uintptr_t)&v->list[i]);
    if (v->tag != CR_TENSOR || b->st || b->k == b->n->outs)
        return;
    cr_storage *s = v->t->storage;
    if (!s->size || is_shown(b->x, s) || (b->k && b->seen[(b->k - 1) % CR_MAX_RESULTS] == s))
        return;
    cr_tensor *t = v->t;
    v->tag = CR_NONE;
    b->seen[b->k % CR_MAX_RESULTS] = s;
    b->st = bind_result(b->n, b->k++, t);
}

static cr_status run_noted(cr_trace *x, cr_noted *n)
{
    cr_value result[CR_MAX_RESULTS] = {{0}};
    cr_status st = CR_OK;

    CR_TRY(cr_noted_spell_out(x, n));
    cr_each_tensor(n->op, n->arg, header_is_real, &st);
    CR_TRY(st);
    cr_thread.inference = n->inference;
    CR_TRY(n->op->kernel_stage(n->op, n->arg, result));
    binding b = {.x = x, .n = n};
    for (int k = 0; k < n->op->result_count; k++)
        bind_value(&b, &result[k]);
    cr_drop_values(result, n->op->result_count);
    if (!b.st && b.k < n->outs)
        return cr_fail(CR_RUNTIME, "%s: a deferred call made %d storages, not %d", n->op->name,
                       b.k, n->outs);
    return b.st;
}

/* --- the whole trace --- */
/* Drops what no later call than `i` uses. */
static void release_used(const cr_noted *n, size_t i)
{
    for (int k = 0; k < n->uses; k++) {
        cr_memory *m = n->use[k];
        if (m->last != i + 1 || !m->real)
            continue;
        cr_storage *s = m->real;
        m->real = NULL;
        m->shown.chunk = NULL;
        cr_storage_drop(s);
    }
}

static void fail_results(cr_noted *n, failure *f)
{
    for (int k = 0; k < n->outs; k++)
        if (n->out[k]->real && !n->out[k]->real->chunk && !n->out[k]->failed) {
            n->out[k]->failed = true;
            storage_fail(n->out[k]->real, f);
        }
}

static cr_status run_all(cr_trace *x, cr_defer_counts *counts, failure **first)
{
    cr_status st = CR_OK;

    for (size_t i = 0; i < x->calls.len; i++) {
        cr_noted *n = &x->calls.at[i];
        if (!n->live) {
            counts->dead++;
            continue;
        }
        cr_status one = run_noted(x, n);
        if (one && !*first) {
            st = one;
            *first = failure_new(one);
        }
        if (one)
            fail_results(n, *first);
        counts->ran++;
        release_used(n, i);
    }
    return st;
}

/* *done: the calls ran as one program, or failed as one. */
static cr_status run_by_program(cr_trace *x, cr_defer_counts *counts, failure **first,
                                bool *done)
{
    uint32_t include = cr_thread.include, exclude = cr_thread.exclude;

    if (!cr_defer_by_program)
        return CR_OK;
    cr_thread.include = 0;
    cr_thread.exclude = CR_STAGE_BIT(DEFER); /* making a program calls operators on fakes */
    cr_thread.inference = false;
    cr_status st = cr_defer_by_program(x, done);
    cr_thread.include = include;
    cr_thread.exclude = exclude;
    if (!*done)
        return CR_OK;
    if (st)
        *first = failure_new(st);
    for (size_t i = 0; i < x->calls.len; i++) {
        cr_noted *n = &x->calls.at[i];
        counts->ran += n->live;
        counts->dead += !n->live;
        if (st && n->live)
            fail_results(n, *first);
    }
    counts->programs++;
    counts->found += x->found;
    return st;
}

/* Ends the marks of the storages.  Their references are dropped after the lock: what owns a
 * storage may be any object. */
static void forget_all(cr_trace *x)
{
    for (size_t i = 0; i < x->memories.len; i++) {
        cr_memory *m = x->memories.at[i];
        if (!m->real)
            continue;
        if (m->failed)
            atomic_store(&m->real->pending, CR_FAILED_TRACE);
        else if (atomic_load(&m->real->pending) == x->number)
            atomic_store(&m->real->pending, 0);
        atomic_fetch_sub(&m->real->traces, 1);
    }
    if (x->table)
        memset(x->table, 0, x->table_size * sizeof *x->table);
    x->calls.len = x->gone = 0;
    x->bytes = 0;
    cr_known_trim(x);
}

static void stand_ins_are_fakes(cr_trace *x, bool yes)
{
    for (size_t i = 0; i < x->memories.len; i++)
        x->memories.at[i]->shown.device.fake = yes;
}

/* Calls of the trace run below all stages until run_end. */
static cr_thread_state run_begin(cr_trace *x)
{
    cr_thread_state was = cr_thread;

    x->flusher = cr_defer_me();
    cr_thread.exclude |= CR_STAGES_UP_TO(CR_STAGE_DEFER) | CR_STAGE_BIT(PROFILE);
    cr_thread.fakes = false;
    cr_thread.no_grad = true;
    stand_ins_are_fakes(x, false);
    return was;
}

static void run_end(cr_trace *x, const cr_thread_state *was)
{
    cr_thread.exclude = was->exclude;
    cr_thread.fakes = was->fakes;
    cr_thread.no_grad = was->no_grad;
    cr_thread.inference = was->inference;
    x->flusher = NULL;
}

static cr_status flush_locked(cr_trace *x, const char *why)
{
    cr_defer_counts *counts = &cr_defer_me()->counts;
    failure *first = NULL;
    size_t n = x->calls.len;
    bool done = false;

    counts->flushes++;
    x->flushes++;
    find_live(x);
    cr_thread_state was = run_begin(x);
    cr_status st = run_by_program(x, counts, &first, &done);
    if (!done)
        st = run_all(x, counts, &first);
    run_end(x, &was);
    forget_all(x);
    failure_drop(first);
    cr_trace_ended();
    if (report)
        report(n, why, cr_defer_entry);
    return st;
}

/* What calls leave with a trace.  It is dropped after the lock. */
typedef struct {
    cr_arena arena;
    cr_memory **memory;
    size_t count;
} leftovers;

static leftovers leftovers_take(cr_trace *x)
{
    leftovers l = {x->arena, x->memories.at, x->memories.len};

    x->arena = (cr_arena){0};
    x->memories.at = NULL;
    x->memories.len = x->memories.cap = 0;
    return l;
}

static void leftovers_drop(leftovers *l)
{
    for (size_t i = 0; i < l->count; i++)
        cr_storage_drop(l->memory[i]->real);
    cr_free(l->memory);
    cr_arena_drop(&l->arena);
}

/* The table is as large as the longest trace made it: to clear it would cost more than a
 * call. */
void cr_trace_forget_refused(cr_trace *x)
{
    leftovers l = {0};

    pthread_mutex_lock(&x->lock);
    if (!x->calls.len) {
        cr_free(x->table);
        x->table = NULL;
        x->table_size = 0;
        forget_all(x);
        l = leftovers_take(x);
    }
    pthread_mutex_unlock(&x->lock);
    leftovers_drop(&l);
}

cr_status cr_trace_flush(cr_trace *x, const char *why)
{
    cr_defer_thread *me = cr_defer_me();

    if (!x || (me && x->flusher == me))
        return CR_OK;
    pthread_mutex_lock(&x->lock);
    if (!x->calls.len) {
        pthread_mutex_unlock(&x->lock);
        return CR_OK;
    }
    char text[CR_SCRATCH_BYTES];
    x->apart += !me || me->trace != x;
    cr_defer_clock_start();
    cr_status st = flush_locked(x, why);
    cr_defer_clock_stop();
    snprintf(text, sizeof text, "%s", st ? cr_error_message() : "");
    leftovers l = leftovers_take(x);
    pthread_mutex_unlock(&x->lock);
    leftovers_drop(&l);
    return st ? cr_fail(st, "%s", text) : CR_OK;
}

/* --- a few calls --- */
enum { MOST_ALONE = 64, MOST_ALONE_BYTES = 1 << 20 };

static int tensors_in(const cr_value *v)
{
    int n = v->tag == CR_TENSOR;

    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        n += tensors_in(&v->list[i]);
    return n;
}

/* Whether storage `k` that the call uses is written by it. */
static bool is_written(const cr_noted *n, int k)
{
    int param = 0, left = k;

    if (!n->writes || n->known)
        return n->writes && n->known->written >> k & 1;
    while ((left -= tensors_in(&n->arg[param])) >= 0)
        param++;
    return cr_defer_written_params(n->op, n->arg) >> param & 1;
}

static void forget_others(cr_trace *x)
{
    for (size_t i = 0; i < x->memories.len; i++)
        x->memories.at[i]->other = false;
}

/* Marks the calls that make or write what `target` needs as live.  False: they are too many. */
static bool find_alone(cr_trace *x, cr_memory *target)
{
    size_t calls = 0, bytes = 0;

    for (size_t i = 0; i < x->memories.len; i++)
        x->memories.at[i]->needed = false;
    target->needed = true;
    for (size_t i = x->calls.len; i-- > 0;) {
        cr_noted *n = &x->calls.at[i];
        n->live = false;
        for (int k = 0; n->writes && k < n->uses; k++)
            n->live |= n->use[k]->needed && is_written(n, k);
        for (int k = 0; k < n->outs; k++)
            n->live |= n->out[k]->needed;
        for (int k = 0; n->live && k < n->outs; k++)
            bytes += n->out[k]->real->size;
        calls += n->live;
        for (int k = 0; n->live && k < n->uses; k++)
            n->use[k]->needed = true;
    }
    return calls <= MOST_ALONE && bytes <= MOST_ALONE_BYTES && calls < x->calls.len;
}

/* Whether a live call writes what an earlier one reads that waits. */
static bool overtakes(cr_trace *x)
{
    bool yes = false;

    forget_others(x);
    for (size_t i = 0; i < x->calls.len && !yes; i++) {
        const cr_noted *n = &x->calls.at[i];
        for (int k = 0; k < n->uses; k++)
            if (!n->live)
                n->use[k]->other = true;
            else
                yes |= n->use[k]->other && is_written(n, k);
    }
    return yes;
}

/* What the calls that ran have made or written, and no other call writes, waits no longer. */
static void end_waiting(cr_trace *x)
{
    forget_others(x);
    for (size_t i = 0; i < x->calls.len; i++) {
        const cr_noted *n = &x->calls.at[i];
        for (int k = 0; n->writes && k < n->uses; k++)
            n->use[k]->other |= is_written(n, k);
    }
    for (size_t i = 0; i < x->memories.len; i++) {
        cr_memory *m = x->memories.at[i];
        if (!m->made && !m->other && atomic_load(&m->real->pending) == x->number)
            atomic_store(&m->real->pending, 0);
    }
}

/* Runs the live calls and removes them; stops at an error, which a flush will raise. */
static void run_alone(cr_trace *x)
{
    size_t kept = 0, count = x->calls.len;
    bool failed = false;
    cr_thread_state was = run_begin(x);

    for (size_t i = 0; i < count; i++) {
        cr_noted *n = &x->calls.at[i];
        failed |= n->live && !failed && run_noted(x, n) != CR_OK;
        for (int k = 0; n->live && !failed && k < n->outs; k++)
            n->out[k]->made = false;
        if (!n->live || failed)
            x->calls.at[kept++] = *n;
    }
    cr_defer_me()->counts.ran += (int64_t)(count - kept);
    x->gone += count - kept;
    x->calls.len = kept;
    x->flushes++;
    run_end(x, &was);
    stand_ins_are_fakes(x, true);
    end_waiting(x);
}

cr_status cr_defer_settle_alone(cr_tensor *t)
{
    cr_trace *x = cr_defer_me() ? cr_defer_me()->trace : NULL;
    cr_memory *m;

    if (!x || t->layout || cr_dtype_is_inexact((cr_dtype)t->dtype) ||
        atomic_load(&t->storage->pending) != x->number)
        return cr_defer_settle(t);
    pthread_mutex_lock(&x->lock);
    m = cr_trace_find(x, t->storage);
    if (m && find_alone(x, m) && !overtakes(x))
        run_alone(x);
    pthread_mutex_unlock(&x->lock);
    return cr_defer_settle(t);
}

/* --- reaching bytes --- */
static const char *reason(void)
{
    if (cr_defer_entry)
        return cr_defer_entry->name;
    return cr_defer_reason ? cr_defer_reason : "a value";
}

cr_status cr_defer_settle_storage(cr_storage *s)
{
    if (cr_thread.exclude & CR_STAGE_BIT(DEFER))
        return CR_OK;
    cr_storage *root = cr_storage_root(s);
    unsigned number = atomic_load_explicit(&root->pending, memory_order_acquire);
    if (CR_UNLIKELY(number == CR_FAILED_TRACE))
        return failure_raise(root->owner);
    if (!number)
        return CR_OK;
    /* An error of another result is raised when that one is read. */
    cr_status st = cr_trace_flush(cr_trace_numbered(number), reason());
    if (atomic_load(&root->pending) == CR_FAILED_TRACE)
        return failure_raise(root->owner);
    return st == CR_MEMORY && !root->chunk && root->size ? st : CR_OK;
}

static cr_status settle_parts(const cr_sparse *parts)
{
    if (parts->compressed)
        CR_TRY(cr_defer_settle(parts->compressed));
    CR_TRY(cr_defer_settle(parts->indices));
    return cr_defer_settle(parts->values);
}

cr_status cr_defer_settle(cr_tensor *t)
{
    if (t->layout)
        return settle_parts(cr_sparse_of(t));
    if (t->storage->device.fake)
        return CR_OK;
    CR_TRY(cr_defer_settle_storage(t->storage));
    if (t->stages & CR_STAGE_BIT(DEFER)) {
        if (!t->address && t->storage->chunk)
            t->address =
                cr_moved(t->storage->chunk, t->offset, cr_dtype_size((cr_dtype)t->dtype));
        __atomic_fetch_and(&t->stages, ~CR_STAGE_BIT(DEFER), __ATOMIC_RELEASE);
    }
    return CR_OK;
}

cr_status cr_defer_before_write(cr_storage *s)
{
    CR_TRY(cr_defer_settle_storage(s));
    cr_storage *root = cr_storage_root(s);
    if (cr_thread.exclude & CR_STAGE_BIT(DEFER) || !cr_defer_references(root))
        return CR_OK;
    return cr_traces_flush_users(NULL, root);
}

cr_status cr_reach_slowly(char **out, const cr_tensor *t)
{
    if (t->layout || t->storage->device.fake) {
        *out = t->address;
        return CR_OK;
    }
    CR_TRY(cr_defer_settle_storage(t->storage));
    *out = t->address;
    if (!*out && t->storage->chunk)
        *out = cr_moved(t->storage->chunk, t->offset, cr_dtype_size((cr_dtype)t->dtype));
    return !*out && cr_is_emptied(t) ? cr_fail_emptied(t) : CR_OK;
}

/* True if no waiting call makes, writes or reads the bytes, and the storage is no alias. */
static bool is_at_rest(cr_storage *s)
{
    return !s->release && !atomic_load_explicit(&s->pending, memory_order_acquire) &&
           !atomic_load_explicit(&s->traces, memory_order_acquire);
}

cr_status cr_reach_to_write(char **out, const cr_tensor *t)
{
    if (CR_LIKELY(t->address && is_at_rest(t->storage))) {
        *out = t->address;
        return CR_OK;
    }
    CR_TRY(cr_defer_before_write(t->storage));
    return cr_reach_slowly(out, t);
}

cr_status cr_reach_storage(char **out, cr_storage *s)
{
    CR_TRY(cr_defer_before_write(s));
    *out = s->chunk;
    return CR_OK;
}
