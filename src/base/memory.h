/* memory.h - host memory for the library's own records: nodes, strings, tables.
 *
 * Tensor bytes come from device/.  Every allocation of this room goes through cr_alloc, so that
 * CR_FAIL_ALLOC=n can make the n-th one fail (tests/faults).  In the mean build every growth of
 * an array moves it. */
#ifndef CR_BASE_MEMORY_H
#define CR_BASE_MEMORY_H

#include "base/error.h"

/* `size` bytes with undefined contents; size 0 is allowed.  NULL with a CR_MEMORY record when
 * memory is short.  The caller owns the block and frees it with cr_free. */
CR_API void *cr_alloc(size_t size);
CR_API void *cr_alloc_zero(size_t size);
/* Grows or shrinks a block.  NULL on failure, and `old` is then unchanged. */
CR_API void *cr_realloc(void *old, size_t size);
CR_API void cr_free(void *p);
char *cr_strdup(const char *s);
char *cr_strndup(const char *s, size_t n);

/* Bytes of all blocks that malloc gave out in this process and that are not freed; 0 with a C
 * library other than glibc.  cr_heap_since is their growth, or 0 if they shrank; blocks of
 * other threads are counted, too. */
size_t cr_heap_bytes(void);
size_t cr_heap_since(size_t before);

/* Makes the n-th allocation from now fail once.  0 switches this off.  For the fault tests. */
CR_API void cr_fail_alloc_after(uint64_t n);
/* True when the allocation in progress must fail.  Device allocators call this too. */
bool cr_alloc_must_fail(void);

/* Growable arrays: `CR_VEC(type) v = {0}`; the items are v.at[0..v.len). */
#define CR_VEC(type)                                                                           \
    struct {                                                                                   \
        type *at;                                                                              \
        size_t len, cap;                                                                       \
    }

/* Reserves room for `more` further items.  Fails with CR_MEMORY and leaves `v` unchanged. */
#define cr_vec_reserve(v, more)                                                                \
    cr_vec_reserve_bytes((void **)&(v)->at, (v)->len, &(v)->cap, (more), sizeof *(v)->at)
/* Appends an item.  The room must have been reserved with cr_vec_reserve. */
#define cr_vec_put(v, item) ((v)->at[(v)->len++] = (item))
#define cr_vec_drop(v)                                                                         \
    do {                                                                                       \
        cr_free((v)->at);                                                                      \
        (v)->at = NULL;                                                                        \
        (v)->len = (v)->cap = 0;                                                               \
    } while (0)
CR_MUST cr_status cr_vec_reserve_bytes(void **at, size_t len, size_t *cap, size_t more,
                                       size_t item);

/* An arena: pieces that are freed together.  `cr_arena a = {0}` is an empty arena.  Set
 * `mapped` for large temporary arenas: their blocks are mmap'ed, so freeing them leaves no
 * holes in the heap; `tight` for pieces that are aligned to 8 bytes. */
typedef CR_VEC(const void *) cr_arena_pieces;
typedef struct {
    struct cr_arena_block *last;
    bool mapped, tight;
    cr_arena_pieces *pieces; /* gets the address of each piece; or NULL */
} cr_arena;

/* A zeroed piece, aligned to 16 bytes unless the arena is tight; the arena owns it.  NULL with
 * a CR_MEMORY record when memory is short. */
void *cr_arena_get(cr_arena *a, size_t size);
char *cr_arena_text(cr_arena *a, const char *s, size_t n);
void cr_arena_drop(cr_arena *a);
/* Bytes of its blocks. */
size_t cr_arena_bytes(const cr_arena *a);
/* Bytes of its pieces; and one block for so many bytes of pieces, for an arena without blocks:
 * an arena that gets the same pieces as another one then takes no more.  CR_MEMORY. */
size_t cr_arena_used(const cr_arena *a);
CR_MUST cr_status cr_arena_reserve(cr_arena *a, size_t size);

#endif
