/* Device memory: a caching allocator.
 *
 * Segments come from the driver, whose calls take tens of microseconds and wait for the device.
 * A segment is split into blocks.  A block belongs to the stream that requested it.  After its
 * release, work of this stream may reuse it at once, because a stream runs its work in order.
 * A block that other streams used (cr_cuda_memory_record) waits for events on these streams.
 *
 * Sizes are torch's, so the statistics are torch's: a request of up to 1 MB gets a segment of
 * 2 MB, one below 10 MB a segment of 20 MB, and a larger one a segment of a multiple of 2 MB.
 *
 * A pool has a list of free blocks for each power of two.  A request takes the smallest block
 * that fits from the first list that has one.  Lists are short.
 *
 * With PYTORCH_NO_CUDA_MEMORY_CACHING a segment has the bytes of its one block and goes back to
 * the driver with it, so that compute-sanitizer sees accesses outside of blocks. */
#include "base/memory.h"
#include "base/env.h"
#include "base/map.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "device/cuda/graph.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MEMORY_GRAIN = 512,
    MEMORY_SMALL = 1 << 20,
    MEMORY_SMALL_SEGMENT = 2 << 20,
    MEMORY_LARGE = 10 << 20,
    MEMORY_LARGE_SEGMENT = 20 << 20,
    MEMORY_ROUND = 2 << 20,
    MEMORY_LISTS = 64
};

typedef enum { MEMORY_ALL, MEMORY_SMALL_POOL, MEMORY_LARGE_POOL } memory_pool;

typedef struct memory_block memory_block;
/* A block of a segment of device memory.
 * Invariant: blocks of a segment are neighbours by before and after, without gaps. A block
 * is used, waits for events, or is in the free list of its pool. requested <= size. */
struct memory_block {
    char *at;
    size_t size, requested;
    memory_block *before, *after; /* neighbours in the segment */
    memory_block *next, *last;    /* the next and previous block of its free list */
    void *stream;
    CR_VEC(void *) users;  /* other streams whose work used it */
    CR_VEC(void *) events; /* the block is free after these */
    uint32_t number;
    cr_cuda_pool *owner; /* NULL: all work of the device */
    uint8_t device, pool;
    bool used;
    bool waits; /* released during a capture, while other streams may use it */
};

typedef memory_block *memory_lists[3][MEMORY_LISTS]; /* of free blocks, by pool */

/* Graphs' memory. */
struct cr_cuda_pool {
    memory_lists free;
    cr_cuda_pool *next;
    uint64_t first, second; /* its number */
    int device, uses, segments;
    cr_cuda_pool_rules rules;
};

typedef struct {
    memory_lists free;
    cr_cuda_memory_stats stats;
    size_t limit; /* of the bytes of segments */
    bool limited;
} memory_heap;

static memory_heap heaps[CR_CUDA_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CR_VEC(memory_block *) blocks; /* by number - 1; NULL: the number is unused */
static CR_VEC(uint32_t) spare;        /* unused numbers */
static CR_VEC(memory_block *) late;   /* released blocks that other streams may use */
static cr_cuda_pool *pools;
/* Threads whose requests come from a pool, in the order of the calls. */
typedef struct {
    cr_cuda_pool *pool;
    pthread_t thread;
} memory_route;
static CR_VEC(memory_route) routes;

static const cr_cuda_driver *memory_driver(void) { return cr_cuda_load_driver(); }

/* --- counters --- */

static void memory_count(cr_cuda_counter *row, const memory_block *b, int64_t by)
{
    cr_cuda_counter *both[2] = {&row[MEMORY_ALL], &row[b->pool]};

    for (int i = 0; i < 2; i++) {
        cr_cuda_counter *c = both[i];
        c->current += by;
        c->peak = c->current > c->peak ? c->current : c->peak;
        *(by > 0 ? &c->allocated : &c->freed) += by > 0 ? by : -by;
    }
}

/* Counts a block that is in use or has events. */
static void memory_count_active(const memory_block *b, int64_t sign)
{
    cr_cuda_memory_stats *s = &heaps[b->device].stats;

    memory_count(s->active, b, sign);
    memory_count(s->active_bytes, b, sign * (int64_t)b->size);
}

static void memory_count_used(const memory_block *b, int64_t sign)
{
    cr_cuda_memory_stats *s = &heaps[b->device].stats;

    memory_count(s->allocation, b, sign);
    memory_count(s->allocated_bytes, b, sign * (int64_t)b->size);
    memory_count(s->requested_bytes, b, sign * (int64_t)b->requested);
}

static bool memory_is_split(const memory_block *b) { return b->before || b->after; }

/* Counts a free block that is only a part of its segment. */
static void memory_count_part(const memory_block *b, int64_t sign)
{
    cr_cuda_memory_stats *s = &heaps[b->device].stats;

    if (!memory_is_split(b))
        return;
    memory_count(s->inactive_split, b, sign);
    memory_count(s->inactive_split_bytes, b, sign * (int64_t)b->size);
}

/* --- records --- */

static memory_block *memory_record(void)
{
    memory_block *b = cr_alloc_zero(sizeof *b);

    if (!b)
        return NULL;
    if (!spare.len && (cr_vec_reserve(&blocks, 1) || cr_vec_reserve(&spare, blocks.len + 1))) {
        cr_free(b);
        return NULL;
    }
    if (!spare.len) {
        cr_vec_put(&blocks, NULL);
        cr_vec_put(&spare, (uint32_t)blocks.len);
    }
    b->number = spare.at[--spare.len];
    blocks.at[b->number - 1] = b;
    return b;
}

/* memory_record() reserved the room in `spare`. */
static void memory_forget(memory_block *b)
{
    blocks.at[b->number - 1] = NULL;
    cr_vec_put(&spare, b->number);
    cr_vec_drop(&b->users);
    cr_vec_drop(&b->events);
    cr_free(b);
}

/* --- free lists --- */

static int memory_list(size_t size) { return 63 - (int)CR_CLZ64((uint64_t)size); }

static memory_block **memory_list_of(const memory_block *b)
{
    memory_lists *lists = b->owner ? &b->owner->free : &heaps[b->device].free;

    return &(*lists)[b->pool][memory_list(b->size)];
}

static void memory_list_put(memory_block *b)
{
    memory_block **list = memory_list_of(b);

    b->last = NULL;
    b->next = *list;
    if (b->next)
        b->next->last = b;
    *list = b;
    memory_count_part(b, 1);
}

static void memory_list_take(memory_block *b)
{
    memory_count_part(b, -1);
    if (b->last)
        b->last->next = b->next;
    else
        *memory_list_of(b) = b->next;
    if (b->next)
        b->next->last = b->last;
    b->next = b->last = NULL;
}

/* The smallest block of the list that fits; NULL when none does. */
static memory_block *memory_list_find(memory_block *list, size_t size, void *stream)
{
    memory_block *best = NULL;

    for (memory_block *b = list; b; b = b->next)
        if (b->stream == stream && b->size >= size && (!best || b->size < best->size))
            best = b;
    return best;
}

static memory_block *memory_find(const memory_lists *lists, memory_pool pool, size_t size,
                                 void *stream)
{
    for (int k = memory_list(size); k < MEMORY_LISTS; k++) {
        memory_block *b = memory_list_find((*lists)[pool][k], size, stream);
        if (b)
            return b;
    }
    return NULL;
}

/* --- segments --- */

static bool memory_keeps = true;

void cr_cuda_memory_start(void)
{
    memory_keeps = !*cr_env(CR_ENV_PYTORCH_NO_CUDA_MEMORY_CACHING);
}

static size_t memory_segment_bytes(size_t size)
{
    if (!memory_keeps)
        return size;
    if (size <= MEMORY_SMALL)
        return MEMORY_SMALL_SEGMENT;
    return size < MEMORY_LARGE ? MEMORY_LARGE_SEGMENT
                               : (size + MEMORY_ROUND - 1) / MEMORY_ROUND * MEMORY_ROUND;
}

/* Memory of the pool's function or of the driver, also while the thread's work is captured.
 * Zero without memory. */
static uintptr_t memory_get_bytes(int index, size_t bytes, void *stream,
                                  const cr_cuda_pool *owner)
{
    int mode = cr_cuda_relax();
    bool failed = cr_alloc_must_fail();
    uintptr_t at = 0;

    if (!failed && owner && owner->rules.get)
        at = (uintptr_t)owner->rules.get((ptrdiff_t)bytes, index, stream);
    else if (!failed)
        failed = memory_driver()->memory_get(&at, bytes);
    cr_cuda_tighten(mode);
    return failed ? 0 : at;
}

static void memory_free_bytes(const memory_block *b)
{
    const cr_cuda_pool *p = b->owner;

    if (p && p->rules.free)
        p->rules.free(b->at, (ptrdiff_t)b->size, b->device, b->stream);
    else
        memory_driver()->memory_free((uintptr_t)b->at);
}

static memory_block *memory_new_segment(int index, memory_pool pool, size_t size, void *stream,
                                        cr_cuda_pool *owner)
{
    memory_heap *h = &heaps[index];
    size_t bytes = memory_segment_bytes(size);

    if (h->limited && (size_t)h->stats.reserved_bytes[MEMORY_ALL].current + bytes > h->limit)
        return NULL;
    memory_block *b = cr_cuda_use(index) ? NULL : memory_record();
    if (!b)
        return NULL;
    uintptr_t at = memory_get_bytes(index, bytes, stream, owner);
    if (!at) {
        memory_forget(b);
        return NULL;
    }
    b->at = (char *)at;
    b->size = bytes;
    b->stream = stream;
    b->device = (uint8_t)index;
    b->pool = (uint8_t)pool;
    b->owner = owner;
    if (owner)
        owner->segments++;
    h->stats.gets++;
    memory_count(h->stats.segment, b, 1);
    memory_count(h->stats.reserved_bytes, b, (int64_t)bytes);
    memory_list_put(b);
    return b;
}

static void memory_free_segment(memory_block *b)
{
    cr_cuda_memory_stats *s = &heaps[b->device].stats;

    memory_list_take(b);
    memory_free_bytes(b);
    s->frees++;
    memory_count(s->segment, b, -1);
    memory_count(s->reserved_bytes, b, -(int64_t)b->size);
    if (b->owner)
        b->owner->segments--;
    memory_forget(b);
}

static void memory_free_lists(const memory_lists *lists)
{
    for (int pool = MEMORY_SMALL_POOL; pool <= MEMORY_LARGE_POOL; pool++)
        for (int k = 0; k < MEMORY_LISTS; k++)
            for (memory_block *b = (*lists)[pool][k], *next; b; b = next) {
                next = b->next;
                if (!memory_is_split(b))
                    memory_free_segment(b);
            }
}

/* Frees the segments that are one free block and belong to no graph.  The driver waits for the
 * device, so it does not during a capture. */
static void memory_free_segments(int index)
{
    if (cr_cuda_captures() || cr_cuda_use(index))
        return;
    memory_free_lists(&heaps[index].free);
    for (cr_cuda_pool **at = &pools, *p; (p = *at);) {
        if (!p->uses && p->device == index)
            memory_free_lists(&p->free);
        if (p->uses || p->segments) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        cr_free(p);
    }
}

cr_cuda_pool *cr_cuda_pool_use(int index, uint64_t first, uint64_t second)
{
    pthread_mutex_lock(&lock);
    cr_cuda_pool *p = pools;
    while (p && (p->device != index || p->first != first || p->second != second))
        p = p->next;
    if (!p && (p = cr_alloc_zero(sizeof *p))) {
        p->device = index;
        p->first = first;
        p->second = second;
        p->next = pools;
        pools = p;
    }
    if (p)
        p->uses++;
    pthread_mutex_unlock(&lock);
    return p;
}

void cr_cuda_pool_leave(cr_cuda_pool *p)
{
    pthread_mutex_lock(&lock);
    p->uses--;
    pthread_mutex_unlock(&lock);
}

/* --- pools of programs --- */

cr_cuda_pool *cr_cuda_pool_make(int index, const cr_cuda_pool_rules *rules)
{
    cr_cuda_pool_number n = cr_cuda_pool_new();
    cr_cuda_pool *p = cr_cuda_pool_use(index, n.first, n.second);

    if (p) {
        pthread_mutex_lock(&lock);
        p->rules = *rules;
        pthread_mutex_unlock(&lock);
    }
    return p;
}

void cr_cuda_pool_drop(cr_cuda_pool *p)
{
    pthread_mutex_lock(&lock);
    if (!--p->uses && !cr_cuda_captures() && !cr_cuda_use(p->device))
        memory_free_lists(&p->free);
    pthread_mutex_unlock(&lock);
}

cr_cuda_pool_number cr_cuda_pool_number_of(const cr_cuda_pool *p)
{
    return (cr_cuda_pool_number){p->first, p->second};
}

int cr_cuda_pool_uses(const cr_cuda_pool *p)
{
    pthread_mutex_lock(&lock);
    int uses = p->uses;
    pthread_mutex_unlock(&lock);
    return uses;
}

/* The position of the route to a pool, or that of the calling thread on a device if `number` is
 * NULL; -1 without one. */
static int64_t memory_route_at(int index, const cr_cuda_pool_number *number)
{
    for (size_t i = 0; i < routes.len; i++) {
        const cr_cuda_pool *p = routes.at[i].pool;
        bool is = number ? p->first == number->first && p->second == number->second
                         : pthread_equal(routes.at[i].thread, pthread_self());
        if (is && p->device == index)
            return (int64_t)i;
    }
    return -1;
}

const char *cr_cuda_pool_begin(int index, cr_cuda_pool_number number)
{
    memory_route r = {cr_cuda_pool_use(index, number.first, number.second), pthread_self()};
    const char *error = NULL;

    if (!r.pool)
        return cr_error_message();
    pthread_mutex_lock(&lock);
    if (memory_route_at(index, &number) >= 0)
        error = "beginAllocateToPool: already recording to mempool_id";
    else if (cr_vec_reserve(&routes, 1))
        error = cr_error_message();
    else
        cr_vec_put(&routes, r);
    pthread_mutex_unlock(&lock);
    if (error)
        cr_cuda_pool_leave(r.pool);
    return error;
}

void cr_cuda_pool_end(int index, cr_cuda_pool_number number)
{
    pthread_mutex_lock(&lock);
    int64_t at = memory_route_at(index, &number);
    cr_cuda_pool *pool = at < 0 ? NULL : routes.at[at].pool;
    for (size_t i = (size_t)at + 1; pool && i < routes.len; i++)
        routes.at[i - 1] = routes.at[i];
    routes.len -= pool != NULL;
    pthread_mutex_unlock(&lock);
    if (pool)
        cr_cuda_pool_leave(pool);
}

/* The pool of requests of the calling thread; NULL: all work of the device. */
static cr_cuda_pool *memory_pool_of(int index, void *stream)
{
    cr_cuda_pool *pool = cr_cuda_pool_of(index, stream);
    int64_t at = pool || !routes.len ? -1 : memory_route_at(index, NULL);

    return at < 0 ? pool : routes.at[at].pool;
}

/* --- blocks --- */

/* Takes the first `size` bytes of a free block; the rest stays free. */
static void memory_split(memory_block *b, size_t size)
{
    size_t least = b->pool == MEMORY_SMALL_POOL ? MEMORY_GRAIN : MEMORY_SMALL + 1;
    bool whole = b->owner && b->owner->rules.whole;
    memory_block *rest = !whole && b->size - size >= least ? memory_record() : NULL;

    if (!rest)
        return;
    rest->at = b->at + size;
    rest->size = b->size - size;
    rest->stream = b->stream;
    rest->device = b->device;
    rest->owner = b->owner;
    rest->pool = b->pool;
    rest->before = b;
    rest->after = b->after;
    if (rest->after)
        rest->after->before = rest;
    b->after = rest;
    b->size = size;
    memory_list_put(rest);
}

/* Joins `b` with the free neighbour after it. */
static void memory_join(memory_block *b, memory_block *after)
{
    b->size += after->size;
    b->after = after->after;
    if (b->after)
        b->after->before = b;
    memory_forget(after);
}

static bool memory_is_free(const memory_block *b)
{
    return b && !b->used && !b->waits && !b->events.len;
}

/* Joins a block that is no longer used with its free neighbours, and lists the result. */
static void memory_put(memory_block *b)
{
    memory_block *before = b->before, *after = b->after;

    memory_count_active(b, -1);
    if (memory_is_free(after)) {
        memory_list_take(after);
        memory_join(b, after);
    }
    if (memory_is_free(before)) {
        memory_list_take(before);
        memory_join(before, b);
        b = before;
    }
    memory_list_put(b);
}

/* --- use by several streams --- */

/* Drops the events that have happened; `all` waits for each. */
static void memory_wait(memory_block *b, bool all)
{
    const cr_cuda_driver *d = memory_driver();

    while (b->events.len) {
        void *event = b->events.at[b->events.len - 1];
        if (all)
            d->event_wait(event);
        else if (d->event_query(event) == CR_CUDA_NOT_READY)
            return;
        d->event_drop(event);
        b->events.len--;
    }
}

/* An event on the stream; NULL when the driver makes none. */
static void *memory_event(const cr_cuda_driver *d, void *stream)
{
    void *event;

    if (d->event_new(&event, CR_CUDA_EVENT_NO_TIME))
        return NULL;
    if (!d->event_record(event, stream))
        return event;
    d->event_drop(event);
    return NULL;
}

/* Records an event on each other stream that used the block. */
static void memory_record_events(memory_block *b)
{
    const cr_cuda_driver *d = memory_driver();
    bool room = !cr_vec_reserve(&b->events, b->users.len);

    for (size_t i = 0; i < b->users.len; i++) {
        void *event = room ? memory_event(d, b->users.at[i]) : NULL;
        if (event)
            cr_vec_put(&b->events, event);
        else
            d->stream_wait(b->users.at[i]);
    }
    b->users.len = 0;
}

/* Makes a released block wait for other streams that used it.  False when it is free.  An event
 * that is recorded during a capture would be a part of it, so events are recorded later. */
static bool memory_delay(memory_block *b)
{
    if (!b->users.len)
        return false;
    bool room = !cr_vec_reserve(&late, 1);
    b->waits = room && cr_cuda_captures();
    if (!b->waits)
        memory_record_events(b);
    if (!room)
        memory_wait(b, true);
    else if (b->waits || b->events.len)
        cr_vec_put(&late, b);
    return b->waits || b->events.len;
}

/* Frees blocks whose events have happened; `all` waits for them. */
static void memory_collect(bool all)
{
    size_t n = 0;

    if (cr_cuda_captures())
        return;
    for (size_t i = 0; i < late.len; i++) {
        memory_block *b = late.at[i];
        if (!cr_cuda_use(b->device)) {
            if (b->waits)
                memory_record_events(b);
            b->waits = false;
            memory_wait(b, all);
        }
        if (b->events.len)
            late.at[n++] = b;
        else
            memory_put(b);
    }
    late.len = n;
}

const char *cr_cuda_memory_record(uint32_t number, void *stream)
{
    const char *error = NULL;

    pthread_mutex_lock(&lock);
    memory_block *b = number && number <= blocks.len ? blocks.at[number - 1] : NULL;
    if (b && b->stream != stream) {
        bool known = false;
        for (size_t i = 0; i < b->users.len; i++)
            known = known || b->users.at[i] == stream;
        if (!known && cr_vec_reserve(&b->users, 1))
            error = "CUDA: no host memory";
        else if (!known)
            cr_vec_put(&b->users, stream);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

/* --- page-locked host memory --- */

/* Before the bytes of a block.  Copies from and to the block have ended when it is released,
 * because a copy waits (cuda.c). */
typedef struct pinned_block {
    struct pinned_block *next;
    int list;
} pinned_block;

enum { PINNED_HEAD = 64, PINNED_LEAST = 12 };

static pinned_block *pinned_free[MEMORY_LISTS]; /* blocks of 2^k bytes, the head included */

void *cr_cuda_pinned_get(int index, size_t size)
{
    int k = PINNED_LEAST;
    void *p = NULL;

    while (k < MEMORY_LISTS - 1 && ((size_t)1 << k) - PINNED_HEAD < size)
        k++;
    if (cr_cuda_use(index))
        return NULL;
    pthread_mutex_lock(&lock);
    pinned_block *b = pinned_free[k];
    if (b)
        pinned_free[k] = b->next;
    pthread_mutex_unlock(&lock);
    int mode = b ? 0 : cr_cuda_relax();
    bool failed = !b && (cr_alloc_must_fail() ||
                         memory_driver()->host_get(&p, (size_t)1 << k, CR_CUDA_HOST_PORTABLE));
    if (!b)
        cr_cuda_tighten(mode);
    if (failed)
        return NULL;
    b = b ? b : p;
    b->list = k;
    return (char *)b + PINNED_HEAD;
}

void cr_cuda_pinned_release(void *p)
{
    pinned_block *b = (pinned_block *)(void *)((char *)p - PINNED_HEAD);

    pthread_mutex_lock(&lock);
    b->next = pinned_free[b->list];
    pinned_free[b->list] = b;
    pthread_mutex_unlock(&lock);
}

/* --- the functions of the table --- */

/* A free block of a pool that serves requests which would fail. */
static memory_block *memory_find_elsewhere(int index, memory_pool pool, size_t size,
                                           void *stream)
{
    memory_block *b = NULL;

    for (const cr_cuda_pool *p = pools; p && !b; p = p->next)
        if (p->device == index && p->uses && p->rules.on_shortage)
            b = memory_find(&p->free, pool, size, stream);
    return b;
}

static memory_block *memory_take(int index, size_t size, void *stream)
{
    memory_heap *h = &heaps[index];
    memory_pool pool = size <= MEMORY_SMALL ? MEMORY_SMALL_POOL : MEMORY_LARGE_POOL;

    cr_cuda_pool *owner = memory_pool_of(index, stream);

    memory_collect(false);
    memory_block *b = memory_find(owner ? &owner->free : &h->free, pool, size, stream);
    if (!b)
        b = memory_new_segment(index, pool, size, stream, owner);
    if (!b) {
        h->stats.retries++;
        memory_collect(true);
        memory_free_segments(index);
        b = memory_new_segment(index, pool, size, stream, owner);
    }
    if (!b && !owner)
        b = memory_find_elsewhere(index, pool, size, stream);
    if (!b) {
        h->stats.shortages++;
        return NULL;
    }
    memory_list_take(b);
    memory_split(b, size);
    return b;
}

void *cr_cuda_memory_get(int index, size_t size, uint32_t *block)
{
    size_t grain = memory_keeps ? MEMORY_GRAIN : 1;
    size_t rounded = (size + grain - 1) / grain * grain;

    if (rounded < size || cr_cuda_use(index))
        return NULL;
    pthread_mutex_lock(&lock);
    memory_block *b = memory_take(index, rounded ? rounded : grain, cr_cuda_stream(index));
    if (b) {
        b->used = true;
        b->requested = size;
        memory_count_used(b, 1);
        memory_count_active(b, 1);
        *block = b->number;
    }
    pthread_mutex_unlock(&lock);
    return b ? b->at : NULL;
}

void cr_cuda_memory_release(int index, void *p, uint32_t number)
{
    (void)p;
    if (cr_cuda_use(index))
        return; /* the memory belongs to the parent process */
    pthread_mutex_lock(&lock);
    memory_block *b = blocks.at[number - 1];
    memory_count_used(b, -1);
    b->used = false;
    if (!memory_delay(b))
        memory_put(b);
    if (!memory_keeps)
        memory_free_segments(index);
    pthread_mutex_unlock(&lock);
}

const char *cr_cuda_memory_trim(void)
{
    pthread_mutex_lock(&lock);
    memory_collect(true);
    for (int i = 0; i < CR_CUDA_DEVICES; i++)
        if (heaps[i].stats.segment[MEMORY_ALL].current)
            memory_free_segments(i);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* --- reports --- */

const char *cr_cuda_memory_info(int index, size_t *free_bytes, size_t *total)
{
    const char *error = cr_cuda_use(index);

    return error ? error : cr_cuda_check(memory_driver()->memory_info(free_bytes, total));
}

const char *cr_cuda_memory_limit(int index, double part)
{
    size_t unused, total = 0;
    const char *error = cr_cuda_memory_info(index, &unused, &total);

    if (error)
        return error;
    pthread_mutex_lock(&lock);
    heaps[index].limit = (size_t)((double)total * part);
    heaps[index].limited = part < 1;
    pthread_mutex_unlock(&lock);
    return NULL;
}

void cr_cuda_memory_statistics(cr_cuda_memory_stats *out, int index)
{
    pthread_mutex_lock(&lock);
    *out = heaps[index].stats;
    pthread_mutex_unlock(&lock);
}

static int memory_compare(const void *a, const void *b)
{
    const memory_block *const *x = a, *const *y = b;

    return ((*x)->at > (*y)->at) - ((*x)->at < (*y)->at);
}

static cr_cuda_block_facts memory_facts(const memory_block *b)
{
    bool waits = !b->used && (b->waits || b->events.len);

    return (cr_cuda_block_facts){
        .at = (uintptr_t)b->at,
        .size = b->size,
        .requested = b->used ? b->requested : 0,
        .stream = b->stream,
        .pool = {b->owner ? b->owner->first : 0, b->owner ? b->owner->second : 0},
        .device = b->device,
        .state = b->used ? CR_CUDA_BLOCK_USED
                 : waits ? CR_CUDA_BLOCK_WAITS
                         : CR_CUDA_BLOCK_FREE,
        .begins = !b->before,
        .large = b->pool == MEMORY_LARGE_POOL};
}

/* `of` has room for all blocks: they are sorted there. */
static size_t memory_list_facts(cr_cuda_block_facts *facts, memory_block **of)
{
    size_t n = 0;

    for (size_t i = 0; i < blocks.len; i++)
        if (blocks.at[i])
            of[n++] = blocks.at[i];
    qsort(of, n, sizeof *of, memory_compare);
    for (size_t i = 0; i < n; i++)
        facts[i] = memory_facts(of[i]);
    return n;
}

cr_status cr_cuda_memory_blocks(cr_cuda_block_facts **out, size_t *count)
{
    pthread_mutex_lock(&lock);
    memory_collect(false);
    cr_cuda_block_facts *facts = cr_alloc((blocks.len + 1) * sizeof *facts);
    memory_block **of = cr_alloc((blocks.len + 1) * sizeof *of);
    bool works = facts && of;
    if (works) {
        *count = memory_list_facts(facts, of);
        *out = facts;
    } else {
        cr_free(facts);
    }
    cr_free(of);
    pthread_mutex_unlock(&lock);
    return works ? CR_OK : CR_MEMORY;
}

static void memory_reset_row(cr_cuda_counter *row, bool peaks)
{
    for (int pool = 0; pool < 3; pool++)
        if (peaks)
            row[pool].peak = row[pool].current;
        else
            row[pool].allocated = row[pool].freed = 0;
}

void cr_cuda_memory_reset(int index, bool peaks)
{
    pthread_mutex_lock(&lock);
    cr_cuda_memory_stats *s = &heaps[index].stats;
#define CR_CUDA_COUNTER(name) memory_reset_row(s->name, peaks);
    CR_CUDA_COUNTERS(CR_CUDA_COUNTER)
#undef CR_CUDA_COUNTER
    if (!peaks)
        s->retries = s->shortages = 0;
    pthread_mutex_unlock(&lock);
}

/* --- the error of a request that fails --- */

static void memory_print_size(char *out, size_t room, size_t n)
{
    if (n <= 1024)
        snprintf(out, room, "%zu bytes", n);
    else if (n <= 1 << 20)
        snprintf(out, room, "%.2f KiB", (double)n / 1024);
    else if (n <= 1 << 30)
        snprintf(out, room, "%.2f MiB", (double)n / (1 << 20));
    else
        snprintf(out, room, "%.2f GiB", (double)n / (1 << 30));
}

void cr_cuda_describe_shortage(char *out, size_t room, int index, size_t size)
{
    char text[6][32];
    size_t free_bytes = 0, total = 0, limit;
    bool limited;
    cr_cuda_memory_stats s;

    cr_cuda_memory_statistics(&s, index);
    if (cr_cuda_memory_info(index, &free_bytes, &total))
        free_bytes = total = 0;
    pthread_mutex_lock(&lock);
    limit = heaps[index].limit;
    limited = heaps[index].limited;
    pthread_mutex_unlock(&lock);
    size_t allocated = (size_t)s.allocated_bytes[0].current,
           reserved = (size_t)s.reserved_bytes[0].current;
    size_t sizes[6] = {
        size, total, free_bytes, total - free_bytes, allocated, reserved - allocated};
    for (int i = 0; i < 6; i++)
        memory_print_size(text[i], sizeof text[i], sizes[i]);
    char allowed[64] = "";
    if (limited) {
        memory_print_size(allowed, sizeof allowed, limit);
        snprintf(allowed + strlen(allowed), sizeof allowed - strlen(allowed), " allowed; ");
    }
    snprintf(out, room,
             "CUDA out of memory. Tried to allocate %s. GPU %d has a total capacity of %s of "
             "which %s is free. %sIncluding non-PyTorch memory, this process has %s memory in "
             "use. Of the allocated memory %s is allocated by PyTorch, and %s is reserved by "
             "PyTorch but unallocated. If reserved but unallocated memory is large try setting "
             "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
             "documentation for Memory Management  "
             "(https://docs.pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
             text[0], index, text[1], text[2], allowed, text[3], text[4], text[5]);
}
