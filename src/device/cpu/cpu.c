/* Caching allocator for host memory.
 *
 * Class c <= 16 has blocks of 64 c bytes.  Above, each power of two has four classes, so at
 * most a fifth of a block is unused.  Each thread keeps lists of released blocks of up to 64
 * KB, without locks; a new thread takes the lists of one that ended, of which at most 32 are
 * kept.  Blocks that do not fit these lists, and larger blocks, go to a shared cache: a list
 * for each class, and one queue of all blocks in the order of release.  Before a block is
 * allocated from the system, the oldest cached blocks, then lists of ended threads are freed
 * until used and cached bytes together are within the limit: 9/8 of the peak of used bytes
 * since the last trim, and at least 256 MB.  So a program that repeats itself finds most of its
 * blocks again, and a program of many sizes needs little more than it uses.  A thread may set a
 * mode (cr_memory_mode) in which larger blocks are reused.
 *
 * The links of a free block are in its first bytes. */
#include "device/cpu/cpu.h"
#include "base/memory.h"
#include "device/facts.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ALIGNMENT = 64,
    SMALL_CLASSES = 16,    /* multiples of 64 up to 1 KB */
    THREAD_CLASSES = 41,   /* classes below: up to 64 KB */
    CLASSES = 17 + 4 * 37, /* up to 2^47 bytes */
    CLASS = 0xffff,        /* mask of the class of a block; above: classes beyond the request */
    LARGER_BY = 16
};
static const size_t huge_page = (size_t)2 << 20;
/* Blocks of at least this size are separate mappings, so that freeing one returns its memory to
 * the system. */
#ifdef CR_SANITIZE
static const size_t least_mapped = (size_t)2 << 20;
#else
static const size_t least_mapped = (size_t)128 << 10;
#endif
/* A process may have 65,530 mappings.  After this many mapped blocks smaller than a huge page,
 * further ones come from aligned_alloc and start PLACE bytes into a page, which tells
 * system_release that they are not mappings. */
#if defined(CR_MEAN) || defined(__SANITIZE_THREAD__) /* which maps more for each mapping */
enum { MOST_MAPPED = 8 };
#else
enum { MOST_MAPPED = 1 << 14 };
#endif
enum { PAGE = 4096, PLACE = 64 };
enum { MOST_RETIRED = 32 }; /* lists of ended threads that are kept */
static _Atomic int mapped;

#ifdef CR_SANITIZE
#include <sanitizer/asan_interface.h>
enum { MOST_CACHED = 0 };
#else
enum { MOST_CACHED = 1 };
#endif

#if defined(CR_MEAN) || defined(CR_SANITIZE)
static const size_t thread_list_bytes = 1;
#else
static const size_t thread_list_bytes = 65536, least_limit = (size_t)256 << 20;
#endif

typedef struct block {
    struct block *next; /* of the same class */
    struct block *before;
    struct block *younger, *older; /* of any class */
    uint32_t size_class;
} block;

/* --- classes --- */

static inline uint32_t class_of_size(size_t size)
{
    if (CR_LIKELY(size <= 1024))
        return size ? (uint32_t)(size + 63) >> 6 : 1;
    size_t n = size - 1;
    unsigned k = 63 - CR_CLZ64(n);
    return 17 + 4 * (k - 10) + (uint32_t)(n >> (k - 2) & 3);
}

uint32_t cr_cpu_class_of(size_t size) { return class_of_size(size); }

size_t cr_cpu_class_bytes(uint32_t size_class)
{
    size_class &= CLASS;
    if (size_class <= SMALL_CLASSES)
        return (size_t)size_class * 64;
    uint32_t c = size_class - 17;
    return (size_t)(5 + c % 4) << (c / 4 + 8);
}

/* --- a thread's lists --- */

typedef struct {
    void *first[THREAD_CLASSES];
    int16_t room[THREAD_CLASSES]; /* blocks that the list may still take */
    int64_t used;                 /* bytes not yet counted in `used_bytes` */
    bool ready;
} thread_lists;

static CR_THREAD thread_lists mine;
static CR_THREAD cr_memory_mode mode;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;
static _Atomic int64_t used_bytes, peak_bytes,
    most_bytes; /* peak since the last reset; peak since the last trim */

/* The lists of a thread that ended.  The next thread takes them as they are: blocks of threads
 * that run at once then stay apart.  Neighbours in memory would be written in turn by two
 * processors, which fetch lines in pairs. */
typedef struct retired {
    struct retired *next;
    thread_lists lists;
    size_t bytes;
} retired;

static struct {
    block *first[CLASSES];
    block *youngest, *oldest;
    size_t bytes, count;
    size_t unused; /* bytes by which blocks in use exceed their requests */
    retired *retired;
    size_t retired_bytes;
    int retired_count;
} cache;

static void raise_to(_Atomic int64_t *most, int64_t now)
{
    int64_t was = atomic_load_explicit(most, memory_order_relaxed);

    while (now > was && !atomic_compare_exchange_weak(most, &was, now))
        ;
}

static void count_used(int64_t bytes)
{
    int64_t now = atomic_fetch_add_explicit(&used_bytes, bytes, memory_order_relaxed) + bytes;

    raise_to(&most_bytes, now);
    raise_to(&peak_bytes, now);
}

/* Bytes of small blocks are counted in the thread and added to the total in steps of 64 KB. */
static inline void count_small(int64_t bytes)
{
    mine.used += bytes;
    if (CR_UNLIKELY(mine.used > 1 << 16 || mine.used < -(1 << 16))) {
        count_used(mine.used);
        mine.used = 0;
    }
}

/* --- the system --- */

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static void *map_huge(size_t bytes)
{
    char *p = map(bytes + huge_page);

    if (!p)
        return NULL;
    size_t front = (huge_page - (uintptr_t)p % huge_page) % huge_page;
    if (front)
        munmap(p, front);
    if (huge_page - front)
        munmap(p + front + bytes, huge_page - front);
    madvise(p + front, bytes, MADV_HUGEPAGE);
    return p + front;
}

static void *system_get(uint32_t size_class)
{
    size_t bytes = cr_cpu_class_bytes(size_class);
    char *p;

    if (bytes >= huge_page)
        return map_huge(bytes);
    if (bytes < least_mapped)
        return aligned_alloc(ALIGNMENT, bytes);
    if (atomic_fetch_add(&mapped, 1) < MOST_MAPPED && (p = map(bytes)))
        return p;
    atomic_fetch_sub(&mapped, 1);
    p = aligned_alloc(PAGE, bytes + PAGE);
    return p ? p + PLACE : NULL;
}

static void system_release(void *p, uint32_t size_class)
{
    size_t bytes = cr_cpu_class_bytes(size_class);

    if (bytes < least_mapped) {
        free(p);
    } else if (bytes < huge_page && (uintptr_t)p % PAGE) {
        free((char *)p - PLACE);
    } else {
        munmap(p, bytes);
        if (bytes < huge_page)
            atomic_fetch_sub(&mapped, 1);
    }
}

/* --- the shared cache; `lock` is held --- */

static void cache_put(void *p, uint32_t size_class)
{
    block *b = p;

    *b = (block){
        .next = cache.first[size_class], .older = cache.youngest, .size_class = size_class};
    if (b->next)
        b->next->before = b;
    if (b->older)
        b->older->younger = b;
    cache.first[size_class] = cache.youngest = b;
    if (!cache.oldest)
        cache.oldest = b;
    cache.bytes += cr_cpu_class_bytes(size_class);
    cache.count++;
}

static void cache_remove(block *b)
{
    *(b->before ? &b->before->next : &cache.first[b->size_class]) = b->next;
    if (b->next)
        b->next->before = b->before;
    *(b->younger ? &b->younger->older : &cache.youngest) = b->older;
    *(b->older ? &b->older->younger : &cache.oldest) = b->younger;
    cache.bytes -= cr_cpu_class_bytes(b->size_class);
    cache.count--;
}

/* True when the oldest block must be freed before `more` bytes come from the system. */
static bool cache_is_full(size_t more)
{
#if defined(CR_MEAN) || defined(CR_SANITIZE)
    (void)more;
    return cache.count > MOST_CACHED;
#else
    size_t used =
        (size_t)atomic_load_explicit(&used_bytes, memory_order_relaxed) + cache.unused + more;
    size_t limit = (size_t)atomic_load_explicit(&most_bytes, memory_order_relaxed);
    limit = limit > used ? limit : used;
    limit += limit / 8;
    size_t cached = cache.bytes + cache.retired_bytes;
    return used + cached > (limit > least_limit ? limit : least_limit);
#endif
}

static void lists_trim(thread_lists *l)
{
    for (uint32_t c = 0; c < THREAD_CLASSES; c++)
        while (l->first[c]) {
            void *p = l->first[c];
            l->first[c] = *(void **)p;
            l->room[c]++;
            system_release(p, c);
        }
}

/* Takes the lists of the thread that ended last; NULL: there are none.  `lock` is held. */
static retired *retired_take(void)
{
    retired *r = cache.retired;

    if (r) {
        cache.retired = r->next;
        cache.retired_bytes -= r->bytes;
        cache.retired_count--;
    }
    return r;
}

/* Frees cached blocks: all, or until `more` bytes may come from the system.  `lock` is held. */
static void cache_trim(bool all, size_t more)
{
    while ((cache.oldest || cache.retired) && (all || cache_is_full(more))) {
        block *b = cache.oldest;
        retired *r = b ? NULL : retired_take();
        if (b) {
            cache_remove(b);
            system_release(b, b->size_class);
        } else {
            lists_trim(&r->lists);
            free(r);
        }
    }
}

/* A cached block of the class, or of one that is at most `larger` classes larger. */
static block *cache_find(uint32_t size_class, uint32_t larger)
{
    block *b = cache.first[size_class];

    for (uint32_t c = size_class + 1; !b && c < CLASSES && c <= size_class + larger; c++)
        b = cache.first[c];
    return b;
}

/* A cached block for a request of *size_class, or NULL.  Sets *size_class to the block's
 * class. */
static void *shared_get(uint32_t *size_class, uint32_t larger)
{
    uint32_t asked = *size_class;

    pthread_mutex_lock(&lock);
    block *b = cache_find(asked, larger);
    if (b) {
        *size_class = b->size_class;
        cache.unused += cr_cpu_class_bytes(*size_class) - cr_cpu_class_bytes(asked);
        cache_remove(b);
    } else {
        cache_trim(false, cr_cpu_class_bytes(asked));
    }
    pthread_mutex_unlock(&lock);
    return b;
}

static void shared_release(void *p, uint32_t size_class, uint32_t asked)
{
    pthread_mutex_lock(&lock);
    cache.unused -= cr_cpu_class_bytes(size_class) - cr_cpu_class_bytes(asked);
    cache_put(p, size_class);
#if defined(CR_MEAN) || defined(CR_SANITIZE)
    cache_trim(false, 0);
#endif
    pthread_mutex_unlock(&lock);
}

void cr_cpu_memory_trim(void)
{
    lists_trim(&mine);
    pthread_mutex_lock(&lock);
    cache_trim(true, 0);
    atomic_store(&most_bytes, atomic_load(&used_bytes));
    pthread_mutex_unlock(&lock);
}

cr_memory_mode cr_cpu_memory_set_mode(cr_memory_mode to)
{
    cr_memory_mode was = mode;

    mode = to;
    return was;
}

/* --- threads and forks --- */

/* Blocks of the class in a thread's list. */
static int16_t room_of(uint32_t size_class)
{
    size_t room = thread_list_bytes / cr_cpu_class_bytes(size_class);

    return (int16_t)(room ? room : MOST_CACHED);
}

/* Keeps the lists of a thread that ends for another one, if there is room. */
static void lists_retire(thread_lists *l)
{
    retired *r = malloc(sizeof *r);

    if (!r)
        return;
    *r = (retired){.lists = *l};
    for (uint32_t c = 1; c < THREAD_CLASSES; c++)
        r->bytes += (size_t)(room_of(c) - l->room[c]) * cr_cpu_class_bytes(c);
    pthread_mutex_lock(&lock);
    bool kept = r->bytes && cache.retired_count < MOST_RETIRED;
    if (kept) {
        r->next = cache.retired;
        cache.retired = r;
        cache.retired_bytes += r->bytes;
        cache.retired_count++;
    }
    pthread_mutex_unlock(&lock);
    if (kept)
        memset(l->first, 0, sizeof l->first);
    else
        free(r);
}

static void end_thread(void *lists)
{
    (void)lists;
    count_used(mine.used);
    mine.used = 0;
    lists_retire(&mine);
    for (uint32_t c = 0; c < THREAD_CLASSES; c++) {
        mine.room[c] = 0;
        while (mine.first[c]) {
            void *p = mine.first[c];
            mine.first[c] = *(void **)p;
            shared_release(p, c, c);
        }
    }
    mine.ready = false;
}

static void pool_before_fork(void) { pthread_mutex_lock(&lock); }
static void pool_after_fork(void) { pthread_mutex_unlock(&lock); }

static void pool_start(void)
{
    pthread_key_create(&thread_end, end_thread);
    pthread_atfork(pool_before_fork, pool_after_fork, pool_after_fork);
}

static void start_thread(void)
{
    pthread_once(&once, pool_start);
    pthread_setspecific(thread_end, &mine);
    pthread_mutex_lock(&lock);
    retired *r = retired_take();
    pthread_mutex_unlock(&lock);
    if (r)
        mine = r->lists;
    for (uint32_t c = 1; !r && c < THREAD_CLASSES; c++)
        mine.room[c] = room_of(c);
    mine.ready = true;
    free(r);
}

/* --- get and release --- */

static CR_NOINLINE void *no_memory(size_t size)
{
    cr_fail(CR_MEMORY,
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate %zu "
            "bytes. Error code 12 (Cannot allocate memory)",
            size);
    return NULL;
}

/* A block of the thread's list, or NULL. */
static inline void *list_get(uint32_t c)
{
    if (CR_UNLIKELY(c >= THREAD_CLASSES) || !mine.first[c])
        return NULL;
    void *p = mine.first[c];
    mine.first[c] = *(void **)p;
    mine.room[c]++;
    count_small((int64_t)cr_cpu_class_bytes(c));
    return p;
}

static CR_NOINLINE void *get_slowly(size_t size, uint32_t *size_class, uint32_t larger)
{
    uint32_t asked = *size_class, found = asked;
    void *p = NULL;

    if (CR_UNLIKELY(!mine.ready)) {
        start_thread();
        p = list_get(asked);
    }
    if (p)
        return p;
    p = shared_get(&found, mode == CR_MEMORY_FAST || asked < THREAD_CLASSES ? 0 : larger);
    if (!p)
        p = system_get(asked);
    if (!p) {
        cr_cpu_memory_trim();
        p = system_get(asked);
    }
    if (!p)
        return no_memory(size);
    if (asked < THREAD_CLASSES)
        count_small((int64_t)cr_cpu_class_bytes(asked));
    else
        count_used((int64_t)cr_cpu_class_bytes(asked));
    *size_class = found | (found - asked) << LARGER_BY;
    return p;
}

/* Poisons the block's bytes after the requested ones, so that sanitizers report their use. */
static inline void *fenced(void *p, size_t size, uint32_t size_class)
{
#ifdef CR_SANITIZE
    if (p)
        ASAN_POISON_MEMORY_REGION((char *)p + size, cr_cpu_class_bytes(size_class) - size);
#endif
    (void)size, (void)size_class;
    return p;
}

static inline void unfenced(void *p, uint32_t size_class)
{
#ifdef CR_SANITIZE
    ASAN_UNPOISON_MEMORY_REGION(p, cr_cpu_class_bytes(size_class));
#endif
    (void)p, (void)size_class;
}

void cr_cpu_extend(void *p, size_t size)
{
#ifdef CR_SANITIZE
    ASAN_UNPOISON_MEMORY_REGION(p, size);
#endif
    (void)p, (void)size;
}

static void *get(size_t size, uint32_t *size_class, uint32_t larger)
{
    if (CR_UNLIKELY(size > (size_t)1 << 47 || cr_alloc_must_fail()))
        return no_memory(size);
    *size_class = class_of_size(size);
    void *p = list_get(*size_class);
    if (CR_LIKELY(p != NULL))
        return p;
    p = get_slowly(size, size_class, larger);
    return fenced(p, size, *size_class);
}

void *cr_cpu_get(size_t size, uint32_t *size_class) { return get(size, size_class, 2); }

void *cr_cpu_get_scratch(size_t size, uint32_t *size_class)
{
    return get(size, size_class, CLASSES);
}

void cr_cpu_release(void *p, uint32_t size_class)
{
    uint32_t own = size_class & CLASS, asked = own - (size_class >> LARGER_BY);
    int64_t bytes = (int64_t)cr_cpu_class_bytes(asked);

    unfenced(p, size_class);
#ifdef CR_MEAN
    memset(p, 0xA5, cr_cpu_class_bytes(own));
#endif
    if (CR_LIKELY(size_class < THREAD_CLASSES) && CR_LIKELY(mine.room[size_class] > 0)) {
        *(void **)p = mine.first[size_class];
        mine.first[size_class] = p;
        mine.room[size_class]--;
        count_small(-bytes);
        return;
    }
    count_used(-bytes);
    shared_release(p, own, asked);
}

static void *cpu_get(int index, size_t size, uint32_t *size_class)
{
    (void)index;
    return cr_cpu_get(size, size_class);
}

static void cpu_release(int index, void *p, uint32_t size_class)
{
    (void)index;
    cr_cpu_release(p, size_class);
}

static const char *cpu_copy(int index, void *to, const void *from, size_t n)
{
    (void)index;
    memmove(to, from, n);
    return NULL;
}

cr_device_ops cr_cpu_ops = {.get = cpu_get,
                            .release = cpu_release,
                            .copy_in = cpu_copy,
                            .copy_out = cpu_copy,
                            .copy = cpu_copy};

const cr_device_facts cr_cpu_facts = {
    .ops = &cr_cpu_ops, .dialect = "c", .low_precision = CR_BF16};

void cr_cpu_memory_stats(cr_memory_stats *out)
{
    int64_t cached = 0;

    if (!out)
        return;
    count_used(mine.used);
    mine.used = 0;
    for (uint32_t c = 1; c < THREAD_CLASSES; c++)
        for (void *p = mine.first[c]; p; p = *(void **)p)
            cached += (int64_t)cr_cpu_class_bytes(c);
    pthread_mutex_lock(&lock);
    cached += (int64_t)(cache.bytes + cache.retired_bytes);
    pthread_mutex_unlock(&lock);
    *out = (cr_memory_stats){
        .used = atomic_load(&used_bytes), .cached = cached, .peak = atomic_load(&peak_bytes)};
}

void cr_cpu_memory_reset_peak(void)
{
    count_used(mine.used);
    mine.used = 0;
    atomic_store(&peak_bytes, atomic_load(&used_bytes));
}
