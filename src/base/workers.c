/* Workers.
 *
 * A region is published in a slot.  A thread takes a part by setting the part's flag, so a
 * worker that the system wakes late, or not at all while other programs run, delays nothing:
 * the caller has taken its part by then.  Thread i tries part i first, because the data of the
 * last region's part may still be in its cache.
 *
 * The region is on its caller's stack.  A worker counts itself in the slot before it reads the
 * slot's pointer; the caller clears the pointer and then waits until the count is zero.
 * Invariant: a worker that has read the pointer is counted until it has left the region.
 *
 * Threads that wait spin for a moment, since the next region often comes at once, and then
 * sleep on a futex.  libgomp's threads spin for milliseconds, in which the processor is lost to
 * the thread that they wait for when programs share processors. */
#include "base/workers.h"
#include "base/clock.h"
#include "base/thread.h"
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
    cr_range_fn fn;
    void *context;
    int64_t n;
    int parts;
    atomic_uchar taken[CR_MOST_PARTS];
} region;

/* `left` counts parts that no thread has taken, `inside` workers that may read the region.  The
 * flag is set in `inside` while the caller sleeps. */
#define WORKERS_CALLER_SLEEPS 0x80000000u
typedef struct {
    _Alignas(64) _Atomic(region *) now;
    atomic_int left;
    atomic_uint inside;
} slot;

enum { SLOTS = 32 };
static slot slots[SLOTS];
static atomic_uint used_slots; /* a bit for each */

static _Alignas(64) atomic_uint posted; /* changes with every region */
static atomic_int started, spinning, sleeping;
static atomic_int foreign; /* calls of libraries with threads of their own */
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static CR_THREAD_COLD bool inside;

bool cr_workers_inside(void) { return inside; }

/* --- waiting --- */

/* Longer spins cost more beside other programs than they save: two training programs on two
 * processors took 1.63 times the time of one with 50 microseconds, 1.83 times with 200. */
static const int64_t spin_nanoseconds = 50000;

static void workers_futex(atomic_uint *word, int operation, unsigned value)
{
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Spins until *word differs from `value`.  False when it did not within the time, or when the
 * threads of a library need the processors. */
static bool changes_soon(const atomic_uint *word, unsigned value, int64_t nanoseconds)
{
    int64_t end = cr_nanoseconds() + nanoseconds;

    do {
        if (atomic_load(&foreign))
            return atomic_load(word) != value;
        for (int i = 0; i < 16; i++) {
            if (atomic_load(word) != value)
                return true;
            CR_RELAX();
        }
    } while (cr_nanoseconds() < end);
    return false;
}

void cr_workers_yield(void) { atomic_fetch_add(&foreign, 1); }
void cr_workers_resume(void) { atomic_fetch_sub(&foreign, 1); }

/* --- a region's parts --- */

static bool region_take(region *r, int p)
{
    return !atomic_load_explicit(&r->taken[p], memory_order_relaxed) &&
           !atomic_exchange_explicit(&r->taken[p], 1, memory_order_relaxed);
}

/* Returns the number of parts that the calling thread computed. */
static int region_compute(region *r, slot *s, int first)
{
    int computed = 0;

    inside = true;
    for (int k = 0; k < r->parts; k++) {
        int p = (first + k) % r->parts;

        if (region_take(r, p)) {
            atomic_fetch_sub(&s->left, 1);
            r->fn(r->context, r->n * p / r->parts, r->n * (p + 1) / r->parts);
            computed++;
        }
    }
    inside = false;
    return computed;
}

/* NULL when all slots are in use. */
static slot *slot_take(void)
{
    unsigned used = atomic_load(&used_slots);

    while (~used) {
        unsigned bit = ~used & -~used;

        if (atomic_compare_exchange_weak(&used_slots, &used, used | bit))
            return &slots[CR_CTZ(bit)];
    }
    return NULL;
}

/* Waits until no worker is inside and frees the slot. */
static void slot_leave(slot *s)
{
    unsigned count;

    atomic_store(&s->now, NULL);
    while ((count = atomic_load(&s->inside))) {
        if (changes_soon(&s->inside, count, spin_nanoseconds))
            continue;
        if (atomic_compare_exchange_strong(&s->inside, &count, count | WORKERS_CALLER_SLEEPS)) {
            while ((count = atomic_load(&s->inside)) != WORKERS_CALLER_SLEEPS)
                workers_futex(&s->inside, FUTEX_WAIT, count);
            atomic_fetch_and(&s->inside, ~WORKERS_CALLER_SLEEPS);
        }
    }
    atomic_fetch_and(&used_slots, ~(1u << (s - slots)));
}

/* --- workers --- */

/* Returns the number of parts that the worker computed. */
static int slot_help(slot *s, int id)
{
    int computed = 0;
    region *r;

    if (atomic_load(&s->left) <= 0)
        return 0;
    atomic_fetch_add(&s->inside, 1);
    r = atomic_load(&s->now);
    if (r)
        computed = region_compute(r, s, id % r->parts);
    if (atomic_fetch_sub(&s->inside, 1) == (WORKERS_CALLER_SLEEPS | 1))
        workers_futex(&s->inside, FUTEX_WAKE, 1);
    return computed;
}

static bool worker_spins(unsigned seen, int64_t nanoseconds)
{
    bool changed;

    atomic_fetch_add(&spinning, 1);
    changed = changes_soon(&posted, seen, nanoseconds);
    atomic_fetch_sub(&spinning, 1);
    return changed;
}

/* A worker that comes too late for a part, because regions are small or workers many, spins
 * half as long the next time; one that computes a part spins as long as at first. */
static void *worker_run(void *id)
{
    for (int64_t spin = spin_nanoseconds;;) {
        unsigned seen = atomic_load(&posted);
        int computed = 0;

        for (unsigned used = atomic_load(&used_slots); used; used &= used - 1)
            computed += slot_help(&slots[CR_CTZ(used)], (int)(intptr_t)id);
        spin = computed ? spin_nanoseconds : spin / 2;
        if (worker_spins(seen, spin))
            continue;
        atomic_fetch_add(&sleeping, 1);
        workers_futex(&posted, FUTEX_WAIT, seen);
        atomic_fetch_sub(&sleeping, 1);
    }
    return NULL;
}

static void workers_after_fork(void)
{
    atomic_store(&started, 0);
    atomic_store(&spinning, 0);
    atomic_store(&sleeping, 0);
    atomic_store(&foreign, 0);
    atomic_store(&used_slots, 0);
    memset(slots, 0, sizeof slots);
    pthread_mutex_init(&starting, NULL);
}

static void workers_install(void) { pthread_atfork(NULL, NULL, workers_after_fork); }

/* Starts workers until there are n, or as many as the system allows. */
static void workers_start(int n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (CR_LIKELY(atomic_load(&started) >= n))
        return;
    pthread_once(&once, workers_install);
    pthread_mutex_lock(&starting);
    while (atomic_load(&started) < n &&
           !cr_thread_start(NULL, worker_run, (void *)(intptr_t)(atomic_load(&started) + 1)))
        atomic_fetch_add(&started, 1);
    pthread_mutex_unlock(&starting);
}

static void workers_wake(int n)
{
    atomic_fetch_add(&posted, 1);
    n -= atomic_load(&spinning);
    if (n > 0 && atomic_load(&sleeping))
        workers_futex(&posted, FUTEX_WAKE, (unsigned)n);
}

static void region_run(region *r, slot *s)
{
    memset(r->taken, 0, (size_t)r->parts);
    workers_start(r->parts - 1);
    atomic_store(&s->left, r->parts);
    atomic_store(&s->now, r);
    workers_wake(r->parts - 1);
    region_compute(r, s, 0);
    slot_leave(s);
}

void cr_workers_run(int64_t n, int parts, cr_range_fn fn, void *context)
{
    slot *s = slot_take();
    region r;

    CR_ASSERT(parts > 1 && parts <= CR_MOST_PARTS);
    r.fn = fn;
    r.context = context;
    r.n = n;
    r.parts = parts;
    if (s)
        region_run(&r, s);
    else
        fn(context, 0, n);
}
