/* memory.h - host memory for the library's own records.
 *
 * Tensor bytes come from device/; this is for nodes, strings and tables.  All
 * of it passes through cr_alloc, so CR_FAIL_ALLOC=n can make the n-th request
 * fail (tests/faults), and the mean build can make every growth move. */
#ifndef CR_BASE_MEMORY_H
#define CR_BASE_MEMORY_H

#include "base/error.h"

/* `size` bytes, undefined; NULL with a CR_MEMORY record when there are none.
 * The caller owns the block and frees it with cr_free.  size 0 is allowed. */
CR_API void *cr_alloc(size_t size);
CR_API void *cr_alloc_zero(size_t size);
/* Grows or shrinks; on failure NULL and `old` is untouched. */
CR_API void *cr_realloc(void *old, size_t size);
CR_API void cr_free(void *p);
char *cr_strdup(const char *s);
char *cr_strndup(const char *s, size_t n);

/* Counts every request in this process; the n-th from now on fails once.
 * 0 switches it off.  For the fault tests. */
CR_API void cr_fail_alloc_after(uint64_t n);
/* True when the request now being made must fail; device allocators ask it too. */
bool cr_alloc_must_fail(void);

/* Growable arrays: `CR_VEC(type) v = {0}`, items at v.at[0..v.len). */
#define CR_VEC(type)                                                                           \
    struct {                                                                                   \
        type *at;                                                                              \
        size_t len, cap;                                                                       \
    }

/* Room for `more` further items in `v`.  CR_MEMORY on failure, `v` unchanged. */
#define cr_vec_reserve(v, more)                                                                \
    cr_vec_reserve_bytes((void **)&(v)->at, (v)->len, &(v)->cap, (more), sizeof *(v)->at)
/* Appends after a successful cr_vec_reserve. */
#define cr_vec_put(v, item) ((v)->at[(v)->len++] = (item))
#define cr_vec_drop(v)                                                                         \
    do {                                                                                       \
        cr_free((v)->at);                                                                      \
        (v)->at = NULL;                                                                        \
        (v)->len = (v)->cap = 0;                                                               \
    } while (0)
CR_MUST cr_status cr_vec_reserve_bytes(void **at, size_t len, size_t *cap, size_t more,
                                       size_t item);

/* An arena: many blocks, freed together.  `cr_arena a = {0}` is empty.  One with `mapped` set has mappings of its own,
 * which leave no holes among what stays: for much that is needed for a while. */
typedef struct {
    struct cr_arena_block *last;
    bool mapped;
} cr_arena;

/* 16-byte aligned, zeroed.  NULL with a CR_MEMORY record when there is none. */
void *cr_arena_get(cr_arena *a, size_t size);
char *cr_arena_text(cr_arena *a, const char *s, size_t n);
void cr_arena_drop(cr_arena *a);

#endif
