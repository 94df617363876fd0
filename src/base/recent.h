/* recent.h - a table from byte strings to pointers that drops entries which are not used.
 *
 * Entries are in one of two generations.  A used one is in the young, which becomes the old
 * when it has `most` entries, or entries of `most_bytes` bytes; the entries of the old are
 * dropped then.  So the last entries that were used are kept, `most` of them or so many bytes,
 * and at most twice as many; in bytes, one entry more of each generation, because an entry is
 * charged when it is in the table. */
#ifndef CR_BASE_RECENT_H
#define CR_BASE_RECENT_H

#include "base/map.h"

typedef struct cr_recent_entry cr_recent_entry;

typedef struct {
    cr_map map;
    cr_recent_entry *first;
    size_t len, bytes;
} cr_generation;

/* Begins as {.most, .most_bytes, .drop}; most_bytes 0: bytes are not counted. */
typedef struct {
    size_t most, most_bytes;
    void (*drop)(void *value);
    cr_generation young, old;
} cr_recent;

/* The value under the key, or NULL.  It is valid until the next cr_recent_set or cr_recent_get
 * with another key. */
void *cr_recent_get(cr_recent *r, const char *key, size_t key_len);
/* Stores `value`, which must not be NULL, under a key that has none.  Fails with CR_MEMORY and
 * leaves `value` to the caller. */
CR_MUST cr_status cr_recent_set(cr_recent *r, const char *key, size_t key_len, void *value);
/* Counts an entry of the young generation, which a get or a set of its key has put there, with
 * so many bytes more. */
void cr_recent_charge(cr_recent *r, const char *key, size_t key_len, size_t bytes);

#endif
