/* Threads that defer calls, and threads that may meet their pending tensors.
 *
 * cr_deferring of a new thread has the stage's bit set, so its first call comes to the stage,
 * which registers the thread here.  While a trace has calls, the bits of all threads are set:
 * each of them looks at the storages of its arguments.  A thread clears its bit when it finds
 * no trace with calls.  So calls cost nothing while nothing is deferred.
 *
 * Locks: `registry` may be taken while a trace is locked, not the other way round. */
#include "base/clock.h"
#include "device/cpu/cpu.h"
#include "tensor/trace.h"

CR_THREAD _Atomic uint32_t cr_deferring = CR_STAGE_BIT(DEFER);
CR_THREAD const char *cr_defer_reason;
CR_THREAD const cr_op *cr_defer_entry;
CR_THREAD bool cr_defer_backward;
static CR_THREAD int paused;
_Atomic int cr_defer_live;

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t registry_once = PTHREAD_ONCE_INIT;
static pthread_key_t registry_key;
static cr_defer_thread *registered;
static _Atomic(cr_trace *) traces[CR_MOST_TRACES + 1];
static uint16_t unused[CR_MOST_TRACES + 1]; /* numbers of traces whose threads ended */
static unsigned trace_count, unused_count;
static bool everywhere;
static CR_THREAD cr_defer_thread *me;

/* --- the end of a thread, and fork --- */
static void thread_unlink(cr_defer_thread *t)
{
    cr_defer_thread **at = &registered;

    while (*at && *at != t)
        at = &(*at)->next;
    if (*at)
        *at = t->next;
}

/* Other threads may still hold results of the trace. */
static void thread_ended(void *p)
{
    cr_defer_thread *t = p;

    if (t->trace) {
        t->trace->regions = 0;
        (void)!cr_trace_flush(t->trace, "the end of a thread");
    }
    pthread_mutex_lock(&registry);
    thread_unlink(t);
    if (t->trace)
        unused[unused_count++] = t->trace->number;
    pthread_mutex_unlock(&registry);
    me = NULL;
    cr_free(t);
}

/* Calls that wait are memory as any other: parent and child both run them when they need to. */
static void fork_begins(void)
{
    for (unsigned i = 1; i <= CR_MOST_TRACES; i++)
        if (traces[i])
            pthread_mutex_lock(&traces[i]->lock);
    pthread_mutex_lock(&registry);
}

static void fork_ended(void)
{
    pthread_mutex_unlock(&registry);
    for (unsigned i = 1; i <= CR_MOST_TRACES; i++)
        if (traces[i])
            pthread_mutex_unlock(&traces[i]->lock);
}

/* The child has the calling thread only. */
static void fork_child(void)
{
    registered = me;
    if (me)
        me->next = NULL;
    fork_ended();
}

/* A thread that holds a trace may wait for the allocator.  So a fork takes the traces first:
 * handlers run in the opposite order of their registration. */
static void registry_start(void)
{
    uint32_t class;
    void *first = cr_cpu_get(1, &class);

    if (first)
        cr_cpu_release(first, class);
    pthread_key_create(&registry_key, thread_ended);
    pthread_atfork(fork_begins, fork_ended, fork_child);
}

/* --- threads --- */
cr_defer_thread *cr_defer_me(void)
{
    if (CR_LIKELY(me != NULL))
        return me;
    pthread_once(&registry_once, registry_start);
    cr_defer_thread *t = cr_alloc_zero(sizeof *t);
    if (!t)
        return NULL;
    t->bits = &cr_deferring;
    pthread_setspecific(registry_key, t);
    pthread_mutex_lock(&registry);
    t->next = registered;
    registered = t;
    pthread_mutex_unlock(&registry);
    me = t;
    if (everywhere)
        (void)!cr_defer_begin();
    return t;
}

cr_trace *cr_trace_numbered(unsigned number)
{
    return number <= CR_MOST_TRACES ? traces[number] : NULL;
}

static cr_trace *trace_of_number(unsigned number)
{
    cr_trace *x = traces[number];

    if (x || !(x = cr_alloc_zero(sizeof *x)))
        return x;
    pthread_mutex_init(&x->lock, NULL);
    x->number = (uint16_t)number;
    traces[number] = x;
    return x;
}

/* More than CR_MOST_TRACES threads: CR_RUNTIME. */
static cr_status trace_new(cr_defer_thread *t)
{
    cr_status st = CR_OK;

    pthread_mutex_lock(&registry);
    if (!unused_count && trace_count == CR_MOST_TRACES)
        st = cr_fail(CR_RUNTIME, "at most %d threads can defer calls", CR_MOST_TRACES);
    else if (!(t->trace =
                   trace_of_number(unused_count ? unused[unused_count - 1] : trace_count + 1)))
        st = CR_MEMORY;
    else if (unused_count)
        unused_count--;
    else
        trace_count++;
    pthread_mutex_unlock(&registry);
    return st;
}

void cr_trace_started(cr_trace *x)
{
    (void)x;
    atomic_fetch_add(&cr_defer_live, 1);
    pthread_mutex_lock(&registry);
    for (cr_defer_thread *t = registered; t; t = t->next)
        atomic_fetch_or(t->bits, CR_STAGE_BIT(DEFER));
    pthread_mutex_unlock(&registry);
}

void cr_trace_ended(void) { atomic_fetch_sub(&cr_defer_live, 1); }

void cr_defer_update(cr_defer_thread *t)
{
    if ((t->trace && t->trace->regions) || atomic_load(&cr_defer_live))
        return;
    atomic_store(t->bits, 0);
    if (atomic_load(&cr_defer_live))
        atomic_store(t->bits, CR_STAGE_BIT(DEFER));
}

const char cr_defer_written[] = "another thread writes a tensor that waits to be read";

cr_status cr_traces_flush_users(const cr_trace *own, const cr_storage *s)
{
    for (unsigned i = 1; i <= trace_count; i++) {
        cr_trace *x = traces[i];
        if (!x || x == own)
            continue;
        pthread_mutex_lock(&x->lock);
        bool uses = cr_trace_find(x, s) != NULL;
        pthread_mutex_unlock(&x->lock);
        if (uses)
            CR_TRY(cr_trace_flush(x, cr_defer_written));
    }
    return CR_OK;
}

/* --- time --- */
static CR_THREAD double clock_sum, clock_since;
static CR_THREAD int clock_depth;

double cr_defer_clock(void) { return clock_sum; }

void cr_defer_clock_start(void)
{
    if (!clock_depth++)
        clock_since = cr_seconds();
}

void cr_defer_clock_stop(void)
{
    if (!--clock_depth)
        clock_sum += cr_seconds() - clock_since;
}

/* --- regions --- */
cr_status cr_defer_begin(void)
{
    cr_defer_thread *t = cr_defer_me();

    CR_NEED(t);
    if (!t->trace)
        CR_TRY(trace_new(t));
    if (!t->trace->regions++ && !t->trace->calls.len) {
        t->trace->how = 0;
        t->trace->measured = false;
    }
    atomic_store(t->bits, CR_STAGE_BIT(DEFER));
    return CR_OK;
}

void cr_defer_end(void)
{
    if (me && me->trace && me->trace->regions)
        me->trace->regions--;
}

void cr_defer_programs_are(unsigned how)
{
    if (!me || !me->trace)
        return;
    me->trace->how = how;
    me->trace->measured = true;
}

void cr_defer_pause(int by) { paused += by; }

bool cr_defer_in_region(void) { return me && me->trace && me->trace->regions; }
size_t cr_defer_pending(void) { return me && me->trace ? me->trace->calls.len : 0; }

bool cr_defer_active(void)
{
    uint32_t later = CR_STAGE_BIT(PROFILE);

    return cr_defer_in_region() && me->trace->flusher != me && !paused &&
           !(cr_thread.exclude & CR_STAGE_BIT(DEFER)) && !(cr_thread.include & later);
}

void cr_defer_everywhere(void)
{
    everywhere = true;
    if (me)
        (void)!cr_defer_begin();
    else
        (void)!!cr_defer_me();
}

static size_t trace_bytes(cr_trace *x)
{
    pthread_mutex_lock(&x->lock);
    size_t bytes =
        cr_arena_used(&x->arena) + x->memories.len * sizeof *x->memories.at + cr_known_bytes(x);
    pthread_mutex_unlock(&x->lock);
    return bytes;
}

cr_defer_counts cr_defer_take_counts(void)
{
    cr_defer_counts c = me ? me->counts : (cr_defer_counts){0};

    if (me)
        me->counts = (cr_defer_counts){0};
    if (me && me->trace)
        c.bytes = (int64_t)trace_bytes(me->trace);
    return c;
}

uint64_t cr_defer_flushed_apart(void) { return me && me->trace ? me->trace->apart : 0; }

cr_status cr_defer_flush(const char *why)
{
    return me && me->trace ? cr_trace_flush(me->trace, why) : CR_OK;
}
