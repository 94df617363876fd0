/* Host memory, growable arrays and arenas. */
#include "base/memory.h"
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Atomic uint64_t fail_countdown;

void cr_fail_alloc_after(uint64_t n) { atomic_store(&fail_countdown, n); }

bool cr_alloc_must_fail(void)
{
    if (CR_LIKELY(atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0))
        return false;
    return atomic_fetch_sub(&fail_countdown, 1) == 1;
}

static void *out_of_memory(size_t size)
{
    cr_fail(CR_MEMORY, "not enough memory: you tried to allocate %zu bytes.", size);
    return NULL;
}

size_t cr_heap_bytes(void)
{
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
#endif
#endif
    return 0;
}

size_t cr_heap_since(size_t before)
{
    size_t now = cr_heap_bytes();

    return now > before ? now - before : 0;
}

void *cr_alloc(size_t size)
{
    void *p = cr_alloc_must_fail() ? NULL : malloc(size ? size : 1);

    return CR_LIKELY(p != NULL) ? p : out_of_memory(size);
}

void *cr_alloc_zero(size_t size)
{
    void *p = cr_alloc(size);

    if (p)
        memset(p, 0, size);
    return p;
}

void *cr_realloc(void *old, size_t size)
{
    void *p = cr_alloc_must_fail() ? NULL : realloc(old, size ? size : 1);

    return CR_LIKELY(p != NULL) ? p : out_of_memory(size);
}

void cr_free(void *p) { free(p); }

char *cr_strndup(const char *s, size_t n)
{
    char *copy = cr_alloc(n + 1);

    if (!copy)
        return NULL;
    memcpy(copy, s, n);
    copy[n] = 0;
    return copy;
}

char *cr_strdup(const char *s) { return cr_strndup(s, strlen(s)); }

#ifdef CR_MEAN
/* Mean build: the capacity is exact and growth always moves the array. */
cr_status cr_vec_reserve_bytes(void **at, size_t len, size_t *cap, size_t more, size_t item)
{
    if (len + more <= *cap)
        return CR_OK;
    void *p = cr_alloc((len + more) * item);
    CR_NEED(p);
    if (len)
        memcpy(p, *at, len * item);
    if (*at)
        memset(*at, 0xA5, *cap * item);
    cr_free(*at);
    *at = p;
    *cap = len + more;
    return CR_OK;
}
#else
cr_status cr_vec_reserve_bytes(void **at, size_t len, size_t *cap, size_t more, size_t item)
{
    size_t want = len + more, grown = *cap * 2, bytes;

    if (CR_LIKELY(want <= *cap))
        return CR_OK;
    if (grown < want)
        grown = want;
    if (grown < 8)
        grown = 8;
    if (CR_MUL_OVERFLOW(grown, item, &bytes))
        return cr_fail(CR_MEMORY, "not enough memory: an array of %zu items is too long",
                       grown);
    void *p = cr_realloc(*at, bytes);
    CR_NEED(p);
    *at = p;
    *cap = grown;
    return CR_OK;
}
#endif

struct cr_arena_block {
    struct cr_arena_block *before;
    size_t used, size;
    _Alignas(16) char bytes[];
};

/* Bytes of an arena's blocks.  The first block is small; each later block is twice as large, up
 * to MOST_BYTES.  Sanitizers get one piece a block, so that they find overruns of a piece. */
#if defined(CR_MEAN) || defined(CR_SANITIZE)
enum { FIRST_BYTES = 1, MOST_BYTES = 1, MAPPED_BYTES = 0 };
#else
enum { FIRST_BYTES = 2048, MOST_BYTES = 16384, MAPPED_BYTES = 256 << 10 };
#endif

static void *block_map(size_t bytes)
{
    void *p = cr_alloc_must_fail() ? MAP_FAILED
                                   : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? out_of_memory(bytes) : p;
}

static struct cr_arena_block *block_of(const cr_arena *a, size_t bytes)
{
    struct cr_arena_block *b =
        a->mapped && MAPPED_BYTES > 0 ? block_map(bytes) : cr_alloc(bytes);

    if (!b)
        return NULL;
    b->before = a->last;
    b->used = 0;
    b->size = bytes - sizeof *b;
    return b;
}

static struct cr_arena_block *block_new(const cr_arena *a, size_t need)
{
    size_t twice = a->last ? 2 * (a->last->size + sizeof *a->last) : FIRST_BYTES;
    size_t bytes = a->mapped && MAPPED_BYTES > 0 ? MAPPED_BYTES
                   : twice < MOST_BYTES          ? twice
                                                 : MOST_BYTES;

    return block_of(a, bytes < sizeof(struct cr_arena_block) + need
                           ? sizeof(struct cr_arena_block) + need
                           : bytes);
}

cr_status cr_arena_reserve(cr_arena *a, size_t size)
{
    struct cr_arena_block *b;

    if (a->last || !size || MOST_BYTES == 1)
        return CR_OK;
    b = block_of(a, sizeof *b + size);
    CR_NEED(b);
    a->last = b;
    return CR_OK;
}

size_t cr_arena_used(const cr_arena *a)
{
    size_t bytes = 0;

    for (const struct cr_arena_block *b = a->last; b; b = b->before)
        bytes += b->used;
    return bytes;
}

void *cr_arena_get(cr_arena *a, size_t size)
{
    size_t align = a->tight ? 8 : 16, need = (size + align - 1) & ~(align - 1);
    struct cr_arena_block *b = a->last;

    if (a->pieces && !need)
        need = align; /* two pieces never have one address, also when one is empty */
    if (!b || b->size - b->used < need) {
        b = block_new(a, need);
        if (!b)
            return NULL;
        a->last = b;
    }
    void *p = b->bytes + b->used;
    if (a->pieces) {
        if (cr_vec_reserve(a->pieces, 1))
            return NULL;
        cr_vec_put(a->pieces, p);
    }
    b->used += need;
    return memset(p, 0, size);
}

char *cr_arena_text(cr_arena *a, const char *s, size_t n)
{
    char *copy = cr_arena_get(a, n + 1);

    if (copy)
        memcpy(copy, s, n);
    return copy;
}

size_t cr_arena_bytes(const cr_arena *a)
{
    size_t bytes = 0;

    for (const struct cr_arena_block *b = a->last; b; b = b->before)
        bytes += sizeof *b + b->size;
    return bytes;
}

void cr_arena_drop(cr_arena *a)
{
    while (a->last) {
        struct cr_arena_block *b = a->last;
        a->last = b->before;
        if (a->mapped && MAPPED_BYTES > 0)
            munmap(b, sizeof *b + b->size);
        else
            cr_free(b);
    }
}
