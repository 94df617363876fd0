/* map.h - a hash map from byte strings to pointers.  Keys are copied. */
#ifndef CR_BASE_MAP_H
#define CR_BASE_MAP_H

#include "base/error.h"

typedef struct {
    struct cr_map_slot *slots;
    size_t len, cap; /* cap: slots, zero or a power of two */
} cr_map;

/* The value stored under the key, or NULL. */
void *cr_map_get(const cr_map *m, const char *key, size_t key_len);
/* Stores `value`, which must not be NULL, under the key; replaces an earlier value.  Fails with
 * CR_MEMORY and leaves `m` unchanged. */
CR_MUST cr_status cr_map_set(cr_map *m, const char *key, size_t key_len, void *value);
void cr_map_drop(cr_map *m);

/* 64-bit FNV-1a.  For keys and hashes that stay in memory. */
uint64_t cr_hash(const void *bytes, size_t len);
static inline uint64_t cr_hash_words(const uint64_t *word, size_t n)
{
    uint64_t h = n;

    for (size_t i = 0; i < n; i++) {
        h = (h ^ word[i]) * 0x9ddfea08eb382d69u;
        h ^= h >> 29;
    }
    return h;
}

#endif
