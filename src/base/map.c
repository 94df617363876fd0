/* Open addressing with linear probing; at most half full; nothing is removed. */
#include "base/map.h"
#include "base/memory.h"
#include <string.h>

struct cr_map_slot {
    char *key; /* NULL when free */
    size_t key_len;
    uint64_t hash;
    void *value;
};

uint64_t cr_hash(const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h ^ h >> 29;
}

/* The slot that holds the key, or the free one where it belongs. */
static struct cr_map_slot *find(const cr_map *m, const char *key, size_t len, uint64_t hash)
{
    size_t i = hash & (m->cap - 1);

    for (;; i = (i + 1) & (m->cap - 1)) {
        struct cr_map_slot *s = &m->slots[i];
        if (!s->key)
            return s;
        if (s->hash == hash && s->key_len == len && !memcmp(s->key, key, len))
            return s;
    }
}

void *cr_map_get(const cr_map *m, const char *key, size_t key_len)
{
    return m->cap ? find(m, key, key_len, cr_hash(key, key_len))->value : NULL;
}

static cr_status grow(cr_map *m)
{
    cr_map wide = {.cap = m->cap ? m->cap * 2 : 16, .len = m->len};

    wide.slots = cr_alloc_zero(wide.cap * sizeof *wide.slots);
    if (!wide.slots)
        return CR_MEMORY;
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].key)
            *find(&wide, m->slots[i].key, m->slots[i].key_len, m->slots[i].hash) = m->slots[i];
    cr_free(m->slots);
    *m = wide;
    return CR_OK;
}

cr_status cr_map_set(cr_map *m, const char *key, size_t key_len, void *value)
{
    uint64_t hash = cr_hash(key, key_len);

    CR_ASSERT(value);
    if (m->len * 2 >= m->cap)
        CR_TRY(grow(m));
    struct cr_map_slot *s = find(m, key, key_len, hash);
    if (!s->key) {
        char *copy = cr_strndup(key, key_len);
        if (!copy)
            return CR_MEMORY;
        *s = (struct cr_map_slot){copy, key_len, hash, NULL};
        m->len++;
    }
    s->value = value;
    return CR_OK;
}

void cr_map_drop(cr_map *m)
{
    for (size_t i = 0; i < m->cap; i++)
        cr_free(m->slots[i].key);
    cr_free(m->slots);
    *m = (cr_map){0};
}
