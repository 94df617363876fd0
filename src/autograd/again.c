/* Nodes whose gradients are differentiated again: see again.h. */
#include "autograd/again.h"
#include "tensor/tensor.h"
#include <pthread.h>
#include <stdatomic.h>

enum { RANGES = 256 };
typedef struct {
    const void *thread; /* sequences are the thread's own; NULL: it has ended */
    uint64_t owner, from, to;
    bool met;
} range;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static range watched[RANGES];   /* under the lock */
static uint64_t ranges;         /* made so far; the newest RANGES are kept; under the lock */
static _Atomic(uint64_t) found; /* ranges that were met so far */

static pthread_key_t thread_end;

/* A new thread may get the address of one that has ended, and counts its nodes from 0. */
static void forget(const void *thread, bool others)
{
    for (uint64_t i = 0; i < RANGES && i < ranges; i++)
        if ((watched[i].thread == thread) != others)
            watched[i].thread = NULL;
}

static void thread_ended(void *thread)
{
    pthread_mutex_lock(&lock);
    forget(thread, false);
    pthread_mutex_unlock(&lock);
}

/* Another thread may have had the lock. */
static void after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    forget(&cr_thread, true);
}

static void prepare(void)
{
    pthread_atfork(NULL, NULL, after_fork);
    pthread_key_create(&thread_end, thread_ended);
}

void cr_again_watch(uint64_t owner, uint64_t from, uint64_t to)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (from >= to)
        return;
    pthread_once(&once, prepare);
    if (!pthread_getspecific(thread_end))
        pthread_setspecific(thread_end, &cr_thread);
    pthread_mutex_lock(&lock);
    watched[ranges++ % RANGES] = (range){&cr_thread, owner, from, to, false};
    pthread_mutex_unlock(&lock);
}

void cr_again_ran(uint64_t sequence)
{
    pthread_mutex_lock(&lock);
    for (uint64_t i = 0; i < RANGES && i < ranges; i++) {
        range *r = &watched[i];
        if (r->thread != &cr_thread || sequence < r->from || sequence >= r->to || r->met)
            continue;
        r->met = true;
        atomic_fetch_add(&found, 1);
    }
    pthread_mutex_unlock(&lock);
}

bool cr_again_met(uint64_t owner, uint64_t *seen)
{
    uint64_t now = atomic_load_explicit(&found, memory_order_relaxed);
    bool met = false;

    if (*seen == now)
        return false;
    *seen = now;
    pthread_mutex_lock(&lock);
    for (uint64_t i = 0; i < RANGES && i < ranges; i++)
        met = met || (watched[i].met && watched[i].owner == owner);
    pthread_mutex_unlock(&lock);
    return met;
}
